/* SPDX-License-Identifier: Apache-2.0 */
/* Whole files, read and written. */
#ifndef OPFUSE_CLI_FILES_H
#define OPFUSE_CLI_FILES_H

#include "cli.h"

/* Contents in memory that the caller frees; dies when it cannot. */
unsigned char *cli_read_file(const char *path, size_t *size);
/* The file appears whole or not at all; dies when it cannot. */
void cli_write_file(const char *path, const char *data, size_t size);
void cli_make_folder(const char *path); /* and the folders above it */
bool cli_ends_with(const char *text, const char *end);

/* The array NAME.npy of an .npz archive, or the only one of it. Free it with opf_tensor_free. */
void cli_npz_load(const char *path, const char *name, opf_tensor *tensor);

#endif
