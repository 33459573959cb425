/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pad, Gather and Scatter as copies: modes, types, layouts, sizes of 0 and 1, indices that are known and that are not,
 * repeated ones; and random ones against the reference. `test_copies SEED COUNT` repeats what a failure names.
 */
#include "plan_case.h"

/* ---- chosen cases ---- */

static void test_pad(void **state)
{
    static const test_case cases[] = {
        {"pad", "N=2 H=5; N=1 H=1; N=0 H=3; N=3 H=0", "g (float[N,H,3] x) => (y) <int64[6] p = {0,1,2,1,0,3}> { y = Pad(x, p) }"},
        {"pad", "N=2 H=5; N=1 H=1; N=0 H=3", "g (float[N,H,3] x, float v) => (y) <int64[6] p = {0,2,-1,0,1,2}> { y = Pad(x, p, v) }"},
        {"pad", "N=2 H=5; N=1 H=2; N=0 H=3", "g (float[N,H,3] x) => (y) <int64[6] p = {0,1,2,0,1,2}> { y = Pad<mode = \"reflect\">(x, p) }"},
        {"pad", "N=2 H=5; N=1 H=1; N=0 H=3", "g (float[N,H,3] x) => (y) <int64[6] p = {0,1,7,0,4,8}> { y = Pad<mode = \"reflect\">(x, p) }"},
        {"pad", "N=2 H=5; N=1 H=1; N=0 H=3", "g (float[N,H,3] x) => (y) <int64[6] p = {0,4,0,0,1,2}> { y = Pad<mode = \"edge\">(x, p) }"},
        {"pad", "N=2 H=5; N=1 H=1; N=0 H=3", "g (float[N,H,3] x) => (y) <int64[6] p = {0,1,7,0,4,-1}> { y = Pad<mode = \"wrap\">(x, p) }"},
        {"pad", "N=2 H=5; N=1 H=1", "g (float[N,4,H,H] x) => (y) <int64[4] p = {1,2,0,1}, int64[2] a = {-1,2}> { r = Relu(x) z = Pad<mode = \"edge\">(r, p, , a) y = Neg(z) }"},
        /* Channels last, and written in the result of a Concat. */
        {"pad", "N=2 H=5; N=1 H=1", "g (float[N,3,H,H] x, float[8,3,1,1] w, float[2,8,1,1] w2) => (y)"
                                    " <int64[8] p = {0,0,1,1,0,0,2,0}> { c = Conv(x, w) z = Pad<mode = \"edge\">(c, p) y = Conv(z, w2) }"},
        {"pad", "N=2 H=5; N=1 H=1", "g (float[N,3,H,H] x, float[8,3,1,1] w, float[2,16,1,1] w2) => (y) <int64[8] p = {0,0,1,0,0,0,-1,0}> {"
                                    " c = Conv(x, w) z = Pad(c, p) d = Concat<axis = 1>(c, z) y = Conv(d, w2) }"},
        /* Nothing is left to copy, or is there to begin with. */
        {NULL, "N=2 H=5; N=1 H=3; N=0 H=4", "g (float[N,H] x) => (y) <int64[4] p = {0,-1,0,-1}> { z = Pad(x, p) y = Relu(z) }"},
        {NULL, "N=2 H=2; N=0 H=2", "g (float[N,H] x) => (y) <int64[4] p = {0,-1,0,-1}> { y = Pad(x, p) }"},
        {"pad", "N=2 H=1; N=0 H=1", "g (float[N,H] x) => (y) <int64[4] p = {0,-1,0,2}> { y = Pad(x, p) }"},
        {NULL, "N=2 H=1", "g (float x, int64[0] p) => (y) { y = Pad(x, p) }"},
        /* Too many boxes, or unknown ones. */
        {"reference", "N=2 H=1", "g (float[N,2] x) => (y) <int64[4] p = {0,0,0,9999}> { y = Pad<mode = \"wrap\">(x, p) }"},
    };
    (void)state;
    CHECK_ALL(cases);
}

static void test_gather(void **state)
{
    static const test_case cases[] = {
        {"gather", "N=2 H=5; N=1 H=1; N=0 H=3; N=3 H=0", "g (float[N,6,H] x) => (y) <int64[5] i = {4,1,1,0,-1}> { y = Gather<axis = 1>(x, i) }"},
        {NULL, "N=2 H=5; N=1 H=1; N=0 H=3", "g (float[N,6,H] x) => (y) <int64[2,3] i = {5,4,3,2,1,0}> { z = Gather<axis = -2>(x, i) y = Relu(z) }"},
        {NULL, "N=2 H=5; N=1 H=1; N=0 H=3", "g (float[N,H,6] x) => (y) <int64[3,1] i = {2,2,2}> { r = Relu(x) z = Gather<axis = 2>(r, i) y = Neg(z) }"},
        {NULL, "N=2 H=5; N=1 H=1; N=0 H=3", "g (float[N,H,6] x) => (y) <int64 i = {-2}> { r = Relu(x) z = Gather<axis = 2>(r, i) y = Neg(z) }"},
        {NULL, "N=2 H=5", "g (float[N,H,6] x) => (y) <int64[2,0] i = {}> { y = Gather<axis = 2>(x, i) }"},
        /* Windows of channels-last images, written in the result of a Concat. */
        {"gather", "N=2 H=5; N=1 H=4", "g (float[N,3,H,5] x, float[4,3,1,1] w) => (y) <int64[3,3] i = {0,1,2,1,2,3,2,3,4}, int64[4] s = {0,12,-1,3}> {"
                                       " c = Conv(x, w) z = Gather<axis = 3>(c, i) t = Transpose<perm = [0,1,3,2,4]>(z) y = Reshape(t, s) }"},
        {"gather", "N=2 H=5; N=1 H=1", "g (float[N,3,H] x) => (y, z) <int64[4] i = {0,2,1,1}> { r = Relu(x) g = Gather<axis = 1>(r, i) y = Concat<axis = 1>(g, r) z = Neg(y) }"},
        /* Indices of the run. */
        {"gather_rows", "N=2 H=5; N=1 H=1; N=0 H=3", "g (float[N,6,H] x, int64[2,2] i) => (y) { y = Gather<axis = 1>(x, i) }"},
        {"gather_rows", "N=2 H=5; N=3 H=1; N=3 H=0", "g (double[H,N,6] x, int32[3] i) => (y) { j = Neg(i) y = Gather<axis = -1>(x, j) }"},
        {"gather_rows", "N=2 H=5; N=1 H=1", "g (float[5,6,2,3] w, int64[H] i) => (y) { y = Gather<axis = 1>(w, i) }"},
        {"reference", "N=2 H=5", "g (float[N,6,H] x, int64[2] i) => (y) { t = Transpose<perm = [1,0,2]>(x) s = Transpose<perm = [2,0,1]>(t) y = Gather(s, i) }"},
    };
    (void)state;
    CHECK_ALL(cases);
}

static void test_scatter(void **state)
{
    static const test_case cases[] = {
        {"scatter", "H=5; H=1; H=0", "g (float[4,H] x, float[3,H] u) => (y) <int64[3,1] i = {1,-1,1}> { y = ScatterND(x, i, u) }"},
        {"scatter", "H=5; H=1; H=0", "g (float[4,H] x, float[3,H] u, int64[3,1] i) => (y) { j = Neg(i) y = ScatterND(x, j, u) }"},
        /* In place, unless others read it, or the updates do. */
        {"scatter", "H=5; H=1; H=0", "g (float[4,H] x, float[3,H] u) => (y) <int64[3,1] i = {1,2,1}> { a = Tanh(x) z = ScatterND(a, i, u) y = Relu(z) }"},
        {"scatter", "H=5; H=1; H=0", "g (float[4,H] x, float[3,H] u) => (y, a) <int64[3,1] i = {1,2,1}> { a = Tanh(x) z = ScatterND(a, i, u) b = Neg(a) y = Add(z, b) }"},
        {"scatter", "H=5; H=1; H=0", "g (float[4,H] x) => (y) <int64[2,1] i = {0,3}, int64[1] p = {1}, int64[1] q = {3}, int64[1] e = {0}> {"
                                     " a = Tanh(x) u = Slice(a, p, q, e) z = ScatterND(a, i, u) y = Relu(z) }"},
        /* Whole tensors, single elements, none. */
        {"scatter", "H=5; H=1; H=0", "g (float[4,H] x, float[2,4,H] u) => (y) <int64[2,0] i = {}> { y = ScatterND(x, i, u) }"},
        {"scatter", "H=5; H=0", "g (float[4,H] x, float[0,H] u) => (y) <int64[0,1] i = {}> { y = ScatterND(x, i, u) }"},
        {"scatter", "H=2", "g (float[4,3] x, float[2,2] u) => (y) <int64[2,2,2] i = {0,0,0,2,1,-3,1,-1}> { y = ScatterND(x, i, u) }"},
        {"scatter", "H=2", "g (float[4,3] x, float u) => (y) <int64[2] i = {3,-1}> { y = ScatterND(x, i, u) }"},
        /* Other layouts on all sides. */
        {"scatter", "H=5; H=1", "g (float[2,3,H,H] x, float[4,3,1,1] w, float[H,H,4] u) => (y) <int64[1] i = {1}> {"
                                " c = Conv(x, w) t = Transpose<perm = [2,0,1]>(u) z = ScatterND(c, i, t) y = Relu(z) }"},
        {"scatter", "H=5; H=1", "g (float[2,3,H] x, float[H,3] u, int64[1] i) => (y) { a = Transpose<perm = [0,2,1]>(x) z = ScatterND(a, i, u) y = Relu(z) }"},
        {"scatter", "H=5; H=1", "g (float[H] x, float[3,H] u) => (y) <int64[2] s = {4,1}, int64[3,1] i = {1,0,3}> { e = Expand(x, s) y = ScatterND(e, i, u) }"},
        /* Elements. */
        {"scatter", "H=5; H=3", "g (float[4,H] x, float[2,3] u) => (y) <int64[2,3] i = {1,0,-1,1,3,0}> { y = ScatterElements(x, i, u) }"},
        {"scatter", "H=5; H=3", "g (float[4,H] x, float[3,2] u) => (y) <int32[2,3] i = {1,0,-1,1,2,0}> { t = Transpose(u) y = ScatterElements<axis = -1>(x, i, t) }"},
        {"scatter", "H=5; H=2; H=0", "g (double[4,H] x, double[3,H] u, int64[3,H] i) => (y) { j = Neg(i) y = ScatterElements(x, j, u) }"},
        {"reference", "H=5; H=0", "g (float[4,H] x, float[3,H] u) => (y) <int64[3,1] i = {1,-1,1}> { y = ScatterND<reduction = \"add\">(x, i, u) }"},
    };
    (void)state;
    CHECK_ALL(cases);
}

/* ---- random ones ---- */

enum { MOST_AXES = 4 };

typedef struct generator {
    opf_random random;
    opf_text   text;
    int        rank;
    int64_t    dims[MOST_AXES];
} generator;

#define ADD(...) opf_text_add(&g->text, __VA_ARGS__)

static int64_t pick(generator *g, int64_t n)
{
    return (int64_t)(opf_random_next(&g->random) % (uint64_t)n);
}

static void add_dims(generator *g, const char *name, int n, const int64_t *dims)
{
    ADD("%s", name);
    for (int i = 0; i < n; i++)
        ADD("%s%lld", i == 0 ? "[" : ",", (long long)dims[i]);
    ADD("%s", n == 0 ? "" : "]");
}

static int64_t count(int n, const int64_t *dims)
{
    int64_t product = 1;
    for (int i = 0; i < n; i++)
        product *= dims[i];
    return product;
}

/* The input with its axes reversed or not, as floats, doubles, halves, or integers of 1 and 8 bytes. */
static void add_source(generator *g, const char *name, const char *input, int type, bool reversed)
{
    static const int types[] = {1, 11, 10, 3, 7};
    ADD(" %s_s = Mul(%s, k) %s%s = Cast<to = %d>(%s_s)", name, input, name, reversed ? "_t" : "", types[type], name);
    if (reversed)
        ADD(" %s = Transpose(%s_t)", name, name);
}

static void add_input(generator *g, const char *name, int rank, const int64_t *dims, bool reversed)
{
    int64_t own[2 * MOST_AXES];
    for (int i = 0; i < rank; i++)
        own[i] = dims[reversed ? rank - 1 - i : i];
    add_dims(g, "float", rank, own);
    ADD(" %s", name);
}

static void add_pad(generator *g)
{
    static const char *const modes[] = {"constant", "reflect", "edge", "wrap"};
    const int  mode = (int)pick(g, 4), type = (int)pick(g, 5);
    const bool reversed = pick(g, 2) == 0, value = mode == 0 && pick(g, 2) == 0;
    ADD("g (");
    add_input(g, "x", g->rank, g->dims, reversed);
    ADD("%s) => (y) <float k = {9}, int64[%d] p = {", value ? ", float v" : "", 2 * g->rank);
    int64_t before[MOST_AXES];
    for (int i = 0; i < 2 * g->rank; i++) {
        const int64_t d = g->dims[i % g->rank], cut = i < g->rank ? 0 : before[i - g->rank] < 0 ? -before[i - g->rank] : 0;
        int64_t       pad = pick(g, 3) == 0 ? 0 : pick(g, 2 * d + 2);
        if (d - cut > 1 && pick(g, 4) == 0)
            pad = -pick(g, d - cut); /* something is left */
        if (d == 0 && mode != 0)
            pad = 0;
        if (i < g->rank)
            before[i] = pad;
        ADD("%s%lld", i == 0 ? "" : ",", (long long)pad);
    }
    ADD("}> {");
    add_source(g, "a", "x", type, reversed);
    if (value)
        add_source(g, "c", "v", type, false);
    ADD(" b = Pad<mode = \"%s\">(a, p%s)", modes[mode], value ? ", c" : "");
}

/* n indices into d elements, some from the end: neighbours often, so that there are series. */
static void add_indices(generator *g, int64_t n, const int64_t *d, int64_t depth)
{
    int64_t last = 0;
    for (int64_t i = 0; i < n * depth; i++) {
        const int64_t size = d[i % depth];
        last               = pick(g, 3) == 0 ? pick(g, size) : (last + 1) % size;
        ADD("%s%lld", i == 0 ? "" : ",", (long long)(pick(g, 4) == 0 ? last - size : last));
    }
}

/* The same, known or not: then they are parted from an input that tells nothing. */
static void add_index_constant(generator *g, int rank, const int64_t *dims, int64_t n, const int64_t *d, int64_t depth)
{
    ADD(" ");
    add_dims(g, "int64", rank, dims);
    ADD(" i = {");
    add_indices(g, n, d, depth);
    ADD("}> {");
}

static const char *add_unknown(generator *g, bool known)
{
    if (known)
        return "i";
    ADD(" m = Clip(z, n0, n0) j = Add(i, m)");
    return "j";
}

static void add_gather(generator *g)
{
    const int     type = (int)pick(g, 5), axis = (int)pick(g, g->rank), rank = (int)pick(g, 3);
    const bool    reversed = pick(g, 2) == 0, known = pick(g, 3) != 0;
    int64_t       dims[2];
    for (int i = 0; i < rank; i++)
        dims[i] = g->dims[axis] == 0 ? 0 : pick(g, 5);
    if (g->dims[axis] == 0 && rank == 0)
        g->dims[axis] = 1;
    ADD("g (");
    add_input(g, "x", g->rank, g->dims, reversed);
    ADD(", int64 z) => (y) <float k = {9}, int64 n0 = {0},");
    add_index_constant(g, rank, dims, count(rank, dims), &g->dims[axis], 1);
    add_source(g, "a", "x", type, reversed);
    ADD(" b = Gather<axis = %d>(a, %s)", axis, add_unknown(g, known));
}

static void add_scatter(generator *g)
{
    const int  type = (int)pick(g, 5), depth = (int)pick(g, g->rank + 1), prefix = (int)pick(g, 3);
    const bool reversed = pick(g, 2) == 0, reversed_updates = pick(g, 2) == 0, known = pick(g, 2) == 0;
    const bool elements = pick(g, 3) == 0;
    const int  axis     = (int)pick(g, g->rank);
    int64_t    index[MOST_AXES + 2], updates[MOST_AXES + 2];
    int        n_index = elements ? g->rank : prefix, n_updates = elements ? g->rank : prefix;
    bool       empty = false;
    for (int i = 0; i < g->rank; i++)
        empty = empty || (g->dims[i] == 0 && (elements ? i == axis : i < depth));
    for (int i = 0; i < n_index; i++)
        index[i] = updates[i] = elements && i != axis ? pick(g, g->dims[i] + 1) : pick(g, 5);
    if (empty && n_index == 0)
        n_index = n_updates = 1;
    if (empty)
        index[elements ? axis : 0] = updates[elements ? axis : 0] = 0;
    const int64_t n = count(n_index, index);
    for (int i = depth; i < g->rank && !elements; i++)
        updates[n_updates++] = g->dims[i];
    if (!elements)
        index[n_index++] = depth;
    ADD("g (");
    add_input(g, "x", g->rank, g->dims, reversed);
    ADD(", ");
    add_input(g, "u", n_updates, updates, reversed_updates);
    ADD(", int64 z) => (y) <float k = {9}, int64 n0 = {0},");
    add_index_constant(g, n_index, index, n, elements ? &g->dims[axis] : g->dims, elements ? 1 : depth);
    add_source(g, "a", "x", type, reversed);
    add_source(g, "v", "u", type, reversed_updates);
    const char *i = add_unknown(g, known);
    if (elements)
        ADD(" b = ScatterElements<axis = %d>(a, %s, v)", axis, i);
    else
        ADD(" b = ScatterND(a, %s, v)", i);
}

static uint64_t first_seed = 1, n_seeds = 300;

static void test_random(void **state)
{
    static const char *const ends[] = {"y = Identity(b)", "y = Transpose(b)", "y = Concat<axis = 0>(b, b)", "f = Cast<to = 1>(b) y = Neg(f)", "f = Cast<to = 1>(b) e = Exp(f) n = Neg(f) y = Concat<axis = -1>(e, n)"};
    (void)state;
    for (uint64_t seed = first_seed; seed < first_seed + n_seeds; seed++) {
        generator  made = {.rank = 0}, *g = &made;
        opf_heap   heap;
        opf_arena  arena;
        test_case  c = {NULL, "", NULL};
        opf_heap_init(&heap, NULL, 0);
        opf_arena_init(&arena, &heap);
        opf_text_init(&g->text, &arena);
        opf_random_init(&g->random, seed);
        g->rank = 1 + (int)pick(g, MOST_AXES);
        for (int i = 0; i < g->rank; i++)
            g->dims[i] = pick(g, 12) == 0 ? 0 : 1 + pick(g, 6);
        void (*const kinds[])(generator *) = {add_pad, add_gather, add_scatter};
        kinds[seed % 3](g);
        const bool ends_free = seed % 3 == 0 || seed % 3 == 2;
        ADD(" %s }", ends[pick(g, ends_free ? 5 : 2)]);
        c.text = g->text.data;
        check_case(&c, few_threads);
        opf_arena_fini(&arena);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pad), cmocka_unit_test(test_gather), cmocka_unit_test(test_scatter), cmocka_unit_test(test_random)};
    if (argc > 1)
        first_seed = strtoull(argv[1], NULL, 10);
    if (argc > 2)
        n_seeds = strtoull(argv[2], NULL, 10);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
