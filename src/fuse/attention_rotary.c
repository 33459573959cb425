/* SPDX-License-Identifier: Apache-2.0 */
/* Queries and keys that RotaryEmbedding turned: Attention reads them as they were, and their angles beside them. */
#include "fuse/attention.h"

enum { X, COS, SIN, RANK = 4 };

static const opf_info *info_of(const opf_graph *graph, opf_value_id value)
{
    return &opf_graph_value(graph, value)->info;
}

static bool reads_shape_only(const opf_graph *graph, const opf_use *use)
{
    const opf_op *op = use->node != 0 ? opf_graph_node(graph, use->node)->op : NULL;
    return op != NULL && (op->traits & OPF_SHAPE_ONLY) != 0 && use->input == 0;
}

/* One node reads the elements. */
static bool is_read_once(const opf_graph *graph, opf_value_id value)
{
    const opf_value *v = opf_graph_value(graph, value);
    uint32_t readers = 0;
    for (uint32_t u = 0; u < v->n_uses; u++)
        readers += v->uses[u].node == 0 ? 2 : reads_shape_only(graph, &v->uses[u]) ? 0 : 1;
    return readers == 1;
}

/* Operands of rank 3 have batches and heads in one axis: angles may not vary along it. */
static bool fits_rank_3(const opf_graph *graph, const opf_node *rotary, const opf_attention_operand *operand)
{
    for (int32_t i = 0; i < operand->rank; i++)
        if (operand->perm[i] != i)
            return false;
    for (uint32_t i = COS; i <= SIN; i++) {
        const opf_info *table = info_of(graph, rotary->inputs[i]);
        if (table->rank == operand->rank && !opf_dim_is(table->dims[0], 1))
            return false;
    }
    return true;
}

bool opf_attention_is_turned(const opf_graph *graph, opf_node_id id, const opf_attention_operand *operand)
{
    const opf_node *node = opf_graph_node(graph, id);
    return operand->rotary == 0 && opf_fuse_is_plain(graph, id, &opf_op_RotaryEmbedding) &&
           opf_node_int(node, "broadcast", 0) != 0 && operand->perm[operand->rank - 1] == operand->rank - 1 &&
           operand->rank > 2 && is_read_once(graph, node->outputs[0]) &&
           (operand->rank == RANK || fits_rank_3(graph, node, operand));
}

bool opf_attention_turns_heads(const opf_graph *graph, const opf_attention_operand *operand)
{
    const opf_node *rotary = opf_graph_node(graph, operand->rotary);
    for (uint32_t i = COS; operand->rotary != 0 && i <= SIN; i++) {
        const opf_info *table = info_of(graph, rotary->inputs[i]);
        const int32_t axis = operand->rotary_perm[1] - (operand->rank - table->rank);
        if (axis >= 0 && !opf_dim_is(table->dims[axis], 1))
            return true;
    }
    return false;
}

/* With axes of one element before those that it has, then in the order of the operand's. */
static opf_value_id take_table(opf_fuse_context *context, const opf_attention_operand *operand, opf_value_id table,
                               opf_error *error)
{
    static const int64_t first[RANK] = {0, 1, 2, 3};
    opf_graph *graph = context->graph;
    const int32_t rank = info_of(graph, table)->rank;
    bool in_order = true;
    for (int32_t i = 0; i < operand->rank; i++)
        in_order = in_order && operand->rotary_perm[i] == i;
    if (in_order)
        return table;
    if (rank < RANK) {
        const opf_const *axes = opf_const_ints(graph->consts, first, RANK - rank);
        const opf_value_id at = axes != NULL ? opf_graph_add_constant(graph, NULL, axes) : 0;
        table =
            at != 0 ? opf_fuse_build(context, &opf_op_Unsqueeze, (const opf_value_id[]){table, at}, 2, error) : 0;
    }
    return table != 0 ? opf_attention_permuted(context, table, RANK, operand->rotary_perm, error) : 0;
}

bool opf_attention_angles(opf_fuse_context *context, const opf_attention_operand *operand, opf_value_id angles[2],
                          opf_error *error)
{
    for (uint32_t i = 0; i < 2; i++) {
        angles[i] =
            take_table(context, operand, opf_graph_node(context->graph, operand->rotary)->inputs[COS + i], error);
        if (angles[i] == 0)
            return false;
    }
    return true;
}

bool opf_attention_read_shapes_before(opf_graph *graph, const opf_attention_operand *operand)
{
    const opf_node *rotary = opf_graph_node(graph, operand->rotary);
    if (operand->rotary == 0)
        return true;
    const opf_value *turned = opf_graph_value(graph, rotary->outputs[0]);
    for (uint32_t u = 0; u < turned->n_uses;) {
        const opf_use use = turned->uses[u];
        if (!reads_shape_only(graph, &use))
            u++;
        else if (!opf_graph_set_input(graph, use.node, use.input, rotary->inputs[X]))
            return false;
        else
            u = 0;
    }
    return true;
}
