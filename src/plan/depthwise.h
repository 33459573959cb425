/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions of one filter a channel, and in groups of a few channels, line by line. */
#ifndef OPF_PLAN_DEPTHWISE_H
#define OPF_PLAN_DEPTHWISE_H

#include "plan/conv.h"

typedef struct opf_depthwise_args {
    size_t          images, channels, taps; /* channels: of the result */
    size_t          in, out;                /* grouped: channels and filters of a group; depthwise: 0 */
    size_t          x_channels;
    opf_gemm_window window;
    opf_ref         x, y;
    int64_t         x_image, x_channel, y_image, y_channel, y_pixel; /* channel 1: side by side; else planes, by lines of pixels */
    const float    *w, *bias;
    size_t          rows_bytes, lines; /* of the pointers in scratch; floats of copied lines: input, then output */
    size_t          at_once; /* lines of the result in a call of the kernel */
    float           lo, hi;
    opf_ew          then;    /* instead of the clamp; or COPY */
    float           param;
    opf_bound       epilogue;
    bool            has_epilogue;
} opf_depthwise_args;

/* The step's run function. A unit is a few lines of pixels of one image; units that follow one another run together. */
void opf_depthwise_run(const opf_run_env *env, const void *args, size_t begin, size_t end, void *scratch);

/* Groups of so few channels that several of them fill a vector. */
bool opf_conv_is_grouped(const opf_conv *c, const opf_kern *kern);
/* Also in groups of a few channels. */
opf_status opf_lower_depthwise(opf_planner *planner, const opf_node *node, opf_conv *c, const opf_lowered *lowered, opf_error *error);

#endif
