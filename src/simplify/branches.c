/* SPDX-License-Identifier: Apache-2.0 */
/* An If whose condition is constant becomes the nodes of the branch that it takes. */
#include "simplify/passes.h"

#include <string.h>

typedef struct inlining {
    opf_graph *graph;
    const opf_graph *body;
    opf_value_id *values; /* of the body: what they are in the graph */
} inlining;

/* The branch that is always taken; NULL: it is not known, or not an If. */
static const opf_graph *branch_of(const opf_graph *graph, const opf_node *node)
{
    if (!opf_node_is_alive(node) || node->op != &opf_op_If || opf_simplify_input(node, 0) == 0)
        return NULL;
    const opf_const *condition = opf_graph_value(graph, node->inputs[0])->constant;
    if (condition == NULL || condition->type != OPF_BOOL || condition->count != 1)
        return NULL;
    const opf_attr *attr = opf_node_attr(node, opf_const_i64_at(condition, 0) != 0 ? "then_branch" : "else_branch");
    const bool fits = attr != NULL && attr->i >= 0 && attr->i < (int64_t)node->n_bodies &&
                      node->bodies[attr->i]->n_inputs == node->n_captures &&
                      node->bodies[attr->i]->n_outputs >= node->n_outputs;
    return fits ? node->bodies[attr->i] : NULL;
}

/* The value of the graph that stands for one of the body; 0 for none. *ok false: memory is out. */
static opf_value_id value_of(inlining *in, opf_value_id id, bool *ok)
{
    if (id == 0 || in->values[id] != 0)
        return in->values[id];
    const opf_value *v = opf_graph_value(in->body, id);
    const opf_value_id value = v->constant != NULL ? opf_graph_add_constant(in->graph, v->name, v->constant)
                                                   : opf_graph_add_value(in->graph, v->name);
    if (value != 0 && v->constant == NULL)
        opf_graph_value(in->graph, value)->info = v->info;
    *ok = *ok && value != 0;
    in->values[id] = value;
    return value;
}

static bool copy_node(inlining *in, opf_node_id id)
{
    const opf_node *node = opf_graph_node(in->body, id);
    opf_value_id *ids = OPF_NEW(in->graph->arena, opf_value_id, (size_t)node->n_inputs + node->n_outputs);
    bool ok = ids != NULL;
    for (uint32_t i = 0; ok && i < node->n_inputs; i++)
        ids[i] = value_of(in, node->inputs[i], &ok);
    for (uint32_t o = 0; ok && o < node->n_outputs; o++)
        ids[node->n_inputs + o] = value_of(in, node->outputs[o], &ok);
    const opf_node_id copy = ok ? opf_graph_add_node(in->graph, node->op, node->op_type, node->name, ids,
                                                     node->n_inputs, ids + node->n_inputs, node->n_outputs)
                                : 0;
    if (copy == 0)
        return false;
    /* What the new node has of its own: its name and its edges. */
    opf_node *made = opf_graph_node(in->graph, copy), whole = *node;
    whole.name = made->name;
    whole.inputs = made->inputs;
    whole.outputs = made->outputs;
    *made = whole;
    for (uint32_t b = 0; b < made->n_bodies; b++) {
        made->bodies[b]->parent = in->graph;
        made->bodies[b]->parent_node = copy;
    }
    return true;
}

/* The result of the If is the body's; a node stands between two names of the interface. */
static bool give_result(inlining *in, opf_value_id result, opf_value_id value)
{
    if (value == 0 || opf_graph_replace_uses(in->graph, result, value))
        return value != 0;
    return opf_graph_add_node(in->graph, &opf_op_Identity, opf_op_Identity.name, NULL, &value, 1, &result, 1) != 0;
}

static bool inline_branch(inlining *in, opf_arena *scratch, opf_node_id id)
{
    bool ok = true;
    const opf_node taken = *opf_graph_node(in->graph, id);
    in->values = OPF_NEW(scratch, opf_value_id, in->body->n_values);
    if (in->values == NULL)
        return false;
    for (uint32_t k = 0; k < taken.n_captures; k++)
        in->values[in->body->inputs[k]] = taken.inputs[taken.n_inputs - taken.n_captures + k];
    for (opf_node_id n = 1; n < in->body->n_nodes; n++)
        if (opf_node_is_alive(opf_graph_node(in->body, n)) && !copy_node(in, n))
            return false;
    opf_graph_remove_node(in->graph, id);
    for (uint32_t o = 0; o < taken.n_outputs && ok; o++)
        if (taken.outputs[o] != 0)
            ok = give_result(in, taken.outputs[o], value_of(in, in->body->outputs[o], &ok)) && ok;
    return ok;
}

opf_status opf_inline_branches(opf_graph *graph, bool *changed, opf_error *error)
{
    opf_arena scratch;
    bool ok = true;
    opf_arena_init(&scratch, graph->arena->heap);
    for (opf_node_id id = 1; ok && id < graph->n_nodes; id++) {
        inlining in = {.graph = graph, .body = branch_of(graph, opf_graph_node(graph, id))};
        if (in.body == NULL)
            continue;
        ok = inline_branch(&in, &scratch, id);
        *changed = true;
    }
    opf_arena_fini(&scratch);
    OPF_OOM_IF(error, !ok);
    return OPF_OK;
}
