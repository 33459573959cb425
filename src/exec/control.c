/* SPDX-License-Identifier: Apache-2.0 */
/*
 * If, Loop and Scan. A body is a graph with a runner of its own; what one round hands to the next lies in two sets of
 * blocks in turn, so that a round never writes what it reads.
 */
#include "exec/runner.h"

#include <string.h>

static const char *name_of(const opf_runner *r, opf_node_id id)
{
    return opf_graph_node(r->graph, id)->name;
}

static uint32_t body_index(const opf_node *node, const char *attribute)
{
    const opf_attr *attr = opf_node_attr(node, attribute);
    return attr != NULL && attr->type == OPF_ATTR_GRAPH ? (uint32_t)attr->i : 0;
}

/* Runs a body on its formal inputs and the node's captures. */
static opf_status run_body(opf_runner *r, opf_node_id id, uint32_t body, const opf_tensor *formals, uint32_t n_formals, opf_tensor *outputs,
                           opf_sink *sinks, opf_error *error)
{
    const opf_node *node = opf_graph_node(r->graph, id);
    opf_runner     *runner;
    OPF_TRY(opf_runner_body(r, id, body, &runner, error));
    const opf_graph *graph = runner->graph;
    OPF_TRY(opf_reserve(r->context->heap, (void **)(void *)&runner->given, &runner->given_bytes, graph->n_inputs * sizeof *runner->given, 1, error));
    opf_tensor *inputs = runner->given;
    OPF_FAIL_IF(error, graph->n_inputs != n_formals + node->n_captures, OPF_INVALID_MODEL, "%s (%s): the body has %u inputs, %u are given", node->name,
                node->op_type, graph->n_inputs - node->n_captures, n_formals);
    for (uint32_t i = 0; i < n_formals; i++)
        inputs[i] = formals[i];
    for (uint32_t i = 0; i < node->n_captures; i++)
        if (opf_graph_value(graph, graph->inputs[n_formals + i])->constant == NULL)
            OPF_TRY(opf_runner_tensor(r, node->inputs[node->n_inputs - node->n_captures + i], &inputs[n_formals + i], error));
    return opf_runner_run(runner, inputs, outputs, sinks, error);
}

/* ---- If ---- */

static opf_status run_if(opf_runner *r, opf_node_id id, opf_error *error)
{
    const opf_node *node = opf_graph_node(r->graph, id);
    opf_tensor      condition;
    OPF_TRY(opf_runner_tensor(r, node->inputs[0], &condition, error));
    OPF_FAIL_IF(error, condition.bytes != 1, OPF_INVALID_INPUT, "%s (If): the condition has %zu elements, must have 1", node->name, condition.bytes);
    uint32_t    body    = body_index(node, *(const uint8_t *)condition.data != 0 ? "then_branch" : "else_branch");
    uint32_t    n       = node->bodies[body]->n_outputs;
    opf_tensor *outputs = OPF_NEW(&r->run, opf_tensor, n);
    opf_sink   *sinks   = OPF_NEW(&r->run, opf_sink, n);
    OPF_OOM_IF(error, outputs == NULL || sinks == NULL);
    for (uint32_t i = 0; i < n && i < node->n_outputs; i++)
        if (node->outputs[i] != 0)
            sinks[i] = *opf_runner_sink(r, node->outputs[i]);
    opf_status status = run_body(r, id, body, NULL, 0, outputs, sinks, error);
    for (uint32_t i = 0; i < n; i++) {
        bool wanted = i < node->n_outputs && node->outputs[i] != 0;
        if (wanted)
            *opf_runner_sink(r, node->outputs[i]) = sinks[i]; /* it may have grown */
        else
            opf_sink_free(r->context->heap, &sinks[i]);
        if (status == OPF_OK && wanted)
            status = opf_runner_set(r, node->outputs[i], &outputs[i], error);
    }
    return status;
}

/* ---- what Loop and Scan share ---- */

/* A result of each round, joined along a new first axis. */
typedef struct {
    opf_sink  *sink; /* grows */
    opf_tensor each; /* the shape of one round */
    size_t     rounds;
} collection;

typedef struct {
    opf_runner *runner;
    opf_node_id node;
    uint32_t    body, n_states, n_collected, leading; /* leading: body outputs before the states (a Loop's condition) */
    opf_tensor *states;    /* as the last round left them */
    opf_tensor *outputs;   /* of a round */
    opf_sink   *sinks;     /* of a round */
    opf_sink   *kept[2];   /* two sets of leading + n_states blocks */
    opf_sink   *temporary; /* one result of each collected output */
    collection *collected;
    uint32_t    turn;
} rounds;

static opf_status start_rounds(rounds *l, opf_error *error)
{
    opf_runner *r      = l->runner;
    uint32_t    carried = l->leading + l->n_states, n = 2 * carried + 2 * l->n_collected;
    if (r->rounds[l->node] == NULL) {
        r->rounds[l->node] = OPF_NEW(&r->arena, opf_sink, n);
        OPF_OOM_IF(error, r->rounds[l->node] == NULL);
        r->n_rounds[l->node] = n;
    }
    l->kept[0]   = r->rounds[l->node];
    l->kept[1]   = l->kept[0] + carried;
    l->temporary = l->kept[1] + carried;
    l->states    = OPF_NEW(&r->run, opf_tensor, l->n_states);
    l->outputs   = OPF_NEW(&r->run, opf_tensor, carried + l->n_collected);
    l->sinks     = OPF_NEW(&r->run, opf_sink, carried + l->n_collected);
    l->collected = OPF_NEW(&r->run, collection, l->n_collected);
    OPF_OOM_IF(error, l->states == NULL || l->outputs == NULL || l->sinks == NULL || l->collected == NULL);
    for (uint32_t i = 0; i < l->n_collected; i++)
        l->collected[i].sink = &l->temporary[l->n_collected + i];
    return OPF_OK;
}

static opf_status collect(const rounds *l, collection *c, const opf_tensor *result, opf_error *error)
{
    bool same = c->rounds == 0 || (c->each.type == result->type && c->each.rank == result->rank &&
                                   memcmp(c->each.dims, result->dims, (size_t)result->rank * sizeof *result->dims) == 0);
    OPF_FAIL_IF(error, !same, OPF_INVALID_INPUT, "%s: a collected result changes its shape in round %zu", name_of(l->runner, l->node), c->rounds);
    size_t used = c->rounds * result->bytes, need = used + result->bytes;
    if (need > c->sink->bytes)
        OPF_TRY(opf_sink_reserve(l->runner->context->heap, c->sink, need < 2 * used ? 2 * used : need, used, error));
    if (result->bytes != 0)
        memcpy((char *)c->sink->data + used, result->data, result->bytes);
    c->each = *result;
    c->rounds++;
    return OPF_OK;
}

static opf_status check_round(const rounds *l, opf_error *error)
{
    opf_run_context *context = l->runner->context;
    const opf_node  *node    = opf_graph_node(l->runner->graph, l->node);
    OPF_FAIL_IF(error, atomic_load(&context->cancelled), OPF_CANCELLED, "%s (%s): the run was cancelled", node->name, node->op_type);
    OPF_FAIL_IF(error, ++context->trips > context->model->limits.loop_trips, OPF_LIMIT, "%s (%s): more rounds than the limit loop-trips, %lld",
                node->name, node->op_type, (long long)context->model->limits.loop_trips);
    return OPF_OK;
}

/* One round: formals are what stands before the states in the body, extra what stands behind them. */
static opf_status run_round(rounds *l, const opf_tensor *before, uint32_t n_before, const opf_tensor *behind, uint32_t n_behind, opf_error *error)
{
    uint32_t    carried = l->leading + l->n_states, n = n_before + l->n_states + n_behind;
    opf_tensor *formals = l->runner->formals;
    OPF_TRY(check_round(l, error));
    OPF_TRY(opf_reserve(l->runner->context->heap, (void **)(void *)&l->runner->formals, &l->runner->formals_bytes, n * sizeof *formals, 1, error));
    formals = l->runner->formals;
    for (uint32_t i = 0; i < n; i++)
        formals[i] = i < n_before ? before[i] : i < n_before + l->n_states ? l->states[i - n_before] : behind[i - n_before - l->n_states];
    for (uint32_t i = 0; i < carried; i++)
        l->sinks[i] = l->kept[l->turn][i];
    for (uint32_t i = 0; i < l->n_collected; i++)
        l->sinks[carried + i] = l->temporary[i];
    opf_status status = run_body(l->runner, l->node, l->body, formals, n, l->outputs, l->sinks, error);
    for (uint32_t i = 0; i < carried; i++)
        l->kept[l->turn][i] = l->sinks[i];
    for (uint32_t i = 0; i < l->n_collected; i++)
        l->temporary[i] = l->sinks[carried + i];
    OPF_TRY(status);
    for (uint32_t i = 0; i < l->n_states; i++)
        l->states[i] = l->outputs[l->leading + i];
    for (uint32_t i = 0; i < l->n_collected; i++)
        OPF_TRY(collect(l, &l->collected[i], &l->outputs[carried + i], error));
    l->turn ^= 1;
    return OPF_OK;
}

/* A copy of tensor as output `o` of the node. */
static opf_status give(const rounds *l, uint32_t o, const opf_tensor *tensor, opf_error *error)
{
    const opf_node *node = opf_graph_node(l->runner->graph, l->node);
    if (o >= node->n_outputs || node->outputs[o] == 0)
        return OPF_OK;
    opf_sink  *sink  = opf_runner_sink(l->runner, node->outputs[o]);
    opf_tensor given = *tensor;
    OPF_TRY(opf_sink_reserve(l->runner->context->heap, sink, tensor->bytes, 0, error));
    if (tensor->bytes != 0)
        memcpy(sink->data, tensor->data, tensor->bytes);
    given.data = sink->data;
    return opf_runner_set(l->runner, node->outputs[o], &given, error);
}

/* The collected results of all rounds as a tensor [rounds, …]; of no rounds what the body promises, unknown sizes being 0. */
static opf_status joined(const rounds *l, uint32_t i, opf_tensor *tensor, opf_error *error)
{
    const collection *c    = &l->collected[i];
    const opf_graph  *body = opf_graph_node(l->runner->graph, l->node)->bodies[l->body];
    const opf_info   *info = &opf_graph_value(body, body->outputs[l->leading + l->n_states + i])->info;
    *tensor                = c->each;
    if (c->rounds == 0) {
        *tensor = (opf_tensor){.type = info->type, .rank = info->rank < 0 ? 0 : info->rank};
        for (int32_t k = 0; k < tensor->rank; k++)
            tensor->dims[k] = opf_dim_is_number(info->dims[k]) ? info->dims[k].n : 0;
    }
    OPF_FAIL_IF(error, tensor->rank == OPF_MAX_RANK, OPF_LIMIT, "%s: a collected result has rank %d already", name_of(l->runner, l->node), tensor->rank);
    memmove(&tensor->dims[1], &tensor->dims[0], (size_t)tensor->rank * sizeof *tensor->dims);
    tensor->dims[0] = (int64_t)c->rounds;
    tensor->rank++;
    tensor->bytes = c->rounds * c->each.bytes;
    tensor->data  = c->sink->data;
    return OPF_OK;
}

/* ---- Loop ---- */

static opf_status read_scalar(opf_runner *r, opf_value_id value, int64_t *number, opf_error *error)
{
    opf_tensor tensor;
    OPF_TRY(opf_runner_tensor(r, value, &tensor, error));
    OPF_FAIL_IF(error, tensor.bytes != opf_type_size(tensor.type), OPF_INVALID_INPUT, "%s has %zu bytes, must be one element",
                opf_graph_value(r->graph, value)->name, tensor.bytes);
    *number = opf_load_i64(tensor.type, tensor.data, 0);
    return OPF_OK;
}

/* The counter or condition has the rank that the body declares: 0, or 1 with one element. */
static opf_tensor scalar_tensor(const opf_graph *body, uint32_t formal, opf_type type, void *data)
{
    opf_tensor tensor = {.type = type, .data = data, .bytes = opf_type_size(type)};
    if (opf_graph_value(body, body->inputs[formal])->info.rank == 1) {
        tensor.rank    = 1;
        tensor.dims[0] = 1;
    }
    return tensor;
}

static opf_status run_loop(opf_runner *r, opf_node_id id, opf_error *error)
{
    const opf_node *node  = opf_graph_node(r->graph, id);
    rounds          l     = {.runner = r, .node = id, .body = body_index(node, "body"), .leading = 1, .n_states = node->n_own_inputs < 2 ? 0 : node->n_own_inputs - 2};
    const opf_graph *body = node->bodies[l.body];
    int64_t          most = INT64_MAX, condition = 1;
    OPF_FAIL_IF(error, body->n_outputs < 1 + l.n_states, OPF_INVALID_MODEL, "%s (Loop): the body has %u outputs, at least %u are needed", node->name,
                body->n_outputs, 1 + l.n_states);
    l.n_collected = body->n_outputs - 1 - l.n_states;
    OPF_TRY(start_rounds(&l, error));
    if (node->n_own_inputs > 0 && node->inputs[0] != 0)
        OPF_TRY(read_scalar(r, node->inputs[0], &most, error));
    if (node->n_own_inputs > 1 && node->inputs[1] != 0)
        OPF_TRY(read_scalar(r, node->inputs[1], &condition, error));
    for (uint32_t i = 0; i < l.n_states; i++)
        OPF_TRY(opf_runner_tensor(r, node->inputs[2 + i], &l.states[i], error));
    for (int64_t round = 0; round < most && condition != 0; round++) {
        uint8_t    go        = 1;
        opf_tensor before[2] = {scalar_tensor(body, 0, OPF_INT64, &round), scalar_tensor(body, 1, OPF_BOOL, &go)};
        OPF_TRY(run_round(&l, before, 2, NULL, 0, error));
        condition = l.outputs[0].bytes == 0 ? 0 : *(const uint8_t *)l.outputs[0].data;
    }
    for (uint32_t i = 0; i < l.n_states; i++)
        OPF_TRY(give(&l, i, &l.states[i], error));
    for (uint32_t i = 0; i < l.n_collected; i++) {
        opf_tensor tensor;
        OPF_TRY(joined(&l, i, &tensor, error));
        OPF_TRY(give(&l, l.n_states + i, &tensor, error));
    }
    return OPF_OK;
}

/* ---- Scan ---- */

static int64_t listed(const opf_node *node, const char *attribute, uint32_t i)
{
    const opf_attr *attr = opf_node_attr(node, attribute);
    return attr != NULL && attr->type == OPF_ATTR_INTS && i < attr->n ? attr->ints[i] : 0;
}

static opf_status axis_of(const opf_node *node, const char *attribute, uint32_t i, int32_t rank, int32_t *axis, opf_error *error)
{
    int64_t a = listed(node, attribute, i);
    OPF_FAIL_IF(error, a < -rank || a >= rank, OPF_INVALID_MODEL, "%s (Scan): %s[%u] is %lld, must be in [-%d, %d)", node->name, attribute, i, (long long)a,
                rank, rank);
    *axis = (int32_t)(a < 0 ? a + rank : a);
    return OPF_OK;
}

/* Moves elements between a dense tensor with `axis` and one without it, or with it first: outer x n x inner blocks. */
static void split_axis(const opf_tensor *tensor, int32_t axis, size_t *outer, size_t *inner)
{
    *outer = 1;
    *inner = opf_type_size(tensor->type);
    for (int32_t i = 0; i < axis; i++)
        *outer *= (size_t)tensor->dims[i];
    for (int32_t i = axis + 1; i < tensor->rank; i++)
        *inner *= (size_t)tensor->dims[i];
}

/* Element `place` of tensor along axis: where it lies along the first axis, else copied to `dense`, made at first use. */
static opf_status take_element(opf_runner *r, const opf_tensor *tensor, int32_t axis, int64_t place, void **dense, opf_tensor *element, opf_error *error)
{
    size_t outer, inner, n = (size_t)tensor->dims[axis];
    split_axis(tensor, axis, &outer, &inner);
    *element       = *tensor;
    element->bytes = outer * inner;
    element->rank  = tensor->rank - 1;
    memmove(&element->dims[axis], &element->dims[axis + 1], (size_t)(tensor->rank - axis - 1) * sizeof *element->dims);
    if (outer == 1) {
        element->data = (char *)tensor->data + (size_t)place * inner;
        return OPF_OK;
    }
    if (*dense == NULL)
        *dense = opf_arena_alloc(&r->run, element->bytes);
    OPF_OOM_IF(error, *dense == NULL);
    element->data = *dense;
    for (size_t i = 0; i < outer; i++)
        memcpy((char *)element->data + i * inner, (const char *)tensor->data + (i * n + (size_t)place) * inner, inner);
    return OPF_OK;
}

/* Joined results [rounds, …] with the rounds moved to `axis`, in either direction. */
static opf_status place_axis(opf_runner *r, opf_tensor *tensor, int32_t axis, bool backwards, opf_error *error)
{
    if (axis == 0 && !backwards)
        return OPF_OK;
    opf_tensor moved = *tensor;
    size_t     outer, inner, n = (size_t)tensor->dims[0];
    memmove(&moved.dims[0], &tensor->dims[1], (size_t)axis * sizeof *moved.dims);
    moved.dims[axis] = tensor->dims[0];
    moved.data       = opf_arena_alloc(&r->run, tensor->bytes);
    OPF_OOM_IF(error, moved.data == NULL);
    split_axis(&moved, axis, &outer, &inner);
    for (size_t k = 0; k < n; k++)
        for (size_t i = 0; i < outer; i++)
            memcpy((char *)moved.data + (i * n + (backwards ? n - 1 - k : k)) * inner, (const char *)tensor->data + (k * outer + i) * inner, inner);
    *tensor = moved;
    return OPF_OK;
}

static opf_status run_scan(opf_runner *r, opf_node_id id, opf_error *error)
{
    const opf_node  *node    = opf_graph_node(r->graph, id);
    int64_t          scanned = opf_node_int(node, "num_scan_inputs", 0);
    OPF_FAIL_IF(error, scanned < 1 || scanned > node->n_own_inputs, OPF_INVALID_MODEL, "%s (Scan): num_scan_inputs is %lld", node->name, (long long)scanned);
    uint32_t         n = (uint32_t)scanned;
    rounds           l = {.runner = r, .node = id, .body = body_index(node, "body"), .n_states = node->n_own_inputs - n};
    const opf_graph *body = node->bodies[l.body];
    OPF_FAIL_IF(error, body->n_outputs < l.n_states, OPF_INVALID_MODEL, "%s (Scan): the body has %u outputs, at least %u are needed", node->name,
                body->n_outputs, l.n_states);
    l.n_collected = body->n_outputs - l.n_states;
    OPF_TRY(start_rounds(&l, error));
    opf_tensor *inputs = OPF_NEW(&r->run, opf_tensor, n), *elements = OPF_NEW(&r->run, opf_tensor, n);
    int32_t    *axes   = OPF_NEW(&r->run, int32_t, n);
    void      **dense  = OPF_NEW(&r->run, void *, n);
    OPF_OOM_IF(error, inputs == NULL || elements == NULL || axes == NULL || dense == NULL);
    for (uint32_t i = 0; i < l.n_states; i++)
        OPF_TRY(opf_runner_tensor(r, node->inputs[i], &l.states[i], error));
    for (uint32_t i = 0; i < n; i++) {
        OPF_TRY(opf_runner_tensor(r, node->inputs[l.n_states + i], &inputs[i], error));
        OPF_TRY(axis_of(node, "scan_input_axes", i, inputs[i].rank, &axes[i], error));
        OPF_FAIL_IF(error, inputs[i].dims[axes[i]] != inputs[0].dims[axes[0]], OPF_INVALID_INPUT, "%s (Scan): inputs have %lld and %lld rounds", node->name,
                    (long long)inputs[0].dims[axes[0]], (long long)inputs[i].dims[axes[i]]);
    }
    int64_t length = inputs[0].dims[axes[0]];
    for (int64_t round = 0; round < length; round++) {
        for (uint32_t i = 0; i < n; i++)
            OPF_TRY(take_element(r, &inputs[i], axes[i], listed(node, "scan_input_directions", i) != 0 ? length - 1 - round : round, &dense[i], &elements[i], error));
        OPF_TRY(run_round(&l, NULL, 0, elements, n, error));
    }
    for (uint32_t i = 0; i < l.n_states; i++)
        OPF_TRY(give(&l, i, &l.states[i], error));
    for (uint32_t i = 0; i < l.n_collected; i++) {
        opf_tensor tensor;
        int32_t    axis;
        OPF_TRY(joined(&l, i, &tensor, error));
        OPF_TRY(axis_of(node, "scan_output_axes", i, tensor.rank, &axis, error));
        OPF_TRY(place_axis(r, &tensor, axis, listed(node, "scan_output_directions", i) != 0, error));
        OPF_TRY(give(&l, l.n_states + i, &tensor, error));
    }
    return OPF_OK;
}

opf_status opf_run_control(opf_runner *runner, opf_node_id id, opf_error *error)
{
    const opf_node *node = opf_graph_node(runner->graph, id);
    if (node->op == &opf_op_If)
        return run_if(runner, id, error);
    if (node->op == &opf_op_Loop)
        return run_loop(runner, id, error);
    if (node->op == &opf_op_Scan)
        return run_scan(runner, id, error);
    return opf_fail(error, OPF_UNSUPPORTED, "%s (%s): bodies of this operator cannot be run", node->name, node->op_type);
}
