/* SPDX-License-Identifier: Apache-2.0 */
/* A pool whose window is the whole image, as exporters write with sizes known, is a global pool. */
#include "simplify/passes.h"

#include <string.h>

static bool is_list_of(const opf_node *node, const char *name, int64_t wanted)
{
    const opf_attr *list = opf_node_attr(node, name);
    for (uint32_t i = 0; list != NULL && i < list->n; i++)
        if (list->ints[i] != wanted)
            return false;
    return true;
}

/* One window, which pads nothing. A Pad before it becomes the pool's own padding (fuse/rules). */
static bool is_whole(const opf_graph *graph, const opf_node *node)
{
    const opf_value *x = opf_graph_value(graph, node->inputs[0]);
    const opf_attr *kernel = opf_node_attr(node, "kernel_shape");
    const char *kind = opf_node_string(node, "auto_pad", "NOTSET");
    if (kernel == NULL || x->info.rank < 3 || kernel->n != (uint32_t)x->info.rank - 2 ||
        (strcmp(kind, "NOTSET") != 0 && strcmp(kind, "VALID") != 0) || !is_list_of(node, "pads", 0) ||
        !is_list_of(node, "dilations", 1) || opf_graph_node(graph, x->producer)->op == &opf_op_Pad)
        return false;
    for (uint32_t i = 0; i < kernel->n; i++)
        if (!opf_dim_is(x->info.dims[2 + i], kernel->ints[i]))
            return false;
    return true;
}

opf_status opf_simplify_pools(opf_graph *graph, bool *changed, opf_error *error)
{
    (void)error;
    for (opf_node_id id = 1; id < graph->n_nodes; id++) {
        opf_node *node = opf_graph_node(graph, id);
        if (!opf_simplify_is_plain(node) || node->n_outputs != 1 || node->outputs[0] == 0 ||
            (node->op != &opf_op_AveragePool && node->op != &opf_op_MaxPool) || !is_whole(graph, node) ||
            !opf_types_have(OPF_TYPES_FLOAT, opf_graph_value(graph, node->inputs[0])->info.type))
            continue;
        node->op = node->op == &opf_op_AveragePool ? &opf_op_GlobalAveragePool : &opf_op_GlobalMaxPool;
        node->op_type = node->op->name;
        node->n_attrs = 0;
        *changed = true;
    }
    return OPF_OK;
}
