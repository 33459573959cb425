/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LayerNormalization, RMSNormalization and LpNormalization of what does not lie in rows: channels of an image whose
 * pixels are neighbours in memory. Pixels are columns then, and nothing is transposed.
 */
#include "plan/norm.h"

/* The axes that are normalised. False: not one of these operators. */
static bool find_axes(const opf_node *node, int32_t rank, int32_t *first, int32_t *last)
{
    int64_t axis = opf_node_int(node, "axis", -1);
    axis += axis < 0 ? rank : 0;
    *first = (int32_t)axis;
    *last = node->op == &opf_op_LpNormalization ? (int32_t)axis : rank - 1;
    return node->op == &opf_op_LayerNormalization || node->op == &opf_op_RMSNormalization ||
           node->op == &opf_op_LpNormalization;
}

/* The longest run of axes that are neighbours in memory: the one of stride 1 and those before it that go on from it. */
static bool find_columns(const opf_place *x, int32_t first, int32_t last, opf_split *split)
{
    int64_t stride;
    int32_t to = -1;
    for (int32_t axis = 0; axis < x->rank; axis++)
        if (x->dims[axis] > 1 && x->strides[axis] == 1 && (axis < first || axis > last))
            to = axis;
    if (to < 0 || !opf_place_linear(x, first, last, &stride))
        return false;
    int32_t from = to;
    while (from > 0 && from - 1 != last && opf_place_linear(x, from - 1, to, &stride))
        from--;
    *split = (opf_split){.outer_last = (from < first ? from : first) - 1,
                         .row_first = first,
                         .row_last = last,
                         .col = from,
                         .more_cols = to - from};
    for (int32_t axis = split->outer_last + 1; axis < x->rank; axis++)
        if (x->dims[axis] != 1 && (axis < first || axis > last) && (axis < from || axis > to))
            return false;
    return true;
}

/* Operands are read where they are: axes before the rows that one of them does not run through as columns do (a vector
 * that is broadcast along the batch, another order of axes) are no columns. */
static opf_status narrow_columns(opf_planner *planner, const opf_lowered *steps, const opf_place *x, opf_split *split,
                                 opf_error *error)
{
    int64_t stride;
    if (split->col > split->row_last)
        return OPF_OK;
    for (uint32_t i = 0; i < steps->program.n_operands; i++) {
        opf_place place;
        OPF_TRY(opf_plan_place(planner, steps->operands[i], &place, error));
        place = opf_place_broadcast(&place, x->rank, x->dims);
        for (; !opf_place_linear(&place, split->col, split->col + split->more_cols, &stride); split->more_cols--)
            split->outer_last = split->col++;
    }
    return OPF_OK;
}

opf_status opf_lower_norm(opf_planner *planner, opf_node_id id, bool *done, opf_error *error)
{
    const opf_node *node = opf_graph_node(planner->graph, id);
    opf_norm_columns columns = {.fold = 1, .by_row = true};
    opf_lowered prologue, epilogue;
    opf_place x;
    int32_t first, last;
    int64_t n = 1, stride;
    bool ok = true;
    if (node->op == NULL || (node->op->traits & OPF_NORMALIZATION) == 0 ||
        planner->infos[node->inputs[0]].type != OPF_FLOAT ||
        !find_axes(node, planner->infos[node->inputs[0]].rank, &first, &last) ||
        opf_plan_gathered(planner, node->inputs[0]) != NULL)
        return OPF_OK;
    for (uint32_t o = 1; o < node->n_own_outputs; o++)
        if (node->outputs[o] != 0)
            return OPF_OK; /* rows have statistics to give */
    OPF_TRY(opf_plan_place(planner, node->inputs[0], &x, error));
    for (int32_t axis = first; axis <= last; axis++)
        n *= x.dims[axis];
    if ((opf_place_linear(&x, first, last, &stride) && (stride == 1 || n == 1)) ||
        !find_columns(&x, first, last, &columns.split) || !opf_lower_steps(planner, node, &node->prologue, &prologue) ||
        !opf_lower_steps(planner, node, &node->epilogue, &epilogue))
        return OPF_OK;
    OPF_TRY(opf_norm_take_vector(planner, node, 1, n, &columns.gamma, &ok, error));
    OPF_TRY(opf_norm_take_vector(planner, node, 2, n, &columns.beta, &ok, error));
    if (!ok)
        return OPF_OK;
    *done = true;
    OPF_TRY(narrow_columns(planner, &prologue, &x, &columns.split, error));
    OPF_TRY(narrow_columns(planner, &epilogue, &x, &columns.split, error));
    columns.norm = opf_norm_of(node);
    const char *kernel = node->op == &opf_op_LayerNormalization ? "layer_norm_columns_f32"
                         : node->op == &opf_op_RMSNormalization ? "rms_norm_columns_f32"
                                                                : "lp_norm_columns_f32";
    return opf_plan_norm_columns(planner, node, &columns, &x, &prologue, &epilogue, kernel, error);
}
