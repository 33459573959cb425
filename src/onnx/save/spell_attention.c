/* SPDX-License-Identifier: Apache-2.0 */
/* Scaled dot-product attention out of products and a softmax, heads split before and joined behind. */
#include "onnx/save/spell.h"
#include "ops/attention.h"

#include <math.h>

enum { Q, K, V, MASK, Q_COS = OPF_ATTENTION_Q_COS, K_COS = OPF_ATTENTION_K_COS, CHOICE = OPF_ATTENTION_CHOICE };

typedef struct attention {
    bool is_joined; /* [batch, length, heads * size], else [batch, heads, length, size] */
    bool is_split;  /* joined, and taken apart: into one head too where something is turned, as angles have an axis for
                       it */
    int64_t q_heads, kv_heads;
    opf_type type;
    float scale;
} attention;

/* What a plain softmax cannot say. Without "masked_score" a mask may hide a whole row, which then is zeros. */
static void check(opf_contrib *c)
{
    const bool is_plain = opf_contrib_attr(c, "masked_score").type != OPF_ATTR_NONE;
    for (uint32_t i = MASK + 1; i < Q_COS; i++)
        if (opf_contrib_in(c, i) != 0)
            opf_contrib_fail(c, OPF_UNSUPPORTED, "input %u has no spelling in older operators", i);
    for (uint32_t o = 1; o < c->n_outputs; o++)
        if (opf_contrib_wants(c, o))
            opf_contrib_fail(c, OPF_UNSUPPORTED, "output %u has no spelling in older operators", o);
    if (opf_contrib_in(c, MASK) != 0 && !is_plain)
        opf_contrib_fail(c, OPF_UNSUPPORTED, "rows that the mask hides have no spelling in older operators");
    opf_contrib_demand_int(c, "is_causal", 0);
    opf_contrib_demand_int(c, "left_window_size", -1);
    opf_contrib_demand_int(c, "right_window_size", -1);
}

static attention read_attention(opf_contrib *c)
{
    attention a = {.q_heads = opf_contrib_int(c, "q_num_heads", 0),
                   .kv_heads = opf_contrib_int(c, "kv_num_heads", 0),
                   .type = opf_contrib_type(c, opf_contrib_in(c, Q), "Q")};
    const opf_attr given = opf_contrib_attr(c, "scale");
    a.is_joined = opf_contrib_rank(c, opf_contrib_in(c, Q), "Q") == 3;
    if (!a.is_joined) {
        a.q_heads = opf_contrib_dim(c, opf_contrib_in(c, Q), 1, "Q");
        a.kv_heads = opf_contrib_dim(c, opf_contrib_in(c, K), 1, "K");
    }
    if (!opf_contrib_failed(c) && (a.q_heads < 1 || a.kv_heads < 1))
        opf_contrib_fail(c, OPF_UNSUPPORTED, "there are no heads");
    a.is_split = a.is_joined && (a.q_heads != 1 || opf_contrib_in(c, Q_COS) != 0 || opf_contrib_in(c, K_COS) != 0);
    a.scale = given.f;
    if (given.type == OPF_ATTR_NONE && !opf_contrib_failed(c)) {
        const int64_t width = opf_contrib_dim(c, opf_contrib_in(c, Q), -1, "Q");
        a.scale = (float)(1 / sqrt((double)(a.is_joined ? width / a.q_heads : width)));
    }
    return a;
}

/* [batch, heads, length, size]; or, for K, with the last two axes exchanged. */
static opf_value_id take_heads(opf_contrib *c, const attention *a, opf_value_id x, int64_t heads, bool is_transposed)
{
    if (a->is_split) {
        x = OPF_APPLY(c, Reshape, x, opf_contrib_ints(c, OPF_INTS(0, 0, heads, -1)));
        return is_transposed ? opf_contrib_transpose(c, x, OPF_INTS(0, 2, 3, 1))
                             : opf_contrib_transpose(c, x, OPF_INTS(0, 2, 1, 3));
    }
    if (!is_transposed)
        return x;
    return a->is_joined ? opf_contrib_transpose(c, x, OPF_INTS(0, 2, 1))
                        : opf_contrib_transpose(c, x, OPF_INTS(0, 1, 3, 2));
}

static opf_value_id join_heads(opf_contrib *c, const attention *a, opf_value_id y)
{
    return !a->is_split ? y
                        : OPF_APPLY(c, Reshape, opf_contrib_transpose(c, y, OPF_INTS(0, 2, 1, 3)),
                                    opf_contrib_ints(c, OPF_INTS(0, 0, -1)));
}

/* Each head of K or V once for every head of Q that reads it. */
static opf_value_id repeat_heads(opf_contrib *c, const attention *a, opf_value_id x)
{
    const int64_t times = a->q_heads / a->kv_heads;
    if (times == 1)
        return x;
    const int64_t size = opf_contrib_dim(c, x, 3, "a head");
    const opf_value_id single = OPF_APPLY(c, Unsqueeze, x, opf_contrib_ints(c, OPF_INTS(2)));
    const opf_value_id full = OPF_APPLY(c, Expand, single, opf_contrib_ints(c, OPF_INTS(1, 1, times, 1, 1)));
    return OPF_APPLY(c, Reshape, full, opf_contrib_ints(c, OPF_INTS(0, a->q_heads, -1, size)));
}

static opf_value_id transpose_last(opf_contrib *c, opf_value_id x)
{
    return opf_contrib_transpose(c, x, OPF_INTS(0, 1, 3, 2));
}

static opf_value_id scale(opf_contrib *c, const attention *a, opf_value_id x)
{
    return a->scale == 1 ? x : OPF_APPLY(c, Mul, x, opf_contrib_number(c, a->type, (double)a->scale));
}

/* x turned by the angles from input `cos` on, if there are such. */
static opf_value_id turn(opf_contrib *c, opf_value_id x, uint32_t cos, const char *rotated, const char *interleaved)
{
    const int64_t n = opf_contrib_int(c, rotated, 0);
    return n == 0 ? x
                  : opf_spell_turn(c, x, opf_contrib_in(c, cos), opf_contrib_in(c, cos + 1), n,
                                   opf_contrib_int(c, interleaved, 0) != 0);
}

static opf_value_id scaled_product(opf_contrib *c, const attention *a)
{
    const bool in_steps = a->q_heads != a->kv_heads || opf_contrib_in(c, K_COS) != 0;
    opf_value_id q = take_heads(c, a, opf_contrib_in(c, Q), a->q_heads, false);
    opf_value_id k = take_heads(c, a, opf_contrib_in(c, K), a->kv_heads, !in_steps);
    q = turn(c, q, Q_COS, "q_rotated", "q_interleaved");
    if (in_steps)
        k = transpose_last(c, repeat_heads(c, a, turn(c, k, K_COS, "k_rotated", "k_interleaved")));
    return scale(c, a, OPF_APPLY(c, MatMul, q, k));
}

static bool nan_is_zero(opf_contrib *c)
{
    return opf_contrib_int(c, "nan_is_zero", 0) != 0;
}

static opf_value_id soften(opf_contrib *c, const attention *a, opf_value_id scores)
{
    const opf_value_id p =
        opf_contrib_add(c, &opf_op_Softmax, OPF_INPUTS(scores), OPF_ATTRS(opf_contrib_int_attr("axis", -1)));
    return nan_is_zero(c) ? OPF_APPLY(c, Where, OPF_APPLY(c, IsNaN, p), opf_contrib_number(c, a->type, 0), p) : p;
}

static opf_value_id cap(opf_contrib *c, const attention *a, opf_value_id x)
{
    const double softcap = (double)opf_contrib_float(c, "softcap", 0);
    if (softcap == 0)
        return x;
    const opf_value_id limit = opf_contrib_number(c, a->type, softcap);
    return OPF_APPLY(c, Mul, OPF_APPLY(c, Tanh, OPF_APPLY(c, Div, x, limit)), limit);
}

/* Products of one head have no axis for it. */
static opf_value_id mask_of(opf_contrib *c, opf_value_id scores, uint32_t input)
{
    const opf_value_id mask = opf_contrib_in(c, input);
    const int32_t rank = opf_contrib_rank(c, mask, "the mask");
    if (rank < 4 || opf_contrib_rank(c, scores, "the scores") == 4)
        return mask;
    return OPF_APPLY(c, Squeeze, mask, opf_contrib_ints(c, OPF_INTS(1)));
}

/* One mask for so many batches: they get an axis of their own while it is added. */
static opf_value_id add_by_windows(opf_contrib *c, const attention *a, opf_value_id x, int64_t windows)
{
    const bool has_heads = opf_contrib_rank(c, x, "the scores") == 4;
    const int64_t rows = opf_contrib_dim(c, x, -2, "the scores"), keys = opf_contrib_dim(c, x, -1, "the scores");
    const opf_value_id apart = opf_contrib_ints(c, OPF_INTS(-1, windows, a->q_heads, rows, keys));
    const opf_value_id masked = OPF_APPLY(c, Add, OPF_APPLY(c, Reshape, x, apart), opf_contrib_in(c, MASK));
    const opf_value_id together = has_heads ? opf_contrib_ints(c, OPF_INTS(-1, a->q_heads, rows, keys))
                                            : opf_contrib_ints(c, OPF_INTS(-1, rows, keys));
    return OPF_APPLY(c, Reshape, masked, together);
}

static opf_value_id hide(opf_contrib *c, const attention *a, opf_value_id x)
{
    const int64_t windows = opf_contrib_int(c, "mask_windows", 0);
    const double hidden = (double)opf_contrib_float(c, "masked_score", 0);
    if (opf_contrib_in(c, CHOICE) != 0)
        x = OPF_APPLY(c, Where, mask_of(c, x, CHOICE), x, opf_contrib_number(c, a->type, hidden));
    if (opf_contrib_in(c, MASK) == 0)
        return x;
    if (windows != 0)
        return add_by_windows(c, a, x, windows);
    const opf_value_id mask = mask_of(c, x, MASK);
    if (opf_contrib_type(c, mask, "the mask") != OPF_BOOL)
        return OPF_APPLY(c, Add, x, mask);
    return OPF_APPLY(c, Where, mask, x, opf_contrib_number(c, a->type, hidden));
}

/* ---- positions first ---- */

/* A Transpose that exchanges batch and length. */
static bool is_exchange(const opf_node *node)
{
    const opf_attr *perm = node->op == &opf_op_Transpose ? opf_node_attr(node, "perm") : NULL;
    return perm != NULL && perm->n == 3 && perm->ints[0] == 1 && perm->ints[1] == 0;
}

/* The value before such a Transpose; 0: there is none. */
static opf_value_id exchanged(const opf_contrib *c, opf_value_id x)
{
    const opf_node *node = opf_graph_node(c->graph, opf_graph_value(c->graph, x)->producer);
    return is_exchange(node) ? node->inputs[0] : 0;
}

/* The Transpose that alone reads the result, when a Reshape alone reads that, which says all but the first dimension
   itself: heads are joined by it. 0: there is none. */
static opf_node_id find_join(const opf_contrib *c)
{
    const opf_use *use = opf_graph_single_use(c->graph, c->outputs[0]);
    if (use == NULL || !is_exchange(opf_graph_node(c->graph, use->node)))
        return 0;
    const opf_use *next = opf_graph_single_use(c->graph, opf_graph_node(c->graph, use->node)->outputs[0]);
    const opf_node *reshape = next != NULL ? opf_graph_node(c->graph, next->node) : NULL;
    if (reshape == NULL || reshape->op != &opf_op_Reshape || next->input != 0 ||
        opf_node_int(reshape, "allowzero", 0) != 0)
        return 0;
    const opf_const *target = opf_graph_value(c->graph, reshape->inputs[1])->constant;
    for (size_t i = 1; target != NULL && i < target->count; i++)
        if (opf_const_i64_at(target, i) == 0)
            return 0;
    return target != NULL ? use->node : 0;
}

/* [batch * heads, length, size] to whoever reads the result. */
static void join_batches(opf_contrib *c, opf_value_id y, int64_t width)
{
    const opf_node_id join = find_join(c);
    const opf_value_id first = opf_contrib_transpose(c, y, OPF_INTS(1, 0, 2));
    if (opf_contrib_failed(c))
        return;
    if (join == 0) {
        const opf_value_id joined = OPF_APPLY(c, Reshape, first, opf_contrib_ints(c, OPF_INTS(0, -1, width)));
        opf_contrib_bind(c, 0, opf_contrib_transpose(c, joined, OPF_INTS(1, 0, 2)));
        return;
    }
    if (!opf_graph_replace_uses(c->graph, opf_graph_node(c->graph, join)->outputs[0], first))
        opf_contrib_fail(c, OPF_OUT_OF_MEMORY, "out of memory");
    opf_graph_remove_node(c->graph, join);
}

/* [length, batch, heads * size] as [batch * heads, length, size]; or, for K, with the last two axes exchanged. */
static opf_value_id take_batches(opf_contrib *c, opf_value_id x, int64_t heads, bool is_transposed)
{
    const int64_t size = opf_contrib_dim(c, x, 2, "an operand") / heads;
    const opf_value_id split = OPF_APPLY(c, Reshape, x, opf_contrib_ints(c, OPF_INTS(0, -1, size)));
    return is_transposed ? opf_contrib_transpose(c, split, OPF_INTS(1, 2, 0))
                         : opf_contrib_transpose(c, split, OPF_INTS(1, 0, 2));
}

/* Operands that have positions first are not brought to another order and back: heads join the batch. */
static bool spell_by_positions(opf_contrib *c, const attention *a)
{
    opf_value_id x[3];
    if (!a->is_joined || a->q_heads != a->kv_heads || opf_contrib_in(c, MASK) != 0 || opf_contrib_in(c, Q_COS) != 0 ||
        opf_contrib_in(c, K_COS) != 0)
        return false;
    for (uint32_t i = Q; i <= V; i++) {
        x[i] = exchanged(c, opf_contrib_in(c, i));
        if (x[i] == 0 || !opf_dim_is_number(opf_contrib_info(c, x[i])->dims[2]))
            return false;
    }
    const opf_value_id product =
        OPF_APPLY(c, MatMul, take_batches(c, x[Q], a->q_heads, false), take_batches(c, x[K], a->q_heads, true));
    const opf_value_id scores = cap(c, a, scale(c, a, product));
    const opf_value_id y = OPF_APPLY(c, MatMul, soften(c, a, scores), take_batches(c, x[V], a->q_heads, false));
    join_batches(c, y, opf_contrib_dim(c, x[V], 2, "V"));
    return true;
}

/* ---- the operator, behind what it turned ---- */

static bool is_ours(const opf_attr *attr)
{
    static const char *const names[] = {"q_rotated",     "k_rotated",   "q_interleaved", "k_interleaved",
                                        "masked_score", "q_num_heads", "kv_num_heads"};
    for (uint32_t i = 0; i < OPF_COUNT(names); i++)
        if (strcmp(attr->name, names[i]) == 0)
            return true;
    return false;
}

static void spell_by_operator(opf_contrib *c, const attention *a)
{
    opf_value_id inputs[Q_COS] = {0}, out[4] = {0};
    opf_attr *attrs = OPF_NEW(c->graph->arena, opf_attr, c->n_attrs + 1);
    uint32_t n_attrs = 0, n_inputs = Q_COS;
    if (attrs == NULL) {
        opf_contrib_fail(c, OPF_OUT_OF_MEMORY, "out of memory");
        return;
    }
    for (uint32_t i = 0; i < c->n_attrs; i++)
        if (!is_ours(&c->attrs[i]))
            attrs[n_attrs++] = c->attrs[i];
    for (uint32_t i = Q; i < Q_COS; i++)
        inputs[i] = i > V ? opf_contrib_in(c, i)
                          : take_heads(c, a, opf_contrib_in(c, i), i == Q ? a->q_heads : a->kv_heads, false);
    inputs[Q] = turn(c, inputs[Q], Q_COS, "q_rotated", "q_interleaved");
    inputs[K] = turn(c, inputs[K], K_COS, "k_rotated", "k_interleaved");
    while (n_inputs > 0 && inputs[n_inputs - 1] == 0)
        n_inputs--;
    opf_contrib_add_many(c, &opf_op_Attention, n_inputs, inputs, n_attrs, attrs, c->n_outputs, out);
    opf_contrib_bind(c, 0, join_heads(c, a, out[0]));
    for (uint32_t o = 1; o < c->n_outputs; o++)
        if (opf_contrib_wants(c, o))
            opf_contrib_bind(c, o, out[o]);
}

void opf_spell_Attention(opf_contrib *c)
{
    const bool is_plain = opf_contrib_attr(c, "masked_score").type != OPF_ATTR_NONE;
    const bool hides = opf_contrib_in(c, MASK) != 0 || opf_contrib_in(c, CHOICE) != 0;
    if (c->opset >= 23 && !(is_plain && hides) && !nan_is_zero(c)) {
        const attention a = read_attention(c);
        spell_by_operator(c, &a);
        return;
    }
    check(c);
    const attention a = read_attention(c);
    if (opf_contrib_failed(c) || spell_by_positions(c, &a))
        return;
    const opf_value_id weights = soften(c, &a, hide(c, &a, cap(c, &a, scaled_product(c, &a))));
    const opf_value_id v = repeat_heads(c, &a, take_heads(c, &a, opf_contrib_in(c, V), a.kv_heads, false));
    opf_contrib_bind(c, 0, join_heads(c, &a, OPF_APPLY(c, MatMul, weights, v)));
}
