/* SPDX-License-Identifier: Apache-2.0 */
/* Cast between numbers and booleans. Every case is defined: floats to integers truncate and saturate, NaN gives 0. */
#include "ops/elementwise.h"
#include "ops/import.h"

#include <math.h>
#include <string.h>

/* ---- one element ---- */

static int64_t float_to_integer(opf_type type, double x)
{
    if (type == OPF_BOOL)
        return x != 0;
    if (type == OPF_UINT64)
        return (int64_t)opf_double_to_uint(x);
    int64_t n = opf_double_to_int(x);
    if (type == OPF_INT64)
        return n;
    bool    is_signed = opf_types_have(OPF_TYPES_SINT, type);
    int64_t high      = ((int64_t)1 << (opf_type_bits(type) - (is_signed ? 1 : 0))) - 1;
    int64_t low       = is_signed ? -high - 1 : 0;
    return n < low ? low : n > high ? high : n;
}

/* Rounded once: a 64-bit integer does not fit a double, so float is reached directly and the 16-bit formats through a
   double whose last bit stands for all that were cut off. */
static void store_integer_as_float(opf_view *y, int64_t offset, int64_t n, bool is_unsigned)
{
    bool is_big = is_unsigned && n < 0;
    if (y->type == OPF_FLOAT)
        opf_view_put_f64(y, offset, (double)(is_big ? (float)(uint64_t)n : (float)n));
    else if (y->type == OPF_DOUBLE)
        opf_view_put_f64(y, offset, is_big ? (double)(uint64_t)n : (double)n);
    else {
        bool     is_negative = !is_big && n < 0;
        uint64_t magnitude   = is_negative ? 0 - (uint64_t)n : (uint64_t)n;
        if (magnitude >> 53 != 0)
            magnitude = ((magnitude >> 12) | ((magnitude & 0xfff) != 0)) << 12;
        opf_view_put_f64(y, offset, is_negative ? -(double)magnitude : (double)magnitude);
    }
}

static opf_status reference(const opf_call *call, opf_error *error)
{
    (void)error;
    const opf_view *x          = &call->in[0];
    opf_view       *y          = &call->out[0];
    bool            from_float = opf_types_have(OPF_TYPES_FLOAT, x->type), to_float = opf_types_have(OPF_TYPES_FLOAT, y->type);
    opf_walk        walk;
    for (opf_walk_init(&walk, y->rank, y->dims, 2, (const opf_view *const[]){x, y}); walk.left != 0; opf_walk_next(&walk)) {
        int64_t src = walk.offset[0], dst = walk.offset[1];
        if (from_float && to_float)
            opf_view_put_f64(y, dst, opf_view_f64(x, src));
        else if (from_float)
            opf_view_put_i64(y, dst, float_to_integer(y->type, opf_view_f64(x, src)));
        else if (to_float)
            store_integer_as_float(y, dst, opf_view_i64(x, src), x->type == OPF_UINT64);
        else
            opf_view_put_i64(y, dst, opf_view_i64(x, src));
    }
    return OPF_OK;
}

/* ---- inference ---- */

static bool cast_integer(opf_dims *dims, opf_type to, opf_dim x, opf_dim *result)
{
    bool is_number = opf_dim_is_number(x);
    if (opf_types_have(OPF_TYPES_FLOAT, to)) {
        bool is_exact = is_number && x.n > -((int64_t)1 << 53) && x.n < (int64_t)1 << 53;
        return is_exact && opf_value_of_float(to, (double)x.n, result) && result->n == x.n;
    }
    if (is_number)
        return opf_value_of_integer(to, x.n, result);
    *result = to == OPF_BOOL ? opf_dim_number(1) : x;
    /* A size fits 32 bits or more, whatever its symbols; narrower types might wrap. */
    return to == OPF_BOOL ? opf_dim_at_least(dims, x, 1) : opf_type_size(to) >= 4;
}

static bool cast_float(opf_type to, double x, opf_dim *result)
{
    if (opf_types_have(OPF_TYPES_FLOAT, to))
        return opf_value_of_float(to, x, result);
    return opf_value_of_integer(to, float_to_integer(to, x), result);
}

static opf_status infer_values(opf_infer *cast, opf_type to, opf_error *error)
{
    const opf_dim *values = NULL;
    double         numbers[OPF_MAX_KNOWN_VALUES];
    opf_dim        result[OPF_MAX_KNOWN_VALUES];
    int32_t        n;
    bool           from_float = opf_types_have(OPF_TYPES_FLOAT, cast->in[0]->type), any = false;
    if (from_float ? !opf_infer_floats(cast, 0, numbers, OPF_MAX_KNOWN_VALUES, &n) : !opf_infer_values(cast, 0, &values, &n))
        return OPF_OK;
    for (int32_t k = 0; k < n; k++) {
        bool is_known = from_float ? cast_float(to, numbers[k], &result[k]) : cast_integer(cast->dims, to, values[k], &result[k]);
        any           = any || is_known;
        if (!is_known)
            result[k] = opf_dim_unknown(cast->dims);
    }
    return any || n == 0 ? opf_infer_set_values(cast, 0, n, result, error) : OPF_OK;
}

static opf_status infer(opf_infer *cast, opf_error *error)
{
    int64_t to = opf_node_int(cast->node, "to", 0);
    OPF_FAIL_IF(error, to <= 0 || to >= OPF_TYPE_COUNT, OPF_INVALID_MODEL, "to is %lld, which is no type", (long long)to);
    OPF_FAIL_IF(error, !opf_types_have(OPF_TYPES_ALL, (opf_type)to), OPF_UNSUPPORTED, "casts to %s are not supported",
                opf_type_name((opf_type)to));
    cast->out[0].type = (opf_type)to;
    OPF_TRY(opf_infer_same(cast, 0, 0, error));
    return infer_values(cast, (opf_type)to, error);
}

/* ---- opsets ---- */

/* Before opset 6 the type was told by its name in TensorProto: "FLOAT", "INT64". */
static opf_status lift_name(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    (void)opset;
    const opf_node *node = opf_graph_node(graph, id);
    const opf_attr *to   = opf_node_attr(node, "to");
    if (to == NULL || to->type != OPF_ATTR_STRING)
        return OPF_OK;
    for (int type = 1; type < OPF_TYPE_COUNT; type++)
        if (strcasecmp(opf_type_name((opf_type)type), to->s) == 0) {
            OPF_OOM_IF(error, !opf_node_set_int(graph, id, "to", type));
            return OPF_OK;
        }
    return opf_fail(error, OPF_INVALID_MODEL, "%s (Cast): to is \"%s\", which is no type", node->name, to->s);
}

static opf_status lower_name(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    (void)opset;
    opf_type    to   = (opf_type)opf_node_int(opf_graph_node(graph, id), "to", 0);
    const char *text = opf_type_name(to);
    char       *name = opf_arena_copy_string(graph->arena, text, strlen(text));
    OPF_OOM_IF(error, name == NULL);
    for (char *c = name; *c != '\0'; c++)
        *c = *c >= 'a' && *c <= 'z' ? (char)(*c - 'a' + 'A') : *c;
    opf_attr attr = {.name = "to", .type = OPF_ATTR_STRING, .s = name, .n = (uint32_t)strlen(name)};
    OPF_OOM_IF(error, !opf_node_set_attr(graph, id, attr));
    return OPF_OK;
}

/* Both attributes speak of 8-bit floats only. */
static opf_status lower_saturate(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    (void)opset;
    (void)error;
    return opf_drop_attr(graph, id, "saturate");
}
static opf_status lower_round_mode(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    (void)opset;
    (void)error;
    return opf_drop_attr(graph, id, "round_mode");
}

static const opf_import_row rows[] = {
    {6, lift_name, lower_name},
    {19, opf_import_same, lower_saturate},
    {24, opf_import_same, lower_round_mode},
};

static const opf_attr_def attrs[] = {
    {.name = "to", .type = OPF_ATTR_INT, .required = true},
    {.name = "saturate", .type = OPF_ATTR_INT, .i = 1},
    {.name = "round_mode", .type = OPF_ATTR_STRING, .s = "up"},
};

const opf_op opf_op_Cast = {.name      = "Cast",
                            .domain    = "",
                            .since     = 1,
                            .traits    = OPF_ELEMENTWISE,
                            .inputs    = OPF_PARAMS({"input", 0, OPF_TYPES_ALL, 0}),
                            .n_inputs  = 1,
                            .outputs   = OPF_PARAMS({"output", 0, OPF_TYPES_ALL, 0}),
                            .n_outputs = 1,
                            .attrs     = attrs,
                            .n_attrs   = OPF_COUNT(attrs),
                            .rows      = rows,
                            .n_rows    = OPF_COUNT(rows),
                            .infer     = infer,
                            .reference = reference,
                            .notes     = "no strings, 8-bit or narrower floats, or 4-bit integers"};
