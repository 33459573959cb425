/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A reduction and the Unsqueeze that puts back the axes that it has just dropped are one that keeps them; reductions of
 * one kind over one axis after the other, as in x.mean(3).mean(2), are one over both.
 */
#include "simplify/passes.h"

static bool is_reduction(const opf_op *op)
{
    static const opf_op *const ops[] = {&opf_op_ReduceMean, &opf_op_ReduceSum,       &opf_op_ReduceMax,
                                        &opf_op_ReduceMin,  &opf_op_ReduceSumSquare, &opf_op_ReduceL2,
                                        &opf_op_ReduceL1,   &opf_op_ReduceProd};
    for (uint32_t i = 0; i < OPF_COUNT(ops); i++)
        if (ops[i] == op)
            return true;
    return false;
}

/* The axes of `value` as a mask; 0: they are not known. */
static uint32_t mask_of(const opf_graph *graph, opf_value_id value, int32_t rank)
{
    const opf_const *axes = value != 0 ? opf_graph_value(graph, value)->constant : NULL;
    uint32_t mask = 0;
    if (axes == NULL || !opf_types_have(OPF_TYPES_INT, axes->type) || axes->count > OPF_MAX_RANK)
        return 0;
    for (size_t i = 0; i < axes->count; i++) {
        const int64_t axis = opf_const_i64_at(axes, i) + (opf_const_i64_at(axes, i) < 0 ? rank : 0);
        if (axis < 0 || axis >= rank)
            return 0;
        mask |= 1u << axis;
    }
    return mask;
}

/* The Unsqueeze that alone reads what the reduction drops the axes of, and puts back the same ones; 0: there is none.
 */
static opf_node_id find_unsqueeze(const opf_graph *graph, const opf_node *reduce)
{
    const opf_use *use = reduce->outputs[0] != 0 ? opf_graph_single_use(graph, reduce->outputs[0]) : NULL;
    const opf_info *x = &opf_graph_value(graph, reduce->inputs[0])->info;
    if (use == NULL || use->node == 0 || x->rank < 0 || opf_node_int(reduce, "keepdims", 1) != 0)
        return 0;
    const opf_node *unsqueeze = opf_graph_node(graph, use->node);
    if (!opf_simplify_is_plain(unsqueeze) || unsqueeze->op != &opf_op_Unsqueeze || use->input != 0)
        return 0;
    const uint32_t dropped = mask_of(graph, opf_simplify_input(reduce, 1), x->rank);
    return dropped != 0 && dropped == mask_of(graph, opf_simplify_input(unsqueeze, 1), x->rank) ? use->node : 0;
}

static bool keep_dims(opf_graph *graph, opf_node_id reduce, opf_node_id unsqueeze)
{
    const opf_value_id result = opf_graph_node(graph, unsqueeze)->outputs[0];
    if (!opf_node_join_origin(graph, reduce, unsqueeze) || !opf_node_set_int(graph, reduce, "keepdims", 1))
        return false;
    opf_graph_remove_node(graph, unsqueeze);
    return opf_graph_set_output(graph, reduce, 0, result);
}

/* ---- one after the other ---- */

/* The same in parts as at once; a mean of integers is rounded. */
static bool has_parts(const opf_graph *graph, const opf_node *node)
{
    const opf_type type = opf_graph_value(graph, node->inputs[0])->info.type;
    return node->op == &opf_op_ReduceSum || node->op == &opf_op_ReduceMax || node->op == &opf_op_ReduceMin ||
           node->op == &opf_op_ReduceProd || (node->op == &opf_op_ReduceMean && opf_types_have(OPF_TYPES_FLOAT, type));
}

/* Axes of what is left when those of `dropped` are gone, as axes of the whole. */
static uint32_t axes_before(uint32_t axes, uint32_t dropped, int32_t rank)
{
    uint32_t result = 0;
    for (int32_t axis = 0, left = 0; axis < rank; axis++)
        if ((dropped >> axis & 1) == 0)
            result |= (axes >> left++ & 1) << axis;
    return result;
}

/* The axes of both as axes of what the inner one reads; 0: they are not one. */
static uint32_t axes_of_both(const opf_graph *graph, const opf_node *outer)
{
    const opf_value *between = opf_graph_value(graph, outer->inputs[0]);
    const opf_node *inner = opf_graph_node(graph, between->producer);
    if (between->producer == 0 || !opf_simplify_is_plain(inner) || inner->op != outer->op || !has_parts(graph, outer) ||
        opf_graph_single_use(graph, outer->inputs[0]) == NULL)
        return 0;
    const int64_t keeps = opf_node_int(inner, "keepdims", 1);
    const opf_info *x = &opf_graph_value(graph, inner->inputs[0])->info;
    const uint32_t first = mask_of(graph, opf_simplify_input(inner, 1), x->rank),
                   second = mask_of(graph, opf_simplify_input(outer, 1), between->info.rank);
    if (first == 0 || second == 0 || keeps != opf_node_int(outer, "keepdims", 1))
        return 0;
    const uint32_t both = first | (keeps != 0 ? second : axes_before(second, first, x->rank));
    return (both & (both + (both & ~(both - 1)))) == 0 ? both : 0; /* neighbours: kernels walk one run of axes */
}

static bool merge(opf_graph *graph, opf_node_id id, uint32_t mask)
{
    const opf_node_id inner = opf_graph_value(graph, opf_graph_node(graph, id)->inputs[0])->producer;
    int64_t axes[OPF_MAX_RANK], n = 0;
    for (int32_t axis = 0; axis < OPF_MAX_RANK; axis++)
        if ((mask >> axis & 1) != 0)
            axes[n++] = axis;
    const opf_const *c = opf_const_ints(graph->consts, axes, n);
    const opf_value_id list = c != NULL ? opf_graph_add_constant(graph, NULL, c) : 0;
    return list != 0 && opf_node_join_origin(graph, id, inner) && opf_graph_set_input(graph, id, 1, list) &&
           opf_graph_set_input(graph, id, 0, opf_graph_node(graph, inner)->inputs[0]);
}

opf_status opf_merge_reductions(opf_graph *graph, bool *changed, opf_error *error)
{
    for (opf_node_id id = 1; id < graph->n_nodes; id++) {
        const opf_node *node = opf_graph_node(graph, id);
        if (!opf_simplify_is_plain(node) || node->n_outputs == 0 || node->outputs[0] == 0 || !is_reduction(node->op))
            continue;
        const opf_node_id unsqueeze = find_unsqueeze(graph, node);
        const uint32_t axes = unsqueeze == 0 ? axes_of_both(graph, node) : 0;
        OPF_OOM_IF(error, unsqueeze != 0 && !keep_dims(graph, id, unsqueeze));
        OPF_OOM_IF(error, axes != 0 && !merge(graph, id, axes));
        *changed = *changed || unsqueeze != 0 || axes != 0;
    }
    return OPF_OK;
}
