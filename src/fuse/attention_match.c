/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/attention.h"

#include <math.h>

#define REFUSE(a, code, node, ...) opf_refuse((a)->context, &(a)->why, OPF_MISS_##code, node, __VA_ARGS__)

static const opf_info *info_of(const opf_attention *a, opf_value_id value)
{
    return &opf_graph_value(a->context->graph, value)->info;
}

static const opf_node *node_of(const opf_attention *a, opf_node_id id)
{
    return opf_graph_node(a->context->graph, id);
}

static opf_node_id producer_of(const opf_attention *a, opf_value_id value)
{
    return opf_graph_value(a->context->graph, value)->producer;
}

static bool is_plain(const opf_attention *a, opf_node_id id, const opf_op *op)
{
    return opf_fuse_is_plain(a->context->graph, id, op);
}

static bool take(opf_attention *a, opf_node_id id)
{
    if (a->n == OPF_ATTENTION_NODES)
        return REFUSE(a, BUDGET, id, "more than %d nodes", OPF_ATTENTION_NODES);
    a->nodes[a->n++] = id;
    return true;
}

/* ---- from the softmax up to the product ---- */

/* Batches get an axis of their own, or lose it. */
static bool is_by_windows(const opf_graph *graph, opf_node_id id)
{
    if (!opf_fuse_is_plain(graph, id, &opf_op_Reshape))
        return false;
    const opf_node *node = opf_graph_node(graph, id);
    const int32_t before = opf_graph_value(graph, node->inputs[0])->info.rank,
                  behind = opf_graph_value(graph, node->outputs[0])->info.rank;
    return (before == 4 && behind == 5) || (before == 5 && behind == 4);
}

static bool is_between(const opf_graph *graph, opf_node_id id)
{
    static const opf_op *const between[] = {&opf_op_Add, &opf_op_Mul, &opf_op_Div, &opf_op_Where, &opf_op_Tanh};
    for (size_t i = 0; i < sizeof between / sizeof *between; i++)
        if (opf_fuse_is_plain(graph, id, between[i]))
            return true;
    return is_by_windows(graph, id);
}

enum { DEPTH = 6 }; /* nodes between a softmax and the product, at most */

/* The value is a product, perhaps with factors and masks on it. */
static bool is_scores(const opf_graph *graph, opf_value_id value, int depth)
{
    const opf_node_id id = opf_graph_value(graph, value)->producer;
    const opf_node *node = opf_graph_node(graph, id);
    if (opf_fuse_is_plain(graph, id, &opf_op_MatMul))
        return opf_graph_value(graph, node->inputs[1])->constant == NULL;
    if (depth == 0 || !is_between(graph, id))
        return false;
    for (uint32_t k = 0; k < (node->op == &opf_op_Reshape ? 1 : node->n_own_inputs); k++)
        if (is_scores(graph, node->inputs[k], depth - 1))
            return true;
    return false;
}

bool opf_attention_carries_scores(const opf_graph *graph, opf_node_id id, uint32_t *side)
{
    const opf_node *node = opf_graph_node(graph, id);
    for (*side = 0; is_between(graph, id) && *side < node->n_own_inputs; (*side)++)
        if (is_scores(graph, node->inputs[*side], DEPTH))
            return true;
    return false;
}

/* It broadcasts: what it is added to, or chooses, keeps the shape of the scores, which is checked on the way. */
static bool check_mask(opf_attention *a, opf_node_id id, opf_value_id mask, const opf_info *scores)
{
    const int32_t n = info_of(a, mask)->rank, full = scores->rank;
    return n <= full || REFUSE(a, RANK, id, "the mask has rank %d, the scores have %d", n, full);
}

static bool take_add(opf_attention *a, opf_node_id id, opf_value_id *value)
{
    const opf_node *add = node_of(a, id);
    const uint32_t side = is_scores(a->context->graph, add->inputs[0], DEPTH) ? 0 : 1;
    if (a->n_masks == OPF_ATTENTION_MASKS || a->choice != 0)
        return REFUSE(a, OP, id, "a mask on top of other masks");
    a->masks[a->n_masks++] = add->inputs[1 - side];
    *value = add->inputs[side];
    return check_mask(a, id, add->inputs[1 - side], info_of(a, add->outputs[0]));
}

static bool take_where(opf_attention *a, opf_node_id id, opf_value_id *value)
{
    const opf_node *where = node_of(a, id);
    const uint32_t side = is_scores(a->context->graph, where->inputs[1], DEPTH) ? 1 : 2;
    if (a->choice != 0 || a->windows != 0)
        return REFUSE(a, OP, id, "a mask on top of other masks");
    if (!opf_graph_scalar(a->context->graph, where->inputs[3 - side], &a->fill) || isnan(a->fill))
        return REFUSE(a, CONST, id, "what hidden scores become is no constant of one element");
    a->choice = where->inputs[0];
    a->is_inverted = side == 2;
    *value = where->inputs[side];
    return check_mask(a, id, where->inputs[0], info_of(a, where->outputs[0]));
}

/* [batch * window, ...] as [batch, window, ...], a mask that differs by windows alone, and back. A Reshape keeps the
   number of elements, so that the first dimension of the scores is the product of both. */
static bool take_windows(opf_attention *a, opf_node_id id, opf_value_id *value)
{
    enum { BATCH, WINDOW, HEAD, FULL = 5 };
    const opf_node_id add_id = producer_of(a, node_of(a, id)->inputs[0]);
    if (!is_plain(a, add_id, &opf_op_Add) || a->n_masks == OPF_ATTENTION_MASKS || a->choice != 0)
        return REFUSE(a, OP, id, "no single mask is added between both Reshape nodes");
    if (info_of(a, *value)->rank != FULL - 1)
        return REFUSE(a, RANK, id, "the scores have rank %d, must be 4 for windows", (int)info_of(a, *value)->rank);
    const opf_node *add = node_of(a, add_id);
    const uint32_t side = is_by_windows(a->context->graph, producer_of(a, add->inputs[0])) ? 0 : 1;
    const opf_node_id split = producer_of(a, add->inputs[side]);
    const opf_info *apart = info_of(a, add->outputs[0]), *scores = info_of(a, *value);
    const opf_value_id mask = add->inputs[1 - side];
    const opf_info *m = info_of(a, mask);
    if (!is_by_windows(a->context->graph, split))
        return REFUSE(a, OP, add_id, "neither operand is the scores, reshaped");
    if (!opf_legal_same(a->context, info_of(a, add->inputs[side]), apart, &a->why) || !take(a, add_id) ||
        !take(a, split))
        return false;
    for (int32_t i = HEAD; i < FULL; i++)
        if (!opf_dim_equal(apart->dims[i], scores->dims[i - 1]))
            return REFUSE(a, SHAPE_UNKNOWN, split, "more than batches is not proven to be reshaped");
    const opf_dim windows = m->rank >= FULL - WINDOW ? m->dims[m->rank - FULL + WINDOW] : opf_dim_number(1);
    if (m->rank == FULL && !opf_dim_is(m->dims[BATCH], 1))
        return REFUSE(a, SHAPE, add_id, "the mask differs by more than windows");
    if (!opf_dim_is_number(windows) || windows.n < 1)
        return REFUSE(a, SHAPE_UNKNOWN, add_id, "the number of windows is not known");
    if (windows.n > 1 && a->windows != 0 && a->windows != windows.n)
        return REFUSE(a, SHAPE, add_id, "masks for %lld and for %lld windows", (long long)windows.n,
                      (long long)a->windows);
    a->windows = windows.n > 1 ? windows.n : a->windows;
    a->masks[a->n_masks++] = mask;
    *value = node_of(a, split)->inputs[0];
    return check_mask(a, add_id, mask, apart);
}

/* Masks come last, then softcap * tanh(.), then factors. */
static bool take_score_node(opf_attention *a, opf_node_id id, opf_value_id *value, bool *is_scaled)
{
    double factor;
    const bool is_add = is_plain(a, id, &opf_op_Add), is_reshape = is_by_windows(a->context->graph, id);
    if (is_add || is_reshape || is_plain(a, id, &opf_op_Where)) {
        if (*is_scaled)
            return REFUSE(a, OP, id, "the scores are scaled behind the mask");
        return is_add ? take_add(a, id, value) : is_reshape ? take_windows(a, id, value) : take_where(a, id, value);
    }
    if (is_plain(a, id, &opf_op_Tanh)) {
        if (a->softcap != 0 || a->scale <= 0)
            return REFUSE(a, CONST, id, "Tanh without a positive factor behind it");
        a->softcap = a->scale;
        a->scale = 1;
        *value = node_of(a, id)->inputs[0];
        return *is_scaled = true;
    }
    if (opf_attention_factor(a->context, id, value, &factor)) {
        a->scale *= factor;
        return *is_scaled = true;
    }
    if (is_plain(a, id, &opf_op_Mul) || is_plain(a, id, &opf_op_Div))
        return REFUSE(a, CONST, id, "the scores are scaled by no constant of one element");
    return REFUSE(a, OP, id != 0 ? id : a->softmax, "%s is made by %s, must be a product, scaled or masked",
                  opf_graph_value(a->context->graph, *value)->name, id != 0 ? node_of(a, id)->op_type : "nothing");
}

static bool find_scores(opf_attention *a)
{
    opf_value_id value = node_of(a, a->softmax)->inputs[0];
    const opf_info *scores = info_of(a, value);
    bool is_scaled = false;
    a->scale = 1;
    a->fill = -(double)INFINITY;
    for (;;) {
        const opf_node_id id = producer_of(a, value);
        if (!opf_legal_same(a->context, info_of(a, value), scores, &a->why) || (id != 0 && !take(a, id)))
            return false;
        if (is_plain(a, id, &opf_op_MatMul))
            break;
        if (!take_score_node(a, id, &value, &is_scaled))
            return false;
    }
    a->product = producer_of(a, value);
    return true;
}

/* Where(IsNaN(p), 0, p): *p is its result then. */
static bool take_replaced(opf_attention *a, opf_value_id *p)
{
    const opf_graph *graph = a->context->graph;
    const opf_value *value = opf_graph_value(graph, *p);
    opf_node_id is_nan = 0, where = 0;
    double number = 0;
    for (uint32_t i = 0; i < value->n_uses; i++) {
        is_nan = is_plain(a, value->uses[i].node, &opf_op_IsNaN) ? value->uses[i].node : is_nan;
        where = is_plain(a, value->uses[i].node, &opf_op_Where) ? value->uses[i].node : where;
    }
    if (is_nan == 0 || where == 0 || node_of(a, where)->inputs[0] != node_of(a, is_nan)->outputs[0])
        return true;
    if (node_of(a, where)->inputs[2] != *p)
        return REFUSE(a, OP, where, "probabilities that are NaN stay, others do not");
    if (!opf_graph_scalar(graph, node_of(a, where)->inputs[1], &number) || number != 0)
        return REFUSE(a, CONST, where, "probabilities that are NaN become no constant 0 of one element");
    *p = node_of(a, where)->outputs[0];
    return a->is_safe =
               opf_legal_same(a->context, info_of(a, *p), &value->info, &a->why) && take(a, where) && take(a, is_nan);
}

/* The product with the values reads the probabilities, perhaps through nodes that are taken. */
static bool find_result(opf_attention *a)
{
    opf_value_id probabilities = node_of(a, a->softmax)->outputs[0];
    if (!take_replaced(a, &probabilities))
        return false;
    const opf_value *p = opf_graph_value(a->context->graph, probabilities);
    opf_node_id reader = 0;
    for (uint32_t i = 0; i < p->n_uses; i++) {
        reader = p->uses[i].node != 0 ? p->uses[i].node : reader;
        if (is_plain(a, p->uses[i].node, &opf_op_MatMul) && p->uses[i].input == 0)
            a->result = p->uses[i].node;
    }
    if (a->result != 0)
        return true;
    if (is_plain(a, reader, &opf_op_MatMul))
        return REFUSE(a, OP, reader, "the probabilities are the right operand of %s", node_of(a, reader)->name);
    return REFUSE(a, OP, reader != 0 ? reader : a->softmax, "no MatMul reads the probabilities");
}

/* ---- operands ---- */

static bool check_dims(opf_attention *a)
{
    const opf_graph *graph = a->context->graph;
    if (a->q.rank == 2)
        return true;
    const opf_dim n = opf_attention_dim(graph, &a->q, 0);
    if (!opf_dim_equal(n, opf_attention_dim(graph, &a->k, 0)) || !opf_dim_equal(n, opf_attention_dim(graph, &a->v, 0)))
        return REFUSE(a, SHAPE_UNKNOWN, a->product, "Q, K and V are not proven to have the same batch");
    if (a->q.rank == 3)
        return true;
    const opf_dim q = opf_attention_dim(graph, &a->q, 1), k = opf_attention_dim(graph, &a->k, 1);
    if (!opf_dim_equal(k, opf_attention_dim(graph, &a->v, 1)))
        return REFUSE(a, SHAPE_UNKNOWN, a->result, "K and V are not proven to have the same number of heads");
    if (!opf_dim_equal(q, k) && (!opf_dim_is_number(q) || !opf_dim_is_number(k) || k.n < 1 || q.n % k.n != 0))
        return REFUSE(a, SHAPE_UNKNOWN, a->product, "the heads of Q are not proven to be those of K, or a multiple");
    return true;
}

/* A mask for windows and one that differs by batches have no sum. */
static bool check_windows(opf_attention *a, int32_t rank)
{
    if (a->windows == 0)
        return true;
    if (rank != 4)
        return REFUSE(a, RANK, a->result, "the result has rank %d, must be 4 for windows", (int)rank);
    for (uint32_t i = 0; i < a->n_masks; i++) {
        const opf_info *mask = info_of(a, a->masks[i]);
        if (mask->rank == 4 && !opf_dim_is(mask->dims[0], 1) && !opf_dim_is(mask->dims[0], a->windows))
            return REFUSE(a, SHAPE, a->product, "the mask %s differs by batches, another by windows",
                          opf_graph_value(a->context->graph, a->masks[i])->name);
    }
    return true;
}

static bool find_operands(opf_attention *a)
{
    const opf_node *product = node_of(a, a->product), *result = node_of(a, a->result);
    const opf_value_id values[] = {product->inputs[0], product->inputs[1], result->inputs[1]};
    const int32_t rank = info_of(a, result->outputs[0])->rank;
    if (rank < 2 || rank > 4)
        return REFUSE(a, RANK, a->result, "the result has rank %d, must be 2 to 4", (int)rank);
    for (int i = 0; i < 3; i++)
        if (info_of(a, values[i])->rank != rank)
            return REFUSE(a, RANK, i == 2 ? a->result : a->product, "%s has rank %d, must be %d",
                          opf_graph_value(a->context->graph, values[i])->name, (int)info_of(a, values[i])->rank,
                          (int)rank);
    if (!check_windows(a, rank))
        return false;
    opf_attention_find(a->context, values[0], rank, false, &a->scale, &a->q);
    opf_attention_find(a->context, values[1], rank, true, &a->scale, &a->k);
    opf_attention_find(a->context, values[2], rank, false, NULL, &a->v);
    opf_attention_operand k = a->k, v = a->v;
    if (opf_attention_unrepeat(a->context, &k) && opf_attention_unrepeat(a->context, &v) && k.group == v.group) {
        a->k = k;
        a->v = v;
    }
    if (a->v.rotary != 0)
        return REFUSE(a, OP, a->v.rotary, "the values are turned, as queries and keys may be");
    return check_dims(a);
}

bool opf_attention_match(opf_attention *a)
{
    const opf_node *softmax = node_of(a, a->softmax);
    const opf_info *scores = info_of(a, softmax->inputs[0]);
    const int64_t axis = opf_node_int(softmax, "axis", -1);
    if (!find_result(a) || !take(a, a->result) || !take(a, a->softmax))
        return false;
    if (scores->type != OPF_FLOAT)
        return REFUSE(a, DTYPE, a->softmax, "the scores are %s, must be float", opf_type_name(scores->type));
    if (axis != -1 && axis != scores->rank - 1)
        return REFUSE(a, ATTR, a->softmax, "axis is %lld, must be the last", (long long)axis);
    if (!find_scores(a))
        return false;
    a->y = node_of(a, a->result)->outputs[0];
    if (!opf_legal_interior(a->context, a->nodes, a->n, &a->y, 1, &a->why) || !find_operands(a))
        return false;
    a->scale *= a->softcap != 0 ? a->softcap : 1;
    if (!isfinite((float)a->scale) || !isfinite((float)a->softcap))
        return REFUSE(a, CONST, a->product, "the scale is %g", a->scale);
    return opf_legal_convex(a->context, a->nodes, a->n, &a->why);
}

bool opf_attention_is_near(const opf_attention *a)
{
    if (a->result != 0 || (a->why.node != 0 && is_plain(a, a->why.node, &opf_op_MatMul)))
        return true;
    return is_scores(a->context->graph, node_of(a, a->softmax)->inputs[0], DEPTH);
}
