/* SPDX-License-Identifier: Apache-2.0 */
/* Models written byte by byte, for tests of the loader: a tiny protobuf writer, and loading what it wrote. */
#ifndef ONNX_BYTES_H
#define ONNX_BYTES_H

#include "graph/verify.h"
#include "onnx/load.h"
#include "ops/infer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#if defined(__clang__) || defined(__GNUC__)
#pragma GCC diagnostic ignored "-Wunused-function" /* no file uses all of these */
#endif

/* ---- a tiny protobuf writer ---- */

typedef struct msg {
    size_t        n;
    unsigned char data[6000];
} msg;

static void put_byte(msg *m, unsigned byte)
{
    assert_true(m->n < sizeof m->data);
    m->data[m->n++] = (unsigned char)byte;
}

static void put_varint(msg *m, uint64_t x)
{
    for (; x > 127; x >>= 7)
        put_byte(m, (unsigned)(x & 127) | 128);
    put_byte(m, (unsigned)x);
}

static void put_int(msg *m, unsigned field, int64_t x)
{
    put_varint(m, field << 3);
    put_varint(m, (uint64_t)x);
}

static void put_bytes(msg *m, unsigned field, const void *data, size_t n)
{
    put_varint(m, field << 3 | 2);
    put_varint(m, n);
    for (size_t i = 0; i < n; i++)
        put_byte(m, ((const unsigned char *)data)[i]);
}

static void put_text(msg *m, unsigned field, const char *text)
{
    put_bytes(m, field, text, strlen(text));
}

static void put_msg(msg *m, unsigned field, const msg *inner)
{
    put_bytes(m, field, inner->data, inner->n);
}

/* Names in one string, "a,b,,c": an empty one is absent. */
static void put_names(msg *m, unsigned field, const char *names)
{
    while (*names != '\0') {
        size_t n = strcspn(names, ",");
        put_bytes(m, field, names, n);
        names += n;
        names += *names == ',';
    }
}

static msg node_of(const char *op, const char *name, const char *inputs, const char *outputs)
{
    msg m = {0};
    put_names(&m, 1, inputs);
    put_names(&m, 2, outputs);
    if (name[0] != '\0')
        put_text(&m, 3, name);
    put_text(&m, 4, op);
    return m;
}

static void add_node(msg *graph, const char *op, const char *name, const char *inputs, const char *outputs)
{
    msg m = node_of(op, name, inputs, outputs);
    put_msg(graph, 1, &m);
}

static msg attr_of(const char *name, int type)
{
    msg m = {0};
    put_text(&m, 1, name);
    put_int(&m, 20, type);
    return m;
}

/* dims: numbers, -1 is the symbol N, -2 nothing. */
static msg value_of(const char *name, int type, int rank, const int64_t *dims)
{
    msg shape = {0}, tensor = {0}, kind = {0}, m = {0};
    for (int i = 0; i < rank; i++) {
        msg dim = {0};
        if (dims[i] >= 0 || dims[i] < -2)
            put_int(&dim, 1, dims[i]);
        else if (dims[i] == -1)
            put_text(&dim, 2, "N");
        put_msg(&shape, 1, &dim);
    }
    put_int(&tensor, 1, type);
    if (rank >= 0)
        put_msg(&tensor, 2, &shape);
    put_msg(&kind, 1, &tensor);
    put_text(&m, 1, name);
    put_msg(&m, 2, &kind);
    return m;
}

static void add_input(msg *graph, const char *name)
{
    const int64_t dims[] = {-1, 3};
    msg           m      = value_of(name, OPF_FLOAT, 2, dims);
    put_msg(graph, 11, &m);
}

static void add_output(msg *graph, const char *name)
{
    msg m = {0};
    put_text(&m, 1, name);
    put_msg(graph, 12, &m);
}

static msg tensor_of(const char *name, int type, int64_t dim, const void *raw, size_t bytes)
{
    msg m = {0};
    put_int(&m, 1, dim);
    put_int(&m, 2, type);
    if (name[0] != '\0')
        put_text(&m, 8, name);
    if (raw != NULL)
        put_bytes(&m, 9, raw, bytes);
    return m;
}

static const float three[] = {1, 2, 3};

static void add_initializer(msg *graph, const char *name)
{
    msg m = tensor_of(name, OPF_FLOAT, 3, three, sizeof three);
    put_msg(graph, 5, &m);
}

static void add_opset(msg *m, unsigned field, const char *domain, int64_t version)
{
    msg opset = {0};
    put_text(&opset, 1, domain);
    put_int(&opset, 2, version);
    put_msg(m, field, &opset);
}

/* A vector of `size` elements, three of which are not zero. */
static void add_sparse(msg *graph, const char *name, int64_t size, const int64_t places[3])
{
    msg m = {0}, values = tensor_of(name, OPF_FLOAT, 3, three, sizeof three), indices = tensor_of("", OPF_INT64, 3, places, 3 * sizeof *places);
    put_msg(&m, 1, &values);
    put_msg(&m, 2, &indices);
    put_int(&m, 3, size);
    put_msg(graph, 15, &m);
}

static msg model_of(const msg *graph, int64_t ir, int64_t opset)
{
    msg m = {0};
    put_int(&m, 1, ir);
    put_text(&m, 2, "test");
    put_msg(&m, 7, graph);
    add_opset(&m, 8, "", opset);
    return m;
}

/* ---- loading ---- */

typedef struct fixture {
    opf_heap         heap;
    opf_arena        arena;
    opf_const_pool   pool;
    opf_limits       limits;
    opf_load_options options;
    opf_loaded       loaded;
    opf_error        error;
} fixture;

static void reset(fixture *f)
{
    opf_loaded_fini(&f->loaded, &f->heap);
    opf_arena_fini(&f->arena);
    assert_int_equal(atomic_load(&f->heap.used), 0);
    f->pool = (opf_const_pool){.arena = &f->arena, .next_id = 1};
    memset(&f->error, 0, sizeof f->error);
}

static int setup(void **state)
{
    static fixture f;
    opf_heap_init(&f.heap, NULL, 0);
    opf_arena_init(&f.arena, &f.heap);
    opf_limits_init(&f.limits);
    f.options = (opf_load_options){.limits = &f.limits, .heap = &f.heap};
    reset(&f);
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    reset(*state);
    return 0;
}

/* In a block of the exact size, so that a sanitizer sees any byte read beyond it. */
static opf_status load_bytes(fixture *f, const unsigned char *data, size_t n, void **copy)
{
    reset(f);
    *copy = malloc(n == 0 ? 1 : n);
    assert_non_null(*copy);
    memcpy(*copy, data, n);
    return opf_onnx_load(*copy, n, false, &f->options, &f->arena, opf_dims_create(&f->arena), &f->pool, &f->loaded, &f->error);
}

static void *copy_in_use;

static int free_copy(void **state)
{
    free(copy_in_use);
    copy_in_use = NULL;
    return teardown(state);
}

static opf_graph *load_good(fixture *f, const msg *model)
{
    free(copy_in_use);
    if (load_bytes(f, model->data, model->n, &copy_in_use) != OPF_OK)
        fail_msg("%s", f->error.message);
    opf_error error;
    if (opf_graph_verify(f->loaded.graph, &error) != OPF_OK)
        fail_msg("%s", error.message);
    return f->loaded.graph;
}

static void load_bad(fixture *f, const msg *model, opf_status status, const char *says)
{
    void *copy;
    assert_int_equal(load_bytes(f, model->data, model->n, &copy), status);
    if (strstr(f->error.message, says) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", f->error.message, says);
    assert_int_equal(f->error.status, status);
    free(copy);
}

static opf_value *value_named(const opf_graph *graph, const char *name)
{
    opf_value_id id = opf_graph_find_value(graph, name);
    assert_int_not_equal(id, 0);
    return opf_graph_value(graph, id);
}

static opf_node *producer_of(const opf_graph *graph, const char *name)
{
    return opf_graph_node(graph, value_named(graph, name)->producer);
}

static msg small_graph(void)
{
    msg g = {0};
    put_text(&g, 2, "g");
    add_input(&g, "x");
    add_initializer(&g, "w");
    add_node(&g, "Add", "sum", "x,w", "s");
    add_node(&g, "Relu", "", "s", "y");
    add_output(&g, "y");
    return g;
}

/* f(a, b) { alpha } = LeakyRelu(Add(a, b)) with an attribute reference, and a second output that is input a. */
static msg leaky_function(bool with_default)
{
    msg m = {0}, n, attr;
    put_text(&m, 1, "F");
    put_text(&m, 10, "local");
    put_names(&m, 4, "a,b");
    put_names(&m, 5, "r,a");
    n = node_of("Add", "add", "a,b", "t");
    put_msg(&m, 7, &n);
    n    = node_of("LeakyRelu", "", "t", "r");
    attr = attr_of("alpha", 1);
    put_text(&attr, 21, "slope");
    put_msg(&n, 5, &attr);
    put_msg(&m, 7, &n);
    attr = attr_of("slope", 1);
    put_varint(&attr, 2 << 3 | 5);
    for (size_t i = 0; i < 4; i++)
        put_byte(&attr, ((const unsigned char *)&three[1])[i]);
    if (with_default)
        put_msg(&m, 11, &attr);
    add_opset(&m, 9, "", 16);
    return m;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, free_copy)

#endif
