/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every lowering, fused and unfused, against the reference, at each CPU level of the machine, on sizes that are odd, one
 * and zero; and bitwise equal for any number of threads.
 */
#include "plan_case.h"
#include "steps_case.h"

/* ---- convolutions ---- */

static void test_conv(void **state)
{
    static const test_case cases[] = {
        {"gemm", "N=1 H=5 W=7; N=3 H=8 W=3; N=2 H=1 W=1; N=0 H=5 W=5",
         "g (float[N,3,H,W] x, float[5,3,3,3] w, float[5] w2) => (y) { a = Conv<pads = [1,1,1,1]>(x, w, w2) y = Relu(a) }"},
        {"gemm", "N=1 H=9 W=11; N=2 H=4 W=4", "g (float[N,3,H,W] x, float[33,3,3,3] w) => (y) { y = Conv<strides = [2,2]>(x, w) }"},
        {"gemm", "N=1 H=5 W=7; N=2 H=6 W=6; N=2 H=3 W=1",
         "g (float[N,17,H,W] x, float[35,17,3,3] w, float[35] w2) => (y) { a = Conv<pads = [1,1,1,1]>(x, w, w2) y = HardSwish(a) }"},
        {"gemm", "N=1 H=9 W=9; N=2 H=10 W=7",
         "g (float[N,16,H,W] x, float[4,16,3,3] w, float[20,4,1,1] w2) => (y) { a = Conv<dilations = [2,2], strides = [2,1]>(x, w) y = Conv(a, w2) }"},
        {"gemm", "N=1 H=5 W=7; N=3 H=1 W=1; N=2 H=0 W=4", "g (float[N,19,H,W] x, float[18,19,1,1] w, float[18] w2) => (y) { y = Conv(x, w, w2) }"},
        {"gemm", "N=1 H=5 W=7; N=2 H=1 W=1", "g (float[N,16,H,W] x, float[18,16,1,1] w) => (y) { y = Conv<strides = [2,2]>(x, w) }"},
        /* One pixel, but padded at the end only, and at the begin only. */
        {"gemm", "N=2 H=5 W=7", "g (float[N,16,H,W] x, float[6,16,1,1] w, float[6] w2) => (y) { y = Conv<pads = [0,0,1,2]>(x, w, w2) }"},
        {"gemm", "N=2 H=5 W=7", "g (float[N,16,H,W] x, float[6,16,1,1] w, float[6] w2) => (y) { y = Conv<pads = [1,2,0,0]>(x, w, w2) }"},
        {"gemm", "N=2 H=5 W=8", "g (float[N,16,H,W] x, float[6,16,4,4] w) => (y) { y = Conv<auto_pad = \"SAME_UPPER\", strides = [2,3]>(x, w) }"},
        {"gemm", "N=2 H=5 W=8", "g (float[N,3,H,W] x, float[6,3,4,4] w) => (y) { y = Conv<auto_pad = \"SAME_LOWER\">(x, w) }"},
        {"gemm", "N=1 H=5; N=4 H=33", "g (float[N,12,H] x, float[9,12,5] w, float[9] w2) => (y) { a = Conv<pads = [2,2]>(x, w, w2) y = Sigmoid(a) }"},
        {"gemm", "N=1 H=4 W=5; N=2 H=2 W=1; N=2 H=1 W=3",
         "g (float[N,2,3,H,W] x, float[9,2,2,1,3] w) => (y) { y = Conv<pads = [0,0,1,1,0,1]>(x, w) }"},
        {NULL, "N=1 H=4 W=5", "g (float[N,1,H,W] x, float[1,1,3,3] w, float[1] w2) => (y) { y = Conv<pads = [1,1,1,1]>(x, w, w2) }"},
    };
    (void)state;
    CHECK_ALL(cases);
}

static void test_conv_groups(void **state)
{
    static const test_case cases[] = {
        {"gemm", "N=1 H=5 W=7; N=2 H=4 W=1",
         "g (float[N,24,H,W] x, float[10,12,3,3] w, float[10] w2) => (y) { a = Conv<group = 2, pads = [1,1,1,1]>(x, w, w2) y = Relu(a) }"},
        {"gemm", "N=1 H=5 W=7", "g (float[N,12,H,W] x, float[30,4,3,3] w) => (y) { y = Conv<group = 3, pads = [1,1,1,1]>(x, w) }"},
        {"grouped", "N=1 H=5 W=7; N=2 H=5 W=2", "g (float[N,12,H,W] x, float[24,1,3,3] w, float[24] w2) => (y) { y = Conv<group = 12, pads = [1,1,1,1]>(x, w, w2) }"},
        {"gemm", "N=2 H=5 W=2", "g (float[N,32,H,W] x, float[34,16,1,1] w, float[34] w2, float[N,34,H,W] r) => (y) { a = Conv<group = 2>(x, w, w2) b = Add(a, r) y = Gelu(b) }"},
        {"depthwise", "N=1 H=5 W=7; N=2 H=8 W=3; N=1 H=1 W=1; N=0 H=4 W=4; N=2 H=2 W=2",
         "g (float[N,19,H,W] x, float[19,1,3,3] w, float[19] w2) => (y) { a = Conv<group = 19, pads = [1,1,1,1]>(x, w, w2) y = Relu(a) }"},
        {"depthwise", "N=2 H=9 W=9",
         "g (float[N,33,H,W] x, float[33,1,3,3] w) => (y, a) { a = Conv<group = 33, dilations = [2,2], strides = [2,2], pads = [2,1,0,2]>(x, w) b = Sigmoid(a) y = Mul(a, b) }"},
        {"depthwise", "N=2 H=9", "g (float[N,5,H] x, float[5,1,3] w, float[N,5,H] r) => (y) { a = Conv<group = 5, pads = [1,1]>(x, w) b = Add(r, a) y = Relu(b) }"},
        {"depthwise", "N=2 H=4 W=5", "g (float[N,5,3,H,W] x, float[5,1,3,3,1] w) => (y) { y = Conv<group = 5, pads = [1,1,0,1,1,0]>(x, w) }"},
    };
    (void)state;
    CHECK_ALL(cases);
}

static void test_conv_epilogues(void **state)
{
    static const test_case cases[] = {
        {"gemm", "N=1 H=5 W=7; N=3 H=2 W=2",
         "g (float[N,16,H,W] x, float[16,16,3,3] w, float[16] w2, float[16] p, float[16] w3, float[16] w4, float[16] p2) => (y)"
         "{ a = Conv<pads = [1,1,1,1]>(x, w, w2) b = BatchNormalization(a, p, w3, w4, p2) s = Add(b, x) y = Relu(s) }"},
        /* The sum is read again, and is an output. */
        {"gemm", "N=2 H=5 W=7",
         "g (float[N,16,H,W] x, float[16,16,3,3] w, float[16,16,1,1] w2) => (y, s)"
         "{ a = Conv<pads = [1,1,1,1]>(x, w) s = Add(a, x) b = Relu(s) c = Conv(b, w2) y = Add(c, s) }"},
        {"gemm", "N=2 D=3 H=1 W=4; N=1 D=2 H=3 W=1",
         "g (float[N,9,D,H,W] x, float[9,9,1,1,1] w) => (y, s) { a = Conv(x, w) b = Conv(a, w) s = Add(b, a) t = Tanh(s) y = Mul(t, s) }"},
        /* Residuals of other shapes. */
        {"gemm", "N=2 H=5 W=7; N=1 H=1 W=1", "g (float[N,9,H,W] x, float[9,9,1,1] w, float[9,1,1] r) => (y) { a = Conv(x, w) b = Add(a, r) y = Relu(b) }"},
        {"gemm", "N=2 H=5 W=7", "g (float[N,9,H,W] x, float[9,9,1,1] w, float[N,1,H,W] r) => (y) { a = Conv(x, w) y = Add(r, a) }"},
        {"gemm", "N=2 H=5 W=7", "g (float[N,9,H,W] x, float[9,9,1,1] w, float[W] r, float q) => (y) { a = Conv(x, w) b = Add(r, a) y = Mul(b, q) }"},
        {"gemm", "N=2 H=4 W=6", "g (float[N,9,H,W] x, float[9,9,1,1] w) => (y) <float[2] c = {0, 6}, int64 zero = {0}, int64 one = {1}, float lo = {-0.5}, float hi = {0.5}>"
                                " { a = Conv(x, w) b = Clip(a, lo, hi) d = Sub(b, lo) e = Pow(d, hi) y = Div(e, a) }"},
        {"gemm", "N=2 H=4 W=6", "g (float[N,3,H,W] x, float[4,3,3,3] w, float[1,4,1,1] w2, float w3, float[4,1,1] w4) => (y) { a = Conv(x, w) b = Add(a, w2) c = Add(w3, b) d = PRelu(c, w4) y = Add(d, w2) }"},
    };
    (void)state;
    CHECK_ALL(cases);
}

/* An operator without a kernel stays apart, so that what stands before it keeps its own. */
static void test_odd_steps(void **state)
{
    static const steps_case cases[] = {
        {"gemm", 1, "N=2 H=4 W=6", "g (float[N,9,H,W] x, float[9,9,1,1] w) => (y) { a = Conv(x, w) b = Atan(a) c = Tan(b) y = Shrink(c) }"},
        {"gemm", 2, "N=2 H=4 W=6", "g (float[N,9,H,W] x, float[9,9,1,1] w) => (y) { a = Conv(x, w) b = Relu(a) y = Celu<alpha = -1.0>(b) }"},
        {"reference", 2, "N=2 H=4 W=6", "g (float[N,9,H,W] x, float[9,9,1,1] w) => (y) { a = Conv(x, w) b = Relu(a) y = Celu<alpha = -1.0>(b) }"},
        {"gemm", 3, "N=2 S=6", "g (float[N,S,8] x, float[8,9] w) => (y) { a = MatMul(x, w) b = Celu<alpha = -1.0>(a) y = Sin(b) }"},
        {"softmax_f32", 2, "N=2 S=30", "g (float[N,S] x) => (y) <float zero = {0}> { a = Log(x) p = Softmax(a) n = IsNaN(p) y = Where(n, zero, p) }"},
        {"reduce", 1, "N=2 S=30", "g (float[N,S] x) => (y) <float zero = {0}> { a = Log(x) n = IsNaN(a) w = Where(n, zero, a) y = ReduceMax(w) }"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_steps(&cases[i]);
}

/* ---- products ---- */

static void test_matmul(void **state)
{
    static const test_case cases[] = {
        {"gemm", "N=1 S=1; N=3 S=7; N=2 S=13; N=0 S=5; N=2 S=0",
         "g (float[N,S,19] x, float[19,37] w, float[37] w2) => (y) { a = MatMul(x, w) b = Add(a, w2) y = Gelu(b) }"},
        {"gemm", "S=1; S=14", "g (float[S,8] x, float[8,5] w, float[S,5] r) => (y, b) { a = MatMul(x, w) b = Add(r, a) y = Tanh(b) }"},
        {"gemm", "N=2 S=3 T=5 K=7; N=1 S=1 T=1 K=1; N=3 S=6 T=33 K=0; N=2 S=5 T=0 K=3; N=2 S=5 T=4 K=17",
         "g (float[N,2,S,K] x, float[N,2,K,T] q) => (y) { y = MatMul(x, q) }"},
        {"gemm", "N=3 S=5 K=6 T=4", "g (float[N,1,S,K] x, float[2,K,T] q) => (y) { a = MatMul(x, q) y = Sigmoid(a) }"},
        {"gemm", "N=3 S=5 K=6 T=4", "g (float[S,K] x, float[N,K,T] q) => (y) { y = MatMul(x, q) }"},
        {"gemm", "N=3 S=5 K=6", "g (float[N,S,K] x, float[K,9] q) => (y) { y = MatMul(x, q) }"},
        {"gemm", "K=6 T=4; K=1 T=1; K=0 T=3", "g (float[K] x, float[K,T] q) => (y) { y = MatMul(x, q) }"},
        {"gemm", "K=6 S=4", "g (float[S,K] x, float[K] q) => (y) { a = MatMul(x, q) y = Relu(a) }"},
        {"gemm", "K=6; K=1; K=0", "g (float[K] x, float[K] q) => (y) { y = MatMul(x, q) }"},
        {"gemm", "K=6 T=5 N=3", "g (float[K] x, float[2,N,K,T] q) => (y) { y = MatMul(x, q) }"},
        {"gemm", "K=6 T=5 N=3", "g (float[2,N,T,K] x, float[K] q) => (y) { y = MatMul(x, q) }"},
        {"gemm", "N=1", "g (float[9] x, float[9,20] w) => (y) { y = MatMul(x, w) }"},
        {"gemm", "N=4 S=3", "g (float[N,S,9] x, float[2,1,9,20] w) => (y) { y = MatMul(x, w) }"},
        {"gemm", "N=4", "g (float[9,N] x, float[7,9] w) => (y) { y = MatMul(w, x) }"},
        /* Rows of nothing. */
        {NULL, "N=2", "g (float[N,0] x, float[0,64] w, float[64] w2) => (y) { a = MatMul(x, w) y = Add(a, w2) }"},
        /* Rows so long that they are multiplied in parts. */
        {"gemm", "N=157; N=3", "g (float[N,2900] x, float[2900,37] w, float[37] w2, float[N,37] r) => (y) { a = MatMul(x, w) b = Add(a, w2) c = Add(b, r) y = Relu(c) }"},
        {"gemm", "N=2", "g (float[N,3000,12,13] x, float[33,3000,1,1] w, float[33] w2) => (y, z) { a = Relu(x) b = Conv(a, w, w2) y = Clip(b) z = Conv(a, w) }"},
        /* Operands that are views. */
        {"gemm", "N=2 S=5", "g (float[N,S,2,8] q, float[N,S,2,8] k) => (y) <float c = {0.5}> { a = Transpose<perm = [0,2,1,3]>(q) b = Transpose<perm = [0,2,3,1]>(k) d = MatMul(a, b) y = Mul(d, c) }"},
        {"gemm", "N=2 S=5", "g (float[N,7,S] x, float[7,20] w, float[20] w2) => (y) { a = Transpose<perm = [0,2,1]>(x) b = MatMul(a, w) y = Add(b, w2) }"},
        {"gemm", "N=3 S=5", "g (float[N,1,7] x, float[7,20] w, float[7,S] q) => (y, z) <int64[3] s = {3,5,7}> { a = Expand(x, s) y = MatMul(a, w) z = MatMul(a, q) }"},
        {"gemm", "N=2 S=5", "g (float[N,S,9] x, float[4,20] w) => (y) <int64[1] a = {-2}, int64[1] b = {-100}, int64[1] two = {2}, int64[1] m = {-2}> { s = Slice(x, a, b, two, m) y = MatMul(s, w) }"},
    };
    (void)state;
    CHECK_ALL(cases);
}

static void test_gemm(void **state)
{
    static const test_case cases[] = {
        {"gemm", "M=1; M=7; M=0", "g (float[M,9] x, float[20,9] w, float[20] w2) => (y) { a = Gemm<transB = 1>(x, w, w2) y = Relu(a) }"},
        {"gemm", "M=5", "g (float[9,M] x, float[9,20] w, float[1,20] w2) => (y) { y = Gemm<transA = 1>(x, w, w2) }"},
        {"gemm", "M=5", "g (float[M,9] x, float[9,20] w, float w2) => (y) { y = Gemm(x, w, w2) }"},
        {"gemm", "M=5", "g (float[M,9] x, float[9,20] w, float[1] w2) => (y) { y = Gemm(x, w, w2) }"},
        {"gemm", "M=5; M=1", "g (float[M,9] x, float[9,20] w, float[M,1] r) => (y) { a = Gemm(x, w, r) y = Tanh(a) }"},
        {"gemm", "M=5", "g (float[M,9] x, float[9,20] w, float[M,20] r) => (y) { a = Gemm(x, w, r) y = Relu(a) }"},
        {"gemm", "M=5", "g (float[M,9] x, float[9,20] w, float[20] r) => (y) { y = Gemm(x, w, r) }"},
        {"gemm", "M=5", "g (float[M,9] x, float[9,1] w, float[M,1] r, float[1] w2) => (y, z) { y = Gemm(x, w, r) z = Gemm(x, w, w2) }"},
        {"gemm", "M=5", "g (float[M,9] x, float[9,20] w) => (y) { a = Gemm(x, w) b = Gelu(a) y = Mul(b, a) }"},
        {NULL, "M=5; M=0", "g (float[M,9] x, float[20,9] w, float[20] w2) => (y) { y = Gemm<alpha = 0.5, beta = 2.0, transB = 1>(x, w, w2) }"},
        {NULL, "M=5 N=3 K=4; M=2 N=3 K=0", "g (float[K,M] x, float[N,K] q, float[N] r) => (y) { a = Gemm<alpha = 0.25, beta = -1.0, transA = 1, transB = 1>(x, q, r) y = Relu(a) }"},
    };
    (void)state;
    CHECK_ALL(cases);
}

/* Products whose columns a Split takes apart: each part is written where it belongs, whatever its readers want. */
static void test_parts(void **state)
{
#define SPLIT_QKV(body) "g (float[N,S,9] x, float[9,48] w, float[48] w1) => (a, b, c) <int64[3] s = {17,30,1}> { " body " a, b, c = Split<axis = -1>(y, s) }"
    static const test_case cases[] = {
        {"gemm", "N=2 S=5; N=1 S=1; N=3 S=13; N=0 S=2", SPLIT_QKV("y = MatMul(x, w)")},
        {"gemm", "N=2 S=5", SPLIT_QKV("m = MatMul(x, w) n = Add(m, w1) y = Gelu(n)")},
        {"gemm", "N=2 S=5",
         "g (float[N,S,9] x, float[9,48] w, float[S,48] r, float[N,1,48] t) => (a, b, z) <int64[3] s = {16,16,16}>"
         "{ m = MatMul(x, w) n = Add(m, r) o = Mul(n, t) y = Tanh(o) a, b, c = Split<axis = 2>(y, s) z = Transpose<perm = [0,2,1]>(c) }"},
        {"gemm", "N=2 S=5",
         "g (float[S,N,9] x, float[9,21] w, float[21] w1) => (z, b, d) <int64[2] s = {20,1}, int64[4] h = {0,0,4,5}>"
         "{ t = Transpose<perm = [1,0,2]>(x) m = MatMul(t, w) y = Add(m, w1) a, b = Split<axis = -1>(y, s) r = Reshape(a, h) u = Transpose<perm = [0,2,1,3]>(r) z = Exp(u) d = Softmax(b) }"},
        {"gemm", "N=3; N=1", "g (float[N,4] x, float[33,4] w, float[33] w1) => (a, b, c) <int64[4] s = {0,7,26,0}> { y = Gemm<transB = 1>(x, w, w1) e, a, b, c = Split<axis = 1>(y, s) f = Relu(e) }"},
        {"gemm", "N=3 S=4", "g (float[N,S,5] x, float[N,5,19] r) => (a, b) <int64[2] s = {18,1}> { y = MatMul(x, r) a, b = Split<axis = -1>(y, s) }"},
        /* Another axis, a second reader, an output: the result is whole, and the parts are views. */
        {"gemm", "N=2 S=4", "g (float[N,S,5] x, float[5,19] w) => (a, b) { y = MatMul(x, w) a, b = Split<axis = 1, num_outputs = 2>(y) }"},
        {"gemm", "N=2 S=4", "g (float[N,S,5] x, float[5,19] w) => (a, b, y, z) <int64[2] s = {18,1}> { y = MatMul(x, w) a, b = Split<axis = -1>(y, s) z = Neg(y) }"},
        {NULL, "N=2 S=4", "g (float[S] x, float[N,S,6] q, float[N,4,S] r) => (a, b, c, e) { y = MatMul(x, q) a, b = Split<axis = -1, num_outputs = 2>(y) z = MatMul(r, x) c, e = Split<axis = -1, num_outputs = 2>(z) }"},
    };
    (void)state;
    CHECK_ALL(cases);
    check_case(&cases[1], all_threads);
}

/* ---- rows ---- */

static void test_rows(void **state)
{
    static const test_case cases[] = {
        {"layer_norm", "N=1 S=1; N=3 S=5; N=0 S=2", "g (float[N,S,37] x, float[37] w, float[37] w2) => (y) { y = LayerNormalization(x, w, w2) }"},
        {"layer_norm", "N=3", "g (float[N,5,7] x, float[5,7] w) => (y) { y = LayerNormalization<axis = 1, epsilon = 1e-3>(x, w) }"},
        {"layer_norm", "N=3 S=4", "g (float[N,S,9] x, float[9] w, float[9] w2) => (y, m, v) { y, m, v = LayerNormalization(x, w, w2) }"},
        {"layer_norm", "N=3 S=4", "g (float[N,9,S] x, float[9] w, float[9] w2) => (y) { t = Transpose<perm = [0,2,1]>(x) y = LayerNormalization(t, w, w2) }"},
        {"layer_norm", "N=3 S=4",
         "g (float[N,S,9] x, float[N,S,9] r, float[9] w, float[9] w2, float[9,9] w3) => (y, s) { s = Add(x, r) n = LayerNormalization(s, w, w2) m = MatMul(n, w3) y = Add(m, s) }"},
        {NULL, "N=3 S=4", "g (float[N,S,9] x, float[9] q, float[9] r) => (y) { y = LayerNormalization(x, q, r) }"},
        {"rms_norm", "N=3 S=4", "g (float[N,S,40] x, float[40] w) => (y) { a = RMSNormalization(x, w) y = Sigmoid(a) }"},
        {"softmax", "N=3 S=4; N=1 S=1; N=2 S=33; N=0 S=4; N=3 S=0", "g (float[N,S] x) => (y, z) { y = Softmax(x) z = LogSoftmax(x) }"},
        {NULL, "N=3 S=4", "g (float[N,S,3] x) => (y) { y = Softmax<axis = 1>(x) }"},
        {"softmax", "N=2 S=5", "g (float[N,2,S,8] q, float[N,2,8,S] k, float[N,1,1,S] m) => (y) <float c = {0.25}> { a = MatMul(q, k) b = Mul(a, c) d = Add(b, m) y = Softmax(d) }"},
        {"softmax", "N=2 S=5", "g (float[N,S,7] x, float[N,S,1] r) => (y) { a = Softmax(x) y = Mul(a, r) }"},
        {"softmax", "N=2", "g (float[N,3] x) => (y) { a = Softmax(x) b = Softmax(a) y = Softmax(b) }"},
    };
    (void)state;
    CHECK_ALL(cases);
}

/* ---- pools and reductions ---- */

static void test_pool(void **state)
{
    static const test_case cases[] = {
        {"pool_max", "N=1 H=9 W=7; N=2 H=3 W=3; N=0 H=4 W=4", "g (float[N,19,H,W] x) => (y) { y = MaxPool<kernel_shape = [3,3], strides = [2,2], pads = [1,1,1,1]>(x) }"},
        {"pool_max", "N=2 H=9 W=8; N=1 H=6 W=5", "g (float[N,4,H,W] x) => (y) { y = MaxPool<kernel_shape = [2,3], strides = [2,3], ceil_mode = 1>(x) }"},
        {"pool_max", "N=2 H=9 W=8", "g (float[N,4,H,W] x) => (y) { y = MaxPool<kernel_shape = [3,2], dilations = [2,3]>(x) }"},
        {NULL, "N=2 H=9 W=8", "g (float[N,4,H,W] x) => (y, i) { y, i = MaxPool<kernel_shape = [3,2]>(x) }"},
        {"pool_max", "N=2 H=9", "g (float[N,4,H] x) => (y) { y = MaxPool<kernel_shape = [3], pads = [1,1]>(x) }"},
        {"pool_sum", "N=2 H=4 W=5", "g (float[N,4,3,H,W] x) => (y) { y = AveragePool<kernel_shape = [2,2,2], pads = [1,0,1,0,1,0]>(x) }"},
        {"pool_sum", "N=2 H=9 W=7", "g (float[N,4,H,W] x) => (y) { y = AveragePool<kernel_shape = [3,3], strides = [2,2], pads = [1,1,1,1], count_include_pad = 1>(x) }"},
        {"pool_sum", "N=2 H=8 W=7", "g (float[N,4,H,W] x) => (y) { y = AveragePool<kernel_shape = [3,3], strides = [2,2], pads = [1,1,0,0], count_include_pad = 1, ceil_mode = 1>(x) }"},
        {"pool_sum", "N=2 H=8 W=7", "g (float[N,4,H,W] x) => (y) { y = AveragePool<kernel_shape = [3,3], strides = [2,2], ceil_mode = 1>(x) }"},
        {"plane_sum", "N=2 H=8 W=7", "g (float[N,19,H,W] x) => (y) { y = GlobalAveragePool(x) }"},
        {NULL, "N=1 H=1 W=1; N=2 H=1 W=3", "g (float[N,19,H,W] x) => (y, z) { y = GlobalAveragePool(x) z = GlobalMaxPool(x) }"},
        {"plane_max", "N=2 H=8 W=7", "g (float[N,5,H,W] x) => (y) { a = GlobalMaxPool(x) y = Relu(a) }"},
        {"plane_sum", "N=2 H=8", "g (float[N,5,H] x) => (y) { y = GlobalAveragePool(x) }"},
        {"pixel_sum", "N=2 H=8 W=7", "g (float[N,3,H,W] x, float[9,3,2,2] w) => (y, z) { a = Conv(x, w) y = GlobalAveragePool(a) z = GlobalMaxPool(a) }"},
        /* Lines of the window folded to one: pieces, borders wider than the image, windows that see nothing of it. */
        {"pool_max", "N=2 H=5 W=300; N=1 H=3 W=67; N=1 H=1 W=1", "g (float[N,50,H,W] x) => (y) { y = MaxPool<kernel_shape = [3,3], strides = [2,2], pads = [1,1,1,1]>(x) }"},
        {"pool_sum", "N=1 H=5 W=300; N=1 H=3 W=67", "g (float[N,50,H,W] x) => (y) { y = AveragePool<kernel_shape = [3,3], pads = [1,1,1,1]>(x) }"},
        {"pool_max", "N=1 H=13 W=13; N=2 H=2 W=150", "g (float[N,64,H,W] x) => (y) { y = MaxPool<kernel_shape = [9,9], pads = [4,4,4,4]>(x) }"},
        {"pool_sum", "N=1 H=6 W=70", "g (float[N,64,H,W] x) => (y) { y = AveragePool<kernel_shape = [5,7], dilations = [1,3], strides = [1,2], pads = [2,9,2,9], count_include_pad = 1>(x) }"},
        {"pool_max", "N=1 H=4 W=3; N=2 H=5 W=40", "g (float[N,3,H,W] x) => (y) { y = MaxPool<kernel_shape = [3,3], dilations = [4,4], pads = [7,7,7,7]>(x) }"},
        {"pool_sum", "N=1 H=4 W=3; N=2 H=5 W=40", "g (float[N,16,H,W] x) => (y) { y = AveragePool<kernel_shape = [2,2], dilations = [5,5], strides = [1,2], pads = [7,7,7,7]>(x) }"},
        {"pool_max", "N=1 H=4 W=9", "g (float[N,7,5,H,W] x) => (y) { y = MaxPool<kernel_shape = [3,3,3], strides = [1,2,2], pads = [1,1,1,1,1,1]>(x) }"},
        {"pool_max", "N=1 W=5000", "g (float[N,9,W] x) => (y) { y = MaxPool<kernel_shape = [5], strides = [2], pads = [2,2]>(x) }"},
        /* Lines of planes: more of them than are copied, wide steps, borders, and a result that a reshape wants in planes. */
        {"pool_max", "N=2 H=9 W=8", "g (float[N,9,H,W] x) => (y) { y = MaxPool<kernel_shape = [7,3], pads = [3,1,3,1]>(x) }"},
        {"pool_max", "N=2 H=9 W=8", "g (float[N,9,H,W] x) => (y) { a = MaxPool<kernel_shape = [3,3], strides = [3,2], pads = [1,1,1,1]>(x) y = Flatten(a) }"},
        {"pool_sum", "N=2 H=9 W=8", "g (float[N,9,H,W] x, float[N,9,H,W] r) => (y, b) { a = AveragePool<kernel_shape = [3,3], pads = [1,1,1,1]>(x) b = Add(a, r) y = Relu(b) }"},
        /* After a convolution, and with steps. */
        {"pool_max", "N=2 H=8 W=7",
         "g (float[N,3,H,W] x, float[20,3,3,3] w) => (y) { a = Conv(x, w) b = MaxPool<kernel_shape = [2,2]>(a) c = Relu(b) d = AveragePool<kernel_shape = [3,1]>(c) y = GlobalAveragePool(d) }"},
        {"plane_sum", "N=2 H=5 W=4",
         "g (float[N,16,H,W] x, float[4,16,1,1] w, float[16,4,1,1] w2) => (y) { a = GlobalAveragePool(x) b = Conv(a, w) c = Relu(b) d = Conv(c, w2) e = Sigmoid(d) y = Mul(x, e) }"},
    };
    (void)state;
    CHECK_ALL(cases);
}

static void test_reduce(void **state)
{
    static const test_case cases[] = {
        {"reduce_sum", "N=2 S=5; N=1 S=1; N=0 S=2", "g (float[N,S,37] x) => (y, z) <int64[1] a = {-1}> { y = ReduceMean(x, a) z = ReduceSum<keepdims = 0>(x, a) }"},
        {"reduce_max", "N=2 S=5", "g (float[N,S,3] x) => (y) <int64[2] a = {1,2}> { y = ReduceMax<keepdims = 0>(x, a) }"},
        {"reduce_sum", "N=2 S=5", "g (float[N,S,3] x) => (y) { y = ReduceSum(x) }"},
        {NULL, "N=2 S=5", "g (float[N,S,3] x) => (y) { y = ReduceSum<noop_with_empty_axes = 1>(x) }"},
        {NULL, "N=2 S=5; N=2 S=0", "g (float[N,S,3] x) => (y) <int64[1] a = {1}> { y = ReduceSum(x, a) }"},
        {"pixel_sum", "N=2 H=5 W=3; N=1 H=1 W=1",
         "g (float[N,3,H,W] x, float[20,3,1,1] w) => (y, z) <int64[2] a = {2,3}> { b = Conv(x, w) c = Relu(b) y = ReduceMean<keepdims = 0>(c, a) z = ReduceSum(c, a) }"},
        {NULL, "N=2 H=5", "g (float[N,H,4] x) => (y) <int64[1] a = {-1}> { t = Transpose<perm = [1,0,2]>(x) y = ReduceMax(t, a) }"},
        {NULL, "N=2 H=5", "g (int64[N,H] x) => (y) <int64[1] a = {-1}> { y = ReduceSum(x, a) }"},
    };
    (void)state;
    CHECK_ALL(cases);
}

/* ---- movement ---- */

static void test_movement(void **state)
{
    static const test_case cases[] = {
        {"concat", "N=2 S=3 T=4; N=1 S=0 T=2; N=0 S=1 T=1", "g (float[N,S,5] x, float[N,T,5] q) => (y) { y = Concat<axis = 1>(x, q, x) }"},
        {"concat", "N=2 S=3", "g (float[N,S] x, float[N,S] q) => (y, z, u) { y = Concat<axis = 0>(x, q) z = Concat<axis = -1>(q, x) a = Relu(y) u = Concat<axis = 0>(a, y, x) }"},
        {"concat", "N=2 H=3 W=4", "g (float[N,3,H,W] x, float[5,3,1,1] w, float[18,8,3,3] w2) => (y) { a = Conv(x, w) b = Concat<axis = 1>(a, x) c = Relu(b) y = Conv<pads = [1,1,1,1]>(c, w2) }"},
        {"concat", "N=2", "g (int32[N] x) => (y) { y = Concat<axis = 0>(x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x) }"},
        {"gather_rows", "N=2 S=3; N=1 S=1; N=0 S=3", "g (int64[N,S] i, float[2,7] w) => (y) { y = Gather(w, i) }"},
        {NULL, "N=2 S=3", "g (float[N,S,5] x) => (y, z) <int64 i = {-1}, int32[2] j = {0,-2}> { y = Gather(x, i) z = Gather(x, j) }"},
        {NULL, "N=2 S=3", "g (float[N,S,5] x, int64[2,2] i) => (y) { y = Gather<axis = 1>(x, i) }"},
        {NULL, "N=2", "g (float[1,3,1] x, int64[N] i) => (y) <int64[3] s = {2,3,4}> { a = Expand(x, s) y = Gather(a, i) }"},
        {NULL, "N=2", "g (float[3,1] x, int64[N] i) => (y) <int64[2] s = {3,4}> { a = Expand(x, s) y = Gather(a, i) }"},
        {"gather_rows", "N=2", "g (float[4] x, int64[N] i) => (y) { a = Neg(x) y = Gather(a, i) }"},
        {NULL, "N=2 S=3", "g (float[N,S,4] x) => (y) <int64[2] s = {-1,4}, int64[4] t = {3,2,2,2}> { a = Transpose<perm = [1,0,2]>(x) b = Reshape(a, s) c = Relu(b) d = Reshape(c, t) y = Transpose(d) }"},
        {NULL, "N=4 S=6", "g (float[N,S,5] x) => (y, z) <int64[2] a = {3,-1}, int64[2] b = {-100,0}, int64[2] s = {-1,-2}, int64[2] ax = {0,1}> { y = Slice(x, a, b, ax, s) c = Exp(y) z = Add(c, y) }"},
        {NULL, "N=4", "g (float[N,12] x) => (y, z, u) <int64[3] s = {3,5,4}> { a, b, c = Split<axis = 1>(x, s) y = Relu(b) z = Concat<axis = 1>(c, a) d = Softmax(b) u = Sigmoid(d) }"},
        {NULL, "N=4", "g (float[N,1,3] x) => (y, z) <int64[1] a = {1}, int64[2] b = {0,3}> { c = Squeeze(x, a) y = Sqrt(c) d = Unsqueeze(c, b) e = Flatten<axis = 2>(d) z = Tanh(e) }"},
        {NULL, "N=2 S=3", "g (float[N,1,S,1] x) => (y) <int64[4] s = {1,4,1,2}> { a = Expand(x, s) b = Transpose<perm = [3,2,1,0]>(a) y = Neg(b) }"},
        {NULL, "N=2 S=3; N=0 S=3", "g (float[N,S] x) => (y) <int64[4] p = {1,0,0,2}, float v = {2}> { a = Pad(x, p, v) y = Relu(a) }"},
        {NULL, "N=2 S=3", "g (uint8[N,S] x) => (y, z) { y = Transpose(x) z = Cast<to = 1>(y) }"},
    };
    (void)state;
    CHECK_ALL(cases);
}

static void test_elementwise(void **state)
{
    static const test_case cases[] = {
        {"elementwise", "N=2 S=3; N=1 S=1; N=0 S=3; N=5 S=40", "g (float[N,S] x, float[S] q, float[N,1] r, float s, float[1] t) => (y) { a = Add(x, q) b = Mul(a, r) c = Sub(s, b) d = Div(c, t) y = Tanh(d) }"},
        {"elementwise", "N=2 S=3", "g (float x, float q) => (y, z) { y = Add(x, q) a = Exp(y) z = Mul(a, x) }"},
        {"elementwise", "N=9000; N=8192; N=16384; N=20000", "g (float[N] x, float[N] q) => (y) { a = Mul(x, q) b = Sigmoid(a) y = Mul(a, b) }"},
        {"elementwise", "N=2 C=5 H=3", "g (float[N,C,H] x, float[C,1] q) => (y, z) { t = Transpose<perm = [0,2,1]>(x) y = Relu(t) a = Mul(x, q) z = Max(a, x, q) }"},
        {"elementwise", "N=2 C=5 H=3", "g (float[N,1,H] x, float[C,1] q) => (y) { a = Min(x, q) b = Softplus(a) y = Add(b, a) }"},
        {"elementwise", "N=2 C=5", "g (float[N,C] x, float q, float r) => (y, z) { y = Clip(x, q, r) z = Clip(x, , r) }"},
        {"elementwise", "N=2 C=5", "g (float[N,C] x) => (y) <float two = {2}, float half = {0.5}, float p = {1.5}> { a = Pow(x, two) b = Pow(a, half) y = Pow(b, p) }"},
        {NULL, "N=2 C=5", "g (float[N,C] x, float[N,C] q) => (y, z) { a = Greater(x, q) y = Where(a, x, q) b = Not(a) z = Cast<to = 1>(b) }"},
        {NULL, "N=2 C=5; N=0 C=1", "g (int32[N,C] x, int32[C] q) => (y) { a = Add(x, q) b = Mul(a, a) y = Sub(b, x) }"},
        {NULL, "N=2 C=5", "g (double[N,C] x) => (y) { a = Exp(x) y = Mul(a, x) }"},
        {"elementwise", "N=2 C=5", "g (float[N,C] x) => (y) { a = Selu(x) b = Elu<alpha = 0.5>(a) c = LeakyRelu<alpha = 0.3>(b) d = ThresholdedRelu<alpha = 0.1>(c) e = HardSigmoid(d) f = Mish(e) h = Softsign(f) y = Neg(h) }"},
        {"elementwise", "N=2 C=5",
         "g (float[N,C] a, float[N,C] b, float[C] c, float[N,1] e, float f, float[N,C] h, float[N,C] i, float[C] j, float[N,C] k, float[N,C] l) => (y, z)"
         "{ t1 = Add(a, b) t2 = Mul(t1, c) t3 = Sub(t2, e) t4 = Mul(t3, f) t5 = Add(t4, h) t6 = Mul(t5, i) t7 = Add(t6, j) t8 = Mul(t7, k) z = Add(t8, l) t9 = Mul(z, t1) t10 = Add(t9, t3) y = Sigmoid(t10) }"},
        {"elementwise", "N=2 C=5; N=0 C=5; N=3 C=700",
         "g (float[N,C] x, float[C] q) => (y) { a = Tan(x) b = Atan(a) c = Sinh(b) d = Asinh(c) e = Cosh(d) f = Acosh(e) h = Tanh(f) i = Atanh(h) j = Sin(i) k = Asin(j) l = Acos(j) y = Mean(k, l, q) }"},
        {"elementwise", "N=2 C=5; N=3 C=700",
         "g (float[N,C] x, float[C] q, float[N,C] z) => (y) { a = Mod<fmod = 1>(x, q) b = Mod(a, z) c = Shrink<bias = 0.1, lambd = 0.3>(b) d = Celu<alpha = 0.7>(c) y = Mean(d) }"},
        {NULL, "N=2 C=5; N=3 C=700", "g (float[N,C] x) => (y) { a = Exp(x) b = Celu<alpha = -0.7>(a) y = Neg(b) }"},
        /* NaN that become a number. */
        {NULL, "N=2 C=5; N=3 C=700; N=0 C=2", "g (float[N,C] x, float[C] q) => (y) <float low = {-7}> { a = Sqrt(x) b = Mul(a, q) c = IsNaN(b) d = Where(c, low, b) y = Add(d, x) }"},
        {NULL, "N=3 C=7; N=2 C=70", "g (float[N,C] x) => (y) <float zero = {0}> { a = Log(x) p = Softmax(a) n = IsNaN(p) y = Where(n, zero, p) }"},
        {NULL, "N=3 C=7", "g (float[N,C] x, float[N,C] q) => (y) <float one = {1}> { a = Log(x) b = Log(q) c = IsNaN(b) d = Where(c, one, b) y = Mul(a, d) }"},
        {NULL, "N=3 C=7", "g (float16[N,C] x) => (y) <float16 zero = {0}> { a = Log(x) p = Softmax(a) n = IsNaN(p) y = Where(n, zero, p) }"},
        {NULL, "N=2 H=4; N=0 H=4", "g (float[N,5,H] x, float[5] p, float[5] w, float[5] w2, float[5] p2) => (y) { y = BatchNormalization(x, p, w, w2, p2) }"},
    };
    (void)state;
    CHECK_ALL(cases);
}

/* Every way in which an output is no fresh tensor of its own. */
/* Steps that convert: levels stay floats on fast kernels; what is not float converts as it likes. */
static void test_conversions(void **state)
{
    static const test_case cases[] = {
        {NULL, "N=2 S=5; N=0 S=1", "g (float[N,S] x) => (y) <float s = {0.11}, uint8 z = {7}> { q = QuantizeLinear(x, s, z) y = DequantizeLinear(q, s, z) }"},
        {"elementwise", "N=2 S=5", "g (float[N,S] x, float[S] b) => (y) <float s = {0.25}, int8[1] z = {-3}> { a = Add(x, b) q = QuantizeLinear(a, s, z) d = DequantizeLinear(q, s, z) y = Relu(d) }"},
        {NULL, "N=2 S=5", "g (float[N,S] x) => (y) <float s = {0.001}> { q = QuantizeLinear(x, s) y = DequantizeLinear(q, s) }"},
        {"gemm", "N=2 H=7 W=6",
         "g (float[N,3,H,W] x, float[20,3,3,3] w, float[20] w2) => (y) <float s = {0.2}, uint8 z = {100}, float t = {0.3}, int16 u = {5}>"
         "{ c = Conv(x, w, w2) q = QuantizeLinear(c, s, z) d = DequantizeLinear(q, s, z) r = Relu(d) p = QuantizeLinear(r, t, u) y = DequantizeLinear(p, t, u) }"},
        {"gemm", "N=2 H=7 W=6",
         "g (float[N,3,H,W] x, float[N,20,H,W] r, float[20,3,1,1] w) => (y) <float s = {0.2}, uint8 z = {100}>"
         "{ c = Conv(x, w) q = QuantizeLinear(c, s, z) d = DequantizeLinear(q, s, z) p = QuantizeLinear(r, s, z) e = DequantizeLinear(p, s, z) y = Add(d, e) }"},
        /* Levels that are read and stored: alone, together, broadcast, from another order of axes. */
        {"elementwise", "N=2 S=5; N=3 S=700", "g (float[N,S] x) => (y) <float s = {0.02}, uint8 z = {131}> { y = QuantizeLinear(x, s, z) }"},
        {"elementwise", "N=2 S=5; N=3 S=700", "g (int8[N,S] x) => (y) <float s = {0.02}, int8 z = {-7}> { y = DequantizeLinear(x, s, z) }"},
        {"elementwise", "N=2 S=5; N=3 S=700; N=40 S=512",
         "g (uint8[N,S] x, int8[S] v) => (y) <float s = {0.02}, uint8 z = {131}, float t = {0.5}, float u = {0.1}, int8 q = {3}>"
         "{ a = DequantizeLinear(x, s, z) b = DequantizeLinear(v, t) c = Add(a, b) y = QuantizeLinear(c, u, q) }"},
        {"elementwise", "N=2 S=5",
         "g (uint8[N,S] x, float[S,N] v) => (y, c) <float s = {0.02}, float u = {0.1}>"
         "{ a = DequantizeLinear(x, s) t = Transpose(a) c = Mul(t, v) d = Relu(c) y = QuantizeLinear(d, u) }"},
        {"elementwise", "N=2 S=5",
         "g (int8[N,S] x, int8[N,S] v, float s, int8 z, float[1] t, int8[1] q) => (y)"
         "{ a = DequantizeLinear(x, s, z) b = DequantizeLinear(v, t) c = Mul(a, b) y = QuantizeLinear(c, s, q) }"},
        {NULL, "N=2 S=5", "g (uint8[N,S] x, uint8[N,S] v) => (y, z) <float s = {0.02}> { y = Max(x, v) z = DequantizeLinear(y, s) }"},
        /* Two scales, a level that others read, levels of 4 bits: no pair. */
        {NULL, "N=2 S=5", "g (float[N,S] x) => (y) <float s = {0.25}, float t = {0.5}> { q = QuantizeLinear(x, s) y = DequantizeLinear(q, t) }"},
        {NULL, "N=2 S=5", "g (float[N,S] x) => (y, q) <float s = {0.25}> { q = QuantizeLinear(x, s) y = DequantizeLinear(q, s) }"},
        {NULL, "N=2 S=5", "g (float[N,S] x) => (y, z) <float s = {0.25}> { q = QuantizeLinear(x, s) y = DequantizeLinear(q, s) z = Transpose(q) }"},
        {NULL, "N=2 S=4", "g (float[N,S] x) => (y) <float s = {0.25}, int4 z = {1}> { q = QuantizeLinear(x, s, z) y = DequantizeLinear(q, s, z) }"},
        {NULL, "N=2", "g (float[N,3] x, float[3] s) => (y) { q = QuantizeLinear(x, s) y = DequantizeLinear(q, s) }"},
        {"reference", "M=3 K=4 N=5",
         "g (float[M,K] x, int8[K,N] v, float[1] t, float[N] b) => (y) { q, s, z = DynamicQuantizeLinear(x) m = MatMulInteger(q, v, z) f = Cast<to = 1>(m) u = Mul(s, t) p = Mul(f, u) y = Add(p, b) }"},
        /* A scale of unproven length is taken to fit; where it enlarges the product, the graph runs as loaded. */
        {NULL, "M=3 K=4 N=5 C=5; M=3 K=4 N=5 C=1; M=3 K=4 N=1 C=6",
         "g (uint8[M,K] x, int8[K,N] v, float[C] t) => (y) { m = MatMulInteger(x, v) f = Cast<to = 1>(m) p = Mul(f, t) y = Relu(p) }"},
        {NULL, "M=3 N=4; M=3 N=1", "g (float[M,2] x, float[2,N] v, float[1,4] t) => (y) { m = MatMul(x, v) y = Add(t, m) }"},
        {"reference", "M=3 N=5", "g (float[M,N] x, float16[M,N] z) => (y) { h = Cast<to = 10>(x) a = Add(h, z) y = Cast<to = 1>(a) }"},
        {NULL, "M=3 N=5", "g (float[M,N] x, float16[M,N] z) => (y) { f = Cast<to = 1>(z) a = Exp(f) b = Mul(a, x) y = Cast<to = 10>(b) }"},
        {NULL, "M=3 N=5", "g (float[M,N] x, int64[M,N] i) => (y) { f = Cast<to = 1>(i) a = Add(f, x) y = Relu(a) }"},
    };
    (void)state;
    CHECK_ALL(cases);
}

/* A factor a column becomes part of weights, of all that read what is scaled, or of none. */
static void test_columns(void **state)
{
    static const test_case cases[] = {
        {"gemm", "N=2 S=5; N=0 S=3; N=1 S=1", "g (float[N,S,16] x, float[16,24] w, float[16] w2) => (y) { a = Mul(w2, x) b = MatMul(a, w) y = Relu(b) }"},
        {"gemm", "N=2 S=5", "g (float[N,S,16] x, float[16,24] w, float[16,7] w3, float[1,1,16] p) => (y, z, u) { a = Div(x, p) y = MatMul(a, w) z = MatMul(a, w3) u = MatMul(a, w) }"},
        {NULL, "N=9; N=1", "g (float[N,16] x, float[7,16] w, float[7] w4, float[16] w2, float[1,16] w3) => (y) { a = Mul(x, w2) b = Mul(a, w3) y = Gemm<transB = 1, alpha = 0.5>(b, w, w4) }"},
        {NULL, "N=3 S=5", "g (float[N,S,16] x, float[16] w2, float[16] w) => (y) { a = Mul(x, w2) y = MatMul(a, w) }"},
        {NULL, "N=3", "g (float[16] x, float[N,16] u, float[16] w2, float[3,16,4] w) => (y, z) { a = Mul(x, w2) y = MatMul(a, w) b = Mul(u, w2) z = MatMul(b, w) }"},
        {NULL, "N=5", "g (float[N,16] x, float[16,8] v, float[16] w2, float[16,4] w) => (y, z, u) { a = Mul(x, w2) y = MatMul(a, w) b = Mul(x, w2) z = MatMul(b, v) u = Exp(z) }"},
        {NULL, "N=3 S=5", "g (float16[N,S,16] x, float16[16,24] w, float16[16] w2) => (y) { a = Mul(x, w2) y = MatMul(a, w) }"},
    };
    (void)state;
    CHECK_ALL(cases);
}

/* A number moves from an operand of a product to its result. */
static void test_scale(void **state)
{
    static const test_case cases[] = {
        {"gemm", "N=2 S=5; N=1 S=1", "g (float[N,S,4] a, float[N,4,S] b) => (y) <float c = {0.5}, float d = {3}> { x = Mul(c, a) z = Div(b, d) y = MatMul(x, z) }"},
        {"gemm", "N=2 S=5", "g (float[N,S,4] a, float[N,S,4] b) => (y) <float[1] c = {0.5}> { x = Div(a, c) t = Transpose<perm = [0,2,1]>(x) y = MatMul(b, t) }"},
        {"gemm", "N=2 S=5", "g (float[N,S,4] a, float[4,4] w, float[4,6] v) => (y, z) <float c = {0.5}> { x = Mul(a, c) y = MatMul(x, w) z = MatMul(x, v) }"},
        {NULL, "S=5", "g (float[S] a, float[S] b) => (y) <float[1,1] c = {0.5}, float[1] d = {2}> { u = Mul(a, d) y = MatMul(u, b) }"},
        {NULL, "N=2 S=5", "g (float[N,S] a, float[S,N] b) => (y) <float c = {0.5}> { x = Div(c, a) y = MatMul(x, b) }"},
    };
    (void)state;
    CHECK_ALL(cases);
}

static void test_outputs(void **state)
{
    static const test_case cases[] = {
        {NULL, "N=2 S=3; N=0 S=3", "g (float[N,S] x, float[2] w) => (x, w, y) { y = Relu(x) }"},
        {NULL, "N=2 S=3", "g (float[N,S] x) => (y, z, u) <int64[3] s = {1,3,-1}> { y = Relu(x) z = Reshape(y, s) u = Transpose(y) }"},
        {NULL, "N=2 S=3", "g (float[N,S] x) => (z, y) <int64[3] s = {1,3,-1}> { y = Relu(x) z = Reshape(y, s) }"},
        {NULL, "N=2 S=3", "g (float[N,S] x) => (z, u) <int64[3] s = {1,3,-1}> { y = Relu(x) z = Reshape(y, s) u = Flatten<axis = 0>(y) }"},
        {NULL, "N=2 S=3", "g (float[N,S] x) => (y, z, v) { y = Relu(x) z = Neg(y) a = Exp(z) v = Add(a, y) }"},
        {NULL, "N=2 S=3", "g (float[N,S] x) => (y, z) { y = Identity(x) a = Identity(y) z = Relu(a) }"},
        {NULL, "N=2 S=3", "g (float[N,S] x) => (y, z) { y = Shape(x) a = Relu(x) z = Size(a) }"},
        {NULL, "N=2 S=4", "g (float[N,S] x) => (a, b) <int64[2] s = {1,3}> { r = Relu(x) a, b = Split<axis = 1>(r, s) }"},
        {NULL, "N=2 S=4", "g (float[N,S] x) => (a, b, c, d) <int64[2] s = {1,3}, float[2] k = {1,2}> { a, b = Split<axis = 1>(x, s) c = Transpose(x) d = Identity(k) }"},
        {NULL, "N=2 S=4; N=0 S=3", "g (float[N,S] x) => (y, z) <int64[1] s = {-1}> { y = Reshape(x, s) z = Identity(x) }"},
        {NULL, "N=2 S=4", "g (float[N,4] x, float[4,3] w) => (y) { a = MatMul(x, w) y = Transpose(a) }"},
        {NULL, "N=2 S=4", "g (float[N,S] x, float[3,S] v, float[N,3] r) => (y) { a = Gemm<transB = 1, alpha = 0.5>(x, v) b = Add(a, r) y = Transpose(b) }"},
        {NULL, "N=2 S=4", "g (float[N,4] x, float[4,3] w, float[N,3] r) => (y) { a = Gemm(x, w) b = Add(a, r) c = Relu(b) y = Transpose<perm = [1,0]>(c) }"},
        {NULL, "N=2 S=4", "g (float[N,S] x) => (a, s) { r = Relu(x) a = Neg(r) s = Identity(r) t = Exp(a) }"},
        {NULL, "N=2 H=3", "g (float[N,3,H,H] x, float[4,3,1,1] w) => (y, z) { a = Conv(x, w) y = Flatten(a) b = Relu(a) z = Identity(b) }"},
    };
    (void)state;
    CHECK_ALL(cases);
}

/* Chains of steps that may write over an operand: the first, the second, none; the operand read again later. */
static void test_in_place(void **state)
{
    static const test_case cases[] = {
        {NULL, "N=7 S=5", "g (float[N,S] x) => (y) { a = Relu(x) b = Exp(x) c = Add(b, a) d = Sub(a, c) e = Mul(c, d) y = Softmax(e) }"},
        {NULL, "N=7 S=5", "g (float[N,S] x) => (y) { a = Softmax(x) b = Softmax(a) c = Softmax(b) d = Softmax(a) y = Add(c, d) }"},
        {NULL, "N=7", "g (float[N,7] x) => (y) { a = Relu(x) t = Transpose(a) b = Add(a, t) c = Softmax(b) d = Transpose(c) y = Mul(d, b) }"},
        {NULL, "N=3 H=4", "g (float[N,9,H,H] x, float[9,9,1,1] w) => (y) { a = Conv(x, w) b = Conv(a, w) c = Add(b, a) d = Conv(c, w) e = Add(d, d) f = Conv(e, w) y = Add(f, c) }"},
        {NULL, "N=7 S=5", "g (float[N,S] x, float[1,S] q) => (y) { r = Relu(q) a = Relu(x) b = Add(r, a) c = Mul(a, b) s = Softmax(c) y = Add(s, r) }"},
    };
    (void)state;
    CHECK_ALL(cases);
}

static void test_threads(void **state)
{
    static const test_case cases[] = {
        {"gemm", "N=2 H=9",
         "g (float[N,3,H,H] x, float[20,3,3,3] w, float[20,1,3,3] w2, float[20,20,1,1] w3, float[20,33] w4, float[33] w5, float[33] w6) => (y, m)"
         "{ a = Conv<pads = [1,1,1,1]>(x, w) b = Relu(a) c = Conv<group = 20, pads = [1,1,1,1]>(b, w2) d = Conv(c, w3) e = Add(d, b) m = MaxPool<kernel_shape = [2,2]>(e)"
         " f = GlobalAveragePool(m) h = Flatten(f) i = MatMul(h, w4) k = LayerNormalization(i, w5, w6) y = Softmax(k) }"},
        {"gemm", "N=2 S=11", "g (float[N,S,32] x, float[32,32] w, float[32,32] w2, float[32,32] w3, float[32] w4) => (y)"
                             " <int64[4] s = {0,0,4,8}, int64[3] f = {0,0,32}, float c = {0.35}>"
                             "{ q = MatMul(x, w) k = MatMul(x, w2) v = MatMul(x, w3) vb = Add(v, w4) q1 = Reshape(q, s) k1 = Reshape(k, s) v1 = Reshape(vb, s)"
                             " q2 = Transpose<perm = [0,2,1,3]>(q1) k2 = Transpose<perm = [0,2,3,1]>(k1) v2 = Transpose<perm = [0,2,1,3]>(v1)"
                             " a = MatMul(q2, k2) b = Mul(a, c) p = Softmax(b) o = MatMul(p, v2) o1 = Transpose<perm = [0,2,1,3]>(o) o2 = Reshape(o1, f) y = Add(o2, x) }"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_case(&cases[i], all_threads);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conv),        cmocka_unit_test(test_conv_groups), cmocka_unit_test(test_conv_epilogues), cmocka_unit_test(test_odd_steps), cmocka_unit_test(test_matmul),
        cmocka_unit_test(test_gemm),        cmocka_unit_test(test_parts),       cmocka_unit_test(test_rows),        cmocka_unit_test(test_pool),           cmocka_unit_test(test_reduce),
        cmocka_unit_test(test_movement),    cmocka_unit_test(test_elementwise), cmocka_unit_test(test_outputs), cmocka_unit_test(test_conversions), cmocka_unit_test(test_scale), cmocka_unit_test(test_columns),        cmocka_unit_test(test_in_place),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
