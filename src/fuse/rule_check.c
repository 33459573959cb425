/* SPDX-License-Identifier: Apache-2.0 */
/* What a rule means, checked once when it is read, so that matching and rewriting need not doubt it. */
#include "fuse/functions.h"

#include <string.h>

/* One byte a name. */
typedef struct sets {
    bool *bound;    /* in some block */
    bool *always;   /* in every block, and never optional */
    bool *interior; /* a statement's target that rewrite does not produce */
    bool *lets;
} sets;

typedef struct checker {
    opf_rule *rule;
    opf_arena *arena;
    opf_error *error;
    sets sets;
} checker;

/* Attributes of an operator: they exist, and in a match stand for a name or a literal. */
static opf_status check_attrs(const checker *c, const opf_rule_expr *call, bool in_match)
{
    for (uint32_t i = 0; i < call->n_attrs; i++) {
        const opf_rule_attr *attr = &call->attrs[i];
        bool found = false;
        for (uint32_t k = 0; k < call->op->n_attrs; k++)
            found = found || strcmp(call->op->attrs[k].name, attr->name) == 0;
        if (!found)
            return opf_rule_fail(c->rule, attr->place, c->error, "%s has no attribute %s", call->text, attr->name);
        opf_rule_kind kind = attr->value->kind;
        if (in_match && kind != OPF_RULE_NAME && kind != OPF_RULE_NUMBER && kind != OPF_RULE_TEXT &&
            kind != OPF_RULE_LIST)
            return opf_rule_fail(c->rule, attr->value->place, c->error, "%s must be a name or a literal here",
                                 attr->name);
    }
    if (in_match && call->like != OPF_RULE_NO_NAME)
        return opf_rule_fail(c->rule, call->place, c->error, "like belongs into rewrite, not into %s", "match");
    return OPF_OK;
}

static opf_status check_arity(const checker *c, const opf_rule_expr *call)
{
    const opf_op *op = call->op;
    bool variadic = op->n_inputs > 0 && (op->inputs[op->n_inputs - 1].flags & OPF_VARIADIC) != 0;
    if (!variadic && call->n_args > op->n_inputs)
        return opf_rule_fail(c->rule, call->place, c->error, "%s takes at most %u operands", call->text, op->n_inputs);
    for (uint32_t i = call->n_args; i < op->n_inputs; i++)
        if ((op->inputs[i].flags & (OPF_OPTIONAL | OPF_VARIADIC)) == 0)
            return opf_rule_fail(c->rule, call->place, c->error, "%s needs operand %s", call->text, op->inputs[i].name);
    return OPF_OK;
}

/* Collects the names that a pattern binds. An alternative binds what each branch binds, and all must agree. */
static opf_status check_pattern(checker *c, const opf_rule_expr *expr, bool *binds)
{
    uint32_t n = c->rule->n_names;
    switch (expr->kind) {
    case OPF_RULE_NUMBER:
        return OPF_OK;
    case OPF_RULE_NAME:
        binds[expr->name] = true;
        return OPF_OK;
    case OPF_RULE_OPERATOR:
        OPF_TRY(check_attrs(c, expr, true));
        OPF_TRY(check_arity(c, expr));
        for (uint32_t i = 0; i < expr->n_attrs; i++)
            if (expr->attrs[i].value->kind == OPF_RULE_NAME)
                binds[expr->attrs[i].value->name] = true;
        for (uint32_t i = 0; i < expr->n_args; i++)
            OPF_TRY(check_pattern(c, expr->args[i], binds));
        return OPF_OK;
    case OPF_RULE_ALTERNATIVE: {
        bool *first = OPF_NEW(c->arena, bool, n);
        OPF_OOM_IF(c->error, first == NULL);
        OPF_TRY(check_pattern(c, expr->args[0], first));
        for (uint32_t i = 1; i < expr->n_args; i++) {
            bool *other = OPF_NEW(c->arena, bool, n);
            OPF_OOM_IF(c->error, other == NULL);
            OPF_TRY(check_pattern(c, expr->args[i], other));
            for (uint32_t k = 0; k < n; k++)
                if (first[k] != other[k])
                    return opf_rule_fail(c->rule, expr->args[i]->place, c->error,
                                         "alternatives must bind the same names: %s is in one only", c->rule->names[k]);
        }
        for (uint32_t k = 0; k < n; k++)
            binds[k] = binds[k] || first[k];
        return OPF_OK;
    }
    default:
        return opf_rule_fail(c->rule, expr->place, c->error,
                             "%s is no pattern: operators, names, numbers and alternatives are",
                             expr->text != NULL ? expr->text : "this");
    }
}

static void mark_optional(const opf_rule_expr *expr, bool *always)
{
    if (expr->kind == OPF_RULE_NAME && expr->optional)
        always[expr->name] = false;
    if (expr->kind == OPF_RULE_OPERATOR || expr->kind == OPF_RULE_ALTERNATIVE)
        for (uint32_t i = 0; i < expr->n_args; i++)
            mark_optional(expr->args[i], always);
}

static opf_status check_block(checker *c, opf_rule_block *block)
{
    uint32_t n = c->rule->n_names;
    bool *binds = OPF_NEW(c->arena, bool, n);
    block->definition = OPF_NEW(c->arena, uint32_t, n);
    OPF_OOM_IF(c->error, binds == NULL || block->definition == NULL);
    for (uint32_t k = 0; k < n; k++)
        block->definition[k] = OPF_RULE_NO_NAME;
    for (uint32_t s = 0; s < block->n_statements; s++) {
        opf_rule_statement *statement = &block->statements[s];
        for (uint32_t t = 0; t < statement->n_targets; t++) {
            uint32_t name = statement->targets[t];
            if (block->definition[name] != OPF_RULE_NO_NAME)
                return opf_rule_fail(c->rule, statement->place, c->error, "%s is defined twice", c->rule->names[name]);
            block->definition[name] = s;
            binds[name] = true;
        }
        OPF_TRY(check_pattern(c, statement->value, binds));
        if (statement->n_targets > 1 && statement->value->kind != OPF_RULE_OPERATOR)
            return opf_rule_fail(c->rule, statement->place, c->error, "several outputs need %s, not alternatives",
                                 "one operator");
    }
    for (uint32_t k = 0; k < n; k++) {
        c->sets.bound[k] = c->sets.bound[k] || binds[k];
        c->sets.always[k] = c->sets.always[k] && binds[k];
        c->sets.interior[k] = c->sets.interior[k] || block->definition[k] != OPF_RULE_NO_NAME;
    }
    for (uint32_t s = 0; s < block->n_statements; s++)
        mark_optional(block->statements[s].value, c->sets.always);
    return OPF_OK;
}

/* in_rewrite: operators may be called. */
static opf_status check_computation(checker *c, const opf_rule_expr *expr, bool in_rewrite)
{
    const char *text = expr->kind == OPF_RULE_NAME ? c->rule->names[expr->name] : expr->text;
    switch (expr->kind) {
    case OPF_RULE_NUMBER:
    case OPF_RULE_TEXT:
    case OPF_RULE_LIST:
        return OPF_OK;
    case OPF_RULE_NAME:
        if (!c->sets.bound[expr->name] && !c->sets.lets[expr->name])
            return opf_rule_fail(c->rule, expr->place, c->error, "%s is bound nowhere", text);
        return OPF_OK;
    case OPF_RULE_FUNCTION:
        if (expr->n_args < expr->function->least || expr->n_args > expr->function->most)
            return opf_rule_fail(c->rule, expr->place, c->error, "%s does not take %u arguments", text, expr->n_args);
        break;
    case OPF_RULE_OPERATOR:
        if (!in_rewrite)
            return opf_rule_fail(c->rule, expr->place, c->error, "the operator %s belongs into match or rewrite", text);
        OPF_TRY(check_attrs(c, expr, false));
        OPF_TRY(check_arity(c, expr));
        for (uint32_t i = 0; i < expr->n_attrs; i++)
            OPF_TRY(check_computation(c, expr->attrs[i].value, false));
        if (expr->like != OPF_RULE_NO_NAME && !(c->sets.always[expr->like] && c->sets.interior[expr->like]))
            return opf_rule_fail(c->rule, expr->place, c->error,
                                 "like needs the target of a match statement, %s is none", c->rule->names[expr->like]);
        break;
    case OPF_RULE_ALTERNATIVE:
        return opf_rule_fail(c->rule, expr->place, c->error, "alternatives belong into %s", "match");
    }
    for (uint32_t i = 0; i < expr->n_args; i++) {
        const opf_rule_expr *arg = expr->args[i];
        OPF_TRY(check_computation(c, arg, in_rewrite && expr->kind == OPF_RULE_OPERATOR));
        if (expr->kind == OPF_RULE_FUNCTION && arg->kind == OPF_RULE_FUNCTION && arg->function->is_condition)
            return opf_rule_fail(c->rule, arg->place, c->error, "%s is a condition, it gives no value", arg->text);
        if (expr->kind == OPF_RULE_OPERATOR && arg->kind == OPF_RULE_NAME && c->sets.interior[arg->name])
            return opf_rule_fail(c->rule, arg->place, c->error, "%s is matched away: the rewrite cannot read it",
                                 c->rule->names[arg->name]);
    }
    return OPF_OK;
}

static opf_status check_where(checker *c)
{
    for (uint32_t i = 0; i < c->rule->n_where; i++) {
        const opf_rule_expr *condition = c->rule->where[i];
        if (condition->kind != OPF_RULE_FUNCTION || !condition->function->is_condition)
            return opf_rule_fail(c->rule, condition->place, c->error, "where takes conditions, such as %s",
                                 "constant(W)");
        OPF_TRY(check_computation(c, condition, false));
    }
    return OPF_OK;
}

static opf_status check_lets(checker *c)
{
    for (uint32_t i = 0; i < c->rule->n_lets; i++) {
        const opf_rule_statement *let = &c->rule->lets[i];
        if (let->n_targets != 1 || c->sets.bound[let->targets[0]] || c->sets.lets[let->targets[0]])
            return opf_rule_fail(c->rule, let->place, c->error, "let %s: the name is taken",
                                 c->rule->names[let->targets[0]]);
        OPF_TRY(check_computation(c, let->value, false));
        c->sets.lets[let->targets[0]] = true;
    }
    return OPF_OK;
}

static opf_status check_rewrites(checker *c)
{
    for (uint32_t i = 0; i < c->rule->n_rewrites; i++) {
        const opf_rule_statement *rewrite = &c->rule->rewrites[i];
        for (uint32_t t = 0; t < rewrite->n_targets; t++) {
            uint32_t name = rewrite->targets[t];
            for (uint32_t b = 0; b < c->rule->n_blocks; b++)
                if (c->rule->blocks[b].definition[name] == OPF_RULE_NO_NAME)
                    return opf_rule_fail(c->rule, rewrite->place, c->error,
                                         "%s is not the target of a statement in every match", c->rule->names[name]);
            if (c->sets.lets[name])
                return opf_rule_fail(c->rule, rewrite->place, c->error, "%s is rewritten twice", c->rule->names[name]);
            c->sets.lets[name] = true;
        }
        if (rewrite->value->kind != OPF_RULE_OPERATOR)
            return opf_rule_fail(c->rule, rewrite->place, c->error, "a rewrite gives %s", "an operator");
        OPF_TRY(check_computation(c, rewrite->value, true));
    }
    return OPF_OK;
}

opf_status opf_rule_check(opf_rule *rule, opf_arena *arena, opf_error *error)
{
    checker c = {.rule = rule, .arena = arena, .error = error};
    bool **lists[] = {&c.sets.bound, &c.sets.always, &c.sets.interior, &c.sets.lets};
    for (uint32_t i = 0; i < OPF_COUNT(lists); i++) {
        *lists[i] = OPF_NEW(arena, bool, rule->n_names);
        OPF_OOM_IF(error, *lists[i] == NULL);
    }
    for (uint32_t k = 0; k < rule->n_names; k++)
        c.sets.always[k] = true;
    for (uint32_t b = 0; b < rule->n_blocks; b++)
        OPF_TRY(check_block(&c, &rule->blocks[b]));
    if (rule->keeps != OPF_RULE_NO_NAME && !(c.sets.always[rule->keeps] && c.sets.interior[rule->keeps]))
        return opf_rule_fail(rule, rule->place, error, "keeps needs the target of a match statement, %s is none",
                             rule->names[rule->keeps]);
    OPF_TRY(check_where(&c));
    OPF_TRY(check_lets(&c));
    return check_rewrites(&c);
}
