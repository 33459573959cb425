/* SPDX-License-Identifier: Apache-2.0 */
/* Conv: any spatial rank. The reference kernel is a product of weights [M/group][C/group * taps] with the image, whose
   columns of taps are gathered block by block. */
#include "ops/check.h"
#include "ops/lift.h"
#include "ops/product.h"
#include "ops/window.h"

/* ---- inference ---- */

/* The kernel's sizes: from the weight's dims if they are numbers, else from kernel_shape. False: not known. */
static bool kernel_sizes(const opf_info *w, int64_t *kernel)
{
    for (int32_t i = 2; i < w->rank; i++) {
        if (!opf_dim_is_number(w->dims[i]))
            return false;
        kernel[i - 2] = w->dims[i].n;
    }
    return w->rank >= 0;
}

static opf_status check_channels(const opf_infer *infer, int64_t group, opf_error *error)
{
    const opf_info *x = infer->in[0], *w = infer->in[1];
    OPF_FAIL_IF(error, group < 1, OPF_INVALID_MODEL, "group is %lld, must be at least 1", (long long)group);
    if ((x->rank >= 0 && x->rank < 3) || (w->rank >= 0 && w->rank < 3))
        return opf_refuse_shapes(infer, 0, 1, error, "both must have rank 3 or more");
    if (w->rank < 0)
        return OPF_OK;
    const opf_dim m = w->dims[0], c = w->dims[1];
    if (opf_dim_is_number(m) && m.n % group != 0)
        return opf_refuse_shapes(infer, 1, 1, error, "%lld output channels do not divide into %lld groups",
                                 (long long)m.n, (long long)group);
    if (x->rank < 0)
        return OPF_OK;
    if (x->rank != w->rank)
        return opf_refuse_shapes(infer, 0, 1, error, "both must have the same rank");
    const opf_dim found = x->dims[1];
    if (opf_dim_is_number(c) && opf_dim_is_number(found) && (found.n % group != 0 || found.n / group != c.n))
        return opf_refuse_shapes(infer, 0, 1, error,
                                 "the former has %lld channels, must have %lld for each of %lld groups",
                                 (long long)found.n, (long long)c.n, (long long)group);
    return OPF_OK;
}

static opf_status infer_conv(opf_infer *infer, opf_error *error)
{
    const opf_info *x = infer->in[0], *w = infer->in[1];
    OPF_TRY(check_channels(infer, opf_node_int(infer->node, "group", 1), error));
    if (w->rank >= 0)
        OPF_TRY(opf_check_vector(infer, 2, w->dims[0], 1, error));
    int32_t rank = x->rank >= 0 ? x->rank : w->rank;
    if (rank < 0)
        return OPF_OK;
    int64_t         kernel[OPF_MAX_RANK];
    bool            known = kernel_sizes(w, kernel);
    const opf_attr *shape = opf_node_attr(infer->node, "kernel_shape");
    opf_windows     windows;
    opf_dim         dims[OPF_MAX_RANK];
    if (known || (shape != NULL && shape->n > 0)) {
        OPF_TRY(opf_windows_read(infer->node->attrs, infer->node->n_attrs, rank - 2, known ? kernel : NULL, &windows,
                                 error));
        known = x->rank >= 0;
    }
    for (int32_t i = 2; i < rank; i++) {
        if (known)
            OPF_TRY(opf_windows_infer(&windows, i - 2, infer->dims, x->dims[i], &dims[i], error));
        else
            dims[i] = opf_dim_unknown(infer->dims);
    }
    dims[0] = x->rank >= 0 ? x->dims[0] : opf_dim_unknown(infer->dims);
    dims[1] = w->rank >= 0 ? w->dims[0] : opf_dim_unknown(infer->dims);
    return opf_infer_set(infer, 0, rank, dims, error);
}

/* ---- reference ---- */

typedef struct conv_job {
    const opf_call *call;
    opf_windows     windows;
    int64_t         in[OPF_MAX_RANK], out[OPF_MAX_RANK]; /* spatial sizes */
    size_t          taps;
    int64_t        *w_offset;                   /* of element k of a filter */
    int64_t         n, group, c_group, m_group; /* image and group at work, channels of a group */
} conv_job;

static void load_weights(void *user, size_t i, size_t rows, size_t p, size_t depth, opf_number *dst)
{
    const conv_job *conv = user;
    const opf_view *w    = &conv->call->in[1];
    for (size_t r = 0; r < rows; r++) {
        int64_t filter = (conv->group * conv->m_group + (int64_t)(i + r)) * w->strides[0];
        for (size_t d = 0; d < depth; d++)
            dst[r * depth + d].f = opf_view_f64(w, filter + conv->w_offset[p + d]);
    }
}

/* The offset of the image's row that the tap sees from places `out` (but for the last axis); false: it is padding. */
static bool find_row(const conv_job *conv, const int64_t *tap, const int64_t *out, int64_t *offset)
{
    const opf_view    *x = &conv->call->in[0];
    const opf_windows *w = &conv->windows;
    for (int32_t i = 0; i < w->rank - 1; i++) {
        int64_t position = out[i] * w->stride[i] - w->pad_begin[i] + tap[i] * w->dilation[i];
        if (position < 0 || position >= conv->in[i])
            return false;
        *offset += position * x->strides[i + 2];
    }
    return true;
}

/* Columns [j, j + cols) of what one tap of one channel sees: row by row of the output, zeros where it is padding. */
static void load_tap(const conv_job *conv, int64_t channel, const int64_t *tap, size_t j, size_t cols, opf_number *dst)
{
    const opf_view    *x    = &conv->call->in[0];
    const opf_windows *w    = &conv->windows;
    const int32_t      last = w->rank - 1;
    int64_t            out[OPF_MAX_RANK];
    for (int32_t i = last; i >= 0; i--) {
        out[i] = (int64_t)(j % (size_t)conv->out[i]);
        j /= (size_t)conv->out[i];
    }
    for (size_t c = 0; c < cols;) {
        int64_t left   = conv->out[last] - out[last];
        int64_t run    = (size_t)left < cols - c ? left : (int64_t)(cols - c);
        int64_t offset = conv->n * x->strides[0] + channel * x->strides[1];
        int64_t start  = out[last] * w->stride[last] - w->pad_begin[last] + tap[last] * w->dilation[last];
        int64_t lo = 0, hi = 0; /* of the run, inside the image */
        if (find_row(conv, tap, out, &offset)) {
            lo = start >= 0 ? 0 : (-start + w->stride[last] - 1) / w->stride[last];
            hi = start >= conv->in[last] ? 0 : (conv->in[last] - 1 - start) / w->stride[last] + 1;
            hi = hi < run ? hi : run;
            lo = lo < hi ? lo : hi;
        }
        for (int64_t i = 0; i < lo; i++)
            dst[c + (size_t)i].f = 0;
        if (hi > lo)
            opf_load_numbers(x, offset + (start + lo * w->stride[last]) * x->strides[last + 2],
                             w->stride[last] * x->strides[last + 2], (size_t)(hi - lo), &dst[c + (size_t)lo], 1);
        for (int64_t i = hi; i < run; i++)
            dst[c + (size_t)i].f = 0;
        c += (size_t)run;
        out[last] = 0;
        for (int32_t i = last - 1; i >= 0 && ++out[i] == conv->out[i]; i--)
            out[i] = 0;
    }
}

static void load_image(void *user, size_t p, size_t depth, size_t j, size_t cols, opf_number *dst)
{
    const conv_job *conv = user;
    for (size_t d = 0; d < depth; d++) {
        int64_t tap[OPF_MAX_RANK];
        size_t  rest = (p + d) % conv->taps;
        for (int32_t i = conv->windows.rank - 1; i >= 0; i--) {
            tap[i] = (int64_t)(rest % (size_t)conv->windows.kernel[i]);
            rest /= (size_t)conv->windows.kernel[i];
        }
        int64_t channel = conv->group * conv->c_group + (int64_t)((p + d) / conv->taps);
        load_tap(conv, channel, tap, j, cols, &dst[d * OPF_PRODUCT_COLS]);
    }
}

static void store_result(void *user, size_t i, size_t rows, size_t j, size_t cols, const opf_number *src)
{
    const conv_job *conv     = user;
    const opf_view *bias     = &conv->call->in[2];
    const bool      has_bias = conv->call->n_in > 2 && bias->data != NULL;
    opf_view        y        = conv->call->out[0];
    opf_view        plane    = {.type = y.type, .rank = y.rank - 2}; /* the spatial axes */
    for (int32_t k = 0; k < plane.rank; k++) {
        plane.dims[k]    = y.dims[k + 2];
        plane.strides[k] = y.strides[k + 2];
    }
    for (size_t c = 0; c < cols; c++) {
        int64_t pixel = conv->n * y.strides[0] + opf_view_offset(&plane, j + c);
        for (size_t r = 0; r < rows; r++) {
            int64_t channel = conv->group * conv->m_group + (int64_t)(i + r);
            double  sum     = src[r * OPF_PRODUCT_COLS + c].f;
            if (has_bias)
                sum += opf_view_f64(bias, channel * bias->strides[0]);
            opf_view_put_f64(&y, pixel + channel * y.strides[1], sum);
        }
    }
}

static void run_groups(conv_job *conv, size_t places, size_t k, int64_t groups, opf_product_scratch *scratch)
{
    const opf_product product = {.m        = (size_t)conv->m_group,
                                 .n        = places,
                                 .k        = k,
                                 .is_float = true,
                                 .user     = conv,
                                 .load_a   = load_weights,
                                 .load_b   = load_image,
                                 .store    = store_result};
    for (conv->n = 0; conv->n < conv->call->out[0].dims[0]; conv->n++)
        for (conv->group = 0; conv->group < groups; conv->group++)
            opf_product_run(&product, scratch);
}

static opf_status run_conv(const opf_call *call, opf_error *error)
{
    const opf_view *x = &call->in[0], *w = &call->in[1];
    const int64_t   groups = opf_call_int(call, "group", 1);
    if (opf_view_count(&call->out[0]) == 0)
        return OPF_OK;
    conv_job conv = {.call = call, .taps = 1, .c_group = w->dims[1], .m_group = w->dims[0] / groups};
    OPF_TRY(opf_windows_read(call->attrs, call->n_attrs, x->rank - 2, w->dims + 2, &conv.windows, error));
    OPF_TRY(opf_windows_resolve(&conv.windows, x->dims + 2, conv.out, error));
    size_t places = 1;
    for (int32_t i = 0; i < conv.windows.rank; i++) {
        conv.in[i] = x->dims[i + 2];
        conv.taps *= (size_t)conv.windows.kernel[i];
        places *= (size_t)conv.out[i];
    }
    const size_t         k       = (size_t)conv.c_group * conv.taps;
    const size_t         bytes   = k * sizeof *conv.w_offset;
    opf_product_scratch *scratch = opf_heap_alloc(call->heap, sizeof *scratch);
    opf_status           status  = OPF_OK;
    conv.w_offset                = opf_heap_alloc(call->heap, bytes);
    if (scratch != NULL && conv.w_offset != NULL) {
        opf_view filter = *w;
        filter.dims[0]  = 1;
        for (size_t i = 0; i < k; i++)
            conv.w_offset[i] = opf_view_offset(&filter, i);
        run_groups(&conv, places, k, groups, scratch);
    } else {
        status = opf_fail(error, OPF_OUT_OF_MEMORY, "out of memory");
    }
    opf_heap_free(call->heap, conv.w_offset, bytes);
    opf_heap_free(call->heap, scratch, sizeof *scratch);
    return status;
}

/* ---- signature ---- */

static const opf_param conv_inputs[] = {
    {"X", 'T', OPF_TYPES_FLOAT, 0}, {"W", 'T', OPF_TYPES_FLOAT, 0}, {"B", 'T', OPF_TYPES_FLOAT, OPF_OPTIONAL}};
static const opf_param conv_outputs[] = {{"Y", 'T', OPF_TYPES_FLOAT, 0}};

static const opf_attr_def   conv_attrs[] = {{.name = "auto_pad", .type = OPF_ATTR_STRING, .s = "NOTSET"},
                                            {.name = "dilations", .type = OPF_ATTR_INTS},
                                            {.name = "group", .type = OPF_ATTR_INT, .i = 1},
                                            {.name = "kernel_shape", .type = OPF_ATTR_INTS},
                                            {.name = "pads", .type = OPF_ATTR_INTS},
                                            {.name = "strides", .type = OPF_ATTR_INTS}};
static const opf_import_row conv_rows[]  = {{22, opf_import_same, opf_lower_no_bfloat16}};

const opf_op opf_op_Conv = {.name      = "Conv",
                            .domain    = "",
                            .since     = 1,
                            .traits    = OPF_CONTRACTION,
                            .inputs    = conv_inputs,
                            .n_inputs  = OPF_COUNT(conv_inputs),
                            .outputs   = conv_outputs,
                            .n_outputs = OPF_COUNT(conv_outputs),
                            .attrs     = conv_attrs,
                            .n_attrs   = OPF_COUNT(conv_attrs),
                            .rows      = conv_rows,
                            .n_rows    = OPF_COUNT(conv_rows),
                            .infer     = infer_conv,
                            .reference = run_conv};
