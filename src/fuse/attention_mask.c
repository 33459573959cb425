/* SPDX-License-Identifier: Apache-2.0 */
/* What Attention reads as its masks: all that was added to the scores, and what they were chosen by. */
#include "fuse/attention.h"

enum { RANK = 5 }; /* of a mask, with the axis of windows */

static opf_value_id add_constant(opf_attention *a, const opf_const *c)
{
    return c != NULL ? opf_graph_add_constant(a->context->graph, NULL, c) : 0;
}

static const opf_const *constant_of(const opf_attention *a, opf_value_id value)
{
    return opf_graph_value(a->context->graph, value)->constant;
}

static int32_t rank_of(const opf_attention *a, opf_value_id value)
{
    return opf_graph_value(a->context->graph, value)->info.rank;
}

static opf_value_id invert(opf_attention *a, opf_value_id mask, opf_error *error)
{
    opf_graph *graph = a->context->graph;
    const opf_node_id producer = opf_graph_value(graph, mask)->producer;
    const opf_const *c = constant_of(a, mask);
    if (c == NULL && opf_fuse_is_plain(graph, producer, &opf_op_Not))
        return opf_graph_node(graph, producer)->inputs[0];
    if (c == NULL)
        return opf_fuse_build(a->context, &opf_op_Not, &mask, 1, error);
    uint8_t *bytes = opf_arena_alloc(graph->arena, c->count);
    if (bytes == NULL)
        return 0;
    opf_const_write(c, bytes);
    for (size_t i = 0; i < c->count; i++)
        bytes[i] = bytes[i] == 0;
    return add_constant(a, opf_const_bytes(graph->consts, OPF_BOOL, c->rank, c->dims, bytes, c->count));
}

/* Mask i as it broadcasts to [batch, head, query, key]; one for windows has an axis before them. */
static opf_value_id mask_of(opf_attention *a, uint32_t i, opf_error *error)
{
    const opf_value_id mask = a->masks[i];
    const opf_const *c = constant_of(a, mask);
    if (rank_of(a, mask) != RANK)
        return mask;
    return c != NULL ? add_constant(a, opf_const_reshape(a->context->graph->consts, c, RANK - 1, c->dims + 1))
                     : opf_attention_change_axis(a->context, &opf_op_Squeeze, mask, 0, error);
}

/* ---- sums ---- */

/* Its dimension on an axis of the result, as broadcasting aligns them. */
static int64_t dim_at(const opf_const *c, int32_t rank, int32_t axis)
{
    return axis < rank - c->rank ? 1 : c->dims[axis - rank + c->rank];
}

static const opf_const *spread(opf_const_pool *consts, const opf_const *c, int32_t rank, const int64_t *dims)
{
    int64_t own[RANK];
    for (int32_t i = 0; i < rank; i++)
        own[i] = dim_at(c, rank, i);
    const opf_const *same = opf_const_reshape(consts, c, rank, own);
    return same != NULL ? opf_const_expand(consts, same, dims) : NULL;
}

/* Constants are added once, when the model is opened. */
static opf_value_id sum_of(opf_attention *a, opf_value_id x, opf_value_id y, opf_error *error)
{
    opf_const_pool *consts = a->context->graph->consts;
    const opf_const *cx = constant_of(a, x), *cy = constant_of(a, y);
    bool has_sum = cx != NULL && cy != NULL;
    const int32_t rank = !has_sum ? 0 : cx->rank > cy->rank ? cx->rank : cy->rank;
    int64_t dims[RANK];
    for (int32_t i = 0; i < rank; i++) {
        const int64_t dx = dim_at(cx, rank, i), dy = dim_at(cy, rank, i);
        has_sum = has_sum && (dx == dy || dx == 1 || dy == 1);
        dims[i] = dx == 1 ? dy : dx;
    }
    if (!has_sum)
        return opf_fuse_build(a->context, &opf_op_Add, (const opf_value_id[]){x, y}, 2, error);
    cx = spread(consts, cx, rank, dims);
    cy = spread(consts, cy, rank, dims);
    return cx != NULL && cy != NULL ? add_constant(a, opf_const_add(consts, cx, cy)) : 0;
}

/* Rank 1 is too little for the operator. */
static opf_value_id with_axes(opf_attention *a, opf_value_id mask, opf_error *error)
{
    if (mask == 0)
        return 0;
    const opf_info *info = &opf_graph_value(a->context->graph, mask)->info;
    const bool has_batch = a->q.rank == 3 && info->rank == 3 && !opf_dim_is(info->dims[0], 1);
    if (has_batch || info->rank == 1)
        return opf_attention_change_axis(a->context, &opf_op_Unsqueeze, mask, has_batch ? 1 : 0, error);
    return mask;
}

opf_value_id opf_attention_mask(opf_attention *a, opf_error *error)
{
    opf_value_id mask = mask_of(a, a->n_masks - 1, error);
    for (uint32_t i = a->n_masks - 1; mask != 0 && i-- > 0;) {
        const opf_value_id next = mask_of(a, i, error);
        mask = next != 0 ? sum_of(a, mask, next, error) : 0;
    }
    return with_axes(a, mask, error);
}

opf_value_id opf_attention_choice(opf_attention *a, opf_error *error)
{
    return with_axes(a, a->is_inverted ? invert(a, a->choice, error) : a->choice, error);
}
