/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of a table that one kernel reads are not stored: an elementwise kernel or a normalisation takes each from the
 * table by its index. So word, position and type embeddings, their sum and its normalisation are one kernel. The Gather
 * stays in the graph, marked: it makes no kernel of its own.
 */
#include "fuse/legality.h"
#include "ops/stored.h"

static const char rule[] = "embedding";

static bool is_region(const opf_node *node)
{
    return node->op == &opf_op_Identity && node->epilogue.n != 0;
}

/* The axes at the end that a normalisation by rows takes together, of a result of this rank; 0: it is none. */
static int64_t normalised_axes(const opf_node *node, int32_t rank)
{
    const int64_t axis = opf_node_int(node, "axis", -1), before = axis < 0 ? axis + rank : axis;
    const bool one =
        node->op == &opf_op_Softmax || node->op == &opf_op_LogSoftmax || node->op == &opf_op_LpNormalization;
    if (one || node->op == &opf_op_LayerNormalization || node->op == &opf_op_RMSNormalization)
        return one && before != rank - 1 ? 0 : rank - before;
    return 0;
}

/* The kernel of the reader goes over the operand element by element, or row by row. */
static bool takes_rows(const opf_graph *graph, opf_use use)
{
    const opf_node *node = opf_graph_node(graph, use.node);
    if (use.node == 0 || node->op == NULL || node->n_bodies != 0 || node->n_outputs == 0 || node->outputs[0] == 0)
        return false;
    if (is_region(node) || ((node->op->traits & OPF_ELEMENTWISE) != 0 && (node->op->traits & OPF_MOVEMENT) == 0))
        return true;
    return normalised_axes(node, opf_graph_value(graph, node->outputs[0])->info.rank) > 0 &&
           (use.input == 0 || use.input >= node->n_own_inputs);
}

/* All that the reader computes with is float. */
static bool check_types(opf_fuse_context *context, opf_node_id reader, opf_refusal *why)
{
    const opf_graph *graph = context->graph;
    const opf_node *node = opf_graph_node(graph, reader);
    for (uint32_t i = 0; i <= node->n_inputs; i++) {
        const opf_value_id value = i < node->n_inputs ? node->inputs[i] : node->outputs[0];
        const opf_value *v = opf_graph_value(graph, value);
        if (value != 0 && v->info.type != OPF_FLOAT)
            return opf_refuse(context, why, OPF_MISS_DTYPE, reader, "%s has elements of type %s, must be %s", v->name,
                              opf_type_name(v->info.type), opf_type_name(OPF_FLOAT));
    }
    return true;
}

static bool check(opf_fuse_context *context, opf_node_id id, opf_node_id reader, opf_refusal *why)
{
    const opf_graph *graph = context->graph;
    const opf_node *node = opf_graph_node(graph, id), *to = opf_graph_node(graph, reader);
    const opf_value *table = opf_graph_value(graph, node->inputs[0]),
                    *result = opf_graph_value(graph, node->outputs[0]);
    const int64_t axis = opf_node_int(node, "axis", 0);
    if (!opf_legal_uses(context, node->outputs[0], &reader, 1, why))
        return false;
    for (uint32_t u = 0; u < result->n_uses; u++)
        if (!takes_rows(graph, result->uses[u]))
            return opf_refuse(context, why, OPF_MISS_NO_KERNEL, reader,
                              "%s reads %s as a parameter too, which lies in memory", to->name, result->name);
    if (table->info.rank < 2)
        return opf_refuse(context, why, OPF_MISS_RANK, id, "the table %s has rank %d, must have 2 or more", table->name,
                          (int)table->info.rank);
    if (axis != 0 && axis != -(int64_t)table->info.rank)
        return opf_refuse(context, why, OPF_MISS_ATTR, id, "axis is %lld, must be 0: a row lies together",
                          (long long)axis);
    if (opf_graph_value(graph, node->inputs[1])->constant != NULL)
        return opf_refuse(context, why, OPF_MISS_CONST, id,
                          "indices %s are a constant: what they select lies at known places, and is copied at most",
                          opf_graph_value(graph, node->inputs[1])->name);
    if (!check_types(context, reader, why))
        return false;
    const int64_t axes = normalised_axes(to, opf_graph_value(graph, to->outputs[0])->info.rank);
    return axes < table->info.rank || opf_refuse(context, why, OPF_MISS_SHAPE, reader,
                                                 "%s goes over the last %lld axes at once, rows of %s have %d",
                                                 to->op_type, (long long)axes, table->name, (int)table->info.rank - 1);
}

/* The first reader that could take rows; 0: none. */
static opf_node_id find_reader(const opf_graph *graph, opf_value_id value)
{
    const opf_value *v = opf_graph_value(graph, value);
    for (uint32_t u = 0; u < v->n_uses; u++)
        if (takes_rows(graph, v->uses[u]))
            return v->uses[u].node;
    return 0;
}

static opf_status absorb(opf_fuse_context *context, opf_node_id id, bool *changed, opf_error *error)
{
    opf_refusal why = {.code = OPF_MISS_OP};
    const opf_node_id reader = find_reader(context->graph, opf_graph_node(context->graph, id)->outputs[0]);
    if (reader == 0)
        return OPF_OK;
    if (check(context, id, reader, &why))
        return opf_fuse_leave_unstored(context, rule, id, changed, error);
    OPF_OOM_IF(error, !opf_report_refusal(context, rule, id, &why, 1, 2));
    return OPF_OK;
}

opf_status opf_absorb_embedding(opf_fuse_context *context, bool *changed, opf_error *error)
{
    const opf_graph *graph = context->graph;
    if (*changed) /* readers may still join others: this is for what they have become */
        return OPF_OK;
    for (opf_node_id id = 1; id < graph->n_nodes; id++)
        if (opf_fuse_is_plain(graph, id, &opf_op_Gather) && !opf_gather_is_read_in_place(opf_graph_node(graph, id)) &&
            opf_types_have(OPF_TYPES_FLOAT, opf_graph_value(graph, opf_graph_node(graph, id)->outputs[0])->info.type))
            OPF_TRY(absorb(context, id, changed, error));
    return OPF_OK;
}
