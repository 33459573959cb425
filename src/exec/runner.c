/* SPDX-License-Identifier: Apache-2.0 */
#include "exec/runner.h"

#include "exec/execute.h"
#include "ops/infer.h"
#include "ops/reference.h"

#include <string.h>

enum { PLANS = 8 }; /* kept a place in the graph */

typedef struct segment {
    uint32_t  begin; /* place in the order of nodes */
    opf_plan *plan;
    int64_t  *key;
    size_t    key_length;
    uint64_t  used; /* by run number: the least is given up first */
    double   *times; /* by step, milliseconds, the least so far */
} segment;

/* ---- creating ---- */

opf_status opf_runner_create(opf_run_context *context, const opf_graph *graph, opf_runner **runner, opf_error *error)
{
    opf_runner *r = opf_heap_alloc(context->heap, sizeof *r);
    OPF_OOM_IF(error, r == NULL);
    memset(r, 0, sizeof *r);
    r->context = context;
    r->graph   = graph;
    opf_arena_init(&r->arena, context->heap);
    opf_arena_init(&r->run, context->heap);
    r->live           = OPF_NEW(&r->arena, opf_live, graph->n_values);
    r->bodies         = OPF_NEW(&r->arena, opf_runner **, graph->n_nodes);
    r->rounds         = OPF_NEW(&r->arena, opf_sink *, graph->n_nodes);
    r->n_rounds       = OPF_NEW(&r->arena, uint32_t, graph->n_nodes);
    opf_status status = opf_graph_sort(graph, &r->arena, &r->order, &r->n, error);
    if (status == OPF_OK)
        r->needed = opf_plan_needed(graph, r->order, r->n, &r->arena);
    if (status == OPF_OK && (r->live == NULL || r->needed == NULL || r->bodies == NULL || r->rounds == NULL || r->n_rounds == NULL))
        status = opf_fail(error, OPF_OUT_OF_MEMORY, "out of memory");
    if (status != OPF_OK)
        opf_runner_destroy(&r);
    *runner = r;
    return status;
}

static void drop_segment(opf_runner *r, segment *s)
{
    if (s->plan == NULL)
        return;
    opf_heap_free(r->context->heap, s->times, s->plan->n_steps * sizeof *s->times);
    opf_heap_free(r->context->heap, s->key, s->key_length * sizeof *s->key);
    opf_plan_destroy(&s->plan);
}

void opf_runner_destroy(opf_runner **runner)
{
    opf_runner *r = *runner;
    if (r == NULL)
        return;
    opf_heap *heap = r->context->heap;
    for (uint32_t i = 0; i < r->n_segments; i++)
        drop_segment(r, &r->segments[i]);
    for (opf_value_id v = 0; r->live != NULL && v < r->graph->n_values; v++)
        opf_sink_free(heap, &r->live[v].own);
    for (opf_node_id id = 0; r->bodies != NULL && id < r->graph->n_nodes; id++)
        for (uint32_t b = 0; r->bodies[id] != NULL && b < r->graph->nodes[id].n_bodies; b++)
            opf_runner_destroy(&r->bodies[id][b]);
    for (opf_node_id id = 0; r->rounds != NULL && r->n_rounds != NULL && id < r->graph->n_nodes; id++)
        for (uint32_t i = 0; i < r->n_rounds[id]; i++)
            opf_sink_free(heap, &r->rounds[id][i]);
    opf_heap_free(heap, r->formals, r->formals_bytes);
    opf_heap_free(heap, r->given, r->given_bytes);
    opf_heap_free(heap, r->memory, r->memory_bytes);
    opf_heap_free(heap, r->bases, r->n_bases * sizeof *r->bases);
    opf_arena_fini(&r->run);
    opf_arena_fini(&r->arena);
    opf_heap_free(heap, r, sizeof *r);
    *runner = NULL;
}

opf_status opf_runner_body(opf_runner *runner, opf_node_id node, uint32_t body, opf_runner **result, opf_error *error)
{
    const opf_node *n = opf_graph_node(runner->graph, node);
    if (runner->bodies[node] == NULL) {
        runner->bodies[node] = OPF_NEW(&runner->arena, opf_runner *, n->n_bodies);
        OPF_OOM_IF(error, runner->bodies[node] == NULL);
    }
    if (runner->bodies[node][body] == NULL)
        OPF_TRY(opf_runner_create(runner->context, n->bodies[body], &runner->bodies[node][body], error));
    *result = runner->bodies[node][body];
    return OPF_OK;
}

/* ---- memory ---- */

void opf_sink_free(opf_heap *heap, opf_sink *sink)
{
    if (!sink->fixed)
        opf_heap_free(heap, sink->data, sink->bytes);
    *sink = (opf_sink){0};
}

opf_status opf_sink_reserve(opf_heap *heap, opf_sink *sink, size_t need, size_t keep, opf_error *error)
{
    need = need == 0 && !sink->fixed ? 1 : need;
    if (need <= sink->bytes)
        return OPF_OK;
    if (sink->fixed) {
        size_t have = sink->bytes;
        sink->bytes = need; /* the caller is told */
        return opf_fail(error, OPF_BUFFER_TOO_SMALL, "%zu bytes are needed, the buffer has %zu", need, have);
    }
    void *data = opf_heap_alloc(heap, need);
    OPF_FAIL_IF(error, data == NULL, OPF_OUT_OF_MEMORY, "%zu bytes of memory cannot be had", need);
    if (keep != 0)
        memcpy(data, sink->data, keep);
    opf_heap_free(heap, sink->data, sink->bytes);
    *sink = (opf_sink){.data = data, .bytes = need};
    return OPF_OK;
}

opf_status opf_reserve(opf_heap *heap, void **buffer, size_t *have, size_t need, size_t times, opf_error *error)
{
    if (need <= *have)
        return OPF_OK;
    size_t bytes;
    opf_heap_free(heap, *buffer, *have * times);
    *have   = 0;
    *buffer = opf_mul_size(need, times, &bytes) ? opf_heap_alloc(heap, bytes) : NULL;
    OPF_FAIL_IF(error, *buffer == NULL, OPF_OUT_OF_MEMORY, "%zu bytes of memory cannot be had", need);
    *have = need;
    return OPF_OK;
}

opf_status opf_reserve_scratch(opf_run_context *context, const opf_plan *plan, opf_error *error)
{
    size_t scratch = ((plan->scratch_bytes | 1) + 4095) & ~(size_t)4095; /* threads do not share pages */
    return opf_reserve(context->heap, (void **)(void *)&context->scratch, &context->scratch_bytes, scratch,
                       (size_t)opf_pool_threads(context->pool), error);
}

/* ---- live values ---- */

static uint32_t output_number(const opf_graph *graph, opf_value_id value)
{
    const opf_value *v     = opf_graph_value(graph, value);
    uint32_t         first = UINT32_MAX;
    for (uint32_t u = 0; u < v->n_uses; u++)
        if (v->uses[u].node == 0 && v->uses[u].input < first)
            first = v->uses[u].input;
    return first;
}

opf_sink *opf_runner_sink(opf_runner *runner, opf_value_id value)
{
    uint32_t output = output_number(runner->graph, value);
    return output != UINT32_MAX ? &runner->sinks[output] : &runner->live[value].own;
}

opf_status opf_runner_set(opf_runner *runner, opf_value_id value, const opf_tensor *tensor, opf_error *error)
{
    opf_live *live = &runner->live[value];
    live->info     = (opf_info){.type = tensor->type, .rank = tensor->rank, .n_values = -1};
    live->info.dims = OPF_NEW(&runner->run, opf_dim, tensor->rank);
    OPF_OOM_IF(error, live->info.dims == NULL);
    for (int32_t i = 0; i < tensor->rank; i++)
        live->info.dims[i] = opf_dim_number(tensor->dims[i]);
    live->data = tensor->data;
    return OPF_OK;
}

opf_status opf_runner_tensor(opf_runner *runner, opf_value_id value, opf_tensor *tensor, opf_error *error)
{
    const opf_live  *live     = &runner->live[value];
    const opf_const *constant = opf_graph_value(runner->graph, value)->constant;
    const opf_info  *info     = constant != NULL ? &opf_graph_value(runner->graph, value)->info : &live->info;
    size_t           count;
    *tensor = (opf_tensor){.type = info->type, .rank = info->rank, .data = live->data};
    if (constant != NULL) {
        tensor->data = (void *)(uintptr_t)opf_weights_plain(runner->context->model->weights, constant);
        OPF_OOM_IF(error, tensor->data == NULL);
    }
    if (tensor->data == NULL && live->info.n_values >= 0 && info->type != OPF_TYPE_NONE) { /* known, never computed */
        tensor->data = opf_arena_alloc_n(&runner->run, opf_type_size(info->type), (size_t)live->info.n_values + 1);
        OPF_OOM_IF(error, tensor->data == NULL);
        for (int32_t i = 0; i < live->info.n_values; i++)
            opf_store_i64(info->type, tensor->data, (size_t)i, live->info.values[i].n);
    }
    OPF_FAIL_IF(error, tensor->data == NULL || !opf_info_count(info, &count) || !opf_type_bytes(info->type, count, &tensor->bytes), OPF_INTERNAL,
                "value %s does not exist yet", opf_graph_value(runner->graph, value)->name);
    for (int32_t i = 0; i < info->rank; i++)
        tensor->dims[i] = info->dims[i].n;
    return OPF_OK;
}

/* Reads the elements of small integer inputs of a node, so that shapes can depend on them. */
static opf_status read_inputs(opf_runner *r, opf_node_id id, opf_error *error)
{
    const opf_node *node = opf_graph_node(r->graph, id);
    for (uint32_t i = 0; i < node->n_own_inputs; i++) {
        opf_live *live = &r->live[node->inputs[i]];
        size_t    count;
        if (node->inputs[i] == 0 || live->data == NULL || live->info.n_values >= 0 ||
            !opf_types_have(OPF_TYPES_INT | OPF_TYPES_BOOL, live->info.type) || !opf_info_count(&live->info, &count) ||
            count > OPF_MAX_KNOWN_VALUES)
            continue;
        live->info.values = OPF_NEW(&r->run, opf_dim, count);
        OPF_OOM_IF(error, live->info.values == NULL);
        for (size_t k = 0; k < count; k++)
            live->info.values[k] = opf_dim_number(opf_load_i64(live->info.type, live->data, k));
        live->info.n_values = (int32_t)count;
    }
    return OPF_OK;
}

/* Infos of the outputs of a node whose operator computes them from data; NULL when it does not. */
static opf_status resolve(opf_runner *r, opf_node_id id, const opf_info **outputs, opf_error *error)
{
    const opf_node *node = opf_graph_node(r->graph, id);
    *outputs             = NULL;
    if (node->op->resolve == NULL)
        return OPF_OK;
    opf_view *in  = OPF_NEW(&r->run, opf_view, node->n_own_inputs);
    opf_info *out = OPF_NEW(&r->run, opf_info, node->n_outputs);
    OPF_OOM_IF(error, in == NULL || out == NULL);
    for (uint32_t i = 0; i < node->n_own_inputs; i++) {
        opf_tensor tensor;
        if (node->inputs[i] == 0)
            continue;
        OPF_TRY(opf_runner_tensor(r, node->inputs[i], &tensor, error));
        in[i] = (opf_view){.type = tensor.type, .rank = tensor.rank, .data = tensor.data};
        memcpy(in[i].dims, tensor.dims, sizeof in[i].dims);
        opf_view_set_dense(&in[i]);
    }
    for (uint32_t o = 0; o < node->n_outputs; o++)
        out[o] = (opf_info){.type = node->outputs[o] == 0 ? OPF_TYPE_NONE : opf_graph_value(r->graph, node->outputs[o])->info.type, .rank = -1, .n_values = -1};
    opf_call call = {.node = node, .attrs = node->attrs, .n_attrs = node->n_attrs, .in = in, .n_in = node->n_own_inputs, .n_out = node->n_own_outputs, .heap = r->context->heap};
    OPF_TRY(node->op->resolve(&call, out, &r->run, error));
    *outputs = out;
    return OPF_OK;
}

/* ---- segments ---- */

/* Values that exist before the node at `begin` and are read from there on; graph inputs when it is the first. */
static bool crosses(const opf_runner *r, opf_value_id v, const uint32_t *place, uint32_t begin)
{
    const opf_value *value = opf_graph_value(r->graph, v);
    if (value->constant != NULL || r->live[v].info.type == OPF_TYPE_NONE)
        return false;
    for (uint32_t u = 0; u < value->n_uses; u++)
        if (value->uses[u].node == 0 || place[value->uses[u].node] >= begin)
            return true;
    return false;
}

static opf_status make_key(opf_runner *r, uint32_t begin, int64_t **key, size_t *length, opf_error *error)
{
    uint32_t *place = OPF_NEW(&r->run, uint32_t, r->graph->n_nodes);
    OPF_OOM_IF(error, place == NULL);
    for (uint32_t k = 0; k < r->n; k++)
        place[r->order[k]] = k;
    size_t n = 1;
    for (int pass = 0; pass < 2; pass++) {
        if (pass == 1) {
            *key = OPF_NEW(&r->run, int64_t, n);
            OPF_OOM_IF(error, *key == NULL);
            *length     = n;
            (*key)[0]   = begin;
            n           = 1;
        }
        for (opf_value_id v = 1; v < r->graph->n_values; v++) {
            const opf_info *info = &r->live[v].info;
            if (!crosses(r, v, place, begin))
                continue;
            int32_t values = info->n_values < 0 ? 0 : info->n_values;
            for (int32_t i = 0; pass == 1 && i < info->rank; i++)
                (*key)[n + 2 + (size_t)i] = info->dims[i].n;
            for (int32_t i = 0; pass == 1 && i < values; i++)
                (*key)[n + 2 + (size_t)(info->rank + i)] = info->values[i].n;
            if (pass == 1) {
                (*key)[n]     = info->rank;
                (*key)[n + 1] = info->n_values;
            }
            n += 2 + (size_t)(info->rank + values);
        }
    }
    return OPF_OK;
}

static opf_status add_segment(opf_runner *r, uint32_t begin, opf_plan *plan, const int64_t *key, size_t length, segment **result, opf_error *error)
{
    opf_heap *heap  = r->context->heap;
    segment   fresh = {.begin = begin, .plan = plan, .key_length = length};
    segment  *slot = NULL, *oldest = NULL;
    uint32_t  n = 0;
    fresh.key   = opf_heap_alloc(heap, length * sizeof *key);
    fresh.times = opf_heap_alloc(heap, plan->n_steps * sizeof *fresh.times);
    for (uint32_t i = 0; i < r->n_segments; i++) {
        segment *s = &r->segments[i];
        if (s->plan == NULL)
            slot = s;
        else if (s->begin == begin) {
            n++;
            if (oldest == NULL || s->used < oldest->used)
                oldest = s;
        }
    }
    if (n >= PLANS)
        slot = oldest;
    if (slot == NULL && OPF_PUSH(&r->arena, r->segments, r->n_segments, r->segments_capacity, (segment){0}))
        slot = &r->segments[r->n_segments - 1];
    if (fresh.key == NULL || fresh.times == NULL || slot == NULL) {
        opf_heap_free(heap, fresh.key, length * sizeof *key);
        opf_heap_free(heap, fresh.times, plan->n_steps * sizeof *fresh.times);
        opf_plan_destroy(&plan);
        return opf_fail(error, OPF_OUT_OF_MEMORY, "out of memory");
    }
    memcpy(fresh.key, key, length * sizeof *key);
    for (uint32_t i = 0; i < plan->n_steps; i++)
        fresh.times[i] = -1;
    drop_segment(r, slot);
    *slot   = fresh;
    *result = slot;
    return OPF_OK;
}

static opf_status make_plan(opf_runner *r, uint32_t begin, const opf_info *first, opf_plan **plan, opf_error *error)
{
    opf_info *infos = OPF_NEW(&r->run, opf_info, r->graph->n_values);
    OPF_OOM_IF(error, infos == NULL);
    for (opf_value_id v = 0; v < r->graph->n_values; v++)
        infos[v] = r->live[v].info;
    opf_plan_request request = {.graph = r->graph, .order = r->order, .n = r->n, .begin = begin, .needed = r->needed, .infos = infos, .first = first};
    OPF_TRY(opf_model_plan_part(r->context->model, &request, r->context->reference, plan, error));
    opf_status status = opf_pack_weights(r->context->model, r->context->pool, error);
    if (status != OPF_OK)
        opf_plan_destroy(plan);
    return status;
}

/* The plan from node `begin` on, cached or made. */
static opf_status find_segment(opf_runner *r, uint32_t begin, const opf_info *first, segment **found, opf_error *error)
{
    int64_t *key;
    size_t   length;
    OPF_TRY(make_key(r, begin, &key, &length, error));
    *found = NULL;
    /* What an operator computed from data is in no key: such a segment is made anew. */
    for (uint32_t i = 0; first == NULL && i < r->n_segments; i++) {
        segment *s = &r->segments[i];
        if (s->plan != NULL && s->key_length == length && memcmp(s->key, key, length * sizeof *key) == 0)
            *found = s;
    }
    if (*found == NULL) {
        opf_plan *plan = NULL;
        OPF_TRY(make_plan(r, begin, first, &plan, error));
        if (first != NULL)
            key[0] = -1; /* never found again; given up with the others of its place */
        OPF_TRY(add_segment(r, begin, plan, key, length, found, error));
    }
    (*found)->used = r->runs;
    return OPF_OK;
}


/* ---- running a plan ---- */

static opf_status set_bases(opf_runner *r, const opf_plan *plan, opf_error *error)
{
    opf_heap *heap  = r->context->heap;
    size_t    bases = r->n_bases * sizeof *r->bases, arena = plan->arena_bytes == 0 ? 1 : plan->arena_bytes;
    OPF_TRY(opf_reserve(heap, (void **)(void *)&r->memory, &r->memory_bytes, arena, 1, error));
    OPF_TRY(opf_reserve_scratch(r->context, plan, error));
    opf_status status = opf_reserve(heap, (void **)(void *)&r->bases, &bases, plan->n_buffers * sizeof *r->bases, 1, error);
    r->n_bases        = bases / sizeof *r->bases;
    OPF_TRY(status);
    for (uint32_t b = 1; b < plan->n_buffers; b++) {
        const opf_buffer *buffer = &plan->buffers[b];
        opf_live         *live   = buffer->kind == OPF_BUFFER_VALUE ? &r->live[buffer->index] : NULL;
        opf_sink         *sink   = buffer->kind == OPF_BUFFER_OUTPUT ? &r->sinks[buffer->index] : live != NULL && live->data == NULL ? &live->own : NULL;
        if (sink != NULL) {
            opf_status fits = opf_sink_reserve(heap, sink, buffer->bytes, 0, error);
            if (fits == OPF_BUFFER_TOO_SMALL)
                opf_error_prefix(error, "output %s: ", opf_graph_value(r->graph, r->graph->outputs[buffer->index])->name);
            OPF_TRY(fits);
        }
        r->bases[b] = sink != NULL                              ? sink->data
                      : live != NULL                            ? live->data
                      : buffer->kind == OPF_BUFFER_ARENA        ? r->memory + buffer->offset
                      : buffer->kind == OPF_BUFFER_CONST        ? (char *)(uintptr_t)buffer->data
                                                                : NULL;
    }
    return OPF_OK;
}

/* An info that lives as long as the run. */
static bool keep_info(opf_runner *r, const opf_info *info, opf_info *kept)
{
    *kept        = *info;
    kept->dims   = opf_arena_copy(&r->run, info->dims, (size_t)info->rank * sizeof *info->dims);
    kept->values = info->n_values < 0 ? NULL : opf_arena_copy(&r->run, info->values, (size_t)info->n_values * sizeof *info->values);
    return kept->dims != NULL && (info->n_values < 0 || kept->values != NULL);
}

/* What the plan has made and later nodes, or outputs, read. */
static opf_status take_results(opf_runner *r, const opf_plan *plan, opf_error *error)
{
    for (uint32_t k = plan->begin; k < plan->end; k++) {
        const opf_node *node = opf_graph_node(r->graph, plan->order[k]);
        for (uint32_t o = 0; r->needed[plan->order[k]] && o < node->n_outputs; o++)
            if (node->outputs[o] != 0 && opf_info_is_known(&plan->infos[node->outputs[o]]))
                OPF_OOM_IF(error, !keep_info(r, &plan->infos[node->outputs[o]], &r->live[node->outputs[o]].info));
    }
    for (uint32_t b = 1; b < plan->n_buffers; b++) {
        const opf_buffer *buffer = &plan->buffers[b];
        if (buffer->kind != OPF_BUFFER_VALUE && buffer->kind != OPF_BUFFER_OUTPUT)
            continue;
        opf_value_id v    = buffer->kind == OPF_BUFFER_VALUE ? buffer->index : r->graph->outputs[buffer->index];
        opf_live    *live = &r->live[v];
        if (buffer->kind == OPF_BUFFER_OUTPUT)
            r->written[buffer->index] = true;
        if (live->data != NULL)
            continue;
        live->data = r->bases[b];
        OPF_OOM_IF(error, !keep_info(r, &plan->infos[v], &live->info));
    }
    return OPF_OK;
}

static opf_status run_segment(opf_runner *r, segment *s, opf_error *error)
{
    opf_run_context *context = r->context;
    OPF_TRY(set_bases(r, s->plan, error));
    opf_execution execution = {.plan            = s->plan,
                               .bases           = r->bases,
                               .kern            = &context->model->kern,
                               .heap            = context->heap,
                               .pool            = context->pool,
                               .scratch         = context->scratch,
                               .scratch_bytes   = context->scratch_bytes,
                               .cancelled       = &context->cancelled,
                               .flush_denormals = context->flush_denormals,
                               .times           = context->profile ? s->times : NULL};
    OPF_TRY(opf_execute(&execution, error));
    return take_results(r, s->plan, error);
}

/* ---- running the graph ---- */

static opf_status set_inputs(opf_runner *r, const opf_tensor *inputs, opf_error *error)
{
    opf_arena_fini(&r->run);
    r->runs++;
    for (opf_value_id v = 0; v < r->graph->n_values; v++) {
        r->live[v].info = (opf_info){.rank = -1, .n_values = -1};
        r->live[v].data = NULL;
    }
    for (uint32_t i = 0; i < r->graph->n_inputs; i++) {
        const opf_value *value = opf_graph_value(r->graph, r->graph->inputs[i]);
        if (value->constant == NULL && value->n_uses != 0)
            OPF_TRY(opf_runner_set(r, r->graph->inputs[i], &inputs[i], error));
    }
    r->written = OPF_NEW(&r->run, bool, r->graph->n_outputs);
    OPF_OOM_IF(error, r->written == NULL);
    return OPF_OK;
}

/* One step of the walk: a node with bodies, or a segment from *place on. */
static opf_status advance(opf_runner *r, uint32_t *place, opf_error *error)
{
    opf_node_id     id   = r->order[*place];
    const opf_node *node = opf_graph_node(r->graph, id);
    segment        *s;
    if (!r->needed[id]) {
        ++*place;
        return OPF_OK;
    }
    if (node->n_bodies != 0) {
        ++*place;
        return opf_run_control(r, id, error);
    }
    OPF_TRY(find_segment(r, *place, NULL, &s, error));
    if (s->plan->end == *place) { /* this very node needs data: read what it asks for */
        const opf_info *first;
        OPF_TRY(read_inputs(r, id, error));
        OPF_TRY(find_segment(r, *place, NULL, &s, error));
        if (s->plan->end == *place) {
            OPF_TRY(resolve(r, id, &first, error));
            if (first != NULL)
                OPF_TRY(find_segment(r, *place, first, &s, error));
        }
        OPF_FAIL_IF(error, s->plan->end == *place, OPF_INVALID_INPUT, "%s", s->plan->why_not != NULL ? s->plan->why_not : "a shape is not known");
    }
    OPF_TRY(run_segment(r, s, error));
    *place = s->plan->end;
    return OPF_OK;
}

/* Outputs that no plan has written: inputs, constants, results of bodies, a value that is two outputs. */
static opf_status finish_output(opf_runner *r, uint32_t i, opf_tensor *output, opf_error *error)
{
    opf_sink *sink = &r->sinks[i];
    OPF_TRY(opf_runner_tensor(r, r->graph->outputs[i], output, error));
    if (!r->written[i] && output->data != sink->data) {
        OPF_TRY(opf_sink_reserve(r->context->heap, sink, output->bytes, 0, error));
        if (output->bytes != 0)
            memcpy(sink->data, output->data, output->bytes);
    }
    output->data = sink->data;
    return OPF_OK;
}

opf_status opf_runner_run(opf_runner *runner, const opf_tensor *inputs, opf_tensor *outputs, opf_sink *sinks, opf_error *error)
{
    runner->sinks = sinks;
    OPF_TRY(set_inputs(runner, inputs, error));
    for (uint32_t place = 0; place < runner->n;)
        OPF_TRY(advance(runner, &place, error));
    for (uint32_t i = 0; i < runner->graph->n_outputs; i++)
        OPF_TRY(finish_output(runner, i, &outputs[i], error));
    return OPF_OK;
}

void opf_runner_plans(const opf_runner *runner, opf_visit_plan visit, void *user)
{
    for (uint32_t place = 0; runner != NULL && place < runner->n; place++) {
        opf_node_id id = runner->order[place];
        for (uint32_t i = 0; i < runner->n_segments; i++)
            if (runner->segments[i].plan != NULL && runner->segments[i].begin == place && runner->segments[i].used == runner->runs)
                visit(user, runner->segments[i].plan, runner->segments[i].times);
        for (uint32_t b = 0; runner->bodies[id] != NULL && b < opf_graph_node(runner->graph, id)->n_bodies; b++)
            opf_runner_plans(runner->bodies[id][b], visit, user);
    }
}
