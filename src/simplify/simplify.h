/* SPDX-License-Identifier: Apache-2.0 */
/* Generic passes, no patterns: folding, common subexpressions, dead code, no-ops, shape arithmetic. */
#ifndef OPF_SIMPLIFY_SIMPLIFY_H
#define OPF_SIMPLIFY_SIMPLIFY_H

#include "base/limits.h"
#include "graph/graph.h"

/* Runs all passes to a fixpoint, bodies innermost first; shapes are inferred before and after. Origins of merged nodes
 * are joined. */
opf_status opf_simplify(opf_graph *graph, const opf_limits *limits, opf_heap *heap, opf_error *error);

/* The single passes; *changed is set when something was done. Infos must be inferred. */
opf_status opf_fold_constants(opf_graph *graph, const opf_limits *limits, opf_heap *heap, bool *changed,
                              opf_error *error);
opf_status opf_merge_common(opf_graph *graph, bool *changed,
                            opf_error *error); /* common subexpressions and equal constants */
opf_status opf_remove_no_ops(opf_graph *graph, bool *changed, opf_error *error);
opf_status opf_remove_dead(opf_graph *graph, bool *changed, opf_error *error);

/* Why an Einsum stayed one. */
typedef enum opf_einsum_obstacle {
    OPF_EINSUM_SHAPE_UNKNOWN, /* ranks, or that the sizes of a label are equal, are not known */
    OPF_EINSUM_TARGET,        /* more than one dimension of a Reshape would be known at run time only */
    OPF_EINSUM_DIAGONAL,
    OPF_EINSUM_TYPE,      /* no MatMul or ReduceSum of this type */
    OPF_EINSUM_ROUNDING,  /* what lies in between would be rounded to a narrow type */
    OPF_EINSUM_SUM_FIRST, /* a sum would be formed before a product with what may be infinite */
    OPF_EINSUM_LIMIT      /* more operands or dimensions than are tried */
} opf_einsum_obstacle;
opf_einsum_obstacle opf_simplify_einsum_obstacle(const opf_graph *graph, opf_node_id einsum);

#endif
