/* SPDX-License-Identifier: Apache-2.0 */
/* What the forms of the tile product share: its size, and the order of its sums, so that an element has the same bits in all of them. */
#ifndef OPF_KERNELS_VEC_GEMM_H
#define OPF_KERNELS_VEC_GEMM_H

#include "kernels/simd/vec.h"

enum { MR = V_N == 16 ? 12 : 6, NR = 2 * V_N, LINE = OPF_LINE };
enum { CHUNK = LINE }; /* k steps between prefetches, which so stay out of the innermost loop: a line of each row */
enum { SUM = 256 }; /* products that are summed before they join the total; any multiple of CHUNK */

#endif
