/* SPDX-License-Identifier: Apache-2.0 */
/* One node for tests: its inference and its reference kernel together, on small tensors. */
#ifndef ONE_NODE_H
#define ONE_NODE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "ops/infer.h"
#include "ops/reference.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAYBE_UNUSED __attribute__((unused))

enum { ROOM = 256, MAX_IN = 8, MAX_OUT = 4, MAX_ATTRS = 8 };

typedef struct {
    opf_view view;
    char     data[ROOM * 8];
    bool     is_absent;
} tensor;

typedef struct {
    opf_heap       heap;
    opf_arena      arena;
    opf_dims      *dims;
    opf_const_pool consts;
    opf_graph     *graph;
    opf_node_id    node;
    opf_error      error;
    tensor         in[MAX_IN], out[MAX_OUT];
    uint32_t       n_in, n_out;
} fixture;

static fixture f;

MAYBE_UNUSED static void begin(void)
{
    opf_heap_init(&f.heap, NULL, 0);
    opf_arena_init(&f.arena, &f.heap);
    f.dims   = opf_dims_create(&f.arena);
    f.consts = (opf_const_pool){.arena = &f.arena};
    f.graph  = opf_graph_create(&f.arena, f.dims, &f.consts, "test");
    f.n_in   = 0;
    assert_non_null(f.graph);
}

MAYBE_UNUSED static void end(void)
{
    opf_arena_fini(&f.arena);
    assert_int_equal(f.heap.used, 0);
}

/* ---- inputs ---- */

static tensor *shape(tensor *t, opf_type type, int32_t rank, const int64_t *dims)
{
    memset(t, 0, sizeof *t);
    t->view = (opf_view){.type = type, .rank = rank, .data = t->data};
    for (int32_t i = 0; i < rank; i++)
        t->view.dims[i] = dims[i];
    opf_view_set_dense(&t->view);
    assert_true(opf_view_count(&t->view) <= ROOM);
    return t;
}

#define DIMS(...) (int32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]){__VA_ARGS__}
#define SCALAR    0, NULL
#define LIST(...) (const double[]){__VA_ARGS__}

MAYBE_UNUSED static tensor *add(opf_type type, int32_t rank, const int64_t *dims, const double *x)
{
    tensor *t = shape(&f.in[f.n_in++], type, rank, dims);
    for (size_t i = 0; x != NULL && i < opf_view_count(&t->view); i++) {
        if (opf_types_have(OPF_TYPES_ANY_FLOAT, type))
            opf_store_f64(type, t->data, i, x[i]);
        else
            opf_store_i64(type, t->data, i, (int64_t)x[i]);
    }
    return t;
}

/* Elements 0.25, 0.5, … in a pattern without symmetry. */
MAYBE_UNUSED static tensor *add_pattern(opf_type type, int32_t rank, const int64_t *dims)
{
    tensor *t = add(type, rank, dims, NULL);
    for (size_t i = 0; i < opf_view_count(&t->view); i++)
        opf_store_f64(type, t->data, i, 0.25 * (double)(i * i % 11) - 1);
    return t;
}

MAYBE_UNUSED static void add_nothing(void)
{
    f.in[f.n_in++].is_absent = true;
}

MAYBE_UNUSED static opf_attr int_attr(const char *name, int64_t i)
{
    return (opf_attr){.name = name, .type = OPF_ATTR_INT, .i = i};
}
MAYBE_UNUSED static opf_attr float_attr(const char *name, float x)
{
    return (opf_attr){.name = name, .type = OPF_ATTR_FLOAT, .f = x};
}
MAYBE_UNUSED static opf_attr string_attr(const char *name, const char *s)
{
    return (opf_attr){.name = name, .type = OPF_ATTR_STRING, .s = s, .n = (uint32_t)strlen(s)};
}

/* ---- running ---- */

static void set_info(opf_info *info, const tensor *t)
{
    const size_t count = opf_view_count(&t->view);
    *info = (opf_info){.type = t->view.type, .rank = t->view.rank, .n_values = -1};
    info->dims = OPF_NEW(&f.arena, opf_dim, t->view.rank);
    for (int32_t i = 0; i < t->view.rank; i++)
        info->dims[i] = opf_dim_number(t->view.dims[i]);
    if (!opf_types_have(OPF_TYPES_INT, t->view.type))
        return;
    info->n_values = (int32_t)count;
    info->values   = OPF_NEW(&f.arena, opf_dim, count);
    for (size_t i = 0; i < count; i++)
        info->values[i] = opf_dim_number(opf_load_i64(t->view.type, t->view.data, i));
}

MAYBE_UNUSED static opf_status run_node(const opf_op *op, uint32_t n_out, uint32_t n_attrs, const opf_attr *attrs)
{
    opf_value_id inputs[MAX_IN], outputs[MAX_OUT];
    opf_view     in[MAX_IN], out[MAX_OUT];
    f.n_out = n_out;
    for (uint32_t i = 0; i < f.n_in; i++) {
        inputs[i] = 0;
        in[i]     = f.in[i].is_absent ? (opf_view){0} : f.in[i].view;
        if (f.in[i].is_absent)
            continue;
        inputs[i] = opf_graph_add_value(f.graph, NULL);
        set_info(&opf_graph_value(f.graph, inputs[i])->info, &f.in[i]);
        assert_true(opf_graph_add_input(f.graph, inputs[i]));
    }
    for (uint32_t o = 0; o < n_out; o++)
        outputs[o] = opf_graph_add_value(f.graph, NULL);
    f.node = opf_graph_add_node(f.graph, op, op->name, "n", inputs, f.n_in, outputs, n_out);
    for (uint32_t a = 0; a < n_attrs; a++)
        assert_true(opf_node_set_attr(f.graph, f.node, attrs[a]));
    OPF_TRY(opf_infer_update(f.graph, f.node, &f.error));
    for (uint32_t o = 0; o < n_out; o++) {
        const opf_info *info = &opf_graph_value(f.graph, outputs[o])->info;
        int64_t         dims[OPF_MAX_RANK];
        assert_true(info->rank >= 0);
        for (int32_t i = 0; i < info->rank; i++) {
            assert_true(opf_dim_is_number(info->dims[i]));
            dims[i] = info->dims[i].n;
        }
        out[o] = shape(&f.out[o], info->type, info->rank, dims)->view;
    }
    const opf_node *node = opf_graph_node(f.graph, f.node);
    opf_call        call = {.node = node, .attrs = node->attrs, .n_attrs = node->n_attrs, .in = in, .n_in = f.n_in, .out = out,
                            .n_out = n_out, .heap = &f.heap};
    const size_t    used = f.heap.used;
    opf_status      status = op->reference(&call, &f.error);
    assert_int_equal(f.heap.used, used);
    return status;
}

#define RUN(op, n_out, ...)                                                                                            \
    run_node(&opf_op_##op, n_out, (uint32_t)(sizeof((opf_attr[]){__VA_ARGS__}) / sizeof(opf_attr)), (opf_attr[]){__VA_ARGS__})
#define RUN_OK(op, n_out, ...)                                                                                         \
    do {                                                                                                               \
        if (RUN(op, n_out, __VA_ARGS__) != OPF_OK)                                                                     \
            fail_msg("%s", f.error.message);                                                                           \
    } while (0)
#define NONE int_attr("unused", 0)
/* Runs, must fail with this status and a message that holds `part`. */
#define REFUSE(op, n_out, status, part, ...)                                                                           \
    do {                                                                                                               \
        assert_int_equal(RUN(op, n_out, __VA_ARGS__), status);                                                         \
        if (strstr(f.error.message, part) == NULL)                                                                     \
            fail_msg("\"%s\" does not hold \"%s\"", f.error.message, part);                                            \
        end();                                                                                                         \
    } while (0)

static double at(uint32_t o, size_t i)
{
    const opf_view *v = &f.out[o].view;
    return opf_types_have(OPF_TYPES_ANY_FLOAT, v->type) ? opf_load_f64(v->type, v->data, i) : (double)opf_load_i64(v->type, v->data, i);
}

static void expect_shape(uint32_t o, int32_t rank, const int64_t *dims)
{
    assert_int_equal(f.out[o].view.rank, rank);
    for (int32_t i = 0; i < rank; i++)
        assert_int_equal(f.out[o].view.dims[i], dims[i]);
}

MAYBE_UNUSED static void expect(uint32_t o, int32_t rank, const int64_t *dims, const double *x, double tolerance)
{
    expect_shape(o, rank, dims);
    for (size_t i = 0; i < opf_view_count(&f.out[o].view); i++)
        if (!(fabs(at(o, i) - x[i]) <= tolerance) && !(at(o, i) == x[i]) && !(isnan(at(o, i)) && isnan(x[i])))
            fail_msg("element %zu of output %u is %.17g, must be %.17g", i, o, at(o, i), x[i]);
}

#endif
