/* SPDX-License-Identifier: Apache-2.0 */
/* Winograd's transforms as matrices, made from their points: B^T d B before the products, A^T m A after them. */
#include "kernels/level.h"

#include <math.h>

enum { NR = 8 }; /* of the scalar product */
enum { TILE = OPF_WINOGRAD_TILE, WINDOW = OPF_WINOGRAD_WINDOW };

/* Coefficients of the product of x^2 - a^2 over all pairs but one. */
static void product_of_others(int points, int but, double q[WINDOW])
{
    const double *a = opf_winograd_pairs(points);
    int           n = 0; /* of them */
    for (int i = 0; i < WINDOW; i++)
        q[i] = i == 0;
    for (int k = 0; k < points / 2 - 1; k++) {
        if (k == but)
            continue;
        n += 2;
        for (int i = n; i >= 0; i--)
            q[i] = (i < 2 ? 0 : q[i - 2]) - a[k] * a[k] * q[i];
    }
}

/* B^T: a row a point, the polynomial that is zero at all others. */
static void input_matrix(int points, double b[WINDOW][WINDOW])
{
    const double *a = opf_winograd_pairs(points);
    double        q[WINDOW];
    for (int i = 0; i < WINDOW * WINDOW; i++)
        b[i / WINDOW][i % WINDOW] = 0;
    product_of_others(points, -1, q);
    for (int i = 0; i < points - 1; i++) {
        b[0][i]              = q[i] / q[0];
        b[points - 1][i + 1] = q[i];
    }
    for (int k = 0; k < points / 2 - 1; k++) {
        product_of_others(points, k, q);
        for (int i = 0; i < points - 2; i++)
            for (int sign = 0; sign < 2; sign++) { /* times x(x + a), x(x - a) */
                b[1 + 2 * k + sign][i + 2] += q[i];
                b[1 + 2 * k + sign][i + 1] += (sign ? -a[k] : a[k]) * q[i];
            }
    }
}

/* A^T: a row a result, powers of the points. */
static void output_matrix(int points, int size, double b[WINDOW][WINDOW])
{
    for (int i = 0; i < size; i++) {
        b[i][0]          = i == 0;
        b[i][points - 1] = i == size - 1;
        for (int p = 1; p < points - 1; p++)
            b[i][p] = pow((p % 2 ? 1 : -1) * opf_winograd_pairs(points)[(p - 1) / 2], i);
    }
}

/* M x M^T, or M x of one axis. x and y: [rows][WINDOW]. */
static void transform(double m[WINDOW][WINDOW], int from, int to, int axes, double x[WINDOW][WINDOW], double y[WINDOW][WINDOW])
{
    double t[WINDOW][WINDOW];
    for (int i = 0; i < to; i++)
        for (int j = 0; j < (axes == 2 ? from : 1); j++) {
            t[i][j] = 0;
            for (int k = 0; k < from; k++)
                t[i][j] += m[i][k] * x[k][j];
        }
    for (int i = 0; i < to; i++)
        for (int j = 0; j < (axes == 2 ? to : 1); j++) {
            y[i][j] = axes == 2 ? 0 : t[i][0];
            for (int k = 0; k < (axes == 2 ? from : 0); k++)
                y[i][j] += t[i][k] * m[j][k];
        }
}

static void winograd_filters(const opf_winograd_filters *f)
{
    for (size_t n = 0; n < f->n; n++)
        for (int i = 0; i < f->points[0]; i++)
            for (int j = 0; j < f->points[1]; j++) {
                double sum = 0;
                for (int y = 0; y < f->taps[0]; y++)
                    for (int x = 0; x < f->taps[1]; x++)
                        sum += f->g[0][i * f->taps[0] + y] * f->g[1][j * f->taps[1] + x] * (double)f->w[(y * f->taps[1] + x) * f->w_tap + (ptrdiff_t)n];
                f->u[(i * f->points[1] + j) * f->u_point + (ptrdiff_t)n] = (float)sum;
            }
}

static void winograd_input(const opf_winograd_input *tile)
{
    const int columns = tile->axes == 2 ? tile->points : 1;
    double    b[WINDOW][WINDOW], x[WINDOW][WINDOW], v[WINDOW][WINDOW];
    input_matrix(tile->points, b);
    for (size_t c = 0; c < tile->c; c++) {
        for (int i = 0; i < tile->points; i++)
            for (int j = 0; j < columns; j++) {
                const bool inside = i >= tile->top && i < tile->bottom && j >= tile->left && j < tile->right;
                x[i][j]           = inside ? (double)tile->x[i * tile->row + j * tile->pixel + (ptrdiff_t)c] : 0;
            }
        transform(b, tile->points, tile->points, tile->axes, x, v);
        for (int i = 0; i < tile->points; i++)
            for (int j = 0; j < columns; j++)
                tile->v[(i * columns + j) * tile->v_point + (ptrdiff_t)c] = (float)v[i][j];
    }
}

static float clamp(float x, float lo, float hi) /* NaN passes */
{
    x = x < lo ? lo : x;
    return x > hi ? hi : x;
}

static bool winograd_output(const opf_winograd_output *tile)
{
    const int columns = tile->axes == 2 ? tile->points : 1, across = tile->axes == 2 ? tile->size : 1;
    float     sums[TILE * TILE][NR];
    double    a[WINDOW][WINDOW], m[WINDOW][WINDOW], y[WINDOW][WINDOW];
    output_matrix(tile->points, tile->size, a);
    for (size_t n = 0; n < tile->cols; n++) {
        for (int i = 0; i < tile->points; i++)
            for (int j = 0; j < columns; j++)
                m[i][j] = (double)tile->m[(i * columns + j) * tile->m_point + (ptrdiff_t)n];
        transform(a, tile->points, tile->size, tile->axes, m, y);
        for (int i = 0; i < tile->size * across; i++) {
            sums[i][n] = (float)y[i / across][i % across];
            if (!isfinite(sums[i][n]))
                return false;
        }
    }
    for (size_t i = 0; i < tile->rows; i++)
        for (size_t j = 0; j < tile->pixels; j++)
            for (size_t n = 0; n < tile->cols; n++) {
                float x = sums[i * (size_t)across + j][n] + (tile->bias ? tile->bias[n] : 0.0f);
                if (tile->residual)
                    x += tile->residual[(ptrdiff_t)i * tile->residual_row + (ptrdiff_t)j * tile->residual_pixel + (ptrdiff_t)n];
                tile->c[(ptrdiff_t)i * tile->row + (ptrdiff_t)j * tile->pixel + (ptrdiff_t)n] = clamp(x, tile->lo, tile->hi);
            }
    return true;
}

void opf_winograd_init_ref(opf_kern *kern)
{
    kern->winograd_filters = winograd_filters;
    kern->winograd_input   = winograd_input;
    kern->winograd_output  = winograd_output;
}
