/* SPDX-License-Identifier: Apache-2.0 */
/* The fusion stage: rules (text files) and absorbers (C passes) run to a fixpoint; everything is reported. */
#ifndef OPF_FUSE_FUSE_H
#define OPF_FUSE_FUSE_H

#include "base/limits.h"
#include "graph/graph.h"
#include "fuse/report.h"

typedef struct opf_fuse_options {
    const char *const *only; /* rules and families; NULL: all */
    size_t             n_only;
    const char *const *skip;
    size_t             n_skip;
    const char *const *user_rules; /* texts, */
    const char *const *user_rule_files; /* and the names of the files they came from, for messages */
    size_t             n_user_rules;
    int64_t            stop_after; /* rewrites to apply at most; negative: no bound (verify --each uses it) */
    uint64_t           order;      /* not 0: rules and absorbers in this random order instead of that of their priority, for tests */
    const opf_fusion  *alone;      /* no rewrite but this one of an earlier run over the same graph; NULL: all */
} opf_fuse_options;

/* Fuses the graph in place; infos must be inferred, and are kept right. report collects rewrites and near misses in the graph's arena. */
opf_status opf_fuse(opf_graph *graph, const opf_fuse_options *options, opf_fuse_report *report, opf_error *error);

/* Parses and checks user rules without applying them: errors name file, line and column. */
opf_status opf_fuse_check_rules(const char *text, const char *file, opf_arena *arena, opf_error *error);

/* Names of all rules and absorbers, for --only and --skip; NULL-terminated, static. */
const char *const *opf_fuse_rule_names(void);

#endif
