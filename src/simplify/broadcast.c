/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shapes that are made and used up at once: an Expand whose reader broadcasts by itself, and an Unsqueeze that puts
 * back the axes that a reduction has just dropped.
 */
#include "simplify/passes.h"

/* Operators that broadcast all their operands to each other. */
static bool broadcasts(const opf_op *op)
{
    static const opf_op *const ops[] = {&opf_op_Add, &opf_op_Sub, &opf_op_Mul,   &opf_op_Div,     &opf_op_Pow,
                                        &opf_op_Min, &opf_op_Max, &opf_op_Where, &opf_op_Equal,   &opf_op_Less,
                                        &opf_op_Sum, &opf_op_And, &opf_op_Or,    &opf_op_Greater, &opf_op_Mean};
    for (uint32_t i = 0; i < OPF_COUNT(ops); i++)
        if (ops[i] == op)
            return true;
    return false;
}

/* Another operand has the shape of the result, so input i may be smaller. */
static bool may_be_small(const opf_graph *graph, const opf_node *node, uint32_t i)
{
    const opf_info *result = &opf_graph_value(graph, node->outputs[0])->info;
    for (uint32_t k = 0; k < node->n_inputs; k++)
        if (k != i && node->inputs[k] != 0 && node->inputs[k] != node->inputs[i] &&
            opf_simplify_same_shape(&opf_graph_value(graph, node->inputs[k])->info, result))
            return true;
    return false;
}

static bool skip_expand(opf_graph *graph, opf_node_id id, uint32_t i, bool *changed)
{
    const opf_node *node = opf_graph_node(graph, id);
    const opf_node_id producer = node->inputs[i] != 0 ? opf_graph_value(graph, node->inputs[i])->producer : 0;
    const opf_node *expand = opf_graph_node(graph, producer);
    if (producer == 0 || !opf_simplify_is_plain(expand) || expand->op != &opf_op_Expand ||
        !may_be_small(graph, node, i))
        return true;
    *changed = true;
    return opf_graph_set_input(graph, id, i, expand->inputs[0]);
}

/* ---- reductions ---- */

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

opf_status opf_simplify_broadcasts(opf_graph *graph, bool *changed, opf_error *error)
{
    for (opf_node_id id = 1; id < graph->n_nodes; id++) {
        const opf_node *node = opf_graph_node(graph, id);
        if (!opf_simplify_is_plain(node) || node->n_outputs == 0 || node->outputs[0] == 0)
            continue;
        for (uint32_t i = 0; broadcasts(node->op) && i < opf_graph_node(graph, id)->n_inputs; i++)
            OPF_OOM_IF(error, !skip_expand(graph, id, i, changed));
        const opf_node_id unsqueeze = is_reduction(node->op) ? find_unsqueeze(graph, node) : 0;
        if (unsqueeze == 0)
            continue;
        OPF_OOM_IF(error, !keep_dims(graph, id, unsqueeze));
        *changed = true;
    }
    return OPF_OK;
}
