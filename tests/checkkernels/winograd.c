/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tile of a 3x3 convolution through both transforms and the products of the level: within 2 D(9 c) of the size of its
 * terms in the mean and 16 D(9 c) at most, any part of it outside the image; what is not finite is refused.
 */
#include "check.h"

#include <math.h>
#include <string.h>

enum { MAX_NR = 32, MAX_C = 64, MAX_MR = 32, MAX_POINTS = OPF_WINOGRAD_WINDOW * OPF_WINOGRAD_WINDOW };

/* G g G^T, the transform of a filter, by Lagrange's weights of the points. */
static void transform_filter(int size, const float *g, double *u)
{
    static const double units[] = {1, -1};
    const double        roots[] = {sqrt(0.5), -sqrt(0.5), sqrt(2), -sqrt(2)}, *points = size == 2 ? units : roots;
    double              rows[OPF_WINOGRAD_WINDOW][3] = {{1, 0, 0}};
    const int           window = size + 2;
    for (int p = 0; p < size; p++)
        for (int k = 0; k < 3; k++)
            rows[1 + p][k] = pow(points[p], k) / (size == 2 ? 2 : p < 2 ? -1.5 : 6);
    rows[window - 1][2] = 1;
    for (int i = 0; i < window; i++)
        for (int j = 0; j < window; j++) {
            u[i * window + j] = 0;
            for (int a = 0; a < 3; a++)
                for (int b = 0; b < 3; b++)
                    u[i * window + j] += rows[i][a] * rows[j][b] * (double)g[a * 3 + b];
        }
}

typedef struct problem {
    size_t              c, cols, points;
    opf_winograd_input  in;
    opf_winograd_output out;
    float              *w; /* [cols][c][9] */
} problem;

static void make_problem(checker *check, problem *p)
{
    const size_t nr = check->kern->nr;
    memset(p, 0, sizeof *p);
    p->c    = 1 + (size_t)check_random(check, MAX_C);
    p->cols = check_random(check, 2) ? nr : 1 + (size_t)check_random(check, nr);
    p->w    = check_array(check, p->cols * p->c * 9);
    check_fill(check, p->w, p->cols * p->c * 9, 1);
    opf_winograd_input *in = &p->in;
    in->size = p->out.size = check_random(check, 2) ? 4 : 2;
    in->c                  = p->c;
    const int window       = in->size + 2;
    p->points              = (size_t)(window * window);
    in->bottom = in->right = window;
    if (check_random(check, 2)) {
        in->top    = (int)check_random(check, (uint64_t)window - 2);
        in->bottom = in->top + (int)check_random(check, (uint64_t)(window + 1 - in->top));
        in->left   = (int)check_random(check, (uint64_t)window - 2);
        in->right  = in->left + (int)check_random(check, (uint64_t)(window + 1 - in->left));
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

/* The products of every point, by the level's own kernel. */
static void multiply(checker *check, problem *p, float *m)
{
    const size_t nr = check->kern->nr;
    static _Alignas(64) float panels[MAX_POINTS][MAX_C * MAX_NR];
    memset(panels, 0, sizeof panels);
    for (size_t n = 0; n < p->cols; n++)
        for (size_t c = 0; c < p->c; c++) {
            double u[MAX_POINTS];
            transform_filter(p->in.size, p->w + (n * p->c + c) * 9, u);
            for (size_t k = 0; k < p->points; k++)
                panels[k][c * nr + n] = (float)u[k];
        }
    for (size_t k = 0; k < p->points; k++) {
        const float *rows[MAX_MR];
        for (size_t r = 0; r < check->kern->mr; r++)
            rows[r] = p->in.v + (ptrdiff_t)k * p->in.v_point;
        const opf_gemm_tile tile = {.a = rows, .taps = 1, .kc = p->c, .b = panels[k], .c = m + k * nr,
                                    .lo = -INFINITY, .hi = INFINITY};
        check->kern->gemm(&tile, 1, nr);
    }
}

static double element(const problem *p, size_t i, size_t j, size_t n, double *squares)
{
    double sum = 0;
    *squares   = 0;
    for (size_t c = 0; c < p->c; c++)
        for (size_t t = 0; t < 9; t++) {
            const double x = input_at(&p->in, (int)(i + t / 3), (int)(j + t % 3), c) * (double)p->w[(n * p->c + c) * 9 + t];
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
    double mean_sum = 0;
    int    mean_n   = 0;
    for (int round = 0; round < 120 && !check->failed; round++) {
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
        out->rows                = 1 + (size_t)check_random(check, (uint64_t)out->size);
        out->pixels              = 1 + (size_t)check_random(check, (uint64_t)out->size);
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

        const double d = 2e-8 * sqrt(9.0 * (double)p.c) + 1.5e-7;
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
            const float  want = clamp(element(&p, i, j, n, &squares) + more, out->lo, out->hi);
            const double err  = fabs((double)c[at] - (double)want), scale = 9.0 * (double)p.c; /* inputs and weights of unit variance */
            if (!(err <= 16 * d * sqrt(scale)))
                check_fail(check, "%zu channels, pixel %zu,%zu column %zu: %.9g, must be %.9g", p.c, i, j, n, (double)c[at], (double)want);
            error2 += err * err;
            scale2 += scale;
        }
        mean_sum += scale2 > 0 ? error2 / (scale2 * 4 * d * d) : 0;
        mean_n++;
        check_bands(check);
    }
    if (mean_sum > mean_n)
        check_fail(check, "the mean error is %.3f times 2 D", sqrt(mean_sum / mean_n));
}

static const check_slot slots[] = {
    {"winograd_input", offsetof(opf_kern, winograd_input), run, 0},
    {"winograd_output", offsetof(opf_kern, winograd_output), run, 0},
};
const check_family check_winograd_family = {slots, sizeof slots / sizeof *slots};
