/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The geometry of sliding windows, shared by convolution and pooling: read from attributes once, then used on numbers
 * (opf_windows_resolve) or on symbolic dimensions (opf_windows_infer). Along axis i the window at place o covers the
 * positions o*stride - pad_begin + t*dilation, t in [0, kernel), of an image of n positions.
 */
#ifndef OPF_OPS_WINDOW_H
#define OPF_OPS_WINDOW_H

#include "graph/graph.h"

typedef enum opf_auto_pad { OPF_PAD_EXPLICIT, OPF_PAD_SAME_UPPER, OPF_PAD_SAME_LOWER, OPF_PAD_VALID } opf_auto_pad;

typedef struct opf_windows {
    int32_t      rank; /* spatial axes */
    opf_auto_pad auto_pad;
    bool         ceil_mode;
    bool         is_pool; /* with strides beyond the kernel, SAME_* gives pools negative pads, and convolutions none */
    int64_t      kernel[OPF_MAX_RANK], stride[OPF_MAX_RANK], dilation[OPF_MAX_RANK];
    int64_t      pad_begin[OPF_MAX_RANK], pad_end[OPF_MAX_RANK]; /* SAME_*: valid after opf_windows_resolve */
} opf_windows;

/* From attributes kernel_shape, strides, dilations, pads, auto_pad and ceil_mode. kernel: rank numbers that
   kernel_shape must agree with when it is there, or NULL for a pool, then it must be there. OPF_INVALID_MODEL says what
   is wrong. After it every number is in a range in which the functions below cannot overflow. */
opf_status opf_windows_read(const opf_attr *attrs, uint32_t n_attrs, int32_t rank, const int64_t *kernel,
                            opf_windows *windows, opf_error *error);
/* Fills the pads of SAME_*, and out[i], the number of places, for an image of in[i] positions. OPF_INVALID_INPUT: a
   window is larger than its padded image. */
opf_status opf_windows_resolve(opf_windows *windows, const int64_t *in, int64_t *out, opf_error *error);
/* The same for one axis of symbolic size; pads of SAME_* stay open unless `in` is a number. */
opf_status opf_windows_infer(opf_windows *windows, int32_t axis, opf_dims *dims, opf_dim in, opf_dim *out,
                             opf_error *error);

/* Positions that one window spans. */
static inline int64_t opf_windows_span(const opf_windows *windows, int32_t axis)
{
    return (windows->kernel[axis] - 1) * windows->dilation[axis] + 1;
}
/* Taps [*first, *last) of the window at `place` whose positions are in [0, n). */
void opf_windows_taps(const opf_windows *windows, int32_t axis, int64_t place, int64_t n, int64_t *first,
                      int64_t *last);
/* All axes have kernel 1, stride 1 and no pads: the window is its position. */
bool opf_windows_is_pointwise(const opf_windows *windows);

#endif
