/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/infer.h"
#include "ops/lift.h"
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

/* ---- opset 1: one axis, repeated; both were tensors of the type of the data ---- */

/* The next node of a chain: *value goes in as input 0, and is its result then. */
static opf_status then(opf_graph *graph, opf_node_id tile, const opf_op *op, opf_value_id second, opf_node_id *node,
                       opf_value_id *value, opf_error *error)
{
    const opf_value_id inputs[2] = {*value, second};
    return opf_lift_add_node(graph, tile, op, inputs, second != 0 ? 2 : 1, node, value, error);
}

/* Of the type of data, as an int64 tensor of the dimensions of `shape`. */
static opf_status as_index(opf_graph *graph, opf_node_id tile, opf_value_id shape, opf_value_id *value, opf_error *error)
{
    opf_node_id node;
    OPF_TRY(then(graph, tile, &opf_op_Cast, 0, &node, value, error));
    OPF_OOM_IF(error, !opf_node_set_int(graph, node, "to", OPF_INT64));
    OPF_TRY(opf_infer_update(graph, node, error));
    OPF_TRY(then(graph, tile, &opf_op_Reshape, shape, &node, value, error));
    return opf_infer_update(graph, node, error);
}

/* repeats = OneHot(axis, rank of the data, [1, tiles]), which is 1 everywhere but at the axis. */
static opf_status lift_tile_6(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    static const int64_t one = 1;
    const opf_node      *node = opf_graph_node(graph, id);
    (void)opset;
    OPF_FAIL_IF(error, node->n_own_inputs != 3 || node->inputs[1] == 0 || node->inputs[2] == 0, OPF_INVALID_MODEL,
                "%s (Tile): inputs tiles and axis are missing", node->name);
    opf_value_id       rank = node->inputs[0], tiles = node->inputs[1], axis = node->inputs[2], repeats;
    const opf_value_id once   = opf_graph_add_constant(graph, "one", opf_const_ints(graph->consts, &one, 1));
    const opf_value_id scalar = opf_graph_add_constant(graph, "scalar", opf_const_ints(graph->consts, NULL, 0));
    opf_node_id        made;
    OPF_OOM_IF(error, once == 0 || scalar == 0);
    OPF_TRY(then(graph, id, &opf_op_Shape, 0, &made, &rank, error));
    OPF_TRY(opf_infer_update(graph, made, error));
    OPF_TRY(then(graph, id, &opf_op_Size, 0, &made, &rank, error));
    OPF_TRY(opf_infer_update(graph, made, error));
    OPF_TRY(as_index(graph, id, once, &tiles, error));
    OPF_TRY(as_index(graph, id, scalar, &axis, error));
    opf_value_id values = once;
    OPF_TRY(then(graph, id, &opf_op_Concat, tiles, &made, &values, error));
    OPF_OOM_IF(error, !opf_node_set_int(graph, made, "axis", 0));
    OPF_TRY(opf_infer_update(graph, made, error));
    OPF_TRY(opf_lift_add_node(graph, id, &opf_op_OneHot, (opf_value_id[]){axis, rank, values}, 3, &made, &repeats, error));
    OPF_TRY(opf_infer_update(graph, made, error));
    OPF_OOM_IF(error, !opf_graph_set_input(graph, id, 1, repeats) || !opf_graph_set_input(graph, id, 2, 0));
    opf_graph_node(graph, id)->n_inputs = opf_graph_node(graph, id)->n_own_inputs = 2;
    return OPF_OK;
}

static opf_status lower_tile_6(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    const opf_node  *node    = opf_graph_node(graph, id);
    const opf_type   type    = opf_graph_value(graph, node->inputs[0])->info.type;
    const opf_const *repeats = opf_graph_value(graph, node->inputs[1])->constant;
    size_t           axis = 0, n = 0;
    (void)opset;
    for (size_t i = 0; repeats != NULL && i < repeats->count; i++)
        if (opf_const_i64_at(repeats, i) != 1) {
            axis = i;
            n++;
        }
    OPF_FAIL_IF(error, !opf_types_have(OPF_TYPES_FLOAT, type) || repeats == NULL || repeats->count == 0 || n > 1, OPF_UNSUPPORTED,
                "%s (Tile): before opset 6 floats were repeated, along one axis, and here as often as a constant says", node->name);
    const double       numbers[2] = {(double)opf_const_i64_at(repeats, axis), (double)axis};
    const opf_value_id values[2]  = {
        opf_graph_add_constant(graph, "tiles", opf_const_float(graph->consts, type, numbers[0])),
        opf_graph_add_constant(graph, "axis", opf_const_float(graph->consts, type, numbers[1])),
    };
    OPF_OOM_IF(error, values[0] == 0 || values[1] == 0 || !opf_graph_set_input(graph, id, 1, values[0]) ||
                          !opf_graph_append_input(graph, id, values[1]));
    return OPF_OK;
}

const opf_op opf_op_Tile = {
    .name      = "Tile",
    .domain    = "",
    .since     = 1,
    .traits    = OPF_MOVEMENT,
    .inputs    = (const opf_param[]){{"input", 'T', OPF_TYPES_MOVED, 0},
                                     {"repeats", 0, OPF_TYPE_BIT(OPF_INT64), 0}},
    .n_inputs  = 2,
    .outputs   = (const opf_param[]){{"output", 'T', OPF_TYPES_MOVED, 0}},
    .n_outputs = 1,
    .rows      = (const opf_import_row[]){{6, lift_tile_6, lower_tile_6}, {13, opf_import_same, opf_lower_moved_type}},
    .n_rows    = 2,
    .infer     = infer_tile,
    .reference = reference_tile,
};
