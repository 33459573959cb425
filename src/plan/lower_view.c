/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that only say where elements are: views of their input, or one copy where strides cannot express them. */
#include "plan/planner.h"

#include <string.h>

static void dims_of(const opf_planner *planner, opf_value_id value, int32_t *rank, int64_t *dims)
{
    const opf_info *info = &planner->infos[value];
    *rank                = info->rank;
    for (int32_t i = 0; i < info->rank; i++)
        dims[i] = info->dims[i].n;
}

static opf_status view_reshape(opf_planner *planner, const opf_node *node, const opf_place *x, opf_error *error)
{
    int32_t   rank;
    int64_t   dims[OPF_MAX_RANK];
    opf_place view;
    dims_of(planner, node->outputs[0], &rank, dims);
    if (opf_place_reshape(x, rank, dims, &view)) {
        planner->places[node->outputs[0]] = view;
        return OPF_OK;
    }
    /* One copy: the result is dense, and the input is written to it under its own dims. */
    opf_place dense, as_input;
    int32_t   order[OPF_MAX_RANK];
    opf_place_reshape_order(x, rank, dims, order);
    OPF_TRY(opf_plan_alloc(planner, node->outputs[0], order, &dense, error));
    if (!opf_place_reshape(&dense, x->rank, x->dims, &as_input))
        return opf_fail(error, OPF_INTERNAL, "a dense tensor cannot be reshaped");
    return opf_plan_copy(planner, "copy_reshape", x, &as_input, error);
}

static void view_transpose(opf_planner *planner, const opf_node *node, const opf_place *x)
{
    const opf_attr *perm = opf_node_attr(node, "perm");
    opf_place       view = *x;
    for (int32_t i = 0; i < x->rank; i++) {
        int32_t axis    = perm != NULL ? (int32_t)perm->ints[i] : x->rank - 1 - i;
        view.dims[i]    = x->dims[axis];
        view.strides[i] = x->strides[axis];
    }
    planner->places[node->outputs[0]] = view;
}

static void view_split(opf_planner *planner, const opf_node *node, const opf_place *x)
{
    int64_t axis = opf_node_int(node, "axis", 0), at = 0;
    axis += axis < 0 ? x->rank : 0;
    for (uint32_t o = 0; o < node->n_outputs; o++) {
        if (node->outputs[o] == 0)
            continue; /* sizes of parts that nobody wants are not known: handled by the caller */
        opf_place view  = *x;
        view.dims[axis] = planner->infos[node->outputs[o]].dims[axis].n;
        view.offset += at * x->strides[axis];
        at += view.dims[axis];
        planner->places[node->outputs[o]] = view;
    }
}

static bool all_wanted(const opf_node *node)
{
    for (uint32_t o = 0; o < node->n_outputs; o++)
        if (node->outputs[o] == 0)
            return false;
    return true;
}

static bool known(const opf_planner *planner, const opf_node *node, uint32_t input)
{
    return input >= node->n_own_inputs || node->inputs[input] == 0 || opf_info_is_known(&planner->infos[node->inputs[input]]);
}

/* Input `input`, number i of it, or otherwise when it is absent. */
static int64_t number(const opf_planner *planner, const opf_node *node, uint32_t input, int32_t i, int64_t otherwise)
{
    return input >= node->n_own_inputs || node->inputs[input] == 0 ? otherwise : planner->infos[node->inputs[input]].values[i].n;
}

/* Shape inference has done the clamping: only the first element's place is left to find. */
static void view_slice(opf_planner *planner, const opf_node *node, const opf_place *x)
{
    const opf_info *starts = &planner->infos[node->inputs[1]], *out = &planner->infos[node->outputs[0]];
    opf_place       view   = *x;
    for (int32_t i = 0; i < starts->n_values; i++) {
        int64_t axis = number(planner, node, 3, i, i), step = number(planner, node, 4, i, 1), start = starts->values[i].n;
        axis += axis < 0 ? x->rank : 0;
        int64_t n = x->dims[axis];
        start     = start < 0 ? (start < -n ? -1 : start + n) : start;
        if (step > 0)
            start = start < 0 ? 0 : start > n ? n : start;
        else
            start = start < 0 ? (starts->values[i].n < -n ? 0 : start) : start > n - 1 ? n - 1 : start;
        view.dims[axis] = out->dims[axis].n;
        if (view.dims[axis] > 0)
            view.offset += start * x->strides[axis];
        if (view.dims[axis] > 1) /* then the step is shorter than the axis */
            view.strides[axis] = x->strides[axis] * step;
    }
    planner->places[node->outputs[0]] = view;
}

static void view_expand(opf_planner *planner, const opf_node *node, const opf_place *x)
{
    int32_t rank;
    int64_t dims[OPF_MAX_RANK];
    dims_of(planner, node->outputs[0], &rank, dims);
    planner->places[node->outputs[0]] = opf_place_broadcast(x, rank, dims);
}

static bool is_reshape(const opf_op *op)
{
    return op == &opf_op_Reshape || op == &opf_op_Flatten || op == &opf_op_Squeeze || op == &opf_op_Unsqueeze;
}

static bool is_same(const opf_node *node)
{
    return node->op == &opf_op_Identity || (node->op == &opf_op_Dropout && node->n_outputs == 1 && all_wanted(node));
}

bool opf_plan_is_view(const opf_planner *planner, const opf_node *node)
{
    const opf_op *op = node->op;
    if (node->epilogue.n != 0 || node->prologue.n != 0 || node->n_inputs == 0 || node->inputs[0] == 0 ||
        opf_type_size(planner->infos[node->inputs[0]].type) == 0)
        return false;
    return is_reshape(op) || is_same(node) || op == &opf_op_Transpose || op == &opf_op_Expand || (op == &opf_op_Split && all_wanted(node)) ||
           (op == &opf_op_Slice && known(planner, node, 1) && known(planner, node, 3) && known(planner, node, 4));
}

opf_status opf_lower_view(opf_planner *planner, opf_node_id id, bool *done, opf_error *error)
{
    const opf_node *node = opf_graph_node(planner->graph, id);
    const opf_op   *op   = node->op;
    if (!opf_plan_is_view(planner, node))
        return OPF_OK;
    opf_place x;
    *done = true;
    if ((op == &opf_op_Split || is_reshape(op)) && planner->places[node->outputs[0]].buffer != 0)
        return OPF_OK; /* the product before it has written its parts, the Concat what it shuffles */
    OPF_TRY(opf_plan_place(planner, node->inputs[0], &x, error));
    if (is_reshape(op))
        return view_reshape(planner, node, &x, error);
    if (is_same(node))
        planner->places[node->outputs[0]] = x;
    else if (op == &opf_op_Split)
        view_split(planner, node, &x);
    else if (op == &opf_op_Slice)
        view_slice(planner, node, &x);
    else if (op == &opf_op_Expand)
        view_expand(planner, node, &x);
    else
        view_transpose(planner, node, &x);
    return OPF_OK;
}
