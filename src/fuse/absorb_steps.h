/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Elementwise nodes that become steps of one node: what epilogues and regions share. A plan is grown from a host (an
 * anchor, or the first node of a region), nothing is changed by that; then it is applied group by group.
 *
 * A node may become a step when its result has the shape of the host's and a type that the host computes (step_types.c),
 * and none of the operands that it reads from outside depends on the host. Then the host can run after all of them, no broadcast enlarges anything, and each
 * element is computed once. A step that others read is stored as an extra output.
 */
#ifndef OPF_FUSE_ABSORB_STEPS_H
#define OPF_FUSE_ABSORB_STEPS_H

#include "fuse/legality.h"
#include "ops/op.h"

/* What a kernel program surely has room for. */
enum { OPF_MAX_STEPS = 16, OPF_MAX_STEP_OPERANDS = 12 };

typedef struct opf_step_plan {
    opf_fuse_context *context;
    opf_node_id anchor; /* 0: a region that has no node yet */
    opf_node_id root;   /* what no outside operand may depend on: the anchor, or the region's first node */
    opf_value_id plain; /* what OPF_ARG_ANCHOR stands for; 0: the anchor has steps, so it is a value no more */
    opf_info result;    /* every step has this shape, and this type but for conversions */
    bool is_free;       /* no fast kernel computes it: steps may convert from and to the type */
    bool is_any;        /* a contraction like that: any step, of any float type */
    opf_node_id nodes[OPF_MAX_STEPS]; /* in the order of their steps */
    bool pulled[OPF_MAX_STEPS];       /* reads outside values only: taken along with its reader */
    uint32_t n;
    opf_node_id refused; /* the first elementwise reader that could not be taken, and why; 0: none */
    opf_refusal why;
} opf_step_plan;

/* A known elementwise operator of at most OPF_STEP_ARGS operands and one float result, still a node of its own. */
bool opf_steps_is_candidate(const opf_graph *graph, opf_node_id node);
/* An operator that takes an epilogue: contraction, normalisation, pooling, resizing, or a region. */
bool opf_steps_is_anchor(const opf_node *node);
/* A contraction makes the value, perhaps with elementwise nodes on it that nothing else reads: its epilogue takes a
 * reader. */
bool opf_steps_is_hosted(const opf_graph *graph, opf_value_id value);

/* A QuantizeLinear and the DequantizeLinear that alone reads it, with the same scale and zero point, float to float; an
   IsNaN and the Where that alone reads it, Where(IsNaN(x), a number, x): they are taken together. The other of the two,
   or 0. */
opf_node_id opf_steps_other_half(const opf_graph *graph, opf_node_id node);
/* It is the latter of two such nodes. */
bool opf_steps_is_second(const opf_graph *graph, opf_node_id node);
/* Kernels have an instruction for the operator, on floats. */
bool opf_steps_has_kernel(const opf_graph *graph, opf_node_id node);
/* A QuantizeLinear or DequantizeLinear that may be a step. */
bool opf_steps_is_conversion(const opf_graph *graph, opf_node_id node);
/* It makes levels that are stored: nothing may follow. */
bool opf_steps_is_last(const opf_graph *graph, opf_node_id node);
/* Sets is_free and is_any, from anchor and result. */
void opf_steps_begin(opf_step_plan *plan);
/* Whether there can be steps on a result of this type and rank. */
bool opf_steps_may_host(const opf_step_plan *plan);
/* The type in which a region that begins with the node computes. */
opf_type opf_steps_region_type(const opf_graph *graph, opf_node_id node);
/* The node's operands and result have types that the host computes, and a kernel; else plan->why. */
bool opf_steps_check_types(opf_step_plan *plan, opf_node_id node);

/* Appends an operand of steps: it becomes the node's last input. */
bool opf_steps_append_operand(opf_graph *graph, opf_node_id node, opf_value_id value);

/* Takes one node, with the operands that only it reads: false if that is not allowed (plan->why). */
bool opf_steps_take(opf_step_plan *plan, opf_node_id node);
/* Takes readers of what is inside until none is left that may be taken. */
void opf_steps_grow(opf_step_plan *plan);
/* The first use of plan->plain that is not by one of nodes[0..n); NULL: there is none. */
const opf_use *opf_steps_outside_use(const opf_step_plan *plan, uint32_t n);
/* Moves nodes[first..end) into the anchor; plain must have no use left but these. */
opf_status opf_steps_apply(opf_step_plan *plan, uint32_t first, uint32_t end, opf_error *error);

#endif
