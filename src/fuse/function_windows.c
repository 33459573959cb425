/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of rules on windows: a Pad that becomes padding of the convolution or pool behind it. */
#include "fuse/function_args.h"

#include <math.h>

/* ---- conditions ---- */

/* An attribute: a list of this number only, or absent. */
static bool is_list_of(const opf_rule_call *call, int64_t wanted)
{
    const opf_item *item = &call->args[0];
    if (item->kind == OPF_ITEM_ABSENT)
        return true;
    if (item->kind != OPF_ITEM_ATTR || item->attr.type != OPF_ATTR_INTS)
        return OPF_REFUSE(call, ATTR, "%s is no list", opf_rule_arg_name(call, 0));
    for (uint32_t i = 0; i < item->attr.n; i++)
        if (item->attr.ints[i] != wanted)
            return OPF_REFUSE(call, ATTR, "%s has %lld, must be %lld", opf_rule_arg_name(call, 0),
                              (long long)item->attr.ints[i], (long long)wanted);
    return true;
}

bool opf_rule_is_unpadded(const opf_rule_call *call)
{
    return is_list_of(call, 0);
}

bool opf_rule_is_undilated(const opf_rule_call *call)
{
    return is_list_of(call, 1);
}

bool opf_rule_is_missing(const opf_rule_call *call)
{
    return call->args[0].kind == OPF_ITEM_ABSENT || OPF_REFUSE(call, ATTR, "%s is set", opf_rule_arg_name(call, 0));
}

/* What the operator that makes x never goes below. */
static double lower_bound(const opf_graph *graph, opf_value_id x)
{
    const opf_node *node = opf_graph_node(graph, opf_graph_value(graph, x)->producer);
    double lo;
    if (node->op == &opf_op_Relu || node->op == &opf_op_Sigmoid || node->op == &opf_op_HardSigmoid ||
        node->op == &opf_op_Softmax || node->op == &opf_op_Abs || node->op == &opf_op_Softplus)
        return 0;
    /* Crossed bounds give the upper one. */
    if (node->op == &opf_op_Clip && node->n_own_inputs > 1 && opf_graph_scalar(graph, node->inputs[1], &lo)) {
        double hi = HUGE_VAL;
        if (node->n_own_inputs > 2 && node->inputs[2] != 0 && !opf_graph_scalar(graph, node->inputs[2], &hi))
            return -HUGE_VAL;
        return lo < hi ? lo : hi;
    }
    return -HUGE_VAL;
}

/* A border of finite numbers is seen where there is no image, and minus infinity stands for it then. */
static bool has_pixels(const opf_rule_call *call)
{
    opf_info x;
    if (!opf_function_ranked(call, 1, &x))
        return false;
    for (int32_t i = 2; i < x.rank; i++)
        if (!opf_fuse_suppose_positive(call->context, x.dims[i]))
            return OPF_REFUSE(call, SHAPE_UNKNOWN, "%s may have no pixels", opf_function_show(call, &x));
    return true;
}

bool opf_rule_is_never_above(const opf_rule_call *call)
{
    double v = 0;
    if (call->args[0].kind != OPF_ITEM_ABSENT && !opf_item_number(call->context->graph, &call->args[0], &v))
        return OPF_REFUSE(call, CONST, "%s is no number", opf_rule_arg_name(call, 0));
    if (call->args[1].kind == OPF_ITEM_VALUE && v <= lower_bound(call->context->graph, call->args[1].value))
        return v == -HUGE_VAL || has_pixels(call);
    return OPF_REFUSE(call, CONST, "%s is %g, which can be the largest in a window", opf_rule_arg_name(call, 0), v);
}

/* ---- pads ---- */

static bool axis_of(const opf_rule_call *call, const opf_const *axes, size_t i, int32_t rank, int32_t *axis)
{
    const int64_t a = axes != NULL ? opf_const_i64_at(axes, i) : (int64_t)i;
    if (a < -(int64_t)rank || a >= rank)
        return OPF_REFUSE(call, CONST, "axis %lld is out of range", (long long)a);
    *axis = (int32_t)(a < 0 ? a + rank : a);
    return true;
}

/* Adds what Pad adds to sums: spatial begins, then ends. */
static bool add_pads(const opf_rule_call *call, int32_t rank, int64_t *sums)
{
    const opf_const *pads, *axes = NULL;
    if (!opf_function_constant(call, 2, &pads) ||
        (call->args[3].kind != OPF_ITEM_ABSENT && !opf_function_constant(call, 3, &axes)))
        return false;
    const size_t n = axes != NULL ? axes->count : (size_t)rank;
    if (!opf_types_have(OPF_TYPES_INT, pads->type) || pads->count != 2 * n || n > OPF_MAX_RANK ||
        (axes != NULL && !opf_types_have(OPF_TYPES_INT, axes->type)))
        return OPF_REFUSE(call, CONST, "%s are no pads", opf_rule_arg_name(call, 2));
    for (size_t i = 0; i < 2 * n; i++) {
        int32_t axis;
        const int64_t pad = opf_const_i64_at(pads, i);
        if (!axis_of(call, axes, i % n, rank, &axis))
            return false;
        if (pad < 0)
            return OPF_REFUSE(call, CONST, "pad of axis %d is %lld: it crops", axis, (long long)pad);
        if (axis < 2 && pad != 0)
            return OPF_REFUSE(call, CONST, "pads axis %d, which is not spatial", axis);
        if (axis >= 2 && __builtin_add_overflow(sums[(i < n ? 0 : rank - 2) + axis - 2], pad,
                                                &sums[(i < n ? 0 : rank - 2) + axis - 2]))
            return OPF_REFUSE(call, CONST, "pad of axis %d is too large", axis);
    }
    return true;
}

/* Every window sees some of the image only where no pad is as large as the kernel. */
static bool fit_kernel(const opf_rule_call *call, uint32_t spatial, const int64_t *sums)
{
    if (call->n_args < 5)
        return true;
    const opf_item *kernel = &call->args[4];
    if (kernel->kind != OPF_ITEM_ATTR || kernel->attr.type != OPF_ATTR_INTS || kernel->attr.n != spatial)
        return OPF_REFUSE(call, ATTR, "the kernel has another rank");
    for (uint32_t i = 0; i < 2 * spatial; i++)
        if (sums[i] >= kernel->attr.ints[i % spatial])
            return OPF_REFUSE(call, ATTR, "a pad would be %lld, must be below the kernel's %lld", (long long)sums[i],
                              (long long)kernel->attr.ints[i % spatial]);
    return true;
}

/* A list of n attributes of the operator; absent: each is `fill`. */
static bool take_list(const opf_rule_call *call, uint32_t arg, uint32_t n, int64_t fill, const char *what,
                      int64_t *list)
{
    const opf_item *item = &call->args[arg];
    const bool given = item->kind == OPF_ITEM_ATTR && item->attr.type == OPF_ATTR_INTS && item->attr.n == n;
    for (uint32_t i = 0; i < n; i++)
        list[i] = given ? item->attr.ints[i] : fill;
    return given || item->kind == OPF_ITEM_ABSENT || (item->kind == OPF_ITEM_ATTR && item->attr.n == 0) ||
           OPF_REFUSE(call, ATTR, "the %s have another rank", what);
}

static bool get_spatial(const opf_rule_call *call, opf_info *x, uint32_t *spatial)
{
    if (!opf_function_ranked(call, 1, x))
        return false;
    if (x->rank < 3 || x->rank > OPF_MAX_RANK)
        return OPF_REFUSE(call, RANK, "%s has no spatial axes", opf_function_show(call, x));
    *spatial = (uint32_t)x->rank - 2;
    return true;
}

bool opf_rule_join_pads(const opf_rule_call *call)
{
    opf_info x;
    uint32_t spatial;
    int64_t sums[2 * OPF_MAX_RANK];
    return get_spatial(call, &x, &spatial) && take_list(call, 0, 2 * spatial, 0, "pads", sums) &&
           add_pads(call, x.rank, sums) && fit_kernel(call, spatial, sums) &&
           opf_function_give_ints(call, sums, 2 * spatial);
}

/* A zero before the image moves its result by a stride. */
bool opf_rule_crop_less(const opf_rule_call *call)
{
    opf_info x;
    uint32_t spatial;
    int64_t crops[2 * OPF_MAX_RANK], strides[OPF_MAX_RANK], border[2 * OPF_MAX_RANK] = {0};
    if (!get_spatial(call, &x, &spatial) || !take_list(call, 0, 2 * spatial, 0, "pads", crops) ||
        !take_list(call, 4, spatial, 1, "strides", strides) || !add_pads(call, x.rank, border))
        return false;
    for (uint32_t i = 0; i < 2 * spatial; i++) {
        int64_t moved;
        if (__builtin_mul_overflow(border[i], strides[i % spatial], &moved) || moved > crops[i])
            return OPF_REFUSE(call, ATTR, "axis %u of the result grows by %lld, of which it crops %lld only",
                              i % spatial + 2, (long long)border[i] * strides[i % spatial], (long long)crops[i]);
        crops[i] -= moved;
    }
    return opf_function_give_ints(call, crops, 2 * spatial);
}
