/* SPDX-License-Identifier: Apache-2.0 */
/* The common end of lowering a product: what of the epilogue the kernel takes, how blocks are sized, the step. */
#include "plan/gemm_run.h"

#include "cpu/cpu.h"
#include "plan/planes.h"
#include "plan/winograd.h"
#include "base/round.h"

#include <math.h>
#include <string.h>

/* Removes the first instruction of a program: its result becomes arg 0. */
static void drop_first(opf_program *program)
{
    program->n--;
    memmove(&program->instr[0], &program->instr[1], program->n * sizeof *program->instr);
    for (uint32_t i = 0; i < program->n; i++)
        for (int k = 0; k < 2; k++)
            if (program->instr[i].args[k] > 0)
                program->instr[i].args[k]--;
}

/* The first instruction may become part of the kernel: nothing else reads the tile as it comes, or stores. */
static bool first_is_free(const opf_program *program)
{
    if (program->n == 0 || program->instr[0].store >= 0)
        return false;
    for (uint32_t i = 1; i < program->n; i++) {
        const opf_instr *instr = &program->instr[i];
        if (instr->args[0] == 0 || (opf_ew_reads_b(instr->op) && instr->args[1] == 0))
            return false;
    }
    return true;
}

/* In an Add whose one side is the tile: the operand number of the other side, or -1. */
static int added_operand(const opf_program *program)
{
    const opf_instr *instr = &program->instr[0];
    if (!first_is_free(program) || instr->op != OPF_EW_ADD)
        return -1;
    if (instr->args[0] == 0 && instr->args[1] < 0)
        return -instr->args[1] - 1;
    return instr->args[1] == 0 && instr->args[0] < 0 ? -instr->args[0] - 1 : -1;
}

/* A constant that has one element a column (or one in all), as a bias of the kernel. */
static bool is_column_constant(const opf_planner *planner, opf_value_id value, const opf_place *result, int32_t col, size_t columns)
{
    const opf_const *c = opf_graph_value(planner->graph, value)->constant;
    if (c == NULL || (c->count != columns && c->count != 1))
        return false;
    int32_t axis = col - (result->rank - c->rank); /* where the column axis is in the constant */
    return c->count == 1 || (axis >= 0 && axis < c->rank && (size_t)c->dims[axis] == columns);
}

static opf_status take_bias(opf_planner *planner, opf_gemm_args *args, const opf_const *bias, opf_error *error)
{
    if (bias == NULL)
        return OPF_OK;
    opf_weight_format format = opf_format_vector((int64_t)(args->n * args->groups), (int64_t)args->groups, (int64_t)planner->options->kern->nr);
    args->bias               = opf_weights_get(planner->options->weights, bias, &format);
    OPF_OOM_IF(error, args->bias == NULL);
    return OPF_OK;
}

static void take_clamp(opf_gemm_args *args, opf_program *program)
{
    if (!first_is_free(program))
        return;
    const opf_instr *instr = &program->instr[0];
    if (instr->args[0] != 0 || (instr->op != OPF_EW_RELU && instr->op != OPF_EW_CLIP))
        return;
    float lo = instr->op == OPF_EW_RELU ? 0.0f : instr->params[0];
    float hi = instr->op == OPF_EW_RELU ? INFINITY : instr->params[1];
    args->lo = lo;
    args->hi = hi;
    drop_first(program);
}

enum { MOST_OF_LINES = 1 << 18 }; /* floats of all copied lines, about L2 */

void opf_gemm_try_bands(opf_gemm_args *args, const opf_kern *kern)
{
    enum { MOST_CHANNELS = 32 }; /* more make long enough taps */
    const opf_gemm_window *w     = &args->window;
    opf_gemm_lines        *lines = &args->lines;
    const size_t           count = (size_t)(w->kernel[0] * w->kernel[1]);
    const int64_t          span  = (w->out[2] - 1) * w->stride[2] + w->kernel[2];
    if (args->groups != 1 || args->kc == 0 || args->kc > MOST_CHANNELS || w->in_stride[2] != (int64_t)args->kc || w->dilation[2] != 1 ||
        w->kernel[2] < 2 || w->out[2] < (int64_t)kern->mr || span > MOST_OF_LINES ||
        count > MOST_OF_LINES || count * (size_t)span * args->kc > MOST_OF_LINES)
        return;
    lines->count  = count;
    lines->phases = 1;
    lines->phase  = (size_t)span * args->kc;
    lines->step   = (size_t)w->stride[2] * args->kc;
    args->rows    = OPF_ROWS_BANDS;
}

/* How pixels whose windows lie inside an image read it where it lies, if its lines are not to be taken apart. */
static opf_status find_in_place(opf_planner *planner, opf_gemm_args *args, opf_error *error)
{
    const opf_gemm_window *w     = &args->window;
    opf_gemm_lines        *lines = &args->lines;
    if (lines->phases != 1 || args->kc == 0 || args->a_col < 0)
        return OPF_OK;
    int64_t farthest = (int64_t)(args->kc - 1) * args->a_col;
    for (int i = 0; i < 3; i++) {
        const int64_t last = (w->kernel[i] - 1) * w->dilation[i];
        if (last >= w->in[i] || w->in_stride[i] < 0)
            return OPF_OK; /* no window lies inside, or offsets would be negative */
        farthest += last * w->in_stride[i];
    }
    const int64_t room = w->in[2] - (w->kernel[2] - 1) * w->dilation[2] - 1 + w->pad[2]; /* of the first pixel */
    const int64_t from = w->pad[2] <= 0 ? 0 : (w->pad[2] + w->stride[2] - 1) / w->stride[2], to = room < 0 ? 0 : room / w->stride[2] + 1;
    if (from >= to || farthest > UINT32_MAX)
        return OPF_OK;
    uint32_t *next = OPF_NEW(planner->arena, uint32_t, args->taps * args->kc);
    OPF_OOM_IF(error, next == NULL);
    lines->in_place = next;
    lines->from     = (size_t)from;
    lines->to       = (size_t)to;
    for (int64_t k0 = 0; k0 < w->kernel[0]; k0++)
        for (int64_t k1 = 0; k1 < w->kernel[1]; k1++)
            for (int64_t k2 = 0; k2 < w->kernel[2]; k2++)
                for (size_t i = 0; i < args->kc; i++)
                    *next++ = (uint32_t)((int64_t)i * args->a_col + k0 * w->dilation[0] * w->in_stride[0] +
                                         k1 * w->dilation[1] * w->in_stride[1] + k2 * w->dilation[2]);
    return OPF_OK;
}

opf_status opf_gemm_try_lines(opf_planner *planner, opf_gemm_args *args, opf_error *error)
{
    const opf_gemm_window *w     = &args->window;
    opf_gemm_lines        *lines = &args->lines;
    int64_t                span  = (w->out[2] - 1) * w->stride[2] + (w->kernel[2] - 1) * w->dilation[2] + 1;
    /* A narrow image has no full tile on a line. */
    if (w->in_stride[2] != 1 || w->out[2] < (int64_t)planner->options->kern->mr || span > MOST_OF_LINES)
        return OPF_OK;
    lines->step   = w->stride[2] <= 2 ? (size_t)w->stride[2] : 1;
    lines->phases = w->stride[2] <= 2 ? 1 : (size_t)w->stride[2];
    lines->phase  = opf_divide_up((size_t)span, lines->phases);
    lines->count  = args->kc * (size_t)(w->kernel[0] * w->kernel[1]);
    if (lines->count > MOST_OF_LINES || lines->count * lines->phases * lines->phase > MOST_OF_LINES)
        return OPF_OK;
    uint32_t *offsets = OPF_NEW(planner->arena, uint32_t, args->taps * args->kc);
    OPF_OOM_IF(error, offsets == NULL);
    size_t window_lines = args->taps / (size_t)w->kernel[2];
    for (size_t t = 0; t < args->taps; t++)
        for (size_t i = 0; i < args->kc; i++) {
            size_t line = i * window_lines + t / (size_t)w->kernel[2], x = t % (size_t)w->kernel[2] * (size_t)w->dilation[2];
            offsets[t * args->kc + i] = (uint32_t)((line * lines->phases + x % lines->phases) * lines->phase + x / lines->phases);
        }
    lines->offsets = offsets;
    args->rows     = OPF_ROWS_LINES;
    return find_in_place(planner, args, error);
}

/* Whether the prologue is a factor for each element of all rows of an image, and b small enough to take it. */
static bool can_scale_b(const opf_gemm_args *args, const opf_kern *kern)
{
    enum { MOST = 1 << 16 }; /* floats of b, which every thread scales for itself */
    const opf_program *program = &args->prologue.program;
    const opf_instr   *instr   = &program->instr[0];
    return program->n == 1 && program->levels == OPF_TYPE_NONE && program->n_operands == 1 && instr->op == OPF_EW_MUL && instr->store < 0 &&
           instr->args[0] + instr->args[1] == -1 && args->prologue.operand_row[0] == 0 && args->b != NULL && args->n <= args->m &&
           opf_divide_up(args->n, kern->nr) * kern->nr * args->kc <= MOST;
}

/* One block of a few panels that two threads cannot share evenly, but its rows: then weights are read by both, which L2 makes up for. */
static bool comes_out_odd(const opf_gemm_args *args, const opf_kern *kern)
{
    enum { FEW = 8, LEAST = 4 };
    const size_t bytes = args->panels * kern->nr * args->taps * args->kc * sizeof(float);
    return args->b != NULL && args->images * args->groups == 1 && args->panels > 1 && args->panels < FEW && args->panels % 2 != 0 && args->tiles >= LEAST &&
           bytes <= opf_cpu_l2_bytes() / 2;
}

void opf_gemm_size(opf_gemm_args *args, const opf_kern *kern)
{
    if (opf_gemm_goes_by_lines(args) && args->m != 0) {
        args->block  = opf_divide_up((size_t)args->window.out[2], kern->mr);
        args->blocks = args->m / (size_t)args->window.out[2];
        args->tiles  = args->blocks * args->block;
        args->panels = opf_divide_up(args->n, kern->nr);
        return;
    }
    enum { MOST = 144, SUMMED = 256 };
    size_t k         = args->taps * args->kc;
    size_t row_bytes = k * sizeof(float) / (args->rows == OPF_ROWS_WINDOW ? 4 : 1); /* windows overlap */
    size_t rows      = opf_cpu_l2_bytes() / 4 / (row_bytes == 0 ? 1 : row_bytes);
    rows             = rows > MOST ? MOST : rows < kern->mr ? kern->mr : rows;
    /* Long rows are multiplied in parts, whose sums the result holds meanwhile: a full block of them, so that weights are
       read as seldom as with short ones. A part is a multiple of what the kernel sums at a time. */
    if (rows < MOST && rows < args->m && args->rows == OPF_ROWS_LINEAR && args->a_col == 1 && args->b != NULL && args->prologue.program.n == 0 &&
        args->epilogue.program.n == 0 && args->n_parts == 0 && args->scatter == NULL && args->c_col == 1) {
        rows            = args->m < MOST ? args->m : MOST;
        size_t part     = opf_cpu_l2_bytes() / 4 / (rows * sizeof(float)) / SUMMED * SUMMED;
        size_t n        = opf_divide_up(k, part == 0 ? SUMMED : part);
        args->part      = opf_divide_up(opf_divide_up(k, n), SUMMED) * SUMMED;
        rows            = opf_divide_up(rows, kern->mr) * kern->mr;
    } else if (rows < args->m && args->m <= MOST && args->m * row_bytes + 2 * k * kern->nr * sizeof(float) <= opf_cpu_l2_bytes() / 4 * 3) {
        rows = opf_divide_up(args->m, kern->mr) * kern->mr; /* a second block would read all weights again */
    }
    args->tiles      = opf_divide_up(args->m, kern->mr);
    args->block      = rows / kern->mr;
    if (args->block > args->tiles)
        args->block = args->tiles == 0 ? 1 : args->tiles; /* no rows: no units */
    if (args->tiles == 0) {
        args->panels = opf_divide_up(args->n, kern->nr);
        return;
    }
    args->panels = opf_divide_up(args->n, kern->nr);
    if (args->tiles == args->block && comes_out_odd(args, kern))
        args->block = opf_divide_up(args->tiles, 2);
    args->blocks = opf_divide_up(args->tiles, args->block);
    args->block  = opf_divide_up(args->tiles, args->blocks);
    args->blocks = opf_divide_up(args->tiles, args->block);
}

/* A convolution of two axes whose lines are rows of the product one after the other. */
static opf_status tell_lines(opf_planner *planner, const opf_gemm_args *g, opf_error *error)
{
    const opf_gemm_window *w = &g->window;
    const opf_kern        *kern     = planner->options->kern;
    const bool             winograd = g->winograd.u != NULL;
    const bool             blocked  = winograd && g->winograd.tiles <= 2 * g->winograd.across; /* reads filters as often without bands */
    /* The tiles that overhang a cropped image would see lines that no one needs. */
    if (winograd ? w->out[1] - w->pad[1] + w->kernel[1] - 1 < w->in[1] : g->b == NULL || g->groups != 1)
        return OPF_OK;
    if (g->rows == OPF_ROWS_PLANES || g->part != 0 || g->n_parts != 0 || g->scatter != NULL || w->kernel[0] > 1 || w->in[0] != 1 || w->out[0] != 1 || w->out[1] < 2 || g->m == 0)
        return OPF_OK;
    const bool            dense_in = g->a_col == 1 && w->in_stride[2] == (int64_t)(g->groups * g->kc) && w->in_stride[1] == w->in[2] * w->in_stride[2];
    opf_image_lines       lines    = opf_window_lines(w);
    lines.run      = winograd ? opf_winograd_run_lines : opf_gemm_run_lines;
    lines.x        = g->a;
    lines.y        = g->c;
    lines.images   = g->images;
    lines.in_line  = dense_in ? (size_t)w->in_stride[1] : 0;
    lines.out_line = g->c_col == 1 && g->c_row == (ptrdiff_t)(g->groups * g->n) ? (size_t)(w->out[2] * g->c_row) : 0;
    lines.step     = winograd ? (int64_t)g->winograd.tile[0] : 1;
    lines.weights  = blocked ? 0 : g->groups * g->panels * kern->nr * (winograd ? opf_winograd_points(&g->winograd) : g->taps) * g->kc * sizeof(float);
    lines.stores   = g->epilogue.program.n != 0 && g->epilogue.program.n_stores != 0;
    return opf_plan_goes_by_lines(planner, &lines, error);
}

/* What the end of a product reads and writes. */
typedef struct touched {
    opf_place residual; /* buffer 0: none */
    opf_place operands[OPF_PROGRAM_OPERANDS], stores[OPF_PROGRAM_OPERANDS];
} touched;

/* The leading bias, residual and clamp become the kernel's, what is left the epilogue's program. */
static opf_status take_end(opf_planner *planner, opf_gemm_args *args, const opf_const *own_bias, const opf_place *result, opf_split split,
                           const opf_lowered *lowered, touched *t, opf_error *error)
{
    opf_lowered  rest    = *lowered;
    opf_program *program = &rest.program;
    size_t       columns = args->n * args->groups;
    *t                   = (touched){.residual = {0}};
    args->lo             = -INFINITY;
    args->hi             = INFINITY;
    args->c              = opf_place_ref(result);
    int add              = added_operand(program);
    if (own_bias == NULL && add >= 0 && is_column_constant(planner, rest.operands[add], result, split.col, columns)) {
        own_bias = opf_graph_value(planner->graph, rest.operands[add])->constant;
        drop_first(program);
        add = added_operand(program);
    }
    OPF_TRY(take_bias(planner, args, own_bias, error));
    if (add >= 0 && (args->beside == NULL || rest.operands[add] != args->beside->value)) {
        opf_place place;
        int64_t   outer, row;
        OPF_TRY(opf_plan_place(planner, rest.operands[add], &place, error));
        opf_place seen = opf_place_broadcast(&place, result->rank, result->dims);
        if (seen.strides[split.col] == 1 && seen.dims[split.col] == (int64_t)columns &&
            opf_place_linear(&seen, split.outer_first, split.outer_last, &outer) &&
            opf_place_linear(&seen, split.row_first, split.row_last, &row)) {
            args->residual       = opf_place_ref(&seen);
            args->residual_outer = (ptrdiff_t)outer;
            args->residual_row   = (ptrdiff_t)row;
            t->residual          = place;
            drop_first(program);
        }
    }
    take_clamp(args, program);
    opf_lower_scalars(planner, &rest);
    args->epilogue.given_value = args->beside != NULL ? args->beside->value : 0;
    return program->n == 0 ? OPF_OK : opf_bind(planner, &rest, result, split, &args->epilogue, t->operands, t->stores, error);
}

static void touch_end(opf_planner *planner, const opf_gemm_args *args, const touched *t)
{
    if (t->residual.buffer != 0)
        opf_plan_reads(planner, &t->residual);
    if (args->epilogue.program.n != 0)
        opf_bound_touch(planner, &args->epilogue, t->operands, t->stores);
}

static void share_blocks(const opf_gemm_args *args)
{
    opf_gemm_args *g = args->beside->args;
    g->tiles         = args->tiles;
    g->block         = args->block;
    g->blocks        = args->blocks;
    g->panels        = args->panels;
}

/* Nothing else that the step reads lies where the residual does, so the result may be written over it. */
static bool is_alone(const opf_gemm_args *args, const touched *t, const opf_place *a, const opf_place *b_place)
{
    const uint32_t buffer = t->residual.buffer;
    bool           alone  = args->beside == NULL && buffer != a->buffer && (b_place == NULL || b_place->buffer != buffer);
    for (uint32_t i = 0; i < args->epilogue.program.n_operands && args->epilogue.program.n != 0; i++)
        alone = alone && t->operands[i].buffer != buffer;
    for (uint32_t i = 0; i < args->prologue.program.n_operands; i++)
        alone = alone && args->prologue.operands[i].buffer != buffer;
    return alone;
}

opf_status opf_gemm_finish(opf_planner *planner, const opf_node *node, opf_gemm_args *args, const opf_place *a, const opf_place *b_place,
                           const opf_const *own_bias, const opf_place *result, opf_split split, const opf_lowered *lowered,
                           const char *kernel, opf_error *error)
{
    (void)node;
    const opf_kern *kern = planner->options->kern;
    touched         own, others;
    double          products = args->beside != NULL ? 2.0 : 1.0;
    OPF_TRY(take_end(planner, args, own_bias, result, split, lowered, &own, error));
    if (args->beside != NULL)
        OPF_TRY(take_end(planner, args->beside->args, args->beside->bias, result, split, &args->beside->lowered, &others, error));
    args->scales_b = can_scale_b(args, kern);
    opf_gemm_size(args, kern);
    if (args->beside != NULL)
        share_blocks(args);
    if (args->beside == NULL && args->part == 0 && args->a_col != 2 && opf_gemm_has_even_rows(args) && opf_gemm_panels_at_once(args, kern) == 1)
        opf_take_then(&args->epilogue.program, &args->then, &args->param); /* all tiles run in strips */
    opf_gemm_args *kept = opf_arena_copy(planner->arena, args, sizeof *args);
    OPF_OOM_IF(error, kept == NULL);
    opf_plan_step step = {.kernel        = kernel,
                          .run           = opf_gemm_run,
                          .args          = kept,
                          .units         = args->images * args->groups * args->blocks * args->panels,
                          .scratch_bytes = opf_gemm_scratch(args, kern),
                          .flops         = 2.0 * products * (double)(args->images * args->groups * args->m) * (double)(args->n * args->kc * args->taps)};
    if (kept->winograd.u != NULL)
        opf_winograd_step(kept, kern, &step);
    if (kept->rows == OPF_ROWS_PLANES)
        opf_planes_step(kept, &step);
    if (step.run == opf_gemm_run || kept->winograd.u != NULL) {
        if (planner->product != NULL && (kept->b != NULL || kept->winograd.u != NULL) && kept->groups == 1 && step.units != 0)
            planner->product->ahead = kept;
        planner->product = kept;
    }
    OPF_TRY(opf_plan_add_step(planner, &step, error));
    OPF_TRY(tell_lines(planner, kept, error));
    opf_plan_reads(planner, a);
    if (b_place != NULL)
        opf_plan_reads(planner, b_place);
    opf_plan_writes(planner, result);
    touch_end(planner, args, &own);
    if (args->beside != NULL)
        touch_end(planner, args->beside->args, &others);
    if (own.residual.buffer != 0 && is_alone(args, &own, a, b_place))
        opf_plan_may_share(planner, result, &own.residual);
    return OPF_OK;
}
