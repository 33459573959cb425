/* SPDX-License-Identifier: Apache-2.0 */
/* What elementwise operators share: inference that carries known values, arithmetic on integers, definitions. */
#ifndef OPF_OPS_ELEMENTWISE_H
#define OPF_OPS_ELEMENTWISE_H

#include "ops/infer.h"
#include "ops/reference.h"

/* How known elements travel through an operator. Binary functions fold over variadic inputs; unary ones ignore b. */
typedef struct opf_value_rule {
    bool is_unary;
    /* Of integers and booleans; false: not known. The result is wrapped to the output's type by the caller. */
    bool (*integers)(opf_dims *dims, opf_dim a, opf_dim b, opf_dim *result);
    /* Of floats that are known numbers; NULL: floats are not carried. */
    double (*floats)(double a, double b);
} opf_value_rule;

/* Output 0 is the broadcast of all inputs; its elements are known where the rule knows them. rule NULL: never. */
opf_status opf_infer_elementwise(opf_infer *infer, const opf_value_rule *rule, opf_error *error);
opf_status opf_infer_shape_only(opf_infer *infer, opf_error *error); /* the same without a rule */

/* The elements of input i as numbers of a float type: float constants, or values that were carried. */
bool opf_infer_floats(const opf_infer *infer, uint32_t i, double *numbers, int32_t room, int32_t *n);
/* A known number as an element of an integer or boolean type: wrapped. false when the type cannot hold it as a value. */
bool opf_value_of_integer(opf_type type, int64_t n, opf_dim *result);
/* The same of a float type: false unless x, rounded to the type, is an integer (and no negative zero). */
bool opf_value_of_float(opf_type type, double x, opf_dim *result);

/* Float to integer, truncated, with every case defined: out of range saturates, NaN gives 0. */
int64_t opf_double_to_int(double x);
uint64_t opf_double_to_uint(double x);
/* What Cast makes of x: the caller stores the low bits that the type has. What does not fit gives what x86-64 gives:
   docs/decisions.md. */
int64_t opf_cast_to_integer(opf_type type, double x);

/* result[i] = f(a[i]) on integers of any type, wrapped. */
void opf_reference_unary_int(const opf_call *call, int64_t (*f)(int64_t));
/* Folds inputs 0, 1, … with broadcasting, floats in double, and divides by `divisor` (floats only, 1: not). */
opf_status opf_reference_fold(const opf_call *call, double (*ff)(double, double), int64_t (*fi)(int64_t, int64_t),
                              uint64_t (*fu)(uint64_t, uint64_t), double divisor, opf_error *error);

/* A data error when any element of integer input i that takes part is zero. */
opf_status opf_check_divisor(const opf_call *call, uint32_t i, opf_error *error);

/* ---- definitions ---- */

#define OPF_PARAMS(...) (const opf_param[]){__VA_ARGS__}

/* One input, one output of the same type. */
#define OPF_DEFINE_UNARY(op, version, type_set, infer_fn, reference_fn)                                                \
    OPF_DEFINE_UNARY_ATTRS(op, version, type_set, infer_fn, reference_fn, NULL, 0)
#define OPF_DEFINE_UNARY_ATTRS(op, version, type_set, infer_fn, reference_fn, attr_list, attr_count)                   \
    const opf_op opf_op_##op = {.name      = #op,                                                                      \
                                .domain    = "",                                                                       \
                                .since     = (version),                                                                \
                                .traits    = OPF_ELEMENTWISE,                                                          \
                                .inputs    = OPF_PARAMS({"X", 'T', (type_set), 0}),                                    \
                                .n_inputs  = 1,                                                                        \
                                .outputs   = OPF_PARAMS({"Y", 'T', (type_set), 0}),                                    \
                                .n_outputs = 1,                                                                        \
                                .attrs     = (attr_list),                                                              \
                                .n_attrs   = (attr_count),                                                             \
                                .infer     = (infer_fn),                                                               \
                                .reference = (reference_fn)}

#endif
