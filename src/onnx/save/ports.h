/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations of values: name, type and shape, as inputs and outputs have them. */
#ifndef OPF_ONNX_SAVE_PORTS_H
#define OPF_ONNX_SAVE_PORTS_H

#include "graph/graph.h"
#include "onnx/save/protobuf.h"

/* The fields of a ValueInfoProto, out of what is known of the value; documentation and metadata stay those of `kept`,
   the one in the file (n 0: none). */
void opf_save_write_port(const opf_graph *graph, opf_value_id id, const char *name, opf_pb_span kept, opf_text *out);
/* A ValueInfoProto with type and shape, and no dimension that is negative for want of a name. */
bool opf_save_port_is_complete(opf_pb_span port);

#endif
