/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions of one filter a channel, and in groups of a few channels, channels-last. */
#include "plan/depthwise.h"
#include "plan/lines.h"


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
static void input_lines(const opf_depthwise_args *d, const opf_kern *kern, const float *image, size_t at, size_t o, const float **rows,
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
    const opf_depthwise_args  *d       = arguments;
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
                               .w_tap     = d->x_channels,
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

void opf_depthwise_run(const opf_run_env *env, const void *arguments, size_t begin, size_t end, void *scratch)
{
    const opf_depthwise_args *d     = arguments;
    const size_t          lines = (size_t)(d->window.out[0] * d->window.out[1]), groups = depthwise_groups(&d->window);
    for (size_t unit = begin, n; unit < end; unit += n) {
        const size_t first = unit % groups, last = (first + end - unit) * UNIT;
        n = groups - first < end - unit ? groups - first : end - unit;
        run_depthwise_lines(env, d, unit / groups, first * UNIT, last < lines ? last : lines, scratch);
    }
}

/* Of an image of two axes. */
static opf_status tell_lines(opf_planner *planner, const opf_depthwise_args *d, opf_error *error)
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
static bool is_read_by_lines(const opf_conv *c)
{
    const opf_gemm_window *w = &c->window;
    return c->x.strides[1] == 1 || opf_lines_may_copy(w->kernel[0] * w->kernel[1], w->stride[0] * w->stride[1], w->in[2], c->channels);
}

bool opf_conv_is_grouped(const opf_conv *c, const opf_kern *kern)
{
    const int64_t most = (int64_t)kern->grouped_lanes / 2;
    return c->groups > 1 && c->channels / c->groups <= most && c->filters / c->groups <= most && c->filters > 0 && is_read_by_lines(c);
}

opf_status opf_lower_depthwise(opf_planner *planner, const opf_node *node, opf_conv *c, const opf_lowered *lowered, opf_error *error)
{
    opf_weights   *weights = planner->options->weights;
    opf_depthwise_args args    = {.images = (size_t)c->images, .channels = (size_t)c->filters, .x_channels = (size_t)c->channels, .taps = (size_t)c->taps};
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
    opf_conv_set_in_strides(c);
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
        OPF_TRY(opf_bind(planner, &rest, &c->y, opf_conv_split(c->y.rank), &args.epilogue, operands, stores, error));
    args.at_once           = grouped || args.has_epilogue || args.lines != 0 ? UNIT : OPF_DEPTHWISE_LINES;
    args.rows_bytes        = (args.at_once * args.taps * sizeof(float *) + 63) & ~(size_t)63;
    size_t         scratch = args.rows_bytes + (args.lines + opf_program_scratch(&rest.program)) * sizeof(float);
    opf_depthwise_args *kept   = opf_arena_copy(planner->arena, &args, sizeof args);
    OPF_OOM_IF(error, kept == NULL);
    opf_plan_step step = {.kernel        = grouped ? "grouped_f32" : "depthwise_f32",
                          .run           = opf_depthwise_run,
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
