/* SPDX-License-Identifier: Apache-2.0 */
#include "commands.h"
#include "inputs.h"

static void show_progress(void *user, size_t done, size_t of)
{
    cli_progress(user, "verify", done, of);
}

static json_t *entries_json(const opf_verify_entry *entries, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) {
        const opf_verify_entry *entry  = &entries[i];
        json_t                 *object = json_object();
        cli_json_set(object, "input", cli_json_text(entry->input));
        cli_json_set(object, "output", cli_json_text(entry->output));
        if (entry->node != NULL)
            cli_json_set(object, "node", cli_json_text(entry->node));
        if (entry->rewrite != NULL)
            cli_json_set(object, "rewrite", cli_json_text(entry->rewrite));
        cli_json_set(object, "max_abs", cli_json_number(entry->max_abs));
        cli_json_set(object, "max_rel", cli_json_number(entry->max_rel));
        cli_json_set(object, "wrong", json_integer((json_int_t)entry->n_wrong));
        cli_json_set(object, "passed", json_boolean(entry->passed));
        cli_json_add(list, object);
    }
    return list;
}

static void print_json(const cli_options *options, const opf_verification *v, FILE *out)
{
    json_t *document = json_object();
    cli_json_set(document, "model", cli_json_text(options->paths.items[0]));
    cli_json_set(document, "passed", json_boolean(v->passed));
    cli_json_set(document, "wrong_rewrite", cli_json_text(v->wrong_rewrite));
    cli_json_set(document, "wrong_node", cli_json_text(v->wrong_node));
    cli_json_set(document, "checks", entries_json(v->entries, v->n_entries));
    cli_json_set(document, "nodes", entries_json(v->nodes, v->n_nodes));
    cli_json_print(document, out);
}

static void print_entry(const opf_verify_entry *entry, FILE *out)
{
    (void)fprintf(out, "%s %9.2e %9.2e %9zu  %s -> %s%s%s\n", entry->passed ? "ok  " : "FAIL", entry->max_abs,
                  entry->max_rel, entry->n_wrong, entry->input, entry->output, entry->rewrite == NULL ? "" : ", only ",
                  entry->rewrite == NULL ? "" : entry->rewrite);
}

/* Kernels inside the graph: all of them would be a long list. */
static void print_nodes(const opf_verification *v, FILE *out)
{
    const opf_verify_entry *worst = NULL;
    for (size_t i = 0; i < v->n_nodes; i++)
        if (worst == NULL || v->nodes[i].max_abs > worst->max_abs)
            worst = &v->nodes[i];
    if (worst != NULL)
        (void)fprintf(out, "results of %zu kernels inside the graph: the largest error is %.2e, of %s\n", v->n_nodes,
                      worst->max_abs, worst->node);
    if (v->passed)
        return;
    if (v->wrong_node != NULL)
        (void)fprintf(out, "the first kernel whose own result differs: %s\n", v->wrong_node);
    if (v->wrong_rewrite != NULL)
        (void)fprintf(out, "the first rewrite that is wrong: %s\n", v->wrong_rewrite);
}

static void print_text(const cli_options *options, const opf_verification *v, FILE *out)
{
    size_t failed = 0;
    (void)options;
    (void)fputs("      max abs   max rel     wrong  inputs -> output\n", out);
    for (size_t i = 0; i < v->n_entries; i++) {
        failed += !v->entries[i].passed;
        print_entry(&v->entries[i], out);
    }
    print_nodes(v, out);
    (void)fprintf(out, "%s: %zu of %zu checks passed\n", v->passed ? "equal" : "NOT EQUAL", v->n_entries - failed,
                  v->n_entries);
}

static cli_exit run(const cli_options *options, FILE *out)
{
    opf_error   error  = {0};
    opf_report *report = NULL;
    opf_model  *model  = cli_open_model(options);
    cli_inputs  inputs;
    cli_inputs_make(&inputs, model, options, CLI_MISSING_EMPTY);
    opf_verify_options verify = {
        .rtol          = options->rtol < 0 ? 0 : options->rtol,
        .atol          = options->atol < 0 ? 0 : options->atol,
        .threads       = options->threads < 0 ? 0 : (int32_t)options->threads,
        .seed          = inputs.seed,
        .inputs        = options->n_inputs == 0 ? NULL : inputs.tensors,
        .n_inputs      = options->n_inputs == 0 ? 0 : inputs.n,
        .each          = options->each,
        .progress      = show_progress,
        .progress_user = (void *)(uintptr_t)options, /* only read */
    };
    opf_status status = opf_model_verify(model, &verify, &report, &error);
    if (report == NULL || (status != OPF_OK && status != OPF_CHECK_FAILED))
        cli_check(status, &error);
    const opf_verification *v    = opf_report_verification(report);
    cli_exit                code = v->passed ? CLI_DONE : CLI_CHECK_FAILED;
    if (options->json)
        print_json(options, v, out);
    else
        print_text(options, v, out);
    opf_report_destroy(&report);
    cli_inputs_free(&inputs);
    opf_model_destroy(&model);
    return code;
}

const cli_command cli_cmd_verify = {
    .name      = "verify",
    .arguments = "MODEL",
    .summary   = "compares fused with reference on random and adversarial inputs",
    .detail =
        "Inputs that -i does not give are random and adversarial; symbols run through several sizes, unless --dim or\n"
        "--shape gives one. Kernels inside the graph are compared too, and the first that differs is named. --each\n"
        "applies every rewrite by itself. Exit code 1 if a result differs by more than the tolerance.\n\n"
        "Examples:\n"
        "  opfuse verify model.onnx\n"
        "  opfuse verify model.onnx --each --dim batch=2\n"
        "  opfuse verify model.onnx -i image=photo.npy --rtol 1e-4 --rules my.rule\n",
    .options = CLI_BIT(CLI_INPUT) | CLI_SIZE_OPTIONS | CLI_BIT(CLI_RTOL) | CLI_BIT(CLI_ATOL) | CLI_BIT(CLI_EACH) |
               CLI_BIT(CLI_THREADS) | CLI_MODEL_OPTIONS | CLI_COMMON_OPTIONS,
    .min_paths = 1,
    .max_paths = 1,
    .run       = run,
};
