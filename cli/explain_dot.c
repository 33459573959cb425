/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of the fused graph for Graphviz. An edge passes through what is no kernel (views, shape arithmetic). */
#include "explain.h"

#include <stdlib.h>
#include <string.h>

#define MAX_LABEL 200u /* bytes of a node's text in a label */
#define LINE      60u

static void print_quoted(FILE *out, const char *text, size_t most)
{
    size_t column = 0;
    for (size_t i = 0; text[i] != '\0'; i++) {
        if (i >= most && ((unsigned char)text[i] & 0xc0) != 0x80) { /* not inside a character */
            (void)fputs("...", out);
            return;
        }
        if (text[i] == '"' || text[i] == '\\')
            (void)putc('\\', out);
        (void)putc((unsigned char)text[i] < 0x20 ? ' ' : text[i], out);
        if (++column >= LINE && text[i] == ' ') {
            (void)fputs("\\n", out);
            column = 0;
        }
    }
}

static const char *color_of(const opf_graph_node_entry *node)
{
    return node->n_origin > 1 ? "#d5e8d4" : "#f5f5f5";
}

static void print_node(FILE *out, const opf_graph_node_entry *node, size_t index)
{
    (void)fprintf(out, "  n%zu [label=\"", index);
    print_quoted(out, node->op, SIZE_MAX);
    (void)fputs(": ", out);
    print_quoted(out, node->name, MAX_LABEL);
    (void)fprintf(out, "\\n%zu node%s of the model\\n", node->n_origin, node->n_origin == 1 ? "" : "s");
    print_quoted(out, node->text, MAX_LABEL);
    (void)fprintf(out, "\", fillcolor=\"%s\", tooltip=\"", color_of(node));
    for (size_t i = 0; i < node->n_origin; i++) {
        (void)fputs(i == 0 ? "" : ", ", out);
        print_quoted(out, node->origin[i], MAX_LABEL);
    }
    (void)fputs("\"];\n", out);
}

/* Edges into node `index` from each kernel that it reaches backwards through nodes that are none. */
static void print_edges(FILE *out, const opf_explanation *e, size_t index, size_t *seen, uint32_t *stack)
{
    size_t depth   = 0;
    stack[depth++] = (uint32_t)index;
    while (depth > 0) {
        const opf_graph_node_entry *node = &e->nodes[stack[--depth]];
        for (size_t i = 0; i < node->n_producers; i++) {
            uint32_t from = node->producers[i];
            if (from >= e->n_nodes || seen[from] == index + 1)
                continue;
            seen[from] = index + 1;
            if (e->nodes[from].is_kernel)
                (void)fprintf(out, "  n%u -> n%zu;\n", from, index);
            else
                stack[depth++] = from;
        }
    }
}

void cli_explain_dot(const cli_options *options, const opf_explanation *e, FILE *out)
{
    size_t   *seen  = cli_alloc(e->n_nodes, sizeof *seen);
    uint32_t *stack = cli_alloc(e->n_nodes + 1, sizeof *stack);
    (void)fputs("digraph opfuse {\n  label=\"", out);
    print_quoted(out, options->paths.items[0], SIZE_MAX);
    (void)fprintf(out, ": %zu nodes, %zu kernels\";\n", e->nodes_before, e->nodes_after);
    (void)fputs("  node [shape=box, style=\"rounded,filled\", fontname=\"sans-serif\", fontsize=10];\n", out);
    for (size_t i = 0; i < e->n_nodes; i++) {
        if (!e->nodes[i].is_kernel)
            continue;
        print_node(out, &e->nodes[i], i);
        print_edges(out, e, i, seen, stack);
    }
    (void)fputs("}\n", out);
    free(seen);
    free(stack);
}
