/* SPDX-License-Identifier: Apache-2.0 */
/* Gather along the first axis of rows that lie together (embeddings): one memcpy a row, at any byte address, so that the
   table stays in the mapped file. */
#include "plan/planner.h"

#include <string.h>

typedef struct {
    const char *table; /* a constant where it lies, or NULL: */
    opf_ref     table_ref;
    size_t      row_bytes;
    int64_t     rows, row_stride; /* bytes */
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
        int64_t index = opf_load_i64(g->type, indices, i);
        memcpy(y + i * g->row_bytes, table + (index < 0 ? index + g->rows : index) * g->row_stride, g->row_bytes);
    }
}

opf_status opf_lower_gather(opf_planner *planner, opf_node_id id, bool *done, opf_error *error)
{
    const opf_node *node = opf_graph_node(planner->graph, id);
    if (node->op != &opf_op_Gather || opf_node_int(node, "axis", 0) != 0 || node->epilogue.n != 0)
        return OPF_OK;
    const opf_const *constant = opf_graph_value(planner->graph, node->inputs[0])->constant;
    size_t           size     = opf_type_size(planner->infos[node->inputs[0]].type);
    opf_place        table = {0}, indices, y;
    gather_args     *g = OPF_NEW(planner->arena, gather_args, 1);
    OPF_OOM_IF(error, g == NULL);
    if (size == 0 || planner->infos[node->inputs[0]].rank == 0)
        return OPF_OK;
    if (constant != NULL && constant->kind == OPF_CONST_BYTES) {
        g->table   = constant->data;
        table.rank = constant->rank;
        memcpy(table.dims, constant->dims, (size_t)constant->rank * sizeof *constant->dims);
        opf_place_set_dense(&table, NULL);
    } else {
        int64_t stride, row = 1;
        OPF_TRY(opf_plan_place(planner, node->inputs[0], &table, error));
        for (int32_t i = 1; i < table.rank; i++)
            row *= table.dims[i];
        if (row > 1 && (!opf_place_linear(&table, 1, table.rank - 1, &stride) || stride != 1))
            return OPF_OK;
        g->table_ref = opf_place_ref(&table);
    }
    OPF_TRY(opf_plan_place(planner, node->inputs[1], &indices, error));
    OPF_TRY(opf_plan_dense(planner, &indices, NULL, error));
    OPF_TRY(opf_plan_alloc(planner, node->outputs[0], NULL, &y, error));
    *done         = true;
    g->rows       = table.dims[0];
    g->row_stride = table.strides[0] * (int64_t)size;
    g->row_bytes  = size;
    for (int32_t i = 1; i < table.rank; i++)
        g->row_bytes *= (size_t)table.dims[i];
    g->indices         = opf_place_ref(&indices);
    g->y               = opf_place_ref(&y);
    g->type            = indices.type;
    g->count           = opf_place_elements(&indices);
    opf_plan_step step = {.kernel = "gather_rows", .run = run_gather, .check = check_gather, .args = g, .units = g->count};
    OPF_TRY(opf_plan_add_step(planner, &step, error));
    opf_plan_reads(planner, &indices);
    if (g->table == NULL)
        opf_plan_reads(planner, &table);
    opf_plan_writes(planner, &y);
    return OPF_OK;
}
