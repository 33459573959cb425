/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chains of data movement become one node that reads past the others, and the target of a Reshape becomes a constant:
 * 0 where a dimension is copied, at most one -1 where it is not a number. That ends the shape arithmetic of dynamic
 * exports.
 */
#include "simplify/passes.h"

static const opf_node *producer_of(const opf_graph *graph, opf_value_id value)
{
    const opf_value *v = opf_graph_value(graph, value);
    if (value == 0 || v->producer == 0 || !opf_simplify_is_plain(opf_graph_node(graph, v->producer)))
        return NULL;
    return opf_graph_node(graph, v->producer);
}

/* Makes `id` read what `inner` reads; inner's names go along if nothing else reads it. */
static bool read_past(opf_graph *graph, opf_node_id id, opf_node_id inner)
{
    const opf_value_id between = opf_graph_node(graph, id)->inputs[0];
    if (opf_graph_single_use(graph, between) != NULL && !opf_node_join_origin(graph, id, inner))
        return false;
    return opf_graph_set_input(graph, id, 0, opf_graph_node(graph, inner)->inputs[0]);
}

/* ---- Transpose of Transpose ---- */

bool opf_simplify_perm(const opf_graph *graph, const opf_node *node, int64_t *perm, int32_t *rank)
{
    const opf_attr *attr = opf_node_attr(node, "perm");
    *rank = opf_graph_value(graph, node->outputs[0])->info.rank;
    if (*rank < 0 || *rank > OPF_MAX_RANK || (attr != NULL && attr->n != (uint32_t)*rank))
        return false;
    for (int32_t i = 0; i < *rank; i++) {
        perm[i] = attr != NULL ? attr->ints[i] : *rank - 1 - i;
        if (perm[i] < 0 || perm[i] >= *rank)
            return false;
    }
    return true;
}

static opf_status merge_transpose(opf_graph *graph, opf_node_id id, bool *changed, opf_error *error)
{
    const opf_node *outer = opf_graph_node(graph, id);
    const opf_node *inner = producer_of(graph, outer->inputs[0]);
    int64_t p[OPF_MAX_RANK], q[OPF_MAX_RANK], perm[OPF_MAX_RANK];
    int32_t rank = 0, inner_rank = 0;
    if (inner == NULL || inner->op != &opf_op_Transpose || !opf_simplify_perm(graph, outer, p, &rank) ||
        !opf_simplify_perm(graph, inner, q, &inner_rank) || rank != inner_rank)
        return OPF_OK;
    for (int32_t i = 0; i < rank; i++)
        perm[i] = q[p[i]];
    OPF_OOM_IF(error, !read_past(graph, id, opf_graph_value(graph, outer->inputs[0])->producer) ||
                          !opf_node_set_ints(graph, id, "perm", perm, (uint32_t)rank));
    *changed = true;
    return OPF_OK;
}

/* ---- Cast of Cast ---- */

/* Bits of an integer's magnitude, of a float's significand. */
static int precision(opf_type type)
{
    switch (type) {
    case OPF_BOOL:
        return 1;
    case OPF_UINT8:
        return 8;
    case OPF_INT8:
        return 7;
    case OPF_UINT16:
        return 16;
    case OPF_INT16:
        return 15;
    case OPF_UINT32:
        return 32;
    case OPF_INT32:
        return 31;
    case OPF_UINT64:
        return 64;
    case OPF_INT64:
        return 63;
    case OPF_BFLOAT16:
        return 8;
    case OPF_FLOAT16:
        return 11;
    case OPF_FLOAT:
        return 24;
    case OPF_DOUBLE:
        return 53;
    default:
        return 0;
    }
}

/* Every value of `from` is a value of `to`. */
static bool is_lossless(opf_type from, opf_type to)
{
    const bool from_float = opf_types_have(OPF_TYPES_FLOAT, from), to_float = opf_types_have(OPF_TYPES_FLOAT, to);
    if (precision(from) == 0 || precision(from) > precision(to))
        return false;
    if (from_float)
        return to_float && (from == to || to == OPF_FLOAT || to == OPF_DOUBLE);
    return to_float || !opf_types_have(OPF_TYPES_SINT, from) || opf_types_have(OPF_TYPES_SINT, to);
}

static opf_status merge_cast(opf_graph *graph, opf_node_id id, bool *changed, opf_error *error)
{
    const opf_node *outer = opf_graph_node(graph, id);
    const opf_node *inner = producer_of(graph, outer->inputs[0]);
    if (inner == NULL || inner->op != &opf_op_Cast)
        return OPF_OK;
    const opf_type from = opf_graph_value(graph, inner->inputs[0])->info.type;
    const opf_type mid = opf_graph_value(graph, outer->inputs[0])->info.type;
    if (!is_lossless(from, mid))
        return OPF_OK;
    OPF_OOM_IF(error, !read_past(graph, id, opf_graph_value(graph, outer->inputs[0])->producer));
    *changed = true;
    return OPF_OK;
}

/* ---- Where of Not ---- */

static opf_status merge_where(opf_graph *graph, opf_node_id id, bool *changed, opf_error *error)
{
    const opf_node *inner = producer_of(graph, opf_graph_node(graph, id)->inputs[0]);
    if (inner == NULL || inner->op != &opf_op_Not || inner->inputs[0] == 0)
        return OPF_OK;
    const opf_value_id x = opf_graph_node(graph, id)->inputs[1], y = opf_graph_node(graph, id)->inputs[2];
    OPF_OOM_IF(error, !read_past(graph, id, opf_graph_value(graph, opf_graph_node(graph, id)->inputs[0])->producer) ||
                          !opf_graph_set_input(graph, id, 1, y) || !opf_graph_set_input(graph, id, 2, x));
    *changed = true;
    return OPF_OK;
}

/* ---- reshapes ---- */

static bool is_reshape(const opf_node *node)
{
    return node->op == &opf_op_Reshape || node->op == &opf_op_Squeeze || node->op == &opf_op_Unsqueeze ||
           node->op == &opf_op_Flatten;
}

bool opf_simplify_target(const opf_info *in, const opf_info *out, int64_t *target)
{
    bool inferred = false;
    if (in->rank < 0 || out->rank < 0 || out->rank > OPF_MAX_RANK)
        return false;
    for (int32_t i = 0; i < out->rank; i++) {
        const opf_dim d = out->dims[i];
        if (opf_dim_is_number(d) && d.n > 0) {
            target[i] = d.n;
        } else if (i < in->rank && opf_dim_equal(d, in->dims[i])) {
            target[i] = 0;
        } else if (!inferred && !opf_dim_is_number(d)) {
            target[i] = -1;
            inferred = true;
        } else {
            return false;
        }
    }
    return true;
}

bool opf_simplify_make_reshape(opf_graph *graph, opf_node_id id, const int64_t *target)
{
    const int32_t rank = opf_graph_value(graph, opf_graph_node(graph, id)->outputs[0])->info.rank;
    const opf_value_id shape = opf_graph_add_constant(graph, NULL, opf_const_ints(graph->consts, target, rank));
    opf_node *node = opf_graph_node(graph, id);
    if (shape == 0 || (node->n_own_inputs > 1 ? !opf_graph_set_input(graph, id, 1, shape)
                                              : !opf_graph_append_input(graph, id, shape)))
        return false;
    node->op = &opf_op_Reshape;
    node->op_type = opf_op_Reshape.name;
    node->n_attrs = 0;
    return true;
}

/* Turns `id` into Reshape(x, constant), where x may be further up; *done false: nothing done. */
static opf_status set_target(opf_graph *graph, opf_node_id id, opf_value_id x, opf_node_id inner, bool *done,
                             opf_error *error)
{
    const opf_info *out = &opf_graph_value(graph, opf_graph_node(graph, id)->outputs[0])->info;
    int64_t target[OPF_MAX_RANK];
    if (!opf_simplify_target(&opf_graph_value(graph, x)->info, out, target))
        return OPF_OK;
    OPF_OOM_IF(error, (inner != 0 && !read_past(graph, id, inner)) || !opf_simplify_make_reshape(graph, id, target));
    *done = true;
    return OPF_OK;
}

/* The constant axes of a Squeeze or Unsqueeze, marked; they count the dimensions of the tensor of this rank. */
static bool mark_axes(const opf_graph *graph, const opf_node *node, int32_t rank, bool *marked)
{
    const opf_value_id value = opf_simplify_input(node, 1);
    const opf_const *c = value != 0 ? opf_graph_value(graph, value)->constant : NULL;
    for (int32_t i = 0; i < OPF_MAX_RANK; i++)
        marked[i] = false;
    if (c == NULL || rank < 0 || rank > OPF_MAX_RANK || c->count > (size_t)rank)
        return false;
    for (size_t i = 0; i < c->count; i++) {
        const int64_t axis = opf_const_i64_at(c, i) + (opf_const_i64_at(c, i) < 0 ? rank : 0);
        if (axis < 0 || axis >= rank)
            return false;
        marked[axis] = true;
    }
    return true;
}

/* Two Unsqueezes, or two Squeezes, are one: its axes count the larger tensor, where those of the node that is next to
   the smaller one count what the other leaves. */
static opf_status merge_ones(opf_graph *graph, opf_node_id id, opf_node_id inner_id, bool *changed, opf_error *error)
{
    const opf_node *node = opf_graph_node(graph, id), *inner = opf_graph_node(graph, inner_id);
    if (node->op != inner->op || (node->op != &opf_op_Squeeze && node->op != &opf_op_Unsqueeze))
        return OPF_OK;
    const bool adds = node->op == &opf_op_Unsqueeze;
    const opf_node *far = adds ? node : inner, *near = adds ? inner : node; /* from the larger tensor */
    const int32_t rank = opf_graph_value(graph, adds ? node->outputs[0] : inner->inputs[0])->info.rank;
    const int32_t between = opf_graph_value(graph, node->inputs[0])->info.rank;
    bool first[OPF_MAX_RANK], second[OPF_MAX_RANK];
    int64_t axes[OPF_MAX_RANK];
    uint32_t n = 0;
    if (!mark_axes(graph, far, rank, first) || !mark_axes(graph, near, between, second))
        return OPF_OK;
    for (int32_t i = 0, left = 0; i < rank; i++)
        if (first[i] || second[left++])
            axes[n++] = i;
    const opf_value_id list = opf_graph_add_constant(graph, NULL, opf_const_ints(graph->consts, axes, n));
    OPF_OOM_IF(error, list == 0 || !read_past(graph, id, inner_id) || !opf_graph_set_input(graph, id, 1, list));
    *changed = true;
    return OPF_OK;
}

/* The target is no constant, or says "copy" where the dimension is a number: one spelling of all. */
static bool has_loose_target(const opf_graph *graph, const opf_node *node)
{
    const opf_const *c = opf_graph_value(graph, opf_simplify_input(node, 1))->constant;
    const opf_info *out = &opf_graph_value(graph, node->outputs[0])->info;
    for (int32_t i = 0; c != NULL && i < out->rank && (size_t)i < c->count; i++)
        if (opf_const_i64_at(c, (size_t)i) == 0 && opf_dim_is_number(out->dims[i]) && out->dims[i].n > 0)
            return true;
    return c == NULL;
}

static opf_status merge_reshape(opf_graph *graph, opf_node_id id, bool *changed, opf_error *error)
{
    const opf_node *node = opf_graph_node(graph, id);
    const opf_node *inner = producer_of(graph, node->inputs[0]);
    const opf_node_id inner_id = opf_graph_value(graph, node->inputs[0])->producer;
    bool done = false;
    if (inner != NULL && is_reshape(inner) && inner->inputs[0] != 0)
        OPF_TRY(set_target(graph, id, inner->inputs[0], inner_id, &done, error));
    if (!done && inner != NULL)
        OPF_TRY(merge_ones(graph, id, inner_id, &done, error));
    if (!done && node->op == &opf_op_Reshape && has_loose_target(graph, node))
        OPF_TRY(set_target(graph, id, node->inputs[0], 0, &done, error));
    *changed |= done;
    return OPF_OK;
}

static opf_status merge(opf_graph *graph, opf_node_id id, bool *changed, opf_error *error)
{
    const opf_node *node = opf_graph_node(graph, id);
    if (node->outputs[0] == 0)
        return OPF_OK;
    if (node->op == &opf_op_Transpose)
        return merge_transpose(graph, id, changed, error);
    if (node->op == &opf_op_Cast)
        return merge_cast(graph, id, changed, error);
    if (node->op == &opf_op_Where)
        return merge_where(graph, id, changed, error);
    return is_reshape(node) ? merge_reshape(graph, id, changed, error) : OPF_OK;
}

opf_status opf_merge_movement(opf_graph *graph, bool *changed, opf_error *error)
{
    return opf_simplify_each(graph, merge, changed, error);
}
