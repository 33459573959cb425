/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How products read the rows of images of few channels, and what they do with a result where it lies: bands of lines with
 * borders, factors of rows in the weights, operators and numbers behind the products; against the reference, at each CPU
 * level, bitwise equal for any number of threads.
 */
#include "plan_case.h"

static const char *const sizes = "N=1 H=9 W=23; N=2 H=5 W=40; N=1 H=1 W=7; N=3 H=6 W=3";

/* The second convolution finds channels side by side. */
static void test_bands(void **state)
{
    static const test_case cases[] = {
        {"!reference", sizes,
         "g (float[N,3,H,W] x, float[8,3,1,1] w, float[9,8,3,11] w2, float[9] w3) => (y)"
         "{ c = Conv(x, w) a = Conv<pads = [1,5,1,5]>(c, w2, w3) y = Relu(a) }"},
        {"!reference", sizes,
         "g (float[N,3,H,W] x, float[5,3,1,1] w, float[17,5,2,4] w2) => (y)"
         "{ c = Conv(x, w) y = Conv<pads = [1,3,0,0], strides = [1,3]>(c, w2) }"},
        {"!reference", sizes,
         "g (float[N,3,H,W] x, float[32,3,1,1] w, float[40,32,3,3] w2) => (y)"
         "{ c = Conv(x, w) y = Conv<pads = [1,1,1,1], strides = [2,2]>(c, w2) }"},
        {"!reference", sizes,
         "g (float[N,3,H,W] x, float[1,3,1,1] w, float[4,1,1,6] w2) => (y)"
         "{ c = Conv(x, w) y = Conv<pads = [2,5,2,5], strides = [2,1], dilations = [3,1]>(c, w2) }"},
        {"!reference", "N=1 D=3 H=4 W=17; N=2 D=1 H=2 W=9",
         "g (float[N,3,D,H,W] x, float[6,3,1,1,1] w, float[7,6,3,2,3] w2) => (y)"
         "{ c = Conv(x, w) y = Conv<pads = [1,0,1,1,1,1]>(c, w2) }"},
        /* Neither planes nor pixels. */
        {"!reference", sizes,
         "g (float[N,H,6,W] x, float[9,6,3,5] w2) => (y)"
         "{ t = Transpose<perm = [0,2,3,1]>(x) y = Conv<pads = [1,2,1,2]>(t, w2) }"},
    };
    (void)state;
    CHECK_ALL(cases);
}

/* A gate for each channel of an image; more filters than pixels leave it to the rows. */
static void test_factors_in_weights(void **state)
{
    static const test_case cases[] = {
        {"!reference", sizes,
         "g (float[N,3,H,W] x, float[24,3,1,1] w, float[10,24,1,1] w2, float[10] w3) => (y)"
         "{ c = Conv(x, w) p = GlobalAveragePool(c) s = Sigmoid(p) m = Mul(c, s) y = Conv(m, w2, w3) }"},
        {"!reference", sizes,
         "g (float[N,3,H,W] x, float[20,3,1,1] w, float[70,20,1,1] w2) => (y)"
         "{ c = Conv(x, w) p = GlobalAveragePool(c) s = HardSigmoid(p) m = Mul(s, c) d = Conv(m, w2) y = HardSwish(d) }"},
    };
    (void)state;
    CHECK_ALL(cases);
}

/* Every other channel, read where it lies; and what follows in the kernel of strips. */
static void test_every_other_channel(void **state)
{
    static const test_case cases[] = {
        {"!reference", sizes,
         "g (float[N,3,H,W] x, float[24,3,1,1] w, float[40,12,1,1] w2, float[40] w3) => (y)"
         "<int64[1] a = {1}, int64[1] b = {24}, int64[1] one = {1}, int64[1] two = {2}>"
         "{ c = Conv(x, w) s = Slice(c, a, b, one, two) d = Conv(s, w2, w3) y = Relu(d) }"},
        {"!reference", sizes,
         "g (float[N,3,H,W] x, float[34,3,1,1] w, float[17,17,1,1] w2) => (y)"
         "<int64[1] a = {0}, int64[1] b = {34}, int64[1] one = {1}, int64[1] two = {2}>"
         "{ c = Conv(x, w) s = Slice(c, a, b, one, two) d = Conv(s, w2) e = Add(d, s) t = Sigmoid(e) y = Mul(e, t) }"},
        {"!reference", "N=1 H=1 W=1; N=1 H=1 W=5; N=2 H=9 W=23",
         "g (float[N,3,H,W] x, float[16,3,1,1] w, float[300,16,1,1] w2) => (y)"
         "{ c = Conv(x, w) d = Conv(c, w2) y = HardSwish(d) }"},
    };
    (void)state;
    CHECK_ALL(cases);
}

static void test_numbers_and_chains(void **state)
{
    static const test_case cases[] = {
        {"!reference", sizes,
         "g (float[N,3,H,W] x, float[50,3,1,1] w, float[50] w2) => (y) <float a = {1.5}, float b = {-0.25}, float[1,1,1,1] c = {3}>"
         "{ p = Conv(x, w, w2) q = HardSwish(p) r = Mul(a, q) s = Add(r, b) t = Sub(c, s) y = Sigmoid(t) }"},
        {"depthwise", sizes,
         "g (float[N,3,H,W] x, float[12,3,1,1] w, float[12,1,3,3] w2) => (y) <float a = {2}, float b = {0.5}>"
         "{ p = Conv(x, w) d = Conv<group = 12, pads = [1,1,1,1]>(p, w2) q = Mul(d, a) r = Sub(q, b) s = Sigmoid(r) y = Mul(r, s) }"},
        {"!reference", sizes,
         "g (float[N,3,H,W] x, float[8,3,1,1] w, float[16,8,3,3] w2) => (y) <float a = {0.75}>"
         "{ p = Conv(x, w) d = Conv<pads = [1,1,1,1]>(p, w2) q = Tanh(d) r = Mul(q, a) y = Add(r, d) }"},
    };
    (void)state;
    CHECK_ALL(cases);
}

/* Groups of a few channels: as many as fit a vector at a time. The last group holds what is not finite. */
static void test_small_groups(void **state)
{
    static const test_case cases[] = {
        {"grouped_f32", "N=1 H=9 W=20; N=2 H=5 W=3; N=1 H=1 W=1; N=1 H=0 W=4",
         "g (float[N,128,H,W] x, float[128,4,3,3] w, float[128] w2) => (y) { c = Conv<group = 32, pads = [1,1,1,1]>(x, w, w2) y = Relu(c) }"},
        {"grouped_f32", "N=1 H=12 W=23; N=3 H=4 W=6",
         "g (float[N,18,H,W] x, float[6,3,1,1] w0, float[30,1,3,2] w, float[30] w2) => (y)"
         "{ a = Conv<group = 6>(x, w0) y = Conv<group = 6, pads = [2,1,0,1], strides = [1,2], dilations = [2,3]>(a, w, w2) }"},
        {"grouped_f32", "N=2 S=40; N=1 S=3",
         "g (float[N,6,S] x, float[8,3,5] w) => (y) { c = Conv<group = 2, pads = [3,0]>(x, w) s = Sigmoid(c) y = Mul(c, s) }"},
        {"grouped_f32", "N=1 D=3 H=4 W=7", "g (float[N,9,D,H,W] x, float[9,9,1,1,1] w0, float[6,3,2,3,1] w) => (y) { c = Conv(x, w0) y = Conv<group = 3, pads = [1,1,0,0,1,0]>(c, w) }"},
        {"grouped_f32", "N=1 H=9 W=20",
         "g (float[N,16,H,W] x, float[16,2,3,3] w, float[N,16,H,W] r, float[12,16,1,1] w2) => (y)"
         "{ c = Conv<group = 8, pads = [1,1,1,1]>(x, w) d = Add(c, r) e = Relu(d) y = Conv(e, w2) }"},
    };
    (void)state;
    CHECK_ALL(cases);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_groups), cmocka_unit_test(test_bands),
        cmocka_unit_test(test_factors_in_weights),
        cmocka_unit_test(test_every_other_channel), cmocka_unit_test(test_numbers_and_chains),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
