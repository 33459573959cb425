/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of one number: floats in double, rounded once; integers where the signature has them. */
#include "ops/elementwise.h"

#include <math.h>

/* ---- floats ---- */

#define FROM_LIBM(name, expression)                                                                                    \
    static double name##_f(const opf_call *call, double x)                                                             \
    {                                                                                                                  \
        (void)call;                                                                                                    \
        return expression;                                                                                             \
    }                                                                                                                  \
    static opf_status reference_##name(const opf_call *call, opf_error *error)                                         \
    {                                                                                                                  \
        (void)error;                                                                                                   \
        return opf_reference_unary(call, name##_f);                                                                    \
    }

/* To the nearest integer, halves to the even one, whatever the rounding mode. */
static double round_even(double x)
{
    double down = floor(x), rest = x - down;
    if (!(rest >= 0.5)) /* NaN and infinities too */
        return x == 0 || isnan(rest) ? x : copysign(down, x);
    bool is_up = rest > 0.5 || fmod(down, 2) != 0;
    return copysign(is_up ? down + 1 : down, x);
}

static double sign_of(double x)
{
    return x > 0 ? 1 : x < 0 ? -1 : x;
}

FROM_LIBM(ceil, ceil(x))
FROM_LIBM(cos, cos(x))
FROM_LIBM(erf, erf(x))
FROM_LIBM(exp, exp(x))
FROM_LIBM(floor, floor(x))
FROM_LIBM(log, log(x))
FROM_LIBM(reciprocal, 1 / x)
FROM_LIBM(round, round_even(x))
FROM_LIBM(sin, sin(x))
FROM_LIBM(sqrt, sqrt(x))

/* ---- with integers ---- */

/* Unsigned integers come as they are; the most negative signed one wraps to itself. */
static int64_t abs_i(int64_t x)
{
    return x < 0 ? (int64_t)(0 - (uint64_t)x) : x;
}
static int64_t neg_i(int64_t x)
{
    return (int64_t)(0 - (uint64_t)x);
}
static int64_t sign_i(int64_t x)
{
    return (x > 0) - (x < 0);
}
static int64_t keep_u(int64_t x)
{
    return x;
}
static int64_t sign_u(int64_t x)
{
    return x != 0;
}

#define WITH_INTEGERS(name, expression, unsigned_fn)                                                                   \
    static double name##_f(const opf_call *call, double x)                                                             \
    {                                                                                                                  \
        (void)call;                                                                                                    \
        return expression;                                                                                             \
    }                                                                                                                  \
    static opf_status reference_##name(const opf_call *call, opf_error *error)                                         \
    {                                                                                                                  \
        (void)error;                                                                                                   \
        if (opf_types_have(OPF_TYPES_FLOAT, call->in[0].type))                                                         \
            return opf_reference_unary(call, name##_f);                                                                \
        opf_reference_unary_int(call, opf_types_have(OPF_TYPES_SINT, call->in[0].type) ? name##_i : unsigned_fn);      \
        return OPF_OK;                                                                                                 \
    }

WITH_INTEGERS(abs, fabs(x), keep_u)
WITH_INTEGERS(neg, -x, keep_u)
WITH_INTEGERS(sign, sign_of(x), sign_u)

/* ---- known values ---- */

static bool abs_d(opf_dims *dims, opf_dim a, opf_dim b, opf_dim *result)
{
    (void)b;
    *result = opf_dim_is_number(a) ? opf_dim_number(abs_i(a.n)) : a;
    return opf_dim_is_number(a) || opf_dim_at_least(dims, a, 0);
}
static bool neg_d(opf_dims *dims, opf_dim a, opf_dim b, opf_dim *result)
{
    (void)b;
    *result = opf_dim_sub(dims, opf_dim_number(0), a);
    return true;
}
static bool sign_d(opf_dims *dims, opf_dim a, opf_dim b, opf_dim *result)
{
    (void)b;
    *result = opf_dim_number(opf_dim_is_number(a) ? sign_i(a.n) : 1);
    return opf_dim_is_number(a) || opf_dim_at_least(dims, a, 1);
}

#define CARRIES(name, integers_fn, expression)                                                                         \
    static double name##_v(double x, double unused)                                                                    \
    {                                                                                                                  \
        (void)unused;                                                                                                  \
        return expression;                                                                                             \
    }                                                                                                                  \
    static opf_status infer_##name(opf_infer *infer, opf_error *error)                                                 \
    {                                                                                                                  \
        static const opf_value_rule rule = {.is_unary = true, .integers = (integers_fn), .floats = name##_v};          \
        return opf_infer_elementwise(infer, &rule, error);                                                             \
    }

CARRIES(abs, abs_d, fabs(x))
CARRIES(neg, neg_d, -x)
CARRIES(sign, sign_d, sign_of(x))
CARRIES(ceil, NULL, ceil(x))
CARRIES(floor, NULL, floor(x))
CARRIES(round, NULL, round_even(x))
CARRIES(reciprocal, NULL, 1 / x)
CARRIES(sqrt, NULL, sqrt(x))

/* ---- definitions ---- */

OPF_DEFINE_UNARY(Abs, 1, OPF_TYPES_NUMERIC, infer_abs, reference_abs);
OPF_DEFINE_UNARY(Ceil, 1, OPF_TYPES_FLOAT, infer_ceil, reference_ceil);
OPF_DEFINE_UNARY(Cos, 7, OPF_TYPES_FLOAT, opf_infer_shape_only, reference_cos);
OPF_DEFINE_UNARY(Erf, 9, OPF_TYPES_FLOAT, opf_infer_shape_only, reference_erf);
OPF_DEFINE_UNARY(Exp, 1, OPF_TYPES_FLOAT, opf_infer_shape_only, reference_exp);
OPF_DEFINE_UNARY(Floor, 1, OPF_TYPES_FLOAT, infer_floor, reference_floor);
OPF_DEFINE_UNARY(Log, 1, OPF_TYPES_FLOAT, opf_infer_shape_only, reference_log);
OPF_DEFINE_UNARY(Neg, 1, OPF_TYPES_FLOAT | OPF_TYPES_SINT, infer_neg, reference_neg);
OPF_DEFINE_UNARY(Reciprocal, 1, OPF_TYPES_FLOAT, infer_reciprocal, reference_reciprocal);
OPF_DEFINE_UNARY(Round, 11, OPF_TYPES_FLOAT, infer_round, reference_round);
OPF_DEFINE_UNARY(Sign, 9, OPF_TYPES_NUMERIC, infer_sign, reference_sign);
OPF_DEFINE_UNARY(Sin, 7, OPF_TYPES_FLOAT, opf_infer_shape_only, reference_sin);
OPF_DEFINE_UNARY(Sqrt, 1, OPF_TYPES_FLOAT, infer_sqrt, reference_sqrt);
