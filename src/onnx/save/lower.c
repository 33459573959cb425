/* SPDX-License-Identifier: Apache-2.0 */
#include "onnx/save/lower.h"

#include "onnx/save/spell.h"

#include <string.h>

static bool is_known_attr(const opf_op *op, const char *name)
{
    for (uint32_t i = 0; i < op->n_attrs; i++)
        if (strcmp(op->attrs[i].name, name) == 0)
            return true;
    return false;
}

/* What no opset says: an attribute of fusion's own that has no spelling. */
static opf_status check_attrs(const opf_node *node, opf_error *error)
{
    for (uint32_t i = 0; i < node->n_attrs; i++)
        OPF_FAIL_IF(error, node->attrs[i].type != OPF_ATTR_GRAPH && !is_known_attr(node->op, node->attrs[i].name),
                    OPF_UNSUPPORTED, "%s (%s): no opset has its attribute %s", node->name, node->op_type,
                    node->attrs[i].name);
    return OPF_OK;
}

static opf_status lower_node(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    const opf_node *node = opf_graph_node(graph, id);
    const opf_op *op = node->op;
    bool is_spelled;
    if (node->domain[0] != '\0')
        return OPF_OK;
    OPF_FAIL_IF(error, op == NULL, OPF_INTERNAL, "%s (%s): not an operator of ONNX", node->name, node->op_type);
    OPF_TRY(opf_save_spell(graph, id, opset, &is_spelled, error));
    if (is_spelled)
        return OPF_OK;
    node = opf_graph_node(graph, id);
    OPF_FAIL_IF(error, opset < op->since, OPF_UNSUPPORTED, "%s (%s): the operator came with opset %d", node->name,
                node->op_type, (int)op->since);
    OPF_TRY(check_attrs(node, error));
    for (uint32_t r = op->n_rows; r-- > 0;)
        if (opset < op->rows[r].below && opf_node_is_alive(opf_graph_node(graph, id)))
            OPF_TRY(op->rows[r].lower(graph, id, opset, error));
    return OPF_OK;
}

opf_status opf_save_lower(opf_graph *graph, int32_t opset, opf_error *error)
{
    /* Nodes that come in on the way are of the newest form too. */
    for (opf_node_id id = 1; id < graph->n_nodes; id++) {
        if (!opf_node_is_alive(opf_graph_node(graph, id)))
            continue;
        for (uint32_t b = 0; b < opf_graph_node(graph, id)->n_bodies; b++)
            OPF_TRY(opf_save_lower(opf_graph_node(graph, id)->bodies[b], opset, error));
        OPF_TRY(lower_node(graph, id, opset, error));
    }
    return OPF_OK;
}
