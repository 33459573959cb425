/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transposed convolutions on their kernels against the reference, at each CPU level: kernels as large as the stride, larger,
 * smaller and dilated ones, groups, one filter a channel, every way to give the padding, what may follow, images in planes and
 * channels-last, empty and tiny ones; bitwise equal for any number of threads; attributes and sizes by chance.
 */
#include "text_model.h"

#include <math.h>

typedef struct {
    const char *kernel; /* that the plan must have; NULL: whatever */
    void (*change)(tensors *inputs);
    opf_cpu_level level;
} job;

static void check(const char *text, const char *sizes, const job *how)
{
    static const int32_t threads[] = {1, 2, 3, 5, 0};
    opf_model_options    options   = {.level = how->level};
    text_model           m;
    tensors              inputs;
    results              want;
    text_model_open(&m, text, &options, 1);
    make_inputs(m.model, sizes, 7, &inputs);
    if (how->change != NULL)
        how->change(&inputs);
    run_model(m.model, OPF_MODE_REFERENCE, 1, &inputs, NULL, text, &want);
    for (opf_mode mode = OPF_MODE_FUSED; mode <= OPF_MODE_UNFUSED; mode++)
        check_run(m.model, mode, &inputs, &want,
                  &(expected){how->kernel, -1, 1e-4, 2e-5, threads, label_of(mode, how->level), sizes, text});
    free_results(&want);
    free_tensors(&inputs);
    text_model_close(&m);
}

static void check_levels(const char *text, const char *const *sizes, const char *kernel, void (*change)(tensors *inputs))
{
    for (opf_cpu_level level = OPF_CPU_SCALAR; level <= opf_cpu_detect(); level++)
        for (size_t i = 0; sizes[i] != NULL; i++)
            check(text, sizes[i], &(job){kernel, change, level});
}

static const char *const images[] = {"N=1 H=9 W=13", "N=2 H=4 W=21", "N=3 H=1 W=1", NULL};

static void test_kernel_as_stride(void **state)
{
    static const char *const sizes[] = {"N=1 H=13 W=45", "N=2 H=3 W=5", "N=1 H=1 W=1", NULL};
    (void)state;
    check_levels("g (float[N,24,H,W] x, float[24,1,2,2] w, float[1] w2) => (y) { a = ConvTranspose<strides = [2,2]>(x, w, w2) y = Sigmoid(a) }", sizes, "gemm",
                 NULL);
    check_levels("g (float[N,17,H,W] x, float[9,17,1,1] w3, float[9,24,2,2] w, float[24] w2) => (y)"
                 "{ c = Conv(x, w3) a = ConvTranspose<strides = [2,2]>(c, w, w2) y = Relu(a) }",
                 sizes, "!reference", NULL);
    check_levels("g (float[N,70,H,W] x, float[70,3,4,3] w) => (y, z) { y = ConvTranspose<strides = [4,3]>(x, w) z = Exp(y) }", sizes, "gemm", NULL);
}

static void test_phases(void **state)
{
    (void)state;
    check_levels("g (float[N,16,H,W] x, float[16,11,4,4] w, float[11] w2) => (y) { y = ConvTranspose<strides = [2,2], pads = [1,1,1,1]>(x, w, w2) }", images,
                 "gemm", NULL);
    check_levels("g (float[N,16,H,W] x, float[16,40,3,3] w) => (y)"
                 "{ y = ConvTranspose<strides = [2,2], pads = [1,1,1,1], output_padding = [1,1]>(x, w) }",
                 images, "gemm", NULL);
    check_levels("g (float[N,16,H,W] x, float[16,5,5,3] w, float[5] w2) => (y) { y = ConvTranspose<strides = [3,2], pads = [2,0,1,1]>(x, w, w2) }", images,
                 "gemm", NULL);
    /* Pixels that no tap reaches; taps far apart. */
    check_levels("g (float[N,9,H,W] x, float[9,6,1,1] w, float[6] w2) => (y)"
                 "{ a = ConvTranspose<strides = [16,16]>(x, w, w2) y = Sigmoid(a) }",
                 images, "gemm", NULL);
    check_levels("g (float[N,9,H,W] x, float[9,6,3,1] w, float[6] w2, float[6,12,1,1] w3) => (y)"
                 "{ a = ConvTranspose<strides = [2,5], pads = [1,0,1,0], output_padding = [1,4]>(x, w, w2) b = Relu(a) c = Concat<axis = 1>(b, a) y = Neg(c) }",
                 images, "gemm", NULL);
    check_levels("g (float[N,9,H,W] x, float[9,6,1,2] w, float[6] w2) => (y)"
                 "{ a = ConvTranspose<strides = [3,4], output_padding = [2,1]>(x, w, w2) y = Relu(a) }",
                 images, "gemm", NULL);
    check_levels("g (float[N,9,H,W] x, float[9,6,3,4] w, float[6] w2) => (y) { y = ConvTranspose<strides = [4,3], dilations = [6,2]>(x, w, w2) }", images,
                 "gemm", NULL);
    check_levels("g (float[N,9,H,W] x, float[9,6,2,2] w) => (y) { y = ConvTranspose<strides = [2,2], dilations = [2,2], pads = [0,0,1,1]>(x, w) }", images,
                 "gemm", NULL);
}

static void test_groups(void **state)
{
    (void)state;
    check_levels("g (float[N,24,H,W] x, float[24,5,4,4] w, float[10] w2) => (y)"
                 "{ a = ConvTranspose<strides = [2,2], pads = [1,1,1,1], group = 2>(x, w, w2) y = HardSwish(a) }",
                 images, "gemm", NULL);
    check_levels("g (float[N,6,H,W] x, float[6,7,2,2] w) => (y) { y = ConvTranspose<strides = [2,2], group = 3>(x, w) }", images, "gemm", NULL);
    check_levels("g (float[N,6,H,W] x, float[6,2,3,3] w, float[12] w2) => (y) { y = ConvTranspose<strides = [2,2], group = 6>(x, w, w2) }", images, "gemm",
                 NULL);
}

static void test_depthwise(void **state)
{
    (void)state;
    check_levels("g (float[N,21,H,W] x, float[21,1,4,4] w) => (y) { y = ConvTranspose<strides = [2,2], pads = [1,1,1,1], group = 21>(x, w) }", images,
                 "depthwise", NULL);
    check_levels("g (float[N,8,H,W] x, float[19,8,1,1] w3, float[19,1,3,5] w, float[19] w2) => (y)"
                 "{ c = Conv(x, w3) a = ConvTranspose<strides = [2,3], dilations = [1,2], group = 19>(c, w, w2) b = Relu(a) y = MaxPool<kernel_shape = [1,1]>(b) }",
                 images, "depthwise", NULL);
    check_levels("g (float[N,7,H,W] x, float[7,1,2,1] w, float[7] w2) => (y)"
                 "{ a = ConvTranspose<strides = [3,2], output_padding = [0,1], group = 7>(x, w, w2) s = Sigmoid(a) y = Mul(a, s) }",
                 images, "depthwise", NULL);
    check_levels("g (float[N,40,W] x, float[40,1,3] w) => (y) { y = ConvTranspose<group = 40, pads = [1,1]>(x, w) }", images, "depthwise", NULL);
    check_levels("g (float[N,3,2,H,W] x, float[3,1,3,3,3] w) => (y) { y = ConvTranspose<group = 3, strides = [2,2,2]>(x, w) }", images, "depthwise", NULL);
}

static void test_what_follows(void **state)
{
    (void)state;
    check_levels("g (float[N,9,H,W] x, float[9,18,2,2] w, float[18] w2, float[1,18,1,1] w3, float[9,18,1,1] w4) => (y)"
                 "{ a = ConvTranspose<strides = [2,2]>(x, w, w2) b = HardSwish(a) c = Mul(b, w3) d = Conv(c, w4) y = Exp(d) }",
                 images, "gemm", NULL);
    /* A residual of the result's shape, a step that is a result too, a vector along the last axis. */
    check_levels("g (float[N,9,H,W] x, float[9,18,3,3] w, float[18] w2) => (y, b)"
                 "{ a = ConvTranspose<strides = [2,2], pads = [1,1,1,1]>(x, w, w2) b = Tanh(a) r = ConvTranspose<strides = [2,2], pads = [1,1,1,1]>(x, w)"
                 " c = Add(b, r) y = Relu(c) }",
                 images, "gemm", NULL);
    check_levels("g (float[N,9,H,10] x, float[9,4,2,2] w, float[20] w2) => (y)"
                 "{ a = ConvTranspose<strides = [2,2]>(x, w) b = Mul(a, w2) c = Sigmoid(b) y = Mul(b, c) }",
                 images, "gemm", NULL);
    check_levels("g (float[N,9,H,10] x, float[9,1,2,2] w, float[20] w2) => (y)"
                 "{ a = ConvTranspose<strides = [2,2]>(x, w) b = Mul(a, w2) c = Sigmoid(b) y = Mul(b, c) }",
                 images, "gemm", NULL);
    check_levels("g (float[N,9,H,W] x, float[9,6,2,2] w, float[6] w2, float[6] w3, float[6] w4, float[6] p1) => (y)"
                 "{ a = ConvTranspose<strides = [2,2]>(x, w) b = BatchNormalization(a, w2, w3, w4, p1) y = LeakyRelu(b) }",
                 images, "gemm", NULL);
}

static void test_padding(void **state)
{
    (void)state;
    check_levels("g (float[N,8,H,W] x, float[8,6,3,3] w) => (y) { y = ConvTranspose<strides = [2,2], auto_pad = \"SAME_UPPER\">(x, w) }", images, "gemm", NULL);
    check_levels("g (float[N,8,H,W] x, float[8,6,5,4] w) => (y) { y = ConvTranspose<strides = [2,3], auto_pad = \"SAME_LOWER\">(x, w) }", images, "gemm", NULL);
    check_levels("g (float[N,8,9,5] x, float[8,6,3,3] w) => (y) { y = ConvTranspose<strides = [2,2], output_shape = [16,13]>(x, w) }", images, "gemm", NULL);
    check_levels("g (float[N,8,3,2] x, float[8,6,3,3] w, float[6] w2) => (y) { y = ConvTranspose<strides = [2,2], output_shape = [2,1]>(x, w, w2) }", images,
                 "gemm", NULL);
    check_levels("g (float[N,8,H,W] x, float[8,6,5,5] w) => (y) { y = ConvTranspose<strides = [5,5], output_shape = [3,2]>(x, w) }", images, "gemm", NULL);
}

static void test_ranks(void **state)
{
    static const char *const sizes[] = {"N=2 H=3 W=17", "N=1 H=1 W=2", NULL};
    (void)state;
    check_levels("g (float[N,12,W] x, float[12,6,16] w, float[6] w2) => (y) { y = ConvTranspose<strides = [8], pads = [4,4]>(x, w, w2) }", sizes, "gemm", NULL);
    check_levels("g (float[N,4,W] x, float[4,3,2] w) => (y) { y = ConvTranspose<strides = [2]>(x, w) }", sizes, "gemm", NULL);
    check_levels("g (float[N,10,H,2,W] x, float[10,4,2,2,2] w, float[4] w2) => (y) { y = ConvTranspose<strides = [2,2,2]>(x, w, w2) }", sizes, "gemm", NULL);
    check_levels("g (float[N,10,H,2,W] x, float[10,4,3,1,4] w) => (y) { y = ConvTranspose<strides = [2,1,3], pads = [1,0,0,0,0,2]>(x, w) }", sizes, "gemm",
                 NULL);
}

static void test_empty(void **state)
{
    static const char *const sizes[] = {"N=0 H=3 W=4", "N=2 H=0 W=4", "N=1 H=3 W=0", NULL};
    (void)state;
    check_levels("g (float[N,8,H,W] x, float[8,6,2,2] w, float[6] w2) => (y) { y = ConvTranspose<strides = [2,2]>(x, w, w2) }", sizes, NULL, NULL);
    check_levels("g (float[N,8,H,W] x, float[8,6,2,2] w, float[6] w2) => (y) { y = ConvTranspose<strides = [2,2], output_shape = [5,6]>(x, w, w2) }", sizes,
                 NULL, NULL);
    check_levels("g (float[N,8,H,W] x, float[8,1,2,2] w, float[8] w2) => (y)"
                 "{ y = ConvTranspose<strides = [2,2], output_shape = [5,6], group = 8>(x, w, w2) }",
                 sizes, NULL, NULL);
}

static void set_not_finite(tensors *inputs)
{
    float *x = inputs->list[0].data;
    for (size_t i = 0; i < tensor_count(&inputs->list[0]); i += 37)
        x[i] = i % 3 == 0 ? NAN : i % 3 == 1 ? INFINITY : -INFINITY;
}

static void test_not_finite(void **state)
{
    (void)state;
    check_levels("g (float[N,9,H,W] x, float[9,5,3,3] w) => (y) { a = ConvTranspose<strides = [2,2], pads = [1,1,1,1]>(x, w) y = Relu(a) }", images, "gemm",
                 set_not_finite);
    check_levels("g (float[N,9,H,W] x, float[9,1,4,4] w) => (y) { y = ConvTranspose<strides = [2,2], pads = [1,1,1,1], group = 9>(x, w) }", images,
                 "depthwise", set_not_finite);
    /* Infinite weights beside the image add nothing. */
    static const char *const one[] = {"N=1 H=2 W=2", NULL};
    check_levels("g (float[N,1,H,W] x) => (y) { n = Constant<value = float[1,1,1,3] {1.0, 2.0, 3.0}>() z = Constant<value = float {0.0}>() w = Div(n, z)"
                 " y = ConvTranspose(x, w) }",
                 one, NULL, NULL);
    check_levels("g (float[N,2,H,W] x) => (y) { n = Constant<value = float[2,1,1,3] {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}>() z = Constant<value = float {0.0}>() w = Div(n, z)"
                 " y = ConvTranspose<group = 2>(x, w) }",
                 one, NULL, NULL);
}

/* ---- by chance ---- */

static int64_t draw(opf_random *random, int64_t first, int64_t last)
{
    return first + (int64_t)(opf_random_next(random) % (uint64_t)(last - first + 1));
}

static size_t add_list(char *to, size_t room, const char *name, const int64_t *list, int32_t n)
{
    size_t at = (size_t)snprintf(to, room, ", %s = [", name);
    for (int32_t i = 0; i < n; i++)
        at += (size_t)snprintf(to + at, room - at, "%s%lld", i > 0 ? "," : "", (long long)list[i]);
    return at + (size_t)snprintf(to + at, room - at, "]");
}

static void make_text(opf_random *random, char *text, size_t room)
{
    static const char *const follows[] = {"y = Relu(a)", "y = Sigmoid(a)", "b = Mul(a, a) c = Tanh(b) y = Add(c, a)", "b = Relu(a) y = Conv(b, w4)"};
    /* The image in planes, or channels-last. */
    const char *const before = draw(random, 0, 1) == 0 ? "e = Conv(x, w3) " : "e = Identity(x) ";
    const int32_t rank = (int32_t)draw(random, 1, 3);
    const int64_t group = draw(random, 0, 1) == 0 ? 1 : draw(random, 2, 12), c = group * draw(random, 1, group == 1 ? 20 : 3);
    const int64_t o = draw(random, 0, 2) == 0 ? 1 : draw(random, 1, group == 1 ? 40 : 5);
    int64_t       in[3], kernel[3], stride[3], dilation[3], pads[6], more[3], out[3];
    for (int32_t i = 0; i < rank; i++) {
        in[i]       = draw(random, 1, rank == 1 ? 60 : rank == 2 ? 14 : 4);
        kernel[i]   = draw(random, 1, 4);
        stride[i]   = draw(random, 1, 4);
        dilation[i] = draw(random, 0, 2) == 0 ? draw(random, 2, 4) : 1;
        const int64_t all = (in[i] - 1) * stride[i] + (kernel[i] - 1) * dilation[i] + 1;
        pads[i]        = draw(random, 0, all - 1 < 3 ? all - 1 : 3);
        pads[rank + i] = draw(random, 0, all - 1 - pads[i] < 3 ? all - 1 - pads[i] : 3);
        more[i]        = draw(random, 0, (stride[i] > dilation[i] ? stride[i] : dilation[i]) - 1);
        out[i]         = draw(random, 1, all + 3);
    }
    size_t at = (size_t)snprintf(text, room, "g (float[2,%lld", (long long)c);
    for (int32_t i = 0; i < rank; i++)
        at += (size_t)snprintf(text + at, room - at, ",%lld", (long long)in[i]);
    at += (size_t)snprintf(text + at, room - at, "] x, float[%lld,%lld", (long long)c, (long long)o);
    for (int32_t i = 0; i < rank; i++)
        at += (size_t)snprintf(text + at, room - at, ",%lld", (long long)kernel[i]);
    at += (size_t)snprintf(text + at, room - at, "] w, float[%lld] w2, float[%lld,%lld", (long long)(o * group), (long long)c, (long long)c);
    for (int32_t i = 0; i < rank; i++)
        at += (size_t)snprintf(text + at, room - at, ",1");
    at += (size_t)snprintf(text + at, room - at, "] w3, float[3,%lld", (long long)(o * group));
    for (int32_t i = 0; i < rank; i++)
        at += (size_t)snprintf(text + at, room - at, ",1");
    at += (size_t)snprintf(text + at, room - at, "] w4) => (y) { %sa = ConvTranspose<group = %lld", before, (long long)group);
    at += add_list(text + at, room - at, "strides", stride, rank);
    at += add_list(text + at, room - at, "dilations", dilation, rank);
    const int64_t form = draw(random, 0, 5);
    if (form < 3)
        at += add_list(text + at, room - at, "pads", pads, 2 * rank);
    else if (form == 3)
        at += add_list(text + at, room - at, "output_shape", out, rank);
    else
        at += (size_t)snprintf(text + at, room - at, ", auto_pad = \"%s\"", form == 4 ? "SAME_UPPER" : "SAME_LOWER");
    if (form == 0 || form == 4)
        at += add_list(text + at, room - at, "output_padding", more, rank);
    (void)snprintf(text + at, room - at, ">(e, w%s) %s }", draw(random, 0, 1) == 0 ? ", w2" : "", follows[draw(random, 0, 3)]);
}

static void test_by_chance(void **state)
{
    opf_random random;
    (void)state;
    opf_random_init(&random, 11);
    for (int i = 0; i < 400; i++) {
        char text[1024];
        make_text(&random, text, sizeof text);
        check(text, "", &(job){.level = OPF_CPU_SCALAR + (opf_cpu_level)(i % (1 + opf_cpu_detect() - OPF_CPU_SCALAR))});
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kernel_as_stride), cmocka_unit_test(test_phases), cmocka_unit_test(test_groups), cmocka_unit_test(test_depthwise),
        cmocka_unit_test(test_what_follows),     cmocka_unit_test(test_padding), cmocka_unit_test(test_ranks), cmocka_unit_test(test_empty),
        cmocka_unit_test(test_not_finite),       cmocka_unit_test(test_by_chance),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
