/* SPDX-License-Identifier: Apache-2.0 */
/* Quotients and multiples, rounded up. */
#ifndef OPF_BASE_ROUND_H
#define OPF_BASE_ROUND_H

#include <stddef.h>
#include <stdint.h>

static inline size_t opf_divide_up(size_t a, size_t b)
{
    return (a + b - 1) / b;
}

static inline int64_t opf_round_up(int64_t n, int64_t multiple)
{
    return (n + multiple - 1) / multiple * multiple;
}

/* To whole cache lines. */
static inline size_t opf_round_64(size_t bytes)
{
    return (bytes + 63) & ~(size_t)63;
}

#endif
