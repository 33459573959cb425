/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/movement.h"

/* perm, or the reverse order where there is none; checked. */
static opf_status get_perm(const opf_attr *attr, int32_t rank, int32_t perm[OPF_MAX_RANK], opf_error *error)
{
    bool seen[OPF_MAX_RANK] = {false};
    OPF_FAIL_IF(error, attr != NULL && attr->n != (uint32_t)rank, OPF_INVALID_MODEL,
                "perm has %u elements, the input has rank %d", attr->n, rank);
    for (int32_t i = 0; i < rank; i++) {
        int64_t axis = attr == NULL ? rank - 1 - i : attr->ints[i];
        OPF_FAIL_IF(error, axis < 0 || axis >= rank || seen[axis], OPF_INVALID_MODEL,
                    "perm[%d] is %lld: not a permutation of rank %d", i, (long long)axis, rank);
        seen[axis] = true;
        perm[i]    = (int32_t)axis;
    }
    return OPF_OK;
}

static opf_status infer_transpose(opf_infer *infer, opf_error *error)
{
    const opf_info *in = infer->in[0];
    int32_t         perm[OPF_MAX_RANK];
    opf_dim         dims[OPF_MAX_RANK];
    const opf_attr *attr = opf_node_attr(infer->node, "perm");
    if (in->rank < 0)
        return attr == NULL
                   ? OPF_OK
                   : opf_infer_unknown_dims(infer, 0, (int32_t)(attr->n > INT16_MAX ? INT16_MAX : attr->n), error);
    OPF_TRY(get_perm(attr, in->rank, perm, error));
    for (int32_t i = 0; i < in->rank; i++)
        dims[i] = in->dims[perm[i]];
    OPF_TRY(opf_infer_set(infer, 0, in->rank, dims, error));
    return opf_infer_moved(infer, error);
}

static opf_status reference_transpose(const opf_call *call, opf_error *error)
{
    const opf_view *in  = &call->in[0];
    const opf_view *out = &call->out[0];
    int32_t         perm[OPF_MAX_RANK];
    int64_t         strides[OPF_MAX_RANK];
    OPF_TRY(get_perm(opf_call_attr(call, "perm"), in->rank, perm, error));
    for (int32_t i = 0; i < in->rank; i++)
        strides[i] = in->strides[perm[i]];
    opf_move_grid(opf_type_bits(in->type), (opf_grid){out->data, 0, out->strides}, (opf_grid){in->data, 0, strides},
                  out->rank, out->dims);
    return OPF_OK;
}

const opf_op opf_op_Transpose = {
    .name      = "Transpose",
    .domain    = "",
    .since     = 1,
    .traits    = OPF_MOVEMENT,
    .inputs    = (const opf_param[]){{"data", 'T', OPF_TYPES_ANY, 0}},
    .n_inputs  = 1,
    .outputs   = (const opf_param[]){{"transposed", 'T', OPF_TYPES_ANY, 0}},
    .n_outputs = 1,
    .attrs     = (const opf_attr_def[]){{.name = "perm", .type = OPF_ATTR_INTS}},
    .n_attrs   = 1,
    .rows      = (const opf_import_row[]){{25, opf_import_same, opf_lower_moved_type}},
    .n_rows    = 1,
    .infer     = infer_transpose,
    .reference = reference_transpose,
};
