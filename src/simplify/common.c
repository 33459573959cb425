/* SPDX-License-Identifier: Apache-2.0 */
/* Common subexpressions and equal constants, by hashing; the first in topological order stays. */
#include "simplify/passes.h"

#include <string.h>

/* A constant is hashed by its middle: those that differ seldom agree there, a comparison soon finds where they do not, and the pages of a
   weight stay unread. */
enum { HASHED_WHOLE = 1024, PIECE = 256 };

/* ---- a set of ids, open addressing ---- */

typedef struct id_set {
    const opf_graph *graph;
    uint32_t *ids; /* 0: free */
    uint32_t mask;
    bool (*equal)(const opf_graph *graph, uint32_t a, uint32_t b);
} id_set;

static bool id_set_init(id_set *set, opf_arena *scratch, uint32_t n)
{
    size_t capacity = 16;
    while (capacity < (size_t)n * 2)
        capacity *= 2;
    if (capacity > UINT32_MAX / 2)
        return false;
    set->ids = OPF_NEW(scratch, uint32_t, capacity);
    set->mask = (uint32_t)capacity - 1;
    return set->ids != NULL;
}

/* The id that is equal to this one and came earlier; the id itself, now remembered, if there is none. */
static uint32_t id_set_find(id_set *set, uint32_t id, uint32_t hash)
{
    for (uint32_t i = hash & set->mask;; i = (i + 1) & set->mask) {
        if (set->ids[i] == 0)
            set->ids[i] = id;
        if (set->ids[i] == id || set->equal(set->graph, set->ids[i], id))
            return set->ids[i];
    }
}

static uint32_t mix(uint32_t hash, uint32_t word)
{
    return opf_hash_bytes(&word, sizeof word, hash);
}

/* ---- constants ---- */

/* Whose elements these are, in their order. */
static const opf_const *content_of(const opf_const *c)
{
    while (c->kind == OPF_CONST_RESHAPE && c->args[0]->type == c->type)
        c = c->args[0];
    return c;
}

static bool is_comparable(const opf_const *c)
{
    c = content_of(c);
    return (c->kind == OPF_CONST_BYTES || c->kind == OPF_CONST_SPLAT) && c->type != OPF_STRING;
}

static bool same_constant(const opf_const *a, const opf_const *b)
{
    const opf_const *x = content_of(a), *y = content_of(b);
    if (a == b)
        return true;
    if (a->type != b->type || a->rank != b->rank || a->count != b->count || x->kind != y->kind ||
        x->bytes != y->bytes || !is_comparable(a))
        return false;
    for (int32_t i = 0; i < a->rank; i++)
        if (a->dims[i] != b->dims[i])
            return false;
    return x->bytes == 0 || x->data == y->data || memcmp(x->data, y->data, x->bytes) == 0;
}

static uint32_t hash_constant(const opf_const *c)
{
    uint32_t hash = opf_hash_bytes(c->dims, (size_t)c->rank * sizeof *c->dims, (uint32_t)c->type);
    c = content_of(c);
    return c->bytes <= HASHED_WHOLE ? opf_hash_bytes(c->data, c->bytes, hash) : opf_hash_bytes((const char *)c->data + c->bytes / 2, PIECE, hash);
}

static bool same_constant_value(const opf_graph *graph, uint32_t a, uint32_t b)
{
    return same_constant(opf_graph_value(graph, a)->constant, opf_graph_value(graph, b)->constant);
}

static opf_status merge_constants(opf_graph *graph, opf_arena *scratch, bool *changed, opf_error *error)
{
    id_set set = {.graph = graph, .equal = same_constant_value};
    OPF_OOM_IF(error, !id_set_init(&set, scratch, graph->n_values));
    for (opf_value_id id = 1; id < graph->n_values; id++) {
        const opf_value *value = opf_graph_value(graph, id);
        const opf_const *c = value->constant;
        if (c == NULL || value->is_input || value->n_uses == 0 || !is_comparable(c) || opf_graph_is_output(graph, id))
            continue;
        const opf_value_id kept = id_set_find(&set, id, hash_constant(c));
        if (kept == id)
            continue;
        OPF_OOM_IF(error, !opf_graph_replace_uses(graph, id, kept));
        *changed = true;
    }
    return OPF_OK;
}

/* ---- nodes ---- */

static bool same_attr(const opf_attr *a, const opf_attr *b)
{
    if (a->type != b->type || a->n != b->n)
        return false;
    switch (a->type) {
    case OPF_ATTR_NONE:
        return true;
    case OPF_ATTR_INT:
        return a->i == b->i;
    case OPF_ATTR_FLOAT:
        return memcmp(&a->f, &b->f, sizeof a->f) == 0;
    case OPF_ATTR_STRING:
        return a->n == 0 || memcmp(a->s, b->s, a->n) == 0;
    case OPF_ATTR_INTS:
        return a->n == 0 || memcmp(a->ints, b->ints, a->n * sizeof *a->ints) == 0;
    case OPF_ATTR_FLOATS:
        return a->n == 0 || memcmp(a->floats, b->floats, a->n * sizeof *a->floats) == 0;
    case OPF_ATTR_TENSOR:
        return a->tensor != NULL && b->tensor != NULL && same_constant(a->tensor, b->tensor);
    case OPF_ATTR_STRINGS:
    case OPF_ATTR_GRAPH:
        return false;
    }
    return false;
}

static bool is_swapped(const opf_node *node)
{
    return (node->op->traits & OPF_COMMUTATIVE) != 0 && node->n_own_inputs >= 2 && node->inputs[0] > node->inputs[1];
}

/* Input i of the node, with the first two of a commutative operator in order of their ids. */
static opf_value_id ordered_input(const opf_node *node, uint32_t i)
{
    return node->inputs[i < 2 && is_swapped(node) ? 1 - i : i];
}

static bool same_node(const opf_graph *graph, uint32_t a_id, uint32_t b_id)
{
    const opf_node *a = opf_graph_node(graph, a_id), *b = opf_graph_node(graph, b_id);
    if (a->op != b->op || a->n_inputs != b->n_inputs || a->n_outputs != b->n_outputs || a->n_attrs != b->n_attrs)
        return false;
    for (uint32_t i = 0; i < a->n_inputs; i++)
        if (ordered_input(a, i) != ordered_input(b, i))
            return false;
    for (uint32_t o = 0; o < a->n_outputs; o++)
        if ((a->outputs[o] == 0) != (b->outputs[o] == 0))
            return false;
    for (uint32_t i = 0; i < a->n_attrs; i++) {
        const opf_attr *attr = opf_node_attr(b, a->attrs[i].name);
        if (attr == NULL || !same_attr(&a->attrs[i], attr))
            return false;
    }
    return true;
}

static uint32_t hash_node(const opf_node *node)
{
    uint32_t hash = opf_hash_bytes(node->op_type, strlen(node->op_type), node->n_outputs);
    for (uint32_t i = 0; i < node->n_inputs; i++)
        hash = mix(hash, ordered_input(node, i));
    uint32_t attrs = 0; /* a sum: their order means nothing */
    for (uint32_t i = 0; i < node->n_attrs; i++) {
        const opf_attr *attr = &node->attrs[i];
        uint32_t h = opf_hash_bytes(attr->name, strlen(attr->name), attr->n);
        if (attr->type == OPF_ATTR_INTS && attr->n != 0)
            h = opf_hash_bytes(attr->ints, attr->n * sizeof *attr->ints, h);
        attrs += mix(h, (uint32_t)attr->i);
    }
    return mix(hash, attrs);
}

/* A second output of the graph stays a value of its own: a copy of the first. */
static bool copy_result(opf_graph *graph, opf_value_id from, opf_value_id to, const opf_node *gone)
{
    const opf_node_id copy =
        opf_graph_add_node(graph, &opf_op_Identity, opf_op_Identity.name, gone->name, &to, 1, &from, 1);
    for (uint32_t i = 0; copy != 0 && i < gone->n_origin; i++)
        if (!opf_node_add_origin(graph, copy, gone->origin[i]))
            return false;
    return copy != 0;
}

/* Work is done once; what only moves data, or is one more copy, gains nothing by that where both are outputs. */
static bool may_merge(const opf_graph *graph, const opf_node *kept, const opf_node *node)
{
    bool gains = (node->op->traits & OPF_MOVEMENT) == 0 && node->op != &opf_op_Identity;
    for (uint32_t o = 0; o < node->n_outputs; o++)
        gains =
            gains || (node->outputs[o] != 0 && opf_graph_value(graph, node->outputs[o])->n_uses > 0 &&
                      !(opf_graph_is_output(graph, node->outputs[o]) && opf_graph_is_output(graph, kept->outputs[o])));
    return gains;
}

static opf_status merge_node(opf_graph *graph, opf_node_id kept, opf_node_id id, bool *changed, opf_error *error)
{
    if (!may_merge(graph, opf_graph_node(graph, kept), opf_graph_node(graph, id)))
        return OPF_OK;
    const opf_node gone = *opf_graph_node(graph, id);
    OPF_OOM_IF(error, !opf_node_join_origin(graph, kept, id));
    opf_graph_remove_node(graph, id);
    for (uint32_t o = 0; o < gone.n_outputs; o++) {
        const opf_value_id from = gone.outputs[o], to = opf_graph_node(graph, kept)->outputs[o];
        const bool both = from != 0 && opf_graph_is_output(graph, from) && opf_graph_is_output(graph, to);
        OPF_OOM_IF(error,
                   both ? !copy_result(graph, from, to, &gone) : from != 0 && !opf_graph_replace_uses(graph, from, to));
    }
    *changed = true;
    return OPF_OK;
}

static opf_status merge_nodes(opf_graph *graph, opf_arena *scratch, bool *changed, opf_error *error)
{
    opf_node_id *order = NULL;
    uint32_t n = 0;
    id_set set = {.graph = graph, .equal = same_node};
    OPF_TRY(opf_graph_sort(graph, scratch, &order, &n, error));
    OPF_OOM_IF(error, !id_set_init(&set, scratch, n));
    for (uint32_t i = 0; i < n; i++) {
        const opf_node *node = opf_graph_node(graph, order[i]);
        if (!opf_simplify_is_plain(node) || (node->op->traits & OPF_RANDOM) != 0)
            continue;
        const opf_node_id kept = id_set_find(&set, order[i], hash_node(node));
        if (kept != order[i])
            OPF_TRY(merge_node(graph, kept, order[i], changed, error));
    }
    return OPF_OK;
}

opf_status opf_merge_common(opf_graph *graph, bool *changed, opf_error *error)
{
    opf_arena scratch;
    opf_arena_init(&scratch, graph->arena->heap);
    opf_status status = merge_constants(graph, &scratch, changed, error);
    if (status == OPF_OK)
        status = merge_nodes(graph, &scratch, changed, error);
    opf_arena_fini(&scratch);
    return status;
}
