/* SPDX-License-Identifier: Apache-2.0 */
/* Slices, splits and joins, and transposes that meet: what goes in, and what must come out. */
#include "simplify_case.h"

/* The body of a graph of this signature and these constants becomes `expected`. */
static void body(const char *signature, const char *constants, const char *nodes, const char *expected)
{
    char source[2000];
    (void)snprintf(source, sizeof source, "g %s <%s> { %s }", signature, constants, nodes);
    check(source, expected);
}

/* The one node that is left is a Slice of x, or nothing is left and y is x; bounds as numbers, four to an axis. */
static void check_slice(const char *shape, const char *constants, const char *nodes, const int64_t *bounds, size_t n)
{
    char source[1500];
    fixture f;
    (void)snprintf(source, sizeof source, "g (float%s x) => (z) <%s> { %s z = Relu(y) }", shape, constants, nodes);
    begin(&f);
    simplify(&f, source);
    const opf_value_id z = opf_graph_find_value(f.graph, "z");
    const opf_value_id y = opf_graph_node(f.graph, opf_graph_value(f.graph, z)->producer)->inputs[0];
    const opf_node *node = opf_graph_node(f.graph, opf_graph_value(f.graph, y)->producer);
    if (n == 0) {
        assert_int_equal(y, opf_graph_find_value(f.graph, "x"));
    } else {
        if (node->op != &opf_op_Slice || node->inputs[0] != opf_graph_find_value(f.graph, "x"))
            fail_msg("no Slice of x is left of\n%s", source);
        for (size_t i = 0; i < n; i++) /* starts, ends, axes, steps */
            for (uint32_t k = 0; k < 4; k++) {
                const opf_value_id list = k + 1 < node->n_own_inputs ? node->inputs[k + 1] : 0;
                const int64_t found = list != 0 ? opf_const_i64_at(opf_graph_value(f.graph, list)->constant, i) : 1;
                if (found != bounds[4 * i + k])
                    fail_msg("axis %zu: %lld instead of %lld in\n%s", i, (long long)found, (long long)bounds[4 * i + k],
                             source);
            }
    }
    end(&f);
}

static const char numbers[] = "int64[1] i0 = {0}, int64[1] i1 = {1}, int64[1] i2 = {2}, int64[1] i3 = {3}, "
                              "int64[1] i4 = {4}, int64[1] i5 = {5}, int64[1] i8 = {8}, int64[1] m1 = {-1}, "
                              "int64[1] m2 = {-2}, int64[1] far = {9223372036854775807}, "
                              "int64[1] back = {-9223372036854775807}";

static void test_slice_chains(void **state)
{
    (void)state;
    /* Numbers, any sign of step. */
    check_slice("[9]", numbers, "a = Slice(x, i1, i8, i0) y = Slice(a, i2, i5, i0)", (const int64_t[]){3, 6, 0, 1}, 1);
    check_slice("[9]", numbers, "a = Slice(x, m1, back, i0, m1) y = Slice(a, i1, far, i0, i2)",
                (const int64_t[]){7, 0, 0, -2}, 1);
    check_slice("[9]", numbers, "a = Slice(x, m1, back, i0, m2) y = Slice(a, m1, back, i0, m1)",
                (const int64_t[]){0, 9, 0, 2}, 1);
    check_slice("[9]", numbers, "a = Slice(x, m1, back, i0, m1) y = Slice(a, m1, back, i0, m1)", NULL, 0);
    check_slice("[9]", numbers, "a = Slice(x, i2, i4, i0) y = Slice(a, i5, i8, i0)", (const int64_t[]){0, 0, 0, 1}, 1);
    /* Two axes. */
    check_slice("[9,8]", numbers, "a = Slice(x, i1, i8, i0) y = Slice(a, i2, far, m1)",
                (const int64_t[]){1, 8, 0, 1, 2, INT64_MAX, 1, 1}, 2);
    /* Symbols. */
    check_slice("[N]", numbers, "a = Slice(x, i1, far, i0) y = Slice(a, i2, far, i0)",
                (const int64_t[]){3, INT64_MAX, 0, 1}, 1);
    check_slice("[N]", numbers, "a = Slice(x, i1, i8, i0) y = Slice(a, i2, i3, i0)", (const int64_t[]){3, 4, 0, 1}, 1);
    check_slice("[N]", numbers, "a = Slice(x, i1, far, i0, i2) y = Slice(a, i2, i4, i0, i3)",
                (const int64_t[]){5, 9, 0, 6}, 1);
    check_slice("[N]", numbers, "a = Slice(x, i1, m1, i0) y = Slice(a, i2, m2, i0)", (const int64_t[]){3, -3, 0, 1}, 1);
    check_slice("[N]", numbers, "a = Slice(x, i1, m1, i0) y = Slice(a, i2, far, i0)", (const int64_t[]){3, -1, 0, 1},
                1);
    /* Where the smaller end is not known, or others read what is between: two stay. */
    body("(float[N] x) => (y)", numbers, "[a] a = Slice(x, i1, m1, i0) [y] y = Slice(a, i2, i4, i0)",
         "a = Slice(x, i1, m1, i0)\ny = Slice(a, i2, i4, i0)\n");
    body("(float[N] x) => (y)", numbers, "[a] a = Slice(x, m2, far, i0) [y] y = Slice(a, i1, far, i0)",
         "a = Slice(x, m2, far, i0)\ny = Slice(a, i1, far, i0)\n");
    body("(float[9] x) => (y, a)", numbers, "[a] a = Slice(x, i1, i8, i0) [y] y = Slice(a, i2, i4, i0)",
         "a = Slice(x, i1, i8, i0)\ny = Slice(a, i2, i4, i0)\n");
}

static void test_joined_parts(void **state)
{
    (void)state;
    body("(float[N,7] x) => (z)", "int64[3] s = {2,4,1}",
         "a, b, c = Split<axis = 1>(x, s) y = Concat<axis = -1>(a, b, c) [r] z = Relu(y)", "[r] z = Relu(x)\n");
    body("(float[N,S] x) => (z)", numbers,
         "a = Slice(x, i0, i5, i1) b = Slice(x, i5, far, i1) y = Concat<axis = 1>(a, b) [r] z = Relu(y)",
         "[r] z = Relu(x)\n");
    check_slice("[9]", numbers, "a = Slice(x, i1, i3, i0) b = Slice(x, i3, i5, i0) y = Concat<axis = 0>(a, b)",
                (const int64_t[]){1, 5, 0, 1}, 1);
    body("(float[2] x, float[2] w) => (y)", "", "a = Concat<axis = 0>(w, x) [y] y = Concat<axis = 0>(x, a, x)",
         "y = Concat<axis = 0>(x, w, x, x)\n");
    /* Other orders, axes and readers. */
    body("(float[8,8] x) => (y)", "", "[s] a, b = Split<axis = 1>(x) [y] y = Concat<axis = 1>(b, a)",
         "[s] a, b = Split<axis = 1>(x)\ny = Concat<axis = 1>(b, a)\n");
    body("(float[8,8] x) => (y)", "", "[s] a, b = Split<axis = 1>(x) [y] y = Concat<axis = 0>(a, b)",
         "[s] a, b = Split<axis = 1>(x)\ny = Concat<axis = 0>(a, b)\n");
    body("(float[2] x, float[2] w) => (y, a)", "", "[a] a = Concat<axis = 0>(w, x) [y] y = Concat<axis = 0>(x, a)",
         "a = Concat<axis = 0>(w, x)\ny = Concat<axis = 0>(x, a)\n");
}

static void test_parts_of_joined(void **state)
{
    (void)state;
    body("(float[N,3] x, float[N,5] w) => (z)", numbers,
         "a = Concat<axis = 1>(x, w) y = Slice(a, i3, far, i1) [r] z = Relu(y)", "[r] z = Relu(w)\n");
    body("(float[S,3] x, float[T,3] w) => (z)", "int64[2] s = {3, 3}",
         "a = Concat<axis = 0>(x, w) b = Concat<axis = 1>(a, a) c, d = Split<axis = 1>(b, s) [r] z = Mul(c, d)",
         "a = Concat<axis = 0>(x, w)\n[r] z = Mul(a, a)\n");
    check_slice("[4]", numbers, "a = Exp(x) b = Concat<axis = 0>(a, x) y = Slice(b, i5, far, i0)",
                (const int64_t[]){1, 4, 0, 1}, 1);
    /* Of two operands: as it is. */
    body("(float[3] x, float[5] w) => (y)", numbers, "[a] a = Concat<axis = 0>(x, w) [y] y = Slice(a, i2, i4, i0)",
         "a = Concat<axis = 0>(x, w)\ny = Slice(a, i2, i4, i0)\n");
}

/* Nodes between x = Transpose and its inverse: what is left of them, with Relu behind. */
static void between(const char *shape, const char *perm, const char *constants, const char *nodes, const char *inverse,
                    const char *expected)
{
    char signature[100], all[1000];
    (void)snprintf(signature, sizeof signature, "(float%s x) => (z)", shape);
    (void)snprintf(all, sizeof all, "a = Transpose<perm = %s>(x) %s y = Transpose<perm = %s>(b) [r] z = Relu(y)", perm,
                   nodes, inverse);
    body(signature, constants, all, expected);
}

static const char to_last[] = "[0,2,3,1]", to_first[] = "[0,3,1,2]";

/* How many transposes the simplified graph has. */
static void count_transposes(const char *source, uint32_t wanted)
{
    fixture f;
    uint32_t found = 0;
    begin(&f);
    simplify(&f, source);
    for (opf_node_id id = 1; id < f.graph->n_nodes; id++)
        found += opf_graph_node(f.graph, id)->op == &opf_op_Transpose;
    if (found != wanted)
        fail_msg("%u transposes are left instead of %u of\n%s", found, wanted, source);
    end(&f);
}

static void test_transposes(void **state)
{
    (void)state;
    const char *image = "[N,3,H,W]";
    between(image, to_last, "", "[c] b = Concat<axis = 3>(a, a)", to_first,
            "[c] \"value#2\" = Concat<axis = 1>(x, x)\n[r] z = Relu(\"value#2\")\n");
    between(image, to_last, "", "[c] b = Softmax<axis = 2>(a)", to_first,
            "[c] \"value#2\" = Softmax<axis = 3>(x)\n[r] z = Relu(\"value#2\")\n");
    between(image, to_last, "int64[2] k = {1,2}", "[c] b = ReduceMean(a, k)", to_first,
            "[c] \"value#2\" = ReduceMean(x, \"value#3\")\n[r] z = Relu(\"value#2\")\n");
    between(image, to_last, "float[3] k = {1,2,3}", "t = Mul(a, k) [c] b = Sub(t, a)", to_first,
            "[t] \"value#3\" = Mul(x, \"k#2\")\n[c] \"value#4\" = Sub(\"value#3\", x)\n[r] z = Relu(\"value#4\")\n");
    /* Rows are fast along the last axis only. */
    count_transposes("g (float[N,3,H,W] x) => (z) { a = Transpose<perm = [0,2,3,1]>(x) b = Softmax<axis = 3>(a) "
                     "c = Transpose<perm = [0,3,1,2]>(b) z = Relu(c) }",
                     2);
    count_transposes(
        "g (float[N,3,H,W] x) => (z) <int64[1] k = {3}> { a = Transpose<perm = [0,2,3,1]>(x) m = ReduceMean(a, k) "
        "b = Sub(a, m) c = Transpose<perm = [0,3,1,2]>(b) z = Relu(c) }",
        2);
    /* Somebody else reads what is between. */
    count_transposes("g (float[N,3,H] x) => (z, b) { a = Transpose<perm = [0,2,1]>(x) b = Concat<axis = 2>(a, a) "
                     "c = Transpose<perm = [0,2,1]>(b) z = Relu(c) }",
                     2);
}

static void test_transposes_meet(void **state)
{
    (void)state;
    /* Reshapes that split or merge what stays together, ones that come and go. */
    count_transposes(
        "g (float[N,8,S] x) => (z) <int64[4] s = {0,0,2,4}, int64[4] p = {0,2,3,1}> { a = Transpose<perm = "
        "[0,2,1]>(x) b = Reshape(a, s) c = Transpose<perm = [0,2,3,1]>(b) z = Relu(c) }",
        0);
    count_transposes("g (float[N,2,4,S] x) => (z) <int64[3] s = {0,0,8}> { a = Transpose<perm = [0,3,1,2]>(x) b = "
                     "Reshape(a, s) c = Transpose<perm = [0,2,1]>(b) z = Relu(c) }",
                     0);
    count_transposes(
        "g (float[N,8,S] x) => (z) <int64[1] k = {-1}> { a = Transpose<perm = [0,2,1]>(x) b = Unsqueeze(a, k) "
        "c = Transpose<perm = [0,2,3,1]>(b) z = Relu(c) }",
        0);
    count_transposes("g (float[N,2,4,S] x) => (z) <int64[3] s = {0,-1,2}> { a = Transpose<perm = [0,3,2,1]>(x) b = "
                     "Reshape(a, s) c = Transpose<perm = [0,2,1]>(b) z = Relu(c) }",
                     2); /* 4 and S do not lie in this order before */
    /* A branch and a residual; both ends of a split. */
    count_transposes(
        "g (float[N,8,S] x, float[N,8,S] w) => (z) { a = Transpose<perm = [0,2,1]>(x) b = Transpose<perm = "
        "[0,2,1]>(w) c, d = Split<axis = 2>(a) e = Exp(c) f = Concat<axis = 2>(d, e) h = Add(f, b) i = "
        "Transpose<perm = [0,2,1]>(h) z = Relu(i) }",
        0);
    /* The mean over the axes that moved needs no transpose behind it. */
    count_transposes("g (float[N,3,H,W] x) => (z) <int64[2] k = {1,2}, int64[8] p = {0,1,1,0,0,1,1,0}> { a = "
                     "Transpose<perm = [0,2,3,1]>(x) b = Pad(a, p) z = ReduceMean<keepdims = 0>(b, k) }",
                     0);
}

static void test_branches(void **state)
{
    (void)state;
    const char *branches = "<then_branch = t () => (u) { [e] u = Exp(x) }, else_branch = e () => (v) <float two = {2}> "
                           "{ [m] v = Mul(x, two) }>";
    char nodes[400];
    (void)snprintf(nodes, sizeof nodes, "[i] y = If%s(yes)", branches);
    body("(float[N] x) => (y)", "bool yes = {1}, bool no = {0}", nodes, "[e] y = Exp(x)\n");
    (void)snprintf(nodes, sizeof nodes, "[i] a = If%s(no) [r] y = Relu(a)", branches);
    body("(float[N] x) => (y)", "bool yes = {1}, bool no = {0}", nodes, "[r] y = Relu(v)\n[m] v = Mul(x, two)\n");
}

static void test_selection(void **state)
{
    (void)state;
    const char *constants = "bool[2] yes = {1,1}, bool[2] no = {0,0}, bool[2] some = {0,1}";
    body("(float[2] x, float[2] w) => (z)", constants, "y = Where(yes, x, w) [r] z = Relu(y)", "[r] z = Relu(x)\n");
    body("(float[2] x, float[2] w) => (z)", constants, "y = Where(no, x, w) [r] z = Relu(y)", "[r] z = Relu(w)\n");
    body("(float[2] x, bool[2] c) => (z)", constants, "y = Where(c, x, x) [r] z = Relu(y)", "[r] z = Relu(x)\n");
    body("(float[2] x, float[2] w, bool[2] c) => (z)", constants, "n = Not(c) z = Where(n, x, w)",
         "z = Where(c, w, x)\n");
    body("(float[2] x, float[2] w) => (z)", constants, "z = Where(some, x, w)", "z = Where(some, x, w)\n");
    body("(float[1] x, float[2] w) => (z)", constants, "z = Where(yes, x, w)", "z = Where(yes, x, w)\n");
    body("(bool[N,2] x) => (z)", constants, "a = And(x, yes) b = Or(no, a) c = Xor(b, no) z = Not(c)", "z = Not(x)\n");
}

static void test_twins(void **state)
{
    (void)state;
    /* Two outputs of the same work: a copy of it. */
    body("(float[N] x) => (y, z)", "", "[a] y = Exp(x) [b] z = Exp(x)", "[a] y = Exp(x)\n[b] z = Identity(y)\n");
    /* Constants of any size; a difference anywhere keeps them apart. */
    for (int differs = 0; differs < 2; differs++) {
        fixture f;
        opf_text text;
        begin(&f);
        opf_text_init(&text, &f.arena);
        opf_text_add(&text, "g (float[3000] x) => (y) <");
        for (int c = 0; c < 2; c++) {
            opf_text_add(&text, "%sfloat[3000] %c = {", c == 0 ? "" : ", ", "ab"[c]);
            for (int i = 0; i < 3000; i++)
                opf_text_add(&text, "%s%d", i == 0 ? "" : ",", differs != 0 && c == 1 && i == 700 ? -1 : i);
            opf_text_add(&text, "}");
        }
        opf_text_add(&text, "> { s = Mul(x, a) t = Mul(x, b) y = Sub(s, t) }");
        simplify(&f, text.data);
        const opf_value_id y = opf_graph_find_value(f.graph, "y");
        const opf_node *sub = opf_graph_node(f.graph, opf_graph_value(f.graph, y)->producer);
        assert_int_equal(sub->inputs[0] == sub->inputs[1], differs == 0);
        end(&f);
    }
}

/* Ones that come and go on symbols, where no Reshape could say which is which. */
static void test_ones(void **state)
{
    (void)state;
    const char *axes = "int64[1] zero = {0}, int64[1] one = {1}, int64[2] both = {0,2}";
    body("(float[A,B] x) => (y)", axes, "a = Unsqueeze(x, one) [y] y = Unsqueeze(a, zero)",
         "y = Unsqueeze(x, \"value#2\")\n");
    body("(float[1,A,1,B] x) => (y)", axes, "a = Squeeze(x, zero) [y] y = Squeeze(a, one)",
         "y = Squeeze(x, \"value#2\")\n");
}

/* Rows of a table by a slice of numbers in order: a slice of the table, whatever the bound. */
static void test_tables(void **state)
{
    (void)state;
    const char *constants = "float[4,2] t = {1,2,3,4,5,6,7,8}, int64[1,4] n = {0,1,2,3}, int64[1,3] odd = {0,2,3}, "
                            "int64[1,5] more = {0,1,2,3,4}, int64[3] from = {1,2,3}, "
                            "int64[1] i0 = {0}, int64[1] i1 = {1}, int64[1] m1 = {-1}";
    body("(int64[1] s) => (y)", constants, "a = Slice(n, i0, s, i1) [y] y = Gather(t, a)",
         "y = Slice(\"value#2\", i0, s, i1)\n");
    body("(int64[1] s) => (y)", constants, "a = Slice(n, i0, s, m1, i1) [y] y = Gather(t, a)",
         "y = Slice(\"value#2\", i0, s, i1, i1)\n");
    body("(int64[1] s) => (y)", constants, "a = Slice(from, s, i1, i0, m1) [y] y = Gather<axis = -2>(t, a)",
         "y = Slice(\"value#2\", s, i1, i0, m1)\n");
    /* Numbers out of order, no rows of the table, no axes. */
    body("(int64[1] s) => (y)", constants, "[a] a = Slice(odd, i0, s, i1) [y] y = Gather(t, a)",
         "a = Slice(odd, i0, s, i1)\ny = Gather(t, a)\n");
    body("(int64[1] s) => (y)", constants, "[a] a = Slice(more, i0, s, i1) [y] y = Gather(t, a)",
         "a = Slice(more, i0, s, i1)\ny = Gather(t, a)\n");
    body("(int64[1] s) => (y)", constants, "[a] a = Slice(from, s, i1) [y] y = Gather(t, a)",
         "a = Slice(from, s, i1)\ny = Gather(t, a)\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slice_chains),
        cmocka_unit_test(test_joined_parts),
        cmocka_unit_test(test_parts_of_joined),
        cmocka_unit_test(test_transposes),
        cmocka_unit_test(test_transposes_meet),
        cmocka_unit_test(test_branches),
        cmocka_unit_test(test_selection),
        cmocka_unit_test(test_twins),
        cmocka_unit_test(test_ones),
        cmocka_unit_test(test_tables),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
