/* SPDX-License-Identifier: Apache-2.0 */
/* The transforms of F(4x4, 3x3) as matrices: B^T d B before the products, A^T m A after them. */
#include "kernels/level.h"

#include <math.h>

enum { NR = 8 }; /* of the scalar product */

static const double root = 1.4142135623730950488;

static void input_1d(const double r[6], double o[6])
{
    o[0] = r[0] - 2.5 * r[2] + r[4];
    o[1] = r[4] - 2 * r[2] - root * (r[1] - 0.5 * r[3]);
    o[2] = r[4] - 2 * r[2] + root * (r[1] - 0.5 * r[3]);
    o[3] = r[4] - 0.5 * r[2] + root * (r[3] - 0.5 * r[1]);
    o[4] = r[4] - 0.5 * r[2] - root * (r[3] - 0.5 * r[1]);
    o[5] = r[1] - 2.5 * r[3] + r[5];
}

static void output_1d(const double m[6], double y[4])
{
    const double a = m[1] + m[2], b = m[1] - m[2], c = m[3] + m[4], d = m[3] - m[4];
    y[0] = m[0] + a + c;
    y[1] = root * (0.5 * b + d);
    y[2] = 0.5 * a + 2 * c;
    y[3] = root * (0.25 * b + 2 * d) + m[5];
}

static void winograd_input(const opf_winograd_input *tile)
{
    for (size_t c = 0; c < tile->c; c++) {
        double d[6][6], t[6][6], column[6], o[6];
        for (int i = 0; i < 6; i++)
            for (int j = 0; j < 6; j++) {
                const bool inside = i >= tile->top && i < tile->bottom && j >= tile->left && j < tile->right;
                d[i][j]           = inside ? (double)tile->x[i * tile->row + j * tile->pixel + (ptrdiff_t)c] : 0;
            }
        for (int j = 0; j < 6; j++) {
            for (int i = 0; i < 6; i++)
                column[i] = d[i][j];
            input_1d(column, o);
            for (int i = 0; i < 6; i++)
                t[i][j] = o[i];
        }
        for (int i = 0; i < 6; i++) {
            input_1d(t[i], o);
            for (int j = 0; j < 6; j++)
                tile->v[(i * 6 + j) * tile->v_point + (ptrdiff_t)c] = (float)o[j];
        }
    }
}

static void transform_back(const float *m, ptrdiff_t m_point, double y[4][4])
{
    double t[4][6], column[6], o[4];
    for (int j = 0; j < 6; j++) {
        for (int i = 0; i < 6; i++)
            column[i] = (double)m[(i * 6 + j) * m_point];
        output_1d(column, o);
        for (int i = 0; i < 4; i++)
            t[i][j] = o[i];
    }
    for (int i = 0; i < 4; i++)
        output_1d(t[i], y[i]);
}

static float clamp(float x, float lo, float hi) /* NaN passes */
{
    x = x < lo ? lo : x;
    return x > hi ? hi : x;
}

static bool winograd_output(const opf_winograd_output *tile)
{
    float sums[4][4][NR];
    for (size_t n = 0; n < tile->cols; n++) {
        double y[4][4];
        transform_back(tile->m + n, tile->m_point, y);
        for (int i = 0; i < 16; i++) {
            sums[i / 4][i % 4][n] = (float)y[i / 4][i % 4];
            if (!isfinite(sums[i / 4][i % 4][n]))
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
