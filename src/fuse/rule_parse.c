/* SPDX-License-Identifier: Apache-2.0 */
/* Recursive descent over the text. Names become numbers here; meaning is checked in rule_check.c. */
#include "fuse/rule_parse.h"

#include "fuse/functions.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum token_kind { T_END, T_NAME, T_NUMBER, T_TEXT, T_PUNCT } token_kind;

typedef struct token {
    token_kind     kind;
    const char    *start;
    size_t         length;
    opf_rule_place place;
} token;

typedef struct parser {
    const char    *file;
    const char    *at;
    opf_rule_place place; /* of at */
    token          token; /* the next one, not yet taken */
    uint32_t       last_line; /* of the token taken last */
    bool           in_match;
    uint32_t       depth;
    opf_rule      *rule;
    opf_arena     *arena;
    opf_error     *error;
} parser;

enum { MAX_DEPTH = 40, MAX_SIZE = 1 << 20 };

#define FAIL(p, where, ...) parse_fail((p), (where), __VA_ARGS__)
static opf_status __attribute__((format(printf, 3, 4))) parse_fail(parser *p, opf_rule_place place, const char *format, ...)
{
    char    message[200];
    va_list list;
    va_start(list, format);
    vsnprintf(message, sizeof message, format, list);
    va_end(list);
    return opf_fail(p->error, OPF_INVALID_ARGUMENT, "%s:%u:%u: %s", p->file, place.line, place.column, message);
}

/* ---- tokens ---- */

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static void advance(parser *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (p->at[i] == '\n') {
            p->place.line++;
            p->place.column = 1;
        } else {
            p->place.column++;
        }
    }
    p->at += n;
}

static void skip_space(parser *p)
{
    for (;;) {
        if (*p->at == '#')
            advance(p, strcspn(p->at, "\n"));
        else if (*p->at == ' ' || *p->at == '\t' || *p->at == '\r' || *p->at == '\n')
            advance(p, 1);
        else
            return;
    }
}

static size_t number_length(const char *s)
{
    size_t n = 0;
    while (is_digit(s[n]))
        n++;
    if (s[n] == '.' && is_digit(s[n + 1]))
        for (n++; is_digit(s[n]); n++)
            continue;
    size_t e = n;
    if (s[e] == 'e' || s[e] == 'E') {
        e++;
        if (s[e] == '+' || s[e] == '-')
            e++;
        if (is_digit(s[e])) {
            while (is_digit(s[e]))
                e++;
            n = e;
        }
    }
    return n;
}

/* Takes the current token; the next one is read. A name may hold '-' only after "rule" and "family": names of rules. */
static opf_status next_token(parser *p, bool dashes)
{
    p->last_line = p->token.place.line;
    skip_space(p);
    const char *s = p->at;
    token       t = {.start = s, .place = p->place};
    if (*s == '\0') {
        t.kind = T_END;
    } else if (is_letter(*s)) {
        t.kind = T_NAME;
        while (is_letter(s[t.length]) || is_digit(s[t.length]) || (dashes && s[t.length] == '-'))
            t.length++;
    } else if (is_digit(*s)) {
        t.kind   = T_NUMBER;
        t.length = number_length(s);
        if (is_letter(s[t.length]))
            return FAIL(p, p->place, "a number ends in '%c'", s[t.length]);
    } else if (*s == '"') {
        t.kind   = T_TEXT;
        t.length = strcspn(s + 1, "\"\n") + 2;
        if (s[t.length - 1] != '"')
            return FAIL(p, p->place, "the text has no closing \"");
    } else if (strchr("()[]{},=|?*+-/", *s) != NULL) {
        t.kind   = T_PUNCT;
        t.length = 1;
    } else {
        return FAIL(p, p->place, "unexpected character '%c'", *s >= ' ' && *s < 127 ? *s : '?');
    }
    advance(p, t.length);
    p->token = t;
    return OPF_OK;
}

static opf_status take(parser *p)
{
    return next_token(p, false);
}

static bool is_punct(const parser *p, char c)
{
    return p->token.kind == T_PUNCT && *p->token.start == c;
}

static bool is_word(const parser *p, const char *word)
{
    return p->token.kind == T_NAME && p->token.length == strlen(word) && memcmp(p->token.start, word, p->token.length) == 0;
}

static bool is_section(const parser *p)
{
    return p->token.kind == T_END || is_word(p, "rule") || is_word(p, "family") || is_word(p, "match") || is_word(p, "where") ||
           is_word(p, "let") || is_word(p, "rewrite");
}

static opf_status expect(parser *p, char c)
{
    if (!is_punct(p, c)) {
        if (p->token.kind == T_END)
            return FAIL(p, p->token.place, "expected '%c', found the end of the file", c);
        return FAIL(p, p->token.place, "expected '%c', found '%.*s'", c, (int)p->token.length, p->token.start);
    }
    return take(p);
}

static const char *token_text(parser *p)
{
    return opf_arena_copy_string(p->arena, p->token.start, p->token.length);
}

/* The number of the name at the token; names of one rule share one space. */
static opf_status take_name(parser *p, uint32_t *name)
{
    if (p->token.kind != T_NAME || is_section(p))
        return FAIL(p, p->token.place, "expected a name, found '%.*s'", (int)p->token.length, p->token.start);
    opf_rule *rule = p->rule;
    for (*name = 0; *name < rule->n_names; (*name)++)
        if (strlen(rule->names[*name]) == p->token.length &&
            memcmp(rule->names[*name], p->token.start, p->token.length) == 0)
            return take(p);
    const char *text = token_text(p);
    OPF_OOM_IF(p->error, text == NULL || !OPF_PUSH(p->arena, rule->names, rule->n_names, rule->names_capacity, text));
    return take(p);
}

/* ---- expressions ---- */

static opf_status parse_expr(parser *p, opf_rule_expr **result);

static opf_status new_expr(parser *p, opf_rule_kind kind, opf_rule_place place, opf_rule_expr **result)
{
    *result = OPF_NEW(p->arena, opf_rule_expr, 1);
    OPF_OOM_IF(p->error, *result == NULL);
    **result = (opf_rule_expr){.kind = kind, .place = place, .name = OPF_RULE_NO_NAME, .like = OPF_RULE_NO_NAME};
    return OPF_OK;
}

static opf_status add_arg(parser *p, opf_rule_expr *expr, opf_rule_expr *arg)
{
    OPF_OOM_IF(p->error, !OPF_PUSH(p->arena, expr->args, expr->n_args, expr->args_capacity, arg));
    return OPF_OK;
}

static opf_status parse_attr(parser *p, opf_rule_expr *call)
{
    if (is_word(p, "like")) {
        OPF_TRY(take(p));
        if (call->like != OPF_RULE_NO_NAME)
            return FAIL(p, p->token.place, "there is a like already");
        return take_name(p, &call->like);
    }
    opf_rule_attr attr = {.place = p->token.place};
    if (p->token.kind != T_NAME)
        return FAIL(p, p->token.place, "expected an attribute, found '%.*s'", (int)p->token.length, p->token.start);
    attr.name = token_text(p);
    OPF_OOM_IF(p->error, attr.name == NULL);
    const parser before = *p;
    OPF_TRY(take(p));
    if (is_punct(p, '=')) {
        OPF_TRY(take(p));
        OPF_TRY(parse_expr(p, &attr.value));
    } else { /* `{ a }` is `{ a = a }` */
        *p = before;
        OPF_TRY(new_expr(p, OPF_RULE_NAME, p->token.place, &attr.value));
        OPF_TRY(take_name(p, &attr.value->name));
    }
    OPF_OOM_IF(p->error, !OPF_PUSH(p->arena, call->attrs, call->n_attrs, call->attrs_capacity, attr));
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
        return FAIL(p, p->token.place, "a function has no attributes");
    do {
        OPF_TRY(take(p));
        OPF_TRY(parse_attr(p, call));
    } while (is_punct(p, ','));
    return expect(p, '}');
}

static opf_status parse_name_or_call(parser *p, opf_rule_expr **result)
{
    const token name    = p->token;
    bool        starred = p->in_match && name.start[name.length] == '*' && name.start[name.length + 1] == '(';
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
    call->text          = token_text(p);
    call->starred       = starred;
    OPF_OOM_IF(p->error, call->text == NULL);
    call->op       = is_op ? opf_find_operator("", call->text) : NULL;
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

static opf_status parse_number(parser *p, bool negative, opf_rule_expr **result)
{
    OPF_TRY(new_expr(p, OPF_RULE_NUMBER, p->token.place, result));
    double x          = strtod(p->token.start, NULL);
    (*result)->number = negative ? -x : x;
    (*result)->text   = opf_arena_printf(p->arena, "%s%.*s", negative ? "-" : "", (int)p->token.length, p->token.start);
    OPF_OOM_IF(p->error, (*result)->text == NULL);
    return take(p);
}

static opf_status parse_list(parser *p, opf_rule_expr **result)
{
    OPF_TRY(new_expr(p, OPF_RULE_LIST, p->token.place, result));
    int64_t *ints     = NULL;
    uint32_t n        = 0;
    uint32_t capacity = 0;
    do {
        OPF_TRY(take(p));
        bool negative = is_punct(p, '-');
        if (negative)
            OPF_TRY(take(p));
        if (p->token.kind != T_NUMBER)
            return FAIL(p, p->token.place, "expected an integer, found '%.*s'", (int)p->token.length, p->token.start);
        int64_t x = strtoll(p->token.start, NULL, 10);
        OPF_OOM_IF(p->error, !OPF_PUSH(p->arena, ints, n, capacity, negative ? -x : x));
        OPF_TRY(take(p));
    } while (is_punct(p, ','));
    (*result)->ints   = ints;
    (*result)->n_args = n;
    return expect(p, ']');
}

static opf_status new_arithmetic(parser *p, char op, opf_rule_place place, opf_rule_expr *a, opf_rule_expr *b,
                                 opf_rule_expr **result)
{
    OPF_TRY(new_expr(p, OPF_RULE_FUNCTION, place, result));
    char text[] = {op, '\0'};
    (*result)->function = opf_rule_find_function(text);
    (*result)->text     = (*result)->function->name;
    OPF_TRY(add_arg(p, *result, a));
    return add_arg(p, *result, b);
}

static opf_status parse_primary(parser *p, opf_rule_expr **result)
{
    const token t = p->token;
    if (t.kind == T_NAME && !is_section(p))
        return parse_name_or_call(p, result);
    if (t.kind == T_NUMBER)
        return parse_number(p, false, result);
    if (t.kind == T_TEXT) {
        OPF_TRY(new_expr(p, OPF_RULE_TEXT, t.place, result));
        (*result)->text = opf_arena_copy_string(p->arena, t.start + 1, t.length - 2);
        OPF_OOM_IF(p->error, (*result)->text == NULL);
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
        if (p->token.kind == T_NUMBER)
            return parse_number(p, true, result);
        opf_rule_expr *zero, *operand;
        OPF_TRY(new_expr(p, OPF_RULE_NUMBER, t.place, &zero));
        zero->text = "0";
        OPF_TRY(parse_primary(p, &operand));
        return new_arithmetic(p, '-', t.place, zero, operand, result);
    }
    if (t.kind == T_END)
        return FAIL(p, t.place, "expected an expression, found the end of the file");
    return FAIL(p, t.place, "expected an expression, found '%.*s'", (int)t.length, t.start);
}

static opf_status parse_product(parser *p, opf_rule_expr **result)
{
    OPF_TRY(parse_primary(p, result));
    while (is_punct(p, '*') || is_punct(p, '/')) {
        const token    t = p->token;
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
        const token    t = p->token;
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
        return FAIL(p, p->token.place, "nested deeper than %d", MAX_DEPTH);
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
    *statement = (opf_rule_statement){.place = p->token.place};
    bool many  = is_punct(p, '(');
    do {
        if (many)
            OPF_TRY(take(p));
        uint32_t name;
        OPF_TRY(take_name(p, &name));
        OPF_OOM_IF(p->error,
                   !OPF_PUSH(p->arena, statement->targets, statement->n_targets, statement->targets_capacity, name));
    } while (many && is_punct(p, ','));
    if (many)
        OPF_TRY(expect(p, ')'));
    OPF_TRY(expect(p, '='));
    OPF_TRY(parse_expr(p, &statement->value));
    if (!is_section(p) && p->token.place.line == p->last_line)
        return FAIL(p, p->token.place, "unexpected '%.*s' after the statement", (int)p->token.length, p->token.start);
    return OPF_OK;
}

static opf_status parse_statements(parser *p, opf_rule_statement **list, uint32_t *n, uint32_t *capacity)
{
    do {
        opf_rule_statement statement;
        OPF_TRY(parse_statement(p, &statement));
        OPF_OOM_IF(p->error, !OPF_PUSH(p->arena, *list, *n, *capacity, statement));
    } while (!is_section(p));
    return OPF_OK;
}

static opf_status parse_where(parser *p)
{
    opf_rule *rule = p->rule;
    do {
        opf_rule_expr *condition;
        OPF_TRY(parse_expr(p, &condition));
        OPF_OOM_IF(p->error, !OPF_PUSH(p->arena, rule->where, rule->n_where, rule->where_capacity, condition));
    } while (!is_section(p));
    return OPF_OK;
}

static opf_status parse_match(parser *p, opf_rule_place place)
{
    opf_rule      *rule  = p->rule;
    opf_rule_block block = {.place = place};
    p->in_match          = true;
    OPF_TRY(parse_statements(p, &block.statements, &block.n_statements, &block.statements_capacity));
    p->in_match = false;
    OPF_OOM_IF(p->error, !OPF_PUSH(p->arena, rule->blocks, rule->n_blocks, rule->blocks_capacity, block));
    return OPF_OK;
}

/* Sections come in this order; match may be repeated, where and let may be left out. */
static opf_status parse_sections(parser *p)
{
    opf_rule *rule = p->rule;
    int       last = 0;
    while (p->token.kind != T_END && !is_word(p, "rule")) {
        const token t    = p->token;
        int         now  = is_word(p, "match") ? 1 : is_word(p, "where") ? 2 : is_word(p, "let") ? 3 : is_word(p, "rewrite") ? 4 : 0;
        if (now == 0)
            return FAIL(p, t.place, "expected match, where, let or rewrite, found '%.*s'", (int)t.length, t.start);
        if (now < last || (now == last && now != 1))
            return FAIL(p, t.place, "%.*s comes too late: the order is match, where, let, rewrite", (int)t.length, t.start);
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
    *rule   = (opf_rule){.file = p->file, .place = p->token.place};
    p->rule = rule;
    if (!is_word(p, "rule"))
        return FAIL(p, p->token.place, "expected 'rule', found '%.*s'", (int)p->token.length, p->token.start);
    OPF_TRY(next_token(p, true));
    if (p->token.kind != T_NAME)
        return FAIL(p, p->token.place, "expected the name of the rule");
    rule->name = token_text(p);
    OPF_OOM_IF(p->error, rule->name == NULL);
    rule->family = opf_arena_copy_string(p->arena, rule->name, strcspn(rule->name, "-"));
    OPF_TRY(take(p));
    if (is_word(p, "family")) {
        OPF_TRY(next_token(p, true));
        if (p->token.kind != T_NAME)
            return FAIL(p, p->token.place, "expected the name of the family");
        rule->family = token_text(p);
        OPF_TRY(take(p));
    }
    OPF_OOM_IF(p->error, rule->family == NULL);
    return parse_sections(p);
}

opf_status opf_rules_parse(const char *text, const char *file, opf_arena *arena, opf_rules *rules, opf_error *error)
{
    parser p = {.file = file, .at = text, .place = {1, 1}, .arena = arena, .error = error};
    OPF_FAIL_IF(error, strlen(text) > MAX_SIZE, OPF_INVALID_ARGUMENT, "%s: rules have more than %d bytes", file, MAX_SIZE);
    OPF_TRY(take(&p));
    while (p.token.kind != T_END) {
        opf_rule rule;
        OPF_TRY(parse_rule(&p, &rule));
        OPF_TRY(opf_rule_check(&rule, arena, error));
        OPF_TRY(opf_rule_prepare(&rule, arena, error));
        OPF_OOM_IF(error, !OPF_PUSH(arena, rules->list, rules->n, rules->capacity, rule));
    }
    return OPF_OK;
}
