/* SPDX-License-Identifier: Apache-2.0 */
/* What importer rows share: an attribute that became an input, and back. */
#ifndef OPF_OPS_IMPORT_H
#define OPF_OPS_IMPORT_H

#include "ops/op.h"

/* Attribute `name` (ints, or one int) becomes constant int64 input number `input` (rank 1; an INT becomes one element), and is removed. */
opf_status opf_lift_ints(opf_graph *graph, opf_node_id node, const char *name, uint32_t input, opf_error *error);
/* A float attribute becomes a rank-0 constant input of the type of input 0. */
opf_status opf_lift_float(opf_graph *graph, opf_node_id node, const char *name, uint32_t input, opf_error *error);
/* The inverse: constant input `input` becomes attribute `name`; OPF_UNSUPPORTED when it is no constant. */
opf_status opf_lower_ints(opf_graph *graph, opf_node_id node, const char *name, uint32_t input, opf_error *error);
opf_status opf_lower_float(opf_graph *graph, opf_node_id node, const char *name, uint32_t input, opf_error *error);
/* Drops an attribute that later opsets no longer have; nothing to invert. */
opf_status opf_drop_attr(opf_graph *graph, opf_node_id node, const char *name);
/* A row's function that says there is nothing to do. */
opf_status opf_import_same(opf_graph *graph, opf_node_id node, int32_t opset, opf_error *error);
/* Axis of the old attributes axis=/broadcast= of opset 6 binary operators: inserts an Unsqueeze of input 1 so that numpy
   broadcasting gives the same. Needs the ranks: fails by name when they are not known. */
opf_status opf_lift_broadcast_6(opf_graph *graph, opf_node_id node, int32_t opset, opf_error *error);

opf_status opf_lower_broadcast_6(opf_graph *graph, opf_node_id node, int32_t opset, opf_error *error);
/* PRelu before opset 7: a slope of rank 1 belongs to axis 1. */
opf_status opf_lift_channel_slope_6(opf_graph *graph, opf_node_id node, int32_t opset, opf_error *error);
/* Variadic operators before opset 8 did not broadcast: all inputs must be of one shape. */
opf_status opf_lower_same_shapes(opf_graph *graph, opf_node_id node, int32_t opset, opf_error *error);

#endif
