/* SPDX-License-Identifier: Apache-2.0 */
/* How often each name occurs, in the order of first occurrence. Names are borrowed. */
#ifndef OPF_BASE_TALLY_H
#define OPF_BASE_TALLY_H

#include "base/memory.h"

typedef struct opf_tally {
    opf_op_count *list;
    uint32_t      n, capacity;
    size_t        total;
} opf_tally;

/* False when memory is out. */
bool opf_tally_add(opf_tally *tally, opf_arena *arena, const char *name);

#endif
