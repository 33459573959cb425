/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions with a residual, products with transposed operands and a factor. */
#include "onnx/save/microsoft.h"

#include <math.h>
#include <string.h>

/* ---- convolutions ---- */

/* On x86-64 ONNX Runtime turns two-dimensional convolutions to channels in blocks, with what is added and applied
   behind them, as long as they are Conv, Add and an activation: that is faster than FusedConv with a residual, which it
   then leaves alone. These it does not turn. */
static bool is_blocked(const opf_microsoft *m, const opf_node *conv)
{
    enum { BLOCK = 16, ALIGNMENT = 4 };
    const opf_const *w = opf_graph_value(m->graph, conv->inputs[1])->constant;
    const int64_t group = opf_node_int(conv, "group", 1);
    if (w == NULL || w->rank != 4)
        return false;
    if (group == 1)
        return w->dims[1] < BLOCK / 2 || w->dims[1] % ALIGNMENT == 0;
    const bool is_depthwise = w->dims[1] == 1 && w->dims[0] == group;
    return w->dims[0] % BLOCK == 0 && (is_depthwise || (w->dims[1] % BLOCK == 0 && w->dims[0] / group % BLOCK == 0));
}

typedef struct activation {
    const opf_op *op;
    const char *params[2]; /* attributes, in order */
    float defaults[2];
} activation;

static const activation activations[] = {
    {&opf_op_Relu, {NULL}, {0}},
    {&opf_op_Sigmoid, {NULL}, {0}},
    {&opf_op_Tanh, {NULL}, {0}},
    {&opf_op_LeakyRelu, {"alpha"}, {0.01F}},
    {&opf_op_HardSigmoid, {"alpha", "beta"}, {0.2F, 0.5F}},
};

static const activation *find_activation(const opf_microsoft *m, opf_value_id value, opf_node_id *reader)
{
    for (uint32_t i = 0; i < OPF_COUNT(activations); i++)
        if ((*reader = opf_microsoft_reader(m, value, activations[i].op)) != 0)
            return &activations[i];
    return NULL;
}

void opf_microsoft_convolution(opf_microsoft *m, opf_node_id id)
{
    const opf_node *conv = opf_graph_node(m->graph, id);
    const opf_value_id y = conv->outputs[0];
    const opf_node_id add = opf_microsoft_reader(m, y, &opf_op_Add);
    if (add == 0 || !opf_microsoft_is_float(m, y) || (!m->all && is_blocked(m, conv)))
        return;
    /* Of two that meet, the first operand goes on. */
    const opf_value_id other = opf_microsoft_in(m, add, 0);
    if (other != y && opf_microsoft_is_single(m, other) && opf_microsoft_maker(m, other, &opf_op_Conv) != 0)
        return;
    const opf_value_id z = opf_microsoft_in(m, add, opf_microsoft_in(m, add, 0) == y ? 1 : 0);
    const opf_value_id sum = opf_graph_node(m->graph, add)->outputs[0];
    if (!opf_microsoft_same_shape(m, y, z) || conv->n_attrs > 8)
        return;
    opf_node_id nodes[3] = {id, add, 0};
    const activation *act = find_activation(m, sum, &nodes[2]);
    const opf_node *last = opf_graph_node(m->graph, act != NULL ? nodes[2] : add);
    float params[2];
    opf_attr attrs[10];
    uint32_t n = 0, n_params = 0;
    for (; n < conv->n_attrs; n++)
        attrs[n] = conv->attrs[n];
    if (act != NULL) {
        for (; n_params < 2 && act->params[n_params] != NULL; n_params++)
            params[n_params] = opf_node_float(last, act->params[n_params], act->defaults[n_params]);
        const float *copy = opf_arena_copy(m->graph->arena, params, n_params * sizeof *params);
        m->failed = m->failed || copy == NULL;
        attrs[n++] = (opf_attr){
            .name = "activation", .type = OPF_ATTR_STRING, .s = act->op->name, .n = (uint32_t)strlen(act->op->name)};
        if (n_params != 0)
            attrs[n++] =
                (opf_attr){.name = "activation_params", .type = OPF_ATTR_FLOATS, .floats = copy, .n = n_params};
    }
    const opf_value_id inputs[] = {conv->inputs[0], conv->inputs[1], opf_microsoft_in(m, id, 2), z};
    const opf_value_id result = last->outputs[0];
    opf_microsoft_exchange(m, &(opf_exchange){.op_type = "FusedConv",
                                              .inputs = inputs,
                                              .n_inputs = 4,
                                              .attrs = attrs,
                                              .n_attrs = n,
                                              .outputs = &result,
                                              .n_outputs = 1,
                                              .nodes = nodes,
                                              .n_nodes = act != NULL ? 3 : 2});
}

/* ---- products ---- */

/* What a Transpose of the last two axes reads, if only the product reads its result; else the value. */
static opf_value_id untransposed(const opf_microsoft *m, opf_value_id value, opf_node_id *transpose)
{
    const opf_node_id id = opf_microsoft_maker(m, value, &opf_op_Transpose);
    const opf_attr *perm = id != 0 ? opf_node_attr(opf_graph_node(m->graph, id), "perm") : NULL;
    *transpose = 0;
    if (perm == NULL || perm->n < 2 || !opf_microsoft_is_single(m, value))
        return value;
    for (uint32_t i = 0; i < perm->n; i++)
        if (perm->ints[i] != (int64_t)(i + 2 < perm->n ? i : 2 * perm->n - 3 - i))
            return value;
    *transpose = id;
    return opf_microsoft_in(m, id, 0);
}

/* Mul by one constant behind the product: *factor is 1 without one. */
static opf_node_id find_factor(const opf_microsoft *m, opf_value_id y, float *factor)
{
    const opf_node_id mul = opf_microsoft_reader(m, y, &opf_op_Mul);
    *factor = 1;
    for (uint32_t i = 0; mul != 0 && i < 2; i++) {
        double x;
        if (opf_microsoft_in(m, mul, 1 - i) == y && opf_graph_scalar(m->graph, opf_microsoft_in(m, mul, i), &x) &&
            isfinite(x) && opf_microsoft_same_shape(m, y, opf_graph_node(m->graph, mul)->outputs[0])) {
            *factor = (float)x;
            return mul;
        }
    }
    return 0;
}

void opf_microsoft_product(opf_microsoft *m, opf_node_id id)
{
    const opf_node *node = opf_graph_node(m->graph, id);
    opf_node_id a, b, nodes[4];
    float alpha;
    uint32_t n = 0;
    if (!opf_microsoft_is_float(m, node->outputs[0]) || opf_microsoft_info(m, node->inputs[0])->rank < 2 ||
        opf_microsoft_info(m, node->inputs[1])->rank < 2)
        return;
    const opf_value_id inputs[] = {untransposed(m, node->inputs[0], &a), untransposed(m, node->inputs[1], &b)};
    const opf_node_id mul = find_factor(m, node->outputs[0], &alpha);
    if (a == 0 && b == 0 && mul == 0)
        return;
    if (a != 0)
        nodes[n++] = a;
    if (b != 0)
        nodes[n++] = b;
    nodes[n++] = id;
    if (mul != 0)
        nodes[n++] = mul;
    const opf_value_id result = opf_graph_node(m->graph, nodes[n - 1])->outputs[0];
    const opf_attr attrs[] = {{.name = "alpha", .type = OPF_ATTR_FLOAT, .f = alpha},
                              {.name = "transA", .type = OPF_ATTR_INT, .i = a != 0},
                              {.name = "transB", .type = OPF_ATTR_INT, .i = b != 0}};
    opf_microsoft_exchange(m, &(opf_exchange){.op_type = "FusedMatMul",
                                              .inputs = inputs,
                                              .n_inputs = 2,
                                              .attrs = attrs,
                                              .n_attrs = 3,
                                              .outputs = &result,
                                              .n_outputs = 1,
                                              .nodes = nodes,
                                              .n_nodes = n});
}
