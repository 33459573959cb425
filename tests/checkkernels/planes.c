/* SPDX-License-Identifier: Apache-2.0 */
/* A convolution to planes: lines anywhere in an array, tails of pixels, NaN and infinities where they belong. */
#include "check.h"

#include <math.h>

enum { MOST_K = 40, MOST_PIXELS = 400, LINES = 900 };

static void run(checker *check, int index)
{
    (void)index;
    for (int round = 0; round < 300 && !check->failed; round++) {
        check_reset(check);
        const size_t pixels = check_size(check, 0, MOST_PIXELS), k = check_random(check, MOST_K + 1);
        const size_t filters = 1 + check_random(check, OPF_PLANES_FILTERS), c_line = pixels + check_random(check, 9);
        float       *lines = check_array(check, LINES), *w = check_array(check, k * filters);
        float       *bias  = check_random(check, 2) ? check_array(check, filters) : NULL;
        float       *c     = check_array(check, (filters - 1) * c_line + pixels);
        uint32_t    *offsets = (uint32_t *)(void *)check_array(check, k);
        check_fill(check, lines, LINES, 1);
        check_fill(check, w, k * filters, 1);
        if (bias != NULL)
            check_fill(check, bias, filters, 1);
        for (size_t i = 0; i < k; i++)
            offsets[i] = (uint32_t)check_random(check, LINES - pixels + 1);
        if (check_random(check, 4) == 0)
            check_spoil(check, lines, LINES);
        const opf_planes t = {.lines   = lines,
                              .offsets = offsets,
                              .k       = k,
                              .w       = w,
                              .bias    = bias,
                              .filters = filters,
                              .pixels  = pixels,
                              .c       = c,
                              .c_line  = (ptrdiff_t)c_line,
                              .lo      = check_random(check, 2) ? 0.0f : -INFINITY,
                              .hi      = check_random(check, 2) ? 2.0f : INFINITY};
        check->kern->planes(&t);
        for (size_t f = 0; f < filters; f++)
            for (size_t p = 0; p < pixels; p++) {
                double want = bias != NULL ? (double)bias[f] : 0, size = fabs(want);
                for (size_t i = 0; i < k; i++) {
                    const double term = (double)w[i * filters + f] * (double)lines[offsets[i] + p];
                    want += term;
                    size += fabs(term);
                }
                want = want < (double)t.lo ? (double)t.lo : want > (double)t.hi ? (double)t.hi : want;
                const double got = (double)c[f * c_line + p];
                if (isnan(want) ? !isnan(got) : isinf(want) ? got != want : !(fabs(got - want) <= 1e-6 * size))
                    check_fail(check, "filter %zu of %zu, pixel %zu of %zu, k %zu: %.9g, must be %.9g", f, filters, p, pixels, k, got, want);
            }
        check_bands(check);
    }
}

static const check_slot slots[] = {{"planes", offsetof(opf_kern, planes), run, 0}};
const check_family check_planes_family = {slots, sizeof slots / sizeof *slots};
