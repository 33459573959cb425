/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/lift.h"
#include "ops/movement.h"

static opf_status check_shapes(const opf_info *data, const opf_info *indices, int64_t batch, int64_t depth,
                               opf_error *error)
{
    OPF_FAIL_IF(error, batch < 0 || batch >= data->rank || batch >= indices->rank, OPF_INVALID_MODEL,
                "batch_dims is %lld, data has rank %d and indices %d", (long long)batch, data->rank, indices->rank);
    OPF_FAIL_IF(error, depth < 1 || depth > data->rank - batch, OPF_INVALID_MODEL,
                "indices of %lld numbers, data of rank %d has %lld axes for them", (long long)depth, data->rank,
                (long long)(data->rank - batch));
    for (int32_t i = 0; i < batch; i++)
        OPF_FAIL_IF(error,
                    opf_dim_is_number(data->dims[i]) && opf_dim_is_number(indices->dims[i]) &&
                        data->dims[i].n != indices->dims[i].n,
                    OPF_INVALID_INPUT, "batch dimension %d is %lld in data and %lld in indices", i,
                    (long long)data->dims[i].n, (long long)indices->dims[i].n);
    return OPF_OK;
}

static opf_status infer_gather_nd(opf_infer *infer, opf_error *error)
{
    const opf_info *data = infer->in[0], *indices = infer->in[1];
    const int64_t   batch = opf_node_int(infer->node, "batch_dims", 0);
    opf_dim         dims[2 * OPF_MAX_RANK];
    int32_t         rank = 0;
    OPF_FAIL_IF(error, data->rank == 0 || indices->rank == 0, OPF_INVALID_MODEL,
                "%s has rank 0, must be 1 at least", data->rank == 0 ? "data" : "indices");
    if (data->rank < 0 || indices->rank < 0 || !opf_dim_is_number(indices->dims[indices->rank - 1]))
        return OPF_OK;
    const int64_t depth = indices->dims[indices->rank - 1].n;
    OPF_TRY(check_shapes(data, indices, batch, depth, error));
    for (int32_t i = 0; i < indices->rank - 1; i++)
        dims[rank++] = indices->dims[i];
    for (int32_t i = (int32_t)(batch + depth); i < data->rank; i++)
        dims[rank++] = data->dims[i];
    OPF_TRY(opf_infer_set(infer, 0, rank, dims, error));
    return opf_infer_moved(infer, error);
}

/* Offset in data of the slice that the index at `at` names; walk counts the batch. */
static opf_status slice_offset(const opf_view *data, const opf_view *indices, const opf_walk *walk, int32_t batch,
                               int64_t at, int64_t *offset, opf_error *error)
{
    const int32_t last = indices->rank - 1;
    *offset            = 0;
    for (int32_t i = 0; i < batch; i++)
        *offset += walk->index[i] * data->strides[i];
    for (int32_t i = 0; i < (int32_t)indices->dims[last]; i++) {
        int64_t index = opf_view_i64(indices, at + i * indices->strides[last]), d = data->dims[batch + i];
        OPF_FAIL_IF(error, index < -d || index >= d, OPF_INVALID_INPUT,
                    "index %lld is out of range for axis %d of %lld elements", (long long)index, batch + i,
                    (long long)d);
        *offset += (index < 0 ? index + d : index) * data->strides[batch + i];
    }
    return OPF_OK;
}

static opf_status reference_gather_nd(const opf_call *call, opf_error *error)
{
    const opf_view *data = &call->in[0], *indices = &call->in[1], *out = &call->out[0];
    const int32_t   batch = (int32_t)opf_call_int(call, "batch_dims", 0), last = indices->rank - 1;
    const int32_t   first = batch + (int32_t)indices->dims[last]; /* axis of data that a slice begins with */
    const opf_view *views[2] = {indices, out}; /* walked over the axes that they share */
    opf_walk        walk;
    int64_t         offset;
    for (opf_walk_init(&walk, last, indices->dims, 2, views); walk.left != 0; opf_walk_next(&walk))
        OPF_TRY(slice_offset(data, indices, &walk, batch, walk.offset[0], &offset, error));
    for (opf_walk_init(&walk, last, indices->dims, 2, views); walk.left != 0; opf_walk_next(&walk)) {
        OPF_TRY(slice_offset(data, indices, &walk, batch, walk.offset[0], &offset, error));
        opf_move_grid(opf_type_bits(data->type), (opf_grid){out->data, walk.offset[1], out->strides + last},
                      (opf_grid){data->data, offset, data->strides + first}, data->rank - first, data->dims + first);
    }
    return OPF_OK;
}

static opf_status lower_batch_dims(opf_graph *graph, opf_node_id node, int32_t opset, opf_error *error)
{
    (void)opset;
    return opf_lower_attr(graph, node, "batch_dims", 0, error);
}

const opf_op opf_op_GatherND = {
    .name      = "GatherND",
    .domain    = "",
    .since     = 11,
    .traits    = OPF_MOVEMENT,
    .inputs    = (const opf_param[]){{"data", 'T', OPF_TYPES_MOVED, 0}, {"indices", 0, OPF_TYPE_BIT(OPF_INT64), 0}},
    .n_inputs  = 2,
    .outputs   = (const opf_param[]){{"output", 'T', OPF_TYPES_MOVED, 0}},
    .n_outputs = 1,
    .attrs     = (const opf_attr_def[]){{.name = "batch_dims", .type = OPF_ATTR_INT}},
    .n_attrs   = 1,
    .rows      = (const opf_import_row[]){{12, opf_import_same, lower_batch_dims},
                                          {13, opf_import_same, opf_lower_moved_type}},
    .n_rows    = 2,
    .infer     = infer_gather_nd,
    .reference = reference_gather_nd,
};
