/* SPDX-License-Identifier: Apache-2.0 */
#include "onnx/save/unfuse.h"

#include "ops/stored.h"
#include "ops/infer.h"

#include <string.h>

/* A value that is shaped like another. */
static opf_value_id add_like(opf_graph *graph, const char *name, opf_value_id like, opf_type type)
{
    const opf_value_id value = opf_graph_add_value(graph, name);
    if (value == 0)
        return 0;
    opf_info info = opf_graph_value(graph, like)->info;
    info.type = type;
    info.n_values = -1;
    opf_graph_value(graph, value)->info = info;
    return value;
}

static opf_value_id operand(const opf_node *from, opf_arg arg, opf_value_id plain, const opf_value_id *results)
{
    switch (arg.kind) {
    case OPF_ARG_ANCHOR:
        return plain;
    case OPF_ARG_STEP:
        return results[arg.index];
    case OPF_ARG_INPUT:
        return from->inputs[arg.index];
    case OPF_ARG_NONE:
        break;
    }
    return 0;
}

static bool build_step(opf_graph *graph, const opf_node *from, const opf_step *step, opf_value_id plain,
                       opf_value_id *results, opf_value_id result)
{
    opf_value_id inputs[OPF_STEP_ARGS];
    uint32_t n = 0;
    for (uint32_t a = 0; a < step->n_args; a++) {
        inputs[a] = operand(from, step->args[a], plain, results);
        n = inputs[a] != 0 ? a + 1 : n;
    }
    const opf_node_id id = opf_graph_add_node(graph, step->op, step->op_type, step->name, inputs, n, &result, 1);
    for (uint32_t a = 0; id != 0 && a < step->n_attrs; a++)
        if (!opf_node_set_attr(graph, id, step->attrs[a]))
            return false;
    return id != 0 && opf_node_add_origin(graph, id, step->name);
}

/* The nodes of a list of steps on `plain`. The result of the last one becomes `last`, or a new value when that is 0; 0
   when memory is out. `from` has its inputs and outputs as they were. */
static opf_value_id build_steps(opf_graph *graph, const opf_node *from, const opf_steps *steps, opf_value_id plain,
                                opf_value_id last)
{
    opf_value_id *results = OPF_NEW(graph->arena, opf_value_id, steps->n);
    for (uint32_t s = 0; results != NULL && s < steps->n; s++) {
        const opf_step *step = &steps->list[s];
        if (s + 1 == steps->n && last != 0)
            results[s] = last;
        else if (step->output >= 0)
            results[s] = from->outputs[step->output];
        else
            results[s] = add_like(graph, step->name, plain, step->type);
        if (results[s] == 0 || !build_step(graph, from, step, plain, results, results[s]))
            return 0;
    }
    return results != NULL ? results[steps->n - 1] : 0;
}

/* ---- origin ---- */

static bool is_step_name(const opf_node *node, const char *name)
{
    const opf_steps *lists[] = {&node->prologue, &node->epilogue};
    for (uint32_t k = 0; k < 2; k++)
        for (uint32_t s = 0; s < lists[k]->n; s++)
            if (strcmp(lists[k]->list[s].name, name) == 0)
                return true;
    return false;
}

/* The anchor stands for what its steps do not; a region has no anchor, and its last step takes the rest. */
static bool divide_origin(opf_graph *graph, const opf_node *from, opf_node_id to)
{
    for (uint32_t i = 0; i < from->n_origin; i++)
        if (!is_step_name(from, from->origin[i]) && !opf_node_add_origin(graph, to, from->origin[i]))
            return false;
    return true;
}

/* ---- nodes ---- */

/* Takes the steps, their operands and the results that they store off the node. */
static bool strip(opf_graph *graph, opf_node_id id, const opf_node *from)
{
    for (uint32_t i = from->n_own_inputs; i < from->n_inputs; i++)
        if (!opf_graph_set_input(graph, id, i, 0))
            return false;
    for (uint32_t o = from->n_own_outputs; o < from->n_outputs; o++)
        if (!opf_graph_set_output(graph, id, o, 0))
            return false;
    if (from->epilogue.n != 0 && !opf_graph_set_output(graph, id, 0, 0))
        return false;
    opf_node *node = opf_graph_node(graph, id);
    node->n_inputs = from->n_own_inputs;
    node->n_outputs = from->n_own_outputs;
    node->prologue = node->epilogue = (opf_steps){0};
    node->origin = NULL;
    node->n_origin = 0;
    return true;
}

static bool unfuse_node(opf_graph *graph, opf_node_id id)
{
    opf_node from = *opf_graph_node(graph, id);
    const opf_type own = from.epilogue.n != 0 ? opf_infer_own_type(graph, id) : OPF_TYPE_NONE;
    from.inputs = opf_arena_copy(graph->arena, from.inputs, from.n_inputs * sizeof *from.inputs);
    from.outputs = opf_arena_copy(graph->arena, from.outputs, from.n_outputs * sizeof *from.outputs);
    if (from.inputs == NULL || from.outputs == NULL || !strip(graph, id, &from))
        return false;
    if (from.prologue.n != 0) {
        const opf_value_id read = build_steps(graph, &from, &from.prologue, from.inputs[0], 0);
        if (read == 0 || !opf_graph_set_input(graph, id, 0, read))
            return false;
    }
    opf_value_id plain = from.inputs[0];
    if (from.op == &opf_op_Identity && from.epilogue.n != 0) {
        opf_graph_remove_node(graph, id);
        id = 0;
    } else if (from.epilogue.n != 0) {
        plain = add_like(graph, from.name, from.outputs[0], own);
        if (plain == 0 || !opf_graph_set_output(graph, id, 0, plain))
            return false;
    }
    if (from.epilogue.n != 0 && build_steps(graph, &from, &from.epilogue, plain, from.outputs[0]) == 0)
        return false;
    return divide_origin(graph, &from, id != 0 ? id : graph->n_nodes - 1);
}

opf_status opf_save_unfuse(opf_graph *graph, opf_error *error)
{
    const uint32_t n = graph->n_nodes;
    for (opf_node_id id = 1; id < n; id++) {
        const opf_node *node = opf_graph_node(graph, id);
        if (!opf_node_is_alive(node))
            continue;
        for (uint32_t b = 0; b < node->n_bodies; b++)
            OPF_TRY(opf_save_unfuse(node->bodies[b], error));
        if (!opf_node_is_stored(node))
            opf_node_remove_attr(opf_graph_node(graph, id), OPF_STORED);
        if (node->prologue.n != 0 || node->epilogue.n != 0)
            OPF_OOM_IF(error, !unfuse_node(graph, id));
    }
    return OPF_OK;
}
