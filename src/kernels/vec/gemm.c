/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tile product: an outer product that keeps rows x 2 vectors of accumulators in registers over the whole of taps * kc.
 * The bias is their initial value; residual and clamp come before the only store. AVX2: 6x16, 12 accumulators, two vectors
 * of B and a broadcast of 16 registers. AVX-512: 12x32; 14 rows would fit the vectors, but not their pointers the integer
 * registers. There is one function a (rows, vectors) pair, so that a tile of few rows or half a panel costs what it
 * computes. An element is summed in the order of k in any of them, SUM products at a time: results do not depend on how
 * rows are split, and their error grows with SUM and the number of such sums, not with taps * kc (on ResNet-50: 0.4 times).
 * The lines form differs in how it reaches A only: all rows lie on one line, so they need one pointer a k.
 */
#include "kernels/vec/gemm.h"

#define NAME_OF(mr, nr) "gemm_f32_" #mr "x" #nr
#if V_N == 16
#define NAME        NAME_OF(12, 32)
#else
#define NAME        NAME_OF(6, 16)
#endif

enum { FEW = 2 }; /* lines of each half of the next panel in CHUNK steps that may be fetched at once */

#define STEP(r)                                                                                                        \
    if (r < rows) {                                                                                                    \
        const v_f x = v_set(step == 0 ? row[r][k] : line[r * step]);                                                   \
        acc[r][0]   = v_fma(x, b0, acc[r][0]);                                                                         \
        if (vecs > 1)                                                                                                  \
            acc[r][1] = v_fma(x, b1, acc[r][1]);                                                                       \
    }
/* Two steps a turn: more are left with too few registers for the rows' addresses. */
#define STEPS(fetch)                                                                                                   \
    _Pragma("GCC unroll 2") for (size_t k = k0; k < k1; k++, b += NR) {                                                \
        const v_f    b0 = v_load(b), b1 = v_load(b + V_N);                                                             \
        const float *line = step == 0 ? NULL : tile->line + tile->offsets[k];                                          \
        fetch;                                                                                                         \
        EACH_ROW(STEP)                                                                                                 \
    }
#define FETCH_NEXT                                                                                                     \
    __builtin_prefetch(next, 0, 2);                                                                                    \
    if (NR > LINE && vecs > 1)                                                                                         \
        __builtin_prefetch(next + next_gap, 0, 2);
/* A line or two a k: bursts would hold up the loads behind them. Loads are scarce in tiles of one vector: no line twice, and by
   lines, whose panels are short, only what follows. */
#define FETCH                                                                                                          \
    for (int n = 0; n < vecs * V_N && step == 0; n += LINE)                                                            \
        __builtin_prefetch(b + 12 * NR + n, 0, 3);                                                                     \
    if (vecs > 1 || step != 0) {                                                                                       \
        FETCH_NEXT                                                                                                     \
        next += next_rate;                                                                                             \
    }

/* rows, vecs, step and few are constants in every caller; cols > (vecs - 1) * V_N. step 0: row pointers; else the lines form.
   few: a tile's share of the next panel is small enough to be fetched between the steps, which need all loads for themselves. */
V_INLINE void multiply(const opf_gemm_tile *tile, size_t cols, const int rows, const int vecs, const int step, const bool few)
{
    const float        *b = tile->b, *next = tile->next_b == NULL ? b : tile->next_b;
    const float *const *a = tile->a, *const *next_a = tile->next_a;
    const size_t        next_rate = tile->next_b == NULL ? 0 : tile->next_b_rate;
    const ptrdiff_t     next_gap = tile->next_b == NULL ? 0 : tile->next_b_gap;
    const size_t        kc = tile->kc;
    const v_f           bias0 = tile->bias ? v_load(tile->bias) : v_zero();
    const v_f           bias1 = tile->bias ? v_load(tile->bias + V_N) : v_zero();
    const float        *row[MR];
    v_f                 acc[MR][2], total[MR * 2];
    size_t              summed = 0;
    bool                is_split = false;
#define START(r) acc[r][0] = bias0, acc[r][1] = bias1;
    EACH_ROW(START)
    /* Stores to lines that are not in cache would wait at the end, all at once. */
    for (int r = 0; r < rows; r++)
        for (size_t n = 0; n < (size_t)vecs * V_N && n < cols; n += LINE)
            __builtin_prefetch(tile->c + r * tile->c_stride + n, 1, 3);

    for (size_t t = 0; t < tile->taps; t++, a += MR, next_a += next_a ? MR : 0) {
#define POINT(r) row[r] = step == 0 && r < rows ? a[r] : NULL;
        EACH_ROW(POINT)
        for (size_t k0 = 0; k0 < kc; k0 += CHUNK) {
            const size_t k1 = kc - k0 < CHUNK ? kc : k0 + CHUNK;
            if (step == 0 && next_a) {
#define FETCH_ROW(r)                                                                                                   \
    if (r < rows)                                                                                                      \
        __builtin_prefetch(next_a[r] + k0, 0, 3);
                EACH_ROW(FETCH_ROW)
            }
            if (few) {
                for (size_t n = 0; n < next_rate; n++, next += LINE) {
                    FETCH_NEXT
                }
                STEPS((void)0)
            } else {
                STEPS(FETCH)
            }
            summed += k1 - k0;
            if (summed >= SUM) {
                EACH_ROW(SPLIT)
                is_split = true;
                summed   = 0;
            }
        }
    }
    if (is_split) {
        EACH_ROW(JOIN)
    }

    const v_f lo = v_set(tile->lo), hi = v_set(tile->hi);
    const size_t last = cols - (size_t)(vecs - 1) * V_N; /* columns of the last vector */
    if (tile->residual) {
        const float    *residual        = tile->residual;
        const ptrdiff_t residual_stride = tile->residual_stride;
        EACH_ROW(ADD)
    }
    float          *c        = tile->c;
    const ptrdiff_t c_stride = tile->c_stride;
    EACH_ROW(CLAMP)
}

#define DEFINE_FOR(name, r, step)                                                                                      \
    static void name##_x1_##r(const opf_gemm_tile *tile, size_t cols)                                                  \
    {                                                                                                                  \
        multiply(tile, cols, r + 1, 1, step, false);                                                                   \
    }                                                                                                                  \
    static void name##_x2_##r(const opf_gemm_tile *tile, size_t cols)                                                  \
    {                                                                                                                  \
        multiply(tile, cols, r + 1, 2, step, false);                                                                   \
    }
#define DEFINE_FEW(r)                                                                                                  \
    static void few_x2_##r(const opf_gemm_tile *tile, size_t cols)                                                     \
    {                                                                                                                  \
        multiply(tile, cols, r + 1, 2, 0, true);                                                                       \
    }
#define DEFINE(r) DEFINE_FEW(r) DEFINE_FOR(gemm, r, 0) DEFINE_FOR(line_1, r, 1) DEFINE_FOR(line_2, r, 2)
EACH_ROW(DEFINE)

typedef void (*tile_fn)(const opf_gemm_tile *tile, size_t cols);

static void gemm(const opf_gemm_tile *tile, size_t rows, size_t cols)
{
#define ENTRY(r) {gemm_x1_##r, gemm_x2_##r, few_x2_##r},
    static const tile_fn table[MR][3] = {EACH_ROW(ENTRY)};
    const bool           few = tile->next_b == NULL || tile->next_b_rate <= FEW;
    table[rows - 1][cols <= V_N ? 0 : few ? 2 : 1](tile, cols);
}

static void gemm_lines(const opf_gemm_tile *tile, size_t rows, size_t cols)
{
#define LINE_ENTRY(r) {{line_1_x1_##r, line_1_x2_##r}, {line_2_x1_##r, line_2_x2_##r}},
    static const tile_fn table[MR][2][2] = {EACH_ROW(LINE_ENTRY)};
    table[rows - 1][tile->step - 1][cols > V_N](tile, cols);
}

void OPF_K(gemm_init)(opf_kern *kern)
{
    kern->mr         = MR;
    kern->nr         = NR;
    kern->gemm       = gemm;
    kern->gemm_lines = gemm_lines;
    kern->gemm_name  = NAME;
}
