/* SPDX-License-Identifier: Apache-2.0 */
/* Pow: base and exponent may differ in type; the result has the type of the base. */
#include "ops/elementwise.h"
#include "ops/import.h"

#include <math.h>

/* Exact, wrapping. */
static int64_t pow_u(int64_t base, uint64_t exponent)
{
    uint64_t result = 1, power = (uint64_t)base;
    for (; exponent != 0; exponent >>= 1) {
        if ((exponent & 1) != 0)
            result *= power;
        power *= power;
    }
    return (int64_t)result;
}

/* A negative exponent gives the power truncated; of zero that is what Cast makes of infinity. */
static int64_t pow_i(int64_t base, int64_t exponent, opf_type type)
{
    if (exponent >= 0)
        return pow_u(base, (uint64_t)exponent);
    if (base == 0)
        return opf_cast_to_integer(type, INFINITY);
    if (base == 1 || base == -1)
        return base == 1 || exponent % 2 == 0 ? 1 : -1;
    return 0;
}

static bool pow_d(opf_dims *dims, opf_dim a, opf_dim b, opf_dim *result)
{
    (void)dims;
    if (!opf_dim_is_number(a) || !opf_dim_is_number(b) || b.n < 0)
        return false;
    *result = opf_dim_number(pow_u(a.n, (uint64_t)b.n));
    return true;
}

static opf_status infer_pow(opf_infer *infer, opf_error *error)
{
    static const opf_value_rule rule = {.integers = pow_d, .floats = pow};
    return opf_infer_elementwise(infer, infer->in[0]->type == infer->in[1]->type ? &rule : NULL, error);
}

/* An integer base and a float exponent: a power that fits is exact when the exponent is a whole number, and all else is
   what Cast makes of the power. Of integers the result wraps. */
static int64_t pow_mixed(int64_t base, const opf_view *y, int64_t offset, opf_type type)
{
    if (!opf_types_have(OPF_TYPES_FLOAT, y->type)) {
        int64_t exponent = opf_view_i64(y, offset);
        return y->type == OPF_UINT64 ? pow_u(base, (uint64_t)exponent) : pow_i(base, exponent, type);
    }
    const double exponent = opf_view_f64(y, offset), power = pow((double)base, exponent);
    if (exponent == trunc(exponent) && fabs(exponent) < 0x1p63 && fabs(power) <= (type == OPF_INT32 ? 0x1p31 : 0x1p63))
        return pow_i(base, (int64_t)exponent, type);
    return opf_cast_to_integer(type, power);
}

static opf_status reference_pow(const opf_call *call, opf_error *error)
{
    (void)error;
    opf_view *z = &call->out[0];
    opf_view  x = opf_view_broadcast(&call->in[0], z->rank, z->dims), y = opf_view_broadcast(&call->in[1], z->rank, z->dims);
    bool      float_base = opf_types_have(OPF_TYPES_FLOAT, x.type), float_exponent = opf_types_have(OPF_TYPES_FLOAT, y.type);
    opf_walk  walk;
    for (opf_walk_init(&walk, z->rank, z->dims, 3, (const opf_view *const[]){&x, &y, z}); walk.left != 0; opf_walk_next(&walk)) {
        if (!float_base) {
            int64_t base = opf_view_i64(&x, walk.offset[0]);
            opf_view_put_i64(z, walk.offset[2], pow_mixed(base, &y, walk.offset[1], z->type));
            continue;
        }
        double exponent = float_exponent ? opf_view_f64(&y, walk.offset[1])
                          : y.type == OPF_UINT64 ? (double)(uint64_t)opf_view_i64(&y, walk.offset[1])
                                                 : (double)opf_view_i64(&y, walk.offset[1]);
        opf_view_put_f64(z, walk.offset[2], pow(opf_view_f64(&x, walk.offset[0]), exponent));
    }
    return OPF_OK;
}

static opf_status lower_pow_12(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    (void)opset;
    const opf_node *node = opf_graph_node(graph, id);
    opf_type        base     = opf_graph_value(graph, node->inputs[0])->info.type;
    opf_type        exponent = opf_graph_value(graph, node->inputs[1])->info.type;
    OPF_FAIL_IF(error, base != exponent, OPF_UNSUPPORTED, "%s (Pow): a base of type %s with an exponent of type %s came with opset 12",
                node->name, opf_type_name(base), opf_type_name(exponent));
    return OPF_OK;
}

static const opf_import_row rows[] = {{7, opf_lift_broadcast_6, opf_lower_broadcast_6}, {12, opf_import_same, lower_pow_12}};

#define BASE_TYPES (OPF_TYPES_FLOAT | OPF_TYPE_BIT(OPF_INT32) | OPF_TYPE_BIT(OPF_INT64))

const opf_op opf_op_Pow = {.name      = "Pow",
                           .domain    = "",
                           .since     = 1,
                           .traits    = OPF_ELEMENTWISE,
                           .inputs    = OPF_PARAMS({"X", 'T', BASE_TYPES, 0}, {"Y", 'E', OPF_TYPES_NUMERIC, 0}),
                           .n_inputs  = 2,
                           .outputs   = OPF_PARAMS({"Z", 'T', BASE_TYPES, 0}),
                           .n_outputs = 1,
                           .rows      = rows,
                           .n_rows    = OPF_COUNT(rows),
                           .infer     = infer_pow,
                           .reference = reference_pow};
