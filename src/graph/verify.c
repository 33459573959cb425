/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/verify.h"

typedef struct checker {
    const opf_graph *graph;
    opf_arena       *arena; /* for what the check itself needs */
    opf_error       *error;
} checker;

#define WRONG_IF(c, condition, ...) OPF_FAIL_IF((c)->error, condition, OPF_INTERNAL, __VA_ARGS__)

static const char *name_of(const checker *c, opf_value_id id)
{
    const char *name = id < c->graph->n_values ? c->graph->values[id].name : NULL;
    return name != NULL ? name : "?";
}

/* ---- values ---- */

/* How many uses of value are this one. */
static uint32_t count_use(const opf_value *value, opf_node_id node, uint32_t input)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < value->n_uses; i++)
        n += value->uses[i].node == node && value->uses[i].input == input;
    return n;
}

static opf_status check_use(const checker *c, opf_value_id id, opf_use use)
{
    const opf_graph *graph = c->graph;
    const char      *name  = name_of(c, id);
    WRONG_IF(c, use.node >= graph->n_nodes, "value %s is used by node %u, which does not exist", name, use.node);
    if (use.node == 0) {
        WRONG_IF(c, use.input >= graph->n_outputs || graph->outputs[use.input] != id, "value %s is not graph output %u",
                 name, use.input);
        return OPF_OK;
    }
    const opf_node *node = &graph->nodes[use.node];
    WRONG_IF(c, !opf_node_is_alive(node), "value %s is used by the dead node %u", name, use.node);
    WRONG_IF(c, use.input >= node->n_inputs || node->inputs[use.input] != id, "value %s is not input %u of node %s",
             name, use.input, node->name);
    return OPF_OK;
}

static opf_status check_value(const checker *c, opf_value_id id, opf_map *names)
{
    const opf_value *value = &c->graph->values[id];
    WRONG_IF(c, value->name == NULL, "value %u has no name", id);
    for (uint32_t u = 0; u < value->n_uses; u++)
        OPF_TRY(check_use(c, id, value->uses[u]));
    if (value->producer != 0) {
        const opf_node *node = value->producer < c->graph->n_nodes ? &c->graph->nodes[value->producer] : NULL;
        WRONG_IF(c, node == NULL || !opf_node_is_alive(node), "the producer of value %s is dead", value->name);
        WRONG_IF(c, value->producer_output >= node->n_outputs || node->outputs[value->producer_output] != id,
                 "value %s is not output %u of node %s", value->name, value->producer_output, node->name);
    }
    int sources = (value->producer != 0) + (value->constant != NULL) + value->is_input;
    WRONG_IF(c, sources > 1, "value %s has more than one source: producer, constant, graph input", value->name);
    WRONG_IF(c, sources == 0 && value->n_uses != 0, "value %s is used, but nothing produces it", value->name);
    WRONG_IF(c, value->info.rank > OPF_MAX_RANK || value->info.rank < -1, "value %s has rank %d", value->name,
             value->info.rank);
    if (sources == 0) /* a dead value keeps its name, which another may have by now */
        return OPF_OK;
    WRONG_IF(c, opf_map_get(names, value->name, NULL), "two values have the name %s", value->name);
    OPF_OOM_IF(c->error, !opf_map_put(names, value->name, id));
    return OPF_OK;
}

/* ---- nodes ---- */

static opf_status check_edges(const checker *c, opf_node_id id)
{
    const opf_node *node = &c->graph->nodes[id];
    WRONG_IF(c, node->n_own_inputs > node->n_inputs || node->n_captures > node->n_inputs - node->n_own_inputs,
             "node %s has %u inputs, of them %u own and %u captured", node->name, node->n_inputs, node->n_own_inputs,
             node->n_captures);
    WRONG_IF(c, node->n_own_outputs > node->n_outputs, "node %s has %u outputs, of them %u own", node->name,
             node->n_outputs, node->n_own_outputs);
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        opf_value_id in = node->inputs[i];
        WRONG_IF(c, in >= c->graph->n_values, "input %u of node %s is value %u, which does not exist", i, node->name,
                 in);
        WRONG_IF(c, in != 0 && count_use(&c->graph->values[in], id, i) != 1,
                 "value %s does not have its use as input %u of node %s once", name_of(c, in), i, node->name);
    }
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        opf_value_id out = node->outputs[i];
        WRONG_IF(c, out >= c->graph->n_values, "output %u of node %s is value %u, which does not exist", i, node->name,
                 out);
        WRONG_IF(c, out != 0 && (c->graph->values[out].producer != id || c->graph->values[out].producer_output != i),
                 "value %s does not know that node %s produces it", name_of(c, out), node->name);
    }
    return OPF_OK;
}

static opf_status check_step(const checker *c, const opf_node *node, const opf_steps *steps, uint32_t s)
{
    const opf_step *step = &steps->list[s];
    WRONG_IF(c, step->op_type == NULL, "step %u of node %s has no operator", s, node->name);
    WRONG_IF(c, step->n_args > OPF_STEP_ARGS, "step %u of node %s has %u operands", s, node->name, step->n_args);
    WRONG_IF(c, step->output >= 0 && (uint32_t)step->output >= node->n_outputs,
             "step %u of node %s is stored to output %d", s, node->name, step->output);
    for (uint32_t a = 0; a < step->n_args; a++) {
        opf_arg arg = step->args[a];
        bool ok = arg.kind == OPF_ARG_NONE || arg.kind == OPF_ARG_ANCHOR ||
                  (arg.kind == OPF_ARG_STEP && arg.index < s) ||
                  (arg.kind == OPF_ARG_INPUT && arg.index < node->n_inputs - node->n_captures &&
                   node->inputs[arg.index] != 0);
        WRONG_IF(c, !ok, "operand %u of step %u (%s) of node %s is out of range", a, s, step->op_type, node->name);
    }
    return OPF_OK;
}

static uint32_t count_stores(const opf_steps *steps, uint32_t output)
{
    uint32_t n = 0;
    for (uint32_t s = 0; s < steps->n; s++)
        n += steps->list[s].output >= 0 && (uint32_t)steps->list[s].output == output;
    return n;
}

static opf_status check_steps(const checker *c, const opf_node *node)
{
    for (uint32_t s = 0; s < node->prologue.n; s++)
        OPF_TRY(check_step(c, node, &node->prologue, s));
    for (uint32_t s = 0; s < node->epilogue.n; s++)
        OPF_TRY(check_step(c, node, &node->epilogue, s));
    for (uint32_t o = 0; o < node->n_outputs; o++) {
        uint32_t stores = count_stores(&node->prologue, o) + count_stores(&node->epilogue, o);
        WRONG_IF(c, stores > 1 || (stores == 0 && o >= node->n_own_outputs && node->outputs[o] != 0),
                 "output %u of node %s is stored by %u steps", o, node->name, stores);
    }
    return OPF_OK;
}

static opf_status check_bodies(const checker *c, opf_node_id id)
{
    const opf_node *node = &c->graph->nodes[id];
    for (uint32_t a = 0; a < node->n_attrs; a++)
        WRONG_IF(c,
                 node->attrs[a].type == OPF_ATTR_GRAPH && (node->attrs[a].i < 0 || node->attrs[a].i >= node->n_bodies),
                 "attribute %s of node %s is body %lld of %u", node->attrs[a].name, node->name,
                 (long long)node->attrs[a].i, node->n_bodies);
    for (uint32_t b = 0; b < node->n_bodies; b++) {
        const opf_graph *body = node->bodies[b];
        WRONG_IF(c, body == NULL || body->parent != c->graph || body->parent_node != id,
                 "body %u of node %s does not know its node", b, node->name);
        WRONG_IF(c, body->n_inputs < node->n_captures, "body %u of node %s has less inputs than the node has captures",
                 b, node->name);
        opf_status status = opf_graph_verify(body, c->error);
        if (status != OPF_OK) {
            opf_error_prefix(c->error, "in body %u of node %s", b, node->name);
            return status;
        }
    }
    return OPF_OK;
}

/* ---- graphs ---- */

static opf_status check_ports(const checker *c)
{
    const opf_graph *graph    = c->graph;
    uint32_t         n_inputs = 0;
    for (uint32_t i = 0; i < graph->n_inputs; i++)
        WRONG_IF(c,
                 graph->inputs[i] == 0 || graph->inputs[i] >= graph->n_values ||
                     !graph->values[graph->inputs[i]].is_input,
                 "graph input %u is value %u, which is no input", i, graph->inputs[i]);
    for (opf_value_id id = 1; id < graph->n_values; id++)
        n_inputs += graph->values[id].is_input;
    WRONG_IF(c, n_inputs != graph->n_inputs, "%u values are inputs, the graph has %u", n_inputs, graph->n_inputs);
    for (uint32_t i = 0; i < graph->n_outputs; i++) {
        opf_value_id id = graph->outputs[i];
        WRONG_IF(c, id == 0 || id >= graph->n_values, "graph output %u is value %u, which does not exist", i, id);
        WRONG_IF(c, count_use(&graph->values[id], 0, i) != 1, "value %s does not have its use as graph output %u once",
                 name_of(c, id), i);
    }
    return OPF_OK;
}

static opf_status check_graph(const checker *c)
{
    opf_map values, nodes;
    opf_map_init(&values, c->arena);
    opf_map_init(&nodes, c->arena);
    WRONG_IF(c, c->graph->n_nodes == 0 || c->graph->n_values == 0, "graph %s lacks the unused entries 0",
             c->graph->name);
    OPF_TRY(check_ports(c));
    for (opf_value_id id = 1; id < c->graph->n_values; id++)
        OPF_TRY(check_value(c, id, &values));
    for (opf_node_id id = 1; id < c->graph->n_nodes; id++) {
        const opf_node *node = &c->graph->nodes[id];
        if (!opf_node_is_alive(node))
            continue;
        WRONG_IF(c, node->name == NULL, "node %u (%s) has no name", id, node->op_type);
        WRONG_IF(c, opf_map_get(&nodes, node->name, NULL), "two nodes have the name %s", node->name);
        OPF_OOM_IF(c->error, !opf_map_put(&nodes, node->name, id));
        OPF_TRY(check_edges(c, id));
        OPF_TRY(check_steps(c, node));
        OPF_TRY(check_bodies(c, id));
    }
    opf_node_id *order;
    uint32_t     n;
    opf_status   status = opf_graph_sort(c->graph, c->arena, &order, &n, c->error);
    if (status == OPF_INVALID_MODEL && c->error != NULL)
        c->error->status = OPF_INTERNAL;
    return status == OPF_INVALID_MODEL ? OPF_INTERNAL : status;
}

opf_status opf_graph_verify(const opf_graph *graph, opf_error *error)
{
    opf_arena arena;
    opf_arena_init(&arena, graph->arena->heap);
    opf_status status = check_graph(&(checker){graph, &arena, error});
    opf_arena_fini(&arena);
    return status;
}
