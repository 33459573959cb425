/* SPDX-License-Identifier: Apache-2.0 */
/* Rows: normalisations, softmax, reductions. Sums run in 4 vectors, combined in a fixed order. */
#include "kernels/simd/math.h"

#include <stdbool.h>

typedef enum term_kind { PLAIN, ABSOLUTE, SQUARES } term_kind;

V_INLINE v_f term(v_f x, v_f mean, term_kind kind)
{
    const v_f d = v_sub(x, mean);
    return kind == SQUARES ? v_mul(d, d) : kind == ABSOLUTE ? v_abs(x) : x;
}

/* The sum of x, of |x|, or of (x - mean)^2; kind is a constant in every caller. */
V_INLINE float row_sum(const float *x, size_t n, float mean_value, term_kind kind)
{
    const v_f mean = v_set(mean_value);
    v_f       s0 = v_zero(), s1 = s0, s2 = s0, s3 = s0;
    size_t    i = 0;
    for (; n - i >= 4 * V_N; i += 4 * V_N) {
        s0 = v_add(s0, term(v_load(x + i), mean, kind));
        s1 = v_add(s1, term(v_load(x + i + V_N), mean, kind));
        s2 = v_add(s2, term(v_load(x + i + 2 * V_N), mean, kind));
        s3 = v_add(s3, term(v_load(x + i + 3 * V_N), mean, kind));
    }
    for (; n - i >= V_N; i += V_N)
        s0 = v_add(s0, term(v_load(x + i), mean, kind));
    if (i < n)
        s1 = v_add(s1, term(v_load_n_or(x + i, n - i, kind == SQUARES ? mean : v_zero()), mean, kind));
    return v_sum(v_add(v_add(s0, s1), v_add(s2, s3)));
}

static float reduce_sum(const float *x, size_t n)
{
    return row_sum(x, n, 0.0f, PLAIN);
}

static float abs_sum(const float *x, size_t n)
{
    return row_sum(x, n, 0.0f, ABSOLUTE);
}

static float square_sum(const float *x, size_t n, float mean)
{
    return row_sum(x, n, mean, SQUARES);
}

static float reduce_max(const float *x, size_t n)
{
    v_f    best = v_set(-INFINITY), other = best;
    v_m    nan = v_m_none();
    size_t i   = 0;
    for (; n - i >= 2 * V_N; i += 2 * V_N) {
        const v_f a = v_load(x + i), b = v_load(x + i + V_N);
        nan   = v_m_or(nan, v_m_or(v_is_nan(a), v_is_nan(b)));
        best  = v_max(a, best);
        other = v_max(b, other);
    }
    for (; i < n; i += V_N) {
        const v_f a = n - i >= V_N ? v_load(x + i) : v_load_n_or(x + i, n - i, v_set(-INFINITY));
        nan         = v_m_or(nan, v_is_nan(a));
        best        = v_max(a, best);
    }
    return v_m_any(nan) ? NAN : v_max_of(v_max(best, other));
}

/* y = (x - mean) * scale, times gamma, plus beta; which of them there are is a constant in every caller. */
V_INLINE void normalise(const float *x, const float *gamma, const float *beta, float *y, size_t n, float mean_value,
                        float scale_value, bool has_gamma, bool has_beta)
{
    const v_f mean = v_set(mean_value), scale = v_set(scale_value);
    size_t    i = 0;
    for (; n - i >= V_N; i += V_N) {
        v_f v = v_mul(v_sub(v_load(x + i), mean), scale);
        if (has_gamma && has_beta)
            v = v_fma(v, v_load(gamma + i), v_load(beta + i));
        else if (has_gamma)
            v = v_mul(v, v_load(gamma + i));
        else if (has_beta)
            v = v_add(v, v_load(beta + i));
        v_store(y + i, v);
    }
    if (i < n) {
        v_f v = v_mul(v_sub(v_load_n(x + i, n - i), mean), scale);
        if (has_gamma && has_beta)
            v = v_fma(v, v_load_n(gamma + i, n - i), v_load_n(beta + i, n - i));
        else if (has_gamma)
            v = v_mul(v, v_load_n(gamma + i, n - i));
        else if (has_beta)
            v = v_add(v, v_load_n(beta + i, n - i));
        v_store_n(y + i, v, n - i);
    }
}

static void layer_norm(const float *x, const float *gamma, const float *beta, float *y, size_t n, float eps, float *mean_out,
                       float *inv_std_out)
{
    const float mean     = reduce_sum(x, n) / (float)n;
    const float variance = square_sum(x, n, mean) / (float)n;
    const float inv_std  = 1.0f / sqrtf(variance + eps);
    if (gamma && beta)
        normalise(x, gamma, beta, y, n, mean, inv_std, true, true);
    else if (gamma)
        normalise(x, gamma, beta, y, n, mean, inv_std, true, false);
    else if (beta)
        normalise(x, gamma, beta, y, n, mean, inv_std, false, true);
    else
        normalise(x, gamma, beta, y, n, mean, inv_std, false, false);
    if (mean_out)
        *mean_out = mean;
    if (inv_std_out)
        *inv_std_out = inv_std;
}

static void rms_norm(const float *x, const float *gamma, float *y, size_t n, float eps)
{
    const float scale = 1.0f / sqrtf(square_sum(x, n, 0.0f) / (float)n + eps);
    if (gamma)
        normalise(x, gamma, NULL, y, n, 0.0f, scale, true, false);
    else
        normalise(x, NULL, NULL, y, n, 0.0f, scale, false, false);
}

/* The sum of exp(x - top), the terms stored at y when it is not NULL. Where one term outweighs all others, every sum of it rounds by half
   a unit of the result: so there are four, which are joined in double. */
V_INLINE double exp_sum(const float *x, float *y, size_t n, float top_value)
{
    const v_f top  = v_set(top_value);
    v_f       s[4] = {v_zero(), v_zero(), v_zero(), v_zero()};
    size_t    i    = 0;
    for (; n - i >= 4 * V_N; i += 4 * V_N)
#pragma GCC unroll 4
        for (size_t k = 0; k < 4; k++) {
            const v_f a = v_exp(v_sub(v_load(x + i + k * V_N), top));
            s[k]        = v_add(s[k], a);
            if (y)
                v_store(y + i + k * V_N, a);
        }
#pragma GCC unroll 4
    for (size_t k = 0; k < 4; k++, i += V_N)
        if (i < n) { /* lanes beyond the row: exp(-inf) */
            const size_t left = n - i < V_N ? n - i : V_N;
            const v_f    a    = v_exp(v_sub(v_load_n_or(x + i, left, v_set(-INFINITY)), top));
            s[k]              = v_add(s[k], a);
            if (y)
                v_store_n(y + i, a, left);
        }
    return v_d_sum(s[0], s[1]) + v_d_sum(s[2], s[3]);
}

static void softmax(const float *x, float *y, size_t n)
{
    if (n == 0)
        return;
    const v_f scale = v_set((float)(1 / exp_sum(x, y, n, reduce_max(x, n))));
    size_t    i     = 0;
    for (; n - i >= V_N; i += V_N)
        v_store(y + i, v_mul(v_load(y + i), scale));
    if (i < n)
        v_store_n(y + i, v_mul(v_load_n(y + i, n - i), scale), n - i);
}

static void log_softmax(const float *x, float *y, size_t n)
{
    if (n == 0)
        return;
    const float top   = reduce_max(x, n);
    const v_f   shift = v_set((float)log(exp_sum(x, NULL, n, top))), max = v_set(top);
    size_t      i     = 0;
    for (; n - i >= V_N; i += V_N)
        v_store(y + i, v_sub(v_sub(v_load(x + i), max), shift));
    if (i < n)
        v_store_n(y + i, v_sub(v_sub(v_load_n(x + i, n - i), max), shift), n - i);
}

/* Firsts and seconds lie in rows of their own. */
static void turn_rows(const opf_turn *t)
{
    for (size_t k = 0; k < t->n; k += V_N) {
        const size_t n = t->n - k < V_N ? t->n - k : V_N;
        const v_f    a = LOAD(t->x + k, n), b = LOAD(t->x + t->x_gap + k, n);
        const v_f    c = LOAD(t->cos + k, n), s = LOAD(t->sin + k, n);
        const v_f    c2 = LOAD(t->cos + t->cos_gap + k, n), s2 = LOAD(t->sin + t->sin_gap + k, n);
        STORE(t->y + k, v_fnma(b, s, v_mul(a, c)), n);
        STORE(t->y + t->y_gap + k, v_fma(a, s2, v_mul(b, c2)), n);
    }
}

static void turn(const opf_turn *t)
{
    if (t->x_step == 1 && t->y_step == 1 && t->cos_step == 1 && t->sin_step == 1) {
        turn_rows(t);
        return;
    }
    for (ptrdiff_t k = 0; k < (ptrdiff_t)t->n; k++) {
        const float  a = t->x[k * t->x_step], b = t->x[k * t->x_step + t->x_gap];
        const float *cos = t->cos + k * t->cos_step, *sin = t->sin + k * t->sin_step;
        t->y[k * t->y_step]            = fmaf(-b, sin[0], a * cos[0]);
        t->y[k * t->y_step + t->y_gap] = fmaf(a, sin[t->sin_gap], b * cos[t->cos_gap]);
    }
}

void OPF_K(row_init)(opf_kern *kern)
{
    kern->layer_norm  = layer_norm;
    kern->rms_norm    = rms_norm;
    kern->softmax     = softmax;
    kern->log_softmax = log_softmax;
    kern->turn        = turn;
    kern->reduce_sum  = reduce_sum;
    kern->abs_sum     = abs_sum;
    kern->square_sum  = square_sum;
    kern->reduce_max  = reduce_max;
}
