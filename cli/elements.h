/* SPDX-License-Identifier: Apache-2.0 */
/* Single elements of tensors of any type, for making inputs and printing outputs. */
#ifndef OPFUSE_CLI_ELEMENTS_H
#define OPFUSE_CLI_ELEMENTS_H

#include "cli.h"

typedef enum cli_kind { CLI_KIND_NONE, CLI_KIND_REAL, CLI_KIND_SIGNED, CLI_KIND_UNSIGNED, CLI_KIND_BOOL } cli_kind;

cli_kind cli_type_kind(opf_type type); /* complex types are pairs of reals: see cli_type_parts */
size_t cli_type_parts(opf_type type);  /* numbers in one element: 2 for complex types, else 1 */
bool cli_type_fits_npy(opf_type type);

/* Elements and bytes of these dimensions; false when that overflows or the type has no size. */
bool cli_tensor_size(opf_type type, int32_t rank, const int64_t *dims, size_t *count, size_t *bytes);

/* i counts numbers (parts). Reals are rounded to nearest even and saturate; integers wrap. */
void cli_store_real(opf_type type, void *data, size_t i, double x);
void cli_store_integer(opf_type type, void *data, size_t i, uint64_t x);
/* The shortest usual text of number i; text must hold 32 bytes and is returned. */
const char *cli_element_text(opf_type type, const void *data, size_t i, char *text);

#endif
