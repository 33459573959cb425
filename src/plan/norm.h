/* SPDX-License-Identifier: Apache-2.0 */
/* What the lowerings of normalisations share: how the sum of a part gives its scale, and the parameters. */
#ifndef OPF_PLAN_NORM_H
#define OPF_PLAN_NORM_H

#include "ops/lp_normalization.h"
#include "plan/steps.h"

typedef enum opf_norm_kind {
    OPF_NORM_NONE,     /* 1, and no mean: gamma and beta do it all */
    OPF_NORM_CENTRED,  /* 1 / sqrt(variance + epsilon) */
    OPF_NORM_STANDARD, /* 1 / (standard deviation + epsilon) */
    OPF_NORM_RMS,      /* 1 / sqrt(mean square + epsilon) */
    OPF_NORM_LP_1,     /* 1 / guarded norm: LpNormalization */
    OPF_NORM_LP_2
} opf_norm_kind;

typedef struct opf_norm {
    opf_norm_kind kind;
    opf_lp_guard guard; /* LP_* */
    float epsilon;
} opf_norm;

/* Of a normalisation other than softmax. */
opf_norm opf_norm_of(const opf_node *node);
/* Its mean is taken off first. */
static inline bool opf_norm_is_centred(const opf_norm *norm)
{
    return norm->kind == OPF_NORM_CENTRED || norm->kind == OPF_NORM_STANDARD;
}
/* The scale of a part of `count` elements whose squares (LP_1: absolute values), about the mean if it is centred, sum
 * to `sum`. */
float opf_norm_scale(const opf_norm *norm, double sum, double count);
/* The same of n elements at x + i*stride, which have no mean to take off; where their sum in float is out of its range,
 * it is taken in double. Elements so small that no float scales them are first multiplied by *lift, else 1. */
float opf_norm_scale_of(const opf_norm *norm, float sum, const float *x, ptrdiff_t stride, size_t n, float *lift);

/* A parameter: n floats, from a constant or computed at run time. Absent: both are empty. */
typedef struct opf_norm_vector {
    const float *constant;
    opf_ref ref;
    opf_place place; /* of ref; buffer 0: none */
} opf_norm_vector;

/* Input `input` of node as a vector of n. *ok false: it has another type, size or layout. */
opf_status opf_norm_take_vector(opf_planner *planner, const opf_node *node, uint32_t input, int64_t n,
                                opf_norm_vector *vector, bool *ok, opf_error *error);
static inline const float *opf_norm_data(const opf_run_env *env, const opf_norm_vector *vector)
{
    return vector->constant != NULL ? vector->constant : opf_ref_data(env, vector->ref);
}
void opf_norm_touch(opf_planner *planner, const opf_norm_vector *vector);

/* y may be written over x, if neither a parameter nor an operand of the epilogue lies in the same buffer. */
void opf_norm_may_share(opf_planner *planner, const opf_place *y, const opf_place *x, const opf_norm_vector *gamma,
                        const opf_norm_vector *beta, const opf_bound *epilogue, const opf_place *operands);

/* ---- normalisation by columns ---- */

/* What is normalised together is the rows of one column, or of `fold` neighbouring columns: a result seen as outer x
 * rows x cols, where columns are contiguous in memory. */
typedef struct opf_norm_columns {
    opf_norm norm;
    opf_split split;
    size_t fold;
    opf_norm_vector gamma, beta;
    bool by_row; /* gamma and beta have a number a row, else one a column */
} opf_norm_columns;

/* The step; x lies so that the split's columns have stride 1 and its rows one stride; y gets the order of x. Operands
 * of steps are bound to the same split. */
opf_status opf_plan_norm_columns(opf_planner *planner, const opf_node *node, const opf_norm_columns *columns,
                                 const opf_place *x, const opf_lowered *prologue, opf_lowered *epilogue,
                                 const char *kernel, opf_error *error);

/* ---- normalisation by lines ---- */

/* What is normalised together is channels / groups neighbouring channels of one image, or of all. */
typedef struct opf_norm_lines {
    opf_norm norm;
    int64_t groups;
    bool all_images;
    opf_norm_vector gamma, beta; /* a number a channel */
} opf_norm_lines;

/* The step; x is [N, C, ...], copied if its pixels do not lie in lines; y is row-major. A clamp is taken out of the
 * epilogue. */
opf_status opf_plan_norm_lines(opf_planner *planner, const opf_node *node, const opf_norm_lines *lines,
                               const opf_place *x, opf_lowered *epilogue, const char *kernel, opf_error *error);

#endif
