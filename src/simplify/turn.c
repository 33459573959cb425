/* SPDX-License-Identifier: Apache-2.0 */
#include "simplify/turn.h"

#include <string.h>

static const opf_info *info_of(const opf_graph *graph, opf_value_id value)
{
    return &opf_graph_value(graph, value)->info;
}

static const opf_node *node_of(const opf_turn *turn)
{
    return opf_graph_node(turn->graph, turn->node);
}

/* ---- axes ---- */

static bool find_axis(const opf_turn *turn, int64_t otherwise, int32_t *axis)
{
    const int64_t a = opf_node_int(node_of(turn), "axis", otherwise);
    *axis = (int32_t)(a < 0 ? a + turn->in.rank : a);
    return a >= -(int64_t)turn->in.rank && a < turn->in.rank;
}

static bool set_axis(const opf_turn *turn, int64_t otherwise)
{
    int32_t axis;
    return find_axis(turn, otherwise, &axis) && opf_node_set_int(turn->graph, turn->node, "axis", turn->in.perm[axis]);
}

/* A list of axes, from a constant operand; absent: the first `otherwise` axes. */
static bool find_axes(const opf_turn *turn, uint32_t input, int32_t otherwise, int64_t *axes, uint32_t *n)
{
    const opf_value_id value = opf_simplify_input(node_of(turn), input);
    const opf_const *c = value != 0 ? opf_graph_value(turn->graph, value)->constant : NULL;
    *n = (uint32_t)otherwise;
    for (uint32_t i = 0; value == 0 && i < *n; i++)
        axes[i] = i;
    if (value == 0)
        return true;
    if (c == NULL || c->rank != 1 || c->count > (size_t)turn->in.rank || !opf_types_have(OPF_TYPES_INT, c->type))
        return false;
    *n = (uint32_t)c->count;
    for (uint32_t i = 0; i < *n; i++) {
        axes[i] = opf_const_i64_at(c, i);
        axes[i] += axes[i] < 0 ? turn->in.rank : 0;
        if (axes[i] < 0 || axes[i] >= turn->in.rank)
            return false;
    }
    return true;
}

/* The operand of the axes becomes those of before; operands that are not there yet are absent ones. */
static bool set_axes(const opf_turn *turn, uint32_t input, int32_t otherwise)
{
    int64_t axes[OPF_MAX_RANK];
    uint32_t n;
    if (!find_axes(turn, input, otherwise, axes, &n))
        return false;
    for (uint32_t i = 0; i < n; i++)
        axes[i] = turn->in.perm[axes[i]];
    const opf_value_id value = opf_graph_add_constant(turn->graph, NULL, opf_const_ints(turn->graph->consts, axes, n));
    if (value == 0)
        return false;
    while (node_of(turn)->n_own_inputs < input)
        if (!opf_graph_append_input(turn->graph, turn->node, 0))
            return false;
    return input < node_of(turn)->n_own_inputs ? opf_graph_set_input(turn->graph, turn->node, input, value)
                                               : opf_graph_append_input(turn->graph, turn->node, value);
}

/* ---- elementwise operators, Concat, Split ---- */

static bool find_same(opf_turn *turn)
{
    turn->out = turn->in;
    for (uint32_t o = 0; o < node_of(turn)->n_outputs; o++)
        if (node_of(turn)->outputs[o] == 0 || info_of(turn->graph, node_of(turn)->outputs[o])->rank != turn->in.rank)
            return false;
    return true;
}

static bool apply_nothing(const opf_turn *turn)
{
    (void)turn;
    return true;
}

static bool find_first_axis(opf_turn *turn)
{
    int32_t axis;
    return find_axis(turn, 0, &axis) && find_same(turn);
}

static bool apply_first_axis(const opf_turn *turn)
{
    return set_axis(turn, 0);
}

/* Rows are fast along the last axis only. */
static bool find_last_axis(opf_turn *turn)
{
    int32_t axis;
    return find_axis(turn, -1, &axis) && turn->in.perm[axis] == turn->in.rank - 1 && find_same(turn);
}

static bool apply_last_axis(const opf_turn *turn)
{
    return set_axis(turn, -1);
}

/* ---- Slice, Pad: axes are an operand ---- */

static uint32_t length_of(const opf_turn *turn, uint32_t input)
{
    const opf_value_id value = opf_simplify_input(node_of(turn), input);
    const opf_info *info = value != 0 ? info_of(turn->graph, value) : NULL;
    return info != NULL && info->rank == 1 && opf_dim_is_number(info->dims[0]) && info->dims[0].n <= 2 * OPF_MAX_RANK
               ? (uint32_t)info->dims[0].n
               : 0;
}

static bool find_slice(opf_turn *turn)
{
    int64_t axes[OPF_MAX_RANK];
    uint32_t n;
    return find_axes(turn, 3, (int32_t)length_of(turn, 1), axes, &n) && n <= (uint32_t)turn->in.rank &&
           n == length_of(turn, 1) && find_same(turn);
}

static bool apply_slice(const opf_turn *turn)
{
    return set_axes(turn, 3, (int32_t)length_of(turn, 1));
}

static bool find_pad(opf_turn *turn)
{
    int64_t axes[OPF_MAX_RANK];
    uint32_t n;
    return find_axes(turn, 3, turn->in.rank, axes, &n) && 2 * n == length_of(turn, 1) && find_same(turn);
}

static bool apply_pad(const opf_turn *turn)
{
    return set_axes(turn, 3, turn->in.rank);
}

/* ---- reductions ---- */

/* How well the kernels take these axes: 2 are rows, 1 is one run of axes, 0 are several. */
static int rating(const bool *reduced, int32_t rank)
{
    int32_t begins = 0;
    for (int32_t i = 0; i < rank; i++)
        begins += reduced[i] && (i == 0 || !reduced[i - 1]);
    return begins > 1 ? 0 : reduced[rank - 1] ? 2 : 1;
}

/* Rows stay rows (and a normalisation that is spelled out is still recognised), a run stays a run. */
static bool find_reduce(opf_turn *turn)
{
    const opf_node *node = node_of(turn);
    const int32_t rank = turn->in.rank;
    const bool keepdims = opf_node_int(node, "keepdims", 1) != 0;
    bool before[OPF_MAX_RANK] = {false}, after[OPF_MAX_RANK] = {false};
    int64_t axes[OPF_MAX_RANK], place[OPF_MAX_RANK];
    uint32_t n;
    if (node->n_outputs != 1 || !find_axes(turn, 1, rank, axes, &n) || n == 0 ||
        (opf_simplify_input(node, 1) == 0 && opf_node_int(node, "noop_with_empty_axes", 0) != 0))
        return false;
    for (uint32_t i = 0; i < n; i++) {
        before[axes[i]] = true;
        after[turn->in.perm[axes[i]]] = true;
    }
    if (rating(after, rank) < rating(before, rank))
        return false;
    if (keepdims)
        return find_same(turn);
    for (int32_t i = 0, kept = 0; i < rank; i++)
        place[i] = after[i] ? -1 : kept++;
    turn->out.rank = 0;
    for (int32_t i = 0; i < rank; i++)
        if (!before[i])
            turn->out.perm[turn->out.rank++] = place[turn->in.perm[i]];
    return true;
}

static bool apply_reduce(const opf_turn *turn)
{
    return opf_simplify_input(node_of(turn), 1) == 0 || set_axes(turn, 1, turn->in.rank);
}

/* ---- reshapes ---- */

/* Axes [in, in_end) of the operand are axes [out, out_end) of the result; one side may be empty for ones. */
typedef struct block {
    int32_t in, in_end, out, out_end;
    int64_t key; /* place among the blocks of the order before */
} block;

/* How many of the axes from `first` on make one of size `whole`; 0: none do. */
static int32_t axes_of(opf_dims *table, const opf_dim *dims, int32_t first, int32_t rank, opf_dim whole)
{
    opf_dim product = opf_dim_number(1);
    for (int32_t i = first; i < rank; i++) {
        product = opf_dim_mul(table, product, dims[i]);
        if (opf_dim_equal(product, whole))
            return i + 1 - first;
        if (opf_dim_is_number(product) && opf_dim_is_number(whole) && product.n > whole.n)
            return 0;
    }
    return 0;
}

/* Blocks that a reshape splits or merges, each by itself. */
static bool find_blocks(opf_dims *table, const opf_info *in, const opf_info *out, block *blocks, int32_t *n)
{
    int32_t i = 0, j = 0;
    *n = 0;
    while (i < in->rank || j < out->rank) {
        const bool left = i < in->rank, right = j < out->rank;
        const bool equal = left && right && opf_dim_equal(in->dims[i], out->dims[j]);
        block b = {.in = i, .in_end = i, .out = j, .out_end = j};
        if (equal) {
            b.in_end++;
            b.out_end++;
        } else if (left && opf_dim_is(in->dims[i], 1)) {
            b.in_end++;
        } else if (right && opf_dim_is(out->dims[j], 1)) {
            b.out_end++;
        } else if (!left || !right) {
            return false;
        } else {
            const int32_t merged = axes_of(table, in->dims, i, in->rank, out->dims[j]);
            const int32_t cut = merged == 0 ? axes_of(table, out->dims, j, out->rank, in->dims[i]) : 1;
            if (cut == 0)
                return false;
            b.in_end += merged == 0 ? 1 : merged;
            b.out_end += cut;
        }
        blocks[(*n)++] = b;
        i = b.in_end;
        j = b.out_end;
    }
    return true;
}

/* The axes of a block lie side by side before the transpose too; new ones of 1 follow what stands before them. */
static bool order_blocks(const opf_turn *turn, block *blocks, int32_t n)
{
    for (int32_t k = 0; k < n; k++) {
        block *b = &blocks[k];
        for (int32_t i = b->in + 1; i < b->in_end; i++)
            if (turn->in.perm[i] != turn->in.perm[i - 1] + 1)
                return false;
        b->key = b->in < b->in_end ? turn->in.perm[b->in] : k > 0 ? blocks[k - 1].key : -1;
    }
    for (int32_t k = 1; k < n; k++) {
        const block b = blocks[k];
        int32_t at = k;
        for (; at > 0 && blocks[at - 1].key > b.key; at--)
            blocks[at] = blocks[at - 1];
        blocks[at] = b;
    }
    return true;
}

static bool find_reshape(opf_turn *turn)
{
    const opf_node *node = node_of(turn);
    const opf_info *in = info_of(turn->graph, node->inputs[0]), *out = info_of(turn->graph, node->outputs[0]);
    opf_info before, result;
    block blocks[2 * OPF_MAX_RANK];
    int32_t n, place = 0;
    int64_t target[OPF_MAX_RANK];
    if (in->rank != turn->in.rank || out->rank < 0 || out->rank > OPF_MAX_RANK ||
        !find_blocks(turn->graph->dims, in, out, blocks, &n) || !order_blocks(turn, blocks, n))
        return false;
    turn->out.rank = out->rank;
    for (int32_t k = 0; k < n; k++)
        for (int32_t j = blocks[k].out; j < blocks[k].out_end; j++)
            turn->out.perm[j] = place++;
    return opf_turn_info(turn->graph, &turn->in, in, &before) && opf_turn_info(turn->graph, &turn->out, out, &result) &&
           opf_simplify_target(&before, &result, target);
}

static bool apply_reshape(const opf_turn *turn)
{
    const opf_node *node = node_of(turn);
    int64_t target[OPF_MAX_RANK];
    return opf_simplify_target(info_of(turn->graph, node->inputs[0]), info_of(turn->graph, node->outputs[0]), target) &&
           opf_simplify_make_reshape(turn->graph, turn->node, target);
}

/* ---- the table ---- */

static const struct row {
    const opf_op *op;
    bool (*find)(opf_turn *turn);
    bool (*apply)(const opf_turn *turn);
} table[] = {
    {&opf_op_Concat, find_first_axis, apply_first_axis},   {&opf_op_Flatten, find_reshape, apply_reshape},
    {&opf_op_LogSoftmax, find_last_axis, apply_last_axis}, {&opf_op_Pad, find_pad, apply_pad},
    {&opf_op_ReduceL1, find_reduce, apply_reduce},         {&opf_op_ReduceL2, find_reduce, apply_reduce},
    {&opf_op_ReduceLogSum, find_reduce, apply_reduce},     {&opf_op_ReduceLogSumExp, find_reduce, apply_reduce},
    {&opf_op_ReduceMax, find_reduce, apply_reduce},        {&opf_op_ReduceMean, find_reduce, apply_reduce},
    {&opf_op_ReduceMin, find_reduce, apply_reduce},        {&opf_op_ReduceProd, find_reduce, apply_reduce},
    {&opf_op_ReduceSum, find_reduce, apply_reduce},        {&opf_op_ReduceSumSquare, find_reduce, apply_reduce},
    {&opf_op_Reshape, find_reshape, apply_reshape},        {&opf_op_Slice, find_slice, apply_slice},
    {&opf_op_Softmax, find_last_axis, apply_last_axis},    {&opf_op_Split, find_first_axis, apply_first_axis},
    {&opf_op_Squeeze, find_reshape, apply_reshape},        {&opf_op_Unsqueeze, find_reshape, apply_reshape},
};

static const struct row *row_of(const opf_node *node)
{
    static const struct row elementwise = {NULL, find_same, apply_nothing};
    if ((node->op->traits & OPF_ELEMENTWISE) != 0 && node->n_outputs == 1)
        return &elementwise;
    for (uint32_t i = 0; i < OPF_COUNT(table); i++)
        if (table[i].op == node->op)
            return &table[i];
    return NULL;
}

bool opf_turn_find(opf_turn *turn)
{
    const struct row *row = row_of(node_of(turn));
    return row != NULL && row->find(turn);
}

bool opf_turn_mixes(const opf_node *node)
{
    return (node->op->traits & OPF_ELEMENTWISE) != 0 || node->op == &opf_op_Concat;
}

bool opf_turn_apply(const opf_turn *turn)
{
    return row_of(node_of(turn))->apply(turn);
}

/* ---- constants and infos ---- */

const opf_const *opf_turn_constant(opf_graph *graph, const opf_order *order, const opf_const *c, bool keeps_rank)
{
    int64_t dims[OPF_MAX_RANK];
    int32_t inverse[OPF_MAX_RANK], first = 0;
    for (int32_t k = 0; k < order->rank; k++) {
        dims[k] = k < order->rank - c->rank ? 1 : c->dims[k - (order->rank - c->rank)];
        inverse[order->perm[k]] = k;
    }
    const opf_const *full = opf_const_reshape(graph->consts, c, order->rank, dims);
    const opf_const *moved = full != NULL ? opf_const_transpose(graph->consts, full, inverse) : NULL;
    if (moved == NULL || keeps_rank)
        return moved;
    while (first + 1 < order->rank && moved->dims[first] == 1)
        first++;
    memcpy(dims, moved->dims + first, (size_t)(order->rank - first) * sizeof *dims);
    return opf_const_reshape(graph->consts, moved, order->rank - first, dims);
}

bool opf_turn_info(opf_graph *graph, const opf_order *order, const opf_info *info, opf_info *result)
{
    *result = (opf_info){.type = info->type, .rank = order->rank, .n_values = -1};
    result->dims = OPF_NEW(graph->arena, opf_dim, order->rank);
    for (int32_t k = 0; result->dims != NULL && k < order->rank; k++)
        result->dims[order->perm[k]] = info->dims[k];
    return result->dims != NULL;
}
