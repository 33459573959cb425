/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of a constant table, chosen by a Slice of the constant numbers n, n+1, …, as exporters write the embedding of
 * positions: Gather(table, Slice(numbers, …)) is Slice(table, …), a view instead of a copy. Exact for every bound,
 * since the Slice clamps its bounds to the numbers, and each of them is a row of the table.
 */
#include "simplify/passes.h"

#include <string.h>

typedef struct lookup {
    opf_value_id slice[5]; /* inputs of the Slice of numbers; 0: absent */
    opf_node_id slicer;
    opf_value_id table;
    int32_t axis; /* of the table */
    const opf_const *rows;
} lookup;

/* The numbers are neighbours, in order, and rows of a table of `size`. */
static bool are_neighbours(const opf_const *numbers, int64_t size)
{
    const int64_t first = numbers->count != 0 ? opf_const_i64_at(numbers, 0) : -1;
    if (first < 0 || numbers->count > (size_t)size || first > size - (int64_t)numbers->count)
        return false;
    for (size_t i = 1; i < numbers->count; i++)
        if (opf_const_i64_at(numbers, i) != first + (int64_t)i)
            return false;
    return true;
}

/* Axes of the Slice, which move with those of the table before them, are known. */
static bool reads_slice(const opf_graph *graph, opf_value_id index, lookup *l)
{
    l->slicer = opf_graph_value(graph, index)->producer;
    const opf_node *node = opf_graph_node(graph, l->slicer);
    if (l->slicer == 0 || !opf_simplify_is_plain(node) || node->op != &opf_op_Slice)
        return false;
    for (uint32_t i = 0; i < 5; i++)
        l->slice[i] = opf_simplify_input(node, i);
    const opf_const *axes = l->slice[3] != 0 ? opf_graph_value(graph, l->slice[3])->constant : NULL;
    l->rows = opf_graph_value(graph, l->slice[0])->constant;
    return l->rows != NULL && l->rows->rank >= 1 && axes != NULL && axes->rank == 1 &&
           axes->count <= (size_t)l->rows->rank;
}

static bool find(const opf_graph *graph, const opf_node *node, lookup *l)
{
    const opf_value_id index = opf_simplify_input(node, 1);
    l->table = opf_simplify_input(node, 0);
    if (node->op != &opf_op_Gather || l->table == 0 || index == 0 || node->n_outputs != 1 || node->outputs[0] == 0 ||
        !reads_slice(graph, index, l))
        return false;
    const opf_const *table = opf_graph_value(graph, l->table)->constant;
    const int64_t axis = opf_node_int(node, "axis", 0);
    if (table == NULL || axis < -(int64_t)table->rank || axis >= table->rank ||
        table->rank - 1 + l->rows->rank > OPF_MAX_RANK)
        return false;
    l->axis = (int32_t)(axis < 0 ? axis + table->rank : axis);
    return are_neighbours(l->rows, table->dims[l->axis]);
}

/* The rows that the numbers name, in the shape of the numbers: a recipe over the table. */
static const opf_const *choose_rows(opf_graph *graph, const lookup *l)
{
    const opf_const *table = opf_graph_value(graph, l->table)->constant;
    int64_t start[OPF_MAX_RANK] = {0}, dims[OPF_MAX_RANK];
    int32_t rank = 0;
    if (l->rows->count < (size_t)table->dims[l->axis]) {
        memcpy(dims, table->dims, (size_t)table->rank * sizeof *dims);
        dims[l->axis] = (int64_t)l->rows->count;
        start[l->axis] = opf_const_i64_at(l->rows, 0);
        table = opf_const_slice(graph->consts, table, start, dims);
        if (table == NULL)
            return NULL;
    }
    for (int32_t i = 0; i < l->axis; i++)
        dims[rank++] = table->dims[i];
    for (int32_t i = 0; i < l->rows->rank; i++)
        dims[rank++] = l->rows->dims[i];
    for (int32_t i = l->axis + 1; i < table->rank; i++)
        dims[rank++] = table->dims[i];
    return l->rows->rank == 1 ? table : opf_const_reshape(graph->consts, table, rank, dims);
}

/* The axes of the numbers, counted among those of the result. */
static opf_value_id move_axes(opf_graph *graph, const lookup *l)
{
    const opf_const *axes = opf_graph_value(graph, l->slice[3])->constant;
    int64_t moved[OPF_MAX_RANK];
    for (size_t i = 0; i < axes->count; i++) {
        const int64_t axis = opf_const_i64_at(axes, i);
        moved[i] = l->axis + axis + (axis < 0 ? l->rows->rank : 0);
    }
    const opf_const *c = opf_const_ints(graph->consts, moved, (int64_t)axes->count);
    return c != NULL ? opf_graph_add_constant(graph, NULL, c) : 0;
}

static bool apply(opf_graph *graph, opf_node_id id, lookup *l)
{
    const opf_const *rows = choose_rows(graph, l);
    l->slice[0] = rows != NULL ? opf_graph_add_constant(graph, NULL, rows) : 0;
    l->slice[3] = move_axes(graph, l);
    if (l->slice[0] == 0 || l->slice[3] == 0)
        return false;
    const opf_value_id index = opf_graph_node(graph, id)->inputs[1];
    if (opf_graph_single_use(graph, index) != NULL && !opf_node_join_origin(graph, id, l->slicer))
        return false;
    opf_node *node = opf_graph_node(graph, id);
    node->op = &opf_op_Slice;
    node->op_type = opf_op_Slice.name;
    node->n_attrs = 0;
    return opf_graph_set_own_inputs(graph, id, l->slice, l->slice[4] != 0 ? 5 : 4);
}

opf_status opf_slice_tables(opf_graph *graph, bool *changed, opf_error *error)
{
    const opf_node_id n = graph->n_nodes;
    for (opf_node_id id = 1; id < n; id++) {
        lookup l;
        if (!opf_simplify_is_plain(opf_graph_node(graph, id)) || !find(graph, opf_graph_node(graph, id), &l))
            continue;
        OPF_OOM_IF(error, !apply(graph, id, &l));
        *changed = true;
    }
    return OPF_OK;
}
