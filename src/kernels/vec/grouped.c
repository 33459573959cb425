/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines of a channels-last convolution in groups of a few channels, a block of groups at a time: the filters of the block fill a
 * vector, and channel i of every group reaches the lanes of its filters by a permutation of the vector that holds the block's
 * channels. A product of a group alone would leave most lanes empty, and zeros for the other groups are wrong beside infinities.
 */
#include "kernels/simd/vec.h"

#if V_N == 16
enum { PIXELS = 8 }; /* that share weights; their sums and channels stay in registers */
#else
enum { PIXELS = 5 };
#endif
enum { MOST = V_N / 2 }; /* channels of a group */

typedef struct {
    size_t  groups, in, out;   /* of the block; channels and filters of all of its groups */
    size_t  channel, filter;   /* the first ones */
    const float *w;
    const int32_t (*lanes)[V_N]; /* by channel of a group */
} block;

/* `size` pixels from p on, a constant in every caller. checked: taps may lie outside the image. */
V_INLINE void pixels(const opf_grouped *g, const block *b, size_t o, size_t p, const int size, const bool checked)
{
    const opf_depthwise *d = &g->lines;
    const float         *w = b->w;
    v_f                  acc[PIXELS], x[PIXELS];
#pragma GCC unroll 8
    for (int i = 0; i < size; i++)
        acc[i] = d->bias ? LOAD(d->bias + b->filter, b->out) : v_zero();
    for (size_t r = 0; r < d->n_rows; r++) {
        const float *row = d->rows[o * d->n_rows + r];
        for (size_t t = 0; t < d->taps; t++, w += g->in * V_N) {
            const int64_t at = d->first + (int64_t)p * d->stride + (int64_t)t * d->dilation;
            if (row == NULL || (checked && (at < 0 || at >= d->in)))
                continue;
#pragma GCC unroll 8
            for (int i = 0; i < size; i++)
                x[i] = LOAD(row + (ptrdiff_t)(at + i * d->stride) * d->pixel + b->channel, b->in);
            for (size_t k = 0; k < g->in; k++) {
                const v_f weight = v_load(w + k * V_N);
                const v_i lanes  = v_load_i(b->lanes[k]);
#pragma GCC unroll 8
                for (int i = 0; i < size; i++)
                    acc[i] = v_fma(v_permute(x[i], lanes), weight, acc[i]);
            }
        }
    }
    const v_f lo = v_set(d->lo), hi = v_set(d->hi);
    float    *dst = d->dst + (ptrdiff_t)o * d->dst_line + (ptrdiff_t)p * d->dst_pixel + b->filter;
#pragma GCC unroll 8
    for (int i = 0; i < size; i++)
        STORE(dst + i * d->dst_pixel, v_min(hi, v_max(lo, acc[i])), b->out);
}

/* Pixels [first, last) of a line, whose windows lie inside the image. */
static void inner_pixels(const opf_depthwise *d, size_t *first, size_t *last)
{
    const int64_t room = d->in - d->first - (int64_t)(d->taps == 0 ? 0 : d->taps - 1) * d->dilation; /* for the last tap */
    const int64_t from = d->first >= 0 ? 0 : (-d->first + d->stride - 1) / d->stride, to = room <= 0 ? 0 : (room + d->stride - 1) / d->stride;
    const int64_t all  = (int64_t)d->pixels;
    *first = (size_t)(from < all ? from : all);
    *last  = (size_t)(to < all ? to : all);
}

static void grouped(const opf_grouped *g)
{
    const opf_depthwise *d = &g->lines;
    const size_t         most = opf_grouped_block(g->in, g->out, V_N), n = d->c / g->in;
    int32_t              lanes[MOST][V_N];
    size_t               first, last;
    for (size_t k = 0; k < g->in; k++)
        for (size_t i = 0; i < V_N; i++)
            lanes[k][i] = i / g->out < most ? (int32_t)(i / g->out * g->in + k) : 0;
    inner_pixels(d, &first, &last);
    for (size_t at = 0; at < n; at += most) {
        const size_t groups = n - at < most ? n - at : most;
        const block  b = {.groups  = groups,
                          .in      = groups * g->in,
                          .out     = groups * g->out,
                          .channel = at * g->in,
                          .filter  = at * g->out,
                          .w       = d->w + at / most * d->n_rows * d->taps * g->in * V_N,
                          .lanes   = (const int32_t(*)[V_N])lanes};
        for (size_t o = 0; o < d->lines; o++) {
            size_t p = 0;
            for (; p < d->pixels; p++) {
                for (; p >= first && p + PIXELS <= last; p += PIXELS)
                    pixels(g, &b, o, p, PIXELS, false);
                if (p < d->pixels)
                    pixels(g, &b, o, p, 1, true);
            }
        }
    }
}

void OPF_K(grouped_init)(opf_kern *kern)
{
    kern->grouped       = grouped;
    kern->grouped_lanes = V_N;
}
