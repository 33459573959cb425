/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions with elementwise nodes behind them are one kernel: as the reference, and the same bits on any threads. */
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

static void test_reductions(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_steps(&cases[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_reductions)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
