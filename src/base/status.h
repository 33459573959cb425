/* SPDX-License-Identifier: Apache-2.0 */
/* Errors: filled once, at the deepest point; the error pointer may be NULL. */
#ifndef OPF_BASE_STATUS_H
#define OPF_BASE_STATUS_H

#include "opfuse/opfuse.h"

/* Fills error (if any) and returns status: `return opf_fail(error, OPF_IO, "…", …);` */
#define opf_fail(error, status, ...) opf_fail_at((error), (status), __FILE__, __LINE__, __VA_ARGS__)
opf_status opf_fail_at(opf_error *error, opf_status status, const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* Puts "prefix: " before the message of an error that is already filled. */
void opf_error_prefix(opf_error *error, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define OPF_TRY(expression)                                                                                            \
    do {                                                                                                               \
        opf_status try_status_ = (expression);                                                                         \
        if (try_status_ != OPF_OK)                                                                                     \
            return try_status_;                                                                                        \
    } while (0)

#define OPF_FAIL_IF(error, condition, status, ...)                                                                     \
    do {                                                                                                               \
        if (condition)                                                                                                 \
            return opf_fail((error), (status), __VA_ARGS__);                                                           \
    } while (0)

#define OPF_OOM_IF(error, condition) OPF_FAIL_IF(error, condition, OPF_OUT_OF_MEMORY, "out of memory")

#endif
