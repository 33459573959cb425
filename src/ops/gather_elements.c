/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/call.h"

static opf_status infer_gather_elements(opf_infer *infer, opf_error *error)
{
    const opf_info *data = infer->in[0], *indices = infer->in[1];
    int32_t         axis;
    OPF_FAIL_IF(error, data->rank == 0, OPF_INVALID_MODEL, "data has rank 0, must be 1 at least");
    if (data->rank >= 0) {
        OPF_TRY(opf_normalize_axis(opf_node_int(infer->node, "axis", 0), data->rank, &axis, error));
        OPF_FAIL_IF(error, indices->rank >= 0 && indices->rank != data->rank, OPF_INVALID_MODEL,
                    "indices has rank %d, data has %d: they must be equal", indices->rank, data->rank);
        for (int32_t i = 0; i < indices->rank; i++)
            OPF_FAIL_IF(error,
                        i != axis && opf_dim_is_number(indices->dims[i]) && opf_dim_is_number(data->dims[i]) &&
                            indices->dims[i].n > data->dims[i].n,
                        OPF_INVALID_INPUT, "dimension %d of indices is %lld, must be at most %lld as in data", i,
                        (long long)indices->dims[i].n, (long long)data->dims[i].n);
    }
    OPF_TRY(opf_infer_same(infer, 0, 1, error));
    return opf_infer_moved(infer, error);
}

static opf_status reference_gather_elements(const opf_call *call, opf_error *error)
{
    const opf_view *data = &call->in[0], *indices = &call->in[1], *out = &call->out[0];
    const opf_view *views[3] = {indices, out, data};
    int32_t         axis;
    opf_walk        walk;
    OPF_TRY(opf_normalize_axis(opf_call_int(call, "axis", 0), data->rank, &axis, error));
    const int64_t d = data->dims[axis];
    for (opf_walk_init(&walk, indices->rank, indices->dims, 1, views); walk.left != 0; opf_walk_next(&walk)) {
        int64_t index = opf_view_i64(indices, walk.offset[0]);
        OPF_FAIL_IF(error, index < -d || index >= d, OPF_INVALID_INPUT,
                    "index %lld is out of range for axis %d of %lld elements", (long long)index, axis, (long long)d);
    }
    for (opf_walk_init(&walk, indices->rank, indices->dims, 3, views); walk.left != 0; opf_walk_next(&walk)) {
        int64_t index = opf_view_i64(indices, walk.offset[0]);
        index += index < 0 ? d : 0;
        opf_move_element(out, walk.offset[1], data, walk.offset[2] + (index - walk.index[axis]) * data->strides[axis]);
    }
    return OPF_OK;
}

const opf_op opf_op_GatherElements = {
    .name      = "GatherElements",
    .domain    = "",
    .since     = 11,
    .traits    = OPF_MOVEMENT,
    .inputs    = (const opf_param[]){{"data", 'T', OPF_TYPES_MOVED, 0}, {"indices", 'I', OPF_TYPES_INDEX, 0}},
    .n_inputs  = 2,
    .outputs   = (const opf_param[]){{"output", 'T', OPF_TYPES_MOVED, 0}},
    .n_outputs = 1,
    .attrs     = (const opf_attr_def[]){{.name = "axis", .type = OPF_ATTR_INT}},
    .n_attrs   = 1,
    .rows      = (const opf_import_row[]){{13, opf_import_same, opf_lower_moved_type}},
    .n_rows    = 1,
    .infer     = infer_gather_elements,
    .reference = reference_gather_elements,
};
