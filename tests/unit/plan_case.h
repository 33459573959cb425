/* SPDX-License-Identifier: Apache-2.0 */
/* A graph at several sizes, fused and unfused, at each CPU level and for several numbers of threads, against the reference. */
#ifndef PLAN_CASE_H
#define PLAN_CASE_H

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
    for (opf_mode mode = OPF_MODE_FUSED; mode <= OPF_MODE_UNFUSED; mode++)
        check_run(model, mode, &inputs, &want,
                  &(expected){mode == OPF_MODE_UNFUSED ? kernel : NULL, -1, 1e-4, 2e-5, threads, label_of(mode, level), sizes, c->text});
    free_results(&want);
    free_tensors(&inputs);
}

static MAYBE_UNUSED void check_case(const test_case *c, const int32_t *threads)
{
    for (opf_cpu_level level = OPF_CPU_SCALAR; level <= opf_cpu_detect(); level++) {
        opf_model_options options = {.level = level};
        text_model        m;
        char              sizes[80];
        const char       *kernel = c->kernel;
        text_model_open(&m, c->text, &options, 1);
        for (const char *p = c->sizes; next_sizes(&p, sizes); kernel = NULL)
            check_sizes(m.model, level, c, sizes, threads, kernel);
        text_model_close(&m);
    }
}

#define CHECK_ALL(cases)                                                                                               \
    for (size_t i = 0; i < sizeof(cases) / sizeof *(cases); i++)                                                       \
    check_case(&(cases)[i], few_threads)

#endif
