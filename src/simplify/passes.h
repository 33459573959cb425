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

/* What a pass does with a node. */
typedef opf_status opf_simplify_visit(opf_graph *graph, opf_node_id id, bool *changed, opf_error *error);
/* Visits the plain nodes that have a first operand and a result. */
opf_status opf_simplify_each(opf_graph *graph, opf_simplify_visit *visit, bool *changed, opf_error *error);

/* Same rank and every dimension proven equal. */
bool opf_simplify_same_shape(const opf_info *a, const opf_info *b);

/* The permutation of a Transpose, its default resolved. False: the rank is not known. */
bool opf_simplify_perm(const opf_graph *graph, const opf_node *node, int64_t *perm, int32_t *rank);

/* The constant target that takes a tensor of shape `in` to shape `out`: false if two dimensions would be -1, or one is
   the number 0 (which says "copy"). */
bool opf_simplify_target(const opf_info *in, const opf_info *out, int64_t *target);
/* The node becomes Reshape(its input 0, target), with as many dimensions as its result. False: memory is out. */
bool opf_simplify_make_reshape(opf_graph *graph, opf_node_id node, const int64_t *target);

/* The constants that a node of constants makes without touching the data, one for each output: what only moves, repeats
   or rounds large ones. False: there is no recipe, or it would not pay (or memory is out: the reference kernel will
   meet that again). */
bool opf_make_recipes(opf_graph *graph, const opf_node *node, const opf_const **constants);

/* Nodes between transposes read what is before them, so that pairs meet and cancel. */
opf_status opf_cancel_transposes(opf_graph *graph, bool *changed, opf_error *error);

/* Transposes go down past elementwise nodes. */
opf_status opf_sink_transposes(opf_graph *graph, bool *changed, opf_error *error);

/* Expands and Tiles that their readers do by themselves. */
opf_status opf_simplify_broadcasts(opf_graph *graph, bool *changed, opf_error *error);

/* Reductions whose axes are put back at once; reductions of reductions. */
opf_status opf_merge_reductions(opf_graph *graph, bool *changed, opf_error *error);

/* Pools of the whole image become global pools. */
opf_status opf_simplify_pools(opf_graph *graph, bool *changed, opf_error *error);

/* Gathers of constant neighbours become slices. */
opf_status opf_slice_gathers(opf_graph *graph, bool *changed, opf_error *error);

/* Rows of a constant table by a slice of the constant numbers n, n+1, … become a slice of the table. */
opf_status opf_slice_tables(opf_graph *graph, bool *changed, opf_error *error);

/* Einsums become MatMul, Mul and ReduceSum between data movements. */
opf_status opf_simplify_einsums(opf_graph *graph, bool *changed, opf_error *error);

/* RotaryEmbeddings read angles that broadcast, and heads that have an axis of their own. */
opf_status opf_simplify_rotary(opf_graph *graph, bool *changed, opf_error *error);

/* Constants that the node's bodies capture become theirs: folding and fusion there can then see them. */
opf_status opf_push_constants(opf_graph *graph, opf_node_id node, bool *changed, opf_error *error);

/* The node captures no more what none of its bodies reads. False: memory is out. */
bool opf_drop_captures(opf_graph *graph, opf_node_id node, bool *changed);

/* Ifs of constant conditions become the branches that they take. */
opf_status opf_inline_branches(opf_graph *graph, bool *changed, opf_error *error);

/* Single dimensions are read from inputs of the graph that have them. */
opf_status opf_read_shapes_early(opf_graph *graph, bool *changed, opf_error *error);

/* Slices of slices; parts that are joined again, and parts of joined values. */
opf_status opf_merge_slices(opf_graph *graph, bool *changed, opf_error *error);
opf_status opf_merge_parts(opf_graph *graph, bool *changed, opf_error *error);

/* Transposes of transposes, reshapes of reshapes, casts of lossless casts; Reshape targets that need no arithmetic. */
opf_status opf_merge_movement(opf_graph *graph, bool *changed, opf_error *error);

#endif
