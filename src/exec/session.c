/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session: plans for the latest shapes, the memory they run in, and threads. A run whose shapes are planned walks the
 * step list on all threads, with a barrier after each step, and allocates nothing.
 */
#include "exec/execute.h"
#include "exec/guards.h"
#include "exec/session.h"

#include "cpu/cpu.h"

#include <string.h>

/* ---- creating ---- */

/* A list by input or output, cleared. */
static void *create_list(opf_session *s, size_t n, size_t size)
{
    size_t bytes;
    void  *list = opf_mul_size(n, size, &bytes) ? opf_heap_alloc(s->heap, bytes) : NULL;
    return list == NULL ? NULL : memset(list, 0, bytes);
}

static opf_status start(opf_session *s, opf_error *error)
{
    uint32_t n_in = s->graph->n_inputs, n_out = s->graph->n_outputs;
    s->threads      = s->options.threads > 0 ? s->options.threads : opf_cpu_usable_cores();
    s->outputs      = create_list(s, n_out, sizeof *s->outputs);
    s->output_bytes = create_list(s, n_out, sizeof *s->output_bytes);
    s->data         = create_list(s, n_out, sizeof *s->data);
    s->inputs       = create_list(s, n_in, sizeof *s->inputs);
    s->key          = create_list(s, 1 + (size_t)n_in * OPF_SESSION_KEY, sizeof *s->key);
    OPF_OOM_IF(error, s->outputs == NULL || s->output_bytes == NULL || s->data == NULL || s->inputs == NULL || s->key == NULL);
    s->sinks        = create_list(s, n_out, sizeof *s->sinks);
    s->results      = create_list(s, n_out, sizeof *s->results);
    OPF_OOM_IF(error, s->sinks == NULL || s->results == NULL);
    s->context = (opf_run_context){.model           = s->model,
                                   .heap            = s->heap,
                                   .reference       = s->options.mode == OPF_MODE_REFERENCE,
                                   .flush_denormals = s->options.flush_denormals,
                                   .profile         = s->options.profile};
    return opf_pool_create(s->heap, s->threads, &s->context.pool, error);
}

static opf_status create(const opf_model *model, const opf_stages *stages, const opf_graph *graph, const opf_graph *frozen,
                         const opf_session_options *options, opf_session **session, opf_error *error)
{
    opf_heap    *heap = (opf_heap *)(uintptr_t)&model->heap;
    opf_session *s    = opf_heap_alloc(heap, sizeof *s);
    *session          = NULL;
    OPF_OOM_IF(error, s == NULL);
    memset(s, 0, sizeof *s);
    s->model  = model;
    s->stages = stages;
    s->graph  = graph;
    s->frozen = frozen;
    s->heap   = heap;
    if (options != NULL)
        s->options = *options;
    opf_arena_init(&s->profile_arena, heap);
    opf_status status = start(s, error);
    if (status != OPF_OK)
        opf_session_destroy(&s);
    *session = s;
    return status;
}

opf_status opf_session_create_on(const opf_model *model, const opf_stages *stages, const opf_graph *graph,
                                 const opf_session_options *options, opf_session **session, opf_error *error)
{
    return create(model, stages, graph, NULL, options, session, error);
}

opf_status opf_session_create(const opf_model *model, const opf_session_options *options, opf_session **session, opf_error *error)
{
    OPF_FAIL_IF(error, model == NULL || session == NULL, OPF_INVALID_ARGUMENT, "model and session must not be NULL");
    opf_mode mode = options == NULL ? OPF_MODE_FUSED : options->mode;
    *session      = NULL;
    OPF_FAIL_IF(error, mode != OPF_MODE_FUSED && mode != OPF_MODE_UNFUSED && mode != OPF_MODE_REFERENCE, OPF_INVALID_ARGUMENT,
                "there is no mode %d", (int)mode);
    const opf_graph *frozen = mode == OPF_MODE_REFERENCE ? NULL : opf_stages_graph(&model->frozen, mode);
    return create(model, &model->open, opf_stages_graph(&model->open, mode), frozen, options, session, error);
}

static void drop_plan(opf_session *s, opf_planned *p)
{
    if (p->plan == NULL)
        return;
    if (s->latest == p)
        s->latest = NULL;
    opf_heap_free(s->heap, p->times, p->plan->n_steps * sizeof *p->times);
    opf_heap_free(s->heap, p->key, p->key_length * sizeof *p->key);
    opf_plan_destroy(&p->plan);
}

void opf_session_destroy(opf_session **session)
{
    if (session == NULL || *session == NULL)
        return;
    opf_session *s = *session;
    uint32_t     n = s->graph->n_outputs;
    opf_pool_destroy(&s->context.pool);
    for (int i = 0; i < OPF_SESSION_RUNNERS; i++)
        opf_runner_destroy(&s->runners[i]);
    for (int i = 0; i < OPF_SESSION_PLANS; i++)
        drop_plan(s, &s->plans[i]);
    for (uint32_t i = 0; i < n && s->outputs != NULL && s->output_bytes != NULL; i++)
        opf_heap_free(s->heap, s->outputs[i], s->output_bytes[i]);
    opf_heap_free(s->heap, s->data, n * sizeof *s->data);
    opf_heap_free(s->heap, s->inputs, s->graph->n_inputs * sizeof *s->inputs);
    opf_heap_free(s->heap, s->key, (1 + (size_t)s->graph->n_inputs * OPF_SESSION_KEY) * sizeof *s->key);
    opf_heap_free(s->heap, s->outputs, n * sizeof *s->outputs);
    opf_heap_free(s->heap, s->output_bytes, n * sizeof *s->output_bytes);
    opf_heap_free(s->heap, s->arena, s->arena_bytes);
    opf_heap_free(s->heap, s->context.scratch, s->context.scratch_bytes * (size_t)s->threads);
    opf_heap_free(s->heap, s->sinks, n * sizeof *s->sinks);
    opf_heap_free(s->heap, s->results, n * sizeof *s->results);
    opf_heap_free(s->heap, s->bases, s->n_bases * sizeof *s->bases);
    opf_arena_fini(&s->profile_arena);
    opf_heap_free(s->heap, s, sizeof *s);
    *session = NULL;
}

void opf_session_cancel(opf_session *session)
{
    if (session != NULL)
        atomic_store(&session->context.cancelled, true);
}

/* ---- plans ---- */

static opf_status make_plan(opf_session *s, const opf_tensor *inputs, opf_plan **plan, opf_error *error)
{
    const opf_model  *model  = s->model;
    const opf_stages *stages = s->is_frozen ? &model->frozen : s->stages;
    const opf_graph  *graph  = s->is_frozen ? s->frozen : s->graph;
    opf_arena         arena;
    opf_arena_init(&arena, s->heap);
    opf_info  *infos  = OPF_NEW(&arena, opf_info, graph->n_inputs);
    opf_status status = infos == NULL ? opf_fail(error, OPF_OUT_OF_MEMORY, "out of memory") : OPF_OK;
    for (uint32_t i = 0; status == OPF_OK && i < graph->n_inputs; i++) {
        infos[i]      = (opf_info){.type = inputs[i].type, .rank = inputs[i].rank, .n_values = -1};
        infos[i].dims = OPF_NEW(&arena, opf_dim, inputs[i].rank);
        if (infos[i].dims == NULL)
            status = opf_fail(error, OPF_OUT_OF_MEMORY, "out of memory");
        for (int32_t k = 0; status == OPF_OK && k < inputs[i].rank; k++)
            infos[i].dims[k] = opf_dim_number(inputs[i].dims[k]);
    }
    bool replaceable = graph->n_outputs == model->loaded.graph->n_outputs; /* not when verify looks inside */
    const char *breach = status == OPF_OK && s->options.mode != OPF_MODE_REFERENCE && replaceable ? opf_find_breach(model, stages, inputs, &arena) : NULL;
    if (breach != NULL) {
        graph = stages->loaded;
        if (!s->warned && model->log != NULL)
            model->log(model->log_user, breach);
        s->warned = true;
    }
    if (status == OPF_OK)
        status = opf_model_plan(model, graph, infos, s->options.mode == OPF_MODE_REFERENCE, plan, error);
    if (status == OPF_OK && (status = opf_pack_weights(model, s->context.pool, error)) != OPF_OK)
        opf_plan_destroy(plan);
    opf_arena_fini(&arena);
    return status;
}

static opf_status reserve_for(opf_session *s, const opf_plan *plan, opf_error *error)
{
    size_t bases = s->n_bases * sizeof *s->bases;
    size_t arena = plan->arena_bytes == 0 ? 1 : plan->arena_bytes; /* tensors without elements have an address too */
    OPF_TRY(opf_reserve(s->heap, (void **)(void *)&s->arena, &s->arena_bytes, arena, 1, error));
    OPF_TRY(opf_reserve_scratch(&s->context, plan, error));
    opf_status status = opf_reserve(s->heap, (void **)(void *)&s->bases, &bases, plan->n_buffers * sizeof *s->bases, 1, error);
    s->n_bases        = bases / sizeof *s->bases;
    return status;
}

static size_t fill_key(const opf_session *s)
{
    size_t length    = 0;
    s->key[length++] = s->is_frozen;
    for (uint32_t i = 0; i < s->graph->n_inputs; i++) {
        s->key[length++] = s->inputs[i].rank * OPF_TYPE_COUNT + (int64_t)s->inputs[i].type;
        for (int32_t k = 0; k < s->inputs[i].rank; k++)
            s->key[length++] = s->inputs[i].dims[k];
    }
    return length;
}

/* A plan for s->inputs in the slot, instead of what is there. */
static opf_status fill_slot(opf_session *s, opf_planned *slot, size_t length, opf_error *error)
{
    opf_planned p = {.key_length = length};
    OPF_TRY(make_plan(s, s->inputs, &p.plan, error));
    p.key   = opf_heap_alloc(s->heap, length * sizeof *p.key);
    p.times = opf_heap_alloc(s->heap, p.plan->n_steps * sizeof *p.times);
    if (p.key == NULL || p.times == NULL) {
        drop_plan(s, &p);
        return opf_fail(error, OPF_OUT_OF_MEMORY, "out of memory");
    }
    memcpy(p.key, s->key, length * sizeof *p.key);
    for (uint32_t i = 0; i < p.plan->n_steps; i++)
        p.times[i] = -1;
    drop_plan(s, slot);
    *slot = p;
    return OPF_OK;
}

static opf_status find_plan(opf_session *s, opf_planned **found, opf_error *error)
{
    size_t   length = fill_key(s);
    opf_planned *slot   = &s->plans[0]; /* the wanted plan, else a free slot, else the one used longest ago */
    bool     hit    = false;
    for (int i = 0; i < OPF_SESSION_PLANS && !hit; i++) {
        opf_planned *p = &s->plans[i];
        hit        = p->plan != NULL && p->key_length == length && memcmp(p->key, s->key, length * sizeof *s->key) == 0;
        if (hit || (slot->plan != NULL && (p->plan == NULL || p->used < slot->used)))
            slot = p;
    }
    if (!hit)
        OPF_TRY(fill_slot(s, slot, length, error));
    slot->used = ++s->runs;
    *found     = slot;
    return reserve_for(s, slot->plan, error);
}

opf_status opf_session_prepare(opf_session *session, const opf_tensor *inputs, size_t n_inputs, opf_error *error)
{
    opf_planned *found;
    OPF_FAIL_IF(error, session == NULL || (inputs == NULL && n_inputs != 0), OPF_INVALID_ARGUMENT, "session and inputs must not be NULL");
    OPF_TRY(opf_session_take_inputs(session, inputs, n_inputs, false, error));
    return find_plan(session, &found, error);
}

/* ---- running ---- */

static void set_bases(opf_session *s, const opf_plan *plan)
{
    for (uint32_t b = 1; b < plan->n_buffers; b++) {
        const opf_buffer *buffer = &plan->buffers[b];
        switch (buffer->kind) {
        case OPF_BUFFER_ARENA:
            s->bases[b] = s->arena + buffer->offset;
            break;
        case OPF_BUFFER_CONST:
            s->bases[b] = (char *)(uintptr_t)buffer->data;
            break;
        case OPF_BUFFER_INPUT:
            s->bases[b] = s->inputs[buffer->index].data != NULL ? s->inputs[buffer->index].data : s->arena; /* no elements */
            break;
        case OPF_BUFFER_OUTPUT:
            s->bases[b] = s->data[buffer->index];
            break;
        case OPF_BUFFER_VALUE: /* of plans in segments only */
        case OPF_BUFFER_NONE:
            s->bases[b] = NULL;
            break;
        }
    }
}

/* ---- runs in segments ---- */

/* The runner of the plan's graph, or a free place for it. */
static opf_runner **find_runner(opf_session *s, const opf_plan *plan)
{
    int i = 0;
    while (s->runners[i] != NULL && s->runners[i]->graph != plan->graph)
        i++;
    return &s->runners[i];
}

/* Sizes of outputs are not known before: buffers of the caller are checked when they are. */
static opf_status run_segments(opf_session *s, const opf_plan *plan, opf_tensor *outputs, size_t n, opf_error *error)
{
    opf_runner **runner = find_runner(s, plan);
    opf_tensor  *all    = s->results;
    OPF_FAIL_IF(error, n > s->graph->n_outputs, OPF_INVALID_ARGUMENT, "%zu outputs wanted, the model has %u", n, s->graph->n_outputs);
    OPF_TRY(opf_session_check_overlap(s, plan, outputs, n, error));
    if (*runner == NULL)
        OPF_TRY(opf_runner_create(&s->context, plan->graph, runner, error));
    for (uint32_t i = 0; i < s->graph->n_outputs; i++) {
        bool given  = i < n && outputs[i].data != NULL && outputs[i].data != s->outputs[i];
        s->sinks[i] = given ? (opf_sink){outputs[i].data, outputs[i].bytes, true} : (opf_sink){s->outputs[i], s->output_bytes[i], false};
    }
    opf_status status = opf_runner_run(*runner, s->inputs, all, s->sinks, error);
    for (uint32_t i = 0; i < s->graph->n_outputs; i++) {
        if (!s->sinks[i].fixed) { /* it may have grown */
            s->outputs[i]      = s->sinks[i].data;
            s->output_bytes[i] = s->sinks[i].bytes;
        }
        if (status == OPF_OK && i < n)
            outputs[i] = all[i];
        else if (status == OPF_BUFFER_TOO_SMALL && s->sinks[i].fixed)
            outputs[i].bytes = s->sinks[i].bytes;
    }
    return status;
}

opf_status opf_session_run(opf_session *session, const opf_tensor *inputs, size_t n_inputs, opf_tensor *outputs, size_t n_outputs,
                           opf_error *error)
{
    opf_session *s = session;
    opf_planned *found;
    OPF_FAIL_IF(error, s == NULL || (inputs == NULL && n_inputs != 0) || (outputs == NULL && n_outputs != 0), OPF_INVALID_ARGUMENT,
                "session, inputs and outputs must not be NULL");
    atomic_store(&s->context.cancelled, false);
    s->context.trips = 0;
    OPF_TRY(opf_session_take_inputs(s, inputs, n_inputs, true, error));
    OPF_TRY(find_plan(s, &found, error));
    if (found->plan->needs_data) {
        s->latest = found;
        return run_segments(s, found->plan, outputs, n_outputs, error);
    }
    OPF_TRY(opf_session_bind_outputs(s, found->plan, outputs, n_outputs, error));
    set_bases(s, found->plan);
    s->latest               = found;
    opf_execution execution = {.plan            = found->plan,
                               .bases           = s->bases,
                               .kern            = &s->model->kern,
                               .heap            = s->heap,
                               .pool            = s->context.pool,
                               .scratch         = s->context.scratch,
                               .scratch_bytes   = s->context.scratch_bytes,
                               .cancelled       = &s->context.cancelled,
                               .flush_denormals = s->options.flush_denormals,
                               .times           = s->options.profile ? found->times : NULL};
    return opf_execute(&execution, error);
}

/* ---- profile ---- */

typedef struct {
    opf_session      *session;
    opf_step_profile *steps;
    size_t            n, arena_bytes;
    double            flops;
} collector;

/* Called twice: first to count (steps is NULL), then to fill. */
static void collect(void *user, const opf_plan *plan, const double *times)
{
    collector *c = user;
    for (uint32_t i = 0; i < plan->n_steps; i++, c->n++) {
        const opf_plan_step *step = &plan->steps[i];
        const opf_node      *node = opf_graph_node(plan->graph, step->node);
        bool                 dead = step->node == 0 || node->op_type == NULL;
        if (c->steps == NULL)
            continue;
        c->steps[c->n] = (opf_step_profile){.name     = dead ? "" : node->name,
                                            .op       = dead ? "" : node->op_type,
                                            .kernel   = step->kernel,
                                            .origin   = dead ? NULL : node->origin,
                                            .n_origin = dead ? 0 : node->n_origin,
                                            .ms       = times[i],
                                            .flops    = step->flops,
                                            .bytes    = step->bytes};
    }
    c->arena_bytes += plan->arena_bytes;
    c->flops += plan->flops;
}

static void collect_all(opf_session *s, collector *c)
{
    *c = (collector){.session = s, .steps = c->steps};
    if (s->latest->plan->needs_data)
        opf_runner_plans(*find_runner(s, s->latest->plan), collect, c);
    else
        collect(c, s->latest->plan, s->latest->times);
}

opf_status opf_session_profile(opf_session *session, opf_profile *profile, opf_error *error)
{
    OPF_FAIL_IF(error, session == NULL || profile == NULL || session->latest == NULL, OPF_INVALID_ARGUMENT, "there was no run yet");
    collector c = {0};
    collect_all(session, &c);
    opf_arena_fini(&session->profile_arena);
    c.steps = OPF_NEW(&session->profile_arena, opf_step_profile, c.n);
    OPF_OOM_IF(error, c.steps == NULL);
    collect_all(session, &c);
    *profile = (opf_profile){.steps        = c.steps,
                             .n_steps      = c.n,
                             .arena_bytes  = c.arena_bytes,
                             .weight_bytes = opf_weights_bytes(session->model->weights),
                             .flops        = c.flops,
                             .cpu          = opf_cpu_level_name(session->model->kern.level),
                             .threads      = opf_pool_threads(session->context.pool)};
    return OPF_OK;
}
