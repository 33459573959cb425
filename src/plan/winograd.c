/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A unit is a block of tiles and a group of columns. The tiles are transformed to V[points][tiles][channels], multiplied with
 * the packed filters U[points][panels][channels][nr], and M[points][tiles][columns] is transformed back into the result with all
 * that follows it: V and M stay in L2, U streams by once a block. Tiles are numbered over all images, so that small images
 * of a batch share blocks.
 */
#include "plan/winograd.h"
#include "plan/cost_table.h"

#include "cpu/cpu.h"

#include <math.h>

static size_t divide_up(size_t a, size_t b)
{
    return (a + b - 1) / b;
}

static size_t round_64(size_t bytes)
{
    return (bytes + 63) & ~(size_t)63;
}

/* ---- run ---- */

typedef struct {
    const opf_run_env   *env;
    const opf_gemm_args *args;
    const float        **pointers;
    float               *v, *m, *program;
    float               *panel, *filters; /* of the direct form, where sums are not finite */
    size_t               panel_index;     /* which one is there, or SIZE_MAX */
} worker;

typedef struct {
    size_t  image;
    int64_t y, x; /* of its first pixel in the result */
} tile_place;

static size_t points_of(size_t size)
{
    return (size + 2) * (size + 2);
}

static tile_place place_of(const opf_gemm_args *g, size_t tile)
{
    const opf_winograd *w = &g->winograd;
    size_t              rest = tile % (w->down * w->across);
    return (tile_place){tile / (w->down * w->across), (int64_t)(rest / w->across * w->size), (int64_t)(rest % w->across * w->size)};
}

static int inside(int64_t x, size_t size) /* [0, size of the window] */
{
    int64_t window = (int64_t)size + 2;
    return (int)(x < 0 ? 0 : x > window ? window : x);
}

static void transform_tiles(const worker *work, size_t first, size_t n)
{
    const opf_gemm_args   *g = work->args;
    const opf_winograd    *w = &g->winograd;
    const opf_gemm_window *window = &g->window;
    const float           *a = opf_ref_data(work->env, g->a);
    for (size_t i = 0; i < n; i++) {
        tile_place         place = place_of(g, first + i);
        int64_t            y = place.y - window->pad[1], x = place.x - window->pad[2];
        opf_winograd_input tile = {.size    = (int)w->size,
                                   .x       = a + g->a_images[place.image] + y * window->in_stride[1] + x * window->in_stride[2],
                                   .row     = (ptrdiff_t)window->in_stride[1],
                                   .pixel   = (ptrdiff_t)window->in_stride[2],
                                   .top     = inside(-y, w->size),
                                   .bottom  = inside(window->in[1] - y, w->size),
                                   .left    = inside(-x, w->size),
                                   .right   = inside(window->in[2] - x, w->size),
                                   .c       = g->kc,
                                   .v       = work->v + i * w->v_row,
                                   .v_point = (ptrdiff_t)w->v_point};
        work->env->kern->winograd_input(&tile);
    }
}

/* The products of all points for panels [panel, panel + n_panels). */
static void multiply(const worker *work, size_t n, size_t panel, size_t n_panels)
{
    const opf_gemm_args *g  = work->args;
    const opf_winograd  *w  = &g->winograd;
    size_t               mr = work->env->kern->mr, nr = work->env->kern->nr, parts = divide_up(n, mr), size = g->kc * nr;
    opf_gemm_tile        tile = {.taps = 1, .kc = g->kc, .c_stride = (ptrdiff_t)w->m_row, .lo = -INFINITY, .hi = INFINITY};
    for (size_t p = 0, points = points_of(w->size); p < points; p++) {
        for (size_t part = 0; part < parts; part++)
            for (size_t r = 0, begin = n * part / parts, end = n * (part + 1) / parts; r < mr; r++)
                work->pointers[part * mr + r] = work->v + p * w->v_point + (begin + r < end ? begin + r : end - 1) * w->v_row;
        for (size_t k = 0; k < n_panels; k++) {
            tile.b      = w->u + (p * g->panels + panel + k) * size;
            tile.next_b = k + 1 < n_panels ? tile.b + size : p + 1 < points ? w->u + ((p + 1) * g->panels + panel) * size : NULL;
            tile.next_b_rate = divide_up(nr, parts);
            for (size_t part = 0; part < parts; part++) {
                size_t begin = n * part / parts, end = n * (part + 1) / parts;
                tile.a = work->pointers + part * mr;
                tile.next_a = part + 1 < parts && k == 0 ? tile.a + mr : NULL;
                if (part != 0 && tile.next_b != NULL)
                    tile.next_b += divide_up(g->kc, 16) * tile.next_b_rate * 16;
                tile.c = work->m + p * w->m_point + begin * w->m_row + k * nr;
                work->env->kern->gemm(&tile, end - begin, nr);
            }
        }
    }
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* A tile whose sums are not finite, by the product itself. Its weights are packed here and now: it is rare, and they would
   take as much memory again. */
static void compute_directly(worker *work, size_t image, size_t pixel, size_t rows, size_t pixels, size_t panel)
{
    const opf_gemm_args *g  = work->args;
    size_t               nr = work->env->kern->nr, first = panel * nr;
    if (work->panel_index != panel)
        opf_conv_panel(g->winograd.filters, (int64_t)first, (int64_t)(g->n - first < nr ? g->n - first : nr), (int64_t)g->taps, (int64_t)nr,
                       work->panel, work->filters);
    work->panel_index = panel;
    for (size_t r = 0; r < rows; r++)
        opf_gemm_compute_rows(work->env, g, image, pixel + r * (size_t)g->window.out[2], pixels, panel, work->panel, work->pointers);
}

static void finish_tile(worker *work, size_t index, size_t i, size_t panel, size_t k)
{
    const opf_gemm_args *g     = work->args;
    const opf_winograd  *w     = &g->winograd;
    const opf_kern      *kern  = work->env->kern;
    tile_place           place = place_of(g, index);
    int64_t              width = g->window.out[2], rows = least((int64_t)w->size, g->window.out[1] - place.y);
    size_t               pixel = (size_t)(place.y * width + place.x), cols;
    opf_gemm_tile        at    = opf_gemm_tile_at(work->env, g, place.image, 0, pixel, panel + k, &cols);
    opf_winograd_output  out   = {.size           = (int)w->size,
                                  .m              = work->m + i * w->m_row + k * kern->nr,
                                  .m_point        = (ptrdiff_t)w->m_point,
                                  .bias           = at.bias,
                                  .c              = at.c,
                                  .row            = (ptrdiff_t)width * at.c_stride,
                                  .pixel          = at.c_stride,
                                  .residual       = at.residual,
                                  .residual_row   = (ptrdiff_t)width * at.residual_stride,
                                  .residual_pixel = at.residual_stride,
                                  .rows           = (size_t)rows,
                                  .pixels         = (size_t)least((int64_t)w->size, width - place.x),
                                  .cols           = cols,
                                  .lo             = at.lo,
                                  .hi             = at.hi};
    if (!kern->winograd_output(&out))
        compute_directly(work, place.image, pixel, out.rows, out.pixels, panel + k);
}

/* The epilogue's program over the lines that the tiles cover. */
static void run_program(const worker *work, size_t first, size_t n, size_t panel, size_t n_panels)
{
    const opf_gemm_args *g     = work->args;
    size_t               nr    = work->env->kern->nr, col = panel * nr, cols = g->n - col < n_panels * nr ? g->n - col : n_panels * nr;
    int64_t              width = g->window.out[2], size = (int64_t)g->winograd.size;
    for (size_t i = 0, next; i < n; i = next) {
        tile_place place = place_of(g, first + i);
        for (next = i + 1; next < n && place_of(g, first + next).x != 0;)
            next++;
        int64_t pixels = least(width, place.x + (int64_t)(next - i) * size) - place.x;
        for (int64_t r = 0; r < least(size, g->window.out[1] - place.y); r++) {
            size_t      row = (size_t)((place.y + r) * width + place.x), used;
            opf_operand operands[OPF_PROGRAM_OPERANDS];
            opf_store   stores[OPF_PROGRAM_OPERANDS];
            float      *c = opf_gemm_tile_at(work->env, g, place.image, 0, row, panel, &used).c;
            opf_bound_at(work->env, &g->epilogue, place.image, row, col, operands, stores);
            opf_program_run(work->env->kern, &g->epilogue.program, operands, stores, c, g->c_row, c, g->c_row, (size_t)pixels, cols,
                            work->program);
        }
    }
}

static size_t scratch_layout(const opf_gemm_args *g, const opf_kern *kern, worker *work, char *scratch)
{
    const opf_winograd *w  = &g->winograd;
    size_t              at = 0, parts = divide_up(w->tiles, kern->mr), points = points_of(w->size);
    work->pointers = (const float **)(void *)(scratch + at);
    at += round_64((parts > g->taps ? parts : g->taps) * kern->mr * sizeof(float *));
    work->v = (float *)(void *)(scratch + at);
    at += round_64(points * w->v_point * sizeof(float));
    work->m = (float *)(void *)(scratch + at);
    at += round_64(points * w->m_point * sizeof(float));
    work->panel = (float *)(void *)(scratch + at);
    at += round_64(g->taps * g->kc * kern->nr * sizeof(float));
    work->filters = (float *)(void *)(scratch + at);
    at += round_64(g->taps * g->kc * kern->nr * sizeof(float));
    work->program = (float *)(void *)(scratch + at);
    return at + (g->epilogue.program.n != 0 ? round_64(opf_program_scratch(&g->epilogue.program) * sizeof(float)) : 0);
}

static void run_winograd(const opf_run_env *env, const void *args, size_t begin, size_t end, void *scratch)
{
    const opf_gemm_args *g    = args;
    const opf_winograd  *w    = &g->winograd;
    worker               work = {.env = env, .args = g, .panel_index = SIZE_MAX};
    size_t               all  = g->images * w->down * w->across, groups = divide_up(g->panels, w->panels), transformed = SIZE_MAX;
    (void)scratch_layout(g, env->kern, &work, scratch);
    for (size_t unit = begin; unit < end; unit++) {
        size_t block = unit / groups, panel = unit % groups * w->panels;
        size_t first = block * w->tiles, n = all - first < w->tiles ? all - first : w->tiles;
        size_t n_panels = g->panels - panel < w->panels ? g->panels - panel : w->panels;
        if (transformed != block)
            transform_tiles(&work, first, n);
        transformed = block;
        multiply(&work, n, panel, n_panels);
        for (size_t k = 0; k < n_panels; k++)
            for (size_t i = 0; i < n; i++)
                finish_tile(&work, first + i, i, panel, k);
        if (g->epilogue.program.n != 0)
            run_program(&work, first, n, panel, n_panels);
    }
}

/* ---- lowering ---- */

static bool can_be(const opf_gemm_args *args)
{
    const opf_gemm_window *w = &args->window;
    for (int i = 0; i < 3; i++)
        if (w->kernel[i] != (i == 0 ? 1 : 3) || w->stride[i] != 1 || w->dilation[i] != 1)
            return false;
    return args->rows == OPF_ROWS_WINDOW && args->groups == 1 && args->prologue.program.n == 0 && w->in[0] == 1 && w->out[0] == 1 &&
           args->m != 0 && args->images != 0;
}

static size_t tiles_of(const opf_gemm_args *args, size_t size)
{
    return args->images * divide_up((size_t)args->window.out[1], size) * divide_up((size_t)args->window.out[2], size);
}

static bool is_faster(const opf_gemm_args *args, size_t size)
{
    size_t tiles = tiles_of(args, size), bytes = points_of(size) * sizeof(float) * args->kc * args->n;
    return args->kc >= OPF_COST_WINOGRAD_CHANNELS && args->n >= OPF_COST_WINOGRAD_CHANNELS &&
           tiles * size * size >= 16 * OPF_COST_WINOGRAD_TILES &&
           (bytes <= OPF_COST_WINOGRAD_LARGE || tiles >= OPF_COST_WINOGRAD_TILES_OF_LARGE) &&
           args->images * args->m * 16 >= OPF_COST_WINOGRAD_PIXELS_OF_TILE * size * size * tiles;
}

void opf_winograd_choose(const opf_planner *planner, opf_gemm_args *args, const opf_const *w)
{
    enum { COLUMNS = 64, FEWEST = 16, MOST = 48 };
    const opf_kern *kern = planner->options->kern;
    if (planner->options->exact || !can_be(args))
        return;
    size_t size = is_faster(args, 4) ? 4 : is_faster(args, 2) ? 2 : 0;
    if (size == 0)
        return;
    opf_weight_format format = opf_format_winograd((int64_t)args->n, (int64_t)args->kc, (int64_t)kern->nr, (int64_t)size);
    const float      *u = opf_weights_get_extra(planner->options->weights, w, &format);
    if (u == NULL)
        return;
    opf_winograd *plan   = &args->winograd;
    size_t        panels = divide_up(args->n, kern->nr), most = COLUMNS / kern->nr == 0 ? 1 : COLUMNS / kern->nr;
    plan->u              = u;
    plan->filters        = w;
    plan->size           = size;
    plan->down           = divide_up((size_t)args->window.out[1], size);
    plan->across         = divide_up((size_t)args->window.out[2], size);
    plan->panels         = divide_up(panels, divide_up(panels, most));
    /* Rows of V do not follow one another at a power of two, which would map them to few sets of L1. */
    plan->v_row   = (args->kc + 15) / 16 * 16 + 16;
    plan->m_row   = plan->panels * kern->nr;
    size_t all    = tiles_of(args, size);
    size_t fit    = opf_cpu_l2_bytes() / 4 * 3 / (points_of(size) * sizeof(float) * (plan->v_row + plan->m_row));
    fit           = fit < FEWEST ? FEWEST : fit > MOST ? MOST : fit;
    plan->tiles   = divide_up(all, divide_up(all, fit));
    plan->v_point = plan->tiles * plan->v_row + 16;
    plan->m_point = plan->tiles * plan->m_row + 16;
}

void opf_winograd_step(const opf_gemm_args *args, const opf_kern *kern, opf_plan_step *step)
{
    const opf_winograd *w   = &args->winograd;
    size_t              all = args->images * w->down * w->across;
    worker              work;
    step->kernel        = w->size == 2 ? "winograd_f32_2x2" : "winograd_f32_4x4";
    step->run           = run_winograd;
    step->units         = divide_up(all, w->tiles) * divide_up(args->panels, w->panels);
    step->scratch_bytes = scratch_layout(args, kern, &work, NULL);
}
