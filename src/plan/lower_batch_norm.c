/* SPDX-License-Identifier: Apache-2.0 */
/* A BatchNormalization that no convolution took: x*k + b per channel, with k = scale/sqrt(var + epsilon) and
   b = bias - mean*k computed in double when the plan is made. Where the pixels of a channel lie in one line, its factors are
   numbers; else it is an elementwise program on the vectors k and b. */
#include "plan/norm.h"

#include <math.h>

/* k, then b. NULL when memory is out. */
static float *make_factors(opf_planner *planner, const opf_node *node, int64_t channels)
{
    const opf_const *c[4];
    for (int i = 0; i < 4; i++)
        c[i] = opf_graph_value(planner->graph, node->inputs[1 + i])->constant;
    float *factors = OPF_NEW(planner->arena, float, 2 * channels);
    double epsilon = (double)opf_node_float(node, "epsilon", 1e-5f);
    for (int64_t i = 0; factors != NULL && i < channels; i++) {
        double factor         = opf_const_f64_at(c[0], (size_t)i) / sqrt(opf_const_f64_at(c[3], (size_t)i) + epsilon);
        factors[i]            = (float)factor;
        factors[channels + i] = (float)(opf_const_f64_at(c[1], (size_t)i) - opf_const_f64_at(c[2], (size_t)i) * factor);
    }
    return factors;
}

/* A vector of channels as a place of shape [C, 1, …]. */
static opf_status place_vector(opf_planner *planner, const float *vector, int32_t rank, int64_t channels, opf_place *place, opf_error *error)
{
    *place = (opf_place){.type = OPF_FLOAT, .rank = rank - 1};
    for (int32_t i = 0; i < place->rank; i++)
        place->dims[i] = i == 0 ? channels : 1;
    opf_place_set_dense(place, NULL);
    return opf_plan_constant(planner, vector, (size_t)channels * sizeof *vector, &place->buffer, error);
}

/* Several pixels of one channel, all neighbours. */
static bool has_lines(const opf_place *x)
{
    int64_t stride;
    return x->rank > 2 && opf_place_linear(x, 2, x->rank - 1, &stride) && stride == 1;
}

static opf_status lower_lines(opf_planner *planner, const opf_node *node, const float *factors, const opf_place *x, opf_lowered *epilogue,
                              opf_error *error)
{
    const opf_norm_lines lines = {.norm   = {.kind = OPF_NORM_NONE},
                                  .groups = x->dims[1],
                                  .gamma  = {.constant = factors},
                                  .beta   = {.constant = factors + x->dims[1]}};
    return opf_plan_norm_lines(planner, node, &lines, x, epilogue, "batch_norm_f32", error);
}

opf_status opf_lower_batch_norm(opf_planner *planner, opf_node_id id, bool *done, opf_error *error)
{
    const opf_node *node = opf_graph_node(planner->graph, id);
    if (node->op != &opf_op_BatchNormalization || opf_node_int(node, "training_mode", 0) != 0 || node->prologue.n != 0 ||
        planner->infos[node->inputs[0]].type != OPF_FLOAT || planner->infos[node->inputs[0]].rank < 2)
        return OPF_OK;
    for (int i = 1; i <= 4; i++)
        if (opf_graph_value(planner->graph, node->inputs[i])->constant == NULL)
            return OPF_OK;
    /* Operand 0 is x, 1 is k, 2 is b; none of them is looked up by value again: steps add theirs behind. */
    opf_lowered epilogue, lowered = {.operands = {node->inputs[0]}, .program = {.n = 2, .n_operands = 3}};
    lowered.program.instr[0] = (opf_instr){.op = OPF_EW_MUL, .args = {-1, -2}, .store = -1};
    lowered.program.instr[1] = (opf_instr){.op = OPF_EW_ADD, .args = {1, -3}, .store = -1};
    if (!opf_lower_more_steps(planner, node, &node->epilogue, &lowered) || !opf_lower_steps(planner, node, &node->epilogue, &epilogue))
        return OPF_OK;
    *done = true;
    opf_place places[OPF_PROGRAM_OPERANDS], x;
    OPF_TRY(opf_plan_place(planner, node->inputs[0], &x, error));
    const float *factors = make_factors(planner, node, x.dims[1]);
    OPF_OOM_IF(error, factors == NULL);
    if (has_lines(&x))
        return lower_lines(planner, node, factors, &x, &epilogue, error);
    OPF_TRY(place_vector(planner, factors, x.rank, x.dims[1], &places[1], error));
    OPF_TRY(place_vector(planner, factors + x.dims[1], x.rank, x.dims[1], &places[2], error));
    for (uint32_t v = 0; v < lowered.program.n_operands; v++)
        if (lowered.operands[v] != 0)
            OPF_TRY(opf_plan_place(planner, lowered.operands[v], &places[v], error));
    return opf_plan_elementwise(planner, node, &lowered, places, "batch_norm_f32", error);
}
