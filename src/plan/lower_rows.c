/* SPDX-License-Identifier: Apache-2.0 */
/* Operators on rows: LayerNormalization, RMSNormalization, LpNormalization, Softmax, LogSoftmax over trailing axes, or over
   one whose elements are neighbours. The prologue runs while a row is read, the epilogue while it is still in L1. */
#include "ops/rows.h"
#include "plan/norm.h"

#include <math.h>
#include <string.h>

typedef enum { ROW_LAYER_NORM, ROW_RMS_NORM, ROW_LP_NORM, ROW_SOFTMAX, ROW_LOG_SOFTMAX } row_kind;

typedef struct {
    row_kind     kind;
    size_t       rows, n;
    size_t       inner; /* rows of the axes behind the normalised one */
    opf_ref      x, y, mean, inv_std;
    ptrdiff_t    x_row, y_row;
    const int64_t *x_rows; /* offset of every row, where no one stride tells it; else NULL */
    opf_lines     x_lines; /* x is gathered rows; else empty */
    opf_norm_vector gamma, beta;
    opf_norm     norm;
    opf_bound    prologue, epilogue;
} rows_args;

static void run_row(const opf_run_env *env, const rows_args *r, const float *x, float *y, float *mean, float *inv_std)
{
    const opf_kern *kern  = env->kern;
    const float    *gamma = opf_norm_data(env, &r->gamma), *beta = opf_norm_data(env, &r->beta);
    opf_affine      affine = {.lo = -INFINITY, .hi = INFINITY}, lift = affine;
    float           sum;
    switch (r->kind) {
    case ROW_LAYER_NORM:
        kern->layer_norm(x, gamma, beta, y, r->n, r->norm.epsilon, mean, inv_std);
        break;
    case ROW_RMS_NORM:
        kern->rms_norm(x, gamma, y, r->n, r->norm.epsilon);
        break;
    case ROW_LP_NORM:
        sum = r->norm.kind == OPF_NORM_LP_1 ? kern->abs_sum(x, r->n) : kern->square_sum(x, r->n, 0);
        affine.scale = opf_norm_scale_of(&r->norm, sum, x, 1, r->n, &lift.scale);
        if (lift.scale != 1)
            kern->normalise(x, &lift, y, r->n);
        kern->normalise(lift.scale != 1 ? y : x, &affine, y, r->n);
        break;
    case ROW_SOFTMAX:
        kern->softmax(x, y, r->n);
        break;
    case ROW_LOG_SOFTMAX:
        kern->log_softmax(x, y, r->n);
        break;
    }
}

static void run_steps(const opf_run_env *env, const rows_args *r, const opf_bound *bound, size_t row, const float *src, ptrdiff_t src_row,
                      float *dst, void *scratch)
{
    opf_operand operands[OPF_PROGRAM_OPERANDS];
    opf_store   stores[OPF_PROGRAM_OPERANDS];
    const void *lines[OPF_PROGRAM_OPERANDS];
    opf_bound_at(env, bound, row / r->inner, row % r->inner, 0, operands, stores);
    for (uint32_t i = 0; i < bound->program.n_operands; i++)
        if (bound->operand_lines[i].rows != NULL) {
            lines[i]    = opf_line_at(env, &bound->operand_lines[i], row);
            operands[i] = (opf_operand){.col = bound->operand_lines[i].col, .rows = &lines[i]};
        }
    opf_program_run(env->kern, &bound->program, operands, stores, src, src_row, dst, r->y_row, 1, r->n, scratch);
}

/* A row of x, copied to dst where it lies at any byte address. */
static const float *row_of(const opf_run_env *env, const rows_args *r, size_t row, float *dst)
{
    if (r->x_lines.rows != NULL)
        return memcpy(dst, opf_line_at(env, &r->x_lines, row), r->n * sizeof *dst);
    return (const float *)opf_ref_data(env, r->x) + (r->x_rows != NULL ? (ptrdiff_t)r->x_rows[row] : (ptrdiff_t)row * r->x_row);
}

static void run_rows(const opf_run_env *env, const void *args, size_t begin, size_t end, void *scratch)
{
    const rows_args *r       = args;
    float           *y       = opf_ref_data(env, r->y);
    float           *mean    = opf_ref_data(env, r->mean);
    float           *inv_std = opf_ref_data(env, r->inv_std);
    for (size_t row = begin; row < end; row++) {
        float       *out = y + (ptrdiff_t)row * r->y_row;
        const float *in  = row_of(env, r, row, out);
        if (r->prologue.program.n != 0) {
            run_steps(env, r, &r->prologue, row, in, r->x_row, out, scratch);
            in = out;
        }
        run_row(env, r, in, out, mean == NULL ? NULL : mean + row, inv_std == NULL ? NULL : inv_std + row);
        if (r->epilogue.program.n != 0)
            run_steps(env, r, &r->epilogue, row, out, r->y_row, out, scratch);
    }
}

enum { TURNED = 256, TURNED_FLOATS = (OPF_SHORT_ROW + 3) * TURNED }; /* rows of a block, scratch */

static void softmax_turned(const opf_kern *kern, const rows_args *r, const float *x, float *y, size_t rows, float *scratch)
{
    const bool log = r->kind == ROW_LOG_SOFTMAX;
    float     *most = scratch, *sum = most + TURNED, *term = sum + TURNED, *columns = term + TURNED;
    kern->copy_2d(x, 1, r->x_row, columns, (ptrdiff_t)rows, r->n, rows);
    kern->ew[OPF_EW_COPY](most, columns, NULL, rows, NULL);
    for (size_t i = 1; i < r->n; i++)
        kern->ew[OPF_EW_MAX](most, most, columns + i * rows, rows, NULL);
    for (size_t i = 0; i < r->n; i++) {
        float *column = columns + i * rows, *power = log ? term : column;
        kern->ew[OPF_EW_SUB](column, column, most, rows, NULL);
        kern->ew[OPF_EW_EXP](power, column, NULL, rows, NULL);
        kern->ew[i == 0 ? OPF_EW_COPY : OPF_EW_ADD](sum, i == 0 ? power : sum, power, rows, NULL);
    }
    if (log)
        kern->ew[OPF_EW_LOG](sum, sum, NULL, rows, NULL);
    for (size_t i = 0; i < r->n; i++)
        kern->ew[log ? OPF_EW_SUB : OPF_EW_DIV](columns + i * rows, columns + i * rows, sum, rows, NULL);
    kern->copy_2d(columns, 1, (ptrdiff_t)rows, y, r->y_row, rows, r->n);
}

static void run_turned(const opf_run_env *env, const void *args, size_t begin, size_t end, void *scratch)
{
    const rows_args *r = args;
    for (size_t row = begin; row < end; row += TURNED) {
        const size_t rows = end - row < TURNED ? end - row : TURNED;
        float       *y    = (float *)opf_ref_data(env, r->y) + (ptrdiff_t)row * r->y_row;
        const float *x    = row_of(env, r, row, y);
        for (size_t i = 1; i < rows && r->x_lines.rows != NULL; i++)
            (void)row_of(env, r, row + i, y + (ptrdiff_t)i * r->y_row);
        softmax_turned(env->kern, r, x, y, rows, scratch);
        if (r->epilogue.program.n != 0) /* a chain, in place */
            opf_program_run(env->kern, &r->epilogue.program, NULL, NULL, y, (ptrdiff_t)(rows * r->n), y, (ptrdiff_t)(rows * r->n), 1,
                            rows * r->n, NULL);
    }
}

/* What the operator is, the axes [*first, *last] of its rows, and its parameters. *ok false: no kernel. */
static opf_status describe(opf_planner *planner, const opf_node *node, rows_args *r, int32_t *first, int32_t *last, bool *ok, opf_error *error)
{
    int32_t rank    = planner->infos[node->inputs[0]].rank;
    bool    softmax = node->op == &opf_op_Softmax || node->op == &opf_op_LogSoftmax;
    int64_t a       = opf_node_int(node, "axis", -1);
    *first          = (int32_t)(a < 0 ? a + rank : a);
    *last           = node->op == &opf_op_LpNormalization ? *first : rank - 1;
    *ok             = *first >= 0 && *first < rank;
    r->kind         = node->op == &opf_op_LayerNormalization ? ROW_LAYER_NORM
                      : node->op == &opf_op_RMSNormalization ? ROW_RMS_NORM
                      : node->op == &opf_op_LpNormalization  ? ROW_LP_NORM
                      : node->op == &opf_op_Softmax          ? ROW_SOFTMAX
                                                             : ROW_LOG_SOFTMAX;
    if (softmax || !*ok) {
        *ok = *ok && *first == rank - 1;
        return OPF_OK;
    }
    int64_t n = 1;
    for (int32_t i = *first; i <= *last; i++)
        n *= planner->infos[node->inputs[0]].dims[i].n;
    r->norm = opf_norm_of(node);
    OPF_TRY(opf_norm_take_vector(planner, node, 1, n, &r->gamma, ok, error));
    return opf_norm_take_vector(planner, node, 2, n, &r->beta, ok, error);
}

static void count_rows(const opf_place *x, int32_t first, int32_t last, rows_args *r)
{
    r->n = r->inner = 1;
    for (int32_t i = first; i < x->rank; i++)
        *(i <= last ? &r->n : &r->inner) *= (size_t)x->dims[i];
    r->rows = r->n == 0 ? 0 : opf_place_elements(x) / r->n;
}

/* Rows of a table are read where they are. Others lie at x as they are, or are copied so that the elements of each are neighbours. */
static opf_status place_rows(opf_planner *planner, opf_value_id value, opf_place *x, int32_t first, int32_t last, const int32_t *order,
                             rows_args *r, opf_error *error)
{
    const opf_gathered *rows = opf_plan_gathered(planner, value);
    int64_t             n, row;
    if (rows != NULL)
        OPF_TRY(opf_plan_lines(planner, rows, &rows->row, first, last, &r->x_lines, error));
    if (r->x_lines.rows != NULL) {
        *x = rows->row;
        count_rows(x, first, last, r);
        r->x_row = (ptrdiff_t)r->n;
        return OPF_OK;
    }
    OPF_TRY(opf_plan_place(planner, value, x, error));
    if (!opf_place_linear(x, first, last, &n) || (n != 1 && opf_place_elements(x) > 1))
        OPF_TRY(opf_plan_dense(planner, x, order, error));
    count_rows(x, first, last, r);
    r->x = opf_place_ref(x);
    if (last == x->rank - 1 && opf_place_linear(x, 0, first - 1, &row)) {
        r->x_row = (ptrdiff_t)row;
        return OPF_OK;
    }
    r->x_rows = opf_place_lines(planner->arena, x, first, last);
    OPF_OOM_IF(error, r->x_rows == NULL);
    return OPF_OK;
}

static opf_status place_statistic(opf_planner *planner, const opf_node *node, uint32_t output, opf_place *place, opf_ref *ref, opf_error *error)
{
    *ref = (opf_ref){0};
    if (output >= node->n_own_outputs || node->outputs[output] == 0)
        return OPF_OK;
    OPF_TRY(opf_plan_alloc(planner, node->outputs[output], NULL, place, error));
    *ref = opf_place_ref(place);
    return OPF_OK;
}

static opf_status touch_steps(opf_planner *planner, const opf_bound *bound, const opf_place *in, const opf_place *out, opf_error *error)
{
    opf_bound_touch(planner, bound, in, out);
    for (uint32_t i = 0; i < bound->program.n_operands; i++)
        if (bound->operand_lines[i].rows != NULL)
            OPF_TRY(opf_plan_reads_rows(planner, bound->operand_lines[i].rows, error));
    return OPF_OK;
}

static bool is_known(const opf_node *node)
{
    return node->op == &opf_op_LayerNormalization || node->op == &opf_op_RMSNormalization || node->op == &opf_op_LpNormalization ||
           node->op == &opf_op_Softmax || node->op == &opf_op_LogSoftmax;
}

opf_status opf_lower_rows(opf_planner *planner, opf_node_id id, bool *done, opf_error *error)
{
    const opf_node *node = opf_graph_node(planner->graph, id);
    opf_lowered     prologue, epilogue;
    rows_args       r = {0};
    int32_t         first, last, order[OPF_MAX_RANK], axes = 0;
    bool            ok;
    if (!is_known(node) || planner->infos[node->inputs[0]].type != OPF_FLOAT || !opf_lower_steps(planner, node, &node->prologue, &prologue) ||
        !opf_lower_steps(planner, node, &node->epilogue, &epilogue))
        return OPF_OK;
    OPF_TRY(describe(planner, node, &r, &first, &last, &ok, error));
    if (!ok)
        return OPF_OK;
    *done = true;
    opf_place x, y, mean = {0}, inv_std = {0};
    for (int32_t row = 0; row < 2; row++) /* the axes of a row last */
        for (int32_t i = 0; i < planner->infos[node->inputs[0]].rank; i++)
            if ((i >= first && i <= last) == (row == 1))
                order[axes++] = i;
    OPF_TRY(place_rows(planner, node->inputs[0], &x, first, last, order, &r, error));
    OPF_TRY(opf_plan_alloc(planner, node->outputs[0], order, &y, error));
    r.y     = opf_place_ref(&y);
    r.y_row = (ptrdiff_t)r.n;
    OPF_TRY(place_statistic(planner, node, 1, &mean, &r.mean, error));
    OPF_TRY(place_statistic(planner, node, 2, &inv_std, &r.inv_std, error));
    /* A row is an image of its own to the steps: operands that are broadcast over some leading axes have no one stride. */
    opf_split split = {.outer_first = 0, .outer_last = first - 1, .row_first = last + 1, .row_last = x.rank - 1, .col = first, .more_cols = last - first};
    opf_place p_in[OPF_PROGRAM_OPERANDS], p_out[OPF_PROGRAM_OPERANDS], e_in[OPF_PROGRAM_OPERANDS], e_out[OPF_PROGRAM_OPERANDS];
    r.prologue.by_lines = r.epilogue.by_lines = true;
    if (prologue.program.n != 0)
        OPF_TRY(opf_bind(planner, &prologue, &y, split, &r.prologue, p_in, p_out, error));
    if (epilogue.program.n != 0)
        OPF_TRY(opf_bind(planner, &epilogue, &y, split, &r.epilogue, e_in, e_out, error));
    const bool is_softmax = r.kind == ROW_SOFTMAX || r.kind == ROW_LOG_SOFTMAX;
    /* Rows of few elements fill no vector: a block of rows is turned, so that a vector has as many. */
    const bool is_turned = is_softmax && r.n != 0 && r.n <= OPF_SHORT_ROW && r.x_rows == NULL && prologue.program.n == 0 &&
                           (epilogue.program.n == 0 || opf_program_is_chain(&epilogue.program));
    size_t     s1 = opf_program_scratch(&prologue.program), s2 = opf_program_scratch(&epilogue.program);
    rows_args *kept = opf_arena_copy(planner->arena, &r, sizeof r);
    OPF_OOM_IF(error, kept == NULL);
    static const char *const names[] = {"layer_norm_f32", "rms_norm_f32", "lp_norm_f32", "softmax_f32", "log_softmax_f32"};
    opf_plan_step            step    = {.kernel        = names[r.kind],
                                        .run           = is_turned ? run_turned : run_rows,
                                        .args          = kept,
                                        .units         = r.rows,
                                        .scratch_bytes = (is_turned ? TURNED_FLOATS : s1 > s2 ? s1 : s2) * sizeof(float),
                                        .flops         = 8.0 * (double)(r.rows * r.n)};
    OPF_TRY(opf_plan_add_step(planner, &step, error));
    if (r.x_lines.rows != NULL)
        OPF_TRY(opf_plan_reads_rows(planner, r.x_lines.rows, error));
    else
        opf_plan_reads(planner, &x);
    opf_plan_writes(planner, &y);
    opf_norm_touch(planner, &r.gamma);
    opf_norm_touch(planner, &r.beta);
    if (mean.buffer != 0)
        opf_plan_writes(planner, &mean);
    if (inv_std.buffer != 0)
        opf_plan_writes(planner, &inv_std);
    OPF_TRY(touch_steps(planner, &r.prologue, p_in, p_out, error));
    OPF_TRY(touch_steps(planner, &r.epilogue, e_in, e_out, error));
    if (prologue.program.n == 0 && r.x_lines.rows == NULL)
        opf_norm_may_share(planner, &y, &x, &r.gamma, &r.beta, &r.epilogue, e_in);
    return OPF_OK;
}
