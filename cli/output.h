/* SPDX-License-Identifier: Apache-2.0 */
/* A model's outputs as files in a folder. */
#ifndef OPFUSE_CLI_OUTPUT_H
#define OPFUSE_CLI_OUTPUT_H

#include "options.h"

/* Names of the files of n outputs, by the rules of the command line: see `opfuse run --help`. */
char **cli_output_files(const char *const *names, size_t n, const char *ending);
/* Writes them and outputs.tsv into options->folder. */
void cli_output_write(const cli_options *options, const char *const *names, const opf_tensor *tensors, char *const *files, size_t n);

#endif
