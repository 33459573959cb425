/* SPDX-License-Identifier: Apache-2.0 */
/* Normalisations, softmax and reductions: numbers computed elsewhere, and what NaN and infinity give. */
#include "graph_case.h"

static const expectation cases[] = {
    {"batch normalization",
     22,
     "g (float[2,3,2,2] x, float[3] s, float[3] b, float[3] m) => (float y) <float[3] v = {0.5, 1.0, 2.25}> { y = "
     "BatchNormalization<epsilon=0.01>(x, s, b, m, v) }",
     {{4, {2, 3, 2, 2}, (const double[]){-1.85007,  -0.624825, -1.675035,  -0.44979,   1.991315,   0.25,
                                         1.7425557, 3.2351115, -1.1252768, -1.8736157, -1.0005537, -1.7488925,
                                         -0.79986,  -1.85007,  -0.624825,  -1.675035,  0.49875927, 1.991315,
                                         0.25,      1.7425557, -1.9983389, -1.1252768, -1.8736157, -1.0005537}}}},
    {"batch normalization rank 2",
     15,
     "g (float[4,3] x, float[3] s, float[3] b, float[3] m) => (float y) <float[3] v = {0.5, 1.0, 2.25}> { y = "
     "BatchNormalization(x, s, b, m, v) }",
     {{2,
       {4, 3},
       (const double[]){-1.8535497, 0.7499975, -1.4999994, -0.43935043, 1.9999912, -0.50000167, -1.323225, 3.249985,
                        -1.1250002, -2.2070997, 1.249995, -1.7499989}}}},
    {"batch normalization opset 7 per activation",
     7,
     "g (float[2,2,2] x, float[2,2] s, float[2,2] b, float[2,2] m) => (float y) <float[2,2] v = {0.5, 1.0, 2.25, 4.0}> "
     "{ y = BatchNormalization<spatial=0>(x, s, b, m, v) }",
     {{3, {2, 2, 2}, (const double[]){-1.8535499, 0.7499975, -1.4999994, -0.53124871, -1.5, 0.25, -1.25, 0.5}}}},
    {"batch normalization opset 6",
     6,
     "g (float[1,2,3] x, float[2] s, float[2] b, float[2] m) => (float y) <float[2] v = {0.5, 1.0}> { y = "
     "BatchNormalization<is_test=1>(x, s, b, m, v) }",
     {{3, {1, 2, 3}, (const double[]){-1.8535498, -0.61612535, -1.676775, 0.49999875, 1.9999913, 0.25}}}},
    {"layer normalization",
     17,
     "g (float[2,3,4] x, float[4] s, float[4] b) => (float y, float m, float i) { y, m, i = LayerNormalization(x, s, "
     "b) }",
     {{3, {2, 3, 4}, (const double[]){-2.0656819,  -0.59852272, -1.8863921,  -0.34852272, -1.5879312,  -1.2155194,
                                      -1.2060344,  1.5112084,   -1.0890061,  1.4007829,   -0.38691282, 1.1164908,
                                      -1.0890061,  1.4007829,   -0.38691282, 1.1164908,   -1.0890061,  1.4007829,
                                      -0.38691282, 1.1164908,   -2.0656819,  -0.59852272, -1.8863921,  -0.34852272}},
      {3, {2, 3, 1}, (const double[]){0.25, -0.0625, -0.375, 0.125, 0.625, -0.5}},
      {3, {2, 3, 1}, (const double[]){1.1313636, 0.93793243, 1.3151805, 1.3151805, 1.3151805, 1.1313636}}}},
    {"layer normalization from axis 1 without bias",
     17,
     "g (float[2,3,4] x, float[3,4] s) => (float y) { y = LayerNormalization<axis=1, epsilon=0.1>(x, s) }",
     {{3, {2, 3, 4}, (const double[]){-0.34424341, -1.0640252,  -0.328596,  -0.98578799, -0.18776914, -0.7823714,
                                      0.078237139, 0.35989085,  0.46942282, -0,          -0.84496111, -0.23471142,
                                      0.34062606,  0.85156506,  0.70254123, 0.44707167,  1.1921911,   0.17031303,
                                      1.8095758,   0.021289129, -2.4269605, 0,           2.0437565,   0.10644563}}}},
    {"rms normalization",
     23,
     "g (float[2,3,4] x, float[4] s) => (float y) { y = RMSNormalization<epsilon=0.1>(x, s) }",
     {{3, {2, 3, 4}, (const double[]){-0.38601378, -1.0293701, -0.38601378, -0.96503448, -0.11222504, -1.3467004,
                                      0,           1.0100253,  0.13814475,  1.3814474,   0.41443425,  0.82886851,
                                      0.45022517,  0.90045035, 0.90045035,  0.45022517,  0.60456347,  0.2418254,
                                      1.0882143,   -0,         -0.70515078, -0.23505026, -0.88143843, -0.35257539}}}},
    {"rms normalization from axis 0",
     23,
     "g (float[2,3] x, float[3] s) => (float y) { y = RMSNormalization<axis=0>(x, s) }",
     {{2, {2, 3}, (const double[]){-0.38516241, -1.0270997, -0.38516241, 0.64193732, 0.25677493, 1.1554873}}}},
    {"softmax",
     22,
     "g (float[2,3,4] x) => (float y) { y = Softmax(x) }",
     {{3, {2, 3, 4}, (const double[]){0.064818539, 0.37300494,  0.083228655, 0.47894782,  0.1201182,   0.6912325,
                                      0.15423483,  0.03441444,  0.35795331,  0.079870179, 0.45962113,  0.10255534,
                                      0.35795331,  0.079870179, 0.45962113,  0.10255534,  0.35795331,  0.079870179,
                                      0.45962113,  0.10255534,  0.064818539, 0.37300494,  0.083228655, 0.47894782}}}},
    {"softmax axis 1",
     22,
     "g (float[2,3,2] x) => (float y) { y = Softmax<axis=1>(x) }",
     {{3,
       {2, 3, 2},
       (const double[]){0.25427523, 0.25427523, 0.32649586, 0.32649586, 0.41922897, 0.41922897, 0.25427523, 0.25427523,
                        0.32649586, 0.32649586, 0.41922897, 0.41922897}}}},
    {"softmax opset 11",
     11,
     "g (float[2,3,2] x) => (float y) { y = Softmax(x) }",
     {{3,
       {2, 3, 2},
       (const double[]){0.037644733, 0.21663049, 0.048336793, 0.27815905, 0.062065672, 0.35716328, 0.20788892,
                        0.046386287, 0.26693466, 0.059561171, 0.34275088, 0.076478057}}}},
    {"softmax opset 11, last axis",
     11,
     "g (float[2,3] x) => (float y) { y = Softmax(x) }",
     {{2, {2, 3}, (const double[]){0.12439933, 0.71586871, 0.15973191, 0.39885837, 0.088997327, 0.51214427}}}},
    {"log softmax axis 0",
     22,
     "g (float[3,2] x) => (float y) { y = LogSoftmax<axis=0>(x) }",
     {{2, {3, 2}, (const double[]){-1.369338, -1.369338, -1.119338, -1.119338, -0.86933804, -0.86933804}}}},
    {"log softmax opset 11 axis 0",
     11,
     "g (float[3,2] x) => (float y) { y = LogSoftmax<axis=0>(x) }",
     {{2, {3, 2}, (const double[]){-3.2795622, -1.5295622, -3.0295622, -1.2795622, -2.7795622, -1.0295622}}}},
    {"reduce mean",
     22,
     "g (float[2,3,4] x) => (float y) <int64[1] a = {1}> { y = ReduceMean(x, a) }",
     {{3, {2, 1, 4}, (const double[]){-0.25, 0.41666666, 0, -0.41666666, 0.16666667, -0.25, 0.41666666, 0}}}},
    {"reduce mean all",
     22,
     "g (float[2,3] x) => (float y) { y = ReduceMean<keepdims=0>(x) }",
     {{0, {0}, (const double[]){0.375}}}},
    {"reduce mean opset 11",
     11,
     "g (float[2,3,4] x) => (float y) { y = ReduceMean<axes=[-1,0], keepdims=0>(x) }",
     {{1, {3}, (const double[]){0.1875, 0.28125, -0.4375}}}},
    {"reduce mean int32 truncates",
     22,
     "g (int32[2,4] x) => (int32 y) <int64[1] a = {1}> { y = ReduceMean(x, a) }",
     {{2, {2, 1}, (const double[]){1, 0}}}},
    {"reduce sum",
     22,
     "g (float[2,3,4] x) => (float y) <int64[2] a = {-1,0}> { y = ReduceSum<keepdims=0>(x, a) }",
     {{1, {3}, (const double[]){1.5, 2.25, -3.5}}}},
    {"reduce sum noop",
     22,
     "g (float[2,3] x) => (float y) { y = ReduceSum<noop_with_empty_axes=1>(x) }",
     {{2, {2, 3}, (const double[]){-0.75, 1, -0.5, 1.25, -0.25, 1.5}}}},
    {"reduce sum opset 11",
     11,
     "g (int64[2,3] x) => (int64 y) { y = ReduceSum<axes=[1]>(x) }",
     {{2, {2, 1}, (const double[]){-1, 10}}}},
    {"reduce sum over nothing",
     22,
     "g (float[2,0,3] x) => (float y) <int64[1] a = {1}> { y = ReduceSum(x, a) }",
     {{3, {2, 1, 3}, (const double[]){0, 0, 0, 0, 0, 0}}}},
    {"reduce max",
     20,
     "g (float[2,3,4] x) => (float y) <int64[1] a = {2}> { y = ReduceMax<keepdims=0>(x, a) }",
     {{2, {2, 3}, (const double[]){1.25, 1.5, 0.5, 1, 1.5, 0.5}}}},
    {"reduce max bool",
     20,
     "g (bool[4,3] x) => (bool y) <int64[1] a = {0}> { y = ReduceMax<keepdims=0>(x, a) }",
     {{1, {3}, (const double[]){1, 0, 0}}}},
    {"reduce min bool",
     20,
     "g (bool[4,3] x) => (bool y) <int64[1] a = {1}> { y = ReduceMin(x, a) }",
     {{2, {4, 1}, (const double[]){0, 0, 0, 0}}}},
    {"reduce max over nothing int8",
     20,
     "g (int8[2,0] x) => (int8 y) <int64[1] a = {1}> { y = ReduceMax(x, a) }",
     {{2, {2, 1}, (const double[]){-128, -128}}}},
    {"reduce min over nothing uint8",
     20,
     "g (uint8[2,0] x) => (uint8 y) <int64[1] a = {1}> { y = ReduceMin(x, a) }",
     {{2, {2, 1}, (const double[]){255, 255}}}},
    {"reduce min opset 12",
     12,
     "g (float[3,2] x) => (float y) { y = ReduceMin<axes=[0]>(x) }",
     {{2, {1, 2}, (const double[]){-0.75, 1}}}},
    {"reduce max over nothing",
     20,
     "g (float[0,2] x) => (float y) <int64[1] a = {0}> { y = ReduceMax(x, a) }",
     {{2, {1, 2}, (const double[]){-HUGE_VAL, -HUGE_VAL}}}},
    {"reduce mean of a scalar",
     22,
     "g (float x) => (float y) { y = ReduceMean(x) }",
     {{0, {0}, (const double[]){-0.75}}}},
};

static void test_numbers(void **state)
{
    (void)state;
    check_cases(cases, sizeof cases / sizeof *cases);
}

/* The one float output of a node on one float input. */
static void run_unary(const char *text, const double *x, size_t n, double *y)
{
    fixture f;
    begin(&f);
    assert_int_equal(load(&f, text, 99), OPF_OK);
    make_values(&f, false);
    for (size_t i = 0; i < n; i++)
        opf_view_put_f64(&f.views[f.graph->inputs[0]], (int64_t)i, x[i]);
    assert_int_equal(run(&f), OPF_OK);
    const opf_view *out = &f.views[f.graph->outputs[0]];
    for (size_t i = 0; i < opf_view_count(out); i++)
        y[i] = opf_view_f64(out, (int64_t)i);
    end(&f);
}

static void test_not_finite(void **state)
{
    (void)state;
    const double none[3] = {-HUGE_VAL, -HUGE_VAL, -HUGE_VAL}, some[3] = {1, (double)NAN, 3};
    double       y[4];
    run_unary("g (float[3] x) => (float y) { y = Softmax(x) }", none, 3, y);
    assert_true(isnan(y[0]) && isnan(y[1]) && isnan(y[2]));
    run_unary("g (float[3] x) => (float y) { y = Softmax(x) }", some, 3, y);
    assert_true(isnan(y[0]) && isnan(y[2]));
    run_unary("g (float[3] x) => (float y) { y = ReduceMax(x) }", some, 3, y);
    assert_true(isnan(y[0]));
    run_unary("g (float[3] x) => (float y) { y = ReduceMin(x) }", some, 3, y);
    assert_true(isnan(y[0]));
    run_unary("g (float[1,1,3] x) => (float y) { y = MaxPool<kernel_shape=[1], pads=[0,1]>(x) }", some, 3, y);
    assert_true(y[0] == 1 && isnan(y[1]) && y[2] == 3 && isinf(y[3]) && y[3] < 0);
    run_unary("g (float[1,0,2] x) => (float y) { y = GlobalAveragePool(x) }", NULL, 0, y);
    run_unary("g (float[1,1,0] x) => (float y) { y = GlobalAveragePool(x) }", NULL, 0, y);
    assert_true(isnan(y[0]));
    run_unary("g (float[1,1,0] x) => (float y) { y = GlobalMaxPool(x) }", NULL, 0, y);
    assert_true(isinf(y[0]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_not_finite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
