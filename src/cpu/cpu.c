/* SPDX-License-Identifier: Apache-2.0 */
#include "cpu/cpu.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>

static uint64_t read_xcr0(void)
{
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

/* The instructions, and an operating system that saves their registers (XCR0). */
opf_cpu_level opf_cpu_detect(void)
{
    enum { FMA = 1 << 12, OSXSAVE = 1 << 27, AVX = 1 << 28, F16C = 1 << 29 };                  /* leaf 1, ecx */
    enum { AVX2 = 1 << 5, AVX512F = 1 << 16, AVX512DQ = 1 << 17, AVX512BW = 1 << 30 };         /* leaf 7, ebx */
    const uint32_t avx512vl = (uint32_t)1 << 31, avx512 = AVX512F | AVX512DQ | AVX512BW | avx512vl;
    const uint32_t base = FMA | OSXSAVE | AVX | F16C;
    uint32_t       a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & base) != base)
        return OPF_CPU_SCALAR;
    const uint64_t saved = read_xcr0(), ymm = 0x6, zmm = 0xe6;
    if ((saved & ymm) != ymm || !__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(b & AVX2))
        return OPF_CPU_SCALAR;
    return (saved & zmm) == zmm && (b & avx512) == avx512 ? OPF_CPU_AVX512 : OPF_CPU_AVX2;
}

/* Bytes of the data or unified cache of a level, 0 when CPUID does not tell (leaf 4, or 0x8000001d on AMD). */
static size_t cache_bytes(uint32_t level)
{
    static const uint32_t leaves[] = {4, 0x8000001d};
    for (size_t l = 0; l < 2; l++) {
        for (uint32_t i = 0; i < 16; i++) {
            uint32_t a, b, c, d;
            if (!__get_cpuid_count(leaves[l], i, &a, &b, &c, &d) || (a & 31) == 0)
                break;
            if ((a >> 5 & 7) == level && (a & 31) != 2)
                return (size_t)((b >> 22) + 1) * ((b >> 12 & 0x3ff) + 1) * ((b & 0xfff) + 1) * ((size_t)c + 1);
        }
    }
    return 0;
}
#else
opf_cpu_level opf_cpu_detect(void)
{
    return OPF_CPU_SCALAR;
}

static size_t cache_bytes(uint32_t level)
{
    (void)level;
    return 0;
}
#endif

const char *opf_cpu_level_name(opf_cpu_level level)
{
    switch (level) {
    case OPF_CPU_AUTO: return "auto";
    case OPF_CPU_SCALAR: return "scalar";
    case OPF_CPU_AVX2: return "avx2";
    case OPF_CPU_AVX512: return "avx512";
    }
    return "unknown";
}

static size_t first_of(size_t cpuid, int name, size_t fallback)
{
    if (cpuid)
        return cpuid;
    const long bytes = name < 0 ? -1 : sysconf(name);
    return bytes > 0 ? (size_t)bytes : fallback;
}

#ifdef _SC_LEVEL1_DCACHE_SIZE
enum { L1_NAME = _SC_LEVEL1_DCACHE_SIZE, L2_NAME = _SC_LEVEL2_CACHE_SIZE, L3_NAME = _SC_LEVEL3_CACHE_SIZE };
#else
enum { L1_NAME = -1, L2_NAME = -1, L3_NAME = -1 };
#endif

/* CPUID leaves a virtual machine each time it is asked, which takes longer than planning a step. */
static size_t ask_once(_Atomic size_t *known, uint32_t level, int name, size_t fallback)
{
    size_t bytes = atomic_load(known);
    if (bytes == 0)
        atomic_store(known, bytes = first_of(cache_bytes(level), name, fallback));
    return bytes;
}

size_t opf_cpu_l1_bytes(void)
{
    static _Atomic size_t known;
    return ask_once(&known, 1, L1_NAME, 32u << 10);
}

size_t opf_cpu_l2_bytes(void)
{
    static _Atomic size_t known;
    return ask_once(&known, 2, L2_NAME, 512u << 10);
}

size_t opf_cpu_l3_bytes(void)
{
    static _Atomic size_t known;
    return ask_once(&known, 3, L3_NAME, opf_cpu_l2_bytes());
}
