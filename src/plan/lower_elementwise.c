/* SPDX-License-Identifier: Apache-2.0 */
/* Elementwise operators and regions: one program over the whole result, in pieces that stay in L1. */
#include "plan/gathered.h"
#include "plan/steps.h"

#include <string.h>

/* Operands, stores, the result; then of every operand whose rows are gathered, which index an element has. */
enum { MAX_OPERANDS = OPF_PROGRAM_OPERANDS, MAX_VIEWS = 3 * MAX_OPERANDS + 1 };

typedef struct {
    opf_program program;
    int32_t     outer; /* axes before rows and columns */
    int64_t     dims[OPF_MAX_RANK];
    size_t      rows, cols, block; /* block: rows of a tile */
    uint32_t    result, n; /* views */
    opf_ref     refs[MAX_VIEWS];
    int64_t     strides[MAX_VIEWS][OPF_MAX_RANK];
    int64_t     row[MAX_VIEWS], col[MAX_VIEWS];
    opf_type    types[MAX_VIEWS]; /* FLOAT, or levels */
    const opf_gathered *gathered[MAX_OPERANDS]; /* NULL: an operand lies at its ref */
} elementwise_args;

/* A tile: where each view is at its first element. */
typedef struct {
    size_t  rows;
    int64_t at[MAX_VIEWS];
} tile;

static tile tile_of(const elementwise_args *e, size_t unit)
{
    size_t blocks = (e->rows + e->block - 1) / e->block, left = unit / blocks, first = unit % blocks * e->block;
    tile   t      = {.rows = e->rows - first < e->block ? e->rows - first : e->block};
    for (uint32_t v = 0; v < e->n; v++)
        t.at[v] = (int64_t)first * e->row[v];
    for (int32_t i = e->outer; i-- > 0;) {
        int64_t index = (int64_t)(left % (size_t)e->dims[i]);
        left /= (size_t)e->dims[i];
        for (uint32_t v = 0; v < e->n; v++)
            t.at[v] += index * e->strides[v][i];
    }
    return t;
}

/* Where the rows of operand v begin; view `index` has the indices. */
static void find_rows(const opf_run_env *env, const elementwise_args *e, const tile *t, uint32_t v, uint32_t index, const void **rows)
{
    const opf_gathered *g       = e->gathered[v];
    const char         *base    = opf_gathered_base(env, g) + t->at[v] * (int64_t)sizeof(float);
    const void         *indices = opf_ref_data(env, e->refs[index]);
    for (size_t r = 0; r < t->rows; r++)
        rows[r] = base + (int64_t)r * e->row[v] * (int64_t)sizeof(float) +
                  opf_gathered_row(g, indices, t->at[index] + (int64_t)r * e->row[index]);
}

static void *view_at(const opf_run_env *env, const elementwise_args *e, const tile *t, uint32_t v)
{
    return (char *)opf_ref_data(env, e->refs[v]) + t->at[v] * (int64_t)opf_type_size(e->types[v]);
}

static void run_elementwise(const opf_run_env *env, const void *args, size_t begin, size_t end, void *scratch)
{
    const elementwise_args *e    = args;
    const uint32_t          n_in = e->program.n_operands;
    for (size_t unit = begin; unit < end; unit++) {
        const tile   t    = tile_of(e, unit);
        const void **rows = (const void **)(void *)((float *)scratch + opf_program_scratch(&e->program));
        opf_operand  operands[MAX_OPERANDS];
        opf_store    stores[MAX_OPERANDS];
        uint32_t     index = e->result + 1;
        for (uint32_t v = 0; v < n_in; v++) {
            operands[v] = (opf_operand){.row = (ptrdiff_t)e->row[v], .col = (ptrdiff_t)e->col[v]};
            if (e->gathered[v] != NULL) {
                find_rows(env, e, &t, v, index++, rows);
                operands[v].rows = rows;
                rows += e->block;
            } else {
                operands[v].data   = view_at(env, e, &t, v);
                operands[v].levels = e->types[v] == OPF_FLOAT ? OPF_TYPE_NONE : e->types[v];
            }
        }
        for (uint32_t v = n_in; v < e->result; v++)
            stores[v - n_in] = (opf_store){view_at(env, e, &t, v), (ptrdiff_t)e->row[v], (ptrdiff_t)e->col[v]};
        opf_program_run(env->kern, &e->program, operands, stores, NULL, 0, view_at(env, e, &t, e->result), (ptrdiff_t)e->row[e->result],
                        t.rows, e->cols, scratch);
    }
}

/* Axes in the result's order, neighbours joined where all views allow; the last is the columns, the one before the rows. */
static void collapse(const opf_place *views, elementwise_args *e)
{
    const opf_place *result = &views[e->result];
    const uint32_t   n      = e->n;
    int32_t          order[OPF_MAX_RANK], axes = 0;
    int64_t          dims[OPF_MAX_RANK + 1], strides[MAX_VIEWS][OPF_MAX_RANK + 1];
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
    /* The columns of a row have one index. */
    bool crosses = false;
    for (uint32_t v = e->result + 1; v < n; v++)
        crosses = crosses || (axes > 0 && strides[v][axes - 1] != 0);
    if (crosses) {
        for (uint32_t v = 0; v < n; v++)
            strides[v][axes] = 0;
        dims[axes++] = 1;
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
    const uint32_t   n_in = e.program.n_operands, n_st = e.program.n_stores;
    opf_place        views[MAX_VIEWS], *result = &views[n_in + n_st];
    int32_t          order[OPF_MAX_RANK];
    choose_order(planner, node, places, n_in, order);
    OPF_TRY(opf_plan_alloc_slice(planner, node->outputs[0], order, result, error));
    for (uint32_t v = 0; v < n_st; v++)
        OPF_TRY(opf_plan_alloc_slice(planner, lowered->stores[v], order, &views[n_in + v], error));
    e.result = n_in + n_st;
    e.n      = e.result + 1;
    for (uint32_t v = 0; v < n_in; v++) {
        e.gathered[v] = places[v].buffer == 0 ? opf_plan_gathered(planner, lowered->operands[v]) : NULL;
        views[v]      = opf_place_broadcast(e.gathered[v] != NULL ? &e.gathered[v]->row : &places[v], result->rank, result->dims);
        if (e.gathered[v] != NULL)
            views[e.n++] = opf_place_broadcast(&e.gathered[v]->index, result->rank, result->dims);
    }
    for (uint32_t v = 0; v < e.n; v++) {
        e.refs[v]  = opf_place_ref(&views[v]);
        e.types[v] = views[v].type;
    }
    collapse(views, &e);
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
                          .scratch_bytes = opf_program_scratch(&e.program) * sizeof(float) + (e.n - e.result - 1) * e.block * sizeof(void *),
                          .flops         = (double)opf_place_elements(result) * e.program.n};
    OPF_TRY(opf_plan_add_step(planner, &step, error));
    for (uint32_t v = 0; v < n_in; v++)
        if (e.gathered[v] != NULL)
            OPF_TRY(opf_plan_reads_rows(planner, e.gathered[v], error));
        else
            opf_plan_reads(planner, &places[v]);
    for (uint32_t v = n_in; v <= e.result; v++)
        opf_plan_writes(planner, &views[v]);
    /* In place over the first operand that lies like the result, if no other operand reads that buffer in another way. */
    for (uint32_t v = 0; v < n_in; v++) {
        bool alone = e.gathered[v] == NULL;
        for (uint32_t u = 0; u < n_in; u++)
            alone = alone && (u == v || (e.gathered[u] != NULL ? e.gathered[u]->table.buffer : places[u].buffer) != places[v].buffer);
        if (alone)
            opf_plan_may_share(planner, result, &views[v]);
    }
    return OPF_OK;
}

opf_status opf_lower_elementwise(opf_planner *planner, opf_node_id id, bool *done, opf_error *error)
{
    const opf_node *node = opf_graph_node(planner->graph, id);
    opf_lowered     lowered;
    opf_place       places[MAX_OPERANDS];
    bool            region = node->op == &opf_op_Identity && node->epilogue.n != 0;
    bool            levels = node->op == &opf_op_QuantizeLinear || node->op == &opf_op_DequantizeLinear;
    bool            mask   = node->n_own_outputs > 1 && node->outputs[1] != 0; /* of Dropout */
    if (((node->op->traits & OPF_ELEMENTWISE) == 0 && !region && !levels) || node->outputs[0] == 0 || mask ||
        !opf_lower_elementwise_node(planner, node, &lowered))
        return OPF_OK;
    *done = true;
    for (uint32_t v = 0; v < lowered.program.n_operands; v++) {
        places[v] = (opf_place){.buffer = 0};
        if (opf_plan_gathered(planner, lowered.operands[v]) == NULL)
            OPF_TRY(opf_plan_place(planner, lowered.operands[v], &places[v], error));
    }
    return opf_plan_elementwise(planner, node, &lowered, places, "elementwise_f32", error);
}
