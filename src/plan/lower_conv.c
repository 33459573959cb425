/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolutions, channels-last: an implicit product of pixels with packed filters, or one filter a channel (depthwise).
 * An image with few channels is read in the layout it has, a tile at a time.
 */
#include "ops/window.h"
#include "plan/lines.h"
#include "plan/planes.h"
#include "plan/winograd.h"

#include <math.h>

enum {
    FEW_CHANNELS = 8,  /* up to here gathering rows costs less than another pass over the image */
    LONG_ROW     = 768 /* longer ones are multiplied in parts, whose sums wait in one result (gemm.c) */
};

typedef struct {
    int64_t         images, channels, filters, groups, taps, pixels;
    int32_t         spatial;
    opf_gemm_window window; /* in_stride still unset */
    opf_place       x, y;
    const opf_const *w, *bias;
} conv;

static opf_status describe(opf_planner *planner, const opf_node *node, conv *c, bool *ok, opf_error *error)
{
    const opf_graph *graph = planner->graph;
    *ok                    = false;
    c->w                   = opf_graph_value(graph, node->inputs[1])->constant;
    bool has_bias          = node->n_own_inputs > 2 && node->inputs[2] != 0;
    c->bias                = has_bias ? opf_graph_value(graph, node->inputs[2])->constant : NULL;
    const opf_info *x      = &planner->infos[node->inputs[0]];
    if (x->type != OPF_FLOAT || c->w == NULL || c->w->type != OPF_FLOAT || (has_bias && c->bias == NULL) || x->rank < 3 || x->rank > 5)
        return OPF_OK;
    OPF_TRY(opf_plan_place(planner, node->inputs[0], &c->x, error));
    c->spatial = x->rank - 2;
    opf_windows windows;
    int64_t     out[OPF_MAX_RANK];
    OPF_TRY(opf_windows_read(node->attrs, node->n_attrs, c->spatial, c->w->dims + 2, &windows, error));
    OPF_TRY(opf_windows_resolve(&windows, c->x.dims + 2, out, error));
    c->images   = c->x.dims[0];
    c->channels = c->x.dims[1];
    c->filters  = c->w->dims[0];
    c->groups   = opf_node_int(node, "group", 1);
    c->taps     = 1;
    c->pixels   = 1;
    /* Missing leading axes are of size 1. */
    for (int32_t i = 0; i < 3; i++) {
        int32_t axis           = i - (3 - c->spatial);
        c->window.in[i]        = axis < 0 ? 1 : c->x.dims[2 + axis];
        c->window.out[i]       = axis < 0 ? 1 : out[axis];
        c->window.kernel[i]    = axis < 0 ? 1 : windows.kernel[axis];
        c->window.stride[i]    = axis < 0 ? 1 : windows.stride[axis];
        c->window.dilation[i]  = axis < 0 ? 1 : windows.dilation[axis];
        c->window.pad[i]       = axis < 0 ? 0 : windows.pad_begin[axis];
        c->taps *= c->window.kernel[i];
        c->pixels *= c->window.out[i];
    }
    *ok = true;
    return OPF_OK;
}

static void set_in_strides(conv *c)
{
    for (int32_t i = 0; i < 3; i++) {
        int32_t axis           = i - (3 - c->spatial);
        c->window.in_stride[i] = axis < 0 ? 0 : c->x.strides[2 + axis];
    }
}

static opf_split conv_split(int32_t rank)
{
    return (opf_split){.outer_first = 0, .outer_last = 0, .row_first = 2, .row_last = rank - 1, .col = 1};
}

static opf_status zero_row(opf_planner *planner, int64_t n, const float **zeros, opf_error *error)
{
    *zeros = OPF_NEW(planner->arena, float, n);
    OPF_OOM_IF(error, *zeros == NULL);
    return OPF_OK;
}

/* Kernel, strides and padding of one: row r of the product is pixel r. */
static bool is_pointwise(const conv *c)
{
    bool pointwise = c->taps == 1;
    for (int i = 0; i < 3; i++) /* equal sizes: no padding at the end either */
        pointwise = pointwise && c->window.pad[i] == 0 && c->window.stride[i] == 1 && c->window.out[i] == c->window.in[i];
    return pointwise;
}

/* The places of the channels that a Split takes apart, each for itself; c->y is a shape only then. */
static opf_status place_parts(opf_planner *planner, const opf_node *split, conv *c, const int32_t *order, opf_gemm_args *args,
                              opf_place *places, opf_error *error)
{
    opf_gemm_part *parts = OPF_NEW(planner->arena, opf_gemm_part, split->n_outputs);
    OPF_OOM_IF(error, parts == NULL);
    args->parts = parts;
    size_t first = 0;
    for (uint32_t o = 0; o < split->n_outputs; o++) {
        opf_gemm_part *part = &parts[args->n_parts];
        int64_t        pixel;
        OPF_TRY(opf_plan_alloc_image(planner, split->outputs[o], order, &places[o], error));
        (void)opf_place_linear(&places[o], 2, places[o].rank - 1, &pixel);
        if (places[o].dims[1] == 0)
            continue;
        *part = (opf_gemm_part){.first = first, .c = opf_place_ref(&places[o]), .c_row = (ptrdiff_t)pixel};
        part->c_images = opf_place_offsets(planner->arena, &places[o], 0, 0);
        OPF_OOM_IF(error, part->c_images == NULL);
        first += (size_t)places[o].dims[1];
        args->n_parts++;
    }
    const opf_info *info = &planner->infos[split->inputs[0]];
    c->y                 = (opf_place){.type = info->type, .rank = info->rank};
    for (int32_t i = 0; i < info->rank; i++)
        c->y.dims[i] = info->dims[i].n;
    opf_place_set_dense(&c->y, order);
    return OPF_OK;
}

/* Of the product's result, where each part is best written to a place of its own; else NULL. */
static const opf_node *parts_of(const opf_planner *planner, const opf_node *node, const opf_gemm_args *args, const int32_t *order)
{
    const opf_node *split = opf_plan_split_of(planner, node->outputs[0], 1);
    if (args->groups != 1 || args->winograd.u != NULL || args->taps * args->kc > LONG_ROW || args->m == 0)
        return NULL;
    for (uint32_t o = 0; split != NULL && o < split->n_outputs; o++)
        if (opf_plan_wants_row_major(planner, split->outputs[o], order))
            return NULL; /* from one result several copies are one step */
    return split;
}

static opf_status lower_product(opf_planner *planner, const opf_node *node, conv *c, const opf_lowered *prologue, const opf_lowered *lowered,
                                opf_error *error)
{
    const opf_kern *kern     = planner->options->kern;
    int64_t         per_group = c->channels / c->groups;
    opf_gemm_args   args = {.images = (size_t)c->images,
                            .groups = (size_t)c->groups,
                            .m      = (size_t)c->pixels,
                            .n      = (size_t)(c->filters / c->groups),
                            .kc     = (size_t)per_group,
                            .taps   = (size_t)c->taps,
                            .rows   = OPF_ROWS_WINDOW};
    int32_t order[OPF_MAX_RANK];
    opf_channels_last(c->x.rank, order);
    int64_t row;
    bool    computed = prologue->program.n != 0; /* rows: they must be there as rows */
    if (computed && !opf_place_linear(&c->x, 2, c->x.rank - 1, &row))
        OPF_TRY(opf_plan_dense(planner, &c->x, order, error));
    set_in_strides(c);
    args.window = c->window;
    bool few = false; /* filters */
    if (!computed)
        OPF_TRY(opf_planes_try(planner, &args, &few, error));
    bool planar = !few && c->x.strides[1] != 1 && c->channels > 1, matrix = false;
    if (planar && c->channels <= FEW_CHANNELS && !computed && c->taps > 1 && c->x.strides[c->x.rank - 1] != 1) {
        OPF_TRY(opf_plan_dense(planner, &c->x, order, error)); /* neither planes nor pixels: one pass instead of one a tap */
        planar = false;
    }
    if (planar ? c->channels <= FEW_CHANNELS && !computed : !few && per_group < FEW_CHANNELS && c->taps > 1)
        args.rows = OPF_ROWS_GATHER; /* taps too short for a loop of their own */
    else if (!computed && !few)
        opf_winograd_choose(planner, &args, c->w);
    if (planar && args.rows == OPF_ROWS_WINDOW && !opf_winograd_reads_planes(&args.winograd)) {
        matrix = !computed && is_pointwise(c) && opf_place_linear(&c->x, 2, c->x.rank - 1, &row);
        if (!matrix)
            OPF_TRY(opf_plan_dense(planner, &c->x, order, error));
    }
    set_in_strides(c);
    args.window = c->window;
    if (is_pointwise(c) && args.rows == OPF_ROWS_WINDOW && opf_place_linear(&c->x, 2, c->x.rank - 1, &row)) {
        args.rows  = matrix && c->x.strides[1] != 2 ? OPF_ROWS_GATHER : OPF_ROWS_LINEAR; /* every other element is as good as each */
        args.a_row = (ptrdiff_t)row;
    }
    if (matrix)
        args.window.kernel[0] = 0;
    args.a       = opf_place_ref(&c->x);
    args.a_col   = (ptrdiff_t)c->x.strides[1];
    args.a_group = (ptrdiff_t)(per_group * c->x.strides[1]);
    if (args.winograd.u == NULL && args.a_col == 1 && !computed && !few && c->taps > 1)
        opf_gemm_try_bands(&args, kern);
    if (args.rows == OPF_ROWS_GATHER && !matrix)
        OPF_TRY(opf_gemm_try_lines(planner, &args, error));
    args.a_images = opf_place_offsets(planner->arena, &c->x, 0, 0);
    OPF_OOM_IF(error, args.a_images == NULL);
    OPF_TRY(zero_row(planner, per_group, &args.zeros, error));
    if (args.winograd.u == NULL) {
        opf_weight_format format = opf_format_conv(c->filters, per_group, c->taps, c->groups, few ? c->filters : (int64_t)kern->nr);
        args.b                   = opf_weights_get(planner->options->weights, c->w, &format);
        OPF_OOM_IF(error, args.b == NULL);
    }
    bool planes = opf_plan_wants_row_major(planner, node->outputs[0], order);
    const opf_node *split  = planes || few ? NULL : parts_of(planner, node, &args, order);
    opf_place      *places = OPF_NEW(planner->arena, opf_place, split != NULL ? split->n_outputs : 0);
    OPF_OOM_IF(error, places == NULL);
    if (split != NULL)
        OPF_TRY(place_parts(planner, split, c, order, &args, places, error));
    else
        OPF_TRY(opf_plan_alloc_image(planner, node->outputs[0], planes ? NULL : order, &c->y, error));
    int64_t pixel;
    (void)opf_place_linear(&c->y, 2, c->y.rank - 1, &pixel);
    args.c_row   = planes ? 1 : (ptrdiff_t)pixel;
    args.c_col   = planes ? (ptrdiff_t)c->y.strides[1] : 1;
    args.c_group = (ptrdiff_t)args.n * args.c_col;
    args.c_images = opf_place_offsets(planner->arena, &c->y, 0, 0);
    OPF_OOM_IF(error, args.c_images == NULL);
    opf_place operands[OPF_PROGRAM_OPERANDS], stores[OPF_PROGRAM_OPERANDS];
    if (computed)
        OPF_TRY(opf_bind(planner, prologue, &c->x, conv_split(c->x.rank), &args.prologue, operands, stores, error));
    OPF_TRY(opf_gemm_finish(planner, node, &args, &c->x, NULL, c->bias, &c->y, conv_split(c->y.rank), lowered, kern->gemm_name, error));
    for (uint32_t o = 0; split != NULL && o < split->n_outputs; o++)
        opf_plan_writes(planner, &places[o]);
    if (computed)
        opf_bound_touch(planner, &args.prologue, operands, stores);
    return OPF_OK;
}

/* ---- depthwise ---- */

typedef struct {
    size_t          images, channels, taps; /* channels: of the result */
    size_t          in, out;                /* grouped: channels and filters of a group; depthwise: 0 */
    size_t          x_channels;
    opf_gemm_window window;
    opf_ref         x, y;
    int64_t         x_image, x_channel, y_image, y_channel, y_pixel; /* channel 1: side by side; else planes, by lines of pixels */
    const float    *w, *bias;
    size_t          rows_bytes, lines; /* of the pointers in scratch; floats of copied lines: input, then output */
    size_t          at_once; /* lines of the result in a call of the kernel */
    float           lo, hi;
    opf_ew          then;    /* instead of the clamp; or COPY */
    float           param;
    opf_bound       epilogue;
    bool            has_epilogue;
} depthwise_args;

enum { UNIT = 2 }; /* lines */

static size_t depthwise_groups(const opf_gemm_window *w) /* of lines */
{
    return (size_t)((w->out[0] * w->out[1] + UNIT - 1) / UNIT);
}

/* How many lines of the next output line's window are among those of this one; 0: none. */
static size_t shared_step(const opf_gemm_window *w)
{
    return w->kernel[0] == 1 && w->out[0] == 1 && w->dilation[1] == 1 ? (size_t)w->stride[1] : 0;
}

/* The input lines under the window of output line at + o, NULL outside the image. Planes are copied to pixels, a line once
   for all the windows of the unit that it is in. */
static void input_lines(const depthwise_args *d, const opf_kern *kern, const float *image, size_t at, size_t o, const float **rows,
                        float *copies)
{
    const opf_gemm_window *w  = &d->window;
    int64_t                i0 = (int64_t)(at + o) / w->out[1] * w->stride[0] - w->pad[0];
    int64_t                i1 = (int64_t)(at + o) % w->out[1] * w->stride[1] - w->pad[1];
    size_t                 n_rows = (size_t)(w->kernel[0] * w->kernel[1]), step = shared_step(w), width = (size_t)w->in[2];
    for (size_t r = 0; r < n_rows; r++) {
        int64_t y0 = i0 + (int64_t)r / w->kernel[1] * w->dilation[0], y1 = i1 + (int64_t)r % w->kernel[1] * w->dilation[1];
        size_t  n = o * n_rows + r;
        if (y0 < 0 || y0 >= w->in[0] || y1 < 0 || y1 >= w->in[1])
            rows[n] = NULL;
        else if (o > 0 && step > 0 && r + step < n_rows)
            rows[n] = rows[n - n_rows + step];
        else
            rows[n] = opf_line_read(kern, image + y0 * w->in_stride[0] + y1 * w->in_stride[1], (ptrdiff_t)w->in_stride[2],
                                    (ptrdiff_t)d->x_channel, width, d->x_channels, copies + n * width * d->x_channels);
    }
}

/* Lines [first, end) of pixels of an image: as many at a time as the kernel takes, which then finds those in L1 that windows share, but
   few where lines are copied or an epilogue follows, which find them there then. */
static void run_depthwise_lines(const opf_run_env *env, const void *arguments, size_t image, size_t first, size_t end, void *scratch)
{
    const depthwise_args  *d       = arguments;
    const opf_gemm_window *w       = &d->window;
    size_t                 n_rows = (size_t)(w->kernel[0] * w->kernel[1]), step = shared_step(w);
    const float          **rows   = scratch;
    float                 *copies = (float *)(void *)((char *)scratch + d->rows_bytes), *program = copies + d->lines;
    size_t                 width  = (size_t)w->out[2];
    bool                   planes = d->y_channel != 1;
    const float           *x      = (const float *)opf_ref_data(env, d->x) + (int64_t)image * d->x_image;
    for (size_t at = first; at < end; at += d->at_once) {
        const size_t  row   = at * width;
        float        *y     = (float *)opf_ref_data(env, d->y) + (int64_t)image * d->y_image + (int64_t)row * d->y_pixel;
        float        *to    = planes ? program - d->at_once * width * d->channels : y;
        ptrdiff_t     pixel = planes ? (ptrdiff_t)d->channels : (ptrdiff_t)d->y_pixel; /* of to */
        opf_depthwise job   = {.rows      = rows,
                               .w         = d->w,
                               .lines     = end - at < d->at_once ? end - at : d->at_once,
                               .n_rows    = n_rows,
                               .taps      = (size_t)w->kernel[2],
                               .step      = step,
                               .in        = w->in[2],
                               .first     = -w->pad[2],
                               .stride    = w->stride[2],
                               .dilation  = w->dilation[2],
                               .pixel     = d->x_channel == 1 ? (ptrdiff_t)w->in_stride[2] : (ptrdiff_t)d->x_channels,
                               .bias      = d->bias,
                               .dst       = to,
                               .dst_line  = (ptrdiff_t)width * pixel,
                               .dst_pixel = pixel,
                               .pixels    = width,
                               .c         = d->x_channels,
                               .lo        = d->lo,
                               .hi        = d->hi,
                               .then      = d->then,
                               .param     = d->param};
        for (size_t o = 0; o < job.lines; o++)
            input_lines(d, env->kern, x, at, o, rows, copies);
        if (d->in == 0)
            env->kern->depthwise(&job);
        else
            env->kern->grouped(&(opf_grouped){.lines = job, .in = d->in, .out = d->out});
        if (d->has_epilogue) {
            opf_operand operands[OPF_PROGRAM_OPERANDS];
            opf_store   stores[OPF_PROGRAM_OPERANDS];
            opf_bound_at(env, &d->epilogue, image, row, 0, operands, stores);
            opf_program_run(env->kern, &d->epilogue.program, operands, stores, to, pixel, to, pixel,
                            job.lines * width, d->channels, program);
        }
        if (planes)
            opf_line_write(env->kern, to, job.lines * width, d->channels, y, (ptrdiff_t)d->y_channel);
    }
}

/* A unit is a few lines of pixels of one image; units that follow one another run together. */
static void run_depthwise(const opf_run_env *env, const void *arguments, size_t begin, size_t end, void *scratch)
{
    const depthwise_args *d     = arguments;
    const size_t          lines = (size_t)(d->window.out[0] * d->window.out[1]), groups = depthwise_groups(&d->window);
    for (size_t unit = begin, n; unit < end; unit += n) {
        const size_t first = unit % groups, last = (first + end - unit) * UNIT;
        n = groups - first < end - unit ? groups - first : end - unit;
        run_depthwise_lines(env, d, unit / groups, first * UNIT, last < lines ? last : lines, scratch);
    }
}

/* Of an image of two axes. */
static opf_status tell_lines(opf_planner *planner, const depthwise_args *d, opf_error *error)
{
    const opf_gemm_window *w = &d->window;
    const int64_t          channels = (int64_t)d->channels, x_channels = (int64_t)d->x_channels;
    if (w->kernel[0] != 1 || w->in[0] != 1 || w->out[0] != 1)
        return OPF_OK;
    const bool            dense_in = d->x_channel == 1 && w->in_stride[2] == x_channels && w->in_stride[1] == w->in[2] * x_channels;
    opf_image_lines       lines    = opf_window_lines(w);
    lines.run      = run_depthwise_lines;
    lines.x        = d->x;
    lines.y        = d->y;
    lines.images   = d->images;
    lines.in_line  = dense_in ? (size_t)w->in_stride[1] : 0;
    lines.out_line = d->y_channel == 1 && d->y_pixel == channels ? (size_t)(w->out[2] * channels) : 0;
    lines.weights  = d->taps * d->channels * (d->in == 0 ? 1 : d->in) * sizeof(float);
    lines.stores   = d->has_epilogue && d->epilogue.program.n_stores != 0;
    return opf_plan_goes_by_lines(planner, &lines, error);
}

/* Pixels, or planes whose lines may be copied to pixels as they are read. */
static bool is_read_by_lines(const conv *c)
{
    const opf_gemm_window *w = &c->window;
    return c->x.strides[1] == 1 || opf_lines_may_copy(w->kernel[0] * w->kernel[1], w->stride[0] * w->stride[1], w->in[2], c->channels);
}

/* Groups of so few channels that several of them fill a vector. */
static bool is_grouped(const conv *c, const opf_kern *kern)
{
    const int64_t most = (int64_t)kern->grouped_lanes / 2;
    return c->groups > 1 && c->channels / c->groups <= most && c->filters / c->groups <= most && c->filters > 0 && is_read_by_lines(c);
}

/* Also in groups of a few channels. */
static opf_status lower_depthwise(opf_planner *planner, const opf_node *node, conv *c, const opf_lowered *lowered, opf_error *error)
{
    opf_weights   *weights = planner->options->weights;
    depthwise_args args    = {.images = (size_t)c->images, .channels = (size_t)c->filters, .x_channels = (size_t)c->channels, .taps = (size_t)c->taps};
    const bool     grouped = c->filters != c->groups || c->channels != c->groups;
    if (grouped) {
        args.in  = (size_t)(c->channels / c->groups);
        args.out = (size_t)(c->filters / c->groups);
    }
    int32_t        order[OPF_MAX_RANK];
    opf_channels_last(c->x.rank, order);
    int64_t window_lines = c->window.kernel[0] * c->window.kernel[1];
    if (!is_read_by_lines(c))
        OPF_TRY(opf_plan_dense(planner, &c->x, order, error));
    set_in_strides(c);
    args.window              = c->window;
    opf_weight_format filters = !grouped ? opf_format_depthwise(c->channels, c->taps)
                                         : opf_format_grouped(c->filters, (int64_t)args.in, c->taps, c->groups, (int64_t)planner->options->kern->grouped_lanes);
    args.w                   = opf_weights_get(weights, c->w, &filters);
    OPF_OOM_IF(error, args.w == NULL);
    if (c->bias != NULL) {
        opf_weight_format vector = opf_format_vector(c->filters, 1, 1);
        args.bias                = opf_weights_get(weights, c->bias, &vector);
        OPF_OOM_IF(error, args.bias == NULL);
    }
    bool planes = opf_plan_wants_row_major(planner, node->outputs[0], order) && c->window.out[2] <= OPF_LINES_FLOATS / c->filters;
    OPF_TRY(opf_plan_alloc_image(planner, node->outputs[0], planes ? NULL : order, &c->y, error));
    args.x         = opf_place_ref(&c->x);
    args.y         = opf_place_ref(&c->y);
    args.x_image   = c->x.strides[0];
    args.x_channel = c->x.strides[1];
    args.y_image   = c->y.strides[0];
    args.y_channel = planes ? c->y.strides[1] : 1;
    (void)opf_place_linear(&c->y, 2, c->y.rank - 1, &args.y_pixel);
    args.lines     = ((args.x_channel == 1 ? 0 : (size_t)(window_lines * c->window.in[2]) * args.x_channels) +
                      (planes ? (size_t)c->window.out[2] * args.channels : 0)) * UNIT;
    opf_lowered rest = *lowered;
    opf_lower_clamp(&rest, &args.lo, &args.hi);
    if (!grouped)
        opf_take_then(&rest.program, &args.then, &args.param);
    opf_place operands[OPF_PROGRAM_OPERANDS], stores[OPF_PROGRAM_OPERANDS];
    opf_lower_scalars(planner, &rest);
    args.has_epilogue = rest.program.n != 0;
    if (args.has_epilogue)
        OPF_TRY(opf_bind(planner, &rest, &c->y, conv_split(c->y.rank), &args.epilogue, operands, stores, error));
    args.at_once           = grouped || args.has_epilogue || args.lines != 0 ? UNIT : OPF_DEPTHWISE_LINES;
    args.rows_bytes        = (args.at_once * args.taps * sizeof(float *) + 63) & ~(size_t)63;
    size_t         scratch = args.rows_bytes + (args.lines + opf_program_scratch(&rest.program)) * sizeof(float);
    depthwise_args *kept   = opf_arena_copy(planner->arena, &args, sizeof args);
    OPF_OOM_IF(error, kept == NULL);
    opf_plan_step step = {.kernel        = grouped ? "grouped_f32" : "depthwise_f32",
                          .run           = run_depthwise,
                          .args          = kept,
                          .units         = args.images * depthwise_groups(&c->window),
                          .scratch_bytes = scratch,
                          .flops         = 2.0 * (double)(c->images * c->pixels * c->filters * c->taps) * (grouped ? (double)args.in : 1.0)};
    OPF_TRY(opf_plan_add_step(planner, &step, error));
    OPF_TRY(tell_lines(planner, kept, error));
    opf_plan_reads(planner, &c->x);
    opf_plan_writes(planner, &c->y);
    if (args.has_epilogue)
        opf_bound_touch(planner, &args.epilogue, operands, stores);
    return OPF_OK;
}

opf_status opf_lower_conv(opf_planner *planner, opf_node_id id, bool *done, opf_error *error)
{
    const opf_node *node = opf_graph_node(planner->graph, id);
    opf_lowered     prologue, lowered;
    conv            c = {0};
    if (node->op != &opf_op_Conv || !opf_lower_steps(planner, node, &node->prologue, &prologue) ||
        !opf_lower_steps(planner, node, &node->epilogue, &lowered))
        return OPF_OK;
    OPF_TRY(describe(planner, node, &c, done, error));
    *done = *done && (prologue.program.n == 0 || (is_pointwise(&c) && c.groups == 1 && prologue.program.n_stores == 0));
    if (!*done)
        return OPF_OK;
    bool depthwise = c.groups == c.channels && c.filters == c.channels && c.groups > 1;
    return depthwise || (is_grouped(&c, planner->options->kern) && prologue.program.n == 0) ? lower_depthwise(planner, node, &c, &lowered, error) : lower_product(planner, node, &c, &prologue, &lowered, error);
}
