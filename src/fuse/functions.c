/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/functions.h"

#include "fuse/function_args.h"

#include <math.h>
#include <string.h>

/* ---- conditions ---- */

static bool is_constant(const opf_rule_call *call)
{
    for (uint32_t i = 0; i < call->n_args; i++) {
        const opf_const *constant;
        if (call->args[i].kind != OPF_ITEM_ABSENT && call->args[i].kind != OPF_ITEM_NUMBER &&
            !opf_function_constant(call, i, &constant))
            return false;
    }
    return true;
}

static bool is_scalar(const opf_rule_call *call)
{
    for (uint32_t i = 0; i < call->n_args; i++) {
        const opf_const *constant;
        if (call->args[i].kind == OPF_ITEM_NUMBER)
            continue;
        if (!opf_function_constant(call, i, &constant))
            return false;
        if (constant->count != 1)
            return OPF_REFUSE(call, SHAPE, "%s has %zu elements, must have one", opf_rule_arg_name(call, i),
                              constant->count);
    }
    return true;
}

static bool is_positive(const opf_rule_call *call)
{
    for (uint32_t i = 0; i < call->n_args; i++) {
        double x;
        if (!opf_item_number(call->context->graph, &call->args[i], &x))
            return is_scalar(call) && OPF_REFUSE(call, CONST, "%s is no number", opf_rule_arg_name(call, i));
        if (!(x > 0 && isfinite(x)))
            return OPF_REFUSE(call, CONST, "%s is %g, must be positive", opf_rule_arg_name(call, i), x);
    }
    return true;
}

static bool is_at_most(const opf_rule_call *call)
{
    double x, most;
    if (!opf_item_number(call->context->graph, &call->args[0], &x) ||
        !opf_item_number(call->context->graph, &call->args[1], &most))
        return OPF_REFUSE(call, CONST, "%s is no number", opf_rule_arg_name(call, 0));
    return x <= most || OPF_REFUSE(call, CONST, "%s is %g, must be at most %g", opf_rule_arg_name(call, 0), x, most);
}

/* Every element of the constant is this number. */
static bool is_splat_of(const opf_rule_call *call, double wanted)
{
    const opf_const *c;
    if (!opf_function_floats(call, 0, &c))
        return false;
    for (size_t i = 0; i < c->count; i++)
        if (opf_const_f64_at(c, i) != wanted)
            return OPF_REFUSE(call, CONST, "%s is %g, must be %g", opf_rule_arg_name(call, 0), opf_const_f64_at(c, i),
                              wanted);
    return true;
}

static bool is_splat(const opf_rule_call *call)
{
    double wanted;
    return opf_item_number(call->context->graph, &call->args[1], &wanted) && is_splat_of(call, wanted);
}

static bool is_zero(const opf_rule_call *call)
{
    return call->args[0].kind == OPF_ITEM_ABSENT || is_splat_of(call, 0);
}

static bool has_same_shape(const opf_rule_call *call)
{
    opf_info a, b;
    if (!opf_function_info(call, 0, &a) || !opf_function_info(call, 1, &b))
        return false;
    a.type = b.type = OPF_FLOAT; /* shapes only */
    return opf_legal_same(call->context, &a, &b, call->why);
}

static bool is_single(const opf_rule_call *call)
{
    for (uint32_t i = 0; i < call->n_args; i++) {
        opf_info info;
        if (!opf_function_info(call, i, &info))
            return false;
        if (info.type != OPF_FLOAT && info.type != OPF_FLOAT16 && info.type != OPF_BFLOAT16)
            return OPF_REFUSE(call, DTYPE, "%s is %s, must be float, float16 or bfloat16", opf_rule_arg_name(call, i),
                              opf_type_name(info.type));
    }
    return true;
}

static bool has_rank(const opf_rule_call *call)
{
    opf_info x;
    double rank;
    if (!opf_function_ranked(call, 0, &x) || !opf_item_number(call->context->graph, &call->args[1], &rank))
        return false;
    return x.rank == (int32_t)rank ||
           OPF_REFUSE(call, RANK, "%s has %d dimensions, must have %g", opf_rule_arg_name(call, 0), x.rank, rank);
}

bool opf_function_varies_within(const opf_rule_call *call, const opf_info *v, const opf_info *x, int32_t first,
                                int32_t last)
{
    const char *name = opf_rule_arg_name(call, 0);
    if (v->rank > x->rank)
        return OPF_REFUSE(call, RANK, "%s is %s, of more dimensions than %s", name, opf_function_show(call, v),
                          opf_function_show(call, x));
    for (int32_t k = 0; k < v->rank; k++) {
        int32_t axis = x->rank - v->rank + k;
        if (opf_dim_is(v->dims[k], 1))
            continue;
        if (axis < first || axis >= last)
            return OPF_REFUSE(call, SHAPE, "%s is %s: it varies along axis %d of %s", name, opf_function_show(call, v),
                              axis, opf_function_show(call, x));
        if (!opf_dim_equal(v->dims[k], x->dims[axis])) {
            if (opf_dim_is_number(v->dims[k]) && opf_dim_is_number(x->dims[axis]))
                return OPF_REFUSE(call, SHAPE, "%s is %s, which does not fit %s", name, opf_function_show(call, v),
                                  opf_function_show(call, x));
            return OPF_REFUSE(call, SHAPE_UNKNOWN, "%s is %s, which may not fit %s", name, opf_function_show(call, v),
                              opf_function_show(call, x));
        }
    }
    return true;
}

static bool is_per_channel(const opf_rule_call *call)
{
    opf_info v, x;
    return opf_function_ranked(call, 0, &v) && opf_function_ranked(call, 1, &x) &&
           opf_function_varies_within(call, &v, &x, 1, 2);
}

static bool are_last_axes(const opf_rule_call *call)
{
    opf_info x;
    int32_t first = 0;
    if (!opf_function_ranked(call, 0, &x))
        return false;
    if (x.rank == 0)
        return OPF_REFUSE(call, RANK, "%s has no axes", opf_rule_arg_name(call, 0));
    for (uint32_t i = 1; i < call->n_args; i++) {
        int32_t other;
        if (!opf_function_first_axis(call, &x, i, &other))
            return false;
        if (i > 1 && other != first)
            return OPF_REFUSE(call, CONST, "axes start at %d and at %d, must be the same", first, other);
        first = other;
    }
    return true;
}

/* What over_axes can make of v: the dimensions of the axes, with ones before them only where it is a constant; or one
   element, which a constant is stretched from. */
static bool covers_axes(const opf_rule_call *call, const opf_info *v, const opf_info *x, int32_t first)
{
    const opf_const *constant = opf_item_constant(call->context->graph, &call->args[0]);
    int32_t n = x->rank - first;
    bool same = constant != NULL ? v->rank >= n : v->rank == n;
    for (int32_t k = 1; same && k <= n; k++)
        same = opf_dim_equal(v->dims[v->rank - k], x->dims[x->rank - k]);
    return same || (constant != NULL && constant->count == 1) ||
           OPF_REFUSE(call, SHAPE, "%s is %s, which does not cover the last %d dimensions of %s",
                      opf_rule_arg_name(call, 0), opf_function_show(call, v), n, opf_function_show(call, x));
}

static bool is_along_axes(const opf_rule_call *call)
{
    opf_info v, x;
    int32_t first;
    if (call->args[0].kind == OPF_ITEM_ABSENT)
        return true;
    return opf_function_ranked(call, 0, &v) && opf_function_ranked(call, 1, &x) &&
           opf_function_first_axis(call, &x, 2, &first) && opf_function_varies_within(call, &v, &x, first, x.rank) &&
           covers_axes(call, &v, &x, first);
}

/* The first of the lists must be there; the others name the same axis, or are absent. */
static bool is_one_axis(const opf_rule_call *call)
{
    opf_info x;
    int64_t first = 0;
    if (!opf_function_ranked(call, 0, &x))
        return false;
    for (uint32_t i = 1; i < call->n_args; i++) {
        const opf_const *axes;
        if (i > 1 && call->args[i].kind == OPF_ITEM_ABSENT)
            continue;
        if (call->args[i].kind == OPF_ITEM_ABSENT)
            return OPF_REFUSE(call, CONST, "%s is absent: all axes", opf_rule_arg_name(call, i));
        if (!opf_function_constant(call, i, &axes))
            return false;
        if (axes->count != 1 || !opf_types_have(OPF_TYPES_INT, axes->type))
            return OPF_REFUSE(call, CONST, "%s names %zu axes, must be one", opf_rule_arg_name(call, i), axes->count);
        int64_t axis = opf_const_i64_at(axes, 0);
        axis += axis < 0 ? x.rank : 0;
        if (axis < 0 || axis >= x.rank || (i > 1 && axis != first))
            return OPF_REFUSE(call, CONST, "axis is %lld, must be %lld", (long long)axis, (long long)first);
        first = axis;
    }
    return true;
}

/* ---- the table ---- */

static const opf_rule_function table[] = {
    {"constant", 1, OPF_FUNCTION_ARGS, true, true, is_constant, "each is a constant, or absent"},
    {"scalar", 1, OPF_FUNCTION_ARGS, true, false, is_scalar, "each is a constant of one element"},
    {"positive", 1, OPF_FUNCTION_ARGS, true, false, is_positive,
     "each is a number or a constant of one element, greater than zero"},
    {"at_most", 2, 2, true, false, is_at_most, "at_most(v, n): v is a number or a constant of one element, at most n"},
    {"zero", 1, 1, true, true, is_zero, "zero(v): every element is zero, or v is absent"},
    {"splat", 2, 2, true, false, is_splat, "splat(v, n): a constant whose elements are all n"},
    {"same_shape", 2, 2, true, false, has_same_shape, "both shapes are known and proven equal"},
    {"single", 1, OPF_FUNCTION_ARGS, true, false, is_single,
     "each is float, float16 or bfloat16: what an operator that computes in float may replace"},
    {"has_rank", 2, 2, true, false, has_rank, "has_rank(x, n): x has n dimensions"},
    {"per_channel", 2, 2, true, false, is_per_channel,
     "per_channel(v, x): v varies along axis 1 of x only and raises no rank"},
    {"last_axes", 2, OPF_FUNCTION_ARGS, true, true, are_last_axes,
     "last_axes(x, a, …): each of the lists of axes names the same last axes of x; absent: all"},
    {"along_axes", 3, 3, true, true, is_along_axes,
     "along_axes(v, x, axes): v covers these last axes of x, or is a constant of one element, or is absent"},
    {"one_axis", 2, OPF_FUNCTION_ARGS, true, true, is_one_axis,
     "one_axis(x, a, …): the list a has one axis; each of the others the same one, or is absent"},
    {"channel_axis", 2, OPF_FUNCTION_ARGS, true, true, opf_rule_is_channel_axis,
     "channel_axis(x, a, …): x has 3 to 5 dimensions, each of the lists names axis 1 alone"},
    {"along_channels", 2, 2, true, true, opf_rule_is_along_channels,
     "along_channels(v, x): v varies along axis 1 of x only and raises no rank, or is absent"},
    {"groups_of", 3, 3, true, false, opf_rule_are_groups_of,
     "groups_of(g, x, v): g is x with its channels in as many groups, in axis 1, as v has elements"},
    {"columns_at", 3, 3, true, false, opf_rule_are_columns_at,
     "columns_at(c, r, a): axis a of r, which is c reshaped, is the last of c; of a permutation, the one it puts in "
     "place 1"},
    {"counts", 3, 3, true, true, opf_rule_counts,
     "counts(n, x, axes): n is the number of elements that these axes of x take together, or is absent"},
    {"counts_inverse", 3, 3, true, true, opf_rule_counts_inverse, "the same for one over that number"},
    {"parts", 3, 3, true, false, opf_rule_are_parts,
     "parts(x, a, b): a and then b are all of x along its last axis"},
    {"neighbours", 3, 3, true, false, opf_rule_are_neighbours,
     "neighbours(x, a, b): a is what x has at even places of its last axis, b what it has at odd ones"},
    {"paired", 2, 2, true, false, opf_rule_is_paired,
     "paired(r, axes): the axes name the last one of r alone, which has two elements"},
    {"angles", 2, OPF_FUNCTION_ARGS, true, false, opf_rule_are_angles,
     "angles(c, …, a): each has a number for every element of the last axis of a, or two"},
    {"unpadded", 1, 1, true, true, opf_rule_is_unpadded, "unpadded(pads): the attribute is absent, or all zeros"},
    {"missing", 1, 1, true, true, opf_rule_is_missing, "missing(a): the attribute is absent"},
    {"columns_to", 3, 3, true, false, opf_rule_are_columns_to,
     "columns_to(c, perm, a): the permutation puts the last axis of c in place a"},
    {"undilated", 1, 1, true, true, opf_rule_is_undilated,
     "undilated(dilations): the attribute is absent, or all ones"},
    {"never_above", 2, 2, true, true, opf_rule_is_never_above,
     "never_above(v, x): v is minus infinity, or no larger than what the operator that makes x can give"},
    {"max", 2, 2, false, true, opf_rule_max, "max(a, b): the larger lower bound; one that is absent is no bound"},
    {"clamp", 2, 3, false, true, opf_rule_clamp,
     "clamp(b, lo, hi): the upper bound b between others; one that is absent is no bound"},
    {"length", 1, 1, false, false, opf_rule_length, "length(v): the elements of a constant"},
    {"first_of", 1, 1, false, false, opf_rule_first_of, "first_of(v): the first of a list of integers"},
    {"join_pads", 4, 5, false, true, opf_rule_join_pads,
     "join_pads(own, x, pads, axes, kernel): padding of a window and of a Pad before it together, on x"},
    {"crop_less", 5, 5, false, true, opf_rule_crop_less,
     "crop_less(own, x, pads, axes, strides): the pads of a ConvTranspose without a Pad of zeros before it, on x"},
    {"scale_columns", 3, 3, false, false, opf_rule_scale_columns,
     "scale_columns(W, k, group): W with column i of each group (axis 1) times k[i], as a recipe"},
    {"shift_outputs", 3, 3, false, false, opf_rule_shift_outputs,
     "shift_outputs(W, t, group): what each output of W gains when channel i of its input gains t[i]"},
    {"channel_vector", 2, 3, false, true, opf_rule_channel_vector,
     "channel_vector(v, x, fill): one element a channel of x; absent: a constant of fill, or absent"},
    {"channels_last", 1, 1, false, false, opf_rule_channels_last, "the permutation that puts axis 1 of x last"},
    {"channels_first", 1, 1, false, false, opf_rule_channels_first, "its inverse"},
    {"sqrt", 1, 1, false, false, opf_rule_sqrt, "the square root of a number or of a small constant"},
    {"scale_outputs", 2, 2, false, false, opf_rule_scale_outputs,
     "scale_outputs(W, k): W with output channel i (axis 0) times k[i], as a recipe"},
    {"scale_axis", 3, 3, false, false, opf_rule_scale_axis, "scale_axis(W, k, axis): the same along another axis"},
    {"shift_axis", 3, 3, false, false, opf_rule_shift_axis,
     "shift_axis(W, t, axis): what each output of a matrix gains when element i of its input, along axis, gains t[i]"},
    {"first_axis", 2, 2, false, true, opf_rule_first_axis,
     "first_axis(x, axes): the first of the last axes, counted from the end: -1 is the last"},
    {"over_axes", 3, 4, false, true, opf_rule_over_axes,
     "over_axes(v, x, axes, fill): v with exactly the dimensions of these axes; absent: constant fill, or absent"},
    {"joined", 2, 3, false, true, opf_rule_joined,
     "joined(a, b, c): the value of which a, b and, if it is there, c are all along the last axis, in this order"},
    {"interleaved", 2, 3, false, true, opf_rule_interleaved,
     "interleaved(a, b, c): the value with a at even places of its last axis, b at odd ones, and c, if it is there, "
     "behind them"},
    {"size_of", 1, 1, false, false, opf_rule_size_of, "size_of(x): the last dimension of x"},
    {"+", 2, 2, false, true, opf_rule_arithmetic, "computed in double; an absent operand of a sum is 0"},
    {"-", 2, 2, false, true, opf_rule_arithmetic, "computed in double"},
    {"*", 2, 2, false, true, opf_rule_arithmetic, "computed in double; absent if an operand is"},
    {"/", 2, 2, false, true, opf_rule_arithmetic, "computed in double"},
};

const opf_rule_function *opf_rule_find_function(const char *name)
{
    for (uint32_t i = 0; i < OPF_COUNT(table); i++)
        if (strcmp(table[i].name, name) == 0)
            return &table[i];
    return NULL;
}

const opf_rule_function *opf_rule_all_functions(uint32_t *n)
{
    *n = OPF_COUNT(table);
    return table;
}
