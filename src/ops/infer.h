/* SPDX-License-Identifier: Apache-2.0 */
/* Shape inference: what infer functions of operators call, and the pass over a graph. */
#ifndef OPF_OPS_INFER_H
#define OPF_OPS_INFER_H

#include "ops/op.h"

/* ---- for infer functions ---- */

/* Sets output o: dims are copied. */
opf_status opf_infer_set(opf_infer *infer, uint32_t o, int32_t rank, const opf_dim *dims, opf_error *error);
opf_status opf_infer_set_values(opf_infer *infer, uint32_t o, int32_t n, const opf_dim *values, opf_error *error);
opf_status opf_infer_same(opf_infer *infer, uint32_t o, uint32_t i, opf_error *error); /* the shape of input i */
/* Output 0 from the broadcast of the first n inputs (numpy). A dim that may broadcast or not is unknown; a proven
   mismatch is an error that names both shapes. Known values are not carried. */
opf_status opf_infer_broadcast(opf_infer *infer, uint32_t n, opf_error *error);
opf_status opf_broadcast_dim(opf_dims *table, opf_dim a, opf_dim b, opf_dim *result); /* OPF_INVALID_INPUT: never match */
/* The elements of input i if they are known integers (constants count): false if not, or absent. */
bool opf_infer_values(const opf_infer *infer, uint32_t i, const opf_dim **values, int32_t *n);
bool opf_infer_numbers(const opf_infer *infer, uint32_t i, int64_t *numbers, int32_t room, int32_t *n); /* all numbers */
bool opf_infer_has(const opf_infer *infer, uint32_t i); /* input i is there */
/* Axis in [-rank, rank) made positive; OPF_INVALID_MODEL otherwise. */
opf_status opf_normalize_axis(int64_t axis, int32_t rank, int32_t *result, opf_error *error);
/* "float[N,3,224]" for messages. */
const char *opf_info_string(const opf_info *info, const opf_dims *dims, opf_arena *arena);

/* ---- the pass ---- */

/* Infers every value of the graph, bodies included, from the infos of its inputs and constants, in topological order.
   Errors name the node and the operator. Infos of other values are overwritten. */
opf_status opf_infer_graph(opf_graph *graph, opf_error *error);
/* Stores the info of a value that is a constant, if it has none yet. */
opf_status opf_infer_constant(const opf_graph *graph, opf_value_id value, opf_error *error);
/* Infers one node from the infos of the graph and stores the result there: for importers, which lift node after node. */
opf_status opf_infer_update(opf_graph *graph, opf_node_id node, opf_error *error);
/* Infers the bodies of a node from what is known of its inputs. */
opf_status opf_infer_bodies(const opf_graph *graph, opf_node_id node, opf_error *error);
/* Infers one node into out[n_outputs], from infos in `infos` indexed by value id (the graph's own are not read). Steps are
   included: the shape of output 0 is the anchor's. This serves specialisation, where infos hold numbers. */
opf_status opf_infer_node(const opf_graph *graph, opf_node_id node, const opf_info *infos, opf_arena *arena, opf_dims *dims, opf_info *out,
                          opf_error *error);

/* The type of output 0 as the operator itself makes it: what the first step of its epilogue reads. NONE: not known. */
opf_type opf_infer_own_type(const opf_graph *graph, opf_node_id node);

#endif
