/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention on joined heads as one operator: com.microsoft's Attention where one product makes queries, keys and values
 * (it takes the product along), GroupQueryAttention where heads of keys are shared and rows see what came before them,
 * else MultiHeadAttention.
 */
#include "onnx/save/microsoft.h"

#include <math.h>

enum { Q, K, V, MASK, PAST };

/* A finite score that hides by its size alone: adding it to any score gives it back. */
static const float hiding = -1e30F;

static opf_attr int_attr(const char *name, int64_t i)
{
    return (opf_attr){.name = name, .type = OPF_ATTR_INT, .i = i};
}

/* Joined heads, no past, one result; NaN stay NaN. */
static bool is_simple(const opf_microsoft *m, opf_node_id id)
{
    const opf_node *node = opf_graph_node(m->graph, id);
    for (uint32_t i = PAST; i < node->n_own_inputs; i++)
        if (node->inputs[i] != 0)
            return false;
    for (uint32_t o = 1; o < node->n_outputs; o++)
        if (node->outputs[o] != 0)
            return false;
    for (uint32_t i = Q; i <= V; i++)
        if (!opf_microsoft_is_float(m, node->inputs[i]) || opf_microsoft_info(m, node->inputs[i])->rank != 3)
            return false;
    return opf_node_int(node, "left_window_size", -1) == -1 && opf_node_int(node, "right_window_size", -1) == -1 &&
           opf_node_int(node, "q_num_heads", 0) > 0 && opf_node_int(node, "nan_is_zero", 0) == 0;
}

/* ---- masks ---- */

static opf_value_id apply(opf_microsoft *m, const opf_node *at, const opf_op *op, opf_value_id a, opf_value_id b)
{
    return opf_microsoft_apply(m, at->name, op, (const opf_value_id[]){a, b}, b != 0 ? 2 : 1, NULL, 0);
}

static opf_value_id number(opf_microsoft *m, float x)
{
    const opf_value_id value =
        opf_graph_add_constant(m->graph, NULL, opf_const_float(m->graph->consts, OPF_FLOAT, (double)x));
    m->failed = m->failed || value == 0;
    return value;
}

/* The shape of an input of the graph: the node that is there, or a new one. */
static opf_value_id shape_of(opf_microsoft *m, const opf_node *at, opf_value_id input)
{
    const opf_value *v = opf_graph_value(m->graph, input);
    for (uint32_t u = 0; u < v->n_uses; u++) {
        const opf_node *node = opf_graph_node(m->graph, v->uses[u].node);
        if (v->uses[u].node != 0 && node->op == &opf_op_Shape && node->n_attrs == 0)
            return node->outputs[0];
    }
    return apply(m, at, &opf_op_Shape, input, 0);
}

/* The mask with axes of one element before those that it has, four in all. */
static opf_value_id with_four_axes(opf_microsoft *m, const opf_node *at, opf_value_id mask, int32_t rank)
{
    const opf_const *c = opf_graph_value(m->graph, mask)->constant;
    const int64_t axes[] = {0, 1};
    int64_t dims[4] = {1, 1, 1, 1};
    if (rank == 4)
        return mask;
    if (c == NULL)
        return apply(m, at, &opf_op_Unsqueeze, mask, opf_microsoft_ints(m, at->name, axes, (uint32_t)(4 - rank)));
    for (int32_t i = 0; i < rank; i++)
        dims[4 - rank + i] = c->dims[i];
    c = opf_const_reshape(m->graph->consts, c, 4, dims);
    const opf_value_id value = c != NULL ? opf_graph_add_constant(m->graph, at->name, c) : 0;
    m->failed = m->failed || value == 0;
    return value;
}

/* [1, 1, dim, 1] as a value. */
static opf_value_id shape_of_rows(opf_microsoft *m, const opf_node *at, opf_value_id rows)
{
    const opf_attr axis = int_attr("axis", 0);
    const int64_t one = 1;
    const opf_value_id ones = opf_microsoft_ints(m, at->name, &one, 1);
    const opf_value_id dims[] = {ones, ones, rows, ones};
    return opf_microsoft_apply(m, at->name, &opf_op_Concat, dims, 4, &axis, 1);
}

/* The shape to which a mask of one row for all queries is expanded, since the operator demands a row for each. A
   dimension that is no number is taken from an input of the graph, on which nothing can wait. 0: from nowhere. */
static opf_value_id find_shape(opf_microsoft *m, const opf_node *at, opf_dim dim)
{
    const opf_graph *graph = m->graph;
    if (opf_dim_is_number(dim))
        return opf_microsoft_ints(m, at->name, (const int64_t[]){1, 1, dim.n, 1}, 4);
    for (uint32_t i = 0; i < graph->n_inputs; i++) {
        const opf_value_id input = graph->inputs[i];
        const opf_info *info = opf_microsoft_info(m, input);
        for (int64_t axis = 0; axis < info->rank; axis++)
            if (opf_dim_equal(info->dims[axis], dim))
                return shape_of_rows(
                    m, at,
                    apply(m, at, &opf_op_Gather, shape_of(m, at, input), opf_microsoft_ints(m, at->name, &axis, 1)));
    }
    return 0;
}

/* The mask, of one row, with as many as the shape says; one that is constant stays so. */
static opf_value_id repeat_rows(opf_microsoft *m, const opf_node *at, opf_value_id mask, opf_dim rows,
                                opf_value_id shape)
{
    const opf_const *c = opf_graph_value(m->graph, mask)->constant;
    if (c == NULL || !opf_dim_is_number(rows) || rows.n < 1 || rows.n > UINT16_MAX)
        return apply(m, at, &opf_op_Expand, mask, shape);
    const opf_const **parts = OPF_NEW(m->graph->arena, const opf_const *, rows.n);
    for (int64_t i = 0; parts != NULL && i < rows.n; i++)
        parts[i] = c;
    c = parts != NULL ? opf_const_concat(m->graph->consts, parts, (uint32_t)rows.n, 2) : NULL;
    const opf_value_id value = c != NULL ? opf_graph_add_constant(m->graph, at->name, c) : 0;
    m->failed = m->failed || value == 0;
    return value;
}

static bool is_plain(const opf_node *node)
{
    return opf_node_attr(node, "masked_score") != NULL;
}

/* What is added to the scores, [batch or 1, heads or 1, queries, keys]; false: it cannot be had. *bias 0: nothing. */
static bool find_bias(opf_microsoft *m, const opf_node *at, opf_value_id *bias)
{
    const opf_value_id mask = MASK < at->n_own_inputs ? at->inputs[MASK] : 0;
    const opf_info info = mask != 0 ? *opf_microsoft_info(m, mask) : (opf_info){.rank = -1};
    const opf_dim rows = opf_microsoft_info(m, at->inputs[Q])->dims[1],
                  keys = opf_microsoft_info(m, at->inputs[K])->dims[1];
    const float fill = opf_node_float(at, "masked_score", 0);
    *bias = mask;
    if (mask == 0)
        return true;
    if (opf_node_attr(at, "mask_windows") != NULL)
        return false;
    if (mask == m->mask && opf_dim_equal(rows, m->rows)) {
        *bias = m->bias;
        return true;
    }
    const bool is_chosen = info.type == OPF_BOOL;
    if (!is_plain(at) || info.rank < 2 || info.rank > 4 || !opf_dim_equal(info.dims[info.rank - 1], keys) ||
        (is_chosen ? !(fill <= hiding) : info.type != OPF_FLOAT))
        return false;
    const bool is_one = opf_dim_is(info.dims[info.rank - 2], 1) && !opf_dim_is(rows, 1);
    if (!is_one && !opf_dim_equal(info.dims[info.rank - 2], rows))
        return false;
    const opf_value_id shape = is_one ? find_shape(m, at, rows) : 0;
    if (is_one && shape == 0)
        return false;
    if (is_chosen) {
        const opf_value_id inputs[] = {mask, number(m, 0), number(m, fill)};
        *bias = opf_microsoft_apply(m, at->name, &opf_op_Where, inputs, 3, NULL, 0);
    }
    *bias = with_four_axes(m, at, *bias, info.rank);
    if (is_one)
        *bias = repeat_rows(m, at, *bias, rows, shape);
    m->mask = mask;
    m->bias = *bias;
    m->rows = rows;
    return true;
}

/* ---- queries, keys and values by one product ---- */

typedef struct packed {
    opf_node_id nodes[4]; /* product, bias, split, attention */
    uint32_t n;
    opf_value_id x, weights, bias; /* bias 0: none */
    int64_t sizes[3];
} packed;

/* Split(x W + b) into Q, K and V that nobody else reads. */
static bool find_packed(const opf_microsoft *m, opf_node_id id, packed *p)
{
    const opf_node *node = opf_graph_node(m->graph, id);
    const opf_node_id split = opf_graph_value(m->graph, node->inputs[Q])->producer;
    const opf_node *parts = opf_graph_node(m->graph, split);
    *p = (packed){.n = 0};
    if (split == 0 || parts->op != &opf_op_Split || parts->n_outputs != 3 ||
        (opf_node_int(parts, "axis", 0) != -1 && opf_node_int(parts, "axis", 0) != 2))
        return false;
    for (uint32_t i = Q; i <= V; i++) {
        const opf_dim size = opf_microsoft_info(m, node->inputs[i])->dims[2];
        if (parts->outputs[i] != node->inputs[i] || !opf_microsoft_is_single(m, node->inputs[i]) ||
            !opf_dim_is_number(size))
            return false;
        p->sizes[i] = size.n;
    }
    const opf_value_id y = parts->inputs[0];
    const opf_node_id add = opf_microsoft_maker(m, y, &opf_op_Add);
    opf_value_id xw = y;
    for (uint32_t i = 0; add != 0 && i < 2; i++)
        if (opf_microsoft_is_vector(m, opf_microsoft_in(m, add, i), y)) {
            p->bias = opf_microsoft_in(m, add, i);
            xw = opf_microsoft_in(m, add, 1 - i);
        }
    const opf_node_id product = opf_microsoft_maker(m, xw, &opf_op_MatMul);
    if (!opf_microsoft_is_single(m, y) || product == 0 || !opf_microsoft_is_single(m, xw))
        return false;
    p->x = opf_microsoft_in(m, product, 0);
    p->weights = opf_microsoft_in(m, product, 1);
    const opf_const *w = opf_graph_value(m->graph, p->weights)->constant;
    if (w == NULL || w->rank != 2 || opf_microsoft_info(m, p->x)->rank != 3)
        return false;
    p->nodes[p->n++] = product;
    if (p->bias != 0)
        p->nodes[p->n++] = add;
    p->nodes[p->n++] = split;
    p->nodes[p->n++] = id;
    return true;
}

/* ---- the operators ---- */

static opf_attr scale_of(const opf_node *node)
{
    const opf_attr *scale = opf_node_attr(node, "scale");
    return scale != NULL ? *scale : (opf_attr){.type = OPF_ATTR_NONE};
}

static void put_packed(opf_microsoft *m, const opf_node *node, const packed *p, opf_value_id bias)
{
    const int64_t *sizes = opf_arena_copy(m->graph->arena, p->sizes, sizeof p->sizes);
    m->failed = m->failed || sizes == NULL;
    const opf_value_id inputs[] = {p->x, p->weights, p->bias, 0, 0, bias};
    const opf_attr attrs[] = {int_attr("num_heads", opf_node_int(node, "q_num_heads", 0)),
                              scale_of(node),
                              {.name = "qkv_hidden_sizes", .type = OPF_ATTR_INTS, .ints = sizes, .n = 3}};
    opf_microsoft_exchange(m, &(opf_exchange){.op_type = "Attention",
                                              .inputs = inputs,
                                              .n_inputs = 6,
                                              .attrs = attrs,
                                              .n_attrs = 3,
                                              .outputs = node->outputs,
                                              .n_outputs = 1,
                                              .nodes = p->nodes,
                                              .n_nodes = p->n});
}

static void put_multi_head(opf_microsoft *m, const opf_node *node, opf_node_id id, opf_value_id bias)
{
    const opf_value_id inputs[] = {node->inputs[Q], node->inputs[K], node->inputs[V], 0, 0, bias};
    const opf_attr attrs[] = {int_attr("num_heads", opf_node_int(node, "q_num_heads", 0)), scale_of(node)};
    opf_microsoft_exchange(m, &(opf_exchange){.op_type = "MultiHeadAttention",
                                              .inputs = inputs,
                                              .n_inputs = 6,
                                              .attrs = attrs,
                                              .n_attrs = 2,
                                              .outputs = node->outputs,
                                              .n_outputs = 1,
                                              .nodes = &id,
                                              .n_nodes = 1});
}

/* Without a past all keys are new: seqlens_k is their number less one, for each sequence. */
static void put_grouped(opf_microsoft *m, const opf_node *node, opf_node_id id)
{
    const opf_attr to_int32 = int_attr("to", OPF_INT32);
    const int64_t numbers[] = {0, 1};
    const opf_value_id zero = opf_microsoft_ints(m, node->name, &numbers[0], 1),
                       one = opf_microsoft_ints(m, node->name, &numbers[1], 1);
    const opf_value_id shape = apply(m, node, &opf_op_Shape, node->inputs[K], 0);
    const opf_value_id keys = apply(m, node, &opf_op_Gather, shape, one);
    const opf_value_id last = apply(m, node, &opf_op_Sub, keys, one);
    const opf_value_id lasts = apply(m, node, &opf_op_Expand, last, apply(m, node, &opf_op_Gather, shape, zero));
    const opf_value_id total = apply(m, node, &opf_op_Squeeze, keys, zero);
    const opf_value_id inputs[] = {node->inputs[Q],
                                   node->inputs[K],
                                   node->inputs[V],
                                   0,
                                   0,
                                   opf_microsoft_apply(m, node->name, &opf_op_Cast, &lasts, 1, &to_int32, 1),
                                   opf_microsoft_apply(m, node->name, &opf_op_Cast, &total, 1, &to_int32, 1)};
    const float softcap = opf_node_float(node, "softcap", 0);
    const opf_attr attrs[] = {int_attr("num_heads", opf_node_int(node, "q_num_heads", 0)),
                              int_attr("kv_num_heads", opf_node_int(node, "kv_num_heads", 0)),
                              scale_of(node),
                              {.name = "softcap", .type = softcap != 0 ? OPF_ATTR_FLOAT : OPF_ATTR_NONE, .f = softcap}};
    opf_microsoft_exchange(m, &(opf_exchange){.op_type = "GroupQueryAttention",
                                              .inputs = inputs,
                                              .n_inputs = 7,
                                              .attrs = attrs,
                                              .n_attrs = 4,
                                              .outputs = node->outputs,
                                              .n_outputs = 1,
                                              .nodes = &id,
                                              .n_nodes = 1});
}

void opf_microsoft_attention(opf_microsoft *m, opf_node_id id)
{
    const opf_node node = *opf_graph_node(m->graph, id); /* new nodes move the list */
    const int64_t heads = opf_node_int(&node, "q_num_heads", 0), kv_heads = opf_node_int(&node, "kv_num_heads", 0);
    opf_value_id bias = 0;
    packed p;
    if (!is_simple(m, id))
        return;
    const opf_dim q = opf_microsoft_info(m, node.inputs[Q])->dims[1],
                  k = opf_microsoft_info(m, node.inputs[K])->dims[1];
    if (opf_node_int(&node, "is_causal", 0) != 0) {
        const bool has_mask = MASK < node.n_own_inputs && node.inputs[MASK] != 0;
        if (!has_mask && kv_heads > 0 && heads % kv_heads == 0 && opf_dim_equal(q, k))
            put_grouped(m, &node, id);
        return;
    }
    if (heads != kv_heads || opf_node_float(&node, "softcap", 0) != 0)
        return;
    const bool is_packed = find_packed(m, id, &p);
    if (!find_bias(m, &node, &bias))
        return;
    if (is_packed)
        put_packed(m, &node, &p, bias);
    else
        put_multi_head(m, &node, id, bias);
}
