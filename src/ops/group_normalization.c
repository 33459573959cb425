/* SPDX-License-Identifier: Apache-2.0 */
/* InstanceNormalization and GroupNormalization: over the spatial axes of a group of channels. The reference computes in
   double, whatever stash_type. */
#include "ops/check.h"
#include "ops/elementwise.h"
#include "ops/lift.h"

#include <math.h>

enum { X = 0, SCALE, BIAS };

static opf_status infer_parameters(opf_infer *infer, opf_error *error)
{
    const opf_info *x = infer->in[X];
    if (x->rank == 0 || x->rank == 1)
        return opf_refuse_shapes(infer, X, X, error, "must have rank 2 or more");
    if (x->rank < 0)
        return OPF_OK;
    OPF_TRY(opf_check_vector(infer, SCALE, x->dims[1], X, error));
    OPF_TRY(opf_check_vector(infer, BIAS, x->dims[1], X, error));
    return opf_infer_same(infer, 0, X, error);
}

static opf_status infer_group(opf_infer *infer, opf_error *error)
{
    const opf_info *x      = infer->in[X];
    const int64_t   groups = opf_node_int(infer->node, "num_groups", 0);
    OPF_FAIL_IF(error, groups < 1, OPF_INVALID_MODEL, "num_groups is %lld, must be at least 1", (long long)groups);
    if (x->rank > 1 && opf_dim_is_number(x->dims[1]) && x->dims[1].n % groups != 0)
        return opf_refuse_shapes(infer, X, X, error, "%lld channels do not divide into %lld groups",
                                 (long long)x->dims[1].n, (long long)groups);
    return infer_parameters(infer, error);
}

/* ---- reference ---- */

/* The mean over a group of (x - shift), or of its square. */
static double mean_of(const opf_view *group, double shift, bool squared)
{
    double   sum = 0;
    opf_walk walk;
    for (opf_walk_init(&walk, group->rank, group->dims, 1, &group); walk.left > 0; opf_walk_next(&walk)) {
        const double d = opf_view_f64(group, walk.offset[0]) - shift;
        sum += squared ? d * d : d;
    }
    return sum / (double)opf_view_count(group);
}

/* Channels [first, first + per_group) of sample n. */
static opf_view group_of(const opf_view *x, int64_t n, int64_t first, int64_t per_group)
{
    opf_view group = {.type = x->type, .rank = x->rank - 1};
    for (int32_t i = 0; i < group.rank; i++) {
        group.dims[i]    = i == 0 ? per_group : x->dims[i + 1];
        group.strides[i] = x->strides[i + 1];
    }
    group.data = (char *)x->data + (n * x->strides[0] + first * x->strides[1]) * (int64_t)opf_type_size(x->type);
    return group;
}

static void run_one(const opf_call *call, double epsilon, int64_t n, int64_t first, int64_t per_group)
{
    const opf_view *scale = &call->in[SCALE], *bias = &call->in[BIAS];
    const opf_view  x       = group_of(&call->in[X], n, first, per_group);
    opf_view        y       = group_of(&call->out[0], n, first, per_group);
    const opf_view *views[] = {&x, &y};
    const double    mean    = mean_of(&x, 0, false);
    const double    inverse = 1 / sqrt(mean_of(&x, mean, true) + epsilon);
    opf_walk        walk;
    for (opf_walk_init(&walk, x.rank, x.dims, 2, views); walk.left > 0; opf_walk_next(&walk)) {
        const int64_t c = first + walk.index[0];
        const double  z = (opf_view_f64(&x, walk.offset[0]) - mean) * inverse;
        opf_view_put_f64(&y, walk.offset[1],
                         z * opf_view_f64(scale, c * scale->strides[0]) + opf_view_f64(bias, c * bias->strides[0]));
    }
}

static opf_status run_groups(const opf_call *call, int64_t groups)
{
    const opf_view *x       = &call->in[X];
    const double    epsilon = (double)opf_call_float(call, "epsilon", 1e-5f);
    if (opf_view_count(x) == 0)
        return OPF_OK;
    for (int64_t n = 0; n < x->dims[0]; n++)
        for (int64_t g = 0; g < groups; g++)
            run_one(call, epsilon, n, g * (x->dims[1] / groups), x->dims[1] / groups);
    return OPF_OK;
}

static opf_status run_instance(const opf_call *call, opf_error *error)
{
    (void)error;
    return run_groups(call, call->in[X].dims[1]);
}

static opf_status run_group(const opf_call *call, opf_error *error)
{
    (void)error;
    return run_groups(call, opf_call_int(call, "num_groups", 1));
}

/* ---- GroupNormalization before opset 21: one scale and bias for each group ---- */

static opf_status constant_ints(opf_graph *graph, const char *name, const int64_t *ints, int64_t n, opf_value_id *value,
                                opf_error *error)
{
    const opf_const *constant = opf_const_ints(graph->consts, ints, n);
    OPF_OOM_IF(error, constant == NULL);
    *value = opf_graph_add_constant(graph, name, constant);
    OPF_OOM_IF(error, *value == 0);
    return OPF_OK;
}

/* [G] becomes [G, 1], [G, C/G], [C]. */
static opf_status repeat_parameter(opf_graph *graph, opf_node_id id, uint32_t input, int64_t times, opf_error *error)
{
    const int64_t column[2] = {-1, 1}, wide[2] = {1, times}, flat[1] = {-1};
    const struct {
        const opf_op  *op;
        const int64_t *shape;
        int64_t        n;
    } steps[3]      = {{&opf_op_Reshape, column, 2}, {&opf_op_Expand, wide, 2}, {&opf_op_Reshape, flat, 1}};
    opf_value_id at = opf_graph_node(graph, id)->inputs[input];
    opf_node_id  nodes[3];
    for (unsigned i = 0; i < OPF_COUNT(steps); i++) {
        opf_value_id inputs_of[2] = {at, 0};
        OPF_TRY(constant_ints(graph, "repeat", steps[i].shape, steps[i].n, &inputs_of[1], error));
        OPF_TRY(opf_lift_add_node(graph, id, steps[i].op, inputs_of, 2, &nodes[i], &at, error));
    }
    OPF_OOM_IF(error, !opf_graph_set_input(graph, id, input, at));
    for (unsigned i = 0; i < OPF_COUNT(nodes); i++)
        OPF_TRY(opf_infer_update(graph, nodes[i], error));
    return OPF_OK;
}

static opf_status lift_21(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    const opf_node *node   = opf_graph_node(graph, id);
    const int64_t   groups = opf_node_int(node, "num_groups", 0);
    (void)opset;
    if (node->n_inputs <= BIAS || groups < 1)
        return OPF_OK; /* refused later, by what is missing */
    const opf_info *x     = &opf_graph_value(graph, node->inputs[X])->info;
    const bool      known = x->rank > 1 && opf_dim_is_number(x->dims[1]);
    OPF_FAIL_IF(error, !known, OPF_UNSUPPORTED, "%s (GroupNormalization): the number of channels is not known",
                node->name);
    OPF_FAIL_IF(error, x->dims[1].n % groups != 0, OPF_INVALID_MODEL,
                "%s (GroupNormalization): %lld channels do not divide into %lld groups", node->name,
                (long long)x->dims[1].n, (long long)groups);
    const int64_t times = x->dims[1].n / groups;
    for (uint32_t input = SCALE; input <= BIAS && times > 1; input++)
        OPF_TRY(repeat_parameter(graph, id, input, times, error));
    return OPF_OK;
}

/* The parameter as a tensor that meets the channels of the result: [C, 1, …]. */
static opf_status channel_parameter(opf_graph *graph, opf_node_id id, uint32_t input, int32_t rank, opf_value_id *value,
                                    opf_error *error)
{
    int64_t      shape[OPF_MAX_RANK] = {-1};
    opf_value_id inputs[2]           = {opf_graph_node(graph, id)->inputs[input], 0};
    opf_node_id  reshape;
    for (int32_t i = 1; i < rank - 1; i++)
        shape[i] = 1;
    OPF_TRY(constant_ints(graph, "channels", shape, rank - 1, &inputs[1], error));
    return opf_lift_add_node(graph, id, &opf_op_Reshape, inputs, 2, &reshape, value, error);
}

static opf_status set_splat(opf_graph *graph, opf_node_id id, uint32_t input, double x, opf_error *error)
{
    const opf_node *node    = opf_graph_node(graph, id);
    const int64_t   dims[1] = {opf_node_int(node, "num_groups", 1)};
    const opf_type  type    = opf_graph_value(graph, node->inputs[X])->info.type;
    double         *element = OPF_NEW(graph->arena, double, 1);
    OPF_OOM_IF(error, element == NULL);
    opf_store_f64(type, element, 0, x);
    const opf_const *constant = opf_const_splat(graph->consts, type, 1, dims, element);
    OPF_OOM_IF(error, constant == NULL);
    const opf_value_id value = opf_graph_add_constant(graph, input == SCALE ? "ones" : "zeros", constant);
    OPF_OOM_IF(error, value == 0 || !opf_graph_set_input(graph, id, input, value));
    return OPF_OK;
}

/* Normalised plainly, then multiplied and added. */
static opf_status lower_21(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    const opf_node *node = opf_graph_node(graph, id);
    const opf_info *x    = &opf_graph_value(graph, node->inputs[X])->info;
    const int32_t   rank = x->rank;
    opf_value_id    scale, bias;
    opf_node_id     multiply, add;
    OPF_FAIL_IF(error, rank < 2 || x->type == OPF_TYPE_NONE, OPF_UNSUPPORTED,
                "%s (GroupNormalization): needs a known rank for opset %d", node->name, (int)opset);
    OPF_TRY(opf_drop_attr(graph, id, "stash_type"));
    if (opf_dim_is(x->dims[1], opf_node_int(node, "num_groups", 0)))
        return OPF_OK; /* a group for each channel: both forms are one */
    OPF_TRY(channel_parameter(graph, id, SCALE, rank, &scale, error));
    OPF_TRY(channel_parameter(graph, id, BIAS, rank, &bias, error));
    OPF_TRY(set_splat(graph, id, SCALE, 1, error));
    OPF_TRY(set_splat(graph, id, BIAS, 0, error));
    /* The later wrap lands nearer to the node. */
    OPF_TRY(opf_lift_wrap(graph, id, opf_graph_node(graph, id)->inputs[X], &opf_op_Add, bias, &add, error));
    return opf_lift_wrap(graph, id, opf_graph_node(graph, id)->inputs[X], &opf_op_Mul, scale, &multiply, error);
}

/* ---- signatures ---- */

static const opf_import_row instance_rows[] = {{22, opf_import_same, opf_lower_no_bfloat16}};
static const opf_import_row group_rows[]    = {{21, lift_21, lower_21}};

static const opf_param inputs[] = {
    {"X", 'T', OPF_TYPES_FLOAT, 0}, {"scale", 'T', OPF_TYPES_FLOAT, 0}, {"bias", 'T', OPF_TYPES_FLOAT, 0}};
static const opf_param outputs[] = {{"Y", 'T', OPF_TYPES_FLOAT, 0}};

static const opf_attr_def group_attrs[]    = {{.name = "epsilon", .type = OPF_ATTR_FLOAT, .f = 1e-5f},
                                              {.name = "num_groups", .type = OPF_ATTR_INT, .required = true},
                                              {.name = "stash_type", .type = OPF_ATTR_INT, .i = OPF_FLOAT}};
static const opf_attr_def instance_attrs[] = {{.name = "epsilon", .type = OPF_ATTR_FLOAT, .f = 1e-5f}};

const opf_op opf_op_InstanceNormalization = {.name      = "InstanceNormalization",
                                             .domain    = "",
                                             .since     = 1,
                                             .traits    = OPF_NORMALIZATION,
                                             .inputs    = inputs,
                                             .n_inputs  = OPF_COUNT(inputs),
                                             .outputs   = outputs,
                                             .n_outputs = OPF_COUNT(outputs),
                                             .attrs     = instance_attrs,
                                             .n_attrs   = OPF_COUNT(instance_attrs),
                                             .rows      = instance_rows,
                                             .n_rows    = OPF_COUNT(instance_rows),
                                             .infer     = infer_parameters,
                                             .reference = run_instance};

const opf_op opf_op_GroupNormalization = {.name      = "GroupNormalization",
                                          .domain    = "",
                                          .since     = 18,
                                          .traits    = OPF_NORMALIZATION,
                                          .inputs    = inputs,
                                          .n_inputs  = OPF_COUNT(inputs),
                                          .outputs   = outputs,
                                          .n_outputs = OPF_COUNT(outputs),
                                          .attrs     = group_attrs,
                                          .n_attrs   = OPF_COUNT(group_attrs),
                                          .rows      = group_rows,
                                          .n_rows    = OPF_COUNT(group_rows),
                                          .infer     = infer_group,
                                          .reference = run_group};
