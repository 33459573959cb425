/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random tensors that anybody can make again. The generator is xoshiro256**, its state four outputs of splitmix64
 * started at SEED xor the FNV-1a hash of the input's name. Reals are N(0,1) by Box and Muller: u and v are the upper
 * 53 bits of two outputs, u taken from (0,1], v from [0,1); sqrt(-2 ln u) cos(2 pi v) comes first, then the sine.
 * With a range, reals are LO + v (HI - LO); integers lie in LO..HI, both ends included, by rejection.
 */
#ifndef OPFUSE_CLI_RANDOM_H
#define OPFUSE_CLI_RANDOM_H

#include "cli.h"

typedef struct cli_random_range {
    const char *low, *high; /* as written; NULL: none given */
} cli_random_range;

/* Fills tensor->data; name is the input's. Dies when the range does not fit the type. */
void cli_random_fill(opf_tensor *tensor, const char *name, uint64_t seed, cli_random_range range);

#endif
