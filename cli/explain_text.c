/* SPDX-License-Identifier: Apache-2.0 */
#include "explain.h"

#include <stdlib.h>
#include <string.h>

#define MAX_NAMES 4u  /* anchors shown for a rule */
#define MAX_LINES 20u /* of a list, unless one rule or node is asked for */

bool cli_has_text(const char *const *texts, size_t n, const char *text)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(texts[i], text) == 0)
            return true;
    return false;
}

static void print_names(const char *const *names, size_t n, FILE *out)
{
    for (size_t i = 0; i < n; i++)
        (void)fprintf(out, "%s%s", i == 0 ? "" : ", ", names[i]);
}

static size_t count_of(const opf_op_count *counts, size_t n, const char *op)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(counts[i].op, op) == 0)
            return counts[i].count;
    return 0;
}

static void print_count(FILE *out, const char *op, size_t before, size_t after)
{
    char left[24] = "-", right[24] = "-";
    if (before != 0)
        (void)snprintf(left, sizeof left, "%zu", before);
    if (after != 0)
        (void)snprintf(right, sizeof right, "%zu", after);
    (void)fprintf(out, "  %-26s %6s %6s\n", op, left, right);
}

static void print_summary(const cli_options *options, const opf_explanation *e, FILE *out)
{
    char before[32], after[32];
    (void)fprintf(out, "%s (opset %lld): %zu nodes -> %zu kernels\n", options->paths.items[0], (long long)e->opset,
                  e->nodes_before, e->nodes_after);
    if (e->nodes_unfed != 0)
        (void)fprintf(out, "a run that feeds no initializer: %zu kernels\n", e->nodes_unfed);
    if (e->bytes_before >= 0 && e->bytes_after >= 0)
        (void)fprintf(out, "activations read and written by one run: %s -> %s (%+.0f %%)\n",
                      cli_scaled(e->bytes_before, "B", before), cli_scaled(e->bytes_after, "B", after),
                      e->bytes_before > 0 ? 100 * (e->bytes_after / e->bytes_before - 1) : 0);
    else
        (void)fputs("activations read and written by one run: not known without sizes, give --dim or --shape\n", out);
    (void)fprintf(out, "\n  %-26s %6s %6s\n", "operator", "before", "after");
    for (size_t i = 0; i < e->n_ops_before; i++)
        print_count(out, e->ops_before[i].op, e->ops_before[i].count,
                    count_of(e->ops_after, e->n_ops_after, e->ops_before[i].op));
    for (size_t i = 0; i < e->n_ops_after; i++)
        if (count_of(e->ops_before, e->n_ops_before, e->ops_after[i].op) == 0)
            print_count(out, e->ops_after[i].op, 0, e->ops_after[i].count);
}

/* Rules in the order of their first hit. */
static void print_hits(const opf_explanation *e, FILE *out)
{
    (void)fprintf(out, "\nfused: %zu rewrites\n", e->n_fusions);
    for (size_t i = 0; i < e->n_fusions; i++) {
        const char *rule = e->fusions[i].rule;
        size_t      hits = 0, first = 0;
        while (strcmp(e->fusions[first].rule, rule) != 0)
            first++;
        if (first != i)
            continue;
        for (size_t k = i; k < e->n_fusions; k++)
            hits += strcmp(e->fusions[k].rule, rule) == 0;
        (void)fprintf(out, "  %-20s %4zu  at ", rule, hits);
        for (size_t k = i, shown = 0; k < e->n_fusions && shown < MAX_NAMES; k++)
            if (strcmp(e->fusions[k].rule, rule) == 0)
                (void)fprintf(out, "%s%s", shown++ == 0 ? "" : ", ", e->fusions[k].anchor);
        (void)fputs(hits > MAX_NAMES ? ", ...\n" : "\n", out);
    }
}

static void print_fusions(const opf_explanation *e, FILE *out)
{
    (void)fprintf(out, "\nfused: %zu rewrites\n", e->n_fusions);
    for (size_t i = 0; i < e->n_fusions; i++) {
        (void)fprintf(out, "  %s at %s: ", e->fusions[i].rule, e->fusions[i].anchor);
        print_names(e->fusions[i].origin, e->fusions[i].n_origin, out);
        (void)putc('\n', out);
    }
}

/* Entries that say the same of other nodes are one line, unless one rule or node is asked for. */
static bool same_miss(const opf_miss_entry *a, const opf_miss_entry *b)
{
    return strcmp(a->rule, b->rule) == 0 && strcmp(a->code, b->code) == 0 && a->matched == b->matched && a->of == b->of;
}

static bool same_kept(const opf_kept_entry *a, const opf_kept_entry *b)
{
    return strcmp(a->op, b->op) == 0 && strcmp(a->code, b->code) == 0 && strcmp(a->reason, b->reason) == 0;
}

static void print_misses(const opf_explanation *e, bool all, FILE *out)
{
    size_t lines = 0, shown = 0;
    (void)fprintf(out, "\nnearly fused, nearest first: %zu\n", e->n_missed);
    for (size_t i = 0; i < e->n_missed && (all || lines < MAX_LINES); i++) {
        const opf_miss_entry *m     = &e->missed[i];
        bool                  first = true;
        size_t                alike = 0;
        for (size_t k = 0; !all && k < i && first; k++)
            first = !same_miss(&e->missed[k], m);
        for (size_t k = i + 1; !all && first && k < e->n_missed; k++)
            alike += same_miss(&e->missed[k], m);
        if (!first)
            continue;
        (void)fprintf(out, "  %s from %s: %s: %s (%s, %zu of %zu nodes matched)%s%s\n", m->rule, m->start, m->node,
                      m->reason, m->code, m->matched, m->of, m->remedy == NULL ? "" : ": ",
                      m->remedy == NULL ? "" : m->remedy);
        if (alike != 0)
            (void)fprintf(out, "    and %zu more like it: --rule %s shows them\n", alike, m->rule);
        lines++;
        shown += 1 + alike;
    }
    if (e->n_missed > shown)
        (void)fprintf(out, "  ... and %zu more: --json has all of them\n", e->n_missed - shown);
}

static void print_kept(const opf_explanation *e, bool all, FILE *out)
{
    size_t lines = 0, shown = 0;
    (void)fprintf(out, "\nkernels that could not join another: %zu\n", e->n_kept);
    for (size_t i = 0; i < e->n_kept && (all || lines < MAX_LINES); i++) {
        const opf_kept_entry *k     = &e->kept[i];
        bool                  first = true;
        size_t                alike = 0;
        for (size_t j = 0; !all && j < i && first; j++)
            first = !same_kept(&e->kept[j], k);
        for (size_t j = i + 1; !all && first && j < e->n_kept; j++)
            alike += same_kept(&e->kept[j], k);
        if (!first)
            continue;
        (void)fprintf(out, "  %s (%s)%s%s: %s (%s)\n", k->node, k->op, k->other == NULL ? "" : " beside ",
                      k->other == NULL ? "" : k->other, k->reason, k->code);
        if (alike != 0)
            (void)fprintf(out, "    and %zu more like it\n", alike);
        lines++;
        shown += 1 + alike;
    }
    if (e->n_kept > shown)
        (void)fprintf(out, "  ... and %zu more: --json has all of them, --node what concerns one node\n",
                      e->n_kept - shown);
}

static void print_nodes(const cli_options *options, const opf_explanation *e, FILE *out)
{
    (void)fprintf(out, "node %s\n", options->node);
    if (e->n_nodes == 0)
        (void)fputs("  is not in the fused graph: other nodes do its work, or it is constant or not needed\n", out);
    for (size_t i = 0; i < e->n_nodes; i++) {
        const opf_graph_node_entry *n = &e->nodes[i];
        (void)fprintf(out, "  is now %s (%s, %s), which stands for ", n->name, n->op,
                      n->is_kernel ? "a kernel" : "no kernel of its own");
        print_names(n->origin, n->n_origin, out);
        (void)fprintf(out, "\n  %s\n", n->text);
    }
}

void cli_explain_text(const cli_options *options, const opf_explanation *e, FILE *out)
{
    bool is_filtered = options->node != NULL || options->rule != NULL;
    if (options->node != NULL)
        print_nodes(options, e, out);
    else
        print_summary(options, e, out);
    if (is_filtered)
        print_fusions(e, out);
    else
        print_hits(e, out);
    print_misses(e, is_filtered, out);
    if (options->rule == NULL)
        print_kept(e, is_filtered, out);
}
