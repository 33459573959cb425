/* SPDX-License-Identifier: Apache-2.0 */
/* Operators of ONNX Runtime: each is what its spelling in standard operators is, or refused by name. */
#include "text_model.h"

/* ---- pairs ---- */

typedef struct pair {
    const char *contrib, *standard;
} pair;

#define SAME(ports, a, b)                                                                                              \
    {                                                                                                                  \
        "g " ports " { [fused] " a " }", "g " ports " { " b " }"                                                       \
    }

static const pair elementwise[] = {
    SAME("(float[N,4] x) => (y)", "y = com.microsoft.Gelu(x)", "y = Gelu(x)"),
    SAME("(float[N,4] x, float[4] wb) => (y)", "y = com.microsoft.BiasGelu(x, wb)", "s = Add(x, wb) y = Gelu(s)"),
    SAME("(float[N,4] x, float[4] wb) => (y)", "y = com.microsoft.FastGelu(x, wb)",
         "s = Add(x, wb) y = Gelu<approximate = \"tanh\">(s)"),
    SAME("(float[N,4] x) => (y)", "y = com.microsoft.FastGelu(x)", "y = Gelu<approximate = \"tanh\">(x)"),
    SAME("(float[N,4] x) => (y)", "y = com.microsoft.QuickGelu(x)", "y = Swish<alpha = 1.702>(x)"),
    SAME("(float[N,3,8] x, float[8] wb) => (y)", "y = com.microsoft.BiasSplitGelu(x, wb)",
         "s = Add(x, wb) a, b = Split<axis = -1, num_outputs = 2>(s) c = Gelu(b) y = Mul(a, c)"),
    SAME("(float[N,4] x, float[4] wb, float[N,4] r) => (y)", "y = com.microsoft.BiasAdd(x, wb, r)",
         "s = Add(x, wb) y = Add(s, r)"),
    SAME("(float[N,2,3,5] x, float[N,1,1,5] b) => (y)", "y = com.microsoft.BiasSoftmax<axis = 3>(x, b)",
         "s = Add(x, b) y = Softmax(s)"),
    SAME("(float[N,2,3,5] x, float[N,1,1,5] b) => (y)", "y = com.microsoft.BiasSoftmax<axis = 2>(x, b)",
         "s = Add(x, b) c = Shape(x) f = Flatten<axis = 2>(s) p = Softmax(f) y = Reshape(p, c)"),
};

static const pair normalizations[] = {
    SAME("(float[N,4,5,6] x, float[6] ws, float[6] wb, float[N,6] r, float[6] wa) => (y, s)",
         "y, s = com.microsoft.SkipGroupNorm<groups = 2>(x, ws, wb, r, wa)",
         "i = Constant<value_ints = [1, 2]>() e = Unsqueeze(r, i) a = Add(x, e) s = Add(a, wa) "
         "t = Transpose<perm = [0, 3, 1, 2]>(s) u = GroupNormalization<num_groups = 2>(t, ws, wb) "
         "y = Transpose<perm = [0, 2, 3, 1]>(u)"),
    SAME("(float[N,8] x, float[8] ws) => (y)", "y = SimplifiedLayerNormalization<axis = -1, epsilon = 0.01>(x, ws)",
         "y = RMSNormalization<epsilon = 0.01>(x, ws)"),
    SAME("(float[N,3,8] x, float[N,3,8] r, float[8] ws, float[8] wb, float[8] wa) => (y, s)",
         "y, , , s = com.microsoft.SkipLayerNormalization<epsilon = 0.01>(x, r, ws, wb, wa)",
         "t = Add(x, r) s = Add(t, wa) y = LayerNormalization<epsilon = 0.01>(s, ws, wb)"),
    SAME("(float[N,3,8] x, float[N,3,8] r, float[8] ws) => (y, s)",
         "y, , , s = com.microsoft.SkipSimplifiedLayerNormalization<epsilon = 0.01>(x, r, ws)",
         "s = Add(x, r) y = RMSNormalization<epsilon = 0.01>(s, ws)"),
    SAME("(int32[N,3] i, int32[N,3] k, float[7,8] ww, float[5,8] wp, float[2,8] wk, float[8] ws, float[8] wb, "
         "int32[N,3] m) => (y, c, e)",
         "y, c, e = com.microsoft.EmbedLayerNormalization<epsilon = 0.01>(i, k, ww, wp, wk, ws, wb, m)",
         "a = Gather(ww, i) l = Shape<start = 1, end = 2>(i) z = Constant<value_ints = [0]>() p = Slice(wp, z, l, z) q "
         "= Add(a, p) "
         "t = Gather(wk, k) e = Add(q, t) y = LayerNormalization<epsilon = 0.01>(e, ws, wb) o = Constant<value_ints = "
         "[1]>() "
         "c = ReduceSum<keepdims = 0>(m, o)"),
    SAME("(float[N,4,5,6] x, float[6] ws, float[6] wb) => (y)",
         "y = com.microsoft.GroupNorm<groups = 3, activation = 1>(x, ws, wb)",
         "t = Transpose<perm = [0, 3, 1, 2]>(x) u = GroupNormalization<num_groups = 3>(t, ws, wb) v = Swish(u) "
         "y = Transpose<perm = [0, 2, 3, 1]>(v)"),
};

static const pair products[] = {
    SAME("(float[N,3,8] x, float[8,5] ww, float[5] wb) => (y)", "y = com.microsoft.GemmFastGelu(x, ww, wb)",
         "m = MatMul(x, ww) s = Add(m, wb) y = Gelu<approximate = \"tanh\">(s)"),
    SAME("(float[N,6,6,2] x, float[3,3,3,2] wk, float[N,4,4,3] r) => (y)",
         "y = com.microsoft.NhwcFusedConv<activation = \"Relu\">(x, wk, , r)",
         "t = Transpose<perm = [0, 3, 1, 2]>(x) k = Transpose<perm = [0, 3, 1, 2]>(wk) c = Conv(t, k) "
         "u = Transpose<perm = [0, 2, 3, 1]>(c) s = Add(u, r) y = Relu(s)"),
    SAME("(float[N,2,6,6] x, float[3,2,3,3] wk, float[3] wb, float[N,3,4,4] r) => (y)",
         "y = com.microsoft.FusedConv<activation = \"LeakyRelu\", activation_params = [0.3]>(x, wk, wb, r)",
         "c = Conv(x, wk, wb) s = Add(c, r) y = LeakyRelu<alpha = 0.3>(s)"),
    SAME("(float[N,2,6,6] x, float[3,2,3,3] wk) => (y)",
         "y = com.microsoft.FusedConv<activation = \"Clip\", activation_params = [-0.2, 0.4], strides = [2, 2]>(x, wk)",
         "c = Conv<strides = [2, 2]>(x, wk) l = Constant<value_float = -0.2>() h = Constant<value_float = 0.4>() y = "
         "Clip(c, l, h)"),
    SAME("(float[N,6,6,2] x, float[3,3,3,2] wk) => (y)", "y = com.microsoft.NhwcConv<pads = [1, 1, 1, 1]>(x, wk)",
         "t = Transpose<perm = [0, 3, 1, 2]>(x) k = Transpose<perm = [0, 3, 1, 2]>(wk) c = Conv<pads = [1, 1, 1, "
         "1]>(t, k) "
         "y = Transpose<perm = [0, 2, 3, 1]>(c)"),
    SAME(
        "(float[N,4] x, float[5,4] wb, float[5] wc) => (y)",
        "y = com.microsoft.FusedGemm<transB = 1, alpha = 0.5, activation = \"Elu\", activation_alpha = 0.7>(x, wb, wc)",
        "g = Gemm<transB = 1, alpha = 0.5>(x, wb, wc) y = Elu<alpha = 0.7>(g)"),
    SAME("(float[N,3,4,5] x, float[N,3,6,5] b) => (y)", "y = com.microsoft.FusedMatMul<transB = 1, alpha = 0.5>(x, b)",
         "t = Transpose<perm = [0, 1, 3, 2]>(b) p = MatMul(x, t) h = Constant<value_float = 0.5>() y = Mul(p, h)"),
    SAME("(float[4,N,3,5] x, float[N,3,5,6] b) => (y)", "y = com.microsoft.FusedMatMul<transBatchA = 1>(x, b)",
         "t = Transpose<perm = [1, 2, 0, 3]>(x) y = MatMul(t, b)"),
};

static const pair attentions[] = {
    SAME(
        "(float[N,1,8] x, float[8,24] ww, float[2,N,2,6,4] old, int32[1] l) => (y, pr)",
        "y, pr = com.microsoft.DecoderMaskedSelfAttention<num_heads = 2, past_present_share_buffer = 1>(x, ww, , , "
        "old, , l)",
        "m = MatMul(x, ww) q, k, v = Split<axis = -1, num_outputs = 3>(m) a, b = Split<axis = 0, num_outputs = 2>(old) "
        "z = Constant<value_ints = [0]>() c = Squeeze(a, z) d = Squeeze(b, z) "
        "y, e, f = com.microsoft.DecoderMaskedMultiHeadAttention<num_heads = 2>(q, k, v, , , c, d, l) "
        "g = Unsqueeze(e, z) h = Unsqueeze(f, z) pr = Concat<axis = 0>(g, h)"),
    SAME("(float[N,S,8] x, float[8,24] ww, float[24] wb) => (y)",
         "y = com.microsoft.Attention<num_heads = 2, unidirectional = 1>(x, ww, wb)",
         "m = MatMul(x, ww) a = Add(m, wb) q, k, v = Split<axis = -1, num_outputs = 3>(a) "
         "y = Attention<q_num_heads = 2, kv_num_heads = 2, is_causal = 1>(q, k, v)"),
    SAME("(float[N,4,S,8] q, float[N,2,T,8] k, float[N,2,T,8] v, float[S,T] b) => (y)",
         "y = ai.onnx.preview.FlexAttention<scale = 0.3, score_mod = m (float[N,4,S,T] i) => (o) { o = Add(i, b) }>(q, "
         "k, v)",
         "y = Attention<scale = 0.3>(q, k, v, b)"),
    SAME(
        "(float[N,2,S,8] q, float[N,2,T,8] k, float[N,2,T,8] v, float[S,T] b) => (y)",
        "y = ai.onnx.preview.FlexAttention<prob_mod = m (float[N,2,S,T] i) => (o) { o = Mul(i, b) }>(q, k, v)",
        "t = Transpose<perm = [0, 1, 3, 2]>(k) s = MatMul(q, t) f = Constant<value_float = 0.35355339>() u = Mul(s, f) "
        "p = Softmax(u) w = Mul(p, b) y = MatMul(w, v)"),
    SAME("(float[N,4,S,8] q, float[N,2,T,8] k, float[N,2,T,8] v) => (y)", "y = ai.onnx.preview.FlexAttention(q, k, v)",
         "y = Attention(q, k, v)"),
    SAME("(float[N,S,8] x, float[8,24] ww, int32[M] m) => (y)",
         "y = com.microsoft.Attention<num_heads = 2, mask_filter_value = -50.0>(x, ww, , m)",
         "p = MatMul(x, ww) q, k, v = Split<axis = -1, num_outputs = 3>(p) z = Constant<value_ints = [0]>() "
         "n = Shape<start = 0, end = 1>(x) e = Slice(m, z, n) c = Constant<value_ints = [1, 2, 3]>() u = Unsqueeze(e, "
         "c) "
         "l = Shape<start = 1, end = 2>(x) h = Squeeze(l, z) i = Constant<value_int = 0>() o = Constant<value_int = "
         "1>() "
         "r = Range(i, h, o) t = Cast<to = 6>(r) d = Less(t, u) f = Constant<value_float = 0.0>() "
         "j = Constant<value_float = -50.0>() b = Where(d, f, j) "
         "y = Attention<q_num_heads = 2, kv_num_heads = 2>(q, k, v, b)"),
    SAME("(float[N,S,8] q, float[N,T,8] k, float[N,T,8] v, float[N,2,S,T] b) => (y, pk, pv)",
         "y, pk, pv = com.microsoft.MultiHeadAttention<num_heads = 2, scale = 0.3>(q, k, v, , , b)",
         "y, pk, pv = Attention<q_num_heads = 2, kv_num_heads = 2, scale = 0.3>(q, k, v, b)"),
    SAME("(float[N,S,16] q, float[N,S,8] k, float[N,S,8] v, int32[N] l, int32 t) => (y)",
         "y = com.microsoft.GroupQueryAttention<num_heads = 4, kv_num_heads = 2>(q, k, v, , , l, t)",
         "y = Attention<q_num_heads = 4, kv_num_heads = 2, is_causal = 1>(q, k, v)"),
    SAME("(float[N,3,8] x, float[9,2] wc, float[9,2] ws) => (y)",
         "o = Constant<value_ints = [4]>() y = com.microsoft.RotaryEmbedding<interleaved = 1>(x, o, wc, ws)",
         "p = Constant<value_ints = [4, 5, 6]>() n = Shape<start = 0, end = 2>(x) e = Expand(p, n) "
         "y = RotaryEmbedding<interleaved = 1, num_heads = 2>(x, wc, ws, e)"),
};

static void compare_pairs(const pair *pairs, size_t n)
{
    static const char *const sizes = "N=2 S=5 T=7 M=8"; /* M = 3 N + 2 */
    for (size_t i = 0; i < n; i++) {
        text_model contrib, standard;
        tensors inputs;
        results want, have;
        text_model_open(&contrib, pairs[i].contrib, NULL, 5);
        text_model_open(&standard, pairs[i].standard, NULL, 5);
        make_inputs(standard.model, sizes, 9, &inputs);
        run_model(standard.model, OPF_MODE_REFERENCE, 1, &inputs, NULL, pairs[i].standard, &want);
        for (opf_mode mode = OPF_MODE_FUSED; mode <= OPF_MODE_REFERENCE; mode++) {
            run_model(contrib.model, mode, 1, &inputs, NULL, pairs[i].contrib, &have);
            compare_results(&have, &want, 1e-4, 1e-5, "taken apart", sizes, pairs[i].contrib);
            free_results(&have);
        }
        free_results(&want);
        free_tensors(&inputs);
        text_model_close(&contrib);
        text_model_close(&standard);
    }
}

static void test_elementwise(void **state)
{
    (void)state;
    compare_pairs(elementwise, sizeof elementwise / sizeof *elementwise);
}

static void test_normalizations(void **state)
{
    (void)state;
    compare_pairs(normalizations, sizeof normalizations / sizeof *normalizations);
}

static void test_products(void **state)
{
    (void)state;
    compare_pairs(products, sizeof products / sizeof *products);
}

static void test_attentions(void **state)
{
    (void)state;
    compare_pairs(attentions, sizeof attentions / sizeof *attentions);
}

/* ---- quantized ---- */

/* Bytes of the one output, by inputs of bytes that are given. */
static void run_bytes(const char *source, size_t n, const uint8_t *data, size_t n_out, uint8_t *out)
{
    text_model m;
    tensors inputs;
    results have;
    text_model_open(&m, source, NULL, 5);
    make_inputs(m.model, "", 1, &inputs);
    memcpy(inputs.list[0].data, data, n);
    run_model(m.model, OPF_MODE_FUSED, 1, &inputs, NULL, source, &have);
    assert_int_equal(have.list[0].bytes, n_out);
    memcpy(out, have.data[0], n_out);
    free_results(&have);
    free_tensors(&inputs);
    text_model_close(&m);
}

#define BYTE(name, x)  name " = Constant<value = uint8 {" x "}>() "
#define SCALE(name, x) name " = Constant<value_float = " x ">() "

static void test_quantized(void **state)
{
    (void)state;
    static const uint8_t x[4] = {0, 100, 128, 255};
    uint8_t y[4];
    /* 0.5 (x - 128) + 0.5 (x - 128) by 1 */
    run_bytes("g (uint8[4] x) => (y) { " SCALE("a", "0.5") SCALE("b", "1.0")
                  BYTE("z", "128") "y = com.microsoft.QLinearAdd(x, a, z, x, a, z, b, z) }",
              4, x, 4, y);
    assert_memory_equal(y, x, 4);
    run_bytes("g (uint8[4] x) => (y) { " SCALE("a", "0.5") SCALE("b", "64.0")
                  BYTE("z", "128") "y = com.microsoft.QLinearMul(x, a, z, x, a, z, b, z) }",
              4, x, 4, y);
    assert_memory_equal(y, ((const uint8_t[4]){192, 131, 128, 191}), 4);
    /* Both are brought to the scale of the result. */
    run_bytes("g (uint8[1,4] x) => (y) { " SCALE("a", "0.5") SCALE("b", "1.0")
                  BYTE("z", "0") "y = com.microsoft.QLinearConcat<axis = 0>(b, z, x, a, z, x, b, z) }",
              4, x, 8, (uint8_t[8]){0});
    run_bytes("g (uint8[1,2,2,1] x) => (y) { " SCALE("a", "0.5")
                  BYTE("z", "0") "y = com.microsoft.QLinearGlobalAveragePool<channels_last = 1>(x, a, z, a, z) }",
              4, x, 1, y);
    assert_int_equal(y[0], 121); /* 120.75 */
    run_bytes("g (uint8[2,2] x) => (y) { " SCALE("a", "0.5") SCALE("b", "1.0")
                  BYTE("z", "0") "y = com.microsoft.QLinearReduceMean<axes = [-1], keepdims = 0>(x, a, z, b, z) }",
              4, x, 2, y);
    assert_memory_equal(y, ((const uint8_t[2]){25, 96}), 2); /* 25 and 95.75 */
}

/* Two rows of 16 weights of 4 bits, low half first: A . (q - 8). */
static void test_few_bits(void **state)
{
    (void)state;
    static const char *const source =
        "g (float[1,16] x) => (y) { b = Constant<value = uint8[2,1,8] {"
        "152, 136, 136, 136, 136, 136, 136, 136, 136, 136, 136, 136, 136, 136, 136, 10}>() "
        "s = Constant<value_floats = [1.0, 2.0]>() y = com.microsoft.MatMulNBits<K = 16, N = 2, bits = 4, block_size = "
        "16>(x, b, s) }";
    text_model m;
    tensors inputs;
    results have;
    text_model_open(&m, source, NULL, 5);
    make_inputs(m.model, "", 1, &inputs);
    for (int i = 0; i < 16; i++)
        ((float *)inputs.list[0].data)[i] = (float)(i + 1);
    run_model(m.model, OPF_MODE_FUSED, 1, &inputs, NULL, source, &have);
    /* 152 is 8, 9: the second weight is 1; 10 is 10, 0: the last are 2 and -8, twice. */
    assert_float_equal(((const float *)have.data[0])[0], 2, 1e-5);
    assert_float_equal(((const float *)have.data[0])[1], 2 * (2 * 15 - 8 * 16), 1e-3);
    free_results(&have);
    free_tensors(&inputs);
    text_model_close(&m);
}

/* ---- names, old opsets, refusals ---- */

static void test_origin(void **state)
{
    (void)state;
    static const char *const source = "g (float[N,S,8] x, float[8,24] ww, float[24] wb, int32[N] m) => (y) "
                                      "{ [whole] y = com.microsoft.Attention<num_heads = 2>(x, ww, wb, m) }";
    text_model m;
    tensors inputs;
    opf_profile profile;
    opf_port port;
    opf_session *session;
    opf_tensor out = {0};
    opf_session_options options = {.mode = OPF_MODE_FUSED};
    text_model_open(&m, source, NULL, 5);
    assert_int_equal(opf_model_output(m.model, 0, &port), OPF_OK);
    assert_string_equal(port.name, "y");
    make_inputs(m.model, "N=2 S=3", 3, &inputs);
    assert_int_equal(opf_session_create(m.model, &options, &session, NULL), OPF_OK);
    assert_int_equal(opf_session_run(session, inputs.list, inputs.n, &out, 1, NULL), OPF_OK);
    assert_int_equal(opf_session_profile(session, &profile, NULL), OPF_OK);
    assert_true(profile.n_steps > 0);
    for (size_t i = 0; i < profile.n_steps; i++) {
        assert_int_equal(profile.steps[i].n_origin, 1);
        assert_string_equal(profile.steps[i].origin[0], "whole");
    }
    opf_session_destroy(&session);
    free_tensors(&inputs);
    text_model_close(&m);
}

/* The bytes of a model are those of the newest opset; its number is the last of them. */
static void test_before_opset_17(void **state)
{
    (void)state;
    text_model m;
    opf_error error;
    text_model_open(&m, "g (float[N,8] x, float[8] ws) => (y) { y = LayerNormalization(x, ws) }", NULL, 5);
    opf_model_destroy(&m.model);
    m.bytes.data[m.bytes.length - 1] = 16;
    if (opf_model_from_memory(m.bytes.data, m.bytes.length, NULL, NULL, &m.model, &error) != OPF_OK)
        fail_msg("%s", error.message);
    text_model_close(&m);
}

static const struct refusal {
    const char *source, *says;
} refusals[] = {
    {"g (float[2,4] x) => (y) { y = com.microsoft.BiasGelu(x) }", "node y (BiasGelu): input 1 is missing"},
    {"g (float[2,4] x) => (y) { y = com.microsoft.QuickGelu<alpha = 1>(x) }", "attribute alpha has the wrong type"},
    {"g (float[2,4] x) => (y) { y = com.microsoft.Mystery(x) }", "Mystery of domain com.microsoft"},
    {"g (float[1,2,4,4] x, float[2,2,1,1] k) => (y) { y = com.microsoft.FusedConv<activation = \"Mystery\">(x, k) }",
     "node y (FusedConv): activation Mystery is not supported"},
    {"g (float[2,3,8] x, float[2,3,8] r, float[8] s) => (y, m) { y, m = com.microsoft.SkipLayerNormalization(x, r, s) "
     "}",
     "output 1 (m) is not supported"},
    {"g (float[2,3,8] x, float[8,24] w, int32[2,1,5,5] m) => (y) { y = com.microsoft.Attention<num_heads = 2>(x, w, , "
     "m) }",
     "a mask of rank 4 is not supported"},
    {"g (float[2,3,8] x, float[8,24] w, int32[7] m) => (y) { y = com.microsoft.Attention<num_heads = 2>(x, w, , m) }",
     "a mask of 7 numbers for batch 2 is not supported"},
    {"g (float[2,3,8] x, float[8,24] w) => (y) { y = com.microsoft.Attention<num_heads = 2, do_rotary = 1>(x, w) }",
     "do_rotary = 1 is not supported"},
    {"g (float[2,3,8] q, int32[2] l, int32 t) => (y) { y = com.microsoft.GroupQueryAttention<num_heads = 2, "
     "kv_num_heads = 1, "
     "kv_cache_bit_width = 8>(q, , , , , l, t) }",
     "kv_cache_bit_width = 8 is not supported"},
    {"g (float[2,32] x, uint8[3,1,16] b, float[3] s) => (y) { y = com.microsoft.MatMulNBits<K = 32, N = 3, block_size "
     "= 32>(x, b, s) }",
     "B is no constant of bytes"},
};

static void test_refusals(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        text_model m = {0};
        opf_error error;
        opf_heap_init(&m.heap, NULL, 0);
        opf_arena_init(&m.arena, &m.heap);
        m.bytes = onnx_of_text(refusals[i].source, &m.arena, 10, 1);
        assert_int_not_equal(opf_model_from_memory(m.bytes.data, m.bytes.length, NULL, NULL, &m.model, &error), OPF_OK);
        if (strstr(error.message, refusals[i].says) == NULL)
            fail_msg("\"%s\" does not say \"%s\"", error.message, refusals[i].says);
        opf_arena_fini(&m.arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_elementwise), cmocka_unit_test(test_normalizations),  cmocka_unit_test(test_products),
        cmocka_unit_test(test_attentions),  cmocka_unit_test(test_quantized),       cmocka_unit_test(test_few_bits),
        cmocka_unit_test(test_origin),      cmocka_unit_test(test_before_opset_17), cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
