/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A reduction as it runs: [outer][n][columns] elements to [outer][columns] results. Either the n elements of a result
 * are neighbours (by_row, one column), or the columns are. The prologue runs over a tile that stays in L1 and is
 * reduced there; the results of tiles are joined in double, in their order, so that threads change nothing.
 */
#ifndef OPF_PLAN_REDUCE_H
#define OPF_PLAN_REDUCE_H

#include "plan/steps.h"

typedef enum opf_fold {
    OPF_FOLD_SUM,
    OPF_FOLD_ABS,    /* sum of absolute values */
    OPF_FOLD_SQUARE, /* of squares */
    OPF_FOLD_EXP,    /* of exp(x - greatest x) */
    OPF_FOLD_PRODUCT,
    OPF_FOLD_MAX
} opf_fold;

typedef enum opf_finish {
    OPF_FINISH_NONE, /* but for the divisor */
    OPF_FINISH_NEGATE,
    OPF_FINISH_ROOT,
    OPF_FINISH_LOG
} opf_finish;

typedef struct opf_reduction {
    opf_fold fold;
    opf_finish finish;
    double divisor; /* n of a mean, else 1 */
    bool by_row;
    bool gathers; /* x is an operand of the prologue: what is reduced does not lie in rows or columns */
    size_t outer, n, columns;
    size_t block, blocks; /* columns of a unit; units side by side */
    size_t piece, pieces; /* of n, of a unit; each has a result of its own */
    opf_ref x, y;         /* y is dense */
    ptrdiff_t x_outer, x_n;
    const int64_t *x_outers; /* offset of every outer index where no one stride tells it; else NULL */
    size_t rows, together;   /* outer indices that the prologue counts as rows; how many of them run at once */
    ptrdiff_t x_row;         /* between those */
    opf_bound prologue, epilogue;
    size_t line; /* results along the last axis that has more than one: the epilogue's columns */
} opf_reduction;

/* Sets block and piece, and what follows from them; the rest is set. Where so few units would be left that threads had
   nothing to share, a result is taken in pieces (may_split: it can be). */
void opf_reduction_divide(opf_reduction *r, bool may_split);
size_t opf_reduction_units(const opf_reduction *r);
size_t opf_reduction_scratch(const opf_reduction *r); /* bytes */
/* Of a plan step; args: an opf_reduction. */
void opf_reduction_run(const opf_run_env *env, const void *args, size_t begin, size_t end, void *scratch);

#endif
