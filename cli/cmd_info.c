/* SPDX-License-Identifier: Apache-2.0 */
#include "commands.h"
#include "inputs.h"

#include <stdlib.h>

typedef size_t (*count_ports)(const opf_model *model);
typedef opf_status (*get_port)(const opf_model *model, size_t index, opf_port *port);

static json_t *ports_json(const opf_model *model, count_ports count, get_port get)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count(model); i++) {
        opf_port port;
        (void)get(model, i, &port);
        json_t *object = json_object(), *dims = port.rank < 0 ? json_null() : json_array();
        for (int32_t k = 0; k < port.rank; k++)
            cli_json_add(dims, port.symbols[k] != NULL ? cli_json_text(port.symbols[k]) : json_integer(port.dims[k]));
        cli_json_set(object, "name", cli_json_text(port.name));
        cli_json_set(object, "type", cli_json_text(opf_type_name(port.type)));
        cli_json_set(object, "dims", dims);
        cli_json_set(object, "has_default", json_boolean(port.has_default));
        cli_json_add(list, object);
    }
    return list;
}

static void print_json(const cli_options *options, const opf_model *model, const opf_model_info *info, FILE *out)
{
    json_t *document = json_object(), *ops = json_object();
    for (size_t i = 0; i < info->n_ops; i++)
        cli_json_set(ops, info->ops[i].op, json_integer((json_int_t)info->ops[i].count));
    cli_json_set(document, "model", cli_json_text(options->paths.items[0]));
    cli_json_set(document, "producer", cli_json_text(info->producer));
    cli_json_set(document, "ir_version", json_integer(info->ir_version));
    cli_json_set(document, "opset", json_integer(info->opset));
    cli_json_set(document, "inputs", ports_json(model, opf_model_input_count, opf_model_input));
    cli_json_set(document, "outputs", ports_json(model, opf_model_output_count, opf_model_output));
    cli_json_set(document, "ops", ops);
    cli_json_set(document, "parameters", json_integer(info->parameters));
    cli_json_set(document, "weight_bytes", json_integer((json_int_t)info->weight_bytes));
    cli_json_set(document, "flops", cli_json_known(info->flops));
    cli_json_set(document, "activation_bytes", cli_json_known(info->activation_bytes));
    cli_json_set(document, "usable_cores", json_integer(info->usable_cores));
    cli_json_set(document, "cpu", cli_json_text(info->cpu));
    cli_json_print(document, out);
}

static void print_ports(const opf_model *model, const char *title, count_ports count, get_port get, FILE *out)
{
    for (size_t i = 0; i < count(model); i++) {
        opf_port port;
        (void)get(model, i, &port);
        char *text = cli_port_text(&port);
        (void)fprintf(out, "%-12s %s: %s%s\n", i == 0 ? title : "", port.name, text,
                      port.has_default ? " (has a default)" : "");
        free(text);
    }
}

static void print_text(const cli_options *options, const opf_model *model, const opf_model_info *info, FILE *out)
{
    static const char unknown[] = "not known without sizes: give --dim or --shape";
    char              text[32];
    size_t            nodes = 0;
    (void)fprintf(out, "%-12s %s\n", "model", options->paths.items[0]);
    (void)fprintf(out, "%-12s %lld (IR version %lld)\n", "opset", (long long)info->opset, (long long)info->ir_version);
    if (info->producer != NULL && info->producer[0] != '\0')
        (void)fprintf(out, "%-12s %s\n", "producer", info->producer);
    print_ports(model, "inputs", opf_model_input_count, opf_model_input, out);
    print_ports(model, "outputs", opf_model_output_count, opf_model_output, out);
    for (size_t i = 0; i < info->n_ops; i++)
        nodes += info->ops[i].count;
    (void)fprintf(out, "%-12s %zu:", "nodes", nodes);
    for (size_t i = 0; i < info->n_ops; i++)
        (void)fprintf(out, "%s %s %zu", i == 0 ? "" : ",", info->ops[i].op, info->ops[i].count);
    (void)fprintf(out, "\n%-12s %lld (%s)\n", "parameters", (long long)info->parameters,
                  cli_scaled((double)info->weight_bytes, "B", text));
    (void)fprintf(out, "%-12s %s\n", "one run", info->flops < 0 ? unknown : cli_scaled(info->flops, "FLOP", text));
    (void)fprintf(out, "%-12s %s\n", "activations",
                  info->activation_bytes < 0 ? unknown : cli_scaled(info->activation_bytes, "B", text));
    (void)fprintf(out, "%-12s %d usable cores, %s\n", "machine", info->usable_cores, info->cpu);
}

static cli_exit run(const cli_options *options, FILE *out)
{
    opf_error   error  = {0};
    opf_report *report = NULL;
    opf_model  *model  = cli_open_model(options);
    cli_check(opf_model_describe(model, &report, &error), &error);
    if (options->json)
        print_json(options, model, opf_report_info(report), out);
    else
        print_text(options, model, opf_report_info(report), out);
    opf_report_destroy(&report);
    opf_model_destroy(&model);
    return CLI_DONE;
}

const cli_command cli_cmd_info = {
    .name      = "info",
    .arguments = "MODEL",
    .summary   = "inputs, outputs, operators, parameters, FLOPs and memory; usable cores and CPU level",
    .detail    = "FLOPs and memory need sizes: where the model has symbols, --dim or --shape gives them.\n\n"
                 "Examples:\n"
                 "  opfuse info model.onnx\n"
                 "  opfuse info model.onnx --dim batch=1 --dim sequence=128 --json\n",
    .options   = CLI_MODEL_OPTIONS | CLI_SIZE_OPTIONS | CLI_COMMON_OPTIONS,
    .min_paths = 1,
    .max_paths = 1,
    .run       = run,
};
