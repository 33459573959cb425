/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resizing, one axis at a time: rows are blended, then a line is resampled. Where channels lie side by side a pixel is
 * a few vectors, held in registers over its taps; else the pixels of a line are gathered.
 */
#include "kernels/simd/vec.h"

/* n < V_N: only n floats of one vector. */
/* ---- rows ---- */

V_INLINE void blend_pass(const float *const *rows, const float *weights, size_t n_rows, float *dst, size_t at, int vecs,
                         size_t n)
{
    v_f acc[4];
#pragma GCC unroll 4
    for (int v = 0; v < vecs; v++)
        acc[v] = v_zero();
    for (size_t r = 0; r < n_rows; r++) {
        const v_f w = v_set(weights[r]);
#pragma GCC unroll 4
        for (int v = 0; v < vecs; v++)
            acc[v] = v_fma(w, LOAD(rows[r] + at + v * V_N, n), acc[v]);
    }
#pragma GCC unroll 4
    for (int v = 0; v < vecs; v++)
        STORE(dst + at + v * V_N, acc[v], n);
}

static void blend(const float *const *rows, const float *weights, size_t n_rows, float *dst, size_t n)
{
    size_t i = 0;
    for (; n - i >= 4 * V_N; i += 4 * V_N)
        blend_pass(rows, weights, n_rows, dst, i, 4, V_N);
    for (; n - i >= V_N; i += V_N)
        blend_pass(rows, weights, n_rows, dst, i, 1, V_N);
    if (i < n)
        blend_pass(rows, weights, n_rows, dst, i, 1, n - i);
}

/* ---- pixels of a line ---- */

/* vecs vectors of pixel p, from channel `at` on. */
V_INLINE void pixel_pass(const opf_resample *r, size_t p, size_t at, int vecs, size_t n)
{
    v_f acc[4];
#pragma GCC unroll 4
    for (int v = 0; v < vecs; v++)
        acc[v] = v_zero();
    for (size_t t = p; t < r->taps * r->pixels; t += r->pixels) {
        const float *pixel = r->line + r->places[t] + at;
        if (r->weights[t] == 0)
            continue;
        const v_f w = v_set(r->weights[t]);
#pragma GCC unroll 4
        for (int v = 0; v < vecs; v++)
            acc[v] = v_fma(w, LOAD(pixel + v * V_N, n), acc[v]);
    }
#pragma GCC unroll 4
    for (int v = 0; v < vecs; v++)
        STORE(r->dst + p * r->c + at + v * V_N, acc[v], n);
}

static void sum_pixel(const opf_resample *r, size_t p)
{
    const size_t c = r->c;
    size_t i = 0;
    for (; c - i >= 4 * V_N; i += 4 * V_N)
        pixel_pass(r, p, i, 4, V_N);
    for (; c - i >= V_N; i += V_N)
        pixel_pass(r, p, i, 1, V_N);
    if (i < c)
        pixel_pass(r, p, i, 1, c - i);
}

/* V_N pixels of one channel. */
V_INLINE v_f gather_pass(const opf_resample *r, size_t p, size_t n)
{
    v_f acc = v_zero();
    for (size_t t = p; t < r->taps * r->pixels; t += r->pixels) {
        const v_f w = LOAD(r->weights + t, n),
                  x = n == V_N ? v_gather(r->line, r->places + t) : v_gather_n(r->line, r->places + t, n);
        acc = v_select(v_eq(w, v_zero()), acc, v_fma(w, x, acc));
    }
    return acc;
}

static void gather_pixels(const opf_resample *r)
{
    const size_t n = r->pixels, taps = r->weights == NULL ? 0 : r->taps;
    size_t p = 0;
    for (; n - p >= V_N; p += V_N)
        v_store(r->dst + p, taps == 0 ? v_gather(r->line, r->places + p) : gather_pass(r, p, V_N));
    if (p < n)
        v_store_n(r->dst + p, taps == 0 ? v_gather_n(r->line, r->places + p, n - p) : gather_pass(r, p, n - p), n - p);
}

static void resample(const opf_resample *r)
{
    if (r->c == 1) {
        gather_pixels(r);
        return;
    }
    for (size_t p = 0; p < r->pixels; p++)
        if (r->weights == NULL)
            v_copy_row(r->line + r->places[p], r->dst + p * r->c, r->c);
        else
            sum_pixel(r, p);
}

void OPF_K(resize_init)(opf_kern *kern)
{
    kern->blend = blend;
    kern->resample = resample;
}
