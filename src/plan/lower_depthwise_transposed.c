/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transposed convolutions with one filter a channel: a line of the result at a time, whose phases are as many lines of a
 * depthwise convolution of stride 1, each written to every stride-th pixel.
 */
#include "plan/lines.h"
#include "plan/transposed.h"

#include <math.h>

typedef struct {
    opf_transposed  t;
    size_t          rows_bytes, lines; /* of the pointers in scratch; floats of copied lines: input, then output */
    opf_ref         x, y;
    int64_t         y_channel; /* 1: side by side; else planes */
    const float    *w, *bias;
    float           lo, hi;
    opf_bound       epilogue;
} depthwise_args;

/* The phase of a position of the result, and its q. */
static const opf_phase *phase_at(const opf_transposed *t, int axis, int64_t position, int64_t *q)
{
    const opf_phase *phase = t->phases.axes[axis].phases;
    const int64_t    at    = position + t->pad[axis];
    while (phase->residue != at % t->stride[axis])
        phase++;
    *q = at / t->stride[axis];
    return phase;
}

/* The input of the first tap, in the order of the inputs. */
static int64_t first_input(const opf_phase_axis *axis, const opf_phase *phase, int64_t q)
{
    return q - phase->shift - (phase->taps - 1) * axis->dilation;
}

/* The input lines under an output line, NULL outside the image. */
static size_t input_lines(const depthwise_args *d, const opf_kern *kern, const float *image, const opf_phase *p0, const opf_phase *p1,
                          const int64_t *q, const float **rows, float *copies)
{
    const opf_transposed *t = &d->t;
    const opf_phase_axis *axes = t->phases.axes;
    const size_t          width = (size_t)t->in[2], channels = (size_t)t->channels;
    size_t                n = 0;
    for (int64_t i = 0; i < p0->taps; i++)
        for (int64_t j = 0; j < p1->taps; j++, n++) {
            const int64_t y0 = first_input(&axes[0], p0, q[0]) + i * axes[0].dilation, y1 = first_input(&axes[1], p1, q[1]) + j * axes[1].dilation;
            rows[n] = NULL;
            if (y0 >= 0 && y0 < t->in[0] && y1 >= 0 && y1 < t->in[1])
                rows[n] = opf_line_read(kern, image + y0 * t->in_stride[0] + y1 * t->in_stride[1], (ptrdiff_t)t->in_stride[2],
                                        (ptrdiff_t)t->x.strides[1], width, channels, copies + n * width * channels);
        }
    return n;
}

/* Every stride-th pixel of a line, of each phase along it; w: the weights of the phases before. */
static void run_line(const depthwise_args *d, const opf_kern *kern, opf_depthwise *job, const float *w, float *line)
{
    const opf_transposed *t    = &d->t;
    const opf_phase_axis *axis = &t->phases.axes[2];
    for (const opf_phase *p = axis->phases; p < axis->phases + axis->stride; p++) {
        int64_t first, end;
        opf_transposed_range(t, 2, p->residue, &first, &end);
        if (first >= end)
            continue;
        job->w      = w + (int64_t)job->n_rows * p->before * t->channels;
        job->taps   = (size_t)p->taps;
        job->first  = first_input(axis, p, first);
        job->pixels = (size_t)(end - first);
        job->dst    = line + (first * t->stride[2] + p->residue - t->pad[2]) * t->channels;
        kern->depthwise(job);
    }
}

/* A unit is a line of the result. */
static void run_depthwise(const opf_run_env *env, const void *arguments, size_t begin, size_t end, void *scratch)
{
    const depthwise_args *d        = arguments;
    const opf_transposed *t        = &d->t;
    const opf_phase_axis *axes     = t->phases.axes;
    const float         **rows     = scratch;
    const size_t          width    = (size_t)t->out[2], channels = (size_t)t->channels;
    float                *copies   = (float *)(void *)((char *)scratch + d->rows_bytes), *program = copies + d->lines;
    const bool            planes   = d->y_channel != 1;
    for (size_t unit = begin; unit < end; unit++) {
        const int64_t    line = (int64_t)unit % (t->out[0] * t->out[1]), image = (int64_t)unit / (t->out[0] * t->out[1]);
        int64_t          q[2];
        const opf_phase *p0 = phase_at(t, 0, line / t->out[1], &q[0]), *p1 = phase_at(t, 1, line % t->out[1], &q[1]);
        const float     *x  = (const float *)opf_ref_data(env, d->x) + image * t->x.strides[0];
        const float     *w  = d->w + (p0->before * axes[1].kernel + p0->taps * p1->before) * axes[2].kernel * t->channels;
        float           *y  = (float *)opf_ref_data(env, d->y) + image * t->y.strides[0] + line * (int64_t)width * (planes ? 1 : t->channels);
        float           *to = planes ? program - width * channels : y;
        opf_depthwise    job = {.rows      = rows,
                                .lines     = 1,
                                .n_rows    = input_lines(d, env->kern, x, p0, p1, q, rows, copies),
                                .w_tap     = channels,
                                .in        = t->in[2],
                                .stride    = 1,
                                .dilation  = axes[2].dilation,
                                .pixel     = t->x.strides[1] == 1 ? (ptrdiff_t)t->in_stride[2] : (ptrdiff_t)channels,
                                .bias      = d->bias,
                                .dst_pixel = (ptrdiff_t)(t->stride[2] * t->channels),
                                .c         = channels,
                                .lo        = d->lo,
                                .hi        = d->hi};
        run_line(d, env->kern, &job, w, to);
        if (d->epilogue.program.n != 0) {
            opf_operand operands[OPF_PROGRAM_OPERANDS];
            opf_store   stores[OPF_PROGRAM_OPERANDS];
            opf_bound_at(env, &d->epilogue, (size_t)image, (size_t)line * width, 0, operands, stores);
            opf_program_run(env->kern, &d->epilogue.program, operands, stores, to, (ptrdiff_t)channels, to, (ptrdiff_t)channels, width,
                            channels, program);
        }
        if (planes)
            opf_line_write(env->kern, to, width, channels, y, (ptrdiff_t)d->y_channel);
    }
}

static opf_status take_weights(opf_planner *planner, depthwise_args *args, opf_error *error)
{
    const opf_transposed   *t       = &args->t;
    const opf_weight_format filters = opf_format_depthwise_phases(t->w, t->windows.stride, t->windows.dilation);
    args->w                         = opf_weights_get(planner->options->weights, t->w, &filters);
    OPF_OOM_IF(error, args->w == NULL);
    if (t->bias == NULL)
        return OPF_OK;
    const opf_weight_format vector = opf_format_vector(t->channels, 1, 1);
    args->bias                     = opf_weights_get(planner->options->weights, t->bias, &vector);
    OPF_OOM_IF(error, args->bias == NULL);
    return OPF_OK;
}

static opf_status place_operands(opf_planner *planner, const opf_node *node, depthwise_args *args, opf_error *error)
{
    opf_transposed *t = &args->t;
    int32_t         order[OPF_MAX_RANK];
    int64_t         most[2] = {0, 0};
    opf_channels_last(t->x.rank, order);
    for (int i = 0; i < 2; i++)
        for (int64_t k = 0; k < t->stride[i]; k++)
            if (t->phases.axes[i].phases[k].taps > most[i])
                most[i] = t->phases.axes[i].phases[k].taps;
    const int64_t lines = most[0] * most[1];
    if (t->x.strides[1] != 1 && !opf_lines_may_copy(lines, 1, t->in[2], t->channels))
        OPF_TRY(opf_plan_dense(planner, &t->x, order, error));
    opf_transposed_set_strides(t);
    const bool planes = opf_plan_wants_row_major(planner, node->outputs[0], order) && t->out[2] <= OPF_LINES_FLOATS / t->channels;
    OPF_TRY(opf_plan_alloc(planner, node->outputs[0], planes ? NULL : order, &t->y, error));
    args->x          = opf_place_ref(&t->x);
    args->y          = opf_place_ref(&t->y);
    args->y_channel  = planes ? t->out[0] * t->out[1] * t->out[2] : 1;
    args->rows_bytes = ((size_t)lines * sizeof(float *) + 63) & ~(size_t)63;
    args->lines      = (size_t)(((t->x.strides[1] == 1 ? 0 : lines * t->in[2]) + (planes ? t->out[2] : 0)) * t->channels);
    return OPF_OK;
}

opf_status opf_lower_depthwise_transposed(opf_planner *planner, const opf_node *node, opf_transposed *t, opf_lowered *lowered, opf_error *error)
{
    const opf_split split = {.outer_first = 0, .outer_last = 0, .row_first = 2, .row_last = t->x.rank - 1, .col = 1};
    depthwise_args *args  = OPF_NEW(planner->arena, depthwise_args, 1);
    opf_place       operands[OPF_PROGRAM_OPERANDS], stores[OPF_PROGRAM_OPERANDS];
    OPF_OOM_IF(error, args == NULL);
    args->t = *t;
    OPF_TRY(take_weights(planner, args, error));
    OPF_TRY(place_operands(planner, node, args, error));
    opf_lower_clamp(lowered, &args->lo, &args->hi);
    opf_lower_scalars(planner, lowered);
    if (lowered->program.n != 0)
        OPF_TRY(opf_bind(planner, lowered, &args->t.y, split, &args->epilogue, operands, stores, error));
    opf_plan_step step = {.kernel        = "depthwise_f32",
                          .run           = run_depthwise,
                          .args          = args,
                          .units         = (size_t)(t->x.dims[0] * t->out[0] * t->out[1]),
                          .scratch_bytes = args->rows_bytes + (args->lines + opf_program_scratch(&lowered->program)) * sizeof(float),
                          .flops         = 2.0 * (double)opf_place_elements(&t->x) * (double)(t->w->count / (size_t)t->channels)};
    OPF_TRY(opf_plan_add_step(planner, &step, error));
    opf_plan_reads(planner, &args->t.x);
    opf_plan_writes(planner, &args->t.y);
    if (lowered->program.n != 0)
        opf_bound_touch(planner, &args->epilogue, operands, stores);
    return OPF_OK;
}
