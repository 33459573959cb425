/* SPDX-License-Identifier: Apache-2.0 */
/* Identity and Dropout at inference: the result is the input. */
#include "ops/elementwise.h"
#include "ops/import.h"

static opf_status infer_copy(opf_infer *infer, opf_error *error)
{
    const opf_dim *values;
    int32_t        n;
    OPF_TRY(opf_infer_same(infer, 0, 0, error));
    return opf_infer_values(infer, 0, &values, &n) ? opf_infer_set_values(infer, 0, n, values, error) : OPF_OK;
}

static opf_status reference_copy(const opf_call *call, opf_error *error)
{
    (void)error;
    opf_reference_copy(&call->in[0], &call->out[0]);
    return OPF_OK;
}

#define MOVED (OPF_TYPES_ALL | OPF_TYPES_FLOAT8 | OPF_TYPES_SUBBYTE)

const opf_op opf_op_Identity = {.name      = "Identity",
                                .domain    = "",
                                .since     = 1,
                                .traits    = OPF_ELEMENTWISE | OPF_MOVEMENT,
                                .inputs    = OPF_PARAMS({"input", 'V', MOVED, 0}),
                                .n_inputs  = 1,
                                .outputs   = OPF_PARAMS({"output", 'V', MOVED, 0}),
                                .n_outputs = 1,
                                .infer     = infer_copy,
                                .reference = reference_copy};

/* ---- Dropout ---- */

/* Exporters leave stochastic depth of ratio 0 in training mode: it drops nothing. */
static bool is_zero(const opf_infer *infer, uint32_t i)
{
    const opf_const *c = i < infer->n_in ? infer->constants[i] : NULL;
    return c != NULL && c->count == 1 && opf_const_f64_at(c, 0) == 0.0;
}

static opf_status infer_dropout(opf_infer *infer, opf_error *error)
{
    int64_t training = 0;
    int32_t n        = 1;
    if (opf_infer_has(infer, 2) && !is_zero(infer, 1)) {
        bool is_known = opf_infer_numbers(infer, 2, &training, 1, &n) && n == 1;
        OPF_FAIL_IF(error, !is_known || training != 0, OPF_UNSUPPORTED, "training_mode must be a constant false, or ratio a constant 0");
    }
    OPF_TRY(infer_copy(infer, error));
    return infer->n_out > 1 ? opf_infer_same(infer, 1, 0, error) : OPF_OK;
}

static opf_status reference_dropout(const opf_call *call, opf_error *error)
{
    if (call->out[0].data != NULL)
        OPF_TRY(reference_copy(call, error));
    if (call->n_out < 2 || call->out[1].data == NULL)
        return OPF_OK;
    opf_view *mask = &call->out[1];
    opf_walk  walk;
    for (opf_walk_init(&walk, mask->rank, mask->dims, 1, (const opf_view *const[]){mask}); walk.left != 0; opf_walk_next(&walk))
        opf_view_put_i64(mask, walk.offset[0], 1);
    return OPF_OK;
}

static opf_status lift_is_test(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    (void)opset;
    const opf_node *node = opf_graph_node(graph, id);
    OPF_FAIL_IF(error, opf_node_int(node, "is_test", 0) == 0, OPF_UNSUPPORTED, "%s (Dropout): is_test must not be 0", node->name);
    return opf_drop_attr(graph, id, "is_test");
}

static opf_status lower_is_test(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    (void)opset;
    OPF_OOM_IF(error, !opf_node_set_int(graph, id, "is_test", 1));
    return OPF_OK;
}

/* Before opset 10 the mask had the type of the data. */
static opf_status lift_mask(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    (void)opset;
    const opf_node *node = opf_graph_node(graph, id);
    if (node->n_outputs < 2 || node->outputs[1] == 0)
        return OPF_OK;
    opf_value_id old  = node->outputs[1];
    opf_type     type = opf_graph_value(graph, node->inputs[0])->info.type;
    const char  *name = opf_arena_printf(graph->arena, "%s/mask", node->name);
    OPF_OOM_IF(error, name == NULL);
    opf_value_id mask = opf_graph_add_value(graph, name);
    OPF_OOM_IF(error, mask == 0 || !opf_graph_set_output(graph, id, 1, mask));
    opf_node_id cast = opf_graph_add_node(graph, &opf_op_Cast, "Cast", name, &mask, 1, &old, 1);
    OPF_OOM_IF(error, cast == 0 || !opf_node_join_origin(graph, cast, id) ||
                          !opf_node_set_int(graph, cast, "to", type != OPF_TYPE_NONE ? (int64_t)type : OPF_FLOAT));
    return OPF_OK;
}

static opf_status lower_mask(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    (void)opset;
    const opf_node *node = opf_graph_node(graph, id);
    OPF_FAIL_IF(error, node->n_own_outputs > 1 && node->outputs[1] != 0, OPF_UNSUPPORTED,
                "%s (Dropout): a boolean mask came with opset 10", node->name);
    return OPF_OK;
}

static opf_status lift_ratio(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    (void)opset;
    return opf_lift_float(graph, id, "ratio", 1, error);
}

static opf_status lower_ratio(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    (void)opset;
    OPF_TRY(opf_lower_float(graph, id, "ratio", 1, error));
    OPF_TRY(opf_drop_attr(graph, id, "seed"));
    if (opf_graph_node(graph, id)->n_own_inputs > 2)
        OPF_OOM_IF(error, !opf_graph_set_input(graph, id, 2, 0)); /* inference is all that there was */
    return OPF_OK;
}

static const opf_import_row rows[] = {
    {7, lift_is_test, lower_is_test},
    {10, lift_mask, lower_mask},
    {12, lift_ratio, lower_ratio},
};

static const opf_attr_def attrs[] = {{.name = "seed", .type = OPF_ATTR_INT}};

const opf_op opf_op_Dropout = {.name      = "Dropout",
                               .domain    = "",
                               .since     = 6,
                               .traits    = OPF_ELEMENTWISE,
                               .inputs    = OPF_PARAMS({"data", 'T', OPF_TYPES_FLOAT, 0}, {"ratio", 'R', OPF_TYPES_FLOAT, OPF_OPTIONAL},
                                                       {"training_mode", 0, OPF_TYPES_BOOL, OPF_OPTIONAL}),
                               .n_inputs  = 3,
                               .outputs   = OPF_PARAMS({"output", 'T', OPF_TYPES_FLOAT, 0}, {"mask", 0, OPF_TYPES_BOOL, OPF_OPTIONAL}),
                               .n_outputs = 2,
                               .attrs     = attrs,
                               .n_attrs   = OPF_COUNT(attrs),
                               .rows      = rows,
                               .n_rows    = OPF_COUNT(rows),
                               .infer     = infer_dropout,
                               .reference = reference_dropout,
                               .notes     = "inference only: training_mode must be a constant false, or ratio a constant 0"};
