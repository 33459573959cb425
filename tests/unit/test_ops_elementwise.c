/* SPDX-License-Identifier: Apache-2.0 */
/* Reference kernels of elementwise operators: broadcasting, strides, and the corners of every type. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "ops/reference.h"

#include <math.h>

enum { ROOM = 64 };

typedef struct {
    opf_view view;
    char     data[ROOM * 8];
} tensor;

static void shape(tensor *t, opf_type type, int32_t rank, const int64_t *dims)
{
    t->view = (opf_view){.type = type, .rank = rank, .data = t->data};
    for (int32_t i = 0; i < rank; i++)
        t->view.dims[i] = dims[i];
    opf_view_set_dense(&t->view);
}

static tensor *floats(tensor *t, opf_type type, int32_t rank, const int64_t *dims, const double *x)
{
    shape(t, type, rank, dims);
    for (size_t i = 0; i < opf_view_count(&t->view); i++)
        opf_store_f64(type, t->data, i, x[i]);
    return t;
}

static tensor *ints(tensor *t, opf_type type, int32_t rank, const int64_t *dims, const int64_t *x)
{
    shape(t, type, rank, dims);
    for (size_t i = 0; i < opf_view_count(&t->view); i++)
        opf_store_i64(type, t->data, i, x[i]);
    return t;
}

#define DIMS(...)   (int32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]){__VA_ARGS__}
#define SCALAR      0, NULL
#define F(...)      (const double[]){__VA_ARGS__}
#define I(...)      (const int64_t[]){__VA_ARGS__}
#define T(variable) (&(variable).view)

static opf_status run(const opf_op *op, const opf_attr *attr, opf_view *out, uint32_t n, const opf_view *const *in)
{
    opf_heap  heap;
    opf_error error;
    opf_view  inputs[8];
    opf_heap_init(&heap, NULL, 0);
    for (uint32_t i = 0; i < n; i++)
        inputs[i] = in[i] != NULL ? *in[i] : (opf_view){0};
    opf_call   call   = {.attrs = attr, .n_attrs = attr != NULL, .in = inputs, .n_in = n, .out = out, .n_out = 1, .heap = &heap};
    opf_status status = op->reference(&call, &error);
    assert_int_equal(heap.used, 0);
    return status;
}
#define RUN(op, attr, out, ...)                                                                                        \
    run(&opf_op_##op, attr, &(out).view, (uint32_t)(sizeof((const opf_view *[]){__VA_ARGS__}) / sizeof(void *)),       \
        (const opf_view *[]){__VA_ARGS__})
#define RUN_OK(op, attr, out, ...) assert_int_equal(RUN(op, attr, out, __VA_ARGS__), OPF_OK)

static void expect_floats(const tensor *t, const double *x)
{
    for (size_t i = 0; i < opf_view_count(&t->view); i++) {
        double found = opf_load_f64(t->view.type, t->data, i);
        if (!(found == x[i] && signbit(found) == signbit(x[i])) && !(isnan(found) && isnan(x[i])))
            fail_msg("element %zu is %.17g, must be %.17g", i, found, x[i]);
    }
}

static void expect_ints(const tensor *t, const int64_t *x)
{
    for (size_t i = 0; i < opf_view_count(&t->view); i++)
        assert_int_equal(opf_load_i64(t->view.type, t->data, i), x[i]);
}

/* ---- shapes ---- */

static void test_broadcast(void **state)
{
    (void)state;
    tensor a, b, y;
    floats(&a, OPF_FLOAT, DIMS(2, 1, 3), F(1, 2, 3, 4, 5, 6));
    floats(&b, OPF_FLOAT, DIMS(2, 1), F(10, 20));
    shape(&y, OPF_FLOAT, DIMS(2, 2, 3));
    RUN_OK(Add, NULL, y, T(a), T(b));
    expect_floats(&y, F(11, 12, 13, 21, 22, 23, 14, 15, 16, 24, 25, 26));
}

static void test_scalar_and_empty(void **state)
{
    (void)state;
    tensor a, b, y;
    floats(&a, OPF_DOUBLE, SCALAR, F(3));
    floats(&b, OPF_DOUBLE, SCALAR, F(4));
    shape(&y, OPF_DOUBLE, SCALAR);
    RUN_OK(Mul, NULL, y, T(a), T(b));
    expect_floats(&y, F(12));
    ints(&a, OPF_INT32, DIMS(0, 3), I(0));
    ints(&b, OPF_INT32, DIMS(1), I(0));
    shape(&y, OPF_INT32, DIMS(0, 3));
    RUN_OK(Div, NULL, y, T(a), T(b)); /* nothing is divided, so nothing fails */
    RUN_OK(Max, NULL, y, T(a), T(b));
}

static void test_strides(void **state)
{
    (void)state;
    tensor a, b, y;
    floats(&a, OPF_FLOAT, DIMS(2, 3), F(1, 2, 3, 4, 5, 6));
    a.view.data       = (float *)a.view.data + 5; /* read backwards, */
    a.view.strides[0] = -3;
    a.view.strides[1] = -1;
    floats(&b, OPF_FLOAT, DIMS(2, 3), F(10, 20, 30, 40, 50, 60));
    b.view.strides[0] = 1; /* column by column, */
    b.view.strides[1] = 2;
    shape(&y, OPF_FLOAT, DIMS(2, 3));
    y.view.strides[0] = 1; /* and written so */
    y.view.strides[1] = 2;
    RUN_OK(Sub, NULL, y, T(b), T(a));
    expect_floats(&y, F(10 - 6, 20 - 3, 30 - 5, 40 - 2, 50 - 4, 60 - 1));
    RUN_OK(Neg, NULL, y, T(a));
    expect_floats(&y, F(-6, -3, -5, -2, -4, -1));
}

/* ---- numbers ---- */

static void test_integers(void **state)
{
    (void)state;
    tensor a, b, y;
    ints(&a, OPF_INT8, DIMS(4), I(127, -128, -7, 7));
    ints(&b, OPF_INT8, DIMS(4), I(1, -1, 2, -2));
    shape(&y, OPF_INT8, DIMS(4));
    RUN_OK(Add, NULL, y, T(a), T(b));
    expect_ints(&y, I(-128, 127, -5, 5));
    RUN_OK(Div, NULL, y, T(a), T(b));
    expect_ints(&y, I(127, -128, -3, -3));
    RUN_OK(Mod, NULL, y, T(a), T(b));
    expect_ints(&y, I(0, 0, 1, -1));
    const opf_attr fmod_1 = {.name = "fmod", .type = OPF_ATTR_INT, .i = 1};
    RUN_OK(Mod, &fmod_1, y, T(a), T(b));
    expect_ints(&y, I(0, 0, -1, 1));
    RUN_OK(Abs, NULL, y, T(a));
    expect_ints(&y, I(127, -128, 7, 7));
    RUN_OK(Sign, NULL, y, T(a));
    expect_ints(&y, I(1, -1, -1, 1));

    ints(&a, OPF_INT64, DIMS(3), I(INT64_MIN, INT64_MAX, (1LL << 53) + 1));
    ints(&b, OPF_INT64, DIMS(3), I(-1, 2, 1));
    shape(&y, OPF_INT64, DIMS(3));
    RUN_OK(Div, NULL, y, T(a), T(b));
    expect_ints(&y, I(INT64_MIN, INT64_MAX / 2, (1LL << 53) + 1));
    RUN_OK(Mul, NULL, y, T(a), T(b));
    expect_ints(&y, I(INT64_MIN, -2, (1LL << 53) + 1));

    ints(&a, OPF_UINT64, DIMS(2), I(-1, 5));
    ints(&b, OPF_UINT64, DIMS(2), I(2, -1));
    shape(&y, OPF_UINT64, DIMS(2));
    RUN_OK(Div, NULL, y, T(a), T(b));
    expect_ints(&y, I(INT64_MAX, 0));
    RUN_OK(Max, NULL, y, T(a), T(b));
    expect_ints(&y, I(-1, -1));
    assert_int_equal(RUN(Clip, NULL, y, T(a), NULL, T(b)), OPF_INVALID_INPUT); /* two bounds */
    ints(&b, OPF_UINT64, SCALAR, I(INT64_MIN));
    RUN_OK(Clip, NULL, y, T(a), T(b));
    expect_ints(&y, I(-1, INT64_MIN));
}

static void test_zero_divisor(void **state)
{
    (void)state;
    tensor a, b, y;
    ints(&a, OPF_INT32, DIMS(2), I(6, 7));
    ints(&b, OPF_INT32, DIMS(2), I(3, 0));
    ints(&y, OPF_INT32, DIMS(2), I(42, 42));
    assert_int_equal(RUN(Div, NULL, y, T(a), T(b)), OPF_INVALID_INPUT);
    assert_int_equal(RUN(Mod, NULL, y, T(a), T(b)), OPF_INVALID_INPUT);
    expect_ints(&y, I(42, 42));
}

static void test_nan(void **state)
{
    (void)state;
    tensor       a, b, c, y;
    const double nan = (double)NAN, inf = HUGE_VAL;
    floats(&a, OPF_FLOAT, DIMS(4), F(nan, 1, -inf, -0.0));
    floats(&b, OPF_FLOAT, DIMS(4), F(1, nan, inf, 2));
    shape(&y, OPF_FLOAT, DIMS(4));
    RUN_OK(Min, NULL, y, T(a), T(b));
    expect_floats(&y, F(nan, nan, -inf, -0.0));
    RUN_OK(Max, NULL, y, T(b), T(a));
    expect_floats(&y, F(nan, nan, inf, 2));
    RUN_OK(Relu, NULL, y, T(a));
    expect_floats(&y, F(nan, 1, 0, -0.0));
    floats(&c, OPF_FLOAT, SCALAR, F(0.5));
    RUN_OK(Clip, NULL, y, T(a), NULL, T(c));
    expect_floats(&y, F(nan, 0.5, -inf, -0.0));
    floats(&b, OPF_FLOAT, SCALAR, F(3));
    RUN_OK(Clip, NULL, y, T(a), T(b), T(c)); /* min above max gives max */
    expect_floats(&y, F(nan, 0.5, 0.5, 0.5));
    shape(&y, OPF_BOOL, DIMS(4));
    RUN_OK(Equal, NULL, y, T(a), T(a));
    expect_ints(&y, I(0, 1, 1, 1));
}

static void test_float_mod(void **state)
{
    (void)state;
    tensor       a, b, y;
    const double nan = (double)NAN, inf = HUGE_VAL;
    floats(&a, OPF_FLOAT, DIMS(7), F(-4.5, 4.5, 0, -1, inf, 3, -1));
    floats(&b, OPF_FLOAT, DIMS(7), F(2, -2, -3, inf, 2, 0, -inf));
    shape(&y, OPF_FLOAT, DIMS(7));
    RUN_OK(Mod, NULL, y, T(a), T(b));
    expect_floats(&y, F(1.5, -1.5, -0.0, inf, nan, nan, -1));
    const opf_attr fmod_1 = {.name = "fmod", .type = OPF_ATTR_INT, .i = 1};
    RUN_OK(Mod, &fmod_1, y, T(a), T(b));
    expect_floats(&y, F(-0.5, 0.5, 0, -1, nan, nan, -1));
}

static void test_round(void **state)
{
    (void)state;
    tensor a, y;
    floats(&a, OPF_DOUBLE, DIMS(9), F(0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.49999999999999994, 4503599627370497.5, -HUGE_VAL));
    shape(&y, OPF_DOUBLE, DIMS(9));
    RUN_OK(Round, NULL, y, T(a));
    expect_floats(&y, F(0, 2, 2, -0.0, -2, -2, 0, 4503599627370498.0, -HUGE_VAL));
}

static void test_half(void **state)
{
    (void)state;
    tensor a, b, c, y;
    floats(&a, OPF_FLOAT16, DIMS(3), F(2048, 65504, 0x1p-24));
    floats(&b, OPF_FLOAT16, DIMS(3), F(1, 32, 0x1p-24));
    floats(&c, OPF_FLOAT16, DIMS(3), F(1, -32, 0));
    shape(&y, OPF_FLOAT16, DIMS(3));
    RUN_OK(Add, NULL, y, T(a), T(b));
    expect_floats(&y, F(2048, HUGE_VAL, 0x1p-23)); /* 2049 is a tie, to even */
    RUN_OK(Sum, NULL, y, T(a), T(b), T(c));
    expect_floats(&y, F(2050, 65504, 0x1p-23)); /* rounded once, at the end */
    RUN_OK(Mean, NULL, y, T(b));
    expect_floats(&y, F(1, 32, 0x1p-24));
}

static void test_pow(void **state)
{
    (void)state;
    tensor a, b, y;
    ints(&a, OPF_INT64, DIMS(5), I(3, -2, 0, -1, 2));
    floats(&b, OPF_FLOAT, DIMS(5), F(39, 3, 0, -3, 0.5));
    shape(&y, OPF_INT64, DIMS(5));
    RUN_OK(Pow, NULL, y, T(a), T(b));
    expect_ints(&y, I(4052555153018976267, -8, 1, -1, 1));
    /* What does not fit is the cast of it, but between integers it wraps. */
    floats(&b, OPF_FLOAT, DIMS(5), F(41, 64, -1, HUGE_VAL, 63));
    RUN_OK(Pow, NULL, y, T(a), T(b));
    expect_ints(&y, I(INT64_MIN, INT64_MIN, INT64_MIN, 1, INT64_MIN));
    ints(&b, OPF_INT32, DIMS(5), I(41, 64, -1, -4, 62));
    RUN_OK(Pow, NULL, y, T(a), T(b));
    expect_ints(&y, I(-420491770248316829, 0, INT64_MIN, 1, (int64_t)1 << 62));
    floats(&a, OPF_FLOAT, DIMS(2), F(2, -8));
    ints(&b, OPF_UINT8, DIMS(1), I(3));
    shape(&y, OPF_FLOAT, DIMS(2));
    RUN_OK(Pow, NULL, y, T(a), T(b));
    expect_floats(&y, F(8, -512));
}

/* ---- casts and selection ---- */

static void cast(const tensor *a, tensor *y, opf_type to)
{
    shape(y, to, a->view.rank, a->view.dims);
    RUN_OK(Cast, NULL, *y, T(*a));
}

/* From integers; test_narrow.c has those from floats. */
static void test_cast(void **state)
{
    (void)state;
    tensor a, y;
    ints(&a, OPF_INT64, DIMS(4), I(0x7fffff4000000001, 258, -1, INT64_MIN));
    cast(&a, &y, OPF_FLOAT); /* through a double this would be a tie, and round down */
    expect_floats(&y, F(0x1.fffffep62, 258, -1, -0x1p63));
    cast(&a, &y, OPF_UINT8);
    expect_ints(&y, I(1, 2, 255, 0));
    ints(&a, OPF_UINT64, DIMS(2), I(-1, 3));
    cast(&a, &y, OPF_DOUBLE);
    expect_floats(&y, F(0x1p64, 3));
    cast(&a, &y, OPF_BFLOAT16);
    expect_floats(&y, F(0x1p64, 3));
    ints(&a, OPF_INT64, DIMS(2), I(0x0101000000000001, -0x0101000000000001)); /* just above a tie of bfloat16 */
    cast(&a, &y, OPF_BFLOAT16);
    expect_floats(&y, F(0x1.02p56, -0x1.02p56));
}

static void test_where(void **state)
{
    (void)state;
    tensor c, a, b, y;
    ints(&c, OPF_BOOL, DIMS(2, 1), I(1, 0));
    ints(&a, OPF_INT16, DIMS(3), I(1, 2, 3));
    ints(&b, OPF_INT16, SCALAR, I(-9));
    shape(&y, OPF_INT16, DIMS(2, 3));
    RUN_OK(Where, NULL, y, T(c), T(a), T(b));
    expect_ints(&y, I(1, 2, 3, -9, -9, -9));
}

static void test_activations(void **state)
{
    (void)state;
    tensor         a, b, y;
    const opf_attr alpha = {.name = "alpha", .type = OPF_ATTR_FLOAT, .f = 0.5f};
    floats(&a, OPF_FLOAT, DIMS(3), F(-1000, 0, 1000));
    shape(&y, OPF_FLOAT, DIMS(3));
    RUN_OK(Sigmoid, NULL, y, T(a));
    expect_floats(&y, F(0, 0.5, 1));
    RUN_OK(Softplus, NULL, y, T(a));
    expect_floats(&y, F(0, (double)logf(2), 1000));
    RUN_OK(LeakyRelu, &alpha, y, T(a));
    expect_floats(&y, F(-500, 0, 1000));
    RUN_OK(Elu, &alpha, y, T(a));
    expect_floats(&y, F(-0.5, 0, 1000));
    RUN_OK(HardSwish, NULL, y, T(a));
    expect_floats(&y, F(-0.0, 0, 1000));
    floats(&b, OPF_FLOAT, DIMS(1), F(0.25));
    RUN_OK(PRelu, NULL, y, T(a), T(b));
    expect_floats(&y, F(-250, 0, 1000));
    floats(&a, OPF_FLOAT, DIMS(3), F(-1, 1, 3));
    RUN_OK(Gelu, NULL, y, T(a));
    expect_floats(&y, F((double)-0.158655254f, (double)0.841344746f, (double)2.99595031f));
}

/* ---- the table ---- */

static void test_find(void **state)
{
    (void)state;
    uint32_t             n;
    const opf_op *const *all = opf_all_operators(&n);
    for (uint32_t i = 0; i < n; i++) {
        assert_ptr_equal(opf_find_operator(all[i]->domain, all[i]->name), all[i]);
        assert_true(i == 0 || strcmp(all[i - 1]->name, all[i]->name) <= 0);
    }
    assert_ptr_equal(opf_find_operator("ai.onnx", "Add"), &opf_op_Add);
    assert_null(opf_find_operator("com.example", "Add"));
    assert_null(opf_find_operator("", "Addd"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_broadcast),   cmocka_unit_test(test_scalar_and_empty),
        cmocka_unit_test(test_strides),     cmocka_unit_test(test_integers),
        cmocka_unit_test(test_zero_divisor), cmocka_unit_test(test_nan),
        cmocka_unit_test(test_float_mod),   cmocka_unit_test(test_round),
        cmocka_unit_test(test_half),        cmocka_unit_test(test_pow),
        cmocka_unit_test(test_cast),        cmocka_unit_test(test_where),
        cmocka_unit_test(test_activations), cmocka_unit_test(test_find),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
