/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fma_probe [MILLISECONDS]: prints the GFLOP/s that one core sustains now on independent fused multiply-adds.
 * A benchmark takes it before and after each sample: when it drops, somebody else used the core. So it is the mean over
 * the whole time, not the best of it: time that the core gave to others must show.
 * The widest vectors of the machine are used, since those suffer most from a busy sibling.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define CHAINS 12 /* more than latency times throughput of any core so far */

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

#if defined(__x86_64__)
typedef float vec16 __attribute__((vector_size(64)));
typedef float vec8 __attribute__((vector_size(32)));
#define CLONE(level) __attribute__((target(level), noinline))

#define PROBE(name, level, vec, fma)                                                                                   \
    CLONE(level) static float name(long rounds)                                                                        \
    {                                                                                                                  \
        vec sums[CHAINS] = {{0}};                                                                                      \
        vec factor = (vec){0} + 0.5F;                                                                                  \
        vec term = (vec){0} + 1.0F;                                                                                    \
        for (long r = 0; r < rounds; r++) {                                                                            \
            _Pragma("GCC unroll 12") for (int i = 0; i < CHAINS; i++) {                                                \
                sums[i] = fma(sums[i], factor, term);                                                                  \
                __asm__ volatile("" : "+v"(sums[i])); /* equal chains are not merged */                                \
            }                                                                                                          \
        }                                                                                                              \
        float total = 0;                                                                                               \
        _Pragma("GCC unroll 12") for (int i = 0; i < CHAINS; i++)                                                                           \
            total += sums[i][0];                                                                                       \
        return total;                                                                                                  \
    }

#include <immintrin.h>

#define FMA16(a, b, c) (vec16)_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c))
#define FMA8(a, b, c) (vec8)_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c))
PROBE(probe_avx512, "avx512f", vec16, FMA16)
PROBE(probe_avx2, "avx2,fma", vec8, FMA8)
#endif

static float probe_scalar(long rounds)
{
    float sums[CHAINS] = {0};
    for (long r = 0; r < rounds; r++) {
        for (int i = 0; i < CHAINS; i++)
            sums[i] = sums[i] * 0.5F + 1.0F;
        __asm__ volatile("" : : "r"(sums) : "memory");
    }
    float total = 0;
    for (int i = 0; i < CHAINS; i++)
        total += sums[i];
    return total;
}

int main(int argc, char **argv)
{
    const double budget = (argc > 1 ? atof(argv[1]) : 5.0) * 1e-3;
    float (*probe)(long) = probe_scalar;
    double lanes = 1;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) {
        probe = probe_avx512;
        lanes = 16;
    } else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        probe = probe_avx2;
        lanes = 8;
    }
#endif
    const long rounds = 2000;
    double spent = 0;
    double done = 0;
    float sink = probe(rounds); /* raises the clock and warms up the units */
    const double start = seconds();
    do {
        sink += probe(rounds);
        done += (double)rounds;
        spent = seconds() - start;
    } while (spent < budget);
    printf("%.1f\n", 2.0 * CHAINS * lanes * done / spent * 1e-9);
    return sink == 0; /* keeps the sums alive */
}
