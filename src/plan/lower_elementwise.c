/* SPDX-License-Identifier: Apache-2.0 */
/* Elementwise operators and regions: one program over the whole result, in pieces that stay in L1. */
#include "plan/steps.h"

#include <string.h>

enum { MAX_VIEWS = OPF_PROGRAM_OPERANDS };

typedef struct {
    opf_program program;
    int32_t     outer; /* axes before rows and columns */
    int64_t     dims[OPF_MAX_RANK];
    size_t      rows, cols, block;
    opf_ref     refs[2 * MAX_VIEWS + 1]; /* operands, stores, result */
    int64_t     strides[2 * MAX_VIEWS + 1][OPF_MAX_RANK];
    int64_t     row[2 * MAX_VIEWS + 1], col[2 * MAX_VIEWS + 1];
    opf_type    types[2 * MAX_VIEWS + 1]; /* FLOAT, or levels */
} elementwise_args;

static void run_elementwise(const opf_run_env *env, const void *args, size_t begin, size_t end, void *scratch)
{
    const elementwise_args *e      = args;
    size_t                  blocks = (e->rows + e->block - 1) / e->block;
    uint32_t                n_in = e->program.n_operands, n_st = e->program.n_stores, n = n_in + n_st + 1;
    for (size_t unit = begin; unit < end; unit++) {
        size_t      left = unit / blocks, first = unit % blocks * e->block;
        size_t      rows = e->rows - first < e->block ? e->rows - first : e->block;
        int64_t     at[2 * MAX_VIEWS + 1];
        opf_operand operands[MAX_VIEWS];
        opf_store   stores[MAX_VIEWS];
        for (uint32_t v = 0; v < n; v++)
            at[v] = (int64_t)first * e->row[v];
        for (int32_t i = e->outer; i-- > 0;) {
            int64_t index = (int64_t)(left % (size_t)e->dims[i]);
            left /= (size_t)e->dims[i];
            for (uint32_t v = 0; v < n; v++)
                at[v] += index * e->strides[v][i];
        }
        for (uint32_t v = 0; v < n_in; v++)
            operands[v] = (opf_operand){(const char *)opf_ref_data(env, e->refs[v]) + at[v] * (int64_t)opf_type_size(e->types[v]), (ptrdiff_t)e->row[v],
                                        (ptrdiff_t)e->col[v], e->types[v] == OPF_FLOAT ? OPF_TYPE_NONE : e->types[v]};
        for (uint32_t v = 0; v < n_st; v++)
            stores[v] = (opf_store){(float *)opf_ref_data(env, e->refs[n_in + v]) + at[n_in + v], (ptrdiff_t)e->row[n_in + v],
                                    (ptrdiff_t)e->col[n_in + v]};
        float *dst = (float *)(void *)((char *)opf_ref_data(env, e->refs[n - 1]) + at[n - 1] * (int64_t)opf_type_size(e->types[n - 1]));
        opf_program_run(env->kern, &e->program, operands, stores, NULL, 0, dst, (ptrdiff_t)e->row[n - 1], rows, e->cols, scratch);
    }
}

/* Axes in the result's order, neighbours joined where all views allow; the last is the columns, the one before the rows. */
static void collapse(const opf_place *views, uint32_t n, elementwise_args *e)
{
    const opf_place *result = &views[n - 1];
    int32_t          order[OPF_MAX_RANK], axes = 0;
    int64_t          dims[OPF_MAX_RANK], strides[2 * MAX_VIEWS + 1][OPF_MAX_RANK];
    opf_place_order(result, order);
    for (int32_t i = 0; i < result->rank; i++) {
        int32_t axis = order[i];
        if (result->dims[axis] == 1)
            continue;
        bool join = axes > 0;
        for (uint32_t v = 0; v < n; v++)
            join = join && strides[v][axes - 1] == views[v].strides[axis] * result->dims[axis];
        if (!join)
            dims[axes++] = 1;
        dims[axes - 1] *= result->dims[axis];
        for (uint32_t v = 0; v < n; v++)
            strides[v][axes - 1] = views[v].strides[axis];
    }
    e->cols  = axes > 0 ? (size_t)dims[axes - 1] : 1;
    e->rows  = axes > 1 ? (size_t)dims[axes - 2] : 1;
    e->outer = axes > 2 ? axes - 2 : 0;
    for (uint32_t v = 0; v < n; v++) {
        e->col[v] = axes > 0 ? strides[v][axes - 1] : 0;
        e->row[v] = axes > 1 ? strides[v][axes - 2] : 0;
        memcpy(e->strides[v], strides[v], (size_t)e->outer * sizeof **strides);
    }
    memcpy(e->dims, dims, (size_t)e->outer * sizeof *dims);
    /* A single long row is cut into rows, so that threads can share it. */
    enum { PIECE = 4096 };
    if (e->rows == 1 && e->cols > 2 * PIECE && e->cols % PIECE == 0) {
        e->rows = e->cols / PIECE;
        e->cols = PIECE;
        for (uint32_t v = 0; v < n; v++)
            e->row[v] = e->col[v] * PIECE;
    }
}

/* The result lies like its largest operand: no reorder between the layouts of neighbours. */
static void choose_order(const opf_planner *planner, const opf_node *node, const opf_place *operands, uint32_t n, int32_t *order)
{
    const opf_info *info = &planner->infos[node->outputs[0]];
    for (int32_t i = 0; i < info->rank; i++)
        order[i] = i;
    for (uint32_t v = 0; v < n; v++) {
        bool full = operands[v].rank == info->rank;
        for (int32_t i = 0; full && i < info->rank; i++)
            full = operands[v].dims[i] == info->dims[i].n && (operands[v].strides[i] != 0 || operands[v].dims[i] == 1);
        if (full) {
            opf_place_order(&operands[v], order);
            return;
        }
    }
}

opf_status opf_plan_elementwise(opf_planner *planner, const opf_node *node, const opf_lowered *lowered, const opf_place *places,
                                const char *kernel, opf_error *error)
{
    elementwise_args e = {.program = lowered->program};
    uint32_t         n_in = e.program.n_operands, n_st = e.program.n_stores, n = n_in + n_st + 1;
    opf_place        views[2 * MAX_VIEWS + 1], *result = &views[n - 1];
    int32_t          order[OPF_MAX_RANK];
    choose_order(planner, node, places, n_in, order);
    OPF_TRY(opf_plan_alloc_slice(planner, node->outputs[0], order, result, error));
    for (uint32_t v = 0; v < n_in; v++)
        views[v] = opf_place_broadcast(&places[v], result->rank, result->dims);
    for (uint32_t v = 0; v < n_st; v++)
        OPF_TRY(opf_plan_alloc_slice(planner, lowered->stores[v], order, &views[n_in + v], error));
    for (uint32_t v = 0; v < n; v++) {
        e.refs[v]  = opf_place_ref(&views[v]);
        e.types[v] = views[v].type;
    }
    collapse(views, n, &e);
    e.block = e.cols == 0 ? 1 : 8192 / e.cols;
    e.block = e.block == 0 ? 1 : e.block;
    size_t units = 1;
    for (int32_t i = 0; i < e.outer; i++)
        units *= (size_t)e.dims[i];
    elementwise_args *kept = opf_arena_copy(planner->arena, &e, sizeof e);
    OPF_OOM_IF(error, kept == NULL);
    opf_plan_step step = {.kernel        = kernel,
                          .run           = run_elementwise,
                          .args          = kept,
                          .units         = opf_place_elements(result) == 0 ? 0 : units * ((e.rows + e.block - 1) / e.block),
                          .scratch_bytes = opf_program_scratch(&e.program) * sizeof(float),
                          .flops         = (double)opf_place_elements(result) * e.program.n};
    OPF_TRY(opf_plan_add_step(planner, &step, error));
    for (uint32_t v = 0; v < n_in; v++)
        opf_plan_reads(planner, &places[v]);
    for (uint32_t v = n_in; v < n; v++)
        opf_plan_writes(planner, &views[v]);
    /* In place over the first operand that lies like the result, if no other operand reads that buffer in another way. */
    for (uint32_t v = 0; v < n_in; v++) {
        bool alone = true;
        for (uint32_t u = 0; u < n_in; u++)
            alone = alone && (u == v || places[u].buffer != places[v].buffer);
        if (alone)
            opf_plan_may_share(planner, result, &views[v]);
    }
    return OPF_OK;
}

opf_status opf_lower_elementwise(opf_planner *planner, opf_node_id id, bool *done, opf_error *error)
{
    const opf_node *node = opf_graph_node(planner->graph, id);
    opf_lowered     lowered;
    opf_place       places[MAX_VIEWS];
    bool            region = node->op == &opf_op_Identity && node->epilogue.n != 0;
    bool            levels = node->op == &opf_op_QuantizeLinear || node->op == &opf_op_DequantizeLinear;
    bool            mask   = node->n_own_outputs > 1 && node->outputs[1] != 0; /* of Dropout */
    if (((node->op->traits & OPF_ELEMENTWISE) == 0 && !region && !levels) || node->outputs[0] == 0 || mask ||
        !opf_lower_elementwise_node(planner, node, &lowered))
        return OPF_OK;
    *done = true;
    for (uint32_t v = 0; v < lowered.program.n_operands; v++)
        OPF_TRY(opf_plan_place(planner, lowered.operands[v], &places[v], error));
    return opf_plan_elementwise(planner, node, &lowered, places, "elementwise_f32", error);
}
