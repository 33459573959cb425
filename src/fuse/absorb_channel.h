/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPF_FUSE_ABSORB_CHANNEL_H
#define OPF_FUSE_ABSORB_CHANNEL_H

#include "fuse/context.h"

/* While a convolution with constant weights is read by one Add, Sub, Mul or Div with a constant per channel, folds that
   into weights and bias (conv-add, conv-mul). Other nodes are left alone. */
opf_status opf_absorb_channel(opf_fuse_context *context, opf_node_id conv, bool *changed, opf_error *error);

/* The same for arithmetic before a Conv, into the columns of its weights; a term only where nothing is padded. Before a
   ConvTranspose factors only: its pixels at a border sum fewer terms. Before a product with a constant matrix factors of the
   elements of a row (matmul-scale). */
opf_status opf_absorb_channel_before(opf_fuse_context *context, opf_node_id conv, bool *changed, opf_error *error);

#endif
