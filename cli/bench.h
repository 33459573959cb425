/* SPDX-License-Identifier: Apache-2.0 */
/* Measuring: models that are ready to run, and times of their runs. */
#ifndef OPFUSE_CLI_BENCH_H
#define OPFUSE_CLI_BENCH_H

#include "inputs.h"

typedef struct cli_runner {
    const cli_options *options;
    opf_model         *model;
    opf_session       *session;
    cli_inputs         inputs;
    opf_tensor        *outputs;
    size_t             n_outputs;
    double             open_ms; /* load, fuse, plan and pack */
} cli_runner;

void cli_runner_open(cli_runner *runner, const cli_options *options, const opf_model_options *model_options);
void cli_runner_close(cli_runner *runner);
double cli_runner_run(cli_runner *runner); /* once; its time in ms */

typedef struct cli_samples {
    double *ms;
    size_t  n;
} cli_samples;

void cli_samples_add(cli_samples *samples, double ms);
double cli_samples_median(const cli_samples *samples); /* of sorted ones */

/* Warms up and runs n runners in turn, as often as the options say; samples[i] are sorted. */
void cli_measure(const cli_options *options, cli_runner *runners, cli_samples *samples, size_t n, const char *what);

/* [{"off", "median_ms", "min_ms", "slowdown"}] of each rule that fused something in the model of base. */
json_t *cli_ablate(const cli_options *options, cli_runner *base);

#endif
