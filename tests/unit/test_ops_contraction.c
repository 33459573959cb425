/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions, pools and products: numbers computed elsewhere, shapes on symbols, and forms of older opsets. */
#include "graph_case.h"

/* ---- numbers ---- */

static const expectation cases[] = {
    {"conv 2-D",
     22,
     "g (float[2,2,5,4] x, float[3,2,3,3] w, float[3] b) => (float y) { y = Conv(x, w, b) }",
     {{4, {2, 3, 3, 2}, (const double[]){-0.0625, -0.8125, -0.625,  -6.25,   1.25,    -0.3125, 5.8125,  2,
                                         1.9375,  -0.25,   0.5,     -4.9375, -6.1875, -3.3125, -6.0625, 4.9375,
                                         -3.5,    7.5,     -0.8125, -3.1875, -6.25,   2.75,    -0.3125, -3.5,
                                         2,       6.3125,  -0.25,   -1.625,  -4.9375, -0.625,  -3.3125, -3.6875,
                                         4.9375,  -7.625,  7.5,     -2.625}}}},
    {"conv no bias, asymmetric pads, strides",
     22,
     "g (float[1,2,5,4] x, float[2,2,3,2] w) => (float y) { y = Conv<pads=[1,0,2,1], strides=[2,1]>(x, w) }",
     {{4, {1, 2, 3, 4}, (const double[]){-2.875, 1.6875,  -1.0625, -1.3125, -1.9375, 3.5,     1.625, 3.375,
                                         3.375,  -6.125,  3.875,   -2.9375, 2.8125,  -3.3125, -0.5,  -0.25,
                                         4.25,   -1.0625, 2.5625,  2.375,   -6.25,   5.25,    -6,    1.4375}}}},
    {"conv groups, dilations",
     22,
     "g (float[1,4,6,5] x, float[6,2,2,2] w, float[6] b) => (float y) { y = Conv<group=2, dilations=[2,3], "
     "pads=[1,1,1,1], kernel_shape=[2,2]>(x, w, b) }",
     {{4,
       {1, 6, 6, 4},
       (const double[]){
           -0.125, -2.3125, 0.25,    -3.875,  -1.875,  -0.375,  -1.875,  0.375,   0.625,   -3.8125, -0.4375, -3.125,
           -1.75,  -2.375,  -2.25,   -1.75,   -2.5,    -0.125,  -4.0625, 1.25,    0.125,   -4.25,   0.625,   -2.875,
           -0.875, -0.125,  -1.125,  3.5,     1.375,   -3.4375, 3.375,   -2.875,  -0.125,  4.625,   -0.75,   -0.625,
           0,      3.75,    -1.625,  2.4375,  1.75,    -3.625,  4.8125,  -3.4375, -0.125,  -0.25,   -0.5625, -0.6875,
           -1.625, -2.8125, -1.6875, -0.5,    -2.6875, -2.4375, -2.75,   -1.25,   -4.9375, 3.3125,  -5.125,  0.25,
           0.9375, -3.125,  2.25,    -1.5,    -2.125,  -2.25,   3.125,   -1.625,  -3.625,  2.125,   -3.375,  -0.125,
           1,      -0.625,  2.625,   0.25,    1.125,   1.625,   -0.125,  -0.375,  -0.25,   1.8125,  -0.75,   2,
           3.25,   -2.0625, 1.875,   -0.5,    0.25,    -0.25,   -0.375,  0.25,    0.625,   -0.5625, -0.6875, 0.625,
           -1,     -2.5625, -1.25,   -1.75,   -1.375,  2.5,     -2.3125, -2.875,  -0.25,   -2.875,  -2,      -2.0625,
           -0.75,  1.5,     2.375,   -2.0625, -1.25,   -2.25,   -2.1875, -2.875,  -0.875,  -2.3125, 2.9375,  -1.6875,
           0.25,   0.375,   -0.25,   1.125,   -0.625,  -0.6875, 2,       1.125,   3,       -1.0625, 3.25,    0.375,
           -1.5,   1,       -1.1875, 2.875,   0.5,     2.25,    2.5,     0.5,     0.875,   0.8125,  0.875,   0.875}}}},
    {"conv depthwise",
     22,
     "g (float[1,3,4,4] x, float[3,1,3,3] w) => (float y) { y = Conv<group=3, pads=[1,1,1,1]>(x, w) }",
     {{4, {1, 3, 4, 4}, (const double[]){1.0625, 1.125,   -2.25,   2,       -1.4375, 1.3125,  -1.625,  -2.125,
                                         0.9375, -0.6875, -0.375,  1.5,     -0.0625, -0.0625, -0.0625, 0,
                                         2.25,   -5.75,   2.6875,  -3.1875, -1.4375, 1.9375,  -1.5625, 0.5,
                                         2.6875, 0.125,   2.3125,  -0.625,  0.1875,  0.1875,  -1.8125, -0.4375,
                                         1.125,  1.375,   -1.9375, 1.5,     0.375,   -0.8125, -0.8125, 0.0625,
                                         -0.25,  -2.4375, 3.25,    -0.125,  1.375,   3.0625,  1.5,     -3.1875}}}},
    {"conv 1-D",
     22,
     "g (float[2,2,9] x, float[2,2,4] w, float[2] b) => (float y) { y = Conv<strides=[2], pads=[3,0]>(x, w, b) }",
     {{3, {2, 2, 5}, (const double[]){-0.625, 1.875,   2.75,   3,      0.8125,  -0.875,  -3.25,
                                      -2.625, -2.8125, 1.875,  -2.875, -3.3125, -0.6875, 0.375,
                                      2.25,   1.375,   1.8125, 2.1875, -0.4375, -2.25}}}},
    {"conv 3-D",
     22,
     "g (float[1,2,3,4,3] x, float[2,2,2,3,2] w) => (float y) { y = Conv<pads=[0,1,1,1,0,0], strides=[1,2,1]>(x, w) }",
     {{5, {1, 2, 3, 2, 3}, (const double[]){-3.5625, 4.75,   -5.75,  -1.9375, 0.3125,  6.125,  1.625,  -5.875,
                                            4.75,    0.75,   1,      0.3125,  -0.5625, 0.25,   0.3125, -0.0625,
                                            0,       -0.5,   -1.125, 0.4375,  0.8125,  2.0625, 0.625,  -2.4375,
                                            -1.375,  0.0625, 0.4375, -0.5625, -0.375,  0.625,  -0.375, 0.5,
                                            0.3125,  0.1875, -0.5,   -1.375}}}},
    {"conv same upper",
     22,
     "g (float[1,1,5,6] x, float[1,1,2,3] w) => (float y) { y = Conv<auto_pad=\"SAME_UPPER\", strides=[2,3]>(x, w) }",
     {{4, {1, 1, 3, 2}, (const double[]){-3.375, 3.9375, 1.5, -3.375, -1.8125, 1.9375}}}},
    {"conv same lower",
     22,
     "g (float[1,1,5,6] x, float[1,1,2,4] w) => (float y) { y = Conv<auto_pad=\"SAME_LOWER\", strides=[2,2]>(x, w) }",
     {{4, {1, 1, 3, 3}, (const double[]){1.75, 2.875, 3.25, -2.875, -4.5, -3.3125, 1.25, 5.125, 4.5625}}}},
    {"conv valid",
     22,
     "g (float[1,1,5,6] x, float[1,1,2,4] w) => (float y) { y = Conv<auto_pad=\"VALID\", strides=[2,2]>(x, w) }",
     {{4, {1, 1, 2, 2}, (const double[]){-1.3125, -1.0625, 1.8125, -1.1875}}}},
    {"conv double",
     22,
     "g (double[1,1,4,4] x, double[1,1,3,3] w) => (double y) { y = Conv(x, w) }",
     {{4, {1, 1, 2, 2}, (const double[]){1.3125, -1.625, -0.6875, -0.375}}}},
    {"conv float16",
     22,
     "g (float16[1,1,4,4] x, float16[1,1,3,3] w) => (float16 y) { y = Conv(x, w) }",
     {{4, {1, 1, 2, 2}, (const double[]){1.3125, -1.625, -0.6875, -0.375}}}},
    {"conv empty batch",
     22,
     "g (float[0,1,4,4] x, float[1,1,3,3] w) => (float y) { y = Conv(x, w) }",
     {{4, {0, 1, 2, 2}, NULL}}},
    {"conv no channels",
     22,
     "g (float[1,0,3,3] x, float[2,0,3,3] w, float[2] b) => (float y) { y = Conv(x, w, b) }",
     {{4, {1, 2, 1, 1}, (const double[]){-1.5, 0.25}}}},
    {"conv many places and channels",
     22,
     "g (float[1,70,2,2] x, float[1,70,1,1] w) => (float y) { y = Conv(x, w) }",
     {{4, {1, 1, 2, 2}, (const double[]){4.8125, -17.875, 0.875, 1.75}}}},
    {"max pool",
     22,
     "g (float[1,2,5,5] x) => (float y, int64 i) { y, i = MaxPool<kernel_shape=[3,2], strides=[2,1], "
     "pads=[1,0,1,1]>(x) }",
     {{4, {1, 2, 3, 5}, (const double[]){1.5,  1,    1.25, 1.25, -0.25, 1.5, 1.25, 1.5,  1.5,  1,
                                         1.25, 1.25, 1.5,  1.5,  0,     1.5, 1.5,  1,    1.25, 1.25,
                                         1.5,  1.5,  1.25, 1.5,  1.5,   1,   1.25, 1.25, 1.5,  1.5}},
      {4, {1, 2, 3, 5}, (const double[]){5,  1,  3,  3,  4,  5,  16, 18, 18, 14, 16, 16, 18, 18, 19,
                                         31, 31, 27, 29, 29, 31, 31, 42, 44, 44, 40, 42, 42, 44, 44}}}},
    {"max pool column major, dilations",
     22,
     "g (float[2,2,5,6] x) => (float y, int64 i) { y, i = MaxPool<kernel_shape=[2,2], dilations=[2,3], "
     "storage_order=1>(x) }",
     {{4, {2, 2, 3, 3}, (const double[]){1.25, 1.25, 1.5,  1.5, 0.5,  0.5,  1,   1.25, 1.25, 1.25, 1.5, 1.5,
                                         0.75, 1,    1,    1.5, 1.25, 1.5,  0.5, 0.75, 0.75, 1.25, 1.5, 1.5,
                                         0.5,  0.5,  0.75, 1,   1.25, 1.25, 1.5, 1.5,  0.5,  1,    1,   1.25}},
      {4, {2, 2, 3, 3}, (const double[]){15, 22, 25, 3,   21,  28,  19, 22, 29,  32,  35,  42,
                                         48, 51, 58, 49,  39,  42,  77, 80, 87,  78,  81,  88,
                                         77, 84, 87, 107, 110, 117, 91, 98, 116, 107, 114, 117}}}},
    {"max pool ceil",
     22,
     "g (float[1,1,6,5] x) => (float y) { y = MaxPool<kernel_shape=[3,3], strides=[2,2], ceil_mode=1>(x) }",
     {{4, {1, 1, 3, 2}, (const double[]){1.5, 1.25, 1.25, 1.5, 1, 1.25}}}},
    {"max pool ceil drops a window",
     22,
     "g (float[1,1,6] x) => (float y) { y = MaxPool<kernel_shape=[1], strides=[2], ceil_mode=1>(x) }",
     {{3, {1, 1, 3}, (const double[]){-0.75, -0.5, -0.25}}}},
    {"max pool 1-D int8",
     22,
     "g (int8[1,2,7] x) => (int8 y) { y = MaxPool<kernel_shape=[3], strides=[2]>(x) }",
     {{3, {1, 2, 3}, (const double[]){4, 5, 6, 1, 2, 3}}}},
    {"max pool 3-D uint8",
     22,
     "g (uint8[1,1,3,3,3] x) => (uint8 y) { y = MaxPool<kernel_shape=[2,2,2]>(x) }",
     {{5, {1, 1, 2, 2, 2}, (const double[]){11, 12, 11, 12, 12, 10, 11, 11}}}},
    {"max pool same upper",
     22,
     "g (float[1,1,5,5] x) => (float y) { y = MaxPool<kernel_shape=[3,3], strides=[2,2], auto_pad=\"SAME_UPPER\">(x) }",
     {{4, {1, 1, 3, 3}, (const double[]){1.5, 1.25, 1.25, 1.5, 1.5, 1.5, 1.25, 1.5, 1.5}}}},
    {"average pool",
     22,
     "g (float[1,2,4,5] x) => (float y) { y = AveragePool<kernel_shape=[3,3], pads=[1,1,1,1], strides=[1,2]>(x) }",
     {{4, {1, 2, 4, 3}, (const double[]){0.4375,       0.083333336, 0,           0.20833333,
                                         -0.055555556, 0.041666668, 0.29166666,  0.027777778,
                                         0.125,        0.0625,      0.25,        0.4375,
                                         -0.3125,      -0.125,      0.0625,      0,
                                         -0.083333336, -0.16666667, 0.083333336, 0,
                                         -0.083333336, 0.125,       0.041666668, -0.3125}}}},
    {"average pool with padding",
     22,
     "g (float[1,1,4,5] x) => (float y) { y = AveragePool<kernel_shape=[3,3], pads=[1,0,1,2], count_include_pad=1>(x) "
     "}",
     {{4,
       {1, 1, 4, 5},
       (const double[]){
           -0.027777778, 0.055555556,  -0.22222222, 0,           -0.16666667,  0,           -0.055555556, -0.11111111,
           0.027777778,  -0.055555556, 0.083333336, 0.027777778, -0.027777778, 0.083333336, -0.027777778, 0.083333336,
           0.16666667,   0.25,         0.19444445,  0.11111111}}}},
    {"average pool ceil with padding",
     22,
     "g (float[1,1,6,6] x) => (float y) { y = AveragePool<kernel_shape=[3,3], strides=[2,2], pads=[1,1,0,0], "
     "ceil_mode=1, count_include_pad=1>(x) }",
     {{4,
       {1, 1, 3, 3},
       (const double[]){-0.1388889, -0.083333336, 0.083333336, 0, -0.44444445, -0.19444445, 0.27777779, -0.027777778,
                        -0.1388889}}}},
    {"average pool ceil",
     22,
     "g (float[1,1,6,5] x) => (float y) { y = AveragePool<kernel_shape=[3,2], strides=[2,2], ceil_mode=1>(x) }",
     {{4,
       {1, 1, 3, 3},
       (const double[]){0.20833333, -0.083333336, -0.16666667, -0.16666667, 0.083333336, 0, -0.3125, -0.0625, 0.125}}}},
    {"average pool dilations",
     22,
     "g (float[1,1,6,5] x) => (float y) { y = AveragePool<kernel_shape=[2,2], dilations=[2,2], pads=[1,1,1,1]>(x) }",
     {{4, {1, 1, 6, 5}, (const double[]){0,     0,       0.125, -1.375, 0.25,  0,      0,      0.125, 0.25,   0.25,
                                         0.625, -0.1875, 0.75,  -0.75,  0.875, -0.375, -0.375, -0.25, -0.125, -0.125,
                                         0.25,  0.25,    0.375, 0.5,    0.5,   0.25,   -1.375, 0.375, -1.125, 0.5}}}},
    {"average pool same lower",
     22,
     "g (float[1,1,5,4] x) => (float y) { y = AveragePool<kernel_shape=[2,2], auto_pad=\"SAME_LOWER\">(x) }",
     {{4, {1, 1, 5, 4}, (const double[]){-0.75,  0.125, 0.25, 0.375, -0.5,   0.375, 0.5, -0.1875, 0,     0.0625,
                                         0.1875, -0.5,  0.5,  -0.25, -0.125, 0,     1,   0.25,    0.375, 0.5}}}},
    {"global average pool",
     22,
     "g (float[2,2,3,2] x) => (float y) { y = GlobalAveragePool(x) }",
     {{4, {2, 2, 1, 1}, (const double[]){0.375, -0.5, 0.25, -0.083333336}}}},
    {"global max pool",
     22,
     "g (float[1,3,4] x) => (float y) { y = GlobalMaxPool(x) }",
     {{3, {1, 3, 1}, (const double[]){1.25, 1.5, 0.5}}}},
    {"matmul",
     22,
     "g (float[3,4] a, float[4,2] b) => (float y) { y = MatMul(a, b) }",
     {{2, {3, 2}, (const double[]){1.4375, -0.0625, -0.875, -0.5, -1.5625, 0.6875}}}},
    {"matmul batches broadcast",
     22,
     "g (float[2,1,2,3] a, float[3,3,2] b) => (float y) { y = MatMul(a, b) }",
     {{4, {2, 3, 2, 2}, (const double[]){-0.125, 0.25,   1.9375,  -1.8125, 1.3125, 0.0625, -1.0625, 0.0625,
                                         0.3125, -0.125, -2.4375, 1.9375,  -0.875, 1,      -1.25,   1.375,
                                         -2.625, 0.0625, 0.6875,  0.0625,  1.3125, -0.875, 1.8125,  -1.25}}}},
    {"matmul row",
     22,
     "g (float[3] a, float[2,3,2] b) => (float y) { y = MatMul(a, b) }",
     {{2, {2, 2}, (const double[]){-0.125, 0.25, 1.3125, 0.0625}}}},
    {"matmul column",
     22,
     "g (float[2,2,3] a, float[3] b) => (float y) { y = MatMul(a, b) }",
     {{2, {2, 2}, (const double[]){-1.75, 2, 1.6875, -1.875}}}},
    {"matmul dot",
     22,
     "g (float[5] a, float[5] b) => (float y) { y = MatMul(a, b) }",
     {{0, {0}, (const double[]){-2.9375}}}},
    {"matmul int32",
     22,
     "g (int32[2,3] a, int32[3,2] b) => (int32 y) { y = MatMul(a, b) }",
     {{2, {2, 2}, (const double[]){-2, 4, 31, -29}}}},
    {"matmul uint64",
     22,
     "g (uint64[2,3] a, uint64[3,2] b) => (uint64 y) { y = MatMul(a, b) }",
     {{2, {2, 2}, (const double[]){154, 52, 253, 85}}}},
    {"matmul nothing to sum",
     22,
     "g (float[2,0] a, float[0,3] b) => (float y) { y = MatMul(a, b) }",
     {{2, {2, 3}, (const double[]){0, 0, 0, 0, 0, 0}}}},
    {"matmul empty", 22, "g (float[0,3] a, float[3,2] b) => (float y) { y = MatMul(a, b) }", {{2, {0, 2}, NULL}}},
    {"matmul depth 9, many columns",
     22,
     "g (float[2,9] a, float[9,67] b) => (float y) { y = MatMul(a, b) }",
     {{2,
       {2, 67},
       (const double[]){
           0.125,   -0.5625, 1.1875, -0.3125, -2.625, -0.0625, -0.75, -0.625, -3.75,   4.5, -1.0625, 4.75,   -0.8125,
           0.125,   -0.5625, 1.1875, -0.3125, -2.625, -0.0625, -0.75, -0.625, -3.75,   4.5, -1.0625, 4.75,   -0.8125,
           0.125,   -0.5625, 1.1875, -0.3125, -2.625, -0.0625, -0.75, -0.625, -3.75,   4.5, -1.0625, 4.75,   -0.8125,
           0.125,   -0.5625, 1.1875, -0.3125, -2.625, -0.0625, -0.75, -0.625, -3.75,   4.5, -1.0625, 4.75,   -0.8125,
           0.125,   -0.5625, 1.1875, -0.3125, -2.625, -0.0625, -0.75, -0.625, -3.75,   4.5, -1.0625, 4.75,   -0.8125,
           0.125,   -0.5625, -3.375, 1.875,   -1,     1.8125,  -3.5,  1.75,   -0.3125, 2.5, -2,      -1.625, 2,
           -0.0625, 1.9375,  -3.375, 1.875,   -1,     1.8125,  -3.5,  1.75,   -0.3125, 2.5, -2,      -1.625, 2,
           -0.0625, 1.9375,  -3.375, 1.875,   -1,     1.8125,  -3.5,  1.75,   -0.3125, 2.5, -2,      -1.625, 2,
           -0.0625, 1.9375,  -3.375, 1.875,   -1,     1.8125,  -3.5,  1.75,   -0.3125, 2.5, -2,      -1.625, 2,
           -0.0625, 1.9375,  -3.375, 1.875,   -1,     1.8125,  -3.5,  1.75,   -0.3125, 2.5, -2,      -1.625, 2,
           -0.0625, 1.9375,  -3.375, 1.875}}}},
    {"matmul bfloat16",
     22,
     "g (bfloat16[2,3] a, bfloat16[3,2] b) => (bfloat16 y) { y = MatMul(a, b) }",
     {{2, {2, 2}, (const double[]){-0.125, 0.25, 1.9375, -1.8125}}}},
    {"gemm",
     22,
     "g (float[2,3] a, float[3,4] b, float[4] c) => (float y) { y = Gemm<alpha=0.5, beta=2.0>(a, b, c) }",
     {{2, {2, 4}, (const double[]){-3.0625, 0.625, -1.78125, 1.09375, -1.6875, -0.0625, -3.3125, 0.75}}}},
    {"gemm transposed, C a column",
     22,
     "g (float[3,2] a, float[4,3] b, float[2,1] c) => (float y) { y = Gemm<transA=1, transB=1>(a, b, c) }",
     {{2, {2, 4}, (const double[]){-1.5625, -1.3125, -2.6875, -0.8125, 0.625, 0, 3.4375, -1.25}}}},
    {"gemm without C",
     22,
     "g (float[2,3] a, float[4,3] b) => (float y) { y = Gemm<transB=1>(a, b) }",
     {{2, {2, 4}, (const double[]){-1.75, 1.8125, -1.9375, -1.625, 2, -1.9375, 3.875, 0.75}}}},
    {"gemm scalar C int64",
     22,
     "g (int64[2,3] a, int64[3,2] b, int64 c) => (int64 y) { y = Gemm<alpha=2.0, beta=-3.0>(a, b, c) }",
     {{2, {2, 2}, (const double[]){14, 26, 80, -40}}}},
    {"gemm opset 6",
     6,
     "g (float[2,3] a, float[3,4] b, float[4] c) => (float y) { y = Gemm<broadcast=1>(a, b, c) }",
     {{2, {2, 4}, (const double[]){-1.625, 0.5, 0.1875, 0.6875, 1.125, -0.875, -2.875, 0}}}},
};

static void test_numbers(void **state)
{
    (void)state;
    check_cases(cases, sizeof cases / sizeof *cases);
}

static void test_wrapping(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    assert_int_equal(load(&f, "g (int64[1,2] a, int64[2,1] b) => (int64 y) { y = MatMul(a, b) }", 99), OPF_OK);
    make_values(&f, false);
    opf_view *a = &f.views[f.graph->inputs[0]], *b = &f.views[f.graph->inputs[1]];
    opf_view_put_i64(a, 0, INT64_MAX);
    opf_view_put_i64(a, 1, ((int64_t)1 << 53) + 1);
    opf_view_put_i64(b, 0, 2);
    opf_view_put_i64(b, 1, 1);
    assert_int_equal(run(&f), OPF_OK);
    assert_true(opf_view_i64(&f.views[f.graph->outputs[0]], 0) == ((int64_t)1 << 53) - 1);
    end(&f);
}

/* ---- shapes ---- */

typedef struct shape_case {
    const char *text;
    const char *expected; /* of the output, or part of the message of an error */
    opf_status  status;
    int32_t     opset; /* 0: the newest */
} shape_case;

static const shape_case shape_cases[] = {
    {"g (float[N,3,H,W] x, float[8,3,3,3] w) => (float y) { y = Conv<pads=[1,1,1,1]>(x, w) }", "float[N,8,H,W]", OPF_OK,
     0},
    {"g (float[N,3,H,64] x, float[8,3,3,3] w) => (float y) { y = Conv<pads=[1,1,1,1], strides=[2,2]>(x, w) }",
     "float[N,8,", OPF_OK, 0},
    {"g (float[N,C,4,H] x) => (float y) { y = GlobalMaxPool(x) }", "float[N,C,1,1]", OPF_OK, 0},
    {"g (float[N,C,4,H] x) => (float y) { y = MaxPool<kernel_shape=[2,2], strides=[1,1], ceil_mode=1>(x) }",
     "float[N,C,3,", OPF_OK, 0},
    {"g (float[B,S,8] a, float[8,16] b) => (float y) { y = MatMul(a, b) }", "float[B,S,16]", OPF_OK, 0},
    {"g (float[1,12,S,64] a, float[B,1,64,T] b) => (float y) { y = MatMul(a, b) }", "float[B,12,S,T]", OPF_OK, 0},
    {"g (float[M,K] a, float[N,K] b) => (float y) { y = Gemm<transB=1>(a, b) }", "float[M,N]", OPF_OK, 0},
    {"g (float[N,S,4] x, int64[1] a) => (float y) { y = ReduceSum<keepdims=0>(x, a) }", "float[?", OPF_OK, 0},
    {"g (float[N,S,4] x) => (float y) <int64[1] a = {-1}> { y = ReduceSum(x, a) }", "float[N,S,1]", OPF_OK, 0},
    {"g (float[1,4,8,8] x, float[8,3,3,3] w) => (float y) { y = Conv(x, w) }",
     "y (Conv): X float[1,4,8,8] and W float[8,3,3,3]: the former has 4 channels, must have 3", OPF_INVALID_INPUT, 0},
    {"g (float[1,4,8,8] x, float[9,2,3,3] w) => (float y) { y = Conv<group=2>(x, w) }", "9 output channels",
     OPF_INVALID_INPUT, 0},
    {"g (float[1,4,8,8] x, float[8,4,3,3] w, float[7] b) => (float y) { y = Conv(x, w, b) }", "must have shape [8]",
     OPF_INVALID_INPUT, 0},
    {"g (float[1,4,2,8] x, float[8,4,3,3] w) => (float y) { y = Conv(x, w) }", "does not fit spatial axis 0",
     OPF_INVALID_INPUT, 0},
    {"g (float[1,4,8,8] x, float[8,4,3,3] w) => (float y) { y = Conv<kernel_shape=[3,2]>(x, w) }",
     "kernel_shape[1] is 2", OPF_INVALID_MODEL, 0},
    {"g (float[1,4,8,8] x, float[8,4,3,3] w) => (float y) { y = Conv<strides=[0,1]>(x, w) }", "strides[0] is 0",
     OPF_INVALID_MODEL, 0},
    {"g (float[1,4,8,8] x, float[8,4,3,3] w) => (float y) { y = Conv<pads=[1,1]>(x, w) }",
     "pads has 2 numbers, must have 4", OPF_INVALID_MODEL, 0},
    {"g (float[2,3] a, float[4,5] b) => (float y) { y = MatMul(a, b) }", "A float[2,3] and B float[4,5]",
     OPF_INVALID_INPUT, 0},
    {"g (float[2,3] a, float[3,5] b, float[4] c) => (float y) { y = Gemm(a, b, c) }", "the result [2,5]",
     OPF_INVALID_INPUT, 0},
    {"g (int32[2,3] a, int32[3,5] b) => (int32 y) { y = Gemm<alpha=0.5>(a, b) }", "alpha is 0.5", OPF_UNSUPPORTED, 0},
    {"g (float[1,2,3] x, float[2] s, float[2] b, float[2] m, float[2] v) => (float y) { y, q, r = "
     "BatchNormalization<training_mode=1>(x, s, b, m, v) }",
     "training mode is unsupported", OPF_UNSUPPORTED, 0},
    {"g (float[1,2,3] x, float[2] s, float[2] b, float[2] m, float[2] v) => (float y) { y, p, q, r, t = "
     "BatchNormalization(x, s, b, m, v) }",
     "training mode is unsupported", OPF_UNSUPPORTED, 9},
    {"g (float[1,2,3] x, float[2] s, float[2] b, float[2] m, float[2] v) => (float y) { y = BatchNormalization(x, s, "
     "b, m, v) }",
     "is_test is 0", OPF_UNSUPPORTED, 6},
    {"g (float[2,3] x, float[4] s) => (float y) { y = LayerNormalization(x, s) }", "does not broadcast",
     OPF_INVALID_INPUT, 0},
    {"g (float[2,3] x) => (float y) { y = Softmax<axis=2>(x) }", "axis 2 is out of range", OPF_INVALID_MODEL, 0},
    {"g (float[2,3] x) => (float y) <int64[2] a = {1, -1}> { y = ReduceSum(x, a) }", "given twice", OPF_INVALID_MODEL,
     0},
};

static void test_shapes(void **state)
{
    (void)state;
    for (size_t c = 0; c < sizeof shape_cases / sizeof shape_cases[0]; c++) {
        const shape_case *t = &shape_cases[c];
        fixture           f;
        begin(&f);
        opf_status  status = load(&f, t->text, t->opset == 0 ? 99 : t->opset);
        const char *found  = f.error.message;
        if (status == OPF_OK)
            found = opf_info_string(&opf_graph_value(f.graph, f.graph->outputs[0])->info, f.dims, &f.arena);
        if (status != t->status || strstr(found, t->expected) == NULL)
            fail_msg("%s\nstatus %d: %s\nexpected %d: %s", t->text, (int)status, found, (int)t->status, t->expected);
        end(&f);
    }
}

/* Numbers and symbols agree: the symbolic size, evaluated, is the size of the number. */
static bool bind(void *user, const char *symbol, int64_t *n)
{
    (void)symbol;
    *n = *(int64_t *)user;
    return true;
}

static void test_windows_agree(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    opf_dim symbol = opf_dim_symbol(f.dims, "N");
    for (int64_t number = 0; number < 4 * 4 * 3 * 3 * 3 * 2; number++) {
        int64_t       rest    = number, size;
        opf_windows   windows = {.rank = 1, .ceil_mode = rest % 2 != 0};
        opf_dim       symbolic;
        const int64_t dilation = 1 + (rest / 2) % 3, begin_pad = (rest / 6) % 3, end_pad = (rest / 18) % 3;
        windows.kernel[0] = 1 + (rest / 54) % 4, windows.stride[0] = 1 + (rest / 216) % 4;
        windows.dilation[0] = dilation, windows.pad_begin[0] = begin_pad, windows.pad_end[0] = end_pad;
        assert_int_equal(opf_windows_infer(&windows, 0, f.dims, symbol, &symbolic, &f.error), OPF_OK);
        for (int64_t n = 1; n < 12; n++) {
            int64_t evaluated;
            if (opf_windows_resolve(&windows, &n, &size, &f.error) != OPF_OK ||
                !opf_dim_evaluate(f.dims, symbolic, bind, &n, &evaluated))
                continue;
            assert_int_equal(size, evaluated);
            for (int64_t place = 0; place < size; place++) {
                int64_t first, last;
                opf_windows_taps(&windows, 0, place, n, &first, &last);
                for (int64_t tap = 0; tap < windows.kernel[0]; tap++) {
                    int64_t position = place * windows.stride[0] - begin_pad + tap * dilation;
                    assert_int_equal(position >= 0 && position < n, tap >= first && tap < last);
                }
            }
        }
    }
    end(&f);
}

/* ---- older opsets ---- */

static void lower(fixture *f, int32_t opset, opf_status expected)
{
    uint32_t   n      = f->graph->n_nodes;
    opf_status status = OPF_OK;
    for (opf_node_id id = 1; id < n && status == OPF_OK; id++) {
        const opf_op *op = opf_graph_node(f->graph, id)->op; /* NULL: gone */
        for (uint32_t r = op != NULL ? op->n_rows : 0; r > 0 && status == OPF_OK; r--)
            if (op->rows[r - 1].below > opset)
                status = op->rows[r - 1].lower(f->graph, id, opset, &f->error);
    }
    if (status != expected)
        fail_msg("%s", f->error.message);
    assert_int_equal(opf_graph_verify(f->graph, &f->error), OPF_OK);
}

/* The text of the graph's nodes after lifting from one opset and lowering to another. */
static void check_lowering(const char *text, int32_t from, int32_t to, opf_status expected, const char *part)
{
    fixture f;
    begin(&f);
    if (load(&f, text, from) != OPF_OK)
        fail_msg("%s", f.error.message);
    lower(&f, to, expected);
    opf_text out;
    opf_text_init(&out, &f.arena);
    opf_text_graph(&out, f.graph, true);
    if (expected == OPF_OK && strstr(out.data, part) == NULL)
        fail_msg("%s\nhas no %s", out.data, part);
    if (expected != OPF_OK && strstr(f.error.message, part) == NULL)
        fail_msg("%s\nhas no %s", f.error.message, part);
    end(&f);
}

static void test_lowering(void **state)
{
    (void)state;
    check_lowering("g (float[2,3,4] x) => (float y) { y = Softmax(x) }", 11, 11, OPF_OK, "y = Softmax<axis = 1>(x)");
    check_lowering("g (float[2,3,4] x) => (float y) { y = Softmax(x) }", 99, 9, OPF_OK, "y = Softmax<axis = 2>(x)");
    check_lowering("g (float[2,3,4] x) => (float y) { y = LogSoftmax<axis=1>(x) }", 99, 9, OPF_OK,
                   "Transpose<perm = [0, 2, 1]>(x)");
    check_lowering("g (float[2,3,4] x) => (float y) { y = ReduceMax<axes=[-1]>(x) }", 11, 10, OPF_OK, "axes = [2]");
    check_lowering("g (float[2,3,4] x, int64[1] a) => (float y) { y = ReduceMax(x, a) }", 99, 11, OPF_UNSUPPORTED,
                   "not constant");
    check_lowering("g (float[2,3] x) => (float y) { y = ReduceMax<noop_with_empty_axes=1>(x) }", 99, 11,
                   OPF_UNSUPPORTED, "noop");
    check_lowering("g (float[2,3] a, float[3,2] b) => (float y) { y = Gemm(a, b) }", 99, 6, OPF_OK, "broadcast = 1");
    check_lowering("g (bfloat16[2,3] a, bfloat16[3,2] b) => (bfloat16 y) { y = MatMul(a, b) }", 99, 12, OPF_UNSUPPORTED,
                   "bfloat16");
    check_lowering("g (float[1,1,4] x) => (float y) { y = AveragePool<kernel_shape=[2], dilations=[1]>(x) }", 99, 11,
                   OPF_OK, "y = AveragePool<kernel_shape = [2]>(x)");
    check_lowering("g (float[1,1,4] x) => (float y) { y = AveragePool<kernel_shape=[2], dilations=[2]>(x) }", 99, 11,
                   OPF_UNSUPPORTED, "dilations");
    check_lowering("g (float[1,1,4] x) => (float y) { y = MaxPool<kernel_shape=[2], ceil_mode=1>(x) }", 99, 9,
                   OPF_UNSUPPORTED, "ceil_mode");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_wrapping),
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_windows_agree),
        cmocka_unit_test(test_lowering),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
