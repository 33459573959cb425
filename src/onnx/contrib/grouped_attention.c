/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RotaryEmbedding, and GroupQueryAttention: keys and values of each sequence are written behind its own past, however
 * long the buffer is, and the standard Attention is told how many of them count.
 */
#include "onnx/contrib/attention.h"

/* ---- rotary embedding ---- */

opf_value_id opf_contrib_rotate(opf_contrib *c, opf_value_id x, opf_value_id cos_cache, opf_value_id sin_cache,
                                opf_value_id positions, int64_t heads, bool interleaved, int64_t rotated)
{
    const opf_attr none = {.type = OPF_ATTR_NONE};
    return opf_contrib_add(c, &opf_op_RotaryEmbedding, OPF_INPUTS(x, cos_cache, sin_cache, positions),
                           OPF_ATTRS(opf_contrib_int_attr("interleaved", interleaved),
                                     heads != 0 ? opf_contrib_int_attr("num_heads", heads) : none,
                                     rotated != 0 ? opf_contrib_int_attr("rotary_embedding_dim", rotated) : none));
}

/* One position is that of the first line of every sequence. */
static opf_value_id positions_of(opf_contrib *c, opf_value_id x, int32_t rank, opf_value_id positions)
{
    if (opf_contrib_rank(c, positions, "position_ids") != 1)
        return positions;
    const opf_value_id length = opf_contrib_size(c, x, rank == 4 ? 2 : 1);
    const opf_value_id shape = opf_contrib_add(c, &opf_op_Concat, OPF_INPUTS(opf_contrib_size(c, x, 0), length),
                                               OPF_ATTRS(opf_contrib_int_attr("axis", 0)));
    return OPF_APPLY(c, Expand, OPF_APPLY(c, Add, opf_contrib_range(c, length), positions), shape);
}

/* ONNX Runtime does without scale and is_packed_batching too. */
void opf_decompose_RotaryEmbedding(opf_contrib *c)
{
    const opf_value_id x = opf_contrib_in(c, 0), cos_cache = opf_contrib_in(c, 2);
    const int32_t rank = opf_contrib_rank(c, x, "input");
    const int64_t rotated = opf_contrib_int(c, "rotary_embedding_dim", 0);
    int64_t heads = opf_contrib_int(c, "num_heads", 0);
    if (rank == 3 && heads == 0) {
        const int64_t half = opf_contrib_dim(c, cos_cache, 1, "cos_cache");
        heads = half > 0 && rotated == 0 ? opf_contrib_dim(c, x, 2, "input") / half / 2 : 0;
        if (heads == 0)
            opf_contrib_fail(c, OPF_INVALID_MODEL, "num_heads is missing");
    }
    const opf_value_id positions = positions_of(c, x, rank, opf_contrib_in(c, 1));
    opf_contrib_bind(c, 0,
                     opf_contrib_rotate(c, x, cos_cache, opf_contrib_in(c, 3), positions, rank == 3 ? heads : 0,
                                        opf_contrib_int(c, "interleaved", 0) != 0, rotated));
}

/* ---- grouped queries ---- */

enum { QUERY, KEY, VALUE, PAST_KEY, PAST_VALUE, LENGTHS, TOTAL, COS, SIN, POSITIONS, BIAS, SINK };

typedef struct grouped {
    int64_t q_heads, kv_heads;
    opf_value_id q, k, v; /* [batch, heads, length, size] */
    opf_value_id length;  /* int64[1]: lines of q */
    opf_value_id start;   /* int64[batch]: lines of each sequence that are past */
    opf_value_id total;   /* int64[1] */
} grouped;

/* Keys and values may follow the queries in one tensor. */
static void read_inputs(opf_contrib *c, grouped *g)
{
    const opf_value_id query = opf_contrib_in(c, QUERY), key = opf_contrib_in(c, KEY), value = opf_contrib_in(c, VALUE);
    if (g->q_heads < 1 || g->kv_heads < 1 || g->q_heads > INT32_MAX || g->kv_heads > INT32_MAX)
        opf_contrib_fail(c, OPF_INVALID_MODEL, "num_heads is %lld, kv_num_heads %lld: must be at least 1",
                         (long long)g->q_heads, (long long)g->kv_heads);
    if ((key != 0) != (value != 0))
        opf_contrib_fail(c, OPF_INVALID_MODEL, "key and value must be given together");
    g->length = opf_contrib_size(c, query, 1);
    if (key != 0) {
        g->q = opf_contrib_split_heads(c, query, g->q_heads);
        g->k = opf_contrib_split_heads(c, key, g->kv_heads);
        g->v = opf_contrib_split_heads(c, value, g->kv_heads);
        return;
    }
    opf_value_id parts[3] = {0};
    if (opf_contrib_failed(c))
        return;
    const opf_value_id heads = opf_contrib_split_heads(c, query, g->q_heads + 2 * g->kv_heads);
    const opf_value_id sizes = opf_contrib_ints(c, OPF_INTS(g->q_heads, g->kv_heads, g->kv_heads));
    opf_contrib_add_many(c, &opf_op_Split, OPF_INPUTS(heads, sizes), OPF_ATTRS(opf_contrib_int_attr("axis", 1)), 3,
                         parts);
    g->q = parts[0];
    g->k = parts[1];
    g->v = parts[2];
}

/* seqlens_k is one less than the keys of each sequence, old and new; a first call, where all lines are new, has no past
   even if shorter sequences are padded. */
static void find_starts(opf_contrib *c, grouped *g)
{
    const opf_value_id one = opf_contrib_ints(c, OPF_INTS(1)), zero = opf_contrib_ints(c, OPF_INTS(0));
    const opf_value_id flat = OPF_APPLY(c, Reshape, opf_contrib_in(c, LENGTHS), opf_contrib_ints(c, OPF_INTS(-1)));
    const opf_value_id ends = OPF_APPLY(c, Add, opf_contrib_cast(c, flat, OPF_INT64), one);
    g->total = opf_contrib_cast(c, OPF_APPLY(c, Reshape, opf_contrib_in(c, TOTAL), one), OPF_INT64);
    const opf_value_id first = OPF_APPLY(c, Equal, g->total, g->length);
    g->start = OPF_APPLY(c, Where, first, zero, OPF_APPLY(c, Sub, ends, g->length));
}

static void rotate(opf_contrib *c, grouped *g)
{
    opf_value_id positions = opf_contrib_in(c, POSITIONS);
    const bool interleaved = opf_contrib_int(c, "rotary_interleaved", 0) != 0;
    if (opf_contrib_in(c, COS) == 0 || opf_contrib_in(c, SIN) == 0)
        opf_contrib_fail(c, OPF_INVALID_MODEL, "do_rotary needs cos_cache and sin_cache");
    /* A cache of unknown width is taken to be for whole heads. */
    const opf_info *cache = opf_contrib_info(c, opf_contrib_in(c, COS));
    const int64_t rotated = cache->rank == 2 && opf_dim_is_number(cache->dims[1]) && cache->dims[1].n < INT32_MAX
                                ? 2 * cache->dims[1].n
                                : 0;
    if (positions == 0)
        positions = OPF_APPLY(c, Add, OPF_APPLY(c, Unsqueeze, g->start, opf_contrib_ints(c, OPF_INTS(1))),
                              opf_contrib_range(c, g->length));
    g->q =
        opf_contrib_rotate(c, g->q, opf_contrib_in(c, COS), opf_contrib_in(c, SIN), positions, 0, interleaved, rotated);
    g->k =
        opf_contrib_rotate(c, g->k, opf_contrib_in(c, COS), opf_contrib_in(c, SIN), positions, 0, interleaved, rotated);
}

/* x behind the past, in a buffer of past and new lines together: [batch, heads, lines, size]. */
static opf_value_id join_past(opf_contrib *c, const grouped *g, uint32_t past, opf_value_id x)
{
    if (opf_contrib_in(c, past) == 0)
        return x;
    const opf_value_id room = opf_contrib_add(c, &opf_op_Concat, OPF_INPUTS(opf_contrib_in(c, past), x),
                                              OPF_ATTRS(opf_contrib_int_attr("axis", 2)));
    return opf_contrib_write_lines(c, room, x, g->start);
}

/* The present is as long as the past's buffer, or as all lines if these are more; what no sequence has reached is 0. */
static void bind_present(opf_contrib *c, const grouped *g, uint32_t o, uint32_t past, opf_value_id all)
{
    if (!opf_contrib_wants(c, o))
        return;
    if (opf_contrib_in(c, past) != 0) {
        const opf_value_id lines = OPF_APPLY(c, Max, opf_contrib_size(c, opf_contrib_in(c, past), 2), g->total);
        const opf_value_id ends =
            OPF_APPLY(c, Unsqueeze, OPF_APPLY(c, Add, g->start, g->length), opf_contrib_ints(c, OPF_INTS(1, 2, 3)));
        const opf_value_id place =
            OPF_APPLY(c, Unsqueeze, opf_contrib_range(c, lines), opf_contrib_ints(c, OPF_INTS(1)));
        const opf_value_id kept =
            OPF_APPLY(c, Slice, all, opf_contrib_ints(c, OPF_INTS(0)), lines, opf_contrib_ints(c, OPF_INTS(2)));
        const opf_value_id zero = opf_contrib_number(c, opf_contrib_type(c, opf_contrib_in(c, past), "the past"), 0);
        all = OPF_APPLY(c, Where, OPF_APPLY(c, Less, place, ends), kept, zero);
    }
    opf_contrib_bind(c, o, all);
}

static void check_attrs(opf_contrib *c)
{
    static const struct {
        const char *name;
        int64_t value;
    } plain[] = {{"kv_cache_bit_width", 0}, {"sliding_window_cache", 0}, {"causal", 1}};
    static const char *const cache_types[] = {"k_quant_type", "v_quant_type"};
    for (uint32_t i = 0; i < OPF_COUNT(plain); i++)
        opf_contrib_demand_int(c, plain[i].name, plain[i].value);
    for (uint32_t i = 0; i < OPF_COUNT(cache_types); i++)
        if (strcmp(opf_contrib_string(c, cache_types[i], "NONE"), "NONE") != 0)
            opf_contrib_fail(c, OPF_UNSUPPORTED, "%s is not supported", cache_types[i]);
    if ((opf_contrib_in(c, PAST_KEY) != 0) != (opf_contrib_in(c, PAST_VALUE) != 0))
        opf_contrib_fail(c, OPF_INVALID_MODEL, "past_key and past_value must be given together");
}

/* A sink is one more key, whose score is given and whose value is 0: what it takes of the softmax, all others lose.
   Without a sink smooth_softmax has one of score 0. */
static opf_value_id share_of_keys(opf_contrib *c, opf_value_id scores)
{
    const opf_value_id sink = opf_contrib_in(c, SINK);
    const opf_value_id sum =
        opf_contrib_add(c, &opf_op_ReduceLogSumExp, OPF_INPUTS(scores, opf_contrib_ints(c, OPF_INTS(-1))),
                        OPF_ATTRS(opf_contrib_int_attr("keepdims", 1)));
    if (sink == 0)
        return OPF_APPLY(c, Sigmoid, sum);
    const opf_value_id column = OPF_APPLY(c, Unsqueeze, sink, opf_contrib_ints(c, OPF_INTS(1, 2)));
    return OPF_APPLY(c, Sigmoid, OPF_APPLY(c, Sub, sum, column));
}

/* Scores before the softmax (1), 0 where they do not count, or behind it (2). */
static void show_scores(opf_contrib *c, opf_value_id scores, opf_value_id share, int64_t which)
{
    if (which == 1) {
        const opf_value_id hidden = opf_contrib_add(c, &opf_op_IsInf, OPF_INPUTS(scores),
                                                    OPF_ATTRS(opf_contrib_int_attr("detect_positive", 0)));
        const opf_value_id zero = opf_contrib_number(c, opf_contrib_type(c, scores, "a score"), 0);
        opf_contrib_bind(c, 3, OPF_APPLY(c, Where, hidden, zero, scores));
        return;
    }
    const opf_value_id p = opf_contrib_softmax(c, scores, -1, false);
    opf_contrib_bind(c, 3, share != 0 ? OPF_APPLY(c, Mul, p, share) : p);
}

/* Without a past, positions or anything beside the result it is the Attention of the standard on three axes, which is what it is written
   back from. */
static bool is_plain(opf_contrib *c)
{
    return opf_contrib_in(c, KEY) != 0 && opf_contrib_in(c, PAST_KEY) == 0 && opf_contrib_in(c, SINK) == 0 &&
           opf_contrib_int(c, "do_rotary", 0) == 0 && opf_contrib_int(c, "smooth_softmax", 0) <= 0 &&
           !opf_contrib_wants(c, 1) && !opf_contrib_wants(c, 2) && !opf_contrib_wants(c, 3);
}

void opf_decompose_GroupQueryAttention(opf_contrib *c)
{
    grouped g = {.q_heads = opf_contrib_int(c, "num_heads", 0), .kv_heads = opf_contrib_int(c, "kv_num_heads", 0)};
    const bool has_past = opf_contrib_in(c, PAST_KEY) != 0;
    const int64_t window = opf_contrib_int(c, "local_window_size", -1);
    const float scale = opf_contrib_float(c, "scale", 0), softcap = opf_contrib_float(c, "softcap", 0);
    const opf_attr none = {.type = OPF_ATTR_NONE};
    check_attrs(c);
    if (is_plain(c)) {
        opf_contrib_bind(
            c, 0,
            opf_contrib_add(c, &opf_op_Attention,
                            OPF_INPUTS(opf_contrib_in(c, QUERY), opf_contrib_in(c, KEY), opf_contrib_in(c, VALUE), opf_contrib_in(c, BIAS)),
                            OPF_ATTRS(opf_contrib_int_attr("is_causal", 1), opf_contrib_int_attr("q_num_heads", g.q_heads),
                                      opf_contrib_int_attr("kv_num_heads", g.kv_heads),
                                      scale != 0 ? opf_contrib_float_attr("scale", scale) : none,
                                      softcap != 0 ? opf_contrib_float_attr("softcap", softcap) : none,
                                      window > 0 ? opf_contrib_int_attr("left_window_size", window - 1) : none)));
        return;
    }
    read_inputs(c, &g);
    find_starts(c, &g);
    if (opf_contrib_int(c, "do_rotary", 0) != 0)
        rotate(c, &g);
    const opf_value_id k = join_past(c, &g, PAST_KEY, g.k), v = join_past(c, &g, PAST_VALUE, g.v);
    /* Without a past no line is beyond the end, and the padding of short sequences is after all that they see. */
    const opf_value_id count = has_past ? OPF_APPLY(c, Add, g.start, g.length) : 0;
    const bool smooth = opf_contrib_int(c, "smooth_softmax", 0) > 0 || opf_contrib_in(c, SINK) != 0;
    const int64_t shown = opf_contrib_wants(c, 3) ? opf_contrib_int(c, "qk_output", 0) : 0;
    opf_value_id out[4];
    opf_contrib_add_many(c, &opf_op_Attention, OPF_INPUTS(g.q, k, v, opf_contrib_in(c, BIAS), 0, 0, count),
                         OPF_ATTRS(opf_contrib_int_attr("is_causal", 1),
                                   scale != 0 ? opf_contrib_float_attr("scale", scale) : none,
                                   softcap != 0 ? opf_contrib_float_attr("softcap", softcap) : none,
                                   window > 0 ? opf_contrib_int_attr("left_window_size", window - 1) : none,
                                   smooth || shown != 0 ? opf_contrib_int_attr("qk_matmul_output_mode", 2) : none),
                         smooth || shown != 0 ? 4 : 1, out);
    const opf_value_id share = smooth ? share_of_keys(c, out[3]) : 0;
    const opf_value_id joined = opf_contrib_join_heads(c, smooth ? OPF_APPLY(c, Mul, out[0], share) : out[0]);
    if (shown != 0)
        show_scores(c, out[3], share, shown);
    bind_present(c, &g, 1, PAST_KEY, k);
    bind_present(c, &g, 2, PAST_VALUE, v);
    opf_contrib_bind(c, 0, joined);
}
