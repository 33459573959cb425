/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of rules on channels: axis 1 of what is normalised, and the columns of a convolution's weights. */
#include "fuse/channel.h"
#include "fuse/function_args.h"

#include <math.h>

/* ---- conditions ---- */

bool opf_rule_is_channel_axis(const opf_rule_call *call)
{
    opf_info x;
    if (!opf_function_ranked(call, 0, &x))
        return false;
    if (x.rank < 3 || x.rank > 5)
        return OPF_REFUSE(call, RANK, "%s has %d dimensions, must have 3 to 5", opf_rule_arg_name(call, 0), x.rank);
    for (uint32_t i = 1; i < call->n_args; i++) {
        const opf_const *axes;
        if (call->args[i].kind == OPF_ITEM_ABSENT)
            return OPF_REFUSE(call, CONST, "%s is absent: all axes", opf_rule_arg_name(call, i));
        if (!opf_function_constant(call, i, &axes))
            return false;
        if (axes->count != 1 || !opf_types_have(OPF_TYPES_INT, axes->type) ||
            (opf_const_i64_at(axes, 0) != 1 && opf_const_i64_at(axes, 0) != 1 - (int64_t)x.rank))
            return OPF_REFUSE(call, CONST, "%s must be axis 1 alone", opf_rule_arg_name(call, i));
    }
    return true;
}

bool opf_rule_is_along_channels(const opf_rule_call *call)
{
    opf_info v, x;
    return call->args[0].kind == OPF_ITEM_ABSENT ||
           (opf_function_ranked(call, 0, &v) && opf_function_ranked(call, 1, &x) &&
            opf_function_varies_within(call, &v, &x, 1, 2));
}

bool opf_rule_are_groups_of(const opf_rule_call *call)
{
    opf_info g, x;
    const opf_const *v;
    if (!opf_function_ranked(call, 0, &g) || !opf_function_ranked(call, 1, &x) || !opf_function_constant(call, 2, &v))
        return false;
    const int64_t groups = (int64_t)v->count;
    if (g.rank < 3 || x.rank < 3 || !opf_dim_equal(g.dims[0], x.dims[0]) || !opf_dim_is(g.dims[1], groups))
        return OPF_REFUSE(call, SHAPE, "%s is %s, which does not split the channels of %s", opf_rule_arg_name(call, 0),
                          opf_function_show(call, &g), opf_function_show(call, &x));
    if (!opf_dim_is_number(x.dims[1]))
        return OPF_REFUSE(call, SHAPE_UNKNOWN, "the number of channels of %s is not known",
                          opf_function_show(call, &x));
    return (groups != 0 && x.dims[1].n % groups == 0) ||
           OPF_REFUSE(call, SHAPE, "%lld channels are no %lld groups", (long long)x.dims[1].n, (long long)groups);
}

/* ---- permutations ---- */

static bool give_permutation(const opf_rule_call *call, bool last)
{
    opf_info x;
    int64_t perm[OPF_MAX_RANK] = {0};
    if (!opf_function_ranked(call, 0, &x))
        return false;
    if (x.rank < 3 || x.rank > OPF_MAX_RANK)
        return OPF_REFUSE(call, RANK, "%s has no channels", opf_function_show(call, &x));
    for (int32_t i = 2; i < x.rank; i++)
        perm[last ? i - 1 : i] = last ? i : i - 1;
    perm[last ? x.rank - 1 : 1] = last ? 1 : x.rank - 1;
    return opf_function_give_ints(call, perm, (uint32_t)x.rank);
}

bool opf_rule_channels_last(const opf_rule_call *call)
{
    return give_permutation(call, true);
}

bool opf_rule_channels_first(const opf_rule_call *call)
{
    return give_permutation(call, false);
}

/* An axis: a number, or where a permutation takes axis 1 from. */
static bool get_axis(const opf_rule_call *call, uint32_t i, int32_t rank, int32_t *axis)
{
    const opf_item *item = &call->args[i];
    double x = -1;
    if (item->kind == OPF_ITEM_ATTR && item->attr.type == OPF_ATTR_INTS && item->attr.n > 1)
        x = (double)item->attr.ints[1];
    else if (!opf_item_number(call->context->graph, item, &x))
        return OPF_REFUSE(call, ATTR, "%s is no axis and no permutation", opf_rule_arg_name(call, i));
    if (!(x >= 0 && x < rank))
        return OPF_REFUSE(call, RANK, "%s has %d dimensions, which axis %g is none of", opf_rule_arg_name(call, 1),
                          rank, x);
    *axis = (int32_t)x;
    return true;
}

bool opf_rule_are_columns_at(const opf_rule_call *call)
{
    opf_info c, r;
    int32_t axis;
    if (!opf_function_ranked(call, 0, &c) || !opf_function_ranked(call, 1, &r) || !get_axis(call, 2, r.rank, &axis))
        return false;
    if (c.rank < 1 || !opf_dim_is_number(r.dims[axis]) || !opf_dim_equal(c.dims[c.rank - 1], r.dims[axis]))
        return OPF_REFUSE(call, SHAPE, "the columns of %s are not axis %d of %s", opf_rule_arg_name(call, 0), axis,
                          opf_function_show(call, &r));
    for (int32_t i = axis + 1; i < r.rank; i++)
        if (!opf_dim_is(r.dims[i], 1))
            return OPF_REFUSE(call, SHAPE, "%s has elements behind axis %d", opf_function_show(call, &r), axis);
    return true;
}

bool opf_rule_are_columns_to(const opf_rule_call *call)
{
    opf_info c;
    double place;
    const opf_item *perm = &call->args[1];
    if (!opf_function_ranked(call, 0, &c) || !opf_item_number(call->context->graph, &call->args[2], &place))
        return false;
    return (perm->kind == OPF_ITEM_ATTR && perm->attr.type == OPF_ATTR_INTS && place >= 0 && place < perm->attr.n &&
            perm->attr.ints[(uint32_t)place] == c.rank - 1) ||
           OPF_REFUSE(call, ATTR, "axis %g is not that of the columns of %s", place, opf_rule_arg_name(call, 0));
}

/* ---- vectors and weights ---- */

bool opf_rule_channel_vector(const opf_rule_call *call)
{
    opf_info x;
    const opf_const *c;
    const bool absent = call->args[0].kind == OPF_ITEM_ABSENT;
    if (absent && call->n_args < 3)
        return true;
    if (!opf_function_ranked(call, 1, &x))
        return false;
    if (x.rank < 2 || !opf_dim_is_number(x.dims[1]))
        return OPF_REFUSE(call, SHAPE_UNKNOWN, "the number of channels of %s is not known",
                          opf_function_show(call, &x));
    if (!opf_function_floats(call, absent ? 2 : 0, &c))
        return false;
    if (c->count != 1 && c->count != (size_t)x.dims[1].n)
        return OPF_REFUSE(call, SHAPE, "%s has %zu elements for %lld channels", opf_rule_arg_name(call, 0), c->count,
                          (long long)x.dims[1].n);
    return opf_function_give_constant(call, opf_channel_vector(call->context->graph->consts, c, x.dims[1].n));
}

/* The weights, the vector with one element a column of each group, and the groups. */
static bool get_columns(const opf_rule_call *call, const opf_const **w, const opf_const **k, int64_t *groups)
{
    double group;
    if (!opf_function_constant(call, 0, w) || !opf_function_floats(call, 1, k))
        return false;
    if (!opf_types_have(OPF_TYPES_FLOAT, (*w)->type))
        return OPF_REFUSE(call, DTYPE, "%s is %s, must be a float", opf_rule_arg_name(call, 0),
                          opf_type_name((*w)->type));
    if (!opf_item_number(call->context->graph, &call->args[2], &group) || !(group >= 1 && group < 0x1p31))
        return OPF_REFUSE(call, ATTR, "the number of groups is wrong");
    *groups = (int64_t)group;
    if ((*w)->rank < 2 || (*w)->count == 0 || (*w)->dims[0] % *groups != 0)
        return OPF_REFUSE(call, SHAPE, "%s does not split into %lld groups", opf_rule_arg_name(call, 0),
                          (long long)*groups);
    const int64_t channels = *groups * (*w)->dims[1];
    if ((*k)->count != 1 && (*k)->count != (size_t)channels)
        return OPF_REFUSE(call, SHAPE, "%s has %zu elements for %lld channels", opf_rule_arg_name(call, 1), (*k)->count,
                          (long long)channels);
    *k = opf_channel_vector(call->context->graph->consts, *k, channels);
    return *k != NULL || opf_function_out_of_memory(call);
}

/* Half-precision weights may leave their range: only factors up to 1 are sure not to carry them out. */
static bool stays_in_range(const opf_rule_call *call, const opf_const *w, const opf_const *k)
{
    for (size_t i = 0; i < k->count; i++) {
        const double factor = opf_const_f64_at(k, i);
        if (!isfinite(factor) || (w->type == OPF_FLOAT16 && fabs(factor) > 1))
            return OPF_REFUSE(call, CONST, "factor %zu is %g, which may carry a weight out of range", i, factor);
    }
    return true;
}

bool opf_rule_scale_columns(const opf_rule_call *call)
{
    const opf_const *w, *k;
    int64_t groups;
    return get_columns(call, &w, &k, &groups) && stays_in_range(call, w, k) &&
           opf_function_give_constant(call, opf_channel_scale_columns(call->context->graph->consts, w, k, groups));
}

static bool give_shift(const opf_rule_call *call, const opf_const *w, const opf_const *t, int64_t groups)
{
    const opf_const *sums = opf_channel_shift_rows(call->context->graph->consts, w, t, groups);
    for (size_t i = 0; sums != NULL && i < sums->count; i++)
        if (!isfinite(opf_const_f64_at(sums, i)))
            return OPF_REFUSE(call, CONST, "element %zu of a computed constant is %g", i, opf_const_f64_at(sums, i));
    return opf_function_give_constant(call, sums);
}

bool opf_rule_shift_outputs(const opf_rule_call *call)
{
    const opf_const *w, *t;
    int64_t groups;
    return get_columns(call, &w, &t, &groups) && give_shift(call, w, t, groups);
}

bool opf_rule_shift_axis(const opf_rule_call *call)
{
    static const int32_t swap[] = {1, 0};
    const opf_const *w, *t;
    double axis;
    if (!opf_function_constant(call, 0, &w) || !opf_function_floats(call, 1, &t) ||
        !opf_item_number(call->context->graph, &call->args[2], &axis))
        return false;
    if (!opf_types_have(OPF_TYPES_FLOAT, w->type))
        return OPF_REFUSE(call, DTYPE, "%s is %s, must be a float", opf_rule_arg_name(call, 0), opf_type_name(w->type));
    if (w->rank != 2 || w->count == 0 || (axis != 0 && axis != 1) || t->count != (size_t)w->dims[(int)axis])
        return OPF_REFUSE(call, SHAPE, "%s is no matrix for %zu elements", opf_rule_arg_name(call, 0), t->count);
    if (axis == 0)
        w = opf_const_transpose(call->context->graph->consts, w, swap);
    return w != NULL ? give_shift(call, w, t, 1) : opf_function_out_of_memory(call);
}
