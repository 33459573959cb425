/* SPDX-License-Identifier: Apache-2.0 */
#include "exec/execute.h"

#include <time.h>
#if defined(__SSE__)
#include <xmmintrin.h>
#endif

typedef struct {
    const opf_execution *execution;
    opf_run_env          env;
    opf_status           status;
    opf_error           *error;
    _Atomic uint64_t     stop; /* the barrier after which all threads leave; barriers are 2i and 2i+1 in step i */
} walk;

/* A thread may look late, when the stop of a later barrier is already set: it must not leave before the others do. */
static bool stops_at(walk *w, uint64_t barrier)
{
    return atomic_load(&w->stop) <= barrier;
}

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
static void before_step(walk *w, const opf_plan_step *step, uint64_t barrier)
{
    w->status = step->check(&w->env, step->args, w->error);
    if (w->status == OPF_OK)
        return;
    const opf_node *node = opf_graph_node(w->execution->plan->graph, step->node);
    opf_error_prefix(w->error, "%s (%s): ", node->name, node->op_type);
    atomic_store(&w->stop, barrier);
}

static void run_thread(void *user, int32_t thread, int32_t threads)
{
    walk                *w       = user;
    const opf_execution *e       = w->execution;
    void                *scratch = e->scratch + (size_t)thread * e->scratch_bytes;
    unsigned             mode    = set_float_mode(e->flush_denormals);
    /* A step lasts from the end of the one before it: what a late thread costs belongs to the step that waits for it. */
    double last = thread == 0 && e->times != NULL ? now_ms() : 0;
    for (uint32_t i = 0; i < e->plan->n_steps; i++) {
        const opf_plan_step *step    = &e->plan->steps[i];
        const uint64_t       barrier = (uint64_t)2 * i;
        if (step->check != NULL) {
            if (thread == 0)
                before_step(w, step, barrier);
            opf_pool_barrier(e->pool);
            if (stops_at(w, barrier))
                break;
        }
        if (step->run != NULL) {
            size_t begin = step->units * (size_t)thread / (size_t)threads, end = step->units * (size_t)(thread + 1) / (size_t)threads;
            if (begin < end)
                step->run(&w->env, step->args, begin, end, scratch);
        }
        if (thread == 0 && atomic_load(e->cancelled)) {
            w->status = OPF_CANCELLED;
            atomic_store(&w->stop, barrier + 1);
        }
        opf_pool_barrier(e->pool);
        if (stops_at(w, barrier + 1))
            break;
        if (thread == 0 && e->times != NULL) {
            double now = now_ms(), ms = now - last;
            e->times[i] = e->times[i] < 0 || ms < e->times[i] ? ms : e->times[i];
            last        = now;
        }
    }
    restore_float_mode(mode);
}

opf_status opf_execute(const opf_execution *execution, opf_error *error)
{
    walk w = {.execution = execution, .env = {.bases = execution->bases, .kern = execution->kern, .heap = execution->heap}, .error = error};
    atomic_init(&w.stop, UINT64_MAX);
    opf_pool_run(execution->pool, run_thread, &w);
    if (w.status != OPF_CANCELLED)
        return w.status;
    const opf_node *node = opf_graph_node(execution->plan->graph, execution->plan->steps[atomic_load(&w.stop) / 2].node);
    return opf_fail(error, OPF_CANCELLED, "%s (%s): the run was cancelled", node->name, node->op_type);
}
