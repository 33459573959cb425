/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/plan.h"

#include "base/status.h"
#include "ops/infer.h"
#include "plan/bands.h"
#include "plan/gathered.h"
#include "plan/panelwise.h"

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
    buffer->touched++;
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
        dst->type != src->type || dst->offset != src->offset || dst->rank != src->rank || to->bytes > from->bytes)
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

/* Of the nodes in [begin, end). Values whose elements are known are placed as constants, so what computes only those is not
   run. `crossing` values are read by later segments. */
static opf_status find_work(const opf_planner *planner, const opf_plan_request *request, const bool *crossing, bool **work, opf_error *error)
{
    const opf_graph *graph  = planner->graph;
    bool            *values = OPF_NEW(planner->arena, bool, graph->n_values);
    bool            *nodes  = OPF_NEW(planner->arena, bool, graph->n_nodes);
    OPF_OOM_IF(error, values == NULL || nodes == NULL);
    for (opf_value_id v = 1; v < graph->n_values; v++)
        values[v] = crossing[v] || opf_graph_is_output(graph, v);
    for (uint32_t k = planner->plan->end; k-- > planner->plan->begin;) {
        opf_node_id     id   = request->order[k];
        const opf_node *node = opf_graph_node(graph, id);
        for (uint32_t o = 0; o < node->n_outputs; o++)
            if (node->outputs[o] != 0 && values[node->outputs[o]] &&
                (planner->options->reference || !opf_info_is_known(&planner->infos[node->outputs[o]])))
                nodes[id] = true;
        for (uint32_t i = 0; nodes[id] && i < node->n_inputs; i++)
            values[node->inputs[i]] = true;
    }
    *work = nodes;
    return OPF_OK;
}

bool *opf_plan_needed(const opf_graph *graph, const opf_node_id *order, uint32_t n, opf_arena *arena)
{
    bool *needed = OPF_NEW(arena, bool, graph->n_nodes);
    for (uint32_t k = n; needed != NULL && k-- > 0;) {
        const opf_node *node = opf_graph_node(graph, order[k]);
        for (uint32_t o = 0; o < node->n_outputs; o++) {
            const opf_value *value = node->outputs[o] == 0 ? NULL : opf_graph_value(graph, node->outputs[o]);
            for (uint32_t u = 0; value != NULL && u < value->n_uses; u++)
                if (value->uses[u].node == 0 || needed[value->uses[u].node])
                    needed[order[k]] = true;
        }
    }
    return needed;
}

/* Values made in [begin, end) that needed nodes from `end` on read. */
static opf_status find_crossing(const opf_planner *planner, const opf_plan_request *request, bool **crossing, opf_error *error)
{
    bool *values = OPF_NEW(planner->arena, bool, planner->graph->n_values);
    OPF_OOM_IF(error, values == NULL);
    for (uint32_t k = planner->plan->end; k < request->n; k++) {
        const opf_node *node = opf_graph_node(planner->graph, request->order[k]);
        for (uint32_t i = 0; request->needed[request->order[k]] && i < node->n_inputs; i++)
            values[node->inputs[i]] = true;
    }
    *crossing = values;
    return OPF_OK;
}

/* A dense output may be computed where the caller wants it; so may what is reshaped into it. */
static void mark_outputs(opf_planner *planner)
{
    const opf_graph *graph = planner->graph;
    for (uint32_t i = graph->n_outputs; i-- > 0;) {
        opf_value_id value = graph->outputs[i];
        size_t       count;
        if (!opf_info_count(&planner->infos[value], &count))
            continue; /* a later plan makes it */
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

/* A value that only a Transpose reads is best written in the order that makes the transposed value row-major: the reshape
   behind it (heads joined again after attention) is a view then. Only kernels that can write columns last take this up. */
static opf_status mark_orders(opf_planner *planner, opf_error *error)
{
    const opf_graph *graph = planner->graph;
    planner->order_of      = OPF_NEW(planner->arena, const int32_t *, graph->n_values);
    OPF_OOM_IF(error, planner->order_of == NULL);
    for (opf_node_id id = 1; id < graph->n_nodes; id++) {
        const opf_node *node = opf_graph_node(graph, id);
        if (node->op != &opf_op_Transpose || opf_graph_single_use(graph, node->inputs[0]) == NULL)
            continue;
        const opf_attr *perm = opf_node_attr(node, "perm"); /* without one, axes are reversed */
        const int32_t   rank = planner->infos[node->inputs[0]].rank;
        if (rank < 0)
            continue; /* a later plan makes it */
        int32_t *order = OPF_NEW(planner->arena, int32_t, rank);
        OPF_OOM_IF(error, order == NULL);
        for (int32_t i = 0; i < rank; i++)
            order[i] = perm != NULL ? (int32_t)perm->ints[i] : rank - 1 - i;
        planner->order_of[node->inputs[0]] = order;
    }
    return OPF_OK;
}

/* The first that takes a node lowers it. */
static const opf_lower_fn lowerings[] = {
    opf_lower_view,       opf_lower_conv,   opf_lower_conv_transpose, opf_lower_matmul, opf_lower_attention, opf_lower_rotary,
    opf_lower_recurrent,  opf_lower_norm,   opf_lower_rows,           opf_lower_pool,   opf_lower_reduce,    opf_lower_group_norm,
    opf_lower_concat,     opf_lower_gather, opf_lower_batch_norm,     opf_lower_resize, opf_lower_pad,       opf_lower_scatter,
    opf_lower_elementwise, opf_lower_reference,
};

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
    for (uint32_t i = 0; i < node->n_inputs; i++) /* a wrong index is an error, whoever reads */
        if (opf_plan_gathered(planner, node->inputs[i]) != NULL)
            OPF_TRY(opf_plan_place(planner, node->inputs[i], &place, error));
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

/* What exists before the first node lies dense: graph inputs in the caller's buffers, all else in buffers of its own. */
static opf_status place_inputs(opf_planner *planner, const opf_plan_request *request, bool whole, opf_error *error)
{
    const opf_graph *graph = planner->graph;
    for (opf_value_id v = 1; v < graph->n_values; v++) {
        const opf_info *info = &planner->infos[v];
        int64_t         dims[OPF_MAX_RANK];
        if (request->infos[v].type == OPF_TYPE_NONE || graph->values[v].constant != NULL || (!whole && opf_info_is_known(info)))
            continue;
        opf_place place;
        for (int32_t k = 0; k < info->rank; k++)
            dims[k] = info->dims[k].n;
        OPF_TRY(opf_plan_alloc_temporary(planner, info->type, info->rank, dims, NULL, &place, error));
        planner->plan->buffers[place.buffer].kind  = OPF_BUFFER_VALUE;
        planner->plan->buffers[place.buffer].index = v;
        planner->places[v]                         = place;
    }
    for (uint32_t i = 0; whole && i < graph->n_inputs; i++) {
        const opf_place *place = &planner->places[graph->inputs[i]];
        if (place->buffer == 0)
            continue;
        planner->plan->buffers[place->buffer].kind  = OPF_BUFFER_INPUT;
        planner->plan->buffers[place->buffer].index = i;
    }
    return OPF_OK;
}

/* Copies for the caller or for later segments that wait for others from the same buffer: they become one step. */
typedef struct {
    opf_place   *src, *dst;
    uint32_t     n;
    opf_value_id value; /* the first */
    opf_node_id  node;
} deliveries;

static opf_status deliver_now(opf_planner *planner, deliveries *d, opf_buffer_kind kind, opf_error *error)
{
    uint32_t n = d->n;
    if (n == 0)
        return OPF_OK;
    planner->node = d->node;
    d->n          = 0;
    OPF_TRY(opf_plan_copies(planner, kind == OPF_BUFFER_OUTPUT ? "copy_output" : "copy_crossing", d->src, d->dst, n, error));
    planner->plan->steps[planner->plan->n_steps - 1].copied = d->value;
    return OPF_OK;
}

/* The value dense in a buffer of this kind and index: where it lies already, or by a copy. */
static opf_status deliver(opf_planner *planner, opf_value_id value, opf_buffer_kind kind, uint32_t index, opf_place *delivered,
                          deliveries *d, opf_error *error)
{
    opf_plan *plan = planner->plan;
    opf_place src, dst;
    OPF_TRY(opf_plan_place(planner, value, &src, error));
    const opf_buffer *buffer = &plan->buffers[src.buffer];
    if (buffer->kind == kind && buffer->index == index && src.offset == 0 && opf_place_is_row_major(&src)) {
        *delivered = src;
        return OPF_OK;
    }
    OPF_TRY(opf_plan_alloc_temporary(planner, src.type, src.rank, src.dims, NULL, &dst, error));
    plan->buffers[dst.buffer].kind  = kind;
    plan->buffers[dst.buffer].index = index;
    *delivered                      = dst;
    const opf_buffer_kind from = plan->buffers[src.buffer].kind;
    size_t                bytes;
    if (kind == OPF_BUFFER_OUTPUT && (from == OPF_BUFFER_INPUT || from == OPF_BUFFER_CONST) && opf_place_is_row_major(&src) &&
        opf_type_bytes(src.type, opf_place_elements(&src), &bytes)) {
        const opf_passed passed = {opf_place_ref(&src), opf_place_ref(&dst), bytes};
        OPF_OOM_IF(error, !OPF_PUSH(planner->arena, plan->passed, plan->n_passed, plan->passed_capacity, passed));
        return OPF_OK;
    }
    if (d->n != 0 && d->src[0].buffer != src.buffer)
        OPF_TRY(deliver_now(planner, d, kind, error));
    if (d->n == 0) {
        d->value = value;
        d->node  = opf_graph_value(planner->graph, value)->producer;
    }
    d->src[d->n]   = src;
    d->dst[d->n++] = dst;
    return OPF_OK;
}

static bool is_made_here(const opf_plan *plan, const opf_graph *graph, opf_value_id value)
{
    opf_node_id producer = opf_graph_value(graph, value)->producer;
    for (uint32_t k = plan->begin; k < plan->end; k++)
        if (plan->order[k] == producer)
            return true;
    return producer == 0 && plan->begin == 0;
}

static opf_status place_outputs(opf_planner *planner, const bool *crossing, opf_error *error)
{
    const opf_graph *graph = planner->graph;
    opf_plan        *plan  = planner->plan;
    opf_place        place;
    deliveries       waiting = {.n = 0};
    uint32_t         most    = graph->n_outputs;
    for (opf_value_id v = 1; v < graph->n_values; v++)
        most += crossing[v];
    plan->outputs = OPF_NEW(planner->arena, opf_place, graph->n_outputs);
    waiting.src   = OPF_NEW(planner->arena, opf_place, most);
    waiting.dst   = OPF_NEW(planner->arena, opf_place, most);
    OPF_OOM_IF(error, plan->outputs == NULL || waiting.src == NULL || waiting.dst == NULL);
    for (uint32_t i = 0; i < graph->n_outputs; i++)
        if (is_made_here(plan, graph, graph->outputs[i]))
            OPF_TRY(deliver(planner, graph->outputs[i], OPF_BUFFER_OUTPUT, i, &plan->outputs[i], &waiting, error));
    OPF_TRY(deliver_now(planner, &waiting, OPF_BUFFER_OUTPUT, error));
    for (uint32_t k = plan->begin; k < plan->end; k++) {
        const opf_node *node = opf_graph_node(graph, plan->order[k]);
        for (uint32_t o = 0; o < node->n_outputs; o++) {
            opf_value_id v = node->outputs[o];
            if (v != 0 && crossing[v] && !opf_graph_is_output(graph, v) && !opf_info_is_known(&planner->infos[v]))
                OPF_TRY(deliver(planner, v, OPF_BUFFER_VALUE, v, &place, &waiting, error));
        }
    }
    return deliver_now(planner, &waiting, OPF_BUFFER_VALUE, error);
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

/* Infers one node with numbers. */
static opf_status infer(opf_plan *plan, const opf_plan_request *request, opf_node_id id, opf_dims *dims, opf_info *infos, opf_info **out,
                        opf_error *error)
{
    const opf_node *node = opf_graph_node(request->graph, id);
    *out                 = OPF_NEW(&plan->arena_, opf_info, node->n_outputs);
    OPF_OOM_IF(error, *out == NULL);
    opf_status status = opf_infer_node(request->graph, id, infos, &plan->arena_, dims, *out, error);
    if (status == OPF_INVALID_MODEL) { /* the model was accepted on symbols: it is these sizes that cannot be */
        if (error != NULL)
            error->status = OPF_INVALID_INPUT;
        status = OPF_INVALID_INPUT;
    }
    return status;
}

/* Infers node by node up to the first that has bodies, or makes a shape that stays unknown: it depends on data. */
static opf_status specialise(opf_plan *plan, const opf_plan_request *request, const opf_limits *limits, opf_info *infos, opf_error *error)
{
    const opf_graph *graph = request->graph;
    opf_dims        *dims  = opf_dims_create(&plan->arena_);
    OPF_OOM_IF(error, dims == NULL);
    for (opf_value_id v = 0; v < graph->n_values; v++)
        infos[v] = graph->values[v].constant != NULL ? graph->values[v].info : request->infos[v];
    for (plan->end = plan->begin; plan->end < request->n; plan->end++) {
        opf_node_id     id   = request->order[plan->end];
        const opf_node *node = opf_graph_node(graph, id);
        if (!request->needed[id])
            continue;
        if (node->n_bodies != 0) {
            plan->why_not = opf_arena_printf(&plan->arena_, "%s (%s) has bodies", node->name, node->op_type);
            return OPF_OK;
        }
        opf_info *out;
        OPF_TRY(infer(plan, request, id, dims, infos, &out, error));
        if (plan->end == plan->begin && request->first != NULL)
            memcpy(out, request->first, node->n_outputs * sizeof *out);
        for (uint32_t o = 0; o < node->n_outputs; o++)
            if (node->outputs[o] != 0 && !is_numeric(&out[o])) {
                plan->why_not = opf_arena_printf(&plan->arena_, "the shape of %s, which %s (%s) makes, depends on data",
                                                 graph->values[node->outputs[o]].name, node->name, node->op_type);
                return OPF_OK;
            }
        for (uint32_t o = 0; o < node->n_outputs; o++) {
            if (node->outputs[o] == 0)
                continue;
            infos[node->outputs[o]] = out[o];
            OPF_TRY(check_size(limits, node, opf_graph_value(graph, node->outputs[o]), &out[o], error));
        }
    }
    return OPF_OK;
}

/* ---- making a plan ---- */

/* What one thread does in a few microseconds: less than it takes another one to come, on a machine with other work. */
enum { LONE_FLOPS = 100000, LONE_BYTES = 65536 };

static opf_status create(opf_plan *plan, const opf_plan_request *request, bool whole, const opf_plan_options *options, opf_error *error)
{
    opf_arena       *arena   = &plan->arena_;
    const opf_graph *graph   = request->graph;
    opf_planner      planner = {.plan = plan, .graph = graph, .options = options, .arena = arena};
    bool            *crossing, *work;
    planner.infos     = OPF_NEW(arena, opf_info, graph->n_values);
    planner.places    = OPF_NEW(arena, opf_place, graph->n_values);
    planner.output_of = OPF_NEW(arena, uint32_t, graph->n_values);
    planner.gathered  = OPF_NEW(arena, const opf_gathered *, graph->n_values);
    planner.beside    = OPF_NEW(arena, opf_node_id, graph->n_values);
    plan->order       = opf_arena_copy(arena, request->order, request->n * sizeof *request->order);
    plan->begin       = request->begin;
    OPF_OOM_IF(error, planner.infos == NULL || planner.places == NULL || planner.output_of == NULL || planner.gathered == NULL ||
                          planner.beside == NULL ||
                          plan->order == NULL || !OPF_PUSH(arena, plan->buffers, plan->n_buffers, plan->buffers_capacity, (opf_buffer){0}));
    OPF_TRY(specialise(plan, request, options->limits, planner.infos, error));
    plan->infos      = planner.infos;
    plan->needs_data = plan->end < request->n;
    if (whole && plan->needs_data)
        return OPF_OK;
    OPF_TRY(find_crossing(&planner, request, &crossing, error));
    OPF_TRY(find_work(&planner, request, crossing, &work, error));
    mark_outputs(&planner);
    OPF_TRY(mark_orders(&planner, error));
    for (opf_value_id v = 1; v < graph->n_values; v++)
        if (crossing[v] && planner.output_of[v] == 0)
            planner.output_of[v] = OPF_CROSSING;
    OPF_TRY(opf_plan_mark_slices(&planner, work, error));
    OPF_TRY(place_inputs(&planner, request, whole, error));
    for (uint32_t k = plan->begin; k < plan->end; k++)
        if (work[request->order[k]])
            OPF_TRY(lower_node(&planner, request->order[k], error));
    OPF_TRY(place_outputs(&planner, crossing, error));
    OPF_TRY(opf_plan_panelwise(&planner, error));
    OPF_TRY(opf_plan_bands(&planner, error));
    OPF_TRY(opf_plan_memory(&planner, error));
    plan->is_lone = true;
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        opf_plan_step *step = &plan->steps[i];
        step->lone          = step->run == NULL || step->units <= 1 || (step->flops < LONE_FLOPS && step->bytes < LONE_BYTES);
        plan->is_lone       = plan->is_lone && step->lone;
        plan->flops += step->flops;
        plan->bytes += step->bytes;
    }
    return OPF_OK;
}

static opf_status make(const opf_plan_request *request, bool whole, const opf_plan_options *options, opf_plan **result, opf_error *error)
{
    opf_plan *plan = opf_heap_alloc(options->heap, sizeof *plan);
    OPF_OOM_IF(error, plan == NULL);
    *plan = (opf_plan){.graph = request->graph};
    opf_arena_init(&plan->arena_, options->heap);
    opf_status status = create(plan, request, whole, options, error);
    if (status != OPF_OK)
        opf_plan_destroy(&plan);
    *result = plan;
    return status;
}

opf_status opf_plan_create_part(const opf_plan_request *request, const opf_plan_options *options, opf_plan **plan, opf_error *error)
{
    return make(request, false, options, plan, error);
}

/* A whole graph is a part that begins with its inputs. */
static opf_status create_whole(const opf_graph *graph, const opf_info *inputs, const opf_plan_options *options, opf_arena *arena,
                               opf_plan **plan, opf_error *error)
{
    opf_plan_request request = {.graph = graph};
    opf_node_id     *order;
    OPF_TRY(opf_graph_sort(graph, arena, &order, &request.n, error));
    opf_info *infos = OPF_NEW(arena, opf_info, graph->n_values);
    request.order   = order;
    request.needed  = opf_plan_needed(graph, order, request.n, arena);
    request.infos   = infos;
    OPF_OOM_IF(error, infos == NULL || request.needed == NULL);
    for (opf_value_id v = 0; v < graph->n_values; v++)
        infos[v] = (opf_info){.rank = -1, .n_values = -1};
    for (uint32_t i = 0; i < graph->n_inputs; i++)
        if (graph->values[graph->inputs[i]].constant == NULL)
            infos[graph->inputs[i]] = inputs[i];
    return make(&request, true, options, plan, error);
}

opf_status opf_plan_create(const opf_graph *graph, const opf_info *inputs, const opf_plan_options *options, opf_plan **plan,
                           opf_error *error)
{
    opf_arena arena;
    opf_arena_init(&arena, options->heap);
    *plan             = NULL;
    opf_status status = create_whole(graph, inputs, options, &arena, plan, error);
    opf_arena_fini(&arena);
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
