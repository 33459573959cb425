/* SPDX-License-Identifier: Apache-2.0 */
/* Where a tile of a product lies in the result, which may be in parts; and tiles that are computed by themselves. */
#include "plan/gemm_run.h"

static const opf_gemm_part *part_of(const opf_gemm_args *g, size_t col)
{
    const opf_gemm_part *part = &g->parts[g->n_parts - 1];
    while (part->first > col)
        part--;
    return part;
}

static size_t part_end(const opf_gemm_args *g, const opf_gemm_part *part)
{
    return part + 1 < g->parts + g->n_parts ? part[1].first : g->n;
}

static float *part_at(const opf_run_env *env, const opf_gemm_part *part, size_t image, size_t row, size_t col)
{
    return (float *)opf_ref_data(env, part->c) + (ptrdiff_t)part->c_images[image] + (ptrdiff_t)row * part->c_row +
           (ptrdiff_t)(col - part->first);
}

bool opf_gemm_is_parted(const opf_gemm_args *g, size_t col, size_t cols)
{
    return g->n_parts != 0 && part_end(g, part_of(g, col)) < col + cols;
}

void opf_gemm_store_parts(const opf_gemm_worker *w, size_t image, size_t row, size_t rows, size_t col, size_t cols)
{
    const opf_gemm_args *g = w->args;
    for (const opf_gemm_part *part = part_of(g, col); part < g->parts + g->n_parts && part->first < col + cols; part++) {
        size_t from = part->first > col ? part->first : col, end = part_end(g, part), to = end < col + cols ? end : col + cols;
        w->env->kern->copy_2d(w->tile + (from - col), (ptrdiff_t)cols, 1, part_at(w->env, part, image, row, from),
                              part->c_row, rows, to - from);
    }
}

opf_gemm_tile opf_gemm_tile_at(const opf_run_env *env, const opf_gemm_args *g, size_t image, size_t group, size_t row, size_t panel,
                               size_t *cols)
{
    size_t        nr = env->kern->nr, col = panel * nr, channel = group * g->n + col;
    opf_gemm_tile tile = {.bias = g->bias == NULL ? NULL : g->bias + (group * g->panels + panel) * nr, .lo = g->lo, .hi = g->hi};
    if (g->n_parts != 0) {
        const opf_gemm_part *part = part_of(g, col);
        tile.c                    = part_at(env, part, image, row, col);
        tile.c_stride             = part->c_row;
    } else {
        tile.c = (float *)opf_ref_data(env, g->c) + (ptrdiff_t)g->c_images[image] + (ptrdiff_t)group * g->c_group +
                 (ptrdiff_t)row * g->c_row + (ptrdiff_t)col * g->c_col;
        tile.c_stride = g->c_row;
    }
    if (g->residual.buffer != 0) {
        tile.residual = (const float *)opf_ref_data(env, g->residual) + (ptrdiff_t)image * g->residual_outer +
                        (ptrdiff_t)row * g->residual_row + (ptrdiff_t)channel;
        tile.residual_stride = g->residual_row;
    }
    *cols = g->n - col < nr ? g->n - col : nr;
    return tile;
}

void opf_gemm_compute_rows(const opf_run_env *env, const opf_gemm_args *g, size_t image, size_t group, size_t first, size_t rows, size_t panel,
                           const opf_gemm_rest *rest)
{
    size_t        mr = env->kern->mr, cols;
    const float  *a  = (const float *)opf_ref_data(env, g->a) + g->a_images[image] + (ptrdiff_t)group * g->a_group;
    opf_gemm_tile tile = opf_gemm_tile_at(env, g, image, group, first, panel, &cols);
    if (g->a_col != 1)
        opf_gemm_gather_rows(env->kern, g, a, first, rows, rest->pointers, rest->gathered);
    for (size_t r = 0; r < mr; r++) {
        size_t row = r < rows ? r : rows - 1;
        if (g->a_col != 1)
            rest->pointers[r] = rest->gathered + row * g->taps * g->kc;
        else
            opf_gemm_tile_pointers(g, a, first + row, rest->pointers + r, mr);
    }
    tile.a        = rest->pointers;
    tile.taps     = g->a_col != 1 ? 1 : g->taps;
    tile.kc       = g->a_col != 1 ? g->taps * g->kc : g->kc;
    tile.b        = rest->b;
    tile.c        = rest->c;
    tile.c_stride = rest->c_stride;
    env->kern->gemm(&tile, rows, cols);
}
