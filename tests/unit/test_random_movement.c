/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random graphs of data movement: transposes, reshapes, slices, splits and joins with a little arithmetic in between,
 * as the passes that merge and cancel them meet it. Fused and unfused against the reference. `test_random_movement SEED
 * COUNT` repeats what a failure names.
 */
#include "text_model.h"

enum { MAX_VALUES = 60, MAX_RANK = 6 };

typedef struct value {
    int rank;
    int64_t dims[MAX_RANK];
} value;

typedef struct generator {
    opf_random random;
    opf_text constants, nodes; /* of the text */
    value values[MAX_VALUES];
    int n, lists;
} generator;

#define NODE(...) opf_text_add(&g->nodes, __VA_ARGS__)

static int pick(generator *g, int64_t n)
{
    return (int)(opf_random_next(&g->random) % (uint64_t)n);
}

static int make(generator *g, value v)
{
    assert_in_range(g->n, 0, MAX_VALUES - 1);
    g->values[g->n] = v;
    return g->n++;
}

/* A constant list; its number. */
static int list(generator *g, int n, const int64_t *numbers)
{
    opf_text_add(&g->constants, "%sint64[%d] k%d = {", g->lists == 0 ? "" : ", ", n, g->lists);
    for (int i = 0; i < n; i++)
        opf_text_add(&g->constants, "%s%lld", i == 0 ? "" : ",", (long long)numbers[i]);
    opf_text_add(&g->constants, "}");
    return g->lists++;
}

static int one(generator *g, int64_t number)
{
    return list(g, 1, &number);
}

/* Mostly to channels-last and back, so that transposes meet. */
static int transpose(generator *g, int x)
{
    value v = g->values[x], y = v;
    int perm[MAX_RANK], kind = pick(g, 3);
    for (int i = 0; i < v.rank; i++)
        perm[i] = i < 1 || v.rank < 3 ? (v.rank == 2 ? 1 - i : i)
                  : kind == 0         ? (i == v.rank - 1 ? 1 : i + 1)
                  : kind == 1         ? (i == 1 ? v.rank - 1 : i - 1)
                                      : i;
    if (kind == 2 && v.rank > 2) {
        const int i = pick(g, v.rank), j = pick(g, v.rank), swap = perm[i];
        perm[i] = perm[j];
        perm[j] = swap;
    }
    NODE("v%d = Transpose<perm = [", g->n);
    for (int i = 0; i < v.rank; i++) {
        NODE("%s%d", i == 0 ? "" : ",", perm[i]);
        y.dims[i] = v.dims[perm[i]];
    }
    NODE("]>(v%d)\n", x);
    return make(g, y);
}

static int unary(generator *g, int x)
{
    static const char *const ops[] = {"Relu", "Neg", "Abs", "Tanh", "Identity"};
    NODE("v%d = %s(v%d)\n", g->n, ops[pick(g, 5)], x);
    return make(g, g->values[x]);
}

/* With a value of the same shape, or a constant row along one axis. */
static int binary(generator *g, int x)
{
    static const char *const ops[] = {"Add", "Sub", "Mul", "Max"};
    const value v = g->values[x];
    const char *op = ops[pick(g, 4)];
    for (int other = g->n - 1; other >= 0 && pick(g, 4) != 0; other--)
        if (other != x && g->values[other].rank == v.rank &&
            memcmp(g->values[other].dims, v.dims, sizeof *v.dims * (size_t)v.rank) == 0) {
            NODE("v%d = %s(v%d, v%d)\n", g->n, op, x, other);
            return make(g, v);
        }
    const int axis = v.rank > 0 ? pick(g, v.rank) : 0, number = g->lists++;
    opf_text_add(&g->constants, "%sfloat[%lld", number == 0 ? "" : ", ", (long long)(v.rank > 0 ? v.dims[axis] : 1));
    for (int i = axis + 1; i < v.rank; i++)
        opf_text_add(&g->constants, ",1");
    opf_text_add(&g->constants, "] k%d = {", number);
    for (int64_t i = 0; i < (v.rank > 0 ? v.dims[axis] : 1); i++)
        opf_text_add(&g->constants, "%s%d", i == 0 ? "" : ",", 1 + pick(g, 3));
    opf_text_add(&g->constants, "}");
    NODE("v%d = %s(v%d, k%d)\n", g->n, op, x, number);
    value y = v;
    y.rank = v.rank > 0 ? v.rank : 1;
    y.dims[0] = v.rank > 0 ? v.dims[0] : 1;
    return make(g, y);
}

/* Joins two axes, splits one, or adds or takes a 1. */
static int reshape(generator *g, int x)
{
    value y = g->values[x];
    const int i = y.rank > 0 ? pick(g, y.rank) : 0;
    if (i + 1 < y.rank && pick(g, 2) == 0) {
        y.dims[i] *= y.dims[i + 1];
        memmove(&y.dims[i + 1], &y.dims[i + 2], sizeof *y.dims * (size_t)(y.rank - i - 2));
        y.rank--;
    } else if (y.rank > 0 && y.rank < MAX_RANK) {
        const int64_t d = y.dims[i], by = d > 2 && d % 2 == 0 ? 2 : d > 3 && d % 3 == 0 ? 3 : 1;
        memmove(&y.dims[i + 1], &y.dims[i], sizeof *y.dims * (size_t)(y.rank - i));
        y.dims[i] = by;
        y.dims[i + 1] = d / by;
        y.rank++;
    }
    const int target = list(g, y.rank, y.dims);
    NODE("v%d = Reshape(v%d, k%d)\n", g->n, x, target);
    return make(g, y);
}

static int slice(generator *g, int x)
{
    value y = g->values[x];
    if (y.rank == 0)
        return unary(g, x);
    const int axis = pick(g, y.rank);
    const int64_t d = y.dims[axis], first = pick(g, d), count = 1 + pick(g, d - first);
    const int64_t step = pick(g, 3) != 0 ? 1 : pick(g, 2) == 0 ? 2 : -1;
    const int64_t last = first + count - 1, from_end = pick(g, 2) == 0 ? d : 0; /* bounds counted from the end */
    const int starts = one(g, (step > 0 ? first : last) - from_end);
    const int ends = one(g, step > 0 ? (last == d - 1 && pick(g, 2) == 0 ? INT64_MAX
                                        : last == d - 1                  ? d
                                                                         : last + 1 - from_end)
                                     : (first == 0 ? INT64_MIN : first - 1 - from_end));
    const int axes = one(g, pick(g, 2) == 0 ? axis : axis - y.rank), steps = one(g, step);
    NODE("v%d = Slice(v%d, k%d, k%d, k%d, k%d)\n", g->n, x, starts, ends, axes, steps);
    y.dims[axis] = step > 0 ? (count + step - 1) / step : count;
    return make(g, y);
}

/* In two, and perhaps joined again, in this order or the other. */
static int split(generator *g, int x)
{
    value first = g->values[x], second = first;
    const int axis = first.rank > 0 ? pick(g, first.rank) : 0;
    if (first.rank == 0 || first.dims[axis] < 2)
        return unary(g, x);
    const int64_t sizes[2] = {1 + pick(g, first.dims[axis] - 1), first.dims[axis]};
    first.dims[axis] = sizes[0];
    second.dims[axis] -= sizes[0];
    const int parts = list(g, 2, (const int64_t[]){first.dims[axis], second.dims[axis]});
    NODE("v%d, v%d = Split<axis = %d>(v%d, k%d)\n", g->n, g->n + 1, axis, x, parts);
    const int a = make(g, first), b = make(g, second);
    if (pick(g, 2) == 0)
        return pick(g, 2) == 0 ? a : b;
    const bool in_order = pick(g, 3) != 0;
    NODE("v%d = Concat<axis = %d>(v%d, v%d)\n", g->n, axis, in_order ? a : b, in_order ? b : a);
    return make(g, g->values[x]);
}

static int concat(generator *g, int x)
{
    value y = g->values[x];
    if (y.rank == 0)
        return unary(g, x);
    const int axis = pick(g, y.rank);
    int other = x;
    for (int i = 0; i < g->n; i++) {
        bool fits = g->values[i].rank == y.rank;
        for (int k = 0; fits && k < y.rank; k++)
            fits = k == axis || g->values[i].dims[k] == y.dims[k];
        other = fits && pick(g, 2) == 0 ? i : other;
    }
    if (y.dims[axis] + g->values[other].dims[axis] > 20)
        return unary(g, x);
    y.dims[axis] += g->values[other].dims[axis];
    NODE("v%d = Concat<axis = %d>(v%d, v%d)\n", g->n, axis - (pick(g, 2) == 0 ? y.rank : 0), x, other);
    return make(g, y);
}

static int pad(generator *g, int x)
{
    value y = g->values[x];
    int64_t pads[2 * MAX_RANK];
    for (int i = 0; i < y.rank; i++) {
        pads[i] = pick(g, 2);
        pads[y.rank + i] = pick(g, 3) == 0;
        y.dims[i] += pads[i] + pads[y.rank + i];
        if (y.dims[i] > 20)
            return unary(g, x);
    }
    const int border = list(g, 2 * y.rank, pads);
    NODE("v%d = Pad(v%d, k%d)\n", g->n, x, border);
    return make(g, y);
}

static int reduce(generator *g, int x)
{
    static const char *const ops[] = {"ReduceMean", "ReduceMax", "ReduceL2"};
    value v = g->values[x], y = {0};
    const int first = v.rank > 0 ? pick(g, v.rank) : 0, n = 1 + (first + 1 < v.rank && pick(g, 2) == 0);
    const bool keepdims = pick(g, 2) == 0;
    if (v.rank == 0)
        return unary(g, x);
    const int axes = list(g, n, (const int64_t[]){first, first + 1});
    NODE("v%d = %s<keepdims = %d>(v%d, k%d)\n", g->n, ops[pick(g, 3)], keepdims, x, axes);
    for (int i = 0; i < v.rank; i++)
        if (i < first || i >= first + n)
            y.dims[y.rank++] = v.dims[i];
        else if (keepdims)
            y.dims[y.rank++] = 1;
    return make(g, y);
}

static int softmax(generator *g, int x)
{
    if (g->values[x].rank == 0)
        return unary(g, x);
    NODE("v%d = Softmax<axis = %d>(v%d)\n", g->n, pick(g, g->values[x].rank), x);
    return make(g, g->values[x]);
}

static const char *generate(generator *g, opf_arena *arena)
{
    static int (*const steps[])(generator *, int) = {transpose, transpose, transpose, transpose, unary,  unary,
                                                     binary,    binary,    reshape,   reshape,   slice,  slice,
                                                     split,     concat,    pad,       reduce,    softmax};
    opf_text text;
    opf_text_init(&text, arena);
    opf_text_init(&g->constants, arena);
    opf_text_init(&g->nodes, arena);
    value x = {.rank = 4, .dims = {1 + pick(g, 2), 4, 3 + pick(g, 4), 6}};
    int last = make(g, x);
    for (int n = 4 + pick(g, 14); n > 0; n--)
        last = steps[pick(g, sizeof steps / sizeof *steps)](g, pick(g, 6) == 0 ? pick(g, g->n) : last);
    opf_text_add(&text, "g (float[%lld,%lld,%lld,%lld] v0) => (y", (long long)x.dims[0], (long long)x.dims[1],
                 (long long)x.dims[2], (long long)x.dims[3]);
    for (int i = 1; i + 1 < g->n; i++)
        if (pick(g, 12) == 0)
            opf_text_add(&text, ", v%d", i);
    opf_text_add(&text, ")%s%s%s {\n%sy = Neg(v%d)\n}", g->lists > 0 ? " <" : "", g->lists > 0 ? g->constants.data : "",
                 g->lists > 0 ? ">" : "", g->nodes.data, last);
    return text.data;
}

/* Fused and unfused against the reference; the steps of the fused run. */
static size_t check_text(const char *text, const char *name, uint64_t seed)
{
    text_model m;
    tensors inputs;
    results want, have;
    size_t n_steps = 0;
    char label[80];
    const opf_model_options options = {0};
    text_model_open(&m, text, &options, seed);
    make_inputs(m.model, "", seed, &inputs);
    run_model(m.model, OPF_MODE_REFERENCE, 1, &inputs, NULL, text, &want);
    for (opf_mode mode = OPF_MODE_FUSED; mode <= OPF_MODE_UNFUSED; mode++) {
        (void)snprintf(label, sizeof label, "%s, %s", name, mode == OPF_MODE_FUSED ? "fused" : "unfused");
        run_model(m.model, mode, 1, &inputs, NULL, text, &have);
        compare_results(&have, &want, 1e-3, 1e-4, label, "", text);
        n_steps = mode == OPF_MODE_FUSED ? have.n_steps : n_steps;
        free_results(&have);
    }
    free_results(&want);
    free_tensors(&inputs);
    text_model_close(&m);
    return n_steps;
}

static void check_graph(uint64_t seed)
{
    static generator g;
    opf_heap heap;
    opf_arena arena;
    char name[40];
    opf_heap_init(&heap, NULL, 0);
    opf_arena_init(&arena, &heap);
    memset(&g, 0, sizeof g);
    opf_random_init(&g.random, seed);
    (void)snprintf(name, sizeof name, "seed %llu", (unsigned long long)seed);
    (void)check_text(generate(&g, &arena), name, seed);
    opf_arena_fini(&arena);
}

/* Weights that are made, moved and repeated are constants like any other, large as they are: one kernel each. */
static void test_made_weights(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "g (float[2,32,1,1] x, float[256] w1, float[256] w2, float[256] w3, float[256] p4) => (y) <int64[4] s = "
        "{256,32,1,1}, "
        "int64[1] t = {256}> { w = ConstantOfShape<value = float[1] {0.25}>(s) b = ConstantOfShape<value = float[1] "
        "{2}>(t) "
        "c = Conv(x, w, b) y = BatchNormalization(c, w1, w2, w3, p4) }",
        "g (float[3,96] x, float[1,128] w) => (y) <int64[2] s = {96,128}> { e = Expand(w, s) y = MatMul(x, e) }",
        "g (float[3,96] x, float[32,16] w) => (y) <int64[2] s = {3,8}> { e = Tile(w, s) y = MatMul(x, e) }",
        "g (float[3,96] x, float[100,200] w) => (y) <int64[2] s = {2,50}, int64[2] t = {98,178}> { e = Slice(w, s, t) "
        "y = MatMul(x, e) }",
        "g (float[3,96] x, float[96,200] w) => (y) <int64[2] s = {72,128}> { a, b = Split<axis = 1>(w, s) c = "
        "Transpose(b) d = Concat<axis = 0>(c, c) e = Transpose(d) y = MatMul(x, e) }",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const size_t n_steps = check_text(texts[i], "made weight", i + 1);
        if (n_steps != 1)
            fail_msg("%zu kernels instead of 1\n%s", n_steps, texts[i]);
    }
}

static uint64_t first_seed = 1, n_seeds = 400;

static void test_random_movement(void **state)
{
    (void)state;
    for (uint64_t seed = first_seed; seed < first_seed + n_seeds; seed++)
        check_graph(seed);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_movement), cmocka_unit_test(test_made_weights)};
    if (argc > 1)
        first_seed = strtoull(argv[1], NULL, 10);
    if (argc > 2)
        n_seeds = strtoull(argv[2], NULL, 10);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
