/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/call.h"
#include "ops/check.h"

static opf_status infer_affine_grid(opf_infer *infer, opf_error *error)
{
    const opf_info *theta = infer->in[0], *size = infer->in[1];
    const opf_dim  *sizes;
    opf_dim         dims[5];
    int32_t         n, rank = 0;
    OPF_FAIL_IF(error, theta->rank >= 0 && theta->rank != 3, OPF_INVALID_MODEL, "theta has rank %d, must be 3",
                theta->rank);
    if (size->rank == 1 && opf_dim_is_number(size->dims[0])) {
        OPF_FAIL_IF(error, size->dims[0].n != 4 && size->dims[0].n != 5, OPF_INVALID_MODEL,
                    "size has %lld elements, must have 4 or 5", (long long)size->dims[0].n);
        rank = (int32_t)size->dims[0].n;
    }
    OPF_FAIL_IF(error, size->rank >= 0 && size->rank != 1, OPF_INVALID_MODEL, "size has rank %d, must be 1",
                size->rank);
    if (rank == 0)
        return OPF_OK;
    const opf_dim rows = opf_dim_number(rank - 2), columns = opf_dim_number(rank - 1);
    if (theta->rank == 3 && (opf_dims_clash(theta->dims[1], rows) || opf_dims_clash(theta->dims[2], columns)))
        return opf_refuse_shapes(infer, 0, 1, error, "the former must be of matrices [%d,%d]", rank - 2, rank - 1);
    bool known = opf_infer_values(infer, 1, &sizes, &n) && n == rank;
    OPF_FAIL_IF(error, known && theta->rank == 3 && opf_dims_clash(theta->dims[0], sizes[0]), OPF_INVALID_INPUT,
                "theta is of %lld images, size of %lld", (long long)theta->dims[0].n, (long long)sizes[0].n);
    dims[0] = known ? sizes[0] : theta->rank == 3 ? theta->dims[0] : opf_dim_unknown(infer->dims);
    for (int32_t i = 2; i < rank; i++)
        dims[i - 1] = known ? sizes[i] : opf_dim_unknown(infer->dims);
    dims[rank - 1] = rows;
    return opf_infer_set(infer, 0, rank, dims, error);
}

/* The middle of pixel i of n in [-1, 1]; with align_corners those of the first and last are the ends. */
static double coordinate(int64_t i, int64_t n, bool align_corners)
{
    if (!align_corners)
        return ((double)(2 * i + 1) - (double)n) / (double)n;
    return n == 1 ? 0 : (double)(2 * i - (n - 1)) / (double)(n - 1);
}

static opf_status reference_affine_grid(const opf_call *call, opf_error *error)
{
    (void)error;
    const opf_view *theta   = &call->in[0];
    opf_view       *out     = &call->out[0];
    const bool      align   = opf_call_int(call, "align_corners", 0) != 0;
    const int32_t   n       = out->rank - 2; /* spatial axes */
    const opf_view *views[] = {out};
    opf_walk        walk;
    for (opf_walk_init(&walk, n + 1, out->dims, 1, views); walk.left != 0; opf_walk_next(&walk)) {
        for (int32_t row = 0; row < n; row++) {
            const int64_t start = walk.index[0] * theta->strides[0] + row * theta->strides[1];
            double        sum   = opf_view_f64(theta, start + n * theta->strides[2]);
            for (int32_t k = 0; k < n; k++) /* x comes first, and is the last axis */
                sum += opf_view_f64(theta, start + k * theta->strides[2]) *
                       coordinate(walk.index[n - k], out->dims[n - k], align);
            opf_view_put_f64(out, walk.offset[0] + row * out->strides[n + 1], sum);
        }
    }
    return OPF_OK;
}

const opf_op opf_op_AffineGrid = {
    .name      = "AffineGrid",
    .domain    = "",
    .since     = 20,
    .inputs    = (const opf_param[]){{"theta", 'T', OPF_TYPES_FLOAT, 0}, {"size", 0, OPF_TYPE_BIT(OPF_INT64), 0}},
    .n_inputs  = 2,
    .outputs   = (const opf_param[]){{"grid", 'T', OPF_TYPES_FLOAT, 0}},
    .n_outputs = 1,
    .attrs     = (const opf_attr_def[]){{.name = "align_corners", .type = OPF_ATTR_INT}},
    .n_attrs   = 1,
    .infer     = infer_affine_grid,
    .reference = reference_affine_grid,
};
