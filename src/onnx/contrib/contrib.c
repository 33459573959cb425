/* SPDX-License-Identifier: Apache-2.0 */
/* The table of operators, and taking one apart: its inputs and attributes, the new nodes, its outputs. */
#include "onnx/contrib/contrib.h"

#include "base/status.h"
#include "ops/infer.h"

#include <stdarg.h>
#include <stdio.h>

static const opf_contrib_op table[] = {
#define OPF_CONTRIB_OLD(domain, name, below, required, n_inputs)                                                       \
    {domain, #name, below, required, n_inputs, opf_decompose_##name},
#define OPF_CONTRIB(domain, name, required, n_inputs) OPF_CONTRIB_OLD(domain, name, 0, required, n_inputs)
#define OPF_CONTRIB_SAME(domain, name)                {domain, #name, 0, 0x1, UINT32_MAX, NULL},
#include "onnx/contrib/contrib.def"
#undef OPF_CONTRIB
#undef OPF_CONTRIB_OLD
#undef OPF_CONTRIB_SAME
};

const opf_contrib_op *opf_all_contrib(uint32_t *n)
{
    *n = OPF_COUNT(table);
    return table;
}

const opf_contrib_op *opf_contrib_find(const char *domain, const char *op_type, int64_t version)
{
    for (uint32_t i = 0; i < OPF_COUNT(table); i++)
        if (strcmp(table[i].name, op_type) == 0 && strcmp(table[i].domain, domain) == 0 &&
            (table[i].below == 0 || (version > 0 && version < table[i].below)))
            return &table[i];
    return NULL;
}

/* ---- what there is ---- */

void opf_contrib_fail(opf_contrib *c, opf_status status, const char *format, ...)
{
    char message[256];
    va_list arguments;
    if (opf_contrib_failed(c))
        return;
    va_start(arguments, format);
    (void)vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    c->status = opf_fail(c->error, status, "%s", message);
}

static void out_of_memory(opf_contrib *c)
{
    opf_contrib_fail(c, OPF_OUT_OF_MEMORY, "out of memory");
}

int32_t opf_contrib_rank(opf_contrib *c, opf_value_id value, const char *what)
{
    const int32_t rank = opf_contrib_info(c, value)->rank;
    if (rank < 0)
        opf_contrib_fail(c, OPF_UNSUPPORTED, "the rank of %s is not known", what);
    return opf_contrib_failed(c) ? 0 : rank;
}

opf_type opf_contrib_type(opf_contrib *c, opf_value_id value, const char *what)
{
    const opf_type type = opf_contrib_info(c, value)->type;
    if (type == OPF_TYPE_NONE)
        opf_contrib_fail(c, OPF_UNSUPPORTED, "the type of %s is not known", what);
    return type;
}

int64_t opf_contrib_dim(opf_contrib *c, opf_value_id value, int32_t axis, const char *what)
{
    const int32_t rank = opf_contrib_rank(c, value, what);
    axis += axis < 0 ? rank : 0;
    if (opf_contrib_failed(c))
        return 0;
    if (axis < 0 || axis >= rank)
        opf_contrib_fail(c, OPF_INVALID_MODEL, "%s has rank %d", what, (int)rank);
    else if (!opf_dim_is_number(opf_contrib_info(c, value)->dims[axis]))
        opf_contrib_fail(c, OPF_UNSUPPORTED, "dimension %d of %s is not known", (int)axis, what);
    return opf_contrib_failed(c) ? 0 : opf_contrib_info(c, value)->dims[axis].n;
}

static const opf_attr *typed_attr(opf_contrib *c, const char *name, opf_attr_type type)
{
    const opf_attr *attr = opf_attrs_find(c->attrs, c->n_attrs, name);
    if (attr != NULL && attr->type != type)
        opf_contrib_fail(c, OPF_INVALID_MODEL, "attribute %s has the wrong type", name);
    return opf_contrib_failed(c) ? NULL : attr;
}

int64_t opf_contrib_int(opf_contrib *c, const char *name, int64_t otherwise)
{
    const opf_attr *attr = typed_attr(c, name, OPF_ATTR_INT);
    return attr != NULL ? attr->i : otherwise;
}

float opf_contrib_float(opf_contrib *c, const char *name, float otherwise)
{
    const opf_attr *attr = typed_attr(c, name, OPF_ATTR_FLOAT);
    return attr != NULL ? attr->f : otherwise;
}

const char *opf_contrib_string(opf_contrib *c, const char *name, const char *otherwise)
{
    const opf_attr *attr = typed_attr(c, name, OPF_ATTR_STRING);
    return attr != NULL ? attr->s : otherwise;
}

void opf_contrib_demand_int(opf_contrib *c, const char *name, int64_t value)
{
    const int64_t i = opf_contrib_int(c, name, value);
    if (i != value)
        opf_contrib_fail(c, OPF_UNSUPPORTED, "%s = %lld is not supported", name, (long long)i);
}

opf_attr opf_contrib_attr(const opf_contrib *c, const char *name)
{
    const opf_attr *attr = opf_attrs_find(c->attrs, c->n_attrs, name);
    return attr != NULL ? *attr : (opf_attr){.type = OPF_ATTR_NONE};
}

/* ---- what is made ---- */

static opf_value_id add_constant(opf_contrib *c, const opf_const *constant)
{
    if (opf_contrib_failed(c))
        return 0;
    const opf_value_id value = constant == NULL ? 0 : opf_graph_add_constant(c->graph, c->name, constant);
    if (value == 0)
        out_of_memory(c);
    return value;
}

opf_value_id opf_contrib_ints(opf_contrib *c, uint32_t n, const int64_t *ints)
{
    return add_constant(c, opf_const_ints(c->graph->consts, ints, n));
}

opf_value_id opf_contrib_number(opf_contrib *c, opf_type type, double x)
{
    if (!opf_types_have(OPF_TYPES_FLOAT, type))
        opf_contrib_fail(c, OPF_UNSUPPORTED, "type %s is not supported", opf_type_name(type));
    return opf_contrib_failed(c) ? 0 : add_constant(c, opf_const_float(c->graph->consts, type, x));
}

opf_value_id opf_contrib_integer(opf_contrib *c, opf_type type, int64_t x)
{
    int64_t *element = OPF_NEW(c->graph->arena, int64_t, 1);
    if (element == NULL)
        return add_constant(c, NULL);
    opf_store_i64(type, element, 0, x);
    return add_constant(c, opf_const_bytes(c->graph->consts, type, 0, NULL, element, opf_type_size(type)));
}

static void add_node(opf_contrib *c, const opf_op *op, uint32_t n_inputs, const opf_value_id *inputs, uint32_t n_attrs,
                     const opf_attr *attrs, uint32_t n_outputs, opf_value_id *outputs)
{
    const char *name = opf_arena_printf(c->graph->arena, "%s/%s", c->name, op->name);
    bool ok = name != NULL;
    while (n_inputs != 0 && inputs[n_inputs - 1] == 0)
        n_inputs--;
    for (uint32_t o = 0; ok && o < n_outputs; o++) {
        outputs[o] = opf_graph_add_value(c->graph, name);
        ok = outputs[o] != 0;
    }
    const opf_node_id id =
        ok ? opf_graph_add_node(c->graph, op, op->name, name, inputs, n_inputs, outputs, n_outputs) : 0;
    ok = id != 0 && opf_node_join_origin(c->graph, id, c->node);
    for (uint32_t a = 0; ok && a < n_attrs; a++)
        ok = attrs[a].type == OPF_ATTR_NONE || opf_node_set_attr(c->graph, id, attrs[a]);
    /* Shapes that do not fit are no error here, as for all that is lifted: they are judged when it counts. */
    if (!ok || opf_infer_update(c->graph, id, NULL) == OPF_OUT_OF_MEMORY)
        out_of_memory(c);
}

void opf_contrib_add_many(opf_contrib *c, const opf_op *op, uint32_t n_inputs, const opf_value_id *inputs,
                          uint32_t n_attrs, const opf_attr *attrs, uint32_t n_outputs, opf_value_id *outputs)
{
    if (!opf_contrib_failed(c))
        add_node(c, op, n_inputs, inputs, n_attrs, attrs, n_outputs, outputs);
    for (uint32_t o = 0; opf_contrib_failed(c) && o < n_outputs; o++)
        outputs[o] = 0;
}

opf_value_id opf_contrib_add(opf_contrib *c, const opf_op *op, uint32_t n_inputs, const opf_value_id *inputs,
                             uint32_t n_attrs, const opf_attr *attrs)
{
    opf_value_id result;
    opf_contrib_add_many(c, op, n_inputs, inputs, n_attrs, attrs, 1, &result);
    return result;
}

void opf_contrib_bind(opf_contrib *c, uint32_t o, opf_value_id value)
{
    if (opf_contrib_failed(c) || !opf_contrib_wants(c, o))
        return;
    const opf_value_id output = c->outputs[o];
    bool is_own = opf_graph_value(c->graph, value)->producer >= c->first_new;
    for (uint32_t i = 0; i < c->n_outputs; i++)
        is_own = is_own && c->outputs[i] != value;
    if (!is_own)
        value = OPF_APPLY(c, Identity, value);
    if (opf_contrib_failed(c))
        return;
    const opf_value from = *opf_graph_value(c->graph, value);
    opf_graph_value(c->graph, output)->info = from.info;
    if (!opf_graph_replace_uses(c->graph, value, output) ||
        !opf_graph_set_output(c->graph, from.producer, from.producer_output, output))
        out_of_memory(c);
}

/* ---- the whole ---- */

static void check_inputs(opf_contrib *c, const opf_contrib_op *op)
{
    for (uint32_t i = 0; i < 32; i++)
        if ((op->required >> i & 1) != 0 && opf_contrib_in(c, i) == 0)
            opf_contrib_fail(c, OPF_INVALID_MODEL, "input %u is missing", i);
    for (uint32_t i = op->n_inputs; i < c->n_inputs; i++)
        if (c->inputs[i] != 0)
            opf_contrib_fail(c, OPF_UNSUPPORTED, "input %u is not supported", i);
}

static void remove_original(opf_contrib *c)
{
    for (uint32_t o = 0; o < c->n_outputs; o++) {
        const opf_value *output = opf_graph_value(c->graph, c->outputs[o]);
        if (c->outputs[o] != 0 && output->producer == c->node && output->n_uses != 0)
            opf_contrib_fail(c, OPF_UNSUPPORTED, "output %u (%s) is not supported", o, output->name);
    }
    if (!opf_contrib_failed(c))
        opf_graph_remove_node(c->graph, c->node);
}

opf_status opf_contrib_lift(const opf_contrib_op *op, opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    opf_node *node = opf_graph_node(graph, id);
    opf_contrib c = {.graph = graph,
                     .node = id,
                     .first_new = graph->n_nodes,
                     .name = node->name,
                     .inputs = node->inputs,
                     .n_inputs = node->n_own_inputs,
                     .outputs = opf_arena_copy(graph->arena, node->outputs, node->n_outputs * sizeof *node->outputs),
                     .n_outputs = node->n_outputs,
                     .attrs = node->attrs,
                     .n_attrs = node->n_attrs,
                     .opset = opset,
                     .error = error};
    OPF_OOM_IF(error, c.outputs == NULL);
    check_inputs(&c, op);
    if (op->decompose == NULL) {
        node->op = opf_find_operator("", op->name);
        node->domain = "";
        return c.status;
    }
    if (!opf_contrib_failed(&c))
        op->decompose(&c);
    remove_original(&c);
    return c.status;
}
