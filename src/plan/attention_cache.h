/* SPDX-License-Identifier: Apache-2.0 */
/* Keys and values of earlier calls, and those that are kept for later ones. */
#ifndef OPF_PLAN_ATTENTION_CACHE_H
#define OPF_PLAN_ATTENTION_CACHE_H

#include "plan/planner.h"

/* The number of keys that come before the node's own. */
int64_t opf_attention_past(const opf_planner *planner, const opf_node *node);

/* kv: K and V seen as [batch, head, row, col]. If the node has a past, or keeps what it read, they become the whole, which
   is put together where it is kept: attention reads the present, and nothing is copied twice. */
opf_status opf_plan_attention_cache(opf_planner *planner, const opf_node *node, opf_place kv[2], opf_error *error);

#endif
