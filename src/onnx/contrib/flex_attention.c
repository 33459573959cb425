/* SPDX-License-Identifier: Apache-2.0 */
/*
 * FlexAttention: the standard Attention, unless graphs change the scores before the softmax or the probabilities behind
 * it. Then it is taken apart, and each graph becomes a branch that is always taken: what simplify knows of constant
 * conditions holds for it too.
 */
#include "onnx/contrib/contrib.h"
#include "ops/infer.h"

/* ---- graphs that change a tensor ---- */

/* What the other branch would be: its first capture as it is. */
static opf_graph *unchanged(opf_contrib *c, const opf_graph *body)
{
    opf_graph *graph = opf_graph_create(c->graph->arena, c->graph->dims, c->graph->consts, "unchanged");
    bool ok = graph != NULL;
    for (uint32_t i = 0; ok && i < body->n_inputs; i++) {
        const opf_value_id value = opf_graph_add_value(graph, opf_graph_value(body, body->inputs[i])->name);
        ok = value != 0 && opf_graph_add_input(graph, value) && (i != 0 || opf_graph_add_output(graph, value));
    }
    return ok ? graph : NULL;
}

/* The new node reads the condition, and captures what the body takes and then what the bodies of the old node capture.
 */
static bool set_captures(opf_contrib *c, opf_node_id id, opf_value_id x)
{
    const opf_node *old = opf_graph_node(c->graph, c->node);
    bool ok = opf_graph_append_input(c->graph, id, x);
    for (uint32_t i = old->n_inputs - old->n_captures; ok && i < old->n_inputs; i++)
        ok = opf_graph_append_input(c->graph, id, old->inputs[i]);
    opf_node *node = opf_graph_node(c->graph, id);
    node->n_own_inputs = 1;
    node->n_captures = node->n_inputs - 1;
    return ok;
}

static bool set_bodies(opf_contrib *c, opf_node_id id, opf_graph *body)
{
    opf_graph *other = unchanged(c, body), *both[2] = {body, other};
    opf_node *node = opf_graph_node(c->graph, id);
    if (other == NULL)
        return false;
    node->bodies = opf_arena_copy(c->graph->arena, both, sizeof both);
    node->n_bodies = 2;
    for (int i = 0; i < 2; i++) {
        both[i]->parent = c->graph;
        both[i]->parent_node = id;
    }
    return node->bodies != NULL &&
           opf_node_set_attr(c->graph, id, (opf_attr){.name = "then_branch", .type = OPF_ATTR_GRAPH, .i = 0}) &&
           opf_node_set_attr(c->graph, id, (opf_attr){.name = "else_branch", .type = OPF_ATTR_GRAPH, .i = 1});
}

/* Shapes that do not fit are judged later, as for all that is lifted. */
static bool infer_branches(opf_contrib *c, opf_node_id id)
{
    return opf_infer_bodies(c->graph, id, NULL) != OPF_OUT_OF_MEMORY &&
           opf_infer_update(c->graph, id, NULL) != OPF_OUT_OF_MEMORY;
}

/* x changed by the graph of an attribute, or as it is. */
static opf_value_id changed(opf_contrib *c, const char *attr_name, opf_value_id x)
{
    const opf_attr attr = opf_contrib_attr(c, attr_name);
    const opf_node *old = opf_graph_node(c->graph, c->node);
    if (attr.type == OPF_ATTR_NONE || opf_contrib_failed(c))
        return x;
    opf_graph *body =
        attr.type == OPF_ATTR_GRAPH && attr.i >= 0 && attr.i < (int64_t)old->n_bodies ? old->bodies[attr.i] : NULL;
    if (body == NULL || body->n_inputs != 1 + old->n_captures || body->n_outputs != 1) {
        opf_contrib_fail(c, OPF_INVALID_MODEL, "%s must be a graph with one input and one output", attr_name);
        return 0;
    }
    const opf_value_id condition = opf_contrib_integer(c, OPF_BOOL, 1);
    const char *name = opf_arena_printf(c->graph->arena, "%s/%s", c->name, attr_name);
    opf_value_id result = name == NULL ? 0 : opf_graph_add_value(c->graph, name);
    const opf_node_id id =
        result == 0 ? 0 : opf_graph_add_node(c->graph, &opf_op_If, opf_op_If.name, name, &condition, 1, &result, 1);
    if (id == 0 || !opf_node_join_origin(c->graph, id, c->node) || !set_captures(c, id, x) ||
        !set_bodies(c, id, body) || !infer_branches(c, id))
        opf_contrib_fail(c, OPF_OUT_OF_MEMORY, "out of memory");
    return result;
}

/* ---- attention ---- */

static opf_value_id join_sizes(opf_contrib *c, uint32_t n, const opf_value_id *sizes)
{
    return opf_contrib_add(c, &opf_op_Concat, n, sizes, OPF_ATTRS(opf_contrib_int_attr("axis", 0)));
}

static opf_value_id reshape(opf_contrib *c, opf_value_id x, opf_value_id shape)
{
    return opf_contrib_add(c, &opf_op_Reshape, OPF_INPUTS(x, shape), OPF_ATTRS(opf_contrib_int_attr("allowzero", 1)));
}

/* a b, where a has several heads for each of b's: [batch, heads, rows, columns]. */
static opf_value_id grouped_product(opf_contrib *c, opf_value_id a, opf_value_id b)
{
    const opf_info *x = opf_contrib_info(c, a), *y = opf_contrib_info(c, b);
    if (x->rank == 4 && y->rank == 4 && opf_dim_equal(x->dims[1], y->dims[1]))
        return OPF_APPLY(c, MatMul, a, b);
    const opf_value_id heads = opf_contrib_size(c, a, 1), groups = opf_contrib_size(c, b, 1);
    const opf_value_id batch = opf_contrib_size(c, a, 0), rows = opf_contrib_size(c, a, 2);
    const opf_value_id apart =
        join_sizes(c, OPF_INPUTS(batch, groups, OPF_APPLY(c, Div, heads, groups), rows, opf_contrib_size(c, a, 3)));
    const opf_value_id product =
        OPF_APPLY(c, MatMul, reshape(c, a, apart), OPF_APPLY(c, Unsqueeze, b, opf_contrib_ints(c, OPF_INTS(2))));
    return reshape(c, product, join_sizes(c, OPF_INPUTS(batch, heads, rows, opf_contrib_size(c, b, 3))));
}

/* The root of the scale, for queries and keys alike, which keeps scores of half floats in range. */
static opf_value_id root_of_scale(opf_contrib *c, opf_value_id q, opf_type type)
{
    const float scale = opf_contrib_float(c, "scale", 0);
    if (opf_contrib_attr(c, "scale").type != OPF_ATTR_NONE)
        return opf_contrib_cast(c, OPF_APPLY(c, Sqrt, opf_contrib_number(c, OPF_FLOAT, (double)scale)), type);
    const opf_value_id size = opf_contrib_cast(c, opf_contrib_size(c, q, 3), OPF_FLOAT);
    return opf_contrib_cast(c, OPF_APPLY(c, Sqrt, OPF_APPLY(c, Reciprocal, OPF_APPLY(c, Sqrt, size))), type);
}

void opf_decompose_FlexAttention(opf_contrib *c)
{
    const opf_value_id q = opf_contrib_in(c, 0), k = opf_contrib_in(c, 1), v = opf_contrib_in(c, 2);
    const opf_type type = opf_contrib_type(c, q, "Q");
    const int64_t precision = opf_contrib_int(c, "softmax_precision", type == OPF_DOUBLE ? OPF_DOUBLE : OPF_FLOAT);
    if (precision < 0 || precision >= OPF_TYPE_COUNT || !opf_types_have(OPF_TYPES_FLOAT, (opf_type)precision))
        opf_contrib_fail(c, OPF_INVALID_MODEL, "softmax_precision is %lld, must be a float type", (long long)precision);
    if (opf_contrib_failed(c))
        return;
    if (opf_graph_node(c->graph, c->node)->n_bodies == 0) {
        opf_contrib_bind(
            c, 0,
            opf_contrib_add(c, &opf_op_Attention, OPF_INPUTS(q, k, v),
                            OPF_ATTRS(opf_contrib_attr(c, "scale"), opf_contrib_attr(c, "softmax_precision"))));
        return;
    }
    const opf_value_id root = root_of_scale(c, q, type);
    const opf_value_id keys = opf_contrib_transpose(c, OPF_APPLY(c, Mul, k, root), OPF_INTS(0, 1, 3, 2));
    const opf_value_id scores = grouped_product(c, OPF_APPLY(c, Mul, q, root), keys);
    const opf_value_id judged = changed(c, "score_mod", opf_contrib_cast(c, scores, (opf_type)precision));
    const opf_value_id p = changed(c, "prob_mod", opf_contrib_softmax(c, judged, -1, false));
    const opf_value_id y = grouped_product(c, p, opf_contrib_cast(c, v, (opf_type)precision));
    opf_contrib_bind(c, 0, opf_contrib_cast(c, y, type));
}
