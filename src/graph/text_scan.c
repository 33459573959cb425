/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/text_scan.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- characters: of ASCII only, whatever the locale ---- */

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

const char *opf_text_skip_identifier(const char *name)
{
    const char *end = name;
    while (is_letter(*end) || (end != name && is_digit(*end)))
        end++;
    return end;
}

static void skip_blank(opf_scan *scan)
{
    for (;;) {
        scan->at += strspn(scan->at, " \t\r\n");
        if (*scan->at != '#')
            return;
        scan->at += strcspn(scan->at, "\n");
    }
}

/* ---- errors ---- */

opf_status opf_scan_fail(opf_scan *scan, const char *format, ...)
{
    char    message[512];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    skip_blank(scan);
    int line = 1, column = 1;
    for (const char *p = scan->text; p < scan->at; p++) {
        column = *p == '\n' ? 1 : column + 1;
        line += *p == '\n';
    }
    return opf_fail(scan->error, OPF_INVALID_MODEL, "line %d, column %d: %s", line, column, message);
}

opf_status opf_scan_unsupported(opf_scan *scan, const char *what)
{
    (void)opf_scan_fail(scan, "%s: not supported in the text form", what);
    if (scan->error != NULL)
        scan->error->status = OPF_UNSUPPORTED;
    return OPF_UNSUPPORTED;
}

static opf_status fail_expected(opf_scan *scan, const char *what)
{
    skip_blank(scan);
    size_t rest = strcspn(scan->at, "\r\n");
    if (*scan->at == '\0')
        return opf_scan_fail(scan, "expected %s, found the end", what);
    return opf_scan_fail(scan, "expected %s, found '%.*s'", what, rest < 16 ? (int)rest : 16, scan->at);
}

/* ---- tokens ---- */

char opf_scan_peek(opf_scan *scan)
{
    skip_blank(scan);
    return *scan->at;
}

bool opf_scan_take(opf_scan *scan, const char *symbol)
{
    skip_blank(scan);
    size_t n = strlen(symbol);
    if (strncmp(scan->at, symbol, n) != 0)
        return false;
    scan->at += n;
    return true;
}

opf_status opf_scan_expect(opf_scan *scan, const char *symbol)
{
    char what[16];
    (void)snprintf(what, sizeof what, "'%s'", symbol);
    return opf_scan_take(scan, symbol) ? OPF_OK : fail_expected(scan, what);
}

bool opf_scan_at_name(opf_scan *scan)
{
    char c = opf_scan_peek(scan);
    return is_letter(c) || c == '"';
}

opf_status opf_scan_name(opf_scan *scan, const char **name)
{
    if (opf_scan_peek(scan) == '"') {
        uint32_t    n;
        const char *start = scan->at;
        OPF_TRY(opf_scan_string(scan, name, &n));
        if (strlen(*name) == n)
            return OPF_OK;
        scan->at = start;
        return opf_scan_fail(scan, "a name has no zero byte");
    }
    const char *end = opf_text_skip_identifier(scan->at);
    if (end == scan->at)
        return fail_expected(scan, "a name");
    *name = opf_arena_copy_string(scan->arena, scan->at, (size_t)(end - scan->at));
    OPF_OOM_IF(scan->error, *name == NULL);
    scan->at = end;
    return OPF_OK;
}

static int hex_digit(char c)
{
    if (is_digit(c))
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* What stands for the characters after a backslash. */
static char take_escape(const char **at)
{
    char c = *(*at)++;
    if (c == 'n')
        return '\n';
    if (c == 't')
        return '\t';
    if (c == 'x' && hex_digit((*at)[0]) >= 0 && hex_digit((*at)[1]) >= 0) {
        c = (char)(hex_digit((*at)[0]) * 16 + hex_digit((*at)[1]));
        *at += 2;
    }
    return c;
}

opf_status opf_scan_string(opf_scan *scan, const char **string, uint32_t *n)
{
    if (opf_scan_peek(scan) != '"')
        return fail_expected(scan, "a string");
    const char *end = scan->at + 1;
    while (*end != '"' && *end != '\0')
        end += end[0] == '\\' && end[1] != '\0' ? 2 : 1;
    if (*end == '\0')
        return opf_scan_fail(scan, "the string that starts here has no end");
    if (end - scan->at > INT32_MAX)
        return opf_scan_fail(scan, "the string that starts here is too long");
    char *copy = opf_arena_alloc(scan->arena, (size_t)(end - scan->at)); /* cleared, and longer than what it gets */
    OPF_OOM_IF(scan->error, copy == NULL);
    *n = 0;
    for (const char *p = scan->at + 1; p < end;) {
        char c = *p++;
        copy[(*n)++] = c == '\\' ? take_escape(&p) : c;
    }
    *string  = copy;
    scan->at = end + 1;
    return OPF_OK;
}

/* nan, inf and infinity in any case. */
static const char *special_number(const char *at, double *x)
{
    static const struct {
        const char *word;
        double      x;
    } words[] = {{"infinity", (double)INFINITY}, {"inf", (double)INFINITY}, {"nan", (double)NAN}};
    const char *end = opf_text_skip_identifier(at);
    for (size_t w = 0; w < sizeof words / sizeof *words; w++) {
        size_t n = strlen(words[w].word), i = 0;
        while (i < n && (at[i] | 0x20) == words[w].word[i])
            i++;
        if (i == n && end == at + n) {
            *x = words[w].x;
            return end;
        }
    }
    return NULL;
}

static const char *skip_sign(const char *at)
{
    return *at == '-' || *at == '+' ? at + 1 : at;
}

bool opf_scan_at_number(opf_scan *scan)
{
    double unused;
    skip_blank(scan);
    const char *digits = skip_sign(scan->at);
    return is_digit(*digits) || (*digits == '.' && is_digit(digits[1])) || special_number(digits, &unused) != NULL;
}

opf_status opf_scan_number_get(opf_scan *scan, opf_scan_number *number)
{
    if (!opf_scan_at_number(scan))
        return fail_expected(scan, "a number");
    bool        is_negative = *scan->at == '-';
    const char *digits = skip_sign(scan->at), *end = special_number(digits, &number->f);
    number->i = 0;
    if (end != NULL) {
        number->is_float = true;
        number->f        = is_negative ? -number->f : number->f;
        scan->at         = end;
        return OPF_OK;
    }
    end = digits + strspn(digits, "0123456789");
    if (digits[0] == '0' && (digits[1] | 0x20) == 'x')
        return opf_scan_fail(scan, "hexadecimal numbers are not part of the syntax");
    number->is_float = *end == '.' || *end == 'e' || *end == 'E';
    char *stop       = NULL;
    number->f        = strtod(scan->at, &stop);
    if (number->is_float) {
        scan->at = stop;
        return OPF_OK;
    }
    errno               = 0;
    uint64_t magnitude  = strtoull(digits, NULL, 10);
    if (errno == ERANGE || (is_negative && magnitude > (uint64_t)INT64_MAX + 1))
        return opf_scan_fail(scan, "an integer has 64 bits at most");
    number->i = (int64_t)(is_negative ? 0 - magnitude : magnitude);
    scan->at  = end;
    return OPF_OK;
}

opf_status opf_scan_int(opf_scan *scan, int64_t *i)
{
    skip_blank(scan);
    const char     *start = scan->at;
    opf_scan_number number;
    OPF_TRY(opf_scan_number_get(scan, &number));
    if (number.is_float) {
        scan->at = start;
        return fail_expected(scan, "an integer");
    }
    *i = number.i;
    return OPF_OK;
}

/* ---- locale ---- */

opf_text_locale opf_text_locale_enter(void)
{
    locale_t own = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
    return (opf_text_locale){own, own == (locale_t)0 ? NULL : uselocale(own)};
}

void opf_text_locale_leave(opf_text_locale *locale)
{
    if (locale->own == NULL)
        return;
    (void)uselocale(locale->old);
    freelocale(locale->own);
}
