/* SPDX-License-Identifier: Apache-2.0 */
/* Constant, ConstantOfShape and Range make tensors out of attributes, a shape, or three numbers. */
#include "ops/call.h"
#include "ops/movement.h"

#include <math.h>
#include <string.h>

/* ---- Constant ---- */

/* The one attribute as a dense tensor: `dim` holds the length of a list. */
static opf_status get_constant(const opf_attr *attrs, uint32_t n_attrs, int64_t *dim, opf_const *constant,
                               opf_error *error)
{
    static const struct {
        const char   *name;
        opf_attr_type type;
        opf_type      element;
        int32_t       rank;
    } spellings[] = {{"value", OPF_ATTR_TENSOR, OPF_TYPE_NONE, 0},
                     {"value_float", OPF_ATTR_FLOAT, OPF_FLOAT, 0},
                     {"value_floats", OPF_ATTR_FLOATS, OPF_FLOAT, 1},
                     {"value_int", OPF_ATTR_INT, OPF_INT64, 0},
                     {"value_ints", OPF_ATTR_INTS, OPF_INT64, 1}};
    for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++) {
        const opf_attr *attr = opf_attrs_find(attrs, n_attrs, spellings[i].name);
        if (attr == NULL || attr->type != spellings[i].type)
            continue;
        if (attr->type == OPF_ATTR_TENSOR) {
            *constant = *attr->tensor;
            return OPF_OK;
        }
        *dim      = attr->n;
        *constant = (opf_const){.kind  = OPF_CONST_BYTES,
                                .type  = spellings[i].element,
                                .rank  = spellings[i].rank,
                                .dims  = dim,
                                .count = spellings[i].rank == 0 ? 1 : attr->n,
                                .data  = attr->type == OPF_ATTR_FLOAT    ? (const void *)&attr->f
                                         : attr->type == OPF_ATTR_FLOATS ? (const void *)attr->floats
                                         : attr->type == OPF_ATTR_INT    ? (const void *)&attr->i
                                                                         : (const void *)attr->ints};
        constant->bytes = constant->count * opf_type_size(constant->type);
        return OPF_OK;
    }
    OPF_FAIL_IF(error, n_attrs != 0, OPF_UNSUPPORTED, "attribute %s is not supported", attrs[0].name);
    return opf_fail(error, OPF_INVALID_MODEL, "the attribute with the value is missing");
}

static opf_status infer_constant(opf_infer *infer, opf_error *error)
{
    opf_const constant;
    opf_dim   dims[OPF_MAX_RANK], values[OPF_MAX_KNOWN_VALUES];
    int64_t   dim;
    OPF_TRY(get_constant(infer->node->attrs, infer->node->n_attrs, &dim, &constant, error));
    OPF_FAIL_IF(error, !opf_types_have(OPF_TYPES_ANY, constant.type), OPF_UNSUPPORTED, "type %s is not supported",
                opf_type_name(constant.type));
    for (int32_t i = 0; i < constant.rank; i++)
        dims[i] = opf_dim_number(constant.dims[i]);
    infer->out[0].type = constant.type;
    OPF_TRY(opf_infer_set(infer, 0, constant.rank, dims, error));
    if (!opf_types_have(OPF_TYPES_INT | OPF_TYPES_BOOL, constant.type) || constant.type == OPF_UINT64 ||
        constant.count > OPF_MAX_KNOWN_VALUES)
        return OPF_OK;
    for (size_t i = 0; i < constant.count; i++)
        values[i] = opf_dim_number(opf_const_i64_at(&constant, i));
    return opf_infer_set_values(infer, 0, (int32_t)constant.count, values, error);
}

static opf_status reference_constant(const opf_call *call, opf_error *error)
{
    opf_const constant;
    int64_t   dim;
    OPF_TRY(get_constant(call->attrs, call->n_attrs, &dim, &constant, error));
    if (opf_view_is_dense(&call->out[0])) {
        opf_const_write(&constant, call->out[0].data);
        return OPF_OK;
    }
    void *dense = opf_heap_alloc(call->heap, opf_const_size(&constant));
    OPF_OOM_IF(error, dense == NULL);
    opf_const_write(&constant, dense);
    opf_view in = call->out[0];
    in.data     = dense;
    opf_view_set_dense(&in);
    opf_move_in_order(&call->out[0], &in);
    opf_heap_free(call->heap, dense, opf_const_size(&constant));
    return OPF_OK;
}

/* Other spellings than a tensor came with opset 12. The loader makes constants of these nodes, so none is written back.
 */
static opf_status lower_constant_12(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    (void)opset;
    const opf_node *node = opf_graph_node(graph, id);
    OPF_FAIL_IF(error, opf_node_attr(node, "value") == NULL, OPF_UNSUPPORTED,
                "%s (%s): before opset 12 there was attribute value only", node->name, node->op_type);
    return OPF_OK;
}

const opf_op opf_op_Constant = {
    .name = "Constant",
    .domain = "",
    .since = 1,
    .outputs = (const opf_param[]){{"output", 0, OPF_TYPES_ANY, 0}},
    .n_outputs = 1,
    .attrs = (const opf_attr_def[]){{.name = "value", .type = OPF_ATTR_TENSOR},
                                    {.name = "value_float", .type = OPF_ATTR_FLOAT},
                                    {.name = "value_floats", .type = OPF_ATTR_FLOATS},
                                    {.name = "value_int", .type = OPF_ATTR_INT},
                                    {.name = "value_ints", .type = OPF_ATTR_INTS}},
    .n_attrs = 5,
    .rows =
        (const opf_import_row[]){{12, opf_import_same, lower_constant_12}, {25, opf_import_same, opf_lower_moved_type}},
    .n_rows = 2,
    .infer = infer_constant,
    .reference = reference_constant,
    .notes = "no strings, no sparse tensors",
};

/* ---- ConstantOfShape ---- */

static opf_status infer_constant_of_shape(opf_infer *infer, opf_error *error)
{
    const opf_attr *attr  = opf_node_attr(infer->node, "value");
    const opf_info *shape = infer->in[0];
    const opf_dim  *dims;
    opf_dim         values[OPF_MAX_KNOWN_VALUES];
    int32_t         n;
    size_t          count;
    OPF_FAIL_IF(error, attr != NULL && attr->tensor->count != 1, OPF_INVALID_MODEL, "value has %zu elements, must be 1",
                attr->tensor->count);
    opf_type type = attr == NULL ? OPF_FLOAT : attr->tensor->type;
    OPF_FAIL_IF(error, !opf_types_have(OPF_TYPES_ANY, type), OPF_UNSUPPORTED, "type %s is not supported",
                opf_type_name(type));
    infer->out[0].type = type;
    if (!opf_infer_values(infer, 0, &dims, &n)) {
        bool has_rank = shape->rank == 1 && opf_dim_is_number(shape->dims[0]) && shape->dims[0].n <= OPF_MAX_RANK;
        return has_rank ? opf_infer_unknown_dims(infer, 0, (int32_t)shape->dims[0].n, error) : OPF_OK;
    }
    OPF_TRY(opf_infer_set(infer, 0, n, dims, error));
    bool is_integer = opf_types_have(OPF_TYPES_INT | OPF_TYPES_BOOL, type) && type != OPF_UINT64;
    if (!is_integer || !opf_info_count(&infer->out[0], &count) || count > OPF_MAX_KNOWN_VALUES)
        return OPF_OK;
    for (size_t i = 0; i < count; i++)
        values[i] = opf_dim_number(opf_const_i64_at(attr->tensor, 0));
    return opf_infer_set_values(infer, 0, (int32_t)count, values, error);
}

static opf_status reference_constant_of_shape(const opf_call *call, opf_error *error)
{
    (void)error;
    const opf_attr *attr                  = opf_call_attr(call, "value");
    const opf_view *out                   = &call->out[0];
    unsigned char   element[16]           = {0};
    int64_t         strides[OPF_MAX_RANK] = {0};
    if (attr != NULL)
        opf_const_write(attr->tensor, element);
    opf_move_grid(opf_type_bits(out->type), (opf_grid){out->data, 0, out->strides}, (opf_grid){element, 0, strides},
                  out->rank, out->dims);
    return OPF_OK;
}

const opf_op opf_op_ConstantOfShape = {
    .name      = "ConstantOfShape",
    .domain    = "",
    .since     = 9,
    .traits    = OPF_MOVEMENT,
    .inputs    = (const opf_param[]){{"input", 0, OPF_TYPE_BIT(OPF_INT64), 0}},
    .n_inputs  = 1,
    .outputs   = (const opf_param[]){{"output", 0, OPF_TYPES_ANY, 0}},
    .n_outputs = 1,
    .attrs     = (const opf_attr_def[]){{.name = "value", .type = OPF_ATTR_TENSOR}},
    .n_attrs   = 1,
    .infer     = infer_constant_of_shape,
    .reference = reference_constant_of_shape,
};

/* ---- Range ---- */

#define RANGE_TYPES (OPF_TYPES_FLOAT | OPF_TYPE_BIT(OPF_INT16) | OPF_TYPE_BIT(OPF_INT32) | OPF_TYPE_BIT(OPF_INT64))

/* ceil((limit - start) / delta), at least 0; the difference fits uint64 though it may not fit int64. */
static uint64_t count_range(int64_t start, int64_t limit, int64_t delta)
{
    if (delta > 0)
        return limit > start ? ((uint64_t)limit - (uint64_t)start - 1) / (uint64_t)delta + 1 : 0;
    return start > limit ? ((uint64_t)start - (uint64_t)limit - 1) / (0 - (uint64_t)delta) + 1 : 0;
}

static opf_status infer_range_of_numbers(opf_infer *infer, const int64_t x[3], opf_error *error)
{
    opf_dim values[OPF_MAX_KNOWN_VALUES];
    OPF_FAIL_IF(error, x[2] == 0, OPF_INVALID_INPUT, "delta is 0");
    uint64_t n = count_range(x[0], x[1], x[2]);
    OPF_FAIL_IF(error, n > INT64_MAX, OPF_INVALID_INPUT, "%llu elements", (unsigned long long)n);
    opf_dim dims[1] = {opf_dim_number((int64_t)n)};
    OPF_TRY(opf_infer_set(infer, 0, 1, dims, error));
    if (n > OPF_MAX_KNOWN_VALUES)
        return OPF_OK;
    for (uint64_t i = 0; i < n; i++)
        values[i] = opf_dim_number((int64_t)((uint64_t)x[0] + i * (uint64_t)x[2]));
    return opf_infer_set_values(infer, 0, (int32_t)n, values, error);
}

static opf_status count_range_of_floats(const double x[3], int64_t *count, opf_error *error)
{
    double n = ceil((x[1] - x[0]) / x[2]);
    OPF_FAIL_IF(error, isnan(n) || n > 0x1p62, OPF_INVALID_INPUT, "a range from %g to %g by %g has no length", x[0],
                x[1], x[2]);
    *count = n > 0 ? (int64_t)n : 0;
    return OPF_OK;
}

static opf_status infer_range_of_floats(opf_infer *infer, opf_error *error)
{
    double  x[3];
    int64_t n;
    for (uint32_t i = 0; i < 3; i++) {
        if (infer->constants[i] == NULL || infer->constants[i]->count != 1)
            return opf_infer_unknown_dims(infer, 0, 1, error);
        x[i] = opf_const_f64_at(infer->constants[i], 0);
    }
    OPF_TRY(count_range_of_floats(x, &n, error));
    opf_dim dims[1] = {opf_dim_number(n)};
    return opf_infer_set(infer, 0, 1, dims, error);
}

/* Integers are known values by then: only floats come here. */
static opf_status resolve_range(const opf_call *call, opf_info *out, opf_arena *arena, opf_error *error)
{
    double  x[3];
    int64_t n;
    for (uint32_t i = 0; i < 3; i++)
        x[i] = opf_types_have(OPF_TYPES_FLOAT, call->in[i].type) ? opf_view_f64(&call->in[i], 0)
                                                                 : (double)opf_view_i64(&call->in[i], 0);
    OPF_TRY(count_range_of_floats(x, &n, error));
    return opf_resolve_set(&out[0], 1, &n, arena, error);
}

static opf_status infer_range(opf_infer *infer, opf_error *error)
{
    opf_dim x[3];
    int64_t numbers[3];
    bool    all_numbers = true;
    for (uint32_t i = 0; i < 3; i++) {
        const opf_dim *values;
        int32_t        n;
        if (!opf_infer_values(infer, i, &values, &n) || n != 1)
            return infer_range_of_floats(infer, error);
        x[i]        = values[0];
        numbers[i]  = values[0].n;
        all_numbers = all_numbers && opf_dim_is_number(values[0]);
    }
    if (all_numbers)
        return infer_range_of_numbers(infer, numbers, error);
    opf_dims *table = infer->dims;
    opf_dim   span  = opf_dim_sub(table, x[1], x[0]), length = opf_dim_unknown(table);
    if (opf_dim_is_number(x[2]) && x[2].n > 0 && opf_dim_at_least(table, span, 0))
        length = opf_dim_div(table, opf_dim_add(table, span, opf_dim_number(x[2].n - 1)), x[2]);
    else if (opf_dim_is(x[2], -1) && opf_dim_at_least(table, opf_dim_sub(table, x[0], x[1]), 0))
        length = opf_dim_sub(table, x[0], x[1]);
    return opf_infer_set(infer, 0, 1, &length, error);
}

static opf_status reference_range(const opf_call *call, opf_error *error)
{
    (void)error;
    const opf_view *start = &call->in[0], *delta = &call->in[2];
    opf_view       *out = &call->out[0];
    for (int64_t i = 0; i < out->dims[0]; i++)
        if (opf_types_have(OPF_TYPES_FLOAT, out->type))
            opf_view_put_f64(out, i * out->strides[0], opf_view_f64(start, 0) + (double)i * opf_view_f64(delta, 0));
        else
            opf_view_put_i64(
                out, i * out->strides[0],
                (int64_t)((uint64_t)opf_view_i64(start, 0) + (uint64_t)i * (uint64_t)opf_view_i64(delta, 0)));
    return OPF_OK;
}

static opf_status lower_range_27(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    (void)opset;
    const opf_node *node = opf_graph_node(graph, id);
    opf_type        type = opf_graph_value(graph, node->inputs[0])->info.type;
    OPF_FAIL_IF(error, type == OPF_FLOAT16 || type == OPF_BFLOAT16, OPF_UNSUPPORTED,
                "%s (%s): type %s came with opset 27", node->name, node->op_type, opf_type_name(type));
    return opf_drop_attr(graph, id, "stash_type");
}

/* stash_type asks for float where the type is a half: the reference computes in double, and rounds once. */
const opf_op opf_op_Range = {
    .name = "Range",
    .domain = "",
    .since = 11,
    .inputs = (const opf_param[]){{"start", 'T', RANGE_TYPES, 0},
                                  {"limit", 'T', RANGE_TYPES, 0},
                                  {"delta", 'T', RANGE_TYPES, 0}},
    .n_inputs = 3,
    .outputs = (const opf_param[]){{"output", 'T', RANGE_TYPES, 0}},
    .n_outputs = 1,
    .attrs = (const opf_attr_def[]){{.name = "stash_type", .type = OPF_ATTR_INT, .i = 1}},
    .n_attrs = 1,
    .rows = (const opf_import_row[]){{27, opf_import_same, lower_range_27}},
    .n_rows = 1,
    .infer = infer_range,
    .resolve = resolve_range,
    .reference = reference_range,
};
