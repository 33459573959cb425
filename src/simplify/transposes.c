/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Networks between transposes: what reads nothing but transposed tensors, and is read by nothing but transposes (or
 * loses the axes that they move), works on the tensors before them as well. Then the transposes in front go, and those
 * behind merge with them, or cancel. Nothing is ever added, so there are never more kernels.
 *
 * One sweep gives every value that could have one its order, down from the transposes; then nodes that cannot turn are
 * taken out until the rest agrees.
 */
#include "simplify/turn.h"

#include <string.h>

typedef struct turning {
    opf_graph *graph;
    opf_arena scratch;
    opf_node_id *sorted;
    uint32_t n;
    const opf_order **orders; /* by value; NULL: as it is */
    bool *turns;              /* by node */
    opf_value_id *before;     /* by value: what takes its place, once that is there */
} turning;

static bool is_transpose(const turning *t, opf_node_id node)
{
    const opf_node *n = opf_graph_node(t->graph, node);
    return node != 0 && opf_simplify_is_plain(n) && n->op == &opf_op_Transpose && n->outputs[0] != 0;
}

static bool is_identity(const opf_order *order)
{
    for (int32_t i = 0; i < order->rank; i++)
        if (order->perm[i] != i)
            return false;
    return true;
}

static bool is_same(const opf_order *a, const opf_order *b)
{
    return a->rank == b->rank && memcmp(a->perm, b->perm, (size_t)a->rank * sizeof *a->perm) == 0;
}

/* ---- finding orders ---- */

/* Read in any order: a single element, or a constant that can be turned. */
static bool is_free(const turning *t, const opf_node *node, opf_value_id value, const opf_order *order)
{
    const opf_value *v = opf_graph_value(t->graph, value);
    if (v->constant != NULL)
        return node->op == &opf_op_Concat ? v->constant->rank == order->rank : v->constant->rank <= order->rank;
    bool is_single = v->info.rank >= 0 && v->info.rank <= order->rank && node->op != &opf_op_Concat;
    for (int32_t i = 0; is_single && i < v->info.rank; i++)
        is_single = opf_dim_is(v->info.dims[i], 1);
    return is_single;
}

/* The order that all operands agree on; NULL: there is none. */
static const opf_order *order_of(const turning *t, const opf_node *node)
{
    const bool mixes = opf_turn_mixes(node);
    const opf_order *order = NULL;
    for (uint32_t i = 0; i < (mixes ? node->n_own_inputs : 1) && order == NULL; i++)
        order = node->inputs[i] != 0 ? t->orders[node->inputs[i]] : NULL;
    for (uint32_t i = 0; order != NULL && mixes && i < node->n_own_inputs; i++) {
        const opf_value_id value = node->inputs[i];
        if (value != 0 &&
            (t->orders[value] != NULL ? !is_same(t->orders[value], order) : !is_free(t, node, value, order)))
            return NULL;
    }
    return order;
}

static bool give_order(turning *t, opf_node_id id)
{
    const opf_node *node = opf_graph_node(t->graph, id);
    opf_turn turn = {.graph = t->graph, .node = id};
    const opf_order *order =
        node->n_own_inputs > 0 && node->n_outputs > 0 && node->outputs[0] != 0 ? order_of(t, node) : NULL;
    if (is_transpose(t, id)) {
        if (!opf_simplify_perm(t->graph, node, turn.out.perm, &turn.out.rank))
            return true;
    } else {
        if (order == NULL)
            return true;
        turn.in = *order;
        t->turns[id] = opf_turn_find(&turn);
        if (!t->turns[id])
            return true;
    }
    if (is_identity(&turn.out))
        return true;
    const opf_order *out = opf_arena_copy(&t->scratch, &turn.out, sizeof turn.out);
    for (uint32_t o = 0; out != NULL && o < node->n_outputs; o++)
        if (node->outputs[o] != 0)
            t->orders[node->outputs[o]] = out;
    return out != NULL;
}

/* ---- taking out what cannot turn ---- */

/* The value before the transpose, or before the node that turns, will be there. */
static bool is_turned(const turning *t, opf_value_id value)
{
    const opf_node_id producer = opf_graph_value(t->graph, value)->producer;
    return t->orders[value] == NULL || is_transpose(t, producer) || t->turns[producer];
}

/* Nobody reads the value as it is. */
static bool is_hidden(const turning *t, opf_value_id value)
{
    const opf_value *v = opf_graph_value(t->graph, value);
    for (uint32_t i = 0; t->orders[value] != NULL && i < v->n_uses; i++)
        if (v->uses[i].node == 0 || (!is_transpose(t, v->uses[i].node) && !t->turns[v->uses[i].node]))
            return false;
    return true;
}

static bool agrees(const turning *t, const opf_node *node)
{
    for (uint32_t i = 0; i < node->n_own_inputs; i++)
        if (node->inputs[i] != 0 && !is_turned(t, node->inputs[i]))
            return false;
    for (uint32_t o = 0; o < node->n_outputs; o++)
        if (node->outputs[o] != 0 && !is_hidden(t, node->outputs[o]))
            return false;
    return true;
}

/* Up and down, until nothing more is taken out. */
static void settle(turning *t)
{
    bool changed = true;
    for (bool down = true; changed; down = !down) {
        changed = false;
        for (uint32_t i = 0; i < t->n; i++) {
            const opf_node_id id = t->sorted[down ? i : t->n - 1 - i];
            if (t->turns[id] && !agrees(t, opf_graph_node(t->graph, id))) {
                t->turns[id] = false;
                changed = true;
            }
        }
    }
}

/* A transpose behind what turns changes in this round; what stands behind it waits for the next one. */
static void wait_behind(turning *t)
{
    for (uint32_t i = 0; i < t->n; i++) {
        const opf_node *node = opf_graph_node(t->graph, t->sorted[i]);
        for (uint32_t k = 0; t->turns[t->sorted[i]] && k < node->n_own_inputs; k++) {
            const opf_value_id value = node->inputs[k];
            const opf_node_id producer = value != 0 ? opf_graph_value(t->graph, value)->producer : 0;
            if (value == 0 || t->orders[value] == NULL || !is_transpose(t, producer))
                continue;
            const opf_value_id x = opf_graph_node(t->graph, producer)->inputs[0];
            if (t->orders[x] != NULL && t->turns[opf_graph_value(t->graph, x)->producer])
                t->turns[t->sorted[i]] = false;
        }
    }
    settle(t);
}

/* ---- turning ---- */

static bool turn_inputs(turning *t, opf_node_id id, const opf_order *order)
{
    opf_graph *graph = t->graph;
    for (uint32_t i = 0; i < opf_graph_node(graph, id)->n_own_inputs; i++) {
        const opf_node *node = opf_graph_node(graph, id);
        const opf_value_id value = node->inputs[i];
        const opf_value *v = opf_graph_value(graph, value);
        if (value == 0)
            continue;
        if (t->orders[value] != NULL) {
            const opf_node_id producer = v->producer;
            const bool behind = is_transpose(t, producer);
            if (!opf_graph_set_input(graph, id, i,
                                     behind ? opf_graph_node(graph, producer)->inputs[0] : t->before[value]))
                return false;
            if (behind && opf_graph_value(graph, value)->n_uses == 0 && !opf_node_join_origin(graph, id, producer))
                return false;
        } else if (v->constant != NULL && opf_turn_mixes(node) && v->constant->count != 1) {
            const opf_const *c = opf_turn_constant(graph, order, v->constant, node->op == &opf_op_Concat);
            const opf_value_id turned = c != NULL ? opf_graph_add_constant(graph, v->name, c) : 0;
            if (turned == 0 || !opf_graph_set_input(graph, id, i, turned))
                return false;
        }
    }
    return true;
}

static bool turn_outputs(turning *t, opf_node_id id)
{
    opf_graph *graph = t->graph;
    for (uint32_t o = 0; o < opf_graph_node(graph, id)->n_outputs; o++) {
        const opf_value_id value = opf_graph_node(graph, id)->outputs[o];
        opf_info info;
        if (value == 0 || t->orders[value] == NULL)
            continue;
        if (!opf_turn_info(graph, t->orders[value], &opf_graph_value(graph, value)->info, &info))
            return false;
        t->before[value] = opf_graph_add_value(graph, NULL);
        if (t->before[value] == 0 || !opf_graph_set_output(graph, id, o, t->before[value]))
            return false;
        opf_graph_value(graph, t->before[value])->info = info;
    }
    return true;
}

static bool turn_node(turning *t, opf_node_id id)
{
    opf_turn turn = {.graph = t->graph, .node = id};
    turn.in = *order_of(t, opf_graph_node(t->graph, id));
    return turn_inputs(t, id, &turn.in) && turn_outputs(t, id) && opf_turn_apply(&turn);
}

/* A transpose of what turned reads it as it is now, by both permutations. */
static bool merge_transpose(turning *t, opf_node_id id)
{
    const opf_node *node = opf_graph_node(t->graph, id);
    const opf_value_id x = node->inputs[0];
    int64_t perm[OPF_MAX_RANK], merged[OPF_MAX_RANK];
    int32_t rank;
    if (x == 0 || t->before[x] == 0 || !opf_simplify_perm(t->graph, node, perm, &rank))
        return true;
    for (int32_t i = 0; i < rank; i++)
        merged[i] = t->orders[x]->perm[perm[i]];
    return opf_graph_set_input(t->graph, id, 0, t->before[x]) &&
           opf_node_set_ints(t->graph, id, "perm", merged, (uint32_t)rank);
}

static bool turn_all(turning *t, bool *changed)
{
    for (uint32_t i = 0; i < t->n; i++) {
        const opf_node_id id = t->sorted[i];
        *changed |= t->turns[id];
        if (t->turns[id] ? !turn_node(t, id) : is_transpose(t, id) && !merge_transpose(t, id))
            return false;
    }
    return true;
}

/* The arrays; false: memory is out. */
static bool prepare(turning *t)
{
    t->orders = OPF_NEW(&t->scratch, const opf_order *, t->graph->n_values);
    t->before = OPF_NEW(&t->scratch, opf_value_id, t->graph->n_values);
    t->turns = OPF_NEW(&t->scratch, bool, t->graph->n_nodes);
    return t->orders != NULL && t->before != NULL && t->turns != NULL;
}

static bool has_transposes(const turning *t)
{
    for (uint32_t i = 0; i < t->n; i++)
        if (is_transpose(t, t->sorted[i]))
            return true;
    return false;
}

static opf_status cancel(turning *t, bool *changed, opf_error *error)
{
    OPF_TRY(opf_graph_sort(t->graph, &t->scratch, &t->sorted, &t->n, error));
    if (!has_transposes(t))
        return OPF_OK;
    OPF_OOM_IF(error, !prepare(t));
    for (uint32_t i = 0; i < t->n; i++)
        OPF_OOM_IF(error,
                   opf_simplify_is_plain(opf_graph_node(t->graph, t->sorted[i])) && !give_order(t, t->sorted[i]));
    settle(t);
    wait_behind(t);
    OPF_OOM_IF(error, !turn_all(t, changed));
    return OPF_OK;
}

opf_status opf_cancel_transposes(opf_graph *graph, bool *changed, opf_error *error)
{
    turning t = {.graph = graph};
    opf_arena_init(&t.scratch, graph->arena->heap);
    const opf_status status = cancel(&t, changed, error);
    opf_arena_fini(&t.scratch);
    return status;
}
