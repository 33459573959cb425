/* SPDX-License-Identifier: Apache-2.0 */
/*
 * InstanceNormalization, GroupNormalization, and MeanVarianceNormalization over the same axes: statistics of the pixels
 * of some channels. Channels-last images go by columns, others by lines.
 */
#include "plan/norm.h"

static bool group_mean_variance(const opf_node *node, int32_t rank, int64_t channels, opf_norm_lines *lines)
{
    static const int64_t images[] = {0, 2, 3};
    const opf_attr *attr = opf_node_attr(node, "axes");
    const int64_t *axes = attr != NULL ? attr->ints : images;
    const uint32_t n = attr != NULL ? attr->n : OPF_COUNT(images);
    bool marked[OPF_MAX_RANK] = {false};
    for (uint32_t i = 0; i < n; i++)
        marked[axes[i] < 0 ? axes[i] + rank : axes[i]] = true;
    for (int32_t i = 2; i < rank; i++)
        if (!marked[i])
            return false;
    if (marked[0] && marked[1])
        return false;
    lines->groups = marked[1] ? 1 : channels;
    lines->all_images = marked[0];
    return marked[0] || marked[1] || rank > 2;
}

static bool find_groups(const opf_node *node, int32_t rank, int64_t channels, opf_norm_lines *lines)
{
    if (node->op == &opf_op_MeanVarianceNormalization)
        return group_mean_variance(node, rank, channels, lines);
    lines->groups = channels;
    if (node->op == &opf_op_GroupNormalization)
        lines->groups = opf_node_int(node, "num_groups", 1);
    return node->op == &opf_op_GroupNormalization || node->op == &opf_op_InstanceNormalization;
}

/* Whether x can be taken by columns: its channels are neighbours, its pixels have one stride. */
static bool has_columns(const opf_place *x, size_t pixels)
{
    int64_t stride;
    return opf_place_linear(x, 2, x->rank - 1, &stride) && (pixels == 1 || x->dims[1] > 1) &&
           (x->dims[1] == 1 || x->strides[1] == 1);
}

opf_status opf_lower_group_norm(opf_planner *planner, opf_node_id id, bool *done, opf_error *error)
{
    const opf_node *node = opf_graph_node(planner->graph, id);
    if (node->op == NULL || (node->op->traits & OPF_NORMALIZATION) == 0)
        return OPF_OK;
    const opf_info *info = &planner->infos[node->inputs[0]];
    const char *kernel = node->op == &opf_op_GroupNormalization      ? "group_norm_f32"
                         : node->op == &opf_op_InstanceNormalization ? "instance_norm_f32"
                                                                     : "mean_variance_norm_f32";
    opf_lowered prologue = {0}, epilogue;
    opf_norm_lines lines = {.norm = opf_norm_of(node)};
    size_t pixels = 1;
    opf_place x;
    bool ok = true;
    if (info->type != OPF_FLOAT || info->rank < 2 || !find_groups(node, info->rank, info->dims[1].n, &lines) ||
        node->prologue.n != 0 || !opf_lower_steps(planner, node, &node->epilogue, &epilogue))
        return OPF_OK;
    OPF_TRY(opf_norm_take_vector(planner, node, 1, info->dims[1].n, &lines.gamma, &ok, error));
    OPF_TRY(opf_norm_take_vector(planner, node, 2, info->dims[1].n, &lines.beta, &ok, error));
    if (!ok)
        return OPF_OK;
    *done = true;
    for (int32_t i = 2; i < info->rank; i++)
        pixels *= (size_t)info->dims[i].n;
    OPF_TRY(opf_plan_place(planner, node->inputs[0], &x, error));
    lines.all_images = lines.all_images && x.dims[0] != 1;
    if (pixels == 1 && !lines.all_images && x.dims[1] != 1 && x.strides[1] != 1)
        OPF_TRY(opf_plan_dense(planner, &x, NULL, error));
    if (lines.all_images || !has_columns(&x, pixels))
        return opf_plan_norm_lines(planner, node, &lines, &x, &epilogue, kernel, error);
    const opf_norm_columns columns = {
        .norm = lines.norm,
        .split = {.outer_first = 0, .outer_last = 0, .row_first = 2, .row_last = x.rank - 1, .col = 1},
        .fold = (size_t)(x.dims[1] / lines.groups),
        .gamma = lines.gamma,
        .beta = lines.beta};
    return opf_plan_norm_columns(planner, node, &columns, &x, &prologue, &epilogue, kernel, error);
}
