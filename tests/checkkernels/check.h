/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The checks of one kernel table against double references. Arrays lie against unreadable pages, at their end or at
 * their start, so a kernel that reads or writes beyond them faults; what lies on the other side is a band that is
 * compared.
 */
#ifndef CHECK_H
#define CHECK_H

#include "kernels/kern.h"

#include <stdbool.h>

typedef struct checker {
    const opf_kern *kern;
    uint64_t random;
    int n_buffers;
    bool failed;
    char message[256]; /* the first failure */
} checker;

/* Ends the arrays of the last round. */
void check_reset(checker *check);
float *check_array(checker *check, size_t n);
void check_fill(checker *check, float *x, size_t n, double scale); /* normally distributed */
void check_spoil(checker *check, float *x, size_t n); /* an element, if there is one, becomes infinite or NaN */
void check_bands(checker *check);                     /* of all arrays */

uint64_t check_random(checker *check, uint64_t below);
double check_uniform(checker *check); /* 0 to 1 */
double check_normal(checker *check);
/* A size: 0 (unless least is more), 1, around multiples of 8, 16 and 32, or anything up to most. */
size_t check_size(checker *check, size_t least, size_t most);

void check_fail(checker *check, const char *format, ...) __attribute__((format(printf, 2, 3)));
double check_ulps(float got, double want); /* 0 when both are NaN or equal infinities */
bool check_same(float a, float b);         /* equal, or both NaN */

/* One check a slot: its pointer in the table decides whether a level has a kernel of its own. */
typedef struct check_slot {
    const char *name;
    size_t offset; /* in opf_kern */
    void (*run)(checker *check, int index);
    int index;
} check_slot;
typedef struct check_family {
    const check_slot *slots;
    size_t n;
} check_family;

extern const check_family check_ew_family, check_gemm_family, check_row_family, check_window_family, check_copy_family,
    check_program_family, check_norm_family, check_depthwise_family, check_grouped_family, check_winograd_family,
    check_resize_family, check_planes_family;

#endif
