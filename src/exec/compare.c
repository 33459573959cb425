/* SPDX-License-Identifier: Apache-2.0 */
/* Comparing tensors, with bounds by type. */
#include "exec/compare.h"

#include "base/status.h"
#include "base/types.h"

#include <math.h>

double opf_default_rtol(opf_type type)
{
    switch (type) {
    case OPF_FLOAT16:
        return 4e-3;
    case OPF_BFLOAT16:
        return 2e-2;
    case OPF_FLOAT:
    case OPF_DOUBLE:
        return 1e-3;
    default:
        return 0;
    }
}

double opf_default_atol(opf_type type)
{
    return type == OPF_FLOAT || type == OPF_DOUBLE ? 1e-4 : opf_default_rtol(type);
}

static bool same_shape(const opf_tensor *a, const opf_tensor *b)
{
    if (a->type != b->type || a->rank != b->rank)
        return false;
    for (int32_t i = 0; i < a->rank; i++)
        if (a->dims[i] != b->dims[i])
            return false;
    return true;
}

opf_status opf_tensor_compare(const opf_tensor *actual, const opf_tensor *expected, double rtol, double atol, double *max_abs, double *max_rel,
                              size_t *n_wrong, opf_error *error)
{
    OPF_FAIL_IF(error, actual == NULL || expected == NULL, OPF_INVALID_ARGUMENT, "tensors must not be NULL");
    size_t bytes = 0;
    OPF_FAIL_IF(error, !same_shape(actual, expected), OPF_CHECK_FAILED, "type or shape differ: %s of rank %d, expected %s of rank %d",
                opf_type_name(actual->type), actual->rank, opf_type_name(expected->type), expected->rank);
    bool   is_float = opf_types_have(OPF_TYPES_ANY_FLOAT, expected->type);
    size_t count    = 1, wrong = 0;
    double abs_max = 0, rel_max = 0;
    for (int32_t i = 0; i < expected->rank; i++)
        count *= (size_t)expected->dims[i];
    OPF_FAIL_IF(error, !opf_type_bytes(expected->type, count, &bytes) || actual->bytes < bytes || expected->bytes < bytes ||
                           (bytes != 0 && (actual->data == NULL || expected->data == NULL)),
                OPF_INVALID_ARGUMENT, "a tensor has no data, or too little for its shape");
    if (rtol < 0)
        rtol = opf_default_rtol(expected->type);
    if (atol < 0)
        atol = opf_default_atol(expected->type);
    for (size_t i = 0; i < count; i++) {
        double difference, size;
        if (is_float) {
            double a = opf_load_f64(actual->type, actual->data, i), b = opf_load_f64(expected->type, expected->data, i);
            if ((isnan(a) && isnan(b)) || a == b)
                continue;
            difference = fabs(a - b);
            size       = fabs(b);
            if (isnan(difference) || isinf(a) || isinf(b))
                difference = (double)INFINITY;
        } else {
            int64_t a = opf_load_i64(actual->type, actual->data, i), b = opf_load_i64(expected->type, expected->data, i);
            if (a == b)
                continue;
            difference = a > b ? (double)((uint64_t)a - (uint64_t)b) : (double)((uint64_t)b - (uint64_t)a);
            size       = fabs((double)b);
        }
        abs_max = fmax(abs_max, difference);
        rel_max = fmax(rel_max, size > 0 ? difference / size : (double)INFINITY);
        wrong += !(difference <= atol + rtol * size) || isinf(difference);
    }
    if (max_abs != NULL)
        *max_abs = abs_max;
    if (max_rel != NULL)
        *max_rel = rel_max;
    if (n_wrong != NULL)
        *n_wrong = wrong;
    return OPF_OK;
}
