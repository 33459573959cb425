/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A match is solved goal by goal: goals form a list whose head is worked on, each choice (alternative, operand order,
 * reader of a value) recurses with the goals that are left, and undoes its bindings when they fail. It grows from the
 * start node: down into its operands, up to the nodes that read it, and on from the names that are bound.
 */
#include "fuse/match.h"

#include <string.h>

enum { MAX_STEPS = 20000, MAX_ARGS = 8 };

typedef struct goal {
    bool climb; /* expr is matched by value: go on to what reads it */
    const opf_rule_expr *expr;
    opf_value_id value;
    opf_node_id node; /* climb: that produces value; otherwise: that reads it */
    uint32_t input;   /* of that reader */
    const struct goal *next;
} goal;

static bool solve(opf_match *m, const goal *goals);
static bool climb(opf_match *m, const opf_rule_expr *expr, opf_value_id value, opf_node_id node, const goal *next);

/* ---- undoing ---- */

typedef struct mark {
    uint32_t n_trail, n_nodes, n_skipped;
} mark;

static mark take_mark(const opf_match *m)
{
    return (mark){m->n_trail, m->n_nodes, m->n_skipped};
}

static void undo(opf_match *m, mark before)
{
    while (m->n_trail > before.n_trail)
        m->bound[m->trail[--m->n_trail]] = false;
    m->n_nodes = before.n_nodes;
    m->n_skipped = before.n_skipped;
}

static bool push_node(opf_match *m, opf_node_id node, bool skipped)
{
    for (uint32_t i = 0; i < m->n_nodes; i++)
        if (m->nodes[i] == node)
            return true;
    if (m->n_nodes == OPF_MATCH_NODES)
        return false;
    m->nodes[m->n_nodes++] = node;
    m->n_skipped += skipped ? 1 : 0;
    if (m->n_nodes - m->n_skipped > m->most)
        m->most = m->n_nodes - m->n_skipped;
    return true;
}

bool opf_match_bind(opf_match *m, uint32_t name, opf_item item)
{
    m->items[name] = item;
    m->bound[name] = true;
    m->trail[m->n_trail++] = name;
    return true;
}

bool opf_match_fail(opf_match *m, opf_near near)
{
    if (m->forgiven != NULL)
        return false;
    bool at_fault = near.why == OPF_WHY_LITERAL || near.why == OPF_WHY_CONSTANT || near.why == OPF_WHY_ATTR ||
                    near.why == OPF_WHY_OPERAND;
    near.any = true;
    near.of = m->block->n_nodes;
    near.reached = m->n_nodes - m->n_skipped;
    near.matched = near.reached - (at_fault && near.reached > 0 ? 1 : 0);
    bool nearer = !m->near.any || near.reached > m->near.reached ||
                  (near.reached == m->near.reached && near.code != OPF_MISS_OP && m->near.code == OPF_MISS_OP);
    if (nearer)
        m->near = near;
    return false;
}

/* ---- nodes that change nothing ---- */

/* The value behind nodes that change nothing, for one that the match replaces: they go with it. */
static opf_value_id skip(opf_match *m, opf_value_id value)
{
    const opf_graph *graph = m->context->graph;
    while (value != 0) {
        opf_node_id producer = opf_graph_value(graph, value)->producer;
        if (!opf_match_is_no_op(graph, producer) || !push_node(m, producer, true))
            break;
        value = opf_graph_node(graph, producer)->inputs[0];
    }
    return value;
}

/* ---- one node ---- */

static uint32_t input_of(bool swapped, uint32_t arg)
{
    return swapped && arg < 2 ? 1 - arg : arg;
}

/* The operands of a node, but for the one that climbing came from, then the goals that are left. Literals come last: an
   operand of the wrong kind says more about a node than its constants do. */
static bool match_operands(opf_match *m, const opf_rule_expr *expr, opf_node_id id, bool swapped, uint32_t from_arg,
                           const goal *next)
{
    const opf_node *node = opf_graph_node(m->context->graph, id);
    goal goals[MAX_ARGS];
    uint32_t n = 0;
    for (uint32_t literals = 0; literals < 2; literals++)
        for (uint32_t i = 0; i < expr->n_args; i++) {
            uint32_t input = input_of(swapped, i);
            if (i == from_arg || (expr->args[i]->kind == OPF_RULE_NUMBER) != (literals == 1))
                continue;
            opf_value_id value = input < node->n_own_inputs ? node->inputs[input] : 0;
            goals[n++] = (goal){.expr = expr->args[i], .value = value, .node = id, .input = input};
        }
    for (uint32_t i = 0; i < n; i++)
        goals[i].next = i + 1 < n ? &goals[i + 1] : next;
    return solve(m, n != 0 ? goals : next);
}

static bool has_more_inputs(const opf_node *node, uint32_t n_args)
{
    for (uint32_t i = n_args; i < node->n_own_inputs; i++)
        if (node->inputs[i] != 0)
            return true;
    return node->prologue.n != 0 || node->epilogue.n != 0 || node->n_bodies != 0;
}

/* from_arg: the operand that climbing came from (expr->n_args: none), which is input from_input of the node. */
static bool match_node(opf_match *m, const opf_rule_expr *expr, opf_node_id id, uint32_t from_arg, uint32_t from_input,
                       const goal *next)
{
    const opf_node *node = opf_graph_node(m->context->graph, id);
    if (expr->n_args > MAX_ARGS || has_more_inputs(node, expr->n_args))
        return opf_match_fail(m, (opf_near){.code = OPF_MISS_OP,
                                            .why = OPF_WHY_REASON,
                                            .node = id,
                                            .a = "has operands or steps that the rule does not know"});
    const mark before = take_mark(m);
    if (!push_node(m, id, false) || !opf_match_attrs(m, expr, id)) {
        undo(m, before);
        return false;
    }
    const mark after = take_mark(m);
    bool both = (node->op->traits & OPF_COMMUTATIVE) != 0 && expr->n_args >= 2 && node->n_own_inputs >= 2;
    bool tried = false;
    for (uint32_t order = 0; order < (both ? 2u : 1u); order++) {
        if (from_arg < expr->n_args && input_of(order == 1, from_arg) != from_input)
            continue;
        tried = true;
        if (match_operands(m, expr, id, order == 1, from_arg, next))
            return true;
        undo(m, after);
        if (m->steps > MAX_STEPS || m->failed)
            break;
    }
    undo(m, before);
    if (!tried)
        opf_match_fail(m, (opf_near){.code = OPF_MISS_OP,
                                     .why = OPF_WHY_REASON,
                                     .node = id,
                                     .a = "the operands are in another order than they must be"});
    return false;
}

static bool match_operator(opf_match *m, const opf_rule_expr *expr, const goal *g)
{
    const opf_graph *graph = m->context->graph;
    const mark before = take_mark(m);
    opf_value_id value = skip(m, g->value);
    opf_node_id producer = opf_graph_value(graph, value)->producer;
    if (value != 0 && producer != 0 && opf_graph_node(graph, producer)->op == expr->op &&
        opf_graph_value(graph, value)->producer_output == 0 && match_node(m, expr, producer, expr->n_args, 0, g->next))
        return true;
    if (producer == 0 || opf_graph_node(graph, producer)->op != expr->op)
        opf_match_fail(m, (opf_near){.code = OPF_MISS_OP,
                                     .why = OPF_WHY_OPERATOR,
                                     .node = producer != 0 ? producer : g->node,
                                     .value = value,
                                     .a = expr->text});
    undo(m, before);
    return false;
}

/* ---- names ---- */

static bool bind_value(opf_match *m, uint32_t name, opf_value_id value, opf_node_id node)
{
    if (m->bound[name])
        return m->items[name].value == value;
    m->node_of[name] = node;
    return opf_match_bind(m, name, (opf_item){.kind = value != 0 ? OPF_ITEM_VALUE : OPF_ITEM_ABSENT, .value = value});
}

/* Statement s is matched by a node, or by a value alone. */
static bool bind_targets(opf_match *m, uint32_t s, opf_value_id value, opf_node_id id)
{
    const opf_rule_statement *statement = &m->block->statements[s];
    if (statement->n_targets == 1)
        return bind_value(m, statement->targets[0], value, id);
    const opf_node *node = opf_graph_node(m->context->graph, id);
    for (uint32_t t = 0; t < statement->n_targets; t++)
        if (!bind_value(m, statement->targets[t], t < node->n_own_outputs ? node->outputs[t] : 0, id))
            return false;
    return true;
}

static bool match_definition(opf_match *m, uint32_t s, const goal *g)
{
    const opf_rule_statement *statement = &m->block->statements[s];
    const mark before = take_mark(m);
    const opf_graph *graph = m->context->graph;
    opf_value_id value = skip(m, g->value);
    const opf_value *v = opf_graph_value(graph, value);
    const goal inner = {.expr = statement->value, .value = value, .node = g->node, .input = g->input, .next = g->next};
    bool ok = value != 0;
    if (ok && statement->n_targets > 1) {
        ok = v->producer != 0 && opf_graph_node(graph, v->producer)->op == statement->value->op &&
             bind_targets(m, s, value, v->producer) && m->items[g->expr->name].value == value &&
             match_node(m, statement->value, v->producer, statement->value->n_args, 0, g->next);
    } else if (ok) {
        ok = bind_targets(m, s, value, v->producer) && solve(m, &inner);
    }
    if (!ok)
        undo(m, before);
    return ok;
}

static bool match_name(opf_match *m, const opf_rule_expr *expr, const goal *g)
{
    const opf_graph *graph = m->context->graph;
    opf_value_id value = opf_match_resolve(graph, g->value);
    if (m->bound[expr->name]) {
        const mark before = take_mark(m);
        if (m->block->definition[expr->name] != OPF_RULE_NO_NAME)
            skip(m, g->value);
        if (opf_match_same_value(graph, m->items[expr->name].value, value)) {
            if (solve(m, g->next))
                return true;
        } else {
            opf_match_fail(m, (opf_near){.code = OPF_MISS_OP,
                                         .why = OPF_WHY_OPERAND,
                                         .node = g->node,
                                         .value = g->value,
                                         .a = m->items[expr->name].value != 0
                                                  ? opf_graph_value(graph, m->items[expr->name].value)->name
                                                  : "nothing"});
        }
        undo(m, before);
        return false;
    }
    if (value == 0 && !expr->optional)
        return opf_match_fail(
            m,
            (opf_near){.code = OPF_MISS_OP, .why = OPF_WHY_OPERAND, .node = g->node, .a = m->rule->names[expr->name]});
    uint32_t s = m->block->definition[expr->name];
    if (s != OPF_RULE_NO_NAME)
        return match_definition(m, s, g);
    const mark before = take_mark(m);
    if (bind_value(m, expr->name, value, 0) && solve(m, g->next))
        return true;
    undo(m, before);
    return false;
}

/* ---- climbing ---- */

static bool climb_readers(opf_match *m, const opf_rule_expr *expr, opf_value_id value, const goal *next)
{
    const opf_graph *graph = m->context->graph;
    const opf_rule_expr *parent = expr->parent;
    const opf_value *v = opf_graph_value(graph, value);
    bool any = false;
    for (uint32_t i = 0; i < v->n_uses; i++) {
        const opf_use use = v->uses[i];
        const opf_node *node = opf_graph_node(graph, use.node);
        const mark before = take_mark(m);
        if (use.node == 0 || use.input >= node->n_own_inputs)
            continue;
        if (opf_match_is_no_op(graph, use.node)) {
            if (push_node(m, use.node, true) && climb_readers(m, expr, node->outputs[0], next))
                return true;
        } else if (node->op == parent->op) {
            any = true;
            goal above = {.climb = true, .expr = parent, .value = node->outputs[0], .node = use.node, .next = next};
            if (match_node(m, parent, use.node, expr->position, use.input, &above))
                return true;
        }
        undo(m, before);
        if (m->steps > MAX_STEPS || m->failed)
            return false;
    }
    if (!any)
        opf_match_fail(
            m, (opf_near){
                   .code = OPF_MISS_OP, .why = OPF_WHY_READER, .node = v->producer, .value = value, .a = parent->text});
    return false;
}

static bool climb(opf_match *m, const opf_rule_expr *expr, opf_value_id value, opf_node_id node, const goal *next)
{
    if (++m->steps > MAX_STEPS)
        return false;
    if (expr->parent == NULL) {
        const mark before = take_mark(m);
        if (bind_targets(m, expr->statement, value, node) && solve(m, next))
            return true;
        undo(m, before);
        return false;
    }
    if (expr->parent->kind == OPF_RULE_ALTERNATIVE)
        return climb(m, expr->parent, value, node, next);
    return value != 0 && climb_readers(m, expr, value, next);
}

/* Climbs from every place where a statement reads a name. */
static bool climb_from(opf_match *m, const opf_rule_expr *expr, uint32_t name)
{
    if (expr->kind == OPF_RULE_NAME && expr->name == name)
        return climb(m, expr, m->items[name].value, m->node_of[name], NULL);
    if (expr->kind == OPF_RULE_OPERATOR || expr->kind == OPF_RULE_ALTERNATIVE)
        for (uint32_t i = 0; i < expr->n_args; i++)
            if (climb_from(m, expr->args[i], name))
                return true;
    return false;
}

static bool reads(const opf_rule_expr *expr, uint32_t name)
{
    if (expr->kind == OPF_RULE_NAME)
        return expr->name == name;
    if (expr->kind == OPF_RULE_OPERATOR || expr->kind == OPF_RULE_ALTERNATIVE)
        for (uint32_t i = 0; i < expr->n_args; i++)
            if (reads(expr->args[i], name))
                return true;
    return false;
}

/* ---- the whole ---- */

static bool refused(opf_match *m, const opf_refusal *why)
{
    return opf_match_fail(m, (opf_near){.code = why->code, .why = OPF_WHY_REASON, .node = why->node, .a = why->reason});
}

/* All statements are matched: may it be replaced? */
static bool finish(opf_match *m)
{
    if (m->forgiven != NULL)
        return false;
    opf_fuse_context *context = m->context;
    opf_value_id kept[OPF_MATCH_NODES + 1];
    uint32_t n_kept = 0;
    opf_refusal why = {0};
    for (uint32_t r = 0; r < m->rule->n_rewrites; r++)
        for (uint32_t t = 0; t < m->rule->rewrites[r].n_targets && n_kept < OPF_MATCH_NODES; t++)
            kept[n_kept++] = m->items[m->rule->rewrites[r].targets[t]].value;
    m->stays = 0;
    if (m->rule->keeps != OPF_RULE_NO_NAME &&
        !opf_legal_uses(context, m->items[m->rule->keeps].value, m->nodes, m->n_nodes, NULL)) {
        m->stays = m->node_of[m->rule->keeps];
        kept[n_kept++] = m->items[m->rule->keeps].value;
    }
    /* With one result, and everything else read inside only, the nodes are convex by themselves. */
    if (!opf_legal_interior(context, m->nodes, m->n_nodes, kept, n_kept, &why) ||
        (n_kept > 1 && !opf_legal_convex(context, m->nodes, m->n_nodes, &why)))
        return refused(m, &why);
    for (uint32_t i = 0; i < m->rule->n_where; i++)
        if (!opf_rule_eval(m, m->rule->where[i], &(opf_item){0}, &why))
            return refused(m, &why);
    return true;
}

/* No goal is left: the next statement that is not matched, reached from a name that is bound. One that the match
   defines is better than an input, which others read too, and the latest is the nearest to what is missing. */
static bool advance(opf_match *m)
{
    bool open = false;
    for (uint32_t s = 0; s < m->block->n_statements; s++) {
        const opf_rule_statement *statement = &m->block->statements[s];
        if (m->bound[statement->targets[0]])
            continue;
        open = true;
        for (uint32_t inputs = 0; inputs < 2; inputs++)
            for (uint32_t i = m->n_trail; i > 0; i--) {
                uint32_t name = m->trail[i - 1];
                bool defined = m->block->definition[name] != OPF_RULE_NO_NAME;
                if (m->items[name].kind == OPF_ITEM_VALUE && defined == (inputs == 0) && reads(statement->value, name))
                    return climb_from(m, statement->value, name);
            }
    }
    return !open && finish(m);
}

static bool solve(opf_match *m, const goal *g)
{
    if (m->failed || ++m->steps > MAX_STEPS)
        return false;
    if (g == NULL)
        return advance(m);
    if (g->climb)
        return climb(m, g->expr, g->value, g->node, g->next);
    switch (g->expr->kind) {
    case OPF_RULE_NAME:
        return match_name(m, g->expr, g);
    case OPF_RULE_NUMBER:
        return opf_match_literal(m, g->expr, g->value, g->node, g->input) && solve(m, g->next);
    case OPF_RULE_OPERATOR:
        return match_operator(m, g->expr, g);
    case OPF_RULE_ALTERNATIVE:
        for (uint32_t i = 0; i < g->expr->n_args; i++) {
            goal branch = *g;
            branch.expr = g->expr->args[i];
            if (solve(m, &branch))
                return true;
        }
        return false;
    default:
        return false;
    }
}

static bool try_block(opf_match *m, opf_node_id start)
{
    const opf_graph *graph = m->context->graph;
    m->steps = 0;
    for (uint32_t i = 0; i < m->block->n_starts; i++) {
        const opf_rule_expr *expr = m->block->starts[i];
        const opf_node *node = opf_graph_node(graph, start);
        if (node->op != expr->op)
            continue;
        undo(m, (mark){0});
        goal above = {.climb = true, .expr = expr, .value = node->outputs[0], .node = start};
        if (match_node(m, expr, start, expr->n_args, 0, &above))
            return true;
    }
    if (m->steps > MAX_STEPS)
        opf_match_fail(m, (opf_near){.code = OPF_MISS_BUDGET,
                                     .why = OPF_WHY_REASON,
                                     .node = start,
                                     .a = "the search took too many steps"});
    return false;
}

bool opf_match_at(opf_match *m, opf_node_id start)
{
    m->near = (opf_near){0};
    const opf_rule_block *nearest = NULL;
    for (uint32_t b = 0; b < m->rule->n_blocks; b++) {
        m->block = &m->rule->blocks[b];
        m->forgiven = NULL;
        const opf_near last = m->near;
        if (try_block(m, start))
            return true;
        if (m->near.any && (!last.any || last.reached != m->near.reached || last.code != m->near.code))
            nearest = m->block;
    }
    /* One literal is at fault: everything else that fits tells how near it came. */
    if (m->near.literal != NULL && nearest != NULL) {
        m->block = nearest;
        m->forgiven = m->near.literal;
        m->most = 0;
        try_block(m, start);
        if (m->most > m->near.matched + 1)
            m->near.matched = m->most - 1;
    }
    return false;
}

opf_status opf_match_init(opf_match *m, opf_fuse_context *context, const opf_rule *rule, opf_error *error)
{
    *m = (opf_match){.context = context, .rule = rule};
    m->items = OPF_NEW(context->scratch, opf_item, rule->n_names);
    m->bound = OPF_NEW(context->scratch, bool, rule->n_names);
    m->node_of = OPF_NEW(context->scratch, opf_node_id, rule->n_names);
    m->trail = OPF_NEW(context->scratch, uint32_t, rule->n_names);
    OPF_OOM_IF(error, m->items == NULL || m->bound == NULL || m->node_of == NULL || m->trail == NULL);
    return OPF_OK;
}
