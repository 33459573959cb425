/* SPDX-License-Identifier: Apache-2.0 */
/* Expressions of where, let and rewrite (operators apart: rewrite.c makes nodes of them). */
#include "fuse/match.h"

#include <string.h>

const opf_const *opf_item_constant(const opf_graph *graph, const opf_item *item)
{
    if (item->kind == OPF_ITEM_CONST)
        return item->constant;
    return item->kind == OPF_ITEM_VALUE ? opf_graph_value(graph, item->value)->constant : NULL;
}

bool opf_item_number(const opf_graph *graph, const opf_item *item, double *x)
{
    const opf_const *constant = opf_item_constant(graph, item);
    if (item->kind == OPF_ITEM_NUMBER)
        *x = item->number;
    if (constant == NULL || constant->count != 1)
        return item->kind == OPF_ITEM_NUMBER;
    if (opf_types_have(OPF_TYPES_FLOAT, constant->type))
        *x = opf_const_f64_at(constant, 0);
    else if (opf_types_have(OPF_TYPES_INT, constant->type))
        *x = (double)opf_const_i64_at(constant, 0);
    else
        return false;
    return true;
}

const char *opf_rule_arg_name(const opf_rule_call *call, uint32_t i)
{
    const opf_rule_expr *arg = call->expr->args[i];
    if (arg->kind == OPF_RULE_NAME)
        return call->rule->names[arg->name];
    return arg->text != NULL ? arg->text : "operand";
}

static bool eval_call(opf_match *m, const opf_rule_expr *expr, opf_item *result, opf_refusal *why)
{
    opf_item args[OPF_FUNCTION_ARGS] = {{0}};
    for (uint32_t i = 0; i < expr->n_args; i++)
        if (!opf_rule_eval(m, expr->args[i], &args[i], why))
            return false;
    const opf_rule_call call = {.context = m->context,
                                .rule = m->rule,
                                .expr = expr,
                                .args = args,
                                .n_args = expr->n_args,
                                .result = result,
                                .why = why,
                                .failed = &m->failed};
    for (uint32_t i = 0; i < expr->n_args && !expr->function->absent_is_fine; i++)
        if (args[i].kind == OPF_ITEM_ABSENT)
            return opf_refuse(m->context, why, OPF_MISS_CONST, 0, "%s is absent", opf_rule_arg_name(&call, i));
    return expr->function->call(&call);
}

bool opf_rule_eval(opf_match *m, const opf_rule_expr *expr, opf_item *result, opf_refusal *why)
{
    *result = (opf_item){0};
    switch (expr->kind) {
    case OPF_RULE_NAME: /* not bound by this block: absent */
        if (m->bound[expr->name])
            *result = m->items[expr->name];
        return true;
    case OPF_RULE_NUMBER:
        *result = (opf_item){.kind = OPF_ITEM_NUMBER, .number = expr->number};
        return true;
    case OPF_RULE_TEXT:
        *result = (opf_item){.kind = OPF_ITEM_ATTR,
                             .attr = {.type = OPF_ATTR_STRING, .s = expr->text, .n = (uint32_t)strlen(expr->text)}};
        return true;
    case OPF_RULE_LIST:
        *result =
            (opf_item){.kind = OPF_ITEM_ATTR, .attr = {.type = OPF_ATTR_INTS, .ints = expr->ints, .n = expr->n_args}};
        return true;
    case OPF_RULE_FUNCTION:
        return eval_call(m, expr, result, why);
    default:
        return opf_refuse(m->context, why, OPF_MISS_OP, 0, "an operator cannot be computed here");
    }
}
