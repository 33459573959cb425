/* SPDX-License-Identifier: Apache-2.0 */
/* What callers hand to a run: inputs that must suit the model, and buffers for outputs that must be large enough and apart. */
#include "exec/session.h"

#include <string.h>

/* ---- inputs ---- */

static const char *constant_input(const opf_session *s)
{
    return s->model->loaded.n_constant_inputs != 0 ? s->model->loaded.constant_inputs[0] : NULL;
}

static opf_status check_input(const opf_session *s, uint32_t i, const opf_tensor *tensor, opf_error *error)
{
    const opf_graph *graph = s->model->loaded.graph;
    const opf_value *value = opf_graph_value(graph, graph->inputs[i]);
    const opf_info  *info  = &value->info;
    OPF_FAIL_IF(error, tensor->type != info->type && info->type != OPF_TYPE_NONE, OPF_INVALID_INPUT, "input %s is %s, must be %s", value->name,
                opf_type_name(tensor->type), opf_type_name(info->type));
    OPF_FAIL_IF(error, tensor->rank < 0 || tensor->rank > OPF_MAX_RANK, OPF_INVALID_INPUT, "input %s has rank %d", value->name, tensor->rank);
    OPF_FAIL_IF(error, info->rank >= 0 && tensor->rank != info->rank, OPF_INVALID_INPUT, "input %s has rank %d, must have %d", value->name,
                tensor->rank, info->rank);
    size_t count = 1, bytes;
    for (int32_t k = 0; k < tensor->rank; k++) {
        int64_t n = tensor->dims[k];
        OPF_FAIL_IF(error, n < 0 || !opf_mul_size(count, (size_t)n, &count), OPF_INVALID_INPUT, "dimension %d of input %s is %lld", k, value->name,
                    (long long)n);
        OPF_FAIL_IF(error, info->rank >= 0 && opf_dim_is_number(info->dims[k]) && info->dims[k].n != n, OPF_INVALID_INPUT,
                    "dimension %d of input %s is %lld, must be %lld", k, value->name, (long long)n, (long long)info->dims[k].n);
    }
    OPF_FAIL_IF(error, !opf_type_bytes(tensor->type, count, &bytes), OPF_INVALID_INPUT, "input %s is too large", value->name);
    OPF_FAIL_IF(error, tensor->data != NULL && tensor->bytes < bytes, OPF_INVALID_INPUT, "input %s has %zu bytes, its shape needs %zu", value->name,
                tensor->bytes, bytes);
    size_t size = opf_type_size(tensor->type);
    OPF_FAIL_IF(error, size > 1 && (uintptr_t)tensor->data % size != 0, OPF_INVALID_ARGUMENT, "the buffer of input %s is not aligned to %zu bytes",
                value->name, size);
    return OPF_OK;
}

static bool is_given(const opf_tensor *inputs, size_t n, uint32_t i, bool with_data)
{
    return i < n && (inputs[i].data != NULL || (!with_data && inputs[i].type != OPF_TYPE_NONE));
}

/* A run that feeds no input with a default sees constants there. */
static bool may_freeze(const opf_session *s, const opf_tensor *inputs, size_t n, bool with_data)
{
    bool any = false;
    for (uint32_t i = 0; s->frozen != NULL && i < s->graph->n_inputs; i++)
        any = any || (s->model->loaded.defaults[i] != NULL && is_given(inputs, n, i, with_data));
    return s->frozen != NULL && !any;
}

/* The default as if the caller had given it; its data only for a graph that reads it from there. */
static opf_status take_default(const opf_session *s, const opf_const *fallback, opf_tensor *tensor, opf_error *error)
{
    *tensor = (opf_tensor){.type = fallback->type, .rank = fallback->rank, .bytes = opf_const_size(fallback)};
    memcpy(tensor->dims, fallback->dims, (size_t)fallback->rank * sizeof *fallback->dims);
    if (s->is_frozen)
        return OPF_OK;
    tensor->data = (void *)(uintptr_t)opf_weights_plain(s->model->weights, fallback);
    OPF_OOM_IF(error, tensor->data == NULL);
    return OPF_OK;
}

static size_t count_elements(const opf_tensor *tensor)
{
    size_t count = 1;
    for (int32_t k = 0; k < tensor->rank; k++)
        count *= (size_t)tensor->dims[k];
    return count;
}

opf_status opf_session_take_inputs(opf_session *s, const opf_tensor *inputs, size_t n, bool with_data, opf_error *error)
{
    opf_tensor      *all   = s->inputs;
    const opf_model *model = s->model;
    const opf_graph *graph = model->loaded.graph;
    OPF_FAIL_IF(error, n > graph->n_inputs, OPF_INVALID_ARGUMENT, "%zu inputs given, the model has %u%s%s%s", n, graph->n_inputs,
                constant_input(s) != NULL ? " (" : "", constant_input(s) != NULL ? constant_input(s) : "",
                constant_input(s) != NULL ? " is a constant before IR version 4: see overridable)" : "");
    s->is_frozen = may_freeze(s, inputs, n, with_data);
    for (uint32_t i = 0; i < graph->n_inputs; i++) {
        const opf_const *fallback = model->loaded.defaults == NULL ? NULL : model->loaded.defaults[i];
        const char      *name     = opf_graph_value(graph, graph->inputs[i])->name;
        if (is_given(inputs, n, i, with_data))
            all[i] = inputs[i];
        else if (fallback != NULL)
            OPF_TRY(take_default(s, fallback, &all[i], error));
        else if (i < n && with_data && inputs[i].type != OPF_TYPE_NONE && inputs[i].bytes == 0 && inputs[i].rank > 0)
            all[i] = inputs[i]; /* an empty tensor needs no buffer; checked below */
        else
            return opf_fail(error, OPF_INVALID_ARGUMENT, "input %s is missing", name);
        OPF_TRY(check_input(s, i, &all[i], error));
        OPF_FAIL_IF(error, with_data && all[i].data == NULL && fallback == NULL && count_elements(&all[i]) != 0, OPF_INVALID_ARGUMENT,
                    "input %s has no data", name);
    }
    return OPF_OK;
}

/* ---- outputs ---- */

typedef struct {
    const void *data;
    size_t      bytes;
} span;

static bool overlap(span a, span b)
{
    return a.bytes != 0 && b.bytes != 0 && a.data != NULL && b.data != NULL && (uintptr_t)a.data < (uintptr_t)b.data + b.bytes &&
           (uintptr_t)b.data < (uintptr_t)a.data + a.bytes;
}

static size_t place_bytes(const opf_place *place)
{
    size_t bytes = 0;
    (void)opf_type_bytes(place->type, opf_place_elements(place), &bytes); /* the plan has checked it */
    return bytes;
}

/* The caller's own buffers must be large enough and aligned; every one that is not is told the size it needs. */
static opf_status check_outputs(const opf_session *s, const opf_plan *plan, opf_tensor *outputs, size_t n, opf_error *error)
{
    opf_status status = OPF_OK;
    for (uint32_t i = 0; i < n; i++) {
        const opf_place *place = &plan->outputs[i];
        const char      *name  = opf_graph_value(s->graph, s->graph->outputs[i])->name;
        size_t           bytes = place_bytes(place), size = opf_type_size(place->type);
        if (outputs[i].data == NULL || outputs[i].data == s->outputs[i])
            continue;
        OPF_FAIL_IF(error, size > 1 && (uintptr_t)outputs[i].data % size != 0, OPF_INVALID_ARGUMENT,
                    "the buffer of output %s is not aligned to %zu bytes", name, size);
        if (outputs[i].bytes >= bytes)
            continue;
        if (status == OPF_OK)
            status = opf_fail(error, OPF_BUFFER_TOO_SMALL, "output %s needs %zu bytes, its buffer has %zu", name, bytes, outputs[i].bytes);
        outputs[i].bytes = bytes;
    }
    return status;
}

/* The memory that output i would take: the caller's (all of it while sizes are not known), or what the session has for it so far. */
static span output_span(const opf_session *s, const opf_plan *plan, const opf_tensor *outputs, size_t n, uint32_t i)
{
    if (i < n && outputs[i].data != NULL && outputs[i].data != s->outputs[i])
        return (span){outputs[i].data, plan->needs_data ? outputs[i].bytes : place_bytes(&plan->outputs[i])};
    return (span){s->outputs[i], s->output_bytes[i]};
}

opf_status opf_session_check_overlap(const opf_session *s, const opf_plan *plan, const opf_tensor *outputs, size_t n, opf_error *error)
{
    const opf_graph *graph = s->graph;
    for (uint32_t i = 0; i < graph->n_outputs; i++) {
        const char *name = opf_graph_value(graph, graph->outputs[i])->name;
        span        own  = output_span(s, plan, outputs, n, i);
        for (uint32_t k = 0; k < graph->n_inputs; k++)
            OPF_FAIL_IF(error, overlap(own, (span){s->inputs[k].data, s->inputs[k].bytes}), OPF_INVALID_ARGUMENT,
                        "the buffers of output %s and input %s overlap", name, opf_graph_value(graph, graph->inputs[k])->name);
        for (uint32_t k = 0; k < i; k++)
            OPF_FAIL_IF(error, overlap(own, output_span(s, plan, outputs, n, k)), OPF_INVALID_ARGUMENT,
                        "the buffers of outputs %s and %s overlap", opf_graph_value(graph, graph->outputs[k])->name, name);
    }
    return OPF_OK;
}

opf_status opf_session_bind_outputs(opf_session *s, const opf_plan *plan, opf_tensor *outputs, size_t n, opf_error *error)
{
    OPF_FAIL_IF(error, n > s->graph->n_outputs, OPF_INVALID_ARGUMENT, "%zu outputs wanted, the model has %u", n, s->graph->n_outputs);
    OPF_TRY(check_outputs(s, plan, outputs, n, error));
    OPF_TRY(opf_session_check_overlap(s, plan, outputs, n, error));
    for (uint32_t i = 0; i < s->graph->n_outputs; i++) {
        const opf_place *place = &plan->outputs[i];
        size_t           bytes = place_bytes(place);
        bool             given = i < n && outputs[i].data != NULL && outputs[i].data != s->outputs[i];
        if (!given)
            OPF_TRY(opf_reserve(s->heap, &s->outputs[i], &s->output_bytes[i], bytes == 0 ? 1 : bytes, 1, error));
        s->data[i] = given ? outputs[i].data : s->outputs[i];
        if (i >= n)
            continue;
        outputs[i] = (opf_tensor){.type = place->type, .rank = place->rank, .data = s->data[i], .bytes = bytes};
        memcpy(outputs[i].dims, place->dims, (size_t)place->rank * sizeof *place->dims);
    }
    return OPF_OK;
}
