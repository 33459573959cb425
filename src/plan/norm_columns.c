/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Normalisation by columns: channels of channels-last images, and pixels whose channels lie far apart. A unit takes a
 * block of columns through all rows. Mean and variance are those of pieces that stay in L1, each taken in two passes,
 * joined in the order of rows: memory is read once for them, and nothing cancels.
 */
#include "plan/norm.h"

#include <math.h>
#include <string.h>

enum {
    LINE = 16,   /* floats of a cache line */
    WIDEST = 64, /* columns of a block */
    PIECE = 4096 /* floats that are taken at once */
};

typedef struct columns_args {
    opf_norm norm;
    size_t rows, cols, fold, block,
        blocks; /* block: columns of a unit, a multiple of fold; blocks: units of one outer index */
    opf_ref x, y;
    ptrdiff_t x_outer, x_row, y_row;
    const int64_t *x_outers, *y_outers; /* offset of every outer index */
    opf_norm_vector gamma, beta;
    bool by_row;
    float lo, hi;
    opf_bound prologue, epilogue;
} columns_args;

/* Of the columns of a unit; in scratch. */
typedef struct statistics {
    float *mean, *scale, *part, *sum; /* sum: of squares about the mean, or what is normalised by */
    float *rest;                      /* scratch of programs */
} statistics;

static statistics lay_out(float *scratch, size_t block)
{
    return (statistics){scratch, scratch + block, scratch + 2 * block, scratch + 3 * block, scratch + 4 * block};
}

/* Joins the statistics of n rows more (means in part, squares in added) to those of `before` rows. */
static void join(const statistics *s, const float *added, size_t before, size_t n, size_t cols)
{
    if (before == 0) { /* nothing to weigh, so nothing to overflow */
        memcpy(s->mean, s->part, cols * sizeof(float));
        memcpy(s->sum, added, cols * sizeof(float));
        return;
    }
    const float share = (float)n / (float)(before + n), weight = (float)before * share;
    for (size_t c = 0; c < cols; c++) {
        const float d = s->part[c] - s->mean[c];
        s->mean[c] += d * share;
        s->sum[c] += added[c] + d * d * weight;
    }
}

/* Columns of one group have one mean and one sum: those of all its elements. */
static void join_columns(const statistics *s, size_t fold, size_t rows, size_t cols)
{
    for (size_t first = 0; first < cols; first += fold) {
        double mean = 0, sum = 0;
        for (size_t c = first; c < first + fold; c++)
            mean += (double)s->mean[c] / (double)fold;
        for (size_t c = first; c < first + fold; c++) {
            const double d = (double)s->mean[c] - mean;
            sum += (double)s->sum[c] + d * d * (double)rows;
        }
        for (size_t c = first; c < first + fold; c++) {
            s->mean[c] = (float)mean;
            s->sum[c] = (float)sum;
        }
    }
}

/* True: columns are first to be multiplied by s->part. */
static bool measure(const opf_kern *kern, const columns_args *a, const float *x, ptrdiff_t x_row, size_t cols,
                    const statistics *s)
{
    const size_t piece = PIECE / cols < 16 ? 16 : PIECE / cols;
    const bool is_centred = opf_norm_is_centred(&a->norm);
    memset(s->mean, 0, cols * sizeof(float));
    memset(s->sum, 0, cols * sizeof(float));
    for (size_t r = 0; r < a->rows; r += piece) {
        const size_t n = a->rows - r < piece ? a->rows - r : piece;
        const float *from = x + (ptrdiff_t)r * x_row;
        float *added = s->scale;
        if (is_centred)
            kern->pixel_sum(from, x_row, n, 1.0f / (float)n, s->part, cols);
        if (a->norm.kind == OPF_NORM_LP_1)
            kern->pixel_abs_sum(from, x_row, n, added, cols);
        else
            kern->pixel_square_sum(from, x_row, n, is_centred ? s->part : NULL, added, cols);
        if (is_centred)
            join(s, added, r, n, cols);
        else
            for (size_t c = 0; c < cols; c++)
                s->sum[c] += added[c];
    }
    if (a->fold > 1)
        join_columns(s, a->fold, a->rows, cols);
    bool lifts = false;
    for (size_t c = 0; is_centred && c < cols; c++)
        s->scale[c] = opf_norm_scale(&a->norm, (double)s->sum[c], (double)(a->rows * a->fold));
    for (size_t c = 0; !is_centred && c < cols; c++) {
        s->scale[c] = opf_norm_scale_of(&a->norm, s->sum[c], x + c, x_row, a->rows, &s->part[c]);
        lifts = lifts || s->part[c] != 1;
    }
    return lifts;
}

static void run_unit(const opf_run_env *env, const columns_args *a, size_t outer, size_t first, float *scratch)
{
    const size_t cols = a->cols - first < a->block ? a->cols - first : a->block;
    const float *x = (const float *)opf_ref_data(env, a->x) + a->x_outers[outer] + first;
    float *y = (float *)opf_ref_data(env, a->y) + a->y_outers[outer] + first;
    const float *gamma = opf_norm_data(env, &a->gamma), *beta = opf_norm_data(env, &a->beta);
    const statistics s = lay_out(scratch, a->block);
    ptrdiff_t x_row = a->x_row;
    opf_operand operands[OPF_PROGRAM_OPERANDS];
    opf_store stores[OPF_PROGRAM_OPERANDS];
    if (a->prologue.program.n != 0) {
        opf_bound_at(env, &a->prologue, outer, 0, first, operands, stores);
        opf_program_run(env->kern, &a->prologue.program, operands, stores, x, x_row, y, a->y_row, a->rows, cols,
                        s.rest);
        x = y;
        x_row = a->y_row;
    }
    if (measure(env->kern, a, x, x_row, cols, &s)) {
        const opf_columns lifted = {.x = x,
                                    .x_row = x_row,
                                    .y = y,
                                    .y_row = a->y_row,
                                    .rows = a->rows,
                                    .cols = cols,
                                    .mean = s.mean,
                                    .scale = s.part,
                                    .lo = -INFINITY,
                                    .hi = INFINITY};
        env->kern->normalise_columns(&lifted);
        x = y;
        x_row = a->y_row;
    }
    for (size_t c = 0; gamma != NULL && !a->by_row && c < cols; c++)
        s.scale[c] *= gamma[first + c];
    const size_t piece = a->epilogue.program.n == 0 ? a->rows : PIECE / cols < 1 ? 1 : PIECE / cols;
    for (size_t r = 0; r < a->rows; r += piece) {
        const size_t n = a->rows - r < piece ? a->rows - r : piece;
        float *to = y + (ptrdiff_t)r * a->y_row;
        const opf_columns tile = {.x = x + (ptrdiff_t)r * x_row,
                                  .x_row = x_row,
                                  .y = to,
                                  .y_row = a->y_row,
                                  .rows = n,
                                  .cols = cols,
                                  .mean = s.mean,
                                  .scale = s.scale,
                                  .shift = beta != NULL && !a->by_row ? beta + first : NULL,
                                  .gain = gamma != NULL && a->by_row ? gamma + r : NULL,
                                  .offset = beta != NULL && a->by_row ? beta + r : NULL,
                                  .lo = a->lo,
                                  .hi = a->hi};
        env->kern->normalise_columns(&tile);
        if (a->epilogue.program.n == 0)
            continue;
        opf_bound_at(env, &a->epilogue, outer, r, first, operands, stores);
        opf_program_run(env->kern, &a->epilogue.program, operands, stores, to, a->y_row, to, a->y_row, n, cols, s.rest);
    }
}

static void run_columns(const opf_run_env *env, const void *args, size_t begin, size_t end, void *scratch)
{
    const columns_args *a = args;
    for (size_t unit = begin; unit < end; unit++)
        run_unit(env, a, unit / a->blocks, unit % a->blocks * a->block, scratch);
}

static size_t count_axes(const opf_place *place, int32_t first, int32_t last)
{
    size_t n = 1;
    for (int32_t axis = first; axis <= last; axis++)
        n *= (size_t)place->dims[axis];
    return n;
}

/* Whole lines where there are enough columns for several units. */
static size_t choose_block(size_t cols, size_t fold)
{
    size_t wide = cols / 8 / LINE * LINE;
    wide = wide < LINE ? LINE : wide > WIDEST ? WIDEST : wide;
    return (wide + fold - 1) / fold * fold;
}

/* The order of x, if rows have one stride in it and columns are neighbours. */
static bool take_order(const opf_place *x, opf_split split, int32_t *order)
{
    opf_place y = *x;
    int64_t row, col;
    opf_place_order(x, order);
    opf_place_set_dense(&y, order);
    return opf_place_linear(&y, split.row_first, split.row_last, &row) &&
           opf_place_linear(&y, split.col, split.col + split.more_cols, &col) && col <= 1;
}

/* Outer axes, rows, columns; what is left over has one element. */
static void order_axes(int32_t rank, opf_split split, int32_t *order)
{
    int32_t n = 0;
    for (int32_t part = 0; part < 3; part++)
        for (int32_t axis = 0; axis < rank; axis++) {
            const bool is_row = axis >= split.row_first && axis <= split.row_last;
            const bool is_col = axis >= split.col && axis <= split.col + split.more_cols;
            if (part == (is_col ? 2 : is_row ? 1 : 0))
                order[n++] = axis;
        }
}

opf_status opf_plan_norm_columns(opf_planner *planner, const opf_node *node, const opf_norm_columns *columns,
                                 const opf_place *x, const opf_lowered *prologue, opf_lowered *epilogue,
                                 const char *kernel, opf_error *error)
{
    const opf_split split = columns->split;
    columns_args a = {.norm = columns->norm,
                      .fold = columns->fold,
                      .gamma = columns->gamma,
                      .beta = columns->beta,
                      .by_row = columns->by_row};
    opf_place y, p_in[OPF_PROGRAM_OPERANDS], p_out[OPF_PROGRAM_OPERANDS], e_in[OPF_PROGRAM_OPERANDS],
        e_out[OPF_PROGRAM_OPERANDS];
    int32_t order[OPF_MAX_RANK];
    int64_t x_row, y_row;
    opf_lower_clamp(epilogue, &a.lo, &a.hi);
    if (!take_order(x, split, order))
        order_axes(x->rank, split, order);
    OPF_TRY(opf_plan_alloc(planner, node->outputs[0], order, &y, error));
    const bool is_linear = opf_place_linear(x, split.row_first, split.row_last, &x_row) &&
                           opf_place_linear(&y, split.row_first, split.row_last, &y_row);
    OPF_FAIL_IF(error, !is_linear, OPF_INTERNAL, "rows of a normalisation have no one stride");
    a.rows = count_axes(x, split.row_first, split.row_last);
    a.cols = count_axes(x, split.col, split.col + split.more_cols);
    a.block = choose_block(a.cols, a.fold);
    a.blocks = (a.cols + a.block - 1) / a.block;
    a.x = opf_place_ref(x);
    a.y = opf_place_ref(&y);
    a.x_row = (ptrdiff_t)x_row;
    a.y_row = (ptrdiff_t)y_row;
    a.x_outers = opf_place_offsets(planner->arena, x, split.outer_first, split.outer_last);
    a.y_outers = opf_place_offsets(planner->arena, &y, split.outer_first, split.outer_last);
    OPF_OOM_IF(error, a.x_outers == NULL || a.y_outers == NULL);
    if (prologue->program.n != 0)
        OPF_TRY(opf_bind(planner, prologue, &y, split, &a.prologue, p_in, p_out, error));
    if (epilogue->program.n != 0)
        OPF_TRY(opf_bind(planner, epilogue, &y, split, &a.epilogue, e_in, e_out, error));
    const size_t s1 = opf_program_scratch(&prologue->program), s2 = opf_program_scratch(&epilogue->program);
    columns_args *kept = opf_arena_copy(planner->arena, &a, sizeof a);
    OPF_OOM_IF(error, kept == NULL);
    const opf_plan_step step = {.kernel = kernel,
                                .run = run_columns,
                                .args = kept,
                                .units = count_axes(x, split.outer_first, split.outer_last) * a.blocks,
                                .scratch_bytes = (4 * a.block + (s1 > s2 ? s1 : s2)) * sizeof(float),
                                .flops = 8.0 * (double)opf_place_elements(x)};
    OPF_TRY(opf_plan_add_step(planner, &step, error));
    opf_plan_reads(planner, x);
    opf_plan_writes(planner, &y);
    opf_norm_touch(planner, &a.gamma);
    opf_norm_touch(planner, &a.beta);
    opf_bound_touch(planner, &a.prologue, p_in, p_out);
    opf_bound_touch(planner, &a.epilogue, e_in, e_out);
    if (prologue->program.n == 0)
        opf_norm_may_share(planner, &y, x, &a.gamma, &a.beta, &a.epilogue, e_in);
    return OPF_OK;
}
