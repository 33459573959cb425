/* SPDX-License-Identifier: Apache-2.0 */
/* The proof: the fused graph against the reference graph, on random and adversarial inputs of several sizes. Inputs with
   defaults are left to them, as in most runs, and fed once. */
#include "exec/verify.h"

#include "exec/compare.h"
#include "exec/guards.h"

#include <math.h>
#include <string.h>

/* The largest finite magnitude. Values near zero among large ones are differences of large terms: no float computation has
   them more exactly than a few units in the last place of the largest. */
static double largest(const opf_tensor *tensor)
{
    double most  = 0;
    size_t count = 1;
    for (int32_t k = 0; k < tensor->rank; k++)
        count *= (size_t)tensor->dims[k];
    for (size_t i = 0; opf_types_have(OPF_TYPES_FLOAT, tensor->type) && i < count; i++) {
        double x = fabs(opf_load_f64(tensor->type, tensor->data, i));
        most     = isfinite(x) && x > most ? x : most;
    }
    return most;
}

opf_status opf_verify_compare(const opf_verifier *v, const opf_tensor *have, const opf_tensor *want, bool is_quantized,
                              double scale, opf_verify_entry *entry, opf_error *error)
{
    double atol = v->options->atol;
    if (is_quantized && atol == 0 && v->options->rtol == 0) {
        OPF_TRY(opf_tensor_compare_quantized(have, want, &entry->max_abs, &entry->n_wrong, error));
        entry->passed = entry->n_wrong == 0;
        return OPF_OK;
    }
    if (atol == 0)
        atol = fmax(opf_default_atol(want->type) * (scale > 1 ? scale : 1), 1e-6 * largest(want));
    OPF_TRY(opf_tensor_compare(have, want, v->options->rtol > 0 ? v->options->rtol : -1, atol, &entry->max_abs, &entry->max_rel, &entry->n_wrong, error));
    entry->passed = entry->n_wrong == 0;
    return OPF_OK;
}

void opf_verify_progress(opf_verifier *v)
{
    v->done++;
    if (v->options->progress != NULL)
        v->options->progress(v->options->progress_user, v->done, v->of);
}

/* The drawn inputs are what is looked at more closely, if it is the fused graph that they run. */
static void look_closely(opf_verifier *v, uint32_t kind)
{
    if (opf_find_breach(v->model, v->stages, v->inputs, &v->report->arena) != NULL)
        return;
    v->is_close = true;
    v->close_round = v->round;
    v->close_kind = kind;
}

/* The drawn inputs through both sessions. *possible false: these sizes cannot be. */
static opf_status compare(opf_verifier *v, uint32_t kind, bool *possible, opf_error *error)
{
    const opf_graph *graph = v->model->loaded.graph;
    opf_tensor      *want  = OPF_NEW(&v->report->arena, opf_tensor, graph->n_outputs);
    opf_tensor      *have  = OPF_NEW(&v->report->arena, opf_tensor, graph->n_outputs);
    const char      *label = opf_verify_label(v, kind);
    OPF_OOM_IF(error, want == NULL || have == NULL);
    opf_status status = opf_session_run(v->reference, v->inputs, graph->n_inputs, want, graph->n_outputs, error);
    *possible         = status != OPF_INVALID_INPUT;
    if (!*possible)
        return OPF_OK;
    OPF_TRY(status);
    OPF_TRY(opf_session_run(v->fused, v->inputs, graph->n_inputs, have, graph->n_outputs, error));
    for (uint32_t i = 0; i < graph->n_outputs; i++) {
        opf_verify_entry entry = {.input = label, .output = opf_graph_value(graph, graph->outputs[i])->name};
        const bool       is_quantized = opf_value_is_quantized(graph, graph->outputs[i]);
        OPF_TRY(opf_verify_compare(v, &have[i], &want[i], is_quantized, opf_verify_scale(kind), &entry, error));
        if (!entry.passed && v->report->verification.passed)
            look_closely(v, kind);
        v->report->verification.passed = v->report->verification.passed && entry.passed;
        OPF_OOM_IF(error, !OPF_PUSH(&v->report->arena, v->entries, v->n, v->capacity, entry));
    }
    return OPF_OK;
}

/* The adversarial kinds, at the sizes of this round. */
static opf_status verify_kinds(opf_verifier *v, opf_error *error)
{
    for (uint32_t kind = 1; v->any_drawn && kind < opf_verify_kinds(); kind++) {
        bool possible, repeats, costly;
        OPF_TRY(opf_verify_draw(v, kind, &repeats, &costly, error));
        OPF_TRY(compare(v, kind, &possible, error));
        opf_verify_progress(v);
    }
    return OPF_OK;
}

/* All sizes with random inputs, and all other kinds at the first sizes that are possible for the fused graph. */
static opf_status verify_all(opf_verifier *v, opf_error *error)
{
    bool any = false;
    v->of    = opf_verify_rounds() + opf_verify_kinds() - v->feeds;
    for (v->round = 0; v->round < opf_verify_rounds(); v->round++) {
        bool possible, repeats, costly;
        OPF_TRY(opf_verify_draw(v, 0, &repeats, &costly, error));
        opf_verify_progress(v);
        if (repeats || (costly && any))
            continue;
        const bool was_close = v->is_close;
        OPF_TRY(compare(v, 0, &possible, error));
        any = any || possible;
        if (!possible || was_close)
            continue;
        if (!v->is_close)
            look_closely(v, 0);
        if (v->is_close)
            OPF_TRY(verify_kinds(v, error));
    }
    /* The last refusal is what the caller needs to know. */
    return any ? OPF_OK : error != NULL && error->status == OPF_INVALID_INPUT ? OPF_INVALID_INPUT : opf_fail(error, OPF_INVALID_INPUT, "no sizes of the symbols are possible");
}

/* Inputs with defaults are fed, or not. */
static void set_feeds(opf_verifier *v, bool feeds)
{
    v->feeds  = feeds;
    v->stages = feeds ? &v->model->open : &v->model->frozen;
}

/* Whether they must be: the caller does, or no run can do without. */
static bool must_feed(const opf_verifier *v)
{
    bool must = v->model->frozen.fused == NULL;
    for (uint32_t i = 0; !must && v->options->inputs != NULL && i < v->options->n_inputs && i < v->model->loaded.graph->n_inputs; i++)
        must = v->model->loaded.defaults[i] != NULL && v->options->inputs[i].data != NULL;
    return must;
}

/* Once more with other numbers where defaults were. When only that is wrong, it is what is looked at more closely. */
static opf_status verify_fed(opf_verifier *v, opf_error *error)
{
    const bool was_equal = v->report->verification.passed;
    bool       possible  = false, repeats, costly;
    set_feeds(v, true);
    for (v->round = 0; !possible && v->round < opf_verify_rounds(); v->round++) {
        OPF_TRY(opf_verify_draw(v, 0, &repeats, &costly, error));
        if (!repeats)
            OPF_TRY(compare(v, 0, &possible, error));
    }
    opf_verify_progress(v);
    set_feeds(v, was_equal && !v->report->verification.passed);
    return OPF_OK;
}

static opf_status verify(opf_verifier *v, opf_error *error)
{
    const opf_graph    *graph     = v->model->loaded.graph;
    opf_session_options reference = {.threads = v->options->threads, .mode = OPF_MODE_REFERENCE}, fused = {.threads = v->options->threads};
    v->inputs                     = OPF_NEW(&v->report->arena, opf_tensor, graph->n_inputs);
    OPF_OOM_IF(error, v->inputs == NULL);
    opf_random_init(&v->random, v->options->seed);
    OPF_TRY(opf_session_create(v->model, &reference, &v->reference, error));
    OPF_TRY(opf_session_create(v->model, &fused, &v->fused, error));
    v->report->verification.passed = true;
    set_feeds(v, must_feed(v));
    OPF_TRY(verify_all(v, error));
    if (!v->feeds)
        OPF_TRY(verify_fed(v, error));
    if (v->is_close)
        OPF_TRY(opf_verify_nodes(v, error));
    if (v->is_close && v->options->each)
        OPF_TRY(opf_verify_each(v, error));
    v->report->verification.entries   = v->entries;
    v->report->verification.n_entries = v->n;
    return OPF_OK;
}

opf_status opf_model_verify(const opf_model *model, const opf_verify_options *options, opf_report **report, opf_error *error)
{
    static const opf_verify_options defaults;
    OPF_FAIL_IF(error, model == NULL || report == NULL, OPF_INVALID_ARGUMENT, "model and report must not be NULL");
    opf_error local; /* a refusal of sizes is looked at even when the caller wants no message */
    OPF_TRY(opf_report_create((opf_heap *)(uintptr_t)&model->heap, report, error));
    opf_verifier v      = {.model = model, .options = options != NULL ? options : &defaults, .report = *report};
    opf_status   status = verify(&v, error != NULL ? error : &local);
    opf_session_destroy(&v.reference);
    opf_session_destroy(&v.fused);
    if (status != OPF_OK)
        opf_report_destroy(report);
    return status;
}
