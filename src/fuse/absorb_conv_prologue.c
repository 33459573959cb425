/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What stands before a 1x1 convolution is computed while its rows are read: the gate of squeeze-and-excite, and the
 * normalisation and activation of networks that normalise first. Only what no earlier anchor could take goes there, and
 * only where the other operands are small: one element a channel, or a channel of each image.
 */
#include "fuse/absorb_steps.h"
#include "fuse/legality.h"

enum { MAX_CHAIN = 6 }; /* of two operands each at most: as many as a kernel program has room for */

static const char rule[] = "conv-prologue";

typedef struct chain {
    opf_node_id nodes[MAX_CHAIN]; /* nearest to the convolution first */
    uint32_t main[MAX_CHAIN];     /* the operand that goes on up */
    uint32_t n;
    opf_value_id top;
} chain;

/* ---- the convolution ---- */

/* The attribute is absent, or a list of this number only. */
static bool check_list(opf_fuse_context *context, opf_node_id conv, const char *attr, int64_t wanted, opf_refusal *why)
{
    const opf_attr *found = opf_node_attr(opf_graph_node(context->graph, conv), attr);
    for (uint32_t i = 0; found != NULL && i < found->n; i++)
        if (found->ints[i] != wanted)
            return opf_refuse(context, why, OPF_MISS_ATTR, conv, "%s has %lld, must be %lld", attr, (long long)found->ints[i],
                              (long long)wanted);
    return true;
}

static bool check_constants(opf_fuse_context *context, opf_node_id id, opf_refusal *why)
{
    const opf_graph *graph = context->graph;
    const opf_node *conv = opf_graph_node(graph, id);
    for (uint32_t i = 1; i < 3 && i < conv->n_own_inputs; i++)
        if (conv->inputs[i] != 0 && opf_graph_value(graph, conv->inputs[i])->constant == NULL)
            return opf_refuse(context, why, OPF_MISS_CONST, id, "%s must be a constant",
                              opf_graph_value(graph, conv->inputs[i])->name);
    const opf_const *w = opf_graph_value(graph, conv->inputs[1])->constant;
    if (w->type != OPF_FLOAT)
        return opf_refuse(context, why, OPF_MISS_DTYPE, id, "the weights are %s, must be float", opf_type_name(w->type));
    if (w->rank < 3 || w->rank > 5)
        return opf_refuse(context, why, OPF_MISS_RANK, id, "the weights have %d dimensions, must have 3 to 5", (int)w->rank);
    for (int32_t i = 2; i < w->rank; i++)
        if (w->dims[i] != 1)
            return opf_refuse(context, why, OPF_MISS_SHAPE, id, "the window has size %lld, must be one pixel: a larger one reads pixels again and again",
                              (long long)w->dims[i]);
    return true;
}

static bool is_conv(const opf_node *node)
{
    return opf_node_is_alive(node) && node->op == &opf_op_Conv && node->prologue.n == 0 && node->n_own_inputs >= 2;
}

/* Rows of pixels times a constant matrix. With a window of one pixel and no strides, no auto_pad pads. */
static bool is_pointwise(opf_fuse_context *context, opf_node_id id, opf_refusal *why)
{
    const int64_t groups = opf_node_int(opf_graph_node(context->graph, id), "group", 1);
    if (groups != 1)
        return opf_refuse(context, why, OPF_MISS_ATTR, id, "group is %lld, must be 1", (long long)groups);
    return check_constants(context, id, why) && check_list(context, id, "strides", 1, why) &&
           check_list(context, id, "pads", 0, why);
}

/* ---- what stands before it ---- */

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
static bool find_main(opf_fuse_context *context, opf_node_id id, uint32_t *main, opf_refusal *why)
{
    const opf_graph *graph = context->graph;
    const opf_node *node = opf_graph_node(graph, id);
    const opf_info *result = &opf_graph_value(graph, node->outputs[0])->info;
    bool found = false;
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const opf_value_id value = node->inputs[i];
        if (value == 0 || is_small(&opf_graph_value(graph, value)->info, result->rank))
            continue;
        if (found)
            return opf_refuse(context, why, OPF_MISS_SHAPE, id, "%s varies over the image, must be one element a channel",
                              opf_graph_value(graph, value)->name);
        if (!opf_legal_same(context, &opf_graph_value(graph, value)->info, result, why)) {
            if (why != NULL)
                why->node = id;
            return false;
        }
        found = true;
        *main = i;
    }
    return found || opf_refuse(context, why, OPF_MISS_SHAPE, id, "no operand is as large as the image");
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

/* The node that makes c->top goes along, with operand `main` from above; `reader` is what reads it. A node of another
   kind is refused without a word: nothing that could be a prologue stands there. */
static bool may_join(opf_fuse_context *context, const chain *c, opf_node_id reader, uint32_t *main, opf_refusal *why)
{
    const opf_graph *graph = context->graph;
    const opf_value *value = opf_graph_value(graph, c->top);
    const opf_node *node = opf_graph_node(graph, value->producer);
    const bool is_norm = value->producer != 0 && is_constant_norm(graph, node) && c->top == node->outputs[0];
    *main = 0;
    if (value->producer == 0 || value->info.type != OPF_FLOAT || (!is_norm && !opf_steps_is_candidate(graph, value->producer)))
        return false;
    if (!is_norm && !find_main(context, value->producer, main, why))
        return false;
    if (!is_norm && !opf_steps_has_kernel(graph, value->producer))
        return opf_refuse(context, why, OPF_MISS_NO_KERNEL, value->producer, "no kernel computes %s (%s)", node->name,
                          node->op_type);
    return opf_legal_read_once(context, c->top, reader, why);
}

/* why: of the node that is nearest to the convolution, when that is refused. */
static void find_chain(opf_fuse_context *context, opf_node_id conv, chain *c, opf_refusal *why)
{
    const opf_graph *graph = context->graph;
    uint32_t main;
    *c = (chain){.top = opf_graph_node(graph, conv)->inputs[0]};
    while (c->n < MAX_CHAIN && may_join(context, c, c->n == 0 ? conv : c->nodes[c->n - 1], &main, c->n == 0 ? why : NULL)) {
        const opf_node_id producer = opf_graph_value(graph, c->top)->producer;
        c->main[c->n] = main;
        c->nodes[c->n++] = producer;
        c->top = opf_graph_node(graph, producer)->inputs[main];
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

static opf_status absorb(opf_fuse_context *context, opf_node_id id, bool *changed, opf_error *error)
{
    chain c;
    opf_refusal why = {0};
    find_chain(context, id, &c, &why);
    if (c.n == 0 || !is_pointwise(context, id, &why)) {
        OPF_OOM_IF(error, !opf_report_refusal(context, rule, id, &why, 1 + c.n, 2 + c.n));
        return OPF_OK;
    }
    if (!opf_fuse_allows(context, rule, id))
        return OPF_OK;
    OPF_OOM_IF(error, !apply(context->graph, id, &c));
    *changed = true;
    return opf_fuse_done(context, rule, id, error);
}

opf_status opf_absorb_conv_prologue(opf_fuse_context *context, bool *changed, opf_error *error)
{
    for (opf_node_id id = 1; id < context->graph->n_nodes; id++)
        if (is_conv(opf_graph_node(context->graph, id)))
            OPF_TRY(absorb(context, id, changed, error));
    return OPF_OK;
}
