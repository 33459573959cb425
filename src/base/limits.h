/* SPDX-License-Identifier: Apache-2.0 */
/* Limits that guard against bad models: names and defaults in one list. */
#ifndef OPF_BASE_LIMITS_H
#define OPF_BASE_LIMITS_H

#include "base/status.h"

/* name on the command line, field, default. memory 0: 90 % of RAM or of the cgroup, filled in by the caller. */
#define OPF_LIMIT_MAP(X)                                                                                               \
    X("model-bytes", model_bytes, (int64_t)64 << 30)                                                                   \
    X("nodes", nodes, 1000000)                                                                                         \
    X("rank", rank, OPF_MAX_RANK)                                                                                      \
    X("depth", depth, 64)                                                                                              \
    X("tensor-bytes", tensor_bytes, (int64_t)1 << 40)                                                                  \
    X("memory", memory, 0)                                                                                             \
    X("folding", folding, 16 << 20)                                                                                    \
    X("loop-trips", loop_trips, 1000000000)

typedef struct opf_limits {
#define X(text, field, value) int64_t field;
    OPF_LIMIT_MAP(X)
#undef X
} opf_limits;

void opf_limits_init(opf_limits *limits);
/* OPF_INVALID_ARGUMENT names the limits there are. */
opf_status opf_limits_set(opf_limits *limits, const char *name, int64_t value, opf_error *error);

#endif
