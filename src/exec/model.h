/* SPDX-License-Identifier: Apache-2.0 */
/* A model: the graph after each stage, and what all its sessions share. Immutable once open, but for packed weights. */
#ifndef OPF_EXEC_MODEL_H
#define OPF_EXEC_MODEL_H

#include "exec/pool.h"
#include "fuse/fuse.h"
#include "kernels/kern.h"
#include "onnx/load.h"
#include "plan/plan.h"

/* The graph after each stage, and what fusing it relied on. */
typedef struct opf_stages {
    opf_graph      *loaded;
    opf_graph      *simplified; /* what --no-fuse runs */
    opf_graph      *fused;
    opf_fuse_report report;
} opf_stages;

struct opf_model {
    opf_heap        heap;
    opf_arena       arena;
    opf_limits      limits;
    opf_mapping     file; /* data NULL: the caller's memory */
    opf_const_pool  consts;
    opf_dims       *dims;
    opf_loaded      loaded; /* .graph is the graph as loaded */
    opf_stages      open;   /* of that graph: what the model is to all who look at it */
    opf_stages      frozen; /* every default is a constant: what runs when no input with a default is fed; NULL and nothing when
                               there is no such graph */
    opf_fuse_options fuse_options;
    opf_weights    *weights;
    opf_kern        kern;
    bool            exact; /* direct kernels only */
    bool            is_resized; /* the caller gave sizes of inputs */
    void (*log)(void *user, const char *message);
    void *log_user;
};

/* The graph that a mode runs. */
const opf_graph *opf_stages_graph(const opf_stages *stages, opf_mode mode);

/* A session on a graph with the model's inputs and outputs, whatever the mode and the inputs that are fed. It was made from these
   stages; where what they rely on does not hold, their graph as loaded runs. */
opf_status opf_session_create_on(const opf_model *model, const opf_stages *stages, const opf_graph *graph,
                                 const opf_session_options *options, opf_session **session, opf_error *error);

/* A plan of graph for these inputs. */
opf_status opf_model_plan(const opf_model *model, const opf_graph *graph, const opf_info *inputs, bool reference, opf_plan **plan,
                          opf_error *error);

opf_status opf_model_plan_part(const opf_model *model, const opf_plan_request *request, bool reference, opf_plan **plan, opf_error *error);

/* Packs what plans made so far ask for, on the threads of the pool: before they run. */
opf_status opf_pack_weights(const opf_model *model, opf_pool *pool, opf_error *error);

/* Infos of the graph's inputs when every symbol has the number `number` gives and unknown dims are symbols named "?".
   In arena. */
opf_status opf_model_input_infos(const opf_model *model, bool (*number)(void *user, const char *symbol, int64_t *n), void *user,
                                 opf_arena *arena, opf_info **infos, opf_error *error);

/* A plan at sizes nobody chose, on which nothing happens to be equal or one: it counts kernels for every size. NULL when no such sizes
   are possible (error tells why the last ones were not). graph must have the model's inputs. */
opf_status opf_model_generic_plan(const opf_model *model, const opf_graph *graph, opf_plan **plan, opf_error *error);

/* Plans of a graph that falls into segments, bodies once each, at such sizes and at made-up ones for shapes that depend on data:
   they tell the kernels, not how large anything is. visit may keep nothing of the plan. OPF_UNSUPPORTED: no sizes will do. */
typedef opf_status (*opf_visit_part)(void *user, const opf_plan *plan, opf_error *error);
opf_status opf_model_generic_parts(const opf_model *model, const opf_graph *graph, opf_visit_part visit, void *user, opf_error *error);

struct opf_report {
    opf_heap        *heap; /* of the model, or own_heap */
    opf_heap         own_heap;
    opf_arena        arena;
    opf_explanation  explanation;
    opf_model_info   info;
    opf_verification verification;
    opf_saved        saved;
    const char      *text;
    const opf_op_entry *ops;
    size_t           n_ops;
};
/* heap NULL: the system's. */
opf_status opf_report_create(opf_heap *heap, opf_report **report, opf_error *error);

#endif
