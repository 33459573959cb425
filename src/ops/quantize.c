/* SPDX-License-Identifier: Apache-2.0 */
/*
 * QuantizeLinear and DequantizeLinear. Scale and zero point are one number, a vector along an axis, or a tensor with a
 * number for each block along the axis; both kernels see them as a view over the elements of x.
 */
#include "ops/quantize.h"

#include "base/narrow.h"
#include "ops/check.h"
#include "ops/elementwise.h"
#include "ops/lift.h"
#include "ops/movement.h"

#include <math.h>

enum { X = 0, SCALE, ZERO };

#define SHORT_INT                                                                                                      \
    (OPF_TYPE_BIT(OPF_UINT8) | OPF_TYPE_BIT(OPF_INT8) | OPF_TYPE_BIT(OPF_UINT16) | OPF_TYPE_BIT(OPF_INT16))
#define INT32      OPF_TYPE_BIT(OPF_INT32)
#define POWERS     OPF_TYPE_BIT(OPF_FLOAT8E8M0)
#define FLOATS     (OPF_TYPES_FLOAT & ~OPF_TYPE_BIT(OPF_DOUBLE))
#define NARROW     (OPF_TYPES_FLOAT6 | OPF_TYPE_BIT(OPF_FLOAT4E2M1)) /* always saturate */
#define QUANTIZED  (SHORT_INT | (OPF_TYPES_FLOAT8 & ~POWERS) | OPF_TYPES_FLOAT6 | OPF_TYPES_SUBBYTE)

/* ---- granularity ---- */

/* The axis counts only where the scale is more than one number; a vector has but one. */
static opf_status find_axis(const opf_attr *attrs, uint32_t n_attrs, int32_t rank, int32_t *axis, opf_error *error)
{
    *axis = 0;
    return rank <= 1 ? OPF_OK : opf_normalize_axis(opf_attrs_int(attrs, n_attrs, "axis", 1), rank, axis, error);
}

static bool is_one(const opf_info *info)
{
    return info->rank == 0 || (info->rank == 1 && opf_dim_is(info->dims[0], 1));
}

static opf_status check_blocks(const opf_infer *infer, int32_t axis, int64_t block, opf_error *error)
{
    const opf_info *x = infer->in[X], *scale = infer->in[SCALE];
    for (int32_t i = 0; i < x->rank; i++) {
        opf_dim wanted = x->dims[i];
        if (i == axis && opf_dim_is_number(wanted))
            wanted.n = wanted.n / block + (wanted.n % block != 0);
        if (opf_dims_clash(scale->dims[i], wanted))
            return opf_refuse_shapes(infer, X, SCALE, error, "the latter must have size %lld along axis %d",
                                     (long long)wanted.n, (int)i);
    }
    return OPF_OK;
}

static opf_status check_scale(const opf_infer *infer, opf_error *error)
{
    const opf_info *x = infer->in[X], *scale = infer->in[SCALE];
    const int64_t   block = opf_node_int(infer->node, "block_size", 0);
    int32_t         axis;
    OPF_FAIL_IF(error, block < 0, OPF_INVALID_MODEL, "block_size is %lld, must be at least 0", (long long)block);
    if (x->rank < 0 || scale->rank < 0 || is_one(scale))
        return OPF_OK;
    OPF_TRY(find_axis(infer->node->attrs, infer->node->n_attrs, x->rank, &axis, error));
    if (block > 0 && scale->rank == x->rank)
        return check_blocks(infer, axis, block, error);
    if (scale->rank != 1 || x->rank == 0)
        return opf_refuse_shapes(
            infer, X, SCALE, error,
            "the latter must be one number, a vector, or with block_size of the rank of the former");
    return opf_check_vector(infer, SCALE, x->dims[axis], X, error);
}

static opf_status check_zero(const opf_infer *infer, opf_error *error)
{
    const opf_info *scale = infer->in[SCALE], *zero = infer->in[ZERO];
    if (!opf_infer_has(infer, ZERO) || zero->rank < 0 || scale->rank < 0 || (is_one(zero) && is_one(scale)))
        return OPF_OK;
    bool fits = scale->rank == zero->rank;
    for (int32_t i = 0; fits && i < scale->rank; i++)
        fits = !opf_dims_clash(scale->dims[i], zero->dims[i]);
    return fits ? OPF_OK : opf_refuse_shapes(infer, SCALE, ZERO, error, "both must have the same shape");
}

/* A scale or zero point over the elements of x: its offset is that of `view` plus the block's part. */
typedef struct grain {
    opf_view view;
    int32_t  axis;
    int64_t  block, step; /* positions of the axis that share a number; from one number to the next */
} grain;

static opf_status open_grain(const opf_call *call, uint32_t input, grain *g, opf_error *error)
{
    const opf_view *x = &call->in[X], *s = &call->in[input];
    const int64_t   block = opf_call_int(call, "block_size", 0);
    *g                    = (grain){.view = *x, .block = 1};
    g->view.type          = s->type;
    g->view.data          = s->data;
    for (int32_t i = 0; i < x->rank; i++)
        g->view.strides[i] = 0;
    if (s->data == NULL || s->rank == 0 || (s->rank == 1 && s->dims[0] == 1))
        return OPF_OK;
    OPF_TRY(find_axis(call->attrs, call->n_attrs, x->rank, &g->axis, error));
    if (block > 0 && s->rank == x->rank) {
        for (int32_t i = 0; i < x->rank; i++)
            g->view.strides[i] = i == g->axis ? 0 : s->strides[i];
        g->block = block;
        g->step  = s->strides[g->axis];
    } else {
        g->step = s->strides[0];
    }
    return OPF_OK;
}

static int64_t grain_offset(const grain *g, const opf_walk *walk, int32_t view)
{
    return walk->offset[view] + walk->index[g->axis] / g->block * g->step;
}

/* ---- quantize ---- */

static opf_status infer_quantize(opf_infer *infer, opf_error *error)
{
    const int64_t to        = opf_node_int(infer->node, "output_dtype", 0),
                  precision = opf_node_int(infer->node, "precision", 0);
    opf_type *type          = &infer->out[0].type;
    OPF_FAIL_IF(error, to != 0 && (to < 0 || to >= OPF_TYPE_COUNT || !opf_types_have(QUANTIZED, (opf_type)to)),
                OPF_UNSUPPORTED, "output_dtype %lld is not supported", (long long)to);
    OPF_FAIL_IF(error,
                precision != 0 &&
                    (precision < 0 || precision >= OPF_TYPE_COUNT || !opf_types_have(FLOATS, (opf_type)precision)),
                OPF_UNSUPPORTED, "precision %lld is not supported, must be a float type", (long long)precision);
    if (!opf_infer_has(infer, ZERO))
        *type = to != 0 ? (opf_type)to : OPF_UINT8;
    else if (to != 0)
        OPF_FAIL_IF(error, *type != OPF_TYPE_NONE && *type != (opf_type)to, OPF_INVALID_MODEL,
                    "output_dtype is %s, but y_zero_point has type %s", opf_type_name((opf_type)to),
                    opf_type_name(*type));
    OPF_TRY(check_scale(infer, error));
    OPF_TRY(check_zero(infer, error));
    return opf_infer_same(infer, 0, X, error);
}

static double rounded_to(opf_type type, double x)
{
    uint64_t element = 0;
    opf_store_f64(type, &element, 0, x);
    return opf_load_f64(type, &element, 0);
}

void opf_view_put_quantized(opf_view *y, int64_t offset, double quotient, double zero, bool saturate)
{
    if (opf_types_have(OPF_TYPES_FLOAT8, y->type)) {
        const double x                     = zero == 0 ? quotient : quotient + zero;
        ((unsigned char *)y->data)[offset] = (unsigned char)opf_double_to_narrow(y->type, x, saturate);
        return;
    }
    if (opf_types_have(NARROW, y->type)) {
        opf_view_put_f64(y, offset, zero == 0 ? quotient : quotient + zero);
        return;
    }
    const bool   is_signed = opf_types_have(OPF_TYPES_ANY_SINT, y->type);
    const double high      = ldexp(1, (int)opf_type_bits(y->type) - (is_signed ? 1 : 0)) - 1,
                 low       = is_signed ? -high - 1 : 0;
    const double level     = isnan(quotient) ? zero : nearbyint(quotient) + zero;
    opf_view_put_i64(y, offset, (int64_t)(level < low ? low : level > high ? high : level));
}

double opf_view_number(const opf_view *view, int64_t offset)
{
    return opf_types_have(OPF_TYPES_ANY_FLOAT, view->type) ? opf_view_f64(view, offset)
                                                           : (double)opf_view_i64(view, offset);
}

static opf_status run_quantize(const opf_call *call, opf_error *error)
{
    const opf_view *x        = &call->in[X];
    opf_view       *y        = &call->out[0];
    const bool      has_zero = call->n_in > ZERO && call->in[ZERO].data != NULL;
    const bool      saturate = opf_call_int(call, "saturate", 1) != 0;
    opf_type        division = (opf_type)opf_call_int(call, "precision", 0);
    grain           scale, zero = {.view = {.rank = x->rank}, .block = 1};
    opf_walk        walk;
    if (division == OPF_TYPE_NONE)
        division = opf_types_have(OPF_TYPES_FLOAT, call->in[SCALE].type) ? call->in[SCALE].type : OPF_FLOAT;
    OPF_TRY(open_grain(call, SCALE, &scale, error));
    if (has_zero)
        OPF_TRY(open_grain(call, ZERO, &zero, error));
    const opf_view *views[] = {x, &scale.view, &zero.view, y};
    for (opf_walk_init(&walk, x->rank, x->dims, 4, views); walk.left > 0; opf_walk_next(&walk)) {
        const double divisor = opf_view_number(&scale.view, grain_offset(&scale, &walk, 1));
        /* Rounded to the type of the division first, as other implementations divide: ties depend on it. */
        const double quotient = rounded_to(division, opf_view_number(x, walk.offset[0]) / divisor);
        const double origin   = has_zero ? opf_view_number(&zero.view, grain_offset(&zero, &walk, 2)) : 0;
        opf_view_put_quantized(y, walk.offset[3], quotient, origin, saturate);
    }
    return OPF_OK;
}

/* ---- dequantize ---- */

static opf_status infer_dequantize(opf_infer *infer, opf_error *error)
{
    const int64_t  to    = opf_node_int(infer->node, "output_dtype", 0);
    const opf_type scale = infer->in[SCALE]->type;
    OPF_FAIL_IF(error, to != 0 && (to < 0 || to >= OPF_TYPE_COUNT || !opf_types_have(FLOATS, (opf_type)to)),
                OPF_UNSUPPORTED, "output_dtype %lld is not supported, must be a float type", (long long)to);
    infer->out[0].type = to != 0 ? (opf_type)to : scale == OPF_FLOAT8E8M0 ? OPF_FLOAT : scale;
    OPF_TRY(check_scale(infer, error));
    OPF_TRY(check_zero(infer, error));
    return opf_infer_same(infer, 0, X, error);
}

static opf_status run_dequantize(const opf_call *call, opf_error *error)
{
    const opf_view *x        = &call->in[X];
    opf_view       *y        = &call->out[0];
    const bool      has_zero = call->n_in > ZERO && call->in[ZERO].data != NULL;
    grain           scale, zero = {.view = {.rank = x->rank}, .block = 1};
    opf_walk        walk;
    OPF_TRY(open_grain(call, SCALE, &scale, error));
    if (has_zero)
        OPF_TRY(open_grain(call, ZERO, &zero, error));
    const opf_view *views[] = {x, &scale.view, &zero.view, y};
    for (opf_walk_init(&walk, x->rank, x->dims, 4, views); walk.left > 0; opf_walk_next(&walk)) {
        const double level  = opf_view_number(x, walk.offset[0]);
        const double origin = has_zero ? opf_view_number(&zero.view, grain_offset(&zero, &walk, 2)) : 0;
        opf_view_put_f64(y, walk.offset[3],
                         (level - origin) * opf_view_number(&scale.view, grain_offset(&scale, &walk, 1)));
    }
    return OPF_OK;
}

/* ---- older opsets ---- */

/* Before opset 13 a scale was one number, and types have come ever since. */
static opf_status lower_granularity(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    const opf_node *node = opf_graph_node(graph, id);
    if (opset < 13) {
        OPF_FAIL_IF(error, !is_one(&opf_graph_value(graph, node->inputs[SCALE])->info), OPF_UNSUPPORTED,
                    "%s (%s): a scale of several numbers came with opset 13", node->name, node->op_type);
        OPF_TRY(opf_drop_attr(graph, id, "axis"));
    }
    return opset < 21 ? opf_lower_attr(graph, id, "block_size", 0, error) : OPF_OK;
}

static int32_t first_opset_of(opf_type type)
{
    if (opf_types_have(OPF_TYPE_BIT(OPF_INT16) | OPF_TYPE_BIT(OPF_UINT16), type))
        return 21;
    return opf_types_have(OPF_TYPE_BIT(OPF_FLOAT16) | OPF_TYPE_BIT(OPF_BFLOAT16), type) ? 19 : opf_first_opset_of(type);
}

static opf_status lower_types(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    const opf_node *node = opf_graph_node(graph, id);
    for (uint32_t i = 0; i <= node->n_own_inputs; i++) {
        const opf_value_id value = i < node->n_own_inputs ? node->inputs[i] : node->outputs[0];
        const opf_type     type  = opf_graph_value(graph, value)->info.type;
        OPF_FAIL_IF(error, value != 0 && opset < first_opset_of(type), OPF_UNSUPPORTED,
                    "%s (%s): type %s came with opset %d", node->name, node->op_type, opf_type_name(type),
                    (int)first_opset_of(type));
    }
    return lower_granularity(graph, id, opset, error);
}

/* An output type that older opsets conclude from the inputs goes; another one has no older form. */
static opf_status lower_output_type(opf_graph *graph, opf_node_id id, opf_type concluded, opf_error *error)
{
    const opf_node *node = opf_graph_node(graph, id);
    const opf_type  to   = (opf_type)opf_node_int(node, "output_dtype", 0);
    OPF_FAIL_IF(error, to != OPF_TYPE_NONE && to != concluded, OPF_UNSUPPORTED,
                "%s (%s): output_dtype %s has no older form", node->name, node->op_type, opf_type_name(to));
    return opf_drop_attr(graph, id, "output_dtype");
}

static opf_status lower_quantize(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    const opf_node *node  = opf_graph_node(graph, id);
    const bool      has_z = node->n_own_inputs > ZERO && node->inputs[ZERO] != 0;
    OPF_TRY(lower_types(graph, id, opset, error));
    if (opset < 23) {
        const opf_type x = opf_graph_value(graph, node->inputs[X])->info.type;
        const opf_type s = opf_graph_value(graph, node->inputs[SCALE])->info.type;
        OPF_FAIL_IF(error, opset >= 19 ? x != s : s != OPF_FLOAT, OPF_UNSUPPORTED,
                    "%s (%s): x of type %s with a scale of type %s came with opset 23", node->name, node->op_type,
                    opf_type_name(x), opf_type_name(s));
        OPF_TRY(opf_lower_attr(graph, id, "precision", opset >= 19 ? (int64_t)s : OPF_FLOAT, error));
    }
    if (opset < 21)
        OPF_TRY(lower_output_type(graph, id, has_z ? opf_graph_value(graph, node->inputs[ZERO])->info.type : OPF_UINT8,
                                  error));
    return opset < 19 ? opf_drop_attr(graph, id, "saturate") : OPF_OK;
}

static opf_status lower_dequantize(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    OPF_TRY(lower_types(graph, id, opset, error));
    const opf_type scale = opf_graph_value(graph, opf_graph_node(graph, id)->inputs[SCALE])->info.type;
    return opset < 23 ? lower_output_type(graph, id, scale, error) : OPF_OK;
}

#define EVERY_ROW(lower)                                                                                               \
    {                                                                                                                  \
        {13, opf_import_same, lower}, {19, opf_import_same, lower}, {21, opf_import_same, lower},                      \
            {23, opf_import_same, lower}, {24, opf_import_same, lower}, {25, opf_import_same, lower},                  \
        {                                                                                                              \
            28, opf_import_same, lower                                                                                 \
        }                                                                                                              \
    }
static const opf_import_row quantize_rows[]   = EVERY_ROW(lower_quantize);
static const opf_import_row dequantize_rows[] = EVERY_ROW(lower_dequantize);

/* ---- signatures ---- */

static const opf_attr_def quantize_attrs[]   = {{.name = "axis", .type = OPF_ATTR_INT, .i = 1},
                                                {.name = "block_size", .type = OPF_ATTR_INT},
                                                {.name = "output_dtype", .type = OPF_ATTR_INT},
                                                {.name = "precision", .type = OPF_ATTR_INT},
                                                {.name = "saturate", .type = OPF_ATTR_INT, .i = 1}};
static const opf_attr_def dequantize_attrs[] = {{.name = "axis", .type = OPF_ATTR_INT, .i = 1},
                                                {.name = "block_size", .type = OPF_ATTR_INT},
                                                {.name = "output_dtype", .type = OPF_ATTR_INT}};

const opf_op opf_op_QuantizeLinear = {.name      = "QuantizeLinear",
                                      .domain    = "",
                                      .since     = 10,
                                      .inputs    = OPF_PARAMS({"x", 0, FLOATS | INT32, 0},
                                                              {"y_scale", 0, FLOATS | INT32 | POWERS, 0},
                                                              {"y_zero_point", 'Q', QUANTIZED, OPF_OPTIONAL}),
                                      .n_inputs  = 3,
                                      .outputs   = OPF_PARAMS({"y", 'Q', QUANTIZED, 0}),
                                      .n_outputs = 1,
                                      .attrs     = quantize_attrs,
                                      .n_attrs   = OPF_COUNT(quantize_attrs),
                                      .rows      = quantize_rows,
                                      .n_rows    = OPF_COUNT(quantize_rows),
                                      .infer     = infer_quantize,
                                      .reference = run_quantize};

const opf_op opf_op_DequantizeLinear = {.name      = "DequantizeLinear",
                                        .domain    = "",
                                        .since     = 10,
                                        .inputs    = OPF_PARAMS({"x", 'Q', QUANTIZED | INT32, 0},
                                                                {"x_scale", 0, FLOATS | POWERS, 0},
                                                                {"x_zero_point", 'Q', QUANTIZED | INT32, OPF_OPTIONAL}),
                                        .n_inputs  = 3,
                                        .outputs   = OPF_PARAMS({"y", 0, FLOATS, 0}),
                                        .n_outputs = 1,
                                        .attrs     = dequantize_attrs,
                                        .n_attrs   = OPF_COUNT(dequantize_attrs),
                                        .rows      = dequantize_rows,
                                        .n_rows    = OPF_COUNT(dequantize_rows),
                                        .infer     = infer_dequantize,
                                        .reference = run_dequantize};
