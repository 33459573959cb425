/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A Gather of one index, or of neighbours, that are constants within range is a Slice: strides, not a list of indices. So
 * the parts of packed queries, keys and values are views. Shape arithmetic stays as it is.
 */
#include "simplify/passes.h"

#include <string.h>

typedef struct selection {
    opf_value_id data;
    int32_t axis;
    int64_t first, count;
    bool drops_axis; /* the index is a scalar */
} selection;

static bool find(const opf_graph *graph, const opf_node *node, selection *s)
{
    const opf_value_id index = opf_simplify_input(node, 1);
    s->data = opf_simplify_input(node, 0);
    if (node->op != &opf_op_Gather || s->data == 0 || index == 0 || node->n_outputs != 1 || node->outputs[0] == 0)
        return false;
    const opf_value *data = opf_graph_value(graph, s->data);
    const opf_const *c = opf_graph_value(graph, index)->constant;
    const int64_t axis = opf_node_int(node, "axis", 0);
    if (c == NULL || c->rank > 1 || c->count == 0 || data->constant != NULL || data->info.rank < 1 ||
        opf_graph_value(graph, node->outputs[0])->info.n_values >= 0 || axis < -(int64_t)data->info.rank ||
        axis >= data->info.rank)
        return false;
    s->axis = (int32_t)(axis < 0 ? axis + data->info.rank : axis);
    const opf_dim size = data->info.dims[s->axis];
    s->first = opf_const_i64_at(c, 0);
    s->count = (int64_t)c->count;
    s->drops_axis = c->rank == 0;
    if (!opf_dim_is_number(size))
        return false;
    if (s->first < 0 && s->first >= -size.n)
        s->first += size.n;
    if (s->first < 0 || s->count > size.n || s->first > size.n - s->count)
        return false;
    for (int64_t i = 1; i < s->count; i++) {
        const int64_t x = opf_const_i64_at(c, (size_t)i);
        if (x != s->first + i && x != s->first + i - size.n)
            return false;
    }
    return true;
}

static opf_value_id add_ints(opf_graph *graph, int64_t x)
{
    const opf_const *c = opf_const_ints(graph->consts, &x, 1);
    return c != NULL ? opf_graph_add_constant(graph, NULL, c) : 0;
}

/* The Slice gives a value of its own; a Squeeze takes its axis away. */
static bool drop_axis(opf_graph *graph, opf_node_id slice, const selection *s)
{
    const opf_value_id result = opf_graph_node(graph, slice)->outputs[0], between = opf_graph_add_value(graph, NULL);
    const opf_value_id inputs[] = {between, add_ints(graph, s->axis)};
    opf_info info = opf_graph_value(graph, s->data)->info;
    opf_dim *dims = OPF_NEW(graph->arena, opf_dim, info.rank);
    if (inputs[0] == 0 || inputs[1] == 0 || dims == NULL)
        return false;
    memcpy(dims, info.dims, (size_t)info.rank * sizeof *dims);
    dims[s->axis] = opf_dim_number(1);
    info.dims = dims;
    info.n_values = -1;
    opf_graph_value(graph, between)->info = info;
    if (!opf_graph_set_output(graph, slice, 0, between))
        return false;
    const opf_node_id squeeze =
        opf_graph_add_node(graph, &opf_op_Squeeze, opf_op_Squeeze.name, NULL, inputs, 2, &result, 1);
    return squeeze != 0 && opf_node_join_origin(graph, squeeze, slice);
}

static bool apply(opf_graph *graph, opf_node_id id, const selection *s)
{
    const opf_value_id starts = add_ints(graph, s->first), ends = add_ints(graph, s->first + s->count),
                       axes = add_ints(graph, s->axis);
    if (starts == 0 || ends == 0 || axes == 0)
        return false;
    opf_node *node = opf_graph_node(graph, id);
    node->op = &opf_op_Slice;
    node->op_type = opf_op_Slice.name;
    node->n_attrs = 0;
    return opf_graph_set_input(graph, id, 1, starts) && opf_graph_append_input(graph, id, ends) &&
           opf_graph_append_input(graph, id, axes) && (!s->drops_axis || drop_axis(graph, id, s));
}

opf_status opf_slice_gathers(opf_graph *graph, bool *changed, opf_error *error)
{
    const opf_node_id n = graph->n_nodes;
    for (opf_node_id id = 1; id < n; id++) {
        selection s;
        if (!opf_simplify_is_plain(opf_graph_node(graph, id)) || !find(graph, opf_graph_node(graph, id), &s))
            continue;
        OPF_OOM_IF(error, !apply(graph, id, &s));
        *changed = true;
    }
    return OPF_OK;
}
