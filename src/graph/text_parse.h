/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the reader share: text_parse.c for graphs, text_node.c for nodes and steps, text_attr.c. */
#ifndef OPF_GRAPH_TEXT_PARSE_H
#define OPF_GRAPH_TEXT_PARSE_H

#include "graph/text.h"
#include "graph/text_scan.h"

/* A graph that is being read. A name from outside becomes a capture: a value here that stands for the outer one. */
typedef struct opf_text_scope {
    opf_graph             *graph;
    struct opf_text_scope *outer; /* NULL: the main graph */
    opf_value_id          *inner_ids, *outer_ids;
    uint32_t               n_inner, inner_capacity, n_outer, outer_capacity;
} opf_text_scope;

/* A node that is being read. Step operands come after own inputs, but prologues are read before: while reading, operand
   k has the index UINT32_MAX - k. */
typedef struct opf_text_draft {
    const char       *label, *op_type, *domain;
    const char      **outputs; /* NULL: not wanted */
    uint32_t         n_outputs, outputs_capacity, n_own_outputs;
    opf_value_id     *inputs;
    uint32_t         n_inputs, inputs_capacity, n_own_inputs;
    opf_value_id     *operands;
    uint32_t         n_operands, operands_capacity;
    opf_value_id     *captures;
    uint32_t         n_captures, captures_capacity;
    opf_attr         *attrs;
    uint32_t         n_attrs, attrs_capacity;
    opf_text_scope  **bodies;
    uint32_t         n_bodies, bodies_capacity;
    opf_steps        prologue, epilogue;
} opf_text_draft;

typedef struct opf_text_parser {
    opf_scan    scan;
    opf_find_op find;
} opf_text_parser;

#define OPF_TEXT_PUSH(p, array, n, capacity, item)                                                                     \
    OPF_OOM_IF((p)->scan.error, !OPF_PUSH((p)->scan.arena, array, n, capacity, item))

/* ---- text_parse.c ---- */

opf_status opf_text_parse_graph(opf_text_parser *p, opf_text_scope *s);
/* 0 in *id: no such value here or outside. */
opf_status opf_text_resolve(opf_text_parser *p, opf_text_scope *s, const char *name, opf_value_id *id);
/* A new value; start: where a failure is reported. */
opf_status opf_text_define(opf_text_parser *p, opf_text_scope *s, const char *name, const char *start,
                           opf_value_id *id);
opf_status opf_text_define_constant(opf_text_parser *p, opf_text_scope *s, const char *name, const char *start,
                                    const opf_const *constant);

/* ---- text_node.c ---- */

opf_status opf_text_parse_node(opf_text_parser *p, opf_text_scope *s);

/* ---- text_attr.c ---- */

/* <a = 1, b = [1, 2]>, if it is there. draft: receives graphs, NULL where there can be none. */
opf_status opf_text_parse_attrs(opf_text_parser *p, opf_text_scope *s, opf_text_draft *d, opf_attr **attrs, uint32_t *n,
                                uint32_t *capacity);

#endif
