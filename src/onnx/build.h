/* SPDX-License-Identifier: Apache-2.0 */
/* The steps between the file's plain structures and the graph. */
#ifndef OPF_ONNX_BUILD_H
#define OPF_ONNX_BUILD_H

#include "onnx/tensor.h"
#include "ops/op.h"

/* ---- opsets.c ---- */

/* IR version, opset imports of the model and its functions; of several imports of a domain the highest is kept. */
opf_status opf_wire_check_versions(wire_model *model, opf_error *error);
/* The opset that node's operator is of; 0: its domain is not imported. */
int64_t opf_wire_version(const wire_model *model, const wire_node *node);
bool opf_wire_is_constant(const wire_node *node);
/* Every operator of a node that is not dead is supported, or all that are not are listed. */
opf_status opf_wire_check_operators(const wire_model *model, opf_arena *arena, opf_error *error);

/* ---- liveness.c ---- */

/* After inlining: sets is_dead of every node, bodies of live nodes included. */
opf_status opf_wire_mark_dead(wire_model *model, opf_heap *heap, opf_error *error);

/* ---- build.c ---- */

/* A graph, and what lifting needs of each of its nodes (by id). */
typedef struct opf_built {
    opf_graph         *graph;
    int32_t           *versions; /* opset of the node */
    struct opf_built **bodies;   /* those of the node, side by side; NULL: none */
} opf_built;

typedef struct opf_builder {
    opf_tensor_reader  tensors;
    const wire_model  *model;
    opf_dims          *dims;
    opf_map            node_names; /* of the whole model: name to how often it was wanted */
    const opf_const  **defaults;   /* by index of the main graph's inputs */
    wire_strings       constant_inputs;
    opf_tally          ops; /* nodes of the file, by operator; Constant nodes do not count, nor bodies of dead nodes */
    opf_error         *error;
} opf_builder;

opf_status opf_build_model(opf_builder *builder, opf_built *built);

/* ---- attributes.c ---- */

/* The attributes of a node; those that are graphs get i = index and are listed in graphs (room for attrs.n). */
opf_status opf_build_attrs(opf_builder *builder, const wire_node *from, opf_node *node, const wire_attr **graphs, uint32_t *n_graphs);
/* The value of a Constant node. */
opf_status opf_build_constant(opf_builder *builder, const wire_node *node, const opf_const **constant);

/* ---- lift.c ---- */

/* Lifts every node to the newest form and checks it against the signature of its operator, bodies included. */
opf_status opf_lift_model(const opf_built *built, opf_error *error);

#endif
