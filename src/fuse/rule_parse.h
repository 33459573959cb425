/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rule language, parsed: docs/rules.md describes it. One expression type serves patterns (match) and computations
 * (where, let, rewrite); every expression keeps its place in the text for messages.
 */
#ifndef OPF_FUSE_RULE_PARSE_H
#define OPF_FUSE_RULE_PARSE_H

#include "ops/op.h"

typedef struct opf_rule_expr opf_rule_expr;
typedef struct opf_rule_function opf_rule_function; /* functions.h */

#define OPF_RULE_NO_NAME UINT32_MAX

typedef enum opf_rule_kind {
    OPF_RULE_NAME,
    OPF_RULE_NUMBER,
    OPF_RULE_TEXT,
    OPF_RULE_LIST,       /* of integers: an attribute's value */
    OPF_RULE_OPERATOR,   /* a node */
    OPF_RULE_FUNCTION,   /* arithmetic too */
    OPF_RULE_ALTERNATIVE /* of patterns */
} opf_rule_kind;

typedef struct opf_rule_place {
    uint32_t line, column; /* from 1 */
} opf_rule_place;

typedef struct opf_rule_attr {
    const char *name;
    opf_rule_expr *value; /* match: a name to bind, or a literal to demand */
    opf_rule_place place;
} opf_rule_attr;

struct opf_rule_expr {
    opf_rule_kind kind;
    opf_rule_place place;
    uint32_t name;                     /* NAME */
    bool optional;                     /* NAME: may be absent */
    double number;                     /* NUMBER */
    bool derived;                      /* another spelling of what was written; a NUMBER is then for floats only */
    const char *text;                  /* TEXT; the spelling of NUMBER, OPERATOR and FUNCTION */
    const int64_t *ints;               /* LIST */
    const opf_op *op;                  /* OPERATOR */
    const opf_rule_function *function; /* FUNCTION */
    opf_rule_expr **args;
    uint32_t n_args, args_capacity; /* ints of LIST, branches of ALTERNATIVE */
    opf_rule_attr *attrs;
    uint32_t n_attrs, attrs_capacity;
    uint32_t like; /* OPERATOR in rewrite: the name whose attributes are copied */
    bool starred;
    /* patterns, set by opf_rule_prepare */
    opf_rule_expr *parent; /* NULL: the statement */
    uint32_t position;     /* among the parent's args */
    uint32_t statement;
    bool any_attrs; /* attributes that are not listed may have any value: the rewrite copies them */
};

typedef struct opf_rule_statement {
    uint32_t *targets; /* names */
    uint32_t n_targets, targets_capacity;
    opf_rule_expr *value;
    opf_rule_place place;
} opf_rule_statement;

/* One spelling of what a rule finds. */
typedef struct opf_rule_block {
    opf_rule_statement *statements;
    uint32_t n_statements, statements_capacity;
    uint32_t *definition; /* by name: the statement that has it as a target, or OPF_RULE_NO_NAME */
    opf_rule_expr **starts;
    uint32_t n_starts, starts_capacity;
    uint32_t n_nodes; /* of the smallest choice of alternatives */
    opf_rule_place place;
} opf_rule_block;

typedef struct opf_rule {
    const char *name, *family, *file;
    const struct opf_builtin_rule *unread; /* not NULL: a rule of the library that no graph has called for, all but the names empty */
    uint32_t keeps; /* a name: the node that makes it stays where others read it too; OPF_RULE_NO_NAME: there is none */
    const char **names;
    uint32_t n_names, names_capacity;
    opf_rule_block *blocks;
    uint32_t n_blocks, blocks_capacity;
    opf_rule_expr **where;
    uint32_t n_where, where_capacity;
    opf_rule_statement *lets;
    uint32_t n_lets, lets_capacity;
    opf_rule_statement *rewrites;
    uint32_t n_rewrites, rewrites_capacity;
    opf_rule_place place;
} opf_rule;

typedef struct opf_rules {
    opf_rule *list;
    uint32_t n, capacity;
} opf_rules;

/* Appends the rules of a text; checked and prepared. Errors (OPF_INVALID_ARGUMENT) read "file:line:column: …". */
opf_status opf_rules_parse(const char *text, const char *file, opf_arena *arena, opf_rules *rules, opf_error *error);

/* The two halves of what follows parsing. check: names, operators, functions, alternatives. prepare: other spellings of
   arithmetic become alternatives, parents and starts are set. */
opf_status opf_rule_check(opf_rule *rule, opf_arena *arena, opf_error *error);
opf_status opf_rule_prepare(opf_rule *rule, opf_arena *arena, opf_error *error);

/* An error at a place of the rule's file. */
#define opf_rule_fail(rule, place, error, format, ...)                                                                 \
    opf_fail((error), OPF_INVALID_ARGUMENT, "%s:%u:%u: " format, (rule)->file, (place).line, (place).column,           \
             __VA_ARGS__)

/* Patterns that cannot differ in what they match. */
bool opf_rule_same(const opf_rule_expr *a, const opf_rule_expr *b);

#endif
