/* SPDX-License-Identifier: Apache-2.0 */
#include "onnx/save/spell.h"

typedef struct spelling {
    const opf_op *op;
    int32_t below;
    opf_contrib_op how;
} spelling;

/* Inputs were checked when the model was loaded, or are as the rules made them. */
static const spelling spellings[] = {
#define OPF_SPELLING(op, below) {&opf_op_##op, below, {"", #op, 0, 0, UINT32_MAX, opf_spell_##op}},
#include "onnx/save/spell.def"
#undef OPF_SPELLING
};

static const spelling *find(const opf_op *op)
{
    for (uint32_t i = 0; i < OPF_COUNT(spellings); i++)
        if (spellings[i].op == op)
            return &spellings[i];
    return NULL;
}

/* What every opset must spell. Attention as fusion makes it has a plain softmax, which differs from the operator only
   where a mask hides things; turned operands are always fusion's own, as are a guarded norm and angles that broadcast.
   Swish is two old nodes, and ONNX Runtime 1.32 has no kernel for it. */
static bool is_always_spelled(opf_graph *graph, opf_node_id id)
{
    enum { MASK = 3 };
    opf_node *node = opf_graph_node(graph, id);
    if (node->op == &opf_op_Swish)
        return opf_graph_value(graph, node->inputs[0])->info.type == OPF_FLOAT;
    if (node->op == &opf_op_LpNormalization)
        return opf_node_attr(node, "guard") != NULL;
    if (node->op == &opf_op_RotaryEmbedding)
        return opf_node_int(node, "broadcast", 0) != 0;
    if (node->op != &opf_op_Attention)
        return false;
    if (opf_node_int(node, "q_rotated", 0) != 0 || opf_node_int(node, "k_rotated", 0) != 0)
        return true;
    if (opf_node_attr(node, "masked_score") == NULL)
        return false;
    if ((node->n_own_inputs > MASK && node->inputs[MASK] != 0) || opf_node_int(node, "nan_is_zero", 0) != 0)
        return true;
    opf_node_remove_attr(node, "masked_score");
    return false;
}

/* The result is called what it was called before. */
static bool name_last(opf_graph *graph, opf_value_id result, const char *name)
{
    const opf_node_id last = opf_graph_value(graph, result)->producer;
    if (last == 0)
        return true;
    opf_graph_node(graph, last)->name = name;
    return opf_map_put(&graph->node_names, name, last);
}

opf_status opf_save_spell(opf_graph *graph, opf_node_id id, int32_t opset, bool *is_spelled, opf_error *error)
{
    const opf_node node = *opf_graph_node(graph, id);
    const spelling *s = find(node.op);
    *is_spelled = false;
    if (s == NULL || (opset >= s->below && !is_always_spelled(graph, id)))
        return OPF_OK;
    const opf_value_id result = node.outputs[0];
    const opf_status status = opf_contrib_lift(&s->how, graph, id, opset, error);
    if (status != OPF_OK) {
        opf_error_prefix(error, "%s (%s): ", node.name, node.op_type);
        return status;
    }
    *is_spelled = true;
    OPF_OOM_IF(error, result != 0 && !name_last(graph, result, node.name));
    return OPF_OK;
}
