/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions: buffers, what is refused and how it is said, plans, memory, threads. */
#include "base/memory.h"
#include "text_model.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#if defined(__SSE__)
#include <xmmintrin.h>
#endif

/* ---- one model and one session ---- */

typedef struct fixture {
    text_model   m;
    opf_session *session;
    opf_error    error;
} fixture;

static void open_mode(fixture *f, const char *text, const opf_model_options *options, opf_mode mode, int32_t threads)
{
    opf_session_options session = {.mode = mode, .threads = threads};
    text_model_open(&f->m, text, options, 3);
    if (opf_session_create(f->m.model, &session, &f->session, &f->error) != OPF_OK)
        fail_msg("%s", f->error.message);
}

static void open_one(fixture *f, const char *text)
{
    open_mode(f, text, NULL, OPF_MODE_FUSED, 2);
}

static void close_one(fixture *f)
{
    opf_session_destroy(&f->session);
    assert_null(f->session);
    text_model_close(&f->m);
}

static void expect(const fixture *f, opf_status have, opf_status want, const char *says)
{
    if (have != want)
        fail_msg("status %s (%s), expected %s", opf_status_text(have), have == OPF_OK ? "" : f->error.message, opf_status_text(want));
    if (want != OPF_OK && strstr(f->error.message, says) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", f->error.message, says);
}

static opf_tensor vector(opf_type type, int64_t n, void *data)
{
    return (opf_tensor){.type = type, .rank = 1, .dims = {n}, .data = data, .bytes = (size_t)n * opf_type_bits(type) / 8};
}

#define RUN(f, in, n_in, out, n_out, want, says)                                                                       \
    expect(f, opf_session_run((f)->session, in, n_in, out, n_out, &(f)->error), want, says)

static const char *const double_it = "g (float[N] x) => (y, z) { y = Add(x, x) z = Neg(y) }";

/* ---- outputs ---- */

static void test_output_buffers(void **state)
{
    (void)state;
    fixture f;
    float   x[5] = {1, 2, 3, 4, 5}, y[6] = {0, 0, 0, 0, 0, 77};
    open_one(&f, double_it);
    opf_tensor in = vector(OPF_FLOAT, 5, x), out[2] = {0};
    RUN(&f, &in, 1, out, 2, OPF_OK, "");
    assert_int_equal(out[0].type, OPF_FLOAT);
    assert_int_equal(out[0].rank, 1);
    assert_int_equal(out[0].dims[0], 5);
    assert_int_equal(out[0].bytes, 20);
    assert_true(((float *)out[0].data)[4] == 10 && ((float *)out[1].data)[4] == -10);

    /* What the session returned may be given back to it, also when the result is larger. */
    float      wide[50] = {1};
    opf_tensor more     = vector(OPF_FLOAT, 50, wide);
    RUN(&f, &more, 1, out, 2, OPF_OK, "");
    assert_int_equal(out[1].bytes, 200);
    assert_true(((float *)out[1].data)[0] == -2);

    /* The caller's buffer, one of two outputs. */
    out[0] = (opf_tensor){.data = y, .bytes = sizeof y};
    RUN(&f, &in, 1, out, 1, OPF_OK, "");
    assert_ptr_equal(out[0].data, y);
    assert_int_equal(out[0].bytes, 20);
    assert_true(y[4] == 10 && y[5] == 77);
    RUN(&f, &in, 1, NULL, 0, OPF_OK, "");

    /* Too small: every such buffer is told its size. */
    out[0] = (opf_tensor){.data = y, .bytes = 19};
    out[1] = (opf_tensor){.data = y, .bytes = 3};
    RUN(&f, &in, 1, out, 2, OPF_BUFFER_TOO_SMALL, "output y needs 20 bytes, its buffer has 19");
    assert_int_equal(out[0].bytes, 20);
    assert_int_equal(out[1].bytes, 20);
    close_one(&f);
}

static void test_overlap(void **state)
{
    (void)state;
    fixture f;
    float   x[20] = {1, 2, 3, 4, 5};
    open_one(&f, double_it);
    opf_tensor in = vector(OPF_FLOAT, 5, x), out[2] = {{.data = x + 4, .bytes = 20}};
    RUN(&f, &in, 1, out, 2, OPF_INVALID_ARGUMENT, "the buffers of output y and input x overlap");
    out[0] = (opf_tensor){.data = x + 5, .bytes = 20};
    out[1] = (opf_tensor){.data = x + 9, .bytes = 20};
    RUN(&f, &in, 1, out, 2, OPF_INVALID_ARGUMENT, "the buffers of outputs y and z overlap");
    out[1] = (opf_tensor){.data = x + 10, .bytes = 20};
    RUN(&f, &in, 1, out, 2, OPF_OK, "");
    assert_true(x[9] == 10 && x[14] == -10);
    out[0] = (opf_tensor){.data = (char *)x + 33, .bytes = 40};
    RUN(&f, &in, 1, out, 1, OPF_INVALID_ARGUMENT, "the buffer of output y is not aligned");

    /* The session's results of the run before, as inputs or for another output. */
    memset(out, 0, sizeof out);
    RUN(&f, &in, 1, out, 2, OPF_OK, "");
    opf_tensor next = out[0], swapped[2] = {out[1], out[0]};
    RUN(&f, &next, 1, out, 2, OPF_INVALID_ARGUMENT, "output y and input x overlap");
    RUN(&f, &in, 1, swapped, 2, OPF_OK, "");
    swapped[0] = out[1];
    RUN(&f, &in, 1, swapped, 1, OPF_INVALID_ARGUMENT, "outputs y and z overlap");
    close_one(&f);
}

/* ---- inputs ---- */

static void test_bad_inputs(void **state)
{
    (void)state;
    fixture f;
    float   x[20] = {0};
    open_one(&f, "g (float[N,3] image, int64[N] \"ids\") => (y) { y = Relu(image) }");
    int64_t    ids[2] = {0};
    opf_tensor in[3]  = {{.type = OPF_FLOAT, .rank = 2, .dims = {2, 3}, .data = x, .bytes = 24}, vector(OPF_INT64, 2, ids)}, good = in[0];
    RUN(&f, in, 2, NULL, 0, OPF_OK, "");
    RUN(&f, in, 1, NULL, 0, OPF_INVALID_ARGUMENT, "input ids is missing");
    RUN(&f, NULL, 0, NULL, 0, OPF_INVALID_ARGUMENT, "input image is missing");
    RUN(&f, in, 3, NULL, 0, OPF_INVALID_ARGUMENT, "3 inputs given, the model has 2");
    in[0].type = OPF_DOUBLE;
    RUN(&f, in, 2, NULL, 0, OPF_INVALID_INPUT, "input image is double, must be float");
    in[0]      = good;
    in[0].rank = 1;
    RUN(&f, in, 2, NULL, 0, OPF_INVALID_INPUT, "input image has rank 1, must have 2");
    in[0].rank = 17;
    RUN(&f, in, 2, NULL, 0, OPF_INVALID_INPUT, "input image has rank 17");
    in[0]         = good;
    in[0].dims[1] = 4;
    RUN(&f, in, 2, NULL, 0, OPF_INVALID_INPUT, "dimension 1 of input image is 4, must be 3");
    in[0].dims[0] = -2;
    RUN(&f, in, 2, NULL, 0, OPF_INVALID_INPUT, "dimension 0 of input image is -2");
    in[0].dims[0] = INT64_MAX;
    in[0].dims[1] = 3;
    RUN(&f, in, 2, NULL, 0, OPF_INVALID_INPUT, "input image");
    in[0]       = good;
    in[0].bytes = 23;
    RUN(&f, in, 2, NULL, 0, OPF_INVALID_INPUT, "input image has 23 bytes, its shape needs 24");
    in[0]      = good;
    in[0].data = (char *)x + 2;
    RUN(&f, in, 2, NULL, 0, OPF_INVALID_ARGUMENT, "input image is not aligned");
    in[0] = good;
    RUN(&f, in, 2, (opf_tensor[2]){{0}}, 2, OPF_INVALID_ARGUMENT, "2 outputs wanted, the model has 1");
    expect(&f, opf_session_run(f.session, NULL, 1, NULL, 0, &f.error), OPF_INVALID_ARGUMENT, "must not be NULL");
    expect(&f, opf_session_run(f.session, in, 2, NULL, 0, NULL), OPF_OK, "");
    assert_int_equal(opf_session_run(f.session, in, 1, NULL, 0, NULL), OPF_INVALID_ARGUMENT); /* without an error to fill */

    /* Tensors without elements need no data. */
    in[0].dims[0] = in[1].dims[0] = 0;
    in[0].data    = in[1].data = NULL;
    in[0].bytes   = in[1].bytes = 0;
    opf_tensor out = {0};
    RUN(&f, in, 2, &out, 1, OPF_OK, "");
    assert_int_equal(out.bytes, 0);
    close_one(&f);
}

static void test_defaults(void **state)
{
    (void)state;
    fixture f;
    float   x[2] = {1, 2}, d[2] = {10, 20};
    open_one(&f, "g (float[2] x, float[2] d) => (y) { y = Sub(x, d) }");
    opf_port port;
    assert_int_equal(opf_model_input(f.m.model, 1, &port), OPF_OK);
    assert_true(port.has_default);
    opf_tensor in[2] = {vector(OPF_FLOAT, 2, x), vector(OPF_FLOAT, 2, d)}, out = {0};
    RUN(&f, in, 1, &out, 1, OPF_OK, "");
    float value = ((float *)out.data)[1];
    RUN(&f, in, 2, &out, 1, OPF_OK, "");
    assert_true(((float *)out.data)[1] == -18 && value != -18);
    in[1] = (opf_tensor){0};
    RUN(&f, in, 2, &out, 1, OPF_OK, "");
    assert_true(((float *)out.data)[1] == value);
    close_one(&f);

    /* Before IR 4 the same input is a constant. */
    opf_model *model;
    opf_heap_init(&f.m.heap, NULL, 0);
    opf_arena_init(&f.m.arena, &f.m.heap);
    opf_text bytes = onnx_of_text("g (float[2] x, float[2] d) => (y) { y = Sub(x, d) }", &f.m.arena, 3, 3);
    assert_int_equal(opf_model_from_memory(bytes.data, bytes.length, NULL, NULL, &model, &f.error), OPF_OK);
    assert_int_equal(opf_session_create(model, NULL, &f.session, &f.error), OPF_OK);
    in[1] = vector(OPF_FLOAT, 2, d);
    RUN(&f, in, 2, &out, 1, OPF_INVALID_ARGUMENT, "d is a constant before IR version 4");
    RUN(&f, in, 1, &out, 1, OPF_OK, "");
    opf_session_destroy(&f.session);
    opf_model_destroy(&model);
    opf_arena_fini(&f.m.arena);
}

/* ---- symbols and data ---- */

static void count_lines(void *user, const char *line)
{
    if (strstr(line, "symbol N") != NULL)
        ++*(int *)user;
}

/* Two inputs of one symbol get two sizes: the fusion that took them for equal does not hold, the result does. */
static void test_symbols_in_conflict(void **state)
{
    (void)state;
    fixture           f;
    int               lines   = 0;
    opf_model_options options = {.log = count_lines, .log_user = &lines};
    open_mode(&f, "g (float[N,4] x, float[N,4] q, float[4,4] w) => (y) { a = MatMul(x, w) b = Add(a, q) y = Relu(b) }", &options, OPF_MODE_FUSED, 2);
    float      x[12], q[4] = {1, 2, 3, 4}, wide[12];
    opf_tensor in[2] = {{.type = OPF_FLOAT, .rank = 2, .dims = {3, 4}, .data = x, .bytes = sizeof x},
                        {.type = OPF_FLOAT, .rank = 2, .dims = {1, 4}, .data = q, .bytes = sizeof q}};
    opf_tensor out[2] = {{0}};
    for (int i = 0; i < 12; i++) {
        x[i]    = (float)(i % 5) - 2;
        wide[i] = q[i % 4];
    }
    for (int i = 0; i < 2; i++)
        RUN(&f, in, 2, &out[0], 1, OPF_OK, "");
    assert_int_equal(lines, 1);
    float first[12];
    memcpy(first, out[0].data, sizeof first);
    in[1] = (opf_tensor){.type = OPF_FLOAT, .rank = 2, .dims = {3, 4}, .data = wide, .bytes = sizeof wide};
    RUN(&f, in, 2, &out[0], 1, OPF_OK, "");
    for (int i = 0; i < 12; i++)
        assert_true(fabsf(first[i] - ((float *)out[0].data)[i]) < 1e-5f);
    assert_int_equal(lines, 1);
    in[1] = (opf_tensor){.type = OPF_FLOAT, .rank = 2, .dims = {2, 4}, .data = wide, .bytes = sizeof wide};
    RUN(&f, in, 2, &out[0], 1, OPF_INVALID_INPUT, "Add"); /* impossible: names the node */
    close_one(&f);
}

static void test_data_errors(void **state)
{
    (void)state;
    for (opf_mode mode = OPF_MODE_FUSED; mode <= OPF_MODE_REFERENCE; mode++) {
        fixture f;
        open_mode(&f, "g (int64[N] i, float[5,3] w) => (y) { [look_up] a = Gather(w, i) [late] b = Gather(a, i) y = Relu(b) }", NULL, mode, 3);
        int64_t    i[3] = {0, -3, 2};
        opf_tensor in = vector(OPF_INT64, 3, i), out = {0};
        RUN(&f, &in, 1, &out, 1, OPF_OK, "");
        i[1] = 5;
        RUN(&f, &in, 1, &out, 1, OPF_INVALID_INPUT, "look_up (Gather)");
        i[1] = -6;
        RUN(&f, &in, 1, &out, 1, OPF_INVALID_INPUT, "look_up (Gather)");
        i[1] = -4; /* good for five rows, not for three */
        RUN(&f, &in, 1, &out, 1, OPF_INVALID_INPUT, "late (Gather)");
        i[1] = 1;
        RUN(&f, &in, 1, &out, 1, OPF_OK, "");
        i[2] = 9;
        assert_int_equal(opf_session_run(f.session, &in, 1, &out, 1, NULL), OPF_INVALID_INPUT);
        close_one(&f);
    }
}

/* A shape that depends on data: buffers are checked as ever. */
static void test_shapes_from_data(void **state)
{
    (void)state;
    fixture f;
    float   x[6] = {-1, 2, 3, 4, 5, 6}, y[6];
    int64_t shape[2] = {2, 3};
    open_one(&f, "g (float[N] x, int64[2] s) => (y) { a = Relu(x) b = Reshape(a, s) y = Neg(b) }");
    opf_tensor in[2] = {vector(OPF_FLOAT, 6, x), vector(OPF_INT64, 2, shape)}, out = {0};
    RUN(&f, in, 2, &out, 1, OPF_OK, "");
    assert_true(out.rank == 2 && out.dims[1] == 3 && ((float *)out.data)[1] == -2);
    shape[1] = 4;
    RUN(&f, in, 2, &out, 1, OPF_INVALID_INPUT, "Reshape");
    shape[0] = 6;
    shape[1] = 1;
    out      = (opf_tensor){.data = y, .bytes = sizeof y};
    RUN(&f, in, 2, &out, 1, OPF_OK, "");
    assert_true(out.dims[0] == 6 && y[5] == -6);
    out = (opf_tensor){.data = y, .bytes = 20};
    RUN(&f, in, 2, &out, 1, OPF_BUFFER_TOO_SMALL, "output y");
    assert_int_equal(out.bytes, 24);
    out = (opf_tensor){.data = x, .bytes = sizeof x};
    RUN(&f, in, 2, &out, 1, OPF_INVALID_ARGUMENT, "overlap");
    out = (opf_tensor){0};
    RUN(&f, in, 2, &out, 1, OPF_OK, "");
    in[0].data = out.data;
    RUN(&f, in, 2, &out, 1, OPF_INVALID_ARGUMENT, "overlap");
    close_one(&f);
}

static void test_limits(void **state)
{
    (void)state;
    fixture           f;
    opf_named_value   limit   = {"tensor-bytes", 1000};
    opf_model_options options = {.limits = &limit, .n_limits = 1};
    open_mode(&f, "g (float[N,1] x) => (y) <int64[2] s = {1,20}, int64[1] a = {1}> { [wide] b = Expand(x, s) y = ReduceSum(b, a) }", &options, OPF_MODE_FUSED, 1);
    float      x[40] = {0};
    opf_tensor in = {.type = OPF_FLOAT, .rank = 2, .dims = {12, 1}, .data = x, .bytes = sizeof x}, out = {0};
    RUN(&f, &in, 1, &out, 1, OPF_OK, "");
    in.dims[0] = 13;
    RUN(&f, &in, 1, &out, 1, OPF_LIMIT, "wide (Expand)");
    close_one(&f);
}

/* ---- memory ---- */

typedef struct counter {
    atomic_long calls, live;
    long        fail_at; /* number of the call that fails, -1: none */
} counter;

static void *count_alloc(void *user, size_t bytes, size_t alignment)
{
    counter *c = user;
    if (atomic_fetch_add(&c->calls, 1) == c->fail_at)
        return NULL;
    void *p = aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    if (p != NULL)
        atomic_fetch_add(&c->live, 1);
    return p;
}

static void count_release(void *user, void *p, size_t bytes)
{
    (void)bytes;
    atomic_fetch_sub(&((counter *)user)->live, 1);
    free(p);
}

static const char *const mixed =
    "g (float[N,3,9,9] x, float[8,3,3,3] w, float[8] p, float[8] w2, float[8] w3, float[8] p2, float[8,10] w4, int64[N] i, float[2,8] w5, float[8] d) => (y, z)"
    " <float half = {0.5}> { a = Conv(x, w) b = BatchNormalization(a, p, w2, w3, p2) c = Relu(b) e = GlobalAveragePool(c) f = Flatten(e) h = Gather(w5, i)"
    " k = Add(f, h) l = Add(k, d) m = MatMul(l, w4) n = Mul(m, half) y = Softmax(n) z = ReduceSum(c) }";

static void mixed_inputs(opf_tensor *in, int64_t n, float *x, int64_t *ids)
{
    in[0] = (opf_tensor){.type = OPF_FLOAT, .rank = 4, .dims = {n, 3, 9, 9}, .data = x, .bytes = (size_t)n * 243 * sizeof *x};
    in[1] = vector(OPF_INT64, n, ids);
    for (int64_t i = 0; i < n * 243; i++)
        x[i] = (float)(i % 17) / 8 - 1;
    for (int64_t i = 0; i < n; i++)
        ids[i] = i % 2;
}

enum { MOST = 13 };

/* A planned run allocates nothing, be it planned by a run or by prepare; the 8 latest shapes stay planned. */
static void test_planned_runs_allocate_nothing(void **state)
{
    (void)state;
    static float x[MOST * 243], y[MOST * 10], z[64];
    int64_t      ids[MOST];
    for (opf_mode mode = OPF_MODE_FUSED; mode <= OPF_MODE_UNFUSED; mode++) {
        counter             c         = {.fail_at = -1};
        const opf_allocator allocator = {count_alloc, count_release, &c};
        opf_model_options   options   = {.allocator = &allocator};
        fixture             f;
        opf_tensor          in[2], out[2] = {0};
        open_mode(&f, mixed, &options, mode, 3);
        mixed_inputs(in, 2, x, ids);
        RUN(&f, in, 2, out, 2, OPF_OK, "");
        long calls = atomic_load(&c.calls);
        RUN(&f, in, 2, out, 2, OPF_OK, "");
        assert_int_equal(atomic_load(&c.calls), calls);

        mixed_inputs(in, 3, x, ids);
        in[0].data = in[1].data = NULL;
        expect(&f, opf_session_prepare(f.session, in, 2, &f.error), OPF_OK, "");
        mixed_inputs(in, 3, x, ids);
        calls  = atomic_load(&c.calls);
        out[0] = (opf_tensor){.data = y, .bytes = sizeof y};
        out[1] = (opf_tensor){.data = z, .bytes = sizeof z};
        RUN(&f, in, 2, out, 2, OPF_OK, "");
        assert_int_equal(atomic_load(&c.calls), calls);

        for (int64_t n = 1; n <= MOST; n++) {
            out[0] = (opf_tensor){.data = y, .bytes = sizeof y};
            mixed_inputs(in, n, x, ids);
            RUN(&f, in, 2, out, 2, OPF_OK, "");
        }
        calls = atomic_load(&c.calls);
        for (int64_t n = MOST; n > MOST - 8; n--) {
            out[0] = (opf_tensor){.data = y, .bytes = sizeof y};
            mixed_inputs(in, n, x, ids);
            RUN(&f, in, 2, out, 2, OPF_OK, "");
        }
        assert_int_equal(atomic_load(&c.calls), calls);
        out[0] = (opf_tensor){.data = y, .bytes = sizeof y};
        mixed_inputs(in, MOST - 8, x, ids);
        RUN(&f, in, 2, out, 2, OPF_OK, "");
        assert_true(atomic_load(&c.calls) > calls);
        close_one(&f);
        assert_int_equal(atomic_load(&c.live), 0);
    }
}

static opf_status open_and_run(const opf_text *bytes, const opf_model_options *options, opf_mode mode, opf_error *error)
{
    static float        x[2 * 243];
    int64_t             ids[2];
    opf_tensor          in[2], out[2] = {0};
    opf_model          *model   = NULL;
    opf_session        *session = NULL;
    opf_session_options so      = {.mode = mode, .threads = 2};
    mixed_inputs(in, 2, x, ids);
    opf_status status = opf_model_from_memory(bytes->data, bytes->length, NULL, options, &model, error);
    if (status == OPF_OK)
        status = opf_session_create(model, &so, &session, error);
    if (status == OPF_OK)
        status = opf_session_run(session, in, 2, out, 2, error);
    if (status == OPF_OUT_OF_MEMORY && session != NULL) { /* it was once only: the session still works */
        opf_status again = opf_session_run(session, in, 2, out, 2, error);
        if (again != OPF_OK)
            fail_msg("after OPF_OUT_OF_MEMORY: %s", error->message);
    }
    opf_session_destroy(&session);
    opf_model_destroy(&model);
    assert_null(model);
    return status;
}

static void test_allocation_failures(void **state)
{
    (void)state;
    opf_heap  heap;
    opf_arena arena;
    opf_heap_init(&heap, NULL, 0);
    opf_arena_init(&arena, &heap);
    opf_text bytes = onnx_of_text(mixed, &arena, 10, 3);
    for (opf_mode mode = OPF_MODE_FUSED; mode <= OPF_MODE_REFERENCE; mode++)
        for (long n = 0;; n++) {
            counter             c         = {.fail_at = n};
            const opf_allocator allocator = {count_alloc, count_release, &c};
            opf_model_options   options   = {.allocator = &allocator};
            opf_error           error     = {0};
            opf_status          status    = open_and_run(&bytes, &options, mode, &error);
            assert_int_equal(atomic_load(&c.live), 0);
            if (status == OPF_OK && atomic_load(&c.calls) <= n) {
                assert_true(n > 10);
                break;
            }
            if (status != OPF_OUT_OF_MEMORY)
                fail_msg("call %ld failed: %s (%s)", n, opf_status_text(status), error.message);
        }
    opf_arena_fini(&arena);
}

/* ---- threads ---- */

static void *cancel_soon(void *user)
{
    fixture *f = user;
    for (int i = 0; i < 200; i++) {
        opf_session_cancel(f->session);
        (void)sched_yield();
    }
    return NULL;
}

static void test_cancel(void **state)
{
    (void)state;
    fixture f;
    opf_text text;
    opf_heap heap;
    opf_arena arena;
    opf_heap_init(&heap, NULL, 0);
    opf_arena_init(&arena, &heap);
    opf_text_init(&text, &arena);
    opf_text_add(&text, "g (float[N,N] v0) => (v200) {");
    for (int i = 0; i < 200; i++)
        opf_text_add(&text, " v%d = Softmax(v%d)", i + 1, i);
    opf_text_add(&text, " }");
    open_one(&f, text.data);
    tensors inputs;
    make_inputs(f.m.model, "N=64", 1, &inputs);
    opf_session_cancel(f.session); /* no run in progress: nothing happens */
    RUN(&f, inputs.list, 1, NULL, 0, OPF_OK, "");
    int cancelled = 0;
    for (int tries = 0; tries < 50 && cancelled == 0; tries++) {
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, cancel_soon, &f), 0);
        for (int i = 0; i < 20; i++) {
            opf_status status = opf_session_run(f.session, inputs.list, 1, NULL, 0, &f.error);
            cancelled += status == OPF_CANCELLED;
            if (status != OPF_OK)
                expect(&f, status, OPF_CANCELLED, "cancelled");
        }
        assert_int_equal(pthread_join(thread, NULL), 0);
    }
    assert_true(cancelled > 0);
    RUN(&f, inputs.list, 1, NULL, 0, OPF_OK, "");
    opf_session_cancel(NULL);
    free_tensors(&inputs);
    close_one(&f);
    opf_arena_fini(&arena);
}

typedef struct user {
    const opf_model *model;
    opf_mode         mode;
    float            sums[4];
    bool             failed;
} user;

/* Sums of y for some shapes, each in several runs; packs weights and plans while others do. */
static void *use_model(void *argument)
{
    user               *u       = argument;
    opf_session_options options = {.mode = u->mode, .threads = 2};
    opf_session        *session = NULL;
    float              *x       = malloc(4 * 243 * sizeof *x);
    int64_t             ids[4];
    u->failed = x == NULL || opf_session_create(u->model, &options, &session, NULL) != OPF_OK;
    for (int round = 0; round < 3; round++)
        for (int64_t n = 1; n <= 4 && !u->failed; n++) {
            opf_tensor in[2], out[2] = {0};
            mixed_inputs(in, n, x, ids);
            u->failed = opf_session_run(session, in, 2, out, 2, NULL) != OPF_OK;
            if (u->failed)
                break;
            u->sums[n - 1] = 0;
            for (int64_t i = 0; i < n * 10; i++)
                u->sums[n - 1] += ((float *)out[0].data)[i] * (float)(i + 1);
        }
    opf_profile profile;
    u->failed = u->failed || opf_session_profile(session, &profile, NULL) != OPF_OK || profile.weight_bytes == 0;
    opf_session_destroy(&session);
    free(x);
    return NULL;
}

static void test_sessions_side_by_side(void **state)
{
    (void)state;
    enum { USERS = 4 };
    text_model m;
    text_model_open(&m, mixed, NULL, 3);
    user      users[USERS];
    pthread_t threads[USERS];
    for (int i = 0; i < USERS; i++) {
        users[i] = (user){.model = m.model, .mode = i == 1 ? OPF_MODE_UNFUSED : i == 3 ? OPF_MODE_REFERENCE : OPF_MODE_FUSED};
        assert_int_equal(pthread_create(&threads[i], NULL, use_model, &users[i]), 0);
    }
    for (int i = 0; i < USERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < USERS; i++) {
        assert_false(users[i].failed);
        for (int n = 0; n < 4; n++) {
            assert_true(fabsf(users[i].sums[n] - users[0].sums[n]) < 1e-2f);
            if (i == 2)
                assert_true(users[i].sums[n] == users[0].sums[n]); /* the same mode: the same bits */
        }
    }
    text_model_close(&m);
}

/* ---- the rest ---- */

static void test_profile(void **state)
{
    (void)state;
    text_model          m;
    opf_session        *session;
    opf_session_options options = {.threads = 2, .profile = true};
    opf_profile         profile;
    opf_error           error;
    text_model_open(&m, "g (float[N,3] x, float[3,5] w) => (y) { [project] a = MatMul(x, w) [act] b = Relu(a) [out] y = Softmax(b) }", NULL, 1);
    assert_int_equal(opf_session_create(m.model, &options, &session, &error), OPF_OK);
    assert_int_equal(opf_session_profile(session, &profile, &error), OPF_INVALID_ARGUMENT);
    tensors inputs;
    make_inputs(m.model, "N=4", 1, &inputs);
    assert_int_equal(opf_session_prepare(session, inputs.list, 1, &error), OPF_OK);
    assert_int_equal(opf_session_profile(session, &profile, &error), OPF_INVALID_ARGUMENT);
    for (int i = 0; i < 3; i++)
        assert_int_equal(opf_session_run(session, inputs.list, 1, NULL, 0, &error), OPF_OK);
    assert_int_equal(opf_session_profile(session, &profile, &error), OPF_OK);
    assert_int_equal(profile.n_steps, 2);
    assert_string_equal(profile.steps[0].name, "project");
    assert_string_equal(profile.steps[0].op, "MatMul");
    assert_int_equal(profile.steps[0].n_origin, 2);
    assert_string_equal(profile.steps[0].origin[1], "act");
    assert_true(profile.steps[0].ms >= 0 && profile.steps[1].ms >= 0);
    assert_true(profile.flops >= 2 * 4 * 3 * 5 && profile.weight_bytes >= 15 * sizeof(float));
    assert_int_equal(profile.threads, 2);
    free_tensors(&inputs);
    opf_session_destroy(&session);
    text_model_close(&m);
}

/* Denormals are kept unless the session flushes them; the caller's mode is as it was. */
static void test_denormals(void **state)
{
    (void)state;
#if defined(__SSE__)
    text_model m;
    text_model_open(&m, "g (float[N] x) => (y) <float half = {0.5}> { y = Mul(x, half) }", NULL, 1);
    for (int flush = 0; flush < 2; flush++) {
        opf_session_options options = {.threads = 2, .flush_denormals = flush != 0};
        opf_session        *session;
        float               x   = 1e-40f;
        opf_tensor          in  = vector(OPF_FLOAT, 1, &x), out = {0};
        const unsigned      was = _mm_getcsr();
        assert_int_equal(opf_session_create(m.model, &options, &session, NULL), OPF_OK);
        _mm_setcsr(was ^ 0x2000); /* another rounding */
        assert_int_equal(opf_session_run(session, &in, 1, &out, 1, NULL), OPF_OK);
        assert_int_equal(_mm_getcsr() & ~0x3fu, (was ^ 0x2000) & ~0x3fu);
        _mm_setcsr(was);
        uint32_t bits;
        memcpy(&bits, out.data, sizeof bits);
        assert_true((bits == 0) == (flush != 0));
        opf_session_destroy(&session);
    }
    text_model_close(&m);
#endif
}

static void test_arguments(void **state)
{
    (void)state;
    fixture              f;
    opf_session         *session = (opf_session *)&f;
    opf_session_options  options = {.mode = (opf_mode)7};
    assert_int_equal(opf_session_create(NULL, NULL, &session, NULL), OPF_INVALID_ARGUMENT);
    open_one(&f, double_it);
    assert_int_equal(opf_session_create(f.m.model, &options, &session, NULL), OPF_INVALID_ARGUMENT);
    assert_null(session);
    options = (opf_session_options){.threads = -3};
    assert_int_equal(opf_session_create(f.m.model, &options, &session, NULL), OPF_OK);
    opf_session_destroy(&session);
    opf_session_destroy(&session);
    opf_session_destroy(NULL);
    assert_int_equal(opf_session_run(NULL, NULL, 0, NULL, 0, NULL), OPF_INVALID_ARGUMENT);
    assert_int_equal(opf_session_prepare(NULL, NULL, 0, NULL), OPF_INVALID_ARGUMENT);
    assert_int_equal(opf_session_profile(NULL, NULL, NULL), OPF_INVALID_ARGUMENT);
    assert_int_equal(opf_model_from_memory(NULL, 4, NULL, NULL, &f.m.model, NULL), OPF_INVALID_ARGUMENT);
    close_one(&f);
}

static void test_verify(void **state)
{
    (void)state;
    text_model         m;
    opf_report        *report;
    opf_verify_options options = {.threads = 2, .each = true};
    opf_error          error;
    text_model_open(&m, mixed, NULL, 3);
    if (opf_model_verify(m.model, &options, &report, &error) != OPF_OK)
        fail_msg("%s", error.message);
    const opf_verification *v = opf_report_verification(report);
    for (size_t i = 0; i < v->n_entries; i++)
        if (!v->entries[i].passed)
            fail_msg("%s of %s: %zu wrong, by %g", v->entries[i].output, v->entries[i].input, v->entries[i].n_wrong, v->entries[i].max_abs);
    assert_true(v->passed);
    assert_null(v->wrong_rewrite);
    opf_report_destroy(&report);
    text_model_close(&m);
}

/* Where kernels are counted, sizes that depend on data are made up; a reshape keeps the elements of a constant too. */
static void test_explain_sizes_from_data(void **state)
{
    (void)state;
    text_model  m;
    opf_report *report = NULL;
    opf_error   error;
    text_model_open(&m, "g (float[1,2,2,2] w, int64[4] s) => (y) { y = Reshape(w, s) }", NULL, 1);
    if (opf_model_explain(m.model, &report, &error) != OPF_OK)
        fail_msg("%s", error.message);
    opf_report_destroy(&report);
    text_model_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_output_buffers),
        cmocka_unit_test(test_overlap),
        cmocka_unit_test(test_bad_inputs),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_symbols_in_conflict),
        cmocka_unit_test(test_data_errors),
        cmocka_unit_test(test_shapes_from_data),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_planned_runs_allocate_nothing),
        cmocka_unit_test(test_allocation_failures),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_sessions_side_by_side),
        cmocka_unit_test(test_profile),
        cmocka_unit_test(test_denormals),
        cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_verify),
        cmocka_unit_test(test_explain_sizes_from_data),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
