/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/movement.h"
#include "ops/scatter.h"

static opf_status infer_scatter_nd(opf_infer *infer, opf_error *error)
{
    const opf_info *data = infer->in[0], *indices = infer->in[1];
    opf_scatter     r;
    OPF_TRY(opf_scatter_read(opf_node_string(infer->node, "reduction", "none"), data->type, &r, error));
    OPF_FAIL_IF(error, indices->rank == 0, OPF_INVALID_MODEL, "indices has rank 0, must be 1 at least");
    bool has_depth = indices->rank > 0 && opf_dim_is_number(indices->dims[indices->rank - 1]) && data->rank >= 0;
    OPF_FAIL_IF(error, has_depth && indices->dims[indices->rank - 1].n > data->rank, OPF_INVALID_MODEL,
                "indices of %lld numbers, data has rank %d", (long long)indices->dims[indices->rank - 1].n, data->rank);
    if (has_depth && infer->in[2]->rank >= 0) {
        int32_t depth = (int32_t)indices->dims[indices->rank - 1].n, rank = indices->rank - 1 + data->rank - depth;
        OPF_FAIL_IF(error, infer->in[2]->rank != rank, OPF_INVALID_MODEL, "updates has rank %d, must be %d",
                    infer->in[2]->rank, rank);
        for (int32_t i = 0; i < rank; i++) {
            opf_dim wanted = i < indices->rank - 1 ? indices->dims[i] : data->dims[depth + i - (indices->rank - 1)],
                    is = infer->in[2]->dims[i];
            OPF_FAIL_IF(error, opf_dim_is_number(wanted) && opf_dim_is_number(is) && wanted.n != is.n,
                        OPF_INVALID_INPUT, "dimension %d of updates is %lld, must be %lld", i, (long long)is.n,
                        (long long)wanted.n);
        }
    }
    OPF_TRY(opf_infer_same(infer, 0, 0, error));
    return r == OPF_SCATTER_NONE && has_depth ? opf_infer_moved(infer, error) : OPF_OK;
}

/* ---- reference ---- */

/* The slice that one index names: its place in the result is start, its shape dims. */
static void reduce_slice(opf_scatter r, const opf_view *out, int64_t start, const opf_view *updates, int64_t from,
                         const opf_view *slice)
{
    opf_view        inner    = *slice; /* of updates: the last dimensions */
    const opf_view *views[2] = {slice, &inner};
    opf_walk        walk;
    for (int32_t i = 0; i < slice->rank; i++)
        inner.strides[i] = updates->strides[updates->rank - slice->rank + i];
    for (opf_walk_init(&walk, slice->rank, slice->dims, 2, views); walk.left != 0; opf_walk_next(&walk))
        opf_scatter_reduce(r, out, start + walk.offset[0], updates, from + walk.offset[1]);
}

/* Offset of the slice in out that the index at `at` names. */
static opf_status slice_offset(const opf_view *out, const opf_view *indices, int64_t at, int64_t *offset,
                               opf_error *error)
{
    int64_t stride = indices->strides[indices->rank - 1];
    *offset        = 0;
    for (int64_t i = 0; i < indices->dims[indices->rank - 1]; i++) {
        int64_t index = opf_view_i64(indices, at + i * stride);
        OPF_FAIL_IF(error, index < -out->dims[i] || index >= out->dims[i], OPF_INVALID_INPUT,
                    "index %lld is out of range for axis %lld of %lld elements", (long long)index, (long long)i,
                    (long long)out->dims[i]);
        *offset += (index < 0 ? index + out->dims[i] : index) * out->strides[i];
    }
    return OPF_OK;
}

static opf_status reference_scatter_nd(const opf_call *call, opf_error *error)
{
    const opf_view *data = &call->in[0], *indices = &call->in[1], *updates = &call->in[2], *out = &call->out[0];
    const size_t    bits  = opf_type_bits(data->type);
    const int32_t   depth = (int32_t)indices->dims[indices->rank - 1];
    const opf_view *views[2] = {indices, updates};
    opf_view        slice    = {.rank = out->rank - depth};
    opf_scatter     r;
    opf_walk        walk;
    int64_t         start;
    OPF_TRY(opf_scatter_read(opf_call_string(call, "reduction", "none"), data->type, &r, error));
    for (opf_walk_init(&walk, indices->rank - 1, indices->dims, 2, views); walk.left != 0; opf_walk_next(&walk))
        OPF_TRY(
            slice_offset(out, indices, walk.offset[0], &start, error)); /* all are checked before anything is written */
    for (int32_t i = 0; i < slice.rank; i++) {
        slice.dims[i]    = out->dims[depth + i];
        slice.strides[i] = out->strides[depth + i];
    }
    opf_move_grid(bits, (opf_grid){out->data, 0, out->strides}, (opf_grid){data->data, 0, data->strides}, out->rank,
                  out->dims);
    for (opf_walk_init(&walk, indices->rank - 1, indices->dims, 2, views); walk.left != 0; opf_walk_next(&walk)) {
        OPF_TRY(slice_offset(out, indices, walk.offset[0], &start, error));
        if (r == OPF_SCATTER_NONE)
            opf_move_grid(bits, (opf_grid){out->data, start, slice.strides},
                          (opf_grid){updates->data, walk.offset[1], updates->strides + indices->rank - 1}, slice.rank,
                          slice.dims);
        else
            reduce_slice(r, out, start, updates, walk.offset[1], &slice);
    }
    return OPF_OK;
}

const opf_op opf_op_ScatterND = {
    .name = "ScatterND",
    .domain = "",
    .since = 11,
    .traits = OPF_MOVEMENT,
    .inputs = (const opf_param[]){{"data", 'T', OPF_TYPES_MOVED, 0},
                                  {"indices", 0, OPF_TYPE_BIT(OPF_INT64), 0},
                                  {"updates", 'T', OPF_TYPES_MOVED, 0}},
    .n_inputs = 3,
    .outputs = (const opf_param[]){{"output", 'T', OPF_TYPES_MOVED, 0}},
    .n_outputs = 1,
    .attrs = (const opf_attr_def[]){{.name = "reduction", .type = OPF_ATTR_STRING, .s = "none"}},
    .n_attrs = 1,
    .rows =
        (const opf_import_row[]){{13, opf_import_same, opf_lower_moved_type}, {18, opf_import_same, opf_scatter_lower}},
    .n_rows = 2,
    .infer = infer_scatter_nd,
    .reference = reference_scatter_nd,
};
