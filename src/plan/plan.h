/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plan: the step list for one set of input shapes. Every value has a place (buffer, offset, strides); views share the
 * buffer of their base. Buffers lie in one arena, in constants, or in the caller's inputs and outputs. A plan is
 * immutable once made and holds no run-time state.
 */
#ifndef OPF_PLAN_PLAN_H
#define OPF_PLAN_PLAN_H

#include "base/limits.h"
#include "graph/graph.h"
#include "kernels/kern.h"
#include "ops/op.h"
#include "plan/weights.h"

/* ---- places ---- */

typedef enum opf_buffer_kind { OPF_BUFFER_NONE = 0, OPF_BUFFER_ARENA, OPF_BUFFER_CONST, OPF_BUFFER_INPUT, OPF_BUFFER_OUTPUT, OPF_BUFFER_VALUE } opf_buffer_kind;

enum { OPF_SHARES = 3 };

typedef struct opf_buffer {
    opf_buffer_kind kind;
    uint32_t        index; /* of the graph's input or output; VALUE: the value that crosses segments */
    size_t          bytes;
    const void     *data;   /* CONST */
    size_t          offset; /* ARENA: bytes from its start */
    uint32_t        first, last; /* steps that write and read it; first > last: never used */
    uint32_t        touched;     /* how often they do */
    uint32_t        shares[OPF_SHARES]; /* ARENA: buffers whose memory this one may take over in place, the best first; 0: none */
} opf_buffer;

typedef struct opf_place {
    uint32_t buffer; /* 0: none */
    opf_type type;
    int64_t  offset; /* elements from the buffer's start */
    int32_t  rank;
    int64_t  dims[OPF_MAX_RANK];
    int64_t  strides[OPF_MAX_RANK]; /* elements */
} opf_place;

/* Where a step finds data at run time: base of the buffer plus bytes. */
typedef struct opf_ref {
    uint32_t buffer; /* 0: NULL */
    int64_t  bytes;
} opf_ref;

/* ---- steps ---- */

typedef struct opf_run_env {
    char           *const *bases; /* by buffer */
    const opf_kern        *kern;
    opf_heap              *heap;
} opf_run_env;

static inline void *opf_ref_data(const opf_run_env *env, opf_ref ref)
{
    return ref.buffer == 0 ? NULL : env->bases[ref.buffer] + ref.bytes;
}

typedef struct opf_plan_step {
    const char *kernel;
    opf_node_id node;
    /* Units [begin, end) of the step's work; scratch is this thread's, scratch_bytes of it. Results do not depend on how units are dealt out. */
    void (*run)(const opf_run_env *env, const void *args, size_t begin, size_t end, void *scratch);
    /* Before run, on one thread: data errors. Instead of run when run is NULL (reference kernels). May be NULL. */
    opf_status (*check)(const opf_run_env *env, const void *args, opf_error *error);
    const void *args;
    const struct opf_gathered **gathered; /* rows that it reads by index: indices are checked before it, too */
    uint32_t    n_gathered, gathered_capacity;
    size_t      units;
    size_t      scratch_bytes;
    const struct opf_image_lines *lines; /* NULL, or how it goes by lines (plan/bands.h) */
    double      flops, bytes;
    bool        joined; /* runs with a later one (plan/bands.h) */
    bool        lone; /* too little work to share: one thread does it, and no one waits */
    bool        is_copy; /* only moves elements to another layout for its node; counts as a kernel of its own */
    opf_value_id copied; /* is_copy: the value, where it is one of the graph; Concat: the first part that is not written in place */
    const char  *why;    /* Concat: why not, said of that part */
} opf_plan_step;

/* A graph output that nothing computes, an input or a constant: handed over with the others, by no kernel. */
typedef struct opf_passed {
    opf_ref src, dst;
    size_t  bytes;
} opf_passed;

typedef struct opf_plan {
    opf_arena        arena_; /* of this structure */
    const opf_graph *graph;
    opf_plan_step   *steps;
    uint32_t         n_steps, steps_capacity;
    opf_buffer      *buffers; /* [0] unused */
    uint32_t         n_buffers, buffers_capacity;
    opf_passed      *passed;
    uint32_t         n_passed, passed_capacity;
    size_t           arena_bytes;   /* activations, and outputs without a caller's buffer */
    size_t           scratch_bytes; /* per thread */
    const opf_info  *infos;         /* by value id, numeric */
    opf_place       *outputs;       /* of graph outputs: dense, each in its OUTPUT buffer; of segments: buffer 0 if made elsewhere */
    uint32_t         begin, end;    /* nodes in topological order; end < n: the next one cannot be planned yet */
    const opf_node_id *order;
    double           flops, bytes;
    bool             is_lone; /* all its steps are */
    bool             needs_data; /* some shape depends on data: cannot be planned */
    const char      *why_not;
} opf_plan;

typedef struct opf_plan_options {
    const opf_kern   *kern;
    opf_weights      *weights;
    opf_heap         *heap;
    const opf_limits *limits;
    bool              exact;     /* direct kernels only */
    bool              reference; /* every node by its reference kernel, nothing folded, no views */
} opf_plan_options;

/* Infos of the graph's inputs with numbers for all dims. Errors name the node (an impossible shape is OPF_INVALID_INPUT).
   Free with opf_plan_destroy. */
opf_status opf_plan_create(const opf_graph *graph, const opf_info *inputs, const opf_plan_options *options, opf_plan **plan,
                           opf_error *error);

/* A part of a graph whose other shapes depend on data. */
typedef struct opf_plan_request {
    const opf_graph   *graph;
    const opf_node_id *order; /* topological */
    uint32_t           n, begin;
    const bool        *needed; /* by node */
    const opf_info    *infos; /* by value: what exists (type NONE: does not), with numbers; copied */
    const opf_info    *first; /* of the outputs of order[begin], when its operator has computed them; else NULL */
} opf_plan_request;
/* Plans from order[begin] up to the first node with bodies or of unknown shape: plan->end (== begin: that very node). Values
   that exist, and those that later nodes read, lie dense in VALUE buffers. */
opf_status opf_plan_create_part(const opf_plan_request *request, const opf_plan_options *options, opf_plan **plan, opf_error *error);
void opf_plan_destroy(opf_plan **plan);

/* By node: whether a graph output depends on it. In arena; NULL when memory is out. */
bool *opf_plan_needed(const opf_graph *graph, const opf_node_id *order, uint32_t n, opf_arena *arena);

size_t opf_place_elements(const opf_place *place);

/* The step list as text. */
void opf_plan_print(const opf_plan *plan, opf_text *text);

#endif
