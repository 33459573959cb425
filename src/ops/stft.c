/* SPDX-License-Identifier: Apache-2.0 */
/* STFT: frames of a signal, times a window, each transformed. */
#include "ops/check.h"
#include "ops/dft.h"

enum { SIGNAL, FRAME_STEP, WINDOW, FRAME_LENGTH };

/* [batch, length, parts]; [batch, length] is real. */
static opf_status check_signal(opf_infer *infer, opf_error *error)
{
    const opf_info *x = infer->in[SIGNAL];
    if (x->rank != 2 && x->rank != 3)
        return opf_refuse_shapes(infer, SIGNAL, SIGNAL, error, "must have rank 3");
    const bool onesided = opf_node_int(infer->node, "onesided", 1) != 0;
    return x->rank == 2 ? OPF_OK : opf_dft_check_parts(infer, onesided, false, error);
}

static opf_status infer_frame_length(opf_infer *infer, opf_dim *length, opf_error *error)
{
    const opf_info *window = infer->in[WINDOW];
    *length                = infer->in[SIGNAL]->dims[1];
    if (opf_infer_has(infer, WINDOW)) {
        if (window->rank >= 0 && window->rank != 1)
            return opf_refuse_shapes(infer, WINDOW, WINDOW, error, "must have rank 1");
        *length = window->rank == 1 ? window->dims[0] : opf_dim_unknown(infer->dims);
    }
    if (opf_infer_has(infer, FRAME_LENGTH)) {
        const opf_dim window_length = *length;
        OPF_TRY(opf_dft_scalar(infer, FRAME_LENGTH, length, error));
        if (opf_infer_has(infer, WINDOW) && opf_dims_clash(window_length, *length))
            return opf_refuse_shapes(infer, WINDOW, WINDOW, error, "frame_length is %lld, must be the length of the window",
                                     (long long)length->n);
        if (opf_infer_has(infer, WINDOW) && !opf_dim_is_number(*length))
            *length = window_length;
    }
    OPF_FAIL_IF(error, opf_dim_is_number(*length) && length->n < 1, OPF_INVALID_INPUT, "frames of length %lld, must be at least 1",
                (long long)length->n);
    return OPF_OK;
}

static opf_status infer_stft(opf_infer *infer, opf_error *error)
{
    const opf_info *x = infer->in[SIGNAL];
    opf_dims       *table = infer->dims;
    opf_dim         step, length;
    OPF_TRY(opf_dft_scalar(infer, FRAME_STEP, &step, error));
    OPF_FAIL_IF(error, opf_dim_is_number(step) && step.n < 1, OPF_INVALID_INPUT, "frame_step is %lld, must be at least 1",
                (long long)step.n);
    if (x->rank < 0)
        return OPF_OK;
    OPF_TRY(check_signal(infer, error));
    OPF_TRY(infer_frame_length(infer, &length, error));
    const opf_dim rest = opf_dim_sub(table, x->dims[1], length);
    OPF_FAIL_IF(error, opf_dim_is_number(rest) && rest.n < 0, OPF_INVALID_INPUT, "frames of length %s do not fit a signal of length %s",
                opf_dim_string(table, length, infer->arena), opf_dim_string(table, x->dims[1], infer->arena));
    const opf_dim frames   = opf_dim_add(table, opf_dim_div(table, rest, step), opf_dim_number(1));
    const bool    onesided = opf_node_int(infer->node, "onesided", 1) != 0;
    const opf_dim dims[4]  = {x->dims[0], frames, onesided ? opf_dft_bins(table, length) : length, opf_dim_number(2)};
    return opf_infer_set(infer, 0, 4, dims, error);
}

/* ---- reference ---- */

static bool has(const opf_call *call, uint32_t i)
{
    return i < call->n_in && call->in[i].data != NULL;
}

static opf_status run_stft(const opf_call *call, opf_error *error)
{
    opf_view        x      = call->in[SIGNAL];
    const opf_view *window = has(call, WINDOW) ? &call->in[WINDOW] : NULL;
    opf_view       *y      = &call->out[0];
    const int64_t   step   = opf_view_i64(&call->in[FRAME_STEP], 0);
    int64_t         length = window != NULL ? window->dims[0] : x.dims[1];
    opf_dft         dft;
    if (has(call, FRAME_LENGTH))
        length = opf_view_i64(&call->in[FRAME_LENGTH], 0);
    OPF_FAIL_IF(error, step < 1, OPF_INVALID_INPUT, "frame_step is %lld, must be at least 1", (long long)step);
    OPF_FAIL_IF(error, length < 1 || length > x.dims[1], OPF_INVALID_INPUT, "frames of length %lld do not fit a signal of length %lld",
                (long long)length, (long long)x.dims[1]);
    OPF_FAIL_IF(error, window != NULL && window->dims[0] != length, OPF_INVALID_INPUT,
                "frame_length is %lld, must be the length of the window, %lld", (long long)length, (long long)window->dims[0]);
    const bool    onesided = opf_call_int(call, "onesided", 1) != 0;
    const int64_t bins     = onesided ? length / 2 + 1 : length;
    OPF_FAIL_IF(error, y->dims[1] != (x.dims[1] - length) / step + 1 || y->dims[2] != bins, OPF_INVALID_INPUT,
                "frames of length %lld, %lld apart, do not give %lld spectra of %lld values", (long long)length, (long long)step,
                (long long)y->dims[1], (long long)y->dims[2]);
    if (x.rank == 2) {
        x.rank       = 3;
        x.dims[2]    = 1;
        x.strides[2] = 0;
    }
    OPF_TRY(opf_dft_start(&dft, length, call->heap, error));
    for (int64_t batch = 0; batch < y->dims[0]; batch++) {
        for (int64_t frame = 0; frame < y->dims[1]; frame++) {
            opf_dft_load(&x, batch * x.strides[0] + frame * step * x.strides[1], x.strides[1], length, dft.src, length);
            for (int64_t i = 0; window != NULL && i < length; i++) {
                const double w = opf_view_f64(window, i * window->strides[0]);
                dft.src[i].re *= w;
                dft.src[i].im *= w;
            }
            opf_dft_run(&dft, false);
            opf_dft_store(dft.dst, bins, y, batch * y->strides[0] + frame * y->strides[1], y->strides[2]);
        }
    }
    opf_dft_end(&dft);
    return OPF_OK;
}

static const opf_param    inputs[]  = {{"signal", 'T', OPF_TYPES_FLOAT, 0},
                                       {"frame_step", 'S', OPF_DFT_SIZES, 0},
                                       {"window", 'T', OPF_TYPES_FLOAT, OPF_OPTIONAL},
                                       {"frame_length", 'S', OPF_DFT_SIZES, OPF_OPTIONAL}};
static const opf_param    outputs[] = {{"output", 'T', OPF_TYPES_FLOAT, 0}};
static const opf_attr_def attrs[]   = {{.name = "onesided", .type = OPF_ATTR_INT, .i = 1}};

const opf_op opf_op_STFT = {.name      = "STFT",
                            .domain    = "",
                            .since     = 17,
                            .traits    = OPF_CONTRACTION,
                            .inputs    = inputs,
                            .n_inputs  = OPF_COUNT(inputs),
                            .outputs   = outputs,
                            .n_outputs = OPF_COUNT(outputs),
                            .attrs     = attrs,
                            .n_attrs   = OPF_COUNT(attrs),
                            .infer     = infer_stft,
                            .reference = run_stft};
