/* SPDX-License-Identifier: Apache-2.0 */
/* Channels-last windows. */
#include "check.h"

#include <math.h>

enum { MAX_TAPS = 49, ROOM = 50, DEPTHWISE = 0, MAX, SUM, PIXELS };

static void run(checker *check, int index)
{
    for (int round = 0; round < 200 && !check->failed; round++) {
        check_reset(check);
        const size_t c      = check_size(check, 0, 150);
        const size_t n_taps = (size_t)check_random(check, 12) + (index == MAX) + (check_random(check, 4) ? 0 : 37);
        const float  scale = 0.25f, lo = check_random(check, 2) ? 0.0f : -INFINITY, hi = check_random(check, 2) ? 1.0f : INFINITY;
        const float *taps[ROOM];
        const size_t stride = c + check_random(check, 9);
        float       *x      = check_array(check, n_taps ? (n_taps - 1) * stride + c : 0);
        check_fill(check, x, n_taps ? (n_taps - 1) * stride + c : 0, 1);
        for (size_t t = 0; t < n_taps; t++)
            taps[t] = x + (index == PIXELS ? t : check_random(check, n_taps)) * stride;
        if (c && n_taps && check_random(check, 2))
            x[check_random(check, c)] = NAN;
        float *w = check_array(check, n_taps * c), *bias = check_array(check, c), *dst = check_array(check, c);
        check_fill(check, w, n_taps * c, 1);
        check_fill(check, bias, c, 1);
        if (check_random(check, 2))
            bias = NULL;

        if (index == DEPTHWISE)
            check->kern->depthwise(taps, n_taps, w, bias, dst, c, lo, hi);
        else if (index == MAX)
            check->kern->pool_max(taps, n_taps, dst, c);
        else if (index == SUM)
            check->kern->pool_sum(taps, n_taps, scale, dst, c);
        else
            check->kern->pixel_sum(x, (ptrdiff_t)stride, n_taps, scale, dst, c);

        for (size_t i = 0; i < c; i++) {
            double sum = index == DEPTHWISE && bias ? (double)bias[i] : 0, size = fabs(sum), top = -INFINITY;
            for (size_t t = 0; t < n_taps; t++) {
                const double v = (double)taps[t][i], term = index == DEPTHWISE ? v * (double)w[t * c + i] : v * (double)scale;
                sum += term;
                size += fabs(term);
                top = isnan(v) || isnan(top) ? (double)NAN : fmax(top, v);
            }
            if (index == DEPTHWISE)
                sum = isnan(sum) ? sum : fmin(fmax(sum, (double)lo), (double)hi);
            const double want = index == MAX ? top : sum;
            if (isnan(want) ? !isnan(dst[i]) : !(fabs((double)dst[i] - want) <= (index == MAX ? 0 : 4e-7 * size)))
                check_fail(check, "channel %zu of %zu, %zu taps: %.9g, must be %.9g", i, c, n_taps, (double)dst[i], want);
        }
        check_bands(check);
    }
}

static const check_slot slots[] = {
    {"depthwise", offsetof(opf_kern, depthwise), run, DEPTHWISE},
    {"pool_max", offsetof(opf_kern, pool_max), run, MAX},
    {"pool_sum", offsetof(opf_kern, pool_sum), run, SUM},
    {"pixel_sum", offsetof(opf_kern, pixel_sum), run, PIXELS},
};
const check_family check_window_family = {slots, sizeof slots / sizeof *slots};
