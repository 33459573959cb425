/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/plan.h"

#include "base/status.h"
#include "ops/infer.h"
#include "plan/planner.h"

#include <string.h>

/* ---- the step list ---- */

opf_status opf_plan_add_step(opf_planner *planner, const opf_plan_step *step, opf_error *error)
{
    opf_plan *plan = planner->plan;
    OPF_OOM_IF(error, !OPF_PUSH(planner->arena, plan->steps, plan->n_steps, plan->steps_capacity, *step));
    plan->steps[plan->n_steps - 1].node = planner->node;
    if (step->scratch_bytes > plan->scratch_bytes)
        plan->scratch_bytes = step->scratch_bytes;
    return OPF_OK;
}

static void touch(opf_planner *planner, const opf_place *place)
{
    opf_plan *plan = planner->plan;
    if (place->buffer == 0)
        return;
    uint32_t    step   = plan->n_steps - 1;
    opf_buffer *buffer = &plan->buffers[place->buffer];
    if (buffer->first > step)
        buffer->first = step;
    if (buffer->last < step)
        buffer->last = step;
    plan->steps[step].bytes += (double)opf_place_elements(place) * (double)opf_type_size(place->type);
}

void opf_plan_reads(opf_planner *planner, const opf_place *place)
{
    touch(planner, place);
}

void opf_plan_writes(opf_planner *planner, const opf_place *place)
{
    touch(planner, place);
}

void opf_plan_may_share(opf_planner *planner, const opf_place *dst, const opf_place *src)
{
    opf_buffer *to = &planner->plan->buffers[dst->buffer], *from = &planner->plan->buffers[src->buffer];
    if (dst->buffer == src->buffer || to->kind != OPF_BUFFER_ARENA || from->kind != OPF_BUFFER_ARENA ||
        dst->offset != src->offset || dst->rank != src->rank || to->bytes > from->bytes)
        return;
    for (int32_t i = 0; i < dst->rank; i++)
        if (dst->dims[i] != src->dims[i] || (dst->dims[i] != 1 && dst->strides[i] != src->strides[i]))
            return;
    for (int32_t i = 0; i < OPF_SHARES; i++) /* memory.c takes the first that dies here */
        if (to->shares[i] == 0) {
            to->shares[i] = src->buffer;
            return;
        }
}

/* ---- which nodes have work to do ---- */

/* Values whose elements are known are placed as constants, so what computes only those is not run. */
static opf_status find_needed(const opf_graph *graph, const opf_info *infos, const opf_node_id *order, uint32_t n, opf_arena *arena,
                              bool reference, bool **needed, opf_error *error)
{
    bool *values = OPF_NEW(arena, bool, graph->n_values);
    bool *nodes  = OPF_NEW(arena, bool, graph->n_nodes);
    OPF_OOM_IF(error, values == NULL || nodes == NULL);
    for (uint32_t i = 0; i < graph->n_outputs; i++)
        values[graph->outputs[i]] = true;
    for (uint32_t k = n; k-- > 0;) {
        const opf_node *node = opf_graph_node(graph, order[k]);
        for (uint32_t o = 0; o < node->n_outputs; o++)
            if (node->outputs[o] != 0 && values[node->outputs[o]] && (reference || !opf_info_is_known(&infos[node->outputs[o]])))
                nodes[order[k]] = true;
        for (uint32_t i = 0; nodes[order[k]] && i < node->n_inputs; i++)
            values[node->inputs[i]] = true;
    }
    *needed = nodes;
    return OPF_OK;
}

/* A dense output may be computed where the caller wants it; so may what is reshaped into it. */
static void mark_outputs(opf_planner *planner)
{
    const opf_graph *graph = planner->graph;
    for (uint32_t i = graph->n_outputs; i-- > 0;) {
        opf_value_id value = graph->outputs[i];
        planner->output_of[value] = i + 1;
        for (;;) {
            const opf_value *v    = opf_graph_value(graph, value);
            const opf_node  *node = opf_graph_node(graph, v->producer);
            if (v->producer == 0 || node->epilogue.n != 0 ||
                !(node->op == &opf_op_Reshape || node->op == &opf_op_Flatten || node->op == &opf_op_Squeeze ||
                  node->op == &opf_op_Unsqueeze || node->op == &opf_op_Identity))
                break;
            value = node->inputs[0];
            if (planner->output_of[value] != 0)
                break;
            planner->output_of[value] = i + 1;
        }
    }
}

static const opf_lower_fn lowerings[] = {opf_lower_view,   opf_lower_conv,        opf_lower_matmul, opf_lower_rows,
                                         opf_lower_pool,   opf_lower_reduce,      opf_lower_concat, opf_lower_gather,
                                         opf_lower_batch_norm, opf_lower_elementwise, opf_lower_reference};

/* Computes numbers, and all of them into results without elements. */
static bool is_empty(const opf_planner *planner, const opf_node *node)
{
    if (node->op == NULL || (node->op->traits & (OPF_CONTRACTION | OPF_ELEMENTWISE | OPF_NORMALIZATION)) == 0)
        return false;
    for (uint32_t o = 0; o < node->n_outputs; o++) {
        size_t count = 0;
        if (node->outputs[o] != 0 && (!opf_info_count(&planner->infos[node->outputs[o]], &count) || count != 0))
            return false;
    }
    return true;
}

static opf_status lower_empty(opf_planner *planner, const opf_node *node, opf_error *error)
{
    opf_place place;
    for (uint32_t o = 0; o < node->n_outputs; o++)
        if (node->outputs[o] != 0)
            OPF_TRY(opf_plan_alloc(planner, node->outputs[o], NULL, &place, error));
    return OPF_OK;
}

static opf_status lower_node(opf_planner *planner, opf_node_id id, opf_error *error)
{
    const opf_node *node = opf_graph_node(planner->graph, id);
    planner->node        = id;
    bool       done      = false;
    opf_status status    = OPF_OK;
    if (planner->options->reference) {
        status = opf_lower_reference(planner, id, &done, error);
    } else if (is_empty(planner, node)) {
        status = lower_empty(planner, node, error);
        done   = true;
    }
    for (size_t i = 0; status == OPF_OK && !done && i < sizeof lowerings / sizeof *lowerings; i++)
        status = lowerings[i](planner, id, &done, error);
    if (status != OPF_OK)
        opf_error_prefix(error, "%s (%s): ", node->name, node->op_type);
    return status;
}

/* Graph inputs are the caller's dense buffers. */
static opf_status place_inputs(opf_planner *planner, opf_error *error)
{
    const opf_graph *graph = planner->graph;
    for (uint32_t i = 0; i < graph->n_inputs; i++) {
        opf_value_id value = graph->inputs[i];
        if (opf_graph_value(graph, value)->constant != NULL)
            continue;
        const opf_info *info = &planner->infos[value];
        opf_place       place;
        int64_t         dims[OPF_MAX_RANK];
        for (int32_t k = 0; k < info->rank; k++)
            dims[k] = info->dims[k].n;
        OPF_TRY(opf_plan_alloc_temporary(planner, info->type, info->rank, dims, NULL, &place, error));
        planner->plan->buffers[place.buffer].kind  = OPF_BUFFER_INPUT;
        planner->plan->buffers[place.buffer].index = i;
        planner->places[value]                     = place;
    }
    return OPF_OK;
}

static opf_status place_outputs(opf_planner *planner, opf_error *error)
{
    const opf_graph *graph = planner->graph;
    opf_plan        *plan  = planner->plan;
    plan->outputs          = OPF_NEW(planner->arena, opf_place, graph->n_outputs);
    OPF_OOM_IF(error, plan->outputs == NULL);
    for (uint32_t i = 0; i < graph->n_outputs; i++) {
        opf_place src, dst;
        planner->node = opf_graph_value(graph, graph->outputs[i])->producer;
        OPF_TRY(opf_plan_place(planner, graph->outputs[i], &src, error));
        const opf_buffer *buffer = &plan->buffers[src.buffer];
        if (buffer->kind == OPF_BUFFER_OUTPUT && buffer->index == i && src.offset == 0 && opf_place_is_row_major(&src)) {
            plan->outputs[i] = src;
            continue;
        }
        OPF_TRY(opf_plan_alloc_temporary(planner, src.type, src.rank, src.dims, NULL, &dst, error));
        plan->buffers[dst.buffer].kind  = OPF_BUFFER_OUTPUT;
        plan->buffers[dst.buffer].index = i;
        OPF_TRY(opf_plan_copy(planner, "copy_output", &src, &dst, error));
        plan->outputs[i] = dst;
    }
    return OPF_OK;
}

/* ---- numbers for every shape ---- */

static bool is_numeric(const opf_info *info)
{
    size_t count;
    return info->type != OPF_TYPE_NONE && opf_info_count(info, &count);
}

/* Views make no buffers, but what reads them walks all their elements: the limit holds for every value. */
static opf_status check_size(const opf_limits *limits, const opf_node *node, const opf_value *value, const opf_info *info, opf_error *error)
{
    size_t count, bytes;
    if (!opf_info_count(info, &count) || opf_type_bits(info->type) == 0)
        return OPF_OK;
    OPF_FAIL_IF(error, !opf_type_bytes(info->type, count, &bytes) || bytes > (uint64_t)limits->tensor_bytes, OPF_LIMIT,
                "%s (%s): %s has %zu elements of %s, more than the limit tensor-bytes", node->name, node->op_type, value->name, count,
                opf_type_name(info->type));
    return OPF_OK;
}

/* Infers node by node with numbers; a shape that stays unknown depends on data. */
static opf_status specialise(opf_plan *plan, const opf_graph *graph, const opf_info *inputs, const opf_limits *limits,
                             const opf_node_id *order, uint32_t n, opf_info *infos, opf_error *error)
{
    opf_arena *arena = &plan->arena_;
    opf_dims  *dims  = opf_dims_create(arena);
    OPF_OOM_IF(error, dims == NULL);
    for (opf_value_id v = 0; v < graph->n_values; v++)
        infos[v] = graph->values[v].constant != NULL ? graph->values[v].info : (opf_info){.rank = -1, .n_values = -1};
    for (uint32_t i = 0; i < graph->n_inputs; i++)
        if (graph->values[graph->inputs[i]].constant == NULL)
            infos[graph->inputs[i]] = inputs[i];
    for (uint32_t k = 0; k < n; k++) {
        const opf_node *node = opf_graph_node(graph, order[k]);
        opf_info       *out  = OPF_NEW(arena, opf_info, node->n_outputs);
        OPF_OOM_IF(error, out == NULL);
        opf_status status = opf_infer_node(graph, order[k], infos, arena, dims, out, error);
        if (status == OPF_INVALID_MODEL) { /* the model was accepted on symbols: it is these sizes that cannot be */
            if (error != NULL)
                error->status = OPF_INVALID_INPUT;
            status = OPF_INVALID_INPUT;
        }
        OPF_TRY(status);
        for (uint32_t o = 0; o < node->n_outputs; o++) {
            if (node->outputs[o] == 0)
                continue;
            infos[node->outputs[o]] = out[o];
            OPF_TRY(check_size(limits, node, opf_graph_value(graph, node->outputs[o]), &out[o], error));
            if (!is_numeric(&out[o]) && !plan->needs_data) {
                plan->needs_data = true;
                plan->why_not    = opf_arena_printf(arena, "the shape of %s, which %s (%s) makes, depends on data",
                                                    graph->values[node->outputs[o]].name, node->name, node->op_type);
            }
        }
    }
    return OPF_OK;
}

static opf_status create(opf_plan *plan, const opf_graph *graph, const opf_info *inputs, const opf_plan_options *options, opf_error *error)
{
    opf_arena  *arena   = &plan->arena_;
    opf_planner planner = {.plan = plan, .graph = graph, .options = options, .arena = arena};
    planner.infos       = OPF_NEW(arena, opf_info, graph->n_values);
    planner.places      = OPF_NEW(arena, opf_place, graph->n_values);
    planner.output_of   = OPF_NEW(arena, uint32_t, graph->n_values);
    OPF_OOM_IF(error, planner.infos == NULL || planner.places == NULL || planner.output_of == NULL ||
                          !OPF_PUSH(arena, plan->buffers, plan->n_buffers, plan->buffers_capacity, (opf_buffer){0}));
    opf_node_id *order;
    uint32_t     n;
    bool        *needed;
    OPF_TRY(opf_graph_sort(graph, arena, &order, &n, error));
    OPF_TRY(specialise(plan, graph, inputs, options->limits, order, n, planner.infos, error));
    plan->infos = planner.infos;
    for (uint32_t k = 0; k < n; k++)
        if (opf_graph_node(graph, order[k])->n_bodies != 0 && !plan->needs_data) {
            plan->needs_data = true;
            plan->why_not    = "bodies run step by step";
        }
    if (plan->needs_data)
        return OPF_OK;
    OPF_TRY(find_needed(graph, planner.infos, order, n, arena, options->reference, &needed, error));
    mark_outputs(&planner);
    OPF_TRY(place_inputs(&planner, error));
    for (uint32_t k = 0; k < n; k++)
        if (needed[order[k]])
            OPF_TRY(lower_node(&planner, order[k], error));
    OPF_TRY(place_outputs(&planner, error));
    OPF_TRY(opf_plan_memory(&planner, error));
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        plan->flops += plan->steps[i].flops;
        plan->bytes += plan->steps[i].bytes;
    }
    return OPF_OK;
}

opf_status opf_plan_create(const opf_graph *graph, const opf_info *inputs, const opf_plan_options *options, opf_plan **result,
                           opf_error *error)
{
    opf_plan *plan = opf_heap_alloc(options->heap, sizeof *plan);
    OPF_OOM_IF(error, plan == NULL);
    *plan = (opf_plan){.graph = graph};
    opf_arena_init(&plan->arena_, options->heap);
    opf_status status = create(plan, graph, inputs, options, error);
    if (status != OPF_OK)
        opf_plan_destroy(&plan);
    *result = plan;
    return status;
}

void opf_plan_destroy(opf_plan **plan)
{
    if (*plan == NULL)
        return;
    opf_heap *heap = (*plan)->arena_.heap;
    opf_arena_fini(&(*plan)->arena_);
    opf_heap_free(heap, *plan, sizeof **plan);
    *plan = NULL;
}

void opf_plan_print(const opf_plan *plan, opf_text *text)
{
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        const opf_plan_step *step = &plan->steps[i];
        const opf_node      *node = opf_graph_node(plan->graph, step->node);
        opf_text_add(text, "%4u  %-24s %-20s %s\n", i, step->kernel, node->op_type != NULL ? node->op_type : "", node->name != NULL ? node->name : "");
    }
    opf_text_add(text, "arena %zu bytes, scratch %zu bytes a thread\n", plan->arena_bytes, plan->scratch_bytes);
}
