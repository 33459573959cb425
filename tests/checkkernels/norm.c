/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of absolute values and squares, of rows and of columns, and what they normalise. */
#include "check.h"

#include <math.h>

enum { ABSOLUTE = 0, SQUARES, MAX_N = 1100, MAX_ROWS = 40, MAX_COLS = 150 };

static double term(float x, double mean, int index)
{
    return index == ABSOLUTE ? fabs((double)x) : ((double)x - mean) * ((double)x - mean);
}

static void run_row_sum(checker *check, int index)
{
    for (int round = 0; round < 300 && !check->failed; round++) {
        check_reset(check);
        const size_t n = check_size(check, 0, MAX_N);
        float *x = check_array(check, n);
        const float mean = (float)check_normal(check);
        check_fill(check, x, n, 1);
        double sum = 0;
        for (size_t i = 0; i < n; i++)
            sum += term(x[i], (double)mean, index);
        const float got = index == ABSOLUTE ? check->kern->abs_sum(x, n) : check->kern->square_sum(x, n, mean);
        if (!(fabs((double)got - sum) <= 6e-7 * sum))
            check_fail(check, "n %zu: %.9g, must be %.9g", n, (double)got, sum);
        if (n) {
            x[check_random(check, n)] = check_random(check, 2) ? -INFINITY : NAN;
            if (isfinite(index == ABSOLUTE ? check->kern->abs_sum(x, n) : check->kern->square_sum(x, n, mean)))
                check_fail(check, "n %zu: an infinity or a NaN is lost", n);
        }
    }
}

static void run_column_sum(checker *check, int index)
{
    for (int round = 0; round < 200 && !check->failed; round++) {
        check_reset(check);
        const size_t c = check_size(check, 0, MAX_COLS), rows = check_size(check, 0, MAX_ROWS);
        const size_t stride = c + check_random(check, 9), n = rows ? (rows - 1) * stride + c : 0;
        float *x = check_array(check, n), *dst = check_array(check, c);
        float *mean = index == SQUARES && check_random(check, 2) ? check_array(check, c) : NULL;
        check_fill(check, x, n, 1);
        if (mean != NULL)
            check_fill(check, mean, c, 1);
        if (c && rows && check_random(check, 2))
            x[check_random(check, c)] = NAN;
        if (index == ABSOLUTE)
            check->kern->pixel_abs_sum(x, (ptrdiff_t)stride, rows, dst, c);
        else
            check->kern->pixel_square_sum(x, (ptrdiff_t)stride, rows, mean, dst, c);
        for (size_t i = 0; i < c; i++) {
            double sum = 0;
            for (size_t r = 0; r < rows; r++)
                sum += term(x[r * stride + i], mean != NULL ? (double)mean[i] : 0, index);
            if (isnan(sum) ? !isnan(dst[i]) : !(fabs((double)dst[i] - sum) <= 4e-6 * sum))
                check_fail(check, "column %zu of %zu, %zu rows: %.9g, must be %.9g", i, c, rows, (double)dst[i], sum);
        }
        check_bands(check);
    }
}

static void check_value(checker *check, float got, double want, double size, float lo, float hi)
{
    want = want < (double)lo ? (double)lo : want > (double)hi ? (double)hi : want;
    if (isnan(want) ? !isnan(got) : !(fabs((double)got - want) <= 4e-7 * size + 1e-30))
        check_fail(check, "%.9g, must be %.9g", (double)got, want);
}

static void run_normalise(checker *check, int index)
{
    (void)index;
    for (int round = 0; round < 200 && !check->failed; round++) {
        check_reset(check);
        const size_t n = check_size(check, 0, MAX_N);
        float *x = check_array(check, n), *x0 = check_array(check, n),
              *y = check_random(check, 2) ? x : check_array(check, n);
        const opf_affine a = {.mean = 0.5f,
                              .scale = (float)check_normal(check),
                              .shift = (float)check_normal(check),
                              .lo = check_random(check, 2) ? -INFINITY : -0.5f,
                              .hi = check_random(check, 2) ? INFINITY : 1.0f};
        check_fill(check, x, n, 1);
        if (n && check_random(check, 2))
            x[check_random(check, n)] = NAN;
        for (size_t i = 0; i < n; i++)
            x0[i] = x[i];
        check->kern->normalise(x, &a, y, n);
        for (size_t i = 0; i < n; i++) {
            const double norm = ((double)x0[i] - (double)a.mean) * (double)a.scale;
            check_value(check, y[i], norm + (double)a.shift, fabs(norm) + fabs((double)a.shift), a.lo, a.hi);
        }
        check_bands(check);
    }
}

static float *maybe(checker *check, size_t n)
{
    float *x = check_random(check, 2) ? check_array(check, n) : NULL;
    if (x != NULL)
        check_fill(check, x, n, 1);
    return x;
}

static void run_columns(checker *check, int is_scaled)
{
    for (int round = 0; round < 200 && !check->failed; round++) {
        check_reset(check);
        const size_t c = check_size(check, 0, MAX_COLS), rows = check_size(check, 0, MAX_ROWS);
        const size_t x_row = c + check_random(check, 9), y_row = c + check_random(check, 9);
        float *x = check_array(check, rows ? (rows - 1) * x_row + c : 0),
              *y = check_array(check, rows ? (rows - 1) * y_row + c : 0);
        float *mean = check_array(check, c), *scale = check_array(check, c);
        check_fill(check, x, rows ? (rows - 1) * x_row + c : 0, 1);
        check_fill(check, mean, c, 0.2);
        check_fill(check, scale, c, 1);
        const opf_columns tile = {.x = x,
                                  .x_row = (ptrdiff_t)x_row,
                                  .y = y,
                                  .y_row = (ptrdiff_t)y_row,
                                  .rows = rows,
                                  .cols = c,
                                  .mean = mean,
                                  .scale = scale,
                                  .shift = is_scaled ? mean : maybe(check, c),
                                  .gain = is_scaled ? NULL : maybe(check, rows),
                                  .offset = is_scaled ? NULL : maybe(check, rows),
                                  .lo = check_random(check, 2) ? -INFINITY : -0.5f,
                                  .hi = check_random(check, 2) ? INFINITY : 1.0f};
        (is_scaled ? check->kern->scale_columns : check->kern->normalise_columns)(&tile);
        for (size_t r = 0; r < rows; r++)
            for (size_t i = 0; i < c; i++) {
                const double norm = ((double)x[r * x_row + i] - (is_scaled ? 0 : (double)mean[i])) * (double)scale[i];
                const double a = tile.shift ? (double)tile.shift[i] : 0, b = tile.offset ? (double)tile.offset[r] : 0;
                const double product = norm * (tile.gain ? (double)tile.gain[r] : 1);
                check_value(check, y[r * y_row + i], product + a + b, fabs(product) + fabs(a) + fabs(b), tile.lo,
                            tile.hi);
            }
        check_bands(check);
    }
}

static const check_slot slots[] = {
    {"abs_sum", offsetof(opf_kern, abs_sum), run_row_sum, ABSOLUTE},
    {"square_sum", offsetof(opf_kern, square_sum), run_row_sum, SQUARES},
    {"pixel_abs_sum", offsetof(opf_kern, pixel_abs_sum), run_column_sum, ABSOLUTE},
    {"pixel_square_sum", offsetof(opf_kern, pixel_square_sum), run_column_sum, SQUARES},
    {"normalise", offsetof(opf_kern, normalise), run_normalise, 0},
    {"normalise_columns", offsetof(opf_kern, normalise_columns), run_columns, false},
    {"scale_columns", offsetof(opf_kern, scale_columns), run_columns, true},
};
const check_family check_norm_family = {slots, sizeof slots / sizeof *slots};
