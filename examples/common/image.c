/* SPDX-License-Identifier: Apache-2.0 */
#include "image.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* A number of the header, after white space and comments; -1 if there is none. */
static int header_number(FILE *file)
{
    int c = fgetc(file);
    while (isspace(c) || c == '#') {
        while (c == '#' && (c = fgetc(file)) != '\n' && c != EOF)
            c = '#';
        c = fgetc(file);
    }
    int number = isdigit(c) ? 0 : -1;
    for (; isdigit(c) && number < MOST_PIXELS; c = fgetc(file))
        number = number * 10 + (c - '0');
    return number;
}

bool image_load(const char *path, image *picture)
{
    *picture    = (image){0};
    FILE *file  = fopen(path, "rb");
    bool  is_ok = file != NULL && fgetc(file) == 'P' && fgetc(file) == '6';
    if (is_ok) {
        picture->width  = header_number(file);
        picture->height = header_number(file);
        is_ok = header_number(file) == 255 && picture->width > 0 && picture->height > 0 && picture->height <= MOST_PIXELS / picture->width;
    }
    const size_t bytes = is_ok ? (size_t)picture->width * (size_t)picture->height * 3 : 0;
    if (is_ok) {
        picture->rgb = malloc(bytes);
        is_ok        = picture->rgb != NULL && fread(picture->rgb, 1, bytes, file) == bytes;
    }
    if (file == NULL)
        perror(path);
    else if (!is_ok)
        fprintf(stderr, "%s: not a whole PPM file (P6, 8 bits)\n", path);
    if (file != NULL)
        (void)fclose(file);
    if (!is_ok)
        image_free(picture);
    return is_ok;
}

bool image_save(const char *path, const image *picture)
{
    const size_t bytes = (size_t)picture->width * (size_t)picture->height * 3;
    FILE        *file  = fopen(path, "wb");
    bool         is_ok = file != NULL && fprintf(file, "P6\n%d %d\n255\n", picture->width, picture->height) > 0;
    is_ok              = is_ok && fwrite(picture->rgb, 1, bytes, file) == bytes;
    if (file != NULL)
        is_ok = fclose(file) == 0 && is_ok;
    if (!is_ok)
        perror(path);
    return is_ok;
}

void image_free(image *picture)
{
    free(picture->rgb);
    *picture = (image){0};
}

/* Where sample i of n lies among pixels first … first + length - 1: the pixels beside it, and the share of the second. */
static void neighbours(int i, int n, int first, int length, int size, int *a, int *b, float *share)
{
    const float at  = fmaxf(0, ((float)i + 0.5F) * (float)length / (float)n - 0.5F);
    const int   low = first + (int)at;
    *share          = at - floorf(at);
    *a              = low < 0 ? 0 : low < size ? low : size - 1;
    *b              = low + 1 < 0 ? 0 : low + 1 < size && low + 1 < first + length ? low + 1 : *a;
}

void image_planes(const image *picture, rectangle part, int width, int height, bool is_bgr, float scale, float shift, float *planes)
{
    const size_t plane = (size_t)width * (size_t)height;
    for (int y = 0; y < height; y++) {
        int   above, below, left, right;
        float v, u;
        neighbours(y, height, part.top, part.height, picture->height, &above, &below, &v);
        const unsigned char *upper = picture->rgb + 3 * (size_t)above * (size_t)picture->width;
        const unsigned char *lower = picture->rgb + 3 * (size_t)below * (size_t)picture->width;
        for (int x = 0; x < width; x++) {
            neighbours(x, width, part.left, part.width, picture->width, &left, &right, &u);
            for (int c = 0; c < 3; c++) {
                const float top    = (1 - u) * (float)upper[3 * left + c] + u * (float)upper[3 * right + c];
                const float bottom = (1 - u) * (float)lower[3 * left + c] + u * (float)lower[3 * right + c];
                const int   to     = is_bgr ? 2 - c : c;
                planes[(size_t)to * plane + (size_t)y * (size_t)width + (size_t)x] = scale * ((1 - v) * top + v * bottom) + shift;
            }
        }
    }
}

static void dot(image *picture, int x, int y, const unsigned char rgb[3])
{
    if (x < 0 || y < 0 || x >= picture->width || y >= picture->height)
        return;
    unsigned char *pixel = picture->rgb + 3 * ((size_t)y * (size_t)picture->width + (size_t)x);
    for (int c = 0; c < 3; c++)
        pixel[c] = rgb[c];
}

void image_frame(image *picture, rectangle part, const unsigned char rgb[3])
{
    for (int x = part.left; x < part.left + part.width; x++) {
        dot(picture, x, part.top, rgb);
        dot(picture, x, part.top + part.height - 1, rgb);
    }
    for (int y = part.top; y < part.top + part.height; y++) {
        dot(picture, part.left, y, rgb);
        dot(picture, part.left + part.width - 1, y, rgb);
    }
}
