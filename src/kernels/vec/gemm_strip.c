/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tile product of many tiles: of rows that lie evenly apart three share an address, and what a tile costs beside its multiplications
 * is paid while those of its neighbours are under way.
 */
#include "kernels/vec/gemm.h"
#include "kernels/simd/math.h"

enum { THIRD = 3 }; /* rows that share an address: base, base + a_row, base + 2 a_row */

/* rows, vecs, apart (floats from one element of a row to the next) and bare are constants in every caller; cols: of the last panel,
   > (vecs - 1) * V_N */
V_INLINE void multiply(const opf_gemm_strip *s, const float *a, const float *b, const float *bias, float *c, const float *residual,
                       size_t cols, const float *fetch_a, size_t fetch_rate, const float *fetch_b, const int rows, const int vecs,
                       const int apart, const bool bare)
{
    const opf_gemm_tile *tile  = &s->tile;
    const v_f            bias0 = bias ? v_load(bias) : v_zero(), bias1 = bias && vecs > 1 ? v_load(bias + V_N) : v_zero();
    const ptrdiff_t      one = s->a_row, two = 2 * one, c_stride = bare ? NR : tile->c_stride, residual_stride = tile->residual_stride;
    const float         *at[MR / THIRD];
    v_f                  acc[MR][2], kept[MR * 2], *total = kept;
    const size_t         fetch_gap = fetch_rate > LINE ? LINE : 0;
    size_t               left = tile->kc;
    bool                 is_split = false;
    HIDE(total);
    const size_t         last = cols - (size_t)(vecs - 1) * V_N;
#define START(r)                                                                                                       \
    acc[r][0] = bias0, acc[r][1] = bias1;                                                                              \
    if (r < rows && r % THIRD == 0)                                                                                    \
        at[r / THIRD] = a + r * one;
    EACH_ROW(START)
    if (!bare) {
        float *line = c; /* stores to lines that are not in cache would wait at the end, all at once; bare sums go to L2 */
        for (int r = 0; r < rows; r++, line += c_stride)
            for (int n = 0; n < vecs * V_N; n += LINE)
                __builtin_prefetch(line + n, 1, 3);
    }
#define STEP(r)                                                                                                        \
    if (r < rows) {                                                                                                    \
        const v_f x = v_set(at[r / THIRD][r % THIRD == 0 ? 0 : r % THIRD == 1 ? one : two]);                           \
        acc[r][0]   = v_fma(x, b0, acc[r][0]);                                                                         \
        if (vecs > 1)                                                                                                  \
            acc[r][1] = v_fma(x, b1, acc[r][1]);                                                                       \
    }
#define NEXT(r)                                                                                                        \
    if (r < rows && r % THIRD == 0)                                                                                    \
        at[r / THIRD] += apart;
#define KEEP(r)                                                                                                        \
    if (r < rows) {                                                                                                    \
        v_store(c + r * NR, acc[r][0]);                                                                                \
        if (vecs > 1)                                                                                                  \
            v_store(c + r * NR + V_N, acc[r][1]);                                                                      \
    }
#define STEPS(fetch)                                                                                                   \
    _Pragma("GCC unroll 2") for (; b != end; b += NR) {                                                                \
        const v_f b0 = v_load(b), b1 = v_load(b + V_N);                                                                \
        fetch;                                                                                                         \
        EACH_ROW(STEP)                                                                                                 \
        EACH_ROW(NEXT)                                                                                                 \
    }
#define FETCH                                                                                                          \
    __builtin_prefetch(fetch_a, 0, 3);                                                                                 \
    if (NR > LINE)                                                                                                     \
        __builtin_prefetch(fetch_a + fetch_gap, 0, 3);                                                                 \
    __builtin_prefetch(fetch_b, 0, 2);                                                                                 \
    if (NR > LINE)                                                                                                     \
        __builtin_prefetch(fetch_b + tile->next_b_gap, 0, 2);                                                          \
    fetch_a += fetch_rate;                                                                                              \
    fetch_b += tile->next_b_rate;
    for (;; left -= SUM) {
        const float *end = b + (left < SUM ? left : SUM) * NR;
        if (fetch_a == NULL) {
            STEPS((void)0)
        } else {
            STEPS(FETCH)
        }
        if (left < SUM)
            break;
        EACH_ROW(SPLIT)
        is_split = true;
    }
    if (is_split) {
        EACH_ROW(JOIN)
    }
    if (bare) {
        EACH_ROW(KEEP)
        return;
    }
    const v_f lo = v_set(tile->lo), hi = v_set(tile->hi);
    if (residual) {
        EACH_ROW(ADD)
    }
    /* Its divisions go on while the next tile's multiplications do. */
#define SWISHED(x) v_swish(x, s->param)
#define SWISH(r)   FINISH(r, SWISHED)
#define HARD(r)    FINISH(r, v_hard_swish)
    if (apart == 1 && s->then == OPF_EW_SWISH) {
        EACH_ROW(SWISH)
    } else if (apart == 1 && s->then == OPF_EW_HARD_SWISH) {
        EACH_ROW(HARD)
    } else {
        EACH_ROW(CLAMP)
    }
}

/* cols: of all panels */
V_INLINE void strip(const opf_gemm_strip *s, size_t cols, const int rows, const int apart, const bool bare)
{
    const opf_gemm_tile *tile = &s->tile;
    /* Rows that follow one another, perhaps with a little between: all of that is fetched. */
    const ptrdiff_t span = apart * (ptrdiff_t)tile->kc;
    const bool   fetches = s->fetches_rows && s->a_row >= span && s->a_row < 2 * span;
    const size_t rate    = fetches ? ((size_t)(rows * s->a_row) + tile->kc - 1) / tile->kc : 0;
    for (size_t i = 0; i < s->tiles; i++) {
        const ptrdiff_t row = (ptrdiff_t)i * rows;
        const float    *a = s->a + row * s->a_row, *b = tile->b;
        for (size_t n = 0; n < cols; n += NR, b += s->b_panel) {
            const size_t left = cols - n;
            const float *bias = !bare && tile->bias ? tile->bias + n : NULL;
            const float *residual = !bare && tile->residual ? tile->residual + row * tile->residual_stride + n : NULL;
            const float *fetch_a = n == 0 && fetches ? a + rows * s->a_row : NULL, *fetch_b = tile->next_b ? tile->next_b + i * s->next_b_step : NULL;
            float       *c = tile->c + row * tile->c_stride + n;
            size_t       fetch_rate = rate;
            if (i == 0 && (s->tiles == 1 || tile->next_b != NULL)) { /* the panel comes to L1 with the first tile */
                fetch_a    = b + 12 * NR;
                fetch_rate = NR;
            }
            if (fetch_a != NULL && fetch_b == NULL)
                fetch_b = fetch_a;
            else if (fetch_a == NULL && fetch_b != NULL)
                fetch_a = fetch_b;
            if (left > V_N)
                multiply(s, a, b, bias, c, residual, left < NR ? left : NR, fetch_a, fetch_rate, fetch_b, rows, 2, apart, bare);
            else
                multiply(s, a, b, bias, c, residual, left, fetch_a, fetch_rate, fetch_b, rows, 1, apart, bare);
        }
    }
}

#define DEFINE(r)                                                                                                      \
    static void strip_##r(const opf_gemm_strip *s, size_t cols)                                                        \
    {                                                                                                                  \
        strip(s, cols, r + 1, 1, false);                                                                               \
    }                                                                                                                  \
    static void other_##r(const opf_gemm_strip *s, size_t cols)                                                        \
    {                                                                                                                  \
        strip(s, cols, r + 1, 2, false);                                                                               \
    }                                                                                                                  \
    static void bare_##r(const opf_gemm_strip *s, size_t cols)                                                         \
    {                                                                                                                  \
        strip(s, cols, r + 1, 1, true);                                                                                \
    }
EACH_ROW(DEFINE)

static void gemm_strip(const opf_gemm_strip *s, size_t rows, size_t cols)
{
#define ENTRY(r) {strip_##r, other_##r, bare_##r},
    static void (*const table[MR][3])(const opf_gemm_strip *s, size_t cols) = {EACH_ROW(ENTRY)};
    table[rows - 1][s->bare ? 2 : s->every_other](s, cols);
}

void OPF_K(gemm_strip_init)(opf_kern *kern)
{
    kern->gemm_strip = gemm_strip;
}
