/* SPDX-License-Identifier: Apache-2.0 */
/* Weights of the product behind the one at hand, fetched to L2 by its last panels while what they read themselves is there. */
#ifndef OPF_PLAN_GEMM_AHEAD_H
#define OPF_PLAN_GEMM_AHEAD_H

#include "plan/gemm.h"

typedef struct opf_ahead {
    const float *at;     /* what is read first */
    size_t       floats; /* of it; 0: nothing is known to come, or nothing that can be fetched */
} opf_ahead;

/* For the thread whose units begin at `begin`: where it most likely begins in the product behind g, as units are dealt out in equal
   shares; at most half of L2, since the operands of g need the rest. */
opf_ahead opf_ahead_of(const opf_run_env *env, const opf_gemm_args *g, size_t begin);
/* The panels before the last one, of `most`, that fetch a panel's worth, so many floats, each beside its own next panel. */
size_t opf_ahead_panels(const opf_ahead *ahead, size_t nr, size_t floats, size_t most);
/* Has each of n tiles fetch a share of piece i of it beside its share of tile->next_b; returns the floats from one share to the next. */
size_t opf_ahead_beside(const opf_ahead *ahead, size_t i, opf_gemm_tile *tile, size_t nr, size_t floats, size_t n);
/* Has each of n tiles of k steps fetch a share of what is behind the first `done` floats, as far as that gets with a line of each half
   a step; returns the same. */
size_t opf_ahead_rest(const opf_ahead *ahead, size_t done, opf_gemm_tile *tile, size_t nr, size_t k, size_t n);

#endif
