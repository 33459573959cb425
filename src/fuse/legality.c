/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/legality.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool opf_refuse(opf_fuse_context *context, opf_refusal *why, opf_miss_code code, opf_node_id node, const char *format,
                ...)
{
    if (why == NULL)
        return false;
    char message[300];
    va_list list;
    va_start(list, format);
    vsnprintf(message, sizeof message, format, list);
    va_end(list);
    const char *copy = opf_arena_copy_string(context->scratch, message, strlen(message));
    *why = (opf_refusal){.code = code, .node = node, .reason = copy != NULL ? copy : "out of memory"};
    return false;
}

bool opf_report_refusal(opf_fuse_context *context, const char *rule, opf_node_id start, const opf_refusal *why,
                        uint32_t matched, uint32_t of)
{
    const opf_node_id fault = why->node != 0 ? why->node : start;
    return why->reason == NULL ||
           opf_report_miss(context->report, rule, opf_graph_node(context->graph, start)->name, why->code,
                           opf_graph_node(context->graph, fault)->name, matched, of, "%s", why->reason);
}

static bool contains(const uint32_t *ids, uint32_t n, uint32_t id)
{
    for (uint32_t i = 0; i < n; i++)
        if (ids[i] == id)
            return true;
    return false;
}

bool opf_legal_uses(opf_fuse_context *context, opf_value_id value, const opf_node_id *nodes, uint32_t n,
                    opf_refusal *why)
{
    const opf_graph *graph = context->graph;
    const opf_value *v = opf_graph_value(graph, value);
    for (uint32_t i = 0; i < v->n_uses; i++) {
        const opf_use use = v->uses[i];
        const opf_node *reader = opf_graph_node(graph, use.node);
        if (use.node == 0)
            return opf_refuse(context, why, OPF_MISS_IS_OUTPUT, v->producer, "%s is also an output of the graph",
                              v->name);
        if (use.input >= reader->n_inputs - reader->n_captures)
            return opf_refuse(context, why, OPF_MISS_CAPTURED, use.node, "%s is also read in a body of %s", v->name,
                              reader->name);
        if (!contains(nodes, n, use.node))
            return opf_refuse(context, why, OPF_MISS_USED_OUTSIDE, use.node, "%s is also read by %s", v->name,
                              reader->name);
    }
    return true;
}

bool opf_legal_read_once(opf_fuse_context *context, opf_value_id value, opf_node_id reader, opf_refusal *why)
{
    const opf_graph *graph = context->graph;
    return opf_legal_uses(context, value, &reader, 1, why) &&
           (opf_graph_single_use(graph, value) != NULL ||
            opf_refuse(context, why, OPF_MISS_USED_OUTSIDE, reader, "%s is also read by the epilogue of %s",
                       opf_graph_value(graph, value)->name, opf_graph_node(graph, reader)->name));
}

bool opf_legal_interior(opf_fuse_context *context, const opf_node_id *nodes, uint32_t n, const opf_value_id *kept,
                        uint32_t n_kept, opf_refusal *why)
{
    for (uint32_t i = 0; i < n; i++) {
        const opf_node *node = opf_graph_node(context->graph, nodes[i]);
        for (uint32_t o = 0; o < node->n_outputs; o++)
            if (node->outputs[o] != 0 && !contains(kept, n_kept, node->outputs[o]) &&
                !opf_legal_uses(context, node->outputs[o], nodes, n, why))
                return false;
    }
    return true;
}

/* ---- walking backwards ---- */

/* Marks are compared with a number that grows, so that a walk costs what it visits. */
static bool begin_walk(opf_fuse_context *context)
{
    uint32_t n = context->graph->n_nodes;
    if (context->marks_capacity < n) {
        context->marks = OPF_NEW(context->scratch, uint32_t, 2 * (size_t)n);
        context->marks_capacity = context->marks != NULL ? 2 * n : 0;
        context->mark = 0;
    }
    if (++context->mark == 0 && context->marks != NULL) {
        memset(context->marks, 0, context->marks_capacity * sizeof *context->marks);
        context->mark = 1;
    }
    return context->marks != NULL;
}

typedef struct node_stack {
    opf_node_id *list;
    uint32_t n, capacity;
} node_stack;

static bool push(opf_fuse_context *context, node_stack *stack, opf_value_id value)
{
    opf_node_id producer = value != 0 ? opf_graph_value(context->graph, value)->producer : 0;
    if (producer == 0 || context->marks[producer] == context->mark)
        return true;
    context->marks[producer] = context->mark;
    return OPF_PUSH(context->scratch, stack->list, stack->n, stack->capacity, producer);
}

/* One of the targets is among the producers that were pushed, or feeds one. When memory is out it is taken to be so. */
static opf_node_id walk(opf_fuse_context *context, node_stack *stack, const opf_node_id *targets, uint32_t n)
{
    while (stack->n != 0) {
        opf_node_id id = stack->list[--stack->n];
        const opf_node *node = opf_graph_node(context->graph, id);
        if (contains(targets, n, id))
            return id;
        for (uint32_t i = 0; i < node->n_inputs; i++)
            if (!push(context, stack, node->inputs[i]))
                return targets[0];
    }
    return 0;
}

bool opf_legal_convex(opf_fuse_context *context, const opf_node_id *nodes, uint32_t n, opf_refusal *why)
{
    node_stack stack = {0};
    bool ok = begin_walk(context);
    for (uint32_t i = 0; ok && i < n; i++) {
        const opf_node *node = opf_graph_node(context->graph, nodes[i]);
        for (uint32_t k = 0; ok && k < node->n_inputs; k++) {
            opf_node_id producer =
                node->inputs[k] != 0 ? opf_graph_value(context->graph, node->inputs[k])->producer : 0;
            if (!contains(nodes, n, producer))
                ok = push(context, &stack, node->inputs[k]);
        }
    }
    opf_node_id found = ok ? walk(context, &stack, nodes, n) : nodes[0];
    if (found == 0)
        return true;
    return opf_refuse(context, why, OPF_MISS_NOT_CONVEX, found, "what is read from outside depends on %s",
                      opf_graph_node(context->graph, found)->name);
}

bool opf_legal_depends(opf_fuse_context *context, opf_value_id value, opf_node_id node)
{
    node_stack stack = {0};
    return !begin_walk(context) || !push(context, &stack, value) || walk(context, &stack, &node, 1) != 0;
}

/* ---- shapes ---- */

bool opf_legal_same(opf_fuse_context *context, const opf_info *found, const opf_info *wanted, opf_refusal *why)
{
    opf_miss_code code = OPF_MISS_SHAPE;
    bool same = true;
    if (found->type != wanted->type || found->type == OPF_TYPE_NONE) {
        code = OPF_MISS_DTYPE;
        same = false;
    } else if (found->rank < 0 || wanted->rank < 0) {
        code = OPF_MISS_SHAPE_UNKNOWN;
        same = false;
    } else if (found->rank != wanted->rank) {
        code = OPF_MISS_RANK;
        same = false;
    }
    bool unknown = false;
    for (int32_t i = 0; same && i < found->rank; i++) {
        opf_dim a = found->dims[i], b = wanted->dims[i];
        if (opf_dim_equal(a, b))
            continue;
        if (opf_dim_is_number(a) && opf_dim_is_number(b)) {
            same = false;
            code = OPF_MISS_SHAPE;
        } else {
            unknown = true;
        }
    }
    if (same && unknown) {
        same = false;
        code = OPF_MISS_SHAPE_UNKNOWN;
    }
    if (same || why == NULL)
        return same;
    const char *a = opf_info_string(found, context->graph->dims, context->scratch);
    const char *b = opf_info_string(wanted, context->graph->dims, context->scratch);
    return opf_refuse(context, why, code, 0, "shape is %s, must be %s", a != NULL ? a : "?", b != NULL ? b : "?");
}
