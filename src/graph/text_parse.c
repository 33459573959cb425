/* SPDX-License-Identifier: Apache-2.0 */
/* The reader of the textual syntax: names, graphs and models. */
#include "graph/text_parse.h"

#include <string.h>

/* ---- names ---- */

opf_status opf_text_resolve(opf_text_parser *p, opf_text_scope *s, const char *name, opf_value_id *id)
{
    *id = opf_graph_find_value(s->graph, name);
    if (*id != 0 || s->outer == NULL)
        return OPF_OK;
    opf_value_id outer;
    OPF_TRY(opf_text_resolve(p, s->outer, name, &outer));
    if (outer == 0)
        return OPF_OK;
    *id = opf_graph_add_value(s->graph, name);
    OPF_OOM_IF(p->scan.error, *id == 0);
    opf_graph_value(s->graph, *id)->info = opf_graph_value(s->outer->graph, outer)->info;
    OPF_TEXT_PUSH(p, s->inner_ids, s->n_inner, s->inner_capacity, *id);
    OPF_TEXT_PUSH(p, s->outer_ids, s->n_outer, s->outer_capacity, outer);
    return OPF_OK;
}

static opf_status check_new(opf_text_parser *p, const opf_text_scope *s, const char *name, const char *start)
{
    if (*name != '\0' && opf_graph_find_value(s->graph, name) == 0)
        return OPF_OK;
    p->scan.at = start;
    if (*name == '\0')
        return opf_scan_fail(&p->scan, "a value needs a name");
    return opf_scan_fail(&p->scan, "'%s' is defined twice", name);
}

opf_status opf_text_define(opf_text_parser *p, opf_text_scope *s, const char *name, const char *start, opf_value_id *id)
{
    OPF_TRY(check_new(p, s, name, start));
    *id = opf_graph_add_value(s->graph, name);
    OPF_OOM_IF(p->scan.error, *id == 0);
    return OPF_OK;
}

opf_status opf_text_define_constant(opf_text_parser *p, opf_text_scope *s, const char *name, const char *start,
                                    const opf_const *constant)
{
    OPF_TRY(check_new(p, s, name, start));
    OPF_OOM_IF(p->scan.error, opf_graph_add_constant(s->graph, name, constant) == 0);
    return OPF_OK;
}

/* ---- graphs ---- */

/* float[N, 3] x; the type may be absent. */
static opf_status parse_port(opf_text_parser *p, opf_info *info, const char **name)
{
    *info          = (opf_info){.rank = -1, .n_values = -1};
    bool is_quoted = opf_scan_peek(&p->scan) == '"';
    OPF_TRY(opf_scan_name(&p->scan, name));
    char next = opf_scan_peek(&p->scan);
    if (is_quoted || (next != '[' && next != '(' && !opf_scan_at_name(&p->scan)))
        return OPF_OK;
    if (next == '(')
        return opf_scan_unsupported(&p->scan, *name);
    if (!opf_scan_find_type(*name, &info->type))
        return opf_scan_fail(&p->scan, "'%s' is no element type", *name);
    OPF_TRY(opf_scan_shape(&p->scan, info));
    return opf_scan_name(&p->scan, name);
}

static opf_status parse_inputs(opf_text_parser *p, opf_text_scope *s)
{
    OPF_TRY(opf_scan_expect(&p->scan, "("));
    while (!opf_scan_take(&p->scan, ")")) {
        opf_info     info;
        const char  *name, *start;
        opf_value_id id;
        (void)opf_scan_peek(&p->scan);
        start = p->scan.at;
        OPF_TRY(parse_port(p, &info, &name));
        if (opf_scan_peek(&p->scan) == '=')
            return opf_scan_unsupported(&p->scan, "an input with a default");
        OPF_TRY(opf_text_define(p, s, name, start, &id));
        opf_graph_value(s->graph, id)->info = info;
        OPF_OOM_IF(p->scan.error, !opf_graph_add_input(s->graph, id));
        if (opf_scan_peek(&p->scan) != ')')
            OPF_TRY(opf_scan_expect(&p->scan, ","));
    }
    return OPF_OK;
}

typedef struct output {
    const char *name, *start;
    opf_info    info;
} output;

static opf_status parse_graph_outputs(opf_text_parser *p, output **list, uint32_t *n)
{
    uint32_t capacity = 0;
    OPF_TRY(opf_scan_expect(&p->scan, "("));
    while (!opf_scan_take(&p->scan, ")")) {
        output o;
        (void)opf_scan_peek(&p->scan);
        o.start = p->scan.at;
        OPF_TRY(parse_port(p, &o.info, &o.name));
        OPF_TEXT_PUSH(p, *list, *n, capacity, o);
        if (opf_scan_peek(&p->scan) != ')')
            OPF_TRY(opf_scan_expect(&p->scan, ","));
    }
    return OPF_OK;
}

static opf_status add_outputs(opf_text_parser *p, opf_text_scope *s, const output *list, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        opf_value_id id;
        OPF_TRY(opf_text_resolve(p, s, list[i].name, &id));
        if (id == 0) {
            p->scan.at = list[i].start;
            return opf_scan_fail(&p->scan, "output '%s' is never defined", list[i].name);
        }
        opf_value *value = opf_graph_value(s->graph, id);
        if (value->info.type == OPF_TYPE_NONE)
            value->info = list[i].info;
        OPF_OOM_IF(p->scan.error, !opf_graph_add_output(s->graph, id));
    }
    return OPF_OK;
}

/* <float[2] w = {1, 2}, float[N] t>: constants; the types of other values are inferred, not kept. */
static opf_status parse_values(opf_text_parser *p, opf_text_scope *s)
{
    if (!opf_scan_take(&p->scan, "<") || opf_scan_take(&p->scan, ">"))
        return OPF_OK;
    do {
        opf_info         info;
        const char      *name, *start;
        const opf_const *constant;
        (void)opf_scan_peek(&p->scan);
        start = p->scan.at;
        OPF_TRY(parse_port(p, &info, &name));
        if (!opf_scan_take(&p->scan, "="))
            continue;
        if (info.type == OPF_TYPE_NONE)
            return opf_scan_fail(&p->scan, "constant '%s' needs a type", name);
        OPF_TRY(opf_scan_data(&p->scan, &info, &constant));
        OPF_TRY(opf_text_define_constant(p, s, name, start, constant));
    } while (opf_scan_take(&p->scan, ","));
    return opf_scan_expect(&p->scan, ">");
}

opf_status opf_text_parse_graph(opf_text_parser *p, opf_text_scope *s)
{
    const char *name;
    output     *outputs   = NULL;
    uint32_t    n_outputs = 0;
    if (p->scan.depth == OPF_SCAN_DEPTH)
        return opf_scan_fail(&p->scan, "graphs are nested deeper than %d", OPF_SCAN_DEPTH);
    p->scan.depth++;
    OPF_TRY(opf_scan_name(&p->scan, &name));
    s->graph = opf_graph_create(p->scan.arena, p->scan.dims, p->scan.consts, name);
    OPF_OOM_IF(p->scan.error, s->graph == NULL);
    s->graph->parent = s->outer == NULL ? NULL : s->outer->graph;
    OPF_TRY(parse_inputs(p, s));
    OPF_TRY(opf_scan_expect(&p->scan, "=>"));
    OPF_TRY(parse_graph_outputs(p, &outputs, &n_outputs));
    OPF_TRY(parse_values(p, s));
    OPF_TRY(opf_scan_expect(&p->scan, "{"));
    while (!opf_scan_take(&p->scan, "}"))
        OPF_TRY(opf_text_parse_node(p, s));
    p->scan.depth--;
    return add_outputs(p, s, outputs, n_outputs);
}

/* ---- models ---- */

static opf_status parse_opsets(opf_text_parser *p, int64_t *opset)
{
    OPF_TRY(opf_scan_expect(&p->scan, "["));
    while (!opf_scan_take(&p->scan, "]")) {
        const char *domain;
        uint32_t    n;
        int64_t     version;
        OPF_TRY(opf_scan_string(&p->scan, &domain, &n));
        OPF_TRY(opf_scan_expect(&p->scan, ":"));
        OPF_TRY(opf_scan_int(&p->scan, &version));
        if (*domain == '\0' || strcmp(domain, "ai.onnx") == 0)
            *opset = version;
        if (opf_scan_peek(&p->scan) != ']')
            OPF_TRY(opf_scan_expect(&p->scan, ","));
    }
    return OPF_OK;
}

/* What the header of a model says besides: a number, a string, or a list of pairs of strings. */
static opf_status skip_value(opf_text_parser *p)
{
    int64_t     i;
    const char *string;
    uint32_t    n;
    if (opf_scan_at_number(&p->scan))
        return opf_scan_int(&p->scan, &i);
    if (!opf_scan_take(&p->scan, "["))
        return opf_scan_string(&p->scan, &string, &n);
    while (!opf_scan_take(&p->scan, "]")) {
        OPF_TRY(opf_scan_string(&p->scan, &string, &n));
        OPF_TRY(opf_scan_expect(&p->scan, ":"));
        OPF_TRY(opf_scan_string(&p->scan, &string, &n));
        if (opf_scan_peek(&p->scan) != ']')
            OPF_TRY(opf_scan_expect(&p->scan, ","));
    }
    return OPF_OK;
}

static opf_status parse_header(opf_text_parser *p, int64_t *ir_version, int64_t *opset)
{
    if (!opf_scan_take(&p->scan, "<") || opf_scan_take(&p->scan, ">"))
        return OPF_OK;
    do {
        const char *key;
        OPF_TRY(opf_scan_name(&p->scan, &key));
        OPF_TRY(opf_scan_expect(&p->scan, ":"));
        if (strcmp(key, "ir_version") == 0)
            OPF_TRY(opf_scan_int(&p->scan, ir_version));
        else if (strcmp(key, "opset_import") == 0)
            OPF_TRY(parse_opsets(p, opset));
        else
            OPF_TRY(skip_value(p));
    } while (opf_scan_take(&p->scan, ","));
    return opf_scan_expect(&p->scan, ">");
}

static opf_status parse_model(opf_text_parser *p, opf_graph **graph, int64_t *ir_version, int64_t *opset)
{
    opf_text_scope main_scope = {.outer = NULL};
    OPF_TRY(parse_header(p, ir_version, opset));
    OPF_TRY(opf_text_parse_graph(p, &main_scope));
    char next = opf_scan_peek(&p->scan);
    if (next == '<')
        return opf_scan_unsupported(&p->scan, "a function");
    if (next != '\0')
        return opf_scan_fail(&p->scan, "expected the end, found '%c'", next);
    *graph = main_scope.graph;
    return OPF_OK;
}

opf_status opf_text_parse(const char *text, opf_find_op find, opf_arena *arena, opf_dims *dims, opf_const_pool *consts,
                          opf_graph **graph, int64_t *ir_version, int64_t *opset, opf_error *error)
{
    int64_t unused_version, unused_opset;
    opf_text_parser p = {
        .scan = {.text = text, .at = text, .arena = arena, .error = error, .dims = dims, .consts = consts},
        .find = find};
    *graph    = NULL;
    ir_version  = ir_version == NULL ? &unused_version : ir_version;
    opset       = opset == NULL ? &unused_opset : opset;
    *ir_version = *opset = 0;
    opf_text_locale locale = opf_text_locale_enter();
    opf_status      status = parse_model(&p, graph, ir_version, opset);
    opf_text_locale_leave(&locale);
    return status;
}
