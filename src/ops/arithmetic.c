/* SPDX-License-Identifier: Apache-2.0 */
/* Add Sub Mul Div Mod Pow, and the variadic Min Max Sum Mean. Integers wrap; an integer zero divisor is a data error. */
#include "ops/elementwise.h"
#include "ops/import.h"

#include <math.h>

/* ---- on floats, signed and unsigned integers ---- */

static double add_f(double a, double b)
{
    return a + b;
}
static double sub_f(double a, double b)
{
    return a - b;
}
static double mul_f(double a, double b)
{
    return a * b;
}
static double div_f(double a, double b)
{
    return a / b;
}
/* A NaN on either side is the result. */
static double min_f(double a, double b)
{
    return a < b || isnan(a) ? a : b;
}
static double max_f(double a, double b)
{
    return a > b || isnan(a) ? a : b;
}

/* The remainder with the sign of b. */
static double floor_mod_f(double a, double b)
{
    double r = fmod(a, b);
    if (r == 0)
        return copysign(0.0, b);
    return (r < 0) != (b < 0) ? r + b : r;
}

/* Signed arithmetic goes through unsigned, where wrapping is defined. */
static int64_t add_i(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}
static int64_t sub_i(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a - (uint64_t)b);
}
static int64_t mul_i(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a * (uint64_t)b);
}
static int64_t div_i(int64_t a, int64_t b)
{
    return b == -1 ? sub_i(0, a) : a / b;
}
static int64_t fmod_i(int64_t a, int64_t b)
{
    return b == -1 ? 0 : a % b;
}
static int64_t floor_mod_i(int64_t a, int64_t b)
{
    int64_t r = fmod_i(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
static int64_t min_i(int64_t a, int64_t b)
{
    return a < b ? a : b;
}
static int64_t max_i(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static uint64_t add_u(uint64_t a, uint64_t b)
{
    return a + b;
}
static uint64_t sub_u(uint64_t a, uint64_t b)
{
    return a - b;
}
static uint64_t mul_u(uint64_t a, uint64_t b)
{
    return a * b;
}
static uint64_t div_u(uint64_t a, uint64_t b)
{
    return a / b;
}
static uint64_t mod_u(uint64_t a, uint64_t b)
{
    return a % b;
}
static uint64_t min_u(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}
static uint64_t max_u(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* ---- on known values ---- */

static bool add_d(opf_dims *dims, opf_dim a, opf_dim b, opf_dim *result)
{
    *result = opf_dim_add(dims, a, b);
    return true;
}
static bool sub_d(opf_dims *dims, opf_dim a, opf_dim b, opf_dim *result)
{
    *result = opf_dim_sub(dims, a, b);
    return true;
}
static bool mul_d(opf_dims *dims, opf_dim a, opf_dim b, opf_dim *result)
{
    *result = opf_dim_mul(dims, a, b);
    return true;
}

/* Dimensions divide towards minus infinity, integers towards zero: the same where nothing is negative. */
static bool div_d(opf_dims *dims, opf_dim a, opf_dim b, opf_dim *result)
{
    bool are_numbers = opf_dim_is_number(a) && opf_dim_is_number(b);
    if (are_numbers && b.n != 0)
        *result = opf_dim_number(div_i(a.n, b.n));
    else if (opf_dim_at_least(dims, a, 0) && opf_dim_at_least(dims, b, 1))
        *result = opf_dim_div(dims, a, b);
    else
        return false;
    return true;
}

static bool mod_d(const opf_dim *a, const opf_dim *b, int64_t (*mod)(int64_t, int64_t), opf_dim *result)
{
    if (!opf_dim_is_number(*a) || !opf_dim_is_number(*b) || b->n == 0)
        return false;
    *result = opf_dim_number(mod(a->n, b->n));
    return true;
}
static bool fmod_d(opf_dims *dims, opf_dim a, opf_dim b, opf_dim *result)
{
    (void)dims;
    return mod_d(&a, &b, fmod_i, result);
}
static bool floor_mod_d(opf_dims *dims, opf_dim a, opf_dim b, opf_dim *result)
{
    (void)dims;
    return mod_d(&a, &b, floor_mod_i, result);
}

static bool min_d(opf_dims *dims, opf_dim a, opf_dim b, opf_dim *result)
{
    if (opf_dim_at_least(dims, opf_dim_sub(dims, b, a), 0))
        *result = a;
    else if (opf_dim_at_least(dims, opf_dim_sub(dims, a, b), 0))
        *result = b;
    else
        return false;
    return true;
}
static bool max_d(opf_dims *dims, opf_dim a, opf_dim b, opf_dim *result)
{
    if (opf_dim_at_least(dims, opf_dim_sub(dims, a, b), 0))
        *result = a;
    else if (opf_dim_at_least(dims, opf_dim_sub(dims, b, a), 0))
        *result = b;
    else
        return false;
    return true;
}

/* ---- definitions ---- */

/* A broadcast binary operator of opset 7 and up; older opsets had broadcast= and axis=. */
static const opf_import_row broadcast_rows[] = {{7, opf_lift_broadcast_6, opf_lower_broadcast_6}};
static const opf_import_row variadic_rows[]  = {{8, opf_import_same, opf_lower_same_shapes}};

#define DEFINE_INFER(fn, ...)                                                                                          \
    static opf_status infer_##fn(opf_infer *infer, opf_error *error)                                                   \
    {                                                                                                                  \
        static const opf_value_rule rule = {__VA_ARGS__};                                                              \
        return opf_infer_elementwise(infer, &rule, error);                                                             \
    }

#define DEFINE_BINARY(op, fn, trait_set, check_fn)                                                                     \
    DEFINE_INFER(fn, .integers = fn##_d, .floats = fn##_f)                                                             \
    static opf_status reference_##fn(const opf_call *call, opf_error *error)                                           \
    {                                                                                                                  \
        OPF_TRY(check_fn(call, 1, error));                                                                             \
        return opf_reference_binary(call, fn##_f, fn##_i, fn##_u);                                                     \
    }                                                                                                                  \
    const opf_op opf_op_##op = {.name      = #op,                                                                      \
                                .domain    = "",                                                                       \
                                .since     = 1,                                                                        \
                                .traits    = OPF_ELEMENTWISE | (trait_set),                                            \
                                .inputs    = OPF_PARAMS({"A", 'T', OPF_TYPES_NUMERIC, 0}, {"B", 'T', OPF_TYPES_NUMERIC, 0}), \
                                .n_inputs  = 2,                                                                        \
                                .outputs   = OPF_PARAMS({"C", 'T', OPF_TYPES_NUMERIC, 0}),                             \
                                .n_outputs = 1,                                                                        \
                                .rows      = broadcast_rows,                                                           \
                                .n_rows    = OPF_COUNT(broadcast_rows),                                                \
                                .infer     = infer_##fn,                                                               \
                                .reference = reference_##fn}

static opf_status check_nothing(const opf_call *call, uint32_t i, opf_error *error)
{
    (void)call;
    (void)i;
    (void)error;
    return OPF_OK;
}

DEFINE_BINARY(Add, add, OPF_COMMUTATIVE, check_nothing);
DEFINE_BINARY(Sub, sub, 0, check_nothing);
DEFINE_BINARY(Mul, mul, OPF_COMMUTATIVE, check_nothing);
DEFINE_BINARY(Div, div, 0, opf_check_divisor);

#define DEFINE_VARIADIC(op, output, type_set, infer_fn, reference_fn)                                                  \
    const opf_op opf_op_##op = {.name      = #op,                                                                      \
                                .domain    = "",                                                                       \
                                .since     = 1,                                                                        \
                                .traits    = OPF_ELEMENTWISE | OPF_COMMUTATIVE,                                        \
                                .inputs    = OPF_PARAMS({"data_0", 'T', (type_set), OPF_VARIADIC}),                    \
                                .n_inputs  = 1,                                                                        \
                                .outputs   = OPF_PARAMS({(output), 'T', (type_set), 0}),                               \
                                .n_outputs = 1,                                                                        \
                                .rows      = variadic_rows,                                                            \
                                .n_rows    = OPF_COUNT(variadic_rows),                                                 \
                                .infer     = (infer_fn),                                                               \
                                .reference = (reference_fn)}

DEFINE_INFER(min, .integers = min_d, .floats = min_f)
DEFINE_INFER(max, .integers = max_d, .floats = max_f)

static opf_status reference_min(const opf_call *call, opf_error *error)
{
    return opf_reference_fold(call, min_f, min_i, min_u, 1, error);
}
static opf_status reference_max(const opf_call *call, opf_error *error)
{
    return opf_reference_fold(call, max_f, max_i, max_u, 1, error);
}
static opf_status reference_sum(const opf_call *call, opf_error *error)
{
    return opf_reference_fold(call, add_f, NULL, NULL, 1, error);
}
static opf_status reference_mean(const opf_call *call, opf_error *error)
{
    return opf_reference_fold(call, add_f, NULL, NULL, (double)call->n_in, error);
}

DEFINE_VARIADIC(Min, "min", OPF_TYPES_NUMERIC, infer_min, reference_min);
DEFINE_VARIADIC(Max, "max", OPF_TYPES_NUMERIC, infer_max, reference_max);
DEFINE_VARIADIC(Sum, "sum", OPF_TYPES_FLOAT, opf_infer_shape_only, reference_sum);
DEFINE_VARIADIC(Mean, "mean", OPF_TYPES_FLOAT, opf_infer_shape_only, reference_mean);

/* ---- Mod ---- */

static const opf_attr_def mod_attrs[] = {{.name = "fmod", .type = OPF_ATTR_INT}};

static opf_status infer_mod(opf_infer *infer, opf_error *error)
{
    static const opf_value_rule rules[2] = {{.integers = floor_mod_d, .floats = floor_mod_f}, {.integers = fmod_d, .floats = fmod}};
    int64_t                     is_fmod  = opf_node_int(infer->node, "fmod", 0);
    OPF_FAIL_IF(error, is_fmod != 0 && is_fmod != 1, OPF_INVALID_MODEL, "fmod is %lld, must be 0 or 1", (long long)is_fmod);
    return opf_infer_elementwise(infer, &rules[is_fmod], error);
}

static opf_status reference_mod(const opf_call *call, opf_error *error)
{
    OPF_TRY(opf_check_divisor(call, 1, error));
    if (opf_call_int(call, "fmod", 0) != 0)
        return opf_reference_binary(call, fmod, fmod_i, mod_u);
    return opf_reference_binary(call, floor_mod_f, floor_mod_i, mod_u);
}

const opf_op opf_op_Mod = {.name      = "Mod",
                           .domain    = "",
                           .since     = 10,
                           .traits    = OPF_ELEMENTWISE,
                           .inputs    = OPF_PARAMS({"A", 'T', OPF_TYPES_NUMERIC, 0}, {"B", 'T', OPF_TYPES_NUMERIC, 0}),
                           .n_inputs  = 2,
                           .outputs   = OPF_PARAMS({"C", 'T', OPF_TYPES_NUMERIC, 0}),
                           .n_outputs = 1,
                           .attrs     = mod_attrs,
                           .n_attrs   = OPF_COUNT(mod_attrs),
                           .infer     = infer_mod,
                           .reference = reference_mod};
