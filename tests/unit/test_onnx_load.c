/* SPDX-License-Identifier: Apache-2.0 */
/* Models written byte by byte: what a good one becomes, and what every kind of bad one is refused with. */
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

/* ---- good models ---- */

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

static void test_small_model(void **state)
{
    fixture   *f     = *state;
    msg        g     = small_graph();
    msg        model = model_of(&g, 8, 17);
    opf_graph *graph = load_good(f, &model);
    assert_int_equal(f->loaded.ops.total, 2);
    assert_int_equal(f->loaded.ir_version, 8);
    assert_int_equal(f->loaded.opsets[0].version, 17);
    assert_string_equal(f->loaded.producer, "test");
    assert_int_equal(graph->n_inputs, 1);
    assert_int_equal(graph->n_outputs, 1);
    const opf_value *x = value_named(graph, "x");
    assert_int_equal(x->info.type, OPF_FLOAT);
    assert_int_equal(x->info.rank, 2);
    assert_string_equal(opf_dim_symbol_name(graph->dims, x->info.dims[0]), "N");
    assert_true(opf_dim_is(x->info.dims[1], 3));
    const opf_value *w = value_named(graph, "w");
    assert_non_null(w->constant);
    assert_in_range((uintptr_t)w->constant->data, (uintptr_t)copy_in_use, (uintptr_t)copy_in_use + model.n); /* borrowed */
    assert_string_equal(producer_of(graph, "s")->name, "sum");
    assert_string_equal(producer_of(graph, "y")->name, "y");
    assert_int_equal(producer_of(graph, "y")->n_origin, 1);
    assert_string_equal(producer_of(graph, "y")->origin[0], "y");
    assert_ptr_equal(producer_of(graph, "y")->op, &opf_op_Relu);
}

/* Nodes in any order, repeated names, absent inputs, outputs that are inputs or constants. */
static void test_forms(void **state)
{
    fixture *f = *state;
    msg      g = {0};
    add_input(&g, "x");
    add_initializer(&g, "w");
    add_node(&g, "Relu", "same", "b", "c");
    add_node(&g, "Relu", "same", "a", "b");
    add_node(&g, "Relu", "same", "x", "a");
    add_node(&g, "Clip", "clip", "x,,w,", "d");
    add_output(&g, "c");
    add_output(&g, "x");
    add_output(&g, "w");
    msg        model = model_of(&g, 8, 13);
    opf_graph *graph = load_good(f, &model);
    assert_string_equal(producer_of(graph, "c")->name, "same");
    assert_string_equal(producer_of(graph, "b")->name, "same#2");
    assert_string_equal(producer_of(graph, "a")->name, "same#3");
    const opf_node *clip = producer_of(graph, "d");
    assert_int_equal(clip->n_own_inputs, 3);
    assert_int_equal(clip->inputs[1], 0);
    assert_int_equal(graph->n_outputs, 3);
    assert_true(value_named(graph, "x")->is_input);
}

static void add_constant_node(msg *graph, const char *output, const msg *attr)
{
    msg m = node_of("Constant", "", "", output);
    put_msg(&m, 5, attr);
    put_msg(graph, 1, &m);
}

static void test_constant_nodes(void **state)
{
    fixture *f = *state;
    msg      g = {0}, attr;
    msg      t = tensor_of("", OPF_FLOAT, 3, three, sizeof three);
    attr       = attr_of("value", 4);
    put_msg(&attr, 5, &t);
    add_constant_node(&g, "a", &attr);
    attr = attr_of("value_int", 2);
    put_int(&attr, 3, INT64_MIN + 1);
    add_constant_node(&g, "b", &attr);
    attr = attr_of("value_ints", 7);
    put_int(&attr, 8, 5);
    put_int(&attr, 8, -6);
    add_constant_node(&g, "c", &attr);
    attr = attr_of("value_float", 1);
    put_varint(&attr, 2 << 3 | 5);
    for (size_t i = 0; i < 4; i++)
        put_byte(&attr, ((const unsigned char *)&three[2])[i]);
    add_constant_node(&g, "d", &attr);
    add_output(&g, "a");
    msg        model = model_of(&g, 8, 13);
    opf_graph *graph = load_good(f, &model);
    assert_int_equal(f->loaded.ops.total, 0);
    assert_true(opf_const_f64_at(value_named(graph, "a")->constant, 1) == 2.0);
    assert_true(opf_const_i64_at(value_named(graph, "b")->constant, 0) == INT64_MIN + 1);
    assert_int_equal(value_named(graph, "b")->constant->rank, 0);
    assert_int_equal(opf_const_i64_at(value_named(graph, "c")->constant, 1), -6);
    assert_true(opf_const_f64_at(value_named(graph, "d")->constant, 0) == 3.0);
    attr = attr_of("value_string", 3);
    put_text(&attr, 4, "s");
    add_constant_node(&g, "e", &attr);
    model = model_of(&g, 8, 13);
    load_bad(f, &model, OPF_UNSUPPORTED, "node e (Constant): a Constant with attribute value_string");
}

static void test_inputs_with_initializers(void **state)
{
    fixture *f = *state;
    msg      g = small_graph();
    const int64_t dims[] = {3};
    msg      w = value_of("w", OPF_FLOAT, 1, dims);
    put_msg(&g, 11, &w);
    msg        old = model_of(&g, 3, 9), modern = model_of(&g, 8, 13);
    opf_graph *graph = load_good(f, &old);
    assert_int_equal(graph->n_inputs, 1);
    assert_int_equal(f->loaded.n_constant_inputs, 1);
    assert_string_equal(f->loaded.constant_inputs[0], "w");
    const char *names[]      = {"w"};
    f->options.overridable   = names;
    f->options.n_overridable = 1;
    graph                    = load_good(f, &old);
    assert_int_equal(graph->n_inputs, 2);
    assert_null(f->loaded.defaults[0]);
    assert_non_null(f->loaded.defaults[1]);
    names[0] = "x";
    load_bad(f, &old, OPF_INVALID_ARGUMENT, "overridable: x");
    f->options.n_overridable = 0;
    graph                    = load_good(f, &modern);
    assert_int_equal(graph->n_inputs, 2);
    assert_non_null(f->loaded.defaults[1]);
    assert_null(value_named(graph, "w")->constant);
    f->options.freeze = true;
    graph             = load_good(f, &modern);
    assert_int_equal(graph->n_inputs, 1);
    assert_non_null(value_named(graph, "w")->constant);
}

static void test_typed_fields(void **state)
{
    fixture *f = *state;
    msg      g = {0}, t = {0}, packed = {0};
    put_int(&t, 1, 3);
    put_int(&t, 2, OPF_FLOAT16);
    put_varint(&packed, 0x3c00);
    put_varint(&packed, 0xc000);
    put_varint(&packed, 0);
    put_msg(&t, 5, &packed);
    put_text(&t, 8, "half");
    put_msg(&g, 5, &t);
    t = (msg){0};
    put_int(&t, 1, 2);
    put_int(&t, 2, OPF_INT64);
    put_int(&t, 7, -5);
    put_int(&t, 7, INT64_MAX);
    put_text(&t, 8, "long");
    put_msg(&g, 5, &t);
    t = (msg){0};
    put_int(&t, 1, 3);
    put_int(&t, 2, OPF_UINT4);
    put_int(&t, 5, 0x21);
    put_int(&t, 5, 0x3);
    put_text(&t, 8, "nibbles");
    put_msg(&g, 5, &t);
    add_output(&g, "half");
    msg        model = model_of(&g, 10, 21);
    opf_graph *graph = load_good(f, &model);
    assert_true(opf_const_f64_at(value_named(graph, "half")->constant, 1) == -2.0);
    assert_true(opf_const_i64_at(value_named(graph, "long")->constant, 1) == INT64_MAX);
    assert_int_equal(value_named(graph, "nibbles")->constant->bytes, 2);
    assert_memory_equal(value_named(graph, "nibbles")->constant->data, "\x21\x03", 2);
}

/* ---- functions ---- */

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

static void test_functions(void **state)
{
    fixture *f = *state;
    for (int with_default = 0; with_default < 2; with_default++) {
        msg g = {0}, n;
        add_input(&g, "x");
        for (int i = 0; i < 2; i++) {
            n = node_of("F", "call", i == 0 ? "x,x" : "y,p", i == 0 ? "y,p" : "z");
            put_text(&n, 7, "local");
            put_msg(&g, 1, &n);
        }
        add_output(&g, "z");
        add_output(&g, "p");
        msg model = model_of(&g, 8, 17), function = leaky_function(with_default != 0);
        put_msg(&model, 25, &function);
        add_opset(&model, 8, "local", 1);
        opf_graph *graph = load_good(f, &model);
        assert_int_equal(f->loaded.ops.total, 5);
        const opf_node *leaky = producer_of(graph, "z");
        assert_string_equal(leaky->name, "z");
        assert_string_equal(opf_graph_value(graph, leaky->inputs[0])->name, "call#2/t");
        assert_string_equal(producer_of(graph, "call#2/t")->name, "call#2/add");
        assert_string_equal(producer_of(graph, "call/t")->name, "call/add");
        assert_true(opf_node_float(leaky, "alpha", -1.0F) == (with_default != 0 ? 2.0F : -1.0F));
        assert_string_equal(producer_of(graph, "p")->op_type, "Identity");
    }
}

static void test_recursive_functions(void **state)
{
    fixture *f = *state;
    msg      g = {0}, n, a = {0}, b = {0};
    put_text(&a, 1, "A");
    put_names(&a, 4, "p");
    put_names(&a, 5, "q");
    b = a;
    b.data[2] = 'B';
    n         = node_of("B", "inner", "p", "q");
    put_msg(&a, 7, &n);
    n = node_of("A", "again", "p", "q");
    put_msg(&b, 7, &n);
    add_input(&g, "x");
    add_node(&g, "A", "outer", "x", "y");
    add_output(&g, "y");
    msg model = model_of(&g, 8, 17);
    put_msg(&model, 25, &a);
    put_msg(&model, 25, &b);
    load_bad(f, &model, OPF_INVALID_MODEL, "function A calls itself");
}

/* ---- bodies ---- */

static msg body_attr(const char *name, const msg *graph)
{
    msg attr = attr_of(name, 5);
    put_msg(&attr, 6, graph);
    return attr;
}

/* No operator with bodies is needed: any node may carry graphs as attributes. */
static void test_bodies(void **state)
{
    fixture *f = *state;
    msg      g = {0}, inner = {0}, outer = {0}, other = {0}, n, attr;
    add_node(&inner, "Add", "", "t,x", "deep");
    add_output(&inner, "deep");
    add_node(&outer, "Add", "add", "x,w", "t");
    n    = node_of("Identity", "id", "t", "u");
    attr = body_attr("g", &inner);
    put_msg(&n, 5, &attr);
    put_msg(&outer, 1, &n);
    add_output(&outer, "u");
    add_node(&other, "Relu", "", "s", "v");
    add_output(&other, "v");
    add_input(&g, "x");
    add_initializer(&g, "w");
    add_node(&g, "Relu", "", "x", "s");
    n    = node_of("Identity", "If_3", "x", "y");
    attr = body_attr("then_branch", &outer);
    put_msg(&n, 5, &attr);
    attr = body_attr("else_branch", &other);
    put_msg(&n, 5, &attr);
    put_msg(&g, 1, &n);
    add_output(&g, "y");
    msg             model = model_of(&g, 8, 17);
    opf_graph      *graph = load_good(f, &model);
    const opf_node *node  = producer_of(graph, "y");
    assert_int_equal(f->loaded.ops.total, 6);
    assert_int_equal(node->n_bodies, 2);
    assert_int_equal(node->n_own_inputs, 1);
    assert_int_equal(node->n_captures, 2); /* x and s; w is a constant and shared */
    for (uint32_t b = 0; b < 2; b++) {
        assert_int_equal(node->bodies[b]->n_inputs, 2);
        for (uint32_t c = 0; c < 2; c++)
            assert_string_equal(opf_graph_value(node->bodies[b], node->bodies[b]->inputs[c])->name,
                                opf_graph_value(graph, node->inputs[1 + c])->name);
    }
    const opf_graph *then = node->bodies[0];
    assert_non_null(value_named(then, "w")->constant);
    const opf_node *nested = producer_of(then, "u");
    assert_string_equal(nested->name, "If_3/then_branch/id");
    assert_string_equal(producer_of(nested->bodies[0], "deep")->name, "If_3/then_branch/id/g/deep");
    assert_int_equal(nested->n_captures, 2);
    f->limits.depth = 2;
    load_bad(f, &model, OPF_LIMIT, "depth");
}

/* ---- opsets ---- */

static void test_lifting(void **state)
{
    fixture *f = *state;
    msg      g = {0}, n, attr;
    add_input(&g, "x");
    n    = node_of("Unsqueeze", "u", "x", "y");
    attr = attr_of("axes", 7);
    put_int(&attr, 8, 0);
    put_msg(&n, 5, &attr);
    put_msg(&g, 1, &n);
    add_output(&g, "y");
    msg             model = model_of(&g, 7, 11);
    opf_graph      *graph = load_good(f, &model);
    const opf_node *node  = producer_of(graph, "y");
    assert_int_equal(node->n_own_inputs, 2);
    assert_int_equal(opf_const_i64_at(opf_graph_value(graph, node->inputs[1])->constant, 0), 0);
    assert_null(opf_node_attr(node, "axes"));
    model = model_of(&g, 7, 13);
    load_bad(f, &model, OPF_INVALID_MODEL, "node u (Unsqueeze): input 1");
}

static void test_versions(void **state)
{
    fixture *f     = *state;
    msg      g     = small_graph();
    msg      model = model_of(&g, 8, 5);
    load_bad(f, &model, OPF_UNSUPPORTED, "opset 5 of ai.onnx is not supported: 6 to 28 are");
    model = model_of(&g, 8, 29);
    load_bad(f, &model, OPF_UNSUPPORTED, "6 to 28");
    model = model_of(&g, 2, 9);
    load_bad(f, &model, OPF_UNSUPPORTED, "IR version 2");
    model = model_of(&g, 15, 9);
    load_bad(f, &model, OPF_UNSUPPORTED, "IR version 15");
    model = (msg){0};
    put_int(&model, 1, 8);
    put_msg(&model, 7, &g);
    load_bad(f, &model, OPF_INVALID_MODEL, "imports no opset");
    add_opset(&model, 8, "other", 1);
    load_bad(f, &model, OPF_INVALID_MODEL, "node sum (Add): the model imports no opset of its domain ai.onnx");
    add_opset(&model, 8, "ai.onnx", 17);
    (void)load_good(f, &model);
    model = (msg){0};
    load_bad(f, &model, OPF_INVALID_MODEL, "no ONNX model");
}

static void test_unsupported_operators(void **state)
{
    fixture *f = *state;
    msg      g = small_graph(), n;
    for (int i = 0; i < 5; i++) {
        char name[] = {'n', (char)('0' + i), '\0'};
        add_node(&g, "NoSuchThing", name, "x", name);
    }
    n = node_of("Relu", "strange", "x", "q");
    put_text(&n, 7, "com.example");
    put_msg(&g, 1, &n);
    msg model = model_of(&g, 8, 17);
    load_bad(f, &model, OPF_UNSUPPORTED, "2 unsupported operators");
    assert_non_null(strstr(f->error.message, "NoSuchThing, opset 17: 5 nodes, n0, n1, n2, …"));
    assert_non_null(strstr(f->error.message, "Relu of domain com.example: node strange"));
}

/* ---- bad models ---- */

static void test_every_truncation(void **state)
{
    fixture *f = *state;
    msg      g = small_graph(), function = leaky_function(true);
    msg      model = model_of(&g, 8, 17);
    put_msg(&model, 25, &function);
    for (size_t n = 0; n < model.n; n++) {
        void      *copy;
        opf_status status = load_bytes(f, model.data, n, &copy);
        /* Cut between two fields, what is left may be whole. */
        assert_true(status == OPF_INVALID_MODEL || status == OPF_UNSUPPORTED || (status == OPF_OK && n + function.n + 8 > model.n));
        assert_true(status == OPF_OK || f->error.message[0] != '\0');
        free(copy);
        reset(f);
    }
}

static void test_every_corrupt_byte(void **state)
{
    fixture *f = *state;
    msg      g = small_graph(), function = leaky_function(true);
    msg      model = model_of(&g, 8, 17);
    put_msg(&model, 25, &function);
    const unsigned char flips[] = {0x01, 0x08, 0x80, 0xff};
    for (size_t i = 0; i < model.n; i++)
        for (size_t k = 0; k < sizeof flips; k++) {
            void *copy;
            model.data[i] ^= flips[k];
            opf_status status = load_bytes(f, model.data, model.n, &copy);
            assert_true(status == OPF_OK || status == OPF_INVALID_MODEL || status == OPF_UNSUPPORTED || status == OPF_LIMIT);
            model.data[i] ^= flips[k];
            reset(f);
            free(copy);
        }
}

static void test_bad_structure(void **state)
{
    fixture *f = *state;
    msg      g = small_graph(), model;
    add_node(&g, "Relu", "lost", "nowhere", "z");
    model = model_of(&g, 8, 17);
    load_bad(f, &model, OPF_INVALID_MODEL, "node lost (Relu): input nowhere is produced by no node");
    g = small_graph();
    add_node(&g, "Relu", "one", "p", "q");
    add_node(&g, "Relu", "two", "q", "p");
    model = model_of(&g, 8, 17);
    load_bad(f, &model, OPF_INVALID_MODEL, "node one (Relu) is on a cycle");
    g = small_graph();
    add_node(&g, "Relu", "twice", "x", "s");
    model = model_of(&g, 8, 17);
    load_bad(f, &model, OPF_INVALID_MODEL, "node twice (Relu): an output: the name s");
    g = small_graph();
    add_node(&g, "Relu", "", "x", "w");
    model = model_of(&g, 8, 17);
    load_bad(f, &model, OPF_INVALID_MODEL, "the name w is already that of a constant");
    g = small_graph();
    add_output(&g, "y");
    model = model_of(&g, 8, 17);
    load_bad(f, &model, OPF_INVALID_MODEL, "output y is listed twice");
    g = small_graph();
    add_output(&g, "missing");
    model = model_of(&g, 8, 17);
    load_bad(f, &model, OPF_INVALID_MODEL, "output missing");
    g = small_graph();
    add_initializer(&g, "w");
    model = model_of(&g, 8, 17);
    load_bad(f, &model, OPF_INVALID_MODEL, "initializer w is given twice");
    g = small_graph();
    add_node(&g, "Relu", "none", "", "z");
    model = model_of(&g, 8, 17);
    load_bad(f, &model, OPF_INVALID_MODEL, "node none (Relu): input 0");
    g = small_graph();
    add_node(&g, "Relu", "many", "x,x", "z");
    model = model_of(&g, 8, 17);
    load_bad(f, &model, OPF_INVALID_MODEL, "node many (Relu): 2 inputs, at most 1");
    g = small_graph();
    put_text(&g, 15, "");
    model = model_of(&g, 8, 17);
    load_bad(f, &model, OPF_UNSUPPORTED, "sparse");
}

static void refuse_tensor(fixture *f, const msg *tensor, opf_status status, const char *says)
{
    msg g = small_graph();
    put_msg(&g, 5, tensor);
    msg model = model_of(&g, 8, 17);
    load_bad(f, &model, status, says);
}

static void test_bad_tensors(void **state)
{
    fixture *f = *state;
    msg      t;
    t = tensor_of("t", OPF_FLOAT, 4, three, sizeof three);
    refuse_tensor(f, &t, OPF_INVALID_MODEL, "initializer t: raw_data holds 12 bytes, type and dims need 16");
    t = tensor_of("t", OPF_FLOAT, -1, three, sizeof three);
    refuse_tensor(f, &t, OPF_INVALID_MODEL, "initializer t: dimension 0 is -1");
    t = tensor_of("t", OPF_FLOAT, INT64_MAX, three, sizeof three);
    put_int(&t, 1, 16);
    refuse_tensor(f, &t, OPF_LIMIT, "initializer t");
    put_int(&t, 1, 0);
    refuse_tensor(f, &t, OPF_LIMIT, "initializer t");
    t = tensor_of("t", OPF_FLOAT, (int64_t)1 << 50, three, sizeof three);
    refuse_tensor(f, &t, OPF_LIMIT, "tensor-bytes");
    t = tensor_of("t", OPF_FLOAT, 1, NULL, 0);
    for (int i = 0; i < 16; i++)
        put_int(&t, 1, 1);
    refuse_tensor(f, &t, OPF_LIMIT, "rank 17");
    t = tensor_of("t", OPF_STRING, 1, NULL, 0);
    put_text(&t, 6, "s");
    refuse_tensor(f, &t, OPF_UNSUPPORTED, "string");
    t = tensor_of("t", 99, 1, three, 4);
    refuse_tensor(f, &t, OPF_UNSUPPORTED, "99");
    t = tensor_of("t", OPF_FLOAT, 1, NULL, 0);
    refuse_tensor(f, &t, OPF_INVALID_MODEL, "float_data holds 0 elements");
    t = tensor_of("t", OPF_FLOAT, 1, three, 4);
    put_int(&t, 7, 3);
    refuse_tensor(f, &t, OPF_INVALID_MODEL, "both");
    t = tensor_of("t", OPF_FLOAT, 1, three, 4);
    put_text(&t, 3, "");
    refuse_tensor(f, &t, OPF_UNSUPPORTED, "segment");
}

static void test_bad_inputs(void **state)
{
    fixture      *f      = *state;
    msg           g      = small_graph(), model;
    const int64_t huge[] = {INT64_MAX, INT64_MAX}, odd[] = {-7, 0};
    msg           v      = value_of("big", OPF_FLOAT, 2, huge);
    put_msg(&g, 11, &v);
    model = model_of(&g, 8, 17);
    load_bad(f, &model, OPF_LIMIT, "input big");
    g = small_graph();
    v = value_of("text", OPF_STRING, -1, NULL);
    put_msg(&g, 11, &v);
    model = model_of(&g, 8, 17);
    load_bad(f, &model, OPF_UNSUPPORTED, "input text: string");
    g       = small_graph();
    v       = (msg){0};
    msg seq = {0};
    put_text(&seq, 4, "");
    put_text(&v, 1, "list");
    put_msg(&v, 2, &seq);
    put_msg(&g, 11, &v);
    model = model_of(&g, 8, 17);
    load_bad(f, &model, OPF_UNSUPPORTED, "input list is of kind sequence");
    g = small_graph();
    v = value_of("odd", OPF_FLOAT, 2, odd);
    put_msg(&g, 11, &v);
    model                  = model_of(&g, 8, 17);
    const opf_graph *graph = load_good(f, &model);
    const opf_value *value = value_named(graph, "odd");
    assert_false(opf_dim_is_number(value->info.dims[0]));
    assert_true(opf_dim_is(value->info.dims[1], 0));
}

static void test_limits(void **state)
{
    fixture *f     = *state;
    msg      g     = small_graph();
    msg      model = model_of(&g, 8, 17);
    f->limits.nodes = 1;
    load_bad(f, &model, OPF_LIMIT, "limit nodes");
    opf_limits_init(&f->limits);
    f->limits.model_bytes = 10;
    load_bad(f, &model, OPF_LIMIT, "model-bytes");
    opf_limits_init(&f->limits);
    f->limits.rank = 1;
    load_bad(f, &model, OPF_LIMIT, "input x has rank 2");
    /* Each amount of memory gives a model or an error. */
    opf_limits_init(&f->limits);
    for (size_t limit = 1; limit < 300000; limit += 30000) {
        void *copy = NULL;
        reset(f);
        opf_heap_init(&f->heap, NULL, limit);
        opf_dims *dims = opf_dims_create(&f->arena);
        if (dims != NULL) {
            opf_status status = opf_onnx_load(model.data, model.n, false, &f->options, &f->arena, dims, &f->pool, &f->loaded, &f->error);
            assert_true(status == OPF_OK || status == OPF_OUT_OF_MEMORY);
        }
        free(copy);
    }
    reset(f);
    opf_heap_init(&f->heap, NULL, 0);
}

/* ---- external data ---- */

static msg external_model(const char *location, const char *offset, const char *length)
{
    const char *keys[] = {"location", "offset", "length"}, *values[] = {location, offset, length};
    msg         g = {0}, t = tensor_of("e", OPF_FLOAT, 3, NULL, 0);
    for (int i = 0; i < 3; i++) {
        msg entry = {0};
        put_text(&entry, 1, keys[i]);
        put_text(&entry, 2, values[i]);
        put_msg(&t, 13, &entry);
    }
    put_int(&t, 14, 1);
    put_msg(&g, 5, &t);
    add_output(&g, "e");
    return model_of(&g, 8, 17);
}

static void write_bytes(const char *path, const void *data, size_t n)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
}

static void test_external_data(void **state)
{
    fixture *f        = *state;
    char     folder[] = "opfuse_load_XXXXXX", path[96], link_path[64], outside[64];
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/data", folder);
    (void)snprintf(link_path, sizeof link_path, "%s/link", folder);
    (void)snprintf(outside, sizeof outside, "%s.outside", folder);
    unsigned char data[20] = {0};
    memcpy(data + 5, three, sizeof three);
    write_bytes(path, data, sizeof data);
    write_bytes(outside, data, sizeof data);
    (void)snprintf(path, sizeof path, "../%s", outside);
    assert_int_equal(symlink(path, link_path), 0);

    f->options.folder = folder;
    for (int read = 0; read < 2; read++) {
        f->options.no_mmap = read != 0;
        msg        good    = external_model("./data", "5", "12");
        opf_graph *graph   = load_good(f, &good);
        assert_true(opf_const_f64_at(value_named(graph, "e")->constant, 2) == 3.0);
        assert_int_equal(value_named(graph, "e")->constant->mapped, read == 0);
    }
    const struct {
        const char *location, *offset, *length, *says;
    } bad[] = {
        {"../x", "0", "12", "leaves the folder"},   {"a/../../x", "0", "12", "leaves the folder"},
        {"/etc/passwd", "0", "12", "relative"},     {"link", "0", "12", "through a link"},
        {"data", "9", "12", "of a file of 20"},     {"data", "18446744073709551615", "12", "of a file of 20"},
        {"data", "-1", "12", "must be a number"},   {"data", "0", "16", "length is 16"},
        {"data", "0", "1x", "must be a number"},    {"missing", "0", "12", "missing"},
        {"", "0", "12", "without a location"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        msg model = external_model(bad[i].location, bad[i].offset, bad[i].length);
        load_bad(f, &model, OPF_INVALID_MODEL, bad[i].says);
        assert_non_null(strstr(f->error.message, "initializer e"));
    }
    f->options.folder = NULL;
    msg model         = external_model("data", "0", "12");
    load_bad(f, &model, OPF_INVALID_MODEL, "has no folder");
    (void)snprintf(path, sizeof path, "%s/data", folder);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(unlink(link_path), 0);
    assert_int_equal(unlink(outside), 0);
    assert_int_equal(rmdir(folder), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, free_copy)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_small_model),
        TEST(test_forms),
        TEST(test_constant_nodes),
        TEST(test_inputs_with_initializers),
        TEST(test_typed_fields),
        TEST(test_functions),
        TEST(test_recursive_functions),
        TEST(test_bodies),
        TEST(test_lifting),
        TEST(test_versions),
        TEST(test_unsupported_operators),
        TEST(test_every_truncation),
        TEST(test_every_corrupt_byte),
        TEST(test_bad_structure),
        TEST(test_bad_tensors),
        TEST(test_bad_inputs),
        TEST(test_limits),
        TEST(test_external_data),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
