/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory: the one place that allocates. A model's structures live in an arena that is freed as a whole; large buffers
 * (weights, activations) come from the allocator directly. Everything is counted against the limit "memory".
 */
#ifndef OPF_BASE_MEMORY_H
#define OPF_BASE_MEMORY_H

#include "opfuse/opfuse.h"

#include <stdatomic.h>

#define OPF_ALIGNMENT 64u /* bytes; of every buffer that kernels see */

/* Where memory comes from, and how much is in use. Shared by everything that belongs to one model; thread safe. */
typedef struct opf_heap {
    opf_allocator  allocator;
    size_t         limit; /* bytes */
    _Atomic size_t used;
    atomic_bool    was_limited; /* an allocation was refused by the limit, not by the system */
} opf_heap;

/* allocator NULL: the system's. limit 0: none. */
void opf_heap_init(opf_heap *heap, const opf_allocator *allocator, size_t limit);
/* Out of memory because of the limit is OPF_LIMIT: says so in status and message, and leaves all else as it is. */
opf_status opf_heap_status(const opf_heap *heap, opf_status status, opf_error *error);
/* 64-byte aligned, not cleared; NULL when there is no memory or the limit is reached. bytes 0 gives a valid pointer. */
void *opf_heap_alloc(opf_heap *heap, size_t bytes);
void opf_heap_free(opf_heap *heap, void *pointer, size_t bytes); /* the bytes it was allocated with */

/* A bump allocator: no single object is freed. Not thread safe. */
typedef struct opf_arena {
    opf_heap               *heap;
    struct opf_arena_block *blocks;
} opf_arena;

void opf_arena_init(opf_arena *arena, opf_heap *heap);
void opf_arena_fini(opf_arena *arena);
void *opf_arena_alloc(opf_arena *arena, size_t bytes); /* cleared, 16-byte aligned; NULL when there is no memory */
char *opf_arena_copy_string(opf_arena *arena, const char *text, size_t length); /* adds the final zero */
char *opf_arena_printf(opf_arena *arena, const char *format, ...) __attribute__((format(printf, 2, 3)));
void *opf_arena_copy(opf_arena *arena, const void *data, size_t bytes);

/* n cleared objects of a type, NULL when there is no memory; n may be 0. */
#define OPF_NEW(arena, type, n) ((type *)opf_arena_alloc_n((arena), sizeof(type), (size_t)(n)))
void *opf_arena_alloc_n(opf_arena *arena, size_t size, size_t n);

/* Appends to an array that lives in an arena: `if (!OPF_PUSH(arena, list, n, capacity, item)) return OOM`.
   capacity is a uint32_t or size_t kept beside the array; growing doubles it. */
#define OPF_PUSH(arena, array, n, capacity, item)                                                                      \
    (((n) < (capacity) ||                                                                                              \
      opf_arena_grow((arena), (void **)(void *)&(array), sizeof *(array), (size_t)(n), &(capacity)))                   \
         ? ((array)[(n)++] = (item), true)                                                                             \
         : false)
bool opf_arena_grow(opf_arena *arena, void **array, size_t size, size_t n, uint32_t *capacity);

/* Text that grows, in an arena. A failed append makes the whole text fail: check ok at the end. */
typedef struct opf_text {
    opf_arena *arena;
    char      *data; /* always zero-terminated once something was appended */
    size_t     length, capacity;
    bool       failed;
} opf_text;
void opf_text_init(opf_text *text, opf_arena *arena);
void opf_text_add(opf_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void opf_text_add_bytes(opf_text *text, const char *bytes, size_t n);

/* a * b and a + b; false when they overflow. */
static inline bool opf_mul_size(size_t a, size_t b, size_t *result)
{
    return !__builtin_mul_overflow(a, b, result);
}
static inline bool opf_add_size(size_t a, size_t b, size_t *result)
{
    return !__builtin_add_overflow(a, b, result);
}

#endif
