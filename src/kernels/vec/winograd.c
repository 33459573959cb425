/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The transforms of F(4x4, 3x3) and F(2x2, 3x3), a vector of channels at a time: the columns of a window, then the rows of
 * what they give, which wait in L1. The coefficients of the points ±sqrt(1/2), ±sqrt(2) share subexpressions: 12 operations
 * for 6 values. The size is a constant in every caller.
 */
#include "kernels/simd/vec.h"

#define ROOT 1.41421356237309504880f

enum { TILE = OPF_WINOGRAD_TILE, WINDOW = OPF_WINOGRAD_WINDOW };

V_INLINE void input_1d(const int size, const v_f r[WINDOW], v_f o[WINDOW])
{
    if (size == 2) {
        o[0] = v_sub(r[0], r[2]);
        o[1] = v_add(r[1], r[2]);
        o[2] = v_sub(r[2], r[1]);
        o[3] = v_sub(r[1], r[3]);
        return;
    }
    const v_f half = v_set(0.5f), root = v_set(ROOT);
    const v_f a = v_fnma(v_set(2.0f), r[2], r[4]), b = v_fnma(half, r[3], r[1]);
    const v_f c = v_fnma(half, r[2], r[4]), d = v_fnma(half, r[1], r[3]);
    o[0] = v_fnma(v_set(2.5f), r[2], v_add(r[0], r[4]));
    o[1] = v_fnma(root, b, a);
    o[2] = v_fma(root, b, a);
    o[3] = v_fma(root, d, c);
    o[4] = v_fnma(root, d, c);
    o[5] = v_fnma(v_set(2.5f), r[3], v_add(r[1], r[5]));
}

V_INLINE void output_1d(const int size, const v_f m[WINDOW], v_f y[TILE])
{
    const v_f a = v_add(m[1], m[2]), b = v_sub(m[1], m[2]);
    if (size == 2) {
        y[0] = v_add(m[0], a);
        y[1] = v_sub(b, m[3]);
        return;
    }
    const v_f c = v_add(m[3], m[4]), d = v_sub(m[3], m[4]);
    y[0] = v_add(v_add(m[0], a), c);
    y[1] = v_mul(v_set(ROOT), v_fma(v_set(0.5f), b, d));
    y[2] = v_fma(v_set(0.5f), a, v_add(c, c));
    y[3] = v_fma(v_set(2 * ROOT), v_fma(v_set(0.125f), b, d), m[5]);
}

/* n < V_N: the last channels, zeros behind them. edge: some pixels lie outside. */
V_INLINE void input_vector(const opf_winograd_input *tile, const int size, size_t c, size_t n, const bool edge)
{
    const int window = size + 2;
    v_f       t[WINDOW][WINDOW], d[WINDOW], o[WINDOW];
#pragma GCC unroll 6
    for (int j = 0; j < window; j++) {
#pragma GCC unroll 6
        for (int i = 0; i < window; i++) {
            const ptrdiff_t at = i * tile->row + j * tile->pixel + (ptrdiff_t)c;
            if (edge && (i < tile->top || i >= tile->bottom || j < tile->left || j >= tile->right))
                d[i] = v_zero();
            else
                d[i] = n == V_N ? v_load(tile->x + at) : v_load_n(tile->x + at, n);
        }
        input_1d(size, d, o);
#pragma GCC unroll 6
        for (int i = 0; i < window; i++)
            t[i][j] = o[i];
    }
#pragma GCC unroll 6
    for (int i = 0; i < window; i++) {
        input_1d(size, t[i], o);
#pragma GCC unroll 6
        for (int j = 0; j < window; j++)
            v_store(tile->v + (i * window + j) * tile->v_point + (ptrdiff_t)c, o[j]);
    }
}

V_INLINE void input_tile(const opf_winograd_input *tile, const int size)
{
    const bool edge = tile->top > 0 || tile->bottom < size + 2 || tile->left > 0 || tile->right < size + 2;
    size_t     c    = 0;
    for (; tile->c - c >= V_N; c += V_N)
        if (edge)
            input_vector(tile, size, c, V_N, true);
        else
            input_vector(tile, size, c, V_N, false);
    if (c < tile->c)
        input_vector(tile, size, c, tile->c - c, true);
}

static void winograd_input(const opf_winograd_input *tile)
{
    if (tile->size == 2)
        input_tile(tile, 2);
    else
        input_tile(tile, 4);
}

/* Sums of one vector, to the rows of the panel's buffer; not finite when a sum is not: zero times it is not zero. */
V_INLINE v_f output_vector(const float *m, ptrdiff_t m_point, const int size, float *sums)
{
    const int window = size + 2;
    v_f       t[TILE][WINDOW], d[WINDOW], y[TILE], zeros = v_zero();
#pragma GCC unroll 6
    for (int j = 0; j < window; j++) {
#pragma GCC unroll 6
        for (int i = 0; i < window; i++)
            d[i] = v_load(m + (i * window + j) * m_point);
        output_1d(size, d, y);
#pragma GCC unroll 4
        for (int i = 0; i < size; i++)
            t[i][j] = y[i];
    }
#pragma GCC unroll 4
    for (int i = 0; i < size; i++) {
        output_1d(size, t[i], y);
#pragma GCC unroll 4
        for (int j = 0; j < size; j++) {
            zeros = v_fma(y[j], v_zero(), zeros);
            v_store(sums + (i * size + j) * 2 * V_N, y[j]);
        }
    }
    return zeros;
}

V_INLINE bool output_tile(const opf_winograd_output *tile, const int size)
{
    float     sums[TILE * TILE * 2 * V_N];
    const v_f lo = v_set(tile->lo), hi = v_set(tile->hi);
    for (size_t n = 0; n < tile->cols; n += V_N)
        if (v_m_any(v_is_nan(output_vector(tile->m + n, tile->m_point, size, sums + n))))
            return false;
    for (size_t n = 0; n < tile->cols; n += V_N) {
        const size_t left = tile->cols - n;
        const v_f    bias = tile->bias ? v_load(tile->bias + n) : v_zero();
        for (size_t i = 0; i < tile->rows; i++)
            for (size_t j = 0; j < tile->pixels; j++) {
                const ptrdiff_t at = (ptrdiff_t)i * tile->residual_row + (ptrdiff_t)j * tile->residual_pixel + (ptrdiff_t)n;
                float          *c  = tile->c + (ptrdiff_t)i * tile->row + (ptrdiff_t)j * tile->pixel + n;
                v_f             x  = v_add(v_load(sums + (i * (size_t)size + j) * 2 * V_N + n), bias);
                if (tile->residual)
                    x = v_add(x, left >= V_N ? v_load(tile->residual + at) : v_load_n(tile->residual + at, left));
                x = v_min(hi, v_max(lo, x));
                if (left >= V_N)
                    v_store(c, x);
                else
                    v_store_n(c, x, left);
            }
    }
    return true;
}

static bool winograd_output(const opf_winograd_output *tile)
{
    return tile->size == 2 ? output_tile(tile, 2) : output_tile(tile, 4);
}

void OPF_K(winograd_init)(opf_kern *kern)
{
    kern->winograd_input  = winograd_input;
    kern->winograd_output = winograd_output;
}
