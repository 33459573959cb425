/* SPDX-License-Identifier: Apache-2.0 */
/* Identity: the result is the input. */
#include "ops/elementwise.h"

static opf_status infer_copy(opf_infer *infer, opf_error *error)
{
    const opf_dim *values;
    int32_t        n;
    OPF_TRY(opf_infer_same(infer, 0, 0, error));
    return opf_infer_values(infer, 0, &values, &n) ? opf_infer_set_values(infer, 0, n, values, error) : OPF_OK;
}

static opf_status reference_copy(const opf_call *call, opf_error *error)
{
    (void)error;
    opf_reference_copy(&call->in[0], &call->out[0]);
    return OPF_OK;
}

#define MOVED (OPF_TYPES_ALL | OPF_TYPES_FLOAT8 | OPF_TYPES_SUBBYTE)

const opf_op opf_op_Identity = {.name      = "Identity",
                                .domain    = "",
                                .since     = 1,
                                .traits    = OPF_ELEMENTWISE | OPF_MOVEMENT,
                                .inputs    = OPF_PARAMS({"input", 'V', MOVED, 0}),
                                .n_inputs  = 1,
                                .outputs   = OPF_PARAMS({"output", 'V', MOVED, 0}),
                                .n_outputs = 1,
                                .infer     = infer_copy,
                                .reference = reference_copy};
