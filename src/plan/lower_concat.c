/* SPDX-License-Identifier: Apache-2.0 */
/* Concat: a view where its parts were written in their slices of the result (slices.c). What was not is copied there, and parts
   whose channels are shuffled straight to the shuffled places. */
#include "plan/planner.h"

/* ---- shuffled channels ---- */

/* The parts go straight to where the shuffle has them: what follows are views. */
static opf_status lower_shuffled(opf_planner *planner, const opf_node *node, opf_value_id apart, opf_error *error)
{
    opf_place first, y;
    int32_t   order[OPF_MAX_RANK], apart_order[OPF_MAX_RANK], n = 0;
    OPF_TRY(opf_plan_place(planner, node->inputs[0], &first, error));
    const int32_t axis = opf_plan_joined_axis(planner, node);
    opf_place_order(&first, order);
    for (int32_t i = 0; i < first.rank; i++) {
        apart_order[n++] = order[i] < axis ? order[i] : order[i] + 1;
        if (order[i] == axis)
            apart_order[n++] = axis;
    }
    OPF_TRY(opf_plan_alloc(planner, apart, apart_order, &y, error));
    opf_place *src = OPF_NEW(planner->arena, opf_place, node->n_own_inputs), *dst = OPF_NEW(planner->arena, opf_place, node->n_own_inputs);
    OPF_OOM_IF(error, src == NULL || dst == NULL);
    for (uint32_t i = 0; i < node->n_own_inputs; i++) {
        OPF_TRY(opf_plan_place(planner, node->inputs[i], &src[i], error));
        dst[i]        = src[i];
        dst[i].buffer = y.buffer;
        dst[i].offset = y.offset + (int64_t)i * y.strides[axis];
        for (int32_t k = 0; k < first.rank; k++)
            dst[i].strides[k] = y.strides[k < axis ? k : k + 1];
    }
    OPF_TRY(opf_plan_interleave(planner, "concat", src, dst, node->n_own_inputs, error));
    opf_plan_step *step = &planner->plan->steps[planner->plan->n_steps - 1];
    step->copied        = node->inputs[0];
    step->why           = "is shuffled with the others";
    return OPF_OK;
}

/* ---- slices ---- */

/* Where the result lies: as a part of another one, as the whole of parts that are there, or else in the first part's order. */
static opf_status place_result(opf_planner *planner, const opf_node *node, opf_place *y, opf_error *error)
{
    const opf_value_id value = node->outputs[0];
    int32_t            order[OPF_MAX_RANK];
    opf_place          first;
    if (planner->places[value].buffer == 0 && opf_plan_slice(planner, value, y))
        planner->places[value] = *y;
    if (planner->places[value].buffer != 0)
        return opf_plan_place(planner, value, y, error);
    OPF_TRY(opf_plan_place(planner, node->inputs[0], &first, error));
    opf_place_order(&first, order);
    return opf_plan_alloc_slice(planner, value, opf_plan_wants_row_major(planner, value, order) ? NULL : order, y, error);
}

static bool is_there(const opf_place *part, const opf_place *slice)
{
    bool same = part->buffer == slice->buffer && part->offset == slice->offset;
    for (int32_t i = 0; i < slice->rank; i++)
        same = same && (slice->dims[i] == 1 || part->strides[i] == slice->strides[i]);
    return same || opf_place_elements(slice) == 0;
}

static bool belongs(const opf_planner *planner, opf_value_id value, const opf_place *slice)
{
    opf_place own;
    return opf_plan_slice(planner, value, &own) && is_there(&own, slice);
}

/* For explain: the first part that is copied. */
static void say_why(opf_planner *planner, opf_value_id part, const opf_place *slice)
{
    opf_plan_step *step = &planner->plan->steps[planner->plan->n_steps - 1];
    const char    *why  = planner->slices[part].why;
    step->copied        = part;
    step->why           = why != NULL                         ? why
                          : belongs(planner, part, slice) ? "comes from a kernel that writes dense memory only, or in another order"
                                                          : "has its place elsewhere, in this or another Concat";
}

opf_status opf_lower_concat(opf_planner *planner, opf_node_id id, bool *done, opf_error *error)
{
    const opf_node *node = opf_graph_node(planner->graph, id);
    if (!opf_plan_is_joined(planner, node))
        return OPF_OK;
    *done = true;
    const opf_value_id shuffled = opf_plan_shuffled(planner, node);
    if (shuffled != 0)
        return lower_shuffled(planner, node, shuffled, error);
    const int32_t axis = opf_plan_joined_axis(planner, node);
    int64_t       at   = 0;
    opf_place     y;
    OPF_TRY(place_result(planner, node, &y, error));
    const uint32_t parts  = node->n_own_inputs;
    opf_place     *slices = OPF_NEW(planner->arena, opf_place, parts), *src = OPF_NEW(planner->arena, opf_place, parts),
              *dst = OPF_NEW(planner->arena, opf_place, parts);
    OPF_OOM_IF(error, slices == NULL || src == NULL || dst == NULL);
    uint32_t n = 0, first = 0;
    for (uint32_t i = 0; i < parts; i++) {
        OPF_TRY(opf_plan_place(planner, node->inputs[i], &src[n], error));
        slices[i]            = y;
        slices[i].dims[axis] = src[n].dims[axis];
        slices[i].offset += at * y.strides[axis];
        at += src[n].dims[axis];
        if (is_there(&src[n], &slices[i]))
            continue;
        first  = n == 0 ? i : first;
        dst[n] = slices[i];
        n++;
    }
    if (n == 0)
        return OPF_OK;
    OPF_TRY(opf_plan_copies(planner, "concat", src, dst, n, error));
    say_why(planner, node->inputs[first], &slices[first]);
    for (uint32_t i = 0; i < parts; i++) /* now it is there, for a Concat of this one */
        if (belongs(planner, node->inputs[i], &slices[i]))
            planner->places[node->inputs[i]] = slices[i];
    return OPF_OK;
}
