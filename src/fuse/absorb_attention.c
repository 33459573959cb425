/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scaled dot-product attention as exporters spell it, found from its Softmax:
 *     MatMul(Softmax(MatMul(Q, K') * scale + mask), V)
 * The factor may be on Q, on K, on both, or on the product; the mask may be added, or chosen by Where. The result is
 * the operator Attention: on [batch, position, heads * element] where heads are split before and joined behind, so that
 * the nodes that do so vanish; else on [batch, head, position, element]; on products of rank 3 with one head, and of
 * rank 2 with one batch too. Rotary embeddings of Q and K become part of it, with their angles as inputs, where nothing
 * else reads what they turn.
 *
 * The operator itself makes rows without a key zeros; what was matched does not, and "masked_score" tells it so; unless
 * it does so itself, as Where(IsNaN(p), 0, p) on the probabilities p, which "nan_is_zero" says.
 */
#include "fuse/attention.h"
#include "ops/attention.h"

#include <math.h>

enum { Q, K, V, MASK, Q_COS = OPF_ATTENTION_Q_COS, K_COS = OPF_ATTENTION_K_COS, CHOICE = OPF_ATTENTION_CHOICE, INPUTS = OPF_ATTENTION_INPUTS };

static const char rule[] = "attention";

typedef struct builder {
    opf_attention *a;
    opf_graph *graph;
    opf_error error; /* of inference: the rewrite is refused, unless memory is out */
    opf_value_id inputs[INPUTS], result, last; /* last: what takes the place of y, the result or a view of it */
    int64_t q_heads, kv_heads; /* 0: rank 4 */
    opf_node_id node;
    opf_node_id join; /* 0, or the Reshape that joins heads with positions first: it stays, and reads `joined` */
    opf_value_id joined;
} builder;

static const opf_info *info_of(const builder *b, opf_value_id value)
{
    return &opf_graph_value(b->graph, value)->info;
}

/* A node with one result, which is not inferred yet. */
static opf_value_id add_node(builder *b, const opf_op *op, const opf_value_id *inputs, uint32_t n, opf_node_id *id)
{
    const opf_value_id result = opf_graph_add_value(b->graph, NULL);
    *id = result != 0 ? opf_graph_add_node(b->graph, op, op->name, NULL, inputs, n, &result, 1) : 0;
    return *id != 0 ? result : 0;
}

static bool infer(builder *b, opf_node_id id)
{
    return opf_fuse_infer(b->a->context, id, &b->error) == OPF_OK;
}

/* ---- heads that are split before and joined behind ---- */

static const int32_t in_order[] = {0, 1, 2, 3}, positions_first[] = {1, 0, 2};

/* A Transpose that alone reads the value. */
static opf_node_id only_transpose(const builder *b, opf_value_id value, int32_t rank, const int64_t *wanted)
{
    const opf_use *use = opf_graph_single_use(b->graph, value);
    if (use == NULL || !opf_fuse_is_plain(b->graph, use->node, &opf_op_Transpose))
        return 0;
    const opf_attr *perm = opf_node_attr(opf_graph_node(b->graph, use->node), "perm");
    for (int32_t i = 0; i < rank; i++)
        if (perm == NULL || perm->n != (uint32_t)rank || perm->ints[i] != wanted[i])
            return 0;
    return use->node;
}

static opf_node_id only_reshape(const builder *b, opf_value_id value)
{
    const opf_use *use = opf_graph_single_use(b->graph, value);
    return use != NULL && opf_fuse_is_plain(b->graph, use->node, &opf_op_Reshape) ? use->node : 0;
}

/* [N,H,S,D] to [N,S,H*D] behind: both nodes go, and the last result is that of Attention. */
static bool join_heads(builder *b, const opf_attention_joined *q)
{
    static const int64_t perm[] = {0, 2, 1, 3};
    opf_attention *a = b->a;
    const opf_node_id transpose = only_transpose(b, a->y, 4, perm);
    const opf_node_id reshape = transpose != 0 ? only_reshape(b, opf_graph_node(b->graph, transpose)->outputs[0]) : 0;
    if (reshape == 0 || a->n + 2 > OPF_ATTENTION_NODES)
        return false;
    const opf_value_id result = opf_graph_node(b->graph, reshape)->outputs[0];
    const opf_info *joined = info_of(b, result), *x = info_of(b, q->value);
    if (joined->rank != 3 || !opf_dim_equal(joined->dims[0], x->dims[0]) || !opf_dim_equal(joined->dims[1], x->dims[1]))
        return false;
    a->nodes[a->n++] = transpose;
    a->nodes[a->n++] = reshape;
    a->y = result;
    return true;
}

/* [N*H,S,D] to [S,N*H,D], then to whatever: the Reshape will read [S,N,H*D], so it must say all but the first itself.
 */
static bool join_positions(builder *b)
{
    static const int64_t perm[] = {1, 0, 2};
    opf_attention *a = b->a;
    const opf_node_id transpose = only_transpose(b, a->y, 3, perm);
    const opf_node_id reshape = transpose != 0 ? only_reshape(b, opf_graph_node(b->graph, transpose)->outputs[0]) : 0;
    if (reshape == 0 || a->n + 1 > OPF_ATTENTION_NODES || a->n_masks != 0 || a->choice != 0)
        return false;
    const opf_node *node = opf_graph_node(b->graph, reshape);
    const opf_const *target = opf_graph_value(b->graph, node->inputs[1])->constant;
    if (target == NULL || opf_node_int(node, "allowzero", 0) != 0)
        return false;
    for (size_t i = 1; i < target->count; i++)
        if (opf_const_i64_at(target, i) == 0)
            return false;
    a->nodes[a->n++] = transpose;
    a->y = opf_graph_node(b->graph, transpose)->outputs[0];
    b->join = reshape;
    return true;
}

/* False: nothing is joined, and the nodes stay. */
static bool find_joined(builder *b, opf_attention_joined joined[3])
{
    opf_attention *a = b->a;
    const opf_attention_operand *operands[] = {&a->q, &a->k, &a->v};
    for (int i = 0; i < 3; i++) {
        joined[i] = opf_attention_join(a->context, operands[i]);
        if (joined[i].value == 0)
            return false;
    }
    if (joined[K].heads != joined[V].heads || joined[Q].heads % joined[K].heads != 0)
        return false;
    return a->q.rank == 4 ? join_heads(b, &joined[Q]) : joined[Q].heads == joined[K].heads && join_positions(b);
}

static bool build_angles(builder *b)
{
    const opf_attention *a = b->a;
    return (a->q.rotary == 0 || opf_attention_angles(a->context, &a->q, &b->inputs[Q_COS], &b->error)) &&
           (a->k.rotary == 0 || opf_attention_angles(a->context, &a->k, &b->inputs[K_COS], &b->error));
}

/* The operator chooses by its mask where nothing is added. */
static bool build_masks(builder *b)
{
    opf_attention *a = b->a;
    const uint32_t choice = a->n_masks != 0 ? CHOICE : MASK;
    b->inputs[MASK] = a->n_masks != 0 ? opf_attention_mask(a, &b->error) : 0;
    b->inputs[choice] = a->choice != 0 ? opf_attention_choice(a, &b->error) : b->inputs[choice];
    return (a->n_masks == 0 || b->inputs[MASK] != 0) && (a->choice == 0 || b->inputs[choice] != 0);
}

static bool build_inputs(builder *b)
{
    opf_attention *a = b->a;
    const opf_attention_operand *operands[] = {&a->q, &a->k, &a->v};
    opf_attention_joined joined[3];
    const bool is_joined = find_joined(b, joined);
    for (int i = 0; i < 3; i++) {
        const opf_attention_operand *x = operands[i];
        if (is_joined)
            b->inputs[i] = opf_attention_permuted(a->context, joined[i].value, 3,
                                                  x->rank == 4 ? in_order : positions_first, &b->error);
        else
            b->inputs[i] = opf_attention_whole(a->context, x, &b->error);
        if (b->inputs[i] != 0 && x->rank == 2)
            b->inputs[i] =
                opf_attention_change_axis(a->context, &opf_op_Unsqueeze, b->inputs[i], 0, &b->error);
        if (b->inputs[i] == 0)
            return false;
    }
    b->q_heads = is_joined ? joined[Q].heads : a->q.rank < 4 ? 1 : 0;
    b->kv_heads = is_joined ? joined[K].heads : b->q_heads;
    return build_masks(b) && build_angles(b);
}

/* ---- the node ---- */

/* How many elements of each row the operand's rotary embedding turns, and which are partners. */
static bool set_rotation(builder *b, const opf_attention_operand *x, const char *rotated, const char *interleaved)
{
    const opf_node *rotary = opf_graph_node(b->graph, x->rotary);
    if (x->rotary == 0)
        return true;
    const opf_dim size = opf_attention_dim(b->graph, x, x->rank - 1);
    const int64_t n = opf_node_int(rotary, "rotary_embedding_dim", 0), pairs = opf_node_int(rotary, "interleaved", 0);
    return opf_node_set_int(b->graph, b->node, rotated, n != 0 ? n : size.n) &&
           (pairs == 0 || opf_node_set_int(b->graph, b->node, interleaved, 1));
}

static bool build_node(builder *b)
{
    const opf_attention *a = b->a;
    opf_graph *graph = b->graph;
    uint32_t n = INPUTS;
    while (b->inputs[n - 1] == 0)
        n--;
    b->result = add_node(b, &opf_op_Attention, b->inputs, n, &b->node);
    if (b->result == 0 || !opf_node_set_float(graph, b->node, "scale", (float)a->scale) ||
        !opf_node_set_float(graph, b->node, "masked_score", (float)a->fill) ||
        (a->windows != 0 && !opf_node_set_int(graph, b->node, "mask_windows", a->windows)) ||
        (a->is_safe && !opf_node_set_int(graph, b->node, "nan_is_zero", 1)) ||
        (a->softcap != 0 && !opf_node_set_float(graph, b->node, "softcap", (float)a->softcap)) ||
        (b->q_heads != 0 && (!opf_node_set_int(graph, b->node, "q_num_heads", b->q_heads) ||
                             !opf_node_set_int(graph, b->node, "kv_num_heads", b->kv_heads))) ||
        !set_rotation(b, &a->q, "q_rotated", "q_interleaved") ||
        !set_rotation(b, &a->k, "k_rotated", "k_interleaved") ||
        !infer(b, b->node))
        return false;
    b->last = a->q.rank == 2 ? opf_attention_change_axis(a->context, &opf_op_Squeeze, b->result, 0, &b->error)
                             : b->result;
    b->joined = b->join != 0 ? opf_attention_permuted(a->context, b->result, 3, positions_first, &b->error) : 0;
    return b->last != 0 && (b->join == 0 || b->joined != 0);
}

/* What will be read in place of y is shaped like it; joined positions only have as many elements. */
static bool has_shape_of_y(builder *b)
{
    opf_attention *a = b->a;
    const opf_info *y = info_of(b, a->y), *x = info_of(b, b->join != 0 ? b->joined : b->last);
    if (b->join == 0)
        return opf_legal_same(a->context, x, y, &a->why);
    opf_dims *dims = b->graph->dims;
    const opf_dim found = opf_dim_mul(dims, x->dims[1], x->dims[2]), wanted = opf_dim_mul(dims, y->dims[1], y->dims[2]);
    if (opf_dim_equal(x->dims[0], y->dims[0]) && opf_dim_equal(found, wanted))
        return true;
    return opf_refuse(a->context, &a->why, OPF_MISS_SHAPE_UNKNOWN, b->join, "heads are not proven to be joined");
}

/* ---- the exchange ---- */

/* Factors that stood before movements are read past from now on. */
static bool skip_factors(builder *b)
{
    const opf_attention_operand *operands[] = {&b->a->q, &b->a->k};
    for (int i = 0; i < 2; i++)
        if (operands[i]->reader != 0) {
            const opf_value_id scaled = opf_graph_node(b->graph, operands[i]->reader)->inputs[0];
            if (!opf_graph_set_input(b->graph, operands[i]->reader, 0, operands[i]->unscaled) ||
                !opf_attention_remove_unread(b->graph, b->node, scaled))
                return false;
        }
    return true;
}

static bool exchange(builder *b)
{
    opf_attention *a = b->a;
    opf_graph *graph = b->graph;
    const char *name = opf_graph_node(graph, a->result)->name;
    const opf_value_id reads[] = {opf_graph_node(graph, a->product)->inputs[0],
                                  opf_graph_node(graph, a->product)->inputs[1],
                                  opf_graph_node(graph, a->result)->inputs[1]};
    for (uint32_t i = a->n; i-- > 0;)
        if (!opf_attention_join_origin(graph, b->node, a->nodes[i]))
            return false;
    for (uint32_t i = 0; i < a->n; i++)
        opf_graph_remove_node(graph, a->nodes[i]);
    const opf_node_id last = opf_graph_value(graph, b->last)->producer;
    if (!skip_factors(b) || !opf_attention_read_shapes_before(graph, &a->q) ||
        !opf_attention_read_shapes_before(graph, &a->k) ||
        !(b->join != 0 ? opf_graph_set_input(graph, b->join, 0, b->joined)
                       : opf_graph_set_output(graph, last, 0, a->y)))
        return false;
    for (int i = 0; i < 3; i++)
        if (!opf_attention_remove_unread(graph, b->node, reads[i]))
            return false;
    opf_graph_node(graph, b->node)->name = name;
    return opf_map_put(&graph->node_names, name, b->node);
}

static opf_status apply(opf_attention *a, opf_node_id *anchor, opf_error *error)
{
    builder b = {.a = a, .graph = a->context->graph};
    const opf_node_id first = b.graph->n_nodes;
    const bool built = build_inputs(&b) && build_node(&b);
    OPF_OOM_IF(error, !built && (b.error.status == OPF_OK || b.error.status == OPF_OUT_OF_MEMORY));
    *anchor = b.node;
    if (!built)
        (void)opf_refuse(a->context, &a->why, OPF_MISS_SHAPE, a->result, "%s", b.error.message);
    if (built && has_shape_of_y(&b)) {
        OPF_OOM_IF(error, !exchange(&b));
        return OPF_OK;
    }
    for (opf_node_id id = b.graph->n_nodes; id-- > first;)
        opf_graph_remove_node(b.graph, id);
    *anchor = 0;
    return OPF_OK;
}

/* ---- the pass ---- */

opf_status opf_absorb_attention(opf_fuse_context *context, bool *changed, opf_error *error)
{
    for (opf_node_id id = 1; id < context->graph->n_nodes; id++) {
        opf_attention a = {.context = context, .softmax = id};
        opf_node_id anchor = 0;
        if (!opf_fuse_is_plain(context->graph, id, &opf_op_Softmax))
            continue;
        if (opf_attention_match(&a)) {
            if (!opf_fuse_allows(context, rule, id))
                continue;
            OPF_TRY(apply(&a, &anchor, error));
        } else if (!opf_attention_is_near(&a)) {
            continue;
        }
        if (anchor == 0) {
            OPF_OOM_IF(error, !opf_report_refusal(context, rule, a.softmax, &a.why, a.n, a.n + 1));
            continue;
        }
        *changed = true;
        OPF_TRY(opf_fuse_done(context, rule, anchor, error));
    }
    return OPF_OK;
}
