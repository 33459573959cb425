/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Normalisations of every layout, rank and size: one kernel each, with what stands before and behind them, fused and
 * unfused against the reference at each CPU level, bitwise equal on any number of threads.
 */
#include "text_model.h"

typedef struct test_case {
    const char *kernel; /* that runs, fused */
    int kernels;        /* of the fused plan; 0: whatever */
    const char *sizes;  /* several, "N=1 S=5; N=2 S=7" */
    const char *text;
} test_case;

static void check_sizes(const opf_model *model, opf_cpu_level level, const test_case *c, const char *sizes)
{
    static const int32_t threads[] = {1, 3, 0};
    tensors inputs;
    results want;
    make_inputs(model, sizes, 7, &inputs);
    run_model(model, OPF_MODE_REFERENCE, 1, &inputs, NULL, c->text, &want);
    for (opf_mode mode = OPF_MODE_FUSED; mode <= OPF_MODE_UNFUSED; mode++) {
        const bool fused = mode == OPF_MODE_FUSED && tensor_count(&want.list[0]) != 0;
        check_run(model, mode, &inputs, &want,
                  &(expected){fused ? c->kernel : NULL, fused && c->kernels != 0 ? c->kernels : -1, 1e-4, 2e-5, threads,
                              label_of(mode, level), sizes, c->text});
    }
    free_results(&want);
    free_tensors(&inputs);
}

static void check_case(const test_case *c)
{
    for (opf_cpu_level level = OPF_CPU_SCALAR; level <= opf_cpu_detect(); level++) {
        const opf_model_options options = {.level = level};
        text_model m;
        char sizes[80];
        text_model_open(&m, c->text, &options, 1);
        for (const char *p = c->sizes; next_sizes(&p, sizes);)
            check_sizes(m.model, level, c, sizes);
        text_model_close(&m);
    }
}

#define CHECK_ALL(cases)                                                                                               \
    for (size_t i = 0; i < sizeof(cases) / sizeof *(cases); i++)                                                       \
    check_case(&(cases)[i])

#define IMAGES "N=1 H=1 W=1; N=2 H=3 W=5; N=1 H=33 W=17; N=0 H=2 W=2; N=3 H=1 W=7"
/* A convolution leaves its channels last in memory. */
#define CONV " c = Conv(x, wc) "

static void test_groups(void **state)
{
    static const test_case cases[] = {
        {"instance_norm_f32", 1, IMAGES,
         "g (float[N,5,H,W] x, float[5] w, float[5] w2) => (y) { y = InstanceNormalization(x, w, w2) }"},
        {"instance_norm_f32", 1, "N=1 H=3; N=2 H=9000",
         "g (float[N,5,H] x, float[5] w, float[5] w2) => (y) { y = InstanceNormalization(x, w, w2) }"},
        {"group_norm_f32", 1, IMAGES,
         "g (float[N,6,H,W] x, float[6] w, float[6] w2) => (y) { y = GroupNormalization<num_groups = 2>(x, w, w2) }"},
        {"group_norm_f32", 1, "N=1; N=3",
         "g (float[N,6] x, float[6] w, float[6] w2) => (y) { y = GroupNormalization<num_groups = 3>(x, w, w2) }"},
        {"group_norm_f32", 1, IMAGES,
         "g (float[N,6,H,W] x, float[6] w, float[6] w2) => (y) { y = GroupNormalization<num_groups = 1>(x, w, w2) }"},
        /* Activation, gate and residual before the only store. */
        {"group_norm_f32", 1, IMAGES,
         "g (float[N,6,H,W] x, float[N,6,H,W] r, float[6] w, float[6] w2, float[6,1,1] w3) => (y)"
         " { n = GroupNormalization<num_groups = 3>(x, w, w2) s = Sigmoid(n) m = Mul(n, s) a = Add(m, r) y = Mul(a, "
         "w3) }"},
        /* A vector along the lines and one along the images. */
        {"instance_norm_f32", 0, IMAGES,
         "g (float[N,6,H,W] x, float[W] v, float[N,6,1,1] r, float[6] w, float[6] w2) => (y)"
         " { n = InstanceNormalization(x, w, w2) a = Mul(n, v) y = Add(a, r) }"},
        {"instance_norm_f32", 3, "N=1 H=2 W=1; N=2 H=3 W=5; N=1 H=33 W=17; N=3 H=1 W=7",
         "g (float[N,3,H,W] x, float[70,3,1,1] wc, float[70] w, float[70] w2) => (y)"
         " {" CONV "n = InstanceNormalization(c, w, w2) r = Relu(n) y = ReduceMean<keepdims = 0>(r) }"},
        {"group_norm_f32", 2, "N=1 H=2 W=1; N=2 H=3 W=5; N=1 H=33 W=17; N=3 H=1 W=7",
         "g (float[N,3,H,W] x, float[60,3,1,1] wc, float[60] w, float[60] w2, float[60,1,1] w3) => (y)"
         " {" CONV "n = GroupNormalization<num_groups = 6>(c, w, w2) r = Relu(n) m = Mul(r, w3) y = Transpose<perm = "
         "[0,2,3,1]>(m) }"},
        /* Parameters that are computed. */
        {"instance_norm_f32", 2, IMAGES,
         "g (float[N,5,H,W] x, float[5] s, float[5] b) => (y) { e = Exp(s) y = InstanceNormalization(x, e, b) }"},
        /* Far from zero: nothing cancels. */
        {"instance_norm_f32", 2, "N=1 H=70 W=70; N=2 H=3 W=5",
         "g (float[N,5,H,W] x, float[5] w, float[5] w2) => (y) <float far = {300}> { a = Add(x, far) y = "
         "InstanceNormalization(a, w, w2) }"},
    };
    (void)state;
    CHECK_ALL(cases);
}

static void test_mean_variance(void **state)
{
    static const test_case cases[] = {
        {"mean_variance_norm_f32", 1, IMAGES, "g (float[N,5,H,W] x) => (y) { y = MeanVarianceNormalization(x) }"},
        {"mean_variance_norm_f32", 1, IMAGES,
         "g (float[N,5,H,W] x) => (y) { y = MeanVarianceNormalization<axes = [2,3]>(x) }"},
        {"mean_variance_norm_f32", 1, IMAGES,
         "g (float[N,5,H,W] x) => (y) { n = MeanVarianceNormalization<axes = [1,-2,3]>(x) y = Relu(n) }"},
        {NULL, 0, IMAGES, "g (float[N,5,H,W] x) => (y) { y = MeanVarianceNormalization<axes = [1,3]>(x) }"},
    };
    (void)state;
    CHECK_ALL(cases);
}

#define ROWS    "N=1 S=1; N=2 S=7; N=3 S=130; N=0 S=3"
#define COLUMNS "N=1 S=2; N=2 S=7; N=3 S=130; N=0 S=3"

static void test_lp(void **state)
{
    static const test_case cases[] = {
        {"lp_norm_f32", 1, ROWS, "g (float[N,S,37] x) => (y) { y = LpNormalization(x) }"},
        {"lp_norm_f32", 1, ROWS,
         "g (float[N,37,S] x, float[N,37] r) => (y) { n = LpNormalization<p = 1>(r) y = Relu(n) }"},
        {"lp_norm_columns_f32", 1, COLUMNS,
         "g (float[N,37,S] x, float[37,1] w) => (y) { n = LpNormalization<axis = 1>(x) y = Mul(n, w) }"},
        {"lp_norm_columns_f32", 1, COLUMNS, "g (float[N,37,S] x) => (y) { y = LpNormalization<axis = 1, p = 1>(x) }"},
        {"lp_norm_columns_f32", 1, "N=3 S=1; N=2 S=7; N=9 S=130",
         "g (float[N,37,S] x) => (y) { y = LpNormalization<axis = 0>(x) }"},
        {"lp_norm_columns_f32", 1, "N=1 H=2 W=2; N=2 H=3 W=5; N=1 H=33 W=17",
         "g (float[N,5,H,W] x) => (y) { y = LpNormalization<axis = 2>(x) }"},
        /* Channels last in memory: rows. */
        {"lp_norm_f32", 2, "N=2 H=3 W=5; N=1 H=13 W=17",
         "g (float[N,3,H,W] x, float[20,3,1,1] wc, float[20,1,1] w) => (y)"
         " {" CONV "n = LpNormalization<axis = 1>(c) m = Mul(n, w) y = Transpose<perm = [0,2,3,1]>(m) }"},
        /* Zeros; numbers whose squares leave the range. */
        {"lp_norm_f32", 2, ROWS,
         "g (float[N,S,37] x) => (y) <float zero = {0}> { z = Mul(x, zero) y = LpNormalization(z) }"},
        {"lp_norm_f32", 2, ROWS,
         "g (float[N,S,37] x) => (y) <float far = {1e25}> { z = Mul(x, far) y = LpNormalization(z) }"},
        {"lp_norm_columns_f32", 2, COLUMNS,
         "g (float[N,37,S] x) => (y) <float near = {1e-25}> { z = Mul(x, near) y = LpNormalization<axis = 1>(z) }"},
        /* Denormals, whose norms have no reciprocal in float. */
        {"lp_norm_f32", 2, ROWS,
         "g (float[N,S,37] x) => (y) <float tiny = {1e-42}> { z = Mul(x, tiny) y = LpNormalization(z) }"},
        {"lp_norm_columns_f32", 2, "N=1 S=2; N=3 S=2",
         "g (float[N,37,S] x) => (y)"
         " <float[2] tiny = {1e-42, 1}> { z = Mul(x, tiny) y = LpNormalization<axis = 1, p = 1>(z) }"},
        /* The spellings. */
        {"lp_norm_f32", 1, ROWS,
         "g (float[N,S,37] x) => (y) <int64[1] a = {-1}, float eps = {1e-12}>"
         " { n = ReduceL2(x, a) d = Clip(n, eps) s = Shape(x) e = Expand(d, s) y = Div(x, e) }"},
        {"lp_norm_f32", 1, ROWS,
         "g (float[N,S,37] x) => (y) <int64[1] a = {-1}, float eps = {3}>"
         " { q = Mul(x, x) u = ReduceSum<keepdims = 0>(q, a) n = Unsqueeze(u, a) r = Sqrt(n) d = Max(eps, r) y = "
         "Div(x, d) }"},
        {"lp_norm_columns_f32", 1, COLUMNS,
         "g (float[N,37,S] x) => (y) <int64[1] a = {1}, float eps = {30}>"
         " { q = ReduceSumSquare(x, a) d = Max(q, eps) r = Sqrt(d) i = Reciprocal(r) y = Mul(x, i) }"},
        {"lp_norm_columns_f32", 1, COLUMNS,
         "g (float[N,37,S] x) => (y) <int64[1] a = {1}, float eps = {2}> { n = ReduceL2(x, a) d = Add(n, eps) y = "
         "Div(x, d) }"},
        {"lp_norm_f32", 1, ROWS,
         "g (float[N,S,37] x) => (y) <int64[1] a = {2}, float eps = {2}, float h = {-0.5}>"
         " { q = ReduceSumSquare(x, a) d = Add(eps, q) i = Pow(d, h) y = Mul(x, i) }"},
        {"lp_norm_f32", 2, ROWS,
         "g (float[N,S,37] x) => (y) <int64[1] a = {2}, float zero = {0}> { z = Mul(x, zero) n = ReduceL2(z, a) y = "
         "Div(z, n) }"},
    };
    (void)state;
    CHECK_ALL(cases);
}

#define TURNED "N=1 S=2; N=2 S=7; N=3 S=130; N=0 S=3"

static void test_channels(void **state)
{
    static const test_case cases[] = {
        /* Channels of images whose pixels are neighbours: nothing is transposed. */
        {"layer_norm_columns_f32", 1, "N=1 H=1 W=2; N=2 H=3 W=5; N=0 H=2 W=2; N=1 H=33 W=17",
         "g (float[N,7,H,W] x, float[7] w, float[7] w2) => (y)"
         " { t = Transpose<perm = [0,2,3,1]>(x) n = LayerNormalization(t, w, w2) y = Transpose<perm = [0,3,1,2]>(n) }"},
        {"rms_norm_columns_f32", 1, "N=1 H=1 W=2; N=2 H=3 W=5; N=1 H=33 W=17",
         "g (float[N,7,H,W] x, float[7] w) => (y)"
         " { t = Transpose<perm = [0,2,3,1]>(x) n = RMSNormalization(t, w) y = Transpose<perm = [0,3,1,2]>(n) }"},
        {"layer_norm_columns_f32", 1, "N=1 H=1 W=2; N=2 H=3 W=5; N=1 H=33 W=17",
         "g (float[N,7,H,W] x, float[7] w) => (y) <int64[1] a = {1}, float two = {2}, float eps = {1e-6}>"
         " { u = ReduceMean(x, a) d = Sub(x, u) q = Pow(d, two) v = ReduceMean(q, a) e = Add(v, eps) s = Sqrt(e) y = "
         "Div(d, s) }"},
        /* The sum is read in both layouts; a gate behind. */
        {"layer_norm_columns_f32", 2, "N=1 H=1 W=2; N=2 H=3 W=5; N=1 H=33 W=17",
         "g (float[N,7,H,W] x, float[N,7,H,W] r, float[7] w, float[7] w2) => (y, s2)"
         " { t = Transpose<perm = [0,2,3,1]>(x) t2 = Transpose<perm = [0,2,3,1]>(r) s = Add(t, t2) n = "
         "LayerNormalization(s, w, w2)"
         "   g = Sigmoid(n) y = Transpose<perm = [0,3,1,2]>(g) s2 = Transpose<perm = [0,3,1,2]>(s) }"},
        /* Batch and rows are neighbours in memory, but not those of what is added: it is read where it is. */
        {"layer_norm_columns_f32", 1, TURNED,
         "g (float[7,N,S] x, float[S,7] q, float[7] w) => (y)"
         " { t = Transpose<perm = [1,2,0]>(x) s = Add(t, q) n = LayerNormalization(s, w) y = Transpose<perm = "
         "[2,0,1]>(n) }"},
        {"rms_norm_columns_f32", 1, TURNED,
         "g (float[7,N,S] x, float[S,N,7] r, float[N,1,7] q, float[7] w) => (y, s2)"
         " { t = Transpose<perm = [1,2,0]>(x) t2 = Transpose<perm = [1,0,2]>(r) s = Add(t, t2) n = RMSNormalization(s, "
         "w)"
         "   m = Mul(n, q) y = Transpose<perm = [2,0,1]>(m) s2 = Transpose<perm = [2,0,1]>(s) }"},
        {"layer_norm_f32", 2, "N=1 H=1 W=2; N=2 H=3 W=5; N=1 H=33 W=17",
         "g (float[N,3,H,W] x, float[20,3,1,1] wc, float[20] w, float[20] w2) => (y)"
         " {" CONV "t = Transpose<perm = [0,2,3,1]>(c) y = LayerNormalization(t, w, w2) }"},
    };
    (void)state;
    CHECK_ALL(cases);
}

static void test_rows(void **state)
{
    static const test_case cases[] = {
        /* Over several axes, with steps. */
        {"layer_norm_f32", 1, ROWS,
         "g (float[N,S,3,5] x, float[3,5] w, float[3,5] w2) => (y) { n = LayerNormalization<axis = -2>(x, w, w2) y = "
         "Relu(n) }"},
        {"layer_norm_f32", 1, ROWS,
         "g (float[N,S,3,5] x, float[N,S,3,5] r, float[3,5] w) => (y, s) { s = Add(x, r) y = LayerNormalization<axis = "
         "2>(s, w) }"},
        /* AdaLN: scale and shift of each image, known at run time. */
        {"layer_norm_f32", 2, ROWS,
         "g (float[N,S,12] x, float[N,1,12] a, float[N,1,12] b) => (y) <int64[1] last = {-1}, float two = {2}, float "
         "eps = {1e-6}, float one = {1}>"
         " { u = ReduceMean(x, last) d = Sub(x, u) q = Pow(d, two) v = ReduceMean(q, last) e = Add(v, eps) s = Sqrt(e) "
         "n = Div(d, s)"
         "   k = Add(a, one) m = Mul(n, k) y = Add(m, b) }"},
        /* Scale and bias known at run time. */
        {"layer_norm_f32", 1, ROWS,
         "g (float[N,S,12] x, float[12] a, float[12] b) => (y) { y = LayerNormalization(x, a, b) }"},
        {"rms_norm_f32", 1, ROWS, "g (float[N,S,12] x, float[12] a) => (y) { y = RMSNormalization(x, a) }"},
    };
    (void)state;
    CHECK_ALL(cases);
}

static void test_batch(void **state)
{
    static const test_case cases[] = {
        {"batch_norm_f32", 1, IMAGES,
         "g (float[N,5,H,W] x, float[N,5,H,W] r, float[5] p, float[5] w2, float[5] w3, float[5] p4) => (y)"
         " { n = BatchNormalization(x, p, w2, w3, p4) a = Add(n, r) y = Relu(a) }"},
    };
    (void)state;
    CHECK_ALL(cases);
}

/* Rows of few elements are turned, a block at a time; NaN and infinities stay in their rows. */
static void test_narrow_rows(void **state)
{
#define WIDTHS "N=1 S=1; N=5 S=2; N=1 S=3; N=255 S=7; N=256 S=2; N=257 S=16; N=600 S=5; N=3 S=17; N=0 S=2"
    static const test_case cases[] = {
        {"softmax_f32", 1, WIDTHS, "g (float[N,S] x) => (y) { y = Softmax<axis = 1>(x) }"},
        {"log_softmax_f32", 1, WIDTHS, "g (float[N,S] x) => (y) { y = LogSoftmax<axis = 1>(x) }"},
        {"softmax_f32", 0, "N=9 S=6", "g (float[S,N,2] x) => (y) { t = Transpose<perm = [2,1,0]>(x) y = Softmax(t) }"},
        {NULL, 0, "N=40 S=3", "g (float[N,S] x, float[S] w) => (y) { t = Mul(x, w) s = Softmax<axis = 1>(t) y = Sub(s, w) }"},
        {NULL, 0, "N=300 S=3",
         "g (float[N,S] x) => (y, z) <float zero = {0}, float large = {2}> { a = Greater(x, large) i = Div(x, zero) t = Where(a, i, x)"
         " y = Softmax<axis = 1>(t) z = LogSoftmax<axis = 1>(t) }"},
        {NULL, 0, "N=300 S=3",
         "g (float[N,S] x) => (y) <float zero = {0}, float half = {0.5}> { a = Less(x, half) l = Log(zero) t = Where(a, l, x) y = Softmax<axis = 1>(t) }"},
    };
    (void)state;
    CHECK_ALL(cases);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_groups), cmocka_unit_test(test_mean_variance), cmocka_unit_test(test_lp),    cmocka_unit_test(test_channels),
        cmocka_unit_test(test_rows),   cmocka_unit_test(test_narrow_rows),   cmocka_unit_test(test_batch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
