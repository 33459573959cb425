/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The transforms of a tile, a vector of channels at a time: the columns of a window, then, of two axes, the rows of what they give,
 * which wait in L1. What a pair of points ±a gives shares all but its last operation: 12 operations for 6 values, 20 for 8.
 * The points, the size and the axes are constants in every caller.
 */
#include "kernels/simd/vec.h"

#define ROOT 1.41421356237309504880f

enum { TILE = OPF_WINOGRAD_TILE, WINDOW = OPF_WINOGRAD_WINDOW };

/* points values from `taps`, which lie apart. */
V_INLINE void filter_1d(const double *g, int points, int taps, const v_d *in, ptrdiff_t apart, v_d *out)
{
#pragma GCC unroll 6
    for (int p = 0; p < points; p++, g += taps) {
        out[p] = v_d_mul(v_d_set(g[0]), in[0]);
#pragma GCC unroll 3
        for (int t = 1; t < taps; t++)
            out[p] = v_d_fma(v_d_set(g[t]), in[t * apart], out[p]);
    }
}

/* points and taps of each axis are constants in the callers that count */
V_INLINE void filters(const opf_winograd_filters *f, int down, int across, int taps_down, int taps_across)
{
    v_d in[WINDOW], rows[WINDOW][WINDOW], u[WINDOW];
    for (size_t n = 0; n < f->n; n += V_N / 2) {
#pragma GCC unroll 3
        for (int y = 0; y < taps_down; y++) {
#pragma GCC unroll 3
            for (int x = 0; x < taps_across; x++)
                in[x] = v_d_load_f(f->w + (y * taps_across + x) * f->w_tap + n);
            filter_1d(f->g[1], across, taps_across, in, 1, rows[y]);
        }
#pragma GCC unroll 6
        for (int x = 0; x < across; x++) {
            filter_1d(f->g[0], down, taps_down, &rows[0][x], WINDOW, u);
#pragma GCC unroll 6
            for (int y = 0; y < down; y++)
                v_d_store_f(f->u + (y * across + x) * f->u_point + n, u[y]);
        }
    }
}

static void winograd_filters(const opf_winograd_filters *f)
{
    const int *points = f->points, *taps = f->taps;
    if (taps[0] == 3 && taps[1] == 3 && points[0] == 6 && points[1] == 6)
        filters(f, 6, 6, 3, 3);
    else if (taps[0] == 3 && taps[1] == 3 && points[0] == 4 && points[1] == 4)
        filters(f, 4, 4, 3, 3);
    else
        filters(f, points[0], points[1], taps[0], taps[1]);
}

V_INLINE void input_1d(const int points, const v_f r[WINDOW], v_f o[WINDOW])
{
    if (points == 4) {
        o[0] = v_sub(r[0], r[2]);
        o[1] = v_add(r[1], r[2]);
        o[2] = v_sub(r[2], r[1]);
        o[3] = v_sub(r[3], r[1]);
        return;
    }
    const v_f half = v_set(0.5f), two = v_set(2.0f);
    if (points == 6) {
        const v_f root = v_set(ROOT);
        const v_f a = v_fnma(two, r[2], r[4]), b = v_fnma(half, r[3], r[1]);
        const v_f c = v_fnma(half, r[2], r[4]), d = v_fnma(half, r[1], r[3]);
        o[0] = v_fnma(v_set(2.5f), r[2], v_add(r[0], r[4]));
        o[1] = v_fnma(root, b, a);
        o[2] = v_fma(root, b, a);
        o[3] = v_fma(root, d, c);
        o[4] = v_fnma(root, d, c);
        o[5] = v_fnma(v_set(2.5f), r[3], v_add(r[1], r[5]));
        return;
    }
    const v_f four = v_set(4.0f), five = v_set(5.0f), q = v_set(0.25f), s = v_set(4.25f), t = v_set(1.25f), u = v_set(5.25f);
    const v_f a = v_fma(four, r[2], v_fnma(five, r[4], r[6])), b = v_fma(four, r[1], v_fnma(five, r[3], r[5]));
    const v_f c = v_fnma(s, r[4], v_add(r[2], r[6])), d = v_fnma(s, r[3], v_add(r[1], r[5]));
    const v_f e = v_fma(q, r[2], v_fnma(t, r[4], r[6])), f = v_fma(q, r[1], v_fnma(t, r[3], r[5]));
    o[0] = v_fma(u, v_sub(r[4], r[2]), v_sub(r[0], r[6]));
    o[1] = v_fma(half, b, a);
    o[2] = v_fnma(half, b, a);
    o[3] = v_add(c, d);
    o[4] = v_sub(c, d);
    o[5] = v_fma(two, f, e);
    o[6] = v_fnma(two, f, e);
    o[7] = v_fma(u, v_sub(r[3], r[5]), v_sub(r[7], r[1]));
}

V_INLINE void output_1d(const int points, const int size, const v_f m[WINDOW], v_f y[TILE])
{
    const v_f a = v_add(m[1], m[2]), b = v_sub(m[1], m[2]), half = v_set(0.5f);
    if (points == 4) {
        y[0] = v_add(m[0], a);
        y[1] = v_add(b, m[3]);
        return;
    }
    const v_f c = v_add(m[3], m[4]), d = v_sub(m[3], m[4]);
    if (points == 8) {
        y[0] = v_add(v_add(m[0], a), v_add(c, v_add(m[5], m[6])));
        y[1] = v_add(v_fma(half, b, d), v_fma(v_set(2.0f), v_sub(m[5], m[6]), m[7]));
        return;
    }
    y[0] = v_add(v_add(m[0], a), c);
    if (size == 2) {
        y[1] = v_fma(v_set(ROOT), v_fma(half, b, d), m[5]);
        return;
    }
    y[1] = v_mul(v_set(ROOT), v_fma(half, b, d));
    y[2] = v_fma(half, a, v_add(c, c));
    y[3] = v_fma(v_set(2 * ROOT), v_fma(v_set(0.125f), b, d), m[5]);
}

/* n < V_N: the last channels, zeros behind them. edge: some pixels lie outside. */
V_INLINE void input_vector(const opf_winograd_input *tile, const int points, const int axes, size_t c, size_t n, const bool edge)
{
    const int columns = axes == 2 ? points : 1;
    v_f       t[WINDOW][WINDOW], d[WINDOW], o[WINDOW];
#pragma GCC unroll 8
    for (int j = 0; j < columns; j++) {
#pragma GCC unroll 8
        for (int i = 0; i < points; i++) {
            const ptrdiff_t at = i * tile->row + j * tile->pixel + (ptrdiff_t)c;
            if (edge && (i < tile->top || i >= tile->bottom || j < tile->left || j >= tile->right))
                d[i] = v_zero();
            else
                d[i] = n == V_N ? v_load(tile->x + at) : v_load_n(tile->x + at, n);
        }
        input_1d(points, d, o);
#pragma GCC unroll 8
        for (int i = 0; i < points; i++)
            t[i][j] = o[i];
    }
#pragma GCC unroll 8
    for (int i = 0; i < points; i++) {
        if (axes == 2)
            input_1d(points, t[i], o);
        else
            o[0] = t[i][0];
#pragma GCC unroll 8
        for (int j = 0; j < columns; j++)
            v_store(tile->v + (i * columns + j) * tile->v_point + (ptrdiff_t)c, o[j]);
    }
}

V_INLINE void input_tile(const opf_winograd_input *tile, const int points, const int axes)
{
    const bool edge = tile->top > 0 || tile->bottom < points || tile->left > 0 || tile->right < (axes == 2 ? points : 1);
    size_t     c    = 0;
    for (; tile->c - c >= V_N; c += V_N)
        if (edge)
            input_vector(tile, points, axes, c, V_N, true);
        else
            input_vector(tile, points, axes, c, V_N, false);
    if (c < tile->c)
        input_vector(tile, points, axes, c, tile->c - c, true);
}

static void winograd_input(const opf_winograd_input *tile)
{
    if (tile->axes == 2) {
        if (tile->points == 4)
            input_tile(tile, 4, 2);
        else
            input_tile(tile, 6, 2);
    } else {
        if (tile->points == 4)
            input_tile(tile, 4, 1);
        else if (tile->points == 6)
            input_tile(tile, 6, 1);
        else
            input_tile(tile, 8, 1);
    }
}

/* Sums of one vector, to the rows of the panel's buffer; not finite when a sum is not: zero times it is not zero. */
V_INLINE v_f output_vector(const float *m, ptrdiff_t m_point, const int points, const int size, const int axes, float *sums)
{
    const int columns = axes == 2 ? points : 1, across = axes == 2 ? size : 1;
    v_f       t[TILE][WINDOW], d[WINDOW], y[TILE], zeros = v_zero();
#pragma GCC unroll 8
    for (int j = 0; j < columns; j++) {
#pragma GCC unroll 8
        for (int i = 0; i < points; i++)
            d[i] = v_load(m + (i * columns + j) * m_point);
        output_1d(points, size, d, y);
#pragma GCC unroll 4
        for (int i = 0; i < size; i++)
            t[i][j] = y[i];
    }
#pragma GCC unroll 4
    for (int i = 0; i < size; i++) {
        if (axes == 2)
            output_1d(points, size, t[i], y);
        else
            y[0] = t[i][0];
#pragma GCC unroll 4
        for (int j = 0; j < across; j++) {
            zeros = v_fma(y[j], v_zero(), zeros);
            v_store(sums + (i * across + j) * 2 * V_N, y[j]);
        }
    }
    return zeros;
}

/* Of all columns; whether they are finite. */
V_INLINE bool output_sums(const opf_winograd_output *tile, const int points, const int size, const int axes, float *sums)
{
    for (size_t n = 0; n < tile->cols; n += V_N)
        if (v_m_any(v_is_nan(output_vector(tile->m + n, tile->m_point, points, size, axes, sums + n))))
            return false;
    return true;
}

static bool winograd_output(const opf_winograd_output *tile)
{
    float        sums[TILE * TILE * 2 * V_N];
    const int    points = tile->points, size = tile->size;
    const size_t across = tile->axes == 2 ? (size_t)size : 1; /* one axis: whichever it is, the other index is 0 */
    const v_f    lo = v_set(tile->lo), hi = v_set(tile->hi);
    bool         finite;
    if (tile->axes == 2)
        finite = points == 4 ? output_sums(tile, 4, 2, 2, sums) : size == 4 ? output_sums(tile, 6, 4, 2, sums) : output_sums(tile, 6, 2, 2, sums);
    else if (points == 6)
        finite = size == 4 ? output_sums(tile, 6, 4, 1, sums) : output_sums(tile, 6, 2, 1, sums);
    else
        finite = points == 4 ? output_sums(tile, 4, 2, 1, sums) : output_sums(tile, 8, 2, 1, sums);
    if (!finite)
        return false;
    for (size_t n = 0; n < tile->cols; n += V_N) {
        const size_t left = tile->cols - n;
        const v_f    bias = tile->bias ? v_load(tile->bias + n) : v_zero();
        for (size_t i = 0; i < tile->rows; i++)
            for (size_t j = 0; j < tile->pixels; j++) {
                const ptrdiff_t at = (ptrdiff_t)i * tile->residual_row + (ptrdiff_t)j * tile->residual_pixel + (ptrdiff_t)n;
                float          *c  = tile->c + (ptrdiff_t)i * tile->row + (ptrdiff_t)j * tile->pixel + n;
                v_f             x  = v_add(v_load(sums + (i * across + j) * 2 * V_N + n), bias);
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

void OPF_K(winograd_init)(opf_kern *kern)
{
    kern->winograd_filters = winograd_filters;
    kern->winograd_input   = winograd_input;
    kern->winograd_output  = winograd_output;
}
