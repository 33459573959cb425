/* SPDX-License-Identifier: Apache-2.0 */
/* Results whose pixels lie apart: from the tile in scratch, a run of rows on one line of the grid at a time, to the image. */
#include "plan/gemm_run.h"

/* A run in scratch, of `cols` columns from `col` on of the group. */
typedef struct run {
    const opf_gemm_worker *w;
    size_t                 image, group, col, cols;
    int64_t                at[3]; /* of its first row, in the grid */
    size_t                 rows;
    float                 *tile;
} run;

/* Rows [first, end) of a run whose pixel of a cell is in the image, and the first such pixel. */
typedef struct span {
    size_t  first, end;
    int64_t pixel;
} span;

static span inside(const run *r, const int64_t *cell)
{
    const opf_gemm_scatter *s     = r->w->args->scatter;
    const int64_t           step  = s->stride[2];
    int64_t                 pixel = 0, x = r->at[2] * step + cell[2];
    for (int i = 0; i < 2; i++) {
        const int64_t y = r->at[i] * s->stride[i] + cell[i];
        if (y < 0 || y >= s->out[i])
            return (span){0};
        pixel = pixel * s->out[i] + y;
    }
    const int64_t first = x >= 0 ? 0 : (-x + step - 1) / step, end = x >= s->out[2] ? 0 : (s->out[2] - 1 - x) / step + 1;
    span          found = {(size_t)first, end < (int64_t)r->rows ? (size_t)end : r->rows, pixel * s->out[2] + x + first * step};
    return found.first < found.end ? found : (span){0};
}

/* The program on columns of one cell, in scratch. */
static void run_program(const run *r, span rows, float *tile, size_t channel, size_t cols)
{
    const opf_gemm_args *g    = r->w->args;
    const ptrdiff_t      step = (ptrdiff_t)g->scatter->stride[2];
    opf_operand          operands[OPF_PROGRAM_OPERANDS];
    opf_store            stores[OPF_PROGRAM_OPERANDS];
    opf_bound_at(r->w->env, &g->epilogue, r->image, (size_t)rows.pixel, channel, operands, stores);
    for (uint32_t i = 0; i < g->epilogue.program.n_operands; i++)
        operands[i].row *= step;
    for (uint32_t i = 0; i < g->epilogue.program.n_stores; i++)
        stores[i].row *= step;
    opf_program_run(r->w->env->kern, &g->epilogue.program, operands, stores, tile, (ptrdiff_t)r->cols, tile, (ptrdiff_t)r->cols,
                    rows.end - rows.first, cols, r->w->program);
}

static void store(const run *r, span rows, const float *tile, size_t channel, size_t cols)
{
    const opf_gemm_args *g    = r->w->args;
    const ptrdiff_t      step = (ptrdiff_t)g->scatter->stride[2] * g->c_row;
    float               *c    = (float *)opf_ref_data(r->w->env, g->c) + (ptrdiff_t)g->c_images[r->image] + rows.pixel * g->c_row +
               (ptrdiff_t)channel * g->c_col;
    if (g->c_col == 1) {
        r->w->env->kern->copy_2d(tile, (ptrdiff_t)r->cols, 1, c, step, rows.end - rows.first, cols);
        return;
    }
    for (size_t i = 0; i < cols; i++)
        for (size_t k = 0; k < rows.end - rows.first; k++)
            c[(ptrdiff_t)i * g->c_col + (ptrdiff_t)k * step] = tile[k * r->cols + i];
}

/* Pixels that are neighbours in the image, as in the columns: they are stored together. */
static bool goes_on(const run *r, const int64_t *cell, const int64_t *next, span rows)
{
    const span others = inside(r, next);
    return cell[0] == next[0] && cell[1] == next[1] && cell[2] + 1 == next[2] && others.first == rows.first && others.end == rows.end;
}

static void scatter_run(const run *r, bool by_cells)
{
    const opf_gemm_args    *g        = r->w->args;
    const opf_gemm_scatter *s        = g->scatter;
    const size_t            channels = g->n / s->n_cells, end = r->col + r->cols;
    const bool              joins    = !by_cells && g->c_col == 1 && g->c_row == (ptrdiff_t)channels;
    for (size_t col = r->col, next; col < end; col = next) {
        size_t     cell = col / channels;
        const span rows = inside(r, s->cells[cell]);
        float     *tile = r->tile + rows.first * r->cols + (col - r->col);
        const size_t channel = r->group * channels + col % channels;
        next = ++cell * channels;
        while (joins && next < end && goes_on(r, s->cells[cell - 1], s->cells[cell], rows))
            next = ++cell * channels;
        next = next < end ? next : end;
        if (rows.first == rows.end)
            continue;
        if (by_cells)
            run_program(r, rows, tile, channel, next - col);
        store(r, rows, tile, channel, next - col);
    }
}

void opf_gemm_scatter_rows(const opf_gemm_worker *w, size_t image, size_t group, size_t start, size_t rows, size_t panel)
{
    const opf_gemm_args   *g       = w->args;
    const opf_gemm_window *grid    = &g->window;
    const opf_program     *program = &g->epilogue.program;
    const size_t           nr = w->env->kern->nr, col = panel * nr, cols = g->n - col < nr ? g->n - col : nr;
    const bool             chain = opf_program_is_chain(program);
    if (chain) /* whatever pixel it is: one long row */
        opf_program_run(w->env->kern, program, NULL, NULL, w->tile, 0, w->tile, 0, 1, rows * cols, NULL);
    for (size_t i = 0, n; i < rows; i += n) {
        const int64_t at = (int64_t)(start + i), line = at / grid->out[2], x = at % grid->out[2];
        n                = (size_t)(grid->out[2] - x) < rows - i ? (size_t)(grid->out[2] - x) : rows - i;
        const run r = {w, image, group, col, cols, {line / grid->out[1], line % grid->out[1], x}, n, w->tile + i * cols};
        scatter_run(&r, program->n != 0 && !chain);
    }
}
