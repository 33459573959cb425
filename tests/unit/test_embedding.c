/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows that kernels read from their tables by index: which kernels do, which rows are stored all the same, indices that
 * are wrong, and random ones against stored rows. `test_embedding SEED COUNT` repeats what a failure names.
 */
#include "plan_case.h"
#include "steps_case.h"

#define SIZES "N=2 S=3; N=1 S=1; N=3 S=1; N=1 S=5; N=0 S=3; N=2 S=0"

static void check_list(const steps_case *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        steps_case c = cases[i];
        test_case all = {NULL, cases[i].sizes, cases[i].text};
        char sizes[80];
        const char *p = cases[i].sizes;
        assert_true(next_sizes(&p, sizes));
        c.sizes = sizes;
        check_steps(&c);
        check_case(&all, few_threads);
    }
}

/* ---- chosen cases ---- */

static void test_elementwise(void **state)
{
    static const steps_case cases[] = {
        {"elementwise_f32", 1, SIZES, "g (int64[N,S] i, float[7,5] w) => (y) { a = Gather(w, i) y = Relu(a) }"},
        {"elementwise_f32", 1, SIZES,
         "g (int64[N,S] i, int32[S] j, float[2,700] w, float[3,700] w2, float[700] w3) => (y) { a = Gather(w, i)"
         " b = Gather(w2, j) s = Add(a, b) y = Mul(s, w3) }"},
        /* Rows of several axes, of one element, of none; one index, and none. */
        {"elementwise_f32", 1, SIZES,
         "g (int64[N,S] i, float[N,S,3,4] x, float[5,3,4] w) => (y) { a = Gather<axis = -3>(w, i) y = Add(x, a) }"},
        {"elementwise_f32", 1, SIZES,
         "g (int64[N,S] i, float[N,S,6] x, float[5,1] w) => (y) { a = Gather(w, i) b = Add(x, a) y = Mul(b, a) }"},
        {"elementwise_f32", 1, SIZES, "g (int64[N,S] i, float[5,1] w) => (y) { a = Gather(w, i) y = Neg(a) }"},
        {"elementwise_f32", 1, SIZES,
         "g (int64[N,S] i, float[N,S,3,4] x, float[5,1,4] w) => (y) { a = Gather(w, i) y = Sub(a, x) }"},
        {NULL, -1, SIZES, "g (int64[N,S] i, float[5,0] w) => (y) { a = Gather(w, i) y = Neg(a) }"},
        {"elementwise_f32", 1, "N=2",
         "g (int64 i, float[N,6] x, float[5,6] w) => (y) { a = Gather(w, i) y = Add(a, x) }"},
        {"elementwise_f32", 1, SIZES,
         "g (int64[N,1] i, int64[1,S] j, float[N,S,6] x, float[5,6] w) => (y) { a = Gather(w, i) b = Gather(w, j)"
         " s = Add(x, a) y = Add(s, b) }"},
        /* What the indices count is broadcast along a row, or lies along its columns. */
        {"elementwise_f32", 1, SIZES,
         "g (int64[N] i, float[S,N,3,4] x, float[5,3,4] w) => (y) { a = Gather(w, i) y = Mul(a, x) }"},
        {"elementwise_f32", 1, "N=2 S=3; N=1 S=1",
         "g (int64[3] i, float[N,S,3,1] x, float[5,1] w) => (y) { a = Gather(w, i) y = Add(a, x) }"},
        /* Computed tables, one of which the result may not be written over. */
        {"elementwise_f32", 2, SIZES,
         "g (int64[N,S] i, float[7,5] x) => (y) { t = Exp(x) a = Gather(t, i) y = Neg(a) }"},
        {"elementwise_f32", 2, "N=4",
         "g (int64[N] i, float[N,5] x) => (y) { t = Exp(x) a = Gather(t, i) y = Add(t, a) }"},
        {"elementwise_f32", -1, SIZES,
         "g (int64[N,S] i, float[5,7] x) => (y) { t = Transpose(x) a = Gather(t, i) y = Neg(a) }"},
        /* The same value twice; results that others read; a result in a Concat. */
        {"elementwise_f32", 1, SIZES, "g (int64[N,S] i, float[7,5] w) => (y) { a = Gather(w, i) y = Mul(a, a) }"},
        {"elementwise_f32", 1, SIZES,
         "g (int64[N,S] i, float[7,5] w, float[N,S,5] x) => (y, z) { a = Gather(w, i) z = Add(a, x) y = Exp(z) }"},
        {"elementwise_f32", 2, SIZES,
         "g (int64[N,S] i, float[7,5] w, float[N,S,5] x) => (y) { a = Gather(w, i) b = Neg(a) c = Exp(x)"
         " y = Concat<axis = 1>(b, c) }"},
        /* The other operand lies channels last. */
        {"elementwise_f32", -1, "N=2 S=3; N=1 S=1; N=0 S=2",
         "g (int64[N] i, float[N,4,S,3] x, float[6,4,1,1] w, float[7,12,1,3] w2, float[6,12,1,1] w3) => (y)"
         " { c = Conv(x, w) p = MaxPool<kernel_shape = [1,1]>(c) d = Concat<axis = 1>(c, p) a = Gather(w2, i)"
         " e = Mul(d, a) f = Exp(e) y = Conv(f, w3) }"},
    };
    (void)state;
    check_list(cases, sizeof cases / sizeof *cases);
}

static void test_rows(void **state)
{
    static const steps_case cases[] = {
        {"layer_norm_f32", 1, SIZES,
         "g (int64[N,S] i, int64[N,S] j, int32[1,S] k, float[7,40] w, float[2,40] w2, float[9,40] w3, float[40] w4,"
         " float[40] w5) => (y) { a = Gather(w, i) b = Gather(w2, j) c = Gather(w3, k) d = Add(a, b) e = Add(d, c)"
         " y = LayerNormalization(e, w4, w5) }"},
        {"layer_norm_f32", 1, SIZES,
         "g (int64[N,S] i, int32[S] j, float[7,600] w, float[2,600] w2, float[600] w4) => (y, s) { a = Gather(w, i)"
         " b = Gather(w2, j) s = Add(a, b) y = LayerNormalization(s, w4) }"},
        {"rms_norm_f32", 1, SIZES,
         "g (int64[N,S] i, float[7,40] w, float[40] w4) => (y) { a = Gather(w, i) b = RMSNormalization(a, w4)"
         " y = Gelu(b) }"},
        {"rms_norm_f32", 1, SIZES,
         "g (int64[N,S] i, float[N,S,40] x, float[7,40] w, float[40] w4) => (y) { b = RMSNormalization(x, w4)"
         " a = Gather(w, i) y = Mul(b, a) }"},
        {"softmax_f32", 1, SIZES, "g (int64[N,S] i, float[7,40] w) => (y) { a = Gather(w, i) y = Softmax(a) }"},
        {"log_softmax_f32", 1, SIZES, "g (int64[N,S] i, float[7,3,4] w) => (y) { a = Gather(w, i) y = LogSoftmax(a) }"},
        {"lp_norm_f32", 1, SIZES, "g (int64[N,S] i, float[7,40] w) => (y) { a = Gather(w, i) y = LpNormalization(a) }"},
        /* All axes of a row, some of them, one element. */
        {"layer_norm_f32", 1, SIZES,
         "g (int64[N,S] i, float[7,3,4] w, float[3,4] w4) => (y) { a = Gather(w, i)"
         " y = LayerNormalization<axis = -2>(a, w4) }"},
        {"layer_norm_f32", 1, SIZES,
         "g (int64[N,S] i, float[N,S,3,4] x, float[7,1,4] w, float[4] w4) => (y) { a = Gather(w, i) b = Add(x, a)"
         " y = LayerNormalization(b, w4) }"},
        {"layer_norm_f32", 1, SIZES,
         "g (int64[N,S] i, float[N,S,4] x, float[7,1] w, float[4] w4) => (y) { a = Gather(w, i) b = Add(x, a)"
         " y = LayerNormalization(b, w4) }"},
        {"layer_norm_f32", 2, SIZES,
         "g (int64[N,S] i, float[7,40] x, float[40] w4) => (y) { t = Exp(x) a = Gather(t, i)"
         " y = LayerNormalization(a, w4) }"},
        /* Over the table's buffer nothing is written. */
        {"layer_norm_f32", 2, "N=4",
         "g (int64[N] i, float[N,40] x, float[40] w4) => (y) { t = Exp(x) a = Gather(t, i)"
         " b = LayerNormalization(t, w4) y = Add(b, a) }"},
    };
    (void)state;
    check_list(cases, sizeof cases / sizeof *cases);
}

/* Marked or not, the rows have a place where their reader wants one. */
static void test_stored(void **state)
{
    static const steps_case cases[] = {
        {"gather_rows", 2, SIZES, "g (int64[N,S] i, float[7,5] w) => (y, a) { a = Gather(w, i) y = Relu(a) }"},
        {"gather_rows", 3, SIZES,
         "g (int64[N,S] i, float[7,5] w) => (y, z) { a = Gather(w, i) y = Relu(a) z = Softmax(a) }"},
        {"gather_rows", 2, SIZES,
         "g (int64[N,S] i, float[7,5] w, float[5,6] w2) => (y) { a = Gather(w, i) b = MatMul(a, w2) y = Relu(b) }"},
        {"gather_rows", 2, SIZES, "g (int64[N,S] i, float[4,7,5] w) => (y) { a = Gather<axis = 1>(w, i) y = Relu(a) }"},
        {"gather_rows", 2, SIZES, "g (int64[N,S] i, float[7] w) => (y) { a = Gather(w, i) y = Relu(a) }"},
        {"gather_rows", 2, SIZES,
         "g (int64[N,3] i, float[7,5] w, float[3,5] w4) => (y) { a = Gather(w, i)"
         " y = LayerNormalization<axis = 1>(a, w4) }"},
        {"gather_rows", 2, SIZES,
         "g (int64[1] i, float[N,S,5] x, float[7,5] w) => (y) { a = Gather(w, i) b = Squeeze(a)"
         " y = LayerNormalization(x, b) }"},
        {"gather_rows", 2, SIZES, "g (int64[N,S] i, float[7,5] w) => (y) { a = Gather(w, i) y = Celu<alpha = -1.0>(a) }"},
        {NULL, -1, SIZES, "g (int64[N,S] i, float16[7,5] w) => (y) { a = Gather(w, i) y = Relu(a) }"},
        /* What a product adds, a reader in a later segment, and one whose result is empty. */
        {"gather_rows", 2, SIZES,
         "g (int64[N,S] i, float[N,S,4] x, float[7,5] w, float[4,5] w2) => (y) { a = Gather(w, i) b = MatMul(x, w2)"
         " y = Add(b, a) }"},
        {NULL, -1, SIZES,
         "g (int64[N] i, float[S] x, float[7,5] w) => (y, z) { a = Gather(w, i) z = NonZero(x) c = Cast<to = 1>(z)"
         " d = ReduceSum<keepdims = 0>(c) y = Add(a, d) }"},
    };
    (void)state;
    check_list(cases, sizeof cases / sizeof *cases);
}

/* ---- wrong indices ---- */

static opf_status run_with(const opf_model *model, opf_mode mode, int64_t wrong_i, int32_t wrong_j, opf_error *error)
{
    int64_t i[4] = {0, -7, 6, wrong_i};
    int32_t j[4] = {1, wrong_j, 0, -2};
    const opf_tensor in[] = {{.type = OPF_INT64, .rank = 1, .dims = {4}, .data = i, .bytes = sizeof i},
                             {.type = OPF_INT32, .rank = 1, .dims = {4}, .data = j, .bytes = sizeof j}};
    const opf_session_options options = {.threads = 2, .mode = mode};
    opf_session *session = NULL;
    opf_tensor out = {0};
    assert_int_equal(opf_session_create(model, &options, &session, error), OPF_OK);
    const opf_status status = opf_session_run(session, in, 2, &out, 1, error);
    opf_session_destroy(&session);
    return status;
}

/* The Gather is named, in the words of the unfused graph, and the first one of two. */
static void test_wrong_indices(void **state)
{
    static const char *const texts[] = {
        "g (int64[N] i, int32[N] j, float[7,40] w, float[2,40] w2) => (y) { [words] a = Gather(w, i)"
        " [types] b = Gather(w2, j) [sum] y = Add(a, b) }",
        "g (int64[N] i, int32[N] j, float[7,40] w, float[2,40] w2, float[40] w3) => (y) { [words] a = Gather(w, i)"
        " [types] b = Gather(w2, j) s = Add(a, b) [norm] y = LayerNormalization(s, w3) }",
        "g (int64[N] i, int32[N] j, float[7,0] w, float[2,0] w2) => (y) { [words] a = Gather(w, i)"
        " [types] b = Gather(w2, j) [sum] y = Add(a, b) }"};
    static const struct {
        int64_t i;
        int32_t j;
        const char *node;
    } runs[] = {{0, 0, NULL},
                {7, 1, "words (Gather)"},
                {-8, 1, "words (Gather)"},
                {6, 2, "types (Gather)"},
                {INT64_MIN, -3, "words (Gather)"},
                {-1, INT32_MAX, "types (Gather)"}};
    (void)state;
    for (size_t t = 0; t < sizeof texts / sizeof *texts; t++) {
        text_model m;
        const opf_model_options options = {0};
        text_model_open(&m, texts[t], &options, 1);
        for (size_t r = 0; r < sizeof runs / sizeof *runs; r++) {
            opf_error fused, unfused;
            const opf_status wanted = runs[r].node == NULL ? OPF_OK : OPF_INVALID_INPUT;
            assert_int_equal(run_with(m.model, OPF_MODE_FUSED, runs[r].i, runs[r].j, &fused), wanted);
            assert_int_equal(run_with(m.model, OPF_MODE_UNFUSED, runs[r].i, runs[r].j, &unfused), wanted);
            if (wanted == OPF_OK)
                continue;
            assert_non_null(strstr(fused.message, runs[r].node));
            assert_string_equal(fused.message, unfused.message);
        }
        text_model_close(&m);
    }
}

/* ---- random ones ---- */

enum { MOST_AXES = 3 };

typedef struct generator {
    opf_random random;
    opf_text inputs, constants, nodes;
    int rank; /* of all results: some axes of indices, then those of rows */
    int64_t dims[2 * MOST_AXES];
    int n; /* tables */
} generator;

static int64_t pick(generator *g, int64_t n)
{
    return (int64_t)(opf_random_next(&g->random) % (uint64_t)n);
}

static void add_dims(opf_text *text, const char *type, int n, const int64_t *dims)
{
    opf_text_add(text, "%s", type);
    for (int i = 0; i < n; i++)
        opf_text_add(text, "%s%lld", i == 0 ? "[" : ",", (long long)dims[i]);
    opf_text_add(text, "%s", n == 0 ? "" : "]");
}

/* A value r<n> that broadcasts to the last `rank` axes of the result: rows of a table, a constant or computed, by
 * indices that are known or not. */
static void add_rows(generator *g, int rank, bool broadcasts)
{
    int64_t dims[2 * MOST_AXES], table[MOST_AXES + 1], count = 1;
    const int columns = 1 + (int)pick(g, rank < MOST_AXES ? rank : MOST_AXES), k = rank - columns, n = g->n++;
    const bool computed = pick(g, 3) == 0, small = pick(g, 2) == 0;
    for (int i = 0; i < rank; i++)
        dims[i] = broadcasts && pick(g, 4) == 0 ? 1 : g->dims[g->rank - rank + i];
    table[0] = 1 + pick(g, 6);
    for (int i = 0; i < columns; i++)
        table[1 + i] = dims[k + i];
    opf_text_add(&g->inputs, ", ");
    add_dims(&g->inputs, "float", columns + 1, table);
    opf_text_add(&g->inputs, " %s%d", computed ? "x" : "w", n);
    opf_text_add(&g->constants, ", ");
    add_dims(&g->constants, small ? "int32" : "int64", k, dims);
    opf_text_add(&g->constants, " i%d = {", n);
    for (int i = 0; i < k; i++)
        count *= dims[i];
    for (int64_t i = 0; i < count; i++)
        opf_text_add(&g->constants, "%s%lld", i == 0 ? "" : ",", (long long)(pick(g, 2 * table[0]) - table[0]));
    opf_text_add(&g->constants, "}");
    if (computed)
        opf_text_add(&g->nodes, " t%d = Tanh(x%d)", n, n);
    opf_text_add(&g->nodes, " j%d = Add(i%d, m%d) r%d = Gather(%s%d, %s%d)", n, n, small ? 32 : 64, n,
                 computed ? "t" : "w", n, pick(g, 8) == 0 ? "i" : "j", n);
}

static const char *generate(generator *g)
{
    static const char *const ops[] = {"Add", "Add", "Sub", "Mul", "Max"};
    static const char *const ends[] = {
        "y = Relu(s)",     "y = Softmax(s)",   "y = LpNormalization(s)", "y = Exp(s)", "y = Concat<axis = 0>(s, s)",
        "y = Identity(s)", "y = LogSoftmax(s)"};
    g->rank = 2 + (int)pick(g, 3);
    for (int i = 0; i < g->rank; i++)
        g->dims[i] = pick(g, 20) == 0 ? 0 : pick(g, 20) == 0 ? 600 : 1 + pick(g, 5);
    opf_text_add(&g->inputs, "g (int64 z, ");
    add_dims(&g->inputs, "float", g->rank, g->dims);
    opf_text_add(&g->inputs, " x, float[%lld] w", (long long)g->dims[g->rank - 1]);
    opf_text_add(&g->constants, " <int64 n0 = {0}");
    opf_text_add(&g->nodes, " { m64 = Clip(z, n0, n0) m32 = Cast<to = 6>(m64)");
    const bool alone = pick(g, 3) != 0;
    add_rows(g, g->rank, !alone);
    opf_text_add(&g->nodes, " s0 = %s", alone ? "Identity(r0)" : "Add(x, r0)");
    const int n = 1 + (int)pick(g, 3);
    for (int i = 1; i < n; i++) {
        add_rows(g, 1 + (int)pick(g, g->rank), true);
        const bool turn = pick(g, 2) == 0;
        opf_text_add(&g->nodes, " s%d = %s(%s%d, %s%d)", i, ops[pick(g, 5)], turn ? "r" : "s", turn ? i : i - 1,
                     turn ? "s" : "r", turn ? i - 1 : i);
    }
    if (pick(g, 3) == 0)
        opf_text_add(&g->nodes, " s = LayerNormalization(s%d, w) y = Identity(s)", n - 1);
    else
        opf_text_add(&g->nodes, " s = Identity(s%d) %s", n - 1, ends[pick(g, 7)]);
    const bool shows = pick(g, 6) == 0;
    opf_text_add(&g->inputs, ") => (y%s)%s>%s }", shows ? ", r0" : "", g->constants.data, g->nodes.data);
    return g->inputs.data;
}

/* The same bits as where the rows are stored, on any threads. */
static void check_bits(const char *text, opf_cpu_level level)
{
    const char *const skip[] = {"embedding"};
    const opf_model_options options = {.level = level}, stored = {.level = level, .skip = skip, .n_skip = 1};
    text_model m;
    tensors inputs;
    results want, have;
    text_model_open(&m, text, &stored, 1);
    make_inputs(m.model, "", 7, &inputs);
    run_model(m.model, OPF_MODE_FUSED, 1, &inputs, NULL, text, &want);
    text_model_close(&m);
    text_model_open(&m, text, &options, 1);
    for (int i = 0; few_threads[i] != 0; i++) {
        run_model(m.model, OPF_MODE_FUSED, few_threads[i], &inputs, NULL, text, &have);
        same_bits(&want, &have, few_threads[i], opf_cpu_level_name(level), text);
        free_results(&have);
    }
    text_model_close(&m);
    free_results(&want);
    free_tensors(&inputs);
}

static uint64_t first_seed = 1, n_seeds = 300;

static void test_random(void **state)
{
    (void)state;
    for (uint64_t seed = first_seed; seed < first_seed + n_seeds; seed++) {
        generator g = {.rank = 0};
        opf_heap heap;
        opf_arena arena;
        opf_heap_init(&heap, NULL, 0);
        opf_arena_init(&arena, &heap);
        opf_text_init(&g.inputs, &arena);
        opf_text_init(&g.constants, &arena);
        opf_text_init(&g.nodes, &arena);
        opf_random_init(&g.random, seed);
        const char *text = generate(&g);
        for (opf_cpu_level level = OPF_CPU_SCALAR; level <= opf_cpu_detect(); level++)
            check_bits(text, level);
        opf_arena_fini(&arena);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_elementwise), cmocka_unit_test(test_rows),
                                       cmocka_unit_test(test_stored), cmocka_unit_test(test_wrong_indices),
                                       cmocka_unit_test(test_random)};
    if (argc > 1)
        first_seed = strtoull(argv[1], NULL, 10);
    if (argc > 2)
        n_seeds = strtoull(argv[2], NULL, 10);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
