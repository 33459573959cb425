/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DynamicQuantizeLSTM: the standard LSTM on the real weights. ONNX Runtime also rounds the inputs of every step to 8
 * bits, which costs accuracy and is no part of what the model means.
 */
#include "onnx/contrib/contrib.h"

/* Weights [directions, size, 4 * hidden] as the real numbers [directions, 4 * hidden, size]; a scale belongs to a
   direction, or to a column of one. */
static opf_value_id real_weights(opf_contrib *c, uint32_t weights, uint32_t scale)
{
    const opf_value_id all = opf_contrib_in(c, scale), zeros = opf_contrib_in(c, scale + 1);
    const opf_type type = opf_contrib_type(c, all, "a scale");
    const int32_t rank = opf_contrib_rank(c, all, "a scale");
    const opf_value_id axes = rank == 1 ? opf_contrib_ints(c, OPF_INTS(1, 2)) : opf_contrib_ints(c, OPF_INTS(1));
    const opf_value_id zero = OPF_APPLY(c, Unsqueeze, opf_contrib_cast(c, zeros, type), axes);
    const opf_value_id levels = OPF_APPLY(c, Sub, opf_contrib_cast(c, opf_contrib_in(c, weights), type), zero);
    return opf_contrib_transpose(c, OPF_APPLY(c, Mul, levels, OPF_APPLY(c, Unsqueeze, all, axes)), OPF_INTS(0, 2, 1));
}

void opf_decompose_DynamicQuantizeLSTM(opf_contrib *c)
{
    enum { X, W, R, B, LENGTHS, HIDDEN, CELL, PEEPHOLES, W_SCALE, W_ZERO, R_SCALE };
    static const char *const names[] = {"activation_alpha", "activation_beta", "activations", "clip",
                                        "direction",        "hidden_size",     "input_forget"};
    opf_attr attrs[OPF_COUNT(names)];
    opf_value_id out[3];
    for (uint32_t i = 0; i < OPF_COUNT(names); i++)
        attrs[i] = opf_contrib_attr(c, names[i]);
    const opf_value_id w = real_weights(c, W, W_SCALE), r = real_weights(c, R, R_SCALE);
    opf_contrib_add_many(c, &opf_op_LSTM,
                         OPF_INPUTS(opf_contrib_in(c, X), w, r, opf_contrib_in(c, B), opf_contrib_in(c, LENGTHS),
                                    opf_contrib_in(c, HIDDEN), opf_contrib_in(c, CELL), opf_contrib_in(c, PEEPHOLES)),
                         OPF_COUNT(names), attrs, 3, out);
    for (uint32_t o = 0; o < 3; o++)
        opf_contrib_bind(c, o, out[o]);
}
