/* SPDX-License-Identifier: Apache-2.0 */
/* Recursive descent over the text. Names become numbers here; meaning is checked in rule_check.c. */
#include "fuse/rule_parse.h"

#include "fuse/functions.h"
#include "fuse/rule_scan.h"

#include <stdlib.h>
#include <string.h>

typedef struct parser {
    opf_rule_scan scan;
    bool in_match;
    uint32_t depth;
    opf_rule *rule;
    opf_arena *arena;
} parser;

enum { MAX_DEPTH = 40, MAX_SIZE = 1 << 20 };

#define FAIL(p, place, ...) opf_rule_scan_fail(&(p)->scan, (place), __VA_ARGS__)

static opf_status take(parser *p)
{
    return opf_rule_take(&p->scan, false);
}
static opf_status expect(parser *p, char c)
{
    return opf_rule_expect(&p->scan, c);
}
static bool is_punct(const parser *p, char c)
{
    return opf_rule_is_punct(&p->scan, c);
}
static bool is_word(const parser *p, const char *word)
{
    return opf_rule_is_word(&p->scan, word);
}
static bool is_section(const parser *p)
{
    return opf_rule_is_section(&p->scan);
}

static const char *token_text(parser *p)
{
    return opf_arena_copy_string(p->arena, p->scan.token.start, p->scan.token.length);
}

/* The number of the name at the token; names of one rule share one space. */
static opf_status take_name(parser *p, uint32_t *name)
{
    if (p->scan.token.kind != OPF_TOKEN_NAME || is_section(p))
        return FAIL(p, p->scan.token.place, "expected a name, found '%.*s'", (int)p->scan.token.length,
                    p->scan.token.start);
    opf_rule *rule = p->rule;
    for (*name = 0; *name < rule->n_names; (*name)++)
        if (strlen(rule->names[*name]) == p->scan.token.length &&
            memcmp(rule->names[*name], p->scan.token.start, p->scan.token.length) == 0)
            return take(p);
    const char *text = token_text(p);
    OPF_OOM_IF(p->scan.error,
               text == NULL || !OPF_PUSH(p->arena, rule->names, rule->n_names, rule->names_capacity, text));
    return take(p);
}

/* ---- expressions ---- */

static opf_status parse_expr(parser *p, opf_rule_expr **result);

static opf_status new_expr(parser *p, opf_rule_kind kind, opf_rule_place place, opf_rule_expr **result)
{
    *result = OPF_NEW(p->arena, opf_rule_expr, 1);
    OPF_OOM_IF(p->scan.error, *result == NULL);
    **result = (opf_rule_expr){.kind = kind, .place = place, .name = OPF_RULE_NO_NAME, .like = OPF_RULE_NO_NAME};
    return OPF_OK;
}

static opf_status add_arg(parser *p, opf_rule_expr *expr, opf_rule_expr *arg)
{
    OPF_OOM_IF(p->scan.error, !OPF_PUSH(p->arena, expr->args, expr->n_args, expr->args_capacity, arg));
    return OPF_OK;
}

static opf_status parse_attr(parser *p, opf_rule_expr *call)
{
    if (is_word(p, "like")) {
        OPF_TRY(take(p));
        if (call->like != OPF_RULE_NO_NAME)
            return FAIL(p, p->scan.token.place, "there is a like already");
        return take_name(p, &call->like);
    }
    opf_rule_attr attr = {.place = p->scan.token.place};
    if (p->scan.token.kind != OPF_TOKEN_NAME)
        return FAIL(p, p->scan.token.place, "expected an attribute, found '%.*s'", (int)p->scan.token.length,
                    p->scan.token.start);
    attr.name = token_text(p);
    OPF_OOM_IF(p->scan.error, attr.name == NULL);
    const parser before = *p;
    OPF_TRY(take(p));
    if (is_punct(p, '=')) {
        OPF_TRY(take(p));
        OPF_TRY(parse_expr(p, &attr.value));
    } else { /* `{ a }` is `{ a = a }` */
        *p = before;
        OPF_TRY(new_expr(p, OPF_RULE_NAME, p->scan.token.place, &attr.value));
        OPF_TRY(take_name(p, &attr.value->name));
    }
    OPF_OOM_IF(p->scan.error, !OPF_PUSH(p->arena, call->attrs, call->n_attrs, call->attrs_capacity, attr));
    return OPF_OK;
}

/* After the opening parenthesis. Operators begin with a capital, functions do not. */
static opf_status parse_call(parser *p, opf_rule_expr *call)
{
    while (!is_punct(p, ')')) {
        opf_rule_expr *arg;
        OPF_TRY(parse_expr(p, &arg));
        OPF_TRY(add_arg(p, call, arg));
        if (!is_punct(p, ','))
            break;
        OPF_TRY(take(p));
    }
    OPF_TRY(expect(p, ')'));
    if (!is_punct(p, '{'))
        return OPF_OK;
    if (call->kind != OPF_RULE_OPERATOR)
        return FAIL(p, p->scan.token.place, "a function has no attributes");
    do {
        OPF_TRY(take(p));
        OPF_TRY(parse_attr(p, call));
    } while (is_punct(p, ','));
    return expect(p, '}');
}

static opf_status parse_name_or_call(parser *p, opf_rule_expr **result)
{
    const opf_rule_token name = p->scan.token;
    bool starred = p->in_match && name.start[name.length] == '*' && name.start[name.length + 1] == '(';
    if (!starred && name.start[name.length] != '(') {
        OPF_TRY(new_expr(p, OPF_RULE_NAME, name.place, result));
        OPF_TRY(take_name(p, &(*result)->name));
        if (is_punct(p, '?')) {
            (*result)->optional = true;
            return take(p);
        }
        return OPF_OK;
    }
    bool is_op = *name.start >= 'A' && *name.start <= 'Z';
    OPF_TRY(new_expr(p, is_op ? OPF_RULE_OPERATOR : OPF_RULE_FUNCTION, name.place, result));
    opf_rule_expr *call = *result;
    call->text = token_text(p);
    call->starred = starred;
    OPF_OOM_IF(p->scan.error, call->text == NULL);
    call->op = is_op ? opf_find_operator("", call->text) : NULL;
    call->function = is_op ? NULL : opf_rule_find_function(call->text);
    if (is_op && call->op == NULL)
        return FAIL(p, name.place, "there is no operator %s", call->text);
    if (!is_op && call->function == NULL)
        return FAIL(p, name.place, "there is no function %s", call->text);
    OPF_TRY(take(p));
    if (starred)
        OPF_TRY(take(p));
    OPF_TRY(take(p));
    return parse_call(p, call);
}

/* Not strtod: that reads "0.5" as 0 where the program has chosen a locale with another decimal point. Exact up to 15
   digits and moderate exponents, which literals of rules stay within. */
static double read_number(const char *s, size_t n)
{
    double mantissa = 0, scale = 1;
    size_t i = 0;
    int digits = 0, exponent = 0;
    bool after_point = false;
    for (; i < n && (s[i] == '.' || (s[i] >= '0' && s[i] <= '9')); i++) {
        if (s[i] == '.') {
            after_point = true;
            continue;
        }
        bool keep = digits < 18;
        if (keep)
            mantissa = mantissa * 10 + (s[i] - '0');
        digits += keep && mantissa > 0 ? 1 : 0;
        exponent += (keep ? 0 : 1) - (after_point ? 1 : 0);
    }
    if (i < n) {
        long given = strtol(s + i + 1, NULL, 10);
        exponent += given > 400 ? 400 : given < -400 ? -400 : (int)given;
    }
    for (int k = 0; k < exponent || k < -exponent; k++)
        scale *= 10;
    return exponent < 0 ? mantissa / scale : mantissa * scale;
}

static opf_status parse_number(parser *p, bool negative, opf_rule_expr **result)
{
    OPF_TRY(new_expr(p, OPF_RULE_NUMBER, p->scan.token.place, result));
    double x = read_number(p->scan.token.start, p->scan.token.length);
    (*result)->number = negative ? -x : x;
    (*result)->text =
        opf_arena_printf(p->arena, "%s%.*s", negative ? "-" : "", (int)p->scan.token.length, p->scan.token.start);
    OPF_OOM_IF(p->scan.error, (*result)->text == NULL);
    return take(p);
}

static opf_status parse_list(parser *p, opf_rule_expr **result)
{
    OPF_TRY(new_expr(p, OPF_RULE_LIST, p->scan.token.place, result));
    int64_t *ints = NULL;
    uint32_t n = 0;
    uint32_t capacity = 0;
    do {
        OPF_TRY(take(p));
        bool negative = is_punct(p, '-');
        if (negative)
            OPF_TRY(take(p));
        if (p->scan.token.kind != OPF_TOKEN_NUMBER)
            return FAIL(p, p->scan.token.place, "expected an integer, found '%.*s'", (int)p->scan.token.length,
                        p->scan.token.start);
        int64_t x = strtoll(p->scan.token.start, NULL, 10);
        OPF_OOM_IF(p->scan.error, !OPF_PUSH(p->arena, ints, n, capacity, negative ? -x : x));
        OPF_TRY(take(p));
    } while (is_punct(p, ','));
    (*result)->ints = ints;
    (*result)->n_args = n;
    return expect(p, ']');
}

static opf_status new_arithmetic(parser *p, char op, opf_rule_place place, opf_rule_expr *a, opf_rule_expr *b,
                                 opf_rule_expr **result)
{
    OPF_TRY(new_expr(p, OPF_RULE_FUNCTION, place, result));
    char text[] = {op, '\0'};
    (*result)->function = opf_rule_find_function(text);
    (*result)->text = (*result)->function->name;
    OPF_TRY(add_arg(p, *result, a));
    return add_arg(p, *result, b);
}

static opf_status parse_primary(parser *p, opf_rule_expr **result)
{
    const opf_rule_token t = p->scan.token;
    if (t.kind == OPF_TOKEN_NAME && !is_section(p))
        return parse_name_or_call(p, result);
    if (t.kind == OPF_TOKEN_NUMBER)
        return parse_number(p, false, result);
    if (t.kind == OPF_TOKEN_TEXT) {
        OPF_TRY(new_expr(p, OPF_RULE_TEXT, t.place, result));
        (*result)->text = opf_arena_copy_string(p->arena, t.start + 1, t.length - 2);
        OPF_OOM_IF(p->scan.error, (*result)->text == NULL);
        return take(p);
    }
    if (is_punct(p, '['))
        return parse_list(p, result);
    if (is_punct(p, '(')) {
        OPF_TRY(take(p));
        OPF_TRY(parse_expr(p, result));
        return expect(p, ')');
    }
    if (is_punct(p, '-')) {
        OPF_TRY(take(p));
        if (p->scan.token.kind == OPF_TOKEN_NUMBER)
            return parse_number(p, true, result);
        opf_rule_expr *zero, *operand;
        OPF_TRY(new_expr(p, OPF_RULE_NUMBER, t.place, &zero));
        zero->text = "0";
        OPF_TRY(parse_primary(p, &operand));
        return new_arithmetic(p, '-', t.place, zero, operand, result);
    }
    if (t.kind == OPF_TOKEN_END)
        return FAIL(p, t.place, "expected an expression, found the end of the file");
    return FAIL(p, t.place, "expected an expression, found '%.*s'", (int)t.length, t.start);
}

static opf_status parse_product(parser *p, opf_rule_expr **result)
{
    OPF_TRY(parse_primary(p, result));
    while (is_punct(p, '*') || is_punct(p, '/')) {
        const opf_rule_token t = p->scan.token;
        opf_rule_expr *right;
        OPF_TRY(take(p));
        OPF_TRY(parse_primary(p, &right));
        OPF_TRY(new_arithmetic(p, *t.start, t.place, *result, right, result));
    }
    return OPF_OK;
}

static opf_status parse_sum(parser *p, opf_rule_expr **result)
{
    OPF_TRY(parse_product(p, result));
    while (is_punct(p, '+') || is_punct(p, '-')) {
        const opf_rule_token t = p->scan.token;
        opf_rule_expr *right;
        OPF_TRY(take(p));
        OPF_TRY(parse_product(p, &right));
        OPF_TRY(new_arithmetic(p, *t.start, t.place, *result, right, result));
    }
    return OPF_OK;
}

static opf_status parse_expr(parser *p, opf_rule_expr **result)
{
    if (++p->depth > MAX_DEPTH)
        return FAIL(p, p->scan.token.place, "nested deeper than %d", MAX_DEPTH);
    OPF_TRY(parse_sum(p, result));
    if (is_punct(p, '|')) {
        opf_rule_expr *alternative, *branch = *result;
        OPF_TRY(new_expr(p, OPF_RULE_ALTERNATIVE, branch->place, &alternative));
        OPF_TRY(add_arg(p, alternative, branch));
        while (is_punct(p, '|')) {
            OPF_TRY(take(p));
            OPF_TRY(parse_sum(p, &branch));
            OPF_TRY(add_arg(p, alternative, branch));
        }
        *result = alternative;
    }
    p->depth--;
    return OPF_OK;
}

/* ---- sections ---- */

static opf_status parse_statement(parser *p, opf_rule_statement *statement)
{
    *statement = (opf_rule_statement){.place = p->scan.token.place};
    bool many = is_punct(p, '(');
    do {
        if (many)
            OPF_TRY(take(p));
        uint32_t name;
        OPF_TRY(take_name(p, &name));
        OPF_OOM_IF(p->scan.error,
                   !OPF_PUSH(p->arena, statement->targets, statement->n_targets, statement->targets_capacity, name));
    } while (many && is_punct(p, ','));
    if (many)
        OPF_TRY(expect(p, ')'));
    OPF_TRY(expect(p, '='));
    OPF_TRY(parse_expr(p, &statement->value));
    if (!is_section(p) && p->scan.token.place.line == p->scan.last_line)
        return FAIL(p, p->scan.token.place, "unexpected '%.*s' after the statement", (int)p->scan.token.length,
                    p->scan.token.start);
    return OPF_OK;
}

static opf_status parse_statements(parser *p, opf_rule_statement **list, uint32_t *n, uint32_t *capacity)
{
    do {
        opf_rule_statement statement;
        OPF_TRY(parse_statement(p, &statement));
        OPF_OOM_IF(p->scan.error, !OPF_PUSH(p->arena, *list, *n, *capacity, statement));
    } while (!is_section(p));
    return OPF_OK;
}

static opf_status parse_where(parser *p)
{
    opf_rule *rule = p->rule;
    do {
        opf_rule_expr *condition;
        OPF_TRY(parse_expr(p, &condition));
        OPF_OOM_IF(p->scan.error, !OPF_PUSH(p->arena, rule->where, rule->n_where, rule->where_capacity, condition));
    } while (!is_section(p));
    return OPF_OK;
}

static opf_status parse_match(parser *p, opf_rule_place place)
{
    opf_rule *rule = p->rule;
    opf_rule_block block = {.place = place};
    p->in_match = true;
    OPF_TRY(parse_statements(p, &block.statements, &block.n_statements, &block.statements_capacity));
    p->in_match = false;
    OPF_OOM_IF(p->scan.error, !OPF_PUSH(p->arena, rule->blocks, rule->n_blocks, rule->blocks_capacity, block));
    return OPF_OK;
}

/* Sections come in this order; match may be repeated, where and let may be left out. */
static opf_status parse_sections(parser *p)
{
    opf_rule *rule = p->rule;
    int last = 0;
    while (p->scan.token.kind != OPF_TOKEN_END && !is_word(p, "rule")) {
        const opf_rule_token t = p->scan.token;
        int now = is_word(p, "match")     ? 1
                  : is_word(p, "where")   ? 2
                  : is_word(p, "let")     ? 3
                  : is_word(p, "rewrite") ? 4
                                          : 0;
        if (now == 0)
            return FAIL(p, t.place, "expected match, where, let or rewrite, found '%.*s'", (int)t.length, t.start);
        if (now < last || (now == last && now != 1))
            return FAIL(p, t.place, "%.*s comes too late: the order is match, where, let, rewrite", (int)t.length,
                        t.start);
        last = now;
        OPF_TRY(take(p));
        if (now == 1)
            OPF_TRY(parse_match(p, t.place));
        else if (now == 2)
            OPF_TRY(parse_where(p));
        else if (now == 3)
            OPF_TRY(parse_statements(p, &rule->lets, &rule->n_lets, &rule->lets_capacity));
        else
            OPF_TRY(parse_statements(p, &rule->rewrites, &rule->n_rewrites, &rule->rewrites_capacity));
    }
    if (rule->n_blocks == 0 || rule->n_rewrites == 0)
        return FAIL(p, rule->place, "rule %s needs match and rewrite", rule->name);
    return OPF_OK;
}

static opf_status parse_rule(parser *p, opf_rule *rule)
{
    *rule = (opf_rule){.file = p->scan.file, .place = p->scan.token.place, .keeps = OPF_RULE_NO_NAME};
    p->rule = rule;
    if (!is_word(p, "rule"))
        return FAIL(p, p->scan.token.place, "expected 'rule', found '%.*s'", (int)p->scan.token.length,
                    p->scan.token.start);
    OPF_TRY(opf_rule_take(&p->scan, true));
    if (p->scan.token.kind != OPF_TOKEN_NAME)
        return FAIL(p, p->scan.token.place, "expected the name of the rule");
    rule->name = token_text(p);
    OPF_OOM_IF(p->scan.error, rule->name == NULL);
    rule->family = opf_arena_copy_string(p->arena, rule->name, strcspn(rule->name, "-"));
    OPF_TRY(take(p));
    if (is_word(p, "family")) {
        OPF_TRY(opf_rule_take(&p->scan, true));
        if (p->scan.token.kind != OPF_TOKEN_NAME)
            return FAIL(p, p->scan.token.place, "expected the name of the family");
        rule->family = token_text(p);
        OPF_TRY(take(p));
    }
    OPF_OOM_IF(p->scan.error, rule->family == NULL);
    if (is_word(p, "keeps")) {
        OPF_TRY(take(p));
        OPF_TRY(take_name(p, &rule->keeps));
    }
    return parse_sections(p);
}

opf_status opf_rules_parse(const char *text, const char *file, opf_arena *arena, opf_rules *rules, opf_error *error)
{
    parser p = {.scan = {.file = file, .at = text, .place = {1, 1}, .error = error}, .arena = arena};
    OPF_FAIL_IF(error, strlen(text) > MAX_SIZE, OPF_INVALID_ARGUMENT, "%s: rules have more than %d bytes", file,
                MAX_SIZE);
    OPF_TRY(take(&p));
    while (p.scan.token.kind != OPF_TOKEN_END) {
        opf_rule rule;
        OPF_TRY(parse_rule(&p, &rule));
        OPF_TRY(opf_rule_check(&rule, arena, error));
        OPF_TRY(opf_rule_prepare(&rule, arena, error));
        OPF_OOM_IF(error, !OPF_PUSH(arena, rules->list, rules->n, rules->capacity, rule));
    }
    return OPF_OK;
}
