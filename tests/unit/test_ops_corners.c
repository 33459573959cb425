/* SPDX-License-Identifier: Apache-2.0 */
/* Corners of operators that no other file looks at: ends of their domains, NaN, empty and scalar tensors, broadcasts. */
#include "one_node.h"

#define INF HUGE_VAL
#define QUIET ((double)NAN)

/* ---- functions of one number ---- */

typedef struct {
    const opf_op *op;
    double        x[4], y[4]; /* doubles, so the numbers are those of libm */
} unary;

static const unary unaries[] = {
    {&opf_op_Asin, {1, -1, 2, -0.0}, {1.5707963267948966, -1.5707963267948966, QUIET, -0.0}},
    {&opf_op_Asinh, {0.5, -INF, 1e300, QUIET}, {0.48121182505960347, -INF, 691.4686750787736, QUIET}},
    {&opf_op_Atan, {1, INF, -INF, QUIET}, {0.7853981633974483, 1.5707963267948966, -1.5707963267948966, QUIET}},
    {&opf_op_Ceil, {-0.5, 0.5, -1.5, INF}, {-0.0, 1, -1, INF}},
    {&opf_op_Cos, {0, 3.141592653589793, INF, QUIET}, {1, -1, QUIET, QUIET}},
    {&opf_op_Cosh, {0, 1, -INF, 711}, {1, 1.5430806348152437, INF, INF}},
    {&opf_op_Erf, {0, INF, -INF, 0.5}, {0, 1, -1, 0.5204998778130465}},
    {&opf_op_Exp, {0, -INF, INF, 710}, {1, 0, INF, INF}},
    {&opf_op_Floor, {-0.5, 0.5, -1.5, -INF}, {-1, 0, -2, -INF}},
    {&opf_op_HardSigmoid, {-10, 10, 0, QUIET}, {0, 1, 0.5, QUIET}},
    {&opf_op_Identity, {QUIET, -0.0, INF, 5e-324}, {QUIET, -0.0, INF, 5e-324}},
    {&opf_op_Log, {0, -1, INF, 1}, {-INF, QUIET, INF, 0}},
    {&opf_op_Mish, {0, 1000, -1000, 1}, {0, 1000, -0.0, 0.8650983882673103}},
    {&opf_op_Reciprocal, {0, -0.0, INF, 4}, {INF, -INF, 0, 0.25}},
    {&opf_op_Selu, {0, 2, -INF, QUIET}, {0, 2.1014019727706909, -1.758099326627614, QUIET}},
    {&opf_op_Sin, {0, -0.0, INF, 1.5707963267948966}, {0, -0.0, QUIET, 1}},
    {&opf_op_Sinh, {-0.0, 1, -INF, 711}, {-0.0, 1.1752011936438014, -INF, INF}},
    {&opf_op_Softsign, {0, 1, -3, 1e308}, {0, 0.5, -0.75, 1}},
    {&opf_op_Sqrt, {0, -0.0, -1, INF}, {0, -0.0, QUIET, INF}},
    {&opf_op_Tanh, {0, 1000, -1000, QUIET}, {0, 1, -1, QUIET}},
    {&opf_op_ThresholdedRelu, {1, 1.5, -2, QUIET}, {0, 1.5, 0, 0}}, /* NaN is not above alpha */
};

static bool is_same_number(double a, double b)
{
    return (isnan(a) && isnan(b)) || (a == b && signbit(a) == signbit(b)) || fabs(a - b) <= 1e-7 * fabs(b);
}

static void test_unary(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof unaries / sizeof *unaries; k++) {
        const unary *u = &unaries[k];
        begin();
        add(OPF_DOUBLE, DIMS(4), u->x);
        assert_int_equal(run_node(u->op, 1, 0, NULL), OPF_OK);
        for (size_t i = 0; i < 4; i++)
            if (!is_same_number(at(0, i), u->y[i]))
                fail_msg("%s of %g is %.17g, must be %.17g", u->op->name, u->x[i], at(0, i), u->y[i]);
        end();
        begin();
        add(OPF_FLOAT16, DIMS(2, 0), NULL);
        assert_int_equal(run_node(u->op, 1, 0, NULL), OPF_OK);
        expect_shape(0, DIMS(2, 0));
        end();
        begin();
        add(OPF_BFLOAT16, SCALAR, u->x);
        assert_int_equal(run_node(u->op, 1, 0, NULL), OPF_OK);
        expect_shape(0, SCALAR);
        end();
    }
}

/* ---- logic and comparisons ---- */

static void logic(const opf_op *op, const double *expected)
{
    begin();
    add(OPF_BOOL, DIMS(2, 1), LIST(0, 1));
    add(OPF_BOOL, DIMS(2), LIST(0, 1));
    assert_int_equal(run_node(op, 1, 0, NULL), OPF_OK);
    expect(0, DIMS(2, 2), expected, 0);
    end();
    begin(); /* broadcast with nothing is nothing */
    add(OPF_BOOL, DIMS(0), NULL);
    add(OPF_BOOL, DIMS(3, 1), LIST(1, 1, 1));
    assert_int_equal(run_node(op, 1, 0, NULL), OPF_OK);
    expect_shape(0, DIMS(3, 0));
    end();
}

static void test_logic(void **state)
{
    (void)state;
    logic(&opf_op_And, LIST(0, 0, 0, 1));
    logic(&opf_op_Or, LIST(0, 1, 1, 1));
    logic(&opf_op_Xor, LIST(0, 1, 1, 0));
    begin();
    add(OPF_BOOL, SCALAR, LIST(0));
    RUN_OK(Not, 1, NONE);
    expect(0, SCALAR, LIST(1), 0);
    end();
}

/* a < b, a == b, a > b, and NaN. */
static void comparison(const opf_op *op, const double *expected)
{
    begin();
    add(OPF_FLOAT, DIMS(4), LIST(-INF, 1, 2, QUIET));
    add(OPF_FLOAT, DIMS(4), LIST(INF, 1, 1, QUIET));
    assert_int_equal(run_node(op, 1, 0, NULL), OPF_OK);
    expect(0, DIMS(4), expected, 0);
    end();
}

/* Neighbours that a double cannot tell apart; as unsigned numbers they lie the other way round than as signed ones. */
static void neighbours(const opf_op *op, opf_type type, int64_t a, int64_t b, bool expected)
{
    begin();
    tensor *x = add(type, SCALAR, NULL), *y = add(type, SCALAR, NULL);
    opf_store_i64(type, x->data, 0, a);
    opf_store_i64(type, y->data, 0, b);
    assert_int_equal(run_node(op, 1, 0, NULL), OPF_OK);
    assert_int_equal(at(0, 0), expected);
    end();
}

static void test_comparisons(void **state)
{
    (void)state;
    comparison(&opf_op_Greater, LIST(0, 0, 1, 0));
    comparison(&opf_op_GreaterOrEqual, LIST(0, 1, 1, 0));
    comparison(&opf_op_Less, LIST(1, 0, 0, 0));
    comparison(&opf_op_LessOrEqual, LIST(1, 1, 0, 0));
    neighbours(&opf_op_Greater, OPF_INT64, INT64_MAX, INT64_MAX - 1, true);
    neighbours(&opf_op_GreaterOrEqual, OPF_INT64, INT64_MIN, INT64_MIN + 1, false);
    neighbours(&opf_op_Less, OPF_UINT64, INT64_MAX, INT64_MIN, true);
    neighbours(&opf_op_LessOrEqual, OPF_UINT64, -1, -2, false);
}

/* ---- bits ---- */

static void test_bits(void **state)
{
    (void)state;
    begin();
    add(OPF_INT8, DIMS(3), LIST(-128, 127, -1));
    add(OPF_INT8, SCALAR, LIST(-2));
    RUN_OK(BitwiseAnd, 1, NONE);
    expect(0, DIMS(3), LIST(-128, 126, -2), 0);
    end();
    begin();
    add(OPF_UINT16, DIMS(2, 1), LIST(0, 65535));
    add(OPF_UINT16, DIMS(1, 2), LIST(1, 256));
    RUN_OK(BitwiseOr, 1, NONE);
    expect(0, DIMS(2, 2), LIST(1, 256, 65535, 65535), 0);
    end();
    begin();
    add(OPF_FLOAT, DIMS(3), LIST(-0.0, INF, 1));
    RUN_OK(BitCast, 1, int_attr("to", OPF_INT32));
    expect(0, DIMS(3), LIST(-2147483648.0, 2139095040, 1065353216), 0);
    end();
    begin();
    add(OPF_FLOAT, DIMS(3), LIST(1, 2, 3));
    REFUSE(BitCast, 1, OPF_INVALID_MODEL, "BitCast", int_attr("to", OPF_DOUBLE));
}

static void test_cast_like(void **state)
{
    (void)state;
    begin(); /* only the type of input 1 counts: it broadcasts nothing */
    add(OPF_FLOAT, DIMS(2), LIST(-1.5, 300));
    add(OPF_INT16, DIMS(0, 7), NULL);
    RUN_OK(CastLike, 1, NONE);
    expect(0, DIMS(2), LIST(-1, 300), 0);
    end();
}

/* ---- dropout, and random numbers ---- */

static void test_dropout(void **state)
{
    (void)state;
    begin();
    add(OPF_FLOAT, DIMS(3), LIST(QUIET, -0.0, 7));
    RUN_OK(Dropout, 2, NONE);
    expect(0, DIMS(3), LIST(QUIET, -0.0, 7), 0);
    expect(1, DIMS(3), LIST(1, 1, 1), 0);
    end();
    begin();
    add(OPF_DOUBLE, DIMS(0), NULL);
    RUN_OK(Dropout, 2, NONE);
    expect_shape(1, DIMS(0));
    end();
}

static void moments(size_t n, double *mean, double *deviation)
{
    *mean = *deviation = 0;
    for (size_t i = 0; i < n; i++)
        *mean += at(0, i) / (double)n;
    for (size_t i = 0; i < n; i++)
        *deviation += (at(0, i) - *mean) * (at(0, i) - *mean) / (double)n;
    *deviation = sqrt(*deviation);
}

static void test_random(void **state)
{
    (void)state;
    int64_t  many[] = {16, 16}, none[] = {3, 0};
    opf_attr shape_attr = {.name = "shape", .type = OPF_ATTR_INTS, .ints = many, .n = 2};
    double   mean, deviation, first;
    begin();
    RUN_OK(RandomNormal, 1, shape_attr, float_attr("mean", 5), float_attr("scale", 2), float_attr("seed", 1));
    expect_shape(0, DIMS(16, 16));
    moments(256, &mean, &deviation);
    assert_true(fabs(mean - 5) < 0.6 && fabs(deviation - 2) < 0.4);
    first = at(0, 0);
    end();
    begin(); /* the same seed, the same numbers */
    RUN_OK(RandomNormal, 1, shape_attr, float_attr("mean", 5), float_attr("scale", 2), float_attr("seed", 1));
    assert_true(at(0, 0) == first);
    end();
    begin();
    add(OPF_INT8, DIMS(256), NULL);
    RUN_OK(RandomUniformLike, 1, int_attr("dtype", OPF_DOUBLE), float_attr("low", -1), float_attr("high", 3));
    moments(256, &mean, &deviation);
    assert_true(fabs(mean - 1) < 0.35 && fabs(deviation - 1.1547) < 0.2);
    for (size_t i = 0; i < 256; i++)
        assert_true(at(0, i) >= -1 && at(0, i) < 3);
    end();
    begin();
    shape_attr.ints = none;
    RUN_OK(RandomNormal, 1, shape_attr);
    expect_shape(0, DIMS(3, 0));
    end();
}

/* ---- normalisation in training ---- */

static void test_no_batch_statistics(void **state)
{
    (void)state;
    for (uint32_t n_out = 1; n_out <= 2; n_out++) {
        begin();
        add(OPF_FLOAT, DIMS(2, 2), LIST(1, 10, 3, 10));
        for (int i = 0; i < 4; i++)
            add(OPF_FLOAT, DIMS(2), LIST(1, 1));
        if (n_out == 1)
            REFUSE(BatchNormalization, 1, OPF_UNSUPPORTED, "training mode", int_attr("training_mode", 1));
        else
            REFUSE(BatchNormalization, 2, OPF_INVALID_MODEL, "training_mode", NONE);
    }
}

/* ---- a quantized convolution ---- */

static void test_quantized_conv(void **state)
{
    (void)state;
    begin();
    add(OPF_UINT8, DIMS(1, 1, 3), LIST(0, 128, 255)); /* padding is the zero point, 128, and adds nothing */
    add(OPF_FLOAT, SCALAR, LIST(0.5));
    add(OPF_UINT8, SCALAR, LIST(128));
    add(OPF_INT8, DIMS(2, 1, 3), LIST(1, 1, 1, -128, -128, -128));
    add(OPF_FLOAT, DIMS(2), LIST(1, 2)); /* a scale for each output channel */
    add(OPF_INT8, DIMS(2), LIST(0, 0));
    add(OPF_FLOAT, SCALAR, LIST(1));
    add(OPF_UINT8, SCALAR, LIST(100));
    int64_t pads[] = {1, 1};
    RUN_OK(QLinearConv, 1, (opf_attr){.name = "pads", .type = OPF_ATTR_INTS, .ints = pads, .n = 2});
    expect(0, DIMS(1, 2, 3), LIST(36, 100, 164, 255, 228, 0), 0); /* -0.5 and 63.5 are ties, to even */
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unary),   cmocka_unit_test(test_logic),     cmocka_unit_test(test_comparisons),
        cmocka_unit_test(test_bits),    cmocka_unit_test(test_cast_like), cmocka_unit_test(test_dropout),
        cmocka_unit_test(test_random),  cmocka_unit_test(test_no_batch_statistics),
        cmocka_unit_test(test_quantized_conv),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
