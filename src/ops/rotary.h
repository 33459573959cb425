/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pairs of elements of a row, turned by an angle each: RotaryEmbedding, and Attention that turns queries and keys as it
 * reads them. ONNX has one table of angles for all heads; simplify makes of it opfuse's own form, marked by the attribute "broadcast", has
 * cosines and sines that broadcast to what is turned, with a number for each pair or for each element:
 *     y = x * cos + turned(x) * sin, where turned(x) of a pair (a, b) is (-b, a).
 */
#ifndef OPF_OPS_ROTARY_H
#define OPF_OPS_ROTARY_H

#include "ops/op.h"

/* Pair k: the elements k * step and k * step + gap. */
typedef struct opf_pairs {
    int64_t n, step, gap;
} opf_pairs;

/* The first `rotated` elements of a row are paired: neighbours, or element k and k + rotated / 2. */
static inline opf_pairs opf_pairs_of(int64_t rotated, bool interleaved)
{
    return interleaved ? (opf_pairs){rotated / 2, 2, 1} : (opf_pairs){rotated / 2, 1, rotated / 2};
}

/* The same for the angles, of which a row has as many as elements are turned, or half as many. */
static inline opf_pairs opf_angle_pairs(int64_t width, int64_t rotated, bool interleaved)
{
    return width == rotated ? opf_pairs_of(rotated, interleaved) : (opf_pairs){rotated / 2, 1, 0};
}

/* Inputs cos and sin broadcast to rank and dims, whose last is that of a row; `rotated` of it are turned. */
opf_status opf_infer_angles(const opf_infer *infer, uint32_t cos, uint32_t sin, int32_t rank, const opf_dim *dims,
                            int64_t rotated, opf_error *error);

/* Cosines and sines for each row of something that is turned. */
typedef struct opf_angles {
    opf_view cos, sin; /* broadcast to what is turned, but for the last axis */
    opf_pairs pairs, cos_pairs, sin_pairs;
} opf_angles;
opf_angles opf_angles_view(const opf_view *cos, const opf_view *sin, int32_t rank, const int64_t *dims, int64_t rotated,
                           bool interleaved);
/* Turns a row in place; cos_at and sin_at are where its angles begin. */
void opf_angles_turn(const opf_angles *angles, double *row, int64_t cos_at, int64_t sin_at);

#endif
