/* SPDX-License-Identifier: Apache-2.0 */
#include "simplify/passes.h"

static bool is_read(const opf_graph *graph, const opf_node *node)
{
    for (uint32_t o = 0; o < node->n_outputs; o++)
        if (node->outputs[o] != 0 && opf_graph_value(graph, node->outputs[o])->n_uses > 0)
            return true;
    return false;
}

opf_status opf_remove_dead(opf_graph *graph, bool *changed, opf_error *error)
{
    opf_arena scratch;
    opf_arena_init(&scratch, graph->arena->heap);
    opf_node_id *order = NULL;
    uint32_t n = 0;
    opf_status status = opf_graph_sort(graph, &scratch, &order, &n, error);
    for (uint32_t i = n; status == OPF_OK && i-- > 0;) {
        if (is_read(graph, opf_graph_node(graph, order[i])))
            continue;
        opf_graph_remove_node(graph, order[i]);
        *changed = true;
    }
    opf_arena_fini(&scratch);
    return status;
}
