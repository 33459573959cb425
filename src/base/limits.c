/* SPDX-License-Identifier: Apache-2.0 */
#include "base/limits.h"

#include <string.h>

void opf_limits_init(opf_limits *limits)
{
#define X(text, field, value) limits->field = (value);
    OPF_LIMIT_MAP(X)
#undef X
}

opf_status opf_limits_set(opf_limits *limits, const char *name, int64_t value, opf_error *error)
{
    OPF_FAIL_IF(error, value < 0, OPF_INVALID_ARGUMENT, "limit %s is %lld, must not be negative", name, (long long)value);
    if (strcmp(name, "rank") == 0 && value > OPF_MAX_RANK)
        return opf_fail(error, OPF_INVALID_ARGUMENT, "limit rank is %lld, can be at most %d", (long long)value, OPF_MAX_RANK);
#define X(text, field, default_)                                                                                       \
    if (strcmp(name, text) == 0) {                                                                                     \
        limits->field = value;                                                                                         \
        return OPF_OK;                                                                                                 \
    }
    OPF_LIMIT_MAP(X)
#undef X
#define X(text, field, default_) " " text
    return opf_fail(error, OPF_INVALID_ARGUMENT, "no limit is called %s; there are" OPF_LIMIT_MAP(X), name);
#undef X
}
