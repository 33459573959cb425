/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A BatchNormalization that no weights can take, since a residual, an activation or a pooling stands between, is a
 * factor and a term per channel: as a Mul and an Add it joins the steps of what stands before it (bn-affine).
 */
#include "fuse/absorb_steps.h"

#include <math.h>

enum { SCALE = 1, BIAS, MEAN, VARIANCE };

static const char rule[] = "bn-affine";

typedef struct affine {
    const opf_const *factor, *term; /* [C, 1, ...] */
} affine;

static bool is_normalisation(const opf_node *node)
{
    return opf_node_is_alive(node) && node->op == &opf_op_BatchNormalization && node->prologue.n == 0 &&
           node->epilogue.n == 0 && node->n_outputs >= 1 && node->outputs[0] != 0 && node->n_inputs == 5 &&
           opf_node_int(node, "training_mode", 0) == 0;
}

/* An elementwise node that may be a step itself, or the first of a region. */
static bool is_step(const opf_graph *graph, opf_node_id id)
{
    const opf_node *node = opf_graph_node(graph, id);
    for (uint32_t i = 0; i < node->n_inputs; i++)
        if (node->inputs[i] != 0 && opf_graph_value(graph, node->inputs[i])->info.type != OPF_FLOAT)
            return false;
    return opf_steps_is_candidate(graph, id) && opf_steps_has_kernel(graph, id);
}

/* Steps run behind its operand, and it is no contraction of which the normalisation could become weights. */
static bool has_steps_before(const opf_graph *graph, opf_value_id x)
{
    const opf_node_id producer = opf_graph_value(graph, x)->producer;
    const opf_node *node = opf_graph_node(graph, producer);
    if (producer == 0 || node->op == NULL || opf_graph_value(graph, x)->producer_output != 0)
        return false;
    if (opf_steps_is_anchor(node))
        return (node->op->traits & OPF_CONTRACTION) == 0 || node->epilogue.n != 0;
    return opf_graph_single_use(graph, x) != NULL && is_step(graph, producer);
}

static const opf_const *make_vector(opf_graph *graph, const float *numbers, size_t n, int32_t rank)
{
    int64_t dims[OPF_MAX_RANK];
    for (int32_t i = 0; i < rank; i++)
        dims[i] = i == 0 ? (int64_t)n : 1;
    return opf_const_bytes(graph->consts, OPF_FLOAT, rank, dims, numbers, n * sizeof *numbers);
}

/* The parameters are constants of one number a channel; else why not. */
static const char *check_parameters(const opf_graph *graph, const opf_node *node)
{
    static const char *const reasons[] = {[SCALE] = "scale is no constant of floats",
                                          [BIAS] = "bias is no constant of floats",
                                          [MEAN] = "mean is no constant of floats",
                                          [VARIANCE] = "variance is no constant of floats"};
    const opf_const *scale = opf_graph_value(graph, node->inputs[SCALE])->constant;
    for (int i = SCALE; i <= VARIANCE; i++) {
        const opf_const *c = opf_graph_value(graph, node->inputs[i])->constant;
        if (c == NULL || c->type != OPF_FLOAT || c->rank != 1 || c->count != scale->count)
            return reasons[i];
    }
    return NULL;
}

/* In double, rounded once. *why: a number is not finite. */
static opf_status compute(opf_graph *graph, const opf_node *node, affine *a, const char **why, opf_error *error)
{
    const opf_const *c[VARIANCE + 1];
    const double epsilon = (double)opf_node_float(node, "epsilon", 1e-5f);
    for (int i = SCALE; i <= VARIANCE; i++)
        c[i] = opf_graph_value(graph, node->inputs[i])->constant;
    const size_t n = c[SCALE]->count;
    float *factors = OPF_NEW(graph->arena, float, n + 1), *terms = OPF_NEW(graph->arena, float, n + 1);
    OPF_OOM_IF(error, factors == NULL || terms == NULL);
    for (size_t i = 0; i < n; i++) {
        const double factor = opf_const_f64_at(c[SCALE], i) / sqrt(opf_const_f64_at(c[VARIANCE], i) + epsilon);
        factors[i] = (float)factor;
        terms[i] = (float)(opf_const_f64_at(c[BIAS], i) - opf_const_f64_at(c[MEAN], i) * factor);
        if (!isfinite(factors[i]) || !isfinite(terms[i])) {
            *why = "the factor or the term of a channel is not finite";
            return OPF_OK;
        }
    }
    const int32_t rank = opf_graph_value(graph, node->inputs[0])->info.rank - 1;
    a->factor = make_vector(graph, factors, n, rank);
    a->term = make_vector(graph, terms, n, rank);
    OPF_OOM_IF(error, a->factor == NULL || a->term == NULL);
    return OPF_OK;
}

/* The node becomes the Add, behind a Mul of its own. */
static bool apply(opf_graph *graph, opf_node_id id, const affine *a)
{
    const opf_value_id x = opf_graph_node(graph, id)->inputs[0],
                       factor = opf_graph_add_constant(graph, NULL, a->factor),
                       term = opf_graph_add_constant(graph, NULL, a->term), scaled = opf_graph_add_value(graph, NULL);
    if (factor == 0 || term == 0 || scaled == 0)
        return false;
    opf_graph_value(graph, scaled)->info = opf_graph_value(graph, x)->info;
    opf_graph_value(graph, scaled)->info.n_values = -1;
    const opf_value_id factors[] = {x, factor}, terms[] = {scaled, term};
    const opf_node_id mul = opf_graph_add_node(graph, &opf_op_Mul, opf_op_Mul.name, NULL, factors, 2, &scaled, 1);
    if (mul == 0 || !opf_node_join_origin(graph, mul, id))
        return false;
    opf_node *node = opf_graph_node(graph, id);
    node->op = &opf_op_Add;
    node->op_type = opf_op_Add.name;
    node->n_attrs = 0;
    return opf_graph_set_own_inputs(graph, id, terms, 2);
}

static opf_status absorb(opf_fuse_context *context, opf_node_id id, bool *changed, opf_error *error)
{
    opf_graph *graph = context->graph;
    const opf_node *node = opf_graph_node(graph, id);
    affine a = {NULL, NULL};
    const char *why = check_parameters(graph, node);
    if (why == NULL)
        OPF_TRY(compute(graph, node, &a, &why, error));
    if (why != NULL) {
        OPF_OOM_IF(error,
                   !opf_report_miss(context->report, rule, node->name, OPF_MISS_CONST, node->name, 1, 2, "%s", why));
        return OPF_OK;
    }
    if (!opf_fuse_allows(context, rule, id))
        return OPF_OK;
    OPF_OOM_IF(error, !apply(graph, id, &a));
    *changed = true;
    return opf_fuse_done(context, rule, id, error);
}

opf_status opf_absorb_affine(opf_fuse_context *context, bool *changed, opf_error *error)
{
    const opf_graph *graph = context->graph;
    for (opf_node_id id = 1; id < graph->n_nodes; id++) {
        const opf_node *node = opf_graph_node(graph, id);
        if (!is_normalisation(node) || !has_steps_before(graph, node->inputs[0]))
            continue;
        const opf_info *x = &opf_graph_value(graph, node->inputs[0])->info;
        if (x->type == OPF_FLOAT && x->rank >= 2)
            OPF_TRY(absorb(context, id, changed, error));
    }
    return OPF_OK;
}
