/* SPDX-License-Identifier: Apache-2.0 */
/* Turned pairs of elements, with angles that broadcast: an operator since opset 23 where they are those of batch and
 * position. */
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

/* ---- the operator ---- */

/* A row of angles for every batch and position, in the place of heads (axis 1 or 2) one: the operator can say that. */
static bool has_rows(const opf_info *angles, const opf_info *x, int32_t heads, int64_t rotated)
{
    const int32_t positions = 3 - heads;
    return x->rank == 4 && angles->rank == 4 && opf_dim_is(angles->dims[heads], 1) &&
           opf_dim_is(angles->dims[3], rotated / 2) && opf_dim_equal(angles->dims[0], x->dims[0]) &&
           opf_dim_equal(angles->dims[positions], x->dims[positions]);
}

/* Without the axis of one element, 1 or 2: as it was before it got that, and before both changed places. */
static opf_value_id drop_axis(opf_contrib *c, opf_value_id x, int32_t axis)
{
    const opf_node *node = opf_graph_node(c->graph, opf_graph_value(c->graph, x)->producer);
    const opf_const *axes = node->op == &opf_op_Unsqueeze ? opf_graph_value(c->graph, node->inputs[1])->constant : NULL;
    if (axes != NULL && axes->count == 1 && (opf_const_i64_at(axes, 0) + 4) % 4 == axis)
        return node->inputs[0];
    const opf_attr *perm = node->op == &opf_op_Transpose ? opf_node_attr(node, "perm") : NULL;
    if (perm != NULL && perm->n == 4 && perm->ints[1] == 2 && perm->ints[2] == 1)
        return drop_axis(c, node->inputs[0], 3 - axis);
    return OPF_APPLY(c, Squeeze, x, opf_contrib_ints(c, OPF_INTS(axis)));
}

/* 0: it cannot. Heads behind positions are joined for it. */
static opf_value_id turn_by_operator(opf_contrib *c, opf_value_id x, opf_value_id cos, opf_value_id sin,
                                     int64_t rotated, bool interleaved)
{
    const opf_info *info = opf_contrib_info(c, x);
    const opf_attr none = {.type = OPF_ATTR_NONE};
    for (int32_t heads = 1; heads <= 2 && c->opset >= 23 && !opf_contrib_failed(c); heads++) {
        if (!has_rows(opf_contrib_info(c, cos), info, heads, rotated) ||
            !has_rows(opf_contrib_info(c, sin), info, heads, rotated) ||
            (heads == 2 && !opf_dim_is_number(info->dims[heads])))
            continue;
        const int64_t n = info->dims[heads].n, size = info->dims[3].n;
        const opf_value_id lines =
            heads == 1 ? x : OPF_APPLY(c, Reshape, x, opf_contrib_ints(c, OPF_INTS(0, 0, n * size)));
        const opf_value_id y = opf_contrib_add(
            c, &opf_op_RotaryEmbedding, OPF_INPUTS(lines, drop_axis(c, cos, heads), drop_axis(c, sin, heads)),
            OPF_ATTRS(interleaved ? opf_contrib_int_attr("interleaved", 1) : none,
                      heads == 2 ? opf_contrib_int_attr("num_heads", n) : none,
                      rotated != size ? opf_contrib_int_attr("rotary_embedding_dim", rotated) : none));
        return heads == 1 ? y : OPF_APPLY(c, Reshape, y, opf_contrib_ints(c, OPF_INTS(0, 0, n, size)));
    }
    return 0;
}

opf_value_id opf_spell_turn(opf_contrib *c, opf_value_id x, opf_value_id cos, opf_value_id sin, int64_t rotated,
                            bool interleaved)
{
    const int64_t size = opf_contrib_dim(c, x, -1, "what is turned"), half = rotated / 2;
    const opf_value_id turned_at_once = turn_by_operator(c, x, cos, sin, rotated, interleaved);
    if (turned_at_once != 0)
        return turned_at_once;
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
