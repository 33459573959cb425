/* SPDX-License-Identifier: Apache-2.0 */
/* CausalConvWithState: a depthwise convolution over [batch, channels, length] that sees the past only; the k - 1
   positions before the first one are the state that an earlier call left, or zeros. */
#include "ops/check.h"
#include "ops/reference.h"

#include <math.h>
#include <string.h>

enum { X, WEIGHT, BIAS, PAST };

#define TYPES (OPF_TYPE_BIT(OPF_FLOAT) | OPF_TYPE_BIT(OPF_FLOAT16) | OPF_TYPE_BIT(OPF_BFLOAT16))

static opf_status check_shapes(const opf_infer *infer, opf_dim channels, opf_dim past, opf_error *error)
{
    const opf_info *x = infer->in[X], *w = infer->in[WEIGHT];
    if (opf_dims_clash(w->dims[0], x->dims[1]) || opf_dims_clash(w->dims[1], opf_dim_number(1)))
        return opf_refuse_shapes(infer, X, WEIGHT, error, "the latter must be [channels, 1, k]");
    if (opf_dim_is_number(w->dims[2]) && w->dims[2].n < 1)
        return opf_refuse_shapes(infer, WEIGHT, WEIGHT, error, "the kernel is empty");
    OPF_TRY(opf_check_vector(infer, BIAS, channels, X, error));
    if (!opf_infer_has(infer, PAST) || infer->in[PAST]->rank < 0)
        return OPF_OK;
    const opf_info *state = infer->in[PAST];
    if (state->rank != 3 || opf_dims_clash(state->dims[0], x->dims[0]) || opf_dims_clash(state->dims[1], channels) ||
        opf_dims_clash(state->dims[2], past))
        return opf_refuse_shapes(infer, WEIGHT, PAST, error, "the latter must be [batch, channels, k - 1]");
    return OPF_OK;
}

static opf_status infer_causal_conv(opf_infer *infer, opf_error *error)
{
    const opf_info *x = infer->in[X], *w = infer->in[WEIGHT];
    const char     *activation = opf_node_string(infer->node, "activation", "none");
    const bool      known = strcmp(activation, "none") == 0 || strcmp(activation, "silu") == 0 || strcmp(activation, "swish") == 0;
    OPF_FAIL_IF(error, !known, OPF_INVALID_MODEL, "activation is \"%s\", must be \"none\", \"silu\" or \"swish\"", activation);
    for (uint32_t i = X; i <= WEIGHT; i++)
        if (infer->in[i]->rank >= 0 && infer->in[i]->rank != 3)
            return opf_refuse_shapes(infer, i, i, error, "must have rank 3");
    if (x->rank < 0 || w->rank < 0)
        return opf_infer_same(infer, 0, X, error);
    const opf_dim channels = opf_dim_is_number(x->dims[1]) ? x->dims[1] : w->dims[0];
    const opf_dim past     = opf_dim_sub(infer->dims, w->dims[2], opf_dim_number(1));
    OPF_TRY(check_shapes(infer, channels, past, error));
    const opf_dim y[3] = {x->dims[0], channels, x->dims[2]}, state[3] = {x->dims[0], channels, past};
    if (infer->n_out > 1)
        OPF_TRY(opf_infer_set(infer, 1, 3, state, error));
    return opf_infer_set(infer, 0, 3, y, error);
}

/* ---- reference ---- */

/* Position i of a line, counted from the first one of the past. */
static double at(const opf_call *call, int64_t batch, int64_t channel, int64_t i, int64_t past)
{
    const opf_view *x = &call->in[i < past ? PAST : X];
    if (i < past && (call->n_in <= PAST || x->data == NULL))
        return 0;
    return opf_view_f64(x, batch * x->strides[0] + channel * x->strides[1] + (i < past ? i : i - past) * x->strides[2]);
}

static double silu(double x)
{
    const double e = exp(-fabs(x));
    return x >= 0 ? x / (1 + e) : x * (e / (1 + e));
}

static void run_line(const opf_call *call, int64_t batch, int64_t channel, bool is_silu)
{
    const opf_view *x = &call->in[X], *w = &call->in[WEIGHT];
    opf_view       *y = &call->out[0], *state = call->n_out > 1 && call->out[1].data != NULL ? &call->out[1] : NULL;
    const int64_t   k = w->dims[2], length = x->dims[2];
    const bool      has_bias = call->n_in > BIAS && call->in[BIAS].data != NULL;
    const double    bias     = has_bias ? opf_view_f64(&call->in[BIAS], channel * call->in[BIAS].strides[0]) : 0;
    for (int64_t i = 0; y->data != NULL && i < length; i++) {
        double sum = bias;
        for (int64_t t = 0; t < k; t++)
            sum += opf_view_f64(w, channel * w->strides[0] + t * w->strides[2]) * at(call, batch, channel, i + t, k - 1);
        opf_view_put_f64(y, batch * y->strides[0] + channel * y->strides[1] + i * y->strides[2], is_silu ? silu(sum) : sum);
    }
    for (int64_t t = 0; state != NULL && t < k - 1; t++)
        opf_view_put_f64(state, batch * state->strides[0] + channel * state->strides[1] + t * state->strides[2],
                         at(call, batch, channel, length + t, k - 1));
}

static opf_status run_causal_conv(const opf_call *call, opf_error *error)
{
    const bool is_silu = strcmp(opf_call_string(call, "activation", "none"), "none") != 0;
    (void)error;
    for (int64_t batch = 0; batch < call->in[X].dims[0]; batch++)
        for (int64_t channel = 0; channel < call->in[X].dims[1]; channel++)
            run_line(call, batch, channel, is_silu);
    return OPF_OK;
}

static const opf_param    inputs[]  = {{"input", 'T', TYPES, 0},
                                       {"weight", 'T', TYPES, 0},
                                       {"bias", 'T', TYPES, OPF_OPTIONAL},
                                       {"past_state", 'T', TYPES, OPF_OPTIONAL}};
static const opf_param    outputs[] = {{"output", 'T', TYPES, 0}, {"present_state", 'T', TYPES, 0}};
static const opf_attr_def attrs[]   = {{.name = "activation", .type = OPF_ATTR_STRING, .s = "none"}};

const opf_op opf_op_CausalConvWithState = {.name      = "CausalConvWithState",
                                           .domain    = "",
                                           .since     = 27,
                                           .traits    = OPF_CONTRACTION,
                                           .inputs    = inputs,
                                           .n_inputs  = OPF_COUNT(inputs),
                                           .outputs   = outputs,
                                           .n_outputs = OPF_COUNT(outputs),
                                           .attrs     = attrs,
                                           .n_attrs   = OPF_COUNT(attrs),
                                           .infer     = infer_causal_conv,
                                           .reference = run_causal_conv};
