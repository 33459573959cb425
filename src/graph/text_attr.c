/* SPDX-License-Identifier: Apache-2.0 */
/* The reader of the textual syntax: attributes. */
#include "graph/text_parse.h"

#include <string.h>

static opf_status parse_tensor(opf_text_parser *p, opf_type type, opf_attr *attr)
{
    opf_info    info = {.type = type};
    const char *unused;
    OPF_TRY(opf_scan_shape(&p->scan, &info));
    if (opf_scan_at_name(&p->scan))
        OPF_TRY(opf_scan_name(&p->scan, &unused));
    (void)opf_scan_take(&p->scan, "=");
    attr->type = OPF_ATTR_TENSOR;
    return opf_scan_data(&p->scan, &info, &attr->tensor);
}

static opf_status parse_body(opf_text_parser *p, opf_text_scope *s, opf_text_draft *d, opf_attr *attr)
{
    if (d == NULL)
        return opf_scan_fail(&p->scan, "a step has no attributes that are graphs");
    opf_text_scope *body = OPF_NEW(p->scan.arena, opf_text_scope, 1);
    OPF_OOM_IF(p->scan.error, body == NULL);
    body->outer = s;
    attr->type  = OPF_ATTR_GRAPH;
    attr->i     = d->n_bodies;
    OPF_TRY(opf_text_parse_graph(p, body));
    OPF_TEXT_PUSH(p, d->bodies, d->n_bodies, d->bodies_capacity, body);
    return OPF_OK;
}

static opf_status parse_strings(opf_text_parser *p, opf_attr *attr)
{
    const char **list = NULL;
    uint32_t     capacity = 0, length;
    attr->type = OPF_ATTR_STRINGS;
    do {
        const char *string;
        OPF_TRY(opf_scan_string(&p->scan, &string, &length));
        OPF_TEXT_PUSH(p, list, attr->n, capacity, string);
    } while (opf_scan_take(&p->scan, ","));
    attr->strings = list;
    return OPF_OK;
}

static opf_status parse_numbers(opf_text_parser *p, opf_attr *attr, bool are_floats)
{
    int64_t *ints   = NULL;
    float   *floats = NULL;
    uint32_t n_ints = 0, ints_capacity = 0, n_floats = 0, floats_capacity = 0;
    do {
        opf_scan_number number;
        OPF_TRY(opf_scan_number_get(&p->scan, &number));
        are_floats = are_floats || number.is_float;
        OPF_TEXT_PUSH(p, ints, n_ints, ints_capacity, number.i);
        OPF_TEXT_PUSH(p, floats, n_floats, floats_capacity, (float)number.f);
    } while (opf_scan_take(&p->scan, ","));
    attr->type = are_floats ? OPF_ATTR_FLOATS : OPF_ATTR_INTS;
    attr->n    = n_ints;
    if (are_floats)
        attr->floats = floats;
    else
        attr->ints = ints;
    return OPF_OK;
}

/* declared: what the text says, NONE if it leaves that to the value. */
static opf_status parse_attr_list(opf_text_parser *p, opf_attr *attr, opf_attr_type declared)
{
    if (opf_scan_peek(&p->scan) == ']')
        attr->type = declared == OPF_ATTR_NONE ? OPF_ATTR_INTS : declared;
    else if (opf_scan_peek(&p->scan) == '"')
        OPF_TRY(parse_strings(p, attr));
    else if (opf_scan_at_number(&p->scan))
        OPF_TRY(parse_numbers(p, attr, declared == OPF_ATTR_FLOATS));
    else
        return opf_scan_fail(&p->scan, "a list holds numbers or strings");
    return opf_scan_expect(&p->scan, "]");
}

static opf_status parse_attr_number(opf_text_parser *p, opf_attr *attr, opf_attr_type declared)
{
    opf_scan_number number;
    OPF_TRY(opf_scan_number_get(&p->scan, &number));
    attr->type = number.is_float || declared == OPF_ATTR_FLOAT ? OPF_ATTR_FLOAT : OPF_ATTR_INT;
    if (attr->type == OPF_ATTR_FLOAT)
        attr->f = (float)number.f;
    else
        attr->i = number.i;
    return OPF_OK;
}

/* A tensor starts with its type, a graph with its name. */
static opf_status parse_attr_named(opf_text_parser *p, opf_text_scope *s, opf_text_draft *d, opf_attr *attr)
{
    const char *start = p->scan.at, *name;
    opf_type    type;
    if (*start != '"') {
        OPF_TRY(opf_scan_name(&p->scan, &name));
        char next = opf_scan_peek(&p->scan);
        if (next != '(' && opf_scan_find_type(name, &type))
            return parse_tensor(p, type, attr);
        p->scan.at = start;
        if (next == '(')
            return parse_body(p, s, d, attr);
        return opf_scan_fail(&p->scan, "expected the value of an attribute, found '%s'", name);
    }
    OPF_TRY(opf_scan_string(&p->scan, &attr->s, &attr->n));
    attr->type = OPF_ATTR_STRING;
    if (opf_scan_peek(&p->scan) != '(')
        return OPF_OK;
    p->scan.at = start; /* a graph with a quoted name */
    attr->s    = NULL;
    attr->n    = 0;
    return parse_body(p, s, d, attr);
}

static opf_status parse_declared(opf_text_parser *p, opf_attr_type *type)
{
    static const char *const names[] = {
        [OPF_ATTR_INT] = "int",       [OPF_ATTR_FLOAT] = "float",   [OPF_ATTR_STRING] = "string",
        [OPF_ATTR_INTS] = "ints",     [OPF_ATTR_FLOATS] = "floats", [OPF_ATTR_STRINGS] = "strings",
        [OPF_ATTR_TENSOR] = "tensor", [OPF_ATTR_GRAPH] = "graph"};
    *type = OPF_ATTR_NONE;
    if (!opf_scan_take(&p->scan, ":"))
        return OPF_OK;
    const char *word;
    OPF_TRY(opf_scan_name(&p->scan, &word));
    for (opf_attr_type t = OPF_ATTR_INT; t <= OPF_ATTR_GRAPH; t++)
        if (strcmp(names[t], word) == 0)
            *type = t;
    return *type != OPF_ATTR_NONE ? OPF_OK : opf_scan_unsupported(&p->scan, word);
}

static opf_status parse_attr(opf_text_parser *p, opf_text_scope *s, opf_text_draft *d, opf_attr *attr)
{
    opf_attr_type declared;
    OPF_TRY(opf_scan_name(&p->scan, &attr->name));
    OPF_TRY(parse_declared(p, &declared));
    OPF_TRY(opf_scan_expect(&p->scan, "="));
    (void)opf_scan_peek(&p->scan);
    const char *start = p->scan.at;
    if (opf_scan_take(&p->scan, "["))
        OPF_TRY(parse_attr_list(p, attr, declared));
    else if (opf_scan_at_number(&p->scan))
        OPF_TRY(parse_attr_number(p, attr, declared));
    else if (opf_scan_at_name(&p->scan))
        OPF_TRY(parse_attr_named(p, s, d, attr));
    else
        return opf_scan_fail(&p->scan, "the value of attribute '%s' is missing", attr->name);
    if (declared == OPF_ATTR_NONE || declared == attr->type)
        return OPF_OK;
    p->scan.at = start;
    return opf_scan_fail(&p->scan, "the value of attribute '%s' is not of its type", attr->name);
}

opf_status opf_text_parse_attrs(opf_text_parser *p, opf_text_scope *s, opf_text_draft *d, opf_attr **attrs, uint32_t *n,
                                uint32_t *capacity)
{
    if (!opf_scan_take(&p->scan, "<") || opf_scan_take(&p->scan, ">"))
        return OPF_OK;
    do {
        opf_attr attr = {.type = OPF_ATTR_NONE};
        OPF_TRY(parse_attr(p, s, d, &attr));
        if (opf_attrs_find(*attrs, *n, attr.name) != NULL)
            return opf_scan_fail(&p->scan, "attribute '%s' is there twice", attr.name);
        OPF_TEXT_PUSH(p, *attrs, *n, *capacity, attr);
    } while (opf_scan_take(&p->scan, ","));
    return opf_scan_expect(&p->scan, ">");
}
