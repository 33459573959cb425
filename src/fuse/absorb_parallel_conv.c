/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolutions of one image with windows of one kind become one, with the filters of all, and a Split of its channels,
 * whose results are views. Activations behind them go along where they are the same; a branch that an elementwise node
 * of another kind reads keeps it as its epilogue and stays out.
 */
#include "fuse/absorb_steps.h"
#include "fuse/legality.h"

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

/* An attribute that one node has otherwise than the other one; NULL: none. */
static const char *other_attr(const opf_node *a, const opf_node *b)
{
    for (uint32_t i = 0; i < a->n_attrs; i++)
        if (!same_attr(&a->attrs[i], opf_node_attr(b, a->attrs[i].name)))
            return a->attrs[i].name;
    for (uint32_t i = 0; i < b->n_attrs; i++)
        if (opf_node_attr(a, b->attrs[i].name) == NULL)
            return b->attrs[i].name;
    return NULL;
}

static bool same_kernel(const opf_const *a, const opf_const *b)
{
    return a->type == b->type && a->rank == b->rank &&
           memcmp(a->dims + 1, b->dims + 1, (size_t)(a->rank - 1) * sizeof *a->dims) == 0;
}

/* Still a node of its own: what carries steps has fused otherwise. */
static bool is_conv(const opf_graph *graph, opf_use use)
{
    const opf_node *conv = opf_graph_node(graph, use.node);
    return use.node != 0 && use.input == 0 && conv->op == &opf_op_Conv && conv->prologue.n == 0 &&
           conv->epilogue.n == 0 && conv->n_inputs == conv->n_own_inputs && conv->n_own_inputs >= 2;
}

static bool get_weights(opf_fuse_context *context, branch *b, opf_refusal *why)
{
    const opf_graph *graph = context->graph;
    const opf_node *conv = opf_graph_node(graph, b->conv);
    const bool has_bias = conv->n_own_inputs > 2 && conv->inputs[2] != 0;
    b->weights = constant_of(graph, conv->inputs[1]);
    b->bias = has_bias ? constant_of(graph, conv->inputs[2]) : NULL;
    if (opf_node_int(conv, "group", 1) != 1)
        return opf_refuse(context, why, OPF_MISS_ATTR, b->conv, "group is %lld, must be 1",
                          (long long)opf_node_int(conv, "group", 1));
    if (b->weights == NULL || (has_bias && b->bias == NULL))
        return opf_refuse(context, why, OPF_MISS_CONST, b->conv, "%s must be a constant",
                          opf_graph_value(graph, conv->inputs[b->weights == NULL ? 1 : 2])->name);
    if (!opf_types_have(OPF_TYPES_FLOAT, b->weights->type))
        return opf_refuse(context, why, OPF_MISS_DTYPE, b->conv, "the weights are %s, must be a float",
                          opf_type_name(b->weights->type));
    return (b->weights->rank >= 3 && b->weights->count != 0) ||
           opf_refuse(context, why, OPF_MISS_SHAPE, b->conv, "the weights have no elements");
}

/* An output of the graph would be a copy. An elementwise reader would lose the convolution before it. */
static bool check_readers(opf_fuse_context *context, const branch *b, opf_refusal *why)
{
    const opf_graph *graph = context->graph;
    const opf_value *result = opf_graph_value(graph, b->result);
    for (uint32_t i = 0; i < result->n_uses; i++) {
        const opf_node_id node = result->uses[i].node;
        if (node == 0)
            return opf_refuse(context, why, OPF_MISS_IS_OUTPUT, b->conv,
                              "result %s is a graph output: a part would be copied", result->name);
        if (opf_steps_is_candidate(graph, node))
            return opf_refuse(context, why, OPF_MISS_NO_GAIN, node, "%s (%s) fuses better with %s alone",
                              opf_graph_node(graph, node)->name, opf_graph_node(graph, node)->op_type,
                              opf_graph_node(graph, b->conv)->name);
    }
    return true;
}

static bool get_branch(opf_fuse_context *context, opf_use use, branch *b, opf_refusal *why)
{
    const opf_graph *graph = context->graph;
    *b = (branch){.conv = use.node, .result = opf_graph_node(graph, use.node)->outputs[0]};
    if (!get_weights(context, b, why))
        return false;
    const opf_use *reader = opf_graph_single_use(graph, b->result);
    if (reader != NULL && opf_steps_is_candidate(graph, reader->node) &&
        opf_graph_node(graph, reader->node)->n_inputs == 1) {
        b->activation = reader->node;
        b->result = opf_graph_node(graph, reader->node)->outputs[0];
    }
    return check_readers(context, b, why);
}

static bool same_activations(opf_fuse_context *context, const branch *a, const branch *b, opf_refusal *why)
{
    const opf_node *x = opf_graph_node(context->graph, a->activation),
                   *y = opf_graph_node(context->graph, b->activation);
    if (a->activation == 0 && b->activation == 0)
        return true;
    if (a->activation != 0 && b->activation != 0 && x->op == y->op && other_attr(x, y) == NULL)
        return true;
    return opf_refuse(context, why, OPF_MISS_OP, b->activation != 0 ? b->activation : b->conv,
                      "%s is followed by %s, %s by %s", opf_graph_node(context->graph, b->conv)->name,
                      b->activation != 0 ? y->op_type : "no activation", opf_graph_node(context->graph, a->conv)->name,
                      a->activation == 0                     ? "none"
                      : b->activation != 0 && x->op == y->op ? "one with other attributes"
                                                             : x->op_type);
}

static bool fits(opf_fuse_context *context, const branch *a, const branch *b, opf_refusal *why)
{
    const opf_node *x = opf_graph_node(context->graph, a->conv), *y = opf_graph_node(context->graph, b->conv);
    if (!same_kernel(a->weights, b->weights))
        return opf_refuse(context, why, OPF_MISS_SHAPE, b->conv, "its window is not that of %s", x->name);
    const char *attr = other_attr(x, y);
    if (attr != NULL)
        return opf_refuse(context, why, OPF_MISS_ATTR, b->conv, "%s is not what it is at %s", attr, x->name);
    return same_activations(context, a, b, why);
}

/* The first set of at least two that fit one another. */
static bool find_merge(opf_fuse_context *context, opf_value_id x, merge *m)
{
    const opf_value *value = opf_graph_value(context->graph, x);
    branch b;
    for (uint32_t i = 0; i < value->n_uses; i++) {
        m->n = 0;
        for (uint32_t k = i; k < value->n_uses; k++)
            if (is_conv(context->graph, value->uses[k]) && get_branch(context, value->uses[k], &b, NULL) &&
                (k == i || (m->n > 0 && fits(context, &m->list[0], &b, NULL))))
                m->list[m->n++] = b;
        if (m->n >= 2)
            return true;
    }
    return false;
}

/* Of convolutions that read one image and stay apart: each but the first says what is in the way. */
static bool report(opf_fuse_context *context, opf_value_id x)
{
    const opf_graph *graph = context->graph;
    const opf_value *value = opf_graph_value(graph, x);
    branch first = {0}, b;
    opf_refusal of_first = {0};
    for (uint32_t i = 0; i < value->n_uses; i++) {
        opf_refusal why = {0};
        if (!is_conv(graph, value->uses[i]))
            continue;
        if (first.conv == 0) {
            (void)get_branch(context, value->uses[i], &first, &of_first);
            continue;
        }
        if (get_branch(context, value->uses[i], &b, &why) && of_first.reason == NULL)
            (void)fits(context, &first, &b, &why);
        if (why.reason == NULL)
            why = of_first;
        if (!opf_report_refusal(context, rule, b.conv, &why, 1, 2))
            return false;
    }
    return true;
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
        inputs[1] != 0 ? opf_graph_add_node(graph, &opf_op_Split, opf_op_Split.name, name, inputs, 2, results, m->n)
                       : 0;
    return split != 0 && opf_node_set_int(graph, split, "axis", 1);
}

/* The Concat of channels that joins the results of all branches, and nothing else; 0: there is none. */
static opf_node_id find_concat(const opf_graph *graph, const merge *m)
{
    const opf_use *use = opf_graph_single_use(graph, m->list[0].result);
    const opf_node_id id = use != NULL ? use->node : 0;
    const opf_node *concat = opf_graph_node(graph, id);
    if (!opf_fuse_is_plain(graph, id, &opf_op_Concat) || concat->n_inputs != m->n)
        return 0;
    const int64_t axis = opf_node_int(concat, "axis", 0);
    if (axis != 1 && axis + opf_graph_value(graph, concat->outputs[0])->info.rank != 1)
        return 0;
    for (uint32_t i = 0; i < m->n; i++) {
        use = opf_graph_single_use(graph, m->list[i].result);
        if (use == NULL || use->node != id)
            return 0;
    }
    return id;
}

/* The filters of all in the order of the Concat: then its result is that of the convolution. */
static void sort_branches(const opf_graph *graph, opf_node_id concat, merge *m)
{
    for (uint32_t i = 0; i < m->n; i++)
        for (uint32_t k = i + 1; k < m->n; k++)
            if (m->list[k].result == opf_graph_node(graph, concat)->inputs[i]) {
                const branch moved = m->list[i];
                m->list[i] = m->list[k];
                m->list[k] = moved;
            }
}

static bool replace_concat(opf_graph *graph, opf_node_id concat, opf_node_id by)
{
    const opf_value_id result = opf_graph_node(graph, concat)->outputs[0];
    if (!opf_node_join_origin(graph, by, concat))
        return false;
    opf_graph_remove_node(graph, concat);
    return opf_graph_set_output(graph, by, 0, result);
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
    const opf_node_id concat = find_concat(graph, m);
    opf_node_id activation = 0;
    OPF_OOM_IF(error, convs == NULL);
    if (concat != 0)
        sort_branches(graph, concat, m);
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
    OPF_OOM_IF(error, concat != 0 ? !replace_concat(graph, concat, activated ? activation : *anchor)
                                  : !add_split(context, m, joined));
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
        if (!find_merge(context, x, &m)) {
            OPF_OOM_IF(error, !report(context, x));
            continue;
        }
        if (!opf_fuse_allows(context, rule, m.list[0].conv))
            continue;
        OPF_TRY(apply(context, x, &m, &anchor, error));
        *changed = true;
        OPF_TRY(opf_fuse_done(context, rule, anchor, error));
    }
    return OPF_OK;
}
