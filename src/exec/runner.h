/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs one graph (the main graph or a body). Most graphs are one plan. Where a shape depends on data, or a node has
 * bodies, the graph falls into segments: each is planned when its shapes are known, and values that cross segments lie in
 * blocks that the runner keeps. Plans are cached by the shapes (and the read values) they were made for.
 */
#ifndef OPF_EXEC_RUNNER_H
#define OPF_EXEC_RUNNER_H

#include "exec/model.h"
#include "exec/pool.h"
#include "plan/planner.h"

#include <stdatomic.h>

/* What all runners of a session share. */
typedef struct opf_run_context {
    const opf_model *model;
    opf_heap        *heap;
    opf_pool        *pool;
    bool             reference, flush_denormals, profile;
    atomic_bool      cancelled;
    char            *scratch; /* scratch_bytes a thread */
    size_t           scratch_bytes;
    int64_t          trips; /* of all loops in this run, against the limit */
} opf_run_context;

/* Where an output goes: the caller's buffer, or a block that grows. */
typedef struct opf_sink {
    void  *data;
    size_t bytes; /* of the buffer or block */
    bool   fixed; /* the caller's: too small is an error */
} opf_sink;

typedef struct opf_runner opf_runner;

opf_status opf_runner_create(opf_run_context *context, const opf_graph *graph, opf_runner **runner, opf_error *error);
void opf_runner_destroy(opf_runner **runner);

/* Inputs by the graph's inputs (constants among them, and what nothing reads, are skipped). Fills outputs[i] (type, rank, dims, data, bytes); data
   points into sinks[i], where the caller has provided them, or stays valid until the next run. */
opf_status opf_runner_run(opf_runner *runner, const opf_tensor *inputs, opf_tensor *outputs, opf_sink *sinks, opf_error *error);

/* Visits the plans of the latest run in order, bodies at their node. times: milliseconds by step, the least so far. */
typedef void (*opf_visit_plan)(void *user, const opf_plan *plan, const double *times);
void opf_runner_plans(const opf_runner *runner, opf_visit_plan visit, void *user);

/* ---- for control flow (control.c) ---- */

/* A value while the graph runs. */
typedef struct opf_live {
    opf_info info; /* dims are numbers; values where they were read */
    void    *data; /* NULL: does not exist yet */
    opf_sink own;  /* memory of its own, kept between runs */
} opf_live;

struct opf_runner {
    opf_run_context  *context;
    const opf_graph  *graph;
    opf_arena         arena; /* for the life of the runner */
    opf_arena         run;   /* infos of the run in progress */
    opf_node_id      *order;
    uint32_t          n;
    bool             *needed; /* by node */
    opf_live         *live;   /* by value */
    struct segment   *segments;
    uint32_t          n_segments, segments_capacity;
    uint64_t          runs;
    char             *memory; /* of the plan in progress */
    size_t            memory_bytes;
    char            **bases;
    size_t            n_bases;
    opf_runner     ***bodies; /* by node: the runner of each body, made at first use */
    opf_sink        **rounds; /* by node: memory of what a loop hands on and collects, kept between runs */
    uint32_t         *n_rounds;
    opf_tensor       *formals; /* inputs of the round in progress */
    size_t            formals_bytes;
    opf_tensor       *given; /* inputs of a body, in its runner */
    size_t            given_bytes;
    opf_sink         *sinks;   /* of the run in progress, by output */
    bool             *written; /* by output: a plan has put it into its sink */
};

/* The runner of a body, made at first use. */
opf_status opf_runner_body(opf_runner *runner, opf_node_id node, uint32_t body, opf_runner **result, opf_error *error);
/* The tensor of a live value (constants too). */
opf_status opf_runner_tensor(opf_runner *runner, opf_value_id value, opf_tensor *tensor, opf_error *error);
/* The memory that a value is to be written to: the sink of a graph output, else its own. */
opf_sink *opf_runner_sink(opf_runner *runner, opf_value_id value);
/* The value exists now: type, rank, dims and data of the tensor. */
opf_status opf_runner_set(opf_runner *runner, opf_value_id value, const opf_tensor *tensor, opf_error *error);
/* At least `need` bytes at sink->data; the first `keep` of them survive. */
opf_status opf_sink_reserve(opf_heap *heap, opf_sink *sink, size_t need, size_t keep, opf_error *error);
void opf_sink_free(opf_heap *heap, opf_sink *sink);
/* Grows a buffer of `times` parts of *have bytes; contents are lost. */
opf_status opf_reserve(opf_heap *heap, void **buffer, size_t *have, size_t need, size_t times, opf_error *error);
opf_status opf_reserve_scratch(opf_run_context *context, const opf_plan *plan, opf_error *error);

/* If, Loop, Scan: runs the node's bodies and makes its outputs live. */
opf_status opf_run_control(opf_runner *runner, opf_node_id node, opf_error *error);

#endif
