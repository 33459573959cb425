/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolutions of few filters, whose pixels fill the vectors: windows, strides, dilations and borders of every rank, images that
 * lie in planes and side by side, and what may follow, against the reference, at each CPU level, bitwise equal for any number of
 * threads; and that convolutions of more filters, or of short lines, are products.
 */
#include "plan_case.h"

static const char *const sizes = "N=1 H=9 W=37; N=2 H=5 W=40; N=1 H=1 W=33; N=3 H=6 W=64; N=1 H=2 W=300";

/* The second convolution finds channels side by side. */
static void test_windows(void **state)
{
    static const test_case cases[] = {
        {"conv_planes_f32", sizes, "g (float[N,7,H,W] x, float[1,7,3,5] w, float[1] w2) => (y) { y = Conv<pads = [1,2,1,2]>(x, w, w2) }"},
        {"conv_planes_f32", sizes,
         "g (float[N,3,H,W] x, float[8,3,1,1] w, float[1,8,5,5] w2) => (y) { c = Conv(x, w) y = Conv<pads = [2,2,2,2]>(c, w2) }"},
        {"conv_planes_f32", sizes,
         "g (float[N,3,H,W] x, float[9,3,1,1] w, float[2,9,3,3] w2) => (y) { c = Conv(x, w) y = Conv<pads = [1,3,3,0], strides = [2,2]>(c, w2) }"},
        {"conv_planes_f32", "N=2 H=7 W=100; N=1 H=4 W=64",
         "g (float[N,3,H,W] x, float[2,3,1,4] w) => (y) { y = Conv<pads = [0,7,0,1], strides = [3,3]>(x, w) }"},
        {"conv_planes_f32", sizes,
         "g (float[N,3,H,W] x, float[1,3,3,2] w) => (y) { y = Conv<pads = [4,5,4,5], strides = [1,2], dilations = [4,5]>(x, w) }"},
        {"conv_planes_f32", sizes,
         "g (float[N,3,H,W] x, float[6,3,1,1] w, float[1,6,1,1] w2) => (y) { c = Conv(x, w) y = Conv(c, w2) }"},
        {"conv_planes_f32", sizes, "g (float[N,3,H,W] x, float[1,3,2,1] w) => (y) { y = Conv<auto_pad = \"SAME_UPPER\">(x, w) }"},
        {"conv_planes_f32", "N=1 S=50; N=3 S=33",
         "g (float[N,5,S] x, float[2,5,7] w) => (y) { y = Conv<pads = [6,0], dilations = [2]>(x, w) }"},
        {"conv_planes_f32", "N=1 D=3 H=4 W=37; N=2 D=1 H=2 W=40",
         "g (float[N,3,D,H,W] x, float[6,3,1,1,1] w, float[1,6,3,2,3] w2) => (y)"
         "{ c = Conv(x, w) y = Conv<pads = [1,0,1,1,1,1]>(c, w2) }"},
        /* Neither planes nor pixels side by side. */
        {"conv_planes_f32", sizes,
         "g (float[N,H,6,W] x, float[1,6,3,5] w2) => (y) { t = Transpose<perm = [0,2,1,3]>(x) y = Conv<pads = [1,2,1,2]>(t, w2) }"},
        {"conv_planes_f32", "N=1 H=9 W=40; N=1 H=0 W=40; N=0 H=3 W=40", "g (float[N,7,H,W] x, float[1,7,3,5] w) => (y) { y = Conv<pads = [2,2,2,2]>(x, w) }"},
    };
    (void)state;
    CHECK_ALL(cases);
}

static void test_what_follows(void **state)
{
    static const test_case cases[] = {
        {"conv_planes_f32", sizes,
         "g (float[N,7,H,W] x, float[1,7,3,3] w, float[1] w2) => (y) { c = Conv<pads = [1,1,1,1]>(x, w, w2) y = Sigmoid(c) }"},
        {"conv_planes_f32", sizes,
         "g (float[N,7,H,W] x, float[2,7,3,3] w, float[2] w2) => (y) { c = Conv<pads = [1,1,1,1]>(x, w, w2) s = Sigmoid(c) y = Mul(c, s) }"},
        {"conv_planes_f32", sizes,
         "g (float[N,7,H,W] x, float[2,7,3,3] w, float[N,2,H,W] r) => (y) { c = Conv<pads = [1,1,1,1]>(x, w) s = Add(c, r) y = Relu(s) }"},
        {"conv_planes_f32", sizes,
         "g (float[N,7,H,W] x, float[1,7,3,3] w, float[N,1,H,W] r, float[W] q) => (y, s)"
         "{ c = Conv<pads = [1,1,1,1]>(x, w) t = Tanh(c) s = Mul(t, r) y = Add(s, q) }"},
        /* The result is read by one that wants channels side by side, and by one that joins it. */
        {"conv_planes_f32", sizes,
         "g (float[N,7,H,W] x, float[2,7,3,3] w, float[40,2,3,3] w2) => (y) { c = Conv<pads = [1,1,1,1]>(x, w) r = Relu(c) y = Conv<pads = [1,1,1,1]>(r, w2) }"},
        {"conv_planes_f32", sizes,
         "g (float[N,7,H,W] x, float[1,7,3,3] w, float[5,7,1,1] w2, float[9,6,1,1] w3) => (y)"
         "{ a = Conv<pads = [1,1,1,1]>(x, w) b = Conv(x, w2) c = Concat<axis = 1>(a, b) y = Conv(c, w3) }"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_case(&cases[i], i == 0 ? all_threads : few_threads);
}

static void test_others_are_products(void **state)
{
    static const test_case cases[] = {
        {"!conv_planes", sizes, "g (float[N,7,H,W] x, float[9,7,3,3] w) => (y) { y = Conv<pads = [1,1,1,1]>(x, w) }"},
        {"!conv_planes", "N=1 H=30 W=3", "g (float[N,7,H,W] x, float[1,7,3,3] w) => (y) { y = Conv<pads = [1,1,1,1]>(x, w) }"},
        {"!conv_planes", sizes, "g (float[N,8,H,W] x, float[2,4,3,3] w) => (y) { y = Conv<group = 2, pads = [1,1,1,1]>(x, w) }"},
    };
    (void)state;
    CHECK_ALL(cases);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_windows), cmocka_unit_test(test_what_follows),
                                       cmocka_unit_test(test_others_are_products)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
