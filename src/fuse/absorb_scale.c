/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A number by which an operand of a product is multiplied or divided scales the result as well: MatMul(a*s, b) is
 * MatMul(a, b)*s, and there the epilogue takes it. Not in half precision, where operands are scaled so that sums stay
 * in range, and not where a contraction makes the operand, which scales it for nothing.
 */
#include "fuse/absorb_steps.h"

#include <string.h>

static const char rule[] = "matmul-scale";

typedef struct scale {
    opf_node_id transpose; /* between the scale and the product; 0: none */
    opf_node_id node;      /* Mul or Div */
    uint32_t number;       /* its input that is the number */
} scale;

static bool is_plain(const opf_node *node)
{
    return opf_node_is_alive(node) && node->op != NULL && node->n_bodies == 0 && node->prologue.n == 0 &&
           node->epilogue.n == 0;
}

/* The product's operand is a Mul or Div by a number, perhaps transposed. */
static bool find_scale(const opf_graph *graph, opf_value_id operand, scale *s)
{
    double number;
    *s = (scale){.node = opf_graph_value(graph, operand)->producer};
    const opf_node *node = opf_graph_node(graph, s->node);
    if (s->node != 0 && is_plain(node) && node->op == &opf_op_Transpose &&
        opf_graph_single_use(graph, operand) != NULL) {
        s->transpose = s->node;
        s->node = opf_graph_value(graph, node->inputs[0])->producer;
        node = opf_graph_node(graph, s->node);
    }
    if (s->node == 0 || !is_plain(node) || (node->op != &opf_op_Mul && node->op != &opf_op_Div))
        return false;
    s->number = node->op == &opf_op_Mul && opf_graph_scalar(graph, node->inputs[0], &number) ? 0 : 1;
    return opf_graph_scalar(graph, node->inputs[s->number], &number);
}

/* Every reader of the scaled value is an operand of a product like this one, so that nobody is left to need it. */
static bool only_products_read(opf_fuse_context *context, const scale *s, opf_node_id product, opf_refusal *why)
{
    const opf_graph *graph = context->graph;
    const opf_value *scaled = opf_graph_value(graph, opf_graph_node(graph, s->node)->outputs[0]);
    for (uint32_t i = 0; i < scaled->n_uses; i++) {
        const opf_node *reader = opf_graph_node(graph, scaled->uses[i].node);
        if (scaled->uses[i].node == 0)
            return opf_refuse(context, why, OPF_MISS_IS_OUTPUT, s->node, "%s is also an output of the graph",
                              scaled->name);
        if (scaled->uses[i].node != product && scaled->uses[i].node != s->transpose &&
            !(is_plain(reader) && reader->op == &opf_op_MatMul))
            return opf_refuse(context, why, OPF_MISS_USED_OUTSIDE, s->node, "%s is also read by %s", scaled->name,
                              reader->name);
    }
    return true;
}

static bool may_move(opf_fuse_context *context, const scale *s, opf_node_id product, opf_refusal *why)
{
    const opf_graph *graph = context->graph;
    const opf_node *node = opf_graph_node(graph, s->node);
    const opf_info *x = &opf_graph_value(graph, node->inputs[1 - s->number])->info;
    const opf_info *number = &opf_graph_value(graph, node->inputs[s->number])->info;
    const opf_info *result = &opf_graph_value(graph, opf_graph_node(graph, product)->outputs[0])->info;
    if (x->type != OPF_FLOAT && x->type != OPF_DOUBLE)
        return opf_refuse(context, why, OPF_MISS_DTYPE, s->node, "elements are %s, whose range the scale may guard",
                          opf_type_name(x->type));
    if (number->rank > x->rank || result->rank < 0 || number->rank > result->rank)
        return opf_refuse(context, why, OPF_MISS_RANK, s->node, "the number has %d dimensions, the result %d",
                          (int)number->rank, (int)result->rank);
    if (opf_steps_is_hosted(graph, node->outputs[0]))
        return opf_refuse(context, why, OPF_MISS_NO_GAIN, s->node, "what makes its operand takes it as a step");
    return only_products_read(context, s, product, why);
}

/* The product reads what was scaled, and a new node scales its result. */
static opf_status move(opf_fuse_context *context, const scale *s, opf_node_id product, uint32_t input, opf_error *error)
{
    opf_graph *graph = context->graph;
    const opf_node old = *opf_graph_node(graph, s->node);
    const opf_value_id x = old.inputs[1 - s->number], y = opf_graph_node(graph, product)->outputs[0];
    OPF_OOM_IF(error, !opf_graph_set_input(graph, s->transpose != 0 ? s->transpose : product,
                                           s->transpose != 0 ? 0 : input, x));
    const opf_value_id plain = opf_graph_add_value(graph, opf_graph_value(graph, y)->name);
    OPF_OOM_IF(error, plain == 0 || !opf_graph_set_output(graph, product, 0, plain));
    opf_graph_value(graph, plain)->info = opf_graph_value(graph, y)->info;
    if (opf_graph_value(graph, old.outputs[0])->n_uses == 0)
        opf_graph_remove_node(graph, s->node);
    if (s->transpose != 0)
        OPF_TRY(opf_fuse_infer(context, s->transpose, error));
    const opf_value_id operands[2] = {s->number == 0 ? old.inputs[0] : plain, s->number == 0 ? plain : old.inputs[1]};
    const opf_node_id scaled = opf_graph_add_node(graph, old.op, old.op_type, old.name, operands, 2, &y, 1);
    OPF_OOM_IF(error, scaled == 0);
    for (uint32_t i = 0; i < old.n_origin; i++)
        OPF_OOM_IF(error, !opf_node_add_origin(graph, scaled, old.origin[i]));
    const char *names[2] = {opf_graph_node(graph, product)->name, old.name};
    return opf_fuse_done_with(context, rule, product, names, 2, error);
}

static opf_status absorb(opf_fuse_context *context, opf_node_id id, uint32_t input, bool *changed, opf_error *error)
{
    opf_graph *graph = context->graph;
    const opf_node *node = opf_graph_node(graph, id);
    opf_refusal why = {0};
    scale s;
    if (!is_plain(node) || node->op != &opf_op_MatMul || node->outputs[0] == 0 ||
        !find_scale(graph, node->inputs[input], &s))
        return OPF_OK;
    if (!may_move(context, &s, id, &why)) {
        OPF_OOM_IF(error, !opf_report_miss(context->report, rule, node->name, why.code,
                                           opf_graph_node(graph, s.node)->name, 2, 2, "%s", why.reason));
        return OPF_OK;
    }
    if (!opf_fuse_allows(context, rule, id))
        return OPF_OK;
    *changed = true;
    return move(context, &s, id, input, error);
}

opf_status opf_absorb_scale(opf_fuse_context *context, bool *changed, opf_error *error)
{
    opf_node_id *order = NULL;
    uint32_t n = 0;
    OPF_TRY(opf_graph_sort(context->graph, context->scratch, &order, &n, error));
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t input = 0; input < 2; input++)
            OPF_TRY(absorb(context, order[i], input, changed, error));
    return OPF_OK;
}
