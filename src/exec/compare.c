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

/* Both are there, of one type and shape; *count elements. */
static opf_status check_pair(const opf_tensor *actual, const opf_tensor *expected, size_t *count, opf_error *error)
{
    size_t bytes = 0;
    OPF_FAIL_IF(error, actual == NULL || expected == NULL, OPF_INVALID_ARGUMENT, "tensors must not be NULL");
    OPF_FAIL_IF(error, !same_shape(actual, expected), OPF_CHECK_FAILED,
                "type or shape differ: %s of rank %d, expected %s of rank %d", opf_type_name(actual->type),
                actual->rank, opf_type_name(expected->type), expected->rank);
    *count = 1;
    for (int32_t i = 0; i < expected->rank; i++)
        *count *= (size_t)expected->dims[i];
    OPF_FAIL_IF(error,
                !opf_type_bytes(expected->type, *count, &bytes) || actual->bytes < bytes || expected->bytes < bytes ||
                    (bytes != 0 && (actual->data == NULL || expected->data == NULL)),
                OPF_INVALID_ARGUMENT, "a tensor has no data, or too little for its shape");
    return OPF_OK;
}

/* |a - b| of integers, also of those that are further apart than the largest signed one. */
static double integer_distance(int64_t a, int64_t b)
{
    return a > b ? (double)((uint64_t)a - (uint64_t)b) : (double)((uint64_t)b - (uint64_t)a);
}

opf_status opf_tensor_compare(const opf_tensor *actual, const opf_tensor *expected, double rtol, double atol,
                              double *max_abs, double *max_rel, size_t *n_wrong, opf_error *error)
{
    const bool is_float = expected != NULL && opf_types_have(OPF_TYPES_ANY_FLOAT, expected->type);
    size_t count = 0, wrong = 0;
    double abs_max = 0, rel_max = 0;
    OPF_TRY(check_pair(actual, expected, &count, error));
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
            difference = integer_distance(a, b);
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

/* ---- quantized ---- */

#define QUANTIZED                                                                                                      \
    (OPF_TYPES_SUBBYTE | OPF_TYPES_FLOAT6 | (OPF_TYPES_FLOAT8 & ~OPF_TYPE_BIT(OPF_FLOAT8E8M0)) |                       \
     OPF_TYPE_BIT(OPF_UINT8) | OPF_TYPE_BIT(OPF_INT8) | OPF_TYPE_BIT(OPF_UINT16) | OPF_TYPE_BIT(OPF_INT16))

/* The place of a narrow float among those of its type, both zeros at 0. */
static int64_t place_of(opf_type type, const void *data, size_t i)
{
    const size_t width = opf_type_bits(type);
    const unsigned bits = opf_load_bits(width, data, i), sign = 1u << (width - 1);
    return (bits & sign) != 0 ? -(int64_t)(bits & (sign - 1)) : (int64_t)bits;
}

static double levels_apart(opf_type type, const void *actual, const void *expected, size_t i)
{
    if (!opf_types_have(OPF_TYPES_ANY_FLOAT, type))
        return integer_distance(opf_load_i64(type, actual, i), opf_load_i64(type, expected, i));
    const double a = opf_load_f64(type, actual, i), b = opf_load_f64(type, expected, i);
    if ((isnan(a) && isnan(b)) || a == b)
        return 0;
    if (!isfinite(a) || !isfinite(b))
        return (double)INFINITY;
    return integer_distance(place_of(type, actual, i), place_of(type, expected, i));
}

opf_status opf_tensor_compare_quantized(const opf_tensor *actual, const opf_tensor *expected, double *max_levels,
                                        size_t *n_wrong, opf_error *error)
{
    size_t count = 0, wrong = 0;
    double most = 0;
    OPF_TRY(check_pair(actual, expected, &count, error));
    OPF_FAIL_IF(error, !opf_types_have(QUANTIZED, expected->type), OPF_INVALID_ARGUMENT,
                "%s is no type of quantized numbers", opf_type_name(expected->type));
    for (size_t i = 0; i < count; i++) {
        const double levels = levels_apart(expected->type, actual->data, expected->data, i);
        most = fmax(most, levels);
        wrong += levels > 1;
    }
    if (max_levels != NULL)
        *max_levels = most;
    if (n_wrong != NULL)
        *n_wrong = wrong;
    return OPF_OK;
}

enum { LOOKED_AT = 256 }; /* nodes behind a value: what moves through more is taken to be no result of quantisation */

static bool leads_to_quantize(const opf_graph *graph, opf_value_id id, int *left);

/* Output o of a node with bodies is what one of them makes: a Loop's first is its condition. */
static bool bodies_quantize(const opf_node *node, uint32_t o, int *left)
{
    const uint32_t at = o + (node->op == &opf_op_Loop ? 1 : 0);
    for (uint32_t b = 0; b < node->n_bodies; b++)
        if (at < node->bodies[b]->n_outputs && leads_to_quantize(node->bodies[b], node->bodies[b]->outputs[at], left))
            return true;
    return false;
}

/* Back through what only moves or selects elements. */
static bool leads_to_quantize(const opf_graph *graph, opf_value_id id, int *left)
{
    const opf_value *value = opf_graph_value(graph, id);
    if (value->producer == 0 || !opf_types_have(QUANTIZED, value->info.type) || --*left < 0)
        return false;
    const opf_node *node = opf_graph_node(graph, value->producer);
    if (node->op == &opf_op_QuantizeLinear || node->op == &opf_op_DynamicQuantizeLinear ||
        node->op == &opf_op_QLinearConv || node->op == &opf_op_QLinearMatMul)
        return true;
    if (node->n_bodies != 0)
        return bodies_quantize(node, value->producer_output, left);
    if (node->op == NULL || ((node->op->traits & OPF_MOVEMENT) == 0 && node->op != &opf_op_MaxPool))
        return false;
    for (uint32_t i = 0; i < node->n_own_inputs; i++)
        if (node->inputs[i] != 0 && leads_to_quantize(graph, node->inputs[i], left))
            return true;
    return false;
}

bool opf_value_is_quantized(const opf_graph *graph, opf_value_id value)
{
    int left = LOOKED_AT;
    return leads_to_quantize(graph, value, &left);
}
