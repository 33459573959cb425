/* SPDX-License-Identifier: Apache-2.0 */
/* Operators on rows: LayerNormalization, RMSNormalization, Softmax, LogSoftmax over trailing axes. The prologue runs while
   a row is read, the epilogue while it is still in L1. */
#include "plan/steps.h"

#include <string.h>

typedef enum { ROW_LAYER_NORM, ROW_RMS_NORM, ROW_SOFTMAX, ROW_LOG_SOFTMAX } row_kind;

typedef struct {
    row_kind     kind;
    size_t       rows, n;
    opf_ref      x, y, mean, inv_std;
    ptrdiff_t    x_row, y_row;
    const int64_t *x_rows; /* offset of every row, where no one stride tells it; else NULL */
    const float *gamma, *beta;
    float        epsilon;
    opf_bound    prologue, epilogue;
} rows_args;

static void run_row(const opf_kern *kern, const rows_args *r, const float *x, float *y, float *mean, float *inv_std)
{
    switch (r->kind) {
    case ROW_LAYER_NORM:
        kern->layer_norm(x, r->gamma, r->beta, y, r->n, r->epsilon, mean, inv_std);
        break;
    case ROW_RMS_NORM:
        kern->rms_norm(x, r->gamma, y, r->n, r->epsilon);
        break;
    case ROW_SOFTMAX:
        kern->softmax(x, y, r->n);
        break;
    case ROW_LOG_SOFTMAX:
        kern->log_softmax(x, y, r->n);
        break;
    }
}

static void run_rows(const opf_run_env *env, const void *args, size_t begin, size_t end, void *scratch)
{
    const rows_args *r       = args;
    const float     *x       = opf_ref_data(env, r->x);
    float           *y       = opf_ref_data(env, r->y);
    float           *mean    = opf_ref_data(env, r->mean);
    float           *inv_std = opf_ref_data(env, r->inv_std);
    opf_operand      operands[OPF_PROGRAM_OPERANDS];
    opf_store        stores[OPF_PROGRAM_OPERANDS];
    for (size_t row = begin; row < end; row++) {
        const float *in  = x + (r->x_rows != NULL ? (ptrdiff_t)r->x_rows[row] : (ptrdiff_t)row * r->x_row);
        float       *out = y + (ptrdiff_t)row * r->y_row;
        if (r->prologue.program.n != 0) {
            opf_bound_at(env, &r->prologue, row, 0, 0, operands, stores);
            opf_program_run(env->kern, &r->prologue.program, operands, stores, in, r->x_row, out, r->y_row, 1, r->n, scratch);
            in = out;
        }
        run_row(env->kern, r, in, out, mean == NULL ? NULL : mean + row, inv_std == NULL ? NULL : inv_std + row);
        if (r->epilogue.program.n != 0) {
            opf_bound_at(env, &r->epilogue, row, 0, 0, operands, stores);
            opf_program_run(env->kern, &r->epilogue.program, operands, stores, out, r->y_row, out, r->y_row, 1, r->n, scratch);
        }
    }
}

/* Scale and bias: constants of float that vary along the normalised axes only. */
static opf_status take_vector(opf_planner *planner, const opf_node *node, uint32_t input, int64_t n, const float **vector, bool *ok,
                              opf_error *error)
{
    *vector = NULL;
    if (input >= node->n_own_inputs || node->inputs[input] == 0)
        return OPF_OK;
    const opf_const *c = opf_graph_value(planner->graph, node->inputs[input])->constant;
    bool             full = c != NULL && c->type == OPF_FLOAT && (c->count == (size_t)n || c->count == 1);
    if (!full) {
        *ok = false;
        return OPF_OK;
    }
    opf_weight_format format = opf_format_vector(n, 1, 1);
    *vector                  = opf_weights_get(planner->options->weights, c, &format);
    OPF_OOM_IF(error, *vector == NULL);
    return OPF_OK;
}

/* What the operator is, its first normalised axis, and its parameters. False: no kernel. */
static opf_status describe(opf_planner *planner, const opf_node *node, rows_args *r, int32_t *axis, bool *ok, opf_error *error)
{
    int32_t rank    = planner->infos[node->inputs[0]].rank;
    bool    softmax = node->op == &opf_op_Softmax || node->op == &opf_op_LogSoftmax;
    int64_t a       = opf_node_int(node, "axis", -1);
    *axis           = (int32_t)(a < 0 ? a + rank : a);
    *ok             = *axis >= 0 && *axis < rank;
    r->kind         = node->op == &opf_op_LayerNormalization ? ROW_LAYER_NORM
                      : node->op == &opf_op_RMSNormalization ? ROW_RMS_NORM
                      : node->op == &opf_op_Softmax          ? ROW_SOFTMAX
                                                             : ROW_LOG_SOFTMAX;
    if (softmax || !*ok) {
        *ok = *ok && *axis == rank - 1;
        return OPF_OK;
    }
    int64_t n = 1;
    for (int32_t i = *axis; i < rank; i++)
        n *= planner->infos[node->inputs[0]].dims[i].n;
    r->epsilon = opf_node_float(node, "epsilon", 1e-5f);
    OPF_TRY(take_vector(planner, node, 1, n, &r->gamma, ok, error));
    if (r->kind == ROW_LAYER_NORM)
        OPF_TRY(take_vector(planner, node, 2, n, &r->beta, ok, error));
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

opf_status opf_lower_rows(opf_planner *planner, opf_node_id id, bool *done, opf_error *error)
{
    const opf_node *node = opf_graph_node(planner->graph, id);
    opf_lowered     prologue, epilogue;
    rows_args       r = {0};
    int32_t         axis;
    bool            ok;
    if ((node->op != &opf_op_LayerNormalization && node->op != &opf_op_RMSNormalization && node->op != &opf_op_Softmax &&
         node->op != &opf_op_LogSoftmax) ||
        planner->infos[node->inputs[0]].type != OPF_FLOAT || !opf_lower_steps(planner, node, &node->prologue, &prologue) ||
        !opf_lower_steps(planner, node, &node->epilogue, &epilogue))
        return OPF_OK;
    OPF_TRY(describe(planner, node, &r, &axis, &ok, error));
    if (!ok)
        return OPF_OK;
    bool steps = prologue.program.n + epilogue.program.n != 0;
    if (steps && axis != planner->infos[node->inputs[0]].rank - 1)
        return OPF_OK; /* steps are bound to one column axis */
    *done = true;
    opf_place x, y, mean = {0}, inv_std = {0};
    int64_t   n, row;
    OPF_TRY(opf_plan_place(planner, node->inputs[0], &x, error));
    if (!opf_place_linear(&x, axis, x.rank - 1, &n) || (n != 1 && opf_place_elements(&x) > 1))
        OPF_TRY(opf_plan_dense(planner, &x, NULL, error));
    if (!opf_place_linear(&x, 0, axis - 1, &row)) {
        r.x_rows = opf_place_offsets(planner->arena, &x, 0, axis - 1);
        OPF_OOM_IF(error, r.x_rows == NULL);
    }
    r.n = 1;
    for (int32_t i = axis; i < x.rank; i++)
        r.n *= (size_t)x.dims[i];
    r.rows  = r.n == 0 ? 0 : opf_place_elements(&x) / r.n;
    r.x     = opf_place_ref(&x);
    r.x_row = (ptrdiff_t)row;
    OPF_TRY(opf_plan_alloc(planner, node->outputs[0], NULL, &y, error));
    r.y     = opf_place_ref(&y);
    r.y_row = (ptrdiff_t)r.n;
    OPF_TRY(place_statistic(planner, node, 1, &mean, &r.mean, error));
    OPF_TRY(place_statistic(planner, node, 2, &inv_std, &r.inv_std, error));
    /* A row is an image of its own to the steps: operands that are broadcast over some leading axes have no one stride. */
    opf_split split = {.outer_first = 0, .outer_last = axis - 1, .row_first = 0, .row_last = -1, .col = y.rank - 1};
    opf_place p_in[OPF_PROGRAM_OPERANDS], p_out[OPF_PROGRAM_OPERANDS], e_in[OPF_PROGRAM_OPERANDS], e_out[OPF_PROGRAM_OPERANDS];
    if (prologue.program.n != 0)
        OPF_TRY(opf_bind(planner, &prologue, &y, split, &r.prologue, p_in, p_out, error));
    if (epilogue.program.n != 0)
        OPF_TRY(opf_bind(planner, &epilogue, &y, split, &r.epilogue, e_in, e_out, error));
    size_t     s1 = opf_program_scratch(&prologue.program), s2 = opf_program_scratch(&epilogue.program);
    rows_args *kept = opf_arena_copy(planner->arena, &r, sizeof r);
    OPF_OOM_IF(error, kept == NULL);
    static const char *const names[] = {"layer_norm_f32", "rms_norm_f32", "softmax_f32", "log_softmax_f32"};
    opf_plan_step            step    = {.kernel        = names[r.kind],
                                        .run           = run_rows,
                                        .args          = kept,
                                        .units         = r.rows,
                                        .scratch_bytes = (s1 > s2 ? s1 : s2) * sizeof(float),
                                        .flops         = 8.0 * (double)(r.rows * r.n)};
    OPF_TRY(opf_plan_add_step(planner, &step, error));
    opf_plan_reads(planner, &x);
    opf_plan_writes(planner, &y);
    if (mean.buffer != 0)
        opf_plan_writes(planner, &mean);
    if (inv_std.buffer != 0)
        opf_plan_writes(planner, &inv_std);
    opf_bound_touch(planner, &r.prologue, p_in, p_out);
    opf_bound_touch(planner, &r.epilogue, e_in, e_out);
    if (!steps)
        opf_plan_may_share(planner, &y, &x);
    return OPF_OK;
}
