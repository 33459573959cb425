/* SPDX-License-Identifier: Apache-2.0 */
/* What has no kernel runs its operator's reference kernel, and its steps one after the other, as one step of the plan. */
#include "ops/infer.h"
#include "plan/planner.h"

#include <string.h>

typedef struct {
    const opf_op   *op;
    const opf_node *node;
    const opf_attr *attrs;
    uint32_t        n_attrs, n_in, n_out;
    opf_place      *in, *out; /* buffer 0: absent */
} reference_call;

typedef struct {
    reference_call *calls;
    uint32_t        n;
    size_t          scratch;
} reference_args;

static opf_view view_of(const opf_run_env *env, const opf_place *place)
{
    opf_view view = {.type = place->type, .rank = place->rank};
    memcpy(view.dims, place->dims, sizeof view.dims);
    memcpy(view.strides, place->strides, sizeof view.strides);
    view.data = place->buffer == 0 ? NULL : opf_ref_data(env, opf_place_ref(place));
    return view;
}

enum { VIEWS = 32 }; /* of one call that fit the stack */

static opf_status call_reference(const opf_run_env *env, const reference_call *c, opf_view *views, opf_error *error)
{
    for (uint32_t k = 0; k < c->n_in; k++)
        views[k] = view_of(env, &c->in[k]);
    for (uint32_t k = 0; k < c->n_out; k++)
        views[c->n_in + k] = view_of(env, &c->out[k]);
    opf_call call = {.node    = c->node,
                     .attrs   = c->attrs,
                     .n_attrs = c->n_attrs,
                     .in      = views,
                     .n_in    = c->n_in,
                     .out     = views + c->n_in,
                     .n_out   = c->n_out,
                     .heap    = env->heap};
    return c->op->reference(&call, error);
}

static opf_status run_reference(const opf_run_env *env, const void *args, opf_error *error)
{
    const reference_args *r      = args;
    opf_status            status = OPF_OK;
    for (uint32_t i = 0; i < r->n && status == OPF_OK; i++) {
        opf_view  few[VIEWS], *views = few;
        size_t    n = (size_t)r->calls[i].n_in + r->calls[i].n_out;
        if (n > VIEWS)
            views = opf_heap_alloc(env->heap, n * sizeof *views);
        OPF_OOM_IF(error, views == NULL);
        status = call_reference(env, &r->calls[i], views, error);
        if (views != few)
            opf_heap_free(env->heap, views, n * sizeof *views);
    }
    return status;
}

static opf_status add_call(opf_planner *planner, reference_args *r, const reference_call *call, opf_error *error)
{
    OPF_FAIL_IF(error, call->op->reference == NULL, OPF_UNSUPPORTED, "operator %s has no kernel", call->op->name);
    r->calls[r->n]     = *call;
    r->calls[r->n].in  = OPF_NEW(planner->arena, opf_place, call->n_in);
    r->calls[r->n].out = OPF_NEW(planner->arena, opf_place, call->n_out);
    OPF_OOM_IF(error, r->calls[r->n].in == NULL || r->calls[r->n].out == NULL);
    r->n++;
    return OPF_OK;
}

/* A step has the anchor's dims; one that reads operands alone has their common ones. */
static opf_status step_dims(opf_planner *planner, const opf_node *node, const opf_step *step, const opf_place *anchor, opf_place *shape,
                            opf_error *error)
{
    bool outside = true;
    for (uint32_t k = 0; k < step->n_args; k++)
        outside = outside && (step->args[k].kind == OPF_ARG_INPUT || step->args[k].kind == OPF_ARG_NONE);
    memcpy(shape->dims, anchor->dims, sizeof shape->dims);
    for (int32_t i = 0; outside && i < shape->rank; i++)
        shape->dims[i] = 1;
    for (uint32_t k = 0; outside && k < step->n_args; k++) {
        opf_place place = {0};
        if (step->args[k].kind == OPF_ARG_INPUT)
            OPF_TRY(opf_plan_place(planner, node->inputs[step->args[k].index], &place, error));
        for (int32_t i = 0; i < place.rank; i++)
            if (place.dims[i] != 1)
                shape->dims[shape->rank - place.rank + i] = place.dims[i];
    }
    return OPF_OK;
}

/* Reference kernels write on any strides, but for types that are packed. */
static opf_status alloc_result(opf_planner *planner, opf_value_id value, opf_place *place, opf_error *error)
{
    const bool any = !planner->options->reference && opf_type_size(planner->infos[value].type) != 0;
    if (!opf_plan_slice(planner, value, place))
        return opf_plan_alloc_slice(planner, value, any ? planner->order_of[value] : NULL, place, error);
    planner->places[value] = *place;
    return OPF_OK;
}

/* The steps of a list, on `anchor`; the last one's place is *result. results[i] keeps the place of step i. */
static opf_status add_steps(opf_planner *planner, const opf_node *node, const opf_steps *steps, const opf_place *anchor, opf_value_id last_value,
                            reference_args *r, opf_place *result, opf_error *error)
{
    *result = *anchor;
    if (steps->n == 0)
        return OPF_OK;
    opf_place *results = OPF_NEW(planner->arena, opf_place, steps->n);
    OPF_OOM_IF(error, results == NULL);
    for (uint32_t i = 0; i < steps->n; i++) {
        const opf_step *step   = &steps->list[i];
        opf_value_id    stored = i + 1 == steps->n && last_value != 0 ? last_value : step->output >= 0 ? node->outputs[step->output] : 0;
        opf_place shape = {.rank = anchor->rank};
        OPF_TRY(step_dims(planner, node, step, anchor, &shape, error));
        if (stored != 0)
            OPF_TRY(alloc_result(planner, stored, &results[i], error));
        else
            OPF_TRY(opf_plan_alloc_temporary(planner, step->type, shape.rank, shape.dims, NULL, &results[i], error));
        reference_call call = {.op = step->op, .node = node, .attrs = step->attrs, .n_attrs = step->n_attrs, .n_in = step->n_args, .n_out = 1};
        OPF_TRY(add_call(planner, r, &call, error));
        reference_call *c = &r->calls[r->n - 1];
        c->out[0]         = results[i];
        for (uint32_t k = 0; k < step->n_args; k++) {
            opf_arg arg = step->args[k];
            if (arg.kind == OPF_ARG_ANCHOR)
                c->in[k] = *anchor;
            else if (arg.kind == OPF_ARG_STEP)
                c->in[k] = results[arg.index];
            else if (arg.kind == OPF_ARG_INPUT)
                OPF_TRY(opf_plan_place(planner, node->inputs[arg.index], &c->in[k], error));
        }
    }
    *result = results[steps->n - 1];
    return OPF_OK;
}

opf_status opf_lower_reference(opf_planner *planner, opf_node_id id, bool *done, opf_error *error)
{
    const opf_node *node = opf_graph_node(planner->graph, id);
    reference_args *r    = OPF_NEW(planner->arena, reference_args, 1);
    OPF_OOM_IF(error, r == NULL);
    r->calls = OPF_NEW(planner->arena, reference_call, 1 + node->prologue.n + node->epilogue.n);
    OPF_OOM_IF(error, r->calls == NULL);
    *done = true;
    opf_place input = {0}, first = {0}, anchor, result;
    if (node->n_own_inputs != 0 && node->inputs[0] != 0)
        OPF_TRY(opf_plan_place(planner, node->inputs[0], &first, error));
    OPF_TRY(add_steps(planner, node, &node->prologue, &first, 0, r, &input, error));
    reference_call call = {.op = node->op, .node = node, .attrs = node->attrs, .n_attrs = node->n_attrs, .n_in = node->n_own_inputs, .n_out = node->n_own_outputs};
    OPF_TRY(add_call(planner, r, &call, error));
    reference_call *c = &r->calls[r->n - 1];
    for (uint32_t i = 0; i < node->n_own_inputs; i++)
        if (i == 0)
            c->in[0] = input;
        else if (node->inputs[i] != 0)
            OPF_TRY(opf_plan_place(planner, node->inputs[i], &c->in[i], error));
    for (uint32_t o = 0; o < node->n_own_outputs; o++) {
        if (node->outputs[o] == 0)
            continue;
        if (o == 0 && node->epilogue.n != 0) {
            const opf_info *info = &planner->infos[node->outputs[0]];
            const opf_type  own  = opf_infer_own_type(planner->graph, id);
            int64_t         dims[OPF_MAX_RANK];
            for (int32_t i = 0; i < info->rank; i++)
                dims[i] = info->dims[i].n;
            OPF_TRY(opf_plan_alloc_temporary(planner, own != OPF_TYPE_NONE ? own : info->type, info->rank, dims, NULL, &c->out[0], error));
        } else {
            OPF_TRY(alloc_result(planner, node->outputs[o], &c->out[o], error));
        }
    }
    anchor = c->out[0];
    OPF_TRY(add_steps(planner, node, &node->epilogue, &anchor, node->outputs[0], r, &result, error));
    opf_plan_step step = {.kernel = "reference", .check = run_reference, .args = r};
    OPF_TRY(opf_plan_add_step(planner, &step, error));
    for (uint32_t i = 0; i < r->n; i++) {
        for (uint32_t k = 0; k < r->calls[i].n_in; k++)
            opf_plan_reads(planner, &r->calls[i].in[k]);
        for (uint32_t k = 0; k < r->calls[i].n_out; k++)
            opf_plan_writes(planner, &r->calls[i].out[k]);
    }
    return OPF_OK;
}
