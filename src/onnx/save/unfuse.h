/* SPDX-License-Identifier: Apache-2.0 */
/* Steps back to nodes: an anchor with prologue and epilogue becomes the anchor and the nodes that its steps were. */
#ifndef OPF_ONNX_SAVE_UNFUSE_H
#define OPF_ONNX_SAVE_UNFUSE_H

#include "graph/graph.h"

/* Bodies included. Each node gets its step's name back; results that were values before are those values again. What is
   known of types and shapes stays known. OPF_OUT_OF_MEMORY or OPF_OK. */
opf_status opf_save_unfuse(opf_graph *graph, opf_error *error);

#endif
