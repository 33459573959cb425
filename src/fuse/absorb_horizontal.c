/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Q, K, V and their like: products of one value with constant matrices become one product with the matrices side by
 * side, and a Split whose results are views of it. Any number, any widths, MatMul and Gemm mixed, with biases or
 * without.
 */
#include "fuse/legality.h"
#include "fuse/absorb_steps.h"

static const char rule[] = "qkv";

typedef struct branch {
    opf_node_id product, add; /* add 0: the bias is in the product, or there is none */
    opf_value_id result;
    const opf_const *weights; /* [K,N] */
    const opf_const *bias;    /* [N]; NULL: zeros */
    bool has_reader;          /* an elementwise node that would be its epilogue */
} branch;

typedef struct merge {
    opf_value_id x;
    branch *branches;
    uint32_t n;
    opf_node product; /* the first, as it was */
    bool all_gemm, any_bias;
    int64_t width; /* of all together */
} merge;

static const opf_const *constant_of(const opf_graph *graph, opf_value_id value)
{
    return value != 0 ? opf_graph_value(graph, value)->constant : NULL;
}

/* The constant as [n], if it is one value or varies along the last axis only; NULL otherwise. */
static const opf_const *bias_vector(opf_graph *graph, const opf_const *c, int32_t max_rank, opf_type type, int64_t n)
{
    static const double zero = 0.0;
    if (c == NULL || c->type != type || c->rank > max_rank || (c->count != 1 && c->count != (size_t)n))
        return NULL;
    for (int32_t i = 0; c->count != 1 && i + 1 < c->rank; i++)
        if (c->dims[i] != 1)
            return NULL;
    const opf_const *flat = opf_const_reshape(graph->consts, c, 1, &(int64_t){(int64_t)c->count});
    if (flat == NULL || c->count == (size_t)n)
        return flat;
    const opf_const *base = opf_const_splat(graph->consts, OPF_DOUBLE, 1, &n, &zero);
    const opf_const *sum = base != NULL ? opf_const_compute(graph->consts, '+', base, flat) : NULL;
    return sum != NULL ? opf_const_cast(graph->consts, sum, type) : NULL;
}

/* ---- finding ---- */

static bool get_gemm(opf_graph *graph, const opf_node *node, branch *b)
{
    if (node->op != &opf_op_Gemm || opf_node_int(node, "transA", 0) != 0 ||
        opf_node_float(node, "alpha", 1.0f) != 1.0f || opf_node_float(node, "beta", 1.0f) != 1.0f)
        return false;
    if (opf_node_int(node, "transB", 0) != 0)
        b->weights = opf_const_transpose(graph->consts, b->weights, (const int32_t[]){1, 0});
    if (b->weights == NULL || node->n_own_inputs < 3 || node->inputs[2] == 0)
        return b->weights != NULL;
    b->bias = bias_vector(graph, constant_of(graph, node->inputs[2]), 2, b->weights->type, b->weights->dims[1]);
    return b->bias != NULL;
}

/* The Add of a bias that alone reads the product goes along. */
static void get_add(opf_fuse_context *context, branch *b)
{
    opf_graph *graph = context->graph;
    const opf_use *use = opf_graph_single_use(graph, b->result);
    if (use == NULL || b->bias != NULL || !opf_steps_is_candidate(graph, use->node) ||
        opf_graph_node(graph, use->node)->op != &opf_op_Add)
        return;
    const opf_node *add = opf_graph_node(graph, use->node);
    const opf_info *result = &opf_graph_value(graph, b->result)->info;
    b->bias = bias_vector(graph, constant_of(graph, add->inputs[1 - use->input]), result->rank, b->weights->type,
                          b->weights->dims[1]);
    if (b->bias == NULL)
        return;
    b->add = use->node;
    b->result = add->outputs[0];
}

static bool get_branch(opf_fuse_context *context, opf_use use, branch *b)
{
    opf_graph *graph = context->graph;
    const opf_node *node = opf_graph_node(graph, use.node);
    if (use.node == 0 || use.input != 0 || (node->op != &opf_op_MatMul && node->op != &opf_op_Gemm) ||
        node->prologue.n != 0 || node->epilogue.n != 0 || node->n_inputs != node->n_own_inputs ||
        node->n_own_inputs < 2 || node->n_outputs != 1)
        return false;
    *b = (branch){.product = use.node, .result = node->outputs[0], .weights = constant_of(graph, node->inputs[1])};
    if (b->weights == NULL || b->weights->rank != 2 || !opf_types_have(OPF_TYPES_FLOAT, b->weights->type) ||
        b->weights->count == 0)
        return false;
    if (node->op == &opf_op_Gemm && !get_gemm(graph, node, b))
        return false;
    get_add(context, b);
    const opf_use *reader = opf_graph_single_use(graph, b->result);
    b->has_reader = reader != NULL && opf_steps_is_candidate(graph, reader->node);
    return true;
}

/* Each merged product saves a kernel; each elementwise reader that can no longer be an epilogue costs one. When all are
   not worth it, those without such readers may be. */
static bool choose(merge *m)
{
    uint32_t readers = 0, kept = 0;
    for (uint32_t i = 0; i < m->n; i++)
        readers += m->branches[i].has_reader;
    if (m->n >= 2 && m->n - 1 > readers)
        return true;
    for (uint32_t i = 0; i < m->n; i++)
        if (!m->branches[i].has_reader)
            m->branches[kept++] = m->branches[i];
    if (kept < 2)
        return false;
    m->n = kept;
    return true;
}

static opf_status find_merge(opf_fuse_context *context, opf_value_id x, merge *m, opf_error *error)
{
    opf_graph *graph = context->graph;
    const opf_value *value = opf_graph_value(graph, x);
    *m = (merge){.x = x, .all_gemm = true};
    m->branches = OPF_NEW(context->scratch, branch, value->n_uses);
    OPF_OOM_IF(error, m->branches == NULL);
    for (uint32_t i = 0; i < value->n_uses; i++) {
        branch b;
        if (!get_branch(context, value->uses[i], &b))
            continue;
        if (m->n > 0 &&
            (b.weights->type != m->branches[0].weights->type || b.weights->dims[0] != m->branches[0].weights->dims[0]))
            continue;
        m->branches[m->n++] = b;
    }
    const uint32_t found = m->n;
    if (found < 2)
        m->n = 0;
    else if (!choose(m)) {
        m->n = 0;
        const opf_node *start = opf_graph_node(graph, m->branches[0].product);
        OPF_OOM_IF(error,
                   !opf_report_miss(context->report, rule, start->name, OPF_MISS_NO_GAIN, start->name, found, found,
                                    "%u products read %s, but elementwise nodes behind them fuse better one by one",
                                    found, value->name));
    }
    for (uint32_t i = 0; i < m->n; i++) {
        m->all_gemm &= opf_graph_node(graph, m->branches[i].product)->op == &opf_op_Gemm;
        m->any_bias |= m->branches[i].bias != NULL;
        if (__builtin_add_overflow(m->width, m->branches[i].weights->dims[1], &m->width))
            m->n = 0;
    }
    return OPF_OK;
}

/* ---- building ---- */

static opf_value_id weights_value(opf_fuse_context *context, const merge *m)
{
    opf_graph *graph = context->graph;
    const opf_const **parts = OPF_NEW(context->scratch, const opf_const *, m->n);
    for (uint32_t i = 0; parts != NULL && i < m->n; i++)
        parts[i] = m->branches[i].weights;
    const opf_const *joined = parts != NULL ? opf_const_concat(graph->consts, parts, m->n, 1) : NULL;
    return joined != NULL ? opf_graph_add_constant(graph, opf_graph_value(graph, m->product.inputs[1])->name, joined)
                          : 0;
}

static opf_value_id bias_value(opf_fuse_context *context, const merge *m)
{
    static const uint64_t zero = 0; /* of any float type */
    opf_graph *graph = context->graph;
    const opf_const **parts = OPF_NEW(context->scratch, const opf_const *, m->n);
    for (uint32_t i = 0; parts != NULL && i < m->n; i++) {
        const opf_const *w = m->branches[i].weights;
        parts[i] = m->branches[i].bias != NULL ? m->branches[i].bias
                                               : opf_const_splat(graph->consts, w->type, 1, &w->dims[1], &zero);
        if (parts[i] == NULL)
            return 0;
    }
    const opf_const *joined = parts != NULL ? opf_const_concat(graph->consts, parts, m->n, 0) : NULL;
    return joined != NULL ? opf_graph_add_constant(graph, NULL, joined) : 0;
}

static bool add_origin(opf_graph *graph, opf_node_id id, const opf_node *from)
{
    for (uint32_t i = 0; i < from->n_origin; i++)
        if (!opf_node_add_origin(graph, id, from->origin[i]))
            return false;
    return true;
}

/* A node with one new result; its shape is inferred. 0: out of memory, or that failed. */
static opf_value_id build(opf_fuse_context *context, const opf_op *op, const char *name, const opf_value_id *inputs,
                          uint32_t n, opf_node_id *id, opf_error *error)
{
    const opf_value_id result = opf_graph_add_value(context->graph, NULL);
    *id = result != 0 ? opf_graph_add_node(context->graph, op, op->name, name, inputs, n, &result, 1) : 0;
    return *id != 0 && opf_fuse_infer(context, *id, error) == OPF_OK ? result : 0;
}

static bool add_split(opf_fuse_context *context, const merge *m, opf_value_id joined)
{
    opf_graph *graph = context->graph;
    int64_t *widths = OPF_NEW(context->scratch, int64_t, m->n);
    opf_value_id *results = OPF_NEW(context->scratch, opf_value_id, m->n);
    if (widths == NULL || results == NULL)
        return false;
    for (uint32_t i = 0; i < m->n; i++) {
        widths[i] = m->branches[i].weights->dims[1];
        results[i] = m->branches[i].result;
    }
    const opf_value_id sizes = opf_graph_add_constant(graph, NULL, opf_const_ints(graph->consts, widths, m->n));
    const char *name = opf_arena_printf(graph->arena, "%s/split", m->product.name);
    if (sizes == 0 || name == NULL)
        return false;
    const opf_value_id inputs[] = {joined, sizes};
    const opf_node_id split =
        opf_graph_add_node(graph, &opf_op_Split, opf_op_Split.name, name, inputs, 2, results, m->n);
    return split != 0 && opf_node_set_int(graph, split, "axis", -1);
}

static opf_status apply(opf_fuse_context *context, merge *m, opf_node_id *anchor, opf_error *error)
{
    opf_graph *graph = context->graph;
    opf_node *products = OPF_NEW(context->scratch, opf_node, 2 * (size_t)m->n);
    opf_node_id add = 0;
    OPF_OOM_IF(error, products == NULL);
    opf_node *adds = products + m->n;
    for (uint32_t i = 0; i < m->n; i++) {
        products[i] = *opf_graph_node(graph, m->branches[i].product);
        opf_graph_remove_node(graph, m->branches[i].product);
        if (m->branches[i].add != 0) {
            adds[i] = *opf_graph_node(graph, m->branches[i].add);
            opf_graph_remove_node(graph, m->branches[i].add);
        }
    }
    m->product = products[0];
    const opf_value_id inputs[] = {m->x, weights_value(context, m), m->any_bias ? bias_value(context, m) : 0};
    OPF_OOM_IF(error, inputs[1] == 0 || (m->any_bias && inputs[2] == 0));
    opf_value_id joined = build(context, m->all_gemm ? &opf_op_Gemm : &opf_op_MatMul, m->product.name, inputs,
                                m->all_gemm && m->any_bias ? 3 : 2, anchor, error);
    OPF_OOM_IF(error, joined == 0);
    if (m->any_bias && !m->all_gemm) {
        const opf_value_id operands[] = {joined, inputs[2]};
        const char *name = NULL;
        for (uint32_t i = 0; i < m->n && name == NULL; i++)
            name = adds[i].name;
        joined = build(context, &opf_op_Add, name, operands, 2, &add, error);
        OPF_OOM_IF(error, joined == 0);
    }
    OPF_OOM_IF(error, !add_split(context, m, joined));
    for (uint32_t i = 0; i < m->n; i++)
        OPF_OOM_IF(error,
                   !add_origin(graph, *anchor, &products[i]) || !add_origin(graph, add != 0 ? add : *anchor, &adds[i]));
    return OPF_OK;
}

opf_status opf_absorb_horizontal(opf_fuse_context *context, bool *changed, opf_error *error)
{
    opf_graph *graph = context->graph;
    for (opf_value_id x = 1; x < graph->n_values; x++) {
        const opf_value *value = opf_graph_value(graph, x);
        opf_node_id anchor = 0;
        merge m;
        if (value->n_uses < 2 || value->constant != NULL || value->info.rank < 2)
            continue;
        OPF_TRY(find_merge(context, x, &m, error));
        if (m.n < 2 || !opf_fuse_allows(context, rule, m.branches[0].product))
            continue;
        OPF_TRY(apply(context, &m, &anchor, error));
        *changed = true;
        OPF_TRY(opf_fuse_done(context, rule, anchor, error));
    }
    return OPF_OK;
}
