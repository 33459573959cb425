/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Elementwise nodes behind an anchor become its epilogue: Conv+Relu, Conv+Add+Relu, MatMul+bias, Gemm+Gelu, pools and
 * normalisations alike. Anchors are visited last first, so that the sum of two convolutions goes to the later one,
 * which runs after the other anyway.
 */
#include "fuse/absorb_steps.h"

#include <string.h>

/* ---- names ---- */

static bool is_constant(const opf_graph *graph, opf_value_id value)
{
    return value == 0 || opf_graph_value(graph, value)->constant != NULL;
}

/* All operands but one are constants, and it is not plain arithmetic. */
static bool is_activation(const opf_graph *graph, const opf_node *node)
{
    if (node->op == &opf_op_Add || node->op == &opf_op_Sub || node->op == &opf_op_Mul || node->op == &opf_op_Div)
        return false;
    uint32_t variable = 0;
    for (uint32_t i = 0; i < node->n_inputs; i++)
        variable += !is_constant(graph, node->inputs[i]);
    return variable <= 1;
}

static bool adds(const opf_node *node)
{
    return node->op == &opf_op_Add || node->op == &opf_op_Sub || node->op == &opf_op_Sum;
}

static bool has_constant(const opf_graph *graph, const opf_node *node)
{
    for (uint32_t i = 0; i < node->n_inputs; i++)
        if (node->inputs[i] != 0 && is_constant(graph, node->inputs[i]))
            return true;
    return false;
}

/* A bias varies along the last axis only. */
static bool adds_bias(const opf_graph *graph, const opf_node *node)
{
    for (uint32_t i = 0; node->op == &opf_op_Add && i < 2; i++)
        if (opf_graph_value(graph, node->inputs[i])->info.rank <= 1 &&
            opf_graph_value(graph, node->inputs[i])->info.rank >= 0)
            return true;
    return node->op == &opf_op_Add && has_constant(graph, node);
}

/* The name under which taking the node is reported; what follows an Add of a convolution is part of that fusion. */
static const char *name_of(const opf_graph *graph, const opf_node *anchor, const opf_node *node, const char *before)
{
    if (anchor->op == &opf_op_Identity)
        return "region";
    if (anchor->op == &opf_op_Conv || anchor->op == &opf_op_ConvTranspose) {
        if (before != NULL && strcmp(before, "conv-add-relu") == 0 && is_activation(graph, node))
            return before;
        if (adds(node))
            return has_constant(graph, node) ? "conv-add" : "conv-add-relu";
        if ((node->op == &opf_op_Mul || node->op == &opf_op_Div) && has_constant(graph, node))
            return "conv-mul";
        return is_activation(graph, node) ? "conv-act" : "epilogue";
    }
    if ((anchor->op->traits & OPF_CONTRACTION) != 0) {
        if (adds_bias(graph, node) && before == NULL && anchor->epilogue.n == 0)
            return "matmul-bias";
        return is_activation(graph, node) ? "matmul-act" : "epilogue";
    }
    return "epilogue";
}

/* Names every node; one that was pulled goes with its reader. */
static void name_nodes(const opf_step_plan *plan, const char **names)
{
    const opf_graph *graph = plan->context->graph;
    const opf_node *anchor = opf_graph_node(graph, plan->anchor);
    const char *before = NULL;
    for (uint32_t i = 0; i < plan->n; i++) {
        uint32_t reader = i;
        while (reader + 1 < plan->n && plan->pulled[reader])
            reader++;
        const bool goes_along = i > 0 && plan->pulled[i - 1];
        names[i] = goes_along ? before : name_of(graph, anchor, opf_graph_node(graph, plan->nodes[reader]), before);
        before = names[i];
    }
}

/* ---- near misses ---- */

static bool report_refused(const opf_step_plan *plan)
{
    const opf_graph *graph = plan->context->graph;
    const opf_node *anchor = opf_graph_node(graph, plan->anchor);
    const char *rule = name_of(graph, anchor, opf_graph_node(graph, plan->refused), NULL);
    const opf_node *fault = opf_graph_node(graph, plan->why.node != 0 ? plan->why.node : plan->refused);
    return opf_report_miss(plan->context->report, rule, anchor->name, plan->why.code, fault->name, plan->n + 1,
                           plan->n + 2, "%s", plan->why.reason);
}

/* The anchor's plain result is needed by something that is no step. */
static bool report_used_outside(const opf_step_plan *plan, const char *rule)
{
    const opf_graph *graph = plan->context->graph;
    const opf_node *anchor = opf_graph_node(graph, plan->anchor);
    const opf_use *use = opf_steps_outside_use(plan, plan->n);
    if (use->node == 0)
        return opf_report_miss(plan->context->report, rule, anchor->name, OPF_MISS_IS_OUTPUT, anchor->name, plan->n,
                               plan->n + 1, "result %s is also a graph output",
                               opf_graph_value(graph, plan->plain)->name);
    const opf_node *reader = opf_graph_node(graph, use->node);
    const bool captured = use->input >= reader->n_inputs - reader->n_captures;
    return opf_report_miss(plan->context->report, rule, anchor->name,
                           captured ? OPF_MISS_CAPTURED : OPF_MISS_USED_OUTSIDE, reader->name, plan->n, plan->n + 1,
                           "result %s is also read %s %s (%s)", opf_graph_value(graph, plan->plain)->name,
                           captured ? "in a body of" : "by", reader->name, reader->op_type);
}

/* ---- absorbing ---- */

/* The end of the group that begins at `first`: one name, and long enough that nothing else needs the plain result. 0:
 * none. */
static uint32_t group_end(const opf_step_plan *plan, const char *const *names, uint32_t first)
{
    uint32_t end = first + 1;
    while (end < plan->n && (strcmp(names[end], names[first]) == 0))
        end++;
    while (end <= plan->n && opf_steps_outside_use(plan, end) != NULL)
        end++;
    return end <= plan->n ? end : 0;
}

static opf_status apply_groups(opf_step_plan *plan, bool *changed, opf_error *error)
{
    const char *names[OPF_MAX_STEPS];
    name_nodes(plan, names);
    for (uint32_t first = 0, end = 0; first < plan->n; first = end) {
        end = group_end(plan, names, first);
        if (end == 0) {
            OPF_OOM_IF(error, !report_used_outside(plan, names[first]));
            return OPF_OK;
        }
        if (!opf_fuse_allows(plan->context, names[first], plan->anchor))
            return OPF_OK;
        OPF_TRY(opf_steps_apply(plan, first, end, error));
        plan->plain = 0;
        *changed = true;
        OPF_TRY(opf_fuse_done(plan->context, names[first], plan->anchor, error));
    }
    return OPF_OK;
}

static opf_status absorb(opf_fuse_context *context, opf_node_id id, bool *changed, opf_error *error)
{
    opf_graph *graph = context->graph;
    const opf_node *anchor = opf_graph_node(graph, id);
    opf_step_plan plan = {.context = context, .anchor = id, .root = id};
    plan.result = opf_graph_value(graph, anchor->outputs[0])->info;
    plan.plain = anchor->epilogue.n == 0 ? anchor->outputs[0] : 0;
    opf_steps_begin(&plan);
    if (!opf_steps_may_host(&plan))
        return OPF_OK;
    opf_steps_grow(&plan);
    if (plan.refused != 0)
        OPF_OOM_IF(error, !report_refused(&plan));
    return plan.n != 0 ? apply_groups(&plan, changed, error) : OPF_OK;
}

opf_status opf_absorb_epilogue(opf_fuse_context *context, bool *changed, opf_error *error)
{
    opf_graph *graph = context->graph;
    opf_node_id *order = NULL;
    uint32_t n = 0;
    OPF_TRY(opf_graph_sort(graph, context->scratch, &order, &n, error));
    for (uint32_t i = n; i-- > 0;) {
        if (!opf_steps_is_anchor(opf_graph_node(graph, order[i])))
            continue;
        OPF_TRY(absorb(context, order[i], changed, error));
    }
    return OPF_OK;
}
