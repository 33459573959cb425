/* SPDX-License-Identifier: Apache-2.0 */
/* The rules that come with the library. */
#ifndef OPF_FUSE_BUILTIN_H
#define OPF_FUSE_BUILTIN_H

#include "fuse/context.h"

typedef struct opf_builtin_rule {
    const char *name, *family, *text;
} opf_builtin_rule;

extern const opf_builtin_rule opf_builtin_rules[]; /* in order of priority; the last has no name */

#endif
