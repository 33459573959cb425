/* SPDX-License-Identifier: Apache-2.0 */
/* Concat joins along an axis, Split cuts. */
#include "ops/lift.h"
#include "ops/movement.h"

/* ---- Concat ---- */

/* Dimensions that must be equal: a number tells more than an expression. */
static opf_status join_dim(opf_infer *infer, uint32_t input, int32_t i, opf_dim *dim, opf_error *error)
{
    opf_dim other = infer->in[input]->dims[i];
    OPF_FAIL_IF(error, opf_dim_is_number(*dim) && opf_dim_is_number(other) && dim->n != other.n, OPF_INVALID_INPUT,
                "dimension %d of input %u is %lld, of an earlier input %lld", i, input, (long long)other.n,
                (long long)dim->n);
    if (opf_dim_is_number(other))
        *dim = other;
    return OPF_OK;
}

static opf_status infer_concat(opf_infer *infer, opf_error *error)
{
    opf_dim dims[OPF_MAX_RANK];
    int32_t rank = -1, axis;
    bool    all  = true;
    for (uint32_t k = 0; k < infer->n_in; k++) {
        int32_t own = infer->in[k]->rank;
        OPF_FAIL_IF(error, own >= 0 && rank >= 0 && own != rank, OPF_INVALID_MODEL,
                    "input %u has rank %d, an earlier input %d", k, own, rank);
        rank = own >= 0 ? own : rank;
        all  = all && own >= 0;
    }
    if (rank < 0)
        return OPF_OK;
    OPF_TRY(opf_normalize_axis(opf_node_int(infer->node, "axis", 0), rank, &axis, error));
    if (!all)
        return opf_infer_unknown_dims(infer, 0, rank, error);
    for (int32_t i = 0; i < rank; i++)
        dims[i] = infer->in[0]->dims[i];
    for (uint32_t k = 1; k < infer->n_in; k++)
        for (int32_t i = 0; i < rank; i++)
            if (i == axis)
                dims[i] = opf_dim_add(infer->dims, dims[i], infer->in[k]->dims[i]);
            else
                OPF_TRY(join_dim(infer, k, i, &dims[i], error));
    OPF_TRY(opf_infer_set(infer, 0, rank, dims, error));
    return opf_infer_moved(infer, error);
}

static opf_status reference_concat(const opf_call *call, opf_error *error)
{
    const opf_view *out   = &call->out[0];
    int64_t         start = 0;
    int32_t         axis;
    OPF_TRY(opf_normalize_axis(opf_call_int(call, "axis", 0), out->rank, &axis, error));
    for (uint32_t k = 0; k < call->n_in; k++) {
        const opf_view *in = &call->in[k];
        opf_move_grid(opf_type_bits(in->type), (opf_grid){out->data, start, out->strides},
                      (opf_grid){in->data, 0, in->strides}, in->rank, in->dims);
        start += in->dims[axis] * out->strides[axis];
    }
    return OPF_OK;
}

static opf_status lift_concat_4(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    (void)opset;
    OPF_OOM_IF(error, opf_node_attr(opf_graph_node(graph, id), "axis") == NULL && !opf_node_set_int(graph, id, "axis", 1));
    return OPF_OK;
}

const opf_op opf_op_Concat = {
    .name = "Concat",
    .domain = "",
    .since = 1,
    .traits = OPF_MOVEMENT,
    .inputs = (const opf_param[]){{"inputs", 'T', OPF_TYPES_MOVED, OPF_VARIADIC}},
    .n_inputs = 1,
    .outputs = (const opf_param[]){{"concat_result", 'T', OPF_TYPES_MOVED, 0}},
    .n_outputs = 1,
    .attrs = (const opf_attr_def[]){{.name = "axis", .type = OPF_ATTR_INT, .required = true}},
    .n_attrs = 1,
    .rows = (const opf_import_row[]){{4, lift_concat_4, opf_lower_only_floats},
                                     {11, opf_import_same, opf_lower_negative_axis},
                                     {13, opf_import_same, opf_lower_moved_type}},
    .n_rows = 3,
    .infer = infer_concat,
    .reference = reference_concat,
};

/* ---- Split ---- */

/* n equal parts; where that does not go, the last one is shorter. */
static opf_status split_evenly(opf_infer *infer, opf_dim whole, opf_dim *parts, opf_error *error)
{
    opf_dims *dims  = infer->dims;
    opf_dim   n     = opf_dim_number(infer->n_out), part = opf_dim_div(dims, whole, n);
    int64_t   wants = opf_node_int(infer->node, "num_outputs", infer->n_out);
    OPF_FAIL_IF(error, wants != infer->n_out, OPF_INVALID_MODEL, "num_outputs is %lld, there are %u outputs",
                (long long)wants, infer->n_out);
    if (!opf_dim_equal(opf_dim_mul(dims, part, n), whole))
        part = opf_dim_div(dims, opf_dim_add(dims, whole, opf_dim_number((int64_t)infer->n_out - 1)), n);
    for (uint32_t o = 0; o < infer->n_out; o++)
        parts[o] = part;
    parts[infer->n_out - 1] =
        opf_dim_sub(dims, whole, opf_dim_mul(dims, part, opf_dim_number((int64_t)infer->n_out - 1)));
    OPF_FAIL_IF(error, opf_dim_is_number(parts[infer->n_out - 1]) && parts[infer->n_out - 1].n < 0, OPF_INVALID_INPUT,
                "%lld elements cannot be split into %u parts", (long long)whole.n, infer->n_out);
    return OPF_OK;
}

static opf_status split_as_told(opf_infer *infer, opf_dim whole, opf_dim *parts, opf_error *error)
{
    const opf_dim *told;
    int32_t        n;
    opf_dim        sum = opf_dim_number(0);
    if (!opf_infer_values(infer, 1, &told, &n)) {
        for (uint32_t o = 0; o < infer->n_out; o++)
            parts[o] = opf_dim_unknown(infer->dims);
        return OPF_OK;
    }
    OPF_FAIL_IF(error, (uint32_t)n != infer->n_out, OPF_INVALID_MODEL, "split has %d elements, there are %u outputs", n,
                infer->n_out);
    for (int32_t o = 0; o < n; o++) {
        OPF_FAIL_IF(error, opf_dim_is_number(told[o]) && told[o].n < 0, OPF_INVALID_INPUT, "split[%d] is %lld", o,
                    (long long)told[o].n);
        parts[o] = told[o];
        sum      = opf_dim_add(infer->dims, sum, told[o]);
    }
    OPF_FAIL_IF(error, opf_dim_is_number(sum) && opf_dim_is_number(whole) && sum.n != whole.n, OPF_INVALID_INPUT,
                "the parts sum up to %lld, the dimension is %lld", (long long)sum.n, (long long)whole.n);
    return OPF_OK;
}

static opf_status infer_split(opf_infer *infer, opf_error *error)
{
    const opf_info *in = infer->in[0];
    opf_dim         dims[OPF_MAX_RANK];
    int32_t         axis;
    if (in->rank < 0 || infer->n_out == 0)
        return OPF_OK;
    OPF_TRY(opf_normalize_axis(opf_node_int(infer->node, "axis", 0), in->rank, &axis, error));
    opf_dim *parts = OPF_NEW(infer->arena, opf_dim, infer->n_out);
    OPF_OOM_IF(error, parts == NULL);
    OPF_TRY(opf_infer_has(infer, 1) ? split_as_told(infer, in->dims[axis], parts, error)
                                    : split_evenly(infer, in->dims[axis], parts, error));
    for (int32_t i = 0; i < in->rank; i++)
        dims[i] = in->dims[i];
    for (uint32_t o = 0; o < infer->n_out; o++) {
        dims[axis] = parts[o];
        OPF_TRY(opf_infer_set(infer, o, in->rank, dims, error));
    }
    return opf_infer_moved(infer, error);
}

static opf_status reference_split(const opf_call *call, opf_error *error)
{
    const opf_view *in    = &call->in[0];
    int64_t         start = 0;
    int32_t         axis;
    OPF_TRY(opf_normalize_axis(opf_call_int(call, "axis", 0), in->rank, &axis, error));
    for (uint32_t o = 0; o < call->n_out; o++) {
        const opf_view *out = &call->out[o];
        if (out->data != NULL)
            opf_move_grid(opf_type_bits(in->type), (opf_grid){out->data, 0, out->strides},
                          (opf_grid){in->data, start, in->strides}, out->rank, out->dims);
        start += out->dims[axis] * in->strides[axis];
    }
    return OPF_OK;
}

/* Opset 1 could take the lengths as an input, of the type of the data. */
static opf_status lift_split_2(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    (void)opset;
    const opf_node *node = opf_graph_node(graph, id);
    opf_node_id     cast;
    opf_value_id    lengths;
    if (node->n_inputs < 2 || node->inputs[1] == 0)
        return OPF_OK;
    OPF_TRY(opf_lift_add_node(graph, id, &opf_op_Cast, &node->inputs[1], 1, &cast, &lengths, error));
    OPF_OOM_IF(error, !opf_node_set_int(graph, cast, "to", OPF_INT64) || !opf_graph_set_input(graph, id, 1, lengths));
    return OPF_OK;
}

static opf_status lift_split_13(opf_graph *graph, opf_node_id node, int32_t opset, opf_error *error)
{
    (void)opset;
    return opf_lift_ints(graph, node, "split", 1, error);
}

static opf_status lower_split_13(opf_graph *graph, opf_node_id node, int32_t opset, opf_error *error)
{
    (void)opset;
    return opf_lower_ints(graph, node, "split", 1, error);
}

static opf_status lift_split_18(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    (void)opset;
    const opf_node *node = opf_graph_node(graph, id);
    bool            told = node->n_inputs > 1 && node->inputs[1] != 0;
    OPF_OOM_IF(error, !told && !opf_node_set_int(graph, id, "num_outputs", node->n_own_outputs));
    return OPF_OK;
}

/* Without num_outputs the parts must be equal: the lengths are written out where they are known. */
static opf_status lower_split_18(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    (void)opset;
    const opf_node *node = opf_graph_node(graph, id);
    const opf_info *in   = &opf_graph_value(graph, node->inputs[0])->info;
    int64_t         n    = node->n_own_outputs, axis = opf_node_int(node, "axis", 0);
    if (opf_node_attr(node, "num_outputs") == NULL)
        return OPF_OK;
    axis += axis < 0 ? in->rank : 0;
    bool is_known = axis >= 0 && axis < in->rank;
    if (!is_known ||
        !opf_dim_equal(
            opf_dim_mul(graph->dims, opf_dim_div(graph->dims, in->dims[axis], opf_dim_number(n)), opf_dim_number(n)),
            in->dims[axis])) {
        OPF_FAIL_IF(error, !is_known || !opf_dim_is_number(in->dims[axis]), OPF_UNSUPPORTED,
                    "%s (%s): before opset 18 the parts must be equal, or known", node->name, node->op_type);
        int64_t  whole = in->dims[axis].n, part = (whole + n - 1) / n;
        int64_t *parts = OPF_NEW(graph->arena, int64_t, n);
        OPF_OOM_IF(error, parts == NULL);
        for (int64_t o = 0; o < n; o++)
            parts[o] = o + 1 < n ? part : whole - part * (n - 1);
        OPF_OOM_IF(error, !opf_node_set_ints(graph, id, "split", parts, (uint32_t)n));
        OPF_TRY(lift_split_13(graph, id, 13, error));
    }
    return opf_drop_attr(graph, id, "num_outputs");
}

const opf_op opf_op_Split = {
    .name = "Split",
    .domain = "",
    .since = 1,
    .traits = OPF_MOVEMENT,
    .inputs =
        (const opf_param[]){{"input", 'T', OPF_TYPES_MOVED, 0}, {"split", 0, OPF_TYPE_BIT(OPF_INT64), OPF_OPTIONAL}},
    .n_inputs = 2,
    .outputs = (const opf_param[]){{"outputs", 'T', OPF_TYPES_MOVED, OPF_VARIADIC}},
    .n_outputs = 1,
    .attrs =
        (const opf_attr_def[]){{.name = "axis", .type = OPF_ATTR_INT}, {.name = "num_outputs", .type = OPF_ATTR_INT}},
    .n_attrs = 2,
    .rows = (const opf_import_row[]){{2, lift_split_2, opf_lower_only_floats},
                                     {11, opf_import_same, opf_lower_negative_axis},
                                     {13, lift_split_13, lower_split_13},
                                     {13, opf_import_same, opf_lower_moved_type},
                                     {18, lift_split_18, lower_split_18}},
    .n_rows = 5,
    .infer = infer_split,
    .reference = reference_split,
};
