/* SPDX-License-Identifier: Apache-2.0 */
/* BlackmanWindow, HammingWindow, HannWindow: sums of cosines; and MelWeightMatrix. Made in double, rounded once. */
#include "ops/dft.h"
#include "ops/elementwise.h"

#include <math.h>

/* The type that output_datatype asks for; integers take the whole part. */
static opf_status infer_type(opf_infer *infer, opf_error *error)
{
    const int64_t type = opf_node_int(infer->node, "output_datatype", OPF_FLOAT);
    OPF_FAIL_IF(error, type < 0 || type >= OPF_TYPE_COUNT || !opf_types_have(OPF_TYPES_NUMERIC, (opf_type)type), OPF_INVALID_MODEL,
                "output_datatype is %lld, must be a type of numbers", (long long)type);
    infer->out[0].type = (opf_type)type;
    return OPF_OK;
}

static void put(opf_view *y, int64_t offset, double x)
{
    if (opf_types_have(OPF_TYPES_FLOAT, y->type))
        opf_view_put_f64(y, offset, x);
    else
        opf_view_put_i64(y, offset, opf_double_to_int(x));
}

static opf_status check_size(const char *name, int64_t n, int64_t least, opf_error *error)
{
    OPF_FAIL_IF(error, n < least, OPF_INVALID_INPUT, "%s is %lld, must be at least %lld", name, (long long)n, (long long)least);
    return OPF_OK;
}

static opf_status infer_scalar(opf_infer *infer, uint32_t i, int64_t least, opf_dim *value, opf_error *error)
{
    OPF_TRY(opf_dft_scalar(infer, i, value, error));
    return opf_dim_is_number(*value) ? check_size(infer->node->op->inputs[i].name, value->n, least, error) : OPF_OK;
}

/* ---- windows ---- */

static opf_status infer_window(opf_infer *infer, opf_error *error)
{
    opf_dim size;
    OPF_TRY(infer_type(infer, error));
    OPF_TRY(infer_scalar(infer, 0, 0, &size, error));
    return opf_infer_set(infer, 0, 1, &size, error);
}

/* a0 - a1 cos(2 pi i / n) + a2 cos(4 pi i / n) */
static opf_status run_window(const opf_call *call, double a0, double a1, double a2, opf_error *error)
{
    opf_view     *y    = &call->out[0];
    const int64_t size = opf_view_i64(&call->in[0], 0);
    const double  n    = (double)(opf_call_int(call, "periodic", 1) != 0 ? size : size - 1);
    OPF_FAIL_IF(error, size != y->dims[0], OPF_INVALID_INPUT, "size is %lld, but the result has %lld elements", (long long)size,
                (long long)y->dims[0]);
    for (int64_t i = 0; i < size; i++) {
        const double angle = 6.283185307179586477 * ((double)i / n);
        put(y, i * y->strides[0], a2 * cos(2 * angle) - a1 * cos(angle) + a0); /* in this order the peak is 1 */
    }
    return OPF_OK;
}

static opf_status run_blackman(const opf_call *call, opf_error *error)
{
    return run_window(call, 0.42, 0.5, 0.08, error);
}

static opf_status run_hamming(const opf_call *call, opf_error *error)
{
    return run_window(call, 25.0 / 46.0, 21.0 / 46.0, 0, error);
}

static opf_status run_hann(const opf_call *call, opf_error *error)
{
    return run_window(call, 0.5, 0.5, 0, error);
}

/* ---- MelWeightMatrix ---- */

enum { MEL_BINS, DFT_LENGTH, SAMPLE_RATE, LOWER_EDGE, UPPER_EDGE };

static opf_status infer_mel(opf_infer *infer, opf_error *error)
{
    opf_dim bins, length, rate;
    OPF_TRY(infer_type(infer, error));
    OPF_TRY(infer_scalar(infer, MEL_BINS, 0, &bins, error));
    OPF_TRY(infer_scalar(infer, DFT_LENGTH, 0, &length, error));
    OPF_TRY(infer_scalar(infer, SAMPLE_RATE, 1, &rate, error));
    const opf_dim dims[2] = {opf_dft_bins(infer->dims, length), bins};
    return opf_infer_set(infer, 0, 2, dims, error);
}

static double mel_of(double hertz)
{
    return 2595 * log10(1 + hertz / 700);
}

static double hertz_of(double mel)
{
    return 700 * (pow(10, mel / 2595) - 1);
}

/* Where the triangles start, peak and end: edge i of n + 2 that are equally far apart on the mel scale. */
typedef struct mel_scale {
    double low, step, length, rate;
} mel_scale;

static double edge(const mel_scale *scale, int64_t i)
{
    return floor((scale->length + 1) * hertz_of(scale->low + (double)i * scale->step) / scale->rate);
}

static void put_triangle(opf_view *y, int64_t column, int64_t left, int64_t peak, int64_t right)
{
    for (int64_t row = 0; row < y->dims[0]; row++) {
        double x = 0;
        if (row == peak && (left == peak || peak < right))
            x = 1;
        else if (row >= left && row <= peak)
            x = (double)(row - left) / (double)(peak - left);
        else if (row > peak && row < right)
            x = (double)(right - row) / (double)(right - peak);
        put(y, row * y->strides[0] + column * y->strides[1], x);
    }
}

static opf_status run_mel(const opf_call *call, opf_error *error)
{
    opf_view     *y = &call->out[0];
    const int64_t n = opf_view_i64(&call->in[MEL_BINS], 0), length = opf_view_i64(&call->in[DFT_LENGTH], 0);
    const int64_t rate = opf_view_i64(&call->in[SAMPLE_RATE], 0);
    const double  low = opf_view_f64(&call->in[LOWER_EDGE], 0), high = opf_view_f64(&call->in[UPPER_EDGE], 0);
    OPF_TRY(check_size("num_mel_bins", n, 0, error));
    OPF_TRY(check_size("dft_length", length, 0, error));
    OPF_TRY(check_size("sample_rate", rate, 1, error));
    OPF_FAIL_IF(error, y->dims[0] != length / 2 + 1 || y->dims[1] != n, OPF_INVALID_INPUT,
                "dft_length %lld and num_mel_bins %lld do not give a matrix [%lld,%lld]", (long long)length, (long long)n,
                (long long)y->dims[0], (long long)y->dims[1]);
    const mel_scale scale = {.low    = mel_of(low),
                             .step   = (mel_of(high) - mel_of(low)) / ((double)n + 2),
                             .length = (double)length,
                             .rate   = (double)rate};
    const double    last  = edge(&scale, n + 1);
    OPF_FAIL_IF(error, !(low >= 0 && high >= low && last <= (double)y->dims[0]), OPF_INVALID_INPUT,
                "edges %g and %g hertz must be in order, from 0 to half the sample rate %lld", low, high, (long long)rate);
    for (int64_t i = 0; i < n; i++)
        put_triangle(y, i, (int64_t)edge(&scale, i), (int64_t)edge(&scale, i + 1), (int64_t)edge(&scale, i + 2));
    return OPF_OK;
}

/* ---- signatures ---- */

#define OUTPUT_TYPE {.name = "output_datatype", .type = OPF_ATTR_INT, .i = OPF_FLOAT}

static const opf_param    size_input[]     = {{"size", 0, OPF_DFT_SIZES, 0}};
static const opf_param    output[]         = {{"output", 0, OPF_TYPES_NUMERIC, 0}};
static const opf_attr_def window_attrs[]   = {OUTPUT_TYPE, {.name = "periodic", .type = OPF_ATTR_INT, .i = 1}};
static const opf_param    mel_inputs[]     = {{"num_mel_bins", 'I', OPF_DFT_SIZES, 0},
                                              {"dft_length", 'I', OPF_DFT_SIZES, 0},
                                              {"sample_rate", 'I', OPF_DFT_SIZES, 0},
                                              {"lower_edge_hertz", 'F', OPF_TYPES_FLOAT, 0},
                                              {"upper_edge_hertz", 'F', OPF_TYPES_FLOAT, 0}};
static const opf_attr_def mel_attrs[]      = {OUTPUT_TYPE};

#define DEFINE(op, in, attr_list, infer_fn, run)                                                                       \
    const opf_op opf_op_##op = {.name      = #op,                                                                      \
                                .domain    = "",                                                                       \
                                .since     = 17,                                                                       \
                                .inputs    = in,                                                                       \
                                .n_inputs  = OPF_COUNT(in),                                                            \
                                .outputs   = output,                                                                   \
                                .n_outputs = OPF_COUNT(output),                                                        \
                                .attrs     = attr_list,                                                                \
                                .n_attrs   = OPF_COUNT(attr_list),                                                     \
                                .infer     = infer_fn,                                                                 \
                                .reference = run}
DEFINE(BlackmanWindow, size_input, window_attrs, infer_window, run_blackman);
DEFINE(HammingWindow, size_input, window_attrs, infer_window, run_hamming);
DEFINE(HannWindow, size_input, window_attrs, infer_window, run_hann);
DEFINE(MelWeightMatrix, mel_inputs, mel_attrs, infer_mel, run_mel);
