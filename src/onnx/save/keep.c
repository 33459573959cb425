/* SPDX-License-Identifier: Apache-2.0 */
#include "onnx/save/keep.h"

#include <string.h>

/* Numbers of fields. */
enum {
    MODEL_PRODUCER = 2,
    MODEL_PRODUCER_VERSION,
    MODEL_DOMAIN,
    MODEL_VERSION,
    MODEL_DOC,
    MODEL_GRAPH,
    MODEL_METADATA = 14
};
enum { GRAPH_NODE = 1, GRAPH_NAME = 2, GRAPH_DOC = 10, GRAPH_INPUT, GRAPH_OUTPUT, GRAPH_METADATA = 16 };
enum { NODE_OUTPUT = 2, NODE_NAME = 3, NODE_OP_TYPE = 4, NODE_ATTRIBUTE = 5, NODE_METADATA = 9 };
enum { ATTRIBUTE_NAME = 1, ATTRIBUTE_GRAPH = 6 };
enum { VALUE_NAME = 1, ENTRY_KEY = 1, ENTRY_VALUE = 2 };

static const char *copy(const opf_keep *keep, opf_pb_span text)
{
    return opf_arena_copy_string(keep->arena, (const char *)text.at, text.n);
}

/* The first of a message's fields of that number that is not empty. */
static opf_pb_span find_field(opf_pb_span message, uint32_t number)
{
    opf_pb_field field;
    while (opf_pb_next(&message, &field))
        if (field.number == number && field.bytes.n != 0)
            return field.bytes;
    return (opf_pb_span){0};
}

/* The first of a name counts: later ones have other names in the graph. */
static bool remember(opf_keep *keep, opf_map *map, const char *name, opf_pb_span message)
{
    if (name != NULL && opf_map_get(map, name, NULL))
        return true;
    return name != NULL && OPF_PUSH(keep->arena, keep->spans, keep->n_spans, keep->capacity, message) &&
           opf_map_put(map, name, keep->n_spans - 1);
}

static bool keep_nodes(opf_keep *keep, opf_pb_span graph, const char *prefix);

static bool keep_bodies(opf_keep *keep, opf_pb_span node, const char *name)
{
    opf_pb_field field;
    while (opf_pb_next(&node, &field)) {
        if (field.number != NODE_ATTRIBUTE)
            continue;
        const opf_pb_span graph = find_field(field.bytes, ATTRIBUTE_GRAPH);
        if (graph.n == 0)
            continue;
        const char *attribute = copy(keep, find_field(field.bytes, ATTRIBUTE_NAME));
        const char *prefix = attribute != NULL ? opf_arena_printf(keep->arena, "%s/%s/", name, attribute) : NULL;
        if (prefix == NULL || !keep_nodes(keep, graph, prefix))
            return false;
    }
    return true;
}

/* Nodes are called as the loader calls them. The depth was limited when the file was loaded. */
static bool keep_nodes(opf_keep *keep, opf_pb_span graph, const char *prefix)
{
    opf_pb_field field;
    while (opf_pb_next(&graph, &field)) {
        if (field.number != GRAPH_NODE)
            continue;
        const opf_pb_span op = find_field(field.bytes, NODE_OP_TYPE);
        if (op.n == strlen("Constant") && memcmp(op.at, "Constant", op.n) == 0)
            continue;
        const opf_pb_span own = find_field(field.bytes, NODE_NAME);
        const char *label = copy(keep, own.n != 0 ? own : find_field(field.bytes, NODE_OUTPUT));
        const char *name = label != NULL ? opf_arena_printf(keep->arena, "%s%s", prefix, label) : NULL;
        if (!remember(keep, &keep->nodes, name, field.bytes) || !keep_bodies(keep, field.bytes, name))
            return false;
    }
    return true;
}

static bool keep_graph(opf_keep *keep, opf_pb_span graph)
{
    const opf_pb_span all = graph;
    opf_pb_field field;
    while (opf_pb_next(&graph, &field)) {
        switch (field.number) {
        case GRAPH_NAME:
            keep->has_graph_name = field.bytes.n != 0;
            /* fallthrough */
        case GRAPH_DOC:
        case GRAPH_METADATA:
            opf_text_add_bytes(&keep->graph, (const char *)field.whole.at, field.whole.n);
            break;
        case GRAPH_INPUT:
        case GRAPH_OUTPUT:
            if (!remember(keep, field.number == GRAPH_INPUT ? &keep->inputs : &keep->outputs,
                          copy(keep, find_field(field.bytes, VALUE_NAME)), field.bytes))
                return false;
            break;
        default:
            break;
        }
    }
    return keep_nodes(keep, all, "");
}

opf_status opf_keep_init(opf_keep *keep, const void *bytes, size_t size, opf_arena *arena, opf_error *error)
{
    *keep = (opf_keep){.arena = arena};
    opf_text_init(&keep->model, arena);
    opf_text_init(&keep->graph, arena);
    opf_map_init(&keep->inputs, arena);
    opf_map_init(&keep->outputs, arena);
    opf_map_init(&keep->nodes, arena);
    opf_pb_span message = {bytes, size};
    opf_pb_field field;
    while (opf_pb_next(&message, &field)) {
        switch (field.number) {
        case MODEL_PRODUCER:
        case MODEL_PRODUCER_VERSION:
        case MODEL_DOMAIN:
        case MODEL_VERSION:
        case MODEL_DOC:
        case MODEL_METADATA:
            opf_text_add_bytes(&keep->model, (const char *)field.whole.at, field.whole.n);
            break;
        case MODEL_GRAPH:
            OPF_OOM_IF(error, !keep_graph(keep, field.bytes));
            break;
        default:
            break;
        }
    }
    OPF_OOM_IF(error, keep->model.failed || keep->graph.failed);
    return OPF_OK;
}

opf_pb_span opf_keep_find(const opf_keep *keep, const opf_map *map, const char *name)
{
    uint32_t index;
    return opf_map_get(map, name, &index) ? keep->spans[index] : (opf_pb_span){0};
}

const char *opf_keep_node_metadata(const opf_keep *keep, const char *node, const char *key)
{
    opf_pb_span message = opf_keep_find(keep, &keep->nodes, node);
    opf_pb_field field;
    while (opf_pb_next(&message, &field)) {
        const opf_pb_span found = field.number == NODE_METADATA ? find_field(field.bytes, ENTRY_KEY) : (opf_pb_span){0};
        if (found.n == strlen(key) && memcmp(found.at, key, found.n) == 0)
            return copy(keep, find_field(field.bytes, ENTRY_VALUE));
    }
    return NULL;
}
