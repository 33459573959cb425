/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/lift.h"

#include "ops/infer.h"

opf_status opf_lift_add_node(opf_graph *graph, opf_node_id like, const opf_op *op, const opf_value_id *inputs,
                             uint32_t n_inputs, opf_node_id *node, opf_value_id *out, opf_error *error)
{
    const char *name = opf_arena_printf(graph->arena, "%s/%s", opf_graph_node(graph, like)->name, op->name);
    OPF_OOM_IF(error, name == NULL);
    *out = opf_graph_add_value(graph, name);
    OPF_OOM_IF(error, *out == 0);
    *node = opf_graph_add_node(graph, op, op->name, name, inputs, n_inputs, out, 1);
    OPF_OOM_IF(error, *node == 0 || !opf_node_join_origin(graph, *node, like));
    return OPF_OK;
}

opf_status opf_lift_wrap(opf_graph *graph, opf_node_id id, opf_value_id before, const opf_op *op, opf_value_id extra,
                         opf_node_id *after, opf_error *error)
{
    const opf_value_id outer = opf_graph_node(graph, id)->outputs[0];
    const char        *name  = opf_arena_printf(graph->arena, "%s/%s", opf_graph_node(graph, id)->name, op->name);
    OPF_OOM_IF(error, name == NULL);
    const opf_value_id inputs[2] = {opf_graph_add_value(graph, opf_graph_value(graph, outer)->name), extra};
    OPF_OOM_IF(error, inputs[0] == 0 || !opf_graph_set_input(graph, id, 0, before) ||
                          !opf_graph_set_output(graph, id, 0, inputs[0]));
    *after = opf_graph_add_node(graph, op, op->name, name, inputs, extra != 0 ? 2 : 1, &outer, 1);
    OPF_OOM_IF(error, *after == 0 || !opf_node_join_origin(graph, *after, id));
    return OPF_OK;
}

opf_status opf_lift_flatten(opf_graph *graph, opf_node_id id, int64_t axis, opf_error *error)
{
    const opf_value_id x = opf_graph_node(graph, id)->inputs[0];
    opf_value_id       shape, flat;
    opf_node_id        shape_node, flatten, reshape;
    OPF_TRY(opf_lift_add_node(graph, id, &opf_op_Shape, &x, 1, &shape_node, &shape, error));
    OPF_TRY(opf_lift_add_node(graph, id, &opf_op_Flatten, &x, 1, &flatten, &flat, error));
    OPF_TRY(opf_lift_wrap(graph, id, flat, &opf_op_Reshape, shape, &reshape, error));
    /* With allowzero an empty input keeps its shape too. */
    OPF_OOM_IF(error,
               !opf_node_set_int(graph, flatten, "axis", axis) || !opf_node_set_int(graph, reshape, "allowzero", 1));
    const opf_node_id order[] = {shape_node, flatten, id, reshape};
    for (unsigned i = 0; i < sizeof order / sizeof order[0]; i++)
        OPF_TRY(opf_infer_update(graph, order[i], error));
    return OPF_OK;
}

opf_status opf_lower_no_types(opf_graph *graph, opf_node_id id, opf_types missing, int32_t opset, opf_error *error)
{
    const opf_node *node = opf_graph_node(graph, id);
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        opf_type type = opf_graph_value(graph, node->inputs[i])->info.type;
        OPF_FAIL_IF(error, node->inputs[i] != 0 && opf_types_have(missing, type), OPF_UNSUPPORTED,
                    "%s (%s): %s needs an opset above %d", node->name, node->op_type, opf_type_name(type), (int)opset);
    }
    return OPF_OK;
}

opf_status opf_lower_no_bfloat16(opf_graph *graph, opf_node_id node, int32_t opset, opf_error *error)
{
    return opf_lower_no_types(graph, node, OPF_TYPE_BIT(OPF_BFLOAT16), opset, error);
}

opf_status opf_lower_no_bool(opf_graph *graph, opf_node_id node, int32_t opset, opf_error *error)
{
    return opf_lower_no_types(graph, node, OPF_TYPES_BOOL, opset, error);
}

opf_status opf_lower_no_8_bit(opf_graph *graph, opf_node_id node, int32_t opset, opf_error *error)
{
    return opf_lower_no_types(graph, node, OPF_TYPE_BIT(OPF_INT8) | OPF_TYPE_BIT(OPF_UINT8), opset, error);
}

opf_status opf_lower_no_integers(opf_graph *graph, opf_node_id node, int32_t opset, opf_error *error)
{
    return opf_lower_no_types(graph, node, OPF_TYPES_INT, opset, error);
}

opf_status opf_lower_only_floats(opf_graph *graph, opf_node_id node, int32_t opset, opf_error *error)
{
    return opf_lower_no_types(graph, node, ~OPF_TYPES_FLOAT, opset, error);
}

opf_status opf_rename_attr(opf_graph *graph, opf_node_id id, const char *from, const char *to, opf_error *error)
{
    const opf_attr *attr = opf_node_attr(opf_graph_node(graph, id), from);
    if (attr == NULL)
        return OPF_OK;
    opf_attr renamed = *attr;
    renamed.name     = to;
    opf_node_remove_attr(opf_graph_node(graph, id), from);
    OPF_OOM_IF(error, !opf_node_set_attr(graph, id, renamed));
    return OPF_OK;
}

opf_status opf_lower_attr(opf_graph *graph, opf_node_id id, const char *name, int64_t implied, opf_error *error)
{
    opf_node       *node = opf_graph_node(graph, id);
    const opf_attr *attr = opf_node_attr(node, name);
    if (attr == NULL)
        return OPF_OK;
    bool same = attr->type == OPF_ATTR_INT ? attr->i == implied : attr->type == OPF_ATTR_INTS;
    for (uint32_t i = 0; attr->type == OPF_ATTR_INTS && i < attr->n; i++)
        same = same && attr->ints[i] == implied;
    OPF_FAIL_IF(error, !same, OPF_UNSUPPORTED, "%s (%s): this %s has no older form", node->name, node->op_type, name);
    opf_node_remove_attr(node, name);
    return OPF_OK;
}
