/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/gathered.h"

#include <string.h>

const opf_gathered *opf_plan_gathered(const opf_planner *planner, opf_value_id value)
{
    return value != 0 && planner->places[value].buffer == 0 ? planner->gathered[value] : NULL;
}

opf_status opf_plan_reads_rows(opf_planner *planner, const opf_gathered *rows, opf_error *error)
{
    opf_plan_step *step = &planner->plan->steps[planner->plan->n_steps - 1];
    OPF_OOM_IF(error, !OPF_PUSH(planner->arena, step->gathered, step->n_gathered, step->gathered_capacity, rows));
    opf_plan_reads(planner, &rows->indices);
    opf_plan_reads(planner, &rows->table);
    return OPF_OK;
}

opf_status opf_gathered_check(const opf_run_env *env, const opf_gathered *rows, opf_error *error)
{
    const void *indices = opf_ref_data(env, opf_place_ref(&rows->indices));
    const size_t count = opf_place_elements(&rows->indices);
    for (size_t i = 0; i < count; i++) {
        const int64_t index = opf_load_i64(rows->indices.type, indices, i);
        OPF_FAIL_IF(error, index < -rows->n || index >= rows->n, OPF_INVALID_INPUT,
                    "index %lld at place %zu is outside [-%lld, %lld)", (long long)index, i, (long long)rows->n,
                    (long long)rows->n);
    }
    return OPF_OK;
}

/* ---- stored ---- */

typedef struct store_args {
    const opf_gathered *rows;
    opf_ref y;
    size_t count; /* of indices */
} store_args;

static void run_store(const opf_run_env *env, const void *args, size_t begin, size_t end, void *scratch)
{
    const store_args *s = args;
    const opf_gathered *rows = s->rows;
    const void *indices = opf_ref_data(env, opf_place_ref(&rows->indices));
    const char *table = opf_gathered_base(env, rows);
    char *y = opf_ref_data(env, s->y);
    (void)scratch;
    for (size_t i = begin; i < end; i++) {
        const int64_t outer = (int64_t)(i / s->count) * rows->outer_stride;
        memcpy(y + i * rows->bytes, table + outer + opf_gathered_row(rows, indices, (int64_t)(i % s->count)),
               rows->bytes);
    }
}

static opf_status store(opf_planner *planner, const opf_gathered *rows, opf_error *error)
{
    opf_place y;
    store_args *s = OPF_NEW(planner->arena, store_args, 1);
    OPF_OOM_IF(error, s == NULL);
    OPF_TRY(opf_plan_alloc(planner, opf_graph_node(planner->graph, rows->node)->outputs[0], NULL, &y, error));
    *s = (store_args){rows, opf_place_ref(&y), opf_place_elements(&rows->indices)};
    const opf_plan_step step = {.kernel = "gather_rows", .run = run_store, .args = s, .units = s->count * rows->outer};
    OPF_TRY(opf_plan_add_step(planner, &step, error));
    OPF_TRY(opf_plan_reads_rows(planner, rows, error));
    opf_plan_writes(planner, &y);
    return OPF_OK;
}

opf_status opf_plan_store_gathered(opf_planner *planner, opf_value_id value, opf_error *error)
{
    const opf_node_id node = planner->node;
    const opf_gathered *rows = planner->gathered[value];
    planner->node = rows->node;
    planner->gathered[value] = NULL;
    const opf_status status = store(planner, rows, error);
    planner->node = node;
    return status;
}

/* ---- read in lines ---- */

const int64_t *opf_place_lines(opf_arena *arena, const opf_place *place, int32_t first, int32_t last)
{
    opf_place lines = {.rank = 0};
    for (int32_t i = 0; i < place->rank; i++)
        if (i < first || i > last) {
            lines.dims[lines.rank] = place->dims[i];
            lines.strides[lines.rank++] = place->strides[i];
        }
    return opf_place_offsets(arena, &lines, 0, lines.rank - 1);
}

opf_status opf_plan_lines(opf_planner *planner, const opf_gathered *rows, const opf_place *result, int32_t first,
                          int32_t last, opf_lines *lines, opf_error *error)
{
    const opf_place row = opf_place_broadcast(&rows->row, result->rank, result->dims),
                    index = opf_place_broadcast(&rows->index, result->rank, result->dims);
    int64_t col, step;
    *lines = (opf_lines){.rows = NULL};
    if (!opf_place_linear(&index, first, last, &step) || step != 0 || !opf_place_linear(&row, first, last, &col))
        return OPF_OK;
    *lines = (opf_lines){.rows = rows,
                         .index = opf_place_lines(planner->arena, &index, first, last),
                         .offset = opf_place_lines(planner->arena, &row, first, last),
                         .col = (ptrdiff_t)col};
    OPF_OOM_IF(error, lines->index == NULL || lines->offset == NULL);
    return OPF_OK;
}

const void *opf_line_at(const opf_run_env *env, const opf_lines *lines, size_t line)
{
    const opf_gathered *rows = lines->rows;
    const void *indices = opf_ref_data(env, opf_place_ref(&rows->indices));
    return opf_gathered_base(env, rows) + opf_gathered_row(rows, indices, lines->index[line]) +
           lines->offset[line] * (int64_t)sizeof(float);
}
