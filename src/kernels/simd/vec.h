/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every file of vec/ starts with. The files are compiled once a level: OPF_SIMD_HEADER names its vector header,
 * which also gives OPF_K, the suffix of the level.
 */
#ifndef OPF_KERNELS_SIMD_VEC_H
#define OPF_KERNELS_SIMD_VEC_H

#include "kernels/level.h"

#include <string.h>

#ifndef OPF_SIMD_HEADER
#define OPF_SIMD_HEADER "kernels/simd/avx2.h" /* for editors and header checks; the build defines it */
#endif
#include OPF_SIMD_HEADER

#define V_INLINE static inline __attribute__((always_inline))

/* A vector, or its first n < V_N lanes: where n is a constant, one of the two is left. */
#define LOAD(p, n)     ((n) == V_N ? v_load(p) : v_load_n((p), (n)))
#define STORE(p, x, n) ((n) == V_N ? v_store((p), (x)) : v_store_n((p), (x), (n)))

V_INLINE void v_copy_row(const float *src, float *dst, size_t n)
{
    if (n <= 4 * V_N) { /* short rows: no call */
        size_t i = 0;
        for (; n - i >= V_N; i += V_N)
            v_store(dst + i, v_load(src + i));
        if (i < n)
            v_store_n(dst + i, v_load_n(src + i, n - i), n - i);
    } else {
        memcpy(dst, src, n * sizeof *dst);
    }
}

void OPF_K(gemm_init)(opf_kern *kern); /* the product, its tile sizes and packing */
void OPF_K(gemm_panels_init)(opf_kern *kern);
void OPF_K(gemm_strip_init)(opf_kern *kern);
void OPF_K(ew_init)(opf_kern *kern);
void OPF_K(row_init)(opf_kern *kern);    /* normalisations, softmax, reductions */
void OPF_K(norm_init)(opf_kern *kern);   /* normalisations whose statistics belong to columns */
void OPF_K(window_init)(opf_kern *kern); /* pooling */
void OPF_K(depthwise_init)(opf_kern *kern);
void OPF_K(planes_init)(opf_kern *kern);
void OPF_K(grouped_init)(opf_kern *kern);
void OPF_K(winograd_init)(opf_kern *kern); /* for panels of 2 vectors, as gemm_init takes them */
void OPF_K(resize_init)(opf_kern *kern);
void OPF_K(copy_init)(opf_kern *kern);   /* copy_2d, pack_b for panels of 2 vectors, as gemm_init takes them */

#endif
