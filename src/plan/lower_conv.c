/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolutions, channels-last: an implicit product of pixels with packed filters, or one filter a channel (depthwise).
 * An image with few channels is read in the layout it has, a tile at a time.
 */
#include "ops/window.h"
#include "plan/depthwise.h"
#include "plan/lines.h"
#include "plan/planes.h"
#include "plan/winograd.h"

#include <math.h>

enum {
    FEW_CHANNELS = 8,  /* up to here gathering rows costs less than another pass over the image */
    LONG_ROW     = 768 /* longer ones are multiplied in parts, whose sums wait in one result (gemm.c) */
};


static opf_status describe(opf_planner *planner, const opf_node *node, opf_conv *c, bool *ok, opf_error *error)
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

static opf_status zero_row(opf_planner *planner, int64_t n, const float **zeros, opf_error *error)
{
    *zeros = OPF_NEW(planner->arena, float, n);
    OPF_OOM_IF(error, *zeros == NULL);
    return OPF_OK;
}

/* Kernel, strides and padding of one: row r of the product is pixel r. */
static bool is_pointwise(const opf_conv *c)
{
    bool pointwise = c->taps == 1;
    for (int i = 0; i < 3; i++) /* equal sizes: no padding at the end either */
        pointwise = pointwise && c->window.pad[i] == 0 && c->window.stride[i] == 1 && c->window.out[i] == c->window.in[i];
    return pointwise;
}

/* The places of the channels that a Split takes apart, each for itself; c->y is a shape only then. */
static opf_status place_parts(opf_planner *planner, const opf_node *split, opf_conv *c, const int32_t *order, opf_gemm_args *args,
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

static opf_status lower_product(opf_planner *planner, const opf_node *node, opf_conv *c, const opf_lowered *prologue, const opf_lowered *lowered,
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
    opf_conv_set_in_strides(c);
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
    opf_conv_set_in_strides(c);
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
        OPF_TRY(opf_bind(planner, prologue, &c->x, opf_conv_split(c->x.rank), &args.prologue, operands, stores, error));
    OPF_TRY(opf_gemm_finish(planner, node, &args, &c->x, NULL, c->bias, &c->y, opf_conv_split(c->y.rank), lowered, kern->gemm_name, error));
    for (uint32_t o = 0; split != NULL && o < split->n_outputs; o++)
        opf_plan_writes(planner, &places[o]);
    if (computed)
        opf_bound_touch(planner, &args.prologue, operands, stores);
    return OPF_OK;
}

opf_status opf_lower_conv(opf_planner *planner, opf_node_id id, bool *done, opf_error *error)
{
    const opf_node *node = opf_graph_node(planner->graph, id);
    opf_lowered     prologue, lowered;
    opf_conv        c = {0};
    if (node->op != &opf_op_Conv || !opf_lower_steps(planner, node, &node->prologue, &prologue) ||
        !opf_lower_steps(planner, node, &node->epilogue, &lowered))
        return OPF_OK;
    OPF_TRY(describe(planner, node, &c, done, error));
    *done = *done && (prologue.program.n == 0 || (is_pointwise(&c) && c.groups == 1 && prologue.program.n_stores == 0));
    if (!*done)
        return OPF_OK;
    bool depthwise = c.groups == c.channels && c.filters == c.channels && c.groups > 1;
    return depthwise || (opf_conv_is_grouped(&c, planner->options->kern) && prologue.program.n == 0)
               ? opf_lower_depthwise(planner, node, &c, &lowered, error)
               : lower_product(planner, node, &c, &prologue, &lowered, error);
}
