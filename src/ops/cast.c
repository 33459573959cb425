/* SPDX-License-Identifier: Apache-2.0 */
/* Cast and CastLike between numbers and booleans. Every case is defined: floats to integers truncate, and what does not
   fit gives what x86-64 gives, as docs/decisions.md tells. */
#include "base/narrow.h"
#include "ops/elementwise.h"
#include "ops/import.h"
#include "ops/movement.h"

#include <string.h>

#define NARROW     (OPF_TYPES_FLOAT8 | OPF_TYPES_FLOAT6 | OPF_TYPES_SUBBYTE)
#define CAST_TYPES (OPF_TYPES_ALL | NARROW)
#define LIKE_TYPES (CAST_TYPES & ~OPF_TYPES_FLOAT6)

/* ---- one element ---- */

/* How floats of 8 bits are reached. */
typedef struct rounding {
    bool            saturate;
    opf_power_round power;
} rounding;

static opf_status read_rounding(const opf_attr *attrs, uint32_t n_attrs, rounding *how, opf_error *error)
{
    /* In the order of opf_power_round. */
    static const char *const names[] = {"up", "down", "nearest"};
    const opf_attr          *mode    = opf_attrs_find(attrs, n_attrs, "round_mode");
    how->saturate                    = opf_attrs_int(attrs, n_attrs, "saturate", 1) != 0;
    how->power                       = OPF_POWER_UP;
    if (mode == NULL)
        return OPF_OK;
    for (unsigned i = 0; mode->type == OPF_ATTR_STRING && i < OPF_COUNT(names); i++)
        if (strcmp(mode->s, names[i]) == 0) {
            how->power = (opf_power_round)i;
            return OPF_OK;
        }
    return opf_fail(error, OPF_INVALID_MODEL, "round_mode is \"%s\", must be up, down or nearest",
                    mode->type == OPF_ATTR_STRING ? mode->s : "no string");
}

static void store_float(const rounding *how, opf_view *y, int64_t offset, double x)
{
    if (y->type == OPF_FLOAT8E8M0)
        ((unsigned char *)y->data)[offset] = (unsigned char)opf_double_to_power(x, how->power, how->saturate);
    else if (opf_types_have(OPF_TYPES_FLOAT8, y->type))
        ((unsigned char *)y->data)[offset] = (unsigned char)opf_double_to_narrow(y->type, x, how->saturate);
    else
        opf_view_put_f64(y, offset, x);
}

/* Rounded once: a 64-bit integer does not fit a double, so float is reached directly and the narrower formats through a
   double whose last bit stands for all that were cut off. */
static void store_integer_as_float(const rounding *how, opf_view *y, int64_t offset, int64_t n, bool is_unsigned)
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
        store_float(how, y, offset, is_negative ? -(double)magnitude : (double)magnitude);
    }
}

static opf_status reference(const opf_call *call, opf_error *error)
{
    const opf_view *x = &call->in[0];
    opf_view       *y = &call->out[0];
    const bool      from_float = opf_types_have(OPF_TYPES_ANY_FLOAT, x->type);
    const bool      to_float   = opf_types_have(OPF_TYPES_ANY_FLOAT, y->type);
    rounding        how;
    opf_walk        walk;
    OPF_TRY(read_rounding(call->attrs, call->n_attrs, &how, error));
    if (x->type == y->type) {
        opf_move_grid(opf_type_bits(x->type), (opf_grid){y->data, 0, y->strides},
                      (opf_grid){x->data, 0, x->strides}, x->rank, x->dims);
        return OPF_OK;
    }
    for (opf_walk_init(&walk, y->rank, y->dims, 2, (const opf_view *const[]){x, y}); walk.left != 0; opf_walk_next(&walk)) {
        int64_t src = walk.offset[0], dst = walk.offset[1];
        if (from_float && to_float)
            store_float(&how, y, dst, opf_view_f64(x, src));
        else if (from_float)
            opf_view_put_i64(y, dst, opf_cast_to_integer(y->type, opf_view_f64(x, src)));
        else if (to_float)
            store_integer_as_float(&how, y, dst, opf_view_i64(x, src), x->type == OPF_UINT64);
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
    return opf_value_of_integer(to, opf_cast_to_integer(to, x), result);
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

static opf_status infer_to(opf_infer *cast, opf_type to, opf_error *error)
{
    rounding how;
    OPF_TRY(read_rounding(cast->node->attrs, cast->node->n_attrs, &how, error));
    cast->out[0].type = to;
    OPF_TRY(opf_infer_same(cast, 0, 0, error));
    const bool is_narrow = opf_types_have(NARROW, to) || opf_types_have(NARROW, cast->in[0]->type);
    return is_narrow ? OPF_OK : infer_values(cast, to, error);
}

static opf_status infer_cast(opf_infer *cast, opf_error *error)
{
    int64_t to = opf_node_int(cast->node, "to", 0);
    OPF_FAIL_IF(error, to <= 0 || to >= OPF_TYPE_COUNT, OPF_INVALID_MODEL, "to is %lld, which is no type", (long long)to);
    OPF_FAIL_IF(error, !opf_types_have(CAST_TYPES, (opf_type)to), OPF_UNSUPPORTED, "casts to %s are not supported",
                opf_type_name((opf_type)to));
    return infer_to(cast, (opf_type)to, error);
}

static opf_status infer_cast_like(opf_infer *cast, opf_error *error)
{
    const opf_type to = cast->in[1]->type;
    return to == OPF_TYPE_NONE ? opf_infer_same(cast, 0, 0, error) : infer_to(cast, to, error);
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

/* The older opset must know both types; then what it lacks of the attributes speaks of newer types only. */
static opf_status lower_types(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    const opf_node *node = opf_graph_node(graph, id);
    const opf_type  to   = opf_graph_value(graph, node->outputs[0])->info.type;
    OPF_FAIL_IF(error, opset < opf_first_opset_of(to), OPF_UNSUPPORTED, "%s (%s): type %s came with opset %d", node->name,
                node->op_type, opf_type_name(to), (int)opf_first_opset_of(to));
    OPF_TRY(opf_lower_moved_type(graph, id, opset, error));
    if (opset < 19)
        OPF_TRY(opf_drop_attr(graph, id, "saturate"));
    return opset < 24 ? opf_drop_attr(graph, id, "round_mode") : OPF_OK;
}

/* Whatever the opset, a Cast does the same once the type is known, and passes that know Cast see it. */
static opf_status lift_to_cast(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    opf_node      *node = opf_graph_node(graph, id);
    const opf_type to   = node->n_own_inputs == 2 ? opf_graph_value(graph, node->inputs[1])->info.type : OPF_TYPE_NONE;
    (void)opset;
    if (to == OPF_TYPE_NONE || node->n_inputs != 2)
        return OPF_OK;
    OPF_OOM_IF(error, !opf_graph_set_input(graph, id, 1, 0) || !opf_node_set_int(graph, id, "to", to));
    node           = opf_graph_node(graph, id);
    node->n_inputs = node->n_own_inputs = 1;
    node->op       = &opf_op_Cast;
    node->op_type  = opf_op_Cast.name;
    return OPF_OK;
}

static const opf_import_row rows[] = {
    {6, lift_name, lower_name},
    {13, opf_import_same, lower_types},
    {19, opf_import_same, lower_types},
    {21, opf_import_same, lower_types},
    {23, opf_import_same, lower_types},
    {24, opf_import_same, lower_types},
    {25, opf_import_same, lower_types},
    {28, opf_import_same, lower_types},
};

static const opf_import_row like_rows[] = {
    {19, opf_import_same, lower_types},
    {21, opf_import_same, lower_types},
    {23, opf_import_same, lower_types},
    {24, opf_import_same, lower_types},
    {25, opf_import_same, lower_types},
    {INT32_MAX, lift_to_cast, opf_import_same},
};

static const opf_attr_def attrs[] = {
    {.name = "saturate", .type = OPF_ATTR_INT, .i = 1},
    {.name = "round_mode", .type = OPF_ATTR_STRING, .s = "up"},
    {.name = "to", .type = OPF_ATTR_INT, .required = true},
};
enum { LIKE_ATTRS = OPF_COUNT(attrs) - 1 }; /* all but the last */

const opf_op opf_op_Cast = {.name      = "Cast",
                            .domain    = "",
                            .since     = 1,
                            .traits    = OPF_ELEMENTWISE,
                            .inputs    = OPF_PARAMS({"input", 0, CAST_TYPES, 0}),
                            .n_inputs  = 1,
                            .outputs   = OPF_PARAMS({"output", 0, CAST_TYPES, 0}),
                            .n_outputs = 1,
                            .attrs     = attrs,
                            .n_attrs   = OPF_COUNT(attrs),
                            .rows      = rows,
                            .n_rows    = OPF_COUNT(rows),
                            .infer     = infer_cast,
                            .reference = reference,
                            .notes     = "no strings"};

/* Not elementwise: the shape of input 1 plays no part. */
const opf_op opf_op_CastLike = {.name      = "CastLike",
                                .domain    = "",
                                .since     = 15,
                                .inputs    = OPF_PARAMS({"input", 0, LIKE_TYPES, 0},
                                                        {"target_type", 'T', LIKE_TYPES, 0}),
                                .n_inputs  = 2,
                                .outputs   = OPF_PARAMS({"output", 'T', LIKE_TYPES, 0}),
                                .n_outputs = 1,
                                .attrs     = attrs,
                                .n_attrs   = LIKE_ATTRS,
                                .rows      = like_rows,
                                .n_rows    = OPF_COUNT(like_rows),
                                .infer     = infer_cast_like,
                                .reference = reference,
                                .notes     = "no strings"};
