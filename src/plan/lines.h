/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Window kernels compute on lines of pixels with their channels side by side. An image that lies in planes (a graph input,
 * what a reshape made) is read line by line into scratch, and a result that must lie in planes is written from there:
 * cheaper than a pass of its own over the whole image.
 */
#ifndef OPF_PLAN_LINES_H
#define OPF_PLAN_LINES_H

#include "plan/planner.h"

enum {
    OPF_LINES_FLOATS = 1 << 18, /* of all lines that are copied at once, about L2 */
    OPF_LINES_AGAIN  = 4        /* a line may be copied so often: for as many lines of the result */
};

/* Axes of a channels-last layout: batch, spatial…, channels. */
static inline void opf_channels_last(int32_t rank, int32_t *order)
{
    order[0] = 0;
    for (int32_t i = 2; i < rank; i++)
        order[i - 1] = i;
    order[rank - 1] = 1;
}

/* Whether the lines of a window (`lines` of `width` pixels, for a step of `apart` lines) may be copied as they are needed. */
static inline bool opf_lines_may_copy(int64_t lines, int64_t apart, int64_t width, int64_t channels)
{
    return lines <= OPF_LINES_AGAIN * apart && lines * width <= OPF_LINES_FLOATS / (channels == 0 ? 1 : channels);
}

/* The line at src, channels side by side: where it lies (channel 1), or copied. Strides in floats. */
static inline const float *opf_line_read(const opf_kern *kern, const float *src, ptrdiff_t pixel, ptrdiff_t channel, size_t pixels,
                                         size_t channels, float *copy)
{
    if (channel == 1)
        return src;
    kern->copy_2d(src, pixel, channel, copy, (ptrdiff_t)channels, pixels, channels);
    return copy;
}

/* A line with its channels side by side to planes `channel` apart, in which pixels are neighbours. */
static inline void opf_line_write(const opf_kern *kern, const float *line, size_t pixels, size_t channels, float *dst, ptrdiff_t channel)
{
    kern->copy_2d(line, 1, (ptrdiff_t)channels, dst, channel, channels, pixels);
}

#endif
