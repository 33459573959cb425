/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What rules and absorbers share while one graph is fused. An absorber is a C pass
 *     opf_status opf_absorb_<name>(opf_fuse_context *context, bool *changed, opf_error *error);
 * with a line in absorbers.def. For each rewrite it asks opf_fuse_allows, changes the graph, joins the origins of the
 * nodes, and calls opf_fuse_done. It sets *changed when it rewrote anything; it is called again until nothing changes.
 */
#ifndef OPF_FUSE_CONTEXT_H
#define OPF_FUSE_CONTEXT_H

#include "fuse/fuse.h"
#include "ops/infer.h"

typedef struct opf_fuse_context {
    opf_graph *graph; /* the main graph or a body; bodies come first, innermost first */
    const opf_graph *root; /* the main graph */
    opf_fuse_report *report;
    const opf_fuse_options *options;
    opf_arena *scratch; /* lives until opf_fuse returns */
    int64_t left;       /* rewrites still allowed; negative: no bound */
    opf_info *infos;    /* by value id, for opf_infer_node; filled for a node's inputs when it is inferred */
    uint32_t infos_capacity;
    uint32_t *marks; /* by node id: equals `mark` when visited by the current walk (legality.c) */
    uint32_t marks_capacity, mark;
} opf_fuse_context;

/* The rule is not switched off, by its name or its family. */
bool opf_fuse_is_enabled(const opf_fuse_context *context, const char *rule);

/* Ask once a rewrite is known to be legal: false when the rule is off or the budget of rewrites is spent, which is then
   reported as a near miss (DISABLED, BUDGET) with this start node. */
bool opf_fuse_allows(const opf_fuse_context *context, const char *rule, opf_node_id start);

/* A size is at least 1, or is computed from sizes of the main graph's inputs: then it is noted in the report, and a run
   where it is 0 uses the graph as loaded. False: neither, or memory is out. */
bool opf_fuse_suppose_positive(opf_fuse_context *context, opf_dim size);

/* The same for a size that is 1 or another one, so that it broadcasts to it: shapes are inferred with that from then on. */
bool opf_fuse_suppose_fits(opf_fuse_context *context, opf_dim part, opf_dim whole);

/* That of all masks of attentions in the main graph. */
opf_status opf_fuse_suppose_masks(opf_fuse_context *context, opf_error *error);

/* Infers the outputs of a node again, its anchor's result under the steps included, into the graph's infos. */
opf_status opf_fuse_infer(opf_fuse_context *context, opf_node_id node, opf_error *error);

/* A node that is not part of another fusion. */
bool opf_fuse_is_plain(const opf_graph *graph, opf_node_id id, const opf_op *op);

/* The result of a node with these inputs that is there, perhaps made for another layer, or of a new one. 0: no memory,
 * or error says what has no shape. */
opf_value_id opf_fuse_build(opf_fuse_context *context, const opf_op *op, const opf_value_id *inputs, uint32_t n,
                                 opf_error *error);

/* The only reader of the node's result computes it as it reads it (ops/stored.h), if that is allowed. */
opf_status opf_fuse_leave_unstored(opf_fuse_context *context, const char *rule, opf_node_id node, bool *changed,
                                   opf_error *error);

/* After a rewrite: reports it (the origin is that of the anchor node), counts it, and verifies the graph in debug
 * builds. */
opf_status opf_fuse_done(opf_fuse_context *context, const char *rule, opf_node_id anchor, opf_error *error);
/* The same, where the rewrite joined fewer nodes than the anchor already stands for: names of those that it joined. */
opf_status opf_fuse_done_with(opf_fuse_context *context, const char *rule, opf_node_id anchor,
                              const char *const *origin, uint32_t n_origin, opf_error *error);

/* The family of a rule or absorber: "conv", "matmul", "norm", "activation", "gate", "reduction", "elementwise"; NULL: no such
   rule. */
const char *opf_fuse_family(const char *rule);

#define OPF_ABSORBER(name) opf_status opf_absorb_##name(opf_fuse_context *context, bool *changed, opf_error *error);
#define OPF_ABSORBED(name, family)
#include "fuse/absorbers.def"
#undef OPF_ABSORBER
#undef OPF_ABSORBED

#endif
