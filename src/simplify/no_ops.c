/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes whose result is one of their inputs: a table of tests, one an operator. */
#include "simplify/passes.h"

typedef bool (*no_op_test)(const opf_graph *graph, const opf_node *node, uint32_t *input);

static const opf_info *info_of(const opf_graph *graph, opf_value_id value)
{
    return &opf_graph_value(graph, value)->info;
}

/* The result has the shape and type of own input i. */
static bool keeps_shape(const opf_graph *graph, const opf_node *node, uint32_t i)
{
    const opf_value_id x = opf_simplify_input(node, i);
    if (x == 0)
        return false;
    const opf_info *in = info_of(graph, x), *out = info_of(graph, node->outputs[0]);
    return in->type == out->type && in->type != OPF_TYPE_NONE && opf_simplify_same_shape(in, out);
}

/* Longer constants are not looked into: a neutral one is a number or a row, or repeats one. */
enum { MAX_NEUTRAL = 65536 };

/* Every element of input i is this number. */
static bool is_number(const opf_graph *graph, const opf_node *node, uint32_t i, double wanted)
{
    const opf_value_id value = opf_simplify_input(node, i);
    const opf_const *c = value != 0 ? opf_graph_value(graph, value)->constant : NULL;
    const bool repeats = c != NULL && c->kind == OPF_CONST_SPLAT;
    if (c == NULL || c->count == 0 || (c->count > MAX_NEUTRAL && !repeats) ||
        !opf_types_have(OPF_TYPES_NUMERIC | OPF_TYPES_BOOL, c->type))
        return false;
    for (size_t k = 0; k < (repeats ? 1 : c->count); k++)
        if ((opf_types_have(OPF_TYPES_FLOAT, c->type) ? opf_const_f64_at(c, k) : (double)opf_const_i64_at(c, k)) !=
            wanted)
            return false;
    return true;
}

static bool same(const opf_graph *graph, const opf_node *node, uint32_t *input)
{
    (void)graph;
    (void)node;
    *input = 0;
    return true;
}

/* Out of training, or in training with nothing to drop. */
static bool test_dropout(const opf_graph *graph, const opf_node *node, uint32_t *input)
{
    *input = 0;
    if (node->n_outputs > 1 && node->outputs[1] != 0 && opf_graph_value(graph, node->outputs[1])->n_uses > 0)
        return false;
    return opf_simplify_input(node, 2) == 0 || is_number(graph, node, 2, 0) || is_number(graph, node, 1, 0);
}

static bool test_cast(const opf_graph *graph, const opf_node *node, uint32_t *input)
{
    *input = 0;
    const opf_type in = info_of(graph, node->inputs[0])->type;
    return in != OPF_TYPE_NONE && in == info_of(graph, node->outputs[0])->type;
}

static bool test_shape_kept(const opf_graph *graph, const opf_node *node, uint32_t *input)
{
    *input = 0;
    return keeps_shape(graph, node, 0);
}

static bool test_transpose(const opf_graph *graph, const opf_node *node, uint32_t *input)
{
    *input = 0;
    const opf_attr *perm = opf_node_attr(node, "perm");
    const int32_t rank = info_of(graph, node->inputs[0])->rank;
    if (perm == NULL)
        return rank == 0 || rank == 1;
    for (uint32_t i = 0; i < perm->n; i++)
        if (perm->ints[i] != i)
            return false;
    return true;
}

static bool test_single(const opf_graph *graph, const opf_node *node, uint32_t *input)
{
    (void)graph;
    *input = 0;
    return node->n_own_inputs == 1;
}

static bool all_integers(const opf_graph *graph, opf_value_id value, bool (*test)(int64_t x))
{
    const opf_const *c = value != 0 ? opf_graph_value(graph, value)->constant : NULL;
    if (c == NULL || !opf_types_have(OPF_TYPES_INT, c->type) || c->count > OPF_MAX_KNOWN_VALUES)
        return false;
    for (size_t i = 0; i < c->count; i++)
        if (!test(opf_const_i64_at(c, i)))
            return false;
    return true;
}

static bool is_zero(int64_t x)
{
    return x == 0;
}

static bool is_positive(int64_t x)
{
    return x > 0;
}

static bool test_pad(const opf_graph *graph, const opf_node *node, uint32_t *input)
{
    *input = 0;
    return all_integers(graph, opf_simplify_input(node, 1), is_zero);
}

/* With positive steps, as many elements as there were are the elements that there were. */
static bool test_slice(const opf_graph *graph, const opf_node *node, uint32_t *input)
{
    *input = 0;
    const opf_value_id steps = opf_simplify_input(node, 4);
    return (steps == 0 || all_integers(graph, steps, is_positive)) && keeps_shape(graph, node, 0);
}

static bool test_split(const opf_graph *graph, const opf_node *node, uint32_t *input)
{
    *input = 0;
    return node->n_outputs == 1 && keeps_shape(graph, node, 0);
}

static bool test_clip(const opf_graph *graph, const opf_node *node, uint32_t *input)
{
    (void)graph;
    *input = 0;
    return opf_simplify_input(node, 1) == 0 && opf_simplify_input(node, 2) == 0;
}

static bool test_either(const opf_graph *graph, const opf_node *node, uint32_t *input, double neutral)
{
    for (uint32_t i = 0; i < 2; i++)
        if (is_number(graph, node, 1 - i, neutral) && keeps_shape(graph, node, i)) {
            *input = i;
            return true;
        }
    return false;
}

static bool test_right(const opf_graph *graph, const opf_node *node, uint32_t *input, double neutral)
{
    *input = 0;
    return is_number(graph, node, 1, neutral) && keeps_shape(graph, node, 0);
}

static bool test_add(const opf_graph *graph, const opf_node *node, uint32_t *input)
{
    return test_either(graph, node, input, 0);
}

static bool test_sub(const opf_graph *graph, const opf_node *node, uint32_t *input)
{
    return test_right(graph, node, input, 0);
}

static bool test_mul(const opf_graph *graph, const opf_node *node, uint32_t *input)
{
    return test_either(graph, node, input, 1);
}

static bool test_by_one(const opf_graph *graph, const opf_node *node, uint32_t *input)
{
    return test_right(graph, node, input, 1);
}

/* Takes always the same one, or either of two that are one. */
static bool test_where(const opf_graph *graph, const opf_node *node, uint32_t *input)
{
    *input = is_number(graph, node, 0, 0) ? 2 : 1;
    return (*input == 2 || node->inputs[1] == node->inputs[2] || is_number(graph, node, 0, 1)) &&
           keeps_shape(graph, node, *input);
}

static const struct {
    const opf_op *op;
    no_op_test test;
} table[] = {
    {&opf_op_Add, test_add},
    {&opf_op_And, test_mul},
    {&opf_op_Cast, test_cast},
    {&opf_op_Clip, test_clip},
    {&opf_op_Concat, test_single},
    {&opf_op_Div, test_by_one},
    {&opf_op_Dropout, test_dropout},
    {&opf_op_Expand, test_shape_kept},
    {&opf_op_Flatten, test_shape_kept},
    {&opf_op_Identity, same},
    {&opf_op_Max, test_single},
    {&opf_op_Mean, test_single},
    {&opf_op_Min, test_single},
    {&opf_op_Mul, test_mul},
    {&opf_op_Or, test_add},
    {&opf_op_Pad, test_pad},
    {&opf_op_Pow, test_by_one},
    {&opf_op_Reshape, test_shape_kept},
    {&opf_op_Slice, test_slice},
    {&opf_op_Split, test_split},
    {&opf_op_Squeeze, test_shape_kept},
    {&opf_op_Sub, test_sub},
    {&opf_op_Sum, test_single},
    {&opf_op_Tile, test_shape_kept},
    {&opf_op_Transpose, test_transpose},
    {&opf_op_Unsqueeze, test_shape_kept},
    {&opf_op_Where, test_where},
    {&opf_op_Xor, test_add},
};

static bool is_no_op(const opf_graph *graph, const opf_node *node, uint32_t *input)
{
    for (uint32_t i = 0; i < OPF_COUNT(table); i++)
        if (table[i].op == node->op)
            return table[i].test(graph, node, input);
    return false;
}

static opf_status drop(opf_graph *graph, opf_node_id id, bool *changed, opf_error *error)
{
    const opf_node *node = opf_graph_node(graph, id);
    uint32_t input = 0;
    (void)error;
    /* It stays where an input of the graph would become an output: both names are the interface. */
    if (node->outputs[0] == 0 || !is_no_op(graph, node, &input) ||
        !opf_graph_replace_uses(graph, node->outputs[0], node->inputs[input]))
        return OPF_OK;
    opf_graph_remove_node(graph, id);
    *changed = true;
    return OPF_OK;
}

opf_status opf_remove_no_ops(opf_graph *graph, bool *changed, opf_error *error)
{
    return opf_simplify_each(graph, drop, changed, error);
}
