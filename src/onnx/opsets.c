/* SPDX-License-Identifier: Apache-2.0 */
#include "base/status.h"
#include "onnx/build.h"
#include "onnx/contrib/contrib.h"
#include "onnx/inline.h"
#include "ops/refused.h"

#include <string.h>

static opf_status check_imports(const wire_opsets *opsets, opf_error *error)
{
    enum { MAX_IMPORTS = 1000 }; /* each is compared with all before it, and looked for by each node */
    OPF_FAIL_IF(error, opsets->n > MAX_IMPORTS, OPF_INVALID_MODEL, "%u opsets are imported", opsets->n);
    for (uint32_t i = 0; i < opsets->n; i++) {
        const wire_opset *o = &opsets->list[i];
        OPF_FAIL_IF(error, o->domain[0] == '\0' && (o->version < OPF_OPSET_OLDEST || o->version > OPF_OPSET_NEWEST), OPF_UNSUPPORTED,
                    "opset %lld of ai.onnx is not supported: %d to %d are", (long long)o->version, OPF_OPSET_OLDEST, OPF_OPSET_NEWEST);
        OPF_FAIL_IF(error, o->version < 1 || o->version > INT32_MAX, OPF_INVALID_MODEL, "opset %lld of domain %s", (long long)o->version,
                    o->domain);
        for (uint32_t k = 0; k < i; k++)
            OPF_FAIL_IF(error, strcmp(opsets->list[k].domain, o->domain) == 0 && opsets->list[k].version != o->version, OPF_INVALID_MODEL,
                        "two opsets, %lld and %lld, of domain %s are imported", (long long)opsets->list[k].version, (long long)o->version,
                        o->domain[0] == '\0' ? "ai.onnx" : o->domain);
    }
    return OPF_OK;
}

opf_status opf_wire_check_versions(const wire_model *model, opf_error *error)
{
    OPF_FAIL_IF(error, model->ir_version == 0 && model->graph == NULL, OPF_INVALID_MODEL, "the file holds no ONNX model");
    OPF_FAIL_IF(error, model->ir_version < OPF_IR_OLDEST || model->ir_version > OPF_IR_NEWEST,
                model->ir_version < 1 ? OPF_INVALID_MODEL : OPF_UNSUPPORTED, "IR version %lld%s is not supported: %d to %d are",
                (long long)model->ir_version, model->opsets.n == 0 ? " without opset_import" : "", OPF_IR_OLDEST, OPF_IR_NEWEST);
    OPF_FAIL_IF(error, model->graph == NULL, OPF_INVALID_MODEL, "the model has no graph");
    OPF_FAIL_IF(error, model->opsets.n == 0, OPF_INVALID_MODEL, "the model imports no opset (opset_import is empty)");
    OPF_TRY(check_imports(&model->opsets, error));
    for (uint32_t i = 0; i < model->functions.n; i++) {
        opf_status status = check_imports(&model->functions.list[i].opsets, error);
        if (status != OPF_OK) {
            opf_error_prefix(error, "function %s: ", model->functions.list[i].name);
            return status;
        }
    }
    return OPF_OK;
}

int64_t opf_wire_version(const wire_model *model, const wire_node *node)
{
    const wire_opsets *opsets = node->opsets != NULL ? node->opsets : &model->opsets;
    for (uint32_t i = 0; i < opsets->n; i++)
        if (strcmp(opsets->list[i].domain, node->domain) == 0)
            return opsets->list[i].version;
    return 0;
}

bool opf_wire_is_constant(const wire_node *node)
{
    return strcmp(node->op_type, "Constant") == 0 && node->domain[0] == '\0';
}

/* ---- unsupported operators ---- */

enum { NAMED = 3 }; /* nodes that a message names for each operator */

typedef struct unsupported {
    const char *domain, *op_type;
    int64_t     version;
    int32_t     since; /* 0: the operator is unknown */
    const char *nodes[NAMED];
    uint32_t    n;
} unsupported;

typedef struct survey {
    const wire_model *model;
    opf_arena        *arena;
    opf_map           keys;
    WIRE_LIST(unsupported) found;
    opf_error *error;
} survey;

static opf_status add(survey *s, const wire_node *node, int64_t version, int32_t since)
{
    const char *key = opf_arena_printf(s->arena, "%s\n%s\n%lld", node->domain, node->op_type, (long long)version);
    uint32_t    index;
    OPF_OOM_IF(s->error, key == NULL);
    if (!opf_map_get(&s->keys, key, &index)) {
        unsupported fresh = {.domain = node->domain, .op_type = node->op_type, .version = version, .since = since};
        index             = s->found.n;
        OPF_OOM_IF(s->error, !OPF_PUSH(s->arena, s->found.list, s->found.n, s->found.capacity, fresh) || !opf_map_put(&s->keys, key, index));
    }
    unsupported *u = &s->found.list[index];
    if (u->n < NAMED)
        u->nodes[u->n] = opf_wire_label(node);
    u->n++;
    return OPF_OK;
}

static opf_status survey_graph(survey *s, const wire_graph *graph)
{
    for (uint32_t i = 0; i < graph->nodes.n; i++) {
        const wire_node *node = &graph->nodes.list[i];
        OPF_FAIL_IF(s->error, node->op_type[0] == '\0', OPF_INVALID_MODEL, "node %s has no operator", opf_wire_label(node));
        const opf_op *op      = opf_find_operator(node->domain, node->op_type);
        int64_t       version = opf_wire_version(s->model, node);
        bool          known   = op != NULL || opf_wire_is_constant(node);
        /* ONNX Runtime does not mind an import that is missing. */
        bool          contrib = opf_contrib_find(node->domain, node->op_type, version) != NULL;
        OPF_FAIL_IF(s->error, known && !contrib && version == 0, OPF_INVALID_MODEL, "node %s (%s): the model imports no opset of its domain %s",
                    opf_wire_label(node), node->op_type, node->domain[0] == '\0' ? "ai.onnx" : node->domain);
        if (!contrib && (!known || version < (op == NULL ? 0 : op->since)))
            OPF_TRY(add(s, node, version, op == NULL ? 0 : op->since));
        for (uint32_t a = 0; a < node->attrs.n; a++)
            if (node->attrs.list[a].g != NULL)
                OPF_TRY(survey_graph(s, node->attrs.list[a].g));
    }
    return OPF_OK;
}

static void describe(opf_text *text, const unsupported *u)
{
    const char *refusal = opf_refusal(u->domain, u->op_type);
    opf_text_add(text, "\n  %s", u->op_type);
    if (u->domain[0] != '\0')
        opf_text_add(text, " of domain %s", u->domain);
    if (u->version != 0)
        opf_text_add(text, ", opset %lld", (long long)u->version);
    if (u->since != 0)
        opf_text_add(text, " (known from %d on)", (int)u->since);
    if (refusal != NULL)
        opf_text_add(text, " (%s)", refusal);
    if (u->n == 1)
        opf_text_add(text, ": node ");
    else
        opf_text_add(text, ": %u nodes, ", u->n);
    for (uint32_t i = 0; i < u->n && i < NAMED; i++)
        opf_text_add(text, "%s%s", i == 0 ? "" : ", ", u->nodes[i]);
    if (u->n > NAMED)
        opf_text_add(text, ", …");
}

opf_status opf_wire_check_operators(const wire_model *model, opf_arena *arena, opf_error *error)
{
    survey s = {.model = model, .arena = arena, .error = error};
    opf_map_init(&s.keys, arena);
    OPF_TRY(survey_graph(&s, model->graph));
    if (s.found.n == 0)
        return OPF_OK;
    opf_text text;
    opf_text_init(&text, arena);
    opf_text_add(&text, "%u unsupported operator%s:", s.found.n, s.found.n == 1 ? "" : "s");
    for (uint32_t i = 0; i < s.found.n; i++)
        describe(&text, &s.found.list[i]);
    OPF_OOM_IF(error, text.failed);
    return opf_fail(error, OPF_UNSUPPORTED, "%s", text.data);
}
