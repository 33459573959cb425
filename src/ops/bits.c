/* SPDX-License-Identifier: Apache-2.0 */
/* BitShift and the bitwise operators, on integers of every width and sign. */
#include "ops/elementwise.h"
#include "ops/lift.h"

#include <string.h>

/* ---- bitwise ---- */

#define BITWISE(name, operator)                                                                                        \
    static int64_t name##_i(int64_t a, int64_t b)                                                                      \
    {                                                                                                                  \
        return (int64_t)((uint64_t)a operator(uint64_t) b);                                                            \
    }                                                                                                                  \
    static uint64_t name##_u(uint64_t a, uint64_t b)                                                                   \
    {                                                                                                                  \
        return a operator b;                                                                                           \
    }                                                                                                                  \
    static bool name##_d(opf_dims *dims, opf_dim a, opf_dim b, opf_dim *result)                                        \
    {                                                                                                                  \
        (void)dims;                                                                                                    \
        *result = opf_dim_number(name##_i(a.n, b.n));                                                                  \
        return opf_dim_is_number(a) && opf_dim_is_number(b);                                                           \
    }                                                                                                                  \
    static opf_status infer_##name(opf_infer *infer, opf_error *error)                                                 \
    {                                                                                                                  \
        static const opf_value_rule rule = {.integers = name##_d};                                                     \
        return opf_infer_elementwise(infer, &rule, error);                                                             \
    }                                                                                                                  \
    static opf_status reference_##name(const opf_call *call, opf_error *error)                                         \
    {                                                                                                                  \
        (void)error;                                                                                                   \
        return opf_reference_binary(call, NULL, name##_i, name##_u);                                                   \
    }

BITWISE(and, &)
BITWISE(or, |)
BITWISE(xor, ^)

static int64_t not_i(int64_t x)
{
    return ~x;
}

static bool not_d(opf_dims *dims, opf_dim a, opf_dim b, opf_dim *result)
{
    (void)dims;
    (void)b;
    *result = opf_dim_number(~a.n);
    return opf_dim_is_number(a);
}

static opf_status infer_not(opf_infer *infer, opf_error *error)
{
    static const opf_value_rule rule = {.is_unary = true, .integers = not_d};
    return opf_infer_elementwise(infer, &rule, error);
}

static opf_status reference_not(const opf_call *call, opf_error *error)
{
    (void)error;
    opf_reference_unary_int(call, not_i);
    return OPF_OK;
}

/* ---- BitShift ---- */

static opf_status infer_shift(opf_infer *infer, opf_error *error)
{
    const char *direction = opf_node_string(infer->node, "direction", "");
    OPF_FAIL_IF(error, strcmp(direction, "LEFT") != 0 && strcmp(direction, "RIGHT") != 0, OPF_INVALID_MODEL,
                "direction is \"%s\", must be \"LEFT\" or \"RIGHT\"", direction);
    return opf_infer_shape_only(infer, error);
}

/* x, an element of `bits` bits, shifted; an amount that is not in [0, bits) shifts everything out. */
static int64_t shift(int64_t x, int64_t by, int64_t bits, bool is_signed, bool is_left)
{
    const bool is_out = by < 0 || by >= bits; /* unsigned 64-bit amounts above INT64_MAX come as negative ones */
    if (is_left)
        return is_out ? 0 : (int64_t)((uint64_t)x << by);
    if (is_signed && x < 0)
        return is_out ? -1 : ~(~x >> by);
    return is_out ? 0 : (int64_t)((uint64_t)x >> by);
}

static opf_status reference_shift(const opf_call *call, opf_error *error)
{
    (void)error;
    opf_view       *z         = &call->out[0];
    const opf_view  x         = opf_view_broadcast(&call->in[0], z->rank, z->dims);
    const opf_view  y         = opf_view_broadcast(&call->in[1], z->rank, z->dims);
    const opf_view *views[]   = {&x, &y, z};
    const bool      is_left   = strcmp(opf_call_string(call, "direction", ""), "LEFT") == 0;
    const bool      is_signed = opf_types_have(OPF_TYPES_SINT, x.type);
    const int64_t   bits      = (int64_t)opf_type_bits(x.type);
    opf_walk        walk;
    for (opf_walk_init(&walk, z->rank, z->dims, 3, views); walk.left > 0; opf_walk_next(&walk))
        opf_view_put_i64(z, walk.offset[2],
                         shift(opf_view_i64(&x, walk.offset[0]), opf_view_i64(&y, walk.offset[1]), bits, is_signed, is_left));
    return OPF_OK;
}

static opf_status lower_shift_28(opf_graph *graph, opf_node_id node, int32_t opset, opf_error *error)
{
    return opf_lower_no_types(graph, node, OPF_TYPES_SINT, opset, error);
}

/* ---- definitions ---- */

#define DEFINE_BITWISE(op, fn)                                                                                         \
    const opf_op opf_op_##op = {.name      = #op,                                                                      \
                                .domain    = "",                                                                       \
                                .since     = 18,                                                                       \
                                .traits    = OPF_ELEMENTWISE | OPF_COMMUTATIVE,                                        \
                                .inputs    = OPF_PARAMS({"A", 'T', OPF_TYPES_INT, 0}, {"B", 'T', OPF_TYPES_INT, 0}),   \
                                .n_inputs  = 2,                                                                        \
                                .outputs   = OPF_PARAMS({"C", 'T', OPF_TYPES_INT, 0}),                                 \
                                .n_outputs = 1,                                                                        \
                                .infer     = infer_##fn,                                                               \
                                .reference = reference_##fn}

DEFINE_BITWISE(BitwiseAnd, and);
DEFINE_BITWISE(BitwiseOr, or);
DEFINE_BITWISE(BitwiseXor, xor);
OPF_DEFINE_UNARY(BitwiseNot, 18, OPF_TYPES_INT, infer_not, reference_not);

static const opf_attr_def   shift_attrs[] = {{.name = "direction", .type = OPF_ATTR_STRING, .required = true}};
static const opf_import_row shift_rows[]  = {{28, opf_import_same, lower_shift_28}};

const opf_op opf_op_BitShift = {.name      = "BitShift",
                                .domain    = "",
                                .since     = 11,
                                .traits    = OPF_ELEMENTWISE,
                                .inputs    = OPF_PARAMS({"X", 'T', OPF_TYPES_INT, 0}, {"Y", 'T', OPF_TYPES_INT, 0}),
                                .n_inputs  = 2,
                                .outputs   = OPF_PARAMS({"Z", 'T', OPF_TYPES_INT, 0}),
                                .n_outputs = 1,
                                .attrs     = shift_attrs,
                                .n_attrs   = OPF_COUNT(shift_attrs),
                                .rows      = shift_rows,
                                .n_rows    = OPF_COUNT(shift_rows),
                                .infer     = infer_shift,
                                .reference = reference_shift};
