/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A constant factor a column before products with constant weights scales their rows: MatMul(x*k, W) is MatMul(x, kW).
 * All products that read x*k take the factor, or none, since what one of them needs is computed for all.
 */
#include "fuse/channel.h"
#include "fuse/legality.h"
#include "ops/op.h"

#include <math.h>

static const char rule[] = "matmul-mul";

typedef struct columns {
    opf_node_id node; /* Mul or Div */
    uint32_t operand; /* its input that is the factor */
    const opf_const *factor;
    bool divides;
    const opf_const *vector; /* the same in double, [K] */
} columns;

static const opf_const *constant_of(const opf_graph *graph, opf_value_id value)
{
    return value != 0 ? opf_graph_value(graph, value)->constant : NULL;
}

/* A Mul or Div by a constant that may differ by columns. */
static bool find_factor(const opf_graph *graph, opf_node_id id, columns *c)
{
    const opf_node *node = opf_graph_node(graph, id);
    *c = (columns){.node = id, .divides = opf_fuse_is_plain(graph, id, &opf_op_Div)};
    if (!c->divides && !opf_fuse_is_plain(graph, id, &opf_op_Mul))
        return false;
    c->operand = !c->divides && constant_of(graph, node->inputs[0]) != NULL ? 0 : 1;
    c->factor = constant_of(graph, node->inputs[c->operand]);
    return c->factor != NULL && c->factor->rank > 0 && c->factor->dims[c->factor->rank - 1] > 1 &&
           constant_of(graph, node->inputs[1 - c->operand]) == NULL && opf_types_have(OPF_TYPES_FLOAT, c->factor->type);
}

/* Of the weights: where they have an element for each column of what they are multiplied with. */
static int32_t axis_of(const opf_node *product, const opf_const *w)
{
    return w->rank < 2 ? 0 : w->rank - (opf_node_int(product, "transB", 0) != 0 ? 1 : 2);
}

/* The weights of a product that can take the factor, or NULL. */
static const opf_const *weights_of(const opf_graph *graph, const columns *c, opf_use use)
{
    const opf_node *product = opf_graph_node(graph, use.node);
    if (use.node == 0 || use.input != 0 || (product->op != &opf_op_MatMul && product->op != &opf_op_Gemm) ||
        product->prologue.n != 0 || opf_node_int(product, "transA", 0) != 0)
        return NULL;
    const opf_const *w = constant_of(graph, product->inputs[1]);
    return w != NULL && w->rank > 0 && w->count != 0 && w->type == c->factor->type &&
                   w->dims[axis_of(product, w)] == c->factor->dims[c->factor->rank - 1]
               ? w
               : NULL;
}

/* Nobody else reads what is scaled: else nothing is said either, as the factor has a reader that no rule could serve.
 */
static bool only_such_products_read(const opf_graph *graph, const columns *c)
{
    const opf_value *scaled = opf_graph_value(graph, opf_graph_node(graph, c->node)->outputs[0]);
    for (uint32_t i = 0; i < scaled->n_uses; i++)
        if (weights_of(graph, c, scaled->uses[i]) == NULL)
            return false;
    return scaled->n_uses != 0;
}

static bool check(opf_fuse_context *context, columns *c, opf_refusal *why)
{
    opf_graph *graph = context->graph;
    const opf_node *node = opf_graph_node(graph, c->node);
    const opf_value *scaled = opf_graph_value(graph, node->outputs[0]);
    const char *name = opf_graph_value(graph, node->inputs[c->operand])->name;
    for (int32_t i = 0; i + 1 < c->factor->rank; i++)
        if (c->factor->dims[i] != 1)
            return opf_refuse(context, why, OPF_MISS_SHAPE, c->node, "the factor %s varies along more than the columns",
                              name);
    if (!opf_legal_same(context, &opf_graph_value(graph, node->inputs[1 - c->operand])->info, &scaled->info, why))
        return false;
    c->vector = opf_channel_vector(graph->consts, c->factor, (int64_t)c->factor->count);
    if (c->vector == NULL)
        return opf_refuse(context, why, OPF_MISS_BUDGET, c->node, "no memory for the factor %s", name);
    if (!opf_channel_is_finite(c->vector) || (c->divides && !opf_channel_divides(c->vector)))
        return opf_refuse(context, why, OPF_MISS_CONST, c->node, "an element of the factor %s is not finite%s", name,
                          c->divides ? ", or next to zero" : "");
    if (!opf_channel_keeps_range(c->factor->type, c->vector, c->divides))
        return opf_refuse(context, why, OPF_MISS_DTYPE, c->node,
                          "the factor %s could carry weights of half precision out of their range", name);
    return true;
}

/* The product reads what was scaled, and other weights. */
static bool take(opf_graph *graph, const columns *c, const opf_const *vector, opf_use use)
{
    const opf_node *product = opf_graph_node(graph, use.node);
    const opf_const *w = weights_of(graph, c, use);
    const opf_const *scaled = opf_const_scale(graph->consts, w, vector, axis_of(product, w));
    const char *name = opf_graph_value(graph, product->inputs[1])->name;
    const opf_value_id weights = scaled != NULL ? opf_graph_add_constant(graph, name, scaled) : 0;
    return weights != 0 && opf_graph_set_input(graph, use.node, 1, weights) &&
           opf_graph_set_input(graph, use.node, 0, opf_graph_node(graph, c->node)->inputs[1 - c->operand]) &&
           opf_node_join_origin(graph, use.node, c->node);
}

static opf_status absorb(opf_fuse_context *context, opf_node_id id, bool *changed, opf_error *error)
{
    opf_graph *graph = context->graph;
    opf_refusal why = {0};
    columns c;
    if (!find_factor(graph, id, &c) || !only_such_products_read(graph, &c))
        return OPF_OK;
    const opf_value_id scaled = opf_graph_node(graph, id)->outputs[0];
    const opf_node_id first = opf_graph_value(graph, scaled)->uses[0].node;
    if (!check(context, &c, &why)) {
        OPF_OOM_IF(error, !opf_report_miss(context->report, rule, opf_graph_node(graph, first)->name, why.code,
                                           opf_graph_node(graph, id)->name, 2, 2, "%s", why.reason));
        return OPF_OK;
    }
    if (!opf_fuse_allows(context, rule, first))
        return OPF_OK;
    const opf_const *vector = c.divides ? opf_channel_reciprocal(graph->consts, c.vector) : c.vector;
    OPF_OOM_IF(error, vector == NULL);
    while (opf_graph_value(graph, scaled)->n_uses != 0)
        OPF_OOM_IF(error, !take(graph, &c, vector, opf_graph_value(graph, scaled)->uses[0]));
    opf_graph_remove_node(graph, id);
    *changed = true;
    return opf_fuse_done(context, rule, first, error);
}

opf_status opf_absorb_columns(opf_fuse_context *context, bool *changed, opf_error *error)
{
    for (opf_node_id id = 1; id < context->graph->n_nodes; id++)
        OPF_TRY(absorb(context, id, changed, error));
    return OPF_OK;
}
