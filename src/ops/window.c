/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/window.h"

#include <string.h>

/* Kernels, strides, dilations and pads beyond this are refused: with images below LARGEST_IMAGE nothing here
   overflows. */
#define LARGEST_NUMBER ((int64_t)1 << 31)
#define LARGEST_IMAGE  ((int64_t)1 << 48)

/* Towards minus infinity; b > 0. */
static int64_t floor_div(int64_t a, int64_t b)
{
    return a >= 0 ? a / b : -((-a + b - 1) / b);
}

static opf_status read_list(const opf_attr *attrs, uint32_t n_attrs, const char *name, int32_t n, int64_t least,
                            int64_t otherwise, int64_t *list, opf_error *error)
{
    const opf_attr *attr = opf_attrs_find(attrs, n_attrs, name);
    for (int32_t i = 0; i < n; i++)
        list[i] = otherwise;
    if (attr == NULL || (attr->n == 0 && attr->type == OPF_ATTR_INTS))
        return OPF_OK;
    OPF_FAIL_IF(error, attr->type != OPF_ATTR_INTS || attr->n != (uint32_t)n, OPF_INVALID_MODEL,
                "%s has %u numbers, must have %d", name, attr->type == OPF_ATTR_INTS ? attr->n : 0, (int)n);
    for (int32_t i = 0; i < n; i++) {
        OPF_FAIL_IF(error, attr->ints[i] < least || attr->ints[i] > LARGEST_NUMBER, OPF_INVALID_MODEL,
                    "%s[%d] is %lld, must be at least %lld and at most 2^31", name, (int)i, (long long)attr->ints[i],
                    (long long)least);
        list[i] = attr->ints[i];
    }
    return OPF_OK;
}

static opf_status read_auto_pad(const opf_attr *attr, opf_auto_pad *auto_pad, opf_error *error)
{
    /* In the order of opf_auto_pad. */
    static const char *const names[] = {"NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"};

    *auto_pad = OPF_PAD_EXPLICIT;
    if (attr == NULL || (attr->type == OPF_ATTR_STRING && attr->n == 0))
        return OPF_OK;
    OPF_FAIL_IF(error, attr->type != OPF_ATTR_STRING, OPF_INVALID_MODEL, "auto_pad is no string");
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(attr->s, names[i]) == 0) {
            *auto_pad = (opf_auto_pad)i;
            return OPF_OK;
        }
    }
    return opf_fail(error, OPF_INVALID_MODEL, "auto_pad is \"%s\", must be NOTSET, SAME_UPPER, SAME_LOWER or VALID",
                    attr->s);
}

static opf_status read_kernel(const opf_attr *attrs, uint32_t n_attrs, const int64_t *kernel, opf_windows *windows,
                              opf_error *error)
{
    const opf_attr *shape = opf_attrs_find(attrs, n_attrs, "kernel_shape");
    bool            given = shape != NULL && shape->n > 0;
    OPF_FAIL_IF(error, !given && kernel == NULL && windows->rank > 0, OPF_INVALID_MODEL, "kernel_shape is missing");
    OPF_TRY(read_list(attrs, n_attrs, "kernel_shape", windows->rank, 1, 1, windows->kernel, error));
    for (int32_t i = 0; kernel != NULL && i < windows->rank; i++) {
        OPF_FAIL_IF(error, kernel[i] < 1 || kernel[i] > LARGEST_NUMBER, OPF_INVALID_MODEL,
                    "the weight has size %lld along spatial axis %d, must be at least 1", (long long)kernel[i], (int)i);
        OPF_FAIL_IF(error, given && kernel[i] != windows->kernel[i], OPF_INVALID_MODEL,
                    "kernel_shape[%d] is %lld, but the weight has size %lld there", (int)i,
                    (long long)windows->kernel[i], (long long)kernel[i]);
        windows->kernel[i] = kernel[i];
    }
    return OPF_OK;
}

opf_status opf_windows_read(const opf_attr *attrs, uint32_t n_attrs, int32_t rank, const int64_t *kernel,
                            opf_windows *windows, opf_error *error)
{
    memset(windows, 0, sizeof *windows);
    OPF_FAIL_IF(error, rank < 0 || rank > OPF_MAX_RANK - 2, OPF_INVALID_MODEL, "%d spatial axes", (int)rank);
    windows->rank      = rank;
    windows->is_pool   = kernel == NULL;
    windows->ceil_mode = opf_attrs_int(attrs, n_attrs, "ceil_mode", 0) != 0;
    OPF_TRY(read_auto_pad(opf_attrs_find(attrs, n_attrs, "auto_pad"), &windows->auto_pad, error));
    OPF_TRY(read_kernel(attrs, n_attrs, kernel, windows, error));
    OPF_TRY(read_list(attrs, n_attrs, "strides", rank, 1, 1, windows->stride, error));
    OPF_TRY(read_list(attrs, n_attrs, "dilations", rank, 1, 1, windows->dilation, error));
    if (windows->auto_pad != OPF_PAD_EXPLICIT)
        return OPF_OK; /* auto_pad wins over pads, as in other runtimes */
    int64_t pads[2 * OPF_MAX_RANK];
    OPF_TRY(read_list(attrs, n_attrs, "pads", 2 * rank, 0, 0, pads, error));
    memcpy(windows->pad_begin, pads, (size_t)rank * sizeof pads[0]);
    memcpy(windows->pad_end, pads + rank, (size_t)rank * sizeof pads[0]);
    return OPF_OK;
}

static bool is_same(const opf_windows *windows)
{
    return windows->auto_pad == OPF_PAD_SAME_UPPER || windows->auto_pad == OPF_PAD_SAME_LOWER;
}

static void resolve_same(opf_windows *windows, int32_t i, int64_t in, int64_t *out)
{
    *out          = (in + windows->stride[i] - 1) / windows->stride[i];
    int64_t total = (*out - 1) * windows->stride[i] + opf_windows_span(windows, i) - in;
    if (in == 0 || (total < 0 && !windows->is_pool))
        total = 0;
    windows->pad_begin[i] = windows->auto_pad == OPF_PAD_SAME_UPPER ? total / 2 : (total + 1) / 2;
    windows->pad_end[i]   = total - windows->pad_begin[i];
}

static opf_status resolve_axis(opf_windows *windows, int32_t i, int64_t in, int64_t *out, opf_error *error)
{
    OPF_FAIL_IF(error, in < 0 || in > LARGEST_IMAGE, OPF_LIMIT, "spatial axis %d has size %lld", (int)i, (long long)in);
    if (is_same(windows)) {
        resolve_same(windows, i, in, out);
        return OPF_OK;
    }
    int64_t stride = windows->stride[i];
    int64_t room   = in + windows->pad_begin[i] + windows->pad_end[i] - opf_windows_span(windows, i);
    if (room < 0) {
        OPF_FAIL_IF(error, in > 0, OPF_INVALID_INPUT,
                    "a window that spans %lld does not fit spatial axis %d of size %lld with pads %lld and %lld",
                    (long long)opf_windows_span(windows, i), (int)i, (long long)in, (long long)windows->pad_begin[i],
                    (long long)windows->pad_end[i]);
        *out = 0; /* no image, no places */
        return OPF_OK;
    }
    *out = (windows->ceil_mode ? (room + stride - 1) / stride : room / stride) + 1;
    /* ceil_mode may add a window that starts in the padding behind the image: ONNX drops it. */
    if (windows->ceil_mode && (*out - 1) * stride >= in + windows->pad_begin[i])
        *out -= 1;
    return OPF_OK;
}

opf_status opf_windows_resolve(opf_windows *windows, const int64_t *in, int64_t *out, opf_error *error)
{
    for (int32_t i = 0; i < windows->rank; i++)
        OPF_TRY(resolve_axis(windows, i, in[i], &out[i], error));
    return OPF_OK;
}

opf_status opf_windows_infer(opf_windows *windows, int32_t axis, opf_dims *dims, opf_dim in, opf_dim *out,
                             opf_error *error)
{
    if (opf_dim_is_number(in)) {
        int64_t places = 0;
        OPF_TRY(resolve_axis(windows, axis, in.n, &places, error));
        *out = opf_dim_number(places);
        return OPF_OK;
    }
    int64_t stride = windows->stride[axis];
    if (is_same(windows)) {
        *out = opf_dim_div(dims, opf_dim_add(dims, in, opf_dim_number(stride - 1)), opf_dim_number(stride));
        return OPF_OK;
    }
    int64_t span    = opf_windows_span(windows, axis);
    int64_t pad_end = windows->pad_end[axis];
    int64_t room    = windows->pad_begin[axis] + pad_end - span;
    int64_t extra   = 1; /* behind the floor */
    if (windows->ceil_mode) {
        room += stride - 1;
        if (stride == 1) {
            extra -= pad_end >= span; /* then the last window always starts behind the image */
        } else if (pad_end + stride > span) {
            *out = opf_dim_unknown(dims); /* whether it does depends on the size */
            return OPF_OK;
        }
    }
    opf_dim steps = opf_dim_div(dims, opf_dim_add(dims, in, opf_dim_number(room)), opf_dim_number(stride));
    *out          = opf_dim_add(dims, steps, opf_dim_number(extra));
    return OPF_OK;
}

void opf_windows_taps(const opf_windows *windows, int32_t axis, int64_t place, int64_t n, int64_t *first, int64_t *last)
{
    int64_t start    = place * windows->stride[axis] - windows->pad_begin[axis];
    int64_t dilation = windows->dilation[axis];
    int64_t low      = start >= 0 ? 0 : (-start + dilation - 1) / dilation;
    int64_t high     = floor_div(n - 1 - start, dilation) + 1;
    *last            = high < windows->kernel[axis] ? high : windows->kernel[axis];
    if (*last < 0)
        *last = 0;
    *first = low < *last ? low : *last;
}

bool opf_windows_is_pointwise(const opf_windows *windows)
{
    for (int32_t i = 0; i < windows->rank; i++) {
        if (windows->kernel[i] != 1 || windows->stride[i] != 1)
            return false;
        if (!is_same(windows) && (windows->pad_begin[i] != 0 || windows->pad_end[i] != 0))
            return false;
    }
    return true;
}
