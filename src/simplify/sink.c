/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transposes go down past elementwise nodes: the arithmetic then stands behind the contraction that made the data and
 * can become its epilogue, and transposes meet, and cancel or merge. Nothing is added for that but where an image is
 * asked for channels-last, which is how it lies in memory.
 */
#include "simplify/turn.h"

#include <string.h>

typedef struct sink {
    opf_graph *graph;
    opf_node_id node, transpose;
    opf_order order; /* of the transpose */
} sink;

static const opf_info *info_of(const opf_graph *graph, opf_value_id value)
{
    return &opf_graph_value(graph, value)->info;
}

/* The transpose that makes the value; 0: none. */
static opf_node_id transpose_of(const opf_graph *graph, opf_value_id value)
{
    const opf_node_id producer = value != 0 ? opf_graph_value(graph, value)->producer : 0;
    const opf_node *node = opf_graph_node(graph, producer);
    return producer != 0 && opf_simplify_is_plain(node) && node->op == &opf_op_Transpose ? producer : 0;
}

static bool is_same_perm(const sink *s, opf_node_id transpose)
{
    int64_t perm[OPF_MAX_RANK];
    int32_t rank = 0;
    return opf_simplify_perm(s->graph, opf_graph_node(s->graph, transpose), perm, &rank) && rank == s->order.rank &&
           memcmp(perm, s->order.perm, (size_t)rank * sizeof *perm) == 0;
}

/* One element, which is one element in any order. */
static bool is_single(const opf_info *info, int32_t rank)
{
    if (info->rank < 0 || info->rank > rank)
        return false;
    for (int32_t i = 0; i < info->rank; i++)
        if (!opf_dim_is(info->dims[i], 1))
            return false;
    return true;
}

/* A convolution or pool whose result is asked for with its channels last. */
static bool is_image(const sink *s, opf_value_id value)
{
    const opf_value *v = opf_graph_value(s->graph, value);
    const opf_op *op = v->producer != 0 ? opf_graph_node(s->graph, v->producer)->op : NULL;
    if (op != &opf_op_Conv && op != &opf_op_MaxPool && op != &opf_op_AveragePool)
        return false;
    for (int32_t k = 1; k < s->order.rank; k++)
        if (s->order.perm[k] != (k == 1 ? s->order.rank - 1 : k - 1))
            return false;
    return s->order.perm[0] == 0 && v->info.rank == s->order.rank;
}

static bool may_read(const sink *s, opf_value_id value)
{
    const opf_value *v = opf_graph_value(s->graph, value);
    const opf_node_id transpose = transpose_of(s->graph, value);
    return value == 0 || is_single(&v->info, s->order.rank) ||
           (v->constant != NULL && v->constant->rank <= s->order.rank) ||
           (transpose != 0 && is_same_perm(s, transpose)) || is_image(s, value);
}

/* A transpose that this node alone reads, and other operands that can be read in its order. */
static bool find(sink *s)
{
    const opf_graph *graph = s->graph;
    const opf_node *node = opf_graph_node(graph, s->node);
    const opf_value_id result = node->outputs[0];
    s->transpose = 0;
    for (uint32_t i = 0; i < node->n_own_inputs && s->transpose == 0; i++) {
        const opf_value_id value = node->inputs[i];
        const opf_node_id transpose = transpose_of(graph, value);
        if (transpose == 0 || opf_graph_single_use(graph, value) == NULL ||
            !opf_simplify_same_shape(info_of(graph, value), info_of(graph, result)) ||
            !opf_simplify_perm(graph, opf_graph_node(graph, transpose), s->order.perm, &s->order.rank))
            continue;
        s->transpose = transpose;
    }
    for (uint32_t i = 0; s->transpose != 0 && i < node->n_own_inputs; i++)
        if (!may_read(s, node->inputs[i]))
            s->transpose = 0;
    return s->transpose != 0;
}

/* A new value and its info. */
static opf_value_id make_value(const sink *s, const opf_info *of)
{
    opf_info info;
    const opf_value_id value = opf_turn_info(s->graph, &s->order, of, &info) ? opf_graph_add_value(s->graph, NULL) : 0;
    if (value != 0)
        opf_graph_value(s->graph, value)->info = info;
    return value;
}

static opf_value_id add_transpose(const sink *s, opf_value_id value)
{
    int64_t inverse[OPF_MAX_RANK] = {0};
    for (int32_t k = 0; k < s->order.rank; k++)
        inverse[s->order.perm[k]] = k;
    const opf_value_id result = make_value(s, info_of(s->graph, value));
    const opf_node_id node = result != 0 ? opf_graph_add_node(s->graph, &opf_op_Transpose, opf_op_Transpose.name, NULL,
                                                              &value, 1, &result, 1)
                                         : 0;
    return node != 0 && opf_node_join_origin(s->graph, node, s->transpose) &&
                   opf_node_set_ints(s->graph, node, "perm", inverse, (uint32_t)s->order.rank)
               ? result
               : 0;
}

/* What stands for the value before the transpose; 0: memory is out. */
static opf_value_id operand_before(const sink *s, opf_value_id value)
{
    const opf_value *v = opf_graph_value(s->graph, value);
    const opf_node_id transpose = transpose_of(s->graph, value);
    if (is_single(&v->info, s->order.rank) && transpose == 0)
        return value;
    if (v->constant != NULL) {
        const opf_const *c = opf_turn_constant(s->graph, &s->order, v->constant, false);
        return c != NULL ? opf_graph_add_constant(s->graph, v->name, c) : 0;
    }
    return transpose != 0 ? opf_graph_node(s->graph, transpose)->inputs[0] : add_transpose(s, value);
}

static bool apply(const sink *s)
{
    opf_graph *graph = s->graph;
    const opf_value_id result = opf_graph_node(graph, s->node)->outputs[0];
    for (uint32_t i = 0; i < opf_graph_node(graph, s->node)->n_own_inputs; i++) {
        const opf_value_id value = opf_graph_node(graph, s->node)->inputs[i];
        const opf_value_id before = value != 0 ? operand_before(s, value) : 0;
        if (value != 0 && (before == 0 || !opf_graph_set_input(graph, s->node, i, before)))
            return false;
    }
    const opf_value_id between = make_value(s, info_of(graph, result));
    return between != 0 && opf_graph_set_output(graph, s->node, 0, between) &&
           opf_graph_set_input(graph, s->transpose, 0, between) && opf_graph_set_output(graph, s->transpose, 0, result);
}

static opf_status sink_to(opf_graph *graph, opf_node_id id, bool *changed, opf_error *error)
{
    sink s = {.graph = graph, .node = id};
    const opf_node *node = opf_graph_node(graph, id);
    if ((node->op->traits & OPF_ELEMENTWISE) == 0 || node->n_outputs != 1 || node->outputs[0] == 0 ||
        info_of(graph, node->outputs[0])->rank < 2 || !find(&s))
        return OPF_OK;
    *changed = true;
    OPF_OOM_IF(error, !apply(&s));
    return OPF_OK;
}

opf_status opf_sink_transposes(opf_graph *graph, bool *changed, opf_error *error)
{
    return opf_simplify_each(graph, sink_to, changed, error);
}
