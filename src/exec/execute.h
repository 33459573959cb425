/* SPDX-License-Identifier: Apache-2.0 */
/* Walks the step list of one plan on all threads, with a barrier after each step. Allocates nothing itself. */
#ifndef OPF_EXEC_EXECUTE_H
#define OPF_EXEC_EXECUTE_H

#include "exec/pool.h"
#include "plan/plan.h"

#include <stdatomic.h>

typedef struct opf_execution {
    const opf_plan *plan;
    char *const    *bases; /* by buffer */
    const opf_kern *kern;
    opf_heap       *heap; /* for temporaries of reference kernels */
    opf_pool       *pool;
    char           *scratch; /* scratch_bytes a thread */
    size_t          scratch_bytes;
    atomic_bool    *cancelled;
    bool            flush_denormals;
    double         *times; /* by step: lowered to the milliseconds it took; NULL: not measured */
} opf_execution;

/* Errors name the node. The earliest step's error returns, whatever the threads. */
opf_status opf_execute(const opf_execution *execution, opf_error *error);

#endif
