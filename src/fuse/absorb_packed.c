/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gate and value of an MLP that the model packs into one product, which a Split takes apart: elementwise nodes do not
 * run across a Split, so what joins the halves would be a kernel of its own that reads both. Two products, whose
 * epilogues take those nodes, and of which one is made beside the other, store the joined half only (absorb_gate.c).
 */
#include "fuse/absorb_steps.h"

static const char rule[] = "matmul-gate";

enum { HALVES = 2, MAX_CHAIN = 8 };

typedef struct packed {
    opf_node_id split, product, add; /* add 0: there is none */
    const opf_const *weights, *bias; /* of the product, or of the Add; bias NULL: none */
    int32_t axis;                    /* of the weights' columns */
    int64_t width;                   /* of a half */
} packed;

static const opf_const *constant_of(const opf_graph *graph, opf_value_id value)
{
    return value != 0 ? opf_graph_value(graph, value)->constant : NULL;
}

/* The elementwise nodes that read the value one after the other, and nothing else does. */
static uint32_t chain_of(const opf_graph *graph, opf_value_id value, opf_node_id *chain)
{
    uint32_t n = 0;
    for (const opf_use *use = opf_graph_single_use(graph, value);
         use != NULL && n < MAX_CHAIN && opf_steps_is_candidate(graph, use->node);
         use = opf_graph_single_use(graph, opf_graph_node(graph, use->node)->outputs[0]))
        chain[n++] = use->node;
    return n;
}

/* A node reads both halves, or what elementwise nodes make of them. */
static bool halves_meet(const opf_graph *graph, const opf_node *split)
{
    opf_node_id first[MAX_CHAIN], second[MAX_CHAIN];
    const uint32_t n = chain_of(graph, split->outputs[0], first), m = chain_of(graph, split->outputs[1], second);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < m; k++)
            if (first[i] == second[k])
                return true;
    return false;
}

/* A number a column, or one for all. */
static bool is_bias(const opf_const *c, int64_t columns)
{
    return c != NULL && c->type == OPF_FLOAT &&
           (c->count == 1 || (c->count == (size_t)columns && c->dims[c->rank - 1] == columns));
}

/* The Add of a bias between product and Split. */
static bool find_add(const opf_graph *graph, opf_value_id *value, packed *p)
{
    const opf_node_id id = opf_graph_value(graph, *value)->producer;
    const opf_node *add = opf_graph_node(graph, id);
    if (!opf_fuse_is_plain(graph, id, &opf_op_Add))
        return true;
    const uint32_t operand = constant_of(graph, add->inputs[0]) != NULL ? 0 : 1;
    p->add = id;
    p->bias = constant_of(graph, add->inputs[operand]);
    *value = add->inputs[1 - operand];
    return is_bias(p->bias, HALVES * p->width) && p->bias->rank <= opf_graph_value(graph, *value)->info.rank &&
           opf_graph_single_use(graph, *value) != NULL;
}

static bool find_product(const opf_graph *graph, opf_value_id value, packed *p)
{
    p->product = opf_graph_value(graph, value)->producer;
    const opf_node *node = opf_graph_node(graph, p->product);
    if (p->product == 0 || (node->op != &opf_op_MatMul && node->op != &opf_op_Gemm) ||
        !opf_fuse_is_plain(graph, p->product, node->op) || opf_graph_value(graph, node->inputs[0])->info.rank < 2)
        return false;
    p->weights = constant_of(graph, node->inputs[1]);
    p->axis = node->op == &opf_op_Gemm && opf_node_int(node, "transB", 0) != 0 ? 0 : 1;
    if (node->n_inputs > 2 && node->inputs[2] != 0) {
        if (p->add != 0 || !is_bias(constant_of(graph, node->inputs[2]), HALVES * p->width))
            return false;
        p->bias = constant_of(graph, node->inputs[2]);
    }
    return p->weights != NULL && p->weights->type == OPF_FLOAT && p->weights->rank == 2 &&
           p->weights->dims[p->axis] == HALVES * p->width;
}

static bool find(const opf_graph *graph, opf_node_id id, packed *p)
{
    const opf_node *split = opf_graph_node(graph, id);
    if (!opf_node_is_alive(split) || split->op != &opf_op_Split || split->n_outputs != HALVES ||
        split->outputs[0] == 0 || split->outputs[1] == 0)
        return false;
    opf_value_id value = split->inputs[0];
    const opf_info *half = &opf_graph_value(graph, split->outputs[0])->info,
                   *other = &opf_graph_value(graph, split->outputs[1])->info;
    const int32_t last = half->rank - 1;
    const int64_t axis = opf_node_int(split, "axis", 0);
    if (last < 1 || other->rank != half->rank || (axis != -1 && axis != last) || !opf_dim_is_number(half->dims[last]) ||
        !opf_dim_equal(half->dims[last], other->dims[last]))
        return false;
    *p = (packed){.split = id, .width = half->dims[last].n};
    return p->width != 0 && opf_graph_single_use(graph, value) != NULL && halves_meet(graph, split) &&
           find_add(graph, &value, p) && find_product(graph, value, p);
}

/* ---- taking apart ---- */

static opf_value_id half_of(opf_graph *graph, const packed *p, const opf_const *c, int32_t axis, uint32_t half)
{
    int64_t start[OPF_MAX_RANK] = {0}, dims[OPF_MAX_RANK];
    if (c->count == 1)
        return opf_graph_add_constant(graph, NULL, c); /* one number for all columns */
    for (int32_t i = 0; i < c->rank; i++)
        dims[i] = i == axis ? p->width : c->dims[i];
    start[axis] = (int64_t)half * p->width;
    const opf_const *slice = opf_const_slice(graph->consts, c, start, dims);
    return slice != NULL ? opf_graph_add_constant(graph, NULL, slice) : 0;
}

static opf_status build(opf_fuse_context *context, const packed *p, const opf_node *product, const opf_node *add,
                        uint32_t half, opf_value_id result, opf_node_id *id, opf_error *error)
{
    opf_graph *graph = context->graph;
    const opf_value_id w = half_of(graph, p, p->weights, p->axis, half),
                       bias = p->bias != NULL ? half_of(graph, p, p->bias, p->bias->rank - 1, half) : 0,
                       plain = add != NULL ? opf_graph_add_value(graph, NULL) : result;
    const opf_value_id inputs[] = {product->inputs[0], w, bias}, terms[] = {plain, bias};
    OPF_OOM_IF(error, w == 0 || plain == 0 || (p->bias != NULL && bias == 0));
    *id = opf_graph_add_node(graph, product->op, product->op_type, product->name, inputs,
                             add == NULL && p->bias != NULL ? 3 : 2, &plain, 1);
    OPF_OOM_IF(error, *id == 0);
    for (uint32_t i = 0; i < product->n_attrs; i++)
        OPF_OOM_IF(error, !opf_node_set_attr(graph, *id, product->attrs[i]));
    for (uint32_t i = 0; i < product->n_origin; i++)
        OPF_OOM_IF(error, !opf_node_add_origin(graph, *id, product->origin[i]));
    OPF_TRY(opf_fuse_infer(context, *id, error));
    if (add == NULL)
        return OPF_OK;
    const opf_node_id sum = opf_graph_add_node(graph, add->op, add->op_type, add->name, terms, 2, &result, 1);
    OPF_OOM_IF(error, sum == 0);
    for (uint32_t i = 0; i < add->n_origin; i++)
        OPF_OOM_IF(error, !opf_node_add_origin(graph, sum, add->origin[i]));
    return opf_fuse_infer(context, sum, error);
}

static opf_status apply(opf_fuse_context *context, const packed *p, opf_node_id *anchor, opf_error *error)
{
    opf_graph *graph = context->graph;
    const opf_node product = *opf_graph_node(graph, p->product), split = *opf_graph_node(graph, p->split),
                   add = *opf_graph_node(graph, p->add);
    opf_graph_remove_node(graph, p->split);
    if (p->add != 0)
        opf_graph_remove_node(graph, p->add);
    opf_graph_remove_node(graph, p->product);
    for (uint32_t half = 0; half < HALVES; half++)
        OPF_TRY(build(context, p, &product, p->add != 0 ? &add : NULL, half, split.outputs[half], anchor, error));
    for (uint32_t i = 0; i < split.n_origin; i++)
        OPF_OOM_IF(error, !opf_node_add_origin(graph, *anchor, split.origin[i]));
    return OPF_OK;
}

opf_status opf_absorb_packed(opf_fuse_context *context, bool *changed, opf_error *error)
{
    const opf_graph *graph = context->graph;
    for (opf_node_id id = 1; id < graph->n_nodes; id++) {
        packed p;
        opf_node_id anchor;
        if (!find(graph, id, &p) || !opf_fuse_allows(context, rule, p.product))
            continue;
        OPF_TRY(apply(context, &p, &anchor, error));
        *changed = true;
        OPF_TRY(opf_fuse_done(context, rule, anchor, error));
    }
    return OPF_OK;
}
