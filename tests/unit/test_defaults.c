/* SPDX-License-Identifier: Apache-2.0 */
/* Inputs with defaults: a run that feeds none of them uses a graph in which they are constants, any other run does not. */
#include "text_model.h"

#include <stdatomic.h>

/* ---- one model in two sessions ---- */

typedef struct twins {
    text_model   m;
    opf_session *session, *reference;
    tensors      all;              /* every input drawn */
    opf_tensor   unfed[MAX_PORTS]; /* the same without the inputs that have defaults */
    opf_tensor   out[MAX_PORTS];   /* of the latest run */
    size_t       n_out;
    opf_error    error;
} twins;

static void create_sessions(twins *t, opf_mode mode, int32_t threads, const char *sizes)
{
    opf_session_options session = {.mode = mode, .threads = threads}, reference = {.mode = OPF_MODE_REFERENCE, .threads = 1};
    assert_int_equal(opf_session_create(t->m.model, &session, &t->session, &t->error), OPF_OK);
    assert_int_equal(opf_session_create(t->m.model, &reference, &t->reference, &t->error), OPF_OK);
    make_inputs(t->m.model, sizes, 7, &t->all);
    t->n_out = opf_model_output_count(t->m.model);
    for (size_t i = 0; i < t->all.n; i++) {
        opf_port port;
        assert_int_equal(opf_model_input(t->m.model, i, &port), OPF_OK);
        t->unfed[i] = port.has_default ? (opf_tensor){0} : t->all.list[i];
    }
}

/* ir below 4: inputs named in options are overridable. */
static void open_twins(twins *t, const char *text, const opf_model_options *options, int64_t ir, opf_mode mode, const char *sizes)
{
    *t = (twins){.n_out = 0};
    opf_heap_init(&t->m.heap, NULL, 0);
    opf_arena_init(&t->m.arena, &t->m.heap);
    t->m.bytes = onnx_of_text(text, &t->m.arena, ir, 3);
    if (opf_model_from_memory(t->m.bytes.data, t->m.bytes.length, NULL, options, &t->m.model, &t->error) != OPF_OK)
        fail_text(text, "%s", t->error.message);
    create_sessions(t, mode, 2, sizes);
}

static void close_twins(twins *t)
{
    opf_session_destroy(&t->session);
    opf_session_destroy(&t->reference);
    free_tensors(&t->all);
    text_model_close(&t->m);
}

/* Both sessions give the same. */
static void run_twins(twins *t, const opf_tensor *in, size_t n_in)
{
    opf_tensor want[MAX_PORTS] = {{0}};
    memset(t->out, 0, sizeof t->out);
    if (opf_session_run(t->reference, in, n_in, want, t->n_out, &t->error) != OPF_OK ||
        opf_session_run(t->session, in, n_in, t->out, t->n_out, &t->error) != OPF_OK)
        fail_msg("%s", t->error.message);
    for (size_t i = 0; i < t->n_out; i++) {
        double max_abs, max_rel;
        size_t n_wrong;
        if (opf_tensor_compare(&t->out[i], &want[i], -1, -1, &max_abs, &max_rel, &n_wrong, &t->error) != OPF_OK)
            fail_msg("%s", t->error.message);
        if (n_wrong != 0)
            fail_msg("output %zu: %zu elements are wrong, by %g", i, n_wrong, max_abs);
    }
}

static void *copy_of(const opf_tensor *t)
{
    void *copy = malloc(t->bytes + 1);
    assert_non_null(copy);
    memcpy(copy, t->data, t->bytes);
    return copy;
}

/* Defaults, other numbers, defaults again: the same bits as before. */
static void check_turns(twins *t)
{
    run_twins(t, t->unfed, t->all.n);
    void *first = copy_of(&t->out[0]);
    run_twins(t, t->all.list, t->all.n);
    assert_true(t->out[0].bytes == 0 || memcmp(first, t->out[0].data, t->out[0].bytes) != 0);
    run_twins(t, t->unfed, t->all.n);
    assert_memory_equal(first, t->out[0].data, t->out[0].bytes);
    free(first);
}

static size_t count_steps(const twins *t)
{
    opf_profile profile;
    assert_int_equal(opf_session_profile(t->session, &profile, NULL), OPF_OK);
    return profile.n_steps;
}

/* ---- what runs ---- */

static const char *const conv = "g (float[N,4,9,9] x, float[16,4,3,3] d, float[16] d2) => (y) { a = Conv(x, d, d2)  y = Relu(a) }";

/* The steps, the packed weights and the bits of a model that is frozen. */
static void test_as_frozen(void **state)
{
    (void)state;
    twins                   open, frozen;
    const opf_model_options options = {.freeze = true};
    opf_profile             a, b;
    open_twins(&open, conv, NULL, 10, OPF_MODE_FUSED, "N=2");
    open_twins(&frozen, conv, &options, 10, OPF_MODE_FUSED, "N=2");
    assert_int_equal(open.all.n, 3);
    assert_int_equal(frozen.all.n, 1);
    run_twins(&open, open.unfed, 3);
    run_twins(&frozen, open.unfed, 1);
    assert_int_equal(open.out[0].bytes, frozen.out[0].bytes);
    assert_memory_equal(open.out[0].data, frozen.out[0].data, open.out[0].bytes);
    assert_int_equal(opf_session_profile(open.session, &a, NULL), OPF_OK);
    assert_int_equal(opf_session_profile(frozen.session, &b, NULL), OPF_OK);
    assert_int_equal(a.n_steps, b.n_steps);
    assert_int_equal(a.weight_bytes, b.weight_bytes);
    for (size_t i = 0; i < a.n_steps; i++) {
        assert_string_equal(a.steps[i].kernel, b.steps[i].kernel);
        assert_string_not_equal(a.steps[i].kernel, "reference");
    }
    run_twins(&open, open.all.list, 3);
    check_kernel(open.session, "reference", conv);
    close_twins(&open);
    close_twins(&frozen);
}

static void test_turns(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "g (float[N,4,9,9] x, float[16,4,3,3] d, float[16] d2) => (y) { a = Conv(x, d, d2)  y = Relu(a) }",
        "g (float[N,8] x, float[8,8] d, float[8] d2) => (y, z) { a = MatMul(x, d)  y = Add(a, d2)  z = Softmax(y) }",
        /* the default itself is an output, once, twice removed, and read by nobody */
        "g (float[N,8] x, float[8] d) => (d, y) { y = Add(x, d) }",
        "g (float[N,8] x, float[2,4] d) => (e, y) <int64[1] s = {8}> { e = Reshape(d, s)  y = Add(x, e) }",
        "g (float[N,8] x, float[8] d, float[3] d2) => (y) { y = Mul(x, d) }",
        /* bodies that capture it, and one that is handed it */
        "g (float[N,8] x, float[8,8] d) => (y) <float zero = {0}> { s = ReduceSum<keepdims = 0>(x)  c = Greater(s, zero)"
        " y = If<then_branch = t () => (u) { u = MatMul(x, d) }, else_branch = e () => (v) { n = MatMul(x, d)  v = Relu(n) }>(c) }",
        "g (float[N,8] x, float[8] d, float[8] d2) => (y) <int64 m = {3}, bool c = {1}>"
        " { y = Loop<body = b (int64 i, bool k, float[8] a) => (k2, a2) { k2 = Identity(k)  a2 = Add(a, d2) }>(m, c, d) }",
        /* sizes that depend on data */
        "g (float[N,8] x, float[8,8] d) => (y) { a = MatMul(x, d)  b = Relu(a)  y = NonZero(b) }",
        "g (float[N,8] x, float[8,8] d) => (y) { i = NonZero(x)  f = Cast<to = 1>(i)  a = ReduceMean<keepdims = 1>(f)  b = MatMul(x, d)  y = Add(a, b) }",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        for (opf_mode mode = OPF_MODE_FUSED; mode <= OPF_MODE_UNFUSED; mode++) {
            twins t;
            open_twins(&t, texts[i], NULL, 10, mode, "N=3");
            check_turns(&t);
            close_twins(&t);
        }
}

/* One that is fed is enough for all to be open: the others still have their defaults. */
static void test_some_are_fed(void **state)
{
    (void)state;
    twins t;
    open_twins(&t, conv, NULL, 10, OPF_MODE_FUSED, "N=1");
    opf_tensor in[3] = {t.all.list[0], {0}, t.all.list[2]};
    run_twins(&t, in, 3);
    check_kernel(t.session, "reference", conv);
    run_twins(&t, in, 1);
    assert_int_equal(count_steps(&t), 1);
    run_twins(&t, in, 3);
    close_twins(&t);
}

/* The choice and its bits do not depend on the number of threads. */
static void test_threads(void **state)
{
    (void)state;
    void *bits[2] = {NULL, NULL};
    twins t;
    open_twins(&t, conv, NULL, 10, OPF_MODE_FUSED, "N=2");
    for (int32_t k = 0; k < 2; k++) {
        opf_session_destroy(&t.session);
        opf_session_destroy(&t.reference);
        free_tensors(&t.all);
        create_sessions(&t, OPF_MODE_FUSED, 1 + 3 * k, "N=2");
        run_twins(&t, t.unfed, 3);
        bits[k] = copy_of(&t.out[0]);
    }
    assert_memory_equal(bits[0], bits[1], t.out[0].bytes);
    free(bits[0]);
    free(bits[1]);
    close_twins(&t);
}

/* A state that begins with zeros or anything, and is fed from the second step on. */
static void test_state_of_a_recurrent_net(void **state)
{
    (void)state;
    twins t;
    open_twins(&t,
               "g (float[1,1,4] x, float[1,12,4] w, float[1,12,3] w2, float[1,24] w3, float[1,1,3] d, float[1,1,3] d2) => (y, h, c)"
               " { y, h, c = LSTM<hidden_size = 3>(x, w, w2, w3, , d, d2) }",
               NULL, 10, OPF_MODE_FUSED, "");
    assert_int_equal(t.all.n, 3);
    opf_tensor in[3] = {t.all.list[0]};
    void      *first = NULL;
    for (int step = 0; step < 4; step++) {
        run_twins(&t, in, 3);
        if (step == 0)
            first = copy_of(&t.out[0]);
        for (int i = 1; i < 3; i++) { /* what the session returned stays valid only until it runs again */
            void *data = copy_of(&t.out[i]);
            free(in[i].data);
            in[i]      = t.out[i];
            in[i].data = data;
        }
    }
    assert_memory_not_equal(first, t.out[0].data, t.out[0].bytes);
    run_twins(&t, in, 1);
    assert_memory_equal(first, t.out[0].data, t.out[0].bytes);
    free(first);
    free(in[1].data);
    free(in[2].data);
    close_twins(&t);
}

/* ---- options ---- */

static void test_overridable(void **state)
{
    (void)state;
    const char *const       names[] = {"d"};
    const opf_model_options options = {.overridable = names, .n_overridable = 1};
    twins                   t;
    open_twins(&t, conv, &options, 3, OPF_MODE_FUSED, "N=1");
    assert_int_equal(t.all.n, 2); /* d2 is a constant before IR 4 */
    check_turns(&t);
    assert_int_equal(count_steps(&t), 1);
    close_twins(&t);
}

/* The model is what it was: both inputs may be fed, so nothing is constant; the kernels of the other runs are told. */
static void test_explain(void **state)
{
    (void)state;
    const opf_model_options freeze = {.freeze = true};
    for (int k = 0; k < 2; k++) {
        twins       t;
        opf_report *report;
        open_twins(&t, "g (float[N,4,9,9] x, float[4,4,3,3] d, float[4] w, float[4] w2, float[4] w3, float[4] p) => (y)"
                       " { a = Conv(x, d)  b = BatchNormalization(a, w, w2, w3, p)  y = Relu(b) }",
                   k == 0 ? NULL : &freeze, 10, OPF_MODE_FUSED, "N=1");
        assert_int_equal(opf_model_explain(t.m.model, &report, &t.error), OPF_OK);
        const opf_explanation *e     = opf_report_explanation(report);
        bool                   found = false;
        for (size_t i = 0; i < e->n_missed; i++)
            found = found || strstr(e->missed[i].reason, "also a graph input") != NULL;
        assert_true(found == (k == 0));
        assert_int_equal(e->nodes_unfed, k == 0 ? 1 : 0);
        run_twins(&t, t.unfed, t.all.n);
        assert_int_equal(count_steps(&t), 1);
        run_twins(&t, t.all.list, t.all.n);
        assert_int_equal(count_steps(&t), e->nodes_after);
        opf_report_destroy(&report);
        close_twins(&t);
    }
}

/* ---- guards ---- */

static void count_lines(void *user, const char *line)
{
    *(int *)user += strstr(line, "symbol N") != NULL;
}

/* x and q give one symbol two sizes: the frozen graph runs as loaded, once with a warning. */
static void test_symbols_in_conflict(void **state)
{
    (void)state;
    int                     lines   = 0;
    const opf_model_options options = {.log = count_lines, .log_user = &lines};
    twins                   t;
    open_twins(&t, "g (float[N,4] x, float[N,4] q, float[4,4] d) => (y) { a = MatMul(x, d)  b = Add(a, q)  y = Relu(b) }", &options, 10,
               OPF_MODE_FUSED, "N=3");
    run_twins(&t, t.unfed, 2);
    const size_t fused = count_steps(&t);
    t.unfed[1].dims[0] = t.all.list[1].dims[0] = 1;
    check_turns(&t);
    assert_int_equal(lines, 1);
    assert_true(count_steps(&t) > fused);
    check_kernel(t.session, "gemm", "d is a constant all the same");
    t.unfed[1].dims[0] = 3;
    run_twins(&t, t.unfed, 2);
    assert_int_equal(count_steps(&t), fused);
    close_twins(&t);
}

/* What fusing the open graph took for granted of N and C, the frozen one takes too. */
static void test_operand_that_enlarges(void **state)
{
    (void)state;
    static const char *const text =
        "g (float[3,4] x, float[4,N] v, float[C] t, float[4] d) => (y) { s = Mul(x, d)  m = MatMul(s, v)  p = Mul(m, t)  y = Relu(p) }";
    static const char *const sizes[] = {"N=5 C=5", "N=5 C=1", "N=1 C=6"};
    size_t                   steps[3];
    for (int i = 0; i < 3; i++) {
        twins t;
        open_twins(&t, text, NULL, 10, OPF_MODE_FUSED, sizes[i]);
        check_turns(&t);
        assert_int_equal(t.out[0].dims[1], i == 2 ? 6 : 5);
        steps[i] = count_steps(&t);
        close_twins(&t);
    }
    assert_true(steps[0] == steps[1] && steps[1] < steps[2]);
}

/* So with a mask of other symbols, whose sizes the scores have in all runs but the last. */
static void test_mask_that_enlarges(void **state)
{
    (void)state;
    static const char *const text =
        "g (float[N,2,S,4] q, float[N,2,S,4] k, float[N,2,S,4] v, float[M,1,1,T] m, float[4] d) => (y) {"
        " t = Transpose <perm = [0, 1, 3, 2]> (k)  s = MatMul(q, t)  a = Add(s, m)  p = Softmax(a)  o = MatMul(p, v)  "
        "y = Mul(o, d) }";
    static const char *const sizes[] = {"N=3 S=5 M=3 T=5", "N=3 S=5 M=1 T=1", "N=1 S=5 M=6 T=5"};
    size_t steps[3];
    for (int i = 0; i < 3; i++) {
        twins t;
        open_twins(&t, text, NULL, 10, OPF_MODE_FUSED, sizes[i]);
        check_turns(&t);
        assert_int_equal(t.out[0].dims[0], i == 2 ? 6 : 3);
        steps[i] = count_steps(&t);
        close_twins(&t);
    }
    assert_true(steps[0] == steps[1] && steps[1] < steps[2]);
}

/* A symbol that the default has too (it is 3 there) says nothing of the frozen graph. */
static void test_symbol_of_a_default(void **state)
{
    (void)state;
    int                     lines   = 0;
    const opf_model_options options = {.log = count_lines, .log_user = &lines};
    twins                   t;
    open_twins(&t, "g (float[N] x, float[N] d) => (y) { a = Add(x, d)  y = Relu(a) }", &options, 10, OPF_MODE_FUSED, "N=1");
    run_twins(&t, t.unfed, 1);
    assert_int_equal(t.out[0].dims[0], 3);
    assert_int_equal(lines, 0);
    run_twins(&t, t.all.list, 2);
    assert_int_equal(t.out[0].dims[0], 1);
    float      two[2] = {1, 2};
    opf_tensor in     = {.type = OPF_FLOAT, .rank = 1, .dims = {2}, .data = two, .bytes = sizeof two};
    assert_int_equal(opf_session_run(t.session, &in, 1, t.out, 1, &t.error), OPF_INVALID_INPUT);
    assert_non_null(strstr(t.error.message, "Add"));
    close_twins(&t);
}

/* Nor does the size of a default give that of another value. */
static void test_shape_beside_a_default(void **state)
{
    (void)state;
    twins t;
    open_twins(&t, "g (float[N] d, float[N] x) => (y, s) <int64 zero = {0}> { y = Relu(x)  h = Shape(y)  s = Gather(h, zero) }", NULL, 10,
               OPF_MODE_FUSED, "N=1");
    run_twins(&t, t.unfed, 2);
    assert_int_equal(*(const int64_t *)t.out[1].data, 1);
    close_twins(&t);
}

/* What every caller must feed is no error before a run does not. */
static void test_useless_default(void **state)
{
    (void)state;
    twins   t;
    int64_t shape[2] = {3, 4};
    float   d[10]    = {1};
    open_twins(&t, "g (float[2,6] x, int64[2] d) => (y) { y = Reshape(x, d) }", NULL, 10, OPF_MODE_FUSED, "");
    assert_int_equal(opf_session_run(t.session, t.unfed, 1, t.out, 1, &t.error), OPF_INVALID_INPUT);
    opf_tensor in[2] = {t.all.list[0], {.type = OPF_INT64, .rank = 1, .dims = {2}, .data = shape, .bytes = sizeof shape}};
    run_twins(&t, in, 2);
    assert_int_equal(t.out[0].dims[1], 4);
    close_twins(&t);

    /* A size that the caller gives makes the default one. */
    const opf_named_shape   five    = {.name = "d", .rank = 1, .dims = {5}};
    const opf_model_options options = {.shapes = &five, .n_shapes = 1};
    open_twins(&t, "g (float[1] x, float[N] d) => (y) { y = Add(x, d) }", &options, 10, OPF_MODE_FUSED, "");
    assert_int_equal(opf_session_run(t.session, t.unfed, 1, t.out, 1, &t.error), OPF_INVALID_INPUT);
    in[0] = t.all.list[0];
    in[1] = (opf_tensor){.type = OPF_FLOAT, .rank = 1, .dims = {5}, .data = d, .bytes = sizeof d};
    run_twins(&t, in, 2);
    close_twins(&t);
}

/* ---- memory ---- */

static void *count_alloc(void *user, size_t bytes, size_t alignment)
{
    atomic_fetch_add((atomic_long *)user, 1);
    return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

static void just_release(void *user, void *p, size_t bytes)
{
    (void)user;
    (void)bytes;
    free(p);
}

/* The plan outlives runs of the open graph, and prepare makes the one that a run needs. */
static void test_planned_runs_allocate_nothing(void **state)
{
    (void)state;
    atomic_long             calls     = 0;
    const opf_allocator     allocator = {count_alloc, just_release, &calls};
    const opf_model_options options   = {.allocator = &allocator};
    twins                   t;
    open_twins(&t, conv, &options, 10, OPF_MODE_FUSED, "N=2");
    check_turns(&t);
    opf_session *session;
    opf_tensor   shape = t.unfed[0];
    shape.data         = NULL;
    assert_int_equal(opf_session_create(t.m.model, NULL, &session, &t.error), OPF_OK);
    assert_int_equal(opf_session_prepare(session, &shape, 1, &t.error), OPF_OK);
    long       before = atomic_load(&calls);
    float     *y      = malloc(t.out[0].bytes);
    opf_tensor out    = {.data = y, .bytes = t.out[0].bytes};
    assert_int_equal(opf_session_run(t.session, t.unfed, 3, NULL, 0, &t.error), OPF_OK);
    assert_int_equal(opf_session_run(session, t.unfed, 3, &out, 1, &t.error), OPF_OK);
    assert_int_equal(atomic_load(&calls), before);
    free(y);
    opf_session_destroy(&session);
    close_twins(&t);
}

/* ---- verify ---- */

static void test_verify(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "g (float[N,4,9,9] x, float[8,4,3,3] d, float[8] p, float[8] d2, float[8] w, float[8] p2) => (y)"
        " { a = Conv(x, d)  b = BatchNormalization(a, p, d2, w, p2)  y = Relu(b) }",
        "g (float[N] x, float[N] d) => (y) { a = Add(x, d)  y = Relu(a) }", /* sizes that suit the default */
        "g (float[3] d) => (y) { y = Relu(d) }",
        "g (float[2,6] x, int64[2] d) => (y) { y = Cast<to = 1>(d) }",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        text_model         m;
        opf_report        *report;
        opf_verify_options options = {.threads = 2, .each = true};
        opf_error          error;
        size_t             fed = 0;
        text_model_open(&m, texts[i], NULL, 3);
        if (opf_model_verify(m.model, &options, &report, &error) != OPF_OK)
            fail_text(texts[i], "%s", error.message);
        const opf_verification *v = opf_report_verification(report);
        for (size_t k = 0; k < v->n_entries; k++)
            fed += strstr(v->entries[k].input, "defaults fed") != NULL;
        assert_true(v->passed);
        assert_int_equal(fed, 1);
        assert_true(v->n_entries > 1);
        opf_report_destroy(&report);
        text_model_close(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_as_frozen),
        cmocka_unit_test(test_turns),
        cmocka_unit_test(test_some_are_fed),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_state_of_a_recurrent_net),
        cmocka_unit_test(test_overridable),
        cmocka_unit_test(test_explain),
        cmocka_unit_test(test_symbols_in_conflict),
        cmocka_unit_test(test_operand_that_enlarges),
        cmocka_unit_test(test_mask_that_enlarges),
        cmocka_unit_test(test_symbol_of_a_default),
        cmocka_unit_test(test_shape_beside_a_default),
        cmocka_unit_test(test_useless_default),
        cmocka_unit_test(test_planned_runs_allocate_nothing),
        cmocka_unit_test(test_verify),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
