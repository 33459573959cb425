/* SPDX-License-Identifier: Apache-2.0 */
/* IsInf and IsNaN: what kind of number a float is. */
#include "ops/elementwise.h"
#include "ops/lift.h"

#include <math.h>

#define FLOAT8                                                                                                         \
    (OPF_TYPE_BIT(OPF_FLOAT8E4M3FN) | OPF_TYPE_BIT(OPF_FLOAT8E4M3FNUZ) | OPF_TYPE_BIT(OPF_FLOAT8E5M2) |                \
     OPF_TYPE_BIT(OPF_FLOAT8E5M2FNUZ))
#define CLASSIFIED (OPF_TYPES_FLOAT | FLOAT8)

/* The element as a double; of the 8-bit floats only the class and the sign matter, which their bits tell. */
static double load(const opf_view *x, int64_t offset)
{
    if (!opf_types_have(FLOAT8, x->type))
        return opf_view_f64(x, offset);
    const unsigned bits = ((const unsigned char *)x->data)[offset], magnitude = bits & 0x7f;
    bool           is_nan = bits == 0x80, is_inf = false;
    if (x->type == OPF_FLOAT8E4M3FN)
        is_nan = magnitude == 0x7f;
    if (x->type == OPF_FLOAT8E5M2) {
        is_inf = magnitude == 0x7c;
        is_nan = magnitude > 0x7c;
    }
    double value = is_nan ? (double)NAN : is_inf ? (double)INFINITY : 1;
    return (bits & 0x80) != 0 ? -value : value;
}

static opf_status classify(const opf_call *call, bool (*is)(const opf_call *call, double x))
{
    const opf_view *x       = &call->in[0];
    opf_view       *y       = &call->out[0];
    const opf_view *views[] = {x, y};
    opf_walk        walk;
    for (opf_walk_init(&walk, y->rank, y->dims, 2, views); walk.left > 0; opf_walk_next(&walk))
        opf_view_put_i64(y, walk.offset[1], is(call, load(x, walk.offset[0])));
    return OPF_OK;
}

static bool is_nan(const opf_call *call, double x)
{
    (void)call;
    return isnan(x);
}

static bool is_inf(const opf_call *call, double x)
{
    return isinf(x) && opf_call_int(call, x > 0 ? "detect_positive" : "detect_negative", 1) != 0;
}

static opf_status reference_is_nan(const opf_call *call, opf_error *error)
{
    (void)error;
    return classify(call, is_nan);
}

static opf_status reference_is_inf(const opf_call *call, opf_error *error)
{
    (void)error;
    return classify(call, is_inf);
}

/* ---- older opsets ---- */

static opf_status lower_inf_20(opf_graph *graph, opf_node_id node, int32_t opset, opf_error *error)
{
    return opf_lower_no_types(graph, node, FLOAT8 | OPF_TYPE_BIT(OPF_FLOAT16) | OPF_TYPE_BIT(OPF_BFLOAT16), opset, error);
}

static opf_status lower_nan_20(opf_graph *graph, opf_node_id node, int32_t opset, opf_error *error)
{
    return opf_lower_no_types(graph, node, FLOAT8, opset, error);
}

static const opf_import_row inf_rows[] = {{20, opf_import_same, lower_inf_20}};
static const opf_import_row nan_rows[] = {{13, opf_import_same, opf_lower_no_bfloat16},
                                          {20, opf_import_same, lower_nan_20}};

/* ---- signatures ---- */

static const opf_param    inputs[]    = {{"X", 'T', CLASSIFIED, 0}};
static const opf_param    outputs[]   = {{"Y", 0, OPF_TYPES_BOOL, 0}};
static const opf_attr_def inf_attrs[] = {{.name = "detect_negative", .type = OPF_ATTR_INT, .i = 1},
                                         {.name = "detect_positive", .type = OPF_ATTR_INT, .i = 1}};

const opf_op opf_op_IsInf = {.name      = "IsInf",
                             .domain    = "",
                             .since     = 10,
                             .traits    = OPF_ELEMENTWISE,
                             .inputs    = inputs,
                             .n_inputs  = OPF_COUNT(inputs),
                             .outputs   = outputs,
                             .n_outputs = OPF_COUNT(outputs),
                             .attrs     = inf_attrs,
                             .n_attrs   = OPF_COUNT(inf_attrs),
                             .rows      = inf_rows,
                             .n_rows    = OPF_COUNT(inf_rows),
                             .infer     = opf_infer_shape_only,
                             .reference = reference_is_inf};

const opf_op opf_op_IsNaN = {.name      = "IsNaN",
                             .domain    = "",
                             .since     = 9,
                             .traits    = OPF_ELEMENTWISE,
                             .inputs    = inputs,
                             .n_inputs  = OPF_COUNT(inputs),
                             .outputs   = outputs,
                             .n_outputs = OPF_COUNT(outputs),
                             .rows      = nan_rows,
                             .n_rows    = OPF_COUNT(nan_rows),
                             .infer     = opf_infer_shape_only,
                             .reference = reference_is_nan};
