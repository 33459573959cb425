/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Importer rows are applied in topological order, and what is known of shapes is carried along, because some rows need
 * ranks. Inference that fails here is no error yet: shapes may still be given by the caller before it counts.
 */
#include "base/status.h"
#include "onnx/build.h"
#include "onnx/contrib/contrib.h"
#include "ops/control.h"
#include "ops/import.h"
#include "ops/infer.h"

#include <string.h>

static bool must_lift(const opf_node *node, int32_t version)
{
    const opf_op *op = node->op;
    for (uint32_t r = 0; op != NULL && r < op->n_rows; r++)
        if (version < op->rows[r].below)
            return true;
    return opf_contrib_find(node->domain, node->op_type, version) != NULL;
}

static bool any_must_lift(const opf_built *built)
{
    for (opf_node_id id = 1; id < built->graph->n_nodes; id++) {
        const opf_node *node = opf_graph_node(built->graph, id);
        if (must_lift(node, built->versions[id]))
            return true;
        for (uint32_t b = 0; b < node->n_bodies; b++)
            if (any_must_lift(&built->bodies[id][b]))
                return true;
    }
    return false;
}

/* ---- signatures ---- */

static bool is_required(const opf_param *param)
{
    return (param->flags & OPF_OPTIONAL) == 0;
}

/* What rows may rely on. */
static opf_status check_old_form(const opf_node *node, opf_error *error)
{
    const opf_op *op = node->op;
    OPF_FAIL_IF(error, op->n_inputs != 0 && is_required(&op->inputs[0]) && (node->n_own_inputs == 0 || node->inputs[0] == 0),
                OPF_INVALID_MODEL, "input 0 (%s) is missing", op->inputs[0].name);
    OPF_FAIL_IF(error, op->n_outputs != 0 && node->n_own_outputs == 0, OPF_INVALID_MODEL, "there is no output");
    return OPF_OK;
}

/* Those that a model may have: the first. */
static uint32_t count_inputs(const opf_op *op)
{
    uint32_t n = op->n_inputs;
    while (n != 0 && (op->inputs[n - 1].flags & OPF_OWN) != 0)
        n--;
    return n;
}

static opf_status check_signature(const opf_node *node, opf_error *error)
{
    const opf_op *op        = node->op;
    const uint32_t most     = count_inputs(op);
    bool          many_in   = op->n_inputs != 0 && (op->inputs[op->n_inputs - 1].flags & OPF_VARIADIC) != 0;
    bool          many_out  = op->n_outputs != 0 && (op->outputs[op->n_outputs - 1].flags & OPF_VARIADIC) != 0;
    OPF_FAIL_IF(error, node->n_own_inputs > most && !many_in, OPF_INVALID_MODEL, "%u inputs, at most %u are allowed",
                node->n_own_inputs, most);
    OPF_FAIL_IF(error, node->n_own_outputs > op->n_outputs && !many_out, OPF_INVALID_MODEL, "%u outputs, at most %u are allowed",
                node->n_own_outputs, op->n_outputs);
    for (uint32_t i = 0; i < op->n_inputs; i++)
        OPF_FAIL_IF(error, is_required(&op->inputs[i]) && (i >= node->n_own_inputs || node->inputs[i] == 0), OPF_INVALID_MODEL,
                    "input %u (%s) is missing", i, op->inputs[i].name);
    for (uint32_t a = 0; a < op->n_attrs; a++)
        OPF_FAIL_IF(error, op->attrs[a].required && opf_node_attr(node, op->attrs[a].name) == NULL, OPF_INVALID_MODEL,
                    "attribute %s is missing", op->attrs[a].name);
    return OPF_OK;
}

/* ---- lifting ---- */

static opf_status lift_node(opf_graph *graph, opf_node_id id, int32_t version, opf_error *error)
{
    const opf_op         *op      = opf_graph_node(graph, id)->op;
    const opf_contrib_op *contrib = opf_contrib_find(opf_graph_node(graph, id)->domain, opf_graph_node(graph, id)->op_type, version);
    if (version < 6) /* which inputs may be overwritten: no business of the model's since */
        OPF_TRY(opf_drop_attr(graph, id, "consumed_inputs"));
    if (contrib != NULL)
        OPF_TRY(opf_contrib_lift(contrib, graph, id, 0, error));
    else if (op == NULL)
        return OPF_OK;
    else
        OPF_TRY(check_old_form(opf_graph_node(graph, id), error));
    for (uint32_t r = 0; contrib == NULL && r < op->n_rows; r++)
        if (version < op->rows[r].below)
            OPF_TRY(op->rows[r].lift(graph, id, version, error));
    const opf_node *node = opf_graph_node(graph, id);
    return opf_node_is_alive(node) && node->op != NULL ? check_signature(node, error) : OPF_OK;
}

static opf_status infer(opf_graph *graph, opf_node_id id)
{
    if (!opf_node_is_alive(opf_graph_node(graph, id)))
        return OPF_OK;
    return opf_infer_update(graph, id, NULL) == OPF_OUT_OF_MEMORY ? OPF_OUT_OF_MEMORY : OPF_OK;
}

static bool is_pending(const opf_graph *graph, opf_node_id id, opf_node_id lifted, opf_node_id first_new, const bool *done)
{
    const opf_node *node = opf_graph_node(graph, id);
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        opf_node_id producer = node->inputs[i] == 0 ? 0 : opf_graph_value(graph, node->inputs[i])->producer;
        if ((producer == lifted || (producer >= first_new && producer != 0)) && !done[producer == lifted ? 0 : producer - first_new + 1])
            return true;
    }
    return false;
}

/* A row may have put new nodes before the lifted one, or behind it: each is inferred after those that it reads. */
static opf_status infer_lifted(opf_graph *graph, opf_node_id id, opf_node_id first_new)
{
    enum { MAX_NEW = 16 };
    uint32_t n = graph->n_nodes - first_new + 1;
    if (n == 1)
        return infer(graph, id);
    if (n > MAX_NEW)
        return OPF_OK;
    bool done[MAX_NEW] = {false};
    for (uint32_t round = 0; round < n; round++)
        for (uint32_t k = 0; k < n; k++) {
            opf_node_id at = k == 0 ? id : first_new + k - 1;
            if (done[k] || is_pending(graph, at, id, first_new, done))
                continue;
            OPF_TRY(infer(graph, at));
            done[k] = true;
        }
    return OPF_OK;
}

static opf_status lift_graph(const opf_built *built, bool with_shapes, opf_error *error);

static opf_status lift_bodies(const opf_built *built, opf_node_id id, bool with_shapes, opf_error *error)
{
    const opf_node *node = opf_graph_node(built->graph, id);
    for (uint32_t i = 0; with_shapes && node->n_bodies != 0 && i < node->n_inputs; i++)
        OPF_TRY(opf_infer_constant(built->graph, node->inputs[i], error));
    for (uint32_t b = 0; b < node->n_bodies; b++) {
        if (node->op != &opf_op_Scan || built->versions[id] >= 9) /* older: its inputs have a batch, those of the body none */
            opf_body_enter(built->graph, id, b);
        OPF_TRY(lift_graph(&built->bodies[id][b], with_shapes, error));
    }
    return OPF_OK;
}

static opf_status lift_in_order(const opf_built *built, const opf_node_id *order, uint32_t n, bool with_shapes, opf_error *error)
{
    opf_graph *graph = built->graph;
    for (uint32_t i = 0; i < n; i++) {
        opf_node_id id = order[i], first_new = graph->n_nodes;
        /* A row may change the operator: messages name the one that the file has. */
        const char *name = opf_graph_node(graph, id)->name, *op_type = opf_graph_node(graph, id)->op_type;
        OPF_TRY(lift_bodies(built, id, with_shapes, error));
        opf_status status = lift_node(graph, id, built->versions[id], error);
        if (status != OPF_OK) {
            /* Rows that several operators share name the node themselves. */
            bool is_named = error != NULL && strncmp(error->message, name, strlen(name)) == 0;
            if (is_named)
                opf_error_prefix(error, "node ");
            else
                opf_error_prefix(error, "node %s (%s): ", name, op_type);
            return status;
        }
        for (opf_node_id fresh = first_new; fresh < graph->n_nodes; fresh++)
            OPF_OOM_IF(error, !opf_node_add_origin(graph, fresh, name));
        if (with_shapes)
            OPF_OOM_IF(error, infer_lifted(graph, id, first_new) != OPF_OK);
    }
    return OPF_OK;
}

static opf_status lift_graph(const opf_built *built, bool with_shapes, opf_error *error)
{
    opf_arena    scratch;
    opf_node_id *order;
    uint32_t     n;
    opf_arena_init(&scratch, built->graph->arena->heap);
    opf_status status = opf_graph_sort(built->graph, &scratch, &order, &n, error);
    if (status == OPF_OK)
        status = lift_in_order(built, order, n, with_shapes, error);
    opf_arena_fini(&scratch);
    return status;
}

opf_status opf_lift_model(const opf_built *built, opf_error *error)
{
    return lift_graph(built, any_must_lift(built), error);
}
