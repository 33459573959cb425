/* SPDX-License-Identifier: Apache-2.0 */
/* DeformConv: each tap of a window looks beside its place by an offset of its own, between pixels by linear
   interpolation, and sees zero outside the image. Any spatial rank. */
#include "ops/check.h"
#include "ops/elementwise.h"
#include "ops/lift.h"
#include "ops/window.h"

#include <math.h>

enum { X = 0, W, OFFSET, B, MASK };

/* ---- inference ---- */

/* Everything but offset and mask is that of a convolution. */
static opf_status infer_conv(opf_infer *infer, opf_error *error)
{
    const opf_const *constants[3] = {NULL};
    const opf_info  *in[3]        = {infer->in[X], infer->in[W], NULL};
    opf_value_id     inputs[3]    = {infer->node->inputs[X], infer->node->inputs[W], 0};
    const bool       has_bias     = opf_infer_has(infer, B);
    opf_node         node         = *infer->node;
    opf_infer        conv         = *infer;
    if (has_bias) {
        in[2]     = infer->in[B];
        inputs[2] = infer->node->inputs[B];
    }
    node.op        = &opf_op_Conv;
    node.inputs    = inputs;
    conv.node      = &node;
    conv.in        = in;
    conv.n_in      = has_bias ? 3 : 2;
    conv.constants = constants;
    return opf_op_Conv.infer(&conv, error);
}

/* Input i has shape [N, channels, places of the output]. */
static opf_status check_steering(const opf_infer *infer, uint32_t i, int64_t channels, opf_error *error)
{
    if (!opf_infer_has(infer, i) || infer->in[i]->rank < 0)
        return OPF_OK;
    const opf_info *info = infer->in[i], *y = &infer->out[0];
    bool            fits = info->rank == y->rank;
    for (int32_t k = 0; k < info->rank && fits; k++)
        fits = !opf_dims_clash(info->dims[k], k == 1 ? opf_dim_number(channels) : y->dims[k]);
    return fits ? OPF_OK
                : opf_refuse_shapes(infer, X, i, error,
                                    "the latter must have %lld channels and the places of the output",
                                    (long long)channels);
}

static opf_status infer_deform_conv(opf_infer *infer, opf_error *error)
{
    const opf_info *x = infer->in[X], *w = infer->in[W];
    const int64_t   groups   = opf_node_int(infer->node, "offset_group", 1);
    int64_t         channels = groups;
    OPF_FAIL_IF(error, groups < 1, OPF_INVALID_MODEL, "offset_group is %lld, must be at least 1", (long long)groups);
    OPF_TRY(infer_conv(infer, error));
    if (infer->out[0].rank < 0 || w->rank < 0)
        return OPF_OK;
    if (x->rank >= 0 && opf_dim_is_number(x->dims[1]) && x->dims[1].n % groups != 0)
        return opf_refuse_shapes(infer, X, X, error, "%lld channels do not divide into %lld offset groups",
                                 (long long)x->dims[1].n, (long long)groups);
    for (int32_t i = 2; i < w->rank; i++)
        if (!opf_dim_is_number(w->dims[i]) || __builtin_mul_overflow(channels, w->dims[i].n, &channels))
            return OPF_OK;
    OPF_TRY(check_steering(infer, MASK, channels, error));
    if (__builtin_mul_overflow(channels, w->rank - 2, &channels))
        return OPF_OK;
    return check_steering(infer, OFFSET, channels, error);
}

/* ---- reference ---- */

typedef struct deform_job {
    const opf_call *call;
    opf_windows     windows;
    int64_t         taps, offset_groups, groups;
    double         *weights; /* [M][C/group][taps] */
    double         *seen;    /* [C][taps], of one place */
} deform_job;

/* The image between pixels: `at` is changed. */
static double sample(const opf_view *x, int64_t base, int32_t rank, double *at)
{
    int64_t low[OPF_MAX_RANK];
    double  sum = 0;
    for (int32_t i = 0; i < rank; i++) {
        if (!(at[i] > -1 && at[i] < (double)x->dims[i + 2])) /* NaN too */
            return 0;
        low[i] = (int64_t)floor(at[i]);
        at[i] -= (double)low[i];
    }
    for (unsigned corner = 0; corner < 1u << rank; corner++) {
        double  share  = 1;
        int64_t offset = base;
        bool    inside = true;
        for (int32_t i = 0; i < rank; i++) {
            const bool    is_high  = (corner >> i & 1) != 0;
            const int64_t position = low[i] + (is_high ? 1 : 0);
            share *= is_high ? at[i] : 1 - at[i];
            offset += position * x->strides[i + 2];
            inside = inside && position >= 0 && position < x->dims[i + 2];
        }
        if (inside && share != 0)
            sum += share * opf_view_f64(x, offset);
    }
    return sum;
}

/* What the taps of the window at output index [n, ., place] see of every channel. */
static void look(deform_job *job, const int64_t *index)
{
    const opf_view    *x = &job->call->in[X], *steer = &job->call->in[OFFSET], *mask = &job->call->in[MASK];
    const opf_windows *w        = &job->windows;
    const bool         has_mask = job->call->n_in > MASK && mask->data != NULL;
    const int64_t      per      = x->dims[1] / job->offset_groups;
    int64_t            steer_at = index[0] * steer->strides[0], mask_at = has_mask ? index[0] * mask->strides[0] : 0;
    for (int32_t i = 0; i < w->rank; i++) {
        steer_at += index[i + 2] * steer->strides[i + 2];
        mask_at += has_mask ? index[i + 2] * mask->strides[i + 2] : 0;
    }
    for (int64_t g = 0; g < job->offset_groups; g++) {
        int64_t tap[OPF_MAX_RANK] = {0};
        for (int64_t t = 0; t < job->taps; t++) {
            const int64_t k      = g * job->taps + t;
            const double  factor = has_mask ? opf_view_f64(mask, mask_at + k * mask->strides[1]) : 1;
            for (int64_t c = g * per; c < (g + 1) * per; c++) {
                double at[OPF_MAX_RANK];
                for (int32_t i = 0; i < w->rank; i++)
                    at[i] = (double)(index[i + 2] * w->stride[i] - w->pad_begin[i] + tap[i] * w->dilation[i]) +
                            opf_view_f64(steer, steer_at + (k * w->rank + i) * steer->strides[1]);
                const int64_t base           = index[0] * x->strides[0] + c * x->strides[1];
                job->seen[c * job->taps + t] = factor * sample(x, base, w->rank, at);
            }
            for (int32_t i = w->rank - 1; i >= 0 && ++tap[i] == w->kernel[i]; i--)
                tap[i] = 0;
        }
    }
}

static void run_places(deform_job *job)
{
    const opf_view *x = &job->call->in[X], *bias = &job->call->in[B];
    opf_view       *y        = &job->call->out[0];
    const bool      has_bias = job->call->n_in > B && bias->data != NULL;
    const int64_t   m_group = y->dims[1] / job->groups, k = x->dims[1] / job->groups * job->taps;
    opf_view        places  = *y;
    const opf_view *views[] = {&places};
    opf_walk        walk;
    places.dims[1] = 1;
    for (opf_walk_init(&walk, places.rank, places.dims, 1, views); walk.left > 0; opf_walk_next(&walk)) {
        look(job, walk.index);
        for (int64_t m = 0; m < y->dims[1]; m++) {
            const double *weights = &job->weights[m * k], *seen = &job->seen[m / m_group * k];
            double        sum = has_bias ? opf_view_f64(bias, m * bias->strides[0]) : 0;
            for (int64_t i = 0; i < k; i++)
                sum += weights[i] * seen[i];
            opf_view_put_f64(y, walk.offset[0] + m * y->strides[1], sum);
        }
    }
}

static opf_status run_deform_conv(const opf_call *call, opf_error *error)
{
    const opf_view *x = &call->in[X], *w = &call->in[W];
    size_t          n_weights = opf_view_count(w), n_seen, bytes;
    deform_job      job       = {.call = call, .taps = 1};
    if (opf_view_count(&call->out[0]) == 0)
        return OPF_OK;
    OPF_TRY(opf_windows_read(call->attrs, call->n_attrs, x->rank - 2, w->dims + 2, &job.windows, error));
    job.offset_groups = opf_call_int(call, "offset_group", 1);
    job.groups        = opf_call_int(call, "group", 1);
    for (int32_t i = 0; i < job.windows.rank; i++)
        job.taps *= job.windows.kernel[i];
    OPF_FAIL_IF(error,
                !opf_mul_size((size_t)x->dims[1], (size_t)job.taps, &n_seen) ||
                    !opf_add_size(n_seen, n_weights, &bytes) || !opf_mul_size(bytes, sizeof(double), &bytes),
                OPF_LIMIT, "the windows are too large");
    job.weights = opf_heap_alloc(call->heap, bytes);
    OPF_OOM_IF(error, job.weights == NULL);
    job.seen = job.weights + n_weights;
    for (size_t i = 0; i < n_weights; i++)
        job.weights[i] = opf_view_f64(w, opf_view_offset(w, i));
    run_places(&job);
    opf_heap_free(call->heap, job.weights, bytes);
    return OPF_OK;
}

/* ---- signature ---- */

static const opf_import_row rows[]  = {{22, opf_import_same, opf_lower_no_bfloat16}};
static const opf_attr_def   attrs[] = {
      {.name = "dilations", .type = OPF_ATTR_INTS},    {.name = "group", .type = OPF_ATTR_INT, .i = 1},
      {.name = "kernel_shape", .type = OPF_ATTR_INTS}, {.name = "offset_group", .type = OPF_ATTR_INT, .i = 1},
      {.name = "pads", .type = OPF_ATTR_INTS},         {.name = "strides", .type = OPF_ATTR_INTS}};

const opf_op opf_op_DeformConv = {.name     = "DeformConv",
                                  .domain   = "",
                                  .since    = 19,
                                  .traits   = OPF_CONTRACTION,
                                  .inputs   = OPF_PARAMS({"X", 'T', OPF_TYPES_FLOAT, 0}, {"W", 'T', OPF_TYPES_FLOAT, 0},
                                                         {"offset", 'T', OPF_TYPES_FLOAT, 0},
                                                         {"B", 'T', OPF_TYPES_FLOAT, OPF_OPTIONAL},
                                                         {"mask", 'T', OPF_TYPES_FLOAT, OPF_OPTIONAL}),
                                  .n_inputs = 5,
                                  .outputs  = OPF_PARAMS({"Y", 'T', OPF_TYPES_FLOAT, 0}),
                                  .n_outputs = 1,
                                  .attrs     = attrs,
                                  .n_attrs   = OPF_COUNT(attrs),
                                  .rows      = rows,
                                  .n_rows    = OPF_COUNT(rows),
                                  .infer     = infer_deform_conv,
                                  .reference = run_deform_conv};
