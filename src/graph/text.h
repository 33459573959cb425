/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ONNX's textual syntax, both ways: `agraph (float[N,3] x) => (float[N,4] y) <float[3,4] w = {…}> { y = MatMul(x, w) }`.
 * Steps are written after the node as `| Add(., r) | Relu(.)` (epilogue) and before the arguments as `[Add(., r)]`
 * (prologue): an extension that the reader understands too. In a step `.` is what the step before made, `.0` what came
 * in, `.2` the result of the second step, `@1` own input 1 of the node; `-> sum` stores the step as output sum; a step is
 * a float unless its type stands before it: `| float16 Cast<to = 10>(.)`. A region is `y = Elementwise() | Add(a, b) | …`.
 * Captures are written after a semicolon, `If<…>(c; x, h)`, and are the last inputs of every body; the reader also takes
 * bodies that just use names from outside. Dimensions may be expressions: `float[2*S+1, ?7, "batch size"]`. Constant
 * nodes are read as constants. A node without a [name] is named after its first output.
 */
#ifndef OPF_GRAPH_TEXT_H
#define OPF_GRAPH_TEXT_H

#include "graph/graph.h"

/* The operator of this name, or NULL; the text form knows no operators itself. */
typedef const opf_op *(*opf_find_op)(const char *domain, const char *op_type);

/* with_data: constants of any size are written; otherwise large ones are `{…}` and cannot be read back. */
void opf_text_graph(opf_text *text, const opf_graph *graph, bool with_data);
void opf_text_node(opf_text *text, const opf_graph *graph, opf_node_id node);

/* A model: optional `<ir_version: 8, opset_import: ["" : 17]>` and one graph. Errors name line and column.
   ir_version and opset receive 0 when the text does not say. */
opf_status opf_text_parse(const char *text, opf_find_op find, opf_arena *arena, opf_dims *dims, opf_const_pool *consts, opf_graph **graph,
                          int64_t *ir_version, int64_t *opset, opf_error *error);

#endif
