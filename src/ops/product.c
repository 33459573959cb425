/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/product.h"

#include "base/least.h"

#include <string.h>

/* Columns are worked on in groups of LANES, and depths DEPTHS at a time: a sum is loaded and stored once for DEPTHS
   products, and the inner loop has a constant length that compilers turn into vector code. */
enum { LANES = 8, DEPTHS = 4 };

/* Adds a [rows][depth] times b [depth][COLS], depths up to the last multiple of DEPTHS, to sum [rows][COLS]; columns
   beyond cols, up to a multiple of LANES, are computed and never stored. */
#define DEFINE_MULTIPLY(name, member, number)                                                                          \
    static void name(const opf_number *a, const opf_number *b, size_t rows, size_t depth, size_t cols,                 \
                     opf_number *sum)                                                                                  \
    {                                                                                                                  \
        for (size_t r = 0; r < rows; r++) {                                                                            \
            for (size_t p = 0; p + DEPTHS <= depth; p += DEPTHS) {                                                     \
                const number      a0 = a[r * depth + p].member, a1 = a[r * depth + p + 1].member;                      \
                const number      a2 = a[r * depth + p + 2].member, a3 = a[r * depth + p + 3].member;                  \
                const opf_number *b0 = &b[p * OPF_PRODUCT_COLS], *b1 = b0 + OPF_PRODUCT_COLS;                          \
                const opf_number *b2 = b1 + OPF_PRODUCT_COLS, *b3 = b2 + OPF_PRODUCT_COLS;                             \
                for (size_t j = 0; j < cols; j += LANES) {                                                             \
                    opf_number *restrict s = &sum[r * OPF_PRODUCT_COLS + j];                                           \
                    for (size_t c = 0; c < LANES; c++) {                                                               \
                        number x = s[c].member;                                                                        \
                        x += a0 * b0[j + c].member;                                                                    \
                        x += a1 * b1[j + c].member;                                                                    \
                        x += a2 * b2[j + c].member;                                                                    \
                        x += a3 * b3[j + c].member;                                                                    \
                        s[c].member = x;                                                                               \
                    }                                                                                                  \
                }                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
    }
DEFINE_MULTIPLY(multiply_f64, f, double)
DEFINE_MULTIPLY(multiply_u64, u, uint64_t)

/* The depths that are left: padding them with zeros instead would turn infinities into NaN. */
static void multiply_rest(bool is_float, const opf_number *a, const opf_number *b, size_t rows, size_t depth,
                          size_t cols, opf_number *sum)
{
    for (size_t r = 0; r < rows; r++) {
        for (size_t p = depth - depth % DEPTHS; p < depth; p++) {
            const opf_number  x = a[r * depth + p];
            const opf_number *y = &b[p * OPF_PRODUCT_COLS];
            opf_number       *s = &sum[r * OPF_PRODUCT_COLS];
            for (size_t j = 0; is_float && j < cols; j++)
                s[j].f += x.f * y[j].f;
            for (size_t j = 0; !is_float && j < cols; j++)
                s[j].u += x.u * y[j].u;
        }
    }
}

static void run_block(const opf_product *product, size_t i, size_t rows, size_t j, size_t cols,
                      opf_product_scratch *scratch)
{
    const opf_number zero = product->is_float ? (opf_number){.f = 0} : (opf_number){.u = 0};
    for (size_t s = 0; s < rows * OPF_PRODUCT_COLS; s++)
        scratch->sum[s] = zero;
    for (size_t p = 0; p < product->k; p += OPF_PRODUCT_DEPTH) {
        size_t depth = opf_least_size(product->k - p, OPF_PRODUCT_DEPTH);
        product->load_a(product->user, i, rows, p, depth, scratch->a);
        product->load_b(product->user, p, depth, j, cols, scratch->b);
        (product->is_float ? multiply_f64 : multiply_u64)(scratch->a, scratch->b, rows, depth, cols, scratch->sum);
        multiply_rest(product->is_float, scratch->a, scratch->b, rows, depth, cols, scratch->sum);
    }
    product->store(product->user, i, rows, j, cols, scratch->sum);
}

void opf_product_run(const opf_product *product, opf_product_scratch *scratch)
{
    memset(scratch->b, 0, sizeof scratch->b); /* lanes beyond the last column are read */
    for (size_t j = 0; j < product->n; j += OPF_PRODUCT_COLS)
        for (size_t i = 0; i < product->m; i += OPF_PRODUCT_ROWS)
            run_block(product, i, opf_least_size(product->m - i, OPF_PRODUCT_ROWS), j, opf_least_size(product->n - j, OPF_PRODUCT_COLS),
                      scratch);
}

/* ---- over views ---- */

void opf_load_numbers(const opf_view *view, int64_t offset, int64_t step, size_t count, opf_number *dst,
                      size_t dst_step)
{
    if (view->type == OPF_FLOAT) {
        const char *data = (const char *)view->data + offset * (int64_t)sizeof(float);
        for (size_t i = 0; i < count; i++) {
            float x;
            memcpy(&x, data + (int64_t)i * step * (int64_t)sizeof(float), sizeof x);
            dst[i * dst_step].f = (double)x;
        }
        return;
    }
    bool is_float = opf_types_have(OPF_TYPES_FLOAT, view->type);
    for (size_t i = 0; i < count; i++, offset += step) {
        if (is_float)
            dst[i * dst_step].f = opf_view_f64(view, offset);
        else
            dst[i * dst_step].u = (uint64_t)opf_view_i64(view, offset);
    }
}

static int64_t distance(int64_t step)
{
    return step < 0 ? -step : step;
}

/* Rows x cols elements from (i, j) on, to rows of dst; walked along the axis whose elements lie closer. */
static void load_block(const opf_matrix *x, size_t i, size_t rows, size_t j, size_t cols, opf_number *dst,
                       size_t dst_row)
{
    const int64_t offset  = x->offset + (int64_t)i * x->row + (int64_t)j * x->col;
    const bool    by_rows = distance(x->col) <= distance(x->row);
    for (size_t r = 0; by_rows && r < rows; r++)
        opf_load_numbers(&x->view, offset + (int64_t)r * x->row, x->col, cols, &dst[r * dst_row], 1);
    for (size_t c = 0; !by_rows && c < cols; c++)
        opf_load_numbers(&x->view, offset + (int64_t)c * x->col, x->row, rows, &dst[c], dst_row);
}

static void load_a(void *user, size_t i, size_t rows, size_t p, size_t depth, opf_number *dst)
{
    load_block(&((opf_matrix_product *)user)->a, i, rows, p, depth, dst, depth);
}

static void load_b(void *user, size_t p, size_t depth, size_t j, size_t cols, opf_number *dst)
{
    load_block(&((opf_matrix_product *)user)->b, p, depth, j, cols, dst, OPF_PRODUCT_COLS);
}

static void store(void *user, size_t i, size_t rows, size_t j, size_t cols, const opf_number *src)
{
    opf_matrix_product *product  = user;
    const opf_matrix   *c        = &product->c;
    opf_matrix         *y        = &product->y;
    bool                is_float = opf_types_have(OPF_TYPES_FLOAT, y->view.type), has_c = c->view.data != NULL;
    const uint64_t      alpha = is_float ? 0 : (uint64_t)(int64_t)product->alpha;
    const uint64_t      beta  = is_float ? 0 : (uint64_t)(int64_t)product->beta;
    for (size_t e = 0; e < rows * cols; e++) {
        int64_t    row = (int64_t)(i + e / cols), col = (int64_t)(j + e % cols);
        int64_t    to = y->offset + row * y->row + col * y->col, from = c->offset + row * c->row + col * c->col;
        opf_number x = src[e / cols * OPF_PRODUCT_COLS + e % cols];
        if (is_float) {
            x.f *= product->alpha;
            if (has_c)
                x.f += product->beta * opf_view_f64(&c->view, from);
            opf_view_put_f64(&y->view, to, x.f);
        } else {
            x.u *= alpha;
            if (has_c)
                x.u += beta * (uint64_t)opf_view_i64(&c->view, from);
            opf_view_put_i64(&y->view, to, (int64_t)x.u);
        }
    }
}

void opf_matrix_product_run(opf_matrix_product *product, opf_product_scratch *scratch)
{
    const opf_product run = {.m        = product->m,
                             .n        = product->n,
                             .k        = product->k,
                             .is_float = opf_types_have(OPF_TYPES_FLOAT, product->y.view.type),
                             .user     = product,
                             .load_a   = load_a,
                             .load_b   = load_b,
                             .store    = store};
    opf_product_run(&run, scratch);
}
