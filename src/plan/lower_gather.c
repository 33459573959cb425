/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gather. Indices that are known are a few series: one is seen where it lies, several are a strided copy each. Otherwise rows
 * that lie together (embeddings) take one memcpy each, at any byte address, so that a table stays in the mapped file.
 */
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

typedef struct {
    const char *table; /* a constant where it lies, or NULL: */
    opf_ref     table_ref;
    size_t      row_bytes;
    int64_t     rows, row_stride, outer_stride; /* bytes; for every index of the axes before, all indices */
    opf_ref     indices, y;
    opf_type    type; /* of indices */
    size_t      count;
} gather_args;

static opf_status check_gather(const opf_run_env *env, const void *args, opf_error *error)
{
    const gather_args *g       = args;
    const void        *indices = opf_ref_data(env, g->indices);
    for (size_t i = 0; i < g->count; i++) {
        int64_t index = opf_load_i64(g->type, indices, i);
        OPF_FAIL_IF(error, index < -g->rows || index >= g->rows, OPF_INVALID_INPUT, "index %lld at place %zu is outside [-%lld, %lld)",
                    (long long)index, i, (long long)g->rows, (long long)g->rows);
    }
    return OPF_OK;
}

static void run_gather(const opf_run_env *env, const void *args, size_t begin, size_t end, void *scratch)
{
    const gather_args *g       = args;
    const void        *indices = opf_ref_data(env, g->indices);
    const char        *table   = g->table != NULL ? g->table : opf_ref_data(env, g->table_ref);
    char              *y       = opf_ref_data(env, g->y);
    (void)scratch;
    for (size_t i = begin; i < end; i++) {
        int64_t index = opf_load_i64(g->type, indices, i % g->count), outer = (int64_t)(i / g->count) * g->outer_stride;
        memcpy(y + i * g->row_bytes, table + outer + (index < 0 ? index + g->rows : index) * g->row_stride, g->row_bytes);
    }
}

/* Where the table is; false: elements of its rows lie apart, or the rows in no order. */
static bool take_table(const opf_place *table, int32_t axis, size_t size, gather_args *g)
{
    int64_t stride, outer, row = 1;
    for (int32_t i = axis + 1; i < table->rank; i++)
        row *= table->dims[i];
    if ((row > 1 && (!opf_place_linear(table, axis + 1, table->rank - 1, &stride) || stride != 1)) ||
        !opf_place_linear(table, 0, axis - 1, &outer))
        return false;
    g->rows         = table->dims[axis];
    g->row_stride   = table->strides[axis] * (int64_t)size;
    g->outer_stride = outer * (int64_t)size;
    g->row_bytes    = (size_t)row * size;
    return true;
}

static opf_status lower_rows(opf_planner *planner, const opf_node *node, const opf_const *in_file, bool *done, opf_error *error)
{
    opf_place    table = {0}, indices, y;
    gather_args *g = OPF_NEW(planner->arena, gather_args, 1);
    OPF_OOM_IF(error, g == NULL);
    if (in_file != NULL) {
        g->table   = in_file->data;
        table.rank = in_file->rank;
        memcpy(table.dims, in_file->dims, (size_t)in_file->rank * sizeof *in_file->dims);
        opf_place_set_dense(&table, NULL);
    } else {
        OPF_TRY(opf_plan_place(planner, node->inputs[0], &table, error));
        g->table_ref = opf_place_ref(&table);
    }
    const int32_t axis = axis_of(node, table.rank);
    if (!take_table(&table, axis, opf_type_size(planner->infos[node->inputs[0]].type), g))
        return OPF_OK;
    *done = true;
    OPF_TRY(opf_plan_place(planner, node->inputs[1], &indices, error));
    OPF_TRY(opf_plan_dense(planner, &indices, NULL, error));
    OPF_TRY(opf_plan_alloc(planner, node->outputs[0], NULL, &y, error));
    g->indices         = opf_place_ref(&indices);
    g->y               = opf_place_ref(&y);
    g->type            = indices.type;
    g->count           = opf_place_elements(&indices);
    opf_plan_step step = {.kernel = "gather_rows", .run = run_gather, .check = check_gather, .args = g, .units = g->count};
    for (int32_t i = 0; i < axis; i++)
        step.units *= (size_t)table.dims[i];
    OPF_TRY(opf_plan_add_step(planner, &step, error));
    opf_plan_reads(planner, &indices);
    if (g->table == NULL)
        opf_plan_reads(planner, &table);
    opf_plan_writes(planner, &y);
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
