/* SPDX-License-Identifier: Apache-2.0 */
/* If, Loop and Scan: attributes that are checked, and shapes that come out of bodies. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "graph/text.h"
#include "ops/infer.h"
#include "ops/refused.h"

#include <stdio.h>
#include <string.h>

static char      described[512];
static opf_error  error;

/* "float[N,3] int64[]": the outputs of the graph after inference; NULL when it fails. */
static const char *outputs_of(const char *text)
{
    opf_heap   heap;
    opf_arena  arena;
    opf_graph *graph = NULL;
    int64_t    ir, opset;
    size_t     length = 0;
    opf_heap_init(&heap, NULL, 0);
    opf_arena_init(&arena, &heap);
    opf_dims      *dims   = opf_dims_create(&arena);
    opf_const_pool consts = {.arena = &arena};
    if (opf_text_parse(text, opf_find_operator, &arena, dims, &consts, &graph, &ir, &opset, &error) != OPF_OK)
        fail_msg("%s", error.message);
    opf_status status = opf_infer_graph(graph, &error);
    described[0]      = '\0';
    for (uint32_t o = 0; o < graph->n_outputs && status == OPF_OK; o++) {
        const opf_info *info = &opf_graph_value(graph, graph->outputs[o])->info;
        const char     *what = opf_info_string(info, dims, &arena);
        /* Unknowns have numbers that no test should know. */
        for (const char *c = what; *c != '\0' && length + 2 < sizeof described; c++) {
            if (*c >= '0' && *c <= '9' && length > 0 && described[length - 1] == '?')
                continue;
            described[length++] = *c;
        }
        described[length++] = ' ';
        described[length]   = '\0';
    }
    if (length > 0)
        described[length - 1] = '\0';
    opf_arena_fini(&arena);
    assert_int_equal(heap.used, 0);
    return status == OPF_OK ? described : NULL;
}

static void expect(const char *text, const char *outputs)
{
    const char *found = outputs_of(text);
    if (found == NULL)
        fail_msg("%s", error.message);
    assert_string_equal(found, outputs);
}

static void refuse(const char *text, const char *part)
{
    assert_null(outputs_of(text));
    if (strstr(error.message, part) == NULL)
        fail_msg("\"%s\" does not hold \"%s\"", error.message, part);
}

/* ---- If ---- */

static void test_if(void **state)
{
    (void)state;
    expect("g (bool c, float[N,3] x) => (y) { y = If<then_branch = t () => (a) { a = Relu(x) }, else_branch = e () => (b) { b = Neg(x) }>(c) }",
           "float[N,3]");
    expect("g (bool c, float[N,3] x) => (y) { y = If<then_branch = t () => (a) { a = Relu(x) }, else_branch = e () => (b) { b = Concat<axis = 0>(x, x) }>(c) }",
           "float[?,3]");
    expect("g (bool c, float[N,3] x) => (y) { y = If<then_branch = t () => (a) { a = Relu(x) }, else_branch = e () => (b) { b = ReduceSum<keepdims = 0>(x) }>(c) }",
           "float[...]");
}

static void test_if_known(void **state)
{
    (void)state;
    expect("g (float[N,3] x) => (y) <bool c = {1}> { y = If<then_branch = t () => (a) { a = Relu(x) }, else_branch = e () => (b) { b = ReduceSum<keepdims = 0>(x) }>(c) }",
           "float[N,3]");
    expect("g (float[N,3] x) => (y) <bool c = {0}> { y = If<then_branch = t () => (a) { a = Relu(x) }, else_branch = e () => (b) { b = ReduceSum<keepdims = 0>(x) }>(c) }",
           "float[]");
}

/* A branch that does not fit these shapes may be one that is never taken. */
static void test_if_unfit_branch(void **state)
{
    (void)state;
    expect("g (bool c, float[5] x, float[4] w) => (y) { y = If<then_branch = t () => (a) { a = Add(x, w) }, else_branch = e () => (b) { b = Relu(x) }>(c) }",
           "float[...]");
    expect("g (float[5] x, float[4] w) => (y) <bool c = {0}> { y = If<then_branch = t () => (a) { a = Add(x, w) }, else_branch = e () => (b) { b = Relu(x) }>(c) }",
           "float[5]");
    refuse("g (float[5] x, float[4] w) => (s) <int64 m = {3}> { s = Loop<body = b (int64 i, bool k) => (k2, o) { k2 = Identity(k)  o = Add(x, w) }>(m) }",
           "do not broadcast");
}

static void test_if_refused(void **state)
{
    (void)state;
    refuse("g (bool c, float[N,3] x) => (y) { y = If<then_branch = t () => (a) { a = Relu(x) }, else_branch = e () => (b) { b = Shape(x) }>(c) }",
           "type float in then_branch and int64 in else_branch");
    refuse("g (bool c, float[N,3] x) => (y, z) { y, z = If<then_branch = t () => (a) { a = Relu(x) }, else_branch = e () => (b) { b = Relu(x) }>(c) }",
           "then_branch has 1 outputs, must have 2");
    refuse("g (bool[2] c, float[N,3] x) => (y) { y = If<then_branch = t () => (a) { a = Relu(x) }, else_branch = e () => (b) { b = Relu(x) }>(c) }",
           "must have one element");
    refuse("g (bool c, float[N,3] x) => (y) { y = If<then_branch = t () => (a) { a = Relu(x) }>(c) }", "else_branch is missing");
}

/* ---- Loop ---- */

#define LOOP(body) "g (int64 m, bool c, float[N,3] x) => (y, s) { y, s = Loop<body = b (int64 i, bool k, float[A,B] a) => (k2, a2, o) " body ">(m, c, x) }"

static void test_loop_keeps_shape(void **state)
{
    (void)state;
    expect(LOOP("{ k2 = Identity(k)  a2 = Relu(a)  o = ReduceSum(a) }"), "float[N,3] float[?,1,1]");
}

static void test_loop_grows(void **state)
{
    (void)state;
    expect(LOOP("{ k2 = Identity(k)  a2 = Concat<axis = 0>(a, x)  o = Relu(x) }"), "float[?,3] float[?,N,3]");
    expect(LOOP("{ k2 = Identity(k)  a2 = Transpose(a)  o = Relu(x) }"), "float[?,?] float[?,N,3]");
    expect(LOOP("{ k2 = Identity(k)  a2 = ReduceSum<keepdims = 0>(a)  o = Relu(x) }"), "float[...] float[?,N,3]");
}

/* What the body makes of a carried dimension holds inside only. */
static void test_loop_inner_dims(void **state)
{
    (void)state;
    expect(LOOP("{ k2 = Identity(k)  a2 = Concat<axis = 0>(a, x)  o = Relu(a) }"), "float[?,3] float[?,?,3]");
}

/* The second value follows the first with a delay of one round. */
static void test_loop_delayed(void **state)
{
    (void)state;
    expect("g (int64 m, bool c, float[4] x, float[4] z) => (y, w) { y, w = Loop<body = b (int64 i, bool k, float[A] a, float[B] d) => (k2, a2, d2) "
           "{ k2 = Identity(k)  a2 = Concat<axis = 0>(a, x)  d2 = Identity(a) }>(m, c, x, z) }",
           "float[...] float[...]");
}

static void test_loop_rounds(void **state)
{
    (void)state;
    expect("g (float[3] x) => (s) <int64 m = {5}> { s = Loop<body = b (int64 i, bool k) => (k2, o) { k2 = Identity(k)  o = Relu(x) }>(m) }",
           "float[5,3]");
    expect("g (float[3] x) => (s) <int64 m = {-5}> { s = Loop<body = b (int64 i, bool k) => (k2, o) { k2 = Identity(k)  o = Relu(x) }>(m) }",
           "float[0,3]");
    expect("g (float[N] x) => (s) <int64[1] zero = {0}> { t = Shape(x)  m = Squeeze(t)  s = Loop<body = b (int64 i, bool k) => (k2, o) { k2 = Identity(k)  o = Relu(x) }>(m) }",
           "float[N,N]");
    expect("g (bool c, float[3] x) => (s) <int64 m = {5}> { s = Loop<body = b (int64 i, bool k) => (k2, o) { k2 = Identity(k)  o = Relu(x) }>(m, c) }",
           "float[?,3]");
    expect("g (float[3] x) => (s) <int64 m = {5}, bool c = {1}> { s = Loop<body = b (int64 i, bool k) => (k, o) { o = Relu(x) }>(m, c) }",
           "float[5,3]");
}

static void test_loop_counter(void **state)
{
    (void)state;
    expect("g (int64 m) => (s) { s = Loop<body = b (int64 i, bool k) => (k2, o) { k2 = Identity(k)  o = Identity(i) }>(m) }", "int64[?]");
    expect("g (int64 m) => (s) { s = Loop<body = b (int64[1] i, bool[1] k) => (k2, o) { k2 = Identity(k)  o = Identity(i) }>(m) }",
           "int64[?,1]");
}

static void test_loop_refused(void **state)
{
    (void)state;
    refuse("g (int64 m, bool c, float[N] x) => (y) { y = Loop<body = b (int64 i, bool k) => (k2) { k2 = Identity(k) }>(m, c, x) }",
           "body has 2 inputs, must have 3");
    refuse("g (int64 m, bool c, float[N] x) => (y) { y = Loop<body = b (int64 i, bool k, float[N] a) => (k2) { k2 = Identity(k) }>(m, c, x) }",
           "body has 1 outputs, must have 2");
    refuse("g (int64 m, bool c, float[N] x) => (y) { y = Loop<body = b (int64 i, bool k, float[N] a) => (k2, a2) { k2 = Identity(k)  a2 = Shape(a) }>(m, c, x) }",
           "has type float, but the body gives it type int64");
    refuse("g (int64 m, bool c, float[N] x) => (y) { y = Loop<body = b (int64 i, bool k, float[N] a) => (a2, a2) { a2 = Relu(a) }>(m, c, x) }",
           "must be bool");
    refuse("g (int64[2] m, bool c, float[N] x) => (y) { y = Loop<body = b (int64 i, bool k, float[N] a) => (k2, a2) { k2 = Identity(k)  a2 = Relu(a) }>(m, c, x) }",
           "must have one element");
}

/* Each level infers its body several times, but not all levels. */
static void test_loop_nested(void **state)
{
    (void)state;
    enum { DEPTH = 24 };
    static char text[64 * 1024];
    size_t      n = 0;
    n += (size_t)sprintf(text + n, "g (int64 m, bool c, float[4] x0) => (y0) {");
    for (int i = 0; i < DEPTH; i++)
        n += (size_t)sprintf(text + n, "y%d = Loop<body = b%d (int64 i%d, bool k%d, float[A] x%d) => (k%d, y%d) { ", i, i, i, i, i + 1, i, i + 1);
    n += (size_t)sprintf(text + n, "y%d = Concat<axis = 0>(x%d, x%d)", DEPTH, DEPTH, DEPTH);
    for (int i = DEPTH - 1; i >= 0; i--)
        n += (size_t)sprintf(text + n, " }>(m, c, x%d)", i);
    (void)sprintf(text + n, " }");
    assert_non_null(outputs_of(text));
}

/* ---- Scan ---- */

#define SCAN(attrs, scanned) "g (float[3] h, " scanned ") => (y, s) { y, s = Scan<num_scan_inputs = 1, " attrs " body = b (float[3] a, float[3] e) => (a2, o) { a2 = Add(a, e)  o = Relu(a2) }>(h, x) }"

static void test_scan(void **state)
{
    (void)state;
    expect(SCAN("", "float[T,3] x"), "float[3] float[T,3]");
    expect(SCAN("scan_input_axes = [1],", "float[3,T] x"), "float[3] float[T,3]");
    expect(SCAN("scan_input_axes = [-1], scan_output_axes = [-1],", "float[3,7] x"), "float[3] float[3,7]");
    expect(SCAN("scan_input_directions = [1], scan_output_directions = [1],", "float[0,3] x"), "float[3] float[0,3]");
}

static void test_scan_refused(void **state)
{
    (void)state;
    refuse(SCAN("scan_input_axes = [2],", "float[T,3] x"), "axis 2 is out of range for rank 2");
    refuse(SCAN("scan_input_axes = [0, 0],", "float[T,3] x"), "scan_input_axes has 2 elements, must have 1");
    refuse(SCAN("scan_output_directions = [2],", "float[T,3] x"), "is 2, must be 0 or 1");
    refuse("g (float[4,3] x, float[5,3] z) => (s) { s = Scan<num_scan_inputs = 2, body = b (float[3] a, float[3] e) => (o) { o = Add(a, e) }>(x, z) }",
           "lengths 4 and 5, must be equal");
    refuse("g (float[4,3] x) => (s) { s = Scan<num_scan_inputs = 2, body = b (float[3] a) => (o) { o = Relu(a) }>(x) }",
           "num_scan_inputs is 2, there are 1 inputs");
    refuse("g (float x) => (s) { s = Scan<num_scan_inputs = 1, body = b (float a) => (o) { o = Relu(a) }>(x) }",
           "out of range for rank 0");
}

/* ---- refusals ---- */

static void test_refusals(void **state)
{
    (void)state;
    assert_string_equal(opf_refusal("", "StringSplit"), "works on strings");
    assert_string_equal(opf_refusal("ai.onnx", "SequenceAt"), "works on sequences");
    assert_string_equal(opf_refusal("ai.onnx.ml", "ZipMap"), "works on maps");
    assert_string_equal(opf_refusal("ai.onnx.preview.training", "Adam"), "trains");
    assert_null(opf_refusal("", "Conv"));
    assert_null(opf_refusal("com.example", "StringSplit"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_if),           cmocka_unit_test(test_if_known),     cmocka_unit_test(test_if_refused), cmocka_unit_test(test_if_unfit_branch),
        cmocka_unit_test(test_loop_keeps_shape), cmocka_unit_test(test_loop_grows), cmocka_unit_test(test_loop_inner_dims),
        cmocka_unit_test(test_loop_delayed), cmocka_unit_test(test_loop_rounds),  cmocka_unit_test(test_loop_counter),
        cmocka_unit_test(test_loop_refused), cmocka_unit_test(test_loop_nested),  cmocka_unit_test(test_scan),
        cmocka_unit_test(test_scan_refused), cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
