/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The graph from the file's structures. Nodes may stand in any order, so a graph is built in two passes: every name that
 * it defines becomes a value, then nodes join them. A body finds other names around it: constants are shared, what is
 * computed is captured.
 */
#include "onnx/build.h"

#include "base/status.h"
#include "onnx/inline.h"

#include <string.h>

/* A value captured by a body. */
typedef struct capture {
    const char  *name;
    opf_value_id outer, inner;
} capture;

/* A graph being built, and what it stands in. */
typedef struct scope {
    opf_builder      *b;
    struct scope     *outer; /* NULL: the main graph */
    const wire_graph *wire;
    opf_graph        *graph;
    const char       *prefix; /* of names of nodes: "", or "If_3/then_branch/" */
    int64_t           depth;
    WIRE_LIST(capture) captures;
    opf_map     captured; /* name to number in captures */
    wire_nodes  nodes;    /* without Constant: in step with versions and bodies */
    opf_built   built;
} scope;

static opf_status build_graph(scope *s);

/* ---- declarations ---- */

static opf_status check_new(const scope *s, const char *name, const char *what, opf_error *error)
{
    OPF_FAIL_IF(error, name[0] == '\0', OPF_INVALID_MODEL, "%s has no name", what);
    opf_value_id id = opf_graph_find_value(s->graph, name);
    if (id == 0)
        return OPF_OK;
    const opf_value *other = opf_graph_value(s->graph, id);
    return opf_fail(error, OPF_INVALID_MODEL, "%s: the name %s is already that of %s", what, name,
                    other->is_input ? "an input" : other->constant != NULL ? "a constant" : "another node's output");
}

static opf_status set_info(scope *s, opf_value_id id, const wire_value *from)
{
    opf_builder *b     = s->b;
    opf_error   *error = b->error;
    OPF_FAIL_IF(error, from->other_kind != NULL, OPF_UNSUPPORTED, "input %s is of kind %s: only tensors are supported", from->name, from->other_kind);
    OPF_FAIL_IF(error, from->type == OPF_STRING, OPF_UNSUPPORTED, "input %s: string tensors are not supported", from->name);
    OPF_FAIL_IF(error, from->type < 0 || from->type >= OPF_TYPE_COUNT, OPF_UNSUPPORTED, "input %s: element type number %d is not known",
                from->name, (int)from->type);
    OPF_FAIL_IF(error, from->type == 0 && s->outer == NULL, OPF_INVALID_MODEL, "input %s has no type", from->name);
    opf_info info = {.type = (opf_type)from->type, .rank = -1, .n_values = -1};
    /* The shapes of a body's inputs are claims, and may change from one iteration to the next; but a Loop's counter may be
       declared as a vector of one element. */
    bool one = from->dims.n == 1 && from->dims.list[0].has_value && from->dims.list[0].value == 1;
    if (from->has_shape && (s->outer == NULL || one)) {
        const opf_limits *limits = b->tensors.options->limits;
        OPF_FAIL_IF(error, from->dims.n > limits->rank || from->dims.n > OPF_MAX_RANK, OPF_LIMIT,
                    "input %s has rank %u, at most %lld is allowed (limit rank)", from->name, from->dims.n, (long long)limits->rank);
        info.rank    = (int32_t)from->dims.n;
        info.dims    = OPF_NEW(b->tensors.arena, opf_dim, from->dims.n);
        size_t count = 1, bytes = 0;
        bool   absurd = false;
        OPF_OOM_IF(error, info.dims == NULL);
        for (uint32_t i = 0; i < from->dims.n; i++) {
            const wire_dim *d = &from->dims.list[i];
            if (d->has_value && d->value >= 0) {
                info.dims[i] = opf_dim_number(d->value);
                absurd       = absurd || (d->value != 0 && !opf_mul_size(count, (size_t)d->value, &count));
            } else {
                info.dims[i] = d->symbol[0] != '\0' ? opf_dim_symbol(b->dims, d->symbol) : opf_dim_unnamed(b->dims);
            }
        }
        OPF_FAIL_IF(error, absurd || !opf_type_bytes(info.type, count, &bytes) || bytes > (uint64_t)limits->tensor_bytes, OPF_LIMIT,
                    "input %s: its dimensions need more than %lld bytes (limit tensor-bytes)", from->name, (long long)limits->tensor_bytes);
        OPF_OOM_IF(error, opf_dims_failed(b->dims));
    }
    opf_graph_value(s->graph, id)->info = info;
    return OPF_OK;
}

static opf_status add_constant(scope *s, const char *name, const wire_tensor *tensor, const opf_const **constant)
{
    opf_error *error  = s->b->error;
    opf_status status = opf_tensor_constant(&s->b->tensors, tensor, constant, error);
    if (status != OPF_OK)
        opf_error_prefix(error, "initializer %s: ", name);
    return status;
}

static bool is_listed(const opf_load_options *options, const char *name)
{
    for (size_t i = 0; i < options->n_overridable; i++)
        if (strcmp(options->overridable[i], name) == 0)
            return true;
    return false;
}

/* The default of an input must fit what the input declares. */
static opf_status check_default(const scope *s, opf_value_id id, const opf_const *constant)
{
    const opf_value *v = opf_graph_value(s->graph, id);
    OPF_FAIL_IF(s->b->error, !opf_info_admits(&v->info, constant), OPF_INVALID_MODEL, "input %s: its initializer has another type or shape",
                v->name);
    return OPF_OK;
}

/* Inputs of the main graph that have initializers are constants before IR 4, inputs with defaults since. */
static opf_status declare_inputs(scope *s, const opf_map *initializers)
{
    opf_builder            *b       = s->b;
    const opf_load_options *options = b->tensors.options;
    bool                    old     = b->model->ir_version < 4;
    if (s->outer == NULL) {
        b->defaults = OPF_NEW(b->tensors.arena, const opf_const *, s->wire->inputs.n);
        OPF_OOM_IF(b->error, b->defaults == NULL);
    }
    for (uint32_t i = 0; i < s->wire->inputs.n; i++) {
        const wire_value *input = &s->wire->inputs.list[i];
        const opf_const  *constant;
        uint32_t          index;
        bool              has_initializer = opf_map_get(initializers, input->name, &index);
        OPF_TRY(check_new(s, input->name, "a graph input", b->error));
        if (has_initializer) {
            OPF_FAIL_IF(b->error, s->outer != NULL, OPF_INVALID_MODEL, "%s: input %s of a body has an initializer", s->prefix, input->name);
            OPF_TRY(add_constant(s, input->name, &s->wire->initializers.list[index], &constant));
            if (old ? !is_listed(options, input->name) : options->freeze) {
                OPF_OOM_IF(b->error, opf_graph_add_constant(s->graph, input->name, constant) == 0 ||
                                         !OPF_PUSH(b->tensors.arena, b->constant_inputs.list, b->constant_inputs.n,
                                                   b->constant_inputs.capacity, input->name));
                continue;
            }
        }
        opf_value_id id = opf_graph_add_value(s->graph, input->name);
        OPF_OOM_IF(b->error, id == 0 || !opf_graph_add_input(s->graph, id));
        OPF_TRY(set_info(s, id, input));
        if (has_initializer) {
            OPF_TRY(check_default(s, id, constant));
            b->defaults[s->graph->n_inputs - 1] = constant;
        }
    }
    return OPF_OK;
}

static opf_status declare_initializers(scope *s)
{
    opf_builder *b = s->b;
    opf_map      initializers;
    opf_map_init(&initializers, b->tensors.arena);
    for (uint32_t i = 0; i < s->wire->initializers.n; i++) {
        const char *name = s->wire->initializers.list[i].name;
        OPF_FAIL_IF(b->error, name[0] == '\0', OPF_INVALID_MODEL, "an initializer has no name");
        OPF_FAIL_IF(b->error, opf_map_get(&initializers, name, NULL), OPF_INVALID_MODEL, "initializer %s is given twice", name);
        OPF_OOM_IF(b->error, !opf_map_put(&initializers, name, i));
    }
    OPF_TRY(declare_inputs(s, &initializers));
    for (uint32_t i = 0; i < s->wire->initializers.n; i++) {
        const wire_tensor *tensor = &s->wire->initializers.list[i];
        const opf_const   *constant;
        if (opf_graph_find_value(s->graph, tensor->name) != 0)
            continue; /* an input, already there */
        OPF_TRY(add_constant(s, tensor->name, tensor, &constant));
        OPF_OOM_IF(b->error, opf_graph_add_constant(s->graph, tensor->name, constant) == 0);
    }
    return OPF_OK;
}

static opf_status check_overridable(const scope *s)
{
    const opf_builder      *b       = s->b;
    const opf_load_options *options = b->tensors.options;
    for (size_t i = 0; i < options->n_overridable; i++) {
        opf_value_id id = opf_graph_find_value(s->graph, options->overridable[i]);
        bool         ok = id != 0 && opf_graph_value(s->graph, id)->is_input;
        for (uint32_t k = 0; ok && k < s->graph->n_inputs; k++)
            if (s->graph->inputs[k] == id)
                ok = b->defaults[k] != NULL;
        OPF_FAIL_IF(b->error, !ok, OPF_INVALID_ARGUMENT, "overridable: %s is no input with an initializer", options->overridable[i]);
    }
    return OPF_OK;
}

static opf_status declare_outputs(scope *s)
{
    opf_builder *b = s->b;
    for (uint32_t i = 0; i < s->wire->nodes.n; i++) {
        const wire_node *node     = &s->wire->nodes.list[i];
        const opf_const *constant = NULL;
        if (!opf_wire_is_constant(node))
            OPF_OOM_IF(b->error, !opf_tally_add(&b->ops, b->tensors.arena, node->op_type));
        if (node->is_dead)
            continue;
        if (opf_wire_is_constant(node)) {
            OPF_FAIL_IF(b->error, node->outputs.n != 1, OPF_INVALID_MODEL, "node %s (Constant) has %u outputs", opf_wire_label(node),
                        node->outputs.n);
            OPF_TRY(opf_build_constant(b, node, &constant));
        } else {
            OPF_OOM_IF(b->error, !OPF_PUSH(b->tensors.arena, s->nodes.list, s->nodes.n, s->nodes.capacity, *node));
        }
        for (uint32_t o = 0; o < node->outputs.n; o++) {
            const char *name = node->outputs.list[o];
            if (name[0] == '\0' && constant == NULL)
                continue;
            opf_status status = check_new(s, name, "an output", b->error);
            if (status != OPF_OK) {
                opf_error_prefix(b->error, "node %s (%s): ", opf_wire_label(node), node->op_type);
                return status;
            }
            OPF_OOM_IF(b->error, (constant != NULL ? opf_graph_add_constant(s->graph, name, constant)
                                                   : opf_graph_add_value(s->graph, name)) == 0);
        }
    }
    return OPF_OK;
}

/* ---- names ---- */

/* The value of a name, captured if it stands outside; id 0: nobody defines it. */
static opf_status find_name(scope *s, const char *name, opf_value_id *id)
{
    opf_error *error = s->b->error;
    *id              = opf_graph_find_value(s->graph, name);
    if (*id != 0 || s->outer == NULL)
        return OPF_OK;
    opf_value_id outer;
    OPF_TRY(find_name(s->outer, name, &outer));
    if (outer == 0)
        return OPF_OK;
    const opf_const *constant = opf_graph_value(s->outer->graph, outer)->constant;
    if (constant != NULL) {
        *id = opf_graph_add_constant(s->graph, name, constant);
        OPF_OOM_IF(error, *id == 0);
        return OPF_OK;
    }
    *id       = opf_graph_add_value(s->graph, name);
    capture c = {name, outer, *id};
    OPF_OOM_IF(error, *id == 0 || !OPF_PUSH(s->b->tensors.arena, s->captures.list, s->captures.n, s->captures.capacity, c) ||
                          !opf_map_put(&s->captured, name, s->captures.n - 1));
    return OPF_OK;
}

/* The name of a node in the model: a repeated one gets #2, #3, … */
static opf_status name_node(const scope *s, const wire_node *node, const char **name)
{
    opf_builder *b     = s->b;
    opf_arena   *arena = b->tensors.arena;
    const char  *base  = opf_arena_printf(arena, "%s%s", s->prefix, opf_wire_label(node));
    uint32_t     uses  = 0;
    OPF_OOM_IF(b->error, base == NULL);
    *name = base;
    if (opf_map_get(&b->node_names, base, &uses)) {
        do {
            *name = opf_arena_printf(arena, "%s#%u", base, ++uses);
            OPF_OOM_IF(b->error, *name == NULL);
        } while (opf_map_get(&b->node_names, *name, NULL));
        OPF_OOM_IF(b->error, !opf_map_put(&b->node_names, *name, 1));
    } else {
        uses = 1;
    }
    OPF_OOM_IF(b->error, !opf_map_put(&b->node_names, base, uses));
    return OPF_OK;
}

/* ---- nodes ---- */

/* Every body takes all captures of its node, in one order. */
static opf_status join_captures(scope *s, opf_node_id id, scope *bodies, uint32_t n)
{
    opf_builder *b     = s->b;
    opf_arena   *arena = b->tensors.arena;
    opf_map      seen;
    WIRE_LIST(capture) all = {0};
    opf_map_init(&seen, arena);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t c = 0; c < bodies[i].captures.n; c++) {
            const capture *one = &bodies[i].captures.list[c];
            if (!opf_map_get(&seen, one->name, NULL))
                OPF_OOM_IF(b->error, !OPF_PUSH(arena, all.list, all.n, all.capacity, *one) || !opf_map_put(&seen, one->name, 0));
        }
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t c = 0; c < all.n; c++) {
            uint32_t     index;
            opf_value_id inner = opf_map_get(&bodies[i].captured, all.list[c].name, &index)
                                     ? bodies[i].captures.list[index].inner
                                     : opf_graph_add_value(bodies[i].graph, all.list[c].name);
            OPF_OOM_IF(b->error, inner == 0 || !opf_graph_add_input(bodies[i].graph, inner));
        }
    opf_node *node = opf_graph_node(s->graph, id);
    uint32_t  own  = node->n_own_inputs;
    for (uint32_t c = 0; c < all.n; c++)
        OPF_OOM_IF(b->error, !opf_graph_append_input(s->graph, id, all.list[c].outer));
    node->n_own_inputs = own; /* the first was taken for one of them */
    node->n_captures   = all.n;
    return OPF_OK;
}

static opf_status build_bodies(scope *s, opf_node_id id, const wire_attr *const *graphs, uint32_t n)
{
    opf_builder *b       = s->b;
    opf_arena   *arena   = b->tensors.arena;
    scope       *bodies  = OPF_NEW(arena, scope, n);
    opf_built   *records = OPF_NEW(arena, opf_built, n);
    opf_graph  **list    = OPF_NEW(arena, opf_graph *, n);
    const char  *name    = opf_graph_node(s->graph, id)->name;
    OPF_OOM_IF(b->error, bodies == NULL || records == NULL || list == NULL);
    for (uint32_t i = 0; i < n; i++) {
        bodies[i] = (scope){.b = b, .outer = s, .wire = graphs[i]->g, .depth = s->depth + 1};
        bodies[i].prefix = opf_arena_printf(arena, "%s/%s/", name, graphs[i]->name);
        OPF_OOM_IF(b->error, bodies[i].prefix == NULL);
        OPF_TRY(build_graph(&bodies[i]));
        records[i]                   = bodies[i].built;
        list[i]                      = bodies[i].graph;
        bodies[i].graph->parent      = s->graph;
        bodies[i].graph->parent_node = id;
    }
    opf_node *node       = opf_graph_node(s->graph, id);
    node->bodies         = list;
    node->n_bodies       = n;
    s->built.bodies[id]  = records;
    return join_captures(s, id, bodies, n);
}

static opf_status find_inputs(scope *s, const wire_node *node, const char *name, opf_value_id *inputs, uint32_t *n)
{
    *n = 0;
    for (uint32_t i = 0; i < node->inputs.n; i++) {
        const char *input = node->inputs.list[i];
        if (input[0] == '\0')
            continue;
        OPF_TRY(find_name(s, input, &inputs[i]));
        OPF_FAIL_IF(s->b->error, inputs[i] == 0, OPF_INVALID_MODEL, "node %s (%s): input %s is produced by no node, input or initializer",
                    name, node->op_type, input);
        *n = i + 1; /* absent inputs at the end are as good as none */
    }
    return OPF_OK;
}

static opf_status build_node(scope *s, const wire_node *from)
{
    opf_builder  *b       = s->b;
    opf_arena    *arena   = b->tensors.arena;
    opf_value_id *inputs  = OPF_NEW(arena, opf_value_id, from->inputs.n);
    opf_value_id *outputs = OPF_NEW(arena, opf_value_id, from->outputs.n);
    const wire_attr **graphs = OPF_NEW(arena, const wire_attr *, from->attrs.n);
    const char       *name     = NULL;
    uint32_t          n_inputs = 0, n_graphs = 0;
    OPF_OOM_IF(b->error, inputs == NULL || outputs == NULL || graphs == NULL);
    OPF_TRY(name_node(s, from, &name));
    OPF_TRY(find_inputs(s, from, name, inputs, &n_inputs));
    for (uint32_t o = 0; o < from->outputs.n; o++)
        outputs[o] = from->outputs.list[o][0] == '\0' ? 0 : opf_graph_find_value(s->graph, from->outputs.list[o]);
    const opf_op *op = opf_find_operator(from->domain, from->op_type);
    opf_node_id   id = opf_graph_add_node(s->graph, op, from->op_type, name, inputs, n_inputs, outputs, from->outputs.n);
    OPF_OOM_IF(b->error, id == 0);
    opf_node *node = opf_graph_node(s->graph, id);
    node->domain   = from->domain;
    OPF_TRY(opf_build_attrs(b, from, node, graphs, &n_graphs));
    OPF_OOM_IF(b->error, !opf_node_add_origin(s->graph, id, node->name));
    s->built.versions[id] = (int32_t)opf_wire_version(b->model, from);
    return n_graphs == 0 ? OPF_OK : build_bodies(s, id, graphs, n_graphs);
}

static opf_status build_outputs(scope *s)
{
    opf_error *error = s->b->error;
    for (uint32_t i = 0; i < s->wire->outputs.n; i++) {
        const wire_value *output = &s->wire->outputs.list[i];
        opf_value_id      id     = 0;
        OPF_FAIL_IF(error, output->other_kind != NULL, OPF_UNSUPPORTED, "output %s is of kind %s: only tensors are supported", output->name,
                    output->other_kind);
        OPF_TRY(find_name(s, output->name, &id));
        OPF_FAIL_IF(error, id == 0, OPF_INVALID_MODEL, "%s%soutput %s is produced by no node, input or initializer", s->prefix,
                    s->outer == NULL ? "" : ": ", output->name);
        OPF_FAIL_IF(error, s->outer == NULL && opf_graph_is_output(s->graph, id), OPF_INVALID_MODEL, "output %s is listed twice",
                    output->name);
        OPF_OOM_IF(error, !opf_graph_add_output(s->graph, id));
    }
    return OPF_OK;
}

/* ---- graphs ---- */

static opf_status build_graph(scope *s)
{
    opf_builder *b      = s->b;
    opf_arena   *arena  = b->tensors.arena;
    int64_t      depth  = b->tensors.options->limits->depth;
    OPF_FAIL_IF(b->error, s->depth > depth, OPF_LIMIT, "%s: bodies nest deeper than %lld (limit depth)", s->prefix, (long long)depth);
    s->graph = opf_graph_create(arena, b->dims, b->tensors.consts, s->wire->name);
    OPF_OOM_IF(b->error, s->graph == NULL);
    opf_map_init(&s->captured, arena);
    OPF_TRY(declare_initializers(s));
    if (s->outer == NULL)
        OPF_TRY(check_overridable(s));
    OPF_TRY(declare_outputs(s));
    s->built.graph    = s->graph;
    s->built.versions = OPF_NEW(arena, int32_t, s->nodes.n + 1);
    s->built.bodies   = OPF_NEW(arena, opf_built *, s->nodes.n + 1);
    OPF_OOM_IF(b->error, s->built.versions == NULL || s->built.bodies == NULL);
    for (uint32_t i = 0; i < s->nodes.n; i++)
        OPF_TRY(build_node(s, &s->nodes.list[i]));
    return build_outputs(s);
}

opf_status opf_build_model(opf_builder *builder, opf_built *built)
{
    scope s = {.b = builder, .wire = builder->model->graph, .prefix = "", .depth = 1};
    OPF_TRY(build_graph(&s));
    *built = s.built;
    return OPF_OK;
}
