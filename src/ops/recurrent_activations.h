/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPF_OPS_RECURRENT_ACTIVATIONS_H
#define OPF_OPS_RECURRENT_ACTIVATIONS_H

#include "ops/recurrent.h"

/* The activations of all directions, in order, from attributes activations, activation_alpha and activation_beta. The
   lists of alphas and betas are used up by the activations that have one; what they lack are ONNX's defaults. */
opf_status opf_activations_read(const opf_attr *attrs, uint32_t n_attrs, const opf_recurrence *recurrence,
                                uint32_t directions, opf_activation *list, opf_error *error);

#endif
