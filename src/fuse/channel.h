/* SPDX-License-Identifier: Apache-2.0 */
/* Constants with one element a channel, and weights scaled by them: what rules and absorbers share. */
#ifndef OPF_FUSE_CHANNEL_H
#define OPF_FUSE_CHANNEL_H

#include "graph/constant.h"

/* c (floats, any dims) as one double a channel: it has one element, or as many as there are channels. NULL: memory. */
const opf_const *opf_channel_vector(opf_const_pool *pool, const opf_const *c, int64_t channels);

bool opf_channel_is_finite(const opf_const *vector);
/* No element is so close to zero that its reciprocal is not finite in single precision too. */
bool opf_channel_divides(const opf_const *vector);
/* Weights of the type stay in range where the vector scales them, or divides them: those of half precision could grow.
 */
bool opf_channel_keeps_range(opf_type type, const opf_const *vector, bool divides);
/* NULL: memory. */
const opf_const *opf_channel_reciprocal(opf_const_pool *pool, const opf_const *vector);

/* W is [groups * A, B, ...]: column b of group g times factors[g * B + b]. So the weights of a Conv are scaled along
   their inputs, those of a ConvTranspose along their outputs. A recipe; NULL: memory. */
const opf_const *opf_channel_scale_columns(opf_const_pool *pool, const opf_const *w, const opf_const *factors,
                                           int64_t groups);
/* What each row of W gains when column b of group g of its operand gains terms[g * B + b]: [groups * A] doubles. NULL:
   memory. */
const opf_const *opf_channel_shift_rows(opf_const_pool *pool, const opf_const *w, const opf_const *terms,
                                        int64_t groups);

#endif
