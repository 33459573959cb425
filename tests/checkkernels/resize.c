/* SPDX-License-Identifier: Apache-2.0 */
/* Blended rows and resampled lines: places anywhere on the line, weights of 0 beside infinity and NaN, plain copies. */
#include "check.h"

#include <math.h>

enum { MOST_TAPS = 6 };

static void spoil(checker *check, float *x, size_t n)
{
    for (size_t k = 0; k < check_random(check, 3); k++)
        check_spoil(check, x, n);
}

static void compare(checker *check, float got, double want, double size, const char *where, size_t at, size_t n)
{
    if (isnan(want) ? !isnan(got) : isinf(want) ? (double)got != want : !(fabs((double)got - want) <= 5e-7 * size))
        check_fail(check, "%s: float %zu of %zu is %.9g, must be %.9g", where, at, n, (double)got, want);
}

static void run_blend(checker *check, int index)
{
    (void)index;
    for (int round = 0; round < 300 && !check->failed; round++) {
        check_reset(check);
        const size_t n = check_size(check, 0, 200), n_rows = check_random(check, MOST_TAPS + 1);
        float *dst = check_array(check, n), *weights = check_array(check, n_rows);
        const float *rows[MOST_TAPS];
        check_fill(check, weights, n_rows, 1);
        for (size_t r = 0; r < n_rows; r++) {
            float *row = check_array(check, n);
            check_fill(check, row, n, 1);
            spoil(check, row, n);
            rows[r] = row;
        }
        check->kern->blend(rows, weights, n_rows, dst, n);
        for (size_t i = 0; i < n; i++) {
            double want = 0, size = 0;
            for (size_t r = 0; r < n_rows; r++) {
                want += (double)weights[r] * (double)rows[r][i];
                size += fabs((double)weights[r] * (double)rows[r][i]);
            }
            compare(check, dst[i], want, size, "blend", i, n);
        }
        check_bands(check);
    }
}

/* int32 places in an array with bands; of a short line all of its pixels, of an empty one none. */
static int32_t *make_places(checker *check, size_t count, size_t line, size_t c)
{
    int32_t *places = (int32_t *)(void *)check_array(check, count);
    for (size_t i = 0; i < count; i++)
        places[i] = (int32_t)check_random(check, line - c + 1);
    return places;
}

static void run_resample(checker *check, int index)
{
    (void)index;
    for (int round = 0; round < 400 && !check->failed; round++) {
        check_reset(check);
        const size_t c = check_random(check, 2) ? 1 : check_size(check, 0, 150), line = c + check_size(check, 0, 400);
        opf_resample r = {
            .taps = 1 + (size_t)check_random(check, MOST_TAPS), .pixels = check_size(check, 0, 70), .c = c};
        const bool is_copy = check_random(check, 4) == 0;
        float *x = check_array(check, line), *weights = check_array(check, r.taps * r.pixels);
        r.taps = is_copy ? 1 : r.taps;
        check_fill(check, x, line, 1);
        spoil(check, x, line);
        check_fill(check, weights, r.taps * r.pixels, 1);
        for (size_t i = 0; i < r.taps * r.pixels; i++)
            if (check_random(check, 4) == 0)
                weights[i] = 0;
        r.line = x;
        r.places = make_places(check, r.taps * r.pixels, line, c);
        r.weights = is_copy ? NULL : weights;
        r.dst = check_array(check, r.pixels * c);
        check->kern->resample(&r);
        for (size_t i = 0; i < r.pixels * c; i++) {
            double want = 0, size = 0;
            for (size_t t = 0; t < r.taps; t++) {
                const double w = is_copy ? 1 : (double)weights[t * r.pixels + i / c];
                const double v = (double)x[(size_t)r.places[t * r.pixels + i / c] + i % c];
                want += w != 0 ? w * v : 0;
                size += w != 0 ? fabs(w * v) : 0;
            }
            compare(check, r.dst[i], want, is_copy ? 0 : size, "resample", i, r.pixels * c);
        }
        check_bands(check);
    }
}

static const check_slot slots[] = {
    {"blend", offsetof(opf_kern, blend), run_blend, 0},
    {"resample", offsetof(opf_kern, resample), run_resample, 0},
};
const check_family check_resize_family = {slots, sizeof slots / sizeof *slots};
