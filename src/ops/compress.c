/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/call.h"
#include "ops/lift.h"

/* Which slices stay: along `axis`, or elements in row-major order when there is no axis (then axis is -1). */
static opf_status get_axis(const opf_attr *attr, int32_t rank, int32_t *axis, opf_error *error)
{
    *axis = -1;
    return attr == NULL ? OPF_OK : opf_normalize_axis(attr->i, rank, axis, error);
}

static opf_status infer_compress(opf_infer *infer, opf_error *error)
{
    const opf_info *in = infer->in[0], *condition = infer->in[1];
    const opf_attr *attr = opf_node_attr(infer->node, "axis");
    opf_dim         dims[OPF_MAX_RANK], kept = opf_dim_unknown(infer->dims);
    int64_t         chosen[OPF_MAX_KNOWN_VALUES];
    int32_t         axis, n;
    OPF_FAIL_IF(error, condition->rank >= 0 && condition->rank != 1, OPF_INVALID_MODEL,
                "condition has rank %d, must be 1", condition->rank);
    if (opf_infer_numbers(infer, 1, chosen, OPF_MAX_KNOWN_VALUES, &n)) {
        kept = opf_dim_number(0);
        for (int32_t i = 0; i < n; i++)
            kept.n += chosen[i] != 0;
    }
    if (attr == NULL)
        return opf_infer_set(infer, 0, 1, &kept, error);
    if (in->rank < 0)
        return OPF_OK;
    OPF_TRY(get_axis(attr, in->rank, &axis, error));
    for (int32_t i = 0; i < in->rank; i++)
        dims[i] = i == axis ? kept : in->dims[i];
    OPF_TRY(opf_infer_set(infer, 0, in->rank, dims, error));
    return opf_infer_moved(infer, error);
}

/* Counts what stays; what is chosen must be there. */
static opf_status count_kept(const opf_call *call, int32_t axis, int64_t *kept, opf_error *error)
{
    const opf_view *condition = &call->in[1];
    const int64_t   n = axis < 0 ? (int64_t)opf_view_count(&call->in[0]) : call->in[0].dims[axis];
    *kept             = 0;
    for (int64_t i = 0; i < condition->dims[0]; i++) {
        if (opf_view_i64(condition, i * condition->strides[0]) == 0)
            continue;
        OPF_FAIL_IF(error, i >= n, OPF_INVALID_INPUT, "condition[%lld] is true, there are %lld elements", (long long)i,
                    (long long)n);
        (*kept)++;
    }
    return OPF_OK;
}

static opf_status resolve_compress(const opf_call *call, opf_info *out, opf_arena *arena, opf_error *error)
{
    const opf_view *in = &call->in[0];
    int64_t         kept, dims[OPF_MAX_RANK];
    int32_t         axis;
    OPF_TRY(get_axis(opf_call_attr(call, "axis"), in->rank, &axis, error));
    OPF_TRY(count_kept(call, axis, &kept, error));
    if (axis < 0)
        return opf_resolve_set(&out[0], 1, &kept, arena, error);
    for (int32_t i = 0; i < in->rank; i++)
        dims[i] = i == axis ? kept : in->dims[i];
    return opf_resolve_set(&out[0], in->rank, dims, arena, error);
}

static opf_status reference_compress(const opf_call *call, opf_error *error)
{
    const opf_view *in = &call->in[0], *condition = &call->in[1], *out = &call->out[0];
    const size_t    bits = opf_type_bits(in->type);
    int64_t         kept, at = 0, dims[OPF_MAX_RANK];
    int32_t         axis;
    OPF_TRY(get_axis(opf_call_attr(call, "axis"), in->rank, &axis, error));
    OPF_TRY(count_kept(call, axis, &kept, error));
    for (int32_t i = 0; i < in->rank; i++)
        dims[i] = i == axis ? 1 : in->dims[i];
    for (int64_t i = 0; i < condition->dims[0] && at < kept; i++) {
        if (opf_view_i64(condition, i * condition->strides[0]) == 0)
            continue;
        if (axis < 0)
            opf_move_element(out, at * out->strides[0], in, opf_view_offset(in, (size_t)i));
        else
            opf_move_grid(bits, (opf_grid){out->data, at * out->strides[axis], out->strides},
                          (opf_grid){in->data, i * in->strides[axis], in->strides}, in->rank, dims);
        at++;
    }
    return OPF_OK;
}

const opf_op opf_op_Compress = {
    .name      = "Compress",
    .domain    = "",
    .since     = 9,
    .traits    = OPF_MOVEMENT,
    .inputs    = (const opf_param[]){{"input", 'T', OPF_TYPES_MOVED, 0}, {"condition", 0, OPF_TYPES_BOOL, 0}},
    .n_inputs  = 2,
    .outputs   = (const opf_param[]){{"output", 'T', OPF_TYPES_MOVED, 0}},
    .n_outputs = 1,
    .attrs     = (const opf_attr_def[]){{.name = "axis", .type = OPF_ATTR_INT}},
    .n_attrs   = 1,
    .rows      = (const opf_import_row[]){{11, opf_import_same, opf_lower_negative_axis},
                                          {28, opf_import_same, opf_lower_no_bfloat16}},
    .n_rows    = 2,
    .infer     = infer_compress,
    .reference = reference_compress,
    .resolve   = resolve_compress,
};
