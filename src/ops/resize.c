/* SPDX-License-Identifier: Apache-2.0 */
/* Resize. Floats in double, rounded once; nearest moves elements of any type. */
#include "ops/resize.h"

#include "ops/call.h"
#include "ops/elementwise.h"
#include "ops/lift.h"

#include <math.h>
#include <string.h>

enum { ROI = 1, SCALES = 2, SIZES = 3 };

/* ---- inference ---- */

/* An input that counts: there, and not empty. Its length must be known. */
static opf_status get_length(const opf_infer *infer, uint32_t input, int64_t *n, bool *known, opf_error *error)
{
    *n = 0;
    if (!opf_infer_has(infer, input))
        return OPF_OK;
    const opf_info *info = infer->in[input];
    OPF_FAIL_IF(error, info->rank >= 0 && info->rank != 1, OPF_INVALID_MODEL, "%s has rank %d, must be 1",
                input == SCALES ? "scales" : "sizes", info->rank);
    if (info->rank < 0 || !opf_dim_is_number(info->dims[0]))
        *known = false;
    else
        *n = info->dims[0].n;
    return OPF_OK;
}

static opf_status check_lengths(int64_t n_scales, int64_t n_sizes, int32_t n_axes, opf_error *error)
{
    OPF_FAIL_IF(error, (n_scales == 0) == (n_sizes == 0) && n_axes != 0, OPF_INVALID_MODEL,
                n_scales == 0 ? "scales and sizes are both missing" : "scales and sizes are both given");
    int64_t n = n_scales != 0 ? n_scales : n_sizes;
    OPF_FAIL_IF(error, n != n_axes, OPF_INVALID_MODEL, "%s has %lld elements, %d axes are resized",
                n_scales != 0 ? "scales" : "sizes", (long long)n, n_axes);
    return OPF_OK;
}

/* Exact on symbols where the scale is a whole number or one over a power of two. */
static opf_status scale_dim(opf_infer *infer, opf_dim d, double scale, opf_dim *result, opf_error *error)
{
    int64_t n;
    int     exponent;
    if (opf_dim_is_number(d)) {
        OPF_TRY(opf_resize_scaled(d.n, scale, &n, error));
        *result = opf_dim_number(n);
    } else if (scale >= 1 && scale == floor(scale) && scale < 0x1p24) {
        *result = opf_dim_mul(infer->dims, d, opf_dim_number((int64_t)scale));
    } else if (scale > 0x1p-24 && frexp(scale, &exponent) == 0.5) {
        *result = opf_dim_div(infer->dims, d, opf_dim_number((int64_t)(1 / scale)));
    } else {
        *result = opf_dim_unknown(infer->dims);
    }
    return OPF_OK;
}

static opf_status infer_scaled(opf_infer *infer, const int32_t *axes, int32_t n_axes, opf_dim *dims, opf_error *error)
{
    double  scales[OPF_MAX_RANK];
    int32_t n;
    bool    known = opf_infer_floats(infer, SCALES, scales, OPF_MAX_RANK, &n) && n == n_axes;
    for (int32_t k = 0; k < n_axes; k++)
        if (known)
            OPF_TRY(scale_dim(infer, dims[axes[k]], scales[k], &dims[axes[k]], error));
        else
            dims[axes[k]] = opf_dim_unknown(infer->dims);
    return OPF_OK;
}

static opf_status infer_sized(opf_infer *infer, const opf_resize *r, const int32_t *axes, int32_t n_axes,
                              opf_dim *dims, opf_error *error)
{
    const opf_dim  *sizes;
    opf_resize_axis numbers[OPF_MAX_RANK];
    int64_t         wanted[OPF_MAX_RANK];
    int32_t         n;
    bool            known = opf_infer_values(infer, SIZES, &sizes, &n) && n == n_axes, all_numbers = known;
    for (int32_t k = 0; k < n_axes; k++) {
        all_numbers = all_numbers && opf_dim_is_number(sizes[k]) && opf_dim_is_number(dims[axes[k]]);
        if (all_numbers) {
            numbers[k].n = dims[axes[k]].n;
            wanted[k]    = sizes[k].n;
        }
        dims[axes[k]] = known && r->policy == OPF_RESIZE_STRETCH ? sizes[k] : opf_dim_unknown(infer->dims);
    }
    if (!all_numbers)
        return OPF_OK;
    OPF_TRY(opf_resize_sized(r, wanted, n_axes, numbers, error));
    for (int32_t k = 0; k < n_axes; k++)
        dims[axes[k]] = opf_dim_number(numbers[k].n_out);
    return OPF_OK;
}

static opf_status check_type(const opf_resize *r, opf_type type, opf_error *error)
{
    opf_types wide = OPF_TYPE_BIT(OPF_INT64) | OPF_TYPE_BIT(OPF_UINT64) | OPF_TYPE_BIT(OPF_COMPLEX64) | OPF_TYPES_BOOL;
    OPF_FAIL_IF(error, r->mode != OPF_RESIZE_NEAREST && opf_types_have(wide, type), OPF_UNSUPPORTED,
                "type %s is resized in mode nearest only", opf_type_name(type));
    return OPF_OK;
}

static opf_status infer_resize(opf_infer *infer, opf_error *error)
{
    const opf_info *x = infer->in[0];
    opf_resize      r;
    opf_dim         dims[OPF_MAX_RANK];
    int32_t         axes[OPF_MAX_RANK], n_axes;
    int64_t         n_scales, n_sizes;
    bool            known = true;
    OPF_TRY(opf_resize_read(infer->node->attrs, infer->node->n_attrs, &r, error));
    OPF_TRY(check_type(&r, x->type, error));
    OPF_TRY(get_length(infer, SCALES, &n_scales, &known, error));
    OPF_TRY(get_length(infer, SIZES, &n_sizes, &known, error));
    if (x->rank < 0)
        return OPF_OK;
    OPF_TRY(opf_resize_axes(&r, x->rank, axes, &n_axes, error));
    for (int32_t i = 0; i < x->rank; i++)
        dims[i] = x->dims[i];
    if (known)
        OPF_TRY(check_lengths(n_scales, n_sizes, n_axes, error));
    for (int32_t k = 0; k < n_axes && !known; k++)
        dims[axes[k]] = opf_dim_unknown(infer->dims);
    if (known && n_scales != 0)
        OPF_TRY(infer_scaled(infer, axes, n_axes, dims, error));
    else if (known)
        OPF_TRY(infer_sized(infer, &r, axes, n_axes, dims, error));
    return opf_infer_set(infer, 0, x->rank, dims, error);
}

/* ---- on data ---- */

static int64_t length_of(const opf_call *call, uint32_t input)
{
    return opf_call_has(call, input) ? call->in[input].dims[0] : 0;
}

static double number_of(const opf_call *call, uint32_t input, int64_t i)
{
    return opf_view_f64(&call->in[input], i * call->in[input].strides[0]);
}

opf_status opf_resize_geometry(const opf_call *call, opf_resize *r, opf_resize_axis all[OPF_MAX_RANK], opf_error *error)
{
    const opf_view *x = &call->in[0];
    const int64_t   n_scales = length_of(call, SCALES), n_sizes = length_of(call, SIZES), n_roi = length_of(call, ROI);
    opf_resize_axis some[OPF_MAX_RANK];
    int64_t         sizes[OPF_MAX_RANK];
    int32_t         axes[OPF_MAX_RANK], n;
    OPF_TRY(opf_resize_read(call->attrs, call->n_attrs, r, error));
    OPF_TRY(opf_resize_axes(r, x->rank, axes, &n, error));
    OPF_TRY(check_lengths(n_scales, n_sizes, n, error));
    bool has_roi = r->coordinates == OPF_RESIZE_TF_CROP_AND_RESIZE;
    OPF_FAIL_IF(error, has_roi && n_roi != 2 * n, OPF_INVALID_INPUT, "roi has %lld elements, %d axes need %d",
                (long long)n_roi, n, 2 * n);
    for (int32_t i = 0; i < x->rank; i++)
        all[i] = (opf_resize_axis){.n = x->dims[i], .n_out = x->dims[i], .scale = 1, .roi = {0, 1}};
    for (int32_t k = 0; k < n; k++) {
        some[k] = all[axes[k]];
        for (int32_t end = 0; end < 2 && has_roi; end++)
            some[k].roi[end] = number_of(call, ROI, k + end * n);
        if (n_sizes != 0) {
            sizes[k] = opf_view_i64(&call->in[SIZES], k * call->in[SIZES].strides[0]);
            continue;
        }
        some[k].scale = number_of(call, SCALES, k);
        OPF_TRY(opf_resize_scaled(some[k].n, some[k].scale, &some[k].n_out, error));
    }
    if (n_sizes != 0)
        OPF_TRY(opf_resize_sized(r, sizes, n, some, error));
    for (int32_t k = 0; k < n; k++)
        all[axes[k]] = some[k];
    return OPF_OK;
}

static opf_status resolve_resize(const opf_call *call, opf_info *out, opf_arena *arena, opf_error *error)
{
    opf_resize      r;
    opf_resize_axis axes[OPF_MAX_RANK];
    int64_t         dims[OPF_MAX_RANK];
    OPF_TRY(opf_resize_geometry(call, &r, axes, error));
    for (int32_t i = 0; i < call->in[0].rank; i++)
        dims[i] = axes[i].n_out;
    return opf_resolve_set(&out[0], call->in[0].rank, dims, arena, error);
}

/* ---- taps ---- */

/* Taps of all positions of an axis, one after the other. */
typedef struct taps {
    size_t   n; /* a position; 0: position i reads place i */
    int64_t *places; /* times the stride; -1 in place of the first tap: outside */
    double  *weights;
    size_t   count, bytes;
} taps;

static opf_status make_taps(const opf_call *call, const opf_resize *r, const opf_resize_axis *axis, int64_t stride,
                            taps *t, opf_error *error)
{
    t->n = opf_resize_taps(r, axis);
    if (t->n == 0)
        return OPF_OK;
    OPF_OOM_IF(error, !opf_mul_size(t->n, (size_t)axis->n_out, &t->count) ||
                          !opf_mul_size(t->count, sizeof(int64_t) + sizeof(double), &t->bytes));
    t->places = opf_heap_alloc(call->heap, t->bytes);
    OPF_OOM_IF(error, t->places == NULL);
    t->weights = (double *)(void *)(t->places + t->count);
    for (int64_t at = 0; at < axis->n_out; at++) {
        double  *weights = t->weights + (size_t)at * t->n;
        int64_t *places  = t->places + (size_t)at * t->n;
        bool     inside  = opf_resize_weights(r, axis, at, t->n, places, weights);
        for (size_t k = 0; k < t->n && inside; k++)
            places[k] *= stride;
        if (!inside)
            weights[0] = (double)NAN;
    }
    return OPF_OK;
}

/* ---- the kernel ---- */

typedef struct sampler {
    const opf_view *x;
    opf_view       *y;
    const taps     *taps;
    const int64_t  *index; /* of the output */
    bool            is_float;
} sampler;

/* The sum over taps of all axes from `axis` on; taps of weight 0 are not read. */
static double sample(const sampler *s, int32_t axis, int64_t offset)
{
    if (axis == s->x->rank)
        return s->is_float ? opf_view_f64(s->x, offset) : (double)opf_view_i64(s->x, offset);
    const taps *t = &s->taps[axis];
    if (t->n == 0)
        return sample(s, axis + 1, offset + s->index[axis] * s->x->strides[axis]);
    const int64_t *places  = t->places + (size_t)s->index[axis] * t->n;
    const double  *weights = t->weights + (size_t)s->index[axis] * t->n;
    double         sum     = 0;
    for (size_t k = 0; k < t->n; k++)
        if (weights[k] != 0)
            sum += weights[k] * sample(s, axis + 1, offset + places[k]);
    return sum;
}

/* To the nearest integer, ties to even, within the type. */
static void put_rounded(opf_view *y, int64_t offset, double value)
{
    if (opf_types_have(OPF_TYPES_FLOAT, y->type)) {
        opf_view_put_f64(y, offset, value);
        return;
    }
    const bool   is_signed = opf_types_have(OPF_TYPES_SINT, y->type);
    const double high = ldexp(1, (int)opf_type_bits(y->type) - (is_signed ? 1 : 0)), low = is_signed ? -high : 0;
    opf_view_put_i64(y, offset, opf_double_to_int(fmax(low, fmin(high - 1, rint(value)))));
}

static bool is_outside(const sampler *s)
{
    for (int32_t i = 0; i < s->x->rank; i++)
        if (s->taps[i].n != 0 && isnan(s->taps[i].weights[(size_t)s->index[i] * s->taps[i].n]))
            return true;
    return false;
}

static void put_extrapolation(opf_view *y, int64_t offset, double value)
{
    if (y->type == OPF_COMPLEX64) {
        const float parts[2] = {(float)value, 0};
        memcpy((char *)y->data + offset * (int64_t)sizeof parts, parts, sizeof parts);
    } else if (y->type == OPF_INT64 || y->type == OPF_UINT64 || y->type == OPF_BOOL) {
        opf_view_put_i64(y, offset,
                         y->type == OPF_UINT64 ? (int64_t)opf_double_to_uint(value) : opf_double_to_int(value));
    } else {
        put_rounded(y, offset, value);
    }
}

static void resize_all(const sampler *s, const opf_resize *r)
{
    const opf_view *views[] = {s->y};
    opf_walk        walk;
    sampler         at = *s;
    at.index           = walk.index;
    for (opf_walk_init(&walk, s->y->rank, s->y->dims, 1, views); walk.left != 0; opf_walk_next(&walk)) {
        if (r->coordinates == OPF_RESIZE_TF_CROP_AND_RESIZE && is_outside(&at)) {
            put_extrapolation(s->y, walk.offset[0], r->extrapolation);
            continue;
        }
        if (r->mode != OPF_RESIZE_NEAREST) {
            put_rounded(s->y, walk.offset[0], sample(&at, 0, 0));
            continue;
        }
        int64_t from = 0;
        for (int32_t i = 0; i < s->x->rank; i++)
            from += s->taps[i].n == 0 ? walk.index[i] * s->x->strides[i] : s->taps[i].places[walk.index[i]];
        opf_move_element(s->y, walk.offset[0], s->x, from);
    }
}

static opf_status reference_resize(const opf_call *call, opf_error *error)
{
    const opf_view *x = &call->in[0];
    opf_resize      r;
    opf_resize_axis axes[OPF_MAX_RANK];
    taps            all[OPF_MAX_RANK] = {{0}};
    opf_status      status = OPF_OK;
    OPF_TRY(opf_resize_geometry(call, &r, axes, error));
    if (opf_view_count(&call->out[0]) == 0)
        return OPF_OK;
    for (int32_t i = 0; i < x->rank && status == OPF_OK; i++)
        status = make_taps(call, &r, &axes[i], x->strides[i], &all[i], error);
    const sampler s = {.x        = x,
                       .y        = &call->out[0],
                       .taps     = all,
                       .is_float = opf_types_have(OPF_TYPES_FLOAT, x->type)};
    if (status == OPF_OK)
        resize_all(&s, &r);
    for (int32_t i = 0; i < x->rank; i++)
        opf_heap_free(call->heap, all[i].places, all[i].bytes);
    return status;
}

static const opf_attr_def attrs[] = {
    {.name = "antialias", .type = OPF_ATTR_INT},
    {.name = "axes", .type = OPF_ATTR_INTS},
    {.name = "coordinate_transformation_mode", .type = OPF_ATTR_STRING, .s = "half_pixel"},
    {.name = "cubic_coeff_a", .type = OPF_ATTR_FLOAT, .f = -0.75f},
    {.name = "exclude_outside", .type = OPF_ATTR_INT},
    {.name = "extrapolation_value", .type = OPF_ATTR_FLOAT},
    {.name = "keep_aspect_ratio_policy", .type = OPF_ATTR_STRING, .s = "stretch"},
    {.name = "mode", .type = OPF_ATTR_STRING, .s = "nearest"},
    {.name = "nearest_mode", .type = OPF_ATTR_STRING, .s = "round_prefer_floor"},
};

#define ROI_TYPES (OPF_TYPES_FLOAT & ~OPF_TYPE_BIT(OPF_BFLOAT16))

const opf_op opf_op_Resize = {
    .name      = "Resize",
    .domain    = "",
    .since     = 10,
    .inputs    = (const opf_param[]){{"X", 'T', OPF_TYPES_MOVED, 0},
                                     {"roi", 0, ROI_TYPES, OPF_OPTIONAL},
                                     {"scales", 0, OPF_TYPE_BIT(OPF_FLOAT), OPF_OPTIONAL},
                                     {"sizes", 0, OPF_TYPE_BIT(OPF_INT64), OPF_OPTIONAL}},
    .n_inputs  = 4,
    .outputs   = (const opf_param[]){{"Y", 'T', OPF_TYPES_MOVED, 0}},
    .n_outputs = 1,
    .attrs     = attrs,
    .n_attrs   = OPF_COUNT(attrs),
    .rows      = (const opf_import_row[]){{11, opf_resize_lift_11, opf_resize_lower_11},
                                          {13, opf_import_same, opf_resize_lower_13},
                                          {18, opf_import_same, opf_resize_lower_18},
                                          {19, opf_import_same, opf_resize_lower_19}},
    .n_rows    = 4,
    .infer     = infer_resize,
    .reference = reference_resize,
    .resolve   = resolve_resize,
    .notes     = "modes linear and cubic: floats, and integers of up to 32 bits",
};
