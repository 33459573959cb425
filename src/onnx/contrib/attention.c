/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention, QAttention, MultiHeadAttention and DecoderMaskedMultiHeadAttention: the standard Attention behind the
 * projection, biases and packings that each has. Masks become what is added to the scores.
 */
#include "onnx/contrib/attention.h"

#include <float.h>
#include <math.h>

typedef struct attention {
    int64_t heads;
    opf_value_id q, k, v;              /* [batch, length, heads * size]; k and v may be [batch, heads, length, size] */
    opf_value_id past_key, past_value; /* [batch, heads, length, size], or absent */
    opf_value_id past_length, beams;   /* with past_length the past is a buffer that the present is written into */
    opf_value_id padding, bias;        /* of keys, in one of several forms; added to scores */
    bool is_causal;
    opf_value_id y, present_key, present_value, scores; /* results */
    bool wants_present, wants_scores;
} attention;

/* ---- heads and lines ---- */

opf_value_id opf_contrib_split_heads(opf_contrib *c, opf_value_id x, int64_t heads)
{
    const opf_value_id split = OPF_APPLY(c, Reshape, x, opf_contrib_ints(c, OPF_INTS(0, 0, heads, -1)));
    return opf_contrib_transpose(c, split, OPF_INTS(0, 2, 1, 3));
}

opf_value_id opf_contrib_join_heads(opf_contrib *c, opf_value_id x)
{
    const opf_value_id lines = opf_contrib_transpose(c, x, OPF_INTS(0, 2, 1, 3));
    return OPF_APPLY(c, Reshape, lines, opf_contrib_ints(c, OPF_INTS(0, 0, -1)));
}

opf_value_id opf_contrib_write_lines(opf_contrib *c, opf_value_id past, opf_value_id x, opf_value_id start)
{
    return opf_contrib_add(c, &opf_op_TensorScatter, OPF_INPUTS(past, x, start),
                           OPF_ATTRS(opf_contrib_int_attr("axis", 2)));
}

/* The first `length` (int64[1]) lines of [batch, heads, lines, size]. */
static opf_value_id first_lines(opf_contrib *c, opf_value_id x, opf_value_id length)
{
    return OPF_APPLY(c, Slice, x, opf_contrib_ints(c, OPF_INTS(0)), length, opf_contrib_ints(c, OPF_INTS(2)));
}

static opf_value_id add_bias(opf_contrib *c, opf_value_id x, opf_value_id bias)
{
    return bias != 0 ? OPF_APPLY(c, Add, x, bias) : x;
}

opf_value_id opf_contrib_finite_scores(opf_contrib *c, opf_value_id scores)
{
    const opf_type type = opf_contrib_type(c, scores, "a score");
    const double least = type == OPF_FLOAT16 ? -65504.0 : type == OPF_BFLOAT16 ? -0x1.fep127 : (double)-FLT_MAX;
    return OPF_APPLY(c, Max, scores, opf_contrib_number(c, type, type == OPF_DOUBLE ? -DBL_MAX : least));
}

/* ---- padding ---- */

/* Numbers of lines as int64[1]. */
static opf_value_id length_of(opf_contrib *c, const attention *a)
{
    const opf_value_id own = opf_contrib_size(c, a->k, opf_contrib_rank(c, a->k, "key") == 4 ? 2 : 1);
    if (a->past_length != 0)
        return OPF_APPLY(c, Add, a->past_length, own);
    return a->past_key != 0 ? OPF_APPLY(c, Add, opf_contrib_size(c, a->past_key, 2), own) : own;
}

static opf_value_id join(opf_contrib *c, opf_value_id x, opf_value_id y)
{
    return opf_contrib_add(c, &opf_op_Concat, OPF_INPUTS(x, y), OPF_ATTRS(opf_contrib_int_attr("axis", 0)));
}

/* A mask of rank 1 has the ends of sequences; all ends and then all starts; or the lengths, and then where the queries
   and the keys of each sequence would begin if they were packed: [3 * batch + 2]. */
static opf_value_id between(opf_contrib *c, const attention *a)
{
    const opf_info *q = opf_contrib_info(c, a->q);
    const opf_dim batch = q->rank > 0 ? q->dims[0] : opf_dim_unknown(c->graph->dims);
    const opf_dim both = opf_dim_mul(c->graph->dims, batch, opf_dim_number(2));
    const opf_value_id column = opf_contrib_ints(c, OPF_INTS(1, 2, 3));
    const opf_value_id place =
        opf_contrib_cast(c, opf_contrib_range(c, length_of(c, a)), opf_contrib_type(c, a->padding, "the mask"));
    if (opf_contrib_failed(c))
        return 0;
    const opf_dim n = opf_contrib_info(c, a->padding)->dims[0];
    const opf_dim packed = opf_dim_add(c->graph->dims, opf_dim_add(c->graph->dims, both, batch), opf_dim_number(2));
    if (opf_dim_is_number(n) && opf_dim_is_number(batch) && n.n != batch.n && n.n != both.n && n.n != packed.n)
        opf_contrib_fail(c, OPF_UNSUPPORTED, "a mask of %lld numbers for batch %lld is not supported", (long long)n.n,
                         (long long)batch.n);
    const opf_value_id size = opf_contrib_size(c, a->q, 0), first = opf_contrib_ints(c, OPF_INTS(0));
    if (opf_dim_equal(n, batch) || opf_dim_equal(n, packed)) {
        const opf_value_id known = opf_dim_equal(n, batch) ? a->padding : OPF_APPLY(c, Slice, a->padding, first, size);
        return OPF_APPLY(c, Less, place, OPF_APPLY(c, Unsqueeze, known, column));
    }
    /* A Split has ends as many as sequences, whatever the length: who reads the file that this is written to knows too
       that they fit. Where the length says that there are no starts, they are 0: zeros behind the rest let it be cut in
       any case. */
    const opf_value_id length = opf_contrib_size(c, a->padding, 0);
    const opf_value_id twice = OPF_APPLY(c, Add, size, size), sizes = join(c, size, OPF_APPLY(c, Sub, length, size));
    opf_value_id part[2];
    opf_contrib_add_many(c, &opf_op_Split, OPF_INPUTS(a->padding, sizes), OPF_ATTRS(opf_contrib_int_attr("axis", 0)), 2,
                         part);
    const opf_value_id zero = opf_contrib_integer(c, opf_contrib_type(c, a->padding, "the mask"), 0);
    const opf_value_id filled = join(c, part[1], OPF_APPLY(c, Expand, zero, twice));
    const opf_value_id has_starts = OPF_APPLY(c, Equal, length, twice);
    const opf_value_id starts = OPF_APPLY(c, Where, has_starts, OPF_APPLY(c, Slice, filled, first, size), zero);
    const opf_value_id before = OPF_APPLY(c, Less, place, OPF_APPLY(c, Unsqueeze, part[0], column));
    return OPF_APPLY(c, And, before, OPF_APPLY(c, GreaterOrEqual, place, OPF_APPLY(c, Unsqueeze, starts, column)));
}

/* What is added to scores: 0 where a key counts, mask_filter_value elsewhere. */
static opf_value_id padding_bias(opf_contrib *c, const attention *a)
{
    const opf_type type = opf_contrib_type(c, a->q, "query"), mask_type = opf_contrib_type(c, a->padding, "the mask");
    const int32_t rank = opf_contrib_rank(c, a->padding, "the mask");
    opf_value_id keep = 0;
    if (opf_contrib_failed(c))
        return 0;
    if (rank == 1)
        keep = between(c, a);
    else if (rank != 2 && rank != 3)
        opf_contrib_fail(c, OPF_UNSUPPORTED, "a mask of rank %d is not supported", (int)rank);
    else
        keep = OPF_APPLY(c, Greater, a->padding, opf_contrib_integer(c, mask_type, 0));
    if (rank != 1)
        keep = OPF_APPLY(c, Unsqueeze, keep,
                         rank == 2 ? opf_contrib_ints(c, OPF_INTS(1, 2)) : opf_contrib_ints(c, OPF_INTS(1)));
    const opf_value_id zero = opf_contrib_number(c, type, 0);
    return OPF_APPLY(c, Where, keep, zero,
                     opf_contrib_number(c, type, (double)opf_contrib_float(c, "mask_filter_value", -10000)));
}

/* ---- the past in a buffer ---- */

/* The first past_length lines of a buffer. With beams, those of sequence b come from other sequences of its group:
   beams[group, b, line] says which. */
static opf_value_id read_buffer(opf_contrib *c, const attention *a, opf_value_id buffer)
{
    const opf_value_id past = first_lines(c, buffer, a->past_length);
    if (a->beams == 0)
        return past;
    const opf_value_id none = opf_contrib_ints(c, OPF_INTS(0)), batch = opf_contrib_size(c, a->q, 0);
    const opf_value_id beams = opf_contrib_cast(c, opf_contrib_size(c, a->beams, 1), OPF_INT64);
    const opf_value_id group = OPF_APPLY(c, Div, opf_contrib_range(c, batch), beams);
    const opf_value_id first =
        OPF_APPLY(c, Unsqueeze, OPF_APPLY(c, Mul, group, beams), opf_contrib_ints(c, OPF_INTS(1)));
    const opf_value_id shape = opf_contrib_add(c, &opf_op_Concat, OPF_INPUTS(batch, opf_contrib_ints(c, OPF_INTS(-1))),
                                               OPF_ATTRS(opf_contrib_int_attr("axis", 0)));
    const opf_value_id table =
        OPF_APPLY(c, Slice, OPF_APPLY(c, Reshape, opf_contrib_cast(c, a->beams, OPF_INT64), shape), none,
                  a->past_length, opf_contrib_ints(c, OPF_INTS(1)));
    const opf_value_id line = opf_contrib_range(c, a->past_length);
    const opf_value_id source =
        OPF_APPLY(c, Add, OPF_APPLY(c, Mul, OPF_APPLY(c, Add, table, first), a->past_length), line);
    const opf_value_id lines = opf_contrib_transpose(c, past, OPF_INTS(0, 2, 1, 3));
    const opf_value_id flat =
        opf_contrib_add(c, &opf_op_Concat,
                        OPF_INPUTS(OPF_APPLY(c, Mul, batch, a->past_length), opf_contrib_size(c, buffer, 1),
                                   opf_contrib_size(c, buffer, 3)),
                        OPF_ATTRS(opf_contrib_int_attr("axis", 0)));
    const opf_value_id rows =
        opf_contrib_add(c, &opf_op_Reshape, OPF_INPUTS(lines, flat), OPF_ATTRS(opf_contrib_int_attr("allowzero", 1)));
    return opf_contrib_transpose(c, OPF_APPLY(c, Gather, rows, source), OPF_INTS(0, 2, 1, 3));
}

/* ---- the core ---- */

static void use_four_axes(opf_contrib *c, attention *a)
{
    opf_value_id *const all[] = {&a->q, &a->k, &a->v};
    for (int i = 0; i < 3; i++)
        if (opf_contrib_rank(c, *all[i], "an input") == 3)
            *all[i] = opf_contrib_split_heads(c, *all[i], a->heads);
}

static void attend(opf_contrib *c, attention *a)
{
    const float scale = opf_contrib_float(c, "scale", 0);
    const opf_attr none = {.type = OPF_ATTR_NONE};
    const bool four =
        a->past_length != 0 || opf_contrib_rank(c, a->k, "key") == 4 || opf_contrib_rank(c, a->v, "value") == 4;
    const opf_value_id buffers[2] = {a->past_key, a->past_value};
    opf_value_id mask = a->bias, out[4];
    if (a->heads < 1)
        opf_contrib_fail(c, OPF_INVALID_MODEL, "num_heads is %lld, must be at least 1", (long long)a->heads);
    if ((a->past_key != 0) != (a->past_value != 0) || (a->past_length != 0 && a->past_key == 0))
        opf_contrib_fail(c, OPF_INVALID_MODEL, "past_key and past_value must be given together");
    if (a->padding != 0)
        mask = a->bias != 0 ? OPF_APPLY(c, Add, padding_bias(c, a), a->bias) : padding_bias(c, a);
    if (four)
        use_four_axes(c, a);
    if (a->past_length != 0) {
        a->past_key = read_buffer(c, a, buffers[0]);
        a->past_value = read_buffer(c, a, buffers[1]);
    }
    opf_contrib_add_many(c, &opf_op_Attention, OPF_INPUTS(a->q, a->k, a->v, mask, a->past_key, a->past_value),
                         OPF_ATTRS(four ? none : opf_contrib_int_attr("q_num_heads", a->heads),
                                   four ? none : opf_contrib_int_attr("kv_num_heads", a->heads),
                                   a->is_causal ? opf_contrib_int_attr("is_causal", 1) : none,
                                   scale != 0 ? opf_contrib_float_attr("scale", scale) : none,
                                   /* A plain softmax: a row that the bias hides altogether is no row of zeros. */
                                   opf_contrib_float_attr("masked_score", -INFINITY),
                                   a->wants_scores ? opf_contrib_int_attr("qk_matmul_output_mode", 2) : none),
                         a->wants_scores    ? 4
                         : a->wants_present ? 3
                                            : 1,
                         out);
    a->y = four ? opf_contrib_join_heads(c, out[0]) : out[0];
    a->present_key = a->wants_scores || a->wants_present ? out[1] : 0;
    a->present_value = a->wants_scores || a->wants_present ? out[2] : 0;
    a->scores = a->wants_scores ? out[3] : 0;
    if (a->past_length != 0 && a->wants_present) {
        const opf_value_id start = OPF_APPLY(c, Expand, a->past_length, opf_contrib_size(c, a->q, 0));
        a->present_key = opf_contrib_write_lines(c, buffers[0], a->k, start);
        a->present_value = opf_contrib_write_lines(c, buffers[1], a->v, start);
    }
}

/* Without a past there is no buffer, whatever the length. */
static void read_length(opf_contrib *c, attention *a, opf_value_id past, uint32_t length, uint32_t beams)
{
    if (past == 0 || opf_contrib_in(c, length) == 0)
        return;
    const opf_value_id one = opf_contrib_ints(c, OPF_INTS(1));
    a->past_length = opf_contrib_cast(c, OPF_APPLY(c, Reshape, opf_contrib_in(c, length), one), OPF_INT64);
    a->beams = opf_contrib_in(c, beams);
}

/* ---- one input for queries, keys and values ---- */

/* past and present are [2, batch, heads, length, size]. */
static void attend_packed(opf_contrib *c, attention *a, opf_value_id past)
{
    const opf_value_id first = opf_contrib_ints(c, OPF_INTS(0));
    if (past != 0) {
        opf_value_id half[2];
        opf_contrib_add_many(c, &opf_op_Split, OPF_INPUTS(past), OPF_ATTRS(opf_contrib_int_attr("num_outputs", 2)), 2,
                             half);
        a->past_key = OPF_APPLY(c, Squeeze, half[0], first);
        a->past_value = OPF_APPLY(c, Squeeze, half[1], first);
    }
    a->heads = opf_contrib_int(c, "num_heads", 0);
    a->is_causal = opf_contrib_int(c, "unidirectional", 0) != 0;
    a->wants_present = opf_contrib_wants(c, 1);
    opf_contrib_demand_int(c, "do_rotary", 0);
    if (a->past_length == 0)
        opf_contrib_demand_int(c, "past_present_share_buffer", 0);
    attend(c, a);
    if (a->wants_present) {
        const opf_value_id key = OPF_APPLY(c, Unsqueeze, a->present_key, first),
                           value = OPF_APPLY(c, Unsqueeze, a->present_value, first);
        opf_contrib_bind(
            c, 1,
            opf_contrib_add(c, &opf_op_Concat, OPF_INPUTS(key, value), OPF_ATTRS(opf_contrib_int_attr("axis", 0))));
    }
    opf_contrib_bind(c, 0, a->y);
}

/* Three parts of the last axis: of these sizes, or equal. */
static void split_three(opf_contrib *c, opf_value_id x, const opf_attr *sizes, opf_value_id *parts[3])
{
    opf_value_id out[3], size = 0;
    const opf_attr equal = opf_contrib_int_attr("num_outputs", 3), none = {.type = OPF_ATTR_NONE};
    if (sizes != NULL && (sizes->type != OPF_ATTR_INTS || sizes->n != 3))
        opf_contrib_fail(c, OPF_INVALID_MODEL, "attribute %s must be three ints", sizes->name);
    if (sizes != NULL && !opf_contrib_failed(c))
        size = opf_contrib_ints(c, 3, sizes->ints);
    opf_contrib_add_many(c, &opf_op_Split, OPF_INPUTS(x, size),
                         OPF_ATTRS(opf_contrib_int_attr("axis", -1), size != 0 ? none : equal), 3, out);
    for (int i = 0; i < 3; i++)
        *parts[i] = out[i];
}

void opf_decompose_Attention(opf_contrib *c)
{
    enum { INPUT, WEIGHTS, BIAS, MASK, PAST, EXTRA, PAST_LENGTH };
    attention a = {.padding = opf_contrib_in(c, MASK), .bias = opf_contrib_in(c, EXTRA)};
    const opf_attr sizes = opf_contrib_attr(c, "qkv_hidden_sizes");
    read_length(c, &a, opf_contrib_in(c, PAST), PAST_LENGTH, UINT32_MAX);
    const opf_value_id x = add_bias(c, OPF_APPLY(c, MatMul, opf_contrib_in(c, INPUT), opf_contrib_in(c, WEIGHTS)),
                                    opf_contrib_in(c, BIAS));
    split_three(c, x, sizes.type == OPF_ATTR_NONE ? NULL : &sizes, (opf_value_id *[3]){&a.q, &a.k, &a.v});
    attend_packed(c, &a, opf_contrib_in(c, PAST));
}

/* The projection is that of Attention, the past always a buffer. */
void opf_decompose_DecoderMaskedSelfAttention(opf_contrib *c)
{
    enum { INPUT, WEIGHTS, BIAS, MASK, PAST, EXTRA, PAST_LENGTH, BEAM_WIDTH, BEAMS };
    attention a = {.padding = opf_contrib_in(c, MASK), .bias = opf_contrib_in(c, EXTRA)};
    read_length(c, &a, opf_contrib_in(c, PAST), PAST_LENGTH, BEAMS);
    const opf_value_id product = OPF_APPLY(c, MatMul, opf_contrib_in(c, INPUT), opf_contrib_in(c, WEIGHTS));
    split_three(c, add_bias(c, product, opf_contrib_in(c, BIAS)), NULL, (opf_value_id *[3]){&a.q, &a.k, &a.v});
    attend_packed(c, &a, opf_contrib_in(c, PAST));
}

void opf_decompose_QAttention(opf_contrib *c)
{
    enum { INPUT, WEIGHT, BIAS, INPUT_SCALE, WEIGHT_SCALE, MASK, INPUT_ZERO, WEIGHT_ZERO, PAST };
    attention a = {.padding = opf_contrib_in(c, MASK)};
    const opf_value_id in[3] = {opf_contrib_in(c, INPUT), opf_contrib_in(c, INPUT_SCALE),
                                opf_contrib_in(c, INPUT_ZERO)};
    const opf_value_id with[3] = {opf_contrib_in(c, WEIGHT), opf_contrib_in(c, WEIGHT_SCALE),
                                  opf_contrib_in(c, WEIGHT_ZERO)};
    split_three(c, opf_contrib_integer_product(c, in, with, opf_contrib_in(c, BIAS)), NULL,
                (opf_value_id *[3]){&a.q, &a.k, &a.v});
    attend_packed(c, &a, opf_contrib_in(c, PAST));
}

/* ---- queries, keys and values apart ---- */

/* Parts of [batch, length, heads, n, size], joined over heads. */
static void unpack(opf_contrib *c, opf_value_id x, uint32_t n, opf_value_id *parts[3])
{
    opf_value_id out[3];
    opf_contrib_add_many(c, &opf_op_Split, OPF_INPUTS(x),
                         OPF_ATTRS(opf_contrib_int_attr("axis", 3), opf_contrib_int_attr("num_outputs", n)), n, out);
    for (uint32_t i = 0; i < n; i++)
        *parts[i] = OPF_APPLY(c, Reshape, out[i], opf_contrib_ints(c, OPF_INTS(0, 0, -1)));
}

/* Keys and values may be packed with the queries, or with each other. */
static void read_inputs(opf_contrib *c, attention *a)
{
    a->q = opf_contrib_in(c, 0);
    a->k = opf_contrib_in(c, 1);
    a->v = opf_contrib_in(c, 2);
    if (a->k == 0 && a->v == 0 && opf_contrib_rank(c, a->q, "query") == 5)
        unpack(c, a->q, 3, (opf_value_id *[3]){&a->q, &a->k, &a->v});
    else if (a->k == 0 && a->v == 0)
        split_three(c, a->q, NULL, (opf_value_id *[3]){&a->q, &a->k, &a->v});
    else if (a->k != 0 && a->v == 0 && opf_contrib_rank(c, a->k, "key") == 5)
        unpack(c, a->k, 2, (opf_value_id *[3]){&a->k, &a->v});
    else if (a->k == 0 || a->v == 0)
        opf_contrib_fail(c, OPF_UNSUPPORTED, "a key without a value, or a value without a key, is not supported");
}

/* One bias for all three; keys and values that come as heads have theirs already. */
static void add_biases(opf_contrib *c, attention *a, opf_value_id bias)
{
    const opf_value_id limits[4] = {opf_contrib_ints(c, OPF_INTS(0)), opf_contrib_size(c, a->q, 2),
                                    OPF_APPLY(c, Add, opf_contrib_size(c, a->q, 2), opf_contrib_size(c, a->q, 2)),
                                    opf_contrib_ints(c, OPF_INTS(INT64_MAX))};
    opf_value_id *const parts[3] = {&a->q, &a->k, &a->v};
    for (int i = 0; i < 3; i++)
        if (i == 0 || opf_contrib_rank(c, *parts[i], i == 1 ? "key" : "value") == 3)
            *parts[i] = OPF_APPLY(c, Add, *parts[i], OPF_APPLY(c, Slice, bias, limits[i], limits[i + 1]));
}

static void read_past(opf_contrib *c, attention *a, uint32_t key, uint32_t length, uint32_t beams)
{
    a->past_key = opf_contrib_in(c, key);
    a->past_value = opf_contrib_in(c, key + 1);
    read_length(c, a, a->past_key, length, beams);
}

static void finish(opf_contrib *c, attention *a)
{
    a->heads = opf_contrib_int(c, "num_heads", 0);
    a->wants_present = opf_contrib_wants(c, 1) || opf_contrib_wants(c, 2);
    a->wants_scores = opf_contrib_wants(c, 3);
    attend(c, a);
    if (a->wants_present) {
        opf_contrib_bind(c, 1, a->present_key);
        opf_contrib_bind(c, 2, a->present_value);
    }
    if (a->wants_scores)
        opf_contrib_bind(c, 3, opf_contrib_finite_scores(c, a->scores));
    opf_contrib_bind(c, 0, a->y);
}

void opf_decompose_MultiHeadAttention(opf_contrib *c)
{
    enum { BIAS = 3, PADDING, EXTRA, PAST_KEY, PAST_VALUE, PAST_LENGTH, BEAMS };
    attention a = {.padding = opf_contrib_in(c, PADDING), .bias = opf_contrib_in(c, EXTRA)};
    a.is_causal = opf_contrib_int(c, "unidirectional", 0) != 0;
    read_inputs(c, &a);
    if (opf_contrib_in(c, BIAS) != 0)
        add_biases(c, &a, opf_contrib_in(c, BIAS));
    read_past(c, &a, PAST_KEY, PAST_LENGTH, BEAMS);
    finish(c, &a);
}

void opf_decompose_DecoderMaskedMultiHeadAttention(opf_contrib *c)
{
    enum { PADDING = 3, EXTRA, PAST_KEY, PAST_VALUE, PAST_LENGTH, BEAM_WIDTH, BEAMS, BIAS };
    attention a = {.padding = opf_contrib_in(c, PADDING), .bias = opf_contrib_in(c, EXTRA)};
    read_inputs(c, &a);
    if (opf_contrib_in(c, BIAS) != 0)
        add_biases(c, &a, opf_contrib_in(c, BIAS));
    read_past(c, &a, PAST_KEY, PAST_LENGTH, BEAMS);
    finish(c, &a);
}
