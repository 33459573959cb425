/* SPDX-License-Identifier: Apache-2.0 */
#include "commands.h"
#include "elements.h"
#include "inputs.h"
#include "output.h"

#include <stdlib.h>

#define SHOWN 8u /* elements of an output that the text shows */

/* Before anything runs: a type that .npy lacks is found when the output's file can still be asked for otherwise. */
static void check_format(const cli_options *options, const opf_port *ports, size_t n)
{
    for (size_t i = 0; i < n && options->folder != NULL && (options->format == NULL || options->format[0] == 'n'); i++)
        if (!cli_type_fits_npy(ports[i].type))
            cli_die(CLI_USAGE, "output %s has type %s, which .npy cannot hold: use --format pb", ports[i].name,
                    opf_type_name(ports[i].type));
}

static void print_json(const cli_options *options, const char *const *names, const opf_tensor *tensors,
                       char *const *files, size_t n, FILE *out)
{
    json_t *document = json_object(), *list = json_array();
    for (size_t i = 0; i < n; i++) {
        json_t *object = json_object(), *dims = json_array();
        for (int32_t k = 0; k < tensors[i].rank; k++)
            cli_json_add(dims, json_integer(tensors[i].dims[k]));
        cli_json_set(object, "name", cli_json_text(names[i]));
        cli_json_set(object, "type", cli_json_text(opf_type_name(tensors[i].type)));
        cli_json_set(object, "dims", dims);
        cli_json_set(object, "file", cli_json_text(options->folder == NULL ? NULL : files[i]));
        cli_json_add(list, object);
    }
    cli_json_set(document, "model", cli_json_text(options->paths.items[0]));
    cli_json_set(document, "outputs", list);
    cli_json_print(document, out);
}

static void print_values(const opf_tensor *tensor, FILE *out)
{
    size_t count, bytes, parts = cli_type_parts(tensor->type);
    if (!cli_tensor_size(tensor->type, tensor->rank, tensor->dims, &count, &bytes) || count == 0)
        return;
    (void)fputs("  ", out);
    for (size_t i = 0; i < count * parts && i < SHOWN; i++) {
        char text[32];
        (void)fprintf(out, " %s", cli_element_text(tensor->type, tensor->data, i, text));
    }
    (void)fputs(count * parts > SHOWN ? " ...\n" : "\n", out);
}

static void print_text(const cli_options *options, const char *const *names, const opf_tensor *tensors,
                       char *const *files, size_t n, FILE *out)
{
    for (size_t i = 0; i < n; i++) {
        (void)fprintf(out, "%s: %s [", names[i], opf_type_name(tensors[i].type));
        for (int32_t k = 0; k < tensors[i].rank; k++)
            (void)fprintf(out, "%s%lld", k == 0 ? "" : ", ", (long long)tensors[i].dims[k]);
        if (options->folder != NULL) {
            (void)fprintf(out, "] -> %s/%s\n", options->folder, files[i]);
        } else {
            (void)fputs("]\n", out);
            print_values(&tensors[i], out);
        }
    }
}

static cli_exit run(const cli_options *options, FILE *out)
{
    opf_error           error           = {0};
    opf_session        *session         = NULL;
    opf_session_options session_options = cli_session_options(options);
    opf_model          *model           = cli_open_model(options);
    size_t              n               = opf_model_output_count(model);
    opf_port           *ports           = cli_alloc(n, sizeof *ports);
    const char        **names           = cli_alloc(n, sizeof *names);
    opf_tensor         *outputs         = cli_alloc(n, sizeof *outputs);
    cli_inputs          inputs;
    for (size_t i = 0; i < n; i++) {
        (void)opf_model_output(model, i, &ports[i]);
        names[i] = ports[i].name;
    }
    check_format(options, ports, n);
    char **files = cli_output_files(names, n, options->format == NULL ? "npy" : options->format);
    cli_inputs_make(&inputs, model, options, CLI_MISSING_DIES);
    cli_check(opf_session_create(model, &session_options, &session, &error), &error);
    cli_check(opf_session_run(session, inputs.tensors, inputs.n, outputs, n, &error), &error);
    if (options->folder != NULL)
        cli_output_write(options, names, outputs, files, n);
    if (options->json)
        print_json(options, names, outputs, files, n, out);
    else
        print_text(options, names, outputs, files, n, out);
    opf_session_destroy(&session);
    cli_inputs_free(&inputs);
    opf_model_destroy(&model);
    for (size_t i = 0; i < n; i++)
        free(files[i]);
    free(files);
    free(ports);
    free(names);
    free(outputs);
    return CLI_DONE;
}

const cli_command cli_cmd_run = {
    .name      = "run",
    .arguments = "MODEL",
    .summary   = "runs once; shows the outputs, or writes them with -o",
    .detail =
        "Files: .npy, .npz (the array of the input's name, or the only one) and .pb (ONNX TensorProto). random gives\n"
        "floats N(0,1), integers and booleans 0 or 1; random:SEED:LO:HI draws from LO to HI. An input that is made\n"
        "takes its sizes from the model, from --dim and --shape, and from the files of other inputs.\n\n"
        "-o DIR: the file of an output has its name, bytes other than A-Z a-z 0-9 . _ - and a leading dot become _,\n"
        "names that clash get _2, _3, ...; DIR/outputs.tsv has a line NAME<tab>FILE for each output.\n\n"
        "Examples:\n"
        "  opfuse run model.onnx -i image=photo.npy -o out\n"
        "  opfuse run model.onnx -i ids=random:1:0:30521 --dim batch=1 --dim sequence=128\n"
        "  opfuse run model.onnx -i x=x.pb -o out --format pb --reference\n",
    .options = CLI_BIT(CLI_INPUT) | CLI_SIZE_OPTIONS | CLI_BIT(CLI_OUTPUT) | CLI_BIT(CLI_FORMAT) | CLI_SESSION_OPTIONS |
               CLI_MODEL_OPTIONS | CLI_COMMON_OPTIONS,
    .min_paths = 1,
    .max_paths = 1,
    .run       = run,
};
