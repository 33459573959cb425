/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exporters name the sizes of a mask for themselves, or leave them open: nobody has proven then that it broadcasts to
 * the scores that it is added to, and what is computed from them has no known shape. Before anything fuses, it is taken
 * to; a run in which a mask enlarges scores uses the graph as loaded.
 */
#include "fuse/attention.h"

typedef struct walk {
    opf_fuse_context *context;
    bool supposed; /* anything */
    opf_status status;
    opf_error *error;
} walk;

static const opf_info *info_of(const walk *w, opf_value_id value)
{
    return &opf_graph_value(w->context->graph, value)->info;
}

/* Numbers are left alone: where scores have one row or one batch, a mask of an open size would have to be of one too.
 */
static bool suppose(walk *w, const opf_info *mask, const opf_info *scores)
{
    bool any = false;
    for (int32_t i = 1; i <= mask->rank && mask->rank <= scores->rank; i++) {
        const opf_dim part = mask->dims[mask->rank - i], whole = scores->dims[scores->rank - i];
        if (!opf_dim_is_number(part) && !opf_dim_is_number(whole) && !opf_dim_equal(part, whole))
            any = opf_fuse_suppose_fits(w->context, part, whole) || any;
    }
    return any;
}

static bool has_shape_of(const opf_info *x, const opf_info *scores)
{
    return opf_legal_same(NULL, x, scores, NULL);
}

/* What the node adds to the scores, or chooses them by. */
static void suppose_operands(walk *w, opf_node_id id, uint32_t side)
{
    const opf_node *node = opf_graph_node(w->context->graph, id);
    const opf_info *scores = info_of(w, node->inputs[side]);
    for (uint32_t i = 0; i < node->n_own_inputs; i++)
        if (i != side && node->inputs[i] != 0 && suppose(w, info_of(w, node->inputs[i]), scores))
            w->supposed = true;
}

/* From the product on, so that each mask meets scores whose shape is known. */
static void visit(walk *w, opf_value_id value)
{
    opf_graph *graph = w->context->graph;
    const opf_node_id id = opf_graph_value(graph, value)->producer;
    uint32_t side;
    if (!opf_attention_carries_scores(graph, id, &side))
        return;
    visit(w, opf_graph_node(graph, id)->inputs[side]);
    if (w->status == OPF_OK)
        w->status = opf_fuse_infer(w->context, id, w->error);
    const opf_node *node = opf_graph_node(graph, id);
    if (w->status != OPF_OK || (node->op != &opf_op_Add && node->op != &opf_op_Where) ||
        has_shape_of(info_of(w, node->outputs[0]), info_of(w, node->inputs[side])))
        return;
    suppose_operands(w, id, side);
    if (w->supposed)
        w->status = opf_fuse_infer(w->context, id, w->error);
}

opf_status opf_fuse_suppose_masks(opf_fuse_context *context, opf_error *error)
{
    walk w = {.context = context, .error = error};
    for (opf_node_id id = 1; opf_fuse_is_enabled(context, "attention") && id < context->graph->n_nodes; id++)
        if (opf_fuse_is_plain(context->graph, id, &opf_op_Softmax)) {
            visit(&w, opf_graph_node(context->graph, id)->inputs[0]);
            OPF_TRY(w.status);
        }
    return w.supposed ? opf_infer_graph(context->graph, error) : OPF_OK;
}
