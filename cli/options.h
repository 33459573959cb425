/* SPDX-License-Identifier: Apache-2.0 */
/* One parser for the options of all commands; each command says which of them it takes. */
#ifndef OPFUSE_CLI_OPTIONS_H
#define OPFUSE_CLI_OPTIONS_H

#include "cli.h"

typedef enum cli_option {
    CLI_INPUT,
    CLI_SHAPE,
    CLI_DIM,
    CLI_OUTPUT,
    CLI_MODEL_OUTPUT,
    CLI_TARGET,
    CLI_OPSET,
    CLI_FORMAT,
    CLI_RTOL,
    CLI_ATOL,
    CLI_EACH,
    CLI_RUNS,
    CLI_WARMUP,
    CLI_SECONDS,
    CLI_ABLATE,
    CLI_SERVE,
    CLI_DOT,
    CLI_NODE,
    CLI_RULE,
    CLI_STAGE,
    CLI_MARKDOWN,
    CLI_THREADS,
    CLI_CPU,
    CLI_REFERENCE,
    CLI_NO_FUSE,
    CLI_ONLY,
    CLI_SKIP,
    CLI_RULES,
    CLI_EXACT,
    CLI_FLUSH_DENORMALS,
    CLI_FREEZE,
    CLI_OVERRIDABLE,
    CLI_LIMIT,
    CLI_NO_MMAP,
    CLI_JSON,
    CLI_QUIET,
} cli_option;

#define CLI_BIT(option) ((uint64_t)1 << (option))
#define CLI_SIZE_OPTIONS (CLI_BIT(CLI_SHAPE) | CLI_BIT(CLI_DIM))
#define CLI_FUSE_OPTIONS (CLI_BIT(CLI_ONLY) | CLI_BIT(CLI_SKIP) | CLI_BIT(CLI_RULES))
#define CLI_MODEL_OPTIONS                                                                                              \
    (CLI_FUSE_OPTIONS | CLI_BIT(CLI_CPU) | CLI_BIT(CLI_EXACT) | CLI_BIT(CLI_FREEZE) | CLI_BIT(CLI_OVERRIDABLE) |       \
     CLI_BIT(CLI_LIMIT) | CLI_BIT(CLI_NO_MMAP))
#define CLI_SESSION_OPTIONS                                                                                            \
    (CLI_BIT(CLI_THREADS) | CLI_BIT(CLI_REFERENCE) | CLI_BIT(CLI_NO_FUSE) | CLI_BIT(CLI_FLUSH_DENORMALS))
#define CLI_COMMON_OPTIONS (CLI_BIT(CLI_JSON) | CLI_BIT(CLI_QUIET))

typedef struct cli_texts {
    const char **items;
    size_t       n;
} cli_texts;

typedef struct cli_source {
    const char *name; /* of the input */
    const char *from; /* a file, "zeros", "ones", "random…" */
} cli_source;

struct cli_options {
    const cli_command *command;
    cli_texts          paths;
    cli_source        *inputs;
    size_t             n_inputs;
    opf_named_shape   *shapes;
    size_t             n_shapes;
    opf_named_value   *dims;
    size_t             n_dims;
    opf_named_value   *limits;
    size_t             n_limits;
    cli_texts          only, skip, rules, overridable;
    const char        *folder /* -o */, *format, *dot, *node, *rule, *stage, *cpu, *target;
    double             rtol, atol; /* negative: not given */
    double             seconds;    /* negative: not given */
    int64_t            threads, runs, warmup, opset; /* negative: not given */
    bool reference, no_fuse, exact, flush_denormals, freeze, no_mmap, each, ablate, serve, markdown, json, quiet;
};

/* Cuts argv's strings in place and points into them. Dies on wrong usage; prints help and exits on --help. */
void cli_options_parse(cli_options *options, const cli_command *command, int argc, char **argv);
void cli_options_free(cli_options *options);
void cli_print_help(const cli_command *command, FILE *out);

/* What the library is told; points into options, and logs to stderr unless --quiet. */
opf_model_options cli_model_options(const cli_options *options);
opf_session_options cli_session_options(const cli_options *options);
opf_model *cli_open_model(const cli_options *options); /* options->paths.items[0]; dies */

#endif
