/* SPDX-License-Identifier: Apache-2.0 */
/* LayerNormalization and RMSNormalization: over the axes from `axis` on. The reference computes in double, whatever
   stash_type. */
#include "ops/check.h"
#include "ops/reference.h"

#include <math.h>

static opf_status infer_normalization(opf_infer *infer, opf_error *error)
{
    const opf_info *x          = infer->in[0];
    const int64_t   stash_type = opf_node_int(infer->node, "stash_type", OPF_FLOAT);
    int32_t         axis;
    const bool      is_float =
        stash_type > 0 && stash_type < OPF_TYPE_COUNT && opf_types_have(OPF_TYPES_FLOAT, (opf_type)stash_type);
    OPF_FAIL_IF(error, !is_float, OPF_UNSUPPORTED, "stash_type is %lld, must be a float type", (long long)stash_type);
    for (uint32_t o = 1; o < infer->n_out; o++)
        infer->out[o].type = (opf_type)stash_type;
    if (x->rank < 0)
        return OPF_OK;
    OPF_TRY(opf_normalize_axis(opf_node_int(infer->node, "axis", -1), x->rank, &axis, error));
    for (uint32_t i = 1; i < infer->n_in; i++)
        OPF_TRY(opf_check_broadcast_to(infer, i, 0, error));
    opf_dim dims[OPF_MAX_RANK];
    for (int32_t i = 0; i < x->rank; i++)
        dims[i] = i < axis ? x->dims[i] : opf_dim_number(1);
    for (uint32_t o = 1; o < infer->n_out; o++)
        OPF_TRY(opf_infer_set(infer, o, x->rank, dims, error));
    return opf_infer_same(infer, 0, 0, error);
}

/* ---- reference ---- */

/* The axes of a view from `axis` on, starting at an offset. */
static opf_view tail(const opf_view *view, int32_t axis, int64_t offset)
{
    opf_view part = {.type = view->type, .rank = view->rank - axis};
    for (int32_t i = 0; i < part.rank; i++) {
        part.dims[i]    = view->dims[axis + i];
        part.strides[i] = view->strides[axis + i];
    }
    if (view->data != NULL)
        part.data = (char *)view->data + offset * (int64_t)opf_type_size(view->type);
    return part;
}

/* The mean over a row of (x - shift), or of its square. */
static double mean_of(const opf_view *x, double shift, bool squared)
{
    double   sum = 0;
    opf_walk walk;
    for (opf_walk_init(&walk, x->rank, x->dims, 1, &x); walk.left > 0; opf_walk_next(&walk)) {
        double d = opf_view_f64(x, walk.offset[0]) - shift;
        sum += squared ? d * d : d;
    }
    return sum / (double)opf_view_count(x);
}

static void write_row(const opf_view *x, const opf_view *scale, const opf_view *bias, opf_view *y, double mean,
                      double inv_std)
{
    const opf_view *views[] = {x, scale, bias, y};
    opf_walk        walk;
    for (opf_walk_init(&walk, x->rank, x->dims, 4, views); walk.left > 0; opf_walk_next(&walk)) {
        double z = (opf_view_f64(x, walk.offset[0]) - mean) * inv_std * opf_view_f64(scale, walk.offset[1]);
        if (bias->data != NULL)
            z += opf_view_f64(bias, walk.offset[2]);
        opf_view_put_f64(y, walk.offset[3], z);
    }
}

static void put_statistic(const opf_call *call, uint32_t output, size_t row, double x)
{
    if (output < call->n_out && call->out[output].data != NULL)
        opf_view_put_f64(&call->out[output], opf_view_offset(&call->out[output], row), x);
}

static opf_status run_normalization(const opf_call *call, bool centred, opf_error *error)
{
    const opf_view *x       = &call->in[0];
    const double    epsilon = (double)opf_call_float(call, "epsilon", 1e-5F);
    const bool      has_y = call->out[0].data != NULL, has_bias = call->n_in > 2 && call->in[2].data != NULL;
    const opf_view  scale = opf_view_broadcast(&call->in[1], x->rank, x->dims);
    const opf_view  bias  = has_bias ? opf_view_broadcast(&call->in[2], x->rank, x->dims) : (opf_view){.rank = x->rank};
    const opf_view *views[] = {x, &scale, &bias, &call->out[0]};
    int32_t         axis;
    opf_walk        walk;
    OPF_TRY(opf_normalize_axis(opf_call_int(call, "axis", -1), x->rank, &axis, error));
    opf_walk_init(&walk, axis, x->dims, has_y ? 4 : 3, views);
    for (size_t row = 0; walk.left > 0; row++, opf_walk_next(&walk)) {
        const opf_view part    = tail(x, axis, walk.offset[0]);
        const double   mean    = centred ? mean_of(&part, 0, false) : 0;
        const double   inv_std = 1 / sqrt(mean_of(&part, mean, true) + epsilon);
        put_statistic(call, 1, row, mean);
        put_statistic(call, 2, row, inv_std);
        if (!has_y)
            continue;
        const opf_view row_scale = tail(&scale, axis, walk.offset[1]), row_bias = tail(&bias, axis, walk.offset[2]);
        opf_view       row_y = tail(&call->out[0], axis, walk.offset[3]);
        write_row(&part, &row_scale, &row_bias, &row_y, mean, inv_std);
    }
    return OPF_OK;
}

static opf_status run_layer_normalization(const opf_call *call, opf_error *error)
{
    return run_normalization(call, true, error);
}

static opf_status run_rms_normalization(const opf_call *call, opf_error *error)
{
    return run_normalization(call, false, error);
}

/* ---- signatures ---- */

#define STATISTIC_TYPES (OPF_TYPE_BIT(OPF_FLOAT) | OPF_TYPE_BIT(OPF_BFLOAT16))

static const opf_param layer_inputs[] = {
    {"X", 'T', OPF_TYPES_FLOAT, 0}, {"Scale", 'T', OPF_TYPES_FLOAT, 0}, {"B", 'T', OPF_TYPES_FLOAT, OPF_OPTIONAL}};
static const opf_param layer_outputs[] = {{"Y", 'T', OPF_TYPES_FLOAT, 0},
                                          {"Mean", 0, STATISTIC_TYPES, OPF_OPTIONAL},
                                          {"InvStdDev", 0, STATISTIC_TYPES, OPF_OPTIONAL}};
static const opf_param rms_inputs[]    = {{"X", 'T', OPF_TYPES_FLOAT, 0}, {"scale", 'V', OPF_TYPES_FLOAT, 0}};
static const opf_param rms_outputs[]   = {{"Y", 'V', OPF_TYPES_FLOAT, 0}};

static const opf_attr_def attrs[] = {{.name = "axis", .type = OPF_ATTR_INT, .i = -1},
                                     {.name = "epsilon", .type = OPF_ATTR_FLOAT, .f = 1e-5F},
                                     {.name = "stash_type", .type = OPF_ATTR_INT, .i = OPF_FLOAT}};

const opf_op opf_op_LayerNormalization = {.name      = "LayerNormalization",
                                          .domain    = "",
                                          .since     = 17,
                                          .traits    = OPF_NORMALIZATION,
                                          .inputs    = layer_inputs,
                                          .n_inputs  = OPF_COUNT(layer_inputs),
                                          .outputs   = layer_outputs,
                                          .n_outputs = OPF_COUNT(layer_outputs),
                                          .attrs     = attrs,
                                          .n_attrs   = OPF_COUNT(attrs),
                                          .infer     = infer_normalization,
                                          .reference = run_layer_normalization};

const opf_op opf_op_RMSNormalization = {.name      = "RMSNormalization",
                                        .domain    = "",
                                        .since     = 23,
                                        .traits    = OPF_NORMALIZATION,
                                        .inputs    = rms_inputs,
                                        .n_inputs  = OPF_COUNT(rms_inputs),
                                        .outputs   = rms_outputs,
                                        .n_outputs = OPF_COUNT(rms_outputs),
                                        .attrs     = attrs,
                                        .n_attrs   = OPF_COUNT(attrs),
                                        .infer     = infer_normalization,
                                        .reference = run_rms_normalization};
