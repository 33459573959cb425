/* SPDX-License-Identifier: Apache-2.0 */
/* Concat: every part is copied to its slice of the result, in the layout of the first part. */
#include "plan/planner.h"

opf_status opf_lower_concat(opf_planner *planner, opf_node_id id, bool *done, opf_error *error)
{
    const opf_node *node = opf_graph_node(planner->graph, id);
    const opf_info *info = &planner->infos[node->outputs[0]];
    if (node->op != &opf_op_Concat || node->epilogue.n != 0 || opf_type_size(info->type) == 0)
        return OPF_OK;
    *done = true;
    opf_place y, first;
    int32_t   order[OPF_MAX_RANK];
    int64_t   axis = opf_node_int(node, "axis", 0), at = 0;
    axis += axis < 0 ? info->rank : 0;
    OPF_TRY(opf_plan_place(planner, node->inputs[0], &first, error));
    opf_place_order(&first, order);
    OPF_TRY(opf_plan_alloc(planner, node->outputs[0], order, &y, error));
    opf_place *parts  = OPF_NEW(planner->arena, opf_place, node->n_own_inputs);
    opf_place *slices = OPF_NEW(planner->arena, opf_place, node->n_own_inputs);
    OPF_OOM_IF(error, parts == NULL || slices == NULL);
    for (uint32_t i = 0; i < node->n_own_inputs; i++) {
        OPF_TRY(opf_plan_place(planner, node->inputs[i], &parts[i], error));
        slices[i]            = y;
        slices[i].dims[axis] = parts[i].dims[axis];
        slices[i].offset += at * y.strides[axis];
        at += parts[i].dims[axis];
    }
    return opf_plan_copies(planner, "concat", parts, slices, node->n_own_inputs, error);
}
