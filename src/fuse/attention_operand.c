/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/attention.h"

#include <math.h>
#include <string.h>

static const opf_info *info_of(const opf_graph *graph, opf_value_id value)
{
    return &opf_graph_value(graph, value)->info;
}

static opf_node_id producer_of(const opf_graph *graph, opf_value_id value)
{
    return opf_graph_value(graph, value)->producer;
}

bool opf_attention_factor(opf_fuse_context *context, opf_node_id id, opf_value_id *x, double *factor)
{
    const opf_graph *graph = context->graph;
    const bool is_mul = opf_fuse_is_plain(graph, id, &opf_op_Mul);
    if (!is_mul && !opf_fuse_is_plain(graph, id, &opf_op_Div))
        return false;
    const opf_node *node = opf_graph_node(graph, id);
    for (uint32_t i = 2; i-- > (is_mul ? 0 : 1);) {
        double c;
        if (!opf_graph_scalar(graph, node->inputs[i], &c) || !isfinite(c) || (!is_mul && !isfinite(1 / c)) ||
            !opf_legal_same(context, info_of(graph, node->inputs[1 - i]), info_of(graph, node->outputs[0]), NULL))
            continue;
        *x = node->inputs[1 - i];
        *factor = is_mul ? c : 1 / c;
        return true;
    }
    return false;
}

/* Axis i of the operand's base, as perm counts them. */
static opf_dim base_dim(const opf_graph *graph, const opf_attention_operand *operand, int32_t i)
{
    const bool is_behind = operand->single >= 0 && i >= operand->single;
    return info_of(graph, operand->base)->dims[is_behind ? i + 1 : i];
}

/* ---- looking through ---- */

/* A Transpose of this rank: p[i] is the axis of its input that becomes axis i. */
static bool get_transpose(const opf_graph *graph, opf_node_id id, int32_t rank, int32_t *p)
{
    const opf_attr *perm = opf_node_attr(opf_graph_node(graph, id), "perm");
    if (!opf_fuse_is_plain(graph, id, &opf_op_Transpose) || perm == NULL || perm->n != (uint32_t)rank)
        return false;
    for (int32_t i = 0; i < rank; i++)
        p[i] = (int32_t)perm->ints[i];
    return true;
}

static bool is_movement(const opf_graph *graph, opf_node_id id)
{
    return opf_fuse_is_plain(graph, id, &opf_op_Reshape) || opf_fuse_is_plain(graph, id, &opf_op_Unsqueeze) ||
           opf_fuse_is_plain(graph, id, &opf_op_Squeeze) || opf_fuse_is_plain(graph, id, &opf_op_Transpose);
}

/* Factors before movements that nobody else reads: the movements will read past them. */
static void find_deep_factor(opf_fuse_context *context, double *factor, opf_attention_operand *operand)
{
    const opf_graph *graph = context->graph;
    opf_value_id value = operand->base, x;
    double c;
    while (opf_graph_single_use(graph, value) != NULL && is_movement(graph, producer_of(graph, value))) {
        const opf_node_id reader = producer_of(graph, value);
        value = opf_graph_node(graph, reader)->inputs[0];
        while (opf_graph_single_use(graph, value) != NULL &&
               opf_attention_factor(context, producer_of(graph, value), &x, &c)) {
            *factor *= c;
            operand->reader = reader;
            operand->unscaled = value = x;
        }
        if (operand->reader != 0)
            return;
    }
}

void opf_attention_find(opf_fuse_context *context, opf_value_id value, int32_t rank, bool is_transposed, double *factor,
                        opf_attention_operand *operand)
{
    const opf_graph *graph = context->graph;
    bool is_ours = true; /* nothing else reads what was looked through */
    *operand = (opf_attention_operand){.rank = rank, .single = -1, .group = 1};
    for (int32_t i = 0; i < rank; i++)
        operand->perm[i] = !is_transposed || i < rank - 2 ? i : 2 * rank - 3 - i;
    for (;;) {
        const opf_node_id producer = producer_of(graph, value);
        int32_t p[4];
        double c;
        if (factor != NULL && opf_attention_factor(context, producer, &operand->base, &c)) {
            *factor *= c;
        } else if (get_transpose(graph, producer, rank, p)) {
            for (int32_t i = 0; i < rank; i++)
                operand->perm[i] = p[operand->perm[i]];
            operand->base = opf_graph_node(graph, producer)->inputs[0];
        } else if (is_ours && opf_attention_is_turned(graph, producer, operand)) {
            operand->rotary = producer;
            memcpy(operand->rotary_perm, operand->perm, sizeof operand->perm);
            value = operand->base = opf_graph_node(graph, producer)->inputs[0];
            continue;
        } else {
            break;
        }
        is_ours = is_ours && opf_graph_single_use(graph, value) != NULL;
        value = operand->base;
    }
    operand->base = value;
    if (factor != NULL && is_ours)
        find_deep_factor(context, factor, operand);
}

/* ---- repeated heads ---- */

/* x is y with one more axis, at `axis`. */
static bool has_axis_more(const opf_info *x, const opf_info *y, int32_t axis)
{
    if (x->rank != y->rank + 1)
        return false;
    for (int32_t i = 0; i < y->rank; i++)
        if (!opf_dim_equal(y->dims[i], x->dims[i < axis ? i : i + 1]))
            return false;
    return true;
}

/* Heads are axis h; an axis of one element behind them is repeated, and they join it. Before them it would repeat them
 * all. */
static bool is_repeated(const opf_graph *graph, opf_value_id single, opf_value_id repeated, opf_value_id full,
                        int32_t h)
{
    const opf_info *x = info_of(graph, single), *wide = info_of(graph, repeated), *y = info_of(graph, full);
    if (x->rank != 5 || wide->rank != 5 || y->rank != 4 || !opf_dim_is(x->dims[h + 1], 1) ||
        !opf_dim_is_number(wide->dims[h + 1]))
        return false;
    for (int32_t i = 0; i < 5; i++)
        if (i != h + 1 && !opf_dim_equal(wide->dims[i], x->dims[i]))
            return false;
    for (int32_t i = 0; i < 4; i++) {
        const opf_dim own = x->dims[i <= h ? i : i + 1];
        const opf_dim wanted = i == h ? opf_dim_mul(graph->dims, own, wide->dims[h + 1]) : own;
        if (!opf_dim_equal(y->dims[i], wanted))
            return false;
    }
    return true;
}

bool opf_attention_unrepeat(opf_fuse_context *context, opf_attention_operand *operand)
{
    const opf_graph *graph = context->graph;
    const opf_node_id join = producer_of(graph, operand->base);
    if (operand->rank != 4 || operand->reader != 0 || !opf_fuse_is_plain(graph, join, &opf_op_Reshape))
        return false;
    const opf_value_id repeated = opf_graph_node(graph, join)->inputs[0];
    const opf_node_id repeat = producer_of(graph, repeated);
    if (!opf_fuse_is_plain(graph, repeat, &opf_op_Expand) && !opf_fuse_is_plain(graph, repeat, &opf_op_Tile))
        return false;
    const opf_value_id single = opf_graph_node(graph, repeat)->inputs[0];
    const int32_t h = operand->perm[1];
    if (!is_repeated(graph, single, repeated, operand->base, h))
        return false;
    if (opf_attention_turns_heads(graph, operand))
        return false;
    operand->group = info_of(graph, repeated)->dims[h + 1].n;
    const opf_node_id unsqueeze = producer_of(graph, single);
    const opf_value_id few = is_movement(graph, unsqueeze) ? opf_graph_node(graph, unsqueeze)->inputs[0] : single;
    if (opf_fuse_is_plain(graph, unsqueeze, &opf_op_Transpose) ||
        !has_axis_more(info_of(graph, single), info_of(graph, few), h + 1)) {
        operand->base = single;
        operand->single = h + 1;
        return true;
    }
    opf_attention_operand before;
    opf_attention_find(context, few, 4, false, NULL, &before);
    if (before.rotary != 0 && operand->rotary != 0)
        return false;
    for (int32_t i = 0; before.rotary != 0 && i < 4; i++)
        operand->rotary_perm[i] = before.rotary_perm[operand->perm[i]];
    operand->rotary = before.rotary != 0 ? before.rotary : operand->rotary;
    for (int32_t i = 0; i < 4; i++)
        operand->perm[i] = before.perm[operand->perm[i]];
    operand->base = before.base;
    return true;
}

/* ---- joined heads ---- */

opf_attention_joined opf_attention_join(opf_fuse_context *context, const opf_attention_operand *operand)
{
    static const int32_t of_heads[] = {0, 2, 1, 3}, of_positions[] = {1, 0, 2};
    const opf_graph *graph = context->graph;
    const int32_t *wanted = operand->rank == 4 ? of_heads : of_positions;
    const opf_node_id reshape = producer_of(graph, operand->base);
    if (operand->rank == 2)
        return (opf_attention_joined){0};
    for (int32_t i = 0; i < operand->rank; i++)
        if (operand->perm[i] != wanted[i])
            return (opf_attention_joined){0};
    if (!opf_fuse_is_plain(graph, reshape, &opf_op_Reshape))
        return (opf_attention_joined){0};
    opf_attention_joined joined = {.positions_first = operand->rank == 3};
    joined.value = operand->reader == reshape ? operand->unscaled : opf_graph_node(graph, reshape)->inputs[0];
    const opf_info *x = info_of(graph, joined.value);
    const opf_dim first = base_dim(graph, operand, 0), second = base_dim(graph, operand, 1),
                  third = base_dim(graph, operand, 2);
    if (x->rank != 3 || !opf_dim_equal(x->dims[0], first))
        return (opf_attention_joined){0};
    if (operand->rank == 4) {
        joined.heads = third.n;
        const opf_dim width = opf_dim_mul(graph->dims, third, base_dim(graph, operand, 3));
        if (!opf_dim_is_number(third) || !opf_dim_equal(x->dims[1], second) || !opf_dim_equal(x->dims[2], width))
            return (opf_attention_joined){0};
    } else {
        const opf_dim width = x->dims[2], size = third;
        if (!opf_dim_is_number(width) || !opf_dim_is_number(size) || size.n < 1 || width.n % size.n != 0)
            return (opf_attention_joined){0};
        joined.heads = width.n / size.n;
        if (!opf_dim_equal(second, opf_dim_mul(graph->dims, x->dims[1], opf_dim_number(joined.heads))))
            return (opf_attention_joined){0};
    }
    return joined.heads > 0 ? joined : (opf_attention_joined){0};
}

/* ---- what Attention reads ---- */

opf_dim opf_attention_dim(const opf_graph *graph, const opf_attention_operand *operand, int32_t axis)
{
    return base_dim(graph, operand, operand->perm[axis]);
}

opf_value_id opf_attention_change_axis(opf_fuse_context *context, const opf_op *op, opf_value_id value, int64_t axis,
                                       opf_error *error)
{
    const opf_const *axes = opf_const_ints(context->graph->consts, &axis, 1);
    const opf_value_id at = axes != NULL ? opf_graph_add_constant(context->graph, NULL, axes) : 0;
    return at != 0 ? opf_fuse_build(context, op, (const opf_value_id[]){value, at}, 2, error) : 0;
}

opf_value_id opf_attention_whole(opf_fuse_context *context, const opf_attention_operand *operand, opf_error *error)
{
    const opf_value_id base = operand->single < 0 ? operand->base
                                                  : opf_attention_change_axis(context, &opf_op_Squeeze, operand->base,
                                                                              operand->single, error);
    return base != 0 ? opf_attention_permuted(context, base, operand->rank, operand->perm, error) : 0;
}

opf_value_id opf_attention_permuted(opf_fuse_context *context, opf_value_id value, int32_t rank, const int32_t *perm,
                                    opf_error *error)
{
    opf_graph *graph = context->graph;
    const opf_value *v = opf_graph_value(graph, value);
    int64_t order[4];
    bool is_same = true;
    for (int32_t i = 0; i < rank; i++) {
        order[i] = perm[i];
        is_same = is_same && perm[i] == i;
    }
    if (is_same)
        return value;
    for (uint32_t u = 0; u < v->n_uses; u++) {
        int32_t p[4];
        if (v->uses[u].node == 0 || !get_transpose(graph, v->uses[u].node, rank, p))
            continue;
        is_same = true;
        for (int32_t i = 0; i < rank; i++)
            is_same = is_same && p[i] == perm[i];
        if (is_same)
            return opf_graph_node(graph, v->uses[u].node)->outputs[0];
    }
    const opf_value_id result = opf_graph_add_value(graph, NULL);
    const opf_node_id node =
        result != 0 ? opf_graph_add_node(graph, &opf_op_Transpose, opf_op_Transpose.name, NULL, &value, 1, &result, 1)
                    : 0;
    if (node == 0 || !opf_node_set_ints(graph, node, "perm", order, (uint32_t)rank) ||
        opf_fuse_infer(context, node, error) != OPF_OK)
        return 0;
    return result;
}

/* ---- what nobody reads any more ---- */

bool opf_attention_join_origin(opf_graph *graph, opf_node_id attention, opf_node_id from)
{
    return opf_graph_node(graph, from)->n_origin != 0
               ? opf_node_join_origin(graph, attention, from)
               : opf_node_add_origin(graph, attention, opf_graph_node(graph, from)->name);
}

bool opf_attention_remove_unread(opf_graph *graph, opf_node_id attention, opf_value_id value)
{
    const opf_value *v = opf_graph_value(graph, value);
    if (value == 0 || v->n_uses != 0 || v->producer == 0 || v->info.type != OPF_FLOAT ||
        opf_graph_node(graph, v->producer)->n_outputs != 1)
        return true;
    const opf_node_id id = v->producer;
    const opf_node node = *opf_graph_node(graph, id);
    if (!opf_attention_join_origin(graph, attention, id))
        return false;
    opf_graph_remove_node(graph, id);
    for (uint32_t i = 0; i < node.n_inputs; i++)
        if (!opf_attention_remove_unread(graph, attention, node.inputs[i]))
            return false;
    return true;
}
