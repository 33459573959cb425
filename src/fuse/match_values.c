/* SPDX-License-Identifier: Apache-2.0 */
/* When two values are one: behind nodes that change nothing, and among small constants. */
#include "fuse/match.h"

#include <string.h>

bool opf_match_is_no_op(const opf_graph *graph, opf_node_id id)
{
    const opf_node *node = opf_graph_node(graph, id);
    if (id == 0 || node->prologue.n != 0 || node->epilogue.n != 0)
        return false;
    if (node->op == &opf_op_Identity)
        return true;
    if (node->op == &opf_op_Cast) {
        opf_type to = opf_graph_value(graph, node->outputs[0])->info.type;
        return to != OPF_TYPE_NONE && to == opf_graph_value(graph, node->inputs[0])->info.type;
    }
    if (node->op != &opf_op_Dropout || (node->n_outputs > 1 && node->outputs[1] != 0))
        return false;
    if (node->n_own_inputs < 3 || node->inputs[2] == 0)
        return true;
    const opf_const *training = opf_graph_value(graph, node->inputs[2])->constant;
    return training != NULL && training->count == 1 && opf_const_i64_at(training, 0) == 0;
}

opf_value_id opf_match_resolve(const opf_graph *graph, opf_value_id value)
{
    while (value != 0) {
        opf_node_id producer = opf_graph_value(graph, value)->producer;
        if (!opf_match_is_no_op(graph, producer))
            break;
        value = opf_graph_node(graph, producer)->inputs[0];
    }
    return value;
}

bool opf_match_same_value(const opf_graph *graph, opf_value_id a, opf_value_id b)
{
    enum { SMALL = 64 };
    if (a == b || a == 0 || b == 0)
        return a == b;
    const opf_const *x = opf_graph_value(graph, a)->constant, *y = opf_graph_value(graph, b)->constant;
    if (x == NULL || y == NULL || x->type != y->type || x->rank != y->rank || x->count != y->count || x->count > SMALL)
        return false;
    if (x->rank > 0 && memcmp(x->dims, y->dims, (size_t)x->rank * sizeof *x->dims) != 0)
        return false;
    bool is_float = opf_types_have(OPF_TYPES_FLOAT, x->type);
    if (!is_float && !opf_types_have(OPF_TYPES_INT | OPF_TYPES_BOOL, x->type))
        return false;
    for (size_t i = 0; i < x->count; i++)
        if (is_float ? opf_const_f64_at(x, i) != opf_const_f64_at(y, i)
                     : opf_const_i64_at(x, i) != opf_const_i64_at(y, i))
            return false;
    return true;
}
