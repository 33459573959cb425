/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions over models with bodies: a Loop without end is stopped, and sessions run them side by side. */
#include "text_model.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

/* Doubles x while it is told to go on. */
static const char *const endless = "g (int64 m, bool c, float[4] x) => (y) { [for_ever] y = Loop<body = b (int64 i, bool k, float[4] a) => (k2, a2)"
                                   " { k2 = Identity(k)  [double] a2 = Add(a, a) }>(m, c, x) }";

typedef struct endless_inputs {
    int64_t    trips;
    bool       go;
    float      x[4];
    opf_tensor list[3];
} endless_inputs;

static void fill_endless(endless_inputs *in, int64_t trips, bool go)
{
    *in         = (endless_inputs){.trips = trips, .go = go, .x = {1, 2, 3, 4}};
    in->list[0] = (opf_tensor){.type = OPF_INT64, .data = &in->trips, .bytes = sizeof in->trips};
    in->list[1] = (opf_tensor){.type = OPF_BOOL, .data = &in->go, .bytes = sizeof in->go};
    in->list[2] = (opf_tensor){.type = OPF_FLOAT, .rank = 1, .dims = {4}, .data = in->x, .bytes = sizeof in->x};
}

static void check_finite_run(opf_session *session)
{
    endless_inputs in;
    opf_tensor     out = {0};
    opf_error      error;
    fill_endless(&in, 5, true);
    if (opf_session_run(session, in.list, 3, &out, 1, &error) != OPF_OK)
        fail_msg("%s", error.message);
    assert_true(((float *)out.data)[3] == 4 * 32);
}

typedef struct stopper {
    opf_session *session;
    atomic_bool  done;
} stopper;

/* Once is enough for a run in progress; nobody knows when it begins. */
static void *stop_it(void *user)
{
    stopper *s = user;
    while (!atomic_load(&s->done)) {
        opf_session_cancel(s->session);
        (void)sched_yield();
    }
    return NULL;
}

static void test_endless_loop_is_cancelled(void **state)
{
    (void)state;
    for (opf_mode mode = OPF_MODE_FUSED; mode <= OPF_MODE_REFERENCE; mode++) {
        text_model          m;
        opf_session_options options = {.mode = mode, .threads = 2};
        stopper             s       = {0};
        pthread_t           thread;
        endless_inputs      in;
        opf_error           error;
        text_model_open(&m, endless, NULL, 1);
        assert_int_equal(opf_session_create(m.model, &options, &s.session, &error), OPF_OK);
        fill_endless(&in, INT64_MAX, true);
        assert_int_equal(pthread_create(&thread, NULL, stop_it, &s), 0);
        opf_status status = opf_session_run(s.session, in.list, 3, NULL, 0, &error);
        atomic_store(&s.done, true);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(status, OPF_CANCELLED);
        if (strstr(error.message, "for_ever") == NULL || strstr(error.message, "cancelled") == NULL)
            fail_msg("\"%s\" does not say who was cancelled", error.message);
        check_finite_run(s.session);
        opf_session_destroy(&s.session);
        text_model_close(&m);
    }
}

static void test_endless_loop_meets_its_limit(void **state)
{
    (void)state;
    for (opf_mode mode = OPF_MODE_FUSED; mode <= OPF_MODE_REFERENCE; mode++) {
        text_model          m;
        opf_named_value     limit   = {"loop-trips", 100};
        opf_model_options   open    = {.limits = &limit, .n_limits = 1};
        opf_session_options options = {.mode = mode, .threads = 1};
        opf_session        *session;
        endless_inputs      in;
        opf_error           error;
        text_model_open(&m, endless, &open, 1);
        assert_int_equal(opf_session_create(m.model, &options, &session, &error), OPF_OK);
        for (int i = 0; i < 2; i++) {
            fill_endless(&in, 100, true);
            assert_int_equal(opf_session_run(session, in.list, 3, NULL, 0, &error), OPF_OK);
            fill_endless(&in, 101, true);
            assert_int_equal(opf_session_run(session, in.list, 3, NULL, 0, &error), OPF_LIMIT);
            assert_non_null(strstr(error.message, "for_ever (Loop)"));
            assert_non_null(strstr(error.message, "loop-trips, 100"));
        }
        check_finite_run(session);
        opf_session_destroy(&session);
        text_model_close(&m);
    }
}

/* ---- two sessions, two threads ---- */

/* A recurrent layer, a Loop whose body has weights and captures, an If that takes either branch, a shape out of data. */
static const char *const voice =
    "g (float[T,N,6] x, float[1,20,6] w, float[1,20,5] w2, float[5,5] w3, int64 m, bool c, int64 q) => (y, z, s) <int64[2] flat = {-1,5}, int64[1] zero = {0}> {"
    " h, z = LSTM<hidden_size = 5>(x, w, w2)  f = Reshape(h, flat)"
    " l = Loop<body = b (int64 i, bool k, float[A,5] a) => (k2, a2) { k2 = Identity(k)  e = MatMul(a, w3)  t = Tanh(e)  a2 = Add(t, f) }>(m, c, f)"
    " y = If<then_branch = t () => (u) { u = Relu(l) }, else_branch = e () => (v) { n = MatMul(l, w3)  v = Sigmoid(n) }>(c)"
    " o = Unsqueeze(q, zero)  s = Expand(q, o) }";

enum { RUNS = 6, BYTES = 4096 };

typedef struct user {
    const opf_model *model;
    opf_status       status;
    opf_error        error;
    char             bytes[RUNS][BYTES]; /* of the first output of each run */
    size_t           n[RUNS];
} user;

static void *use_model(void *argument)
{
    user               *u       = argument;
    opf_session_options options = {.threads = 2};
    opf_session        *session = NULL;
    u->status                   = opf_session_create(u->model, &options, &session, &u->error);
    for (int r = 0; r < RUNS && u->status == OPF_OK; r++) {
        float      x[4 * 3 * 6];
        int64_t    trips = r, long_as = 1 + r % 2;
        bool       go    = r % 3 != 0;
        opf_tensor in[4] = {
            {.type = OPF_FLOAT, .rank = 3, .dims = {1 + r % 4, 1 + r % 3, 6}, .data = x, .bytes = sizeof x},
            {.type = OPF_INT64, .data = &trips, .bytes = sizeof trips},
            {.type = OPF_BOOL, .data = &go, .bytes = sizeof go},
            {.type = OPF_INT64, .data = &long_as, .bytes = sizeof long_as},
        };
        opf_tensor out[3] = {0};
        in[0].bytes       = tensor_count(&in[0]) * sizeof *x;
        for (size_t i = 0; i < tensor_count(&in[0]); i++)
            x[i] = (float)(i % 13) / 6 - 1;
        u->status = opf_session_run(session, in, 4, out, 3, &u->error);
        if (u->status == OPF_OK && out[0].bytes <= BYTES) {
            u->n[r] = out[0].bytes;
            memcpy(u->bytes[r], out[0].data, out[0].bytes);
        }
    }
    opf_session_destroy(&session);
    return NULL;
}

static void test_side_by_side(void **state)
{
    (void)state;
    enum { USERS = 2 };
    static user users[USERS];
    pthread_t   threads[USERS];
    text_model  m;
    text_model_open(&m, voice, NULL, 5);
    for (int i = 0; i < USERS; i++) {
        users[i].model = m.model;
        assert_int_equal(pthread_create(&threads[i], NULL, use_model, &users[i]), 0);
    }
    for (int i = 0; i < USERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < USERS; i++) {
        if (users[i].status != OPF_OK)
            fail_msg("%s", users[i].error.message);
        for (int r = 0; r < RUNS; r++) {
            assert_int_equal(users[i].n[r], (size_t)(1 + r % 4) * (size_t)(1 + r % 3) * 5 * sizeof(float));
            assert_memory_equal(users[i].bytes[r], users[0].bytes[r], users[0].n[r]);
        }
    }
    text_model_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_endless_loop_is_cancelled),
        cmocka_unit_test(test_endless_loop_meets_its_limit),
        cmocka_unit_test(test_side_by_side),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
