/* SPDX-License-Identifier: Apache-2.0 */
/* Reproducible random numbers: splitmix64 (Steele, Lea, Flood 2014). */
#ifndef OPF_BASE_RANDOM_H
#define OPF_BASE_RANDOM_H

#include <math.h>
#include <stdint.h>

typedef struct opf_random {
    uint64_t state;
} opf_random;

static inline void opf_random_init(opf_random *random, uint64_t seed)
{
    random->state = seed;
}

static inline uint64_t opf_random_next(opf_random *random)
{
    uint64_t z = (random->state += UINT64_C(0x9e3779b97f4a7c15));
    z          = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z          = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* In [0, 1). */
static inline double opf_random_uniform(opf_random *random)
{
    return (double)(opf_random_next(random) >> 11) * 0x1p-53;
}

/* N(0, 1), by Box and Muller. */
static inline double opf_random_normal(opf_random *random)
{
    double u = opf_random_uniform(random) + 0x1p-54, v = opf_random_uniform(random);
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

#endif
