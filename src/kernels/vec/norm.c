/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Normalisation by statistics of columns. A pass holds up to 4 vectors of columns in registers over all rows; the rest
 * goes vector by vector, the last one masked.
 */
#include "kernels/simd/vec.h"

/* ---- sums ---- */

/* The sum over rows of |x|, or of (x - mean)^2; which is a constant in every caller. */
V_INLINE void sum_pass(const float *x, ptrdiff_t stride, size_t rows, const float *mean, float *dst, int squares,
                       int vecs, size_t n)
{
    v_f acc[4], centre[4];
#pragma GCC unroll 4
    for (int v = 0; v < vecs; v++) {
        acc[v] = v_zero();
        centre[v] = squares && mean ? LOAD(mean + v * V_N, n) : v_zero();
    }
    for (size_t r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int v = 0; v < vecs; v++) {
            const v_f a = LOAD(x + (ptrdiff_t)r * stride + v * V_N, n), d = v_sub(a, centre[v]);
            acc[v] = squares ? v_fma(d, d, acc[v]) : v_add(acc[v], v_abs(a));
        }
#pragma GCC unroll 4
    for (int v = 0; v < vecs; v++) {
        if (n == V_N)
            v_store(dst + v * V_N, acc[v]);
        else
            v_store_n(dst + v * V_N, acc[v], n);
    }
}

V_INLINE void sum_columns(const float *x, ptrdiff_t stride, size_t rows, const float *mean, float *dst, size_t c,
                          int squares)
{
    size_t i = 0;
    for (; c - i >= 4 * V_N; i += 4 * V_N)
        sum_pass(x + i, stride, rows, mean ? mean + i : NULL, dst + i, squares, 4, V_N);
    for (; c - i >= V_N; i += V_N)
        sum_pass(x + i, stride, rows, mean ? mean + i : NULL, dst + i, squares, 1, V_N);
    if (i < c)
        sum_pass(x + i, stride, rows, mean ? mean + i : NULL, dst + i, squares, 1, c - i);
}

static void pixel_abs_sum(const float *x, ptrdiff_t stride, size_t n, float *dst, size_t c)
{
    sum_columns(x, stride, n, NULL, dst, c, 0);
}

static void pixel_square_sum(const float *x, ptrdiff_t stride, size_t n, const float *mean, float *dst, size_t c)
{
    sum_columns(x, stride, n, mean, dst, c, 1);
}

/* ---- normalising ---- */

V_INLINE v_f clamp(v_f x, v_f lo, v_f hi) /* NaN passes */
{
    return v_min(hi, v_max(lo, x));
}

static void normalise(const float *x, const opf_affine *affine, float *y, size_t n)
{
    const v_f mean = v_set(affine->mean), scale = v_set(affine->scale), shift = v_set(affine->shift);
    const v_f lo = v_set(affine->lo), hi = v_set(affine->hi);
    size_t i = 0;
    for (; n - i >= V_N; i += V_N)
        v_store(y + i, clamp(v_fma(v_sub(v_load(x + i), mean), scale, shift), lo, hi));
    if (i < n)
        v_store_n(y + i, clamp(v_fma(v_sub(v_load_n(x + i, n - i), mean), scale, shift), lo, hi), n - i);
}

enum { NORMALISED, ROWWISE /* gain and offset are there */, SCALED };

/* Columns from c on. */
V_INLINE void normalise_pass(const opf_columns *tile, size_t c, const int kind, int vecs, size_t n)
{
    const v_f lo = v_set(tile->lo), hi = v_set(tile->hi);
    v_f mean[4], scale[4], shift[4];
#pragma GCC unroll 4
    for (int v = 0; v < vecs; v++) {
        mean[v] = kind == SCALED ? v_zero() : LOAD(tile->mean + c + v * V_N, n);
        scale[v] = LOAD(tile->scale + c + v * V_N, n);
        shift[v] = tile->shift ? LOAD(tile->shift + c + v * V_N, n) : v_zero();
    }
    for (size_t r = 0; r < tile->rows; r++) {
        const float *x = tile->x + (ptrdiff_t)r * tile->x_row + c;
        float *y = tile->y + (ptrdiff_t)r * tile->y_row + c;
        const v_f gain = v_set(kind == ROWWISE && tile->gain ? tile->gain[r] : 1.0f);
        const v_f offset = v_set(kind == ROWWISE && tile->offset ? tile->offset[r] : 0.0f);
#pragma GCC unroll 4
        for (int v = 0; v < vecs; v++) {
            const v_f in = LOAD(x + v * V_N, n), d = v_sub(in, mean[v]);
            const v_f norm = kind == SCALED    ? v_add(v_mul(in, scale[v]), shift[v])
                             : kind == ROWWISE ? v_fma(v_mul(d, scale[v]), gain, v_add(offset, shift[v]))
                                               : v_fma(d, scale[v], shift[v]);
            const v_f result = clamp(norm, lo, hi);
            if (n == V_N)
                v_store(y + v * V_N, result);
            else
                v_store_n(y + v * V_N, result, n);
        }
    }
}

V_INLINE void normalise_all(const opf_columns *tile, const int kind)
{
    size_t c = 0;
    for (; tile->cols - c >= 4 * V_N; c += 4 * V_N)
        normalise_pass(tile, c, kind, 4, V_N);
    for (; tile->cols - c >= V_N; c += V_N)
        normalise_pass(tile, c, kind, 1, V_N);
    if (c < tile->cols)
        normalise_pass(tile, c, kind, 1, tile->cols - c);
}

static void normalise_columns(const opf_columns *tile)
{
    if (tile->gain || tile->offset)
        normalise_all(tile, ROWWISE);
    else
        normalise_all(tile, NORMALISED);
}

static void scale_columns(const opf_columns *tile)
{
    normalise_all(tile, SCALED);
}

void OPF_K(norm_init)(opf_kern *kern)
{
    kern->pixel_abs_sum = pixel_abs_sum;
    kern->pixel_square_sum = pixel_square_sum;
    kern->normalise = normalise;
    kern->normalise_columns = normalise_columns;
    kern->scale_columns = scale_columns;
}
