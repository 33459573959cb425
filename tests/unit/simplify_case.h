/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs in textual syntax that are simplified and printed: what tests of the passes share. */
#ifndef SIMPLIFY_CASE_H
#define SIMPLIFY_CASE_H

#include "graph/text.h"
#include "graph/verify.h"
#include "ops/op.h"
#include "simplify/simplify.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct fixture {
    opf_heap heap;
    opf_arena arena;
    opf_dims *dims;
    opf_const_pool consts;
    opf_limits limits;
    opf_error error;
    opf_graph *graph;
} fixture;

static void begin(fixture *f)
{
    memset(f, 0, sizeof *f);
    opf_heap_init(&f->heap, NULL, 0);
    opf_arena_init(&f->arena, &f->heap);
    opf_limits_init(&f->limits);
    f->dims = opf_dims_create(&f->arena);
    f->consts = (opf_const_pool){.arena = &f->arena, .next_id = 1};
}

static void end(fixture *f)
{
    opf_arena_fini(&f->arena);
    assert_int_equal(f->heap.used, 0);
}

static void simplify(fixture *f, const char *source)
{
    if (opf_text_parse(source, opf_find_operator, &f->arena, f->dims, &f->consts, &f->graph, NULL, NULL, &f->error) !=
            OPF_OK ||
        opf_simplify(f->graph, &f->limits, &f->heap, &f->error) != OPF_OK ||
        opf_graph_verify(f->graph, &f->error) != OPF_OK)
        fail_msg("%s\n%s", f->error.message, source);
}

/* The body of the simplified graph, nodes only. */
static void check(const char *source, const char *expected)
{
    fixture f;
    begin(&f);
    simplify(&f, source);
    opf_text text;
    opf_text_init(&text, &f.arena);
    for (opf_node_id id = 1; id < f.graph->n_nodes; id++)
        if (opf_node_is_alive(opf_graph_node(f.graph, id))) {
            opf_text_node(&text, f.graph, id);
            opf_text_add(&text, "\n");
        }
    const char *found = text.data != NULL ? text.data : "";
    if (strcmp(found, expected) != 0)
        fail_msg("%s\ngives\n%s\ninstead of\n%s", source, found, expected);
    end(&f);
}

#endif
