/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The graph: values and nodes are ids into arrays (so arrays may grow), id 0 is "none". Every edge is kept from both
 * ends: a node's inputs, a value's uses; only the functions below change edges. A dead node has op_type NULL and stays
 * in the array. All of it lives in one arena that graphs of one model share.
 */
#ifndef OPF_GRAPH_GRAPH_H
#define OPF_GRAPH_GRAPH_H

#include "base/map.h"
#include "base/memory.h"
#include "base/status.h"
#include "base/types.h"
#include "graph/constant.h"
#include "graph/dim.h"

typedef struct opf_op    opf_op; /* ops/op.h; opaque here */
typedef struct opf_graph opf_graph;
typedef uint32_t         opf_value_id;
typedef uint32_t         opf_node_id;

/* What is known of a value before it exists. */
typedef struct opf_info {
    opf_type type;     /* OPF_TYPE_NONE: unknown */
    int32_t  rank;     /* -1: unknown */
    opf_dim *dims;     /* rank of them */
    int32_t  n_values; /* elements of a small integer or boolean tensor whose elements are known or symbolic; -1: not such */
    opf_dim *values;
} opf_info;

enum { OPF_MAX_KNOWN_VALUES = 256 };

/* One use of a value: input `input` of a node; node 0: graph output number `input`. */
typedef struct opf_use {
    opf_node_id node;
    uint32_t    input;
} opf_use;

typedef struct opf_value {
    const char      *name; /* unique in its graph */
    opf_info         info;
    opf_node_id      producer; /* 0: graph input, constant, or none */
    uint32_t         producer_output;
    const opf_const *constant; /* NULL unless a constant */
    opf_use         *uses;
    uint32_t         n_uses, uses_capacity;
    bool             is_input;
} opf_value;

/* ---- attributes ---- */

typedef enum opf_attr_type {
    OPF_ATTR_NONE = 0,
    OPF_ATTR_INT,
    OPF_ATTR_FLOAT,
    OPF_ATTR_STRING,
    OPF_ATTR_INTS,
    OPF_ATTR_FLOATS,
    OPF_ATTR_STRINGS,
    OPF_ATTR_TENSOR,
    OPF_ATTR_GRAPH /* i is the index into node->bodies */
} opf_attr_type;

typedef struct opf_attr {
    const char    *name;
    opf_attr_type  type;
    int64_t        i;
    float          f;
    const char    *s; /* zero-terminated; n is its length (may hold zero bytes) */
    uint32_t       n; /* elements of the lists, bytes of s */
    const int64_t *ints;
    const float   *floats;
    const char *const *strings;
    const opf_const   *tensor;
} opf_attr;

/* ---- steps ---- */

typedef enum opf_arg_kind {
    OPF_ARG_NONE = 0, /* an absent optional operand */
    OPF_ARG_ANCHOR,   /* epilogue: the anchor's result; prologue: the anchor's input 0 as it comes */
    OPF_ARG_STEP,     /* the result of an earlier step of the same list */
    OPF_ARG_INPUT     /* input `index` of the node, broadcast to the anchor's shape */
} opf_arg_kind;

typedef struct opf_arg {
    opf_arg_kind kind;
    uint32_t     index;
} opf_arg;

enum { OPF_STEP_ARGS = 4 };

/* One elementwise operator of an epilogue, prologue or region, in SSA form. The last step is the result. */
typedef struct opf_step {
    const opf_op *op;
    const char   *op_type;
    opf_type      type; /* of the result; only conversions (Cast, QuantizeLinear, DequantizeLinear) change it */
    opf_attr     *attrs;
    uint32_t      n_attrs;
    opf_arg       args[OPF_STEP_ARGS];
    uint32_t      n_args;
    int32_t       output; /* node output that this step is stored to, -1: not stored. (The last step of an epilogue is
                             output 0 without saying so.) */
    const char   *name;   /* of the node it was */
} opf_step;

typedef struct opf_steps {
    opf_step *list;
    uint32_t  n, capacity;
} opf_steps;

/* ---- nodes ---- */

typedef struct opf_node {
    const opf_op *op;      /* NULL: the operator is unknown, or the node is dead */
    const char   *op_type; /* NULL: dead */
    const char   *domain;  /* "" is ONNX's own */
    const char   *name;    /* unique in the model: "Conv_0", "If_3/then_branch/Conv_7" */
    opf_attr     *attrs;
    uint32_t      n_attrs;
    /* inputs[0..n_own_inputs) are the operator's own (0: absent); then operands of steps; the last n_captures are values
       captured by bodies. */
    opf_value_id *inputs;
    uint32_t      n_inputs, n_own_inputs, n_captures;
    opf_value_id *outputs; /* [0..n_own_outputs) are the operator's own, then extra results stored by steps; 0: not wanted */
    uint32_t      n_outputs, n_own_outputs;
    opf_graph   **bodies;  /* every body takes its formal inputs, then all n_captures captures of the node, in order */
    uint32_t      n_bodies;
    opf_steps     prologue; /* applied to input 0 while it is read */
    opf_steps     epilogue; /* applied to output 0 before it is stored */
    const char  **origin;   /* names of the ONNX nodes it stands for */
    uint32_t      n_origin;
} opf_node;

struct opf_graph {
    opf_arena      *arena;
    opf_dims       *dims;   /* of the model */
    opf_const_pool *consts; /* of the model */
    const char     *name;
    opf_graph      *parent;     /* NULL: the main graph */
    opf_node_id     parent_node; /* that has this graph as a body */
    opf_node       *nodes;  /* [0] unused */
    uint32_t        n_nodes, nodes_capacity;
    opf_value      *values; /* [0] unused */
    uint32_t        n_values, values_capacity;
    opf_value_id   *inputs;
    uint32_t        n_inputs, inputs_capacity;
    opf_value_id   *outputs;
    uint32_t        n_outputs, outputs_capacity;
    opf_map         value_names, node_names; /* name to id; dead nodes stay in */
    uint32_t        fresh; /* counter of generated names */
};

/* ---- building ---- (every function that allocates fails with OPF_OUT_OF_MEMORY only) */

opf_graph *opf_graph_create(opf_arena *arena, opf_dims *dims, opf_const_pool *consts, const char *name);
/* A deep copy of the structure, bodies included; constants, attributes and strings are shared. Ids stay the same. */
opf_graph *opf_graph_clone(const opf_graph *graph, opf_arena *arena);

/* name NULL or taken: a fresh one is made from it. 0 when memory is out. */
opf_value_id opf_graph_add_value(opf_graph *graph, const char *name);
opf_value_id opf_graph_add_constant(opf_graph *graph, const char *name, const opf_const *constant);
opf_value_id opf_graph_find_value(const opf_graph *graph, const char *name); /* 0: none */
bool opf_graph_add_input(opf_graph *graph, opf_value_id value);
bool opf_graph_add_output(opf_graph *graph, opf_value_id value);

/* A node with copies of the id lists; outputs must have no producer yet. Its origin is empty, its attributes are none.
   Pointers to nodes and values die when one is added. */
opf_node_id opf_graph_add_node(opf_graph *graph, const opf_op *op, const char *op_type, const char *name, const opf_value_id *inputs,
                               uint32_t n_inputs, const opf_value_id *outputs, uint32_t n_outputs);
static inline opf_node *opf_graph_node(const opf_graph *graph, opf_node_id id)
{
    return &graph->nodes[id];
}
static inline opf_value *opf_graph_value(const opf_graph *graph, opf_value_id id)
{
    return &graph->values[id];
}
static inline bool opf_node_is_alive(const opf_node *node)
{
    return node->op_type != NULL;
}

bool opf_graph_set_input(opf_graph *graph, opf_node_id node, uint32_t input, opf_value_id value);
/* Appends an own input (only while there are no step operands or captures), a step operand or a capture. */
bool opf_graph_append_input(opf_graph *graph, opf_node_id node, opf_value_id value);
/* Replaces all own inputs; only while there are no step operands or captures. */
bool opf_graph_set_own_inputs(opf_graph *graph, opf_node_id node, const opf_value_id *values, uint32_t n);
bool opf_graph_append_output(opf_graph *graph, opf_node_id node, opf_value_id value);
/* Makes node the producer of value instead of whoever was; the old producer's output slot becomes 0. */
bool opf_graph_set_output(opf_graph *graph, opf_node_id node, uint32_t output, opf_value_id value);
/* Every use of `from`, graph outputs too, reads `to` instead. A graph output keeps its name: when from is an output, the
   names of the two values are exchanged, unless `to` is an input or an output itself (then false is returned and nothing changes). */
bool opf_graph_replace_uses(opf_graph *graph, opf_value_id from, opf_value_id to);
void opf_graph_remove_node(opf_graph *graph, opf_node_id node); /* its outputs lose their producer */

bool opf_graph_is_output(const opf_graph *graph, opf_value_id value);
/* The only use of value is by a node (not an output); the use, or NULL. */
const opf_use *opf_graph_single_use(const opf_graph *graph, opf_value_id value);

/* ---- attributes ---- */

const opf_attr *opf_node_attr(const opf_node *node, const char *name); /* NULL: not there */
const opf_attr *opf_attrs_find(const opf_attr *attrs, uint32_t n, const char *name);
int64_t opf_attrs_int(const opf_attr *attrs, uint32_t n, const char *name, int64_t otherwise);
int64_t opf_node_int(const opf_node *node, const char *name, int64_t otherwise);
float opf_node_float(const opf_node *node, const char *name, float otherwise);
const char *opf_node_string(const opf_node *node, const char *name, const char *otherwise);
/* Sets or replaces; the attribute's lists are borrowed. */
bool opf_node_set_attr(opf_graph *graph, opf_node_id node, opf_attr attr);
bool opf_node_set_int(opf_graph *graph, opf_node_id node, const char *name, int64_t value);
bool opf_node_set_float(opf_graph *graph, opf_node_id node, const char *name, float value);
bool opf_node_set_ints(opf_graph *graph, opf_node_id node, const char *name, const int64_t *values, uint32_t n); /* copies */
void opf_node_remove_attr(opf_node *node, const char *name);

/* ---- origin and order ---- */

bool opf_node_add_origin(opf_graph *graph, opf_node_id node, const char *name); /* once each */
bool opf_node_join_origin(opf_graph *graph, opf_node_id node, opf_node_id other); /* adds other's */

/* Live nodes in topological order, ties by id; n of them in *order (in arena). OPF_INVALID_MODEL names a node on a cycle. */
opf_status opf_graph_sort(const opf_graph *graph, opf_arena *arena, opf_node_id **order, uint32_t *n, opf_error *error);

/* Constant element tests used by rules: the value is a constant of one element; its number. */
bool opf_graph_scalar(const opf_graph *graph, opf_value_id value, double *x);

/* ---- infos ---- */

/* Element count of known dims; false if any dim is not a number, or the product overflows. */
bool opf_info_count(const opf_info *info, size_t *count);

/* A constant may be the value: its type and shape do not contradict what is known. */
bool opf_info_admits(const opf_info *info, const opf_const *constant);

#endif
