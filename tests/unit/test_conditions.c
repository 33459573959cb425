/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/conditions: small graphs on which a careless fusion goes wrong, by the numbers of docs/conditions.md. A paragraph is
 *     NUMBER TITLE
 *     fuses RULE                       the rule fires
 *     not RULE                         it does not; or, with what it must say of that:
 *     not RULE: CODE at NODE: REASON   (REASON: the beginning of it)
 *     ops Conv 1, Relu 0               kernels that are left
 *     leaves TEXT                      is in the fused graph
 *     sizes N=2 S=3; N=0 S=1           of symbols; without the line all are 1
 *     values special                   inputs hold NaN, infinities, zeros of both signs, and the like
 * and then the graph in textual syntax, as text_model.h takes it. Every graph runs fused, unfused and by reference: all agree.
 */
#include "text_model.h"

#include <math.h>

enum { MAX_LINE = 400, MAX_PARAGRAPHS = 600 };

typedef struct paragraph {
    char        name[160]; /* with its file */
    char       *title, *graph;
    char       *claims[16];
    size_t      n_claims;
    const char *sizes;
    bool        is_special;
} paragraph;

/* ---- reading ---- */

/* Never freed: paragraphs point into it. */
static char *read_file(const char *path)
{
    enum { MOST = 1 << 17 };
    static char texts[16][MOST];
    static int  n;
    FILE       *file = fopen(path, "rb");
    if (file == NULL || n == 16)
        fail_msg("%s cannot be read", path);
    char *text = texts[n++];
    (void)fread(text, 1, MOST - 1, file);
    (void)fclose(file);
    return text;
}

static char *cut(char *text, const char *end)
{
    char *at = strstr(text, end);
    if (at == NULL)
        return NULL;
    *at = '\0';
    return at + strlen(end);
}

/* Takes the paragraph apart; *text goes on to the next one, NULL at the end. */
static paragraph next_paragraph(const char *file, char **text)
{
    paragraph p = {.title = *text, .sizes = ""};
    *text       = cut(*text, "\n\n");
    char *line  = cut(p.title, "\n");
    while (line != NULL && strncmp(line, "g (", 3) != 0) {
        char *next = cut(line, "\n");
        if (strncmp(line, "sizes ", 6) == 0)
            p.sizes = line + 6;
        else if (strcmp(line, "values special") == 0)
            p.is_special = true;
        else if (p.n_claims < sizeof p.claims / sizeof *p.claims)
            p.claims[p.n_claims++] = line;
        line = next;
    }
    if (line == NULL)
        fail_msg("%s: %s: no graph", file, p.title);
    p.graph = line;
    return p;
}

/* ---- what explain says ---- */

static const char *describe(const opf_explanation *e)
{
    static char text[8192];
    size_t      at = 0;
    for (size_t i = 0; i < e->n_fusions && at < sizeof text; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "  fuses %s at %s\n", e->fusions[i].rule, e->fusions[i].anchor);
    for (size_t i = 0; i < e->n_missed && at < sizeof text; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "  not %s: %s at %s: %s\n", e->missed[i].rule, e->missed[i].code, e->missed[i].node,
                               e->missed[i].reason);
    for (size_t i = 0; i < e->n_ops_after && at < sizeof text; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "  ops %s %zu\n", e->ops_after[i].op, e->ops_after[i].count);
    return text;
}

static bool fires(const opf_explanation *e, const char *rule)
{
    for (size_t i = 0; i < e->n_fusions; i++)
        if (strcmp(e->fusions[i].rule, rule) == 0)
            return true;
    return false;
}

/* The miss "RULE: CODE at NODE: REASON", of which the reason may go on. */
static bool says(const opf_explanation *e, const char *wanted)
{
    char found[MAX_LINE];
    for (size_t i = 0; i < e->n_missed; i++) {
        const opf_miss_entry *miss = &e->missed[i];
        (void)snprintf(found, sizeof found, "%s: %s at %s: %s", miss->rule, miss->code, miss->node, miss->reason);
        if (strncmp(found, wanted, strlen(wanted)) == 0)
            return true;
    }
    return false;
}

static size_t count_of(const opf_explanation *e, const char *op)
{
    for (size_t i = 0; i < e->n_ops_after; i++)
        if (strcmp(e->ops_after[i].op, op) == 0)
            return e->ops_after[i].count;
    return 0;
}

/* "Conv 1, Relu 0" */
static bool has_counts(const opf_explanation *e, const char *list)
{
    for (; list != NULL && *list != '\0'; list = strchr(list, ',')) {
        char   op[64];
        size_t count;
        list += strspn(list, ", ");
        if (sscanf(list, "%63s %zu", op, &count) != 2 || count_of(e, op) != count)
            return false;
    }
    return true;
}

static bool leaves(const opf_model *model, const char *text)
{
    opf_report *report;
    opf_error   error;
    if (opf_model_stage_text(model, "fuse", &report, &error) != OPF_OK)
        fail_msg("%s", error.message);
    const bool found = strstr(opf_report_text(report), text) != NULL;
    if (!found)
        print_error("%s", opf_report_text(report));
    opf_report_destroy(&report);
    return found;
}

static bool holds(const opf_model *model, const opf_explanation *e, const char *claim)
{
    if (strncmp(claim, "leaves ", 7) == 0)
        return leaves(model, claim + 7);
    if (strncmp(claim, "fuses ", 6) == 0)
        return fires(e, claim + 6);
    if (strncmp(claim, "ops ", 4) == 0)
        return has_counts(e, claim + 4);
    if (strncmp(claim, "not ", 4) != 0)
        return false;
    char rule[64] = "";
    (void)sscanf(claim + 4, "%63[^:]", rule);
    return !fires(e, rule) && (strchr(claim, ':') == NULL || says(e, claim + 4));
}

/* ---- running ---- */

static void fill_special(tensors *inputs)
{
    static const double list[] = {(double)NAN, 1, -(double)INFINITY, -0.0, (double)INFINITY, 0, -2.5, 1e-42, 3e38, -3e38, 88, -104, 6, 2.5};
    size_t              at     = 0;
    for (size_t i = 0; i < inputs->n; i++)
        for (size_t k = 0; opf_types_have(OPF_TYPES_FLOAT, inputs->list[i].type) && k < tensor_count(&inputs->list[i]); k++)
            opf_store_f64(inputs->list[i].type, inputs->list[i].data, k, list[at++ % (sizeof list / sizeof *list)]);
}

/* Of the coarsest type. */
static double relative_bound(const results *r)
{
    double bound = 1e-3;
    for (size_t i = 0; i < r->n; i++)
        bound = fmax(bound, r->list[i].type == OPF_BFLOAT16 ? 2e-2 : r->list[i].type == OPF_FLOAT16 ? 4e-3 : 0);
    return bound;
}

static void check_results(const paragraph *p, const opf_model *model, const char *sizes)
{
    static const struct {
        opf_mode    mode;
        const char *name;
    } modes[] = {{OPF_MODE_FUSED, "fused"}, {OPF_MODE_UNFUSED, "unfused"}};
    tensors inputs;
    results want, have;
    make_inputs(model, sizes, 7, &inputs);
    if (p->is_special)
        fill_special(&inputs);
    run_model(model, OPF_MODE_REFERENCE, 1, &inputs, NULL, p->title, &want);
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        run_model(model, modes[i].mode, 2, &inputs, NULL, p->title, &have);
        compare_results(&have, &want, relative_bound(&want), relative_bound(&want) > 1e-3 ? relative_bound(&want) : 1e-4, modes[i].name, sizes, p->title);
        free_results(&have);
    }
    free_results(&want);
    free_tensors(&inputs);
}

static void check_paragraph(void **state)
{
    const paragraph *p = *state;
    text_model       m;
    opf_report      *report;
    opf_error        error;
    text_model_open(&m, p->graph, NULL, 11);
    if (opf_model_explain(m.model, &report, &error) != OPF_OK)
        fail_msg("%s", error.message);
    for (size_t i = 0; i < p->n_claims; i++)
        if (!holds(m.model, opf_report_explanation(report), p->claims[i]))
            fail_msg("must hold: %s\n%s", p->claims[i], describe(opf_report_explanation(report)));
    opf_report_destroy(&report);
    char list[MAX_LINE];
    (void)snprintf(list, sizeof list, "%s", p->sizes);
    for (char *sizes = list; sizes != NULL;) {
        char *next = cut(sizes, "; ");
        check_results(p, m.model, sizes);
        sizes = next;
    }
    text_model_close(&m);
}

/* One test a paragraph. */
static struct CMUnitTest tests[MAX_PARAGRAPHS]; /* those without a function are none */
static paragraph         paragraphs[MAX_PARAGRAPHS];
static size_t            n_paragraphs;

static void add_file(const char *name)
{
    char path[1024];
    (void)snprintf(path, sizeof path, "%s/tests/conditions/%s.txt", OPF_SOURCE_DIR, name);
    for (char *at = read_file(path); at != NULL && *at != '\0' && n_paragraphs < MAX_PARAGRAPHS; n_paragraphs++) {
        paragraph *p = &paragraphs[n_paragraphs];
        *p           = next_paragraph(name, &at);
        (void)snprintf(p->name, sizeof p->name, "%s %s", name, p->title);
        tests[n_paragraphs] = (struct CMUnitTest){.name = p->name, .test_func = check_paragraph, .initial_state = p};
    }
}

int main(int argc, char **argv)
{
    static const char *const files[] = {"general", "conv", "residual", "matmul", "norm", "activation", "attention", "movement", "memory"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (argc < 2 || strcmp(argv[1], files[i]) == 0)
            add_file(files[i]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
