/* SPDX-License-Identifier: Apache-2.0 */
/* A convolution to planes: as many vectors of pixels as accumulators of all filters fit the registers. */
#include "kernels/simd/vec.h"

/* vecs vectors of pixels from `at` on, or n < V_N pixels of one. */
V_INLINE void planes_pass(const opf_planes *t, size_t at, const int filters, const int vecs, size_t n)
{
    v_f acc[OPF_PLANES_FILTERS][8], x[8];
#pragma GCC unroll 8
    for (int f = 0; f < filters; f++)
#pragma GCC unroll 8
        for (int v = 0; v < vecs; v++)
            acc[f][v] = v_set(t->bias != NULL ? t->bias[f] : 0.0f);
    const float *w = t->w;
    for (size_t k = 0; k < t->k; k++, w += filters) {
        const float *line = t->lines + t->offsets[k] + at;
#pragma GCC unroll 8
        for (int v = 0; v < vecs; v++)
            x[v] = LOAD(line + v * V_N, n);
#pragma GCC unroll 8
        for (int f = 0; f < filters; f++) {
            const v_f factor = v_set(w[f]);
#pragma GCC unroll 8
            for (int v = 0; v < vecs; v++)
                acc[f][v] = v_fma(factor, x[v], acc[f][v]);
        }
    }
    const v_f lo = v_set(t->lo), hi = v_set(t->hi);
#pragma GCC unroll 8
    for (int f = 0; f < filters; f++)
#pragma GCC unroll 8
        for (int v = 0; v < vecs; v++)
            STORE(t->c + f * t->c_line + at + v * V_N, v_min(hi, v_max(lo, acc[f][v])), n);
}

V_INLINE void planes_of(const opf_planes *t, const int filters)
{
#if V_N == 16
    const int vecs = filters <= 2 ? 8 : filters <= 4 ? 6 : filters <= 6 ? 4 : 3;
#else
    const int vecs = filters == 1 ? 6 : filters == 2 ? 4 : filters <= 4 ? 2 : 1;
#endif
    size_t p = 0;
    for (; t->pixels - p >= (size_t)vecs * V_N; p += (size_t)vecs * V_N)
        planes_pass(t, p, filters, vecs, V_N);
    for (; t->pixels - p >= V_N; p += V_N)
        planes_pass(t, p, filters, 1, V_N);
    if (p < t->pixels)
        planes_pass(t, p, filters, 1, t->pixels - p);
}

static void planes(const opf_planes *t)
{
    switch (t->filters) {
    case 1: planes_of(t, 1); break;
    case 2: planes_of(t, 2); break;
    case 3: planes_of(t, 3); break;
    case 4: planes_of(t, 4); break;
    case 5: planes_of(t, 5); break;
    case 6: planes_of(t, 6); break;
    case 7: planes_of(t, 7); break;
    default: planes_of(t, 8); break;
    }
}

void OPF_K(planes_init)(opf_kern *kern)
{
    kern->planes = planes;
}
