/* SPDX-License-Identifier: Apache-2.0 */
/* The model file: a message whose weights are streamed, and beside it, when it would grow too large, a file of them. */
#ifndef OPF_ONNX_SAVE_FILE_H
#define OPF_ONNX_SAVE_FILE_H

#include "onnx/load.h"
#include "onnx/save/message.h"

typedef struct opf_save_file {
    const char *path;
    const opf_save_message *message;
    int64_t ir_version;
    const opf_opset *opsets;
    uint32_t n_opsets;
    size_t largest; /* a file of more bytes has its weights outside */
    opf_arena *arena;
    opf_heap *heap;
    /* result */
    size_t weight_bytes, file_bytes;
    const char *external; /* path of the file of weights, NULL: none */
} opf_save_file;

/* Both files appear whole or not at all. */
opf_status opf_save_write_file(opf_save_file *file, opf_error *error);

#endif
