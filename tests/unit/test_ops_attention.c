/* SPDX-License-Identifier: Apache-2.0 */
/* Attention and its kin, losses, random numbers. */
#include "one_node.h"

/* ---- attention ---- */

/* One query on three keys whose scores are the logarithms of 1, 2 and 3. */
static void add_attention(int64_t queries)
{
    begin();
    add(OPF_DOUBLE, DIMS(1, 1, queries, 1), LIST(1, 1, 1, 1));
    add(OPF_DOUBLE, DIMS(1, 1, 3, 1), LIST(0, log(2), log(3)));
    add(OPF_DOUBLE, DIMS(1, 1, 3, 2), LIST(6, 0, 0, 6, 12, 12));
}

static void test_attention(void **state)
{
    (void)state;
    add_attention(1);
    RUN_OK(Attention, 4, int_attr("qk_matmul_output_mode", 3));
    expect(0, DIMS(1, 1, 1, 2), LIST(7, 8), 1e-14);
    expect(1, DIMS(1, 1, 3, 1), LIST(0, log(2), log(3)), 0);
    expect(2, DIMS(1, 1, 3, 2), LIST(6, 0, 0, 6, 12, 12), 0);
    expect(3, DIMS(1, 1, 1, 3), LIST(1 / 6.0, 2 / 6.0, 3 / 6.0), 1e-15);
    end();
    add_attention(3);
    RUN_OK(Attention, 1, int_attr("is_causal", 1));
    expect(0, DIMS(1, 1, 3, 2), LIST(6, 0, 2, 4, 7, 8), 1e-14);
    end();
    add_attention(3);
    RUN_OK(Attention, 1, int_attr("left_window_size", 0), int_attr("right_window_size", 0));
    expect(0, DIMS(1, 1, 3, 2), LIST(6, 0, 0, 6, 12, 12), 1e-14);
    end();
}

static void test_attention_masks(void **state)
{
    (void)state;
    add_attention(2); /* shorter than the keys: the rest is masked */
    add(OPF_BOOL, DIMS(2, 2), LIST(1, 1, 0, 0));
    RUN_OK(Attention, 1, NONE);
    expect(0, DIMS(1, 1, 2, 2), LIST(2, 4, 0, 0), 1e-14);
    end();
    add_attention(1);
    add(OPF_DOUBLE, DIMS(3), LIST(log(6), log(3), log(2)));
    RUN_OK(Attention, 4, int_attr("qk_matmul_output_mode", 2));
    expect(0, DIMS(1, 1, 1, 2), LIST(6, 6), 1e-14);
    expect(3, DIMS(1, 1, 1, 3), LIST(log(6), log(6), log(6)), 1e-14);
    end();
    add_attention(1);
    add_nothing();
    add_nothing();
    add_nothing();
    add(OPF_INT64, DIMS(1), LIST(2));
    RUN_OK(Attention, 1, NONE);
    expect(0, DIMS(1, 1, 1, 2), LIST(2, 4), 1e-14);
    end();
    add_attention(3); /* more queries than keys that count: the first one sees none */
    add_nothing();
    add_nothing();
    add_nothing();
    add(OPF_INT64, DIMS(1), LIST(2));
    RUN_OK(Attention, 1, int_attr("is_causal", 1));
    expect(0, DIMS(1, 1, 3, 2), LIST(0, 0, 6, 0, 2, 4), 1e-14);
    end();
    add_attention(1);
    add_nothing();
    add_nothing();
    add_nothing();
    add(OPF_INT64, DIMS(1), LIST(4));
    REFUSE(Attention, 1, OPF_INVALID_INPUT, "nonpad_kv_seqlen is 4", NONE);
}

static void test_attention_past(void **state)
{
    (void)state;
    begin(); /* the last of three keys is new, and four heads of queries share two of keys */
    add(OPF_DOUBLE, DIMS(1, 1, 4), LIST(1, 1, 1, 0));
    add(OPF_DOUBLE, DIMS(1, 1, 2), LIST(log(3), log(3)));
    add(OPF_DOUBLE, DIMS(1, 1, 2), LIST(12, 6));
    add_nothing();
    add(OPF_DOUBLE, DIMS(1, 2, 2, 1), LIST(0, log(2), 0, log(2)));
    add(OPF_DOUBLE, DIMS(1, 2, 2, 1), LIST(6, 0, 0, 3));
    RUN_OK(Attention, 3, int_attr("q_num_heads", 4), int_attr("kv_num_heads", 2), int_attr("is_causal", 1));
    expect(0, DIMS(1, 1, 4), LIST(7, 7, 4, 3), 1e-14);
    expect(1, DIMS(1, 2, 3, 1), LIST(0, log(2), log(3), 0, log(2), log(3)), 0);
    expect(2, DIMS(1, 2, 3, 1), LIST(6, 0, 12, 0, 3, 6), 0);
    end();
    begin(); /* no keys at all */
    add_pattern(OPF_FLOAT, DIMS(1, 2, 3, 4));
    add(OPF_FLOAT, DIMS(1, 2, 0, 4), NULL);
    add(OPF_FLOAT, DIMS(1, 2, 0, 1), NULL);
    RUN_OK(Attention, 1, NONE);
    expect(0, DIMS(1, 2, 3, 1), LIST(0, 0, 0, 0, 0, 0), 0);
    end();
}

static void test_attention_softcap(void **state)
{
    (void)state;
    for (int mode = 0; mode < 2; mode++) {
        add_attention(1);
        RUN_OK(Attention, 4, int_attr("qk_matmul_output_mode", mode), float_attr("softcap", 0.5F), float_attr("scale", 2));
        const double x = 2 * log(3);
        assert_true(fabs(at(3, 2) - (mode == 0 ? x : 0.5 * tanh(2 * x))) < 1e-14);
        end();
    }
}

static void test_attention_refused(void **state)
{
    (void)state;
    add_attention(1);
    REFUSE(Attention, 1, OPF_INVALID_MODEL, "left_window_size is -2", int_attr("left_window_size", -2));
    add_attention(1);
    add(OPF_BOOL, DIMS(1, 4), NULL);
    REFUSE(Attention, 1, OPF_INVALID_INPUT, "does not fit 3 scores", NONE);
    add_attention(1);
    add_nothing();
    add(OPF_DOUBLE, DIMS(1, 1, 1, 1), NULL);
    REFUSE(Attention, 1, OPF_INVALID_MODEL, "must be given together", NONE);
    begin();
    add(OPF_FLOAT, DIMS(1, 1, 4), NULL);
    add(OPF_FLOAT, DIMS(1, 1, 4), NULL);
    add(OPF_FLOAT, DIMS(1, 1, 4), NULL);
    REFUSE(Attention, 1, OPF_INVALID_MODEL, "q_num_heads is 0", NONE);
    begin();
    add(OPF_FLOAT, DIMS(1, 3, 1, 4), NULL);
    add(OPF_FLOAT, DIMS(1, 2, 1, 4), NULL);
    add(OPF_FLOAT, DIMS(1, 2, 1, 4), NULL);
    REFUSE(Attention, 1, OPF_INVALID_INPUT, "3 heads of the former", NONE);
}

static void test_rotary(void **state)
{
    (void)state;
    begin(); /* a quarter turn at position 1; the third number stays */
    add(OPF_FLOAT, DIMS(1, 2, 3), LIST(1, 2, 3, 4, 5, 6));
    add(OPF_FLOAT, DIMS(2, 1), LIST(1, 0));
    add(OPF_FLOAT, DIMS(2, 1), LIST(0, 1));
    add(OPF_INT64, DIMS(1, 2), LIST(1, 0));
    RUN_OK(RotaryEmbedding, 1, int_attr("num_heads", 1), int_attr("rotary_embedding_dim", 2));
    expect(0, DIMS(1, 2, 3), LIST(-2, 1, 3, 4, 5, 6), 0);
    end();
    begin();
    add(OPF_FLOAT, DIMS(1, 1, 1, 4), LIST(1, 2, 3, 4));
    add(OPF_FLOAT, DIMS(1, 1, 2), LIST(0, 1));
    add(OPF_FLOAT, DIMS(1, 1, 2), LIST(1, 0));
    RUN_OK(RotaryEmbedding, 1, int_attr("interleaved", 1));
    expect(0, DIMS(1, 1, 1, 4), LIST(-2, 1, 3, 4), 0);
    end();
    begin();
    add(OPF_FLOAT, DIMS(1, 1, 1, 2), NULL);
    add(OPF_FLOAT, DIMS(2, 1), NULL);
    add(OPF_FLOAT, DIMS(2, 1), NULL);
    add(OPF_INT64, DIMS(1, 1), LIST(2));
    REFUSE(RotaryEmbedding, 1, OPF_INVALID_INPUT, "position 2 is outside", NONE);
    begin();
    add(OPF_FLOAT, DIMS(1, 1, 1, 3), NULL);
    add(OPF_FLOAT, DIMS(1, 1, 1), NULL);
    add(OPF_FLOAT, DIMS(1, 1, 1), NULL);
    REFUSE(RotaryEmbedding, 1, OPF_INVALID_MODEL, "size of a head is 3, must be even", NONE);
}

static void test_swiglu(void **state)
{
    (void)state;
    begin();
    add(OPF_DOUBLE, DIMS(4), LIST(0, 1, -1000, 1000));
    add(OPF_DOUBLE, DIMS(4), LIST(5, 2, 1, 3));
    RUN_OK(SwiGLU, 1, NONE);
    expect(0, DIMS(4), LIST(0, 2 / (1 + exp(-1)), 0, 3000), 1e-14);
    end();
    begin();
    add(OPF_FLOAT, DIMS(4), NULL);
    add(OPF_FLOAT, DIMS(1), NULL);
    REFUSE(SwiGLU, 1, OPF_INVALID_INPUT, "must be equal", NONE);
}

static void add_linear(void)
{
    begin();
    add(OPF_FLOAT, DIMS(1, 2, 2), LIST(1, 2, 1, 2)); /* two heads of queries, one of keys */
    add(OPF_FLOAT, DIMS(1, 2, 1), LIST(1, 2));
    add(OPF_FLOAT, DIMS(1, 2, 1), LIST(3, 5));
}

static void test_linear_attention(void **state)
{
    (void)state;
    const opf_attr q = int_attr("q_num_heads", 2), kv = int_attr("kv_num_heads", 1);
    add_linear();
    RUN_OK(LinearAttention, 2, q, kv, string_attr("update_rule", "linear"));
    expect(0, DIMS(1, 2, 2), LIST(3, 6, 13, 26), 0);
    expect(1, DIMS(1, 1, 1, 1), LIST(13), 0);
    end();
    add_linear(); /* S = 4/2 + 0.5 (3 - 2) = 2.5, then 2.5 + 0.5*2 (5 - 2*2.5) = 2.5 */
    add(OPF_FLOAT, DIMS(1, 1, 1, 1), LIST(4));
    add(OPF_FLOAT, DIMS(1, 2, 1), LIST(log(0.5), 0));
    add(OPF_FLOAT, DIMS(1, 2, 1), LIST(0.5, 0.5));
    RUN_OK(LinearAttention, 2, q, kv, float_attr("scale", 2));
    expect(0, DIMS(1, 2, 2), LIST(5, 10, 5, 10), 1e-6);
    expect(1, DIMS(1, 1, 1, 1), LIST(2.5), 1e-6);
    end();
    add_linear();
    REFUSE(LinearAttention, 2, OPF_INVALID_MODEL, "\"gated_delta\" needs input decay", q, kv);
    add_linear();
    REFUSE(LinearAttention, 2, OPF_INVALID_MODEL, "positive multiple", int_attr("q_num_heads", 3), int_attr("kv_num_heads", 2));
    add_linear();
    REFUSE(LinearAttention, 2, OPF_INVALID_MODEL, "update_rule is \"x\"", q, kv, string_attr("update_rule", "x"));
}

static void test_causal_conv(void **state)
{
    (void)state;
    begin();
    add(OPF_FLOAT, DIMS(1, 1, 3), LIST(1, 2, 3));
    add(OPF_FLOAT, DIMS(1, 1, 3), LIST(100, 10, 1));
    add(OPF_FLOAT, DIMS(1), LIST(0.5));
    RUN_OK(CausalConvWithState, 2, NONE);
    expect(0, DIMS(1, 1, 3), LIST(1.5, 12.5, 123.5), 0);
    expect(1, DIMS(1, 1, 2), LIST(2, 3), 0);
    end();
    begin(); /* shorter than the kernel: the old state is shifted */
    add(OPF_FLOAT, DIMS(1, 1, 1), LIST(1));
    add(OPF_FLOAT, DIMS(1, 1, 3), LIST(100, 10, 1));
    add_nothing();
    add(OPF_FLOAT, DIMS(1, 1, 2), LIST(8, 9));
    RUN_OK(CausalConvWithState, 2, string_attr("activation", "silu"));
    expect(0, DIMS(1, 1, 1), LIST(891), 0);
    expect(1, DIMS(1, 1, 2), LIST(9, 1), 0);
    end();
    begin();
    add(OPF_FLOAT, DIMS(1, 2, 1), NULL);
    add(OPF_FLOAT, DIMS(1, 1, 3), NULL);
    REFUSE(CausalConvWithState, 2, OPF_INVALID_INPUT, "must be [channels, 1, k]", NONE);
}

/* ---- losses ---- */

static void add_loss(double c0, double c1)
{
    begin();
    add(OPF_DOUBLE, DIMS(2, 3), LIST(-1, -2, -3, -4, -5, -6));
    add(OPF_INT32, DIMS(2), LIST(c0, c1));
}

static void test_losses(void **state)
{
    (void)state;
    add_loss(1, 2);
    RUN_OK(NegativeLogLikelihoodLoss, 1, string_attr("reduction", "none"));
    expect(0, DIMS(2), LIST(2, 6), 0);
    end();
    add_loss(1, 2);
    add(OPF_DOUBLE, DIMS(3), LIST(0, 3, 1));
    RUN_OK(NegativeLogLikelihoodLoss, 1, NONE);
    expect(0, SCALAR, LIST((2 * 3 + 6) / 4.0), 1e-15);
    end();
    add_loss(1, -7);
    RUN_OK(NegativeLogLikelihoodLoss, 1, int_attr("ignore_index", -7));
    expect(0, SCALAR, LIST(2), 0);
    end();
    add_loss(1, 3);
    REFUSE(NegativeLogLikelihoodLoss, 1, OPF_INVALID_INPUT, "class 3 of target, must be 0 to 2", NONE);
    add_loss(0, 0);
    RUN_OK(SoftmaxCrossEntropyLoss, 2, string_attr("reduction", "sum"));
    const double log_sum = log(1 + exp(-1) + exp(-2));
    expect(0, SCALAR, LIST(2 * log_sum), 1e-15);
    expect(1, DIMS(2, 3), LIST(-log_sum, -1 - log_sum, -2 - log_sum, -log_sum, -1 - log_sum, -2 - log_sum), 1e-15);
    end();
    begin();
    add(OPF_FLOAT, DIMS(0, 3, 2), NULL);
    add(OPF_INT64, DIMS(0, 2), NULL);
    RUN_OK(SoftmaxCrossEntropyLoss, 2, NONE);
    expect(0, SCALAR, LIST(NAN), 0);
    end();
    begin();
    add(OPF_FLOAT, DIMS(2, 3, 2), NULL);
    add(OPF_INT64, DIMS(2, 3), NULL);
    REFUSE(SoftmaxCrossEntropyLoss, 1, OPF_INVALID_INPUT, "without its classes", NONE);
}

/* ---- random numbers ---- */

static void test_random(void **state)
{
    (void)state;
    static const int64_t dims[] = {4, 32};
    const opf_attr       shape_attr = {.name = "shape", .type = OPF_ATTR_INTS, .ints = dims, .n = 2};
    double               first[128], sum = 0;
    for (int round = 0; round < 2; round++) {
        begin();
        RUN_OK(RandomUniform, 1, shape_attr, float_attr("low", -2), float_attr("high", 6), float_attr("seed", 3));
        expect_shape(0, DIMS(4, 32));
        for (size_t i = 0; i < 128; i++) {
            assert_true(at(0, i) >= -2 && at(0, i) < 6);
            assert_true(round == 0 || at(0, i) == first[i]);
            first[i] = at(0, i);
            sum += at(0, i);
        }
        end();
    }
    assert_true(fabs(sum / 256 - 2) < 0.8);
    begin(); /* another seed, other numbers */
    RUN_OK(RandomUniform, 1, shape_attr, float_attr("low", -2), float_attr("high", 6), float_attr("seed", 4));
    assert_true(at(0, 0) != first[0]);
    end();
    begin();
    add(OPF_INT64, DIMS(2, 0, 3), NULL);
    RUN_OK(RandomNormalLike, 1, int_attr("dtype", OPF_FLOAT16));
    expect_shape(0, DIMS(2, 0, 3));
    assert_int_equal(f.out[0].view.type, OPF_FLOAT16);
    end();
    begin();
    add(OPF_INT64, DIMS(2), NULL);
    REFUSE(RandomNormalLike, 1, OPF_INVALID_MODEL, "would have type int64", NONE);
}

static void test_draws(void **state)
{
    (void)state;
    begin();
    add(OPF_DOUBLE, DIMS(4), LIST(0, 1, 0, 1));
    RUN_OK(Bernoulli, 1, int_attr("dtype", OPF_BOOL));
    expect(0, DIMS(4), LIST(0, 1, 0, 1), 0);
    end();
    begin();
    add(OPF_DOUBLE, DIMS(2), LIST(0, NAN));
    REFUSE(Bernoulli, 1, OPF_INVALID_INPUT, "must be in [0, 1]", NONE);
    begin();
    add(OPF_FLOAT, DIMS(2, 3), LIST(-INFINITY, 0, -INFINITY, 1000, -1000, -INFINITY));
    RUN_OK(Multinomial, 1, int_attr("sample_size", 5), int_attr("dtype", OPF_INT64));
    expect(0, DIMS(2, 5), LIST(1, 1, 1, 1, 1, 0, 0, 0, 0, 0), 0);
    end();
    begin();
    add(OPF_FLOAT, DIMS(1, 2), LIST(-INFINITY, -INFINITY));
    REFUSE(Multinomial, 1, OPF_INVALID_INPUT, "row 0 holds no log-probabilities", NONE);
    begin();
    add(OPF_FLOAT, DIMS(1, 0), NULL);
    REFUSE(Multinomial, 1, OPF_INVALID_INPUT, "row 0", NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_attention),
        cmocka_unit_test(test_attention_masks),
        cmocka_unit_test(test_attention_past),
        cmocka_unit_test(test_attention_softcap),
        cmocka_unit_test(test_attention_refused),
        cmocka_unit_test(test_rotary),
        cmocka_unit_test(test_swiglu),
        cmocka_unit_test(test_linear_attention),
        cmocka_unit_test(test_causal_conv),
        cmocka_unit_test(test_losses),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_draws),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
