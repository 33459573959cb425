/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A product of pixels and the depthwise convolution behind it, run a panel of channels at a time: windows, strides, dilations and borders
 * of every kind, ends that the kernels take, channels that fill no panel, lines that are taken in chunks, and inside bands; against the
 * reference, at each CPU level, bitwise equal for any number of threads and bitwise what the steps give one after the other; and which
 * steps are not joined. What comes first makes an image whose channels lie side by side.
 */
#include "plan_case.h"

#define JOINED "panels: "

static const int32_t more_threads[] = {1, 2, 3, 5, 8, 0};

static void test_joined(void **state)
{
    static const test_case cases[] = {
        /* The blocks of mobile networks, with what follows either. */
        {JOINED, "N=1 H=28 W=28; N=3 H=14 W=14; N=1 H=7 W=7; N=2 H=1 W=5; N=1 H=3 W=1",
         "g (float[N,24,H,W] x, float[24,24,1,1] w9, float[144,24,1,1] w, float[144,1,3,3] w2, float[40,144,1,1] w3, float[144] w4, float[144] w5) => (y)"
         "{ lo = Constant<value = float {0}>() hi = Constant<value = float {6}>() o = Conv(x, w9) a = Conv(o, w, w4) c = Clip(a, lo, hi)"
         "  d = Conv<group = 144, pads = [1,1,1,1]>(c, w2, w5) e = Clip(d, lo, hi) y = Conv(e, w3) }"},
        {JOINED, "N=2 H=29 W=31; N=1 H=12 W=64",
         "g (float[N,9,H,W] x, float[9,9,1,1] w9, float[58,9,1,1] w, float[58,1,5,5] w2, float[8,58,1,1] w3) => (y)"
         "{ o = Conv(x, w9) a = Conv(o, w) s = Sigmoid(a) c = Mul(a, s) d = Conv<group = 58, strides = [2,2], pads = [2,2,2,2]>(c, w2) t = Sigmoid(d) z = Mul(d, t) y = Conv(z, w3) }"},
        {JOINED, "N=1 H=20 W=19",
         "g (float[N,40,H,W] x, float[40,40,1,1] w9, float[33,40,1,1] w, float[33,1,3,3] w2, float[33] w4, float[8,33,1,1] w3) => (y)"
         "{ o = Conv(x, w9) a = Conv(o, w, w4) c = HardSwish(a) d = Conv<group = 33, pads = [0,1,2,0]>(c, w2) z = HardSwish(d) y = Conv(z, w3) }"},
        /* Fewer channels than a vector has; rows longer than the kernel sums at a time. */
        {JOINED, "N=1 H=9 W=8",
         "g (float[N,300,H,W] x, float[300,300,1,1] w9, float[5,300,1,1] w, float[5,1,3,3] w2, float[8,5,1,1] w3) => (y)"
         "{ o = Conv(x, w9) a = Conv(o, w) z = Conv<group = 5, pads = [1,1,1,1]>(a, w2) y = Conv(z, w3) }"},
        /* Windows of two sizes, dilated, in the padding as a whole, and lines and pixels that none reads. */
        {JOINED, "N=2 H=30 W=26",
         "g (float[N,8,H,W] x, float[8,8,1,1] w9, float[64,8,1,1] w, float[64,1,2,3] w2, float[8,64,1,1] w3) => (y)"
         "{ o = Conv(x, w9) a = Conv(o, w) z = Conv<group = 64, pads = [5,1,7,1], strides = [5,3]>(a, w2) y = Conv(z, w3) }"},
        {JOINED, "N=1 H=33 W=40",
         "g (float[N,8,H,W] x, float[8,8,1,1] w9, float[70,8,1,1] w, float[70,1,3,3] w2, float[8,70,1,1] w3) => (y)"
         "{ o = Conv(x, w9) a = Conv(o, w) z = Conv<group = 70, pads = [6,3,6,3], dilations = [6,3]>(a, w2) y = Conv(z, w3) }"},
        {JOINED, "N=2 H=17 W=16",
         "g (float[N,16,H,W] x, float[16,16,1,1] w9, float[48,16,1,1] w, float[48,1,7,7] w2, float[8,48,1,1] w3) => (y)"
         "{ o = Conv(x, w9) a = Conv(o, w) z = Conv<group = 48, pads = [3,3,3,3]>(a, w2) y = Conv(z, w3) }"},
        /* Lines that are taken in chunks of pixels. */
        {JOINED, "N=1 H=9 W=900; N=1 H=12 W=1333",
         "g (float[N,6,H,W] x, float[6,6,1,1] w9, float[34,6,1,1] w, float[34,1,3,3] w2, float[8,34,1,1] w3) => (y)"
         "{ o = Conv(x, w9) a = Conv(o, w) b = Relu(a) z = Conv<group = 34, pads = [1,1,1,1]>(b, w2) y = Conv(z, w3) }"},
        {JOINED, "N=2 H=11 W=1001",
         "g (float[N,6,H,W] x, float[6,6,1,1] w9, float[34,6,1,1] w, float[34,1,5,5] w2, float[8,34,1,1] w3) => (y)"
         "{ o = Conv(x, w9) a = Conv(o, w) z = Conv<group = 34, pads = [2,0,1,3], strides = [2,2]>(a, w2) y = Conv(z, w3) }"},
        /* In bands: those of several threads begin anywhere. */
        {"bands: " JOINED, "N=1 H=112 W=100; N=3 H=81 W=92",
         "g (float[N,16,H,W] x, float[16,16,1,1] w9, float[160,16,1,1] w, float[160,1,3,3] w2, float[24,160,1,1] w3) => (y)"
         "{ o = Conv(x, w9) a = Conv(o, w) b = Relu(a) c = Conv<group = 160, pads = [1,1,1,1]>(b, w2) d = Relu(c) y = Conv(d, w3) }"},
        {"bands: " JOINED, "N=2 H=161 W=130",
         "g (float[N,12,H,W] x, float[12,12,1,1] w9, float[96,12,1,1] w, float[96,1,5,5] w2, float[24,96,1,1] w3) => (y)"
         "{ o = Conv(x, w9) a = Conv(o, w) c = Conv<group = 96, pads = [2,2,2,2], strides = [2,1]>(a, w2) y = Conv(c, w3) }"},
        /* One line becomes three, which a chain of bands would take, but it takes no product of one line. */
        {JOINED, "N=1 H=1 W=1900; N=2 H=1 W=700",
         "g (float[N,8,H,W] x, float[8,8,1,1] w9, float[96,8,1,1] w, float[96,1,3,3] w2, float[8,96,1,1] w3) => (y)"
         "{ o = Conv(x, w9) a = Conv(o, w) z = Conv<group = 96, pads = [2,1,2,1]>(a, w2) y = Conv(z, w3) }"},
        /* Of one axis. */
        {JOINED, "N=2 H=300",
         "g (float[N,8,H] x, float[8,8,1] w9, float[40,8,1] w, float[40,1,5] w2, float[8,40,1] w3) => (y)"
         "{ o = Conv(x, w9) a = Conv(o, w) z = Conv<group = 40, pads = [2,2]>(a, w2) y = Conv(z, w3) }"},
    };
    (void)state;
    CHECK_ALL_FUSED(cases, more_threads);
}

/* What the kernels do not do by themselves, and who else needs the image between. */
static void test_not_joined(void **state)
{
    static const test_case cases[] = {
        {"!" JOINED, "N=1 H=14 W=14",
         "g (float[N,16,H,W] x, float[16,16,1,1] w9, float[64,16,1,1] w, float[64,1,3,3] w2, float[8,64,1,1] w3) => (y, a)"
         "{ o = Conv(x, w9) a = Conv(o, w) z = Conv<group = 64, pads = [1,1,1,1]>(a, w2) y = Conv(z, w3) }"},
        {"!" JOINED, "N=1 H=14 W=14",
         "g (float[N,16,H,W] x, float[16,16,1,1] w9, float[64,16,1,1] w, float[64,1,3,3] w2, float[8,64,1,1] w3) => (y)"
         "{ o = Conv(x, w9) a = Conv(o, w) b = Conv<group = 64, pads = [1,1,1,1]>(a, w2) z = Add(b, a) y = Conv(z, w3) }"},
        {"!" JOINED, "N=1 H=14 W=14",
         "g (float[N,16,H,W] x, float[16,16,1,1] w9, float[64,16,1,1] w, float[64,1,3,3] w2, float[N,64,H,W] r, float[8,64,1,1] w3) => (y)"
         "{ o = Conv(x, w9) a = Conv(o, w) b = Add(a, r) z = Conv<group = 64, pads = [1,1,1,1]>(b, w2) y = Conv(z, w3) }"},
        {"!" JOINED, "N=1 H=14 W=14",
         "g (float[N,16,H,W] x, float[16,16,1,1] w9, float[64,16,1,1] w, float[64,1,3,3] w2, float[N,64,H,W] r, float[8,64,1,1] w3) => (y)"
         "{ o = Conv(x, w9) a = Conv(o, w) b = Conv<group = 64, pads = [1,1,1,1]>(a, w2) z = Add(b, r) y = Conv(z, w3) }"},
        {"!" JOINED, "N=1 H=14 W=14",
         "g (float[N,16,H,W] x, float[16,16,1,1] w9, float[64,16,1,1] w, float[64,1,3,3] w2, float[8,64,1,1] w3) => (y)"
         "{ o = Conv(x, w9) a = Conv(o, w) b = Tanh(a) z = Conv<group = 64, pads = [1,1,1,1]>(b, w2) y = Conv(z, w3) }"},
        {"!" JOINED, "N=1 H=14 W=14",
         "g (float[N,16,H,W] x, float[16,16,1,1] w9, float[64,16,3,3] w, float[64,1,3,3] w2, float[8,64,1,1] w3) => (y)"
         "{ o = Conv(x, w9) a = Conv<pads = [1,1,1,1]>(o, w) z = Conv<group = 64, pads = [1,1,1,1]>(a, w2) y = Conv(z, w3) }"},
        {"!" JOINED, "N=1 H=14 W=14",
         "g (float[N,16,H,W] x, float[16,16,1,1] w9, float[64,16,1,1] w, float[64,2,3,3] w2, float[8,64,1,1] w3) => (y)"
         "{ o = Conv(x, w9) a = Conv(o, w) z = Conv<group = 32, pads = [1,1,1,1]>(a, w2) y = Conv(z, w3) }"},
    };
    (void)state;
    CHECK_ALL_FUSED(cases, few_threads);
}

/* The same graph, the image between being an output. */
static void test_same_bits(void **state)
{
    static const char body[] = "{ o = Conv(x, w9) a = Conv(o, w) b = Relu(a) c = Conv<group = 100, pads = [1,1,1,1], strides = [2,2]>(b, w2) y = Conv(c, w3) }";
    char joined[400], apart[400];
    (void)state;
    (void)snprintf(joined, sizeof joined, "g (float[N,20,H,W] x, float[20,20,1,1] w9, float[100,20,1,1] w, float[100,1,3,3] w2, float[8,100,1,1] w3) => (y) %s", body);
    (void)snprintf(apart, sizeof apart, "g (float[N,20,H,W] x, float[20,20,1,1] w9, float[100,20,1,1] w, float[100,1,3,3] w2, float[8,100,1,1] w3) => (y, b) %s", body);
    check_same_bits(joined, apart, "N=2 H=31 W=27", JOINED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_joined), cmocka_unit_test(test_not_joined), cmocka_unit_test(test_same_bits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
