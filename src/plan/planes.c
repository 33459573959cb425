/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A convolution of few filters: a product would leave most of its vectors' columns empty, so pixels fill them. A unit is a
 * line of the result: the lines below its window are copied, each channel by itself, with their borders. What the window of the
 * next line shares stays where it is: line y lies in slot y mod kernel, and there is a table of offsets for each turn of the slots.
 */
#include "plan/planes.h"

#include "base/round.h"

#include <math.h>
#include <string.h>

typedef struct {
    const opf_run_env   *env;
    const opf_gemm_args *args;
    float               *lines, *planes, *tile, *program;
    int64_t              next; /* the input's lines before it are there, as far as a window below reads them */
} worker;

/* The input's line at src (NULL: outside) with its borders, a channel each `channel` floats; pixels whose places have the same
   rest by the stride lie together. */
static void copy_line(const worker *work, const float *src, float *dst, ptrdiff_t channel)
{
    const opf_gemm_args   *g      = work->args;
    const opf_gemm_window *w      = &g->window;
    const int64_t          phases = (int64_t)g->lines.phases, phase = (int64_t)g->lines.phase;
    for (int64_t p = 0; p < phases; p++, dst += phase) {
        const int64_t before = w->pad[2] - p, last = w->in[2] - 1 + before, from = before > 0 ? (before + phases - 1) / phases : 0;
        const int64_t end   = src == NULL || last < 0 ? 0 : last / phases < phase ? last / phases + 1 : phase;
        const int64_t first = from < end ? from : end;
        for (size_t c = 0; c < g->kc && first > 0; c++)
            memset(dst + (ptrdiff_t)c * channel, 0, (size_t)first * sizeof *dst);
        if (first < end)
            work->env->kern->copy_2d(src + (first * phases - before) * w->in_stride[2], g->a_col, (ptrdiff_t)(phases * w->in_stride[2]),
                                     dst + first, channel, g->kc, (size_t)(end - first));
        for (size_t c = 0; c < g->kc && end < phase; c++)
            memset(dst + (ptrdiff_t)c * channel + end, 0, (size_t)(phase - end) * sizeof *dst);
    }
}

/* The lines below the window of a line of the result; those that are there already are not copied again. */
static void copy_lines(worker *work, const float *image, size_t line)
{
    const opf_gemm_args   *g  = work->args;
    const opf_gemm_window *w  = &g->window;
    const int64_t          i0 = (int64_t)line / w->out[1] * w->stride[0] - w->pad[0], i1 = (int64_t)line % w->out[1] * w->stride[1] - w->pad[1];
    const ptrdiff_t        size = (ptrdiff_t)(g->lines.phases * g->lines.phase), channel = size * (ptrdiff_t)(w->kernel[0] * w->kernel[1]);
    const bool             stay = g->lines.turns > 1;
    for (int64_t k0 = 0; k0 < w->kernel[0]; k0++)
        for (int64_t k1 = 0; k1 < w->kernel[1]; k1++) {
            const int64_t y0 = i0 + k0 * w->dilation[0], y1 = i1 + k1 * w->dilation[1];
            const int64_t slot   = stay ? (y1 + w->pad[1]) % w->kernel[1] : k0 * w->kernel[1] + k1;
            const bool    inside = y0 >= 0 && y0 < w->in[0] && y1 >= 0 && y1 < w->in[1];
            if (stay && y1 < work->next)
                continue;
            copy_line(work, inside ? image + y0 * w->in_stride[0] + y1 * w->in_stride[1] : NULL, work->lines + slot * size, channel);
        }
    work->next = i1 + w->kernel[1];
}

/* Where the sums can be stored as they come: nothing follows them, and pixels of the result are neighbours. */
static bool is_direct(const opf_gemm_args *g)
{
    return g->c_row == 1 && g->residual.buffer == 0 && g->epilogue.program.n == 0;
}

/* From the planes of a line to its pixels, what follows the sums, and to where the result lies. */
static void finish_line(const worker *work, const opf_gemm_tile *at, size_t image, size_t pixel, size_t pixels)
{
    const opf_gemm_args *g    = work->args;
    const opf_kern      *kern = work->env->kern;
    float               *tile = g->n == 1 ? work->planes : work->tile;
    if (g->n != 1)
        kern->copy_2d(work->planes, 1, (ptrdiff_t)pixels, tile, (ptrdiff_t)g->n, pixels, g->n);
    for (size_t p = 0; at->residual != NULL && p < pixels; p++)
        kern->ew[OPF_EW_ADD](tile + p * g->n, tile + p * g->n, at->residual + (ptrdiff_t)p * at->residual_stride, g->n, NULL);
    if (at->residual != NULL)
        kern->ew[OPF_EW_CLIP](tile, tile, NULL, pixels * g->n, (const float[]){g->lo, g->hi});
    if (g->epilogue.program.n != 0) {
        opf_operand operands[OPF_PROGRAM_OPERANDS];
        opf_store   stores[OPF_PROGRAM_OPERANDS];
        const bool  turned = g->n == 1; /* one row of pixels fills vectors, pixels of one column do not */
        const size_t rows = turned ? 1 : pixels, cols = turned ? pixels : g->n;
        opf_bound_at(work->env, &g->epilogue, image, pixel, 0, operands, stores);
        for (uint32_t i = 0; turned && i < g->epilogue.program.n_operands; i++)
            operands[i].col = operands[i].row;
        for (uint32_t i = 0; turned && i < g->epilogue.program.n_stores; i++)
            stores[i].col = stores[i].row;
        opf_program_run(kern, &g->epilogue.program, operands, stores, tile, (ptrdiff_t)cols, tile, (ptrdiff_t)cols, rows, cols, work->program);
    }
    if (g->c_col == 1)
        kern->copy_2d(tile, (ptrdiff_t)g->n, 1, at->c, g->c_row, pixels, g->n);
    else
        kern->copy_2d(tile, 1, (ptrdiff_t)g->n, at->c, g->c_col, g->n, pixels);
}

static size_t scratch_layout(const opf_gemm_args *g, worker *work, char *scratch)
{
    const size_t pixels = (size_t)g->window.out[2] * g->n;
    size_t       at     = 0;
    work->lines = (float *)(void *)(scratch + at);
    at += opf_round_64(g->lines.count * g->lines.phases * g->lines.phase * sizeof(float));
    work->planes = (float *)(void *)(scratch + at);
    at += opf_round_64(pixels * sizeof(float));
    work->tile = (float *)(void *)(scratch + at);
    at += opf_round_64(pixels * sizeof(float));
    work->program = (float *)(void *)(scratch + at);
    return at + (g->epilogue.program.n != 0 ? opf_round_64(opf_program_scratch(&g->epilogue.program) * sizeof(float)) : 0);
}

static void run_planes(const opf_run_env *env, const void *args, size_t begin, size_t end, void *scratch)
{
    const opf_gemm_args *g     = args;
    const size_t         width = (size_t)g->window.out[2], lines = g->m / width;
    const float         *a     = opf_ref_data(env, g->a);
    worker               work  = {.env = env, .args = g};
    (void)scratch_layout(g, &work, scratch);
    for (size_t unit = begin; unit < end; unit++) {
        const size_t        image = unit / lines, line = unit % lines;
        const size_t        turn  = line * (size_t)g->window.stride[1] % g->lines.turns;
        if (unit == begin || line == 0)
            work.next = INT64_MIN;
        const bool          direct = is_direct(g), clamps = g->residual.buffer == 0; /* what is added comes before the clamp */
        size_t              cols;
        const opf_gemm_tile at = opf_gemm_tile_at(env, g, image, 0, line * width, 0, &cols);
        copy_lines(&work, a + g->a_images[image], line);
        env->kern->planes(&(opf_planes){.lines   = work.lines,
                                        .offsets = g->lines.offsets + turn * g->taps * g->kc,
                                        .k       = g->taps * g->kc,
                                        .w       = g->b,
                                        .bias    = g->bias,
                                        .filters = g->n,
                                        .pixels  = width,
                                        .c       = direct ? at.c : work.planes,
                                        .c_line  = direct ? g->c_col : (ptrdiff_t)width,
                                        .lo      = clamps ? g->lo : -INFINITY,
                                        .hi      = clamps ? g->hi : INFINITY});
        if (!direct)
            finish_line(&work, &at, image, line * width, width);
    }
}

opf_status opf_planes_try(opf_planner *planner, opf_gemm_args *args, bool *taken, opf_error *error)
{
    enum { MOST = 1 << 16 }; /* floats of copied lines */
    const opf_kern        *kern  = planner->options->kern;
    const opf_gemm_window *w     = &args->window;
    opf_gemm_lines        *lines = &args->lines;
    const int64_t          span  = (w->out[2] - 1) * w->stride[2] + (w->kernel[2] - 1) * w->dilation[2] + 1;
    *taken = false;
    if (args->groups != 1 || args->n == 0 || args->n > OPF_PLANES_FILTERS || args->n * 4 > kern->nr || args->m == 0 ||
        args->kc == 0 || w->out[2] < (int64_t)kern->nr / 2 || w->stride[2] > 4 || span > MOST)
        return OPF_OK;
    const size_t window_lines = (size_t)(w->kernel[0] * w->kernel[1]);
    lines->step   = 1;
    lines->phases = (size_t)w->stride[2];
    lines->phase  = opf_divide_up((size_t)span, lines->phases);
    lines->count  = args->kc * window_lines;
    if (lines->count > MOST || lines->count * lines->phases * lines->phase > MOST)
        return OPF_OK;
    lines->turns      = w->kernel[0] == 1 && w->dilation[1] == 1 ? (size_t)w->kernel[1] : 1;
    uint32_t *offsets = OPF_NEW(planner->arena, uint32_t, lines->turns * args->taps * args->kc), *next = offsets;
    OPF_OOM_IF(error, offsets == NULL);
    for (size_t turn = 0; turn < lines->turns; turn++)
        for (size_t t = 0; t < args->taps; t++)
            for (size_t i = 0; i < args->kc; i++) {
                const size_t row = t / (size_t)w->kernel[2], slot = lines->turns > 1 ? (row + turn) % lines->turns : row;
                const size_t x = t % (size_t)w->kernel[2] * (size_t)w->dilation[2];
                *next++ = (uint32_t)(((i * window_lines + slot) * lines->phases + x % lines->phases) * lines->phase + x / lines->phases);
            }
    lines->offsets = offsets;
    args->rows     = OPF_ROWS_PLANES;
    *taken         = true;
    return OPF_OK;
}

void opf_planes_step(const opf_gemm_args *args, opf_plan_step *step)
{
    worker work;
    step->kernel        = "conv_planes_f32";
    step->run           = run_planes;
    step->units         = args->images * (args->m / (size_t)args->window.out[2]);
    step->scratch_bytes = scratch_layout(args, &work, NULL);
}
