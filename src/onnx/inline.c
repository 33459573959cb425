/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A call is replaced by a copy of the function's nodes: formal names become actual ones, interior names get the call's
 * name in front (and a number where that is taken), references to attributes become the call's attributes or the
 * function's defaults. Copies are expanded in turn; the chain of calls in progress tells recursion.
 */
#include "onnx/inline.h"

#include "base/map.h"
#include "base/status.h"

#include <string.h>

/* A call in progress. */
typedef struct call {
    const wire_function *function;
    const struct call   *caller;
    int64_t              depth;
} call;

typedef struct inliner {
    opf_arena        *arena;
    const opf_limits *limits;
    const wire_model *model;
    opf_map           functions; /* key of a function to its index */
    opf_map           names;     /* every value's name, so that new ones are new */
    opf_map           prefixes;  /* labels of calls, with how many calls had them */
    int64_t           nodes;
    opf_error        *error;
} inliner;

/* One copy in the making. */
typedef struct copier {
    inliner             *in;
    const wire_function *function;
    const wire_node     *call;
    const char          *prefix;
    opf_map              map; /* names of the function to numbers in actual */
    wire_strings         actual;
} copier;

const char *opf_wire_label(const wire_node *node)
{
    if (node->name[0] != '\0')
        return node->name;
    for (uint32_t i = 0; i < node->outputs.n; i++)
        if (node->outputs.list[i][0] != '\0')
            return node->outputs.list[i];
    return node->op_type;
}

/* ---- names ---- */

static const char *make_key(opf_arena *arena, const char *domain, const char *name, const char *overload)
{
    return opf_arena_printf(arena, "%s\n%s\n%s", domain, name, overload);
}

static opf_status note_names(inliner *in, const wire_graph *graph)
{
    bool ok = true;
    for (uint32_t i = 0; i < graph->initializers.n; i++)
        ok = ok && opf_map_put(&in->names, graph->initializers.list[i].name, 0);
    for (uint32_t i = 0; i < graph->inputs.n; i++)
        ok = ok && opf_map_put(&in->names, graph->inputs.list[i].name, 0);
    for (uint32_t i = 0; i < graph->nodes.n; i++) {
        const wire_node *node = &graph->nodes.list[i];
        for (uint32_t o = 0; o < node->outputs.n; o++)
            ok = ok && opf_map_put(&in->names, node->outputs.list[o], 0);
        for (uint32_t a = 0; a < node->attrs.n; a++)
            if (node->attrs.list[a].g != NULL)
                OPF_TRY(note_names(in, node->attrs.list[a].g));
    }
    OPF_OOM_IF(in->error, !ok);
    return OPF_OK;
}

static bool bind_name(copier *c, const char *formal, const char *actual)
{
    return OPF_PUSH(c->in->arena, c->actual.list, c->actual.n, c->actual.capacity, actual) &&
           opf_map_put(&c->map, formal, c->actual.n - 1);
}

/* The name that a name of the function has in the copy; NULL when memory is out. */
static const char *rename_value(copier *c, const char *name)
{
    uint32_t index;
    if (name[0] == '\0')
        return name;
    if (opf_map_get(&c->map, name, &index))
        return c->actual.list[index];
    inliner    *in    = c->in;
    const char *fresh = opf_arena_printf(in->arena, "%s/%s", c->prefix, name);
    for (unsigned k = 2; fresh != NULL && opf_map_get(&in->names, fresh, NULL); k++)
        fresh = opf_arena_printf(in->arena, "%s/%s#%u", c->prefix, name, k);
    if (fresh == NULL || !opf_map_put(&in->names, fresh, 0) || !bind_name(c, name, fresh))
        return NULL;
    return fresh;
}

static opf_status rename_list(copier *c, const wire_strings *from, wire_strings *to)
{
    *to = (wire_strings){.list = OPF_NEW(c->in->arena, const char *, from->n), .n = from->n, .capacity = from->n};
    OPF_OOM_IF(c->in->error, to->list == NULL);
    for (uint32_t i = 0; i < from->n; i++) {
        to->list[i] = rename_value(c, from->list[i]);
        OPF_OOM_IF(c->in->error, to->list[i] == NULL);
    }
    return OPF_OK;
}

/* ---- copying ---- */

static opf_status copy_node(copier *c, const wire_node *from, wire_node *to);

static opf_status copy_graph(copier *c, const wire_graph *from, wire_graph **result)
{
    opf_arena  *arena = c->in->arena;
    opf_error  *error = c->in->error;
    wire_graph *to    = opf_arena_copy(arena, from, sizeof *from);
    OPF_OOM_IF(error, to == NULL);
    to->nodes.list        = OPF_NEW(arena, wire_node, from->nodes.n);
    to->nodes.capacity    = from->nodes.n;
    to->initializers.list = opf_arena_copy(arena, from->initializers.list, from->initializers.n * sizeof *from->initializers.list);
    to->inputs.list       = opf_arena_copy(arena, from->inputs.list, from->inputs.n * sizeof *from->inputs.list);
    to->outputs.list      = opf_arena_copy(arena, from->outputs.list, from->outputs.n * sizeof *from->outputs.list);
    OPF_OOM_IF(error, to->nodes.list == NULL || to->initializers.list == NULL || to->inputs.list == NULL || to->outputs.list == NULL);
    bool ok = true;
    for (uint32_t i = 0; ok && i < to->initializers.n; i++)
        ok = (to->initializers.list[i].name = rename_value(c, to->initializers.list[i].name)) != NULL;
    for (uint32_t i = 0; ok && i < to->inputs.n; i++)
        ok = (to->inputs.list[i].name = rename_value(c, to->inputs.list[i].name)) != NULL;
    for (uint32_t i = 0; ok && i < to->outputs.n; i++)
        ok = (to->outputs.list[i].name = rename_value(c, to->outputs.list[i].name)) != NULL;
    OPF_OOM_IF(error, !ok);
    for (uint32_t i = 0; i < from->nodes.n; i++)
        OPF_TRY(copy_node(c, &from->nodes.list[i], &to->nodes.list[i]));
    *result = to;
    return OPF_OK;
}

static const wire_attr *find_attr(const wire_attrs *attrs, const char *name)
{
    for (uint32_t i = 0; i < attrs->n; i++)
        if (strcmp(attrs->list[i].name, name) == 0)
            return &attrs->list[i];
    return NULL;
}

static opf_status copy_attrs(copier *c, const wire_attrs *from, wire_attrs *to)
{
    opf_arena *arena = c->in->arena;
    *to              = (wire_attrs){0};
    for (uint32_t i = 0; i < from->n; i++) {
        wire_attr attr = from->list[i];
        if (attr.ref[0] != '\0') {
            const wire_attr *value = find_attr(&c->call->attrs, attr.ref);
            if (value == NULL)
                value = find_attr(&c->function->defaults, attr.ref);
            if (value == NULL)
                continue; /* not given: the node's own default holds */
            const char *name = attr.name;
            attr             = *value;
            attr.name        = name;
        } else if (attr.g != NULL) {
            OPF_TRY(copy_graph(c, attr.g, &attr.g));
        }
        OPF_OOM_IF(c->in->error, !OPF_PUSH(arena, to->list, to->n, to->capacity, attr));
    }
    return OPF_OK;
}

static opf_status copy_node(copier *c, const wire_node *from, wire_node *to)
{
    inliner *in = c->in;
    OPF_FAIL_IF(in->error, ++in->nodes > in->limits->nodes, OPF_LIMIT, "inlined functions make more than %lld nodes (limit nodes)",
                (long long)in->limits->nodes);
    *to = *from;
    if (from->name[0] != '\0') {
        to->name = opf_arena_printf(in->arena, "%s/%s", c->prefix, from->name);
        OPF_OOM_IF(in->error, to->name == NULL);
    }
    to->opsets = c->function->opsets.n != 0 ? &c->function->opsets : &in->model->opsets;
    OPF_TRY(rename_list(c, &from->inputs, &to->inputs));
    OPF_TRY(rename_list(c, &from->outputs, &to->outputs));
    return copy_attrs(c, &from->attrs, &to->attrs);
}

/* ---- calls ---- */

/* The label of a call, with a number from its second use on. */
static opf_status make_prefix(inliner *in, const wire_node *node, const char **prefix)
{
    const char *label = opf_wire_label(node);
    uint32_t    uses  = 0;
    (void)opf_map_get(&in->prefixes, label, &uses);
    *prefix = uses == 0 ? label : opf_arena_printf(in->arena, "%s#%u", label, uses + 1);
    OPF_OOM_IF(in->error, *prefix == NULL || !opf_map_put(&in->prefixes, label, uses + 1));
    return OPF_OK;
}

static opf_status expand_nodes(inliner *in, wire_nodes *nodes, const wire_opsets *opsets, const call *caller);

static opf_status bind_inputs(copier *c)
{
    const wire_function *f = c->function;
    opf_error           *error = c->in->error;
    OPF_FAIL_IF(error, c->call->inputs.n > f->inputs.n, OPF_INVALID_MODEL, "%s: %u inputs, function %s has %u", opf_wire_label(c->call),
                c->call->inputs.n, f->name, f->inputs.n);
    OPF_FAIL_IF(error, c->call->outputs.n > f->outputs.n, OPF_INVALID_MODEL, "%s: %u outputs, function %s has %u",
                opf_wire_label(c->call), c->call->outputs.n, f->name, f->outputs.n);
    for (uint32_t i = 0; i < f->inputs.n; i++)
        OPF_OOM_IF(error, !bind_name(c, f->inputs.list[i], i < c->call->inputs.n ? c->call->inputs.list[i] : ""));
    return OPF_OK;
}

/* A formal output that already has a name (an input passed through, or an output listed twice) is copied by Identity. */
static opf_status bind_outputs(copier *c, wire_nodes *result)
{
    const wire_function *f     = c->function;
    opf_error           *error = c->in->error;
    opf_arena           *arena = c->in->arena;
    for (uint32_t i = 0; i < c->call->outputs.n; i++) {
        const char *actual = c->call->outputs.list[i], *formal = f->outputs.list[i];
        uint32_t    index;
        if (actual[0] == '\0')
            continue;
        if (!opf_map_get(&c->map, formal, &index)) {
            OPF_OOM_IF(error, !bind_name(c, formal, actual));
            continue;
        }
        wire_node identity = {.name = "", .op_type = "Identity", .domain = "", .overload = "", .opsets = &c->in->model->opsets};
        if (f->opsets.n != 0)
            identity.opsets = &f->opsets;
        OPF_OOM_IF(error, !OPF_PUSH(arena, identity.inputs.list, identity.inputs.n, identity.inputs.capacity, c->actual.list[index]) ||
                              !OPF_PUSH(arena, identity.outputs.list, identity.outputs.n, identity.outputs.capacity, actual) ||
                              !OPF_PUSH(arena, result->list, result->n, result->capacity, identity));
    }
    return OPF_OK;
}

static opf_status expand_call(inliner *in, const wire_node *node, const wire_function *function, const call *caller, wire_nodes *result)
{
    call own = {function, caller, caller == NULL ? 1 : caller->depth + 1};
    OPF_FAIL_IF(in->error, own.depth > in->limits->depth, OPF_LIMIT, "%s: calls nest deeper than %lld (limit depth)", opf_wire_label(node),
                (long long)in->limits->depth);
    enum { MAX_ATTRS = 1000 }; /* references search them one by one */
    OPF_FAIL_IF(in->error, node->attrs.n > MAX_ATTRS || function->defaults.n > MAX_ATTRS, OPF_INVALID_MODEL,
                "%s: too many attributes for function %s", opf_wire_label(node), function->name);
    for (const call *c = caller; c != NULL; c = c->caller)
        OPF_FAIL_IF(in->error, c->function == function, OPF_INVALID_MODEL, "%s: function %s calls itself", opf_wire_label(node),
                    function->name);
    copier c = {.in = in, .function = function, .call = node};
    opf_map_init(&c.map, in->arena);
    OPF_TRY(make_prefix(in, node, &c.prefix));
    OPF_TRY(bind_inputs(&c));
    OPF_TRY(bind_outputs(&c, result));
    wire_nodes copies = {.list = OPF_NEW(in->arena, wire_node, function->nodes.n)};
    OPF_OOM_IF(in->error, copies.list == NULL);
    copies.n = copies.capacity = function->nodes.n;
    for (uint32_t i = 0; i < copies.n; i++)
        OPF_TRY(copy_node(&c, &function->nodes.list[i], &copies.list[i]));
    OPF_TRY(expand_nodes(in, &copies, NULL, &own));
    for (uint32_t i = 0; i < copies.n; i++)
        OPF_OOM_IF(in->error, !OPF_PUSH(in->arena, result->list, result->n, result->capacity, copies.list[i]));
    return OPF_OK;
}

static opf_status find_function(const inliner *in, const wire_node *node, const wire_function **function)
{
    *function = NULL;
    if (in->model->functions.n == 0)
        return OPF_OK;
    const char *key = make_key(in->arena, node->domain, node->op_type, node->overload);
    OPF_OOM_IF(in->error, key == NULL);
    uint32_t index;
    if (opf_map_get(&in->functions, key, &index))
        *function = &in->model->functions.list[index];
    return OPF_OK;
}

/* opsets NULL: the nodes are copies from a function, which know theirs; their bodies do too, as they are copies. */
static opf_status expand_nodes(inliner *in, wire_nodes *nodes, const wire_opsets *opsets, const call *caller)
{
    wire_nodes result = {0};
    bool       calls  = false;
    for (uint32_t i = 0; i < nodes->n; i++) {
        wire_node *node = &nodes->list[i];
        if (node->opsets == NULL)
            node->opsets = opsets;
        for (uint32_t a = 0; a < node->attrs.n; a++)
            if (node->attrs.list[a].g != NULL)
                OPF_TRY(expand_nodes(in, &node->attrs.list[a].g->nodes, opsets, caller));
        const wire_function *function;
        OPF_TRY(find_function(in, node, &function));
        if (function != NULL && !calls) { /* the nodes before the first call are kept as they are */
            calls = true;
            for (uint32_t k = 0; k < i; k++)
                OPF_OOM_IF(in->error, !OPF_PUSH(in->arena, result.list, result.n, result.capacity, nodes->list[k]));
        }
        if (function != NULL)
            OPF_TRY(expand_call(in, node, function, caller, &result));
        else if (calls)
            OPF_OOM_IF(in->error, !OPF_PUSH(in->arena, result.list, result.n, result.capacity, *node));
    }
    if (calls)
        *nodes = result;
    return OPF_OK;
}

opf_status opf_wire_inline(wire_model *model, const opf_limits *limits, opf_arena *arena, opf_error *error)
{
    inliner in = {.arena = arena, .limits = limits, .model = model, .error = error};
    opf_map_init(&in.functions, arena);
    opf_map_init(&in.names, arena);
    opf_map_init(&in.prefixes, arena);
    for (uint32_t i = 0; i < model->functions.n; i++) {
        const wire_function *f   = &model->functions.list[i];
        const char          *key = make_key(arena, f->domain, f->name, f->overload);
        OPF_OOM_IF(error, key == NULL);
        OPF_FAIL_IF(error, opf_map_get(&in.functions, key, NULL), OPF_INVALID_MODEL, "function %s is defined twice", f->name);
        OPF_OOM_IF(error, !opf_map_put(&in.functions, key, i));
    }
    if (model->functions.n != 0)
        OPF_TRY(note_names(&in, model->graph));
    return expand_nodes(&in, &model->graph->nodes, &model->opsets, NULL);
}
