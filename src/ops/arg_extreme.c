/* SPDX-License-Identifier: Apache-2.0 */
/* ArgMax and ArgMin. */
#include "ops/call.h"
#include "ops/lift.h"

#include <math.h>

static opf_status infer_arg_extreme(opf_infer *infer, opf_error *error)
{
    const opf_info *x        = infer->in[0];
    const bool      keepdims = opf_node_int(infer->node, "keepdims", 1) != 0;
    opf_dim         dims[OPF_MAX_RANK];
    int32_t         axis, rank = 0;
    if (x->rank < 0)
        return OPF_OK;
    OPF_TRY(opf_normalize_axis(opf_node_int(infer->node, "axis", 0), x->rank, &axis, error));
    for (int32_t i = 0; i < x->rank; i++)
        if (i != axis)
            dims[rank++] = x->dims[i];
        else if (keepdims)
            dims[rank++] = opf_dim_number(1);
    return opf_infer_set(infer, 0, rank, dims, error);
}

/* The first (or last) place of the greatest (or least) element; a NaN is both. */
static int64_t find_extreme(const opf_view *x, int64_t start, int64_t stride, int64_t n, bool is_max, bool last)
{
    const bool is_float = opf_types_have(OPF_TYPES_FLOAT, x->type);
    uint64_t   best     = 0;
    int64_t    place    = 0;
    for (int64_t i = 0; i < n; i++) {
        uint64_t key = opf_view_order(x, start + i * stride);
        if (!is_max)
            key = is_float && isnan(opf_view_f64(x, start + i * stride)) ? UINT64_MAX : ~key;
        if (i == 0 || key > best || (last && key == best)) {
            best  = key;
            place = i;
        }
    }
    return place;
}

static opf_status run_arg_extreme(const opf_call *call, bool is_max, opf_error *error)
{
    const opf_view *x    = &call->in[0];
    opf_view       *y    = &call->out[0];
    const bool      last = opf_call_int(call, "select_last_index", 0) != 0;
    opf_view        kept = {.rank = x->rank}, written = {.rank = x->rank};
    int32_t         axis;
    opf_walk        walk;
    OPF_TRY(opf_normalize_axis(opf_call_int(call, "axis", 0), x->rank, &axis, error));
    const bool keepdims = opf_call_int(call, "keepdims", 1) != 0;
    for (int32_t i = 0, o = 0; i < x->rank; i++) {
        kept.dims[i]       = i == axis ? 1 : x->dims[i];
        kept.strides[i]    = x->strides[i];
        written.strides[i] = i == axis ? 0 : y->strides[o];
        o += i != axis || keepdims;
    }
    OPF_FAIL_IF(error, x->dims[axis] == 0 && opf_view_count(&kept) != 0, OPF_INVALID_INPUT,
                "axis %d is empty: nothing has an index", axis);
    const opf_view *views[2] = {&kept, &written};
    for (opf_walk_init(&walk, kept.rank, kept.dims, 2, views); walk.left != 0; opf_walk_next(&walk))
        opf_view_put_i64(y, walk.offset[1],
                         find_extreme(x, walk.offset[0], x->strides[axis], x->dims[axis], is_max, last));
    return OPF_OK;
}

static opf_status run_arg_max(const opf_call *call, opf_error *error)
{
    return run_arg_extreme(call, true, error);
}

static opf_status run_arg_min(const opf_call *call, opf_error *error)
{
    return run_arg_extreme(call, false, error);
}

static opf_status lower_select_last(opf_graph *graph, opf_node_id node, int32_t opset, opf_error *error)
{
    (void)opset;
    return opf_lower_attr(graph, node, "select_last_index", 0, error);
}

static const opf_param      inputs[]  = {{"data", 'T', OPF_TYPES_NUMERIC, 0}};
static const opf_param      outputs[] = {{"reduced", 0, OPF_TYPE_BIT(OPF_INT64), 0}};
static const opf_attr_def   attrs[]   = {{.name = "axis", .type = OPF_ATTR_INT},
                                         {.name = "keepdims", .type = OPF_ATTR_INT, .i = 1},
                                         {.name = "select_last_index", .type = OPF_ATTR_INT}};
static const opf_import_row rows[]    = {{11, opf_import_same, opf_lower_negative_axis},
                                         {12, opf_import_same, lower_select_last},
                                         {13, opf_import_same, opf_lower_no_bfloat16}};

#define DEFINE_ARG(op_name, function)                                                                                  \
    const opf_op opf_op_##op_name = {.name      = #op_name,                                                            \
                                     .domain    = "",                                                                  \
                                     .since     = 1,                                                                   \
                                     .inputs    = inputs,                                                              \
                                     .n_inputs  = OPF_COUNT(inputs),                                                   \
                                     .outputs   = outputs,                                                             \
                                     .n_outputs = OPF_COUNT(outputs),                                                  \
                                     .attrs     = attrs,                                                               \
                                     .n_attrs   = OPF_COUNT(attrs),                                                    \
                                     .rows      = rows,                                                                \
                                     .n_rows    = OPF_COUNT(rows),                                                     \
                                     .infer     = infer_arg_extreme,                                                   \
                                     .reference = function}
DEFINE_ARG(ArgMax, run_arg_max);
DEFINE_ARG(ArgMin, run_arg_min);
