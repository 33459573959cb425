/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that select, sort, count and resample. */
#include "const_case.h"

/* ---- selecting ---- */

static void test_top_k(void **state)
{
    (void)state;
    check("g () => (y, i) <float[2,3] x = {1,3,2,5,4,6}, int64[1] k = {2}, float[2,2] y_want = {3,2,6,5},"
          " int64[2,2] i_want = {1,2,2,0}> { y, i = TopK(x, k) }");
    /* Equal elements keep their order, NaN is the greatest, -0 equals 0. */
    check("g () => (y, i) <float[5] x = {0,nan,-0.0,1,0}, int64[1] k = {4}, float[4] y_want = {nan,1,0,-0.0},"
          " int64[4] i_want = {1,3,0,2}> { y, i = TopK(x, k) }");
    check("g () => (y, i) <float[3] x = {nan,-inf,1}, int64[1] k = {3}, float[3] y_want = {-inf,1,nan},"
          " int64[3] i_want = {1,2,0}> { y, i = TopK<largest = 0>(x, k) }");
    check("g () => (y, i) <int64[3] x = {9223372036854775807,-9223372036854775808,0}, int64[1] k = {2},"
          " int64[2] y_want = {9223372036854775807,0}, int64[2] i_want = {0,2}> { y, i = TopK(x, k) }");
    check("g () => (y, i) <uint8[3] x = {200,3,100}, int64[1] k = {1}, uint8[1] y_want = {3}, int64[1] i_want = {1}>"
          " { y, i = TopK<largest = 0, sorted = 0>(x, k) }");
    check("g () => (y, i) <float[2,2] x = {1,4,3,2}, int64[1] k = {1}, float[1,2] y_want = {3,4}, int64[1,2] i_want = "
          "{1,0}> { y, i = TopK<axis = -2>(x, k) }");
    check("g () => (y, i) <float[2,0] x = {}, int64[1] k = {0}, float[2,0] y_want = {}, int64[2,0] i_want = {}> { y, i "
          "= TopK(x, k) }");
    check_fails("g () => (y, i) <float[2] x = {1,2}, int64[1] k = {3}> { y, i = TopK(x, k) }", OPF_INVALID_INPUT,
                "K is 3, axis 0 has 2");
    check_fails("g () => (y, i) <float x = {1}, int64[1] k = {1}> { y, i = TopK(x, k) }", OPF_INVALID_MODEL, "axis -1");
    check_shape("g (float[N,S] x) => (y) <int64[1] k = {5}> { y, i = TopK(x, k) }", "float[N,5]");
    check_shape("g (float[N,S] x, int64[1] k) => (y) { y, i = TopK(x, k) }", "float[N,?]");
}

static void test_arg(void **state)
{
    (void)state;
    check("g () => (y, z) <float[2,2] x = {2,1,3,10}, int64[2,1] y_want = {0,1}, int64[2] z_want = {0,0}>"
          " { y = ArgMax<axis = 1>(x) z = ArgMin<axis = 0, keepdims = 0>(x) }");
    check("g () => (y, z) <float[4] x = {2,nan,nan,1}, int64[1] y_want = {1}, int64[1] z_want = {2}>"
          " { y = ArgMax(x) z = ArgMin<select_last_index = 1>(x) }");
    check("g () => (y, z) <int64[3] x = {-9223372036854775808,9223372036854775807,9223372036854775807},"
          " int64 y_want = {1}, int64 z_want = {2}>"
          " { y = ArgMax<keepdims = 0>(x) z = ArgMax<axis = -1, keepdims = 0, select_last_index = 1>(x) }");
    check("g () => (y) <uint64[2] x = {18446744073709551615,1}, int64[1] y_want = {1}> { y = ArgMin(x) }");
    check("g () => (y) <float[0,3] x = {}, int64[0] y_want = {}> { y = ArgMax<axis = 1, keepdims = 0>(x) }");
    check_fails("g () => (y) <float[2,0] x = {}> { y = ArgMax<axis = 1>(x) }", OPF_INVALID_INPUT, "axis 1 is empty");
    check_fails("g () => (y) <float x = {1}> { y = ArgMax(x) }", OPF_INVALID_MODEL, "axis 0");
}

static void test_non_zero(void **state)
{
    (void)state;
    check("g () => (y) <float[2,2] x = {1,0,nan,-0.0}, int64[2,2] y_want = {0,1,0,0}> { y = NonZero(x) }");
    check("g () => (y) <bool[3] x = {0,1,1}, int64[1,2] y_want = {1,2}> { y = NonZero(x) }");
    check("g () => (y) <int32 x = {5}, int64[0,1] y_want = {}> { y = NonZero(x) }");
    check("g () => (y) <int64[2,0] x = {}, int64[2,0] y_want = {}> { y = NonZero(x) }");
    check_shape("g (float[N,S] x) => (y) { y = NonZero(x) }", "int64[2,?]");
}

static void test_one_hot(void **state)
{
    (void)state;
    check("g () => (y) <int64[3] x = {0,-1,5}, int64 d = {3}, float[2] v = {2,5}, float[3,3] y_want = {5,2,2,2,2,5,2,2,2}>"
          " { y = OneHot(x, d, v) }");
    check("g () => (y) <float[2] x = {1,-2}, float[1] d = {2}, bool[2] v = {0,1}, bool[2,2] y_want = {0,1,1,0}>"
          " { y = OneHot<axis = 0>(x, d, v) }");
    check("g () => (y) <int32 x = {1}, int32 d = {2}, int64[2] v = {7,8}, int64[2] y_want = {7,8}> { y = OneHot(x, d, v) }");
    check("g () => (y) <uint64[1] x = {18446744073709551615}, int64 d = {2}, int8[2] v = {0,1}, int8[1,2] y_want = {0,0}>"
          " { y = OneHot(x, d, v) }");
    check("g () => (y) <int64[1] x = {-9223372036854775808}, int64 d = {1}, int8[2] v = {0,1}, int8[1,1] y_want = {0}>"
          " { y = OneHot(x, d, v) }");
    check_fails("g () => (y) <int64[1] x = {0}, int64 d = {-1}, int8[2] v = {0,1}> { y = OneHot(x, d, v) }",
                OPF_INVALID_INPUT, "depth is -1");
    check_shape("g (int64[N] x, int64 d) => (y) <float[2] v = {0,1}> { y = OneHot(x, d, v) }", "float[N,?]");
}

static void test_compress(void **state)
{
    (void)state;
    check("g () => (y) <float[3,2] x = {1,2,3,4,5,6}, bool[2] c = {0,1}, float[1,2] y_want = {3,4}> { y = Compress<axis = 0>(x, c) }");
    check("g () => (y) <float[3,2] x = {1,2,3,4,5,6}, bool[5] c = {0,1,0,0,1}, float[2] y_want = {2,5}> { y = Compress(x, c) }");
    check("g () => (y) <int64[2,2] x = {1,2,3,4}, bool[2] c = {0,1}, int64[2,1] y_want = {2,4}> { y = Compress<axis = -1>(x, c) }");
    check("g () => (y) <float x = {3}, bool[1] c = {1}, float[1] y_want = {3}> { y = Compress(x, c) }");
    check("g () => (y) <float[2] x = {1,2}, bool[4] c = {1,0,0,0}, float[1] y_want = {1}> { y = Compress<axis = 0>(x, c) }");
    check_fails("g () => (y) <float[2] x = {1,2}, bool[3] c = {0,0,1}> { y = Compress<axis = 0>(x, c) }",
                OPF_INVALID_INPUT, "condition[2] is true");
    check_shape("g (float[N,S] x, bool[K] c) => (y) { y = Compress<axis = 1>(x, c) }", "float[N,?]");
}

static void test_unique(void **state)
{
    (void)state;
    check("g () => (y, i, v, c) <float[6] x = {2,1,1,3,4,3}, float[4] y_want = {1,2,3,4}, int64[4] i_want = {1,0,3,4},"
          " int64[6] v_want = {1,0,0,2,3,2}, int64[4] c_want = {2,1,2,1}> { y, i, v, c = Unique(x) }");
    check("g () => (y, i, v, c) <float[6] x = {2,1,1,3,4,3}, float[4] y_want = {2,1,3,4}, int64[4] i_want = {0,1,3,4},"
          " int64[6] v_want = {0,1,1,2,3,2}, int64[4] c_want = {1,2,2,1}> { y, i, v, c = Unique<sorted = 0>(x) }");
    check("g () => (y, i, v, c) <int8[2,3] x = {3,1,3,4,-2,4}, int8[2,2] y_want = {1,3,-2,4}, int64[2] i_want = {1,0},"
          " int64[3] v_want = {1,0,1}, int64[2] c_want = {1,2}> { y, i, v, c = Unique<axis = -1>(x) }");
    check("g () => (y, i, v, c) <float[4] x = {nan,1,nan,-0.0}, float[3] y_want = {0,1,nan}, int64[3] i_want = {3,1,0},"
          " int64[4] v_want = {2,1,2,0}, int64[3] c_want = {1,1,2}> { y, i, v, c = Unique(x) }");
    check("g () => (y, c) <float x = {7}, float[1] y_want = {7}, int64[1] c_want = {1}> { y, i, v, c = Unique(x) }");
    check("g () => (y) <float[0] x = {}, float[0] y_want = {}> { y = Unique(x) }");
    check_shape("g (float[N,S] x) => (y) { y, i = Unique<axis = 0>(x) }", "float[?,S]");
}

static void test_non_max_suppression(void **state)
{
    (void)state;
#define BOXES                                                                                                          \
    "float[1,4,4] b = {0,0,1,1, 0,0.1,1,1.1, 1,1,0,0, 0,10,1,11}, float[1,1,4] s = {0.5,0.75,0.75,0.25}, "
    check("g () => (y) <" BOXES "int64[1] m = {3}, float[1] t = {0.5}, int64[2,3] y_want = {0,0,1,0,0,3}>"
          " { y = NonMaxSuppression(b, s, m, t) }");
    check("g () => (y) <" BOXES "int64 m = {9223372036854775807}, float t = {1}, float c = {0.25}, int64[3,3] y_want = {0,0,1,0,0,2,0,0,0}>"
          " { y = NonMaxSuppression(b, s, m, t, c) }");
    check("g () => (y) <" BOXES "int64[0,3] y_want = {}> { y = NonMaxSuppression(b, s) }");
    check("g () => (y) <float[1,0,4] b = {}, float[1,2,0] s = {}, int64[1] m = {3}, int64[0,3] y_want = {}>"
          " { y = NonMaxSuppression(b, s, m) }");
    check_fails("g () => (y) <float[1,1,4] b = {0,0,1,1}, float[1,1,2] s = {1,1}> { y = NonMaxSuppression(b, s) }",
                OPF_INVALID_INPUT, "as many in both");
    check_shape("g (float[N,B,4] b, float[N,C,B] s) => (y) { y = NonMaxSuppression(b, s) }", "int64[?,3]");
}

/* ---- moving ---- */

static void test_gather_scatter(void **state)
{
    (void)state;
    check("g () => (y) <int32[2,2] x = {0,1,2,3}, int64[2,1] i = {1,-2}, int32[2] z = {9,9}, int32[2,2] y_want = {2,3,0,1}>"
          " { y = GatherND(x, i) }");
    check("g () => (y) <float[2,2,2] x = {0,1,2,3,4,5,6,7}, int64[2,1] i = {1,0}, float[2,2] y_want = {2,3,4,5}>"
          " { y = GatherND<batch_dims = 1>(x, i) }");
    check("g () => (y) <float[2,2] x = {1,2,3,4}, int64[2,2] i = {0,0,1,-2}, float[2,2] y_want = {1,1,4,3}>"
          " { y = GatherElements<axis = 1>(x, i) }");
    check("g () => (y) <int8[3] x = {1,2,3}, int32[5] i = {0,0,2,-1,-3}, int8[5] y_want = {1,1,3,3,1}> { y = "
          "GatherElements<axis = -1>(x, i) }");
    check("g () => (y) <float[3,2] x = {1,2,3,4,5,6}, int64[0,2] i = {}, float[0,2] y_want = {}> { y = GatherElements(x, i) }");
    check("g () => (y) <float[1,5] x = {1,2,3,4,5}, int64[1,2] i = {1,-2}, float[1,2] u = {8,9}, float[1,5] y_want = {1,8,3,9,5}>"
          " { y = ScatterElements<axis = 1>(x, i, u) }");
    check("g () => (y, z) <int8[3] x = {127,2,-3}, int64[3] i = {0,0,2}, int8[3] u = {1,2,-128}, int8[3] y_want = {-126,2,125},"
          " int8[3] z_want = {1,2,-128}> { y = ScatterElements<reduction = \"add\">(x, i, u)"
          " z = ScatterElements<reduction = \"min\">(x, i, u) }");
    check("g () => (y) <uint64[2] x = {1,9}, int64[2] i = {0,1}, uint64[2] u = {18446744073709551615,3},"
          " uint64[2] y_want = {18446744073709551615,9}> { y = ScatterElements<reduction = \"max\">(x, i, u) }");
    check("g () => (y) <float[2] x = {1,nan}, int64[2] i = {0,1}, float[2] u = {nan,3}, float[2] y_want = {nan,nan}>"
          " { y = ScatterElements<reduction = \"max\">(x, i, u) }");
    check_fails("g () => (y) <float[2] x = {1,2}, int64[1,1] i = {2}> { y = GatherND(x, i) }", OPF_INVALID_INPUT,
                "index 2 is out of range");
    check_fails("g () => (y) <float[2] x = {1,2}, int64[1,2] i = {0,0}> { y = GatherND(x, i) }", OPF_INVALID_MODEL,
                "indices of 2 numbers");
    check_fails("g () => (y) <float[2] x = {1,2}, int64[1] i = {-3}> { y = GatherElements(x, i) }", OPF_INVALID_INPUT,
                "index -3 is out of range");
    check_fails("g () => (y) <float[2] x = {1,2}, int64[1] i = {2}, float[1] u = {1}> { y = ScatterElements(x, i, u) }",
                OPF_INVALID_INPUT, "index 2 is out of range");
    check_fails("g () => (y) <float[2] x = {1,2}, int64[2] i = {0,1}, float[1] u = {1}> { y = ScatterElements(x, i, u) }",
                OPF_INVALID_INPUT, "must be equal");
    check_shape("g (float[N,S,D] x, int64[N,K,1] i) => (y) { y = GatherND<batch_dims = 1>(x, i) }", "float[N,K,D]");
    check_shape("g (float[N,S] x, int64[N,K] i) => (y) { y = GatherElements<axis = 1>(x, i) }", "float[N,K]");
}

static void test_tile(void **state)
{
    (void)state;
    check("g () => (y) <float[2,2] x = {1,2,3,4}, int64[2] r = {2,2}, float[4,4] y_want = {1,2,1,2,3,4,3,4,1,2,1,2,3,4,3,4}>"
          " { y = Tile(x, r) }");
    check("g () => (y) <int64[2] x = {1,2}, int64[1] r = {0}, int64[0] y_want = {}> { y = Tile(x, r) }");
    check("g () => (y) <float[2,0] x = {}, int64[2] r = {3,2}, float[6,0] y_want = {}> { y = Tile(x, r) }");
    check("g () => (y) <bool x = {1}, int64[0] r = {}, bool y_want = {1}> { y = Tile(x, r) }");
    check_fails("g () => (y) <float[2] x = {1,2}, int64[1] r = {-1}> { y = Tile(x, r) }", OPF_INVALID_INPUT,
                "repeats[0] is -1");
    check_fails("g () => (y) <float[2] x = {1,2}, int64[2] r = {1,1}> { y = Tile(x, r) }", OPF_INVALID_MODEL,
                "repeats has 2");
    check_shape("g (float[N,3] x) => (y) <int64[2] r = {1,4}> { y = Tile(x, r) }", "float[N,12]");
}

static void test_triangles(void **state)
{
    (void)state;
    check("g () => (y, z) <int64[2,3] x = {1,2,3,4,5,6}, int64 k = {-1}, int64[2,3] y_want = {1,2,3,0,5,6},"
          " int64[2,3] z_want = {0,0,0,4,0,0}> { y = Trilu(x) z = Trilu<upper = 0>(x, k) }");
    check("g () => (y) <float[2,2] x = {nan,2,3,4}, int64 k = {9223372036854775807}, float[2,2] y_want = {0,0,0,0}> { y = Trilu(x, k) }");
    check("g () => (y) <bool[0,2] x = {}, bool[0,2] y_want = {}> { y = Trilu(x) }");
    check_fails("g () => (y) <float[2] x = {1,2}> { y = Trilu(x) }", OPF_INVALID_MODEL, "rank 1");
    check("g () => (y) <int8[2,3] x = {9,9,9,9,9,9}, float16[2,3] y_want = {0,1,0,0,0,1}> { y = EyeLike<dtype = 10, k = 1>(x) }");
    check("g () => (y) <int8[2,2] x = {9,9,9,9}, int8[2,2] y_want = {0,0,0,0}> { y = EyeLike<k = 9223372036854775807>(x) }");
    check_fails("g () => (y) <int8[2] x = {9,9}> { y = EyeLike(x) }", OPF_INVALID_MODEL, "rank 1");
}

static void test_blocks(void **state)
{
    (void)state;
    check("g () => (y, z) <int8[1,8,1,1] x = {0,1,2,3,4,5,6,7}, int8[1,2,2,2] y_want = {0,2,4,6,1,3,5,7},"
          " int8[1,2,2,2] z_want = {0,1,2,3,4,5,6,7}> { y = DepthToSpace<blocksize = 2>(x)"
          " z = DepthToSpace<blocksize = 2, mode = \"CRD\">(x) }");
    check("g () => (y, z) <int8[1,2,2,2] x = {0,2,4,6,1,3,5,7}, int8[1,8,1,1] y_want = {0,1,2,3,4,5,6,7},"
          " int8[1,8,1,1] z_want = {0,2,4,6,1,3,5,7}> { y = SpaceToDepth<blocksize = 2>(x)"
          " z = SpaceToDepth<blocksize = 2, mode = \"CRD\">(x) }");
    check_fails("g () => (y) <int8[1,2,1,1] x = {0,1}> { y = DepthToSpace<blocksize = 2>(x) }", OPF_INVALID_INPUT,
                "must be a multiple of 4");
    check_fails("g () => (y) <int8[1,2,1,1] x = {0,1}> { y = DepthToSpace<blocksize = 0>(x) }", OPF_INVALID_MODEL,
                "blocksize is 0");
    check_shape("g (float[N,16,H,W] x) => (y) { y = DepthToSpace<blocksize = 2>(x) }", "float[N,4,2*H,2*W]");
}

static void test_sequences(void **state)
{
    (void)state;
    check("g () => (y) <float[3,2] x = {1,2,3,4,5,6}, int64[2] l = {3,2}, float[3,2] y_want = {5,4,3,2,1,6}>"
          " { y = ReverseSequence(x, l) }");
    check("g () => (y) <float[2,3] x = {1,2,3,4,5,6}, int64[2] l = {0,3}, float[2,3] y_want = {1,2,3,6,5,4}>"
          " { y = ReverseSequence<batch_axis = 0, time_axis = 1>(x, l) }");
    check_fails("g () => (y) <float[2,1] x = {1,2}, int64[1] l = {3}> { y = ReverseSequence(x, l) }", OPF_INVALID_INPUT,
                "sequence_lens[0] is 3");
    check("g () => (y) <int4[2,3,2] x = {1,2,3,4,5,6,-1,-2,-3,-4,-5,-6}, int4[2,1,2] u = {7,7,-8,-8}, int64[2] w = {2,0},"
          " int4[2,3,2] y_want = {1,2,3,4,7,7,-8,-8,-3,-4,-5,-6}> { y = TensorScatter(x, u, w) }");
    check("g () => (y) <float[1,3,1] x = {1,2,3}, float[1,2,1] u = {8,9}, int64[1] w = {-1}, float[1,3,1] y_want = {9,2,8}>"
          " { y = TensorScatter<mode = \"circular\">(x, u, w) }");
    check_fails("g () => (y) <float[1,3,1] x = {1,2,3}, float[1,2,1] u = {8,9}, int64[1] w = {2}> { y = TensorScatter(x, u, w) }",
                OPF_INVALID_INPUT, "do not fit a cache of 3");
    check_fails("g () => (y) <float[2] x = {1,2}, float[1] u = {8}> { y = TensorScatter<axis = 0>(x, u) }",
                OPF_INVALID_MODEL, "axis is 0");
    check("g () => (y) <float[4,3] x = {1,2,3,4,5,6,7,8,9,10,11,12}, int64[2] s = {1,6}, float[1,6] y_want = {0,4,5,6,0,0}>"
          " { y = CenterCropPad(x, s) }");
    check("g () => (y) <int64[2,3] x = {1,2,3,4,5,6}, int32[1] s = {2}, int64[2,2] y_want = {1,2,4,5}>"
          " { y = CenterCropPad<axes = [-1]>(x, s) }");
    check_fails("g () => (y) <float[2] x = {1,2}, int64[2] s = {1,1}> { y = CenterCropPad(x, s) }", OPF_INVALID_MODEL,
                "1 elements");
}

/* ---- computing ---- */

static void test_cumulate(void **state)
{
    (void)state;
    check("g () => (y, z) <float[2,3] x = {1,2,3,4,5,6}, int64 a = {-1}, float[2,3] y_want = {1,3,6,4,9,15},"
          " float[2,3] z_want = {5,3,0,11,6,0}> { y = CumSum(x, a) z = CumSum<exclusive = 1, reverse = 1>(x, a) }");
    check("g () => (y, z) <int32[3] x = {2147483647,2,3}, int32[1] a = {0}, int32[3] y_want = {2147483647,-2147483647,-2147483644},"
          " int32[3] z_want = {1,2147483647,-2}> { y = CumSum(x, a) z = CumProd<exclusive = 1>(x, a) }");
    check("g () => (y) <float16[3] x = {60000,60000,-60000}, int64 a = {0}, float16[3] y_want = {60000,inf,60000}> { y = CumSum(x, a) }");
    check("g () => (y) <float[0,2] x = {}, int64 a = {0}, float[0,2] y_want = {}> { y = CumSum(x, a) }");
    check_fails("g () => (y) <float[2] x = {1,2}, int64 a = {1}> { y = CumSum(x, a) }", OPF_INVALID_MODEL, "axis 1");
}

static void test_einsum(void **state)
{
    (void)state;
    check("g () => (y) <float[2,3] a = {1,2,3,4,5,6}, float[3,2] b = {1,0,0,1,1,1}, float[2,2] y_want = {4,5,10,11}>"
          " { y = Einsum<equation = \" ij, jk -> ik \">(a, b) }");
    check("g () => (y, z, t) <int8[2,2] a = {1,2,3,4}, int8[2] y_want = {1,4}, int8 z_want = {5}, int8[2,2] t_want = {1,3,2,4}>"
          " { y = Einsum<equation = \"ii->i\">(a) z = Einsum<equation = \"ii\">(a) t = Einsum<equation = \"ba\">(a) }");
    check("g () => (y) <uint8[2] a = {200,100}, uint8[2] b = {2,3}, uint8 y_want = {188}> { y = Einsum<equation = \"i,i\">(a, b) }");
    check("g () => (y) <float[2,1,2] a = {1,2,3,4}, float[3,2] b = {1,1,2,2,3,3}, float[2,3] y_want = {3,6,9,7,14,21}>"
          " { y = Einsum<equation = \"...i,...i->...\">(a, b) }");
    check("g () => (y) <float[2] a = {1,2}, float[2] b = {3,4}, float[2] c = {5,6}, float[2] y_want = {15,48}>"
          " { y = Einsum<equation = \"i,i,i->i\">(a, b, c) }");
    check("g () => (y) <float[2,0] a = {}, float[0,2] b = {}, float[2,2] y_want = {0,0,0,0}> { y = Einsum<equation = \"ij,jk\">(a, b) }");
    check("g () => (y) <float a = {3}, float b = {4}, float y_want = {12}> { y = Einsum<equation = \",->\">(a, b) }");
    check("g () => (y) <int64[1] a = {4611686018427387905}, int64[1] b = {3}, int64 y_want = {-4611686018427387901}>"
          " { y = Einsum<equation = \"i,i->\">(a, b) }");
    check_fails("g () => (y) <float[2] a = {1,2}> { y = Einsum<equation = \"ij\">(a) }", OPF_INVALID_MODEL, "2 labels");
    check_fails("g () => (y) <float[2] a = {1,2}> { y = Einsum<equation = \"i->j\">(a) }", OPF_INVALID_MODEL, "'j' of the result");
    check_fails("g () => (y) <float[2] a = {1,2}> { y = Einsum<equation = \"i->ii\">(a) }", OPF_INVALID_MODEL, "twice");
    check_fails("g () => (y) <float[2] a = {1,2}> { y = Einsum<equation = \"i,i\">(a) }", OPF_INVALID_MODEL, "more terms");
    check_fails("g () => (y) <float[2] a = {1,2}, float[3] b = {1,2,3}> { y = Einsum<equation = \"i,i\">(a, b) }",
                OPF_INVALID_INPUT, "must be 2");
    check_fails("g () => (y) <float[2] a = {1,2}> { y = Einsum<equation = \"i-\">(a) }", OPF_INVALID_MODEL, "'-'");
    check_shape("g (float[N,S,12,64] a, float[N,T,12,64] b) => (y) { y = Einsum<equation = \"bshd,bthd->bhst\">(a, b) }",
                "float[N,12,S,T]");
}

static void test_det(void **state)
{
    (void)state;
    check("g () => (y) <float[2,2,2] x = {1,2,3,4,0,1,1,0}, float[2] y_want = {-2,-1}> { y = Det(x) }");
    check("g () => (y) <double[0,0] x = {}, double y_want = {1}> { y = Det(x) }");
    check("g () => (y) <float[3,3] x = {1,2,3,2,4,6,1,1,1}, float y_want = {0}> { y = Det(x) }");
    check_fails("g () => (y) <float[1,2] x = {1,2}> { y = Det(x) }", OPF_INVALID_INPUT, "must be square");
}

/* ---- resampling ---- */

static void test_resize(void **state)
{
    (void)state;
    check("g () => (y) <int64[2,2] x = {1,2,3,9223372036854775807}, float[2] s = {2,1}, int64[4,2] y_want = "
          "{1,2,1,2,3,9223372036854775807,3,9223372036854775807}> { y = Resize(x, , s) }");
    check("g () => (y) <float[1,2] x = {1,3}, int64[1] s = {4}, float[1,4] y_want = {1,1.5,2.5,3}>"
          " { y = Resize<mode = \"linear\", axes = [-1]>(x, , , s) }");
    check("g () => (y) <float[3] x = {1,2,3}, int64[1] s = {5}, float[5] y_want = {1,1.5,2,2.5,3}>"
          " { y = Resize<mode = \"linear\", coordinate_transformation_mode = \"align_corners\">(x, , , s) }");
    check("g () => (y) <float[4] x = {1,2,3,4}, float[1] s = {0.5}, float[2] y_want = {1,3}>"
          " { y = Resize<nearest_mode = \"floor\", coordinate_transformation_mode = \"asymmetric\">(x, , s) }");
    check("g () => (y) <float[4] x = {1,2,3,4}, float[1] s = {0.5}, float[2] y_want = {1.625,3.375}>"
          " { y = Resize<mode = \"linear\", antialias = 1, exclude_outside = 0>(x, , s) }");
    /* Taps of weight 0 do not carry a NaN. */
    check("g () => (y) <float[2] x = {nan,3}, float[1] s = {1}, float[2] y_want = {nan,3}> { y = Resize<mode = \"cubic\">(x, , s) }");
    check("g () => (y) <int8[2] x = {-128,127}, int64[1] s = {4}, int8[4] y_want = {-128,-64,63,127}> { y = Resize<mode = \"linear\">(x, , , s) }");
    check("g () => (y) <float[3] x = {1,2,3}, float[2] r = {-1,1}, int64[1] s = {3}, float[3] y_want = {9,1,3}>"
          " { y = Resize<mode = \"linear\", coordinate_transformation_mode = \"tf_crop_and_resize\", extrapolation_value = 9.0>(x, r, , s) }");
    check("g () => (y) <float[2,4] x = {1,2,3,4,5,6,7,8}, int64[2] s = {4,4}, float[2,4] y_want = {1,2,3,4,5,6,7,8}>"
          " { y = Resize<keep_aspect_ratio_policy = \"not_larger\">(x, , , s) }");
    check("g () => (y) <float[0,2] x = {}, float[2] s = {2,2}, float[0,4] y_want = {}> { y = Resize<mode = \"linear\">(x, , s) }");
    check("g () => (y) <float[2] x = {1,2}, float[0] r = {}, float[0] s = {}, int64[1] z = {1}, float[1] y_want = {1}> { y = Resize(x, r, s, z) }");
    check_fails("g () => (y) <float[2] x = {1,2}, float[1] s = {0}> { y = Resize(x, , s) }", OPF_INVALID_INPUT, "must be positive");
    check_fails("g () => (y) <float[2] x = {1,2}, float[2] s = {1,1}> { y = Resize(x, , s) }", OPF_INVALID_MODEL, "scales has 2");
    check_fails("g () => (y) <float[2] x = {1,2}> { y = Resize(x) }", OPF_INVALID_MODEL, "both missing");
    check_fails("g () => (y) <float[0] x = {}, int64[1] s = {2}> { y = Resize(x, , , s) }", OPF_INVALID_INPUT, "empty axis");
    check_fails("g () => (y) <int64[2] x = {1,2}, float[1] s = {2}> { y = Resize<mode = \"linear\">(x, , s) }", OPF_UNSUPPORTED, "nearest only");
    check_shape("g (float[N,3,H,9] x) => (y) <float[4] s = {1,1,2,0.5}> { y = Resize(x, , s) }", "float[N,3,2*H,4]");
    check_shape("g (float[N,3,H,W] x, float[4] s) => (y) { y = Resize(x, , s) }", "float[?,?,?,?]");
    check_shape("g (float[N,3,H,W] x) => (y) <int64[2] s = {7,8}> { y = Resize<axes = [2,3]>(x, , , s) }", "float[N,3,7,8]");
}

static void test_grids(void **state)
{
    (void)state;
    check("g () => (y, z) <float[1,1,2,2] x = {1,2,3,4}, float[1,1,3,2] g = {0,0,-1,-1,9,9}, float[1,1,1,3] y_want = {2.5,1,0},"
          " float[1,1,1,3] z_want = {2.5,1,4}> { y = GridSample<align_corners = 1>(x, g)"
          " z = GridSample<align_corners = 1, padding_mode = \"border\">(x, g) }");
    check("g () => (y) <bool[1,1,1,2] x = {0,1}, float[1,2,1,2] g = {0.5,0,-3,0}, bool[1,1,2,1] y_want = {1,0}> { y = GridSample<mode = \"nearest\">(x, g) }");
    check("g () => (y) <float[1,1,1,2] x = {1,2}, float[1,1,3,2] g = {nan,0,inf,0,1e30,0}, float[1,1,1,3] y_want = {0,0,0}> { y = GridSample(x, g) }");
    check("g () => (y) <float[1,1,3] x = {1,2,3}, float[1,2,1] g = {0,2}, float[1,1,2] y_want = {2,2}>"
          " { y = GridSample<padding_mode = \"reflection\", align_corners = 1>(x, g) }");
    check_fails("g () => (y) <int64[1,1,1,2] x = {1,2}, float[1,1,1,2] g = {0,0}> { y = GridSample(x, g) }", OPF_UNSUPPORTED, "nearest only");
    check("g () => (y) <float[1,2,3] t = {1,0,0.5,0,2,0}, int64[4] s = {1,1,2,2}, float[1,2,2,2] y_want = {0,-1,1,-1,0,1,1,1}> { y = AffineGrid(t, s) }");
    check("g () => (y) <float[1,2,3] t = {1,0,0,0,1,0}, int64[4] s = {1,1,1,3}, float[1,1,3,2] y_want = {-1,0,0,0,1,0}>"
          " { y = AffineGrid<align_corners = 1>(t, s) }");
}

static void test_regions(void **state)
{
    (void)state;
    check("g () => (y) <float[1,1,2,2] x = {1,2,3,4}, float[1,4] r = {0,0,2,2}, int64[1] b = {0}, float[1,1,1,1] y_want = {2.5}>"
          " { y = RoiAlign<sampling_ratio = 1>(x, r, b) }");
    check("g () => (y) <float[1,1,2,2] x = {1,2,3,4}, float[0,4] r = {}, int64[0] b = {}, float[0,1,1,1] y_want = {}> { y = RoiAlign(x, r, b) }");
    check_fails("g () => (y) <float[1,1,2,2] x = {1,2,3,4}, float[1,4] r = {0,0,2,2}, int64[1] b = {1}> { y = RoiAlign(x, r, b) }",
                OPF_INVALID_INPUT, "batch_indices[0] is 1");
    check_fails("g () => (y) <float[1,1,2,2] x = {1,2,3,4}, float[1,4] r = {0,0,1e30,2}, int64[1] b = {0}> { y = RoiAlign(x, r, b) }",
                OPF_INVALID_INPUT, "samples a bin");
    check("g () => (y) <float[1,1,2,3] x = {1,2,3,4,5,6}, float[2,5] r = {0,0,0,2,1,0,8,8,9,9}, float[2,1,1,2] y_want = {5,6,0,0}>"
          " { y = MaxRoiPool<pooled_shape = [1,2]>(x, r) }");
    check_fails("g () => (y) <float[1,1,1,1] x = {1}, float[1,5] r = {nan,0,0,2,1}> { y = MaxRoiPool<pooled_shape = [1,1]>(x, r) }",
                OPF_INVALID_INPUT, "X has 1");
}

/* ---- older opsets ---- */

/* The node that makes y, written for an opset by its rows, newest first. */
static opf_status lower(fixture *f, opf_node_id id, int32_t opset)
{
    const opf_op *op = opf_graph_node(f->graph, id)->op;
    for (uint32_t r = op->n_rows; r-- > 0;)
        if (opset < op->rows[r].below) {
            opf_status status = op->rows[r].lower(f->graph, id, opset, &f->error);
            if (status != OPF_OK)
                return status;
        }
    return OPF_OK;
}

static opf_status lift(fixture *f, opf_node_id id, int32_t opset)
{
    const opf_op *op = opf_graph_node(f->graph, id)->op;
    for (uint32_t r = 0; r < op->n_rows; r++)
        if (opset < op->rows[r].below) {
            opf_status status = op->rows[r].lift(f->graph, id, opset, &f->error);
            if (status != OPF_OK)
                return status;
        }
    return OPF_OK;
}

/* Lowered, the node is of operator `name`; lifted again, it gives the same. */
static void check_lowers(const char *text, int32_t opset, const char *name)
{
    fixture f;
    if (load(&f, text) != OPF_OK || lower(&f, 1, opset) != OPF_OK)
        fail_msg("%s\n%s", f.error.message, text);
    assert_string_equal(opf_graph_node(f.graph, 1)->op_type, name);
    if (lift(&f, 1, opset) != OPF_OK || opf_infer_graph(f.graph, &f.error) != OPF_OK || run_all(&f, DENSE, DENSE) != OPF_OK)
        fail_msg("%s\n%s", f.error.message, text);
    opf_value_id y = opf_graph_find_value(f.graph, "y"), want = opf_graph_find_value(f.graph, "y_want");
    compare(&f, opf_graph_value(f.graph, y), &f.views[y], opf_graph_value(f.graph, want)->constant, text);
    unload(&f);
}

static void check_never_lowers(const char *text, int32_t opset, const char *message)
{
    fixture f;
    if (load(&f, text) != OPF_OK)
        fail_msg("%s\n%s", f.error.message, text);
    opf_status status = lower(&f, 1, opset);
    if (status != OPF_UNSUPPORTED || strstr(f.error.message, message) == NULL)
        fail_msg("status %d, '%s', must be '%s'", (int)status, f.error.message, message);
    unload(&f);
}

static void test_older_opsets(void **state)
{
    (void)state;
#define UP                                                                                                             \
    "g () => (y) <float[1,2] x = {1,3}, float[2] s = {1,2}, float[1,4] y_want = {1,1,3,3}> { y = "                     \
    "Resize<coordinate_transformation_mode = \"asymmetric\", nearest_mode = \"floor\">(x, , s) }"
    check_lowers(UP, 18, "Resize");
    check_lowers(UP, 11, "Resize");
    check_lowers(UP, 10, "Resize");
    check_lowers(UP, 9, "Upsample");
    check_lowers(UP, 7, "Upsample");
#define SIZED(attrs)                                                                                                   \
    "g () => (y) <float[1,2] x = {1,3}, int64[1] s = {4}, float[1,4] y_want = {1,1.5,2.5,3}> { y = Resize<mode = "     \
    "\"linear\", axes = [-1]" attrs ">(x, , , s) }"
    check_lowers(SIZED(""), 18, "Resize");
    check_lowers(SIZED(""), 17, "Resize");
    check_lowers(SIZED(""), 12, "Resize");
    check_never_lowers(SIZED(""), 10, "this way to place pixels came with opset 11");
    check_never_lowers(SIZED(", antialias = 1"), 17, "antialias came with opset 18");
    check_never_lowers(SIZED(", coordinate_transformation_mode = \"half_pixel_symmetric\""), 18, "opset 19");
    check_lowers("g () => (y) <float[2,2] x = {1,2,3,4}, int64[1,2] i = {1,0}, float[1,2] u = {5,6}, float[2,2] y_want = "
                 "{6,5,3,4}> { y = ScatterElements<axis = -1>(x, i, u) }",
                 10, "Scatter");
    check_never_lowers("g () => (y) <float[2] x = {1,2}, int64[1] i = {1}, float[1] u = {5}>"
                       " { y = ScatterElements<reduction = \"max\">(x, i, u) }",
                       16, "came with opset 18");
    check_lowers("g () => (y) <float[2] x = {1,2}, int64[1] k = {1}, float[1] y_want = {2}> { y, i = TopK(x, k) }", 9, "TopK");
    check_never_lowers("g () => (y) <int32[2] x = {1,2}, int64[1] k = {1}> { y, i = TopK(x, k) }", 10, "int32");
    check_never_lowers("g () => (y) <float[2] x = {1,2}, int64[1] k = {1}> { y, i = TopK<largest = 0>(x, k) }", 10, "largest");
    check_lowers("g () => (y) <float[1,1,1,2] x = {1,2}, float[1,1,1,2] g = {0,0}, float[1,1,1,1] y_want = {1.5}>"
                 " { y = GridSample(x, g) }",
                 16, "GridSample");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_top_k),          cmocka_unit_test(test_arg),       cmocka_unit_test(test_non_zero),
        cmocka_unit_test(test_one_hot),        cmocka_unit_test(test_compress),  cmocka_unit_test(test_unique),
        cmocka_unit_test(test_non_max_suppression), cmocka_unit_test(test_gather_scatter), cmocka_unit_test(test_tile),
        cmocka_unit_test(test_triangles),      cmocka_unit_test(test_blocks),    cmocka_unit_test(test_sequences),
        cmocka_unit_test(test_cumulate),       cmocka_unit_test(test_einsum),    cmocka_unit_test(test_det),
        cmocka_unit_test(test_resize),         cmocka_unit_test(test_grids),     cmocka_unit_test(test_regions),
        cmocka_unit_test(test_older_opsets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
