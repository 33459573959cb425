/* SPDX-License-Identifier: Apache-2.0 */
/* A file that appears whole or not at all: written beside its place, synced, renamed. */
#ifndef OPF_ONNX_OUTPUT_H
#define OPF_ONNX_OUTPUT_H

#include "base/status.h"

#include <limits.h>

typedef struct opf_output {
    const char *path; /* borrowed */
    char        temporary[PATH_MAX];
    int         file;
} opf_output;

opf_status opf_output_open(opf_output *output, const char *path, opf_error *error);
/* After a failure, call opf_output_discard. */
opf_status opf_output_write(opf_output *output, const void *data, size_t bytes, opf_error *error);
/* Either way the output is closed: on failure nothing is left behind. */
opf_status opf_output_commit(opf_output *output, opf_error *error);
void opf_output_discard(opf_output *output);

#endif
