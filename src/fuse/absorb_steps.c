/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/absorb_steps.h"

#include <string.h>

/* How far a chain is followed back to the contraction that hosts it. */
enum { MAX_HOSTED = 8 };

static bool is_plain(const opf_node *node)
{
    return opf_node_is_alive(node) && node->op != NULL && node->n_bodies == 0 && node->prologue.n == 0 &&
           node->epilogue.n == 0;
}

bool opf_steps_is_candidate(const opf_graph *graph, opf_node_id id)
{
    const opf_node *node = opf_graph_node(graph, id);
    return id != 0 && is_plain(node) && node->n_outputs == 1 &&
           ((node->op->traits & OPF_ELEMENTWISE) != 0 || opf_steps_is_conversion(graph, id)) && node->outputs[0] != 0 &&
           node->n_own_inputs == node->n_inputs && node->n_inputs >= 1 && node->n_inputs <= OPF_STEP_ARGS &&
           node->inputs[0] != 0;
}

bool opf_steps_is_anchor(const opf_node *node)
{
    if (!opf_node_is_alive(node) || node->op == NULL || node->n_bodies != 0 || node->n_outputs == 0 ||
        node->outputs[0] == 0)
        return false;
    return (node->op->traits & (OPF_CONTRACTION | OPF_NORMALIZATION | OPF_REDUCTION)) != 0 ||
           node->op == &opf_op_AveragePool || node->op == &opf_op_MaxPool || node->op == &opf_op_GlobalAveragePool ||
           node->op == &opf_op_GlobalMaxPool || node->op == &opf_op_Resize ||
           (node->op == &opf_op_Identity && node->epilogue.n != 0);
}

bool opf_steps_is_hosted(const opf_graph *graph, opf_value_id value)
{
    for (int depth = 0; depth < MAX_HOSTED; depth++) {
        const opf_node_id producer = opf_graph_value(graph, value)->producer;
        const opf_node *node = opf_graph_node(graph, producer);
        if (producer == 0 || opf_graph_single_use(graph, value) == NULL)
            return false;
        if (node->op != NULL && (node->op->traits & OPF_CONTRACTION) != 0)
            return value == node->outputs[0];
        if (!opf_steps_is_candidate(graph, producer) ||
            (!opf_steps_has_kernel(graph, producer) && opf_steps_other_half(graph, producer) == 0))
            return false;
        /* Follow the operand that is not a constant. */
        const bool first = opf_graph_value(graph, node->inputs[0])->constant == NULL;
        value = first || node->n_inputs < 2 || node->inputs[1] == 0 ? node->inputs[0] : node->inputs[1];
    }
    return false;
}

bool opf_steps_append_operand(opf_graph *graph, opf_node_id id, opf_value_id value)
{
    const uint32_t own = opf_graph_node(graph, id)->n_own_inputs;
    if (!opf_graph_append_input(graph, id, value))
        return false;
    opf_graph_node(graph, id)->n_own_inputs = own;
    return true;
}

/* ---- growing ---- */

static bool is_taken(const opf_step_plan *plan, opf_node_id node)
{
    for (uint32_t i = 0; i < plan->n; i++)
        if (plan->nodes[i] == node)
            return true;
    return false;
}

/* The epilogue's step that is stored as this output; the last one is output 0. */
static bool is_step_output(const opf_node *anchor, uint32_t output)
{
    if (output == 0)
        return true;
    for (uint32_t s = 0; s < anchor->epilogue.n; s++)
        if (anchor->epilogue.list[s].output == (int32_t)output)
            return true;
    return false;
}

static bool is_inside(const opf_step_plan *plan, opf_value_id value)
{
    const opf_value *v = opf_graph_value(plan->context->graph, value);
    if (value == plan->plain)
        return true;
    if (v->producer == 0)
        return false;
    if (v->producer == plan->anchor)
        return is_step_output(opf_graph_node(plan->context->graph, plan->anchor), v->producer_output);
    return is_taken(plan, v->producer);
}

static const char *shape_string(const opf_step_plan *plan, const opf_info *info)
{
    const char *text = opf_info_string(info, plan->context->graph->dims, plan->context->scratch);
    return text != NULL ? text : "?";
}

/* The operand that makes the result larger, for the message. */
static const opf_info *enlarging_operand(const opf_step_plan *plan, const opf_node *node)
{
    const opf_graph *graph = plan->context->graph;
    for (uint32_t i = 0; i < node->n_inputs; i++)
        if (node->inputs[i] != 0 && !is_inside(plan, node->inputs[i]))
            return &opf_graph_value(graph, node->inputs[i])->info;
    return &opf_graph_value(graph, node->outputs[0])->info;
}

/* All axes but the last are of size 1. */
static bool is_row(const opf_info *info, int32_t rank)
{
    bool row = info->rank > 0 && info->rank <= rank;
    for (int32_t i = 0; row && i + 1 < info->rank; i++)
        row = opf_dim_is(info->dims[i], 1);
    return row;
}

/* A row whose length nobody has proven to be that of the result, a scale a column of an integer product: a run in which
   it is another uses the graph as loaded. */
static bool suppose_row(opf_step_plan *plan, opf_node_id id)
{
    const opf_graph *graph = plan->context->graph;
    const opf_node *node = opf_graph_node(graph, id), *anchor = opf_graph_node(graph, plan->anchor);
    if (plan->anchor == 0 || (anchor->op->traits & OPF_CONTRACTION) == 0 || node->n_inputs != 2 ||
        plan->result.rank < 1)
        return false;
    for (uint32_t i = 0; i < 2; i++) {
        const opf_info *row = &opf_graph_value(graph, node->inputs[i])->info;
        if (!is_inside(plan, node->inputs[i]) && is_inside(plan, node->inputs[1 - i]) &&
            is_row(row, plan->result.rank) &&
            opf_fuse_suppose_fits(plan->context, row->dims[row->rank - 1], plan->result.dims[plan->result.rank - 1]))
            return true;
    }
    return false;
}

static bool has_shape(const opf_step_plan *plan, opf_node_id id, opf_refusal *why)
{
    const opf_graph *graph = plan->context->graph;
    opf_info out = opf_graph_value(graph, opf_graph_node(graph, id)->outputs[0])->info;
    out.type = plan->result.type; /* types are another matter */
    return opf_legal_same(plan->context, &out, &plan->result, why);
}

static bool check_shape(opf_step_plan *plan, opf_node_id id)
{
    const opf_node *node = opf_graph_node(plan->context->graph, id);
    opf_refusal ignored;
    if (has_shape(plan, id, &ignored))
        return true;
    if (ignored.code == OPF_MISS_SHAPE_UNKNOWN && suppose_row(plan, id) &&
        opf_fuse_infer(plan->context, id, NULL) == OPF_OK && has_shape(plan, id, &ignored))
        return true;
    const opf_miss_code code = ignored.code == OPF_MISS_RANK ? OPF_MISS_SHAPE : ignored.code;
    return opf_refuse(plan->context, &plan->why, code, id, "operand is %s, must be %s or broadcast to it",
                      shape_string(plan, enlarging_operand(plan, node)), shape_string(plan, &plan->result));
}

static bool check_operands(opf_step_plan *plan, opf_node_id id)
{
    const opf_graph *graph = plan->context->graph;
    const opf_node *node = opf_graph_node(graph, id);
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const opf_value_id value = node->inputs[i];
        if (value == 0 || opf_graph_value(graph, value)->producer == 0 || is_inside(plan, value))
            continue;
        if (opf_legal_depends(plan->context, value, plan->root))
            return opf_refuse(plan->context, &plan->why, OPF_MISS_NOT_CONVEX, id,
                              "operand %s is computed from the result of %s", opf_graph_value(graph, value)->name,
                              opf_graph_node(graph, plan->root)->name);
    }
    return true;
}

static bool may_take(opf_step_plan *plan, opf_node_id id)
{
    return opf_steps_check_types(plan, id) && check_shape(plan, id) && check_operands(plan, id);
}

/* Arithmetic on one row or one number: computed again for each row, beside a contraction it costs nothing. */
static bool is_row_arithmetic(const opf_step_plan *plan, const opf_node *node)
{
    const opf_graph *graph = plan->context->graph;
    const opf_node *anchor = opf_graph_node(graph, plan->anchor);
    const opf_info *info = &opf_graph_value(graph, node->outputs[0])->info;
    const bool arithmetic =
        node->op == &opf_op_Mul || node->op == &opf_op_Add || node->op == &opf_op_Sub || node->op == &opf_op_Div;
    return plan->anchor != 0 && (anchor->op->traits & OPF_CONTRACTION) != 0 && arithmetic &&
           (info->rank == 0 || is_row(info, plan->result.rank));
}

/* An elementwise node that only `reader` reads goes along: its operands cannot depend on the host, for the reader's do
   not. What a contraction hosts stays there, and a smaller result is not computed over and over. */
static bool may_pull(opf_step_plan *plan, opf_value_id value, opf_node_id reader)
{
    const opf_graph *graph = plan->context->graph;
    const opf_value *v = opf_graph_value(graph, value);
    const opf_refusal kept = plan->why;
    if (v->producer == 0 || !opf_steps_is_candidate(graph, v->producer) || is_taken(plan, v->producer) ||
        opf_steps_is_hosted(graph, value))
        return false;
    for (uint32_t i = 0; i < v->n_uses; i++)
        if (v->uses[i].node != reader)
            return false;
    const bool allowed =
        opf_steps_check_types(plan, v->producer) &&
        (is_row_arithmetic(plan, opf_graph_node(graph, v->producer)) || check_shape(plan, v->producer));
    plan->why = kept;
    return allowed;
}

static void push(opf_step_plan *plan, opf_node_id node, bool pulled)
{
    plan->pulled[plan->n] = pulled;
    plan->nodes[plan->n++] = node;
}

static void pull(opf_step_plan *plan, opf_node_id reader, uint32_t room)
{
    const opf_node *node = opf_graph_node(plan->context->graph, reader);
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const opf_value_id value = node->inputs[i];
        if (value == 0 || is_inside(plan, value) || plan->n + room >= OPF_MAX_STEPS || !may_pull(plan, value, reader))
            continue;
        const opf_node_id producer = opf_graph_value(plan->context->graph, value)->producer;
        const opf_node_id half = opf_steps_other_half(plan->context->graph, producer);
        if (half != 0 && plan->n + room + 1 >= OPF_MAX_STEPS)
            continue;
        pull(plan, half != 0 ? half : producer, room + 1 + (half != 0));
        if (half != 0)
            push(plan, half, true);
        push(plan, producer, true);
    }
}

/* Values that the anchor's steps and those taken so far read from outside. */
static uint32_t count_operands(const opf_step_plan *plan)
{
    const opf_graph *graph = plan->context->graph;
    const opf_node *anchor = opf_graph_node(graph, plan->anchor);
    const uint32_t own = plan->anchor != 0 ? anchor->n_own_inputs : 0;
    opf_value_id seen[OPF_MAX_STEPS * OPF_STEP_ARGS];
    uint32_t n = 0, before = plan->anchor != 0 ? anchor->n_inputs - own : 0;
    for (uint32_t k = 0; k < plan->n; k++) {
        const opf_node *node = opf_graph_node(graph, plan->nodes[k]);
        for (uint32_t i = 0; i < node->n_inputs; i++) {
            bool known = node->inputs[i] == 0 || is_inside(plan, node->inputs[i]);
            for (uint32_t j = 0; j < before && !known; j++)
                known = anchor->inputs[own + j] == node->inputs[i];
            for (uint32_t j = 0; j < n && !known; j++)
                known = seen[j] == node->inputs[i];
            if (!known)
                seen[n++] = node->inputs[i];
        }
    }
    return before + n;
}

bool opf_steps_take(opf_step_plan *plan, opf_node_id id)
{
    const opf_node *anchor = opf_graph_node(plan->context->graph, plan->anchor);
    const uint32_t existing = plan->anchor != 0 ? anchor->epilogue.n : 0;
    const opf_node_id half = opf_steps_other_half(plan->context->graph, id);
    const bool is_second = opf_steps_is_second(plan->context->graph, id);
    const bool is_closed = plan->n != 0 && opf_steps_is_last(plan->context->graph, plan->nodes[plan->n - 1]);
    if (is_second || is_closed || plan->n + existing + (half != 0) >= OPF_MAX_STEPS ||
        count_operands(plan) + OPF_STEP_ARGS > OPF_MAX_STEP_OPERANDS || !may_take(plan, id))
        return false;
    pull(plan, id, 1 + existing + (half != 0));
    push(plan, id, half != 0);
    if (half != 0)
        push(plan, half, false);
    return true;
}

static void consider(const opf_step_plan *plan, opf_value_id value, opf_node_id after, opf_node_id *next)
{
    const opf_value *v = opf_graph_value(plan->context->graph, value);
    for (uint32_t i = 0; i < v->n_uses; i++) {
        const opf_node_id reader = v->uses[i].node;
        if (reader > after && (*next == 0 || reader < *next) && !is_taken(plan, reader) &&
            opf_steps_is_candidate(plan->context->graph, reader))
            *next = reader;
    }
}

/* The elementwise reader of anything inside with the smallest id above `after`; 0: none. */
static opf_node_id next_reader(const opf_step_plan *plan, opf_node_id after)
{
    const opf_graph *graph = plan->context->graph;
    opf_node_id next = 0;
    if (plan->anchor != 0) {
        const opf_node *anchor = opf_graph_node(graph, plan->anchor);
        for (uint32_t o = 0; o < anchor->n_outputs; o++)
            if (anchor->outputs[o] != 0 && is_step_output(anchor, o))
                consider(plan, anchor->outputs[o], after, &next);
    }
    for (uint32_t i = 0; i < plan->n; i++)
        consider(plan, opf_graph_node(graph, plan->nodes[i])->outputs[0], after, &next);
    return next;
}

void opf_steps_grow(opf_step_plan *plan)
{
    opf_refusal first = {0};
    for (opf_node_id reader = next_reader(plan, 0); reader != 0;) {
        plan->why = (opf_refusal){0};
        const bool taken = opf_steps_take(plan, reader);
        if (!taken && plan->refused == 0 && plan->why.reason != NULL) {
            plan->refused = reader;
            first = plan->why;
        }
        if (taken && is_taken(plan, plan->refused)) /* it was refused before its operands were inside */
            plan->refused = 0;
        reader = next_reader(plan, taken ? 0 : reader);
    }
    plan->why = first;
}

const opf_use *opf_steps_outside_use(const opf_step_plan *plan, uint32_t n)
{
    const opf_value *plain = opf_graph_value(plan->context->graph, plan->plain);
    for (uint32_t i = 0; plan->plain != 0 && i < plain->n_uses; i++) {
        bool inside = false;
        for (uint32_t k = 0; k < n && !inside; k++)
            inside = plain->uses[i].node == plan->nodes[k];
        if (!inside)
            return &plain->uses[i];
    }
    return NULL;
}

/* ---- applying ---- */

typedef struct step_values {
    opf_value_id of[OPF_MAX_STEPS]; /* the value that step s was; 0: a value no more */
} step_values;

static void get_step_values(const opf_node *anchor, step_values *values)
{
    memset(values, 0, sizeof *values);
    for (uint32_t s = 0; s < anchor->epilogue.n; s++) {
        const int32_t output = s + 1 == anchor->epilogue.n ? 0 : anchor->epilogue.list[s].output;
        values->of[s] = output >= 0 ? anchor->outputs[output] : 0;
    }
}

/* The operand of a step: `value` among the steps, or an input of the anchor, appended if it is not there. */
static bool make_arg(opf_step_plan *plan, const step_values *values, opf_value_id value, opf_arg *arg)
{
    opf_graph *graph = plan->context->graph;
    opf_node *anchor = opf_graph_node(graph, plan->anchor);
    *arg = (opf_arg){.kind = OPF_ARG_NONE};
    if (value == 0)
        return true;
    if (value == plan->plain) {
        arg->kind = OPF_ARG_ANCHOR;
        return true;
    }
    for (uint32_t s = 0; s < anchor->epilogue.n; s++)
        if (values->of[s] == value) {
            *arg = (opf_arg){.kind = OPF_ARG_STEP, .index = s};
            return true;
        }
    for (uint32_t i = anchor->n_own_inputs; i < anchor->n_inputs; i++)
        if (anchor->inputs[i] == value) {
            *arg = (opf_arg){.kind = OPF_ARG_INPUT, .index = i};
            return true;
        }
    *arg = (opf_arg){.kind = OPF_ARG_INPUT, .index = anchor->n_inputs};
    return opf_steps_append_operand(graph, plan->anchor, value);
}

static bool add_step(opf_step_plan *plan, step_values *values, const opf_node *node)
{
    opf_graph *graph = plan->context->graph;
    opf_step step = {.op = node->op,
                     .op_type = node->op_type,
                     .type = opf_graph_value(graph, node->outputs[0])->info.type,
                     .attrs = node->attrs,
                     .n_attrs = node->n_attrs,
                     .n_args = node->n_inputs,
                     .output = -1,
                     .name = node->name};
    for (uint32_t i = 0; i < node->n_inputs; i++)
        if (!make_arg(plan, values, node->inputs[i], &step.args[i]))
            return false;
    opf_steps *steps = &opf_graph_node(graph, plan->anchor)->epilogue;
    values->of[steps->n] = node->outputs[0];
    return OPF_PUSH(graph->arena, steps->list, steps->n, steps->capacity, step);
}

/* Takes output o (an extra one) away and moves the later ones up. */
static void drop_output(opf_graph *graph, opf_node_id id, uint32_t o)
{
    opf_node *node = opf_graph_node(graph, id);
    if (node->outputs[o] != 0)
        opf_graph_value(graph, node->outputs[o])->producer = 0;
    for (uint32_t i = o + 1; i < node->n_outputs; i++) {
        node->outputs[i - 1] = node->outputs[i];
        if (node->outputs[i] != 0)
            opf_graph_value(graph, node->outputs[i])->producer_output = i - 1;
    }
    node->n_outputs--;
    const opf_steps *lists[] = {&node->prologue, &node->epilogue};
    for (uint32_t k = 0; k < 2; k++)
        for (uint32_t s = 0; s < lists[k]->n; s++) {
            opf_step *step = &lists[k]->list[s];
            if (step->output == (int32_t)o)
                step->output = -1;
            else if (step->output > (int32_t)o)
                step->output--;
        }
}

/* The last step is output 0; an earlier one is stored if and only if something outside reads it. */
static bool place_results(opf_graph *graph, opf_node_id anchor, const step_values *values)
{
    const uint32_t last = opf_graph_node(graph, anchor)->epilogue.n - 1;
    if (!opf_graph_set_output(graph, anchor, 0, values->of[last]))
        return false;
    for (uint32_t s = 0; s < last; s++) {
        opf_step *step = &opf_graph_node(graph, anchor)->epilogue.list[s];
        const bool is_read = values->of[s] != 0 && opf_graph_value(graph, values->of[s])->n_uses != 0;
        if (is_read && step->output < 0) {
            step->output = (int32_t)opf_graph_node(graph, anchor)->n_outputs;
            if (!opf_graph_append_output(graph, anchor, values->of[s]))
                return false;
        } else if (!is_read && step->output >= 0) {
            drop_output(graph, anchor, (uint32_t)step->output);
        }
    }
    return true;
}

opf_status opf_steps_apply(opf_step_plan *plan, uint32_t first, uint32_t end, opf_error *error)
{
    opf_graph *graph = plan->context->graph;
    opf_node copies[OPF_MAX_STEPS];
    step_values values;
    for (uint32_t i = first; i < end; i++)
        copies[i] = *opf_graph_node(graph, plan->nodes[i]);
    if (plan->anchor == 0) {
        /* The region takes the name of its first node, which is free once that is removed. */
        const opf_value_id none = 0;
        for (uint32_t i = first; i < end; i++)
            opf_graph_remove_node(graph, plan->nodes[i]);
        plan->anchor = opf_graph_add_node(graph, &opf_op_Identity, opf_op_Identity.name, copies[first].name,
                                          &plan->plain, 1, &none, 1);
        OPF_OOM_IF(error, plan->anchor == 0);
    }
    get_step_values(opf_graph_node(graph, plan->anchor), &values);
    for (uint32_t i = first; i < end; i++)
        for (uint32_t o = 0; o < copies[i].n_origin; o++)
            OPF_OOM_IF(error, !opf_node_add_origin(graph, plan->anchor, copies[i].origin[o]));
    for (uint32_t i = first; i < end; i++)
        if (opf_node_is_alive(opf_graph_node(graph, plan->nodes[i])))
            opf_graph_remove_node(graph, plan->nodes[i]);
    for (uint32_t i = first; i < end; i++)
        OPF_OOM_IF(error, !add_step(plan, &values, &copies[i]));
    OPF_OOM_IF(error, !place_results(graph, plan->anchor, &values));
    return OPF_OK;
}
