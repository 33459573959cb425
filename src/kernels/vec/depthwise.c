/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One line of a channels-last depthwise convolution, a vector of channels at a time. A block of pixels keeps its sums in
 * registers over all taps; within a row of taps the weights stay in registers too, and an input pixel is loaded once for
 * all the sums it belongs to: 3x3 with stride 1 takes 13 loads for 24 multiply-adds. Lines are cut into blocks of 8 or 4
 * pixels, the last one overlapping its neighbour; pixels outside the image are left out, so borders run at the same speed.
 * Each sum takes the taps in their order in any of the blocks.
 */
#include "kernels/simd/vec.h"

#define LOAD(p, n)     ((n) == V_N ? v_load(p) : v_load_n((p), (n)))
#define STORE(p, x, n) ((n) == V_N ? v_store((p), (x)) : v_store_n((p), (x), (n)))

/* Pixels p to p + size - 1. Constants in every caller: size, taps, stride, edge (else all taps lie inside). */
V_INLINE void block(const opf_depthwise_line *line, size_t p, size_t c, size_t n, const int size, const int taps,
                    const int stride, const bool edge)
{
    const int64_t   first = line->first + (int64_t)p * stride, left = line->in - first;
    const int       cols = (size - 1) * stride + taps;
    const int       from = !edge || first >= 0 ? 0 : first < -cols ? cols : (int)-first;
    const int       to   = !edge || left >= cols ? cols : left < 0 ? 0 : (int)left;
    const ptrdiff_t at = (ptrdiff_t)first * line->pixel + (ptrdiff_t)c;
    v_f             acc[8];
#pragma GCC unroll 8
    for (int i = 0; i < size; i++)
        acc[i] = line->bias ? LOAD(line->bias + c, n) : v_zero();
    for (size_t r = 0; r < line->n_rows; r++) {
        const float *x = line->rows[r], *w = line->w[r] + c;
        v_f          k[7];
#pragma GCC unroll 7
        for (int t = 0; t < taps; t++)
            k[t] = LOAD(w + (size_t)t * line->c, n);
#pragma GCC unroll 24
        for (int col = 0; col < cols; col++) {
            if (edge && (col < from || col >= to))
                continue;
            const v_f v = LOAD(x + (at + col * line->pixel), n);
#pragma GCC unroll 7
            for (int t = 0; t < taps; t++)
                if (col >= t && (col - t) % stride == 0 && (col - t) / stride < size)
                    acc[(col - t) / stride] = v_fma(v, k[t], acc[(col - t) / stride]);
        }
    }
    const v_f lo = v_set(line->lo), hi = v_set(line->hi);
    float    *dst = line->dst + (ptrdiff_t)p * line->dst_pixel + (ptrdiff_t)c;
#pragma GCC unroll 8
    for (int i = 0; i < size; i++)
        STORE(dst + i * line->dst_pixel, v_min(hi, v_max(lo, acc[i])), n);
}

/* A block of a fixed window; only full vectors inside the image have code of their own. */
V_INLINE void fixed(const opf_depthwise_line *line, size_t p, size_t c, size_t n, const int size, const int taps, const int stride)
{
    const int64_t first = line->first + (int64_t)p * stride;
    if (n == V_N && first >= 0 && first + (size - 1) * stride + taps <= line->in)
        block(line, p, c, V_N, size, taps, stride, false);
    else if (n == V_N)
        block(line, p, c, V_N, size, taps, stride, true);
    else
        block(line, p, c, n, size, taps, stride, true);
}

/* One pixel of any window, up to 4 vectors of channels. */
V_INLINE void pixel(const opf_depthwise_line *line, size_t p, size_t c, const int vecs, size_t n)
{
    const int64_t first = line->first + (int64_t)p * line->stride;
    v_f           acc[4];
#pragma GCC unroll 4
    for (int v = 0; v < vecs; v++)
        acc[v] = line->bias ? LOAD(line->bias + c + v * V_N, n) : v_zero();
    for (size_t r = 0; r < line->n_rows; r++)
        for (size_t t = 0; t < line->taps; t++) {
            const int64_t at = first + (int64_t)t * line->dilation;
            if (at < 0 || at >= line->in)
                continue;
            const float *x = line->rows[r] + (ptrdiff_t)at * line->pixel + c, *w = line->w[r] + t * line->c + c;
#pragma GCC unroll 4
            for (int v = 0; v < vecs; v++)
                acc[v] = v_fma(LOAD(x + v * V_N, n), LOAD(w + v * V_N, n), acc[v]);
        }
    const v_f lo = v_set(line->lo), hi = v_set(line->hi);
    float    *dst = line->dst + (ptrdiff_t)p * line->dst_pixel + (ptrdiff_t)c;
#pragma GCC unroll 4
    for (int v = 0; v < vecs; v++)
        STORE(dst + v * V_N, v_min(hi, v_max(lo, acc[v])), n);
}

static void any_window(const opf_depthwise_line *line, size_t p)
{
    size_t c = 0;
    for (; line->c - c >= 4 * V_N; c += 4 * V_N)
        pixel(line, p, c, 4, V_N);
    for (; line->c - c >= V_N; c += V_N)
        pixel(line, p, c, 1, V_N);
    if (c < line->c)
        pixel(line, p, c, 1, line->c - c);
}

/* Windows with code of their own: taps of a row, stride. */
#define WINDOWS(X) X(3, 1) X(3, 2) X(5, 1) X(5, 2) X(7, 1)

#define DEFINE(taps, stride)                                                                                           \
    static void line_##taps##_##stride(const opf_depthwise_line *line, size_t c, size_t n)                             \
    {                                                                                                                  \
        size_t p = 0;                                                                                                  \
        for (; line->pixels - p >= 8; p += 8)                                                                          \
            fixed(line, p, c, n, 8, taps, stride);                                                                     \
        for (; p < line->pixels; p += 4)                                                                               \
            fixed(line, line->pixels - p < 4 ? line->pixels - 4 : p, c, n, 4, taps, stride);                           \
    }
WINDOWS(DEFINE)

typedef void (*line_fn)(const opf_depthwise_line *line, size_t c, size_t n);

static line_fn find_fixed(const opf_depthwise_line *line)
{
    if (line->dilation != 1 || line->pixels < 4)
        return NULL;
#define FIND(t, s)                                                                                                     \
    if (line->taps == (t) && line->stride == (s))                                                                      \
        return line_##t##_##s;
    WINDOWS(FIND)
    return NULL;
}

static void depthwise(const opf_depthwise_line *line)
{
    const line_fn run = find_fixed(line);
    if (run == NULL) {
        for (size_t p = 0; p < line->pixels; p++)
            any_window(line, p);
        return;
    }
    size_t c = 0;
    for (; line->c - c >= V_N; c += V_N)
        run(line, c, V_N);
    if (c < line->c)
        run(line, c, line->c - c);
}

void OPF_K(depthwise_init)(opf_kern *kern)
{
    kern->depthwise = depthwise;
}
