/* SPDX-License-Identifier: Apache-2.0 */
/* The geometry of ConvTranspose: the result's position i*stride - pad_begin + t*dilation gains tap t of input position i. */
#ifndef OPF_OPS_CONV_TRANSPOSE_H
#define OPF_OPS_CONV_TRANSPOSE_H

#include "ops/window.h"

/* Windows with pad_begin resolved for images of in[i] positions and results of out[i], as inference gives them. kernel: the
   weight's spatial sizes. */
opf_status opf_conv_transpose_windows(const opf_attr *attrs, uint32_t n_attrs, int32_t rank, const int64_t *kernel,
                                      const int64_t *in, const int64_t *out, opf_windows *windows, opf_error *error);

#endif
