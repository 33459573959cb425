/* SPDX-License-Identifier: Apache-2.0 */
/* What shape inference knows of the bodies of If, Loop and Scan before and after they are inferred. */
#ifndef OPF_OPS_CONTROL_H
#define OPF_OPS_CONTROL_H

#include "ops/op.h"

/* Sets the infos of a body's inputs, captures included, from those of the node's inputs. Values that are carried from one
   round to the next start with the shape of their first value. */
void opf_body_enter(const opf_graph *graph, opf_node_id node, uint32_t body);
/* After the body was inferred: *again says that a round changes the shape of a carried value. Then less is known of the
   inputs now, and the body must be inferred again; `round` counts how often that was. Three times at most. */
opf_status opf_body_widen(const opf_graph *graph, opf_node_id node, uint32_t body, uint32_t round, bool *again, opf_error *error);

#endif
