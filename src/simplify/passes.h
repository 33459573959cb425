/* SPDX-License-Identifier: Apache-2.0 */
/* What the passes share. All of them sweep once in topological order, so a chain goes in one round. */
#ifndef OPF_SIMPLIFY_PASSES_H
#define OPF_SIMPLIFY_PASSES_H

#include "ops/op.h"
#include "simplify/simplify.h"

/* A node that generic passes may look into: a known operator, no bodies, no captures, no steps. */
static inline bool opf_simplify_is_plain(const opf_node *node)
{
    return opf_node_is_alive(node) && node->op != NULL && node->n_bodies == 0 && node->n_captures == 0 &&
           node->prologue.n == 0 && node->epilogue.n == 0;
}

static inline opf_value_id opf_simplify_input(const opf_node *node, uint32_t i)
{
    return i < node->n_own_inputs ? node->inputs[i] : 0;
}

/* Same rank and every dimension proven equal. */
bool opf_simplify_same_shape(const opf_info *a, const opf_info *b);

/* The permutation of a Transpose, its default resolved. False: the rank is not known. */
bool opf_simplify_perm(const opf_graph *graph, const opf_node *node, int64_t *perm, int32_t *rank);

/* Transposes go down past elementwise nodes. */
opf_status opf_sink_transposes(opf_graph *graph, bool *changed, opf_error *error);

/* Gathers of constant neighbours become slices. */
opf_status opf_slice_gathers(opf_graph *graph, bool *changed, opf_error *error);

/* Transposes of transposes, reshapes of reshapes, casts of lossless casts; Reshape targets that need no arithmetic. */
opf_status opf_merge_movement(opf_graph *graph, bool *changed, opf_error *error);

#endif
