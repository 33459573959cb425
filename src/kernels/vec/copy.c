/* SPDX-License-Identifier: Apache-2.0 */
/* Strided copies: rows, every second element, transposes in registers, anything else element by element. */
#include "kernels/simd/vec.h"

#include <string.h>

/* Up to V_N x V_N: lane r of column c of src becomes element c of row r of dst. */
static void transpose_block(const float *src, ptrdiff_t src_col, float *dst, ptrdiff_t dst_row, size_t rows, size_t cols)
{
    v_f v[V_N];
    if (rows == V_N && cols == V_N) {
#pragma GCC unroll 16
        for (int c = 0; c < V_N; c++)
            v[c] = v_load(src + c * src_col);
        v_transpose(v);
#pragma GCC unroll 16
        for (int r = 0; r < V_N; r++)
            v_store(dst + r * dst_row, v[r]);
        return;
    }
    for (size_t c = 0; c < V_N; c++) {
        if (c >= cols)
            v[c] = v_zero();
        else if (rows == V_N)
            v[c] = v_load(src + (ptrdiff_t)c * src_col);
        else
            v[c] = v_load_n(src + (ptrdiff_t)c * src_col, rows);
    }
    v_transpose(v);
    for (size_t r = 0; r < rows; r++) {
        if (cols == V_N)
            v_store(dst + (ptrdiff_t)r * dst_row, v[r]);
        else
            v_store_n(dst + (ptrdiff_t)r * dst_row, v[r], cols);
    }
}

/* Blocks of 64 columns: their cache lines serve all rows of a line before they are left. */
static void transpose(const float *src, ptrdiff_t src_col, float *dst, ptrdiff_t dst_row, size_t rows, size_t cols)
{
    for (size_t c0 = 0; c0 < cols; c0 += 64) {
        const size_t c1 = cols - c0 < 64 ? cols : c0 + 64;
        for (size_t r = 0; r < rows; r += V_N)
            for (size_t c = c0; c < c1; c += V_N)
                transpose_block(src + r + (ptrdiff_t)c * src_col, src_col, dst + (ptrdiff_t)r * dst_row + c, dst_row,
                                rows - r < V_N ? rows - r : V_N, c1 - c < V_N ? c1 - c : V_N);
    }
}

/* Every second element; the one behind the last may not be there. */
static void copy_even(const float *src, float *dst, size_t n)
{
    size_t i = 0;
    for (; n - i > V_N; i += V_N)
        v_store(dst + i, v_even(v_load(src + 2 * i), v_load(src + 2 * i + V_N)));
    if (i < n) {
        const size_t span = 2 * (n - i) - 1, low = span < V_N ? span : V_N;
        v_store_n(dst + i, v_even(v_load_n(src + 2 * i, low), v_load_n(src + 2 * i + V_N, span - low)), n - i);
    }
}

static void copy_2d(const float *src, ptrdiff_t src_row, ptrdiff_t src_col, float *dst, ptrdiff_t dst_row, size_t rows, size_t cols)
{
    if (src_col == 1) {
        for (size_t r = 0; r < rows; r++)
            v_copy_row(src + (ptrdiff_t)r * src_row, dst + (ptrdiff_t)r * dst_row, cols);
    } else if (src_col == 2 && (src_row != 1 || rows == 1)) {
        for (size_t r = 0; r < rows; r++)
            copy_even(src + (ptrdiff_t)r * src_row, dst + (ptrdiff_t)r * dst_row, cols);
    } else if (src_row == 1 && rows > 1) {
        transpose(src, src_col, dst, dst_row, rows, cols);
    } else {
        for (size_t r = 0; r < rows; r++)
            for (size_t c = 0; c < cols; c++)
                dst[(ptrdiff_t)r * dst_row + (ptrdiff_t)c] = src[(ptrdiff_t)r * src_row + (ptrdiff_t)c * src_col];
    }
}

static void zip_row(const float *a, const float *b, float *dst, size_t n)
{
    size_t i = 0;
    for (; n - i >= V_N; i += V_N) {
        v_f low, high;
        v_zip(v_load(a + i), v_load(b + i), &low, &high);
        v_store(dst + 2 * i, low);
        v_store(dst + 2 * i + V_N, high);
    }
    for (; i < n; i++) {
        dst[2 * i]     = a[i];
        dst[2 * i + 1] = b[i];
    }
}

static void zip(const float *a, ptrdiff_t a_row, const float *b, ptrdiff_t b_row, float *dst, ptrdiff_t dst_row, size_t rows, size_t cols)
{
    for (size_t r = 0; r < rows; r++)
        zip_row(a + (ptrdiff_t)r * a_row, b + (ptrdiff_t)r * b_row, dst + (ptrdiff_t)r * dst_row, cols);
}

static void pack_b(const float *b, ptrdiff_t row, ptrdiff_t col, size_t k, size_t n, float *dst)
{
    const size_t nr = 2 * V_N; /* of the level's gemm */
    for (size_t j = 0; j < n; j += nr, dst += k * nr) {
        const size_t cols = n - j < nr ? n - j : nr;
        copy_2d(b + (ptrdiff_t)j * col, row, col, dst, (ptrdiff_t)nr, k, cols);
        if (cols < nr)
            for (size_t i = 0; i < k; i++)
                memset(dst + i * nr + cols, 0, (nr - cols) * sizeof *dst);
    }
}

void OPF_K(copy_init)(opf_kern *kern)
{
    kern->copy_2d = copy_2d;
    kern->zip     = zip;
    kern->pack_b  = pack_b;
}
