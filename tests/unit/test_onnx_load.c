/* SPDX-License-Identifier: Apache-2.0 */
/* What a good model, written byte by byte, becomes. */
#include "onnx_bytes.h"

/* ---- forms ---- */

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
    add_output(&g, "d");
    msg        model = model_of(&g, 8, 13);
    opf_graph *graph = load_good(f, &model);
    assert_string_equal(producer_of(graph, "c")->name, "same");
    assert_string_equal(producer_of(graph, "b")->name, "same#2");
    assert_string_equal(producer_of(graph, "a")->name, "same#3");
    const opf_node *clip = producer_of(graph, "d");
    assert_int_equal(clip->n_own_inputs, 3);
    assert_int_equal(clip->inputs[1], 0);
    assert_int_equal(graph->n_outputs, 4);
    assert_true(value_named(graph, "x")->is_input);
}

static void test_sparse(void **state)
{
    fixture *f = *state;
    msg      g = small_graph();
    add_sparse(&g, "v", 6, (const int64_t[]){0, 2, 5});
    add_output(&g, "v");
    msg              model    = model_of(&g, 8, 17);
    const opf_const *v        = value_named(load_good(f, &model), "v")->constant;
    const double     wanted[] = {1, 0, 2, 0, 0, 3};
    assert_int_equal(v->count, 6);
    for (size_t i = 0; i < 6; i++)
        assert_true(opf_const_f64_at(v, i) == wanted[i]);
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
    for (char name[] = "a"; name[0] <= 'd'; name[0]++)
        add_output(&g, name);
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
    add_output(&g, "e");
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
    msg      model = model_of(&g, 8, 0);
    load_bad(f, &model, OPF_UNSUPPORTED, "opset 0 of ai.onnx is not supported: 1 to 28 are");
    model = model_of(&g, 8, 29);
    load_bad(f, &model, OPF_UNSUPPORTED, "1 to 28");
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
    /* The highest of several versions counts. */
    model = model_of(&g, 8, 6);
    add_opset(&model, 8, "ai.onnx", 17);
    add_opset(&model, 8, "", 1);
    (void)load_good(f, &model);
    assert_int_equal(f->loaded.n_opsets, 1);
    assert_int_equal(f->loaded.opsets[0].version, 17);
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
        add_output(&g, name);
    }
    n = node_of("Relu", "strange", "x", "q");
    put_text(&n, 7, "com.example");
    put_msg(&g, 1, &n);
    add_output(&g, "q");
    msg model = model_of(&g, 8, 17);
    load_bad(f, &model, OPF_UNSUPPORTED, "2 unsupported operators");
    assert_non_null(strstr(f->error.message, "NoSuchThing, opset 17: 5 nodes, n0, n1, n2, …"));
    assert_non_null(strstr(f->error.message, "Relu of domain com.example: node strange"));
}

/* A body that multiplies `read` and has the product as its output; a node of it that nobody reads stands beside. */
static msg body_of(const char *read, const char *output)
{
    msg body = {0};
    add_node(&body, "NoSuchThing", "beside", read, "lost");
    add_node(&body, "Mul", "square", read, output);
    add_output(&body, output);
    return body;
}

/* What no output needs is never judged, wherever it stands; what bodies read is needed. */
static void test_dead_nodes(void **state)
{
    fixture *f = *state;
    msg      g = {0}, n = node_of("If", "no condition", "", "d0"), attr, body;
    add_input(&g, "x");
    add_node(&g, "NoSuchThing", "unknown", "nobody", "d1");
    add_node(&g, "Relu", "reads it", "d1,d0", "d2");
    add_node(&g, "Relu", "circle", "c", "c");
    put_msg(&g, 1, &n);
    add_node(&g, "Neg", "captured", "x", "t");
    n   = value_of("yes", OPF_BOOL, 0, NULL);
    put_msg(&g, 11, &n);
    n    = node_of("If", "choice", "yes", "y");
    attr = attr_of("then_branch", 5);
    body = body_of("t,t", "a");
    put_msg(&attr, 6, &body);
    put_msg(&n, 5, &attr);
    attr = attr_of("else_branch", 5);
    body = body_of("x,x", "b");
    put_msg(&attr, 6, &body);
    put_msg(&n, 5, &attr);
    put_msg(&g, 1, &n);
    add_output(&g, "y");
    msg        model = model_of(&g, 8, 17);
    opf_graph *graph = load_good(f, &model);
    assert_string_equal(producer_of(graph, "y")->name, "choice");
    assert_string_equal(producer_of(graph, "t")->name, "captured");
    assert_int_equal(opf_graph_find_value(graph, "d1"), 0);
    assert_int_equal(f->loaded.ops.total, 10); /* of the file */
    /* Where a name has two meanings nothing is taken for dead. */
    add_node(&g, "Abs", "again", "x", "d1");
    model = model_of(&g, 8, 17);
    load_bad(f, &model, OPF_UNSUPPORTED, "unsupported operator");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_small_model),
        TEST(test_forms),
        TEST(test_sparse),
        TEST(test_constant_nodes),
        TEST(test_inputs_with_initializers),
        TEST(test_typed_fields),
        TEST(test_functions),
        TEST(test_recursive_functions),
        TEST(test_bodies),
        TEST(test_lifting),
        TEST(test_versions),
        TEST(test_unsupported_operators),
        TEST(test_dead_nodes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
