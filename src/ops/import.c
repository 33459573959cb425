/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/import.h"

#include "ops/infer.h"

#include <string.h>

/* ---- attributes that became inputs ---- */

static opf_status set_constant_input(opf_graph *graph, opf_node_id id, const char *name, uint32_t input, const opf_const *constant,
                                     opf_error *error)
{
    opf_node *node = opf_graph_node(graph, id);
    OPF_FAIL_IF(error, input < node->n_inputs && node->inputs[input] != 0, OPF_INVALID_MODEL,
                "%s (%s): has attribute %s and input %u, which mean the same", node->name, node->op_type, name, input);
    const char *value_name = opf_arena_printf(graph->arena, "%s/%s", node->name, name);
    OPF_OOM_IF(error, constant == NULL || value_name == NULL);
    opf_value_id value = opf_graph_add_constant(graph, value_name, constant);
    OPF_OOM_IF(error, value == 0);
    while (opf_graph_node(graph, id)->n_inputs <= input)
        OPF_OOM_IF(error, !opf_graph_append_input(graph, id, 0));
    OPF_OOM_IF(error, !opf_graph_set_input(graph, id, input, value));
    opf_node_remove_attr(opf_graph_node(graph, id), name);
    return OPF_OK;
}

/* The attribute, checked to be of the type or of the alternative; NULL in *attr when it is not there. */
static opf_status get_attr(const opf_graph *graph, opf_node_id id, const char *name, opf_attr_type type, opf_attr_type alternative,
                           const opf_attr **attr, opf_error *error)
{
    const opf_node *node = opf_graph_node(graph, id);
    *attr                = opf_node_attr(node, name);
    OPF_FAIL_IF(error, *attr != NULL && (*attr)->type != type && (*attr)->type != alternative, OPF_INVALID_MODEL,
                "%s (%s): attribute %s has the wrong type", node->name, node->op_type, name);
    return OPF_OK;
}

opf_status opf_lift_ints(opf_graph *graph, opf_node_id node, const char *name, uint32_t input, opf_error *error)
{
    const opf_attr *attr;
    OPF_TRY(get_attr(graph, node, name, OPF_ATTR_INTS, OPF_ATTR_INT, &attr, error));
    if (attr == NULL)
        return OPF_OK;
    const opf_const *constant = attr->type == OPF_ATTR_INT ? opf_const_ints(graph->consts, &attr->i, 1)
                                                           : opf_const_ints(graph->consts, attr->ints, attr->n);
    return set_constant_input(graph, node, name, input, constant, error);
}

static opf_type type_of_input_0(const opf_graph *graph, opf_node_id id)
{
    const opf_node *node = opf_graph_node(graph, id);
    opf_type        type = node->n_inputs != 0 ? opf_graph_value(graph, node->inputs[0])->info.type : OPF_TYPE_NONE;
    return opf_types_have(OPF_TYPES_FLOAT, type) ? type : OPF_FLOAT;
}

opf_status opf_lift_float(opf_graph *graph, opf_node_id node, const char *name, uint32_t input, opf_error *error)
{
    const opf_attr *attr;
    OPF_TRY(get_attr(graph, node, name, OPF_ATTR_FLOAT, OPF_ATTR_FLOAT, &attr, error));
    if (attr == NULL)
        return OPF_OK;
    const opf_const *constant = opf_const_float(graph->consts, type_of_input_0(graph, node), (double)attr->f);
    return set_constant_input(graph, node, name, input, constant, error);
}

/* The constant that must become an attribute; NULL in *constant when the input is absent. */
static opf_status get_constant(const opf_graph *graph, opf_node_id id, const char *name, uint32_t input, const opf_const **constant,
                               opf_error *error)
{
    const opf_node *node = opf_graph_node(graph, id);
    *constant            = NULL;
    if (input >= node->n_own_inputs || node->inputs[input] == 0)
        return OPF_OK;
    *constant = opf_graph_value(graph, node->inputs[input])->constant;
    OPF_FAIL_IF(error, *constant == NULL, OPF_UNSUPPORTED, "%s (%s): input %u is not constant, but is attribute %s in this opset",
                node->name, node->op_type, input, name);
    return OPF_OK;
}

opf_status opf_lower_ints(opf_graph *graph, opf_node_id node, const char *name, uint32_t input, opf_error *error)
{
    const opf_const *constant;
    OPF_TRY(get_constant(graph, node, name, input, &constant, error));
    if (constant == NULL)
        return OPF_OK;
    int64_t *ints = OPF_NEW(graph->arena, int64_t, constant->count);
    OPF_OOM_IF(error, ints == NULL);
    for (size_t i = 0; i < constant->count; i++)
        ints[i] = opf_const_i64_at(constant, i);
    OPF_OOM_IF(error, !opf_node_set_ints(graph, node, name, ints, (uint32_t)constant->count) ||
                          !opf_graph_set_input(graph, node, input, 0));
    return OPF_OK;
}

opf_status opf_lower_float(opf_graph *graph, opf_node_id node, const char *name, uint32_t input, opf_error *error)
{
    const opf_const *constant;
    OPF_TRY(get_constant(graph, node, name, input, &constant, error));
    if (constant == NULL)
        return OPF_OK;
    bool fits = constant->count == 1 && opf_types_have(OPF_TYPES_FLOAT, constant->type);
    OPF_FAIL_IF(error, !fits, OPF_UNSUPPORTED, "%s: input %u is no float scalar, but is attribute %s in this opset",
                opf_graph_node(graph, node)->name, input, name);
    OPF_OOM_IF(error, !opf_node_set_float(graph, node, name, (float)opf_const_f64_at(constant, 0)) ||
                          !opf_graph_set_input(graph, node, input, 0));
    return OPF_OK;
}

opf_status opf_drop_attr(opf_graph *graph, opf_node_id node, const char *name)
{
    opf_node_remove_attr(opf_graph_node(graph, node), name);
    return OPF_OK;
}

opf_status opf_import_same(opf_graph *graph, opf_node_id node, int32_t opset, opf_error *error)
{
    (void)graph;
    (void)node;
    (void)opset;
    (void)error;
    return OPF_OK;
}

/* ---- broadcasting before opset 7 ---- */

/* Input `input` read through an Unsqueeze that inserts axes first, first + 1, … (n of them). */
static opf_status insert_unsqueeze(opf_graph *graph, opf_node_id id, uint32_t input, int32_t first, int32_t n, opf_error *error)
{
    int64_t axes[OPF_MAX_RANK];
    for (int32_t i = 0; i < n; i++)
        axes[i] = first + i;
    const char *name = opf_arena_printf(graph->arena, "%s/unsqueeze", opf_graph_node(graph, id)->name);
    OPF_OOM_IF(error, name == NULL);
    opf_value_id inputs[2] = {opf_graph_node(graph, id)->inputs[input],
                              opf_graph_add_constant(graph, name, opf_const_ints(graph->consts, axes, n))};
    opf_value_id output    = opf_graph_add_value(graph, name);
    OPF_OOM_IF(error, inputs[1] == 0 || output == 0);
    opf_node_id unsqueeze = opf_graph_add_node(graph, &opf_op_Unsqueeze, "Unsqueeze", name, inputs, 2, &output, 1);
    OPF_OOM_IF(error, unsqueeze == 0 || !opf_node_join_origin(graph, unsqueeze, id) || !opf_graph_set_input(graph, id, input, output));
    return opf_infer_update(graph, unsqueeze, error);
}

opf_status opf_lift_channel_slope_6(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    (void)opset;
    const opf_node *node = opf_graph_node(graph, id);
    if (node->n_inputs < 2)
        return OPF_OK;
    const opf_info *x = &opf_graph_value(graph, node->inputs[0])->info, *slope = &opf_graph_value(graph, node->inputs[1])->info;
    if (slope->rank == 0 || (slope->rank == 1 && opf_dim_is(slope->dims[0], 1)))
        return OPF_OK;
    OPF_FAIL_IF(error, x->rank < 0 || slope->rank < 0, OPF_UNSUPPORTED, "%s (%s): the rank of an input is not known", node->name,
                node->op_type);
    return slope->rank == 1 && x->rank > 2 ? insert_unsqueeze(graph, id, 1, 1, x->rank - 2, error) : OPF_OK;
}

opf_status opf_lift_broadcast_6(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    (void)opset;
    opf_node *node      = opf_graph_node(graph, id);
    int64_t   broadcast = opf_node_int(node, "broadcast", 0), axis = opf_node_int(node, "axis", 0);
    bool      has_axis  = opf_node_attr(node, "axis") != NULL;
    opf_node_remove_attr(node, "broadcast");
    opf_node_remove_attr(node, "axis");
    if (broadcast == 0 || !has_axis || node->n_inputs < 2)
        return OPF_OK;
    int32_t a = opf_graph_value(graph, node->inputs[0])->info.rank, b = opf_graph_value(graph, node->inputs[1])->info.rank;
    OPF_FAIL_IF(error, a < 0 || b < 0, OPF_UNSUPPORTED, "%s (%s): broadcast along an axis needs known ranks", node->name, node->op_type);
    if (b == 0)
        return OPF_OK;
    if (axis < 0)
        axis += a;
    OPF_FAIL_IF(error, axis < 0 || axis > a - b, OPF_INVALID_MODEL, "%s (%s): axis %lld does not fit ranks %d and %d", node->name,
                node->op_type, (long long)axis, a, b);
    int32_t n = a - b - (int32_t)axis;
    return n == 0 ? OPF_OK : insert_unsqueeze(graph, id, 1, b, n, error);
}

static bool same_shape(const opf_info *a, const opf_info *b)
{
    if (a->rank != b->rank || a->rank < 0)
        return false;
    for (int32_t i = 0; i < a->rank; i++)
        if (!opf_dim_equal(a->dims[i], b->dims[i]))
            return false;
    return true;
}

opf_status opf_lower_broadcast_6(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    (void)opset;
    const opf_node *node = opf_graph_node(graph, id);
    const opf_info *a = &opf_graph_value(graph, node->inputs[0])->info, *b = &opf_graph_value(graph, node->inputs[1])->info;
    if (same_shape(a, b))
        return OPF_OK;
    bool is_suffix = a->rank >= b->rank && b->rank >= 0;
    for (int32_t i = 0; is_suffix && i < b->rank; i++)
        is_suffix = opf_dim_equal(a->dims[a->rank - b->rank + i], b->dims[i]);
    OPF_FAIL_IF(error, !is_suffix, OPF_UNSUPPORTED, "%s (%s): broadcasting of both inputs came with opset 7", node->name, node->op_type);
    OPF_OOM_IF(error, !opf_node_set_int(graph, id, "broadcast", 1));
    return OPF_OK;
}

opf_status opf_lower_same_shapes(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    (void)opset;
    const opf_node *node = opf_graph_node(graph, id);
    for (uint32_t i = 1; i < node->n_own_inputs; i++)
        OPF_FAIL_IF(error,
                    !same_shape(&opf_graph_value(graph, node->inputs[0])->info, &opf_graph_value(graph, node->inputs[i])->info),
                    OPF_UNSUPPORTED, "%s (%s): broadcasting came with opset 8", node->name, node->op_type);
    return OPF_OK;
}
