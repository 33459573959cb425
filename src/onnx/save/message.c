/* SPDX-License-Identifier: Apache-2.0 */
#include "onnx/save/message.h"

#include "onnx/save/ports.h"
#include "ops/op.h"

#include <string.h>

/* Numbers of fields. */
enum { NODE_INPUT = 1, NODE_OUTPUT, NODE_NAME, NODE_OP_TYPE, NODE_ATTRIBUTE, NODE_DOC, NODE_DOMAIN, NODE_METADATA = 9 };
enum { ATTRIBUTE_NAME = 1, ATTRIBUTE_F, ATTRIBUTE_I, ATTRIBUTE_S, ATTRIBUTE_T, ATTRIBUTE_G, ATTRIBUTE_FLOATS };
enum { ATTRIBUTE_INTS = 8, ATTRIBUTE_STRINGS, ATTRIBUTE_TYPE = 20 };
enum { TENSOR_DIMS = 1, TENSOR_TYPE, TENSOR_NAME = 8, TENSOR_RAW };
enum { GRAPH_NODE = 1, GRAPH_NAME, GRAPH_INITIALIZER = 5, GRAPH_INPUT = 11, GRAPH_OUTPUT, GRAPH_VALUE };

/* What is so small stands where it is read, for those who look at a body alone. Bytes. */
enum { LOCAL_WEIGHT = 1024 };
enum { ENTRY_KEY = 1, ENTRY_VALUE };

/* Names of the values of one graph, by id; NULL: none yet. */
typedef struct scope {
    opf_save_message *m;
    const opf_graph *graph;
    const char **names;
    opf_text locals;    /* small weights of a body; declarations of results that other domains make */
    const char *prefix; /* of nodes, as the loader gives it to those of a body: it is not written */
} scope;

static opf_status write_nodes(scope *s, opf_text *out);

static opf_text new_text(const opf_save_message *m)
{
    opf_text text;
    opf_text_init(&text, m->arena);
    return text;
}

/* ---- names ---- */

static const char *unique(opf_save_message *m, const char *wanted)
{
    const char *name = wanted;
    for (uint32_t n = 2; name != NULL && opf_map_get(&m->taken, name, NULL); n++)
        name = opf_arena_printf(m->arena, "%s#%u", wanted, n);
    return name != NULL && opf_map_put(&m->taken, name, 0) ? name : NULL;
}

/* TensorProto with its data. */
static opf_status write_tensor(const opf_save_message *m, const opf_const *constant, const char *name, opf_text *out)
{
    const size_t bytes = opf_const_size(constant);
    void *data = opf_arena_alloc(m->arena, bytes);
    OPF_OOM_IF(m->error, data == NULL);
    opf_const_write(constant, data);
    opf_save_write_tensor_head(out, constant, name);
    opf_pb_bytes(out, TENSOR_RAW, data, bytes);
    return OPF_OK;
}

/* The name of the weight, which it gets when it is met for the first time; NULL when memory is out. */
static const char *weight_name(scope *s, const opf_const *constant, const char *wanted)
{
    opf_save_message *m = s->m;
    uint32_t *index = constant->id < m->n_ids ? &m->weight_of[constant->id] : NULL;
    if (index != NULL && *index != 0)
        return m->weights[*index - 1].name;
    const opf_save_weight weight = {constant, unique(m, wanted)};
    if (weight.name == NULL)
        return NULL;
    if (s->graph->parent != NULL && opf_const_size(constant) <= LOCAL_WEIGHT) {
        opf_text tensor = new_text(m);
        const bool is_written = write_tensor(m, constant, weight.name, &tensor) == OPF_OK;
        opf_pb_message(&s->locals, GRAPH_INITIALIZER, &tensor);
        return is_written ? weight.name : NULL;
    }
    if (!OPF_PUSH(m->arena, m->weights, m->n_weights, m->weights_capacity, weight))
        return NULL;
    if (index != NULL)
        *index = m->n_weights;
    return weight.name;
}

/* A weight that fusion made is called after its place at the node that reads it first. */
static const char *place_name(const scope *s, const opf_node *node, uint32_t input)
{
    const opf_value *value = opf_graph_value(s->graph, node->inputs[input]);
    const opf_op *op = node->op;
    if (opf_graph_find_value(s->m->loaded, value->name) != 0)
        return value->name;
    if (op == NULL || op->n_inputs == 0)
        return opf_arena_printf(s->m->arena, "%s/input_%u", node->name, input);
    const uint32_t last = op->n_inputs - 1;
    return opf_arena_printf(s->m->arena, "%s/%s", node->name, op->inputs[input < last ? input : last].name);
}

/* NULL when memory is out. Interface names were given before. */
static const char *value_name(scope *s, opf_value_id id)
{
    const opf_value *value = opf_graph_value(s->graph, id);
    if (id == 0)
        return "";
    if (s->names[id] == NULL)
        s->names[id] =
            value->constant != NULL ? weight_name(s, value->constant, value->name) : unique(s->m, value->name);
    return s->names[id];
}

static bool open_scope(scope *s, opf_save_message *m, const opf_graph *graph, const char *prefix)
{
    *s = (scope){m, graph, OPF_NEW(m->arena, const char *, graph->n_values), new_text(m), prefix};
    return s->names != NULL && prefix != NULL;
}

/* ---- values ---- */

void opf_save_write_tensor_head(opf_text *text, const opf_const *constant, const char *name)
{
    for (int32_t i = 0; i < constant->rank; i++)
        opf_pb_int(text, TENSOR_DIMS, constant->dims[i]);
    opf_pb_int(text, TENSOR_TYPE, (int64_t)constant->type);
    if (name[0] != '\0')
        opf_pb_string(text, TENSOR_NAME, name);
}

static void write_main_port(scope *s, uint32_t field, const opf_map *kept, opf_value_id id, opf_text *out)
{
    const opf_pb_span port = opf_keep_find(s->m->keep, kept, opf_graph_value(s->graph, id)->name);
    if (port.n != 0 && !s->m->is_resized && opf_save_port_is_complete(port)) {
        opf_pb_bytes(out, field, port.at, port.n);
        return;
    }
    opf_text anew = new_text(s->m);
    opf_save_write_port(s->graph, id, s->names[id], port, &anew);
    opf_pb_message(out, field, &anew);
}

/* ---- bodies ---- */

/* Formal inputs have names of their own; what is captured is called what it is called outside. */
static opf_status write_body(scope *outer, const opf_node *node, const opf_attr *attr, opf_text *out)
{
    opf_save_message *m = outer->m;
    const opf_graph *body = node->bodies[attr->i];
    const uint32_t own = body->n_inputs - node->n_captures, first = node->n_inputs - node->n_captures;
    scope s;
    OPF_OOM_IF(m->error, !open_scope(&s, m, body, opf_arena_printf(m->arena, "%s/%s/", node->name, attr->name)));
    for (uint32_t i = own; i < body->n_inputs; i++)
        s.names[body->inputs[i]] = value_name(outer, node->inputs[first + i - own]);
    opf_pb_string(out, GRAPH_NAME, body->name != NULL && body->name[0] != '\0' ? body->name : attr->name);
    for (uint32_t i = 0; i < own; i++) {
        opf_text port = new_text(m);
        OPF_OOM_IF(m->error, value_name(&s, body->inputs[i]) == NULL);
        opf_save_write_port(body, body->inputs[i], s.names[body->inputs[i]], (opf_pb_span){0}, &port);
        opf_pb_message(out, GRAPH_INPUT, &port);
    }
    OPF_TRY(write_nodes(&s, out));
    for (uint32_t o = 0; o < body->n_outputs; o++) {
        opf_text port = new_text(m);
        OPF_OOM_IF(m->error, value_name(&s, body->outputs[o]) == NULL);
        opf_save_write_port(body, body->outputs[o], s.names[body->outputs[o]], (opf_pb_span){0}, &port);
        opf_pb_message(out, GRAPH_OUTPUT, &port);
    }
    return OPF_OK;
}

/* ---- nodes ---- */

static opf_status write_attr(scope *s, const opf_node *node, const opf_attr *attr, opf_text *out)
{
    /* AttributeProto.type */
    static const uint8_t types[] = {
        [OPF_ATTR_FLOAT] = 1, [OPF_ATTR_INT] = 2,    [OPF_ATTR_STRING] = 3, [OPF_ATTR_TENSOR] = 4,
        [OPF_ATTR_GRAPH] = 5, [OPF_ATTR_FLOATS] = 6, [OPF_ATTR_INTS] = 7,   [OPF_ATTR_STRINGS] = 8};
    opf_text body = new_text(s->m);
    opf_pb_string(out, ATTRIBUTE_NAME, attr->name);
    opf_pb_int(out, ATTRIBUTE_TYPE, types[attr->type]);
    switch (attr->type) {
    case OPF_ATTR_NONE:
        break;
    case OPF_ATTR_INT:
        opf_pb_int(out, ATTRIBUTE_I, attr->i);
        break;
    case OPF_ATTR_FLOAT:
        opf_pb_float(out, ATTRIBUTE_F, attr->f);
        break;
    case OPF_ATTR_STRING:
        opf_pb_bytes(out, ATTRIBUTE_S, attr->s, attr->n);
        break;
    case OPF_ATTR_INTS:
        for (uint32_t i = 0; i < attr->n; i++)
            opf_pb_int(out, ATTRIBUTE_INTS, attr->ints[i]);
        break;
    case OPF_ATTR_FLOATS:
        for (uint32_t i = 0; i < attr->n; i++)
            opf_pb_float(out, ATTRIBUTE_FLOATS, attr->floats[i]);
        break;
    case OPF_ATTR_STRINGS:
        for (uint32_t i = 0; i < attr->n; i++)
            opf_pb_string(out, ATTRIBUTE_STRINGS, attr->strings[i]);
        break;
    case OPF_ATTR_TENSOR:
        OPF_TRY(write_tensor(s->m, attr->tensor, "", &body));
        opf_pb_message(out, ATTRIBUTE_T, &body);
        break;
    case OPF_ATTR_GRAPH:
        OPF_TRY(write_body(s, node, attr, &body));
        opf_pb_message(out, ATTRIBUTE_G, &body);
        break;
    }
    return OPF_OK;
}

/* The nodes of the first file that the node stands for, one a line. */
static opf_status write_origin(const opf_save_message *m, const opf_node *node, opf_text *out)
{
    opf_text lines = new_text(m), entry = new_text(m);
    opf_map seen;
    opf_map_init(&seen, m->arena);
    for (uint32_t i = 0; i < node->n_origin; i++) {
        const char *more = opf_keep_node_metadata(m->keep, node->origin[i], OPF_SAVE_ORIGIN);
        const char *at = more != NULL ? more : node->origin[i];
        while (*at != '\0') {
            const size_t n = strcspn(at, "\n");
            const char *name = opf_arena_copy_string(m->arena, at, n);
            OPF_OOM_IF(m->error, name == NULL);
            if (!opf_map_get(&seen, name, NULL)) {
                OPF_OOM_IF(m->error, !opf_map_put(&seen, name, 0));
                opf_text_add(&lines, "%s%s", lines.length != 0 ? "\n" : "", name);
            }
            at += n + (at[n] == '\n');
        }
    }
    if (lines.length == 0 || strcmp(lines.data, node->name) == 0)
        return OPF_OK;
    opf_pb_string(&entry, ENTRY_KEY, OPF_SAVE_ORIGIN);
    opf_pb_bytes(&entry, ENTRY_VALUE, lines.data, lines.length);
    opf_pb_message(out, NODE_METADATA, &entry);
    return OPF_OK;
}

/* Documentation and metadata of the node of that name, but for the origin. */
static void write_notes(const opf_save_message *m, const opf_node *node, opf_text *out)
{
    opf_pb_span kept = opf_keep_find(m->keep, &m->keep->nodes, node->name);
    opf_pb_field field;
    while (opf_pb_next(&kept, &field)) {
        opf_pb_field key = {0};
        opf_pb_span entry = field.bytes;
        if (field.number == NODE_METADATA)
            (void)opf_pb_next(&entry, &key);
        const bool is_origin =
            key.bytes.n == strlen(OPF_SAVE_ORIGIN) && memcmp(key.bytes.at, OPF_SAVE_ORIGIN, key.bytes.n) == 0;
        if (field.number == NODE_DOC || (field.number == NODE_METADATA && !is_origin))
            opf_text_add_bytes(out, (const char *)field.whole.at, field.whole.n);
    }
}

static uint32_t used_length(const opf_value_id *list, uint32_t n)
{
    while (n > 0 && list[n - 1] == 0)
        n--;
    return n;
}

/* What operators of other domains make, only their own runtime can tell. */
static void declare_results(scope *s, const opf_node *node)
{
    for (uint32_t o = 0; node->domain[0] != '\0' && o < node->n_outputs; o++) {
        const opf_value_id id = node->outputs[o];
        opf_text port = new_text(s->m);
        if (id == 0 || opf_graph_is_output(s->graph, id))
            continue;
        opf_save_write_port(s->graph, id, s->names[id], (opf_pb_span){0}, &port);
        opf_pb_message(&s->locals, GRAPH_VALUE, &port);
    }
}

static opf_status write_node(scope *s, const opf_node *node, opf_text *out)
{
    opf_save_message *m = s->m;
    const uint32_t n_in = used_length(node->inputs, node->n_own_inputs),
                   n_out = used_length(node->outputs, node->n_outputs);
    for (uint32_t i = 0; i < n_in; i++) {
        const opf_value *value = opf_graph_value(s->graph, node->inputs[i]);
        if (value->constant != NULL && s->names[node->inputs[i]] == NULL) {
            const char *name = place_name(s, node, i);
            s->names[node->inputs[i]] = name != NULL ? weight_name(s, value->constant, name) : NULL;
        }
    }
    for (uint32_t i = 0; i < n_in + n_out; i++) {
        const char *name = value_name(s, i < n_in ? node->inputs[i] : node->outputs[i - n_in]);
        OPF_OOM_IF(m->error, name == NULL);
        opf_pb_string(out, i < n_in ? NODE_INPUT : NODE_OUTPUT, name);
    }
    const size_t prefix = strlen(s->prefix);
    opf_pb_string(out, NODE_NAME, strncmp(node->name, s->prefix, prefix) == 0 ? node->name + prefix : node->name);
    opf_pb_string(out, NODE_OP_TYPE, node->op_type);
    for (uint32_t a = 0; a < node->n_attrs; a++) {
        opf_text attr = new_text(m);
        OPF_TRY(write_attr(s, node, &node->attrs[a], &attr));
        opf_pb_message(out, NODE_ATTRIBUTE, &attr);
    }
    if (node->domain[0] != '\0')
        opf_pb_string(out, NODE_DOMAIN, node->domain);
    m->has_microsoft = m->has_microsoft || strcmp(node->domain, "com.microsoft") == 0;
    m->n_nodes++;
    declare_results(s, node);
    write_notes(m, node, out);
    return write_origin(m, node, out);
}

static opf_status write_nodes(scope *s, opf_text *out)
{
    opf_node_id *order;
    uint32_t n;
    OPF_TRY(opf_graph_sort(s->graph, s->m->arena, &order, &n, s->m->error));
    for (uint32_t i = 0; i < n; i++) {
        opf_text node = new_text(s->m);
        OPF_TRY(write_node(s, opf_graph_node(s->graph, order[i]), &node));
        opf_pb_message(out, GRAPH_NODE, &node);
    }
    out->failed = out->failed || s->locals.failed;
    opf_text_add_bytes(out, s->locals.data, s->locals.length);
    return OPF_OK;
}

/* ---- the whole ---- */

/* Inputs and outputs keep their names: all others give way. */
static bool name_interface(scope *s)
{
    const opf_graph *graph = s->graph;
    for (uint32_t i = 0; i < graph->n_inputs + graph->n_outputs; i++) {
        const opf_value_id id = i < graph->n_inputs ? graph->inputs[i] : graph->outputs[i - graph->n_inputs];
        if (s->names[id] == NULL && (s->names[id] = unique(s->m, opf_graph_value(graph, id)->name)) == NULL)
            return false;
    }
    return true;
}

static bool list_defaults(const scope *s)
{
    opf_save_message *m = s->m;
    for (uint32_t i = 0; m->defaults != NULL && i < s->graph->n_inputs; i++) {
        const opf_save_weight weight = {m->defaults[i], s->names[s->graph->inputs[i]]};
        if (weight.constant != NULL && !OPF_PUSH(m->arena, m->weights, m->n_weights, m->weights_capacity, weight))
            return false;
    }
    return true;
}

opf_status opf_save_write_graph(opf_save_message *m, const opf_graph *graph)
{
    scope s;
    opf_map_init(&m->taken, m->arena);
    m->graph = new_text(m);
    m->n_ids = graph->consts->next_id;
    m->weight_of = OPF_NEW(m->arena, uint32_t, m->n_ids);
    OPF_OOM_IF(m->error,
               m->weight_of == NULL || !open_scope(&s, m, graph, "") || !name_interface(&s) || !list_defaults(&s));
    opf_text_add_bytes(&m->graph, m->keep->graph.data, m->keep->graph.length);
    if (!m->keep->has_graph_name)
        opf_pb_string(&m->graph, GRAPH_NAME, "graph");
    OPF_TRY(write_nodes(&s, &m->graph));
    for (uint32_t i = 0; i < graph->n_inputs; i++)
        write_main_port(&s, GRAPH_INPUT, &m->keep->inputs, graph->inputs[i], &m->graph);
    for (uint32_t o = 0; o < graph->n_outputs; o++)
        write_main_port(&s, GRAPH_OUTPUT, &m->keep->outputs, graph->outputs[o], &m->graph);
    OPF_OOM_IF(m->error, m->graph.failed);
    return OPF_OK;
}
