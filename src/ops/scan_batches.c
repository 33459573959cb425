/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scan of opset 8 has a batch dimension, and may be given how many rounds each sequence of the batch has. It is a Scan
 * over the batch whose body is a Scan over one sequence: of a shorter sequence only the first elements are scanned, and
 * its results are filled up with zeros.
 */
#include "ops/scan_batches.h"

#include "ops/infer.h"

typedef struct batches {
    opf_graph *outer, *batch; /* the batch: the body of the new Scan */
    opf_node_id old;
    const char *name;
    bool has_lengths;
    uint32_t states, scans, captures, results; /* inputs and outputs of one sequence */
    opf_graph *body;
    opf_value_id *inputs;             /* in the batch: states, scan inputs, captures */
    opf_value_id *outputs;            /* in the batch */
    opf_value_id length, total, zero; /* of this sequence, and of all of them: int64[1]; with lengths */
    opf_error *error;
} batches;

/* ---- building ---- */

static opf_status add(batches *b, const opf_op *op, uint32_t n, const opf_value_id *inputs, opf_node_id *node,
                      opf_value_id *y)
{
    const char *name = opf_arena_printf(b->batch->arena, "%s/%s", b->name, op->name);
    *y = name == NULL ? 0 : opf_graph_add_value(b->batch, name);
    *node = *y == 0 ? 0 : opf_graph_add_node(b->batch, op, op->name, name, inputs, n, y, 1);
    OPF_OOM_IF(b->error, *node == 0 || !opf_node_add_origin(b->batch, *node, b->name));
    return OPF_OK;
}

static opf_status add_ints(batches *b, int64_t x, opf_value_id *value)
{
    const opf_const *c = opf_const_ints(b->batch->consts, &x, 1);
    *value = c == NULL ? 0 : opf_graph_add_constant(b->batch, b->name, c);
    OPF_OOM_IF(b->error, *value == 0);
    return OPF_OK;
}

static opf_status add_input(batches *b, const char *name, opf_value_id *value)
{
    *value = opf_graph_add_value(b->batch, name);
    OPF_OOM_IF(b->error, *value == 0 || !opf_graph_add_input(b->batch, *value));
    return OPF_OK;
}

/* A copy of a node's attribute under another name, if it is there. */
static opf_status copy_attr(batches *b, opf_node_id to, const char *from, const char *name)
{
    const opf_attr *attr = opf_node_attr(opf_graph_node(b->outer, b->old), from);
    opf_attr copy = attr != NULL ? *attr : (opf_attr){0};
    copy.name = name;
    OPF_OOM_IF(b->error, attr != NULL && !opf_node_set_attr(b->batch, to, copy));
    return OPF_OK;
}

static opf_status set_body(opf_graph *graph, opf_node_id id, opf_graph *body, uint32_t captures, opf_error *error)
{
    opf_node *node = opf_graph_node(graph, id);
    node->n_own_inputs -= captures;
    node->n_captures = captures;
    node->bodies = opf_arena_copy(graph->arena, &body, sizeof(opf_graph *));
    node->n_bodies = 1;
    body->parent = graph;
    body->parent_node = id;
    OPF_OOM_IF(error, node->bodies == NULL ||
                          !opf_node_set_attr(graph, id, (opf_attr){.name = "body", .type = OPF_ATTR_GRAPH, .i = 0}));
    return OPF_OK;
}

/* ---- one sequence ---- */

static opf_status open_batch(batches *b)
{
    const uint32_t n = b->states + b->scans + b->captures;
    opf_value_id given = 0;
    b->batch = opf_graph_create(b->outer->arena, b->outer->dims, b->outer->consts, "batch");
    OPF_OOM_IF(b->error, b->batch == NULL);
    b->inputs = OPF_NEW(b->outer->arena, opf_value_id, n);
    b->outputs = OPF_NEW(b->outer->arena, opf_value_id, b->results);
    OPF_OOM_IF(b->error, b->inputs == NULL || b->outputs == NULL);
    if (b->has_lengths)
        OPF_TRY(add_input(b, "length", &given));
    for (uint32_t i = 0; i < n; i++)
        OPF_TRY(add_input(b, opf_graph_value(b->body, b->body->inputs[i])->name, &b->inputs[i]));
    if (!b->has_lengths)
        return OPF_OK;
    opf_node_id node;
    opf_value_id one;
    OPF_TRY(add_ints(b, 0, &b->zero));
    OPF_TRY(add_ints(b, 1, &one));
    OPF_TRY(add(b, &opf_op_Shape, 1, &b->inputs[b->states], &node, &b->total));
    OPF_OOM_IF(b->error, !opf_node_set_int(b->batch, node, "end", 1));
    return add(b, &opf_op_Reshape, 2, (const opf_value_id[]){given, one}, &node, &b->length);
}

/* The scan inputs up to the length of this sequence. */
static opf_status cut(batches *b)
{
    for (uint32_t i = b->states; b->has_lengths && i < b->states + b->scans; i++) {
        const opf_value_id from[] = {b->inputs[i], b->zero, b->length, b->zero};
        opf_node_id node;
        OPF_TRY(add(b, &opf_op_Slice, 4, from, &node, &b->inputs[i]));
    }
    return OPF_OK;
}

static opf_status scan_sequence(batches *b)
{
    const char *name = opf_arena_printf(b->outer->arena, "%s/sequence", b->name);
    OPF_OOM_IF(b->error, name == NULL);
    for (uint32_t o = 0; o < b->results; o++) {
        b->outputs[o] = opf_graph_add_value(b->batch, opf_graph_value(b->body, b->body->outputs[o])->name);
        OPF_OOM_IF(b->error, b->outputs[o] == 0);
    }
    const opf_node_id id = opf_graph_add_node(b->batch, &opf_op_Scan, opf_op_Scan.name, name, b->inputs,
                                              b->states + b->scans + b->captures, b->outputs, b->results);
    OPF_OOM_IF(b->error, id == 0 || !opf_node_add_origin(b->batch, id, b->name));
    OPF_TRY(copy_attr(b, id, "num_scan_inputs", "num_scan_inputs"));
    OPF_TRY(copy_attr(b, id, "directions", "scan_input_directions"));
    return set_body(b->batch, id, b->body, b->captures, b->error);
}

/* What was collected, as long as that of a whole sequence. */
static opf_status fill_up(batches *b)
{
    opf_value_id missing = 0, pads = 0;
    opf_node_id node;
    if (b->has_lengths) {
        OPF_TRY(add(b, &opf_op_Sub, 2, (const opf_value_id[]){b->total, b->length}, &node, &missing));
        OPF_TRY(add(b, &opf_op_Concat, 2, (const opf_value_id[]){b->zero, missing}, &node, &pads));
        OPF_OOM_IF(b->error, !opf_node_set_int(b->batch, node, "axis", 0));
    }
    for (uint32_t o = 0; o < b->results; o++) {
        if (b->has_lengths && o >= b->states)
            OPF_TRY(
                add(b, &opf_op_Pad, 4, (const opf_value_id[]){b->outputs[o], pads, 0, b->zero}, &node, &b->outputs[o]));
        OPF_OOM_IF(b->error, !opf_graph_add_output(b->batch, b->outputs[o]));
    }
    return OPF_OK;
}

/* ---- the batch ---- */

static opf_status replace(batches *b)
{
    const opf_node *old = opf_graph_node(b->outer, b->old);
    const uint32_t first = b->has_lengths ? 0 : 1, n = old->n_inputs - first, n_outputs = old->n_own_outputs;
    opf_value_id *inputs = opf_arena_copy(b->outer->arena, old->inputs + first, n * sizeof *inputs);
    opf_value_id *outputs = opf_arena_copy(b->outer->arena, old->outputs, n_outputs * sizeof *outputs);
    OPF_OOM_IF(b->error, inputs == NULL || outputs == NULL);
    opf_graph_remove_node(b->outer, b->old);
    const opf_node_id id =
        opf_graph_add_node(b->outer, &opf_op_Scan, opf_op_Scan.name, b->name, inputs, n, outputs, n_outputs);
    OPF_OOM_IF(b->error, id == 0 || !opf_node_add_origin(b->outer, id, b->name) ||
                             !opf_node_set_int(b->outer, id, "num_scan_inputs", n - b->captures));
    OPF_TRY(set_body(b->outer, id, b->batch, b->captures, b->error));
    OPF_OOM_IF(b->error, opf_infer_bodies(b->outer, id, NULL) == OPF_OUT_OF_MEMORY ||
                             opf_infer_update(b->outer, id, NULL) == OPF_OUT_OF_MEMORY);
    return OPF_OK;
}

opf_status opf_lift_scan_batches(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    const opf_node *node = opf_graph_node(graph, id);
    const opf_attr *body = opf_node_attr(node, "body");
    const int64_t scans = opf_node_int(node, "num_scan_inputs", 0);
    (void)opset;
    OPF_FAIL_IF(error, body == NULL || node->n_bodies != 1, OPF_INVALID_MODEL,
                "%s (Scan): attribute body holds no graph", node->name);
    OPF_FAIL_IF(error, scans < 1 || scans >= (int64_t)node->n_own_inputs, OPF_INVALID_MODEL,
                "%s (Scan): num_scan_inputs is %lld, there are %u inputs", node->name, (long long)scans,
                node->n_own_inputs);
    batches b = {.outer = graph,
                 .old = id,
                 .name = node->name,
                 .has_lengths = node->inputs[0] != 0,
                 .scans = (uint32_t)scans,
                 .states = node->n_own_inputs - 1 - (uint32_t)scans,
                 .captures = node->n_captures,
                 .body = node->bodies[0],
                 .error = error};
    b.results = b.body->n_outputs;
    OPF_FAIL_IF(error,
                b.body->n_inputs != b.states + b.scans + b.captures || b.results < b.states ||
                    b.results < node->n_own_outputs,
                OPF_INVALID_MODEL, "%s (Scan): body has %u inputs and %u outputs, which do not fit", node->name,
                b.body->n_inputs - b.captures, b.results);
    OPF_TRY(open_batch(&b));
    OPF_TRY(cut(&b));
    OPF_TRY(scan_sequence(&b));
    OPF_TRY(fill_up(&b));
    return replace(&b);
}
