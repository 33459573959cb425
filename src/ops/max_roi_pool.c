/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/check.h"
#include "ops/lift.h"
#include "ops/reference.h"

#include <math.h>

static opf_status get_size(const opf_attr *attr, int64_t size[2], opf_error *error)
{
    OPF_FAIL_IF(error, attr == NULL || attr->n != 2, OPF_INVALID_MODEL, "pooled_shape must have 2 elements");
    for (int32_t i = 0; i < 2; i++) {
        size[i] = attr->ints[i];
        OPF_FAIL_IF(error, size[i] < 1, OPF_INVALID_MODEL, "pooled_shape[%d] is %lld, must be 1 at least", i,
                    (long long)size[i]);
    }
    return OPF_OK;
}

static opf_status infer_max_roi_pool(opf_infer *infer, opf_error *error)
{
    const opf_info *x = infer->in[0], *rois = infer->in[1];
    int64_t         size[2];
    opf_dim         dims[4];
    OPF_TRY(get_size(opf_node_attr(infer->node, "pooled_shape"), size, error));
    OPF_FAIL_IF(error, x->rank >= 0 && x->rank != 4, OPF_INVALID_MODEL, "X has rank %d, must be 4", x->rank);
    if (rois->rank >= 0 && (rois->rank != 2 || opf_dims_clash(rois->dims[1], opf_dim_number(5))))
        return opf_refuse_shapes(infer, 1, 1, error, "must have shape [n,5]");
    dims[0] = rois->rank >= 0 ? rois->dims[0] : opf_dim_unknown(infer->dims);
    dims[1] = x->rank >= 0 ? x->dims[1] : opf_dim_unknown(infer->dims);
    dims[2] = opf_dim_number(size[0]);
    dims[3] = opf_dim_number(size[1]);
    return opf_infer_set(infer, 0, 4, dims, error);
}

typedef struct region {
    int64_t batch;
    double  start[2], bin[2]; /* height, width */
} region;

/* Regions are rounded to whole pixels, and are one pixel at least. */
static opf_status get_region(const opf_call *call, int64_t i, const int64_t size[2], region *r, opf_error *error)
{
    const opf_view *x = &call->in[0], *rois = &call->in[1];
    const double    scale = (double)opf_call_float(call, "spatial_scale", 1);
    const double    batch = opf_view_f64(rois, i * rois->strides[0]);
    OPF_FAIL_IF(error, !(batch >= 0 && batch < (double)x->dims[0]), OPF_INVALID_INPUT,
                "region %lld is of image %g, X has %lld", (long long)i, batch, (long long)x->dims[0]);
    r->batch = (int64_t)batch;
    for (int32_t axis = 0; axis < 2; axis++) {
        const int64_t at = i * rois->strides[0];
        r->start[axis]   = round(opf_view_f64(rois, at + (2 - axis) * rois->strides[1]) * scale);
        double end       = round(opf_view_f64(rois, at + (4 - axis) * rois->strides[1]) * scale);
        double length    = fmax(end - r->start[axis] + 1, 1);
        OPF_FAIL_IF(error, !isfinite(length) || !isfinite(r->start[axis]), OPF_INVALID_INPUT,
                    "region %lld is not finite", (long long)i);
        r->bin[axis] = length / (double)size[axis];
    }
    return OPF_OK;
}

static double pool_bin(const opf_view *x, int64_t base, const region *r, const int64_t bin[2])
{
    int64_t low[2], high[2];
    double  result = 0; /* of an empty bin */
    for (int32_t axis = 0; axis < 2; axis++) {
        double first = floor((double)bin[axis] * r->bin[axis]) + r->start[axis];
        double last  = ceil((double)(bin[axis] + 1) * r->bin[axis]) + r->start[axis];
        double n     = (double)x->dims[2 + axis];
        low[axis]    = (int64_t)fmin(fmax(first, 0), n);
        high[axis]   = (int64_t)fmin(fmax(last, 0), n);
    }
    for (int64_t i = low[0]; i < high[0]; i++)
        for (int64_t j = low[1]; j < high[1]; j++) {
            double pixel = opf_view_f64(x, base + i * x->strides[2] + j * x->strides[3]);
            bool   first = i == low[0] && j == low[1];
            result       = first || isnan(pixel) || pixel > result ? pixel : result;
        }
    return result;
}

static opf_status reference_max_roi_pool(const opf_call *call, opf_error *error)
{
    const opf_view *x       = &call->in[0];
    opf_view       *y       = &call->out[0];
    const opf_view *views[] = {y};
    region          r       = {.batch = 0};
    int64_t         size[2];
    opf_walk        walk;
    OPF_TRY(get_size(opf_call_attr(call, "pooled_shape"), size, error));
    for (int64_t i = 0; i < y->dims[0]; i++)
        OPF_TRY(get_region(call, i, size, &r, error));
    for (opf_walk_init(&walk, 4, y->dims, 1, views); walk.left != 0; opf_walk_next(&walk)) {
        if (walk.index[1] == 0 && walk.index[2] == 0 && walk.index[3] == 0)
            OPF_TRY(get_region(call, walk.index[0], size, &r, error));
        opf_view_put_f64(y, walk.offset[0],
                         pool_bin(x, r.batch * x->strides[0] + walk.index[1] * x->strides[1], &r, &walk.index[2]));
    }
    return OPF_OK;
}

const opf_op opf_op_MaxRoiPool = {
    .name      = "MaxRoiPool",
    .domain    = "",
    .since     = 1,
    .inputs    = (const opf_param[]){{"X", 'T', OPF_TYPES_FLOAT, 0}, {"rois", 'T', OPF_TYPES_FLOAT, 0}},
    .n_inputs  = 2,
    .outputs   = (const opf_param[]){{"Y", 'T', OPF_TYPES_FLOAT, 0}},
    .n_outputs = 1,
    .attrs     = (const opf_attr_def[]){{.name = "pooled_shape", .type = OPF_ATTR_INTS, .required = true},
                                        {.name = "spatial_scale", .type = OPF_ATTR_FLOAT, .f = 1}},
    .n_attrs   = 2,
    .rows      = (const opf_import_row[]){{22, opf_import_same, opf_lower_no_bfloat16}},
    .n_rows    = 1,
    .infer     = infer_max_roi_pool,
    .reference = reference_max_roi_pool,
};
