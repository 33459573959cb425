/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes and literals: what agrees, and how a failure reads. */
#include "fuse/match.h"

#include <math.h>
#include <string.h>

/* ---- literals ---- */

/* A literal that the type can hold must be met exactly. One that it cannot is met by any rounding of it: to the type,
   or to the six digits or so that exporters write (1.4142099, 0.166667). */
static bool agrees(opf_type type, double found, double wanted)
{
    unsigned char element[16] = {0};
    opf_store_f64(type, element, 0, wanted);
    if (found == wanted || opf_load_f64(type, element, 0) == wanted)
        return found == wanted;
    double tolerance = type == OPF_FLOAT16 ? 0x1p-10 : type == OPF_BFLOAT16 ? 0x1p-7 : 4e-6;
    return fabs(found - wanted) <= tolerance * fabs(wanted);
}

static const char *operand_name(const opf_node *node, uint32_t input)
{
    static const struct {
        const opf_op *op;
        const char *names[2];
    } table[] = {{&opf_op_Pow, {"base", "exponent"}},
                 {&opf_op_Mul, {"factor", "factor"}},
                 {&opf_op_Div, {"dividend", "divisor"}},
                 {&opf_op_Add, {"addend", "addend"}},
                 {&opf_op_Sub, {"minuend", "subtrahend"}}};
    for (uint32_t i = 0; i < OPF_COUNT(table); i++)
        if (table[i].op == node->op && input < 2)
            return table[i].names[input];
    return input < node->op->n_inputs ? node->op->inputs[input].name : "operand";
}

/* A run-time value could be the number that is wanted only if it has one element. */
static bool may_be_number(const opf_graph *graph, opf_value_id value)
{
    const opf_value *v = opf_graph_value(graph, value);
    for (int32_t i = 0; i < v->info.rank; i++)
        if (!opf_dim_is(v->info.dims[i], 1))
            return false;
    return v->producer == 0;
}

bool opf_match_literal(opf_match *m, const opf_rule_expr *expr, opf_value_id value, opf_node_id reader, uint32_t input)
{
    const opf_graph *graph = m->context->graph;
    opf_value_id resolved = opf_match_resolve(graph, value);
    const opf_const *constant = resolved != 0 ? opf_graph_value(graph, resolved)->constant : NULL;
    opf_near near = {.code = OPF_MISS_CONST,
                     .why = OPF_WHY_CONSTANT,
                     .node = reader,
                     .value = resolved,
                     .a = operand_name(opf_graph_node(graph, reader), input),
                     .b = expr->text,
                     .literal = expr};
    if (expr == m->forgiven)
        return true;
    if (constant == NULL || constant->count != 1) {
        /* A tensor here is another form of expression, not a wrong constant. */
        if (resolved != 0 && !may_be_number(graph, resolved))
            near.code = OPF_MISS_OP;
        return opf_match_fail(m, near);
    }
    near.why = OPF_WHY_LITERAL;
    if (opf_types_have(OPF_TYPES_FLOAT, constant->type)) {
        near.x = opf_const_f64_at(constant, 0);
        return agrees(constant->type, near.x, expr->number) || opf_match_fail(m, near);
    }
    if (!opf_types_have(OPF_TYPES_INT, constant->type))
        return opf_match_fail(m, near);
    int64_t x = opf_const_i64_at(constant, 0);
    bool whole = fabs(expr->number) < 0x1p53 && expr->number == floor(expr->number);
    near.x = (double)x;
    return (whole && !expr->derived && x == (int64_t)expr->number) || opf_match_fail(m, near);
}

/* ---- attributes ---- */

static const opf_attr_def *find_definition(const opf_op *op, const char *name)
{
    for (uint32_t i = 0; i < op->n_attrs; i++)
        if (strcmp(op->attrs[i].name, name) == 0)
            return &op->attrs[i];
    return NULL;
}

/* The default as an attribute; OPF_ATTR_NONE where there is none: lists, tensors. */
static opf_attr default_attr(const opf_attr_def *def)
{
    opf_attr attr = {.name = def->name, .type = def->type, .i = def->i, .f = def->f, .s = def->s};
    if (def->type == OPF_ATTR_STRING && def->s != NULL)
        attr.n = (uint32_t)strlen(def->s);
    if ((def->type != OPF_ATTR_INT && def->type != OPF_ATTR_FLOAT && def->type != OPF_ATTR_STRING) || def->required ||
        (def->type == OPF_ATTR_STRING && def->s == NULL))
        attr.type = OPF_ATTR_NONE;
    return attr;
}

static bool meets(const opf_attr *attr, const opf_rule_expr *literal)
{
    switch (attr->type) {
    case OPF_ATTR_INT:
        return literal->kind == OPF_RULE_NUMBER && fabs(literal->number) < 0x1p53 &&
               (double)attr->i == literal->number && attr->i == (int64_t)literal->number;
    case OPF_ATTR_FLOAT:
        return literal->kind == OPF_RULE_NUMBER && agrees(OPF_FLOAT, (double)attr->f, literal->number);
    case OPF_ATTR_STRING:
        return literal->kind == OPF_RULE_TEXT && strlen(literal->text) == attr->n &&
               memcmp(literal->text, attr->s, attr->n) == 0;
    case OPF_ATTR_INTS:
        return literal->kind == OPF_RULE_LIST && literal->n_args == attr->n &&
               (attr->n == 0 || memcmp(literal->ints, attr->ints, attr->n * sizeof *attr->ints) == 0);
    default:
        return false;
    }
}

static bool is_default(const opf_attr *attr, const opf_attr_def *def)
{
    if (def == NULL || attr->type != def->type)
        return false;
    opf_attr usual = default_attr(def);
    if (usual.type == OPF_ATTR_NONE) /* an empty list says no more than none */
        return (attr->type == OPF_ATTR_INTS || attr->type == OPF_ATTR_FLOATS || attr->type == OPF_ATTR_STRINGS) &&
               attr->n == 0;
    if (attr->type == OPF_ATTR_INT)
        return attr->i == usual.i;
    if (attr->type == OPF_ATTR_FLOAT)
        return memcmp(&attr->f, &usual.f, sizeof attr->f) == 0;
    return attr->n == usual.n && memcmp(attr->s, usual.s, attr->n) == 0;
}

/* Attributes that mean nothing at inference may have any value. */
static bool is_idle(const opf_op *op, const char *attr)
{
    return op == &opf_op_BatchNormalization && strcmp(attr, "momentum") == 0;
}

static bool bind_attr(opf_match *m, uint32_t name, const opf_attr *attr)
{
    opf_item item = {.kind = OPF_ITEM_ATTR, .attr = *attr};
    if (attr->type == OPF_ATTR_NONE)
        item.kind = OPF_ITEM_ABSENT;
    if (attr->type == OPF_ATTR_INT || attr->type == OPF_ATTR_FLOAT) {
        item.kind = OPF_ITEM_NUMBER;
        item.number = attr->type == OPF_ATTR_INT ? (double)attr->i : (double)attr->f;
    }
    if (m->bound[name])
        return item.kind == OPF_ITEM_NUMBER && m->items[name].kind == OPF_ITEM_NUMBER &&
               item.number == m->items[name].number;
    return opf_match_bind(m, name, item);
}

static bool fail_attr(opf_match *m, opf_node_id node, const opf_attr *attr, const char *wanted,
                      const opf_rule_expr *literal)
{
    opf_near near = {
        .code = OPF_MISS_ATTR, .why = OPF_WHY_ATTR, .node = node, .a = attr->name, .b = wanted, .literal = literal};
    near.x = attr->type == OPF_ATTR_INT     ? (double)attr->i
             : attr->type == OPF_ATTR_FLOAT ? (double)attr->f
                                            : (double)NAN;
    return opf_match_fail(m, near);
}

static bool match_listed(opf_match *m, const opf_rule_attr *listed, opf_node_id id)
{
    const opf_node *node = opf_graph_node(m->context->graph, id);
    const opf_attr_def *def = find_definition(node->op, listed->name);
    const opf_attr *found = opf_node_attr(node, listed->name);
    const opf_attr attr = found != NULL ? *found : default_attr(def);
    if (listed->value == m->forgiven)
        return true;
    if (listed->value->kind == OPF_RULE_NAME)
        return bind_attr(m, listed->value->name, &attr) ||
               fail_attr(m, id, &attr, "what it is elsewhere in the match", NULL);
    return meets(&attr, listed->value) ||
           fail_attr(m, id, &attr, listed->value->text != NULL ? listed->value->text : "another list", listed->value);
}

bool opf_match_attrs(opf_match *m, const opf_rule_expr *expr, opf_node_id id)
{
    const opf_node *node = opf_graph_node(m->context->graph, id);
    for (uint32_t i = 0; i < expr->n_attrs; i++)
        if (!match_listed(m, &expr->attrs[i], id))
            return false;
    for (uint32_t i = 0; i < node->n_attrs && !expr->any_attrs; i++) {
        const opf_attr *attr = &node->attrs[i];
        bool listed = false;
        for (uint32_t k = 0; k < expr->n_attrs; k++)
            listed = listed || strcmp(expr->attrs[k].name, attr->name) == 0;
        const opf_attr_def *def = find_definition(node->op, attr->name);
        if (listed || is_default(attr, def) || is_idle(node->op, attr->name))
            continue;
        opf_attr usual = def != NULL ? default_attr(def) : (opf_attr){0};
        const char *wanted = "absent";
        if (usual.type == OPF_ATTR_INT)
            wanted = opf_arena_printf(m->context->scratch, "%lld", (long long)usual.i);
        else if (usual.type == OPF_ATTR_FLOAT)
            wanted = opf_arena_printf(m->context->scratch, "%g", (double)usual.f);
        else if (usual.type == OPF_ATTR_STRING)
            wanted = usual.s;
        return fail_attr(m, id, attr, wanted != NULL ? wanted : "the default", NULL);
    }
    return true;
}

/* ---- text ---- */

static const char *value_kind(const opf_graph *graph, opf_value_id value)
{
    const opf_value *v = opf_graph_value(graph, value);
    if (v->is_input)
        return "a graph input";
    if (v->constant != NULL)
        return "a constant";
    return v->producer != 0 ? opf_graph_node(graph, v->producer)->op_type : "absent";
}

const char *opf_near_text(const opf_match *m, const opf_near *near)
{
    const opf_graph *graph = m->context->graph;
    opf_arena *arena = m->context->scratch;
    const char *name = near->value != 0 ? opf_graph_value(graph, near->value)->name : "nothing";
    const char *text = NULL;
    switch (near->why) {
    case OPF_WHY_OPERATOR:
        text = opf_arena_printf(arena, "%s is %s, must be %s", name, value_kind(graph, near->value), near->a);
        break;
    case OPF_WHY_READER:
        text = opf_arena_printf(arena, "%s is not read by %s, as it must be", name, near->a);
        break;
    case OPF_WHY_OPERAND:
        text = opf_arena_printf(arena, "reads %s, must read %s", name, near->a);
        break;
    case OPF_WHY_LITERAL:
        text = opf_arena_printf(arena, "%s is %.9g, must be %s", near->a, near->x, near->b);
        break;
    case OPF_WHY_CONSTANT:
        text = opf_arena_printf(arena, "%s is %s (%s), must be the constant %s", near->a, name,
                                near->value != 0 && opf_graph_value(graph, near->value)->is_input
                                    ? "also a graph input"
                                    : value_kind(graph, near->value),
                                near->b);
        break;
    case OPF_WHY_ATTR:
        text = isnan(near->x) ? opf_arena_printf(arena, "%s is not %s, as it must be", near->a, near->b)
                              : opf_arena_printf(arena, "%s is %.9g, must be %s", near->a, near->x, near->b);
        break;
    case OPF_WHY_REASON:
        return near->a;
    }
    return text;
}
