/* SPDX-License-Identifier: Apache-2.0 */
/* Elements of constants into files: bytes as they lie in the model, recipes evaluated a panel at a time. */
#ifndef OPF_ONNX_SAVE_WEIGHTS_H
#define OPF_ONNX_SAVE_WEIGHTS_H

#include "graph/constant.h"
#include "onnx/output.h"

/* Appends opf_const_size(constant) bytes to the file. */
opf_status opf_save_write_constant(opf_output *output, const opf_const *constant, opf_heap *heap, opf_error *error);

#endif
