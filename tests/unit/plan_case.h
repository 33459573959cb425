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

/* The kernel is one of the fused plan, or with ! before it none of it. */
static MAYBE_UNUSED void check_fused(const test_case *c, const int32_t *threads)
{
    for (opf_cpu_level level = OPF_CPU_SCALAR; level <= opf_cpu_detect(); level++) {
        opf_model_options options = {.level = level};
        text_model        m;
        char              sizes[80];
        text_model_open(&m, c->text, &options, 1);
        for (const char *p = c->sizes; next_sizes(&p, sizes);) {
            tensors inputs;
            results want;
            make_inputs(m.model, sizes, 7, &inputs);
            run_model(m.model, OPF_MODE_REFERENCE, 1, &inputs, NULL, c->text, &want);
            check_run(m.model, OPF_MODE_FUSED, &inputs, &want,
                      &(expected){c->kernel, -1, 1e-4, 2e-5, threads, label_of(OPF_MODE_FUSED, level), sizes, c->text});
            free_results(&want);
            free_tensors(&inputs);
        }
        text_model_close(&m);
    }
}

/* Two graphs whose first results are the same: the steps of one are joined to that kernel, those of the other are not, since images between
   them are results, too. */
static MAYBE_UNUSED void check_same_bits(const char *joined, const char *apart, const char *sizes, const char *kernel)
{
    char none[80];
    (void)snprintf(none, sizeof none, "!%s", kernel);
    for (opf_cpu_level level = OPF_CPU_SCALAR; level <= opf_cpu_detect(); level++) {
        opf_model_options options = {.level = level};
        text_model        one, other;
        tensors           inputs;
        results           got, want;
        text_model_open(&one, joined, &options, 1);
        text_model_open(&other, apart, &options, 1);
        make_inputs(one.model, sizes, 7, &inputs);
        run_model(one.model, OPF_MODE_FUSED, 2, &inputs, kernel, joined, &got);
        run_model(other.model, OPF_MODE_FUSED, 1, &inputs, none, apart, &want);
        const size_t all = want.n;
        want.n           = got.n;
        same_bits(&got, &want, 2, sizes, joined);
        want.n = all;
        free_results(&got);
        free_results(&want);
        free_tensors(&inputs);
        text_model_close(&one);
        text_model_close(&other);
    }
}

#define CHECK_ALL(cases)                                                                                               \
    for (size_t i = 0; i < sizeof(cases) / sizeof *(cases); i++)                                                       \
    check_case(&(cases)[i], few_threads)
#define CHECK_ALL_FUSED(cases, threads)                                                                                \
    for (size_t i = 0; i < sizeof(cases) / sizeof *(cases); i++)                                                       \
    check_fused(&(cases)[i], threads)

#endif
