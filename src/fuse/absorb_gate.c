/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A product that only the steps of another product read, where both multiply the same rows: silu(x Wg) * (x Wu) and its
 * like. Its tiles are made beside those of the other one and read from cache, so it is not stored. It stays in the
 * graph, marked: it makes no kernel of its own (matmul-gate).
 */
#include "fuse/legality.h"
#include "ops/stored.h"

static const char rule[] = "matmul-gate";

static bool is_product(const opf_node *node)
{
    return opf_node_is_alive(node) && (node->op == &opf_op_MatMul || node->op == &opf_op_Gemm) &&
           node->prologue.n == 0 && node->n_own_inputs >= 2 && node->outputs[0] != 0;
}

static const opf_const *weights_of(const opf_graph *graph, const opf_node *node)
{
    return opf_graph_value(graph, node->inputs[1])->constant;
}

/* The product behind makes tiles of this one from its own rows and packed weights. */
static bool check_weights(opf_fuse_context *context, opf_node_id id, opf_refusal *why)
{
    const opf_graph *graph = context->graph;
    const opf_node *node = opf_graph_node(graph, id);
    const opf_const *w = weights_of(graph, node);
    if (w == NULL)
        return opf_refuse(context, why, OPF_MISS_CONST, id, "%s is no constant",
                          opf_graph_value(graph, node->inputs[1])->name);
    if (w->type != OPF_FLOAT)
        return opf_refuse(context, why, OPF_MISS_DTYPE, id, "%s has elements of type %s, must be %s",
                          opf_graph_value(graph, node->inputs[1])->name, opf_type_name(w->type),
                          opf_type_name(OPF_FLOAT));
    return (w->rank == 2 && w->count != 0) || opf_refuse(context, why, OPF_MISS_RANK, id, "%s is no matrix, or empty",
                                                         opf_graph_value(graph, node->inputs[1])->name);
}

static int64_t columns(const opf_node *node, const opf_const *w)
{
    return w->dims[node->op == &opf_op_Gemm && opf_node_int(node, "transB", 0) != 0 ? 0 : 1];
}

static bool check_gemm(opf_fuse_context *context, opf_node_id id, opf_refusal *why)
{
    const opf_node *node = opf_graph_node(context->graph, id);
    const bool has_c = node->n_own_inputs > 2 && node->inputs[2] != 0;
    if (node->op == &opf_op_MatMul)
        return true;
    if (opf_node_float(node, "alpha", 1) != 1 || (has_c && opf_node_float(node, "beta", 1) != 1))
        return opf_refuse(context, why, OPF_MISS_ATTR, id, "alpha and beta must be 1");
    return opf_node_int(node, "transA", 0) == 0 ||
           opf_refuse(context, why, OPF_MISS_ATTR, id, "transA is set: its rows are columns");
}

/* What a Gemm adds is one number a column. */
static bool check_bias(opf_fuse_context *context, opf_node_id id, opf_refusal *why)
{
    const opf_graph *graph = context->graph;
    const opf_node *node = opf_graph_node(graph, id);
    if (node->op == &opf_op_MatMul || node->n_own_inputs < 3 || node->inputs[2] == 0)
        return true;
    const opf_const *c = opf_graph_value(graph, node->inputs[2])->constant;
    const int64_t n = columns(node, weights_of(graph, node));
    return (c != NULL && (c->count == 1 || (c->count == (size_t)n && c->dims[c->rank - 1] == n))) ||
           opf_refuse(context, why, OPF_MISS_CONST, id, "%s is no constant with a number a column",
                      opf_graph_value(graph, node->inputs[2])->name);
}

/* One product is made beside another, and that one is stored. */
static bool check_free(opf_fuse_context *context, opf_node_id id, opf_node_id reader, opf_refusal *why)
{
    const opf_graph *graph = context->graph;
    const opf_node_id ids[] = {id, reader};
    if (opf_product_is_beside(opf_graph_node(graph, reader)))
        return opf_refuse(context, why, OPF_MISS_NO_KERNEL, reader, "%s is itself made beside another product",
                          opf_graph_node(graph, reader)->name);
    for (uint32_t k = 0; k < OPF_COUNT(ids); k++) {
        const opf_node *node = opf_graph_node(graph, ids[k]);
        for (uint32_t i = node->n_own_inputs; i < node->n_inputs; i++) {
            const opf_node *other = opf_graph_node(graph, opf_graph_value(graph, node->inputs[i])->producer);
            if (opf_product_is_beside(other))
                return opf_refuse(context, why, OPF_MISS_NO_KERNEL, ids[k], "%s has %s made beside it already",
                                  node->name, other->name);
        }
    }
    return true;
}

static bool check(opf_fuse_context *context, opf_node_id id, opf_node_id reader, opf_refusal *why)
{
    const opf_graph *graph = context->graph;
    const opf_node *node = opf_graph_node(graph, id), *to = opf_graph_node(graph, reader);
    const opf_value *result = opf_graph_value(graph, node->outputs[0]);
    if (!opf_legal_read_once(context, node->outputs[0], reader, why) || !check_weights(context, id, why) ||
        !check_weights(context, reader, why) || !check_gemm(context, id, why) || !check_gemm(context, reader, why) ||
        !check_bias(context, id, why) || !check_free(context, id, reader, why))
        return false;
    if (node->n_outputs != 1)
        return opf_refuse(context, why, OPF_MISS_USED_OUTSIDE, id, "a step of it is stored too");
    if (result->info.type != OPF_FLOAT)
        return opf_refuse(context, why, OPF_MISS_DTYPE, id, "%s has elements of type %s, must be %s", result->name,
                          opf_type_name(result->info.type), opf_type_name(OPF_FLOAT));
    if (opf_graph_value(graph, node->inputs[0])->info.rank < 2)
        return opf_refuse(context, why, OPF_MISS_RANK, id, "%s has no rows",
                          opf_graph_value(graph, node->inputs[0])->name);
    const int64_t found = columns(node, weights_of(graph, node)), wanted = columns(to, weights_of(graph, to));
    return found == wanted ||
           opf_refuse(context, why, OPF_MISS_SHAPE, id, "it has %lld columns, must have %lld as %s has",
                      (long long)found, (long long)wanted, to->name);
}

/* The product that steps of `reader` read as operand i, from the same rows; 0: there is none. */
static opf_node_id find(const opf_graph *graph, const opf_node *reader, uint32_t i)
{
    const opf_node_id id = opf_graph_value(graph, reader->inputs[i])->producer;
    const opf_node *node = opf_graph_node(graph, id);
    return id != 0 && is_product(node) && opf_node_is_stored(node) && node->inputs[0] == reader->inputs[0] &&
                   opf_graph_value(graph, reader->inputs[i])->producer_output == 0
               ? id
               : 0;
}

static opf_status absorb(opf_fuse_context *context, opf_node_id id, opf_node_id reader, bool *changed, opf_error *error)
{
    opf_refusal why = {.code = OPF_MISS_OP};
    if (check(context, id, reader, &why))
        return opf_fuse_leave_unstored(context, rule, id, changed, error);
    OPF_OOM_IF(error, !opf_report_refusal(context, rule, id, &why, 1, 2));
    return OPF_OK;
}

opf_status opf_absorb_gate(opf_fuse_context *context, bool *changed, opf_error *error)
{
    const opf_graph *graph = context->graph;
    if (*changed) /* both may still take steps: this is for what they have become */
        return OPF_OK;
    for (opf_node_id id = 1; id < graph->n_nodes; id++) {
        const opf_node *reader = opf_graph_node(graph, id);
        for (uint32_t i = reader->n_own_inputs; is_product(reader) && i < reader->n_inputs; i++) {
            const opf_node_id product = reader->inputs[i] != 0 ? find(graph, reader, i) : 0;
            if (product != 0)
                OPF_TRY(absorb(context, product, id, changed, error));
        }
    }
    return OPF_OK;
}
