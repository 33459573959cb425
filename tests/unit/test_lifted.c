/* SPDX-License-Identifier: Apache-2.0 */
/* Forms of operators that loading takes apart, and those that it refuses: all at once, by name and place. */
#include "text_model.h"

/* ---- refusals ---- */

static void open_bad(const char *source, opf_error *error)
{
    text_model m = {0};
    opf_heap_init(&m.heap, NULL, 0);
    opf_arena_init(&m.arena, &m.heap);
    m.bytes = onnx_of_text(source, &m.arena, 10, 1);
    assert_int_equal(opf_model_from_memory(m.bytes.data, m.bytes.length, NULL, NULL, &m.model, error), OPF_UNSUPPORTED);
    opf_arena_fini(&m.arena);
}

static void expect_part(const opf_error *error, const char *part)
{
    if (strstr(error->message, part) == NULL)
        fail_msg("\"%s\" does not hold \"%s\"", error->message, part);
}

static void test_refusals(void **state)
{
    (void)state;
    opf_error error;
    open_bad("g (bool c, float[1,2,3] x, float[2] s) => (y, z) { y = If<then_branch = t () => (a) { a = "
             "BatchNormalization<training_mode = 1>(x, s, s, s, s) }, else_branch = e () => (b) { b = "
             "com.example.Mystery(x) }>(c) z = StringConcat(x, x) }",
             &error);
    expect_part(&error, "3 unsupported operators:");
    expect_part(&error, "(in training mode): node y/then_branch/a");
    expect_part(&error, "Mystery of domain com.example: node y/else_branch/b");
    expect_part(&error, "(works on strings): node z");
}

/* What does not fit into a message is counted. */
static void test_many_refusals(void **state)
{
    (void)state;
    enum { MANY = 200, ROOM = 64 };
    static char source[MANY * ROOM];
    opf_error error;
    size_t n = (size_t)snprintf(source, sizeof source, "g (float[1] x) => (y0) { y%d = Relu(x)", MANY);
    for (int i = MANY - 1; i >= 0; i--)
        n += (size_t)snprintf(source + n, sizeof source - n, " y%d = com.example.Operator_%d(y%d)", i, i, i + 1);
    (void)snprintf(source + n, sizeof source - n, " }");
    open_bad(source, &error);
    expect_part(&error, "200 unsupported operators:");
    expect_part(&error, " more");
    assert_true(strlen(error.message) + 1 < sizeof error.message);
}

/* ---- Scan of opset 8 ---- */

enum { BATCH = 3, TIME = 4, WIDTH = 2 };

static const char *const scans[] = {
    "g (float[3,2] s, float[3,T,2] x) => (y, z) { y, z = Scan<num_scan_inputs = 1, body = b (float[2] a, float[2] e) "
    "=> "
    "(o, p) { o = Add(a, e) p = Identity(o) }>(, s, x) }",
    "g (float[3,2] s, float[3,T,2] x, int64[3] l) => (y, z) { y, z = Scan<num_scan_inputs = 1, body = b (float[2] a, "
    "float[2] e) => (o, p) { o = Add(a, e) p = Identity(o) }>(l, s, x) }",
    "g (float[3,2] s, float[3,T,2] x, int64[3] l) => (y, z) { y, z = Scan<num_scan_inputs = 1, directions = [1], body "
    "= b "
    "(float[2] a, float[2] e) => (o, p) { o = Add(a, e) p = Identity(o) }>(l, s, x) }",
};

/* Running sums of each sequence up to its length, backwards where told, and zeros behind them. */
static void expected_sums(bool has_lengths, bool is_reversed, const int64_t *lengths, const float *s, const float *x,
                          float *y, float *z)
{
    memset(z, 0, sizeof(float) * BATCH * TIME * WIDTH);
    for (int b = 0; b < BATCH; b++)
        for (int w = 0; w < WIDTH; w++) {
            const int n = has_lengths ? (int)lengths[b] : TIME;
            float sum = s[b * WIDTH + w];
            for (int t = 0; t < n; t++) {
                sum += x[(b * TIME + (is_reversed ? n - 1 - t : t)) * WIDTH + w];
                z[(b * TIME + t) * WIDTH + w] = sum;
            }
            y[b * WIDTH + w] = sum;
        }
}

static void test_scan_batches(void **state)
{
    (void)state;
    int64_t lengths[BATCH] = {4, 1, 2};
    float s[BATCH * WIDTH], x[BATCH * TIME * WIDTH], y[BATCH * WIDTH], z[BATCH * TIME * WIDTH];
    for (int i = 0; i < BATCH * WIDTH; i++)
        s[i] = (float)i;
    for (int i = 0; i < BATCH * TIME * WIDTH; i++)
        x[i] = (float)(i * i % 7);
    const opf_tensor in[] = {{.type = OPF_FLOAT, .rank = 2, .dims = {BATCH, WIDTH}, .data = s, .bytes = sizeof s},
                             {.type = OPF_FLOAT, .rank = 3, .dims = {BATCH, TIME, WIDTH}, .data = x, .bytes = sizeof x},
                             {.type = OPF_INT64, .rank = 1, .dims = {BATCH}, .data = lengths, .bytes = sizeof lengths}};
    for (size_t k = 0; k < sizeof scans / sizeof *scans; k++)
        for (opf_mode mode = OPF_MODE_FUSED; mode <= OPF_MODE_REFERENCE; mode++) {
            text_model m = {0};
            opf_session *session = NULL;
            opf_tensor out[2] = {{0}, {0}};
            opf_error error = {0};
            opf_session_options options = {.mode = mode};
            expected_sums(k > 0, k > 1, lengths, s, x, y, z);
            opf_heap_init(&m.heap, NULL, 0);
            opf_arena_init(&m.arena, &m.heap);
            m.bytes = onnx_of_text(scans[k], &m.arena, 10, 1);
            m.bytes.data[m.bytes.length - 1] = 8; /* the number of the opset is the last byte */
            if (opf_model_from_memory(m.bytes.data, m.bytes.length, NULL, NULL, &m.model, &error) ||
                opf_session_create(m.model, &options, &session, &error) ||
                opf_session_run(session, in, k > 0 ? 3 : 2, out, 2, &error))
                fail_msg("%s", error.message);
            assert_int_equal(out[1].rank, 3);
            assert_memory_equal(out[0].data, y, sizeof y);
            assert_memory_equal(out[1].data, z, sizeof z);
            opf_session_destroy(&session);
            opf_model_destroy(&m.model);
            opf_arena_fini(&m.arena);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_refusals), cmocka_unit_test(test_many_refusals),
                                       cmocka_unit_test(test_scan_batches)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
