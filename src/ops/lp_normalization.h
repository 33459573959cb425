/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What LpNormalization divides by. ONNX knows one form: the norm, and 1 where that is 0. Two attributes that no ONNX
 * model has say the others, which rules make of chains of nodes: `guard`, and the `epsilon` that goes with it.
 */
#ifndef OPF_OPS_LP_NORMALIZATION_H
#define OPF_OPS_LP_NORMALIZATION_H

#include "graph/graph.h"

typedef enum opf_lp_guard {
    OPF_LP_ZERO,  /* no guard: the norm, 1 where it is 0 */
    OPF_LP_MAX,   /* "max": max(norm, epsilon) */
    OPF_LP_ADD,   /* "add": norm + epsilon; with epsilon 0 plain division, by 0 as well */
    OPF_LP_INSIDE /* "inside": the root (p = 1: nothing) of the sum of powers + epsilon */
} opf_lp_guard;

/* As the attributes tell; *epsilon is 0 where they do not. A guard of another name is no guard. */
opf_lp_guard opf_lp_guard_of(const opf_attr *attrs, uint32_t n_attrs, float *epsilon);
/* sum: of squares if squared, else of absolute values. NaN stays NaN. */
double opf_lp_denominator(opf_lp_guard guard, double epsilon, bool squared, double sum);

#endif
