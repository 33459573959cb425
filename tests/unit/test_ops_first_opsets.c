/* SPDX-License-Identifier: Apache-2.0 */
/* The forms of opsets 1 to 5 that later opsets spell otherwise: their numbers, and the way back. */
#include "graph_case.h"

#define V(...)                                                                                                         \
    (const double[])                                                                                                   \
    {                                                                                                                  \
        __VA_ARGS__                                                                                                    \
    }

/* What input 0 of six elements is filled with. */
#define INPUT -0.75, 1, -0.5, 1.25, -0.25, 1.5

static const expectation cases[] = {
    {"Add along an axis",
     1,
     "g (float[2,3] x) => (float y) <float[2] b = {10, 20}> { y = Add<broadcast=1, axis=0>(x, b) }",
     {{2, {2, 3}, V(9.25, 11, 9.5, 21.25, 19.75, 21.5)}}},
    {"Sub of a suffix",
     5,
     "g (float[2,3] x) => (float y) <float[3] b = {10, 20, 30}> { y = Sub<broadcast=1>(x, b) }",
     {{2, {2, 3}, V(-10.75, -19, -30.5, -8.75, -20.25, -28.5)}}},
    {"Pow along an axis",
     1,
     "g (float[2,3] x) => (float y) <float[2] b = {2, 1}> { y = Pow<broadcast=1, axis=0>(x, b) }",
     {{2, {2, 3}, V(0.5625, 1, 0.25, 1.25, -0.25, 1.5)}}},
    {"And along an axis",
     1,
     "g () => (bool y) <bool[2,2] a = {1, 1, 0, 1}, bool[2] b = {1, 0}> { y = And<broadcast=1, axis=0>(a, b) }",
     {{2, {2, 2}, V(1, 1, 0, 0)}}},
    {"Less along an axis",
     1,
     "g (float[2,3] x) => (bool y) <float[2] b = {0, 2}> { y = Less<broadcast=1, axis=-2>(x, b) }",
     {{2, {2, 3}, V(1, 0, 1, 1, 1, 1)}}},
    {"BatchNormalization",
     1,
     "g (float[1,2,3] x) => (float y) <float[2] s = {1, 2}, float[2] b = {0, 1}, float[2] m = {1, 0}, float[2] v = {4, "
     "1}> { y = "
     "BatchNormalization<is_test=1, epsilon=0.0, consumed_inputs=[0,0,0,1,1]>(x, s, b, m, v) }",
     {{3, {1, 2, 3}, V(-0.875, 0, -0.75, 3.5, 0.5, 4)}}},
    {"Cast by name",
     1,
     "g (float[2,3] x) => (int32 y) { y = Cast<to=\"INT32\">(x) }",
     {{2, {2, 3}, V(0, 1, 0, 1, 0, 1)}}},
    {"Clip without bounds", 1, "g (float[2,3] x) => (float y) { y = Clip(x) }", {{2, {2, 3}, V(INPUT)}}},
    {"Clip",
     1,
     "g (float[2,3] x) => (float y) { y = Clip<min=-0.5>(x) }",
     {{2, {2, 3}, V(-0.5, 1, -0.5, 1.25, -0.25, 1.5)}}},
    {"Concat along the axis that was meant",
     3,
     "g (float[2,3] x) => (float y) { y = Concat(x, x) }",
     {{2, {2, 6}, V(-0.75, 1, -0.5, -0.75, 1, -0.5, 1.25, -0.25, 1.5, 1.25, -0.25, 1.5)}}},
    {"Dropout that is tested",
     1,
     "g (float[2,3] x) => (float y) { y = Dropout<is_test=1, ratio=0.9>(x) }",
     {{2, {2, 3}, V(INPUT)}}},
    {"Gemm",
     1,
     "g (float[2,3] x) => (float y) <float[3,1] b = {1, 2, 4}, float[1] c = {100}> { y = Gemm<broadcast=1, "
     "beta=0.5>(x, b, c) }",
     {{2, {2, 1}, V(49.25, 56.75)}}},
    {"GlobalLpPool", 1, "g (float[1,2,3] x) => (float y) { y = GlobalLpPool<p=1.0>(x) }", {{3, {1, 2, 1}, V(2.25, 3)}}},
    {"LpPool",
     1,
     "g (float[1,2,3] x) => (float y) { y = LpPool<kernel_shape=[2], p=2.0>(x) }",
     {{3, {1, 2, 2}, V(1.25, 1.118033989, 1.274754878, 1.520690633)}}},
    {"LpPool of order 2, which was not told",
     1,
     "g (float[1,2,3] x) => (float y) { y = LpPool<kernel_shape=[3]>(x) }",
     {{3, {1, 2, 1}, V(1.346291202, 1.968501969)}}},
    {"InstanceNormalization",
     1,
     "g (float[1,2,2] x) => (float y) <float[2] s = {1, 2}, float[2] b = {0, 1}> { y = "
     "InstanceNormalization<epsilon=0.0>(x, s, b) }",
     {{3, {1, 2, 2}, V(-1, 1, -1, 3)}}},
    {"Max",
     1,
     "g (float[2,3] x) => (float y) <float[2,3] b = {0,0,0,2,2,2}> { y = Max(x, b) }",
     {{2, {2, 3}, V(0, 1, 0, 2, 2, 2)}}},
    {"Pad",
     1,
     "g (float[2,3] x) => (float y) { y = Pad<paddings=[0,1,0,0], value=7.0>(x) }",
     {{2, {2, 4}, V(7, -0.75, 1, -0.5, 7, 1.25, -0.25, 1.5)}}},
    {"PRelu of channels",
     1,
     "g (float[1,2,3] x) => (float y) <float[2] s = {2, 4}> { y = PRelu(x, s) }",
     {{3, {1, 2, 3}, V(-1.5, 1, -1, 1.25, -1, 1.5)}}},
    {"Reshape", 1, "g (float[2,3] x) => (float y) { y = Reshape<shape=[0,-1,1]>(x) }", {{3, {2, 3, 1}, V(INPUT)}}},
    {"Selu with the constants of its time",
     5,
     "g (float[2,3] x) => (float y) { y = Selu(x) }",
     {{2, {2, 3}, V(-0.92759608, 1.0507, -0.69173139, 1.313375, -0.38887513, 1.57605)}}},
    {"Slice",
     1,
     "g (float[2,3] x) => (float y) { y = Slice<starts=[1], ends=[9], axes=[1]>(x) }",
     {{2, {2, 2}, V(1, -0.5, -0.25, 1.5)}}},
    {"Split with lengths as an input",
     1,
     "g (float[2,3] x) => (float y, float z) <float[2] s = {1, 2}> { y, z = Split<axis=1>(x, s) }",
     {{2, {2, 1}, V(-0.75, 1.25)}, {2, {2, 2}, V(1, -0.5, -0.25, 1.5)}}},
    {"Split with lengths as an attribute",
     1,
     "g (float[2,3] x) => (float y, float z) { y, z = Split<axis=1, split=[2,1]>(x) }",
     {{2, {2, 2}, V(-0.75, 1, 1.25, -0.25)}, {2, {2, 1}, V(-0.5, 1.5)}}},
    {"Tile",
     1,
     "g (float[2,3] x) => (float y) <float t = {2}, float a = {1}> { y = Tile(x, t, a) }",
     {{2, {2, 6}, V(-0.75, 1, -0.5, -0.75, 1, -0.5, 1.25, -0.25, 1.5, 1.25, -0.25, 1.5)}}},
    {"Tile with vectors of one element",
     5,
     "g (float[2,3] x) => (float y) <float[1] t = {2}, float[1] a = {0}> { y = Tile(x, t, a) }",
     {{2, {4, 3}, V(INPUT, INPUT)}}},
    {"TopK",
     1,
     "g (float[2,3] x) => (float y, int64 i) { y, i = TopK<k=2>(x) }",
     {{2, {2, 2}, V(1, -0.5, 1.5, 1.25)}, {2, {2, 2}, V(1, 2, 2, 0)}}},
    {"Upsample",
     1,
     "g (float[1,1,1,2] x) => (float y) { y = Upsample<height_scale=2.0, width_scale=1.5>(x) }",
     {{4, {1, 1, 2, 3}, V(-0.75, -0.75, 1, -0.75, -0.75, 1)}}},
    {"GRU, whose default was misspelt",
     1,
     "g () => (float y, float h) <float[1,1,1] x = {1}, float[1,3,1] w = {0, 0, 1}, float[1,3,1] r = {0, 0, 0}> { y, h "
     "= "
     "GRU<hidden_size=1, direction=\"foward\", output_sequence=1>(x, w, r) }",
     {{4, {1, 1, 1, 1}, V(0.380797078)}, {3, {1, 1, 1}, V(0.380797078)}}},
    {"RNN",
     1,
     "g () => (float y) <float[1,1,1] x = {1}, float[1,1,1] w = {1}, float[1,1,1] r = {0}> { y = "
     "RNN<hidden_size=1, output_sequence=1, activations=[\"Relu\"]>(x, w, r) }",
     {{4, {1, 1, 1, 1}, V(1)}}},
};

static void test_numbers(void **state)
{
    (void)state;
    check_cases(cases, sizeof cases / sizeof *cases);
}

/* ---- the way back ---- */

static const struct {
    const char *text;
    int32_t opset;
    opf_status status;
    const char *part; /* of the graph, or of the message */
} lowerings[] = {
    {"g (float[1,2,3] x, float[2] s) => (float y) { y = BatchNormalization(x, s, s, s, s) }", 5, OPF_OK,
     "consumed_inputs = [0, 0, 0, 0, 0]"},
    {"g (float[2] x) => (float y) { y = Concat<axis=0>(x, x) }", 3, OPF_OK, "y = Concat<axis = 0>(x, x)"},
    {"g (int32[2] x) => (int32 y) { y = Concat<axis=0>(x, x) }", 3, OPF_UNSUPPORTED, "int32 needs an opset above 3"},
    {"g (float[1,2,3] x) => (float y) { y = GlobalLpPool<p=3>(x) }", 1, OPF_OK, "y = GlobalLpPool<p = 3.0>(x)"},
    {"g (float[2,3] x) => (float y) <int64[4] p = {0,1,0,0}> { y = Pad(x, p) }", 1, OPF_OK, "paddings = [0, 1, 0, 0]"},
    {"g (float[2,3] x) => (float y) <int64[1] s = {6}> { y = Reshape(x, s) }", 4, OPF_OK, "shape = [6]"},
    {"g (int64[2,3] x) => (int64 y) <int64[1] s = {6}> { y = Reshape(x, s) }", 4, OPF_UNSUPPORTED,
     "int64 needs an opset above 4"},
    {"g (float[2] x) => (float y) { y = Selu(x) }", 5, OPF_OK, "alpha = 1.6732"},
    {"g (float[2,3] x) => (float y) <int64[2] r = {1,2}> { y = Tile(x, r) }", 5, OPF_OK, "y = Tile(x, tiles, axis)"},
    {"g (float[2,3] x) => (float y) <int64[2] r = {2,2}> { y = Tile(x, r) }", 5, OPF_UNSUPPORTED, "along one axis"},
    {"g (float[2,3] x, int64[2] r) => (float y) { y = Tile(x, r) }", 5, OPF_UNSUPPORTED, "constant"},
    {"g (float[1,1,1] x, float[1,3,1] w) => (float y) { y = GRU<hidden_size=1>(x, w, w) }", 2, OPF_UNSUPPORTED,
     "opset 3"},
};

static void test_lowering(void **state)
{
    (void)state;
    for (unsigned i = 0; i < sizeof lowerings / sizeof *lowerings; i++) {
        fixture f;
        begin(&f);
        if (load(&f, lowerings[i].text, 99) != OPF_OK)
            fail_msg("%s: %s", lowerings[i].text, f.error.message);
        const opf_op *op = opf_graph_node(f.graph, 1)->op;
        opf_status status = OPF_OK;
        for (uint32_t r = op->n_rows; r-- > 0 && status == OPF_OK;)
            if (op->rows[r].below > lowerings[i].opset)
                status = op->rows[r].lower(f.graph, 1, lowerings[i].opset, &f.error);
        opf_text text;
        opf_text_init(&text, &f.arena);
        opf_text_graph(&text, f.graph, true);
        const char *found = status == OPF_OK ? text.data : f.error.message;
        if (status != lowerings[i].status || strstr(found, lowerings[i].part) == NULL)
            fail_msg("%s\nhas no %s", found, lowerings[i].part);
        end(&f);
    }
}

/* What never had a newest form, or lacks what its own form demands. */
static void test_refusals(void **state)
{
    static const struct {
        const char *text, *part;
    } refusals[] = {
        {"g (float[1,2,3] x) => (float y) { y = LpPool<kernel_shape=[2], p=1.5>(x) }",
         "p is 1.5, must be a whole number"},
        {"g (float[2,3] x) => (float y) { y = Tile(x, x) }", "inputs tiles and axis are missing"},
        {"g (float[2,3] x) => (float y) { y = Dropout(x) }", "is_test must not be 0"},
    };
    (void)state;
    for (unsigned i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        fixture f;
        begin(&f);
        assert_true(load(&f, refusals[i].text, 1) != OPF_OK);
        if (strstr(f.error.message, refusals[i].part) == NULL)
            fail_msg("%s\nhas no %s", f.error.message, refusals[i].part);
        end(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_lowering),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
