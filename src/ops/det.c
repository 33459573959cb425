/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/check.h"
#include "ops/lift.h"
#include "ops/reference.h"

#include <math.h>

static opf_status infer_det(opf_infer *infer, opf_error *error)
{
    const opf_info *x = infer->in[0];
    if (x->rank < 0)
        return OPF_OK;
    OPF_FAIL_IF(error, x->rank < 2, OPF_INVALID_MODEL, "X has rank %d, must be 2 at least", x->rank);
    if (opf_dims_clash(x->dims[x->rank - 2], x->dims[x->rank - 1]))
        return opf_refuse_shapes(infer, 0, 0, error, "matrices must be square");
    return opf_infer_set(infer, 0, x->rank - 2, x->dims, error);
}

/* The product of the pivots of Gauss's elimination; rows are exchanged for the greatest pivot. */
static double determinant(double *a, int64_t n)
{
    double result = 1;
    for (int64_t k = 0; k < n; k++) {
        int64_t pivot = k;
        for (int64_t i = k + 1; i < n; i++)
            if (fabs(a[i * n + k]) > fabs(a[pivot * n + k]))
                pivot = i;
        for (int64_t j = k; j < n && pivot != k; j++) {
            double swapped   = a[k * n + j];
            a[k * n + j]     = a[pivot * n + j];
            a[pivot * n + j] = swapped;
        }
        result *= pivot != k ? -a[k * n + k] : a[k * n + k];
        if (a[k * n + k] == 0)
            return result;
        for (int64_t i = k + 1; i < n; i++) {
            double factor = a[i * n + k] / a[k * n + k];
            for (int64_t j = k + 1; j < n; j++)
                a[i * n + j] -= factor * a[k * n + j];
        }
    }
    return result;
}

static opf_status reference_det(const opf_call *call, opf_error *error)
{
    const opf_view *x       = &call->in[0];
    opf_view       *y       = &call->out[0];
    const opf_view *views[] = {x, y};
    const int32_t   row     = x->rank - 2;
    const int64_t   n       = x->dims[row];
    opf_walk        walk;
    size_t          bytes;
    OPF_OOM_IF(error, !opf_mul_size((size_t)n * sizeof(double), (size_t)n, &bytes));
    double *matrix = opf_heap_alloc(call->heap, bytes);
    OPF_OOM_IF(error, matrix == NULL);
    for (opf_walk_init(&walk, row, x->dims, 2, views); walk.left != 0; opf_walk_next(&walk)) {
        for (int64_t i = 0; i < n * n; i++)
            matrix[i] = opf_view_f64(x, walk.offset[0] + i / n * x->strides[row] + i % n * x->strides[row + 1]);
        opf_view_put_f64(y, walk.offset[1], determinant(matrix, n));
    }
    opf_heap_free(call->heap, matrix, bytes);
    return OPF_OK;
}

const opf_op opf_op_Det = {
    .name      = "Det",
    .domain    = "",
    .since     = 11,
    .inputs    = (const opf_param[]){{"X", 'T', OPF_TYPES_FLOAT, 0}},
    .n_inputs  = 1,
    .outputs   = (const opf_param[]){{"Y", 'T', OPF_TYPES_FLOAT, 0}},
    .n_outputs = 1,
    .rows      = (const opf_import_row[]){{22, opf_import_same, opf_lower_no_bfloat16}},
    .n_rows    = 1,
    .infer     = infer_det,
    .reference = reference_det,
};
