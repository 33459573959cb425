/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pad as copies of boxes. Along an axis the result is a few runs: what is there, and before and behind it the constant, an
 * edge element again and again, or pieces of the axis forwards (wrap) and backwards (reflect). A box takes one run of each
 * axis, so it is a strided copy; the constant fills an axis whole, whatever the faster axes hold.
 */
#include "ops/pad.h"
#include "plan/planner.h"

typedef struct {
    int64_t at, n;      /* elements [at, at + n) of the padded axis */
    int64_t from, step; /* are from, from + step, … of the input's */
    bool    fill;       /* or the constant */
} run;

typedef struct {
    run     *list;
    uint32_t n, capacity;
} runs;

typedef struct {
    opf_planner *planner;
    opf_place    x, y, value;
    int32_t      order[OPF_MAX_RANK]; /* y's axes from the slowest */
    runs         axes[OPF_MAX_RANK];
    opf_place   *src, *dst; /* the boxes */
    uint32_t     n, n_dst, src_capacity, dst_capacity;
} boxes;

enum { MOST_BOXES = 4096 };

/* ---- runs of an axis ---- */

/* The run that begins at element k of the n that are left of the axis; k < 0 and k >= n are outside. `end` is the last k + 1. */
static run next_run(opf_pad mode, int64_t k, int64_t n, int64_t end)
{
    run r = {.from = k, .step = 1, .n = n - k};
    if (k >= 0 && k < n)
        return r;
    r.n = k < 0 ? -k : end - k; /* up to what is there, or to the end */
    if (mode == OPF_PAD_CONSTANT) {
        r.fill = true;
    } else if (mode == OPF_PAD_EDGE || n == 1) {
        r.from = k < 0 ? 0 : n - 1;
        r.step = 0;
    } else {
        const int64_t period = mode == OPF_PAD_WRAP ? n : 2 * (n - 1), m = (k % period + period) % period;
        const bool    back   = mode == OPF_PAD_REFLECT && m >= n - 1;
        const int64_t most   = back ? period - m : mode == OPF_PAD_WRAP ? n - m : n - 1 - m;
        r.from               = back ? period - m : m;
        r.step               = back ? -1 : 1;
        r.n                  = r.n < most ? r.n : most;
    }
    return r;
}

/* Of an axis of d elements. False in *few: too many, or nothing to pad with. */
static opf_status find_runs(opf_planner *planner, opf_pad mode, int64_t d, int64_t before, int64_t after, runs *axis, bool *few, opf_error *error)
{
    const int64_t low = before < 0 ? -before : 0, n = d - low + (after < 0 ? after : 0);
    const int64_t first = before > 0 ? -before : 0, end = n + (after > 0 ? after : 0);
    *few = n > 0 || (n == 0 && (mode == OPF_PAD_CONSTANT || end == first));
    for (int64_t k = first; k < end && *few; k += axis->list[axis->n - 1].n) {
        run r = next_run(mode, k, n, end);
        r.at  = k - first;
        r.from += low;
        OPF_OOM_IF(error, !OPF_PUSH(planner->arena, axis->list, axis->n, axis->capacity, r));
        *few = axis->n <= MOST_BOXES;
    }
    return OPF_OK;
}

/* Runs of every axis; false in *few: not known, or too many boxes. */
static opf_status find_all_runs(opf_planner *planner, const opf_node *node, opf_pad mode, boxes *b, bool *few, opf_error *error)
{
    const opf_info *pads = &planner->infos[node->inputs[1]];
    const opf_info *axes = node->n_own_inputs > 3 && node->inputs[3] != 0 ? &planner->infos[node->inputs[3]] : NULL;
    int64_t         before[OPF_MAX_RANK] = {0}, after[OPF_MAX_RANK] = {0}, total = 1;
    *few = opf_info_is_known(pads) && (axes == NULL || opf_info_is_known(axes));
    for (int32_t k = 0; *few && k < pads->n_values / 2; k++) {
        int64_t axis = axes != NULL ? axes->values[k].n : k;
        axis += axis < 0 ? b->x.rank : 0;
        before[axis] = pads->values[k].n;
        after[axis]  = pads->values[pads->n_values / 2 + k].n;
    }
    for (int32_t i = 0; *few && i < b->x.rank; i++) {
        OPF_TRY(find_runs(planner, mode, b->x.dims[i], before[i], after[i], &b->axes[i], few, error));
        total *= b->axes[i].n;
        *few = *few && total <= MOST_BOXES;
    }
    return OPF_OK;
}

/* ---- boxes ---- */

static opf_status add_box(boxes *b, const opf_place *src, const opf_place *dst, opf_error *error)
{
    opf_arena *arena = b->planner->arena;
    OPF_OOM_IF(error, !OPF_PUSH(arena, b->src, b->n, b->src_capacity, *src) || !OPF_PUSH(arena, b->dst, b->n_dst, b->dst_capacity, *dst));
    return OPF_OK;
}

/* src and dst are boxes along the axes before number `depth` of the order, and whole along the others. */
static opf_status add_boxes(boxes *b, int32_t depth, const opf_place *src, const opf_place *dst, opf_error *error)
{
    if (depth == b->y.rank)
        return add_box(b, src, dst, error);
    const int32_t axis = b->order[depth];
    for (uint32_t i = 0; i < b->axes[axis].n; i++) {
        const run r = b->axes[axis].list[i];
        opf_place to = *dst, from = *src;
        to.offset += r.at * to.strides[axis];
        to.dims[axis] = r.n;
        if (r.fill) {
            from = opf_place_broadcast(&b->value, to.rank, to.dims);
            OPF_TRY(add_box(b, &from, &to, error));
            continue;
        }
        from.offset += r.from * from.strides[axis];
        from.strides[axis] *= r.step;
        from.dims[axis] = r.n;
        OPF_TRY(add_boxes(b, depth + 1, &from, &to, error));
    }
    return OPF_OK;
}

/* ---- lowering ---- */

/* The place of the constant, of rank 0. */
static opf_status place_value(opf_planner *planner, const opf_node *node, opf_place *value, opf_error *error)
{
    static const unsigned char zero[16] = {0};
    if (node->n_own_inputs > 2 && node->inputs[2] != 0) {
        OPF_TRY(opf_plan_place(planner, node->inputs[2], value, error));
    } else {
        *value = (opf_place){.type = planner->infos[node->inputs[0]].type};
        OPF_TRY(opf_plan_constant(planner, zero, sizeof zero, &value->buffer, error));
    }
    value->rank = 0;
    return OPF_OK;
}

static bool has_value(const opf_planner *planner, const opf_node *node)
{
    size_t count = 1;
    if (node->n_own_inputs > 2 && node->inputs[2] != 0)
        return opf_info_count(&planner->infos[node->inputs[2]], &count) && count != 0;
    return true;
}

opf_status opf_lower_pad(opf_planner *planner, opf_node_id id, bool *done, opf_error *error)
{
    const opf_node *node = opf_graph_node(planner->graph, id);
    boxes           b    = {.planner = planner};
    opf_pad         mode;
    bool            few;
    if (node->op != &opf_op_Pad || node->prologue.n != 0 || node->epilogue.n != 0 || !has_value(planner, node) ||
        opf_type_size(planner->infos[node->inputs[0]].type) == 0)
        return OPF_OK;
    OPF_TRY(opf_pad_read(opf_node_string(node, "mode", "constant"), &mode, error));
    OPF_TRY(opf_plan_place(planner, node->inputs[0], &b.x, error));
    OPF_TRY(find_all_runs(planner, node, mode, &b, &few, error));
    if (!few)
        return OPF_OK;
    *done = true;
    OPF_TRY(place_value(planner, node, &b.value, error));
    opf_place_order(&b.x, b.order);
    OPF_TRY(opf_plan_alloc_strided(planner, node->outputs[0], b.order, &b.y, error));
    opf_place_order(&b.y, b.order);
    OPF_TRY(add_boxes(&b, 0, &b.x, &b.y, error));
    return b.n == 0 ? OPF_OK : opf_plan_copies(planner, "pad", b.src, b.dst, b.n, error);
}
