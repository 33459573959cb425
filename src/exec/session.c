/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session: plans for the latest shapes, the memory they run in, and threads. A run whose shapes are planned walks the
 * step list on all threads, with a barrier after each step, and allocates nothing.
 */
#include "exec/model.h"
#include "exec/pool.h"

#include "base/map.h"
#include "cpu/cpu.h"

#include <stdatomic.h>
#include <string.h>
#include <time.h>
#if defined(__SSE__)
#include <xmmintrin.h>
#endif

enum { PLANS = 8 };

typedef struct {
    opf_plan *plan; /* NULL: free */
    int64_t  *key;  /* shapes of all inputs */
    size_t    key_length;
    uint64_t  used; /* by run number: the least is given up first */
    double   *times; /* by step, milliseconds, the least so far */
} planned;

struct opf_session {
    const opf_model    *model;
    opf_session_options options;
    opf_heap           *heap;
    opf_pool           *pool;
    int32_t             threads;
    planned             plans[PLANS];
    uint64_t            runs;
    char               *arena;
    size_t              arena_bytes;
    char               *scratch; /* scratch_bytes a thread */
    size_t              scratch_bytes;
    char              **bases; /* by buffer */
    size_t              n_bases;
    void              **outputs; /* by output: memory for those without a caller's buffer */
    size_t             *output_bytes;
    atomic_bool         cancelled;
    bool                warned;
    planned            *latest;
    opf_arena           profile_arena;
    /* of the run in progress */
    opf_run_env env;
    opf_status  status;
    atomic_bool stop;
    opf_error  *error;
};

/* ---- creating ---- */

opf_status opf_session_create(const opf_model *model, const opf_session_options *options, opf_session **session, opf_error *error)
{
    OPF_FAIL_IF(error, model == NULL || session == NULL, OPF_INVALID_ARGUMENT, "model and session must not be NULL");
    *session        = NULL;
    opf_heap    *heap = (opf_heap *)(uintptr_t)&model->heap;
    opf_session *s    = opf_heap_alloc(heap, sizeof *s);
    OPF_OOM_IF(error, s == NULL);
    memset(s, 0, sizeof *s);
    s->model = model;
    s->heap  = heap;
    if (options != NULL)
        s->options = *options;
    opf_arena_init(&s->profile_arena, heap);
    int32_t    threads = s->options.threads > 0 ? s->options.threads : opf_cpu_usable_cores();
    uint32_t   n       = model->loaded.graph->n_outputs;
    s->threads         = threads;
    opf_status status  = opf_pool_create(heap, threads, &s->pool, error);
    s->outputs         = opf_heap_alloc(heap, n * sizeof *s->outputs);
    s->output_bytes    = opf_heap_alloc(heap, n * sizeof *s->output_bytes);
    if (status == OPF_OK && (s->outputs == NULL || s->output_bytes == NULL))
        status = opf_fail(error, OPF_OUT_OF_MEMORY, "out of memory");
    for (uint32_t i = 0; i < n && s->outputs != NULL && s->output_bytes != NULL; i++) {
        s->outputs[i]      = NULL;
        s->output_bytes[i] = 0;
    }
    if (status != OPF_OK) {
        opf_session_destroy(&s);
        return status;
    }
    *session = s;
    return OPF_OK;
}

static void drop_plan(opf_session *s, planned *p)
{
    if (p->plan == NULL)
        return;
    opf_heap_free(s->heap, p->times, p->plan->n_steps * sizeof *p->times);
    opf_heap_free(s->heap, p->key, p->key_length * sizeof *p->key);
    opf_plan_destroy(&p->plan);
}

void opf_session_destroy(opf_session **session)
{
    if (session == NULL || *session == NULL)
        return;
    opf_session *s = *session;
    uint32_t     n = s->model->loaded.graph->n_outputs;
    opf_pool_destroy(&s->pool);
    for (int i = 0; i < PLANS; i++)
        drop_plan(s, &s->plans[i]);
    for (uint32_t i = 0; i < n && s->outputs != NULL && s->output_bytes != NULL; i++)
        opf_heap_free(s->heap, s->outputs[i], s->output_bytes[i]);
    opf_heap_free(s->heap, s->outputs, n * sizeof *s->outputs);
    opf_heap_free(s->heap, s->output_bytes, n * sizeof *s->output_bytes);
    opf_heap_free(s->heap, s->arena, s->arena_bytes);
    opf_heap_free(s->heap, s->scratch, s->scratch_bytes * (size_t)s->threads);
    opf_heap_free(s->heap, s->bases, s->n_bases * sizeof *s->bases);
    opf_arena_fini(&s->profile_arena);
    opf_heap_free(s->heap, s, sizeof *s);
    *session = NULL;
}

void opf_session_cancel(opf_session *session)
{
    if (session != NULL)
        atomic_store(&session->cancelled, true);
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

/* Inputs with defaults may be missing: the default is read through a copy that the caller sees as given. */
static opf_status complete_inputs(opf_session *s, const opf_tensor *inputs, size_t n, bool with_data, opf_tensor *all, opf_error *error)
{
    const opf_model *model = s->model;
    const opf_graph *graph = model->loaded.graph;
    OPF_FAIL_IF(error, n > graph->n_inputs, OPF_INVALID_ARGUMENT, "%zu inputs given, the model has %u%s%s%s", n, graph->n_inputs,
                constant_input(s) != NULL ? " (" : "", constant_input(s) != NULL ? constant_input(s) : "",
                constant_input(s) != NULL ? " is a constant before IR version 4: see overridable)" : "");
    for (uint32_t i = 0; i < graph->n_inputs; i++) {
        const opf_const *fallback = model->loaded.defaults == NULL ? NULL : model->loaded.defaults[i];
        bool             given    = i < n && (inputs[i].data != NULL || (!with_data && inputs[i].type != OPF_TYPE_NONE));
        if (given) {
            all[i] = inputs[i];
        } else if (fallback != NULL) {
            all[i] = (opf_tensor){.type = fallback->type, .rank = fallback->rank, .bytes = opf_const_size(fallback)};
            memcpy(all[i].dims, fallback->dims, (size_t)fallback->rank * sizeof *fallback->dims);
            all[i].data = (void *)(uintptr_t)opf_weights_plain(model->weights, fallback);
            OPF_OOM_IF(error, all[i].data == NULL);
        } else if (i < n && with_data && inputs[i].type != OPF_TYPE_NONE && inputs[i].bytes == 0 && inputs[i].rank > 0) {
            all[i] = inputs[i]; /* an empty tensor needs no buffer; checked below */
        } else {
            return opf_fail(error, OPF_INVALID_ARGUMENT, "input %s is missing", opf_graph_value(graph, graph->inputs[i])->name);
        }
        OPF_TRY(check_input(s, i, &all[i], error));
        size_t count = 1;
        for (int32_t k = 0; k < all[i].rank; k++)
            count *= (size_t)all[i].dims[k];
        OPF_FAIL_IF(error, with_data && all[i].data == NULL && count != 0, OPF_INVALID_ARGUMENT, "input %s has no data",
                    opf_graph_value(graph, graph->inputs[i])->name);
    }
    return OPF_OK;
}

/* ---- plans ---- */

/* Exporters reuse symbols loosely: true when one symbol has two sizes here. Fusions that relied on it do not hold then. */
static bool symbols_conflict(const opf_session *s, const opf_tensor *inputs, opf_arena *arena, const char **symbol)
{
    const opf_graph *graph = s->model->loaded.graph;
    opf_map          sizes;
    opf_map_init(&sizes, arena);
    int64_t *values = OPF_NEW(arena, int64_t, graph->n_inputs * OPF_MAX_RANK);
    uint32_t n      = 0;
    for (uint32_t i = 0; values != NULL && i < graph->n_inputs; i++) {
        const opf_info *info = &opf_graph_value(graph, graph->inputs[i])->info;
        for (int32_t k = 0; k < info->rank; k++) {
            const char *name = opf_dim_symbol_name(s->model->dims, info->dims[k]);
            uint32_t    at;
            if (name == NULL)
                continue;
            if (!opf_map_get(&sizes, name, &at)) {
                values[n] = inputs[i].dims[k];
                if (!opf_map_put(&sizes, name, n++))
                    return true;
            } else if (values[at] != inputs[i].dims[k]) {
                *symbol = name;
                return true;
            }
        }
    }
    return values == NULL;
}

static opf_status make_plan(opf_session *s, const opf_tensor *inputs, opf_plan **plan, opf_error *error)
{
    const opf_model *model = s->model;
    const opf_graph *graph = opf_model_graph(model, s->options.mode);
    opf_arena        arena;
    const char      *symbol = "?";
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
    if (status == OPF_OK && s->options.mode != OPF_MODE_REFERENCE && symbols_conflict(s, inputs, &arena, &symbol)) {
        graph = model->loaded.graph;
        if (!s->warned && model->log != NULL) {
            const char *line = opf_arena_printf(&arena, "inputs give symbol %s two sizes: this shape runs without fusion", symbol);
            model->log(model->log_user, line != NULL ? line : symbol);
        }
        s->warned = true;
    }
    if (status == OPF_OK)
        status = opf_model_plan(model, graph, infos, s->options.mode == OPF_MODE_REFERENCE, plan, error);
    if (status == OPF_OK && (*plan)->needs_data) {
        status = opf_fail(error, OPF_UNSUPPORTED, "%s", (*plan)->why_not);
        opf_plan_destroy(plan);
    }
    opf_arena_fini(&arena);
    return status;
}

/* Grows a buffer that the session keeps; contents are lost. */
static opf_status reserve(opf_session *s, void **buffer, size_t *have, size_t need, size_t times, opf_error *error)
{
    if (need <= *have)
        return OPF_OK;
    opf_heap_free(s->heap, *buffer, *have * times);
    *have = 0;
    size_t bytes;
    *buffer = opf_mul_size(need, times, &bytes) ? opf_heap_alloc(s->heap, bytes) : NULL;
    OPF_FAIL_IF(error, *buffer == NULL, OPF_OUT_OF_MEMORY, "%zu bytes of memory cannot be had", need);
    *have = need;
    return OPF_OK;
}

static opf_status reserve_for(opf_session *s, const opf_plan *plan, opf_error *error)
{
    size_t threads = (size_t)s->threads, bases = s->n_bases * sizeof *s->bases;
    size_t scratch = (plan->scratch_bytes + 4095) & ~(size_t)4095;
    OPF_TRY(reserve(s, (void **)(void *)&s->arena, &s->arena_bytes, plan->arena_bytes, 1, error));
    OPF_TRY(reserve(s, (void **)(void *)&s->scratch, &s->scratch_bytes, scratch, threads, error));
    OPF_TRY(reserve(s, (void **)(void *)&s->bases, &bases, plan->n_buffers * sizeof *s->bases, 1, error));
    s->n_bases = bases / sizeof *s->bases;
    return OPF_OK;
}

static opf_status find_plan(opf_session *s, const opf_tensor *inputs, planned **found, opf_error *error)
{
    uint32_t n      = s->model->loaded.graph->n_inputs;
    size_t   length = 0;
    int64_t  key[64];
    for (uint32_t i = 0; i < n; i++)
        length += 1 + (size_t)inputs[i].rank;
    int64_t *wanted = length <= 64 ? key : opf_heap_alloc(s->heap, length * sizeof *wanted);
    OPF_OOM_IF(error, wanted == NULL);
    size_t at = 0;
    for (uint32_t i = 0; i < n; i++) {
        wanted[at++] = inputs[i].rank;
        for (int32_t k = 0; k < inputs[i].rank; k++)
            wanted[at++] = inputs[i].dims[k];
    }
    planned *oldest = &s->plans[0];
    *found          = NULL;
    for (int i = 0; i < PLANS; i++) {
        planned *p = &s->plans[i];
        if (p->plan != NULL && p->key_length == length && memcmp(p->key, wanted, length * sizeof *wanted) == 0)
            *found = p;
        if (p->plan == NULL || (oldest->plan != NULL && p->used < oldest->used))
            oldest = oldest->plan == NULL ? oldest : p;
    }
    opf_status status = OPF_OK;
    if (*found == NULL) {
        opf_plan *plan = NULL;
        status         = make_plan(s, inputs, &plan, error);
        int64_t *kept  = status == OPF_OK ? opf_heap_alloc(s->heap, length * sizeof *kept) : NULL;
        double  *times = status == OPF_OK ? opf_heap_alloc(s->heap, plan->n_steps * sizeof *times) : NULL;
        if (status == OPF_OK && (kept == NULL || times == NULL)) {
            opf_heap_free(s->heap, kept, length * sizeof *kept);
            opf_heap_free(s->heap, times, plan->n_steps * sizeof *times);
            opf_plan_destroy(&plan);
            status = opf_fail(error, OPF_OUT_OF_MEMORY, "out of memory");
        }
        if (status == OPF_OK) {
            memcpy(kept, wanted, length * sizeof *wanted);
            for (uint32_t i = 0; i < plan->n_steps; i++)
                times[i] = -1;
            drop_plan(s, oldest);
            *oldest = (planned){.plan = plan, .key = kept, .key_length = length, .times = times};
            *found  = oldest;
        }
    }
    if (wanted != key)
        opf_heap_free(s->heap, wanted, length * sizeof *wanted);
    if (status == OPF_OK) {
        (*found)->used = ++s->runs;
        s->latest      = *found;
        status         = reserve_for(s, (*found)->plan, error);
    }
    return status;
}

opf_status opf_session_prepare(opf_session *session, const opf_tensor *inputs, size_t n_inputs, opf_error *error)
{
    OPF_FAIL_IF(error, session == NULL || (inputs == NULL && n_inputs != 0), OPF_INVALID_ARGUMENT, "session and inputs must not be NULL");
    uint32_t    n   = session->model->loaded.graph->n_inputs;
    opf_tensor *all = opf_heap_alloc(session->heap, n * sizeof *all);
    OPF_OOM_IF(error, all == NULL);
    planned   *found;
    opf_status status = complete_inputs(session, inputs, n_inputs, false, all, error);
    if (status == OPF_OK)
        status = find_plan(session, all, &found, error);
    opf_heap_free(session->heap, all, n * sizeof *all);
    return status;
}

/* ---- running ---- */

static double now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* Rounding to nearest and masked exceptions, whatever the caller had; denormals as the session wants them. */
static unsigned set_float_mode(bool flush)
{
#if defined(__SSE__)
    unsigned before = _mm_getcsr();
    _mm_setcsr(flush ? 0x1f80u | 0x8040u : 0x1f80u);
    return before;
#else
    (void)flush;
    return 0;
#endif
}

static void restore_float_mode(unsigned mode)
{
#if defined(__SSE__)
    _mm_setcsr(mode);
#else
    (void)mode;
#endif
}

/* Thread 0 only: what must happen before the step, once. */
static void before_step(opf_session *s, const opf_plan *plan, const opf_plan_step *step)
{
    if (step->check == NULL || s->status != OPF_OK)
        return;
    s->status = step->check(&s->env, step->args, s->error);
    if (s->status != OPF_OK) {
        const opf_node *node = opf_graph_node(plan->graph, step->node);
        opf_error_prefix(s->error, "%s (%s): ", node->name, node->op_type);
        atomic_store(&s->stop, true);
    }
}

static void run_thread(void *user, int32_t thread, int32_t threads)
{
    opf_session    *s       = user;
    const opf_plan *plan    = s->latest->plan;
    void           *scratch = s->scratch + (size_t)thread * s->scratch_bytes;
    unsigned        mode    = set_float_mode(s->options.flush_denormals);
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        const opf_plan_step *step  = &plan->steps[i];
        double               start = thread == 0 && s->options.profile ? now_ms() : 0;
        if (step->check != NULL) {
            if (thread == 0)
                before_step(s, plan, step);
            opf_pool_barrier(s->pool);
            if (atomic_load(&s->stop))
                break;
        }
        if (step->run != NULL) {
            size_t begin = step->units * (size_t)thread / (size_t)threads, end = step->units * (size_t)(thread + 1) / (size_t)threads;
            if (begin < end)
                step->run(&s->env, step->args, begin, end, scratch);
        }
        if (thread == 0 && atomic_load(&s->cancelled)) {
            s->status = OPF_CANCELLED;
            atomic_store(&s->stop, true);
        }
        opf_pool_barrier(s->pool);
        if (atomic_load(&s->stop))
            break;
        if (thread == 0 && s->options.profile) {
            double ms = now_ms() - start, *best = &s->latest->times[i];
            *best = *best < 0 || ms < *best ? ms : *best;
        }
    }
    restore_float_mode(mode);
}

static bool overlap(const void *a, size_t n, const void *b, size_t m)
{
    return n != 0 && m != 0 && (uintptr_t)a < (uintptr_t)b + m && (uintptr_t)b < (uintptr_t)a + n;
}

/* The caller's buffers, or the session's own, for every output; fills type, rank and dims. */
static opf_status bind_outputs(opf_session *s, const opf_plan *plan, const opf_tensor *inputs, opf_tensor *outputs, size_t n, char **data,
                               opf_error *error)
{
    const opf_graph *graph = s->model->loaded.graph;
    OPF_FAIL_IF(error, n > graph->n_outputs, OPF_INVALID_ARGUMENT, "%zu outputs wanted, the model has %u", n, graph->n_outputs);
    for (uint32_t i = 0; i < graph->n_outputs; i++) {
        const opf_place *place = &plan->outputs[i];
        size_t           bytes = 0;
        (void)opf_type_bytes(place->type, opf_place_elements(place), &bytes);
        if (i < n && outputs[i].data != NULL && outputs[i].data != s->outputs[i]) {
            size_t have      = outputs[i].bytes;
            outputs[i].bytes = bytes;
            OPF_FAIL_IF(error, have < bytes, OPF_BUFFER_TOO_SMALL, "output %s needs %zu bytes, its buffer has %zu",
                        opf_graph_value(graph, graph->outputs[i])->name, bytes, have);
            for (uint32_t k = 0; k < graph->n_inputs; k++)
                OPF_FAIL_IF(error, overlap(outputs[i].data, bytes, inputs[k].data, inputs[k].bytes), OPF_INVALID_ARGUMENT,
                            "the buffers of output %s and input %s overlap", opf_graph_value(graph, graph->outputs[i])->name,
                            opf_graph_value(graph, graph->inputs[k])->name);
            for (uint32_t k = 0; k < i; k++)
                OPF_FAIL_IF(error, overlap(outputs[i].data, bytes, data[k], outputs[k].bytes), OPF_INVALID_ARGUMENT, "the buffers of two outputs overlap");
            data[i] = outputs[i].data;
        } else {
            OPF_TRY(reserve(s, &s->outputs[i], &s->output_bytes[i], bytes == 0 ? 1 : bytes, 1, error));
            data[i] = s->outputs[i];
        }
        if (i < n) {
            outputs[i].type  = place->type;
            outputs[i].rank  = place->rank;
            outputs[i].data  = data[i];
            outputs[i].bytes = bytes;
            memcpy(outputs[i].dims, place->dims, (size_t)place->rank * sizeof *place->dims);
        }
    }
    return OPF_OK;
}

static void set_bases(opf_session *s, const opf_plan *plan, const opf_tensor *inputs, char *const *outputs)
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
            s->bases[b] = inputs[buffer->index].data;
            break;
        case OPF_BUFFER_OUTPUT:
            s->bases[b] = outputs[buffer->index];
            break;
        case OPF_BUFFER_NONE:
            s->bases[b] = NULL;
            break;
        }
    }
}

enum { PORTS = 32 }; /* inputs and outputs that fit the stack: no allocation in a run */

static opf_status run_with(opf_session *s, const opf_tensor *inputs, size_t n_inputs, opf_tensor *outputs, size_t n_outputs, opf_tensor *all,
                           char **data, opf_error *error)
{
    planned *found;
    OPF_TRY(complete_inputs(s, inputs, n_inputs, true, all, error));
    OPF_TRY(find_plan(s, all, &found, error));
    OPF_TRY(bind_outputs(s, found->plan, all, outputs, n_outputs, data, error));
    set_bases(s, found->plan, all, data);
    s->env    = (opf_run_env){.bases = s->bases, .kern = &s->model->kern, .heap = s->heap};
    s->status = OPF_OK;
    s->error  = error;
    atomic_store(&s->stop, false);
    opf_pool_run(s->pool, run_thread, s);
    atomic_store(&s->cancelled, false);
    return s->status == OPF_CANCELLED ? opf_fail(error, OPF_CANCELLED, "the run was cancelled") : s->status;
}

opf_status opf_session_run(opf_session *session, const opf_tensor *inputs, size_t n_inputs, opf_tensor *outputs, size_t n_outputs,
                           opf_error *error)
{
    OPF_FAIL_IF(error, session == NULL || (inputs == NULL && n_inputs != 0) || (outputs == NULL && n_outputs != 0), OPF_INVALID_ARGUMENT,
                "session, inputs and outputs must not be NULL");
    const opf_graph *graph = session->model->loaded.graph;
    if (graph->n_inputs <= PORTS && graph->n_outputs <= PORTS) {
        opf_tensor all[PORTS];
        char      *data[PORTS];
        return run_with(session, inputs, n_inputs, outputs, n_outputs, all, data, error);
    }
    opf_tensor *all    = opf_heap_alloc(session->heap, graph->n_inputs * sizeof *all);
    char      **data   = opf_heap_alloc(session->heap, graph->n_outputs * sizeof *data);
    opf_status  status = all == NULL || data == NULL ? opf_fail(error, OPF_OUT_OF_MEMORY, "out of memory")
                                                     : run_with(session, inputs, n_inputs, outputs, n_outputs, all, data, error);
    opf_heap_free(session->heap, all, graph->n_inputs * sizeof *all);
    opf_heap_free(session->heap, data, graph->n_outputs * sizeof *data);
    return status;
}

/* ---- profile ---- */

opf_status opf_session_profile(opf_session *session, opf_profile *profile, opf_error *error)
{
    OPF_FAIL_IF(error, session == NULL || profile == NULL || session->latest == NULL, OPF_INVALID_ARGUMENT, "there was no run yet");
    const opf_plan *plan = session->latest->plan;
    opf_arena_fini(&session->profile_arena);
    opf_step_profile *steps = OPF_NEW(&session->profile_arena, opf_step_profile, plan->n_steps);
    OPF_OOM_IF(error, steps == NULL);
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        const opf_plan_step *step = &plan->steps[i];
        const opf_node      *node = opf_graph_node(plan->graph, step->node);
        bool                 dead = step->node == 0 || node->op_type == NULL;
        steps[i] = (opf_step_profile){.name     = dead ? "" : node->name,
                                      .op       = dead ? "" : node->op_type,
                                      .kernel   = step->kernel,
                                      .origin   = dead ? NULL : node->origin,
                                      .n_origin = dead ? 0 : node->n_origin,
                                      .ms       = session->latest->times[i],
                                      .flops    = step->flops,
                                      .bytes    = step->bytes};
    }
    *profile = (opf_profile){.steps        = steps,
                             .n_steps      = plan->n_steps,
                             .arena_bytes  = plan->arena_bytes,
                             .weight_bytes = opf_weights_bytes(session->model->weights),
                             .flops        = plan->flops,
                             .cpu          = opf_cpu_level_name(session->model->kern.level),
                             .threads      = opf_pool_threads(session->pool)};
    return OPF_OK;
}
