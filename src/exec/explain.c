/* SPDX-License-Identifier: Apache-2.0 */
/* Explanations: what the stages did, counted in kernels of a plan, with a reason for every node that stayed a kernel. */
#include "exec/model.h"

#include "base/tally.h"
#include "cpu/cpu.h"
#include "graph/text.h"
#include "ops/op.h"

#include <string.h>

/* ---- counting ---- */

static bool count_graph(opf_arena *arena, opf_tally *tally, const opf_graph *graph)
{
    for (opf_node_id id = 1; id < graph->n_nodes; id++) {
        const opf_node *node = opf_graph_node(graph, id);
        if (!opf_node_is_alive(node))
            continue;
        if (!opf_tally_add(tally, arena, node->op_type))
            return false;
        for (uint32_t b = 0; b < node->n_bodies; b++)
            if (!count_graph(arena, tally, node->bodies[b]))
                return false;
    }
    return true;
}

/* A fused node counts under its anchor; elementwise operators joined without an anchor are a region. */
static const char *kernel_op(const opf_graph *graph, const opf_plan_step *step)
{
    if (step->is_copy)
        return "Copy";
    const opf_node *node = opf_graph_node(graph, step->node);
    bool elementwise     = node->op == &opf_op_Identity || (node->op != NULL && (node->op->traits & OPF_ELEMENTWISE) != 0);
    return elementwise && node->epilogue.n != 0 ? "Elementwise" : node->op_type;
}

/* ---- why a node stayed a kernel ---- */

static const opf_miss *find_miss(const opf_model *model, const char *node)
{
    for (uint32_t i = 0; i < model->report.n_misses; i++)
        if (strcmp(model->report.misses[i].node, node) == 0)
            return &model->report.misses[i];
    for (uint32_t i = 0; i < model->report.n_misses; i++)
        if (strcmp(model->report.misses[i].start, node) == 0)
            return &model->report.misses[i];
    return NULL;
}

/* What computes the node's main operand: 0 when it only reads graph inputs and constants. */
static opf_value_id main_operand(const opf_graph *graph, const opf_node *node)
{
    for (uint32_t i = 0; i < node->n_inputs; i++)
        if (node->inputs[i] != 0 && opf_graph_value(graph, node->inputs[i])->producer != 0)
            return node->inputs[i];
    return 0;
}

/* Why an operator of this kind never joins the kernel before it, however it is used; NULL: it could. */
static const char *reason_of_kind(const opf_node *node, const opf_node *producer, opf_arena *arena)
{
    if (node->op == &opf_op_Concat)
        return opf_arena_printf(arena, "%s (%s) writes its result densely: the part is copied into place", producer->name, producer->op_type);
    if (node->op == &opf_op_Gather)
        return "selects by index: no kernel reads its operand through a list of indices";
    if (node->op == &opf_op_Cast)
        return opf_arena_printf(arena, "changes the type: a step of %s (%s) keeps it", producer->name, producer->op_type);
    if ((node->op->traits & OPF_MOVEMENT) != 0)
        return opf_arena_printf(arena, "%s (%s) leaves the elements in an order that these dimensions cannot express as strides: one copy",
                                producer->name, producer->op_type);
    if ((node->op->traits & OPF_NORMALIZATION) != 0)
        return opf_arena_printf(arena, "needs whole rows, %s (%s) computes them in pieces", producer->name, producer->op_type);
    return NULL;
}

static opf_kept_entry reason_from_neighbours(const opf_graph *graph, opf_node_id id, opf_arena *arena)
{
    const opf_node *node  = opf_graph_node(graph, id);
    opf_kept_entry  entry = {.node = node->name, .op = node->op_type, .code = "NO_KERNEL"};
    opf_value_id    main  = main_operand(graph, node);
    if (main == 0) {
        entry.code   = "OP";
        entry.reason = "reads graph inputs and constants only: there is no kernel before it to join";
        return entry;
    }
    const opf_value *value    = opf_graph_value(graph, main);
    const opf_node  *producer = opf_graph_node(graph, value->producer);
    entry.other               = producer->name;
    entry.reason              = reason_of_kind(node, producer, arena);
    for (uint32_t u = 0; entry.reason == NULL && u < value->n_uses; u++) {
        if (value->uses[u].node == id)
            continue;
        bool output  = value->uses[u].node == 0;
        entry.code   = output ? "IS_OUTPUT" : "USED_OUTSIDE";
        entry.reason = output ? opf_arena_printf(arena, "the result of %s is also graph output %s", producer->name, value->name)
                              : opf_arena_printf(arena, "the result of %s is also read by %s", producer->name,
                                                 opf_graph_node(graph, value->uses[u].node)->name);
    }
    if (entry.reason == NULL)
        entry.reason = opf_arena_printf(arena, "%s (%s) takes no steps of this kind", producer->name, producer->op_type);
    return entry;
}

static opf_status add_kept(const opf_model *model, const opf_plan *plan, opf_report *report, opf_error *error)
{
    const opf_graph *graph = plan->graph;
    opf_kept_entry  *list  = OPF_NEW(&report->arena, opf_kept_entry, plan->n_steps);
    OPF_OOM_IF(error, list == NULL);
    size_t n = 0;
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        const opf_plan_step *step = &plan->steps[i];
        const opf_node      *node = opf_graph_node(graph, step->node);
        if (node->op == NULL)
            continue;
        uint32_t wanted = OPF_ELEMENTWISE | OPF_MOVEMENT | OPF_NORMALIZATION;
        if ((node->op->traits & wanted) == 0 && !step->is_copy)
            continue;
        opf_kept_entry  entry = {.node = node->name, .op = kernel_op(graph, step)};
        const opf_miss *miss  = step->is_copy ? NULL : find_miss(model, node->name);
        if (miss != NULL) {
            entry.code   = opf_miss_code_name(miss->code);
            entry.other  = strcmp(miss->node, node->name) == 0 ? miss->start : miss->node;
            entry.reason = miss->reason;
        } else if (step->is_copy) {
            entry.code   = "NO_KERNEL";
            entry.other  = node->name;
            entry.reason = opf_arena_printf(&report->arena, "%s: %s (%s) needs its operand in another layout", step->kernel, node->name, node->op_type);
        } else {
            entry    = reason_from_neighbours(graph, step->node, &report->arena);
            entry.op = kernel_op(graph, step);
        }
        OPF_OOM_IF(error, entry.reason == NULL);
        list[n++] = entry;
    }
    report->explanation.kept   = list;
    report->explanation.n_kept = n;
    return OPF_OK;
}

/* ---- the fused graph, node by node ---- */

static opf_status add_nodes(const opf_graph *graph, const opf_plan *plan, opf_report *report, opf_error *error)
{
    opf_arena            *arena = &report->arena;
    opf_node_id          *order;
    uint32_t              n;
    OPF_TRY(opf_graph_sort(graph, arena, &order, &n, error));
    opf_graph_node_entry *list  = OPF_NEW(arena, opf_graph_node_entry, n);
    uint32_t             *index = OPF_NEW(arena, uint32_t, graph->n_nodes);
    bool                 *runs  = OPF_NEW(arena, bool, graph->n_nodes);
    OPF_OOM_IF(error, list == NULL || index == NULL || runs == NULL);
    for (uint32_t i = 0; plan != NULL && i < plan->n_steps; i++)
        runs[plan->steps[i].node] = true;
    for (uint32_t i = 0; i < n; i++) {
        const opf_node *node = opf_graph_node(graph, order[i]);
        index[order[i]]      = i;
        opf_text text;
        opf_text_init(&text, arena);
        opf_text_node(&text, graph, order[i]);
        uint32_t *producers = OPF_NEW(arena, uint32_t, node->n_inputs);
        OPF_OOM_IF(error, producers == NULL || text.failed);
        list[i] = (opf_graph_node_entry){.name = node->name, .op = node->op_type, .origin = node->origin, .n_origin = node->n_origin, .text = text.data, .producers = producers, .is_kernel = plan == NULL || runs[order[i]]};
        for (uint32_t k = 0; k < node->n_inputs; k++) {
            opf_node_id producer = node->inputs[k] == 0 ? 0 : opf_graph_value(graph, node->inputs[k])->producer;
            if (producer != 0)
                producers[list[i].n_producers++] = index[producer];
        }
    }
    report->explanation.nodes   = list;
    report->explanation.n_nodes = n;
    return OPF_OK;
}

/* ---- the entry points ---- */

static opf_status copy_fusions(const opf_model *model, opf_report *report, opf_error *error)
{
    const opf_fuse_report *r       = &model->report;
    opf_fusion_entry      *fusions = OPF_NEW(&report->arena, opf_fusion_entry, r->n_fusions);
    opf_miss_entry        *misses  = OPF_NEW(&report->arena, opf_miss_entry, r->n_misses);
    OPF_OOM_IF(error, fusions == NULL || misses == NULL);
    for (uint32_t i = 0; i < r->n_fusions; i++)
        fusions[i] = (opf_fusion_entry){r->fusions[i].rule, r->fusions[i].anchor, r->fusions[i].origin, r->fusions[i].n_origin};
    for (uint32_t i = 0; i < r->n_misses; i++)
        misses[i] = (opf_miss_entry){r->misses[i].rule, r->misses[i].start,  opf_miss_code_name(r->misses[i].code), r->misses[i].node,
                                     r->misses[i].reason, r->misses[i].matched, r->misses[i].of};
    report->explanation.fusions   = fusions;
    report->explanation.n_fusions = r->n_fusions;
    report->explanation.missed    = misses;
    report->explanation.n_missed  = r->n_misses;
    return OPF_OK;
}

static int64_t opset_of(const opf_model *model)
{
    for (uint32_t i = 0; i < model->loaded.n_opsets; i++)
        if (model->loaded.opsets[i].domain[0] == '\0')
            return model->loaded.opsets[i].version;
    return 0;
}

static bool no_number(void *user, const char *symbol, int64_t *n)
{
    (void)user;
    (void)symbol;
    (void)n;
    return false;
}

/* A plan when every input has numbers for dims; *plan stays NULL otherwise. */
static opf_status numeric_plan(const opf_model *model, const opf_graph *graph, opf_arena *arena, opf_plan **plan, opf_error *error)
{
    opf_info *infos;
    *plan             = NULL;
    opf_status status = opf_model_input_infos(model, no_number, NULL, arena, &infos, NULL);
    if (status == OPF_INVALID_INPUT)
        return OPF_OK;
    OPF_TRY(status);
    return opf_model_plan(model, graph, infos, false, plan, error);
}

static opf_status fill_plans(const opf_model *model, opf_report *report, opf_plan **plan, opf_error *error)
{
    opf_explanation *e      = &report->explanation;
    opf_plan        *before = NULL;
    e->bytes_before = e->bytes_after = -1;
    OPF_TRY(numeric_plan(model, model->fused, &report->arena, plan, error));
    if (*plan != NULL) {
        OPF_TRY(numeric_plan(model, model->simplified, &report->arena, &before, error));
        e->bytes_after  = (*plan)->bytes;
        e->bytes_before = before->bytes;
        opf_plan_destroy(&before);
        return OPF_OK;
    }
    return opf_model_generic_plan(model, model->fused, plan, error);
}

static opf_status fill(const opf_model *model, opf_report *report, opf_plan **plan, opf_error *error)
{
    opf_explanation *e = &report->explanation;
    opf_tally        after = {0};
    e->opset      = opset_of(model);
    e->ir_version = model->loaded.ir_version;
    OPF_TRY(copy_fusions(model, report, error));
    OPF_TRY(fill_plans(model, report, plan, error));
    if ((*plan)->needs_data) { /* counted by nodes: nothing tells which of them become views */
        OPF_OOM_IF(error, !count_graph(&report->arena, &after, model->fused));
    } else {
        for (uint32_t i = 0; i < (*plan)->n_steps; i++)
            OPF_OOM_IF(error, !opf_tally_add(&after, &report->arena, kernel_op(model->fused, &(*plan)->steps[i])));
        OPF_TRY(add_kept(model, *plan, report, error));
    }
    e->nodes_before = model->loaded.ops.total;
    e->ops_before   = model->loaded.ops.list;
    e->n_ops_before = model->loaded.ops.n;
    e->nodes_after  = after.total;
    e->ops_after    = after.list;
    e->n_ops_after  = after.n;
    return add_nodes(model->fused, (*plan)->needs_data ? NULL : *plan, report, error);
}

opf_status opf_model_explain(const opf_model *model, opf_report **report, opf_error *error)
{
    OPF_FAIL_IF(error, model == NULL || report == NULL, OPF_INVALID_ARGUMENT, "model and report must not be NULL");
    OPF_TRY(opf_report_create((opf_heap *)(uintptr_t)&model->heap, report, error));
    opf_plan  *plan   = NULL;
    opf_status status = fill(model, *report, &plan, error);
    opf_plan_destroy(&plan);
    if (status != OPF_OK)
        opf_report_destroy(report);
    return status;
}

static opf_status describe(const opf_model *model, opf_report *report, opf_plan **plan, opf_error *error)
{
    opf_model_info  *info  = &report->info;
    const opf_graph *graph = model->loaded.graph;
    *info = (opf_model_info){.producer         = model->loaded.producer,
                             .ir_version       = model->loaded.ir_version,
                             .opset            = opset_of(model),
                             .ops              = model->loaded.ops.list,
                             .n_ops            = model->loaded.ops.n,
                             .flops            = -1,
                             .activation_bytes = -1,
                             .usable_cores     = opf_cpu_usable_cores(),
                             .cpu              = opf_cpu_level_name(model->kern.level)};
    for (opf_value_id v = 1; v < graph->n_values; v++) {
        const opf_const *c = graph->values[v].constant;
        if (c == NULL || graph->values[v].n_uses == 0)
            continue;
        info->weight_bytes += opf_const_size(c);
        info->parameters += opf_types_have(OPF_TYPES_FLOAT, c->type) ? (int64_t)c->count : 0;
    }
    OPF_TRY(numeric_plan(model, model->fused, &report->arena, plan, error));
    if (*plan != NULL && !(*plan)->needs_data) {
        info->flops            = (*plan)->flops;
        info->activation_bytes = (double)(*plan)->arena_bytes;
    }
    return OPF_OK;
}

opf_status opf_model_describe(const opf_model *model, opf_report **report, opf_error *error)
{
    OPF_FAIL_IF(error, model == NULL || report == NULL, OPF_INVALID_ARGUMENT, "model and report must not be NULL");
    OPF_TRY(opf_report_create((opf_heap *)(uintptr_t)&model->heap, report, error));
    opf_plan  *plan   = NULL;
    opf_status status = describe(model, *report, &plan, error);
    opf_plan_destroy(&plan);
    if (status != OPF_OK)
        opf_report_destroy(report);
    return status;
}

static opf_status print_stage(const opf_model *model, const char *stage, opf_report *report, opf_plan **plan, opf_error *error)
{
    opf_text text;
    opf_text_init(&text, &report->arena);
    if (strcmp(stage, "load") == 0) {
        opf_text_graph(&text, model->loaded.graph, false);
    } else if (strcmp(stage, "simplify") == 0) {
        opf_text_graph(&text, model->simplified, false);
    } else if (strcmp(stage, "fuse") == 0) {
        opf_text_graph(&text, model->fused, false);
    } else if (strcmp(stage, "plan") == 0) {
        OPF_TRY(numeric_plan(model, model->fused, &report->arena, plan, error));
        if (*plan == NULL)
            OPF_TRY(opf_model_generic_plan(model, model->fused, plan, error));
        OPF_FAIL_IF(error, (*plan)->needs_data, OPF_UNSUPPORTED, "%s", (*plan)->why_not);
        opf_plan_print(*plan, &text);
    } else {
        return opf_fail(error, OPF_INVALID_ARGUMENT, "there is no stage %s; stages are load, simplify, fuse, plan", stage);
    }
    OPF_OOM_IF(error, text.failed);
    report->text = text.data != NULL ? text.data : "";
    return OPF_OK;
}

opf_status opf_model_stage_text(const opf_model *model, const char *stage, opf_report **report, opf_error *error)
{
    OPF_FAIL_IF(error, model == NULL || report == NULL || stage == NULL, OPF_INVALID_ARGUMENT, "model, stage and report must not be NULL");
    OPF_TRY(opf_report_create((opf_heap *)(uintptr_t)&model->heap, report, error));
    opf_plan  *plan   = NULL;
    opf_status status = print_stage(model, stage, *report, &plan, error);
    opf_plan_destroy(&plan);
    if (status != OPF_OK)
        opf_report_destroy(report);
    return status;
}

const opf_explanation *opf_report_explanation(const opf_report *report)
{
    return &report->explanation;
}

const opf_model_info *opf_report_info(const opf_report *report)
{
    return &report->info;
}

const char *opf_report_text(const opf_report *report)
{
    return report->text;
}

const opf_verification *opf_report_verification(const opf_report *report)
{
    return &report->verification;
}

const opf_op_entry *opf_report_ops(const opf_report *report, size_t *n)
{
    *n = report->n_ops;
    return report->ops;
}
