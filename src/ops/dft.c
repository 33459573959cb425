/* SPDX-License-Identifier: Apache-2.0 */
/* DFT. Complex numbers lie in a last dimension of size 2, real ones in one of size 1. */
#include "ops/dft.h"

#include "ops/check.h"
#include "ops/lift.h"
#include "ops/reference.h"

#include <math.h>

/* ---- the transform ---- */

typedef struct transform {
    int64_t            length;
    bool               inverse;
    const opf_complex *roots; /* e^(-2 pi i k / length) */
} transform;

static opf_complex multiply(opf_complex a, opf_complex b)
{
    return (opf_complex){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

static opf_complex root(const transform *t, int64_t k)
{
    opf_complex w = t->roots[k];
    return t->inverse ? (opf_complex){w.re, -w.im} : w;
}

/* The definition, for odd lengths: n elements of src, `step` apart. */
static void transform_odd(const transform *t, const opf_complex *src, int64_t step, opf_complex *dst, int64_t n)
{
    for (int64_t k = 0; k < n; k++) {
        opf_complex sum   = {0, 0};
        int64_t     angle = 0; /* j*k modulo n */
        for (int64_t j = 0; j < n; j++) {
            opf_complex term = multiply(src[j * step], root(t, angle * step));
            sum.re += term.re;
            sum.im += term.im;
            angle += k;
            angle -= angle >= n ? n : 0;
        }
        dst[k] = sum;
    }
}

/* Even lengths are two transforms of half the length; n * step is the whole length. */
static void transform_any(const transform *t, const opf_complex *src, int64_t step, opf_complex *dst, int64_t n)
{
    if (n % 2 != 0) {
        transform_odd(t, src, step, dst, n);
        return;
    }
    const int64_t half = n / 2;
    transform_any(t, src, 2 * step, dst, half);
    transform_any(t, src + step, 2 * step, dst + half, half);
    for (int64_t k = 0; k < half; k++) {
        const opf_complex even = dst[k], odd = multiply(dst[half + k], root(t, k * step));
        dst[k]        = (opf_complex){even.re + odd.re, even.im + odd.im};
        dst[half + k] = (opf_complex){even.re - odd.re, even.im - odd.im};
    }
}

opf_status opf_dft_start(opf_dft *dft, int64_t length, opf_heap *heap, opf_error *error)
{
    size_t elements;
    *dft = (opf_dft){.length = length, .heap = heap};
    OPF_OOM_IF(error, !opf_mul_size((size_t)length, 3, &elements) ||
                          !opf_mul_size(elements, sizeof(opf_complex), &dft->bytes));
    dft->roots = opf_heap_alloc(heap, dft->bytes);
    OPF_OOM_IF(error, dft->roots == NULL);
    dft->src = dft->roots + length;
    dft->dst = dft->src + length;
    for (int64_t k = 0; k < length; k++) {
        const double angle = 6.283185307179586477 * ((double)k / (double)length);
        dft->roots[k]      = (opf_complex){cos(angle), -sin(angle)};
    }
    return OPF_OK;
}

void opf_dft_run(opf_dft *dft, bool inverse)
{
    const transform t = {.length = dft->length, .inverse = inverse, .roots = dft->roots};
    transform_any(&t, dft->src, 1, dft->dst, dft->length);
    for (int64_t k = 0; inverse && k < dft->length; k++) {
        dft->dst[k].re /= (double)dft->length;
        dft->dst[k].im /= (double)dft->length;
    }
}

void opf_dft_end(opf_dft *dft)
{
    opf_heap_free(dft->heap, dft->roots, dft->bytes);
}

void opf_dft_load(const opf_view *x, int64_t offset, int64_t step, int64_t n, opf_complex *dst, int64_t length)
{
    const int32_t last       = x->rank - 1;
    const bool    is_complex = x->dims[last] == 2;
    for (int64_t i = 0; i < length; i++) {
        const int64_t at = offset + i * step;
        dst[i].re        = i < n ? opf_view_f64(x, at) : 0;
        dst[i].im        = i < n && is_complex ? opf_view_f64(x, at + x->strides[last]) : 0;
    }
}

void opf_dft_store(const opf_complex *src, int64_t n, opf_view *y, int64_t offset, int64_t step)
{
    const int32_t last = y->rank - 1;
    for (int64_t i = 0; i < n; i++) {
        opf_view_put_f64(y, offset + i * step, src[i].re);
        if (y->dims[last] == 2)
            opf_view_put_f64(y, offset + i * step + y->strides[last], src[i].im);
    }
}

/* ---- inference ---- */

opf_status opf_dft_check_parts(opf_infer *infer, bool must_be_real, bool must_be_complex, opf_error *error)
{
    const opf_info *x    = infer->in[0];
    const opf_dim   last = x->dims[x->rank - 1];
    if (!opf_dim_is_number(last))
        return OPF_OK;
    if (last.n != 1 && last.n != 2)
        return opf_refuse_shapes(infer, 0, 0, error, "the last dimension must be 1 (real) or 2 (complex)");
    if (must_be_real && last.n != 1)
        return opf_refuse_shapes(infer, 0, 0, error, "onesided needs real numbers: the last dimension must be 1");
    if (must_be_complex && last.n != 2)
        return opf_refuse_shapes(infer, 0, 0, error, "onesided with inverse needs complex numbers: the last dimension must be 2");
    return OPF_OK;
}

opf_status opf_dft_scalar(const opf_infer *infer, uint32_t i, opf_dim *value, opf_error *error)
{
    const opf_dim *values;
    int32_t        n;
    size_t         count;
    *value = opf_dim_unknown(infer->dims);
    if (opf_info_count(infer->in[i], &count) && count != 1)
        return opf_refuse_shapes(infer, i, i, error, "must be a scalar");
    if (opf_infer_values(infer, i, &values, &n) && n == 1)
        *value = values[0];
    return OPF_OK;
}

static opf_status infer_length(opf_infer *infer, opf_dim size, bool inverse_real, opf_dim *length, opf_error *error)
{
    *length = inverse_real ? opf_dim_mul(infer->dims, opf_dim_number(2), opf_dim_sub(infer->dims, size, opf_dim_number(1)))
                           : size;
    if (opf_infer_has(infer, 1))
        OPF_TRY(opf_dft_scalar(infer, 1, length, error));
    OPF_FAIL_IF(error, opf_dim_is_number(*length) && length->n < 1, OPF_INVALID_INPUT,
                "the length of the transform is %lld, must be at least 1", (long long)length->n);
    return OPF_OK;
}

static opf_status check_axis(int64_t axis, int32_t rank, int32_t *result, opf_error *error)
{
    OPF_TRY(opf_normalize_axis(axis, rank, result, error));
    OPF_FAIL_IF(error, *result == rank - 1, OPF_INVALID_MODEL, "axis %lld is the one of real and imaginary parts",
                (long long)axis);
    return OPF_OK;
}

static opf_status infer_dft(opf_infer *infer, opf_error *error)
{
    const opf_info *x        = infer->in[0];
    const bool      onesided = opf_node_int(infer->node, "onesided", 0) != 0;
    const bool      inverse  = opf_node_int(infer->node, "inverse", 0) != 0;
    opf_dim         axis_dim = opf_dim_number(-2), length, dims[OPF_MAX_RANK];
    int32_t         axis     = 0;
    if (opf_infer_has(infer, 2))
        OPF_TRY(opf_dft_scalar(infer, 2, &axis_dim, error));
    if (x->rank < 0)
        return OPF_OK;
    if (x->rank < 2)
        return opf_refuse_shapes(infer, 0, 0, error, "must have rank 2 or more");
    OPF_TRY(opf_dft_check_parts(infer, onesided && !inverse, onesided && inverse, error));
    const bool has_axis = opf_dim_is_number(axis_dim);
    if (has_axis)
        OPF_TRY(check_axis(axis_dim.n, x->rank, &axis, error));
    for (int32_t i = 0; i < x->rank; i++)
        dims[i] = has_axis || (!onesided && !opf_infer_has(infer, 1)) ? x->dims[i] : opf_dim_unknown(infer->dims);
    dims[x->rank - 1] = opf_dim_number(onesided && inverse ? 1 : 2);
    if (!has_axis)
        return opf_infer_set(infer, 0, x->rank, dims, error);
    OPF_TRY(infer_length(infer, x->dims[axis], onesided && inverse, &length, error));
    dims[axis] = onesided && !inverse ? opf_dft_bins(infer->dims, length) : length;
    return opf_infer_set(infer, 0, x->rank, dims, error);
}

opf_dim opf_dft_bins(opf_dims *dims, opf_dim length)
{
    return opf_dim_add(dims, opf_dim_div(dims, length, opf_dim_number(2)), opf_dim_number(1));
}

/* ---- reference ---- */

/* The spectrum of a real signal out of its first half; what is missing is zero. */
static void mirror(opf_complex *x, int64_t length)
{
    for (int64_t k = length / 2 + 1; k < length; k++)
        x[k] = (opf_complex){x[length - k].re, -x[length - k].im};
    x[0].im = 0;
    if (length % 2 == 0)
        x[length / 2].im = 0;
}

static void run_lines(const opf_call *call, int32_t axis, opf_dft *dft, bool inverse, bool onesided)
{
    const opf_view *x       = &call->in[0];
    opf_view       *y       = &call->out[0];
    const opf_view *views[] = {x, y};
    int64_t         dims[OPF_MAX_RANK];
    opf_walk        walk;
    for (int32_t i = 0; i < x->rank; i++)
        dims[i] = i == axis || i == x->rank - 1 ? 1 : x->dims[i];
    for (opf_walk_init(&walk, x->rank, dims, 2, views); walk.left > 0; opf_walk_next(&walk)) {
        opf_dft_load(x, walk.offset[0], x->strides[axis], x->dims[axis], dft->src, dft->length);
        if (inverse && onesided)
            mirror(dft->src, dft->length);
        opf_dft_run(dft, inverse);
        opf_dft_store(dft->dst, y->dims[axis], y, walk.offset[1], y->strides[axis]);
    }
}

static opf_status run_dft(const opf_call *call, opf_error *error)
{
    const opf_view *x        = &call->in[0];
    const bool      onesided = opf_call_int(call, "onesided", 0) != 0;
    const bool      inverse  = opf_call_int(call, "inverse", 0) != 0;
    const bool      has_axis = call->n_in > 2 && call->in[2].data != NULL;
    const bool      has_length = call->n_in > 1 && call->in[1].data != NULL;
    int32_t         axis;
    opf_dft         dft;
    OPF_TRY(check_axis(has_axis ? opf_view_i64(&call->in[2], 0) : -2, x->rank, &axis, error));
    int64_t length = inverse && onesided ? 2 * (x->dims[axis] - 1) : x->dims[axis];
    if (has_length)
        length = opf_view_i64(&call->in[1], 0);
    OPF_FAIL_IF(error, length < 1, OPF_INVALID_INPUT, "the length of the transform is %lld, must be at least 1",
                (long long)length);
    const int64_t bins = onesided && !inverse ? length / 2 + 1 : length;
    OPF_FAIL_IF(error, bins != call->out[0].dims[axis], OPF_INVALID_INPUT, "a transform of length %lld does not give %lld values",
                (long long)length, (long long)call->out[0].dims[axis]);
    OPF_TRY(opf_dft_start(&dft, length, call->heap, error));
    run_lines(call, axis, &dft, inverse, onesided);
    opf_dft_end(&dft);
    return OPF_OK;
}

/* ---- before opset 20 ---- */

/* The axis was an attribute, 1 by default. */
static opf_status lift_axis(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    const opf_node *node  = opf_graph_node(graph, id);
    const char     *name  = opf_arena_printf(graph->arena, "%s/axis", node->name);
    int64_t        *axis  = OPF_NEW(graph->arena, int64_t, 1);
    (void)opset;
    OPF_OOM_IF(error, name == NULL || axis == NULL);
    OPF_FAIL_IF(error, node->n_inputs > 2, OPF_INVALID_MODEL, "%s (%s): axis is no input before opset 20", node->name,
                node->op_type);
    *axis              = opf_node_int(node, "axis", 1);
    opf_value_id value = opf_graph_add_constant(graph, name, opf_const_bytes(graph->consts, OPF_INT64, 0, NULL, axis, sizeof *axis));
    OPF_OOM_IF(error, value == 0);
    while (opf_graph_node(graph, id)->n_inputs < 3)
        OPF_OOM_IF(error, !opf_graph_append_input(graph, id, opf_graph_node(graph, id)->n_inputs == 2 ? value : 0));
    return opf_drop_attr(graph, id, "axis");
}

static opf_status lower_axis(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    const opf_node    *node  = opf_graph_node(graph, id);
    const opf_value_id value = node->n_own_inputs > 2 ? node->inputs[2] : 0;
    const opf_const   *axis  = opf_graph_value(graph, value)->constant;
    (void)opset;
    OPF_FAIL_IF(error, value != 0 && (axis == NULL || axis->count != 1), OPF_UNSUPPORTED,
                "%s (%s): the axis is not constant, but is an attribute before opset 20", node->name, node->op_type);
    OPF_OOM_IF(error, !opf_node_set_int(graph, id, "axis", value == 0 ? -2 : opf_const_i64_at(axis, 0)) ||
                          (value != 0 && !opf_graph_set_input(graph, id, 2, 0)));
    return OPF_OK;
}

/* ---- signatures ---- */

static const opf_param dft_inputs[]  = {{"input", 'T', OPF_TYPES_FLOAT, 0},
                                        {"dft_length", 0, OPF_DFT_SIZES, OPF_OPTIONAL},
                                        {"axis", 0, OPF_TYPE_BIT(OPF_INT64), OPF_OPTIONAL}};
static const opf_param dft_outputs[] = {{"output", 'T', OPF_TYPES_FLOAT, 0}};

static const opf_attr_def   dft_attrs[] = {{.name = "inverse", .type = OPF_ATTR_INT},
                                           {.name = "onesided", .type = OPF_ATTR_INT}};
static const opf_import_row dft_rows[]  = {{20, lift_axis, lower_axis}};

const opf_op opf_op_DFT = {.name      = "DFT",
                           .domain    = "",
                           .since     = 17,
                           .traits    = OPF_CONTRACTION,
                           .inputs    = dft_inputs,
                           .n_inputs  = OPF_COUNT(dft_inputs),
                           .outputs   = dft_outputs,
                           .n_outputs = OPF_COUNT(dft_outputs),
                           .attrs     = dft_attrs,
                           .n_attrs   = OPF_COUNT(dft_attrs),
                           .rows      = dft_rows,
                           .n_rows    = OPF_COUNT(dft_rows),
                           .infer     = infer_dft,
                           .reference = run_dft};
