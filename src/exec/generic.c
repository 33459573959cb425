/* SPDX-License-Identifier: Apache-2.0 */
/* Plans at sizes nobody chose, for counting kernels: explanations must hold for every size, and need no data. */
#include "exec/model.h"

#include "ops/op.h"

#include <string.h>

enum { ROUNDS = 5 };

typedef struct {
    const char *names[64];
    int64_t     numbers[64];
    uint32_t    n, round;
} generic_sizes;

/* Every symbol gets a size of its own. The rounds suit different models: tokens and batches, then images. */
static bool generic_size(void *user, const char *symbol, int64_t *n)
{
    static const int64_t rounds[ROUNDS][8] = {{3, 11, 7, 13, 5, 17, 19, 23}, {3, 224, 256, 192, 160, 288, 320, 352}, {2, 64, 96, 128, 32, 160, 192, 48},
                                              {2, 2, 2, 2, 2, 2, 2, 2},      {1, 1, 1, 1, 1, 1, 1, 1}};
    generic_sizes *sizes = user;
    for (uint32_t i = 0; i < sizes->n; i++)
        if (strcmp(sizes->names[i], symbol) == 0 && symbol[0] != '?') {
            *n = sizes->numbers[i];
            return true;
        }
    *n = rounds[sizes->round][sizes->n % 8];
    if (sizes->n < 64) {
        sizes->names[sizes->n]     = symbol;
        sizes->numbers[sizes->n++] = *n;
    }
    return true;
}

/* ---- graphs that are one plan ---- */

opf_status opf_model_generic_plan(const opf_model *model, const opf_graph *graph, opf_plan **plan, opf_error *error)
{
    opf_arena arena;
    opf_arena_init(&arena, (opf_heap *)(uintptr_t)&model->heap);
    opf_status status = OPF_OK;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        opf_info     *infos;
        generic_sizes sizes = {.round = round};
        *plan               = NULL;
        status              = opf_model_input_infos(model, generic_size, &sizes, &arena, &infos, error);
        if (status == OPF_OK)
            status = opf_model_plan(model, graph, infos, false, plan, error);
        if (status != OPF_INVALID_INPUT)
            break;
    }
    opf_arena_fini(&arena);
    return status;
}

/* ---- graphs in segments ---- */

typedef struct {
    const opf_model *model;
    opf_arena       *arena;
    generic_sizes    sizes;
    opf_visit_part   visit;
    void            *user;
} walker;

/* What is known of a value, with numbers made up for the rest. */
static opf_status make_up(walker *w, const opf_value *value, opf_info *info, opf_error *error)
{
    const opf_info *known = &value->info;
    OPF_FAIL_IF(error, known->rank < 0 || known->type == OPF_TYPE_NONE, OPF_UNSUPPORTED, "the rank or type of %s depends on data", value->name);
    *info      = (opf_info){.type = known->type, .rank = known->rank, .n_values = -1};
    info->dims = OPF_NEW(w->arena, opf_dim, known->rank);
    OPF_OOM_IF(error, info->dims == NULL);
    for (int32_t i = 0; i < known->rank; i++) {
        int64_t n = 1;
        if (!opf_dim_evaluate(w->model->dims, known->dims[i], generic_size, &w->sizes, &n) || n < 0)
            (void)generic_size(&w->sizes, "?", &n);
        info->dims[i] = opf_dim_number(n);
    }
    return OPF_OK;
}

static const opf_info *info_of(const opf_graph *graph, const opf_info *infos, opf_value_id v)
{
    const opf_value *value = opf_graph_value(graph, v);
    return value->constant != NULL ? &value->info : &infos[v];
}

/* Sizes of the results of a node whose shapes depend on data. What only says where elements are must keep their number. */
static opf_status make_up_results(walker *w, const opf_graph *graph, opf_node_id id, const opf_info *infos, opf_info **results, opf_error *error)
{
    const opf_node *node = opf_graph_node(graph, id);
    *results             = OPF_NEW(w->arena, opf_info, node->n_outputs);
    OPF_OOM_IF(error, *results == NULL);
    for (uint32_t o = 0; o < node->n_outputs; o++)
        if (node->outputs[o] != 0)
            OPF_TRY(make_up(w, opf_graph_value(graph, node->outputs[o]), &(*results)[o], error));
    bool   reshapes = node->op == &opf_op_Reshape || node->op == &opf_op_Flatten || node->op == &opf_op_Squeeze || node->op == &opf_op_Unsqueeze;
    size_t count;
    OPF_FAIL_IF(error, node->op == &opf_op_Expand, OPF_UNSUPPORTED, "%s (Expand): its sizes depend on data", node->name);
    if (reshapes && node->outputs[0] != 0 && opf_info_count(info_of(graph, infos, node->inputs[0]), &count)) {
        opf_info *y = &(*results)[0];
        OPF_FAIL_IF(error, y->rank == 0 && count != 1, OPF_UNSUPPORTED, "%s (%s): its sizes depend on data", node->name, node->op_type);
        for (int32_t i = 0; i < y->rank; i++)
            y->dims[i] = opf_dim_number(i + 1 < y->rank ? 1 : (int64_t)count);
    }
    return OPF_OK;
}

static opf_status walk(walker *w, const opf_graph *graph, opf_info *infos, int depth, opf_error *error);

static void without_axis(opf_info *info, int64_t axis)
{
    axis += axis < 0 ? info->rank : 0;
    if (axis < 0 || axis >= info->rank)
        return;
    info->rank--;
    for (int32_t i = (int32_t)axis; i < info->rank; i++)
        info->dims[i] = info->dims[i + 1];
}

/* Infos of a body's inputs in its first round: what the node is given; elements of what a Scan walks; captures. */
static opf_status enter_body(walker *w, const opf_node *node, const opf_graph *body, const opf_info *infos, int depth, opf_error *error)
{
    opf_info       *inner    = OPF_NEW(w->arena, opf_info, body->n_values);
    uint32_t        captures = node->n_inputs - node->n_captures;
    uint32_t        formals  = body->n_inputs - (node->n_captures < body->n_inputs ? node->n_captures : body->n_inputs);
    const opf_attr *axes     = opf_node_attr(node, "scan_input_axes");
    int64_t         scanned  = node->op == &opf_op_Scan ? opf_node_int(node, "num_scan_inputs", 0) : 0;
    OPF_OOM_IF(error, inner == NULL);
    for (opf_value_id v = 0; v < body->n_values; v++)
        inner[v] = (opf_info){.rank = -1, .n_values = -1};
    for (uint32_t i = 0; i < body->n_inputs; i++) {
        uint32_t         k     = i < formals ? i : captures + i - formals; /* of a Loop, too: its counter and condition stand for two */
        const opf_value *value = opf_graph_value(body, body->inputs[i]);
        opf_info        *info  = &inner[body->inputs[i]];
        bool             given = k < node->n_inputs && node->inputs[k] != 0 && infos[node->inputs[k]].type != OPF_TYPE_NONE && infos[node->inputs[k]].rank >= 0;
        if (value->constant != NULL)
            continue;
        if (node->op == &opf_op_Loop && i < 2 && i < formals) {
            *info = (opf_info){.type = i == 0 ? OPF_INT64 : OPF_BOOL, .rank = value->info.rank == 1, .n_values = -1};
            info->dims = OPF_NEW(w->arena, opf_dim, 1);
            OPF_OOM_IF(error, info->dims == NULL);
            info->dims[0] = opf_dim_number(1);
            continue;
        }
        if (!given) {
            OPF_TRY(make_up(w, value, info, error));
            continue;
        }
        *info          = infos[node->inputs[k]];
        info->n_values = -1; /* later rounds have others */
        info->dims     = opf_arena_copy(w->arena, info->dims, (size_t)info->rank * sizeof *info->dims);
        OPF_OOM_IF(error, info->dims == NULL);
        if (i < formals && i + scanned >= formals) {
            uint32_t s = i - (formals - (uint32_t)scanned);
            without_axis(info, axes != NULL && axes->type == OPF_ATTR_INTS && s < axes->n ? axes->ints[s] : 0);
        }
    }
    return walk(w, body, inner, depth + 1, error);
}

static opf_status plan_part(walker *w, opf_plan_request *request, opf_info *infos, opf_plan **plan, opf_error *error)
{
    request->infos = infos;
    request->first = NULL;
    OPF_TRY(opf_model_plan_part(w->model, request, false, plan, error));
    if ((*plan)->end != request->begin)
        return OPF_OK;
    opf_info *first;
    opf_plan_destroy(plan);
    OPF_TRY(make_up_results(w, request->graph, request->order[request->begin], infos, &first, error));
    request->first = first;
    OPF_TRY(opf_model_plan_part(w->model, request, false, plan, error));
    OPF_FAIL_IF(error, (*plan)->end == request->begin, OPF_UNSUPPORTED, "%s", (*plan)->why_not != NULL ? (*plan)->why_not : "a shape is not known");
    return OPF_OK;
}

/* Infos that the part has found, for what follows; the plan goes. */
static opf_status take_infos(walker *w, const opf_graph *graph, const opf_plan *plan, opf_info *infos, opf_error *error)
{
    for (uint32_t k = plan->begin; k < plan->end; k++) {
        const opf_node *node = opf_graph_node(graph, plan->order[k]);
        for (uint32_t o = 0; o < node->n_outputs; o++) {
            opf_value_id v = node->outputs[o];
            if (v == 0 || plan->infos[v].type == OPF_TYPE_NONE)
                continue;
            infos[v]      = plan->infos[v];
            infos[v].dims = opf_arena_copy(w->arena, infos[v].dims, (size_t)infos[v].rank * sizeof *infos[v].dims);
            if (infos[v].n_values >= 0)
                infos[v].values = opf_arena_copy(w->arena, infos[v].values, (size_t)infos[v].n_values * sizeof *infos[v].values);
            OPF_OOM_IF(error, infos[v].dims == NULL || (infos[v].n_values >= 0 && infos[v].values == NULL));
        }
    }
    return OPF_OK;
}

static opf_status walk_control(walker *w, const opf_graph *graph, opf_node_id id, opf_info *infos, int depth, opf_error *error)
{
    const opf_node *node = opf_graph_node(graph, id);
    for (uint32_t b = 0; b < node->n_bodies; b++)
        OPF_TRY(enter_body(w, node, node->bodies[b], infos, depth, error));
    for (uint32_t o = 0; o < node->n_outputs; o++)
        if (node->outputs[o] != 0)
            OPF_TRY(make_up(w, opf_graph_value(graph, node->outputs[o]), &infos[node->outputs[o]], error));
    return OPF_OK;
}

static opf_status walk(walker *w, const opf_graph *graph, opf_info *infos, int depth, opf_error *error)
{
    opf_plan_request request = {.graph = graph};
    opf_node_id     *order;
    OPF_FAIL_IF(error, depth > w->model->limits.depth, OPF_LIMIT, "bodies lie deeper than the limit depth");
    OPF_TRY(opf_graph_sort(graph, w->arena, &order, &request.n, error));
    request.order  = order;
    request.needed = opf_plan_needed(graph, order, request.n, w->arena);
    OPF_OOM_IF(error, request.needed == NULL);
    while (request.begin < request.n) {
        opf_node_id id   = order[request.begin];
        opf_plan   *plan = NULL;
        if (!request.needed[id] || opf_graph_node(graph, id)->n_bodies != 0) {
            if (request.needed[id])
                OPF_TRY(walk_control(w, graph, id, infos, depth, error));
            request.begin++;
            continue;
        }
        opf_status status = plan_part(w, &request, infos, &plan, error);
        if (status == OPF_OK)
            status = w->visit(w->user, plan, error);
        if (status == OPF_OK)
            status = take_infos(w, graph, plan, infos, error);
        request.begin = plan != NULL ? plan->end : request.n;
        opf_plan_destroy(&plan);
        OPF_TRY(status);
    }
    return OPF_OK;
}

static opf_status walk_model(walker *w, const opf_graph *graph, opf_error *error)
{
    opf_info *inputs, *infos = OPF_NEW(w->arena, opf_info, graph->n_values);
    OPF_OOM_IF(error, infos == NULL);
    OPF_TRY(opf_model_input_infos(w->model, generic_size, &w->sizes, w->arena, &inputs, error));
    for (opf_value_id v = 0; v < graph->n_values; v++)
        infos[v] = (opf_info){.rank = -1, .n_values = -1};
    for (uint32_t i = 0; i < graph->n_inputs; i++)
        if (graph->values[graph->inputs[i]].constant == NULL)
            infos[graph->inputs[i]] = inputs[i];
    return walk(w, graph, infos, 0, error);
}

static opf_status visit_nothing(void *user, const opf_plan *plan, opf_error *error)
{
    (void)user;
    (void)plan;
    (void)error;
    return OPF_OK;
}

opf_status opf_model_generic_parts(const opf_model *model, const opf_graph *graph, opf_visit_part visit, void *user, opf_error *error)
{
    opf_status status = OPF_UNSUPPORTED;
    for (uint32_t round = 0; status != OPF_OK && status != OPF_OUT_OF_MEMORY && round < ROUNDS; round++) {
        /* Visited only when the whole walk is possible. */
        for (int pass = 0; pass < 2 && (pass == 0 || status == OPF_OK); pass++) {
            opf_arena arena;
            walker    w = {.model = model, .arena = &arena, .sizes.round = round, .visit = pass == 0 ? visit_nothing : visit, .user = user};
            opf_arena_init(&arena, (opf_heap *)(uintptr_t)&model->heap);
            status = walk_model(&w, graph, error);
            opf_arena_fini(&arena);
        }
    }
    return status == OPF_OK || status == OPF_OUT_OF_MEMORY ? status : OPF_UNSUPPORTED;
}
