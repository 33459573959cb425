/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/call.h"

static opf_status infer_trilu(opf_infer *infer, opf_error *error)
{
    const opf_info *in = infer->in[0];
    OPF_FAIL_IF(error, in->rank >= 0 && in->rank < 2, OPF_INVALID_MODEL, "input has rank %d, must be 2 at least",
                in->rank);
    OPF_TRY(opf_infer_same(infer, 0, 0, error));
    return opf_infer_moved(infer, error);
}

/* Element [i, j] stays above (upper) or below the diagonal j - i = k. */
static opf_status reference_trilu(const opf_call *call, opf_error *error)
{
    const opf_view *in = &call->in[0], *out = &call->out[0];
    const bool      upper = opf_call_int(call, "upper", 1) != 0;
    const int32_t   r     = in->rank;
    const opf_view *views[2] = {in, out};
    opf_walk        walk;
    int64_t         k = 0;
    if (opf_call_has(call, 1)) {
        OPF_FAIL_IF(error, opf_view_count(&call->in[1]) != 1, OPF_INVALID_INPUT, "k has %zu elements, must have 1",
                    opf_view_count(&call->in[1]));
        k = opf_view_i64(&call->in[1], 0);
    }
    opf_view_clear(out);
    for (opf_walk_init(&walk, r, in->dims, 2, views); walk.left != 0; opf_walk_next(&walk)) {
        int64_t place = walk.index[r - 1] - walk.index[r - 2];
        if (upper ? place >= k : place <= k)
            opf_move_element(out, walk.offset[1], in, walk.offset[0]);
    }
    return OPF_OK;
}

const opf_op opf_op_Trilu = {
    .name      = "Trilu",
    .domain    = "",
    .since     = 14,
    .traits    = OPF_MOVEMENT,
    .inputs    = (const opf_param[]){{"input", 'T', OPF_TYPES_MOVED, 0},
                                     {"k", 0, OPF_TYPE_BIT(OPF_INT64), OPF_OPTIONAL}},
    .n_inputs  = 2,
    .outputs   = (const opf_param[]){{"output", 'T', OPF_TYPES_MOVED, 0}},
    .n_outputs = 1,
    .attrs     = (const opf_attr_def[]){{.name = "upper", .type = OPF_ATTR_INT, .i = 1}},
    .n_attrs   = 1,
    .infer     = infer_trilu,
    .reference = reference_trilu,
};
