/* SPDX-License-Identifier: Apache-2.0 */
#include "commands.h"
#include "options.h"
#include "walk.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define REASON 1536u

typedef enum verdict { PASSED, FAILED, SKIPPED } verdict;
static const char *const verdict_names[] = {"passed", "failed", "skipped"};

typedef struct test {
    const cli_options *options;
    opf_model         *model;
    opf_session       *session;
    opf_tensor        *inputs, *outputs;
    size_t             n_inputs, n_outputs;
    char               reason[REASON];
} test;

static verdict fail(test *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
static verdict fail(test *t, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(t->reason, sizeof t->reason, format, args);
    va_end(args);
    for (char *c = t->reason; *c != '\0'; c++) /* a line a case */
        if (*c == '\n' || *c == '\r')
            *c = ' ';
    return FAILED;
}

static verdict fail_status(test *t, opf_status status, const opf_error *error)
{
    (void)fail(t, "%s", cli_message(status, error));
    return status == OPF_UNSUPPORTED ? SKIPPED : FAILED;
}

typedef opf_status (*get_port)(const opf_model *model, size_t index, opf_port *port);

/* By the tensor's name if it has one, else by the number in the file's name; n if there is none. */
static size_t match_port(const test *t, get_port get, size_t n, const char *name, size_t index)
{
    if (name[0] == '\0')
        return index < n ? index : n;
    for (size_t i = 0; i < n; i++) {
        opf_port port;
        if (get(t->model, i, &port) == OPF_OK && strcmp(port.name, name) == 0)
            return i;
    }
    return n;
}

static verdict load(test *t, const char *path, get_port get, size_t n, size_t index, opf_tensor *tensor, size_t *port)
{
    char       name[REASON];
    opf_error  error  = {0};
    opf_status status = opf_tensor_load(path, tensor, name, sizeof name, &error);
    if (status != OPF_OK)
        return fail_status(t, status, &error);
    *port = match_port(t, get, n, name, index);
    if (*port < n)
        return PASSED;
    opf_tensor_free(tensor);
    return name[0] != '\0' ? fail(t, "%s: the model has no %s", path, name)
                           : fail(t, "%s: the model has only %zu", path, n);
}

static verdict load_inputs(test *t, const char *set, const cli_numbers *files)
{
    for (size_t i = 0; i < files->n; i++) {
        opf_tensor tensor = {0};
        size_t     port   = 0;
        char      *path   = cli_format("%s/input_%zu.pb", set, files->items[i]);
        verdict    v      = load(t, path, opf_model_input, t->n_inputs, files->items[i], &tensor, &port);
        if (v == PASSED && t->inputs[port].data != NULL) {
            v = fail(t, "%s: another file is for the same input", path);
            opf_tensor_free(&tensor);
        }
        free(path);
        if (v != PASSED)
            return v;
        t->inputs[port] = tensor;
    }
    return PASSED;
}

static verdict compare_output(test *t, const char *path, size_t index)
{
    opf_tensor expected = {0};
    opf_error  error    = {0};
    opf_port   port     = {0};
    size_t     at = 0, wrong = 0;
    double     max_abs = 0, max_rel = 0;
    verdict    v = load(t, path, opf_model_output, t->n_outputs, index, &expected, &at);
    if (v != PASSED)
        return v;
    (void)opf_model_output(t->model, at, &port);
    const bool by_level = port.is_quantized && t->options->rtol < 0 && t->options->atol < 0;
    opf_status status = by_level ? opf_tensor_compare_quantized(&t->outputs[at], &expected, &max_abs, &wrong, &error)
                                 : opf_tensor_compare(&t->outputs[at], &expected, t->options->rtol, t->options->atol,
                                                      &max_abs, &max_rel, &wrong, &error);
    opf_tensor_free(&expected);
    if (status != OPF_OK)
        return fail(t, "%s: output %s: %s", path, port.name, cli_message(status, &error));
    if (wrong != 0 && by_level)
        return fail(t, "%s: output %s: %zu elements differ by more than one level, by %.3g at most", path, port.name,
                    wrong, max_abs);
    if (wrong != 0)
        return fail(t, "%s: output %s: %zu elements differ, by %.3g at most (relative %.3g)", path, port.name, wrong,
                    max_abs, max_rel);
    return PASSED;
}

static verdict run_set(test *t, const char *set)
{
    cli_numbers inputs = cli_find_numbers(set, "input_", ".pb"), outputs = cli_find_numbers(set, "output_", ".pb");
    opf_error   error = {0};
    verdict     v     = load_inputs(t, set, &inputs);
    if (v == PASSED) {
        memset(t->outputs, 0, t->n_outputs * sizeof *t->outputs);
        opf_status status = opf_session_run(t->session, t->inputs, t->n_inputs, t->outputs, t->n_outputs, &error);
        if (status != OPF_OK)
            v = fail_status(t, status, &error);
    }
    for (size_t i = 0; v == PASSED && i < outputs.n; i++) {
        char *path = cli_format("%s/output_%zu.pb", set, outputs.items[i]);
        v          = compare_output(t, path, outputs.items[i]);
        free(path);
    }
    for (size_t i = 0; i < t->n_inputs; i++)
        if (t->inputs[i].data != NULL)
            opf_tensor_free(&t->inputs[i]);
    free(inputs.items);
    free(outputs.items);
    return v;
}

static verdict run_case(test *t, const char *folder)
{
    opf_model_options   model_options   = cli_model_options(t->options);
    opf_session_options session_options = cli_session_options(t->options);
    opf_error           error           = {0};
    char               *path            = cli_format("%s/model.onnx", folder);
    opf_status          status          = opf_model_open(path, &model_options, &t->model, &error);
    free(path);
    if (status == OPF_INVALID_ARGUMENT)
        cli_check(status, &error); /* what is wrong with the options is wrong in every case */
    if (status == OPF_OK)
        status = opf_session_create(t->model, &session_options, &t->session, &error);
    if (status != OPF_OK)
        return fail_status(t, status, &error);
    t->n_inputs      = opf_model_input_count(t->model);
    t->n_outputs     = opf_model_output_count(t->model);
    t->inputs        = cli_alloc(t->n_inputs, sizeof *t->inputs);
    t->outputs       = cli_alloc(t->n_outputs, sizeof *t->outputs);
    cli_numbers sets = cli_find_numbers(folder, "test_data_set_", "");
    verdict     v    = PASSED;
    for (size_t i = 0; v == PASSED && i < sets.n; i++) {
        char *set = cli_format("%s/test_data_set_%zu", folder, sets.items[i]);
        v         = run_set(t, set);
        free(set);
    }
    free(sets.items);
    return v;
}

static cli_exit run(const cli_options *options, FILE *out)
{
    cli_cases cases     = {0};
    size_t    counts[3] = {0};
    json_t   *list = json_array(), *document = json_object();
    for (size_t i = 0; i < options->paths.n; i++)
        cli_find_cases(&cases, options->paths.items[i]);
    if (cases.n == 0)
        cli_die(CLI_USAGE, "no case found: a case is a folder with model.onnx and test_data_set_*");
    for (size_t i = 0; i < cases.n; i++) {
        test t = {.options = options};
        cli_progress(options, "test", i, cases.n);
        verdict v = run_case(&t, cases.items[i].folder);
        opf_session_destroy(&t.session);
        opf_model_destroy(&t.model);
        free(t.inputs);
        free(t.outputs);
        counts[v]++;
        json_t *object = json_object();
        cli_json_set(object, "name", cli_json_text(cases.items[i].name));
        cli_json_set(object, "status", cli_json_text(verdict_names[v]));
        cli_json_set(object, "reason", v == PASSED ? json_null() : cli_json_text(t.reason));
        cli_json_add(list, object);
        if (!options->json)
            (void)fprintf(out, "%s %s%s%s\n", verdict_names[v], cases.items[i].name, v == PASSED ? "" : ": ",
                          v == PASSED ? "" : t.reason);
    }
    cli_json_set(document, "passed", json_integer((json_int_t)counts[PASSED]));
    cli_json_set(document, "failed", json_integer((json_int_t)counts[FAILED]));
    cli_json_set(document, "skipped", json_integer((json_int_t)counts[SKIPPED]));
    cli_json_set(document, "cases", list);
    if (options->json) {
        cli_json_print(document, out);
    } else {
        (void)fprintf(out, "%zu passed, %zu failed, %zu skipped\n", counts[PASSED], counts[FAILED], counts[SKIPPED]);
        json_decref(document);
    }
    cli_cases_free(&cases);
    return counts[FAILED] == 0 ? CLI_DONE : CLI_CHECK_FAILED;
}

const cli_command cli_cmd_test = {
    .name      = "test",
    .arguments = "PATH...",
    .summary   = "runs every ONNX backend-test folder at or under each path",
    .detail =
        "A case is a folder with model.onnx and test_data_set_*/{input,output}_*.pb; links are followed. All sets of "
        "a\n"
        "case run in order in one session. A case with an operator that is not supported is skipped. Exit code 1 if\n"
        "a case failed, 2 if there is none.\n\n"
        "Examples:\n"
        "  opfuse test cases\n"
        "  opfuse test cases/relu cases/conv --rtol 1e-5 --atol 1e-6\n"
        "  opfuse test cases --json --no-fuse --cpu scalar\n",
    .options   = CLI_BIT(CLI_RTOL) | CLI_BIT(CLI_ATOL) | CLI_SESSION_OPTIONS | CLI_MODEL_OPTIONS | CLI_COMMON_OPTIONS,
    .min_paths = 1,
    .max_paths = SIZE_MAX,
    .run       = run,
};
