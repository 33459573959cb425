/* SPDX-License-Identifier: Apache-2.0 */
/* Shape and Size turn dimensions into elements; Expand turns elements into dimensions. */
#include "ops/lift.h"
#include "ops/movement.h"

/* ---- Shape ---- */

static const opf_param any_input[]    = {{"data", 'T', OPF_TYPES_ANY, 0}};
static const opf_param int64_output[] = {{"shape", 0, OPF_TYPE_BIT(OPF_INT64), 0}};

/* [start, end) of the dimensions that are wanted, clamped. */
static void get_range(const opf_attr *attrs, uint32_t n_attrs, int32_t rank, int32_t *start, int32_t *end)
{
    int64_t from = opf_attrs_int(attrs, n_attrs, "start", 0), to = opf_attrs_int(attrs, n_attrs, "end", rank);
    from += from < 0 ? rank : 0;
    to += to < 0 ? rank : 0;
    *start = (int32_t)(from < 0 ? 0 : from > rank ? rank : from);
    *end   = (int32_t)(to < *start ? *start : to > rank ? rank : to);
}

static opf_status infer_shape(opf_infer *infer, opf_error *error)
{
    const opf_info *in = infer->in[0];
    int32_t         start, end;
    if (in->rank < 0)
        return opf_infer_unknown_dims(infer, 0, 1, error);
    get_range(infer->node->attrs, infer->node->n_attrs, in->rank, &start, &end);
    opf_dim dims[1] = {opf_dim_number(end - start)};
    OPF_TRY(opf_infer_set(infer, 0, 1, dims, error));
    return opf_infer_set_values(infer, 0, end - start, in->dims + start, error);
}

static opf_status reference_shape(const opf_call *call, opf_error *error)
{
    (void)error;
    int32_t start, end;
    get_range(call->attrs, call->n_attrs, call->in[0].rank, &start, &end);
    for (int32_t i = start; i < end; i++)
        opf_view_put_i64(&call->out[0], (i - start) * call->out[0].strides[0], call->in[0].dims[i]);
    return OPF_OK;
}

static opf_status lower_shape_15(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    (void)opset;
    const opf_node *node = opf_graph_node(graph, id);
    OPF_FAIL_IF(error, opf_node_attr(node, "end") != NULL, OPF_UNSUPPORTED, "%s (%s): attribute end came with opset 15",
                node->name, node->op_type);
    return opf_lower_attr(graph, id, "start", 0, error);
}

const opf_op opf_op_Shape = {
    .name = "Shape",
    .domain = "",
    .since = 1,
    .traits = OPF_MOVEMENT | OPF_SHAPE_ONLY,
    .inputs = any_input,
    .n_inputs = 1,
    .outputs = int64_output,
    .n_outputs = 1,
    .attrs = (const opf_attr_def[]){{.name = "end", .type = OPF_ATTR_INT}, {.name = "start", .type = OPF_ATTR_INT}},
    .n_attrs = 2,
    .rows =
        (const opf_import_row[]){{15, opf_import_same, lower_shape_15}, {25, opf_import_same, opf_lower_moved_type}},
    .n_rows = 2,
    .infer = infer_shape,
    .reference = reference_shape,
};

/* ---- Size ---- */

static opf_status infer_size(opf_infer *infer, opf_error *error)
{
    const opf_info *in    = infer->in[0];
    opf_dim         count = opf_dim_number(1);
    OPF_TRY(opf_infer_set(infer, 0, 0, NULL, error));
    for (int32_t i = 0; i < in->rank; i++)
        count = opf_dim_mul(infer->dims, count, in->dims[i]);
    return in->rank < 0 ? OPF_OK : opf_infer_set_values(infer, 0, 1, &count, error);
}

static opf_status reference_size(const opf_call *call, opf_error *error)
{
    (void)error;
    opf_view_put_i64(&call->out[0], 0, (int64_t)opf_view_count(&call->in[0]));
    return OPF_OK;
}

const opf_op opf_op_Size = {
    .name      = "Size",
    .domain    = "",
    .since     = 1,
    .traits    = OPF_MOVEMENT | OPF_SHAPE_ONLY,
    .inputs    = any_input,
    .n_inputs  = 1,
    .outputs   = int64_output,
    .n_outputs = 1,
    .rows      = (const opf_import_row[]){{25, opf_import_same, opf_lower_moved_type}},
    .n_rows    = 1,
    .infer     = infer_size,
    .reference = reference_size,
};

/* ---- Expand ---- */

/* Only the length of the new shape is known: what a dimension of at least 2 becomes is known then, too. */
static opf_status infer_expand_by_length(opf_infer *infer, int64_t length, opf_error *error)
{
    const opf_info *in = infer->in[0];
    opf_dim         dims[OPF_MAX_RANK];
    OPF_FAIL_IF(error, length > OPF_MAX_RANK, OPF_LIMIT, "rank %lld, at most %d is supported", (long long)length,
                OPF_MAX_RANK);
    int32_t rank = in->rank > length ? in->rank : (int32_t)length;
    for (int32_t i = 0; i < rank; i++) {
        int32_t own = i - (rank - in->rank);
        bool    stays = own >= 0 && (i < rank - length || opf_dim_at_least(infer->dims, in->dims[own], 2));
        dims[i]       = stays ? in->dims[own] : opf_dim_unknown(infer->dims);
    }
    return opf_infer_set(infer, 0, rank, dims, error);
}

static opf_status infer_expand(opf_infer *infer, opf_error *error)
{
    const opf_info *in = infer->in[0], *shape = infer->in[1];
    opf_dim         dims[OPF_MAX_RANK];
    const opf_dim  *wanted;
    int32_t         n;
    OPF_FAIL_IF(error, shape->rank >= 0 && shape->rank != 1, OPF_INVALID_MODEL, "the new shape has rank %d, must be 1",
                shape->rank);
    if (in->rank < 0)
        return OPF_OK;
    if (!opf_infer_values(infer, 1, &wanted, &n))
        return shape->rank == 1 && opf_dim_is_number(shape->dims[0])
                   ? infer_expand_by_length(infer, shape->dims[0].n, error)
                   : OPF_OK;
    OPF_FAIL_IF(error, n > OPF_MAX_RANK, OPF_LIMIT, "rank %d, at most %d is supported", n, OPF_MAX_RANK);
    int32_t rank = in->rank > n ? in->rank : n;
    for (int32_t i = 0; i < rank; i++) {
        int32_t own = i - (rank - in->rank), k = i - (rank - n);
        opf_dim a = own < 0 ? opf_dim_number(1) : in->dims[own], b = k < 0 ? opf_dim_number(1) : wanted[k];
        OPF_FAIL_IF(error, opf_dim_is_number(b) && b.n < 0, OPF_INVALID_INPUT, "dimension %d of the new shape is %lld",
                    k, (long long)b.n);
        OPF_FAIL_IF(error, opf_broadcast_dim(infer->dims, a, b, &dims[i]) != OPF_OK, OPF_INVALID_INPUT,
                    "dimension %d is %lld and cannot become %lld", own, (long long)a.n, (long long)b.n);
    }
    OPF_TRY(opf_infer_set(infer, 0, rank, dims, error));
    return opf_infer_moved(infer, error);
}

static opf_status reference_expand(const opf_call *call, opf_error *error)
{
    (void)error;
    const opf_view *out = &call->out[0];
    opf_view        in  = opf_view_broadcast(&call->in[0], out->rank, out->dims);
    opf_move_grid(opf_type_bits(in.type), (opf_grid){out->data, 0, out->strides}, (opf_grid){in.data, 0, in.strides},
                  out->rank, out->dims);
    return OPF_OK;
}

const opf_op opf_op_Expand = {
    .name      = "Expand",
    .domain    = "",
    .since     = 8,
    .traits    = OPF_MOVEMENT,
    .inputs    = (const opf_param[]){{"input", 'T', OPF_TYPES_MOVED, 0}, {"shape", 0, OPF_TYPE_BIT(OPF_INT64), 0}},
    .n_inputs  = 2,
    .outputs   = (const opf_param[]){{"output", 'T', OPF_TYPES_MOVED, 0}},
    .n_outputs = 1,
    .rows      = (const opf_import_row[]){{13, opf_import_same, opf_lower_moved_type}},
    .n_rows    = 1,
    .infer     = infer_expand,
    .reference = reference_expand,
};
