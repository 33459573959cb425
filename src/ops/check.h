/* SPDX-License-Identifier: Apache-2.0 */
/* What infer functions share to refuse shapes that do not fit, with both shapes in the message. */
#ifndef OPF_OPS_CHECK_H
#define OPF_OPS_CHECK_H

#include "ops/infer.h"

/* A proven mismatch: two different numbers. Symbols are left to the sizes of a run, as exporters use them loosely. */
static inline bool opf_dims_clash(opf_dim a, opf_dim b)
{
    return opf_dim_is_number(a) && opf_dim_is_number(b) && a.n != b.n;
}

/* Fails with "X float[1,3,8,8] and W float[4,2,3,3]: why", for inputs i and j; i alone when they are the same. */
opf_status opf_refuse_shapes(const opf_infer *infer, uint32_t i, uint32_t j, opf_error *error, const char *why, ...)
    __attribute__((format(printf, 5, 6)));
/* Fails unless input i has rank 1 and `wanted` elements, a size of input `of`; unknown fits. */
opf_status opf_check_vector(const opf_infer *infer, uint32_t i, opf_dim wanted, uint32_t of, opf_error *error);
/* Fails unless input i broadcasts to the shape of input `to` without changing it; unknown fits. */
opf_status opf_check_broadcast_to(const opf_infer *infer, uint32_t i, uint32_t to, opf_error *error);

#endif
