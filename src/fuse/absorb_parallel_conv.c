/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolutions of one image with windows of one kind become one, with the filters of all, and a Split of its channels,
 * whose results are views. Activations behind them go along where they are the same; a branch that an elementwise node
 * of another kind reads keeps it as its epilogue and stays out.
 */
#include "fuse/absorb_steps.h"

#include <string.h>

static const char rule[] = "parallel-conv";

typedef struct branch {
    opf_node_id conv, activation; /* activation 0: none */
    opf_value_id result;
    const opf_const *weights, *bias; /* bias NULL: zeros */
} branch;

typedef struct merge {
    branch *list;
    uint32_t n;
    opf_node first; /* the first convolution as it was */
    bool any_bias;
} merge;

static const opf_const *constant_of(const opf_graph *graph, opf_value_id value)
{
    return value != 0 ? opf_graph_value(graph, value)->constant : NULL;
}

/* ---- finding ---- */

static bool same_attr(const opf_attr *a, const opf_attr *b)
{
    if (b == NULL || a->type != b->type || a->n != b->n || a->i != b->i)
        return false;
    if (a->type == OPF_ATTR_INTS)
        return a->n == 0 || memcmp(a->ints, b->ints, a->n * sizeof *a->ints) == 0;
    if (a->type == OPF_ATTR_STRING)
        return memcmp(a->s, b->s, a->n) == 0;
    return a->type == OPF_ATTR_INT || (a->type == OPF_ATTR_FLOAT && memcmp(&a->f, &b->f, sizeof a->f) == 0);
}

static bool same_attrs(const opf_node *a, const opf_node *b)
{
    if (a->n_attrs != b->n_attrs)
        return false;
    for (uint32_t i = 0; i < a->n_attrs; i++)
        if (!same_attr(&a->attrs[i], opf_node_attr(b, a->attrs[i].name)))
            return false;
    return true;
}

static bool same_kernel(const opf_const *a, const opf_const *b)
{
    return a->type == b->type && a->rank == b->rank &&
           memcmp(a->dims + 1, b->dims + 1, (size_t)(a->rank - 1) * sizeof *a->dims) == 0;
}

static bool get_branch(const opf_graph *graph, opf_use use, branch *b)
{
    const opf_node *conv = opf_graph_node(graph, use.node);
    if (use.node == 0 || use.input != 0 || conv->op != &opf_op_Conv || conv->prologue.n != 0 || conv->epilogue.n != 0 ||
        conv->n_inputs != conv->n_own_inputs || conv->n_own_inputs < 2 || opf_node_int(conv, "group", 1) != 1)
        return false;
    *b = (branch){.conv = use.node, .result = conv->outputs[0], .weights = constant_of(graph, conv->inputs[1])};
    const bool has_bias = conv->n_own_inputs > 2 && conv->inputs[2] != 0;
    b->bias = has_bias ? constant_of(graph, conv->inputs[2]) : NULL;
    if (b->weights == NULL || b->weights->rank < 3 || !opf_types_have(OPF_TYPES_FLOAT, b->weights->type) ||
        b->weights->count == 0 || (has_bias && b->bias == NULL))
        return false;
    const opf_use *reader = opf_graph_single_use(graph, b->result);
    if (reader != NULL && opf_steps_is_candidate(graph, reader->node)) {
        if (opf_graph_node(graph, reader->node)->n_inputs != 1)
            return false;
        b->activation = reader->node;
        b->result = opf_graph_node(graph, reader->node)->outputs[0];
    }
    /* An output of the graph would be a copy. An elementwise reader would lose the convolution before it. */
    for (uint32_t i = 0; i < opf_graph_value(graph, b->result)->n_uses; i++) {
        const opf_node_id node = opf_graph_value(graph, b->result)->uses[i].node;
        if (node == 0 || opf_steps_is_candidate(graph, node))
            return false;
    }
    return true;
}

static bool fits(const opf_graph *graph, const branch *a, const branch *b)
{
    const opf_node *x = opf_graph_node(graph, a->activation), *y = opf_graph_node(graph, b->activation);
    return same_kernel(a->weights, b->weights) &&
           same_attrs(opf_graph_node(graph, a->conv), opf_graph_node(graph, b->conv)) &&
           (a->activation == 0) == (b->activation == 0) && (a->activation == 0 || (x->op == y->op && same_attrs(x, y)));
}

/* The first set of at least two that fit one another. */
static bool find_merge(opf_fuse_context *context, opf_value_id x, merge *m)
{
    const opf_graph *graph = context->graph;
    const opf_value *value = opf_graph_value(graph, x);
    branch b;
    for (uint32_t i = 0; i < value->n_uses; i++) {
        m->n = 0;
        for (uint32_t k = i; k < value->n_uses; k++)
            if (get_branch(graph, value->uses[k], &b) && (k == i || (m->n > 0 && fits(graph, &m->list[0], &b))))
                m->list[m->n++] = b;
        if (m->n >= 2)
            return true;
    }
    return false;
}

/* ---- building ---- */

static opf_value_id joined_weights(opf_fuse_context *context, const merge *m, bool bias)
{
    static const uint64_t zero = 0; /* of any float type */
    opf_const_pool *pool = context->graph->consts;
    const opf_const **parts = OPF_NEW(context->scratch, const opf_const *, m->n);
    for (uint32_t i = 0; parts != NULL && i < m->n; i++) {
        const opf_const *w = m->list[i].weights, *b = m->list[i].bias;
        parts[i] = !bias ? w : b != NULL ? b : opf_const_splat(pool, w->type, 1, w->dims, &zero);
        if (parts[i] == NULL)
            return 0;
    }
    const opf_const *joined = parts != NULL ? opf_const_concat(pool, parts, m->n, 0) : NULL;
    return joined != NULL ? opf_graph_add_constant(context->graph, NULL, joined) : 0;
}

/* A copy of a node that is gone, on other inputs, with a new result of inferred shape. 0: out of memory. */
static opf_value_id build(opf_fuse_context *context, const opf_node *like, const opf_value_id *inputs, uint32_t n,
                          opf_node_id *id, opf_error *error)
{
    opf_graph *graph = context->graph;
    const opf_value_id result = opf_graph_add_value(graph, NULL);
    *id = result != 0 ? opf_graph_add_node(graph, like->op, like->op_type, like->name, inputs, n, &result, 1) : 0;
    for (uint32_t i = 0; *id != 0 && i < like->n_attrs; i++)
        if (!opf_node_set_attr(graph, *id, like->attrs[i]))
            return 0;
    return *id != 0 && opf_fuse_infer(context, *id, error) == OPF_OK ? result : 0;
}

static bool add_split(opf_fuse_context *context, const merge *m, opf_value_id joined)
{
    opf_graph *graph = context->graph;
    int64_t *widths = OPF_NEW(context->scratch, int64_t, m->n);
    opf_value_id *results = OPF_NEW(context->scratch, opf_value_id, m->n);
    const char *name = opf_arena_printf(graph->arena, "%s/split", m->first.name);
    if (widths == NULL || results == NULL || name == NULL)
        return false;
    for (uint32_t i = 0; i < m->n; i++) {
        widths[i] = m->list[i].weights->dims[0];
        results[i] = m->list[i].result;
    }
    const opf_const *sizes = opf_const_ints(graph->consts, widths, m->n);
    const opf_value_id inputs[] = {joined, sizes != NULL ? opf_graph_add_constant(graph, NULL, sizes) : 0};
    const opf_node_id split =
        inputs[1] != 0 ? opf_graph_add_node(graph, &opf_op_Split, opf_op_Split.name, name, inputs, 2, results, m->n) : 0;
    return split != 0 && opf_node_set_int(graph, split, "axis", 1);
}

static bool add_origins(opf_graph *graph, opf_node_id id, const opf_node *nodes, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < nodes[i].n_origin; k++)
            if (!opf_node_add_origin(graph, id, nodes[i].origin[k]))
                return false;
    return true;
}

static opf_status apply(opf_fuse_context *context, opf_value_id x, merge *m, opf_node_id *anchor, opf_error *error)
{
    opf_graph *graph = context->graph;
    opf_node *convs = OPF_NEW(context->scratch, opf_node, 2 * (size_t)m->n), *activations = convs + m->n;
    const bool activated = m->list[0].activation != 0;
    opf_node_id activation = 0;
    OPF_OOM_IF(error, convs == NULL);
    for (uint32_t i = 0; i < m->n; i++) {
        convs[i] = *opf_graph_node(graph, m->list[i].conv);
        m->any_bias |= m->list[i].bias != NULL;
        if (activated) {
            activations[i] = *opf_graph_node(graph, m->list[i].activation);
            opf_graph_remove_node(graph, m->list[i].activation);
        }
        opf_graph_remove_node(graph, m->list[i].conv);
    }
    m->first = convs[0];
    const opf_value_id inputs[] = {x, joined_weights(context, m, false),
                                   m->any_bias ? joined_weights(context, m, true) : 0};
    OPF_OOM_IF(error, inputs[1] == 0 || (m->any_bias && inputs[2] == 0));
    opf_value_id joined = build(context, &m->first, inputs, m->any_bias ? 3 : 2, anchor, error);
    OPF_OOM_IF(error, joined == 0 || !add_origins(graph, *anchor, convs, m->n));
    if (activated) {
        joined = build(context, &activations[0], &joined, 1, &activation, error);
        OPF_OOM_IF(error, joined == 0 || !add_origins(graph, activation, activations, m->n));
    }
    OPF_OOM_IF(error, !add_split(context, m, joined));
    return OPF_OK;
}

opf_status opf_absorb_parallel_conv(opf_fuse_context *context, bool *changed, opf_error *error)
{
    for (opf_value_id x = 1; x < context->graph->n_values; x++) {
        const opf_value *value = opf_graph_value(context->graph, x);
        opf_node_id anchor = 0;
        merge m = {.list = NULL};
        if (value->n_uses < 2 || value->constant != NULL || value->info.rank < 3)
            continue;
        m.list = OPF_NEW(context->scratch, branch, value->n_uses);
        OPF_OOM_IF(error, m.list == NULL);
        if (!find_merge(context, x, &m) || !opf_fuse_allows(context, rule, m.list[0].conv))
            continue;
        OPF_TRY(apply(context, x, &m, &anchor, error));
        *changed = true;
        OPF_TRY(opf_fuse_done(context, rule, anchor, error));
    }
    return OPF_OK;
}
