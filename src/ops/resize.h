/* SPDX-License-Identifier: Apache-2.0 */
/* The geometry of Resize: which input positions, with which weights, make one position of the output along an axis. */
#ifndef OPF_OPS_RESIZE_H
#define OPF_OPS_RESIZE_H

#include "ops/op.h"

typedef enum opf_resize_mode { OPF_RESIZE_NEAREST, OPF_RESIZE_LINEAR, OPF_RESIZE_CUBIC } opf_resize_mode;

typedef enum opf_resize_coordinates {
    OPF_RESIZE_HALF_PIXEL,
    OPF_RESIZE_HALF_PIXEL_SYMMETRIC,
    OPF_RESIZE_PYTORCH_HALF_PIXEL,
    OPF_RESIZE_ALIGN_CORNERS,
    OPF_RESIZE_ASYMMETRIC,
    OPF_RESIZE_TF_CROP_AND_RESIZE,
    OPF_RESIZE_TF_HALF_PIXEL_FOR_NN /* opset 11 only */
} opf_resize_coordinates;

typedef enum opf_resize_rounding {
    OPF_RESIZE_ROUND_PREFER_FLOOR,
    OPF_RESIZE_ROUND_PREFER_CEIL,
    OPF_RESIZE_FLOOR,
    OPF_RESIZE_CEIL
} opf_resize_rounding;

typedef enum opf_resize_policy { OPF_RESIZE_STRETCH, OPF_RESIZE_NOT_LARGER, OPF_RESIZE_NOT_SMALLER } opf_resize_policy;

typedef struct opf_resize {
    opf_resize_mode        mode;
    opf_resize_coordinates coordinates;
    opf_resize_rounding    rounding;
    opf_resize_policy      policy;
    bool                   antialias, exclude_outside;
    double                 cubic_a, extrapolation;
    const opf_attr        *axes; /* NULL: all */
} opf_resize;

opf_status opf_resize_read(const opf_attr *attrs, uint32_t n_attrs, opf_resize *resize, opf_error *error);
/* Axes that scales and sizes count, one or more of [0, rank). */
opf_status opf_resize_axes(const opf_resize *resize, int32_t rank, int32_t axes[OPF_MAX_RANK], int32_t *n,
                           opf_error *error);

/* One axis of a resize: n positions become n_out. */
typedef struct opf_resize_axis {
    int64_t n, n_out;
    double  scale;
    double  roi[2];
} opf_resize_axis;

/* Of a call: the attributes, and all axes of X; those that are not resized keep scale 1. Of X only the dims are read. */
opf_status opf_resize_geometry(const opf_call *call, opf_resize *resize, opf_resize_axis axes[OPF_MAX_RANK],
                               opf_error *error);

/* floor(n * scale), as float arithmetic has it. */
opf_status opf_resize_scaled(int64_t n, double scale, int64_t *n_out, opf_error *error);
/* Fills n_out and scale of all from n and the sizes that were asked for, by the policy. */
opf_status opf_resize_sized(const opf_resize *resize, const int64_t *sizes, int32_t n_axes, opf_resize_axis *axes,
                            opf_error *error);

/* Taps of each position: n_taps of them, 0 if the axis stays as it is. */
size_t opf_resize_taps(const opf_resize *resize, const opf_resize_axis *axis);
/* The taps of position `at`; false: it lies outside, and takes the extrapolation value. Weights may be 0. */
bool opf_resize_weights(const opf_resize *resize, const opf_resize_axis *axis, int64_t at, size_t n_taps,
                        int64_t *places, double *weights);

/* Rows of the importer. */
opf_status opf_resize_lift_11(opf_graph *graph, opf_node_id node, int32_t opset, opf_error *error);
opf_status opf_resize_lower_11(opf_graph *graph, opf_node_id node, int32_t opset, opf_error *error);
opf_status opf_resize_lower_13(opf_graph *graph, opf_node_id node, int32_t opset, opf_error *error);
opf_status opf_resize_lower_18(opf_graph *graph, opf_node_id node, int32_t opset, opf_error *error);
opf_status opf_resize_lower_19(opf_graph *graph, opf_node_id node, int32_t opset, opf_error *error);

#endif
