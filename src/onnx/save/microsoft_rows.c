/* SPDX-License-Identifier: Apache-2.0 */
/* Normalisations with the sum before them, and activations with a bias. */
#include "onnx/save/microsoft.h"

#include <string.h>

static opf_attr float_attr(const char *name, float f)
{
    return (opf_attr){.name = name, .type = OPF_ATTR_FLOAT, .f = f};
}

/* ---- normalisations ---- */

/* The Add of a vector that makes the value: *vector and the other operand. 0: there is none. */
static opf_node_id find_bias(const opf_microsoft *m, opf_value_id value, opf_value_id *vector, opf_value_id *rest)
{
    const opf_node_id add = opf_microsoft_maker(m, value, &opf_op_Add);
    for (uint32_t i = 0; add != 0 && i < 2; i++) {
        *vector = opf_microsoft_in(m, add, i);
        *rest = opf_microsoft_in(m, add, 1 - i);
        if (opf_microsoft_is_vector(m, *vector, value) && opf_microsoft_same_shape(m, *rest, value))
            return add;
    }
    return 0;
}

typedef struct sum {
    opf_value_id value, terms[2], bias; /* bias 0: none */
    opf_node_id nodes[3];               /* the last one makes the value */
    uint32_t n;
} sum;

/* Two terms that are shaped like their sum. */
static bool find_terms(const opf_microsoft *m, opf_value_id value, sum *s)
{
    const opf_node_id add = opf_microsoft_maker(m, value, &opf_op_Add);
    for (uint32_t i = 0; i < 2; i++) {
        s->terms[i] = opf_microsoft_in(m, add, i);
        if (add == 0 || !opf_microsoft_same_shape(m, s->terms[i], value))
            return false;
    }
    s->nodes[s->n++] = add;
    return true;
}

/* a + b, with a vector added to one of them, which then comes first, or to both. */
static bool find_sum(const opf_microsoft *m, opf_value_id value, sum *s)
{
    opf_value_id rest;
    *s = (sum){.value = value};
    opf_node_id add = find_bias(m, value, &s->bias, &rest);
    if (add != 0) {
        if (!opf_microsoft_is_single(m, rest) || !find_terms(m, rest, s))
            return false;
        s->nodes[s->n++] = add;
        return true;
    }
    if (!find_terms(m, value, s))
        return false;
    for (uint32_t i = 0; i < 2; i++) {
        add = opf_microsoft_is_single(m, s->terms[i]) ? find_bias(m, s->terms[i], &s->bias, &rest) : 0;
        if (add != 0) {
            s->terms[1] = s->terms[1 - i];
            s->terms[0] = rest;
            s->nodes[1] = s->nodes[0];
            s->nodes[0] = add;
            s->n = 2;
            return true;
        }
    }
    s->bias = 0;
    return true;
}

/* Over the last axis alone, and nothing but its result is wanted. */
static bool is_of_rows(const opf_microsoft *m, opf_node_id id)
{
    const opf_node *node = opf_graph_node(m->graph, id);
    const opf_value_id x = node->inputs[0];
    const int32_t rank = opf_microsoft_info(m, x)->rank;
    const int64_t axis = opf_node_int(node, "axis", -1);
    for (uint32_t o = 1; o < node->n_outputs; o++)
        if (node->outputs[o] != 0 && opf_graph_value(m->graph, node->outputs[o])->n_uses != 0)
            return false;
    return opf_microsoft_is_float(m, x) && (rank == 2 || rank == 3) && (axis == -1 || axis == rank - 1) &&
           opf_microsoft_is_vector(m, opf_microsoft_in(m, id, 1), x) &&
           (opf_microsoft_in(m, id, 2) == 0 || opf_microsoft_is_vector(m, opf_microsoft_in(m, id, 2), x));
}

/* The sum is a result of its own when others read it. On the CPU it is slower than Add and the norm. */
static void skip_normalization(opf_microsoft *m, opf_node_id id, const char *op_type, bool has_shift)
{
    enum { SUM = 3 };
    const opf_node *node = opf_graph_node(m->graph, id);
    sum s;
    if (!m->all || !is_of_rows(m, id) || !find_sum(m, node->inputs[0], &s))
        return;
    s.nodes[s.n++] = id;
    const opf_value_id scale = opf_microsoft_in(m, id, 1);
    const opf_value_id shifted[] = {s.terms[0], s.terms[1], scale, opf_microsoft_in(m, id, 2), s.bias},
                       plain[] = {s.terms[0], s.terms[1], scale, s.bias};
    const bool is_read = !opf_microsoft_is_single(m, s.value);
    const opf_value_id outputs[] = {node->outputs[0], 0, 0, is_read ? s.value : 0};
    const opf_attr epsilon = float_attr("epsilon", opf_node_float(node, "epsilon", 1e-5F));
    opf_microsoft_exchange(m, &(opf_exchange){.op_type = op_type,
                                              .inputs = has_shift ? shifted : plain,
                                              .n_inputs = has_shift ? 5 : 4,
                                              .attrs = &epsilon,
                                              .n_attrs = 1,
                                              .outputs = outputs,
                                              .n_outputs = is_read ? SUM + 1 : 1,
                                              .nodes = s.nodes,
                                              .n_nodes = s.n});
}

void opf_microsoft_skip_layer_normalization(opf_microsoft *m, opf_node_id id)
{
    skip_normalization(m, id, "SkipLayerNormalization", true);
}

void opf_microsoft_skip_rms_normalization(opf_microsoft *m, opf_node_id id)
{
    skip_normalization(m, id, "SkipSimplifiedLayerNormalization", false);
}

/* ---- activations ---- */

void opf_microsoft_gelu(opf_microsoft *m, opf_node_id id)
{
    const opf_node *node = opf_graph_node(m->graph, id);
    const bool is_tanh = strcmp(opf_node_string(node, "approximate", "none"), "tanh") == 0;
    opf_value_id bias, x;
    opf_node_id nodes[] = {find_bias(m, node->inputs[0], &bias, &x), id};
    const bool has_bias = nodes[0] != 0 && opf_microsoft_is_single(m, node->inputs[0]);
    const opf_value_id inputs[] = {has_bias ? x : node->inputs[0], has_bias ? bias : 0};
    if (!opf_microsoft_is_float(m, inputs[0]))
        return;
    opf_microsoft_exchange(m, &(opf_exchange){.op_type = is_tanh    ? "FastGelu"
                                                         : has_bias ? "BiasGelu"
                                                                    : "Gelu",
                                              .inputs = inputs,
                                              .n_inputs = 2,
                                              .outputs = node->outputs,
                                              .n_outputs = 1,
                                              .nodes = has_bias ? nodes : nodes + 1,
                                              .n_nodes = has_bias ? 2 : 1});
}

void opf_microsoft_swish(opf_microsoft *m, opf_node_id id)
{
    const opf_node *node = opf_graph_node(m->graph, id);
    const opf_value_id x = node->inputs[0];
    const opf_attr alpha = float_attr("alpha", opf_node_float(node, "alpha", 1));
    if (!opf_microsoft_is_float(m, x))
        return;
    opf_microsoft_exchange(m, &(opf_exchange){.op_type = "QuickGelu",
                                              .inputs = &x,
                                              .n_inputs = 1,
                                              .attrs = &alpha,
                                              .n_attrs = 1,
                                              .outputs = node->outputs,
                                              .n_outputs = 1,
                                              .nodes = &id,
                                              .n_nodes = 1});
}
