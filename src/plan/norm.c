/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/norm.h"

#include <float.h>
#include <math.h>

opf_norm opf_norm_of(const opf_node *node)
{
    opf_norm norm = {.kind = OPF_NORM_CENTRED, .epsilon = opf_node_float(node, "epsilon", 1e-5f)};
    if (node->op == &opf_op_RMSNormalization)
        norm.kind = OPF_NORM_RMS;
    if (node->op == &opf_op_MeanVarianceNormalization)
        norm = (opf_norm){.kind = OPF_NORM_STANDARD, .epsilon = 1e-9f};
    if (node->op == &opf_op_LpNormalization) {
        norm.kind = opf_node_int(node, "p", 2) == 1 ? OPF_NORM_LP_1 : OPF_NORM_LP_2;
        norm.guard = opf_lp_guard_of(node->attrs, node->n_attrs, &norm.epsilon);
    }
    return norm;
}

static double scale_of(const opf_norm *norm, double sum, double count)
{
    switch (norm->kind) {
    case OPF_NORM_NONE:
        return 1;
    case OPF_NORM_CENTRED:
    case OPF_NORM_RMS:
        return 1 / sqrt(sum / count + (double)norm->epsilon);
    case OPF_NORM_STANDARD:
        return 1 / (sqrt(sum / count) + (double)norm->epsilon);
    default:
        return 1 / opf_lp_denominator(norm->guard, (double)norm->epsilon, norm->kind == OPF_NORM_LP_2, sum);
    }
}

float opf_norm_scale(const opf_norm *norm, double sum, double count)
{
    return (float)scale_of(norm, sum, count);
}

float opf_norm_scale_of(const opf_norm *norm, float sum, const float *x, ptrdiff_t stride, size_t n, float *lift)
{
    const bool is_in_range = sum > 0x1p-100f && sum < 0x1p126f; /* its terms lost nothing that counts */
    double exact = 0;
    *lift = 1;
    if (norm->kind == OPF_NORM_RMS || is_in_range)
        return opf_norm_scale(norm, (double)sum, (double)n);
    for (size_t i = 0; i < n; i++) {
        const double v = (double)x[(ptrdiff_t)i * stride];
        exact += norm->kind == OPF_NORM_LP_2 ? v * v : fabs(v);
    }
    const double scale = scale_of(norm, exact, (double)n);
    if (scale > (double)FLT_MAX && !isinf(scale)) /* at most 2^149: what is normalised is denormal */
        *lift = 0x1p64f;
    return (float)(scale / (double)*lift);
}

opf_status opf_norm_take_vector(opf_planner *planner, const opf_node *node, uint32_t input, int64_t n,
                                opf_norm_vector *vector, bool *ok, opf_error *error)
{
    *vector = (opf_norm_vector){0};
    if (input >= node->n_own_inputs || node->inputs[input] == 0)
        return OPF_OK;
    const opf_const *c = opf_graph_value(planner->graph, node->inputs[input])->constant;
    if (c != NULL) {
        const opf_weight_format format = opf_format_vector(n, 1, 1);
        *ok = *ok && c->type == OPF_FLOAT && (c->count == (size_t)n || c->count == 1);
        if (!*ok)
            return OPF_OK;
        vector->constant = opf_weights_get(planner->options->weights, c, &format);
        OPF_OOM_IF(error, vector->constant == NULL);
        return OPF_OK;
    }
    const opf_info *info = &planner->infos[node->inputs[input]];
    size_t count;
    *ok = *ok && info->type == OPF_FLOAT && opf_info_count(info, &count) && count == (size_t)n;
    if (!*ok)
        return OPF_OK;
    OPF_TRY(opf_plan_place(planner, node->inputs[input], &vector->place, error));
    *ok = opf_place_is_row_major(&vector->place);
    vector->ref = opf_place_ref(&vector->place);
    return OPF_OK;
}

void opf_norm_touch(opf_planner *planner, const opf_norm_vector *vector)
{
    if (vector->constant == NULL && vector->place.buffer != 0)
        opf_plan_reads(planner, &vector->place);
}

void opf_norm_may_share(opf_planner *planner, const opf_place *y, const opf_place *x, const opf_norm_vector *gamma,
                        const opf_norm_vector *beta, const opf_bound *epilogue, const opf_place *operands)
{
    if (gamma->place.buffer == x->buffer || beta->place.buffer == x->buffer)
        return;
    for (uint32_t i = 0; i < epilogue->program.n_operands; i++)
        if (operands[i].buffer == x->buffer)
            return;
    opf_plan_may_share(planner, y, x);
}
