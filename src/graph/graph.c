/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/graph.h"

#include <string.h>

/* ---- creating ---- */

opf_graph *opf_graph_create(opf_arena *arena, opf_dims *dims, opf_const_pool *consts, const char *name)
{
    opf_graph *graph = OPF_NEW(arena, opf_graph, 1);
    if (graph == NULL)
        return NULL;
    *graph = (opf_graph){.arena = arena, .dims = dims, .consts = consts, .name = name};
    opf_map_init(&graph->value_names, arena);
    opf_map_init(&graph->node_names, arena);
    if (!OPF_PUSH(arena, graph->nodes, graph->n_nodes, graph->nodes_capacity, (opf_node){0}) ||
        !OPF_PUSH(arena, graph->values, graph->n_values, graph->values_capacity, (opf_value){0}))
        return NULL;
    return graph;
}

/* The wanted name if it is free, otherwise wanted#2, wanted#3, …; NULL when memory is out. */
static const char *fresh_name(opf_graph *graph, const opf_map *taken, const char *wanted, const char *fallback)
{
    if (wanted != NULL && wanted[0] != '\0' && !opf_map_get(taken, wanted, NULL))
        return opf_arena_copy_string(graph->arena, wanted, strlen(wanted));
    const char *stem = wanted != NULL && wanted[0] != '\0' ? wanted : fallback;
    for (;;) {
        const char *name = opf_arena_printf(graph->arena, "%s#%u", stem, ++graph->fresh + 1);
        if (name == NULL || !opf_map_get(taken, name, NULL))
            return name;
    }
}

opf_value_id opf_graph_add_value(opf_graph *graph, const char *name)
{
    const char *unique = fresh_name(graph, &graph->value_names, name, "value");
    opf_value   value  = {.name = unique, .info = {.rank = -1, .n_values = -1}};
    if (unique == NULL || !OPF_PUSH(graph->arena, graph->values, graph->n_values, graph->values_capacity, value) ||
        !opf_map_put(&graph->value_names, unique, graph->n_values - 1))
        return 0;
    return graph->n_values - 1;
}

opf_value_id opf_graph_find_value(const opf_graph *graph, const char *name)
{
    uint32_t id;
    return opf_map_get(&graph->value_names, name, &id) ? id : 0;
}

/* What a constant tells: its type, dims, and its elements when they are few integers. */
static bool constant_info(opf_graph *graph, const opf_const *constant, opf_info *info)
{
    *info      = (opf_info){.type = constant->type, .rank = constant->rank, .n_values = -1};
    info->dims = OPF_NEW(graph->arena, opf_dim, constant->rank);
    if (info->dims == NULL)
        return false;
    for (int32_t i = 0; i < constant->rank; i++)
        info->dims[i] = opf_dim_number(constant->dims[i]);
    if (!opf_types_have(OPF_TYPES_INT | OPF_TYPES_BOOL, constant->type) || constant->type == OPF_UINT64 ||
        constant->count > OPF_MAX_KNOWN_VALUES)
        return true;
    info->values = OPF_NEW(graph->arena, opf_dim, constant->count);
    if (info->values == NULL)
        return false;
    info->n_values = (int32_t)constant->count;
    for (size_t i = 0; i < constant->count; i++)
        info->values[i] = opf_dim_number(opf_const_i64_at(constant, i));
    return true;
}

opf_value_id opf_graph_add_constant(opf_graph *graph, const char *name, const opf_const *constant)
{
    opf_info info;
    if (constant == NULL || !constant_info(graph, constant, &info))
        return 0;
    opf_value_id id = opf_graph_add_value(graph, name);
    if (id != 0) {
        graph->values[id].constant = constant;
        graph->values[id].info     = info;
    }
    return id;
}

bool opf_graph_add_input(opf_graph *graph, opf_value_id value)
{
    graph->values[value].is_input = true;
    return OPF_PUSH(graph->arena, graph->inputs, graph->n_inputs, graph->inputs_capacity, value);
}

/* ---- edges ---- */

static bool add_use(opf_graph *graph, opf_value_id value, opf_node_id node, uint32_t input)
{
    if (value == 0)
        return true;
    opf_value *v   = &graph->values[value];
    opf_use    use = {node, input};
    return OPF_PUSH(graph->arena, v->uses, v->n_uses, v->uses_capacity, use);
}

/* Keeps the order of the other uses: what depends on order stays reproducible. */
static void remove_use(opf_graph *graph, opf_value_id value, opf_node_id node, uint32_t input)
{
    if (value == 0)
        return;
    opf_value *v = &graph->values[value];
    for (uint32_t i = 0; i < v->n_uses; i++)
        if (v->uses[i].node == node && v->uses[i].input == input) {
            memmove(&v->uses[i], &v->uses[i + 1], (v->n_uses - i - 1) * sizeof *v->uses);
            v->n_uses--;
            return;
        }
}

bool opf_graph_add_output(opf_graph *graph, opf_value_id value)
{
    return OPF_PUSH(graph->arena, graph->outputs, graph->n_outputs, graph->outputs_capacity, value) &&
           add_use(graph, value, 0, graph->n_outputs - 1);
}

opf_node_id opf_graph_add_node(opf_graph *graph, const opf_op *op, const char *op_type, const char *name, const opf_value_id *inputs,
                               uint32_t n_inputs, const opf_value_id *outputs, uint32_t n_outputs)
{
    /* The name of a removed node is free again: a rewrite may put a node in its place. */
    uint32_t namesake;
    bool     reuse = name != NULL && opf_map_get(&graph->node_names, name, &namesake) &&
                 !opf_node_is_alive(&graph->nodes[namesake]);
    opf_node node  = {.op            = op,
                     .op_type       = op_type,
                     .domain        = "",
                     .name          = reuse ? graph->nodes[namesake].name : fresh_name(graph, &graph->node_names, name, op_type),
                     .inputs        = opf_arena_copy(graph->arena, inputs, n_inputs * sizeof *inputs),
                     .n_inputs      = n_inputs,
                     .n_own_inputs  = n_inputs,
                     .outputs       = opf_arena_copy(graph->arena, outputs, n_outputs * sizeof *outputs),
                     .n_outputs     = n_outputs,
                     .n_own_outputs = n_outputs};
    if (node.name == NULL || node.inputs == NULL || node.outputs == NULL ||
        !OPF_PUSH(graph->arena, graph->nodes, graph->n_nodes, graph->nodes_capacity, node) ||
        !opf_map_put(&graph->node_names, node.name, graph->n_nodes - 1))
        return 0;
    opf_node_id id = graph->n_nodes - 1;
    for (uint32_t i = 0; i < n_inputs; i++)
        if (!add_use(graph, inputs[i], id, i))
            return 0;
    for (uint32_t i = 0; i < n_outputs; i++)
        if (outputs[i] != 0) {
            graph->values[outputs[i]].producer        = id;
            graph->values[outputs[i]].producer_output = i;
        }
    return id;
}

bool opf_graph_set_input(opf_graph *graph, opf_node_id node, uint32_t input, opf_value_id value)
{
    opf_node *n = &graph->nodes[node];
    if (n->inputs[input] == value)
        return true;
    remove_use(graph, n->inputs[input], node, input);
    n->inputs[input] = value;
    return add_use(graph, value, node, input);
}

bool opf_graph_append_input(opf_graph *graph, opf_node_id node, opf_value_id value)
{
    opf_node *n   = &graph->nodes[node];
    bool      own = n->n_inputs == n->n_own_inputs && n->n_captures == 0 && n->prologue.n == 0 && n->epilogue.n == 0;
    opf_value_id *inputs = OPF_NEW(graph->arena, opf_value_id, n->n_inputs + 1);
    if (inputs == NULL)
        return false;
    if (n->n_inputs != 0)
        memcpy(inputs, n->inputs, n->n_inputs * sizeof *inputs);
    n->inputs              = inputs;
    inputs[n->n_inputs]    = value;
    n->n_inputs           += 1;
    n->n_own_inputs       += own ? 1 : 0;
    return add_use(graph, value, node, n->n_inputs - 1);
}

bool opf_graph_set_own_inputs(opf_graph *graph, opf_node_id node, const opf_value_id *values, uint32_t n)
{
    opf_node     *changed = &graph->nodes[node];
    opf_value_id *inputs  = OPF_NEW(graph->arena, opf_value_id, n);
    if (inputs == NULL)
        return false;
    for (uint32_t i = 0; i < changed->n_inputs; i++)
        remove_use(graph, changed->inputs[i], node, i);
    changed->inputs   = inputs;
    changed->n_inputs = changed->n_own_inputs = n;
    for (uint32_t i = 0; i < n; i++) {
        inputs[i] = values[i];
        if (!add_use(graph, values[i], node, i))
            return false;
    }
    return true;
}

bool opf_graph_append_output(opf_graph *graph, opf_node_id node, opf_value_id value)
{
    opf_node     *n       = &graph->nodes[node];
    opf_value_id *outputs = OPF_NEW(graph->arena, opf_value_id, n->n_outputs + 1);
    if (outputs == NULL)
        return false;
    if (n->n_outputs != 0)
        memcpy(outputs, n->outputs, n->n_outputs * sizeof *outputs);
    n->outputs            = outputs;
    outputs[n->n_outputs] = 0;
    n->n_outputs++;
    return opf_graph_set_output(graph, node, n->n_outputs - 1, value);
}

bool opf_graph_set_output(opf_graph *graph, opf_node_id node, uint32_t output, opf_value_id value)
{
    opf_node *n = &graph->nodes[node];
    if (n->outputs[output] != 0)
        graph->values[n->outputs[output]].producer = 0;
    n->outputs[output] = value;
    if (value == 0)
        return true;
    opf_value *v = &graph->values[value];
    if (v->producer != 0)
        graph->nodes[v->producer].outputs[v->producer_output] = 0;
    v->producer        = node;
    v->producer_output = output;
    return true;
}

bool opf_graph_is_output(const opf_graph *graph, opf_value_id value)
{
    const opf_value *v = &graph->values[value];
    for (uint32_t i = 0; i < v->n_uses; i++)
        if (v->uses[i].node == 0)
            return true;
    return false;
}

bool opf_graph_replace_uses(opf_graph *graph, opf_value_id from, opf_value_id to)
{
    if (from == to)
        return true;
    bool is_output = opf_graph_is_output(graph, from);
    /* The name of an output is part of the model's interface, and so is that of an input: they cannot be one value. */
    if (is_output && (graph->values[to].is_input || opf_graph_is_output(graph, to)))
        return false;
    if (is_output) {
        const char *name          = graph->values[from].name;
        graph->values[from].name  = graph->values[to].name;
        graph->values[to].name    = name;
        if (!opf_map_put(&graph->value_names, name, to) || !opf_map_put(&graph->value_names, graph->values[from].name, from))
            return false;
    }
    opf_value *v = &graph->values[from];
    for (uint32_t i = 0; i < v->n_uses; i++) {
        opf_use use = v->uses[i];
        if (use.node == 0)
            graph->outputs[use.input] = to;
        else
            graph->nodes[use.node].inputs[use.input] = to;
        if (!add_use(graph, to, use.node, use.input))
            return false;
    }
    v->n_uses = 0;
    return true;
}

void opf_graph_remove_node(opf_graph *graph, opf_node_id node)
{
    opf_node *n = &graph->nodes[node];
    for (uint32_t i = 0; i < n->n_inputs; i++)
        remove_use(graph, n->inputs[i], node, i);
    for (uint32_t i = 0; i < n->n_outputs; i++)
        if (n->outputs[i] != 0)
            graph->values[n->outputs[i]].producer = 0;
    *n = (opf_node){.name = n->name};
}

const opf_use *opf_graph_single_use(const opf_graph *graph, opf_value_id value)
{
    const opf_value *v = &graph->values[value];
    return v->n_uses == 1 && v->uses[0].node != 0 ? &v->uses[0] : NULL;
}

/* ---- cloning ---- */

static bool clone_steps(opf_steps *steps, opf_arena *arena)
{
    steps->list = opf_arena_copy(arena, steps->list, steps->n * sizeof *steps->list);
    if (steps->list == NULL)
        return false;
    steps->capacity = steps->n;
    for (uint32_t i = 0; i < steps->n; i++) {
        opf_step *step = &steps->list[i];
        step->attrs    = opf_arena_copy(arena, step->attrs, step->n_attrs * sizeof *step->attrs);
        if (step->attrs == NULL)
            return false;
    }
    return true;
}

static bool clone_node(opf_node *node, opf_graph *copy, opf_node_id id, opf_arena *arena)
{
    node->attrs   = opf_arena_copy(arena, node->attrs, node->n_attrs * sizeof *node->attrs);
    node->inputs  = opf_arena_copy(arena, node->inputs, node->n_inputs * sizeof *node->inputs);
    node->outputs = opf_arena_copy(arena, node->outputs, node->n_outputs * sizeof *node->outputs);
    node->origin  = opf_arena_copy(arena, node->origin, node->n_origin * sizeof *node->origin);
    node->bodies  = opf_arena_copy(arena, node->bodies, node->n_bodies * sizeof *node->bodies);
    if (node->attrs == NULL || node->inputs == NULL || node->outputs == NULL || node->origin == NULL || node->bodies == NULL ||
        !clone_steps(&node->prologue, arena) || !clone_steps(&node->epilogue, arena))
        return false;
    for (uint32_t i = 0; i < node->n_bodies; i++) {
        node->bodies[i] = opf_graph_clone(node->bodies[i], arena);
        if (node->bodies[i] == NULL)
            return false;
        node->bodies[i]->parent      = copy;
        node->bodies[i]->parent_node = id;
    }
    return true;
}

static bool clone_map(opf_map *map, opf_arena *arena)
{
    map->arena   = arena;
    map->entries = opf_arena_copy(arena, map->entries, map->capacity * sizeof *map->entries);
    return map->entries != NULL;
}

opf_graph *opf_graph_clone(const opf_graph *graph, opf_arena *arena)
{
    opf_graph *copy = opf_arena_copy(arena, graph, sizeof *graph);
    if (copy == NULL)
        return NULL;
    copy->arena           = arena;
    copy->nodes           = opf_arena_copy(arena, graph->nodes, graph->n_nodes * sizeof *graph->nodes);
    copy->values          = opf_arena_copy(arena, graph->values, graph->n_values * sizeof *graph->values);
    copy->inputs          = opf_arena_copy(arena, graph->inputs, graph->n_inputs * sizeof *graph->inputs);
    copy->outputs         = opf_arena_copy(arena, graph->outputs, graph->n_outputs * sizeof *graph->outputs);
    copy->nodes_capacity  = graph->n_nodes;
    copy->values_capacity = graph->n_values;
    copy->inputs_capacity = graph->n_inputs;
    copy->outputs_capacity = graph->n_outputs;
    if (copy->nodes == NULL || copy->values == NULL || copy->inputs == NULL || copy->outputs == NULL ||
        !clone_map(&copy->value_names, arena) || !clone_map(&copy->node_names, arena))
        return NULL;
    for (uint32_t i = 1; i < copy->n_values; i++) {
        opf_value *value     = &copy->values[i];
        value->uses          = opf_arena_copy(arena, value->uses, value->n_uses * sizeof *value->uses);
        value->uses_capacity = value->n_uses;
        if (value->uses == NULL)
            return NULL;
    }
    for (uint32_t i = 1; i < copy->n_nodes; i++)
        if (opf_node_is_alive(&copy->nodes[i]) && !clone_node(&copy->nodes[i], copy, i, arena))
            return NULL;
    return copy;
}

/* ---- attributes ---- */

const opf_attr *opf_attrs_find(const opf_attr *attrs, uint32_t n, const char *name)
{
    for (uint32_t i = 0; i < n; i++)
        if (strcmp(attrs[i].name, name) == 0)
            return &attrs[i];
    return NULL;
}

const opf_attr *opf_node_attr(const opf_node *node, const char *name)
{
    return opf_attrs_find(node->attrs, node->n_attrs, name);
}

int64_t opf_attrs_int(const opf_attr *attrs, uint32_t n, const char *name, int64_t otherwise)
{
    const opf_attr *attr = opf_attrs_find(attrs, n, name);
    return attr != NULL && attr->type == OPF_ATTR_INT ? attr->i : otherwise;
}

int64_t opf_node_int(const opf_node *node, const char *name, int64_t otherwise)
{
    return opf_attrs_int(node->attrs, node->n_attrs, name, otherwise);
}

float opf_node_float(const opf_node *node, const char *name, float otherwise)
{
    const opf_attr *attr = opf_node_attr(node, name);
    return attr != NULL && attr->type == OPF_ATTR_FLOAT ? attr->f : otherwise;
}

const char *opf_node_string(const opf_node *node, const char *name, const char *otherwise)
{
    const opf_attr *attr = opf_node_attr(node, name);
    return attr != NULL && attr->type == OPF_ATTR_STRING ? attr->s : otherwise;
}

bool opf_node_set_attr(opf_graph *graph, opf_node_id node, opf_attr attr)
{
    opf_node *n = &graph->nodes[node];
    for (uint32_t i = 0; i < n->n_attrs; i++)
        if (strcmp(n->attrs[i].name, attr.name) == 0) {
            n->attrs[i] = attr;
            return true;
        }
    opf_attr *attrs = OPF_NEW(graph->arena, opf_attr, n->n_attrs + 1);
    if (attrs == NULL)
        return false;
    if (n->n_attrs != 0)
        memcpy(attrs, n->attrs, n->n_attrs * sizeof *attrs);
    attrs[n->n_attrs] = attr;
    n->attrs          = attrs;
    n->n_attrs++;
    return true;
}

bool opf_node_set_int(opf_graph *graph, opf_node_id node, const char *name, int64_t value)
{
    return opf_node_set_attr(graph, node, (opf_attr){.name = name, .type = OPF_ATTR_INT, .i = value});
}

bool opf_node_set_float(opf_graph *graph, opf_node_id node, const char *name, float value)
{
    return opf_node_set_attr(graph, node, (opf_attr){.name = name, .type = OPF_ATTR_FLOAT, .f = value});
}

bool opf_node_set_ints(opf_graph *graph, opf_node_id node, const char *name, const int64_t *values, uint32_t n)
{
    const int64_t *copy = opf_arena_copy(graph->arena, values, n * sizeof *values);
    return copy != NULL &&
           opf_node_set_attr(graph, node, (opf_attr){.name = name, .type = OPF_ATTR_INTS, .n = n, .ints = copy});
}

void opf_node_remove_attr(opf_node *node, const char *name)
{
    for (uint32_t i = 0; i < node->n_attrs; i++)
        if (strcmp(node->attrs[i].name, name) == 0) {
            memmove(&node->attrs[i], &node->attrs[i + 1], (node->n_attrs - i - 1) * sizeof *node->attrs);
            node->n_attrs--;
            return;
        }
}

/* ---- origin and order ---- */

bool opf_node_add_origin(opf_graph *graph, opf_node_id node, const char *name)
{
    opf_node *n = &graph->nodes[node];
    for (uint32_t i = 0; i < n->n_origin; i++)
        if (strcmp(n->origin[i], name) == 0)
            return true;
    const char **origin = OPF_NEW(graph->arena, const char *, n->n_origin + 1);
    if (origin == NULL)
        return false;
    if (n->n_origin != 0)
        memcpy(origin, n->origin, n->n_origin * sizeof *origin);
    origin[n->n_origin] = name;
    n->origin           = origin;
    n->n_origin++;
    return true;
}

bool opf_node_join_origin(opf_graph *graph, opf_node_id node, opf_node_id other)
{
    for (uint32_t i = 0; i < graph->nodes[other].n_origin; i++)
        if (!opf_node_add_origin(graph, node, graph->nodes[other].origin[i]))
            return false;
    return true;
}

/* Kahn's algorithm with a heap of ready ids, so that ties go by id. */
static void heap_push(opf_node_id *heap, uint32_t *n, opf_node_id id)
{
    uint32_t i = (*n)++;
    for (; i != 0 && heap[(i - 1) / 2] > id; i = (i - 1) / 2)
        heap[i] = heap[(i - 1) / 2];
    heap[i] = id;
}

static opf_node_id heap_pop(opf_node_id *heap, uint32_t *n)
{
    opf_node_id top = heap[0], last = heap[--*n];
    uint32_t    i = 0;
    for (;;) {
        uint32_t child = 2 * i + 1;
        if (child >= *n)
            break;
        if (child + 1 < *n && heap[child + 1] < heap[child])
            child++;
        if (heap[child] >= last)
            break;
        heap[i] = heap[child];
        i       = child;
    }
    heap[i] = last;
    return top;
}

opf_status opf_graph_sort(const opf_graph *graph, opf_arena *arena, opf_node_id **order, uint32_t *n, opf_error *error)
{
    opf_node_id *sorted  = OPF_NEW(arena, opf_node_id, graph->n_nodes);
    opf_node_id *ready   = OPF_NEW(arena, opf_node_id, graph->n_nodes);
    uint32_t    *waiting = OPF_NEW(arena, uint32_t, graph->n_nodes);
    OPF_OOM_IF(error, sorted == NULL || ready == NULL || waiting == NULL);
    uint32_t n_ready = 0, n_sorted = 0, n_alive = 0;
    for (opf_node_id id = 1; id < graph->n_nodes; id++) {
        const opf_node *node = &graph->nodes[id];
        if (!opf_node_is_alive(node))
            continue;
        n_alive++;
        for (uint32_t i = 0; i < node->n_inputs; i++)
            waiting[id] += node->inputs[i] != 0 && graph->values[node->inputs[i]].producer != 0;
        if (waiting[id] == 0)
            heap_push(ready, &n_ready, id);
    }
    while (n_ready != 0) {
        opf_node_id     id   = heap_pop(ready, &n_ready);
        const opf_node *node = &graph->nodes[id];
        sorted[n_sorted++]   = id;
        for (uint32_t o = 0; o < node->n_outputs; o++) {
            if (node->outputs[o] == 0)
                continue;
            const opf_value *value = &graph->values[node->outputs[o]];
            for (uint32_t u = 0; u < value->n_uses; u++) {
                opf_node_id reader = value->uses[u].node;
                if (reader != 0 && --waiting[reader] == 0)
                    heap_push(ready, &n_ready, reader);
            }
        }
    }
    for (opf_node_id id = 1; n_sorted < n_alive && id < graph->n_nodes; id++)
        if (opf_node_is_alive(&graph->nodes[id]) && waiting[id] != 0)
            return opf_fail(error, OPF_INVALID_MODEL, "node %s (%s) is on a cycle, or behind one", graph->nodes[id].name,
                            graph->nodes[id].op_type);
    *order = sorted;
    *n     = n_sorted;
    return OPF_OK;
}

/* ---- facts ---- */

bool opf_graph_scalar(const opf_graph *graph, opf_value_id value, double *x)
{
    const opf_const *constant = value == 0 ? NULL : graph->values[value].constant;
    if (constant == NULL || constant->count != 1)
        return false;
    *x = opf_types_have(OPF_TYPES_FLOAT, constant->type) ? opf_const_f64_at(constant, 0)
                                                         : (double)opf_const_i64_at(constant, 0);
    return true;
}

bool opf_info_count(const opf_info *info, size_t *count)
{
    if (info->rank < 0)
        return false;
    size_t product = 1;
    for (int32_t i = 0; i < info->rank; i++)
        if (!opf_dim_is_number(info->dims[i]) || info->dims[i].n < 0 ||
            !opf_mul_size(product, (size_t)info->dims[i].n, &product))
            return false;
    *count = product;
    return true;
}

bool opf_info_admits(const opf_info *info, const opf_const *constant)
{
    bool fits = info->type == constant->type && (info->rank < 0 || info->rank == constant->rank);
    for (int32_t i = 0; fits && i < info->rank; i++)
        fits = !opf_dim_is_number(info->dims[i]) || info->dims[i].n == constant->dims[i];
    return fits;
}
