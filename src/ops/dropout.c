/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dropout. At inference the result is the input. In training, which some exporters leave on, it is taken apart into the
 * operators that it is made of: a uniform draw for each element, compared with the ratio.
 */
#include "ops/elementwise.h"
#include "ops/infer.h"
#include "ops/lift.h"

enum { DATA = 0, RATIO, TRAINING };

static bool is_zero(const opf_infer *infer, uint32_t i)
{
    const opf_const *c = i < infer->n_in ? infer->constants[i] : NULL;
    return c != NULL && c->count == 1 && opf_const_f64_at(c, 0) == 0.0;
}

/* What trains was taken apart when it was loaded: here it is refused, so that nobody takes it for inference. */
static opf_status infer_dropout(opf_infer *infer, opf_error *error)
{
    const opf_dim *values;
    int64_t        training = 0;
    int32_t        n        = 1;
    if (opf_infer_has(infer, TRAINING) && !is_zero(infer, RATIO)) {
        const bool is_known = opf_infer_numbers(infer, TRAINING, &training, 1, &n) && n == 1;
        OPF_FAIL_IF(error, !is_known || training != 0, OPF_UNSUPPORTED, "training_mode must be a constant false, or ratio a constant 0");
    }
    OPF_TRY(opf_infer_same(infer, 0, 0, error));
    if (opf_infer_values(infer, 0, &values, &n))
        OPF_TRY(opf_infer_set_values(infer, 0, n, values, error));
    return infer->n_out > 1 ? opf_infer_same(infer, 1, 0, error) : OPF_OK;
}

/* Only what drops nothing is left a Dropout. */
static opf_status reference_dropout(const opf_call *call, opf_error *error)
{
    (void)error;
    if (call->out[0].data != NULL)
        opf_reference_copy(&call->in[0], &call->out[0]);
    if (call->n_out < 2 || call->out[1].data == NULL)
        return OPF_OK;
    opf_view *mask = &call->out[1];
    opf_walk  walk;
    for (opf_walk_init(&walk, mask->rank, mask->dims, 1, (const opf_view *const[]){mask}); walk.left != 0; opf_walk_next(&walk))
        opf_view_put_i64(mask, walk.offset[0], 1);
    return OPF_OK;
}

/* ---- training ---- */

static bool has(const opf_node *node, uint32_t i)
{
    return i < node->n_own_inputs && node->inputs[i] != 0;
}

/* Known to be false, or with a ratio that is known to be 0: exporters leave stochastic depth of ratio 0 in training mode. */
static bool drops_nothing(const opf_graph *graph, const opf_node *node)
{
    double x = 1;
    if (!has(node, TRAINING) || (has(node, RATIO) && opf_graph_scalar(graph, node->inputs[RATIO], &x) && x == 0))
        return true;
    if (opf_graph_scalar(graph, node->inputs[TRAINING], &x))
        return x == 0;
    const opf_info *info = &opf_graph_value(graph, node->inputs[TRAINING])->info;
    return info->n_values == 1 && opf_dim_is_number(info->values[0]) && info->values[0].n == 0;
}

static opf_status add_float(opf_graph *graph, opf_node_id like, const char *what, float x, opf_value_id *value, opf_error *error)
{
    const char      *name = opf_arena_printf(graph->arena, "%s/%s", opf_graph_node(graph, like)->name, what);
    const float     *kept = opf_arena_copy(graph->arena, &x, sizeof x);
    const opf_const *c    = kept == NULL ? NULL : opf_const_bytes(graph->consts, OPF_FLOAT, 0, NULL, kept, sizeof x);
    *value                = c == NULL || name == NULL ? 0 : opf_graph_add_constant(graph, name, c);
    OPF_OOM_IF(error, *value == 0);
    return OPF_OK;
}

/* A new node of one or two inputs before the dropout; *value is its result. */
static opf_status add(opf_graph *graph, opf_node_id id, const opf_op *op, opf_value_id a, opf_value_id b, opf_value_id *value,
                      opf_node_id *node, opf_error *error)
{
    const opf_value_id inputs[] = {a, b};
    OPF_TRY(opf_lift_add_node(graph, id, op, inputs, b != 0 ? 2 : 1, node, value, error));
    return op == &opf_op_Cast ? OPF_OK : opf_infer_update(graph, *node, error);
}

static opf_status add_cast(opf_graph *graph, opf_node_id id, opf_value_id x, opf_type to, opf_value_id *value, opf_error *error)
{
    opf_node_id node;
    OPF_TRY(add(graph, id, &opf_op_Cast, x, 0, value, &node, error));
    OPF_OOM_IF(error, !opf_node_set_int(graph, node, "to", (int64_t)to));
    return opf_infer_update(graph, node, error);
}

/* *kept: where the draw is not below the ratio; *scale: 1/(1 - ratio), as float. */
static opf_status draw(opf_graph *graph, opf_node_id id, opf_value_id *kept, opf_value_id *scale, opf_error *error)
{
    const opf_node *node = opf_graph_node(graph, id);
    const opf_attr *seed = opf_node_attr(node, "seed");
    opf_value_id    ratio, one, random, rest;
    opf_node_id     made;
    if (has(node, RATIO))
        OPF_TRY(add_cast(graph, id, node->inputs[RATIO], OPF_FLOAT, &ratio, error));
    else
        OPF_TRY(add_float(graph, id, "ratio", 0.5F, &ratio, error));
    OPF_TRY(add_float(graph, id, "one", 1, &one, error));
    OPF_TRY(add(graph, id, &opf_op_RandomUniformLike, node->inputs[DATA], 0, &random, &made, error));
    OPF_OOM_IF(error, !opf_node_set_int(graph, made, "dtype", OPF_FLOAT) ||
                          (seed != NULL && !opf_node_set_float(graph, made, "seed", (float)seed->i)));
    OPF_TRY(opf_infer_update(graph, made, error));
    OPF_TRY(add(graph, id, &opf_op_GreaterOrEqual, random, ratio, kept, &made, error));
    OPF_TRY(add(graph, id, &opf_op_Sub, one, ratio, &rest, &made, error));
    return add(graph, id, &opf_op_Div, one, rest, scale, &made, error);
}

/* Whether training is on may be known only when the model runs, so both results are there and one is chosen. */
static opf_status lift_training(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    const opf_node *node = opf_graph_node(graph, id);
    (void)opset;
    if (drops_nothing(graph, node))
        return OPF_OK;
    const opf_value_id data = node->inputs[DATA], training = node->inputs[TRAINING], y = node->outputs[0];
    const opf_value_id mask = node->n_own_outputs > 1 ? node->outputs[1] : 0;
    const opf_type     type = opf_graph_value(graph, data)->info.type;
    opf_value_id       kept, scale, off, factor, nothing, zero, scaled, dropped;
    opf_node_id        made;
    OPF_FAIL_IF(error, type == OPF_TYPE_NONE, OPF_UNSUPPORTED, "%s (Dropout): training on data whose type is not known", node->name);
    OPF_TRY(draw(graph, id, &kept, &scale, error));
    OPF_TRY(add(graph, id, &opf_op_Not, training, 0, &off, &made, error));
    OPF_TRY(add_cast(graph, id, scale, type, &factor, error));
    OPF_TRY(add(graph, id, &opf_op_Mul, data, factor, &scaled, &made, error));
    OPF_TRY(add_float(graph, id, "zero", 0, &nothing, error));
    OPF_TRY(add_cast(graph, id, nothing, type, &zero, error));
    const opf_value_id chosen[] = {kept, scaled, zero};
    OPF_TRY(opf_lift_add_node(graph, id, &opf_op_Where, chosen, 3, &made, &dropped, error));
    OPF_TRY(opf_infer_update(graph, made, error));
    const char *name = opf_graph_node(graph, id)->name;
    opf_graph_remove_node(graph, id);
    const opf_value_id ends[] = {training, dropped, data}, marks[] = {kept, off};
    made = opf_graph_add_node(graph, &opf_op_Where, "Where", name, ends, 3, &y, 1);
    OPF_OOM_IF(error, made == 0 || !opf_node_join_origin(graph, made, id));
    OPF_TRY(opf_infer_update(graph, made, error));
    if (mask == 0)
        return OPF_OK;
    made = opf_graph_add_node(graph, &opf_op_Or, "Or", opf_arena_printf(graph->arena, "%s/mask", name), marks, 2, &mask, 1);
    OPF_OOM_IF(error, made == 0 || !opf_node_join_origin(graph, made, id));
    return opf_infer_update(graph, made, error);
}

/* ---- older opsets ---- */

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

/* ---- definition ---- */

static const opf_import_row rows[] = {
    {7, lift_is_test, lower_is_test},
    {10, lift_mask, lower_mask},
    {12, lift_ratio, lower_ratio},
    {INT32_MAX, lift_training, opf_import_same},
};

static const opf_attr_def attrs[] = {{.name = "seed", .type = OPF_ATTR_INT}};

#define DROPPED (OPF_TYPES_FLOAT | OPF_TYPES_FLOAT8)

const opf_op opf_op_Dropout = {.name      = "Dropout",
                               .domain    = "",
                               .since     = 1,
                               .traits    = OPF_ELEMENTWISE,
                               .inputs    = OPF_PARAMS({"data", 'T', DROPPED, 0}, {"ratio", 'R', DROPPED, OPF_OPTIONAL},
                                                       {"training_mode", 0, OPF_TYPES_BOOL, OPF_OPTIONAL}),
                               .n_inputs  = 3,
                               .outputs   = OPF_PARAMS({"output", 'T', DROPPED, 0}, {"mask", 0, OPF_TYPES_BOOL, OPF_OPTIONAL}),
                               .n_outputs = 2,
                               .attrs     = attrs,
                               .n_attrs   = OPF_COUNT(attrs),
                               .rows      = rows,
                               .n_rows    = OPF_COUNT(rows),
                               .infer     = infer_dropout,
                               .reference = reference_dropout,
                               .notes     = "training_mode from opset 12 on; the same numbers in each run"};
