/* SPDX-License-Identifier: Apache-2.0 */
/* A graph whose fused plan has so many steps: as the reference, and the same bits on any threads. */
#ifndef STEPS_CASE_H
#define STEPS_CASE_H

#include "text_model.h"

typedef struct steps_case {
    const char *kernel; /* that the fused plan has, or NULL */
    int         steps;  /* of the fused plan; -1: whatever */
    const char *sizes, *text;
} steps_case;

static MAYBE_UNUSED void check_steps(const steps_case *c)
{
    static const int32_t threads[] = {1, 2, 5, 0};
    const opf_model_options options = {0};
    text_model m;
    tensors inputs;
    results want;
    text_model_open(&m, c->text, &options, 1);
    make_inputs(m.model, c->sizes, 7, &inputs);
    run_model(m.model, OPF_MODE_REFERENCE, 1, &inputs, NULL, c->text, &want);
    check_run(m.model, OPF_MODE_FUSED, &inputs, &want,
              &(expected){c->kernel, c->steps, 1e-5, 1e-5, threads, "fused", c->sizes, c->text});
    free_results(&want);
    free_tensors(&inputs);
    text_model_close(&m);
}

#endif
