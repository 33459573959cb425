/* SPDX-License-Identifier: Apache-2.0 */
/* Normalisations, softmax and reductions of a row. */
#include "check.h"

#include <math.h>
#include <string.h>

enum { MAX_N = 1100 };

static double mean_of(const float *x, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)x[i];
    return sum / (double)n;
}

static double square_mean(const float *x, size_t n, double mean)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += ((double)x[i] - mean) * ((double)x[i] - mean);
    return sum / (double)n;
}

/* index 0: layer_norm, 1: rms_norm */
static void run_norm(checker *check, int index)
{
    for (int round = 0; round < 250 && !check->failed; round++) {
        check_reset(check);
        const size_t n = check_size(check, 1, MAX_N);
        const float  eps = 1e-5f;
        float       *x = check_array(check, n), *x0 = check_array(check, n), *y = check_array(check, n);
        float       *gamma = check_array(check, n), *beta = check_array(check, n);
        check_fill(check, x, n, 1);
        const float shift = (float)check_random(check, 4);
        for (size_t i = 0; i < n; i++)
            x0[i] = x[i] += shift;
        check_fill(check, gamma, n, 1);
        check_fill(check, beta, n, 1);
        if (check_random(check, 2))
            gamma = NULL;
        if (index == 1 || check_random(check, 2))
            beta = NULL;
        if (check_random(check, 2))
            y = x;
        float        got_mean, got_scale;
        const double mean  = index == 0 ? mean_of(x, n) : 0;
        const double scale = 1 / sqrt(square_mean(x, n, mean) + (double)eps);
        if (index == 0) {
            const bool stats = check_random(check, 2);
            check->kern->layer_norm(x, gamma, beta, y, n, eps, stats ? &got_mean : NULL, stats ? &got_scale : NULL);
            if (stats && (fabs((double)got_mean - mean) > 1e-6 * (1 + fabs(mean)) ||
                          fabs((double)got_scale - scale) > 2e-6 * scale * (1 + fabs(mean) * scale)))
                check_fail(check, "statistics %g %g, must be %g %g", (double)got_mean, (double)got_scale, mean, scale);
        } else {
            check->kern->rms_norm(x, gamma, y, n, eps);
        }
        for (size_t i = 0; i < n; i++) {
            const double h = ((double)x0[i] - mean) * scale, g = gamma ? (double)gamma[i] : 1, o = beta ? (double)beta[i] : 0;
            const double tolerance = 4e-7 * (1 + fabs(mean) * scale + fabs(h)) * fabs(g) + 1e-7 * fabs(o) + 1e-30;
            if (!(fabs((double)y[i] - (h * g + o)) <= tolerance))
                check_fail(check, "n %zu: y[%zu] is %.9g, must be %.9g", n, i, (double)y[i], h * g + o);
        }
        check_bands(check);
    }
}

/* index 0: softmax, 1: log_softmax */
static void run_softmax(checker *check, int index)
{
    for (int round = 0; round < 300 && !check->failed; round++) {
        check_reset(check);
        const size_t n = check_size(check, 0, MAX_N);
        float       *x = check_array(check, n), *x0 = check_array(check, n), *y = check_array(check, n);
        check_fill(check, x, n, check_random(check, 2) ? 1 : 30);
        const uint64_t kind = check_random(check, 8);
        for (size_t i = 0; i < n; i++) /* masked rows, wholly or in part; a NaN; an infinity */
            if (kind == 0 || (kind == 1 && check_random(check, 2)))
                x[i] = -INFINITY;
        if (n && kind == 2)
            x[check_random(check, n)] = NAN;
        if (n && kind == 3)
            x[check_random(check, n)] = INFINITY;
        if (n)
            memcpy(x0, x, n * sizeof *x);
        if (check_random(check, 2))
            y = x;
        double top = -INFINITY, sum = 0, total = 0;
        for (size_t i = 0; i < n; i++)
            top = isnan(x0[i]) || isnan(top) ? (double)NAN : fmax(top, (double)x0[i]);
        for (size_t i = 0; i < n; i++)
            sum += exp((double)x0[i] - top);
        (index == 0 ? check->kern->softmax : check->kern->log_softmax)(x, y, n);
        for (size_t i = 0; i < n; i++) {
            const double w   = index == 0 ? exp((double)x0[i] - top) / sum : (double)x0[i] - top - log(sum);
            const double tol = index == 0 ? 2.3e-7 : 2e-7 * (1 + fabs(w)); /* and half a unit of a float below 1 */
            if (isfinite(w) ? !(fabs((double)y[i] - w) <= tol) : !check_same(y[i], (float)w))
                check_fail(check, "n %zu: y[%zu] is %.9g, must be %.9g", n, i, (double)y[i], w);
            total += (double)y[i];
        }
        if (index == 0 && n && isfinite(sum) && !(fabs(total - 1) <= 1e-6))
            check_fail(check, "n %zu: the row sums to %.9g", n, total);
        check_bands(check);
    }
}

static void run_sum(checker *check, int index)
{
    (void)index;
    for (int round = 0; round < 300 && !check->failed; round++) {
        check_reset(check);
        const size_t n = check_size(check, 0, MAX_N);
        float       *x = check_array(check, n);
        check_fill(check, x, n, 1);
        double sum = 0, size = 0;
        for (size_t i = 0; i < n; i++) {
            sum += (double)x[i];
            size += fabs((double)x[i]);
        }
        const float got = check->kern->reduce_sum(x, n);
        if (!(fabs((double)got - sum) <= 1.5e-7 * size))
            check_fail(check, "n %zu: %.9g, must be %.9g", n, (double)got, sum);
        if (n) {
            x[check_random(check, n)] = INFINITY;
            if (check->kern->reduce_sum(x, n) != INFINITY)
                check_fail(check, "n %zu: an infinity is lost", n);
        }
    }
}

static void run_max(checker *check, int index)
{
    (void)index;
    for (int round = 0; round < 300 && !check->failed; round++) {
        check_reset(check);
        const size_t n = check_size(check, 1, MAX_N);
        float       *x = check_array(check, n);
        check_fill(check, x, n, 1);
        float top = -INFINITY;
        for (size_t i = 0; i < n; i++) {
            x[i] -= 5.0f;
            top = fmaxf(top, x[i]);
        }
        if (!check_same(check->kern->reduce_max(x, n), top))
            check_fail(check, "n %zu: %.9g, must be %.9g", n, (double)check->kern->reduce_max(x, n), (double)top);
        x[check_random(check, n)] = NAN;
        if (!isnan(check->kern->reduce_max(x, n)))
            check_fail(check, "n %zu: a NaN is lost", n);
        for (size_t i = 0; i < n; i++)
            x[i] = -INFINITY;
        if (check->kern->reduce_max(x, n) != -INFINITY)
            check_fail(check, "n %zu: -inf is lost", n);
    }
}

/* Halves or neighbours; angles for pairs or for elements; in place or not. */
static void run_turn(checker *check, int index)
{
    (void)index;
    for (int round = 0; round < 250 && !check->failed; round++) {
        check_reset(check);
        const size_t    n = check_size(check, 0, MAX_N / 2);
        const bool      neighbours = check_random(check, 2), whole = check_random(check, 2);
        const ptrdiff_t step = neighbours ? 2 : 1, gap = neighbours ? 1 : (ptrdiff_t)n;
        float          *x = check_array(check, 2 * n), *x0 = check_array(check, 2 * n), *y = check_array(check, 2 * n);
        float          *cos = check_array(check, whole ? 2 * n : n), *sin = check_array(check, whole ? 2 * n : n);
        check_fill(check, x, 2 * n, 1);
        check_fill(check, cos, whole ? 2 * n : n, 1);
        check_fill(check, sin, whole ? 2 * n : n, 1);
        memcpy(x0, x, 2 * n * sizeof *x);
        if (check_random(check, 2))
            y = x;
        const opf_turn t = {.n        = n,
                            .x        = x,
                            .cos      = cos,
                            .sin      = sin,
                            .y        = y,
                            .x_step   = step,
                            .x_gap    = gap,
                            .y_step   = step,
                            .y_gap    = gap,
                            .cos_step = whole ? step : 1,
                            .cos_gap  = whole ? gap : 0,
                            .sin_step = whole ? step : 1,
                            .sin_gap  = whole ? gap : 0};
        check->kern->turn(&t);
        for (ptrdiff_t k = 0; k < (ptrdiff_t)n; k++) {
            const double a = (double)x0[k * step], b = (double)x0[k * step + gap];
            const double c = (double)cos[k * t.cos_step], s = (double)sin[k * t.sin_step];
            const double c2 = (double)cos[k * t.cos_step + t.cos_gap], s2 = (double)sin[k * t.sin_step + t.sin_gap];
            const double got[] = {(double)y[k * step], (double)y[k * step + gap]};
            const double want[] = {a * c - b * s, b * c2 + a * s2}, size[] = {fabs(a * c) + fabs(b * s), fabs(b * c2) + fabs(a * s2)};
            for (int i = 0; i < 2; i++)
                if (!(fabs(got[i] - want[i]) <= 2e-7 * size[i]))
                    check_fail(check, "n %zu, pair %td: %.9g, must be %.9g", n, k, got[i], want[i]);
        }
        check_bands(check);
    }
}

static const check_slot slots[] = {
    {"layer_norm", offsetof(opf_kern, layer_norm), run_norm, 0},
    {"rms_norm", offsetof(opf_kern, rms_norm), run_norm, 1},
    {"softmax", offsetof(opf_kern, softmax), run_softmax, 0},
    {"log_softmax", offsetof(opf_kern, log_softmax), run_softmax, 1},
    {"turn", offsetof(opf_kern, turn), run_turn, 0},
    {"reduce_sum", offsetof(opf_kern, reduce_sum), run_sum, 0},
    {"reduce_max", offsetof(opf_kern, reduce_max), run_max, 0},
};
const check_family check_row_family = {slots, sizeof slots / sizeof *slots};
