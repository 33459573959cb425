/* SPDX-License-Identifier: Apache-2.0 */
#include "base/status.h"
#include "onnx/build.h"
#include "onnx/inline.h"

#include <string.h>

static const char *type_name(int32_t type)
{
    static const char *const names[] = {"none",    "float",         "int",        "string",         "tensor",  "graph",      "floats",     "ints",
                                        "strings", "tensors",       "graphs",     "sparse tensor",  "sparse tensors", "type", "types"};
    return type >= 0 && (size_t)type < sizeof names / sizeof *names ? names[type] : "unknown";
}

static opf_status convert_strings(opf_builder *b, const wire_attr *from, opf_attr *to)
{
    const char **list = OPF_NEW(b->tensors.arena, const char *, from->strings.n);
    OPF_OOM_IF(b->error, list == NULL);
    for (uint32_t i = 0; i < from->strings.n; i++)
        list[i] = from->strings.list[i].data;
    to->type    = OPF_ATTR_STRINGS;
    to->n       = from->strings.n;
    to->strings = list;
    return OPF_OK;
}

static opf_status convert(opf_builder *b, const wire_attr *from, opf_attr *to)
{
    *to = (opf_attr){.name = from->name};
    switch (from->type) {
    case WIRE_FLOAT:
        to->type = OPF_ATTR_FLOAT;
        to->f    = from->f;
        return OPF_OK;
    case WIRE_INT:
        to->type = OPF_ATTR_INT;
        to->i    = from->i;
        return OPF_OK;
    case WIRE_STRING:
        to->type = OPF_ATTR_STRING;
        to->s    = from->s.data;
        to->n    = (uint32_t)from->s.size; /* nanopb reads no field beyond 4 GiB */
        return OPF_OK;
    case WIRE_FLOATS:
        to->type   = OPF_ATTR_FLOATS;
        to->floats = from->floats.list;
        to->n      = from->floats.n;
        return OPF_OK;
    case WIRE_INTS:
        to->type = OPF_ATTR_INTS;
        to->ints = from->ints.list;
        to->n    = from->ints.n;
        return OPF_OK;
    case WIRE_STRINGS:
        return convert_strings(b, from, to);
    case WIRE_TENSOR:
        OPF_FAIL_IF(b->error, from->t == NULL, OPF_INVALID_MODEL, "the tensor is missing");
        to->type = OPF_ATTR_TENSOR;
        return opf_tensor_constant(&b->tensors, from->t, &to->tensor, b->error);
    case WIRE_GRAPH:
        OPF_FAIL_IF(b->error, from->g == NULL, OPF_INVALID_MODEL, "the graph is missing");
        to->type = OPF_ATTR_GRAPH;
        return OPF_OK;
    default:
        return opf_fail(b->error, OPF_UNSUPPORTED, "attributes of type %s are not supported", type_name(from->type));
    }
}

static opf_status check_name(const wire_attrs *attrs, uint32_t i, opf_error *error)
{
    const wire_attr *attr = &attrs->list[i];
    OPF_FAIL_IF(error, attr->name[0] == '\0', OPF_INVALID_MODEL, "an attribute has no name");
    OPF_FAIL_IF(error, attr->ref[0] != '\0', OPF_INVALID_MODEL, "the reference to %s stands outside a function", attr->ref);
    for (uint32_t k = 0; k < i; k++)
        OPF_FAIL_IF(error, strcmp(attrs->list[k].name, attr->name) == 0, OPF_INVALID_MODEL, "given twice");
    return OPF_OK;
}

opf_status opf_build_attrs(opf_builder *b, const wire_node *from, opf_node *node, const wire_attr **graphs, uint32_t *n_graphs)
{
    enum { MAX_ATTRS = 1000 }; /* each is compared with all before it */
    OPF_FAIL_IF(b->error, from->attrs.n > MAX_ATTRS, OPF_INVALID_MODEL, "node %s (%s) has %u attributes", node->name, node->op_type,
                from->attrs.n);
    node->attrs = OPF_NEW(b->tensors.arena, opf_attr, from->attrs.n);
    OPF_OOM_IF(b->error, node->attrs == NULL);
    node->n_attrs = from->attrs.n;
    for (uint32_t i = 0; i < from->attrs.n; i++) {
        const wire_attr *attr   = &from->attrs.list[i];
        opf_status       status = check_name(&from->attrs, i, b->error);
        if (status == OPF_OK)
            status = convert(b, attr, &node->attrs[i]);
        if (status != OPF_OK) {
            opf_error_prefix(b->error, "node %s (%s), attribute %s: ", node->name, node->op_type, attr->name);
            return status;
        }
        if (attr->type == WIRE_GRAPH) {
            node->attrs[i].i       = (int64_t)*n_graphs;
            graphs[(*n_graphs)++] = attr;
        }
    }
    return OPF_OK;
}

/* ---- Constant ---- */

static opf_status constant_value(opf_builder *b, const wire_attr *attr, const opf_const **constant)
{
    opf_const_pool *pool = b->tensors.consts;
    if (strcmp(attr->name, "value") == 0 && attr->t != NULL)
        return opf_tensor_constant(&b->tensors, attr->t, constant, b->error);
    int64_t n = 0;
    if (strcmp(attr->name, "value_float") == 0) {
        *constant = opf_const_float(pool, OPF_FLOAT, (double)attr->f);
    } else if (strcmp(attr->name, "value_floats") == 0) {
        n         = attr->floats.n;
        *constant = opf_const_bytes(pool, OPF_FLOAT, 1, &n, attr->floats.list, attr->floats.n * sizeof(float));
    } else if (strcmp(attr->name, "value_int") == 0) {
        *constant = opf_const_bytes(pool, OPF_INT64, 0, &n, opf_arena_copy(b->tensors.arena, &attr->i, sizeof attr->i), sizeof attr->i);
        OPF_OOM_IF(b->error, *constant != NULL && (*constant)->data == NULL);
    } else if (strcmp(attr->name, "value_ints") == 0) {
        n         = attr->ints.n;
        *constant = opf_const_bytes(pool, OPF_INT64, 1, &n, attr->ints.list, attr->ints.n * sizeof(int64_t));
    } else {
        return opf_fail(b->error, OPF_UNSUPPORTED, "a Constant with attribute %s is not supported", attr->name);
    }
    OPF_OOM_IF(b->error, *constant == NULL);
    return OPF_OK;
}

opf_status opf_build_constant(opf_builder *b, const wire_node *node, const opf_const **constant)
{
    opf_status status;
    if (node->attrs.n != 1 || node->inputs.n != 0)
        status = opf_fail(b->error, OPF_INVALID_MODEL, "%u attributes and %u inputs, must be 1 and 0", node->attrs.n, node->inputs.n);
    else if (node->attrs.list[0].ref[0] != '\0')
        status = opf_fail(b->error, OPF_INVALID_MODEL, "the reference to %s stands outside a function", node->attrs.list[0].ref);
    else
        status = constant_value(b, &node->attrs.list[0], constant);
    if (status != OPF_OK)
        opf_error_prefix(b->error, "node %s (Constant): ", opf_wire_label(node));
    return status;
}
