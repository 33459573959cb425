/* SPDX-License-Identifier: Apache-2.0 */
/* The header of .npy files. */
#ifndef OPF_ONNX_NPY_H
#define OPF_ONNX_NPY_H

#include "base/memory.h"
#include "base/status.h"

typedef struct opf_npy {
    opf_type type;
    bool     is_big_endian, is_fortran;
    int32_t  rank;
    int64_t  dims[OPF_MAX_RANK];
    size_t   data; /* offset of the elements */
} opf_npy;

enum { OPF_NPY_HEADER = 1024 }; /* bytes that a written header needs at most */

opf_status opf_npy_read(const void *bytes, size_t size, opf_npy *npy, opf_error *error);
/* OPF_UNSUPPORTED for types that numpy lacks. */
opf_status opf_npy_write(const opf_tensor *tensor, char header[OPF_NPY_HEADER], size_t *length, opf_error *error);

#endif
