/* SPDX-License-Identifier: Apache-2.0 */
/* A map from strings to numbers, in an arena: open addressing, keys are borrowed. */
#ifndef OPF_BASE_MAP_H
#define OPF_BASE_MAP_H

#include "base/memory.h"

typedef struct opf_map_entry {
    const char *key; /* NULL: free */
    uint32_t    value;
    uint32_t    hash;
} opf_map_entry;

typedef struct opf_map {
    opf_arena     *arena;
    opf_map_entry *entries;
    uint32_t       n, capacity; /* capacity is 0 or a power of two */
} opf_map;

void opf_map_init(opf_map *map, opf_arena *arena);
/* Sets or replaces. False when memory is out. */
bool opf_map_put(opf_map *map, const char *key, uint32_t value);
/* False: not there. value may be NULL. */
bool opf_map_get(const opf_map *map, const char *key, uint32_t *value);

uint32_t opf_hash_bytes(const void *data, size_t n, uint32_t seed); /* multiplied and folded, 8 bytes at a time */

#endif
