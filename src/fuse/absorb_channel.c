/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conv, then arithmetic with a constant per channel: y = conv*k + t folds as W' = k*W along the output channels and
 * b' = k*b + t. Vectors are computed in double and rounded once, weights by recipe.
 */
#include "fuse/absorb_channel.h"

#include "fuse/channel.h"
#include "fuse/legality.h"
#include "ops/op.h"

#include <string.h>

typedef struct channel_fold {
    opf_node_id reader;
    uint32_t operand;        /* of the reader, that is the constant */
    const opf_const *vector; /* double, [C] */
    const char *rule;
} channel_fold;

/* The constant as one double per channel, if it varies along the axis of the channels only; NULL otherwise. */
static const opf_const *per_channel(opf_graph *graph, const opf_const *c, int32_t rank, int64_t channels)
{
    if (c->rank > rank || (c->count != 1 && c->count != (size_t)channels))
        return NULL;
    for (int32_t i = 0; c->count != 1 && i < c->rank; i++)
        if (c->dims[i] != (i + rank - c->rank == 1 ? channels : 1))
            return NULL;
    return opf_channel_is_finite(c) ? opf_channel_vector(graph->consts, c, channels) : NULL;
}

/* Add and Sub scale nothing. */
static bool may_scale(const opf_const *w, const opf_const *vector, const opf_op *op)
{
    const bool divides = op == &opf_op_Div;
    return (!divides && op != &opf_op_Mul) ||
           ((!divides || opf_channel_divides(vector)) && opf_channel_keeps_range(w->type, vector, divides));
}

static bool is_arithmetic(const opf_op *op)
{
    return op == &opf_op_Add || op == &opf_op_Sub || op == &opf_op_Mul || op == &opf_op_Div;
}

static const opf_const *constant_of(const opf_graph *graph, opf_value_id value)
{
    return value != 0 ? opf_graph_value(graph, value)->constant : NULL;
}

static bool has_constant_weights(const opf_graph *graph, const opf_node *conv)
{
    if ((conv->op != &opf_op_Conv && conv->op != &opf_op_ConvTranspose) || conv->epilogue.n != 0 ||
        conv->n_inputs != conv->n_own_inputs || conv->n_own_inputs < 2)
        return false;
    const opf_const *w = constant_of(graph, conv->inputs[1]);
    return w != NULL && w->rank >= 2 && opf_types_have(OPF_TYPES_FLOAT, w->type) &&
           (conv->n_own_inputs < 3 || conv->inputs[2] == 0 || constant_of(graph, conv->inputs[2]) != NULL);
}

/* Outputs: rows of the weights of a Conv, columns of each group of those of a ConvTranspose. */
static int64_t output_channels(const opf_node *conv, const opf_const *w)
{
    return conv->op == &opf_op_Conv ? w->dims[0] : w->dims[1] * opf_node_int(conv, "group", 1);
}

static const opf_const *scale_outputs(opf_const_pool *pool, const opf_node *conv, const opf_const *w,
                                      const opf_const *factor)
{
    return conv->op == &opf_op_Conv ? opf_const_scale(pool, w, factor, 0)
                                    : opf_channel_scale_columns(pool, w, factor, opf_node_int(conv, "group", 1));
}

static bool find_fold(opf_fuse_context *context, const opf_node *conv, channel_fold *fold)
{
    opf_graph *graph = context->graph;
    const opf_use *use = opf_graph_single_use(graph, conv->outputs[0]);
    if (use == NULL || use->input > 1)
        return false;
    const opf_node *reader = opf_graph_node(graph, use->node);
    fold->reader = use->node;
    fold->operand = 1 - use->input;
    if (reader->op == NULL || !is_arithmetic(reader->op) || reader->n_inputs != 2 || reader->n_outputs != 1 ||
        reader->epilogue.n != 0 || (reader->op == &opf_op_Div && fold->operand == 0))
        return false;
    const opf_const *w = constant_of(graph, conv->inputs[1]), *c = constant_of(graph, reader->inputs[fold->operand]);
    if (c == NULL || c->type != w->type ||
        !opf_legal_same(context, &opf_graph_value(graph, reader->outputs[0])->info,
                        &opf_graph_value(graph, conv->outputs[0])->info, NULL))
        return false;
    fold->vector =
        per_channel(graph, c, opf_graph_value(graph, conv->outputs[0])->info.rank, output_channels(conv, w));
    fold->rule = reader->op == &opf_op_Add || reader->op == &opf_op_Sub ? "conv-add" : "conv-mul";
    return fold->vector != NULL && may_scale(w, fold->vector, reader->op);
}

/* Factor and term of y = conv * factor + term, [C] each in double; NULL: 1 and 0. False: out of memory. */
static bool factor_and_term(opf_graph *graph, const channel_fold *fold, const opf_const **factor,
                            const opf_const **term)
{
    static const double minus_one = -1.0;
    opf_const_pool *pool = graph->consts;
    const opf_op *op = opf_graph_node(graph, fold->reader)->op;
    const opf_const *minus = opf_const_splat(pool, OPF_DOUBLE, 1, fold->vector->dims, &minus_one);
    *factor = NULL;
    *term = NULL;
    if (minus == NULL)
        return false;
    if (op == &opf_op_Mul)
        *factor = fold->vector;
    else if (op == &opf_op_Div)
        *factor = opf_channel_reciprocal(pool, fold->vector);
    else
        *term =
            op == &opf_op_Sub && fold->operand == 1 ? opf_const_compute(pool, '*', minus, fold->vector) : fold->vector;
    if (op == &opf_op_Sub && fold->operand == 0)
        *factor = minus;
    return *factor != NULL || *term != NULL;
}

static opf_value_id constant_value(opf_graph *graph, const char *name, const opf_const *constant)
{
    return constant != NULL ? opf_graph_add_constant(graph, name, constant) : 0;
}

static bool set_bias(opf_graph *graph, opf_node_id id, const opf_const *bias)
{
    const opf_value_id value = constant_value(graph, NULL, bias);
    if (value == 0)
        return false;
    return opf_graph_node(graph, id)->n_own_inputs > 2 ? opf_graph_set_input(graph, id, 2, value)
                                                       : opf_graph_append_input(graph, id, value);
}

static opf_status apply_fold(opf_graph *graph, opf_node_id id, const channel_fold *fold, opf_error *error)
{
    opf_const_pool *pool = graph->consts;
    const opf_node *conv = opf_graph_node(graph, id);
    const opf_const *w = constant_of(graph, conv->inputs[1]);
    const opf_const *b = conv->n_own_inputs > 2 ? constant_of(graph, conv->inputs[2]) : NULL;
    const opf_const *factor = NULL, *term = NULL;
    OPF_OOM_IF(error, !factor_and_term(graph, fold, &factor, &term));
    if (factor != NULL) {
        const char *name = opf_graph_value(graph, conv->inputs[1])->name;
        const opf_value_id scaled = constant_value(graph, name, scale_outputs(pool, conv, w, factor));
        OPF_OOM_IF(error, scaled == 0 || !opf_graph_set_input(graph, id, 1, scaled));
    }
    const opf_const *bias = b != NULL && factor != NULL ? opf_const_compute(pool, '*', b, factor) : b;
    if (term != NULL)
        bias = bias != NULL ? opf_const_compute(pool, '+', bias, term) : term;
    OPF_OOM_IF(error, b != NULL && bias == NULL);
    if (bias != b) {
        OPF_OOM_IF(error, !set_bias(graph, id, opf_const_cast(pool, bias, w->type)));
    }
    const opf_value_id result = opf_graph_node(graph, fold->reader)->outputs[0];
    OPF_OOM_IF(error, !opf_node_join_origin(graph, id, fold->reader));
    opf_graph_remove_node(graph, fold->reader);
    OPF_OOM_IF(error, !opf_graph_set_output(graph, id, 0, result));
    return OPF_OK;
}

/* While one Add, Sub, Mul or Div with a constant per channel reads the convolution. */
static opf_status fold_after(opf_fuse_context *context, opf_node_id id, bool *changed, opf_error *error)
{
    channel_fold fold;
    while (has_constant_weights(context->graph, opf_graph_node(context->graph, id)) &&
           find_fold(context, opf_graph_node(context->graph, id), &fold) && opf_fuse_allows(context, fold.rule, id)) {
        OPF_TRY(apply_fold(context->graph, id, &fold, error));
        *changed = true;
        OPF_TRY(opf_fuse_done(context, fold.rule, id, error));
    }
    return OPF_OK;
}

/* ---- before a convolution ---- */

static bool pads_nothing(const opf_node *conv)
{
    const opf_attr *pads = opf_node_attr(conv, "pads");
    const char *kind = opf_node_string(conv, "auto_pad", "NOTSET");
    for (uint32_t i = 0; pads != NULL && i < pads->n; i++)
        if (pads->ints[i] != 0)
            return false;
    return strcmp(kind, "NOTSET") == 0 || strcmp(kind, "VALID") == 0;
}

/* Of a Conv: columns of each group of the weights; of a ConvTranspose their rows. */
static int64_t input_channels(const opf_node *node, const opf_const *w)
{
    return node->op == &opf_op_Conv ? w->dims[1] * opf_node_int(node, "group", 1) : w->dims[0];
}

static const opf_const *scale_inputs(opf_const_pool *pool, const opf_node *conv, const opf_const *w,
                                     const opf_const *factor)
{
    return conv->op == &opf_op_Conv ? opf_channel_scale_columns(pool, w, factor, opf_node_int(conv, "group", 1))
                                    : opf_const_scale(pool, w, factor, 0);
}

static bool find_before(opf_fuse_context *context, const opf_node *conv, channel_fold *fold)
{
    opf_graph *graph = context->graph;
    const opf_value *x = opf_graph_value(graph, conv->inputs[0]);
    const opf_node *node = opf_graph_node(graph, x->producer);
    if (x->producer == 0 || node->op == NULL || !is_arithmetic(node->op) || node->n_inputs != 2 ||
        node->n_outputs != 1 || node->epilogue.n != 0 || opf_graph_single_use(graph, conv->inputs[0]) == NULL)
        return false;
    const opf_const *w = constant_of(graph, conv->inputs[1]);
    fold->reader = x->producer;
    fold->operand = constant_of(graph, node->inputs[0]) != NULL ? 0 : 1;
    const opf_const *c = constant_of(graph, node->inputs[fold->operand]);
    const bool scales = node->op == &opf_op_Mul || node->op == &opf_op_Div;
    if (c == NULL || c->type != w->type || w->count == 0 || (node->op == &opf_op_Div && fold->operand == 0) ||
        (!scales && (conv->op != &opf_op_Conv || !pads_nothing(conv))) ||
        !opf_legal_same(context, &opf_graph_value(graph, node->inputs[1 - fold->operand])->info, &x->info, NULL))
        return false;
    fold->vector = per_channel(graph, c, x->info.rank, input_channels(conv, w));
    fold->rule = scales ? "conv-mul" : "conv-add";
    return fold->vector != NULL && may_scale(w, fold->vector, node->op);
}

/* W(x * factor + term) = (W factor) x + W term. */
static opf_status apply_before(opf_graph *graph, opf_node_id id, const channel_fold *fold, opf_error *error)
{
    opf_const_pool *pool = graph->consts;
    const opf_node *conv = opf_graph_node(graph, id);
    const int64_t groups = opf_node_int(conv, "group", 1);
    const opf_const *w = constant_of(graph, conv->inputs[1]), *factor = NULL, *term = NULL;
    const opf_const *bias = conv->n_own_inputs > 2 ? constant_of(graph, conv->inputs[2]) : NULL;
    OPF_OOM_IF(error, !factor_and_term(graph, fold, &factor, &term));
    if (term != NULL) {
        const opf_const *shift = opf_channel_shift_rows(pool, w, term, groups);
        bias = shift != NULL && bias != NULL ? opf_const_compute(pool, '+', bias, shift) : shift;
        OPF_OOM_IF(error, bias == NULL || !set_bias(graph, id, opf_const_cast(pool, bias, w->type)));
    }
    if (factor != NULL) {
        const char *name = opf_graph_value(graph, opf_graph_node(graph, id)->inputs[1])->name;
        const opf_value_id scaled =
            constant_value(graph, name, scale_inputs(pool, opf_graph_node(graph, id), w, factor));
        OPF_OOM_IF(error, scaled == 0 || !opf_graph_set_input(graph, id, 1, scaled));
    }
    const opf_value_id x = opf_graph_node(graph, fold->reader)->inputs[1 - fold->operand];
    OPF_OOM_IF(error, !opf_node_join_origin(graph, id, fold->reader) || !opf_graph_set_input(graph, id, 0, x));
    opf_graph_remove_node(graph, fold->reader);
    return OPF_OK;
}

static opf_status fold_before(opf_fuse_context *context, opf_node_id id, bool *changed, opf_error *error)
{
    const opf_graph *graph = context->graph;
    channel_fold fold;
    while (has_constant_weights(graph, opf_graph_node(graph, id)) && opf_graph_node(graph, id)->prologue.n == 0 &&
           find_before(context, opf_graph_node(context->graph, id), &fold) && opf_fuse_allows(context, fold.rule, id)) {
        OPF_TRY(apply_before(context->graph, id, &fold, error));
        *changed = true;
        OPF_TRY(opf_fuse_done(context, fold.rule, id, error));
    }
    return OPF_OK;
}

opf_status opf_absorb_channel(opf_fuse_context *context, bool *changed, opf_error *error)
{
    for (opf_node_id id = 1; id < context->graph->n_nodes; id++)
        OPF_TRY(fold_after(context, id, changed, error));
    for (opf_node_id id = 1; id < context->graph->n_nodes; id++)
        OPF_TRY(fold_before(context, id, changed, error));
    return OPF_OK;
}
