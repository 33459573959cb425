/* SPDX-License-Identifier: Apache-2.0 */
/* Corners of recurrent, quantized, transposed and normalising layers that the ONNX cases leave out. */
#include "one_node.h"

static opf_attr ints_attr(const char *name, uint32_t n, const int64_t *ints)
{
    return (opf_attr){.name = name, .type = OPF_ATTR_INTS, .n = n, .ints = ints};
}
#define INTS(...)                                                                                                      \
    (uint32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[])                                  \
    {                                                                                                                  \
        __VA_ARGS__                                                                                                    \
    }
static opf_attr strings_attr(const char *name, uint32_t n, const char *const *strings)
{
    return (opf_attr){.name = name, .type = OPF_ATTR_STRINGS, .n = n, .strings = strings};
}

/* The same elements twice as far apart, from the last one to the first. */
static void turn(tensor *t)
{
    const size_t size = opf_type_size(t->view.type), count = opf_view_count(&t->view);
    char         old[sizeof t->data];
    if (size == 0 || count == 0 || 2 * count > ROOM)
        return;
    memcpy(old, t->data, sizeof old);
    for (size_t i = 0; i < count; i++)
        memcpy(t->data + 2 * (count - 1 - i) * size, old + i * size, size);
    t->view.data = t->data + 2 * (count - 1) * size;
    for (int32_t i = 0; i < t->view.rank; i++)
        t->view.strides[i] *= -2;
}
static void turn_all(bool wanted)
{
    for (uint32_t i = 0; wanted && i < f.n_in; i++)
        if (!f.in[i].is_absent && !opf_types_have(OPF_TYPES_INT, f.in[i].view.type)) /* known values are read dense */
            turn(&f.in[i]);
}

static opf_status lower(const opf_op *op, int32_t opset)
{
    for (uint32_t r = op->n_rows; r > 0; r--)
        if (op->rows[r - 1].below > opset)
            OPF_TRY(op->rows[r - 1].lower(f.graph, f.node, opset, &f.error));
    return OPF_OK;
}

/* ---- recurrent ---- */

static const char *const affine[]  = {"Affine", "affine"};
static const char *const affines[] = {"Affine", "Affine", "Affine"};
static const float       ones[]    = {1, 1, 1};

/* h(t) = x(t) + h(t - 1): sums that tell where each step read and wrote. */
static void test_rnn_lengths(void **state)
{
    (void)state;
    for (int turned = 0; turned < 2; turned++) {
        begin();
        add(OPF_FLOAT, DIMS(3, 2, 1), LIST(1, 10, 2, 20, 4, 40));
        add(OPF_FLOAT, DIMS(2, 1, 1), LIST(1, 1));
        add(OPF_FLOAT, DIMS(2, 1, 1), LIST(1, 1));
        add_nothing();
        add(OPF_INT32, DIMS(2), LIST(3, 2));
        turn_all(turned != 0);
        RUN_OK(RNN, 2, strings_attr("activations", 2, affine), string_attr("direction", "bidirectional"));
        expect(0, DIMS(3, 2, 2, 1), LIST(1, 10, 7, 30, 3, 30, 6, 20, 7, 0, 4, 0), 0);
        expect(1, DIMS(2, 2, 1), LIST(7, 30, 7, 30), 0);
        end();
    }
}

static void test_rnn_layout(void **state)
{
    (void)state;
    begin();
    add(OPF_DOUBLE, DIMS(2, 2, 1), LIST(1, 2, 10, 20));
    add(OPF_DOUBLE, DIMS(1, 1, 1), LIST(1));
    add(OPF_DOUBLE, DIMS(1, 1, 1), LIST(1));
    add(OPF_DOUBLE, DIMS(1, 2), LIST(0.5, 0.25));
    add(OPF_INT32, DIMS(2), LIST(2, 0));
    add(OPF_DOUBLE, DIMS(2, 1, 1), LIST(100, 200));
    RUN_OK(RNN, 2, strings_attr("activations", 1, affine), int_attr("layout", 1), string_attr("direction", "reverse"));
    expect(0, DIMS(2, 2, 1, 1), LIST(104.5, 102.75, 0, 0), 0);
    expect(1, DIMS(2, 1, 1), LIST(104.5, 200), 0); /* nothing was read: the state stays */
    assert_int_equal(lower(&opf_op_RNN, 13), OPF_UNSUPPORTED);
    end();
}

static void test_lstm(void **state)
{
    (void)state;
    const opf_attr alpha = {.name = "activation_alpha", .type = OPF_ATTR_FLOATS, .n = 3, .floats = ones};
    begin(); /* gates i, o, f, c of 2, 3, 5, 7 by their biases; c = f*c0 + i*c, h = o*c */
    add(OPF_FLOAT, DIMS(1, 1, 1), LIST(0));
    add(OPF_FLOAT, DIMS(1, 4, 1), LIST(1, 1, 1, 1));
    add(OPF_FLOAT, DIMS(1, 4, 1), LIST(0, 0, 0, 0));
    add(OPF_FLOAT, DIMS(1, 8), LIST(2, 3, 5, 7, 0, 0, 0, 0));
    add_nothing();
    add_nothing();
    add(OPF_FLOAT, DIMS(1, 1, 1), LIST(10));
    add(OPF_FLOAT, DIMS(1, 3), LIST(1, 0.5, 2)); /* i = 12, f = 25, c = 250 + 84, o = 3 + 167 */
    RUN_OK(LSTM, 3, strings_attr("activations", 3, affines), alpha);
    expect(2, DIMS(1, 1, 1), LIST(334), 0);
    expect(1, DIMS(1, 1, 1), LIST(170.0 * 334), 0);
    end();
    begin(); /* f = 1 - i; gates clipped to 4 */
    add(OPF_FLOAT, DIMS(1, 1, 1), LIST(0));
    add(OPF_FLOAT, DIMS(1, 4, 1), LIST(1, 1, 1, 1));
    add(OPF_FLOAT, DIMS(1, 4, 1), LIST(0, 0, 0, 0));
    add(OPF_FLOAT, DIMS(1, 8), LIST(2, 3, 5, 7, 0, 0, 0, 0));
    add_nothing();
    add_nothing();
    add(OPF_FLOAT, DIMS(1, 1, 1), LIST(10));
    RUN_OK(LSTM, 3, strings_attr("activations", 3, affines), int_attr("input_forget", 1), float_attr("clip", 4));
    expect(2, DIMS(1, 1, 1), LIST(-10 + 8), 0);
    expect(1, DIMS(1, 1, 1), LIST(-6), 0);
    end();
}

static void test_gru_empty(void **state)
{
    (void)state;
    begin();
    add(OPF_FLOAT, DIMS(0, 2, 3), NULL);
    add_pattern(OPF_FLOAT, DIMS(1, 6, 3));
    add_pattern(OPF_FLOAT, DIMS(1, 6, 2));
    RUN_OK(GRU, 2, NONE);
    expect_shape(0, DIMS(0, 1, 2, 2));
    expect(1, DIMS(1, 2, 2), LIST(0, 0, 0, 0), 0);
    end();
}

static void test_recurrent_refusals(void **state)
{
    static const char *const unknown[] = {"Swish"};
    (void)state;
    for (int i = 0; i < 4; i++) {
        begin();
        add(OPF_FLOAT, DIMS(2, 1, 3), LIST(1, 2, 3, 4, 5, 6));
        add_pattern(OPF_FLOAT, DIMS(1, 4, i == 0 ? 2 : 3));
        add_pattern(OPF_FLOAT, DIMS(1, 4, 4));
        add_nothing();
        add(OPF_INT32, DIMS(1), LIST(3));
        if (i == 0)
            REFUSE(RNN, 2, OPF_INVALID_INPUT, "W float[1,4,2]: must be float[1,4,3]", NONE);
        else if (i == 1)
            REFUSE(RNN, 2, OPF_UNSUPPORTED, "\"Swish\"", strings_attr("activations", 1, unknown));
        else if (i == 2)
            REFUSE(RNN, 2, OPF_INVALID_MODEL, "direction is \"up\"", string_attr("direction", "up"));
        else
            REFUSE(RNN, 2, OPF_INVALID_INPUT, "sequence_lens[0] is 3, must be between 0 and 2", NONE);
    }
}

/* ---- quantized ---- */

static void test_quantize(void **state)
{
    (void)state;
    for (int turned = 0; turned < 2; turned++) {
        begin(); /* ties to even, then the zero point; saturated; NaN is the zero point */
        add(OPF_FLOAT, DIMS(7), LIST(0.5, 1.5, 2.5, -1.5, 1000, -INFINITY, NAN));
        add(OPF_FLOAT, SCALAR, LIST(1));
        add(OPF_UINT8, SCALAR, LIST(3));
        turn_all(turned != 0);
        RUN_OK(QuantizeLinear, 1, NONE);
        expect(0, DIMS(7), LIST(3, 5, 5, 1, 255, 0, 3), 0);
        end();
        begin(); /* a scale for each column, counted from the back */
        add(OPF_FLOAT16, DIMS(2, 3), LIST(1, 2, 3, 4, 5, 6));
        add(OPF_FLOAT16, DIMS(3), LIST(1, 2, 4));
        turn_all(turned != 0);
        RUN_OK(QuantizeLinear, 1, int_attr("axis", -1), int_attr("output_dtype", OPF_INT16));
        assert_int_equal(f.out[0].view.type, OPF_INT16);
        expect(0, DIMS(2, 3), LIST(1, 1, 1, 4, 2, 2), 0);
        assert_int_equal(lower(&opf_op_QuantizeLinear, 20), OPF_UNSUPPORTED);
        end();
    }
    begin(); /* the last block is shorter */
    add(OPF_FLOAT, DIMS(1, 5), LIST(1, 2, 3, 4, 6));
    add(OPF_FLOAT, DIMS(1, 3), LIST(1, 0.5, 2));
    add(OPF_INT4, DIMS(1, 3), LIST(0, 1, -8));
    RUN_OK(QuantizeLinear, 1, int_attr("block_size", 2));
    expect(0, DIMS(1, 5), LIST(1, 2, 7, 7, -5), 0);
    end();
    begin();
    add(OPF_INT32, SCALAR, LIST(7));
    add(OPF_FLOAT, DIMS(1), LIST(2));
    RUN_OK(QuantizeLinear, 1, int_attr("output_dtype", OPF_UINT2));
    expect(0, SCALAR, LIST(3), 0);
    end();
    begin();
    add(OPF_FLOAT, DIMS(2), LIST(1e9, -3));
    add(OPF_FLOAT, SCALAR, LIST(1));
    RUN_OK(QuantizeLinear, 1, int_attr("output_dtype", OPF_FLOAT8E5M2), int_attr("saturate", 0));
    expect(0, DIMS(2), LIST(INFINITY, -3), 0);
    end();
    begin();
    add(OPF_FLOAT, DIMS(0, 3), NULL);
    add(OPF_FLOAT, DIMS(3), LIST(1, 1, 1));
    RUN_OK(QuantizeLinear, 1, NONE);
    expect_shape(0, DIMS(0, 3));
    assert_int_equal(lower(&opf_op_QuantizeLinear, 13), OPF_OK);
    assert_int_equal(lower(&opf_op_QuantizeLinear, 12), OPF_UNSUPPORTED);
    end();
    begin();
    add(OPF_FLOAT, DIMS(2, 3), LIST(1, 1, 1, 1, 1, 1));
    add(OPF_FLOAT, DIMS(2), LIST(1, 1));
    REFUSE(QuantizeLinear, 1, OPF_INVALID_INPUT, "must have shape [3]", NONE);
    begin();
    add(OPF_FLOAT, DIMS(5), LIST(1, 1, 1, 1, 1));
    add(OPF_FLOAT, DIMS(2), LIST(1, 1));
    REFUSE(QuantizeLinear, 1, OPF_INVALID_INPUT, "must have size 3 along axis 0", int_attr("block_size", 2));
}

static void test_dequantize(void **state)
{
    (void)state;
    begin(); /* exact for the extremes of int32 */
    add(OPF_INT32, DIMS(2), LIST(INT32_MIN, INT32_MAX));
    add(OPF_FLOAT, SCALAR, LIST(1));
    RUN_OK(DequantizeLinear, 1, NONE);
    expect(0, DIMS(2), LIST(-0x1p31, 0x1p31), 0);
    end();
    begin();
    add(OPF_UINT2, DIMS(3), LIST(0, 3, 1));
    add(OPF_FLOAT8E8M0, SCALAR, LIST(0.25));
    add(OPF_UINT2, SCALAR, LIST(3));
    RUN_OK(DequantizeLinear, 1, NONE);
    assert_int_equal(f.out[0].view.type, OPF_FLOAT);
    expect(0, DIMS(3), LIST(-0.75, 0, -0.5), 0);
    end();
    begin();
    add(OPF_INT8, DIMS(4, 1), LIST(-128, 127, 1, 2));
    add(OPF_FLOAT, DIMS(2, 1), LIST(2, 3));
    RUN_OK(DequantizeLinear, 1, int_attr("axis", 0), int_attr("block_size", 2), int_attr("output_dtype", OPF_BFLOAT16));
    expect(0, DIMS(4, 1), LIST(-256, 254, 3, 6), 0);
    end();
}

static void test_dynamic_quantize(void **state)
{
    (void)state;
    begin();
    add(OPF_FLOAT, DIMS(0), NULL);
    RUN_OK(DynamicQuantizeLinear, 3, NONE);
    expect_shape(0, DIMS(0));
    expect(1, SCALAR, LIST(1), 0);
    expect(2, SCALAR, LIST(0), 0);
    end();
    begin();
    add(OPF_FLOAT, DIMS(2), LIST(-255, -51));
    RUN_OK(DynamicQuantizeLinear, 3, NONE);
    expect(0, DIMS(2), LIST(0, 204), 0);
    expect(2, SCALAR, LIST(255), 0);
    end();
}

static void test_integer_products(void **state)
{
    (void)state;
    begin(); /* zero points of rows and columns */
    add(OPF_UINT8, DIMS(2, 2), LIST(1, 2, 3, 4));
    add(OPF_INT8, DIMS(2, 3), LIST(-128, 0, 1, 127, 1, 2));
    add(OPF_UINT8, DIMS(2), LIST(1, 3));
    add(OPF_INT8, DIMS(3), LIST(0, 1, 2));
    RUN_OK(MatMulInteger, 1, NONE);
    expect(0, DIMS(2, 3), LIST(127, 0, 0, 127, 0, 0), 0);
    end();
    begin(); /* vectors */
    add(OPF_INT8, DIMS(2), LIST(2, 3));
    add(OPF_INT8, DIMS(2), LIST(5, 7));
    add(OPF_INT8, DIMS(1), LIST(1));
    RUN_OK(MatMulInteger, 1, NONE);
    expect(0, SCALAR, LIST(19), 0);
    end();
    begin(); /* nothing to sum */
    add(OPF_INT8, DIMS(2, 0), NULL);
    add(OPF_INT8, DIMS(0, 1), NULL);
    RUN_OK(MatMulInteger, 1, NONE);
    expect(0, DIMS(2, 1), LIST(0, 0), 0);
    end();
    begin(); /* 2.5 goes to 2 and not, with the odd zero point, to 4 - 1 */
    add(OPF_UINT8, DIMS(1, 1), LIST(5));
    add(OPF_FLOAT, SCALAR, LIST(1));
    add(OPF_UINT8, SCALAR, LIST(0));
    add(OPF_UINT8, DIMS(1, 2), LIST(1, 255));
    add(OPF_FLOAT, DIMS(2), LIST(1, 1));
    add(OPF_UINT8, SCALAR, LIST(0));
    add(OPF_FLOAT, SCALAR, LIST(2));
    add(OPF_INT8, SCALAR, LIST(1));
    RUN_OK(QLinearMatMul, 1, NONE);
    expect(0, DIMS(1, 2), LIST(3, 127), 0);
    end();
    begin(); /* pads are zero points */
    add(OPF_UINT8, DIMS(1, 1, 2), LIST(10, 20));
    add(OPF_UINT8, DIMS(1, 1, 3), LIST(1, 1, 1));
    add(OPF_UINT8, SCALAR, LIST(10));
    RUN_OK(ConvInteger, 1, ints_attr("pads", INTS(1, 1)));
    expect(0, DIMS(1, 1, 2), LIST(10, 10), 0);
    end();
    begin();
    add(OPF_UINT8, DIMS(2, 2), LIST(1, 2, 3, 4));
    add(OPF_UINT8, DIMS(2, 2), LIST(1, 2, 3, 4));
    add(OPF_UINT8, DIMS(3), LIST(1, 2, 3));
    REFUSE(MatMulInteger, 1, OPF_INVALID_INPUT, "must have shape [2]", NONE);
}

/* ---- transposed ---- */

static void test_conv_transpose(void **state)
{
    (void)state;
    for (int turned = 0; turned < 2; turned++) {
        begin();
        add(OPF_FLOAT, DIMS(1, 2, 2), LIST(1, 2, 10, 20));
        add(OPF_FLOAT, DIMS(2, 1, 3), LIST(1, 2, 3, 4, 5, 6));
        add(OPF_FLOAT, DIMS(2), LIST(0.5, 0.25));
        turn_all(turned != 0);
        RUN_OK(ConvTranspose, 1, int_attr("group", 2), ints_attr("strides", INTS(2)), ints_attr("pads", INTS(1, 0)),
               ints_attr("output_padding", INTS(1)));
        expect(0, DIMS(1, 2, 5), LIST(2.5, 5.5, 4.5, 6.5, 0.5, 50.25, 140.25, 100.25, 120.25, 0.25), 0);
        end();
    }
    begin(); /* more than what is covered ends in zeros */
    add(OPF_FLOAT, DIMS(1, 1, 1), LIST(2));
    add(OPF_FLOAT, DIMS(1, 1, 2), LIST(3, 4));
    RUN_OK(ConvTranspose, 1, ints_attr("output_shape", INTS(4)));
    expect(0, DIMS(1, 1, 4), LIST(6, 8, 0, 0), 0);
    end();
    begin(); /* no channels: the bias alone */
    add(OPF_FLOAT, DIMS(1, 0, 2), NULL);
    add(OPF_FLOAT, DIMS(0, 1, 1), NULL);
    add(OPF_FLOAT, DIMS(1), LIST(7));
    RUN_OK(ConvTranspose, 1, NONE);
    expect(0, DIMS(1, 1, 2), LIST(7, 7), 0);
    end();
    begin();
    add(OPF_FLOAT, DIMS(0, 1, 2), NULL);
    add(OPF_FLOAT, DIMS(1, 1, 1), LIST(1));
    RUN_OK(ConvTranspose, 1, NONE);
    expect_shape(0, DIMS(0, 1, 2));
    end();
    begin();
    add(OPF_FLOAT, DIMS(1, 2, 2), LIST(1, 2, 3, 4));
    add(OPF_FLOAT, DIMS(1, 1, 1), LIST(1));
    REFUSE(ConvTranspose, 1, OPF_INVALID_INPUT, "X float[1,2,2] and W float[1,1,1]", NONE);
}

static void test_col2im(void **state)
{
    (void)state;
    begin(); /* exact and wrapping in integers */
    add(OPF_INT64, DIMS(1, 2, 2), LIST(1, 2, 4, 8));
    add(OPF_INT64, DIMS(1), LIST(3));
    add(OPF_INT64, DIMS(1), LIST(2));
    opf_store_i64(OPF_INT64, f.in[0].data, 1, INT64_MAX);
    opf_store_i64(OPF_INT64, f.in[0].data, 2, 1);
    RUN_OK(Col2Im, 1, NONE);
    expect_shape(0, DIMS(1, 1, 3));
    assert_true(opf_load_i64(OPF_INT64, f.out[0].data, 1) == INT64_MIN);
    end();
    begin();
    add(OPF_FLOAT, DIMS(1, 3, 2), LIST(1, 2, 3, 4, 5, 6));
    add(OPF_INT64, DIMS(1), LIST(3));
    add(OPF_INT64, DIMS(1), LIST(2));
    REFUSE(Col2Im, 1, OPF_INVALID_INPUT, "no multiple of the 2 elements", NONE);
}

static void test_max_unpool(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        begin();
        add(OPF_FLOAT, DIMS(1, 1, 2), LIST(5, 6));
        add(OPF_INT64, DIMS(1, 1, 2), i == 0 ? LIST(1, 3) : LIST(1, 4));
        add(OPF_INT64, DIMS(3), LIST(1, 1, 6));
        if (i == 0) {
            RUN_OK(MaxUnpool, 1, ints_attr("kernel_shape", INTS(2)), ints_attr("strides", INTS(2)));
            expect(0, DIMS(1, 1, 6), LIST(0, 5, 0, 6, 0, 0), 0);
            end();
        } else {
            REFUSE(MaxUnpool, 1, OPF_INVALID_INPUT, "index 4 lies outside", ints_attr("kernel_shape", INTS(2)),
                   ints_attr("strides", INTS(2)));
        }
    }
}

static void test_deform_conv(void **state)
{
    (void)state;
    begin(); /* beside the image is zero, half way is the mean; NaN is beside it */
    add(OPF_FLOAT, DIMS(1, 1, 3), LIST(1, 2, 4));
    add(OPF_FLOAT, DIMS(1, 1, 1), LIST(10));
    add(OPF_FLOAT, DIMS(1, 1, 3), LIST(-0.5, 0.5, NAN));
    add_nothing();
    add(OPF_FLOAT, DIMS(1, 1, 3), LIST(1, 2, 1));
    RUN_OK(DeformConv, 1, NONE);
    expect(0, DIMS(1, 1, 3), LIST(5, 60, 0), 0);
    end();
    begin();
    add(OPF_FLOAT, DIMS(1, 1, 3), LIST(1, 2, 4));
    add(OPF_FLOAT, DIMS(1, 1, 1), LIST(10));
    add(OPF_FLOAT, DIMS(1, 2, 3), NULL);
    REFUSE(DeformConv, 1, OPF_INVALID_INPUT, "must have 1 channels", NONE);
}

/* ---- normalising ---- */

static void test_normalizations(void **state)
{
    (void)state;
    begin();
    add(OPF_FLOAT, DIMS(2, 2), LIST(3, 0, 4, 0));
    RUN_OK(LpNormalization, 1, int_attr("axis", 0));
    expect(0, DIMS(2, 2), LIST((double)0.6f, 0, (double)0.8f, 0), 1e-7);
    end();
    /* With the guards that rules give it. */
    static const struct {
        const char *guard;
        float       epsilon;
        double      length, of_zeros;
    } guards[] = {{"max", 2, 5, 0}, {"max", 8, 8, 0}, {"add", 5, 10, 0}, {"add", 0, 5, (double)NAN}, {"inside", 11, 6, 0}};
    for (size_t i = 0; i < sizeof guards / sizeof *guards; i++) {
        begin();
        add(OPF_DOUBLE, DIMS(2, 2), LIST(3, 0, 4, 0));
        RUN_OK(LpNormalization, 1, int_attr("axis", 0), string_attr("guard", guards[i].guard), float_attr("epsilon", guards[i].epsilon));
        expect(0, DIMS(2, 2), LIST(3 / guards[i].length, guards[i].of_zeros, 4 / guards[i].length, guards[i].of_zeros), 1e-15);
        end();
    }
    begin();
    add(OPF_DOUBLE, DIMS(1, 4, 1), LIST(1, 3, 10, 10));
    add(OPF_DOUBLE, DIMS(4), LIST(1, 2, 1, 1));
    add(OPF_DOUBLE, DIMS(4), LIST(0, 0, 5, 6));
    RUN_OK(GroupNormalization, 1, int_attr("num_groups", 2), float_attr("epsilon", 0));
    expect(0, DIMS(1, 4, 1), LIST(-1, 2, NAN, NAN), 1e-15);
    assert_int_equal(lower(&opf_op_GroupNormalization, 20), OPF_OK);
    end();
    begin();
    add(OPF_FLOAT, DIMS(1, 3, 1), LIST(1, 3, 10));
    add(OPF_FLOAT, DIMS(3), LIST(1, 2, 1));
    add(OPF_FLOAT, DIMS(3), LIST(0, 0, 5));
    REFUSE(GroupNormalization, 1, OPF_INVALID_INPUT, "3 channels do not divide into 2", int_attr("num_groups", 2));
    begin();
    add(OPF_FLOAT, DIMS(2, 0, 3), NULL);
    add(OPF_FLOAT, DIMS(0), NULL);
    add(OPF_FLOAT, DIMS(0), NULL);
    RUN_OK(InstanceNormalization, 1, NONE);
    expect_shape(0, DIMS(2, 0, 3));
    end();
    begin();
    add(OPF_DOUBLE, DIMS(2, 2), LIST(1, 3, 5, 9));
    RUN_OK(MeanVarianceNormalization, 1, ints_attr("axes", INTS(-1)));
    expect(0, DIMS(2, 2), LIST(-1, 1, -1, 1), 1e-8);
    end();
    begin();
    add(OPF_DOUBLE, DIMS(1, 3), LIST(1, 2, 3));
    RUN_OK(LRN, 1, int_attr("size", 2), float_attr("alpha", 2), float_attr("beta", 1), float_attr("bias", 0));
    expect(0, DIMS(1, 3), LIST(1.0 / 5, 2.0 / 13, 3.0 / 9), 1e-15);
    end();
    begin();
    add(OPF_FLOAT, DIMS(2, 3), LIST(1, 2, 2, 0, NAN, 5));
    RUN_OK(Hardmax, 1, NONE);
    expect(0, DIMS(2, 3), LIST(0, 1, 0, 0, 1, 0), 0);
    end();
    begin();
    add(OPF_FLOAT, DIMS(2, 0), NULL);
    RUN_OK(Hardmax, 1, NONE);
    expect_shape(0, DIMS(2, 0));
    end();
    begin();
    add(OPF_FLOAT, DIMS(1, 1, 2), LIST(-3, 4));
    RUN_OK(GlobalLpPool, 1, NONE);
    expect(0, DIMS(1, 1, 1), LIST(5), 0);
    end();
    begin();
    add(OPF_FLOAT, DIMS(1, 1, 2), LIST(-3, 4));
    REFUSE(LpPool, 1, OPF_INVALID_MODEL, "p is 0", ints_attr("kernel_shape", INTS(1)), int_attr("p", 0));
}

static void reduce(const opf_op *op, opf_type type, int64_t n, const double *x, double y)
{
    begin();
    add(type, 1, &n, x);
    if (run_node(op, 1, 1, (opf_attr[]){int_attr("keepdims", 0)}) != OPF_OK)
        fail_msg("%s", f.error.message);
    expect(0, SCALAR, &y, 1e-12);
    end();
}

static void test_reductions(void **state)
{
    (void)state;
    reduce(&opf_op_ReduceProd, OPF_FLOAT, 0, NULL, 1);
    reduce(&opf_op_ReduceProd, OPF_INT32, 2, LIST(65536, 65537), 65536); /* wraps */
    reduce(&opf_op_ReduceSumSquare, OPF_INT32, 2, LIST(-3, 4), 25);
    reduce(&opf_op_ReduceL1, OPF_INT32, 2, LIST(INT32_MIN, 0), INT32_MIN); /* wraps */
    reduce(&opf_op_ReduceL1, OPF_UINT32, 2, LIST(UINT32_MAX, 0), UINT32_MAX);
    reduce(&opf_op_ReduceL2, OPF_INT64, 2, LIST(-3, 4), 5);
    reduce(&opf_op_ReduceL2, OPF_DOUBLE, 2, LIST(INFINITY, 4), INFINITY);
    reduce(&opf_op_ReduceLogSum, OPF_FLOAT, 0, NULL, -INFINITY);
    reduce(&opf_op_ReduceLogSumExp, OPF_FLOAT, 0, NULL, -INFINITY);
    reduce(&opf_op_ReduceLogSumExp, OPF_DOUBLE, 2, LIST(-INFINITY, -INFINITY), -INFINITY);
    reduce(&opf_op_ReduceLogSumExp, OPF_DOUBLE, 2, LIST(INFINITY, 1), INFINITY);
    reduce(&opf_op_ReduceLogSumExp, OPF_DOUBLE, 2, LIST(NAN, 1), NAN);
    reduce(&opf_op_ReduceLogSumExp, OPF_DOUBLE, 2, LIST(1000, 1000), 1000 + log(2));
    begin(); /* no reduction, but what is done to each element */
    add(OPF_FLOAT, DIMS(2), LIST(-3, 2));
    RUN_OK(ReduceL1, 1, int_attr("noop_with_empty_axes", 1));
    expect(0, DIMS(2), LIST(3, 2), 0);
    end();
}

static void test_shrink(void **state)
{
    (void)state;
    begin();
    add(OPF_INT8, DIMS(5), LIST(-128, -2, 0, 2, 127));
    RUN_OK(Shrink, 1, float_attr("lambd", 1.5f), float_attr("bias", 0.5f));
    expect(0, DIMS(5), LIST(-127, -1, 0, 1, 126), 0); /* truncated towards zero */
    end();
    begin();
    add(OPF_UINT64, DIMS(2), LIST(1, 3));
    opf_store_i64(OPF_UINT64, f.in[0].data, 0, -1);
    RUN_OK(Shrink, 1, float_attr("lambd", 0x1p63f), float_attr("bias", 1));
    assert_true((uint64_t)opf_load_i64(OPF_UINT64, f.out[0].data, 0) == UINT64_MAX - 1);
    assert_true(opf_load_i64(OPF_UINT64, f.out[0].data, 1) == 0);
    end();
    begin();
    add(OPF_FLOAT, SCALAR, LIST(NAN));
    RUN_OK(Shrink, 1, NONE);
    expect(0, SCALAR, LIST(NAN), 0);
    end();
    begin();
    add(OPF_DOUBLE, DIMS(3), LIST(-INFINITY, -1, 2));
    RUN_OK(Celu, 1, float_attr("alpha", 2));
    expect(0, DIMS(3), LIST(-2, 2 * expm1(-0.5), 2), 1e-15);
    assert_int_equal(lower(&opf_op_Celu, 27), OPF_UNSUPPORTED);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rnn_lengths),
        cmocka_unit_test(test_rnn_layout),
        cmocka_unit_test(test_lstm),
        cmocka_unit_test(test_gru_empty),
        cmocka_unit_test(test_recurrent_refusals),
        cmocka_unit_test(test_quantize),
        cmocka_unit_test(test_dequantize),
        cmocka_unit_test(test_dynamic_quantize),
        cmocka_unit_test(test_integer_products),
        cmocka_unit_test(test_conv_transpose),
        cmocka_unit_test(test_col2im),
        cmocka_unit_test(test_max_unpool),
        cmocka_unit_test(test_deform_conv),
        cmocka_unit_test(test_normalizations),
        cmocka_unit_test(test_reductions),
        cmocka_unit_test(test_shrink),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
