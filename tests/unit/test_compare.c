/* SPDX-License-Identifier: Apache-2.0 */
/* Results of quantisation are compared by levels: which outputs these are, and how far apart elements are. */
#include "text_model.h"

static opf_tensor vector(opf_type type, int64_t n, void *data)
{
    return (opf_tensor){.type = type, .rank = 1, .dims = {n}, .data = data, .bytes = (size_t)n};
}

static size_t count_wrong(opf_type type, int64_t n, void *a, void *b, double *levels)
{
    const opf_tensor x = vector(type, n, a), y = vector(type, n, b);
    size_t wrong = 99;
    assert_int_equal(opf_tensor_compare_quantized(&x, &y, levels, &wrong, NULL), OPF_OK);
    return wrong;
}

static void test_levels(void **state)
{
    (void)state;
    uint8_t a[] = {0, 255, 7, 9}, b[] = {1, 254, 7, 7};
    double levels;
    assert_int_equal(count_wrong(OPF_UINT8, 3, a, b, &levels), 0);
    assert_true(levels == 1);
    assert_int_equal(count_wrong(OPF_UINT8, 4, a, b, &levels), 1);
    assert_true(levels == 2);
    assert_int_equal(count_wrong(OPF_UINT8, 0, a, b, &levels), 0);
    /* Both zeros are one level; the least numbers of both signs are two apart. */
    uint8_t small[] = {0x80, 0x01, 0x81}, near_them[] = {0x00, 0x00, 0x01};
    assert_int_equal(count_wrong(OPF_FLOAT8E4M3FN, 2, small, near_them, &levels), 0);
    assert_int_equal(count_wrong(OPF_FLOAT8E4M3FN, 3, small, near_them, &levels), 1);
    uint8_t nan[] = {0x7f, 0x7e}, not_a_number[] = {0xff, 0x7f};
    assert_int_equal(count_wrong(OPF_FLOAT8E4M3FN, 2, nan, not_a_number, &levels), 1);
    assert_true(isinf(levels));
    uint8_t packed[] = {0x10, 0x32}, other[] = {0x21, 0x52}; /* 0 1 2 3 and 1 2 2 5 */
    assert_int_equal(count_wrong(OPF_UINT4, 4, packed, other, &levels), 1);
    const opf_tensor f = vector(OPF_FLOAT, 0, NULL), g = vector(OPF_UINT8, 4, a), h = vector(OPF_UINT8, 3, a);
    assert_int_equal(opf_tensor_compare_quantized(&f, &f, NULL, NULL, NULL), OPF_INVALID_ARGUMENT);
    assert_int_equal(opf_tensor_compare_quantized(&g, &h, NULL, NULL, NULL), OPF_CHECK_FAILED);
}

static const struct {
    const char *source;
    bool is_quantized;
} models[] = {
    {"g (float[N,2] x, float s, uint8 z) => (y) { y = QuantizeLinear(x, s, z) }", true},
    {"g (float[2,2] x, float s, uint8 z) => (y) { q = QuantizeLinear(x, s, z) t = Transpose(q) y = Concat<axis = 0>(t, "
     "t) }",
     true},
    {"g (float[2,2] x) => (y) { y, s, z = DynamicQuantizeLinear(x) }", true},
    {"g (uint8[2,2] x, float s, uint8 z) => (y) { y = com.microsoft.QLinearAdd(x, s, z, x, s, z, s, z) }", true},
    {"g (bool c, float[2] x, float s, uint8 z) => (y) { y = If<then_branch = t () => (a) { a = QuantizeLinear(x, s, z) "
     "}, "
     "else_branch = e () => (b) { b = QuantizeLinear(x, s, z) }>(c) }",
     true},
    {"g (uint8[2,2] x) => (y) { y = Transpose(x) }", false},
    {"g (float[2,2] x, float s, uint8 z) => (y) { q = QuantizeLinear(x, s, z) y = Shape(q) }", false},
    {"g (float[2,2] x, float s, uint8 z) => (y) { q = QuantizeLinear(x, s, z) y = DequantizeLinear(q, s, z) }", false},
};

static void test_outputs(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        text_model m;
        opf_port port;
        text_model_open(&m, models[i].source, NULL, 1);
        assert_int_equal(opf_model_output(m.model, 0, &port), OPF_OK);
        if (port.is_quantized != models[i].is_quantized)
            fail_msg("is_quantized is %d: %s", port.is_quantized, models[i].source);
        text_model_close(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_levels), cmocka_unit_test(test_outputs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
