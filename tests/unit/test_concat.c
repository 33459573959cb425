/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Concat without copies: how many steps are left to copy parts, in graphs that can do without and in those that nearly can;
 * and random networks of parts that are joined, seen again and joined once more, against the reference.
 */
#include "plan_case.h"

/* ---- how many are left ---- */

typedef struct count_case {
    size_t      copies; /* steps that move elements, as fused */
    const char *sizes, *text;
} count_case;

static void check_count(const count_case *c)
{
    static const char *const copies[] = {"concat", "copy", "reorder"};
    const test_case          plain    = {NULL, c->sizes, c->text};
    text_model               m;
    tensors                  inputs;
    opf_session_options      options = {.mode = OPF_MODE_FUSED, .threads = 1};
    opf_session             *session;
    opf_profile              profile;
    opf_tensor               outputs[MAX_PORTS] = {{0}};
    char                     sizes[80];
    size_t                   n = 0;
    check_case(&plain, few_threads);
    text_model_open(&m, c->text, &(opf_model_options){.level = OPF_CPU_SCALAR}, 1);
    (void)snprintf(sizes, sizeof sizes, "%.*s", (int)strcspn(c->sizes, ";"), c->sizes);
    make_inputs(m.model, sizes, 3, &inputs);
    assert_int_equal(opf_session_create(m.model, &options, &session, NULL), OPF_OK);
    assert_int_equal(opf_session_run(session, inputs.list, inputs.n, outputs, opf_model_output_count(m.model), NULL), OPF_OK);
    assert_int_equal(opf_session_profile(session, &profile, NULL), OPF_OK);
    for (size_t i = 0; i < profile.n_steps; i++)
        for (size_t k = 0; k < sizeof copies / sizeof *copies; k++)
            n += strncmp(profile.steps[i].kernel, copies[k], strlen(copies[k])) == 0;
    if (n != c->copies)
        fail_text(c->text, "%zu copies, must be %zu", n, c->copies);
    opf_session_destroy(&session);
    free_tensors(&inputs);
    text_model_close(&m);
}

#define COUNT_ALL(cases)                                                                                               \
    for (size_t i = 0; i < sizeof(cases) / sizeof *(cases); i++)                                                       \
    check_count(&(cases)[i])

#define IMAGE "g (float[N,9,H,W] x, float[9,9,1,1] w, float[5,9,3,3] w2, float[9,1,3,3] w3, float[7,14,1,1] w4, float[3,9,1,1] w5"
#define SIZES "N=2 H=5 W=7; N=1 H=1 W=1; N=3 H=1 W=6; N=1 H=6 W=1; N=0 H=3 W=3; N=2 H=9 W=8"

/* Every kernel that writes images, straight into the result. */
static void test_written_in_place(void **state)
{
    static const count_case cases[] = {
        {0, SIZES, IMAGE ") => (y) { a = Conv(x, w) b = Conv<pads = [1,1,1,1]>(a, w2) c = Concat<axis = 1>(a, b) y = Conv(c, w4) }"},
        {0, SIZES, IMAGE ") => (y) { s = Conv(x, w) a = Conv<group = 9, pads = [1,1,1,1]>(s, w3) r = Sigmoid(a) b = Conv<pads = [1,1,1,1]>(s, w2) q = Relu(b)"
                   " c = Concat<axis = -3>(q, r) y = Conv(c, w4) }"},
        {0, SIZES, IMAGE ") => (y) { s = Conv(x, w) a = MaxPool<kernel_shape = [3,3], pads = [1,1,1,1]>(s) r = Relu(s) b = Conv<pads = [1,1,1,1]>(r, w2)"
                   " c = Concat<axis = 1>(b, a) d = Conv(c, w4) y = Relu(d) }"},
        {0, SIZES, IMAGE ") => (y) { s = Conv(x, w) a = AveragePool<kernel_shape = [3,1], pads = [1,0,1,0]>(s) t = Tanh(a) b = Conv<pads = [1,1,1,1]>(s, w2)"
                   " c = Concat<axis = 1>(t, b) y = Conv(c, w4) }"},
        /* One channel, and images of one pixel. */
        {0, SIZES, "g (float[N,9,H,W] x, float[1,9,1,1] w, float[8,9,1,1] w2, float[4,9,1,1] w3) => (y) { a = Conv(x, w) b = Conv(x, w2) c = Concat<axis = 1>(a, b) y = Conv(c, w3) }"},
        {0, SIZES, IMAGE ", float[4,18,1,1] w9) => (y) { s = Conv(x, w) a = GlobalAveragePool(s) b = GlobalMaxPool(s) c = Concat<axis = 1>(a, b) y = Conv(c, w9) }"},
        /* Images of a batch that is joined. */
        {0, SIZES, IMAGE ") => (y) { a = Conv(x, w) b = Conv<group = 9, pads = [1,1,1,1]>(a, w3) c = Concat<axis = 0>(a, b) y = Conv(c, w5) }"},
        /* Written for the caller: in planes. */
        {0, SIZES, IMAGE ") => (y) { s = Conv(x, w) a = Conv<group = 9, pads = [1,1,1,1]>(s, w3) b = Conv<pads = [1,1,1,1]>(s, w2) y = Concat<axis = 1>(a, b) }"},
        {0, "S=6 T=3; S=1 T=1; S=0 T=2", "g (float[S,T] x) => (y) { a = Relu(x) b = Sigmoid(x) c = Tanh(b) y = Concat<axis = -1>(a, b, c) }"},
        {0, "S=6 T=3", "g (int32[S,T] x) => (y) { a = Add(x, x) b = Mul(x, x) y = Concat<axis = 0>(a, b) }"},
        /* Three axes and five. */
        {0, "N=2 H=6; N=1 H=1; N=3 H=0", "g (float[N,4,H] x, float[5,4,3] w, float[3,9,1] w2) => (y) { a = Exp(x) b = Conv<pads = [1,1]>(a, w) c = Concat<axis = 1>(b, a) y = Conv(c, w2) }"},
        {0, "N=2 H=3; N=1 H=1",
         "g (float[N,4,H,2,H] x, float[5,4,1,1,1] w, float[3,10,1,1,1] w2) => (y) { b = Conv(x, w) a = MaxPool<kernel_shape = [1,2,1], pads = [0,1,0,0,0,0]>(b) c = Concat<axis = 1>(b, a) y = Conv(c, w2) }"},
    };
    (void)state;
    COUNT_ALL(cases);
}

/* Joined again, behind one another, in another, or nearly. */
static void test_nested(void **state)
{
    static const count_case cases[] = {
        /* A dense block: each Concat takes all features so far. */
        {0, SIZES, "g (float[N,3,H,W] x, float[9,3,1,1] w, float[4,9,3,3] w2, float[4,13,1,1] w3, float[5,17,1,1] w4, float[3,22,1,1] w5) => (y)"
                   "{ a = Conv(x, w) b = Conv<pads = [1,1,1,1]>(a, w2) c = Concat<axis = 1>(a, b) d = Conv(c, w3) e = Concat<axis = 1>(a, b, d) f = Conv(e, w4)"
                   " h = Concat<axis = 1>(a, b, d, f) y = Conv(h, w5) }"},
        {0, SIZES, "g (float[N,3,H,W] x, float[9,3,1,1] w, float[4,9,3,3] w2, float[4,13,1,1] w3, float[5,17,1,1] w4, float[3,22,1,1] w5) => (y)"
                   "{ a = Conv(x, w) b = Conv<pads = [1,1,1,1]>(a, w2) c = Concat<axis = 1>(a, b) d = Conv(c, w3) e = Concat<axis = 1>(c, d) f = Conv(e, w4)"
                   " h = Concat<axis = 1>(e, f) y = Conv(h, w5) }"},
        /* In the middle of the last one; and twice at the same time in two. */
        {0, SIZES, "g (float[N,3,H,W] x, float[3,3,1,1] w, float[4,3,1,1] w2, float[4,7,1,1] w3, float[2,3,1,1] w4, float[3,13,1,1] w5) => (y)"
                   "{ s = Conv(x, w) o = Conv(s, w4) a = MaxPool<kernel_shape = [1,1]>(s) b = Conv(s, w2) c = Concat<axis = 1>(a, b) d = Conv(c, w3) e = Concat<axis = 1>(o, a, b, d) y = Conv(e, w5) }"},
        {1, SIZES, "g (float[N,3,H,W] x, float[4,3,1,1] w2, float[4,7,1,1] w3, float[3,11,1,1] w5) => (y)"
                   "{ a = Relu(x) b = Conv(x, w2) c = Concat<axis = 1>(b, a) d = Conv(c, w3) e = Concat<axis = 1>(a, b, d) y = Conv(e, w5) }"},
        {1, SIZES, "g (float[N,3,H,W] x, float[4,3,1,1] w2, float[4,8,1,1] w3) => (y) { b = Conv(x, w2) c = Concat<axis = 1>(b, b) y = Conv(c, w3) }"},
        {1, SIZES, "g (float[N,3,H,W] x, float[4,3,1,1] w2, float[4,12,1,1] w3, float[4,8,1,1] w4) => (y)"
                   "{ b = Conv(x, w2) c = Concat<axis = 1>(b, b) a = Conv(c, w4) d = Concat<axis = 1>(c, a) y = Conv(d, w3) }"},
        /* One that joins along another axis lies there too; nothing of what it joins is computed twice. */
        {1, SIZES, "g (float[N,3,H,W] x, float[4,3,1,1] w2, float[4,7,1,1] w4) => (y)"
                   "{ a = Relu(x) b = Tanh(x) c = Concat<axis = 2>(a, b) d = Concat<axis = 2>(x, x) e = Conv(d, w2) f = Concat<axis = 1>(c, e) y = Conv(f, w4) }"},
    };
    (void)state;
    COUNT_ALL(cases);
}

/* What needs memory of its own. */
static void test_copied(void **state)
{
    static const count_case cases[] = {
        {1, SIZES, IMAGE ") => (y, b) { a = Conv(x, w) b = Conv<pads = [1,1,1,1]>(a, w2) c = Concat<axis = 1>(a, b) y = Conv(c, w4) }"},
        {1, "N=2 H=5 W=7", "g (float[N,9,H,W] x, float[9,9,1,1] w, float[7,18,1,1] w4) => (y) { a = Conv(x, w) c = Concat<axis = 1>(x, a) y = Conv(c, w4) }"},
        {1, "S=3 T=4", "g (float[S,T] x) => (y) { a = Relu(x) b = Softmax(a) y = Concat<axis = 0>(a, b) }"},
        {1, "S=3 T=4", "g (float[S,T] x) => (y) <float[1,4] k = {1,2,3,4}> { a = Relu(x) y = Concat<axis = 0>(a, k) }"},
        {1, "S=3 T=4", "g (float[S,T] x, int64[2] i) => (y, z) { a = Relu(x) y = Concat<axis = 0>(a, x) z = Gather(y, i) }"},
        /* Lines of an image are joined: its pixels have no one stride. */
        {1, "N=2 H=4 W=5", "g (float[N,9,H,W] x, float[9,9,1,1] w, float[9,9,1,1] w2, float[4,9,3,3] w4) => (y) { a = Conv(x, w) b = Conv(x, w2) c = Concat<axis = 3>(a, b) y = Conv(c, w4) }"},
    };
    (void)state;
    COUNT_ALL(cases);
}

/* Channels that a Split takes apart, joined with others. */
static void test_parts(void **state)
{
    static const count_case cases[] = {
        {0, SIZES, "g (float[N,9,H,W] x, float[23,9,1,1] w, float[4,9,3,3] w2, float[3,18,1,1] w3) => (y) <int64[3] s = {9,13,1}>"
                   "{ m = Conv(x, w) a, b, c = Split<axis = 1>(m, s) d = Conv<pads = [1,1,1,1]>(a, w2) e = Concat<axis = 1>(b, d, c) y = Conv(e, w3) }"},
        {0, SIZES, "g (float[N,2,H,W] x, float[50,2,1,1] w, float[4,32,1,1] w2, float[3,22,1,1] w3) => (y) <int64[3] s = {32,0,18}>"
                   "{ m = Conv(x, w) r = HardSwish(m) a, b, c = Split<axis = 1>(r, s) d = Conv(a, w2) e = Concat<axis = 1>(c, b, d) y = Conv(e, w3) }"},
        {3, SIZES, "g (float[N,17,H,W] x, float[40,17,3,3] w) => (y, z) { m = Conv<strides = [2,2], pads = [1,1,1,1]>(x, w) a, b = Split<axis = 1>(m) y = Mul(a, b) z = Sub(a, b) }"},
        {1, "N=2 H=5 W=4", "g (float[N,9,H,W] x, float[20,9,1,1] w) => (a, b) { m = Conv(x, w) a, b = Split<axis = 1>(m) }"},
        {1, "N=2 H=5 W=4", "g (float[N,9,H,W] x, float[20,9,1,1] w, float[3,10,1,1] w2) => (y, b) { m = Conv(x, w) a, b = Split<axis = 1>(m) y = Conv(a, w2) }"},
    };
    (void)state;
    COUNT_ALL(cases);
}

#define SHUFFLE "c = Concat<axis = 1>(a, b) d = Reshape(c, s) e = Transpose<perm = [0,2,1,3,4]>(d) f = Reshape(e, t)"
#define SHAPES(parts, size) " <int64[5] s = {0," #parts "," #size ",5,7}, int64[4] t = {0,12,5,7}> { "

/* Channels of equal parts shuffled: the Concat writes them so, and all else are views. */
static void test_shuffled(void **state)
{
    static const count_case cases[] = {
        {1, "N=2; N=1; N=0", "g (float[N,6,5,7] x, float[6,6,1,1] w, float[6,1,3,3] w2, float[12,12,1,1] w4) => (y)" SHAPES(2, 6)
                             "a = Conv(x, w) b = Conv<group = 6, pads = [1,1,1,1]>(a, w2) " SHUFFLE " y = Conv(f, w4) }"},
        {1, "N=2; N=1", "g (float[N,6,5,7] x, float[6,6,1,1] w, float[3,6,1,1] w3) => (y, z)" SHAPES(2, 6)
                        "a = Conv(x, w) b = Relu(x) " SHUFFLE " h, i = Split<axis = 1>(f) y = Conv(h, w3) j = Conv(i, w3) z = Exp(j) }"},
        {1, "N=2", "g (float[N,6,5,7] a, float[N,6,5,7] b) => (f)" SHAPES(2, 6) SHUFFLE "}"},
        /* Unequal parts, other groups than parts: a Concat, which is a view, then a copy. */
        {1, "N=2", "g (float[N,6,5,7] x, float[4,6,1,1] w, float[8,6,1,1] w2, float[3,12,1,1] w3) => (y)" SHAPES(2, 6)
                   "a = Conv(x, w) b = Conv(x, w2) " SHUFFLE " y = Conv(f, w3) }"},
        {1, "N=2", "g (float[N,6,5,7] x, float[6,6,1,1] w, float[6,6,1,1] w2, float[3,12,1,1] w3) => (y)" SHAPES(3, 4)
                   "a = Conv(x, w) b = Conv(x, w2) " SHUFFLE " y = Conv(f, w3) }"},
        /* An output, or read besides: the same. */
        {1, "N=2", "g (float[N,6,5,7] x, float[6,6,1,1] w, float[6,6,1,1] w2, float[3,12,1,1] w3) => (y, d)" SHAPES(2, 6)
                   "a = Conv(x, w) b = Conv(x, w2) " SHUFFLE " y = Conv(f, w3) }"},
    };
    (void)state;
    COUNT_ALL(cases);
}

/* ---- random networks ---- */

enum { MOST = 32 };

typedef struct network {
    opf_random random;
    char       inputs[4000], nodes[6000];
    size_t     n_inputs, n_nodes;
    int        height, width, channels[MOST], n, n_weights;
} network;

static int pick(network *g, int n)
{
    return (int)(opf_random_next(&g->random) % (uint64_t)n);
}

#define NODE(...) g->n_nodes += (size_t)snprintf(g->nodes + g->n_nodes, sizeof g->nodes - g->n_nodes, __VA_ARGS__)

/* A weight of these dims. */
static int weight(network *g, const char *dims, int first, int second)
{
    g->n_inputs += (size_t)snprintf(g->inputs + g->n_inputs, sizeof g->inputs - g->n_inputs, dims, first, second, g->n_weights);
    return g->n_weights++;
}

static void conv(network *g, int x, int side)
{
    const int out = 1 + pick(g, 20), w = weight(g, side == 1 ? ", float[%d,%d,1,1] w%d" : ", float[%d,%d,3,3] w%d", out, g->channels[x]);
    NODE("v%d = Conv<pads = [%d,%d,%d,%d]>(v%d, w%d)\n", g->n, side / 2, side / 2, side / 2, side / 2, x, w);
    g->channels[g->n++] = out;
}

/* Often the latest, in order; else any. */
static void join(network *g)
{
    const int n = 2 + pick(g, 3), from = g->n >= n && pick(g, 2) == 0 ? g->n - n : -1;
    int       parts[4], channels = 0;
    for (int i = 0; i < n; i++) {
        parts[i] = from >= 0 ? from + i : pick(g, g->n);
        channels += g->channels[parts[i]];
    }
    if (channels > 60) {
        conv(g, g->n - 1, 1);
        return;
    }
    NODE("v%d = Concat<axis = 1>(", g->n);
    for (int i = 0; i < n; i++)
        NODE("%sv%d", i == 0 ? "" : ", ", parts[i]);
    NODE(")\n");
    g->channels[g->n++] = channels;
}

/* x and what is made of it, channel by channel. */
static void shuffle(network *g, int x)
{
    const int c = g->channels[x], n = g->n;
    NODE("q%d = Sigmoid(v%d)\nc%d = Concat<axis = 1>(v%d, q%d)\n", n, x, n, x, n);
    NODE("k%d = Constant<value_ints = [0,2,%d,%d,%d]>()\nd%d = Reshape(c%d, k%d)\n", n, c, g->height, g->width, n, n, n);
    NODE("e%d = Transpose<perm = [0,2,1,3,4]>(d%d)\n", n, n);
    NODE("m%d = Constant<value_ints = [0,-1,%d,%d]>()\nv%d = Reshape(e%d, m%d)\n", n, g->height, g->width, n, n, n);
    g->channels[g->n++] = 2 * c;
}

static void split(network *g, int x)
{
    const int c = g->channels[x], n = g->n;
    NODE("s%d = Constant<value_ints = [%d,%d]>()\nv%d, v%d = Split<axis = 1>(v%d, s%d)\n", n, c / 2, c - c / 2, n, n + 1, x, n);
    g->channels[g->n++] = c / 2;
    g->channels[g->n++] = c - c / 2;
}

static void grow(network *g)
{
    const int x = pick(g, 3) == 0 ? pick(g, g->n) : g->n - 1, c = g->channels[x], kind = pick(g, 11);
    if (kind < 4)
        join(g);
    else if (kind < 7)
        conv(g, x, kind == 4 ? 3 : 1);
    else if (kind == 7 && c > 1)
        split(g, x);
    else if (kind == 8 && c <= 30)
        shuffle(g, x);
    else {
        if (kind == 9)
            NODE("v%d = MaxPool<kernel_shape = [3,3], pads = [1,1,1,1]>(v%d)\n", g->n, x);
        else if (kind == 10 && c > 1)
            NODE("v%d = Conv<pads = [1,1,1,1], group = %d>(v%d, w%d)\n", g->n, c, x, weight(g, ", float[%d,%d,3,3] w%d", c, 1));
        else
            NODE("v%d = Tanh(v%d)\n", g->n, x);
        g->channels[g->n++] = c;
    }
}

static void test_random(void **state)
{
    enum { NETWORKS = 150, NODES = 14 };
    static network g;
    (void)state;
    for (uint64_t seed = 1; seed <= NETWORKS; seed++) {
        static char text[12000];
        memset(&g, 0, sizeof g);
        opf_random_init(&g.random, seed);
        g.height      = 1 + pick(&g, 6);
        g.width       = 1 + pick(&g, 6);
        g.channels[0] = 1 + pick(&g, 9);
        g.n           = 1;
        for (int i = 0; i < NODES; i++)
            grow(&g);
        const int other = pick(&g, g.n);
        (void)snprintf(text, sizeof text, "g (float[N,%d,%d,%d] v0%s) => (y, z) {\n%s y = Identity(v%d)\nz = Softsign(v%d) }", g.channels[0], g.height, g.width, g.inputs,
                       g.nodes, g.n - 1, other);
        check_case(&(test_case){NULL, "N=2; N=1", text}, seed % 10 == 0 ? all_threads : few_threads);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_written_in_place), cmocka_unit_test(test_nested),   cmocka_unit_test(test_copied),
        cmocka_unit_test(test_parts),            cmocka_unit_test(test_shuffled), cmocka_unit_test(test_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
