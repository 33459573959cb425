/* SPDX-License-Identifier: Apache-2.0 */
/* What importer rows share beyond import.h: nodes put around a node, and refusals of older forms. */
#ifndef OPF_OPS_LIFT_H
#define OPF_OPS_LIFT_H

#include "ops/import.h"

/* A new node of one output, standing for the same nodes of the model as `like`; *out is its result. */
opf_status opf_lift_add_node(opf_graph *graph, opf_node_id like, const opf_op *op, const opf_value_id *inputs,
                             uint32_t n_inputs, opf_node_id *node, opf_value_id *out, opf_error *error);
/* The node reads `before` as input 0, and its output 0 goes through a new node `after` of operator op, whose input 1 is
   `extra` unless that is 0. */
opf_status opf_lift_wrap(opf_graph *graph, opf_node_id node, opf_value_id before, const opf_op *op, opf_value_id extra,
                         opf_node_id *after, opf_error *error);
/* The node sees input 0 flattened to two dimensions at `axis`, and its result gets the shape of the input back. */
opf_status opf_lift_flatten(opf_graph *graph, opf_node_id node, int64_t axis, opf_error *error);

/* Inverses that only refuse types that older opsets lack: the first is for functions of this kind. */
opf_status opf_lower_no_types(opf_graph *graph, opf_node_id node, opf_types missing, int32_t opset, opf_error *error);
opf_status opf_lower_no_bfloat16(opf_graph *graph, opf_node_id node, int32_t opset, opf_error *error);
opf_status opf_lower_no_bool(opf_graph *graph, opf_node_id node, int32_t opset, opf_error *error);
opf_status opf_lower_no_8_bit(opf_graph *graph, opf_node_id node, int32_t opset, opf_error *error); /* int8, uint8 */
opf_status opf_lower_no_integers(opf_graph *graph, opf_node_id node, int32_t opset, opf_error *error);
opf_status opf_lower_only_floats(opf_graph *graph, opf_node_id node, int32_t opset, opf_error *error);
/* An attribute gets another name; nothing happens without it. */
opf_status opf_rename_attr(opf_graph *graph, opf_node_id node, const char *from, const char *to, opf_error *error);
/* An attribute that older opsets lack goes; it must have the value that they imply (an int, or equal ints). */
opf_status opf_lower_attr(opf_graph *graph, opf_node_id node, const char *name, int64_t implied, opf_error *error);

#endif
