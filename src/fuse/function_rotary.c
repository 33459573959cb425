/* SPDX-License-Identifier: Apache-2.0 */
/* What rules ask of values that are cut up to turn pairs of elements: parts of the last axis of one value. */
#include "fuse/function_args.h"

#include "ops/slice.h"
#include "simplify/slices.h"

/* `count` elements of the last axis of base: from, from + step, … */
typedef struct part {
    opf_value_id base;
    int64_t size; /* of that axis */
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

static bool is_split_part(const opf_graph *graph, const opf_node *node, uint32_t output, part *p)
{
    const int64_t axis = opf_node_int(node, "axis", 0);
    if (node->op != &opf_op_Split || (axis != -1 && axis != info_of(graph, p->base)->rank - 1))
        return false;
    for (uint32_t o = 0; o <= output; o++) {
        p->from += p->count;
        p->count = node->outputs[o] != 0 ? last_of(graph, node->outputs[o]) : -1;
        if (p->count < 0)
            return false;
    }
    return true;
}

static bool is_slice_part(const opf_graph *graph, const opf_node *node, part *p)
{
    opf_slice s;
    if (node->op != &opf_op_Slice || !opf_slice_read(graph, node, &s) || s.n != 1 ||
        s.axes[0] != info_of(graph, p->base)->rank - 1 || s.bounds[0].step < 1)
        return false;
    opf_slice_range(p->size, s.bounds[0].start, s.bounds[0].end, s.bounds[0].step, &p->from, &p->count);
    p->step = s.bounds[0].step;
    return true;
}

static bool find_part(const opf_graph *graph, opf_value_id value, part *p)
{
    const opf_value *v = opf_graph_value(graph, value);
    const opf_node *node = opf_graph_node(graph, v->producer);
    if (v->producer == 0 || node->n_own_inputs == 0 || node->inputs[0] == 0)
        return false;
    *p = (part){.base = node->inputs[0], .size = last_of(graph, node->inputs[0]), .step = 1};
    return p->size >= 0 && (is_split_part(graph, node, v->producer_output, p) || is_slice_part(graph, node, p));
}

/* ---- halves ---- */

/* What a and then b are all of; 0: nothing. */
static opf_value_id joined(const opf_graph *graph, opf_value_id a, opf_value_id b)
{
    part p, q;
    const bool fits = find_part(graph, a, &p) && find_part(graph, b, &q) && p.base == q.base && p.step == 1 &&
                      q.step == 1 && p.from == 0 && q.from == p.count && q.from + q.count == p.size;
    return fits ? p.base : 0;
}

/* ---- neighbours ---- */

/* The value before its last axis was split into pairs, when `value` is element `index` of each. */
static opf_value_id split_base(const opf_graph *graph, opf_value_id value, int64_t index)
{
    const opf_node_id squeeze = opf_graph_value(graph, value)->producer;
    part p;
    if (squeeze == 0 || opf_graph_node(graph, squeeze)->op != &opf_op_Squeeze)
        return 0;
    const opf_value_id single = opf_graph_node(graph, squeeze)->inputs[0];
    if (!find_part(graph, single, &p) || p.size != 2 || p.from != index || p.count != 1 ||
        info_of(graph, value)->rank + 1 != info_of(graph, single)->rank)
        return 0;
    const opf_node_id split = opf_graph_value(graph, p.base)->producer;
    if (split == 0 || opf_graph_node(graph, split)->op != &opf_op_Reshape)
        return 0;
    const opf_value_id x = opf_graph_node(graph, split)->inputs[0];
    const opf_info *whole = info_of(graph, x), *pairs = info_of(graph, p.base), *part_info = info_of(graph, value);
    if (whole->rank < 1 || whole->rank + 1 != pairs->rank ||
        !opf_dim_equal(part_info->dims[part_info->rank - 1], pairs->dims[whole->rank - 1]))
        return 0;
    for (int32_t i = 0; i < whole->rank - 1; i++)
        if (!opf_dim_equal(whole->dims[i], pairs->dims[i]) || !opf_dim_equal(whole->dims[i], part_info->dims[i]))
            return 0;
    return x;
}

/* What has a at its even places and b at its odd ones; 0: nothing. */
static opf_value_id interleaved(const opf_graph *graph, opf_value_id a, opf_value_id b)
{
    part p, q;
    const opf_value_id base = split_base(graph, a, 0);
    if (base != 0)
        return split_base(graph, b, 1) == base ? base : 0;
    const bool fits = find_part(graph, a, &p) && find_part(graph, b, &q) && p.base == q.base && p.step == 2 &&
                      q.step == 2 && p.from == 0 && q.from == 1 && p.count == q.count && 2 * p.count == p.size;
    return fits ? p.base : 0;
}

/* ---- functions ---- */

typedef opf_value_id (*joiner)(const opf_graph *graph, opf_value_id a, opf_value_id b);

/* Of arguments i and i + 1. */
static bool join(const opf_rule_call *call, joiner how, uint32_t i, opf_value_id *value)
{
    const bool are_values = call->args[i].kind == OPF_ITEM_VALUE && call->args[i + 1].kind == OPF_ITEM_VALUE;
    *value = are_values ? how(call->context->graph, call->args[i].value, call->args[i + 1].value) : 0;
    return *value != 0 || OPF_REFUSE(call, OP, "%s and %s are not the two parts of one value",
                                     opf_rule_arg_name(call, i), opf_rule_arg_name(call, i + 1));
}

static bool are_parts(const opf_rule_call *call, joiner how)
{
    opf_value_id whole;
    return join(call, how, 1, &whole) && ((call->args[0].kind == OPF_ITEM_VALUE && call->args[0].value == whole) ||
                                          OPF_REFUSE(call, OP, "%s is not what %s and %s are parts of",
                                                     opf_rule_arg_name(call, 0), opf_rule_arg_name(call, 1),
                                                     opf_rule_arg_name(call, 2)));
}

static bool give_joined(const opf_rule_call *call, joiner how)
{
    opf_value_id whole;
    if (!join(call, how, 0, &whole))
        return false;
    *call->result = (opf_item){.kind = OPF_ITEM_VALUE, .value = whole};
    return true;
}

bool opf_rule_are_parts(const opf_rule_call *call)
{
    return are_parts(call, joined);
}

bool opf_rule_are_neighbours(const opf_rule_call *call)
{
    return are_parts(call, interleaved);
}

bool opf_rule_joined(const opf_rule_call *call)
{
    return give_joined(call, joined);
}

bool opf_rule_interleaved(const opf_rule_call *call)
{
    return give_joined(call, interleaved);
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
    return opf_dim_is(r.dims[first], 2) ||
           OPF_REFUSE(call, SHAPE, "%s is %s: its last axis must have two elements", opf_rule_arg_name(call, 0),
                      opf_function_show(call, &r));
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
