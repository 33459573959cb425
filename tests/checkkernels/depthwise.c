/* SPDX-License-Identifier: Apache-2.0 */
/* A line of a depthwise convolution: every window with code of its own and others, borders on either side, lines left out. */
#include "check.h"

#include <math.h>

enum { MAX_ROWS = 7 };

static void make_line(checker *check, opf_depthwise_line *line, const float **rows, const float **w)
{
    const bool fixed = check_random(check, 4) != 0;
    line->rows       = rows;
    line->w          = w;
    line->n_rows     = (size_t)check_random(check, MAX_ROWS + 1);
    line->taps       = fixed ? 3 + 2 * (size_t)check_random(check, 3) : 1 + (size_t)check_random(check, 9);
    line->stride     = 1 + (int64_t)check_random(check, fixed ? 2 : 4);
    line->dilation   = fixed ? 1 : 1 + (int64_t)check_random(check, 3);
    line->in         = (int64_t)check_random(check, 40);
    line->pixels     = (size_t)check_random(check, 36);
    line->first      = -(int64_t)check_random(check, 8) + (check_random(check, 8) == 0 ? 30 - (int64_t)check_random(check, 60) : 0);
    line->c          = check_size(check, 0, 100);
    line->pixel      = (ptrdiff_t)(line->c + check_random(check, 9));
    line->dst_pixel  = (ptrdiff_t)(line->c + (check_random(check, 2) ? 0 : check_random(check, 20)));
    line->lo         = check_random(check, 2) ? 0.0f : -INFINITY;
    line->hi         = check_random(check, 2) ? 1.0f : INFINITY;
    const size_t size = line->in == 0 ? 0 : (size_t)(line->in - 1) * (size_t)line->pixel + line->c;
    for (size_t r = 0; r < line->n_rows; r++) {
        float *x = check_array(check, size), *filter = check_array(check, line->taps * line->c);
        check_fill(check, x, size, 1);
        check_fill(check, filter, line->taps * line->c, 1);
        if (size != 0 && check_random(check, 8) == 0)
            x[check_random(check, size)] = check_random(check, 2) ? NAN : INFINITY;
        rows[r] = x;
        w[r]    = filter;
    }
    float *bias = check_array(check, line->c);
    check_fill(check, bias, line->c, 1);
    line->bias = check_random(check, 2) ? bias : NULL;
}

/* The exact element before the clamp, and the sum of the sizes of its terms. */
static double element(const opf_depthwise_line *line, size_t p, size_t i, double *size)
{
    double sum = line->bias ? (double)line->bias[i] : 0;
    *size      = fabs(sum);
    for (size_t r = 0; r < line->n_rows; r++)
        for (size_t t = 0; t < line->taps; t++) {
            const int64_t at = line->first + (int64_t)p * line->stride + (int64_t)t * line->dilation;
            if (at < 0 || at >= line->in)
                continue;
            const double term = (double)line->rows[r][at * line->pixel + (ptrdiff_t)i] * (double)line->w[r][t * line->c + i];
            sum += term;
            *size += fabs(term);
        }
    return sum;
}

static void run(checker *check, int index)
{
    (void)index;
    for (int round = 0; round < 600 && !check->failed; round++) {
        const float       *rows[MAX_ROWS], *w[MAX_ROWS];
        opf_depthwise_line line;
        check_reset(check);
        make_line(check, &line, rows, w);
        const size_t stride = (size_t)line.dst_pixel, size = line.pixels == 0 ? 0 : (line.pixels - 1) * stride + line.c;
        float       *dst = check_array(check, size);
        for (size_t i = 0; i < size; i++)
            dst[i] = -7.0f; /* below every clamp */
        line.dst = dst;
        check->kern->depthwise(&line);
        for (size_t i = 0; i < size; i++) {
            if (i % stride >= line.c) {
                if (dst[i] != -7.0f)
                    check_fail(check, "wrote between the pixels");
                continue;
            }
            double       terms;
            const double sum = element(&line, i / stride, i % stride, &terms);
            const double want = isnan(sum) ? sum : fmin(fmax(sum, (double)line.lo), (double)line.hi);
            if (isnan(want) ? !isnan(dst[i]) : !check_same(dst[i], (float)want) && !(fabs((double)dst[i] - want) <= 4e-7 * terms))
                check_fail(check, "%zu lines of %zu taps, stride %d: pixel %zu of %zu, channel %zu of %zu is %.9g, must be %.9g",
                           line.n_rows, line.taps, (int)line.stride, i / stride, line.pixels, i % stride, line.c, (double)dst[i], want);
        }
        check_bands(check);
    }
}

static const check_slot slots[] = {{"depthwise", offsetof(opf_kern, depthwise), run, 0}};
const check_family check_depthwise_family = {slots, sizeof slots / sizeof *slots};
