/* SPDX-License-Identifier: Apache-2.0 */
/* The absorbers, on graphs in textual syntax: the nodes that must come out, the fusions and the near misses reported.
 */
#include "fuse/fuse.h"
#include "graph/text.h"
#include "graph/verify.h"
#include "ops/infer.h"
#include "ops/op.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Constants that the graphs below share. */
#define CONSTANTS                                                                                                      \
    "<float[4,4,1,1] w = {1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16}, float[4] b = {1,2,3,4}, float[4,1,1] k = "          \
    "{1,2,4,8},"                                                                                                       \
    " float[4,4] m = {1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16}, float[4,2] v = {1,2,3,4,5,6,7,8}, float[2] bv = {1,2}," \
    " float six = {6}, float zero = {0}>"

static void describe(opf_text *text, const opf_graph *graph, const opf_fuse_report *report)
{
    for (opf_node_id id = 1; id < graph->n_nodes; id++)
        if (opf_node_is_alive(opf_graph_node(graph, id))) {
            opf_text_node(text, graph, id);
            opf_text_add(text, "\n");
        }
    for (uint32_t i = 0; i < report->n_fusions; i++) {
        const opf_fusion *fusion = &report->fusions[i];
        opf_text_add(text, "%s at %s:", fusion->rule, fusion->anchor);
        for (uint32_t k = 0; k < fusion->n_origin; k++)
            opf_text_add(text, " %s", fusion->origin[k]);
        opf_text_add(text, "\n");
    }
    for (uint32_t i = 0; i < report->n_misses; i++) {
        const opf_miss *miss = &report->misses[i];
        opf_text_add(text, "no %s at %s: %s %s: %s\n", miss->rule, miss->start, opf_miss_code_name(miss->code),
                     miss->node, miss->reason);
    }
}

static void check(const char *interface, const char *nodes, const char *expected)
{
    opf_heap heap;
    opf_arena arena;
    opf_error error = {0};
    opf_graph *graph = NULL;
    opf_heap_init(&heap, NULL, 0);
    opf_arena_init(&arena, &heap);
    opf_dims *dims = opf_dims_create(&arena);
    opf_const_pool consts = {.arena = &arena, .next_id = 1};
    opf_fuse_options options = {.stop_after = -1};
    opf_fuse_report report = {.arena = &arena};
    const char *source = opf_arena_printf(&arena, "g %s " CONSTANTS " { %s }", interface, nodes);
    if (opf_text_parse(source, opf_find_operator, &arena, dims, &consts, &graph, NULL, NULL, &error) != OPF_OK ||
        opf_infer_graph(graph, &error) != OPF_OK || opf_fuse(graph, &options, &report, &error) != OPF_OK ||
        opf_graph_verify(graph, &error) != OPF_OK)
        fail_msg("%s\n%s", error.message, source);
    opf_text text;
    opf_text_init(&text, &arena);
    describe(&text, graph, &report);
    if (strcmp(text.data, expected) != 0)
        fail_msg("%s\ngives\n%s\ninstead of\n%s", source, text.data, expected);
    opf_arena_fini(&arena);
    assert_int_equal(heap.used, 0);
}

#define IMAGE "(float[N,4,H,H] x, float[N,4,H,H] r) => (y)"

static void test_conv(void **state)
{
    (void)state;
    check(IMAGE, "[c] a = Conv(x, w, b) [a] y = Relu(a)", "[c] y = Conv(x, w, b) | Relu(.)\nconv-act at c: c a\n");
    check(IMAGE, "[c] a = Conv(x, w) [s] s = Add(r, a) [a] y = Relu(s)",
          "[c] y = Conv(x, w) | Add(r, .) | Relu(.)\nconv-add-relu at c: c s a\n");
    check(IMAGE, "[c] a = Conv(x, w) [a] b1 = Relu(a) [s] y = Add(b1, r)",
          "[c] y = Conv(x, w) | Relu(.) | Add(., r)\nconv-act at c: c a\nconv-add-relu at c: c a s\n");
    check(IMAGE, "[c] a = Conv(x, w) [a] y = Clip(a, zero, six)",
          "[c] y = Conv(x, w) | Clip(., zero, six)\nconv-act at c: c a\n");
    /* A diamond: the plain result has two readers, both go inside. */
    check(IMAGE, "[c] a = Conv(x, w) [s] s = Tanh(a) [m] y = Mul(a, s)",
          "[c] y = Conv(x, w) | Tanh(.) | Mul(.0, .)\n"
          "conv-act at c: c s m\n");
    /* Both operands are convolutions: the later one hosts. */
    check(IMAGE, "[c] a = Conv(x, w) [d] d = Conv(r, w) [s] s = Add(a, d) [a] y = Relu(s)",
          "[c] a = Conv(x, w)\n"
          "[d] y = Conv(r, w) | Add(a, .) | Relu(.)\n"
          "conv-add-relu at d: d s a\n");
    check(IMAGE, "[c] a = Conv(x, w) [d] d = Conv(a, w) [s] s = Add(a, d) [a] y = Relu(s)",
          "[c] a = Conv(x, w)\n"
          "[d] y = Conv(a, w) | Add(a, .) | Relu(.)\n"
          "conv-add-relu at d: d s a\n");
}

static void test_conv_refused(void **state)
{
    (void)state;
    check("(float[N,4,H,H] x, float[N,4,H,H] r) => (y, z)", "[c] a = Conv(x, w) [a] y = Relu(a) [n] z = Transpose(a)",
          "[c] a = Conv(x, w)\n"
          "[a] y = Relu(a)\n"
          "[n] z = Transpose(a)\n"
          "no conv-act at c: USED_OUTSIDE n: result a is also read by n (Transpose)\n");
    check("(float[N,4,H,H] x) => (y, a)", "[c] a = Conv(x, w) [a] y = Relu(a)",
          "[c] a = Conv(x, w)\n"
          "[a] y = Relu(a)\n"
          "no conv-act at c: IS_OUTPUT c: result a is also a graph output\n");
    check("(float[1,4,5,5] x, float[2,4,5,5] r) => (y)", "[c] a = Conv(x, w) [s] y = Add(a, r)",
          "[c] a = Conv(x, w)\n"
          "[s] y = Add(a, r)\n"
          "no conv-add-relu at c: SHAPE s: operand is float[2,4,5,5], must be float[1,4,5,5] or broadcast to it\n");
    check("(float[N,4,5,5] x, float[M,4,5,5] r) => (y)", "[c] a = Conv(x, w) [s] y = Add(a, r)",
          "[c] a = Conv(x, w)\n"
          "[s] y = Add(a, r)\n"
          "no conv-add-relu at c: SHAPE_UNKNOWN s: operand is float[M,4,5,5], must be float[N,4,5,5] or broadcast to "
          "it\n");
}

static void test_stored(void **state)
{
    (void)state;
    check("(float[N,4,H,H] x, float[N,4,H,H] r) => (y, s)", "[c] a = Conv(x, w) [s] s = Add(a, r) [a] y = Relu(s)",
          "[c] y = Conv(x, w) | Add(., r) -> s | Relu(.)\n"
          "conv-add-relu at c: c s a\n");
    check("(float[N,4,H,H] x, float[N,4,H,H] r) => (y, z)",
          "[c] a = Conv(x, w) [s] s = Add(a, r) [a] y = Relu(s) [n] t = Transpose(s) [e] z = Exp(t)",
          "[c] y = Conv(x, w) | Add(., r) -> s | Relu(.)\n"
          "[n] t = Transpose(s)\n"
          "[e] z = Exp(t)\n"
          "conv-add-relu at c: c s a\n"
          "no region at e: OP n: its operand comes from n (Transpose), which takes no steps\n");
}

static void test_channel(void **state)
{
    (void)state;
    check(IMAGE, "[c] a = Conv(x, w) [m] c = Mul(a, k) [s] d = Sub(c, k) [v] e = Div(d, k) [a] y = Relu(e)",
          "[c] y = Conv(x, \"w#2#4\", \"value#5\") | Relu(.)\n"
          "conv-mul at c: c m\n"
          "conv-add at c: c m s\n"
          "conv-mul at c: c m s v\n"
          "conv-act at c: c m s v a\n");
    check(IMAGE, "[c] a = Conv(x, w, b) [s] y = Sub(k, a)",
          "[c] y = Conv(x, \"w#2\", \"value#3\")\n"
          "conv-add at c: c s\n");
    check("(float[N,4,4,4] x) => (y)", "[c] a = Conv(x, w, b) [s] y = Add(a, b)",
          "[c] y = Conv(x, w, b) | Add(., b)\n"
          "conv-add at c: c s\n");
}

static void test_conv_prologue(void **state)
{
    (void)state;
    /* The gate of squeeze-and-excite: x is pooled too, so the convolution behind takes it. */
    check("(float[N,4,H,H] x) => (y)", "[g] g = GlobalAveragePool(x) [s] s = Sigmoid(g) [p] p = Mul(x, s) [c] y = Conv(p, w)",
          "[g] s = GlobalAveragePool(x) | Sigmoid(.)\n"
          "[c] y = Conv[Mul(., s)](x, w)\n"
          "conv-prologue at c: c p\n"
          "epilogue at g: g s\n");
    check(IMAGE, "[n] n = BatchNormalization(x, b, b, b, b) [a] a = Relu(n) [c] y = Conv(a, w, b)",
          "[c] y = Conv[Mul(., \"value#2\") | Add(., \"value#3\") | Relu(.)](x, w, b)\n"
          "conv-prologue at c: c a n\n");
    /* Left to the convolution before, which is read once. */
    check(IMAGE, "[c] a = Conv(x, w) [a] b1 = Relu(a) [d] y = Conv(b1, w)",
          "[c] b1 = Conv(x, w) | Relu(.)\n[d] y = Conv(b1, w)\nconv-act at c: c a\n");
    /* No 1x1 convolution with strides or pads, and no gate that varies over the image. */
    check("(float[N,4,H,H] x) => (y)", "[g] g = GlobalAveragePool(x) [p] p = Mul(x, g) [c] y = Conv<strides = [2, 2]>(p, w)",
          "g = GlobalAveragePool(x)\n"
          "p = Mul(x, g)\n"
          "[c] y = Conv<strides = [2, 2]>(p, w)\n"
          "no conv-prologue at c: ATTR c: strides has 2, must be 1\n"
          "no epilogue at g: SHAPE_UNKNOWN p: operand is float[N,4,H,H], must be float[N,4,1,1] or broadcast to it\n"
          "no region at p: OP c: its result is read by c (Conv), which takes no steps\n");
    check(IMAGE, "[p] p = Mul(x, r) [c] y = Conv(p, w)",
          "p = Mul(x, r)\n[c] y = Conv(p, w)\n"
          "no conv-prologue at c: SHAPE p: r varies over the image, must be one element a channel\n"
          "no region at p: OP c: its result is read by c (Conv), which takes no steps\n");
}

static void test_parallel_conv(void **state)
{
    (void)state;
    check("(float[N,4,H,H] x) => (y)",
          "[c] a = Conv(x, w) [r] r1 = Relu(a) [d] b1 = Conv(x, w, b) [s] s = Relu(b1) [p] p = GlobalMaxPool(r1) [q] q1 = "
          "GlobalMaxPool(s) [z] y = Concat<axis = 0>(p, q1)",
          "p = GlobalMaxPool(r1)\n"
          "[q] q1 = GlobalMaxPool(s)\n"
          "[z] y = Concat<axis = 0>(p, q1)\n"
          "[c] \"value#5\" = Conv(x, \"value#2\", \"value#3\") | Relu(.)\n"
          "[\"c/split\"] r1, s = Split<axis = 1>(\"value#5\", \"value#6\")\n"
          "parallel-conv at c: c d\n"
          "conv-act at c: c d r s\n");
    /* Other strides, another activation, an Add behind. */
    check("(float[N,4,H,H] x) => (p, q1)",
          "[c] a = Conv(x, w) [r] r1 = Relu(a) [d] b1 = Conv(x, w) [s] s = Tanh(b1) [p] p = GlobalMaxPool(r1) [q] q1 = "
          "GlobalMaxPool(s)",
          "[c] r1 = Conv(x, w) | Relu(.)\n"
          "[d] s = Conv(x, w) | Tanh(.)\n"
          "p = GlobalMaxPool(r1)\n"
          "[q] q1 = GlobalMaxPool(s)\n"
          "conv-act at d: d s\n"
          "conv-act at c: c r\n");
    check("(float[N,4,H,H] x) => (p, q1)",
          "[c] a = Conv(x, w) [d] b1 = Conv<strides = [2, 2]>(x, w) [p] p = GlobalMaxPool(a) [q] q1 = GlobalMaxPool(b1)",
          "[c] a = Conv(x, w)\n"
          "[d] b1 = Conv<strides = [2, 2]>(x, w)\n"
          "p = GlobalMaxPool(a)\n"
          "[q] q1 = GlobalMaxPool(b1)\n"
          "no parallel-conv at d: ATTR d: strides is not what it is at c\n");
    check("(float[N,4,H,H] x) => (p, b1)", "[c] a = Conv(x, w) [d] b1 = Conv(x, w, b) [p] p = GlobalMaxPool(a)",
          "[c] a = Conv(x, w)\n"
          "[d] b1 = Conv(x, w, b)\n"
          "p = GlobalMaxPool(a)\n"
          "no parallel-conv at d: IS_OUTPUT d: result b1 is a graph output: a part would be copied\n");
    check("(float[N,4,H,H] x, float[4,4,1,1] r) => (p, q1)",
          "[c] a = Conv(x, r) [d] b1 = Conv(x, w) [p] p = GlobalMaxPool(a) [q] q1 = GlobalMaxPool(b1)",
          "[c] a = Conv(x, r)\n"
          "[d] b1 = Conv(x, w)\n"
          "p = GlobalMaxPool(a)\n"
          "[q] q1 = GlobalMaxPool(b1)\n"
          "no parallel-conv at d: CONST c: r must be a constant\n");
}

static void test_channel_before(void **state)
{
    (void)state;
    check("(float[N,4,5,5] x) => (y)", "[p] p = Mul(k, x) [q] q = Sub(p, k) [c] y = Conv(q, w)",
          "[c] y = Conv(x, \"w#3\", \"value#2\")\n"
          "conv-add at c: c q\n"
          "conv-mul at c: c q p\n");
    /* What is padded is zero, and stays so under a factor alone. */
    check("(float[N,4,5,5] x) => (y)", "[p] p = Mul(k, x) [c] y = Conv<pads = [1, 1, 1, 1]>(p, w)",
          "[c] y = Conv<pads = [1, 1, 1, 1]>(x, \"w#2\")\nconv-mul at c: c p\n");
    check("(float[N,4,5,5] x) => (y)", "[p] p = Add(k, x) [c] y = Conv<pads = [1, 1, 1, 1]>(p, w)",
          "p = Add(k, x)\n[c] y = Conv<pads = [1, 1, 1, 1]>(p, w)\n"
          "no conv-prologue at c: ATTR c: pads has 1, must be 0\n"
          "no region at p: OP c: its result is read by c (Conv), which takes no steps\n");
    /* What the gate is read by elsewhere too, and what would make the image larger. */
    check("(float[N,4,H,H] x, float[N,4,1,1] r) => (y, z)", "[p] p = Mul(x, r) [c] y = Conv(p, w) [t] z = Transpose(p)",
          "p = Mul(x, r)\n"
          "[c] y = Conv(p, w)\n"
          "[t] z = Transpose(p)\n"
          "no conv-prologue at c: USED_OUTSIDE t: p is also read by t\n"
          "no region at p: OP c: its result is read by c (Conv), which takes no steps\n");
    check("(float[N,4,H,H] x, float[N,4,1,1] r) => (y)", "[p] p = Mul(x, r) [c] c = Conv(p, w) [a] y = Add(p, c)",
          "p = Mul(x, r)\n"
          "[c] y = Conv(p, w) | Add(p, .)\n"
          "conv-add-relu at c: c a\n"
          "no region at p: OP c: its result is read by c (Conv), which takes no steps\n");
    check("(float[N,1,5,5] x) => (y)", "[p] p = Mul(k, x) [c] y = Conv(p, w)",
          "p = Mul(k, x)\n[c] y = Conv(p, w)\n"
          "no conv-prologue at c: SHAPE p: shape is float[N,1,5,5], must be float[N,4,5,5]\n");
}

#define ROWS "(float[N,S,4] x, float[N,S,4] r) => (y)"

static void test_matmul(void **state)
{
    (void)state;
    check(ROWS, "[p] a = MatMul(x, m) [s] c = Add(b, a) [a] y = Gelu(c)",
          "[p] y = MatMul(x, m) | Add(b, .) | Gelu(.)\n"
          "matmul-bias at p: p s\n"
          "matmul-act at p: p s a\n");
    check(ROWS, "[p] a = MatMul(x, m) [s] c = Add(a, b) [t] y = Add(c, r)",
          "[p] y = MatMul(x, m) | Add(., b) | Add(., r)\n"
          "matmul-bias at p: p s\n"
          "epilogue at p: p s t\n");
    check("(float[4] x) => (y)", "[p] a = MatMul(x, m) [s] y = Add(a, m)",
          "[p] a = MatMul(x, m)\n"
          "[s] y = Add(a, m)\n"
          "no matmul-bias at p: SHAPE s: operand is float[4,4], must be float[4] or broadcast to it\n");
}

static void test_skip(void **state)
{
    (void)state;
    check(ROWS, "[s] s = Add(x, r) [n] y = LayerNormalization(s, b)",
          "[n] y = LayerNormalization[Add(., r)](x, b)\n"
          "skip-layer-norm at n: n s\n");
    check("(float[N,S,4] x, float[N,S,4] r) => (y, s)", "[s] s = Add(x, r) [n] y = LayerNormalization(s, b)",
          "[n] y = LayerNormalization[Add(., r) -> s](x, b)\n"
          "skip-layer-norm at n: n s\n");
    check(ROWS, "[p] p = MatMul(x, m) [t] t = Add(p, b) [s] s = Add(t, r) [n] y = LayerNormalization(s, b)",
          "[p] t = MatMul(x, m) | Add(., b)\n"
          "[n] y = LayerNormalization[Add(., r)](t, b)\n"
          "skip-layer-norm at n: n s\n"
          "matmul-bias at p: p t\n");
    check("(float[N,S,4] x, float[N,S,4] r) => (y, s)",
          "[p] p = MatMul(x, m) [t] t = Add(p, b) [s] s = Add(t, r) [n] y = LayerNormalization(s, b)",
          "[p] s = MatMul(x, m) | Add(., b) | Add(., r)\n"
          "[n] y = LayerNormalization(s, b)\n"
          "matmul-bias at p: p t\n"
          "epilogue at p: p t s\n");
    check(ROWS, "[t] t = Add(b, x) [s] s = Add(r, t) [n] y = RMSNormalization(s, b)",
          "[n] y = RMSNormalization[Add(b, .) | Add(r, .)](x, b)\n"
          "skip-layer-norm at n: n t s\n");
    check("(float[N,S,4] x, float[S,4] r) => (y)", "[s] s = Add(r, x) [n] y = LayerNormalization(s, b)",
          "[n] y = LayerNormalization[Add(r, .)](x, b)\n"
          "skip-layer-norm at n: n s\n");
}

static void test_qkv(void **state)
{
    (void)state;
    check("(float[N,S,4] x) => (q, k1, v1, o)",
          "[q] q0 = MatMul(x, m) [k] k1 = MatMul(x, m) [v] v0 = MatMul(x, v) [qb] q = Add(q0, b) [vb] v1 = Add(bv, v0) "
          "[o] o = Exp(x)",
          "o = Exp(x)\n"
          "[q] \"value#5\" = MatMul(x, \"m#2\") | Add(., \"value#3\")\n"
          "[\"q/split\"] q, k1, v1 = Split<axis = -1>(\"value#5\", \"value#6\")\n"
          "qkv at q: q k v\n"
          "matmul-bias at q: q k v qb vb\n");
    check("(float[N,4] x) => (q, k1)", "[q] q = Gemm(x, m, b) [k] k1 = Gemm<transB = 1>(x, m, zero)",
          "[q] \"value#4\" = Gemm(x, \"m#2\", \"value#3\")\n"
          "[\"q/split\"] q, k1 = Split<axis = -1>(\"value#4\", \"value#5\")\n"
          "qkv at q: q k\n");
    check("(float[N,S,4] x) => (y)", "[g] g = MatMul(x, m) [u] u = MatMul(x, m) [a] a = Tanh(g) [m] y = Mul(a, u)",
          "[g] a = MatMul<stored = 0>(x, m) | Tanh(.)\n"
          "[u] y = MatMul(x, m) | Mul(a, .)\n"
          "epilogue at u: u m\n"
          "matmul-act at g: g a\n"
          "matmul-gate at g: g a\n");
}

static void test_region(void **state)
{
    (void)state;
    check(ROWS, "[a] a = Exp(x) [c] c = Tanh(r) [d] d = Mul(a, c) [e] y = Add(d, six)",
          "[a] y = Identity(x) | Exp(.) | Tanh(r) | Mul(.1, .) | Add(., six)\n"
          "region at a: a c d e\n");
    check(ROWS, "[t] t = Transpose(x) [a] a = Exp(t) [u] y = Transpose(a)",
          "t = Transpose(x)\n"
          "a = Exp(t)\n"
          "[u] y = Transpose(a)\n"
          "no region at a: OP t: its operand comes from t (Transpose), which takes no steps\n");
    /* Levels that are floats again at once are a step; of another scale they are none. */
    check(ROWS, "[q] q = QuantizeLinear(x, six) [d] d = DequantizeLinear(q, six) [e] y = Relu(d)",
          "[q] y = Identity(x) | uint8 QuantizeLinear(., six) | DequantizeLinear(., six) | Relu(.)\n"
          "region at q: q d e\n");
}

/* The bias is added by a node of its own, and an activation follows: the normalisation meets the convolution. */
static void test_bias_then_norm(void **state)
{
    (void)state;
    check(IMAGE, "[c] c = Conv(x, w) [a] a = Add(c, k) [n] n = BatchNormalization(a, b, b, b, b) [y] y = Relu(n)",
          "[c] y = Conv(x, \"value#3\", \"value#4\") | Relu(.)\n"
          "conv-add at c: c a\nconv-bn at c: c a n\nconv-act at c: c a n y\n");
}

/* The factor goes behind the second product, and what is left is an attention. */
static void test_scaled_probabilities(void **state)
{
    (void)state;
    check("(float[N,2,S,4] q, float[N,2,4,T] u, float[N,2,T,4] x) => (y)",
          "[s] s = MatMul(q, u) [p] p = Softmax(s) [h] h = Mul(p, six) [y] y = MatMul(h, x)",
          "[\"Transpose#4\"] \"value#3\" = Transpose<perm = [0, 1, 3, 2]>(u)\n"
          "y = Attention<scale = 1.0, masked_score = -inf>(q, \"value#3\", x) | Mul(., six)\n"
          "matmul-scale at y: y h\nattention at y: s p y\nepilogue at y: s p y h\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conv),
        cmocka_unit_test(test_conv_refused),
        cmocka_unit_test(test_stored),
        cmocka_unit_test(test_channel),
        cmocka_unit_test(test_matmul),
        cmocka_unit_test(test_skip),
        cmocka_unit_test(test_qkv),
        cmocka_unit_test(test_region),
        cmocka_unit_test(test_conv_prologue),
        cmocka_unit_test(test_channel_before),
        cmocka_unit_test(test_parallel_conv),
        cmocka_unit_test(test_bias_then_norm),
        cmocka_unit_test(test_scaled_probabilities),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
