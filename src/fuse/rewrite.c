/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/rewrite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NEW = 32, MAX_OPERANDS = 16 };

typedef struct rewriter {
    opf_match *match;
    opf_graph *graph;
    opf_node_id nodes[MAX_NEW];
    uint32_t n_nodes;
    opf_refusal *why;
    opf_error *error;
} rewriter;

/* What building gives: an operand could not be made (refused), or memory is out. */
typedef enum outcome { MADE, REFUSED, OUT_OF_MEMORY } outcome;

#define REFUSE(r, code, ...) (opf_refuse((r)->match->context, (r)->why, OPF_MISS_##code, 0, __VA_ARGS__), REFUSED)

static outcome eval(rewriter *r, const opf_rule_expr *expr, opf_item *item)
{
    if (opf_rule_eval(r->match, expr, item, r->why))
        return MADE;
    return r->match->failed ? OUT_OF_MEMORY : REFUSED;
}

/* ---- operands ---- */

/* The type that operand i must have: that of another operand of the same letter in the signature. */
static opf_type operand_type(const rewriter *r, const opf_op *op, const opf_item *items, uint32_t n, uint32_t i)
{
    for (uint32_t pass = 0; pass < 2; pass++)
        for (uint32_t k = 0; k < n; k++) {
            bool same_letter = i < op->n_inputs && k < op->n_inputs && op->inputs[k].var == op->inputs[i].var &&
                               op->inputs[i].var != 0;
            if (items[k].kind == OPF_ITEM_VALUE && (pass == 1 || same_letter))
                return opf_graph_value(r->graph, items[k].value)->info.type;
        }
    return OPF_FLOAT;
}

static outcome operand_value(rewriter *r, const opf_op *op, const opf_item *items, uint32_t n, uint32_t i,
                             opf_value_id *value)
{
    const opf_item *item = &items[i];
    const opf_const *c = item->constant;
    *value = item->value;
    if (item->kind == OPF_ITEM_ABSENT || item->kind == OPF_ITEM_VALUE)
        return MADE;
    if (item->kind == OPF_ITEM_ATTR)
        return REFUSE(r, CONST, "an attribute is no operand");
    opf_type type = operand_type(r, op, items, n, i);
    if (!opf_types_have(OPF_TYPES_FLOAT, type))
        return REFUSE(r, DTYPE, "an operand of type %s cannot be computed", opf_type_name(type));
    if (item->kind == OPF_ITEM_NUMBER)
        c = opf_const_float(r->graph->consts, type, item->number);
    else if (c->type != type)
        c = opf_const_cast(r->graph->consts, c, type);
    *value = c != NULL ? opf_graph_add_constant(r->graph, NULL, c) : 0;
    return *value != 0 ? MADE : OUT_OF_MEMORY;
}

/* ---- attributes ---- */

static outcome set_attr(rewriter *r, opf_node_id node, const opf_rule_attr *attr, const opf_op *op)
{
    opf_item item;
    outcome made = eval(r, attr->value, &item);
    if (made != MADE || item.kind == OPF_ITEM_ABSENT)
        return made;
    opf_attr result = {.name = NULL};
    for (uint32_t i = 0; i < op->n_attrs; i++)
        if (strcmp(op->attrs[i].name, attr->name) == 0) /* the rule is gone when the graph is still there */
            result = (opf_attr){.name = op->attrs[i].name, .type = op->attrs[i].type};
    double x = 0;
    if (result.type == OPF_ATTR_INT || result.type == OPF_ATTR_FLOAT) {
        if (!opf_item_number(r->graph, &item, &x) || !isfinite(x))
            return REFUSE(r, CONST, "%s is no number", attr->name);
        if (result.type == OPF_ATTR_INT && (x != floor(x) || fabs(x) > 0x1p53))
            return REFUSE(r, CONST, "%s is %g, must be an integer", attr->name, x);
        result.i = result.type == OPF_ATTR_INT ? (int64_t)x : 0;
        result.f = result.type == OPF_ATTR_FLOAT ? (float)x : 0;
    } else {
        if (item.kind != OPF_ITEM_ATTR || item.attr.type != result.type ||
            (result.type != OPF_ATTR_STRING && result.type != OPF_ATTR_INTS))
            return REFUSE(r, ATTR, "%s has another type", attr->name);
        item.attr.name = result.name;
        result = item.attr;
        result.s = result.type == OPF_ATTR_STRING ? opf_arena_copy_string(r->graph->arena, result.s, result.n) : NULL;
        result.ints = result.type == OPF_ATTR_INTS
                          ? opf_arena_copy(r->graph->arena, result.ints, result.n * sizeof *result.ints)
                          : NULL;
        if (result.s == NULL && result.ints == NULL)
            return OUT_OF_MEMORY;
    }
    return opf_node_set_attr(r->graph, node, result) ? MADE : OUT_OF_MEMORY;
}

static outcome set_attrs(rewriter *r, opf_node_id node, const opf_rule_expr *expr)
{
    if (expr->like != OPF_RULE_NO_NAME) {
        const opf_node *source = opf_graph_node(r->graph, r->match->node_of[expr->like]);
        for (uint32_t i = 0; i < source->n_attrs; i++)
            if (!opf_node_set_attr(r->graph, node, source->attrs[i]))
                return OUT_OF_MEMORY;
    }
    for (uint32_t i = 0; i < expr->n_attrs; i++) {
        outcome made = set_attr(r, node, &expr->attrs[i], expr->op);
        if (made != MADE)
            return made;
    }
    return MADE;
}

/* ---- nodes ---- */

/* A node that the match takes out cannot be read by what takes its place. */
static bool is_matched(const opf_match *m, opf_node_id node)
{
    for (uint32_t i = 0; i < m->n_nodes; i++)
        if (m->nodes[i] == node)
            return true;
    return false;
}

static outcome infer(rewriter *r, opf_node_id node)
{
    opf_error error = {0};
    opf_status status = opf_fuse_infer(r->match->context, node, &error);
    if (status == OPF_OUT_OF_MEMORY)
        return OUT_OF_MEMORY;
    return status == OPF_OK ? MADE : REFUSE(r, DTYPE, "%s", error.message);
}

static outcome make_node(rewriter *r, const opf_rule_expr *expr, uint32_t n_outputs, opf_node_id *node);

static outcome operand_item(rewriter *r, const opf_rule_expr *expr, opf_item *item)
{
    if (expr->kind != OPF_RULE_OPERATOR)
        return eval(r, expr, item);
    opf_node_id inner;
    outcome made = make_node(r, expr, 1, &inner);
    if (made == MADE)
        *item = (opf_item){.kind = OPF_ITEM_VALUE, .value = opf_graph_node(r->graph, inner)->outputs[0]};
    return made;
}

static outcome make_node(rewriter *r, const opf_rule_expr *expr, uint32_t n_outputs, opf_node_id *node)
{
    opf_item items[MAX_OPERANDS] = {{0}};
    opf_value_id inputs[MAX_OPERANDS], outputs[MAX_OPERANDS];
    if (expr->n_args > MAX_OPERANDS || n_outputs > MAX_OPERANDS || r->n_nodes == MAX_NEW)
        return REFUSE(r, BUDGET, "the rewrite is too large");
    for (uint32_t i = 0; i < expr->n_args; i++) {
        outcome made = operand_item(r, expr->args[i], &items[i]);
        if (made != MADE)
            return made;
    }
    uint32_t n = 0;
    for (uint32_t i = 0; i < expr->n_args; i++) {
        outcome made = operand_value(r, expr->op, items, expr->n_args, i, &inputs[i]);
        if (made != MADE)
            return made;
        if (is_matched(r->match, opf_graph_value(r->graph, inputs[i])->producer) && inputs[i] != 0)
            return REFUSE(r, NOT_CONVEX, "%s is matched, and would be read by what takes its place",
                          opf_graph_value(r->graph, inputs[i])->name);
        n = inputs[i] != 0 ? i + 1 : n;
    }
    for (uint32_t i = 0; i < n_outputs; i++)
        if ((outputs[i] = opf_graph_add_value(r->graph, NULL)) == 0)
            return OUT_OF_MEMORY;
    *node = opf_graph_add_node(r->graph, expr->op, expr->op->name, NULL, inputs, n, outputs, n_outputs);
    if (*node == 0)
        return OUT_OF_MEMORY;
    r->nodes[r->n_nodes++] = *node;
    outcome made = set_attrs(r, *node, expr);
    return made == MADE ? infer(r, *node) : made;
}

/* ---- the exchange ---- */

static outcome make_all(rewriter *r, opf_node_id *tops)
{
    opf_match *m = r->match;
    for (uint32_t i = 0; i < m->rule->n_lets; i++) {
        const opf_rule_statement *let = &m->rule->lets[i];
        opf_item item;
        outcome made = eval(r, let->value, &item);
        if (made != MADE)
            return made;
        opf_match_bind(m, let->targets[0], item);
    }
    for (uint32_t i = 0; i < m->rule->n_rewrites; i++) {
        const opf_rule_statement *rewrite = &m->rule->rewrites[i];
        outcome made = make_node(r, rewrite->value, rewrite->n_targets, &tops[i]);
        if (made != MADE)
            return made;
        for (uint32_t t = 0; t < rewrite->n_targets; t++) {
            const opf_value *old = opf_graph_value(r->graph, m->items[rewrite->targets[t]].value);
            const opf_value *new = opf_graph_value(r->graph, opf_graph_node(r->graph, tops[i])->outputs[t]);
            if (m->items[rewrite->targets[t]].value != 0 && !opf_legal_same(m->context, &new->info, &old->info, r->why))
                return REFUSED;
        }
    }
    return MADE;
}

static uint32_t count_contractions(const opf_graph *graph, const opf_node_id *nodes, uint32_t n)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < n; i++)
        count += (opf_graph_node(graph, nodes[i])->op->traits & OPF_CONTRACTION) != 0 ? 1 : 0;
    return count;
}

/* Each rewrite lowers (contractions, nodes, reads of nodes that stay): so they come to an end. */
static outcome check_gain(rewriter *r)
{
    const opf_match *m = r->match;
    uint32_t old = count_contractions(r->graph, m->nodes, m->n_nodes),
             new = count_contractions(r->graph, r->nodes, r->n_nodes);
    if (new < old || (new == old && r->n_nodes < m->n_nodes)) /* one that stays is read once less */
        return MADE;
    return REFUSE(r, NO_GAIN, "%u nodes would become %u, %u contractions %u", m->n_nodes, r->n_nodes, old, new);
}

static int compare_ids(const void *a, const void *b)
{
    opf_node_id x = *(const opf_node_id *)a, y = *(const opf_node_id *)b;
    return x < y ? -1 : x > y;
}

/* The matched node that the new one is called after: the one whose attributes it has, or the last. */
static opf_node_id namesake(const rewriter *r, const opf_rule_statement *rewrite)
{
    const opf_match *m = r->match;
    if (rewrite->value->like != OPF_RULE_NO_NAME)
        return m->node_of[rewrite->value->like];
    return opf_graph_value(r->graph, m->items[rewrite->targets[0]].value)->producer;
}

static bool join_origins(rewriter *r)
{
    opf_match *m = r->match;
    qsort(m->nodes, m->n_nodes, sizeof *m->nodes, compare_ids);
    for (uint32_t i = 0; i < r->n_nodes; i++)
        for (uint32_t k = 0; k < m->n_nodes; k++) {
            const opf_node *old = opf_graph_node(r->graph, m->nodes[k]);
            if (m->nodes[k] == m->stays)
                continue;
            if (old->n_origin != 0 ? !opf_node_join_origin(r->graph, r->nodes[i], m->nodes[k])
                                   : !opf_node_add_origin(r->graph, r->nodes[i], old->name))
                return false;
        }
    return true;
}

static bool exchange(rewriter *r, const opf_node_id *tops)
{
    opf_match *m = r->match;
    const char *names[MAX_NEW];
    if (!join_origins(r))
        return false;
    for (uint32_t i = 0; i < m->rule->n_rewrites; i++)
        names[i] = opf_graph_node(r->graph, namesake(r, &m->rule->rewrites[i]))->name;
    for (uint32_t i = 0; i < m->rule->n_rewrites; i++) {
        const opf_rule_statement *rewrite = &m->rule->rewrites[i];
        for (uint32_t t = 0; t < rewrite->n_targets; t++) {
            opf_value_id old = m->items[rewrite->targets[t]].value;
            if (!opf_graph_set_output(r->graph, tops[i], t, old))
                return false;
        }
    }
    for (uint32_t k = 0; k < m->n_nodes; k++)
        if (m->nodes[k] != m->stays)
            opf_graph_remove_node(r->graph, m->nodes[k]);
    for (uint32_t i = 0; i < m->rule->n_rewrites; i++) {
        bool taken = false;
        for (uint32_t k = 0; k < i; k++)
            taken = taken || names[k] == names[i];
        if (taken)
            continue;
        opf_graph_node(r->graph, tops[i])->name = names[i];
        if (!opf_map_put(&r->graph->node_names, names[i], tops[i]))
            return false;
    }
    return true;
}

opf_status opf_rule_rewrite(opf_match *match, bool *applied, opf_node_id *anchor, opf_refusal *why, opf_error *error)
{
    rewriter r = {.match = match, .graph = match->context->graph, .why = why, .error = error};
    opf_node_id tops[MAX_NEW] = {0};
    *applied = false;
    OPF_FAIL_IF(error, match->rule->n_rewrites > MAX_NEW, OPF_INVALID_ARGUMENT, "rule %s rewrites too much",
                match->rule->name);
    outcome made = make_all(&r, tops);
    if (made == MADE)
        made = check_gain(&r);
    if (made == MADE && !exchange(&r, tops))
        made = OUT_OF_MEMORY;
    OPF_OOM_IF(error, made == OUT_OF_MEMORY || match->failed);
    if (made == REFUSED) {
        for (uint32_t i = r.n_nodes; i > 0; i--)
            opf_graph_remove_node(r.graph, r.nodes[i - 1]);
        return OPF_OK;
    }
    *applied = true;
    *anchor = tops[0];
    return OPF_OK;
}
