/* SPDX-License-Identifier: Apache-2.0 */
/* What lines of depthwise convolutions and of those in groups are drawn with: the image, its borders, the clamp, the
 * bias. */
#ifndef CHECK_LINES_H
#define CHECK_LINES_H

#include "check.h"

#include <math.h>

static const float untouched = -7; /* below every clamp */

static void draw_image(checker *check, opf_depthwise *d, size_t channels, size_t filters)
{
    d->in = (int64_t)check_random(check, 40);
    d->pixels = check_random(check, 36);
    d->first = -(int64_t)check_random(check, 8);
    if (check_random(check, 8) == 0)
        d->first += 30 - (int64_t)check_random(check, 60);
    d->c = channels;
    d->pixel = (ptrdiff_t)(channels + check_random(check, 9));
    d->dst_pixel = (ptrdiff_t)(filters + (check_random(check, 2) ? 0 : check_random(check, 20)));
    d->dst_line = (ptrdiff_t)d->pixels * d->dst_pixel;
    d->lo = check_random(check, 2) ? 0.0f : -INFINITY;
    d->hi = check_random(check, 2) ? 1.0f : INFINITY;
    float *bias = check_array(check, filters);
    check_fill(check, bias, filters, 1);
    d->bias = check_random(check, 2) ? bias : NULL;
}

/* A line of the image; one of `odds` has an element that is no number. */
static const float *draw_row(checker *check, const opf_depthwise *d, uint64_t odds)
{
    const size_t size = d->in == 0 ? 0 : (size_t)(d->in - 1) * (size_t)d->pixel + d->c;
    float *x = check_array(check, size);
    check_fill(check, x, size, 1);
    if (check_random(check, odds) == 0)
        check_spoil(check, x, size);
    return x;
}

static void make_result(checker *check, opf_depthwise *d, size_t filters)
{
    const size_t line = (size_t)d->dst_line;
    const size_t size = line == 0 ? 0 : (d->lines - 1) * line + (d->pixels - 1) * (size_t)d->dst_pixel + filters;
    d->dst = check_array(check, size);
    for (size_t i = 0; i < size; i++)
        d->dst[i] = untouched;
}

#endif
