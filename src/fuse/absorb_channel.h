/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPF_FUSE_ABSORB_CHANNEL_H
#define OPF_FUSE_ABSORB_CHANNEL_H

#include "fuse/context.h"

/* Add, Sub, Mul or Div with a constant per channel folds into weights and bias of a convolution with constant weights
   before it (conv-add, conv-mul), or into the columns of those of a Conv behind it, a term only where nothing is padded.
   Before a ConvTranspose factors only: its pixels at a border sum fewer terms. */
opf_status opf_absorb_channel(opf_fuse_context *context, bool *changed, opf_error *error);

#endif
