/* SPDX-License-Identifier: Apache-2.0 */
/* What the forms of the tile product share: its size, and the order of its sums, so that an element has the same bits in all of them. */
#ifndef OPF_KERNELS_VEC_GEMM_H
#define OPF_KERNELS_VEC_GEMM_H

#include "kernels/simd/vec.h"

enum { MR = V_N == 16 ? 12 : 6, NR = 2 * V_N, LINE = OPF_LINE };
enum { CHUNK = LINE }; /* k steps between prefetches, which so stay out of the innermost loop: a line of each row */
enum { SUM = 256 }; /* products that are summed before they join the total; any multiple of CHUNK */

/* Rows are spelled out by macros and not by loops, since compilers leave the accumulators of a loop in memory. */
#define ROWS_6(X) X(0) X(1) X(2) X(3) X(4) X(5)
#if V_N == 16
#define EACH_ROW(X) ROWS_6(X) X(6) X(7) X(8) X(9) X(10) X(11)
#else
#define EACH_ROW(X) ROWS_6(X)
#endif

/* Memory that the compiler takes for somebody else's. What only long sums need stays there: as variables that tiles in a loop share
   it would be spilled in each, needed or not (10 to 30 cycles a tile). */
#define HIDE(pointer) __asm__("" : "+r"(pointer))

/* Of row r, in a function that has acc[MR][2], total[MR * 2], rows and vecs: the sums so far join the total; the rest of them does; the
   residual comes to them; they are stored as what `end` makes of them, `last` columns of the last vector. */
#define SPLIT(r)                                                                                                       \
    if (r < rows) {                                                                                                    \
        total[2 * (r)]     = is_split ? v_add(total[2 * (r)], acc[r][0]) : acc[r][0];                                  \
        total[2 * (r) + 1] = is_split ? v_add(total[2 * (r) + 1], acc[r][1]) : acc[r][1];                              \
        acc[r][0] = acc[r][1] = v_zero();                                                                              \
    }
#define JOIN(r)                                                                                                        \
    if (r < rows) {                                                                                                    \
        acc[r][0] = v_add(total[2 * (r)], acc[r][0]);                                                                  \
        acc[r][1] = v_add(total[2 * (r) + 1], acc[r][1]);                                                              \
    }
#define ADD(r)                                                                                                         \
    if (r < rows) {                                                                                                    \
        if (vecs > 1)                                                                                                  \
            acc[r][0] = v_add(acc[r][0], v_load(residual));                                                            \
        acc[r][vecs - 1] = v_add(acc[r][vecs - 1], LOAD(residual + (vecs - 1) * V_N, last));                           \
        if (r + 1 < rows)                                                                                              \
            residual += residual_stride;                                                                               \
    }
#define FINISH(r, end)                                                                                                 \
    if (r < rows) {                                                                                                    \
        if (vecs > 1)                                                                                                  \
            v_store(c, end(acc[r][0]));                                                                                \
        STORE(c + (vecs - 1) * V_N, end(acc[r][vecs - 1]), last);                                                      \
        if (r + 1 < rows)                                                                                              \
            c += c_stride;                                                                                             \
    }
#define CLAMPED(x) v_min(hi, v_max(lo, x))
#define CLAMP(r)   FINISH(r, CLAMPED)

#endif
