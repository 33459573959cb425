/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two or more connected elementwise nodes that no anchor took become one kernel: an Identity on the main operand, whose
 * epilogue they are. One that stays alone keeps its operator.
 */
#include "fuse/absorb_steps.h"

/* An operand that has the shape of the result already: the region runs over it. 0: none. */
static opf_value_id main_operand(opf_fuse_context *context, const opf_node *node)
{
    const opf_graph *graph = context->graph;
    opf_info out = opf_graph_value(graph, node->outputs[0])->info;
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const opf_value_id value = node->inputs[i];
        out.type = value == 0 ? out.type : opf_graph_value(graph, value)->info.type;
        if (value != 0 && opf_graph_value(graph, value)->constant == NULL &&
            opf_legal_same(context, &opf_graph_value(graph, value)->info, &out, NULL))
            return value;
    }
    return 0;
}

/* Why a node that could be part of a region has no company: what makes its operand, or reads its result, takes no
 * steps. */
static bool report_alone(const opf_step_plan *plan, opf_node_id id)
{
    const opf_graph *graph = plan->context->graph;
    const opf_node *node = opf_graph_node(graph, id);
    const opf_value *result = opf_graph_value(graph, node->outputs[0]);
    if (plan->refused != 0)
        return opf_report_miss(plan->context->report, "region", node->name, plan->why.code,
                               opf_graph_node(graph, plan->refused)->name, 1, 2, "%s", plan->why.reason);
    const opf_node_id producer = opf_graph_value(graph, plan->plain)->producer;
    if (producer != 0 && !opf_steps_is_anchor(opf_graph_node(graph, producer))) {
        const opf_node *other = opf_graph_node(graph, producer);
        return opf_report_miss(plan->context->report, "region", node->name, OPF_MISS_OP, other->name, 1, 2,
                               "its operand comes from %s (%s), which takes no steps", other->name, other->op_type);
    }
    for (uint32_t i = 0; producer == 0 && i < result->n_uses; i++)
        if (result->uses[i].node != 0) {
            const opf_node *other = opf_graph_node(graph, result->uses[i].node);
            return opf_report_miss(plan->context->report, "region", node->name, OPF_MISS_OP, other->name, 1, 2,
                                   "its result is read by %s (%s), which takes no steps", other->name, other->op_type);
        }
    return true;
}

static opf_status absorb(opf_fuse_context *context, opf_node_id id, bool *changed, opf_error *error)
{
    opf_graph *graph = context->graph;
    opf_step_plan plan = {.context = context, .root = id};
    plan.plain = main_operand(context, opf_graph_node(graph, id));
    plan.result = opf_graph_value(graph, opf_graph_node(graph, id)->outputs[0])->info;
    plan.result.type = opf_steps_region_type(graph, id);
    opf_steps_begin(&plan);
    if (plan.plain == 0 || !opf_steps_may_host(&plan) || !opf_steps_take(&plan, id))
        return OPF_OK;
    opf_steps_grow(&plan);
    if (plan.n < 2) {
        OPF_OOM_IF(error, !report_alone(&plan, id));
        return OPF_OK;
    }
    if (!opf_fuse_allows(context, "region", id))
        return OPF_OK;
    OPF_TRY(opf_steps_apply(&plan, 0, plan.n, error));
    *changed = true;
    return opf_fuse_done(context, "region", plan.anchor, error);
}

opf_status opf_absorb_region(opf_fuse_context *context, bool *changed, opf_error *error)
{
    opf_node_id *order = NULL;
    uint32_t n = 0;
    OPF_TRY(opf_graph_sort(context->graph, context->scratch, &order, &n, error));
    for (uint32_t i = 0; i < n; i++)
        if (opf_steps_is_candidate(context->graph, order[i]))
            OPF_TRY(absorb(context, order[i], changed, error));
    return OPF_OK;
}
