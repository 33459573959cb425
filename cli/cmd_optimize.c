/* SPDX-License-Identifier: Apache-2.0 */
#include "commands.h"
#include "options.h"

#include <string.h>

static void print_json(const cli_options *options, const opf_saved *saved, FILE *out)
{
    json_t *document = json_object(), *ops = json_object();
    for (size_t i = 0; i < saved->n_ops; i++)
        cli_json_set(ops, saved->ops[i].op, json_integer((json_int_t)saved->ops[i].count));
    cli_json_set(document, "model", cli_json_text(options->paths.items[0]));
    cli_json_set(document, "output", cli_json_text(options->folder));
    cli_json_set(document, "external", cli_json_text(saved->external));
    cli_json_set(document, "opset", json_integer(saved->opset));
    cli_json_set(document, "ir_version", json_integer(saved->ir_version));
    cli_json_set(document, "raised", cli_json_text(saved->raised));
    cli_json_set(document, "nodes", json_integer((json_int_t)saved->nodes));
    cli_json_set(document, "ops", ops);
    cli_json_set(document, "weight_bytes", json_integer((json_int_t)saved->weight_bytes));
    cli_json_set(document, "file_bytes", json_integer((json_int_t)saved->file_bytes));
    cli_json_print(document, out);
}

static void print_summary(const cli_options *options, const opf_saved *saved)
{
    char text[32];
    cli_note(options, "opfuse: %s is written: opset %lld, %zu nodes, %s of weights%s%s", options->folder,
             (long long)saved->opset, saved->nodes, cli_scaled((double)saved->weight_bytes, "B", text),
             saved->external != NULL ? " in " : "", saved->external != NULL ? saved->external : "");
    if (saved->raised != NULL)
        cli_note(options, "opfuse: a later opset than the model's: %s", saved->raised);
}

static cli_exit run(const cli_options *options, FILE *out)
{
    opf_error error = {0};
    opf_report *report = NULL;
    opf_save_options save = {.opset = options->opset < 0 ? 0 : options->opset};
    if (options->folder == NULL)
        cli_die(CLI_USAGE, "optimize needs -o OUT.onnx; see: opfuse optimize --help");
    static const char *const targets[] = {"onnx", "ort", "ort-all"};
    for (int i = OPF_TARGET_ONNX; options->target != NULL && i <= OPF_TARGET_ORT_ALL; i++)
        if (strcmp(options->target, targets[i]) == 0)
            save.target = (opf_target)i;
    opf_model *model = cli_open_model(options);
    cli_check(opf_model_save_onnx(model, options->folder, &save, &report, &error), &error);
    if (options->json)
        print_json(options, opf_report_saved(report), out);
    else
        print_summary(options, opf_report_saved(report));
    opf_report_destroy(&report);
    opf_model_destroy(&model);
    return CLI_DONE;
}

const cli_command cli_cmd_optimize = {
    .name = "optimize",
    .arguments = "MODEL",
    .summary = "writes the fused model as ONNX, for any runtime",
    .detail =
        "Fused kernels become standard nodes again: folded weights, merged products and simplifications stay. The\n"
        "opset is the model's, or the next one in which every node has a form; operators that it lacks are spelled in\n"
        "older ones. Names of inputs and outputs, documentation and metadata stay. Above 2 GB the weights go to\n"
        "OUT.onnx.data. The model's own file is not written over.\n\n"
        "Targets: onnx has standard operators; ort also those of com.microsoft that ONNX Runtime's CPU provider gains "
        "by;\n"
        "ort-all also those that only its other providers gain by.\n\n"
        "Examples:\n"
        "  opfuse optimize model.onnx -o fused.onnx\n"
        "  opfuse optimize model.onnx -o fused.onnx --target ort\n"
        "  opfuse optimize model.onnx -o fused.onnx --opset 21 --dim batch=1\n"
        "  opfuse optimize model.onnx -o simplified.onnx --no-fuse --json\n",
    .options = CLI_BIT(CLI_MODEL_OUTPUT) | CLI_BIT(CLI_TARGET) | CLI_BIT(CLI_OPSET) | CLI_BIT(CLI_NO_FUSE) |
               CLI_SIZE_OPTIONS | CLI_FUSE_OPTIONS | CLI_BIT(CLI_FREEZE) | CLI_BIT(CLI_OVERRIDABLE) |
               CLI_BIT(CLI_LIMIT) | CLI_BIT(CLI_NO_MMAP) | CLI_COMMON_OPTIONS,
    .min_paths = 1,
    .max_paths = 1,
    .run = run,
};
