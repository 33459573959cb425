/* SPDX-License-Identifier: Apache-2.0 */
/* Channels-last windows. */
#include "check.h"

#include <math.h>

enum { MOST_TAPS = 50, MAX = 0, SUM };

static void compare(checker *check, bool max, const float *const *taps, size_t n_taps, ptrdiff_t at, double scale, float got)
{
    double sum = 0, size = 0, top = -INFINITY;
    for (size_t t = 0; t < n_taps; t++) {
        const double v = (double)taps[t][at], term = v * scale;
        sum += term;
        size += fabs(term);
        top = isnan(v) || isnan(top) ? (double)NAN : fmax(top, v);
    }
    const double want = max ? top : sum;
    if (isnan(want) ? !isnan(got) : isinf(want) ? (double)got != want : !(fabs((double)got - want) <= (max ? 0 : 6e-8 * (double)(n_taps + 1) * size)))
        check_fail(check, "float %td, %zu taps: %.9g, must be %.9g", at, n_taps, (double)got, want);
}

static size_t draw_taps(checker *check)
{
    return (size_t)check_random(check, 12) + (check_random(check, 4) ? 0 : 37);
}

static void spoil(checker *check, float *x, size_t n)
{
    for (size_t k = check_random(check, 4); k > 0; k--)
        check_spoil(check, x, n);
}

/* Floats of n pixels of c that lie `pixel` apart. */
static size_t extent(size_t n, size_t pixel, size_t c)
{
    return n == 0 ? 0 : (n - 1) * pixel + c;
}

static void run_line(checker *check, int index)
{
    for (int round = 0; round < 400 && !check->failed; round++) {
        check_reset(check);
        const bool   dense = check_random(check, 3) == 0;
        const size_t c = check_size(check, 0, 150), pixels = check_size(check, 0, 40), n_taps = draw_taps(check);
        const size_t pixel = dense ? c : (size_t)check_random(check, 3) * c + (size_t)check_random(check, 9);
        const size_t dst_pixel = dense ? c : c + (size_t)check_random(check, 9), one = extent(pixels, pixel, c);
        const size_t spare = (size_t)check_random(check, 3 * c + 1), n = one + (one ? spare : 0), n_dst = extent(pixels, dst_pixel, c);
        float       *x = check_array(check, n), *dst = check_array(check, n_dst), *before = check_array(check, n_dst);
        const float *taps[MOST_TAPS];
        check_fill(check, x, n, 1);
        spoil(check, x, n);
        for (size_t t = 0; t < n_taps; t++)
            taps[t] = x + check_random(check, n - one + 1); /* they overlap, as those of a line do */
        check_fill(check, dst, n_dst, 1);
        for (size_t i = 0; i < n_dst; i++)
            before[i] = dst[i];

        const opf_pool line = {taps, n_taps, (ptrdiff_t)pixel, dst, (ptrdiff_t)dst_pixel, pixels, c, 0.25f};
        (index == MAX ? check->kern->pool_max : check->kern->pool_sum)(&line);

        for (size_t i = 0; i < n_dst; i++)
            if (i % dst_pixel < c)
                compare(check, index == MAX, taps, n_taps, (ptrdiff_t)(i / dst_pixel * pixel + i % dst_pixel), 0.25, dst[i]);
            else if (dst[i] != before[i])
                check_fail(check, "float %zu, between pixels, is written", i);
        check_bands(check);
    }
}

/* The result as a tap: the maximum so far. */
static void run_max(checker *check, int index)
{
    run_line(check, index);
    for (int round = 0; round < 100 && !check->failed; round++) {
        check_reset(check);
        const size_t n = check_size(check, 0, 150);
        float       *x = check_array(check, n), *dst = check_array(check, n), *before = check_array(check, n);
        const float *taps[] = {dst, x}, *from[] = {before, x};
        check_fill(check, x, n, 1);
        check_fill(check, before, n, 1);
        spoil(check, x, n);
        spoil(check, before, n);
        for (size_t i = 0; i < n; i++)
            dst[i] = before[i];
        check->kern->pool_max(&(opf_pool){.taps = taps, .n_taps = 2, .dst = dst, .pixels = 1, .c = n});
        for (size_t i = 0; i < n; i++)
            compare(check, true, from, 2, (ptrdiff_t)i, 1, dst[i]);
        check_bands(check);
    }
}

static void run_pixel_sum(checker *check, int index)
{
    (void)index;
    for (int round = 0; round < 200 && !check->failed; round++) {
        check_reset(check);
        const size_t c = check_size(check, 0, 150), n = draw_taps(check), stride = c + (size_t)check_random(check, 9);
        float       *x = check_array(check, extent(n, stride, c)), *dst = check_array(check, c);
        const float *taps[MOST_TAPS];
        check_fill(check, x, extent(n, stride, c), 1);
        spoil(check, x, extent(n, stride, c));
        for (size_t t = 0; t < n; t++)
            taps[t] = x + t * stride;
        check->kern->pixel_sum(x, (ptrdiff_t)stride, n, 0.25f, dst, c);
        for (size_t i = 0; i < c; i++)
            compare(check, false, taps, n, (ptrdiff_t)i, 0.25, dst[i]);
        check_bands(check);
    }
}

static const check_slot slots[] = {
    {"pool_max", offsetof(opf_kern, pool_max), run_max, MAX},
    {"pool_sum", offsetof(opf_kern, pool_sum), run_line, SUM},
    {"pixel_sum", offsetof(opf_kern, pixel_sum), run_pixel_sum, 0},
};
const check_family check_window_family = {slots, sizeof slots / sizeof *slots};
