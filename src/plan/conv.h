/* SPDX-License-Identifier: Apache-2.0 */
/* A convolution as its node describes it, before it is decided how it is computed. */
#ifndef OPF_PLAN_CONV_H
#define OPF_PLAN_CONV_H

#include "plan/gemm.h"

typedef struct opf_conv {
    int64_t          images, channels, filters, groups, taps, pixels;
    int32_t          spatial;
    opf_gemm_window  window; /* in_stride still unset */
    opf_place        x, y;
    const opf_const *w, *bias;
} opf_conv;

static inline void opf_conv_set_in_strides(opf_conv *c)
{
    for (int32_t i = 0; i < 3; i++) {
        int32_t axis           = i - (3 - c->spatial);
        c->window.in_stride[i] = axis < 0 ? 0 : c->x.strides[2 + axis];
    }
}

static inline opf_split opf_conv_split(int32_t rank)
{
    return (opf_split){.outer_first = 0, .outer_last = 0, .row_first = 2, .row_last = rank - 1, .col = 1};
}

#endif
