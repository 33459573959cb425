/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A Slice of a Slice is one Slice, wherever that is exact for every size: always on numbers, and on symbols where no
 * end would be the smaller of two that nothing compares.
 */
#include "simplify/slices.h"

#include "ops/slice.h"

#include <string.h>

/* Ends that mean "to the end" in every exporter: no dimension of a tensor is that long. */
enum { FAR = INT32_MAX };

/* ---- reading and writing ---- */

static const opf_const *list_of(const opf_graph *graph, const opf_node *node, uint32_t input)
{
    const opf_value_id value = opf_simplify_input(node, input);
    const opf_const *c = value != 0 ? opf_graph_value(graph, value)->constant : NULL;
    return c != NULL && c->rank == 1 && opf_types_have(OPF_TYPES_INT, c->type) ? c : NULL;
}

bool opf_slice_read(const opf_graph *graph, const opf_node *node, opf_slice *slice)
{
    const opf_const *starts = list_of(graph, node, 1), *ends = list_of(graph, node, 2);
    const opf_const *axes = list_of(graph, node, 3), *steps = list_of(graph, node, 4);
    const int32_t rank = opf_graph_value(graph, node->inputs[0])->info.rank;
    uint32_t seen = 0;
    if (node->op != &opf_op_Slice || rank < 0 || rank > OPF_MAX_RANK || starts == NULL || ends == NULL ||
        starts->count > (size_t)rank || ends->count != starts->count ||
        (axes == NULL ? opf_simplify_input(node, 3) != 0 : axes->count != starts->count) ||
        (steps == NULL ? opf_simplify_input(node, 4) != 0 : steps->count != starts->count))
        return false;
    slice->n = (uint32_t)starts->count;
    for (uint32_t k = 0; k < slice->n; k++) {
        int64_t axis = axes != NULL ? opf_const_i64_at(axes, k) : k;
        axis += axis < 0 ? rank : 0;
        slice->bounds[k] = (opf_bounds){opf_const_i64_at(starts, k), opf_const_i64_at(ends, k),
                                        steps != NULL ? opf_const_i64_at(steps, k) : 1};
        if (axis < 0 || axis >= rank || (seen >> axis & 1) != 0 || slice->bounds[k].step == 0)
            return false;
        seen |= 1U << axis;
        slice->axes[k] = (int32_t)axis;
    }
    return true;
}

static bool set_list(opf_graph *graph, opf_node_id node, uint32_t input, const int64_t *list, uint32_t n)
{
    const opf_value_id value = opf_graph_add_constant(graph, NULL, opf_const_ints(graph->consts, list, n));
    if (value == 0)
        return false;
    return input < opf_graph_node(graph, node)->n_own_inputs ? opf_graph_set_input(graph, node, input, value)
                                                             : opf_graph_append_input(graph, node, value);
}

bool opf_slice_write(opf_graph *graph, opf_node_id node, const opf_slice *slice)
{
    int64_t lists[4][OPF_MAX_RANK];
    bool steps = opf_simplify_input(opf_graph_node(graph, node), 4) != 0;
    for (uint32_t k = 0; k < slice->n; k++) {
        lists[0][k] = slice->bounds[k].start;
        lists[1][k] = slice->bounds[k].end;
        lists[2][k] = slice->axes[k];
        lists[3][k] = slice->bounds[k].step;
        steps = steps || slice->bounds[k].step != 1;
    }
    for (uint32_t i = 0; i < (steps ? 4U : 3U); i++)
        if (!set_list(graph, node, i + 1, lists[i], slice->n))
            return false;
    return true;
}

/* ---- slices of slices ---- */

/* `count` elements from `first` on, all of them there. */
static opf_bounds counted(int64_t first, int64_t count, int64_t step)
{
    if (count == 0)
        return (opf_bounds){0, 0, 1};
    if (count == 1)
        return (opf_bounds){first, first + 1, 1};
    const int64_t last = first + (count - 1) * step;
    return (opf_bounds){first, step > 0 ? last + 1 : last > 0 ? last - 1 : OPF_SLICE_FIRST, step};
}

/* The elements that `inner` leaves of d elements are a number: what `outer` takes of them. */
static bool compose_counted(opf_dim d, opf_bounds inner, int64_t n, opf_bounds outer, opf_bounds *result)
{
    int64_t first = inner.start, count, skipped;
    if (opf_dim_is_number(d))
        opf_slice_range(d.n, inner.start, inner.end, inner.step, &first, &count);
    else if (first < 0 || first >= FAR || inner.step < 1)
        return false; /* from the end, which is not known */
    opf_slice_range(n, outer.start, outer.end, outer.step, &skipped, &count);
    if (count > 1 && outer.step < 0 && !opf_dim_is_number(d))
        return false;
    /* Products of steps are taken only where elements lie so far apart. */
    *result = counted(count > 0 ? first + skipped * inner.step : 0, count, count > 1 ? inner.step * outer.step : 1);
    return true;
}

/* Steps forward, starts from the front, an end from the front or `back` from the end: true for every size. */
static bool compose_symbolic(opf_bounds inner, opf_bounds outer, opf_bounds *result)
{
    const bool inner_to_last = inner.end >= FAR, outer_to_last = outer.end >= FAR;
    if (inner.step < 1 || outer.step < 1 || inner.step >= FAR || outer.step >= FAR || inner.start < 0 ||
        outer.start < 0 || inner.start >= FAR || outer.start >= FAR || inner.end <= -FAR || outer.end <= -FAR)
        return false;
    result->step = inner.step * outer.step;
    result->start = inner.start + outer.start * inner.step;
    if (outer_to_last) {
        result->end = inner.end;
    } else if (outer.end >= 0 && (inner_to_last || inner.end >= 0)) {
        const int64_t end = inner.start + outer.end * inner.step;
        result->end = inner_to_last || end < inner.end ? end : inner.end;
    } else if (outer.end < 0 && inner.step == 1 && (inner_to_last || inner.end < 0)) {
        result->end = outer.end + (inner_to_last ? 0 : inner.end);
    } else {
        return false;
    }
    return true;
}

static bool compose(opf_dim d, opf_bounds inner, opf_dim n, opf_bounds outer, opf_bounds *result)
{
    return opf_dim_is_number(n) ? compose_counted(d, inner, n.n, outer, result)
                                : compose_symbolic(inner, outer, result);
}

static opf_status merge_slice(opf_graph *graph, opf_node_id id, bool *changed, opf_error *error)
{
    const opf_value_id between = opf_graph_node(graph, id)->inputs[0];
    const opf_node_id inner_id = opf_graph_value(graph, between)->producer;
    const opf_node *inner_node = opf_graph_node(graph, inner_id);
    opf_slice inner, outer;
    if (inner_id == 0 || !opf_simplify_is_plain(inner_node) || opf_graph_single_use(graph, between) == NULL ||
        !opf_slice_read(graph, inner_node, &inner) || !opf_slice_read(graph, opf_graph_node(graph, id), &outer))
        return OPF_OK;
    const opf_value_id x = inner_node->inputs[0];
    for (uint32_t k = 0; k < outer.n; k++) {
        const int32_t axis = outer.axes[k];
        uint32_t i = 0;
        while (i < inner.n && inner.axes[i] != axis)
            i++;
        if (i == inner.n) {
            inner.axes[inner.n] = axis;
            inner.bounds[inner.n++] = outer.bounds[k];
        } else if (!compose(opf_graph_value(graph, x)->info.dims[axis], inner.bounds[i],
                            opf_graph_value(graph, between)->info.dims[axis], outer.bounds[k], &inner.bounds[i])) {
            return OPF_OK;
        }
    }
    OPF_OOM_IF(error, !opf_node_join_origin(graph, id, inner_id) || !opf_graph_set_input(graph, id, 0, x) ||
                          !opf_slice_write(graph, id, &inner));
    *changed = true;
    return OPF_OK;
}

static opf_status merge(opf_graph *graph, opf_node_id id, bool *changed, opf_error *error)
{
    return opf_graph_node(graph, id)->op == &opf_op_Slice ? merge_slice(graph, id, changed, error) : OPF_OK;
}

opf_status opf_merge_slices(opf_graph *graph, bool *changed, opf_error *error)
{
    return opf_simplify_each(graph, merge, changed, error);
}
