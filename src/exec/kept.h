/* SPDX-License-Identifier: Apache-2.0 */
/* Why a node stayed a kernel: the neighbour that it could have joined, and the condition that failed. */
#ifndef OPF_EXEC_KEPT_H
#define OPF_EXEC_KEPT_H

#include "exec/model.h"
#include "fuse/context.h"

typedef struct opf_kept_finder {
    const opf_model *model;
    opf_arena       *arena; /* for reasons */
    opf_fuse_options options;
    opf_fuse_report  report; /* not read: the conditions of the fusion stage want one */
    opf_fuse_context context;
} opf_kept_finder;

void opf_kept_begin(opf_kept_finder *finder, const opf_model *model, opf_arena *arena, opf_arena *scratch);

/* Whether a step is of a kind that needs a reason: elementwise, normalisation, data movement, copies. */
bool opf_kept_wants_reason(const opf_graph *graph, const opf_plan_step *step);

/* The operator that a step counts under: a fused node under its anchor, a copy as Copy, a region as Elementwise. */
const char *opf_kept_op(const opf_graph *graph, const opf_plan_step *step);

/* runs: by node of plan->graph, whether any step computes it. entry.reason is NULL when memory is out. */
opf_kept_entry opf_kept_reason(opf_kept_finder *finder, const opf_plan *plan, const opf_plan_step *step, const bool *runs);

#endif
