/* SPDX-License-Identifier: Apache-2.0 */
#include "simplify/passes.h"

/* Nodes before it in the order may have changed it, or removed it. */
static bool is_visited(const opf_node *node)
{
    return opf_simplify_is_plain(node) && opf_simplify_input(node, 0) != 0 && node->n_outputs != 0;
}

opf_status opf_simplify_each(opf_graph *graph, opf_simplify_visit *visit, bool *changed, opf_error *error)
{
    opf_arena scratch;
    opf_arena_init(&scratch, graph->arena->heap);
    opf_node_id *order = NULL;
    uint32_t n = 0;
    opf_status status = opf_graph_sort(graph, &scratch, &order, &n, error);
    for (uint32_t i = 0; status == OPF_OK && i < n; i++)
        if (is_visited(opf_graph_node(graph, order[i])))
            status = visit(graph, order[i], changed, error);
    opf_arena_fini(&scratch);
    return status;
}
