/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One dimension of a computed value, read by Gather or Slice of its Shape, is read from an input of the graph that has
 * the same one: so nobody holds on to a value that fusion would do without, the scores of an attention above all, and
 * dimensions that are equal are read at one place.
 */
#include "simplify/slices.h"

#include "ops/slice.h"

typedef struct reading {
    opf_graph *graph;
    opf_node_id node, shape;
    opf_value_id value; /* whose dimension it is */
    int32_t axis;
    bool is_list; /* [dimension], else a scalar */
} reading;

static const opf_info *info_of(const opf_graph *graph, opf_value_id value)
{
    return &opf_graph_value(graph, value)->info;
}

/* The one element of the Shape's list of `size` that the node takes. */
static bool find_element(reading *r, int64_t size, int64_t *element)
{
    const opf_node *node = opf_graph_node(r->graph, r->node);
    opf_slice s;
    int64_t count;
    if (node->op == &opf_op_Slice) {
        r->is_list = true;
        if (!opf_slice_read(r->graph, node, &s) || s.n != 1)
            return false;
        opf_slice_range(size, s.bounds[0].start, s.bounds[0].end, s.bounds[0].step, element, &count);
        return count == 1;
    }
    const opf_value_id index = opf_simplify_input(node, 1);
    const opf_const *c = node->op == &opf_op_Gather && index != 0 ? opf_graph_value(r->graph, index)->constant : NULL;
    if (c == NULL || c->count != 1 || c->rank > 1)
        return false;
    r->is_list = c->rank == 1;
    *element = opf_const_i64_at(c, 0);
    *element += *element < 0 ? size : 0;
    return *element >= 0 && *element < size;
}

static bool find(reading *r)
{
    const opf_node *node = opf_graph_node(r->graph, r->node);
    if (!opf_simplify_is_plain(node) || (node->op != &opf_op_Gather && node->op != &opf_op_Slice) ||
        node->n_outputs != 1 || node->outputs[0] == 0)
        return false;
    const opf_node_id producer = opf_graph_value(r->graph, node->inputs[0])->producer;
    const opf_node *shape = opf_graph_node(r->graph, producer);
    int64_t element;
    if (producer == 0 || shape->op != &opf_op_Shape || shape->n_attrs != 0 ||
        info_of(r->graph, shape->inputs[0])->rank < 1 ||
        !find_element(r, info_of(r->graph, shape->inputs[0])->rank, &element))
        return false;
    r->shape = producer;
    r->value = shape->inputs[0];
    r->axis = (int32_t)element;
    return true;
}

/* An input of the graph has the dimension too. One that nobody reads may stand for a default, and its sizes for nothing. */
static bool find_input(reading *r)
{
    const opf_dim wanted = info_of(r->graph, r->value)->dims[r->axis];
    if (opf_graph_value(r->graph, r->value)->is_input || opf_dim_is_number(wanted))
        return false;
    for (uint32_t i = 0; i < r->graph->n_inputs; i++) {
        const opf_value *input = opf_graph_value(r->graph, r->graph->inputs[i]);
        for (int32_t axis = 0; input->constant == NULL && input->n_uses != 0 && axis < input->info.rank; axis++)
            if (opf_dim_equal(input->info.dims[axis], wanted)) {
                r->value = r->graph->inputs[i];
                r->axis = axis;
                return true;
            }
    }
    return false;
}

static bool apply(const reading *r)
{
    opf_graph *graph = r->graph;
    const int64_t axis = r->axis;
    const opf_const *index = opf_const_ints(graph->consts, &axis, 1);
    if (index != NULL && !r->is_list)
        index = opf_const_reshape(graph->consts, index, 0, NULL);
    const opf_value_id at = index != NULL ? opf_graph_add_constant(graph, NULL, index) : 0;
    const opf_value_id dims = at != 0 ? opf_graph_add_value(graph, NULL) : 0;
    const opf_node_id shape =
        dims != 0 ? opf_graph_add_node(graph, &opf_op_Shape, opf_op_Shape.name, NULL, &r->value, 1, &dims, 1) : 0;
    const opf_value_id inputs[] = {dims, at};
    if (shape == 0 || !opf_node_join_origin(graph, shape, r->shape) || !opf_graph_set_own_inputs(graph, r->node, inputs, 2))
        return false;
    opf_node *node = opf_graph_node(graph, r->node);
    node->op = &opf_op_Gather;
    node->op_type = opf_op_Gather.name;
    node->n_attrs = 0;
    return true;
}

opf_status opf_read_shapes_early(opf_graph *graph, bool *changed, opf_error *error)
{
    const uint32_t n = graph->n_nodes;
    for (opf_node_id id = 1; id < n; id++) {
        reading r = {.graph = graph, .node = id};
        if (!opf_node_is_alive(opf_graph_node(graph, id)) || !find(&r) || !find_input(&r))
            continue;
        OPF_OOM_IF(error, !apply(&r));
        *changed = true;
    }
    return OPF_OK;
}
