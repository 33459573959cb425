/* SPDX-License-Identifier: Apache-2.0 */
#include "commands.h"
#include "explain.h"
#include "files.h"

#include <stdlib.h>
#include <string.h>

static bool is(const char *a, const char *b)
{
    return a != NULL && strcmp(a, b) == 0;
}

/* ---- --node and --rule: an explanation of fewer entries, in lists of its own ---- */

typedef struct selection {
    opf_explanation       shown;
    opf_fusion_entry     *fusions;
    opf_miss_entry       *missed;
    opf_kept_entry       *kept;
    opf_graph_node_entry *nodes;
} selection;

static void select_lists(selection *s, const opf_explanation *e, const char *node, const char *rule)
{
    size_t n[4] = {0};
    *s          = (selection){.shown   = *e,
                              .fusions = cli_alloc(e->n_fusions, sizeof *s->fusions),
                              .missed  = cli_alloc(e->n_missed, sizeof *s->missed),
                              .kept    = cli_alloc(e->n_kept, sizeof *s->kept),
                              .nodes   = cli_alloc(e->n_nodes, sizeof *s->nodes)};
    for (size_t i = 0; i < e->n_fusions; i++) {
        const opf_fusion_entry *f = &e->fusions[i];
        if ((rule == NULL || is(f->rule, rule)) &&
            (node == NULL || is(f->anchor, node) || cli_has_text(f->origin, f->n_origin, node)))
            s->fusions[n[0]++] = *f;
    }
    for (size_t i = 0; i < e->n_missed; i++) {
        const opf_miss_entry *m = &e->missed[i];
        if ((rule == NULL || is(m->rule, rule)) && (node == NULL || is(m->start, node) || is(m->node, node)))
            s->missed[n[1]++] = *m;
    }
    for (size_t i = 0; i < e->n_kept; i++)
        if (node == NULL || is(e->kept[i].node, node))
            s->kept[n[2]++] = e->kept[i];
    for (size_t i = 0; i < e->n_nodes; i++) {
        const opf_graph_node_entry *k = &e->nodes[i];
        if (node == NULL || is(k->name, node) || cli_has_text(k->origin, k->n_origin, node))
            s->nodes[n[3]++] = *k;
    }
    s->shown.fusions = s->fusions, s->shown.n_fusions = n[0];
    s->shown.missed = s->missed, s->shown.n_missed = n[1];
    s->shown.kept = s->kept, s->shown.n_kept = n[2];
    s->shown.nodes = s->nodes, s->shown.n_nodes = n[3];
}

static void free_selection(selection *s)
{
    free(s->fusions);
    free(s->missed);
    free(s->kept);
    free(s->nodes);
}

/* A node that no list shows may have been simplified away; its name then stands in the graph as loaded. */
static void check_node(const opf_model *model, const selection *s, const char *node)
{
    opf_error   error  = {0};
    opf_report *report = NULL;
    if (s->shown.n_nodes + s->shown.n_fusions + s->shown.n_missed + s->shown.n_kept != 0)
        return;
    cli_check(opf_model_stage_text(model, "load", &report, &error), &error);
    if (strstr(opf_report_text(report), node) == NULL)
        cli_die(CLI_USAGE, "--node %s: the model has no such node; --stage load shows all of them", node);
    opf_report_destroy(&report);
}

/* A rule that did nothing may not exist; the library knows when it is told to skip it. */
static void check_rule(const cli_options *options, const selection *s)
{
    if (s->shown.n_fusions + s->shown.n_missed != 0)
        return;
    opf_model_options model_options = cli_model_options(options);
    opf_model        *model         = NULL;
    opf_error         error         = {0};
    model_options.skip              = &options->rule;
    model_options.n_skip            = 1;
    opf_status status               = opf_model_open(options->paths.items[0], &model_options, &model, &error);
    opf_model_destroy(&model);
    if (status == OPF_INVALID_ARGUMENT)
        cli_die(CLI_USAGE, "--rule %s: there is no such rule", options->rule);
}

/* ---- the command ---- */

static void write_dot(const cli_options *options, const opf_explanation *e)
{
    char  *text = NULL;
    size_t size = 0;
    FILE  *dot  = open_memstream(&text, &size);
    if (dot == NULL)
        cli_die(CLI_SYSTEM, "out of memory");
    cli_explain_dot(options, e, dot);
    if (fclose(dot) != 0)
        cli_die(CLI_SYSTEM, "out of memory");
    cli_write_file(options->dot, text, size);
    free(text);
}

static void explain(const cli_options *options, const opf_model *model, FILE *out)
{
    opf_error   error  = {0};
    opf_report *report = NULL;
    selection   s;
    cli_check(opf_model_explain(model, &report, &error), &error);
    const opf_explanation *e = opf_report_explanation(report);
    select_lists(&s, e, options->node, options->rule);
    if (options->node != NULL)
        check_node(model, &s, options->node);
    if (options->rule != NULL)
        check_rule(options, &s);
    if (options->dot != NULL)
        write_dot(options, e);
    if (options->json)
        cli_explain_json(options, &s.shown, out);
    else if (options->dot == NULL || options->node != NULL || options->rule != NULL)
        cli_explain_text(options, &s.shown, out);
    else
        cli_note(options, "opfuse: %s is written; a picture: dot -Tsvg %s -o FILE.svg", options->dot, options->dot);
    free_selection(&s);
    opf_report_destroy(&report);
}

static cli_exit run(const cli_options *options, FILE *out)
{
    opf_error   error  = {0};
    opf_report *report = NULL;
    opf_model  *model  = cli_open_model(options);
    if (options->stage != NULL) {
        cli_check(opf_model_stage_text(model, options->stage, &report, &error), &error);
        const char *text = opf_report_text(report);
        size_t      n    = strlen(text);
        (void)fputs(text, out);
        (void)fputs(n == 0 || text[n - 1] != '\n' ? "\n" : "", out);
        opf_report_destroy(&report);
    } else {
        explain(options, model, out);
    }
    opf_model_destroy(&model);
    return CLI_DONE;
}

const cli_command cli_cmd_explain = {
    .name      = "explain",
    .arguments = "MODEL",
    .summary   = "what was fused, what was not and why",
    .detail =
        "Stages: load, simplify, fuse, plan. Works on symbolic sizes; --dim and --shape make them numbers, which also\n"
        "tells the bytes that fusion saves.\n\n"
        "Examples:\n"
        "  opfuse explain model.onnx\n"
        "  opfuse explain model.onnx --node Conv_7\n"
        "  opfuse explain model.onnx --rule layer-norm --json\n"
        "  opfuse explain model.onnx --dot model.dot && dot -Tsvg model.dot -o model.svg\n"
        "  opfuse explain model.onnx --stage fuse\n",
    .options = CLI_BIT(CLI_DOT) | CLI_BIT(CLI_NODE) | CLI_BIT(CLI_RULE) | CLI_BIT(CLI_STAGE) | CLI_BIT(CLI_NO_FUSE) |
               CLI_SIZE_OPTIONS | CLI_MODEL_OPTIONS | CLI_COMMON_OPTIONS,
    .min_paths = 1,
    .max_paths = 1,
    .run       = run,
};
