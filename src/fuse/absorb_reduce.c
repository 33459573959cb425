/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Elementwise nodes before a reduction become its prologue: they are computed in L1 while the operand is read, and
 * never stored. Anchors take their epilogues first, so what is left here has no better home. A node goes along when all
 * that reads it does, so nothing outside depends on the nodes, and each element is computed once.
 */
#include "fuse/absorb_reduce.h"
#include "fuse/absorb_steps.h"
#include "ops/reduce.h"

#include <string.h>

static const char rule[] = "reduce-prologue";

typedef struct chain {
    opf_node_id nodes[OPF_MAX_STEPS]; /* the one that makes the operand first */
    uint32_t n;
    opf_node_id region; /* that makes the operand, instead of nodes; 0: none */
    opf_value_id main;  /* of what is read, what has the shape of the operand */
    opf_info operand;
    int32_t first, last; /* the reduced axes are [first, last) */
} chain;

/* ---- the reduction ---- */

static bool check_axes(opf_fuse_context *context, opf_node_id id, chain *c, opf_refusal *why)
{
    const opf_graph *graph = context->graph;
    const opf_node *node = opf_graph_node(graph, id);
    const opf_value_id input = node->n_own_inputs > 1 ? node->inputs[1] : 0;
    const opf_const *axes = input != 0 ? opf_graph_value(graph, input)->constant : NULL;
    int64_t list[OPF_MAX_RANK];
    bool reduced[OPF_MAX_RANK];
    if (c->operand.rank < 0)
        return opf_refuse(context, why, OPF_MISS_SHAPE_UNKNOWN, id, "the rank of %s is not known",
                          opf_graph_value(graph, node->inputs[0])->name);
    if (input != 0 && (axes == NULL || axes->count > OPF_MAX_RANK))
        return opf_refuse(context, why, OPF_MISS_CONST, id, "its axes, %s, are known at run time only",
                          opf_graph_value(graph, input)->name);
    const int32_t n = axes != NULL ? (int32_t)axes->count : 0;
    for (int32_t i = 0; i < n; i++)
        list[i] = opf_const_i64_at(axes, (size_t)i);
    if (opf_reduce_mark(node, list, n, c->operand.rank, reduced, NULL) != OPF_OK ||
        !opf_reduce_find_run(reduced, c->operand.rank, &c->first, &c->last))
        return opf_refuse(context, why, OPF_MISS_NO_KERNEL, id,
                          "the axes that it reduces are not side by side: no kernel does that");
    return true;
}

/* ---- operands ---- */

static bool has_shape(opf_fuse_context *context, const chain *c, opf_value_id value)
{
    return opf_legal_same(context, &opf_graph_value(context->graph, value)->info, &c->operand, NULL);
}

/* Along the axes [first, last) of what is reduced the value has one element, or all. */
static bool is_whole(const chain *c, const opf_info *info, int32_t first, int32_t last)
{
    bool all = true, one = true;
    for (int32_t axis = first; axis < last; axis++) {
        const int32_t own = axis - (c->operand.rank - info->rank);
        const bool is_one = own < 0 || opf_dim_is(info->dims[own], 1);
        one = one && is_one;
        all = all &&
              (own >= 0 ? opf_dim_equal(info->dims[own], c->operand.dims[axis]) : opf_dim_is(c->operand.dims[axis], 1));
    }
    return one || all;
}

/* Kernels step along the reduced axes, and along those behind them, with one stride: another operand would first be
   written out as large as what is reduced. */
static bool check_operand(opf_fuse_context *context, const chain *c, opf_value_id value, opf_node_id at,
                          opf_refusal *why)
{
    const opf_value *v = opf_graph_value(context->graph, value);
    if (v->info.type != OPF_FLOAT)
        return opf_refuse(context, why, OPF_MISS_DTYPE, at, "%s has elements of type %s, must be float", v->name,
                          opf_type_name(v->info.type));
    if (v->info.rank < 0 || v->info.rank > c->operand.rank || !is_whole(c, &v->info, c->first, c->last) ||
        !is_whole(c, &v->info, c->last, c->operand.rank))
        return opf_refuse(
            context, why, OPF_MISS_NO_GAIN, at,
            "operand %s varies along some of the axes that are reduced, or lie behind those, and not along "
            "others: it would be copied to the size of what is reduced",
            v->name);
    return true;
}

/* It computes floats, element by element, of as many elements as are reduced. */
static bool may_be_step(opf_fuse_context *context, const chain *c, opf_node_id id, opf_refusal *why)
{
    const opf_node *node = opf_graph_node(context->graph, id);
    const opf_node_id half = opf_steps_other_half(context->graph, id);
    if (!has_shape(context, c, node->outputs[0]))
        return opf_refuse(context, why, OPF_MISS_SHAPE, id, "%s has another shape than what is reduced",
                          opf_graph_value(context->graph, node->outputs[0])->name);
    for (uint32_t i = 0; i < node->n_inputs; i++)
        if (node->inputs[i] != 0 && (half == 0 || opf_graph_value(context->graph, node->inputs[i])->producer != half) &&
            !check_operand(context, c, node->inputs[i], id, why))
            return false;
    return half != 0 || opf_steps_has_kernel(context->graph, id) ||
           opf_refuse(context, why, OPF_MISS_NO_KERNEL, id, "no kernel computes %s (%s)", node->name, node->op_type);
}

static bool is_elementwise(const opf_graph *graph, opf_node_id id)
{
    return opf_steps_is_candidate(graph, id) && (opf_graph_node(graph, id)->op->traits & OPF_ELEMENTWISE) != 0;
}

static bool is_region(const opf_node *node)
{
    return node->op == &opf_op_Identity && node->epilogue.n != 0 && node->n_outputs == 1;
}

/* ---- the nodes ---- */

static bool is_taken(const chain *c, opf_node_id id)
{
    for (uint32_t i = 0; i < c->n; i++)
        if (c->nodes[i] == id)
            return true;
    return false;
}

/* Counts what the nodes read from outside, and finds the main operand. False: too much, or there is none. */
static bool find_operands(opf_fuse_context *context, chain *c)
{
    const opf_graph *graph = context->graph;
    opf_value_id seen[OPF_MAX_STEPS * OPF_STEP_ARGS];
    uint32_t n = 0;
    c->main = 0;
    for (uint32_t k = c->n; k-- > 0;) {
        const opf_node *node = opf_graph_node(graph, c->nodes[k]);
        for (uint32_t i = 0; i < node->n_inputs; i++) {
            const opf_value_id value = node->inputs[i];
            bool known = value == 0 || is_taken(c, opf_graph_value(graph, value)->producer);
            for (uint32_t j = 0; j < n && !known; j++)
                known = seen[j] == value;
            if (known)
                continue;
            seen[n++] = value;
            if (c->main == 0 && opf_graph_value(graph, value)->constant == NULL && has_shape(context, c, value))
                c->main = value;
        }
    }
    return c->main != 0 && n <= OPF_MAX_STEP_OPERANDS;
}

/* With the other of two nodes that are one step. */
static void push(const opf_graph *graph, chain *c, opf_node_id id)
{
    const opf_node_id half = opf_steps_other_half(graph, id);
    c->nodes[c->n++] = id;
    if (half != 0)
        c->nodes[c->n++] = half;
}

/* Takes what makes an operand of a node inside, if all its readers are inside. */
static bool take(opf_fuse_context *context, chain *c, opf_value_id value)
{
    const opf_node_id id = value != 0 ? opf_graph_value(context->graph, value)->producer : 0;
    const uint32_t n = c->n;
    if (id == 0 || c->n + 2 > OPF_MAX_STEPS || is_taken(c, id) || !is_elementwise(context->graph, id) ||
        !may_be_step(context, c, id, NULL) || !opf_legal_uses(context, value, c->nodes, c->n, NULL))
        return false;
    push(context->graph, c, id);
    if (find_operands(context, c))
        return true;
    c->n = n;
    return false;
}

static void grow(opf_fuse_context *context, chain *c)
{
    for (bool grown = true; grown;) {
        grown = false;
        for (uint32_t k = 0; k < c->n; k++)
            for (uint32_t i = 0; i < opf_graph_node(context->graph, c->nodes[k])->n_inputs; i++)
                grown = take(context, c, opf_graph_node(context->graph, c->nodes[k])->inputs[i]) || grown;
    }
    (void)find_operands(context, c); /* of those that stayed */
}

static bool check_node(opf_fuse_context *context, chain *c, opf_node_id id, opf_refusal *why)
{
    if (!may_be_step(context, c, id, why))
        return false;
    push(context->graph, c, id);
    return find_operands(context, c) ||
           opf_refuse(context, why, OPF_MISS_SHAPE, id,
                      "no operand of %s is proven to have the shape of its result, over which the kernel runs",
                      opf_graph_node(context->graph, id)->name);
}

static bool check_region(opf_fuse_context *context, chain *c, opf_node_id id, opf_refusal *why)
{
    const opf_node *region = opf_graph_node(context->graph, id);
    c->region = id;
    c->main = region->inputs[0];
    for (uint32_t s = 0; s < region->epilogue.n; s++) {
        const opf_step *step = &region->epilogue.list[s];
        const bool makes_floats = step->type == OPF_FLOAT || step->op == &opf_op_IsNaN; /* a Where makes floats of it */
        if ((step->op->traits & OPF_ELEMENTWISE) == 0 || !makes_floats)
            return opf_refuse(context, why, OPF_MISS_DTYPE, id, "step %s makes %s, must make float", step->name,
                              opf_type_name(step->type));
    }
    for (uint32_t i = 0; i < region->n_inputs; i++)
        if (!check_operand(context, c, region->inputs[i], id, why))
            return false;
    return true;
}

static bool find_chain(opf_fuse_context *context, opf_node_id id, chain *c, opf_refusal *why)
{
    const opf_graph *graph = context->graph;
    const opf_node *node = opf_graph_node(graph, id);
    *c = (chain){0};
    *why = (opf_refusal){0};
    if (!opf_node_is_alive(node) || !opf_reduce_is_known(node) || node->prologue.n != 0 || node->inputs[0] == 0)
        return false;
    const opf_value *operand = opf_graph_value(graph, node->inputs[0]);
    const opf_node_id producer = operand->producer;
    const bool is_node = producer != 0 && is_elementwise(graph, producer);
    if (producer == 0 || (!is_node && !is_region(opf_graph_node(graph, producer))))
        return false;
    c->operand = operand->info;
    if (operand->info.type != OPF_FLOAT)
        return opf_refuse(context, why, OPF_MISS_DTYPE, id, "%s has elements of type %s, must be float", operand->name,
                          opf_type_name(operand->info.type));
    if (!opf_legal_read_once(context, node->inputs[0], id, why) || !check_axes(context, id, c, why))
        return false;
    if (!is_node)
        return check_region(context, c, producer, why);
    if (!check_node(context, c, producer, why))
        return false;
    grow(context, c);
    return true;
}

bool opf_reduce_may_compute(opf_fuse_context *context, opf_node_id reduction, opf_refusal *why)
{
    chain c;
    return find_chain(context, reduction, &c, why);
}

/* ---- applying ---- */

/* Each behind what makes its operands. */
static void sort_nodes(const opf_graph *graph, const chain *c, opf_step_plan *plan)
{
    while (plan->n < c->n)
        for (uint32_t k = c->n; k-- > 0;) {
            const opf_node *node = opf_graph_node(graph, c->nodes[k]);
            bool ready = true;
            for (uint32_t j = 0; j < plan->n; j++)
                ready = ready && plan->nodes[j] != c->nodes[k];
            for (uint32_t i = 0; ready && i < node->n_inputs; i++) {
                const opf_node_id producer =
                    node->inputs[i] != 0 ? opf_graph_value(graph, node->inputs[i])->producer : 0;
                bool is_there = !is_taken(c, producer);
                for (uint32_t j = 0; j < plan->n && !is_there; j++)
                    is_there = plan->nodes[j] == producer;
                ready = is_there;
            }
            if (ready)
                plan->nodes[plan->n++] = c->nodes[k];
        }
}

/* The steps of a region move in front of the reduction. */
static bool move_region(opf_graph *graph, opf_node_id id, opf_node_id region)
{
    const opf_node from = *opf_graph_node(graph, region);
    const uint32_t before = opf_graph_node(graph, id)->n_inputs;
    opf_step *list = opf_arena_copy(graph->arena, from.epilogue.list, from.epilogue.n * sizeof *list);
    opf_value_id *inputs = opf_arena_copy(graph->arena, from.inputs, from.n_inputs * sizeof *inputs);
    if (list == NULL || inputs == NULL || !opf_node_join_origin(graph, id, region))
        return false;
    for (uint32_t s = 0; s < from.epilogue.n; s++)
        for (uint32_t a = 0; a < list[s].n_args; a++)
            if (list[s].args[a].kind == OPF_ARG_INPUT)
                list[s].args[a].index += before - from.n_own_inputs;
    opf_graph_remove_node(graph, region);
    if (!opf_graph_set_input(graph, id, 0, inputs[0]))
        return false;
    for (uint32_t i = from.n_own_inputs; i < from.n_inputs; i++)
        if (!opf_steps_append_operand(graph, id, inputs[i]))
            return false;
    opf_graph_node(graph, id)->prologue = (opf_steps){.list = list, .n = from.epilogue.n, .capacity = from.epilogue.n};
    return true;
}

static opf_status absorb(opf_fuse_context *context, opf_node_id id, bool *changed, opf_error *error)
{
    opf_graph *graph = context->graph;
    chain c;
    opf_refusal why;
    if (!find_chain(context, id, &c, &why)) {
        OPF_OOM_IF(error, !opf_report_refusal(context, rule, id, &why, 1, 2));
        return OPF_OK;
    }
    if (!opf_fuse_allows(context, rule, id))
        return OPF_OK;
    if (c.region == 0) {
        opf_step_plan plan = {.context = context, .plain = c.main, .result = c.operand};
        sort_nodes(graph, &c, &plan);
        OPF_TRY(opf_steps_apply(&plan, 0, plan.n, error));
        c.region = plan.anchor;
    }
    OPF_OOM_IF(error, !move_region(graph, id, c.region));
    *changed = true;
    return opf_fuse_done(context, rule, id, error);
}

opf_status opf_absorb_reduce(opf_fuse_context *context, bool *changed, opf_error *error)
{
    for (opf_node_id id = 1; id < context->graph->n_nodes; id++)
        OPF_TRY(absorb(context, id, changed, error));
    return OPF_OK;
}
