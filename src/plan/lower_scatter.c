/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ScatterND and ScatterElements that replace: a copy of data, unless the result may lie there, and one copy for each update,
 * in order, so that the last one stays where indices repeat. Indices that are known become offsets when the plan is made, and
 * neighbours one copy. Updates that are reduced with what is there stay with the reference kernel.
 */
#include "ops/movement.h"
#include "plan/series.h"

#include <string.h>

/* n slices: where in the updates and in y, and how far the next ones are; in elements. */
typedef struct {
    int64_t n, from, from_step, to, to_step;
} move;

typedef struct {
    opf_place      data, indices, updates, y;
    size_t         size;   /* bytes of an element */
    int32_t        axis;   /* ScatterElements: the one that indices count; ScatterND: -1 */
    int32_t        depth;  /* axes of y that an index names; ScatterElements: all */
    int64_t        n;      /* updates, each a slice along y's other axes */
    const int64_t *from;   /* where each is */
    int64_t        slice;  /* elements of an update */
    bool           is_row; /* they are neighbours on both sides */
    bool           is_known;
    move          *moves; /* then: all of them */
    uint32_t       n_moves, moves_capacity;
} scatter_args;

/* ---- running ---- */

/* Where in y the slice of update i lies. */
static opf_status find_offset(const scatter_args *s, opf_type type, const void *indices, int64_t i, int64_t *offset, opf_error *error)
{
    int64_t left = i; /* an update of ScatterElements has the place of its index, but along the axis */
    *offset      = 0;
    for (int32_t k = s->depth; k-- > 0;) {
        const int64_t d     = s->y.dims[k];
        int64_t       index = 0;
        if (s->axis < 0) {
            index = opf_load_i64(type, indices, (size_t)(i * s->depth + k));
        } else {
            index = k == s->axis ? opf_load_i64(type, indices, (size_t)i) : left % s->indices.dims[k];
            left /= s->indices.dims[k];
        }
        OPF_FAIL_IF(error, index < -d || index >= d, OPF_INVALID_INPUT, "index %lld is out of range for axis %d of %lld elements",
                    (long long)index, k, (long long)d);
        *offset += (index < 0 ? index + d : index) * s->y.strides[k];
    }
    return OPF_OK;
}

static opf_status check_scatter(const opf_run_env *env, const void *args, opf_error *error)
{
    const scatter_args *s       = args;
    const void         *indices = opf_ref_data(env, opf_place_ref(&s->indices));
    int64_t             offset;
    for (int64_t i = 0; i < s->n && !s->is_known; i++)
        OPF_TRY(find_offset(s, s->indices.type, indices, i, &offset, error));
    return OPF_OK;
}

static void copy_data(const opf_run_env *env, const scatter_args *s, char *y)
{
    char *data = opf_ref_data(env, opf_place_ref(&s->data));
    if (data != y) /* else it is there */
        opf_move_grid(8 * s->size, (opf_grid){y, 0, s->y.strides}, (opf_grid){data, 0, s->data.strides}, s->y.rank, s->y.dims);
}

static void copy_slices(const scatter_args *s, char *updates, const move *m, char *y)
{
    const int64_t one = 1, n = s->slice == 1 ? m->n : m->n * s->slice;
    if (s->slice == 1 || (s->is_row && m->from_step == s->slice && m->to_step == s->slice)) {
        opf_move_grid(8 * s->size, (opf_grid){y, m->to, s->slice == 1 ? &m->to_step : &one},
                      (opf_grid){updates, m->from, s->slice == 1 ? &m->from_step : &one}, 1, &n);
        return;
    }
    for (int64_t i = 0; i < m->n; i++) {
        const int64_t from = m->from + i * m->from_step, to = m->to + i * m->to_step;
        if (s->is_row)
            memcpy(y + to * (int64_t)s->size, updates + from * (int64_t)s->size, (size_t)s->slice * s->size);
        else
            opf_move_grid(8 * s->size, (opf_grid){y, to, s->y.strides + s->depth},
                          (opf_grid){updates, from, s->updates.strides + s->updates.rank - (s->y.rank - s->depth)}, s->y.rank - s->depth,
                          s->y.dims + s->depth);
    }
}

static void run_scatter(const opf_run_env *env, const void *args, size_t begin, size_t end, void *scratch)
{
    const scatter_args *s = args;
    (void)scratch;
    if (begin == end || opf_place_elements(&s->y) == 0)
        return;
    char *y = opf_ref_data(env, opf_place_ref(&s->y)), *updates = opf_ref_data(env, opf_place_ref(&s->updates));
    copy_data(env, s, y);
    for (uint32_t i = 0; i < s->n_moves; i++)
        copy_slices(s, updates, &s->moves[i], y);
    const void *indices = opf_ref_data(env, opf_place_ref(&s->indices));
    for (int64_t i = 0; i < s->n && !s->is_known; i++) {
        move one = {.n = 1, .from = s->from[i]};
        (void)find_offset(s, s->indices.type, indices, i, &one.to, NULL); /* checked before */
        copy_slices(s, updates, &one, y);
    }
}

/* ---- lowering ---- */

/* Known indices become moves. Where one is out of range they count as unknown: the run says so. */
static opf_status find_moves(opf_planner *planner, scatter_args *s, opf_error *error)
{
    const int64_t *numbers;
    int64_t       *to;
    OPF_TRY(opf_plan_numbers(planner, &s->indices, &numbers, error));
    if (numbers == NULL)
        return OPF_OK;
    to = OPF_NEW(planner->arena, int64_t, (size_t)s->n);
    OPF_OOM_IF(error, to == NULL);
    for (int64_t i = 0; i < s->n; i++)
        if (find_offset(s, OPF_INT64, numbers, i, &to[i], NULL) != OPF_OK)
            return OPF_OK;
    s->is_known = true;
    for (int64_t i = 0; i < s->n; i += s->moves[s->n_moves - 1].n) {
        const bool more = i + 1 < s->n;
        move       m    = {1, s->from[i], more ? s->from[i + 1] - s->from[i] : 0, to[i], more ? to[i + 1] - to[i] : 0};
        while (i + m.n < s->n && s->from[i + m.n] == m.from + m.n * m.from_step && to[i + m.n] == m.to + m.n * m.to_step)
            m.n++;
        OPF_OOM_IF(error, !OPF_PUSH(planner->arena, s->moves, s->n_moves, s->moves_capacity, m));
    }
    return OPF_OK;
}

static bool replaces(const opf_planner *planner, const opf_node *node)
{
    return (node->op == &opf_op_ScatterND || node->op == &opf_op_ScatterElements) && node->prologue.n == 0 && node->epilogue.n == 0 &&
           strcmp(opf_node_string(node, "reduction", "none"), "none") == 0 && opf_type_size(planner->infos[node->inputs[0]].type) != 0;
}

/* Which axes an index names, and how many elements an update has. */
static void describe(const opf_node *node, scatter_args *s)
{
    const bool    is_nd  = node->op == &opf_op_ScatterND;
    const int32_t prefix = is_nd ? s->indices.rank - 1 : s->indices.rank;
    const int64_t axis   = opf_node_int(node, "axis", 0);
    s->axis              = is_nd ? -1 : (int32_t)(axis < 0 ? axis + s->data.rank : axis);
    s->depth             = is_nd ? (int32_t)s->indices.dims[prefix] : s->data.rank;
    s->size              = opf_type_size(s->data.type);
    s->n = s->slice = 1;
    for (int32_t i = 0; i < prefix; i++)
        s->n *= s->indices.dims[i];
    for (int32_t i = s->depth; i < s->data.rank; i++)
        s->slice *= s->data.dims[i];
}

static bool is_row(const opf_place *place, int32_t first)
{
    int64_t stride;
    return opf_place_linear(place, first, place->rank - 1, &stride) && (stride == 1 || stride == 0);
}

opf_status opf_lower_scatter(opf_planner *planner, opf_node_id id, bool *done, opf_error *error)
{
    const opf_node *node = opf_graph_node(planner->graph, id);
    int32_t         order[OPF_MAX_RANK];
    if (!replaces(planner, node))
        return OPF_OK;
    scatter_args *s = OPF_NEW(planner->arena, scatter_args, 1);
    OPF_OOM_IF(error, s == NULL);
    *done = true;
    OPF_TRY(opf_plan_place(planner, node->inputs[0], &s->data, error));
    OPF_TRY(opf_plan_place(planner, node->inputs[1], &s->indices, error));
    OPF_TRY(opf_plan_place(planner, node->inputs[2], &s->updates, error));
    describe(node, s);
    opf_place_order(&s->data, order);
    OPF_TRY(opf_plan_alloc_strided(planner, node->outputs[0], order, &s->y, error));
    const int32_t first = s->updates.rank - (s->y.rank - s->depth); /* axis of updates that a slice begins with */
    s->is_row           = is_row(&s->updates, first) && is_row(&s->y, s->depth);
    s->from             = opf_place_offsets(planner->arena, &s->updates, 0, first - 1);
    OPF_OOM_IF(error, s->from == NULL);
    OPF_TRY(find_moves(planner, s, error));
    if (!s->is_known)
        OPF_TRY(opf_plan_dense(planner, &s->indices, NULL, error));
    opf_plan_step step = {.kernel = "scatter", .run = run_scatter, .check = check_scatter, .args = s, .units = 1};
    OPF_TRY(opf_plan_add_step(planner, &step, error));
    opf_plan_reads(planner, &s->data);
    opf_plan_reads(planner, &s->updates);
    if (!s->is_known)
        opf_plan_reads(planner, &s->indices);
    opf_plan_writes(planner, &s->y);
    if (s->updates.buffer != s->data.buffer && s->indices.buffer != s->data.buffer)
        opf_plan_may_share(planner, &s->y, &s->data);
    return OPF_OK;
}
