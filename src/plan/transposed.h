/* SPDX-License-Identifier: Apache-2.0 */
/* A transposed convolution that has kernels, as its two lowerings see it. */
#ifndef OPF_PLAN_TRANSPOSED_H
#define OPF_PLAN_TRANSPOSED_H

#include "ops/conv_transpose.h"
#include "plan/phases.h"
#include "plan/steps.h"

typedef struct opf_transposed {
    int64_t          channels, filters, groups;
    int32_t          spatial;
    int64_t          in[3], out[3], stride[3], pad[3]; /* missing axes first */
    int64_t          in_stride[3];                     /* once x lies as it is read */
    opf_windows      windows;
    opf_phases       phases;
    opf_place        x, y;
    const opf_const *w, *bias;
} opf_transposed;

/* Positions q of a phase whose pixels are in the result: [*first, *end), empty if not *first < *end. */
static inline void opf_transposed_range(const opf_transposed *t, int axis, int64_t residue, int64_t *first, int64_t *end)
{
    const int64_t s = t->stride[axis], before = t->pad[axis] - residue; /* position 0 of the result, seen from q = 0 */
    *first          = (before + s - 1) / s;
    *end            = before + t->out[axis] <= 0 ? 0 : (before + t->out[axis] - 1) / s + 1;
}

/* in_stride, of x as it lies now. */
void opf_transposed_set_strides(opf_transposed *t);

/* One filter a channel: lines of the result by the depthwise kernel. */
opf_status opf_lower_depthwise_transposed(opf_planner *planner, const opf_node *node, opf_transposed *t, opf_lowered *lowered,
                                          opf_error *error);

#endif
