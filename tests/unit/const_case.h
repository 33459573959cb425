/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operators tested on graphs in the textual syntax over constants: each result `y` is compared with the constant `y_want`,
 * on dense tensors and on odd strides. Shapes that depend on data come from resolve, and must agree with what inference
 * knows.
 */
#ifndef CONST_CASE_H
#define CONST_CASE_H

#include "graph/text.h"
#include "ops/infer.h"
#include "ops/movement.h"

#include "odd_views.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MAYBE_UNUSED __attribute__((unused))

typedef struct fixture {
    opf_heap       heap;
    opf_arena      arena;
    opf_dims      *dims;
    opf_const_pool consts;
    opf_error      error;
    opf_graph     *graph;
    opf_view      *views; /* by value */
} fixture;

static opf_status load(fixture *f, const char *text)
{
    memset(f, 0, sizeof *f);
    opf_heap_init(&f->heap, NULL, 0);
    opf_arena_init(&f->arena, &f->heap);
    f->dims   = opf_dims_create(&f->arena);
    f->consts = (opf_const_pool){.arena = &f->arena, .next_id = 1};
    if (opf_text_parse(text, opf_find_operator, &f->arena, f->dims, &f->consts, &f->graph, NULL, NULL, &f->error) !=
        OPF_OK)
        fail_msg("%s\n%s", f->error.message, text);
    return opf_infer_graph(f->graph, &f->error);
}

static void unload(fixture *f)
{
    opf_arena_fini(&f->arena);
    assert_int_equal(f->heap.used, 0);
}

/* What inference knows must be what resolve finds. */
static void check_resolved(const opf_info *inferred, const opf_info *resolved)
{
    if (inferred->rank < 0)
        return;
    assert_int_equal(inferred->rank, resolved->rank);
    for (int32_t i = 0; i < inferred->rank; i++)
        if (opf_dim_is_number(inferred->dims[i]))
            assert_int_equal(inferred->dims[i].n, resolved->dims[i].n);
}

static opf_status run_node(fixture *f, opf_node_id id, int layout)
{
    const opf_node *node  = opf_graph_node(f->graph, id);
    opf_view       *in    = OPF_NEW(&f->arena, opf_view, node->n_inputs);
    opf_view       *out   = OPF_NEW(&f->arena, opf_view, node->n_outputs);
    opf_info       *infos = OPF_NEW(&f->arena, opf_info, node->n_outputs);
    for (uint32_t i = 0; i < node->n_inputs; i++)
        in[i] = f->views[node->inputs[i]];
    for (uint32_t o = 0; o < node->n_outputs; o++)
        infos[o] = opf_graph_value(f->graph, node->outputs[o])->info;
    opf_call call = {.node    = node,
                     .attrs   = node->attrs,
                     .n_attrs = node->n_attrs,
                     .in      = in,
                     .n_in    = node->n_inputs,
                     .out     = out,
                     .n_out   = node->n_outputs,
                     .heap    = &f->heap};
    if (node->op->resolve != NULL) {
        opf_status status = node->op->resolve(&call, infos, &f->arena, &f->error);
        if (status != OPF_OK)
            return status;
        for (uint32_t o = 0; o < node->n_outputs; o++)
            check_resolved(&opf_graph_value(f->graph, node->outputs[o])->info, &infos[o]);
    }
    for (uint32_t o = 0; o < node->n_outputs; o++) {
        int64_t dims[OPF_MAX_RANK];
        size_t  count;
        if (!opf_info_count(&infos[o], &count))
            fail_msg("a shape is not known\n%s", node->name);
        for (int32_t i = 0; i < infos[o].rank; i++)
            dims[i] = infos[o].dims[i].n;
        out[o] = make_view(&f->arena, infos[o].type, infos[o].rank, dims, layout);
    }
    opf_status status = node->op->reference(&call, &f->error);
    for (uint32_t o = 0; o < node->n_outputs; o++)
        f->views[node->outputs[o]] = out[o];
    return status;
}

static opf_status run_all(fixture *f, int in_layout, int out_layout)
{
    opf_status status = OPF_OK;
    f->views          = OPF_NEW(&f->arena, opf_view, f->graph->n_values);
    for (opf_value_id id = 1; id < f->graph->n_values; id++)
        if (opf_graph_value(f->graph, id)->constant != NULL)
            f->views[id] = view_of_constant(&f->arena, opf_graph_value(f->graph, id)->constant, in_layout);
    for (opf_node_id id = 1; id < f->graph->n_nodes && status == OPF_OK; id++)
        status = run_node(f, id, out_layout);
    return status;
}

static void compare(fixture *f, const opf_value *value, const opf_view *view, const opf_const *want, const char *text)
{
    opf_view expected = view_of_constant(&f->arena, want, DENSE), found = make_view(&f->arena, want->type, want->rank, want->dims, DENSE);
    if (view->type != want->type || view->rank != want->rank ||
        (want->rank != 0 && memcmp(view->dims, want->dims, (size_t)want->rank * sizeof *want->dims) != 0))
        fail_msg("%s is of another type or shape\n%s", value->name, text);
    memset(found.data, 0, opf_const_size(want));
    opf_move_in_order(&found, view);
    bool is_float = opf_types_have(OPF_TYPES_FLOAT, want->type);
    for (size_t i = 0; i < want->count && is_float; i++) {
        double a = opf_load_f64(want->type, found.data, i), b = opf_load_f64(want->type, expected.data, i);
        if (a != b && !(a != a && b != b))
            fail_msg("%s[%zu] is %.9g, must be %.9g\n%s", value->name, i, a, b, text);
    }
    if (!is_float && memcmp(found.data, expected.data, opf_const_size(want)) != 0)
        fail_msg("%s: wrong elements, the first is %lld\n%s", value->name,
                 (long long)opf_load_i64(want->type, found.data, 0), text);
    for (int32_t i = 0; i < value->info.n_values; i++) {
        const opf_dim known = value->info.values[i];
        const bool    fits  = is_float ? (double)known.n == opf_load_f64(want->type, expected.data, (size_t)i)
                                       : known.n == opf_load_i64(want->type, expected.data, (size_t)i);
        if (opf_dim_is_number(known) && !fits)
            fail_msg("%s[%d] is inferred as %lld\n%s", value->name, (int)i, (long long)known.n, text);
    }
}

static void check(const char *text)
{
    for (int layout = 0; layout < LAYOUTS * LAYOUTS; layout++) {
        fixture f;
        size_t  compared = 0;
        if (load(&f, text) != OPF_OK || run_all(&f, layout / LAYOUTS, layout % LAYOUTS) != OPF_OK)
            fail_msg("%s\n%s", f.error.message, text);
        for (opf_value_id id = 1; id < f.graph->n_values; id++) {
            const opf_value *value = opf_graph_value(f.graph, id);
            opf_value_id     want  = opf_graph_find_value(f.graph, opf_arena_printf(&f.arena, "%s_want", value->name));
            if (want == 0)
                continue;
            compare(&f, value, &f.views[id], opf_graph_value(f.graph, want)->constant, text);
            compared++;
        }
        if (compared == 0)
            fail_msg("nothing is compared\n%s", text);
        unload(&f);
    }
}

MAYBE_UNUSED static void check_fails(const char *text, opf_status status, const char *message)
{
    fixture    f;
    opf_status found = load(&f, text);
    if (found == OPF_OK)
        found = run_all(&f, DENSE, DENSE);
    if (found != status || strstr(f.error.message, message) == NULL)
        fail_msg("status %d, '%s', must be %d, '%s'", (int)found, f.error.message, (int)status, message);
    unload(&f);
}

/* The inferred type and shape of y; the numbers of unknowns are left out. */
MAYBE_UNUSED static void check_shape(const char *text, const char *shape)
{
    fixture f;
    char    plain[256];
    size_t  n = 0;
    if (load(&f, text) != OPF_OK)
        fail_msg("%s\n%s", f.error.message, text);
    const opf_info *info = &opf_graph_value(f.graph, opf_graph_find_value(f.graph, "y"))->info;
    for (const char *c = opf_info_string(info, f.dims, &f.arena); *c != '\0' && n + 1 < sizeof plain; c++)
        if (n == 0 || plain[n - 1] != '?' || *c < '0' || *c > '9')
            plain[n++] = *c;
    plain[n] = '\0';
    if (strcmp(plain, shape) != 0)
        fail_msg("%s, must be %s\n%s", plain, shape, text);
    unload(&f);
}

#endif
