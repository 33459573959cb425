/* SPDX-License-Identifier: Apache-2.0 */
/* Weights of a few bits, of which several share a scale and a zero point: products with them, and rows of them. */
#include "onnx/contrib/contrib.h"

#include "base/memory.h"

/* ---- products ---- */

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

static opf_value_id whole_zeros(opf_contrib *c, const few_bits *w, opf_value_id zeros)
{
    return zeros != 0 ? unpack(c, w, zeros, "zero_points", w->blocks, w->blocks) : middle(c, w);
}

/* [rows, blocks * block] real numbers; whole levels are subtracted where zero points are bytes or absent. */
static opf_value_id real_weights(opf_contrib *c, const few_bits *w, opf_value_id q, opf_value_id scales,
                                 opf_value_id zeros)
{
    const opf_value_id scale = OPF_APPLY(c, Reshape, scales, opf_contrib_ints(c, OPF_INTS(w->rows, w->blocks)));
    if (zeros == 0 || opf_contrib_info(c, zeros)->type == OPF_UINT8) {
        const opf_value_id zero = whole_zeros(c, w, zeros);
        return opf_contrib_add(
            c, &opf_op_DequantizeLinear, OPF_INPUTS(q, scale, zero),
            OPF_ATTRS(opf_contrib_int_attr("axis", 1), opf_contrib_int_attr("block_size", w->block)));
    }
    const opf_type type = opf_contrib_type(c, scales, "scales");
    const opf_value_id column = opf_contrib_ints(c, OPF_INTS(w->rows, w->blocks, 1));
    const opf_value_id levels = OPF_APPLY(c, Reshape, opf_contrib_cast(c, q, type),
                                          opf_contrib_ints(c, OPF_INTS(w->rows, w->blocks, w->block)));
    const opf_value_id apart =
        OPF_APPLY(c, Sub, levels, OPF_APPLY(c, Reshape, opf_contrib_cast(c, zeros, type), column));
    return OPF_APPLY(c, Reshape, OPF_APPLY(c, Mul, apart, OPF_APPLY(c, Reshape, scale, column)),
                     opf_contrib_ints(c, OPF_INTS(w->rows, -1)));
}

/* The same where each of K says by itself which block's scale and zero point it has. */
static opf_value_id grouped_weights(opf_contrib *c, const few_bits *w, opf_value_id q, opf_value_id scales,
                                    opf_value_id zeros, opf_value_id groups)
{
    const opf_type type = opf_contrib_type(c, scales, "scales");
    const opf_attr along = opf_contrib_int_attr("axis", 1);
    const bool is_whole = zeros == 0 || opf_contrib_info(c, zeros)->type == OPF_UINT8;
    const opf_value_id zero = is_whole ? whole_zeros(c, w, zeros) : zeros;
    const opf_value_id shape = opf_contrib_ints(c, OPF_INTS(w->rows, w->blocks));
    const opf_value_id each[2] = {OPF_APPLY(c, Reshape, opf_contrib_cast(c, zero, type), shape),
                                  OPF_APPLY(c, Reshape, scales, shape)};
    const opf_value_id levels = opf_contrib_cast(c, q, type);
    const opf_value_id apart =
        OPF_APPLY(c, Sub, levels, opf_contrib_add(c, &opf_op_Gather, OPF_INPUTS(each[0], groups), OPF_ATTRS(along)));
    return OPF_APPLY(c, Mul, apart, opf_contrib_add(c, &opf_op_Gather, OPF_INPUTS(each[1], groups), OPF_ATTRS(along)));
}

/* A times the transpose of [N, K] weights that share a scale and a zero point in blocks along K. */
void opf_decompose_MatMulNBits(opf_contrib *c)
{
    enum { A, B, SCALES, ZEROS, GROUPS, BIAS };
    const int64_t depth = opf_contrib_int(c, "K", 0);
    const few_bits w = read_few_bits(c, depth);
    const opf_value_id groups = opf_contrib_in(c, GROUPS), zeros = opf_contrib_in(c, ZEROS);
    if (opf_contrib_failed(c))
        return;
    const int64_t width = w.blocks * w.block, keep = groups != 0 ? depth : width;
    const opf_value_id q = unpack(c, &w, opf_contrib_in(c, B), "B", width, keep);
    opf_value_id real = groups != 0 ? grouped_weights(c, &w, q, opf_contrib_in(c, SCALES), zeros, groups)
                                    : real_weights(c, &w, q, opf_contrib_in(c, SCALES), zeros);
    if (depth != keep)
        real = OPF_APPLY(c, Slice, real, opf_contrib_ints(c, OPF_INTS(0)), opf_contrib_ints(c, OPF_INTS(depth)),
                         opf_contrib_ints(c, OPF_INTS(1)));
    const opf_value_id y = OPF_APPLY(c, MatMul, opf_contrib_in(c, A), opf_contrib_transpose(c, real, OPF_INTS(1, 0)));
    opf_contrib_bind(c, 0, opf_contrib_in(c, BIAS) != 0 ? OPF_APPLY(c, Add, y, opf_contrib_in(c, BIAS)) : y);
}

/* ---- rows ---- */

/* Two elements of each byte on the last axis, the low bits first. */
static opf_value_id unpack_bytes(opf_contrib *c, opf_value_id x, int32_t rank)
{
    const opf_value_id last = opf_contrib_ints(c, OPF_INTS(-1));
    const opf_value_id low = OPF_APPLY(c, BitwiseAnd, x, opf_contrib_integer(c, OPF_UINT8, 15));
    const opf_value_id high = opf_contrib_add(c, &opf_op_BitShift, OPF_INPUTS(x, opf_contrib_integer(c, OPF_UINT8, 4)),
                                              OPF_ATTRS(opf_contrib_string_attr("direction", "RIGHT")));
    const opf_value_id pairs = opf_contrib_add(
        c, &opf_op_Concat, OPF_INPUTS(OPF_APPLY(c, Unsqueeze, low, last), OPF_APPLY(c, Unsqueeze, high, last)),
        OPF_ATTRS(opf_contrib_int_attr("axis", -1)));
    int64_t shape[OPF_MAX_RANK] = {0}; /* 0: as it is */
    shape[rank - 1] = -1;
    return OPF_APPLY(c, Reshape, pairs, opf_contrib_ints(c, (uint32_t)rank, shape));
}

/* Rows are gathered as they are and made real afterwards, so that no whole table of real numbers comes to be. */
void opf_decompose_GatherBlockQuantized(opf_contrib *c)
{
    enum { DATA, INDICES, SCALES, ZEROS };
    const int64_t bits = opf_contrib_int(c, "bits", 4), block = opf_contrib_int(c, "block_size", 128);
    const opf_type type = opf_contrib_type(c, opf_contrib_in(c, DATA), "data");
    const int32_t rank = opf_contrib_rank(c, opf_contrib_in(c, DATA), "data");
    const int32_t index_rank = opf_contrib_rank(c, opf_contrib_in(c, INDICES), "indices");
    const bool is_packed = type == OPF_UINT8 && bits == 4, is_byte = type == OPF_UINT8;
    int64_t gather = opf_contrib_int(c, "gather_axis", 0), along = opf_contrib_int(c, "quantize_axis", 1);
    gather += gather < 0 ? rank : 0;
    along += along < 0 ? rank : 0;
    if (bits != 4 && bits != 8)
        opf_contrib_fail(c, OPF_UNSUPPORTED, "bits = %lld is not supported", (long long)bits);
    if (gather < 0 || gather >= rank || along < 0 || along >= rank || gather == along ||
        rank + index_rank > OPF_MAX_RANK)
        opf_contrib_fail(c, OPF_INVALID_MODEL, "gather_axis and quantize_axis do not fit rank %d", (int)rank);
    if (is_packed && along != rank - 1)
        opf_contrib_fail(c, OPF_UNSUPPORTED, "packed data along axis %lld is not supported", (long long)along);
    if (opf_contrib_failed(c))
        return;
    const opf_attr axis = opf_contrib_int_attr("axis", gather);
    const opf_type as = type == OPF_UINT4 ? OPF_UINT8 : type == OPF_INT4 ? OPF_INT8 : type;
    opf_value_id part[3]; /* data, zero point, scale */
    const opf_value_id from[3] = {opf_contrib_in(c, DATA), opf_contrib_in(c, ZEROS), opf_contrib_in(c, SCALES)};
    for (int i = 0; i < 3; i++) {
        part[i] = from[i] == 0 ? 0
                               : opf_contrib_add(c, &opf_op_Gather,
                                                 OPF_INPUTS(i == 2 ? from[i] : opf_contrib_cast(c, from[i], as),
                                                            opf_contrib_in(c, INDICES)),
                                                 OPF_ATTRS(axis));
        if (part[i] != 0 && i < 2 && is_packed)
            part[i] = unpack_bytes(c, part[i], rank + index_rank - 1);
    }
    along += along > gather ? index_rank - 1 : 0;
    const opf_value_id at = opf_contrib_ints(c, OPF_INTS(along));
    if (part[1] != 0 && is_packed) /* an odd number of zero points leaves half a byte */
        part[1] =
            OPF_APPLY(c, Slice, part[1], opf_contrib_ints(c, OPF_INTS(0)), opf_contrib_size(c, part[2], along), at);
    if (part[1] == 0 && is_byte) /* the middle of the range */
        part[1] = OPF_APPLY(c, Expand, opf_contrib_integer(c, OPF_UINT8, (int64_t)1 << (bits - 1)),
                            OPF_APPLY(c, Shape, part[2]));
    opf_contrib_bind(
        c, 0,
        opf_contrib_add(c, &opf_op_DequantizeLinear, OPF_INPUTS(part[0], part[2], part[1]),
                        OPF_ATTRS(opf_contrib_int_attr("axis", along), opf_contrib_int_attr("block_size", block))));
}
