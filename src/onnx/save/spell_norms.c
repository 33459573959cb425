/* SPDX-License-Identifier: Apache-2.0 */
/* Normalisations out of means. */
#include "onnx/save/spell.h"

enum { X, SCALE, BIAS };

typedef struct norm {
    opf_value_id x, axes;
    opf_type type;
} norm;

/* Axes from `axis` to the last, counted from the last. */
static norm read_norm(opf_contrib *c)
{
    norm n = {.x = opf_contrib_in(c, X)};
    int64_t axes[OPF_MAX_RANK];
    const int32_t rank = opf_contrib_rank(c, n.x, "X");
    const opf_info *info = opf_contrib_info(c, n.x);
    int64_t axis = opf_contrib_int(c, "axis", -1);
    axis -= axis >= 0 ? rank : 0;
    if (axis >= 0 || axis < -rank)
        opf_contrib_fail(c, OPF_INVALID_MODEL, "axis %lld is out of range", (long long)axis);
    /* A norm that says its inner type is not one that fusion made of operators in half precision: it has better sums.
     */
    n.type = info->type;
    if (!opf_contrib_failed(c) && n.type != OPF_FLOAT && opf_contrib_attr(c, "stash_type").type != OPF_ATTR_NONE)
        opf_contrib_fail(c, OPF_UNSUPPORTED, "older operators compute in the type of their operands");
    /* Means over sizes that nobody knows are not read back as a norm. */
    for (int64_t i = axis; i < 0 && !opf_contrib_failed(c); i++) {
        axes[i - axis] = i;
        (void)opf_contrib_dim(c, n.x, (int32_t)i, "X");
    }
    n.axes = opf_contrib_failed(c) ? 0 : opf_contrib_ints(c, (uint32_t)-axis, axes);
    return n;
}

static opf_value_id mean_of_squares(opf_contrib *c, const norm *n, opf_value_id x)
{
    const opf_value_id squares = OPF_APPLY(c, Pow, x, opf_contrib_number(c, n->type, 2));
    return OPF_APPLY(c, ReduceMean, squares, n->axes);
}

/* sqrt(v + epsilon) */
static opf_value_id deviation(opf_contrib *c, const norm *n, opf_value_id v)
{
    const double epsilon = (double)opf_contrib_float(c, "epsilon", 1e-5F);
    return OPF_APPLY(c, Sqrt, OPF_APPLY(c, Add, v, opf_contrib_number(c, n->type, epsilon)));
}

/* A scale of ones too: other runtimes know the norm by it. */
static opf_value_id scale_and_shift(opf_contrib *c, opf_value_id y)
{
    y = OPF_APPLY(c, Mul, y, opf_contrib_in(c, SCALE));
    return opf_contrib_in(c, BIAS) != 0 ? OPF_APPLY(c, Add, y, opf_contrib_in(c, BIAS)) : y;
}

void opf_spell_LayerNormalization(opf_contrib *c)
{
    const norm n = read_norm(c);
    const opf_value_id mean = OPF_APPLY(c, ReduceMean, n.x, n.axes);
    const opf_value_id d = OPF_APPLY(c, Sub, n.x, mean);
    const opf_value_id sigma = deviation(c, &n, mean_of_squares(c, &n, d));
    const opf_value_id y = scale_and_shift(c, OPF_APPLY(c, Div, d, sigma));
    if (opf_contrib_wants(c, 2))
        opf_contrib_bind(c, 2, OPF_APPLY(c, Reciprocal, sigma));
    opf_contrib_bind(c, 1, mean);
    opf_contrib_bind(c, 0, y);
}

void opf_spell_RMSNormalization(opf_contrib *c)
{
    const norm n = read_norm(c);
    const opf_value_id y = OPF_APPLY(c, Div, n.x, deviation(c, &n, mean_of_squares(c, &n, n.x)));
    opf_contrib_bind(c, 0, scale_and_shift(c, y));
}

/* ---- groups ---- */

/* Elements as [C, 1, …], to meet x of this rank. */
static opf_value_id per_channel(opf_contrib *c, opf_value_id value, int32_t rank)
{
    int64_t dims[OPF_MAX_RANK] = {-1};
    const opf_const *constant = opf_graph_value(c->graph, value)->constant;
    for (int32_t i = 1; i < rank - 1; i++)
        dims[i] = 1;
    if (constant == NULL)
        return OPF_APPLY(c, Reshape, value, opf_contrib_ints(c, (uint32_t)(rank - 1), dims));
    dims[0] = (int64_t)constant->count;
    const opf_const *x = opf_const_reshape(c->graph->consts, constant, rank - 1, dims);
    return x != NULL ? opf_graph_add_constant(c->graph, c->name, x) : 0;
}

static opf_value_id splat(opf_contrib *c, opf_type type, int64_t n, double x)
{
    double *element = OPF_NEW(c->graph->arena, double, 1);
    if (element == NULL)
        return 0;
    opf_store_f64(type, element, 0, x);
    const opf_const *constant = opf_const_splat(c->graph->consts, type, 1, &n, element);
    return constant != NULL ? opf_graph_add_constant(c->graph, c->name, constant) : 0;
}

void opf_spell_GroupNormalization(opf_contrib *c)
{
    const opf_value_id x = opf_contrib_in(c, X);
    const opf_type type = opf_contrib_type(c, x, "X");
    const int32_t rank = opf_contrib_rank(c, x, "X");
    const int64_t groups = opf_contrib_int(c, "num_groups", 1);
    if (opf_contrib_failed(c) || rank < 2)
        return;
    const opf_value_id grouped = OPF_APPLY(c, Reshape, x, opf_contrib_ints(c, OPF_INTS(0, groups, -1)));
    const opf_value_id y = opf_contrib_add(c, &opf_op_InstanceNormalization,
                                           OPF_INPUTS(grouped, splat(c, type, groups, 1), splat(c, type, groups, 0)),
                                           OPF_ATTRS(opf_contrib_attr(c, "epsilon")));
    const opf_value_id back = OPF_APPLY(c, Reshape, y, OPF_APPLY(c, Shape, x));
    const opf_value_id scaled = OPF_APPLY(c, Mul, back, per_channel(c, opf_contrib_in(c, SCALE), rank));
    opf_contrib_bind(c, 0, OPF_APPLY(c, Add, scaled, per_channel(c, opf_contrib_in(c, BIAS), rank)));
}
