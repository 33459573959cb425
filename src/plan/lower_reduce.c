/* SPDX-License-Identifier: Apache-2.0 */
/* ReduceMean and ReduceSum over one run of axes: rows, the pixels of channels-last images, tokens of a sequence;
   ReduceMax over rows. The epilogue runs over the results of a thread's share while they are in cache. */
#include "plan/planner.h"
#include "plan/steps.h"

#include <string.h>

typedef struct {
    bool max, pixels;
    size_t outer, n, channels; /* rows of n; or images of n pixels with channels */
    opf_ref x, y;
    ptrdiff_t x_outer, x_n;
    float divisor;  /* n of a mean, 1 of a sum: a product with 1/n would round once more */
    size_t columns; /* results along the last axis that has more than one */
    opf_bound epilogue;
} reduce_args;

/* The steps on results [begin, end), a line of columns at a time. */
static void run_epilogue(const opf_run_env *env, const reduce_args *r, size_t begin, size_t end, float *scratch)
{
    opf_operand operands[OPF_PROGRAM_OPERANDS];
    opf_store stores[OPF_PROGRAM_OPERANDS];
    while (begin < end) {
        const size_t column = begin % r->columns;
        const size_t n = end - begin < r->columns - column ? end - begin : r->columns - column;
        float *y = (float *)opf_ref_data(env, r->y) + begin;
        opf_bound_at(env, &r->epilogue, begin / r->columns, 0, column, operands, stores);
        opf_program_run(env->kern, &r->epilogue.program, operands, stores, y, (ptrdiff_t)n, y, (ptrdiff_t)n, 1, n,
                        scratch);
        begin += n;
    }
}

static void run_reduce(const opf_run_env *env, const void *args, size_t begin, size_t end, void *scratch)
{
    const reduce_args *r = args;
    size_t step = r->pixels ? r->channels : 1;
    for (size_t i = begin; i < end; i++) {
        const float *x = (const float *)opf_ref_data(env, r->x) + (ptrdiff_t)i * r->x_outer;
        float *y = (float *)opf_ref_data(env, r->y) + i * step;
        if (r->pixels)
            env->kern->pixel_sum(x, r->x_n, r->n, 1.0f / r->divisor, y, r->channels);
        else
            *y = r->max ? env->kern->reduce_max(x, r->n) : env->kern->reduce_sum(x, r->n) / r->divisor;
    }
    if (r->epilogue.program.n != 0)
        run_epilogue(env, r, begin * step, end * step, scratch);
}

/* The result is lines of columns to the steps; operands may be broadcast over any axes before them. */
static opf_split split_result(const opf_place *y, size_t *columns)
{
    int32_t col = y->rank - 1;
    while (col > 0 && y->dims[col] == 1)
        col--;
    *columns = col >= 0 ? (size_t)y->dims[col] : 1;
    return (opf_split){.outer_first = 0,
                       .outer_last = col - 1,
                       .row_first = 0,
                       .row_last = -1,
                       .col = col,
                       .more_cols = col >= 0 ? y->rank - 1 - col : 0};
}

/* The reduced axes as a mask; false: unknown at plan time. */
static bool read_axes(const opf_planner *planner, const opf_node *node, int32_t rank, bool *reduced)
{
    memset(reduced, 0, OPF_MAX_RANK * sizeof *reduced);
    const opf_info *axes = node->n_own_inputs > 1 && node->inputs[1] != 0 ? &planner->infos[node->inputs[1]] : NULL;
    if (axes != NULL && !opf_info_is_known(axes))
        return false;
    if (axes == NULL || axes->n_values == 0) {
        for (int32_t i = 0; i < rank; i++)
            reduced[i] = opf_node_int(node, "noop_with_empty_axes", 0) == 0;
        return true;
    }
    for (int32_t i = 0; i < axes->n_values; i++)
        reduced[axes->values[i].n < 0 ? axes->values[i].n + rank : axes->values[i].n] = true;
    return true;
}

opf_status opf_lower_reduce(opf_planner *planner, opf_node_id id, bool *done, opf_error *error)
{
    const opf_node *node = opf_graph_node(planner->graph, id);
    bool reduced[OPF_MAX_RANK];
    opf_lowered lowered;
    if ((node->op != &opf_op_ReduceMean && node->op != &opf_op_ReduceSum && node->op != &opf_op_ReduceMax) ||
        node->prologue.n != 0 || planner->infos[node->inputs[0]].type != OPF_FLOAT ||
        !opf_lower_steps(planner, node, &node->epilogue, &lowered))
        return OPF_OK;
    reduce_args r = {.max = node->op == &opf_op_ReduceMax};
    opf_place x, y;
    OPF_TRY(opf_plan_place(planner, node->inputs[0], &x, error));
    if (opf_place_elements(&x) == 0 || x.rank == 0 || !read_axes(planner, node, x.rank, reduced))
        return OPF_OK;
    /* The reduced axes must be one run [first, last); what is kept on both sides has strides of its own. */
    int32_t first = 0, last = x.rank;
    while (first < x.rank && !reduced[first])
        first++;
    while (last > first && !reduced[last - 1])
        last--;
    for (int32_t i = first; i < last; i++)
        if (!reduced[i])
            return OPF_OK;
    int64_t n, outer, inner;
    if (first == last || !opf_place_linear(&x, first, last - 1, &n) || !opf_place_linear(&x, last, x.rank - 1, &inner))
        return OPF_OK;
    r.n = 1;
    for (int32_t i = first; i < last; i++)
        r.n *= (size_t)x.dims[i];
    r.channels = 1;
    for (int32_t i = last; i < x.rank; i++)
        r.channels *= (size_t)x.dims[i];
    bool images = last == x.rank && first == 2 && x.strides[1] == 1 && n != 1; /* channels-last, channels kept */
    if (images)
        r.channels = (size_t)x.dims[1];
    r.pixels = images || r.channels > 1;
    if (r.pixels ? r.max || (!images && inner != 1) : n != 1 && r.n != 1)
        return OPF_OK;
    if (!opf_place_linear(&x, 0, images ? 0 : first - 1, &outer))
        return OPF_OK;
    *done = true;
    OPF_TRY(opf_plan_alloc(planner, node->outputs[0], NULL, &y, error));
    r.outer = opf_place_elements(&x) / r.n / r.channels;
    r.x = opf_place_ref(&x);
    r.y = opf_place_ref(&y);
    r.x_outer = (ptrdiff_t)outer;
    r.x_n = (ptrdiff_t)n;
    r.divisor = node->op == &opf_op_ReduceMean ? (float)r.n : 1.0f;
    opf_place operands[OPF_PROGRAM_OPERANDS], stores[OPF_PROGRAM_OPERANDS];
    opf_split split = split_result(&y, &r.columns);
    if (lowered.program.n != 0)
        OPF_TRY(opf_bind(planner, &lowered, &y, split, &r.epilogue, operands, stores, error));
    reduce_args *kept = opf_arena_copy(planner->arena, &r, sizeof r);
    OPF_OOM_IF(error, kept == NULL);
    opf_plan_step step = {.kernel = r.pixels ? "pixel_sum_f32"
                                    : r.max  ? "reduce_max_f32"
                                             : "reduce_sum_f32",
                          .run = run_reduce,
                          .args = kept,
                          .units = r.outer,
                          .scratch_bytes = opf_program_scratch(&r.epilogue.program) * sizeof(float),
                          .flops = (double)opf_place_elements(&x)};
    OPF_TRY(opf_plan_add_step(planner, &step, error));
    opf_plan_reads(planner, &x);
    opf_plan_writes(planner, &y);
    if (lowered.program.n != 0)
        opf_bound_touch(planner, &r.epilogue, operands, stores);
    return OPF_OK;
}
