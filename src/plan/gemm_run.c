/* SPDX-License-Identifier: Apache-2.0 */
/* Running a product step: the order of blocks, panels and tiles, and what follows the products. */
#include "plan/gemm_run.h"
#include "base/round.h"

#include <math.h>
#include <string.h>

/* A panel's tiles in one block. What they share is set once: a tile may take no longer than a few hundred cycles. */
typedef struct strip {
    opf_gemm_tile tile; /* the one at hand */
    float        *c;    /* of the block's first row, as residual */
    const float  *residual;
    size_t        tiles, cols;
    const float  *next_b; /* a share of it is prefetched in each tile */
    size_t        next_b_step;
    bool          fetches_lines; /* of the image instead */
    size_t        next_a; /* tiles that prefetch the rows of the one behind them: from here to next_a_end */
    size_t        next_a_end;
} strip;

/* Of the next panel a share is fetched in each tile of the block. One that is read once and large is fetched as it is read, so far
   ahead as memory takes: behind it the next one follows. */
static void prefetch_panel(const opf_gemm_worker *w, strip *s, size_t group, size_t panel)
{
    enum { AHEAD = 1 << 12, LARGE = 1 << 16 };
    const opf_gemm_args *g = w->args;
    const size_t nr = w->env->kern->nr;
    const size_t k = s->tile.taps * s->tile.kc, floats = k * nr;
    const bool   is_last = panel + 1 == g->panels;
    const size_t before  = g->beside != NULL ? 0 : opf_ahead_panels(&w->ahead, nr, floats, g->panels);
    if (w->ahead.floats != 0 && w->left == 0) {
        s->next_b_step = opf_ahead_rest(&w->ahead, before * floats, &s->tile, nr, k, s->tiles);
        s->next_b      = s->tile.next_b;
        return;
    }
    if (g->b == NULL || k == 0 || g->panels * g->blocks == 1)
        return;
    if (s->tiles == 1 && (is_last || floats > LARGE)) {
        s->next_b           = floats > AHEAD ? s->tile.b + AHEAD : NULL;
        s->tile.next_b_rate = (uint32_t)nr;
        s->tile.next_b_gap  = OPF_LINE;
        return;
    }
    if (g->scales_b && w->n_scaled < g->panels) /* the next one is not scaled yet */
        s->next_b = g->b + (group * g->panels + (panel + 1) % g->panels) * g->kc * nr;
    else
        s->next_b = is_last ? s->tile.b - panel * g->taps * g->kc * nr : s->tile.b + g->taps * g->kc * nr;
    s->next_b_step = opf_gemm_fetch(&s->tile, s->next_b, k, nr, s->tiles);
    if (w->left != 0 && w->left <= before)
        s->next_b_step = opf_ahead_beside(&w->ahead, before - w->left, &s->tile, nr, floats, s->tiles);
}

/* Of the image, what the next block adds is fetched with the first panel: a line each tile. */
static const float *line_to_fetch(const opf_gemm_worker *w, size_t tile)
{
    const opf_gemm_args *g = w->args;
    return tile >= g->kc * w->next_lines ? NULL
                                         : w->next_line + (ptrdiff_t)(tile / w->next_lines) * g->a_col +
                                               (ptrdiff_t)(tile % w->next_lines) * g->window.in_stride[1];
}

/* n: panels that are computed side by side */
static strip begin_strip(const opf_gemm_worker *w, size_t image, size_t group, size_t block, size_t panel, size_t n, const float *b)
{
    const opf_gemm_args *g    = w->args;
    const size_t         taps = opf_gemm_taps_in_pointers(g); /* 1: gathered taps are one long row */
    const size_t         nr   = w->env->kern->nr, left = g->n - panel * nr;
    strip                s    = {.tiles = opf_gemm_block_tiles(g, block)};
    s.tile      = opf_gemm_tile_at(w->env, g, image, group, w->starts[0], panel, &s.cols);
    s.tile.taps = taps;
    s.tile.kc   = taps == 1 ? w->n_k : g->taps * g->kc / taps;
    s.tile.b    = b + w->first_k * nr;
    if (w->first_k != 0) { /* onto the sums so far */
        s.tile.bias            = NULL;
        s.tile.residual        = s.tile.c;
        s.tile.residual_stride = s.tile.c_stride;
    }
    if (w->first_k + w->n_k != g->taps * g->kc) {
        s.tile.lo = -INFINITY;
        s.tile.hi = INFINITY;
    }
    s.c        = s.tile.c;
    s.residual = s.tile.residual;
    if (g->rows == OPF_ROWS_LINES) {
        s.tile.step     = (uint32_t)g->lines.step;
        s.fetches_lines = panel == 0 && g->taps * g->kc != 0;
    } else if (opf_gemm_reads_in_place(g)) { /* rows come with the first panel; later ones find them in cache */
        s.next_a     = panel == 0 ? 0 : s.tiles - 1;
        s.next_a_end = panel + 1 == g->panels && block + 1 < g->blocks ? s.tiles : s.tiles - 1;
    }
    if (s.fetches_lines) {
        s.tile.next_b_rate = (uint32_t)opf_divide_up((size_t)g->window.in[2], g->taps * g->kc);
        s.tile.next_b_gap  = s.tile.next_b_rate > OPF_LINE ? OPF_LINE : 0;
    } else if (n == 1) {
        prefetch_panel(w, &s, group, panel);
    } else {
        s.cols         = left < n * nr ? left : n * nr;
    }
    return s;
}

/* Tile i, to its place in the result, or to c. */
static void run_tile(const opf_gemm_worker *w, strip *s, size_t i, float *c)
{
    const opf_gemm_args *g     = w->args;
    const size_t         first = w->starts[i], rows = w->starts[i + 1] - first, mr = w->env->kern->mr;
    const ptrdiff_t      row   = (ptrdiff_t)(first - w->starts[0]);
    s->tile.c        = c != NULL ? c : s->c + row * s->tile.c_stride;
    s->tile.residual = s->residual == NULL ? NULL : s->residual + row * s->tile.residual_stride;
    s->tile.next_b   = s->next_b == NULL ? NULL : s->next_b + i * s->next_b_step;
    if (g->rows == OPF_ROWS_LINES) {
        const bool in_place = i >= w->in_place && i < w->copied;
        s->tile.line    = in_place ? w->line + (first - w->starts[w->in_place]) * g->lines.step : w->gathered + (size_t)row * g->lines.step;
        s->tile.offsets = in_place ? g->lines.in_place : g->lines.offsets;
        if (s->fetches_lines)
            s->tile.next_b = line_to_fetch(w, i);
        w->env->kern->gemm_lines(&s->tile, rows, s->cols);
    } else {
        s->tile.a      = w->pointers + i * opf_gemm_taps_in_pointers(g) * mr;
        s->tile.next_a = i >= s->next_a && i < s->next_a_end ? s->tile.a + opf_gemm_taps_in_pointers(g) * mr : NULL;
        if (s->cols > w->env->kern->nr)
            w->env->kern->gemm_panels(&(opf_gemm_strip){.tile = s->tile, .b_panel = g->taps * g->kc * w->env->kern->nr}, rows, s->cols);
        else
            w->env->kern->gemm(&s->tile, rows, s->cols);
    }
}

/* The end of the tiles from i on that have as many rows as it has, `most` of them. */
static size_t alike(const opf_gemm_worker *w, size_t i, size_t tiles, size_t most)
{
    const size_t rows = w->starts[i + 1] - w->starts[i];
    size_t       end  = i + 1;
    while (end < tiles && end - i < most && w->starts[end + 1] - w->starts[end] == rows)
        end++;
    return end;
}

/* Tiles [i, end), all alike, to their place in the result, or to c, where rows follow one another as in the result. cols: from the
   strip's panel on, in order tile by tile. */
static void run_tiles(const opf_gemm_worker *w, strip *s, size_t i, size_t end, size_t cols, float *c)
{
    const opf_gemm_args *g = w->args;
    const size_t         rows = w->starts[i + 1] - w->starts[i], nr = w->env->kern->nr;
    const ptrdiff_t      row = (ptrdiff_t)(w->starts[i] - w->starts[0]);
    if (!opf_gemm_has_even_rows(g) || (s->tiles == 1 && s->cols > nr)) {
        for (; i < end; i++)
            run_tile(w, s, i, c == NULL ? NULL : c + ((ptrdiff_t)(w->starts[i] - w->starts[0]) - row) * s->tile.c_stride);
        return;
    }
    opf_gemm_strip down = {.tile         = s->tile,
                           .b_panel      = g->taps * g->kc * nr,
                           .a            = w->pointers[i * w->env->kern->mr],
                           .a_row        = !opf_gemm_has_own_rows(g) ? g->a_row : (ptrdiff_t)(g->taps * g->kc),
                           .every_other  = g->rows == OPF_ROWS_LINEAR && g->a_col == 2 && !opf_gemm_has_own_rows(g),
                           .then         = g->then,
                           .param        = g->param,
                           .tiles        = end - i,
                           .fetches_rows = opf_gemm_reads_in_place(g) && s->next_a == 0,
                           .next_b_step  = s->next_b_step};
    down.tile.c        = c != NULL ? c : s->c + row * s->tile.c_stride;
    down.tile.residual = s->residual == NULL ? NULL : s->residual + row * s->tile.residual_stride;
    down.tile.next_b   = s->next_b == NULL ? NULL : s->next_b + i * s->next_b_step;
    w->env->kern->gemm_strip(&down, rows, cols);
}

/* Whether what follows the products can happen where they are stored, a tile at a time: a clamp, or unary operators. */
static bool finishes_in_place(const opf_gemm_args *g)
{
    return g->c_col == 1 && g->scatter == NULL && (g->epilogue.program.n == 0 || opf_program_is_chain(&g->epilogue.program));
}

static void finish_in_place(const opf_gemm_worker *w, float *c, ptrdiff_t stride, size_t rows, size_t cols)
{
    if (w->args->epilogue.program.n != 0)
        opf_program_run(w->env->kern, &w->args->epilogue.program, NULL, NULL, c, stride, c, stride, rows, cols, NULL);
}

enum { FEW_PANELS = 16, FLOATS_OF_FEW = 1 << 12 }; /* half of the smallest L1 */

/* Few and short panels stay in L1 together: then rows go by once, and the result is written from its begin to its end, which
   memory likes best. */
static bool goes_by_rows(const opf_gemm_args *g, const opf_kern *kern)
{
    return g->b != NULL && g->part == 0 && g->n_parts == 0 && g->panels > 1 && g->panels <= FEW_PANELS &&
           g->panels * kern->nr * g->taps * g->kc <= FLOATS_OF_FEW && finishes_in_place(g);
}

enum { TILES_OF_PROGRAM = 8 }; /* that stay in L1 until operators have followed */

/* The tiles of a block for panels [panel, end). */
static void run_rows(const opf_gemm_worker *w, size_t image, size_t group, size_t block, size_t panel, size_t end, const float *b)
{
    const opf_gemm_args *g  = w->args;
    const size_t         nr = w->env->kern->nr, left = g->n - panel * nr, n = end - panel, cols = left < n * nr ? left : n * nr;
    const size_t         most = g->epilogue.program.n == 0 ? SIZE_MAX : n > TILES_OF_PROGRAM ? 1 : TILES_OF_PROGRAM / n;
    const bool           even = opf_gemm_has_even_rows(g); /* then one strip takes all panels */
    const size_t         n_strips = even ? 1 : n;
    strip                strips[FEW_PANELS];
    for (size_t p = 0; p < n_strips; p++) {
        strips[p]        = begin_strip(w, image, group, block, panel + p, 1, b + p * g->taps * g->kc * nr);
        strips[p].next_b = NULL; /* they stay in L1 */
    }
    for (size_t i = 0, to; i < strips[0].tiles; i = to) {
        float *c = strips[0].c + (ptrdiff_t)(w->starts[i] - w->starts[0]) * strips[0].tile.c_stride;
        to       = even ? alike(w, i, strips[0].tiles, most) : i + 1;
        for (size_t p = 0; p < n_strips; p++)
            run_tiles(w, &strips[p], i, to, even ? cols : strips[p].cols, NULL);
        finish_in_place(w, c, g->c_row, w->starts[to] - w->starts[i], cols);
    }
}

/* The tiles that wait in scratch, their first row at `start`: through the epilogue to their place. */
static void finish_waiting(const opf_gemm_worker *w, size_t image, size_t group, size_t panel, size_t start, size_t rows, size_t cols,
                           bool parted)
{
    const opf_gemm_args *g      = w->args;
    const opf_run_env   *env    = w->env;
    const bool           direct = g->c_col == 1 && !parted;
    if (g->scatter != NULL) {
        opf_gemm_scatter_rows(w, image, group, start, rows, panel);
        return;
    }
    size_t               nr = env->kern->nr, first;
    const opf_gemm_tile  at = opf_gemm_tile_at(env, g, image, group, start, panel, &first);
    if (g->epilogue.program.n != 0) {
        opf_operand operands[OPF_PROGRAM_OPERANDS];
        opf_store   stores[OPF_PROGRAM_OPERANDS];
        opf_bound_at(env, &g->epilogue, image, start, group * g->n + panel * nr, operands, stores);
        if (g->epilogue.given != 0)
            operands[g->epilogue.given - 1] = (opf_operand){.data = w->beside + (start - w->starts[0]) * cols, .row = (ptrdiff_t)cols, .col = 1};
        opf_program_run(env->kern, &g->epilogue.program, operands, stores, w->tile, (ptrdiff_t)cols, direct ? at.c : w->tile,
                        direct ? at.c_stride : (ptrdiff_t)cols, rows, cols, w->program);
    }
    if (parted)
        opf_gemm_store_parts(w, image, start, rows, panel * nr, cols);
    else if (!direct)
        env->kern->copy_2d(w->tile, 1, (ptrdiff_t)cols, at.c, g->c_col, cols, rows);
}

/* Of two products that take turns, what is fetched meanwhile is the other one's panel. */
static void fetch_other(strip *s, const opf_gemm_args *other, size_t panel, size_t nr)
{
    if (s->next_b != NULL && s->tiles > 1)
        s->next_b = other->b + panel % other->panels * other->taps * other->kc * nr;
}

/* The tiles of the product beside, through its epilogue, to scratch. */
static void run_beside(const opf_gemm_worker *w, size_t image, size_t block, size_t panel, size_t n)
{
    const opf_gemm_args *g     = w->args->beside->args;
    const opf_kern      *kern  = w->env->kern;
    opf_gemm_worker      other = *w;
    opf_operand          operands[OPF_PROGRAM_OPERANDS];
    opf_store            stores[OPF_PROGRAM_OPERANDS];
    other.args      = g;
    strip s         = begin_strip(&other, image, 0, block, panel, n, g->b + panel * g->taps * g->kc * kern->nr);
    s.tile.c_stride = (ptrdiff_t)s.cols;
    fetch_other(&s, w->args, panel, kern->nr);
    for (size_t i = 0, end; i < s.tiles; i = end) {
        end               = alike(w, i, s.tiles, TILES_OF_PROGRAM);
        float       *c    = w->beside + (w->starts[i] - w->starts[0]) * s.cols;
        const size_t rows = w->starts[end] - w->starts[i];
        run_tiles(&other, &s, i, end, s.cols, c);
        if (g->epilogue.program.n == 0)
            continue;
        opf_bound_at(w->env, &g->epilogue, image, w->starts[i], panel * kern->nr, operands, stores);
        opf_program_run(kern, &g->epilogue.program, operands, stores, c, s.tile.c_stride, c, s.tile.c_stride, rows, s.cols, w->program);
    }
}

/* The tiles of a block for n panels. An epilogue with operands runs on several tiles at a time, which wait for it in L1. */
static void run_panel(const opf_gemm_worker *w, size_t image, size_t group, size_t block, size_t panel, size_t n, const float *b)
{
    const opf_gemm_args *g      = w->args;
    if (g->beside != NULL)
        run_beside(w, image, block, panel, n);
    strip                s      = begin_strip(w, image, group, block, panel, n, b);
    if (g->beside != NULL)
        fetch_other(&s, g->beside->args, panel + 1, w->env->kern->nr);
    const bool           parted = opf_gemm_is_parted(g, panel * w->env->kern->nr, s.cols);
    if (finishes_in_place(g) && !parted) {
        const bool   follows = w->first_k + w->n_k == g->taps * g->kc && g->epilogue.program.n != 0;
        const size_t most    = follows ? TILES_OF_PROGRAM : SIZE_MAX;
        for (size_t i = 0, end; i < s.tiles; i = end) {
            end = alike(w, i, s.tiles, most);
            run_tiles(w, &s, i, end, s.cols, NULL);
            if (follows)
                finish_in_place(w, s.c + (ptrdiff_t)(w->starts[i] - w->starts[0]) * s.tile.c_stride, s.tile.c_stride, w->starts[end] - w->starts[i], s.cols);
        }
        return;
    }
    s.tile.c_stride = (ptrdiff_t)s.cols;
    for (size_t from = 0, to; from < s.tiles; from = to) {
        const size_t start = w->starts[from];
        to = s.tiles - from < OPF_GEMM_WAITING ? s.tiles : from + OPF_GEMM_WAITING;
        for (size_t i = from, end; i < to; i = end) {
            end = alike(w, i, to, SIZE_MAX);
            run_tiles(w, &s, i, end, s.cols, w->tile + (w->starts[i] - start) * s.cols);
        }
        finish_waiting(w, image, group, panel, start, w->starts[to] - start, s.cols, parted);
    }
}

static size_t scratch_layout(const opf_gemm_args *g, const opf_kern *kern, opf_gemm_worker *w, char *scratch)
{
    size_t taps = opf_gemm_taps_in_pointers(g), at = 0, rows = g->block * kern->mr, ahead = kern->mr;
    w->pointers = (const float **)(void *)(scratch + at);
    at += opf_round_64(((rows + ahead) * taps + g->taps) * sizeof(float *));
    w->starts = (size_t *)(void *)(scratch + at);
    at += opf_round_64((g->block + 1) * sizeof(size_t));
    w->scaled = (float *)(void *)(scratch + at);
    at += g->scales_b ? opf_round_64(g->panels * kern->nr * g->kc * sizeof(float)) : 0;
    w->gathered = (float *)(void *)(scratch + at);
    at += opf_gemm_has_own_rows(g)    ? opf_round_64(rows * g->taps * g->kc * sizeof(float))
          : opf_gemm_goes_by_lines(g) ? opf_round_64(g->lines.count * g->lines.phases * g->lines.phase * sizeof(float))
                                      : 0;
    w->panel = (float *)(void *)(scratch + at);
    at += g->b == NULL ? opf_round_64(g->kc * kern->nr * sizeof(float)) : 0;
    w->tile = (float *)(void *)(scratch + at);
    at += opf_round_64(OPF_GEMM_WAITING * kern->mr * kern->nr * sizeof(float));
    w->beside = (float *)(void *)(scratch + at);
    at += g->beside != NULL ? opf_round_64(rows * kern->nr * sizeof(float)) : 0;
    w->program = (float *)(void *)(scratch + at);
    size_t before = opf_gemm_computes_rows(g) ? opf_program_scratch(&g->prologue.program) : 0;
    size_t after  = g->epilogue.program.n != 0 ? opf_program_scratch(&g->epilogue.program) : 0;
    size_t beside = g->beside != NULL && g->beside->args->epilogue.program.n != 0 ? opf_program_scratch(&g->beside->args->epilogue.program) : 0;
    size_t most   = before > after ? before : after;
    return at + opf_round_64((most > beside ? most : beside) * sizeof(float));
}

/* A few panels of a block in parts of k, so that the rows' part stays in L2 while the panels' parts stream by, each once. */
static void run_parts(opf_gemm_worker *w, size_t image, size_t group, size_t block, size_t panel, size_t end, const float *b)
{
    const opf_gemm_args *g = w->args;
    size_t               nr = w->env->kern->nr, left = g->tiles - block * g->block;
    size_t               rows = (left < g->block + 1 ? left : g->block + 1) * w->env->kern->mr; /* prepared, one tile ahead */
    for (w->first_k = 0; w->first_k < g->kc; w->first_k += w->n_k) {
        w->n_k = g->kc - w->first_k < g->part ? g->kc - w->first_k : g->part;
        for (size_t p = panel; p < end; p++)
            run_panel(w, image, group, block, p, 1, b + p * g->kc * nr);
        for (size_t r = 0; r < rows; r++)
            w->pointers[r] += w->n_k;
    }
}

/* Factors of the elements of rows, of an image and group: the packed b takes them, which is smaller than a. A panel is scaled when its
   turn comes, so that it was fetched during the one before. Panels wrap around: the first unit of a thread may be any of them. */
static const float *scaled_panel(opf_gemm_worker *w, size_t image, size_t group, size_t panel, size_t n)
{
    const opf_gemm_args *g  = w->args;
    const size_t         nr = w->env->kern->nr, key = image * g->groups + group;
    const float         *b  = g->b + group * g->panels * g->kc * nr;
    if (w->scaled_image != key) {
        w->scaled_image = key;
        w->scaled_first = panel;
        w->n_scaled     = 0;
    }
    const size_t wanted = (panel + g->panels - w->scaled_first) % g->panels + n;
    opf_operand  factor[OPF_PROGRAM_OPERANDS];
    opf_store    stores[OPF_PROGRAM_OPERANDS];
    if (w->n_scaled < wanted)
        opf_bound_at(w->env, &g->prologue, image, 0, 0, factor, stores);
    for (; w->n_scaled < wanted; w->n_scaled++) {
        const size_t p = (w->scaled_first + w->n_scaled) % g->panels;
        for (size_t k = 0; k < g->kc; k++) {
            const float  x   = ((const float *)factor[0].data)[(ptrdiff_t)k * factor[0].col];
            const size_t row = (p * g->kc + k) * nr;
            for (size_t i = 0; i < nr; i++)
                w->scaled[row + i] = b[row + i] * x;
        }
    }
    return w->scaled + panel * g->kc * nr;
}

/* Units in the order image, group, then block and panel: with packed weights a block keeps its rows in cache while
   panels stream by; with b of this run a panel is packed once and used by all blocks. */
void opf_gemm_run(const opf_run_env *env, const void *args, size_t begin, size_t end, void *scratch)
{
    const opf_gemm_args *g = args;
    opf_gemm_worker      w = {.env = env, .args = g, .n_k = g->taps * g->kc, .scaled_image = SIZE_MAX, .left = SIZE_MAX};
    (void)scratch_layout(g, env->kern, &w, scratch);
    w.ahead = opf_ahead_of(env, g, begin);
    const bool   by_rows = goes_by_rows(g, env->kern);
    const size_t panels  = opf_gemm_panels_at_once(g, env->kern);
    size_t     nr = env->kern->nr, prepared = SIZE_MAX, packed = SIZE_MAX;
    for (size_t unit = begin, next; unit < end; unit = next) {
        size_t inner = unit % (g->blocks * g->panels), outer = unit / (g->blocks * g->panels);
        size_t image = outer / g->groups, group = outer % g->groups;
        size_t panel = g->b != NULL ? inner % g->panels : inner / g->blocks;
        size_t block = g->b != NULL ? inner / g->panels : inner % g->blocks;
        const float *b;
        next = unit + 1;
        if (g->scales_b) {
            const size_t left = end - unit < g->panels - panel ? end - unit : g->panels - panel, at_once = by_rows ? g->panels : panels;
            b = scaled_panel(&w, image, group, panel, left < at_once ? left : at_once);
        } else if (g->b != NULL) {
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
            opf_gemm_prepare_block(&w, a + g->a_images[image] + (ptrdiff_t)group * g->a_group, image, block);
            prepared = outer * g->blocks + block;
        }
        if (g->part != 0) {
            next = end - unit < g->panels - panel ? end : unit + (g->panels - panel);
            run_parts(&w, image, group, block, panel, panel + (next - unit), g->b + group * g->panels * g->kc * nr);
            prepared = SIZE_MAX; /* the pointers have moved */
        } else if (by_rows) {
            next = end - unit < g->panels - panel ? end : unit + (g->panels - panel);
            run_rows(&w, image, group, block, panel, panel + (next - unit), b);
        } else {
            const size_t left = end - unit < g->panels - panel ? end - unit : g->panels - panel, n = left < panels ? left : panels;
            next   = unit + n;
            w.left = end - next;
            run_panel(&w, image, group, block, panel, n, b);
        }
    }
}

void opf_gemm_run_lines(const opf_run_env *env, const void *args, size_t image, size_t first, size_t end, void *scratch)
{
    opf_gemm_args g = *(const opf_gemm_args *)args;
    const size_t  width = (size_t)g.window.out[2];
    g.ahead = NULL; /* the next band comes first */
    if (opf_gemm_goes_by_lines(&g)) { /* a block is a line */
        opf_gemm_run(env, &g, (image * g.blocks + first) * g.panels, (image * g.blocks + end) * g.panels, scratch);
        return;
    }
    g.first  = first * width;
    g.m      = (end - first) * width;
    g.tiles  = opf_divide_up(g.m, env->kern->mr);
    g.blocks = opf_divide_up(g.tiles, g.block);
    opf_gemm_run(env, &g, image * g.blocks * g.panels, (image + 1) * g.blocks * g.panels, scratch);
}

size_t opf_gemm_scratch(const opf_gemm_args *g, const opf_kern *kern)
{
    opf_gemm_worker w;
    return scratch_layout(g, kern, &w, NULL);
}
