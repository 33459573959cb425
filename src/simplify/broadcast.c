/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes that are made and used up at once: an Expand, or a Tile of single elements, whose reader broadcasts. */
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

/* Element i of a list that is known, or told by sizes; false: it is not. */
static bool element_of(const opf_value *list, int32_t i, opf_dim *n)
{
    if (list->constant != NULL)
        *n = (opf_dim){.n = opf_const_i64_at(list->constant, (size_t)i)};
    else if (i < list->info.n_values)
        *n = list->info.values[i];
    return list->constant != NULL ? (size_t)i < list->constant->count : i < list->info.n_values;
}

/* Repeats nothing but axes of one element, each at least once. */
static bool is_expand(const opf_graph *graph, const opf_node *node)
{
    if (node->op != &opf_op_Tile)
        return node->op == &opf_op_Expand;
    const opf_info *x = &opf_graph_value(graph, node->inputs[0])->info;
    const opf_value *repeats = opf_graph_value(graph, node->inputs[1]);
    for (int32_t i = 0; i < x->rank; i++) {
        opf_dim n;
        if (!element_of(repeats, i, &n) || (opf_dim_is_number(n) && n.n < 1) ||
            (!opf_dim_is(n, 1) && !opf_dim_is(x->dims[i], 1)))
            return false;
    }
    return x->rank >= 0;
}

static bool skip_expand(opf_graph *graph, opf_node_id id, uint32_t i, bool *changed)
{
    const opf_node *node = opf_graph_node(graph, id);
    const opf_node_id producer = node->inputs[i] != 0 ? opf_graph_value(graph, node->inputs[i])->producer : 0;
    const opf_node *expand = opf_graph_node(graph, producer);
    if (producer == 0 || !opf_simplify_is_plain(expand) || !is_expand(graph, expand) || !may_be_small(graph, node, i))
        return true;
    *changed = true;
    return opf_graph_set_input(graph, id, i, expand->inputs[0]);
}

opf_status opf_simplify_broadcasts(opf_graph *graph, bool *changed, opf_error *error)
{
    for (opf_node_id id = 1; id < graph->n_nodes; id++) {
        const opf_node *node = opf_graph_node(graph, id);
        if (!opf_simplify_is_plain(node) || node->n_outputs == 0 || node->outputs[0] == 0 || !broadcasts(node->op))
            continue;
        for (uint32_t i = 0; i < opf_graph_node(graph, id)->n_inputs; i++)
            OPF_OOM_IF(error, !skip_expand(graph, id, i, changed));
    }
    return OPF_OK;
}
