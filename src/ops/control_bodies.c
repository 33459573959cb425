/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inputs of bodies. A round of a Loop or Scan may change the shape of what it hands to the next one, so a carried
 * dimension counts as known only if the body gives it back as it came; else it becomes an unknown, that stands for
 * another number in each round.
 */
#include "ops/control.h"

#include "base/status.h"
#include "ops/infer.h"

enum { MAX_PRECISE_DEPTH = 3 }; /* each level may infer its body three times */

/* Inputs of the node, and of the body, that one round hands to the next. */
typedef struct carried {
    uint32_t first_input;  /* of the node */
    uint32_t first_formal; /* input of the body */
    uint32_t first_result; /* output of the body */
    uint32_t n;
} carried;

static uint32_t count_formals(const opf_node *node, const opf_graph *body)
{
    return body->n_inputs > node->n_captures ? body->n_inputs - node->n_captures : 0;
}

static uint32_t count_scan_inputs(const opf_node *node)
{
    const int64_t n = opf_node_int(node, "num_scan_inputs", 0);
    return n < 0 || n > (int64_t)node->n_own_inputs ? node->n_own_inputs : (uint32_t)n;
}

static carried find_carried(const opf_node *node, const opf_graph *body)
{
    carried        c       = {0, 0, 0, 0};
    const uint32_t formals = count_formals(node, body);
    if (node->op == &opf_op_Loop)
        c = (carried){2, 2, 1, node->n_own_inputs > 2 ? node->n_own_inputs - 2 : 0};
    else if (node->op == &opf_op_Scan)
        c.n = node->n_own_inputs - count_scan_inputs(node);
    while (c.n > 0 && (c.first_formal + c.n > formals || c.first_result + c.n > body->n_outputs))
        c.n--; /* a body that does not fit is refused by the operator */
    return c;
}

static bool is_deep(const opf_graph *graph)
{
    uint32_t depth = 0;
    for (; graph != NULL && depth <= MAX_PRECISE_DEPTH; graph = graph->parent)
        depth++;
    return depth > MAX_PRECISE_DEPTH;
}

/* The counter or the condition: a scalar, or one element where the body says so. */
static void set_scalar(opf_graph *body, uint32_t formal, opf_type type)
{
    opf_info *info = &opf_graph_value(body, body->inputs[formal])->info;
    if (info->rank != 1)
        *info = (opf_info){.rank = 0, .dims = info->dims};
    info->type     = type;
    info->n_values = -1;
}

static void set_formal(opf_graph *body, uint32_t formal, const opf_info *outer, int32_t rank, opf_dim *dims)
{
    opf_info *info = &opf_graph_value(body, body->inputs[formal])->info;
    *info = (opf_info){.type = outer->type != OPF_TYPE_NONE ? outer->type : info->type, .rank = rank, .dims = dims, .n_values = -1};
}

/* An element of a scan input: the same without its scan axis. */
static void set_element(const opf_node *node, opf_graph *body, uint32_t formal, uint32_t scan, const opf_info *outer)
{
    const opf_attr *axes = opf_node_attr(node, "scan_input_axes");
    int64_t         axis = axes != NULL && axes->type == OPF_ATTR_INTS && scan < axes->n ? axes->ints[scan] : 0;
    opf_dim        *dims = outer->rank > 0 ? OPF_NEW(body->arena, opf_dim, outer->rank - 1) : NULL;
    axis += axis < 0 ? outer->rank : 0;
    if (dims == NULL || axis < 0 || axis >= outer->rank) {
        set_formal(body, formal, outer, -1, NULL);
        return;
    }
    for (int32_t i = 0, o = 0; i < outer->rank; i++)
        if (i != axis)
            dims[o++] = outer->dims[i];
    set_formal(body, formal, outer, outer->rank - 1, dims);
}

void opf_body_enter(const opf_graph *graph, opf_node_id id, uint32_t b)
{
    const opf_node *node    = opf_graph_node(graph, id);
    opf_graph      *body    = node->bodies[b];
    const uint32_t  formals = count_formals(node, body);
    const carried   c       = find_carried(node, body);
    for (uint32_t i = 0; i < node->n_captures && i < body->n_inputs; i++)
        opf_graph_value(body, body->inputs[body->n_inputs - 1 - i])->info =
            opf_graph_value(graph, node->inputs[node->n_inputs - 1 - i])->info;
    for (uint32_t k = 0; k < c.n; k++) {
        const opf_info *outer = &opf_graph_value(graph, node->inputs[c.first_input + k])->info;
        const bool      known = !is_deep(graph) && node->inputs[c.first_input + k] != 0;
        set_formal(body, c.first_formal + k, outer, known ? outer->rank : -1, outer->dims);
    }
    if (node->op == &opf_op_Loop && formals >= 2) {
        set_scalar(body, 0, OPF_INT64);
        set_scalar(body, 1, OPF_BOOL);
    }
    for (uint32_t i = c.n; node->op == &opf_op_Scan && i < node->n_own_inputs && i < formals; i++)
        set_element(node, body, i, i - c.n, &opf_graph_value(graph, node->inputs[i])->info);
}

/* ---- widening ---- */

/* Each dimension that is still the one of the first value comes back as it came. */
static bool holds(const opf_info *first, const opf_info *formal, const opf_info *result)
{
    if (formal->rank < 0)
        return true;
    if (formal->rank != result->rank || formal->rank != first->rank)
        return false;
    for (int32_t i = 0; i < formal->rank; i++)
        if (opf_dim_equal(formal->dims[i], first->dims[i]) && !opf_dim_equal(formal->dims[i], result->dims[i]))
            return false;
    return true;
}

/* Dimensions that change become unknown. */
static bool widen(opf_graph *body, opf_info *formal, const opf_info *result)
{
    if (formal->rank != result->rank) {
        formal->rank = -1;
        return true;
    }
    opf_dim *dims = OPF_NEW(body->arena, opf_dim, formal->rank);
    if (dims == NULL)
        return false;
    for (int32_t i = 0; i < formal->rank; i++)
        dims[i] = opf_dim_equal(formal->dims[i], result->dims[i]) ? formal->dims[i] : opf_dim_unknown(body->dims);
    formal->dims = dims;
    return true;
}

opf_status opf_body_widen(const opf_graph *graph, opf_node_id id, uint32_t b, uint32_t round, bool *again, opf_error *error)
{
    const opf_node *node = opf_graph_node(graph, id);
    opf_graph      *body = node->bodies[b];
    const carried   c    = find_carried(node, body);
    *again               = false;
    for (uint32_t k = 0; k < c.n; k++) {
        const opf_info *first  = &opf_graph_value(graph, node->inputs[c.first_input + k])->info;
        const opf_info *result = &opf_graph_value(body, body->outputs[c.first_result + k])->info;
        opf_info       *formal = &opf_graph_value(body, body->inputs[c.first_formal + k])->info;
        if (holds(first, formal, result))
            continue;
        *again = true;
        OPF_OOM_IF(error, round == 0 && !widen(body, formal, result));
    }
    for (uint32_t k = 0; k < c.n && *again && round > 0; k++)
        opf_graph_value(body, body->inputs[c.first_formal + k])->info.rank = -1;
    return OPF_OK;
}
