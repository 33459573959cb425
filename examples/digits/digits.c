/* SPDX-License-Identifier: Apache-2.0 */
/*
 * digits MODEL.onnx IMAGES.npy LABELS.npy [SHOW]
 *
 * Embedding opfuse in a program: opens a model once, runs it over a test set, and compares a session over the fused
 * graph with one over the unfused graph. Images are float32 [n, 1, 8, 8] in 0..1, labels int64 [n].
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <opfuse/opfuse.h>

#define SIDE    8
#define PIXELS  (SIDE * SIDE)
#define CLASSES 10

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

static opf_tensor image_batch(const opf_tensor *images, int64_t first, int64_t count)
{
    opf_tensor batch = *images;
    batch.dims[0] = count;
    batch.data = (float *)images->data + first * PIXELS;
    batch.bytes = (size_t)count * PIXELS * sizeof(float);
    return batch;
}

static int best_class(const float *scores)
{
    int best = 0;
    for (int i = 1; i < CLASSES; i++) {
        if (scores[i] > scores[best])
            best = i;
    }
    return best;
}

static void draw_row(const opf_tensor *images, const int *guesses, int64_t first, int64_t count)
{
    static const char shades[] = " .:-=+*%@@";
    for (int y = 0; y < SIDE; y++) {
        for (int64_t n = first; n < first + count; n++) {
            const float *row = (const float *)images->data + n * PIXELS + y * SIDE;
            printf("   ");
            for (int x = 0; x < SIDE; x++) {
                const char shade = shades[(int)(row[x] * 9.0F)];
                printf("%c%c", shade, shade);
            }
        }
        printf("\n");
    }
    for (int64_t n = first; n < first + count; n++)
        printf("   %-16s", (const char *[]){"zero", "one", "two", "three", "four", "five", "six", "seven", "eight",
                                            "nine"}[guesses[n]]);
    printf("\n");
}

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Median time of one image in microseconds; the two sessions take turns, so that a disturbance hits both. */
static opf_status measure(const opf_model *model, const opf_tensor *images, double median[2], opf_error *error)
{
    enum { RUNS = 2000 };
    static double times[2][RUNS];
    opf_session *sessions[2] = {NULL, NULL};
    opf_status status = OPF_OK;
    for (int s = 0; s < 2 && !status; s++) {
        const opf_session_options options = {.threads = 1, .mode = s ? OPF_MODE_UNFUSED : OPF_MODE_FUSED};
        status = opf_session_create(model, &options, &sessions[s], error);
    }
    for (int r = -RUNS / 10; r < RUNS && !status; r++) { /* runs below 0 warm up */
        for (int s = 0; s < 2 && !status; s++) {
            const opf_tensor image = image_batch(images, 0, 1);
            opf_tensor scores = {0};
            const double start = now_us();
            status = opf_session_run(sessions[s], &image, 1, &scores, 1, error);
            if (r >= 0)
                times[s][r] = now_us() - start;
        }
    }
    for (int s = 0; s < 2; s++) {
        qsort(times[s], RUNS, sizeof(double), compare_doubles);
        median[s] = times[s][RUNS / 2];
        opf_session_destroy(&sessions[s]);
    }
    return status;
}

/* Steps, and share of the time, that a mode spends on reference kernels, which are plain and not meant to be fast. */
static opf_status reference_share(const opf_model *model, opf_mode mode, const opf_tensor *images, size_t *steps,
                                  double *share, opf_error *error)
{
    const opf_session_options options = {.threads = 1, .mode = mode, .profile = true};
    const opf_tensor image = image_batch(images, 0, 1);
    opf_session *session = NULL;
    opf_profile profile = {0};
    opf_status status = opf_session_create(model, &options, &session, error);
    for (int r = 0; r < 20 && !status; r++) {
        opf_tensor scores = {0};
        status = opf_session_run(session, &image, 1, &scores, 1, error);
    }
    if (!status)
        status = opf_session_profile(session, &profile, error);
    double all = 0;
    double slow = 0;
    *steps = 0;
    for (size_t i = 0; i < profile.n_steps; i++) {
        const bool is_slow = strcmp(profile.steps[i].kernel, "reference") == 0;
        all += profile.steps[i].ms;
        slow += is_slow ? profile.steps[i].ms : 0;
        *steps += is_slow;
    }
    *share = all > 0 ? slow / all : 0;
    opf_session_destroy(&session);
    return status;
}

/* Fused against unfused says what fusion gains only if both run on the same kind of kernel. */
static opf_status print_latency(const opf_model *model, const opf_tensor *images, opf_error *error)
{
    static const char *const names[2] = {"fused", "unfused"};
    double median[2] = {0, 0};
    size_t steps[2] = {0, 0};
    double share[2] = {0, 0};
    opf_status status = measure(model, images, median, error);
    for (int s = 0; s < 2 && !status; s++)
        status = reference_share(model, s ? OPF_MODE_UNFUSED : OPF_MODE_FUSED, images, &steps[s], &share[s], error);
    if (status)
        return status;
    printf("one image, one thread: fused %.1f us, unfused %.1f us\n", median[0], median[1]);
    for (int s = 0; s < 2; s++) {
        if (steps[s])
            printf("  note: %zu steps of the %s graph ran on reference kernels, %.0f %% of its time\n", steps[s], names[s],
                   100 * share[s]);
    }
    if (steps[0] || steps[1])
        printf("  so their ratio, %.2f, is not what fusion alone gains\n", median[1] / median[0]);
    else
        printf("  fusion makes it %.2f times as fast\n", median[1] / median[0]);
    return status;
}

static opf_status recognise(const opf_model *model, const opf_tensor *images, int *guesses, opf_error *error)
{
    opf_session *session = NULL;
    opf_tensor scores = {0};
    opf_status status = opf_session_create(model, NULL, &session, error);
    if (!status)
        status = opf_session_run(session, images, 1, &scores, 1, error);
    if (!status && (scores.type != OPF_FLOAT || scores.bytes < (size_t)images->dims[0] * CLASSES * sizeof(float))) {
        status = OPF_INVALID_MODEL;
        snprintf(error->message, sizeof error->message, "the model must give %d float scores an image", CLASSES);
    }
    for (int64_t n = 0; n < images->dims[0] && !status; n++)
        guesses[n] = best_class((const float *)scores.data + n * CLASSES);
    opf_session_destroy(&session); /* scores lay in the session */
    return status;
}

static opf_status run(const char *path, const opf_tensor *images, const opf_tensor *labels, int64_t show, opf_error *error)
{
    const int64_t count = images->dims[0];
    opf_model *model = NULL;
    int *guesses = calloc((size_t)count, sizeof(int));
    opf_status status = guesses ? opf_model_open(path, NULL, &model, error) : OPF_OUT_OF_MEMORY;
    if (!status)
        status = recognise(model, images, guesses, error);
    if (!status) {
        int64_t right = 0;
        for (int64_t n = 0; n < count; n++)
            right += guesses[n] == ((const int64_t *)labels->data)[n];
        if (show > 0)
            draw_row(images, guesses, 0, show < count ? show : count);
        printf("%s: %lld of %lld digits recognised (%.1f %%)\n", path, (long long)right, (long long)count,
               100.0 * (double)right / (double)count);
        status = print_latency(model, images, error);
    }
    opf_model_destroy(&model);
    free(guesses);
    return status;
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: digits MODEL.onnx IMAGES.npy LABELS.npy [SHOW]\n");
        return 2;
    }
    opf_error error = {.message = "out of memory"};
    opf_tensor images = {0};
    opf_tensor labels = {0};
    opf_status status = opf_tensor_load(argv[2], &images, NULL, 0, &error);
    if (!status)
        status = opf_tensor_load(argv[3], &labels, NULL, 0, &error);
    if (!status && (images.type != OPF_FLOAT || images.rank != 4 || images.dims[0] < 1 ||
                    images.dims[1] != 1 || images.dims[2] != SIDE || images.dims[3] != SIDE || labels.type != OPF_INT64 ||
                    labels.rank != 1 || labels.dims[0] != images.dims[0])) {
        status = OPF_INVALID_INPUT;
        snprintf(error.message, sizeof error.message, "images must be float32 [n, 1, 8, 8], labels int64 [n]");
    }
    if (!status)
        status = run(argv[1], &images, &labels, argc > 4 ? atol(argv[4]) : 5, &error);
    if (status)
        fprintf(stderr, "digits: %s\n", error.message);
    opf_tensor_free(&images);
    opf_tensor_free(&labels);
    return status ? 1 : 0;
}
