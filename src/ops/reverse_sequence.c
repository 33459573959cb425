/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/check.h"
#include "ops/lift.h"
#include "ops/movement.h"

static opf_status get_axes(int64_t batch, int64_t time, opf_error *error)
{
    bool fits = (batch == 0 && time == 1) || (batch == 1 && time == 0);
    OPF_FAIL_IF(error, !fits, OPF_INVALID_MODEL, "batch_axis is %lld and time_axis %lld, must be 0 and 1 or 1 and 0",
                (long long)batch, (long long)time);
    return OPF_OK;
}

static opf_status infer_reverse_sequence(opf_infer *infer, opf_error *error)
{
    const opf_info *in    = infer->in[0];
    const int64_t   batch = opf_node_int(infer->node, "batch_axis", 1);
    OPF_TRY(get_axes(batch, opf_node_int(infer->node, "time_axis", 0), error));
    if (in->rank < 0)
        return OPF_OK;
    OPF_FAIL_IF(error, in->rank < 2, OPF_INVALID_MODEL, "input has rank %d, must be 2 at least", in->rank);
    OPF_TRY(opf_check_vector(infer, 1, in->dims[batch], 0, error));
    OPF_TRY(opf_infer_same(infer, 0, 0, error));
    return opf_infer_moved(infer, error);
}

static opf_status reference_reverse_sequence(const opf_call *call, opf_error *error)
{
    const opf_view *in = &call->in[0], *out = &call->out[0], *lengths = &call->in[1];
    const int64_t   batch = opf_call_int(call, "batch_axis", 1), time = 1 - batch;
    for (int64_t b = 0; b < in->dims[batch]; b++) {
        int64_t length = opf_view_i64(lengths, b * lengths->strides[0]);
        OPF_FAIL_IF(error, length < 0 || length > in->dims[time], OPF_INVALID_INPUT,
                    "sequence_lens[%lld] is %lld, must be in [0, %lld]", (long long)b, (long long)length,
                    (long long)in->dims[time]);
    }
    for (int64_t b = 0; b < in->dims[batch]; b++) {
        int64_t length = opf_view_i64(lengths, b * lengths->strides[0]);
        for (int64_t t = 0; t < in->dims[time]; t++) {
            int64_t from = t < length ? length - 1 - t : t;
            opf_move_grid(opf_type_bits(in->type),
                          (opf_grid){out->data, b * out->strides[batch] + t * out->strides[time], out->strides + 2},
                          (opf_grid){in->data, b * in->strides[batch] + from * in->strides[time], in->strides + 2},
                          in->rank - 2, in->dims + 2);
        }
    }
    return OPF_OK;
}

const opf_op opf_op_ReverseSequence = {
    .name      = "ReverseSequence",
    .domain    = "",
    .since     = 10,
    .traits    = OPF_MOVEMENT,
    .inputs    = (const opf_param[]){{"input", 'T', OPF_TYPES_MOVED, 0},
                                     {"sequence_lens", 0, OPF_TYPE_BIT(OPF_INT64), 0}},
    .n_inputs  = 2,
    .outputs   = (const opf_param[]){{"Y", 'T', OPF_TYPES_MOVED, 0}},
    .n_outputs = 1,
    .attrs     = (const opf_attr_def[]){{.name = "batch_axis", .type = OPF_ATTR_INT, .i = 1},
                                        {.name = "time_axis", .type = OPF_ATTR_INT}},
    .n_attrs   = 2,
    .rows      = (const opf_import_row[]){{28, opf_import_same, opf_lower_no_bfloat16}},
    .n_rows    = 1,
    .infer     = infer_reverse_sequence,
    .reference = reference_reverse_sequence,
};
