/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tile product of few rows: as many accumulators as in gemm.c, but of several panels. Every weight is used `rows` times only,
 * so that memory is the limit; a stream each panel keeps more of its lines on their way than one stream can.
 */
#include "kernels/vec/gemm.h"

enum { MOST = OPF_GEMM_PANELS, ROWS = MR / 2 };

/* rows and panels are constants in every caller; cols > (panels - 1) * NR */
V_INLINE void multiply(const opf_gemm_strip *strip, size_t cols, const int rows, const int panels)
{
    const opf_gemm_tile *tile = &strip->tile;
    const float        *b = tile->b;
    const float *const *a = tile->a;
    const size_t        kc = tile->kc;
    v_f                 acc[ROWS][2 * MOST], total[ROWS][2 * MOST];
    size_t              summed   = 0;
    bool                is_split = false;
#define EACH                                                                                                           \
    _Pragma("GCC unroll 8") for (int v = 0; v < 2 * panels; v++)                                                       \
        _Pragma("GCC unroll 8") for (int r = 0; r < rows; r++)
    EACH acc[r][v] = tile->bias ? v_load(tile->bias + v * V_N) : v_zero();
    for (size_t t = 0; t < tile->taps; t++, a += MR)
        for (size_t k0 = 0; k0 < kc; k0 += CHUNK) {
            const size_t k1 = kc - k0 < CHUNK ? kc : k0 + CHUNK;
            for (size_t k = k0; k < k1; k++, b += NR) {
#pragma GCC unroll 4
                for (int p = 0; p < panels; p++)
                    for (int n = 0; n < NR; n += LINE)
                        __builtin_prefetch(b + (size_t)p * strip->b_panel + 12 * NR + n, 0, 3);
                EACH acc[r][v] = v_fma(v_set(a[r][k]), v_load(b + (size_t)(v / 2) * strip->b_panel + v % 2 * V_N), acc[r][v]);
            }
            summed += k1 - k0;
            if (summed >= SUM) {
                EACH
                {
                    total[r][v] = is_split ? v_add(total[r][v], acc[r][v]) : acc[r][v];
                    acc[r][v]   = v_zero();
                }
                is_split = true;
                summed   = 0;
            }
        }
    if (is_split)
        EACH acc[r][v] = v_add(total[r][v], acc[r][v]);

    const v_f lo = v_set(tile->lo), hi = v_set(tile->hi);
    EACH
    {
        const size_t at = (size_t)v * V_N, n = cols <= at ? 0 : cols - at < V_N ? cols - at : V_N;
        float       *c = tile->c + r * tile->c_stride + at;
        if (n == 0)
            continue;
        if (tile->residual) {
            const float *residual = tile->residual + r * tile->residual_stride + at;
            acc[r][v]             = v_add(acc[r][v], n == V_N ? v_load(residual) : v_load_n(residual, n));
        }
        const v_f y = v_min(hi, v_max(lo, acc[r][v]));
        if (n == V_N)
            v_store(c, y);
        else
            v_store_n(c, y, n);
    }
}

#define EACH_SHAPE(X) X(1, 2) X(1, 3) X(1, 4) X(2, 2) X(2, 3) X(3, 2)
#if V_N == 16
#define EACH_LARGER(X) X(2, 4) X(3, 3) X(3, 4) X(4, 2) X(4, 3) X(5, 2) X(6, 2)
#else
#define EACH_LARGER(X)
#endif

#define DEFINE(r, p)                                                                                                   \
    static void gemm_##r##_##p(const opf_gemm_strip *strip, size_t cols)                                               \
    {                                                                                                                  \
        multiply(strip, cols, r, p);                                                                                   \
    }
EACH_SHAPE(DEFINE)
EACH_LARGER(DEFINE)

static void gemm_panels(const opf_gemm_strip *strip, size_t rows, size_t cols)
{
#define ENTRY(r, p) [r - 1][p - 2] = gemm_##r##_##p,
    static void (*const table[ROWS][MOST - 1])(const opf_gemm_strip *strip, size_t cols) = {EACH_SHAPE(ENTRY) EACH_LARGER(ENTRY)};
    table[rows - 1][(cols + NR - 1) / NR - 2](strip, cols);
}

void OPF_K(gemm_panels_init)(opf_kern *kern)
{
    kern->gemm_panels = gemm_panels;
}
