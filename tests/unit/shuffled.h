/* SPDX-License-Identifier: Apache-2.0 */
/* Fusing with rules and absorbers in a random order, which must reach an end and leave a graph that computes the same.
 */
#ifndef SHUFFLED_H
#define SHUFFLED_H

#include "conditioned.h"

#include "exec/model.h"
#include "graph/verify.h"

static void check_shuffled(opf_model *model, const random_model *of, const results *want, double rtol, double atol)
{
    opf_session_options options = {.mode = OPF_MODE_FUSED, .threads = 1};
    opf_fuse_options fuse = model->fuse_options;
    opf_session *session;
    opf_arena arena;
    opf_error error;
    results have;
    char label[80];
    (void)snprintf(label, sizeof label, "seed %llu, rules in another order", (unsigned long long)of->seed);
    opf_arena_init(&arena, &model->heap);
    opf_fuse_report report = {.arena = &arena};
    opf_graph *graph = opf_graph_clone(model->open.simplified, &arena);
    assert_non_null(graph);
    fuse.order = of->seed | 1;
    if (opf_fuse(graph, &fuse, &report, &error) != OPF_OK || opf_graph_verify(graph, &error) != OPF_OK ||
        opf_session_create_on(model, &model->open, graph, &options, &session, &error) != OPF_OK)
        fail_text(of->text, "%s: %s", label, error.message);
    run_session(session, of->inputs, graph->n_outputs, NULL, of->text, &have);
    (void)compare_conditioned(of, &have, want, rtol, atol, label);
    free_results(&have);
    opf_arena_fini(&arena);
}

#endif
