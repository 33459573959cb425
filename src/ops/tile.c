/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/movement.h"

static opf_status infer_tile(opf_infer *infer, opf_error *error)
{
    const opf_info *in = infer->in[0], *counts = infer->in[1];
    const opf_dim  *repeats;
    opf_dim         dims[OPF_MAX_RANK];
    int32_t         n;
    OPF_FAIL_IF(error, counts->rank >= 0 && counts->rank != 1, OPF_INVALID_MODEL, "repeats has rank %d, must be 1",
                counts->rank);
    if (in->rank < 0)
        return OPF_OK;
    OPF_FAIL_IF(error, counts->rank == 1 && opf_dim_is_number(counts->dims[0]) && counts->dims[0].n != in->rank,
                OPF_INVALID_MODEL, "repeats has %lld elements, input has rank %d", (long long)counts->dims[0].n,
                in->rank);
    if (!opf_infer_values(infer, 1, &repeats, &n) || n != in->rank)
        return opf_infer_unknown_dims(infer, 0, in->rank, error);
    for (int32_t i = 0; i < n; i++) {
        OPF_FAIL_IF(error, opf_dim_is_number(repeats[i]) && repeats[i].n < 0, OPF_INVALID_INPUT,
                    "repeats[%d] is %lld, must be 0 at least", i, (long long)repeats[i].n);
        dims[i] = opf_dim_mul(infer->dims, in->dims[i], repeats[i]);
    }
    OPF_TRY(opf_infer_set(infer, 0, n, dims, error));
    return opf_infer_moved(infer, error);
}

/* Row by row of the result: the last axis is the row of the input, again and again. */
static opf_status reference_tile(const opf_call *call, opf_error *error)
{
    (void)error;
    const opf_view *in = &call->in[0], *out = &call->out[0];
    const size_t    bits = opf_type_bits(in->type);
    const int32_t   last = out->rank - 1;
    int64_t         rows[OPF_MAX_RANK];
    opf_walk        walk;
    for (int32_t i = 0; i < out->rank; i++)
        rows[i] = i < last || in->dims[i] == 0 ? out->dims[i] : out->dims[i] / in->dims[i];
    for (opf_walk_init(&walk, out->rank, rows, 0, NULL); walk.left != 0; opf_walk_next(&walk)) {
        int64_t from = 0, to = 0;
        for (int32_t i = 0; i < last; i++) {
            from += walk.index[i] % in->dims[i] * in->strides[i];
            to += walk.index[i] * out->strides[i];
        }
        if (last >= 0)
            to += walk.index[last] * in->dims[last] * out->strides[last];
        opf_move_grid(bits, (opf_grid){out->data, to, last < 0 ? NULL : &out->strides[last]},
                      (opf_grid){in->data, from, last < 0 ? NULL : &in->strides[last]}, last < 0 ? 0 : 1,
                      last < 0 ? NULL : &in->dims[last]);
    }
    return OPF_OK;
}

const opf_op opf_op_Tile = {
    .name      = "Tile",
    .domain    = "",
    .since     = 6,
    .traits    = OPF_MOVEMENT,
    .inputs    = (const opf_param[]){{"input", 'T', OPF_TYPES_MOVED, 0},
                                     {"repeats", 0, OPF_TYPE_BIT(OPF_INT64), 0}},
    .n_inputs  = 2,
    .outputs   = (const opf_param[]){{"output", 'T', OPF_TYPES_MOVED, 0}},
    .n_outputs = 1,
    .rows      = (const opf_import_row[]){{13, opf_import_same, opf_lower_moved_type}},
    .n_rows    = 1,
    .infer     = infer_tile,
    .reference = reference_tile,
};
