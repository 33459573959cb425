/* SPDX-License-Identifier: Apache-2.0 */
/* BitCast: the same bits as another type of the same width. */
#include "ops/elementwise.h"
#include "ops/movement.h"

#define BIT_TYPES (OPF_TYPES_ANY | OPF_TYPE_BIT(OPF_COMPLEX128))

static opf_status infer_bit_cast(opf_infer *infer, opf_error *error)
{
    const int64_t  to   = opf_node_int(infer->node, "to", 0);
    const opf_type from = infer->in[0]->type;
    OPF_FAIL_IF(error, to <= 0 || to >= OPF_TYPE_COUNT || !opf_types_have(BIT_TYPES, (opf_type)to), OPF_INVALID_MODEL,
                "to is %lld, which is no type of fixed width", (long long)to);
    OPF_FAIL_IF(error, from != OPF_TYPE_NONE && opf_type_bits(from) != opf_type_bits((opf_type)to), OPF_INVALID_MODEL,
                "%s has %zu bits and %s has %zu: they must have the same", opf_type_name(from), opf_type_bits(from),
                opf_type_name((opf_type)to), opf_type_bits((opf_type)to));
    infer->out[0].type = (opf_type)to;
    return opf_infer_same(infer, 0, 0, error);
}

static opf_status run_bit_cast(const opf_call *call, opf_error *error)
{
    const opf_view *x = &call->in[0];
    opf_view       *y = &call->out[0];
    (void)error;
    opf_move_grid(opf_type_bits(x->type), (opf_grid){y->data, 0, y->strides}, (opf_grid){x->data, 0, x->strides},
                  x->rank, x->dims);
    return OPF_OK;
}

static const opf_attr_def attrs[] = {{.name = "to", .type = OPF_ATTR_INT, .required = true}};

const opf_op opf_op_BitCast = {.name      = "BitCast",
                               .domain    = "",
                               .since     = 26,
                               .traits    = OPF_ELEMENTWISE,
                               .inputs    = OPF_PARAMS({"input", 0, BIT_TYPES, 0}),
                               .n_inputs  = 1,
                               .outputs   = OPF_PARAMS({"output", 0, BIT_TYPES, 0}),
                               .n_outputs = 1,
                               .attrs     = attrs,
                               .n_attrs   = OPF_COUNT(attrs),
                               .infer     = infer_bit_cast,
                               .reference = run_bit_cast};
