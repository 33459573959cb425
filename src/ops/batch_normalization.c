/* SPDX-License-Identifier: Apache-2.0 */
/* BatchNormalization at inference; training is refused in every spelling. */
#include "ops/check.h"
#include "ops/lift.h"
#include "ops/reference.h"

#include <math.h>

enum { X = 0, SCALE, B, MEAN, VAR };

static opf_status infer_batch_normalization(opf_infer *infer, opf_error *error)
{
    const opf_info *x = infer->in[X];
    OPF_FAIL_IF(error, opf_node_int(infer->node, "training_mode", 0) != 0, OPF_UNSUPPORTED, "training mode is unsupported");
    for (uint32_t o = 1; o < infer->n_out; o++)
        OPF_FAIL_IF(error, infer->node->outputs[o] != 0, OPF_INVALID_MODEL, "output %u needs training_mode 1", o);
    if (x->rank == 0)
        return opf_refuse_shapes(infer, X, X, error, "must have rank 1 or more");
    if (x->rank < 0)
        return OPF_OK;
    const opf_dim channels = x->rank > 1 ? x->dims[1] : opf_dim_number(1);
    for (uint32_t i = SCALE; i <= VAR; i++)
        OPF_TRY(opf_check_vector(infer, i, channels, X, error));
    return opf_infer_same(infer, 0, X, error);
}

static double at(const opf_call *call, uint32_t input, int64_t channel)
{
    return opf_view_f64(&call->in[input], channel * call->in[input].strides[0]);
}

static opf_status run_batch_normalization(const opf_call *call, opf_error *error)
{
    const opf_view *x       = &call->in[X];
    opf_view       *y       = &call->out[0];
    const double    epsilon = (double)opf_call_float(call, "epsilon", 1e-5F);
    const opf_view *views[] = {x, y};
    opf_walk        walk;
    (void)error;
    if (y->data == NULL)
        return OPF_OK;
    for (opf_walk_init(&walk, x->rank, x->dims, 2, views); walk.left > 0; opf_walk_next(&walk)) {
        const int64_t c    = x->rank > 1 ? walk.index[1] : 0;
        const double  norm = (opf_view_f64(x, walk.offset[0]) - at(call, MEAN, c)) / sqrt(at(call, VAR, c) + epsilon);
        opf_view_put_f64(y, walk.offset[1], norm * at(call, SCALE, c) + at(call, B, c));
    }
    return OPF_OK;
}

/* ---- older opsets ---- */

/* is_test was there up to opset 6, and 0 (training) by default. */
static opf_status lift_7(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    const opf_node *node = opf_graph_node(graph, id);
    OPF_FAIL_IF(error, opf_node_int(node, "is_test", 0) == 0, OPF_UNSUPPORTED,
                "%s (BatchNormalization): training mode is unsupported (is_test is 0 in opset %d)", node->name,
                (int)opset);
    return opf_drop_attr(graph, id, "is_test");
}

static opf_status lower_7(opf_graph *graph, opf_node_id node, int32_t opset, opf_error *error)
{
    static const int64_t consumed[VAR + 1] = {0}; /* had to be told before opset 6 */
    OPF_OOM_IF(error, !opf_node_set_int(graph, node, "is_test", 1) ||
                          (opset < 6 && !opf_node_set_ints(graph, node, "consumed_inputs", consumed, VAR + 1)));
    return OPF_OK;
}

/* Before opset 14 more outputs than one meant training. */
static opf_status lift_14(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    opf_node *node = opf_graph_node(graph, id);
    (void)opset;
    for (uint32_t o = 1; o < node->n_own_outputs; o++)
        OPF_FAIL_IF(error, node->outputs[o] != 0, OPF_UNSUPPORTED,
                    "%s (BatchNormalization): training mode is unsupported (output %u is wanted)", node->name, o);
    if (node->n_outputs == node->n_own_outputs && node->n_outputs > 1)
        node->n_outputs = node->n_own_outputs = 1; /* the newest form has no more places for them */
    return OPF_OK;
}

/* spatial = 0 has parameters for each element of a sample: flattening makes those elements channels. */
static opf_status lift_9(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    static const int64_t flat       = -1;
    const bool           is_spatial = opf_node_int(opf_graph_node(graph, id), "spatial", 1) != 0;
    OPF_TRY(lift_14(graph, id, opset, error)); /* before anything is put around the node */
    OPF_TRY(opf_drop_attr(graph, id, "spatial"));
    if (is_spatial || opf_graph_node(graph, id)->n_inputs <= VAR)
        return OPF_OK;
    const opf_value_id target = opf_graph_add_constant(graph, "flat", opf_const_ints(graph->consts, &flat, 1));
    OPF_OOM_IF(error, target == 0);
    for (uint32_t i = SCALE; i <= VAR; i++) {
        const opf_value_id inputs[2] = {opf_graph_node(graph, id)->inputs[i], target};
        opf_value_id       vector;
        opf_node_id        reshape;
        OPF_TRY(opf_lift_add_node(graph, id, &opf_op_Reshape, inputs, 2, &reshape, &vector, error));
        OPF_OOM_IF(error, !opf_graph_set_input(graph, id, i, vector));
        OPF_TRY(opf_infer_update(graph, reshape, error));
    }
    return opf_lift_flatten(graph, id, 1, error);
}

static opf_status lower_14(opf_graph *graph, opf_node_id node, int32_t opset, opf_error *error)
{
    OPF_TRY(opf_lower_no_bfloat16(graph, node, opset, error));
    return opf_lower_attr(graph, node, "training_mode", 0, error);
}

/* Since opset 15 the parameters may have types of their own. */
static opf_status lower_15(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    const opf_node *node = opf_graph_node(graph, id);
    const opf_type  type = opf_graph_value(graph, node->inputs[X])->info.type;
    for (uint32_t i = SCALE; i <= VAR; i++)
        OPF_FAIL_IF(error, opf_graph_value(graph, node->inputs[i])->info.type != type, OPF_UNSUPPORTED,
                    "%s (BatchNormalization): inputs of several types need opset 15, not %d", node->name, (int)opset);
    return OPF_OK;
}

static const opf_import_row rows[] = {
    {7, lift_7, lower_7}, {9, lift_9, opf_import_same}, {14, lift_14, lower_14}, {15, opf_import_same, lower_15}};

/* ---- signature ---- */

static const opf_param inputs[]  = {{"X", 'T', OPF_TYPES_FLOAT, 0},
                                    {"scale", 'U', OPF_TYPES_FLOAT, 0},
                                    {"B", 'U', OPF_TYPES_FLOAT, 0},
                                    {"input_mean", 'V', OPF_TYPES_FLOAT, 0},
                                    {"input_var", 'V', OPF_TYPES_FLOAT, 0}};
static const opf_param outputs[] = {{"Y", 'T', OPF_TYPES_FLOAT, 0},
                                    {"running_mean", 'V', OPF_TYPES_FLOAT, OPF_OPTIONAL},
                                    {"running_var", 'V', OPF_TYPES_FLOAT, OPF_OPTIONAL}};

static const opf_attr_def attrs[] = {{.name = "epsilon", .type = OPF_ATTR_FLOAT, .f = 1e-5F},
                                     {.name = "momentum", .type = OPF_ATTR_FLOAT, .f = 0.9F},
                                     {.name = "training_mode", .type = OPF_ATTR_INT}};

const opf_op opf_op_BatchNormalization = {.name      = "BatchNormalization",
                                          .domain    = "",
                                          .since     = 1,
                                          .traits    = OPF_NORMALIZATION,
                                          .inputs    = inputs,
                                          .n_inputs  = OPF_COUNT(inputs),
                                          .outputs   = outputs,
                                          .n_outputs = OPF_COUNT(outputs),
                                          .attrs     = attrs,
                                          .n_attrs   = OPF_COUNT(attrs),
                                          .rows      = rows,
                                          .n_rows    = OPF_COUNT(rows),
                                          .infer     = infer_batch_normalization,
                                          .reference = run_batch_normalization,
                                          .notes     = "not in training mode"};
