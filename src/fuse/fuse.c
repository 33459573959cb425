/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop: rules in their order, then absorbers, until nothing changes. Each rewrite lowers the cost, so it ends.
 * Nodes are indexed by operator, so that a rule looks only at nodes that it can start from.
 */
#include "fuse/absorb_channel.h"
#include "fuse/builtin.h"
#include "fuse/rewrite.h"
#include "base/random.h"
#include "graph/verify.h"
#include "ops/stored.h"
#include "simplify/passes.h"

#include <stdlib.h>
#include <string.h>

/* ---- what absorbers use too ---- */

static bool is_listed(const char *const *list, size_t n, const char *name, const char *family)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(list[i], name) == 0 || (family != NULL && strcmp(list[i], family) == 0))
            return true;
    return false;
}

static bool is_enabled(const opf_fuse_options *options, const char *name, const char *family)
{
    return (options->only == NULL || is_listed(options->only, options->n_only, name, family)) &&
           !is_listed(options->skip, options->n_skip, name, family);
}

bool opf_fuse_is_enabled(const opf_fuse_context *context, const char *rule)
{
    return is_enabled(context->options, rule, opf_fuse_family(rule));
}

/* The rewrite is the one that may happen alone: of that rule, from a node that it joined. */
static bool is_the_one(const opf_fusion *one, const char *name, const char *node)
{
    return one == NULL || (strcmp(one->rule, name) == 0 &&
                           (strcmp(one->anchor, node) == 0 || is_listed(one->origin, one->n_origin, node, NULL)));
}

static bool allows(const opf_fuse_context *context, const char *name, const char *family, opf_node_id start, uint32_t n)
{
    bool enabled = is_enabled(context->options, name, family);
    if (!is_the_one(context->options->alone, name, opf_graph_node(context->graph, start)->name))
        return false;
    if (enabled && context->left != 0)
        return true;
    const char *node = opf_graph_node(context->graph, start)->name;
    opf_report_miss(context->report, name, node, enabled ? OPF_MISS_BUDGET : OPF_MISS_DISABLED, node, n, n, "%s",
                    enabled ? "the number of rewrites is spent" : "the rule is off");
    return false;
}

bool opf_fuse_allows(const opf_fuse_context *context, const char *rule, opf_node_id start)
{
    return allows(context, rule, opf_fuse_family(rule), start, 1);
}

static bool is_of_input(void *user, uint32_t size, int64_t *n)
{
    const opf_graph *root = user;
    *n = 1 << 20; /* whatever */
    for (uint32_t i = 0; i < root->n_inputs; i++) {
        const opf_info *info = &opf_graph_value(root, root->inputs[i])->info;
        for (int32_t k = 0; k < info->rank; k++)
            if (opf_dim_size(root->dims, info->dims[k]) == size)
                return true;
    }
    return false;
}

bool opf_fuse_suppose_positive(opf_fuse_context *context, opf_dim size)
{
    opf_graph *graph = context->graph;
    opf_fuse_report *report = context->report;
    int64_t n;
    if (opf_dim_at_least(graph->dims, size, 1))
        return true;
    if (opf_dim_is_number(size) || graph != context->root ||
        !opf_dim_evaluate_sizes(graph->dims, size, is_of_input, graph, &n))
        return false;
    for (uint32_t i = 0; i < report->n_supposed; i++)
        if (opf_dim_equal(report->supposed[i], size))
            return true;
    return OPF_PUSH(report->arena, report->supposed, report->n_supposed, report->supposed_capacity, size);
}

bool opf_fuse_suppose_fits(opf_fuse_context *context, opf_dim part, opf_dim whole)
{
    opf_graph *graph = context->graph;
    opf_fuse_report *report = context->report;
    const opf_fit fit = {part, whole};
    int64_t n;
    if (opf_dim_is(part, 1) || opf_dim_equal(part, whole) || opf_dim_is_one_or(graph->dims, part, whole))
        return true;
    if ((opf_dim_is_number(part) && opf_dim_is_number(whole)) || graph != context->root ||
        !opf_dim_evaluate_sizes(graph->dims, part, is_of_input, graph, &n) ||
        !opf_dim_evaluate_sizes(graph->dims, whole, is_of_input, graph, &n) ||
        !OPF_PUSH(report->arena, report->fits, report->n_fits, report->fits_capacity, fit))
        return false;
    opf_dims_state_one_or(graph->dims, part, whole);
    return true;
}

opf_status opf_fuse_infer(opf_fuse_context *context, opf_node_id id, opf_error *error)
{
    opf_graph *graph = context->graph;
    if (context->infos_capacity < graph->n_values) {
        context->infos = OPF_NEW(context->scratch, opf_info, 2 * (size_t)graph->n_values);
        context->infos_capacity = context->infos != NULL ? 2 * graph->n_values : 0;
        OPF_OOM_IF(error, context->infos == NULL);
    }
    const opf_node *node = opf_graph_node(graph, id);
    for (uint32_t i = 0; i < node->n_inputs; i++)
        context->infos[node->inputs[i]] = node->inputs[i] != 0 ? opf_graph_value(graph, node->inputs[i])->info
                                                               : (opf_info){.rank = -1, .n_values = -1};
    opf_info *out = OPF_NEW(context->scratch, opf_info, node->n_outputs);
    OPF_OOM_IF(error, out == NULL);
    OPF_TRY(opf_infer_node(graph, id, context->infos, graph->arena, graph->dims, out, error));
    for (uint32_t o = 0; o < node->n_outputs; o++)
        if (node->outputs[o] != 0)
            opf_graph_value(graph, node->outputs[o])->info = out[o];
    return OPF_OK;
}

opf_status opf_fuse_done_with(opf_fuse_context *context, const char *rule, opf_node_id anchor,
                              const char *const *origin, uint32_t n_origin, opf_error *error)
{
    const opf_node *node = opf_graph_node(context->graph, anchor);
    OPF_OOM_IF(error, !opf_report_fusion(context->report, rule, node->name, origin, n_origin));
    if (context->left > 0)
        context->left--;
#ifndef NDEBUG
    opf_status status = opf_graph_verify(context->graph, error);
    if (status != OPF_OK)
        opf_error_prefix(error, "after %s at %s", rule, node->name);
    return status;
#else
    return OPF_OK;
#endif
}

bool opf_fuse_is_plain(const opf_graph *graph, opf_node_id id, const opf_op *op)
{
    const opf_node *node = opf_graph_node(graph, id);
    return id != 0 && opf_node_is_alive(node) && node->op == op && node->prologue.n == 0 && node->epilogue.n == 0 &&
           node->n_inputs == node->n_own_inputs && node->n_outputs == 1;
}

opf_value_id opf_fuse_build(opf_fuse_context *context, const opf_op *op, const opf_value_id *inputs, uint32_t n,
                                 opf_error *error)
{
    opf_graph *graph = context->graph;
    const opf_value *x = opf_graph_value(graph, inputs[0]);
    for (uint32_t u = 0; u < x->n_uses; u++) {
        const opf_node *node = opf_graph_node(graph, x->uses[u].node);
        bool same = opf_fuse_is_plain(graph, x->uses[u].node, op) && node->n_own_inputs == n;
        for (uint32_t i = 0; same && i < n; i++)
            same = node->inputs[i] == inputs[i];
        if (same)
            return node->outputs[0];
    }
    const opf_value_id result = opf_graph_add_value(graph, NULL);
    const opf_node_id id = result != 0 ? opf_graph_add_node(graph, op, op->name, NULL, inputs, n, &result, 1) : 0;
    return id != 0 && opf_fuse_infer(context, id, error) == OPF_OK ? result : 0;
}

opf_status opf_fuse_done(opf_fuse_context *context, const char *rule, opf_node_id anchor, opf_error *error)
{
    const opf_node *node = opf_graph_node(context->graph, anchor);
    return opf_fuse_done_with(context, rule, anchor, node->origin, node->n_origin, error);
}

opf_status opf_fuse_leave_unstored(opf_fuse_context *context, const char *rule, opf_node_id node, bool *changed,
                                   opf_error *error)
{
    if (!opf_fuse_allows(context, rule, node))
        return OPF_OK;
    OPF_OOM_IF(error, !opf_node_set_int(context->graph, node, OPF_STORED, 0));
    *changed = true;
    return opf_fuse_done(context, rule, node, error);
}

/* ---- nodes by operator ---- */

typedef struct entry {
    const opf_op *op;
    opf_node_id node;
} entry;

typedef struct op_index {
    entry *list; /* sorted */
    uint32_t n;
} op_index;

static int compare_entries(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    uintptr_t p = (uintptr_t)x->op, q = (uintptr_t)y->op;
    if (p != q)
        return p < q ? -1 : 1;
    return x->node < y->node ? -1 : x->node > y->node;
}

static opf_status make_index(opf_fuse_context *context, op_index *index, opf_error *error)
{
    const opf_graph *graph = context->graph;
    index->n = 0;
    index->list = OPF_NEW(context->scratch, entry, graph->n_nodes);
    OPF_OOM_IF(error, index->list == NULL);
    for (uint32_t i = 1; i < graph->n_nodes; i++)
        if (graph->nodes[i].op_type != NULL && graph->nodes[i].op != NULL)
            index->list[index->n++] = (entry){graph->nodes[i].op, i};
    if (index->n != 0)
        qsort(index->list, index->n, sizeof *index->list, compare_entries);
    return OPF_OK;
}

static uint32_t first_of(const op_index *index, const opf_op *op)
{
    uint32_t low = 0, high = index->n;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if ((uintptr_t)index->list[middle].op < (uintptr_t)op)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* ---- rules ---- */

/* What a round over the rules found; near misses count only when the round changed nothing. */
typedef struct rules_round {
    opf_fuse_context *context;
    op_index index;
    opf_miss *misses;
    uint32_t n_misses, misses_capacity;
    bool changed;
    opf_error *error;
} rules_round;

static opf_status keep_miss(rules_round *r, const opf_match *match, opf_node_id start)
{
    const opf_near *near = &match->near;
    const opf_graph *graph = r->context->graph;
    /* The start alone tells something where the rule marks it as rare. */
    const bool start_only = near->reached < 2 && !match->block->starts[0]->starred;
    if (!near->any || (near->code == OPF_MISS_OP && (near->matched * 2 < near->of || start_only)))
        return OPF_OK;
    opf_miss miss = {.rule = match->rule->name,
                     .start = opf_graph_node(graph, start)->name,
                     .code = near->code,
                     .node = opf_graph_node(graph, near->node != 0 ? near->node : start)->name,
                     .reason = opf_near_text(match, near),
                     .matched = near->matched < near->of ? near->matched : near->of,
                     .of = near->of};
    OPF_OOM_IF(r->error,
               miss.reason == NULL || !OPF_PUSH(r->context->scratch, r->misses, r->n_misses, r->misses_capacity, miss));
    return OPF_OK;
}

static opf_status try_rule(rules_round *r, opf_match *match, opf_node_id start)
{
    const opf_rule *rule = match->rule;
    bool found = opf_match_at(match, start);
    OPF_OOM_IF(r->error, match->failed);
    if (!found)
        return keep_miss(r, match, start);
    /* What stays is not part of the fusion. */
    const opf_node_id subject = match->stays != start ? start : match->nodes[match->nodes[0] == start ? 1 : 0];
    if (!allows(r->context, rule->name, rule->family, subject, match->block->n_nodes))
        return OPF_OK;
    bool applied;
    opf_node_id anchor;
    opf_refusal why = {0};
    OPF_TRY(opf_rule_rewrite(match, &applied, &anchor, &why, r->error));
    if (applied) {
        r->changed = true;
        return opf_fuse_done(r->context, rule->name, anchor, r->error);
    }
    match->near = (opf_near){.any = true,
                             .code = why.code,
                             .why = OPF_WHY_REASON,
                             .node = why.node,
                             .a = why.reason,
                             .reached = match->block->n_nodes,
                             .matched = match->block->n_nodes,
                             .of = match->block->n_nodes};
    return keep_miss(r, match, start);
}

static bool is_first_start(const opf_rule *rule, uint32_t block, uint32_t start)
{
    const opf_op *op = rule->blocks[block].starts[start]->op;
    for (uint32_t b = 0; b <= block; b++)
        for (uint32_t s = 0; s < (b < block ? rule->blocks[b].n_starts : start); s++)
            if (rule->blocks[b].starts[s]->op == op)
                return false;
    return true;
}

static opf_status run_rule(rules_round *r, const opf_rule *rule)
{
    opf_match match;
    OPF_TRY(opf_match_init(&match, r->context, rule, r->error));
    for (uint32_t b = 0; b < rule->n_blocks; b++)
        for (uint32_t s = 0; s < rule->blocks[b].n_starts; s++) {
            const opf_op *op = rule->blocks[b].starts[s]->op;
            if (!is_first_start(rule, b, s))
                continue;
            for (uint32_t i = first_of(&r->index, op); i < r->index.n && r->index.list[i].op == op; i++)
                if (opf_node_is_alive(opf_graph_node(r->context->graph, r->index.list[i].node)))
                    OPF_TRY(try_rule(r, &match, r->index.list[i].node));
        }
    return OPF_OK;
}

static bool has_any(const op_index *index, const opf_op *const *ops)
{
    for (; *ops != NULL; ops++) {
        const uint32_t i = first_of(index, *ops);
        if (i < index->n && index->list[i].op == *ops)
            return true;
    }
    return false;
}

/* Reading all rules of the library takes as long as the rest of opening a small model, which has a use for few of them: a rule is read
   when the graph has a node that it could begin from. */
static opf_status read_if_needed(rules_round *r, opf_rule *rule)
{
    const opf_builtin_rule *builtin = rule->unread;
    opf_rules one = {0};
    if (builtin == NULL || !has_any(&r->index, builtin->ops))
        return OPF_OK;
    opf_arena *arena = r->context->root->arena; /* what the report tells outlives this stage */
    const char *file = opf_arena_printf(arena, "%s.rule", builtin->name);
    OPF_OOM_IF(r->error, file == NULL);
    OPF_TRY(opf_rules_parse(builtin->text, file, arena, &one, r->error));
    *rule = one.list[0];
    return OPF_OK;
}

static opf_status run_rules(opf_fuse_context *context, const opf_rules *rules, bool *changed, opf_error *error)
{
    rules_round r;
    do {
        r = (rules_round){.context = context, .error = error};
        OPF_TRY(make_index(context, &r.index, error));
        for (uint32_t i = 0; i < rules->n; i++) {
            OPF_TRY(read_if_needed(&r, &rules->list[i]));
            OPF_TRY(run_rule(&r, &rules->list[i]));
        }
        *changed = *changed || r.changed;
    } while (r.changed);
    for (uint32_t i = 0; i < r.n_misses; i++) {
        const opf_miss *miss = &r.misses[i];
        OPF_OOM_IF(error, !opf_report_miss(context->report, miss->rule, miss->start, miss->code, miss->node,
                                           miss->matched, miss->of, "%s", miss->reason));
    }
    return OPF_OK;
}

/* ---- everything ---- */

typedef opf_status (*absorber)(opf_fuse_context *context, bool *changed, opf_error *error);

static const absorber absorbers[] = {
#define OPF_ABSORBER(name) opf_absorb_##name,
#define OPF_ABSORBED(name, family)
#include "fuse/absorbers.def"
#undef OPF_ABSORBER
#undef OPF_ABSORBED
};
enum { N_ABSORBERS = sizeof absorbers / sizeof *absorbers };

/* What runs, in this order. */
typedef struct passes {
    opf_rules rules;
    absorber absorbers[N_ABSORBERS];
} passes;

/* What folds into weights comes before any absorber: a normalisation behind a bias, a gate or an activation stands
 * right behind the convolution then. */
static opf_status fold(opf_fuse_context *context, const opf_rules *rules, bool *changed, opf_error *error)
{
    bool folded;
    do {
        folded = false;
        OPF_TRY(run_rules(context, rules, changed, error));
        OPF_TRY(opf_absorb_channel(context, &folded, error));
        *changed = *changed || folded;
    } while (folded);
    return OPF_OK;
}

/* Data movements that fusion brought side by side become one; what only the others read goes. */
static opf_status tidy(opf_graph *graph, bool *changed, opf_error *error)
{
    bool merged = false;
    OPF_TRY(opf_merge_movement(graph, &merged, error));
    *changed = *changed || merged;
    return merged ? opf_remove_dead(graph, changed, error) : OPF_OK;
}

static opf_status fuse_graph(opf_fuse_context *context, opf_graph *graph, const passes *p, opf_error *error)
{
    for (uint32_t i = 1; i < graph->n_nodes; i++)
        for (uint32_t b = 0; b < graph->nodes[i].n_bodies; b++)
            OPF_TRY(fuse_graph(context, graph->nodes[i].bodies[b], p, error));
    context->graph = graph;
    bool changed;
    do {
        changed = false;
        OPF_TRY(fold(context, &p->rules, &changed, error));
        for (size_t i = 0; i < N_ABSORBERS; i++) {
            bool absorbed = false;
            OPF_TRY(p->absorbers[i](context, &absorbed, error));
            changed = changed || absorbed;
            if (absorbed && p->absorbers[i] == opf_absorb_scale)
                break; /* products without a factor between them may be an attention, while they have no steps yet */
        }
        OPF_TRY(tidy(graph, &changed, error));
    } while (changed);
    return OPF_OK;
}

static opf_status parse_user_rules(const char *text, const char *file, opf_arena *arena, opf_rules *rules,
                                   opf_error *error)
{
    uint32_t first = rules->n;
    OPF_TRY(opf_rules_parse(text, file, arena, rules, error));
    for (uint32_t i = first; i < rules->n; i++) {
        bool taken = opf_fuse_family(rules->list[i].name) != NULL;
        for (uint32_t k = 0; k < i; k++)
            taken = taken || strcmp(rules->list[k].name, rules->list[i].name) == 0;
        if (taken)
            return opf_rule_fail(&rules->list[i], rules->list[i].place, error, "there is a rule %s already",
                                 rules->list[i].name);
    }
    return OPF_OK;
}

static opf_status read_rules(const opf_fuse_options *options, opf_arena *arena, opf_rules *rules, opf_error *error)
{
    for (const opf_builtin_rule *builtin = opf_builtin_rules; builtin->name != NULL; builtin++) {
        const opf_rule unread = {.name = builtin->name, .family = builtin->family, .unread = builtin};
        OPF_OOM_IF(error, !OPF_PUSH(arena, rules->list, rules->n, rules->capacity, unread));
    }
    for (size_t i = 0; i < options->n_user_rules; i++)
        OPF_TRY(parse_user_rules(options->user_rules[i], options->user_rule_files[i], arena, rules, error));
    return OPF_OK;
}

static bool is_known(const opf_rules *rules, const char *name)
{
    for (const char *const *known = opf_fuse_rule_names(); *known != NULL; known++)
        if (strcmp(*known, name) == 0 || strcmp(opf_fuse_family(*known), name) == 0)
            return true;
    for (uint32_t i = 0; i < rules->n; i++)
        if (strcmp(rules->list[i].name, name) == 0 || strcmp(rules->list[i].family, name) == 0)
            return true;
    return false;
}

static opf_status check_names(const opf_rules *rules, const char *const *names, size_t n, opf_error *error)
{
    for (size_t i = 0; i < n; i++)
        OPF_FAIL_IF(error, !is_known(rules, names[i]), OPF_INVALID_ARGUMENT, "there is no rule or family %s", names[i]);
    return OPF_OK;
}

static void shuffle(passes *p, uint64_t order)
{
    opf_random random;
    opf_random_init(&random, order);
    for (uint32_t i = p->rules.n; i > 1; i--) {
        const uint32_t k = (uint32_t)(opf_random_next(&random) % i);
        const opf_rule swap = p->rules.list[i - 1];
        p->rules.list[i - 1] = p->rules.list[k];
        p->rules.list[k] = swap;
    }
    for (uint32_t i = N_ABSORBERS; i > 1; i--) {
        const uint32_t k = (uint32_t)(opf_random_next(&random) % i);
        const absorber swap = p->absorbers[i - 1];
        p->absorbers[i - 1] = p->absorbers[k];
        p->absorbers[k] = swap;
    }
}

opf_status opf_fuse(opf_graph *graph, const opf_fuse_options *options, opf_fuse_report *report, opf_error *error)
{
    opf_arena scratch;
    passes p = {0};
    opf_arena_init(&scratch, graph->arena->heap);
    opf_fuse_context context = {
        .graph = graph, .root = graph, .report = report, .options = options, .scratch = &scratch, .left = options->stop_after};
    memcpy(p.absorbers, absorbers, sizeof absorbers);
    /* Names of rules and attributes outlive this stage, in the report and on nodes. */
    opf_status status = read_rules(options, graph->arena, &p.rules, error);
    if (options->order != 0)
        shuffle(&p, options->order);
    if (status == OPF_OK)
        status = check_names(&p.rules, options->only, options->n_only, error);
    if (status == OPF_OK)
        status = check_names(&p.rules, options->skip, options->n_skip, error);
    if (status == OPF_OK)
        status = opf_fuse_suppose_masks(&context, error);
    if (status == OPF_OK)
        status = fuse_graph(&context, graph, &p, error);
    opf_report_finish(report);
    opf_arena_fini(&scratch);
    return status;
}

opf_status opf_fuse_check_rules(const char *text, const char *file, opf_arena *arena, opf_error *error)
{
    opf_rules rules = {0};
    return parse_user_rules(text, file, arena, &rules, error);
}
