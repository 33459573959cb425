/* SPDX-License-Identifier: Apache-2.0 */
/* A pool of threads that run one function together. The caller is thread 0. */
#ifndef OPF_EXEC_POOL_H
#define OPF_EXEC_POOL_H

#include "base/memory.h"
#include "base/status.h"

typedef struct opf_pool opf_pool;

opf_status opf_pool_create(opf_heap *heap, int32_t threads, opf_pool **pool, opf_error *error);
void opf_pool_destroy(opf_pool **pool);
int32_t opf_pool_threads(const opf_pool *pool);

/* Calls run(user, thread, threads) on every thread, and returns when all are back. One call at a time. */
void opf_pool_run(opf_pool *pool, void (*run)(void *user, int32_t thread, int32_t threads), void *user);

/* Inside run: waits until every thread has come here. */
void opf_pool_barrier(opf_pool *pool);

#endif
