/* SPDX-License-Identifier: Apache-2.0 */
#include "explain.h"

static json_t *counts_json(const opf_op_count *counts, size_t n)
{
    json_t *object = json_object();
    for (size_t i = 0; i < n; i++)
        cli_json_set(object, counts[i].op, json_integer((json_int_t)counts[i].count));
    return object;
}

static json_t *fusions_json(const opf_explanation *e)
{
    json_t *list = json_array();
    for (size_t i = 0; i < e->n_fusions; i++) {
        const opf_fusion_entry *f      = &e->fusions[i];
        json_t                 *object = json_object();
        cli_json_set(object, "rule", cli_json_text(f->rule));
        cli_json_set(object, "anchor", cli_json_text(f->anchor));
        cli_json_set(object, "origin", cli_json_texts(f->origin, f->n_origin));
        cli_json_add(list, object);
    }
    return list;
}

static json_t *missed_json(const opf_explanation *e)
{
    json_t *list = json_array();
    for (size_t i = 0; i < e->n_missed; i++) {
        const opf_miss_entry *m      = &e->missed[i];
        json_t               *object = json_object();
        cli_json_set(object, "rule", cli_json_text(m->rule));
        cli_json_set(object, "start", cli_json_text(m->start));
        cli_json_set(object, "code", cli_json_text(m->code));
        cli_json_set(object, "node", cli_json_text(m->node));
        cli_json_set(object, "reason", cli_json_text(m->reason));
        cli_json_set(object, "remedy", cli_json_text(m->remedy));
        cli_json_set(object, "matched", json_integer((json_int_t)m->matched));
        cli_json_set(object, "of", json_integer((json_int_t)m->of));
        cli_json_add(list, object);
    }
    return list;
}

static json_t *kept_json(const opf_explanation *e)
{
    json_t *list = json_array();
    for (size_t i = 0; i < e->n_kept; i++) {
        const opf_kept_entry *k      = &e->kept[i];
        json_t               *object = json_object();
        cli_json_set(object, "node", cli_json_text(k->node));
        cli_json_set(object, "op", cli_json_text(k->op));
        cli_json_set(object, "code", cli_json_text(k->code));
        cli_json_set(object, "other", cli_json_text(k->other));
        cli_json_set(object, "reason", cli_json_text(k->reason));
        cli_json_add(list, object);
    }
    return list;
}

/* With --node only: where the node went. */
static json_t *nodes_json(const opf_explanation *e)
{
    json_t *list = json_array();
    for (size_t i = 0; i < e->n_nodes; i++) {
        const opf_graph_node_entry *n      = &e->nodes[i];
        json_t                     *object = json_object();
        cli_json_set(object, "name", cli_json_text(n->name));
        cli_json_set(object, "op", cli_json_text(n->op));
        cli_json_set(object, "origin", cli_json_texts(n->origin, n->n_origin));
        cli_json_set(object, "text", cli_json_text(n->text));
        cli_json_set(object, "is_kernel", json_boolean(n->is_kernel));
        cli_json_add(list, object);
    }
    return list;
}

void cli_explain_json(const cli_options *options, const opf_explanation *e, FILE *out)
{
    json_t *document = json_object();
    cli_json_set(document, "model", cli_json_text(options->paths.items[0]));
    cli_json_set(document, "opset", json_integer(e->opset));
    cli_json_set(document, "nodes_before", json_integer((json_int_t)e->nodes_before));
    cli_json_set(document, "nodes_after", json_integer((json_int_t)e->nodes_after));
    if (e->nodes_unfed != 0)
        cli_json_set(document, "nodes_unfed", json_integer((json_int_t)e->nodes_unfed));
    cli_json_set(document, "ops_before", counts_json(e->ops_before, e->n_ops_before));
    cli_json_set(document, "ops_after", counts_json(e->ops_after, e->n_ops_after));
    cli_json_set(document, "bytes_before", cli_json_known(e->bytes_before));
    cli_json_set(document, "bytes_after", cli_json_known(e->bytes_after));
    cli_json_set(document, "fusions", fusions_json(e));
    cli_json_set(document, "missed", missed_json(e));
    cli_json_set(document, "kept", kept_json(e));
    if (options->node != NULL)
        cli_json_set(document, "nodes", nodes_json(e));
    cli_json_print(document, out);
}
