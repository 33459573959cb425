/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/slice.h"

#include "ops/lift.h"
#include "ops/movement.h"

#include <string.h>

/* Ends that mean "to the end" in every exporter: no dimension of a tensor is that long. */
enum { FAR = INT32_MAX };

void opf_slice_range(int64_t d, int64_t start, int64_t end, int64_t step, int64_t *first, int64_t *count)
{
    int64_t low = step < 0 ? -1 : 0, high = step < 0 ? d - 1 : d;
    start += start < 0 ? d : 0;
    end += end < 0 ? d : 0;
    start  = start < low ? low : start > high ? high : start;
    end    = end < low ? low : end > high ? high : end;
    start  = step < 0 && start < 0 ? 0 : start; /* of an empty dimension, or before the beginning */
    *first = start;
    if (step > 0)
        *count = end > start ? (end - start - 1) / step + 1 : 0;
    else
        *count = start > end ? (start - end - 1) / -(step == INT64_MIN ? -INT64_MAX : step) + 1 : 0;
    *count = d == 0 ? 0 : *count;
}

/* ---- inference ---- */

/* A bound counted from the front and kept within [0, d]; false when that is not proven. */
static bool clamp_symbolic(opf_dims *dims, opf_dim d, opf_dim bound, opf_dim *result)
{
    if (opf_dim_is_number(bound) && bound.n >= FAR) {
        *result = d;
        return true;
    }
    if (opf_dim_is_number(bound) && bound.n <= -FAR) {
        *result = opf_dim_number(0);
        return true;
    }
    if (opf_dim_is_number(bound) && bound.n < 0)
        bound = opf_dim_add(dims, d, bound);
    if (opf_dim_equal(bound, d)) {
        *result = d;
        return true;
    }
    if (!opf_dim_at_least(dims, bound, 0))
        return false;
    if (opf_dim_at_least(dims, opf_dim_sub(dims, d, bound), 0))
        *result = bound;
    else if (opf_dim_at_least(dims, opf_dim_sub(dims, bound, d), 0))
        *result = d;
    else
        *result = opf_dim_min(dims, bound, d);
    return true;
}

static opf_dim slice_dim(opf_dims *dims, opf_dim d, opf_dim start, opf_dim end, int64_t step)
{
    opf_dim from, to;
    if (opf_dim_is_number(d) && opf_dim_is_number(start) && opf_dim_is_number(end)) {
        int64_t first, count;
        opf_slice_range(d.n, start.n, end.n, step, &first, &count);
        return opf_dim_number(count);
    }
    bool reverses = step == -1 && (opf_dim_is(start, -1) || (opf_dim_is_number(start) && start.n >= FAR)) &&
                    opf_dim_is_number(end) && end.n <= -FAR;
    if (reverses)
        return d;
    if (step < 1 || !clamp_symbolic(dims, d, start, &from) || !clamp_symbolic(dims, d, end, &to))
        return opf_dim_unknown(dims);
    opf_dim length = opf_dim_sub(dims, to, from);
    if (opf_dim_at_least(dims, opf_dim_sub(dims, from, to), 0))
        return opf_dim_number(0);
    if (!opf_dim_equal(to, d) && !opf_dim_at_least(dims, length, 0)) /* from is at most d */
        return opf_dim_unknown(dims);
    return step == 1 ? length
                     : opf_dim_div(dims, opf_dim_add(dims, length, opf_dim_number(step - 1)), opf_dim_number(step));
}

/* How many axes are sliced (-1: not known), which, and by which step; axes whose step is not known get step 0. */
static opf_status get_axes(opf_infer *infer, int32_t rank, int32_t axes[OPF_MAX_RANK], int64_t steps[OPF_MAX_RANK],
                           int32_t *n, opf_error *error)
{
    const opf_info *starts                = infer->in[1];
    int64_t         told[OPF_MAX_RANK];
    bool            seen[OPF_MAX_RANK] = {false};
    int32_t         n_told;
    *n = -1;
    OPF_FAIL_IF(error, starts->rank >= 0 && starts->rank != 1, OPF_INVALID_MODEL, "starts has rank %d, must be 1",
                starts->rank);
    if (starts->rank != 1 || !opf_dim_is_number(starts->dims[0]))
        return OPF_OK;
    OPF_FAIL_IF(error, starts->dims[0].n > rank, OPF_INVALID_MODEL, "%lld axes are sliced, the input has rank %d",
                (long long)starts->dims[0].n, rank);
    int32_t count = (int32_t)starts->dims[0].n;
    bool    has_axes = opf_infer_has(infer, 3), has_steps = opf_infer_has(infer, 4);
    if (has_axes && !opf_infer_numbers(infer, 3, told, OPF_MAX_RANK, &n_told))
        return OPF_OK;
    OPF_FAIL_IF(error, has_axes && n_told != count, OPF_INVALID_MODEL, "axes has %d elements, starts %d", n_told,
                count);
    for (int32_t k = 0; k < count; k++) {
        OPF_TRY(opf_normalize_axis(has_axes ? told[k] : k, rank, &axes[k], error));
        OPF_FAIL_IF(error, seen[axes[k]], OPF_INVALID_MODEL, "axis %d is there twice", axes[k]);
        seen[axes[k]] = true;
        steps[k]      = 1;
    }
    if (has_steps && opf_infer_numbers(infer, 4, steps, OPF_MAX_RANK, &n_told)) {
        OPF_FAIL_IF(error, n_told != count, OPF_INVALID_MODEL, "steps has %d elements, starts %d", n_told, count);
        for (int32_t k = 0; k < count; k++)
            OPF_FAIL_IF(error, steps[k] == 0, OPF_INVALID_INPUT, "steps[%d] is 0", k);
    } else if (has_steps) {
        memset(steps, 0, sizeof *steps * (size_t)count);
    }
    *n = count;
    return OPF_OK;
}

static opf_status infer_slice(opf_infer *infer, opf_error *error)
{
    const opf_info *in = infer->in[0];
    const opf_dim  *starts, *ends;
    opf_dim         dims[OPF_MAX_RANK];
    int32_t         axes[OPF_MAX_RANK], n, n_starts = -1, n_ends = -1;
    int64_t         steps[OPF_MAX_RANK] = {0};
    if (in->rank < 0)
        return OPF_OK;
    OPF_TRY(get_axes(infer, in->rank, axes, steps, &n, error));
    if (n < 0)
        return opf_infer_unknown_dims(infer, 0, in->rank, error);
    bool are_known = opf_infer_values(infer, 1, &starts, &n_starts) && opf_infer_values(infer, 2, &ends, &n_ends);
    OPF_FAIL_IF(error, are_known && (n_starts != n || n_ends != n), OPF_INVALID_MODEL,
                "starts has %d elements, ends %d", n_starts, n_ends);
    for (int32_t i = 0; i < in->rank; i++)
        dims[i] = in->dims[i];
    for (int32_t k = 0; k < n; k++)
        dims[axes[k]] = are_known && steps[k] != 0 ? slice_dim(infer->dims, dims[axes[k]], starts[k], ends[k], steps[k])
                                                   : opf_dim_unknown(infer->dims);
    OPF_TRY(opf_infer_set(infer, 0, in->rank, dims, error));
    return opf_infer_moved(infer, error);
}

/* ---- reference ---- */

static opf_status reference_slice(const opf_call *call, opf_error *error)
{
    const opf_view *in = &call->in[0], *out = &call->out[0];
    bool has_axes = call->n_in > 3 && call->in[3].data != NULL, has_steps = call->n_in > 4 && call->in[4].data != NULL;
    int64_t strides[OPF_MAX_RANK], starts[OPF_MAX_RANK], ends[OPF_MAX_RANK], axes[OPF_MAX_RANK], steps[OPF_MAX_RANK];
    opf_grid        src = {in->data, 0, strides};
    const size_t    n   = opf_view_count(&call->in[1]);
    OPF_FAIL_IF(error,
                n > (size_t)in->rank || opf_view_count(&call->in[2]) != n ||
                    (has_axes && opf_view_count(&call->in[3]) != n) || (has_steps && opf_view_count(&call->in[4]) != n),
                OPF_INVALID_INPUT, "starts, ends, axes and steps are not of one length of at most %d", in->rank);
    memcpy(strides, in->strides, sizeof strides);
    opf_view_ints(&call->in[1], starts);
    opf_view_ints(&call->in[2], ends);
    if (has_axes)
        opf_view_ints(&call->in[3], axes);
    if (has_steps)
        opf_view_ints(&call->in[4], steps);
    for (int32_t k = 0; k < (int32_t)n; k++) {
        int32_t axis;
        int64_t first, count, step = has_steps ? steps[k] : 1;
        OPF_TRY(opf_normalize_axis(has_axes ? axes[k] : k, in->rank, &axis, error));
        OPF_FAIL_IF(error, step == 0, OPF_INVALID_INPUT, "steps[%d] is 0", k);
        opf_slice_range(in->dims[axis], starts[k], ends[k], step, &first, &count);
        src.start += first * in->strides[axis];
        strides[axis] =
            count > 1 ? in->strides[axis] * step : 0; /* a huge step would overflow where there is one element */
    }
    opf_move_grid(opf_type_bits(in->type), (opf_grid){out->data, 0, out->strides}, src, out->rank, out->dims);
    return OPF_OK;
}

/* ---- opset 10: attributes became inputs ---- */

static opf_status lift_slice_10(opf_graph *graph, opf_node_id node, int32_t opset, opf_error *error)
{
    (void)opset;
    OPF_TRY(opf_lift_ints(graph, node, "starts", 1, error));
    OPF_TRY(opf_lift_ints(graph, node, "ends", 2, error));
    return opf_lift_ints(graph, node, "axes", 3, error);
}

static opf_status lower_slice_10(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    (void)opset;
    OPF_TRY(opf_lower_ints(graph, id, "steps", 4, error));
    OPF_TRY(opf_lower_attr(graph, id, "steps", 1, error));
    OPF_TRY(opf_lower_ints(graph, id, "axes", 3, error));
    OPF_TRY(opf_lower_ints(graph, id, "ends", 2, error));
    OPF_TRY(opf_lower_ints(graph, id, "starts", 1, error));
    return opf_lower_negative_axes(graph, id, "axes",
                                   opf_graph_value(graph, opf_graph_node(graph, id)->inputs[0])->info.rank, error);
}

const opf_op opf_op_Slice = {
    .name = "Slice",
    .domain = "",
    .since = 1,
    .traits = OPF_MOVEMENT,
    .inputs = (const opf_param[]){{"data", 'T', OPF_TYPES_MOVED, 0},
                                  {"starts", 'I', OPF_TYPES_INDEX, 0},
                                  {"ends", 'I', OPF_TYPES_INDEX, 0},
                                  {"axes", 'I', OPF_TYPES_INDEX, OPF_OPTIONAL},
                                  {"steps", 'I', OPF_TYPES_INDEX, OPF_OPTIONAL}},
    .n_inputs = 5,
    .outputs = (const opf_param[]){{"output", 'T', OPF_TYPES_MOVED, 0}},
    .n_outputs = 1,
    .rows = (const opf_import_row[]){{10, lift_slice_10, lower_slice_10}, {13, opf_import_same, opf_lower_moved_type}},
    .n_rows = 2,
    .infer = infer_slice,
    .reference = reference_slice,
};
