/* SPDX-License-Identifier: Apache-2.0 */
/* Pooling, channels-last: MaxPool, AveragePool, GlobalAveragePool, GlobalMaxPool on any spatial rank up to 3. */
#include "ops/window.h"
#include "plan/bands.h"
#include "plan/lines.h"
#include "plan/steps.h"
#include "base/least.h"
#include "base/round.h"

#include <math.h>
#include <string.h>

enum {
    PIECE       = 4096, /* floats of a folded line that stay in L1 */
    FOLD_GAINS  = 2,    /* many taps: folded, less than one in so many is left to read */
    LINE_FLOATS = 16    /* of a cache line */
};

typedef struct {
    bool        max, include_pad;
    int32_t     spatial;
    opf_windows windows;
    size_t      channels, pixels, taps, lines; /* taps and lines of a window, as many as the image has */
    int64_t     piece; /* output pixels whose lines are folded at once; 0: they are not */
    int64_t     in[3], out[3], in_stride[3];
    opf_ref     x, y;
    int64_t     x_image, x_channel, y_image, y_channel, y_pixel; /* channel 1: side by side; else planes, by lines of pixels */
    opf_bound   epilogue;
} pool_args;

/* The divisor of an average: taps inside the image, or inside the padded image (the last window may overhang both). */
static int64_t divisor(const pool_args *p, const int64_t *place)
{
    int64_t n = 1;
    for (int32_t i = 0; i < p->spatial; i++) {
        int64_t first, last;
        if (p->include_pad) {
            int64_t start = place[i] * p->windows.stride[i] - p->windows.pad_begin[i], limit = p->in[i] + p->windows.pad_end[i], t = 0;
            for (int64_t k = 0; k < p->windows.kernel[i]; k++)
                t += start + k * p->windows.dilation[i] < limit;
            n *= t;
            continue;
        }
        opf_windows_taps(&p->windows, i, place[i], p->in[i], &first, &last);
        n *= last - first;
    }
    return n;
}

/* What the sum of a window is multiplied by: the average of a window that sees nothing of the image is 0. */
static float average_scale(const pool_args *p, const int64_t *place)
{
    const int64_t n = divisor(p, place);
    return n == 0 ? 0.0f : 1.0f / (float)n;
}

/* The lines of the input below the window's, for all pixels of an output line. */
static size_t window_lines(const pool_args *p, const opf_kern *kern, const float *image, const int64_t *place, const float **lines, float *copies)
{
    int64_t first[2] = {0, 0}, last[2] = {1, 1}, start[2] = {0, 0}, step[2] = {0, 0}, stride[2] = {0, 0};
    int32_t axis = p->spatial - 1;
    size_t  width = (size_t)p->in[axis], n = 0;
    for (int32_t i = 0; i < axis; i++) {
        int32_t at = i + 2 - axis;
        opf_windows_taps(&p->windows, i, place[i], p->in[i], &first[at], &last[at]);
        start[at]  = place[i] * p->windows.stride[i] - p->windows.pad_begin[i];
        step[at]   = p->windows.dilation[i];
        stride[at] = p->in_stride[i];
    }
    for (int64_t a = first[0]; a < last[0]; a++)
        for (int64_t b = first[1]; b < last[1]; b++, n++)
            lines[n] = opf_line_read(kern, image + (start[0] + a * step[0]) * stride[0] + (start[1] + b * step[1]) * stride[1],
                                     (ptrdiff_t)p->in_stride[axis], (ptrdiff_t)p->x_channel, width, p->channels, copies + n * width * p->channels);
    return n;
}

/* Pixels [first, last) of an output line, whose windows lie inside the image: all of their taps are there. */
static void inner_pixels(const pool_args *p, int64_t *first, int64_t *last)
{
    int32_t axis = p->spatial - 1;
    int64_t stride = p->windows.stride[axis], pad = p->windows.pad_begin[axis];
    int64_t room = p->in[axis] + pad - (p->windows.kernel[axis] - 1) * p->windows.dilation[axis];
    *first       = pad <= 0 ? 0 : (pad + stride - 1) / stride;
    *last        = room <= 0 ? 0 : (room + stride - 1) / stride;
    *last        = *last > p->out[axis] ? p->out[axis] : *last;
}

typedef struct {
    const float **taps, **lines;
    float        *copies, *folded, *line, *program;
} pool_scratch;

/* Pixels of an input line that `out` neighbouring windows span. */
static int64_t windows_span(const pool_args *p, int64_t out)
{
    const int32_t axis = p->spatial - 1;
    return (out - 1) * p->windows.stride[axis] + opf_windows_span(&p->windows, axis);
}

static size_t scratch_layout(const pool_args *p, char *scratch, pool_scratch *s)
{
    size_t last = (size_t)p->spatial - 1, at = 0;
    s->taps = (const float **)(void *)(scratch + at);
    at += opf_round_64(p->taps * sizeof(float *));
    s->lines = (const float **)(void *)(scratch + at);
    at += opf_round_64((p->lines + 1) * sizeof(float *));
    s->copies = (float *)(void *)(scratch + at);
    at += p->x_channel == 1 ? 0 : opf_round_64(p->lines * (size_t)p->in[last] * p->channels * sizeof(float));
    s->folded = (float *)(void *)(scratch + at);
    at += p->piece == 0 ? 0 : opf_round_64((size_t)opf_least(windows_span(p, p->piece), p->in[last]) * p->channels * sizeof(float));
    s->line = (float *)(void *)(scratch + at);
    at += p->y_channel == 1 ? 0 : opf_round_64((size_t)p->out[last] * p->channels * sizeof(float));
    s->program = (float *)(void *)(scratch + at);
    return at + opf_program_scratch(&p->epilogue.program) * sizeof(float);
}

static int64_t inside(int64_t at, int64_t n)
{
    return at < 0 ? 0 : opf_least(at, n);
}

/* The lines of a window as its pixels see them: n of them, from input pixel `first` on. */
typedef struct {
    const float **lines;
    size_t        n;
    ptrdiff_t     pixel;
    int64_t       first;
} pool_lines;

/* All lines below output pixels [begin, end) to one, in which their windows are as wide and one line high. */
static pool_lines fold_lines(const opf_kern *kern, const pool_args *p, const pool_lines *from, int64_t begin, int64_t end, pool_scratch *s)
{
    const int32_t axis  = p->spatial - 1;
    const int64_t start = begin * p->windows.stride[axis] - p->windows.pad_begin[axis];
    const int64_t first = inside(start, p->in[axis]), last = inside(start + windows_span(p, end - begin), p->in[axis]);
    for (size_t i = 0; i < from->n; i++)
        s->taps[i] = from->lines[i] + first * from->pixel;
    const opf_pool line = {.taps = s->taps, .n_taps = from->n, .pixel = from->pixel, .dst = s->folded, .dst_pixel = (ptrdiff_t)p->channels,
                           .pixels = (size_t)(last - first), .c = p->channels, .scale = 1.0f};
    (p->max ? kern->pool_max : kern->pool_sum)(&line);
    s->lines[p->lines] = s->folded;
    return (pool_lines){s->lines + p->lines, 1, (ptrdiff_t)p->channels, first};
}

static size_t window_taps(const pool_args *p, const pool_lines *from, int64_t place, const float **taps)
{
    const int32_t axis  = p->spatial - 1;
    const int64_t start = place * p->windows.stride[axis] - p->windows.pad_begin[axis] - from->first;
    int64_t       first, last;
    size_t        n = 0;
    opf_windows_taps(&p->windows, axis, place, p->in[axis], &first, &last);
    for (size_t line = 0; line < from->n; line++)
        for (int64_t k = first; k < last; k++)
            taps[n++] = from->lines[line] + (start + k * p->windows.dilation[axis]) * from->pixel;
    return n;
}

/* Output pixels [begin, end): those whose windows lie inside the image together, those of its borders one by one. */
static void pool_pixels(const opf_kern *kern, const pool_args *p, const pool_lines *from, int64_t *place, int64_t begin, int64_t end,
                        const float **taps, float *to, ptrdiff_t stride)
{
    const int32_t axis = p->spatial - 1;
    int64_t       inner, inner_end;
    inner_pixels(p, &inner, &inner_end);
    for (int64_t at = begin, next; at < end; at = next) {
        next        = at < inner || at >= inner_end ? at + 1 : opf_least(inner_end, end);
        place[axis] = at;
        const opf_pool line = {.taps      = taps,
                               .n_taps    = window_taps(p, from, at, taps),
                               .pixel     = (ptrdiff_t)p->windows.stride[axis] * from->pixel,
                               .dst       = to + at * stride,
                               .dst_pixel = stride,
                               .pixels    = (size_t)(next - at),
                               .c         = p->channels,
                               .scale     = p->max ? 1.0f : average_scale(p, place)};
        (p->max ? kern->pool_max : kern->pool_sum)(&line);
    }
}

/* An output line. Where it pays, the lines of its windows are folded first: windows side by side share that work. */
static void pool_line(const opf_kern *kern, const pool_args *p, const pool_lines *from, int64_t *place, pool_scratch *s, float *to, ptrdiff_t stride)
{
    const int64_t width = p->out[p->spatial - 1];
    for (int64_t begin = 0, end; begin < width; begin = end) {
        end = p->piece == 0 ? width : opf_least(begin + p->piece, width);
        const pool_lines lines = p->piece == 0 ? *from : fold_lines(kern, p, from, begin, end, s);
        pool_pixels(kern, p, &lines, place, begin, end, s->taps, to, stride);
    }
}

/* How many output pixels one piece is: wide enough that few input pixels belong to two of them. Folding pays for windows of many taps,
   and where pixels are no whole cache lines: then a tap reads across their ends, and a line from begin to end does not. */
static int64_t piece_pixels(const pool_args *p)
{
    const int32_t axis   = p->spatial - 1;
    const int64_t stride = p->windows.stride[axis], span = opf_least(opf_windows_span(&p->windows, axis), p->in[axis]);
    const int64_t fit = ((int64_t)(PIECE / p->channels) - span) / stride, wide = 4 * span / stride;
    const int64_t taps = (int64_t)p->taps, lines = (int64_t)p->lines, across = taps / lines;
    const bool    many = taps > FOLD_GAINS * (lines * stride + across), splits = p->channels % LINE_FLOATS != 0;
    if (lines == 1 || across <= stride || !(many || splits))
        return 0;
    return opf_least(fit > wide ? fit : wide, p->out[axis]);
}

static void run_epilogue(const opf_run_env *env, const pool_args *p, size_t image, size_t pixel, float *line, ptrdiff_t stride, size_t width, float *scratch)
{
    if (p->epilogue.program.n == 0)
        return;
    opf_operand operands[OPF_PROGRAM_OPERANDS];
    opf_store   stores[OPF_PROGRAM_OPERANDS];
    opf_bound_at(env, &p->epilogue, image, pixel, 0, operands, stores);
    opf_program_run(env->kern, &p->epilogue.program, operands, stores, line, stride, line, stride, width, p->channels, scratch);
}

/* A unit is one line of pixels: all but the last spatial axis are fixed. */
static void run_pool(const opf_run_env *env, const void *args, size_t begin, size_t end, void *scratch)
{
    const pool_args *p = args;
    pool_scratch     s;
    (void)scratch_layout(p, scratch, &s);
    size_t width = (size_t)p->out[p->spatial - 1], lines = p->pixels / (width == 0 ? 1 : width);
    for (size_t unit = begin; unit < end; unit++) {
        size_t       image = unit / lines, line = unit % lines, left = line;
        const float *x = (const float *)opf_ref_data(env, p->x) + (int64_t)image * p->x_image;
        float       *y = (float *)opf_ref_data(env, p->y) + (int64_t)image * p->y_image + (int64_t)(line * width) * p->y_pixel;
        float    *to     = p->y_channel == 1 ? y : s.line;
        ptrdiff_t stride = p->y_channel == 1 ? (ptrdiff_t)p->y_pixel : (ptrdiff_t)p->channels; /* of to */
        int64_t place[3];
        for (int32_t i = p->spatial - 1; i-- > 0;) {
            place[i] = (int64_t)(left % (size_t)p->out[i]);
            left /= (size_t)p->out[i];
        }
        const pool_lines from = {.lines = s.lines,
                                 .n     = window_lines(p, env->kern, x, place, s.lines, s.copies),
                                 .pixel = p->x_channel == 1 ? (ptrdiff_t)p->in_stride[p->spatial - 1] : (ptrdiff_t)p->channels};
        pool_line(env->kern, p, &from, place, &s, to, stride);
        run_epilogue(env, p, image, line * width, to, stride, width, s.program);
        if (p->y_channel != 1)
            opf_line_write(env->kern, s.line, width, p->channels, y, (ptrdiff_t)p->y_channel);
    }
}

static void run_pool_lines(const opf_run_env *env, const void *args, size_t image, size_t first, size_t end, void *scratch)
{
    const pool_args *p     = args;
    const size_t     lines = (size_t)p->out[0];
    run_pool(env, args, image * lines + first, image * lines + end, scratch);
}

/* Of an image of two axes. */
static opf_status tell_lines(opf_planner *planner, const pool_args *p, const opf_place *x, opf_error *error)
{
    const int64_t channels = (int64_t)p->channels;
    if (p->spatial != 2 || p->pixels == 0)
        return OPF_OK;
    const bool            dense_in = p->x_channel == 1 && p->in_stride[1] == channels && p->in_stride[0] == p->in[1] * channels;
    const opf_image_lines lines = {.run      = run_pool_lines,
                                   .x        = p->x,
                                   .y        = p->y,
                                   .images   = (size_t)x->dims[0],
                                   .in       = (size_t)p->in[0],
                                   .out      = (size_t)p->out[0],
                                   .in_line  = dense_in ? (size_t)p->in_stride[0] : 0,
                                   .out_line = p->y_channel == 1 && p->y_pixel == channels ? (size_t)(p->out[1] * channels) : 0,
                                   .window   = (p->windows.kernel[0] - 1) * p->windows.dilation[0] + 1,
                                   .stride   = p->windows.stride[0],
                                   .pad      = p->windows.pad_begin[0],
                                   .step     = 1,
                                   .stores   = p->epilogue.program.n != 0 && p->epilogue.program.n_stores != 0};
    return opf_plan_goes_by_lines(planner, &lines, error);
}

/* Global pools: the whole image is the window, pixel by pixel, or plane by plane. A unit is an image. */
static void run_global(const opf_run_env *env, const void *args, size_t begin, size_t end, void *scratch)
{
    const pool_args *p     = args;
    float            scale = 1.0f / (float)p->taps;
    for (size_t image = begin; image < end; image++) {
        const float *x = (const float *)opf_ref_data(env, p->x) + (int64_t)image * p->x_image;
        float       *y = (float *)opf_ref_data(env, p->y) + (int64_t)image * p->y_image;
        if (p->x_channel == 1)
            env->kern->pixel_sum(x, (ptrdiff_t)p->in_stride[p->spatial - 1], p->taps, scale, y, p->channels);
        for (size_t c = 0; p->x_channel != 1 && c < p->channels; c++)
            y[c] = p->max ? env->kern->reduce_max(x + (int64_t)c * p->x_channel, p->taps)
                          : scale * env->kern->reduce_sum(x + (int64_t)c * p->x_channel, p->taps);
        run_epilogue(env, p, image, 0, y, (ptrdiff_t)p->y_pixel, 1, scratch);
    }
}

static bool is_pool(const opf_node *node)
{
    return node->op == &opf_op_MaxPool || node->op == &opf_op_AveragePool || node->op == &opf_op_GlobalAveragePool ||
           node->op == &opf_op_GlobalMaxPool;
}

/* How x is read: channels side by side, by planes, or, where neither serves, a copy of it. */
static opf_status place_image(opf_planner *planner, pool_args *p, opf_place *x, bool global, opf_error *error)
{
    int32_t order[OPF_MAX_RANK];
    int64_t pixel, apart = 1;
    bool    linear = opf_place_linear(x, 2, x->rank - 1, &pixel), together = x->strides[1] == 1 || x->dims[1] == 1;
    for (int32_t i = 0; i + 1 < p->spatial; i++)
        apart *= p->windows.stride[i];
    opf_channels_last(x->rank, order);
    bool by_lines = opf_lines_may_copy((int64_t)p->lines, apart, p->in[p->spatial - 1], (int64_t)p->channels);
    if (global ? !linear || !(together || pixel == 1) : !together && !by_lines)
        OPF_TRY(opf_plan_dense(planner, x, order, error));
    for (int32_t i = 0; i < p->spatial; i++)
        p->in_stride[i] = x->strides[2 + i];
    if (global && opf_place_linear(x, 2, x->rank - 1, &pixel))
        p->in_stride[p->spatial - 1] = pixel;
    p->x_image   = x->strides[0];
    p->x_channel = x->dims[1] == 1 ? 1 : x->strides[1];
    return OPF_OK;
}

opf_status opf_lower_pool(opf_planner *planner, opf_node_id id, bool *done, opf_error *error)
{
    const opf_node *node = opf_graph_node(planner->graph, id);
    opf_lowered     lowered;
    if (!is_pool(node) || node->prologue.n != 0 || planner->infos[node->inputs[0]].type != OPF_FLOAT ||
        (node->n_own_outputs > 1 && node->outputs[1] != 0) || !opf_lower_steps(planner, node, &node->epilogue, &lowered))
        return OPF_OK;
    pool_args p = {.max = node->op == &opf_op_MaxPool || node->op == &opf_op_GlobalMaxPool, .include_pad = opf_node_int(node, "count_include_pad", 0) != 0};
    opf_place x, y;
    OPF_TRY(opf_plan_place(planner, node->inputs[0], &x, error));
    p.spatial = x.rank - 2;
    if (p.spatial < 1 || p.spatial > 3 || opf_place_elements(&x) == 0)
        return OPF_OK;
    bool global = node->op == &opf_op_GlobalAveragePool || node->op == &opf_op_GlobalMaxPool;
    OPF_TRY(opf_windows_read(global ? NULL : node->attrs, global ? 0 : node->n_attrs, p.spatial, global ? x.dims + 2 : NULL, &p.windows, error));
    OPF_TRY(opf_windows_resolve(&p.windows, x.dims + 2, p.out, error));
    *done = true;
    p.channels = (size_t)x.dims[1];
    p.pixels = p.taps = 1;
    for (int32_t i = 0; i < p.spatial; i++) {
        p.in[i] = x.dims[2 + i];
        p.pixels *= (size_t)p.out[i];
        p.lines = p.taps;
        p.taps *= (size_t)opf_least(p.windows.kernel[i], p.in[i]);
    }
    p.piece = piece_pixels(&p);
    OPF_TRY(place_image(planner, &p, &x, global, error));
    int32_t order[OPF_MAX_RANK];
    opf_channels_last(x.rank, order);
    bool planes = opf_plan_wants_row_major(planner, node->outputs[0], order) && p.channels > 1 &&
                  p.out[p.spatial - 1] <= OPF_LINES_FLOATS / (int64_t)p.channels && !global;
    OPF_TRY(opf_plan_alloc_image(planner, node->outputs[0], planes ? NULL : order, &y, error));
    p.x         = opf_place_ref(&x);
    p.y         = opf_place_ref(&y);
    p.y_image   = y.strides[0];
    p.y_channel = planes ? y.strides[1] : 1;
    (void)opf_place_linear(&y, 2, y.rank - 1, &p.y_pixel);
    opf_place operands[OPF_PROGRAM_OPERANDS], stores[OPF_PROGRAM_OPERANDS];
    opf_split split = {.outer_first = 0, .outer_last = 0, .row_first = 2, .row_last = x.rank - 1, .col = 1};
    opf_lower_scalars(planner, &lowered);
    if (lowered.program.n != 0)
        OPF_TRY(opf_bind(planner, &lowered, &y, split, &p.epilogue, operands, stores, error));
    bool       whole = node->op == &opf_op_GlobalAveragePool || (global && p.x_channel != 1);
    pool_args *kept  = opf_arena_copy(planner->arena, &p, sizeof p);
    OPF_OOM_IF(error, kept == NULL);
    pool_scratch  s;
    size_t        lines = p.pixels == 0 ? 0 : p.pixels / (size_t)p.out[p.spatial - 1];
    opf_plan_step step  = {.kernel        = !whole ? (p.max ? "pool_max_f32" : "pool_sum_f32") : p.x_channel == 1 ? "pixel_sum_f32" : p.max ? "plane_max_f32" : "plane_sum_f32",
                           .run           = whole ? run_global : run_pool,
                           .args          = kept,
                           .units         = (size_t)x.dims[0] * (whole ? 1 : lines),
                           .scratch_bytes = scratch_layout(&p, NULL, &s),
                           .flops         = (double)(x.dims[0] * (int64_t)(p.pixels * p.taps * p.channels))};
    OPF_TRY(opf_plan_add_step(planner, &step, error));
    if (!whole)
        OPF_TRY(tell_lines(planner, kept, &x, error));
    opf_plan_reads(planner, &x);
    opf_plan_writes(planner, &y);
    if (lowered.program.n != 0)
        opf_bound_touch(planner, &p.epilogue, operands, stores);
    return OPF_OK;
}
