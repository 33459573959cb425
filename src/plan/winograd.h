/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolutions of stride 1 and few taps, along both axes or one, in groups or not, by Winograd's tiles: a variant of the product step. Bias, residual,
 * clamp and epilogue are those of the product; a tile whose sums are not finite is computed again by it.
 */
#ifndef OPF_PLAN_WINOGRAD_H
#define OPF_PLAN_WINOGRAD_H

#include "plan/gemm.h"

/* Of an axis: 0, down, or 1, across. */
static inline size_t opf_winograd_window(const opf_winograd *w, int axis)
{
    return w->tile[axis] + w->taps[axis] - 1;
}

static inline size_t opf_winograd_points(const opf_winograd *w)
{
    return opf_winograd_window(w, 0) * opf_winograd_window(w, 1);
}

/* Whether there is one that takes planes as they are: it reads several pixels of a line, and none more than four times. */
static inline bool opf_winograd_reads_planes(const opf_winograd *w)
{
    return w->u != NULL && w->tile[1] > 1 && opf_winograd_points(w) <= 4 * w->tile[0] * w->tile[1];
}

/* Fills args->winograd where it is faster; args are complete but for the epilogue, w are the filters. */
void opf_winograd_choose(const opf_planner *planner, opf_gemm_args *args, const opf_const *w);

/* The run, units and scratch of a step whose args have winograd. */
size_t opf_winograd_units(const opf_gemm_args *args);
void opf_winograd_step(const opf_gemm_args *args, const opf_kern *kern, opf_plan_step *step);
/* Lines [first, end) of an image: whole rows of tiles (plan/bands.h). */
void opf_winograd_run_lines(const opf_run_env *env, const void *args, size_t image, size_t first, size_t end, void *scratch);

#endif
