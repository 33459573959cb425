/* SPDX-License-Identifier: Apache-2.0 */
#include "onnx/save/microsoft.h"

#include "ops/infer.h"

#include <string.h>

/* ---- looking ---- */

static bool is_plain(const opf_node *node, const opf_op *op)
{
    return node->op == op && node->domain[0] == '\0' && node->n_captures == 0;
}

opf_node_id opf_microsoft_maker(const opf_microsoft *m, opf_value_id value, const opf_op *op)
{
    const opf_node_id id = value != 0 ? opf_graph_value(m->graph, value)->producer : 0;
    return id != 0 && is_plain(opf_graph_node(m->graph, id), op) ? id : 0;
}

opf_node_id opf_microsoft_reader(const opf_microsoft *m, opf_value_id value, const opf_op *op)
{
    const opf_use *use = opf_graph_single_use(m->graph, value);
    return use != NULL && is_plain(opf_graph_node(m->graph, use->node), op) ? use->node : 0;
}

bool opf_microsoft_is_single(const opf_microsoft *m, opf_value_id value)
{
    return opf_graph_single_use(m->graph, value) != NULL;
}

bool opf_microsoft_is_float(const opf_microsoft *m, opf_value_id value)
{
    return value != 0 && opf_microsoft_info(m, value)->type == OPF_FLOAT;
}

bool opf_microsoft_same_shape(const opf_microsoft *m, opf_value_id a, opf_value_id b)
{
    const opf_info *x = opf_microsoft_info(m, a), *y = opf_microsoft_info(m, b);
    if (x->rank != y->rank || x->rank < 0)
        return false;
    for (int32_t i = 0; i < x->rank; i++)
        if (!opf_dim_equal(x->dims[i], y->dims[i]))
            return false;
    return true;
}

bool opf_microsoft_is_vector(const opf_microsoft *m, opf_value_id value, opf_value_id x)
{
    const opf_const *c = value != 0 ? opf_graph_value(m->graph, value)->constant : NULL;
    const opf_info *info = opf_microsoft_info(m, x);
    return c != NULL && c->rank == 1 && c->type == OPF_FLOAT && info->rank > 0 &&
           opf_dim_is(info->dims[info->rank - 1], c->dims[0]);
}

/* ---- making ---- */

static opf_value_id fail(opf_microsoft *m)
{
    m->failed = true;
    return 0;
}

opf_value_id opf_microsoft_apply(opf_microsoft *m, const char *name, const opf_op *op, const opf_value_id *inputs,
                                 uint32_t n, const opf_attr *attrs, uint32_t n_attrs)
{
    const char *own = opf_arena_printf(m->graph->arena, "%s/%s", name, op->name);
    const opf_value_id result = own != NULL && !m->failed ? opf_graph_add_value(m->graph, own) : 0;
    const opf_node_id id = result != 0 ? opf_graph_add_node(m->graph, op, op->name, own, inputs, n, &result, 1) : 0;
    if (id == 0)
        return fail(m);
    for (uint32_t a = 0; a < n_attrs; a++)
        if (!opf_node_set_attr(m->graph, id, attrs[a]))
            return fail(m);
    return opf_infer_update(m->graph, id, NULL) != OPF_OUT_OF_MEMORY ? result : fail(m);
}

opf_value_id opf_microsoft_ints(opf_microsoft *m, const char *name, const int64_t *ints, uint32_t n)
{
    const opf_value_id value = opf_graph_add_constant(m->graph, name, opf_const_ints(m->graph->consts, ints, n));
    return value != 0 ? value : fail(m);
}

/* Inputs of the old nodes are let go before the new one reads them. */
static bool exchange(opf_graph *graph, const opf_exchange *e)
{
    const char *name = opf_graph_node(graph, e->nodes[e->n_nodes - 1])->name;
    opf_node old = {.origin = NULL};
    uint32_t capacity = 0;
    for (uint32_t i = 0; i < e->n_nodes; i++) {
        const opf_node *node = opf_graph_node(graph, e->nodes[i]);
        for (uint32_t k = 0; k < node->n_origin; k++)
            if (!OPF_PUSH(graph->arena, old.origin, old.n_origin, capacity, node->origin[k]))
                return false;
        opf_graph_remove_node(graph, e->nodes[i]);
    }
    uint32_t n_inputs = e->n_inputs;
    while (n_inputs > 0 && e->inputs[n_inputs - 1] == 0)
        n_inputs--;
    const opf_node_id id =
        opf_graph_add_node(graph, NULL, e->op_type, name, e->inputs, n_inputs, e->outputs, e->n_outputs);
    if (id == 0)
        return false;
    opf_graph_node(graph, id)->domain = "com.microsoft";
    for (uint32_t k = 0; k < old.n_origin; k++)
        if (!opf_node_add_origin(graph, id, old.origin[k]))
            return false;
    for (uint32_t a = 0; a < e->n_attrs; a++)
        if (e->attrs[a].type != OPF_ATTR_NONE && !opf_node_set_attr(graph, id, e->attrs[a]))
            return false;
    return true;
}

void opf_microsoft_exchange(opf_microsoft *m, const opf_exchange *e)
{
    m->failed = m->failed || !exchange(m->graph, e);
}

/* ---- the whole ---- */

typedef struct candidate {
    const opf_op *op;
    void (*look)(opf_microsoft *m, opf_node_id node);
} candidate;

static const candidate candidates[] = {
#define OPF_MICROSOFT(op, function) {&opf_op_##op, opf_microsoft_##function},
#include "onnx/save/microsoft.def"
#undef OPF_MICROSOFT
};

opf_status opf_save_to_microsoft(opf_graph *graph, bool all, opf_error *error)
{
    opf_microsoft m = {.graph = graph, .all = all};
    for (uint32_t c = 0; c < OPF_COUNT(candidates); c++)
        for (opf_node_id id = 1; id < graph->n_nodes && !m.failed; id++)
            if (is_plain(opf_graph_node(graph, id), candidates[c].op) && opf_node_is_alive(opf_graph_node(graph, id)))
                candidates[c].look(&m, id);
    OPF_OOM_IF(error, m.failed);
    for (opf_node_id id = 1; id < graph->n_nodes; id++)
        for (uint32_t b = 0; b < graph->nodes[id].n_bodies; b++)
            OPF_TRY(opf_save_to_microsoft(graph->nodes[id].bodies[b], all, error));
    return OPF_OK;
}
