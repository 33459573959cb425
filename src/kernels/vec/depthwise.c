/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines of a channels-last depthwise convolution, a vector of channels at a time. A block of two lines of pixels keeps its
 * sums in registers over the whole window; an input pixel is loaded once for all the sums it belongs to, and the weights
 * of the two window lines that meet an input line stay in registers along it: 3x3 with stride 1 takes 36 pixels and 18
 * weights for 126 multiply-adds. The last block of a line overlaps its neighbour; what lies outside the image is left out,
 * so borders run at about the same speed. Each sum takes the taps in their order in any of the blocks.
 */
#include "kernels/simd/vec.h"

#if V_N == 16
enum { PIXELS = 7 }; /* of a block: 14 sums, up to 14 weights of 32 registers; and image sizes are often multiples of 7 */
#else
enum { PIXELS = 4 };
#endif
enum { LINES = OPF_DEPTHWISE_LINES, FEW = 4 };

/* Pixels p to p + size - 1 of `lines` lines from line o on, whose window columns from to to - 1 lie inside the image.
   Constants in every caller: lines, size, taps (across and down), stride (of both). */
V_INLINE void block(const opf_depthwise *d, size_t o, size_t p, size_t c, size_t n, const int lines, const int size,
                    const int taps, const int stride, const int from, const int to)
{
    const int64_t   first = d->first + (int64_t)p * stride;
    const int       cols = (size - 1) * stride + taps;
    const ptrdiff_t at = (ptrdiff_t)first * d->pixel + (ptrdiff_t)c;
    v_f             acc[LINES][PIXELS];
#pragma GCC unroll 14
    for (int i = 0; i < lines * size; i++)
        acc[i / size][i % size] = d->bias ? LOAD(d->bias + c, n) : v_zero();
#pragma GCC unroll 16
    for (int r = 0; r < (lines - 1) * stride + taps; r++) {
        /* Input line r is line r of the first window, line r - stride of the second. */
        const bool   one = r < taps, two = lines > 1 && r >= stride;
        const float *x = d->rows[(one ? o : o + 1) * (size_t)taps + (size_t)(one ? r : r - stride)];
        v_f          k[LINES][7];
        if (x == NULL)
            continue;
#pragma GCC unroll 7
        for (int t = 0; t < taps; t++) {
            if (one)
                k[0][t] = LOAD(d->w + (size_t)(r * taps + t) * d->c + c, n);
            if (two)
                k[1][t] = LOAD(d->w + (size_t)((r - stride) * taps + t) * d->c + c, n);
        }
#pragma GCC unroll 24
        for (int col = 0; col < cols; col++) {
            if (col < from || col >= to)
                continue;
            const v_f v = LOAD(x + (at + col * d->pixel), n);
#pragma GCC unroll 7
            for (int t = 0; t < taps; t++) {
                const int i = (col - t) / stride;
                if (col < t || (col - t) % stride != 0 || i >= size)
                    continue;
                if (one)
                    acc[0][i] = v_fma(v, k[0][t], acc[0][i]);
                if (two)
                    acc[1][i] = v_fma(v, k[1][t], acc[1][i]);
            }
        }
    }
    const v_f lo = v_set(d->lo), hi = v_set(d->hi);
#pragma GCC unroll 2
    for (int j = 0; j < lines; j++) {
        float *dst = d->dst + (ptrdiff_t)(o + (size_t)j) * d->dst_line + (ptrdiff_t)p * d->dst_pixel + (ptrdiff_t)c;
#pragma GCC unroll 7
        for (int i = 0; i < size; i++)
            STORE(dst + i * d->dst_pixel, v_min(hi, v_max(lo, acc[j][i])), n);
    }
}

/* All channels of a block: its pixels and those beside them are read from begin to end, as memory likes best. Inside the
   image, and at borders of the usual width, the columns are constants. */
V_INLINE void channels(const opf_depthwise *d, size_t o, size_t p, const int lines, const int size, const int taps, const int stride)
{
    const int64_t first = d->first + (int64_t)p * stride, left = d->in - first;
    const int     cols = (size - 1) * stride + taps, border = taps / 2;
    const int     from = first >= 0 ? 0 : first < -cols ? cols : (int)-first;
    const int     to   = left >= cols ? cols : left < 0 ? 0 : (int)left;
    size_t        full = d->c / V_N * V_N;
    if (from == 0 && to == cols)
        for (size_t c = 0; c < full; c += V_N)
            block(d, o, p, c, V_N, lines, size, taps, stride, 0, cols);
    else if (from == border && to == cols)
        for (size_t c = 0; c < full; c += V_N)
            block(d, o, p, c, V_N, lines, size, taps, stride, border, cols);
    else if (from == 0 && to == cols - border)
        for (size_t c = 0; c < full; c += V_N)
            block(d, o, p, c, V_N, lines, size, taps, stride, 0, cols - border);
    else if (from == border && to == cols - border)
        for (size_t c = 0; c < full; c += V_N)
            block(d, o, p, c, V_N, lines, size, taps, stride, border, cols - border);
    else
        full = 0;
    for (size_t c = full; c < d->c; c += V_N) /* the rest */
        block(d, o, p, c, d->c - c < V_N ? d->c - c : V_N, lines, size, taps, stride, from, to);
}

/* One pixel of any window, up to 4 vectors of channels. */
V_INLINE void pixel(const opf_depthwise *d, size_t o, size_t p, size_t c, const int vecs, size_t n)
{
    const int64_t first = d->first + (int64_t)p * d->stride;
    v_f           acc[4];
#pragma GCC unroll 4
    for (int v = 0; v < vecs; v++)
        acc[v] = d->bias ? LOAD(d->bias + c + v * V_N, n) : v_zero();
    for (size_t r = 0; r < d->n_rows; r++) {
        const float *row = d->rows[o * d->n_rows + r];
        for (size_t t = 0; row != NULL && t < d->taps; t++) {
            const int64_t at = first + (int64_t)t * d->dilation;
            if (at < 0 || at >= d->in)
                continue;
            const float *x = row + (ptrdiff_t)at * d->pixel + c, *w = d->w + (r * d->taps + t) * d->c + c;
#pragma GCC unroll 4
            for (int v = 0; v < vecs; v++)
                acc[v] = v_fma(LOAD(x + v * V_N, n), LOAD(w + v * V_N, n), acc[v]);
        }
    }
    const v_f lo = v_set(d->lo), hi = v_set(d->hi);
    float    *dst = d->dst + (ptrdiff_t)o * d->dst_line + (ptrdiff_t)p * d->dst_pixel + (ptrdiff_t)c;
#pragma GCC unroll 4
    for (int v = 0; v < vecs; v++)
        STORE(dst + v * V_N, v_min(hi, v_max(lo, acc[v])), n);
}

static void any_window(const opf_depthwise *d, size_t o, size_t p)
{
    size_t c = 0;
    for (; d->c - c >= 4 * V_N; c += 4 * V_N)
        pixel(d, o, p, c, 4, V_N);
    for (; d->c - c >= V_N; c += V_N)
        pixel(d, o, p, c, 1, V_N);
    if (c < d->c)
        pixel(d, o, p, c, 1, d->c - c);
}

/* Windows with code of their own: taps, stride. */
#define WINDOWS(X) X(3, 1) X(3, 2) X(5, 1) X(5, 2) X(7, 1)

#define DEFINE_FOR(lines, taps, stride)                                                                                \
    static void lines_##lines##_##taps##_##stride(const opf_depthwise *d, size_t o)                                    \
    {                                                                                                                  \
        if ((int)PIXELS > (int)FEW && d->pixels < PIXELS) {                                                                 \
            channels(d, o, 0, lines, FEW, taps, stride);                                                               \
            if (d->pixels > FEW)                                                                                       \
                channels(d, o, d->pixels - FEW, lines, FEW, taps, stride);                                             \
            return;                                                                                                    \
        }                                                                                                              \
        for (size_t p = 0; p < d->pixels; p += PIXELS)                                                                 \
            channels(d, o, d->pixels - p < PIXELS ? d->pixels - PIXELS : p, lines, PIXELS, taps, stride);              \
    }
#define DEFINE(taps, stride) DEFINE_FOR(1, taps, stride) DEFINE_FOR(2, taps, stride)
WINDOWS(DEFINE)

typedef void (*lines_fn)(const opf_depthwise *d, size_t o);

static lines_fn find_fixed(const opf_depthwise *d, size_t lines)
{
    if (d->dilation != 1 || d->pixels < FEW || d->n_rows != d->taps)
        return NULL;
#define FIND(t, s)                                                                                                     \
    if (d->taps == (t) && d->stride == (s))                                                                            \
        return lines == 1 ? lines_1_##t##_##s : d->step == (s) ? lines_2_##t##_##s : NULL;
    WINDOWS(FIND)
    return NULL;
}

static void depthwise(const opf_depthwise *d)
{
    const lines_fn both = d->lines == LINES ? find_fixed(d, LINES) : NULL, run = both ? both : find_fixed(d, 1);
    for (size_t o = 0; o < d->lines; o += both ? LINES : 1) {
        for (size_t p = 0; run == NULL && p < d->pixels; p++)
            any_window(d, o, p);
        if (run != NULL)
            run(d, o);
    }
}

void OPF_K(depthwise_init)(opf_kern *kern)
{
    kern->depthwise = depthwise;
}
