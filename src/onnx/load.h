/* SPDX-License-Identifier: Apache-2.0 */
/* From bytes to graph: protobuf, external data, opsets lifted to the newest, functions inlined. */
#ifndef OPF_ONNX_LOAD_H
#define OPF_ONNX_LOAD_H

#include "base/limits.h"
#include "base/tally.h"
#include "graph/graph.h"

/* What is read; other versions are refused by name. */
enum { OPF_IR_OLDEST = 3, OPF_IR_NEWEST = 14, OPF_OPSET_OLDEST = 1, OPF_OPSET_NEWEST = 28 };

typedef struct opf_opset {
    const char *domain; /* "" is ONNX's own ("ai.onnx" too) */
    int64_t     version;
} opf_opset;

typedef struct opf_load_options {
    const opf_limits  *limits;
    opf_heap          *heap; /* for what does not fit the arena: external data that is read, decoded typed fields */
    const char        *folder; /* of external data; NULL: there can be none */
    const char *const *overridable; /* before IR 4 */
    size_t             n_overridable;
    bool               freeze; /* from IR 4: inputs with initializers are constants */
    bool               no_mmap; /* also for external data files */
} opf_load_options;

/* What was loaded, besides the graph. */
typedef struct opf_loaded {
    const void      *bytes; /* the file */
    size_t           size;
    opf_graph       *graph;
    int64_t          ir_version;
    const opf_opset *opsets;
    uint32_t         n_opsets;
    const char      *producer;
    opf_tally        ops; /* nodes of the file by operator: after inlining, bodies included, Constant nodes not */
    /* Names of inputs with initializers that stayed overridable, with their defaults: same index as graph->inputs, NULL where none. */
    const opf_const *const *defaults;
    /* Before IR 4: names of graph inputs that became constants, so that feeding one can say so. */
    const char *const *constant_inputs;
    uint32_t           n_constant_inputs;
    /* Files mapped or read for external data; released by opf_loaded_fini. */
    struct opf_mapping *mappings;
    uint32_t            n_mappings;
} opf_loaded;

/* bytes must stay valid as long as the graph (weights are borrowed; mapped says whether they lie in a file mapping). Checks everything; errors are
   OPF_INVALID_MODEL, OPF_UNSUPPORTED (all unsupported operators at once, with node names), OPF_LIMIT or OPF_OUT_OF_MEMORY. */
opf_status opf_onnx_load(const void *bytes, size_t size, bool mapped, const opf_load_options *options, opf_arena *arena, opf_dims *dims,
                         opf_const_pool *consts, opf_loaded *loaded, opf_error *error);
void opf_loaded_fini(opf_loaded *loaded, opf_heap *heap);

/* A file mapped read-only (or read): used for models and external data. */
typedef struct opf_mapping {
    const void *data;
    size_t      size;
    bool        is_mapped;
    uint64_t    device, inode; /* of the file */
} opf_mapping;
opf_status opf_mapping_open(const char *path, bool no_mmap, int64_t limit, opf_heap *heap, opf_mapping *mapping, opf_error *error);
/* The path leads to the file that is mapped. */
bool opf_mapping_is_of(const opf_mapping *mapping, const char *path);
void opf_mapping_close(opf_mapping *mapping, opf_heap *heap);

/* A serialized TensorProto. data is owned by the heap unless it could be borrowed from bytes. */
opf_status opf_onnx_parse_tensor(const void *bytes, size_t size, opf_arena *arena, opf_const_pool *consts, const opf_const **tensor,
                                 const char **name, opf_error *error);

#endif
