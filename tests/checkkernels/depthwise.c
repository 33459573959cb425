/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of a depthwise convolution: every window with code of its own and others, borders on either side, lines left
 * out. */
#include "lines.h"

enum { MAX_ROWS = 7, MAX_LINES = OPF_DEPTHWISE_LINES };

static void make_lines(checker *check, opf_depthwise *d, const float **rows)
{
    const bool fixed = check_random(check, 4) != 0;
    d->rows = rows;
    d->lines = 1 + (size_t)check_random(check, check_random(check, 2) ? 3 : MAX_LINES);
    d->taps = fixed ? 3 + 2 * (size_t)check_random(check, 3) : 1 + (size_t)check_random(check, 9);
    d->n_rows = fixed && check_random(check, 8) != 0 ? d->taps : (size_t)check_random(check, MAX_ROWS + 1);
    d->stride = 1 + (int64_t)check_random(check, fixed ? 2 : 4);
    d->step = check_random(check, 4) != 0 ? (size_t)d->stride : (size_t)check_random(check, 3);
    d->dilation = fixed ? 1 : 1 + (int64_t)check_random(check, 3);
    const size_t channels = check_size(check, 0, 100);
    draw_image(check, d, channels, channels);
    for (size_t o = 0; o < d->lines; o++)
        for (size_t r = 0; r < d->n_rows; r++) {
            const bool shared = o > 0 && d->step > 0 && r + d->step < d->n_rows;
            rows[o * d->n_rows + r] = shared                        ? rows[(o - 1) * d->n_rows + r + d->step]
                                      : check_random(check, 4) == 0 ? NULL
                                                                    : draw_row(check, d, 16);
        }
    const size_t taps = d->n_rows * d->taps;
    d->w_tap = d->c + (check_random(check, 2) ? 0 : (size_t)check_random(check, 20));
    float *w = check_array(check, taps == 0 ? 0 : (taps - 1) * d->w_tap + d->c);
    check_fill(check, w, taps == 0 ? 0 : (taps - 1) * d->w_tap + d->c, 1);
    d->w = w;
}

static double ending(const opf_depthwise *d, double x)
{
    if (d->then == OPF_EW_SWISH)
        return x / (1 + exp(-(double)d->param * x));
    if (d->then == OPF_EW_HARD_SWISH)
        return x * fmin(fmax(x / 6 + 0.5, 0), 1);
    return isnan(x) ? x : fmin(fmax(x, (double)d->lo), (double)d->hi);
}

/* The exact element before the clamp, and the sum of the sizes of its terms. */
static double element(const opf_depthwise *d, size_t o, size_t p, size_t i, double *size)
{
    double sum = d->bias ? (double)d->bias[i] : 0;
    *size = fabs(sum);
    for (size_t r = 0; r < d->n_rows; r++)
        for (size_t t = 0; t < d->taps; t++) {
            const float *row = d->rows[o * d->n_rows + r];
            const int64_t at = d->first + (int64_t)p * d->stride + (int64_t)t * d->dilation;
            if (row == NULL || at < 0 || at >= d->in)
                continue;
            const double term = (double)row[at * d->pixel + (ptrdiff_t)i] * (double)d->w[(r * d->taps + t) * d->w_tap + i];
            sum += term;
            *size += fabs(term);
        }
    return sum;
}

static void check_line(checker *check, const opf_depthwise *d, size_t o, const float *dst)
{
    const size_t stride = (size_t)d->dst_pixel, size = d->pixels == 0 ? 0 : (d->pixels - 1) * stride + d->c;
    for (size_t i = 0; i < size; i++) {
        if (i % stride >= d->c) {
            if (dst[i] != untouched)
                check_fail(check, "wrote between the pixels");
            continue;
        }
        double terms;
        const double sum = element(d, o, i / stride, i % stride, &terms);
        const double want = ending(d, sum), bound = (d->then == OPF_EW_COPY ? 4e-7 : 1e-6) * fmax(terms, d->then == OPF_EW_COPY ? 0 : 1);
        if (isnan(want) ? !isnan(dst[i]) : !check_same(dst[i], (float)want) && !(fabs((double)dst[i] - want) <= bound))
            check_fail(check,
                       "line %zu of %zu, %zu lines of %zu taps, stride %d, step %zu: pixel %zu of %zu, channel %zu of "
                       "%zu is %.9g, must be %.9g",
                       o, d->lines, d->n_rows, d->taps, (int)d->stride, d->step, i / stride, d->pixels, i % stride,
                       d->c, (double)dst[i], want);
    }
}

static void run(checker *check, int index)
{
    (void)index;
    for (int round = 0; round < 600 && !check->failed; round++) {
        const float *rows[MAX_LINES * MAX_ROWS];
        opf_depthwise d;
        check_reset(check);
        make_lines(check, &d, rows);
        make_result(check, &d, d.c);
        const uint64_t then = check_random(check, 4);
        d.then = then == 0 ? OPF_EW_SWISH : then == 1 ? OPF_EW_HARD_SWISH : OPF_EW_COPY;
        d.param = check_random(check, 2) ? 1.0f : 1.702f;
        check->kern->depthwise(&d);
        for (size_t o = 0; o < d.lines; o++)
            check_line(check, &d, o, d.dst + (ptrdiff_t)o * d.dst_line);
        check_bands(check);
    }
}

static const check_slot slots[] = {{"depthwise", offsetof(opf_kern, depthwise), run, 0}};
const check_family check_depthwise_family = {slots, sizeof slots / sizeof *slots};
