/* SPDX-License-Identifier: Apache-2.0 */
/* And Or Xor Not and the comparisons: booleans out. */
#include "ops/elementwise.h"
#include "ops/import.h"

/* ---- on booleans ---- */

static uint64_t and_u(uint64_t a, uint64_t b)
{
    return a & b;
}
static uint64_t or_u(uint64_t a, uint64_t b)
{
    return a | b;
}
static uint64_t xor_u(uint64_t a, uint64_t b)
{
    return a ^ b;
}

/* One known operand may decide. Symbols are never booleans, so what is no number is unknown. */
static bool and_d(opf_dims *dims, opf_dim a, opf_dim b, opf_dim *result)
{
    (void)dims;
    *result = opf_dim_number(opf_dim_is(a, 1) && opf_dim_is(b, 1));
    return opf_dim_is(a, 0) || opf_dim_is(b, 0) || (opf_dim_is_number(a) && opf_dim_is_number(b));
}
static bool or_d(opf_dims *dims, opf_dim a, opf_dim b, opf_dim *result)
{
    (void)dims;
    *result = opf_dim_number(opf_dim_is(a, 1) || opf_dim_is(b, 1));
    return opf_dim_is(a, 1) || opf_dim_is(b, 1) || (opf_dim_is_number(a) && opf_dim_is_number(b));
}
static bool xor_d(opf_dims *dims, opf_dim a, opf_dim b, opf_dim *result)
{
    (void)dims;
    *result = opf_dim_number(a.n ^ b.n);
    return opf_dim_is_number(a) && opf_dim_is_number(b);
}
static bool not_d(opf_dims *dims, opf_dim a, opf_dim b, opf_dim *result)
{
    (void)dims;
    (void)b;
    *result = opf_dim_number(a.n == 0);
    return opf_dim_is_number(a);
}

/* ---- comparisons, told by C's own operators ---- */

#define COMPARISON(name, operator)                                                                                     \
    static double name##_f(double a, double b)                                                                         \
    {                                                                                                                  \
        return a operator b;                                                                                           \
    }                                                                                                                  \
    static int64_t name##_i(int64_t a, int64_t b)                                                                      \
    {                                                                                                                  \
        return a operator b;                                                                                           \
    }                                                                                                                  \
    static uint64_t name##_u(uint64_t a, uint64_t b)                                                                   \
    {                                                                                                                  \
        return a operator b;                                                                                           \
    }

COMPARISON(equal, ==)
COMPARISON(greater, >)
COMPARISON(greater_equal, >=)
COMPARISON(less, <)
COMPARISON(less_equal, <=)

static bool is_above(opf_dims *dims, opf_dim a, opf_dim b, int64_t by)
{
    return opf_dim_at_least(dims, opf_dim_sub(dims, a, b), by);
}

static bool decide(bool yes, bool no, opf_dim *result)
{
    *result = opf_dim_number(yes);
    return yes || no;
}
static bool equal_d(opf_dims *dims, opf_dim a, opf_dim b, opf_dim *result)
{
    return decide(opf_dim_equal(a, b), is_above(dims, a, b, 1) || is_above(dims, b, a, 1), result);
}
static bool greater_d(opf_dims *dims, opf_dim a, opf_dim b, opf_dim *result)
{
    return decide(is_above(dims, a, b, 1), is_above(dims, b, a, 0), result);
}
static bool greater_equal_d(opf_dims *dims, opf_dim a, opf_dim b, opf_dim *result)
{
    return decide(is_above(dims, a, b, 0), is_above(dims, b, a, 1), result);
}
static bool less_d(opf_dims *dims, opf_dim a, opf_dim b, opf_dim *result)
{
    return greater_d(dims, b, a, result);
}
static bool less_equal_d(opf_dims *dims, opf_dim a, opf_dim b, opf_dim *result)
{
    return greater_equal_d(dims, b, a, result);
}

/* ---- definitions ---- */

static const opf_import_row rows[] = {{7, opf_lift_broadcast_6, opf_lower_broadcast_6}};

#define DEFINE(op, fn, version, trait_set, type_set, row_list, row_count, ff, fi)                                      \
    static opf_status infer_##fn(opf_infer *infer, opf_error *error)                                                   \
    {                                                                                                                  \
        static const opf_value_rule rule = {.integers = fn##_d, .floats = (ff)};                                       \
        return opf_infer_elementwise(infer, &rule, error);                                                             \
    }                                                                                                                  \
    static opf_status reference_##fn(const opf_call *call, opf_error *error)                                           \
    {                                                                                                                  \
        (void)error;                                                                                                   \
        return opf_reference_binary(call, (ff), (fi), fn##_u);                                                         \
    }                                                                                                                  \
    const opf_op opf_op_##op = {.name      = #op,                                                                      \
                                .domain    = "",                                                                       \
                                .since     = (version),                                                                \
                                .traits    = OPF_ELEMENTWISE | (trait_set),                                            \
                                .inputs    = OPF_PARAMS({"A", 'T', (type_set), 0}, {"B", 'T', (type_set), 0}),         \
                                .n_inputs  = 2,                                                                        \
                                .outputs   = OPF_PARAMS({"C", 0, OPF_TYPES_BOOL, 0}),                                  \
                                .n_outputs = 1,                                                                        \
                                .rows      = (row_list),                                                               \
                                .n_rows    = (row_count),                                                              \
                                .infer     = infer_##fn,                                                               \
                                .reference = reference_##fn}

#define DEFINE_LOGIC(op, fn) DEFINE(op, fn, 1, OPF_COMMUTATIVE, OPF_TYPES_BOOL, rows, OPF_COUNT(rows), NULL, NULL)
#define DEFINE_COMPARISON(op, fn, version, traits, types, row_list, row_count)                                         \
    DEFINE(op, fn, version, traits, types, row_list, row_count, fn##_f, fn##_i)

DEFINE_LOGIC(And, and);
DEFINE_LOGIC(Or, or);
DEFINE_LOGIC(Xor, xor);
DEFINE_COMPARISON(Equal, equal, 1, OPF_COMMUTATIVE, OPF_TYPES_ALL, rows, OPF_COUNT(rows));
DEFINE_COMPARISON(Greater, greater, 1, 0, OPF_TYPES_NUMERIC, rows, OPF_COUNT(rows));
DEFINE_COMPARISON(Less, less, 1, 0, OPF_TYPES_NUMERIC, rows, OPF_COUNT(rows));
DEFINE_COMPARISON(GreaterOrEqual, greater_equal, 12, 0, OPF_TYPES_NUMERIC, NULL, 0);
DEFINE_COMPARISON(LessOrEqual, less_equal, 12, 0, OPF_TYPES_NUMERIC, NULL, 0);

static opf_status infer_not(opf_infer *infer, opf_error *error)
{
    static const opf_value_rule rule = {.is_unary = true, .integers = not_d};
    return opf_infer_elementwise(infer, &rule, error);
}

static int64_t not_i(int64_t x)
{
    return x == 0;
}

static opf_status reference_not(const opf_call *call, opf_error *error)
{
    (void)error;
    opf_reference_unary_int(call, not_i);
    return OPF_OK;
}

OPF_DEFINE_UNARY(Not, 1, OPF_TYPES_BOOL, infer_not, reference_not);
