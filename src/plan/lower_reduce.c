/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions over one run of axes: of rows, of the pixels of channels-last images, of the tokens of a sequence. A
 * prologue runs over what is read before it is reduced, the epilogue over the results of a thread's share while they
 * are in cache.
 */
#include "ops/reduce.h"
#include "plan/reduce.h"

#include <string.h>

/* What an operator does with the elements of a result. Min is the greatest of what has its sign turned. */
static const struct {
    const opf_op *op;
    opf_fold fold;
    opf_finish finish;
    const char *by_row, *by_column;
} kinds[] = {
    {&opf_op_ReduceSum, OPF_FOLD_SUM, OPF_FINISH_NONE, "reduce_sum_f32", "pixel_sum_f32"},
    {&opf_op_ReduceMean, OPF_FOLD_SUM, OPF_FINISH_NONE, "reduce_sum_f32", "pixel_sum_f32"},
    {&opf_op_GlobalAveragePool, OPF_FOLD_SUM, OPF_FINISH_NONE, "reduce_sum_f32", "pixel_sum_f32"},
    {&opf_op_ReduceMax, OPF_FOLD_MAX, OPF_FINISH_NONE, "reduce_max_f32", "pixel_max_f32"},
    {&opf_op_GlobalMaxPool, OPF_FOLD_MAX, OPF_FINISH_NONE, "reduce_max_f32", "pixel_max_f32"},
    {&opf_op_ReduceMin, OPF_FOLD_MAX, OPF_FINISH_NEGATE, "reduce_min_f32", "pixel_min_f32"},
    {&opf_op_ReduceProd, OPF_FOLD_PRODUCT, OPF_FINISH_NONE, "reduce_product_f32", "pixel_product_f32"},
    {&opf_op_ReduceL1, OPF_FOLD_ABS, OPF_FINISH_NONE, "reduce_abs_sum_f32", "pixel_abs_sum_f32"},
    {&opf_op_ReduceSumSquare, OPF_FOLD_SQUARE, OPF_FINISH_NONE, "reduce_square_sum_f32", "pixel_square_sum_f32"},
    {&opf_op_ReduceL2, OPF_FOLD_SQUARE, OPF_FINISH_ROOT, "reduce_square_sum_f32", "pixel_square_sum_f32"},
    {&opf_op_ReduceLogSum, OPF_FOLD_SUM, OPF_FINISH_LOG, "reduce_sum_f32", "pixel_sum_f32"},
    {&opf_op_ReduceLogSumExp, OPF_FOLD_EXP, OPF_FINISH_LOG, "reduce_exp_sum_f32", "pixel_exp_sum_f32"},
};

static size_t kind_of(const opf_node *node)
{
    size_t k = 0;
    while (k < sizeof kinds / sizeof *kinds && kinds[k].op != node->op)
        k++;
    return k;
}

/* ---- axes ---- */

/* The reduced axes [*first, *last); false: unknown at plan time, or no run. */
static bool find_axes(const opf_planner *planner, const opf_node *node, int32_t rank, int32_t *first, int32_t *last)
{
    const opf_info *info = node->n_own_inputs > 1 && node->inputs[1] != 0 ? &planner->infos[node->inputs[1]] : NULL;
    int64_t axes[OPF_MAX_RANK];
    bool reduced[OPF_MAX_RANK] = {false};
    const int32_t n = info != NULL ? info->n_values : 0;
    if (info != NULL && (!opf_info_is_known(info) || n > OPF_MAX_RANK))
        return false;
    for (int32_t i = 0; i < n; i++)
        axes[i] = info->values[i].n;
    return opf_reduce_mark(node, axes, n, rank, reduced, NULL) == OPF_OK &&
           opf_reduce_find_run(reduced, rank, first, last);
}

/* The axes of a result, and those that it is reduced from, as the kernel walks them. */
typedef struct walk {
    opf_split split;     /* of the operand, for the prologue */
    int32_t first, last; /* the reduced axes */
    bool by_row;
} walk;

static bool is_kept(const walk *w, int32_t axis)
{
    return axis < w->first || axis >= w->last;
}

static size_t count_axes(const opf_place *x, int32_t first, int32_t last)
{
    size_t n = 1;
    for (int32_t i = first; i <= last; i++)
        n *= (size_t)x->dims[i];
    return n;
}

/* The last axis before those that are reduced which has more than one element; -1: none. */
static int32_t axis_before(const opf_place *x, const walk *w)
{
    int32_t axis = w->first - 1;
    while (axis >= 0 && x->dims[axis] == 1)
        axis--;
    return axis;
}

/* By rows: those of an outer index are what the axes behind have, or the axis before, to the prologue. */
static void split_rows(const opf_place *x, walk *w)
{
    const bool is_last = count_axes(x, w->last, x->rank - 1) == 1;
    const int32_t before = axis_before(x, w);
    w->split = (opf_split){.outer_first = 0,
                           .outer_last = is_last ? before - 1 : w->first - 1,
                           .row_first = !is_last     ? w->last
                                        : before < 0 ? 0
                                                     : before,
                           .row_last = is_last ? before : x->rank - 1,
                           .col = w->first,
                           .more_cols = w->last - 1 - w->first};
}

/* By columns: axes [col, col + more] are those. */
static void split_columns(walk *w, int32_t outer_last, int32_t col, int32_t more)
{
    w->split = (opf_split){.outer_first = 0,
                           .outer_last = outer_last,
                           .row_first = w->first,
                           .row_last = w->last - 1,
                           .col = col,
                           .more_cols = more};
}

/* In which order the elements of a result are taken makes no difference: as they lie. */
static void sort_run(opf_place *x, const walk *w)
{
    for (int32_t i = w->first + 1; i < w->last; i++)
        for (int32_t k = i; k > w->first && x->strides[k] > x->strides[k - 1]; k--) {
            const int64_t dim = x->dims[k], stride = x->strides[k];
            x->dims[k] = x->dims[k - 1];
            x->strides[k] = x->strides[k - 1];
            x->dims[k - 1] = dim;
            x->strides[k - 1] = stride;
        }
}

/* False: neither the elements of a result are neighbours in memory, nor the axes behind them, nor the channels of an
   image. */
static bool choose_walk(const opf_place *x, walk *w)
{
    const int32_t rank = x->rank;
    const size_t n = count_axes(x, w->first, w->last - 1), behind = count_axes(x, w->last, rank - 1);
    int64_t next, inner;
    if (!opf_place_linear(x, w->first, w->last - 1, &next))
        return false;
    w->by_row = next == 1 || (n == 1 && behind == 1);
    if (w->by_row)
        split_rows(x, w);
    else if (behind > 1)
        split_columns(w, w->first - 1, w->last, rank - 1 - w->last);
    else
        split_columns(w, axis_before(x, w) - 1, axis_before(x, w), 0);
    if (w->by_row)
        return true;
    return behind > 1 ? opf_place_linear(x, w->last, rank - 1, &inner) && inner == 1
                      : w->split.col >= 0 && x->strides[w->split.col] == 1;
}

/* ---- steps ---- */

/* The result is lines of columns to the epilogue; operands may be broadcast over any axes before them. */
static opf_split split_result(const opf_place *y, size_t *line)
{
    int32_t col = y->rank - 1;
    while (col > 0 && y->dims[col] == 1)
        col--;
    *line = col >= 0 ? (size_t)y->dims[col] : 1;
    return (opf_split){.outer_first = 0,
                       .outer_last = col - 1,
                       .row_first = 0,
                       .row_last = -1,
                       .col = col,
                       .more_cols = col >= 0 ? y->rank - 1 - col : 0};
}

/* The least element is the greatest of what has its sign turned. */
static bool append_negation(opf_program *program)
{
    if (program->n == OPF_PROGRAM_MAX)
        return false;
    program->instr[program->n] = (opf_instr){.op = OPF_EW_NEG, .args = {(int16_t)program->n, 0}, .store = -1};
    program->n++;
    return true;
}

/* What is read becomes an operand of the program, which reads on any strides. */
static bool make_operand(opf_lowered *lowered, opf_value_id value)
{
    opf_program *program = &lowered->program;
    int16_t operand = 0;
    while (operand < (int16_t)program->n_operands && lowered->operands[operand] != value)
        operand++;
    if (operand == OPF_PROGRAM_OPERANDS)
        return false;
    if (operand == (int16_t)program->n_operands)
        lowered->operands[program->n_operands++] = value;
    if (program->n == 0)
        program->instr[program->n++] = (opf_instr){.op = OPF_EW_COPY, .store = -1};
    for (uint32_t i = 0; i < program->n; i++)
        for (int a = 0; a < (opf_ew_reads_b(program->instr[i].op) ? 2 : 1); a++)
            if (program->instr[i].args[a] == 0)
                program->instr[i].args[a] = (int16_t)(-1 - operand);
    return true;
}

/* Where every result finds its elements. */
static opf_status place_outer(opf_planner *planner, const opf_place *x, const walk *w, opf_reduction *r,
                              opf_error *error)
{
    opf_place kept = *x; /* without the axes of a result */
    int64_t stride;
    kept.rank = 0;
    for (int32_t i = 0; i < x->rank; i++)
        if (is_kept(w, i) && (w->by_row || i < w->split.col || i > w->split.col + w->split.more_cols)) {
            kept.dims[kept.rank] = x->dims[i];
            kept.strides[kept.rank++] = x->strides[i];
        }
    r->outer = count_axes(&kept, 0, kept.rank - 1);
    if (opf_place_linear(&kept, 0, kept.rank - 1, &stride)) {
        r->x_outer = (ptrdiff_t)stride;
        return OPF_OK;
    }
    r->x_outers = opf_place_offsets(planner->arena, &kept, 0, kept.rank - 1);
    OPF_OOM_IF(error, r->x_outers == NULL);
    return OPF_OK;
}

/* As x lies, else by rows whose elements the program gathers; the last resort is a copy. */
static opf_status find_walk(opf_planner *planner, const opf_node *node, opf_lowered *prologue, opf_place *x, walk *w,
                            bool *gathers, opf_error *error)
{
    opf_place sorted = *x;
    sort_run(&sorted, w);
    if (choose_walk(x, w))
        return OPF_OK;
    if (prologue->program.n_operands == 0 && choose_walk(&sorted, w)) {
        *x = sorted;
        return OPF_OK;
    }
    if (make_operand(prologue, node->inputs[0])) {
        *gathers = w->by_row = true;
        split_rows(x, w);
        return OPF_OK;
    }
    OPF_TRY(opf_plan_dense(planner, x, NULL, error));
    OPF_FAIL_IF(error, !choose_walk(x, w), OPF_INTERNAL, "a dense operand is not reduced by rows or columns");
    return OPF_OK;
}

/* An operand that has to be copied is row-major then: that splits along any axes, as the layout of x may not. */
static opf_status bind_prologue(opf_planner *planner, const opf_lowered *prologue, const opf_place *x, opf_split split,
                                opf_bound *bound, opf_place *operands, opf_place *stores, opf_error *error)
{
    opf_place shape = *x;
    opf_place_set_dense(&shape, NULL);
    return opf_bind(planner, prologue, &shape, split, bound, operands, stores, error);
}

static opf_status add_step(opf_planner *planner, const opf_reduction *r, const char *kernel, opf_error *error)
{
    opf_reduction *kept = opf_arena_copy(planner->arena, r, sizeof *r);
    OPF_OOM_IF(error, kept == NULL);
    const opf_plan_step step = {.kernel = kernel,
                                .run = opf_reduction_run,
                                .args = kept,
                                .units = opf_reduction_units(r),
                                .scratch_bytes = opf_reduction_scratch(r),
                                .flops = (double)(r->outer * r->n * r->columns) * (1 + r->prologue.program.n)};
    return opf_plan_add_step(planner, &step, error);
}

/* What joins the pieces of every result. */
static opf_reduction second_half(const opf_reduction *r, const opf_place *parts)
{
    opf_reduction second = *r;
    second.fold = r->fold == OPF_FOLD_MAX || r->fold == OPF_FOLD_PRODUCT ? r->fold : OPF_FOLD_SUM;
    second.by_row = r->columns == 1;
    second.n = r->pieces;
    second.x = opf_place_ref(parts);
    second.x_n = (ptrdiff_t)r->columns;
    second.x_outer = (ptrdiff_t)(r->pieces * r->columns);
    second.x_outers = NULL;
    second.prologue = (opf_bound){0};
    opf_reduction_divide(&second, false);
    return second;
}

/* In one step; in two where a result is taken in pieces. */
static opf_status plan_steps(opf_planner *planner, opf_reduction *r, const opf_place *x, const opf_place *y,
                             const opf_place *p_in, const opf_place *p_out, const char *kernel, opf_error *error)
{
    opf_place parts;
    const opf_place *result = y;
    opf_reduction first = *r;
    if (r->pieces > 1) {
        const int64_t dims[] = {(int64_t)r->outer, (int64_t)r->pieces, (int64_t)r->columns};
        OPF_TRY(opf_plan_alloc_temporary(planner, OPF_FLOAT, 3, dims, NULL, &parts, error));
        result = &parts;
        first.y = opf_place_ref(&parts);
        first.finish = OPF_FINISH_NONE;
        first.divisor = 1;
        first.epilogue = (opf_bound){0};
    }
    OPF_TRY(add_step(planner, &first, kernel, error));
    opf_plan_reads(planner, x);
    opf_plan_writes(planner, result);
    opf_bound_touch(planner, &first.prologue, p_in, p_out);
    if (r->pieces == 1)
        return OPF_OK;
    *r = second_half(r, &parts);
    OPF_TRY(add_step(planner, r, r->by_row ? "reduce_parts_f32" : "pixel_parts_f32", error));
    opf_plan_reads(planner, &parts);
    opf_plan_writes(planner, y);
    return OPF_OK;
}

opf_status opf_lower_reduce(opf_planner *planner, opf_node_id id, bool *done, opf_error *error)
{
    const opf_node *node = opf_graph_node(planner->graph, id);
    const size_t k = kind_of(node);
    opf_lowered prologue, epilogue;
    opf_place x, y, p_in[OPF_PROGRAM_OPERANDS], p_out[OPF_PROGRAM_OPERANDS], e_in[OPF_PROGRAM_OPERANDS],
        e_out[OPF_PROGRAM_OPERANDS];
    walk w;
    int64_t stride;
    if (k == sizeof kinds / sizeof *kinds || planner->infos[node->inputs[0]].type != OPF_FLOAT ||
        !opf_lower_steps(planner, node, &node->prologue, &prologue) ||
        !opf_lower_steps(planner, node, &node->epilogue, &epilogue))
        return OPF_OK;
    opf_reduction r = {.fold = kinds[k].fold, .finish = kinds[k].finish, .divisor = 1, .rows = 1};
    OPF_TRY(opf_plan_place(planner, node->inputs[0], &x, error));
    if (opf_place_elements(&x) == 0 || !find_axes(planner, node, x.rank, &w.first, &w.last) ||
        (r.finish == OPF_FINISH_NEGATE && !append_negation(&prologue.program)))
        return OPF_OK;
    *done = true;
    OPF_TRY(find_walk(planner, node, &prologue, &x, &w, &r.gathers, error));
    r.by_row = w.by_row;
    r.n = count_axes(&x, w.first, w.last - 1);
    r.columns = w.by_row ? 1 : count_axes(&x, w.split.col, w.split.col + w.split.more_cols);
    (void)opf_place_linear(&x, w.first, w.last - 1, &stride);
    r.x_n = (ptrdiff_t)stride;
    OPF_TRY(place_outer(planner, &x, &w, &r, error));
    if (w.by_row)
        r.rows = count_axes(&x, w.split.row_first, w.split.row_last);
    if (w.by_row && opf_place_linear(&x, w.split.row_first, w.split.row_last, &stride))
        r.x_row = (ptrdiff_t)stride;
    if (node->op == &opf_op_ReduceMean || node->op == &opf_op_GlobalAveragePool)
        r.divisor = (double)r.n;
    OPF_TRY(opf_plan_alloc(planner, node->outputs[0], NULL, &y, error));
    r.x = opf_place_ref(&x);
    r.y = opf_place_ref(&y);
    const opf_split results = split_result(&y, &r.line);
    if (prologue.program.n != 0)
        OPF_TRY(bind_prologue(planner, &prologue, &x, w.split, &r.prologue, p_in, p_out, error));
    if (epilogue.program.n != 0)
        OPF_TRY(opf_bind(planner, &epilogue, &y, results, &r.epilogue, e_in, e_out, error));
    const bool may_split = node->prologue.n != 0 && r.fold != OPF_FOLD_EXP && r.finish != OPF_FINISH_ROOT &&
                           r.finish != OPF_FINISH_LOG && r.fold != OPF_FOLD_PRODUCT;
    opf_reduction_divide(&r, may_split);
    OPF_TRY(plan_steps(planner, &r, &x, &y, p_in, p_out, w.by_row ? kinds[k].by_row : kinds[k].by_column, error));
    opf_bound_touch(planner, &r.epilogue, e_in, e_out);
    return OPF_OK;
}
