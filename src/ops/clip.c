/* SPDX-License-Identifier: Apache-2.0 */
/* Clip: Min(max, Max(x, min)), so min above max gives max. NaN passes. A bound that is absent does not bind infinities. */
#include "ops/elementwise.h"
#include "ops/import.h"

#include <math.h>

static bool has(const opf_call *call, uint32_t i)
{
    return i < call->n_in && call->in[i].data != NULL;
}

static void clip_floats(const opf_call *call)
{
    const opf_view *x = &call->in[0];
    opf_view       *y = &call->out[0];
    double          low = has(call, 1) ? opf_view_f64(&call->in[1], 0) : -HUGE_VAL;
    double          high = has(call, 2) ? opf_view_f64(&call->in[2], 0) : HUGE_VAL;
    opf_walk        walk;
    for (opf_walk_init(&walk, y->rank, y->dims, 2, (const opf_view *const[]){x, y}); walk.left != 0; opf_walk_next(&walk)) {
        double element = opf_view_f64(x, walk.offset[0]);
        element        = element < low || isnan(low) ? low : element;
        opf_view_put_f64(y, walk.offset[1], element > high || isnan(high) ? high : element);
    }
}

/* Unsigned 64-bit numbers are compared with their top bit flipped, which keeps their order as signed ones. */
static void clip_integers(const opf_call *call)
{
    const opf_view *x = &call->in[0];
    opf_view       *y = &call->out[0];
    uint64_t        flip = x->type == OPF_UINT64 ? (uint64_t)1 << 63 : 0;
    int64_t         low = INT64_MIN, high = INT64_MAX;
    if (has(call, 1))
        low = (int64_t)((uint64_t)opf_view_i64(&call->in[1], 0) ^ flip);
    if (has(call, 2))
        high = (int64_t)((uint64_t)opf_view_i64(&call->in[2], 0) ^ flip);
    opf_walk walk;
    for (opf_walk_init(&walk, y->rank, y->dims, 2, (const opf_view *const[]){x, y}); walk.left != 0; opf_walk_next(&walk)) {
        int64_t element = (int64_t)((uint64_t)opf_view_i64(x, walk.offset[0]) ^ flip);
        element         = element < low ? low : element;
        element         = element > high ? high : element;
        opf_view_put_i64(y, walk.offset[1], (int64_t)((uint64_t)element ^ flip));
    }
}

static opf_status reference(const opf_call *call, opf_error *error)
{
    for (uint32_t i = 1; i < 3; i++)
        OPF_FAIL_IF(error, has(call, i) && opf_view_count(&call->in[i]) != 1, OPF_INVALID_INPUT, "%s has %zu elements, must have one",
                    i == 1 ? "min" : "max", opf_view_count(&call->in[i]));
    if (opf_types_have(OPF_TYPES_FLOAT, call->in[0].type))
        clip_floats(call);
    else
        clip_integers(call);
    return OPF_OK;
}

/* Known elements pass when the bounds are known and bind them provably, or provably not. */
static bool clip_value(opf_dims *dims, opf_dim *x, const opf_dim *low, const opf_dim *high)
{
    if (low != NULL && !opf_dim_at_least(dims, opf_dim_sub(dims, *x, *low), 0)) {
        if (!opf_dim_at_least(dims, opf_dim_sub(dims, *low, *x), 0))
            return false;
        *x = *low;
    }
    if (high != NULL && !opf_dim_at_least(dims, opf_dim_sub(dims, *high, *x), 0)) {
        if (!opf_dim_at_least(dims, opf_dim_sub(dims, *x, *high), 0))
            return false;
        *x = *high;
    }
    return true;
}

static opf_status infer(opf_infer *clip, opf_error *error)
{
    OPF_TRY(opf_infer_same(clip, 0, 0, error));
    const opf_dim *values, *bounds[3] = {NULL, NULL, NULL};
    opf_dim        result[OPF_MAX_KNOWN_VALUES];
    int32_t        n, one;
    for (uint32_t i = 1; i < 3; i++)
        if (opf_infer_has(clip, i) && (!opf_infer_values(clip, i, &bounds[i], &one) || one != 1))
            return OPF_OK;
    if (opf_types_have(OPF_TYPES_FLOAT, clip->in[0]->type) || !opf_infer_values(clip, 0, &values, &n))
        return OPF_OK;
    for (int32_t k = 0; k < n; k++) {
        result[k] = values[k];
        if (!clip_value(clip->dims, &result[k], bounds[1], bounds[2]))
            return OPF_OK;
    }
    return opf_infer_set_values(clip, 0, n, result, error);
}

static opf_status lift_bounds(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    (void)opset;
    OPF_TRY(opf_lift_float(graph, id, "min", 1, error));
    return opf_lift_float(graph, id, "max", 2, error);
}

static opf_status lower_bounds(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    (void)opset;
    OPF_TRY(opf_lower_float(graph, id, "min", 1, error));
    OPF_TRY(opf_lower_float(graph, id, "max", 2, error));
    const opf_attr *min = opf_node_attr(opf_graph_node(graph, id), "min"), *max = opf_node_attr(opf_graph_node(graph, id), "max");
    if (min == NULL || max == NULL || !(min->f > max->f))
        return OPF_OK;
    /* Bounds that cross, which the old form does not have: the upper one wins. */
    OPF_OOM_IF(error, !opf_node_set_float(graph, id, "min", max->f));
    return OPF_OK;
}

static const opf_import_row rows[] = {{11, lift_bounds, lower_bounds}};

const opf_op opf_op_Clip = {.name      = "Clip",
                            .domain    = "",
                            .since     = 1,
                            .traits    = OPF_ELEMENTWISE,
                            .inputs    = OPF_PARAMS({"input", 'T', OPF_TYPES_NUMERIC, 0}, {"min", 'T', OPF_TYPES_NUMERIC, OPF_OPTIONAL},
                                                    {"max", 'T', OPF_TYPES_NUMERIC, OPF_OPTIONAL}),
                            .n_inputs  = 3,
                            .outputs   = OPF_PARAMS({"output", 'T', OPF_TYPES_NUMERIC, 0}),
                            .n_outputs = 1,
                            .rows      = rows,
                            .n_rows    = OPF_COUNT(rows),
                            .infer     = infer,
                            .reference = reference};
