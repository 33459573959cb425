/* SPDX-License-Identifier: Apache-2.0 */
/* DepthToSpace and SpaceToDepth: one move between the small image of many channels and the large one of few. */
#include "ops/lift.h"
#include "ops/movement.h"

#include <string.h>

static opf_status get_block(int64_t block, const char *mode, bool *is_crd, opf_error *error)
{
    *is_crd = strcmp(mode, "CRD") == 0;
    OPF_FAIL_IF(error, !*is_crd && strcmp(mode, "DCR") != 0, OPF_INVALID_MODEL, "mode \"%s\" does not exist", mode);
    OPF_FAIL_IF(error, block < 1 || block > 1 << 15, OPF_INVALID_MODEL, "blocksize is %lld, must be in [1, %d]",
                (long long)block, 1 << 15);
    return OPF_OK;
}

/* A dimension that must be a multiple. */
static opf_status divide(opf_infer *infer, int32_t axis, int64_t by, opf_dim *result, opf_error *error)
{
    opf_dim d = infer->in[0]->dims[axis];
    OPF_FAIL_IF(error, opf_dim_is_number(d) && d.n % by != 0, OPF_INVALID_INPUT,
                "dimension %d is %lld, must be a multiple of %lld", axis, (long long)d.n, (long long)by);
    *result = opf_dim_div_exact(infer->dims, d, opf_dim_number(by));
    return OPF_OK;
}

static opf_status infer_depth_space(opf_infer *infer, bool to_space, opf_error *error)
{
    const opf_info *in    = infer->in[0];
    const int64_t   block = opf_node_int(infer->node, "blocksize", 0);
    opf_dim         dims[4];
    bool            is_crd;
    OPF_TRY(get_block(block, opf_node_string(infer->node, "mode", "DCR"), &is_crd, error));
    if (in->rank < 0)
        return OPF_OK;
    OPF_FAIL_IF(error, in->rank != 4, OPF_INVALID_MODEL, "input has rank %d, must be 4", in->rank);
    dims[0] = in->dims[0];
    if (to_space)
        OPF_TRY(divide(infer, 1, block * block, &dims[1], error));
    else
        dims[1] = opf_dim_mul(infer->dims, in->dims[1], opf_dim_number(block * block));
    for (int32_t i = 2; i < 4; i++) {
        if (to_space)
            dims[i] = opf_dim_mul(infer->dims, in->dims[i], opf_dim_number(block));
        else
            OPF_TRY(divide(infer, i, block, &dims[i], error));
    }
    OPF_TRY(opf_infer_set(infer, 0, 4, dims, error));
    return opf_infer_moved(infer, error);
}

/* Both sides as [n, row in block, column in block, channel, height, width]. */
static opf_status move_depth_space(const opf_call *call, bool to_space, opf_error *error)
{
    const opf_view *in = &call->in[0], *out = &call->out[0], *deep = to_space ? in : out, *wide = to_space ? out : in;
    const int64_t   b        = opf_call_int(call, "blocksize", 0), channels = wide->dims[1];
    const int64_t   dims[6]  = {deep->dims[0], b, b, channels, deep->dims[2], deep->dims[3]};
    bool            is_crd;
    OPF_TRY(get_block(b, opf_call_string(call, "mode", "DCR"), &is_crd, error));
    const int64_t depth       = deep->strides[1];
    const int64_t of_deep[6]  = {deep->strides[0],
                                 is_crd ? b * depth : b * channels * depth,
                                 is_crd ? depth : channels * depth,
                                 is_crd ? b * b * depth : depth,
                                 deep->strides[2],
                                 deep->strides[3]};
    const int64_t of_wide[6]  = {wide->strides[0], wide->strides[2],     wide->strides[3],
                                 wide->strides[1], b * wide->strides[2], b * wide->strides[3]};
    opf_move_grid(opf_type_bits(in->type), (opf_grid){out->data, 0, to_space ? of_wide : of_deep},
                  (opf_grid){in->data, 0, to_space ? of_deep : of_wide}, 6, dims);
    return OPF_OK;
}

static opf_status infer_depth_to_space(opf_infer *infer, opf_error *error)
{
    return infer_depth_space(infer, true, error);
}

static opf_status infer_space_to_depth(opf_infer *infer, opf_error *error)
{
    return infer_depth_space(infer, false, error);
}

static opf_status reference_depth_to_space(const opf_call *call, opf_error *error)
{
    return move_depth_space(call, true, error);
}

static opf_status reference_space_to_depth(const opf_call *call, opf_error *error)
{
    return move_depth_space(call, false, error);
}

static opf_status lower_mode(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    const opf_node *node = opf_graph_node(graph, id);
    OPF_FAIL_IF(error, strcmp(opf_node_string(node, "mode", "DCR"), "DCR") != 0, OPF_UNSUPPORTED,
                "%s (%s): mode CRD needs an opset above %d", node->name, node->op_type, (int)opset);
    return opf_drop_attr(graph, id, "mode");
}

static const opf_attr_def attrs[] = {{.name = "blocksize", .type = OPF_ATTR_INT, .required = true},
                                     {.name = "mode", .type = OPF_ATTR_STRING, .s = "DCR"}};
static const opf_param    inputs[]  = {{"input", 'T', OPF_TYPES_MOVED, 0}};
static const opf_param    outputs[] = {{"output", 'T', OPF_TYPES_MOVED, 0}};

const opf_op opf_op_DepthToSpace = {
    .name      = "DepthToSpace",
    .domain    = "",
    .since     = 1,
    .traits    = OPF_MOVEMENT,
    .inputs    = inputs,
    .n_inputs  = 1,
    .outputs   = outputs,
    .n_outputs = 1,
    .attrs     = attrs,
    .n_attrs   = 2,
    .rows      = (const opf_import_row[]){{11, opf_import_same, lower_mode},
                                          {13, opf_import_same, opf_lower_moved_type}},
    .n_rows    = 2,
    .infer     = infer_depth_to_space,
    .reference = reference_depth_to_space,
};

const opf_op opf_op_SpaceToDepth = {
    .name      = "SpaceToDepth",
    .domain    = "",
    .since     = 1,
    .traits    = OPF_MOVEMENT,
    .inputs    = inputs,
    .n_inputs  = 1,
    .outputs   = outputs,
    .n_outputs = 1,
    .attrs     = attrs,
    .n_attrs   = 2,
    .rows      = (const opf_import_row[]){{13, opf_import_same, opf_lower_moved_type},
                                          {28, opf_import_same, lower_mode}},
    .n_rows    = 2,
    .infer     = infer_space_to_depth,
    .reference = reference_space_to_depth,
};
