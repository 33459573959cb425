/* SPDX-License-Identifier: Apache-2.0 */
/* Operators of signals and bits, and functions of one number. */
#include "one_node.h"

/* ---- functions of one number ---- */

static void test_domains(void **state)
{
    (void)state;
    begin();
    add(OPF_DOUBLE, DIMS(4), LIST(1, -1, 1.5, NAN));
    RUN_OK(Acos, 1, NONE);
    expect(0, DIMS(4), LIST(0, 3.14159265358979, NAN, NAN), 1e-14);
    end();
    begin();
    add(OPF_DOUBLE, DIMS(4), LIST(1, -1, 2, 0));
    RUN_OK(Atanh, 1, NONE);
    expect(0, DIMS(4), LIST(INFINITY, -INFINITY, NAN, 0), 0);
    end();
    begin();
    add(OPF_FLOAT, SCALAR, LIST(0.5));
    RUN_OK(Acosh, 1, NONE);
    expect(0, SCALAR, LIST(NAN), 0);
    end();
    begin();
    add(OPF_FLOAT16, DIMS(2, 0), NULL);
    RUN_OK(Tan, 1, NONE);
    expect_shape(0, DIMS(2, 0));
    end();
}

static void test_classes(void **state)
{
    (void)state;
    begin();
    add(OPF_BFLOAT16, DIMS(4), LIST(INFINITY, -INFINITY, NAN, 1));
    RUN_OK(IsInf, 1, int_attr("detect_negative", 0));
    expect(0, DIMS(4), LIST(1, 0, 0, 0), 0);
    end();
    static const struct {
        opf_type type;
        double   nan[4], inf[4];
    } eights[] = {{OPF_FLOAT8E4M3FN, {1, 1, 0, 0}, {0, 0, 0, 0}},
                  {OPF_FLOAT8E4M3FNUZ, {0, 0, 1, 0}, {0, 0, 0, 0}},
                  {OPF_FLOAT8E5M2, {1, 1, 0, 0}, {0, 0, 0, 1}},
                  {OPF_FLOAT8E5M2FNUZ, {0, 0, 1, 0}, {0, 0, 0, 0}}};
    for (size_t i = 0; i < sizeof eights / sizeof *eights; i++) {
        begin();
        memcpy(add(eights[i].type, DIMS(4), NULL)->data, (const unsigned char[]){0x7f, 0xff, 0x80, 0x7c}, 4);
        RUN_OK(IsNaN, 1, NONE);
        expect(0, DIMS(4), eights[i].nan, 0);
        end();
        begin();
        memcpy(add(eights[i].type, DIMS(4), NULL)->data, (const unsigned char[]){0x7f, 0xff, 0x80, 0x7c}, 4);
        RUN_OK(IsInf, 1, NONE);
        expect(0, DIMS(4), eights[i].inf, 0);
        end();
    }
}

/* ---- bits ---- */

static void test_shift(void **state)
{
    (void)state;
    begin();
    add(OPF_INT8, DIMS(6), LIST(-128, -128, -1, 64, 1, 127));
    add(OPF_INT8, DIMS(6), LIST(7, 8, -1, 1, 0, 100));
    RUN_OK(BitShift, 1, string_attr("direction", "RIGHT"));
    expect(0, DIMS(6), LIST(-1, -1, -1, 32, 1, 0), 0);
    end();
    begin();
    add(OPF_INT8, DIMS(6), LIST(-128, 3, -1, 64, 1, 127));
    add(OPF_INT8, DIMS(6), LIST(1, 7, -1, 1, 0, 100));
    RUN_OK(BitShift, 1, string_attr("direction", "LEFT"));
    expect(0, DIMS(6), LIST(0, -128, 0, -128, 1, 0), 0);
    end();
    begin();
    add(OPF_UINT64, DIMS(3), NULL);
    memcpy(f.in[0].data, (const uint64_t[]){UINT64_MAX, UINT64_MAX, 1}, 24);
    add(OPF_UINT64, DIMS(3), NULL);
    memcpy(f.in[1].data, (const uint64_t[]){63, 64, UINT64_MAX}, 24);
    RUN_OK(BitShift, 1, string_attr("direction", "RIGHT"));
    expect(0, DIMS(3), LIST(1, 0, 0), 0);
    end();
    begin();
    add(OPF_UINT8, DIMS(2, 1), LIST(16, 4));
    add(OPF_UINT8, DIMS(3), LIST(0, 1, 2));
    RUN_OK(BitShift, 1, string_attr("direction", "RIGHT"));
    expect(0, DIMS(2, 3), LIST(16, 8, 4, 4, 2, 1), 0);
    end();
    begin();
    add(OPF_UINT8, SCALAR, LIST(1));
    add(OPF_UINT8, SCALAR, LIST(1));
    REFUSE(BitShift, 1, OPF_INVALID_MODEL, "direction is \"UP\"", string_attr("direction", "UP"));
}

static void test_bitwise(void **state)
{
    (void)state;
    begin();
    add(OPF_INT16, DIMS(2, 1), LIST(-32768, 5));
    add(OPF_INT16, DIMS(2), LIST(-1, 3));
    RUN_OK(BitwiseXor, 1, NONE);
    expect(0, DIMS(2, 2), LIST(32767, -32765, -6, 6), 0);
    const opf_info *info = &opf_graph_value(f.graph, opf_graph_node(f.graph, f.node)->outputs[0])->info;
    assert_int_equal(info->n_values, 4); /* known values travel through */
    assert_true(opf_dim_is(info->values[0], 32767));
    end();
    begin();
    add(OPF_UINT8, DIMS(3), LIST(0, 255, 170));
    RUN_OK(BitwiseNot, 1, NONE);
    expect(0, DIMS(3), LIST(255, 0, 85), 0);
    end();
}

/* ---- transforms ---- */

/* The definition, on [n, 1 or 2]. */
static void slow_dft(const tensor *x, int64_t length, bool inverse, double *result)
{
    const int64_t n = x->view.dims[0], parts = x->view.dims[1];
    for (int64_t k = 0; k < length; k++) {
        double re = 0, im = 0;
        for (int64_t i = 0; i < length && i < n; i++) {
            double a = opf_load_f64(x->view.type, x->data, (size_t)(i * parts));
            double b = parts == 2 ? opf_load_f64(x->view.type, x->data, (size_t)(i * parts + 1)) : 0;
            double angle = (inverse ? 1 : -1) * 6.283185307179586 * (double)(i * k % length) / (double)length;
            re += a * cos(angle) - b * sin(angle);
            im += a * sin(angle) + b * cos(angle);
        }
        result[2 * k]     = inverse ? re / (double)length : re;
        result[2 * k + 1] = inverse ? im / (double)length : im;
    }
}

static void test_dft_lengths(void **state)
{
    (void)state;
    for (int64_t n = 1; n <= 24; n++)
        for (int64_t length = 1; length <= 26; length += 5)
            for (int kind = 0; kind < 4; kind++) { /* inverse or not, complex or real */
                const int64_t parts = 1 + kind / 2;
                double        wanted[ROOM];
                begin();
                const tensor *x = add_pattern(OPF_DOUBLE, DIMS(n, parts));
                add(OPF_INT64, SCALAR, LIST((double)length));
                RUN_OK(DFT, 1, int_attr("inverse", kind % 2));
                slow_dft(x, length, kind % 2, wanted);
                expect(0, DIMS(length, 2), wanted, 1e-12);
                end();
            }
}

static void test_dft_onesided(void **state)
{
    (void)state;
    for (int64_t n = 1; n <= 12; n++) {
        double wanted[ROOM], signal[ROOM];
        begin();
        const tensor *x = add_pattern(OPF_DOUBLE, DIMS(n, 1));
        RUN_OK(DFT, 1, int_attr("onesided", 1));
        slow_dft(x, n, false, wanted);
        expect(0, DIMS(n / 2 + 1, 2), wanted, 1e-12);
        for (int64_t i = 0; i < n; i++)
            signal[i] = opf_load_f64(OPF_DOUBLE, x->data, (size_t)i);
        end();
        begin(); /* and back */
        add(OPF_DOUBLE, DIMS(n / 2 + 1, 2), wanted);
        add(OPF_INT64, DIMS(1), LIST((double)n));
        RUN_OK(DFT, 1, int_attr("onesided", 1), int_attr("inverse", 1));
        expect(0, DIMS(n, 1), signal, 1e-12);
        end();
    }
}

static void test_dft_axis(void **state)
{
    (void)state;
    begin();
    add(OPF_FLOAT, DIMS(2, 3, 1), LIST(1, 2, 3, 5, 7, 11));
    add_nothing();
    add(OPF_INT64, SCALAR, LIST(-3));
    RUN_OK(DFT, 1, NONE);
    expect(0, DIMS(2, 3, 2), LIST(6, 0, 9, 0, 14, 0, -4, 0, -5, 0, -8, 0), 1e-6);
    end();
    begin();
    add(OPF_FLOAT, DIMS(0, 3, 1), NULL);
    RUN_OK(DFT, 1, NONE);
    expect_shape(0, DIMS(0, 3, 2));
    end();
}

static void test_dft_refused(void **state)
{
    (void)state;
    begin();
    add_pattern(OPF_FLOAT, DIMS(4, 1));
    add_nothing();
    add(OPF_INT64, SCALAR, LIST(1));
    REFUSE(DFT, 1, OPF_INVALID_MODEL, "real and imaginary", NONE);
    begin();
    add_pattern(OPF_FLOAT, DIMS(4, 3));
    REFUSE(DFT, 1, OPF_INVALID_INPUT, "must be 1 (real) or 2", NONE);
    begin();
    add_pattern(OPF_FLOAT, DIMS(4, 2));
    REFUSE(DFT, 1, OPF_INVALID_INPUT, "onesided needs real", int_attr("onesided", 1));
    begin();
    add_pattern(OPF_FLOAT, DIMS(4, 1));
    add(OPF_INT32, SCALAR, LIST(0));
    REFUSE(DFT, 1, OPF_INVALID_INPUT, "length of the transform is 0", NONE);
    begin();
    add_pattern(OPF_FLOAT, DIMS(4, 1));
    add(OPF_INT32, DIMS(2), LIST(4, 4));
    REFUSE(DFT, 1, OPF_INVALID_INPUT, "must be a scalar", NONE);
}

static void test_stft(void **state)
{
    (void)state;
    double wanted[ROOM];
    begin();
    const tensor *x = add_pattern(OPF_DOUBLE, DIMS(1, 10, 1));
    add(OPF_INT64, SCALAR, LIST(3));
    add(OPF_DOUBLE, DIMS(4), LIST(1, 2, 3, 4));
    RUN_OK(STFT, 1, int_attr("onesided", 0));
    expect_shape(0, DIMS(1, 3, 4, 2));
    for (int64_t frame = 0; frame < 3; frame++) {
        tensor part;
        shape(&part, OPF_DOUBLE, DIMS(4, 1));
        for (size_t i = 0; i < 4; i++)
            opf_store_f64(OPF_DOUBLE, part.data, i, (double)(i + 1) * opf_load_f64(OPF_DOUBLE, x->data, i + (size_t)frame * 3));
        slow_dft(&part, 4, false, wanted);
        for (size_t i = 0; i < 8; i++)
            assert_true(fabs(at(0, (size_t)frame * 8 + i) - wanted[i]) < 1e-12);
    }
    end();
    begin();
    add_pattern(OPF_FLOAT, DIMS(2, 10));
    add(OPF_INT32, SCALAR, LIST(2));
    add_nothing();
    add(OPF_INT32, SCALAR, LIST(5));
    RUN_OK(STFT, 1, NONE);
    expect_shape(0, DIMS(2, 3, 3, 2));
    end();
    begin();
    add_pattern(OPF_FLOAT, DIMS(2, 10, 1));
    add(OPF_INT32, SCALAR, LIST(0));
    REFUSE(STFT, 1, OPF_INVALID_INPUT, "frame_step is 0", NONE);
    begin();
    add_pattern(OPF_FLOAT, DIMS(2, 3, 1));
    add(OPF_INT32, SCALAR, LIST(1));
    add_pattern(OPF_FLOAT, DIMS(4));
    REFUSE(STFT, 1, OPF_INVALID_INPUT, "do not fit a signal of length 3", NONE);
    begin();
    add_pattern(OPF_FLOAT, DIMS(2, 3, 2));
    add(OPF_INT32, SCALAR, LIST(1));
    REFUSE(STFT, 1, OPF_INVALID_INPUT, "onesided needs real", NONE);
}

static void test_windows(void **state)
{
    (void)state;
    begin();
    add(OPF_INT32, SCALAR, LIST(4));
    RUN_OK(HannWindow, 1, int_attr("output_datatype", OPF_DOUBLE));
    expect(0, DIMS(4), LIST(0, 0.5, 1, 0.5), 1e-15);
    end();
    begin();
    add(OPF_INT64, SCALAR, LIST(3));
    RUN_OK(HammingWindow, 1, int_attr("periodic", 0));
    expect(0, DIMS(3), LIST(4.0 / 46, 1, 4.0 / 46), 1e-7);
    end();
    begin();
    add(OPF_INT64, SCALAR, LIST(5));
    RUN_OK(BlackmanWindow, 1, int_attr("periodic", 0), int_attr("output_datatype", OPF_INT8));
    expect(0, DIMS(5), LIST(0, 0, 1, 0, 0), 0);
    end();
    begin();
    add(OPF_INT64, SCALAR, LIST(0));
    RUN_OK(HannWindow, 1, NONE);
    expect_shape(0, DIMS(0));
    end();
    begin();
    add(OPF_INT64, SCALAR, LIST(-1));
    REFUSE(HannWindow, 1, OPF_INVALID_INPUT, "size is -1", NONE);
    begin();
    add(OPF_INT64, SCALAR, LIST(4));
    REFUSE(HannWindow, 1, OPF_INVALID_MODEL, "output_datatype is 9", int_attr("output_datatype", OPF_BOOL));
}

static void add_mel(double bins, double length, double rate, double low, double high)
{
    begin();
    add(OPF_INT64, SCALAR, &bins);
    add(OPF_INT64, SCALAR, &length);
    add(OPF_INT64, SCALAR, &rate);
    add(OPF_FLOAT, SCALAR, &low);
    add(OPF_FLOAT, SCALAR, &high);
}

static void test_mel(void **state)
{
    (void)state;
    add_mel(3, 16, 8192, 0, 4096);
    RUN_OK(MelWeightMatrix, 1, NONE);
    expect_shape(0, DIMS(9, 3));
    for (size_t column = 0; column < 3; column++) {
        double peak = 0;
        for (size_t row = 0; row < 9; row++)
            peak = fmax(peak, at(0, row * 3 + column));
        assert_true(peak == 1);
    }
    end();
    add_mel(0, 16, 8192, 0, 4096);
    RUN_OK(MelWeightMatrix, 1, NONE);
    expect_shape(0, DIMS(9, 0));
    end();
    add_mel(3, 16, 0, 0, 4096);
    REFUSE(MelWeightMatrix, 1, OPF_INVALID_INPUT, "sample_rate is 0", NONE);
    add_mel(3, 16, 8192, 0, 1e9);
    REFUSE(MelWeightMatrix, 1, OPF_INVALID_INPUT, "edges 0 and 1e+09", NONE);
    add_mel(3, 16, 8192, NAN, 4096);
    REFUSE(MelWeightMatrix, 1, OPF_INVALID_INPUT, "must be in order", NONE);
}

/* ---- older opsets ---- */

static void test_dft_rows(void **state)
{
    (void)state;
    begin();
    opf_value_id x = opf_graph_add_value(f.graph, "x"), y = opf_graph_add_value(f.graph, "y");
    assert_true(opf_graph_add_input(f.graph, x));
    opf_node_id id = opf_graph_add_node(f.graph, &opf_op_DFT, "DFT", "n", &x, 1, &y, 1);
    assert_int_equal(opf_op_DFT.rows[0].lift(f.graph, id, 17, &f.error), OPF_OK);
    const opf_node *node = opf_graph_node(f.graph, id);
    assert_int_equal(node->n_own_inputs, 3);
    assert_int_equal(opf_const_i64_at(opf_graph_value(f.graph, node->inputs[2])->constant, 0), 1);
    assert_int_equal(opf_op_DFT.rows[0].lower(f.graph, id, 17, &f.error), OPF_OK);
    node = opf_graph_node(f.graph, id);
    assert_int_equal(opf_node_int(node, "axis", 0), 1);
    assert_int_equal(node->inputs[2], 0);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_domains),
        cmocka_unit_test(test_classes),
        cmocka_unit_test(test_shift),
        cmocka_unit_test(test_bitwise),
        cmocka_unit_test(test_dft_lengths),
        cmocka_unit_test(test_dft_onesided),
        cmocka_unit_test(test_dft_axis),
        cmocka_unit_test(test_dft_refused),
        cmocka_unit_test(test_stft),
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_mel),
        cmocka_unit_test(test_dft_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
