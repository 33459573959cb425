/* SPDX-License-Identifier: Apache-2.0 */
/* Elementwise slots against definitions in double, each with the bound of its class. */
#include "check.h"

#include <float.h>
#include <math.h>
#include <string.h>

static double relu_like(double x, double low)
{
    return x < 0 ? low : x;
}
static double within(double x, double lo, double hi)
{
    return isnan(x) ? x : fmin(fmax(x, lo), hi);
}
static double logistic(double x)
{
    return x < 0 ? 1 - 1 / (1 + exp(x)) : 1 / (1 + exp(-x));
}
static double sigma(double x) /* also where 1 - y would cancel */
{
    return x < -1 ? exp(x - log1p(exp(x))) : logistic(x);
}
static double soft(double x)
{
    return x > 30 ? x : log1p(exp(x));
}

static double modulo(double x, double y, bool is_fmod) /* with the sign of y, or of x */
{
    const double r = fmod(x, y);
    if (!is_fmod && isfinite(r))
        return r == 0 ? copysign(0, y) : signbit(r) != signbit(y) ? r + y : r;
    return r;
}

static double want(opf_ew op, double x, double y, const float *p)
{
    const double p0 = p[0], p1 = p[1];
    switch (op) {
    case OPF_EW_COPY: return x;
    case OPF_EW_ADD: return x + y;
    case OPF_EW_SUB: return x - y;
    case OPF_EW_MUL: return x * y;
    case OPF_EW_DIV: return x / y;
    case OPF_EW_MIN: return isnan(x) || isnan(y) ? NAN : fmin(x, y);
    case OPF_EW_MAX: return isnan(x) || isnan(y) ? NAN : fmax(x, y);
    case OPF_EW_POW: return pow(x, y);
    case OPF_EW_MOD: return modulo(x, y, p[0] != 0);
    case OPF_EW_RELU: return relu_like(x, 0);
    case OPF_EW_CLIP: return within(x, p0, p1);
    case OPF_EW_LEAKY: return relu_like(x, p0 * x);
    case OPF_EW_PRELU: return relu_like(x, y * x);
    case OPF_EW_SIGMOID: return sigma(x);
    case OPF_EW_TANH: return tanh(x);
    case OPF_EW_ERF: return erf(x);
    case OPF_EW_EXP: return exp(x);
    case OPF_EW_LOG: return log(x);
    case OPF_EW_SQRT: return sqrt(x);
    case OPF_EW_ABS: return fabs(x);
    case OPF_EW_NEG: return -x;
    case OPF_EW_RECIPROCAL: return 1 / x;
    case OPF_EW_SQUARE: return x * x;
    case OPF_EW_FLOOR: return floor(x);
    case OPF_EW_CEIL: return ceil(x);
    case OPF_EW_ROUND: return rint(x);
    case OPF_EW_SIGN: return isnan(x) ? x : (x > 0) - (x < 0);
    case OPF_EW_GELU: return x * (1 + erf(x / sqrt(2.0))) / 2;
    case OPF_EW_GELU_TANH: return x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))) / 2;
    case OPF_EW_SWISH: return x * sigma(p0 * x);
    case OPF_EW_HARD_SIGMOID: return within(p0 * x + p1, 0, 1);
    case OPF_EW_HARD_SWISH: return x * within(x / 6 + 0.5, 0, 1);
    case OPF_EW_SOFTPLUS: return soft(x);
    case OPF_EW_MISH: return x * tanh(soft(x));
    case OPF_EW_ELU: return relu_like(x, p0 * expm1(x));
    case OPF_EW_SELU: return p1 * relu_like(x, p0 * expm1(x));
    case OPF_EW_CELU: return relu_like(x, p0 * expm1(x / p0));
    case OPF_EW_SOFTSIGN: return x / (1 + fabs(x));
    case OPF_EW_THRESHOLDED_RELU: return x > p0 ? x : 0;
    case OPF_EW_SHRINK: return x < -p1 ? x + p0 : x > p1 ? x - p0 : isnan(x) ? x : 0;
    case OPF_EW_NAN_TO: return isnan(x) ? p0 : x;
    case OPF_EW_SIN: return sin(x);
    case OPF_EW_COS: return cos(x);
    case OPF_EW_TAN: return tan(x);
    case OPF_EW_ASIN: return asin(x);
    case OPF_EW_ACOS: return acos(x);
    case OPF_EW_ATAN: return atan(x);
    case OPF_EW_SINH: return sinh(x);
    case OPF_EW_COSH: return cosh(x);
    case OPF_EW_ASINH: return asinh(x);
    case OPF_EW_ACOSH: return acosh(x);
    case OPF_EW_ATANH: return atanh(x);
    case OPF_EW_AFFINE: return (double)((float)(x * p0) + (float)p1);
    case OPF_EW_QUANTIZE: return isnan((float)x / (float)y) ? 0 : within(rint((double)((float)x / (float)y)), p0, p1) + 0.0;
    case OPF_EW_COUNT: break;
    }
    return NAN;
}

/* Ulps, or an absolute error times max(1, |x|). Not listed: exact. x times a denormal gate is off by |x| denormal steps. */
typedef struct bound {
    double ulps, atol;
} bound;
static const bound bounds[OPF_EW_COUNT] = {
    [OPF_EW_POW] = {2, 0},          [OPF_EW_SIGMOID] = {6, 0},       [OPF_EW_TANH] = {6, 0},     [OPF_EW_ERF] = {6, 0},
    [OPF_EW_EXP] = {2.5, 0},        [OPF_EW_LOG] = {6, 0},           [OPF_EW_GELU] = {0, 2e-6},  [OPF_EW_GELU_TANH] = {0, 2e-6},
    [OPF_EW_SWISH] = {0, 2e-6},     [OPF_EW_HARD_SIGMOID] = {0, 1e-6}, [OPF_EW_HARD_SWISH] = {0, 1e-6}, [OPF_EW_SOFTPLUS] = {6, 0},
    [OPF_EW_MISH] = {6, 0x1p-149},         [OPF_EW_ELU] = {6, 0},           [OPF_EW_SELU] = {6, 0},     [OPF_EW_CELU] = {6, 0},
    [OPF_EW_SOFTSIGN] = {2, 0},     [OPF_EW_SIN] = {2, 0},           [OPF_EW_COS] = {2, 0},
};

static float any_value(checker *check)
{
    static const float special[] = {
        0.0f,   -0.0f, INFINITY, -INFINITY, NAN,  1e-45f, -1e-45f, 1e-40f, -1e-40f, FLT_MIN, -FLT_MIN,   FLT_MAX,
        -FLT_MAX, 88.72f, 88.73f, -87.3f, -103.97f, -104.0f, 9.0f, -9.0f, 1.0f, -1.0f, 0.5f, -0.5f,
        1.5f,   2.5f,  3.925f,   -3.925f,   3.0f, 0.4142f, 44.0f, -44.0f, 1e-7f, -1e-7f, 8388609.0f, 4194304.5f,
    };
    switch (check_random(check, 8)) {
    case 0: return special[check_random(check, sizeof special / sizeof *special)];
    case 1: {
        const uint32_t bits = (uint32_t)check_random(check, (uint64_t)1 << 32);
        float          x;
        memcpy(&x, &bits, sizeof x);
        return isnan(x) ? NAN : x; /* what a signalling one gives is left to libm: pow(1, sNaN) */
    }
    case 2: return (float)(check_normal(check) * 40);
    case 3: return (float)(check_normal(check) * 0.01);
    default: return (float)(check_normal(check) * 2.5);
    }
}

static void compare(checker *check, opf_ew op, const float *a, const float *b, const float *got, size_t n, const float *p)
{
    for (size_t i = 0; i < n && !check->failed; i++) {
        const double w   = want(op, (double)a[i], (double)b[i], p);
        const double err = fabs((double)got[i] - w);
        const double tol = isfinite(w) ? bounds[op].atol * fmax(1, fabs((double)a[i])) : 0;
        const bool   ok  = check_ulps(got[i], w) <= bounds[op].ulps || (tol > 0 && err <= tol);
        if (!ok)
            check_fail(check, "f(%.9g, %.9g) is %.9g, must be %.9g (%.2f ulp), n %zu", (double)a[i], (double)b[i],
                       (double)got[i], w, check_ulps(got[i], w), n);
    }
}

static void run(checker *check, int index)
{
    static const float parameters[][2] = {{0.2f, 0.5f}, {1.0f, 2.0f}, {1.6732632f, 1.0507009f}, {0.01f, 6.0f}};
    const opf_ew       op              = (opf_ew)index;
    for (int round = 0; round < 150 && !check->failed; round++) {
        check_reset(check);
        const size_t n = check_size(check, 0, 600);
        const float *p = parameters[check_random(check, 4)];
        float       *a = check_array(check, n), *b = check_array(check, n), *dst = check_array(check, n);
        float       *a0 = check_array(check, n), *b0 = check_array(check, n);
        for (size_t i = 0; i < n; i++) {
            a[i] = a0[i] = any_value(check);
            b[i] = b0[i] = any_value(check);
        }
        const int alias = (int)check_random(check, 3); /* dst may be a or b */
        dst             = alias == 1 ? a : alias == 2 ? b : dst;
        check->kern->ew[op](dst, a, b, n, p);
        compare(check, op, a0, b0, dst, n, p);
        check_bands(check);
    }
}

/* Rows in place are what the operator gives on each of them. */
static void run_rows(checker *check, int index)
{
    static const float p[] = {0.2f, 0.5f};
    for (int round = 0; round < 50 && !check->failed && check->kern->ew_rows[index] != NULL; round++) {
        check_reset(check);
        const size_t rows = check_size(check, 0, 9), cols = check_size(check, 0, 300), row = cols + check_random(check, 9);
        const size_t n = rows != 0 && cols != 0 ? (rows - 1) * row + cols : 0;
        float       *x = check_array(check, n), *want = check_array(check, n);
        for (size_t i = 0; i < n; i++)
            x[i] = want[i] = any_value(check);
        check->kern->ew_rows[index](x, (ptrdiff_t)row, rows, cols, p);
        for (size_t r = 0; r < rows && cols != 0; r++)
            check->kern->ew[index](want + r * row, want + r * row, NULL, cols, p);
        for (size_t i = 0; i < n; i++)
            if (!check_same(x[i], want[i]))
                check_fail(check, "%zux%zu: float %zu is %g, must be %g", rows, cols, i, (double)x[i], (double)want[i]);
        check_bands(check);
    }
}

static const check_slot slots[] = {
#define X(name)                                                                                                        \
    {"ew " #name, offsetof(opf_kern, ew) + OPF_EW_##name * sizeof(opf_ew_fn), run, OPF_EW_##name},                     \
    {"ew_rows " #name, offsetof(opf_kern, ew_rows) + OPF_EW_##name * sizeof(opf_ew_fn), run_rows, OPF_EW_##name},
    OPF_EW_MAP(X)
#undef X
};
const check_family check_ew_family = {slots, sizeof slots / sizeof *slots};
