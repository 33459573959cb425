/* SPDX-License-Identifier: Apache-2.0 */
/* Floats of 8, 6 and 4 bits, integers of 4 and 2 bits: every bit pattern, rounding, saturation, packing; then casts. */
#include "base/narrow.h"
#include "one_node.h"

static const opf_type narrow[] = {OPF_FLOAT8E4M3FN, OPF_FLOAT8E4M3FNUZ, OPF_FLOAT8E5M2, OPF_FLOAT8E5M2FNUZ,
                                  OPF_FLOAT6E2M3,   OPF_FLOAT6E3M2,     OPF_FLOAT4E2M1};
enum { N_NARROW = sizeof narrow / sizeof *narrow };

/* Every number comes back as its own bits. */
static void test_round_trip(void **state)
{
    (void)state;
    for (int t = 0; t < N_NARROW; t++)
        for (unsigned bits = 0; bits < 1u << opf_type_bits(narrow[t]); bits++) {
            const double x = opf_narrow_to_double(narrow[t], bits);
            if (isnan(x))
                assert_true(isnan(opf_narrow_to_double(narrow[t], opf_double_to_narrow(narrow[t], x, true))));
            else if (!isinf(x))
                assert_int_equal(opf_double_to_narrow(narrow[t], x, true), bits);
            else
                assert_int_equal(opf_double_to_narrow(narrow[t], x, false), bits);
        }
    for (unsigned bits = 0; bits < 256; bits++)
        assert_int_equal(opf_double_to_power(opf_power_to_double(bits), OPF_POWER_UP, true), bits);
}

/* Half way between neighbours goes to the even one, and the next double to the nearest. */
static void test_rounding(void **state)
{
    (void)state;
    for (int t = 0; t < N_NARROW; t++)
        for (unsigned bits = 0; bits < 255; bits++) {
            const unsigned mask = (1u << (opf_type_bits(narrow[t]) - 1)) - 1;
            if ((bits & mask) == mask || bits >> opf_type_bits(narrow[t]) != 0)
                continue;
            const double a = opf_narrow_to_double(narrow[t], bits), b = opf_narrow_to_double(narrow[t], bits + 1);
            if (!isfinite(a) || !isfinite(b) || signbit(a) != signbit(b))
                continue;
            const double middle = (a + b) / 2;
            assert_int_equal(opf_double_to_narrow(narrow[t], middle, true), bits % 2 == 0 ? bits : bits + 1);
            assert_int_equal(opf_double_to_narrow(narrow[t], nextafter(middle, a), true), bits);
            assert_int_equal(opf_double_to_narrow(narrow[t], nextafter(middle, b), true), bits + 1);
        }
}

static void test_limits(void **state)
{
    static const struct {
        opf_type type;
        double   largest, beyond; /* beyond: the least that rounds to more than the largest */
        unsigned infinite;        /* what infinity is without saturation */
    } limits[] = {{OPF_FLOAT8E4M3FN, 448, 464.0001, 0x7f},
                  {OPF_FLOAT8E4M3FNUZ, 240, 248, 0x80},
                  {OPF_FLOAT8E5M2, 57344, 61440, 0x7c},
                  {OPF_FLOAT8E5M2FNUZ, 57344, 61440, 0x80}};
    (void)state;
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        const opf_type type = limits[i].type;
        assert_float_equal(opf_narrow_to_double(type, opf_double_to_narrow(type, INFINITY, true)), limits[i].largest,
                           0);
        assert_float_equal(opf_narrow_to_double(type, opf_double_to_narrow(type, -1e300, true)), -limits[i].largest, 0);
        assert_float_equal(opf_narrow_to_double(type, opf_double_to_narrow(type, limits[i].beyond, true)),
                           limits[i].largest, 0);
        assert_int_equal(opf_double_to_narrow(type, limits[i].beyond, false), limits[i].infinite);
        assert_int_equal(opf_double_to_narrow(type, INFINITY, false), limits[i].infinite);
        const double below = nextafter(limits[i].beyond, 0);
        if (type != OPF_FLOAT8E4M3FN)
            assert_float_equal(opf_narrow_to_double(type, opf_double_to_narrow(type, below, false)), limits[i].largest,
                               0);
    }
    assert_int_equal(opf_double_to_narrow(OPF_FLOAT8E4M3FN, 464, false), 0x7e); /* a tie, to even */
    assert_int_equal(opf_double_to_narrow(OPF_FLOAT8E4M3FN, -0.0, true), 0x80);
    assert_int_equal(opf_double_to_narrow(OPF_FLOAT8E4M3FNUZ, -0.0, true), 0);
    assert_int_equal(opf_double_to_narrow(OPF_FLOAT8E5M2FNUZ, -1e-30, true), 0);
    assert_int_equal(opf_double_to_narrow(OPF_FLOAT8E5M2, -(double)NAN, true), 0xff);
    assert_float_equal(opf_narrow_to_double(OPF_FLOAT6E2M3, opf_double_to_narrow(OPF_FLOAT6E2M3, 1e9, false)), 7.5, 0);
    assert_float_equal(opf_narrow_to_double(OPF_FLOAT6E3M2, opf_double_to_narrow(OPF_FLOAT6E3M2, -1e9, true)), -28, 0);
    assert_float_equal(opf_narrow_to_double(OPF_FLOAT6E3M2, 1), 0.0625, 0);
    assert_int_equal(opf_double_to_narrow(OPF_FLOAT6E2M3, NAN, true), 0x20);
    assert_int_equal(opf_double_to_narrow(OPF_FLOAT4E2M1, INFINITY, false), 7);
    assert_int_equal(opf_double_to_narrow(OPF_FLOAT4E2M1, NAN, true), 8);
}

static void test_powers(void **state)
{
    (void)state;
    assert_int_equal(opf_double_to_power(0, OPF_POWER_UP, true), 0);
    assert_int_equal(opf_double_to_power(0, OPF_POWER_NEAREST, false), 255);
    assert_int_equal(opf_double_to_power(1.0001, OPF_POWER_UP, true), 128);
    assert_int_equal(opf_double_to_power(1.9999, OPF_POWER_DOWN, true), 127);
    assert_int_equal(opf_double_to_power(1.4999, OPF_POWER_NEAREST, true), 127);
    assert_int_equal(opf_double_to_power(1.5, OPF_POWER_NEAREST, true), 128);
    assert_int_equal(opf_double_to_power(1e300, OPF_POWER_UP, true), 254);
    assert_int_equal(opf_double_to_power(INFINITY, OPF_POWER_UP, true), 254);
    assert_int_equal(opf_double_to_power(INFINITY, OPF_POWER_UP, false), 255);
    assert_int_equal(opf_double_to_power(NAN, OPF_POWER_UP, true), 255);
}

static void test_packing(void **state)
{
    unsigned char bytes[3] = {0xff, 0xff, 0xff};
    (void)state;
    opf_store_i64(OPF_INT4, bytes, 1, -8);
    assert_int_equal(bytes[0], 0x8f);
    opf_store_i64(OPF_UINT4, bytes, 2, 19); /* wraps to 3 */
    assert_int_equal(bytes[1], 0xf3);
    assert_int_equal(opf_load_i64(OPF_INT4, bytes, 1), -8);
    assert_int_equal(opf_load_i64(OPF_INT4, bytes, 0), -1);
    assert_int_equal(opf_load_i64(OPF_UINT4, bytes, 0), 15);
    opf_store_i64(OPF_INT2, bytes, 9, 1);
    assert_int_equal(bytes[2], 0xf7);
    assert_int_equal(opf_load_i64(OPF_INT2, bytes, 8), -1);
    assert_int_equal(opf_load_i64(OPF_UINT2, bytes, 9), 1);
    opf_store_f64(OPF_FLOAT4E2M1, bytes, 4, -1.5);
    assert_int_equal(bytes[2], 0xfb);
    assert_float_equal(opf_load_f64(OPF_FLOAT4E2M1, bytes, 4), -1.5, 0);
}

/* Four elements of 6 bits in three bytes; a store keeps its neighbours, and bytes that it does not reach. */
static void test_packing_across_bytes(void **state)
{
    (void)state;
    unsigned char bytes[4] = {0, 0, 0, 0xa5};
    size_t        n;
    for (unsigned i = 0; i < 4; i++)
        opf_store_bits(6, bytes, i, 0x15 + i);
    assert_int_equal(bytes[0] | bytes[1] << 8 | bytes[2] << 16, 0x15 | 0x16 << 6 | 0x17 << 12 | 0x18 << 18);
    assert_int_equal(bytes[3], 0xa5);
    opf_store_bits(6, bytes, 1, 0x2a);
    assert_int_equal(opf_load_bits(6, bytes, 0), 0x15);
    assert_int_equal(opf_load_bits(6, bytes, 1), 0x2a);
    assert_int_equal(opf_load_bits(6, bytes, 2), 0x17);
    assert_int_equal(opf_load_bits(6, bytes, 3), 0x18);
    static const size_t wanted[] = {0, 1, 2, 3, 3, 4};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        assert_true(opf_type_bytes(OPF_FLOAT6E2M3, i, &n));
        assert_int_equal(n, wanted[i]);
    }
    assert_true(opf_type_bytes(OPF_FLOAT6E3M2, SIZE_MAX, &n));
}

/* ---- casts ---- */

static void cast(opf_type from, opf_type to, int64_t n, const double *x, const double *y, opf_attr attr)
{
    begin();
    add(from, 1, &n, x);
    RUN_OK(Cast, 1, int_attr("to", to), attr);
    expect(0, 1, &n, y, 0);
    end();
}

static void test_casts(void **state)
{
    (void)state;
    cast(OPF_FLOAT, OPF_INT4, 6, LIST(-9, -8, 7.9, 8, -0.9, NAN), LIST(7, -8, 7, -8, 0, 0), NONE); /* they wrap */
    cast(OPF_INT64, OPF_UINT2, 4, LIST(5, -1, 2, 4), LIST(1, 3, 2, 0), NONE);
    cast(OPF_INT2, OPF_FLOAT8E5M2, 3, LIST(-2, 1, 0), LIST(-2, 1, 0), NONE);
    cast(OPF_INT4, OPF_BOOL, 3, LIST(-8, 0, 1), LIST(1, 0, 1), NONE);
    cast(OPF_UINT64, OPF_FLOAT8E4M3FN, 2, LIST(1000, 17), LIST(448, 16), NONE);
    cast(OPF_UINT64, OPF_FLOAT8E4M3FN, 2, LIST(1000, 17), LIST(NAN, 16), int_attr("saturate", 0));
    cast(OPF_FLOAT8E5M2, OPF_FLOAT16, 3, LIST(57344, -0.25, NAN), LIST(57344, -0.25, NAN), NONE);
    cast(OPF_FLOAT8E4M3FN, OPF_INT8, 3, LIST(448, -448, 2.5), LIST(-64, 64, 2), NONE);
    cast(OPF_FLOAT, OPF_FLOAT8E8M0, 3, LIST(3, 4, 5), LIST(2, 4, 4), string_attr("round_mode", "down"));
    cast(OPF_FLOAT, OPF_FLOAT8E8M0, 3, LIST(3, 4, 5), LIST(4, 4, 4), string_attr("round_mode", "nearest"));
    cast(OPF_FLOAT, OPF_FLOAT6E2M3, 5, LIST(9, -0.0625, 1.0625, 0.3, -7.5), LIST(7.5, -0.0, 1, 0.25, -7.5), NONE);
    cast(OPF_FLOAT6E3M2, OPF_INT8, 3, LIST(28, -28, 2.5), LIST(28, -28, 2), NONE);
    cast(OPF_FLOAT4E2M1, OPF_FLOAT4E2M1, 3, LIST(6, -0.5, 3), LIST(6, -0.5, 3), NONE);
    begin();
    add(OPF_INT4, SCALAR, LIST(-3));
    RUN_OK(Cast, 1, int_attr("to", OPF_DOUBLE));
    expect(0, SCALAR, LIST(-3), 0);
    end();
    begin();
    add(OPF_FLOAT, DIMS(1), LIST(1));
    REFUSE(Cast, 1, OPF_INVALID_MODEL, "round_mode is \"away\"", int_attr("to", OPF_FLOAT8E8M0),
           string_attr("round_mode", "away"));
    begin();
    add(OPF_FLOAT, DIMS(1), LIST(1));
    REFUSE(Cast, 1, OPF_UNSUPPORTED, "string", int_attr("to", OPF_STRING));
}

/* What does not fit its type: the low bits of the least integer of 32 or 64 bits, or of the number cut off to these. Of
   uint64, which expect() sees as int64, the upper half is reached too. */
static void test_casts_out_of_range(void **state)
{
    enum { N = 12 };
#define LEAST_32 (double)INT32_MIN
#define LEAST_64 (double)INT64_MIN
    static const double x[N] = {NAN,   HUGE_VAL, -HUGE_VAL, 300.7,    -1.5,     3e9,
                                -3e9,  5e9,      0x1p63,    -0x1p63,  0x1.8p63, 0x1p64};
    static const struct {
        opf_type to;
        double   y[N];
    } cases[] = {
        {OPF_BOOL, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}},
        {OPF_INT4, {0, 0, 0, -4, -1, 0, 0, 0, 0, 0, 0, 0}},
        {OPF_UINT2, {0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0}},
        {OPF_INT8, {0, 0, 0, 44, -1, 0, 0, 0, 0, 0, 0, 0}},
        {OPF_UINT8, {0, 0, 0, 44, 255, 0, 0, 0, 0, 0, 0, 0}},
        {OPF_INT16, {0, 0, 0, 300, -1, 0, 0, 0, 0, 0, 0, 0}},
        {OPF_UINT16, {0, 0, 0, 300, 65535, 0, 0, 0, 0, 0, 0, 0}},
        {OPF_INT32, {LEAST_32, LEAST_32, LEAST_32, 300, -1, LEAST_32, LEAST_32, LEAST_32, LEAST_32, LEAST_32, LEAST_32, LEAST_32}},
        {OPF_UINT32, {0, 0, 0, 300, 4294967295, 3e9, 1294967296, 705032704, 0, 0, 0, 0}},
        {OPF_INT64, {LEAST_64, LEAST_64, LEAST_64, 300, -1, 3e9, -3e9, 5e9, LEAST_64, LEAST_64, LEAST_64, LEAST_64}},
        {OPF_UINT64, {LEAST_64, 0, LEAST_64, 300, -1, 3e9, -3e9, 5e9, LEAST_64, LEAST_64, -0x1p62, 0}},
    };
    (void)state;
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++)
        for (unsigned k = 0; k < 2; k++)
            cast(k == 0 ? OPF_FLOAT : OPF_DOUBLE, cases[i].to, N, x, cases[i].y, NONE);
    cast(OPF_FLOAT16, OPF_INT16, 4, LIST(65504, -40000, -HUGE_VAL, NAN), LIST(-32, 25536, 0, 0), NONE);
    cast(OPF_BFLOAT16, OPF_INT32, 3, LIST(HUGE_VAL, -0x1p31, 0x1p31), LIST(LEAST_32, LEAST_32, LEAST_32), NONE);
    cast(OPF_FLOAT8E5M2, OPF_UINT64, 2, LIST(NAN, -2), LIST(LEAST_64, -2), NONE);
}

static void test_cast_like(void **state)
{
    (void)state;
    begin();
    add(OPF_FLOAT, DIMS(2), LIST(300, -1.25));
    add(OPF_FLOAT8E4M3FNUZ, DIMS(3, 0), NULL);
    RUN_OK(CastLike, 1, NONE);
    expect(0, DIMS(2), LIST(240, -1.25), 0);
    /* Once the type is known it is a Cast. */
    const opf_import_row *row = &opf_op_CastLike.rows[opf_op_CastLike.n_rows - 1];
    assert_int_equal(row->lift(f.graph, f.node, 15, &f.error), OPF_OK);
    const opf_node *node = opf_graph_node(f.graph, f.node);
    assert_ptr_equal(node->op, &opf_op_Cast);
    assert_int_equal(node->n_inputs, 1);
    assert_int_equal(opf_node_int(node, "to", 0), OPF_FLOAT8E4M3FNUZ);
    end();
}

static void test_bit_cast(void **state)
{
    (void)state;
    begin();
    add(OPF_FLOAT, DIMS(1, 2), LIST(1, -0.0));
    RUN_OK(BitCast, 1, int_attr("to", OPF_INT32));
    expect(0, DIMS(1, 2), LIST(0x3f800000, INT32_MIN), 0);
    end();
    begin();
    add(OPF_INT4, DIMS(3), LIST(-1, 1, -8));
    RUN_OK(BitCast, 1, int_attr("to", OPF_UINT4));
    expect(0, DIMS(3), LIST(15, 1, 8), 0);
    end();
    begin();
    add(OPF_FLOAT, DIMS(1), LIST(1));
    REFUSE(BitCast, 1, OPF_INVALID_MODEL, "float has 32 bits and int64 has 64", int_attr("to", OPF_INT64));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip), cmocka_unit_test(test_rounding), cmocka_unit_test(test_limits),
        cmocka_unit_test(test_powers),     cmocka_unit_test(test_packing),  cmocka_unit_test(test_packing_across_bytes),  cmocka_unit_test(test_casts),
        cmocka_unit_test(test_casts_out_of_range), cmocka_unit_test(test_cast_like),  cmocka_unit_test(test_bit_cast),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
