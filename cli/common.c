/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

#include "options.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- messages ---- */

void cli_write_clean(FILE *to, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        (void)putc((c < 0x20 && c != '\n' && c != '\t') || c == 0x7f ? '?' : c, to);
    }
}

static void print_message(const char *format, va_list args)
{
    char text[4096];
    int  n = vsnprintf(text, sizeof text, format, args);
    cli_write_clean(stderr, text, n < 0 ? 0 : (size_t)n < sizeof text ? (size_t)n : sizeof text - 1);
    (void)putc('\n', stderr);
}

static bool progress_shown(bool set, bool value)
{
    static bool shown;
    if (set)
        shown = value;
    return shown;
}

static void wipe_progress(void)
{
    if (progress_shown(false, false))
        (void)fputs("\r\033[K", stderr);
    (void)progress_shown(true, false);
}

void cli_die(cli_exit code, const char *format, ...)
{
    va_list args;
    wipe_progress();
    (void)fputs("opfuse: ", stderr);
    va_start(args, format);
    print_message(format, args);
    va_end(args);
    exit((int)code);
}

void cli_note(const cli_options *options, const char *format, ...)
{
    va_list args;
    if (options->quiet)
        return;
    wipe_progress();
    va_start(args, format);
    print_message(format, args);
    va_end(args);
}

void cli_progress(const cli_options *options, const char *what, size_t done, size_t of)
{
    if (options->quiet || !isatty(STDERR_FILENO))
        return;
    wipe_progress();
    if (of == 0)
        return;
    (void)fprintf(stderr, "%s %zu of %zu", what, done, of);
    (void)fflush(stderr);
    (void)progress_shown(true, true);
}

cli_exit cli_exit_code(opf_status status)
{
    switch (status) {
    case OPF_OK: return CLI_DONE;
    case OPF_CHECK_FAILED: return CLI_CHECK_FAILED;
    case OPF_INVALID_ARGUMENT: return CLI_USAGE;
    case OPF_INVALID_MODEL:
    case OPF_UNSUPPORTED:
    case OPF_INVALID_INPUT:
    case OPF_BUFFER_TOO_SMALL:
    case OPF_LIMIT: return CLI_REJECTED;
    case OPF_CANCELLED:
    case OPF_OUT_OF_MEMORY:
    case OPF_IO:
    case OPF_INTERNAL: return CLI_SYSTEM;
    }
    return CLI_SYSTEM;
}

const char *cli_message(opf_status status, const opf_error *error)
{
    return error->message[0] != '\0' ? error->message : opf_status_text(status);
}

void cli_check(opf_status status, const opf_error *error)
{
    if (status != OPF_OK)
        cli_die(cli_exit_code(status), "%s", cli_message(status, error));
}

/* ---- memory ---- */

void *cli_alloc(size_t n, size_t size)
{
    void *p = calloc(n == 0 ? 1 : n, size);
    if (p == NULL)
        cli_die(CLI_SYSTEM, "out of memory");
    return p;
}

void *cli_grow(void *array, size_t n, size_t size)
{
    if ((n & (n - 1)) != 0)
        return array;
    void *p = reallocarray(array, n == 0 ? 1 : 2 * n, size);
    if (p == NULL)
        cli_die(CLI_SYSTEM, "out of memory");
    return p;
}

char *cli_format(const char *format, ...)
{
    char   *text;
    va_list args;
    va_start(args, format);
    int n = vasprintf(&text, format, args);
    va_end(args);
    if (n < 0)
        cli_die(CLI_SYSTEM, "out of memory");
    return text;
}

/* ---- JSON ---- */

/* Bytes of the UTF-8 sequence at s, 0 if it is none (overlong forms, surrogates and what ends early are none). */
static size_t utf8_length(const unsigned char *s)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t                n       = s[0] < 0x80                   ? 1
                                    : s[0] >= 0xc2 && s[0] < 0xe0 ? 2
                                    : s[0] >= 0xe0 && s[0] < 0xf0 ? 3
                                    : s[0] >= 0xf0 && s[0] < 0xf5 ? 4
                                                                  : 0;
    uint32_t              code    = n < 2 ? 0 : s[0] & (0x7fu >> n);
    for (size_t i = 1; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (s[i] & 0x3fu);
    }
    return n >= 2 && (code < least[n] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) ? 0 : n;
}

json_t *cli_json_text(const char *text)
{
    if (text == NULL)
        return json_null();
    json_t *value = json_string(text);
    if (value != NULL)
        return value;
    size_t n    = strlen(text);
    char  *copy = cli_alloc(n + 1, 1);
    memcpy(copy, text, n);
    for (size_t i = 0; i < n;) {
        size_t length = utf8_length((unsigned char *)copy + i);
        if (length == 0)
            copy[i] = '?';
        i += length == 0 ? 1 : length;
    }
    value = json_string(copy);
    free(copy);
    return value;
}

json_t *cli_json_number(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

json_t *cli_json_known(double x)
{
    if (x < 0)
        return json_null();
    return x < 9e15 && x == floor(x) ? json_integer((json_int_t)x) : cli_json_number(x);
}

json_t *cli_json_texts(const char *const *texts, size_t n)
{
    json_t *array = json_array();
    for (size_t i = 0; i < n; i++)
        cli_json_add(array, cli_json_text(texts[i]));
    return array;
}

void cli_json_set(json_t *object, const char *key, json_t *value)
{
    if (json_object_set_new_nocheck(object, key, value) != 0)
        cli_die(CLI_SYSTEM, "out of memory");
}

void cli_json_add(json_t *array, json_t *value)
{
    if (json_array_append_new(array, value) != 0)
        cli_die(CLI_SYSTEM, "out of memory");
}

void cli_json_print(json_t *document, FILE *out)
{
    if (json_dumpf(document, out, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) != 0)
        cli_die(CLI_SYSTEM, "the JSON document could not be written");
    (void)putc('\n', out);
    json_decref(document);
}

/* ---- numbers and time ---- */

const char *cli_scaled(double x, const char *unit, char *text)
{
    static const char *const prefixes[] = {"", "K", "M", "G", "T", "P"};
    size_t                   i          = 0;
    for (; x >= 1000 && i < 5; i++)
        x /= 1000;
    (void)snprintf(text, 32, i == 0 ? "%.0f %s%s" : "%.3g %s%s", x, prefixes[i], unit);
    return text;
}

double cli_now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}
