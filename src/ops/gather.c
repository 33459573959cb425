/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/movement.h"

static opf_status infer_gather(opf_infer *infer, opf_error *error)
{
    const opf_info *data = infer->in[0], *indices = infer->in[1];
    opf_dim         dims[2 * OPF_MAX_RANK];
    const opf_dim  *values;
    int32_t         axis, n, rank = 0;
    if (data->rank < 0 || indices->rank < 0)
        return OPF_OK;
    OPF_TRY(opf_normalize_axis(opf_node_int(infer->node, "axis", 0), data->rank, &axis, error));
    for (int32_t i = 0; i < axis; i++)
        dims[rank++] = data->dims[i];
    for (int32_t i = 0; i < indices->rank; i++)
        dims[rank++] = indices->dims[i];
    for (int32_t i = axis + 1; i < data->rank; i++)
        dims[rank++] = data->dims[i];
    if (opf_infer_values(infer, 1, &values, &n) && opf_dim_is_number(data->dims[axis]))
        for (int32_t i = 0; i < n; i++)
            OPF_FAIL_IF(error,
                        opf_dim_is_number(values[i]) &&
                            (values[i].n < -data->dims[axis].n || values[i].n >= data->dims[axis].n),
                        OPF_INVALID_INPUT, "index %lld is out of range for axis %d of %lld elements",
                        (long long)values[i].n, axis, (long long)data->dims[axis].n);
    OPF_TRY(opf_infer_set(infer, 0, rank, dims, error));
    return opf_infer_moved(infer, error);
}

/* All indices are checked before the first element is written. */
static opf_status check_indices(const opf_view *indices, int64_t d, int32_t axis, opf_error *error)
{
    opf_walk walk;
    for (opf_walk_init(&walk, indices->rank, indices->dims, 1, &indices); walk.left != 0; opf_walk_next(&walk)) {
        int64_t index = opf_view_i64(indices, walk.offset[0]);
        OPF_FAIL_IF(error, index < -d || index >= d, OPF_INVALID_INPUT,
                    "index %lld is out of range for axis %d of %lld elements", (long long)index, axis, (long long)d);
    }
    return OPF_OK;
}

/* For each index a slice: the dimensions before the axis and those after it. */
static opf_status reference_gather(const opf_call *call, opf_error *error)
{
    const opf_view *data = &call->in[0], *indices = &call->in[1], *out = &call->out[0];
    int64_t         dims[OPF_MAX_RANK], from[OPF_MAX_RANK], to[OPF_MAX_RANK];
    int32_t         axis, rank = 0;
    opf_walk        walk;
    OPF_TRY(opf_normalize_axis(opf_call_int(call, "axis", 0), data->rank, &axis, error));
    OPF_TRY(check_indices(indices, data->dims[axis], axis, error));
    for (int32_t i = 0; i < data->rank; i++) {
        if (i == axis)
            continue;
        dims[rank]   = data->dims[i];
        from[rank]   = data->strides[i];
        to[rank++]   = out->strides[i < axis ? i : i + indices->rank - 1];
    }
    opf_view places = {.rank = indices->rank}; /* the part of out that the indices count */
    for (int32_t i = 0; i < indices->rank; i++) {
        places.dims[i]    = indices->dims[i];
        places.strides[i] = out->strides[axis + i];
    }
    const opf_view *views[2] = {indices, &places};
    for (opf_walk_init(&walk, indices->rank, indices->dims, 2, views); walk.left != 0; opf_walk_next(&walk)) {
        int64_t index = opf_view_i64(indices, walk.offset[0]);
        index += index < 0 ? data->dims[axis] : 0;
        opf_move_grid(opf_type_bits(data->type), (opf_grid){out->data, walk.offset[1], to},
                      (opf_grid){data->data, index * data->strides[axis], from}, rank, dims);
    }
    return OPF_OK;
}

const opf_op opf_op_Gather = {
    .name = "Gather",
    .domain = "",
    .since = 1,
    .traits = OPF_MOVEMENT,
    .inputs = (const opf_param[]){{"data", 'T', OPF_TYPES_MOVED, 0}, {"indices", 'I', OPF_TYPES_INDEX, 0}},
    .n_inputs = 2,
    .outputs = (const opf_param[]){{"output", 'T', OPF_TYPES_MOVED, 0}},
    .n_outputs = 1,
    .attrs = (const opf_attr_def[]){{.name = "axis", .type = OPF_ATTR_INT}},
    .n_attrs = 1,
    .rows = (const opf_import_row[]){{11, opf_import_same, opf_lower_negative_axis},
                                     {13, opf_import_same, opf_lower_moved_type}},
    .n_rows = 2,
    .infer = infer_gather,
    .reference = reference_gather,
};
