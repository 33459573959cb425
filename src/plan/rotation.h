/* SPDX-License-Identifier: Apache-2.0 */
/* Rows whose pairs of elements are turned: by a kernel of their own, or by Attention while it reads queries and keys. */
#ifndef OPF_PLAN_ROTATION_H
#define OPF_PLAN_ROTATION_H

#include "plan/planner.h"

typedef struct opf_rotation {
    opf_turn turn; /* n 0: nothing is turned; each row has pointers of its own */
    int32_t  axes; /* that count rows */
    opf_ref  cos, sin;
    int64_t  cos_strides[OPF_MAX_RANK], sin_strides[OPF_MAX_RANK];
} opf_rotation;

/* Rotation of x by what the last two inputs hold: x is turned where it is read, its elements `x_col` apart, into rows
   with elements `y_col` apart. Angles are of float and broadcast to dims. tables: what the step reads, cosines first. */
typedef struct opf_rotation_request {
    opf_value_id   cos, sin;
    int64_t        rotated;
    bool           interleaved;
    int32_t        rank;
    const int64_t *dims;
    int64_t        x_col, y_col;
} opf_rotation_request;
opf_status opf_plan_rotation(opf_planner *planner, const opf_rotation_request *request, opf_rotation *rotation, opf_place tables[2],
                             opf_error *error);

/* The row with this index on the axes before the last. y may be x. */
void opf_turn_row(const opf_run_env *env, const opf_rotation *rotation, const int64_t *index, const float *x, float *y);

#endif
