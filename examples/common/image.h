/* SPDX-License-Identifier: Apache-2.0 */
/* Pictures for the examples: PPM files, and the resampling that models expect before them. */
#ifndef EXAMPLES_IMAGE_H
#define EXAMPLES_IMAGE_H

#include <stdbool.h>

typedef struct image {
    int            width, height;
    unsigned char *rgb; /* 3 bytes a pixel, row by row; belongs to the image */
} image;

typedef struct rectangle {
    int left, top, width, height;
} rectangle;

enum { MOST_PIXELS = 1 << 26 };

/* Reads a binary PPM file (P6, 8 bits). false, with the reason on stderr, when it cannot. */
bool image_load(const char *path, image *picture);
bool image_save(const char *path, const image *picture);
void image_free(image *picture);

/*
 * Resamples a part of the picture to width x height, bilinearly, into three planes one after the other: red, green, blue, or
 * the other way round. Every value becomes scale * value + shift.
 */
void image_planes(const image *picture, rectangle part, int width, int height, bool is_bgr, float scale, float shift, float *planes);

/* Draws the outline of a rectangle, which may reach over the edge. */
void image_frame(image *picture, rectangle part, const unsigned char rgb[3]);

#endif
