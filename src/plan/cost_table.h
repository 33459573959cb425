/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The constants by which plan chooses between kernels. bench/tune.py (make tune) measures them offline; a plan never
 * measures anything. They are bounds, by CPU level where levels differ, not a model of one machine.
 */
#ifndef OPF_PLAN_COST_TABLE_H
#define OPF_PLAN_COST_TABLE_H

/* Winograd instead of the direct form, with tiles of 4, else of 2. Below these bounds the transforms, tiles that overhang the
   image, or the larger filters (four times and 1.8 times) cost what the products save: filters beyond L2 stream by once, and
   few tiles wait for them. Within the bounds it is 1.3 to 2.9 times as fast on Zen 4, Zen 5 and a Xeon, AVX-512 and AVX2. */
enum {
    OPF_COST_WINOGRAD_LARGEST_TILE          = 4,       /* that is tried */
    OPF_COST_WINOGRAD_CHANNELS              = 8,       /* of the input, and filters */
    OPF_COST_WINOGRAD_TILES                 = 4,       /* of 4x4 pixels, of all images */
    OPF_COST_WINOGRAD_TILES_OF_FOUR         = 16,      /* tiles of 4, from where on they are better than tiles of 2: fewer of */
    OPF_COST_WINOGRAD_TILES_OF_FOUR_AVX512  = 17,      /* them wait for filters of 2.25 times the bytes; AVX-512: of few filters */
    OPF_COST_WINOGRAD_LARGE                 = 4194304, /* bytes of transformed filters, from where on */
    OPF_COST_WINOGRAD_TILES_OF_LARGE        = 12,      /* the pixels of so many tiles pay for reading them */
    OPF_COST_WINOGRAD_TILES_OF_LARGE_AVX512 = 16,      /* which products of twice the speed wait for sooner */
    OPF_COST_WINOGRAD_PIXELS_OF_TILE        = 9        /* of 16, that lie inside the image on average */
};

/* The same for other taps than 3x3, which save less: 1.17 times as fast on average where they are taken, 5x5 1.39 times. */
enum {
    OPF_COST_TAPS_CHANNELS = 32, /* of the input, and filters */
    OPF_COST_TAPS_TILES    = 4,  /* of any size, of all images */
    OPF_COST_TAPS_PRODUCTS = 13  /* of 16, that are left at most, with those of tiles that overhang the image */
};

#endif
