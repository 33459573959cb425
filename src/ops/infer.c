/* SPDX-License-Identifier: Apache-2.0 */
/* What infer functions of operators call. The pass over a graph is in infer_pass.c. */
#include "ops/infer.h"

#include <string.h>

opf_status opf_infer_set(opf_infer *infer, uint32_t o, int32_t rank, const opf_dim *dims, opf_error *error)
{
    OPF_FAIL_IF(error, rank < 0 || rank > OPF_MAX_RANK, OPF_LIMIT, "output %u has rank %d, at most %d is supported", o, rank,
                OPF_MAX_RANK);
    for (int32_t i = 0; i < rank; i++)
        OPF_FAIL_IF(error, opf_dim_is_number(dims[i]) && dims[i].n < 0, OPF_INVALID_INPUT,
                    "dimension %d of output %u comes to %lld", i, o, (long long)dims[i].n);
    opf_dim *copy = opf_arena_copy(infer->arena, dims, (size_t)rank * sizeof *dims);
    OPF_OOM_IF(error, copy == NULL);
    infer->out[o].rank = rank;
    infer->out[o].dims = copy;
    return OPF_OK;
}

opf_status opf_infer_set_values(opf_infer *infer, uint32_t o, int32_t n, const opf_dim *values, opf_error *error)
{
    if (n < 0 || n > OPF_MAX_KNOWN_VALUES)
        return OPF_OK;
    opf_dim *copy = opf_arena_copy(infer->arena, values, (size_t)n * sizeof *values);
    OPF_OOM_IF(error, copy == NULL);
    infer->out[o].n_values = n;
    infer->out[o].values   = copy;
    return OPF_OK;
}

opf_status opf_infer_same(opf_infer *infer, uint32_t o, uint32_t i, opf_error *error)
{
    if (i >= infer->n_in || infer->in[i]->rank < 0)
        return OPF_OK;
    return opf_infer_set(infer, o, infer->in[i]->rank, infer->in[i]->dims, error);
}

opf_status opf_broadcast_dim(opf_dims *table, opf_dim a, opf_dim b, opf_dim *result)
{
    bool a_is_number = opf_dim_is_number(a), b_is_number = opf_dim_is_number(b);
    if (opf_dim_equal(a, b) || opf_dim_is(b, 1))
        *result = a;
    else if (opf_dim_is(a, 1))
        *result = b;
    else if (a_is_number && b_is_number)
        return OPF_INVALID_INPUT;
    else if (opf_dim_is_one_or(table, b, a))
        *result = a;
    else if (opf_dim_is_one_or(table, a, b))
        *result = b;
    else if (a_is_number || opf_dim_at_least(table, a, 2)) /* not 1: the other one is 1 or the same */
        *result = a;
    else if (b_is_number || opf_dim_at_least(table, b, 2))
        *result = b;
    else if (opf_dim_is_clipped(table, b, a))
        *result = a;
    else if (opf_dim_is_clipped(table, a, b))
        *result = b;
    else
        *result = opf_dim_unknown(table);
    return OPF_OK;
}

opf_status opf_infer_broadcast(opf_infer *infer, uint32_t n, opf_error *error)
{
    opf_dim dims[OPF_MAX_RANK];
    int32_t rank = 0;
    for (uint32_t i = 0; i < n && i < infer->n_in; i++) {
        if (!opf_infer_has(infer, i))
            continue;
        if (infer->in[i]->rank < 0)
            return OPF_OK;
        rank = infer->in[i]->rank > rank ? infer->in[i]->rank : rank;
    }
    for (int32_t k = 0; k < rank; k++)
        dims[k] = opf_dim_number(1);
    for (uint32_t i = 0; i < n && i < infer->n_in; i++) {
        if (!opf_infer_has(infer, i))
            continue;
        const opf_info *in = infer->in[i];
        for (int32_t k = 0; k < in->rank; k++) {
            opf_dim *dim = &dims[rank - in->rank + k];
            if (opf_broadcast_dim(infer->dims, *dim, in->dims[k], dim) == OPF_OK)
                continue;
            const opf_info so_far = {.type = in->type, .rank = rank, .dims = dims, .n_values = -1};
            const char    *a      = opf_info_string(i == 1 ? infer->in[0] : &so_far, infer->dims, infer->arena);
            const char    *b      = opf_info_string(in, infer->dims, infer->arena);
            return opf_fail(error, OPF_INVALID_INPUT, "shapes %s and %s do not broadcast", a != NULL ? a : "?", b != NULL ? b : "?");
        }
    }
    return opf_infer_set(infer, 0, rank, dims, error);
}

bool opf_infer_has(const opf_infer *infer, uint32_t i)
{
    return i < infer->n_in && infer->node->inputs[i] != 0;
}

bool opf_infer_values(const opf_infer *infer, uint32_t i, const opf_dim **values, int32_t *n)
{
    if (!opf_infer_has(infer, i) || infer->in[i]->n_values < 0)
        return false;
    *values = infer->in[i]->values;
    *n      = infer->in[i]->n_values;
    return true;
}

bool opf_infer_numbers(const opf_infer *infer, uint32_t i, int64_t *numbers, int32_t room, int32_t *n)
{
    const opf_dim *values;
    if (!opf_infer_values(infer, i, &values, n) || *n > room)
        return false;
    for (int32_t k = 0; k < *n; k++) {
        if (!opf_dim_is_number(values[k]))
            return false;
        numbers[k] = values[k].n;
    }
    return true;
}

opf_status opf_normalize_axis(int64_t axis, int32_t rank, int32_t *result, opf_error *error)
{
    OPF_FAIL_IF(error, axis < -(int64_t)rank || axis >= rank, OPF_INVALID_MODEL, "axis %lld is out of range for rank %d",
                (long long)axis, rank);
    *result = (int32_t)(axis < 0 ? axis + rank : axis);
    return OPF_OK;
}

const char *opf_info_string(const opf_info *info, const opf_dims *dims, opf_arena *arena)
{
    opf_text text;
    opf_text_init(&text, arena);
    opf_text_add(&text, "%s[", opf_type_name(info->type));
    if (info->rank < 0)
        opf_text_add(&text, "...");
    for (int32_t i = 0; i < info->rank; i++) {
        if (i != 0)
            opf_text_add(&text, ",");
        opf_dim_print(dims, info->dims[i], &text);
    }
    opf_text_add(&text, "]");
    return text.failed ? NULL : text.data;
}
