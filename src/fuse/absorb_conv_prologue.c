/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What stands before a 1x1 convolution is computed while its rows are read: the gate of squeeze-and-excite, and the
 * normalisation and activation of networks that normalise first. Only what no earlier anchor could take goes there, and
 * only where the other operands are small: one element a channel, or a channel of each image.
 */
#include "fuse/absorb_channel.h"
#include "fuse/absorb_steps.h"

enum { MAX_CHAIN = 4 };

static const char rule[] = "conv-prologue";

typedef struct chain {
    opf_node_id nodes[MAX_CHAIN]; /* nearest to the convolution first */
    uint32_t main[MAX_CHAIN];     /* the operand that goes on up */
    uint32_t n;
    opf_value_id top;
} chain;

static bool are(const opf_node *node, const char *attr, int64_t wanted)
{
    const opf_attr *found = opf_node_attr(node, attr);
    for (uint32_t i = 0; found != NULL && i < found->n; i++)
        if (found->ints[i] != wanted)
            return false;
    return true;
}

/* Rows of pixels times a constant matrix. */
static bool is_pointwise(const opf_graph *graph, const opf_node *node)
{
    if (!opf_node_is_alive(node) || node->op != &opf_op_Conv || node->prologue.n != 0 || node->n_own_inputs < 2 ||
        opf_node_int(node, "group", 1) != 1 || !are(node, "strides", 1) || !are(node, "pads", 0))
        return false;
    const opf_const *w = opf_graph_value(graph, node->inputs[1])->constant;
    if (w == NULL || w->type != OPF_FLOAT || w->rank < 3 || w->rank > 5 ||
        (node->n_own_inputs > 2 && node->inputs[2] != 0 && opf_graph_value(graph, node->inputs[2])->constant == NULL))
        return false;
    for (int32_t i = 2; i < w->rank; i++)
        if (w->dims[i] != 1)
            return false;
    return true; /* with a kernel of one and no strides, no auto_pad pads */
}

/* No more than a channel of each image. */
static bool is_small(const opf_info *info, int32_t rank)
{
    if (info->type != OPF_FLOAT || info->rank < 0 || info->rank > rank)
        return false;
    for (int32_t k = 0; k < info->rank; k++)
        if (k + rank - info->rank >= 2 && !opf_dim_is(info->dims[k], 1))
            return false;
    return true;
}

/* The one operand of the node that has the shape of its result, all others being small. */
static bool find_main(opf_fuse_context *context, const opf_node *node, uint32_t *main)
{
    const opf_graph *graph = context->graph;
    const opf_info *result = &opf_graph_value(graph, node->outputs[0])->info;
    bool found = false;
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const opf_value_id value = node->inputs[i];
        if (value == 0 || is_small(&opf_graph_value(graph, value)->info, result->rank))
            continue;
        if (found || !opf_legal_same(context, &opf_graph_value(graph, value)->info, result, NULL))
            return false;
        found = true;
        *main = i;
    }
    return found;
}

static bool is_constant_norm(const opf_graph *graph, const opf_node *node)
{
    if (node->op != &opf_op_BatchNormalization || node->epilogue.n != 0 || node->prologue.n != 0 ||
        node->n_own_inputs != 5 || opf_node_int(node, "training_mode", 0) != 0)
        return false;
    for (uint32_t i = 1; i < 5; i++)
        if (opf_graph_value(graph, node->inputs[i])->constant == NULL ||
            opf_graph_value(graph, node->inputs[i])->constant->type != OPF_FLOAT)
            return false;
    for (uint32_t o = 1; o < node->n_outputs; o++)
        if (node->outputs[o] != 0)
            return false;
    return true;
}

/* What makes the top could take the chain's first nodes as its own epilogue, so they are left to it. */
static void leave_hosted(const opf_graph *graph, chain *c)
{
    const opf_node_id producer = opf_graph_value(graph, c->top)->producer;
    if (producer == 0 || opf_graph_single_use(graph, c->top) == NULL ||
        (!opf_steps_is_anchor(opf_graph_node(graph, producer)) && !opf_steps_is_candidate(graph, producer)))
        return;
    while (c->n > 0 && opf_graph_node(graph, c->nodes[c->n - 1])->op != &opf_op_BatchNormalization) {
        c->n--;
        c->top = opf_graph_node(graph, c->nodes[c->n])->outputs[0];
    }
}

static void find_chain(opf_fuse_context *context, opf_node_id conv, chain *c)
{
    const opf_graph *graph = context->graph;
    *c = (chain){.top = opf_graph_node(graph, conv)->inputs[0]};
    while (c->n < MAX_CHAIN) {
        const opf_value *value = opf_graph_value(graph, c->top);
        const opf_node *node = opf_graph_node(graph, value->producer);
        uint32_t main = 0;
        if (value->producer == 0 || value->info.type != OPF_FLOAT || opf_graph_single_use(graph, c->top) == NULL)
            break;
        if (is_constant_norm(graph, node) ? c->top != node->outputs[0]
                                          : !opf_steps_is_candidate(graph, value->producer) ||
                                                !find_main(context, node, &main))
            break;
        c->main[c->n] = main;
        c->nodes[c->n++] = value->producer;
        c->top = node->inputs[main];
    }
    leave_hosted(graph, c);
}

/* ---- applying ---- */

static bool push_step(opf_graph *graph, opf_node_id conv, const opf_node *node, const opf_op *op, uint32_t main,
                      const opf_value_id *inputs, uint32_t n_inputs)
{
    const uint32_t index = opf_graph_node(graph, conv)->prologue.n;
    opf_step step = {.op = op,
                     .op_type = op->name,
                     .type = OPF_FLOAT,
                     .attrs = op == node->op ? node->attrs : NULL,
                     .n_attrs = op == node->op ? node->n_attrs : 0,
                     .n_args = n_inputs,
                     .output = -1,
                     .name = node->name};
    for (uint32_t i = 0; i < n_inputs; i++) {
        if (i == main) {
            step.args[i] = index > 0 ? (opf_arg){.kind = OPF_ARG_STEP, .index = index - 1}
                                     : (opf_arg){.kind = OPF_ARG_ANCHOR};
        } else if (inputs[i] != 0) {
            step.args[i] = (opf_arg){.kind = OPF_ARG_INPUT, .index = opf_graph_node(graph, conv)->n_inputs};
            if (!opf_steps_append_operand(graph, conv, inputs[i]))
                return false;
        }
    }
    opf_steps *steps = &opf_graph_node(graph, conv)->prologue;
    return OPF_PUSH(graph->arena, steps->list, steps->n, steps->capacity, step);
}

/* Float, one element a channel, with a 1 for each spatial axis; 0: memory is out. */
static opf_value_id channel_value(opf_graph *graph, const opf_const *vector, int32_t rank)
{
    int64_t dims[OPF_MAX_RANK];
    for (int32_t i = 0; i < rank - 1; i++)
        dims[i] = i == 0 ? (int64_t)vector->count : 1;
    const opf_const *c = opf_const_cast(graph->consts, vector, OPF_FLOAT);
    c = c != NULL ? opf_const_reshape(graph->consts, c, rank - 1, dims) : NULL;
    return c != NULL ? opf_graph_add_constant(graph, NULL, c) : 0;
}

/* As x * k + t. */
static bool push_norm(opf_graph *graph, opf_node_id conv, const opf_node *norm, int32_t rank)
{
    opf_const_pool *pool = graph->consts;
    const opf_const *c[5] = {NULL};
    for (uint32_t i = 1; i < 5; i++)
        c[i] = opf_graph_value(graph, norm->inputs[i])->constant;
    const opf_const *epsilon = opf_const_float(pool, OPF_DOUBLE, (double)opf_node_float(norm, "epsilon", 1e-5f));
    const opf_const *k = epsilon != NULL ? opf_const_compute(pool, '+', c[4], epsilon) : NULL;
    k = k != NULL ? opf_const_sqrt(pool, k) : NULL;
    k = k != NULL ? opf_const_compute(pool, '/', c[1], k) : NULL;
    const opf_const *t = k != NULL ? opf_const_compute(pool, '*', c[3], k) : NULL;
    t = t != NULL ? opf_const_compute(pool, '-', c[2], t) : NULL;
    if (t == NULL)
        return false;
    const opf_value_id factors[] = {0, channel_value(graph, k, rank)}, terms[] = {0, channel_value(graph, t, rank)};
    return factors[1] != 0 && terms[1] != 0 && push_step(graph, conv, norm, &opf_op_Mul, 0, factors, 2) &&
           push_step(graph, conv, norm, &opf_op_Add, 0, terms, 2);
}

/* The steps run from the farthest node to the nearest. */
static bool apply(opf_graph *graph, opf_node_id conv, const chain *c)
{
    const int32_t rank = opf_graph_value(graph, c->top)->info.rank;
    opf_node copies[MAX_CHAIN];
    for (uint32_t k = 0; k < c->n; k++) {
        copies[k] = *opf_graph_node(graph, c->nodes[k]);
        if (!opf_node_join_origin(graph, conv, c->nodes[k]))
            return false;
        opf_graph_remove_node(graph, c->nodes[k]);
    }
    if (!opf_graph_set_input(graph, conv, 0, c->top))
        return false;
    for (uint32_t k = c->n; k-- > 0;)
        if (copies[k].op == &opf_op_BatchNormalization
                ? !push_norm(graph, conv, &copies[k], rank)
                : !push_step(graph, conv, &copies[k], copies[k].op, c->main[k], copies[k].inputs, copies[k].n_inputs))
            return false;
    return true;
}

opf_status opf_absorb_conv_prologue(opf_fuse_context *context, bool *changed, opf_error *error)
{
    for (opf_node_id id = 1; id < context->graph->n_nodes; id++) {
        chain c;
        if (!is_pointwise(context->graph, opf_graph_node(context->graph, id)))
            continue;
        /* Constants go into the weights first, while there are no operands of steps. */
        OPF_TRY(opf_absorb_channel(context, id, changed, error));
        OPF_TRY(opf_absorb_channel_before(context, id, changed, error));
        find_chain(context, id, &c);
        if (c.n == 0 || !opf_fuse_allows(context, rule, id))
            continue;
        OPF_OOM_IF(error, !apply(context->graph, id, &c));
        *changed = true;
        OPF_TRY(opf_fuse_done(context, rule, id, error));
    }
    return OPF_OK;
}
