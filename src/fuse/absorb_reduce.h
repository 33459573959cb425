/* SPDX-License-Identifier: Apache-2.0 */
/* What explain asks of the fusion of reductions with what is computed before them. */
#ifndef OPF_FUSE_ABSORB_REDUCE_H
#define OPF_FUSE_ABSORB_REDUCE_H

#include "fuse/legality.h"

/* The elementwise node, or region, that makes the operand of a reduction could be computed while that is read; else why
   not. Without a reason: neither makes it. */
bool opf_reduce_may_compute(opf_fuse_context *context, opf_node_id reduction, opf_refusal *why);

#endif
