/* SPDX-License-Identifier: Apache-2.0 */
/* Activations of one input: in double, rounded once. Written so that large arguments do not overflow on the way. */
#include "ops/elementwise.h"
#include "ops/lift.h"

#include <math.h>
#include <string.h>

#define ALPHA 0.01f /* of LeakyRelu */

static double attr(const opf_call *call, const char *name, float otherwise)
{
    return (double)opf_call_float(call, name, otherwise);
}

static double sigmoid(double x)
{
    double e = exp(-fabs(x));
    return x >= 0 ? 1 / (1 + e) : isnan(x) ? x : e / (1 + e);
}
static double softplus(double x)
{
    return isnan(x) ? x : log1p(exp(-fabs(x))) + fmax(x, 0);
}
static double clamp01(double x)
{
    return x < 0 ? 0 : x > 1 ? 1 : x;
}
static double gelu(double x, bool is_tanh)
{
    if (is_tanh)
        return 0.5 * x * (1 + tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x))); /* sqrt(2/pi) */
    return 0.5 * x * (1 + erf(x * 0.70710678118654752440));
}

#define ACTIVATION(name, expression)                                                                                   \
    static double name##_f(const opf_call *call, double x)                                                             \
    {                                                                                                                  \
        (void)call;                                                                                                    \
        return expression;                                                                                             \
    }                                                                                                                  \
    static opf_status reference_##name(const opf_call *call, opf_error *error)                                         \
    {                                                                                                                  \
        (void)error;                                                                                                   \
        return opf_reference_unary(call, name##_f);                                                                    \
    }

ACTIVATION(elu, x < 0 ? attr(call, "alpha", 1) * expm1(x) : x)
ACTIVATION(selu, attr(call, "gamma", 1.05070102214813232421875f) *
                     (x > 0 ? x : attr(call, "alpha", 1.67326319217681884765625f) * expm1(x)))
ACTIVATION(celu, x < 0 ? attr(call, "alpha", 1) * expm1(x / attr(call, "alpha", 1)) : x)
ACTIVATION(leaky_relu, x < 0 ? attr(call, "alpha", ALPHA) * x : x)
ACTIVATION(thresholded_relu, x > attr(call, "alpha", 1) ? x : 0)
ACTIVATION(sigmoid, sigmoid(x))
ACTIVATION(tanh, tanh(x))
ACTIVATION(softplus, softplus(x))
ACTIVATION(softsign, x / (1 + fabs(x)))
ACTIVATION(hard_sigmoid, clamp01(attr(call, "alpha", 0.2f) * x + attr(call, "beta", 0.5f)))
ACTIVATION(hard_swish, x *clamp01(x / 6 + 0.5))
ACTIVATION(mish, x *tanh(softplus(x)))
ACTIVATION(gelu, gelu(x, strcmp(opf_call_string(call, "approximate", "none"), "tanh") == 0))
ACTIVATION(swish, x *sigmoid(attr(call, "alpha", 1) * x))

static double relu_f(const opf_call *call, double x)
{
    (void)call;
    return x < 0 ? 0 : x;
}
static int64_t relu_i(int64_t x)
{
    return x < 0 ? 0 : x;
}
static opf_status reference_relu(const opf_call *call, opf_error *error)
{
    (void)error;
    if (opf_types_have(OPF_TYPES_FLOAT, call->in[0].type))
        return opf_reference_unary(call, relu_f);
    opf_reference_unary_int(call, relu_i);
    return OPF_OK;
}

static opf_status infer_gelu(opf_infer *infer, opf_error *error)
{
    const char *approximate = opf_node_string(infer->node, "approximate", "none");
    OPF_FAIL_IF(error, strcmp(approximate, "none") != 0 && strcmp(approximate, "tanh") != 0, OPF_INVALID_MODEL,
                "approximate is \"%s\", must be \"none\" or \"tanh\"", approximate);
    return opf_infer_shape_only(infer, error);
}

static const opf_attr_def leaky_attrs[]        = {{.name = "alpha", .type = OPF_ATTR_FLOAT, .f = ALPHA}};
static const opf_attr_def alpha_attrs[]        = {{.name = "alpha", .type = OPF_ATTR_FLOAT, .f = 1}};
static const opf_attr_def gelu_attrs[]         = {{.name = "approximate", .type = OPF_ATTR_STRING, .s = "none"}};
static const opf_attr_def hard_sigmoid_attrs[] = {{.name = "alpha", .type = OPF_ATTR_FLOAT, .f = 0.2f},
                                                  {.name = "beta", .type = OPF_ATTR_FLOAT, .f = 0.5f}};
static const opf_attr_def selu_attrs[]         = {{.name = "alpha", .type = OPF_ATTR_FLOAT, .f = 1.67326319217681884765625f},
                                                  {.name = "gamma", .type = OPF_ATTR_FLOAT, .f = 1.05070102214813232421875f}};

#define DEFINE(op, version, name) OPF_DEFINE_UNARY(op, version, OPF_TYPES_FLOAT, opf_infer_shape_only, reference_##name)
#define DEFINE_ATTRS(op, version, name, attrs, infer_fn)                                                               \
    OPF_DEFINE_UNARY_ATTRS(op, version, OPF_TYPES_FLOAT, infer_fn, reference_##name, attrs, OPF_COUNT(attrs))

OPF_DEFINE_UNARY(Relu, 1, OPF_TYPES_FLOAT | OPF_TYPES_SINT, opf_infer_shape_only, reference_relu);
DEFINE(Sigmoid, 1, sigmoid);
DEFINE(Tanh, 1, tanh);
DEFINE(Softplus, 1, softplus);
DEFINE(Softsign, 1, softsign);
DEFINE(HardSwish, 14, hard_swish);
DEFINE(Mish, 18, mish);
DEFINE_ATTRS(Elu, 1, elu, alpha_attrs, opf_infer_shape_only);
DEFINE_ATTRS(LeakyRelu, 1, leaky_relu, leaky_attrs, opf_infer_shape_only);
DEFINE_ATTRS(ThresholdedRelu, 10, thresholded_relu, alpha_attrs, opf_infer_shape_only);
DEFINE_ATTRS(HardSigmoid, 1, hard_sigmoid, hard_sigmoid_attrs, opf_infer_shape_only);
DEFINE_ATTRS(Gelu, 20, gelu, gelu_attrs, infer_gelu);
DEFINE_ATTRS(Swish, 24, swish, alpha_attrs, opf_infer_shape_only);

/* Before opset 6 the constants of Selu that were not given had three or four digits. */
static opf_status set_absent(opf_graph *graph, opf_node_id id, const char *name, float otherwise, opf_error *error)
{
    OPF_OOM_IF(error, opf_node_attr(opf_graph_node(graph, id), name) == NULL && !opf_node_set_float(graph, id, name, otherwise));
    return OPF_OK;
}

static opf_status lift_selu(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    (void)opset;
    OPF_TRY(set_absent(graph, id, "alpha", 1.6732F, error));
    return set_absent(graph, id, "gamma", 1.0507F, error);
}

static opf_status lower_selu(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    (void)opset;
    OPF_TRY(set_absent(graph, id, "alpha", selu_attrs[0].f, error));
    return set_absent(graph, id, "gamma", selu_attrs[1].f, error);
}

static const opf_import_row selu_rows[] = {{6, lift_selu, lower_selu}};

const opf_op opf_op_Selu = {.name      = "Selu",
                            .domain    = "",
                            .since     = 1,
                            .traits    = OPF_ELEMENTWISE,
                            .inputs    = OPF_PARAMS({"X", 'T', OPF_TYPES_FLOAT, 0}),
                            .n_inputs  = 1,
                            .outputs   = OPF_PARAMS({"Y", 'T', OPF_TYPES_FLOAT, 0}),
                            .n_outputs = 1,
                            .attrs     = selu_attrs,
                            .n_attrs   = OPF_COUNT(selu_attrs),
                            .rows      = selu_rows,
                            .n_rows    = OPF_COUNT(selu_rows),
                            .infer     = opf_infer_shape_only,
                            .reference = reference_selu};

static opf_status lower_celu(opf_graph *graph, opf_node_id node, int32_t opset, opf_error *error)
{
    return opf_lower_no_types(graph, node, OPF_TYPES_FLOAT & ~OPF_TYPE_BIT(OPF_FLOAT), opset, error);
}
static const opf_import_row celu_rows[] = {{28, opf_import_same, lower_celu}};

const opf_op opf_op_Celu = {.name      = "Celu",
                            .domain    = "",
                            .since     = 12,
                            .traits    = OPF_ELEMENTWISE,
                            .inputs    = OPF_PARAMS({"X", 'T', OPF_TYPES_FLOAT, 0}),
                            .n_inputs  = 1,
                            .outputs   = OPF_PARAMS({"Y", 'T', OPF_TYPES_FLOAT, 0}),
                            .n_outputs = 1,
                            .attrs     = alpha_attrs,
                            .n_attrs   = OPF_COUNT(alpha_attrs),
                            .rows      = celu_rows,
                            .n_rows    = OPF_COUNT(celu_rows),
                            .infer     = opf_infer_shape_only,
                            .reference = reference_celu};
