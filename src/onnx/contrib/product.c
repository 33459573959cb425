/* SPDX-License-Identifier: Apache-2.0 */
/* Products and convolutions with what was fused into them, and those that work with channels last. */
#include "onnx/contrib/contrib.h"

#include "base/memory.h"

/* ---- convolutions ---- */

/* Channels last: the input, the output, Z, and the weights. */
static void convolve(opf_contrib *c, bool channels_last)
{
    const opf_value_id x = opf_contrib_channels_first(c, opf_contrib_in(c, 0), channels_last, "X");
    const opf_value_id w = opf_contrib_channels_first(c, opf_contrib_in(c, 1), channels_last, "W");
    const opf_value_id z = opf_contrib_in(c, 3);
    opf_value_id y = opf_contrib_add(c, &opf_op_Conv, OPF_INPUTS(x, w, opf_contrib_in(c, 2)),
                                     OPF_ATTRS(opf_contrib_attr(c, "auto_pad"), opf_contrib_attr(c, "dilations"),
                                               opf_contrib_attr(c, "group"), opf_contrib_attr(c, "kernel_shape"),
                                               opf_contrib_attr(c, "pads"), opf_contrib_attr(c, "strides")));
    const opf_attr params = opf_contrib_attr(c, "activation_params");
    if (params.type != OPF_ATTR_NONE && params.type != OPF_ATTR_FLOATS)
        opf_contrib_fail(c, OPF_INVALID_MODEL, "attribute activation_params has the wrong type");
    if (z != 0)
        y = OPF_APPLY(c, Add, y, opf_contrib_channels_first(c, z, channels_last, "Z"));
    const float none = 0;
    y = opf_contrib_activate(c, y, opf_contrib_string(c, "activation", ""), params.n,
                             params.n != 0 ? params.floats : &none);
    opf_contrib_bind(c, 0, opf_contrib_channels_last(c, y, channels_last));
}

void opf_decompose_FusedConv(opf_contrib *c)
{
    convolve(c, false);
}

void opf_decompose_NhwcConv(opf_contrib *c)
{
    convolve(c, true);
}

void opf_decompose_NhwcFusedConv(opf_contrib *c)
{
    convolve(c, true);
}

void opf_decompose_NhwcMaxPool(opf_contrib *c)
{
    const opf_value_id x = opf_contrib_channels_first(c, opf_contrib_in(c, 0), true, "x");
    const opf_value_id y = opf_contrib_add(
        c, &opf_op_MaxPool, OPF_INPUTS(x),
        OPF_ATTRS(opf_contrib_attr(c, "auto_pad"), opf_contrib_attr(c, "ceil_mode"), opf_contrib_attr(c, "dilations"),
                  opf_contrib_attr(c, "kernel_shape"), opf_contrib_attr(c, "pads"), opf_contrib_attr(c, "strides")));
    opf_contrib_bind(c, 0, opf_contrib_channels_last(c, y, true));
}

/* The pads come as an input: constant ones are what the attribute is elsewhere. */
void opf_decompose_ConvTransposeWithDynamicPads(opf_contrib *c)
{
    static const char *const names[] = {"auto_pad", "dilations", "group", "kernel_shape", "output_padding", "strides"};
    opf_attr attrs[OPF_COUNT(names) + 1];
    const opf_const *pads = opf_graph_value(c->graph, opf_contrib_in(c, 2))->constant;
    if (pads == NULL || pads->type != OPF_INT64 || pads->count > UINT32_MAX)
        opf_contrib_fail(c, OPF_UNSUPPORTED, "Pads that are no constant of int64 are not supported");
    if (opf_contrib_failed(c))
        return;
    int64_t *numbers = OPF_NEW(c->graph->arena, int64_t, pads->count);
    for (size_t i = 0; numbers != NULL && i < pads->count; i++)
        numbers[i] = opf_const_i64_at(pads, i);
    if (numbers == NULL)
        opf_contrib_fail(c, OPF_OUT_OF_MEMORY, "out of memory");
    for (uint32_t i = 0; i < OPF_COUNT(names); i++)
        attrs[i] = opf_contrib_attr(c, names[i]);
    attrs[OPF_COUNT(names)] =
        (opf_attr){.name = "pads", .type = OPF_ATTR_INTS, .ints = numbers, .n = (uint32_t)pads->count};
    opf_contrib_bind(c, 0,
                     opf_contrib_add(c, &opf_op_ConvTranspose,
                                     OPF_INPUTS(opf_contrib_in(c, 0), opf_contrib_in(c, 1), opf_contrib_in(c, 3)),
                                     OPF_COUNT(attrs), attrs));
}

/* ---- products ---- */

void opf_decompose_FusedGemm(opf_contrib *c)
{
    const opf_value_id y =
        opf_contrib_add(c, &opf_op_Gemm, OPF_INPUTS(opf_contrib_in(c, 0), opf_contrib_in(c, 1), opf_contrib_in(c, 2)),
                        OPF_ATTRS(opf_contrib_attr(c, "alpha"), opf_contrib_attr(c, "beta"),
                                  opf_contrib_attr(c, "transA"), opf_contrib_attr(c, "transB")));
    opf_contrib_bind(c, 0, opf_contrib_activate(c, y, opf_contrib_string(c, "activation", ""), 0, NULL));
}

/* batch: the first axis is that of the rows, and the batches follow it. trans: then rows and columns are exchanged. */
static opf_value_id transposed(opf_contrib *c, opf_value_id x, const char *what, bool trans, bool batch)
{
    if (!trans && !batch)
        return x;
    const int32_t rank = opf_contrib_rank(c, x, what);
    int64_t perm[OPF_MAX_RANK];
    if (opf_contrib_failed(c) || rank < 2)
        return x;
    for (int32_t i = 0; i < rank; i++)
        perm[i] = !batch || i == rank - 1 ? i : i == rank - 2 ? 0 : i + 1;
    if (trans) {
        const int64_t row = perm[rank - 2];
        perm[rank - 2] = perm[rank - 1];
        perm[rank - 1] = row;
    }
    return opf_contrib_transpose(c, x, (uint32_t)rank, perm);
}

void opf_decompose_FusedMatMul(opf_contrib *c)
{
    const float alpha = opf_contrib_float(c, "alpha", 1);
    const opf_value_id a = transposed(c, opf_contrib_in(c, 0), "A", opf_contrib_int(c, "transA", 0) != 0,
                                      opf_contrib_int(c, "transBatchA", 0) != 0);
    const opf_value_id b = transposed(c, opf_contrib_in(c, 1), "B", opf_contrib_int(c, "transB", 0) != 0,
                                      opf_contrib_int(c, "transBatchB", 0) != 0);
    opf_value_id y = OPF_APPLY(c, MatMul, a, b);
    if (alpha != 1)
        y = OPF_APPLY(c, Mul, y, opf_contrib_number(c, opf_contrib_type(c, opf_contrib_in(c, 0), "A"), (double)alpha));
    opf_contrib_bind(c, 0, y);
}

void opf_decompose_TransposeMatMul(opf_contrib *c)
{
    opf_decompose_FusedMatMul(c);
}

void opf_decompose_GemmFastGelu(opf_contrib *c)
{
    const opf_value_id bias = opf_contrib_in(c, 2),
                       product = OPF_APPLY(c, MatMul, opf_contrib_in(c, 0), opf_contrib_in(c, 1));
    const opf_value_id sum = bias != 0 ? OPF_APPLY(c, Add, product, bias) : product;
    opf_contrib_bind(
        c, 0,
        opf_contrib_add(c, &opf_op_Gelu, OPF_INPUTS(sum), OPF_ATTRS(opf_contrib_string_attr("approximate", "tanh"))));
}
