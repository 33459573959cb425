/* SPDX-License-Identifier: Apache-2.0 */
#include "base/tally.h"

#include <string.h>

bool opf_tally_add(opf_tally *tally, opf_arena *arena, const char *name)
{
    tally->total++;
    for (uint32_t i = 0; i < tally->n; i++)
        if (strcmp(tally->list[i].op, name) == 0) {
            tally->list[i].count++;
            return true;
        }
    return OPF_PUSH(arena, tally->list, tally->n, tally->capacity, ((opf_op_count){name, 1}));
}
