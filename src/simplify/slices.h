/* SPDX-License-Identifier: Apache-2.0 */
/* Slices of constant bounds, as the passes that merge them see them. */
#ifndef OPF_SIMPLIFY_SLICES_H
#define OPF_SIMPLIFY_SLICES_H

#include "simplify/passes.h"

/* The bounds of a Slice along one axis, as ONNX counts them: negative ones from the end, clamped. */
typedef struct opf_bounds {
    int64_t start, end, step;
} opf_bounds;

typedef struct opf_slice {
    uint32_t n;
    int32_t axes[OPF_MAX_RANK]; /* each once, not negative */
    opf_bounds bounds[OPF_MAX_RANK];
} opf_slice;

/* "To the last element", and backwards "to the first". */
#define OPF_SLICE_LAST  INT64_MAX
#define OPF_SLICE_FIRST INT64_MIN

/* What the Slice takes; false where it is not constant, or the rank is not known. */
bool opf_slice_read(const opf_graph *graph, const opf_node *node, opf_slice *slice);
/* What a value is of another one along one axis: the elements from, from + step, … before `to`. */
typedef struct opf_part {
    opf_value_id base;
    opf_dim from, to;
    int64_t step; /* at least 1, and not above the size of the axis where it is not 1 */
} opf_part;

/* The part that a Split or a Slice along this axis alone takes; bounds may be symbols where the step is 1. */
bool opf_find_part(const opf_graph *graph, opf_value_id value, int32_t axis, opf_part *part);
/* The axis attribute of a Split or Concat, not negative; -1: the rank is not known. */
int32_t opf_joined_axis(const opf_graph *graph, const opf_node *node);

/* Gives the Slice these bounds. False: memory is out. */
bool opf_slice_write(opf_graph *graph, opf_node_id node, const opf_slice *slice);

#endif
