/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decoders with a cache: keys and values of earlier calls come in, those of all calls go out, and attention reads them where they
 * are kept. Every form that exporters write is one attention step; a sequence of calls, each fed what the one before gave, equals
 * the reference on the same inputs. RotaryEmbedding as one operator is turned by a kernel, or by attention as it reads.
 */
#include "text_model.h"

typedef struct test_case {
    int         steps, attentions, rotaries; /* of the fused plan */
    const char *text;
} test_case;

static const int32_t threads[] = {1, 3, 0};

static size_t count_kernel(const opf_profile *profile, const char *kernel)
{
    size_t n = 0;
    for (size_t i = 0; i < profile->n_steps; i++)
        n += strcmp(profile->steps[i].kernel, kernel) == 0;
    return n;
}

static void check_counts(const opf_model *model, const tensors *inputs, const test_case *c)
{
    opf_session_options options = {.mode = OPF_MODE_FUSED, .threads = 1};
    opf_session        *session;
    opf_tensor          outputs[MAX_PORTS] = {{0}};
    opf_profile         profile;
    assert_int_equal(opf_session_create(model, &options, &session, NULL), OPF_OK);
    assert_int_equal(opf_session_run(session, inputs->list, inputs->n, outputs, opf_model_output_count(model), NULL), OPF_OK);
    assert_int_equal(opf_session_profile(session, &profile, NULL), OPF_OK);
    if (profile.n_steps != (size_t)c->steps || count_kernel(&profile, "attention_f32") != (size_t)c->attentions ||
        count_kernel(&profile, "rotary_f32") != (size_t)c->rotaries) {
        for (size_t i = 0; i < profile.n_steps; i++)
            (void)fprintf(stderr, "  %s\n", profile.steps[i].kernel);
        fail_text(c->text, "%zu steps, must be %d with %d and %d of attention and rotary", profile.n_steps, c->steps, c->attentions,
                  c->rotaries);
    }
    opf_session_destroy(&session);
}

/* ---- sequences of calls ---- */

/* Positions are those of the call's rows; indices stay in their tables. */
static void set_positions(const opf_model *model, tensors *inputs, int64_t past, int64_t rows)
{
    for (size_t i = 0; i < inputs->n; i++) {
        opf_port port;
        assert_int_equal(opf_model_input(model, i, &port), OPF_OK);
        for (size_t k = 0; strcmp(port.name, "ids") == 0 && k < tensor_count(&inputs->list[i]); k++)
            ((int64_t *)inputs->list[i].data)[k] = past + (int64_t)k % rows;
    }
}

/* An input named like an output, but for an o before it, is fed what that gave. */
static void feed(const opf_model *model, const results *last, tensors *inputs)
{
    for (size_t i = 0; i < inputs->n; i++)
        for (size_t o = 0; o < last->n; o++) {
            opf_port in, out;
            assert_int_equal(opf_model_input(model, i, &in), OPF_OK);
            assert_int_equal(opf_model_output(model, o, &out), OPF_OK);
            if (out.name[0] != 'o' || strcmp(in.name, out.name + 1) != 0)
                continue;
            assert_int_equal(inputs->list[i].bytes, last->list[o].bytes);
            memcpy(inputs->list[i].data, last->list[o].data, last->list[o].bytes);
        }
}

static void check_sequence(const opf_model *model, opf_cpu_level level, const test_case *c)
{
    static const int64_t rows[] = {0, 5, 1, 1, 3, 1};
    results              last   = {.n = 0};
    int64_t              past   = 0;
    for (size_t call = 0; call < sizeof rows / sizeof *rows; past += rows[call++]) {
        tensors inputs;
        results want;
        char    sizes[80];
        (void)snprintf(sizes, sizeof sizes, "N=2 S=%lld P=%lld T=%lld", (long long)rows[call], (long long)past, (long long)(past + rows[call]));
        make_inputs(model, sizes, 7 + call, &inputs);
        set_positions(model, &inputs, past, rows[call]);
        feed(model, &last, &inputs);
        run_model(model, OPF_MODE_REFERENCE, 1, &inputs, NULL, c->text, &want);
        for (opf_mode mode = OPF_MODE_FUSED; mode <= OPF_MODE_UNFUSED; mode++)
            check_run(model, mode, &inputs, &want, &(expected){NULL, -1, 1e-4, 2e-5, threads, label_of(mode, level), sizes, c->text});
        if (past != 0)
            check_counts(model, &inputs, c);
        free_results(&last);
        last = want;
        free_tensors(&inputs);
    }
    free_results(&last);
}

static void check_cases(const test_case *cases, size_t n)
{
    for (opf_cpu_level level = OPF_CPU_SCALAR; level <= opf_cpu_detect(); level++)
        for (size_t i = 0; i < n; i++) {
            opf_model_options options = {.level = level};
            text_model        m;
            text_model_open(&m, cases[i].text, &options, 1);
            check_sequence(m.model, level, &cases[i]);
            text_model_close(&m);
        }
}

#define CHECK_ALL(cases) check_cases(cases, sizeof(cases) / sizeof *(cases))

/* ---- forms ---- */

/* 4 heads of 8, of keys 2 or 4. */
#define CONSTANTS                                                                                                                     \
    " <int64[4] s = {0,0,4,8}, int64[4] s2 = {0,0,2,8}, int64[3] f = {0,0,32}, float c = {0.35}, int64[1] zero = {0}, int64[1] one = {1}," \
    "  int64[1] two = {2}, int64[1] three = {3}, int64 i0 = {0}, int64 i1 = {1}, int64 i2 = {2}, int64[2] halves = {1,1}, int64[5] twice = {1,1,2,1,1},"   \
    "  int64[4] t = {0,4,-1,8}, float low = {-30000}, float none = {0}, int64[1] w32 = {32}, int64[1] w64 = {64}, int64[1] w96 = {96},"               \
    "  int64[3] thirds = {32,32,32}>"
#define SPLIT "{ m = MatMul(x, w) q0, k0, v0 = Split<axis = 2>(m, thirds)"
#define SLICES "{ m = MatMul(x, w) q0 = Slice(m, zero, w32, two) k0 = Slice(m, w32, w64, two) v0 = Slice(m, w64, w96, two)"
#define HEADS                                                                                                          \
    " q1 = Reshape(q0, s) q = Transpose<perm = [0,2,1,3]>(q1) k1 = Reshape(k0, s) kn = Transpose<perm = [0,2,1,3]>(k1)" \
    " v1 = Reshape(v0, s) vn = Transpose<perm = [0,2,1,3]>(v1)"
#define JOIN " p = Softmax(e) r = MatMul(p, v) r1 = Transpose<perm = [0,2,1,3]>(r) y = Reshape(r1, f) }"
#define SCORES(k) " kt = Transpose<perm = [0,1,3,2]>(" k ") a = MatMul(q, kt) b = Mul(a, c)"
/* Causal: rows of a table from the length of the past on. */
#define CAUSAL                                                                                                         \
    " hk = Shape(k) total = Gather(hk, i2) hq = Shape(q) own = Gather(hq, i2) before = Sub(total, own) from = Unsqueeze(before, zero)" \
    " to = Unsqueeze(total, zero) rows = Range(before, total, i1) cols = Range(i0, total, i1) rc = Unsqueeze(rows, one) seen = LessOrEqual(cols, rc)"

static void test_gpt2(void **state)
{
    static const test_case cases[] = {
        /* Past and present apart. */
        {4, 1, 0, "g (float[N,S,32] x, float[32,96] w, float[N,4,P,8] k, float[N,4,P,8] v) => (y, ok, ov)" CONSTANTS SPLIT HEADS
                  " ok = Concat<axis = 2>(k, kn) ov = Concat<axis = -2>(v, vn) kt = Transpose<perm = [0,1,3,2]>(ok) a = MatMul(q, kt) e = Mul(a, c)"
                  " p = Softmax(e) r = MatMul(p, ov) r1 = Transpose<perm = [0,2,1,3]>(r) y = Reshape(r1, f) }"},
        {4, 1, 0, "g (float[N,S,32] x, float[32,96] w, float[N,4,P,8] k, float[N,4,P,8] v) => (y, ok, ov)" CONSTANTS SLICES HEADS
                  " ok = Concat<axis = 2>(k, kn) ov = Concat<axis = -2>(v, vn) kt = Transpose<perm = [0,1,3,2]>(ok) a = MatMul(q, kt) e = Mul(a, c)"
                  " p = Softmax(e) r = MatMul(p, ov) r1 = Transpose<perm = [0,2,1,3]>(r) y = Reshape(r1, f) }"},
        /* Both stacked: written where they lie in the stack. */
        {4, 1, 0, "g (float[N,S,32] x, float[32,96] w, float[2,N,4,P,8] kv) => (y, okv)" CONSTANTS SPLIT HEADS
                  " kp = Gather<axis = 0>(kv, i0) vp = Gather<axis = 0>(kv, i1) k = Concat<axis = 2>(kp, kn) v = Concat<axis = 2>(vp, vn)"
                  " ku = Unsqueeze(k, zero) vu = Unsqueeze(v, zero) okv = Concat<axis = 0>(ku, vu)" SCORES("k") " e = Identity(b)" JOIN},
        {4, 1, 0, "g (float[N,S,32] x, float[32,96] w, float[2,N,4,P,8] kv) => (y, okv)" CONSTANTS SPLIT HEADS
                  " kp1, vp1 = Split<axis = 0>(kv, halves) kp = Squeeze(kp1, zero) vp = Squeeze(vp1, zero) k = Concat<axis = 2>(kp, kn) v = Concat<axis = 2>(vp, vn)"
                  " ku = Unsqueeze(k, zero) vu = Unsqueeze(v, zero) okv = Concat<axis = 0>(ku, vu)" SCORES("k") CAUSAL " e = Where(seen, b, low)" JOIN},
        /* Stacked behind the batches, and behind the heads. */
        {4, 1, 0, "g (float[N,S,32] x, float[32,96] w, float[N,2,4,P,8] kv) => (y, okv)" CONSTANTS SPLIT HEADS
                  " kp = Gather<axis = 1>(kv, i0) vp = Gather<axis = 1>(kv, i1) k = Concat<axis = 2>(kp, kn) v = Concat<axis = 2>(vp, vn)"
                  " ku = Unsqueeze(k, one) vu = Unsqueeze(v, one) okv = Concat<axis = 1>(ku, vu)" SCORES("k") " e = Identity(b)" JOIN},
        {4, 1, 0, "g (float[N,S,32] x, float[32,96] w, float[N,4,2,P,8] kv) => (y, okv)" CONSTANTS SPLIT HEADS
                  " kp = Gather<axis = 2>(kv, i0) vp = Gather<axis = 2>(kv, i1) k = Concat<axis = 2>(kp, kn) v = Concat<axis = 2>(vp, vn)"
                  " ku = Unsqueeze(k, two) vu = Unsqueeze(v, two) okv = Concat<axis = 2>(ku, vu)" SCORES("k") " e = Identity(b)" JOIN},
    };
    (void)state;
    CHECK_ALL(cases);
}


/* Other orders of axes: keys that are kept transposed, positions before heads, all layers in one stack. */
static void test_orders(void **state)
{
    static const test_case cases[] = {
        {4, 1, 0, "g (float[N,S,32] x, float[32,96] w, float[N,4,8,P] k, float[N,4,P,8] v) => (y, ok, ov)" CONSTANTS SPLIT HEADS
                  " kx = Transpose<perm = [0,2,3,1]>(k1) ok = Concat<axis = 3>(k, kx) ov = Concat<axis = 2>(v, vn) a = MatMul(q, ok) e = Mul(a, c)"
                  " p = Softmax(e) r = MatMul(p, ov) r1 = Transpose<perm = [0,2,1,3]>(r) y = Reshape(r1, f) }"},
        {4, 1, 0, "g (float[N,S,32] x, float[32,96] w, float[N,P,4,8] k, float[N,P,4,8] v) => (y, ok, ov)" CONSTANTS SPLIT HEADS
                  " ok = Concat<axis = 1>(k, k1) ov = Concat<axis = 1>(v, v1) kt = Transpose<perm = [0,2,3,1]>(ok) a = MatMul(q, kt) e = Mul(a, c)"
                  " p = Softmax(e) vt = Transpose<perm = [0,2,1,3]>(ov) r = MatMul(p, vt) r1 = Transpose<perm = [0,2,1,3]>(r) y = Reshape(r1, f) }"},
        {7, 2, 0, "g (float[N,S,32] x, float[32,96] w, float[2,2,N,4,P,8] kv) => (y, z, okv)" CONSTANTS SPLIT HEADS
                  " kv0 = Gather<axis = 0>(kv, i0) kv1 = Gather<axis = 0>(kv, i1) kp = Gather<axis = 0>(kv0, i0) vp = Gather<axis = 0>(kv0, i1)"
                  " kr = Gather<axis = 0>(kv1, i0) vr = Gather<axis = 0>(kv1, i1) k = Concat<axis = 2>(kp, kn) v = Concat<axis = 2>(vp, vn)"
                  " l = Concat<axis = 2>(kr, vn) n = Concat<axis = 2>(vr, kn) ku = Unsqueeze(k, zero) vu = Unsqueeze(v, zero) lu = Unsqueeze(l, zero) nu = Unsqueeze(n, zero)"
                  " first = Concat<axis = 0>(ku, vu) second = Concat<axis = 0>(lu, nu) fu = Unsqueeze(first, zero) su = Unsqueeze(second, zero) okv = Concat<axis = 0>(fu, su)"
                  SCORES("k") " h = Transpose<perm = [0,1,3,2]>(l) d = MatMul(q, h) o = Softmax(d) z = MatMul(o, n) e = Identity(b)" JOIN},
    };
    (void)state;
    CHECK_ALL(cases);
}

static void test_llama(void **state)
{
    static const test_case cases[] = {
        /* Keys of few heads, turned before they are kept. Their kernel writes the present; queries are turned as they are read. */
        {4, 1, 1, "g (float[N,4,S,8] q2, float[N,2,S,8] k2, float[N,2,S,8] v2, float[N,2,P,8] k, float[N,2,P,8] v, float[N,1,S,4] a0, float[N,1,S,4] b0) => (y, ok, ov)"
                  CONSTANTS "{ q = RotaryEmbedding<broadcast = 1>(q2, a0, b0) kn = RotaryEmbedding<broadcast = 1>(k2, a0, b0) ok = Concat<axis = 2>(k, kn) ov = Concat<axis = 2>(v, v2)"
                  "  k4 = Unsqueeze(ok, two) k5 = Expand(k4, twice) k6 = Reshape(k5, t) v4 = Unsqueeze(ov, two) v5 = Expand(v4, twice) v6 = Reshape(v5, t)" SCORES("k6")
                  " p = Softmax(b) r = MatMul(p, v6) r1 = Transpose<perm = [0,2,1,3]>(r) y = Reshape(r1, f) }"},
        /* The operator, with positions; and joined heads. Two lookups of angles. */
        {6, 1, 1, "g (float[N,4,S,8] q2, float[N,2,S,8] k2, float[N,2,S,8] v2, float[N,2,P,8] k, float[N,2,P,8] v, int64[N,S] ids, float[16,4] a0, float[16,4] b0) => (y, ok, ov)"
                  CONSTANTS "{ q = RotaryEmbedding<interleaved = 1>(q2, a0, b0, ids) kn = RotaryEmbedding<interleaved = 1>(k2, a0, b0, ids) ok = Concat<axis = 2>(k, kn) ov = Concat<axis = 2>(v, v2)"
                  "  k4 = Unsqueeze(ok, two) k5 = Expand(k4, twice) k6 = Reshape(k5, t) v4 = Unsqueeze(ov, two) v5 = Expand(v4, twice) v6 = Reshape(v5, t)" SCORES("k6")
                  " p = Softmax(b) r = MatMul(p, v6) r1 = Transpose<perm = [0,2,1,3]>(r) y = Reshape(r1, f) }"},
        {6, 1, 1, "g (float[N,S,32] q0, float[N,S,16] k0, float[N,2,S,8] v2, float[N,2,P,8] k, float[N,2,P,8] v, int64[N,S] ids, float[16,3] a0, float[16,3] b0) => (y, ok, ov)"
                  CONSTANTS "{ q1 = RotaryEmbedding<num_heads = 4, rotary_embedding_dim = 6>(q0, a0, b0, ids) k1 = RotaryEmbedding<num_heads = 2, rotary_embedding_dim = 6>(k0, a0, b0, ids)"
                  "  q2 = Reshape(q1, s) q = Transpose<perm = [0,2,1,3]>(q2) k2 = Reshape(k1, s2) kn = Transpose<perm = [0,2,1,3]>(k2) ok = Concat<axis = 2>(k, kn) ov = Concat<axis = 2>(v, v2)"
                  "  k4 = Unsqueeze(ok, two) k5 = Expand(k4, twice) k6 = Reshape(k5, t) v4 = Unsqueeze(ov, two) v5 = Expand(v4, twice) v6 = Reshape(v5, t)" SCORES("k6")
                  " p = Softmax(b) r = MatMul(p, v6) r1 = Transpose<perm = [0,2,1,3]>(r) y = Reshape(r1, f) }"},
    };
    (void)state;
    CHECK_ALL(cases);
}

/* Attention as an operator that keeps keys itself: one step puts past and new together, one reads them. */
static void test_operator(void **state)
{
    static const test_case cases[] = {
        {2, 1, 0, "g (float[N,4,S,8] q, float[N,2,S,8] kn, float[N,2,S,5] vn, float[N,2,P,8] k, float[N,2,P,5] v) => (y, ok, ov) { y, ok, ov = Attention(q, kn, vn, , k, v) }"},
        {2, 1, 0, "g (float[N,4,S,8] q, float[N,2,S,8] kn, float[N,2,S,5] vn, float[N,2,P,8] k, float[N,2,P,5] v) => (y, ok, ov) { y, ok, ov = Attention<is_causal = 1, scale = 0.7>(q, kn, vn, , k, v) }"},
        {2, 1, 0, "g (float[N,S,32] q, float[N,S,16] kn, float[N,S,10] vn, float[N,2,P,8] k, float[N,2,P,5] v, bool[N,1,S,T] m) => (y, ok, ov)"
                  "{ y, ok, ov = Attention<is_causal = 1, q_num_heads = 4, kv_num_heads = 2, softcap = 2.5>(q, kn, vn, m, k, v) }"},
        /* Queries and keys are turned before; only queries as they are read. */
        {5, 1, 1, "g (float[N,S,32] q0, float[N,S,16] k0, float[N,S,10] vn, float[N,2,P,8] k, float[N,2,P,5] v, int64[N,S] ids, float[16,4] a0, float[16,4] b0) => (y, ok, ov)"
                  "{ q = RotaryEmbedding<num_heads = 4>(q0, a0, b0, ids) kn = RotaryEmbedding<num_heads = 2>(k0, a0, b0, ids)"
                  "  y, ok, ov = Attention<is_causal = 1, q_num_heads = 4, kv_num_heads = 2>(q, kn, vn, , k, v) }"},
    };
    (void)state;
    CHECK_ALL(cases);
}

/* What is kept is not wanted, or only one of both; there is no past. */
static void test_parts_of_a_cache(void **state)
{
    static const test_case cases[] = {
        {2, 1, 0, "g (float[N,4,S,8] q, float[N,2,S,8] kn, float[N,2,S,5] vn, float[N,2,P,8] k, float[N,2,P,5] v) => (y) { y = Attention<is_causal = 1>(q, kn, vn, , k, v) }"},
        {2, 1, 0, "g (float[N,4,S,8] q, float[N,2,S,8] kn, float[N,2,S,5] vn, float[N,2,P,8] k, float[N,2,P,5] v) => (y, ov) { y, , ov = Attention(q, kn, vn, , k, v) }"},
        /* The present is read in another order. */
        {2, 1, 0, "g (float[N,4,S,8] q, float[N,2,S,8] kn, float[N,2,S,5] vn, float[N,2,P,8] k, float[N,2,P,5] v) => (y, t, ov)"
                  " { y, ok, ov = Attention(q, kn, vn, , k, v) t = Transpose<perm = [0,2,1,3]>(ok) }"},
        {2, 1, 0, "g (float[N,4,S,8] q, float[N,2,S,8] kn, float[N,2,S,5] vn) => (y, ok) { y, ok = Attention<is_causal = 1>(q, kn, vn) }"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const test_case *c = &cases[i];
        text_model       m;
        tensors          inputs;
        results          want;
        text_model_open(&m, c->text, NULL, 1);
        make_inputs(m.model, "N=2 S=3 P=4", 5, &inputs);
        run_model(m.model, OPF_MODE_REFERENCE, 1, &inputs, NULL, c->text, &want);
        for (opf_mode mode = OPF_MODE_FUSED; mode <= OPF_MODE_UNFUSED; mode++)
            check_run(m.model, mode, &inputs, &want, &(expected){"attention_f32", c->steps, 1e-5, 1e-6, threads, "any", "", c->text});
        free_results(&want);
        free_tensors(&inputs);
        text_model_close(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gpt2),
        cmocka_unit_test(test_orders),
        cmocka_unit_test(test_llama),
        cmocka_unit_test(test_operator),
        cmocka_unit_test(test_parts_of_a_cache),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
