/* SPDX-License-Identifier: Apache-2.0 */
/* From the newest forms of operators, in which graphs are kept, to those of one opset. */
#ifndef OPF_ONNX_SAVE_LOWER_H
#define OPF_ONNX_SAVE_LOWER_H

#include "onnx/load.h"

/* Changes every node, in bodies too, to the form that it has in `opset` of ONNX's own domain. Nodes of com.microsoft
   and other domains stay as they are. OPF_UNSUPPORTED names the first node that has neither form nor spelling there;
   the graph is then of no use any more. */
opf_status opf_save_lower(opf_graph *graph, int32_t opset, opf_error *error);

#endif
