/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transposed convolutions, channels-last: a product for each class of phases (plan/phases.h), all of them one step. With a
 * kernel as large as its stride that is one product of pixels with the weights, whose columns go to stride x stride pixels.
 */
#include "plan/gemm_run.h"
#include "plan/lines.h"
#include "plan/transposed.h"

#include <string.h>

enum { FEW_CHANNELS = 8 }; /* up to here gathering rows costs less than another pass over the image */

typedef struct {
    opf_gemm_args *products;
    size_t        *first; /* unit of each, and of their end */
    size_t         n;
} transposed_args;

static opf_status describe(opf_planner *planner, const opf_node *node, opf_transposed *t, bool *ok, opf_error *error)
{
    const opf_graph *graph    = planner->graph;
    const opf_info  *x        = &planner->infos[node->inputs[0]];
    const bool       has_bias = node->n_own_inputs > 2 && node->inputs[2] != 0;
    int64_t          out[3];
    size_t           room;
    t->w       = opf_graph_value(graph, node->inputs[1])->constant;
    t->bias    = has_bias ? opf_graph_value(graph, node->inputs[2])->constant : NULL;
    t->groups  = opf_node_int(node, "group", 1);
    t->spatial = x->rank - 2;
    if (x->type != OPF_FLOAT || t->w == NULL || t->w->type != OPF_FLOAT || (has_bias && t->bias == NULL) || x->rank < 3 || x->rank > 5)
        return OPF_OK;
    OPF_TRY(opf_plan_place(planner, node->inputs[0], &t->x, error));
    t->channels = t->x.dims[1];
    t->filters  = t->w->dims[1] * t->groups;
    for (int32_t i = 0; i < t->spatial; i++)
        out[i] = planner->infos[node->outputs[0]].dims[2 + i].n;
    OPF_TRY(opf_conv_transpose_windows(node->attrs, node->n_attrs, t->spatial, t->w->dims + 2, t->x.dims + 2, out, &t->windows, error));
    if (t->channels == 0 || !opf_phases_count(t->spatial, t->windows.stride, &room))
        return OPF_OK;
    opf_phase *list = OPF_NEW(planner->arena, opf_phase, room);
    OPF_OOM_IF(error, list == NULL);
    opf_phases_find(t->spatial, t->windows.kernel, t->windows.stride, t->windows.dilation, list, &t->phases);
    for (int32_t i = 0; i < 3; i++) {
        const int32_t own = i - (3 - t->spatial);
        t->in[i]          = own < 0 ? 1 : t->x.dims[2 + own];
        t->out[i]         = own < 0 ? 1 : out[own];
        t->stride[i]      = own < 0 ? 1 : t->windows.stride[own];
        t->pad[i]         = own < 0 ? 0 : t->windows.pad_begin[own];
    }
    *ok = true;
    return OPF_OK;
}

void opf_transposed_set_strides(opf_transposed *t)
{
    for (int32_t i = 0; i < 3; i++)
        t->in_stride[i] = i < 3 - t->spatial ? 0 : t->x.strides[2 + i - (3 - t->spatial)];
}

/* The grid positions of a class that reach the result, [first, first + out) along each axis, and the window at them. False:
   there are none. */
static bool set_window(const opf_transposed *t, const opf_phase_class *c, opf_gemm_window *w, int64_t *first)
{
    for (int i = 0; i < 3; i++) {
        const opf_phase_axis *axis   = &t->phases.axes[i];
        const opf_phase      *phases = &axis->phases[c->first[i]];
        int64_t               end = 0;
        first[i] = INT64_MAX;
        for (int64_t k = 0; k < c->n[i]; k++) {
            int64_t from, to;
            opf_transposed_range(t, i, phases[k].residue, &from, &to);
            if (from < to) {
                first[i] = from < first[i] ? from : first[i];
                end      = to > end ? to : end;
            }
        }
        if (end == 0)
            return false;
        w->in[i]        = t->in[i];
        w->out[i]       = end - first[i];
        w->kernel[i]    = c->taps[i];
        w->stride[i]    = 1;
        w->dilation[i]  = axis->dilation;
        w->in_stride[i] = t->in_stride[i];
        w->pad[i]       = phases->taps == 0 ? w->out[i] : phases->shift + (phases->taps - 1) * axis->dilation - first[i];
    }
    return true;
}

static opf_status make_scatter(opf_planner *planner, const opf_transposed *t, const opf_phase_class *c, const int64_t *first,
                               const opf_gemm_scatter **made, opf_error *error)
{
    opf_gemm_scatter *s = OPF_NEW(planner->arena, opf_gemm_scatter, 1);
    OPF_OOM_IF(error, s == NULL);
    s->n_cells               = (size_t)opf_phase_cells(c);
    int64_t(*cells)[3] = opf_arena_alloc_n(planner->arena, sizeof *cells, s->n_cells);
    OPF_OOM_IF(error, cells == NULL);
    memcpy(s->out, t->out, sizeof s->out);
    memcpy(s->stride, t->stride, sizeof s->stride);
    for (int64_t k = 0; k < (int64_t)s->n_cells; k++) {
        const int64_t at[3] = {k / (c->n[1] * c->n[2]), k / c->n[2] % c->n[1], k % c->n[2]};
        for (int i = 0; i < 3; i++)
            cells[k][i] = first[i] * t->stride[i] + t->phases.axes[i].phases[c->first[i] + at[i]].residue - t->pad[i];
    }
    s->cells = (const int64_t(*)[3])cells;
    *made    = s;
    return OPF_OK;
}

/* Whether row r of the product is pixel r of the image. */
static bool is_pointwise(const opf_gemm_args *args)
{
    const opf_gemm_window *w    = &args->window;
    bool                   same = args->taps == 1;
    for (int i = 0; i < 3; i++)
        same = same && w->pad[i] == 0 && w->out[i] == w->in[i];
    return same;
}

static void choose_rows(const opf_transposed *t, opf_gemm_args *args)
{
    const bool planar = t->x.strides[1] != 1 && t->channels > 1;
    int64_t    row;
    if (is_pointwise(args) && opf_place_linear(&t->x, 2, t->x.rank - 1, &row)) {
        args->rows  = planar ? OPF_ROWS_GATHER : OPF_ROWS_LINEAR;
        args->a_row = (ptrdiff_t)row;
        memset(args->window.kernel, 0, sizeof args->window.kernel); /* a matrix */
    } else {
        const bool short_taps = args->kc < FEW_CHANNELS && args->taps > 1;
        args->rows            = planar || short_taps ? OPF_ROWS_GATHER : OPF_ROWS_WINDOW;
    }
}

/* What no tap reaches is a product of no elements: the bias, and what follows it. */
static void read_nothing(opf_gemm_args *args)
{
    args->kc    = 0;
    args->taps  = 1;
    args->rows  = OPF_ROWS_LINEAR;
    args->a_row = 0;
    memset(args->window.kernel, 0, sizeof args->window.kernel);
}

/* Fills what differs between the products of a node, of whose packed weights b is the class's. */
static opf_status make_product(opf_planner *planner, const opf_transposed *t, const opf_phase_class *c, const float *b, opf_gemm_args *args,
                               opf_error *error)
{
    const opf_kern *kern = planner->options->kern;
    int64_t         first[3];
    if (!set_window(t, c, &args->window, first))
        return OPF_OK;
    args->b    = b;
    args->m    = (size_t)(args->window.out[0] * args->window.out[1] * args->window.out[2]);
    args->n    = (size_t)(opf_phase_cells(c) * (t->filters / t->groups));
    args->taps = (size_t)(c->taps[0] * c->taps[1] * c->taps[2]);
    if (c->is_reached)
        choose_rows(t, args);
    else
        read_nothing(args);
    OPF_TRY(make_scatter(planner, t, c, first, &args->scatter, error));
    if (t->bias != NULL) {
        const opf_weight_format format = opf_format_repeated(t->filters, t->groups, opf_phase_cells(c), (int64_t)kern->nr);
        args->bias                     = opf_weights_get(planner->options->weights, t->bias, &format);
        OPF_OOM_IF(error, args->bias == NULL);
    }
    opf_gemm_size(args, kern);
    return OPF_OK;
}

static void run_products(const opf_run_env *env, const void *arguments, size_t begin, size_t end, void *scratch)
{
    const transposed_args *t = arguments;
    for (size_t i = 0; i < t->n; i++) {
        const size_t from = begin > t->first[i] ? begin : t->first[i], to = end < t->first[i + 1] ? end : t->first[i + 1];
        if (from < to)
            opf_gemm_run(env, &t->products[i], from - t->first[i], to - t->first[i], scratch);
    }
}

/* `common` has what the products of all classes share. */
static opf_status make_products(opf_planner *planner, const opf_transposed *t, const opf_gemm_args *common, const float *weights,
                                opf_plan_step *step, opf_error *error)
{
    const opf_kern  *kern    = planner->options->kern;
    transposed_args *args    = OPF_NEW(planner->arena, transposed_args, 1);
    size_t           classes = 0;
    OPF_OOM_IF(error, args == NULL);
    for (opf_phase_class c = {0}; opf_phases_next(&t->phases, &c);)
        classes++;
    args->products = OPF_NEW(planner->arena, opf_gemm_args, classes);
    args->first    = OPF_NEW(planner->arena, size_t, classes + 1);
    OPF_OOM_IF(error, args->products == NULL || args->first == NULL);
    for (opf_phase_class c = {0}; opf_phases_next(&t->phases, &c);) {
        opf_gemm_args *product = &args->products[args->n];
        *product               = *common;
        OPF_TRY(make_product(planner, t, &c, weights, product, error));
        weights += opf_phase_floats(&c, t->channels / t->groups, t->filters / t->groups, t->groups, (int64_t)kern->nr);
        const size_t units = product->images * product->groups * product->blocks * product->panels, scratch = opf_gemm_scratch(product, kern);
        if (units == 0)
            continue;
        step->units += units;
        step->scratch_bytes = scratch > step->scratch_bytes ? scratch : step->scratch_bytes;
        step->flops += 2.0 * (double)(product->images * product->groups * product->m) * (double)(product->n * product->kc * product->taps);
        args->first[++args->n] = step->units;
    }
    step->args = args;
    return OPF_OK;
}

static opf_status set_operands(opf_planner *planner, const opf_node *node, opf_transposed *t, opf_gemm_args *args, opf_error *error)
{
    int32_t order[OPF_MAX_RANK];
    int64_t row;
    bool    matrix = opf_place_linear(&t->x, 2, t->x.rank - 1, &row); /* if rows are pixels */
    opf_channels_last(t->x.rank, order);
    for (int i = 0; i < 3; i++)
        matrix = matrix && t->pad[i] == 0 && t->phases.axes[i].kernel == t->stride[i] && t->out[i] == t->in[i] * t->stride[i];
    if (t->x.strides[1] != 1 && t->channels > FEW_CHANNELS && !matrix)
        OPF_TRY(opf_plan_dense(planner, &t->x, order, error));
    opf_transposed_set_strides(t);
    const bool planes = t->filters > 1 && opf_plan_wants_row_major(planner, node->outputs[0], order);
    OPF_TRY(opf_plan_alloc_image(planner, node->outputs[0], planes ? NULL : order, &t->y, error));
    (void)opf_place_linear(&t->y, 2, t->y.rank - 1, &row);
    args->images   = (size_t)t->x.dims[0];
    args->groups   = (size_t)t->groups;
    args->kc       = (size_t)(t->channels / t->groups);
    args->a        = opf_place_ref(&t->x);
    args->a_col    = (ptrdiff_t)t->x.strides[1];
    args->a_group  = (ptrdiff_t)(t->channels / t->groups * t->x.strides[1]);
    args->c        = opf_place_ref(&t->y);
    args->c_row    = planes ? 1 : (ptrdiff_t)row;
    args->c_col    = planes ? (ptrdiff_t)t->y.strides[1] : 1;
    args->a_images = opf_place_offsets(planner->arena, &t->x, 0, 0);
    args->c_images = opf_place_offsets(planner->arena, &t->y, 0, 0);
    args->zeros    = OPF_NEW(planner->arena, float, args->kc);
    OPF_OOM_IF(error, args->a_images == NULL || args->c_images == NULL || args->zeros == NULL);
    return OPF_OK;
}

static opf_status lower_products(opf_planner *planner, const opf_node *node, opf_transposed *t, opf_lowered *lowered, const float *weights,
                                 opf_error *error)
{
    const opf_kern *kern  = planner->options->kern;
    const opf_split split = {.outer_first = 0, .outer_last = 0, .row_first = 2, .row_last = t->x.rank - 1, .col = 1};
    opf_plan_step   step  = {.kernel = kern->gemm_name, .run = run_products};
    opf_gemm_args   args  = {0};
    opf_place       operands[OPF_PROGRAM_OPERANDS], stores[OPF_PROGRAM_OPERANDS];
    OPF_TRY(set_operands(planner, node, t, &args, error));
    opf_lower_clamp(lowered, &args.lo, &args.hi);
    opf_lower_scalars(planner, lowered);
    if (lowered->program.n != 0)
        OPF_TRY(opf_bind(planner, lowered, &t->y, split, &args.epilogue, operands, stores, error));
    OPF_TRY(make_products(planner, t, &args, weights, &step, error));
    OPF_TRY(opf_plan_add_step(planner, &step, error));
    opf_plan_reads(planner, &t->x);
    opf_plan_writes(planner, &t->y);
    if (lowered->program.n != 0)
        opf_bound_touch(planner, &args.epilogue, operands, stores);
    return OPF_OK;
}

opf_status opf_lower_conv_transpose(opf_planner *planner, opf_node_id id, bool *done, opf_error *error)
{
    const opf_node *node = opf_graph_node(planner->graph, id);
    opf_lowered     lowered;
    opf_transposed  t = {0};
    if (node->op != &opf_op_ConvTranspose || node->prologue.n != 0 || !opf_lower_steps(planner, node, &node->epilogue, &lowered))
        return OPF_OK;
    OPF_TRY(describe(planner, node, &t, done, error));
    if (!*done)
        return OPF_OK;
    if (t.groups > 1 && t.groups == t.channels && t.groups == t.filters)
        return opf_lower_depthwise_transposed(planner, node, &t, &lowered, error);
    const opf_weight_format format =
        opf_format_phases(t.w, t.windows.stride, t.windows.dilation, t.groups, (int64_t)planner->options->kern->nr);
    const float *weights = opf_weights_get_now(planner->options->weights, t.w, &format);
    OPF_OOM_IF(error, weights == NULL);
    *done = weights[0] != 0; /* infinity times the zeros around the image is no zero: the reference leaves it out */
    return *done ? lower_products(planner, node, &t, &lowered, weights + OPF_PHASES_HEAD, error) : OPF_OK;
}
