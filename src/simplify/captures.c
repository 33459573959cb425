/* SPDX-License-Identifier: Apache-2.0 */
/* What bodies capture: constants become their own, and what none of them reads any more is captured no more. */
#include "simplify/passes.h"

#include <string.h>

opf_status opf_push_constants(opf_graph *graph, opf_node_id id, bool *changed, opf_error *error)
{
    const opf_node *node = opf_graph_node(graph, id);
    for (uint32_t b = 0; b < node->n_bodies; b++) {
        opf_graph *body = node->bodies[b];
        for (uint32_t k = 0; k < node->n_captures && node->n_captures <= body->n_inputs; k++) {
            const opf_value *outer = opf_graph_value(graph, node->inputs[node->n_inputs - node->n_captures + k]);
            const opf_value_id inner = body->inputs[body->n_inputs - node->n_captures + k];
            const opf_value *formal = opf_graph_value(body, inner);
            if (outer->constant == NULL || formal->n_uses == 0 || opf_graph_is_output(body, inner))
                continue;
            const opf_value_id constant = opf_graph_add_constant(body, outer->name, outer->constant);
            OPF_OOM_IF(error, constant == 0);
            if (opf_graph_replace_uses(body, inner, constant))
                *changed = true;
        }
    }
    return OPF_OK;
}

/* Where capture k of the node is among the inputs of the body. */
static uint32_t formal_of(const opf_node *node, const opf_graph *body, uint32_t k)
{
    return body->n_inputs - node->n_captures + k;
}

static bool is_read(const opf_node *node, uint32_t k)
{
    for (uint32_t b = 0; b < node->n_bodies; b++)
        if (opf_graph_value(node->bodies[b], node->bodies[b]->inputs[formal_of(node, node->bodies[b], k)])->n_uses != 0)
            return true;
    return false;
}

static bool drop(opf_graph *graph, opf_node_id id, uint32_t k)
{
    const uint32_t n = opf_graph_node(graph, id)->n_inputs;
    for (uint32_t i = n - opf_graph_node(graph, id)->n_captures + k; i < n; i++)
        if (!opf_graph_set_input(graph, id, i, i + 1 < n ? opf_graph_node(graph, id)->inputs[i + 1] : 0))
            return false;
    opf_node *node = opf_graph_node(graph, id);
    for (uint32_t b = 0; b < node->n_bodies; b++) {
        opf_graph *body = node->bodies[b];
        const uint32_t at = formal_of(node, body, k);
        opf_graph_value(body, body->inputs[at])->is_input = false;
        memmove(&body->inputs[at], &body->inputs[at + 1], (body->n_inputs - at - 1) * sizeof *body->inputs);
        body->n_inputs--;
    }
    node->n_inputs--;
    node->n_captures--;
    return true;
}

bool opf_drop_captures(opf_graph *graph, opf_node_id id, bool *changed)
{
    for (uint32_t k = opf_graph_node(graph, id)->n_captures; k-- > 0;) {
        if (is_read(opf_graph_node(graph, id), k))
            continue;
        if (!drop(graph, id, k))
            return false;
        *changed = true;
    }
    return true;
}
