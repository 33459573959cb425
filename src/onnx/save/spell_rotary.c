/* SPDX-License-Identifier: Apache-2.0 */
/* Turned pairs of elements, with angles that broadcast, which no opset has as one operator. */
#include "onnx/save/spell.h"

static opf_value_id slice(opf_contrib *c, opf_value_id x, int64_t from, int64_t to, int64_t step)
{
    if (step == 1)
        return OPF_APPLY(c, Slice, x, opf_contrib_ints(c, OPF_INTS(from)), opf_contrib_ints(c, OPF_INTS(to)),
                         opf_contrib_ints(c, OPF_INTS(-1)));
    return OPF_APPLY(c, Slice, x, opf_contrib_ints(c, OPF_INTS(from)), opf_contrib_ints(c, OPF_INTS(to)),
                     opf_contrib_ints(c, OPF_INTS(-1)), opf_contrib_ints(c, OPF_INTS(step)));
}

static opf_value_id join(opf_contrib *c, opf_value_id a, opf_value_id b)
{
    return opf_contrib_add(c, &opf_op_Concat, OPF_INPUTS(a, b), OPF_ATTRS(opf_contrib_int_attr("axis", -1)));
}

/* a and b side by side, or element by element. */
static opf_value_id put_together(opf_contrib *c, opf_value_id a, opf_value_id b, int64_t rotated, bool interleaved)
{
    int64_t shape[OPF_MAX_RANK] = {0};
    if (!interleaved)
        return join(c, a, b);
    const int32_t rank = opf_contrib_rank(c, a, "what is turned");
    const opf_value_id axis = opf_contrib_ints(c, OPF_INTS(-1));
    const opf_value_id pairs = join(c, OPF_APPLY(c, Unsqueeze, a, axis), OPF_APPLY(c, Unsqueeze, b, axis));
    if (opf_contrib_failed(c))
        return 0;
    shape[rank - 1] = rotated;
    return OPF_APPLY(c, Reshape, pairs, opf_contrib_ints(c, (uint32_t)rank, shape));
}

opf_value_id opf_spell_turn(opf_contrib *c, opf_value_id x, opf_value_id cos, opf_value_id sin, int64_t rotated,
                            bool interleaved)
{
    const int64_t size = opf_contrib_dim(c, x, -1, "what is turned"), half = rotated / 2;
    const bool is_whole =
        opf_contrib_dim(c, cos, -1, "cos") == rotated || opf_contrib_dim(c, sin, -1, "sin") == rotated;
    const opf_value_id all = rotated == size ? x : slice(c, x, 0, rotated, 1);
    const opf_value_id a = interleaved ? slice(c, x, 0, rotated, 2) : slice(c, x, 0, half, 1);
    const opf_value_id b = interleaved ? slice(c, x, 1, rotated, 2) : slice(c, x, half, rotated, 1);
    opf_value_id y;
    if (is_whole) {
        const opf_value_id turned = put_together(c, OPF_APPLY(c, Neg, b), a, rotated, interleaved);
        y = OPF_APPLY(c, Add, OPF_APPLY(c, Mul, all, cos), OPF_APPLY(c, Mul, turned, sin));
    } else {
        const opf_value_id first = OPF_APPLY(c, Sub, OPF_APPLY(c, Mul, a, cos), OPF_APPLY(c, Mul, b, sin));
        const opf_value_id second = OPF_APPLY(c, Add, OPF_APPLY(c, Mul, b, cos), OPF_APPLY(c, Mul, a, sin));
        y = put_together(c, first, second, rotated, interleaved);
    }
    return rotated == size ? y : join(c, y, slice(c, x, rotated, size, 1));
}

void opf_spell_RotaryEmbedding(opf_contrib *c)
{
    enum { X, COS, SIN };
    const opf_value_id x = opf_contrib_in(c, X);
    const int64_t given = opf_contrib_int(c, "rotary_embedding_dim", 0);
    if (opf_contrib_int(c, "broadcast", 0) == 0)
        opf_contrib_fail(c, OPF_UNSUPPORTED, "the operator came with opset 23");
    const int64_t rotated = given != 0 ? given : opf_contrib_dim(c, x, -1, "what is turned");
    opf_contrib_bind(c, 0,
                     opf_spell_turn(c, x, opf_contrib_in(c, COS), opf_contrib_in(c, SIN), rotated,
                                    opf_contrib_int(c, "interleaved", 0) != 0));
}
