/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a wrong result comes from. Rewrites are applied one at a time to the simplified graph; one that needs others before
 * it is compared with the graph that has only those. And kernels are compared by what they make inside the graph: values
 * keep their names when nodes fuse, so most results of kernels are values of the reference graph too.
 */
#include "exec/verify.h"

#include "exec/compare.h"

#include "graph/graph.h"
#include "ops/op.h"

#include <string.h>

/* ---- runs of a changed graph ---- */

/* Outputs of one run, copied, so that they outlive the session. */
static opf_status run_once(opf_verifier *v, const opf_graph *graph, opf_mode mode, opf_arena *arena, opf_tensor **outputs, opf_error *error)
{
    opf_model          *model   = (opf_model *)(uintptr_t)v->model; /* packed weights have a lock of their own */
    opf_session_options options = {.threads = v->options->threads, .mode = mode};
    opf_session        *session = NULL;
    *outputs                    = OPF_NEW(arena, opf_tensor, graph->n_outputs);
    OPF_OOM_IF(error, *outputs == NULL);
    OPF_TRY(opf_session_create_on(model, v->stages, graph, &options, &session, error));
    opf_status status = opf_session_run(session, v->inputs, graph->n_inputs, *outputs, graph->n_outputs, error);
    for (uint32_t i = 0; status == OPF_OK && i < graph->n_outputs; i++) {
        void *data = opf_arena_alloc(arena, (*outputs)[i].bytes + 1);
        if (data == NULL)
            status = opf_fail(error, OPF_OUT_OF_MEMORY, "out of memory");
        else if ((*outputs)[i].bytes != 0)
            memcpy(data, (*outputs)[i].data, (*outputs)[i].bytes);
        (*outputs)[i].data = data;
    }
    opf_session_destroy(&session);
    return status;
}

/* ---- every rewrite ---- */

/* The simplified graph with the first n rewrites, or (alone) with one; *n_done tells how many were done. */
static opf_status fuse(const opf_verifier *v, int64_t n, const opf_fusion *alone, opf_arena *arena, opf_graph **graph, uint32_t *n_done, opf_error *error)
{
    opf_fuse_options options = v->model->fuse_options;
    opf_fuse_report  report  = {.arena = arena};
    options.stop_after       = n;
    options.alone            = alone;
    *graph                   = opf_graph_clone(v->stages->simplified, arena);
    OPF_OOM_IF(error, *graph == NULL);
    OPF_TRY(opf_fuse(*graph, &options, &report, error));
    *n_done = report.n_fusions;
    return OPF_OK;
}

static opf_status check_rewrite(opf_verifier *v, uint32_t k, const opf_tensor *reference, const char *label, opf_arena *arena, opf_error *error)
{
    const opf_graph  *model   = v->model->loaded.graph;
    const opf_fusion *rewrite = &v->stages->report.fusions[k];
    const opf_tensor *want    = reference;
    opf_tensor       *have, *before;
    opf_graph        *graph;
    uint32_t          n;
    bool              passed = true;
    const char       *name   = opf_arena_printf(&v->report->arena, "%s at %s", rewrite->rule, rewrite->anchor);
    OPF_OOM_IF(error, name == NULL);
    OPF_TRY(fuse(v, 1, rewrite, arena, &graph, &n, error));
    if (n == 0) {
        OPF_TRY(fuse(v, k, NULL, arena, &graph, &n, error));
        OPF_TRY(run_once(v, graph, OPF_MODE_FUSED, arena, &before, error));
        OPF_TRY(fuse(v, (int64_t)k + 1, NULL, arena, &graph, &n, error));
        want  = before;
        label = opf_arena_printf(&v->report->arena, "%s, after the rewrites before it", label);
        OPF_OOM_IF(error, label == NULL);
    }
    OPF_TRY(run_once(v, graph, OPF_MODE_FUSED, arena, &have, error));
    for (uint32_t i = 0; i < model->n_outputs; i++) {
        opf_verify_entry entry = {.input = label, .output = opf_graph_value(model, model->outputs[i])->name, .rewrite = name};
        const bool       is_quantized = opf_value_is_quantized(model, model->outputs[i]);
        OPF_TRY(opf_verify_compare(v, &have[i], &want[i], is_quantized, opf_verify_scale(v->close_kind), &entry, error));
        passed = passed && entry.passed;
        OPF_OOM_IF(error, !OPF_PUSH(&v->report->arena, v->entries, v->n, v->capacity, entry));
    }
    opf_verification *result = &v->report->verification;
    result->passed           = result->passed && passed;
    if (!passed && result->wrong_rewrite == NULL)
        result->wrong_rewrite = name;
    return OPF_OK;
}

static opf_status draw_close(opf_verifier *v, opf_error *error)
{
    bool repeats, costly;
    v->round = v->close_round;
    return opf_verify_draw(v, v->close_kind, &repeats, &costly, error);
}

opf_status opf_verify_each(opf_verifier *v, opf_error *error)
{
    opf_heap   *heap = (opf_heap *)(uintptr_t)&v->model->heap;
    opf_tensor *want;
    opf_arena   kept;
    OPF_TRY(draw_close(v, error));
    const char *label = opf_verify_label(v, v->close_kind);
    opf_arena_init(&kept, heap);
    opf_status status = run_once(v, v->model->loaded.graph, OPF_MODE_REFERENCE, &kept, &want, error);
    v->of             = v->stages->report.n_fusions;
    v->done           = 0;
    for (uint32_t k = 0; status == OPF_OK && k < v->stages->report.n_fusions; k++) {
        opf_arena arena;
        opf_arena_init(&arena, heap);
        status = check_rewrite(v, k, want, label, &arena, error);
        opf_arena_fini(&arena);
        opf_verify_progress(v);
    }
    opf_arena_fini(&kept);
    return status;
}

/* ---- kernels inside the graph ---- */

typedef struct {
    opf_graph  *fused, *reference;
    const char **nodes; /* by output of both, from first on */
    uint32_t    n, capacity, first;
} probes;

/* Both graphs make the value: it becomes an output of both. */
static bool add_probe(probes *p, opf_arena *arena, const char *node, opf_value_id value)
{
    const opf_value *v     = opf_graph_value(p->fused, value);
    opf_value_id     other = opf_graph_find_value(p->reference, v->name);
    const opf_value *r     = other == 0 ? NULL : opf_graph_value(p->reference, other);
    if (r == NULL || r->producer == 0 || r->info.type != v->info.type || r->info.rank != v->info.rank || !opf_types_have(OPF_TYPES_ALL, v->info.type) ||
        opf_graph_is_output(p->reference, other))
        return true;
    return opf_graph_add_output(p->fused, value) && opf_graph_add_output(p->reference, other) && OPF_PUSH(arena, p->nodes, p->n, p->capacity, node);
}

static opf_status add_probes(const opf_verifier *v, probes *p, opf_arena *arena, opf_error *error)
{
    opf_node_id *order;
    uint32_t     n;
    p->fused     = opf_graph_clone(v->stages->fused, arena);
    p->reference = opf_graph_clone(v->model->loaded.graph, arena);
    OPF_OOM_IF(error, p->fused == NULL || p->reference == NULL);
    p->first = p->fused->n_outputs;
    OPF_TRY(opf_graph_sort(p->fused, arena, &order, &n, error));
    for (uint32_t k = 0; k < n; k++) {
        const opf_node *node = opf_graph_node(p->fused, order[k]);
        if (node->n_bodies != 0 || node->n_origin == 0)
            continue;
        for (uint32_t o = 0; o < node->n_outputs; o++)
            if (node->outputs[o] != 0)
                OPF_OOM_IF(error, !add_probe(p, arena, node->name, node->outputs[o]));
    }
    return OPF_OK;
}

static bool same_shape(const opf_tensor *a, const opf_tensor *b)
{
    return a->type == b->type && a->rank == b->rank && memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) == 0;
}

static opf_status compare_nodes(opf_verifier *v, opf_arena *arena, opf_error *error)
{
    opf_verification *result = &v->report->verification;
    probes            p      = {0};
    opf_tensor       *have, *want;
    OPF_TRY(add_probes(v, &p, arena, error));
    if (p.n == 0)
        return OPF_OK;
    opf_verify_entry *list = OPF_NEW(&v->report->arena, opf_verify_entry, p.n);
    OPF_OOM_IF(error, list == NULL);
    OPF_TRY(run_once(v, p.reference, OPF_MODE_REFERENCE, arena, &want, error));
    OPF_TRY(run_once(v, p.fused, OPF_MODE_FUSED, arena, &have, error));
    result->nodes     = list;
    const char *label = opf_verify_label(v, v->close_kind);
    for (uint32_t i = 0; i < p.n; i++) {
        uint32_t         output = p.first + i;
        const char      *name   = opf_graph_value(p.fused, p.fused->outputs[output])->name;
        opf_verify_entry entry  = {.input = label, .output = name, .node = p.nodes[i]};
        if (!same_shape(&have[output], &want[output])) /* another value under an old name */
            continue;
        const bool is_quantized = opf_value_is_quantized(p.reference, p.reference->outputs[output]);
        OPF_TRY(opf_verify_compare(v, &have[output], &want[output], is_quantized, opf_verify_scale(v->close_kind),
                                   &entry, error));
        list[result->n_nodes++] = entry;
        if (!entry.passed && result->wrong_node == NULL)
            result->wrong_node = entry.node;
    }
    return OPF_OK;
}

opf_status opf_verify_nodes(opf_verifier *v, opf_error *error)
{
    opf_arena arena;
    OPF_TRY(draw_close(v, error));
    opf_arena_init(&arena, (opf_heap *)(uintptr_t)&v->model->heap);
    opf_status status = compare_nodes(v, &arena, error);
    opf_arena_fini(&arena);
    return status;
}
