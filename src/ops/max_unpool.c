/* SPDX-License-Identifier: Apache-2.0 */
/* MaxUnpool: values go back to where MaxPool found them. Indices count in the image that kernel, strides and pads
   imply; output_shape places that image at the corner of a larger one. */
#include "ops/check.h"
#include "ops/elementwise.h"
#include "ops/lift.h"
#include "ops/movement.h"
#include "ops/window.h"

enum { X = 0, INDICES, OUTPUT_SHAPE };

static opf_dim image_size(const opf_windows *w, int32_t i, opf_dims *dims, opf_dim in)
{
    const opf_dim last = opf_dim_mul(dims, opf_dim_sub(dims, in, opf_dim_number(1)), opf_dim_number(w->stride[i]));
    return opf_dim_add(dims, last, opf_dim_number(w->kernel[i] - w->pad_begin[i] - w->pad_end[i]));
}

static opf_status infer_max_unpool(opf_infer *infer, opf_error *error)
{
    const opf_info *x = infer->in[X], *indices = infer->in[INDICES];
    int64_t         shape[OPF_MAX_RANK];
    opf_dim         dims[OPF_MAX_RANK];
    int32_t         n;
    opf_windows     windows;
    if (x->rank >= 0 && x->rank < 3)
        return opf_refuse_shapes(infer, X, X, error, "must have rank 3 or more");
    if (x->rank < 0)
        return OPF_OK;
    bool fits = indices->rank < 0 || indices->rank == x->rank;
    for (int32_t i = 0; i < indices->rank && fits; i++)
        fits = !opf_dims_clash(indices->dims[i], x->dims[i]);
    if (!fits)
        return opf_refuse_shapes(infer, X, INDICES, error, "both must have the same shape");
    OPF_TRY(opf_windows_read(infer->node->attrs, infer->node->n_attrs, x->rank - 2, NULL, &windows, error));
    if (!opf_infer_has(infer, OUTPUT_SHAPE)) {
        dims[0] = x->dims[0];
        dims[1] = x->dims[1];
        for (int32_t i = 2; i < x->rank; i++)
            dims[i] = image_size(&windows, i - 2, infer->dims, x->dims[i]);
        return opf_infer_set(infer, 0, x->rank, dims, error);
    }
    if (!opf_infer_numbers(infer, OUTPUT_SHAPE, shape, OPF_MAX_RANK, &n))
        return opf_infer_unknown_dims(infer, 0, x->rank, error);
    OPF_FAIL_IF(error, n != x->rank, OPF_INVALID_INPUT, "output_shape has %d numbers, must have %d", (int)n,
                (int)x->rank);
    for (int32_t i = 0; i < n; i++)
        dims[i] = opf_dim_number(shape[i]);
    return opf_infer_set(infer, 0, n, dims, error);
}

/* The offset in y of number `flat` of the image; false when it has none. */
static bool find_offset(const opf_view *y, const int64_t *image, int64_t flat, int64_t *offset)
{
    *offset = 0;
    if (flat < 0)
        return false;
    for (int32_t i = y->rank - 1; i >= 0; i--) {
        const int64_t position = image[i] > 0 ? flat % image[i] : 0;
        if (image[i] <= 0 || position >= y->dims[i])
            return false;
        *offset += position * y->strides[i];
        flat /= image[i];
    }
    return flat == 0;
}

static opf_status image_of(const opf_call *call, int64_t *image, opf_error *error)
{
    const opf_view *x = &call->in[X];
    opf_windows     w;
    OPF_TRY(opf_windows_read(call->attrs, call->n_attrs, x->rank - 2, NULL, &w, error));
    for (int32_t i = 0; i < x->rank; i++) {
        image[i] = x->dims[i];
        if (i < 2)
            continue;
        OPF_FAIL_IF(error, __builtin_mul_overflow(x->dims[i] - 1, w.stride[i - 2], &image[i]), OPF_LIMIT,
                    "axis %d has size %lld", (int)i, (long long)x->dims[i]);
        image[i] += w.kernel[i - 2] - w.pad_begin[i - 2] - w.pad_end[i - 2];
    }
    return OPF_OK;
}

static opf_status run_max_unpool(const opf_call *call, opf_error *error)
{
    const opf_view *x = &call->in[X], *indices = &call->in[INDICES], *views[] = {x, indices};
    opf_view       *y    = &call->out[0];
    const opf_view *zero = y;
    int64_t         image[OPF_MAX_RANK], offset;
    opf_walk        walk;
    OPF_TRY(image_of(call, image, error));
    for (opf_walk_init(&walk, x->rank, x->dims, 2, views); walk.left > 0; opf_walk_next(&walk)) {
        const int64_t flat = opf_view_i64(indices, walk.offset[1]);
        OPF_FAIL_IF(error, !find_offset(y, image, flat, &offset), OPF_INVALID_INPUT,
                    "index %lld lies outside the output", (long long)flat);
    }
    for (opf_walk_init(&walk, y->rank, y->dims, 1, &zero); walk.left > 0; opf_walk_next(&walk))
        opf_view_put_f64(y, walk.offset[0], 0);
    for (opf_walk_init(&walk, x->rank, x->dims, 2, views); walk.left > 0; opf_walk_next(&walk))
        if (find_offset(y, image, opf_view_i64(indices, walk.offset[1]), &offset))
            opf_view_put_f64(y, offset, opf_view_f64(x, walk.offset[0]));
    return OPF_OK;
}

static const opf_import_row rows[]  = {{22, opf_import_same, opf_lower_no_bfloat16}};
static const opf_attr_def   attrs[] = {{.name = "kernel_shape", .type = OPF_ATTR_INTS, .required = true},
                                       {.name = "pads", .type = OPF_ATTR_INTS},
                                       {.name = "strides", .type = OPF_ATTR_INTS}};

const opf_op opf_op_MaxUnpool = {.name = "MaxUnpool",
                                 .domain = "",
                                 .since = 9,
                                 .inputs =
                                     OPF_PARAMS({"X", 'T', OPF_TYPES_FLOAT, 0}, {"I", 0, OPF_TYPE_BIT(OPF_INT64), 0},
                                                {"output_shape", 0, OPF_TYPE_BIT(OPF_INT64), OPF_OPTIONAL}),
                                 .n_inputs = 3,
                                 .outputs = OPF_PARAMS({"output", 'T', OPF_TYPES_FLOAT, 0}),
                                 .n_outputs = 1,
                                 .attrs = attrs,
                                 .n_attrs = OPF_COUNT(attrs),
                                 .rows = rows,
                                 .n_rows = OPF_COUNT(rows),
                                 .traits = OPF_MOVEMENT,
                                 .infer = infer_max_unpool,
                                 .reference = run_max_unpool};
