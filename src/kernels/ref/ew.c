/* SPDX-License-Identifier: Apache-2.0 */
/* The scalar entries of the elementwise slots: the definition of each operator in a line, computed in double where it
   is more than one rounding. */
#include "kernels/level.h"

#include <math.h>
#include <string.h>

static double sigmoid(double x)
{
    return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x));
}
static double softplus(double x)
{
    return (x > 0 ? x : 0) + log1p(exp(-fabs(x)));
}
static double clip(double x, double lo, double hi) /* NaN passes */
{
    x = x < lo ? lo : x;
    return x > hi ? hi : x;
}

/* With the sign of b; fmod: with that of a. */
static double modulo(double a, double b, bool is_fmod)
{
    const double r = fmod(a, b);
    if (is_fmod)
        return r;
    return r == 0 ? copysign(0, b) : (r < 0) != (b < 0) ? r + b : r;
}

static double shrink(double x, double bias, double lambd) /* NaN passes */
{
    return x < -lambd ? x + bias : x > lambd ? x - bias : x != x ? x : 0;
}

static float quantize(float x, float lo, float hi) /* never -0, which no level is */
{
    return x != x ? 0 : (float)clip(nearbyint((double)x), (double)lo, (double)hi) + 0.0f;
}

/* x, y: the elements; d: x in double. */
#define P0 ((double)p[0])
#define P1 ((double)p[1])
#define EW_MAP(X)                                                                                                      \
    X(COPY, x)                                                                                                         \
    X(ADD, x + y)                                                                                                      \
    X(SUB, x - y)                                                                                                      \
    X(MUL, x * y)                                                                                                      \
    X(DIV, x / y)                                                                                                      \
    X(MIN, x != x ? x : x < y ? x : y)                                                                                 \
    X(MAX, x != x ? x : x > y ? x : y)                                                                                 \
    X(POW, powf(x, y))                                                                                                 \
    X(MOD, modulo(d, (double)y, p[0] != 0))                                                                            \
    X(RELU, x < 0 ? 0 : x)                                                                                             \
    X(CLIP, clip(d, P0, P1))                                                                                           \
    X(LEAKY, x < 0 ? x * p[0] : x)                                                                                     \
    X(PRELU, x < 0 ? x * y : x)                                                                                        \
    X(SIGMOID, sigmoid(d))                                                                                             \
    X(TANH, tanh(d))                                                                                                   \
    X(ERF, erf(d))                                                                                                     \
    X(EXP, exp(d))                                                                                                     \
    X(LOG, log(d))                                                                                                     \
    X(SQRT, sqrtf(x))                                                                                                  \
    X(ABS, fabsf(x))                                                                                                   \
    X(NEG, -x)                                                                                                         \
    X(RECIPROCAL, 1.0f / x)                                                                                            \
    X(SQUARE, x * x)                                                                                                   \
    X(FLOOR, floorf(x))                                                                                                \
    X(CEIL, ceilf(x))                                                                                                  \
    X(ROUND, nearbyintf(x)) /* to nearest even */                                                                      \
    X(SIGN, x > 0 ? 1.0f : x < 0 ? -1.0f : x)                                                                          \
    X(GELU, 0.5 * d * (1 + erf(d * 0.70710678118654752)))                                                              \
    X(GELU_TANH, d * sigmoid(1.5957691216057308 * (d + 0.044715 * d * d * d)))                                         \
    X(SWISH, d * sigmoid(P0 * d))                                                                                      \
    X(HARD_SIGMOID, clip(P0 * d + P1, 0, 1))                                                                           \
    X(HARD_SWISH, d * clip(d / 6 + 0.5, 0, 1))                                                                         \
    X(SOFTPLUS, softplus(d))                                                                                           \
    X(MISH, d * tanh(softplus(d)))                                                                                     \
    X(ELU, x < 0 ? P0 * expm1(d) : d)                                                                                  \
    X(SELU, P1 * (x < 0 ? P0 * expm1(d) : d))                                                                          \
    X(CELU, x < 0 ? P0 * expm1(d / P0) : d)                                                                            \
    X(SOFTSIGN, d / (1 + fabs(d)))                                                                                     \
    X(THRESHOLDED_RELU, x > p[0] ? x : 0)                                                                              \
    X(SHRINK, shrink(d, P0, P1))                                                                                       \
    X(NAN_TO, x != x ? p[0] : x)                                                                                       \
    X(SIN, sinf(x))                                                                                                    \
    X(COS, cosf(x))                                                                                                    \
    X(TAN, tan(d))                                                                                                     \
    X(ASIN, asin(d))                                                                                                   \
    X(ACOS, acos(d))                                                                                                   \
    X(ATAN, atan(d))                                                                                                   \
    X(SINH, sinh(d))                                                                                                   \
    X(COSH, cosh(d))                                                                                                   \
    X(ASINH, asinh(d))                                                                                                 \
    X(ACOSH, acosh(d))                                                                                                 \
    X(ATANH, atanh(d))                                                                                                 \
    X(AFFINE, x * p[0] + p[1])                                                                                         \
    X(QUANTIZE, quantize(x / y, p[0], p[1]))

#define EW_FN(name, expression)                                                                                        \
    static void ew_##name(float *dst, const float *a, const float *b, size_t n, const float *p)                        \
    {                                                                                                                  \
        (void)b, (void)p;                                                                                              \
        for (size_t i = 0; i < n; i++) {                                                                               \
            const float x = a[i], y = opf_ew_reads_b(OPF_EW_##name) ? b[i] : x;                                        \
            const double d = (double)x;                                                                                \
            (void)y, (void)d;                                                                                          \
            dst[i] = (float)(expression);                                                                              \
        }                                                                                                              \
    }
EW_MAP(EW_FN)

static const opf_ew_fn table[OPF_EW_COUNT] = {
#define X(name, expression) [OPF_EW_##name] = ew_##name,
    EW_MAP(X)
#undef X
};

opf_ew_fn opf_ew_ref(opf_ew op)
{
    return table[op];
}

void opf_ew_init_ref(opf_kern *kern)
{
    memcpy(kern->ew, table, sizeof table);
}
