/* SPDX-License-Identifier: Apache-2.0 */
#include "exec/execute.h"

#include "plan/gathered.h"

#include <string.h>
#include <time.h>
#if defined(__SSE__)
#include <xmmintrin.h>
#endif

typedef struct {
    const opf_execution *execution;
    opf_run_env          env;
    opf_status           status; /* thread 0 only, like at */
    uint32_t             at;     /* the step that ended the run */
    opf_error           *error;
    _Atomic uint32_t     stop; /* all threads leave when they come to this step, or a later one: set before a barrier that they pass first */
} walk;

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

static bool is_checked(const opf_plan_step *step)
{
    return step->check != NULL || step->n_gathered != 0;
}

/* Data errors, under the name of the node that they belong to. */
static opf_status check_step(walk *w, const opf_plan_step *step)
{
    opf_node_id id     = step->node;
    opf_status  status = OPF_OK;
    for (uint32_t i = 0; status == OPF_OK && i < step->n_gathered; i++) {
        id     = step->gathered[i]->node;
        status = opf_gathered_check(&w->env, step->gathered[i], w->error);
    }
    if (status == OPF_OK && step->check != NULL) {
        id     = step->node;
        status = step->check(&w->env, step->args, w->error);
    }
    const opf_node *node = opf_graph_node(w->execution->plan->graph, id);
    if (status != OPF_OK)
        opf_error_prefix(w->error, "%s (%s): ", node->name, node->op_type);
    return status;
}

/* Thread 0 only: what must happen before the step, once; and whether the run goes on. */
static bool before_step(walk *w, uint32_t i)
{
    const opf_plan_step *step = &w->execution->plan->steps[i];
    if (w->status == OPF_OK && atomic_load(w->execution->cancelled)) {
        w->status = OPF_CANCELLED;
        w->at     = i;
    }
    if (w->status == OPF_OK && is_checked(step))
        w->status = check_step(w, step);
    return w->status == OPF_OK;
}

/* Thread 0 only: a step lasts from the end of the one before it, so what a late thread costs belongs to the step that waits. */
static void after_step(const opf_execution *e, uint32_t i, double *last)
{
    if (e->times == NULL)
        return;
    double now = now_ms(), ms = now - *last;
    e->times[i] = e->times[i] < 0 || ms < e->times[i] ? ms : e->times[i];
    *last       = now;
}

/* Small steps run on thread 0 alone, and the others do not wait for them one by one: they meet again before the next step
   that all share. A run that ends does so where they meet, so that nobody is left at a barrier. */
static void run_thread(void *user, int32_t thread, int32_t threads)
{
    walk                *w       = user;
    const opf_execution *e       = w->execution;
    void                *scratch = e->scratch + (size_t)thread * e->scratch_bytes;
    unsigned             mode    = set_float_mode(e->flush_denormals);
    double               last    = thread == 0 && e->times != NULL ? now_ms() : 0;
    bool                 apart   = false;
    for (uint32_t i = 0; i < e->plan->n_steps; i++) {
        const opf_plan_step *step = &e->plan->steps[i];
        bool                 goes = thread != 0 || before_step(w, i);
        if (step->lone) {
            if (thread == 0 && goes && step->run != NULL)
                step->run(&w->env, step->args, 0, step->units, scratch);
            if (thread == 0)
                after_step(e, i, &last);
            apart = apart || step->run != NULL || is_checked(step); /* else it is done in a later one: plan/bands.h */
            continue;
        }
        /* Without a barrier before the step, the others may be in it already: they leave behind it. */
        bool meet = apart || is_checked(step);
        if (!goes)
            atomic_store(&w->stop, meet ? i : i + 1);
        if (meet)
            opf_pool_barrier(e->pool);
        if (atomic_load(&w->stop) <= i)
            break;
        size_t begin = step->units * (size_t)thread / (size_t)threads, end = step->units * (size_t)(thread + 1) / (size_t)threads;
        if (begin < end && goes)
            step->run(&w->env, step->args, begin, end, scratch);
        opf_pool_barrier(e->pool);
        apart = false;
        if (thread == 0)
            after_step(e, i, &last);
    }
    restore_float_mode(mode);
}

opf_status opf_execute(const opf_execution *execution, opf_error *error)
{
    const opf_plan *plan = execution->plan;
    walk            w    = {.execution = execution, .env = {.bases = execution->bases, .kern = execution->kern, .heap = execution->heap}, .error = error};
    atomic_init(&w.stop, UINT32_MAX);
    for (uint32_t i = 0; i < plan->n_passed; i++)
        if (plan->passed[i].bytes != 0)
            memcpy(opf_ref_data(&w.env, plan->passed[i].dst), opf_ref_data(&w.env, plan->passed[i].src), plan->passed[i].bytes);
    if (plan->is_lone)
        run_thread(&w, 0, 1);
    else
        opf_pool_run(execution->pool, run_thread, &w);
    if (w.status != OPF_CANCELLED)
        return w.status;
    const opf_node *node = opf_graph_node(plan->graph, plan->steps[w.at].node);
    return opf_fail(error, OPF_CANCELLED, "%s (%s): the run was cancelled", node->name, node->op_type);
}
