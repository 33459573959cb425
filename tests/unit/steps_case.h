/* SPDX-License-Identifier: Apache-2.0 */
/* A graph whose fused plan has so many steps: as the reference, and the same bits on any threads. */
#ifndef STEPS_CASE_H
#define STEPS_CASE_H

#include "text_model.h"

typedef struct steps_case {
    const char *kernel; /* that the fused plan has, or NULL */
    size_t      steps;  /* of the fused plan */
    const char *sizes, *text;
} steps_case;

static void check_steps(const steps_case *c)
{
    static const int32_t threads[] = {2, 5};
    const opf_model_options options = {0};
    text_model m;
    tensors inputs;
    results want, first, other;
    text_model_open(&m, c->text, &options, 1);
    make_inputs(m.model, c->sizes, 7, &inputs);
    run_model(m.model, OPF_MODE_REFERENCE, 1, &inputs, NULL, c->text, &want);
    run_model(m.model, OPF_MODE_FUSED, 1, &inputs, c->kernel, c->text, &first);
    compare_results(&first, &want, 1e-5, 1e-5, "fused", c->sizes, c->text);
    if (first.n_steps != c->steps)
        fail_msg("%zu steps instead of %zu\n%s", first.n_steps, c->steps, c->text);
    for (size_t i = 0; i < sizeof threads / sizeof *threads; i++) {
        run_model(m.model, OPF_MODE_FUSED, threads[i], &inputs, NULL, c->text, &other);
        same_bits(&first, &other, threads[i], c->sizes, c->text);
        free_results(&other);
    }
    free_results(&first);
    free_results(&want);
    free_tensors(&inputs);
    text_model_close(&m);
}

#endif
