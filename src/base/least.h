/* SPDX-License-Identifier: Apache-2.0 */
/* The smaller and the larger of two. */
#ifndef OPF_BASE_LEAST_H
#define OPF_BASE_LEAST_H

#include <stddef.h>
#include <stdint.h>

static inline int64_t opf_least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t opf_most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static inline size_t opf_least_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

#endif
