/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file as plain structures: what protobuf says, before anything is checked against ONNX. Strings are copied (they need
 * a final zero), payloads of tensors are borrowed from the file where their wire form is their memory form.
 */
#ifndef OPF_ONNX_WIRE_H
#define OPF_ONNX_WIRE_H

#include "base/limits.h"
#include "base/memory.h"

/* A growing list in the arena. */
#define WIRE_LIST(type)                                                                                                \
    struct {                                                                                                           \
        type    *list;                                                                                                 \
        uint32_t n, capacity;                                                                                          \
    }

typedef WIRE_LIST(const char *) wire_strings;
typedef WIRE_LIST(int64_t) wire_ints;
typedef WIRE_LIST(float) wire_floats;
typedef WIRE_LIST(double) wire_doubles;

typedef struct wire_text { /* may hold zero bytes; one more follows */
    const char *data;
    size_t      size;
} wire_text;

typedef struct wire_opset {
    const char *domain;
    int64_t     version;
} wire_opset;
typedef WIRE_LIST(wire_opset) wire_opsets;

typedef struct wire_entry {
    const char *key, *value;
} wire_entry;

typedef struct wire_tensor {
    const char *name; /* never NULL, as all strings here */
    wire_ints   dims;
    int32_t     type;
    bool        has_segment, has_strings, has_raw;
    int32_t     location; /* 1: external */
    const void *raw;
    size_t      raw_bytes;
    /* Packed floats and doubles are borrowed: data at unaligned addresses. */
    const void  *packed_floats, *packed_doubles;
    size_t       n_packed_floats, n_packed_doubles;
    wire_floats  floats;
    wire_doubles doubles;
    wire_ints    int32s, int64s, uint64s;
    WIRE_LIST(wire_entry) external;
    const struct wire_sparse *sparse; /* NULL: dense. Else this holds the values that are not zero */
} wire_tensor;

/* Where the values of a sparse tensor stand: indices [n], row-major, or [n, rank]. */
typedef struct wire_sparse {
    const wire_tensor *values, *indices; /* NULL: missing */
    wire_ints          dims;
} wire_sparse;

typedef struct wire_dim {
    bool        has_value;
    int64_t     value;
    const char *symbol;
} wire_dim;

typedef struct wire_value {
    const char *name;
    const char *other_kind; /* "sequence", "map", …: no tensor; else NULL */
    bool        has_tensor, has_shape;
    int32_t     type;
    WIRE_LIST(wire_dim) dims;
} wire_value;

typedef struct wire_graph wire_graph;

/* Numbers of AttributeProto.type. */
enum {
    WIRE_FLOAT   = 1,
    WIRE_INT     = 2,
    WIRE_STRING  = 3,
    WIRE_TENSOR  = 4,
    WIRE_GRAPH   = 5,
    WIRE_FLOATS  = 6,
    WIRE_INTS    = 7,
    WIRE_STRINGS = 8
};

typedef struct wire_attr {
    const char        *name, *ref;
    int32_t            type;
    float              f;
    int64_t            i;
    wire_text          s;
    const wire_tensor *t;
    wire_graph        *g;
    wire_floats        floats;
    wire_ints          ints;
    WIRE_LIST(wire_text) strings;
} wire_attr;
typedef WIRE_LIST(wire_attr) wire_attrs;

typedef struct wire_node {
    const char        *name, *op_type, *domain, *overload;
    wire_strings       inputs, outputs;
    wire_attrs         attrs;
    const wire_opsets *opsets;  /* that its operators are of */
    bool               is_dead; /* liveness.c: no output of the model needs it */
} wire_node;
typedef WIRE_LIST(wire_node) wire_nodes;

struct wire_graph {
    const char *name;
    wire_nodes  nodes;
    WIRE_LIST(wire_tensor) initializers;
    WIRE_LIST(wire_value) inputs;
    WIRE_LIST(wire_value) outputs;
};

typedef struct wire_function {
    const char  *name, *domain, *overload;
    wire_strings inputs, outputs;
    wire_attrs   defaults; /* attributes with a default value */
    wire_nodes   nodes;
    wire_opsets  opsets;
} wire_function;

typedef struct wire_model {
    int64_t     ir_version;
    const char *producer;
    wire_graph *graph;
    wire_opsets opsets;
    WIRE_LIST(wire_function) functions;
} wire_model;

/* "ai.onnx" is "". OPF_INVALID_MODEL, OPF_LIMIT (nodes, depth) or OPF_OUT_OF_MEMORY. */
opf_status opf_wire_model(const void *bytes, size_t size, const opf_limits *limits, opf_arena *arena, wire_model *model, opf_error *error);
opf_status opf_wire_tensor(const void *bytes, size_t size, opf_arena *arena, wire_tensor *tensor, opf_error *error);

#endif
