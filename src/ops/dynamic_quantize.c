/* SPDX-License-Identifier: Apache-2.0 */
/* DynamicQuantizeLinear: to uint8, with the range of the data, widened to hold 0. In float, as it is defined. */
#include "ops/elementwise.h"

#include <math.h>

static opf_status infer_dynamic(opf_infer *infer, opf_error *error)
{
    for (uint32_t o = 1; o < infer->n_out; o++)
        OPF_TRY(opf_infer_set(infer, o, 0, NULL, error));
    return opf_infer_same(infer, 0, 0, error);
}

static float level_of(float x)
{
    return isnan(x) || x < 0 ? 0 : x > 255 ? 255 : x;
}

static opf_status run_dynamic(const opf_call *call, opf_error *error)
{
    const opf_view *x   = &call->in[0];
    float           low = 0, high = 0;
    opf_walk        walk;
    (void)error;
    for (opf_walk_init(&walk, x->rank, x->dims, 1, &x); walk.left > 0; opf_walk_next(&walk)) {
        const float value = (float)opf_view_f64(x, walk.offset[0]);
        low               = value < low ? value : low;
        high              = value > high ? value : high;
    }
    const float scale = high > low ? (high - low) / 255 : 1; /* nothing but zeros: any scale will do */
    const float zero  = rintf(level_of(0 - low / scale));
    if (call->n_out > 1 && call->out[1].data != NULL)
        opf_view_put_f64(&call->out[1], 0, (double)scale);
    if (call->n_out > 2 && call->out[2].data != NULL)
        opf_view_put_i64(&call->out[2], 0, (int64_t)zero);
    if (call->out[0].data == NULL)
        return OPF_OK;
    const opf_view *views[] = {x, &call->out[0]};
    for (opf_walk_init(&walk, x->rank, x->dims, 2, views); walk.left > 0; opf_walk_next(&walk)) {
        const float level = rintf((float)opf_view_f64(x, walk.offset[0]) / scale) + zero;
        opf_view_put_i64(&call->out[0], walk.offset[1], (int64_t)level_of(level));
    }
    return OPF_OK;
}

const opf_op opf_op_DynamicQuantizeLinear = {.name      = "DynamicQuantizeLinear",
                                             .domain    = "",
                                             .since     = 11,
                                             .inputs    = OPF_PARAMS({"x", 0, OPF_TYPE_BIT(OPF_FLOAT), 0}),
                                             .n_inputs  = 1,
                                             .outputs   = OPF_PARAMS({"y", 0, OPF_TYPE_BIT(OPF_UINT8), 0},
                                                                     {"y_scale", 0, OPF_TYPE_BIT(OPF_FLOAT), 0},
                                                                     {"y_zero_point", 0, OPF_TYPE_BIT(OPF_UINT8), 0}),
                                             .n_outputs = 3,
                                             .infer     = infer_dynamic,
                                             .reference = run_dynamic};
