/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session: plans for the latest shapes, the memory they run in, and threads. A run whose shapes are planned walks the
 * step list on all threads, with a barrier after each step, and allocates nothing.
 */
#include "exec/execute.h"
#include "exec/guards.h"
#include "exec/model.h"
#include "exec/runner.h"

#include "cpu/cpu.h"

#include <string.h>

enum {
    PLANS   = 8,
    KEY     = 1 + OPF_MAX_RANK, /* numbers of an input in the key of a plan, at most */
    RUNNERS = 4                 /* graphs that may run: of the mode and as loaded, open and frozen */
};

typedef struct {
    opf_plan *plan; /* NULL: free */
    int64_t  *key;  /* whether it is of the frozen graph, types and shapes of all inputs */
    size_t    key_length;
    uint64_t  used; /* by run number: the least is given up first */
    double   *times; /* by step, milliseconds, the least so far */
} planned;

struct opf_session {
    const opf_model    *model;
    const opf_stages   *stages;
    const opf_graph    *graph;  /* of the mode */
    const opf_graph    *frozen; /* the same of the frozen stages, for runs that feed no input with a default; or NULL */
    opf_session_options options;
    opf_heap           *heap;
    int32_t             threads;
    planned             plans[PLANS];
    uint64_t            runs;
    char               *arena;
    size_t              arena_bytes;
    char              **bases; /* by buffer */
    size_t              n_bases;
    void              **outputs; /* by output: memory for those without a caller's buffer */
    size_t             *output_bytes;
    bool                warned;
    planned            *latest; /* of the latest run; NULL when it was given up */
    opf_arena           profile_arena;
    /* of the run in progress */
    bool        is_frozen;
    opf_tensor *inputs; /* all of the model's; defaults too, without data where the graph has them as constants */
    char      **data;   /* by output */
    int64_t    *key;
    /* for graphs that are no single plan: made at first use */
    opf_run_context context;
    opf_runner     *runners[RUNNERS];
    opf_sink       *sinks; /* by output */
    opf_tensor     *results;
};

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
    s->key          = create_list(s, 1 + (size_t)n_in * KEY, sizeof *s->key);
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

static void drop_plan(opf_session *s, planned *p)
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
    for (int i = 0; i < RUNNERS; i++)
        opf_runner_destroy(&s->runners[i]);
    for (int i = 0; i < PLANS; i++)
        drop_plan(s, &s->plans[i]);
    for (uint32_t i = 0; i < n && s->outputs != NULL && s->output_bytes != NULL; i++)
        opf_heap_free(s->heap, s->outputs[i], s->output_bytes[i]);
    opf_heap_free(s->heap, s->data, n * sizeof *s->data);
    opf_heap_free(s->heap, s->inputs, s->graph->n_inputs * sizeof *s->inputs);
    opf_heap_free(s->heap, s->key, (1 + (size_t)s->graph->n_inputs * KEY) * sizeof *s->key);
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

/* ---- checking the caller's inputs ---- */

static const char *constant_input(const opf_session *s)
{
    return s->model->loaded.n_constant_inputs != 0 ? s->model->loaded.constant_inputs[0] : NULL;
}

static opf_status check_input(const opf_session *s, uint32_t i, const opf_tensor *tensor, opf_error *error)
{
    const opf_graph *graph = s->model->loaded.graph;
    const opf_value *value = opf_graph_value(graph, graph->inputs[i]);
    const opf_info  *info  = &value->info;
    OPF_FAIL_IF(error, tensor->type != info->type && info->type != OPF_TYPE_NONE, OPF_INVALID_INPUT, "input %s is %s, must be %s", value->name,
                opf_type_name(tensor->type), opf_type_name(info->type));
    OPF_FAIL_IF(error, tensor->rank < 0 || tensor->rank > OPF_MAX_RANK, OPF_INVALID_INPUT, "input %s has rank %d", value->name, tensor->rank);
    OPF_FAIL_IF(error, info->rank >= 0 && tensor->rank != info->rank, OPF_INVALID_INPUT, "input %s has rank %d, must have %d", value->name,
                tensor->rank, info->rank);
    size_t count = 1, bytes;
    for (int32_t k = 0; k < tensor->rank; k++) {
        int64_t n = tensor->dims[k];
        OPF_FAIL_IF(error, n < 0 || !opf_mul_size(count, (size_t)n, &count), OPF_INVALID_INPUT, "dimension %d of input %s is %lld", k, value->name,
                    (long long)n);
        OPF_FAIL_IF(error, info->rank >= 0 && opf_dim_is_number(info->dims[k]) && info->dims[k].n != n, OPF_INVALID_INPUT,
                    "dimension %d of input %s is %lld, must be %lld", k, value->name, (long long)n, (long long)info->dims[k].n);
    }
    OPF_FAIL_IF(error, !opf_type_bytes(tensor->type, count, &bytes), OPF_INVALID_INPUT, "input %s is too large", value->name);
    OPF_FAIL_IF(error, tensor->data != NULL && tensor->bytes < bytes, OPF_INVALID_INPUT, "input %s has %zu bytes, its shape needs %zu", value->name,
                tensor->bytes, bytes);
    size_t size = opf_type_size(tensor->type);
    OPF_FAIL_IF(error, size > 1 && (uintptr_t)tensor->data % size != 0, OPF_INVALID_ARGUMENT, "the buffer of input %s is not aligned to %zu bytes",
                value->name, size);
    return OPF_OK;
}

/* Without data (a session is prepared) a type is enough. */
static bool is_given(const opf_tensor *inputs, size_t n, uint32_t i, bool with_data)
{
    return i < n && (inputs[i].data != NULL || (!with_data && inputs[i].type != OPF_TYPE_NONE));
}

/* A run that feeds no input with a default sees constants there. */
static bool may_freeze(const opf_session *s, const opf_tensor *inputs, size_t n, bool with_data)
{
    bool any = false;
    for (uint32_t i = 0; s->frozen != NULL && i < s->graph->n_inputs; i++)
        any = any || (s->model->loaded.defaults[i] != NULL && is_given(inputs, n, i, with_data));
    return s->frozen != NULL && !any;
}

/* The default as if the caller had given it; its data only for a graph that reads it from there. */
static opf_status take_default(const opf_session *s, const opf_const *fallback, opf_tensor *tensor, opf_error *error)
{
    *tensor = (opf_tensor){.type = fallback->type, .rank = fallback->rank, .bytes = opf_const_size(fallback)};
    memcpy(tensor->dims, fallback->dims, (size_t)fallback->rank * sizeof *fallback->dims);
    if (s->is_frozen)
        return OPF_OK;
    tensor->data = (void *)(uintptr_t)opf_weights_plain(s->model->weights, fallback);
    OPF_OOM_IF(error, tensor->data == NULL);
    return OPF_OK;
}

static size_t count_elements(const opf_tensor *tensor)
{
    size_t count = 1;
    for (int32_t k = 0; k < tensor->rank; k++)
        count *= (size_t)tensor->dims[k];
    return count;
}

/* Fills s->inputs and tells whether the run is frozen. Inputs with defaults may be missing. */
static opf_status complete_inputs(opf_session *s, const opf_tensor *inputs, size_t n, bool with_data, opf_error *error)
{
    opf_tensor      *all   = s->inputs;
    const opf_model *model = s->model;
    const opf_graph *graph = model->loaded.graph;
    OPF_FAIL_IF(error, n > graph->n_inputs, OPF_INVALID_ARGUMENT, "%zu inputs given, the model has %u%s%s%s", n, graph->n_inputs,
                constant_input(s) != NULL ? " (" : "", constant_input(s) != NULL ? constant_input(s) : "",
                constant_input(s) != NULL ? " is a constant before IR version 4: see overridable)" : "");
    s->is_frozen = may_freeze(s, inputs, n, with_data);
    for (uint32_t i = 0; i < graph->n_inputs; i++) {
        const opf_const *fallback = model->loaded.defaults == NULL ? NULL : model->loaded.defaults[i];
        const char      *name     = opf_graph_value(graph, graph->inputs[i])->name;
        if (is_given(inputs, n, i, with_data))
            all[i] = inputs[i];
        else if (fallback != NULL)
            OPF_TRY(take_default(s, fallback, &all[i], error));
        else if (i < n && with_data && inputs[i].type != OPF_TYPE_NONE && inputs[i].bytes == 0 && inputs[i].rank > 0)
            all[i] = inputs[i]; /* an empty tensor needs no buffer; checked below */
        else
            return opf_fail(error, OPF_INVALID_ARGUMENT, "input %s is missing", name);
        OPF_TRY(check_input(s, i, &all[i], error));
        OPF_FAIL_IF(error, with_data && all[i].data == NULL && fallback == NULL && count_elements(&all[i]) != 0, OPF_INVALID_ARGUMENT,
                    "input %s has no data", name);
    }
    return OPF_OK;
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
static opf_status fill_slot(opf_session *s, planned *slot, size_t length, opf_error *error)
{
    planned p = {.key_length = length};
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

static opf_status find_plan(opf_session *s, planned **found, opf_error *error)
{
    size_t   length = fill_key(s);
    planned *slot   = &s->plans[0]; /* the wanted plan, else a free slot, else the one used longest ago */
    bool     hit    = false;
    for (int i = 0; i < PLANS && !hit; i++) {
        planned *p = &s->plans[i];
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
    planned *found;
    OPF_FAIL_IF(error, session == NULL || (inputs == NULL && n_inputs != 0), OPF_INVALID_ARGUMENT, "session and inputs must not be NULL");
    OPF_TRY(complete_inputs(session, inputs, n_inputs, false, error));
    return find_plan(session, &found, error);
}

/* ---- running ---- */

typedef struct {
    const void *data;
    size_t      bytes;
} span;

static bool overlap(span a, span b)
{
    return a.bytes != 0 && b.bytes != 0 && a.data != NULL && b.data != NULL && (uintptr_t)a.data < (uintptr_t)b.data + b.bytes &&
           (uintptr_t)b.data < (uintptr_t)a.data + a.bytes;
}

static size_t place_bytes(const opf_place *place)
{
    size_t bytes = 0;
    (void)opf_type_bytes(place->type, opf_place_elements(place), &bytes); /* the plan has checked it */
    return bytes;
}

/* The caller's own buffers must be large enough and aligned; every one that is not is told the size it needs. */
static opf_status check_outputs(const opf_session *s, const opf_plan *plan, opf_tensor *outputs, size_t n, opf_error *error)
{
    opf_status status = OPF_OK;
    for (uint32_t i = 0; i < n; i++) {
        const opf_place *place = &plan->outputs[i];
        const char      *name  = opf_graph_value(s->graph, s->graph->outputs[i])->name;
        size_t           bytes = place_bytes(place), size = opf_type_size(place->type);
        if (outputs[i].data == NULL || outputs[i].data == s->outputs[i])
            continue;
        OPF_FAIL_IF(error, size > 1 && (uintptr_t)outputs[i].data % size != 0, OPF_INVALID_ARGUMENT,
                    "the buffer of output %s is not aligned to %zu bytes", name, size);
        if (outputs[i].bytes >= bytes)
            continue;
        if (status == OPF_OK)
            status = opf_fail(error, OPF_BUFFER_TOO_SMALL, "output %s needs %zu bytes, its buffer has %zu", name, bytes, outputs[i].bytes);
        outputs[i].bytes = bytes;
    }
    return status;
}

/* The memory that output i would take: the caller's (all of it while sizes are not known), or what the session has for it so far. */
static span output_span(const opf_session *s, const opf_plan *plan, const opf_tensor *outputs, size_t n, uint32_t i)
{
    if (i < n && outputs[i].data != NULL && outputs[i].data != s->outputs[i])
        return (span){outputs[i].data, plan->needs_data ? outputs[i].bytes : place_bytes(&plan->outputs[i])};
    return (span){s->outputs[i], s->output_bytes[i]};
}

/* No output may lie in an input or another output, be it the caller's or the session's. */
static opf_status check_overlap(const opf_session *s, const opf_plan *plan, const opf_tensor *outputs, size_t n, opf_error *error)
{
    const opf_graph *graph = s->graph;
    for (uint32_t i = 0; i < graph->n_outputs; i++) {
        const char *name = opf_graph_value(graph, graph->outputs[i])->name;
        span        own  = output_span(s, plan, outputs, n, i);
        for (uint32_t k = 0; k < graph->n_inputs; k++)
            OPF_FAIL_IF(error, overlap(own, (span){s->inputs[k].data, s->inputs[k].bytes}), OPF_INVALID_ARGUMENT,
                        "the buffers of output %s and input %s overlap", name, opf_graph_value(graph, graph->inputs[k])->name);
        for (uint32_t k = 0; k < i; k++)
            OPF_FAIL_IF(error, overlap(own, output_span(s, plan, outputs, n, k)), OPF_INVALID_ARGUMENT,
                        "the buffers of outputs %s and %s overlap", opf_graph_value(graph, graph->outputs[k])->name, name);
    }
    return OPF_OK;
}

/* The caller's buffers, or the session's own, for every output; fills type, rank and dims. */
static opf_status bind_outputs(opf_session *s, const opf_plan *plan, opf_tensor *outputs, size_t n, opf_error *error)
{
    OPF_FAIL_IF(error, n > s->graph->n_outputs, OPF_INVALID_ARGUMENT, "%zu outputs wanted, the model has %u", n, s->graph->n_outputs);
    OPF_TRY(check_outputs(s, plan, outputs, n, error));
    OPF_TRY(check_overlap(s, plan, outputs, n, error));
    for (uint32_t i = 0; i < s->graph->n_outputs; i++) {
        const opf_place *place = &plan->outputs[i];
        size_t           bytes = place_bytes(place);
        bool             given = i < n && outputs[i].data != NULL && outputs[i].data != s->outputs[i];
        if (!given)
            OPF_TRY(opf_reserve(s->heap, &s->outputs[i], &s->output_bytes[i], bytes == 0 ? 1 : bytes, 1, error));
        s->data[i] = given ? outputs[i].data : s->outputs[i];
        if (i >= n)
            continue;
        outputs[i] = (opf_tensor){.type = place->type, .rank = place->rank, .data = s->data[i], .bytes = bytes};
        memcpy(outputs[i].dims, place->dims, (size_t)place->rank * sizeof *place->dims);
    }
    return OPF_OK;
}

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
    OPF_TRY(check_overlap(s, plan, outputs, n, error));
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
    planned     *found;
    OPF_FAIL_IF(error, s == NULL || (inputs == NULL && n_inputs != 0) || (outputs == NULL && n_outputs != 0), OPF_INVALID_ARGUMENT,
                "session, inputs and outputs must not be NULL");
    atomic_store(&s->context.cancelled, false);
    s->context.trips = 0;
    OPF_TRY(complete_inputs(s, inputs, n_inputs, true, error));
    OPF_TRY(find_plan(s, &found, error));
    if (found->plan->needs_data) {
        s->latest = found;
        return run_segments(s, found->plan, outputs, n_outputs, error);
    }
    OPF_TRY(bind_outputs(s, found->plan, outputs, n_outputs, error));
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
