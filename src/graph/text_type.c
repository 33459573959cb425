/* SPDX-License-Identifier: Apache-2.0 */
/* The reader of the textual syntax, part two: types, dimensions and the data of tensors. */
#include "graph/text_scan.h"

#include <string.h>

bool opf_scan_find_type(const char *name, opf_type *type)
{
    for (opf_type t = OPF_FLOAT; t < OPF_TYPE_COUNT; t++)
        if (strcmp(opf_type_name(t), name) == 0) {
            *type = t;
            return true;
        }
    return false;
}

/* ---- dimensions: N, 3, ?, ?7, 2*S+1, floor((H+1)/2), min(S, 512), "any name" ---- */

static opf_status scan_sum(opf_scan *scan, opf_dim *dim);

static opf_status scan_unknown(opf_scan *scan, opf_dim *dim)
{
    *dim = opf_dim_unknown(scan->dims);
    if (*scan->at < '0' || *scan->at > '9')
        return OPF_OK;
    int64_t number;
    OPF_TRY(opf_scan_int(scan, &number));
    if (number > UINT32_MAX)
        return opf_scan_fail(scan, "the number of an unknown dimension is too large");
    for (uint32_t i = 0; i < scan->n_unknowns; i++)
        if (scan->unknown_numbers[i] == (uint32_t)number) {
            *dim = scan->unknown_dims[i];
            return OPF_OK;
        }
    uint32_t  n       = scan->n_unknowns;
    uint32_t *numbers = OPF_NEW(scan->arena, uint32_t, n + 1);
    opf_dim  *dims    = OPF_NEW(scan->arena, opf_dim, n + 1);
    OPF_OOM_IF(scan->error, numbers == NULL || dims == NULL);
    if (n != 0) {
        memcpy(numbers, scan->unknown_numbers, n * sizeof *numbers);
        memcpy(dims, scan->unknown_dims, n * sizeof *dims);
    }
    numbers[n]            = (uint32_t)number;
    dims[n]               = *dim;
    scan->unknown_numbers = numbers;
    scan->unknown_dims    = dims;
    scan->n_unknowns++;
    return OPF_OK;
}

static opf_status scan_parenthesis(opf_scan *scan, opf_dim *dim)
{
    if (scan->depth >= OPF_SCAN_DEPTH)
        return opf_scan_fail(scan, "more than %d parentheses", OPF_SCAN_DEPTH);
    scan->depth++;
    OPF_TRY(opf_scan_expect(scan, "("));
    OPF_TRY(scan_sum(scan, dim));
    OPF_TRY(opf_scan_expect(scan, ")"));
    scan->depth--;
    return OPF_OK;
}

static opf_status scan_min(opf_scan *scan, opf_dim *dim)
{
    opf_dim a, b;
    if (scan->depth >= OPF_SCAN_DEPTH)
        return opf_scan_fail(scan, "more than %d parentheses", OPF_SCAN_DEPTH);
    scan->depth++;
    OPF_TRY(opf_scan_expect(scan, "("));
    OPF_TRY(scan_sum(scan, &a));
    OPF_TRY(opf_scan_expect(scan, ","));
    OPF_TRY(scan_sum(scan, &b));
    OPF_TRY(opf_scan_expect(scan, ")"));
    scan->depth--;
    *dim = opf_dim_min(scan->dims, a, b);
    return OPF_OK;
}

static opf_status scan_factor(opf_scan *scan, opf_dim *dim)
{
    if (opf_scan_take(scan, "?"))
        return scan_unknown(scan, dim);
    if (opf_scan_peek(scan) == '(')
        return scan_parenthesis(scan, dim);
    if (!opf_scan_at_name(scan)) {
        int64_t n = 0;
        OPF_TRY(opf_scan_int(scan, &n));
        *dim = opf_dim_number(n);
        return OPF_OK;
    }
    bool        is_quoted = opf_scan_peek(scan) == '"';
    const char *name;
    OPF_TRY(opf_scan_name(scan, &name));
    if (!is_quoted && strcmp(name, "floor") == 0 && opf_scan_peek(scan) == '(')
        return scan_parenthesis(scan, dim);
    if (!is_quoted && strcmp(name, "min") == 0 && opf_scan_peek(scan) == '(')
        return scan_min(scan, dim);
    *dim = opf_dim_symbol(scan->dims, name);
    return OPF_OK;
}

static opf_status scan_product(opf_scan *scan, opf_dim *dim)
{
    OPF_TRY(scan_factor(scan, dim));
    for (;;) {
        opf_dim right;
        bool    is_product = opf_scan_take(scan, "*");
        if (!is_product && !opf_scan_take(scan, "/"))
            return OPF_OK;
        OPF_TRY(scan_factor(scan, &right));
        *dim = is_product ? opf_dim_mul(scan->dims, *dim, right) : opf_dim_div(scan->dims, *dim, right);
    }
}

static opf_status scan_sum(opf_scan *scan, opf_dim *dim)
{
    bool is_negative = opf_scan_take(scan, "-");
    OPF_TRY(scan_product(scan, dim));
    if (is_negative)
        *dim = opf_dim_sub(scan->dims, opf_dim_number(0), *dim);
    for (;;) {
        opf_dim right;
        bool    is_sum = opf_scan_take(scan, "+");
        if (!is_sum && !opf_scan_take(scan, "-"))
            return OPF_OK;
        OPF_TRY(scan_product(scan, &right));
        *dim = is_sum ? opf_dim_add(scan->dims, *dim, right) : opf_dim_sub(scan->dims, *dim, right);
    }
}

opf_status opf_scan_shape(opf_scan *scan, opf_info *info)
{
    info->rank     = 0;
    info->n_values = -1;
    info->dims     = OPF_NEW(scan->arena, opf_dim, OPF_MAX_RANK);
    OPF_OOM_IF(scan->error, info->dims == NULL);
    if (!opf_scan_take(scan, "["))
        return OPF_OK;
    if (opf_scan_take(scan, "]")) {
        info->rank = -1;
        return OPF_OK;
    }
    do {
        if (info->rank == OPF_MAX_RANK)
            return opf_scan_fail(scan, "more than %d dimensions", OPF_MAX_RANK);
        opf_dim dim;
        OPF_TRY(scan_sum(scan, &dim));
        if (opf_dim_is_number(dim) && dim.n < 0)
            return opf_scan_fail(scan, "dimension %lld is negative", (long long)dim.n);
        info->dims[info->rank++] = dim;
    } while (opf_scan_take(scan, ","));
    OPF_OOM_IF(scan->error, opf_dims_failed(scan->dims));
    return opf_scan_expect(scan, "]");
}

/* ---- data ---- */

bool opf_text_is_raw(opf_type type)
{
    return opf_types_have(OPF_TYPES_FLOAT8 | OPF_TYPES_FLOAT6 | OPF_TYPES_SUBBYTE, type);
}

int64_t opf_text_raw_get(opf_type type, const void *data, size_t i)
{
    size_t   bits = opf_type_bits(type);
    unsigned raw  = opf_load_bits(bits, data, i);
    bool     is_negative = (type == OPF_INT4 || type == OPF_INT2) && (raw >> (bits - 1)) != 0;
    return is_negative ? (int64_t)raw - (1 << bits) : (int64_t)raw;
}

static opf_status scan_element(opf_scan *scan, opf_type type, unsigned char *data, size_t i)
{
    if (type == OPF_BOOL && (opf_scan_take(scan, "true") || opf_scan_take(scan, "false"))) {
        data[i] = scan->at[-2] == 'u'; /* tr-u-e, fal-s-e */
        return OPF_OK;
    }
    (void)opf_scan_peek(scan);
    const char     *start  = scan->at;
    opf_scan_number number = {.i = 0};
    OPF_TRY(opf_scan_number_get(scan, &number));
    if (opf_types_have(OPF_TYPES_FLOAT, type)) {
        opf_store_f64(type, data, i, number.f);
        return OPF_OK;
    }
    int64_t stored;
    if (opf_text_is_raw(type)) {
        opf_store_bits(opf_type_bits(type), data, i, (unsigned)number.i);
        stored = opf_text_raw_get(type, data, i);
    } else {
        opf_store_i64(type, data, i, number.i);
        stored = opf_load_i64(type, data, i);
    }
    bool fits =
        !number.is_float && stored == number.i && (type == OPF_UINT64 ? number.f >= 0 : (stored < 0) == (number.f < 0));
    if (fits)
        return OPF_OK;
    size_t length = (size_t)(scan->at - start);
    scan->at      = start;
    return opf_scan_fail(scan, "%.*s is no %s", length < 32 ? (int)length : 32, start, opf_type_name(type));
}

opf_status opf_scan_data(opf_scan *scan, const opf_info *info, const opf_const **tensor)
{
    int64_t dims[OPF_MAX_RANK];
    size_t  count = 1, bytes = 0;
    if (info->type == OPF_STRING || info->type == OPF_COMPLEX64 || info->type == OPF_COMPLEX128)
        return opf_scan_unsupported(scan, opf_type_name(info->type));
    if (!opf_info_count(info, &count))
        return opf_scan_fail(scan, "a constant needs a shape of numbers");
    for (int32_t i = 0; i < info->rank; i++)
        dims[i] = info->dims[i].n;
    OPF_TRY(opf_scan_expect(scan, "{"));
    if (strncmp(scan->at, "\xe2\x80\xa6", 3) == 0)
        return opf_scan_fail(scan, "the data of this constant was left out when the text was written");
    /* An element takes a character at least: what cannot be there is not allocated. */
    if (count > strlen(scan->at) || !opf_type_bytes(info->type, count, &bytes))
        return opf_scan_fail(scan, "%zu elements are wanted, there are less", count);
    unsigned char *data = opf_arena_alloc(scan->arena, bytes);
    OPF_OOM_IF(scan->error, data == NULL);
    for (size_t i = 0; i < count; i++) {
        if (opf_scan_peek(scan) == '}')
            return opf_scan_fail(scan, "%zu elements are wanted, there are %zu", count, i);
        if (i != 0)
            OPF_TRY(opf_scan_expect(scan, ","));
        OPF_TRY(scan_element(scan, info->type, data, i));
    }
    if (opf_scan_peek(scan) == ',')
        return opf_scan_fail(scan, "more than %zu elements", count);
    OPF_TRY(opf_scan_expect(scan, "}"));
    *tensor = opf_const_bytes(scan->consts, info->type, info->rank, dims, data, bytes);
    OPF_OOM_IF(scan->error, *tensor == NULL);
    return OPF_OK;
}
