/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/call.h"

/* The axis that element k of `shape` counts. */
static opf_status get_axis(const opf_attr *axes, int32_t rank, int32_t k, int32_t *axis, opf_error *error)
{
    return opf_normalize_axis(axes == NULL ? k : axes->ints[k], rank, axis, error);
}

static opf_status infer_center_crop_pad(opf_infer *infer, opf_error *error)
{
    const opf_info *in   = infer->in[0], *shape = infer->in[1];
    const opf_attr *axes = opf_node_attr(infer->node, "axes");
    const opf_dim  *sizes = NULL;
    opf_dim         dims[OPF_MAX_RANK];
    bool            seen[OPF_MAX_RANK] = {false};
    int32_t         n;
    if (in->rank < 0)
        return OPF_OK;
    const int64_t wanted = axes == NULL ? in->rank : (int64_t)axes->n;
    OPF_FAIL_IF(error, wanted > in->rank, OPF_INVALID_MODEL, "%lld axes, input has rank %d", (long long)wanted,
                in->rank);
    bool fits = shape->rank < 0 ||
                (shape->rank == 1 && (!opf_dim_is_number(shape->dims[0]) || shape->dims[0].n == wanted));
    OPF_FAIL_IF(error, !fits, OPF_INVALID_MODEL, "shape must have rank 1 and %lld elements", (long long)wanted);
    bool known = opf_infer_values(infer, 1, &sizes, &n) && n == wanted;
    for (int32_t i = 0; i < in->rank; i++)
        dims[i] = in->dims[i];
    for (int32_t k = 0; k < wanted; k++) {
        int32_t axis;
        OPF_TRY(get_axis(axes, in->rank, k, &axis, error));
        OPF_FAIL_IF(error, seen[axis], OPF_INVALID_MODEL, "axis %d is there twice", axis);
        seen[axis] = true;
        dims[axis] = known ? sizes[k] : opf_dim_unknown(infer->dims);
    }
    OPF_TRY(opf_infer_set(infer, 0, in->rank, dims, error));
    return opf_infer_moved(infer, error);
}

/* The smaller of two sizes lies in the middle of the larger; an odd remainder goes to the end. */
static opf_status reference_center_crop_pad(const opf_call *call, opf_error *error)
{
    (void)error;
    const opf_view *in = &call->in[0], *out = &call->out[0];
    int64_t         dims[OPF_MAX_RANK], from = 0, to = 0;
    for (int32_t i = 0; i < in->rank; i++) {
        int64_t a = in->dims[i], b = out->dims[i];
        dims[i] = a < b ? a : b;
        if (a > b)
            from += (a - b) / 2 * in->strides[i];
        else
            to += (b - a) / 2 * out->strides[i];
    }
    opf_view_clear(out);
    opf_move_grid(opf_type_bits(in->type), (opf_grid){out->data, to, out->strides},
                  (opf_grid){in->data, from, in->strides}, in->rank, dims);
    return OPF_OK;
}

const opf_op opf_op_CenterCropPad = {
    .name      = "CenterCropPad",
    .domain    = "",
    .since     = 18,
    .traits    = OPF_MOVEMENT,
    .inputs    = (const opf_param[]){{"input_data", 'T', OPF_TYPES_MOVED, 0}, {"shape", 'I', OPF_TYPES_INDEX, 0}},
    .n_inputs  = 2,
    .outputs   = (const opf_param[]){{"output_data", 'T', OPF_TYPES_MOVED, 0}},
    .n_outputs = 1,
    .attrs     = (const opf_attr_def[]){{.name = "axes", .type = OPF_ATTR_INTS}},
    .n_attrs   = 1,
    .infer     = infer_center_crop_pad,
    .reference = reference_center_crop_pad,
};
