/* SPDX-License-Identifier: Apache-2.0 */
/* What fused and what nearly did. Rules and absorbers report through these calls only. */
#ifndef OPF_FUSE_REPORT_H
#define OPF_FUSE_REPORT_H

#include "base/map.h"
#include "graph/graph.h"

#define OPF_MISS_MAP(X)                                                                                                \
    X(OP)                                                                                                              \
    X(CONST)                                                                                                           \
    X(ATTR) X(DTYPE) X(RANK) X(SHAPE) X(SHAPE_UNKNOWN) X(USED_OUTSIDE) X(IS_OUTPUT) X(CAPTURED) X(NOT_CONVEX)          \
        X(NO_KERNEL) X(NO_GAIN) X(DISABLED) X(BUDGET)
typedef enum opf_miss_code {
#define X(name) OPF_MISS_##name,
    OPF_MISS_MAP(X)
#undef X
} opf_miss_code;
const char *opf_miss_code_name(opf_miss_code code);

typedef struct opf_fusion {
    const char *rule;
    const char *anchor;        /* name of the node that carries the fusion on */
    const char *const *origin; /* ONNX nodes that this rewrite joined */
    uint32_t n_origin;
} opf_fusion;

typedef struct opf_miss {
    const char *rule;
    const char *start; /* node name */
    opf_miss_code code;
    const char *node;     /* at fault */
    const char *reason;   /* what was found and what was wanted */
    uint32_t matched, of; /* nodes */
    uint32_t next;        /* with the same start; used while misses are collected */
} opf_miss;

/* A size that is 1 or another one. */
typedef struct opf_fit {
    opf_dim part, whole;
} opf_fit;

typedef struct opf_fuse_report {
    opf_arena *arena;
    opf_fusion *fusions;
    uint32_t n_fusions, fusions_capacity;
    opf_miss *misses;
    uint32_t n_misses, misses_capacity;
    opf_dim *supposed; /* what fusions took to be at least 1: a run where one is not uses the graph as loaded */
    uint32_t n_supposed, supposed_capacity;
    opf_fit *fits; /* what fusions took to broadcast */
    uint32_t n_fits, fits_capacity;
    opf_map by_start; /* the first miss of a start node, while misses are collected */
} opf_fuse_report;

/* The origin is copied from the names given. */
bool opf_report_fusion(opf_fuse_report *report, const char *rule, const char *anchor, const char *const *origin,
                       uint32_t n_origin);
/* Keeps, per rule and start, the miss that matched most. Reason is formatted into the arena. */
bool opf_report_miss(opf_fuse_report *report, const char *rule, const char *start, opf_miss_code code, const char *node,
                     uint32_t matched, uint32_t of, const char *reason, ...) __attribute__((format(printf, 8, 9)));
/* At the end of the stage: drops misses whose start node fused otherwise (is in the origin of a fusion of the same
   family; for the faintest, of any), sorts nearest first. */
void opf_report_finish(opf_fuse_report *report);

#endif
