/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gather. Indices that are known are a few series: one is seen where it lies, several are a strided copy each. Otherwise rows
 * that lie together (embeddings) are read by their only reader, or take one memcpy each, at any byte address: a table stays in
 * the mapped file.
 */
#include "ops/stored.h"
#include "plan/gathered.h"
#include "plan/series.h"

#include <string.h>

static int32_t axis_of(const opf_node *node, int32_t rank)
{
    const int64_t axis = opf_node_int(node, "axis", 0);
    return (int32_t)(axis < 0 ? axis + rank : axis);
}

/* ---- known indices ---- */

enum { MOST_SERIES = 256 };

/* The part of x that a series takes along the axis. */
static opf_place part_of(const opf_place *x, int32_t axis, const opf_series *series)
{
    opf_place part = *x;
    part.offset += series->first * x->strides[axis];
    part.strides[axis] *= series->step;
    part.dims[axis] = series->n;
    return part;
}

/* The dims of the axis become those of the indices; one stride serves all. */
static opf_place spread(const opf_place *part, int32_t axis, const opf_place *indices)
{
    opf_place y      = *part;
    int64_t   stride = part->strides[axis];
    y.rank           = part->rank - 1 + indices->rank;
    for (int32_t i = axis + 1; i < part->rank; i++) {
        y.dims[i - 1 + indices->rank]    = part->dims[i];
        y.strides[i - 1 + indices->rank] = part->strides[i];
    }
    for (int32_t i = indices->rank; i-- > 0; stride *= indices->dims[i]) {
        y.dims[axis + i]    = indices->dims[i];
        y.strides[axis + i] = stride;
    }
    return y;
}

/* The order of x, with the axes of the indices in the place of one. */
static void spread_order(const opf_place *x, int32_t axis, int32_t rank, int32_t *order)
{
    int32_t own[OPF_MAX_RANK], n = 0;
    opf_place_order(x, own);
    for (int32_t i = 0; i < x->rank; i++)
        if (own[i] == axis)
            for (int32_t k = 0; k < rank; k++)
                order[n++] = axis + k;
        else
            order[n++] = own[i] < axis ? own[i] : own[i] - 1 + rank;
}

/* Every series to where its indices stand in y, whose axes of the indices are one again. */
static opf_status copy_series(opf_planner *planner, const opf_place *x, int32_t axis, const opf_place *indices, const opf_place *y,
                              int64_t stride, const opf_series *series, uint32_t n, opf_error *error)
{
    opf_place *src = OPF_NEW(planner->arena, opf_place, n), *dst = OPF_NEW(planner->arena, opf_place, n), to = *x;
    int64_t    at = 0;
    OPF_OOM_IF(error, src == NULL || dst == NULL);
    to.buffer = y->buffer;
    to.offset = y->offset;
    for (int32_t i = 0; i < x->rank; i++)
        to.strides[i] = i == axis ? stride : y->strides[i < axis ? i : i - 1 + indices->rank];
    for (uint32_t i = 0; i < n; at += series[i++].n) {
        src[i]            = part_of(x, axis, &series[i]);
        dst[i]            = to;
        dst[i].dims[axis] = series[i].n;
        dst[i].offset += at * stride;
    }
    return opf_plan_copies(planner, "gather", src, dst, n, error);
}

/* Not of constants: their rows are copied out of the file. */
static opf_status lower_known(opf_planner *planner, const opf_node *node, bool *done, opf_error *error)
{
    opf_place      x, indices, y;
    const int64_t *numbers;
    int64_t       *list, stride;
    opf_series    *series;
    uint32_t       n_series;
    int32_t        order[OPF_MAX_RANK];
    OPF_TRY(opf_plan_place(planner, node->inputs[0], &x, error));
    OPF_TRY(opf_plan_place(planner, node->inputs[1], &indices, error));
    OPF_TRY(opf_plan_numbers(planner, &indices, &numbers, error));
    const int32_t axis = axis_of(node, x.rank);
    const size_t  n    = opf_place_elements(&indices);
    if (numbers == NULL)
        return OPF_OK;
    list = OPF_NEW(planner->arena, int64_t, n);
    OPF_OOM_IF(error, list == NULL);
    for (size_t i = 0; i < n; i++) {
        list[i] = numbers[i] < 0 ? numbers[i] + x.dims[axis] : numbers[i];
        if (list[i] < 0 || list[i] >= x.dims[axis])
            return OPF_OK; /* a run says so */
    }
    OPF_TRY(opf_plan_series(planner, list, n, &series, &n_series, error));
    if (n_series > MOST_SERIES)
        return OPF_OK;
    *done = true;
    if (n_series == 1) {
        const opf_place part              = part_of(&x, axis, series);
        planner->places[node->outputs[0]] = spread(&part, axis, &indices);
        return OPF_OK;
    }
    spread_order(&x, axis, indices.rank, order);
    OPF_TRY(opf_plan_alloc_strided(planner, node->outputs[0], order, &y, error));
    if (!opf_place_linear(&y, axis, axis + indices.rank - 1, &stride)) { /* a slice along one of them */
        OPF_TRY(opf_plan_alloc(planner, node->outputs[0], order, &y, error));
        (void)opf_place_linear(&y, axis, axis + indices.rank - 1, &stride);
    }
    return n_series == 0 ? OPF_OK : copy_series(planner, &x, axis, &indices, &y, stride, series, n_series, error);
}

/* ---- rows ---- */

/* How the table lies; false: elements of its rows lie apart, or the rows in no order. */
static bool take_table(const opf_place *table, int32_t axis, opf_gathered *rows)
{
    const int64_t size = (int64_t)opf_type_size(table->type);
    int64_t       stride, outer, row = 1;
    for (int32_t i = axis + 1; i < table->rank; i++)
        row *= table->dims[i];
    if ((row > 1 && (!opf_place_linear(table, axis + 1, table->rank - 1, &stride) || stride != 1)) ||
        !opf_place_linear(table, 0, axis - 1, &outer))
        return false;
    rows->table        = *table;
    rows->n            = table->dims[axis];
    rows->stride       = table->strides[axis] * size;
    rows->bytes        = (size_t)(row * size);
    rows->outer_stride = outer * size;
    rows->outer        = 1;
    for (int32_t i = 0; i < axis; i++)
        rows->outer *= (size_t)table->dims[i];
    return true;
}

/* Index and row apart, each under the dims of the result. */
static void take_result(opf_gathered *rows)
{
    const opf_place *table = &rows->table, *indices = &rows->indices;
    opf_place        row = {.type = table->type, .rank = indices->rank + table->rank - 1}, index = row;
    for (int32_t i = 0; i < row.rank; i++) {
        const bool    counts = i < indices->rank;
        const int32_t axis   = i - indices->rank + 1; /* of the table */
        row.dims[i] = index.dims[i] = counts ? indices->dims[i] : table->dims[axis];
        row.strides[i]              = counts ? 0 : table->strides[axis];
        index.strides[i]            = counts ? indices->strides[i] : 0;
    }
    index.type   = indices->type;
    index.buffer = indices->buffer;
    index.offset = indices->offset;
    rows->row    = row;
    rows->index  = index;
}

static opf_status lower_rows(opf_planner *planner, const opf_node *node, const opf_const *in_file, bool *done, opf_error *error)
{
    const opf_value_id result = node->outputs[0];
    opf_place          table  = {.type = planner->infos[node->inputs[0]].type};
    opf_gathered      *rows   = OPF_NEW(planner->arena, opf_gathered, 1);
    OPF_OOM_IF(error, rows == NULL);
    if (in_file != NULL) {
        rows->data = in_file->data;
        table.rank = in_file->rank;
        memcpy(table.dims, in_file->dims, (size_t)in_file->rank * sizeof *in_file->dims);
        opf_place_set_dense(&table, NULL);
    } else {
        OPF_TRY(opf_plan_place(planner, node->inputs[0], &table, error));
    }
    if (!take_table(&table, axis_of(node, table.rank), rows))
        return OPF_OK;
    *done      = true;
    rows->node = planner->node;
    OPF_TRY(opf_plan_place(planner, node->inputs[1], &rows->indices, error));
    OPF_TRY(opf_plan_dense(planner, &rows->indices, NULL, error));
    planner->gathered[result] = rows;
    if (!opf_gather_is_read_in_place(node) || planner->output_of[result] != 0)
        return opf_plan_store_gathered(planner, result, error);
    take_result(rows);
    return OPF_OK;
}

opf_status opf_lower_gather(opf_planner *planner, opf_node_id id, bool *done, opf_error *error)
{
    const opf_node *node = opf_graph_node(planner->graph, id);
    if (node->op != &opf_op_Gather || node->prologue.n != 0 || node->epilogue.n != 0 ||
        opf_type_size(planner->infos[node->inputs[0]].type) == 0 || planner->infos[node->inputs[0]].rank == 0)
        return OPF_OK;
    const opf_const *constant = opf_graph_value(planner->graph, node->inputs[0])->constant;
    if (constant == NULL)
        OPF_TRY(lower_known(planner, node, done, error));
    if (*done)
        return OPF_OK;
    return lower_rows(planner, node, constant != NULL && constant->kind == OPF_CONST_BYTES ? constant : NULL, done, error);
}
