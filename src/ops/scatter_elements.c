/* SPDX-License-Identifier: Apache-2.0 */
/* ScatterElements, and its older name Scatter. */
#include "ops/call.h"
#include "ops/check.h"
#include "ops/scatter.h"

static opf_status check_shapes(const opf_infer *infer, int32_t axis, opf_error *error)
{
    const opf_info *data = infer->in[0], *indices = infer->in[1], *updates = infer->in[2];
    OPF_FAIL_IF(error, indices->rank >= 0 && indices->rank != data->rank, OPF_INVALID_MODEL,
                "indices has rank %d, data has %d: they must be equal", indices->rank, data->rank);
    OPF_FAIL_IF(error, updates->rank >= 0 && updates->rank != data->rank, OPF_INVALID_MODEL,
                "updates has rank %d, data has %d: they must be equal", updates->rank, data->rank);
    for (int32_t i = 0; i < indices->rank; i++) {
        bool too_long = opf_dims_clash(indices->dims[i], data->dims[i]) && indices->dims[i].n > data->dims[i].n;
        if (i != axis && too_long)
            return opf_refuse_shapes(infer, 0, 1, error, "dimension %d of the latter must be at most %lld", i,
                                     (long long)data->dims[i].n);
        if (updates->rank >= 0 && opf_dims_clash(indices->dims[i], updates->dims[i]))
            return opf_refuse_shapes(infer, 1, 2, error, "they must be equal");
    }
    return OPF_OK;
}

static opf_status infer_scatter_elements(opf_infer *infer, opf_error *error)
{
    const opf_info *data = infer->in[0];
    opf_scatter     reduction;
    int32_t         axis;
    OPF_TRY(opf_scatter_read(opf_node_string(infer->node, "reduction", "none"), data->type, &reduction, error));
    OPF_FAIL_IF(error, data->rank == 0, OPF_INVALID_MODEL, "data has rank 0, must be 1 at least");
    if (data->rank < 0)
        return OPF_OK;
    OPF_TRY(opf_normalize_axis(opf_node_int(infer->node, "axis", 0), data->rank, &axis, error));
    OPF_TRY(check_shapes(infer, axis, error));
    OPF_TRY(opf_infer_same(infer, 0, 0, error));
    return reduction == OPF_SCATTER_NONE ? opf_infer_moved(infer, error) : OPF_OK;
}

/* In row-major order of the updates: where indices repeat, the last one stays. */
static opf_status reference_scatter_elements(const opf_call *call, opf_error *error)
{
    const opf_view *data = &call->in[0], *indices = &call->in[1], *updates = &call->in[2], *out = &call->out[0];
    const opf_view *views[3] = {indices, updates, out};
    opf_scatter     reduction;
    int32_t         axis;
    opf_walk        walk;
    OPF_TRY(opf_scatter_read(opf_call_string(call, "reduction", "none"), data->type, &reduction, error));
    OPF_TRY(opf_normalize_axis(opf_call_int(call, "axis", 0), data->rank, &axis, error));
    const int64_t d = data->dims[axis];
    for (opf_walk_init(&walk, indices->rank, indices->dims, 1, views); walk.left != 0; opf_walk_next(&walk)) {
        int64_t index = opf_view_i64(indices, walk.offset[0]);
        OPF_FAIL_IF(error, index < -d || index >= d, OPF_INVALID_INPUT,
                    "index %lld is out of range for axis %d of %lld elements", (long long)index, axis, (long long)d);
    }
    opf_move_grid(opf_type_bits(data->type), (opf_grid){out->data, 0, out->strides},
                  (opf_grid){data->data, 0, data->strides}, data->rank, data->dims);
    for (opf_walk_init(&walk, indices->rank, indices->dims, 3, views); walk.left != 0; opf_walk_next(&walk)) {
        int64_t index = opf_view_i64(indices, walk.offset[0]);
        index += index < 0 ? d : 0;
        int64_t to = walk.offset[2] + (index - walk.index[axis]) * out->strides[axis];
        if (reduction == OPF_SCATTER_NONE)
            opf_move_element(out, to, updates, walk.offset[1]);
        else
            opf_scatter_reduce(reduction, out, to, updates, walk.offset[1]);
    }
    return OPF_OK;
}

/* ---- older opsets ---- */

static opf_status rename_node(opf_graph *graph, opf_node_id id, const opf_op *op)
{
    opf_node *node = opf_graph_node(graph, id);
    node->op       = op;
    node->op_type  = op->name;
    return OPF_OK;
}

static opf_status lift_scatter(opf_graph *graph, opf_node_id node, int32_t opset, opf_error *error)
{
    (void)opset;
    (void)error;
    return rename_node(graph, node, &opf_op_ScatterElements);
}

static opf_status lower_to_scatter(opf_graph *graph, opf_node_id node, int32_t opset, opf_error *error)
{
    OPF_TRY(opf_lower_negative_axis(graph, node, opset, error));
    return rename_node(graph, node, &opf_op_Scatter);
}

static const opf_param    inputs[]  = {{"data", 'T', OPF_TYPES_MOVED, 0},
                                       {"indices", 'I', OPF_TYPES_INDEX, 0},
                                       {"updates", 'T', OPF_TYPES_MOVED, 0}};
static const opf_param    outputs[] = {{"output", 'T', OPF_TYPES_MOVED, 0}};
static const opf_attr_def attrs[]   = {{.name = "axis", .type = OPF_ATTR_INT},
                                       {.name = "reduction", .type = OPF_ATTR_STRING, .s = "none"}};

const opf_op opf_op_ScatterElements = {
    .name      = "ScatterElements",
    .domain    = "",
    .since     = 11,
    .traits    = OPF_MOVEMENT,
    .inputs    = inputs,
    .n_inputs  = 3,
    .outputs   = outputs,
    .n_outputs = 1,
    .attrs     = attrs,
    .n_attrs   = 2,
    .rows      = (const opf_import_row[]){{11, opf_import_same, lower_to_scatter},
                                          {13, opf_import_same, opf_lower_moved_type},
                                          {18, opf_import_same, opf_scatter_lower}},
    .n_rows    = 3,
    .infer     = infer_scatter_elements,
    .reference = reference_scatter_elements,
};

/* Deprecated, but in files of any opset the meaning is plain. */
const opf_op opf_op_Scatter = {
    .name      = "Scatter",
    .domain    = "",
    .since     = 9,
    .traits    = OPF_MOVEMENT,
    .inputs    = inputs,
    .n_inputs  = 3,
    .outputs   = outputs,
    .n_outputs = 1,
    .attrs     = attrs,
    .n_attrs   = 1,
    .rows      = (const opf_import_row[]){{INT32_MAX, lift_scatter, opf_import_same}},
    .n_rows    = 1,
    .infer     = infer_scatter_elements,
    .reference = reference_scatter_elements,
    .notes     = "becomes ScatterElements",
};
