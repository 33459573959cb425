/* SPDX-License-Identifier: Apache-2.0 */
/* Finding the cases of `opfuse test`. */
#ifndef OPFUSE_CLI_WALK_H
#define OPFUSE_CLI_WALK_H

#include "cli.h"

typedef struct cli_case {
    char *name, *folder;
} cli_case;

typedef struct cli_cases {
    cli_case *items;
    size_t    n;
} cli_cases;

/* Appends the cases at or under a path, sorted by name. Links are followed; a folder inside itself is not. */
void cli_find_cases(cli_cases *cases, const char *path);
void cli_cases_free(cli_cases *cases);

typedef struct cli_numbers {
    size_t *items;
    size_t  n;
} cli_numbers;

/* The numbers of entries called PREFIX<number>SUFFIX, ascending; the caller frees items. */
cli_numbers cli_find_numbers(const char *folder, const char *prefix, const char *suffix);

#endif
