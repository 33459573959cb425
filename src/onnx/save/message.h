/* SPDX-License-Identifier: Apache-2.0 */
/* A graph as a message of ONNX, but for the weights, which are listed: all stand in the main graph, each once. */
#ifndef OPF_ONNX_SAVE_MESSAGE_H
#define OPF_ONNX_SAVE_MESSAGE_H

#include "graph/graph.h"
#include "onnx/save/keep.h"

typedef struct opf_save_weight {
    const opf_const *constant;
    const char *name;
} opf_save_weight;

typedef struct opf_save_message {
    opf_arena *arena;
    const opf_keep *keep;
    const opf_graph *loaded;          /* weights that the file had keep their names */
    bool is_resized;                  /* ports are declared anew: the caller gave sizes */
    const opf_const *const *defaults; /* by index of the graph's inputs, NULL where there is none */
    opf_map taken;                    /* names of values in the file */
    uint32_t *weight_of;              /* by id of a constant: number of its weight + 1 */
    uint32_t n_ids;
    opf_save_weight *weights;
    uint32_t n_weights, weights_capacity;
    uint32_t n_nodes;
    bool has_microsoft; /* there are nodes of com.microsoft */
    opf_text graph;     /* the fields of GraphProto, without initializers */
    opf_error *error;
} opf_save_message;

/* Fills graph and weights. The first five fields are set, error too. The graph's outputs all have a node or are inputs.
 */
opf_status opf_save_write_graph(opf_save_message *message, const opf_graph *graph);

/* TensorProto without its data: dimensions, type and name. */
void opf_save_write_tensor_head(opf_text *text, const opf_const *constant, const char *name);

#endif
