/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 3x3 convolutions of stride 1 by Winograd's F(4x4, 3x3) or F(2x2, 3x3): a variant of the product step. Bias, residual, clamp and epilogue
 * are those of the product; a tile whose sums are not finite is computed again by it.
 */
#ifndef OPF_PLAN_WINOGRAD_H
#define OPF_PLAN_WINOGRAD_H

#include "plan/gemm.h"

static inline size_t opf_winograd_points(const opf_winograd *w)
{
    return (w->size + 2) * (w->size + 2);
}

/* Fills args->winograd where it is faster; args are complete but for the epilogue, w are the filters. */
void opf_winograd_choose(const opf_planner *planner, opf_gemm_args *args, const opf_const *w);

/* The run, units and scratch of a step whose args have winograd. */
void opf_winograd_step(const opf_gemm_args *args, const opf_kern *kern, opf_plan_step *step);
/* Lines [first, end) of an image: whole rows of tiles (plan/bands.h). */
void opf_winograd_run_lines(const opf_run_env *env, const void *args, size_t image, size_t first, size_t end, void *scratch);

#endif
