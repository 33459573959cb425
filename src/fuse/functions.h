/* SPDX-License-Identifier: Apache-2.0 */
/* The table of C functions that rules call: conditions of where, values of let and rewrite. */
#ifndef OPF_FUSE_FUNCTIONS_H
#define OPF_FUSE_FUNCTIONS_H

#include "fuse/legality.h"
#include "fuse/rule_parse.h"

typedef enum opf_item_kind {
    OPF_ITEM_ABSENT = 0, /* an optional operand that is not there */
    OPF_ITEM_VALUE,      /* of the graph */
    OPF_ITEM_CONST,      /* computed, or a recipe */
    OPF_ITEM_NUMBER,
    OPF_ITEM_ATTR /* a text or a list */
} opf_item_kind;

/* What a name stands for, and what an expression gives. */
typedef struct opf_item {
    opf_item_kind kind;
    opf_value_id value;
    const opf_const *constant;
    double number;
    opf_attr attr;
} opf_item;

enum { OPF_FUNCTION_ARGS = 16 };

typedef struct opf_rule_call {
    opf_fuse_context *context;
    const opf_rule *rule;
    const opf_rule_expr *expr;
    const opf_item *args;
    uint32_t n_args;
    opf_item *result; /* of value functions */
    opf_refusal *why;
    bool *failed; /* set when memory is out */
} opf_rule_call;

struct opf_rule_function {
    const char *name;
    uint32_t least, most; /* arguments */
    bool is_condition;
    bool absent_is_fine;                     /* otherwise an absent argument is refused before the call */
    bool (*call)(const opf_rule_call *call); /* false: refused, call->why says so */
    const char *text;                        /* for the table of functions */
};

const opf_rule_function *
opf_rule_find_function(const char *name); /* NULL: there is none; "+" and its like are here too */
const opf_rule_function *opf_rule_all_functions(uint32_t *n);

/* What argument i is called in messages: its name in the rule, or its text. */
const char *opf_rule_arg_name(const opf_rule_call *call, uint32_t i);

/* A constant: computed, or of the graph; NULL otherwise. */
const opf_const *opf_item_constant(const opf_graph *graph, const opf_item *item);
/* A number, or a constant of one element. */
bool opf_item_number(const opf_graph *graph, const opf_item *item, double *x);

#endif
