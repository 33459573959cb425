/* SPDX-License-Identifier: Apache-2.0 */
/* A graph at several sizes, fused and unfused, at each CPU level and for several numbers of threads, against the reference. */
#ifndef PLAN_CASE_H
#define PLAN_CASE_H

#include "cpu/cpu.h"
#include "text_model.h"

typedef struct test_case {
    const char *kernel; /* one that the unfused plan must have at its first size; NULL: whatever */
    const char *sizes;  /* several, "N=1 H=5; N=2 H=7" */
    const char *text;
} test_case;

/* ---- running ---- */

static const int32_t few_threads[] = {1, 3, 0}, all_threads[] = {1, 2, 3, 4, 5, 6, 7, 8, 0};

static void check_sizes(const opf_model *model, opf_cpu_level level, const test_case *c, const char *sizes, const int32_t *threads, const char *kernel)
{
    tensors inputs;
    results want;
    make_inputs(model, sizes, 7, &inputs);
    run_model(model, OPF_MODE_REFERENCE, 1, &inputs, NULL, c->text, &want);
    for (opf_mode mode = OPF_MODE_FUSED; mode <= OPF_MODE_UNFUSED; mode++) {
        char    label[40];
        results first, other;
        (void)snprintf(label, sizeof label, "%s at %s", mode == OPF_MODE_FUSED ? "fused" : "unfused", opf_cpu_level_name(level));
        run_model(model, mode, threads[0], &inputs, mode == OPF_MODE_UNFUSED ? kernel : NULL, c->text, &first);
        compare_results(&first, &want, 1e-4, 2e-5, label, sizes, c->text);
        for (int i = 1; threads[i] != 0; i++) {
            run_model(model, mode, threads[i], &inputs, NULL, c->text, &other);
            same_bits(&first, &other, threads[i], sizes, c->text);
            free_results(&other);
        }
        free_results(&first);
    }
    free_results(&want);
    free_tensors(&inputs);
}

static void check_case(const test_case *c, const int32_t *threads)
{
    for (opf_cpu_level level = OPF_CPU_SCALAR; level <= opf_cpu_detect(); level++) {
        opf_model_options options = {.level = level};
        text_model        m;
        text_model_open(&m, c->text, &options, 1);
        const char *kernel = c->kernel;
        for (const char *p = c->sizes;; p = strchr(p, ';') + 2) {
            char   sizes[80];
            size_t n = strcspn(p, ";");
            assert_in_range(n, 0, sizeof sizes - 1);
            memcpy(sizes, p, n);
            sizes[n] = '\0';
            check_sizes(m.model, level, c, sizes, threads, kernel);
            kernel = NULL;
            if (p[n] == '\0')
                break;
        }
        text_model_close(&m);
    }
}

#define CHECK_ALL(cases)                                                                                               \
    for (size_t i = 0; i < sizeof(cases) / sizeof *(cases); i++)                                                       \
    check_case(&(cases)[i], few_threads)

#endif
