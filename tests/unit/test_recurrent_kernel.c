/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RNN, GRU and LSTM on the product kernel against the reference, at each CPU level: directions, layouts, inputs and
 * results that are left out, activations, what may follow, views; no step, no row; what stays on the reference; bitwise
 * equal for any number of threads; attributes and sizes by chance.
 */
#include "plan_case.h"
#include "steps_case.h"

#include <math.h>

static const char some_sizes[] = "T=5 N=1; T=1 N=1; T=9 N=7; T=3 N=33; T=60 N=2; T=0 N=2; T=4 N=0";

static const test_case cells[] = {
    {"lstm_f32", some_sizes,
     "g (float[T,N,11] x, float[1,20,11] w, float[1,20,5] w2) => (y, h, c) { y, h, c = LSTM(x, w, w2) }"},
    {"lstm_f32", some_sizes,
     "g (float[T,N,11] x, float[2,68,11] w, float[2,68,17] w2, float[2,136] w3, float[2,N,17] s, float[2,N,17] t) => "
     "(y, h, c)"
     "{ y, h, c = LSTM<direction = \"bidirectional\", hidden_size = 17>(x, w, w2, w3, , s, t) }"},
    {"lstm_f32", some_sizes,
     "g (float[T,N,3] x, float[1,4,3] w, float[1,4,1] w2, float[1,8] w3, float[1,N,1] t) => (y, c)"
     "{ y, , c = LSTM<direction = \"reverse\">(x, w, w2, w3, , , t) }"},
    {"gru_f32", some_sizes,
     "g (float[T,N,9] x, float[1,36,9] w, float[1,36,12] w2, float[1,72] w3, float[1,N,12] s) => (y, h) { y, h = "
     "GRU(x, w, w2, w3, , s) }"},
    {"gru_f32", some_sizes,
     "g (float[T,N,9] x, float[2,36,9] w, float[2,36,12] w2, float[2,72] w3, float[2,N,12] s) => (y, h)"
     "{ y, h = GRU<linear_before_reset = 1, direction = \"bidirectional\">(x, w, w2, w3, , s) }"},
    {"gru_f32", some_sizes,
     "g (float[T,N,9] x, float[1,9,9] w, float[1,9,3] w2) => (h) { , h = GRU<linear_before_reset = 1, direction = "
     "\"reverse\">(x, w, w2) }"},
    {"rnn_f32", some_sizes,
     "g (float[T,N,9] x, float[2,21,9] w, float[2,21,21] w2, float[2,42] w3) => (y, h) { y, h = RNN<direction = "
     "\"bidirectional\">(x, w, w2, w3) }"},
    /* Weights that leave the cache: larger blocks of rows. */
    {"lstm_f32", "T=2 N=3; T=1 N=51",
     "g (float[T,N,150] x, float[1,600,150] w, float[1,600,150] w2) => (y) { y = LSTM(x, w, w2) }"},
    /* No input but the state. */
    {"lstm_f32", "T=5 N=3; T=1 N=1",
     "g (float[T,N,0] x, float[1,20,0] w, float[1,20,5] w2, float[1,40] w3, float[1,N,5] s) => (y)"
     "{ y = LSTM(x, w, w2, w3, , s) }"},
    /* More steps than there are sums. */
    {"gru_f32", "T=7 N=1", "g (float[T,N,300] x, float[1,3,300] w, float[1,3,1] w2) => (y) { y = GRU(x, w, w2) }"},
};

static void test_cells(void **state)
{
    (void)state;
    CHECK_ALL(cells);
}

static const test_case variants[] = {
    {"lstm_f32", some_sizes,
     "g (float[N,T,6] x, float[2,20,6] w, float[2,20,5] w2, float[2,40] w3, float[N,2,5] s, float[N,2,5] t) => (y, h, "
     "c)"
     "{ y, h, c = LSTM<layout = 1, direction = \"bidirectional\">(x, w, w2, w3, , s, t) }"},
    {"gru_f32", some_sizes,
     "g (float[N,T,6] x, float[1,15,6] w, float[1,15,5] w2, float[N,1,5] s) => (y, h)"
     "{ y, h = GRU<layout = 1, direction = \"reverse\">(x, w, w2, , , s) }"},
    {"rnn_f32", some_sizes,
     "g (float[T,N,6] x, float[2,5,6] w, float[2,5,5] w2) => (y) { y = RNN<activations = [\"relu\", \"Softsign\"], "
     "direction = \"bidirectional\">(x, w, w2) }"},
    {"gru_f32", some_sizes,
     "g (float[T,N,6] x, float[1,15,6] w, float[1,15,5] w2) => (y) { y = GRU<activations = [\"Softplus\", "
     "\"Relu\"]>(x, w, w2) }"},
    {"lstm_f32", some_sizes,
     "g (float[T,N,6] x, float[1,20,6] w, float[1,20,5] w2) => (c) { , , c = LSTM<activations = [\"Tanh\", "
     "\"Sigmoid\", \"Relu\"]>(x, w, w2) }"},
    /* As exporters join both directions; as they take the only one. */
    {"lstm_f32", some_sizes,
     "g (float[T,N,6] x, float[2,20,6] w, float[2,20,5] w2) => (y) <int64[3] s = {0,0,10}>"
     "{ a = LSTM<direction = \"bidirectional\">(x, w, w2) b = Transpose<perm = [0,2,1,3]>(a) y = Reshape(b, s) }"},
    {"gru_f32", "T=4 N=2; T=1 N=9",
     "g (float[N,T,6] x, float[1,15,6] w, float[1,15,5] w2, float[5,7] w3) => (y) <int64[1] one = {1}>"
     "{ e = Transpose<perm = [1,0,2]>(x) a = GRU(e, w, w2) b = Squeeze(a, one) c = Transpose<perm = [1,0,2]>(b) y = "
     "MatMul(c, w3) }"},
    /* An input and a state whose elements lie apart; a state that is broadcast. */
    {"lstm_f32", "T=4 N=2; T=1 N=9",
     "g (float[6,N,T] x, float[1,20,6] w, float[1,20,5] w2, float[5,N,1] s, float[1,1,5] t) => (y, h) <int64[3] d = "
     "{1,1,5}>"
     "{ e = Transpose<perm = [2,1,0]>(x) i = Transpose<perm = [2,1,0]>(s) z = Sub(i, i) j = Add(z, t) y, h = LSTM(e, "
     "w, w2, , , i, j) }"},
    {"gru_f32", "T=4",
     "g (float[T,3,6] x, float[1,15,6] w, float[1,15,5] w2, float[1,1,5] s) => (y) <int64[3] d = {1,3,5}>"
     "{ i = Expand(s, d) y = GRU(x, w, w2, , , i) }"},
    {"lstm_f32", "T=4",
     "g (float[4,3,6] x, float[1,20,6] w, float[1,20,5] w2) => (y) <int32[3] l = {4,4,4}> { y = LSTM(x, w, w2, , l) }"},
    /* Weights that are computed from constants. */
    {"gru_f32", "T=4 N=2",
     "g (float[T,N,6] x, float[6,15] w, float[15,5] w2) => (y) <int64[3] s = {1,15,5}, int64[1] zero = {0}>"
     "{ u = Transpose<perm = [1,0]>(w) v = Unsqueeze(u, zero) r = Reshape(w2, s) y = GRU(x, v, r) }"},
};

static void test_variants(void **state)
{
    (void)state;
    CHECK_ALL(variants);
}

/* Elementwise nodes behind Y. */
static const test_case followed[] = {
    {"lstm_f32", some_sizes,
     "g (float[T,N,11] x, float[1,20,11] w, float[1,20,5] w2) => (y, h) { a, h = LSTM(x, w, w2) y = Relu(a) }"},
    {"gru_f32", some_sizes,
     "g (float[T,N,11] x, float[2,15,11] w, float[2,15,5] w2, float[T,2,N,5] z, float[N,1] v) => (y)"
     "{ a = GRU<direction = \"bidirectional\">(x, w, w2) b = Add(a, z) c = Mul(b, v) y = Sigmoid(c) }"},
    {"gru_f32", some_sizes,
     "g (float[N,T,11] x, float[2,15,11] w, float[2,15,5] w2, float[N,T,2,5] z, float[2,1] w3) => (y, c)"
     "{ a = GRU<direction = \"bidirectional\", layout = 1>(x, w, w2) b = Add(a, z) c = Mul(b, w3) y = Tanh(c) }"},
};

static void test_followed(void **state)
{
    (void)state;
    CHECK_ALL(followed);
    for (size_t i = 0; i < sizeof followed / sizeof *followed; i++)
        check_steps(&(steps_case){followed[i].kernel, 1, "T=3 N=2", followed[i].text});
}

#define LSTM_OF(more)                                                                                                  \
    "g (float[4,2,6] x, float[1,20,6] w, float[1,20,5] w2, float[1,40] w3, float[1,15] w4) => (y) " more

static const test_case refused[] = {
    {"reference", "T=4", LSTM_OF("{ y = LSTM<clip = 0.1>(x, w, w2) }")},
    {"reference", "T=4", LSTM_OF("{ y = LSTM<input_forget = 1>(x, w, w2) }")},
    {"reference", "T=4", LSTM_OF("{ y = LSTM(x, w, w2, w3, , , , w4) }")},
    {"reference", "T=4", LSTM_OF("{ y = LSTM<activations = [\"Sigmoid\", \"Elu\", \"Tanh\"]>(x, w, w2) }")},
    {"reference", "T=4", LSTM_OF("<int32[2] l = {4,3}> { y = LSTM(x, w, w2, w3, l) }")},
    {"reference", "T=4",
     "g (float[4,2,6] x, float[1,20,6] w, float[1,20,5] w2, int32[2] l) => (y) { y = LSTM(x, w, w2, , l) }"},
    {"reference", "T=4", "g (float[4,2,6] x, float[1,20,6] v, float[1,20,5] w2) => (y) { y = LSTM(x, v, w2) }"},
    {"reference", "T=4", "g (float[4,2,6] x, float[1,20,6] w, float[1,20,5] v) => (y) { y = LSTM(x, w, v) }"},
    {"reference", "T=4",
     "g (float[4,2,6] x, float[1,20,6] w, float[1,20,5] w2, float[1,40] v) => (y) { y = LSTM(x, w, w2, v) }"},
    {"reference", "T=4", "g (double[4,2,6] x, double[1,20,6] w, double[1,20,5] w2) => (y) { y = LSTM(x, w, w2) }"},
};

static void test_refused(void **state)
{
    (void)state;
    CHECK_ALL(refused);
}

static void set_not_finite(tensors *inputs, size_t every)
{
    for (size_t t = 0; t < inputs->n; t++) {
        float *x = inputs->list[t].data;
        for (size_t i = t; i < tensor_count(&inputs->list[t]); i += every)
            x[i] = i % 3 == 0 ? NAN : i % 3 == 1 ? INFINITY : -INFINITY;
    }
}

static void test_not_finite(void **state)
{
    static const char *const texts[] = {
        "g (float[4,3,6] x, float[2,20,6] w, float[2,20,5] w2, float[2,3,5] s, float[2,3,5] t) => (y, h, c)"
        "{ y, h, c = LSTM<direction = \"bidirectional\">(x, w, w2, , , s, t) }",
        "g (float[4,3,6] x, float[1,15,6] w, float[1,15,5] w2, float[1,3,5] s) => (y) { y = GRU(x, w, w2, , , s) }",
        "g (float[4,3,6] x, float[1,15,6] w, float[1,15,5] w2, float[1,3,5] s) => (y) { y = GRU<linear_before_reset = "
        "1>(x, w, w2, , , s) }",
        "g (float[4,3,6] x, float[1,5,6] w, float[1,5,5] w2) => (y) { y = RNN<activations = [\"Relu\"]>(x, w, w2) }"};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        for (opf_cpu_level level = OPF_CPU_SCALAR; level <= opf_cpu_detect(); level++)
            for (size_t every = 7; every < 70; every += 31) {
                opf_model_options options = {.level = level};
                text_model m;
                tensors inputs;
                results want, have;
                text_model_open(&m, texts[i], &options, 1);
                make_inputs(m.model, "", 7, &inputs);
                set_not_finite(&inputs, every);
                run_model(m.model, OPF_MODE_REFERENCE, 1, &inputs, NULL, texts[i], &want);
                run_model(m.model, OPF_MODE_FUSED, 2, &inputs, NULL, texts[i], &have);
                compare_results(&have, &want, 1e-4, 2e-5, "not finite", "", texts[i]);
                free_results(&have);
                free_results(&want);
                free_tensors(&inputs);
                text_model_close(&m);
            }
}

/* ---- by chance ---- */

static int draw(opf_random *random, int first, int last)
{
    return first + (int)(opf_random_next(random) % (uint64_t)(last - first + 1));
}

static void make_text(opf_random *random, char *text, size_t room)
{
    static const char *const ops[] = {"RNN", "GRU", "LSTM"}, *const ways[] = {"forward", "reverse", "bidirectional"};
    static const int gates[] = {1, 3, 4};
    const int op = draw(random, 0, 2), way = draw(random, 0, 2), d = way == 2 ? 2 : 1, layout = draw(random, 0, 1);
    const int inputs = draw(random, 1, 40), hidden = draw(random, 1, 40), sums = gates[op] * hidden,
              which = draw(random, 1, op == 2 ? 7 : 3);
    const char *const first = layout == 1 ? "N" : "T", *const second = layout == 1 ? "T" : "N";
    char state[32];
    (void)snprintf(state, sizeof state, layout == 1 ? "[N,%d,%d]" : "[%d,N,%d]", d, hidden);
    size_t at = (size_t)snprintf(
        text, room,
        "g (float[%s,%s,%d] x, float[%d,%d,%d] w, float[%d,%d,%d] w2, float[%d,%d] w3, float%s s, float%s t) => (",
        first, second, inputs, d, sums, inputs, d, sums, hidden, d, 2 * sums, state, state);
    at += (size_t)snprintf(text + at, room - at, "%s%s%s) {", (which & 1) != 0 ? "y, " : "",
                           (which & 2) != 0 ? "h, " : "", (which & 4) != 0 ? "c" : "x");
    at += (size_t)snprintf(text + at, room - at, " %s,%s%s = %s<layout = %d, direction = \"%s\"",
                           (which & 1) != 0 ? "y" : "", (which & 2) != 0 ? "h" : "",
                           op != 2            ? ""
                           : (which & 4) != 0 ? ", c"
                                              : ",",
                           ops[op], layout, ways[way]);
    if (op == 1)
        at += (size_t)snprintf(text + at, room - at, ", linear_before_reset = %d", draw(random, 0, 1));
    at += (size_t)snprintf(text + at, room - at, ">(x, w, w2, %s, , %s", draw(random, 0, 1) == 0 ? "w3" : "",
                           draw(random, 0, 1) == 0 ? "s" : "");
    (void)snprintf(text + at, room - at, "%s) }", op == 2 && draw(random, 0, 1) == 0 ? ", t" : "");
}

static void test_by_chance(void **state)
{
    opf_random random;
    (void)state;
    opf_random_init(&random, 5);
    for (int i = 0; i < 150; i++) {
        char text[600], sizes[40];
        const int steps = draw(&random, 0, 9);
        const char *kernel;
        make_text(&random, text, sizeof text);
        (void)snprintf(sizes, sizeof sizes, "T=%d N=%d", steps, draw(&random, 1, 20));
        kernel = strstr(text, "LSTM") != NULL ? "lstm_f32" : strstr(text, "GRU") != NULL ? "gru_f32" : "rnn_f32";
        check_case(&(test_case){steps == 0 ? NULL : kernel, sizes, text},
                   few_threads); /* no step: perhaps nothing to compute */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cells),      cmocka_unit_test(test_variants),
                                       cmocka_unit_test(test_followed),   cmocka_unit_test(test_refused),
                                       cmocka_unit_test(test_not_finite), cmocka_unit_test(test_by_chance)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
