/* SPDX-License-Identifier: Apache-2.0 */
#include "onnx/save/save.h"

#include "onnx/save/file.h"
#include "onnx/save/lower.h"
#include "onnx/save/microsoft.h"
#include "onnx/save/unfuse.h"
#include "ops/infer.h"

#include <string.h>

enum {
    OLDEST_IR = 4,         /* before, weights had to be inputs */
    NO_OPSET = 13,         /* the least of a model that names none */
    LARGE_SPLAT = 1 << 16, /* bytes of equal elements from which a node that makes them is better */
};

typedef struct saver {
    const opf_save_request *request;
    opf_arena *arena;
    opf_save_result *result;
    opf_keep keep;
    opf_const_pool consts; /* the model's own, and dims, stay as they are: others may read them */
    opf_dims *dims;
    opf_error *error;
} saver;

/* ---- a graph of nodes ---- */

/* Names of values that are no more are free again: what is made here is called after them. */
static bool set_tables(saver *s, opf_graph *graph)
{
    graph->dims = s->dims;
    graph->consts = &s->consts;
    opf_map_init(&graph->value_names, s->arena);
    for (opf_value_id id = 1; id < graph->n_values; id++) {
        const opf_value *v = opf_graph_value(graph, id);
        if ((v->is_input || v->producer != 0 || v->n_uses != 0) && !opf_map_put(&graph->value_names, v->name, id))
            return false;
    }
    for (opf_node_id id = 1; id < graph->n_nodes; id++)
        for (uint32_t b = 0; b < graph->nodes[id].n_bodies; b++)
            if (!set_tables(s, graph->nodes[id].bodies[b]))
                return false;
    return true;
}

/* Whoever reads the value reads a node's result instead. */
static bool read_through(opf_graph *graph, opf_value_id value, const opf_op *op, opf_value_id input, opf_node_id *id)
{
    const opf_value_id result = opf_graph_add_value(graph, opf_graph_value(graph, value)->name);
    if (result == 0)
        return false;
    opf_graph_value(graph, result)->info = opf_graph_value(graph, value)->info;
    if (!opf_graph_replace_uses(graph, value, result))
        return false;
    *id = opf_graph_add_node(graph, op, op->name, opf_graph_value(graph, result)->name, &input, 1, &result, 1);
    return *id != 0;
}

static bool is_captured(const opf_graph *graph, opf_value_id value)
{
    if (graph->parent == NULL)
        return false;
    const uint32_t captures = opf_graph_node(graph->parent, graph->parent_node)->n_captures;
    for (uint32_t i = graph->n_inputs - captures; i < graph->n_inputs; i++)
        if (graph->inputs[i] == value)
            return true;
    return false;
}

/* Results that are no node's: not every runtime takes a weight, or a value from outside, for an output. */
static bool give_outputs_nodes(opf_graph *graph)
{
    for (uint32_t o = 0; o < graph->n_outputs; o++) {
        const opf_value_id id = graph->outputs[o];
        opf_node_id node;
        if ((opf_graph_value(graph, id)->constant != NULL || is_captured(graph, id)) &&
            !read_through(graph, id, &opf_op_Identity, id, &node))
            return false;
    }
    return true;
}

static bool make_splat(opf_graph *graph, opf_value_id id)
{
    const opf_const *c = opf_graph_value(graph, id)->constant;
    const int64_t one = 1;
    const opf_const *dims = opf_const_ints(graph->consts, c->dims, c->rank);
    const opf_const *value = opf_const_bytes(graph->consts, c->type, 1, &one, c->data, c->bytes);
    const opf_value_id shape = dims != NULL ? opf_graph_add_constant(graph, opf_graph_value(graph, id)->name, dims) : 0;
    opf_node_id node;
    return shape != 0 && value != NULL && read_through(graph, id, &opf_op_ConstantOfShape, shape, &node) &&
           opf_node_set_attr(graph, node, (opf_attr){.name = "value", .type = OPF_ATTR_TENSOR, .tensor = value});
}

/* A large constant of equal elements is no weight that a file should hold. */
static bool make_splats(opf_graph *graph)
{
    const opf_types types =
        OPF_TYPES_INT | OPF_TYPES_BOOL | OPF_TYPE_BIT(OPF_FLOAT16) | OPF_TYPE_BIT(OPF_FLOAT) | OPF_TYPE_BIT(OPF_DOUBLE);
    for (opf_value_id id = 1; id < graph->n_values; id++) {
        const opf_value *v = opf_graph_value(graph, id);
        if (v->n_uses != 0 && v->constant != NULL && v->constant->kind == OPF_CONST_SPLAT &&
            opf_types_have(types, v->constant->type) && opf_const_size(v->constant) > LARGE_SPLAT &&
            !make_splat(graph, id))
            return false;
    }
    return true;
}

static bool complete(opf_graph *graph)
{
    if (!give_outputs_nodes(graph) || !make_splats(graph))
        return false;
    for (opf_node_id id = 1; id < graph->n_nodes; id++)
        for (uint32_t b = 0; b < graph->nodes[id].n_bodies; b++)
            if (!complete(graph->nodes[id].bodies[b]))
                return false;
    return true;
}

static bool is_read(const opf_graph *graph, const opf_node *node)
{
    for (uint32_t o = 0; o < node->n_outputs; o++)
        if (node->outputs[o] != 0 && opf_graph_value(graph, node->outputs[o])->n_uses != 0)
            return true;
    return false;
}

/* Reshapes to the shape that there is, as fusion leaves them behind. */
static void skip_reshapes(opf_graph *graph)
{
    for (opf_node_id id = 1; id < graph->n_nodes; id++) {
        const opf_node *node = opf_graph_node(graph, id);
        if (node->op != &opf_op_Reshape)
            continue;
        const opf_info *x = &opf_graph_value(graph, node->inputs[0])->info,
                       *y = &opf_graph_value(graph, node->outputs[0])->info;
        bool same = x->rank == y->rank && x->rank >= 0;
        for (int32_t i = 0; same && i < x->rank; i++)
            same = opf_dim_equal(x->dims[i], y->dims[i]);
        if (same && !opf_graph_is_output(graph, node->outputs[0]))
            (void)opf_graph_replace_uses(graph, node->outputs[0], node->inputs[0]);
    }
}

/* What spellings and exchanges left unread. */
static opf_status remove_dead(saver *s, opf_graph *graph)
{
    opf_node_id *order;
    uint32_t n;
    OPF_TRY(opf_graph_sort(graph, s->arena, &order, &n, s->error));
    while (n-- > 0) {
        const opf_node *node = opf_graph_node(graph, order[n]);
        for (uint32_t b = 0; b < node->n_bodies; b++)
            OPF_TRY(remove_dead(s, node->bodies[b]));
        if (!is_read(graph, node))
            opf_graph_remove_node(graph, order[n]);
    }
    return OPF_OK;
}

/* The nodes of the model, of the newest forms and of com.microsoft. */
static opf_status make_nodes(saver *s, opf_graph **graph)
{
    *graph = opf_graph_clone(s->request->graph, s->arena);
    s->dims = opf_dims_clone(s->request->graph->dims, s->arena);
    s->consts = (opf_const_pool){.arena = s->arena, .next_id = s->request->graph->consts->next_id};
    OPF_OOM_IF(s->error, *graph == NULL || s->dims == NULL || !set_tables(s, *graph));
    OPF_TRY(opf_save_unfuse(*graph, s->error));
    OPF_OOM_IF(s->error, !complete(*graph));
    OPF_OOM_IF(s->error, opf_infer_graph(*graph, NULL) == OPF_OUT_OF_MEMORY);
    skip_reshapes(*graph);
    if (s->request->target == OPF_TARGET_ONNX)
        return OPF_OK;
    return opf_save_to_microsoft(*graph, s->request->target == OPF_TARGET_ORT_ALL, s->error);
}

/* ---- the opset ---- */

static int64_t opset_of(const opf_loaded *loaded, const char *domain)
{
    for (uint32_t i = 0; i < loaded->n_opsets; i++)
        if (strcmp(loaded->opsets[i].domain, domain) == 0)
            return loaded->opsets[i].version;
    return 0;
}

static opf_status try_opset(saver *s, const opf_graph *nodes, int64_t opset, opf_graph **lowered, opf_error *error)
{
    *lowered = opf_graph_clone(nodes, s->arena);
    OPF_OOM_IF(error, *lowered == NULL);
    return opf_save_lower(*lowered, (int32_t)opset, error);
}

/* The first reason is told: it is the file's own opset that lacks something. */
static opf_status choose_opset(saver *s, const opf_graph *nodes, opf_graph **lowered)
{
    const int64_t own = opset_of(s->request->loaded, ""), wanted = s->request->opset;
    const int64_t first = wanted != 0 ? wanted
                          : own != 0  ? own
                                      : NO_OPSET,
                  last = wanted != 0 ? wanted : OPF_OPSET_NEWEST;
    opf_error reason = {.status = OPF_OK}, next;
    OPF_FAIL_IF(s->error, first < OPF_OPSET_OLDEST || first > OPF_OPSET_NEWEST, OPF_INVALID_ARGUMENT,
                "opset %lld cannot be written: %d to %d can", (long long)first, OPF_OPSET_OLDEST, OPF_OPSET_NEWEST);
    for (int64_t opset = first; opset <= last; opset++) {
        const opf_status status = try_opset(s, nodes, opset, lowered, &next);
        s->result->opset = opset;
        if (status == OPF_OK && opset != first)
            s->result->raised = opf_arena_copy_string(s->arena, reason.message, strlen(reason.message));
        if (status == OPF_OK)
            return OPF_OK;
        if (reason.status == OPF_OK)
            reason = next;
        if (status != OPF_UNSUPPORTED)
            return opf_fail(s->error, status, "%s", next.message);
    }
    return opf_fail(s->error, OPF_UNSUPPORTED, "no form in opset %lld%s: %s", (long long)first,
                    first == last ? "" : " or any later one", reason.message);
}

/* The first IR version that knows an opset. */
static int64_t ir_version_of(int64_t opset)
{
    static const uint8_t versions[] = {[9] = 4, [10] = 5,  [11] = 6, [12] = 7,  7,  7,  [15] = 8,  8,  8, 8, [19] = 9,
                                       9,       [21] = 10, 10,       [23] = 11, 12, 12, [26] = 13, 13, 14};
    const size_t n = sizeof versions;
    const int64_t known = opset < (int64_t)n ? versions[opset] : versions[n - 1];
    return known > OLDEST_IR ? known : OLDEST_IR;
}

/* ---- the whole ---- */

static opf_status count_ops(saver *s, const opf_graph *graph)
{
    for (opf_node_id id = 1; id < graph->n_nodes; id++) {
        const opf_node *node = opf_graph_node(graph, id);
        if (opf_node_is_alive(node))
            OPF_OOM_IF(s->error, !opf_tally_add(&s->result->ops, s->arena, node->op_type));
        for (uint32_t b = 0; b < node->n_bodies; b++)
            OPF_TRY(count_ops(s, node->bodies[b]));
    }
    return OPF_OK;
}

static opf_status write_file(saver *s, const opf_save_message *message)
{
    const opf_save_request *r = s->request;
    opf_opset opsets[] = {{"", s->result->opset}, {"com.microsoft", 1}};
    const int64_t raised = s->result->opset > opset_of(r->loaded, "") ? ir_version_of(s->result->opset) : OLDEST_IR;
    s->result->ir_version = r->loaded->ir_version > raised ? r->loaded->ir_version : raised;
    opf_save_file file = {.path = r->path,
                          .message = message,
                          .ir_version = s->result->ir_version,
                          .opsets = opsets,
                          .n_opsets = message->has_microsoft ? 2 : 1,
                          .largest = r->largest != 0 ? r->largest : INT32_MAX,
                          .arena = s->arena,
                          .heap = r->heap};
    OPF_TRY(opf_save_write_file(&file, s->error));
    s->result->weight_bytes = file.weight_bytes;
    s->result->file_bytes = file.file_bytes;
    s->result->external = file.external;
    return OPF_OK;
}

opf_status opf_onnx_save(const opf_save_request *request, opf_arena *arena, opf_save_result *result, opf_error *error)
{
    saver s = {.request = request, .arena = arena, .result = result, .error = error};
    opf_graph *nodes, *lowered;
    *result = (opf_save_result){0};
    OPF_TRY(make_nodes(&s, &nodes));
    OPF_TRY(choose_opset(&s, nodes, &lowered));
    OPF_TRY(remove_dead(&s, lowered));
    OPF_TRY(count_ops(&s, lowered));
    OPF_TRY(opf_keep_init(&s.keep, request->loaded->bytes, request->loaded->size, arena, error));
    opf_save_message message = {.arena = arena,
                                .keep = &s.keep,
                                .loaded = request->loaded->graph,
                                .is_resized = request->is_resized,
                                .defaults = request->loaded->defaults,
                                .error = error};
    OPF_TRY(opf_save_write_graph(&message, lowered));
    OPF_OOM_IF(error, opf_dims_failed(s.dims));
    return write_file(&s, &message);
}
