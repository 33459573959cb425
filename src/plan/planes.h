/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions of few filters: a variant of the product step, whose bias, residual, clamp and epilogue are those of the product. */
#ifndef OPF_PLAN_PLANES_H
#define OPF_PLAN_PLANES_H

#include "plan/gemm.h"

/* Whether a convolution is better computed so; then sets rows and lines. args have the image and its window. */
opf_status opf_planes_try(opf_planner *planner, opf_gemm_args *args, bool *taken, opf_error *error);

/* The run, units and scratch of a step whose rows are planes. */
void opf_planes_step(const opf_gemm_args *args, opf_plan_step *step);

#endif
