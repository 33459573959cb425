/* SPDX-License-Identifier: Apache-2.0 */
/* What rules ask of values that are cut up to turn pairs of elements: parts of the last axis of one value. */
#include "fuse/function_args.h"

#include "simplify/slices.h"

/* `count` elements of the last axis of base: from, from + step, … */
typedef struct part {
    opf_value_id base;
    int64_t from, count, step;
} part;

static const opf_info *info_of(const opf_graph *graph, opf_value_id value)
{
    return &opf_graph_value(graph, value)->info;
}

static int64_t last_of(const opf_graph *graph, opf_value_id value)
{
    const opf_info *info = info_of(graph, value);
    return info->rank > 0 && opf_dim_is_number(info->dims[info->rank - 1]) ? info->dims[info->rank - 1].n : -1;
}

/* The part of another value that this one is. */
static bool find_part(const opf_graph *graph, opf_value_id value, part *p)
{
    opf_part cut;
    if (last_of(graph, value) < 0 || !opf_find_part(graph, value, info_of(graph, value)->rank - 1, &cut) ||
        last_of(graph, cut.base) < 0 || !opf_dim_is_number(cut.from))
        return false;
    *p = (part){.base = cut.base, .from = cut.from.n, .count = last_of(graph, value), .step = cut.step};
    return true;
}

/* The part of base that the value is, as a part of parts perhaps; the whole is one. */
static bool part_of(const opf_graph *graph, opf_value_id value, opf_value_id base, part *p)
{
    part outer;
    *p = (part){.base = value, .count = last_of(graph, value), .step = 1};
    while (p->base != base) {
        if (!find_part(graph, p->base, &outer))
            return false;
        p->from = outer.from + p->from * outer.step;
        p->step *= outer.step;
        p->base = outer.base;
    }
    return p->count >= 0;
}

/* ---- what parts are put together to ---- */

/* a and b (step 1: one after the other, step 2: one at even and one at odd places), then rest (0: nothing), as they
   lie in base; *count of its first elements. */
static bool lie_in(const opf_graph *graph, opf_value_id base, const opf_value_id parts[3], int64_t step, int64_t *count)
{
    part a, b, rest;
    if (!part_of(graph, parts[0], base, &a) || !part_of(graph, parts[1], base, &b) || a.step != step ||
        b.step != step || a.from != 0 || b.from != (step == 1 ? a.count : 1) || (step != 1 && a.count != b.count))
        return false;
    *count = a.count + b.count;
    if (parts[2] == 0)
        return true;
    if (!part_of(graph, parts[2], base, &rest) || rest.step != 1 || rest.from != *count)
        return false;
    *count += rest.count;
    return true;
}

/* The value before its last axis was split into pairs, when `value` is element `index` of each; 0: there is none. */
static opf_value_id before_split(const opf_graph *graph, opf_value_id value, int64_t index)
{
    const opf_node_id squeeze = opf_graph_value(graph, value)->producer;
    part p;
    if (squeeze == 0 || opf_graph_node(graph, squeeze)->op != &opf_op_Squeeze ||
        !find_part(graph, opf_graph_node(graph, squeeze)->inputs[0], &p) || last_of(graph, p.base) != 2 ||
        p.from != index || p.count != 1)
        return 0;
    const opf_node_id split = opf_graph_value(graph, p.base)->producer;
    if (split == 0 || opf_graph_node(graph, split)->op != &opf_op_Reshape)
        return 0;
    const opf_value_id x = opf_graph_node(graph, split)->inputs[0];
    const opf_info *whole = info_of(graph, x), *pairs = info_of(graph, p.base), *part_info = info_of(graph, value);
    if (whole->rank < 1 || whole->rank + 1 != pairs->rank || whole->rank != part_info->rank)
        return 0;
    for (int32_t i = 0; i < whole->rank; i++)
        if (!opf_dim_equal(part_info->dims[i], pairs->dims[i]) ||
            (i < whole->rank - 1 && !opf_dim_equal(whole->dims[i], pairs->dims[i])))
            return 0;
    return x;
}

/* The value that has these parts and no others; 0: there is none. */
static opf_value_id find_whole(const opf_graph *graph, const opf_value_id parts[3], int64_t step)
{
    const opf_value_id split = step == 2 ? before_split(graph, parts[0], 0) : 0;
    opf_value_id base = parts[0];
    int64_t count;
    part p;
    if (split != 0 && before_split(graph, parts[1], 1) == split && parts[2] == 0)
        return split;
    while (find_part(graph, base, &p)) {
        base = p.base;
        if (lie_in(graph, base, parts, step, &count) && count == last_of(graph, base))
            return base;
    }
    return 0;
}

/* x is what a and b are parts of, or the first elements of that. */
static bool is_whole(const opf_graph *graph, opf_value_id x, opf_value_id a, opf_value_id b, int64_t step)
{
    const opf_value_id parts[3] = {a, b, 0};
    opf_value_id base = x;
    int64_t count;
    part p, whole;
    if (find_whole(graph, parts, step) == x)
        return true;
    while (find_part(graph, base, &p)) {
        base = p.base;
        if (lie_in(graph, base, parts, step, &count) && part_of(graph, x, base, &whole) && whole.step == 1 &&
            whole.from == 0 && whole.count == count)
            return true;
    }
    return false;
}

/* ---- functions ---- */

static opf_value_id value_at(const opf_rule_call *call, uint32_t i)
{
    return i < call->n_args && call->args[i].kind == OPF_ITEM_VALUE ? call->args[i].value : 0;
}

static bool are_parts(const opf_rule_call *call, int64_t step)
{
    const opf_value_id x = value_at(call, 0), a = value_at(call, 1), b = value_at(call, 2);
    return (x != 0 && a != 0 && b != 0 && is_whole(call->context->graph, x, a, b, step)) ||
           OPF_REFUSE(call, OP, "%s and %s are not the parts of %s", opf_rule_arg_name(call, 1),
                      opf_rule_arg_name(call, 2), opf_rule_arg_name(call, 0));
}

static bool give_whole(const opf_rule_call *call, int64_t step)
{
    const opf_value_id parts[3] = {value_at(call, 0), value_at(call, 1), value_at(call, 2)};
    const opf_value_id whole = parts[0] != 0 && parts[1] != 0 ? find_whole(call->context->graph, parts, step) : 0;
    *call->result = (opf_item){.kind = OPF_ITEM_VALUE, .value = whole};
    return whole != 0 || OPF_REFUSE(call, OP, "%s and %s are not all parts of one value", opf_rule_arg_name(call, 0),
                                    opf_rule_arg_name(call, 1));
}

bool opf_rule_are_parts(const opf_rule_call *call)
{
    return are_parts(call, 1);
}

bool opf_rule_are_neighbours(const opf_rule_call *call)
{
    return are_parts(call, 2);
}

bool opf_rule_joined(const opf_rule_call *call)
{
    return give_whole(call, 1);
}

bool opf_rule_interleaved(const opf_rule_call *call)
{
    return give_whole(call, 2);
}

bool opf_rule_is_paired(const opf_rule_call *call)
{
    opf_info r;
    int32_t first;
    if (!opf_function_ranked(call, 0, &r) || !opf_function_first_axis(call, &r, 1, &first))
        return false;
    if (first != r.rank - 1)
        return OPF_REFUSE(call, CONST, "%s is put together along axis %d, must be the last", opf_rule_arg_name(call, 0),
                          first);
    return opf_dim_is(r.dims[first], 2) || OPF_REFUSE(call, SHAPE, "%s is %s: its last axis must have two elements",
                                                      opf_rule_arg_name(call, 0), opf_function_show(call, &r));
}

bool opf_rule_are_angles(const opf_rule_call *call)
{
    opf_info x, table;
    const uint32_t last = call->n_args - 1;
    if (!opf_function_ranked(call, last, &x))
        return false;
    const int64_t pairs = x.rank > 0 && opf_dim_is_number(x.dims[x.rank - 1]) ? x.dims[x.rank - 1].n : 0;
    if (pairs < 1)
        return OPF_REFUSE(call, SHAPE_UNKNOWN, "the number of pairs in %s is not known", opf_rule_arg_name(call, last));
    for (uint32_t i = 0; i < last; i++) {
        if (!opf_function_ranked(call, i, &table))
            return false;
        const opf_dim width = table.rank > 0 ? table.dims[table.rank - 1] : opf_dim_number(0);
        if (!opf_dim_is(width, pairs) && !opf_dim_is(width, 2 * pairs))
            return OPF_REFUSE(call, SHAPE, "%s is %s: not a number for each of %lld pairs, or elements",
                              opf_rule_arg_name(call, i), opf_function_show(call, &table), (long long)pairs);
    }
    return true;
}

bool opf_rule_size_of(const opf_rule_call *call)
{
    opf_info x;
    if (!opf_function_ranked(call, 0, &x))
        return false;
    if (x.rank < 1 || !opf_dim_is_number(x.dims[x.rank - 1]))
        return OPF_REFUSE(call, SHAPE_UNKNOWN, "the last dimension of %s is not known", opf_rule_arg_name(call, 0));
    return opf_function_give_number(call, (double)x.dims[x.rank - 1].n);
}
