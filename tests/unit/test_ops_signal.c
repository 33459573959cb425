/* SPDX-License-Identifier: Apache-2.0 */
/* Operators of signals, attention, bits, losses and random numbers: inference and reference kernel together, on one node. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "ops/infer.h"
#include "ops/reference.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 256, MAX_IN = 8, MAX_OUT = 4, MAX_ATTRS = 8 };

typedef struct {
    opf_view view;
    char     data[ROOM * 8];
    bool     is_absent;
} tensor;

typedef struct {
    opf_heap       heap;
    opf_arena      arena;
    opf_dims      *dims;
    opf_const_pool consts;
    opf_graph     *graph;
    opf_node_id    node;
    opf_error      error;
    tensor         in[MAX_IN], out[MAX_OUT];
    uint32_t       n_in, n_out;
} fixture;

static fixture f;

static void begin(void)
{
    opf_heap_init(&f.heap, NULL, 0);
    opf_arena_init(&f.arena, &f.heap);
    f.dims   = opf_dims_create(&f.arena);
    f.consts = (opf_const_pool){.arena = &f.arena};
    f.graph  = opf_graph_create(&f.arena, f.dims, &f.consts, "test");
    f.n_in   = 0;
    assert_non_null(f.graph);
}

static void end(void)
{
    opf_arena_fini(&f.arena);
    assert_int_equal(f.heap.used, 0);
}

/* ---- inputs ---- */

static tensor *shape(tensor *t, opf_type type, int32_t rank, const int64_t *dims)
{
    memset(t, 0, sizeof *t);
    t->view = (opf_view){.type = type, .rank = rank, .data = t->data};
    for (int32_t i = 0; i < rank; i++)
        t->view.dims[i] = dims[i];
    opf_view_set_dense(&t->view);
    assert_true(opf_view_count(&t->view) <= ROOM);
    return t;
}

#define DIMS(...) (int32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]){__VA_ARGS__}
#define SCALAR    0, NULL
#define LIST(...) (const double[]){__VA_ARGS__}

static tensor *add(opf_type type, int32_t rank, const int64_t *dims, const double *x)
{
    tensor *t = shape(&f.in[f.n_in++], type, rank, dims);
    for (size_t i = 0; x != NULL && i < opf_view_count(&t->view); i++) {
        if (opf_types_have(OPF_TYPES_FLOAT, type))
            opf_store_f64(type, t->data, i, x[i]);
        else
            opf_store_i64(type, t->data, i, (int64_t)x[i]);
    }
    return t;
}

/* Elements 0.25, 0.5, … in a pattern without symmetry. */
static tensor *add_pattern(opf_type type, int32_t rank, const int64_t *dims)
{
    tensor *t = add(type, rank, dims, NULL);
    for (size_t i = 0; i < opf_view_count(&t->view); i++)
        opf_store_f64(type, t->data, i, 0.25 * (double)(i * i % 11) - 1);
    return t;
}

static void add_nothing(void)
{
    f.in[f.n_in++].is_absent = true;
}

static opf_attr int_attr(const char *name, int64_t i)
{
    return (opf_attr){.name = name, .type = OPF_ATTR_INT, .i = i};
}
static opf_attr float_attr(const char *name, float x)
{
    return (opf_attr){.name = name, .type = OPF_ATTR_FLOAT, .f = x};
}
static opf_attr string_attr(const char *name, const char *s)
{
    return (opf_attr){.name = name, .type = OPF_ATTR_STRING, .s = s, .n = (uint32_t)strlen(s)};
}

/* ---- running ---- */

static void set_info(opf_info *info, const tensor *t)
{
    const size_t count = opf_view_count(&t->view);
    *info = (opf_info){.type = t->view.type, .rank = t->view.rank, .n_values = -1};
    info->dims = OPF_NEW(&f.arena, opf_dim, t->view.rank);
    for (int32_t i = 0; i < t->view.rank; i++)
        info->dims[i] = opf_dim_number(t->view.dims[i]);
    if (!opf_types_have(OPF_TYPES_INT, t->view.type))
        return;
    info->n_values = (int32_t)count;
    info->values   = OPF_NEW(&f.arena, opf_dim, count);
    for (size_t i = 0; i < count; i++)
        info->values[i] = opf_dim_number(opf_load_i64(t->view.type, t->view.data, i));
}

static opf_status run_node(const opf_op *op, uint32_t n_out, uint32_t n_attrs, const opf_attr *attrs)
{
    opf_value_id inputs[MAX_IN], outputs[MAX_OUT];
    opf_view     in[MAX_IN], out[MAX_OUT];
    f.n_out = n_out;
    for (uint32_t i = 0; i < f.n_in; i++) {
        inputs[i] = 0;
        in[i]     = f.in[i].is_absent ? (opf_view){0} : f.in[i].view;
        if (f.in[i].is_absent)
            continue;
        inputs[i] = opf_graph_add_value(f.graph, NULL);
        set_info(&opf_graph_value(f.graph, inputs[i])->info, &f.in[i]);
        assert_true(opf_graph_add_input(f.graph, inputs[i]));
    }
    for (uint32_t o = 0; o < n_out; o++)
        outputs[o] = opf_graph_add_value(f.graph, NULL);
    f.node = opf_graph_add_node(f.graph, op, op->name, "n", inputs, f.n_in, outputs, n_out);
    for (uint32_t a = 0; a < n_attrs; a++)
        assert_true(opf_node_set_attr(f.graph, f.node, attrs[a]));
    OPF_TRY(opf_infer_update(f.graph, f.node, &f.error));
    for (uint32_t o = 0; o < n_out; o++) {
        const opf_info *info = &opf_graph_value(f.graph, outputs[o])->info;
        int64_t         dims[OPF_MAX_RANK];
        assert_true(info->rank >= 0);
        for (int32_t i = 0; i < info->rank; i++) {
            assert_true(opf_dim_is_number(info->dims[i]));
            dims[i] = info->dims[i].n;
        }
        out[o] = shape(&f.out[o], info->type, info->rank, dims)->view;
    }
    const opf_node *node = opf_graph_node(f.graph, f.node);
    opf_call        call = {.node = node, .attrs = node->attrs, .n_attrs = node->n_attrs, .in = in, .n_in = f.n_in, .out = out,
                            .n_out = n_out, .heap = &f.heap};
    const size_t    used = f.heap.used;
    opf_status      status = op->reference(&call, &f.error);
    assert_int_equal(f.heap.used, used);
    return status;
}

#define RUN(op, n_out, ...)                                                                                            \
    run_node(&opf_op_##op, n_out, (uint32_t)(sizeof((opf_attr[]){__VA_ARGS__}) / sizeof(opf_attr)), (opf_attr[]){__VA_ARGS__})
#define RUN_OK(op, n_out, ...)                                                                                         \
    do {                                                                                                               \
        if (RUN(op, n_out, __VA_ARGS__) != OPF_OK)                                                                     \
            fail_msg("%s", f.error.message);                                                                           \
    } while (0)
#define NONE int_attr("unused", 0)
/* Runs, must fail with this status and a message that holds `part`. */
#define REFUSE(op, n_out, status, part, ...)                                                                           \
    do {                                                                                                               \
        assert_int_equal(RUN(op, n_out, __VA_ARGS__), status);                                                         \
        if (strstr(f.error.message, part) == NULL)                                                                     \
            fail_msg("\"%s\" does not hold \"%s\"", f.error.message, part);                                            \
        end();                                                                                                         \
    } while (0)

static double at(uint32_t o, size_t i)
{
    const opf_view *v = &f.out[o].view;
    return opf_types_have(OPF_TYPES_FLOAT, v->type) ? opf_load_f64(v->type, v->data, i) : (double)opf_load_i64(v->type, v->data, i);
}

static void expect_shape(uint32_t o, int32_t rank, const int64_t *dims)
{
    assert_int_equal(f.out[o].view.rank, rank);
    for (int32_t i = 0; i < rank; i++)
        assert_int_equal(f.out[o].view.dims[i], dims[i]);
}

static void expect(uint32_t o, int32_t rank, const int64_t *dims, const double *x, double tolerance)
{
    expect_shape(o, rank, dims);
    for (size_t i = 0; i < opf_view_count(&f.out[o].view); i++)
        if (!(fabs(at(o, i) - x[i]) <= tolerance) && !(at(o, i) == x[i]) && !(isnan(at(o, i)) && isnan(x[i])))
            fail_msg("element %zu of output %u is %.17g, must be %.17g", i, o, at(o, i), x[i]);
}

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
        cmocka_unit_test(test_domains),          cmocka_unit_test(test_classes),          cmocka_unit_test(test_shift),
        cmocka_unit_test(test_bitwise),          cmocka_unit_test(test_dft_lengths),      cmocka_unit_test(test_dft_onesided),
        cmocka_unit_test(test_dft_axis),         cmocka_unit_test(test_dft_refused),      cmocka_unit_test(test_stft),
        cmocka_unit_test(test_windows),          cmocka_unit_test(test_mel),              cmocka_unit_test(test_attention),
        cmocka_unit_test(test_attention_masks),  cmocka_unit_test(test_attention_past),   cmocka_unit_test(test_attention_softcap),
        cmocka_unit_test(test_attention_refused), cmocka_unit_test(test_rotary),          cmocka_unit_test(test_swiglu),
        cmocka_unit_test(test_linear_attention), cmocka_unit_test(test_causal_conv),      cmocka_unit_test(test_losses),
        cmocka_unit_test(test_random),           cmocka_unit_test(test_draws),            cmocka_unit_test(test_dft_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
