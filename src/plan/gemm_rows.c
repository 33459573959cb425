/* SPDX-License-Identifier: Apache-2.0 */
/* Where the rows of a product's first operand lie, or how they come to scratch: a block of tiles at a time. */
#include "plan/gemm_run.h"

#include <string.h>

static size_t tile_start(const opf_gemm_args *g, size_t tile)
{
    const size_t rows = g->m / g->tiles, more = g->m % g->tiles; /* the first tiles have a row more */
    return g->first + tile * rows + (tile < more ? tile : more);
}

/* The same for all tiles of a line of pixels, without a division each. */
static void start_line(const opf_gemm_args *g, size_t line, size_t tiles, size_t *starts)
{
    const size_t width = (size_t)g->window.out[2], rows = width / tiles, more = width % tiles;
    for (size_t i = 0; i <= tiles; i++)
        starts[i] = line * width + i * rows + (i < more ? i : more);
}

/* Pointers of one pixel, one a tap, mr apart. */
static void window_pointers(const opf_gemm_args *g, const float *image, size_t pixel, const float **out, size_t mr)
{
    const opf_gemm_window *w = &g->window;
    int64_t p = (int64_t)pixel, o2 = p % w->out[2], o1 = p / w->out[2] % w->out[1], o0 = p / w->out[2] / w->out[1];
    int64_t i0 = o0 * w->stride[0] - w->pad[0], i1 = o1 * w->stride[1] - w->pad[1], i2 = o2 * w->stride[2] - w->pad[2];
    for (int64_t k0 = 0; k0 < w->kernel[0]; k0++) {
        int64_t y0 = i0 + k0 * w->dilation[0];
        for (int64_t k1 = 0; k1 < w->kernel[1]; k1++) {
            int64_t y1   = i1 + k1 * w->dilation[1];
            bool    here = y0 >= 0 && y0 < w->in[0] && y1 >= 0 && y1 < w->in[1];
            for (int64_t k2 = 0; k2 < w->kernel[2]; k2++, out += mr) {
                int64_t y2 = i2 + k2 * w->dilation[2];
                *out = here && y2 >= 0 && y2 < w->in[2]
                           ? image + y0 * w->in_stride[0] + y1 * w->in_stride[1] + y2 * w->in_stride[2]
                           : NULL;
            }
        }
    }
}

void opf_gemm_tile_pointers(const opf_gemm_args *g, const float *image, size_t pixel, const float **out, size_t mr)
{
    window_pointers(g, image, pixel, out, mr);
    for (size_t t = 0; t < g->taps; t++)
        if (out[t * mr] == NULL)
            out[t * mr] = g->zeros;
}

void opf_gemm_gather_rows(const opf_kern *kern, const opf_gemm_args *g, const float *image, size_t first, size_t rows, const float **pointers,
                          float *out)
{
    if (g->window.kernel[0] == 0) { /* a matrix */
        kern->copy_2d(image + (ptrdiff_t)first * g->a_row, g->a_row, g->a_col, out, (ptrdiff_t)g->kc, rows, g->kc);
        return;
    }
    for (size_t row = first; row < first + rows; row++) {
        window_pointers(g, image, row, pointers, 1);
        for (size_t t = 0; t < g->taps; t++, out += g->kc)
            for (size_t k = 0; k < g->kc; k++)
                out[k] = pointers[t] == NULL ? 0.0f : pointers[t][(ptrdiff_t)k * g->a_col];
    }
}

/* An image line (NULL: outside) with its borders, taken apart. */
static void take_apart(const opf_gemm_args *g, const float *src, float *dst)
{
    const int64_t pad = g->window.pad[2], last = pad + g->window.in[2], phases = (int64_t)g->lines.phases, phase = (int64_t)g->lines.phase;
    for (int64_t p = 0; p < phases; p++)
        for (int64_t i = 0; i < phase; i++) {
            int64_t x = i * phases + p;
            *dst++    = src != NULL && x >= pad && x < last ? src[x - pad] : 0.0f;
        }
}

/* Elements [begin, end) of an image line (NULL: outside) that begins at `pad`; of these [from, to) are in the image. */
static void copy_line(const float *src, float *dst, int64_t pad, int64_t begin, int64_t from, int64_t to, int64_t end)
{
    if (src == NULL)
        to = from;
    if (begin < from)
        memset(dst + begin, 0, (size_t)(from - begin) * sizeof *dst);
    if (from < to)
        memcpy(dst + from, src + (from - pad), (size_t)(to - from) * sizeof *dst);
    if (to < end)
        memset(dst + to, 0, (size_t)(end - to) * sizeof *dst);
}

/* The image lines below a window that begins at line i1 of plane i0, with their borders: elements [begin, end) of each, or all
   of those that are taken apart. */
static void copy_lines(const opf_gemm_args *g, const float *image, int64_t i0, int64_t i1, float *dst, int64_t begin, int64_t end)
{
    const opf_gemm_window *w   = &g->window;
    const int64_t          pad = w->pad[2], last = pad + w->in[2];
    const int64_t          from = pad < begin ? begin : pad < end ? pad : end, to = last < from ? from : last < end ? last : end;
    for (size_t c = 0; c < g->kc; c++)
        for (int64_t k0 = 0; k0 < w->kernel[0]; k0++)
            for (int64_t k1 = 0; k1 < w->kernel[1]; k1++, dst += g->lines.phases * g->lines.phase) {
                const int64_t y0 = i0 + k0 * w->dilation[0], y1 = i1 + k1 * w->dilation[1];
                const bool    inside = y0 >= 0 && y0 < w->in[0] && y1 >= 0 && y1 < w->in[1];
                const float  *src = inside ? image + (ptrdiff_t)c * g->a_col + y0 * w->in_stride[0] + y1 * w->in_stride[1] : NULL;
                if (g->lines.phases > 1)
                    take_apart(g, src, dst);
                else
                    copy_line(src, dst, pad, begin, from, to, end);
            }
}

/* Of the next block's window, which begins at line i1 of plane i0. */
static void find_next_lines(opf_gemm_worker *w, const float *image, int64_t i0, int64_t i1)
{
    const opf_gemm_window *win = &w->args->window;
    const int64_t most  = win->dilation[1] > 1 ? 1 : win->stride[1] < win->kernel[1] ? win->stride[1] : win->kernel[1];
    const int64_t first = i1 + (win->kernel[1] - 1) * win->dilation[1] - (most - 1), left = win->in[1] - first;
    const bool    there = win->kernel[0] == 1 && i0 >= 0 && i0 < win->in[0] && first >= 0 && left > 0;
    w->next_lines = !there ? 0 : (size_t)(left < most ? left : most);
    w->next_line  = !there ? NULL : image + i0 * win->in_stride[0] + first * win->in_stride[1];
}

/* Which tiles of an output line read the image where it lies, and copies of what the others read. */
static void prepare_line(opf_gemm_worker *w, const float *image, size_t line, size_t tiles)
{
    const opf_gemm_args   *g     = w->args;
    const opf_gemm_window *win   = &g->window;
    const opf_gemm_lines  *lines = &g->lines;
    const int64_t          i0 = (int64_t)line / win->out[1] * win->stride[0] - win->pad[0];
    const int64_t          i1 = (int64_t)line % win->out[1] * win->stride[1] - win->pad[1];
    const size_t          *starts = w->starts, first = starts[0];
    const bool inside = lines->in_place != NULL && i0 >= 0 && i0 + (win->kernel[0] - 1) * win->dilation[0] < win->in[0] && i1 >= 0 &&
                        i1 + (win->kernel[1] - 1) * win->dilation[1] < win->in[1];
    find_next_lines(w, image, i0, i1 + win->stride[1]);
    w->in_place = 0;
    w->copied   = inside ? tiles : 0;
    while (w->in_place < w->copied && starts[w->in_place] - first < lines->from)
        w->in_place++;
    while (w->in_place < w->copied && starts[w->copied] - first > lines->to)
        w->copied--;
    if (w->in_place == w->copied) {
        copy_lines(g, image, i0, i1, w->gathered, 0, (int64_t)lines->phase);
        return;
    }
    const int64_t begin = (int64_t)((starts[w->in_place] - first) * lines->step), end = (int64_t)((starts[w->copied] - first) * lines->step);
    w->line = image + i0 * win->in_stride[0] + i1 * win->in_stride[1] + (begin - win->pad[2]);
    if (w->in_place > 0) /* to the end of the last window before them */
        copy_lines(g, image, i0, i1, w->gathered, 0, begin - win->stride[2] + (win->kernel[2] - 1) * win->dilation[2] + 1);
    if (w->copied < tiles)
        copy_lines(g, image, i0, i1, w->gathered, end, (int64_t)lines->phase);
}

/* One image line (NULL: outside) with its borders, the channels of a pixel side by side. */
static void copy_band(const opf_gemm_args *g, const float *src, float *dst)
{
    const size_t  pixel = g->kc * sizeof(float);
    const int64_t span = (int64_t)(g->lines.phase / g->kc), pad = g->window.pad[2], last = pad + g->window.in[2];
    const int64_t from = pad < 0 ? 0 : pad < span ? pad : span, to = last < from ? from : last < span ? last : span;
    if (src == NULL || to == from) {
        memset(dst, 0, (size_t)span * pixel);
        return;
    }
    memset(dst, 0, (size_t)from * pixel);
    memcpy(dst + from * (int64_t)g->kc, src + (from - pad) * (int64_t)g->kc, (size_t)(to - from) * pixel);
    memset(dst + to * (int64_t)g->kc, 0, (size_t)(span - to) * pixel);
}

static void copy_bands(const opf_gemm_args *g, const float *image, size_t line, float *dst)
{
    const opf_gemm_window *w  = &g->window;
    const int64_t          i0 = (int64_t)line / w->out[1] * w->stride[0] - w->pad[0];
    const int64_t          i1 = (int64_t)line % w->out[1] * w->stride[1] - w->pad[1];
    for (int64_t k0 = 0; k0 < w->kernel[0]; k0++)
        for (int64_t k1 = 0; k1 < w->kernel[1]; k1++, dst += g->lines.phase) {
            const int64_t y0 = i0 + k0 * w->dilation[0], y1 = i1 + k1 * w->dilation[1];
            const bool    inside = y0 >= 0 && y0 < w->in[0] && y1 >= 0 && y1 < w->in[1];
            copy_band(g, inside ? image + y0 * w->in_stride[0] + y1 * w->in_stride[1] : NULL, dst);
        }
}

/* The rows of a tile, computed from those of a. */
static void compute_rows(const opf_gemm_worker *w, const float *a, size_t image, size_t first, size_t rows, float *out)
{
    const opf_gemm_args *g = w->args;
    opf_operand          operands[OPF_PROGRAM_OPERANDS];
    opf_store            stores[OPF_PROGRAM_OPERANDS];
    opf_bound_at(w->env, &g->prologue, image, first, 0, operands, stores);
    opf_program_run(w->env->kern, &g->prologue.program, operands, stores, a + (ptrdiff_t)first * g->a_row, g->a_row, out, (ptrdiff_t)g->kc,
                    rows, g->kc, w->program);
}

/* Rows a stride apart; the last one stands for those beyond the tile. */
static void point_at_rows(const float *row, ptrdiff_t stride, size_t rows, const float **pointers, size_t mr)
{
    for (size_t r = 0; r < rows; r++, row += stride)
        pointers[r] = row;
    for (size_t r = rows; r < mr; r++)
        pointers[r] = pointers[rows - 1];
}

void opf_gemm_prepare_block(opf_gemm_worker *w, const float *image, size_t index, size_t block)
{
    const opf_gemm_args *g  = w->args;
    size_t               mr = w->env->kern->mr, taps = opf_gemm_taps_in_pointers(g), tiles = opf_gemm_block_tiles(g, block);
    if (opf_gemm_goes_by_lines(g))
        start_line(g, block, tiles, w->starts);
    else
        for (size_t i = 0; i <= tiles; i++)
            w->starts[i] = tile_start(g, block * g->block + i);
    if (g->rows == OPF_ROWS_LINES) {
        prepare_line(w, image, block, tiles);
        return;
    }
    for (size_t i = 0; i < tiles && g->rows == OPF_ROWS_BANDS; i++) {
        const size_t x = w->starts[i] - w->starts[0], rows = w->starts[i + 1] - w->starts[i];
        for (size_t t = 0; t < taps; t++)
            point_at_rows(w->gathered + t * g->lines.phase + x * g->lines.step, (ptrdiff_t)g->lines.step, rows,
                          w->pointers + (i * taps + t) * mr, mr);
    }
    if (g->rows == OPF_ROWS_BANDS) {
        copy_bands(g, image, block, w->gathered);
        return;
    }
    size_t ahead = opf_gemm_reads_in_place(g) ? 1 : 0; /* the first tile of the next block, to prefetch */
    for (size_t i = 0; i < tiles + ahead && block * g->block + i < g->tiles; i++) {
        const float **pointers = w->pointers + i * taps * mr;
        const size_t  first = w->starts[i], rows = (i < tiles ? w->starts[i + 1] : tile_start(g, block * g->block + i + 1)) - first;
        float *computed = w->gathered + (first - w->starts[0]) * g->kc, *gathered = w->gathered + (first - w->starts[0]) * g->taps * g->kc;
        if (opf_gemm_computes_rows(g))
            compute_rows(w, image, index, first, rows, computed);
        else if (g->rows == OPF_ROWS_GATHER)
            opf_gemm_gather_rows(w->env->kern, g, image, first, rows, w->pointers + (g->block + 1) * taps * mr, gathered);
        const float *own = opf_gemm_computes_rows(g) ? computed : g->rows == OPF_ROWS_GATHER ? gathered : NULL;
        if (g->rows == OPF_ROWS_WINDOW)
            for (size_t r = 0; r < mr; r++)
                opf_gemm_tile_pointers(g, image, first + (r < rows ? r : rows - 1), pointers + r, mr);
        else if (own != NULL)
            point_at_rows(own, (ptrdiff_t)(opf_gemm_computes_rows(g) ? g->kc : g->taps * g->kc), rows, pointers, mr);
        else
            point_at_rows(image + (ptrdiff_t)first * g->a_row, g->a_row, rows, pointers, mr);
    }
}
