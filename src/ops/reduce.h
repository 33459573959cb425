/* SPDX-License-Identifier: Apache-2.0 */
/* Which axes a reduction takes together. */
#ifndef OPF_OPS_REDUCE_H
#define OPF_OPS_REDUCE_H

#include "ops/op.h"

/* A reduction with kernels: one of Reduce…, or a global pool. */
bool opf_reduce_is_known(const opf_node *node);

/* reduced[i]: whether axis i of the `rank` axes of its operand is. axes: the elements of its input of that name, n of
   them, none where there is no such input. */
opf_status opf_reduce_mark(const opf_node *node, const int64_t *axes, int32_t n, int32_t rank, bool *reduced,
                           opf_error *error);

/* Those that are reduced are one run [*first, *last). False: others lie between them, or none is. */
bool opf_reduce_find_run(const bool *reduced, int32_t rank, int32_t *first, int32_t *last);

#endif
