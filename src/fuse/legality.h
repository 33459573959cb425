/* SPDX-License-Identifier: Apache-2.0 */
/* When a set of nodes may be replaced. Rules go through these checks in the matcher; absorbers call them. */
#ifndef OPF_FUSE_LEGALITY_H
#define OPF_FUSE_LEGALITY_H

#include "fuse/context.h"

/* Why not. reason is formatted in the scratch arena. */
typedef struct opf_refusal {
    opf_miss_code code;
    opf_node_id node; /* at fault; 0: the start */
    const char *reason;
} opf_refusal;

/* Fills *why (may be NULL) and returns false: `return opf_refuse(context, why, OPF_MISS_SHAPE, node, "…", …);` */
bool opf_refuse(opf_fuse_context *context, opf_refusal *why, opf_miss_code code, opf_node_id node, const char *format,
                ...) __attribute__((format(printf, 5, 6)));
/* Reports a refusal as a near miss of the rule at `start`; one without a reason is none. False: memory is out. */
bool opf_report_refusal(opf_fuse_context *context, const char *rule, opf_node_id start, const opf_refusal *why,
                        uint32_t matched, uint32_t of);

/* Every use of value is by one of the n nodes: not a graph output (IS_OUTPUT), not captured by a body (CAPTURED), not
   read by another node (USED_OUTSIDE, which names the reader). */
bool opf_legal_uses(opf_fuse_context *context, opf_value_id value, const opf_node_id *nodes, uint32_t n,
                    opf_refusal *why);
/* The reader reads the value once, and nothing else does: its epilogue may read what it reads itself. */
bool opf_legal_read_once(opf_fuse_context *context, opf_value_id value, opf_node_id reader, opf_refusal *why);

/* Every output of the nodes but those in kept has all its uses inside. */
bool opf_legal_interior(opf_fuse_context *context, const opf_node_id *nodes, uint32_t n, const opf_value_id *kept,
                        uint32_t n_kept, opf_refusal *why);

/* No value read from outside depends on a value that the nodes make: one node may take their place. */
bool opf_legal_convex(opf_fuse_context *context, const opf_node_id *nodes, uint32_t n, opf_refusal *why);

/* A node that value is computed from, through any number of others, is `node`. Walks backwards: linear in what value
 * depends on. */
bool opf_legal_depends(opf_fuse_context *context, opf_value_id value, opf_node_id node);

/* Types and shapes of both are known and proven equal: else DTYPE, RANK, SHAPE_UNKNOWN, or SHAPE where dimensions are
   different numbers; the reason shows both. */
bool opf_legal_same(opf_fuse_context *context, const opf_info *found, const opf_info *wanted, opf_refusal *why);

#endif
