/* SPDX-License-Identifier: Apache-2.0 */
/* What a Slice takes along one axis: shared by its kernel, its inference, and the passes that merge slices. */
#ifndef OPF_OPS_SLICE_H
#define OPF_OPS_SLICE_H

#include <stdint.h>

/* First index and number of elements along one axis of d elements, with ONNX's clamping; step is not 0. */
void opf_slice_range(int64_t d, int64_t start, int64_t end, int64_t step, int64_t *first, int64_t *count);

#endif
