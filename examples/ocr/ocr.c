/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ocr DETECTOR.onnx RECOGNISER.onnx KEYS.txt PICTURE.ppm
 *
 * Reads the lines of text in a picture with two models of PP-OCR, each over its own session. The detector gives for every
 * pixel how likely it belongs to text; connected pixels are a line. The recogniser takes a line 48 pixels high, of any width,
 * and gives for each of its columns how likely each character is: each width is a shape of its own, planned when it is met.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <opfuse/opfuse.h>

#include "../common/image.h"

enum { GRID = 32, LONGEST = 960, LINE_HEIGHT = 48, LEAST_SIDE = 3, MOST_LINES = 1000 };

static const float TEXT  = 0.3F;       /* a pixel that is likelier is text */
static const float SURE  = 0.5F;       /* the mean over a line, at least */
static const float GROW  = 1.6F;       /* the detector marks the core of a line: area * this / perimeter is missing around it */
static const float SCALE = 2 / 255.0F; /* both models take -1..1 */

/* A model with one input and one output, both float; pixels belong to it. */
typedef struct reader {
    opf_model   *model;
    opf_session *session;
    float       *pixels;
} reader;

static opf_status reader_open(reader *r, const char *path, opf_error *error)
{
    const opf_status status = opf_model_open(path, NULL, &r->model, error);
    return status ? status : opf_session_create(r->model, NULL, &r->session, error);
}

static void reader_close(reader *r)
{
    opf_session_destroy(&r->session);
    opf_model_destroy(&r->model);
    free(r->pixels);
}

/* The result lies in the session until its next run. */
static opf_status reader_run(reader *r, const image *picture, rectangle part, int width, int height, opf_tensor *result, opf_error *error)
{
    const size_t bytes = 3 * (size_t)width * (size_t)height * sizeof(float);
    float       *room  = realloc(r->pixels, bytes);
    if (room == NULL) {
        snprintf(error->message, sizeof error->message, "out of memory");
        return OPF_OUT_OF_MEMORY;
    }
    r->pixels = room;
    image_planes(picture, part, width, height, true, SCALE, -1, room);
    const opf_tensor input = {.type = OPF_FLOAT, .rank = 4, .dims = {1, 3, height, width}, .data = room, .bytes = bytes};
    *result                = (opf_tensor){0};
    return opf_session_run(r->session, &input, 1, result, 1, error);
}

/* ---- where the lines are ---- */

typedef struct blob {
    int   left, top, right, bottom, pixels; /* right and bottom lie inside */
    float sum;
} blob;

static void visit(float *map, int width, int at, int *stack, int *depth, blob *b)
{
    const int x = at % width, y = at / width;
    b->left   = x < b->left ? x : b->left;
    b->right  = x > b->right ? x : b->right;
    b->top    = y < b->top ? y : b->top;
    b->bottom = y > b->bottom ? y : b->bottom;
    b->sum += map[at];
    b->pixels++;
    map[at]           = 0; /* not twice */
    stack[(*depth)++] = at;
}

/* All text pixels that hang together with this one. stack: room for as many as the map has. */
static blob collect(float *map, int width, int height, int at, int *stack)
{
    blob b     = {.left = width, .top = height};
    int  depth = 0;
    visit(map, width, at, stack, &depth, &b);
    while (depth > 0) {
        const int p = stack[--depth], x = p % width;
        const int next[4] = {x > 0 ? p - 1 : -1, x + 1 < width ? p + 1 : -1, p - width, p + width};
        for (int i = 0; i < 4; i++)
            if (next[i] >= 0 && next[i] < width * height && map[next[i]] > TEXT)
                visit(map, width, next[i], stack, &depth, &b);
    }
    return b;
}

/* The map is used up. */
static size_t find_lines(float *map, int width, int height, const image *picture, int *stack, rectangle *lines)
{
    const float across = (float)picture->width / (float)width, down = (float)picture->height / (float)height;
    size_t      n = 0;
    for (int at = 0; at < width * height && n < MOST_LINES; at++) {
        if (!(map[at] > TEXT))
            continue;
        const blob  b = collect(map, width, height, at, stack);
        const float w = (float)(b.right - b.left + 1), h = (float)(b.bottom - b.top + 1);
        if (w < LEAST_SIDE || h < LEAST_SIDE || b.sum < SURE * (float)b.pixels)
            continue;
        const float grow = w * h * GROW / (2 * (w + h));
        lines[n++]       = (rectangle){
                  (int)(((float)b.left - grow) * across),
                  (int)(((float)b.top - grow) * down),
                  (int)ceilf((w + 2 * grow) * across),
                  (int)ceilf((h + 2 * grow) * down),
        };
    }
    return n;
}

static int to_grid(double length)
{
    return (int)fmax(1, round(length / GRID)) * GRID;
}

static opf_status detect(reader *detector, const image *picture, rectangle *lines, size_t *n, opf_error *error)
{
    const double    longest = picture->width > picture->height ? picture->width : picture->height;
    const double    shrink  = fmin(1, LONGEST / longest);
    const int       width = to_grid(picture->width * shrink), height = to_grid(picture->height * shrink);
    const rectangle whole = {0, 0, picture->width, picture->height};
    opf_tensor      map;
    opf_status      status = reader_run(detector, picture, whole, width, height, &map, error);
    if (status)
        return status;
    if (map.type != OPF_FLOAT || map.rank != 4 || map.dims[2] != height || map.dims[3] != width) {
        snprintf(error->message, sizeof error->message, "the detector must give a float for each pixel");
        return OPF_INVALID_MODEL;
    }
    int *stack = malloc((size_t)width * (size_t)height * sizeof *stack);
    if (stack == NULL) {
        snprintf(error->message, sizeof error->message, "out of memory");
        return OPF_OUT_OF_MEMORY;
    }
    *n = find_lines(map.data, width, height, picture, stack, lines);
    free(stack);
    return OPF_OK;
}

/* ---- what they say ---- */

typedef struct keys {
    char  *text; /* a line a character */
    char **list; /* into text */
    size_t n;
} keys;

static void keys_free(keys *k)
{
    free(k->text);
    free(k->list);
}

static bool keys_load(const char *path, keys *k)
{
    FILE  *file = fopen(path, "rb");
    long   size = -1;
    size_t read = 0;
    if (file != NULL && fseek(file, 0, SEEK_END) == 0 && (size = ftell(file)) >= 0 && fseek(file, 0, SEEK_SET) == 0) {
        k->text = malloc((size_t)size + 1);
        k->list = malloc(((size_t)size + 1) * sizeof *k->list);
    }
    if (k->text != NULL && k->list != NULL)
        read = fread(k->text, 1, (size_t)size, file);
    if (read == 0)
        perror(path);
    if (file != NULL)
        (void)fclose(file);
    if (read == 0)
        return false;
    k->text[read] = '\0';
    for (char *line = k->text; line != NULL && *line != '\0';) {
        char *end       = strchr(line, '\n');
        k->list[k->n++] = line;
        if (end != NULL)
            *end++ = '\0';
        line = end;
    }
    return true;
}

/* Class 0 is no character, then come the keys, then the space. The same class in a row is one character. */
static void print_text(const float *scores, int64_t columns, int64_t classes, const keys *k)
{
    float   sum  = 0;
    int     n    = 0;
    int64_t last = 0;
    for (int64_t c = 0; c < columns; c++, scores += classes) {
        int64_t best = 0;
        for (int64_t i = 1; i < classes; i++)
            best = scores[i] > scores[best] ? i : best;
        if (best > 0 && best != last) {
            fputs(best <= (int64_t)k->n ? k->list[best - 1] : " ", stdout);
            sum += scores[best];
            n++;
        }
        last = best;
    }
    printf("\t%.2f\n", n > 0 ? (double)sum / n : 0.0);
}

static opf_status recognise(reader *recogniser, const image *picture, rectangle line, const keys *k, opf_error *error)
{
    const int        width = (int)fmax(LINE_HEIGHT, ceil((double)LINE_HEIGHT * line.width / line.height));
    opf_tensor       scores;
    const opf_status status = reader_run(recogniser, picture, line, width, LINE_HEIGHT, &scores, error);
    if (status)
        return status;
    if (scores.type != OPF_FLOAT || scores.rank != 3 || scores.dims[2] != (int64_t)k->n + 2) {
        snprintf(error->message, sizeof error->message, "the recogniser must score %zu classes: nothing, the keys, the space", k->n + 2);
        return OPF_INVALID_MODEL;
    }
    print_text(scores.data, scores.dims[1], scores.dims[2], k);
    return OPF_OK;
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        fprintf(stderr, "usage: ocr DETECTOR.onnx RECOGNISER.onnx KEYS.txt PICTURE.ppm\n");
        return 2;
    }
    static rectangle lines[MOST_LINES];
    size_t           n       = 0;
    keys             k       = {0};
    image            picture = {0};
    reader           detector = {0}, recogniser = {0};
    opf_error        error   = {0};
    bool             is_ok   = keys_load(argv[3], &k) && image_load(argv[4], &picture);
    if (is_ok) {
        opf_status status = reader_open(&detector, argv[1], &error);
        if (!status)
            status = reader_open(&recogniser, argv[2], &error);
        if (!status)
            status = detect(&detector, &picture, lines, &n, &error);
        for (size_t i = 0; i < n && !status; i++)
            status = recognise(&recogniser, &picture, lines[i], &k, &error);
        is_ok = status == OPF_OK;
        if (!is_ok)
            fprintf(stderr, "ocr: %s\n", error.message);
    }
    reader_close(&detector);
    reader_close(&recogniser);
    image_free(&picture);
    keys_free(&k);
    return is_ok ? 0 : 1;
}
