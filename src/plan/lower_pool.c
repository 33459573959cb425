/* SPDX-License-Identifier: Apache-2.0 */
/* Pooling, channels-last: MaxPool, AveragePool, GlobalAveragePool, GlobalMaxPool on any spatial rank up to 3. */
#include "ops/window.h"
#include "plan/steps.h"

#include <math.h>
#include <string.h>

typedef struct {
    bool        max, include_pad;
    int32_t     spatial;
    opf_windows windows;
    size_t      channels, pixels, taps;
    int64_t     in[3], out[3], in_stride[3];
    opf_ref     x, y;
    int64_t     x_image, y_image;
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

static size_t pixel_taps(const pool_args *p, const float *image, const int64_t *place, const float **pointers)
{
    int64_t first[3] = {0, 0, 0}, last[3] = {1, 1, 1}, start[3] = {0, 0, 0}, step[3] = {0, 0, 0}, stride[3] = {0, 0, 0};
    for (int32_t i = 0; i < p->spatial; i++) {
        int32_t at = i + 3 - p->spatial;
        opf_windows_taps(&p->windows, i, place[i], p->in[i], &first[at], &last[at]);
        start[at]  = place[i] * p->windows.stride[i] - p->windows.pad_begin[i];
        step[at]   = p->windows.dilation[i];
        stride[at] = p->in_stride[i];
    }
    size_t n = 0;
    for (int64_t a = first[0]; a < last[0]; a++)
        for (int64_t b = first[1]; b < last[1]; b++)
            for (int64_t c = first[2]; c < last[2]; c++)
                pointers[n++] = image + (start[0] + a * step[0]) * stride[0] + (start[1] + b * step[1]) * stride[1] +
                                (start[2] + c * step[2]) * stride[2];
    return n;
}

/* A unit is one line of pixels: all but the last spatial axis are fixed. */
static void run_pool(const opf_run_env *env, const void *args, size_t begin, size_t end, void *scratch)
{
    const pool_args *p        = args;
    const float    **pointers = scratch;
    float           *program  = (float *)(void *)((char *)scratch + ((p->taps * sizeof *pointers + 63) & ~(size_t)63));
    size_t           width = (size_t)p->out[p->spatial - 1], lines = p->pixels / (width == 0 ? 1 : width);
    for (size_t unit = begin; unit < end; unit++) {
        size_t       image = unit / lines, line = unit % lines, left = line;
        const float *x = (const float *)opf_ref_data(env, p->x) + (int64_t)image * p->x_image;
        float       *y = (float *)opf_ref_data(env, p->y) + (int64_t)image * p->y_image + (int64_t)(line * width * p->channels);
        int64_t      place[3];
        for (int32_t i = p->spatial - 1; i-- > 0;) {
            place[i] = (int64_t)(left % (size_t)p->out[i]);
            left /= (size_t)p->out[i];
        }
        for (size_t w = 0; w < width; w++) {
            place[p->spatial - 1] = (int64_t)w;
            size_t n              = pixel_taps(p, x, place, pointers);
            float *out            = y + w * p->channels;
            if (p->max && n != 0)
                env->kern->pool_max(pointers, n, out, p->channels);
            else if (!p->max)
                env->kern->pool_sum(pointers, n, 1.0f / (float)divisor(p, place), out, p->channels);
            else
                for (size_t c = 0; c < p->channels; c++)
                    out[c] = -INFINITY;
        }
        if (p->epilogue.program.n != 0) {
            opf_operand operands[OPF_PROGRAM_OPERANDS];
            opf_store   stores[OPF_PROGRAM_OPERANDS];
            opf_bound_at(env, &p->epilogue, image, line * width, 0, operands, stores);
            opf_program_run(env->kern, &p->epilogue.program, operands, stores, y, (ptrdiff_t)p->channels, y, (ptrdiff_t)p->channels, width,
                            p->channels, program);
        }
    }
}

/* Global pools: the whole image is the window, summed pixel by pixel. A unit is an image. */
static void run_global(const opf_run_env *env, const void *args, size_t begin, size_t end, void *scratch)
{
    const pool_args *p = args;
    for (size_t image = begin; image < end; image++) {
        const float *x = (const float *)opf_ref_data(env, p->x) + (int64_t)image * p->x_image;
        float       *y = (float *)opf_ref_data(env, p->y) + (int64_t)image * p->y_image;
        env->kern->pixel_sum(x, (ptrdiff_t)p->in_stride[p->spatial - 1], p->taps, 1.0f / (float)p->taps, y, p->channels);
        if (p->epilogue.program.n != 0) {
            opf_operand operands[OPF_PROGRAM_OPERANDS];
            opf_store   stores[OPF_PROGRAM_OPERANDS];
            opf_bound_at(env, &p->epilogue, image, 0, 0, operands, stores);
            opf_program_run(env->kern, &p->epilogue.program, operands, stores, y, (ptrdiff_t)p->channels, y, (ptrdiff_t)p->channels, 1,
                            p->channels, scratch);
        }
    }
}

static bool is_pool(const opf_node *node)
{
    return node->op == &opf_op_MaxPool || node->op == &opf_op_AveragePool || node->op == &opf_op_GlobalAveragePool ||
           node->op == &opf_op_GlobalMaxPool;
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
    int32_t order[OPF_MAX_RANK] = {0};
    for (int32_t i = 2; i < x.rank; i++)
        order[i - 1] = i;
    order[x.rank - 1] = 1;
    int64_t pixels_stride;
    if ((x.strides[1] != 1 && x.dims[1] != 1) || (global && !opf_place_linear(&x, 2, x.rank - 1, &pixels_stride)))
        OPF_TRY(opf_plan_dense(planner, &x, order, error));
    OPF_TRY(opf_plan_alloc(planner, node->outputs[0], order, &y, error));
    p.channels = (size_t)x.dims[1];
    p.pixels = p.taps = 1;
    for (int32_t i = 0; i < p.spatial; i++) {
        p.in[i]        = x.dims[2 + i];
        p.in_stride[i] = x.strides[2 + i];
        p.pixels *= (size_t)p.out[i];
        p.taps *= (size_t)p.windows.kernel[i];
    }
    p.x       = opf_place_ref(&x);
    p.y       = opf_place_ref(&y);
    p.x_image = x.strides[0];
    p.y_image = (int64_t)(p.pixels * p.channels);
    opf_place operands[OPF_PROGRAM_OPERANDS], stores[OPF_PROGRAM_OPERANDS];
    opf_split split = {.outer_first = 0, .outer_last = 0, .row_first = 2, .row_last = x.rank - 1, .col = 1};
    if (lowered.program.n != 0)
        OPF_TRY(opf_bind(planner, &lowered, &y, split, &p.epilogue, operands, stores, error));
    bool sum = node->op == &opf_op_GlobalAveragePool;
    if (sum) {
        (void)opf_place_linear(&x, 2, x.rank - 1, &pixels_stride);
        p.in_stride[p.spatial - 1] = pixels_stride;
    }
    pool_args *kept = opf_arena_copy(planner->arena, &p, sizeof p);
    OPF_OOM_IF(error, kept == NULL);
    size_t        lines = p.pixels == 0 ? 0 : p.pixels / (size_t)p.out[p.spatial - 1];
    opf_plan_step step  = {.kernel = sum ? "pixel_sum_f32" : p.max ? "pool_max_f32" : "pool_sum_f32",
                           .run    = sum ? run_global : run_pool,
                           .args   = kept,
                           .units  = (size_t)x.dims[0] * (sum ? 1 : lines),
                           .scratch_bytes = ((p.taps * sizeof(float *) + 63) & ~(size_t)63) + opf_program_scratch(&lowered.program) * sizeof(float),
                           .flops  = (double)(x.dims[0] * (int64_t)(p.pixels * p.taps * p.channels))};
    OPF_TRY(opf_plan_add_step(planner, &step, error));
    opf_plan_reads(planner, &x);
    opf_plan_writes(planner, &y);
    if (lowered.program.n != 0)
        opf_bound_touch(planner, &p.epilogue, operands, stores);
    return OPF_OK;
}
