/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes of mapped files that were packed: the kernel reads them again from the file if they are ever needed. Given back in few large
 * pieces, since each call interrupts the other threads. Thread safe.
 */
#ifndef OPF_PLAN_RETURNED_PAGES_H
#define OPF_PLAN_RETURNED_PAGES_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

typedef struct opf_page_range {
    uintptr_t begin, end;
} opf_page_range;

typedef struct opf_returned_pages {
    pthread_mutex_t lock;
    opf_page_range  file; /* in which whatever lies between two ranges may be given back with them */
    opf_page_range  ranges[8];
    uint32_t        n;
} opf_returned_pages;

void opf_returned_pages_add(opf_returned_pages *pages, const void *data, size_t bytes);
void opf_returned_pages_flush(opf_returned_pages *pages); /* what is left */

#endif
