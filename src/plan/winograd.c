/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A unit is a block of tiles and a group of columns. The tiles are transformed to V[points][tiles][channels], multiplied with
 * the packed filters U[points][panels][channels][nr], and M[points][panels][tiles][nr] is transformed back into the result with all
 * that follows it: V and M stay in L2, U streams by once a block. Tiles are numbered over all images, so that small images
 * of a batch share blocks.
 */
#include "plan/winograd.h"
#include "plan/cost_table.h"
#include "plan/gemm_ahead.h"

#include "cpu/cpu.h"
#include "base/least.h"
#include "base/round.h"

#include <math.h>
#include <string.h>

/* ---- run ---- */

typedef struct {
    const opf_run_env   *env;
    const opf_gemm_args *args;
    size_t               group;
    const float        **pointers;
    float               *v, *m, *program;
    float               *window;          /* of an image in planes: its pixels with their channels side by side */
    float               *pixels;          /* of a result in planes: the lines of a row of tiles, until they are written */
    float               *panel, *filters; /* of the direct form, where sums are not finite */
    size_t               panel_index;     /* which one is there, or SIZE_MAX */
    size_t               first_panel;     /* of M */
    opf_ahead            ahead;           /* in the last block; else none */
} worker;

typedef struct {
    size_t  image;
    int64_t y, x; /* of its first pixel in the result */
} tile_place;

static tile_place place_of(const opf_gemm_args *g, size_t tile)
{
    const opf_winograd *w = &g->winograd;
    size_t              rest = tile % (w->down * w->across);
    return (tile_place){tile / (w->down * w->across), (int64_t)(rest / w->across * w->tile[0]), (int64_t)(rest % w->across * w->tile[1])};
}

/* Of the axes that are transformed the first one: both are alike. */
static int axis_of(const opf_winograd *w)
{
    return w->taps[0] > 1 ? 0 : 1;
}

static int axes_of(const opf_winograd *w)
{
    return w->taps[0] > 1 && w->taps[1] > 1 ? 2 : 1;
}

static int inside(int64_t x, size_t size) /* [0, size of the window] */
{
    const int64_t window = (int64_t)size;
    return (int)(x < 0 ? 0 : x > window ? window : x);
}

/* The window's pixels inside the image, from planes. */
static void read_window(const worker *work, opf_winograd_input *tile)
{
    const ptrdiff_t pixel = (ptrdiff_t)tile->c, row = (ptrdiff_t)opf_winograd_window(&work->args->winograd, 1) * pixel;
    for (int i = tile->top; i < tile->bottom && tile->left < tile->right; i++)
        work->env->kern->copy_2d(tile->x + i * tile->row + tile->left * tile->pixel, tile->pixel, work->args->a_col,
                                 work->window + i * row + tile->left * pixel, pixel, (size_t)(tile->right - tile->left), tile->c);
    tile->x     = work->window;
    tile->row   = row;
    tile->pixel = pixel;
}

/* A line becomes a column: the kernel of one axis goes down. */
static opf_winograd_input turned(opf_winograd_input tile)
{
    const opf_winograd_input from = tile;
    tile.row    = from.pixel;
    tile.pixel  = from.row;
    tile.top    = from.left;
    tile.bottom = from.right;
    tile.left   = from.top;
    tile.right  = from.bottom;
    return tile;
}

static void transform_tiles(const worker *work, size_t first, size_t n)
{
    const opf_gemm_args   *g = work->args;
    const opf_winograd    *w = &g->winograd;
    const opf_gemm_window *window = &g->window;
    const float           *a = (const float *)opf_ref_data(work->env, g->a) + (ptrdiff_t)work->group * g->a_group;
    const size_t           down = opf_winograd_window(w, 0), across = opf_winograd_window(w, 1);
    for (size_t i = 0; i < n; i++) {
        tile_place         place = place_of(g, first + i);
        int64_t            y = place.y - window->pad[1], x = place.x - window->pad[2];
        opf_winograd_input tile = {.points  = (int)opf_winograd_window(w, axis_of(w)),
                                   .axes    = axes_of(w),
                                   .x       = a + g->a_images[place.image] + y * window->in_stride[1] + x * window->in_stride[2],
                                   .row     = (ptrdiff_t)window->in_stride[1],
                                   .pixel   = (ptrdiff_t)window->in_stride[2],
                                   .top     = inside(-y, down),
                                   .bottom  = inside(window->in[1] - y, down),
                                   .left    = inside(-x, across),
                                   .right   = inside(window->in[2] - x, across),
                                   .c       = g->kc,
                                   .v       = work->v + i * w->v_row,
                                   .v_point = (ptrdiff_t)w->v_point};
        if (g->a_col != 1)
            read_window(work, &tile);
        if (down == 1)
            tile = turned(tile);
        work->env->kern->winograd_input(&tile);
    }
}

/* The products of all points for panels [panel, panel + n_panels). */
static void multiply(const worker *work, size_t n, size_t panel, size_t n_panels)
{
    const opf_gemm_args *g     = work->args;
    const opf_winograd  *w     = &g->winograd;
    const opf_kern      *kern  = work->env->kern;
    const size_t         nr = kern->nr, parts = opf_divide_up(n, kern->mr), rows = n / parts, more = n % parts, size = g->kc * nr;
    opf_gemm_strip       strip = {.a_row = (ptrdiff_t)w->v_row,
                                  .bare  = true,
                                  .tile  = {.taps = 1, .kc = g->kc, .c_stride = (ptrdiff_t)nr, .lo = -INFINITY, .hi = INFINITY}};
    const size_t         points = opf_winograd_points(w), before = opf_ahead_panels(&work->ahead, nr, size, points * n_panels);
    for (size_t p = 0; p < points; p++)
        for (size_t k = 0; k < n_panels; k++) {
            const size_t left = g->n - (panel + k) * nr, cols = left <= nr / 2 ? nr / 2 : nr; /* whole vectors */
            const float *next;
            strip.tile.b       = w->u + ((p * g->groups + work->group) * g->panels + panel + k) * size;
            next               = k + 1 < n_panels ? strip.tile.b + size
                                 : p + 1 < points ? w->u + (((p + 1) * g->groups + work->group) * g->panels + panel) * size
                                                  : NULL;
            const size_t behind = (points - p) * n_panels - k - 1; /* products */
            if (behind == 0 && work->ahead.floats != 0)
                strip.next_b_step = opf_ahead_rest(&work->ahead, before * size, &strip.tile, nr, g->kc, parts);
            else
                strip.next_b_step = w->cached && parts > 1 ? opf_gemm_fetch_from(&strip.tile, 1, next, g->kc, nr, parts) /* whole lines */
                                                            : opf_gemm_fetch(&strip.tile, next, g->kc, nr, parts);
            if (behind != 0 && behind <= before)
                strip.next_b_step = opf_ahead_beside(&work->ahead, before - behind, &strip.tile, nr, size, parts);
            next               = strip.tile.next_b;
            strip.fetches_rows = k == 0;
            strip.a            = work->v + p * w->v_point;
            strip.tile.c       = work->m + p * w->m_point + k * w->m_panel;
            strip.tiles        = more; /* the first tiles have a row more */
            if (more != 0)
                kern->gemm_strip(&strip, rows + 1, cols);
            strip.a += more * (rows + 1) * w->v_row;
            strip.tile.c += more * (rows + 1) * nr;
            strip.tile.next_b = next == NULL ? NULL : next + more * strip.next_b_step;
            strip.tiles       = parts - more;
            kern->gemm_strip(&strip, rows, cols);
        }
}

/* Where the sums of a tile go: into the result, or where they wait to be written to planes. */
typedef struct {
    float    *c;
    ptrdiff_t row, pixel;
} target;

/* A tile whose sums are not finite, by the product itself. Its weights are packed here and now: it is rare, and they would
   take as much memory again. */
static void compute_directly(worker *work, size_t image, size_t pixel, size_t panel, const opf_winograd_output *out)
{
    const opf_gemm_args *g  = work->args;
    size_t               nr = work->env->kern->nr, first = panel * nr, index = work->group * g->panels + panel;
    opf_gemm_rest        rest = {.b = work->panel, .c_stride = out->pixel, .pointers = work->pointers, .gathered = work->filters};
    if (work->panel_index != index)
        opf_conv_panel(work->env->kern, g->winograd.filters, (int64_t)(work->group * g->n + first), (int64_t)(g->n - first < nr ? g->n - first : nr),
                       (int64_t)g->taps, (int64_t)nr, work->panel, work->filters);
    work->panel_index = index;
    for (size_t r = 0; r < out->rows; r++) {
        rest.c = out->c + (ptrdiff_t)r * out->row;
        opf_gemm_compute_rows(work->env, g, image, work->group, pixel + r * (size_t)g->window.out[2], out->pixels, panel, &rest);
    }
}

static void finish_tile(worker *work, tile_place place, size_t i, size_t panel, size_t k, const target *to)
{
    const opf_gemm_args *g     = work->args;
    const opf_winograd  *w     = &g->winograd;
    const opf_kern      *kern  = work->env->kern;
    int64_t              width = g->window.out[2];
    size_t               pixel = (size_t)(place.y * width + place.x), cols;
    opf_gemm_tile        at    = opf_gemm_tile_at(work->env, g, place.image, work->group, pixel, panel + k, &cols);
    opf_winograd_output  out   = {.points         = (int)opf_winograd_window(w, axis_of(w)),
                                  .axes           = axes_of(w),
                                  .size           = (int)w->tile[axis_of(w)],
                                  .m              = work->m + (panel + k - work->first_panel) * w->m_panel + i * kern->nr,
                                  .m_point        = (ptrdiff_t)w->m_point,
                                  .bias           = at.bias,
                                  .c              = to->c + k * kern->nr,
                                  .row            = to->row,
                                  .pixel          = to->pixel,
                                  .residual       = at.residual,
                                  .residual_row   = (ptrdiff_t)width * at.residual_stride,
                                  .residual_pixel = at.residual_stride,
                                  .rows           = (size_t)opf_least((int64_t)w->tile[0], g->window.out[1] - place.y),
                                  .pixels         = (size_t)opf_least((int64_t)w->tile[1], width - place.x),
                                  .cols           = cols,
                                  .lo             = at.lo,
                                  .hi             = at.hi};
    if (!kern->winograd_output(&out))
        compute_directly(work, place.image, pixel, panel + k, &out);
}

/* Tiles i to end - 1 of a block, which lie side by side: the transforms, the epilogue's program over their lines, and for
   planes the way there. */
static void finish_row(worker *work, size_t first, size_t i, size_t end, size_t panel, size_t n_panels)
{
    const opf_gemm_args *g      = work->args;
    const opf_kern      *kern   = work->env->kern;
    const size_t         nr     = kern->nr, col = panel * nr, cols = g->n - col < n_panels * nr ? g->n - col : n_panels * nr;
    const bool           planes = g->c_col != 1;
    tile_place           place  = place_of(g, first + i);
    int64_t              width = g->window.out[2], row = place.y * width + place.x;
    size_t               pixels = (size_t)(opf_least(width, place.x + (int64_t)((end - i) * g->winograd.tile[1])) - place.x), used;
    float               *c      = opf_gemm_tile_at(work->env, g, place.image, work->group, (size_t)row, panel, &used).c;
    const ptrdiff_t      pixel  = planes ? (ptrdiff_t)cols : g->c_row;
    target               to     = {planes ? work->pixels : c, planes ? (ptrdiff_t)pixels * pixel : (ptrdiff_t)width * pixel, pixel};
    for (size_t k = 0; k < n_panels; k++)
        for (size_t t = i; t < end; t++) {
            const target tile = {to.c + (ptrdiff_t)((t - i) * g->winograd.tile[1]) * pixel, to.row, pixel};
            finish_tile(work, place_of(g, first + t), t, panel, k, &tile);
        }
    for (int64_t r = 0; r < opf_least((int64_t)g->winograd.tile[0], g->window.out[1] - place.y); r++) {
        float *line = to.c + r * to.row;
        if (g->epilogue.program.n != 0) {
            opf_operand operands[OPF_PROGRAM_OPERANDS];
            opf_store   stores[OPF_PROGRAM_OPERANDS];
            opf_bound_at(work->env, &g->epilogue, place.image, (size_t)(row + r * width), work->group * g->n + col, operands, stores);
            opf_program_run(kern, &g->epilogue.program, operands, stores, line, pixel, line, pixel, pixels, cols, work->program);
        }
        if (planes)
            kern->copy_2d(line, 1, pixel, c + r * width * g->c_row, g->c_col, cols, pixels);
    }
}

static void finish_block(worker *work, size_t first, size_t n, size_t panel, size_t n_panels)
{
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && place_of(work->args, first + end).x != 0;)
            end++;
        finish_row(work, first, i, end, panel, n_panels);
    }
}

/* Panels [panel, end) of a block, whose tiles are transformed. */
static void compute_block(worker *work, size_t first, size_t n, size_t panel, size_t end, opf_ahead ahead)
{
    const opf_winograd *w = &work->args->winograd;
    while (panel < end) {
        const size_t next = opf_least_size(end, panel + w->most);
        work->first_panel = panel;
        work->ahead       = next == end ? ahead : (opf_ahead){NULL, 0};
        multiply(work, n, panel, next - panel);
        for (; panel < next; panel += w->panels)
            finish_block(work, first, n, panel, opf_least_size(next - panel, w->panels));
        panel = next;
    }
}

static size_t scratch_layout(const opf_gemm_args *g, const opf_kern *kern, worker *work, char *scratch)
{
    const opf_winograd *w  = &g->winograd;
    size_t              at = 0, points = opf_winograd_points(w);
    work->pointers = (const float **)(void *)(scratch + at);
    at += opf_round_64(g->taps * kern->mr * sizeof(float *));
    work->v = (float *)(void *)(scratch + at);
    at += opf_round_64(points * w->v_point * sizeof(float));
    work->m = (float *)(void *)(scratch + at);
    at += opf_round_64(points * w->m_point * sizeof(float));
    work->window = (float *)(void *)(scratch + at);
    at += g->a_col == 1 ? 0 : opf_round_64(points * g->kc * sizeof(float));
    work->pixels = (float *)(void *)(scratch + at);
    at += g->c_col == 1 ? 0 : opf_round_64(w->tile[0] * w->tile[1] * w->tiles * w->panels * kern->nr * sizeof(float));
    work->panel = (float *)(void *)(scratch + at);
    at += opf_round_64(g->taps * g->kc * kern->nr * sizeof(float));
    work->filters = (float *)(void *)(scratch + at);
    at += opf_round_64(g->taps * g->kc * kern->nr * sizeof(float));
    work->program = (float *)(void *)(scratch + at);
    return at + (g->epilogue.program.n != 0 ? opf_round_64(opf_program_scratch(&g->epilogue.program) * sizeof(float)) : 0);
}

static void run_winograd(const opf_run_env *env, const void *args, size_t begin, size_t end, void *scratch)
{
    const opf_gemm_args *g    = args;
    const opf_winograd  *w    = &g->winograd;
    worker               work = {.env = env, .args = g, .panel_index = SIZE_MAX};
    size_t               all  = g->images * w->down * w->across, shares = g->panels;
    const opf_ahead      ahead = opf_ahead_of(env, g, begin);
    (void)scratch_layout(g, env->kern, &work, scratch);
    for (size_t unit = begin, last; unit < end; unit = last) {
        const size_t source = unit / shares, block = source / g->groups, panel = unit % shares;
        const size_t first = block * w->tiles, n = all - first < w->tiles ? all - first : w->tiles;
        last = opf_least_size(end, (source + 1) * shares); /* all units of a block that are here */
        work.group = source % g->groups;
        transform_tiles(&work, first, n);
        compute_block(&work, first, n, panel, panel + (last - unit), last == end ? ahead : (opf_ahead){NULL, 0});
    }
}

void opf_winograd_run_lines(const opf_run_env *env, const void *args, size_t image, size_t first, size_t end, void *scratch)
{
    const opf_gemm_args *g    = args;
    const opf_winograd  *w    = &g->winograd;
    worker               work = {.env = env, .args = g, .panel_index = SIZE_MAX};
    const size_t         from = (image * w->down + first / w->tile[0]) * w->across;
    const size_t         all  = (opf_divide_up(end, w->tile[0]) - first / w->tile[0]) * w->across, blocks = opf_divide_up(all, w->tiles);
    (void)scratch_layout(g, env->kern, &work, scratch);
    for (size_t block = 0; block < blocks; block++) {
        const size_t at = all * block / blocks, n = all * (block + 1) / blocks - at;
        for (work.group = 0; work.group < g->groups; work.group++) {
            transform_tiles(&work, from + at, n);
            compute_block(&work, from + at, n, 0, g->panels, (opf_ahead){NULL, 0});
        }
    }
}

/* ---- lowering ---- */

/* Every way to compute a convolution of so many taps, the one of fewest products first. Others of more points exceed the bounds
   of their errors (docs/decisions.md). */
typedef struct {
    const char *kernel;
    size_t      taps[2], tile[2];
} form;

static const form forms[] = {
    {"winograd_f32_4x4", {3, 3}, {4, 4}}, {"winograd_f32_2x2", {3, 3}, {2, 2}}, {"winograd_f32_2x2", {5, 5}, {2, 2}},
    {"winograd_f32_1x4", {1, 3}, {1, 4}}, {"winograd_f32_1x2", {1, 3}, {1, 2}}, {"winograd_f32_1x2", {1, 5}, {1, 2}},
    {"winograd_f32_1x2", {1, 7}, {1, 2}}, {"winograd_f32_4x1", {3, 1}, {4, 1}}, {"winograd_f32_2x1", {3, 1}, {2, 1}},
    {"winograd_f32_2x1", {5, 1}, {2, 1}}, {"winograd_f32_2x1", {7, 1}, {2, 1}},
};

static bool can_be(const opf_gemm_args *args)
{
    const opf_gemm_window *w = &args->window;
    for (int i = 0; i < 3; i++)
        if (w->stride[i] != 1 || (w->dilation[i] != 1 && w->kernel[i] != 1))
            return false;
    return args->rows == OPF_ROWS_WINDOW && args->prologue.program.n == 0 && w->kernel[0] == 1 && w->in[0] == 1 &&
           w->out[0] == 1 && args->m != 0 && args->images != 0;
}

static size_t tiles_of(const opf_gemm_args *args, const form *f)
{
    return args->images * opf_divide_up((size_t)args->window.out[1], f->tile[0]) * opf_divide_up((size_t)args->window.out[2], f->tile[1]);
}

static size_t points_of(const form *f)
{
    return (f->tile[0] + f->taps[0] - 1) * (f->tile[1] + f->taps[1] - 1);
}

/* Other taps than 3x3 save less; their filters grow less, too. cached: they come from L3, where the bounds of the table are those of
   filters that come from memory. */
static bool is_faster(const opf_gemm_args *args, const form *f, bool wide, bool cached)
{
    enum { TILES_OF_CACHED = 12 };
    const size_t tiles = tiles_of(args, f), area = f->tile[0] * f->tile[1], bytes = points_of(f) * sizeof(float) * args->groups * args->kc * args->n;
    const size_t large = !wide                 ? OPF_COST_WINOGRAD_TILES_OF_LARGE
                         : cached && area == 4 ? TILES_OF_CACHED
                                               : OPF_COST_WINOGRAD_TILES_OF_LARGE_AVX512;
    const size_t fours = wide && args->n < args->kc ? OPF_COST_WINOGRAD_TILES_OF_FOUR_AVX512 : OPF_COST_WINOGRAD_TILES_OF_FOUR;
    const size_t channels = args->kc < args->n ? args->kc : args->n, pixels = args->images * args->m;
    if ((f->tile[0] == 4 || f->tile[1] == 4) && OPF_COST_WINOGRAD_LARGEST_TILE < 4)
        return false;
    if (f->taps[0] != 3 || f->taps[1] != 3)
        return channels >= OPF_COST_TAPS_CHANNELS && tiles >= OPF_COST_TAPS_TILES &&
               points_of(f) * tiles * 16 <= OPF_COST_TAPS_PRODUCTS * args->taps * pixels;
    return channels >= OPF_COST_WINOGRAD_CHANNELS && tiles * area >= 16 * OPF_COST_WINOGRAD_TILES &&
           pixels * 16 >= OPF_COST_WINOGRAD_PIXELS_OF_TILE * area * tiles &&
           (f->tile[0] != 4 || tiles >= fours) && (bytes <= OPF_COST_WINOGRAD_LARGE || pixels >= large * area);
}

/*
 * Tiles of a block. Blocks whose V and M stay in L2 read all filters once each. Filters beyond L2 cost more than that: then
 * a block as large as can be, which reads V from beyond L2 once a group of columns, may read less in all (VGG-16's layers of
 * 512 channels on 28x28: 67 MB for 151 MB).
 */
static size_t tiles_of_block(const opf_winograd *w, size_t all, size_t nr, size_t filter_bytes, size_t groups, size_t units)
{
    enum { FEWEST = 16, MOST = 64, MOST_BEYOND = 112, UNITS = 2 };
    const size_t l2 = opf_cpu_l2_bytes(), v_bytes = opf_winograd_points(w) * sizeof(float) * w->v_row;
    const size_t m_bytes = opf_winograd_points(w) * sizeof(float) * w->panels * nr;
    const size_t room = filter_bytes > l2 / 2 ? l2 / 4 * 3 : l2 / 8 * 5 - filter_bytes, fit = room / (v_bytes + m_bytes);
    size_t       within = opf_divide_up(all, fit < FEWEST ? FEWEST : fit > MOST ? MOST : fit);
    const size_t beyond = opf_divide_up(all, MOST_BEYOND), least = opf_divide_up(UNITS, units), few = opf_divide_up(all, FEWEST);
    within = within >= least ? within : least < few ? least : few; /* threads share blocks where there are few columns */
    if (filter_bytes > l2 / 2 && (within - beyond) * filter_bytes > groups * all * v_bytes)
        return opf_divide_up(all, beyond);
    return opf_divide_up(all, within);
}

/* Panels that are multiplied together: all that a thread has, as long as their M stays in L2, with V if that does. Then V is read from
   L2 by panels that follow one another, and filters come from one place. */
static size_t panels_of_block(const opf_winograd *w, size_t nr, size_t panels)
{
    const size_t l2 = opf_cpu_l2_bytes(), v_bytes = opf_winograd_points(w) * sizeof(float) * w->tiles * w->v_row;
    const size_t m_bytes = opf_winograd_points(w) * sizeof(float) * w->tiles * w->panels * nr;
    const size_t units = (v_bytes < l2 / 4 * 3 ? l2 / 4 * 3 - v_bytes : l2 / 2) / m_bytes;
    return opf_least_size(panels, w->panels * (units == 0 ? 1 : units));
}

/* The transformed filters, in place of the taps; NULL: the budget has no more room. A batch has room for twice as much, as its
   images take more, too. */
static const float *filters_of(const opf_planner *planner, const opf_gemm_args *args, const opf_const *w, const form *f, opf_weight_format *format)
{
    enum { BATCH = 4 };
    const opf_kern *kern = planner->options->kern;
    const int64_t   taps[] = {(int64_t)f->taps[0], (int64_t)f->taps[1]};
    const int64_t   points[] = {(int64_t)f->tile[0] + taps[0] - 1, (int64_t)f->tile[1] + taps[1] - 1};
    *format = opf_format_winograd((int64_t)args->n, (int64_t)args->kc, (int64_t)args->groups, (int64_t)kern->nr, taps, points);
    return opf_weights_get_extra(planner->options->weights, w, format, format->bytes - format->bytes / points_of(f) * args->taps,
                                 args->images < BATCH ? 1 : 2);
}

void opf_winograd_choose(const opf_planner *planner, opf_gemm_args *args, const opf_const *w)
{
    enum { COLUMNS = 64 };
    const opf_kern   *kern = planner->options->kern;
    const float      *u    = NULL;
    const form       *f    = NULL;
    opf_weight_format format;
    const bool        cached = opf_weights_stay_cached(planner->options->weights);
    if (planner->options->exact || !can_be(args))
        return;
    for (size_t i = 0; u == NULL && i < sizeof forms / sizeof *forms; i++) { /* where one is too large, a smaller one may still be paid for */
        f = &forms[i];
        if ((int64_t)f->taps[0] == args->window.kernel[1] && (int64_t)f->taps[1] == args->window.kernel[2] &&
            is_faster(args, f, kern->level == OPF_CPU_AVX512, cached))
            u = filters_of(planner, args, w, f, &format);
    }
    if (u == NULL)
        return;
    opf_winograd *plan   = &args->winograd;
    size_t        panels = opf_divide_up(args->n, kern->nr), most = COLUMNS / kern->nr == 0 ? 1 : COLUMNS / kern->nr;
    plan->u              = u;
    plan->filters        = w;
    plan->kernel         = f->kernel;
    plan->cached         = cached;
    memcpy(plan->taps, f->taps, sizeof plan->taps);
    memcpy(plan->tile, f->tile, sizeof plan->tile);
    plan->down           = opf_divide_up((size_t)args->window.out[1], f->tile[0]);
    plan->across         = opf_divide_up((size_t)args->window.out[2], f->tile[1]);
    plan->panels         = opf_divide_up(panels, opf_divide_up(panels, most));
    /* Rows of V do not follow one another at a power of two, which would map them to few sets of L1. */
    plan->v_row   = (args->kc + 15) / 16 * 16 + 16;
    plan->tiles   = tiles_of_block(plan, tiles_of(args, f), kern->nr, (size_t)format.bytes, opf_divide_up(panels, plan->panels), args->groups * panels);
    plan->v_point = plan->tiles * plan->v_row + 16;
    plan->most    = panels_of_block(plan, kern->nr, panels);
    plan->m_panel = plan->tiles * kern->nr;
    plan->m_point = plan->most * plan->m_panel + 16;
}

size_t opf_winograd_units(const opf_gemm_args *args)
{
    const opf_winograd *w   = &args->winograd;
    const size_t        all = args->images * w->down * w->across;
    return opf_divide_up(all, w->tiles) * args->groups * args->panels;
}

void opf_winograd_step(const opf_gemm_args *args, const opf_kern *kern, opf_plan_step *step)
{
    const opf_winograd *w   = &args->winograd;
    worker              work;
    step->kernel        = w->kernel;
    step->run           = run_winograd;
    step->units         = opf_winograd_units(args);
    step->scratch_bytes = scratch_layout(args, kern, &work, NULL);
}
