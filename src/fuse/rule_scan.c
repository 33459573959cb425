/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/rule_scan.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

opf_status opf_rule_scan_fail(opf_rule_scan *p, opf_rule_place place, const char *format, ...)
{
    char message[200];
    va_list list;
    va_start(list, format);
    vsnprintf(message, sizeof message, format, list);
    va_end(list);
    return opf_fail(p->error, OPF_INVALID_ARGUMENT, "%s:%u:%u: %s", p->file, place.line, place.column, message);
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static void advance(opf_rule_scan *p, size_t n)
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

static void skip_space(opf_rule_scan *p)
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

opf_status opf_rule_take(opf_rule_scan *p, bool dashes)
{
    p->last_line = p->token.place.line;
    skip_space(p);
    const char *s = p->at;
    opf_rule_token t = {.start = s, .place = p->place};
    if (*s == '\0') {
        t.kind = OPF_TOKEN_END;
    } else if (is_letter(*s)) {
        t.kind = OPF_TOKEN_NAME;
        while (is_letter(s[t.length]) || is_digit(s[t.length]) || (dashes && s[t.length] == '-'))
            t.length++;
    } else if (is_digit(*s)) {
        t.kind = OPF_TOKEN_NUMBER;
        t.length = number_length(s);
        if (is_letter(s[t.length]))
            return opf_rule_scan_fail(p, p->place, "a number ends in '%c'", s[t.length]);
    } else if (*s == '"') {
        t.kind = OPF_TOKEN_TEXT;
        t.length = strcspn(s + 1, "\"\n") + 2;
        if (s[t.length - 1] != '"')
            return opf_rule_scan_fail(p, p->place, "the text has no closing \"");
    } else if (strchr("()[]{},=|?*+-/", *s) != NULL) {
        t.kind = OPF_TOKEN_PUNCT;
        t.length = 1;
    } else {
        return opf_rule_scan_fail(p, p->place, "unexpected character '%c'", *s >= ' ' && *s < 127 ? *s : '?');
    }
    advance(p, t.length);
    p->token = t;
    return OPF_OK;
}

bool opf_rule_is_punct(const opf_rule_scan *p, char c)
{
    return p->token.kind == OPF_TOKEN_PUNCT && *p->token.start == c;
}

bool opf_rule_is_word(const opf_rule_scan *p, const char *word)
{
    return p->token.kind == OPF_TOKEN_NAME && p->token.length == strlen(word) &&
           memcmp(p->token.start, word, p->token.length) == 0;
}

bool opf_rule_is_section(const opf_rule_scan *p)
{
    return p->token.kind == OPF_TOKEN_END || opf_rule_is_word(p, "rule") || opf_rule_is_word(p, "family") ||
           opf_rule_is_word(p, "match") || opf_rule_is_word(p, "where") || opf_rule_is_word(p, "let") ||
           opf_rule_is_word(p, "rewrite");
}

opf_status opf_rule_expect(opf_rule_scan *p, char c)
{
    if (!opf_rule_is_punct(p, c)) {
        if (p->token.kind == OPF_TOKEN_END)
            return opf_rule_scan_fail(p, p->token.place, "expected '%c', found the end of the file", c);
        return opf_rule_scan_fail(p, p->token.place, "expected '%c', found '%.*s'", c, (int)p->token.length,
                                  p->token.start);
    }
    return opf_rule_take(p, false);
}
