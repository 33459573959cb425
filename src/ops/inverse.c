/* SPDX-License-Identifier: Apache-2.0 */
/* Inverse of square matrices, an operator of ONNX Runtime that ONNX has no form of. A singular matrix gives numbers
   that are not finite. */
#include "ops/check.h"
#include "ops/reference.h"

#include <math.h>

static opf_status infer_inverse(opf_infer *infer, opf_error *error)
{
    const opf_info *x = infer->in[0];
    OPF_FAIL_IF(error, x->rank >= 0 && x->rank < 2, OPF_INVALID_MODEL, "X has rank %d, must be 2 at least", x->rank);
    if (x->rank >= 0 && opf_dims_clash(x->dims[x->rank - 2], x->dims[x->rank - 1]))
        return opf_refuse_shapes(infer, 0, 0, error, "matrices must be square");
    return opf_infer_same(infer, 0, 0, error);
}

static void exchange_rows(double *rows, int64_t width, int64_t a, int64_t b)
{
    for (int64_t j = 0; j < width && a != b; j++) {
        const double swapped = rows[a * width + j];
        rows[a * width + j] = rows[b * width + j];
        rows[b * width + j] = swapped;
    }
}

/* Gauss's and Jordan's elimination on rows [matrix | identity] of width 2 n; rows are exchanged for the greatest pivot.
 */
static void invert(double *rows, int64_t n)
{
    const int64_t width = 2 * n;
    for (int64_t k = 0; k < n; k++) {
        int64_t pivot = k;
        for (int64_t i = k + 1; i < n; i++)
            if (fabs(rows[i * width + k]) > fabs(rows[pivot * width + k]))
                pivot = i;
        exchange_rows(rows, width, k, pivot);
        const double first = rows[k * width + k];
        for (int64_t j = k; j < width; j++)
            rows[k * width + j] /= first;
        for (int64_t i = 0; i < n; i++) {
            const double factor = rows[i * width + k];
            for (int64_t j = k; j < width && i != k; j++)
                rows[i * width + j] -= factor * rows[k * width + j];
        }
    }
}

static opf_status run_inverse(const opf_call *call, opf_error *error)
{
    const opf_view *x = &call->in[0];
    opf_view *y = &call->out[0];
    const opf_view *views[] = {x, y};
    const int32_t row = x->rank - 2;
    const int64_t n = x->dims[row];
    size_t bytes;
    opf_walk walk;
    OPF_OOM_IF(error, !opf_mul_size((size_t)n * 2 * sizeof(double), (size_t)n, &bytes));
    double *rows = opf_heap_alloc(call->heap, bytes);
    OPF_OOM_IF(error, rows == NULL);
    for (opf_walk_init(&walk, row, x->dims, 2, views); walk.left != 0; opf_walk_next(&walk)) {
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < n; j++) {
                rows[i * 2 * n + j] = opf_view_f64(x, walk.offset[0] + i * x->strides[row] + j * x->strides[row + 1]);
                rows[i * 2 * n + n + j] = i == j;
            }
        invert(rows, n);
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < n; j++)
                opf_view_put_f64(y, walk.offset[1] + i * y->strides[row] + j * y->strides[row + 1],
                                 rows[i * 2 * n + n + j]);
    }
    opf_heap_free(call->heap, rows, bytes);
    return OPF_OK;
}

const opf_op opf_op_Inverse = {
    .name = "Inverse",
    .domain = "com.microsoft",
    .since = 1,
    .inputs = (const opf_param[]){{"X", 'T', OPF_TYPES_FLOAT, 0}},
    .n_inputs = 1,
    .outputs = (const opf_param[]){{"Y", 'T', OPF_TYPES_FLOAT, 0}},
    .n_outputs = 1,
    .infer = infer_inverse,
    .reference = run_inverse,
};
