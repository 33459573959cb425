/* SPDX-License-Identifier: Apache-2.0 */
/* Reshape Flatten Squeeze Unsqueeze: other dimensions, the same elements in the same order. */
#include "ops/lift.h"
#include "ops/movement.h"

static opf_status reference_in_order(const opf_call *call, opf_error *error)
{
    (void)error;
    opf_move_in_order(&call->out[0], &call->in[0]);
    return OPF_OK;
}

static const opf_param one_output[] = {{"reshaped", 'T', OPF_TYPES_ANY, 0}};

/* ---- Reshape ---- */

static opf_status copy_dims(opf_infer *infer, const opf_dim *target, int32_t n, opf_dim *dims, int32_t *unknown,
                            opf_error *error)
{
    bool            zero_is_zero = opf_node_int(infer->node, "allowzero", 0) != 0;
    const opf_info *in           = infer->in[0];
    *unknown                     = -1;
    for (int32_t i = 0; i < n; i++) {
        dims[i] = target[i];
        if (!opf_dim_is_number(target[i]) || target[i].n > 0)
            continue;
        if (target[i].n == -1) {
            OPF_FAIL_IF(error, *unknown >= 0, OPF_INVALID_INPUT, "two dimensions of the new shape are -1");
            *unknown = i;
        } else if (target[i].n == 0 && !zero_is_zero) {
            OPF_FAIL_IF(error, in->rank >= 0 && i >= in->rank, OPF_INVALID_INPUT,
                        "dimension %d of the new shape is 0, the input has rank %d", i, in->rank);
            dims[i] = in->rank >= 0 ? in->dims[i] : opf_dim_unknown(infer->dims);
        }
        OPF_FAIL_IF(error, target[i].n < -1, OPF_INVALID_INPUT, "dimension %d of the new shape is %lld", i,
                    (long long)target[i].n);
    }
    return OPF_OK;
}

/* What -1 stands for: dimensions on both sides cancel first, so that a batch of 0 and symbols are no obstacle. */
static opf_status solve_unknown(opf_infer *infer, opf_dim *dims, int32_t n, int32_t unknown, opf_error *error)
{
    const opf_info *in                = infer->in[0];
    bool            used[OPF_MAX_RANK] = {false};
    opf_dim         left = opf_dim_number(1), right = opf_dim_number(1);
    dims[unknown] = opf_dim_unknown(infer->dims);
    if (in->rank < 0)
        return OPF_OK;
    for (int32_t i = 0; i < n; i++) {
        int32_t k = 0;
        while (k < in->rank && (used[k] || !opf_dim_equal(dims[i], in->dims[k])))
            k++;
        if (k < in->rank)
            used[k] = true;
        else if (i != unknown)
            right = opf_dim_mul(infer->dims, right, dims[i]);
    }
    for (int32_t k = 0; k < in->rank; k++)
        if (!used[k])
            left = opf_dim_mul(infer->dims, left, in->dims[k]);
    if (opf_dim_is(right, 0)) {
        dims[unknown] = opf_dim_number(0);
        return OPF_OK;
    }
    bool are_numbers = opf_dim_is_number(left) && opf_dim_is_number(right);
    OPF_FAIL_IF(error, are_numbers && left.n % right.n != 0, OPF_INVALID_INPUT, "-1 would stand for %lld/%lld",
                (long long)left.n, (long long)right.n);
    dims[unknown] = opf_dim_div_exact(infer->dims, left, right);
    return OPF_OK;
}

static opf_status check_counts(const opf_infer *infer, const opf_info *wanted, opf_error *error)
{
    size_t from, to;
    if (!opf_info_count(infer->in[0], &from) || !opf_info_count(wanted, &to) || from == to)
        return OPF_OK;
    const char *a = opf_info_string(infer->in[0], infer->dims, infer->arena),
               *b = opf_info_string(wanted, infer->dims, infer->arena);
    return opf_fail(error, OPF_INVALID_INPUT, "%s cannot become %s: %zu elements and %zu", a == NULL ? "?" : a,
                    b == NULL ? "?" : b, from, to);
}

static opf_status infer_reshape(opf_infer *infer, opf_error *error)
{
    const opf_dim  *target;
    const opf_info *shape = infer->in[1];
    opf_dim         dims[OPF_MAX_RANK];
    int32_t         n, unknown;
    OPF_FAIL_IF(error, shape->rank >= 0 && shape->rank != 1, OPF_INVALID_MODEL, "the new shape has rank %d, must be 1",
                shape->rank);
    if (!opf_infer_values(infer, 1, &target, &n)) {
        bool has_rank = shape->rank == 1 && opf_dim_is_number(shape->dims[0]);
        OPF_FAIL_IF(error, has_rank && shape->dims[0].n > OPF_MAX_RANK, OPF_LIMIT, "rank %lld, at most %d is supported",
                    (long long)shape->dims[0].n, OPF_MAX_RANK);
        return has_rank ? opf_infer_unknown_dims(infer, 0, (int32_t)shape->dims[0].n, error) : OPF_OK;
    }
    OPF_FAIL_IF(error, n > OPF_MAX_RANK, OPF_LIMIT, "rank %d, at most %d is supported", n, OPF_MAX_RANK);
    OPF_TRY(copy_dims(infer, target, n, dims, &unknown, error));
    if (unknown >= 0)
        OPF_TRY(solve_unknown(infer, dims, n, unknown, error));
    OPF_TRY(check_counts(infer, &(opf_info){.type = infer->in[0]->type, .rank = n, .dims = dims}, error));
    OPF_TRY(opf_infer_set(infer, 0, n, dims, error));
    return opf_infer_moved(infer, error);
}

/* Before opset 5 the shape was an attribute. */
static opf_status lift_shape(opf_graph *graph, opf_node_id node, int32_t opset, opf_error *error)
{
    (void)opset;
    return opf_lift_ints(graph, node, "shape", 1, error);
}

static opf_status lower_shape(opf_graph *graph, opf_node_id node, int32_t opset, opf_error *error)
{
    OPF_TRY(opf_lower_ints(graph, node, "shape", 1, error));
    return opf_lower_only_floats(graph, node, opset, error);
}

static opf_status lower_allowzero(opf_graph *graph, opf_node_id node, int32_t opset, opf_error *error)
{
    (void)opset;
    return opf_lower_attr(graph, node, "allowzero", 0, error);
}

const opf_op opf_op_Reshape = {
    .name = "Reshape",
    .domain = "",
    .since = 1,
    .traits = OPF_MOVEMENT,
    .inputs = (const opf_param[]){{"data", 'T', OPF_TYPES_ANY, 0}, {"shape", 0, OPF_TYPE_BIT(OPF_INT64), 0}},
    .n_inputs = 2,
    .outputs = one_output,
    .n_outputs = 1,
    .attrs = (const opf_attr_def[]){{.name = "allowzero", .type = OPF_ATTR_INT}},
    .n_attrs = 1,
    .rows = (const opf_import_row[]){{5, lift_shape, lower_shape},
                                     {14, opf_import_same, lower_allowzero},
                                     {25, opf_import_same, opf_lower_moved_type}},
    .n_rows = 3,
    .infer = infer_reshape,
    .reference = reference_in_order,
};

/* ---- Flatten ---- */

static opf_status infer_flatten(opf_infer *infer, opf_error *error)
{
    const opf_info *in = infer->in[0];
    if (in->rank < 0)
        return opf_infer_unknown_dims(infer, 0, 2, error);
    int64_t axis = opf_node_int(infer->node, "axis", 1);
    axis += axis < 0 ? in->rank : 0;
    OPF_FAIL_IF(error, axis < 0 || axis > in->rank, OPF_INVALID_MODEL, "axis %lld is out of range for rank %d",
                (long long)axis, in->rank);
    opf_dim dims[2] = {opf_dim_number(1), opf_dim_number(1)};
    for (int32_t i = 0; i < in->rank; i++)
        dims[i >= axis] = opf_dim_mul(infer->dims, dims[i >= axis], in->dims[i]);
    OPF_TRY(opf_infer_set(infer, 0, 2, dims, error));
    return opf_infer_moved(infer, error);
}

const opf_op opf_op_Flatten = {
    .name = "Flatten",
    .domain = "",
    .since = 1,
    .traits = OPF_MOVEMENT,
    .inputs = (const opf_param[]){{"input", 'T', OPF_TYPES_ANY, 0}},
    .n_inputs = 1,
    .outputs = one_output,
    .n_outputs = 1,
    .attrs = (const opf_attr_def[]){{.name = "axis", .type = OPF_ATTR_INT, .i = 1}},
    .n_attrs = 1,
    .rows = (const opf_import_row[]){{11, opf_import_same, opf_lower_negative_axis},
                                     {25, opf_import_same, opf_lower_moved_type}},
    .n_rows = 2,
    .infer = infer_flatten,
    .reference = reference_in_order,
};

/* ---- Squeeze, Unsqueeze ---- */

/* The axes of input 1, positive and each once; n -1: not known. They count the input's dimensions, or the result's. */
static opf_status get_axes(opf_infer *infer, bool of_result, bool is_axis[OPF_MAX_RANK], int32_t *n, opf_error *error)
{
    int64_t axes[OPF_MAX_RANK];
    if (!opf_infer_numbers(infer, 1, axes, OPF_MAX_RANK, n)) {
        *n = -1;
        return OPF_OK;
    }
    int32_t rank = infer->in[0]->rank + (of_result ? *n : 0);
    OPF_FAIL_IF(error, rank > OPF_MAX_RANK, OPF_LIMIT, "rank %d, at most %d is supported", rank, OPF_MAX_RANK);
    for (int32_t i = 0; i < *n; i++) {
        int32_t axis;
        OPF_TRY(opf_normalize_axis(axes[i], rank, &axis, error));
        OPF_FAIL_IF(error, is_axis[axis], OPF_INVALID_MODEL, "axis %d is there twice", axis);
        is_axis[axis] = true;
    }
    return OPF_OK;
}

static opf_status infer_squeeze(opf_infer *infer, opf_error *error)
{
    const opf_info *in                    = infer->in[0];
    bool            is_axis[OPF_MAX_RANK] = {false};
    opf_dim         dims[OPF_MAX_RANK];
    int32_t         n, rank = 0;
    if (in->rank < 0)
        return OPF_OK;
    bool has_axes = opf_infer_has(infer, 1);
    OPF_TRY(get_axes(infer, false, is_axis, &n, error));
    if (has_axes && n < 0)
        return OPF_OK;
    for (int32_t i = 0; i < in->rank; i++) {
        bool is_number = opf_dim_is_number(in->dims[i]);
        if (!has_axes && !is_number && !opf_dim_at_least(infer->dims, in->dims[i], 2))
            return OPF_OK; /* it may be 1, or not */
        OPF_FAIL_IF(error, is_axis[i] && is_number && in->dims[i].n != 1, OPF_INVALID_INPUT,
                    "axis %d is %lld long, must be 1", i, (long long)in->dims[i].n);
        if (!is_axis[i] && (has_axes || !opf_dim_is(in->dims[i], 1)))
            dims[rank++] = in->dims[i];
    }
    OPF_TRY(opf_infer_set(infer, 0, rank, dims, error));
    return opf_infer_moved(infer, error);
}

static opf_status infer_unsqueeze(opf_infer *infer, opf_error *error)
{
    const opf_info *in                    = infer->in[0];
    bool            is_axis[OPF_MAX_RANK] = {false};
    opf_dim         dims[OPF_MAX_RANK];
    int32_t         n;
    if (in->rank < 0)
        return OPF_OK;
    OPF_TRY(get_axes(infer, true, is_axis, &n, error));
    if (n < 0)
        return OPF_OK;
    for (int32_t i = 0, from = 0; i < in->rank + n; i++)
        dims[i] = is_axis[i] ? opf_dim_number(1) : in->dims[from++];
    OPF_TRY(opf_infer_set(infer, 0, in->rank + n, dims, error));
    return opf_infer_moved(infer, error);
}

static opf_status lift_axes_13(opf_graph *graph, opf_node_id node, int32_t opset, opf_error *error)
{
    (void)opset;
    return opf_lift_ints(graph, node, "axes", 1, error);
}

static opf_status lower_axes_13(opf_graph *graph, opf_node_id node, int32_t opset, opf_error *error)
{
    (void)opset;
    return opf_lower_ints(graph, node, "axes", 1, error);
}

static opf_status lower_squeeze_11(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    (void)opset;
    return opf_lower_negative_axes(graph, id, "axes",
                                   opf_graph_value(graph, opf_graph_node(graph, id)->inputs[0])->info.rank, error);
}

static opf_status lower_unsqueeze_11(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    (void)opset;
    return opf_lower_negative_axes(graph, id, "axes",
                                   opf_graph_value(graph, opf_graph_node(graph, id)->outputs[0])->info.rank, error);
}

const opf_op opf_op_Squeeze = {
    .name = "Squeeze",
    .domain = "",
    .since = 1,
    .traits = OPF_MOVEMENT,
    .inputs = (const opf_param[]){{"data", 'T', OPF_TYPES_ANY, 0}, {"axes", 0, OPF_TYPE_BIT(OPF_INT64), OPF_OPTIONAL}},
    .n_inputs = 2,
    .outputs = one_output,
    .n_outputs = 1,
    .rows = (const opf_import_row[]){{11, opf_import_same, lower_squeeze_11},
                                     {13, lift_axes_13, lower_axes_13},
                                     {25, opf_import_same, opf_lower_moved_type}},
    .n_rows = 3,
    .infer = infer_squeeze,
    .reference = reference_in_order,
};

const opf_op opf_op_Unsqueeze = {
    .name      = "Unsqueeze",
    .domain    = "",
    .since     = 1,
    .traits    = OPF_MOVEMENT,
    .inputs    = (const opf_param[]){{"data", 'T', OPF_TYPES_ANY, 0}, {"axes", 0, OPF_TYPE_BIT(OPF_INT64), 0}},
    .n_inputs  = 2,
    .outputs   = one_output,
    .n_outputs = 1,
    .rows      = (const opf_import_row[]){{11, opf_import_same, lower_unsqueeze_11},
                                          {13, lift_axes_13, lower_axes_13},
                                          {25, opf_import_same, opf_lower_moved_type}},
    .n_rows    = 3,
    .infer     = infer_unsqueeze,
    .reference = reference_in_order,
};
