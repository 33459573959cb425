/* SPDX-License-Identifier: Apache-2.0 */
/* A value that is cut out of another one, by a Split or a Slice. */
#include "simplify/slices.h"

#include "ops/slice.h"

static const opf_info *info_of(const opf_graph *graph, opf_value_id value)
{
    return &opf_graph_value(graph, value)->info;
}

int32_t opf_joined_axis(const opf_graph *graph, const opf_node *node)
{
    const int32_t rank = info_of(graph, node->outputs[0] != 0 ? node->outputs[0] : node->inputs[0])->rank;
    const int64_t axis = opf_node_int(node, "axis", 0);
    return rank < 0 || axis < -(int64_t)rank || axis >= rank ? -1 : (int32_t)(axis < 0 ? axis + rank : axis);
}

static bool split_part(const opf_graph *graph, const opf_node *node, uint32_t output, int32_t axis, opf_part *p)
{
    if (opf_joined_axis(graph, node) != axis)
        return false;
    for (uint32_t o = 0; o <= output; o++) {
        if (node->outputs[o] == 0 || info_of(graph, node->outputs[o])->rank <= axis)
            return false;
        p->from = p->to;
        p->to = opf_dim_add(graph->dims, p->to, info_of(graph, node->outputs[o])->dims[axis]);
    }
    return true;
}

/* A bound counted from the front; on symbols not clamped. */
static opf_dim front(const opf_graph *graph, opf_dim d, int64_t bound)
{
    return bound >= INT32_MAX ? d
           : bound < 0        ? opf_dim_add(graph->dims, d, opf_dim_number(bound))
                              : opf_dim_number(bound);
}

static bool slice_part(const opf_graph *graph, const opf_node *node, int32_t axis, opf_part *p)
{
    opf_slice s;
    if (!opf_slice_read(graph, node, &s) || s.n != 1 || s.axes[0] != axis || s.bounds[0].step < 1)
        return false;
    const opf_dim d = info_of(graph, p->base)->dims[axis];
    const opf_bounds b = s.bounds[0];
    p->step = b.step;
    if (opf_dim_is_number(d)) {
        int64_t count;
        opf_slice_range(d.n, b.start, b.end, b.step, &p->from.n, &count);
        p->to.n = count == 0 ? p->from.n : p->from.n + (count - 1) * b.step + 1;
        return b.step == 1 || b.step <= d.n; /* a longer one takes one element, and parts of parts multiply steps */
    }
    if (b.step != 1 || b.start <= -INT32_MAX || b.start >= INT32_MAX || b.end <= -INT32_MAX)
        return false;
    p->from = front(graph, d, b.start);
    p->to = front(graph, d, b.end);
    /* What begins behind the end is empty, and nothing follows it. */
    return (opf_dim_is_number(p->from) && opf_dim_equal(p->to, d)) ||
           opf_dim_at_least(graph->dims, opf_dim_sub(graph->dims, p->to, p->from), 0);
}

bool opf_find_part(const opf_graph *graph, opf_value_id value, int32_t axis, opf_part *part)
{
    const opf_value *v = opf_graph_value(graph, value);
    const opf_node *node = opf_graph_node(graph, v->producer);
    const opf_value_id base = v->producer != 0 && opf_simplify_is_plain(node) ? opf_simplify_input(node, 0) : 0;
    if (base == 0 || info_of(graph, base)->rank <= axis)
        return false;
    *part = (opf_part){.base = base, .step = 1};
    return node->op == &opf_op_Split   ? split_part(graph, node, v->producer_output, axis, part)
           : node->op == &opf_op_Slice ? slice_part(graph, node, axis, part)
                                       : false;
}
