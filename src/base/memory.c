/* SPDX-License-Identifier: Apache-2.0 */
#include "base/memory.h"

#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *system_alloc(void *user, size_t bytes, size_t alignment)
{
    (void)user;
    size_t rounded;
    if (!opf_add_size(bytes, alignment - 1, &rounded))
        return NULL;
    return aligned_alloc(alignment, rounded & ~(alignment - 1));
}

static void system_release(void *user, void *pointer, size_t bytes)
{
    (void)user;
    (void)bytes;
    free(pointer);
}

void opf_heap_init(opf_heap *heap, const opf_allocator *allocator, size_t limit)
{
    heap->allocator = allocator != NULL ? *allocator : (opf_allocator){system_alloc, system_release, NULL};
    heap->limit     = limit == 0 ? SIZE_MAX : limit;
    atomic_init(&heap->used, 0);
    atomic_init(&heap->was_limited, false);
}

opf_status opf_heap_status(const opf_heap *heap, opf_status status, opf_error *error)
{
    if (status != OPF_OUT_OF_MEMORY || !atomic_load(&heap->was_limited))
        return status;
    return opf_fail(error, OPF_LIMIT, "more memory is needed than the limit memory, %zu bytes", heap->limit);
}

void *opf_heap_alloc(opf_heap *heap, size_t bytes)
{
    if (bytes == 0)
        bytes = 1;
    size_t before = atomic_fetch_add(&heap->used, bytes);
    void  *pointer = NULL;
    if (bytes <= heap->limit && before <= heap->limit - bytes)
        pointer = heap->allocator.alloc(heap->allocator.user, bytes, OPF_ALIGNMENT);
    else
        atomic_store(&heap->was_limited, true);
    if (pointer == NULL)
        atomic_fetch_sub(&heap->used, bytes);
    return pointer;
}

void opf_heap_free(opf_heap *heap, void *pointer, size_t bytes)
{
    if (pointer == NULL)
        return;
    if (bytes == 0)
        bytes = 1;
    heap->allocator.release(heap->allocator.user, pointer, bytes);
    atomic_fetch_sub(&heap->used, bytes);
}

struct opf_arena_block {
    struct opf_arena_block *next;
    size_t                  size, used; /* bytes, this header included */
};

enum { BLOCK_BYTES = 64 * 1024, ARENA_ALIGNMENT = 16 };

void opf_arena_init(opf_arena *arena, opf_heap *heap)
{
    arena->heap   = heap;
    arena->blocks = NULL;
}

void opf_arena_fini(opf_arena *arena)
{
    for (struct opf_arena_block *block = arena->blocks, *next; block != NULL; block = next) {
        next = block->next;
        opf_heap_free(arena->heap, block, block->size);
    }
    arena->blocks = NULL;
}

static size_t round_up(size_t bytes)
{
    return (bytes + ARENA_ALIGNMENT - 1) & ~(size_t)(ARENA_ALIGNMENT - 1);
}

void *opf_arena_alloc(opf_arena *arena, size_t bytes)
{
    if (bytes > SIZE_MAX / 2)
        return NULL;
    size_t                  need  = round_up(bytes == 0 ? 1 : bytes);
    struct opf_arena_block *block = arena->blocks;
    if (block == NULL || block->size - block->used < need) {
        size_t header = round_up(sizeof *block);
        size_t size   = header + need > BLOCK_BYTES ? header + need : BLOCK_BYTES;
        struct opf_arena_block *fresh = opf_heap_alloc(arena->heap, size);
        if (fresh == NULL)
            return NULL;
        fresh->size = size;
        fresh->used = header;
        /* A large object gets a block of its own behind the current one, which keeps its free tail. */
        if (block != NULL && need > BLOCK_BYTES / 4) {
            fresh->next = block->next;
            block->next = fresh;
        } else {
            fresh->next   = block;
            arena->blocks = fresh;
        }
        block = fresh;
    }
    void *pointer = (char *)block + block->used;
    block->used += need;
    return memset(pointer, 0, need);
}

void *opf_arena_alloc_n(opf_arena *arena, size_t size, size_t n)
{
    size_t bytes;
    return opf_mul_size(size, n, &bytes) ? opf_arena_alloc(arena, bytes) : NULL;
}

void *opf_arena_copy(opf_arena *arena, const void *data, size_t bytes)
{
    void *copy = opf_arena_alloc(arena, bytes);
    if (copy != NULL && bytes != 0)
        memcpy(copy, data, bytes);
    return copy;
}

char *opf_arena_copy_string(opf_arena *arena, const char *text, size_t length)
{
    char *copy = length == SIZE_MAX ? NULL : opf_arena_alloc(arena, length + 1);
    if (copy != NULL && length != 0)
        memcpy(copy, text, length);
    return copy;
}

char *opf_arena_printf(opf_arena *arena, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    char *text = length < 0 ? NULL : opf_arena_alloc(arena, (size_t)length + 1);
    if (text == NULL)
        return NULL;
    va_start(arguments, format);
    (void)vsnprintf(text, (size_t)length + 1, format, arguments);
    va_end(arguments);
    return text;
}

bool opf_arena_grow(opf_arena *arena, void **array, size_t size, size_t n, uint32_t *capacity)
{
    uint32_t grown = *capacity == 0 ? 4 : *capacity * 2;
    if (grown < *capacity)
        return false;
    void *copy = opf_arena_alloc_n(arena, size, grown);
    if (copy == NULL)
        return false;
    if (n != 0)
        memcpy(copy, *array, size * n);
    *array    = copy;
    *capacity = grown;
    return true;
}

void opf_text_init(opf_text *text, opf_arena *arena)
{
    *text = (opf_text){.arena = arena};
}

static bool text_reserve(opf_text *text, size_t extra)
{
    size_t need;
    if (text->failed || !opf_add_size(text->length, extra, &need) || !opf_add_size(need, 1, &need)) {
        text->failed = true;
        return false;
    }
    if (need <= text->capacity)
        return true;
    size_t capacity = text->capacity == 0 ? 256 : text->capacity;
    while (capacity < need)
        capacity *= 2;
    char *data = opf_arena_alloc(text->arena, capacity);
    if (data == NULL) {
        text->failed = true;
        return false;
    }
    if (text->length != 0)
        memcpy(data, text->data, text->length);
    text->data     = data;
    text->capacity = capacity;
    return true;
}

void opf_text_add_bytes(opf_text *text, const char *bytes, size_t n)
{
    if (!text_reserve(text, n))
        return;
    if (n != 0)
        memcpy(text->data + text->length, bytes, n);
    text->length += n;
    text->data[text->length] = '\0';
}

void opf_text_add(opf_text *text, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (length < 0 || !text_reserve(text, (size_t)length)) {
        text->failed = true;
        return;
    }
    va_start(arguments, format);
    (void)vsnprintf(text->data + text->length, (size_t)length + 1, format, arguments);
    va_end(arguments);
    text->length += (size_t)length;
}
