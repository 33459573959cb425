/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Channels-last windows. Each pass holds up to 4 vectors of channels in registers over all taps; the rest goes in
 * one more, and the last one masked. A pass over zero taps gives the bias, or zero.
 */
#include "kernels/simd/vec.h"

/* One pass over vecs vectors of channels from c on; n < V_N: only n channels of one vector. */
V_INLINE void max_pass(const float *const *taps, size_t n_taps, float *dst, size_t c, int vecs, size_t n)
{
    v_f acc[4];
#pragma GCC unroll 4
    for (int v = 0; v < vecs; v++)
        acc[v] = LOAD(taps[0] + c + v * V_N, n);
    for (size_t t = 1; t < n_taps; t++)
#pragma GCC unroll 4
        for (int v = 0; v < vecs; v++) {
            const v_f x = LOAD(taps[t] + c + v * V_N, n);
            acc[v]      = v_select(v_is_nan(acc[v]), acc[v], v_max(acc[v], x));
        }
#pragma GCC unroll 4
    for (int v = 0; v < vecs; v++)
        STORE(dst + c + v * V_N, acc[v], n);
}

static void pool_max(const float *const *taps, size_t n_taps, float *dst, size_t c)
{
    size_t i = 0;
    for (; c - i >= 4 * V_N; i += 4 * V_N)
        max_pass(taps, n_taps, dst, i, 4, V_N);
    switch ((c - i) / V_N) {
    case 3: max_pass(taps, n_taps, dst, i, 3, V_N); break;
    case 2: max_pass(taps, n_taps, dst, i, 2, V_N); break;
    case 1: max_pass(taps, n_taps, dst, i, 1, V_N); break;
    default: break;
    }
    i = c / V_N * V_N;
    if (i < c)
        max_pass(taps, n_taps, dst, i, 1, c - i);
}

/* Pixels come from a list, or from x + i*stride when the list is NULL. */
V_INLINE void sum_pass(const float *const *taps, const float *x, ptrdiff_t stride, size_t count, v_f scale, float *dst, size_t c,
                       int vecs, size_t n)
{
    v_f acc[4];
#pragma GCC unroll 4
    for (int v = 0; v < vecs; v++)
        acc[v] = v_zero();
    for (size_t t = 0; t < count; t++) {
        const float *pixel = (taps ? taps[t] : x + (ptrdiff_t)t * stride) + c;
#pragma GCC unroll 4
        for (int v = 0; v < vecs; v++)
            acc[v] = v_add(acc[v], LOAD(pixel + v * V_N, n));
    }
#pragma GCC unroll 4
    for (int v = 0; v < vecs; v++)
        STORE(dst + c + v * V_N, v_mul(acc[v], scale), n);
}

V_INLINE void sum_all(const float *const *taps, const float *x, ptrdiff_t stride, size_t count, float scale_value, float *dst,
                      size_t c)
{
    const v_f scale = v_set(scale_value);
    size_t    i     = 0;
    for (; c - i >= 4 * V_N; i += 4 * V_N)
        sum_pass(taps, x, stride, count, scale, dst, i, 4, V_N);
    switch ((c - i) / V_N) {
    case 3: sum_pass(taps, x, stride, count, scale, dst, i, 3, V_N); break;
    case 2: sum_pass(taps, x, stride, count, scale, dst, i, 2, V_N); break;
    case 1: sum_pass(taps, x, stride, count, scale, dst, i, 1, V_N); break;
    default: break;
    }
    i = c / V_N * V_N;
    if (i < c)
        sum_pass(taps, x, stride, count, scale, dst, i, 1, c - i);
}

static void pool_sum(const float *const *taps, size_t n_taps, float scale, float *dst, size_t c)
{
    sum_all(taps, NULL, 0, n_taps, scale, dst, c);
}

static void pixel_sum(const float *x, ptrdiff_t stride, size_t n, float scale, float *dst, size_t c)
{
    sum_all(NULL, x, stride, n, scale, dst, c);
}

void OPF_K(window_init)(opf_kern *kern)
{
    kern->pool_max  = pool_max;
    kern->pool_sum  = pool_sum;
    kern->pixel_sum = pixel_sum;
}
