/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matrix products of reference kernels, in double or in wrapping 64-bit integers. Operands of any type and stride are
 * loaded block by block into dense scratch, so that types and strides cost once an element and not once a product.
 * Each element of the result is summed in ascending k, whatever the blocks.
 */
#ifndef OPF_OPS_PRODUCT_H
#define OPF_OPS_PRODUCT_H

#include "ops/reference.h"

enum { OPF_PRODUCT_ROWS = 64, OPF_PRODUCT_COLS = 64, OPF_PRODUCT_DEPTH = 256 };

typedef union opf_number {
    double   f;
    uint64_t u;
} opf_number;

/* result[i][j] = sum over p < k of a[i][p]*b[p][j]. The blocks that callbacks see have at most the sizes above. */
typedef struct opf_product {
    size_t m, n, k;
    bool   is_float; /* the member of opf_number in use */
    void  *user;
    /* dst[r*depth + d] = a[i + r][p + d] */
    void (*load_a)(void *user, size_t i, size_t rows, size_t p, size_t depth, opf_number *dst);
    /* dst[d*OPF_PRODUCT_COLS + c] = b[p + d][j + c] */
    void (*load_b)(void *user, size_t p, size_t depth, size_t j, size_t cols, opf_number *dst);
    /* result[i + r][j + c] = src[r*OPF_PRODUCT_COLS + c] */
    void (*store)(void *user, size_t i, size_t rows, size_t j, size_t cols, const opf_number *src);
} opf_product;

typedef struct opf_product_scratch {
    opf_number a[OPF_PRODUCT_ROWS * OPF_PRODUCT_DEPTH];
    opf_number b[OPF_PRODUCT_DEPTH * OPF_PRODUCT_COLS];
    opf_number sum[OPF_PRODUCT_ROWS * OPF_PRODUCT_COLS];
} opf_product_scratch;

void opf_product_run(const opf_product *product, opf_product_scratch *scratch);

/* ---- over views ---- */

/* A matrix inside a tensor: element [i][j] lies at data + offset + i*row + j*col, in elements of the type. */
typedef struct opf_matrix {
    opf_view view; /* its type and data count */
    int64_t  offset, row, col;
} opf_matrix;

/* y = alpha*(a b) + beta*c, rounded once. For integers alpha and beta are whole numbers in 64 bits. */
typedef struct opf_matrix_product {
    size_t     m, n, k;
    opf_matrix a, b, c, y; /* c.view.data NULL: none */
    double     alpha, beta;
} opf_matrix_product;
void opf_matrix_product_run(opf_matrix_product *product, opf_product_scratch *scratch);

/* count elements from `offset` on, `step` apart, as numbers (floats in double, others in 64 bits) to dst, dst_step
   apart. */
void opf_load_numbers(const opf_view *view, int64_t offset, int64_t step, size_t count, opf_number *dst,
                      size_t dst_step);

#endif
