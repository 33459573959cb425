/* SPDX-License-Identifier: Apache-2.0 */
#include "base/status.h"
#include "onnx/build.h"
#include "onnx/contrib/contrib.h"
#include "onnx/inline.h"
#include "ops/refused.h"

#include <string.h>

/* Nodes bind to the highest version of their domain, says ONNX. */
static void keep_highest(wire_opsets *opsets)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < opsets->n; i++) {
        const wire_opset o = opsets->list[i];
        uint32_t k = 0;
        while (k < n && strcmp(opsets->list[k].domain, o.domain) != 0)
            k++;
        if (k == n)
            opsets->list[n++] = o;
        else if (opsets->list[k].version < o.version)
            opsets->list[k].version = o.version;
    }
    opsets->n = n;
}

static opf_status check_imports(wire_opsets *opsets, opf_error *error)
{
    enum { MAX_IMPORTS = 1000 }; /* each is compared with all before it, and looked for by each node */
    OPF_FAIL_IF(error, opsets->n > MAX_IMPORTS, OPF_INVALID_MODEL, "%u opsets are imported", opsets->n);
    for (uint32_t i = 0; i < opsets->n; i++) {
        const wire_opset *o = &opsets->list[i];
        OPF_FAIL_IF(error, o->domain[0] == '\0' && (o->version < OPF_OPSET_OLDEST || o->version > OPF_OPSET_NEWEST), OPF_UNSUPPORTED,
                    "opset %lld of ai.onnx is not supported: %d to %d are", (long long)o->version, OPF_OPSET_OLDEST, OPF_OPSET_NEWEST);
        OPF_FAIL_IF(error, o->version < 1 || o->version > INT32_MAX, OPF_INVALID_MODEL, "opset %lld of domain %s", (long long)o->version,
                    o->domain);
    }
    keep_highest(opsets);
    return OPF_OK;
}

opf_status opf_wire_check_versions(wire_model *model, opf_error *error)
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
    const char *why; /* NULL: no decision, it is not known or not that old */
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

/* prefix: of the names of nodes, "" or "If_3/then_branch/". */
static opf_status add(survey *s, const wire_node *node, const char *prefix, unsupported fresh)
{
    const char *key = opf_arena_printf(s->arena, "%s\n%s\n%lld\n%s", fresh.domain, fresh.op_type,
                                       (long long)fresh.version, fresh.why != NULL ? fresh.why : "");
    uint32_t    index;
    OPF_OOM_IF(s->error, key == NULL);
    if (!opf_map_get(&s->keys, key, &index)) {
        index = s->found.n;
        OPF_OOM_IF(s->error, !OPF_PUSH(s->arena, s->found.list, s->found.n, s->found.capacity, fresh) ||
                                 !opf_map_put(&s->keys, key, index));
    }
    unsupported *u = &s->found.list[index];
    if (u->n < NAMED) {
        u->nodes[u->n] = opf_arena_printf(s->arena, "%s%s", prefix, opf_wire_label(node));
        OPF_OOM_IF(s->error, u->nodes[u->n] == NULL);
    }
    u->n++;
    return OPF_OK;
}

static int64_t int_attr(const wire_node *node, const char *name)
{
    for (uint32_t i = 0; i < node->attrs.n; i++)
        if (strcmp(node->attrs.list[i].name, name) == 0)
            return node->attrs.list[i].i;
    return 0;
}

/* A BatchNormalization that measures its input instead of using what was learned. */
static bool trains(const wire_node *node, int64_t version)
{
    if (strcmp(node->op_type, "BatchNormalization") != 0 || node->domain[0] != '\0')
        return false;
    if (version >= 14)
        return int_attr(node, "training_mode") != 0;
    if (version < 7)
        return int_attr(node, "is_test") == 0;
    for (uint32_t o = 1; o < node->outputs.n; o++)
        if (node->outputs.list[o][0] != '\0')
            return true;
    return false;
}

static opf_status survey_graph(survey *s, const wire_graph *graph, const char *prefix);

static opf_status survey_node(survey *s, const wire_node *node, const char *prefix)
{
    OPF_FAIL_IF(s->error, node->op_type[0] == '\0', OPF_INVALID_MODEL, "node %s%s has no operator", prefix,
                opf_wire_label(node));
    const opf_op *op = opf_find_operator(node->domain, node->op_type);
    int64_t version = opf_wire_version(s->model, node);
    bool known = op != NULL || opf_wire_is_constant(node);
    /* ONNX Runtime does not mind an import that is missing. */
    bool contrib = opf_contrib_find(node->domain, node->op_type, version) != NULL;
    unsupported fresh = {.domain = node->domain, .op_type = node->op_type, .version = version};
    OPF_FAIL_IF(s->error, known && !contrib && version == 0, OPF_INVALID_MODEL,
                "node %s%s (%s): the model imports no opset of its domain %s", prefix, opf_wire_label(node),
                node->op_type, node->domain[0] == '\0' ? "ai.onnx" : node->domain);
    if (trains(node, version)) {
        fresh.why = "in training mode";
        OPF_TRY(add(s, node, prefix, fresh));
    } else if (!contrib && (!known || version < (op == NULL ? 0 : op->since))) {
        fresh.since = op == NULL ? 0 : op->since;
        fresh.why = opf_refusal(node->domain, node->op_type);
        OPF_TRY(add(s, node, prefix, fresh));
    }
    for (uint32_t a = 0; a < node->attrs.n; a++)
        if (node->attrs.list[a].g != NULL) {
            const char *inner =
                opf_arena_printf(s->arena, "%s%s/%s/", prefix, opf_wire_label(node), node->attrs.list[a].name);
            OPF_OOM_IF(s->error, inner == NULL);
            OPF_TRY(survey_graph(s, node->attrs.list[a].g, inner));
        }
    return OPF_OK;
}

static opf_status survey_graph(survey *s, const wire_graph *graph, const char *prefix)
{
    for (uint32_t i = 0; i < graph->nodes.n; i++)
        if (!graph->nodes.list[i].is_dead)
            OPF_TRY(survey_node(s, &graph->nodes.list[i], prefix));
    return OPF_OK;
}

static void describe(opf_text *text, const unsupported *u)
{
    opf_text_add(text, "\n  %s", u->op_type);
    if (u->domain[0] != '\0')
        opf_text_add(text, " of domain %s", u->domain);
    if (u->version != 0)
        opf_text_add(text, ", opset %lld", (long long)u->version);
    if (u->since != 0)
        opf_text_add(text, " (known from %d on)", (int)u->since);
    if (u->why != NULL)
        opf_text_add(text, " (%s)", u->why);
    if (u->n == 1)
        opf_text_add(text, ": node ");
    else
        opf_text_add(text, ": %u nodes, ", u->n);
    for (uint32_t i = 0; i < u->n && i < NAMED; i++)
        opf_text_add(text, "%s%s", i == 0 ? "" : ", ", u->nodes[i]);
    if (u->n > NAMED)
        opf_text_add(text, ", …");
}

/* Room is kept for a line that says how many did not fit. */
static void describe_all(opf_text *text, const survey *s)
{
    enum { LAST_LINE = 64 };
    opf_text_add(text, "%u unsupported operator%s:", s->found.n, s->found.n == 1 ? "" : "s");
    for (uint32_t i = 0; i < s->found.n; i++) {
        opf_text one;
        opf_text_init(&one, s->arena);
        describe(&one, &s->found.list[i]);
        if (one.failed || text->length + one.length + LAST_LINE > sizeof s->error->message) {
            opf_text_add(text, "\n  and %u more", s->found.n - i);
            return;
        }
        opf_text_add(text, "%s", one.data);
    }
}

opf_status opf_wire_check_operators(const wire_model *model, opf_arena *arena, opf_error *error)
{
    survey s = {.model = model, .arena = arena, .error = error};
    opf_map_init(&s.keys, arena);
    OPF_TRY(survey_graph(&s, model->graph, ""));
    if (s.found.n == 0)
        return OPF_OK;
    opf_text text;
    opf_text_init(&text, arena);
    describe_all(&text, &s);
    OPF_OOM_IF(error, text.failed);
    return opf_fail(error, OPF_UNSUPPORTED, "%s", text.data);
}
