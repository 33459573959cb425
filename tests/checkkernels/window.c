/* SPDX-License-Identifier: Apache-2.0 */
/* Channels-last windows. */
#include "check.h"

#include <math.h>

enum { ROOM = 50, MAX = 0, SUM, PIXELS };

static void run(checker *check, int index)
{
    for (int round = 0; round < 200 && !check->failed; round++) {
        check_reset(check);
        const size_t c      = check_size(check, 0, 150);
        const size_t n_taps = (size_t)check_random(check, 12) + (index == MAX) + (check_random(check, 4) ? 0 : 37);
        const float  scale = 0.25f;
        const float *taps[ROOM];
        const size_t stride = c + check_random(check, 9);
        float       *x      = check_array(check, n_taps ? (n_taps - 1) * stride + c : 0);
        check_fill(check, x, n_taps ? (n_taps - 1) * stride + c : 0, 1);
        for (size_t t = 0; t < n_taps; t++)
            taps[t] = x + (index == PIXELS ? t : check_random(check, n_taps)) * stride;
        if (c && n_taps && check_random(check, 2))
            x[check_random(check, c)] = NAN;
        float *dst = check_array(check, c);

        if (index == MAX)
            check->kern->pool_max(taps, n_taps, dst, c);
        else if (index == SUM)
            check->kern->pool_sum(taps, n_taps, scale, dst, c);
        else
            check->kern->pixel_sum(x, (ptrdiff_t)stride, n_taps, scale, dst, c);

        for (size_t i = 0; i < c; i++) {
            double sum = 0, size = 0, top = -INFINITY;
            for (size_t t = 0; t < n_taps; t++) {
                const double v = (double)taps[t][i], term = v * (double)scale;
                sum += term;
                size += fabs(term);
                top = isnan(v) || isnan(top) ? (double)NAN : fmax(top, v);
            }
            const double want = index == MAX ? top : sum;
            if (isnan(want) ? !isnan(dst[i]) : !(fabs((double)dst[i] - want) <= (index == MAX ? 0 : 4e-7 * size)))
                check_fail(check, "channel %zu of %zu, %zu taps: %.9g, must be %.9g", i, c, n_taps, (double)dst[i], want);
        }
        check_bands(check);
    }
}

static const check_slot slots[] = {
    {"pool_max", offsetof(opf_kern, pool_max), run, MAX},
    {"pool_sum", offsetof(opf_kern, pool_sum), run, SUM},
    {"pixel_sum", offsetof(opf_kern, pixel_sum), run, PIXELS},
};
const check_family check_window_family = {slots, sizeof slots / sizeof *slots};
