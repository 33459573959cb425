/* SPDX-License-Identifier: Apache-2.0 */
/* Strided copies and packing: exact, and nothing outside the elements is written. */
#include "check.h"

#include <string.h>

typedef struct view {
    const float *data; /* element [0][0] */
    ptrdiff_t    row, col;
} view;

/* A random layout of rows x cols: row-major, transposed, strided both ways, rows backwards, or repeated by stride 0. */
static view make_view(checker *check, size_t rows, size_t cols)
{
    const uint64_t kind = check_random(check, 5);
    const size_t   pad = check_random(check, 9), many = rows && cols;
    size_t         row = cols + pad, col = 1;
    if (kind == 1) {
        row = 1;
        col = rows + pad;
    } else if (kind == 2) {
        col = 2 + check_random(check, 3);
        row = cols * col + pad;
    } else if (kind == 4) {
        row = 0;
    }
    const size_t size = many ? (rows - 1) * row + (cols - 1) * col + 1 : 0;
    float       *x    = check_array(check, size);
    check_fill(check, x, size, 1);
    if (kind == 3 && many)
        return (view){x + (rows - 1) * row, -(ptrdiff_t)row, 1};
    return (view){x, (ptrdiff_t)row, (ptrdiff_t)col};
}

static bool same_bits(const float *a, const float *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

static void run_copy(checker *check, int index)
{
    (void)index;
    for (int round = 0; round < 300 && !check->failed; round++) {
        check_reset(check);
        const size_t rows = check_size(check, 0, 90), cols = check_size(check, 0, 90), dst_row = cols + check_random(check, 20);
        const view   src  = make_view(check, rows, cols);
        const size_t size = rows && cols ? (rows - 1) * dst_row + cols : 0;
        float       *dst = check_array(check, size), *fresh = check_array(check, 1);
        check->kern->copy_2d(src.data, src.row, src.col, dst, (ptrdiff_t)dst_row, rows, cols);
        for (size_t i = 0; i < size; i++) {
            const size_t r = i / dst_row, c = i % dst_row;
            const float *want = c < cols ? src.data + (ptrdiff_t)r * src.row + (ptrdiff_t)c * src.col : fresh;
            if (!same_bits(dst + i, want))
                check_fail(check, "%zux%zu, strides %td %td: element [%zu][%zu]", rows, cols, src.row, src.col, r, c);
        }
        check_bands(check);
    }
}

static void run_zip(checker *check, int index)
{
    (void)index;
    for (int round = 0; round < 200 && !check->failed; round++) {
        check_reset(check);
        const size_t rows = check_size(check, 0, 20), cols = check_size(check, 0, 70), pad = check_random(check, 9), many = rows && cols;
        const size_t a_row = cols + pad, b_row = cols + check_random(check, 9), dst_row = 2 * cols + check_random(check, 9);
        float       *a = check_array(check, many ? (rows - 1) * a_row + cols : 0), *b = check_array(check, many ? (rows - 1) * b_row + cols : 0);
        const size_t size = many ? (rows - 1) * dst_row + 2 * cols : 0;
        float       *dst = check_array(check, size), *fresh = check_array(check, 1);
        check_fill(check, a, many ? (rows - 1) * a_row + cols : 0, 1);
        check_fill(check, b, many ? (rows - 1) * b_row + cols : 0, 1);
        check->kern->zip(a, (ptrdiff_t)a_row, b, (ptrdiff_t)b_row, dst, (ptrdiff_t)dst_row, rows, cols);
        for (size_t i = 0; i < size; i++) {
            const size_t r = i / dst_row, c = i % dst_row;
            const float *want = c >= 2 * cols ? fresh : c % 2 == 0 ? a + r * a_row + c / 2 : b + r * b_row + c / 2;
            if (!same_bits(dst + i, want))
                check_fail(check, "%zux%zu: element [%zu][%zu]", rows, cols, r, c);
        }
        check_bands(check);
    }
}

static void run_pack(checker *check, int index)
{
    (void)index;
    const size_t nr = check->kern->nr;
    for (int round = 0; round < 200 && !check->failed; round++) {
        check_reset(check);
        const size_t k = check_size(check, 0, 70), n = check_size(check, 0, 140);
        const view   src    = make_view(check, k, n);
        const size_t panels = (n + nr - 1) / nr;
        float       *dst    = check_array(check, panels * nr * k);
        const float  zero   = 0.0f;
        check->kern->pack_b(src.data, src.row, src.col, k, n, dst);
        for (size_t j = 0; j < panels * nr; j++)
            for (size_t i = 0; i < k; i++) {
                const float *want = j < n ? src.data + (ptrdiff_t)i * src.row + (ptrdiff_t)j * src.col : &zero;
                if (!same_bits(dst + (j / nr * k + i) * nr + j % nr, want))
                    check_fail(check, "%zux%zu, strides %td %td: element [%zu][%zu]", k, n, src.row, src.col, i, j);
            }
        check_bands(check);
    }
}

static const check_slot slots[] = {
    {"copy_2d", offsetof(opf_kern, copy_2d), run_copy, 0},
    {"zip", offsetof(opf_kern, zip), run_zip, 0},
    {"pack_b", offsetof(opf_kern, pack_b), run_pack, 0},
};
const check_family check_copy_family = {slots, sizeof slots / sizeof *slots};
