/* SPDX-License-Identifier: Apache-2.0 */
/* Explanations: what the stages did, counted in kernels of a plan, with a reason for every node that stayed a kernel. */
#include "exec/kept.h"

#include "base/tally.h"
#include "cpu/cpu.h"
#include "graph/text.h"
#include "ops/stored.h"

#include <string.h>

/* ---- counting ---- */

typedef struct {
    const opf_graph *graph;
    bool            *runs; /* by node: a kernel computes it */
} running;

/* What explanations are collected in. */
typedef struct {
    const opf_model *model;
    opf_report      *report;
    opf_arena        scratch;
    opf_kept_finder  finder;
    opf_tally        after;
    opf_kept_entry  *kept;
    uint32_t         n_kept, kept_capacity;
    running         *graphs; /* the main graph and bodies that have kernels */
    uint32_t         n_graphs, graphs_capacity;
    opf_graph_node_entry *nodes;
    uint32_t              n_nodes, nodes_capacity;
} collector;

static bool *running_nodes(const collector *c, const opf_graph *graph)
{
    for (uint32_t i = 0; i < c->n_graphs; i++)
        if (c->graphs[i].graph == graph)
            return c->graphs[i].runs;
    return NULL;
}

/* A graph in segments has several plans: the kernels of all of them must be known before reasons are given. */
static opf_status mark_running(void *user, const opf_plan *plan, opf_error *error)
{
    collector *c    = user;
    bool      *runs = running_nodes(c, plan->graph);
    if (runs == NULL) {
        runs = OPF_NEW(&c->scratch, bool, plan->graph->n_nodes);
        OPF_OOM_IF(error, runs == NULL || !OPF_PUSH(&c->scratch, c->graphs, c->n_graphs, c->graphs_capacity, ((running){plan->graph, runs})));
    }
    for (uint32_t i = 0; i < plan->n_steps; i++)
        runs[plan->steps[i].node] = runs[plan->steps[i].node] || !plan->steps[i].is_copy;
    return OPF_OK;
}

static opf_status add_kernels(void *user, const opf_plan *plan, opf_error *error)
{
    collector  *c    = user;
    const bool *runs = running_nodes(c, plan->graph);
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        const opf_plan_step *step = &plan->steps[i];
        OPF_OOM_IF(error, !opf_tally_add(&c->after, &c->report->arena, opf_kept_op(plan->graph, step)));
        if (!opf_kept_wants_reason(plan->graph, step))
            continue;
        opf_kept_entry entry = opf_kept_reason(&c->finder, plan, step, runs);
        OPF_OOM_IF(error, entry.reason == NULL || !OPF_PUSH(&c->report->arena, c->kept, c->n_kept, c->kept_capacity, entry));
    }
    return OPF_OK;
}

static bool is_view(const opf_node *node)
{
    return node->op == &opf_op_Reshape || node->op == &opf_op_Flatten || node->op == &opf_op_Squeeze || node->op == &opf_op_Unsqueeze ||
           node->op == &opf_op_Transpose || node->op == &opf_op_Expand || node->op == &opf_op_Slice || node->op == &opf_op_Split ||
           (node->op == &opf_op_Identity && node->epilogue.n == 0) || !opf_node_is_stored(node);
}

/* Where no sizes can be made up: nodes that are neither views nor shape arithmetic. */
static opf_status count_nodes(collector *c, const opf_graph *graph, opf_error *error)
{
    opf_node_id *order;
    uint32_t     n;
    OPF_TRY(opf_graph_sort(graph, &c->scratch, &order, &n, error));
    bool *needed = opf_plan_needed(graph, order, n, &c->scratch);
    bool *runs   = OPF_NEW(&c->scratch, bool, graph->n_nodes);
    OPF_OOM_IF(error, needed == NULL || runs == NULL || !OPF_PUSH(&c->scratch, c->graphs, c->n_graphs, c->graphs_capacity, ((running){graph, runs})));
    for (uint32_t i = 0; i < n; i++) {
        const opf_node *node  = opf_graph_node(graph, order[i]);
        bool            known = true;
        for (uint32_t o = 0; o < node->n_outputs; o++)
            known = known && (node->outputs[o] == 0 || opf_graph_value(graph, node->outputs[o])->info.n_values >= 0);
        for (uint32_t b = 0; b < node->n_bodies; b++)
            OPF_TRY(count_nodes(c, node->bodies[b], error));
        if (!needed[order[i]] || node->n_bodies != 0 || known || is_view(node))
            continue;
        runs[order[i]] = true;
    }
    return OPF_OK;
}

/* Their kernels and reasons, as if each node were a step of a plan. */
static opf_status add_counted(collector *c, opf_error *error)
{
    for (uint32_t g = 0; g < c->n_graphs; g++) {
        opf_plan      plan  = {.graph = c->graphs[g].graph, .n_steps = 1};
        opf_plan_step step  = {.kernel = ""};
        plan.steps          = &step;
        for (opf_node_id id = 1; id < plan.graph->n_nodes; id++) {
            step.node = id;
            if (c->graphs[g].runs[id])
                OPF_TRY(add_kernels(c, &plan, error));
        }
    }
    return OPF_OK;
}

/* ---- the fused graph, node by node ---- */

static opf_status add_nodes(collector *c, const opf_graph *graph, opf_error *error)
{
    opf_arena   *arena = &c->report->arena;
    opf_node_id *order;
    uint32_t     n;
    OPF_TRY(opf_graph_sort(graph, &c->scratch, &order, &n, error));
    uint32_t   *index = OPF_NEW(&c->scratch, uint32_t, graph->n_nodes);
    const bool *runs  = running_nodes(c, graph);
    OPF_OOM_IF(error, index == NULL);
    for (uint32_t i = 0; i < n; i++) {
        const opf_node *node = opf_graph_node(graph, order[i]);
        for (uint32_t b = 0; b < node->n_bodies; b++)
            OPF_TRY(add_nodes(c, node->bodies[b], error));
        index[order[i]] = c->n_nodes;
        opf_text text;
        opf_text_init(&text, arena);
        opf_text_node(&text, graph, order[i]);
        uint32_t *producers = OPF_NEW(arena, uint32_t, node->n_inputs);
        OPF_OOM_IF(error, producers == NULL || text.failed);
        opf_graph_node_entry entry = {.name = node->name, .op = node->op_type, .origin = node->origin, .n_origin = node->n_origin, .text = text.data, .producers = producers};
        entry.is_kernel            = runs != NULL && runs[order[i]];
        for (uint32_t k = 0; k < node->n_inputs; k++) {
            opf_node_id producer = node->inputs[k] == 0 ? 0 : opf_graph_value(graph, node->inputs[k])->producer;
            if (producer != 0)
                producers[entry.n_producers++] = index[producer];
        }
        OPF_OOM_IF(error, !OPF_PUSH(arena, c->nodes, c->n_nodes, c->nodes_capacity, entry));
    }
    return OPF_OK;
}

/* ---- the entry points ---- */

static const char *remedy(const opf_miss *miss)
{
    if (strstr(miss->reason, "also a graph input") != NULL)
        return "fuses with --freeze, or if it is no graph input";
    switch (miss->code) {
    case OPF_MISS_OP:
        return "fuses if spelled like the rule";
    case OPF_MISS_CONST:
        return "fuses with that constant";
    case OPF_MISS_ATTR:
        return "fuses with that attribute";
    case OPF_MISS_DTYPE:
        return "fuses if the types agree";
    case OPF_MISS_RANK:
    case OPF_MISS_SHAPE:
        return "fuses if the shapes agree";
    case OPF_MISS_SHAPE_UNKNOWN:
        return "fuses if the sizes share a symbol, or are given (--dim, --shape)";
    case OPF_MISS_USED_OUTSIDE:
        return "fuses if nothing else reads that value";
    case OPF_MISS_IS_OUTPUT:
        return "fuses if that value is no graph output";
    case OPF_MISS_CAPTURED:
        return "fuses if no body reads that value";
    case OPF_MISS_NOT_CONVEX:
        return "fuses if that operand does not depend on the match";
    case OPF_MISS_DISABLED:
        return "fuses without --only and --skip";
    case OPF_MISS_NO_KERNEL:
    case OPF_MISS_NO_GAIN:
    case OPF_MISS_BUDGET:
        break;
    }
    return NULL;
}

static opf_status copy_fusions(const opf_fuse_report *from, opf_arena *arena, const opf_fusion_entry **fusions, size_t *n, opf_error *error)
{
    opf_fusion_entry *list = OPF_NEW(arena, opf_fusion_entry, from->n_fusions);
    OPF_OOM_IF(error, list == NULL);
    for (uint32_t i = 0; i < from->n_fusions; i++)
        list[i] = (opf_fusion_entry){from->fusions[i].rule, from->fusions[i].anchor, from->fusions[i].origin, from->fusions[i].n_origin};
    *fusions = list;
    *n       = from->n_fusions;
    return OPF_OK;
}

static opf_status copy_reports(const opf_model *model, opf_report *report, opf_error *error)
{
    opf_explanation       *e      = &report->explanation;
    const opf_fuse_report *r      = &model->open.report;
    opf_miss_entry        *misses = OPF_NEW(&report->arena, opf_miss_entry, r->n_misses);
    OPF_OOM_IF(error, misses == NULL);
    for (uint32_t i = 0; i < r->n_misses; i++)
        misses[i] = (opf_miss_entry){r->misses[i].rule, r->misses[i].start, opf_miss_code_name(r->misses[i].code), r->misses[i].node,
                                     r->misses[i].reason, remedy(&r->misses[i]), r->misses[i].matched, r->misses[i].of};
    e->missed   = misses;
    e->n_missed = r->n_misses;
    OPF_TRY(copy_fusions(r, &report->arena, &e->fusions, &e->n_fusions, error));
    return copy_fusions(&model->frozen.report, &report->arena, &e->fusions_unfed, &e->n_fusions_unfed, error);
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
    OPF_TRY(numeric_plan(model, model->open.fused, &report->arena, plan, error));
    if (*plan != NULL && (*plan)->needs_data)
        return OPF_OK;
    if (*plan != NULL) {
        OPF_TRY(numeric_plan(model, model->open.simplified, &report->arena, &before, error));
        e->bytes_after  = (*plan)->bytes;
        e->bytes_before = before->needs_data ? -1 : before->bytes;
        opf_plan_destroy(&before);
        return OPF_OK;
    }
    return opf_model_generic_plan(model, model->open.fused, plan, error);
}

/* The plans of the fused graph: one, or those of its parts. */
static opf_status visit_plans(collector *c, const opf_plan *plan, opf_visit_part visit, opf_error *error)
{
    return plan->needs_data ? opf_model_generic_parts(c->model, c->model->open.fused, visit, c, error) : visit(c, plan, error);
}

static opf_status add_steps(void *user, const opf_plan *plan, opf_error *error)
{
    (void)error;
    *(size_t *)user += plan->n_steps;
    return OPF_OK;
}

/* Kernels of a run that feeds no input with a default; 0: there are none, or no sizes that suit the defaults can be made up. */
static opf_status count_frozen(const opf_model *model, opf_report *report, opf_error *error)
{
    const opf_graph *graph  = model->frozen.fused;
    opf_plan        *plan   = NULL;
    size_t           n      = 0;
    opf_error        local  = {.status = OPF_OK};
    opf_status       status = graph == NULL ? OPF_OK : numeric_plan(model, graph, &report->arena, &plan, &local);
    if (status == OPF_OK && plan == NULL && graph != NULL)
        status = opf_model_generic_plan(model, graph, &plan, &local);
    if (status == OPF_OK && plan != NULL)
        status = plan->needs_data ? opf_model_generic_parts(model, graph, add_steps, &n, &local) : add_steps(&n, plan, &local);
    opf_plan_destroy(&plan);
    report->explanation.nodes_unfed = status == OPF_OK ? n : 0;
    if (status == OPF_OK || status == OPF_UNSUPPORTED || status == OPF_INVALID_INPUT)
        return OPF_OK;
    if (error != NULL)
        *error = local;
    return status;
}

static opf_status fill(collector *c, opf_plan **plan, opf_error *error)
{
    const opf_model *model = c->model;
    opf_explanation *e     = &c->report->explanation;
    e->opset               = opset_of(model);
    e->ir_version          = model->loaded.ir_version;
    OPF_TRY(copy_reports(model, c->report, error));
    OPF_TRY(fill_plans(model, c->report, plan, error));
    opf_status status = visit_plans(c, *plan, mark_running, error);
    if (status == OPF_UNSUPPORTED) {
        c->n_graphs = 0;
        status      = count_nodes(c, model->open.fused, error);
        status      = status == OPF_OK ? add_counted(c, error) : status;
    }
    else if (status == OPF_OK)
        status = visit_plans(c, *plan, add_kernels, error);
    OPF_TRY(status);
    OPF_TRY(add_nodes(c, model->open.fused, error));
    OPF_TRY(count_frozen(model, c->report, error));
    e->nodes_before = model->loaded.ops.total;
    e->ops_before   = model->loaded.ops.list;
    e->n_ops_before = model->loaded.ops.n;
    e->nodes_after  = c->after.total;
    e->ops_after    = c->after.list;
    e->n_ops_after  = c->after.n;
    e->kept         = c->kept;
    e->n_kept       = c->n_kept;
    e->nodes        = c->nodes;
    e->n_nodes      = c->n_nodes;
    return OPF_OK;
}

opf_status opf_model_explain(const opf_model *model, opf_report **report, opf_error *error)
{
    OPF_FAIL_IF(error, model == NULL || report == NULL, OPF_INVALID_ARGUMENT, "model and report must not be NULL");
    opf_heap *heap = (opf_heap *)(uintptr_t)&model->heap;
    OPF_TRY(opf_report_create(heap, report, error));
    collector c    = {.model = model, .report = *report};
    opf_plan *plan = NULL;
    opf_arena_init(&c.scratch, heap);
    opf_kept_begin(&c.finder, model, &(*report)->arena, &c.scratch);
    opf_status status = fill(&c, &plan, error);
    opf_plan_destroy(&plan);
    opf_arena_fini(&c.scratch);
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
    OPF_TRY(numeric_plan(model, model->open.fused, &report->arena, plan, error));
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
        opf_text_graph(&text, model->open.simplified, false);
    } else if (strcmp(stage, "fuse") == 0) {
        opf_text_graph(&text, model->open.fused, false);
    } else if (strcmp(stage, "plan") == 0) {
        OPF_TRY(numeric_plan(model, model->open.fused, &report->arena, plan, error));
        if (*plan == NULL)
            OPF_TRY(opf_model_generic_plan(model, model->open.fused, plan, error));
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
