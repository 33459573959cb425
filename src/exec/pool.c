/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads sleep between runs and spin at the barriers within one: a step is far shorter than a wake-up. After a while of
 * spinning they yield, so that a machine with fewer free cores than threads still makes progress.
 */
#include "exec/pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum { SPINS_BEFORE_YIELD = 4000 };

struct opf_pool {
    opf_heap       *heap;
    int32_t         threads, started; /* the caller counts as started */
    pthread_t      *handles; /* by thread; [0], the caller's, unused */
    struct worker  *workers;
    pthread_mutex_t lock;
    pthread_cond_t  wake;
    uint64_t        generation; /* of the current run; under the lock */
    bool            stop;
    void (*run)(void *user, int32_t thread, int32_t threads);
    void *user;
    _Alignas(OPF_ALIGNMENT) _Atomic int32_t arrived; /* each on a cache line of its own */
    _Alignas(OPF_ALIGNMENT) _Atomic uint32_t phase;
};

typedef struct worker {
    opf_pool *pool;
    int32_t   thread;
} worker;

static void relax(uint32_t spins)
{
    if (spins > SPINS_BEFORE_YIELD)
        (void)sched_yield();
#if defined(__x86_64__)
    else
        __builtin_ia32_pause();
#endif
}

void opf_pool_barrier(opf_pool *pool)
{
    if (pool->threads == 1)
        return;
    uint32_t phase = atomic_load(&pool->phase);
    if (atomic_fetch_add(&pool->arrived, 1) + 1 == pool->threads) {
        atomic_store(&pool->arrived, 0);
        atomic_store(&pool->phase, phase + 1);
        return;
    }
    for (uint32_t spins = 0; atomic_load(&pool->phase) == phase; spins++)
        relax(spins);
}

static void *work(void *argument)
{
    worker   *self = argument;
    opf_pool *pool = self->pool;
    for (uint64_t seen = 0;;) {
        (void)pthread_mutex_lock(&pool->lock);
        while (pool->generation == seen && !pool->stop)
            (void)pthread_cond_wait(&pool->wake, &pool->lock);
        bool stop = pool->stop;
        seen      = pool->generation;
        (void)pthread_mutex_unlock(&pool->lock);
        if (stop)
            return NULL;
        pool->run(pool->user, self->thread, pool->threads);
        opf_pool_barrier(pool);
    }
}

opf_status opf_pool_create(opf_heap *heap, int32_t threads, opf_pool **result, opf_error *error)
{
    opf_pool *pool = opf_heap_alloc(heap, sizeof *pool);
    OPF_OOM_IF(error, pool == NULL);
    *pool         = (opf_pool){.heap = heap, .threads = threads, .started = 1};
    pool->handles = opf_heap_alloc(heap, (size_t)threads * sizeof *pool->handles);
    pool->workers = opf_heap_alloc(heap, (size_t)threads * sizeof *pool->workers);
    (void)pthread_mutex_init(&pool->lock, NULL);
    (void)pthread_cond_init(&pool->wake, NULL);
    while (pool->handles != NULL && pool->workers != NULL && pool->started < threads) {
        int32_t i         = pool->started;
        pool->workers[i]  = (worker){pool, i};
        if (pthread_create(&pool->handles[i], NULL, work, &pool->workers[i]) != 0)
            break;
        pool->started++;
    }
    bool complete = pool->handles != NULL && pool->workers != NULL && pool->started == threads;
    if (!complete)
        opf_pool_destroy(&pool);
    *result = pool;
    OPF_FAIL_IF(error, !complete, OPF_OUT_OF_MEMORY, "cannot start %d threads", threads);
    return OPF_OK;
}

void opf_pool_destroy(opf_pool **pool)
{
    opf_pool *p = *pool;
    if (p == NULL)
        return;
    (void)pthread_mutex_lock(&p->lock);
    p->stop = true;
    (void)pthread_cond_broadcast(&p->wake);
    (void)pthread_mutex_unlock(&p->lock);
    for (int32_t i = 1; i < p->started; i++)
        (void)pthread_join(p->handles[i], NULL);
    (void)pthread_cond_destroy(&p->wake);
    (void)pthread_mutex_destroy(&p->lock);
    opf_heap_free(p->heap, p->handles, (size_t)p->threads * sizeof *p->handles);
    opf_heap_free(p->heap, p->workers, (size_t)p->threads * sizeof *p->workers);
    opf_heap_free(p->heap, p, sizeof *p);
    *pool = NULL;
}

int32_t opf_pool_threads(const opf_pool *pool)
{
    return pool->threads;
}

void opf_pool_run(opf_pool *pool, void (*run)(void *user, int32_t thread, int32_t threads), void *user)
{
    (void)pthread_mutex_lock(&pool->lock);
    pool->run  = run;
    pool->user = user;
    pool->generation++;
    (void)pthread_cond_broadcast(&pool->wake);
    (void)pthread_mutex_unlock(&pool->lock);
    run(user, 0, pool->threads);
    opf_pool_barrier(pool);
}
