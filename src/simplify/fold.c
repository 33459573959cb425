/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Constant folding: a node of constants runs on its reference kernel now. Large weights are not copied: what only moves
 * or rounds them becomes a recipe (recipes.c). Integers that inference knows (shape arithmetic) become constants too.
 */
#include "ops/reference.h"
#include "simplify/passes.h"

#include <string.h>

/* Multiply-adds that folding may spend on one contraction. */
static const double max_contraction = 2e8;

/* The scratch arena is emptied when this many bytes have gone through it. */
enum { SCRATCH_BYTES = 1 << 20 };

typedef struct folding {
    opf_graph *graph;
    opf_heap *heap;
    opf_arena scratch; /* tensors and views of the node at hand */
    size_t scratch_used;
    int64_t budget; /* bytes that constants may still grow by */
} folding;

static bool is_known_shape(const opf_info *info)
{
    size_t count = 0;
    return info->type != OPF_TYPE_NONE && info->rank >= 0 && info->rank <= OPF_MAX_RANK && opf_info_count(info, &count);
}

static void get_dims(const opf_info *info, int64_t *dims)
{
    for (int32_t i = 0; i < info->rank; i++)
        dims[i] = info->dims[i].n;
}

/* The node goes; its outputs stay, under their names, as constants. */
static void become_constants(opf_graph *graph, opf_node_id id, const opf_const *const *constants)
{
    const opf_node *node = opf_graph_node(graph, id);
    const opf_value_id *outputs = node->outputs;
    const uint32_t n = node->n_outputs;
    opf_graph_remove_node(graph, id);
    for (uint32_t o = 0; o < n; o++)
        if (outputs[o] != 0)
            opf_graph_value(graph, outputs[o])->constant = constants[o];
}

/* ---- integers that inference knows ---- */

static bool is_known(const opf_info *info)
{
    size_t count = 0;
    if (info->n_values < 0 || !is_known_shape(info) || !opf_info_count(info, &count) ||
        count != (size_t)info->n_values || !opf_types_have(OPF_TYPES_INT | OPF_TYPES_BOOL, info->type))
        return false;
    for (int32_t i = 0; i < info->n_values; i++)
        if (!opf_dim_is_number(info->values[i]))
            return false;
    return true;
}

static const opf_const *known_constant(opf_graph *graph, const opf_info *info)
{
    size_t bytes = 0;
    if (!opf_type_bytes(info->type, (size_t)info->n_values, &bytes))
        return NULL;
    char *data = opf_arena_alloc(graph->arena, bytes);
    if (data == NULL)
        return NULL;
    for (int32_t i = 0; i < info->n_values; i++)
        opf_store_i64(info->type, data, (size_t)i, info->values[i].n);
    int64_t dims[OPF_MAX_RANK];
    get_dims(info, dims);
    return opf_const_bytes(graph->consts, info->type, info->rank, dims, data, bytes);
}

static opf_status fold_known(folding *fold, opf_node_id id, bool *done, opf_error *error)
{
    opf_graph *graph = fold->graph;
    const opf_node *node = opf_graph_node(graph, id);
    if (node->n_outputs == 0 || (node->op->traits & OPF_RANDOM) != 0)
        return OPF_OK;
    for (uint32_t o = 0; o < node->n_outputs; o++)
        if (node->outputs[o] == 0 || !is_known(&opf_graph_value(graph, node->outputs[o])->info))
            return OPF_OK;
    const opf_const **constants = OPF_NEW(graph->arena, const opf_const *, node->n_outputs);
    OPF_OOM_IF(error, constants == NULL);
    for (uint32_t o = 0; o < node->n_outputs; o++) {
        constants[o] = known_constant(graph, &opf_graph_value(graph, node->outputs[o])->info);
        OPF_OOM_IF(error, constants[o] == NULL);
    }
    become_constants(graph, id, constants);
    *done = true;
    return OPF_OK;
}

/* ---- running the reference kernel ---- */

static bool is_foldable(const opf_graph *graph, const opf_node *node)
{
    if (node->op->reference == NULL || (node->op->traits & OPF_RANDOM) != 0 || node->n_outputs == 0 ||
        node->outputs[0] == 0)
        return false;
    for (uint32_t i = 0; i < node->n_inputs; i++)
        if (node->inputs[i] != 0 && opf_graph_value(graph, node->inputs[i])->constant == NULL)
            return false;
    return true;
}

/* Whether the results fit the budget, and a contraction ends soon. For a matrix product the square root of the product
   of the three element counts is the number of multiply-adds. */
static bool fits(const folding *fold, const opf_node *node, int64_t *growth, size_t *bytes)
{
    size_t in_bytes = 0, out_bytes = 0;
    double volume = 1;
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const opf_const *c = node->inputs[i] != 0 ? opf_graph_value(fold->graph, node->inputs[i])->constant : NULL;
        if (c == NULL)
            continue;
        if (!opf_add_size(in_bytes, opf_const_size(c), &in_bytes) || c->type == OPF_STRING)
            return false;
        if (i < 2)
            volume *= (double)c->count;
    }
    for (uint32_t o = 0; o < node->n_outputs; o++) {
        size_t count = 0, size = 0;
        if (node->outputs[o] == 0)
            continue;
        const opf_info *info = &opf_graph_value(fold->graph, node->outputs[o])->info;
        if (!is_known_shape(info) || !opf_info_count(info, &count) || !opf_type_bytes(info->type, count, &size) ||
            !opf_add_size(out_bytes, size, &out_bytes) || out_bytes > INT64_MAX / 2)
            return false;
        if (o == 0)
            volume *= (double)count;
    }
    if ((node->op->traits & OPF_CONTRACTION) != 0 && volume > max_contraction * max_contraction)
        return false;
    *growth = out_bytes > in_bytes ? (int64_t)(out_bytes - in_bytes) : 0;
    return *growth <= fold->budget && opf_add_size(in_bytes, out_bytes, bytes);
}

static bool view_of_constant(opf_arena *scratch, const opf_const *c, opf_view *view)
{
    const size_t size = opf_type_size(c->type);
    view->type = c->type;
    view->rank = c->rank;
    if (c->rank > 0)
        memcpy(view->dims, c->dims, (size_t)c->rank * sizeof view->dims[0]);
    opf_view_set_dense(view);
    if (c->kind == OPF_CONST_BYTES && size != 0 && (uintptr_t)c->data % size == 0) {
        union {
            const void *borrowed;
            void *data;
        } alias = {.borrowed = c->data}; /* reference kernels do not write their inputs */
        view->data = alias.data;
        return true;
    }
    view->data = opf_arena_alloc(scratch, opf_const_size(c));
    if (view->data == NULL)
        return false;
    opf_const_write(c, view->data);
    return true;
}

static bool view_of_output(opf_arena *scratch, const opf_info *info, opf_view *view)
{
    size_t count = 0, bytes = 0;
    view->type = info->type;
    view->rank = info->rank;
    get_dims(info, view->dims);
    opf_view_set_dense(view);
    if (!opf_info_count(info, &count) || !opf_type_bytes(info->type, count, &bytes))
        return false;
    view->data = opf_arena_alloc(scratch, bytes);
    return view->data != NULL;
}

static const opf_const *constant_of_view(opf_graph *graph, const opf_view *view)
{
    size_t bytes = 0;
    if (!opf_type_bytes(view->type, opf_view_count(view), &bytes))
        return NULL;
    void *data = opf_arena_copy(graph->arena, view->data, bytes);
    return data != NULL ? opf_const_bytes(graph->consts, view->type, view->rank, view->dims, data, bytes) : NULL;
}

static opf_status run_reference(folding *fold, const opf_node *node, const opf_const **constants, bool *done,
                                opf_error *error)
{
    const opf_graph *graph = fold->graph;
    opf_arena *scratch = &fold->scratch;
    opf_view *in = OPF_NEW(scratch, opf_view, node->n_inputs);
    opf_view *out = OPF_NEW(scratch, opf_view, node->n_outputs);
    OPF_OOM_IF(error, in == NULL || out == NULL);
    for (uint32_t i = 0; i < node->n_inputs; i++)
        OPF_OOM_IF(error, node->inputs[i] != 0 &&
                              !view_of_constant(scratch, opf_graph_value(graph, node->inputs[i])->constant, &in[i]));
    for (uint32_t o = 0; o < node->n_outputs; o++)
        OPF_OOM_IF(error, node->outputs[o] != 0 &&
                              !view_of_output(scratch, &opf_graph_value(graph, node->outputs[o])->info, &out[o]));
    const opf_call call = {.node = node,
                           .attrs = node->attrs,
                           .n_attrs = node->n_attrs,
                           .in = in,
                           .n_in = node->n_inputs,
                           .out = out,
                           .n_out = node->n_outputs,
                           .heap = fold->heap};
    opf_error ignored;
    const opf_status status = node->op->reference(&call, &ignored);
    OPF_OOM_IF(error, status == OPF_OUT_OF_MEMORY);
    if (status != OPF_OK)
        return OPF_OK; /* a data error is the run's to report, if it gets there */
    for (uint32_t o = 0; o < node->n_outputs; o++) {
        constants[o] = node->outputs[o] != 0 ? constant_of_view(fold->graph, &out[o]) : NULL;
        OPF_OOM_IF(error, node->outputs[o] != 0 && constants[o] == NULL);
    }
    *done = true;
    return OPF_OK;
}

static opf_status fold_constants(folding *fold, opf_node_id id, bool *done, opf_error *error)
{
    opf_graph *graph = fold->graph;
    const opf_node *node = opf_graph_node(graph, id);
    int64_t growth = 0;
    if (node->op == &opf_op_Constant) {
        const opf_attr *value = opf_node_attr(node, "value");
        if (value != NULL && value->tensor != NULL) {
            become_constants(graph, id, &value->tensor);
            *done = true;
            return OPF_OK;
        }
    }
    const opf_const **constants = OPF_NEW(&fold->scratch, const opf_const *, node->n_outputs);
    OPF_OOM_IF(error, constants == NULL);
    if (opf_make_recipes(graph, node, constants)) {
        become_constants(graph, id, constants);
        *done = true;
        return OPF_OK;
    }
    size_t bytes = 0;
    if (!fits(fold, node, &growth, &bytes))
        return OPF_OK;
    OPF_TRY(run_reference(fold, node, constants, done, error));
    if (*done) {
        become_constants(graph, id, constants);
        fold->budget -= growth;
    }
    if (!opf_add_size(fold->scratch_used, bytes, &fold->scratch_used) || fold->scratch_used > SCRATCH_BYTES) {
        opf_arena_fini(&fold->scratch);
        opf_arena_init(&fold->scratch, fold->heap);
        fold->scratch_used = 0;
    }
    return OPF_OK;
}

opf_status opf_fold_constants(opf_graph *graph, const opf_limits *limits, opf_heap *heap, bool *changed,
                              opf_error *error)
{
    folding fold = {.graph = graph, .heap = heap, .budget = limits->folding};
    opf_arena scratch;
    opf_arena_init(&scratch, heap);
    opf_arena_init(&fold.scratch, heap);
    opf_node_id *order = NULL;
    uint32_t n = 0;
    opf_status status = opf_graph_sort(graph, &scratch, &order, &n, error);
    for (uint32_t i = 0; status == OPF_OK && i < n; i++) {
        bool done = false;
        if (!opf_simplify_is_plain(opf_graph_node(graph, order[i])))
            continue;
        status = fold_known(&fold, order[i], &done, error);
        if (status == OPF_OK && !done && is_foldable(graph, opf_graph_node(graph, order[i])))
            status = fold_constants(&fold, order[i], &done, error);
        *changed |= done;
    }
    opf_arena_fini(&fold.scratch);
    opf_arena_fini(&scratch);
    return status;
}
