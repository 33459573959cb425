/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/rules: for every rule and absorber a graph that it finds, and one that it nearly finds, with what it says of
 * that. docs/fusions.md shows the same files. Paragraphs begin with hit -> TEXT                       the rule fires,
 * and TEXT is in the graph that it leaves miss CODE at NODE: REASON         it does not, and says this; "miss without a
 * word": it is no near miss and go on with the graph in ONNX's textual syntax. A line "with RULE…" before them names
 * others that are on as well.
 */
#include "fuse/fuse.h"
#include "graph/text.h"
#include "graph/verify.h"
#include "ops/infer.h"
#include "ops/op.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct fixture {
    opf_heap heap;
    opf_arena arena;
    opf_const_pool consts;
    opf_graph *graph;
    opf_fuse_report report;
    opf_error error;
} fixture;

enum { MOST_RULES = 8 };

/* The rule of the examples, then what is on beside it. */
typedef struct rule_set {
    const char *names[MOST_RULES];
    uint32_t n;
} rule_set;

/* The graph fused with these rules only. */
static void fuse(fixture *f, const rule_set *rules, const char *source)
{
    opf_fuse_options options = {.only = rules->names, .n_only = rules->n, .stop_after = -1};
    memset(f, 0, sizeof *f);
    opf_heap_init(&f->heap, NULL, 0);
    opf_arena_init(&f->arena, &f->heap);
    opf_dims *dims = opf_dims_create(&f->arena);
    f->consts = (opf_const_pool){.arena = &f->arena, .next_id = 1};
    f->report = (opf_fuse_report){.arena = &f->arena};
    if (opf_text_parse(source, opf_find_operator, &f->arena, dims, &f->consts, &f->graph, NULL, NULL, &f->error) !=
            OPF_OK ||
        opf_infer_graph(f->graph, &f->error) != OPF_OK ||
        opf_fuse(f->graph, &options, &f->report, &f->error) != OPF_OK ||
        opf_graph_verify(f->graph, &f->error) != OPF_OK)
        fail_msg("%s: %s\n%s", rules->names[0], f->error.message, source);
}

static const char *graph_text(fixture *f)
{
    opf_text text;
    opf_text_init(&text, &f->arena);
    opf_text_graph(&text, f->graph, false);
    assert_false(text.failed);
    return text.data;
}

static bool has_fired(const fixture *f, const char *rule)
{
    for (uint32_t i = 0; i < f->report.n_fusions; i++)
        if (strcmp(f->report.fusions[i].rule, rule) == 0)
            return true;
    return false;
}

static void check_hit(const rule_set *rules, const char *head, const char *source)
{
    const char *rule = rules->names[0];
    fixture f;
    fuse(&f, rules, source);
    const char *wanted = strstr(head, "-> ");
    if (!has_fired(&f, rule))
        fail_msg("%s did not fire on\n%s\nleft\n%s", rule, source, graph_text(&f));
    if (wanted == NULL || strstr(graph_text(&f), wanted + 3) == NULL)
        fail_msg("%s on\n%s\nleft\n%s", rule, source, graph_text(&f));
    opf_arena_fini(&f.arena);
}

static void check_miss(const rule_set *rules, const char *head, const char *source)
{
    const char *rule = rules->names[0];
    fixture f;
    char found[600] = "miss without a word";
    fuse(&f, rules, source);
    for (uint32_t i = 0; i < f.report.n_misses; i++) {
        const opf_miss *miss = &f.report.misses[i];
        if (strcmp(miss->rule, rule) != 0)
            continue;
        (void)snprintf(found, sizeof found, "miss %s at %s: %s", opf_miss_code_name(miss->code), miss->node,
                       miss->reason);
        break;
    }
    if (has_fired(&f, rule))
        fail_msg("%s fired on\n%s", rule, source);
    if (strcmp(found, head) != 0)
        fail_msg("%s on\n%s\nsays\n%s\nmust say\n%s", rule, source, found, head);
    opf_arena_fini(&f.arena);
}

static char *read_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        fail_msg("%s is missing: every rule has examples", path);
    char *text = calloc(1, 1 << 16);
    assert_non_null(text);
    (void)fread(text, 1, (1 << 16) - 1, file);
    (void)fclose(file);
    return text;
}

/* The rule and those of the line "with …", if the paragraph begins with one; then *head is behind it. */
static rule_set take_rules(const char *rule, char **head)
{
    rule_set rules = {.names = {rule}, .n = 1};
    if (strncmp(*head, "with ", 5) != 0)
        return rules;
    char *name = *head + 5, *end = strchr(name, '\n');
    assert_non_null(end);
    *end = '\0';
    *head = end + 1;
    for (char *next = name; next != NULL; name = next) {
        next = strchr(name, ' ');
        if (next != NULL)
            *next++ = '\0';
        assert_true(rules.n < MOST_RULES);
        rules.names[rules.n++] = name;
    }
    return rules;
}

static void check_examples(const char *rule)
{
    char path[1024];
    uint32_t hits = 0, misses = 0;
    (void)snprintf(path, sizeof path, "%s/tests/rules/%s.txt", OPF_SOURCE_DIR, rule);
    char *text = read_file(path);
    for (char *head = text; head != NULL && *head != '\0';) {
        const rule_set rules = take_rules(rule, &head);
        char *end = strstr(head, "\n\n"), *source = strchr(head, '\n');
        assert_non_null(source);
        *source++ = '\0';
        if (end != NULL)
            *end = '\0';
        if (strncmp(head, "hit", 3) == 0) {
            check_hit(&rules, head, source);
            hits++;
        } else {
            check_miss(&rules, head, source);
            misses++;
        }
        head = end == NULL ? NULL : end + 2;
    }
    if (hits == 0 || misses == 0)
        fail_msg("%s needs a hit and a miss", path);
    free(text);
}

static void test_examples(void **state)
{
    (void)state;
    for (const char *const *rule = opf_fuse_rule_names(); *rule != NULL; rule++)
        check_examples(*rule);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_examples)};
    if (argc > 1) {
        check_examples(argv[1]);
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
