/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolutions of few taps by Winograd's tiles: against the reference at each CPU level on maps that tiles overhang, with what may
 * follow a convolution; bitwise equal for any number of threads; NaN, infinity and sums that overflow on the way; the
 * direct form when it is wanted.
 */
#include "text_model.h"

#include <math.h>

static const int32_t all_threads[] = {1, 2, 3, 5, 8, 0}, few_threads[] = {1, 2, 0};

static void check(const opf_model *model, opf_mode mode, const tensors *inputs, const results *want, const char *sizes, const char *text, double scale,
                  bool all)
{
    check_run(model, mode, inputs, want,
              &(expected){"winograd", -1, 1e-4, 2e-5 * scale, all ? all_threads : few_threads, mode == OPF_MODE_FUSED ? "fused" : "unfused",
                          sizes, text});
}

/* change: what happens to the inputs before the run. scale: of the largest result. The error of a pixel is relative to the
   pixels of its tile. */
static void check_scaled(const char *text, const char *const *sizes, void (*change)(tensors *inputs), double scale, bool all)
{
    for (opf_cpu_level level = OPF_CPU_SCALAR; level <= opf_cpu_detect(); level++)
        for (size_t i = 0; sizes[i] != NULL; i++) {
            opf_model_options options = {.level = level};
            text_model        m;
            tensors           inputs;
            results           want;
            text_model_open(&m, text, &options, 1);
            make_inputs(m.model, sizes[i], 7, &inputs);
            if (change != NULL)
                change(&inputs);
            run_model(m.model, OPF_MODE_REFERENCE, 1, &inputs, NULL, text, &want);
            for (opf_mode mode = OPF_MODE_FUSED; mode <= OPF_MODE_UNFUSED; mode++)
                check(m.model, mode, &inputs, &want, sizes[i], text, scale, all);
            free_results(&want);
            free_tensors(&inputs);
            text_model_close(&m);
        }
}

static void check_text(const char *text, const char *const *sizes, void (*change)(tensors *inputs), bool all)
{
    check_scaled(text, sizes, change, 1, all);
}

static bool has_kernel(const text_model *m, const tensors *inputs, const char *kernel)
{
    opf_session_options options = {.threads = 1};
    opf_session        *session;
    opf_profile         profile;
    opf_tensor          output = {0};
    bool                found  = false;
    assert_int_equal(opf_session_create(m->model, &options, &session, NULL), OPF_OK);
    assert_int_equal(opf_session_run(session, inputs->list, inputs->n, &output, 1, NULL), OPF_OK);
    assert_int_equal(opf_session_profile(session, &profile, NULL), OPF_OK);
    for (size_t i = 0; i < profile.n_steps; i++)
        found = found || strncmp(profile.steps[i].kernel, kernel, strlen(kernel)) == 0;
    opf_session_destroy(&session);
    return found;
}

/* The same, computed by this kernel. */
static void check_form(const char *kernel, const char *text, const char *const *sizes, void (*change)(tensors *inputs), bool all)
{
    for (size_t i = 0; sizes[i] != NULL; i++) {
        text_model m;
        tensors    inputs;
        text_model_open(&m, text, NULL, 1);
        make_inputs(m.model, sizes[i], 7, &inputs);
        if (!has_kernel(&m, &inputs, kernel))
            fail_msg("no %s for %s in %s", kernel, sizes[i], text);
        free_tensors(&inputs);
        text_model_close(&m);
    }
    check_text(text, sizes, change, all);
}

static void test_shapes(void **state)
{
    static const char *const sizes[] = {"N=1 H=9 W=13", "N=2 H=8 W=7", "N=5 H=6 W=4", "N=1 H=24 W=17", NULL};
    static const char *const wide[]  = {"N=1 H=7 W=26", NULL};
    static const char *const small[] = {"N=1 H=10 W=9", NULL}; /* and many channels: tiles of 2 */
    (void)state;
    check_text("g (float[N,17,H,W] x, float[35,17,3,3] w, float[35] w2) => (y) { a = Conv<pads = [1,1,1,1]>(x, w, w2) y = Relu(a) }", sizes, NULL, false);
    check_text("g (float[N,9,H,W] x, float[64,9,3,3] w) => (y) { y = Conv<pads = [2,1,0,3]>(x, w) }", sizes, NULL, false);
    check_text("g (float[N,70,H,W] x, float[131,70,3,3] w, float[131] w2) => (y) { y = Conv(x, w, w2) }", wide, NULL, false);
    check_text("g (float[N,179,H,W] x, float[181,179,3,3] w, float[181] w2, float[N,181,H,W] r) => (y)"
               "{ a = Conv<pads = [1,1,1,1]>(x, w, w2) b = Add(a, r) y = Relu(b) }",
               small, NULL, false);
    check_text("g (float[N,24,H,W] x, float[10,24,3,3] w) => (y) { y = Conv<auto_pad = \"SAME_UPPER\">(x, w) }", wide, NULL, false);
}

static void test_what_follows(void **state)
{
    static const char *const sizes[] = {"N=1 H=9 W=13", "N=3 H=8 W=8", NULL};
    (void)state;
    /* Chains of residuals: the sum lies over one of its terms. */
    check_text("g (float[N,16,H,W] x, float[16,16,3,3] w, float[16,16,3,3] w2, float[16] w3) => (y)"
               "{ a = Conv<pads = [1,1,1,1]>(x, w, w3) b = Relu(a) c = Conv<pads = [1,1,1,1]>(b, w2, w3) d = Add(c, b) e = Relu(d)"
               " f = Conv<pads = [1,1,1,1]>(e, w) h = Add(e, f) y = Clip(h) }",
               sizes, NULL, false);
    check_text("g (float[N,12,H,W] x, float[40,12,3,3] w, float[40] w2, float[N,40,H,W] r) => (y, a)"
               "{ a = Conv<pads = [1,1,1,1]>(x, w, w2) b = Sigmoid(a) c = Mul(a, b) y = Add(c, r) }",
               sizes, NULL, false);
    check_text("g (float[N,12,H,W] x, float[40,12,3,3] w, float[40,1,1] r, float[W] q) => (y)"
               "{ a = Conv<pads = [1,1,1,1]>(x, w) b = HardSwish(a) c = Mul(b, r) y = Add(c, q) }",
               sizes, NULL, false);
}

/* Images in planes on either side: graph inputs and outputs, several images, sums that are not finite. */
static void set_nan(tensors *inputs);
static void test_planes(void **state)
{
    static const char *const sizes[] = {"N=1 H=9 W=13", "N=2 H=8 W=23", NULL};
    const char *text = "g (float[N,17,H,W] x, float[70,17,3,3] w, float[70] w2, float[N,70,H,W] r) => (y)"
                       "{ a = Conv<pads = [1,1,1,1]>(x, w, w2) b = Sigmoid(a) c = Mul(a, b) y = Add(c, r) }";
    (void)state;
    check_text("g (float[N,16,H,W] x, float[33,16,3,3] w) => (y) { a = Conv<pads = [1,1,1,1]>(x, w) y = Relu(a) }", sizes, NULL, true);
    check_text(text, sizes, NULL, true);
    check_text(text, sizes, set_nan, false);
}

/* Other taps than 3x3, along both axes or one: borders of any kind, partial tiles, batches, pixels and planes, what may follow. */
static void test_taps(void **state)
{
    static const char *const sizes[] = {"N=1 H=9 W=13", "N=2 H=8 W=7", "N=3 H=12 W=18", NULL};
    static const char *const few[]   = {"N=1 H=1 W=8", "N=1 H=2 W=4", NULL};  /* tiles of 4 */
    static const char *const fews[]  = {"N=1 H=8 W=1", "N=1 H=4 W=2", NULL};
    static const char *const more[]  = {"N=2 H=9 W=13", NULL};
    static const char *const lines[] = {"N=2 W=37", "N=3 W=50", NULL};
    (void)state;
    check_form("winograd_f32_1x2",
               "g (float[N,33,H,W] x, float[35,33,1,7] w, float[35] w2) => (y) { a = Conv<pads = [0,3,0,3]>(x, w, w2) y = Relu(a) }", sizes, NULL, false);
    check_form("winograd_f32_1x2", /* lines that lie outside as a whole */
               "g (float[N,40,H,W] x, float[70,40,1,7] w) => (y) { y = Conv<pads = [2,5,1,0]>(x, w) }", sizes, NULL, false);
    check_form("winograd_f32_2x1",
               "g (float[N,33,H,W] x, float[35,33,7,1] w, float[35] w2, float[N,35,H,W] r) => (y)"
               "{ a = Conv<pads = [3,0,3,0]>(x, w, w2) b = Add(a, r) y = Relu(b) }",
               sizes, NULL, false);
    check_form("winograd_f32_2x1", "g (float[N,40,H,W] x, float[70,40,7,1] w) => (y) { y = Conv<pads = [5,2,0,1]>(x, w) }", sizes, NULL, false);
    check_form("winograd_f32_1x2",
               "g (float[N,47,H,W] x, float[32,47,1,5] w, float[32] w2) => (y)"
               "{ a = Conv<auto_pad = \"SAME_UPPER\">(x, w, w2) b = Sigmoid(a) y = Mul(a, b) }",
               sizes, NULL, false);
    check_form("winograd_f32_2x1", "g (float[N,33,H,W] x, float[34,33,5,1] w) => (y) { a = Conv<pads = [1,0,3,0]>(x, w) y = Clip(a) }", sizes, NULL, false);
    check_form("winograd_f32_2x2",
               "g (float[N,33,H,W] x, float[50,33,5,5] w, float[50] w2, float[50,1,1] q) => (y)"
               "{ a = Conv<pads = [2,1,3,4]>(x, w, w2) b = HardSwish(a) y = Mul(b, q) }",
               sizes, NULL, false);
    check_form("winograd_f32_1x4",
               "g (float[N,33,H,W] x, float[35,33,1,3] w) => (y) { a = Conv<pads = [1,1,0,1]>(x, w) b = Sigmoid(a) y = Mul(a, b) }", sizes, NULL, false);
    check_form("winograd_f32_1x2", "g (float[N,33,H,W] x, float[35,33,1,3] w) => (y) { y = Conv<pads = [0,1,0,1]>(x, w) }", few, NULL, false);
    check_form("winograd_f32_4x1", "g (float[N,33,H,W] x, float[35,33,3,1] w) => (y) { a = Conv<pads = [1,1,1,0]>(x, w) y = Relu(a) }", sizes, NULL, false);
    check_form("winograd_f32_2x1", "g (float[N,33,H,W] x, float[35,33,3,1] w) => (y) { y = Conv<pads = [1,0,1,0]>(x, w) }", fews, NULL, false);
    /* Pixels on both sides, and sums over their terms. */
    check_form("winograd_f32_2x1",
               "g (float[N,32,H,W] x, float[32,32,1,7] w, float[32,32,7,1] w2, float[32,32,5,5] w3, float[32] w4) => (y)"
               "{ a = Conv<pads = [0,3,0,3]>(x, w, w4) b = Relu(a) c = Conv<pads = [3,0,3,0]>(b, w2, w4) d = Add(c, b) e = Relu(d)"
               " f = Conv<pads = [2,2,2,2]>(e, w3) h = Add(f, e) y = Conv<pads = [0,3,0,3]>(h, w) }",
               sizes, NULL, true);
    /* One axis, and three. */
    check_form("winograd_f32_1x2", "g (float[N,40,W] x, float[36,40,7] w, float[36] w2) => (y) { a = Conv<pads = [3,3]>(x, w, w2) y = Relu(a) }", lines, NULL, false);
    check_form("winograd_f32_1x4",
               "g (float[N,32,W] x, float[32,32,5] w, float[64,32,3] w2) => (y) { a = Conv<pads = [4,0]>(x, w) b = Tanh(a) c = Conv(b, w2) y = Relu(c) }",
               lines, NULL, false);
    check_form("winograd_f32_4x4", "g (float[N,33,1,H,W] x, float[35,33,1,3,3] w) => (y) { y = Conv<pads = [0,1,1,0,1,1]>(x, w) }", more, NULL, false);
    check_form("winograd_f32_1x2", "g (float[N,33,1,H,W] x, float[35,33,1,1,7] w) => (y) { y = Conv<pads = [0,0,3,0,0,3]>(x, w) }", sizes, NULL, false);
}

/* Groups: filters that do not fill their panels, columns of operands behind them, planes, sums that are not finite. */
static void test_groups(void **state)
{
    static const char *const sizes[] = {"N=1 H=9 W=13", "N=2 H=8 W=7", "N=3 H=12 W=18", NULL};
    const char *text = "g (float[N,51,H,W] x, float[51,17,3,3] w, float[51] w2, float[51,1,1] q) => (y)"
                       "{ a = Conv<pads = [1,1,1,1], group = 3>(x, w, w2) b = Sigmoid(a) c = Mul(a, b) d = Mul(c, q) y = Add(d, x) }";
    (void)state;
    check_form("winograd_f32",
               "g (float[N,34,H,W] x, float[70,17,3,3] w, float[70] w2) => (y) { a = Conv<pads = [1,1,1,1], group = 2>(x, w, w2) y = Relu(a) }", sizes, NULL, false);
    check_form("winograd_f32", text, sizes, NULL, true);
    check_text(text, sizes, set_nan, false);
    check_form("winograd_f32_2x1", "g (float[N,64,H,W] x, float[70,32,7,1] w, float[N,70,H,W] r) => (y) { a = Conv<pads = [3,0,3,0], group = 2>(x, w) y = Add(a, r) }",
               sizes, NULL, false);
    /* Pixels on both sides. */
    check_form("winograd_f32",
               "g (float[N,24,H,W] x, float[40,24,1,1] w, float[80,20,3,3] w2, float[80] w3, float[24,80,1,1] w4) => (y)"
               "{ a = Conv(x, w) b = Relu(a) c = Conv<pads = [1,1,1,1], group = 2>(b, w2, w3) d = Relu(c) y = Conv(d, w4) }",
               sizes, NULL, true);
}

static void test_threads(void **state)
{
    static const char *const sizes[] = {"N=2 H=20 W=21", NULL};
    (void)state;
    check_text("g (float[N,40,H,W] x, float[200,40,3,3] w, float[200] w2) => (y) { a = Conv<pads = [1,1,1,1]>(x, w, w2) b = Mish(a) y = Mul(b, a) }",
               sizes, NULL, true);
}

static void set(tensors *inputs, size_t stride, float value)
{
    float *x = inputs->list[0].data;
    for (size_t i = stride / 2; i < tensor_count(&inputs->list[0]); i += stride)
        x[i] = value;
}

static void set_nan(tensors *inputs)
{
    set(inputs, 997, NAN);
}

static void set_infinite(tensors *inputs)
{
    set(inputs, 499, -INFINITY);
    set(inputs, 1499, INFINITY);
}

/* 2.5 times it is infinite: transforms overflow where sums of products do not. */
static void set_huge(tensors *inputs)
{
    memset(inputs->list[0].data, 0, inputs->list[0].bytes);
    set(inputs, 331, 1.5e38f);
}

static void test_not_finite(void **state)
{
    static const char *const sizes[] = {"N=1 H=13 W=21", "N=2 H=8 W=8", NULL};
    const char *text = "g (float[N,16,H,W] x, float[16,16,3,3] w, float[16] w2) => (y)"
                       "{ a = Conv<pads = [1,1,1,1]>(x, w, w2) b = Add(a, x) y = Relu(b) }";
    (void)state;
    check_text(text, sizes, set_nan, true);
    check_text(text, sizes, set_infinite, true);
    check_scaled("g (float[N,16,H,W] x, float[16,16,3,3] w) => (y) { y = Conv<pads = [1,1,1,1]>(x, w) }", sizes, set_huge, 1e38, false);
    static const struct {
        const char *kernel, *text, *huge;
    } taps[] = {
        {"winograd_f32_1x2",
         "g (float[N,32,H,W] x, float[32,32,1,7] w, float[32] w2) => (y) { a = Conv<pads = [0,3,0,3]>(x, w, w2) b = Add(a, x) y = Relu(b) }",
         "g (float[N,32,H,W] x, float[32,32,1,7] w) => (y) { y = Conv<pads = [0,3,0,3]>(x, w) }"},
        {"winograd_f32_2x1",
         "g (float[N,32,H,W] x, float[32,32,5,1] w, float[32] w2) => (y) { a = Conv<pads = [2,0,2,0]>(x, w, w2) b = Add(a, x) y = Relu(b) }",
         "g (float[N,32,H,W] x, float[32,32,7,1] w) => (y) { y = Conv<pads = [3,0,3,0]>(x, w) }"},
        {"winograd_f32_2x2",
         "g (float[N,32,H,W] x, float[32,32,5,5] w, float[32] w2) => (y) { a = Conv<pads = [2,2,2,2]>(x, w, w2) b = Add(a, x) y = Relu(b) }",
         "g (float[N,32,H,W] x, float[32,32,5,5] w) => (y) { y = Conv<pads = [2,2,2,2]>(x, w) }"},
    };
    for (size_t i = 0; i < sizeof taps / sizeof *taps; i++) {
        check_form(taps[i].kernel, taps[i].text, sizes, set_nan, i == 0);
        check_form(taps[i].kernel, taps[i].text, sizes, set_infinite, false);
        check_scaled(taps[i].huge, sizes, set_huge, 1e38, false);
    }
}

/* Strides, dilations, other windows, few tiles or channels, tiles that overhang too much, and --exact stay direct. */
static void test_choice(void **state)
{
    static const struct {
        const char *text;
        bool        exact, winograd;
    } cases[] = {
        {"g (float[1,16,16,16] x, float[16,16,3,3] w) => (y) { y = Conv(x, w) }", false, true},
        {"g (float[1,16,16,16] x, float[16,16,3,3] w) => (y) { y = Conv(x, w) }", true, false},
        {"g (float[1,16,16,16] x, float[16,16,3,3] w) => (y) { y = Conv<strides = [1,2]>(x, w) }", false, false},
        {"g (float[1,16,16,16] x, float[16,16,3,3] w) => (y) { y = Conv<dilations = [2,2]>(x, w) }", false, false},
        {"g (float[1,32,16,16] x, float[32,16,3,3] w) => (y) { y = Conv<group = 2>(x, w) }", false, true},
        {"g (float[1,8,16,16] x, float[8,4,3,3] w) => (y) { y = Conv<group = 2>(x, w) }", false, false},
        {"g (float[1,16,16,16] x, float[16,16,3,1] w) => (y) { y = Conv(x, w) }", false, false},
        {"g (float[1,16,4,4] x, float[16,16,3,3] w) => (y) { y = Conv<pads = [1,1,1,1]>(x, w) }", false, false},
        {"g (float[1,4,16,16] x, float[16,4,3,3] w) => (y) { y = Conv(x, w) }", false, false},
        {"g (float[1,32,16,16] x, float[32,32,1,7] w) => (y) { y = Conv(x, w) }", false, true},
        {"g (float[1,32,16,16] x, float[32,32,1,7] w) => (y) { y = Conv<dilations = [3,1]>(x, w) }", false, true}, /* of one tap */
        {"g (float[1,32,16,16] x, float[32,32,1,7] w) => (y) { y = Conv(x, w) }", true, false},
        {"g (float[1,32,16,16] x, float[32,32,1,7] w) => (y) { y = Conv<dilations = [1,2]>(x, w) }", false, false},
        {"g (float[1,32,16,16] x, float[32,32,1,7] w) => (y) { y = Conv<strides = [2,1]>(x, w) }", false, false},
        {"g (float[1,32,16,7] x, float[32,32,1,7] w) => (y) { y = Conv(x, w) }", false, false},
        {"g (float[1,32,3,9] x, float[32,32,1,7] w) => (y) { y = Conv(x, w) }", false, true},
        {"g (float[1,32,1,9] x, float[32,32,1,7] w) => (y) { y = Conv(x, w) }", false, false},
        {"g (float[1,31,16,16] x, float[32,31,1,7] w) => (y) { y = Conv(x, w) }", false, false},
        {"g (float[1,32,16,16] x, float[32,32,1,9] w) => (y) { y = Conv(x, w) }", false, false},
        {"g (float[1,32,16,16] x, float[32,32,3,5] w) => (y) { y = Conv(x, w) }", false, false},
        {"g (float[1,32,16,16] x, float[32,32,7,7] w) => (y) { y = Conv(x, w) }", false, false},
        {"g (float[1,32,2,16,16] x, float[32,32,1,3,3] w) => (y) { y = Conv(x, w) }", false, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        opf_model_options options = {.exact = cases[i].exact};
        text_model        m;
        tensors           inputs;
        text_model_open(&m, cases[i].text, &options, 1);
        make_inputs(m.model, "", 7, &inputs);
        if (has_kernel(&m, &inputs, "winograd") != cases[i].winograd)
            fail_msg("%s form of %s", cases[i].winograd ? "direct" : "Winograd's", cases[i].text);
        free_tensors(&inputs);
        text_model_close(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shapes),     cmocka_unit_test(test_what_follows), cmocka_unit_test(test_planes),   cmocka_unit_test(test_taps),
        cmocka_unit_test(test_groups),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_not_finite), cmocka_unit_test(test_choice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
