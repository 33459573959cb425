/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tile of every form through both transforms and the products of the level: within 2 D(taps c) of the size of its terms in the
 * mean and 16 D(taps c) at most, any part of it outside the image; what is not finite is refused.
 */
#include "check.h"

#include <math.h>
#include <string.h>

enum { MAX_C = 64, MAX_MR = 32, FORMS = 7 };
static const struct {
    int points, axes, size;
} forms[FORMS] = {{6, 2, 4}, {4, 2, 2}, {6, 2, 2}, {6, 1, 4}, {4, 1, 2}, {6, 1, 2}, {8, 1, 2}};

/* G, by Lagrange's weights of the points. */
static void filter_matrix(int points, int taps, double *rows)
{
    double at[OPF_WINOGRAD_WINDOW] = {0};
    for (int p = 1; p < points - 1; p++)
        at[p] = (p % 2 ? 1 : -1) * (points == 4 ? 1 : points == 6 ? (p < 3 ? sqrt(0.5) : sqrt(2)) : p < 3 ? 0.5 : p < 5 ? 1 : 2);
    for (int p = 0; p < points; p++)
        for (int k = 0; k < taps; k++) {
            double weight = 1;
            for (int q = 0; q < points - 1; q++)
                weight *= p == 0 || q == p ? 1 : at[p] - at[q];
            rows[p * taps + k] = p == points - 1 ? k == taps - 1 : pow(at[p], k) / weight;
        }
}

typedef struct problem {
    size_t              c, cols, points, taps, form;
    int                 down, across; /* taps */
    opf_winograd_input  in;
    opf_winograd_output out;
    float              *w; /* [cols][c][taps] */
} problem;

static void make_problem(checker *check, problem *p)
{
    const size_t nr = check->kern->nr;
    memset(p, 0, sizeof *p);
    p->c    = 1 + (size_t)check_random(check, MAX_C);
    p->cols = check_random(check, 2) ? nr : 1 + (size_t)check_random(check, nr);
    opf_winograd_input *in = &p->in;
    p->form                = (size_t)check_random(check, FORMS);
    in->points = p->out.points = forms[p->form].points;
    in->axes = p->out.axes = forms[p->form].axes;
    p->out.size            = forms[p->form].size;
    in->c                  = p->c;
    const int height_all = in->points, width_all = in->axes == 2 ? in->points : 1;
    p->down              = in->points - p->out.size + 1;
    p->across            = in->axes == 2 ? p->down : 1;
    p->taps              = (size_t)(p->down * p->across);
    p->points            = (size_t)(height_all * width_all);
    p->w                 = check_array(check, p->cols * p->c * p->taps);
    check_fill(check, p->w, p->cols * p->c * p->taps, 1);
    in->bottom = height_all;
    in->right  = width_all;
    if (check_random(check, 2)) {
        in->top    = (int)check_random(check, (uint64_t)height_all - 2);
        in->bottom = in->top + (int)check_random(check, (uint64_t)(height_all + 1 - in->top));
        in->left   = (int)check_random(check, (uint64_t)(width_all + 1) / 2);
        in->right  = in->left + (int)check_random(check, (uint64_t)(width_all + 1 - in->left));
    }
    /* Only the pixels inside exist. */
    const ptrdiff_t height = in->bottom - in->top, width = in->right - in->left;
    in->pixel         = (ptrdiff_t)(p->c + check_random(check, 20));
    in->row           = width * in->pixel + (ptrdiff_t)check_random(check, 20);
    const bool   any  = height > 0 && width > 0;
    const size_t size = any ? (size_t)((height - 1) * in->row + (width - 1) * in->pixel) + p->c : 0;
    float       *x    = check_array(check, size);
    check_fill(check, x, size, 1);
    in->x       = any ? x - in->top * in->row - in->left * in->pixel : x;
    in->v_point = (ptrdiff_t)((p->c + 15) / 16 * 16 + (check_random(check, 2) ? 0 : 16));
    in->v       = check_array(check, (size_t)in->v_point * p->points);
}

static double input_at(const opf_winograd_input *in, int i, int j, size_t c)
{
    if (i < in->top || i >= in->bottom || j < in->left || j >= in->right)
        return 0;
    return (double)in->x[i * in->row + j * in->pixel + (ptrdiff_t)c];
}

/* The filters as panels [points][c][nr], which the level transforms from [taps][c][nr]. */
static float *make_panels(checker *check, const problem *p)
{
    static const double one = 1;
    const size_t        nr = check->kern->nr, n = p->c * nr;
    double              g[OPF_WINOGRAD_WINDOW * OPF_WINOGRAD_WINDOW];
    float              *taps = check_array(check, p->taps * n), *panels = check_array(check, p->points * n);
    const bool          lies = p->in.axes == 1 && check_random(check, 2); /* the one axis is any of the two */
    const int           points = p->in.points;
    filter_matrix(points, p->down, g);
    memset(taps, 0, p->taps * n * sizeof *taps);
    for (size_t col = 0; col < p->cols; col++)
        for (size_t c = 0; c < p->c; c++)
            for (size_t t = 0; t < p->taps; t++)
                taps[t * n + c * nr + col] = p->w[(col * p->c + c) * p->taps + t];
    const opf_winograd_filters filters = {.points  = {lies ? 1 : points, lies || p->in.axes == 2 ? points : 1},
                                          .taps    = {lies ? 1 : p->down, lies ? p->down : p->across},
                                          .g       = {lies ? &one : g, lies || p->in.axes == 2 ? g : &one},
                                          .w       = taps,
                                          .w_tap   = (ptrdiff_t)n,
                                          .u       = panels,
                                          .u_point = (ptrdiff_t)n,
                                          .n       = n};
    check->kern->winograd_filters(&filters);
    return panels;
}

/* The products of every point, by the level's own kernel. */
static void multiply(checker *check, problem *p, float *m)
{
    const size_t nr = check->kern->nr;
    const float *panels = make_panels(check, p);
    for (size_t k = 0; k < p->points; k++) {
        const float *a[MAX_MR];
        for (size_t r = 0; r < check->kern->mr; r++)
            a[r] = p->in.v + (ptrdiff_t)k * p->in.v_point;
        const opf_gemm_tile tile = {.a = a, .taps = 1, .kc = p->c, .b = panels + k * p->c * nr, .c = m + k * nr,
                                    .lo = -INFINITY, .hi = INFINITY};
        check->kern->gemm(&tile, 1, nr);
    }
}

static double element(const problem *p, size_t i, size_t j, size_t n, double *squares)
{
    double sum = 0;
    *squares   = 0;
    for (size_t c = 0; c < p->c; c++)
        for (size_t t = 0; t < p->taps; t++) {
            const size_t y = i + t / (size_t)p->across, left = j + t % (size_t)p->across;
            const double x = input_at(&p->in, (int)y, (int)left, c) * (double)p->w[(n * p->c + c) * p->taps + t];
            sum += x;
            *squares += x * x;
        }
    return sum;
}

static float clamp(double x, float lo, float hi)
{
    return x < (double)lo ? lo : x > (double)hi ? hi : (float)x;
}

static void run(checker *check, int index)
{
    (void)index;
    double mean_sum[FORMS] = {0};
    int    mean_n[FORMS]   = {0};
    for (int round = 0; round < 60 * FORMS && !check->failed; round++) {
        problem p;
        check_reset(check);
        make_problem(check, &p);
        const size_t nr     = check->kern->nr;
        const bool   broken = check_random(check, 8) == 0;
        float       *m = check_array(check, p.points * nr), *bias = check_array(check, nr);
        check_fill(check, bias, nr, 1);
        check->kern->winograd_input(&p.in);
        multiply(check, &p, m);
        if (broken)
            check_spoil(check, &m[check_random(check, p.points) * nr], p.cols);

        opf_winograd_output *out = &p.out;
        out->m                   = m;
        out->m_point             = (ptrdiff_t)nr;
        out->bias                = check_random(check, 2) ? bias : NULL;
        const bool lies          = out->axes == 1 && check_random(check, 2); /* the one axis: in the result any of the two */
        out->rows                = lies ? 1 : 1 + (size_t)check_random(check, (uint64_t)out->size);
        out->pixels              = out->axes == 1 && !lies ? 1 : 1 + (size_t)check_random(check, (uint64_t)out->size);
        out->cols                = p.cols;
        out->pixel               = (ptrdiff_t)(p.cols + check_random(check, 10));
        out->row                 = (ptrdiff_t)out->pixels * out->pixel;
        out->lo                  = check_random(check, 2) ? 0.0f : -INFINITY;
        out->hi                  = check_random(check, 2) ? 6.0f : INFINITY;
        const size_t size        = (out->rows - 1) * (size_t)out->row + (out->pixels - 1) * (size_t)out->pixel + p.cols;
        float       *residual = check_array(check, size), *c = check_array(check, size), *before = check_array(check, size);
        check_fill(check, residual, size, 1);
        check_fill(check, c, size, 1);
        memcpy(before, c, size * sizeof *c);
        const int kind = (int)check_random(check, 3); /* residual: none, c itself, another */
        out->c         = c;
        out->residual  = kind == 0 ? NULL : kind == 1 ? c : residual;
        out->residual_row   = out->row;
        out->residual_pixel = out->pixel;
        const bool stored   = check->kern->winograd_output(out);
        if (!stored && (!broken || memcmp(c, before, size * sizeof *c) != 0))
            check_fail(check, broken ? "stored a tile that it refused" : "refused a finite tile");
        if (stored && broken)
            check_fail(check, "stored a tile that is not finite");

        const double d = 2e-8 * sqrt((double)(p.taps * p.c)) + 1.5e-7, scale = (double)(p.taps * p.c); /* inputs and weights of unit variance */
        double       error2 = 0, scale2 = 0;
        for (size_t at = 0; stored && at < size; at++) {
            const size_t i = at / (size_t)out->row, j = at % (size_t)out->row / (size_t)out->pixel, n = at % (size_t)out->pixel;
            if (n >= p.cols) {
                if (memcmp(&c[at], &before[at], sizeof *c) != 0)
                    check_fail(check, "wrote between the pixels");
                continue;
            }
            double       squares;
            const double more = (out->bias ? (double)bias[n] : 0) + (kind == 0 ? 0 : (double)(kind == 1 ? before : residual)[at]);
            const float  want = clamp(element(&p, lies ? j : i, lies ? 0 : j, n, &squares) + more, out->lo, out->hi);
            const double err  = fabs((double)c[at] - (double)want);
            if (!(err <= 16 * d * sqrt(scale)))
                check_fail(check, "form %zu, %zu channels, pixel %zu,%zu column %zu: %.9g, must be %.9g", p.form, p.c, i, j, n, (double)c[at], (double)want);
            error2 += err * err;
            scale2 += scale;
        }
        mean_sum[p.form] += scale2 > 0 ? error2 / (scale2 * 4 * d * d) : 0;
        mean_n[p.form]++;
        check_bands(check);
    }
    for (size_t f = 0; f < FORMS; f++)
        if (mean_sum[f] > mean_n[f])
            check_fail(check, "form %zu: the mean error is %.3f times 2 D", f, sqrt(mean_sum[f] / mean_n[f]));
}

static const check_slot slots[] = {
    {"winograd_filters", offsetof(opf_kern, winograd_filters), run, 0},
    {"winograd_input", offsetof(opf_kern, winograd_input), run, 0},
    {"winograd_output", offsetof(opf_kern, winograd_output), run, 0},
};
const check_family check_winograd_family = {slots, sizeof slots / sizeof *slots};
