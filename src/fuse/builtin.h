/* SPDX-License-Identifier: Apache-2.0 */
/* The rules that come with the library. */
#ifndef OPF_FUSE_BUILTIN_H
#define OPF_FUSE_BUILTIN_H

#include "fuse/context.h"

typedef struct opf_builtin_rule {
    const char *name, *family;
    const opf_op *const *ops; /* every operator that a match may begin from is one of them; the last is NULL */
    const char *text;
} opf_builtin_rule;

extern const opf_builtin_rule opf_builtin_rules[]; /* in order of priority; the last has no name */

#endif
