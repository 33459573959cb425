/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_kernels [MILLISECONDS]: the speed of each kernel at each level of this machine, best of many short samples that
 * alternate with a probe. Products print their share of fused multiply-adds at the same level, and one that stays below
 * the share it owes is named at the end (exit code 1). Other kernels print nanoseconds a call, cycles of that probe an
 * element (a core does two vectors of the level a cycle), and their share of memcpy's bandwidth on as many bytes, in cache
 * and, for those that stream, out of it.
 */
#include "cpu/cpu.h"
#include "kernels/kern.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* ---- the probe: 10 independent chains, GFLOP/s ---- */

typedef float (*probe_fn)(size_t rounds);
enum { CHAINS = 10 };

#define PROBE(name, vec)                                                                                               \
    static float name(size_t rounds)                                                                                   \
    {                                                                                                                  \
        vec x[CHAINS] = {0}, factor = {0}, term = {0};                                                                 \
        factor += 0.5f;                                                                                                \
        term += 1.0f;                                                                                                  \
        for (size_t r = 0; r < rounds; r++)                                                                            \
            _Pragma("GCC unroll 10") for (int i = 0; i < CHAINS; i++)                                                  \
                STEP(x[i]);                                                                                            \
        float total = 0;                                                                                               \
        _Pragma("GCC unroll 10") for (int i = 0; i < CHAINS; i++) total += x[i][0];                                    \
        return total;                                                                                                  \
    }

#ifdef __x86_64__
typedef float vec8 __attribute__((vector_size(32)));
typedef float vec16 __attribute__((vector_size(64)));
#define STEP(x) __asm__ volatile("vfmadd213ps %2, %1, %0" : "+v"(x) : "v"(factor), "v"(term))
__attribute__((target("avx2,fma"), noinline)) PROBE(probe_avx2, vec8)
__attribute__((target("avx512f"), noinline)) PROBE(probe_avx512, vec16)
#undef STEP
#endif
typedef float vec4 __attribute__((vector_size(16)));
#define STEP(x)                                                                                                        \
    do {                                                                                                               \
        x = x * factor + term;                                                                                         \
        __asm__ volatile("" : : : "memory");                                                                           \
    } while (0)
PROBE(probe_scalar, vec4)

typedef struct level_info {
    probe_fn probe;
    double   lanes;
} level_info;

static level_info info_of(opf_cpu_level level)
{
#ifdef __x86_64__
    if (level == OPF_CPU_AVX512)
        return (level_info){probe_avx512, 16};
    if (level == OPF_CPU_AVX2)
        return (level_info){probe_avx2, 8};
#endif
    (void)level;
    return (level_info){probe_scalar, 4};
}

static volatile float sink;
static double         sample_seconds = 0.04;

static double probe_gflops(level_info info)
{
    enum { ROUNDS = 4000 };
    const double start = seconds();
    sink               = info.probe(ROUNDS);
    return 2e-9 * ROUNDS * CHAINS * info.lanes / (seconds() - start);
}

/* ---- measuring ---- */

typedef struct result {
    double ns;    /* a call, at best */
    double probe; /* GFLOP/s of the probe, at best */
    double copy;  /* ns that memcpy takes to read and write as many bytes, at best */
} result;
typedef void (*work_fn)(void *work);

static void *volatile copy_src, *volatile copy_dst; /* half the bytes of every case fit */

static void copy_bytes(size_t bytes)
{
    memcpy(copy_dst, copy_src, bytes / 2);
}

/* bytes: what a call reads and writes; 0: no bandwidth is wanted. */
static result measure(level_info info, work_fn run, void *work, size_t bytes)
{
    size_t calls = 1;
    for (;; calls *= 2) { /* a sample lasts about 100 us */
        const double start = seconds();
        for (size_t i = 0; i < calls; i++)
            run(work);
        if (seconds() - start > 5e-5)
            break;
    }
    result       best = {INFINITY, 0, INFINITY};
    const double stop = seconds() + sample_seconds;
    do {
        best.probe         = fmax(best.probe, probe_gflops(info));
        const double start = seconds();
        for (size_t i = 0; i < calls; i++)
            run(work);
        const double middle = seconds();
        best.ns             = fmin(best.ns, 1e9 * (middle - start) / (double)calls);
        for (size_t i = 0; i < calls && bytes != 0; i++)
            copy_bytes(bytes);
        best.copy = fmin(best.copy, 1e9 * (seconds() - middle) / (double)calls);
    } while (seconds() < stop);
    return best;
}

/* ---- products ---- */

enum { BUFFER = 1 << 19 };
static _Alignas(64) float buffer_a[BUFFER], buffer_b[BUFFER], buffer_c[BUFFER];

typedef struct product {
    const opf_kern *kern;
    size_t          m, n, k, rows; /* rows of a tile */
} product;

static void run_product(void *work)
{
    const product  *p    = work;
    const opf_kern *kern = p->kern;
    const float    *rows[32];
    const size_t    lda = p->k + 16;
    for (size_t j = 0; j < p->n; j += kern->nr)
        for (size_t i = 0; i < p->m; i += p->rows) {
            const size_t height = p->m - i < p->rows ? p->m - i : p->rows;
            for (size_t r = 0; r < kern->mr; r++)
                rows[r] = buffer_a + (i + (r < height ? r : 0)) * lda;
            const opf_gemm_tile tile = {.a = rows, .taps = 1, .kc = p->k, .b = buffer_b + j * p->k, .c = buffer_c + i * p->n + j,
                                        .c_stride = (ptrdiff_t)p->n, .lo = -INFINITY, .hi = INFINITY};
            kern->gemm(&tile, height, p->n - j < kern->nr ? p->n - j : kern->nr);
        }
}

/* The same in tiles below one another. */
static void run_strip(void *work)
{
    const product *p = work;
    for (size_t j = 0; j < p->n; j += p->kern->nr) {
        const opf_gemm_strip strip = {.a = buffer_a, .a_row = (ptrdiff_t)p->k, .tiles = p->m / p->rows,
                                      .tile = {.taps = 1, .kc = p->k, .b = buffer_b + j * p->k, .c = buffer_c + j,
                                               .c_stride = (ptrdiff_t)p->n, .lo = -INFINITY, .hi = INFINITY}};
        p->kern->gemm_strip(&strip, p->rows, p->n - j < p->kern->nr ? p->n - j : p->kern->nr);
    }
}

static int bench_products(const opf_kern *kern, level_info info)
{
    const size_t mr = kern->mr, nr = kern->nr;
    const struct {
        size_t m, n, k, rows;
        double owed;
        bool   strip;
    } cases[] = {
        {10 * mr, 4 * nr, 256, mr, 0.90, true}, {10 * mr, 4 * nr, 64, mr, 0, true}, {10 * mr, 4 * nr, 24, mr, 0, true},
        {mr, nr, 256, mr, 0.90, false},         {mr, nr, 1024, mr, 0.90, false},      {10 * mr, 4 * nr, 256, mr, 0.90, false},
        {10 * mr, 4 * nr, 768, mr, 0.90, false}, {mr, nr / 2, 256, mr, 0, false},      {10 * mr, 4 * nr, 24, mr, 0, false},
        {1, 4 * nr, 512, 1, 0, false},          {2, 4 * nr, 512, 2, 0, false},        {4, 4 * nr, 512, 4, 0, false},
        {mr / 2, 4 * nr, 512, mr / 2, 0, false}, {mr - 2, 4 * nr, 512, mr - 2, 0, false},
    };
    int slow = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        product      p     = {kern, cases[i].m, cases[i].n, cases[i].k, cases[i].rows};
        const result best  = measure(info, cases[i].strip ? run_strip : run_product, &p, 0);
        const double rate  = 2 * (double)(p.m * p.n * p.k) / best.ns;
        const int    below = info.lanes > 4 && rate < cases[i].owed * best.probe;
        printf("  %-16s%s %4zu x %4zu x %4zu %8.1f GFLOP/s %5.1f %% of %.0f%s\n", kern->gemm_name, cases[i].strip ? " strip" : "      ", p.m, p.n, p.k, rate,
               100 * rate / best.probe, best.probe, below ? "  BELOW" : "");
        slow += below;
    }
    return slow;
}

/* ---- the other slots ---- */

typedef struct other {
    const opf_kern *kern;
    size_t          n;
    opf_ew          ew;
} other;

static const float params[2] = {0.2f, 0.5f};

static void run_ew(void *work)
{
    const other *o = work;
    o->kern->ew[o->ew](buffer_c, buffer_a, buffer_b, o->n, params);
}
static void run_layer_norm(void *work)
{
    const other *o = work;
    o->kern->layer_norm(buffer_a, buffer_b, buffer_b, buffer_c, o->n, 1e-5f, NULL, NULL);
}
static void run_rms_norm(void *work)
{
    const other *o = work;
    o->kern->rms_norm(buffer_a, buffer_b, buffer_c, o->n, 1e-5f);
}
static void run_softmax(void *work)
{
    const other *o = work;
    o->kern->softmax(buffer_a, buffer_c, o->n);
}
static void run_log_softmax(void *work)
{
    const other *o = work;
    o->kern->log_softmax(buffer_a, buffer_c, o->n);
}
static void run_reduce_sum(void *work)
{
    const other *o = work;
    sink           = o->kern->reduce_sum(buffer_a, o->n);
}
static void run_reduce_max(void *work)
{
    const other *o = work;
    sink           = o->kern->reduce_max(buffer_a, o->n);
}

enum { LINE = 28, WINDOW = 9, DOWN = 8 }; /* pixels of a line, and of 3x3; lines */
static void run_depthwise(void *work)
{
    enum { LINES = DOWN, TAPS = 3 };
    const other        *o = work;
    const float        *rows[LINES * TAPS];
    const ptrdiff_t     line = (ptrdiff_t)(LINE * o->n);
    const opf_depthwise d = {.rows = rows, .w = buffer_b, .w_tap = o->n, .lines = LINES, .n_rows = TAPS, .taps = TAPS, .step = 1, .in = LINE, .first = -1,
                             .stride = 1, .dilation = 1, .pixel = (ptrdiff_t)o->n, .dst = buffer_c, .dst_line = line,
                             .dst_pixel = (ptrdiff_t)o->n, .pixels = LINE, .c = o->n, .lo = 0.0f, .hi = 6.0f};
    for (size_t r = 0; r < LINES * TAPS; r++)
        rows[r] = buffer_a + (ptrdiff_t)(r / TAPS + r % TAPS) * line;
    o->kern->depthwise(&d);
}
enum { POOLED = LINE / 2 - 1 };
static void run_pool_max(void *work)
{
    const other *o = work;
    const float *taps[WINDOW];
    for (size_t t = 0; t < WINDOW; t++)
        taps[t] = buffer_a + (t / 3 * LINE + t % 3) * o->n;
    o->kern->pool_max(&(opf_pool){.taps = taps, .n_taps = WINDOW, .pixel = 2 * (ptrdiff_t)o->n, .dst = buffer_c, .dst_pixel = (ptrdiff_t)o->n,
                                  .pixels = POOLED, .c = o->n});
}
static void run_pixel_sum(void *work)
{
    const other *o = work;
    o->kern->pixel_sum(buffer_a, (ptrdiff_t)o->n, 49, 1.0f / 49, buffer_c, o->n);
}
static void run_transpose(void *work)
{
    const other *o = work;
    o->kern->copy_2d(buffer_a, 1, (ptrdiff_t)o->n, buffer_c, (ptrdiff_t)o->n, o->n, o->n);
}
static void run_program(void *work)
{
    const other      *o       = work;
    const opf_program program = {.n = 3, .n_operands = 2, .n_stores = 0,
                                 .instr = {{.op = OPF_EW_ADD, .args = {0, -1}, .store = -1},
                                           {.op = OPF_EW_MUL, .args = {1, -2}, .store = -1},
                                           {.op = OPF_EW_RELU, .args = {2, 0}, .store = -1}}};
    const opf_operand operands[2] = {{.data = buffer_b, .row = (ptrdiff_t)o->n, .col = 1}, {.data = buffer_b, .col = 1}};
    static float      scratch[1 << 14];
    opf_program_run(o->kern, &program, operands, NULL, buffer_a, (ptrdiff_t)o->n, buffer_c, (ptrdiff_t)o->n, 12, o->n, scratch);
}

/* floats: what a call reads and writes. */
static void print_other(const char *name, const opf_kern *kern, level_info info, size_t n, double elements, double floats, opf_ew ew,
                        work_fn run)
{
    other        o     = {kern, n, ew};
    const size_t bytes = (size_t)floats * sizeof(float);
    const result best  = measure(info, run, &o, bytes);
    const double ghz   = best.probe / (4 * info.lanes);
    printf("  %-16s n %8zu %11.1f ns %7.3f cycles an element %7.1f GB/s %5.1f %% of memcpy\n", name, n, best.ns,
           best.ns * ghz / elements, (double)bytes / best.ns, 100 * best.copy / best.ns);
}

static bool reads_two(opf_ew ew)
{
    return (ew >= OPF_EW_ADD && ew <= OPF_EW_POW) || ew == OPF_EW_PRELU;
}

static void bench_others(const opf_kern *kern, level_info info)
{
#define X(name) print_other(#name, kern, info, 1024, 1024, 1024 * (reads_two(OPF_EW_##name) ? 3 : 2), OPF_EW_##name, run_ew);
    OPF_EW_MAP(X)
#undef X
    static const struct {
        const char *name;
        work_fn     run;
        size_t      n, factor; /* elements are n * factor */
        double      floats;    /* read and written, in n */
    } cases[] = {
        {"layer_norm", run_layer_norm, 768, 1, 4},
        {"rms_norm", run_rms_norm, 768, 1, 3},
        {"softmax", run_softmax, 128, 1, 2},
        {"softmax", run_softmax, 1024, 1, 2},
        {"log_softmax", run_log_softmax, 1024, 1, 2},
        {"reduce_sum", run_reduce_sum, 768, 1, 1},
        {"reduce_max", run_reduce_max, 768, 1, 1},
        {"depthwise 3x3", run_depthwise, 144, DOWN * LINE * WINDOW, 2 * (DOWN + 1) * LINE + WINDOW},
        {"depthwise 3x3", run_depthwise, 384, DOWN * LINE * WINDOW, 2 * (DOWN + 1) * LINE + WINDOW},
        {"pool_max 3x3", run_pool_max, 24, POOLED * WINDOW, 3 * LINE + POOLED},
        {"pool_max 3x3", run_pool_max, 64, POOLED * WINDOW, 3 * LINE + POOLED},
        {"pixel_sum 7x7", run_pixel_sum, 512, 49, 50},
        {"transpose", run_transpose, 64, 64, 2 * 64},
        {"transpose", run_transpose, 512, 512, 2 * 512},
        {"program 12 rows", run_program, 32, 12, 3 * 12 + 1},
        {"program 12 rows", run_program, 768, 12, 3 * 12 + 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        print_other(cases[i].name, kern, info, cases[i].n, (double)(cases[i].n * cases[i].factor), (double)cases[i].n * cases[i].floats,
                    OPF_EW_COPY, cases[i].run);
}

/* ---- out of cache ---- */

enum { LARGE = 1 << 24, ROW = 768 }; /* floats; three of them are far more than any cache */
static float *large_a, *large_b, *large_c;

static void run_large_ew(void *work)
{
    const other *o = work;
    o->kern->ew[o->ew](large_c, large_a, large_b, o->n, params);
}
static void run_large_layer_norm(void *work)
{
    const other *o = work;
    for (size_t i = 0; i + ROW <= o->n; i += ROW)
        o->kern->layer_norm(large_a + i, buffer_b, buffer_b, large_c + i, ROW, 1e-5f, NULL, NULL);
}
static void run_large_softmax(void *work)
{
    const other *o = work;
    for (size_t i = 0; i + ROW <= o->n; i += ROW)
        o->kern->softmax(large_a + i, large_c + i, ROW);
}

static void bench_large(const opf_kern *kern, level_info info)
{
    print_other("ADD", kern, info, LARGE / 2, LARGE / 2, 1.5 * LARGE, OPF_EW_ADD, run_large_ew);
    print_other("RELU", kern, info, LARGE, LARGE, 2.0 * LARGE, OPF_EW_RELU, run_large_ew);
    print_other("GELU", kern, info, LARGE, LARGE, 2.0 * LARGE, OPF_EW_GELU, run_large_ew);
    print_other("layer_norm rows", kern, info, LARGE, LARGE, 2.0 * LARGE, OPF_EW_COPY, run_large_layer_norm);
    print_other("softmax rows", kern, info, LARGE, LARGE, 2.0 * LARGE, OPF_EW_COPY, run_large_softmax);
}

static void fill(float *values, size_t n, size_t factor)
{
    for (size_t i = 0; i < n; i++)
        values[i] = (float)((i * factor >> 8) % 2001) * 1e-3f - 1.0f;
}

static float *allocate_large(void)
{
    float *values = aligned_alloc(64, LARGE * sizeof *values);
    if (values == NULL) {
        fputs("bench_kernels: not enough memory\n", stderr);
        exit(1);
    }
    fill(values, LARGE, 2654435761u);
    return values;
}

int main(int argc, char **argv)
{
    if (argc > 1)
        sample_seconds = 1e-3 * strtod(argv[1], NULL);
    fill(buffer_a, BUFFER, 2654435761u);
    fill(buffer_b, BUFFER, 2246822519u);
    large_a = allocate_large();
    large_b = allocate_large();
    large_c = allocate_large();
    int slow = 0;
    for (opf_cpu_level level = OPF_CPU_SCALAR; level <= opf_cpu_detect(); level++) {
        opf_kern kern;
        opf_kern_init(&kern, level);
        printf("%s\n", opf_cpu_level_name(level));
        copy_src = buffer_a;
        copy_dst = buffer_c;
        slow += bench_products(&kern, info_of(level));
        bench_others(&kern, info_of(level));
        copy_src = large_a;
        copy_dst = large_c;
        bench_large(&kern, info_of(level));
    }
    if (slow)
        printf("%d products below the share they owe\n", slow);
    free(large_a);
    free(large_b);
    free(large_c);
    return slow > 0;
}
