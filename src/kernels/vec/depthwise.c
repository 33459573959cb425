/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines of a channels-last depthwise convolution, a vector of channels at a time. A block of two lines of pixels keeps its
 * sums in registers over the whole window; an input pixel is loaded once for all the sums it belongs to, and the weights
 * of the two window lines that meet an input line stay in registers along it. Where registers hold all weights (3x3 with
 * stride 1, AVX-512) a block goes down all lines instead: each input line is read once and adds to every line whose window it is in.
 * A few vectors of channels go over all lines before the next ones, so that lines shared by windows are found in L1.
 * The last block of a line overlaps its neighbour, and so does the last vector of a pixel; what lies outside the image is left
 * out, so borders run at about the same speed. Each sum takes the taps in their order in any of the blocks.
 */
#include "kernels/simd/math.h"

#if V_N == 16
enum { PIXELS = 7 }; /* of a block: 14 or 21 sums, up to 14 weights of 32 registers; and image sizes are often multiples of 7 */
#else
enum { PIXELS = 4 };
#endif
enum { LINES = 2, FEW = 4, DOWN = 0 /* all lines */, CHUNK = 128 /* channels */ };

/* The end of `size` pixels, their sums to dst. */
V_INLINE void finish(const opf_depthwise *d, const v_f *acc, float *dst, size_t n, const int size)
{
    if (d->then == OPF_EW_SWISH) {
#pragma GCC unroll 7
        for (int i = 0; i < size; i++)
            STORE(dst + i * d->dst_pixel, v_swish(acc[i], d->param), n);
    } else if (d->then == OPF_EW_HARD_SWISH) {
#pragma GCC unroll 7
        for (int i = 0; i < size; i++)
            STORE(dst + i * d->dst_pixel, v_hard_swish(acc[i]), n);
    } else {
        const v_f lo = v_set(d->lo), hi = v_set(d->hi);
#pragma GCC unroll 7
        for (int i = 0; i < size; i++)
            STORE(dst + i * d->dst_pixel, v_min(hi, v_max(lo, acc[i])), n);
    }
}

V_INLINE float *result_at(const opf_depthwise *d, size_t o, size_t p, size_t c)
{
    return d->dst + (ptrdiff_t)o * d->dst_line + (ptrdiff_t)p * d->dst_pixel + (ptrdiff_t)c;
}

V_INLINE v_f first_sum(const opf_depthwise *d, size_t c, size_t n)
{
    return d->bias ? LOAD(d->bias + c, n) : v_zero();
}

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
        acc[i / size][i % size] = first_sum(d, c, n);
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
                k[0][t] = LOAD(d->w + (size_t)(r * taps + t) * d->w_tap + c, n);
            if (two)
                k[1][t] = LOAD(d->w + (size_t)((r - stride) * taps + t) * d->w_tap + c, n);
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
#pragma GCC unroll 2
    for (int j = 0; j < lines; j++)
        finish(d, acc[j], result_at(d, o + (size_t)j, p, c), n, size);
}

/* ---- down all lines: 3x3 with stride 1 ---- */

enum { TAPS = 3 };

typedef struct {
    const opf_depthwise *d;
    ptrdiff_t            at; /* of column 0 in an input line */
    v_f                  k[TAPS * TAPS];
    v_f                  acc[TAPS][PIXELS]; /* [r]: of the line that takes the input line at hand with line r of its window */
} walk;

/* Input line i to the sums that take it with lines [first, end) of their window. */
V_INLINE void add_line(walk *w, size_t i, const int size, const int from, const int to, const int first, const int end)
{
    const opf_depthwise *d = w->d;
    const size_t         last = d->lines - 1, o = i < last ? i : last;
    const float         *x    = d->rows[o * TAPS + (i - o)];
    if (x == NULL)
        return;
#pragma GCC unroll 24
    for (int col = 0; col < size - 1 + TAPS; col++) {
        if (col < from || col >= to)
            continue;
        const v_f v = v_load(x + (w->at + col * d->pixel));
#pragma GCC unroll 3
        for (int t = 0; t < TAPS; t++)
#pragma GCC unroll 3
            for (int r = first; r < end; r++)
                if (col >= t && col - t < size)
                    w->acc[r][col - t] = v_fma(v, w->k[r * TAPS + t], w->acc[r][col - t]);
    }
}

V_INLINE void next_line(walk *w, v_f bias, const int size)
{
#pragma GCC unroll 7
    for (int p = 0; p < size; p++) {
        w->acc[2][p] = w->acc[1][p];
        w->acc[1][p] = w->acc[0][p];
        w->acc[0][p] = bias;
    }
}

/* Two lines at least. */
V_INLINE void down(const opf_depthwise *d, size_t p, size_t c, const int size, const int from, const int to)
{
    const v_f bias = first_sum(d, c, V_N);
    walk      w    = {.d = d, .at = (ptrdiff_t)(d->first + (int64_t)p) * d->pixel + (ptrdiff_t)c};
    float    *dst  = result_at(d, 0, p, c);
#pragma GCC unroll 9
    for (int t = 0; t < TAPS * TAPS; t++)
        w.k[t] = v_load(d->w + (size_t)t * d->w_tap + c);
    next_line(&w, bias, size);
    add_line(&w, 0, size, from, to, 0, 1);
    next_line(&w, bias, size);
    add_line(&w, 1, size, from, to, 0, 2);
    for (size_t i = 2; i < d->lines; i++, dst += d->dst_line) {
        next_line(&w, bias, size);
        add_line(&w, i, size, from, to, 0, 3);
        finish(d, w.acc[2], dst, V_N, size);
    }
    next_line(&w, bias, size);
    add_line(&w, d->lines, size, from, to, 1, 3);
    finish(d, w.acc[2], dst, V_N, size);
    next_line(&w, bias, size);
    add_line(&w, d->lines + 1, size, from, to, 2, 3);
    finish(d, w.acc[2], dst + d->dst_line, V_N, size);
}

/* ---- order ---- */

V_INLINE void part(const opf_depthwise *d, size_t o, size_t p, size_t c, size_t n, const int lines, const int size, const int taps,
                   const int stride, const int from, const int to)
{
    if (lines == DOWN)
        down(d, p, c, size, from, to);
    else
        block(d, o, p, c, n, lines, size, taps, stride, from, to);
}

/* Channels c to end - 1 of a block. Inside the image, and at borders of the usual width, the columns are constants. */
V_INLINE void channels(const opf_depthwise *d, size_t o, size_t p, size_t c, size_t end, const int lines, const int size, const int taps,
                       const int stride)
{
    const int64_t first = d->first + (int64_t)p * stride, left = d->in - first;
    const int     cols = (size - 1) * stride + taps, border = taps / 2;
    const int     from = first >= 0 ? 0 : first < -cols ? cols : (int)-first;
    const int     to   = left >= cols ? cols : left < 0 ? 0 : (int)left;
    const size_t  last = d->c < V_N ? 0 : d->c - V_N; /* vector */
#define EACH(from, to)                                                                                                 \
    for (; c < end; c += V_N)                                                                                          \
    part(d, o, p, c < last ? c : last, V_N, lines, size, taps, stride, from, to)
    if (d->c < V_N)
        part(d, o, p, c, d->c, lines == DOWN ? 1 : lines, size, taps, stride, from, to);
    else if (from == 0 && to == cols)
        EACH(0, cols);
    else if (from == border && to == cols)
        EACH(border, cols);
    else if (from == 0 && to == cols - border)
        EACH(0, cols - border);
    else if (from == border && to == cols - border)
        EACH(border, cols - border);
    else
        EACH(from, to);
#undef EACH
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
            const float *x = row + (ptrdiff_t)at * d->pixel + c, *w = d->w + (r * d->taps + t) * d->w_tap + c;
#pragma GCC unroll 4
            for (int v = 0; v < vecs; v++)
                acc[v] = v_fma(LOAD(x + v * V_N, n), LOAD(w + v * V_N, n), acc[v]);
        }
    }
#pragma GCC unroll 4
    for (int v = 0; v < vecs; v++)
        finish(d, &acc[v], result_at(d, o, p, c) + v * V_N, n, 1);
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
    static void lines_##lines##_##taps##_##stride(const opf_depthwise *d, size_t o, size_t c, size_t end)              \
    {                                                                                                                  \
        if ((int)PIXELS > (int)FEW && d->pixels < PIXELS) {                                                            \
            channels(d, o, 0, c, end, lines, FEW, taps, stride);                                                       \
            if (d->pixels > FEW)                                                                                       \
                channels(d, o, d->pixels - FEW, c, end, lines, FEW, taps, stride);                                     \
            return;                                                                                                    \
        }                                                                                                              \
        for (size_t p = 0; p < d->pixels; p += PIXELS)                                                                 \
            channels(d, o, d->pixels - p < PIXELS ? d->pixels - PIXELS : p, c, end, lines, PIXELS, taps, stride);      \
    }
#define DEFINE(taps, stride) DEFINE_FOR(1, taps, stride) DEFINE_FOR(2, taps, stride)
WINDOWS(DEFINE)
#if V_N == 16
DEFINE_FOR(0, 3, 1)
#endif

typedef void (*lines_fn)(const opf_depthwise *d, size_t o, size_t c, size_t end);

/* For so many lines at a time. */
static lines_fn find_fixed(const opf_depthwise *d, size_t lines)
{
    if (d->dilation != 1 || d->pixels < FEW || d->n_rows != d->taps || (lines != 1 && d->step != (size_t)d->stride))
        return NULL;
#if V_N == 16
    if (lines == DOWN)
        return d->taps == TAPS && d->stride == 1 && d->c >= V_N && d->lines >= 2 ? lines_0_3_1 : NULL;
#endif
#define FIND(t, s)                                                                                                     \
    if (d->taps == (t) && d->stride == (s))                                                                            \
        return lines == 1 ? lines_1_##t##_##s : lines == LINES ? lines_2_##t##_##s : NULL;
    WINDOWS(FIND)
    return NULL;
}

static void depthwise(const opf_depthwise *d)
{
    const lines_fn all = find_fixed(d, DOWN), both = find_fixed(d, LINES), one = find_fixed(d, 1);
    if (one == NULL) {
        for (size_t o = 0; o < d->lines; o++)
            for (size_t p = 0; p < d->pixels; p++)
                any_window(d, o, p);
        return;
    }
    for (size_t c = 0, end; c < d->c; c = end) {
        end = d->c - c < CHUNK ? d->c : c + CHUNK;
        if (all != NULL) {
            all(d, 0, c, end);
            continue;
        }
        size_t o = 0;
        for (; both != NULL && d->lines - o >= LINES; o += LINES)
            both(d, o, c, end);
        for (; o < d->lines; o++)
            one(d, o, c, end);
    }
}

void OPF_K(depthwise_init)(opf_kern *kern)
{
    kern->depthwise = depthwise;
}
