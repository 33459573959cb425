/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/panelwise.h"

#include "base/round.h"
#include "cpu/cpu.h"
#include "plan/depthwise.h"
#include "plan/gemm_run.h"

#include <string.h>

enum { BANDS = 4 }; /* shares of an image's lines, for threads */

typedef struct {
    const opf_gemm_args      *product;
    const opf_depthwise_args *windows;
    size_t                    chunk, chunks; /* pixels of a line of the result that are computed at a time */
    size_t                    lines;         /* of the result, in a call of the kernel */
    size_t                    ring, line;    /* lines of the image between that are kept, and floats of one */
    size_t                    channels;      /* that are computed at a time: those of a panel or a few */
    size_t                    bands, columns; /* columns: parts of the channels * chunks */
} panelwise;

/* Lines [from, to) of the image between, of the pixels and channels of a column, are there. */
typedef struct {
    opf_span lines;
    float   *data;
} window;

typedef struct {
    const opf_run_env *env;
    const panelwise   *p;
    size_t             image;
    const float      **rows;
    opf_gemm_strip     strip;
    const float       *next_b; /* what the tiles of a column fetch, a share each */
    size_t             done, tiles;
    opf_ahead          ahead;
} worker;

/* What windows [from, to) read along an axis of the image. */
static opf_span needed(const opf_gemm_window *w, int axis, int64_t from, int64_t to)
{
    return opf_below_windows(w->in[axis], (w->kernel[axis] - 1) * w->dilation[axis] + 1, w->stride[axis], w->pad[axis], (opf_span){from, to});
}

/* ---- run ---- */

/* Rows of the panel at hand, in tiles of about the same size. */
static void multiply(worker *w, const float *a, size_t rows, size_t cols, float *c)
{
    const size_t mr = w->env->kern->mr, tiles = opf_divide_up(rows, mr), more = tiles == 0 ? 0 : rows % tiles;
    for (int part = 0; part < 2 && tiles != 0; part++) {
        const size_t n = part == 0 ? more : tiles - more, size = rows / tiles + (part == 0);
        if (n == 0)
            continue;
        w->strip.a           = a;
        w->strip.tile.c      = c;
        w->strip.tiles       = n;
        w->strip.tile.next_b = w->next_b != NULL && w->done < w->tiles ? w->next_b + w->done * w->strip.next_b_step : NULL;
        w->env->kern->gemm_strip(&w->strip, size, cols);
        w->done += n;
        a += (ptrdiff_t)(n * size) * w->strip.a_row;
        c += (ptrdiff_t)(n * size) * w->strip.tile.c_stride;
    }
}

/* What is there of the lines that are needed moves to the begin. */
static void make_room(const panelwise *p, window *held, opf_span need)
{
    const size_t n = held->lines.from <= need.from && need.from < held->lines.to ? (size_t)(held->lines.to - need.from) : 0;
    if (n != 0 && need.from != held->lines.from)
        memmove(held->data, held->data + (size_t)(need.from - held->lines.from) * p->line, n * p->line * sizeof(float));
    held->lines = (opf_span){need.from, need.from + (int64_t)n};
}

/* The tiles fetch the next panel, the last ones what the product behind this one reads first. left: columns that the thread has still to
   do; rows: of this one. */
static void choose_fetch(worker *w, size_t column, size_t left, size_t rows)
{
    const panelwise     *p = w->p;
    const opf_gemm_args *g = p->product;
    const size_t nr = w->env->kern->nr, floats = g->kc * nr, before = opf_ahead_panels(&w->ahead, nr, floats, g->panels), panels = left / p->chunks;
    opf_gemm_tile *tile = &w->strip.tile;
    w->done   = 0;
    w->tiles  = rows < w->env->kern->mr ? 1 : rows / w->env->kern->mr;
    w->next_b = NULL;
    if (w->ahead.floats != 0 && left == 0) {
        w->strip.next_b_step = opf_ahead_rest(&w->ahead, before * floats, tile, nr, g->kc, w->tiles);
        w->next_b            = tile->next_b;
    } else if (column % p->chunks + 1 == p->chunks && p->channels == nr && p->columns > p->chunks) { /* else the panel is read again, or panels are short */
        w->next_b            = g->b + (column / p->chunks + 1) % g->panels * floats;
        w->strip.next_b_step = opf_gemm_fetch(tile, w->next_b, g->kc, nr, w->tiles);
        if (panels != 0 && panels <= before)
            w->strip.next_b_step = opf_ahead_beside(&w->ahead, before - panels, tile, nr, floats, w->tiles);
    }
}

/* Lines [first, end) of the result of one column: a chunk of pixels of the channels of a panel. */
static void run_column(worker *w, size_t column, size_t left, size_t first, size_t end, window *held)
{
    const panelwise          *p   = w->p;
    const opf_gemm_args      *g   = p->product;
    const opf_depthwise_args *d   = p->windows;
    const opf_gemm_window    *win = &d->window;
    const size_t  nr = w->env->kern->nr, at = column / p->chunks * p->channels, cols = g->n - at < p->channels ? g->n - at : p->channels;
    const size_t  from = column % p->chunks * p->chunk, to = (size_t)opf_least((int64_t)(from + p->chunk), win->out[2]);
    const opf_span across = needed(win, 2, (int64_t)from, (int64_t)to), all = needed(win, 1, (int64_t)first, (int64_t)end);
    const size_t  width = (size_t)(across.to - across.from), taps = (size_t)win->kernel[1];
    const bool    whole = width == (size_t)win->in[2];
    const float  *a = (const float *)opf_ref_data(w->env, g->a) + g->a_images[w->image] + across.from * g->a_row;
    float        *y = (float *)opf_ref_data(w->env, d->y) + (int64_t)w->image * d->y_image + (int64_t)from * d->y_pixel + (int64_t)at;
    opf_gemm_tile *tile = &w->strip.tile;
    tile->b    = g->b + at / nr * g->kc * nr;
    tile->bias = g->bias == NULL ? NULL : g->bias + at;
    choose_fetch(w, column, left, (size_t)(all.to - all.from) * width);
    for (size_t o = first, n; o < end; o += n) {
        n                = end - o < p->lines ? end - o : p->lines;
        const opf_span need = needed(win, 1, (int64_t)o, (int64_t)(o + n));
        make_room(p, held, need);
        for (int64_t line = held->lines.to, some; line < need.to; line += some) {
            some = whole ? need.to - line : 1;
            multiply(w, a + line * win->in[2] * g->a_row, (size_t)some * width, cols, held->data + (size_t)(line - need.from) * p->line);
        }
        held->lines       = need;
        const float **row = w->rows;
        for (int64_t i = (int64_t)o * win->stride[1] - win->pad[1]; row < w->rows + n * taps; i += win->stride[1])
            for (size_t r = 0; r < taps; r++, row++) {
                const int64_t line = i + (int64_t)r * win->dilation[1];
                *row               = line < 0 || line >= win->in[1] ? NULL : held->data + (size_t)(line - need.from) * p->line;
            }
        w->env->kern->depthwise(&(opf_depthwise){.rows      = w->rows,
                                                 .w         = d->w + at,
                                                 .w_tap     = d->x_channels,
                                                 .lines     = n,
                                                 .n_rows    = taps,
                                                 .taps      = (size_t)win->kernel[2],
                                                 .step      = win->dilation[1] == 1 ? (size_t)win->stride[1] : 0,
                                                 .in        = (int64_t)width,
                                                 .first     = (int64_t)from * win->stride[2] - win->pad[2] - across.from,
                                                 .stride    = win->stride[2],
                                                 .dilation  = win->dilation[2],
                                                 .pixel     = (ptrdiff_t)p->channels,
                                                 .bias      = d->bias == NULL ? NULL : d->bias + at,
                                                 .dst       = y + (int64_t)o * win->out[2] * d->y_pixel,
                                                 .dst_line  = (ptrdiff_t)(win->out[2] * d->y_pixel),
                                                 .dst_pixel = (ptrdiff_t)d->y_pixel,
                                                 .pixels    = to - from,
                                                 .c         = cols,
                                                 .lo        = d->lo,
                                                 .hi        = d->hi,
                                                 .then      = d->then,
                                                 .param     = d->param});
    }
}

static size_t rows_bytes(const panelwise *p)
{
    return opf_round_64(OPF_DEPTHWISE_LINES * (size_t)p->windows->window.kernel[1] * sizeof(float *));
}

static worker begin_work(const opf_run_env *env, const panelwise *p, void *scratch)
{
    const opf_gemm_args *g    = p->product;
    const opf_kern      *kern = env->kern;
    worker               w    = {.env = env, .p = p, .rows = scratch};
    w.strip.tile.kc           = g->kc;
    w.strip.tile.taps         = 1;
    w.strip.tile.c_stride     = (ptrdiff_t)p->channels;
    w.strip.tile.lo           = g->lo;
    w.strip.tile.hi           = g->hi;
    w.strip.a_row             = g->a_row;
    w.strip.b_panel           = g->kc * kern->nr;
    w.strip.then              = g->then;
    w.strip.param             = g->param;
    w.strip.fetches_rows      = true;
    return w;
}

/* Units in the order image, band, column. Bands that a thread has whole are one to it. */
static void run_panelwise(const opf_run_env *env, const void *args, size_t begin, size_t end, void *scratch)
{
    const panelwise     *p = args;
    const opf_gemm_args *g = p->product;
    const size_t         lines = (size_t)p->windows->window.out[1], units = p->bands * p->columns * g->images;
    worker               w = begin_work(env, p, scratch);
    w.ahead = opf_ahead_of(env, g, begin * g->images * g->blocks * g->panels / units);
    for (size_t unit = begin, some; unit < end; unit += some) {
        const size_t band = unit / p->columns % p->bands, column = unit % p->columns, left = end - unit;
        size_t       bands = 1, columns = p->columns - column < left ? p->columns - column : left;
        if (column == 0 && left >= p->columns)
            bands = left / p->columns < p->bands - band ? left / p->columns : p->bands - band;
        some    = bands * columns;
        w.image = unit / (p->columns * p->bands);
        for (size_t i = 0; i < columns; i++) {
            window held = {.data = (float *)(void *)((char *)scratch + rows_bytes(p))};
            run_column(&w, column + i, unit + some < end ? SIZE_MAX : columns - 1 - i, lines * band / p->bands, lines * (band + bands) / p->bands, &held);
        }
    }
}

/* In bands, every column has memory of its own, behind what is there of each. */
static size_t windows_bytes(const panelwise *p)
{
    return opf_round_64((1 + p->columns) * sizeof(opf_span));
}

static void run_lines(const opf_run_env *env, const void *args, size_t image, size_t first, size_t end, void *scratch)
{
    const panelwise *p     = args;
    worker           w     = begin_work(env, p, (char *)scratch + windows_bytes(p));
    bool            *holds = scratch;
    opf_span           *held  = (opf_span *)scratch + 1;
    char            *data  = (char *)scratch + windows_bytes(p) + rows_bytes(p);
    w.image                = image;
    for (size_t column = 0; column < p->columns; column++, data += opf_round_64(p->ring * p->line * sizeof(float))) {
        window own = {*holds ? held[column] : (opf_span){0, 0}, (float *)(void *)data};
        run_column(&w, column, SIZE_MAX, first, end, &own);
        held[column] = own.lines;
    }
    *holds = true;
}

/* ---- which steps ---- */

/* A product that nothing follows but what the kernel does, of rows where they lie. */
static bool is_plain_product(const opf_plan_step *step)
{
    const opf_gemm_args *g = step->args;
    return step->run == opf_gemm_run && step->check == NULL && step->n_gathered == 0 && g->rows == OPF_ROWS_LINEAR && g->a_col == 1 && g->groups == 1 &&
           g->taps == 1 && g->b != NULL && g->part == 0 && g->n_parts == 0 && g->scatter == NULL && g->c_col == 1 && g->residual.buffer == 0 &&
           g->prologue.program.n == 0 && g->beside == NULL && g->epilogue.program.n == 0 && g->winograd.u == NULL;
}

static bool is_plain_depthwise(const opf_plan_step *step)
{
    const opf_depthwise_args *d = step->args;
    const opf_gemm_window    *w = &d->window;
    return step->run == opf_depthwise_run && step->check == NULL && step->n_gathered == 0 && d->in == 0 && d->lines == 0 && !d->has_epilogue &&
           w->kernel[0] == 1 && w->in[0] == 1 && w->out[0] == 1;
}

/* The second step alone reads what the first one writes, once and whole. */
static bool hands_on(const opf_plan *plan, uint32_t i)
{
    const opf_plan_step *step = &plan->steps[i], *next = step + 1;
    if (i + 1 >= plan->n_steps || !is_plain_product(step) || !is_plain_depthwise(next))
        return false;
    const opf_gemm_args      *g      = step->args;
    const opf_depthwise_args *d      = next->args;
    const opf_gemm_window    *w      = &d->window;
    const opf_buffer         *buffer = &plan->buffers[g->c.buffer];
    const int64_t n = (int64_t)g->n, line = w->in[2] * n;
    const size_t  bytes = g->images * g->m * g->n * sizeof(float);
    const bool    is_whole = g->c.buffer == d->x.buffer && g->c.bytes == 0 && d->x.bytes == 0 && buffer->bytes == bytes && g->images == d->images &&
                          (int64_t)g->m == w->in[1] * w->in[2] && g->c_row == n && w->in_stride[2] == n && (w->in[1] == 1 || w->in_stride[1] == line);
    const bool    has_work = bytes != 0 && g->kc != 0 && w->out[1] * w->out[2] != 0;
    return is_whole && has_work && buffer->kind == OPF_BUFFER_ARENA && buffer->first == i && buffer->last == i + 1 && buffer->touched == 2;
}

/* Short panels that are narrower than two lines of cache are taken together, so that pixels are read less often. */
static size_t channels_of(const opf_gemm_args *g, const opf_kern *kern)
{
    enum { FLOATS = 1 << 12 }; /* half of the smallest L1 */
    size_t n = kern->nr;
    while (n < 2 * OPF_LINE && n < g->n && 2 * n * g->kc <= FLOATS)
        n *= 2;
    return n;
}

/* As few chunks of a line as let the lines for two of the result stay in a small part of L2, which L1 reads almost as fast as itself
   where it is written and read in order; then as many lines as that holds. */
static bool choose_sizes(panelwise *p)
{
    enum { MOST = 8, TWO = 2, TENTH = 10, SHARE = 16 };
    const opf_gemm_window *w = &p->windows->window;
    const size_t  budget = opf_cpu_l2_bytes() / SHARE / sizeof(float), out = (size_t)w->out[1], stride = (size_t)w->stride[1];
    const int64_t taps = (w->kernel[1] - 1) * w->dilation[1] + 1, halo = (w->kernel[2] - 1) * w->dilation[2] + 1 - w->stride[2];
    for (p->chunks = 1; p->chunks <= MOST; p->chunks++) {
        p->chunk             = opf_divide_up((size_t)w->out[2], p->chunks);
        const int64_t width  = p->chunks == 1 ? w->in[2] : (int64_t)p->chunk * w->stride[2] + opf_most(0, halo);
        const size_t  lines  = (p->line = (size_t)width * p->channels) == 0 ? 0 : budget / p->line;
        const size_t  below = (size_t)taps, two = below + (out > 1 ? stride : 0);
        if ((int64_t)p->chunks * width * TENTH > w->in[2] * (TENTH + 1))
            return false; /* too many pixels twice */
        if (lines < two)
            continue;
        p->lines  = (lines - below) / stride + 1;
        p->lines  = p->lines > OPF_DEPTHWISE_LINES ? OPF_DEPTHWISE_LINES : p->lines > TWO ? p->lines / TWO * TWO : p->lines;
        p->lines  = p->lines > out ? out : p->lines;
        p->ring   = (p->lines - 1) * stride + below;
        p->chunks = opf_divide_up((size_t)w->out[2], p->chunk);
        return true;
    }
    return false;
}

/* Two bands compute the lines between that both need, which ends what they gain by lying near their readers where these are a large part
   of the image, and a few lines come out uneven: then threads share its channels. */
static size_t bands_of(const opf_gemm_window *w)
{
    enum { FIFTH = 5, FEW = 2 * BANDS };
    const int64_t both = (w->kernel[1] - 1) * w->dilation[1] + 1 - w->stride[1];
    return both * FIFTH > w->in[1] || w->out[1] < FEW ? 1 : BANDS;
}

/* How the pair goes by lines: as long as those of all columns stay in L2, and if both steps do. */
static opf_status tell_lines(opf_planner *planner, const panelwise *p, const opf_plan_step *product, opf_plan_step *step, opf_error *error)
{
    const opf_image_lines *first = product->lines, *second = step->lines;
    const size_t           kept = windows_bytes(p) + rows_bytes(p) + p->columns * opf_round_64(p->ring * p->line * sizeof(float));
    step->lines                 = NULL;
    if (first == NULL || second == NULL || kept > opf_cpu_l2_bytes() / 2)
        return OPF_OK;
    opf_image_lines lines = *second;
    lines.run             = run_lines;
    lines.x               = first->x;
    lines.in_line         = first->in_line;
    lines.weights += first->weights;
    lines.kept  = kept;
    step->lines = opf_arena_copy(planner->arena, &lines, sizeof lines);
    OPF_OOM_IF(error, step->lines == NULL);
    return OPF_OK;
}

static opf_status join(opf_planner *planner, uint32_t i, opf_error *error)
{
    opf_plan                 *plan    = planner->plan;
    opf_plan_step            *product = &plan->steps[i], *step = product + 1;
    const opf_gemm_args      *g = product->args;
    const opf_depthwise_args *d = step->args;
    panelwise                 p = {.product = g, .windows = d, .channels = channels_of(g, planner->options->kern), .bands = bands_of(&d->window)};
    if (!choose_sizes(&p))
        return OPF_OK;
    p.columns       = p.chunks * opf_divide_up(g->n, p.channels);
    panelwise *kept = opf_arena_copy(planner->arena, &p, sizeof p);
    OPF_OOM_IF(error, kept == NULL);
    step->kernel    = opf_arena_printf(planner->arena, "panels: %s", step->kernel);
    product->kernel = opf_arena_printf(planner->arena, "panels: %s", product->kernel);
    OPF_OOM_IF(error, step->kernel == NULL || product->kernel == NULL);
    OPF_TRY(tell_lines(planner, kept, product, step, error));
    step->run           = run_panelwise;
    step->args          = kept;
    step->units         = g->images * p.bands * p.columns;
    step->scratch_bytes = rows_bytes(&p) + opf_round_64(p.ring * p.line * sizeof(float));
    plan->scratch_bytes = step->scratch_bytes > plan->scratch_bytes ? step->scratch_bytes : plan->scratch_bytes;
    step->flops += product->flops;
    step->bytes += product->bytes;
    product->flops = product->bytes = 0;
    opf_plan_join_lives(plan, i, i + 1, &g->c.buffer, 1);
    opf_plan_leave_step(product);
    return OPF_OK;
}

opf_status opf_plan_panelwise(opf_planner *planner, opf_error *error)
{
    for (uint32_t i = 0; i + 1 < planner->plan->n_steps; i++)
        if (hands_on(planner->plan, i))
            OPF_TRY(join(planner, i, error));
    return OPF_OK;
}
