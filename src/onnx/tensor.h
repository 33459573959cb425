/* SPDX-License-Identifier: Apache-2.0 */
/* From TensorProto to constants: borrowed from the file, decoded, or borrowed from a file of external data. */
#ifndef OPF_ONNX_TENSOR_H
#define OPF_ONNX_TENSOR_H

#include "base/map.h"
#include "onnx/load.h"
#include "onnx/wire.h"

typedef struct opf_tensor_reader {
    opf_arena              *arena;
    opf_const_pool         *consts;
    const opf_load_options *options;
    bool                    mapped; /* the file itself is */
    opf_loaded             *loaded; /* files of external data are kept open there */
    uint32_t                mappings_capacity;
    opf_map                 locations; /* external file to number of its mapping */
} opf_tensor_reader;

/* Errors do not name the tensor: the caller puts its name before. */
opf_status opf_tensor_constant(opf_tensor_reader *reader, const wire_tensor *tensor, const opf_const **constant, opf_error *error);

#endif
