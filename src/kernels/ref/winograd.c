/* SPDX-License-Identifier: Apache-2.0 */
/* The transforms of F(4x4, 3x3) and F(2x2, 3x3) as matrices: B^T d B before the products, A^T m A after them. */
#include "kernels/level.h"

#include <math.h>

enum { NR = 8 }; /* of the scalar product */
enum { TILE = OPF_WINOGRAD_TILE, WINDOW = OPF_WINOGRAD_WINDOW };

static const double root = 1.4142135623730950488;

static void input_1d(int size, const double r[WINDOW], double o[WINDOW])
{
    if (size == 2) {
        o[0] = r[0] - r[2];
        o[1] = r[1] + r[2];
        o[2] = r[2] - r[1];
        o[3] = r[1] - r[3];
        return;
    }
    o[0] = r[0] - 2.5 * r[2] + r[4];
    o[1] = r[4] - 2 * r[2] - root * (r[1] - 0.5 * r[3]);
    o[2] = r[4] - 2 * r[2] + root * (r[1] - 0.5 * r[3]);
    o[3] = r[4] - 0.5 * r[2] + root * (r[3] - 0.5 * r[1]);
    o[4] = r[4] - 0.5 * r[2] - root * (r[3] - 0.5 * r[1]);
    o[5] = r[1] - 2.5 * r[3] + r[5];
}

static void output_1d(int size, const double m[WINDOW], double y[TILE])
{
    const double a = m[1] + m[2], b = m[1] - m[2];
    if (size == 2) {
        y[0] = m[0] + a;
        y[1] = b - m[3];
        return;
    }
    const double c = m[3] + m[4], d = m[3] - m[4];
    y[0] = m[0] + a + c;
    y[1] = root * (0.5 * b + d);
    y[2] = 0.5 * a + 2 * c;
    y[3] = root * (0.25 * b + 2 * d) + m[5];
}

static void winograd_input(const opf_winograd_input *tile)
{
    const int window = tile->size + 2;
    for (size_t c = 0; c < tile->c; c++) {
        double t[WINDOW][WINDOW], column[WINDOW], o[WINDOW];
        for (int j = 0; j < window; j++) {
            for (int i = 0; i < window; i++) {
                const bool inside = i >= tile->top && i < tile->bottom && j >= tile->left && j < tile->right;
                column[i]         = inside ? (double)tile->x[i * tile->row + j * tile->pixel + (ptrdiff_t)c] : 0;
            }
            input_1d(tile->size, column, o);
            for (int i = 0; i < window; i++)
                t[i][j] = o[i];
        }
        for (int i = 0; i < window; i++) {
            input_1d(tile->size, t[i], o);
            for (int j = 0; j < window; j++)
                tile->v[(i * window + j) * tile->v_point + (ptrdiff_t)c] = (float)o[j];
        }
    }
}

static void transform_back(const opf_winograd_output *tile, const float *m, double y[TILE][TILE])
{
    const int window = tile->size + 2;
    double    t[TILE][WINDOW], column[WINDOW], o[TILE];
    for (int j = 0; j < window; j++) {
        for (int i = 0; i < window; i++)
            column[i] = (double)m[(i * window + j) * tile->m_point];
        output_1d(tile->size, column, o);
        for (int i = 0; i < tile->size; i++)
            t[i][j] = o[i];
    }
    for (int i = 0; i < tile->size; i++)
        output_1d(tile->size, t[i], y[i]);
}

static float clamp(float x, float lo, float hi) /* NaN passes */
{
    x = x < lo ? lo : x;
    return x > hi ? hi : x;
}

static bool winograd_output(const opf_winograd_output *tile)
{
    float sums[TILE][TILE][NR];
    for (size_t n = 0; n < tile->cols; n++) {
        double y[TILE][TILE];
        transform_back(tile, tile->m + n, y);
        for (int i = 0; i < tile->size * tile->size; i++) {
            float *sum = &sums[i / tile->size][i % tile->size][n];
            *sum       = (float)y[i / tile->size][i % tile->size];
            if (!isfinite(*sum))
                return false;
        }
    }
    for (size_t i = 0; i < tile->rows; i++)
        for (size_t j = 0; j < tile->pixels; j++)
            for (size_t n = 0; n < tile->cols; n++) {
                float x = sums[i][j][n] + (tile->bias ? tile->bias[n] : 0.0f);
                if (tile->residual)
                    x += tile->residual[(ptrdiff_t)i * tile->residual_row + (ptrdiff_t)j * tile->residual_pixel + (ptrdiff_t)n];
                tile->c[(ptrdiff_t)i * tile->row + (ptrdiff_t)j * tile->pixel + (ptrdiff_t)n] = clamp(x, tile->lo, tile->hi);
            }
    return true;
}

void opf_winograd_init_ref(opf_kern *kern)
{
    kern->winograd_input  = winograd_input;
    kern->winograd_output = winograd_output;
}
