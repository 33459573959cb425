/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps that hand an image on band by band: convolutions, depthwise ones and pools behind one another, with windows, strides, dilations
 * and borders of every kind, what they read beside the image and how they end, against the reference, at each CPU level,
 * bitwise equal for any number of threads and bitwise what the steps give one after the other; and which steps are not joined.
 * The images are larger than half of any L2.
 */
#include "plan_case.h"

#define JOINED "bands: "

static const int32_t more_threads[] = {1, 2, 5, 8, 0};

static void test_chains(void **state)
{
    static const test_case cases[] = {
        /* The block of a MobileNet, whose residual is what the chain reads; the border is zero, not the activation of the bias. */
        {JOINED, "N=1 H=64 W=100; N=3 H=41 W=52",
         "g (float[N,24,H,W] x, float[96,24,1,1] w, float[96,1,3,3] w2, float[24,96,1,1] w3, float[24] w4, float[96] w5) => (y)"
         "{ a = Conv(x, w, w5) b = Relu(a) c = Conv<group = 96, pads = [1,1,1,1]>(b, w2) d = Relu(c) e = Conv(d, w3, w4) y = Add(e, x) }"},
        /* A planar image, and strides. */
        {JOINED, "N=2 H=150 W=151",
         "g (float[N,3,H,W] x, float[40,3,3,3] w, float[40,1,3,3] w2, float[24,40,1,1] w3) => (y)"
         "{ a = Conv<strides = [2,2], pads = [1,1,1,1]>(x, w) b = Conv<group = 40, strides = [2,2], pads = [0,0,1,1]>(a, w2) y = Conv(b, w3) }"},
        /* Windows larger than bands, and dilated. */
        {JOINED, "N=1 H=60 W=75",
         "g (float[N,16,H,W] x, float[128,16,1,1] w, float[128,1,9,9] w2, float[128,1,3,3] w3) => (y)"
         "{ a = Conv(x, w) b = Conv<group = 128, pads = [4,4,4,4]>(a, w2) y = Conv<group = 128, pads = [5,5,5,5], dilations = [5,5]>(b, w3) }"},
        /* Lines that lie in the padding as a whole, and lines that no window reads. */
        {JOINED, "N=2 H=70 W=66",
         "g (float[N,8,H,W] x, float[64,8,1,1] w, float[64,1,2,2] w2) => (y)"
         "{ a = Conv(x, w) y = Conv<group = 64, pads = [5,1,7,1], strides = [5,3]>(a, w2) }"},
        {JOINED, "N=1 H=93 W=101",
         "g (float[N,3,H,W] x, float[64,3,5,5] w, float[32,64,1,1] w2) => (y)"
         "{ a = Conv<pads = [2,2,2,2]>(x, w) m = MaxPool<kernel_shape = [3,3], strides = [2,2], pads = [1,1,1,1]>(a)"
         "  v = AveragePool<kernel_shape = [2,3], pads = [1,1,0,1]>(m) y = Conv(v, w2) }"},
        /* What steps read beside the image, and what the last one writes beside it. */
        {JOINED, "N=1 H=84 W=115; N=2 H=55 W=89",
         "g (float[N,16,H,W] x, float[64,16,1,1] w, float[64,1,3,3] w2, float[N,64,H,W] r, float[64,1,1] q) => (y)"
         "{ a = Conv(x, w) s = Sigmoid(a) b = Mul(a, s) c = Add(b, r) d = Conv<group = 64, pads = [1,1,1,1]>(c, w2) e = Mul(d, q) y = Tanh(e) }"},
        {JOINED, "N=1 H=84 W=115; N=2 H=55 W=89",
         "g (float[N,16,H,W] x, float[64,16,1,1] w, float[64,1,3,3] w2) => (s, y)"
         "{ a = Conv(x, w) b = Conv<group = 64, pads = [1,1,1,1]>(a, w2) s = Sigmoid(b) y = Mul(b, s) }"},
        /* Whole rows of tiles. */
        {JOINED "winograd_f32_4x4", "N=1 H=100 W=197; N=2 H=61 W=170",
         "g (float[N,3,H,W] x, float[32,3,3,3] w, float[32,32,3,3] w2, float[32] w3) => (y)"
         "{ a = Conv<pads = [1,1,1,1]>(x, w) b = Relu(a) c = Conv<pads = [1,1,1,1]>(b, w2, w3) d = Relu(c)"
         "  y = MaxPool<kernel_shape = [2,2], strides = [2,2]>(d) }"},
        {JOINED "winograd_f32_4x4", "N=1 H=100 W=197",
         "g (float[N,16,H,W] x, float[32,16,3,3] w, float[32,1,3,3] w2, float[16,32,3,3] w3) => (y)"
         "{ a = Conv<pads = [0,1,2,0]>(x, w) b = Conv<group = 32, pads = [2,0,1,1], dilations = [3,1]>(a, w2) y = Conv<pads = [1,1,1,1]>(b, w3) }"},
        /* Products of windows, of bands and of lines. */
        {JOINED, "N=1 H=80 W=120",
         "g (float[N,8,H,W] x, float[64,8,3,3] w, float[64,64,3,3] w2, float[16,64,1,1] w3) => (y)"
         "{ a = Conv<pads = [1,1,1,1], strides = [1,1]>(x, w) b = Conv<pads = [1,1,1,1], strides = [2,1]>(a, w2) y = Conv(b, w3) }"},
        /* Lines of one channel, read where they lie. */
        {JOINED, "N=1 H=700 W=800",
         "g (float[N,1,H,W] x, float[24,1,3,3] w) => (y)"
         "{ m = MaxPool<kernel_shape = [3,3], pads = [1,1,1,1]>(x) a = Conv<pads = [2,2,2,2], dilations = [2,2]>(m, w)"
         "  y = MaxPool<kernel_shape = [9,9], strides = [9,9]>(a) }"},
        /* Tiles of one axis. */
        {JOINED "winograd_f32_2x1", "N=1 H=101 W=197",
         "g (float[N,16,H,W] x, float[32,16,1,1] w, float[32,32,7,1] w2, float[32,32,1,7] w3, float[32,32,3,1] w4) => (y)"
         "{ a = Conv(x, w) b = Conv<pads = [2,0,4,0]>(a, w2) c = Relu(b) d = Conv<pads = [1,3,0,3]>(c, w3) y = Conv<pads = [1,0,1,0]>(d, w4) }"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_fused(&cases[i], i == 9 ? more_threads : few_threads);
}

/* Who else needs the image as a whole. */
static void test_not_joined(void **state)
{
    static const test_case cases[] = {
        {"!" JOINED, "N=1 H=84 W=115", /* it is an output */
         "g (float[N,16,H,W] x, float[64,16,1,1] w, float[64,1,3,3] w2) => (y, a)"
         "{ a = Conv(x, w) y = Conv<group = 64, pads = [1,1,1,1]>(a, w2) }"},
        {"!" JOINED, "N=1 H=84 W=115", /* lines that two bands need would be written to s by two threads */
         "g (float[N,16,H,W] x, float[64,16,1,1] w, float[64,1,3,3] w2) => (s, y)"
         "{ a = Conv(x, w) s = Sigmoid(a) b = Mul(a, s) y = Conv<group = 64, pads = [1,1,1,1]>(b, w2) }"},
        {"!" JOINED, "N=1 H=84 W=115", /* the next step reads it twice */
         "g (float[N,16,H,W] x, float[64,16,1,1] w, float[64,1,3,3] w2) => (y)"
         "{ a = Conv(x, w) b = Conv<group = 64, pads = [1,1,1,1]>(a, w2) y = Add(b, a) }"},
        {"!" JOINED, "N=1 H=84 W=115", /* a factor of all pixels is computed from it first */
         "g (float[N,16,H,W] x, float[64,16,1,1] w, float[16,64,1,1] w2) => (y)"
         "{ a = Conv(x, w) p = GlobalAveragePool(a) b = Mul(a, p) y = Conv(b, w2) }"},
        {"!" JOINED, "N=1 H=20 W=20", /* it stays in cache */
         "g (float[N,16,H,W] x, float[64,16,1,1] w, float[64,1,3,3] w2) => (y)"
         "{ a = Conv(x, w) y = Conv<group = 64, pads = [1,1,1,1]>(a, w2) }"},
        {"!" JOINED, "N=1 H=1 W=15000", /* it is one line */
         "g (float[N,16,H,W] x, float[64,16,1,1] w, float[64,1,1,3] w2) => (y)"
         "{ a = Conv(x, w) y = Conv<group = 64, pads = [0,1,0,1]>(a, w2) }"},
    };
    (void)state;
    CHECK_ALL_FUSED(cases, few_threads);
}

/* The same graph, its images being outputs and therefore whole. */
static void test_same_bits(void **state)
{
    static const char body[] = "{ a = Conv(x, w) b = Relu(a) c = Conv<group = 96, pads = [1,1,1,1], strides = [2,2]>(b, w2) y = Conv(c, w3) }";
    char joined[400], apart[400];
    (void)state;
    (void)snprintf(joined, sizeof joined, "g (float[N,20,H,W] x, float[96,20,1,1] w, float[96,1,3,3] w2, float[24,96,1,1] w3) => (y) %s", body);
    (void)snprintf(apart, sizeof apart, "g (float[N,20,H,W] x, float[96,20,1,1] w, float[96,1,3,3] w2, float[24,96,1,1] w3) => (y, b, c) %s", body);
    check_same_bits(joined, apart, "N=2 H=71 W=57", JOINED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_chains), cmocka_unit_test(test_not_joined), cmocka_unit_test(test_same_bits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
