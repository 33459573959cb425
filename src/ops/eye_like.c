/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/call.h"
#include "ops/lift.h"

static opf_status infer_eye_like(opf_infer *infer, opf_error *error)
{
    const opf_info *in   = infer->in[0];
    const opf_attr *attr = opf_node_attr(infer->node, "dtype");
    opf_type        type = attr != NULL ? (opf_type)attr->i : in->type;
    OPF_FAIL_IF(error, attr != NULL && (attr->i < 0 || attr->i >= 64 || !opf_types_have(OPF_TYPES_ALL, type)),
                OPF_UNSUPPORTED, "dtype %lld is not supported", (long long)attr->i);
    OPF_FAIL_IF(error, in->rank >= 0 && in->rank != 2, OPF_INVALID_MODEL, "input has rank %d, must be 2", in->rank);
    infer->out[0].type = type;
    return opf_infer_same(infer, 0, 0, error);
}

static opf_status reference_eye_like(const opf_call *call, opf_error *error)
{
    (void)error;
    opf_view     *out = &call->out[0];
    const int64_t k   = opf_call_int(call, "k", 0);
    const bool    is_float = opf_types_have(OPF_TYPES_FLOAT, out->type);
    opf_view_clear(out);
    for (int64_t i = 0; i < out->dims[0]; i++) {
        int64_t j;
        if (__builtin_add_overflow(i, k, &j) || j < 0 || j >= out->dims[1])
            continue;
        int64_t at = i * out->strides[0] + j * out->strides[1];
        if (is_float)
            opf_view_put_f64(out, at, 1);
        else
            opf_view_put_i64(out, at, 1);
    }
    return OPF_OK;
}

static opf_status lower_eye_like(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    const opf_node *node = opf_graph_node(graph, id);
    OPF_FAIL_IF(error, opf_node_int(node, "dtype", 0) == OPF_BFLOAT16, OPF_UNSUPPORTED,
                "%s (%s): type bfloat16 came with opset 22", node->name, node->op_type);
    return opf_lower_no_bfloat16(graph, id, opset, error);
}

const opf_op opf_op_EyeLike = {
    .name      = "EyeLike",
    .domain    = "",
    .since     = 9,
    .traits    = OPF_SHAPE_ONLY,
    .inputs    = (const opf_param[]){{"input", 0, OPF_TYPES_ALL, 0}},
    .n_inputs  = 1,
    .outputs   = (const opf_param[]){{"output", 0, OPF_TYPES_ALL, 0}},
    .n_outputs = 1,
    .attrs     = (const opf_attr_def[]){{.name = "dtype", .type = OPF_ATTR_INT},
                                        {.name = "k", .type = OPF_ATTR_INT}},
    .n_attrs   = 2,
    .rows      = (const opf_import_row[]){{22, opf_import_same, lower_eye_like}},
    .n_rows    = 1,
    .infer     = infer_eye_like,
    .reference = reference_eye_like,
};
