/* SPDX-License-Identifier: Apache-2.0 */
/* How a Gather gives its result, said by an attribute of opfuse's own: no model has it, and none is written with it. */
#ifndef OPF_OPS_GATHER_H
#define OPF_OPS_GATHER_H

#include "graph/graph.h"
#include "ops/op.h"

/* Set to 0 where the only reader takes rows from the table by their indices, so that none are stored. */
#define OPF_GATHER_STORED "stored"

static inline bool opf_gather_is_read_in_place(const opf_node *node)
{
    return node->op == &opf_op_Gather && opf_node_int(node, OPF_GATHER_STORED, 1) == 0;
}

#endif
