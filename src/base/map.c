/* SPDX-License-Identifier: Apache-2.0 */
#include "base/map.h"

#include <string.h>

static uint64_t fold(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u; /* odd, its bits as if at random: 2^64 by the golden ratio */
    return hash ^ hash >> 32;
}

uint32_t opf_hash_bytes(const void *data, size_t n, uint32_t seed)
{
    const unsigned char *bytes = data;
    uint64_t             hash = fold(n, seed), word;
    for (; n >= sizeof word; n -= sizeof word, bytes += sizeof word) {
        memcpy(&word, bytes, sizeof word);
        hash = fold(hash, word);
    }
    word = 0;
    for (size_t i = 0; i < n; i++)
        word = word << 8 | bytes[i];
    return (uint32_t)fold(hash, word);
}

void opf_map_init(opf_map *map, opf_arena *arena)
{
    *map = (opf_map){.arena = arena};
}

/* The entry of key, or the free one where it belongs; capacity is not 0 and the table is never full. */
static opf_map_entry *find(opf_map_entry *entries, uint32_t capacity, const char *key, uint32_t hash)
{
    for (uint32_t i = hash;; i++) {
        opf_map_entry *entry = &entries[i & (capacity - 1)];
        if (entry->key == NULL || (entry->hash == hash && strcmp(entry->key, key) == 0))
            return entry;
    }
}

static bool grow(opf_map *map)
{
    uint32_t capacity = map->capacity == 0 ? 16 : map->capacity * 2;
    if (capacity < map->capacity)
        return false;
    opf_map_entry *entries = OPF_NEW(map->arena, opf_map_entry, capacity);
    if (entries == NULL)
        return false;
    for (uint32_t i = 0; i < map->capacity; i++)
        if (map->entries[i].key != NULL)
            *find(entries, capacity, map->entries[i].key, map->entries[i].hash) = map->entries[i];
    map->entries  = entries;
    map->capacity = capacity;
    return true;
}

bool opf_map_put(opf_map *map, const char *key, uint32_t value)
{
    if ((uint64_t)map->n * 4 >= (uint64_t)map->capacity * 3 && !grow(map))
        return false;
    uint32_t       hash  = opf_hash_bytes(key, strlen(key), 0);
    opf_map_entry *entry = find(map->entries, map->capacity, key, hash);
    if (entry->key == NULL)
        map->n++;
    *entry = (opf_map_entry){key, value, hash};
    return true;
}

bool opf_map_get(const opf_map *map, const char *key, uint32_t *value)
{
    if (map->capacity == 0)
        return false;
    const opf_map_entry *entry = find(map->entries, map->capacity, key, opf_hash_bytes(key, strlen(key), 0));
    if (entry->key == NULL)
        return false;
    if (value != NULL)
        *value = entry->value;
    return true;
}
