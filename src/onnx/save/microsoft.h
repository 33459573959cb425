/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operators of ONNX Runtime's own domain com.microsoft, in the place of standard nodes that they do the work of. Each
 * function looks at one node of the newest form and exchanges it, with its neighbours, if that is exact and its CPU
 * provider has the operator.
 */
#ifndef OPF_ONNX_SAVE_MICROSOFT_H
#define OPF_ONNX_SAVE_MICROSOFT_H

#include "ops/op.h"

/* Exchanges what it can, in bodies too. all: also for operators that the CPU provider is slower with than with the
   nodes that they stand for. OPF_OUT_OF_MEMORY or OPF_OK. */
opf_status opf_save_to_microsoft(opf_graph *graph, bool all, opf_error *error);

/* ---- for the exchanges ---- */

typedef struct opf_microsoft {
    opf_graph *graph;
    bool all;
    opf_value_id mask, bias; /* the mask that was last made a bias of scores: layers share it */
    opf_dim rows;            /* of the bias */
    bool failed;             /* memory is out */
} opf_microsoft;

/* The nodes of operator op that make the value, or that alone read it; 0: others do. */
opf_node_id opf_microsoft_maker(const opf_microsoft *m, opf_value_id value, const opf_op *op);
opf_node_id opf_microsoft_reader(const opf_microsoft *m, opf_value_id value, const opf_op *op);
bool opf_microsoft_is_single(const opf_microsoft *m,
                             opf_value_id value); /* one node reads it, and the caller does not */
static inline opf_value_id opf_microsoft_in(const opf_microsoft *m, opf_node_id id, uint32_t i)
{
    const opf_node *node = opf_graph_node(m->graph, id);
    return i < node->n_own_inputs ? node->inputs[i] : 0;
}
static inline const opf_info *opf_microsoft_info(const opf_microsoft *m, opf_value_id value)
{
    return &opf_graph_value(m->graph, value)->info;
}
bool opf_microsoft_is_float(const opf_microsoft *m, opf_value_id value);               /* what the kernels compute in */
bool opf_microsoft_same_shape(const opf_microsoft *m, opf_value_id a, opf_value_id b); /* proven */
/* A constant [n] where n is the last dimension of x. */
bool opf_microsoft_is_vector(const opf_microsoft *m, opf_value_id value, opf_value_id x);

/* A new standard node before what is exchanged; its result is inferred. 0: memory is out. */
opf_value_id opf_microsoft_apply(opf_microsoft *m, const char *name, const opf_op *op, const opf_value_id *inputs,
                                 uint32_t n, const opf_attr *attrs, uint32_t n_attrs);
opf_value_id opf_microsoft_ints(opf_microsoft *m, const char *name, const int64_t *ints, uint32_t n);

typedef struct opf_exchange {
    const char *op_type;
    const opf_value_id *inputs;
    uint32_t n_inputs;
    const opf_attr *attrs; /* those of type NONE are left out */
    uint32_t n_attrs;
    const opf_value_id *outputs;
    uint32_t n_outputs;
    const opf_node_id *nodes; /* that go; the new one is called as the last of them is */
    uint32_t n_nodes;
} opf_exchange;
void opf_microsoft_exchange(opf_microsoft *m, const opf_exchange *exchange);

#define OPF_MICROSOFT(op, function) void opf_microsoft_##function(opf_microsoft *m, opf_node_id node);
#include "onnx/save/microsoft.def"
#undef OPF_MICROSOFT

#endif
