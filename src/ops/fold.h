/* SPDX-License-Identifier: Apache-2.0 */
/* Columns of sliding windows added back to the image they lie in: the transpose of gathering them. */
#ifndef OPF_OPS_FOLD_H
#define OPF_OPS_FOLD_H

#include "ops/product.h"
#include "ops/window.h"

/* image[o] += columns[tap][place] wherever o = place*stride - pad_begin + tap*dilation lies in the image; taps and
   places are numbered in row-major order. Numbers are doubles, or wrapping integers. */
void opf_fold_columns(const opf_windows *windows, const int64_t *places, const opf_number *columns, bool is_float,
                      const int64_t *image_dims, opf_number *image);

#endif
