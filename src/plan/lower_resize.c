/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resize of floats, in all modes, one line of the result at a time: the rows of the input that make it are blended,
 * then the line is resampled. Lines go along the last axis that is resized, with at most one axis of neighbours behind
 * it: the channels of a channels-last image, or what a resize of other axes leaves as it is. Taps and weights come from
 * the functions of the reference kernel; those of weight 0 are left out, and one tap of weight 1 is a copy.
 */
#include "ops/resize.h"
#include "plan/lines.h"
#include "plan/steps.h"

#include <float.h>
#include <math.h>

enum { MOST_ROWS = 4096 };

/* Of each position of an axis: its taps, the first at [position * room]. */
typedef struct axis_taps {
    size_t room;
    const size_t *count; /* NULL: the axis stays as it is, one tap a position */
    int64_t *places;
    double *weights;
    size_t most; /* of a position */
    bool copies; /* each position is one tap of weight 1 */
} axis_taps;

/* Axes are in the order of the layout: those before the line's are rows. */
typedef struct resize_args {
    int32_t line; /* the line's axis */
    int64_t out[OPF_MAX_RANK];
    int64_t stride[OPF_MAX_RANK]; /* of x */
    axis_taps rows[OPF_MAX_RANK];
    size_t most_rows; /* of a line */
    bool blends;
    const int32_t *places; /* of pixels, as the kernel takes them */
    const float *weights;
    size_t taps, pixels, c, span; /* span: floats of an input line */
    opf_ref x, y;
    size_t lines;                /* of an image: of a value of the epilogue's outer index */
    int64_t y_image, y_channel;  /* channel 1: dense lines; else planes */
    size_t tile_rows, tile_cols; /* of a line, for the epilogue */
    opf_bound epilogue;
} resize_args;

/* ---- a line ---- */

typedef struct row {
    int64_t offset;
    double weight;
} row;

typedef struct resize_scratch {
    row *rows;
    const float **lines;
    float *weights, *blended, *planes, *program;
} resize_scratch;

static size_t take(size_t *at, size_t bytes)
{
    const size_t start = *at;
    *at += (bytes + 63) & ~(size_t)63;
    return start;
}

static size_t scratch_layout(const resize_args *a, char *scratch, resize_scratch *s)
{
    size_t at = 0;
    s->rows = (row *)(void *)(scratch + take(&at, a->most_rows * sizeof *s->rows));
    s->lines = (const float **)(void *)(scratch + take(&at, a->most_rows * sizeof *s->lines));
    s->weights = (float *)(void *)(scratch + take(&at, a->most_rows * sizeof *s->weights));
    s->blended = (float *)(void *)(scratch + take(&at, a->blends ? a->span * sizeof(float) : 0));
    s->planes = (float *)(void *)(scratch + take(&at, a->y_channel == 1 ? 0 : a->pixels * a->c * sizeof(float)));
    s->program = (float *)(void *)(scratch + at);
    return at + opf_program_scratch(&a->epilogue.program) * sizeof(float);
}

/* A weight that is not 0 stays so: infinity times it is infinity. */
static float round_weight(double w)
{
    return fabs(w) < (double)FLT_MIN && w != 0 ? copysignf(FLT_MIN, (float)w) : (float)w;
}

/* The rows of the input that make line `unit`: all combinations of the taps of its axes. */
static size_t find_rows(const resize_args *a, size_t unit, row *rows)
{
    size_t n = 1;
    rows[0] = (row){0, 1};
    for (int32_t i = a->line; i-- > 0;) {
        const axis_taps *t = &a->rows[i];
        const size_t at = unit % (size_t)a->out[i], k = t->count != NULL ? t->count[at] : 1;
        unit /= (size_t)a->out[i];
        n *= k;
        for (size_t r = n; r-- > 0;) { /* the last first: a row is read before its place is taken */
            const size_t tap = at * t->room + r % k;
            const int64_t place = t->count != NULL ? t->places[tap] : (int64_t)at;
            const double weight = t->count != NULL ? t->weights[tap] : 1;
            rows[r] = (row){rows[r / k].offset + place * a->stride[i], rows[r / k].weight * weight};
        }
    }
    return n;
}

/* The line of the input to be resampled: a row where it lies, or several blended. */
static const float *read_line(const opf_kern *kern, const resize_args *a, const float *x, size_t unit,
                              const resize_scratch *s)
{
    const size_t n = find_rows(a, unit, s->rows);
    if (!a->blends)
        return x + s->rows[0].offset;
    for (size_t r = 0; r < n; r++) {
        s->lines[r] = x + s->rows[r].offset;
        s->weights[r] = round_weight(s->rows[r].weight);
    }
    if (n == 1 && s->weights[0] == 1.0f)
        return s->lines[0];
    kern->blend(s->lines, s->weights, n, s->blended, a->span);
    return s->blended;
}

static void run_epilogue(const opf_run_env *env, const resize_args *a, size_t unit, float *line, float *scratch)
{
    opf_operand operands[OPF_PROGRAM_OPERANDS];
    opf_store stores[OPF_PROGRAM_OPERANDS];
    const ptrdiff_t cols = (ptrdiff_t)a->tile_cols;
    if (a->epilogue.program.n == 0)
        return;
    opf_bound_at(env, &a->epilogue, unit / a->lines, unit % a->lines * a->tile_rows, 0, operands, stores);
    opf_program_run(env->kern, &a->epilogue.program, operands, stores, line, cols, line, cols, a->tile_rows,
                    a->tile_cols, scratch);
}

/* A unit is one line. What is the line before again, as nearest makes it, is copied from there. */
static void run_resize(const opf_run_env *env, const void *args, size_t begin, size_t end, void *scratch)
{
    const resize_args *a = args;
    const float *x = opf_ref_data(env, a->x), *before = NULL;
    const size_t size = a->pixels * a->c;
    const bool bare = a->y_channel == 1 && a->epilogue.program.n == 0;
    resize_scratch s;
    (void)scratch_layout(a, scratch, &s);
    for (size_t unit = begin; unit < end; unit++) {
        float *y = (float *)opf_ref_data(env, a->y) + (int64_t)(unit / a->lines) * a->y_image +
                   (int64_t)(unit % a->lines * (a->y_channel == 1 ? size : a->pixels));
        float *to = a->y_channel == 1 ? y : s.planes;
        const float *line = read_line(env->kern, a, x, unit, &s);
        if (bare && line == before && line != s.blended) {
            env->kern->copy_2d(y - size, (ptrdiff_t)size, 1, y, (ptrdiff_t)size, 1, size);
            continue;
        }
        before = line;
        env->kern->resample(&(opf_resample){line, a->places, a->weights, a->taps, a->pixels, a->c, to});
        run_epilogue(env, a, unit, to, s.program);
        if (a->y_channel != 1)
            opf_line_write(env->kern, s.planes, a->pixels, a->c, y, (ptrdiff_t)a->y_channel);
    }
}

/* ---- taps ---- */

/* Taps that read one place with weights of one sign are one tap. Opposite signs stay: of infinity they make NaN. */
static size_t condense(int64_t *places, double *weights, size_t n)
{
    size_t k = 0;
    for (size_t t = 0; t < n; t++) {
        if (weights[t] == 0)
            continue;
        if (k != 0 && places[k - 1] == places[t] && (weights[k - 1] > 0) == (weights[t] > 0)) {
            weights[k - 1] += weights[t];
            continue;
        }
        places[k] = places[t];
        weights[k++] = weights[t];
    }
    return k;
}

/* *ok false: a position lies outside, or no tap makes it. */
static opf_status find_taps(opf_arena *arena, const opf_resize *r, const opf_resize_axis *axis, axis_taps *taps,
                            bool *ok, opf_error *error)
{
    const size_t room = opf_resize_taps(r, axis);
    size_t count;
    *taps = (axis_taps){.room = room, .most = 1, .copies = true};
    *ok = axis->n_out != 0;
    if (room == 0)
        return OPF_OK;
    OPF_OOM_IF(error, !opf_mul_size(room, (size_t)axis->n_out, &count));
    size_t *counts = OPF_NEW(arena, size_t, axis->n_out);
    taps->count = counts;
    taps->places = OPF_NEW(arena, int64_t, count);
    taps->weights = OPF_NEW(arena, double, count);
    OPF_OOM_IF(error, taps->count == NULL || taps->places == NULL || taps->weights == NULL);
    for (int64_t at = 0; at < axis->n_out && *ok; at++) {
        int64_t *places = taps->places + (size_t)at * room;
        double *weights = taps->weights + (size_t)at * room;
        *ok = opf_resize_weights(r, axis, at, room, places, weights);
        const size_t n = *ok ? condense(places, weights, room) : 0;
        counts[at] = n;
        *ok = n != 0;
        taps->most = n > taps->most ? n : taps->most;
        taps->copies = taps->copies && n == 1 && (float)weights[0] == 1.0f;
    }
    return OPF_OK;
}

/* The taps of a line's pixels as the kernel takes them: the first taps of all pixels, then the second ones. */
static opf_status make_line(opf_arena *arena, const axis_taps *taps, int64_t pixel, resize_args *a, opf_error *error)
{
    const size_t n = a->pixels;
    int32_t *places = OPF_NEW(arena, int32_t, taps->most * n);
    float *weights = OPF_NEW(arena, float, taps->most *n);
    OPF_OOM_IF(error, places == NULL || weights == NULL);
    for (size_t p = 0; p < n; p++)
        for (size_t t = 0; t < taps->most; t++) {
            const bool is_there = taps->count != NULL && t < taps->count[p];
            const size_t from = p * taps->room + (is_there ? t : 0);
            places[t * n + p] = (int32_t)((taps->count != NULL ? taps->places[from] : (int64_t)p) * pixel);
            weights[t * n + p] = is_there ? round_weight(taps->weights[from]) : 0.0f;
        }
    a->taps = taps->most;
    a->places = places;
    a->weights = taps->copies ? NULL : weights;
    return OPF_OK;
}

/* ---- the step ---- */

/* What the node is called with, if scales, sizes and roi are known now: *known. */
static opf_status get_geometry(opf_planner *planner, const opf_node *node, opf_resize *r, opf_resize_axis *axes,
                               bool *known, opf_error *error)
{
    opf_view views[4] = {{0}};
    *known = node->n_own_inputs <= OPF_COUNT(views);
    for (uint32_t i = 0; i < node->n_own_inputs && *known; i++) {
        opf_place place;
        if (node->inputs[i] == 0)
            continue;
        OPF_TRY(opf_plan_place(planner, node->inputs[i], &place, error));
        const opf_buffer *buffer = &planner->plan->buffers[place.buffer];
        views[i] = (opf_view){.type = place.type, .rank = place.rank};
        for (int32_t k = 0; k < place.rank; k++) {
            views[i].dims[k] = place.dims[k];
            views[i].strides[k] = place.strides[k];
        }
        if (i == 0 || opf_place_elements(&place) == 0)
            continue;
        *known = buffer->kind == OPF_BUFFER_CONST;
        /* Views may be written to; this one is only read. */
        views[i].data = (char *)(uintptr_t)buffer->data + place.offset * (int64_t)opf_type_size(place.type);
    }
    const opf_call call = {
        .node = node, .attrs = node->attrs, .n_attrs = node->n_attrs, .in = views, .n_in = node->n_own_inputs};
    return *known ? opf_resize_geometry(&call, r, axes, error) : OPF_OK;
}

/* A layout: the axes of x from the slowest to the fastest. */
typedef struct layout {
    bool is_last; /* channels */
    int32_t order[OPF_MAX_RANK];
    int32_t line; /* in that order */
    size_t c;
    int64_t pixel; /* stride of x between pixels */
} layout;

static layout choose_layout(const opf_place *x, const axis_taps *taps)
{
    layout l = {.is_last = x->rank > 2 && x->dims[1] > 1 && x->strides[1] == 1 && taps[1].count == NULL};
    for (int32_t i = 0; i < x->rank; i++)
        l.order[i] = i;
    if (l.is_last)
        opf_channels_last(x->rank, l.order);
    const int32_t last = x->rank - 1;
    l.line = last > 0 && taps[l.order[last]].count == NULL ? last - 1 : last;
    return l;
}

/* Takes the strides of x, which becomes dense where the kernels need it. Rows are blended whole, so gaps in them must
 * be small. */
static opf_status place_input(opf_planner *planner, layout *l, opf_place *x, opf_error *error)
{
    const int32_t last = x->rank - 1, behind = l->order[last], along = l->order[l->line];
    l->c = l->line == last ? 1 : (size_t)x->dims[behind];
    const bool together = l->c == 1 || x->strides[behind] == 1;
    const int64_t pixel = x->dims[along] == 1 ? (int64_t)l->c : x->strides[along];
    if (!together || pixel < 0 || pixel > 2 * (int64_t)l->c)
        OPF_TRY(opf_plan_dense(planner, x, l->order, error));
    l->pixel = x->dims[along] == 1 ? (int64_t)l->c : x->strides[along];
    return OPF_OK;
}

/* An epilogue sees a line as rows and columns of these axes. */
static opf_split split_of(const layout *l, int32_t rank)
{
    if (l->is_last)
        return (opf_split){.outer_first = 0, .outer_last = 0, .row_first = 2, .row_last = rank - 1, .col = 1};
    return (opf_split){
        .outer_first = 0, .outer_last = l->line - 1, .row_first = l->line, .row_last = rank - 2, .col = rank - 1};
}

static const char *kernel_name(const opf_resize *r)
{
    return r->mode == OPF_RESIZE_NEAREST  ? "resize_nearest_f32"
           : r->mode == OPF_RESIZE_LINEAR ? "resize_linear_f32"
                                          : "resize_cubic_f32";
}

/* The tables of all axes, in the order of the layout. */
static opf_status make_tables(opf_planner *planner, const layout *l, const opf_place *x, const opf_resize_axis *axes,
                              const axis_taps *taps, resize_args *a, opf_error *error)
{
    a->line = l->line;
    a->c = l->c;
    a->most_rows = 1;
    for (int32_t i = 0; i < l->line; i++) {
        const int32_t axis = l->order[i];
        a->out[i] = axes[axis].n_out;
        a->stride[i] = x->strides[axis];
        a->rows[i] = taps[axis];
        a->most_rows *= taps[axis].most;
        a->blends = a->blends || !taps[axis].copies;
    }
    const int32_t along = l->order[l->line];
    a->pixels = (size_t)axes[along].n_out;
    a->span = (size_t)((axes[along].n - 1) * l->pixel) + l->c;
    return make_line(planner->arena, &taps[along], l->pixel, a, error);
}

static opf_status add_step(opf_planner *planner, const opf_node *node, const layout *l, opf_place *x,
                           opf_lowered *lowered, resize_args *a, const char *kernel, opf_error *error)
{
    opf_place y, operands[OPF_PROGRAM_OPERANDS], stores[OPF_PROGRAM_OPERANDS];
    const int32_t rank = x->rank;
    const bool planes = l->is_last && opf_plan_wants_row_major(planner, node->outputs[0], l->order) &&
                        a->pixels <= (size_t)OPF_LINES_FLOATS / a->c;
    OPF_TRY(opf_plan_alloc(planner, node->outputs[0], planes ? NULL : l->order, &y, error));
    if (lowered->program.n != 0)
        OPF_TRY(opf_bind(planner, lowered, &y, split_of(l, rank), &a->epilogue, operands, stores, error));
    size_t units = 1;
    for (int32_t i = 0; i < l->line; i++)
        units *= (size_t)a->out[i];
    a->x = opf_place_ref(x);
    a->y = opf_place_ref(&y);
    a->lines = l->is_last ? units / (size_t)y.dims[0] : 1;
    a->y_image = (int64_t)(a->lines * a->pixels * a->c);
    a->y_channel = planes ? y.strides[1] : 1;
    a->tile_cols = l->line == rank - 1 ? a->pixels : a->c;
    a->tile_rows = a->pixels * a->c / a->tile_cols;
    resize_scratch s;
    const resize_args *kept = opf_arena_copy(planner->arena, a, sizeof *a);
    const opf_plan_step step = {.kernel = kernel,
                                .run = run_resize,
                                .args = kept,
                                .units = units,
                                .scratch_bytes = scratch_layout(a, NULL, &s),
                                .flops = 2.0 * (double)(a->taps + a->most_rows) * (double)opf_place_elements(&y)};
    OPF_OOM_IF(error, kept == NULL);
    OPF_TRY(opf_plan_add_step(planner, &step, error));
    opf_plan_reads(planner, x);
    opf_plan_writes(planner, &y);
    if (lowered->program.n != 0)
        opf_bound_touch(planner, &a->epilogue, operands, stores);
    return OPF_OK;
}

/* Bounds of what the kernels count with. */
static bool fits(const layout *l, const opf_place *x, const axis_taps *taps)
{
    size_t rows = 1;
    for (int32_t i = 0; i < l->line && rows <= MOST_ROWS; i++)
        rows *= taps[l->order[i]].most;
    return rows <= MOST_ROWS && opf_place_elements(x) <= INT32_MAX / 2;
}

opf_status opf_lower_resize(opf_planner *planner, opf_node_id id, bool *done, opf_error *error)
{
    const opf_node *node = opf_graph_node(planner->graph, id);
    opf_lowered lowered;
    opf_resize r;
    opf_resize_axis axes[OPF_MAX_RANK];
    axis_taps taps[OPF_MAX_RANK];
    bool known, ok = true;
    opf_place x;
    if (node->op != &opf_op_Resize || node->prologue.n != 0 || planner->infos[node->inputs[0]].type != OPF_FLOAT ||
        planner->infos[node->inputs[0]].rank < 1 || !opf_lower_steps(planner, node, &node->epilogue, &lowered))
        return OPF_OK;
    OPF_TRY(opf_plan_place(planner, node->inputs[0], &x, error));
    OPF_TRY(get_geometry(planner, node, &r, axes, &known, error));
    for (int32_t i = 0; i < x.rank && known && ok; i++)
        OPF_TRY(find_taps(planner->arena, &r, &axes[i], &taps[i], &ok, error));
    if (!known || !ok)
        return OPF_OK;
    layout l = choose_layout(&x, taps);
    if (!fits(&l, &x, taps))
        return OPF_OK;
    *done = true;
    resize_args a = {0};
    OPF_TRY(place_input(planner, &l, &x, error));
    OPF_TRY(make_tables(planner, &l, &x, axes, taps, &a, error));
    return add_step(planner, node, &l, &x, &lowered, &a, kernel_name(&r), error);
}
