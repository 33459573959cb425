/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Quantized operators: those on elements are the float operator between DequantizeLinear and QuantizeLinear; products
 * whose result is a float are exact products of integers, scaled.
 */
#include "onnx/contrib/contrib.h"

/* ---- between real and quantized numbers ---- */

/* The real numbers of a tensor; axis counts where the scale is a vector. */
static opf_value_id dequantize_along(opf_contrib *c, opf_value_id x, opf_value_id scale, opf_value_id zero,
                                     int64_t axis)
{
    return opf_contrib_add(c, &opf_op_DequantizeLinear, OPF_INPUTS(x, scale, zero),
                           OPF_ATTRS(opf_contrib_int_attr("axis", axis)));
}

/* Inputs i, i + 1 and i + 2 of the node are a tensor, its scale and its zero point. */
static opf_value_id dequantize(opf_contrib *c, uint32_t i)
{
    return OPF_APPLY(c, DequantizeLinear, opf_contrib_in(c, i), opf_contrib_in(c, i + 1), opf_contrib_in(c, i + 2));
}

/* Output 0: y by the scale that is input i and the zero point after it; without one, zero of the type of `like`. */
static void quantize(opf_contrib *c, opf_value_id y, uint32_t i, opf_value_id like)
{
    const opf_value_id zero = opf_contrib_in(c, i + 1);
    const opf_attr type = zero != 0 ? (opf_attr){.type = OPF_ATTR_NONE}
                                    : opf_contrib_int_attr("output_dtype", opf_contrib_type(c, like, "input 0"));
    opf_contrib_bind(
        c, 0, opf_contrib_add(c, &opf_op_QuantizeLinear, OPF_INPUTS(y, opf_contrib_in(c, i), zero), OPF_ATTRS(type)));
}

/* ---- elements ---- */

static void binary(opf_contrib *c, const opf_op *op)
{
    const opf_value_id a = dequantize(c, 0), b = dequantize(c, 3);
    quantize(c, opf_contrib_add(c, op, OPF_INPUTS(a, b), 0, NULL), 6, opf_contrib_in(c, 0));
}

void opf_decompose_QLinearAdd(opf_contrib *c)
{
    binary(c, &opf_op_Add);
}

void opf_decompose_QLinearMul(opf_contrib *c)
{
    binary(c, &opf_op_Mul);
}

void opf_decompose_QLinearSigmoid(opf_contrib *c)
{
    quantize(c, OPF_APPLY(c, Sigmoid, dequantize(c, 0)), 3, opf_contrib_in(c, 0));
}

void opf_decompose_QLinearLeakyRelu(opf_contrib *c)
{
    const opf_value_id x = dequantize(c, 0);
    quantize(c, opf_contrib_add(c, &opf_op_LeakyRelu, OPF_INPUTS(x), OPF_ATTRS(opf_contrib_attr(c, "alpha"))), 3,
             opf_contrib_in(c, 0));
}

/* Before opset 13 all axes from `axis` on are one. */
void opf_decompose_QLinearSoftmax(opf_contrib *c)
{
    const int64_t opset = opf_contrib_int(c, "opset", 13);
    const bool is_old = opset < 13;
    const opf_value_id y =
        opf_contrib_softmax(c, dequantize(c, 0), opf_contrib_int(c, "axis", is_old ? 1 : -1), is_old);
    quantize(c, y, 3, opf_contrib_in(c, 0));
}

void opf_decompose_QLinearWhere(opf_contrib *c)
{
    const opf_value_id x = dequantize(c, 1), y = dequantize(c, 4);
    quantize(c, OPF_APPLY(c, Where, opf_contrib_in(c, 0), x, y), 7, opf_contrib_in(c, 1));
}

void opf_decompose_QLinearReduceMean(opf_contrib *c)
{
    const opf_attr axes = opf_contrib_attr(c, "axes");
    if (axes.type != OPF_ATTR_NONE && axes.type != OPF_ATTR_INTS)
        opf_contrib_fail(c, OPF_INVALID_MODEL, "attribute axes has the wrong type");
    const opf_value_id which = axes.type == OPF_ATTR_INTS ? opf_contrib_ints(c, axes.n, axes.ints) : 0;
    const opf_value_id y = opf_contrib_add(c, &opf_op_ReduceMean, OPF_INPUTS(dequantize(c, 0), which),
                                           OPF_ATTRS(opf_contrib_attr(c, "keepdims")));
    quantize(c, y, 3, opf_contrib_in(c, 0));
}

void opf_decompose_QLinearConcat(opf_contrib *c)
{
    enum { FIRST = 2 };
    if ((c->n_inputs - FIRST) % 3 == 1 || opf_contrib_attr(c, "axis").type == OPF_ATTR_NONE)
        opf_contrib_fail(c, OPF_INVALID_MODEL, "each input needs a scale and a zero point, and the node an axis");
    const uint32_t n = (c->n_inputs - FIRST + 2) / 3;
    opf_value_id *parts = OPF_NEW(c->graph->arena, opf_value_id, n);
    if (parts == NULL)
        opf_contrib_fail(c, OPF_OUT_OF_MEMORY, "out of memory");
    for (uint32_t i = 0; i < n && !opf_contrib_failed(c); i++)
        parts[i] = dequantize(c, FIRST + 3 * i);
    quantize(c, opf_contrib_add(c, &opf_op_Concat, n, parts, OPF_ATTRS(opf_contrib_attr(c, "axis"))), 0,
             opf_contrib_in(c, FIRST));
}

/* ---- windows ---- */

/* The operator on channels first between dequantizing input 0 and quantizing. */
static void pool(opf_contrib *c, const opf_op *op, uint32_t n_attrs, const opf_attr *attrs)
{
    const bool last = opf_contrib_int(c, "channels_last", 0) != 0;
    const opf_value_id x = opf_contrib_channels_first(c, dequantize(c, 0), last, "X");
    const opf_value_id y = opf_contrib_add(c, op, OPF_INPUTS(x), n_attrs, attrs);
    quantize(c, opf_contrib_channels_last(c, y, last), 3, opf_contrib_in(c, 0));
}

void opf_decompose_QLinearAveragePool(opf_contrib *c)
{
    pool(c, &opf_op_AveragePool,
         OPF_ATTRS(opf_contrib_attr(c, "auto_pad"), opf_contrib_attr(c, "ceil_mode"),
                   opf_contrib_attr(c, "count_include_pad"), opf_contrib_attr(c, "kernel_shape"),
                   opf_contrib_attr(c, "pads"), opf_contrib_attr(c, "strides")));
}

void opf_decompose_QLinearGlobalAveragePool(opf_contrib *c)
{
    pool(c, &opf_op_GlobalAveragePool, 0, NULL);
}

/* The standard one, but that the activations may have channels last; the weights never have. */
void opf_decompose_QLinearConv(opf_contrib *c)
{
    const bool last = opf_contrib_int(c, "channels_last", 0) != 0;
    opf_value_id in[9];
    for (uint32_t i = 0; i < OPF_COUNT(in); i++)
        in[i] = i == 0 ? opf_contrib_channels_first(c, opf_contrib_in(c, 0), last, "x") : opf_contrib_in(c, i);
    const opf_value_id y = opf_contrib_add(c, &opf_op_QLinearConv, OPF_COUNT(in), in,
                                           OPF_ATTRS(opf_contrib_attr(c, "auto_pad"), opf_contrib_attr(c, "dilations"),
                                                     opf_contrib_attr(c, "group"), opf_contrib_attr(c, "kernel_shape"),
                                                     opf_contrib_attr(c, "pads"), opf_contrib_attr(c, "strides")));
    opf_contrib_bind(c, 0, opf_contrib_channels_last(c, y, last));
}

/* ---- products ---- */

/* C has the scale of the product, and is multiplied by alpha with it. */
void opf_decompose_QGemm(opf_contrib *c)
{
    enum { A, A_SCALE, A_ZERO, B, B_SCALE, B_ZERO, C, Y_SCALE };
    const int64_t trans_b = opf_contrib_int(c, "transB", 0);
    const float alpha = opf_contrib_float(c, "alpha", 1);
    const opf_value_id a = dequantize(c, A), bias = opf_contrib_in(c, C);
    const opf_value_id b = dequantize_along(c, opf_contrib_in(c, B), opf_contrib_in(c, B_SCALE),
                                            opf_contrib_in(c, B_ZERO), trans_b != 0 ? 0 : 1);
    opf_value_id real_bias = 0;
    if (bias != 0)
        real_bias =
            dequantize_along(c, bias, OPF_APPLY(c, Mul, opf_contrib_in(c, A_SCALE), opf_contrib_in(c, B_SCALE)), 0, -1);
    const opf_value_id y =
        opf_contrib_add(c, &opf_op_Gemm, OPF_INPUTS(a, b, real_bias),
                        OPF_ATTRS(opf_contrib_float_attr("alpha", alpha), opf_contrib_float_attr("beta", alpha),
                                  opf_contrib_attr(c, "transA"), opf_contrib_attr(c, "transB")));
    if (opf_contrib_in(c, Y_SCALE) != 0)
        quantize(c, y, Y_SCALE, opf_contrib_in(c, A));
    else
        opf_contrib_bind(c, 0, y);
}

opf_value_id opf_contrib_integer_product(opf_contrib *c, const opf_value_id a[3], const opf_value_id b[3],
                                         opf_value_id bias)
{
    const opf_type type = opf_contrib_type(c, a[1], "a_scale");
    const opf_value_id sums = OPF_APPLY(c, MatMulInteger, a[0], b[0], a[2], b[2]);
    const opf_value_id scale = OPF_APPLY(c, Mul, a[1], b[1]);
    const opf_value_id y = OPF_APPLY(c, Mul, opf_contrib_cast(c, sums, type), scale);
    return bias != 0 ? OPF_APPLY(c, Add, y, bias) : y;
}

void opf_decompose_MatMulIntegerToFloat(opf_contrib *c)
{
    const opf_value_id a[3] = {opf_contrib_in(c, 0), opf_contrib_in(c, 2), opf_contrib_in(c, 4)};
    const opf_value_id b[3] = {opf_contrib_in(c, 1), opf_contrib_in(c, 3), opf_contrib_in(c, 5)};
    opf_contrib_bind(c, 0, opf_contrib_integer_product(c, a, b, opf_contrib_in(c, 6)));
}

void opf_decompose_DynamicQuantizeMatMul(opf_contrib *c)
{
    opf_value_id a[3];
    const opf_value_id b[3] = {opf_contrib_in(c, 1), opf_contrib_in(c, 2), opf_contrib_in(c, 3)};
    opf_contrib_add_many(c, &opf_op_DynamicQuantizeLinear, OPF_INPUTS(opf_contrib_in(c, 0)), 0, NULL, 3, a);
    opf_contrib_bind(c, 0, opf_contrib_integer_product(c, a, b, opf_contrib_in(c, 4)));
}
