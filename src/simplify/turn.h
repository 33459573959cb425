/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that compute the same on transposed operands, with another axis or other parameters: one row an operator.
 */
#ifndef OPF_SIMPLIFY_TURN_H
#define OPF_SIMPLIFY_TURN_H

#include "simplify/passes.h"

/* The order of a value: it is Transpose(before, perm) of a value that is there or could be. */
typedef struct opf_order {
    int32_t rank;
    int64_t perm[OPF_MAX_RANK];
} opf_order;

/* What a node would be that reads `in` before its transposes. */
typedef struct opf_turn {
    opf_graph *graph;
    opf_node_id node;
    opf_order in;  /* of the operands that are transposed */
    opf_order out; /* of the results */
} opf_turn;

/* The node can read its operands before their transposes; sets out. Whether its other operands can be read in that
   order is not asked here, but where opf_turn_mixes holds. */
bool opf_turn_find(opf_turn *turn);

/* The operands of the node are of one order: elementwise operators and Concat. Others read one tensor. */
bool opf_turn_mixes(const opf_node *node);

/* Changes attributes and parameters; inputs and outputs are those of the new order already. False: memory is out. */
bool opf_turn_apply(const opf_turn *turn);

/* The constant in the order before the transpose, ones in front taken away (as broadcasting allows) unless the rank is
   to stay. NULL: memory is out. */
const opf_const *opf_turn_constant(opf_graph *graph, const opf_order *order, const opf_const *c, bool keeps_rank);
/* The info of the value before the transpose. False: memory is out. */
bool opf_turn_info(opf_graph *graph, const opf_order *order, const opf_info *info, opf_info *result);

#endif
