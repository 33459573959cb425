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

/* ---- weights of a few bits ---- */

typedef struct few_bits {
    opf_type type;
    uint32_t bits;
    int64_t rows, blocks, block;
} few_bits;

/* A constant of bytes, `width` packed elements to a row from a byte border on, as [rows, keep] of the narrow type. */
static opf_value_id unpack(opf_contrib *c, const few_bits *w, opf_value_id packed, const char *what, int64_t width,
                           int64_t keep)
{
    const opf_const *bytes = opf_graph_value(c->graph, packed)->constant;
    const int64_t dims[2] = {w->rows, keep};
    const size_t per_byte = 8 / w->bits, row = ((size_t)width + per_byte - 1) / per_byte;
    size_t count, size;
    if (bytes == NULL || bytes->type != OPF_UINT8)
        opf_contrib_fail(c, OPF_UNSUPPORTED, "%s is no constant of bytes", what);
    else if (!opf_mul_size(row, (size_t)w->rows, &count) || count != bytes->count)
        opf_contrib_fail(c, OPF_INVALID_MODEL, "%s has %zu bytes, must have %zu", what, bytes->count, count);
    if (opf_contrib_failed(c))
        return 0;
    const bool as_it_is = bytes->kind == OPF_CONST_BYTES && (row * per_byte == (size_t)keep);
    const void *data = bytes->data;
    (void)opf_type_bytes(w->type, (size_t)w->rows * (size_t)keep, &size); /* no more than there are */
    if (!as_it_is) {
        char *all = OPF_NEW(c->graph->arena, char, bytes->count), *copy = OPF_NEW(c->graph->arena, char, size);
        if (all == NULL || copy == NULL) {
            opf_contrib_fail(c, OPF_OUT_OF_MEMORY, "out of memory");
            return 0;
        }
        opf_const_write(bytes, all);
        for (size_t i = 0; i < (size_t)w->rows * (size_t)keep; i++)
            opf_store_i64(w->type, copy, i,
                          opf_load_i64(w->type, all, i / (size_t)keep * row * per_byte + i % (size_t)keep));
        data = copy;
    }
    const opf_const *narrow = as_it_is && bytes->mapped
                                  ? opf_const_mapped(c->graph->consts, w->type, 2, dims, data, size)
                                  : opf_const_bytes(c->graph->consts, w->type, 2, dims, data, size);
    const opf_value_id value = narrow == NULL ? 0 : opf_graph_add_constant(c->graph, c->name, narrow);
    if (value == 0)
        opf_contrib_fail(c, OPF_OUT_OF_MEMORY, "out of memory");
    return value;
}

/* The middle of the range. */
static opf_value_id middle(opf_contrib *c, const few_bits *w)
{
    const int64_t dims[2] = {w->rows, w->blocks};
    const int64_t half = (int64_t)1 << (w->bits - 1);
    size_t count, size = 0;
    char *data = NULL;
    if (opf_mul_size((size_t)w->rows, (size_t)w->blocks, &count) && opf_type_bytes(w->type, count, &size))
        data = OPF_NEW(c->graph->arena, char, size);
    for (size_t i = 0; data != NULL && i < count; i++)
        opf_store_i64(w->type, data, i, half);
    const opf_const *zero = data == NULL ? NULL : opf_const_bytes(c->graph->consts, w->type, 2, dims, data, size);
    const opf_value_id value = zero == NULL ? 0 : opf_graph_add_constant(c->graph, c->name, zero);
    if (value == 0)
        opf_contrib_fail(c, OPF_OUT_OF_MEMORY, "out of memory");
    return value;
}

static few_bits read_few_bits(opf_contrib *c, int64_t depth)
{
    const int64_t bits = opf_contrib_int(c, "bits", 4), block = opf_contrib_int(c, "block_size", 0);
    few_bits w = {.bits = (uint32_t)bits, .rows = opf_contrib_int(c, "N", 0), .block = block};
    opf_contrib_demand_int(c, "weight_prepacked", 0);
    if (bits != 2 && bits != 4 && bits != 8)
        opf_contrib_fail(c, OPF_UNSUPPORTED, "bits = %lld is not supported", (long long)bits);
    if (depth < 1 || w.rows < 1 || block < 16 || (block & (block - 1)) != 0 || depth > INT64_MAX - block ||
        block > INT32_MAX)
        opf_contrib_fail(c, OPF_INVALID_MODEL, "K = %lld, N = %lld, block_size = %lld do not fit", (long long)depth,
                         (long long)w.rows, (long long)block);
    if (opf_contrib_failed(c))
        return w;
    w.type = bits == 2 ? OPF_UINT2 : bits == 4 ? OPF_UINT4 : OPF_UINT8;
    w.blocks = (depth + block - 1) / block;
    return w;
}

/* A times the transpose of [N, K] weights that share a scale and a zero point in blocks along K. */
void opf_decompose_MatMulNBits(opf_contrib *c)
{
    enum { A, B, SCALES, ZEROS, GROUPS, BIAS };
    const int64_t depth = opf_contrib_int(c, "K", 0);
    const few_bits w = read_few_bits(c, depth);
    if (opf_contrib_in(c, GROUPS) != 0)
        opf_contrib_fail(c, OPF_UNSUPPORTED, "g_idx is not supported");
    if (opf_contrib_failed(c))
        return;
    const opf_value_id zeros = opf_contrib_in(c, ZEROS);
    const opf_value_id q = unpack(c, &w, opf_contrib_in(c, B), "B", w.blocks * w.block, w.blocks * w.block);
    const opf_value_id zero = zeros != 0 ? unpack(c, &w, zeros, "zero_points", w.blocks, w.blocks) : middle(c, &w);
    const opf_value_id scale =
        OPF_APPLY(c, Reshape, opf_contrib_in(c, SCALES), opf_contrib_ints(c, OPF_INTS(w.rows, w.blocks)));
    opf_value_id real =
        opf_contrib_add(c, &opf_op_DequantizeLinear, OPF_INPUTS(q, scale, zero),
                        OPF_ATTRS(opf_contrib_int_attr("axis", 1), opf_contrib_int_attr("block_size", w.block)));
    if (depth != w.blocks * w.block)
        real = OPF_APPLY(c, Slice, real, opf_contrib_ints(c, OPF_INTS(0)), opf_contrib_ints(c, OPF_INTS(depth)),
                         opf_contrib_ints(c, OPF_INTS(1)));
    const opf_value_id y = OPF_APPLY(c, MatMul, opf_contrib_in(c, A), opf_contrib_transpose(c, real, OPF_INTS(1, 0)));
    opf_contrib_bind(c, 0, opf_contrib_in(c, BIAS) != 0 ? OPF_APPLY(c, Add, y, opf_contrib_in(c, BIAS)) : y);
}
