/* SPDX-License-Identifier: Apache-2.0 */
/* What operators on quantized tensors share. */
#ifndef OPF_OPS_QUANTIZE_H
#define OPF_OPS_QUANTIZE_H

#include "ops/reference.h"

/* An element of any numeric type; exact for those of 32 bits and fewer. */
double opf_view_number(const opf_view *view, int64_t offset);
/* y = quotient, rounded to an integer (to even) where y's type is one, plus the zero point, saturated. A quotient that
   is no number counts as 0 in integers. saturate = false: 8-bit floats become infinite or NaN beyond their range. */
void opf_view_put_quantized(opf_view *y, int64_t offset, double quotient, double zero, bool saturate);

#endif
