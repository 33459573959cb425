/* SPDX-License-Identifier: Apache-2.0 */
/* Activations, biases, softmax, and normalizations with what is added before them. */
#include "onnx/contrib/contrib.h"

/* ---- activations ---- */

static opf_value_id gelu(opf_contrib *c, opf_value_id x, const char *approximate)
{
    return opf_contrib_add(c, &opf_op_Gelu, OPF_INPUTS(x),
                           OPF_ATTRS(opf_contrib_string_attr("approximate", approximate)));
}

/* a + b, where b may be absent. */
static opf_value_id plus(opf_contrib *c, opf_value_id a, opf_value_id b)
{
    return b != 0 ? OPF_APPLY(c, Add, a, b) : a;
}

void opf_decompose_BiasGelu(opf_contrib *c)
{
    opf_contrib_bind(c, 0, gelu(c, plus(c, opf_contrib_in(c, 0), opf_contrib_in(c, 1)), "none"));
}

void opf_decompose_FastGelu(opf_contrib *c)
{
    opf_contrib_bind(c, 0, gelu(c, plus(c, opf_contrib_in(c, 0), opf_contrib_in(c, 1)), "tanh"));
}

void opf_decompose_QuickGelu(opf_contrib *c)
{
    const opf_attr alpha = opf_contrib_float_attr("alpha", opf_contrib_float(c, "alpha", 1.702f));
    opf_contrib_bind(c, 0, opf_contrib_add(c, &opf_op_Swish, OPF_INPUTS(opf_contrib_in(c, 0)), OPF_ATTRS(alpha)));
}

void opf_decompose_BiasSplitGelu(opf_contrib *c)
{
    const opf_value_id x = plus(c, opf_contrib_in(c, 0), opf_contrib_in(c, 1));
    opf_value_id half[2];
    opf_contrib_add_many(c, &opf_op_Split, OPF_INPUTS(x),
                         OPF_ATTRS(opf_contrib_int_attr("axis", -1), opf_contrib_int_attr("num_outputs", 2)), 2, half);
    opf_contrib_bind(c, 0, OPF_APPLY(c, Mul, half[0], gelu(c, half[1], "none")));
}

void opf_decompose_BiasAdd(opf_contrib *c)
{
    opf_contrib_bind(c, 0, plus(c, plus(c, opf_contrib_in(c, 0), opf_contrib_in(c, 1)), opf_contrib_in(c, 2)));
}

/* Over all axes from `axis` on. The bias broadcasts either way as in numpy: is_inner_broadcast tells what shapes show.
 */
void opf_decompose_BiasSoftmax(opf_contrib *c)
{
    const opf_value_id x = plus(c, opf_contrib_in(c, 0), opf_contrib_in(c, 1));
    opf_contrib_bind(c, 0, opf_contrib_softmax(c, x, opf_contrib_int(c, "axis", 1), true));
}

/* ---- normalizations ---- */

/* Said, so that it is not taken for a norm that fusion found in half precision. */
static opf_attr inner_type(opf_contrib *c)
{
    return opf_contrib_int_attr("stash_type", opf_contrib_int(c, "stash_type", OPF_FLOAT));
}

static opf_value_id normalize(opf_contrib *c, opf_value_id x, opf_value_id scale, opf_value_id bias)
{
    const opf_attr epsilon = opf_contrib_float_attr("epsilon", opf_contrib_float(c, "epsilon", 1e-12f));
    return opf_contrib_add(c, &opf_op_LayerNormalization, OPF_INPUTS(x, scale, bias), OPF_ATTRS(epsilon, inner_type(c)));
}

/* The operator of later opsets, but the result has the type of the scale. */
void opf_decompose_LayerNormalization(opf_contrib *c)
{
    const opf_value_id scale = opf_contrib_in(c, 1);
    const opf_type type = opf_contrib_info(c, scale)->type;
    const opf_value_id x =
        type == OPF_TYPE_NONE ? opf_contrib_in(c, 0) : opf_contrib_cast(c, opf_contrib_in(c, 0), type);
    const uint32_t n = opf_contrib_wants(c, 2) ? 3 : opf_contrib_wants(c, 1) ? 2 : 1;
    opf_value_id out[3];
    opf_contrib_add_many(
        c, &opf_op_LayerNormalization, OPF_INPUTS(x, scale, opf_contrib_in(c, 2)),
        OPF_ATTRS(opf_contrib_attr(c, "axis"), opf_contrib_attr(c, "epsilon"), inner_type(c)), n,
        out);
    for (uint32_t o = 0; o < n; o++)
        opf_contrib_bind(c, o, out[o]);
}

/* 1/sqrt(mean(x²) + epsilon) over the axes from `axis` on, in float. */
static opf_value_id inverse_of_size(opf_contrib *c, opf_value_id x)
{
    const int32_t rank = opf_contrib_rank(c, x, "X");
    int64_t axis = opf_contrib_int(c, "axis", -1), axes[OPF_MAX_RANK];
    axis += axis < 0 ? rank : 0;
    if (!opf_contrib_failed(c) && (axis < 0 || axis >= rank))
        opf_contrib_fail(c, OPF_INVALID_MODEL, "axis does not fit rank %d", (int)rank);
    if (opf_contrib_failed(c))
        return 0;
    for (int64_t i = axis; i < rank; i++)
        axes[i - axis] = i;
    const opf_value_id wide = opf_contrib_cast(c, x, OPF_FLOAT);
    const opf_value_id mean =
        OPF_APPLY(c, ReduceMean, OPF_APPLY(c, Mul, wide, wide), opf_contrib_ints(c, (uint32_t)(rank - axis), axes));
    const opf_value_id epsilon = opf_contrib_number(c, OPF_FLOAT, (double)opf_contrib_float(c, "epsilon", 1e-5f));
    return OPF_APPLY(c, Reciprocal, OPF_APPLY(c, Sqrt, OPF_APPLY(c, Add, mean, epsilon)));
}

void opf_decompose_SimplifiedLayerNormalization(opf_contrib *c)
{
    const opf_value_id x = opf_contrib_in(c, 0);
    const opf_value_id y = opf_contrib_add(
        c, &opf_op_RMSNormalization, OPF_INPUTS(x, opf_contrib_in(c, 1)),
        OPF_ATTRS(opf_contrib_attr(c, "axis"), opf_contrib_attr(c, "epsilon"), inner_type(c)));
    if (opf_contrib_wants(c, 1))
        opf_contrib_bind(c, 1, inverse_of_size(c, x));
    opf_contrib_bind(c, 0, y);
}

enum { SUM_OUTPUT = 3 };

/* The bias goes to the first term: where a product makes that, its kernel adds the bias. */
static opf_value_id sum_of_rows(opf_contrib *c, opf_value_id bias)
{
    return OPF_APPLY(c, Add, plus(c, opf_contrib_in(c, 0), bias), opf_contrib_in(c, 1));
}

void opf_decompose_SkipLayerNormalization(opf_contrib *c)
{
    const opf_value_id sum = sum_of_rows(c, opf_contrib_in(c, 4));
    const opf_value_id y = normalize(c, sum, opf_contrib_in(c, 2), opf_contrib_in(c, 3));
    opf_contrib_bind(c, SUM_OUTPUT, sum);
    opf_contrib_bind(c, 0, y);
}

void opf_decompose_SkipSimplifiedLayerNormalization(opf_contrib *c)
{
    const opf_value_id sum = sum_of_rows(c, opf_contrib_in(c, 3));
    const opf_attr epsilon = opf_contrib_float_attr("epsilon", opf_contrib_float(c, "epsilon", 1e-12f));
    const opf_value_id y =
        opf_contrib_add(c, &opf_op_RMSNormalization, OPF_INPUTS(sum, opf_contrib_in(c, 2)), OPF_ATTRS(epsilon, inner_type(c)));
    opf_contrib_bind(c, SUM_OUTPUT, sum);
    opf_contrib_bind(c, 0, y);
}

/* ---- embeddings ---- */

enum { IDS, SEGMENT_IDS, WORDS, POSITIONS, SEGMENTS, GAMMA, BETA, MASK, POSITION_IDS };

/* How many tokens of each sequence the mask has; none without a mask. */
static opf_value_id count_tokens(opf_contrib *c)
{
    const opf_value_id mask = opf_contrib_in(c, MASK);
    if (mask == 0) {
        const opf_value_id zero = opf_contrib_integer(c, OPF_INT32, 0);
        return OPF_APPLY(c, Expand, zero, opf_contrib_size(c, opf_contrib_in(c, IDS), 0));
    }
    const opf_value_id one = opf_contrib_integer(c, opf_contrib_type(c, mask, "mask"), 1);
    const opf_value_id kept = opf_contrib_cast(c, OPF_APPLY(c, Equal, mask, one), OPF_INT32);
    return opf_contrib_add(c, &opf_op_ReduceSum, OPF_INPUTS(kept, opf_contrib_ints(c, OPF_INTS(1))),
                           OPF_ATTRS(opf_contrib_int_attr("keepdims", 0)));
}

void opf_decompose_EmbedLayerNormalization(opf_contrib *c)
{
    const opf_value_id ids = opf_contrib_in(c, IDS), segment_ids = opf_contrib_in(c, SEGMENT_IDS);
    const opf_value_id table = opf_contrib_in(c, POSITIONS), zero = opf_contrib_ints(c, OPF_INTS(0));
    const opf_value_id words = OPF_APPLY(c, Gather, opf_contrib_in(c, WORDS), ids);
    const opf_value_id positions = opf_contrib_in(c, POSITION_IDS) != 0
                                       ? OPF_APPLY(c, Gather, table, opf_contrib_in(c, POSITION_IDS))
                                       : OPF_APPLY(c, Slice, table, zero, opf_contrib_size(c, ids, 1), zero);
    opf_value_id sum = OPF_APPLY(c, Add, words, positions);
    if ((segment_ids != 0) != (opf_contrib_in(c, SEGMENTS) != 0))
        opf_contrib_fail(c, OPF_INVALID_MODEL, "segment_ids and segment_embedding must be given together");
    if (segment_ids != 0)
        sum = OPF_APPLY(c, Add, sum, OPF_APPLY(c, Gather, opf_contrib_in(c, SEGMENTS), segment_ids));
    const opf_value_id y = normalize(c, sum, opf_contrib_in(c, GAMMA), opf_contrib_in(c, BETA));
    if (opf_contrib_wants(c, 1))
        opf_contrib_bind(c, 1, count_tokens(c));
    opf_contrib_bind(c, 2, sum);
    opf_contrib_bind(c, 0, y);
}

/* Channels last by default; activation 1 is SiLU. */
static void group_norm(opf_contrib *c, opf_value_id x)
{
    const bool last = opf_contrib_int(c, "channels_last", 1) != 0;
    const int64_t silu = opf_contrib_int(c, "activation", 0);
    const opf_value_id data = opf_contrib_channels_first(c, x, last, "X");
    const opf_type type = opf_contrib_type(c, x, "X");
    const opf_value_id gamma = opf_contrib_cast(c, opf_contrib_in(c, 1), type),
                       beta = opf_contrib_cast(c, opf_contrib_in(c, 2), type);
    if (silu != 0 && silu != 1)
        opf_contrib_fail(c, OPF_UNSUPPORTED, "activation = %lld is not supported", (long long)silu);
    opf_value_id y = opf_contrib_add(
        c, &opf_op_GroupNormalization, OPF_INPUTS(data, gamma, beta),
        OPF_ATTRS(opf_contrib_int_attr("num_groups", opf_contrib_int(c, "groups", 0)), opf_contrib_attr(c, "epsilon")));
    if (silu == 1)
        y = OPF_APPLY(c, Swish, y);
    y = opf_contrib_channels_last(c, y, last);
    opf_contrib_bind(c, 1, x);
    opf_contrib_bind(c, 0, y);
}

void opf_decompose_GroupNorm(opf_contrib *c)
{
    group_norm(c, opf_contrib_in(c, 0));
}

/* The skip may be one row of channels for each sample: [N, C] or [N, 1, 1, C]. */
void opf_decompose_SkipGroupNorm(opf_contrib *c)
{
    opf_value_id skip = opf_contrib_in(c, 3);
    if (opf_contrib_rank(c, skip, "skip") == 2)
        skip = OPF_APPLY(c, Unsqueeze, skip, opf_contrib_ints(c, OPF_INTS(1, 2)));
    group_norm(c, plus(c, OPF_APPLY(c, Add, opf_contrib_in(c, 0), skip), opf_contrib_in(c, 4)));
}
