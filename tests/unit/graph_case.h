/* SPDX-License-Identifier: Apache-2.0 */
/* Operators tested on graphs in textual syntax: reference kernels on dense and on strided tensors against known numbers. */
#ifndef GRAPH_CASE_H
#define GRAPH_CASE_H

#include "graph/text.h"
#include "graph/verify.h"
#include "ops/infer.h"
#include "ops/reference.h"
#include "ops/window.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#if defined(__clang__) || defined(__GNUC__)
#pragma GCC diagnostic ignored "-Wunused-function" /* no file uses all of these */
#endif

/* ---- running a graph ---- */

typedef struct fixture {
    opf_heap       heap;
    opf_arena      arena;
    opf_dims      *dims;
    opf_const_pool consts;
    opf_error      error;
    opf_graph     *graph;
    const char    *text;
    opf_view      *views; /* by value id */
} fixture;

static void begin(fixture *f)
{
    memset(f, 0, sizeof *f);
    opf_heap_init(&f->heap, NULL, 0);
    opf_arena_init(&f->arena, &f->heap);
    f->dims   = opf_dims_create(&f->arena);
    f->consts = (opf_const_pool){.arena = &f->arena, .next_id = 1};
}

static void end(fixture *f)
{
    opf_arena_fini(&f->arena);
    assert_int_equal(f->heap.used, 0);
}

static opf_status lift(fixture *f, int32_t opset)
{
    uint32_t n = f->graph->n_nodes;
    for (opf_node_id id = 1; id < n; id++) {
        const opf_op *op = opf_graph_node(f->graph, id)->op;
        for (uint32_t r = 0; r < op->n_rows; r++)
            if (op->rows[r].below > opset)
                OPF_TRY(op->rows[r].lift(f->graph, id, opset, &f->error));
    }
    return OPF_OK;
}

/* Parses, lifts from the opset and infers. */
static opf_status load(fixture *f, const char *text, int32_t opset)
{
    f->text = text;
    opf_status status =
        opf_text_parse(text, opf_find_operator, &f->arena, f->dims, &f->consts, &f->graph, NULL, NULL, &f->error);
    if (status != OPF_OK)
        fail_msg("%s", f->error.message);
    OPF_TRY(lift(f, opset));
    if (opf_graph_verify(f->graph, &f->error) != OPF_OK)
        fail_msg("%s", f->error.message);
    return opf_infer_graph(f->graph, &f->error);
}

/* A tensor for the value: dense, or column-major with gaps and its last axis backwards. Guard bytes are left to
 * sanitizers. */
static opf_view make_view(fixture *f, const opf_info *info, bool strided)
{
    opf_view view = {.type = info->type, .rank = info->rank};
    int64_t  step = 2, first = 0;
    size_t   count;
    if (info->rank < 0 || !opf_info_count(info, &count))
        fail_msg("a shape is not known in %s", f->text);
    for (int32_t i = 0; i < info->rank; i++) {
        view.dims[i]    = info->dims[i].n;
        view.strides[i] = step;
        step *= view.dims[i] > 0 ? view.dims[i] : 1;
    }
    if (!strided) {
        opf_view_set_dense(&view);
    } else if (view.rank > 0 && view.dims[view.rank - 1] > 0) {
        first                       = view.strides[view.rank - 1] * (view.dims[view.rank - 1] - 1);
        view.strides[view.rank - 1] = -view.strides[view.rank - 1];
    }
    char *data = opf_arena_alloc(&f->arena, ((strided ? 2 * count : count) + 1) * opf_type_size(info->type));
    assert_non_null(data);
    view.data = data + first * (int64_t)opf_type_size(info->type);
    return view;
}

static bool is_float(opf_type type)
{
    return opf_types_have(OPF_TYPES_FLOAT, type);
}

/* Input number k gets numbers that depend on k and the index alone. */
static void fill_view(opf_view *view, uint32_t k)
{
    for (size_t i = 0; i < opf_view_count(view); i++) {
        int64_t offset = opf_view_offset(view, i);
        int64_t x      = (int64_t)((i * 7 + k * 5 + 3) % 13);
        if (!opf_types_have(OPF_TYPES_UINT, view->type))
            x -= 6;
        if (is_float(view->type))
            opf_view_put_f64(view, offset, (double)x * 0.25);
        else
            opf_view_put_i64(view, offset, view->type == OPF_BOOL ? i % 3 == 0 : x);
    }
}

static void make_values(fixture *f, bool strided)
{
    f->views = OPF_NEW(&f->arena, opf_view, f->graph->n_values);
    for (opf_value_id v = 1; v < f->graph->n_values; v++) {
        const opf_value *value = opf_graph_value(f->graph, v);
        if (value->constant == NULL && value->producer == 0 && !value->is_input)
            continue;
        if (value->constant == NULL) {
            f->views[v] = make_view(f, &value->info, strided);
            continue;
        }
        const opf_info info = value->info;
        f->views[v]         = make_view(f, &info, false);
        opf_const_write(value->constant, f->views[v].data);
    }
    for (uint32_t k = 0; k < f->graph->n_inputs; k++)
        fill_view(&f->views[f->graph->inputs[k]], k);
}

static opf_status run(fixture *f)
{
    opf_node_id *order;
    uint32_t     n;
    OPF_TRY(opf_graph_sort(f->graph, &f->arena, &order, &n, &f->error));
    for (uint32_t k = 0; k < n; k++) {
        const opf_node *node  = opf_graph_node(f->graph, order[k]);
        opf_view        in[8] = {{0}}, out[4] = {{0}};
        for (uint32_t i = 0; i < node->n_inputs; i++)
            in[i] = f->views[node->inputs[i]];
        for (uint32_t o = 0; o < node->n_outputs; o++)
            out[o] = f->views[node->outputs[o]];
        const opf_call call = {.node    = node,
                               .attrs   = node->attrs,
                               .n_attrs = node->n_attrs,
                               .in      = in,
                               .n_in    = node->n_inputs,
                               .out     = out,
                               .n_out   = node->n_outputs,
                               .heap    = &f->heap};
        OPF_TRY(node->op->reference(&call, &f->error));
    }
    return OPF_OK;
}

/* ---- numbers ---- */

typedef struct expected_tensor {
    int32_t       rank;
    int64_t       dims[6];
    const double *values;
} expected_tensor;

typedef struct expectation {
    const char     *name;
    int32_t         opset;
    const char     *text;
    expected_tensor outputs[3];
} expectation;

static void check_output(const char *name, const opf_view *y, const expected_tensor *expected)
{
    if (y->rank != expected->rank)
        fail_msg("%s: rank %d, expected %d", name, (int)y->rank, (int)expected->rank);
    for (int32_t i = 0; i < y->rank; i++)
        if (y->dims[i] != expected->dims[i])
            fail_msg("%s: dimension %d is %d, expected %d", name, (int)i, (int)y->dims[i], (int)expected->dims[i]);
    const double tolerance = y->type == OPF_FLOAT16 || y->type == OPF_BFLOAT16 ? 1e-3 : 2e-6;
    for (size_t i = 0; i < opf_view_count(y); i++) {
        int64_t offset = opf_view_offset(y, i);
        double  found  = is_float(y->type) ? opf_view_f64(y, offset) : (double)opf_view_i64(y, offset),
               wanted  = expected->values[i];
        if (found != wanted && !(fabs(found - wanted) <= tolerance * (1 + fabs(wanted))))
            fail_msg("%s: element %zu is %.9g, expected %.9g", name, i, found, wanted);
    }
}

static void check_cases(const expectation *cases, size_t n)
{
    for (size_t c = 0; c < n; c++) {
        for (int strided = 0; strided < 2; strided++) {
            fixture f;
            begin(&f);
            if (load(&f, cases[c].text, cases[c].opset) != OPF_OK)
                fail_msg("%s: %s", cases[c].name, f.error.message);
            make_values(&f, strided != 0);
            if (run(&f) != OPF_OK)
                fail_msg("%s: %s", cases[c].name, f.error.message);
            for (uint32_t o = 0; o < f.graph->n_outputs; o++)
                check_output(cases[c].name, &f.views[f.graph->outputs[o]], &cases[c].outputs[o]);
            end(&f);
        }
    }
}

#endif
