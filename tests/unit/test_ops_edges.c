/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Edges of operators' domains: nothing at all, one number without axes, axes counted from the end, the least and the
 * largest integers, NaN and infinities. What is expected follows from each operator's definition.
 */
#include "const_case.h"

static void check_all(const char *const *cases, size_t n)
{
    for (size_t i = 0; i < n; i++)
        check(cases[i]);
}
#define CHECK_ALL(cases) check_all(cases, sizeof(cases) / sizeof *(cases))

/* ---- integers at the ends of their types ---- */

static const char *const integers[] = {
    "g () => (y) <int8[2] x = {-128, 127}, int8[2] y_want = {-128, 127}> { y = Abs(x) }",
    "g () => (y) <int64 x = {-9223372036854775808}, int64 y_want = {-9223372036854775808}> { y = Neg(x) }",
    "g () => (y) <int64[3] x = {-9223372036854775808, 0, 9223372036854775807}, int64[3] y_want = {-1, 0, 1}> { y = Sign(x) }",
    "g () => (y) <uint64[2] x = {0, 18446744073709551615}, uint64[2] y_want = {0, 1}> { y = Sign(x) }",
    "g () => (y) <int64 a = {9223372036854775807}, int64 b = {1}, int64 y_want = {-9223372036854775808}> { y = Add(a, b) }",
    "g () => (y) <uint8[2] a = {0, 255}, uint8 b = {1}, uint8[2] y_want = {255, 254}> { y = Sub(a, b) }",
    "g () => (y) <int16 a = {32767}, int16 b = {2}, int16 y_want = {-2}> { y = Mul(a, b) }",
    "g () => (y) <int64[2] a = {-9223372036854775808, -7}, int64[2] b = {3, 2}, int64[2] y_want = {-3074457345618258602, -3}>"
    " { y = Div(a, b) }",
    "g () => (y) <uint64 a = {18446744073709551615}, uint64 b = {2}, uint64 y_want = {9223372036854775807}> { y = Div(a, b) }",
    "g () => (y) <int8[2] a = {-128, 127}, int8[2] b = {3, -3}, int8[2] y_want = {1, -2}> { y = Mod(a, b) }",
    "g () => (y) <int8[2] a = {-128, 127}, int8[2] b = {3, -3}, int8[2] y_want = {-2, 1}> { y = Mod<fmod = 1>(a, b) }",
    "g () => (y) <uint64[2] a = {18446744073709551615, 0}, uint64 b = {1}, uint64[2] y_want = {18446744073709551615, 1}>"
    " { y = Max(a, b) }",
    "g () => (y) <int64[2] a = {-9223372036854775808, 5}, int64 b = {4}, int64[2] y_want = {-9223372036854775808, 4}>"
    " { y = Min(a, b) }",
    "g () => (y) <int32[3] x = {-2147483648, 5, 2147483647}, int32 l = {-1}, int32 h = {6}, int32[3] y_want = {-1, 5, 6}>"
    " { y = Clip(x, l, h) }",
    "g () => (y) <int8[2] x = {-128, 127}, int8[2] y_want = {0, 127}> { y = Relu(x) }",
    "g () => (y) <int64 a = {9223372036854775807}, int64 b = {9223372036854775806}, bool y_want = {0}> { y = Equal(a, b) }",
    "g () => (y) <uint64 x = {18446744073709551615}, uint64 y_want = {0}> { y = BitwiseNot(x) }",
    "g () => (y) <int64 a = {-1}, int64 b = {9223372036854775807}, int64 y_want = {-9223372036854775808}> { y = BitwiseXor(a, b) }",
    "g () => (y) <uint8[2] x = {255, 1}, uint8 s = {7}, uint8[2] y_want = {128, 128}> { y = BitShift<direction = \"LEFT\">(x, s) }",
    "g () => (y) <int32[3] x = {2147483647, 1, 1}, int32 a = {-1}, int32[3] y_want = {2147483647, -2147483648, -2147483647}>"
    " { y = CumSum(x, a) }",
    "g () => (y) <int64[2] x = {4611686018427387904, 2}, int64 a = {0}, int64[2] y_want = {4611686018427387904, -9223372036854775808}>"
    " { y = CumProd(x, a) }",
    "g () => (y) <int64[2] x = {9223372036854775807, 9223372036854775806}, int64 y_want = {9223372036854775807}>"
    " { y = ReduceMax<keepdims = 0>(x) }",
    "g () => (y) <int8[2] x = {-128, -127}, int8 y_want = {-128}> { y = ReduceMin<keepdims = 0>(x) }",
    "g () => (y) <int32[2] x = {2147483647, 1}, int32 y_want = {-2147483648}> { y = ReduceSum<keepdims = 0>(x) }",
    "g () => (y) <int64[3] x = {9223372036854775807, -9223372036854775808, 9223372036854775807}, int64 y_want = {2}>"
    " { y = ArgMax<keepdims = 0, select_last_index = 1>(x) }",
    "g () => (y) <uint64[2] x = {18446744073709551615, 0}, int64 y_want = {1}> { y = ArgMin<keepdims = 0>(x) }",
    "g () => (y) <int32[1,2] a = {2147483647, 1}, int32[2,1] b = {1, 1}, int32[1,1] y_want = {-2147483648}> { y = MatMul(a, b) }",
    "g () => (y) <uint8[1,2] a = {255, 0}, int8[2,1] b = {-128, 127}, uint8 z = {255}, int32[1,1] y_want = {-32385}>"
    " { y = MatMulInteger(a, b, z) }",
    "g () => (y) <int64[2] x = {9223372036854775807, -9223372036854775808}, int32[2] y_want = {-1, 0}> { y = Cast<to = 6>(x) }",
    "g () => (y) <int64[1] x = {9007199254740993}, double[1] y_want = {9007199254740992}> { y = Cast<to = 11>(x) }",
};

static void test_integers(void **state)
{
    (void)state;
    CHECK_ALL(integers);
}

/* ---- nothing ---- */

static const char *const empties[] = {
    "g () => (y) <float[0,3] a = {}, float[3] b = {1,2,3}, float[0,3] y_want = {}> { y = Add(a, b) }",
    "g () => (y) <float[2,0] a = {}, float[0,3] b = {}, float[2,3] y_want = {0,0,0,0,0,0}> { y = MatMul(a, b) }",
    "g () => (y) <float[0] a = {}, float[0] b = {}, float y_want = {0}> { y = MatMul(a, b) }",
    "g () => (y) <float[2,0] a = {}, float[0,2] b = {}, float[2] c = {1,2}, float[2,2] y_want = {1,2,1,2}> { y = Gemm(a, b, c) }",
    "g () => (y) <float[0,3] x = {}, float[3] y_want = {0,0,0}, int64[1] a = {0}> { y = ReduceSum<keepdims = 0>(x, a) }",
    "g () => (y) <float[0,3] x = {}, float[1,3] y_want = {1,1,1}, int64[1] a = {-2}> { y = ReduceProd(x, a) }",
    "g () => (y) <float[0] x = {}, float y_want = {-inf}> { y = ReduceMax<keepdims = 0>(x) }",
    "g () => (y) <int8[0] x = {}, int8 y_want = {127}> { y = ReduceMin<keepdims = 0>(x) }",
    "g () => (y) <float[0] x = {}, float y_want = {0}> { y = ReduceL1<keepdims = 0>(x) }",
    "g () => (y) <float[0] x = {}, float y_want = {0}> { y = ReduceL2<keepdims = 0>(x) }",
    "g () => (y) <float[0] x = {}, float y_want = {0}> { y = ReduceSumSquare<keepdims = 0>(x) }",
    "g () => (y) <float[0] x = {}, float y_want = {-inf}> { y = ReduceLogSum<keepdims = 0>(x) }",
    "g () => (y) <float[0] x = {}, float y_want = {-inf}> { y = ReduceLogSumExp<keepdims = 0>(x) }",
    "g () => (y) <float[0] x = {}, float y_want = {nan}> { y = ReduceMean<keepdims = 0>(x) }",
    "g () => (y) <float[2,0] x = {}, float[2,0] y_want = {}> { y = Softmax(x) }",
    "g () => (y) <float[2,0] x = {}, float[2,0] y_want = {}> { y = LogSoftmax(x) }",
    "g () => (y) <float[0,2] x = {}, float[0,2] y_want = {}> { y = Hardmax(x) }",
    "g () => (y) <float[0,2] x = {}, float[2] s = {1,1}, float[0,2] y_want = {}> { y = LayerNormalization(x, s) }",
    "g () => (y) <float[0,2] x = {}, float[2] s = {1,1}, float[0,2] y_want = {}> { y = RMSNormalization(x, s) }",
    "g () => (y) <float[0,2,3] x = {}, float[2] s = {1,1}, float[2] b = {0,0}, float[0,2,3] y_want = {}>"
    " { y = InstanceNormalization(x, s, b) }",
    "g () => (y) <float[0,2,3] x = {}, float[2] s = {1,1}, float[2] b = {0,0}, float[0,2,3] y_want = {}>"
    " { y = GroupNormalization<num_groups = 2>(x, s, b) }",
    "g () => (y) <float[0,2,3] x = {}, float[2] s = {1,1}, float[2] b = {0,0}, float[2] m = {0,0}, float[2] v = {1,1},"
    " float[0,2,3] y_want = {}> { y = BatchNormalization(x, s, b, m, v) }",
    "g () => (y) <float[0,3] x = {}, float[0,3] y_want = {}> { y = LpNormalization(x) }",
    "g () => (y) <float[0,3,2] x = {}, float[0,3,2] y_want = {}> { y = LRN<size = 3>(x) }",
    "g () => (y) <float[0,2,4] x = {}, float[3,2,2] w = {1,1,1,1,1,1,1,1,1,1,1,1}, float[0,3,3] y_want = {}> { y = Conv(x, w) }",
    "g () => (y) <float[0,2,4] x = {}, float[2,3,2] w = {1,1,1,1,1,1,1,1,1,1,1,1}, float[0,3,5] y_want = {}>"
    " { y = ConvTranspose(x, w) }",
    "g () => (y) <uint8[0,1,4] x = {}, uint8[1,1,2] w = {1,1}, int32[0,1,3] y_want = {}> { y = ConvInteger(x, w) }",
    "g () => (y) <float[0,2,4] x = {}, float[0,2,3] y_want = {}> { y = MaxPool<kernel_shape = [2]>(x) }",
    "g () => (y) <float[0,2,4] x = {}, float[0,2,3] y_want = {}> { y = AveragePool<kernel_shape = [2]>(x) }",
    "g () => (y) <float[0,2,4] x = {}, float[0,2,3] y_want = {}> { y = LpPool<kernel_shape = [2]>(x) }",
    "g () => (y) <float[0,2,4] x = {}, float[0,2,1] y_want = {}> { y = GlobalAveragePool(x) }",
    "g () => (y) <float[0,2,4] x = {}, float[0,2,1] y_want = {}> { y = GlobalMaxPool(x) }",
    "g () => (y) <float[2,0] a = {}, float[2,3] b = {1,2,3,4,5,6}, float[2,3] y_want = {1,2,3,4,5,6}> { y = Concat<axis = -1>(a, b) }",
    "g () => (y, z) <float[2] x = {1,2}, int64[2] s = {0,2}, float[0] y_want = {}, float[2] z_want = {1,2}>"
    " { y, z = Split<axis = -1>(x, s) }",
    "g () => (y) <float[3] x = {1,2,3}, int64[1] b = {2}, int64[1] e = {1}, float[0] y_want = {}> { y = Slice(x, b, e) }",
    "g () => (y) <float[3,2] x = {1,2,3,4,5,6}, int64[0] i = {}, float[0,2] y_want = {}> { y = Gather(x, i) }",
    "g () => (y) <float[3,2] x = {1,2,3,4,5,6}, int64[0,2] i = {}, float[0,2] y_want = {}> { y = GatherElements(x, i) }",
    "g () => (y) <float[3,2] x = {1,2,3,4,5,6}, int64[0,1] i = {}, float[0,2] y_want = {}> { y = GatherND(x, i) }",
    "g () => (y) <float[2] x = {1,2}, int64[0] i = {}, float[0] u = {}, float[2] y_want = {1,2}> { y = ScatterElements(x, i, u) }",
    "g () => (y) <float[2] x = {1,2}, int64[0,1] i = {}, float[0] u = {}, float[2] y_want = {1,2}> { y = ScatterND(x, i, u) }",
    "g () => (y) <float[1] x = {5}, int64[2] s = {0,1}, float[0,1] y_want = {}> { y = Expand(x, s) }",
    "g () => (y) <float[2] x = {1,2}, int64[1] r = {0}, float[0] y_want = {}> { y = Tile(x, r) }",
    "g () => (y) <float[0,3] x = {}, int64[2] s = {0,-1}, float[0,3] y_want = {}> { y = Reshape(x, s) }",
    "g () => (y) <float[0,4] x = {}, int64[3] s = {2,0,2}, float[2,0,2] y_want = {}> { y = Reshape<allowzero = 1>(x, s) }",
    "g () => (y) <float[0,1,3] x = {}, float[3,1,0] y_want = {}> { y = Transpose(x) }",
    "g () => (y) <float[2,0,3] x = {}, float[2,0] y_want = {}> { y = Flatten(x) }",
    "g () => (y) <float[2,0] x = {}, int64 y_want = {0}> { y = Size(x) }",
    "g () => (y) <int64[2] s = {0,3}, float[0,3] y_want = {}> { y = ConstantOfShape(s) }",
    "g () => (y) <int32 a = {5}, int32 b = {5}, int32 d = {1}, int32[0] y_want = {}> { y = Range(a, b, d) }",
    "g () => (y) <int64[0] i = {}, int64 d = {3}, float[2] v = {0,1}, float[0,3] y_want = {}> { y = OneHot(i, d, v) }",
    "g () => (y) <float[0,2] x = {}, int64[2,0] y_want = {}> { y = NonZero(x) }",
    "g () => (y) <float[3] x = {1,2,3}, bool[3] c = {0,0,0}, float[0] y_want = {}> { y = Compress(x, c) }",
    "g () => (y, i) <float[2,3] x = {1,3,2,5,4,6}, int64[1] k = {0}, float[2,0] y_want = {}, int64[2,0] i_want = {}>"
    " { y, i = TopK(x, k) }",
    "g () => (y) <float[0] x = {}, float[0] y_want = {}> { y = Unique(x) }",
    "g () => (y) <float[0,2] x = {}, float[0,2] y_want = {}> { y = Trilu(x) }",
    "g () => (y) <float[0,2] x = {}, float[0,2] y_want = {}> { y = EyeLike(x) }",
    "g () => (y) <float[0,3] x = {}, int64[1] p = {0}, int64[0] i = {}, float[0,3] y_want = {}>"
    " { y = ReverseSequence<batch_axis = 0, time_axis = 1>(x, i) }",
    "g () => (y) <float[0,4,2,2] x = {}, float[0,1,4,4] y_want = {}> { y = DepthToSpace<blocksize = 2>(x) }",
    "g () => (y) <float[0,1,4,4] x = {}, float[0,4,2,2] y_want = {}> { y = SpaceToDepth<blocksize = 2>(x) }",
    "g () => (y) <float[0,2] x = {}, int64[4] p = {1,0,1,0}, float[2,2] y_want = {0,0,0,0}> { y = Pad(x, p) }",
    "g () => (y) <float[2,0] x = {}, int64 a = {1}, float[2,0] y_want = {}> { y = CumSum(x, a) }",
    "g () => (y) <float[0,0] x = {}, float y_want = {1}> { y = Det(x) }",
    "g () => (y) <float[2,0,0] x = {}, float[2,0,0] y_want = {}> { y = com.microsoft.Inverse(x) }",
    "g () => (y) <float[2,0] a = {}, float[0,2] b = {}, float[2,2] y_want = {0,0,0,0}> { y = Einsum<equation = \"ij,jk\">(a, b) }",
    "g () => (y) <bool[0] c = {}, float[1] a = {1}, float[1] b = {2}, float[0] y_want = {}> { y = Where(c, a, b) }",
    "g () => (y) <float[0] x = {}, float s = {1}, uint8 z = {3}, uint8[0] y_want = {}> { y = QuantizeLinear(x, s, z) }",
    "g () => (y) <uint8[0] x = {}, float s = {1}, uint8 z = {3}, float[0] y_want = {}> { y = DequantizeLinear(x, s, z) }",
    "g () => (y) <float[0,3] x = {}, float[0,3] y_want = {}> { y = MeanVarianceNormalization<axes = [0]>(x) }",
    "g () => (y) <float[0,1,2,2] x = {}, float[4] s = {1,1,2,2}, float[0,1,4,4] y_want = {}> { y = Resize(x, , s) }",
    "g () => (y) <float[0,2] a = {}, float[0,2] b = {}, float[0,2] y_want = {}> { y = SwiGLU(a, b) }",
};

static void test_empty(void **state)
{
    (void)state;
    CHECK_ALL(empties);
}

/* ---- one number without axes, and axes counted from the end ---- */

static const char *const ranks[] = {
    "g () => (y) <double[2,2] x = {0,2,4,0}, double[2,2] y_want = {0,0.25,0.5,0}> { y = com.microsoft.Inverse(x) }",
    "g () => (y) <float[2,2] x = {1,2,3,4}, int64[1,2] i = {-1,0}, float[1,2] u = {9,8}, float[2,2] y_want = {1,8,9,4}>"
    " { y = Scatter<axis = -2>(x, i, u) }",
    "g () => (y) <float x = {3}, float y_want = {3}> { y = Transpose(x) }",
    "g () => (y) <float x = {3}, float y_want = {3}> { y = ReduceSum(x) }",
    "g () => (y) <float x = {3}, float y_want = {9}> { y = ReduceSumSquare(x) }",
    "g () => (y) <float x = {3}, int64[0] y_want = {}> { y = Shape(x) }",
    "g () => (y) <float x = {3}, int64 y_want = {1}> { y = Size(x) }",
    "g () => (y) <float x = {3}, float[1,1] y_want = {3}> { y = Flatten<axis = 0>(x) }",
    "g () => (y) <float x = {3}, int64[2] a = {-1,0}, float[1,1] y_want = {3}> { y = Unsqueeze(x, a) }",
    "g () => (y) <float[1] x = {3}, int64[1] a = {-1}, float y_want = {3}> { y = Squeeze(x, a) }",
    "g () => (y) <float x = {3}, int64[0] s = {}, float y_want = {3}> { y = Reshape(x, s) }",
    "g () => (y) <float x = {3}, int64[0] s = {}, float y_want = {3}> { y = Expand(x, s) }",
    "g () => (y) <float x = {3}, int64[0] r = {}, float y_want = {3}> { y = Tile(x, r) }",
    "g () => (y) <int64[0] s = {}, float y_want = {0}> { y = ConstantOfShape(s) }",
    "g () => (y) <bool c = {1}, float a = {1}, float b = {2}, float y_want = {1}> { y = Where(c, a, b) }",
    "g () => (y) <float[3] x = {1,2,3}, int64 i = {-1}, float y_want = {3}> { y = Gather(x, i) }",
    "g () => (y) <float[2,2] x = {1,2,3,4}, int64[2] i = {-1,-2}, float y_want = {3}> { y = GatherND(x, i) }",
    "g () => (y) <float x = {4}, float s = {2}, int8 z = {-1}, int8 y_want = {1}> { y = QuantizeLinear(x, s, z) }",
    "g () => (y) <int8 x = {1}, float s = {2}, int8 z = {-1}, float y_want = {4}> { y = DequantizeLinear(x, s, z) }",
    "g () => (y) <float[2] a = {1,2}, float[2] b = {3,4}, float y_want = {11}> { y = MatMul(a, b) }",
    "g () => (y) <float[2,3] x = {1,2,3,4,5,6}, float[2,2] y_want = {3,1,6,4}, int64[2] i = {-1,0}> { y = Gather<axis = -1>(x, i) }",
    "g () => (y) <float[2,2] x = {1,2,3,4}, int64[2,1] i = {-1,0}, float[2,1] y_want = {2,3}> { y = GatherElements<axis = -1>(x, i) }",
    "g () => (y) <float[2,2] x = {1,2,3,4}, int64[1,2] i = {-1,0}, float[1,2] u = {9,8}, float[2,2] y_want = {1,8,9,4}>"
    " { y = ScatterElements<axis = -2>(x, i, u) }",
    "g () => (y) <float[2,2] x = {1,2,3,4}, int64[1,1] i = {-1}, float[1,2] u = {9,8}, float[2,2] y_want = {1,2,9,8}>"
    " { y = ScatterND(x, i, u) }",
    "g () => (y) <float[2,2] x = {1,2,3,4}, int64[1] k = {1}, float[1,2] y_want = {3,4}> { y, i = TopK<axis = -2>(x, k) }",
    "g () => (y) <float[2,2] x = {1,2,3,4}, int64 a = {-1}, float[2,2] y_want = {2,0,4,0}>"
    " { y = CumSum<exclusive = 1, reverse = 1>(x, a) }",
    "g () => (y) <float[2,2] x = {1,2,3,4}, bool[1] c = {1}, float[2,1] y_want = {1,3}> { y = Compress<axis = -1>(x, c) }",
    "g () => (y) <float[2,2] x = {1,2,3,4}, int64[1] b = {9223372036854775807}, int64[1] e = {-9223372036854775808}, int64[1] a = {-1},"
    " int64[1] s = {-1}, float[2,2] y_want = {2,1,4,3}> { y = Slice(x, b, e, a, s) }",
    "g () => (y) <int64[2] i = {-1,0}, int64 d = {2}, float[2] v = {5,6}, float[2,2] y_want = {5,6,6,5}> { y = OneHot<axis = -2>(i, d, v) }",
    "g () => (y) <float[1,2] x = {2,2}, float[1,2] y_want = {1,0}> { y = Hardmax<axis = -1>(x) }",
    "g () => (y) <float[2,2] x = {1,2,3,4}, int64[4] p = {-1,0,0,1}, float[1,3] y_want = {3,4,0}> { y = Pad(x, p) }",
    "g () => (y) <float[2,2] x = {1,2,3,4}, int64 k = {9223372036854775807}, float[2,2] y_want = {0,0,0,0}> { y = Trilu(x, k) }",
    "g () => (y) <float[2,2] x = {1,2,3,4}, int64 k = {-9223372036854775808}, float[2,2] y_want = {1,2,3,4}> { y = Trilu(x, k) }",
    "g () => (y) <float[3] x = {1,2,3}, int64[1] s = {1}, int64[1] a = {-1}, float[1] y_want = {2}> { y = CenterCropPad<axes = [-1]>(x, s) }",
};

static void test_ranks(void **state)
{
    (void)state;
    CHECK_ALL(ranks);
}

/* ---- NaN and infinities ---- */

static const char *const not_finite[] = {
    "g () => (y) <float[2,1,1] x = {0,4}, float[2,1,1] y_want = {inf,0.25}> { y = com.microsoft.Inverse(x) }",
    "g () => (y) <float[3] x = {nan,inf,-inf}, float[3] y_want = {nan,inf,inf}> { y = Abs(x) }",
    "g () => (y) <float[3] x = {nan,inf,-inf}, float[3] y_want = {nan,1,-1}> { y = Sign(x) }",
    "g () => (y) <float[4] x = {nan,inf,0.5,-1.5}, float[4] y_want = {nan,inf,0,-2}> { y = Round(x) }",
    "g () => (y) <float[3] x = {nan,inf,-inf}, float[3] y_want = {nan,inf,0}> { y = Relu(x) }",
    "g () => (y) <float[3] x = {nan,inf,-inf}, float[3] y_want = {nan,inf,-inf}> { y = LeakyRelu(x) }",
    "g () => (y) <float[3] x = {nan,inf,-inf}, float[3] y_want = {nan,inf,-1}> { y = Elu(x) }",
    "g () => (y) <float[3] x = {nan,inf,-inf}, float[3] y_want = {nan,inf,-1}> { y = Celu(x) }",
    "g () => (y) <float[3] x = {nan,inf,-inf}, float[3] y_want = {nan,1,0}> { y = Sigmoid(x) }",
    "g () => (y) <float[3] x = {nan,inf,-inf}, float[3] y_want = {nan,inf,0}> { y = Softplus(x) }",
    "g () => (y) <float[3] x = {nan,4,-4}, float[3] y_want = {nan,4,0}> { y = HardSwish(x) }",
    "g () => (y) <float[3] x = {nan,inf,0}, float[3] y_want = {nan,inf,0}> { y = Swish(x) }",
    "g () => (y) <float[3] x = {nan,inf,0}, float[3] y_want = {nan,inf,0}> { y = Gelu(x) }",
    "g () => (y) <float[3] x = {nan,inf,-inf}, bool[3] y_want = {1,0,0}> { y = IsNaN(x) }",
    "g () => (y) <float[3] x = {nan,inf,-inf}, bool[3] y_want = {0,0,1}> { y = IsInf<detect_positive = 0>(x) }",
    "g () => (y) <float[3] a = {nan,1,inf}, float[3] b = {1,nan,inf}, float[3] y_want = {nan,nan,inf}> { y = Max(a, b) }",
    "g () => (y) <float[3] a = {nan,1,-inf}, float[3] b = {1,nan,inf}, float[3] y_want = {nan,nan,-inf}> { y = Min(a, b) }",
    "g () => (y) <float[2] a = {inf,0}, float[2] b = {inf,0}, float[2] y_want = {nan,nan}> { y = Div(a, b) }",
    "g () => (y) <float[2] a = {inf,0}, float[2] b = {0,inf}, float[2] y_want = {nan,nan}> { y = Mul(a, b) }",
    "g () => (y) <float[2] a = {inf,1}, float[2] b = {-inf,nan}, float[2] y_want = {nan,nan}> { y = Sum(a, b) }",
    "g () => (y) <float[2] a = {inf,1}, float[2] b = {inf,nan}, float[2] y_want = {inf,nan}> { y = Mean(a, b) }",
    "g () => (y) <float[3] a = {nan,0,2}, float[3] b = {0,0,-inf}, float[3] y_want = {1,1,0}> { y = Pow(a, b) }",
    "g () => (y) <float[2] a = {nan,1}, float[2] b = {nan,1}, bool[2] y_want = {0,1}> { y = Equal(a, b) }",
    "g () => (y) <float[3] x = {nan,-2,inf}, float s = {0.5}, float[3] y_want = {nan,-1,inf}> { y = PRelu(x, s) }",
    "g () => (y) <float[3] x = {nan,-inf,inf}, float[3] y_want = {nan,-1,2}, float l = {-1}, float h = {2}> { y = Clip(x, l, h) }",
    "g () => (y) <float[2,2] x = {-inf,-inf,0,-inf}, float[2,2] y_want = {nan,nan,1,0}> { y = Softmax<axis = -1>(x) }",
    "g () => (y) <float[1,2] x = {0,-inf}, float[1,2] y_want = {0,-inf}> { y = LogSoftmax(x) }",
    "g () => (y) <float[3] x = {1,nan,3}, float y_want = {nan}> { y = ReduceMax<keepdims = 0>(x) }",
    "g () => (y) <float[3] x = {1,nan,3}, float y_want = {nan}> { y = ReduceMin<keepdims = 0>(x) }",
    "g () => (y) <float[2] x = {-inf,inf}, float y_want = {nan}> { y = ReduceSum<keepdims = 0>(x) }",
    "g () => (y) <float[2] x = {-inf,-inf}, float y_want = {-inf}> { y = ReduceLogSumExp<keepdims = 0>(x) }",
    "g () => (y) <float[2] x = {1000,1000}, float y_want = {1000.693147}> { y = ReduceLogSumExp<keepdims = 0>(x) }",
    "g () => (y) <float[4] x = {nan,inf,-inf,1e30}, float s = {1}, uint8 z = {3}, uint8[4] y_want = {3,255,0,255}>"
    " { y = QuantizeLinear(x, s, z) }",
    "g () => (y) <float[1,1,2] x = {nan,1}, float[1,1,1] y_want = {nan}> { y = GlobalAveragePool(x) }",
    "g () => (y) <float[1,1,2] x = {-inf,-inf}, float[1,1,1] y_want = {-inf}> { y = GlobalMaxPool(x) }",
    "g () => (y) <float[1,1,3] x = {-inf,-inf,1}, float[1,1,2] y_want = {-inf,1}> { y = MaxPool<kernel_shape = [2]>(x) }",
    "g () => (y) <float[3] x = {nan,2,-2}, float[3] y_want = {nan,2,-2}> { y = Shrink(x) }",
    "g () => (y) <float[2] x = {nan,inf}, float[2] y_want = {nan,nan}> { y = Tan(x) }",
    "g () => (y) <float[2] x = {nan,2}, float[2] y_want = {nan,nan}> { y = Acos(x) }",
    "g () => (y) <float[2] x = {inf,0.5}, float[2] y_want = {inf,nan}> { y = Acosh(x) }",
    "g () => (y) <float[3] x = {1,-1,2}, float[3] y_want = {inf,-inf,nan}> { y = Atanh(x) }",
};

static void test_not_finite(void **state)
{
    (void)state;
    CHECK_ALL(not_finite);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_integers), cmocka_unit_test(test_empty),
                                       cmocka_unit_test(test_ranks), cmocka_unit_test(test_not_finite)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
