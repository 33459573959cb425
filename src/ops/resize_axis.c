/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/infer.h"
#include "ops/resize.h"

#include <math.h>
#include <string.h>

/* ---- attributes ---- */

static opf_status find_name(const opf_call *call, const char *attr, const char *const *names, int n, int *found,
                            opf_error *error)
{
    const char *name = opf_call_string(call, attr, names[0]);
    for (*found = 0; *found < n; (*found)++)
        if (strcmp(names[*found], name) == 0)
            return OPF_OK;
    return opf_fail(error, OPF_INVALID_MODEL, "%s \"%s\" does not exist", attr, name);
}

opf_status opf_resize_read(const opf_attr *attrs, uint32_t n_attrs, opf_resize *r, opf_error *error)
{
    static const char *const modes[]       = {"nearest", "linear", "cubic"};
    static const char *const coordinates[] = {"half_pixel",    "half_pixel_symmetric", "pytorch_half_pixel",
                                              "align_corners", "asymmetric",           "tf_crop_and_resize",
                                              "tf_half_pixel_for_nn"};
    static const char *const roundings[]   = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"};
    static const char *const policies[]    = {"stretch", "not_larger", "not_smaller"};
    const opf_call           call          = {.attrs = attrs, .n_attrs = n_attrs};
    int                      mode, coordinate, rounding, policy;
    OPF_TRY(find_name(&call, "mode", modes, 3, &mode, error));
    OPF_TRY(find_name(&call, "coordinate_transformation_mode", coordinates, 7, &coordinate, error));
    OPF_TRY(find_name(&call, "nearest_mode", roundings, 4, &rounding, error));
    OPF_TRY(find_name(&call, "keep_aspect_ratio_policy", policies, 3, &policy, error));
    *r = (opf_resize){.mode            = (opf_resize_mode)mode,
                      .coordinates     = (opf_resize_coordinates)coordinate,
                      .rounding        = (opf_resize_rounding)rounding,
                      .policy          = (opf_resize_policy)policy,
                      .antialias       = opf_call_int(&call, "antialias", 0) != 0,
                      .exclude_outside = opf_call_int(&call, "exclude_outside", 0) != 0,
                      .cubic_a         = (double)opf_call_float(&call, "cubic_coeff_a", -0.75f),
                      .extrapolation   = (double)opf_call_float(&call, "extrapolation_value", 0),
                      .axes            = opf_call_attr(&call, "axes")};
    OPF_FAIL_IF(error, r->antialias && r->mode == OPF_RESIZE_NEAREST, OPF_INVALID_MODEL,
                "antialias is for modes linear and cubic, mode is nearest");
    return OPF_OK;
}

opf_status opf_resize_axes(const opf_resize *r, int32_t rank, int32_t axes[OPF_MAX_RANK], int32_t *n, opf_error *error)
{
    bool seen[OPF_MAX_RANK] = {false};
    *n                      = r->axes == NULL ? rank : (int32_t)r->axes->n;
    OPF_FAIL_IF(error, r->axes != NULL && r->axes->n > (uint32_t)rank, OPF_INVALID_MODEL, "%u axes, X has rank %d",
                r->axes->n, rank);
    for (int32_t k = 0; k < *n; k++) {
        OPF_TRY(opf_normalize_axis(r->axes == NULL ? k : r->axes->ints[k], rank, &axes[k], error));
        OPF_FAIL_IF(error, seen[axes[k]], OPF_INVALID_MODEL, "axis %d is there twice", axes[k]);
        seen[axes[k]] = true;
    }
    return OPF_OK;
}

/* ---- sizes ---- */

opf_status opf_resize_scaled(int64_t n, double scale, int64_t *n_out, opf_error *error)
{
    OPF_FAIL_IF(error, !(scale > 0) || isinf(scale), OPF_INVALID_INPUT, "a scale is %g, must be positive", scale);
    /* Other runtimes round the product to float, so that 0.7 of 10 is 7. */
    double size = floor((double)((float)n * (float)scale));
    OPF_FAIL_IF(error, size >= 0x1p62, OPF_INVALID_INPUT, "%lld elements cannot be scaled by %g", (long long)n, scale);
    *n_out = (int64_t)size;
    return OPF_OK;
}

opf_status opf_resize_sized(const opf_resize *r, const int64_t *sizes, int32_t n_axes, opf_resize_axis *axes,
                            opf_error *error)
{
    double common = 0;
    for (int32_t k = 0; k < n_axes; k++) {
        opf_resize_axis *a = &axes[k];
        OPF_FAIL_IF(error, sizes[k] < 0, OPF_INVALID_INPUT, "sizes[%d] is %lld, must be 0 at least", k,
                    (long long)sizes[k]);
        OPF_FAIL_IF(error, a->n == 0 && sizes[k] != 0, OPF_INVALID_INPUT,
                    "an empty axis cannot be resized to %lld elements", (long long)sizes[k]);
        a->n_out = sizes[k];
        a->scale = a->n == 0 ? 1 : (double)sizes[k] / (double)a->n;
        if (k == 0 || (r->policy == OPF_RESIZE_NOT_LARGER ? a->scale < common : a->scale > common))
            common = a->scale;
    }
    for (int32_t k = 0; k < n_axes && r->policy != OPF_RESIZE_STRETCH; k++) {
        double size = common * (double)axes[k].n + 0.5;
        OPF_FAIL_IF(error, size >= 0x1p62, OPF_INVALID_INPUT, "%lld elements cannot be scaled by %g",
                    (long long)axes[k].n, common);
        axes[k].scale = common;
        axes[k].n_out = (int64_t)size;
    }
    return OPF_OK;
}

/* ---- weights ---- */

/* How many taps a position has to the left of it, and as many to the right. */
static double reach(const opf_resize *r, const opf_resize_axis *axis)
{
    double support = r->mode == OPF_RESIZE_CUBIC ? 2 : 1;
    return r->antialias && axis->scale < 1 ? ceil(support / axis->scale) : support;
}

size_t opf_resize_taps(const opf_resize *r, const opf_resize_axis *axis)
{
    bool same = axis->scale == 1 && axis->n == axis->n_out &&
                (r->coordinates != OPF_RESIZE_TF_CROP_AND_RESIZE || (axis->roi[0] == 0 && axis->roi[1] == 1)) &&
                r->coordinates != OPF_RESIZE_TF_HALF_PIXEL_FOR_NN;
    if (same || axis->n_out == 0)
        return 0;
    return r->mode == OPF_RESIZE_NEAREST ? 1 : 2 * (size_t)reach(r, axis);
}

/* The place in the input, in its pixels. */
static double source(const opf_resize *r, const opf_resize_axis *axis, double at)
{
    const double n = (double)axis->n, length = axis->scale * n; /* before it is rounded down */
    switch (r->coordinates) {
    case OPF_RESIZE_ALIGN_CORNERS:
        return axis->n_out <= 1 || length == 1 ? 0 : at * (n - 1) / (length - 1);
    case OPF_RESIZE_ASYMMETRIC:
        return at / axis->scale;
    case OPF_RESIZE_TF_CROP_AND_RESIZE:
        if (axis->n_out <= 1 || length == 1)
            return 0.5 * (axis->roi[0] + axis->roi[1]) * (n - 1);
        return at * (axis->roi[1] - axis->roi[0]) * (n - 1) / (length - 1) + axis->roi[0] * (n - 1);
    case OPF_RESIZE_TF_HALF_PIXEL_FOR_NN:
        return (at + 0.5) / axis->scale;
    case OPF_RESIZE_PYTORCH_HALF_PIXEL:
        return axis->n_out <= 1 ? 0 : (at + 0.5) / axis->scale - 0.5;
    case OPF_RESIZE_HALF_PIXEL_SYMMETRIC:
        return n / 2 * (1 - (double)axis->n_out / length) + (at + 0.5) / axis->scale - 0.5;
    default:
        return (at + 0.5) / axis->scale - 0.5;
    }
}

/* Of a tap at distance x, in pixels of the coarser of input and output. */
static double weight(const opf_resize *r, double x)
{
    const double a = r->cubic_a, d = fabs(x);
    if (r->mode == OPF_RESIZE_LINEAR)
        return d < 1 ? 1 - d : 0;
    if (d <= 1)
        return ((a + 2) * d - (a + 3)) * d * d + 1;
    return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

static double clamp(double x, double high)
{
    return x > 0 ? fmin(x, high) : 0;
}

static double round_place(opf_resize_rounding rounding, double x)
{
    switch (rounding) {
    case OPF_RESIZE_FLOOR:
        return floor(x);
    case OPF_RESIZE_CEIL:
        return ceil(x);
    case OPF_RESIZE_ROUND_PREFER_CEIL:
        return x - floor(x) >= 0.5 ? ceil(x) : floor(x);
    default:
        return x - floor(x) > 0.5 ? ceil(x) : floor(x);
    }
}

bool opf_resize_weights(const opf_resize *r, const opf_resize_axis *axis, int64_t at, size_t n_taps, int64_t *places,
                        double *weights)
{
    const double x = source(r, axis, (double)at), high = (double)(axis->n - 1);
    if (r->coordinates == OPF_RESIZE_TF_CROP_AND_RESIZE && !(x >= 0 && x <= high))
        return false;
    if (r->mode == OPF_RESIZE_NEAREST) {
        places[0]  = (int64_t)clamp(round_place(r->rounding, x), high);
        weights[0] = 1;
        return true;
    }
    const double squeeze = r->antialias && axis->scale < 1 ? axis->scale : 1;
    const double first   = ceil(x) - (double)(n_taps / 2);
    double       sum     = 0;
    for (size_t t = 0; t < n_taps; t++) {
        double place = first + (double)t;
        bool   left_out = r->exclude_outside && (place < 0 || place > high);
        weights[t]      = left_out ? 0 : weight(r, (place - x) * squeeze);
        places[t]       = (int64_t)clamp(place, high);
        sum += weights[t];
    }
    for (size_t t = 0; t < n_taps && sum != 0 && (r->antialias || r->exclude_outside); t++)
        weights[t] /= sum;
    return true;
}
