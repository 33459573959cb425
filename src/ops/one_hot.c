/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/call.h"
#include "ops/elementwise.h"
#include "ops/lift.h"

/* The place of the new axis in a result of rank `rank`. */
static opf_status get_axis(int64_t axis, int32_t rank, int32_t *result, opf_error *error)
{
    OPF_FAIL_IF(error, rank > OPF_MAX_RANK, OPF_LIMIT, "the result has rank %d, at most %d is supported", rank,
                OPF_MAX_RANK);
    return opf_normalize_axis(axis, rank, result, error);
}

/* Known values of integers; of a float constant too. */
static opf_dim infer_depth(const opf_infer *infer)
{
    const opf_dim *values;
    double         number;
    int32_t        n;
    if (opf_infer_values(infer, 1, &values, &n) && n == 1)
        return values[0];
    if (opf_infer_floats(infer, 1, &number, 1, &n) && n == 1)
        return opf_dim_number(opf_double_to_int(number));
    return opf_dim_unknown(infer->dims);
}

static opf_status check_length(const opf_info *info, const char *name, int64_t wanted, opf_error *error)
{
    bool fits = info->rank < 0 || (info->rank == 0 && wanted == 1) ||
                (info->rank == 1 && (!opf_dim_is_number(info->dims[0]) || info->dims[0].n == wanted));
    OPF_FAIL_IF(error, !fits, OPF_INVALID_MODEL, "%s must have %lld element%s", name, (long long)wanted,
                wanted == 1 ? "" : "s");
    return OPF_OK;
}

static opf_status infer_one_hot(opf_infer *infer, opf_error *error)
{
    const opf_info *indices = infer->in[0];
    opf_dim         dims[OPF_MAX_RANK];
    int32_t         axis;
    OPF_TRY(check_length(infer->in[1], "depth", 1, error));
    OPF_TRY(check_length(infer->in[2], "values", 2, error));
    if (indices->rank < 0)
        return OPF_OK;
    OPF_TRY(get_axis(opf_node_int(infer->node, "axis", -1), indices->rank + 1, &axis, error));
    for (int32_t i = 0; i <= indices->rank; i++)
        dims[i] = i < axis ? indices->dims[i] : i == axis ? infer_depth(infer) : indices->dims[i - 1];
    OPF_FAIL_IF(error, opf_dim_is_number(dims[axis]) && dims[axis].n < 0, OPF_INVALID_INPUT,
                "depth is %lld, must be 0 at least", (long long)dims[axis].n);
    OPF_TRY(opf_infer_set(infer, 0, indices->rank + 1, dims, error));
    return opf_infer_moved(infer, error);
}

static opf_status resolve_one_hot(const opf_call *call, opf_info *out, opf_arena *arena, opf_error *error)
{
    const opf_view *indices = &call->in[0];
    const int64_t   depth   = opf_view_first_int(&call->in[1]);
    int64_t         dims[OPF_MAX_RANK];
    int32_t         axis;
    OPF_TRY(get_axis(opf_call_int(call, "axis", -1), indices->rank + 1, &axis, error));
    OPF_FAIL_IF(error, depth < 0, OPF_INVALID_INPUT, "depth is %lld, must be 0 at least", (long long)depth);
    for (int32_t i = 0; i <= indices->rank; i++)
        dims[i] = i < axis ? indices->dims[i] : i == axis ? depth : indices->dims[i - 1];
    return opf_resolve_set(&out[0], indices->rank + 1, dims, arena, error);
}

/* The place that an index names, -1 when it is out of [-depth, depth): then all are off. */
static int64_t get_place(const opf_view *indices, int64_t offset, int64_t depth)
{
    int64_t index;
    if (opf_types_have(OPF_TYPES_FLOAT, indices->type))
        index = opf_double_to_int(opf_view_f64(indices, offset));
    else
        index = opf_view_i64(indices, offset);
    if (indices->type == OPF_UINT64 && index < 0)
        return -1;
    if (index < -depth || index >= depth)
        return -1;
    return index < 0 ? index + depth : index;
}

static opf_status reference_one_hot(const opf_call *call, opf_error *error)
{
    const opf_view *indices = &call->in[0], *values = &call->in[2], *out = &call->out[0];
    const int64_t   fill[OPF_MAX_RANK] = {0};
    opf_view        places             = {.rank = indices->rank}; /* out without the new axis */
    const opf_view *views[2]           = {indices, &places};
    int32_t         axis;
    opf_walk        walk;
    OPF_TRY(get_axis(opf_call_int(call, "axis", -1), indices->rank + 1, &axis, error));
    const int64_t depth = out->dims[axis];
    for (int32_t i = 0; i < indices->rank; i++)
        places.strides[i] = out->strides[i < axis ? i : i + 1];
    opf_move_grid(opf_type_bits(out->type), (opf_grid){out->data, 0, out->strides},
                  (opf_grid){values->data, 0, fill}, out->rank, out->dims);
    for (opf_walk_init(&walk, indices->rank, indices->dims, 2, views); walk.left != 0; opf_walk_next(&walk)) {
        int64_t place = get_place(indices, walk.offset[0], depth);
        if (place >= 0)
            opf_move_element(out, walk.offset[1] + place * out->strides[axis], values, values->strides[0]);
    }
    return OPF_OK;
}

/* Indices out of range were an error before opset 11, and negative ones too: both are taken as now. */
const opf_op opf_op_OneHot = {
    .name      = "OneHot",
    .domain    = "",
    .since     = 9,
    .traits    = OPF_MOVEMENT,
    .inputs    = (const opf_param[]){{"indices", 0, OPF_TYPES_NUMERIC & ~OPF_TYPE_BIT(OPF_BFLOAT16), 0},
                                     {"depth", 0, OPF_TYPES_NUMERIC & ~OPF_TYPE_BIT(OPF_BFLOAT16), 0},
                                     {"values", 'T', OPF_TYPES_MOVED, 0}},
    .n_inputs  = 3,
    .outputs   = (const opf_param[]){{"output", 'T', OPF_TYPES_MOVED, 0}},
    .n_outputs = 1,
    .attrs     = (const opf_attr_def[]){{.name = "axis", .type = OPF_ATTR_INT, .i = -1}},
    .n_attrs   = 1,
    .rows      = (const opf_import_row[]){{28, opf_import_same, opf_lower_no_bfloat16}},
    .n_rows    = 1,
    .infer     = infer_one_hot,
    .reference = reference_one_hot,
    .resolve   = resolve_one_hot,
};
