/* SPDX-License-Identifier: Apache-2.0 */
/* What many decompositions need. */
#include "onnx/contrib/contrib.h"

opf_value_id opf_contrib_transpose(opf_contrib *c, opf_value_id x, uint32_t rank, const int64_t *perm)
{
    int64_t *axes = opf_arena_copy(c->graph->arena, perm, rank * sizeof *perm);
    if (axes == NULL)
        opf_contrib_fail(c, OPF_OUT_OF_MEMORY, "out of memory");
    const opf_attr attr = {.name = "perm", .type = OPF_ATTR_INTS, .ints = axes, .n = rank};
    return opf_contrib_add(c, &opf_op_Transpose, OPF_INPUTS(x), OPF_ATTRS(attr));
}

/* The channels go from the last place to the second, or back. */
static opf_value_id move_channels(opf_contrib *c, opf_value_id x, bool to_front, const char *what)
{
    const int32_t rank = opf_contrib_rank(c, x, what);
    int64_t perm[OPF_MAX_RANK];
    if (opf_contrib_failed(c) || rank < 3)
        return x;
    for (int32_t i = 0; i < rank; i++)
        perm[i] = i == 0 ? 0 : to_front ? (i == 1 ? rank - 1 : i - 1) : (i == rank - 1 ? 1 : i + 1);
    return opf_contrib_transpose(c, x, (uint32_t)rank, perm);
}

opf_value_id opf_contrib_channels_first(opf_contrib *c, opf_value_id x, bool channels_last, const char *what)
{
    return channels_last ? move_channels(c, x, true, what) : x;
}

opf_value_id opf_contrib_channels_last(opf_contrib *c, opf_value_id x, bool channels_last)
{
    return channels_last ? move_channels(c, x, false, "a result") : x;
}

opf_value_id opf_contrib_cast(opf_contrib *c, opf_value_id x, opf_type type)
{
    if (opf_contrib_info(c, x)->type == type)
        return x;
    return opf_contrib_add(c, &opf_op_Cast, OPF_INPUTS(x), OPF_ATTRS(opf_contrib_int_attr("to", type)));
}

opf_value_id opf_contrib_size(opf_contrib *c, opf_value_id x, int64_t axis)
{
    return opf_contrib_add(c, &opf_op_Shape, OPF_INPUTS(x),
                           OPF_ATTRS(opf_contrib_int_attr("start", axis), opf_contrib_int_attr("end", axis + 1)));
}

opf_value_id opf_contrib_range(opf_contrib *c, opf_value_id size)
{
    const opf_value_id zero = opf_contrib_integer(c, OPF_INT64, 0), one = opf_contrib_integer(c, OPF_INT64, 1);
    return OPF_APPLY(c, Range, zero, OPF_APPLY(c, Squeeze, size, opf_contrib_ints(c, OPF_INTS(0))), one);
}

opf_value_id opf_contrib_softmax(opf_contrib *c, opf_value_id x, int64_t axis, bool flattens)
{
    const opf_attr last = opf_contrib_int_attr("axis", -1);
    const int32_t rank = flattens ? opf_contrib_rank(c, x, "data") : 0;
    if (!flattens || axis == -1 || axis == rank - 1)
        return opf_contrib_add(c, &opf_op_Softmax, OPF_INPUTS(x), OPF_ATTRS(opf_contrib_int_attr("axis", axis)));
    const opf_value_id flat =
        opf_contrib_add(c, &opf_op_Flatten, OPF_INPUTS(x), OPF_ATTRS(opf_contrib_int_attr("axis", axis)));
    const opf_value_id rows = opf_contrib_add(c, &opf_op_Softmax, OPF_INPUTS(flat), OPF_ATTRS(last));
    /* With allowzero an empty input keeps its shape too. */
    return opf_contrib_add(c, &opf_op_Reshape, OPF_INPUTS(rows, OPF_APPLY(c, Shape, x)),
                           OPF_ATTRS(opf_contrib_int_attr("allowzero", 1)));
}

/* ---- activations ---- */

enum { PARAMS = 2 };

static const struct activation {
    const char *name;
    const opf_op *op;
    const char *params[PARAMS];
} activations[] = {
    {"Elu", &opf_op_Elu, {"alpha"}},
    {"HardSigmoid", &opf_op_HardSigmoid, {"alpha", "beta"}},
    {"LeakyRelu", &opf_op_LeakyRelu, {"alpha"}},
    {"Relu", &opf_op_Relu, {NULL}},
    {"Selu", &opf_op_Selu, {"alpha", "gamma"}},
    {"Sigmoid", &opf_op_Sigmoid, {NULL}},
    {"Softplus", &opf_op_Softplus, {NULL}},
    {"Softsign", &opf_op_Softsign, {NULL}},
    {"Tanh", &opf_op_Tanh, {NULL}},
    {"ThresholdedRelu", &opf_op_ThresholdedRelu, {"alpha"}},
};

/* Parameter p of an activation: from the list, or from its own attribute; type NONE where the default holds. */
static opf_attr find_param(opf_contrib *c, const struct activation *a, uint32_t p, uint32_t n_params,
                           const float *params)
{
    const char *name = a->params[p];
    if (name == NULL || (params != NULL && p >= n_params))
        return (opf_attr){.type = OPF_ATTR_NONE};
    if (params != NULL)
        return opf_contrib_float_attr(name, params[p]);
    const char *attr = opf_arena_printf(c->graph->arena, "activation_%s", name);
    if (attr == NULL)
        opf_contrib_fail(c, OPF_OUT_OF_MEMORY, "out of memory");
    if (attr == NULL || opf_contrib_attr(c, attr).type == OPF_ATTR_NONE)
        return (opf_attr){.type = OPF_ATTR_NONE};
    return opf_contrib_float_attr(name, opf_contrib_float(c, attr, 0));
}

opf_value_id opf_contrib_activate(opf_contrib *c, opf_value_id x, const char *name, uint32_t n_params,
                                  const float *params)
{
    if (name[0] == '\0' || strcmp(name, "Identity") == 0)
        return x;
    if (strcmp(name, "Clip") == 0 && params != NULL && n_params == 2) {
        const opf_type type = opf_contrib_type(c, x, "X");
        const opf_value_id least = opf_contrib_number(c, type, (double)params[0]);
        return OPF_APPLY(c, Clip, x, least, opf_contrib_number(c, type, (double)params[1]));
    }
    for (uint32_t i = 0; i < OPF_COUNT(activations); i++) {
        const struct activation *a = &activations[i];
        if (strcmp(a->name, name) == 0)
            return opf_contrib_add(
                c, a->op, OPF_INPUTS(x),
                OPF_ATTRS(find_param(c, a, 0, n_params, params), find_param(c, a, 1, n_params, params)));
    }
    opf_contrib_fail(c, OPF_UNSUPPORTED, "activation %s is not supported", name);
    return 0;
}
