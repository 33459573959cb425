/* SPDX-License-Identifier: Apache-2.0 */
/* What each fusion gains: the model with one rule off, in turn with the model as it is. */
#include "bench.h"

#include <stdlib.h>
#include <string.h>

/* One pair at a time: all models at once would not fit into memory when they are large. */
static json_t *measure_without(const cli_options *options, cli_runner *base, const char *rule)
{
    opf_model_options model_options = cli_model_options(options);
    const char      **skip          = cli_alloc(options->skip.n + 1, sizeof *skip);
    cli_runner        pair[2]       = {*base};
    cli_samples       samples[2]    = {0};
    for (size_t i = 0; i < options->skip.n; i++)
        skip[i] = options->skip.items[i];
    skip[options->skip.n] = rule;
    model_options.skip    = skip;
    model_options.n_skip  = options->skip.n + 1;
    cli_options quiet     = *options; /* notes about sizes were given once */
    quiet.quiet           = true;
    cli_runner_open(&pair[1], &quiet, &model_options);
    cli_measure(options, pair, samples, 2, rule);
    cli_runner_close(&pair[1]);
    json_t *entry  = json_object();
    double  median = cli_samples_median(&samples[1]);
    cli_json_set(entry, "off", cli_json_text(rule));
    cli_json_set(entry, "median_ms", cli_json_number(median));
    cli_json_set(entry, "min_ms", cli_json_number(samples[1].ms[0]));
    cli_json_set(entry, "slowdown", cli_json_number(median / cli_samples_median(&samples[0])));
    free(samples[0].ms);
    free(samples[1].ms);
    free(skip);
    return entry;
}

static bool feeds_default(const cli_runner *base)
{
    opf_port port;
    bool     feeds = false;
    for (size_t i = 0; !feeds && i < base->inputs.n && opf_model_input(base->model, i, &port) == OPF_OK; i++)
        feeds = port.has_default && base->inputs.tensors[i].data != NULL;
    return feeds;
}

json_t *cli_ablate(const cli_options *options, cli_runner *base)
{
    opf_error   error  = {0};
    opf_report *report = NULL;
    json_t     *list   = json_array();
    cli_check(opf_model_explain(base->model, &report, &error), &error);
    const opf_explanation  *e       = opf_report_explanation(report); /* of the graph that base runs */
    const bool              unfed   = e->n_fusions_unfed != 0 && !feeds_default(base);
    const opf_fusion_entry *fusions = unfed ? e->fusions_unfed : e->fusions;
    const size_t            n       = unfed ? e->n_fusions_unfed : e->n_fusions;
    for (size_t i = 0; i < n; i++) {
        size_t first = 0;
        while (strcmp(fusions[first].rule, fusions[i].rule) != 0)
            first++;
        if (first == i)
            cli_json_add(list, measure_without(options, base, fusions[i].rule));
    }
    opf_report_destroy(&report);
    return list;
}
