/* SPDX-License-Identifier: Apache-2.0 */
/* Products of flat rows, taken apart behind: what follows is their epilogue. As the reference, and the same bits on any
   threads. */
#include "steps_case.h"

/* N rows of S positions. */
#define ROWS(more, outputs)                                                                                            \
    "g (float[N,S,6] x, float[6,6] w, float[6] b, float[6,6] w2" more ") => (" outputs ") "                            \
    "<int64[2] flat = {-1,6}, float[1,1,6] row = {1,2,3,4,5,6}, float[1,1,1] half = {0.5}>"       \
    "{ f = Reshape(x, flat) g = Gemm(f, w, b) shape = Shape(x)"

static const steps_case cases[] = {
    {"gemm_f32", 1, "N=1 S=1", ROWS(", float[N,S,6] r", "y") " h = Reshape(g, shape) s = Add(h, r) y = Tanh(s) }"},
    {"gemm_f32", 1, "N=3 S=50", ROWS(", float[N,S,6] r", "y") " h = Reshape(g, shape) s = Add(h, r) y = Tanh(s) }"},
    {NULL, 0, "N=0 S=5", ROWS(", float[N,S,6] r", "y") " h = Reshape(g, shape) s = Add(h, r) y = Tanh(s) }"},
    /* As GPT-2 has it: an activation between two products, then the residual. */
    {"gemm_f32", 2, "N=2 S=3",
     ROWS("", "y") " h = Reshape(g, shape) a = Gelu(h) f2 = Reshape(a, flat) g2 = Gemm(f2, w2, b) h2 = Reshape(g2, shape) y = Add(x, h2) }"},
    {"gemm_f32", 1, "N=2 S=3", ROWS(", float[N,S,6] r", "y") " h = Reshape(g, shape) s = Add(h, r) y = Relu(s) }"},
    {"gemm_f32", 1, "N=2 S=3", ROWS(", float[N,S,6] r", "y") " h = Reshape(g, shape) s = Sub(r, h) y = Mul(s, half) }"},
    /* Rows and numbers of any rank. */
    {"gemm_f32", 1, "N=2 S=3", ROWS(", float[6] r, float q", "y") " h = Reshape(g, shape) s = Add(h, row) t = Mul(s, half) u = Sub(r, t) y = Div(u, q) }"},
    {"gemm_f32", 1, "N=2 S=3", ROWS(", float[1,1,6] r", "y") " h = Reshape(g, shape) y = Mul(h, r) }"},
    /* What differs by position, or by row, or makes the result larger, is left behind. */
    {"gemm_f32", 2, "N=2 S=3", ROWS(", float[S,6] r", "y") " h = Reshape(g, shape) y = Mul(h, r) }"},
    {"gemm_f32", 2, "N=2 S=3", ROWS(", float[N,S,1] r", "y") " h = Reshape(g, shape) y = Mul(h, r) }"},
    {"gemm_f32", 2, "N=1 S=3", ROWS(", float[2,1,1,1] r", "y") " h = Reshape(g, shape) y = Mul(h, r) }"},
    /* Rows do not stay rows; or others read them. */
    {"gemm_f32", 2, "N=2 S=2",
     "g (float[N,S,6] x, float[6,6] w, float[6] b, float[12] r) => (y) <int64[2] flat = {-1,6}, int64[2] wide = {-1,12}>"
     "{ f = Reshape(x, flat) g = Gemm(f, w, b) h = Reshape(g, wide) y = Add(h, r) }"},
    {"gemm_f32", 2, "N=2 S=3", ROWS("", "y, g") " h = Reshape(g, shape) y = Relu(h) }"},
    {"gemm_f32", 2, "N=2 S=3", ROWS(", float[N,S,6] r", "y, s") " h = Reshape(g, shape) s = Sub(r, h) y = Mul(s, half) }"},
    {"gemm_f32", 2, "N=2 S=3", ROWS("", "y, h") " h = Reshape(g, shape) y = Relu(h) }"},
};

static void test_flat_rows(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_steps(&cases[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_flat_rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
