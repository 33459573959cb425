/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/reduce.h"

#include "base/round.h"

#include <math.h>
#include <string.h>

enum {
    TILE = 4096,      /* floats that the prologue computes at once */
    COLUMNS = 64,     /* of a unit: as many as the kernels sum at once */
    FEW_UNITS = 8,    /* fewer leave threads idle */
    PIECE = 16 * TILE /* elements of a unit that is part of a result */
};

/* ---- layout ---- */

void opf_reduction_divide(opf_reduction *r, bool may_split)
{
    r->block = r->columns < COLUMNS ? r->columns : COLUMNS;
    r->blocks = opf_divide_up(r->columns, r->block);
    r->piece = r->n;
    if (may_split && r->outer * r->blocks < FEW_UNITS && r->n / 4 > PIECE / r->block)
        r->piece = PIECE / r->block;
    r->pieces = opf_divide_up(r->n, r->piece);
    const bool has_rows = r->by_row && r->prologue.program.n != 0 && (r->gathers || r->x_row != 0);
    r->together = has_rows && r->n < TILE ? TILE / r->n : 1;
}

size_t opf_reduction_units(const opf_reduction *r)
{
    return r->outer * r->pieces * r->blocks;
}

static bool has_tile(const opf_reduction *r)
{
    return r->prologue.program.n != 0 || r->fold == OPF_FOLD_EXP;
}

/* Of one unit, by column. */
typedef struct totals {
    double *sum;   /* so far; of MAX the greatest */
    double *shift; /* EXP: what was subtracted */
    float *part;   /* of one tile */
    float *tile;
    float *program;
} totals;

static size_t lay_out(const opf_reduction *r, char *scratch, totals *t)
{
    const size_t prologue = opf_program_scratch(&r->prologue.program);
    const size_t epilogue = opf_program_scratch(&r->epilogue.program);
    size_t at = 0;
    t->sum = (double *)(void *)(scratch + at);
    at += opf_round_64(r->block * sizeof(double));
    t->shift = (double *)(void *)(scratch + at);
    at += opf_round_64(r->block * sizeof(double));
    t->part = (float *)(void *)(scratch + at);
    at += opf_round_64(r->block * sizeof(float));
    t->tile = (float *)(void *)(scratch + at);
    at += has_tile(r) ? TILE * sizeof(float) : 0;
    t->program = (float *)(void *)(scratch + at);
    return at + (prologue > epilogue ? prologue : epilogue) * sizeof(float);
}

size_t opf_reduction_scratch(const opf_reduction *r)
{
    totals t;
    return lay_out(r, NULL, &t);
}

/* ---- folding ---- */

/* A tile: n elements that are `next` apart to each of `cols` results; by_row, those are neighbours and cols is 1. */
typedef struct tile {
    const float *x;
    ptrdiff_t next;
    size_t n, cols;
} tile;

static void column_max(const opf_kern *kern, const tile *x, float *part)
{
    enum { TAPS = 32 };
    const float *taps[TAPS + 1];
    for (size_t i = 0; i < x->n;) {
        size_t n = 0;
        if (i != 0)
            taps[n++] = part;
        for (; n <= TAPS && i < x->n; i++)
            taps[n++] = x->x + (ptrdiff_t)i * x->next;
        kern->pool_max(&(opf_pool){.taps = taps, .n_taps = n, .dst = part, .pixels = 1, .c = x->cols});
    }
}

static void fold_part(const opf_kern *kern, opf_fold fold, bool by_row, const tile *x, float *part)
{
    switch (fold) {
    case OPF_FOLD_ABS:
        if (by_row)
            *part = kern->abs_sum(x->x, x->n);
        else
            kern->pixel_abs_sum(x->x, x->next, x->n, part, x->cols);
        break;
    case OPF_FOLD_SQUARE:
        if (by_row)
            *part = kern->square_sum(x->x, x->n, 0);
        else
            kern->pixel_square_sum(x->x, x->next, x->n, NULL, part, x->cols);
        break;
    case OPF_FOLD_MAX:
        if (by_row)
            *part = kern->reduce_max(x->x, x->n);
        else
            column_max(kern, x, part);
        break;
    default:
        if (by_row)
            *part = kern->reduce_sum(x->x, x->n);
        else
            kern->pixel_sum(x->x, x->next, x->n, 1.0f, part, x->cols);
        break;
    }
}

/* The sum of a column in double: what float cannot hold is a number yet to the root or logarithm that follows. */
static double exact_sum(opf_fold fold, const tile *x, size_t column)
{
    double sum = 0;
    for (size_t i = 0; i < x->n; i++) {
        const double v = (double)x->x[(ptrdiff_t)i * x->next + (ptrdiff_t)column];
        sum += fold == OPF_FOLD_SQUARE ? v * v : v;
    }
    return sum;
}

static double join(const opf_reduction *r, const tile *x, size_t column, double so_far, float part)
{
    if (r->fold == OPF_FOLD_MAX)
        return isnan(part) || (double)part > so_far ? (double)part : so_far;
    const bool is_wide = r->finish == OPF_FINISH_ROOT || r->finish == OPF_FINISH_LOG;
    const bool lost = !(fabsf(part) > 0x1p-100f && fabsf(part) < 0x1p126f);
    return so_far + (is_wide && lost ? exact_sum(r->fold, x, column) : (double)part);
}

/* A greater element than before makes the sum so far smaller. Where the greatest is infinite nothing is subtracted. */
static void shift_to(totals *t, size_t column, float greatest)
{
    const double before = t->shift[column], now = isinf(greatest) ? 0 : (double)greatest;
    if (t->sum[column] == 0) {
        t->shift[column] = now;
    } else if (!isinf(t->sum[column]) && !(before >= now)) {
        t->sum[column] *= exp(before - now);
        t->shift[column] = now;
    }
}

static void fold_exp(const opf_kern *kern, bool by_row, const tile *x, totals *t)
{
    const tile shifted = {t->tile, (ptrdiff_t)x->cols, x->n, x->cols};
    fold_part(kern, OPF_FOLD_MAX, by_row, x, t->part);
    for (size_t c = 0; c < x->cols; c++) {
        shift_to(t, c, t->part[c]);
        t->part[c] = (float)t->shift[c];
    }
    for (size_t i = 0; i < x->n; i++)
        for (size_t c = 0; c < x->cols; c++)
            t->tile[i * x->cols + c] = x->x[(ptrdiff_t)i * x->next + (ptrdiff_t)c] - t->part[c];
    kern->ew[OPF_EW_EXP](t->tile, t->tile, NULL, x->n * x->cols, NULL);
    fold_part(kern, OPF_FOLD_SUM, by_row, &shifted, t->part);
    for (size_t c = 0; c < x->cols; c++)
        t->sum[c] += (double)t->part[c];
}

static void fold_tile(const opf_kern *kern, const opf_reduction *r, const tile *x, totals *t)
{
    if (r->fold == OPF_FOLD_EXP) {
        fold_exp(kern, r->by_row, x, t);
        return;
    }
    if (r->fold == OPF_FOLD_PRODUCT) {
        for (size_t i = 0; i < x->n; i++)
            for (size_t c = 0; c < x->cols; c++)
                t->sum[c] *= (double)x->x[(ptrdiff_t)i * x->next + (ptrdiff_t)c];
        return;
    }
    fold_part(kern, r->fold, r->by_row, x, t->part);
    for (size_t c = 0; c < x->cols; c++)
        t->sum[c] = join(r, x, c, t->sum[c], t->part[c]);
}

static void begin_unit(const opf_reduction *r, size_t cols, totals *t)
{
    const double first = r->fold == OPF_FOLD_MAX ? -(double)INFINITY : r->fold == OPF_FOLD_PRODUCT ? 1 : 0;
    for (size_t c = 0; c < cols; c++) {
        t->sum[c] = first;
        t->shift[c] = 0;
    }
}

static void finish_unit(const opf_reduction *r, size_t cols, const totals *t, float *y)
{
    for (size_t c = 0; c < cols; c++) {
        const double sum = t->sum[c];
        switch (r->finish) {
        case OPF_FINISH_NEGATE:
            y[c] = (float)-sum;
            break;
        case OPF_FINISH_ROOT:
            y[c] = (float)sqrt(sum);
            break;
        case OPF_FINISH_LOG:
            y[c] = (float)(log(sum) + t->shift[c]);
            break;
        case OPF_FINISH_NONE:
            y[c] = (float)(sum / r->divisor);
            break;
        }
    }
}

/* ---- running ---- */

static const float *outer_data(const opf_run_env *env, const opf_reduction *r, size_t outer)
{
    return (const float *)opf_ref_data(env, r->x) +
           (r->x_outers != NULL ? (ptrdiff_t)r->x_outers[outer] : (ptrdiff_t)outer * r->x_outer);
}

/* Elements [first, first + n) of n of `rows` outer indices, or of `cols` columns from `column` on, to the tile. */
static tile compute_tile(const opf_run_env *env, const opf_reduction *r, size_t outer, size_t rows, size_t first,
                         size_t n, size_t column, size_t cols, const totals *t)
{
    const float *x = r->gathers ? NULL : outer_data(env, r, outer) + (ptrdiff_t)first * r->x_n + (ptrdiff_t)column;
    opf_operand operands[OPF_PROGRAM_OPERANDS];
    opf_store stores[OPF_PROGRAM_OPERANDS];
    if (r->prologue.program.n == 0)
        return (tile){x, r->x_n, n, cols};
    if (r->by_row) {
        opf_bound_at(env, &r->prologue, outer / r->rows, outer % r->rows, first, operands, stores);
        opf_program_run(env->kern, &r->prologue.program, operands, stores, x, r->x_row, t->tile, (ptrdiff_t)n, rows, n,
                        t->program);
        return (tile){t->tile, 1, n, 1};
    }
    opf_bound_at(env, &r->prologue, outer, first, column, operands, stores);
    opf_program_run(env->kern, &r->prologue.program, operands, stores, x, r->x_n, t->tile, (ptrdiff_t)cols, n, cols,
                    t->program);
    return (tile){t->tile, (ptrdiff_t)cols, n, cols};
}

/* Where the results of a unit begin, counted in results. */
static size_t result_of(const opf_reduction *r, size_t unit)
{
    return unit / r->blocks * r->columns + unit % r->blocks * r->block;
}

static void run_unit(const opf_run_env *env, const opf_reduction *r, size_t unit, totals *t)
{
    const size_t part = unit / r->blocks, outer = part / r->pieces, begin = part % r->pieces * r->piece;
    const size_t column = unit % r->blocks * r->block;
    const size_t cols = r->columns - column < r->block ? r->columns - column : r->block;
    const size_t end = r->n - begin < r->piece ? r->n : begin + r->piece;
    const size_t height = has_tile(r) ? TILE / cols : r->n;
    begin_unit(r, cols, t);
    for (size_t i = begin; i < end; i += height) {
        const tile x = compute_tile(env, r, outer, 1, i, end - i < height ? end - i : height, column, cols, t);
        fold_tile(env->kern, r, &x, t);
    }
    finish_unit(r, cols, t, (float *)opf_ref_data(env, r->y) + result_of(r, unit));
}

/* Short rows: the prologue computes several at once. */
static void run_rows(const opf_run_env *env, const opf_reduction *r, size_t outer, size_t rows, totals *t)
{
    tile x = compute_tile(env, r, outer, rows, 0, r->n, 0, 1, t);
    float *y = (float *)opf_ref_data(env, r->y) + outer;
    for (size_t i = 0; i < rows; i++, x.x += r->n) {
        begin_unit(r, 1, t);
        fold_tile(env->kern, r, &x, t);
        finish_unit(r, 1, t, y + i);
    }
}

/* The steps on results [begin, end), a line at a time. */
static void run_epilogue(const opf_run_env *env, const opf_reduction *r, size_t begin, size_t end, float *scratch)
{
    opf_operand operands[OPF_PROGRAM_OPERANDS];
    opf_store stores[OPF_PROGRAM_OPERANDS];
    while (begin < end) {
        const size_t column = begin % r->line;
        const size_t n = end - begin < r->line - column ? end - begin : r->line - column;
        float *y = (float *)opf_ref_data(env, r->y) + begin;
        opf_bound_at(env, &r->epilogue, begin / r->line, 0, column, operands, stores);
        opf_program_run(env->kern, &r->epilogue.program, operands, stores, y, (ptrdiff_t)n, y, (ptrdiff_t)n, 1, n,
                        scratch);
        begin += n;
    }
}

void opf_reduction_run(const opf_run_env *env, const void *args, size_t begin, size_t end, void *scratch)
{
    const opf_reduction *r = args;
    totals t;
    (void)lay_out(r, scratch, &t);
    for (size_t unit = begin; unit < end;) {
        const size_t left = r->rows - unit % r->rows; /* rows of one outer index of the prologue */
        size_t n = 1;
        if (r->together > 1) {
            n = r->together < left ? r->together : left;
            n = n < end - unit ? n : end - unit;
            run_rows(env, r, unit, n, &t);
        } else {
            run_unit(env, r, unit, &t);
        }
        unit += n;
    }
    if (r->epilogue.program.n != 0)
        run_epilogue(env, r, result_of(r, begin), result_of(r, end), t.program);
}
