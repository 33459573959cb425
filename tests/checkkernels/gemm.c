/* SPDX-License-Identifier: Apache-2.0 */
/* The product of a tile: D(K) = 2e-8 sqrt(K) + 1.5e-7 of the size of its terms in the mean, 8 D(K) at most. */
#include "check.h"

#include <math.h>
#include <string.h>

enum { MAX_MR = 32, MAX_TAPS = 9 };

typedef struct problem {
    size_t       rows, cols, taps, kc;
    const float *a[MAX_MR * MAX_TAPS];
    const float *line; /* or NULL: then a */
    uint32_t     offsets[256];
    size_t       step;
    const float *b, *bias, *residual;
    ptrdiff_t    residual_stride;
    float        lo, hi;
} problem;

static float clamp(float x, float lo, float hi)
{
    x = x < lo ? lo : x;
    return x > hi ? hi : x;
}

/* The exact element before the clamp, and the sum of the squares of its terms. */
static double element(const checker *check, const problem *p, size_t r, size_t n, double *squares)
{
    const size_t mr = check->kern->mr, nr = check->kern->nr;
    const double bias = p->bias ? (double)p->bias[n] : 0;
    const double residual = p->residual ? (double)p->residual[(ptrdiff_t)r * p->residual_stride + (ptrdiff_t)n] : 0;
    double       sum = bias + residual;
    *squares         = bias * bias + residual * residual;
    for (size_t t = 0; t < p->taps; t++)
        for (size_t k = 0; k < p->kc; k++) {
            const float  a = p->line ? p->line[p->offsets[k] + r * p->step] : p->a[t * mr + r][k];
            const double x = (double)a * (double)p->b[(t * p->kc + k) * nr + n];
            sum += x;
            *squares += x * x;
        }
    return sum;
}

/* Rows on one line; elements of a row anywhere on it. */
static void make_line(checker *check, problem *p)
{
    p->step           = 1 + (size_t)check_random(check, 2);
    const size_t span = (p->rows - 1) * p->step + 1, size = span + (size_t)check_random(check, 300);
    float       *line = check_array(check, size);
    check_fill(check, line, size, 1);
    p->taps = 1;
    p->line = line;
    for (size_t k = 0; k < p->kc; k++)
        p->offsets[k] = (uint32_t)check_random(check, size - span + 1);
}

static void make_problem(checker *check, problem *p, bool lines)
{
    static const size_t depths[] = {0, 1, 2, 3, 7, 15, 16, 17, 33, 64, 200};
    const size_t        mr = check->kern->mr, nr = check->kern->nr;
    p->rows = 1 + check_random(check, mr);
    p->cols = check_random(check, 3) ? nr - check_random(check, nr) : nr;
    p->line = NULL;
    p->taps = lines || check_random(check, 2) ? 1 : 1 + check_random(check, MAX_TAPS);
    p->kc   = depths[check_random(check, p->taps == 1 ? 11 : 8)];
    if (lines)
        make_line(check, p);
    for (size_t t = 0; t < p->taps && !lines; t++)
        for (size_t r = 0; r < mr; r++)
            if (r >= p->rows) {
                p->a[t * mr + r] = p->a[t * mr];
            } else if (t > 0 && check_random(check, 4) == 0) {
                p->a[t * mr + r] = p->a[check_random(check, t) * mr + r]; /* taps may share rows */
            } else if (check->n_buffers < 40) {
                float *row = check_array(check, p->kc);
                check_fill(check, row, p->kc, 1);
                p->a[t * mr + r] = row;
            } else {
                p->a[t * mr + r] = p->a[r];
            }
    const size_t size = (p->taps * p->kc * nr + 15) / 16 * 16; /* so that the panel is aligned at either end */
    float       *b    = check_array(check, size);
    check_fill(check, b, size, 1);
    p->b    = b;
    p->bias = NULL;
    if (check_random(check, 2)) {
        float *bias = check_array(check, nr);
        check_fill(check, bias, nr, 1);
        p->bias = bias;
    }
    const bool relu = check_random(check, 2);
    p->lo           = relu ? 0.0f : -INFINITY;
    p->hi           = relu && check_random(check, 2) ? 6.0f : INFINITY;
}

static opf_gemm_tile tile_of(const problem *p, float *c, ptrdiff_t c_stride)
{
    return (opf_gemm_tile){.a = p->a, .taps = p->taps, .kc = p->kc, .b = p->b, .bias = p->bias, .c = c, .c_stride = c_stride,
                           .residual = p->residual, .residual_stride = p->residual_stride, .lo = p->lo, .hi = p->hi,
                           .line = p->line, .offsets = p->offsets, .step = p->step};
}

static void run(checker *check, int index)
{
    const bool        lines = index == 1;
    const opf_gemm_fn gemm  = lines ? check->kern->gemm_lines : check->kern->gemm;
    static float before[MAX_MR * 128];
    const size_t mr = check->kern->mr, nr = check->kern->nr;
    double       mean_sum = 0;
    int          mean_n   = 0;
    for (int round = 0; round < 400 && !check->failed; round++) {
        problem p;
        check_reset(check);
        make_problem(check, &p, lines);
        const size_t stride = p.cols + (check_random(check, 2) ? 0 : check_random(check, 40));
        const size_t size   = (p.rows - 1) * stride + p.cols;
        float       *c      = check_array(check, size);
        const int    kind   = (int)check_random(check, 3); /* residual: none, c itself, another */
        p.residual          = NULL;
        p.residual_stride   = 0;
        if (kind == 1)
            for (size_t r = 0; r < p.rows; r++)
                check_fill(check, c + r * stride, p.cols, 1);
        if (kind == 2) {
            float *residual = check_array(check, size);
            for (size_t r = 0; r < p.rows; r++)
                check_fill(check, residual + r * stride, p.cols, 1);
            p.residual        = residual;
            p.residual_stride = (ptrdiff_t)stride;
        }
        memcpy(before, c, size * sizeof *c);
        opf_gemm_tile tile = tile_of(&p, c, (ptrdiff_t)stride);
        if (kind == 1) {
            tile.residual        = c;
            tile.residual_stride = (ptrdiff_t)stride;
            p.residual           = before;
            p.residual_stride    = (ptrdiff_t)stride;
        }
        tile.next_b = check_random(check, 2) ? p.b : NULL;
        gemm(&tile, p.rows, p.cols);

        const double d     = 2e-8 * sqrt((double)(p.taps * p.kc)) + 1.5e-7;
        double       worst = 0, error2 = 0, scale2 = 0;
        for (size_t r = 0; r < p.rows; r++)
            for (size_t n = 0; n < stride && r * stride + n < size; n++) {
                const float got = c[r * stride + n];
                if (n >= p.cols) {
                    if (memcmp(&got, &before[r * stride + n], sizeof got) != 0)
                        check_fail(check, "wrote between the rows");
                    continue;
                }
                double       squares;
                const double w   = element(check, &p, r, n, &squares);
                const double err = fabs((double)got - (double)clamp((float)w, p.lo, p.hi));
                worst            = fmax(worst, isnan(err) ? INFINITY : err / sqrt(squares + 1e-30));
                error2 += err * err;
                scale2 += squares;
            }
        mean_sum += scale2 > 0 ? error2 / (scale2 * d * d) : 0;
        mean_n++;
        if (worst > 8 * d)
            check_fail(check, "%zux%zu, %zu taps of %zu: error %.3g, allowed %.3g", p.rows, p.cols, p.taps, p.kc, worst, 8 * d);
        /* A row alone gives the same bits as the row in its tile. */
        const size_t lone = check_random(check, p.rows);
        float       *row  = check_array(check, p.cols);
        problem      q    = p;
        if (lines)
            q.line += lone * p.step;
        for (size_t t = 0; t < p.taps && !lines; t++)
            for (size_t r = 0; r < mr; r++)
                q.a[t * mr + r] = p.a[t * mr + lone];
        if (q.residual)
            q.residual += lone * stride;
        tile = tile_of(&q, row, (ptrdiff_t)nr);
        gemm(&tile, 1, p.cols);
        if (memcmp(row, c + lone * stride, p.cols * sizeof *row) != 0)
            check_fail(check, "row %zu of %zu differs from itself alone", lone, p.rows);
        check_bands(check);
    }
    if (mean_sum > mean_n)
        check_fail(check, "the mean error is %.3f D(K)", sqrt(mean_sum / mean_n));
}

/* Row r of a strip's result has in each panel the bits that it has alone; row: where it is, by tap; alone: nr floats. */
static void compare_alone(checker *check, const problem *p, const opf_gemm_strip *strip, size_t r, const float *const *row, size_t cols, float *alone)
{
    const size_t mr = check->kern->mr, nr = check->kern->nr;
    problem      q  = *p;
    for (size_t t = 0; t < p->taps; t++)
        for (size_t i = 0; i < mr; i++)
            q.a[t * mr + i] = row[t];
    for (size_t n = 0; n < cols; n += nr) {
        const size_t left = cols - n < nr ? cols - n : nr;
        q.b        = p->b + n / nr * strip->b_panel;
        q.bias     = p->bias == NULL ? NULL : p->bias + n;
        q.residual = p->residual == NULL ? NULL : p->residual + (ptrdiff_t)r * p->residual_stride + n;
        const opf_gemm_tile tile = tile_of(&q, alone, (ptrdiff_t)nr);
        check->kern->gemm(&tile, 1, left);
        check->kern->ew[strip->then](alone, alone, NULL, left, &strip->param);
        if (memcmp(alone, strip->tile.c + (ptrdiff_t)r * strip->tile.c_stride + n, left * sizeof *alone) != 0)
            check_fail(check, "%zu taps of %zu: row %zu differs from itself alone in panel %zu", p->taps, p->kc, r, n / nr);
    }
}

/* Several panels at once give the bits that each gives alone, and nothing beyond the last column. */
static void run_panels(checker *check, int index)
{
    (void)index;
    const size_t mr = check->kern->mr, nr = check->kern->nr;
    for (int round = 0; round < 400 && !check->failed; round++) {
        problem p;
        check_reset(check);
        make_problem(check, &p, false);
        p.rows              = 1 + check_random(check, mr / 2);
        const size_t most   = mr / p.rows < OPF_GEMM_PANELS ? mr / p.rows : OPF_GEMM_PANELS, panels = 2 + check_random(check, most - 1);
        const size_t panel  = (p.taps * p.kc * nr + 15) / 16 * 16, apart = panel + check_random(check, 2) * 16;
        const size_t cols   = panels * nr - (check_random(check, 2) ? 0 : check_random(check, nr)), stride = cols + check_random(check, 5);
        float       *b      = check_array(check, (panels - 1) * apart + panel), *bias = check_array(check, panels * nr);
        float       *c      = check_array(check, (p.rows - 1) * stride + cols), *alone = check_array(check, nr);
        float       *residual = check_array(check, (p.rows - 1) * stride + cols);
        check_fill(check, b, (panels - 1) * apart + panel, 1);
        check_fill(check, bias, panels * nr, 1);
        check_fill(check, residual, (p.rows - 1) * stride + cols, 1);
        p.b                = b;
        p.bias             = check_random(check, 2) ? bias : NULL;
        p.residual         = check_random(check, 2) ? residual : NULL;
        p.residual_stride  = (ptrdiff_t)stride;
        const opf_gemm_strip strip = {.tile = tile_of(&p, c, (ptrdiff_t)stride), .b_panel = apart};
        check->kern->gemm_panels(&strip, p.rows, cols);
        for (size_t r = 0; r < p.rows; r++) {
            const float *row[MAX_TAPS];
            for (size_t t = 0; t < p.taps; t++)
                row[t] = p.a[t * mr + r];
            compare_alone(check, &p, &strip, r, row, cols, alone);
        }
        check_bands(check);
    }
}

/* Tiles below one another and panels side by side give the bits that each row gives alone. */
static void run_strip(checker *check, int index)
{
    (void)index;
    static const size_t depths[] = {0, 1, 2, 7, 16, 17, 33, 255, 256, 257, 300, 512, 700};
    const size_t        mr = check->kern->mr, nr = check->kern->nr;
    for (int round = 0; round < 300 && !check->failed; round++) {
        const size_t kc = depths[check_random(check, 13)], rows = 1 + check_random(check, mr), tiles = check_random(check, 4), all = rows * tiles;
        const bool   bare = check_random(check, 3) == 0;
        const size_t panels = bare ? 1 : 1 + check_random(check, 3), panel = (kc * nr + 15) / 16 * 16, apart = panel + check_random(check, 2) * 16;
        const size_t cols = bare ? nr / (1 + check_random(check, 2)) : panels * nr - check_random(check, nr);
        const size_t stride = bare ? nr : cols + check_random(check, 5);
        const size_t apart_k = bare ? 1 : 1 + check_random(check, 2), span = kc == 0 ? 0 : (kc - 1) * apart_k + 1;
        const size_t a_row = check_random(check, 4) ? kc * apart_k + check_random(check, 2) * check_random(check, 40) : 0;
        const size_t c_size = all == 0 ? 0 : (all - 1) * stride + cols;
        check_reset(check);
        float *a = check_array(check, all == 0 ? 0 : (all - 1) * a_row + span), *b = check_array(check, (panels - 1) * apart + panel);
        float *bias = check_array(check, panels * nr), *c = check_array(check, c_size), *residual = check_array(check, c_size);
        float *alone = check_array(check, nr), *row = check_array(check, kc);
        check_fill(check, a, all == 0 ? 0 : (all - 1) * a_row + span, 1);
        check_fill(check, b, (panels - 1) * apart + panel, 1);
        check_fill(check, bias, panels * nr, 1);
        check_fill(check, residual, c_size, 1);
        problem p = {.taps = 1, .kc = kc, .rows = rows, .cols = cols, .b = b, .bias = !bare && check_random(check, 2) ? bias : NULL,
                     .residual = !bare && check_random(check, 2) ? residual : NULL, .residual_stride = (ptrdiff_t)stride,
                     .lo = !bare && check_random(check, 2) ? -0.5f : -INFINITY, .hi = !bare && check_random(check, 2) ? 2.0f : INFINITY};
        opf_gemm_strip strip = {.tile = tile_of(&p, c, (ptrdiff_t)stride), .a = a, .a_row = (ptrdiff_t)a_row, .tiles = tiles,
                                .every_other = apart_k == 2, .bare = bare, .fetches_rows = check_random(check, 2)};
        static const opf_ew ends[] = {OPF_EW_COPY, OPF_EW_SWISH, OPF_EW_HARD_SWISH};
        strip.b_panel = apart;
        strip.then    = ends[bare || apart_k == 2 ? 0 : check_random(check, 3)];
        strip.param   = 1.25f;
        if (strip.then != OPF_EW_COPY) { /* instead of the clamp */
            p.lo = -INFINITY;
            p.hi = INFINITY;
        }
        if (check_random(check, 2))
            strip.next_b_step = opf_gemm_fetch(&strip.tile, b, kc, nr, tiles == 0 ? 1 : tiles);
        check->kern->gemm_strip(&strip, rows, cols);
        for (size_t r = 0; r < all; r++) {
            for (size_t k = 0; k < kc; k++)
                row[k] = a[r * a_row + k * apart_k];
            compare_alone(check, &p, &strip, r, &(const float *){row}, cols, alone);
        }
        check_bands(check);
    }
}

/* NaN and infinity stay in their row and pass the clamp. */
static void run_special(checker *check, int index)
{
    (void)index;
    const size_t mr = check->kern->mr, nr = check->kern->nr;
    for (size_t bad = 0; bad < mr && !check->failed; bad++)
        for (int kind = 0; kind < 3; kind++) {
            enum { K = 5 };
            check_reset(check);
            problem p = {.rows = mr, .cols = nr, .taps = 1, .kc = K, .lo = 0.0f, .hi = 6.0f};
            for (size_t r = 0; r < mr; r++) {
                float *row = check_array(check, K);
                for (size_t k = 0; k < K; k++)
                    row[k] = 1.0f;
                if (r == bad)
                    row[check_random(check, K)] = kind == 0 ? NAN : kind == 1 ? INFINITY : -INFINITY;
                p.a[r] = row;
            }
            float *b = check_array(check, (K * nr + 15) / 16 * 16), *c = check_array(check, mr * nr);
            for (size_t i = 0; i < K * nr; i++)
                b[i] = 0.125f;
            p.b                      = b;
            const opf_gemm_tile tile = tile_of(&p, c, (ptrdiff_t)nr);
            check->kern->gemm(&tile, mr, nr);
            for (size_t i = 0; i < mr * nr; i++) {
                const float w = i / nr != bad ? 0.625f : kind == 0 ? NAN : kind == 1 ? 6.0f : 0.0f;
                if (!check_same(c[i], w))
                    check_fail(check, "element %zu is %g, must be %g", i, (double)c[i], (double)w);
            }
        }
}

static const check_slot slots[] = {
    {"gemm", offsetof(opf_kern, gemm), run, 0},
    {"gemm_lines", offsetof(opf_kern, gemm_lines), run, 1},
    {"gemm_strip", offsetof(opf_kern, gemm_strip), run_strip, 0},
    {"gemm_panels", offsetof(opf_kern, gemm_panels), run_panels, 0},
    {"gemm, not finite", offsetof(opf_kern, gemm), run_special, 0},
};
const check_family check_gemm_family = {slots, sizeof slots / sizeof *slots};
