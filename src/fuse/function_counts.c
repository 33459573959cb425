/* SPDX-License-Identifier: Apache-2.0 */
/* Conditions of rules on the number of elements that a reduction takes together. */
#include "fuse/function_args.h"

#include <math.h>

/* The product of the dimensions that the axes (argument 2; absent or empty: all) name. */
static bool count_elements(const opf_rule_call *call, double *count)
{
    const opf_const *axes = NULL;
    opf_info x;
    bool reduced[OPF_MAX_RANK] = {false}, all = call->args[2].kind == OPF_ITEM_ABSENT;
    if (!opf_function_ranked(call, 1, &x) || (!all && !opf_function_constant(call, 2, &axes)))
        return false;
    if (!all && !opf_types_have(OPF_TYPES_INT, axes->type))
        return OPF_REFUSE(call, CONST, "%s are no axes", opf_rule_arg_name(call, 2));
    for (size_t i = 0; !all && i < axes->count; i++) {
        const int64_t axis = opf_const_i64_at(axes, i) + (opf_const_i64_at(axes, i) < 0 ? x.rank : 0);
        if (axis < 0 || axis >= x.rank)
            return OPF_REFUSE(call, CONST, "axis %lld is out of range", (long long)opf_const_i64_at(axes, i));
        reduced[axis] = true;
    }
    all = all || axes->count == 0;
    *count = 1;
    for (int32_t i = 0; i < x.rank; i++) {
        if (!all && !reduced[i])
            continue;
        if (!opf_dim_is_number(x.dims[i]))
            return OPF_REFUSE(call, SHAPE_UNKNOWN, "dimension %d of %s is not known, so neither is their number", i,
                              opf_function_show(call, &x));
        *count *= (double)x.dims[i].n;
    }
    return true;
}

/* Argument 0 is the number (its inverse), rounded to the type that it has. */
static bool is_count(const opf_rule_call *call, bool inverse)
{
    const opf_const *c;
    double count;
    unsigned char element[16] = {0};
    if (call->args[0].kind == OPF_ITEM_ABSENT)
        return true;
    if (!opf_function_constant(call, 0, &c) || !count_elements(call, &count))
        return false;
    if (c->count != 1 || !opf_types_have(OPF_TYPES_FLOAT, c->type))
        return OPF_REFUSE(call, SHAPE, "%s has %zu elements, must have one", opf_rule_arg_name(call, 0), c->count);
    opf_store_f64(c->type, element, 0, inverse ? 1 / count : count);
    const double wanted = opf_load_f64(c->type, element, 0);
    return opf_const_f64_at(c, 0) == wanted || OPF_REFUSE(call, CONST, "%s is %.9g, must be %.9g",
                                                          opf_rule_arg_name(call, 0), opf_const_f64_at(c, 0), wanted);
}

bool opf_rule_counts(const opf_rule_call *call)
{
    return is_count(call, false);
}

bool opf_rule_counts_inverse(const opf_rule_call *call)
{
    return is_count(call, true);
}
