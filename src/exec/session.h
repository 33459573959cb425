/* SPDX-License-Identifier: Apache-2.0 */
/* What a session holds, and the tensors of its callers (exec/session_tensors.c). */
#ifndef OPF_EXEC_SESSION_H
#define OPF_EXEC_SESSION_H

#include "exec/model.h"
#include "exec/runner.h"

enum {
    OPF_SESSION_PLANS   = 8,
    OPF_SESSION_KEY     = 1 + OPF_MAX_RANK, /* numbers of an input in the key of a plan, at most */
    OPF_SESSION_RUNNERS = 4                 /* graphs that may run: of the mode and as loaded, open and frozen */
};

typedef struct {
    opf_plan *plan; /* NULL: free */
    int64_t  *key;  /* whether it is of the frozen graph, types and shapes of all inputs */
    size_t    key_length;
    uint64_t  used; /* by run number: the least is given up first */
    double   *times; /* by step, milliseconds, the least so far */
} opf_planned;

struct opf_session {
    const opf_model    *model;
    const opf_stages   *stages;
    const opf_graph    *graph;  /* of the mode */
    const opf_graph    *frozen; /* the same of the frozen stages, for runs that feed no input with a default; or NULL */
    opf_session_options options;
    opf_heap           *heap;
    int32_t             threads;
    opf_planned         plans[OPF_SESSION_PLANS];
    uint64_t            runs;
    char               *arena;
    size_t              arena_bytes;
    char              **bases; /* by buffer */
    size_t              n_bases;
    void              **outputs; /* by output: memory for those without a caller's buffer */
    size_t             *output_bytes;
    bool                warned;
    opf_planned        *latest; /* of the latest run; NULL when it was given up */
    opf_arena           profile_arena;
    /* of the run in progress */
    bool        is_frozen;
    opf_tensor *inputs; /* all of the model's; defaults too, without data where the graph has them as constants */
    char      **data;   /* by output */
    int64_t    *key;
    /* for graphs that are no single plan: made at first use */
    opf_run_context context;
    opf_runner     *runners[OPF_SESSION_RUNNERS];
    opf_sink       *sinks; /* by output */
    opf_tensor     *results;
};

/* Checks the caller's inputs, fills s->inputs and tells whether the run is frozen. Inputs with defaults may be missing. Without
   data (a session is prepared) a type is enough. */
opf_status opf_session_take_inputs(opf_session *s, const opf_tensor *inputs, size_t n, bool with_data, opf_error *error);
/* No output may lie in an input or another output, be it the caller's or the session's. */
opf_status opf_session_check_overlap(const opf_session *s, const opf_plan *plan, const opf_tensor *outputs, size_t n, opf_error *error);
/* The caller's buffers, or the session's own, for every output of a plan; fills type, rank and dims. */
opf_status opf_session_bind_outputs(opf_session *s, const opf_plan *plan, opf_tensor *outputs, size_t n, opf_error *error);

#endif
