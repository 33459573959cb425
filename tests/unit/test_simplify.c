/* SPDX-License-Identifier: Apache-2.0 */
/* The generic passes, on graphs in textual syntax: what goes in, and what must come out. */
#include "simplify_case.h"

/* The value of this name became a constant of these numbers. */
static void check_constant(const char *source, const char *name, const double *numbers, size_t n)
{
    fixture f;
    begin(&f);
    simplify(&f, source);
    const opf_value_id id = opf_graph_find_value(f.graph, name);
    assert_int_not_equal(id, 0);
    const opf_const *c = opf_graph_value(f.graph, id)->constant;
    if (c == NULL)
        fail_msg("%s is no constant in\n%s", name, source);
    assert_int_equal(c->count, n);
    for (size_t i = 0; i < n; i++)
        if (opf_types_have(OPF_TYPES_FLOAT, c->type))
            assert_true(opf_const_f64_at(c, i) == numbers[i]);
        else
            assert_true((double)opf_const_i64_at(c, i) == numbers[i]);
    end(&f);
}

static void test_folding(void **state)
{
    (void)state;
    check_constant("g () => (float[3] y) <float[3] a = {1,2,3}, float b = {2}> { y = Mul(a, b) }", "y",
                   (const double[]){2, 4, 6}, 3);
    check_constant(
        "g () => (int64[2] y) { a = Constant<value = int64[2] {1, -9223372036854775807}>() y = Identity(a) }", "y",
        (const double[]){1, -9223372036854775807.0}, 2);
    check_constant("g (float[N,3,4] x) => (y) { s = Shape(x) <start = 1, end = 3> y = Identity(s) }", "y",
                   (const double[]){3, 4}, 2);
    check_constant("g (float[N,3,4] x) => (y) <int64[1] two = {2}> { s = Shape(x) d = Gather<axis = 0>(s, two) f = "
                   "Cast<to = 1>(d) "
                   "y = Sqrt(f) }",
                   "y", (const double[]){2}, 1);
    /* A data error is for the run to report. */
    check("g () => (int64[1] y) <int64[1] a = {1}, int64[1] b = {0}> { [d] y = Div(a, b) }", "[d] y = Div(a, b)\n");
}

static void test_growth(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    f.limits.folding = 1000;
    const char *source = "g () => (y, z) <int64 zero = {0}, int64 one = {1}, int64 forty = {40}, int64 big = {4000}> "
                         "{ y = Range(zero, forty, one) z = Range(zero, big, one) }";
    simplify(&f, source);
    assert_non_null(opf_graph_value(f.graph, opf_graph_find_value(f.graph, "y"))->constant);
    assert_null(opf_graph_value(f.graph, opf_graph_find_value(f.graph, "z"))->constant);
    end(&f);
}

static void test_recipes(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    simplify(&f, "g (float[2,128] x) => (float[2,64] y) <int64[2] s = {64, 128}> "
                 "{ w = ConstantOfShape(s) t = Transpose<perm = [1, 0]>(w) y = MatMul(x, t) }");
    const opf_const *t = opf_graph_value(f.graph, opf_graph_node(f.graph, 3)->inputs[1])->constant;
    assert_non_null(t);
    assert_int_equal(t->kind, OPF_CONST_TRANSPOSE);
    assert_int_equal(t->args[0]->kind, OPF_CONST_SPLAT);
    assert_int_equal(t->dims[0], 128);
    end(&f);
}

#define EIGHT "1,2,3,4,5,6,7,8"
#define ROW   EIGHT "," EIGHT "," EIGHT "," EIGHT "," EIGHT "," EIGHT "," EIGHT "," EIGHT

/* What moves and repeats large constants copies nothing. */
static void test_moving_recipes(void **state)
{
    (void)state;
    const struct {
        const char *nodes;
        opf_const_kind kind;
    } cases[] = {
        {"y = Expand(row, wide)", OPF_CONST_EXPAND},
        {"y = Tile(big, twice)", OPF_CONST_RESHAPE},
        {"y = Slice(big, one, far)", OPF_CONST_SLICE},
        {"a, y = Split<axis = 0>(big)", OPF_CONST_SLICE},
        {"y = Slice(big, last, first, zero, back)", OPF_CONST_BYTES}, /* computed: steps backwards have no recipe */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fixture f;
        char source[1000];
        (void)snprintf(source, sizeof source,
                       "g (float[N,K] x) => (z) <int64[2] s = {128,128}, int64[2] wide = {128,64}, int64[2] twice = "
                       "{1,2}, int64[1] one = {1}, int64[1] far = {2147483647}, int64[1] last = {-1}, int64[1] first = "
                       "{-9223372036854775807}, int64[1] zero = {0}, int64[1] back = {-1}, float[1,64] row = {" ROW "}> "
                       "{ t = ConstantOfShape<value = float[1] {1}>(s) e = EyeLike(t) big = Transpose(e) %s z = MatMul(x, "
                       "y) }",
                       cases[i].nodes);
        begin(&f);
        simplify(&f, source);
        const opf_value_id z = opf_graph_find_value(f.graph, "z");
        const opf_const *y = opf_graph_value(f.graph, opf_graph_node(f.graph, opf_graph_value(f.graph, z)->producer)->inputs[1])->constant;
        if (y == NULL || y->kind != cases[i].kind)
            fail_msg("%s: kind %d instead of %d", cases[i].nodes, y != NULL ? (int)y->kind : -1, (int)cases[i].kind);
        end(&f);
    }
}

static void test_no_ops(void **state)
{
    (void)state;
    const struct {
        const char *node;
        bool goes;
    } cases[] = {
        {"y = Identity(a)", true},
        {"y = Dropout(a)", true},
        {"y = Dropout(a, half, no)", true},
        {"y = Cast<to = 1>(a)", true},
        {"y = Cast<to = 10>(a)", false},
        {"y = Transpose<perm = [0, 1]>(a)", true},
        {"y = Transpose(a)", false},
        {"y = Reshape(a, keep)", true},
        {"y = Reshape(a, other)", false},
        {"y = Flatten<axis = 1>(a)", true},
        {"y = Expand(a, ones)", true},
        {"y = Tile(a, ones)", true},
        {"y = Concat<axis = 0>(a)", true},
        {"y = Concat<axis = 0>(a, a)", false},
        {"y = Sum(a)", true},
        {"y = Max(a)", true},
        {"y = Pad(a, nopads)", true},
        {"y = Pad(a, pads)", false},
        {"y = Slice(a, zero, big, first)", true},
        {"y = Slice(a, last, first_of_all, first, back)", false},
        {"y = Add(a, none)", true},
        {"y = Add(none, a)", true},
        {"y = Add(a, none3)", false}, /* raises the rank */
        {"y = Mul(a, one)", true},
        {"y = Div(a, one)", true},
        {"y = Div(one, a)", false},
        {"y = Sub(a, none)", true},
        {"y = Sub(none, a)", false},
        {"y = Pow(a, one)", true},
        {"y = Clip(a)", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char source[1500];
        snprintf(
            source, sizeof source,
            "g (float[N,4] x) => (z) <float half = {0.5}, bool no = {0}, int64[2] keep = {0, -1}, int64[2] other = {2, "
            "-1},"
            " int64[2] ones = {1, 1}, int64[4] nopads = {0,0,0,0}, int64[4] pads = {0,1,0,-1}, int64[1] zero = {0},"
            " int64[1] big = {9223372036854775807}, int64[1] first = {1}, int64[1] last = {-1}, int64[1] first_of_all "
            "= {-9},"
            " int64[1] back = {-1}, float none = {0}, float[1,1,1] none3 = {0}, float[1] one = {1}>"
            " { a = Relu(x) [y] %s [z] z = Relu(y) }",
            cases[i].node);
        fixture f;
        begin(&f);
        simplify(&f, source);
        if (opf_node_is_alive(opf_graph_node(f.graph, 2)) == cases[i].goes)
            fail_msg("%s: %s", cases[i].node, cases[i].goes ? "stays" : "goes");
        end(&f);
    }
}

static void test_interface(void **state)
{
    (void)state;
    /* The output keeps its name; an input stays an input. */
    check("g (float[2] x) => (float[2] y) { [r] a = Relu(x) [i] y = Identity(a) }", "[r] y = Relu(x)\n");
    check("g (float[2] x) => (float[2] y) { [i] y = Identity(x) }", "[i] y = Identity(x)\n");
    check("g (float[2] x) => (float[2] y, float[2] z) { [r] y = Relu(x) [s] z = Relu(x) }",
          "[r] y = Relu(x)\n[s] z = Identity(y)\n");
    check("g (float[2] x) => (float[2] y, float[2] z) { [r] a = Relu(x) [i] y = Identity(a) [j] z = Identity(a) }",
          "[r] y = Relu(x)\n[j] z = Identity(y)\n");
}

static void test_movement(void **state)
{
    (void)state;
    check("g (float[2,3,4] x) => (y) { [p] a = Transpose<perm = [1, 2, 0]>(x) [q] y = Transpose<perm = [1, 0, 2]>(a) }",
          "[q] y = Transpose<perm = [2, 1, 0]>(x)\n");
    check("g (float[2,3,4] x) => (z) { [p] a = Transpose<perm = [1, 2, 0]>(x) [q] y = Transpose<perm = [2, 0, 1]>(a) "
          "[r] z = Relu(y) }",
          "[r] z = Relu(x)\n");
    check("g (float16[2] x) => (z) { a = Cast<to = 1>(x) y = Cast<to = 10>(a) [r] z = Relu(y) }", "[r] z = Relu(x)\n");
    check("g (float[2] x) => (z) { [p] a = Cast<to = 10>(x) [q] y = Cast<to = 1>(a) [r] z = Relu(y) }",
          "[p] a = Cast<to = 10>(x)\n[q] y = Cast<to = 1>(a)\n[r] z = Relu(y)\n");
    check("g (int64[2] x) => (y) { [p] a = Cast<to = 6>(x) [q] y = Cast<to = 7>(a) }",
          "[p] a = Cast<to = 6>(x)\n[q] y = Cast<to = 7>(a)\n");
    check("g (float[N,3,4] x) => (z) <int64[2] s = {0, -1}, int64[3] t = {0, 3, 4}> { a = Reshape(x, s) y = Reshape(a, "
          "t) [r] z = Relu(y) }",
          "[r] z = Relu(x)\n");
}

/* Targets computed from shapes become constants of 0, -1 and numbers. */
static void test_sinking(void **state)
{
    (void)state;
    check("g (float[2,3,4] x) => (y) <float[4,1] c = {1,2,3,4}, float s = {2}> { [p] a = Transpose<perm = [0, 2, 1]>(x) "
          "[m] b = Mul(c, a) [n] y = Add(b, s) }",
          "[p] y = Transpose<perm = [0, 2, 1]>(\"value#4\")\n[m] \"value#3\" = Mul(\"c#2\", x)\n"
          "[n] \"value#4\" = Add(\"value#3\", s)\n");
    check("g (float[2,3] x, float[2,3] r) => (y) { [p] a = Transpose(x) [q] b = Transpose(r) [s] y = Add(a, b) }",
          "[p] y = Transpose(\"value#2\")\n[s] \"value#2\" = Add(x, r)\n");
    /* Another tensor in the transposed order stays where it is, and so does a transpose that others read. */
    check("g (float[2,3] x, float[3,2] r) => (y) { [p] a = Transpose(x) [s] y = Add(a, r) }",
          "[p] a = Transpose(x)\n[s] y = Add(a, r)\n");
    check("g (float[2,3] x) => (y, a) { [p] a = Transpose(x) [s] y = Relu(a) }",
          "[p] a = Transpose(x)\n[s] y = Relu(a)\n");
}

static void test_pools(void **state)
{
    (void)state;
    /* One window that is the whole image. */
    check("g (float[N,2,7,5] x) => (y) { y = AveragePool<kernel_shape = [7, 5], strides = [7, 5], count_include_pad = 1>(x) }",
          "y = GlobalAveragePool(x)\n");
    check("g (float[N,2,7] x) => (y) { y = MaxPool<kernel_shape = [7]>(x) }", "y = GlobalMaxPool(x)\n");
    check("g (float[N,2,7,5] x) => (y) { y = AveragePool<kernel_shape = [7, 4]>(x) }",
          "y = AveragePool<kernel_shape = [7, 4]>(x)\n");
    check("g (float[N,2,7,5] x) => (y) { y = MaxPool<kernel_shape = [7, 5], pads = [0, 1, 0, 0]>(x) }",
          "y = MaxPool<kernel_shape = [7, 5], pads = [0, 1, 0, 0]>(x)\n");
    check("g (float[N,2,H,W] x) => (y) { y = AveragePool<kernel_shape = [7, 5]>(x) }",
          "y = AveragePool<kernel_shape = [7, 5]>(x)\n");
}

static void test_broadcasts(void **state)
{
    (void)state;
    /* The reader broadcasts by itself, where another operand has the shape of its result. */
    check("g (float[N,4] x, float[N,1] d) => (y) { s = Shape(x) e = Expand(d, s) [d] y = Div(x, e) }", "[d] y = Div(x, d)\n");
    check("g (float[2,4] x, float[2,1] d) => (y) <int64[2] s = {2, 4}> { e = Expand(d, s) [b] c = Greater(e, x) [d] y = Where(c, x, e) }",
          "[b] c = Greater(d, x)\n[d] y = Where(c, x, d)\n");
    check("g (float[1,4] x, float[2,1] d) => (y) <int64[2] s = {2, 4}> { [e] e = Expand(d, s) [d] y = Div(x, e) }",
          "e = Expand(d, s)\n[d] y = Div(x, e)\n");
    check("g (float[N,3,4] x, float[N,1,4] d) => (y) <int64[3] t = {1, 3, 1}> { e = Tile(d, t) [d] y = Div(x, e) }", "[d] y = Div(x, d)\n");
    check("g (float[N,3,4] x, float[1,3,4] d) => (y) <int64[2] o = {1, 1}> { n = Shape<end = 1>(x) t = Concat<axis = 0>(n, o) e = Tile(d, t) [d] y = Div(x, e) }",
          "[d] y = Div(x, d)\n");
    check("g (float[N,4,4] x, float[N,2,4] d) => (y) <int64[3] t = {1, 2, 1}> { e = Tile(d, t) [d] y = Div(x, e) }",
          "e = Tile(d, t)\n[d] y = Div(x, e)\n");
    /* Axes that are dropped and put back. */
    check("g (float[N,3,4] x) => (y) <int64[2] a = {1, -1}, int64[2] b = {2, 1}>"
          "{ [r] r = ReduceSum<keepdims = 0>(x, a) [u] u = Unsqueeze(r, b) [d] y = Relu(u) }",
          "[r] u = ReduceSum<keepdims = 1>(x, a)\n[d] y = Relu(u)\n");
    check("g (float[N,3,4] x) => (y) <int64[1] a = {1}, int64[1] b = {0}>"
          "{ [r] r = ReduceSum<keepdims = 0>(x, a) [u] u = Unsqueeze(r, b) [d] y = Relu(u) }",
          "r = ReduceSum<keepdims = 0>(x, a)\nu = Unsqueeze(r, b)\n[d] y = Relu(u)\n");
}

/* Two reductions of x, of this operator and these attributes; how many are left. */
static void check_reductions(const char *type, const char *inner, const char *outer, const char *axes, int left)
{
    char text[300];
    (void)snprintf(text, sizeof text, "g (%s[N,2,3,4] x) => (y) <int64[1] a = {3}, int64[1] b = {%s}> { r = %s(x, a) y = %s(r, b) }", type, axes,
                   inner, outer);
    fixture f;
    int n = 0;
    begin(&f);
    simplify(&f, text);
    for (opf_node_id id = 1; id < f.graph->n_nodes; id++)
        n += opf_node_is_alive(opf_graph_node(f.graph, id));
    if (n != left)
        fail_msg("%d reductions are left, not %d: %s", n, left, text);
    end(&f);
}

static void test_reductions(void **state)
{
    (void)state;
    /* As in x.mean(3).mean(2): over the two axes at once. Axes are those of what is left, if they were dropped. */
    check("g (float[N,2,H,W] x) => (y) <int64[1] a = {3}, int64[1] b = {2}> { [r] r = ReduceMean<keepdims = 0>(x, a) [y] y = ReduceMean<keepdims = 0>(r, b) }",
          "y = ReduceMean<keepdims = 0>(x, \"value#2\")\n");
    check_reductions("float", "ReduceMean", "ReduceMean", "2", 1);
    check_reductions("float", "ReduceMax<keepdims = 0>", "ReduceMax<keepdims = 0>", "-1", 1);
    check_reductions("int32", "ReduceSum", "ReduceSum", "2", 1);
    check_reductions("float", "ReduceMean", "ReduceMean", "1", 2); /* axes apart: no kernel walks these at once */
    check_reductions("int32", "ReduceMean", "ReduceMean", "2", 2);
    check_reductions("float", "ReduceMean", "ReduceSum", "2", 2);
    check_reductions("float", "ReduceSum", "ReduceSum<keepdims = 0>", "2", 2);
    check_reductions("float", "ReduceL2", "ReduceL2", "2", 2);
}

static void test_gathers(void **state)
{
    (void)state;
    check("g (float[3,N,4] x) => (y) <int64 i = {-1}> { [g] y = Gather(x, i) }",
          "[g] \"value#5\" = Slice(x, \"value#2\", \"value#3\", \"value#4\")\n"
          "[\"Squeeze#7\"] y = Squeeze(\"value#5\", \"value#4\")\n");
    check("g (float[N,5] x) => (y) <int64[2] i = {3,-1}> { [g] y = Gather<axis = 1>(x, i) }",
          "[g] y = Slice(x, \"value#2\", \"value#3\", \"value#4\")\n");
    check("g (float[N,5] x) => (y) <int64[2] i = {3,1}> { [g] y = Gather<axis = 1>(x, i) }",
          "[g] y = Gather<axis = 1>(x, i)\n");
    check("g (float[N,5] x) => (y) <int64 i = {0}> { [g] y = Gather(x, i) }", "[g] y = Gather(x, i)\n");
}

static void check_target(const char *source, const char *name, const int64_t *target, size_t n)
{
    fixture f;
    begin(&f);
    simplify(&f, source);
    uint32_t alive = 0;
    for (opf_node_id id = 1; id < f.graph->n_nodes; id++) {
        const opf_node *node = opf_graph_node(f.graph, id);
        if (!opf_node_is_alive(node))
            continue;
        alive++;
        assert_string_equal(node->op_type, "Reshape");
        assert_string_equal(node->name, name);
        const opf_const *c = opf_graph_value(f.graph, node->inputs[1])->constant;
        assert_non_null(c);
        assert_int_equal(c->count, n);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(opf_const_i64_at(c, i), target[i]);
    }
    assert_int_equal(alive, 1);
    end(&f);
}

static void test_targets(void **state)
{
    (void)state;
    check_target("g (float[N,S,768] x) => (y) <int64 i0 = {0}, int64 i1 = {1}, int64[1] z = {0}, int64[1] h = {12}, "
                 "int64[1] d = {64}>"
                 "{ s = Shape(x) n = Gather(s, i0) l = Gather(s, i1) nu = Unsqueeze(n, z) lu = Unsqueeze(l, z)"
                 "  t = Concat<axis = 0>(nu, lu, h, d) [r] y = Reshape(x, t) }",
                 "r", (const int64_t[]){0, 0, 12, 64}, 4);
    check_target("g (float[N,S,12,64] x) => (y) <int64 i0 = {0}, int64 i1 = {1}, int64[1] z = {0}, int64[1] h = {768}>"
                 "{ s = Shape(x) n = Gather(s, i0) l = Gather(s, i1) p = Mul(n, l) pu = Unsqueeze(p, z)"
                 "  t = Concat<axis = 0>(pu, h) [r] y = Reshape(x, t) }",
                 "r", (const int64_t[]){-1, 768}, 2);
    check_target("g (float[N,12,64] x) => (y) <int64[2] t = {0, -1}, int64[1] z = {1}> { a = Reshape(x, t) [u] y = "
                 "Unsqueeze(a, z) }",
                 "u", (const int64_t[]){0, 1, 768}, 3);
}

/* Dimensions of computed values that inputs have are read there. */
static void test_shape_reads(void **state)
{
    (void)state;
    check("g (float[N,S,4] x, float[N,4,T] k) => (d, e, f) <int64 at = {2}, int64[1] at1 = {-2}, int64[1] z = {0}, int64[1] one = {1}>"
          "{ m = MatMul(x, k) s = Shape(m) [d] d = Gather(s, at) [e] e = Gather(s, at1) [f] f = Slice(s, z, one) }",
          "d = Gather(\"value#3\", \"value#2\")\ne = Gather(\"value#6\", \"value#5\")\nf = Gather(\"value#6\", \"value#8\")\n"
          "[\"Shape#4\"] \"value#3\" = Shape(k)\n[\"Shape#7\"] \"value#6\" = Shape(x)\n");
    /* Equal dimensions are read once, wherever the first reading came from. */
    check("g (float[N,S,4] x, float[N,4,T] k) => (d) <int64 at = {0}, int64[1] one = {0}>"
          "{ m = MatMul(x, k) a = Shape(m) b = Gather(a, at) e = Exp(m) c = Shape(e) f = Gather(c, at) d = Add(b, f) }",
          "b = Gather(\"value#3\", \"value#2\")\nd = Add(b, b)\n[\"Shape#4\"] \"value#3\" = Shape(x)\n");
    /* Several at once, and what no input has. */
    check("g (float[N,S] x, float[N,T] u) => (d, e) <int64[2] at = {0, 1}, int64 one = {1}>"
          "{ m = Concat<axis = 1>(x, u) s = Shape(m) [d] d = Gather(s, at) [e] e = Gather(s, one) }",
          "m = Concat<axis = 1>(x, u)\ns = Shape(m)\nd = Gather(s, at)\ne = Gather(s, one)\n");
}

static void test_common(void **state)
{
    (void)state;
    check("g (float[2] x, float[2] w) => (y) { a = Add(x, w) b = Add(w, x) [m] y = Mul(a, b) }",
          "a = Add(x, w)\n[m] y = Mul(a, a)\n");
    check("g (float[2] x) => (y) <float s = {2}, float t = {2}> { a = Mul(x, s) b = Mul(x, t) [m] y = Sub(a, b) }",
          "a = Mul(x, s)\n[m] y = Sub(a, a)\n");
    check("g (float[2] x) => (y) { a = LeakyRelu<alpha = 0.1>(x) b = LeakyRelu<alpha = 0.2>(x) [m] y = Sub(a, b) }",
          "a = LeakyRelu<alpha = 0.1>(x)\nb = LeakyRelu<alpha = 0.2>(x)\n[m] y = Sub(a, b)\n");
    /* Signed zeros are two constants. */
    check("g (float[2] x) => (y) <float s = {0}, float t = {-0}> { a = Div(x, s) b = Div(x, t) [m] y = Sub(a, b) }",
          "a = Div(x, s)\nb = Div(x, t)\n[m] y = Sub(a, b)\n");
}

/* A constant that a body makes is known in the bodies inside it; what they then read no more is not captured. */
static void test_captures(void **state)
{
    (void)state;
    check("g (bool c, float[2] x) => (y) <float[2] s = {1,2}, float[2] t = {3,4}>"
          "{ u = Neg(x) y = If<then_branch = a () => (p) { k = Mul(s, t)"
          " p = If<then_branch = d () => (q) { q = Add(k, s) }, else_branch = e () => (r) { r = Sub(k, s) }>(c) },"
          " else_branch = b () => (v) { h = Mul(u, s) j = Sub(s, s) i = Shape(h) v = Expand(j, i) }>(c) }",
          "y = If<then_branch = a (bool c) => (float[2] p)\n"
          "    {\n"
          "        p = If<then_branch = d () => (float[2] q)\n"
          "        <float[2] q = {4, 10}>\n"
          "        {\n"
          "        }, else_branch = e () => (float[2] r)\n"
          "        <float[2] r = {2, 6}>\n"
          "        {\n"
          "        }>(c)\n"
          "    }, else_branch = b (bool c) => (float[2] v)\n"
          "    <float[2] v = {0, 0}>\n"
          "    {\n"
          "    }>(c; c)\n");
}

static void test_dead(void **state)
{
    (void)state;
    check("g (float[2] x) => (y) { a = Relu(x) b = Exp(a) c = Exp(b) [d] y = Neg(a) }",
          "a = Relu(x)\n[d] y = Neg(a)\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_folding),        cmocka_unit_test(test_growth),     cmocka_unit_test(test_recipes),
        cmocka_unit_test(test_moving_recipes), cmocka_unit_test(test_no_ops),     cmocka_unit_test(test_interface),
        cmocka_unit_test(test_movement),       cmocka_unit_test(test_sinking),    cmocka_unit_test(test_gathers),
        cmocka_unit_test(test_broadcasts),     cmocka_unit_test(test_pools),      cmocka_unit_test(test_reductions), cmocka_unit_test(test_targets),
        cmocka_unit_test(test_shape_reads),    cmocka_unit_test(test_common),     cmocka_unit_test(test_captures),
        cmocka_unit_test(test_dead),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
