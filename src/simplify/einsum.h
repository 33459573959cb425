/* SPDX-License-Identifier: Apache-2.0 */
/* An Einsum of one operand, of two and of more: a file each writes it in other operators, or says why it cannot. */
#ifndef OPF_SIMPLIFY_EINSUM_H
#define OPF_SIMPLIFY_EINSUM_H

#include "ops/einsum.h"
#include "ops/op.h"
#include "simplify/simplify.h"

/* What is to be done with one Einsum. */
typedef struct opf_einsum_task {
    opf_graph *graph;
    opf_node_id id;
    opf_type type; /* of operands and result */
    opf_einsum_equation equation;
    opf_einsum_obstacle obstacle; /* why it stays, if it does */
} opf_einsum_task;

/* `done` tells whether the node became others; else the obstacle says why not. `asks`: nothing is changed. */
opf_status opf_einsum_to_sum(opf_einsum_task *task, bool asks, bool *done, opf_error *error);
opf_status opf_einsum_to_product(opf_einsum_task *task, bool asks, bool *done, opf_error *error);
opf_status opf_einsum_to_chain(opf_einsum_task *task, bool asks, bool *done, opf_error *error);

/* Where the label stands in the term for the first time; -1: nowhere. */
int32_t opf_einsum_place(const opf_einsum_term *term, int32_t label);
bool opf_einsum_is_diagonal(const opf_einsum_term *term); /* a label stands twice */

/* The node becomes an Einsum of these operands. False: memory is out. */
bool opf_einsum_set(opf_graph *graph, opf_node_id id, const opf_value_id *operands, const opf_einsum_term *terms,
                    uint32_t n, const opf_einsum_term *out);

#endif
