/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fused graph as an ONNX file for any runtime. Steps become nodes again; every node gets the form that it has in one
 * opset: the lowest, at or above the file's, in which all nodes have one. Operators that fusion made and that opset
 * lacks are spelled in older ones. What the graph does not change is taken over from the file: names and declarations
 * of inputs and outputs, documentation, metadata.
 */
#ifndef OPF_ONNX_SAVE_SAVE_H
#define OPF_ONNX_SAVE_SAVE_H

#include "onnx/load.h"

typedef struct opf_save_request {
    const opf_graph *graph;
    const opf_loaded *loaded; /* what the graph was made of */
    const char *path;
    opf_target target;
    int64_t opset;   /* 0: the lowest */
    bool is_resized; /* the caller gave sizes, which declarations of inputs and outputs then have */
    size_t largest;  /* a file of more bytes has its weights outside; 0: what protobuf can bear */
    opf_heap *heap;
} opf_save_request;

typedef struct opf_save_result {
    int64_t opset, ir_version;
    size_t weight_bytes, file_bytes;
    opf_tally ops;        /* of the nodes written, bodies included */
    const char *external; /* path of the file of weights; NULL: they are in the model */
    const char *raised;   /* what the file's own opset cannot say; NULL: it says all */
} opf_save_result;

/* Strings of the result live in arena. OPF_UNSUPPORTED: no opset, or not the one asked for, has a form of every node.
 */
opf_status opf_onnx_save(const opf_save_request *request, opf_arena *arena, opf_save_result *result, opf_error *error);

#endif
