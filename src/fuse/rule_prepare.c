/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Canonical forms, turned round: the graph is not changed. A pattern that has other spellings (a division by a constant
 * is a multiplication, a square is a product) becomes an alternative of them all when the rule is read, so that
 * matching knows one thing only: this operator, or these alternatives.
 */
#include "fuse/rule_parse.h"

#include <math.h>
#include <string.h>

typedef struct preparer {
    opf_rule *rule;
    opf_arena *arena;
    bool failed; /* memory is out */
} preparer;

enum { MAX_COPIES = 4096 };

bool opf_rule_same(const opf_rule_expr *a, const opf_rule_expr *b)
{
    if (a->kind != b->kind || a->n_args != b->n_args || a->n_attrs != b->n_attrs)
        return false;
    switch (a->kind) {
    case OPF_RULE_NAME:
        return a->name == b->name;
    case OPF_RULE_NUMBER:
        return a->number == b->number; /* NOLINT: literals */
    case OPF_RULE_OPERATOR:
        if (a->op != b->op)
            return false;
        break;
    case OPF_RULE_ALTERNATIVE:
        break;
    default:
        return false;
    }
    for (uint32_t i = 0; i < a->n_attrs; i++)
        if (strcmp(a->attrs[i].name, b->attrs[i].name) != 0 || !opf_rule_same(a->attrs[i].value, b->attrs[i].value))
            return false;
    for (uint32_t i = 0; i < a->n_args; i++)
        if (!opf_rule_same(a->args[i], b->args[i]))
            return false;
    return true;
}

/* ---- making patterns; NULL when memory is out, and NULL arguments give NULL ---- */

static opf_rule_expr *make(preparer *p, const opf_rule_expr *like, opf_rule_kind kind)
{
    opf_rule_expr *expr = OPF_NEW(p->arena, opf_rule_expr, 1);
    if (expr == NULL) {
        p->failed = true;
        return NULL;
    }
    *expr = (opf_rule_expr){.kind = kind, .place = like->place, .name = OPF_RULE_NO_NAME, .like = OPF_RULE_NO_NAME};
    return expr;
}

static opf_rule_expr *add(preparer *p, opf_rule_expr *expr, opf_rule_expr *arg)
{
    if (expr == NULL || arg == NULL || !OPF_PUSH(p->arena, expr->args, expr->n_args, expr->args_capacity, arg)) {
        p->failed = true;
        return NULL;
    }
    return expr;
}

static opf_rule_expr *number(preparer *p, const opf_rule_expr *like, double x)
{
    opf_rule_expr *expr = make(p, like, OPF_RULE_NUMBER);
    if (expr == NULL)
        return NULL;
    expr->number = x;
    expr->derived = true;
    expr->text = opf_arena_printf(p->arena, "%.9g", x);
    p->failed = p->failed || expr->text == NULL;
    return expr;
}

static opf_rule_expr *call(preparer *p, const opf_rule_expr *like, const opf_op *op, opf_rule_expr *a, opf_rule_expr *b)
{
    opf_rule_expr *expr = make(p, like, OPF_RULE_OPERATOR);
    if (expr == NULL)
        return NULL;
    expr->op = op;
    expr->text = op->name;
    expr->starred = like->starred;
    expr->derived = true;
    expr = add(p, expr, a);
    return b == NULL ? expr : add(p, expr, b);
}

/* Trees, so that each pattern has one parent. */
static opf_rule_expr *copy(preparer *p, const opf_rule_expr *expr)
{
    opf_rule_expr *result = make(p, expr, expr->kind);
    if (result == NULL)
        return NULL;
    *result = *expr;
    result->args = NULL;
    result->args_capacity = 0;
    if (expr->kind == OPF_RULE_LIST)
        return result;
    result->n_args = 0;
    for (uint32_t i = 0; i < expr->n_args; i++)
        if (add(p, result, copy(p, expr->args[i])) == NULL)
            return NULL;
    return result;
}

/* ---- spellings ---- */

static bool is_number(const opf_rule_expr *expr, double x)
{
    return expr->kind == OPF_RULE_NUMBER && fabs(expr->number - x) <= 1e-9 * fabs(x);
}

static bool is_literal(const opf_rule_expr *expr)
{
    return expr->kind == OPF_RULE_NUMBER && expr->number != 0 && isfinite(expr->number);
}

/* Adds the spellings of 1/q to list; q is the pattern as it was written. */
static void add_reciprocals(preparer *p, opf_rule_expr *list, const opf_rule_expr *like, const opf_rule_expr *q)
{
    opf_rule_expr *one = number(p, like, 1);
    add(p, list, call(p, like, &opf_op_Reciprocal, copy(p, q), NULL));
    add(p, list, call(p, like, &opf_op_Div, one, copy(p, q)));
    if (q->kind == OPF_RULE_OPERATOR && q->op == &opf_op_Sqrt)
        add(p, list, call(p, like, &opf_op_Pow, copy(p, q->args[0]), number(p, like, -0.5)));
    else
        add(p, list, call(p, like, &opf_op_Pow, copy(p, q), number(p, like, -1)));
}

static void add_spellings(preparer *p, opf_rule_expr *list, const opf_rule_expr *e)
{
    const opf_rule_expr *a = e->args[0], *b = e->n_args > 1 ? e->args[1] : NULL;
    if (e->op == &opf_op_Pow && is_number(b, 2)) {
        add(p, list, call(p, e, &opf_op_Mul, copy(p, a), copy(p, a)));
    } else if (e->op == &opf_op_Mul && opf_rule_same(a, b)) {
        add(p, list, call(p, e, &opf_op_Pow, copy(p, a), number(p, e, 2)));
    } else if (e->op == &opf_op_Mul && (is_literal(a) || is_literal(b))) {
        const opf_rule_expr *factor = is_literal(b) ? b : a;
        add(p, list, call(p, e, &opf_op_Div, copy(p, factor == b ? a : b), number(p, e, 1 / factor->number)));
    } else if (e->op == &opf_op_Div && is_literal(b)) {
        add(p, list, call(p, e, &opf_op_Mul, copy(p, a), number(p, e, 1 / b->number)));
    } else if (e->op == &opf_op_Div && is_number(a, 1)) {
        add_reciprocals(p, list, e, b);
    } else if (e->op == &opf_op_Div) {
        opf_rule_expr *inverse = make(p, e, OPF_RULE_ALTERNATIVE);
        if (inverse != NULL)
            add_reciprocals(p, inverse, b, b);
        add(p, list, call(p, e, &opf_op_Mul, copy(p, a), inverse));
    } else if (e->op == &opf_op_Reciprocal) {
        add_reciprocals(p, list, e, a);
    } else if (e->op == &opf_op_Sqrt) {
        add(p, list, call(p, e, &opf_op_Pow, copy(p, a), number(p, e, 0.5)));
    } else if (e->op == &opf_op_Add && (is_literal(a) || is_literal(b))) {
        const opf_rule_expr *term = is_literal(b) ? b : a;
        add(p, list, call(p, e, &opf_op_Sub, copy(p, term == b ? a : b), number(p, e, -term->number)));
    } else if (e->op == &opf_op_Sub && is_literal(b)) {
        add(p, list, call(p, e, &opf_op_Add, copy(p, a), number(p, e, -b->number)));
    }
}

/* Operands are spelled out after their operator, so that what is written decides: Reciprocal(Sqrt(v)) is seen whole.
   What a spelling brought in has no further ones, or they would go in circles. */
static opf_rule_expr *spell(preparer *p, opf_rule_expr *expr)
{
    if (p->failed || (expr->kind != OPF_RULE_OPERATOR && expr->kind != OPF_RULE_ALTERNATIVE))
        return expr;
    if (expr->kind == OPF_RULE_OPERATOR && !expr->derived && expr->n_args > 0) {
        opf_rule_expr *list = make(p, expr, OPF_RULE_ALTERNATIVE);
        expr->derived = true;
        if (add(p, list, expr) == NULL)
            return expr;
        add_spellings(p, list, expr);
        if (list->n_args > 1)
            expr = list;
    }
    for (uint32_t i = 0; i < expr->n_args; i++)
        expr->args[i] = spell(p, expr->args[i]);
    return expr;
}

/* ---- starts and sizes ---- */

/* Rare operators make good starts: an attempt is made from each node that has one. */
static uint32_t rarity(const opf_rule_expr *expr)
{
    static const struct {
        const opf_op *op;
        uint32_t rarity;
    } table[] = {
        {&opf_op_Erf, 90},      {&opf_op_BatchNormalization, 90},
        {&opf_op_RotaryEmbedding, 90},
        {&opf_op_Softplus, 80}, {&opf_op_HardSigmoid, 80},
        {&opf_op_Tanh, 70},     {&opf_op_Sigmoid, 70},
        {&opf_op_Softmax, 70},  {&opf_op_Pow, 60},
        {&opf_op_Exp, 60},      {&opf_op_Log, 60},
        {&opf_op_Clip, 50},     {&opf_op_ReduceMean, 50},
        {&opf_op_Sqrt, 50},     {&opf_op_Reciprocal, 50},
        {&opf_op_Conv, 20},     {&opf_op_MatMul, 20},
        {&opf_op_Div, 15},      {&opf_op_Sub, 15},
        {&opf_op_Mul, 10},      {&opf_op_Add, 10},
    };
    if (expr->starred)
        return 1000;
    for (uint32_t i = 0; i < OPF_COUNT(table); i++)
        if (table[i].op == expr->op)
            return table[i].rarity;
    return 40;
}

static uint32_t best_rarity(const opf_rule_expr *expr)
{
    if (expr->kind != OPF_RULE_OPERATOR && expr->kind != OPF_RULE_ALTERNATIVE)
        return 0;
    uint32_t best = expr->kind == OPF_RULE_OPERATOR ? rarity(expr) : UINT32_MAX;
    for (uint32_t i = 0; i < expr->n_args; i++) {
        uint32_t other = best_rarity(expr->args[i]);
        if (expr->kind == OPF_RULE_OPERATOR ? other > best : other < best)
            best = other;
    }
    return best;
}

/* Every branch of an alternative has a start of its own. */
static bool collect_starts(preparer *p, opf_rule_block *block, opf_rule_expr *expr)
{
    uint32_t best = best_rarity(expr);
    if (expr->kind == OPF_RULE_OPERATOR && rarity(expr) == best)
        return OPF_PUSH(p->arena, block->starts, block->n_starts, block->starts_capacity, expr);
    for (uint32_t i = 0; i < expr->n_args; i++) {
        if (expr->kind == OPF_RULE_OPERATOR && best_rarity(expr->args[i]) != best)
            continue;
        if (!collect_starts(p, block, expr->args[i]))
            return false;
        if (expr->kind == OPF_RULE_OPERATOR)
            return true;
    }
    return true;
}

typedef struct patterns {
    const opf_rule_expr **list;
    uint32_t n, capacity;
} patterns;

/* Nodes of the first branch of every alternative, which is the one that was written; the same pattern twice is one
 * node. */
static void count_nodes(preparer *p, const opf_rule_expr *expr, patterns *seen)
{
    if (expr->kind == OPF_RULE_ALTERNATIVE) {
        count_nodes(p, expr->args[0], seen);
        return;
    }
    if (expr->kind != OPF_RULE_OPERATOR)
        return;
    for (uint32_t i = 0; i < expr->n_args; i++)
        count_nodes(p, expr->args[i], seen);
    for (uint32_t i = 0; i < seen->n; i++)
        if (opf_rule_same(seen->list[i], expr))
            return;
    if (!OPF_PUSH(p->arena, seen->list, seen->n, seen->capacity, expr))
        p->failed = true;
}

/* Returns the size of the tree. */
static uint32_t set_parents(opf_rule_expr *expr, opf_rule_expr *parent, uint32_t position, uint32_t statement,
                            bool any_attrs)
{
    expr->parent = parent;
    expr->position = position;
    expr->statement = statement;
    expr->any_attrs = any_attrs;
    uint32_t n = 1;
    if (expr->kind == OPF_RULE_OPERATOR || expr->kind == OPF_RULE_ALTERNATIVE)
        for (uint32_t i = 0; i < expr->n_args; i++)
            n += set_parents(expr->args[i], expr, i, statement, any_attrs && expr->kind == OPF_RULE_ALTERNATIVE);
    return n;
}

static bool is_liked(const opf_rule_expr *expr, uint32_t name)
{
    if (expr->kind != OPF_RULE_OPERATOR)
        return false;
    for (uint32_t i = 0; i < expr->n_args; i++)
        if (is_liked(expr->args[i], name))
            return true;
    return expr->like == name;
}

static opf_status prepare_block(preparer *p, opf_rule_block *block, opf_error *error)
{
    opf_rule *rule = p->rule;
    uint32_t best = 0, size = 0;
    patterns seen = {0};
    for (uint32_t s = 0; s < block->n_statements; s++) {
        opf_rule_statement *statement = &block->statements[s];
        statement->value = spell(p, statement->value);
        OPF_OOM_IF(error, p->failed);
        bool any_attrs = false;
        for (uint32_t r = 0; r < rule->n_rewrites; r++)
            any_attrs = any_attrs || is_liked(rule->rewrites[r].value, statement->targets[0]);
        size += set_parents(statement->value, NULL, 0, s, any_attrs);
        count_nodes(p, statement->value, &seen);
        uint32_t other = best_rarity(statement->value);
        best = other > best ? other : best;
    }
    block->n_nodes = seen.n;
    if (size > MAX_COPIES)
        return opf_rule_fail(rule, block->place, error, "the match has more than %d spellings", MAX_COPIES);
    for (uint32_t s = 0; s < block->n_statements && block->n_starts == 0; s++)
        if (best_rarity(block->statements[s].value) == best)
            OPF_OOM_IF(error, !collect_starts(p, block, block->statements[s].value));
    OPF_OOM_IF(error, p->failed);
    if (block->n_starts == 0)
        return opf_rule_fail(rule, block->place, error, "the match has no %s", "operator");
    return OPF_OK;
}

opf_status opf_rule_prepare(opf_rule *rule, opf_arena *arena, opf_error *error)
{
    preparer p = {.rule = rule, .arena = arena};
    for (uint32_t b = 0; b < rule->n_blocks; b++)
        OPF_TRY(prepare_block(&p, &rule->blocks[b], error));
    return OPF_OK;
}
