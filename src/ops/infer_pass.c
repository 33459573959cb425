/* SPDX-License-Identifier: Apache-2.0 */
/* Types checked against signatures, then the operator's own inference, then steps: for one node and for a whole graph. */
#include "ops/infer.h"

#include "ops/control.h"

#include <string.h>

static const opf_info nothing = {.type = OPF_TYPE_NONE, .rank = -1, .n_values = -1};

/* ---- signatures ---- */

static const opf_param *param_at(const opf_param *params, uint32_t n, uint32_t i)
{
    if (i < n)
        return &params[i];
    return n != 0 && (params[n - 1].flags & OPF_VARIADIC) != 0 ? &params[n - 1] : NULL;
}

static const char *types_string(opf_types types, opf_arena *arena)
{
    opf_text text;
    opf_text_init(&text, arena);
    for (int type = 1; type < OPF_TYPE_COUNT; type++)
        if (opf_types_have(types, (opf_type)type))
            opf_text_add(&text, "%s%s", text.length == 0 ? "" : ", ", opf_type_name((opf_type)type));
    return text.failed || text.data == NULL ? "none" : text.data;
}

static opf_status check_attrs(const opf_node *node, opf_error *error)
{
    static const char *const names[] = {"none", "int", "float", "string", "ints", "floats", "strings", "tensor", "graph"};
    for (uint32_t i = 0; i < node->op->n_attrs; i++) {
        const opf_attr_def *def  = &node->op->attrs[i];
        const opf_attr     *attr = opf_node_attr(node, def->name);
        OPF_FAIL_IF(error, attr == NULL && def->required, OPF_INVALID_MODEL, "attribute %s is missing", def->name);
        OPF_FAIL_IF(error, attr != NULL && attr->type != def->type && def->type != OPF_ATTR_NONE, OPF_INVALID_MODEL,
                    "attribute %s is of type %s, must be %s", def->name, names[attr->type], names[def->type]);
    }
    return OPF_OK;
}

/* Which input bound a type variable, by its letter. */
typedef struct {
    opf_type type;
    uint32_t input;
} binding;
enum { LETTERS = 128 };

static opf_status check_inputs(const opf_infer *infer, binding bound[LETTERS], opf_error *error)
{
    const opf_op *op = infer->node->op;
    for (uint32_t i = 0; i < op->n_inputs || i < infer->n_in; i++) {
        const opf_param *param = param_at(op->inputs, op->n_inputs, i);
        OPF_FAIL_IF(error, param == NULL, OPF_INVALID_MODEL, "%u inputs, at most %u are allowed", infer->n_in, op->n_inputs);
        if (!opf_infer_has(infer, i)) {
            bool may_lack = (param->flags & OPF_OPTIONAL) != 0 || i >= op->n_inputs;
            OPF_FAIL_IF(error, !may_lack, OPF_INVALID_MODEL, "input %u (%s) is missing", i, param->name);
            continue;
        }
        opf_type type = infer->in[i]->type;
        if (type == OPF_TYPE_NONE)
            continue;
        OPF_FAIL_IF(error, !opf_types_have(param->types, type), OPF_UNSUPPORTED, "input %u (%s) has type %s, supported are %s", i,
                    param->name, opf_type_name(type), types_string(param->types, infer->arena));
        binding *b = &bound[(unsigned char)param->var % LETTERS];
        if (param->var == 0)
            continue;
        if (b->type == OPF_TYPE_NONE)
            *b = (binding){type, i};
        OPF_FAIL_IF(error, b->type != type, OPF_INVALID_MODEL, "input %u (%s) has type %s, input %u has %s: they must be equal", i,
                    param->name, opf_type_name(type), b->input, opf_type_name(b->type));
    }
    return OPF_OK;
}

static opf_status set_output_types(opf_infer *infer, const binding bound[LETTERS], opf_error *error)
{
    const opf_op *op = infer->node->op;
    OPF_FAIL_IF(error, infer->n_out == 0 && op->n_outputs != 0, OPF_INVALID_MODEL, "has no outputs");
    for (uint32_t o = 0; o < infer->n_out; o++) {
        const opf_param *param = param_at(op->outputs, op->n_outputs, o);
        OPF_FAIL_IF(error, param == NULL, OPF_INVALID_MODEL, "%u outputs, at most %u are allowed", infer->n_out, op->n_outputs);
        opf_type type = param->var != 0 ? bound[(unsigned char)param->var % LETTERS].type : OPF_TYPE_NONE;
        if (type == OPF_TYPE_NONE && param->types != 0 && (param->types & (param->types - 1)) == 0)
            type = (opf_type)__builtin_ctzll(param->types);
        infer->out[o].type = type;
    }
    return OPF_OK;
}

/* ---- one node ---- */

static opf_info step_info(const opf_info *shape, const opf_step *step)
{
    return (opf_info){.type = step->type, .rank = shape->rank, .dims = shape->dims, .n_values = -1};
}

static void store_steps(const opf_node *node, const opf_steps *steps, const opf_info *shape, opf_info *out)
{
    for (uint32_t i = 0; i < steps->n; i++)
        if (steps->list[i].output > 0 && (uint32_t)steps->list[i].output < node->n_outputs)
            out[steps->list[i].output] = step_info(shape, &steps->list[i]);
}

/* Scalars have any rank here: that of Clip's bounds is nobody's business. */
static bool broadcasts(const opf_info *operand, const opf_info *result)
{
    bool fits = true;
    for (int32_t k = 0; fits && result->rank >= 0 && k < operand->rank; k++) {
        const int32_t axis = result->rank - operand->rank + k;
        const opf_dim own = operand->dims[k], whole = axis < 0 ? opf_dim_number(1) : result->dims[axis];
        fits = opf_dim_is(own, 1) || !opf_dim_is_number(own) || !opf_dim_is_number(whole) || opf_dim_equal(own, whole);
    }
    return fits;
}

/* What fusion proved about operands of steps, or took for granted, is checked with numbers. */
static opf_status check_operands(const opf_node *node, const opf_steps *steps, const opf_info **in, const opf_info *anchor, opf_error *error)
{
    for (uint32_t s = 0; s < steps->n; s++)
        for (uint32_t a = 0; a < steps->list[s].n_args; a++) {
            const opf_arg arg = steps->list[s].args[a];
            OPF_FAIL_IF(error, arg.kind == OPF_ARG_INPUT && !broadcasts(in[arg.index], anchor), OPF_INVALID_INPUT,
                        "%s (%s): an operand of step %s does not broadcast to its result", node->name, node->op_type,
                        steps->list[s].op_type);
        }
    return OPF_OK;
}

static opf_status infer_own(opf_infer *infer, opf_error *error)
{
    const opf_node *node = infer->node;
    if (node->op == NULL) /* a region: its steps read all inputs, broadcast */
        return node->epilogue.n != 0 ? opf_infer_broadcast(infer, infer->n_in, error) : OPF_OK;
    binding bound[LETTERS] = {{OPF_TYPE_NONE, 0}};
    OPF_TRY(check_attrs(node, error));
    OPF_TRY(check_inputs(infer, bound, error));
    OPF_TRY(set_output_types(infer, bound, error));
    return node->op->infer != NULL ? node->op->infer(infer, error) : OPF_OK;
}

/* in[i]: info of input i, never NULL; may be overwritten. */
static opf_status infer_with(const opf_graph *graph, opf_node_id id, const opf_info **in, opf_arena *arena, opf_dims *dims, opf_info *out,
                             opf_error *error)
{
    const opf_node   *node      = opf_graph_node(graph, id);
    uint32_t          n_in      = node->op != NULL ? node->n_own_inputs : node->n_inputs - node->n_captures;
    const opf_const **constants = OPF_NEW(arena, const opf_const *, n_in);
    opf_info          read;
    OPF_OOM_IF(error, constants == NULL);
    for (uint32_t i = 0; i < n_in; i++)
        constants[i] = opf_graph_value(graph, node->inputs[i])->constant;
    for (uint32_t o = 0; o < node->n_outputs; o++)
        out[o] = nothing;
    if (node->prologue.n != 0 && n_in != 0) {
        OPF_TRY(check_operands(node, &node->prologue, in, in[0], error));
        store_steps(node, &node->prologue, in[0], out);
        read         = step_info(in[0], &node->prologue.list[node->prologue.n - 1]);
        in[0]        = &read;
        constants[0] = NULL;
    }
    opf_infer infer = {.arena = arena, .dims = dims, .node = node, .in = in, .n_in = n_in, .out = out, .n_out = node->n_own_outputs,
                       .constants = constants};
    opf_status status = infer_own(&infer, error);
    if (status != OPF_OK) {
        opf_error_prefix(error, "%s (%s): ", node->name, node->op_type);
        return status;
    }
    if (node->epilogue.n != 0 && node->n_outputs != 0) {
        const opf_info anchor = out[0];
        OPF_TRY(check_operands(node, &node->epilogue, in, &anchor, error));
        store_steps(node, &node->epilogue, &anchor, out);
        out[0] = step_info(&anchor, &node->epilogue.list[node->epilogue.n - 1]);
    }
    OPF_OOM_IF(error, opf_dims_failed(dims));
    return OPF_OK;
}

static bool constant_info(const opf_const *constant, opf_arena *arena, opf_info *info)
{
    *info = (opf_info){.type = constant->type, .rank = constant->rank, .n_values = -1};
    info->dims = OPF_NEW(arena, opf_dim, constant->rank);
    if (info->dims == NULL)
        return false;
    for (int32_t i = 0; i < constant->rank; i++)
        info->dims[i] = opf_dim_number(constant->dims[i]);
    bool is_integer = opf_types_have(OPF_TYPES_INT | OPF_TYPES_BOOL, constant->type) && constant->type != OPF_UINT64;
    if (!is_integer || constant->count > OPF_MAX_KNOWN_VALUES)
        return true;
    info->n_values = (int32_t)constant->count;
    info->values   = OPF_NEW(arena, opf_dim, constant->count);
    if (info->values == NULL)
        return false;
    for (size_t i = 0; i < constant->count; i++)
        info->values[i] = opf_dim_number(opf_const_i64_at(constant, i));
    return true;
}

opf_status opf_infer_node(const opf_graph *graph, opf_node_id id, const opf_info *infos, opf_arena *arena, opf_dims *dims, opf_info *out,
                          opf_error *error)
{
    const opf_node  *node = opf_graph_node(graph, id);
    const opf_info **in   = OPF_NEW(arena, const opf_info *, node->n_inputs);
    OPF_OOM_IF(error, in == NULL);
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        opf_value_id     value    = node->inputs[i];
        const opf_const *constant = opf_graph_value(graph, value)->constant;
        in[i]                     = value == 0 ? &nothing : &infos[value];
        if (value != 0 && constant != NULL && infos[value].type == OPF_TYPE_NONE) {
            opf_info *info = OPF_NEW(arena, opf_info, 1);
            OPF_OOM_IF(error, info == NULL || !constant_info(constant, arena, info));
            in[i] = info;
        }
    }
    return infer_with(graph, id, in, arena, dims, out, error);
}

opf_type opf_infer_own_type(const opf_graph *graph, opf_node_id id)
{
    const opf_node  *node  = opf_graph_node(graph, id);
    const opf_param *param = node->op == NULL ? NULL : param_at(node->op->outputs, node->op->n_outputs, 0);
    if (node->epilogue.n == 0)
        return node->n_outputs == 0 || node->outputs[0] == 0 ? OPF_TYPE_NONE : opf_graph_value(graph, node->outputs[0])->info.type;
    for (uint32_t i = 0; param != NULL && param->var != 0 && i < node->n_own_inputs; i++) {
        const opf_param *in = param_at(node->op->inputs, node->op->n_inputs, i);
        if (in != NULL && in->var == param->var && node->inputs[i] != 0)
            return opf_graph_value(graph, node->inputs[i])->info.type;
    }
    bool one = param != NULL && param->types != 0 && (param->types & (param->types - 1)) == 0;
    return one ? (opf_type)__builtin_ctzll(param->types) : OPF_TYPE_NONE;
}

/* ---- the graph ---- */

static bool same_dims(const opf_dim *a, const opf_dim *b, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        if (!opf_dim_equal(a[i], b[i]))
            return false;
    return true;
}

/* Keeps what is there when it is equal: passes that run again and again do not fill the arena. */
static bool keep_info(opf_arena *arena, opf_info *kept, const opf_info *fresh)
{
    kept->type = fresh->type;
    if (kept->rank != fresh->rank || !same_dims(kept->dims, fresh->dims, fresh->rank)) {
        kept->rank = fresh->rank;
        kept->dims = fresh->rank < 0 ? NULL : opf_arena_copy(arena, fresh->dims, (size_t)fresh->rank * sizeof *fresh->dims);
        if (fresh->rank >= 0 && kept->dims == NULL)
            return false;
    }
    if (kept->n_values != fresh->n_values || !same_dims(kept->values, fresh->values, fresh->n_values)) {
        kept->n_values = fresh->n_values;
        kept->values   = fresh->n_values < 0 ? NULL : opf_arena_copy(arena, fresh->values, (size_t)fresh->n_values * sizeof *fresh->values);
        if (fresh->n_values >= 0 && kept->values == NULL)
            return false;
    }
    return true;
}

opf_status opf_infer_constant(const opf_graph *graph, opf_value_id id, opf_error *error)
{
    opf_value *value = opf_graph_value(graph, id);
    if (id == 0 || value->constant == NULL || value->info.type == value->constant->type)
        return OPF_OK;
    opf_arena scratch;
    opf_info  info;
    opf_arena_init(&scratch, graph->arena->heap);
    bool ok = constant_info(value->constant, &scratch, &info) && keep_info(graph->arena, &value->info, &info);
    opf_arena_fini(&scratch);
    OPF_OOM_IF(error, !ok);
    return OPF_OK;
}

static opf_status update_node(opf_graph *graph, opf_node_id id, opf_arena *scratch, opf_error *error)
{
    const opf_node  *node = opf_graph_node(graph, id);
    const opf_info **in   = OPF_NEW(scratch, const opf_info *, node->n_inputs);
    opf_info        *out  = OPF_NEW(scratch, opf_info, node->n_outputs);
    OPF_OOM_IF(error, in == NULL || out == NULL);
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        OPF_TRY(opf_infer_constant(graph, node->inputs[i], error));
        in[i] = node->inputs[i] == 0 ? &nothing : &opf_graph_value(graph, node->inputs[i])->info;
    }
    opf_status status = infer_with(graph, id, in, scratch, graph->dims, out, error);
    for (uint32_t o = 0; o < node->n_outputs; o++) {
        if (status != OPF_OK)
            out[o] = (opf_info){.type = out[o].type, .rank = -1, .n_values = -1};
        if (node->outputs[o] != 0)
            OPF_OOM_IF(error, !keep_info(graph->arena, &opf_graph_value(graph, node->outputs[o])->info, &out[o]));
    }
    return status;
}

opf_status opf_infer_update(opf_graph *graph, opf_node_id node, opf_error *error)
{
    opf_arena scratch;
    opf_arena_init(&scratch, graph->arena->heap);
    opf_status status = update_node(graph, node, &scratch, error);
    opf_arena_fini(&scratch);
    return status;
}

opf_status opf_infer_bodies(const opf_graph *graph, opf_node_id id, opf_error *error)
{
    const opf_node *node = opf_graph_node(graph, id);
    for (uint32_t i = 0; node->n_bodies != 0 && i < node->n_inputs; i++)
        OPF_TRY(opf_infer_constant(graph, node->inputs[i], error));
    for (uint32_t b = 0; b < node->n_bodies; b++) {
        bool again = true;
        opf_body_enter(graph, id, b);
        for (uint32_t round = 0; again; round++) {
            OPF_TRY(opf_infer_graph(node->bodies[b], error));
            OPF_TRY(opf_body_widen(graph, id, b, round, &again, error));
        }
    }
    return OPF_OK;
}

/* In a branch of an If, inside of other bodies or not. */
static bool is_conditional(const opf_graph *graph)
{
    for (; graph->parent != NULL; graph = graph->parent)
        if (opf_graph_node(graph->parent, graph->parent_node)->op == &opf_op_If)
            return true;
    return false;
}

/* Shapes that do not fit are no error where nothing may ever run: branches are often made for shapes that others have. */
static opf_status infer_leniently(opf_graph *graph, opf_node_id id, opf_arena *scratch, opf_error *error)
{
    opf_error  local  = {.status = OPF_OK};
    opf_status status = update_node(graph, id, scratch, &local);
    if (status == OPF_INVALID_INPUT || status == OPF_INVALID_MODEL)
        return OPF_OK;
    if (status != OPF_OK && error != NULL)
        *error = local;
    return status;
}

opf_status opf_infer_graph(opf_graph *graph, opf_error *error)
{
    const bool   lenient = is_conditional(graph);
    opf_arena    scratch;
    opf_node_id *order;
    uint32_t     n = 0;
    opf_arena_init(&scratch, graph->arena->heap);
    opf_status status = opf_graph_sort(graph, &scratch, &order, &n, error);
    for (uint32_t i = 0; i < n && status == OPF_OK; i++) {
        status = opf_infer_bodies(graph, order[i], error);
        if (status == OPF_OK)
            status = lenient ? infer_leniently(graph, order[i], &scratch, error) : update_node(graph, order[i], &scratch, error);
    }
    for (uint32_t o = 0; o < graph->n_outputs && status == OPF_OK; o++)
        status = opf_infer_constant(graph, graph->outputs[o], error);
    opf_arena_fini(&scratch);
    return status;
}
