/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a model that is written takes over from the file that it came from, byte for byte: who made it, documentation,
 * metadata, declarations of inputs and outputs, and the notes at its nodes.
 */
#ifndef OPF_ONNX_SAVE_KEEP_H
#define OPF_ONNX_SAVE_KEEP_H

#include "base/map.h"
#include "base/status.h"
#include "onnx/save/protobuf.h"

/* The key of a node's metadata under which the nodes stand, one a line, that it stands for. */
#define OPF_SAVE_ORIGIN "opfuse.origin"

typedef struct opf_keep {
    opf_arena *arena;
    opf_text model, graph; /* fields of ModelProto and of its GraphProto; no nodes, weights, ports or opsets */
    bool has_graph_name;
    opf_pb_span *spans; /* messages by number */
    uint32_t n_spans, capacity;
    opf_map inputs, outputs, nodes; /* name (of a node: in the graph as loaded) to number */
} opf_keep;

/* bytes: the model as it was loaded. Spans point into it. OPF_OUT_OF_MEMORY or OPF_OK. */
opf_status opf_keep_init(opf_keep *keep, const void *bytes, size_t size, opf_arena *arena, opf_error *error);

/* The message of that name, n 0: there is none. */
opf_pb_span opf_keep_find(const opf_keep *keep, const opf_map *map, const char *name);
/* A value of the node's metadata, as a string in the arena; NULL: it has none, or memory is out. */
const char *opf_keep_node_metadata(const opf_keep *keep, const char *node, const char *key);

#endif
