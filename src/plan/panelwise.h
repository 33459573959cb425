/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A product of pixels and the depthwise convolution that alone reads it run together, a panel of channels at a time: the few
 * lines of the panel that windows need stay in L1, and the image between the two never exists. A mobile network's expansion is
 * its largest image: as a step of its own it costs a pass to L2 and one back. The numbers are the same.
 */
#ifndef OPF_PLAN_PANELWISE_H
#define OPF_PLAN_PANELWISE_H

#include "plan/planner.h"

/* After all steps, before bands: the depthwise step of each such pair runs both, the product has nothing left to do. */
opf_status opf_plan_panelwise(opf_planner *planner, opf_error *error);

#endif
