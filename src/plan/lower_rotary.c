/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/rotary.h"
#include "plan/rotation.h"

#include <string.h>

/* ---- rotations ---- */

static opf_status place_table(opf_planner *planner, opf_value_id value, const opf_rotation_request *request, opf_place *table,
                              opf_ref *ref, int64_t *strides, opf_pairs *pairs, opf_error *error)
{
    int64_t dims[OPF_MAX_RANK];
    OPF_TRY(opf_plan_place(planner, value, table, error));
    const int64_t width = table->dims[table->rank - 1], col = table->strides[table->rank - 1];
    for (int32_t i = 0; i < request->rank; i++)
        dims[i] = i + 1 < request->rank ? request->dims[i] : width;
    const opf_place wide = opf_place_broadcast(table, request->rank, dims);
    memcpy(strides, wide.strides, sizeof wide.strides);
    *ref   = opf_place_ref(table);
    *pairs = opf_angle_pairs(width, request->rotated, request->interleaved);
    pairs->step *= col;
    pairs->gap *= col;
    return OPF_OK;
}

opf_status opf_plan_rotation(opf_planner *planner, const opf_rotation_request *request, opf_rotation *rotation, opf_place tables[2],
                             opf_error *error)
{
    opf_rotation   *r     = rotation;
    const opf_pairs pairs = opf_pairs_of(request->rotated, request->interleaved);
    opf_pairs       cos, sin;
    *r = (opf_rotation){.axes = request->rank - 1};
    OPF_TRY(place_table(planner, request->cos, request, &tables[0], &r->cos, r->cos_strides, &cos, error));
    OPF_TRY(place_table(planner, request->sin, request, &tables[1], &r->sin, r->sin_strides, &sin, error));
    r->turn = (opf_turn){.n        = (size_t)pairs.n,
                         .x_step   = (ptrdiff_t)(pairs.step * request->x_col),
                         .x_gap    = (ptrdiff_t)(pairs.gap * request->x_col),
                         .y_step   = (ptrdiff_t)(pairs.step * request->y_col),
                         .y_gap    = (ptrdiff_t)(pairs.gap * request->y_col),
                         .cos_step = (ptrdiff_t)cos.step,
                         .cos_gap  = (ptrdiff_t)cos.gap,
                         .sin_step = (ptrdiff_t)sin.step,
                         .sin_gap  = (ptrdiff_t)sin.gap};
    return OPF_OK;
}

void opf_turn_row(const opf_run_env *env, const opf_rotation *rotation, const int64_t *index, const float *x, float *y)
{
    opf_turn  turn = rotation->turn;
    ptrdiff_t cos = 0, sin = 0;
    for (int32_t i = 0; i < rotation->axes; i++) {
        cos += (ptrdiff_t)(index[i] * rotation->cos_strides[i]);
        sin += (ptrdiff_t)(index[i] * rotation->sin_strides[i]);
    }
    turn.x   = x;
    turn.y   = y;
    turn.cos = (const float *)opf_ref_data(env, rotation->cos) + cos;
    turn.sin = (const float *)opf_ref_data(env, rotation->sin) + sin;
    env->kern->turn(&turn);
}

/* ---- RotaryEmbedding ---- */

typedef struct {
    opf_rotation rotation;
    int32_t      axes;
    opf_ref      x, y;
    int64_t      dims[OPF_MAX_RANK], x_strides[OPF_MAX_RANK], y_strides[OPF_MAX_RANK]; /* the last: of elements */
    int64_t      turned, size;
} rotary_args;

static void run_row(const opf_run_env *env, const rotary_args *t, size_t row)
{
    int64_t index[OPF_MAX_RANK], x_at = 0, y_at = 0;
    for (int32_t i = t->axes; i-- > 0; row /= (size_t)t->dims[i]) {
        index[i] = (int64_t)(row % (size_t)t->dims[i]);
        x_at += index[i] * t->x_strides[i];
        y_at += index[i] * t->y_strides[i];
    }
    const float *x = (const float *)opf_ref_data(env, t->x) + (ptrdiff_t)x_at;
    float       *y = (float *)opf_ref_data(env, t->y) + (ptrdiff_t)y_at;
    opf_turn_row(env, &t->rotation, index, x, y);
    for (int64_t k = t->turned; k < t->size; k++)
        y[(ptrdiff_t)(k * t->y_strides[t->axes])] = x[(ptrdiff_t)(k * t->x_strides[t->axes])];
}

static void run_rotary(const opf_run_env *env, const void *args, size_t begin, size_t end, void *scratch)
{
    (void)scratch;
    for (size_t row = begin; row < end; row++)
        run_row(env, args, row);
}

/* The form whose angles broadcast, of float. */
opf_status opf_lower_rotary(opf_planner *planner, opf_node_id id, bool *done, opf_error *error)
{
    enum { X, COS, SIN };
    const opf_node *node = opf_graph_node(planner->graph, id);
    opf_place       x, y, tables[2];
    int32_t         order[OPF_MAX_RANK];
    if (node->op != &opf_op_RotaryEmbedding || opf_node_int(node, "broadcast", 0) == 0 || node->prologue.n != 0 || node->epilogue.n != 0 ||
        planner->infos[node->inputs[X]].type != OPF_FLOAT)
        return OPF_OK;
    *done = true;
    OPF_TRY(opf_plan_place(planner, node->inputs[X], &x, error));
    opf_place_order(&x, order);
    OPF_TRY(opf_plan_alloc_strided(planner, node->outputs[0], order, &y, error));
    const int64_t size = x.dims[x.rank - 1], given = opf_node_int(node, "rotary_embedding_dim", 0), turned = given == 0 ? size : given;
    rotary_args   t = {.axes = x.rank - 1, .x = opf_place_ref(&x), .y = opf_place_ref(&y), .turned = turned, .size = size};
    memcpy(t.dims, x.dims, sizeof t.dims);
    memcpy(t.x_strides, x.strides, sizeof t.x_strides);
    memcpy(t.y_strides, y.strides, sizeof t.y_strides);
    const opf_rotation_request request = {.cos         = node->inputs[COS],
                                          .sin         = node->inputs[SIN],
                                          .rotated     = turned,
                                          .interleaved = opf_node_int(node, "interleaved", 0) != 0,
                                          .rank        = x.rank,
                                          .dims        = x.dims,
                                          .x_col       = x.strides[t.axes],
                                          .y_col       = y.strides[t.axes]};
    OPF_TRY(opf_plan_rotation(planner, &request, &t.rotation, tables, error));
    rotary_args *kept = opf_arena_copy(planner->arena, &t, sizeof t);
    OPF_OOM_IF(error, kept == NULL);
    const size_t        elements = opf_place_elements(&x);
    const opf_plan_step step     = {.kernel = "rotary_f32",
                                    .run    = run_rotary,
                                    .args   = kept,
                                    .units  = elements == 0 ? 0 : elements / (size_t)size,
                                    .flops  = 3.0 * (double)elements};
    OPF_TRY(opf_plan_add_step(planner, &step, error));
    opf_plan_reads(planner, &x);
    opf_plan_reads(planner, &tables[0]);
    opf_plan_reads(planner, &tables[1]);
    opf_plan_writes(planner, &y);
    return OPF_OK;
}
