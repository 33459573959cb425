/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rotary embeddings before an Attention that the model has as one operator: it reads Q and K as they were before them,
 * and turns rows as it reads them (ops/attention.h). Heads may be split before the embedding, or joined behind it.
 */
#include "fuse/attention.h"
#include "ops/attention.h"

enum { Q, K, PAST_KEY = 4, NONPAD = 6 };
enum { PRESENT_KEY = 1, SCORES = 3 };

static const char rule[] = "attention-rotary";

static const struct {
    uint32_t cos;
    const char *rotated, *interleaved;
} sides[] = {{OPF_ATTENTION_Q_COS, "q_rotated", "q_interleaved"}, {OPF_ATTENTION_K_COS, "k_rotated", "k_interleaved"}};

typedef struct turned {
    opf_fuse_context *context;
    opf_node_id attention, rotary;
    uint32_t side;    /* input Q or K */
    opf_node_id join; /* 0, or the Reshape that joins heads behind the embedding */
    opf_attention_operand x; /* [batch, head, position, element]; with a join heads are behind positions */
    opf_refusal why;
} turned;

#define REFUSE(t, code, node, ...) opf_refuse((t)->context, &(t)->why, OPF_MISS_##code, node, __VA_ARGS__)

static const opf_node *node_of(const turned *t, opf_node_id id)
{
    return opf_graph_node(t->context->graph, id);
}

static const opf_value *value_of(const turned *t, opf_value_id value)
{
    return opf_graph_value(t->context->graph, value);
}

/* ---- match ---- */

/* The embedding behind movements, which other nodes may read as well; 0: there is none. */
static opf_node_id find_rotary(const opf_graph *graph, opf_value_id value)
{
    for (int depth = 0; depth < 4 && value != 0; depth++) {
        const opf_node_id id = opf_graph_value(graph, value)->producer;
        if (opf_fuse_is_plain(graph, id, &opf_op_RotaryEmbedding))
            return id;
        if (!opf_fuse_is_plain(graph, id, &opf_op_Reshape) && !opf_fuse_is_plain(graph, id, &opf_op_Transpose))
            return 0;
        value = opf_graph_node(graph, id)->inputs[0];
    }
    return 0;
}

/* Whom a kernel turns for: queries always; keys that are kept for later calls are kept turned. */
static bool check_attention(turned *t)
{
    const opf_node *node = node_of(t, t->attention);
    const bool has_past = node->n_own_inputs > PAST_KEY && node->inputs[PAST_KEY] != 0,
               has_present = node->n_own_outputs > PRESENT_KEY && node->outputs[PRESENT_KEY] != 0;
    if (value_of(t, node->inputs[t->side])->info.type != OPF_FLOAT)
        return REFUSE(t, DTYPE, t->attention, "it reads %s, must be float",
                      opf_type_name(value_of(t, node->inputs[t->side])->info.type));
    if (t->side == K && (has_past || has_present))
        return REFUSE(t, NO_KERNEL, t->attention, "keys are kept for later calls, turned as they are");
    if ((node->n_own_inputs > NONPAD && node->inputs[NONPAD] != 0) ||
        (node->n_own_outputs > SCORES && node->outputs[SCORES] != 0) ||
        opf_node_int(node, "left_window_size", -1) >= 0 || opf_node_int(node, "right_window_size", -1) >= 0)
        return REFUSE(t, NO_KERNEL, t->attention, "no kernel computes it, and the embedding has one");
    return true;
}

/* The Reshape of [batch, position, head, element] that joins the last two. */
static bool find_join(turned *t, opf_value_id value, opf_value_id *apart)
{
    const opf_graph *graph = t->context->graph;
    const opf_info *x = &value_of(t, value)->info;
    t->join = value_of(t, value)->producer;
    if (!opf_fuse_is_plain(graph, t->join, &opf_op_Reshape))
        return REFUSE(t, OP, t->join != 0 ? t->join : t->attention, "heads are not joined by a Reshape");
    if (!opf_legal_uses(t->context, value, &t->attention, 1, &t->why))
        return false;
    *apart = node_of(t, t->join)->inputs[0];
    const opf_info *y = &value_of(t, *apart)->info;
    const int64_t heads = opf_node_int(node_of(t, t->attention), t->side == Q ? "q_num_heads" : "kv_num_heads", 0);
    if (y->rank != 4 || !opf_dim_equal(y->dims[0], x->dims[0]) || !opf_dim_equal(y->dims[1], x->dims[1]) ||
        !opf_dim_is(y->dims[2], heads))
        return REFUSE(t, SHAPE, t->join, "it does not join the %lld heads of Attention", (long long)heads);
    return true;
}

/* From the embedding to Attention nobody else reads. */
static bool check_readers(turned *t)
{
    opf_node_id reader = t->attention;
    opf_value_id value = node_of(t, t->attention)->inputs[t->side];
    for (; reader != t->rotary; value = node_of(t, reader)->inputs[0]) {
        if (!opf_legal_uses(t->context, value, &reader, 1, &t->why))
            return false;
        reader = value_of(t, value)->producer;
    }
    return true;
}

static bool match(turned *t)
{
    const opf_value_id value = node_of(t, t->attention)->inputs[t->side];
    opf_value_id apart = value;
    if (!check_attention(t) || (value_of(t, value)->info.rank == 3 && !find_join(t, value, &apart)))
        return false;
    opf_attention_find(t->context, apart, 4, false, NULL, &t->x);
    if (t->x.rotary == t->rotary)
        return true;
    if (opf_node_int(node_of(t, t->rotary), "broadcast", 0) == 0)
        return REFUSE(t, SHAPE_UNKNOWN, t->rotary,
                      "its angles are not proven to be those of the batches and positions");
    return check_readers(t) && REFUSE(t, OP, t->rotary, "it turns no rows of heads");
}

/* ---- rewrite ---- */

/* The operand before the embedding, as Attention reads it. */
static opf_value_id build_operand(const turned *t, opf_error *error)
{
    const opf_graph *graph = t->context->graph;
    const opf_value_id value = opf_attention_permuted(t->context, t->x.base, 4, t->x.perm, error);
    if (t->join == 0 || value == 0)
        return value;
    const opf_node_id apart = opf_graph_value(graph, value)->producer;
    if (opf_fuse_is_plain(graph, apart, &opf_op_Reshape)) {
        const opf_value_id before = opf_graph_node(graph, apart)->inputs[0];
        const opf_value_id joined = opf_graph_node(graph, t->join)->outputs[0];
        if (opf_legal_same(t->context, &opf_graph_value(graph, before)->info, &opf_graph_value(graph, joined)->info,
                           NULL))
            return before;
    }
    return opf_fuse_build(t->context, &opf_op_Reshape,
                          (const opf_value_id[]){value, opf_graph_node(graph, t->join)->inputs[1]}, 2, error);
}

/* Angles as they broadcast to [batch, head, position, element]. */
static bool build_angles(const turned *t, opf_value_id angles[2], opf_error *error)
{
    static const int32_t heads_first[] = {0, 2, 1, 3};
    opf_attention_operand x = t->x;
    for (int32_t i = 0; t->join != 0 && i < 4; i++)
        x.rotary_perm[i] = t->x.rotary_perm[heads_first[i]];
    return opf_attention_angles(t->context, &x, angles, error);
}

static bool set_inputs(opf_graph *graph, opf_node_id attention, uint32_t side, opf_value_id operand,
                       const opf_value_id angles[2])
{
    const opf_node *node = opf_graph_node(graph, attention);
    opf_value_id inputs[OPF_ATTENTION_INPUTS] = {0};
    uint32_t n = node->n_own_inputs;
    for (uint32_t i = 0; i < n; i++)
        inputs[i] = node->inputs[i];
    inputs[side] = operand;
    inputs[sides[side].cos] = angles[0];
    inputs[sides[side].cos + 1] = angles[1];
    n = n < sides[side].cos + 2 ? sides[side].cos + 2 : n;
    return opf_graph_set_own_inputs(graph, attention, inputs, n);
}

static opf_status apply(turned *t, bool *done, opf_error *error)
{
    opf_graph *graph = t->context->graph;
    const opf_node rotary = *opf_graph_node(graph, t->rotary);
    const opf_value_id old = opf_graph_node(graph, t->attention)->inputs[t->side];
    const opf_dim size = opf_graph_value(graph, rotary.outputs[0])->info.dims[3];
    const int64_t rotated = opf_node_int(&rotary, "rotary_embedding_dim", 0);
    const char *const *origin = rotary.n_origin != 0 ? rotary.origin : &rotary.name;
    const opf_node_id first = graph->n_nodes;
    opf_error failed = {.status = OPF_OK};
    opf_value_id angles[2];
    const opf_value_id operand = build_operand(t, &failed);
    *done = operand != 0 && build_angles(t, angles, &failed);
    OPF_OOM_IF(error, !*done && (failed.status == OPF_OK || failed.status == OPF_OUT_OF_MEMORY));
    if (!*done) {
        for (opf_node_id id = graph->n_nodes; id-- > first;)
            opf_graph_remove_node(graph, id);
        (void)REFUSE(t, SHAPE, t->rotary, "%s", failed.message);
        return OPF_OK;
    }
    OPF_OOM_IF(error,
               !set_inputs(graph, t->attention, t->side, operand, angles) ||
                   !opf_node_set_int(graph, t->attention, sides[t->side].rotated, rotated != 0 ? rotated : size.n) ||
                   (opf_node_int(&rotary, "interleaved", 0) != 0 &&
                    !opf_node_set_int(graph, t->attention, sides[t->side].interleaved, 1)) ||
                   !opf_attention_read_shapes_before(graph, &t->x) ||
                   !opf_attention_remove_unread(graph, t->attention, old));
    return opf_fuse_done_with(t->context, rule, t->attention, origin, rotary.n_origin != 0 ? rotary.n_origin : 1,
                              error);
}

/* ---- the pass ---- */

static opf_status take(opf_fuse_context *context, opf_node_id id, uint32_t side, bool *changed, opf_error *error)
{
    const opf_node *node = opf_graph_node(context->graph, id);
    turned t = {
        .context = context, .attention = id, .side = side, .rotary = find_rotary(context->graph, node->inputs[side])};
    bool done = false;
    if (t.rotary == 0 || opf_node_int(node, sides[side].rotated, 0) != 0)
        return OPF_OK;
    if (match(&t)) {
        if (!opf_fuse_allows(context, rule, t.rotary))
            return OPF_OK;
        OPF_TRY(apply(&t, &done, error));
    }
    OPF_OOM_IF(error, !done && !opf_report_refusal(context, rule, t.rotary, &t.why, 1, 2));
    *changed |= done;
    return OPF_OK;
}

/* Its inputs are its own, and it may have several results. */
static bool is_operator(const opf_graph *graph, opf_node_id id)
{
    const opf_node *node = opf_graph_node(graph, id);
    return opf_node_is_alive(node) && node->op == &opf_op_Attention && node->n_inputs == node->n_own_inputs;
}

opf_status opf_absorb_attention_rotary(opf_fuse_context *context, bool *changed, opf_error *error)
{
    for (opf_node_id id = 1; id < context->graph->n_nodes; id++)
        for (uint32_t side = Q; side <= K && is_operator(context->graph, id); side++)
            OPF_TRY(take(context, id, side, changed, error));
    return OPF_OK;
}
