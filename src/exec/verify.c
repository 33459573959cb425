/* SPDX-License-Identifier: Apache-2.0 */
/* The proof: the fused graph against the reference graph, on random and adversarial inputs of several sizes. */
#include "exec/model.h"

#include "exec/compare.h"
#include "base/random.h"
#include "ops/infer.h"

#include <math.h>
#include <string.h>

/* Kinds of inputs; `scale` also widens the absolute tolerance, which is meant for values around one. */
static const struct {
    const char *name;
    double      scale;
} kinds[] = {{"random", 1}, {"zeros", 0}, {"large", 100}, {"denormal", 1e-40}, {"nan", 1}};

static const int64_t sizes[][4] = {{1, 2, 7, 33}, {2, 7, 33, 1}, {7, 33, 1, 2}, {1, 33, 7, 2}, {2, 2, 2, 2}, {1, 1, 1, 1}, {1, 224, 256, 32}};
enum { N_KINDS = sizeof kinds / sizeof *kinds, N_SIZES = sizeof sizes / sizeof *sizes };

typedef struct {
    const opf_model          *model;
    const opf_verify_options *options;
    opf_report               *report;
    opf_session              *reference, *fused;
    opf_tensor               *inputs;
    opf_verify_entry         *entries;
    uint32_t                  n, capacity;
    size_t                    done, of;
    /* sizes of symbols in this round */
    const char *names[64];
    uint32_t    n_names, round, possible; /* the first round whose sizes can be */
} verifier;

static bool size_of_symbol(void *user, const char *symbol, int64_t *n)
{
    verifier *v = user;
    uint32_t  i = 0;
    while (i < v->n_names && strcmp(v->names[i], symbol) != 0)
        i++;
    if (i == v->n_names && i < 64)
        v->names[v->n_names++] = symbol;
    *n = sizes[v->round][i % 4];
    return true;
}

/* The bound of integers that index the rows of a Gather, else 2. */
static int64_t index_bound(const opf_graph *graph, opf_value_id value)
{
    const opf_value *v = opf_graph_value(graph, value);
    for (uint32_t u = 0; u < v->n_uses; u++) {
        const opf_node *node = v->uses[u].node == 0 ? NULL : opf_graph_node(graph, v->uses[u].node);
        if (node == NULL || node->op != &opf_op_Gather || v->uses[u].input != 1)
            continue;
        const opf_info *data = &opf_graph_value(graph, node->inputs[0])->info;
        int64_t         axis = opf_node_int(node, "axis", 0);
        axis += axis < 0 ? data->rank : 0;
        if (data->rank > 0 && axis >= 0 && axis < data->rank && opf_dim_is_number(data->dims[axis]))
            return data->dims[axis].n;
    }
    return 2;
}

static void fill(opf_tensor *tensor, size_t count, uint32_t kind, int64_t bound, opf_random *random)
{
    bool is_float = opf_types_have(OPF_TYPES_FLOAT, tensor->type);
    for (size_t i = 0; i < count; i++) {
        double x = opf_random_normal(random);
        if (is_float)
            opf_store_f64(tensor->type, tensor->data, i, x * kinds[kind].scale);
        else
            opf_store_i64(tensor->type, tensor->data, i, kinds[kind].scale == 0 ? 0 : (int64_t)(opf_random_next(random) % (uint64_t)(bound < 1 ? 1 : bound)));
    }
    if (is_float && strcmp(kinds[kind].name, "nan") == 0 && count != 0)
        opf_store_f64(tensor->type, tensor->data, opf_random_next(random) % count, (double)NAN);
}

/* Tensors for every input, in the report's arena; given ones as they are. */
static opf_status make_inputs(verifier *v, uint32_t kind, opf_random *random, opf_error *error)
{
    const opf_graph *graph = v->model->loaded.graph;
    opf_arena       *arena = &v->report->arena;
    opf_info        *infos;
    v->n_names = 0;
    OPF_TRY(opf_model_input_infos(v->model, size_of_symbol, v, arena, &infos, error));
    for (uint32_t i = 0; i < graph->n_inputs; i++) {
        opf_tensor *tensor = &v->inputs[i];
        if (v->options->inputs != NULL && i < v->options->n_inputs && v->options->inputs[i].data != NULL) {
            *tensor = v->options->inputs[i];
            continue;
        }
        *tensor = (opf_tensor){.type = infos[i].type, .rank = infos[i].rank};
        for (int32_t k = 0; k < infos[i].rank; k++)
            tensor->dims[k] = infos[i].dims[k].n;
        if (v->model->loaded.defaults != NULL && v->model->loaded.defaults[i] != NULL && !opf_types_have(OPF_TYPES_FLOAT, infos[i].type)) {
            tensor->type = OPF_TYPE_NONE; /* integers with a default often are shapes or axes: the default is used */
            continue;
        }
        size_t count;
        OPF_FAIL_IF(error, !opf_info_count(&infos[i], &count) || !opf_type_bytes(tensor->type, count, &tensor->bytes), OPF_INVALID_INPUT,
                    "input %s cannot be made", opf_graph_value(graph, graph->inputs[i])->name);
        tensor->data = opf_arena_alloc(arena, tensor->bytes + 1);
        OPF_OOM_IF(error, tensor->data == NULL);
        fill(tensor, count, kind, index_bound(graph, graph->inputs[i]), random);
    }
    return OPF_OK;
}

static const char *describe_inputs(const verifier *v, const char *kind)
{
    opf_text text;
    opf_text_init(&text, &v->report->arena);
    opf_text_add(&text, "%s", kind);
    for (uint32_t i = 0; i < v->n_names; i++)
        opf_text_add(&text, "%s%s=%lld", i == 0 ? " " : ",", v->names[i], (long long)sizes[v->round][i % 4]);
    return text.failed ? kind : text.data;
}

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

/* One input set through both sessions. *possible false: these sizes cannot be. */
static opf_status compare(verifier *v, const char *label, double scale, const char *rewrite, bool *possible, opf_error *error)
{
    const opf_graph *graph = v->model->loaded.graph;
    opf_tensor      *want  = OPF_NEW(&v->report->arena, opf_tensor, graph->n_outputs);
    opf_tensor      *have  = OPF_NEW(&v->report->arena, opf_tensor, graph->n_outputs);
    OPF_OOM_IF(error, want == NULL || have == NULL);
    opf_status status = opf_session_run(v->reference, v->inputs, graph->n_inputs, want, graph->n_outputs, error);
    *possible         = status != OPF_INVALID_INPUT;
    if (!*possible)
        return OPF_OK;
    OPF_TRY(status);
    OPF_TRY(opf_session_run(v->fused, v->inputs, graph->n_inputs, have, graph->n_outputs, error));
    for (uint32_t i = 0; i < graph->n_outputs; i++) {
        opf_verify_entry entry = {.input = label, .output = rewrite != NULL ? rewrite : opf_graph_value(graph, graph->outputs[i])->name};
        double           atol  = v->options->atol;
        if (atol == 0)
            atol = fmax(opf_default_atol(want[i].type) * (scale > 1 ? scale : 1), 1e-6 * largest(&want[i]));
        OPF_TRY(opf_tensor_compare(&have[i], &want[i], v->options->rtol > 0 ? v->options->rtol : -1, atol, &entry.max_abs, &entry.max_rel,
                                   &entry.n_wrong, error));
        entry.passed = entry.n_wrong == 0;
        v->report->verification.passed = v->report->verification.passed && entry.passed;
        OPF_OOM_IF(error, !OPF_PUSH(&v->report->arena, v->entries, v->n, v->capacity, entry));
    }
    return OPF_OK;
}

static void progress(verifier *v)
{
    v->done++;
    if (v->options->progress != NULL)
        v->options->progress(v->options->progress_user, v->done, v->of);
}

/* All sizes with random inputs, and all other kinds at the first sizes that are possible. */
static opf_status verify_all(verifier *v, opf_error *error)
{
    opf_random random;
    bool       any = false;
    opf_random_init(&random, v->options->seed);
    v->of = N_SIZES + N_KINDS - 1;
    for (v->round = 0; v->round < N_SIZES; v->round++) {
        bool possible;
        if (v->round != 0 && v->n_names == 0)
            break; /* nothing is symbolic: sizes do not differ */
        OPF_TRY(make_inputs(v, 0, &random, error));
        OPF_TRY(compare(v, describe_inputs(v, kinds[0].name), 1, NULL, &possible, error));
        progress(v);
        uint32_t first = v->round;
        for (uint32_t kind = 1; possible && !any && kind < N_KINDS; kind++) {
            bool same;
            OPF_TRY(make_inputs(v, kind, &random, error));
            OPF_TRY(compare(v, describe_inputs(v, kinds[kind].name), kinds[kind].scale, NULL, &same, error));
            progress(v);
        }
        v->round    = first;
        v->possible = possible && !any ? first : v->possible;
        any         = any || possible;
    }
    /* The last refusal is what the caller needs to know. */
    return any ? OPF_OK : error != NULL && error->status == OPF_INVALID_INPUT ? OPF_INVALID_INPUT : opf_fail(error, OPF_INVALID_INPUT, "no sizes of the symbols are possible");
}

/* Applies the first k rewrites only, for every k: the first k that differs names the wrong rewrite. */
static opf_status verify_each(verifier *v, opf_error *error)
{
    opf_model *model  = (opf_model *)(uintptr_t)v->model;
    opf_arena  arena;
    opf_random random;
    bool       passed = v->report->verification.passed;
    opf_random_init(&random, v->options->seed);
    v->round = v->possible;
    OPF_TRY(make_inputs(v, 0, &random, error));
    uint32_t   n      = model->report.n_fusions;
    opf_status status = OPF_OK;
    v->of             = n;
    v->done           = 0;
    for (uint32_t k = 1; status == OPF_OK && k <= n && v->report->verification.wrong_rewrite == NULL; k++) {
        opf_arena_init(&arena, &model->heap);
        opf_fuse_options options = model->fuse_options;
        opf_fuse_report  report  = {.arena = &arena};
        opf_graph       *graph   = opf_graph_clone(model->simplified, &arena);
        const char      *name    = opf_arena_printf(&v->report->arena, "%s at %s", model->report.fusions[k - 1].rule, model->report.fusions[k - 1].anchor);
        options.stop_after       = k;
        status                   = graph == NULL || name == NULL ? opf_fail(error, OPF_OUT_OF_MEMORY, "out of memory") : opf_fuse(graph, &options, &report, error);
        opf_session_destroy(&v->fused);
        if (status == OPF_OK) {
            opf_session_options session = {.threads = v->options->threads};
            bool                possible;
            status = opf_session_create_on(model, graph, &session, &v->fused, error);
            v->report->verification.passed = true;
            if (status == OPF_OK)
                status = compare(v, "random", 1, name, &possible, error);
            if (status == OPF_OK && !v->report->verification.passed)
                v->report->verification.wrong_rewrite = name;
            passed = passed && v->report->verification.passed;
            opf_session_destroy(&v->fused);
        }
        opf_arena_fini(&arena);
        progress(v);
    }
    v->report->verification.passed = passed;
    return status;
}

static opf_status verify(verifier *v, opf_error *error)
{
    const opf_graph    *graph     = v->model->loaded.graph;
    opf_session_options reference = {.threads = v->options->threads, .mode = OPF_MODE_REFERENCE}, fused = {.threads = v->options->threads};
    v->inputs                     = OPF_NEW(&v->report->arena, opf_tensor, graph->n_inputs);
    OPF_OOM_IF(error, v->inputs == NULL);
    OPF_TRY(opf_session_create(v->model, &reference, &v->reference, error));
    OPF_TRY(opf_session_create(v->model, &fused, &v->fused, error));
    v->report->verification.passed = true;
    OPF_TRY(verify_all(v, error));
    if (v->options->each)
        OPF_TRY(verify_each(v, error));
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
    verifier   v      = {.model = model, .options = options != NULL ? options : &defaults, .report = *report};
    opf_status status = verify(&v, error != NULL ? error : &local);
    opf_session_destroy(&v.reference);
    opf_session_destroy(&v.fused);
    if (status != OPF_OK)
        opf_report_destroy(report);
    return status;
}
