/* SPDX-License-Identifier: Apache-2.0 */
/* That a node does not store its result, said by an attribute of opfuse's own: no model has it, and none is written
 * with it. */
#ifndef OPF_OPS_STORED_H
#define OPF_OPS_STORED_H

#include "graph/graph.h"
#include "ops/op.h"

/* Set to 0 where the only reader computes the result as it reads it: rows that a Gather takes from a table by their
   indices, the tiles of a product. */
#define OPF_STORED "stored"

static inline bool opf_node_is_stored(const opf_node *node)
{
    return opf_node_int(node, OPF_STORED, 1) != 0;
}

static inline bool opf_gather_is_read_in_place(const opf_node *node)
{
    return node->op == &opf_op_Gather && !opf_node_is_stored(node);
}

/* Computed tile by tile in the step of the product behind it (plan/gemm.h). */
static inline bool opf_product_is_beside(const opf_node *node)
{
    return (node->op == &opf_op_MatMul || node->op == &opf_op_Gemm) && !opf_node_is_stored(node);
}

#endif
