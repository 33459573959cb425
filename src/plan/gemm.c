/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/gemm.h"

#include "cpu/cpu.h"
#include "plan/winograd.h"

#include <math.h>
#include <string.h>

static size_t divide_up(size_t a, size_t b)
{
    return (a + b - 1) / b;
}

/* ---- run ---- */

enum { WAITING = 4 }; /* tiles that an epilogue takes at a time */

typedef struct {
    const opf_run_env   *env;
    const opf_gemm_args *args;
    const float        **pointers; /* [block][taps*mr] */
    float               *gathered; /* [block][mr][taps*kc]: rows that are gathered, or computed by the prologue */
    float               *panel;    /* b of this run: [kc][nr] */
    float               *tile;     /* [WAITING*mr][nr] for the epilogue */
    float               *program;  /* scratch of prologue and epilogue */
    size_t               first_k, n_k; /* the part of a row that is multiplied now */
} worker;

/* Balanced tiles: sizes differ by at most one, so no tile has a lonely row or two. By lines a block is a line of pixels. */
static void tile_rows(const opf_gemm_args *g, size_t tile, size_t *first, size_t *rows)
{
    if (g->rows == OPF_ROWS_LINES) {
        size_t width = (size_t)g->window.out[2], line = tile / g->block * width, i = tile % g->block;
        *first = line + width * i / g->block;
        *rows  = line + width * (i + 1) / g->block - *first;
        return;
    }
    *first = g->m * tile / g->tiles;
    *rows  = g->m * (tile + 1) / g->tiles - *first;
}

static bool has_own_rows(const opf_gemm_args *g)
{
    return g->rows == OPF_ROWS_GATHER || g->prologue.program.n != 0;
}

/* Its tiles' rows lie in the operand itself, so that they can be named before their turn. */
static bool reads_in_place(const opf_gemm_args *g)
{
    return (g->rows == OPF_ROWS_LINEAR || g->rows == OPF_ROWS_WINDOW) && g->prologue.program.n == 0;
}

static size_t taps_in_pointers(const opf_gemm_args *g)
{
    return g->rows == OPF_ROWS_WINDOW ? g->taps : 1;
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

/* The same for the kernel: zeros where the window leaves the image. */
static void tile_pointers(const opf_gemm_args *g, const float *image, size_t pixel, const float **out, size_t mr)
{
    window_pointers(g, image, pixel, out, mr);
    for (size_t t = 0; t < g->taps; t++)
        if (out[t * mr] == NULL)
            out[t * mr] = g->zeros;
}

/* Rows first to first + rows - 1, element by element, to contiguous memory: taps outermost, as weights are packed. pointers:
   scratch, one a tap. */
static void gather_rows(const opf_kern *kern, const opf_gemm_args *g, const float *image, size_t first, size_t rows, const float **pointers,
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

/* One image line (NULL: outside) with its borders. */
static void copy_line(const opf_gemm_args *g, const float *src, float *dst)
{
    const opf_gemm_window *w    = &g->window;
    int64_t                pad  = w->pad[2], last = pad + w->in[2], phases = (int64_t)g->lines.phases, phase = (int64_t)g->lines.phase;
    int64_t                from = pad < 0 ? 0 : pad < phase ? pad : phase, to = last < 0 ? 0 : last < phase ? last : phase;
    if (src == NULL || (phases == 1 && to <= from)) {
        memset(dst, 0, (size_t)(phases * phase) * sizeof *dst);
    } else if (phases == 1) {
        memset(dst, 0, (size_t)from * sizeof *dst);
        memcpy(dst + from, src + (from - pad), (size_t)(to - from) * sizeof *dst);
        memset(dst + to, 0, (size_t)(phase - to) * sizeof *dst);
    } else {
        for (int64_t p = 0; p < phases; p++)
            for (int64_t i = 0; i < phase; i++) {
                int64_t x = i * phases + p;
                *dst++    = x >= pad && x < last ? src[x - pad] : 0.0f;
            }
    }
}

static void copy_lines(const opf_gemm_args *g, const float *image, size_t line, float *dst)
{
    const opf_gemm_window *w  = &g->window;
    int64_t                i0 = (int64_t)line / w->out[1] * w->stride[0] - w->pad[0];
    int64_t                i1 = (int64_t)line % w->out[1] * w->stride[1] - w->pad[1];
    for (size_t c = 0; c < g->kc; c++)
        for (int64_t k0 = 0; k0 < w->kernel[0]; k0++)
            for (int64_t k1 = 0; k1 < w->kernel[1]; k1++, dst += g->lines.phases * g->lines.phase) {
                int64_t y0 = i0 + k0 * w->dilation[0], y1 = i1 + k1 * w->dilation[1];
                bool    inside = y0 >= 0 && y0 < w->in[0] && y1 >= 0 && y1 < w->in[1];
                copy_line(g, inside ? image + (ptrdiff_t)c * g->a_col + y0 * w->in_stride[0] + y1 * w->in_stride[1] : NULL, dst);
            }
}

/* The rows of a tile, computed from those of a. */
static void compute_rows(const worker *w, const float *a, size_t image, size_t first, size_t rows, float *out)
{
    const opf_gemm_args *g = w->args;
    opf_operand          operands[OPF_PROGRAM_OPERANDS];
    opf_store            stores[OPF_PROGRAM_OPERANDS];
    opf_bound_at(w->env, &g->prologue, image, first, 0, operands, stores);
    opf_program_run(w->env->kern, &g->prologue.program, operands, stores, a + (ptrdiff_t)first * g->a_row, g->a_row, out, (ptrdiff_t)g->kc,
                    rows, g->kc, w->program);
}

/* Row pointers of the tiles of a block; rows beyond a tile repeat its last one. */
static void prepare_block(const worker *w, const float *image, size_t index, size_t block)
{
    const opf_gemm_args *g  = w->args;
    size_t               mr = w->env->kern->mr, taps = taps_in_pointers(g);
    if (g->rows == OPF_ROWS_LINES) {
        copy_lines(g, image, block, w->gathered);
        return;
    }
    size_t ahead = reads_in_place(g) ? 1 : 0; /* the first tile of the next block, to prefetch */
    for (size_t i = 0; i < g->block + ahead && block * g->block + i < g->tiles; i++) {
        const float **pointers = w->pointers + i * taps * mr;
        size_t        first, rows;
        tile_rows(g, block * g->block + i, &first, &rows);
        float *computed = w->gathered + i * mr * g->kc, *gathered = w->gathered + i * mr * g->taps * g->kc;
        if (g->prologue.program.n != 0)
            compute_rows(w, image, index, first, rows, computed);
        else if (g->rows == OPF_ROWS_GATHER)
            gather_rows(w->env->kern, g, image, first, rows, w->pointers + (g->block + 1) * taps * mr, gathered);
        for (size_t r = 0; r < mr; r++) {
            size_t row = first + (r < rows ? r : rows - 1);
            if (g->prologue.program.n != 0) {
                pointers[r] = computed + (row - first) * g->kc;
            } else if (g->rows == OPF_ROWS_LINEAR) {
                pointers[r] = image + (ptrdiff_t)row * g->a_row;
            } else if (g->rows == OPF_ROWS_WINDOW) {
                tile_pointers(g, image, row, pointers + r, mr);
            } else {
                pointers[r] = gathered + (row - first) * g->taps * g->kc;
            }
        }
    }
}

static void multiply(const worker *w, opf_gemm_tile *tile, size_t row, size_t rows, size_t cols)
{
    const opf_gemm_args *g = w->args;
    if (g->rows == OPF_ROWS_LINES) {
        tile->line    = w->gathered + row % (size_t)g->window.out[2] * g->lines.step;
        tile->offsets = g->lines.offsets;
        tile->step    = g->lines.step;
        w->env->kern->gemm_lines(tile, rows, cols);
    } else {
        w->env->kern->gemm(tile, rows, cols);
    }
}

/* ---- results in parts ---- */

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

static bool is_parted(const opf_gemm_args *g, size_t col, size_t cols)
{
    return g->n_parts != 0 && part_end(g, part_of(g, col)) < col + cols;
}

/* From the tiles in scratch to the parts that share their columns. */
static void store_parts(const worker *w, size_t image, size_t row, size_t rows, size_t col, size_t cols)
{
    const opf_gemm_args *g = w->args;
    for (const opf_gemm_part *part = part_of(g, col); part < g->parts + g->n_parts && part->first < col + cols; part++) {
        size_t from = part->first > col ? part->first : col, end = part_end(g, part), to = end < col + cols ? end : col + cols;
        w->env->kern->copy_2d(w->tile + (from - col), (ptrdiff_t)cols, 1, part_at(w->env, part, image, row, from),
                              part->c_row, rows, to - from);
    }
}

/* ---- tiles ---- */

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

void opf_gemm_compute_rows(const opf_run_env *env, const opf_gemm_args *g, size_t image, size_t first, size_t rows, size_t panel,
                           const opf_gemm_rest *rest)
{
    size_t        mr = env->kern->mr, cols;
    const float  *a  = (const float *)opf_ref_data(env, g->a) + g->a_images[image];
    opf_gemm_tile tile = opf_gemm_tile_at(env, g, image, 0, first, panel, &cols);
    if (g->a_col != 1)
        gather_rows(env->kern, g, a, first, rows, rest->pointers, rest->gathered);
    for (size_t r = 0; r < mr; r++) {
        size_t row = r < rows ? r : rows - 1;
        if (g->a_col != 1)
            rest->pointers[r] = rest->gathered + row * g->taps * g->kc;
        else
            tile_pointers(g, a, first + row, rest->pointers + r, mr);
    }
    tile.a        = rest->pointers;
    tile.taps     = g->a_col != 1 ? 1 : g->taps;
    tile.kc       = g->a_col != 1 ? g->taps * g->kc : g->kc;
    tile.b        = rest->b;
    tile.c        = rest->c;
    tile.c_stride = rest->c_stride;
    env->kern->gemm(&tile, rows, cols);
}

/* The next tile's rows while the first panel streams by (later panels find them in cache), and of the next panel a share
   in each tile of the block. */
static void prefetch_next(const opf_gemm_args *g, opf_gemm_tile *tile, size_t block, size_t i, size_t panel, size_t mr, size_t nr)
{
    enum { LINE = 16 };
    size_t tiles = g->tiles - block * g->block < g->block ? g->tiles - block * g->block : g->block;
    if (reads_in_place(g) && (i + 1 < tiles ? panel == 0 : panel + 1 == g->panels && block + 1 < g->blocks))
        tile->next_a = tile->a + taps_in_pointers(g) * mr;
    if (g->b == NULL || g->panels * g->blocks == 1)
        return;
    size_t chunks = tile->taps * divide_up(tile->kc, LINE), lines = tile->taps * tile->kc * nr / LINE;
    tile->next_b_rate = divide_up(lines, chunks * tiles);
    tile->next_b      = tile->b + i * tile->next_b_rate * chunks * LINE;
    if (panel + 1 < g->panels)
        tile->next_b += g->taps * g->kc * nr;
    else
        tile->next_b -= panel * g->taps * g->kc * nr;
}

static void run_tile(const worker *w, opf_gemm_tile *tile, size_t block, size_t i, size_t panel, const float *b, size_t first,
                     size_t rows, size_t cols)
{
    const opf_gemm_args *g    = w->args;
    size_t               mr   = w->env->kern->mr;
    bool                 flat = g->rows != OPF_ROWS_WINDOW; /* gathered taps are one long row */
    tile->a                   = w->pointers + i * taps_in_pointers(g) * mr;
    tile->taps                = flat ? 1 : g->taps;
    tile->kc                  = flat ? w->n_k : g->kc;
    tile->b                   = b + w->first_k * w->env->kern->nr;
    if (w->first_k != 0) { /* onto the sums so far */
        tile->bias            = NULL;
        tile->residual        = tile->c;
        tile->residual_stride = tile->c_stride;
    }
    if (w->first_k + w->n_k != g->taps * g->kc) {
        tile->lo = -INFINITY;
        tile->hi = INFINITY;
    }
    prefetch_next(g, tile, block, i, panel, mr, w->env->kern->nr);
    multiply(w, tile, first, rows, cols);
}

/* The tiles of a block for one panel. An epilogue runs on several tiles at a time, which wait for it in L1. */
static void run_panel(const worker *w, size_t image, size_t group, size_t block, size_t panel, const float *b)
{
    const opf_gemm_args *g    = w->args;
    const opf_run_env   *env  = w->env;
    size_t               mr   = env->kern->mr, nr = env->kern->nr, waiting = 0, start = 0;
    size_t               end  = block * g->block + g->block < g->tiles ? g->block : g->tiles - block * g->block;
    for (size_t i = 0; i < end; i++) {
        size_t first, rows, cols;
        tile_rows(g, block * g->block + i, &first, &rows);
        opf_gemm_tile tile   = opf_gemm_tile_at(env, g, image, group, first, panel, &cols);
        const bool    parted = is_parted(g, panel * nr, cols), direct = g->c_col == 1 && !parted;
        if (g->epilogue.program.n == 0 && direct) {
            run_tile(w, &tile, block, i, panel, b, first, rows, cols);
            continue;
        }
        start         = waiting == 0 ? first : start;
        tile.c        = w->tile + waiting * cols;
        tile.c_stride = (ptrdiff_t)cols;
        run_tile(w, &tile, block, i, panel, b, first, rows, cols);
        waiting += rows;
        if (i + 1 < end && waiting + mr <= WAITING * mr)
            continue;
        const opf_gemm_tile at = opf_gemm_tile_at(env, g, image, group, start, panel, &cols);
        if (g->epilogue.program.n != 0) {
            opf_operand operands[OPF_PROGRAM_OPERANDS];
            opf_store   stores[OPF_PROGRAM_OPERANDS];
            opf_bound_at(env, &g->epilogue, image, start, group * g->n + panel * nr, operands, stores);
            opf_program_run(env->kern, &g->epilogue.program, operands, stores, w->tile, (ptrdiff_t)cols, direct ? at.c : w->tile,
                            direct ? at.c_stride : (ptrdiff_t)cols, waiting, cols, w->program);
        }
        if (parted)
            store_parts(w, image, start, waiting, panel * nr, cols);
        else if (!direct)
            env->kern->copy_2d(w->tile, 1, (ptrdiff_t)cols, at.c, g->c_col, cols, waiting);
        waiting = 0;
    }
}

static size_t round_64(size_t bytes)
{
    return (bytes + 63) & ~(size_t)63;
}

static size_t scratch_layout(const opf_gemm_args *g, const opf_kern *kern, worker *w, char *scratch)
{
    size_t taps = taps_in_pointers(g), at = 0, rows = g->block * kern->mr, ahead = kern->mr;
    w->pointers = (const float **)(void *)(scratch + at);
    at += round_64(((rows + ahead) * taps + g->taps) * sizeof(float *));
    w->gathered = (float *)(void *)(scratch + at);
    at += has_own_rows(g)             ? round_64(rows * g->taps * g->kc * sizeof(float))
          : g->rows == OPF_ROWS_LINES ? round_64(g->lines.count * g->lines.phases * g->lines.phase * sizeof(float))
                                      : 0;
    w->panel = (float *)(void *)(scratch + at);
    at += g->b == NULL ? round_64(g->kc * kern->nr * sizeof(float)) : 0;
    w->tile = (float *)(void *)(scratch + at);
    at += round_64(WAITING * kern->mr * kern->nr * sizeof(float));
    w->program = (float *)(void *)(scratch + at);
    size_t before = g->prologue.program.n != 0 ? opf_program_scratch(&g->prologue.program) : 0;
    size_t after  = g->epilogue.program.n != 0 ? opf_program_scratch(&g->epilogue.program) : 0;
    return at + round_64((before > after ? before : after) * sizeof(float));
}

/* A few panels of a block in parts of k, so that the rows' part stays in L2 while the panels' parts stream by, each once. */
static void run_parts(worker *w, size_t image, size_t group, size_t block, size_t panel, size_t end, const float *b)
{
    const opf_gemm_args *g = w->args;
    size_t               nr = w->env->kern->nr, left = g->tiles - block * g->block;
    size_t               rows = (left < g->block + 1 ? left : g->block + 1) * w->env->kern->mr; /* prepared, one tile ahead */
    for (w->first_k = 0; w->first_k < g->kc; w->first_k += w->n_k) {
        w->n_k = g->kc - w->first_k < g->part ? g->kc - w->first_k : g->part;
        for (size_t p = panel; p < end; p++)
            run_panel(w, image, group, block, p, b + p * g->kc * nr);
        for (size_t r = 0; r < rows; r++)
            w->pointers[r] += w->n_k;
    }
}

/* Units in the order image, group, then block and panel: with packed weights a block keeps its rows in cache while
   panels stream by; with b of this run a panel is packed once and used by all blocks. */
static void run_gemm(const opf_run_env *env, const void *args, size_t begin, size_t end, void *scratch)
{
    const opf_gemm_args *g = args;
    worker               w = {.env = env, .args = g, .n_k = g->taps * g->kc};
    (void)scratch_layout(g, env->kern, &w, scratch);
    size_t nr = env->kern->nr, prepared = SIZE_MAX, packed = SIZE_MAX;
    for (size_t unit = begin, next; unit < end; unit = next) {
        size_t inner = unit % (g->blocks * g->panels), outer = unit / (g->blocks * g->panels);
        size_t image = outer / g->groups, group = outer % g->groups;
        size_t panel = g->b != NULL ? inner % g->panels : inner / g->blocks;
        size_t block = g->b != NULL ? inner / g->panels : inner % g->blocks;
        const float *b;
        next = unit + 1;
        if (g->b != NULL) {
            b = g->b + (group * g->panels + panel) * g->taps * g->kc * nr;
        } else {
            size_t key = outer * g->panels + panel, cols = g->n - panel * nr < nr ? g->n - panel * nr : nr;
            if (packed != key)
                env->kern->pack_b((const float *)opf_ref_data(env, g->b_ref) + g->b_images[image] + (ptrdiff_t)(panel * nr) * g->b_col,
                                  g->b_row, g->b_col, g->kc, cols, w.panel);
            packed = key;
            b      = w.panel;
        }
        if (prepared != outer * g->blocks + block) {
            const float *a = opf_ref_data(env, g->a);
            prepare_block(&w, a + g->a_images[image] + (ptrdiff_t)group * g->a_group, image, block);
            prepared = outer * g->blocks + block;
        }
        if (g->part != 0) {
            next = end - unit < g->panels - panel ? end : unit + (g->panels - panel);
            run_parts(&w, image, group, block, panel, panel + (next - unit), g->b + group * g->panels * g->kc * nr);
            prepared = SIZE_MAX; /* the pointers have moved */
        } else {
            run_panel(&w, image, group, block, panel, b);
        }
    }
}

/* ---- lowering ---- */

/* Removes the first instruction of a program: its result becomes arg 0. */
static void drop_first(opf_program *program)
{
    program->n--;
    memmove(&program->instr[0], &program->instr[1], program->n * sizeof *program->instr);
    for (uint32_t i = 0; i < program->n; i++)
        for (int k = 0; k < 2; k++)
            if (program->instr[i].args[k] > 0)
                program->instr[i].args[k]--;
}

/* The first instruction may become part of the kernel: nothing else reads the tile as it comes, or stores. */
static bool first_is_free(const opf_program *program)
{
    if (program->n == 0 || program->instr[0].store >= 0)
        return false;
    for (uint32_t i = 1; i < program->n; i++) {
        const opf_instr *instr = &program->instr[i];
        if (instr->args[0] == 0 || (opf_ew_reads_b(instr->op) && instr->args[1] == 0))
            return false;
    }
    return true;
}

/* In an Add whose one side is the tile: the operand number of the other side, or -1. */
static int added_operand(const opf_program *program)
{
    const opf_instr *instr = &program->instr[0];
    if (!first_is_free(program) || instr->op != OPF_EW_ADD)
        return -1;
    if (instr->args[0] == 0 && instr->args[1] < 0)
        return -instr->args[1] - 1;
    return instr->args[1] == 0 && instr->args[0] < 0 ? -instr->args[0] - 1 : -1;
}

/* A constant that has one element a column (or one in all), as a bias of the kernel. */
static bool is_column_constant(const opf_planner *planner, opf_value_id value, const opf_place *result, int32_t col, size_t columns)
{
    const opf_const *c = opf_graph_value(planner->graph, value)->constant;
    if (c == NULL || (c->count != columns && c->count != 1))
        return false;
    int32_t axis = col - (result->rank - c->rank); /* where the column axis is in the constant */
    return c->count == 1 || (axis >= 0 && axis < c->rank && (size_t)c->dims[axis] == columns);
}

static opf_status take_bias(opf_planner *planner, opf_gemm_args *args, const opf_const *bias, opf_error *error)
{
    if (bias == NULL)
        return OPF_OK;
    opf_weight_format format = opf_format_vector((int64_t)(args->n * args->groups), (int64_t)args->groups, (int64_t)planner->options->kern->nr);
    args->bias               = opf_weights_get(planner->options->weights, bias, &format);
    OPF_OOM_IF(error, args->bias == NULL);
    return OPF_OK;
}

static void take_clamp(opf_gemm_args *args, opf_program *program)
{
    if (!first_is_free(program))
        return;
    const opf_instr *instr = &program->instr[0];
    if (instr->args[0] != 0 || (instr->op != OPF_EW_RELU && instr->op != OPF_EW_CLIP))
        return;
    float lo = instr->op == OPF_EW_RELU ? 0.0f : instr->params[0];
    float hi = instr->op == OPF_EW_RELU ? INFINITY : instr->params[1];
    args->lo = lo;
    args->hi = hi;
    drop_first(program);
}

opf_status opf_gemm_try_lines(opf_planner *planner, opf_gemm_args *args, opf_error *error)
{
    enum { MOST = 1 << 18 }; /* floats of all copied lines, about L2 */
    const opf_gemm_window *w     = &args->window;
    opf_gemm_lines        *lines = &args->lines;
    int64_t                span  = (w->out[2] - 1) * w->stride[2] + (w->kernel[2] - 1) * w->dilation[2] + 1;
    /* A narrow image has no full tile on a line. */
    if (w->in_stride[2] != 1 || w->out[2] < (int64_t)planner->options->kern->mr || span > MOST)
        return OPF_OK;
    lines->step   = w->stride[2] <= 2 ? (size_t)w->stride[2] : 1;
    lines->phases = w->stride[2] <= 2 ? 1 : (size_t)w->stride[2];
    lines->phase  = divide_up((size_t)span, lines->phases);
    lines->count  = args->kc * (size_t)(w->kernel[0] * w->kernel[1]);
    if (lines->count > MOST || lines->count * lines->phases * lines->phase > MOST)
        return OPF_OK;
    uint32_t *offsets = OPF_NEW(planner->arena, uint32_t, args->taps * args->kc);
    OPF_OOM_IF(error, offsets == NULL);
    size_t window_lines = args->taps / (size_t)w->kernel[2];
    for (size_t t = 0; t < args->taps; t++)
        for (size_t i = 0; i < args->kc; i++) {
            size_t line = i * window_lines + t / (size_t)w->kernel[2], x = t % (size_t)w->kernel[2] * (size_t)w->dilation[2];
            offsets[t * args->kc + i] = (uint32_t)((line * lines->phases + x % lines->phases) * lines->phase + x / lines->phases);
        }
    lines->offsets = offsets;
    args->rows     = OPF_ROWS_LINES;
    return OPF_OK;
}

static void size_blocks(opf_gemm_args *args, const opf_kern *kern)
{
    if (args->rows == OPF_ROWS_LINES && args->m != 0) {
        args->block  = divide_up((size_t)args->window.out[2], kern->mr);
        args->blocks = args->m / (size_t)args->window.out[2];
        args->tiles  = args->blocks * args->block;
        args->panels = divide_up(args->n, kern->nr);
        return;
    }
    enum { MOST = 144, SUMMED = 256 };
    size_t k         = args->taps * args->kc;
    size_t row_bytes = k * sizeof(float) / (args->rows == OPF_ROWS_WINDOW ? 4 : 1); /* windows overlap */
    size_t rows      = opf_cpu_l2_bytes() / 4 / (row_bytes == 0 ? 1 : row_bytes);
    rows             = rows > MOST ? MOST : rows < kern->mr ? kern->mr : rows;
    /* Long rows are multiplied in parts, whose sums the result holds meanwhile: a full block of them, so that weights are
       read as seldom as with short ones. A part is a multiple of what the kernel sums at a time. */
    if (rows < MOST && rows < args->m && args->rows == OPF_ROWS_LINEAR && args->b != NULL && args->prologue.program.n == 0 &&
        args->epilogue.program.n == 0 && args->n_parts == 0 && args->c_col == 1) {
        rows            = args->m < MOST ? args->m : MOST;
        size_t part     = opf_cpu_l2_bytes() / 4 / (rows * sizeof(float)) / SUMMED * SUMMED;
        size_t n        = divide_up(k, part == 0 ? SUMMED : part);
        args->part      = divide_up(divide_up(k, n), SUMMED) * SUMMED;
        rows            = divide_up(rows, kern->mr) * kern->mr;
    }
    args->tiles      = divide_up(args->m, kern->mr);
    args->block      = rows / kern->mr;
    if (args->block > args->tiles)
        args->block = args->tiles == 0 ? 1 : args->tiles; /* no rows: no units */
    if (args->tiles == 0) {
        args->panels = divide_up(args->n, kern->nr);
        return;
    }
    args->blocks = divide_up(args->tiles, args->block);
    args->block  = divide_up(args->tiles, args->blocks);
    args->blocks = divide_up(args->tiles, args->block);
    args->panels = divide_up(args->n, kern->nr);
}

opf_status opf_gemm_finish(opf_planner *planner, const opf_node *node, opf_gemm_args *args, const opf_place *a, const opf_place *b_place,
                           const opf_const *own_bias, const opf_place *result, opf_split split, const opf_lowered *lowered,
                           const char *kernel, opf_error *error)
{
    (void)node;
    const opf_kern *kern     = planner->options->kern;
    opf_lowered     rest     = *lowered;
    opf_program    *program  = &rest.program;
    size_t          columns  = args->n * args->groups;
    opf_place       residual = {0};
    args->lo                 = -INFINITY;
    args->hi                 = INFINITY;
    args->c                  = opf_place_ref(result);
    int add                  = added_operand(program);
    if (own_bias == NULL && add >= 0 && is_column_constant(planner, rest.operands[add], result, split.col, columns)) {
        own_bias = opf_graph_value(planner->graph, rest.operands[add])->constant;
        drop_first(program);
        add = added_operand(program);
    }
    OPF_TRY(take_bias(planner, args, own_bias, error));
    if (add >= 0) {
        opf_place place;
        int64_t   outer, row;
        OPF_TRY(opf_plan_place(planner, rest.operands[add], &place, error));
        opf_place seen = opf_place_broadcast(&place, result->rank, result->dims);
        if (seen.strides[split.col] == 1 && seen.dims[split.col] == (int64_t)columns &&
            opf_place_linear(&seen, split.outer_first, split.outer_last, &outer) &&
            opf_place_linear(&seen, split.row_first, split.row_last, &row)) {
            args->residual       = opf_place_ref(&seen);
            args->residual_outer = (ptrdiff_t)outer;
            args->residual_row   = (ptrdiff_t)row;
            residual             = place;
            drop_first(program);
        }
    }
    take_clamp(args, program);
    opf_place operands[OPF_PROGRAM_OPERANDS], stores[OPF_PROGRAM_OPERANDS];
    if (program->n != 0)
        OPF_TRY(opf_bind(planner, &rest, result, split, &args->epilogue, operands, stores, error));
    size_blocks(args, kern);
    worker         w;
    opf_gemm_args *kept = opf_arena_copy(planner->arena, args, sizeof *args);
    OPF_OOM_IF(error, kept == NULL);
    opf_plan_step step = {.kernel        = kernel,
                          .run           = run_gemm,
                          .args          = kept,
                          .units         = args->images * args->groups * args->blocks * args->panels,
                          .scratch_bytes = scratch_layout(args, kern, &w, NULL),
                          .flops         = 2.0 * (double)(args->images * args->groups * args->m) * (double)(args->n * args->kc * args->taps)};
    if (kept->winograd.u != NULL)
        opf_winograd_step(kept, kern, &step);
    OPF_TRY(opf_plan_add_step(planner, &step, error));
    opf_plan_reads(planner, a);
    if (b_place != NULL)
        opf_plan_reads(planner, b_place);
    opf_plan_writes(planner, result);
    if (residual.buffer != 0) {
        opf_plan_reads(planner, &residual);
        bool alone = residual.buffer != a->buffer && (b_place == NULL || b_place->buffer != residual.buffer);
        for (uint32_t i = 0; i < program->n_operands && program->n != 0; i++)
            alone = alone && operands[i].buffer != residual.buffer;
        for (uint32_t i = 0; i < args->prologue.program.n_operands; i++)
            alone = alone && args->prologue.operands[i].buffer != residual.buffer;
        if (alone)
            opf_plan_may_share(planner, result, &residual);
    }
    if (program->n != 0)
        opf_bound_touch(planner, &args->epilogue, operands, stores);
    return OPF_OK;
}
