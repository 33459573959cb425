/* SPDX-License-Identifier: Apache-2.0 */
#include "commands.h"
#include "options.h"

#include <string.h>

/* "Conv", or "domain/Name" outside of ONNX's own domain. */
static void print_name(FILE *out, const opf_op_entry *op, int width)
{
    int n = fprintf(out, "%s%s%s", op->domain, op->domain[0] == '\0' ? "" : "/", op->name != NULL ? op->name : "*");
    (void)fprintf(out, "%*s", n < width ? width - n : 0, "");
}

static void print_json(FILE *out, const opf_op_entry *ops, size_t n)
{
    json_t *list = json_array(), *refused = json_array(), *document = json_object();
    for (size_t i = 0; i < n; i++) {
        json_t *op = json_object();
        cli_json_set(op, "name", ops[i].name != NULL ? cli_json_text(ops[i].name) : json_null());
        cli_json_set(op, "domain", cli_json_text(ops[i].domain));
        if (ops[i].refused != NULL) {
            cli_json_set(op, "reason", cli_json_text(ops[i].refused));
            cli_json_add(refused, op);
            continue;
        }
        cli_json_set(op, "since", json_integer(ops[i].since));
        cli_json_set(op, "until", json_integer(ops[i].until));
        cli_json_set(op, "types", cli_json_text(ops[i].types));
        cli_json_set(op, "notes", cli_json_text(ops[i].notes));
        cli_json_add(list, op);
    }
    cli_json_set(document, "operators", list);
    cli_json_set(document, "refused", refused);
    cli_json_print(document, out);
}

static const char *or_empty(const char *text)
{
    return text == NULL ? "" : text;
}

/* One line a reason: operators that share one need not stand side by side in the list. */
static void print_refused(const cli_options *options, FILE *out, const opf_op_entry *ops, size_t n)
{
    if (options->markdown)
        (void)fputs("\nRefused, by decision:\n\n| operators | what they do |\n|---|---|\n", out);
    for (size_t i = 0; i < n; i++) {
        bool is_first = ops[i].refused != NULL;
        for (size_t k = 0; k < i && is_first; k++)
            is_first = ops[k].refused == NULL || strcmp(ops[k].refused, ops[i].refused) != 0;
        if (!is_first)
            continue;
        if (options->markdown)
            (void)fputs("| ", out);
        else
            (void)fprintf(out, "refused (%s): ", ops[i].refused);
        for (size_t k = i; k < n; k++)
            if (ops[k].refused != NULL && strcmp(ops[k].refused, ops[i].refused) == 0) {
                (void)fputs(k == i ? "" : ", ", out);
                print_name(out, &ops[k], 0);
            }
        if (options->markdown)
            (void)fprintf(out, " | %s |", ops[i].refused);
        (void)fputc('\n', out);
    }
}

static void print_text(const cli_options *options, FILE *out, const opf_op_entry *ops, size_t n)
{
    if (options->markdown)
        (void)fputs("| operator | opsets | types | notes |\n|---|---|---|---|\n", out);
    for (size_t i = 0; i < n; i++)
        if (ops[i].refused != NULL) {
            continue;
        } else if (options->markdown) {
            (void)fputs("| ", out);
            print_name(out, &ops[i], 0);
            (void)fprintf(out, " | %d-%d | %s | %s |\n", ops[i].since, ops[i].until, or_empty(ops[i].types),
                          or_empty(ops[i].notes));
        } else {
            const char *notes = or_empty(ops[i].notes);
            print_name(out, &ops[i], 28);
            (void)fprintf(out, " %2d-%-2d  %s%s%s\n", ops[i].since, ops[i].until, or_empty(ops[i].types),
                          notes[0] == '\0' ? "" : "; ", notes);
        }
    print_refused(options, out, ops, n);
}

static cli_exit run(const cli_options *options, FILE *out)
{
    opf_error   error  = {0};
    opf_report *report = NULL;
    size_t      n;
    cli_check(opf_ops_list(&report, &error), &error);
    const opf_op_entry *ops = opf_report_ops(report, &n);
    if (options->json)
        print_json(out, ops, n);
    else
        print_text(options, out, ops, n);
    opf_report_destroy(&report);
    return CLI_DONE;
}

const cli_command cli_cmd_ops = {
    .name      = "ops",
    .arguments = "",
    .summary   = "operators, opsets and types that are supported",
    .detail    = "Examples:\n"
                 "  opfuse ops | grep Conv\n"
                 "  opfuse ops --markdown >operators.md\n",
    .options   = CLI_BIT(CLI_MARKDOWN) | CLI_COMMON_OPTIONS,
    .run       = run,
};
