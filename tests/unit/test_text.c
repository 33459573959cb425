/* SPDX-License-Identifier: Apache-2.0 */
/* The textual syntax, both ways, and the verifier on what is read. */
#include "graph/text.h"
#include "graph/verify.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct fixture {
    opf_heap       heap;
    opf_arena      arena;
    opf_dims      *dims;
    opf_const_pool consts;
    opf_error      error;
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
}

static opf_status parse(fixture *f, const char *text, opf_graph **graph)
{
    f->error.message[0] = '\0';
    return opf_text_parse(text, NULL, &f->arena, f->dims, &f->consts, graph, NULL, NULL, &f->error);
}

static opf_graph *must_parse(fixture *f, const char *text)
{
    opf_graph *graph = NULL;
    if (parse(f, text, &graph) != OPF_OK || opf_graph_verify(graph, &f->error) != OPF_OK)
        fail_msg("%s\n%s", f->error.message, text);
    return graph;
}

static const char *write_text(fixture *f, const opf_graph *graph)
{
    opf_text text;
    opf_text_init(&text, &f->arena);
    opf_text_graph(&text, graph, true);
    assert_false(text.failed);
    return text.data;
}

/* The text is read, written, read and written: what was written must be `expected`, and stay so. */
static void round_trip(const char *source, const char *expected)
{
    fixture f;
    begin(&f);
    const char *once = write_text(&f, must_parse(&f, source));
    if (expected != NULL)
        assert_string_equal(once, expected);
    assert_string_equal(write_text(&f, must_parse(&f, once)), once);
    end(&f);
}

static void test_plain(void **state)
{
    (void)state;
    round_trip("g (float[N,3] x, int64 k, float[] r) => (float[N,4] y)\n"
               "<float[3,4] w = {1,2,3,4,5,6,7,8,9,10,11,1.5e-3}>\n"
               "# a comment\n"
               "{ y = MatMul(x, w) }",
               "g (float[N,3] x, int64 k, float[] r) => (float[N,4] y)\n"
               "<float[3,4] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 0.0015}>\n"
               "{\n    y = MatMul(x, w)\n}\n");
}

static void test_attributes(void **state)
{
    (void)state;
    round_trip("g (float[N] x) => (y) { [foo] y = my.domain.Foo<a: int = 1, b = [1, -2], c = \"s\\\"t\\\\\", d = "
               "float[2] {1, nan},"
               " e = 1.0, f: floats = [1, 2], h = [\"a\", \"b\"], i: ints = [], j: float = 3, k = -inf, l = 0.1>(x, , "
               "x) <m = 1e30> }",
               "g (float[N] x) => (y)\n{\n"
               "    [foo] y = my.domain.Foo<a = 1, b = [1, -2], c = \"s\\\"t\\\\\", d = float[2] {1, nan}, e = 1.0, f "
               "= [1.0, 2.0], "
               "h = [\"a\", \"b\"], i: ints = [], j = 3.0, k = -inf, l = 0.1, m = 1e+30>(x, \"\", x)\n}\n");
    round_trip("g (float x) => (y) { y = Foo<s = \"a\\x00b\\n\\x1f\">(x) }", "g (float x) => (y)\n{\n    y = Foo<s = \"a\\x00b\\x0a\\x1f\">(x)\n}\n");
}

static void test_names(void **state)
{
    (void)state;
    round_trip("\"main graph\" (float[\"batch size\",2] \"x/1\") => (\"/y:0\")\n"
               "{ [\"/a/Relu\"] \"/y:0\", , \"z\" = \"odd-domain\".Relu(\"x/1\") }",
               "\"main graph\" (float[\"batch size\",2] \"x/1\") => (\"/y:0\")\n"
               "{\n    [\"/a/Relu\"] \"/y:0\", \"\", z = \"odd-domain\".Relu(\"x/1\")\n}\n");
    round_trip("g (float) => (float) { [n] x = Relu(float) }", "g (float) => (float)\n{\n    [n] x = Relu(float)\n}\n");
}

static void test_types(void **state)
{
    (void)state;
    round_trip(
        "g () => (a, b, c, d, e, f, h, i) <double a = {0.1}, float16[2] b = {0.5, -65504}, bfloat16 c = {1.5},"
        "int8[2] d = {-128, 127}, uint64 e = {18446744073709551615}, bool[3] f = {true, 0, 1},"
        "int4[3] h = {-8, 7, 1}, float8e4m3fn[2] i = {255, 0}> {}",
        "g () => (double a, float16[2] b, bfloat16 c, int8[2] d, uint64 e, bool[3] f, int4[3] h, float8e4m3fn[2] i)\n"
        "<double a = {0.1},\n float16[2] b = {0.5, -65504},\n bfloat16 c = {1.5},\n int8[2] d = {-128, 127},\n"
        " uint64 e = {18446744073709551615},\n bool[3] f = {1, 0, 1},\n int4[3] h = {-8, 7, 1},\n"
        " float8e4m3fn[2] i = {255, 0}>\n{\n}\n");
    round_trip("g () => (e) <float[0,3] e = {}> {}", "g () => (float[0,3] e)\n<float[0,3] e = {}>\n{\n}\n");
}

static void test_dimensions(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    opf_graph *g = must_parse(&f, "g (float[2*S+1, ?3, ?3, ?, floor((H+1)/2)] x, float[1+S*2, (1+H)/2] y) => (x) {}");
    opf_info  *x = &opf_graph_value(g, g->inputs[0])->info, *y = &opf_graph_value(g, g->inputs[1])->info;
    assert_true(opf_dim_equal(x->dims[0], y->dims[0]));
    assert_true(opf_dim_equal(x->dims[1], x->dims[2]));
    assert_false(opf_dim_equal(x->dims[1], x->dims[3]));
    assert_true(opf_dim_equal(x->dims[4], y->dims[1]));
    const char *once = write_text(&f, g);
    must_parse(&f, once);
    end(&f);
}

static void test_constant_nodes(void **state)
{
    (void)state;
    round_trip("g () => (a, b, c, d, e) { a = Constant<value = int64[2] {1, 2}>() b = Constant<value_float = 0.5>()\n"
               "c = Constant() <value_ints = [3, 4]> d = Constant<value_int: int = 7>() e = Constant<value_floats = "
               "[0.5]>() }",
               "g () => (int64[2] a, float b, int64[2] c, int64 d, float[1] e)\n"
               "<int64[2] a = {1, 2},\n float b = {0.5},\n int64[2] c = {3, 4},\n int64 d = {7},\n float[1] e = "
               "{0.5}>\n{\n}\n");
}

static void test_steps(void **state)
{
    (void)state;
    const char *text = "g (float[N] x, float[N] r, float[N] w) => (y)\n{\n"
                       "    y = Conv<group = 1>(x, w) | Add(., r) -> sum | Sigmoid(.) | Mul(., .1) | Max(., .0) | float16 Cast<to = 10>(.)\n"
                       "    z = LayerNormalization[Add(., r) -> s2 | Relu(.)](y, w)\n"
                       "    u = Elementwise() | Add(x, r) | [last] Where(., \"\", w)\n"
                       "    v = Relu(x) | Add(., @0)\n}\n";
    round_trip(text, text);
    fixture f;
    begin(&f);
    opf_graph *g    = must_parse(&f, text);
    opf_node  *conv = opf_graph_node(g, 1);
    assert_int_equal(conv->n_own_inputs, 2);
    assert_int_equal(conv->n_inputs, 3);
    assert_int_equal(conv->n_own_outputs, 1);
    assert_int_equal(conv->n_outputs, 2);
    assert_int_equal(conv->epilogue.n, 5);
    assert_int_equal(conv->epilogue.list[0].output, 1);
    assert_int_equal(conv->epilogue.list[0].args[1].kind, OPF_ARG_INPUT);
    assert_int_equal(conv->epilogue.list[0].args[1].index, 2);
    assert_int_equal(conv->epilogue.list[2].args[1].kind, OPF_ARG_STEP);
    assert_int_equal(conv->epilogue.list[2].args[1].index, 0);
    assert_int_equal(conv->epilogue.list[4].type, OPF_FLOAT16);
    assert_int_equal(opf_graph_node(g, 2)->prologue.n, 2);
    end(&f);
}

static void test_bodies(void **state)
{
    (void)state;
    const char *natural =
        "g (bool c, float[N] x) => (y)\n{\n h = Relu(x)\n"
        " y = If<then_branch = t () => (a) { a = Add(x, h) }, else_branch = e () => (b) {\n"
        "  b = If(c) <then_branch = t2 () => (p) { p = Neg(h) }, else_branch = e2 () => (q) { q = Neg(x) }> }>(c)\n}";
    const char *explicit_form = "g (bool c, float[N] x) => (y)\n{\n"
                                "    h = Relu(x)\n"
                                "    y = If<then_branch = t (float[N] x, h, bool c) => (a)\n"
                                "    {\n"
                                "        a = Add(x, h)\n"
                                "    }, else_branch = e (float[N] x, h, bool c) => (b)\n"
                                "    {\n"
                                "        b = If<then_branch = t2 (h, float[N] x) => (p)\n"
                                "        {\n"
                                "            p = Neg(h)\n"
                                "        }, else_branch = e2 (h, float[N] x) => (q)\n"
                                "        {\n"
                                "            q = Neg(x)\n"
                                "        }>(c; h, x)\n"
                                "    }>(c; x, h, c)\n}\n";
    round_trip(natural, explicit_form);
    fixture f;
    begin(&f);
    opf_graph *g  = must_parse(&f, explicit_form);
    opf_node  *If = opf_graph_node(g, 2);
    assert_int_equal(If->n_captures, 3);
    assert_int_equal(If->n_own_inputs, 1);
    assert_int_equal(If->n_bodies, 2);
    end(&f);
}

static void test_header(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    opf_graph *g;
    int64_t    ir, opset;
    assert_int_equal(opf_text_parse("<ir_version: 8, opset_import: [\"com.x\" : 1, \"\" : 17], producer_name: \"p\", metadata_props: [\"a\": \"b\"]>"
                                    " g (float x) => (x) {}",
                                    NULL, &f.arena, f.dims, &f.consts, &g, &ir, &opset, &f.error),
                     OPF_OK);
    assert_int_equal(ir, 8);
    assert_int_equal(opset, 17);
    end(&f);
}

static void test_left_out_data(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    opf_graph *g = must_parse(
        &f, "g (float x) => (y) <float[40] w = {1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,"
            "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20}> { y = Add(x, w) | LeakyRelu<alpha = 0.5>(.) }");
    opf_text   text;
    opf_text_init(&text, &f.arena);
    opf_text_node(&text, g, 1);
    assert_string_equal(text.data, "y = Add(x, w) | LeakyRelu<alpha = 0.5>(.)");
    opf_text_init(&text, &f.arena);
    opf_text_graph(&text, g, false);
    assert_non_null(strstr(text.data, "float[40] w = {…}"));
    assert_int_equal(parse(&f, text.data, &g), OPF_INVALID_MODEL);
    assert_non_null(strstr(f.error.message, "left out"));
    end(&f);
}

static void test_errors(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
        opf_status  status;
    } cases[] = {
        {"", "line 1, column 1: expected a name, found the end", OPF_INVALID_MODEL},
        {"g (float[N] x) => (y)\n{\n  y = Relu(q)\n}", "line 3, column 12: 'q' is not defined before this use",
         OPF_INVALID_MODEL},
        {"g (float x) => (y) { x = Relu(x) }", "'x' is defined twice", OPF_INVALID_MODEL},
        {"g (float x) => (y) { y, y = Split(x) }", "'y' is defined twice", OPF_INVALID_MODEL},
        {"g (float x) => (y) {}", "column 17: output 'y' is never defined", OPF_INVALID_MODEL},
        {"g (float x) => (x) { y = Relu(y) }", "'y' is not defined before", OPF_INVALID_MODEL},
        {"g (float x) => (x) { y = Relu(x)", "expected a name, found the end", OPF_INVALID_MODEL},
        {"g (flot[2] x) => (x) {}", "'flot' is no element type", OPF_INVALID_MODEL},
        {"g (seq(float) x) => (x) {}", "seq: not supported", OPF_UNSUPPORTED},
        {"g () => (w) <float[3] w = {1, 2}> {}", "3 elements are wanted, there are 2", OPF_INVALID_MODEL},
        {"g () => (w) <float[1] w = {1, 2}> {}", "more than 1 elements", OPF_INVALID_MODEL},
        {"g () => (w) <int8 w = {200}> {}", "column 24: 200 is no int8", OPF_INVALID_MODEL},
        {"g () => (w) <int32 w = {1.5}> {}", "1.5 is no int32", OPF_INVALID_MODEL},
        {"g () => (w) <uint64 w = {-1}> {}", "-1 is no uint64", OPF_INVALID_MODEL},
        {"g () => (w) <float[1000000000,1000000000] w = {1}> {}", "there are less", OPF_INVALID_MODEL},
        {"g () => (w) <float[N] w = {1}> {}", "shape of numbers", OPF_INVALID_MODEL},
        {"g () => (w) <string w = {\"a\"}> {}", "string: not supported", OPF_UNSUPPORTED},
        {"g () => (w) <int64 w = {99999999999999999999}> {}", "64 bits at most", OPF_INVALID_MODEL},
        {"g (float x) => (x) { y = A<a: int = 1.5>(x) }", "not of its type", OPF_INVALID_MODEL},
        {"g (float x) => (x) { y = A<a = 1, a = 2>(x) }", "attribute 'a' is there twice", OPF_INVALID_MODEL},
        {"g (float x) => (x) { y = A(x) | B(.1) }", "earlier steps only", OPF_INVALID_MODEL},
        {"g (float x) => (x) { y = A(x) | B(@1) }", "A has no input 1", OPF_INVALID_MODEL},
        {"g (float x) => (x) { y = A(x) | B(., ., ., ., .) }", "4 operands at most", OPF_INVALID_MODEL},
        {"g (float x) => (x) { y = A<a = \"b>(x) }", "has no end", OPF_INVALID_MODEL},
        {"g (float x) => (x) {} <domain: \"a\"> f (x) => (y) { y = A(x) }", "function: not supported", OPF_UNSUPPORTED},
        {"g (float x = {1}) => (x) {}", "an input with a default", OPF_UNSUPPORTED},
        {"g (float[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1] x) => (x) {}", "more than 16 dimensions", OPF_INVALID_MODEL},
    };
    fixture f;
    begin(&f);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        opf_graph *graph;
        assert_int_equal(parse(&f, cases[i].text, &graph), cases[i].status);
        assert_int_equal(f.error.status, cases[i].status);
        assert_null(graph);
        if (strstr(f.error.message, cases[i].message) == NULL)
            fail_msg("'%s' is not in '%s'", cases[i].message, f.error.message);
    }
    end(&f);
}

static void test_depth(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    enum { LEVELS = 5000 };
    char *text = malloc(LEVELS * 24 + 64), *at = text;
    at += sprintf(at, "g (float[");
    for (int i = 0; i < LEVELS; i++)
        *at++ = '(';
    *at = '\0';
    opf_graph *graph;
    assert_int_equal(parse(&f, text, &graph), OPF_INVALID_MODEL);
    at = text;
    for (int i = 0; i < LEVELS; i++)
        at += sprintf(at, "g()=>(){=A<b=");
    assert_int_equal(parse(&f, text, &graph), OPF_INVALID_MODEL);
    assert_non_null(strstr(f.error.message, "nested deeper"));
    free(text);
    end(&f);
}

/* Every prefix of a text, and texts with characters exchanged, must give an error or a sound graph. */
static void test_garbage(void **state)
{
    (void)state;
    static const char source[] =
        "<ir_version: 8, opset_import: [\"\" : 17]> g (bool c, float[2*N+1,?3,\"a b\"] x) => (float[] y)"
        "<float[2] w = {1, -2.5e3}, int4[3] q = {1, -2, 3}, bool b = {true}> { [a] y, \"\", z = my.Conv<p = [1, 2], s "
        "= \"t\\x41\","
        " v = int64[2] {1, 2}, f: floats = []>[Add(., w) -> k](x, , w) | float16 Mul(.0, @0) -> m\n"
        " r = If<t = t () => (a) { a = Relu(x) }>(c; ) k2 = Constant<value_int = 3>() }";
    static const char alphabet[] = "<>()[]{}=,:;.|@#\"\\ -+?0919eNafloat\n";
    size_t            n          = sizeof source - 1;
    fixture           f;
    opf_graph        *graph;
    char              text[sizeof source];
    uint32_t          random = 1;
    for (int round = 0; round < 6000; round++) {
        begin(&f);
        memcpy(text, source, sizeof source);
        if ((size_t)round < n)
            text[round] = '\0';
        for (int k = 0; (size_t)round >= n && k < 1 + round % 4; k++) {
            random = random * 1664525 + 1013904223;
            size_t place = (random >> 8) % n;
            random       = random * 1664525 + 1013904223;
            text[place]  = round % 7 == 0 ? (char)(random >> 24) : alphabet[(random >> 8) % (sizeof alphabet - 1)];
        }
        if (parse(&f, text, &graph) == OPF_OK) {
            if (opf_graph_verify(graph, &f.error) != OPF_OK)
                fail_msg("%s\n%s", f.error.message, text);
            const char *once = write_text(&f, graph);
            (void)parse(&f, once, &graph);
        } else {
            assert_null(graph);
        }
        end(&f);
    }
}

static void test_out_of_memory(void **state)
{
    (void)state;
    const char *text =
        "g (bool c, float[N] x) => (y) <float[2] w = {1, 2}> { h = Relu(x) | Add(., w)\n"
        " y = If<then_branch = t () => (a) { a = Add(x, h) }, else_branch = e () => (b) { b = Neg(x) }>(c) }";
    opf_status  status = OPF_OUT_OF_MEMORY;
    for (size_t limit = 1; status != OPF_OK; limit += 500) {
        fixture f;
        memset(&f, 0, sizeof f);
        opf_heap_init(&f.heap, NULL, limit);
        opf_arena_init(&f.arena, &f.heap);
        f.dims   = opf_dims_create(&f.arena);
        f.consts = (opf_const_pool){.arena = &f.arena, .next_id = 1};
        opf_graph *graph;
        if (f.dims != NULL)
            status = parse(&f, text, &graph);
        assert_true(status == OPF_OK || status == OPF_OUT_OF_MEMORY);
        end(&f);
    }
}

static void test_verify(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    const char *text = "g (float[N] x) => (y) { h = Relu(x) y = Neg(h) }";
    opf_graph  *g    = must_parse(&f, text);
    opf_graph_node(g, 2)->inputs[0] = g->inputs[0]; /* behind the back of the value */
    assert_int_equal(opf_graph_verify(g, &f.error), OPF_INTERNAL);
    g = must_parse(&f, text);
    opf_graph_value(g, g->outputs[0])->producer = 1;
    assert_int_equal(opf_graph_verify(g, &f.error), OPF_INTERNAL);
    g = must_parse(&f, text);
    assert_true(opf_graph_set_input(g, 1, 0, opf_graph_node(g, 2)->outputs[0]));
    assert_int_equal(opf_graph_verify(g, &f.error), OPF_INTERNAL);
    assert_non_null(strstr(f.error.message, "cycle"));
    g = must_parse(&f, "g (float[N] x) => (y) { y = Relu(x) | Neg(.) }");
    opf_graph_node(g, 1)->epilogue.list[0].args[0] = (opf_arg){OPF_ARG_STEP, 0};
    assert_int_equal(opf_graph_verify(g, &f.error), OPF_INTERNAL);
    end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),      cmocka_unit_test(test_attributes),
        cmocka_unit_test(test_names),      cmocka_unit_test(test_types),
        cmocka_unit_test(test_dimensions), cmocka_unit_test(test_constant_nodes),
        cmocka_unit_test(test_steps),      cmocka_unit_test(test_bodies),
        cmocka_unit_test(test_header),     cmocka_unit_test(test_left_out_data),
        cmocka_unit_test(test_errors),     cmocka_unit_test(test_depth),
        cmocka_unit_test(test_garbage),    cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_verify),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
