/* SPDX-License-Identifier: Apache-2.0 */
/* What running a product step is made of: a thread's state, and how it reaches the rows of a (plan/gemm_rows.c). */
#ifndef OPF_PLAN_GEMM_RUN_H
#define OPF_PLAN_GEMM_RUN_H

#include "plan/gemm_ahead.h"

typedef struct opf_gemm_worker {
    const opf_run_env   *env;
    const opf_gemm_args *args;
    const float        **pointers; /* [block][taps*mr] */
    size_t              *starts;   /* first row of each tile of the block, and of the tile behind it */
    float               *scaled;   /* b with its rows scaled, panel by panel as they are needed: [n/nr][kc][nr] */
    size_t               scaled_image, scaled_first, n_scaled; /* of which image and group, from which panel on, so many */
    float               *gathered; /* [block][mr][taps*kc]: rows that are gathered, or computed by the prologue */
    float               *panel;    /* b of this run: [kc][nr] */
    float               *tile;     /* [OPF_GEMM_WAITING*mr][nr] for the epilogue */
    float               *beside;   /* [block][mr][nr]: what the product beside makes of the block, for one panel */
    float               *program;  /* scratch of prologue and epilogue */
    opf_ahead            ahead;
    size_t               left; /* units behind the one at hand */
    size_t               first_k, n_k; /* the part of a row that is multiplied now */
    size_t               in_place, copied; /* LINES: tiles [in_place, copied) of the block read the image, the others copies */
    const float         *line;             /* where the first of them does */
    const float         *next_line;        /* the first line of the image that the next block adds to those below the window */
    size_t               next_lines;       /* so many of each channel */
} opf_gemm_worker;

enum { OPF_GEMM_WAITING = 4 }; /* tiles that an epilogue takes at a time */

/* The block's tiles: their starts, balanced, so that no tile has a lonely row or two (by lines a block is a line of pixels),
   and their row pointers; rows beyond a tile repeat its last one. */
void opf_gemm_prepare_block(opf_gemm_worker *w, const float *image, size_t index, size_t block);
/* Rows first to first + rows - 1, element by element, to contiguous memory: taps outermost, as weights are packed. pointers:
   scratch, one a tap. */
void opf_gemm_gather_rows(const opf_kern *kern, const opf_gemm_args *args, const float *image, size_t first, size_t rows,
                          const float **pointers, float *out);
/* Pointers of one pixel, one a tap, mr apart: zeros where the window leaves the image. */
void opf_gemm_tile_pointers(const opf_gemm_args *args, const float *image, size_t pixel, const float **out, size_t mr);

/* Whether columns [col, col + cols) lie in several parts of the result; and the way there of the tiles in scratch. */
bool opf_gemm_is_parted(const opf_gemm_args *args, size_t col, size_t cols);
void opf_gemm_store_parts(const opf_gemm_worker *w, size_t image, size_t row, size_t rows, size_t col, size_t cols);

/* Rows in the tile's scratch, of one panel, through the epilogue to the pixels of a scattered result. */
void opf_gemm_scatter_rows(const opf_gemm_worker *w, size_t image, size_t group, size_t start, size_t rows, size_t panel);

/* The step's run function, and the bytes of scratch that it needs. */
void   opf_gemm_run(const opf_run_env *env, const void *args, size_t begin, size_t end, void *scratch);
size_t opf_gemm_scratch(const opf_gemm_args *args, const opf_kern *kern);
/* The same for lines [first, end) of an image, of a step that opf_plan_goes_by_lines knows. */
void opf_gemm_run_lines(const opf_run_env *env, const void *args, size_t image, size_t first, size_t end, void *scratch);

static inline bool opf_gemm_computes_rows(const opf_gemm_args *g)
{
    return g->prologue.program.n != 0 && !g->scales_b;
}

/* Rows that are copied or computed, so that they lie in scratch. */
static inline bool opf_gemm_has_own_rows(const opf_gemm_args *g)
{
    return g->rows == OPF_ROWS_GATHER || opf_gemm_computes_rows(g);
}

/* Its tiles' rows lie in the operand itself, so that they can be named before their turn. */
static inline bool opf_gemm_reads_in_place(const opf_gemm_args *g)
{
    return (g->rows == OPF_ROWS_LINEAR || g->rows == OPF_ROWS_WINDOW) && !opf_gemm_computes_rows(g);
}

static inline size_t opf_gemm_taps_in_pointers(const opf_gemm_args *g)
{
    return g->rows == OPF_ROWS_WINDOW ? g->taps : g->rows == OPF_ROWS_BANDS ? g->lines.count : 1;
}

/* A block is one line of pixels. */
static inline bool opf_gemm_goes_by_lines(const opf_gemm_args *g)
{
    return g->rows == OPF_ROWS_LINES || g->rows == OPF_ROWS_BANDS;
}

/* Rows that lie evenly apart, in the operand or in scratch: tiles of them run in strips. */
static inline bool opf_gemm_has_even_rows(const opf_gemm_args *g)
{
    return g->rows == OPF_ROWS_LINEAR || opf_gemm_has_own_rows(g);
}

/* Panels that one tile of few rows takes side by side. */
static inline size_t opf_gemm_panels_at_once(const opf_gemm_args *g, const opf_kern *kern)
{
    if (g->b == NULL || g->tiles != 1 || g->a_col == 2 || g->then != OPF_EW_COPY || g->part != 0 || g->scatter != NULL ||
        g->rows == OPF_ROWS_LINES || g->m > kern->mr / 2)
        return 1;
    return kern->mr / g->m < OPF_GEMM_PANELS ? kern->mr / g->m : OPF_GEMM_PANELS;
}

static inline size_t opf_gemm_block_tiles(const opf_gemm_args *g, size_t block)
{
    size_t left = g->tiles - block * g->block;
    return left < g->block ? left : g->block;
}

#endif
