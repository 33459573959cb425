/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one step behind MatMul, Gemm and every convolution: images x groups of products of rows (tokens, pixels) with a
 * packed matrix. How a row's elements are reached is the only difference: see opf_gemm_rows.
 */
#ifndef OPF_PLAN_GEMM_H
#define OPF_PLAN_GEMM_H

#include "plan/bands.h"
#include "plan/steps.h"

/* A convolution window over up to 3 spatial axes (missing ones have size 1). Strides in floats. */
typedef struct opf_gemm_window {
    int64_t in[3], out[3], kernel[3], stride[3], dilation[3], pad[3]; /* pad: at the begin */
    int64_t in_stride[3];
} opf_gemm_window;

/* Of an image of two axes: how lines of the result depend on lines of the image, what else a step must say left open. */
static inline opf_image_lines opf_window_lines(const opf_gemm_window *w)
{
    return (opf_image_lines){.in     = (size_t)w->in[1],
                             .out    = (size_t)w->out[1],
                             .window = (w->kernel[1] - 1) * w->dilation[1] + 1,
                             .stride = w->stride[1],
                             .pad    = w->pad[1],
                             .step   = 1};
}

typedef enum opf_gemm_rows {
    OPF_ROWS_LINEAR, /* row r at a + r*a_row, its elements contiguous */
    OPF_ROWS_WINDOW, /* row r is a pixel: one pointer a tap, kc contiguous channels each */
    OPF_ROWS_LINES,  /* row r is a pixel of a planar image: all pixels of an output line read the image lines below the window
                        where they lie, or, by the borders, copies with the zeros there */
    OPF_ROWS_BANDS,  /* row r is a pixel of few channels, side by side: the lines below the window are copied with their borders,
                        so that the taps along a line are one, however many channels they have together */
    OPF_ROWS_PLANES, /* pixels of lines, each channel by itself, fill vectors: plan/planes.c */
    OPF_ROWS_GATHER  /* elements lie apart: copied to contiguous rows, a tile at a time */
} opf_gemm_rows;

/* How copied image lines lie: one for each channel and line of the window. A stride above 2 is taken apart, so that the
   pixels of an output line lie next to each other. */
typedef struct opf_gemm_lines {
    size_t          count, phases, phase; /* lines; phases of a line, floats of each */
    size_t          step;                 /* floats between pixels, 1 or 2 */
    const uint32_t *offsets;              /* by element of a row, in the order of the weights */
    const uint32_t *in_place;             /* LINES: the same in the image itself, from the window's first element; NULL: copies only */
    size_t          from, to;             /* then: pixels of a line whose windows lie between its ends */
    size_t          turns;                /* PLANES: lines below a window that the next one shares stay where they are; so many tables */
} opf_gemm_lines;

/* How plan/winograd.c computes a convolution. Axes: down, across; of one tap: tiles of 1. */
typedef struct opf_winograd {
    const float *u;                                      /* transformed filters; NULL: computed directly */
    const opf_const *filters;                            /* as they are, for what the transforms cannot give */
    const char  *kernel;                                 /* its name */
    size_t       taps[2], tile[2];                       /* of an axis; pixels of a tile */
    size_t       down, across;                           /* tiles of an image */
    size_t       tiles, panels;                          /* of a block, at most; whose results are written together */
    bool         cached;                                 /* filters are found in L3 */
    size_t       most;                                   /* panels that are multiplied together: those of several units */
    size_t       v_row, v_point, m_panel, m_point;       /* floats between tiles, points and panels; M's tiles are nr apart */
} opf_winograd;

/* Columns of the result that lie in a tensor of their own, contiguous: from `first` to those of the next part. */
typedef struct opf_gemm_part {
    size_t         first;
    opf_ref        c;
    ptrdiff_t      c_row;
    const int64_t *c_images;
} opf_gemm_part;

/* A result whose pixels lie apart: row r of the product is position r of a grid (window.out), its columns the channels of each of
   n_cells pixels, pixel i at grid * stride + cells[i] of the image. What is outside the image is dropped. */
typedef struct opf_gemm_scatter {
    int64_t  out[3], stride[3];
    const int64_t (*cells)[3];
    size_t   n_cells;
} opf_gemm_scatter;

/* A product of the same rows, with as many columns, that is not stored: a panel of its tiles is computed before that of the
   product behind it, whose epilogue reads them from scratch. */
typedef struct opf_gemm_beside {
    struct opf_gemm_args *args;  /* of the same shape, blocks and result as those of the product behind it */
    opf_value_id          value; /* its result */
    const opf_const      *bias;
    opf_lowered           lowered;
} opf_gemm_beside;

typedef struct opf_gemm_args {
    opf_gemm_rows   rows;
    size_t          images, groups, m, n, kc, taps; /* per group: n columns, kc elements a tap */
    opf_ref         a;
    ptrdiff_t       a_row, a_col; /* LINEAR, GATHER: between rows, between elements of a tap */
    const int64_t  *a_images;     /* offset of each image, floats */
    ptrdiff_t       a_group;
    opf_gemm_window window; /* WINDOW, LINES, GATHER over taps; GATHER with kernel[0] 0: of one pixel, a is a matrix */
    opf_gemm_lines  lines;
    const float    *zeros;  /* kc of them */
    const float    *b;      /* packed, [groups][n/nr][taps*kc][nr]; NULL: b is computed by the run */
    opf_ref         b_ref;  /* then: kc x n matrix with these strides, packed panel by panel */
    ptrdiff_t       b_row, b_col;
    const int64_t  *b_images;
    const float    *bias; /* [groups][n/nr*nr] or NULL */
    opf_ref         c;
    ptrdiff_t       c_row, c_col; /* c_col 1, or c_row 1: planes, written through a tile */
    const int64_t  *c_images;
    ptrdiff_t       c_group;
    const opf_gemm_part *parts; /* of one group, none empty; n_parts 0: c has all columns, else it has none */
    size_t          n_parts;
    const opf_gemm_scatter *scatter; /* or NULL. c_row is between the image's pixels then, and the epilogue's rows are its pixels */
    opf_ref         residual; /* buffer 0: none; read at the place of c */
    ptrdiff_t       residual_row, residual_outer;
    float           lo, hi;
    opf_bound       prologue; /* program.n 0: none. LINEAR only: rows are computed as they are read, by the block */
    opf_gemm_beside *beside;  /* NULL: none. epilogue.given tells which operand it is */
    bool            scales_b; /* the prologue multiplies elements by a factor of their own: the rows of packed b take it */
    opf_ew          then;     /* SWISH or HARD_SWISH of `param` by the kernel, instead of the clamp; COPY: neither */
    float           param;
    opf_bound       epilogue; /* program.n 0: none. Its rows are rows of one image, its columns those of all groups */
    size_t          block;    /* tiles of rows that share a panel while it is in cache */
    size_t          part;     /* of k that is multiplied at a time, c holding the sums; 0: all */
    size_t          first;    /* row of an image: m rows from there on; not 0 in a band of it only */
    size_t          tiles, blocks, panels;
    const struct opf_gemm_args *ahead; /* the product that runs next, or NULL: the end of this one fetches its first panel */
    opf_winograd    winograd;
} opf_gemm_args;

/* The tile that starts at a row of an image, for a panel of a group: its end, not a and b. cols: how many it has. Its c is
   where the tile begins in the result, whatever c_col is. */
opf_gemm_tile opf_gemm_tile_at(const opf_run_env *env, const opf_gemm_args *args, size_t image, size_t group, size_t row, size_t panel,
                               size_t *cols);
/* What opf_gemm_compute_rows needs beside the step: the panel packed, where the result goes, and scratch. */
typedef struct opf_gemm_rest {
    const float  *b;
    float        *c;
    ptrdiff_t     c_stride;
    const float **pointers; /* taps * mr of them */
    float        *gathered; /* rows * taps * kc floats, where a_col is not 1 */
} opf_gemm_rest;
/* Rows of a WINDOW product, at most mr, for one panel of a group, without the epilogue's program. */
void opf_gemm_compute_rows(const opf_run_env *env, const opf_gemm_args *args, size_t image, size_t group, size_t first, size_t rows, size_t panel,
                           const opf_gemm_rest *rest);

/* Whether an image with window set and its channels side by side is better read by bands; then sets rows and lines. */
void opf_gemm_try_bands(opf_gemm_args *args, const opf_kern *kern);
/* Whether an image with window and a_col set may be read by lines; then sets rows and lines. */
opf_status opf_gemm_try_lines(opf_planner *planner, opf_gemm_args *args, opf_error *error);

/* Blocks, tiles and panels, when all else is set. */
void opf_gemm_size(opf_gemm_args *args, const opf_kern *kern);

/* The common end of lowering: the epilogue's leading bias, residual and clamp move into the kernel, the rest is bound as a
   program. result is the place of output 0 with columns contiguous; split tells its images, rows and columns. Fills
   bias, residual, lo, hi, epilogue, then sizes, and appends the step. a (and b_place, when b is not constant) are read. */
opf_status opf_gemm_finish(opf_planner *planner, const opf_node *node, opf_gemm_args *args, const opf_place *a, const opf_place *b_place,
                           const opf_const *own_bias, const opf_place *result, opf_split split, const opf_lowered *lowered,
                           const char *kernel, opf_error *error);

#endif
