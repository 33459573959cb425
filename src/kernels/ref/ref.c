/* SPDX-License-Identifier: Apache-2.0 */
/* The scalar entry of each slot that is not elementwise: what the slot means, with sums of rows in double. */
#include "kernels/level.h"

#include <math.h>
#include <stdbool.h>

enum { MR = 4, NR = 8 };

static float clamp(float x, float lo, float hi) /* NaN passes */
{
    x = x < lo ? lo : x;
    return x > hi ? hi : x;
}

/* apart: floats from one element of a row to the next */
static void multiply(const opf_gemm_tile *tile, size_t rows, size_t cols, bool lines, size_t apart)
{
    float acc[MR][NR];
    for (size_t r = 0; r < rows; r++)
        for (size_t n = 0; n < NR; n++)
            acc[r][n] = tile->bias ? tile->bias[n] : 0.0f;
    for (size_t t = 0; t < tile->taps; t++)
        for (size_t k = 0; k < tile->kc; k++)
            for (size_t r = 0; r < rows; r++) {
                const float  x = lines ? tile->line[tile->offsets[k] + r * tile->step] : tile->a[t * MR + r][k * apart];
                const float *b = tile->b + (t * tile->kc + k) * NR;
                for (size_t n = 0; n < NR; n++)
                    acc[r][n] += x * b[n];
            }
    for (size_t r = 0; r < rows; r++) {
        float       *c        = tile->c + (ptrdiff_t)r * tile->c_stride;
        const float *residual = tile->residual ? tile->residual + (ptrdiff_t)r * tile->residual_stride : NULL;
        for (size_t n = 0; n < cols; n++)
            c[n] = clamp(residual ? acc[r][n] + residual[n] : acc[r][n], tile->lo, tile->hi);
    }
}

static void gemm_f32_4x8(const opf_gemm_tile *tile, size_t rows, size_t cols)
{
    multiply(tile, rows, cols, false, 1);
}

static void gemm_lines(const opf_gemm_tile *tile, size_t rows, size_t cols)
{
    multiply(tile, rows, cols, true, 1);
}

static void gemm_panels(const opf_gemm_strip *strip, size_t rows, size_t cols)
{
    opf_gemm_tile panel = strip->tile;
    for (size_t n = 0; n < cols; n += NR) {
        multiply(&panel, rows, cols - n < NR ? cols - n : NR, false, strip->every_other ? 2 : 1);
        panel.b += strip->b_panel;
        panel.c += NR;
        panel.bias     = panel.bias == NULL ? NULL : panel.bias + NR;
        panel.residual = panel.residual == NULL ? NULL : panel.residual + NR;
    }
}

static void gemm_strip(const opf_gemm_strip *s, size_t rows, size_t cols)
{
    opf_gemm_strip strip = *s;
    const float   *a[MR];
    strip.tile.a = a;
    if (s->then != OPF_EW_COPY) {
        strip.tile.lo = -INFINITY;
        strip.tile.hi = INFINITY;
    }
    for (size_t i = 0; i < s->tiles; i++) {
        const ptrdiff_t first = (ptrdiff_t)(i * rows);
        for (size_t r = 0; r < rows; r++)
            a[r] = s->a + (first + (ptrdiff_t)r) * s->a_row;
        strip.tile.c        = s->tile.c + first * s->tile.c_stride;
        strip.tile.residual = s->tile.residual == NULL ? NULL : s->tile.residual + first * s->tile.residual_stride;
        gemm_panels(&strip, rows, cols);
        for (size_t r = 0; r < rows && s->then != OPF_EW_COPY; r++) {
            float *c = strip.tile.c + (ptrdiff_t)r * s->tile.c_stride;
            opf_ew_ref(s->then)(c, c, NULL, cols, &s->param);
        }
    }
}

static void planes(const opf_planes *t)
{
    for (size_t f = 0; f < t->filters; f++)
        for (size_t p = 0; p < t->pixels; p++) {
            float sum = t->bias != NULL ? t->bias[f] : 0.0f;
            for (size_t k = 0; k < t->k; k++)
                sum += t->w[k * t->filters + f] * t->lines[t->offsets[k] + p];
            t->c[(ptrdiff_t)f * t->c_line + (ptrdiff_t)p] = clamp(sum, t->lo, t->hi);
        }
}

static void zip(const float *a, ptrdiff_t a_row, const float *b, ptrdiff_t b_row, float *dst, ptrdiff_t dst_row, size_t rows, size_t cols)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < cols; c++) {
            dst[(ptrdiff_t)r * dst_row + (ptrdiff_t)(2 * c)]     = a[(ptrdiff_t)r * a_row + (ptrdiff_t)c];
            dst[(ptrdiff_t)r * dst_row + (ptrdiff_t)(2 * c + 1)] = b[(ptrdiff_t)r * b_row + (ptrdiff_t)c];
        }
}

static void copy_2d(const float *src, ptrdiff_t src_row, ptrdiff_t src_col, float *dst, ptrdiff_t dst_row, size_t rows, size_t cols)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < cols; c++)
            dst[(ptrdiff_t)r * dst_row + (ptrdiff_t)c] = src[(ptrdiff_t)r * src_row + (ptrdiff_t)c * src_col];
}

static void pack_b(const float *b, ptrdiff_t row, ptrdiff_t col, size_t k, size_t n, float *dst)
{
    for (size_t j = 0; j < n; j += NR)
        for (size_t i = 0; i < k; i++)
            for (size_t v = j; v < j + NR; v++)
                *dst++ = v < n ? b[(ptrdiff_t)i * row + (ptrdiff_t)v * col] : 0.0f;
}

static double sum(const float *x, size_t n)
{
    double s = 0;
    for (size_t i = 0; i < n; i++)
        s += (double)x[i];
    return s;
}

static float reduce_sum(const float *x, size_t n)
{
    return (float)sum(x, n);
}

static float reduce_max(const float *x, size_t n)
{
    float best = -INFINITY;
    for (size_t i = 0; i < n && best == best; i++)
        best = x[i] <= best ? best : x[i];
    return best;
}

/* y = (x - mean) * scale * gamma + beta */
static void normalise(const float *x, const float *gamma, const float *beta, float *y, size_t n, double mean, double scale)
{
    for (size_t i = 0; i < n; i++)
        y[i] = (float)(((double)x[i] - mean) * scale * (gamma ? (double)gamma[i] : 1) + (beta ? (double)beta[i] : 0));
}

static double mean_square(const float *x, size_t n, double mean)
{
    double s = 0;
    for (size_t i = 0; i < n; i++)
        s += ((double)x[i] - mean) * ((double)x[i] - mean);
    return s / (double)n;
}

static void layer_norm(const float *x, const float *gamma, const float *beta, float *y, size_t n, float eps, float *mean_out,
                       float *inv_std_out)
{
    const double mean    = sum(x, n) / (double)n;
    const double inv_std = 1 / sqrt(mean_square(x, n, mean) + (double)eps);
    normalise(x, gamma, beta, y, n, mean, inv_std);
    if (mean_out)
        *mean_out = (float)mean;
    if (inv_std_out)
        *inv_std_out = (float)inv_std;
}

static void rms_norm(const float *x, const float *gamma, float *y, size_t n, float eps)
{
    normalise(x, gamma, NULL, y, n, 0, 1 / sqrt(mean_square(x, n, 0) + (double)eps));
}

static double exp_sum(const float *x, size_t n, float top)
{
    double s = 0;
    for (size_t i = 0; i < n; i++)
        s += exp((double)x[i] - (double)top);
    return s;
}

static void softmax(const float *x, float *y, size_t n)
{
    const float  top   = reduce_max(x, n);
    const double total = exp_sum(x, n, top);
    for (size_t i = 0; i < n; i++)
        y[i] = (float)(exp((double)x[i] - (double)top) / total);
}

static void log_softmax(const float *x, float *y, size_t n)
{
    const float  top   = reduce_max(x, n);
    const double shift = log(exp_sum(x, n, top));
    for (size_t i = 0; i < n; i++)
        y[i] = (float)((double)x[i] - (double)top - shift);
}

static void turn(const opf_turn *t)
{
    for (ptrdiff_t k = 0; k < (ptrdiff_t)t->n; k++) {
        const float a = t->x[k * t->x_step], b = t->x[k * t->x_step + t->x_gap];
        const float *cos = t->cos + k * t->cos_step, *sin = t->sin + k * t->sin_step;
        t->y[k * t->y_step] = a * cos[0] - b * sin[0];
        t->y[k * t->y_step + t->y_gap] = b * cos[t->cos_gap] + a * sin[t->sin_gap];
    }
}

static float end_of_line(const opf_depthwise *d, float x)
{
    if (d->then == OPF_EW_COPY)
        return clamp(x, d->lo, d->hi);
    opf_ew_ref(d->then)(&x, &x, NULL, 1, &d->param);
    return x;
}

static void depthwise(const opf_depthwise *d)
{
    for (size_t o = 0; o < d->lines; o++)
        for (size_t p = 0; p < d->pixels; p++)
            for (size_t i = 0; i < d->c; i++) {
                const int64_t first = d->first + (int64_t)p * d->stride;
                float         acc   = d->bias ? d->bias[i] : 0.0f;
                for (size_t r = 0; r < d->n_rows; r++) {
                    const float *row = d->rows[o * d->n_rows + r];
                    for (size_t t = 0; row != NULL && t < d->taps; t++) {
                        const int64_t at = first + (int64_t)t * d->dilation;
                        if (at >= 0 && at < d->in)
                            acc += row[(ptrdiff_t)at * d->pixel + (ptrdiff_t)i] * d->w[(r * d->taps + t) * d->w_tap + i];
                    }
                }
                d->dst[(ptrdiff_t)o * d->dst_line + (ptrdiff_t)p * d->dst_pixel + (ptrdiff_t)i] = end_of_line(d, acc);
            }
}

enum { GROUPED_LANES = 8 };

static void grouped(const opf_grouped *g)
{
    const opf_depthwise *d    = &g->lines;
    const size_t         most = opf_grouped_block(g->in, g->out, GROUPED_LANES), filters = d->c / g->in * g->out;
    for (size_t o = 0; o < d->lines; o++)
        for (size_t p = 0; p < d->pixels; p++)
            for (size_t f = 0; f < filters; f++) {
                const size_t group = f / g->out, lane = f - group / most * most * g->out;
                const float *w     = d->w + group / most * d->n_rows * d->taps * g->in * GROUPED_LANES + lane;
                float        acc   = d->bias ? d->bias[f] : 0.0f;
                for (size_t tap = 0; tap < d->n_rows * d->taps; tap++) {
                    const float  *row = d->rows[o * d->n_rows + tap / d->taps];
                    const int64_t at  = d->first + (int64_t)p * d->stride + (int64_t)(tap % d->taps) * d->dilation;
                    for (size_t k = 0; k < g->in && row != NULL && at >= 0 && at < d->in; k++)
                        acc += row[(ptrdiff_t)at * d->pixel + (ptrdiff_t)(group * g->in + k)] * w[(tap * g->in + k) * GROUPED_LANES];
                }
                d->dst[(ptrdiff_t)o * d->dst_line + (ptrdiff_t)p * d->dst_pixel + (ptrdiff_t)f] = clamp(acc, d->lo, d->hi);
            }
}

static void pool_max(const opf_pool *line)
{
    for (size_t p = 0; p < line->pixels; p++)
        for (size_t i = 0; i < line->c; i++) {
            const ptrdiff_t at   = (ptrdiff_t)p * line->pixel + (ptrdiff_t)i;
            float           best = -INFINITY;
            for (size_t t = 0; t < line->n_taps && best == best; t++)
                best = line->taps[t][at] <= best ? best : line->taps[t][at];
            line->dst[(ptrdiff_t)p * line->dst_pixel + (ptrdiff_t)i] = best;
        }
}

static void pool_sum(const opf_pool *line)
{
    for (size_t p = 0; p < line->pixels; p++)
        for (size_t i = 0; i < line->c; i++) {
            const ptrdiff_t at = (ptrdiff_t)p * line->pixel + (ptrdiff_t)i;
            float           s  = 0.0f;
            for (size_t t = 0; t < line->n_taps; t++)
                s += line->taps[t][at];
            line->dst[(ptrdiff_t)p * line->dst_pixel + (ptrdiff_t)i] = s * line->scale;
        }
}

static void pixel_sum(const float *x, ptrdiff_t stride, size_t n, float scale, float *dst, size_t c)
{
    for (size_t i = 0; i < c; i++) {
        float s = 0.0f;
        for (size_t t = 0; t < n; t++)
            s += x[(ptrdiff_t)t * stride + (ptrdiff_t)i];
        dst[i] = s * scale;
    }
}

static void blend(const float *const *rows, const float *weights, size_t n_rows, float *dst, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float s = 0.0f;
        for (size_t r = 0; r < n_rows; r++)
            s += weights[r] * rows[r][i];
        dst[i] = s;
    }
}

static void resample(const opf_resample *r)
{
    for (size_t p = 0; p < r->pixels; p++)
        for (size_t i = 0; i < r->c; i++) {
            float s = 0.0f;
            for (size_t t = 0; t < r->taps && r->weights != NULL; t++)
                if (r->weights[t * r->pixels + p] != 0)
                    s += r->weights[t * r->pixels + p] * r->line[r->places[t * r->pixels + p] + (ptrdiff_t)i];
            r->dst[p * r->c + i] = r->weights != NULL ? s : r->line[r->places[p] + (ptrdiff_t)i];
        }
}

void opf_kern_init_ref(opf_kern *kern)
{
    *kern = (opf_kern){
        .level       = OPF_CPU_SCALAR,
        .mr          = MR,
        .nr          = NR,
        .gemm        = gemm_f32_4x8,
        .gemm_lines  = gemm_lines,
        .gemm_panels = gemm_panels,
        .gemm_strip  = gemm_strip,
        .planes      = planes,
        .gemm_name   = "gemm_f32_4x8",
        .pack_b      = pack_b,
        .layer_norm  = layer_norm,
        .rms_norm    = rms_norm,
        .softmax     = softmax,
        .log_softmax = log_softmax,
        .turn        = turn,
        .reduce_sum  = reduce_sum,
        .reduce_max  = reduce_max,
        .depthwise   = depthwise,
        .grouped       = grouped,
        .grouped_lanes = GROUPED_LANES,
        .pool_max    = pool_max,
        .pool_sum    = pool_sum,
        .pixel_sum   = pixel_sum,
        .blend       = blend,
        .resample    = resample,
        .copy_2d     = copy_2d,
        .zip         = zip,
    };
    opf_ew_init_ref(kern);
    opf_norm_init_ref(kern);
    opf_winograd_init_ref(kern);
}
