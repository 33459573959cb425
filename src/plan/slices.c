/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Concat as a view: a part that a kernel computes is written where the result has it, a slice with the strides of the whole,
 * and nothing is copied. Concats are taken from the last to the first, so that the largest result is the one that holds a
 * value; an earlier Concat whose parts lie side by side in it already (the features of a dense block) is a slice itself. One along
 * another axis, or behind an Unsqueeze (the stacked keys and values of a decoder), is a slice too, and holds its own parts.
 *
 * Sound, because each place has one writer: a value lies in one whole at most, two values overlap only if one is a Concat of
 * the other, and the buffer lives from the first part's write to the last read of any of them.
 */
#include "plan/planner.h"

bool opf_plan_is_joined(const opf_planner *planner, const opf_node *node)
{
    return node->op == &opf_op_Concat && node->epilogue.n == 0 && opf_type_size(planner->infos[node->outputs[0]].type) != 0;
}

int32_t opf_plan_joined_axis(const opf_planner *planner, const opf_node *concat)
{
    const int64_t axis = opf_node_int(concat, "axis", 0);
    return (int32_t)(axis < 0 ? axis + planner->infos[concat->outputs[0]].rank : axis);
}

/* ---- shuffled channels ---- */

static const opf_node *only_reader(const opf_planner *planner, opf_value_id value, const opf_op *op)
{
    const opf_use  *use  = opf_graph_single_use(planner->graph, value);
    const opf_node *node = use == NULL || use->node == 0 ? NULL : opf_graph_node(planner->graph, use->node);
    return node != NULL && node->op == op && node->epilogue.n == 0 && use->input == 0 ? node : NULL;
}

static bool same_dims(const opf_info *a, int32_t first_a, const opf_info *b, int32_t first_b, int32_t n)
{
    bool same = true;
    for (int32_t i = 0; i < n; i++)
        same = same && a->dims[first_a + i].n == b->dims[first_b + i].n;
    return same;
}

/* Concat, Reshape that takes the parts apart, Transpose that swaps them with what they hold, Reshape that joins both. */
opf_value_id opf_plan_shuffled(const opf_planner *planner, const opf_node *concat)
{
    const opf_info *whole = &planner->infos[concat->outputs[0]];
    const opf_node *apart = only_reader(planner, concat->outputs[0], &opf_op_Reshape);
    const opf_node *swap  = apart == NULL ? NULL : only_reader(planner, apart->outputs[0], &opf_op_Transpose);
    const opf_node *join  = swap == NULL ? NULL : only_reader(planner, swap->outputs[0], &opf_op_Reshape);
    const int32_t  *order = apart == NULL ? NULL : planner->order_of[apart->outputs[0]];
    if (join == NULL || order == NULL || planner->output_of[concat->outputs[0]] != 0 || planner->output_of[apart->outputs[0]] != 0)
        return 0;
    const opf_info *parts = &planner->infos[apart->outputs[0]], *joined = &planner->infos[join->outputs[0]];
    const int32_t   axis  = opf_plan_joined_axis(planner, concat);
    if (parts->rank != whole->rank + 1 || joined->rank != whole->rank || !same_dims(whole, 0, joined, 0, whole->rank) ||
        !same_dims(whole, 0, parts, 0, axis) || !same_dims(whole, axis + 1, parts, axis + 2, whole->rank - axis - 1) ||
        parts->dims[axis].n != (int64_t)concat->n_own_inputs || concat->n_own_inputs < 2)
        return 0;
    for (int32_t i = 0; i < parts->rank; i++)
        if (order[i] != (i == axis ? axis + 1 : i == axis + 1 ? axis : i))
            return 0;
    for (uint32_t i = 0; i < concat->n_own_inputs; i++)
        if (planner->infos[concat->inputs[i]].dims[axis].n != parts->dims[axis + 1].n)
            return 0;
    return apart->outputs[0];
}

/* ---- who may lie in a slice ---- */

enum { DEPTH = 4 }; /* views behind views that are followed */

/* Reads a slice as it would read dense memory, without a copy. Images want one stride from pixel to pixel. */
static bool takes_slices(const opf_planner *planner, opf_value_id value, int32_t axis, int depth)
{
    const opf_value *v = opf_graph_value(planner->graph, value);
    if (planner->output_of[value] != 0)
        return false;
    for (uint32_t u = 0; u < v->n_uses; u++) {
        const opf_node *reader = v->uses[u].node == 0 ? NULL : opf_graph_node(planner->graph, v->uses[u].node);
        if (reader == NULL || reader->op == NULL)
            return false;
        const opf_op *op    = reader->op;
        const bool    image = op == &opf_op_Conv || op == &opf_op_MaxPool || op == &opf_op_AveragePool || op == &opf_op_GlobalAveragePool ||
                           op == &opf_op_GlobalMaxPool || op == &opf_op_BatchNormalization;
        const bool view = opf_plan_is_view(planner, reader);
        const bool any  = op == &opf_op_Concat || op == &opf_op_Resize || op == &opf_op_Attention ||
                         (op->traits & (OPF_ELEMENTWISE | OPF_SHAPE_ONLY)) != 0;
        const bool kept = op == &opf_op_Split || op == &opf_op_Slice || op == &opf_op_Identity, apart = op == &opf_op_Unsqueeze;
        if (view ? depth == 0 || (!kept && !apart) : !any && !(image && axis < 2))
            return false;
        for (uint32_t o = 0; view && o < reader->n_outputs; o++) /* no image is behind an Unsqueeze */
            if (reader->outputs[o] != 0 && !takes_slices(planner, reader->outputs[o], apart ? OPF_MAX_RANK : axis, depth - 1))
                return false;
    }
    return true;
}

/* A part of the channels that a convolution may write to places of their own. */
static bool is_product_part(const opf_planner *planner, const opf_node *split, int32_t axis)
{
    const opf_node_id source = opf_graph_value(planner->graph, split->inputs[0])->producer;
    return split->op == &opf_op_Split && axis == 1 && source != 0 && opf_graph_node(planner->graph, source)->op == &opf_op_Conv &&
           opf_plan_split_of(planner, split->inputs[0], axis) == split;
}

/* Why the value needs memory of its own; NULL: it does not. */
static const char *refuse(const opf_planner *planner, opf_value_id value, int32_t axis, const bool *work)
{
    const opf_value *v = opf_graph_value(planner->graph, value);
    const opf_node  *producer = opf_graph_node(planner->graph, v->producer);
    if (v->producer == 0 || !work[v->producer] || producer->op == NULL || opf_info_is_known(&planner->infos[value]))
        return "is not computed by a kernel of this plan";
    if (planner->output_of[value] != 0)
        return "is an output, or becomes one";
    if (opf_plan_is_view(planner, producer) && !is_product_part(planner, producer, axis))
        return "is seen where it lies, in the result of another";
    return takes_slices(planner, value, axis, DEPTH) ? NULL : "is also read by what takes dense memory only";
}

/* ---- wholes and their slices ---- */

/* All inputs lie in one whole already, one behind the other: the result is there too. */
static bool is_run(const opf_planner *planner, const opf_node *concat, int32_t axis)
{
    const opf_slice *first = &planner->slices[concat->inputs[0]];
    int64_t          at    = first->at;
    for (uint32_t i = 0; i < concat->n_own_inputs; i++) {
        const opf_slice *part = &planner->slices[concat->inputs[i]];
        if (part->whole == 0 || part->whole != first->whole || part->axis != axis || part->dropped != 0 || part->at != at)
            return false;
        at += planner->infos[concat->inputs[i]].dims[axis].n;
    }
    return takes_slices(planner, concat->outputs[0], axis, DEPTH);
}

/* The value that an Unsqueeze gave the one axis more; 0: there is none. */
static opf_value_id before_unsqueeze(const opf_planner *planner, opf_value_id value, int32_t *dropped)
{
    const opf_node *node = opf_graph_node(planner->graph, opf_graph_value(planner->graph, value)->producer);
    const opf_info *axes = node->op == &opf_op_Unsqueeze ? &planner->infos[node->inputs[1]] : NULL;
    if (axes == NULL || !opf_plan_is_view(planner, node) || !opf_info_is_known(axes) || axes->n_values != 1 ||
        opf_graph_single_use(planner->graph, value) == NULL || planner->slices[node->inputs[0]].whole != 0)
        return 0;
    const int64_t axis = axes->values[0].n;
    *dropped = 1 + (int32_t)(axis < 0 ? axis + planner->infos[value].rank : axis);
    return node->inputs[0];
}

static void take_parts(opf_planner *planner, const opf_node *concat, const bool *work)
{
    const int32_t axis = opf_plan_joined_axis(planner, concat);
    opf_slice    *own  = &planner->slices[concat->outputs[0]];
    if (opf_plan_shuffled(planner, concat) != 0)
        return; /* elements of one part lie apart */
    if (own->whole == 0 && is_run(planner, concat, axis)) {
        *own = planner->slices[concat->inputs[0]];
        return;
    }
    opf_slice next = *own;
    if (own->whole == 0 || own->axis != axis || own->dropped != 0) /* a whole of its own, perhaps in a larger one */
        next = (opf_slice){.whole = concat->outputs[0], .axis = axis};
    for (uint32_t i = 0; i < concat->n_own_inputs; i++) {
        const opf_value_id value = concat->inputs[i];
        opf_slice         *part  = &planner->slices[value];
        if (part->whole == 0 && part->why == NULL) {
            const opf_value_id apart = before_unsqueeze(planner, value, &next.dropped);
            opf_slice         *own_part = &planner->slices[apart != 0 ? apart : value];
            part->why = refuse(planner, apart != 0 ? apart : value, apart != 0 ? OPF_MAX_RANK : axis, work);
            if (part->why == NULL && own_part->whole == 0)
                *own_part = next;
            next.dropped = 0;
            if (part->why == NULL)
                *part = next;
        }
        next.at += planner->infos[value].dims[axis].n;
    }
}

opf_status opf_plan_mark_slices(opf_planner *planner, const bool *work, opf_error *error)
{
    const opf_plan *plan = planner->plan;
    planner->slices      = OPF_NEW(planner->arena, opf_slice, planner->graph->n_values);
    OPF_OOM_IF(error, planner->slices == NULL);
    for (uint32_t k = plan->end; k-- > plan->begin && !planner->options->reference;) {
        const opf_node *node = opf_graph_node(planner->graph, plan->order[k]);
        if (work[plan->order[k]] && opf_plan_is_joined(planner, node))
            take_parts(planner, node, work);
    }
    return OPF_OK;
}

/* ---- places ---- */

bool opf_plan_slice(const opf_planner *planner, opf_value_id value, opf_place *place)
{
    const opf_slice *slice = &planner->slices[value];
    if (slice->whole == 0 || planner->places[slice->whole].buffer == 0)
        return false;
    *place = planner->places[slice->whole];
    place->offset += slice->at * place->strides[slice->axis];
    for (int32_t i = slice->dropped; slice->dropped != 0 && i < place->rank; i++) {
        place->dims[i - 1]    = place->dims[i];
        place->strides[i - 1] = place->strides[i];
    }
    place->rank -= slice->dropped != 0;
    if (slice->dropped != 1 + slice->axis) {
        const int32_t axis = slice->dropped != 0 && slice->axis >= slice->dropped ? slice->axis - 1 : slice->axis;
        place->dims[axis]  = planner->infos[value].dims[axis].n;
    }
    return true;
}

bool opf_plan_slice_has_order(const opf_place *slice, const int32_t *order)
{
    int64_t before = INT64_MAX;
    for (int32_t i = 0; i < slice->rank; i++) {
        const int32_t axis = order != NULL ? order[i] : i;
        if (slice->dims[axis] == 1)
            continue;
        if (slice->strides[axis] >= before)
            return false;
        before = slice->strides[axis];
    }
    return true;
}

/* Kernels write neighbours along the fastest axis that has more than one element. */
static bool is_row(const opf_place *slice)
{
    int64_t least = INT64_MAX;
    for (int32_t i = 0; i < slice->rank; i++)
        if (slice->dims[i] != 1 && slice->strides[i] < least)
            least = slice->strides[i];
    return least == 1 || least == INT64_MAX;
}

/* One stride from pixel to pixel; channels side by side, or planes of neighbours. */
static bool is_image(const opf_place *slice, bool planes)
{
    int64_t pixel;
    return opf_place_linear(slice, 2, slice->rank - 1, &pixel) &&
           (planes ? pixel == 1 || pixel == 0 : slice->dims[1] == 1 || slice->strides[1] == 1);
}

static opf_status alloc(opf_planner *planner, opf_value_id value, const int32_t *order, bool image, opf_place *place, opf_error *error)
{
    const opf_slice *slice = &planner->slices[value];
    if (slice->whole != 0 && planner->places[slice->whole].buffer == 0)
        OPF_TRY(alloc(planner, slice->whole, slice->dropped == 0 ? order : NULL, image, place, error));
    if (!opf_plan_slice(planner, value, place) || !opf_plan_slice_has_order(place, order) ||
        !(image ? is_image(place, order == NULL) : is_row(place)))
        return opf_plan_alloc(planner, value, order, place, error);
    planner->places[value] = *place;
    return OPF_OK;
}

opf_status opf_plan_alloc_slice(opf_planner *planner, opf_value_id value, const int32_t *order, opf_place *place, opf_error *error)
{
    return alloc(planner, value, order, false, place, error);
}

opf_status opf_plan_alloc_image(opf_planner *planner, opf_value_id value, const int32_t *order, opf_place *place, opf_error *error)
{
    return alloc(planner, value, order, true, place, error);
}

/* Behind a Transpose, its only reader, the value has the order of `order` with its axes renamed. */
static bool wants_transposed(const opf_planner *planner, opf_value_id value, const int32_t *order)
{
    const int32_t *perm = planner->order_of[value];
    int32_t        at[OPF_MAX_RANK], renamed[OPF_MAX_RANK];
    if (perm == NULL)
        return false;
    const opf_use *use = opf_graph_single_use(planner->graph, value);
    for (int32_t i = 0; i < planner->infos[value].rank; i++)
        at[perm[i]] = i;
    for (int32_t i = 0; i < planner->infos[value].rank; i++)
        renamed[i] = at[order[i]];
    return opf_plan_wants_row_major(planner, opf_graph_node(planner->graph, use->node)->outputs[0], renamed);
}

opf_status opf_plan_alloc_strided(opf_planner *planner, opf_value_id value, const int32_t *order, opf_place *place, opf_error *error)
{
    if (opf_plan_slice(planner, value, place)) {
        planner->places[value] = *place;
        return OPF_OK;
    }
    if (opf_plan_wants_row_major(planner, value, order))
        order = NULL;
    else if (wants_transposed(planner, value, order))
        order = planner->order_of[value];
    return opf_plan_alloc_slice(planner, value, order, place, error);
}
