/* SPDX-License-Identifier: Apache-2.0 */
/* Putting what a rule says in place of what it matched. */
#ifndef OPF_FUSE_REWRITE_H
#define OPF_FUSE_REWRITE_H

#include "fuse/match.h"

/* Computes the lets and the operands, makes the new nodes, proves that their results have the types and shapes of those
   that they replace, then takes the matched nodes out. *applied false: *why says what refused, and the graph is as it
   was. *anchor: the node that carries the fusion on. */
opf_status opf_rule_rewrite(opf_match *match, bool *applied, opf_node_id *anchor, opf_refusal *why, opf_error *error);

#endif
