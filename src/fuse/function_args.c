/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/function_args.h"

bool opf_function_out_of_memory(const opf_rule_call *call)
{
    *call->failed = true;
    return opf_refuse(call->context, call->why, OPF_MISS_BUDGET, 0, "out of memory");
}

static const char *value_name(const opf_rule_call *call, uint32_t i)
{
    return call->args[i].kind == OPF_ITEM_VALUE ? opf_graph_value(call->context->graph, call->args[i].value)->name
                                                : "computed";
}

bool opf_function_constant(const opf_rule_call *call, uint32_t i, const opf_const **constant)
{
    const opf_item *item = &call->args[i];
    *constant = opf_item_constant(call->context->graph, item);
    if (*constant != NULL)
        return true;
    if (item->kind == OPF_ITEM_VALUE && opf_graph_value(call->context->graph, item->value)->is_input)
        return OPF_REFUSE(call, CONST, "%s must be a constant, but %s is also a graph input",
                          opf_rule_arg_name(call, i), value_name(call, i));
    return OPF_REFUSE(call, CONST, "%s must be a constant, but %s is computed at run time", opf_rule_arg_name(call, i),
                      value_name(call, i));
}

bool opf_function_info(const opf_rule_call *call, uint32_t i, opf_info *info)
{
    const opf_item *item = &call->args[i];
    if (item->kind == OPF_ITEM_VALUE) {
        *info = opf_graph_value(call->context->graph, item->value)->info;
        return true;
    }
    if (item->kind != OPF_ITEM_CONST)
        return OPF_REFUSE(call, SHAPE, "%s has no shape", opf_rule_arg_name(call, i));
    *info = (opf_info){.type = item->constant->type, .rank = item->constant->rank, .n_values = -1};
    info->dims = OPF_NEW(call->context->scratch, opf_dim, info->rank);
    if (info->dims == NULL)
        return opf_function_out_of_memory(call);
    for (int32_t k = 0; k < info->rank; k++)
        info->dims[k] = opf_dim_number(item->constant->dims[k]);
    return true;
}

const char *opf_function_show(const opf_rule_call *call, const opf_info *info)
{
    const char *text = opf_info_string(info, call->context->graph->dims, call->context->scratch);
    return text != NULL ? text : "?";
}

bool opf_function_ranked(const opf_rule_call *call, uint32_t i, opf_info *info)
{
    return opf_function_info(call, i, info) &&
           (info->rank >= 0 || OPF_REFUSE(call, SHAPE_UNKNOWN, "the rank of %s is not known", value_name(call, i)));
}

bool opf_function_first_axis(const opf_rule_call *call, const opf_info *x, uint32_t i, int32_t *first)
{
    *first = 0;
    if (call->args[i].kind == OPF_ITEM_ABSENT)
        return true;
    const opf_const *axes;
    if (!opf_function_constant(call, i, &axes))
        return false;
    if (!opf_types_have(OPF_TYPES_INT, axes->type) || axes->count > OPF_MAX_RANK)
        return OPF_REFUSE(call, CONST, "%s are no axes", opf_rule_arg_name(call, i));
    if (axes->count == 0) /* reduces all */
        return true;
    bool seen[OPF_MAX_RANK] = {false};
    int32_t n = 0;
    *first = x->rank;
    for (size_t k = 0; k < axes->count; k++) {
        int64_t axis = opf_const_i64_at(axes, k);
        if (axis < -(int64_t)x->rank || axis >= x->rank)
            return OPF_REFUSE(call, CONST, "axis %lld is out of range", (long long)axis);
        int32_t positive = (int32_t)(axis < 0 ? axis + x->rank : axis);
        n += seen[positive] ? 0 : 1;
        seen[positive] = true;
        *first = positive < *first ? positive : *first;
    }
    if (n != x->rank - *first)
        return OPF_REFUSE(call, CONST, "axes start at %d and are %d of %d, must be the last ones", *first, n, x->rank);
    return true;
}
