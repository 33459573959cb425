/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions with elementwise nodes before and behind them are one kernel: as the reference, and the same bits on any
   threads. */
#include "steps_case.h"

#define AXES                                                                                                           \
    "<int64[1] last = {-1}, int64[1] mid = {1}, int64[2] image = {2,3}, int64[2] ends = {0,2}, float half = {0.5}>"

static const steps_case cases[] = {
    /* Rows, with and without their axis. */
    {"reduce_sum", 1, "N=3 S=5",
     "g (float[N,S,16] x, float[N,S,1] z) => (y) " AXES " { s = ReduceSum(x, last) t = Tanh(s) y = Mul(t, z) }"},
    {"reduce_sum", 1, "N=2 S=70",
     "g (float[N,S,3] x, float[S] z) => (y) " AXES
     " { s = ReduceMean<keepdims = 0>(x, last) t = Add(s, z) y = Relu(t) }"},
    {"reduce_sum", 1, "N=3 S=5",
     "g (float[N,S,16] x, float[N,1,1] z) => (y) " AXES " { s = ReduceMean(x, last) t = Sub(z, s) y = Exp(t) }"},
    {"reduce_max", 1, "N=3 S=5",
     "g (float[N,S,9] x, float[S,1] z) => (y) " AXES " { s = ReduceMax(x, last) y = Div(s, z) }"},
    /* One result of all, without axes. */
    {"reduce_sum", 1, "N=3 S=5",
     "g (float[N,S] x, float z) => (y) { s = ReduceSum<keepdims = 0>(x) t = Mul(s, z) y = Abs(t) }"},
    /* Columns and images. */
    {"pixel_sum", 1, "N=2 S=6",
     "g (float[N,S,7] x, float[7] z) => (y) " AXES " { s = ReduceMean(x, mid) t = Mul(s, z) y = Sigmoid(t) }"},
    {"pixel_sum", 1, "N=2 S=6",
     "g (float[N,S,7] x, float[N,1] z) => (y) " AXES
     " { s = ReduceSum<keepdims = 0>(x, mid) t = Mul(s, z) y = Sigmoid(t) }"},
    {"reduce_sum", 1, "N=2 H=6",
     "g (float[N,8,H,H] x, float[8,1,1] z) => (y) " AXES " { s = ReduceMean(x, image) t = Mul(s, z) y = Sigmoid(t) }"},
    /* A step that another node reads too is stored. */
    {"reduce_sum", 1, "N=3 S=5",
     "g (float[N,S,16] x, float[N,S,1] z) => (y, t) " AXES
     " { s = ReduceSum(x, last) t = Mul(s, half) y = Add(t, z) }"},
    /* Axes that are no run, and none of anything. */
    {"", 1, "N=2 S=5",
     "g (float[N,S,4] x, float[S] z) => (y) " AXES
     " { s = ReduceMean<keepdims = 0>(x, ends) t = Mul(s, z) y = Sigmoid(t) }"},
    {"", 1, "N=0 S=5", "g (float[N,S,4] x) => (y) " AXES " { s = ReduceSum(x, last) t = Mul(s, half) y = Exp(t) }"},
    {"", 1, "N=2 S=0", "g (float[N,S,4] x) => (y) " AXES " { s = ReduceSum(x, mid) t = Add(s, half) y = Exp(t) }"},
    /* A result that is an output of its own stays. */
    {"reduce_sum", 2, "N=3 S=5",
     "g (float[N,S,16] x, float[N,S,1] z) => (y, s) " AXES " { s = ReduceSum(x, last) y = Mul(s, z) }"},
};

/* What is computed while it is read. */
static const steps_case prologues[] = {
    /* Rows, short ones several at once, long ones in tiles; the operands of a row, of its elements, of all. */
    {"reduce_sum", 1, "N=3 S=5",
     "g (float[N,S,16] x, float[N,S,1] m, float[16] k) => (y) " AXES
     " { d = Sub(x, m) e = Mul(d, d) f = Mul(e, k) s = ReduceMean(f, last) y = Sqrt(s) }"},
    {"reduce_max", 1, "N=2 S=700", "g (float[N,S,3] x) => (y) " AXES " { a = Abs(x) y = ReduceMax(a, last) }"},
    {"reduce_sum", 1, "N=2 S=9000",
     "g (float[N,S] x, float[N,S] z) => (y) " AXES
     " { a = Mul(x, z) b = Tanh(a) y = ReduceSum<keepdims = 0>(b, last) }"},
    {"reduce_min", 1, "N=3 S=4500", "g (float[N,S] x) => (y) " AXES " { a = Mul(x, half) y = ReduceMin(a, last) }"},
    {"reduce_product", 1, "N=3 S=7", "g (float[N,S] x) => (y) " AXES " { a = Sigmoid(x) y = ReduceProd(a, last) }"},
    {"reduce_abs_sum", 1, "N=3 S=7",
     "g (float[N,S] x, float[N,1] m) => (y) " AXES " { a = Sub(x, m) y = ReduceL1(a, last) }"},
    {"reduce_square_sum", 1, "N=3 S=7",
     "g (float[N,S] x, float[N,1] m) => (y) " AXES " { a = Sub(x, m) y = ReduceL2(a, last) }"},
    {"reduce_exp_sum", 1, "N=3 S=5000",
     "g (float[N,S] x, float[S] m) => (y) " AXES " { a = Sub(x, m) y = ReduceLogSumExp(a, last) }"},
    /* All, and so much that a result is taken in pieces. */
    {"reduce_parts", 2, "N=3 S=100000",
     "g (float[N,S] x, float m) => (y) " AXES
     " { a = Mul(x, m) b = Abs(a) s = ReduceMean<keepdims = 0>(b) y = Neg(s) }"},
    {"pixel_parts", 2, "N=1 S=70000",
     "g (float[N,S,5] x, float[5] k) => (y) " AXES " { a = Mul(x, k) b = Abs(a) y = ReduceMax(b, mid) }"},
    /* Columns, wider than a unit; the images of a Conv, over their pixels and over their channels. */
    {"pixel_sum", 1, "N=2 S=70",
     "g (float[N,S,150] x, float[150] k, float[N,1,1] m) => (y) " AXES
     " { a = Mul(x, k) b = Add(a, m) s = ReduceSum<keepdims = 0>(b, mid) y = Mul(s, k) }"},
    {"pixel_max", 1, "N=2 S=70",
     "g (float[N,S,9] x, float[S,1] k) => (y) " AXES " { a = Mul(x, k) y = ReduceMax(a, mid) }"},
    {"pixel_exp_sum", 1, "N=2 S=300",
     "g (float[N,S,70] x) => (y) " AXES " { a = Exp(x) b = Neg(a) y = ReduceLogSumExp(b, mid) }"},
    {"pixel_square_sum", 1, "N=2 S=70", "g (float[N,S,9] x) => (y) " AXES " { a = Tanh(x) y = ReduceL2(a, mid) }"},
    {"pixel_sum", 3, "N=2 H=9",
     "g (float[N,8,H,H] x, float[70,8,1,1] w, float[N,70,1,1] z) => (y) " AXES
     " { c = Conv(x, w) p = MaxPool<kernel_shape = [2,2]>(c) q = Transpose<perm = [0,1,3,2]>(p) r = Transpose<perm = "
     "[0,1,3,2]>(q)"
     " a = Mul(r, z) b = Relu(a) y = GlobalAveragePool(b) }"},
    {"reduce_sum", 1, "N=2 H=6",
     "g (float[N,8,H,H] x, float[8,1,1] z) => (y) " AXES " { a = Mul(x, z) b = Sigmoid(a) y = GlobalAveragePool(b) }"},
    {"pixel_max", 1, "N=2 H=6",
     "g (float[N,8,H,H] x, float[8,1,1] z) => (y) " AXES " { a = Mul(x, z) b = Sigmoid(a) y = ReduceMax(b, mid) }"},
    /* Neither rows nor columns: gathered as they are read, or walked as they lie. */
    {"reduce_sum", 2, "N=2 H=9",
     "g (float[N,8,H,H] x, float[20,8,1,1] w) => (y, c) " AXES
     " { c = Conv(x, w) a = Tanh(c) b = Mul(a, half) y = ReduceMean(b, last) }"},
    {"reduce_max", 2, "N=2 H=9",
     "g (float[N,8,H,H] x, float[8,H,1] z) => (y) " AXES " { c = MaxPool<kernel_shape = [1,1]>(x) t = Transpose<perm = "
     "[0,1,3,2]>(c) d = Sub(t, z) y = ReduceMax(d, last) }"},
    {"reduce_min", 2, "N=2 H=9",
     "g (float[N,8,H,H] x) => (y) <int64[2] lasts = {-2,-1}, int64[3] all = {1,2,3}> { c = MaxPool<kernel_shape = "
     "[2,2]>(x) y = ReduceMin(c, all) }"},
    {"pixel_sum", -1, "N=2 S=9",
     "g (float[N,S,4] x, float[N,4,S] z) => (y) <int64[1] last = {-1}> { t = Transpose<perm = [0,2,1]>(x) a = Exp(t) b "
     "= Mul(a, z) y = ReduceSum(b, last) }"},
    {"reduce_sum", -1, "N=2 S=9",
     "g (float[N,S,4,3] x) => (y) <int64[1] mid = {1}> { t = Transpose<perm = [3,1,0,2]>(x) a = Exp(t) y = "
     "ReduceSum(a, mid) }"},
    /* A node that others read stays, and what it gives is read. */
    {"reduce_sum", 2, "N=3 S=5",
     "g (float[N,S,16] x, float[N,S,1] m) => (y, d) " AXES " { d = Sub(x, m) e = Mul(d, d) y = ReduceSum(e, last) }"},
    /* Nothing, and nothing of anything. */
    {"", 1, "N=0 S=5", "g (float[N,S,4] x) => (y) " AXES " { a = Exp(x) y = ReduceMean(a, last) }"},
    {"", 1, "N=2 S=0", "g (float[N,S,4] x, float[N,1,1] m) => (y) " AXES " { a = Sub(x, m) y = ReduceMax(a, mid) }"},
};

static void test_prologues(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof prologues / sizeof *prologues; i++)
        check_steps(&prologues[i]);
}

static void test_reductions(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_steps(&cases[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_reductions), cmocka_unit_test(test_prologues)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
