/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the commands of the tool share. A command writes its result to the stream that it is given; main prints that
 * only when the command came to an end, so a failure leaves stdout empty. Failures end the process through cli_die.
 */
#ifndef OPFUSE_CLI_H
#define OPFUSE_CLI_H

#include <jansson.h>
#include <opfuse/opfuse.h>
#include <stdio.h>

typedef enum cli_exit { CLI_DONE = 0, CLI_CHECK_FAILED = 1, CLI_USAGE = 2, CLI_REJECTED = 3, CLI_SYSTEM = 4 } cli_exit;

typedef struct cli_options cli_options; /* options.h */

typedef struct cli_command {
    const char *name;
    const char *arguments; /* "MODEL" */
    const char *summary;   /* one line */
    const char *detail;    /* text of --help below the options: what else to know, examples */
    uint64_t    options;   /* CLI_BIT of each option that it takes */
    size_t      min_paths, max_paths;
    cli_exit (*run)(const cli_options *options, FILE *out);
} cli_command;

/* Prints "opfuse: …" to stderr and exits. */
_Noreturn void cli_die(cli_exit code, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A note on stderr, unless --quiet. */
void cli_note(const cli_options *options, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* "WHAT 3 of 10" on a terminal, over itself; of 0 wipes it. */
void cli_progress(const cli_options *options, const char *what, size_t done, size_t of);

cli_exit cli_exit_code(opf_status status);
/* Dies with the error's message unless status is OPF_OK. */
void cli_check(opf_status status, const opf_error *error);
const char *cli_message(opf_status status, const opf_error *error);

/* Memory; they die when there is none. */
void *cli_alloc(size_t n, size_t size); /* cleared */
void *cli_grow(void *array, size_t n, size_t size); /* room for one more after n; capacity doubles at powers of two */
char *cli_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Text with the control characters of untrusted names replaced. */
void cli_write_clean(FILE *to, const char *text, size_t n);

/* JSON. Untrusted names may hold any bytes: what is no UTF-8 becomes '?'. */
json_t *cli_json_text(const char *text); /* NULL gives null */
json_t *cli_json_number(double x);       /* null if not finite */
json_t *cli_json_known(double x);        /* null if negative */
json_t *cli_json_texts(const char *const *texts, size_t n);
void cli_json_set(json_t *object, const char *key, json_t *value); /* takes value; dies when memory is out */
void cli_json_add(json_t *array, json_t *value);
void cli_json_print(json_t *document, FILE *out); /* and drops it */

/* "1.50 MB", "12.3 GFLOP"; text must hold 32 bytes and is returned. */
const char *cli_scaled(double x, const char *unit, char *text);

double cli_now_ms(void);

#endif
