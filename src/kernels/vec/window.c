/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines of pooled pixels. A pass holds up to 4 vectors of channels in registers over all taps. Pixels that follow one another
 * are one long pixel; what is left of a pixel behind its whole vectors goes in one that overlaps the last of them, and is
 * masked only where there is none.
 */
#include "kernels/simd/vec.h"

#include <math.h>

enum { MOST_FIXED = 4 }; /* taps of windows with code of their own */

typedef struct window {
    bool                listed; /* a constant: tap t is at taps[t], else at x + t*next */
    const float *const *taps;
    const float        *x;
    ptrdiff_t           next;
    size_t              n;
} window;

V_INLINE const float *tap(const window *w, size_t t)
{
    return w->listed ? w->taps[t] : w->x + (ptrdiff_t)t * w->next;
}

V_INLINE v_f fold(bool max, v_f acc, v_f x)
{
    return max ? v_max(acc, x) : v_add(acc, x);
}

/* Channels from c on, counted from pixel 0: vecs vectors of them, the last one `last` behind the first; n < V_N: only the first n
   of one vector. A maximum is NaN where the tap just taken is, and is not where it is a number: two taps are checked at a time. */
V_INLINE void pass(bool max, const window *w, ptrdiff_t c, v_f scale, float *dst, int vecs, size_t last, size_t n)
{
    v_f    acc[4];
    v_m    numbers[4];
    size_t at[4] = {0, V_N, 2 * V_N, 3 * V_N}, t = 1;
    at[vecs - 1] = last;
#pragma GCC unroll 4
    for (int v = 0; v < vecs; v++) {
        acc[v]     = w->n == 0 ? v_set(max ? -INFINITY : 0.0f) : LOAD(tap(w, 0) + c + at[v], n);
        numbers[v] = v_eq(acc[v], acc[v]);
    }
    for (; t + 1 < w->n; t += 2)
#pragma GCC unroll 4
        for (int v = 0; v < vecs; v++) {
            const v_f first = fold(max, acc[v], LOAD(tap(w, t) + c + at[v], n));
            acc[v]          = fold(max, first, LOAD(tap(w, t + 1) + c + at[v], n));
            numbers[v]      = v_m_numbers(numbers[v], first, acc[v]);
        }
    if (t < w->n)
#pragma GCC unroll 4
        for (int v = 0; v < vecs; v++) {
            acc[v]     = fold(max, acc[v], LOAD(tap(w, t) + c + at[v], n));
            numbers[v] = v_m_numbers(numbers[v], acc[v], acc[v]);
        }
#pragma GCC unroll 4
    for (int v = 0; v < vecs; v++)
        STORE(dst + at[v], max ? v_select(numbers[v], acc[v], v_set(NAN)) : v_mul(acc[v], scale), n);
}

V_INLINE void pixel(bool max, const window *w, ptrdiff_t at, v_f scale, float *dst, size_t c)
{
    if (c < V_N) {
        pass(max, w, at, scale, dst, 1, 0, c);
        return;
    }
    for (; c > 4 * V_N; c -= 4 * V_N, at += 4 * V_N, dst += 4 * V_N)
        pass(max, w, at, scale, dst, 4, 3 * V_N, V_N);
    switch ((c + V_N - 1) / V_N) {
    case 4: pass(max, w, at, scale, dst, 4, c - V_N, V_N); break;
    case 3: pass(max, w, at, scale, dst, 3, c - V_N, V_N); break;
    case 2: pass(max, w, at, scale, dst, 2, c - V_N, V_N); break;
    default: pass(max, w, at + (ptrdiff_t)c - V_N, scale, dst + c - V_N, 1, 0, V_N); break;
    }
}

/* fixed: a constant, the number of taps, which then stay in registers; 0: any. */
V_INLINE void pixels(bool max, const opf_pool *line, const size_t fixed)
{
    const float *taps[MOST_FIXED];
    for (size_t t = 0; t < fixed; t++)
        taps[t] = line->taps[t];
    const window w     = {.listed = true, .taps = fixed ? taps : line->taps, .n = fixed ? fixed : line->n_taps};
    const v_f    scale = v_set(line->scale);
    const bool   dense = line->pixel == (ptrdiff_t)line->c && line->dst_pixel == line->pixel;
    const size_t n = dense ? line->pixels != 0 : line->pixels, c = dense ? line->pixels * line->c : line->c;
    for (size_t p = 0; p < n; p++)
        pixel(max, &w, (ptrdiff_t)p * line->pixel, scale, line->dst + (ptrdiff_t)p * line->dst_pixel, c);
}

V_INLINE void pool(bool max, const opf_pool *line)
{
    switch (line->n_taps) {
    case 2: pixels(max, line, 2); break;
    case 3: pixels(max, line, 3); break;
    case 4: pixels(max, line, MOST_FIXED); break;
    default: pixels(max, line, 0); break;
    }
}

static void pool_max(const opf_pool *line)
{
    pool(true, line);
}

static void pool_sum(const opf_pool *line)
{
    pool(false, line);
}

static void pixel_sum(const float *x, ptrdiff_t stride, size_t n, float scale, float *dst, size_t c)
{
    const window w = {.x = x, .next = stride, .n = n};
    pixel(false, &w, 0, v_set(scale), dst, c);
}

void OPF_K(window_init)(opf_kern *kern)
{
    kern->pool_max  = pool_max;
    kern->pool_sum  = pool_sum;
    kern->pixel_sum = pixel_sum;
}
