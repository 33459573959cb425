/* SPDX-License-Identifier: Apache-2.0 */
/*
 * face MODEL.onnx PICTURE.ppm [RESULT.ppm]
 *
 * Finds faces with CenterFace, prints a line for each, and draws them into RESULT.ppm. The model takes a picture of any size
 * (multiples of 32) and gives four maps of a quarter of its size: how likely the centre of a face lies at a point, the
 * logarithm of the face's size, the centre's offset within the point, and five landmarks, which are not used here.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <opfuse/opfuse.h>

#include "../common/image.h"

enum { STRIDE = 4, GRID = 32, LONGEST = 960, MOST_FACES = 1000 };

static const float SURE    = 0.5F; /* scores below it are no faces */
static const float OVERLAP = 0.3F; /* faces that share more than this of their union are one */

typedef struct face {
    float left, top, right, bottom, score; /* in pixels of the model's input */
} face;

static int to_grid(double length)
{
    return (int)fmax(1, round(length / GRID)) * GRID;
}

/* The maps must belong to one another: [1, channels, height, width] each. */
static bool fits(const opf_tensor *map, int64_t channels, const opf_tensor *like)
{
    return map->type == OPF_FLOAT && map->rank == 4 && map->dims[0] == 1 && map->dims[1] == channels &&
           map->dims[2] == like->dims[2] && map->dims[3] == like->dims[3];
}

static size_t read_maps(const opf_tensor *maps, face *faces)
{
    const int64_t height  = maps[0].dims[2], width = maps[0].dims[3], plane = height * width;
    const float  *heat = maps[0].data, *size = maps[1].data, *offset = maps[2].data;
    size_t        n = 0;
    for (int64_t i = 0; i < plane && n < MOST_FACES; i++) {
        if (!(heat[i] > SURE))
            continue;
        const float x = ((float)(i % width) + offset[plane + i] + 0.5F) * STRIDE;
        const float y = ((float)(i / width) + offset[i] + 0.5F) * STRIDE;
        const float w = expf(size[plane + i]) * STRIDE;
        const float h = expf(size[i]) * STRIDE;
        faces[n++]    = (face){x - w / 2, y - h / 2, x + w / 2, y + h / 2, heat[i]};
    }
    return n;
}

static int by_score(const void *a, const void *b)
{
    const float x = ((const face *)a)->score, y = ((const face *)b)->score;
    return (x < y) - (x > y);
}

static float overlap(const face *a, const face *b)
{
    const float w      = fmaxf(0, fminf(a->right, b->right) - fmaxf(a->left, b->left));
    const float h      = fmaxf(0, fminf(a->bottom, b->bottom) - fmaxf(a->top, b->top));
    const float either = (a->right - a->left) * (a->bottom - a->top) + (b->right - b->left) * (b->bottom - b->top) - w * h;
    return either > 0 ? w * h / either : 0;
}

/* Neighbouring points see the same face: the surest of them stays. */
static size_t drop_doubles(face *faces, size_t n)
{
    size_t kept = 0;
    qsort(faces, n, sizeof *faces, by_score);
    for (size_t i = 0; i < n; i++) {
        bool is_new = true;
        for (size_t k = 0; k < kept && is_new; k++)
            is_new = overlap(&faces[k], &faces[i]) < OVERLAP;
        if (is_new)
            faces[kept++] = faces[i];
    }
    return kept;
}

/* pixels: room for the model's input, 3 planes of height x width. */
static opf_status find_faces(opf_session *session, const image *picture, int height, int width, float *pixels, face *faces, size_t *n,
                             opf_error *error)
{
    const rectangle  whole = {0, 0, picture->width, picture->height};
    const opf_tensor input = {
        .type  = OPF_FLOAT,
        .rank  = 4,
        .dims  = {1, 3, height, width},
        .data  = pixels,
        .bytes = 3 * (size_t)height * (size_t)width * sizeof *pixels,
    };
    opf_tensor maps[4] = {0}; /* without buffers of ours: they lie in the session until its next run */
    image_planes(picture, whole, width, height, false, 1, 0, pixels);
    const opf_status status = opf_session_run(session, &input, 1, maps, 4, error);
    if (status)
        return status;
    if (!fits(&maps[0], 1, &maps[0]) || !fits(&maps[1], 2, &maps[0]) || !fits(&maps[2], 2, &maps[0])) {
        snprintf(error->message, sizeof error->message, "the model must give maps of 1, 2 and 2 channels, as CenterFace does");
        return OPF_INVALID_MODEL;
    }
    *n = drop_doubles(faces, read_maps(maps, faces));
    return OPF_OK;
}

static void print_faces(image *picture, const face *faces, size_t n, int height, int width)
{
    static const unsigned char green[3] = {0, 255, 0};
    const float                across = (float)picture->width / (float)width, down = (float)picture->height / (float)height;
    for (size_t i = 0; i < n; i++) {
        const rectangle part = {
            (int)roundf(faces[i].left * across),
            (int)roundf(faces[i].top * down),
            (int)roundf((faces[i].right - faces[i].left) * across),
            (int)roundf((faces[i].bottom - faces[i].top) * down),
        };
        printf("face at %d,%d of %d x %d pixels, score %.2f\n", part.left, part.top, part.width, part.height, (double)faces[i].score);
        image_frame(picture, part, green);
    }
    printf("%zu face%s\n", n, n == 1 ? "" : "s");
}

int main(int argc, char **argv)
{
    if (argc < 3 || argc > 4) {
        fprintf(stderr, "usage: face MODEL.onnx PICTURE.ppm [RESULT.ppm]\n");
        return 2;
    }
    image picture;
    if (!image_load(argv[2], &picture))
        return 1;
    const double longest = picture.width > picture.height ? picture.width : picture.height;
    const double shrink  = fmin(1, LONGEST / longest);
    const int    height = to_grid(picture.height * shrink), width = to_grid(picture.width * shrink);
    static face  faces[MOST_FACES];
    size_t       n       = 0;
    opf_error    error   = {.message = "out of memory"};
    opf_model   *model   = NULL;
    opf_session *session = NULL;
    float       *pixels  = malloc(3 * (size_t)height * (size_t)width * sizeof *pixels);
    opf_status   status  = pixels != NULL ? opf_model_open(argv[1], NULL, &model, &error) : OPF_OUT_OF_MEMORY;
    if (!status)
        status = opf_session_create(model, NULL, &session, &error);
    if (!status)
        status = find_faces(session, &picture, height, width, pixels, faces, &n, &error);
    bool is_ok = status == OPF_OK;
    if (is_ok) {
        print_faces(&picture, faces, n, height, width);
        is_ok = argc < 4 || image_save(argv[3], &picture);
    } else {
        fprintf(stderr, "face: %s\n", error.message);
    }
    opf_session_destroy(&session);
    opf_model_destroy(&model);
    free(pixels);
    image_free(&picture);
    return is_ok ? 0 : 1;
}
