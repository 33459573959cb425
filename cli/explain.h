/* SPDX-License-Identifier: Apache-2.0 */
/* The forms of an explanation. */
#ifndef OPFUSE_CLI_EXPLAIN_H
#define OPFUSE_CLI_EXPLAIN_H

#include "options.h"

void cli_explain_text(const cli_options *options, const opf_explanation *e, FILE *out);
void cli_explain_json(const cli_options *options, const opf_explanation *e, FILE *out);
void cli_explain_dot(const cli_options *options, const opf_explanation *e, FILE *out);
bool cli_has_text(const char *const *texts, size_t n, const char *text);

#endif
