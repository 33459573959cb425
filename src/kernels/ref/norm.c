/* SPDX-License-Identifier: Apache-2.0 */
/* The scalar entries of sums of absolute values and squares, and of what they normalise; sums in double. */
#include "kernels/level.h"

#include <math.h>

static float abs_sum(const float *x, size_t n)
{
    double s = 0;
    for (size_t i = 0; i < n; i++)
        s += fabs((double)x[i]);
    return (float)s;
}

static double square(float x, float mean)
{
    const double d = (double)x - (double)mean;
    return d * d;
}

static float square_sum(const float *x, size_t n, float mean)
{
    double s = 0;
    for (size_t i = 0; i < n; i++)
        s += square(x[i], mean);
    return (float)s;
}

static void pixel_abs_sum(const float *x, ptrdiff_t stride, size_t n, float *dst, size_t c)
{
    for (size_t i = 0; i < c; i++) {
        double s = 0;
        for (size_t t = 0; t < n; t++)
            s += fabs((double)x[(ptrdiff_t)t * stride + (ptrdiff_t)i]);
        dst[i] = (float)s;
    }
}

static void pixel_square_sum(const float *x, ptrdiff_t stride, size_t n, const float *mean, float *dst, size_t c)
{
    for (size_t i = 0; i < c; i++) {
        double s = 0;
        for (size_t t = 0; t < n; t++)
            s += square(x[(ptrdiff_t)t * stride + (ptrdiff_t)i], mean ? mean[i] : 0.0f);
        dst[i] = (float)s;
    }
}

static float clamp(double x, float lo, float hi) /* NaN passes */
{
    const float y = (float)x;
    return y < lo ? lo : y > hi ? hi : y;
}

static void normalise(const float *x, const opf_affine *a, float *y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = clamp(((double)x[i] - (double)a->mean) * (double)a->scale + (double)a->shift, a->lo, a->hi);
}

static void normalise_columns(const opf_columns *tile)
{
    for (size_t r = 0; r < tile->rows; r++)
        for (size_t c = 0; c < tile->cols; c++) {
            const double x = (double)tile->x[(ptrdiff_t)r * tile->x_row + (ptrdiff_t)c];
            const double gain = tile->gain ? (double)tile->gain[r] : 1;
            const double offset = tile->offset ? (double)tile->offset[r] : 0;
            const double norm = (x - (double)tile->mean[c]) * (double)tile->scale[c];
            tile->y[(ptrdiff_t)r * tile->y_row + (ptrdiff_t)c] =
                clamp(norm * gain + offset + (tile->shift ? (double)tile->shift[c] : 0), tile->lo, tile->hi);
        }
}

static void scale_columns(const opf_columns *tile)
{
    for (size_t r = 0; r < tile->rows; r++)
        for (size_t c = 0; c < tile->cols; c++) {
            const float product = tile->x[(ptrdiff_t)r * tile->x_row + (ptrdiff_t)c] * tile->scale[c];
            tile->y[(ptrdiff_t)r * tile->y_row + (ptrdiff_t)c] = clamp((double)(product + tile->shift[c]), tile->lo, tile->hi);
        }
}

void opf_norm_init_ref(opf_kern *kern)
{
    kern->abs_sum = abs_sum;
    kern->square_sum = square_sum;
    kern->pixel_abs_sum = pixel_abs_sum;
    kern->pixel_square_sum = pixel_square_sum;
    kern->normalise = normalise;
    kern->normalise_columns = normalise_columns;
    kern->scale_columns = scale_columns;
}
