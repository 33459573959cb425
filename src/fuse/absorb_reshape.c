/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A Gemm takes matrices, so exporters flatten [batch, position, width] before it and take the rows apart behind it. An
 * elementwise node that follows computes the same on the flat rows: it goes before the Reshape, where it can become the
 * epilogue of the product.
 */
#include "fuse/absorb_steps.h"
#include "simplify/passes.h"

typedef struct move {
    opf_fuse_context *context;
    opf_graph *graph;
    opf_node_id reshape, node; /* the elementwise node that alone reads the Reshape */
    opf_value_id rows, apart;  /* before and behind the Reshape */
    opf_dim width;
    bool goes_on; /* a node was moved already: the rows are those of a product, and steps on them */
} move;

static const opf_info *info_of(const move *m, opf_value_id value)
{
    return &opf_graph_value(m->graph, value)->info;
}

/* Rows of a product that only a Reshape reads, which keeps them, and of which only an elementwise node reads the
 * result.
 */
static bool find(move *m)
{
    const opf_node *reshape = opf_graph_node(m->graph, m->reshape);
    if (!opf_fuse_is_plain(m->graph, m->reshape, &opf_op_Reshape) || reshape->outputs[0] == 0)
        return false;
    m->rows = reshape->inputs[0];
    m->apart = reshape->outputs[0];
    const opf_use *use = opf_graph_single_use(m->graph, m->apart);
    const opf_node *product = opf_graph_node(m->graph, opf_graph_value(m->graph, m->rows)->producer);
    const opf_info *rows = info_of(m, m->rows), *apart = info_of(m, m->apart);
    const bool is_product = opf_steps_is_anchor(product) && (product->op->traits & OPF_CONTRACTION) != 0;
    if (use == NULL || opf_graph_single_use(m->graph, m->rows) == NULL || (!is_product && !m->goes_on) ||
        rows->rank != 2 || apart->rank < 1 || !opf_dim_is_number(rows->dims[1]) || rows->dims[1].n < 1 ||
        !opf_dim_equal(rows->dims[1], apart->dims[apart->rank - 1]))
        return false;
    m->node = use->node;
    m->width = rows->dims[1];
    const opf_node *node = opf_graph_node(m->graph, m->node);
    return opf_steps_is_candidate(m->graph, m->node) && (node->op->traits & OPF_ELEMENTWISE) != 0 &&
           opf_simplify_same_shape(info_of(m, node->outputs[0]), apart);
}

/* ---- operands ---- */

/* One element, or one row: it is the same for flat rows. */
static bool is_row(const move *m, const opf_info *info)
{
    for (int32_t i = 0; i < info->rank; i++)
        if (!opf_dim_is(info->dims[i], 1) && (i + 1 < info->rank || !opf_dim_equal(info->dims[i], m->width)))
            return false;
    return info->rank >= 0;
}

/* value in another shape: a constant, or the result of a Reshape. */
static opf_value_id reshape(const move *m, opf_value_id value, const int64_t *dims, uint32_t n, opf_error *error)
{
    const opf_const *c = opf_graph_value(m->graph, value)->constant;
    if (c != NULL) {
        c = opf_const_reshape(m->graph->consts, c, (int32_t)n, dims);
        return c != NULL ? opf_graph_add_constant(m->graph, NULL, c) : 0;
    }
    const opf_const *list = opf_const_ints(m->graph->consts, dims, n);
    const opf_value_id inputs[] = {value, list != NULL ? opf_graph_add_constant(m->graph, NULL, list) : 0};
    return inputs[1] != 0 ? opf_fuse_build(m->context, &opf_op_Reshape, inputs, 2, error) : 0;
}

/* The operand for flat rows. *fits false: there is none. 0: it is absent, or memory is out. */
static opf_value_id flat_operand(const move *m, opf_value_id value, bool *fits, opf_error *error)
{
    const opf_value *v = opf_graph_value(m->graph, value);
    const bool is_wide = v->info.rank > 0 && opf_dim_equal(v->info.dims[v->info.rank - 1], m->width);
    const int64_t row[] = {is_wide ? m->width.n : 1}, flat[] = {-1, m->width.n};
    *fits = true;
    if (value == 0 || value == m->apart)
        return value == 0 ? 0 : m->rows;
    if (is_row(m, &v->info))
        return v->info.rank <= 2 ? value : reshape(m, value, row, 1, error);
    *fits = v->constant == NULL && opf_simplify_same_shape(&v->info, info_of(m, m->apart));
    const opf_value_id result = *fits ? reshape(m, value, flat, 2, error) : 0;
    if (*fits && result == 0)
        return 0;
    *fits = result != 0 && opf_simplify_same_shape(info_of(m, result), info_of(m, m->rows));
    return result;
}

/* ---- the exchange ---- */

static opf_status apply(const move *m, bool *moved, opf_error *error)
{
    opf_graph *graph = m->graph;
    const opf_node_id first = graph->n_nodes;
    const uint32_t n = opf_graph_node(graph, m->node)->n_own_inputs;
    opf_value_id *operands = OPF_NEW(m->context->scratch, opf_value_id, n);
    OPF_OOM_IF(error, operands == NULL);
    *moved = true;
    for (uint32_t i = 0; i < n && *moved; i++) {
        operands[i] = flat_operand(m, opf_graph_node(graph, m->node)->inputs[i], moved, error);
        OPF_OOM_IF(error, *moved && operands[i] == 0 && opf_graph_node(graph, m->node)->inputs[i] != 0);
    }
    for (opf_node_id id = graph->n_nodes; id-- > first && !*moved;)
        opf_graph_remove_node(graph, id);
    if (!*moved)
        return OPF_OK;
    const opf_value_id result = opf_graph_node(graph, m->node)->outputs[0], flat = opf_graph_add_value(graph, NULL);
    OPF_OOM_IF(error, flat == 0);
    for (uint32_t i = 0; i < n; i++)
        OPF_OOM_IF(error, !opf_graph_set_input(graph, m->node, i, operands[i]));
    OPF_OOM_IF(error, !opf_graph_set_output(graph, m->node, 0, flat) ||
                          !opf_graph_set_input(graph, m->reshape, 0, flat) ||
                          !opf_graph_set_output(graph, m->reshape, 0, result));
    return opf_fuse_infer(m->context, m->node, error);
}

opf_status opf_absorb_reshape(opf_fuse_context *context, bool *changed, opf_error *error)
{
    opf_node_id *order = NULL;
    uint32_t n = 0;
    if (context->left == 0)
        return OPF_OK;
    OPF_TRY(opf_graph_sort(context->graph, context->scratch, &order, &n, error));
    for (uint32_t i = 0; i < n; i++) {
        move m = {.context = context, .graph = context->graph, .reshape = order[i]};
        for (bool moved = true; moved && find(&m);) {
            OPF_TRY(apply(&m, &moved, error));
            m.goes_on = moved;
            *changed = *changed || moved;
        }
    }
    return OPF_OK;
}
