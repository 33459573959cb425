/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packed weights: belong to the model, built once, by all threads, shared by plans, sessions and threads. The key is the
 * constant, the format and the numbers that the format depends on.
 */
#ifndef OPF_PLAN_WEIGHTS_H
#define OPF_PLAN_WEIGHTS_H

#include "graph/constant.h"
#include "kernels/kern.h"

typedef struct opf_weights opf_weights;

/* kern packs them, and stays where it is. NULL when memory is out. */
opf_weights *opf_weights_create(opf_heap *heap, const opf_kern *kern);
void opf_weights_destroy(opf_weights **weights);
/* The mapped file in which most of the constants lie. */
void opf_weights_set_file(opf_weights *weights, const void *data, size_t bytes);
size_t opf_weights_bytes(opf_weights *weights); /* packed so far */

/* What a format needs besides the constant. */
typedef struct opf_weight_format {
    const char *name; /* "panels", "conv", … */
    int64_t     numbers[4];
    size_t      bytes;
    int64_t     units; /* that can be built apart: panels, or 1 */
    int64_t     rows;  /* of the constant's first axis, that a unit alone reads; 0: units share what they read */
    void (*build)(const opf_kern *kern, const opf_const *c, const int64_t *numbers, int64_t unit, void *dst, void *scratch);
    size_t scratch_bytes;
} opf_weight_format;

/* Where the packed form will be, 64-byte aligned, once opf_weights_build has run; NULL when memory is out. */
const void *opf_weights_get(opf_weights *weights, const opf_const *c, const opf_weight_format *format);

/* The same, built when it returns: for what plans read. */
const void *opf_weights_get_now(opf_weights *weights, const opf_const *c, const opf_weight_format *format);

/* The same for a form that takes `extra` bytes more than another one, for speed. These have a budget in bytes, 0 at first: NULL
   also when this one would exceed so many of it. */
const void *opf_weights_get_extra(opf_weights *weights, const opf_const *c, const opf_weight_format *format, size_t extra, size_t budgets);
void opf_weights_set_budget(opf_weights *weights, size_t bytes);
/* Whether L3 holds all that a run reads of the weights and of forms that take their budget. Its cores share it, and often machines
   that do not know of one another, so that it counts no more than 112 MB. */
bool opf_weights_stay_cached(const opf_weights *weights);

/* Threads to build with: run calls work(user, thread, threads) on each of them. */
typedef struct opf_weights_team {
    void (*run)(void *pool, void (*work)(void *user, int32_t thread, int32_t threads), void *user);
    void   *pool;
    int32_t threads;
} opf_weights_team;
/* Builds all that was asked for and is not there, by a plan of any session: to call before a plan runs. Mapped pages of the
   constants are given back then. False: no memory. */
bool opf_weights_build(opf_weights *weights, const opf_weights_team *team);

/* The constant in its own type, dense, to be read at once: where it lies if its address suits its type, else a copy. NULL: no memory. */
const void *opf_weights_plain(opf_weights *weights, const opf_const *c);

/* Rows [cols][k][taps] to the columns of a panel [taps][k][nr], the others of which become zero. */
void opf_pack_rows(const opf_kern *kern, const float *rows, int64_t cols, int64_t k, int64_t taps, int64_t nr, float *panel);

/* Formats. nr: columns of a panel. */
/* Matrix [k, n] (or [n, k] when transposed) to panels [n/nr][k][nr], times alpha. */
opf_weight_format opf_format_panels(int64_t k, int64_t n, int64_t nr, bool transposed);
/* Filters [o, c, taps…] of one of `groups` groups each to panels [groups][o/groups/nr][taps*c][nr]. */
opf_weight_format opf_format_conv(int64_t o, int64_t c, int64_t taps, int64_t groups, int64_t nr);
/* One panel of it, [taps][c][nr], of the filters first to first + cols - 1. scratch: nr * c * taps floats. */
void opf_conv_panel(const opf_kern *kern, const opf_const *w, int64_t first, int64_t cols, int64_t taps, int64_t nr, float *panel, float *scratch);
/* Filters [groups * o, c, taps…] to panels [points][groups][o/nr][c][nr] of their transforms, with so many taps and points down and across:
   1, or those of opf_winograd_pairs. */
opf_weight_format opf_format_winograd(int64_t o, int64_t c, int64_t groups, int64_t nr, const int64_t taps[2], const int64_t points[2]);
/* Filters [c, 1, taps…] to [taps][c]. */
opf_weight_format opf_format_depthwise(int64_t c, int64_t taps);
/* Filters [o, c, taps…] of groups of a few to blocks [groups/block][taps][c][lanes], as the kernel `grouped` takes them. */
opf_weight_format opf_format_grouped(int64_t o, int64_t c, int64_t taps, int64_t groups, int64_t lanes);
/* A vector of n floats padded with zeros to a multiple of nr, per group. */
opf_weight_format opf_format_vector(int64_t n, int64_t groups, int64_t nr);

#endif
