/* SPDX-License-Identifier: Apache-2.0 */
/* Elementwise slots: one line each. What has no line here (POW, MOD, SIN and its like) keeps its scalar entry. */
#include "kernels/simd/math.h"

/* Adding zero makes -0 a level, which is +0. */
V_INLINE v_f quantize(v_f x, v_f lo, v_f hi)
{
    return v_select(v_is_nan(x), v_zero(), v_add(v_min(hi, v_max(lo, v_round(x))), v_zero()));
}

V_INLINE v_f shrink(v_f x, v_f bias, v_f lambd)
{
    const v_f inside = v_select(v_is_nan(x), x, v_zero());
    return v_select(v_lt(x, v_neg(lambd)), v_add(x, bias), v_select(v_lt(lambd, x), v_sub(x, bias), inside));
}

#define EW_MAP(X)                                                                                                      \
    X(COPY, x)                                                                                                         \
    X(ADD, v_add(x, y))                                                                                                \
    X(SUB, v_sub(x, y))                                                                                                \
    X(MUL, v_mul(x, y))                                                                                                \
    X(DIV, v_div(x, y))                                                                                                \
    X(MIN, v_select(v_is_nan(x), x, v_min(x, y)))                                                                      \
    X(MAX, v_select(v_is_nan(x), x, v_max(x, y)))                                                                      \
    X(RELU, v_max(v_zero(), x))                                                                                        \
    X(CLIP, v_min(v_set(p[1]), v_max(v_set(p[0]), x)))                                                                 \
    X(LEAKY, v_select(v_lt(x, v_zero()), v_mul(x, v_set(p[0])), x))                                                    \
    X(PRELU, v_select(v_lt(x, v_zero()), v_mul(x, y), x))                                                              \
    X(SIGMOID, v_sigmoid(x))                                                                                           \
    X(TANH, v_tanh(x))                                                                                                 \
    X(ERF, v_erf(x))                                                                                                   \
    X(EXP, v_exp(x))                                                                                                   \
    X(LOG, v_log(x))                                                                                                   \
    X(SQRT, v_sqrt(x))                                                                                                 \
    X(ABS, v_abs(x))                                                                                                   \
    X(NEG, v_neg(x))                                                                                                   \
    X(RECIPROCAL, v_div(v_set(1.0f), x))                                                                               \
    X(SQUARE, v_mul(x, x))                                                                                             \
    X(FLOOR, v_floor(x))                                                                                               \
    X(CEIL, v_ceil(x))                                                                                                 \
    X(ROUND, v_round(x))                                                                                               \
    X(SIGN, v_select(v_lt(v_zero(), x), v_set(1.0f), v_select(v_lt(x, v_zero()), v_set(-1.0f), x)))                    \
    X(GELU, v_gelu(x))                                                                                                 \
    X(GELU_TANH, v_gelu_tanh(x))                                                                                       \
    X(SWISH, v_swish(x, p[0]))                                                                                         \
    X(HARD_SIGMOID, v_min(v_set(1.0f), v_max(v_zero(), v_add(v_mul(x, v_set(p[0])), v_set(p[1])))))                    \
    X(HARD_SWISH, v_hard_swish(x))                                                                                     \
    X(SOFTPLUS, v_softplus(x))                                                                                         \
    X(MISH, v_mish(x))                                                                                                 \
    X(ELU, v_select(v_lt(x, v_zero()), v_mul(v_set(p[0]), v_expm1_neg(x)), x))                                         \
    X(SELU, v_mul(v_set(p[1]), v_select(v_lt(x, v_zero()), v_mul(v_set(p[0]), v_expm1_neg(x)), x)))                    \
    X(CELU, v_select(v_lt(x, v_zero()), v_mul(v_set(p[0]), v_expm1_neg(v_div(x, v_set(p[0])))), x))                    \
    X(SOFTSIGN, v_div(x, v_add(v_set(1.0f), v_abs(x))))                                                                \
    X(THRESHOLDED_RELU, v_select(v_lt(v_set(p[0]), x), x, v_zero()))                                                   \
    X(SHRINK, shrink(x, v_set(p[0]), v_set(p[1])))                                                                     \
    X(NAN_TO, v_select(v_is_nan(x), v_set(p[0]), x))                                                                   \
    X(AFFINE, v_add(v_mul(x, v_set(p[0])), v_set(p[1])))                                                               \
    X(QUANTIZE, quantize(v_div(x, y), v_set(p[0]), v_set(p[1])))

/* y is read only by the operators that take b: the compiler drops the load of the others. */
#define EW_FN(name, expression)                                                                                        \
    static void ew_##name(float *dst, const float *a, const float *b, size_t n, const float *p)                        \
    {                                                                                                                  \
        (void)b, (void)p;                                                                                              \
        size_t i = 0;                                                                                                  \
        for (; n - i >= V_N; i += V_N) {                                                                               \
            const v_f x = v_load(a + i), y = opf_ew_reads_b(OPF_EW_##name) ? v_load(b + i) : x;                        \
            (void)y;                                                                                                   \
            v_store(dst + i, expression);                                                                              \
        }                                                                                                              \
        if (i < n) {                                                                                                   \
            const v_f x = v_load_n(a + i, n - i), y = opf_ew_reads_b(OPF_EW_##name) ? v_load_n(b + i, n - i) : x;      \
            (void)y;                                                                                                   \
            v_store_n(dst + i, expression, n - i);                                                                     \
        }                                                                                                              \
    }
EW_MAP(EW_FN)

/* Unary operators over the rows of a tile: constants are loaded once for all of them. */
#define EW_ROWS_FN(name, expression)                                                                                   \
    static void rows_##name(float *line, ptrdiff_t row, size_t rows, size_t cols, const float *p)                      \
    {                                                                                                                  \
        (void)p;                                                                                                       \
        for (; rows != 0; rows--, line += row) {                                                                       \
            size_t i = 0;                                                                                              \
            for (; cols - i >= V_N; i += V_N) {                                                                        \
                const v_f x = v_load(line + i), y = x;                                                                 \
                (void)y;                                                                                               \
                v_store(line + i, expression);                                                                         \
            }                                                                                                          \
            if (i < cols) {                                                                                            \
                const v_f x = v_load_n(line + i, cols - i), y = x;                                                     \
                (void)y;                                                                                               \
                v_store_n(line + i, expression, cols - i);                                                             \
            }                                                                                                          \
        }                                                                                                              \
    }
EW_MAP(EW_ROWS_FN)

void OPF_K(ew_init)(opf_kern *kern)
{
#define X(name, expression)                                                                                            \
    kern->ew[OPF_EW_##name]      = ew_##name;                                                                          \
    kern->ew_rows[OPF_EW_##name] = opf_ew_reads_b(OPF_EW_##name) ? NULL : rows_##name;
    EW_MAP(X)
#undef X
}
