/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/call.h"
#include "ops/lift.h"

/* Places of nonzero elements among known numbers, row-major; false when some element is only a symbol. */
static bool find_known(const opf_dim *values, int32_t n, int32_t *places, int32_t *count)
{
    *count = 0;
    for (int32_t i = 0; i < n; i++) {
        if (!opf_dim_is_number(values[i]))
            return false;
        if (values[i].n != 0)
            places[(*count)++] = i;
    }
    return true;
}

static opf_status infer_non_zero(opf_infer *infer, opf_error *error)
{
    const opf_info *x = infer->in[0];
    const opf_dim  *values;
    opf_dim         dims[2], known[OPF_MAX_KNOWN_VALUES];
    int32_t         places[OPF_MAX_KNOWN_VALUES], n, count;
    size_t          elements;
    if (x->rank < 0)
        return OPF_OK;
    dims[0]         = opf_dim_number(x->rank);
    dims[1]         = opf_dim_unknown(infer->dims);
    bool is_known = opf_infer_values(infer, 0, &values, &n) && n <= OPF_MAX_KNOWN_VALUES &&
                    opf_info_count(x, &elements) && elements == (size_t)n && find_known(values, n, places, &count);
    if (is_known)
        dims[1] = opf_dim_number(count);
    OPF_TRY(opf_infer_set(infer, 0, 2, dims, error));
    if (!is_known || count * x->rank > OPF_MAX_KNOWN_VALUES)
        return OPF_OK;
    for (int32_t k = 0; k < count; k++)
        for (int32_t axis = x->rank - 1, rest = places[k]; axis >= 0; axis--) {
            known[axis * count + k] = opf_dim_number(rest % x->dims[axis].n);
            rest                    = (int32_t)(rest / x->dims[axis].n);
        }
    return opf_infer_set_values(infer, 0, count * x->rank, known, error);
}

static opf_status resolve_non_zero(const opf_call *call, opf_info *out, opf_arena *arena, opf_error *error)
{
    const opf_view *x       = &call->in[0];
    int64_t         dims[2] = {x->rank, 0};
    opf_walk        walk;
    for (opf_walk_init(&walk, x->rank, x->dims, 1, &x); walk.left != 0; opf_walk_next(&walk))
        dims[1] += opf_view_is_nonzero(x, walk.offset[0]);
    return opf_resolve_set(&out[0], 2, dims, arena, error);
}

static opf_status reference_non_zero(const opf_call *call, opf_error *error)
{
    (void)error;
    const opf_view *x = &call->in[0];
    opf_view       *y = &call->out[0];
    int64_t         k = 0;
    opf_walk        walk;
    for (opf_walk_init(&walk, x->rank, x->dims, 1, &x); walk.left != 0 && k < y->dims[1]; opf_walk_next(&walk)) {
        if (!opf_view_is_nonzero(x, walk.offset[0]))
            continue;
        for (int32_t i = 0; i < x->rank; i++)
            opf_view_put_i64(y, i * y->strides[0] + k * y->strides[1], walk.index[i]);
        k++;
    }
    return OPF_OK;
}

const opf_op opf_op_NonZero = {
    .name      = "NonZero",
    .domain    = "",
    .since     = 9,
    .inputs    = (const opf_param[]){{"X", 0, OPF_TYPES_MOVED, 0}},
    .n_inputs  = 1,
    .outputs   = (const opf_param[]){{"Y", 0, OPF_TYPE_BIT(OPF_INT64), 0}},
    .n_outputs = 1,
    .rows      = (const opf_import_row[]){{13, opf_import_same, opf_lower_no_bfloat16}},
    .n_rows    = 1,
    .infer     = infer_non_zero,
    .reference = reference_non_zero,
    .resolve   = resolve_non_zero,
};
