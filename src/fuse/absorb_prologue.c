/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adds in front of what works on rows become its prologue: residuals of a LayerNormalization or RMSNormalization
 * (skip-layer-norm), masks and biases of a Softmax (mask-softmax). The sum is formed while the row is read, and stored
 * as an extra output when others need it, as in pre-norm transformers.
 */
#include "fuse/absorb_steps.h"
#include "ops/rows.h"

enum { MAX_ADDS = 3 };

typedef struct add_chain {
    opf_node_id adds[MAX_ADDS]; /* nearest to the norm first */
    uint32_t operand[MAX_ADDS]; /* input of the add that goes on up; the other one is read from outside */
    uint32_t n;
    opf_value_id sum; /* result of adds[0] */
} add_chain;

static bool is_softmax(const opf_node *node)
{
    return node->op == &opf_op_Softmax || node->op == &opf_op_LogSoftmax;
}

static bool is_short(const opf_graph *graph, const opf_node *softmax)
{
    const opf_info *x = &opf_graph_value(graph, softmax->inputs[0])->info;
    return x->rank > 0 && opf_dim_is_number(x->dims[x->rank - 1]) && x->dims[x->rank - 1].n <= OPF_SHORT_ROW;
}

static const char *rule_of(const opf_node *node)
{
    return is_softmax(node) ? "mask-softmax" : "skip-layer-norm";
}

/* Reads rows, along the last axes. */
static bool has_rows(const opf_graph *graph, const opf_node *node)
{
    const int64_t axis = opf_node_int(node, "axis", -1);
    if (is_softmax(node))
        return axis == -1 || axis == (int64_t)opf_graph_value(graph, node->inputs[0])->info.rank - 1;
    return node->op == &opf_op_LayerNormalization || node->op == &opf_op_RMSNormalization;
}

static bool is_add(const opf_graph *graph, opf_node_id id)
{
    return opf_steps_is_candidate(graph, id) && opf_graph_node(graph, id)->op == &opf_op_Add &&
           opf_graph_node(graph, id)->n_inputs == 2;
}

static bool same_info(opf_fuse_context *context, opf_value_id a, opf_value_id b)
{
    return opf_legal_same(context, &opf_graph_value(context->graph, a)->info, &opf_graph_value(context->graph, b)->info,
                          NULL);
}

/* The epilogue of a contraction will take this Add, as it takes a bias. */
static bool has_host(const opf_graph *graph, const opf_node *add)
{
    return opf_steps_is_hosted(graph, add->inputs[0]) || opf_steps_is_hosted(graph, add->inputs[1]);
}

static bool adds_constant(const opf_graph *graph, const opf_node *add)
{
    return opf_graph_value(graph, add->inputs[0])->constant != NULL ||
           opf_graph_value(graph, add->inputs[1])->constant != NULL;
}

/* Which operand of the add is as large as the sum; the one that goes on with an Add of its own is better. 2: none. */
static uint32_t main_operand(opf_fuse_context *context, const opf_node *add)
{
    uint32_t best = 2;
    for (uint32_t i = 0; i < 2; i++) {
        if (!same_info(context, add->inputs[i], add->outputs[0]) ||
            opf_graph_value(context->graph, add->inputs[i])->constant != NULL)
            continue;
        if (best == 2 || is_add(context->graph, opf_graph_value(context->graph, add->inputs[i])->producer))
            best = i;
    }
    return best;
}

static bool report(opf_fuse_context *context, opf_node_id norm, opf_miss_code code, opf_node_id fault,
                   const char *reason)
{
    const opf_graph *graph = context->graph;
    return opf_report_miss(context->report, rule_of(opf_graph_node(graph, norm)), opf_graph_node(graph, norm)->name, code,
                           opf_graph_node(graph, fault)->name, 1, 2, "%s", reason);
}

/* Whether the sum must be, and can be, stored for others: no operand of the norm may come from it. */
static bool may_store_sum(opf_fuse_context *context, const opf_node *norm, opf_node_id add)
{
    for (uint32_t i = 1; i < norm->n_inputs; i++)
        if (norm->inputs[i] != 0 && opf_graph_value(context->graph, norm->inputs[i])->producer != 0 &&
            opf_legal_depends(context, norm->inputs[i], add))
            return false;
    return true;
}

/* Collects the adds; n stays 0 when there is nothing to do. */
static opf_status find_chain(opf_fuse_context *context, opf_node_id id, add_chain *chain, opf_error *error)
{
    const opf_graph *graph = context->graph;
    const opf_node *norm = opf_graph_node(graph, id);
    opf_value_id value = norm->inputs[0];
    opf_node_id next = opf_graph_value(graph, value)->producer;
    chain->n = 0;
    chain->sum = value;
    if (!is_add(graph, next) || !opf_types_have(OPF_TYPES_FLOAT, opf_graph_value(graph, value)->info.type))
        return OPF_OK;
    const opf_node *first = opf_graph_node(graph, next);
    if (is_softmax(norm) && has_host(graph, first) && opf_fuse_is_enabled(context, "epilogue"))
        return OPF_OK; /* a contraction adds it where the scores lie already */
    if (is_softmax(norm) && is_short(graph, norm)) {
        OPF_OOM_IF(error, !report(context, id, OPF_MISS_NO_GAIN, next,
                                  "rows are short: Softmax turns blocks of them, which it does without steps"));
        return OPF_OK;
    }
    if (opf_graph_single_use(graph, value) == NULL) {
        /* A contraction that stores the sum itself saves more: the norm then reads one tensor, not two. */
        if (has_host(graph, first) && opf_fuse_is_enabled(context, "epilogue"))
            return OPF_OK;
        if (!may_store_sum(context, norm, next)) {
            OPF_OOM_IF(error, !report(context, id, OPF_MISS_NOT_CONVEX, next,
                                      "scale or bias is computed from the sum, which others read too"));
            return OPF_OK;
        }
    } else if (adds_constant(graph, first) && has_host(graph, first)) {
        return OPF_OK; /* a bias */
    }
    while (chain->n < MAX_ADDS && is_add(graph, next)) {
        const opf_node *add = opf_graph_node(graph, next);
        const uint32_t main = main_operand(context, add);
        if (chain->n > 0 && (opf_graph_single_use(graph, value) == NULL || has_host(graph, add) || main == 2))
            return OPF_OK;
        if (main == 2) {
            OPF_OOM_IF(error, !report(context, id, OPF_MISS_SHAPE_UNKNOWN, next,
                                      "no operand of the sum is proven to have its shape"));
            return OPF_OK;
        }
        chain->adds[chain->n] = next;
        chain->operand[chain->n++] = main;
        value = add->inputs[main];
        next = opf_graph_value(graph, value)->producer;
    }
    return OPF_OK;
}

/* The steps run from the farthest add to the nearest; each keeps the order of its operands. */
static bool apply_chain(opf_graph *graph, opf_node_id id, const add_chain *chain)
{
    for (uint32_t k = chain->n; k-- > 0;) {
        const opf_node add = *opf_graph_node(graph, chain->adds[k]);
        const uint32_t main = chain->operand[k];
        const uint32_t step_index = opf_graph_node(graph, id)->prologue.n;
        opf_step step = {.op = add.op,
                         .op_type = add.op_type,
                         .type = opf_graph_value(graph, add.outputs[0])->info.type,
                         .attrs = add.attrs,
                         .n_attrs = add.n_attrs,
                         .n_args = 2,
                         .output = -1,
                         .name = add.name};
        if (step_index > 0)
            step.args[main] = (opf_arg){.kind = OPF_ARG_STEP, .index = step_index - 1};
        else
            step.args[main] = (opf_arg){.kind = OPF_ARG_ANCHOR};
        step.args[1 - main] = (opf_arg){.kind = OPF_ARG_INPUT, .index = opf_graph_node(graph, id)->n_inputs};
        if (!opf_node_join_origin(graph, id, chain->adds[k]))
            return false;
        opf_graph_remove_node(graph, chain->adds[k]);
        opf_steps *steps = &opf_graph_node(graph, id)->prologue;
        if ((step_index == 0 && !opf_graph_set_input(graph, id, 0, add.inputs[main])) ||
            !opf_steps_append_operand(graph, id, add.inputs[1 - main]) ||
            !OPF_PUSH(graph->arena, steps->list, steps->n, steps->capacity, step))
            return false;
    }
    if (opf_graph_value(graph, chain->sum)->n_uses == 0)
        return true;
    opf_steps *steps = &opf_graph_node(graph, id)->prologue;
    steps->list[steps->n - 1].output = (int32_t)opf_graph_node(graph, id)->n_outputs;
    return opf_graph_append_output(graph, id, chain->sum);
}

opf_status opf_absorb_prologue(opf_fuse_context *context, bool *changed, opf_error *error)
{
    for (opf_node_id id = 1; id < context->graph->n_nodes; id++) {
        const opf_node *node = opf_graph_node(context->graph, id);
        add_chain chain;
        if (!opf_node_is_alive(node) || node->prologue.n != 0 || node->n_inputs == 0 || node->inputs[0] == 0 ||
            !has_rows(context->graph, node))
            continue;
        OPF_TRY(find_chain(context, id, &chain, error));
        if (chain.n == 0 || !opf_fuse_allows(context, rule_of(node), id))
            continue;
        const char *rule = rule_of(node);
        OPF_OOM_IF(error, !apply_chain(context->graph, id, &chain));
        *changed = true;
        OPF_TRY(opf_fuse_done(context, rule, id, error));
    }
    return OPF_OK;
}
