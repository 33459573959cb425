/* SPDX-License-Identifier: Apache-2.0 */
/* Finding what a rule describes, from a start node, by backtracking; and why it was not found. */
#ifndef OPF_FUSE_MATCH_H
#define OPF_FUSE_MATCH_H

#include "fuse/functions.h"

enum { OPF_MATCH_NODES = 128 };

typedef enum opf_why {
    OPF_WHY_OPERATOR, /* node is not of operator a; or its input is not produced by one */
    OPF_WHY_READER,   /* no reader of the node's result is a */
    OPF_WHY_OPERAND,  /* another value than a, which a name stands for already */
    OPF_WHY_LITERAL,  /* a is x, must be b */
    OPF_WHY_CONSTANT, /* a must be b, is no constant */
    OPF_WHY_ATTR,     /* attribute a must be b */
    OPF_WHY_REASON    /* reason a is written already */
} opf_why;

/* The failure that came nearest, kept raw: it becomes text only when it is reported. */
typedef struct opf_near {
    bool any;
    opf_miss_code code;
    opf_why why;
    opf_node_id node;
    opf_value_id value; /* found */
    const char *a, *b;
    double x;
    const opf_rule_expr *literal; /* LITERAL and ATTR: what did not agree */
    uint32_t reached;             /* nodes that were bound, the one at fault included */
    uint32_t matched, of;
} opf_near;

typedef struct opf_match {
    opf_fuse_context *context;
    const opf_rule *rule;
    const opf_rule_block *block;
    opf_item *items;      /* by name */
    bool *bound;          /* by name */
    opf_node_id *node_of; /* by name: of a statement's target */
    uint32_t *trail;      /* names in the order in which they were bound */
    uint32_t n_trail;
    opf_node_id nodes[OPF_MATCH_NODES]; /* each once */
    uint32_t n_nodes, n_skipped;        /* skipped: Identity and its like among them */
    opf_node_id stays; /* the node of the name that the rule keeps, where others read it too */
    uint32_t steps;
    const opf_rule_expr *forgiven; /* a literal that may differ: how much else would match? */
    uint32_t most;                 /* nodes matched at once */
    opf_near near;
    bool failed; /* memory is out */
} opf_match;

/* Room for one rule's names, in the scratch arena. */
opf_status opf_match_init(opf_match *match, opf_fuse_context *context, const opf_rule *rule, opf_error *error);

/* Tries every block from this node. True: items, nodes and node_of describe the match, which is legal and fulfils
   where. False: near says what came nearest. */
bool opf_match_at(opf_match *match, opf_node_id start);

/* The reason as text, in the scratch arena. */
const char *opf_near_text(const opf_match *match, const opf_near *near);

/* The value behind Identity, Cast to the same type, and Dropout at inference. */
opf_value_id opf_match_resolve(const opf_graph *graph, opf_value_id value);
bool opf_match_is_no_op(const opf_graph *graph, opf_node_id node);
/* The same value, or small constants that agree in everything. */
bool opf_match_same_value(const opf_graph *graph, opf_value_id a, opf_value_id b);

/* rule_eval.c: the value of an expression; false: refused (*why), or match->failed. */
bool opf_rule_eval(opf_match *match, const opf_rule_expr *expr, opf_item *result, opf_refusal *why);

/* match_attrs.c: attributes and literals agree; names are bound. */
bool opf_match_attrs(opf_match *match, const opf_rule_expr *expr, opf_node_id node);
bool opf_match_literal(opf_match *match, const opf_rule_expr *expr, opf_value_id value, opf_node_id reader,
                       uint32_t input);
bool opf_match_bind(opf_match *match, uint32_t name, opf_item item);
/* Records a failure if it is nearer than the one that is kept; returns false. */
bool opf_match_fail(opf_match *match, opf_near near);

#endif
