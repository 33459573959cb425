/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/returned_pages.h"

#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

/* Under the lock. Whole pages only: others hold something else too. */
static void flush(opf_returned_pages *pages)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    for (uint32_t i = 0; i < pages->n; i++) {
        const uintptr_t begin = (pages->ranges[i].begin + page - 1) & ~(page - 1), end = pages->ranges[i].end & ~(page - 1);
        if (begin < end)
            (void)madvise((void *)begin, end - begin, MADV_DONTNEED);
    }
    pages->n = 0;
}

/* Between files there may be anything: across a gap of pages only within the one. */
static bool joins(const opf_returned_pages *pages, const opf_page_range *a, const opf_page_range *b)
{
    enum { NEAR = 256 << 10 };
    const bool      in_file = a->begin >= pages->file.begin && a->end <= pages->file.end && b->begin >= pages->file.begin && b->end <= pages->file.end;
    const uintptr_t gap     = in_file ? NEAR : 0;
    return a->begin <= b->end + gap && b->begin <= a->end + gap;
}

void opf_returned_pages_add(opf_returned_pages *pages, const void *data, size_t bytes)
{
    enum { MOST = 1 << 20 };
    const opf_page_range fresh = {(uintptr_t)data, (uintptr_t)data + bytes};
    uint32_t             i     = 0;
    size_t               sum   = 0;
    (void)pthread_mutex_lock(&pages->lock);
    while (i < pages->n && !joins(pages, &pages->ranges[i], &fresh))
        i++;
    if (i == sizeof pages->ranges / sizeof pages->ranges[0]) {
        flush(pages);
        i = 0;
    }
    if (i == pages->n) {
        pages->ranges[pages->n++] = fresh;
    } else {
        opf_page_range *range = &pages->ranges[i];
        range->begin          = range->begin < fresh.begin ? range->begin : fresh.begin;
        range->end            = range->end > fresh.end ? range->end : fresh.end;
    }
    for (i = 0; i < pages->n; i++)
        sum += pages->ranges[i].end - pages->ranges[i].begin;
    if (sum >= MOST)
        flush(pages);
    (void)pthread_mutex_unlock(&pages->lock);
}

void opf_returned_pages_flush(opf_returned_pages *pages)
{
    (void)pthread_mutex_lock(&pages->lock);
    flush(pages);
    (void)pthread_mutex_unlock(&pages->lock);
}
