/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolutions of planar images of a few channels, whose tiles read the image where it lies, and by the borders copies:
 * windows, strides, dilations and borders drawn around the sizes where tiles begin and end, between unreadable pages,
 * and views of images; against the reference, at each CPU level, bitwise equal for any number of threads.
 */
#include "plan_case.h"

#include <sys/mman.h>
#include <unistd.h>

/* ---- images that end where memory does ---- */

enum { ROOM = 1 << 17 };

static char *make_room(void)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *p = mmap(NULL, ROOM + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(p, MAP_FAILED);
    assert_int_equal(mprotect(p + page, ROOM, PROT_READ | PROT_WRITE), 0);
    return p + page;
}

static void free_room(char *room)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    assert_int_equal(munmap(room - page, ROOM + 2 * page), 0);
}

/* The same results with the image at either end of the room. */
static void check_ends(const opf_model *model, const tensors *inputs, const results *want, char *room, const char *text)
{
    tensors at = *inputs;
    size_t bytes = inputs->list[0].bytes;
    assert_in_range(bytes, 0, ROOM);
    for (int end = 0; end < 2; end++) {
        results got;
        at.list[0].data = end ? room + ROOM - bytes : room;
        memcpy(at.list[0].data, inputs->list[0].data, bytes);
        run_model(model, OPF_MODE_FUSED, 1, &at, NULL, text, &got);
        same_bits(&got, want, 1, end ? "before the end" : "behind the begin", text);
        free_results(&got);
    }
}

static void check_image(const char *text, char *room)
{
    for (opf_cpu_level level = OPF_CPU_SCALAR; level <= opf_cpu_detect(); level++) {
        opf_model_options options = {.level = level};
        text_model m;
        tensors inputs;
        results want, got;
        text_model_open(&m, text, &options, 1);
        make_inputs(m.model, "", 7, &inputs);
        run_model(m.model, OPF_MODE_REFERENCE, 1, &inputs, NULL, text, &want);
        check_run(
            m.model, OPF_MODE_FUSED, &inputs, &want,
            &(expected){"!conv_planes_f32", -1, 1e-4, 2e-5, few_threads, label_of(OPF_MODE_FUSED, level), "", text});
        run_model(m.model, OPF_MODE_FUSED, 1, &inputs, NULL, text, &got);
        check_ends(m.model, &inputs, &got, room, text);
        free_results(&got);
        free_results(&want);
        free_tensors(&inputs);
        text_model_close(&m);
    }
}

/* ---- windows ---- */

typedef struct axis {
    int kernel, stride, dilation, begin, end, in;
} axis;

static int draw(opf_random *random, int from, int to)
{
    return from + (int)(opf_random_next(random) % (uint64_t)(to - from + 1));
}

/* So many positions of the window, the last of which may leave pixels over; or that are more, of an image that would be
 * empty. */
static axis draw_axis(opf_random *random, int kernel, int out)
{
    axis a = {.kernel = kernel, .stride = draw(random, 1, 3), .dilation = draw(random, 1, 4) == 1 ? 2 : 1};
    a.begin = draw(random, 0, 3);
    a.end = draw(random, 0, 3);
    a.in = (out - 1) * a.stride + (kernel - 1) * a.dilation + 1 - a.begin - a.end + draw(random, 0, a.stride - 1);
    a.in = a.in < 1 ? 1 : a.in;
    return a;
}

static void write_conv(char *text, size_t n, opf_random *random, int out)
{
    static const int widths[] = {1, 2, 3, 5, 7}, heights[] = {1, 2, 3, 3, 7};
    const axis x = draw_axis(random, widths[draw(random, 0, 4)], out),
               y = draw_axis(random, heights[draw(random, 0, 4)], draw(random, 1, 6));
    const int groups = draw(random, 1, 5) == 1 ? 2 : 1, channels = draw(random, 1, 4);
    const int filters = groups * (draw(random, 1, 3) == 1 ? 37 : 13);
    (void)snprintf(
        text, n,
        "g (float[%d,%d,%d,%d] x, float[%d,%d,%d,%d] w, float[%d] w2) => (y)"
        "{ c = Conv<group = %d, pads = [%d,%d,%d,%d], strides = [%d,%d], dilations = [%d,%d]>(x, w, w2) y = Relu(c) }",
        draw(random, 1, 2), groups * channels, y.in, x.in, filters, channels, y.kernel, x.kernel, filters, groups,
        y.begin, x.begin, y.end, x.end, y.stride, x.stride, y.dilation, x.dilation);
}

/* Around each number of tiles of each level, and more. */
static void test_borders(void **state)
{
    char *room = make_room(), text[500];
    opf_random random;
    (void)state;
    opf_random_init(&random, 5);
    for (int out = 4; out <= 50; out++)
        for (int i = 0; i < 4; i++) {
            write_conv(text, sizeof text, &random, out);
            check_image(text, room);
        }
    free_room(room);
}

static void test_images(void **state)
{
    static const char *const texts[] = {
        /* One line, and one axis. */
        "g (float[2,3,1,40] x, float[20,3,1,5] w) => (y) { y = Conv<pads = [0,2,0,2]>(x, w) }",
        "g (float[2,3,1,40] x, float[20,3,3,3] w) => (y) { y = Conv<pads = [1,1,1,1], strides = [2,2]>(x, w) }",
        "g (float[3,2,60] x, float[20,2,5] w) => (y) { y = Conv<pads = [2,2], strides = [2]>(x, w) }",
        "g (float[1,1,90] x, float[20,1,10] w) => (y) { y = Conv<strides = [2]>(x, w) }",
        /* No window lies inside the image. */
        "g (float[1,3,4,30] x, float[20,3,7,3] w) => (y) { y = Conv<pads = [3,1,3,1]>(x, w) }",
        "g (float[1,3,9,8] x, float[20,3,3,11] w) => (y) { y = Conv<pads = [1,20,1,20]>(x, w) }",
        /* Planes of three axes. */
        "g (float[2,3,4,5,40] x, float[20,3,3,2,3] w) => (y) { y = Conv<pads = [1,0,1,1,1,1], strides = [1,1,2]>(x, w) "
        "}",
        /* Many panels, sums in parts, and an epilogue. */
        "g (float[1,4,12,40] x, float[150,4,9,9] w, float[150] w2) => (y) { c = Conv<pads = [4,4,4,4]>(x, w, w2) y = "
        "HardSwish(c) }",
        "g (float[1,3,12,40] x, float[50,3,3,3] w, float[1,50,12,40] r) => (y) { c = Conv<pads = [1,1,1,1]>(x, w) d = "
        "Add(c, r) y = Sigmoid(d) }",
        /* No image. */
        "g (float[0,3,12,40] x, float[20,3,3,3] w) => (y) { y = Conv<pads = [1,1,1,1]>(x, w) }",
    };
    char *room = make_room();
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        check_image(texts[i], room);
    free_room(room);
}

/* Parts of an image, its lines the other way around, its channels apart, one line for all. */
static void test_views(void **state)
{
    static const test_case cases[] = {
        {NULL, "N=1; N=2",
         "g (float[N,5,14,50] x, float[20,3,3,3] w) => (y) <int64[3] b = {1,2,3}, int64[3] e = {4,12,45}, int64[3] a = "
         "{1,2,3}>"
         "{ s = Slice(x, b, e, a) y = Conv<pads = [1,1,1,1], strides = [2,2]>(s, w) }"},
        {NULL, "N=1; N=2",
         "g (float[N,3,14,50] x, float[20,3,3,3] w) => (y) <int64[1] b = {-1}, int64[1] e = {-100}, int64[1] a = {2}, "
         "int64[1] t = {-1}>"
         "{ s = Slice(x, b, e, a, t) y = Conv<pads = [1,1,1,1], strides = [2,2]>(s, w) }"},
        {NULL, "N=1; N=2",
         "g (float[N,3,14,50] x, float[20,3,3,3] w) => (y) <int64[1] b = {-1}, int64[1] e = {-100}, int64[1] a = {1}, "
         "int64[1] t = {-1}>"
         "{ s = Slice(x, b, e, a, t) y = Conv<pads = [1,1,1,1]>(s, w) }"},
        {NULL, "N=1; N=2",
         "g (float[N,14,3,50] x, float[20,3,3,3] w) => (y) { t = Transpose<perm = [0,2,1,3]>(x) y = Conv<pads = "
         "[1,1,1,1], strides = [2,2]>(t, w) }"},
        {NULL, "N=1; N=2",
         "g (float[N,3,1,50] x, float[20,3,3,3] w) => (y) <int64[4] s = {1,3,9,50}>"
         "{ t = Expand(x, s) y = Conv<pads = [1,1,1,1], strides = [2,2]>(t, w) }"},
        {NULL, "N=1; N=2",
         "g (float[N,6,14,50] x, float[20,3,3,3] w, float[20,3,3,3] w2) => (y)"
         "{ s, t = Split<axis = 1, num_outputs = 2>(x) a = Conv<pads = [1,1,1,1]>(s, w) b = Conv<pads = [1,1,1,1]>(t, "
         "w2) y = Sub(a, b) }"},
    };
    (void)state;
    CHECK_ALL(cases);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_borders), cmocka_unit_test(test_images),
                                       cmocka_unit_test(test_views)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
