/* SPDX-License-Identifier: Apache-2.0 */
/* The writer of the textual syntax. */
#include "graph/text.h"

#include "graph/text_scan.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHORT_CONSTANT = 16 }; /* elements that are written even without data */

typedef struct writer {
    opf_text        *text;
    const opf_graph *graph;
    bool             with_data;
    int              indent;
} writer;

static void write_graph(const writer *w);

/* ---- names and numbers ---- */

static void write_string(opf_text *text, const char *s, size_t n)
{
    opf_text_add_bytes(text, "\"", 1);
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        if (c < 0x20 || c == 0x7f)
            opf_text_add(text, "\\x%02x", (unsigned)c);
        else
            opf_text_add(text, c == '"' || c == '\\' ? "\\%c" : "%c", c);
    }
    opf_text_add_bytes(text, "\"", 1);
}

static void write_name(opf_text *text, const char *name)
{
    if (name[0] != '\0' && *opf_text_skip_identifier(name) == '\0')
        opf_text_add(text, "%s", name);
    else
        write_string(text, name, strlen(name));
}

static void write_value_name(const writer *w, opf_value_id id)
{
    write_name(w->text, id == 0 ? "" : opf_graph_value(w->graph, id)->name);
}

/* The shortest of up to `most` digits that reads back as x; with a point or exponent if it must look like a float. */
static void write_float(opf_text *text, double x, bool is_float, bool must_look)
{
    char buffer[40];
    if (isnan(x) || isinf(x)) {
        opf_text_add(text, "%s", isnan(x) ? "nan" : x < 0 ? "-inf" : "inf");
        return;
    }
    for (int digits = 6; digits <= 17; digits++) {
        (void)snprintf(buffer, sizeof buffer, "%.*g", digits, x);
        double back = strtod(buffer, NULL);
        if (is_float ? (float)back == (float)x : back == x)
            break;
    }
    opf_text_add(text, "%s%s", buffer, must_look && strpbrk(buffer, ".e") == NULL ? ".0" : "");
}

static void write_element(opf_text *text, opf_type type, const void *data, size_t i)
{
    if (opf_text_is_raw(type))
        opf_text_add(text, "%lld", (long long)opf_text_raw_get(type, data, i));
    else if (opf_types_have(OPF_TYPES_FLOAT, type))
        write_float(text, opf_load_f64(type, data, i), type != OPF_DOUBLE, false);
    else if (type == OPF_UINT64)
        opf_text_add(text, "%llu", (unsigned long long)opf_load_i64(type, data, i));
    else
        opf_text_add(text, "%lld", (long long)opf_load_i64(type, data, i));
}

/* ---- constants and types ---- */

static void write_data(const writer *w, const opf_const *constant)
{
    bool is_known = constant->type != OPF_STRING && constant->type != OPF_COMPLEX64 && constant->type != OPF_COMPLEX128;
    const void *data     = constant->data;
    if (!is_known || (!w->with_data && constant->count > SHORT_CONSTANT)) {
        opf_text_add(w->text, "{…}");
        return;
    }
    if (constant->kind != OPF_CONST_BYTES) {
        void *buffer = opf_arena_alloc(w->text->arena, opf_const_size(constant));
        if (buffer == NULL) {
            w->text->failed = true;
            return;
        }
        opf_const_write(constant, buffer);
        data = buffer;
    }
    opf_text_add(w->text, "{");
    for (size_t i = 0; i < constant->count; i++) {
        opf_text_add(w->text, i == 0 ? "" : ", ");
        write_element(w->text, constant->type, data, i);
    }
    opf_text_add(w->text, "}");
}

static void write_const_type(const writer *w, const opf_const *constant)
{
    opf_text_add(w->text, "%s", opf_type_name(constant->type));
    for (int32_t i = 0; i < constant->rank; i++)
        opf_text_add(w->text, "%s%lld", i == 0 ? "[" : ",", (long long)constant->dims[i]);
    opf_text_add(w->text, constant->rank == 0 ? "" : "]");
}

static void write_dim(const writer *w, opf_dim dim)
{
    const char *symbol = opf_dim_symbol_name(w->graph->dims, dim);
    if (symbol != NULL)
        write_name(w->text, symbol);
    else
        opf_dim_print(w->graph->dims, dim, w->text);
}

static void write_port(const writer *w, opf_value_id id)
{
    const opf_info *info = &opf_graph_value(w->graph, id)->info;
    if (info->type != OPF_TYPE_NONE) {
        opf_text_add(w->text, "%s%s", opf_type_name(info->type), info->rank < 0 ? "[]" : "");
        for (int32_t i = 0; i < info->rank; i++) {
            opf_text_add(w->text, i == 0 ? "[" : ",");
            write_dim(w, info->dims[i]);
        }
        opf_text_add(w->text, info->rank > 0 ? "] " : " ");
    }
    write_value_name(w, id);
}

static void write_ports(const writer *w, const opf_value_id *ids, uint32_t n)
{
    opf_text_add(w->text, "(");
    for (uint32_t i = 0; i < n; i++) {
        opf_text_add(w->text, i == 0 ? "" : ", ");
        write_port(w, ids[i]);
    }
    opf_text_add(w->text, ")");
}

/* ---- attributes ---- */

static void write_list(const writer *w, const opf_attr *attr)
{
    opf_text_add(w->text, "[");
    for (uint32_t i = 0; i < attr->n; i++) {
        opf_text_add(w->text, i == 0 ? "" : ", ");
        if (attr->type == OPF_ATTR_INTS)
            opf_text_add(w->text, "%lld", (long long)attr->ints[i]);
        else if (attr->type == OPF_ATTR_FLOATS)
            write_float(w->text, (double)attr->floats[i], true, true);
        else
            write_string(w->text, attr->strings[i], strlen(attr->strings[i]));
    }
    opf_text_add(w->text, "]");
}

static void write_attr(const writer *w, const opf_attr *attr, opf_graph *const *bodies)
{
    static const char *const list_types[] = {
        [OPF_ATTR_INTS] = "ints", [OPF_ATTR_FLOATS] = "floats", [OPF_ATTR_STRINGS] = "strings"};
    write_name(w->text, attr->name);
    bool is_list = attr->type == OPF_ATTR_INTS || attr->type == OPF_ATTR_FLOATS || attr->type == OPF_ATTR_STRINGS;
    if (is_list && attr->n == 0) /* nothing else tells the type */
        opf_text_add(w->text, ": %s", list_types[attr->type]);
    opf_text_add(w->text, " = ");
    switch (attr->type) {
    case OPF_ATTR_INT:
        opf_text_add(w->text, "%lld", (long long)attr->i);
        break;
    case OPF_ATTR_FLOAT:
        write_float(w->text, (double)attr->f, true, true);
        break;
    case OPF_ATTR_STRING:
        write_string(w->text, attr->s, attr->n);
        break;
    case OPF_ATTR_TENSOR:
        write_const_type(w, attr->tensor);
        opf_text_add(w->text, " ");
        write_data(w, attr->tensor);
        break;
    case OPF_ATTR_GRAPH:
        if (bodies != NULL) /* steps have none */
            write_graph(&(writer){w->text, bodies[attr->i], w->with_data, w->indent + 1});
        break;
    default:
        write_list(w, attr);
        break;
    }
}

static void write_attrs(const writer *w, const opf_attr *attrs, uint32_t n, opf_graph *const *bodies)
{
    if (n == 0)
        return;
    opf_text_add(w->text, "<");
    for (uint32_t i = 0; i < n; i++) {
        opf_text_add(w->text, i == 0 ? "" : ", ");
        write_attr(w, &attrs[i], bodies);
    }
    opf_text_add(w->text, ">");
}

/* ---- nodes ---- */

static void write_step_arg(const writer *w, const opf_node *node, opf_arg arg, uint32_t position)
{
    switch (arg.kind) {
    case OPF_ARG_NONE:
        opf_text_add(w->text, "\"\"");
        break;
    case OPF_ARG_ANCHOR:
        opf_text_add(w->text, position == 0 ? "." : ".0");
        break;
    case OPF_ARG_STEP:
        if (arg.index + 1 == position)
            opf_text_add(w->text, ".");
        else
            opf_text_add(w->text, ".%u", arg.index + 1);
        break;
    case OPF_ARG_INPUT:
        if (arg.index < node->n_own_inputs)
            opf_text_add(w->text, "@%u", arg.index);
        else
            write_value_name(w, node->inputs[arg.index]);
        break;
    }
}

static void write_steps(const writer *w, const opf_node *node, const opf_steps *steps, const char *before)
{
    for (uint32_t s = 0; s < steps->n; s++) {
        const opf_step *step = &steps->list[s];
        opf_text_add(w->text, "%s", s == 0 ? before : " | ");
        if (w->with_data && step->name != NULL) {
            opf_text_add(w->text, "[");
            write_name(w->text, step->name);
            opf_text_add(w->text, "] ");
        }
        if (step->type != OPF_FLOAT)
            opf_text_add(w->text, "%s ", opf_type_name(step->type));
        opf_text_add(w->text, "%s", step->op_type);
        write_attrs(w, step->attrs, step->n_attrs, NULL);
        opf_text_add(w->text, "(");
        for (uint32_t a = 0; a < step->n_args; a++) {
            opf_text_add(w->text, a == 0 ? "" : ", ");
            write_step_arg(w, node, step->args[a], s);
        }
        opf_text_add(w->text, ")");
        if (step->output >= 0) {
            opf_text_add(w->text, " -> ");
            write_value_name(w, node->outputs[step->output]);
        }
    }
}

static bool is_dotted(const char *name)
{
    const char *end = opf_text_skip_identifier(name);
    return end != name && (*end == '\0' || (*end == '.' && is_dotted(end + 1)));
}

static void write_op_type(const writer *w, const opf_node *node)
{
    const char *domain = node->domain != NULL ? node->domain : "";
    if (is_dotted(domain))
        opf_text_add(w->text, "%s.", domain);
    else if (*domain != '\0') {
        write_string(w->text, domain, strlen(domain));
        opf_text_add(w->text, ".");
    }
    write_name(w->text, node->op_type);
}

/* [name] y, z = Op<attributes>[prologue](a, b; captures) | epilogue */
static void write_node(const writer *w, const opf_node *node)
{
    const char *first =
        node->n_outputs != 0 && node->outputs[0] != 0 ? opf_graph_value(w->graph, node->outputs[0])->name : "";
    if (node->name != NULL && strcmp(node->name, first) != 0) {
        opf_text_add(w->text, "[");
        write_name(w->text, node->name);
        opf_text_add(w->text, "] ");
    }
    for (uint32_t i = 0; i < node->n_own_outputs; i++) {
        opf_text_add(w->text, i == 0 ? "" : ", ");
        write_value_name(w, node->outputs[i]);
    }
    opf_text_add(w->text, node->n_own_outputs == 0 ? "= " : " = ");
    write_op_type(w, node);
    write_attrs(w, node->attrs, node->n_attrs, node->bodies);
    write_steps(w, node, &node->prologue, "[");
    opf_text_add(w->text, node->prologue.n != 0 ? "](" : "(");
    for (uint32_t i = 0; i < node->n_own_inputs; i++) {
        opf_text_add(w->text, i == 0 ? "" : ", ");
        write_value_name(w, node->inputs[i]);
    }
    for (uint32_t i = node->n_inputs - node->n_captures; i < node->n_inputs; i++) {
        opf_text_add(w->text, i == node->n_inputs - node->n_captures ? "; " : ", ");
        write_value_name(w, node->inputs[i]);
    }
    opf_text_add(w->text, ")");
    write_steps(w, node, &node->epilogue, " | ");
}

/* ---- graphs ---- */

static void write_constants(const writer *w)
{
    bool any = false;
    for (opf_value_id id = 1; id < w->graph->n_values; id++) {
        const opf_value *value = opf_graph_value(w->graph, id);
        if (value->constant == NULL || value->n_uses == 0)
            continue;
        opf_text_add(w->text, any ? ",\n%*s" : "\n%*s<", 4 * w->indent + (any ? 1 : 0), "");
        write_const_type(w, value->constant);
        opf_text_add(w->text, " ");
        write_name(w->text, value->name);
        opf_text_add(w->text, " = ");
        write_data(w, value->constant);
        any = true;
    }
    opf_text_add(w->text, any ? ">" : "");
}

static void write_graph(const writer *w)
{
    const opf_graph *graph = w->graph;
    write_name(w->text, graph->name != NULL && graph->name[0] != '\0' ? graph->name : "graph");
    opf_text_add(w->text, " ");
    write_ports(w, graph->inputs, graph->n_inputs);
    opf_text_add(w->text, " => ");
    write_ports(w, graph->outputs, graph->n_outputs);
    write_constants(w);
    opf_text_add(w->text, "\n%*s{\n", 4 * w->indent, "");
    opf_node_id *order = NULL;
    uint32_t     n     = 0;
    /* A graph that is broken is still worth seeing: then the nodes come as they are numbered. */
    bool sorted = opf_graph_sort(graph, w->text->arena, &order, &n, NULL) == OPF_OK;
    for (uint32_t i = 0; i < (sorted ? n : graph->n_nodes); i++) {
        const opf_node *node = opf_graph_node(graph, sorted ? order[i] : i);
        if (!opf_node_is_alive(node))
            continue;
        opf_text_add(w->text, "%*s", 4 * (w->indent + 1), "");
        write_node(w, node);
        opf_text_add(w->text, "\n");
    }
    opf_text_add(w->text, "%*s}", 4 * w->indent, "");
}

void opf_text_graph(opf_text *text, const opf_graph *graph, bool with_data)
{
    opf_text_locale locale = opf_text_locale_enter();
    write_graph(&(writer){text, graph, with_data, 0});
    opf_text_add(text, "\n");
    opf_text_locale_leave(&locale);
}

void opf_text_node(opf_text *text, const opf_graph *graph, opf_node_id node)
{
    opf_text_locale locale = opf_text_locale_enter();
    write_node(&(writer){text, graph, false, 0}, opf_graph_node(graph, node));
    opf_text_locale_leave(&locale);
}
