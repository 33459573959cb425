/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of a convolution in groups of a few channels: groups of every size and number, any window, borders, lines left
   out, infinities that stay in their group. */
#include "lines.h"

enum { MAX_ROWS = 4, MAX_LINES = 2 };

typedef struct {
    opf_grouped g;
    size_t groups;
} job;

static void make_job(checker *check, job *j, const float **rows)
{
    opf_depthwise *d = &j->g.lines;
    const size_t most = check->kern->grouped_lanes / 2;
    j->g.in = 1 + check_random(check, most);
    j->g.out = 1 + check_random(check, most);
    j->groups = check_random(check, 20);
    d->rows = rows;
    d->lines = 1 + check_random(check, MAX_LINES);
    d->taps = 1 + check_random(check, 5);
    d->n_rows = check_random(check, MAX_ROWS + 1);
    d->stride = 1 + (int64_t)check_random(check, 3);
    d->step = 0;
    d->dilation = 1 + (int64_t)check_random(check, 3);
    draw_image(check, d, j->groups * j->g.in, j->groups * j->g.out);
    for (size_t r = 0; r < d->lines * d->n_rows; r++)
        rows[r] = check_random(check, 4) == 0 ? NULL : draw_row(check, d, 3);
}

/* Of filter f, tap t of all, channel k of its group. */
static size_t weight_at(const checker *check, const job *j, size_t f, size_t t, size_t k)
{
    const size_t lanes = check->kern->grouped_lanes, block = opf_grouped_block(j->g.in, j->g.out, lanes),
                 group = f / j->g.out;
    const size_t all = j->g.lines.n_rows * j->g.lines.taps;
    return ((group / block * all + t) * j->g.in + k) * lanes + group % block * j->g.out + f % j->g.out;
}

static void make_weights(checker *check, job *j)
{
    const size_t lanes = check->kern->grouped_lanes, block = opf_grouped_block(j->g.in, j->g.out, lanes);
    const size_t all = j->g.lines.n_rows * j->g.lines.taps,
                 size = (j->groups + block - 1) / block * all * j->g.in * lanes;
    float *w = check_array(check, size);
    for (size_t i = 0; i < size; i++)
        w[i] = 0;
    for (size_t f = 0; f < j->groups * j->g.out; f++)
        for (size_t t = 0; t < all; t++)
            for (size_t k = 0; k < j->g.in; k++)
                check_fill(check, &w[weight_at(check, j, f, t, k)], 1, 1);
    j->g.lines.w = w;
}

/* The exact element before the clamp, and the sum of the sizes of its terms. */
static double element(const checker *check, const job *j, size_t o, size_t p, size_t f, double *size)
{
    const opf_depthwise *d = &j->g.lines;
    double sum = d->bias ? (double)d->bias[f] : 0;
    *size = fabs(sum);
    for (size_t t = 0; t < d->n_rows * d->taps; t++) {
        const float *row = d->rows[o * d->n_rows + t / d->taps];
        const int64_t at = d->first + (int64_t)p * d->stride + (int64_t)(t % d->taps) * d->dilation;
        for (size_t k = 0; k < j->g.in && row != NULL && at >= 0 && at < d->in; k++) {
            const double term = (double)row[at * d->pixel + (ptrdiff_t)(f / j->g.out * j->g.in + k)] *
                                (double)d->w[weight_at(check, j, f, t, k)];
            sum += term;
            *size += fabs(term);
        }
    }
    return sum;
}

static void check_line(checker *check, const job *j, size_t o, const float *dst)
{
    const opf_depthwise *d = &j->g.lines;
    const size_t stride = (size_t)d->dst_pixel, filters = j->groups * j->g.out,
                 size = d->pixels == 0 ? 0 : (d->pixels - 1) * stride + filters;
    for (size_t i = 0; i < size; i++) {
        if (i % stride >= filters) {
            if (dst[i] != untouched)
                check_fail(check, "wrote between the pixels");
            continue;
        }
        double terms;
        const double sum = element(check, j, o, i / stride, i % stride, &terms);
        const double want = isnan(sum) ? sum : fmin(fmax(sum, (double)d->lo), (double)d->hi);
        if (isnan(want) ? !isnan(dst[i])
                        : !check_same(dst[i], (float)want) && !(fabs((double)dst[i] - want) <= (3e-7 + 4e-8 * sqrt((double)(d->n_rows * d->taps * j->g.in))) * terms))
            check_fail(check,
                       "line %zu of %zu, %zu lines of %zu taps, stride %d: pixel %zu of %zu, filter %zu of %zu groups "
                       "of %zu to %zu is %.9g, must be %.9g",
                       o, d->lines, d->n_rows, d->taps, (int)d->stride, i / stride, d->pixels, i % stride, j->groups,
                       j->g.in, j->g.out, (double)dst[i], want);
    }
}

static void run(checker *check, int index)
{
    (void)index;
    for (int round = 0; round < 400 && !check->failed; round++) {
        const float *rows[MAX_LINES * MAX_ROWS];
        job j;
        check_reset(check);
        make_job(check, &j, rows);
        make_weights(check, &j);
        opf_depthwise *d = &j.g.lines;
        make_result(check, d, j.groups * j.g.out);
        check->kern->grouped(&j.g);
        for (size_t o = 0; o < d->lines; o++)
            check_line(check, &j, o, d->dst + (ptrdiff_t)o * d->dst_line);
        check_bands(check);
    }
}

static const check_slot slots[] = {{"grouped", offsetof(opf_kern, grouped), run, 0}};
const check_family check_grouped_family = {slots, sizeof slots / sizeof *slots};
