/* SPDX-License-Identifier: Apache-2.0 */
/* The reader of the textual syntax: nodes and their steps. */
#include "graph/text_parse.h"

#include <string.h>

/* ---- operands ---- */

/* A value that must exist; "" is none. */
static opf_status parse_use(opf_text_parser *p, opf_text_scope *s, opf_value_id *id)
{
    (void)opf_scan_peek(&p->scan);
    const char *start = p->scan.at, *name;
    OPF_TRY(opf_scan_name(&p->scan, &name));
    *id = 0;
    if (*name == '\0')
        return OPF_OK;
    OPF_TRY(opf_text_resolve(p, s, name, id));
    if (*id != 0)
        return OPF_OK;
    p->scan.at = start;
    return opf_scan_fail(&p->scan, "'%s' is not defined before this use", name);
}

/* a, , "", b: until `end`, which is left. */
static opf_status parse_uses(opf_text_parser *p, opf_text_scope *s, const char *ends, opf_value_id **ids, uint32_t *n,
                             uint32_t *capacity)
{
    if (opf_scan_peek(&p->scan) != '\0' && strchr(ends, opf_scan_peek(&p->scan)) != NULL)
        return OPF_OK;
    do {
        opf_value_id id   = 0;
        char         next = opf_scan_peek(&p->scan);
        if (next != ',' && (next == '\0' || strchr(ends, next) == NULL))
            OPF_TRY(parse_use(p, s, &id));
        OPF_TEXT_PUSH(p, *ids, *n, *capacity, id);
    } while (opf_scan_take(&p->scan, ","));
    return OPF_OK;
}

/* ---- nodes ---- */

/* com.example.Op, "any domain".Op */
static opf_status parse_op_type(opf_text_parser *p, const char **domain, const char **op_type)
{
    OPF_TRY(opf_scan_name(&p->scan, op_type));
    *domain = "";
    while (opf_scan_take(&p->scan, ".")) {
        *domain = **domain == '\0' ? *op_type : opf_arena_printf(p->scan.arena, "%s.%s", *domain, *op_type);
        OPF_OOM_IF(p->scan.error, *domain == NULL);
        OPF_TRY(opf_scan_name(&p->scan, op_type));
    }
    if (strcmp(*domain, "ai.onnx") == 0)
        *domain = "";
    return **op_type != '\0' ? OPF_OK : opf_scan_fail(&p->scan, "an operator needs a name");
}

static opf_status parse_label(opf_text_parser *p, const char **label)
{
    if (!opf_scan_take(&p->scan, "["))
        return OPF_OK;
    OPF_TRY(opf_scan_name(&p->scan, label));
    return opf_scan_expect(&p->scan, "]");
}

/* ., .2, @0, "", name */
static opf_status parse_step_arg(opf_text_parser *p, opf_text_scope *s, opf_text_draft *d, uint32_t position,
                                 opf_arg *arg)
{
    int64_t      number = position;
    opf_value_id id;
    if (opf_scan_take(&p->scan, ".")) {
        if (*p->scan.at >= '0' && *p->scan.at <= '9')
            OPF_TRY(opf_scan_int(&p->scan, &number));
        if (number < 0 || number > position)
            return opf_scan_fail(&p->scan, "a step reads earlier steps only");
        *arg = number == 0 ? (opf_arg){.kind = OPF_ARG_ANCHOR} : (opf_arg){OPF_ARG_STEP, (uint32_t)number - 1};
        return OPF_OK;
    }
    if (opf_scan_take(&p->scan, "@")) {
        OPF_TRY(opf_scan_int(&p->scan, &number));
        if (number < 0 || number > INT32_MAX)
            return opf_scan_fail(&p->scan, "there is no such input");
        *arg = (opf_arg){OPF_ARG_INPUT, (uint32_t)number};
        return OPF_OK;
    }
    OPF_TRY(parse_use(p, s, &id));
    if (id == 0)
        return OPF_OK;
    uint32_t k = 0;
    while (k < d->n_operands && d->operands[k] != id)
        k++;
    *arg = (opf_arg){OPF_ARG_INPUT, UINT32_MAX - k};
    if (k == d->n_operands)
        OPF_TEXT_PUSH(p, d->operands, d->n_operands, d->operands_capacity, id);
    return OPF_OK;
}

/* A step has the type float unless it says so: `float16 Cast<to = 10>(.)`. */
static opf_status parse_step_head(opf_text_parser *p, opf_step *step)
{
    const char *domain;
    step->type = OPF_FLOAT;
    if (opf_scan_take(&p->scan, "?")) {
        step->type = OPF_TYPE_NONE;
        OPF_TRY(parse_op_type(p, &domain, &step->op_type));
    } else {
        OPF_TRY(parse_op_type(p, &domain, &step->op_type));
        opf_type type;
        if (opf_scan_at_name(&p->scan) && opf_scan_find_type(step->op_type, &type)) {
            step->type = type;
            OPF_TRY(parse_op_type(p, &domain, &step->op_type));
        }
    }
    step->op = p->find == NULL ? NULL : p->find(domain, step->op_type);
    return OPF_OK;
}

/* -> name: the output of this name, or a new one. */
static opf_status parse_step_output(opf_text_parser *p, opf_text_draft *d, opf_step *step)
{
    const char *name;
    uint32_t    o = d->n_outputs;
    OPF_TRY(opf_scan_name(&p->scan, &name));
    if (*name == '\0')
        name = NULL;
    for (uint32_t i = 0; name != NULL && i < d->n_outputs; i++)
        if (d->outputs[i] != NULL && strcmp(d->outputs[i], name) == 0)
            o = i;
    if (o == d->n_outputs)
        OPF_TEXT_PUSH(p, d->outputs, d->n_outputs, d->outputs_capacity, name);
    step->output = (int32_t)o;
    return OPF_OK;
}

static opf_status parse_step(opf_text_parser *p, opf_text_scope *s, opf_text_draft *d, opf_steps *steps)
{
    opf_step step     = {.output = -1};
    uint32_t capacity = 0;
    OPF_TRY(parse_label(p, &step.name));
    OPF_TRY(parse_step_head(p, &step));
    OPF_TRY(opf_text_parse_attrs(p, s, NULL, &step.attrs, &step.n_attrs, &capacity));
    OPF_TRY(opf_scan_expect(&p->scan, "("));
    while (opf_scan_peek(&p->scan) != ')') {
        if (step.n_args == OPF_STEP_ARGS)
            return opf_scan_fail(&p->scan, "a step has %d operands at most", OPF_STEP_ARGS);
        if (step.n_args != 0)
            OPF_TRY(opf_scan_expect(&p->scan, ","));
        OPF_TRY(parse_step_arg(p, s, d, steps->n, &step.args[step.n_args]));
        step.n_args++;
    }
    OPF_TRY(opf_scan_expect(&p->scan, ")"));
    if (opf_scan_take(&p->scan, "->"))
        OPF_TRY(parse_step_output(p, d, &step));
    OPF_TEXT_PUSH(p, steps->list, steps->n, steps->capacity, step);
    return OPF_OK;
}

static opf_status settle_operands(opf_text_parser *p, const opf_text_draft *d, opf_steps *steps)
{
    for (uint32_t i = 0; i < steps->n; i++)
        for (uint32_t a = 0; a < steps->list[i].n_args; a++) {
            opf_arg *arg = &steps->list[i].args[a];
            if (arg->kind != OPF_ARG_INPUT)
                continue;
            if (arg->index > INT32_MAX)
                arg->index = d->n_own_inputs + (UINT32_MAX - arg->index);
            else if (arg->index >= d->n_own_inputs || d->inputs[arg->index] == 0)
                return opf_scan_fail(&p->scan, "%s has no input %u", d->op_type, arg->index);
        }
    return OPF_OK;
}

static opf_status parse_outputs(opf_text_parser *p, opf_text_draft *d)
{
    while (opf_scan_peek(&p->scan) != '=') {
        const char *name = NULL;
        if (opf_scan_peek(&p->scan) != ',')
            OPF_TRY(opf_scan_name(&p->scan, &name));
        if (name != NULL && *name == '\0')
            name = NULL;
        OPF_TEXT_PUSH(p, d->outputs, d->n_outputs, d->outputs_capacity, name);
        if (!opf_scan_take(&p->scan, ","))
            break;
    }
    d->n_own_outputs = d->n_outputs;
    return opf_scan_expect(&p->scan, "=");
}

/* [label] y, z = Op<attributes>[prologue](a, b; captures)<attributes> | epilogue */
static opf_status parse_draft(opf_text_parser *p, opf_text_scope *s, opf_text_draft *d)
{
    OPF_TRY(parse_label(p, &d->label));
    OPF_TRY(parse_outputs(p, d));
    OPF_TRY(parse_op_type(p, &d->domain, &d->op_type));
    OPF_TRY(opf_text_parse_attrs(p, s, d, &d->attrs, &d->n_attrs, &d->attrs_capacity));
    if (opf_scan_take(&p->scan, "[")) {
        do
            OPF_TRY(parse_step(p, s, d, &d->prologue));
        while (opf_scan_take(&p->scan, "|"));
        OPF_TRY(opf_scan_expect(&p->scan, "]"));
    }
    OPF_TRY(opf_scan_expect(&p->scan, "("));
    OPF_TRY(parse_uses(p, s, ");", &d->inputs, &d->n_inputs, &d->inputs_capacity));
    if (opf_scan_take(&p->scan, ";"))
        OPF_TRY(parse_uses(p, s, ")", &d->captures, &d->n_captures, &d->captures_capacity));
    for (uint32_t k = 0; k < d->n_captures; k++)
        if (d->captures[k] == 0)
            return opf_scan_fail(&p->scan, "a captured value cannot be absent");
    OPF_TRY(opf_scan_expect(&p->scan, ")"));
    OPF_TRY(opf_text_parse_attrs(p, s, d, &d->attrs, &d->n_attrs, &d->attrs_capacity));
    d->n_own_inputs = d->n_inputs;
    while (opf_scan_take(&p->scan, "|"))
        OPF_TRY(parse_step(p, s, d, &d->epilogue));
    for (uint32_t k = 0; k < d->n_operands; k++)
        OPF_TEXT_PUSH(p, d->inputs, d->n_inputs, d->inputs_capacity, d->operands[k]);
    OPF_TRY(settle_operands(p, d, &d->prologue));
    return settle_operands(p, d, &d->epilogue);
}

/* What the bodies read of this graph without saying so becomes an input of the node and of every body. */
static opf_status join_captures(opf_text_parser *p, opf_text_draft *d)
{
    uint32_t n_said = d->n_captures;
    for (uint32_t b = 0; b < d->n_bodies; b++) {
        if (d->bodies[b]->graph->n_inputs < n_said)
            return opf_scan_fail(&p->scan, "a body has less inputs than the node has captures");
        for (uint32_t i = 0; i < d->bodies[b]->n_outer; i++) {
            uint32_t k = n_said;
            while (k < d->n_captures && d->captures[k] != d->bodies[b]->outer_ids[i])
                k++;
            if (k == d->n_captures)
                OPF_TEXT_PUSH(p, d->captures, d->n_captures, d->captures_capacity, d->bodies[b]->outer_ids[i]);
        }
    }
    for (uint32_t b = 0; b < d->n_bodies; b++)
        for (uint32_t k = n_said; k < d->n_captures; k++) {
            opf_text_scope   *body = d->bodies[b];
            uint32_t i    = 0;
            while (i < body->n_outer && body->outer_ids[i] != d->captures[k])
                i++;
            opf_value_id id = i < body->n_outer ? body->inner_ids[i] : 0;
            if (id == 0) {
                const opf_value *outer = opf_graph_value(body->outer->graph, d->captures[k]);
                id                     = opf_graph_add_value(body->graph, outer->name);
                OPF_OOM_IF(p->scan.error, id == 0);
                opf_graph_value(body->graph, id)->info = outer->info;
            }
            OPF_OOM_IF(p->scan.error, !opf_graph_add_input(body->graph, id));
        }
    for (uint32_t k = 0; k < d->n_captures; k++)
        OPF_TEXT_PUSH(p, d->inputs, d->n_inputs, d->inputs_capacity, d->captures[k]);
    return OPF_OK;
}

static opf_status add_bodies(opf_text_parser *p, opf_text_scope *s, const opf_text_draft *d, opf_node_id id)
{
    opf_graph **bodies = OPF_NEW(p->scan.arena, opf_graph *, d->n_bodies);
    OPF_OOM_IF(p->scan.error, bodies == NULL);
    for (uint32_t b = 0; b < d->n_bodies; b++) {
        bodies[b]              = d->bodies[b]->graph;
        bodies[b]->parent_node = id;
    }
    opf_graph_node(s->graph, id)->bodies   = bodies;
    opf_graph_node(s->graph, id)->n_bodies = d->n_bodies;
    return OPF_OK;
}

static opf_status add_node(opf_text_parser *p, opf_text_scope *s, opf_text_draft *d, const char *start)
{
    opf_value_id *outputs = OPF_NEW(p->scan.arena, opf_value_id, d->n_outputs);
    OPF_OOM_IF(p->scan.error, outputs == NULL);
    const char *name = d->label;
    for (uint32_t i = 0; i < d->n_outputs; i++) {
        if (d->outputs[i] == NULL)
            continue;
        OPF_TRY(opf_text_define(p, s, d->outputs[i], start, &outputs[i]));
        name = name == NULL ? d->outputs[i] : name;
    }
    OPF_TRY(join_captures(p, d));
    const opf_op *op = p->find == NULL ? NULL : p->find(d->domain, d->op_type);
    opf_node_id id = opf_graph_add_node(s->graph, op, d->op_type, name, d->inputs, d->n_inputs, outputs, d->n_outputs);
    OPF_OOM_IF(p->scan.error, id == 0);
    opf_node *node      = opf_graph_node(s->graph, id);
    node->domain        = d->domain;
    node->attrs         = d->attrs;
    node->n_attrs       = d->n_attrs;
    node->n_own_inputs  = d->n_own_inputs;
    node->n_captures    = d->n_captures;
    node->n_own_outputs = d->n_own_outputs;
    node->prologue      = d->prologue;
    node->epilogue      = d->epilogue;
    OPF_OOM_IF(p->scan.error, !opf_node_add_origin(s->graph, id, node->name));
    return add_bodies(p, s, d, id);
}

/* The constant that a Constant node stands for, NULL if it is no such node. */
static opf_status constant_of(opf_text_parser *p, const opf_text_draft *d, const opf_const **constant)
{
    *constant = NULL;
    if (strcmp(d->op_type, "Constant") != 0 || *d->domain != '\0' || d->n_attrs != 1 || d->n_inputs != 0 ||
        d->n_outputs != 1 || d->outputs[0] == NULL || d->epilogue.n != 0)
        return OPF_OK;
    const opf_attr *attr = &d->attrs[0];
    opf_const_pool *pool = p->scan.consts;
    const int64_t   n    = attr->n;
    if (attr->type == OPF_ATTR_TENSOR && strcmp(attr->name, "value") == 0)
        *constant = attr->tensor;
    else if (attr->type == OPF_ATTR_INT && strcmp(attr->name, "value_int") == 0)
        *constant = opf_const_bytes(pool, OPF_INT64, 0, NULL, opf_arena_copy(p->scan.arena, &attr->i, sizeof attr->i),
                                    sizeof attr->i);
    else if (attr->type == OPF_ATTR_FLOAT && strcmp(attr->name, "value_float") == 0)
        *constant = opf_const_bytes(pool, OPF_FLOAT, 0, NULL, opf_arena_copy(p->scan.arena, &attr->f, sizeof attr->f),
                                    sizeof attr->f);
    else if (attr->type == OPF_ATTR_INTS && strcmp(attr->name, "value_ints") == 0)
        *constant = opf_const_bytes(pool, OPF_INT64, 1, &n, attr->ints, attr->n * sizeof *attr->ints);
    else if (attr->type == OPF_ATTR_FLOATS && strcmp(attr->name, "value_floats") == 0)
        *constant = opf_const_bytes(pool, OPF_FLOAT, 1, &n, attr->floats, attr->n * sizeof *attr->floats);
    else
        return OPF_OK;
    OPF_OOM_IF(p->scan.error, *constant == NULL || ((*constant)->data == NULL && (*constant)->bytes != 0));
    return OPF_OK;
}

opf_status opf_text_parse_node(opf_text_parser *p, opf_text_scope *s)
{
    (void)opf_scan_peek(&p->scan);
    const char      *start = p->scan.at;
    opf_text_draft            d     = {.label = NULL};
    const opf_const *constant;
    OPF_TRY(parse_draft(p, s, &d));
    OPF_TRY(constant_of(p, &d, &constant));
    return constant != NULL ? opf_text_define_constant(p, s, d.outputs[0], start, constant) : add_node(p, s, &d, start);
}
