/* SPDX-License-Identifier: Apache-2.0 */
/* checkkernels [SEED]: every slot of the kernel table at every level of this machine. */
#include "check.h"

#include "cpu/cpu.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BUFFERS = 128, BAND = 64 };
static const uint32_t band_bits = 0x7fabcdefu; /* a NaN that no kernel makes */

typedef struct buffer {
    char  *base; /* between two unreadable pages */
    float *data;
    size_t n;
} buffer;
static buffer buffers[BUFFERS];
static size_t buffer_bytes = (size_t)1 << 20;

static void make_buffers(void)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (int i = 0; i < BUFFERS; i++) {
        char *p = mmap(NULL, buffer_bytes + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED || mprotect(p + page, buffer_bytes, PROT_READ | PROT_WRITE)) {
            fprintf(stderr, "no memory for the arrays\n");
            exit(4);
        }
        buffers[i].base = p + page;
    }
}

static void set_band(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        memcpy(x + i, &band_bits, sizeof band_bits);
}
static bool is_band(const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (memcmp(x + i, &band_bits, sizeof band_bits) != 0)
            return false;
    return true;
}

void check_reset(checker *check)
{
    check->n_buffers = 0;
}

float *check_array(checker *check, size_t n)
{
    const size_t total = buffer_bytes / sizeof(float);
    if (check->n_buffers == BUFFERS || n + BAND > total) {
        fprintf(stderr, "an array of %zu floats does not fit the checks\n", n);
        exit(4);
    }
    buffer *b     = &buffers[check->n_buffers++];
    float  *start = (float *)(void *)b->base;
    b->n          = n;
    if (check_random(check, 2)) {
        b->data = start + total - n;
        set_band(b->data - BAND, BAND);
    } else {
        b->data = start;
        set_band(b->data + n, BAND);
    }
    set_band(b->data, n);
    return b->data;
}

void check_bands(checker *check)
{
    for (int i = 0; i < check->n_buffers; i++) {
        const buffer *b     = &buffers[i];
        const float  *other = (const void *)b->base == (const void *)b->data ? b->data + b->n : b->data - BAND;
        if (!is_band(other, BAND))
            check_fail(check, "array %d: written outside", i);
    }
}

uint64_t check_random(checker *check, uint64_t below)
{
    uint64_t x = check->random += 0x9e3779b97f4a7c15u;
    x          = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x          = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return (x ^ x >> 31) % below;
}

double check_uniform(checker *check)
{
    return (double)check_random(check, (uint64_t)1 << 53) * 0x1p-53;
}

double check_normal(checker *check)
{
    double sum = -6;
    for (int i = 0; i < 12; i++)
        sum += check_uniform(check);
    return sum;
}

void check_fill(checker *check, float *x, size_t n, double scale)
{
    for (size_t i = 0; i < n; i++)
        x[i] = (float)(scale * check_normal(check));
}

void check_spoil(checker *check, float *x, size_t n)
{
    if (n != 0)
        x[check_random(check, n)] = check_random(check, 2) ? NAN : INFINITY;
}

size_t check_size(checker *check, size_t least, size_t most)
{
    static const size_t steps[] = {1, 8, 16, 32, 64, 128};
    size_t              n       = check_random(check, 3) ? steps[check_random(check, 6)] * (check_random(check, 3) + 1) +
                                                               (size_t)check_random(check, 3) - 1
                                                         : check_random(check, most + 1);
    if (check_random(check, 16) == 0)
        n = 0;
    return n < least ? least : n > most ? most : n;
}

void check_fail(checker *check, const char *format, ...)
{
    if (check->failed)
        return;
    check->failed = true;
    va_list list;
    va_start(list, format);
    vsnprintf(check->message, sizeof check->message, format, list);
    va_end(list);
}

bool check_same(float a, float b)
{
    return a == b || (isnan(a) && isnan(b));
}

static int64_t ordinal(float x)
{
    int32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits < 0 ? -(int64_t)(bits & INT32_MAX) : bits;
}

double check_ulps(float got, double want)
{
    const float rounded = (float)want;
    if (check_same(got, rounded))
        return 0;
    if (isnan(got) || isnan(rounded))
        return INFINITY;
    if (isinf(got) || isinf(rounded))
        return fabs((double)(ordinal(got) - ordinal(rounded)));
    int exponent;
    frexp(want, &exponent);
    return fabs((double)got - want) / ldexp(1, exponent - 24 < -149 ? -149 : exponent - 24);
}

static const check_family *const families[] = {&check_ew_family,     &check_gemm_family, &check_row_family,
                                               &check_window_family, &check_copy_family, &check_program_family, &check_norm_family,
                                               &check_depthwise_family, &check_grouped_family, &check_winograd_family, &check_resize_family, &check_planes_family};
enum { FAMILIES = sizeof families / sizeof *families };

static bool same_pointer(const opf_kern *a, const opf_kern *b, size_t offset)
{
    return memcmp((const char *)a + offset, (const char *)b + offset, sizeof(void (*)(void))) == 0;
}

int main(int argc, char **argv)
{
    const uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1; /* the same draws each time, unless asked for others */
    printf("seed %llu\n", (unsigned long long)seed);
    make_buffers();

    int passed = 0, failed = 0, skipped = 0;
    for (opf_cpu_level level = OPF_CPU_SCALAR; level <= OPF_CPU_AVX512; level++) {
        opf_kern kern, below;
        opf_kern_init(&kern, level);
        opf_kern_init(&below, level == OPF_CPU_SCALAR ? level : level - 1);
        for (int f = 0; f < FAMILIES; f++)
            for (size_t i = 0; i < families[f]->n; i++) {
                const check_slot *slot = &families[f]->slots[i];
                if (level > opf_cpu_detect()) {
                    skipped++;
                    continue;
                }
                if (level != OPF_CPU_SCALAR && same_pointer(&kern, &below, slot->offset))
                    continue; /* the kernel of the level below */
                checker check = {.kern = &kern, .random = seed * 1000003u + (uint64_t)f * 101u + i};
                slot->run(&check, slot->index);
                if (check.failed) {
                    printf("FAIL %s %s: %s\n", opf_cpu_level_name(level), slot->name, check.message);
                    failed++;
                } else {
                    passed++;
                }
            }
        if (level > opf_cpu_detect())
            printf("skipped: this machine lacks %s\n", opf_cpu_level_name(level));
    }
    printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
    return failed > 0;
}
