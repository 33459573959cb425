/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resize on its kernels: every mode against the reference at random sizes, in planes and channels-last, with what may
 * follow, at each CPU level; the same bits on any threads; NaN and infinity where the reference has them.
 */
#include "text_model.h"

#include <math.h>

static opf_random dice;

static size_t roll(size_t n)
{
    return (size_t)(opf_random_next(&dice) % n);
}

#define PICK(list) (list)[roll(sizeof(list) / sizeof *(list))]

static void spoil(tensors *inputs)
{
    float *x = inputs->list[0].data;
    const size_t n = tensor_count(&inputs->list[0]);
    for (size_t k = 0; k < 3 && n != 0; k++)
        x[roll(n)] = k == 0 ? NAN : k == 1 ? INFINITY : -INFINITY;
}

/* One model at one level: fused and unfused as the reference, and all threads as one. */
static void check(const char *text, const char *kernel, size_t steps, opf_cpu_level level, bool spoiled,
                  double tolerance)
{
    static const int32_t threads[] = {1, 2, 5, 0};
    const opf_model_options options = {.level = level};
    text_model m;
    tensors inputs;
    results want;
    text_model_open(&m, text, &options, 1);
    make_inputs(m.model, "N=2", 7, &inputs);
    if (spoiled)
        spoil(&inputs);
    run_model(m.model, OPF_MODE_REFERENCE, 1, &inputs, NULL, text, &want);
    for (opf_mode mode = OPF_MODE_FUSED; mode <= OPF_MODE_UNFUSED; mode++)
        check_run(m.model, mode, &inputs, &want,
                  &(expected){kernel, mode == OPF_MODE_FUSED && steps != 0 ? (int)steps : -1, tolerance, tolerance, threads,
                              label_of(mode, level), "N=2", text});
    free_results(&want);
    free_tensors(&inputs);
    text_model_close(&m);
}

/* ---- random resizes ---- */

static const char *const modes[] = {"nearest", "linear", "linear", "cubic"};
static const char *const roundings[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"};
static const char *const coordinates[] = {"half_pixel",    "half_pixel_symmetric", "pytorch_half_pixel",
                                          "align_corners", "asymmetric",           "tf_crop_and_resize"};

/* The attributes, and whether only the reference kernel may serve. */
static bool make_attributes(char *text, size_t room, bool *is_nearest)
{
    const char *mode = PICK(modes), *coordinate = PICK(coordinates);
    *is_nearest = strcmp(mode, "nearest") == 0;
    const bool antialias = !*is_nearest && roll(6) == 0, exclude = !*is_nearest && roll(6) == 0;
    (void)snprintf(text, room,
                   "mode = \"%s\", nearest_mode = \"%s\", coordinate_transformation_mode = \"%s\", antialias = %d, "
                   "exclude_outside = %d",
                   mode, PICK(roundings), coordinate, antialias, exclude);
    return strcmp(coordinate, "tf_crop_and_resize") == 0 || exclude;
}

/* "{a,b,…}" of n random sizes or scales. */
static void make_numbers(char *text, size_t room, bool sizes, size_t n)
{
    static const char *const scales[] = {"1", "2", "3", "0.5", "0.34", "1.7", "2.5"};
    size_t at = 0;
    for (size_t i = 0; i < n; i++)
        at += (size_t)(sizes ? snprintf(text + at, room - at, "%s%zu", i == 0 ? "{" : ",",
                                        1 + roll(roll(4) == 0 ? 40 : 9))
                             : snprintf(text + at, room - at, "%s%s", i == 0 ? "{" : ",", PICK(scales)));
    (void)snprintf(text + at, room - at, "}");
}

static void make_dims(char *text, size_t room, size_t least, size_t n)
{
    size_t at = 0;
    for (size_t i = 0; i < n; i++)
        at += (size_t)snprintf(text + at, room - at, ",%zu", least + roll(roll(3) == 0 ? 40 : 9));
}

static void check_random(bool is_last, opf_cpu_level level)
{
    static const char *const behind[] = {"y = Identity(r)", "y = Relu(r)", "a = Mul(r, s) y = Add(a, r)",
                                         "y = Mul(r, w2)"};
    char attributes[256], dims[64], numbers[64], text[1024];
    bool is_nearest;
    const size_t spatial = 1 + roll(3), channels = 1 + roll(roll(3) == 0 ? 70 : 5);
    const bool sizes = roll(2), any = make_attributes(attributes, sizeof attributes, &is_nearest);
    static const char *const axes[] = {"[2]", "[2,3]", "[2,3,4]"}, *const rois[] = {"{0,1}", "{0,0.1,0.9,1}",
                                                                                    "{0,0,0.2,1,1,0.9}"};
    const char *const image[] = {"1", "1,1", "1,1,1"};
    make_dims(dims, sizeof dims, sizes ? 1 : 3, spatial); /* scaled, something is left */
    make_numbers(numbers, sizeof numbers, sizes, spatial);
    /* A convolution makes channels-last images, and one more behind takes them. */
    (void)snprintf(text, sizeof text,
                   "g (float[N,%zu%s] x, float[%zu,%zu,%s] w, float[%zu,%s] w2) => (%s)"
                   "<%s[%zu] n = %s, float[%zu] b = %s, float s = {0.5}> {"
                   "%s r = Resize<%s, axes = %s>(%s, b, %s n) %s %s }",
                   channels, dims, channels, channels, image[spatial - 1], channels, image[spatial - 1],
                   is_last && roll(2) ? "z" : "y", sizes ? "int64" : "float", spatial, numbers, 2 * spatial,
                   rois[spatial - 1], is_last ? "c = Conv(x, w)" : "", attributes, axes[spatial - 1],
                   is_last ? "c" : "x", sizes ? "," : "", PICK(behind), is_last ? "z = Conv(y, w)" : "");
    const bool exact = is_nearest && !is_last;
    check(text, any ? NULL : "resize_", 0, level, !is_last && roll(2), exact ? 0 : 1e-5);
}

static void test_random(void **state)
{
    (void)state;
    opf_random_init(&dice, 11);
    for (int round = 0; round < 150; round++)
        for (opf_cpu_level level = OPF_CPU_SCALAR; level <= opf_cpu_detect(); level++)
            check_random(round % 2, level);
}

/* ---- what is special ---- */

typedef struct test_case {
    const char *kernel;
    size_t steps; /* of the fused plan */
    const char *text;
} test_case;

#define UP      "<float[4] s = {1,1,2,2}, float half = {0.5}>"
#define NEAREST "Resize<mode = \"nearest\", coordinate_transformation_mode = \"asymmetric\", nearest_mode = \"floor\">"
#define LINEAR  "Resize<mode = \"linear\">"

static const test_case cases[] = {
    /* Steps, of each kind of operand, and one that is stored. */
    {"resize_nearest_f32", 1,
     "g (float[N,3,5,7] x, float[N,3,10,14] z) => (y) " UP "{ r = " NEAREST "(x, , s) t = Add(r, z) y = Relu(t) }"},
    {"resize_linear_f32", 1,
     "g (float[N,3,5,7] x, float[3,1,1] z) => (y, t) " UP "{ r = " LINEAR "(x, , s) t = Add(r, z) y = Mul(t, half) }"},
    {"resize_linear_f32", 1, "g (float[N,3,5,7] x, float[14] z) => (y) " UP "{ r = " LINEAR "(x, , s) y = Sub(z, r) }"},
    {"resize_nearest_f32", 1,
     "g (float[N,3,5,7] x, float[10,1] z) => (y) <float[4] s = {1,1,2,1}> { r = " NEAREST "(x, , s) y = Sub(z, r) }"},
    {"resize_nearest_f32", 1,
     "g (float[N,3,5,1] x, float[10,1] z) => (y) <float[4] s = {1,1,2,1}> { r = " NEAREST "(x, , s) y = Sub(z, r) }"},
    {"resize_linear_f32", 3,
     "g (float[N,6,5,7] x, float[8,6,1,1] w, float[N,8,10,14] z, float[5,8,1,1] w2) => (y) " UP
     "{ c = Conv(x, w) r = " LINEAR "(c, , s) t = Add(r, z) u = Sigmoid(t) y = Conv(u, w2) }"},
    /* A channels-last image to planes. */
    {"resize_linear_f32", 2,
     "g (float[N,6,5,7] x, float[8,6,1,1] w, float[8,1,1] z) => (y) " UP "{ c = Conv(x, w) r = " LINEAR
     "(c, , s) y = Add(r, z) }"},
    /* Other axes than those of an image, channels behind as some frameworks have them, all axes, a row. */
    {"resize_linear_f32", 1,
     "g (float[N,5,7,3] x, float[3] z) => (y) <float[4] s = {1,2,2,1}> { r = " LINEAR "(x, , s) y = Add(r, z) }"},
    {"resize_linear_f32", 1, "g (float[N,3,5,7] x) => (y) <float[4] s = {1,2,1,1}> { y = " LINEAR "(x, , s) }"},
    {"resize_cubic_f32", 1,
     "g (float[4,3,5,7] x) => (y) <float[4] s = {1.5,2,0.7,2}> { y = Resize<mode = \"cubic\">(x, , s) }"},
    {"resize_linear_f32", 1, "g (float[9] x) => (y) <int64[1] s = {4}> { y = " LINEAR "(x, , , s) }"},
    {"resize_nearest_f32", 1, "g (float[4,9] x) => (y) <float[2] s = {3,1}> { y = " NEAREST "(x, , s) }"},
    /* One pixel, spread. */
    {"resize_linear_f32", 2,
     "g (float[N,6,9,9] x, float[6,6,1,1] w) => (y) <int64[2] s = {4,5}>"
     "{ a = GlobalAveragePool(x) y = Resize<mode = \"linear\", axes = [2,3]>(a, , , s) }"},
    /* Views: a broadcast, a turned image, every other channel, some channels of a channels-last image. */
    {"resize_linear_f32", 1,
     "g (float[N,3,1,1] x) => (y) <float[4] s = {1,1,2,2}, int64[4] d = {2,3,4,5}> { e = Expand(x, d) y = " LINEAR
     "(e, , s) }"},
    {"resize_linear_f32", 2,
     "g (float[N,3,5,7] x) => (y) " UP "{ t = Transpose<perm = [0,1,3,2]>(x) y = " LINEAR "(t, , s) }"},
    {"resize_linear_f32", 1,
     "g (float[N,5,7,3] x) => (y) " UP "{ t = Transpose<perm = [0,3,1,2]>(x) y = " LINEAR "(t, , s) }"},
    /* No image, no line. */
    {"", 0, "g (float[N,3,5,7] x) => (y) <int64[4] d = {2,3,0,7}> { y = Resize<mode = \"linear\">(x, , , d) }"},
};

static void test_cases(void **state)
{
    (void)state;
    opf_random_init(&dice, 5);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (opf_cpu_level level = OPF_CPU_SCALAR; level <= opf_cpu_detect(); level++)
            check(cases[i].text, cases[i].kernel, cases[i].steps, level, false, 1e-5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random), cmocka_unit_test(test_cases)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
