/* SPDX-License-Identifier: Apache-2.0 */
/* Every rule on what it must find and on what it must leave, with the code and the reason; and the rule language. */
#include "fuse/builtin.h"
#include "fuse/fuse.h"
#include "fuse/functions.h"
#include "fuse/rule_parse.h"
#include "graph/text.h"
#include "graph/verify.h"
#include "ops/infer.h"
#include "ops/op.h"

#include <math.h>
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
    opf_const_pool consts;
    opf_graph *graph;
    opf_fuse_report report;
    opf_error error;
} fixture;

static void begin(fixture *f, const char *source)
{
    memset(f, 0, sizeof *f);
    opf_heap_init(&f->heap, NULL, 0);
    opf_arena_init(&f->arena, &f->heap);
    opf_dims *dims = opf_dims_create(&f->arena);
    f->consts = (opf_const_pool){.arena = &f->arena, .next_id = 1};
    f->report = (opf_fuse_report){.arena = &f->arena};
    if (opf_text_parse(source, opf_find_operator, &f->arena, dims, &f->consts, &f->graph, NULL, NULL, &f->error) !=
            OPF_OK ||
        opf_infer_graph(f->graph, &f->error) != OPF_OK)
        fail_msg("%s\n%s", f->error.message, source);
}

static void end(fixture *f)
{
    opf_arena_fini(&f->arena);
    assert_int_equal(f->heap.used, 0);
}

static void fuse(fixture *f, const char *rule, const char *user_rules)
{
    const char *const only[] = {rule};
    const char *const rules[] = {user_rules};
    const char *const files[] = {"user.rule"};
    opf_fuse_options options = {.only = only,
                                .n_only = 1,
                                .stop_after = -1,
                                .user_rules = rules,
                                .user_rule_files = files,
                                .n_user_rules = user_rules != NULL ? 1 : 0};
    if (opf_fuse(f->graph, &options, &f->report, &f->error) != OPF_OK ||
        opf_graph_verify(f->graph, &f->error) != OPF_OK)
        fail_msg("%s", f->error.message);
}

/* The nodes, one a line. */
static const char *nodes_of(fixture *f)
{
    opf_text text;
    opf_text_init(&text, &f->arena);
    opf_text_add(&text, "%s", "");
    for (opf_node_id id = 1; id < f->graph->n_nodes; id++)
        if (opf_node_is_alive(opf_graph_node(f->graph, id))) {
            opf_text_node(&text, f->graph, id);
            opf_text_add(&text, "\n");
        }
    assert_false(text.failed);
    return text.data;
}

static const opf_miss *find_miss(const fixture *f, const char *rule)
{
    for (uint32_t i = 0; i < f->report.n_misses; i++)
        if (strcmp(f->report.misses[i].rule, rule) == 0)
            return &f->report.misses[i];
    return NULL;
}

/* The rule fires once and leaves these nodes; constants that it made are not compared but by count of nodes. */
static void hit(const char *rule, const char *source, const char *anchor_op)
{
    fixture f;
    begin(&f, source);
    fuse(&f, rule, NULL);
    const opf_miss *miss = find_miss(&f, rule);
    if (f.report.n_fusions != 1 || strcmp(f.report.fusions[0].rule, rule) != 0)
        fail_msg("%s did not fire once on\n%s\n%s %s %s", rule, source, nodes_of(&f),
                 miss != NULL ? opf_miss_code_name(miss->code) : "", miss != NULL ? miss->reason : "");
    if (strstr(nodes_of(&f), anchor_op) == NULL || strchr(nodes_of(&f), '\n')[1] != '\0')
        fail_msg("%s on\n%s\nleft\n%s", rule, source, nodes_of(&f));
    end(&f);
}

/* code NULL: no near miss either. */
static void miss(const char *rule, const char *source, const char *code, const char *node, const char *reason)
{
    fixture f;
    begin(&f, source);
    fuse(&f, rule, NULL);
    if (f.report.n_fusions != 0)
        fail_msg("%s fired on\n%s", rule, source);
    const opf_miss *found = find_miss(&f, rule);
    if (code == NULL ? found != NULL
                     : found == NULL || strcmp(opf_miss_code_name(found->code), code) != 0 ||
                           strcmp(found->node, node) != 0 || strstr(found->reason, reason) == NULL)
        fail_msg("%s on\n%s\ngives %s %s: %s", rule, source,
                 found != NULL ? opf_miss_code_name(found->code) : "nothing", found != NULL ? found->node : "",
                 found != NULL ? found->reason : "");
    end(&f);
}

/* ---- conv-bn ---- */

#define BN_CONSTANTS                                                                                                   \
    "<float[2,1,1,1] w = {1,2}, float[2] b = {1,2}, float[2] g = {2,4}, float[2] be = {10,20}, float[2] m = {1,1},"    \
    " float[2] v = {4,16}, float[2] bad = {-1,1}>"
#define IMAGE "g (float[N,1,H,W] x) => (y) " BN_CONSTANTS

static double element(const fixture *f, const char *operand, size_t i)
{
    opf_value_id id = opf_graph_find_value(f->graph, operand);
    assert_true(id != 0);
    return opf_const_f64_at(opf_graph_value(f->graph, id)->constant, i);
}

static void test_conv_bn_values(void **state)
{
    (void)state;
    fixture f;
    begin(&f, IMAGE
          "{ [c] t = Conv<strides = [2, 2]>(x, w, b) [n] y = BatchNormalization<epsilon = 0.0>(t, g, be, m, v) }");
    fuse(&f, "conv-bn", NULL);
    assert_int_equal(f.report.n_fusions, 1);
    assert_string_equal(f.report.fusions[0].anchor, "c");
    assert_int_equal(f.report.fusions[0].n_origin, 2);
    assert_string_equal(f.report.fusions[0].origin[0], "c");
    assert_string_equal(f.report.fusions[0].origin[1], "n");
    opf_value_id y = opf_graph_find_value(f.graph, "y");
    const opf_node *conv = opf_graph_node(f.graph, opf_graph_value(f.graph, y)->producer);
    assert_string_equal(conv->name, "c");
    assert_ptr_equal(conv->op, &opf_op_Conv);
    assert_int_equal(opf_node_attr(conv, "strides")->ints[1], 2);
    const opf_const *w = opf_graph_value(f.graph, conv->inputs[1])->constant,
                    *b = opf_graph_value(f.graph, conv->inputs[2])->constant;
    assert_int_equal(b->type, OPF_FLOAT);
    /* k = g / sqrt(v) = 1, 1; b' = (b - m) k + be */
    assert_true(opf_const_f64_at(w, 0) == 1 && opf_const_f64_at(w, 1) == 2);
    assert_true(opf_const_f64_at(b, 0) == 10 && opf_const_f64_at(b, 1) == 21);
    assert_true(element(&f, "w", 1) == 2);
    end(&f);
}

static void test_conv_bn(void **state)
{
    (void)state;
    hit("conv-bn", IMAGE "{ t = Conv(x, w) y = BatchNormalization(t, g, be, m, v) }", "Conv(");
    hit("conv-bn", IMAGE "{ t = Conv(x, w) u = Identity(t) y = BatchNormalization(u, g, be, m, v) }", "Conv(");
    hit("conv-bn",
        "g (float[N,1,L] x) => (y) <float[2,1,3] w = {1,2,3,4,5,6}, float[2] b = {1,2}> { t = Conv(x, w) y = "
        "BatchNormalization(t, b, b, b, b) }",
        "Conv(");
    hit("conv-bn",
        "g (float[N,2,4,4,4] x) => (y) <float[2,1,1,1,1] w = {1,2}, float[2] b = {1,2}> { t = Conv<group = 2>(x, w, b) "
        "y = BatchNormalization(t, b, b, b, b) }",
        "Conv<group");
    miss("conv-bn",
         IMAGE "{ [c] t = Conv(x, w) [n] y0 = BatchNormalization(t, g, be, m, v) [r] r = Relu(t) [s] y = Add(y0, r) }",
         "USED_OUTSIDE", "r", "t is also read by r");
    miss("conv-bn",
         "g (float[N,1,H,W] x) => (y, t) " BN_CONSTANTS
         "{ [c] t = Conv(x, w) [n] y = BatchNormalization(t, g, be, m, v) }",
         "IS_OUTPUT", "c", "t is also an output");
    miss("conv-bn",
         "g (float[N,1,H,W] x, float[2,1,1,1] w1) => (y) " BN_CONSTANTS
         "{ t = Conv(x, w1) [n] y = BatchNormalization(t, g, be, m, v) }",
         "CONST", "n", "also a graph input");
    miss("conv-bn", IMAGE "{ t = Conv(x, w) [n] y = BatchNormalization(t, g, be, m, bad) }", "CONST", "n", "nan");
    miss("conv-bn", IMAGE "{ t = Conv(x, w) [r] u = Relu(t) [n] y = BatchNormalization(u, g, be, m, v) }", "OP", "r",
         "Relu, must be Conv");
}

static void test_gemm_bn(void **state)
{
    (void)state;
#define MATRIX                                                                                                         \
    "<float[3,2] w = {1,2,3,4,5,6}, float[2,3] wt = {1,2,3,4,5,6}, float[2] g = {2,4}, float[2] be = {10,20}, "        \
    "float[2] m = {1,1}, float[2] v = {4,16}>"
    hit("gemm-bn",
        "g (float[N,3] x) => (y) " MATRIX
        "{ t = Gemm<transB = 1, alpha = 0.5>(x, wt, m) y = BatchNormalization(t, g, be, m, v) }",
        "alpha");
    hit("matmul-bn",
        "g (float[N,3] x) => (y) " MATRIX "{ t = MatMul(x, w) y = BatchNormalization<momentum = 0.8>(t, g, be, m, v) }",
        "Gemm");
    hit("gemm-bn",
        "g (float[N,3] x) => (y) " MATRIX "{ [t] t = Gemm(x, w, m) [n] y = BatchNormalization(t, g, be, m, v) }", "Gemm");
    hit("gemm-bn",
        "g (float[N,3] x) => (y) " MATRIX
        "{ [t] t = Gemm<beta = 0.5>(x, w, m) [n] y = BatchNormalization<epsilon = 0.0>(t, g, be, m, v) }",
        "beta = 1.0");
    miss("matmul-bn",
         "g (float[N,2,3] x) => (y) " MATRIX "{ t = MatMul(x, w) [n] y = BatchNormalization(t, g, be, m, v) }", "RANK",
         "n", "3 dimensions");
}

static void test_conv_bn_shared(void **state)
{
    (void)state;
    fixture f;
    begin(&f, IMAGE "{ t = Conv(x, w) a = BatchNormalization(t, g, be, m, v) u = Conv(x, w) c = BatchNormalization(u, "
                    "b, be, m, v) y = Add(a, c) }");
    fuse(&f, "conv-bn", NULL);
    assert_int_equal(f.report.n_fusions, 2);
    assert_true(element(&f, "w", 0) == 1);
    end(&f);
}

/* ---- layer-norm ---- */

#define LN                                                                                                             \
    "g (float[N,S,4] x) => (y) <float[4] s = {1,2,3,4}, float[4] b = {0,0,1,1}, float e = {0.00001}, float two = "     \
    "{2}, float three = {3},"                                                                                          \
    " float half = {0.5}, float mhalf = {-0.5}, float one = {1}, int64[1] ax = {-1}, float[1] e1 = {0.00001}, "        \
    "float[1,1,4] s3 = {1,2,3,4},"                                                                                     \
    " float[3,1] odd = {1,2,3}, float[1,1,1,1] e4 = {0.1}>"
#define MEAN   "[u] u = ReduceMean(x, ax) [d] d = Sub(x, u) "
#define VAR    "[p] p = Pow(d, two) [v] v = ReduceMean(p, ax) [e] ve = Add(v, e) [q] q = Sqrt(ve) "
#define AFFINE "[m] m = Mul(n, s) [a] y = Add(m, b) "

static void test_layer_norm(void **state)
{
    (void)state;
    hit("layer-norm", LN "{" MEAN VAR "n = Div(d, q) " AFFINE "}", "LayerNormalization");
    hit("layer-norm",
        LN
        "{" MEAN
        "p = Mul(d, d) v = ReduceMean(p, ax) ve = Add(e1, v) q = Sqrt(ve) n = Div(d, q) m = Mul(s3, n) y = Add(b, m) }",
        "LayerNormalization");
    hit("layer-norm", LN "{" MEAN VAR "r = Reciprocal(q) n = Mul(d, r) " AFFINE "}", "LayerNormalization");
    hit("layer-norm", LN "{" MEAN VAR "r = Div(one, q) n = Mul(r, d) " AFFINE "}", "LayerNormalization");
    hit("layer-norm",
        LN "{" MEAN "p = Mul(d, d) v = ReduceMean(p, ax) ve = Add(v, e) r = Pow(ve, mhalf) n = Mul(d, r) " AFFINE "}",
        "LayerNormalization");
    hit("layer-norm",
        LN "{" MEAN "p = Mul(d, d) v = ReduceMean(p, ax) ve = Add(v, e) r = Pow(ve, half) n = Div(d, r) " AFFINE "}",
        "LayerNormalization");
    hit("layer-norm",
        LN "{" MEAN
           "d2 = Sub(x, u) p = Pow(d2, two) v = ReduceMean(p, ax) ve = Add(v, e) q = Sqrt(ve) n = Div(d, q) " AFFINE
           "}",
        "LayerNormalization");
    hit("layer-norm", LN "{" MEAN VAR "n = Div(d, q) y = Mul(n, s) }", "LayerNormalization");
    hit("layer-norm", LN "{" MEAN VAR "y = Div(d, q) }", "LayerNormalization");
    hit("layer-norm",
        "g (float[N,2,2] x) => (y) <float e = {0.1}, float two = {2}, int64[2] ax = {1,2}, int64[2] ay = {-1,-2}, "
        "float[2,2] s = {1,2,3,4}>"
        "{ u = ReduceMean(x, ax) d = Sub(x, u) p = Pow(d, two) v = ReduceMean(p, ay) ve = Add(v, e) q = Sqrt(ve) n = "
        "Div(d, q) y = Mul(n, s) }",
        "axis = -2");
    hit("layer-norm",
        "g (float16[N,S,4] x) => (y) <float16 e = {0.001}, float16 two = {2}, int64[1] ax = {-1}>"
        "{ u = ReduceMean(x, ax) d = Sub(x, u) p = Pow(d, two) v = ReduceMean(p, ax) ve = Add(v, e) q = Sqrt(ve) y = "
        "Div(d, q) }",
        "LayerNormalization");
}

static void test_layer_norm_misses(void **state)
{
    (void)state;
    miss("layer-norm",
         LN "{" MEAN "[p] p = Pow(d, three) v = ReduceMean(p, ax) ve = Add(v, e) q = Sqrt(ve) n = Div(d, q) " AFFINE
            "}",
         "CONST", "p", "exponent is 3, must be 2");
    miss("layer-norm", LN "{ u = ReduceMean(x, ax) d = Sub(u, x) " VAR "n = Div(d, q) " AFFINE "}", NULL, NULL, NULL);
    miss("layer-norm", LN "{" MEAN VAR "[n] n = Div(q, d) " AFFINE "}", "OP", "n", "another order");
    miss("layer-norm",
         LN "{" MEAN
            "p = Pow(d, two) [v] v = ReduceMean<keepdims = 0>(p, ax) ve = Add(v, e) q = Sqrt(ve) n = Div(d, q) " AFFINE
            "}",
         "ATTR", "v", "keepdims is 0, must be 1");
    miss("layer-norm",
         "g (float[N,S,4] x, float eps) => (y) <int64[1] ax = {-1}, float two = {2}>{" MEAN
         "[p] p = Pow(d, two) v = ReduceMean(p, ax) ve = Add(v, eps) q = Sqrt(ve) y = Div(d, q) }",
         "CONST", "p", "also a graph input");
    miss("layer-norm",
         "g (float[N,S,4] x) => (y) <int64[1] ax = {1}, float two = {2}, float e = {0.1}>{" MEAN
         "[p] p = Pow(d, two) v = ReduceMean(p, ax) ve = Add(v, e) q = Sqrt(ve) y = Div(d, q) }",
         "CONST", "p", "must be the last ones");
    miss("layer-norm",
         "g (double[N,S,4] x) => (y) <int64[1] ax = {2}, double two = {2}, double e = {0.1}>{" MEAN
         "[p] p = Pow(d, two) v = ReduceMean(p, ax) ve = Add(v, e) q = Sqrt(ve) y = Div(d, q) }",
         "DTYPE", "p", "double");
    /* eps outside of the root, and an eps that raises the rank */
    miss("layer-norm",
         LN "{" MEAN "p = Pow(d, two) [v] v = ReduceMean(p, ax) q = Sqrt(v) qe = Add(q, e) n = Div(d, qe) " AFFINE "}",
         NULL, NULL, NULL);
    miss("layer-norm",
         LN "{" MEAN "[p] p = Pow(d, two) v = ReduceMean(p, ax) ve = Add(v, e4) q = Sqrt(ve) y = Div(d, q) }", "RANK",
         "p", "must be");
}

static void test_layer_norm_parts(void **state)
{
    (void)state;
    fixture f;
    /* the normalised value has another reader: the affine part stays outside */
    begin(&f, LN "{" MEAN VAR "n = Div(d, q) m = Mul(n, s) a = Add(m, b) y = Add(a, n) }");
    fuse(&f, "layer-norm", NULL);
    assert_int_equal(f.report.n_fusions, 1);
    assert_non_null(strstr(nodes_of(&f), "n = LayerNormalization"));
    end(&f);
    /* the scale varies along the rows: it stays outside too */
    begin(
        &f,
        "g (float[N,3,4] x) => (y) <int64[1] ax = {-1}, float two = {2}, float e = {0.1}, float[3,1] s = {1,2,3}>{" MEAN
            VAR "n = Div(d, q) y = Mul(n, s) }");
    fuse(&f, "layer-norm", NULL);
    assert_int_equal(f.report.n_fusions, 1);
    assert_non_null(strstr(nodes_of(&f), "Mul"));
    end(&f);
    /* a scale of run time with ones before it stays outside, one of exactly these dimensions does not */
    for (int k = 0; k < 2; k++) {
        char source[600];
        snprintf(source, sizeof source,
                 "g (float[N,3,4] x, float[%s4] s) => (y) <int64[1] ax = {-1}, float two = {2}, float e = {0.1}>{%s%s"
                 "n = Div(d, q) y = Mul(n, s) }",
                 k == 0 ? "1,1," : "", MEAN, VAR);
        begin(&f, source);
        fuse(&f, "layer-norm", NULL);
        assert_int_equal(f.report.n_fusions, 1);
        assert_true((strstr(nodes_of(&f), "Mul") != NULL) == (k == 0));
        end(&f);
    }
    /* d has another reader */
    begin(&f, LN "{" MEAN VAR "n = Div(d, q) m = Mul(n, s) a = Add(m, b) [z] y = Add(a, d) }");
    fuse(&f, "layer-norm", NULL);
    assert_int_equal(f.report.n_fusions, 0);
    const opf_miss *near = find_miss(&f, "layer-norm");
    assert_non_null(near);
    assert_int_equal(near->code, OPF_MISS_USED_OUTSIDE);
    assert_string_equal(near->node, "z");
    end(&f);
}

/* ---- activations ---- */

#define X                                                                                                              \
    "g (float[N,4] x) => (y) <float r = {1.4142099}, float i = {0.70710678}, float one = {1}, float half = {0.5}, "    \
    "float[1] h1 = {0.5},"                                                                                             \
    " float[1,1] r2 = {1.41421356}, float wrong = {1.43}, float two = {2}, float three = {3}, float c = {0.044715}, "  \
    "float p = {0.7978845608},"                                                                                        \
    " float pc = {0.0356774081}, float six = {6}, float zero = {0}, float[1] sixth = {0.16666667}, float q = "         \
    "{1.702}, float m1 = {-1}>"

static void test_gelu(void **state)
{
    (void)state;
    hit("gelu-erf", X "{ a = Div(x, r) e = Erf(a) o = Add(e, one) m = Mul(x, o) y = Mul(m, half) }", "Gelu");
    hit("gelu-erf", X "{ a = Mul(i, x) e = Erf(a) o = Add(one, e) m = Mul(o, x) y = Mul(half, m) }", "Gelu");
    hit("gelu-erf", X "{ hx = Mul(x, half) a = Div(x, r2) e = Erf(a) o = Add(e, one) y = Mul(hx, o) }", "Gelu");
    hit("gelu-erf", X "{ hx = Div(x, two) a = Mul(x, i) e = Erf(a) o = Sub(e, m1) y = Mul(o, hx) }", "Gelu");
    hit("gelu-erf", X "{ a = Div(x, r) e = Erf(a) o = Add(e, one) ho = Mul(o, h1) y = Mul(x, ho) }", "Gelu");
    hit("gelu-erf",
        "g (float16[N,4] x) => (y) <float16 r = {1.4140625}, float16 one = {1}, float16 half = {0.5}>"
        "{ a = Div(x, r) e = Erf(a) o = Add(e, one) m = Mul(x, o) y = Mul(m, half) }",
        "Gelu");
    miss("gelu-erf", X "{ [a] a = Div(x, wrong) e = Erf(a) o = Add(e, one) m = Mul(x, o) y = Mul(m, half) }", "CONST",
         "a", "divisor is 1.42999995, must be 1.41421356");
    miss("gelu-erf",
         "g (float[N,4] x, float[N,4] z) => (y) <float r = {1.41421356}, float one = {1}, float half = {0.5}>"
         "{ a = Div(x, r) e = Erf(a) o = Add(e, one) [m] m = Mul(z, o) y = Mul(m, half) }",
         "OP", "m", "reads z, must read x");
    miss("gelu-erf",
         "g (float[4] x) => (y) <float[1,1] r = {1.41421356}, float one = {1}, float half = {0.5}>"
         "{ a = Div(x, r) [e] e = Erf(a) o = Add(e, one) m = Mul(x, o) y = Mul(m, half) }",
         "RANK", "e", "must be");
    miss("gelu-erf",
         "g (float[N,4] x, float[4] t) => (y, e) <float r = {1.41421356}, float one = {1}, float half = {0.5}>"
         "{ a = Div(x, r) [e] e = Erf(a) o = Add(e, one) m = Mul(x, o) y = Mul(m, half) }",
         "IS_OUTPUT", "e", "output");
}

static void test_gelu_tanh(void **state)
{
    (void)state;
#define TAIL "t = Tanh(k) o = Add(t, one) h = Mul(x, half) y = Mul(h, o) }"
    hit("gelu-tanh", X "{ z = Pow(x, three) a = Mul(z, c) i2 = Add(x, a) k = Mul(i2, p) " TAIL, "Gelu");
    hit("gelu-tanh",
        X "{ z2 = Mul(x, x) z = Mul(z2, x) a = Mul(c, z) i2 = Add(x, a) k = Mul(p, i2) t = Tanh(k) o = Add(t, one) h = "
          "Mul(x, o) y = Mul(h, half) }",
        "Gelu");
    hit("gelu-tanh", X "{ z2 = Mul(x, x) a = Mul(z2, c) f = Add(a, one) g2 = Mul(x, p) k = Mul(g2, f) " TAIL, "Gelu");
    hit("gelu-tanh", X "{ z2 = Pow(x, two) a = Mul(z2, c) f = Add(one, a) g2 = Mul(x, f) k = Mul(g2, p) " TAIL, "Gelu");
    hit("gelu-tanh", X "{ z2 = Pow(x, two) a = Mul(z2, pc) f = Add(a, p) k = Mul(x, f) " TAIL, "Gelu");
    hit("gelu-tanh", X "{ z2 = Mul(x, x) cx = Mul(x, c) z = Mul(cx, z2) i2 = Add(x, z) k = Mul(i2, p) " TAIL, "Gelu");
    miss("gelu-tanh", X "{ z = Pow(x, three) a = Mul(z, c) i2 = Add(x, a) [k] k = Mul(i2, wrong) " TAIL, "CONST", "k",
         "must be 0.7978845608");
    miss("layer-norm", X "{ z = Pow(x, three) a = Mul(z, c) i2 = Add(x, a) k = Mul(i2, p) " TAIL, NULL, NULL, NULL);
}

static void test_sigmoids(void **state)
{
    (void)state;
    hit("silu", X "{ s = Sigmoid(x) y = Mul(s, x) }", "Swish");
    hit("gelu-quick", X "{ a = Mul(x, q) s = Sigmoid(a) y = Mul(x, s) }", "Swish<alpha = 1.702");
    miss("silu", "g (float[N,4] x, float[N,4] z) => (y) { [s] s = Sigmoid(x) [m] y = Mul(s, z) }", "OP", "m",
         "reads z, must read x");
    miss("silu", "g (float[N,4] x) => (y, s) { [s] s = Sigmoid(x) y = Mul(s, x) }", "IS_OUTPUT", "s",
         "s is also an output of the graph");
    hit("hard-swish", X "{ s = HardSigmoid<alpha = 0.16666667, beta = 0.5>(x) y = Mul(x, s) }", "HardSwish");
    hit("hard-swish", X "{ a = Add(x, three) s = Clip(a, zero, six) d = Div(s, six) y = Mul(x, d) }", "HardSwish");
    hit("hard-swish", X "{ a = Add(x, three) s = Clip(a, zero, six) m = Mul(x, s) y = Mul(m, sixth) }", "HardSwish");
    miss("hard-swish", X "{ [s] s = HardSigmoid(x) y = Mul(x, s) }", "ATTR", "s", "alpha is 0.2");
    miss("hard-swish", X "{ a = Add(x, three) [s] s = Clip(a, zero, three) m = Mul(x, s) y = Mul(m, sixth) }", "CONST",
         "s", "is 3, must be 6");
    hit("mish", X "{ s = Softplus(x) t = Tanh(s) y = Mul(x, t) }", "Mish");
    hit("mish", X "{ e = Exp(x) o = Add(e, one) s = Log(o) t = Tanh(s) y = Mul(t, x) }", "Mish");
}

static void test_activations(void **state)
{
    (void)state;
    hit("hard-sigmoid", X "{ a = Add(x, three) s = Clip(a, zero, six) y = Div(s, six) }", "HardSigmoid<alpha = 0.1666");
    hit("sigmoid", X "{ n = Neg(x) e = Exp(n) o = Add(one, e) y = Div(one, o) }", "Sigmoid");
    hit("silu", X "{ n = Neg(x) e = Exp(n) o = Add(e, one) y = Div(x, o) }", "Swish");
    hit("softplus", X "{ e = Exp(x) o = Add(one, e) y = Log(o) }", "Softplus");
    miss("softplus", X "{ [e] e = Exp(x) [o] o = Add(e, half) y = Log(o) }", "CONST", "o", "must be 1");
    hit("leaky-relu", X "{ m = Mul(half, x) y = Max(m, x) }", "LeakyRelu<alpha = 0.5>");
    miss("leaky-relu", X "{ m = Mul(two, x) [y] y = Max(m, x) }", "CONST", "y", "a is 2, must be at most 1");
    miss("leaky-relu", X "{ m = Mul(x, m1) [y] y = Max(m, x) }", "CONST", "y", "a is -1, must be positive");
    hit("prelu", X "{ p1 = Relu(x) n = Neg(x) q1 = Relu(n) m = Mul(q1, q) y = Sub(p1, m) }", "PRelu");
    hit("prelu", X "{ p1 = Relu(x) n = Neg(x) q1 = Relu(n) o = Neg(q1) m = Mul(q, o) y = Add(m, p1) }", "PRelu");
    miss("prelu", X "{ p1 = Relu(x) [n] n = Neg(x) q1 = Relu(n) m = Mul(q1, q) [y] y = Sub(m, p1) }", "OP", "y",
         "another order");
}

/* The bounds of the Clip that is left. */
static void clamp(const char *rule, const char *source, double lo, double hi)
{
    fixture f;
    begin(&f, source);
    fuse(&f, rule, NULL);
    assert_int_equal(f.report.n_fusions, 1);
    const opf_node *clip = opf_graph_node(f.graph, f.graph->n_nodes - 1);
    assert_string_equal(clip->op_type, "Clip");
    double bound[2] = {-INFINITY, INFINITY};
    for (uint32_t i = 1; i < clip->n_own_inputs; i++)
        if (clip->inputs[i] != 0)
            assert_true(opf_graph_scalar(f.graph, clip->inputs[i], &bound[i - 1]));
    if (bound[0] != lo || bound[1] != hi)
        fail_msg("%s on\n%s\ngives [%g, %g]", rule, source, bound[0], bound[1]);
    end(&f);
}

static void test_clamps(void **state)
{
    (void)state;
    hit("relu-relu", X "{ a = Relu(x) y = Relu(a) }", "Relu");
    clamp("relu-clip", X "{ a = Relu(x) y = Clip(a, m1, six) }", 0, 6);
    clamp("relu-clip", X "{ a = Relu(x) y = Clip(a, \"\", m1) }", 0, -1);
    clamp("relu-clip", X "{ a = Relu(x) y = Clip(a, two) }", 2, INFINITY);
    clamp("clip-relu", X "{ a = Clip(x, m1, six) y = Relu(a) }", 0, 6);
    clamp("clip-relu", X "{ a = Clip(x, \"\", m1) y = Relu(a) }", 0, 0);
    clamp("clip-relu", X "{ a = Clip(x, two) y = Relu(a) }", 2, INFINITY);
    clamp("clip-clip", X "{ a = Clip(x, zero, six) y = Clip(a, m1, two) }", 0, 2);
    clamp("clip-clip", X "{ a = Clip(x, zero, one) y = Clip(a, two, three) }", 2, 2);
    clamp("clip-clip", X "{ a = Clip(x, two, three) y = Clip(a, zero, one) }", 2, 1);
    clamp("clip-clip", X "{ a = Clip(x, two, one) y = Clip(a) }", 2, 1);
    clamp("clip-clip", X "{ a = Clip(x, two) y = Clip(a, \"\", six) }", 2, 6);
    clamp("min-max", X "{ a = Max(x, zero) y = Min(a, six) }", 0, 6);
    clamp("min-max", X "{ a = Max(two, x) y = Min(one, a) }", 2, 1);
    clamp("max-min", X "{ a = Min(x, six) y = Max(a, zero) }", 0, 6);
    clamp("max-min", X "{ a = Min(x, one) y = Max(a, two) }", 2, 2);
    clamp("min-relu", X "{ a = Relu(x) y = Min(a, six) }", 0, 6);
    miss("min-max", "g (float[N,4] x, float[N,4] z) => (y) <float six = {6}> { a = Max(x, z) [m] y = Min(a, six) }",
         "CONST", "m", "must be a constant");
    miss("clip-clip", "g (float[N,4] x, float z) => (y) <float six = {6}> { a = Clip(x, z) [m] y = Clip(a, six) }",
         "CONST", "m", "must be a constant of one element");
}

/* ---- windows ---- */

#define WINDOW                                                                                                         \
    "g (float[N,1,6,6] x) => (y) <float[2,1,3,3] w = {1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9}, int64[8] p = "             \
    "{0,0,1,0,0,0,1,2}, int64[4] q = {1,2,0,0}, int64[2] ax = {-2,3}, int64[8] c = {0,0,-1,0,0,0,0,0}, int64[8] ch = " \
    "{0,1,0,0,0,0,0,0}, int64[8] big = {0,0,3,0,0,0,0,0}, float zero = {0}, float one = {1}, float low = {-1e38}>"
#define POOL3 "kernel_shape = [3, 3]"

static void test_pads(void **state)
{
    (void)state;
    hit("pad-conv", WINDOW "{ t = Pad(x, p, zero) y = Conv<pads = [1, 1, 1, 1]>(t, w) }", "pads = [2, 1, 2, 3]");
    hit("pad-conv", WINDOW "{ t = Pad(x, q, \"\", ax) y = Conv(t, w) }", "pads = [1, 2, 0, 0]");
    miss("pad-conv", WINDOW "{ [t] t = Pad(x, p, one) y = Conv(t, w) }", "CONST", "t", "value is 1, must be 0");
    miss("pad-conv", WINDOW "{ [t] t = Pad<mode = \"edge\">(x, p) y = Conv(t, w) }", "ATTR", "t", "mode");
    miss("pad-conv", WINDOW "{ [t] t = Pad(x, c) y = Conv(t, w) }", "CONST", "t", "it crops");
    miss("pad-conv", "g (float[N,1,6,6] x) => (y) <float[2,2,1,1] w = {1,2,3,4}, int64[8] ch = {0,1,0,0,0,0,0,0}>"
                     "{ [t] t = Pad(x, ch) y = Conv(t, w) }",
         "CONST", "t", "not spatial");
    miss("pad-conv", WINDOW "{ [t] t = Pad(x, p) [y] y = Conv<auto_pad = \"SAME_UPPER\">(t, w) }", "ATTR", "y",
         "auto_pad");
    hit("pad-average-pool", WINDOW "{ t = Pad(x, p) y = AveragePool<" POOL3 ">(t) }", "count_include_pad = 1");
    hit("pad-average-pool",
        WINDOW "{ t = Pad(x, p) y = AveragePool<" POOL3 ", pads = [1, 1, 1, 0], count_include_pad = 1>(t) }",
        "pads = [2, 1, 2, 2]");
    miss("pad-average-pool", WINDOW "{ [t] t = Pad(x, p) y = AveragePool<" POOL3 ", pads = [1, 1, 1, 1]>(t) }", "ATTR",
         "t", "uncounted has 1, must be 0");
    miss("pad-average-pool", WINDOW "{ [t] t = Pad(x, p) [y] y = AveragePool<" POOL3 ", ceil_mode = 1>(t) }", "ATTR",
         "y", "ceil_mode");
    miss("pad-average-pool", WINDOW "{ [t] t = Pad(x, big) y = AveragePool<" POOL3 ">(t) }", "ATTR", "t",
         "must be below the kernel's 3");
    miss("pad-max-pool", WINDOW "{ [t] t = Pad(x, p) y = MaxPool<" POOL3 ">(t) }", "CONST", "t",
         "value is 0, which can be the largest");
    miss("pad-max-pool", WINDOW "{ [t] t = Pad(x, p, low) y = MaxPool<" POOL3 ">(t) }", "CONST", "t", "the largest");
    fixture f;
    begin(&f, WINDOW "{ r = Relu(x) t = Pad(r, p) y = MaxPool<" POOL3 ">(t) }");
    fuse(&f, "pad-max-pool", NULL);
    assert_int_equal(f.report.n_fusions, 1);
    assert_non_null(strstr(nodes_of(&f), "pads = [1, 0, 1, 2]"));
    end(&f);
}

/* ---- normalisations before and behind ---- */

static void test_bn_before(void **state)
{
    (void)state;
#define TWO                                                                                                            \
    "g (float[N,2,6,6] x) => (y) <float[1,2,1,1] w = {2,3}, float[2,1,1,1] dw = {2,3}, float[2,1,2,2] t = "            \
    "{1,2,3,4,5,6,7,8}, float[2] g = {2,4}, float[2] be = {10,20}, float[2] m = {1,1}, float[2] v = {4,16}, float[1] " \
    "b = {5}>"
    fixture f;
    begin(&f, TWO "{ n = BatchNormalization<epsilon = 0.0>(x, g, be, m, v) y = Conv(n, w, b) }");
    fuse(&f, "bn-conv", NULL);
    assert_int_equal(f.report.n_fusions, 1);
    const opf_node *conv = opf_graph_node(f.graph, f.graph->n_nodes - 1);
    const opf_const *w = opf_graph_value(f.graph, conv->inputs[1])->constant;
    const opf_const *b = opf_graph_value(f.graph, conv->inputs[2])->constant;
    assert_true(opf_const_f64_at(w, 0) == 2 && opf_const_f64_at(w, 1) == 3); /* factors 1 and 1 */
    assert_true(opf_const_f64_at(b, 0) == 2 * 9 + 3 * 19 + 5);
    end(&f);
    hit("bn-conv", TWO "{ n = BatchNormalization(x, g, be, m, v) y = Conv<group = 2>(n, dw) }", "group = 2");
    miss("bn-conv", TWO "{ [n] n = BatchNormalization(x, g, be, m, v) y = Conv<pads = [0, 1, 0, 0]>(n, w) }", "ATTR",
         "n", "pads has 1, must be 0");
    hit("conv-transpose-bn",
        TWO "{ c = ConvTranspose<group = 2>(x, t) y = BatchNormalization(c, g, be, m, v) }", "ConvTranspose<group = 2>");
    miss("conv-transpose-bn",
         "g (float[N,2,6,6] x, float[2] s) => (y) <float[2,2,1,1] t = {1,2,3,4}, float[2] m = {1,1}>"
         "{ c = ConvTranspose(x, t) [n] y = BatchNormalization(c, s, m, m, m) }",
         "CONST", "n", "also a graph input");
}

#define CHANNELS                                                                                                       \
    "g (float[N,4,H,W] x) => (y) <float[4,1,1] s = {1,2,3,4}, float[4,1,1] b = {0,0,1,1}, float[4] flat = {1,2,3,4}, " \
    "float e = {0.00001}, float two = {2}, int64[1] ax = {1}>"

static void test_more_norms(void **state)
{
    (void)state;
    fixture f;
    begin(&f, CHANNELS "{" MEAN VAR "n = Div(d, q) " AFFINE "}");
    fuse(&f, "layer-norm-channels", NULL);
    assert_int_equal(f.report.n_fusions, 1);
    assert_non_null(strstr(nodes_of(&f), "Transpose<perm = [0, 2, 3, 1]>"));
    assert_non_null(strstr(nodes_of(&f), "LayerNormalization<axis = -1"));
    assert_non_null(strstr(nodes_of(&f), "Transpose<perm = [0, 3, 1, 2]>"));
    end(&f);
    miss("layer-norm", CHANNELS "{" MEAN VAR "n = Div(d, q) " AFFINE "}", "CONST", "p", "must be the last ones");
    miss("layer-norm-channels", LN "{" MEAN VAR "n = Div(d, q) " AFFINE "}", "CONST", "p", "must be axis 1 alone");
    hit("layer-norm", LN "{" MEAN VAR "r = Reciprocal(q) k = Mul(r, s) uk = Mul(u, k) o = Sub(b, uk) xk = Mul(x, k) y = "
                         "Add(xk, o) }",
        "LayerNormalization");
    hit("layer-norm", LN "{" MEAN "xx = Mul(x, x) mm = ReduceMean(xx, ax) uu = Mul(u, u) v = Sub(mm, uu) ve = Add(v, e) q "
                         "= Sqrt(ve) n = Div(d, q) " AFFINE "}",
        "LayerNormalization");
    hit("softmax", LN "{ m = ReduceMax(x, ax) d = Sub(x, m) z = Exp(d) t = ReduceSum(z, ax) y = Div(z, t) }",
        "Softmax<axis = -1>");
    miss("softmax",
         "g (float[N,3,4] x) => (y) <int64[2] ax = {1,2}>"
         "{ m = ReduceMax(x, ax) d = Sub(x, m) [z] z = Exp(d) t = ReduceSum(z, ax) y = Div(z, t) }",
         "CONST", "z", "names 2 axes");
    miss("softmax", LN "{ m = ReduceMax(x, ax) d = Sub(x, m) [z] z = Exp(d) [t] t = ReduceSum<keepdims = 0>(z, ax) y = Div(z, t) }",
         "ATTR", "t", "keepdims");
#define GROUPS                                                                                                         \
    "g (float[2,4,3,3] x) => (y) <float[2] one = {1,1}, float[2] z = {0,0}, float[4,1,1] s = {1,2,3,4}, float[4,1,1] " \
    "b = {0,0,1,1}, int64[3] to = {2,2,-1}, int64[4] back = {2,4,3,3}>"
#define GROUPED(scale, affine)                                                                                         \
    GROUPS "{ a = Reshape(x, to) [i] i = InstanceNormalization(a, " scale ", z) r = Reshape(i, back) " affine "}"
    hit("group-norm", GROUPED("one", "m = Mul(r, s) y = Add(m, b)"), "GroupNormalization");
    miss("group-norm", GROUPED("z", "m = Mul(r, s) y = Add(m, b)"), "CONST", "i", "one is 0, must be 1");
}

/* ---- switches ---- */

static void test_switches(void **state)
{
    (void)state;
    const char *const skip[] = {"activation"};
    opf_fuse_options options[] = {{.skip = skip, .n_skip = 1, .stop_after = -1}, {.stop_after = 0}};
    opf_miss_code codes[] = {OPF_MISS_DISABLED, OPF_MISS_BUDGET};
    for (int i = 0; i < 2; i++) {
        fixture f;
        begin(&f, X "{ s = Sigmoid(x) y = Mul(s, x) }");
        assert_int_equal(opf_fuse(f.graph, &options[i], &f.report, &f.error), OPF_OK);
        for (uint32_t k = 0; k < f.report.n_fusions; k++)
            assert_string_not_equal(f.report.fusions[k].rule, "silu");
        const opf_miss *near = find_miss(&f, "silu");
        if (i == 1 || near != NULL) { /* with silu off, a region takes the two */
            assert_non_null(near);
            assert_int_equal(near->code, codes[i]);
        }
        end(&f);
    }
    const char *const unknown[] = {"no-such-rule"};
    opf_fuse_options wrong = {.only = unknown, .n_only = 1, .stop_after = -1};
    fixture f;
    begin(&f, X "{ y = Relu(x) }");
    assert_int_equal(opf_fuse(f.graph, &wrong, &f.report, &f.error), OPF_INVALID_ARGUMENT);
    assert_non_null(strstr(f.error.message, "no-such-rule"));
    end(&f);
}

/* ---- the language ---- */

static void refused(const char *rules, const char *message)
{
    opf_heap heap;
    opf_arena arena;
    opf_error error = {0};
    opf_heap_init(&heap, NULL, 0);
    opf_arena_init(&arena, &heap);
    opf_status status = opf_fuse_check_rules(rules, "f", &arena, &error);
    if (message == NULL ? status != OPF_OK : status != OPF_INVALID_ARGUMENT || strstr(error.message, message) == NULL)
        fail_msg("%s\ngives: %s", rules, error.message);
    opf_arena_fini(&arena);
}

static void test_errors(void **state)
{
    (void)state;
    refused("rule a\nmatch\n    y = Relu(Relu(x))\nrewrite\n    y = Relu(x)\n", NULL);
    refused("", NULL);
    refused("match", "f:1:1: expected 'rule'");
    refused("rule a\nmatch\n    y = Rleu(x)\nrewrite\n    y = Relu(x)\n", "f:3:9: there is no operator Rleu");
    refused("rule a\nmatch\n    y = Relu(x\nrewrite\n    y = Relu(x)\n", "f:4:1: expected ')'");
    refused("rule a\nmatch\n    y = Relu(x)\n", "f:1:1: rule a needs match and rewrite");
    refused("rule a\nmatch\n    y = Relu(x)\nrewrite\n    z = Relu(x)\n", "z is not the target");
    refused("rule a\nmatch\n    y = Relu(x)\nrewrite\n    y = Relu(w)\n", "f:5:14: w is bound nowhere");
    refused("rule a\nmatch\n    t = Relu(x)\n    y = Exp(t)\nrewrite\n    y = Relu(t)\n", "t is matched away");
    refused("rule a\nmatch\n    y = Relu(x) | Exp(z)\nrewrite\n    y = Relu(x)\n",
            "alternatives must bind the same names");
    refused("rule a\nmatch\n    y = Relu(x) { alpha = 1 }\nrewrite\n    y = Relu(x)\n",
            "f:3:19: Relu has no attribute alpha");
    refused("rule a\nmatch\n    y = Relu(x)\nwhere\n    nosuch(x)\nrewrite\n    y = Relu(x)\n",
            "f:5:5: there is no function nosuch");
    refused("rule a\nmatch\n    y = Relu(x)\nlet\n    k = 1\nwhere\n    constant(x)\nrewrite\n    y = Relu(x)\n",
            "where comes too late");
    refused("rule a\nmatch\n    y = Add(x)\nrewrite\n    y = Relu(x)\n", "Add needs operand");
    refused("rule silu\nmatch\n    y = Relu(x)\nrewrite\n    y = Relu(x)\n", "there is a rule silu already");
    refused("rule a\nmatch\n    y = Relu(x) $\n", "unexpected character '$'");
    refused("rule a\nmatch\n    y = Relu(\"x)\n", "no closing");
    refused("rule a match y = ((((((((((((((((((((((((((((((((((((((((((((((((((((x", "nested deeper");
}

static void test_user_rules(void **state)
{
    (void)state;
    fixture f;
    /* several outputs, a literal list, and a rule that changes nothing must end */
    begin(&f, "g (float[2,4] x) => (y) { a, b = Split<axis = 1, num_outputs = 2>(x) s = Sigmoid(b) y = Mul(a, s) }");
    fuse(&f, "glu",
         "rule glu\nmatch\n    (a, b) = Split(x, n?) { axis = 1, num_outputs = 2 }\n    y = Mul(a, "
         "Sigmoid(b))\nrewrite\n    y = Relu(x)\n");
    assert_int_equal(f.report.n_fusions, 0);
    assert_int_equal(find_miss(&f, "glu")->code, OPF_MISS_SHAPE);
    end(&f);
    begin(&f, "g (float[2,4] x) => (y) { t = Relu(x) y = Relu(t) }");
    fuse(&f, "twice", "rule twice\nmatch\n    y = Relu(Relu(x))\nrewrite\n    y = Relu(x)\n");
    assert_int_equal(f.report.n_fusions, 1);
    end(&f);
    begin(&f, "g (float[2,4] x, float[2,4] z) => (y) { y = Add(x, z) }");
    fuse(&f, "swap", "rule swap\nmatch\n    y = Add(x, z)\nrewrite\n    y = Add(z, x)\n");
    assert_int_equal(f.report.n_fusions, 0);
    assert_int_equal(find_miss(&f, "swap")->code, OPF_MISS_NO_GAIN);
    end(&f);
}

/* The file's name, the rule's name and its place in the list agree. */
static void test_names(void **state)
{
    (void)state;
    for (const char *const *name = opf_fuse_rule_names(); *name != NULL; name++)
        assert_non_null(opf_fuse_family(*name));
    assert_string_equal(opf_fuse_rule_names()[0], "conv-bn");
    assert_string_equal(opf_fuse_family("layer-norm"), "norm");
    assert_string_equal(opf_fuse_family("silu"), "activation");
}

static void test_chain(void **state)
{
    (void)state;
    fixture f;
    begin(&f, "g (float[N,4] x) => (y) { t = Sigmoid(x) u = Mul(t, x) v = Sigmoid(u) y = Mul(u, v) }");
    fuse(&f, "silu", NULL);
    assert_int_equal(f.report.n_fusions, 2);
    assert_null(find_miss(&f, "silu"));
    end(&f);
}

/* A rule of the library is read when the graph has one of its operators: each that a match may begin from must be among them. */
static void test_operators_of_rules(void **state)
{
    (void)state;
    fixture f = {0};
    opf_heap_init(&f.heap, NULL, 0);
    opf_arena_init(&f.arena, &f.heap);
    for (const opf_builtin_rule *builtin = opf_builtin_rules; builtin->name != NULL; builtin++) {
        opf_rules rules = {0};
        assert_int_equal(opf_rules_parse(builtin->text, builtin->name, &f.arena, &rules, &f.error), OPF_OK);
        assert_int_equal(rules.n, 1);
        assert_string_equal(rules.list[0].name, builtin->name);
        assert_string_equal(rules.list[0].family, builtin->family);
        for (uint32_t b = 0; b < rules.list[0].n_blocks; b++)
            for (uint32_t s = 0; s < rules.list[0].blocks[b].n_starts; s++) {
                const opf_op *const *op = builtin->ops;
                while (*op != NULL && *op != rules.list[0].blocks[b].starts[s]->op)
                    op++;
                if (*op == NULL)
                    fail_msg("%s begins from %s", builtin->name, rules.list[0].blocks[b].starts[s]->text);
            }
    }
    end(&f);
}


int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_operators_of_rules),
        cmocka_unit_test(test_conv_bn_values),
        cmocka_unit_test(test_conv_bn),
        cmocka_unit_test(test_conv_bn_shared),
        cmocka_unit_test(test_layer_norm),
        cmocka_unit_test(test_layer_norm_misses),
        cmocka_unit_test(test_layer_norm_parts),
        cmocka_unit_test(test_gelu),
        cmocka_unit_test(test_gelu_tanh),
        cmocka_unit_test(test_sigmoids),
        cmocka_unit_test(test_switches),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_user_rules),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_chain),
        cmocka_unit_test(test_activations),
        cmocka_unit_test(test_clamps),
        cmocka_unit_test(test_pads),
        cmocka_unit_test(test_bn_before),
        cmocka_unit_test(test_more_norms),
        cmocka_unit_test(test_gemm_bn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
