/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/gathered.h"

#include <stdlib.h>
#include <string.h>

void opf_place_set_dense(opf_place *place, const int32_t *order)
{
    uint64_t stride = 1; /* may wrap beside a dimension of 0 */
    for (int32_t i = place->rank; i-- > 0;) {
        int32_t axis         = order != NULL ? order[i] : i;
        place->strides[axis] = (int64_t)stride;
        stride *= place->dims[axis] == 0 ? 1 : (uint64_t)place->dims[axis];
    }
}

bool opf_place_is_row_major(const opf_place *place)
{
    int64_t stride = 1;
    if (opf_place_elements(place) == 0)
        return true;
    for (int32_t i = place->rank; i-- > 0;) {
        if (place->dims[i] != 1 && place->strides[i] != stride)
            return false;
        stride *= place->dims[i];
    }
    return true;
}

size_t opf_place_elements(const opf_place *place)
{
    size_t count = 1;
    for (int32_t i = 0; i < place->rank; i++)
        count *= (size_t)place->dims[i];
    return count;
}

void opf_place_order(const opf_place *place, int32_t *order)
{
    for (int32_t i = 0; i < place->rank; i++) {
        int32_t at = i; /* insertion sort, stable; axes of size 1 have no say and no effect */
        for (int32_t k = i; k-- > 0 && place->dims[i] != 1;) {
            if (place->dims[order[k]] == 1)
                continue;
            if (llabs(place->strides[order[k]]) >= llabs(place->strides[i]))
                break;
            at = k;
        }
        memmove(&order[at + 1], &order[at], (size_t)(i - at) * sizeof *order);
        order[at] = i;
    }
}

opf_place opf_place_broadcast(const opf_place *place, int32_t rank, const int64_t *dims)
{
    opf_place result = *place;
    result.rank      = rank;
    for (int32_t i = 0; i < rank; i++) {
        int32_t own       = i - (rank - place->rank);
        result.dims[i]    = dims[i];
        result.strides[i] = own < 0 || (place->dims[own] == 1 && dims[i] != 1) ? 0 : place->strides[own];
    }
    return result;
}

bool opf_place_linear(const opf_place *place, int32_t first, int32_t last, int64_t *stride)
{
    int64_t expected = 0;
    bool    any      = false;
    *stride          = 0;
    for (int32_t i = last; i >= first; i--) {
        if (place->dims[i] == 1)
            continue;
        if (!any)
            *stride = place->strides[i];
        else if (place->strides[i] != expected)
            return false;
        any      = true;
        expected = place->strides[i] * place->dims[i];
    }
    return true;
}

const int64_t *opf_place_offsets(opf_arena *arena, const opf_place *place, int32_t first, int32_t last)
{
    size_t n = 1;
    for (int32_t axis = first; axis <= last; axis++)
        n *= (size_t)place->dims[axis];
    int64_t *list = OPF_NEW(arena, int64_t, n);
    for (size_t i = 0; list != NULL && i < n; i++) {
        size_t left = i;
        for (int32_t axis = last; axis >= first; axis--) {
            list[i] += (int64_t)(left % (size_t)place->dims[axis]) * place->strides[axis];
            left /= (size_t)place->dims[axis];
        }
    }
    return list;
}

/* The shortest runs of axes with equal products: [i0, *i) of a and [j0, *j) of b, from *i, *j on. (Sizes that explain
   invents for shapes that depend on data may have other products: then the last run takes all that is left.) */
static void next_run(const int64_t *a, int32_t rank_a, int32_t *i, const int64_t *b, int32_t rank_b, int32_t *j)
{
    int64_t x = *i < rank_a ? a[(*i)++] : 1, y = *j < rank_b ? b[(*j)++] : 1;
    while (x != y && (x < y ? *i < rank_a : *j < rank_b)) {
        if (x < y)
            x *= a[(*i)++];
        else
            y *= b[(*j)++];
    }
}

/* Each run of axes must be linear. */
bool opf_place_reshape(const opf_place *place, int32_t rank, const int64_t *dims, opf_place *reshaped)
{
    opf_place result = *place;
    result.rank      = rank;
    memcpy(result.dims, dims, (size_t)rank * sizeof *dims);
    if (opf_place_elements(place) == 0) {
        opf_place_set_dense(&result, NULL);
        *reshaped = result;
        return true;
    }
    for (int32_t i = 0, j = 0; i < place->rank || j < rank;) {
        int32_t i0 = i, j0 = j;
        int64_t stride;
        next_run(place->dims, place->rank, &i, dims, rank, &j);
        if (!opf_place_linear(place, i0, i - 1, &stride))
            return false;
        for (int32_t k = j - 1; k >= j0; k--) {
            result.strides[k] = stride;
            stride *= dims[k];
        }
    }
    *reshaped = result;
    return true;
}

void opf_place_reshape_order(const opf_place *place, int32_t rank, const int64_t *dims, int32_t *order)
{
    struct {
        int32_t first, last; /* axes of the result */
        int64_t stride;      /* the least of the run, of axes that are not 1 */
    } runs[OPF_MAX_RANK + 1];
    int32_t n = 0;
    for (int32_t i = 0, j = 0; (i < place->rank || j < rank) && n <= OPF_MAX_RANK; n++) {
        int32_t i0     = i;
        runs[n].first  = j;
        runs[n].stride = INT64_MAX;
        next_run(place->dims, place->rank, &i, dims, rank, &j);
        runs[n].last = j;
        for (int32_t k = i0; k < i; k++)
            if (place->dims[k] != 1 && place->strides[k] < runs[n].stride)
                runs[n].stride = place->strides[k];
        for (int32_t at = n; at > 0 && runs[at - 1].stride < runs[at].stride && runs[at].stride != INT64_MAX; at--) {
            __typeof__(runs[0]) swap = runs[at];
            runs[at]                 = runs[at - 1];
            runs[at - 1]             = swap;
        }
    }
    for (int32_t r = 0, at = 0; r < n; r++)
        for (int32_t k = runs[r].first; k < runs[r].last; k++)
            order[at++] = k;
}

/* ---- placing ---- */

static opf_status add_buffer(opf_planner *planner, opf_buffer buffer, uint32_t *id, opf_error *error)
{
    opf_plan *plan = planner->plan;
    buffer.first   = UINT32_MAX;
    buffer.last    = 0;
    OPF_OOM_IF(error, !OPF_PUSH(planner->arena, plan->buffers, plan->n_buffers, plan->buffers_capacity, buffer));
    *id = plan->n_buffers - 1;
    return OPF_OK;
}

opf_status opf_plan_constant(opf_planner *planner, const void *data, size_t bytes, uint32_t *buffer, opf_error *error)
{
    return add_buffer(planner, (opf_buffer){.kind = OPF_BUFFER_CONST, .bytes = bytes, .data = data}, buffer, error);
}

bool opf_info_is_known(const opf_info *info)
{
    if (info->n_values < 0)
        return false;
    for (int32_t i = 0; i < info->n_values; i++)
        if (!opf_dim_is_number(info->values[i]))
            return false;
    return true;
}

static opf_status place_dims(const opf_info *info, opf_place *place, opf_error *error)
{
    OPF_FAIL_IF(error, info->rank < 0 || info->rank > OPF_MAX_RANK, OPF_INTERNAL, "rank %d of a planned value", info->rank);
    place->type = info->type;
    place->rank = info->rank;
    for (int32_t i = 0; i < info->rank; i++)
        place->dims[i] = info->dims[i].n;
    return OPF_OK;
}

opf_status opf_plan_place(opf_planner *planner, opf_value_id value, opf_place *place, opf_error *error)
{
    if (opf_plan_gathered(planner, value) != NULL)
        OPF_TRY(opf_plan_store_gathered(planner, value, error));
    if (planner->beside[value] != 0)
        OPF_TRY(opf_plan_store_beside(planner, value, error));
    if (planner->places[value].buffer != 0) {
        *place = planner->places[value];
        return OPF_OK;
    }
    const opf_const *constant = opf_graph_value(planner->graph, value)->constant;
    const opf_info  *info     = &planner->infos[value];
    opf_place        fresh    = {0};
    OPF_TRY(place_dims(info, &fresh, error));
    opf_place_set_dense(&fresh, NULL);
    if (constant != NULL) {
        const void *data = opf_weights_plain(planner->options->weights, constant);
        OPF_OOM_IF(error, data == NULL);
        OPF_TRY(opf_plan_constant(planner, data, opf_const_size(constant), &fresh.buffer, error));
    } else if (opf_info_is_known(info)) {
        size_t size = opf_type_size(info->type);
        void  *data = opf_arena_alloc_n(planner->arena, size, (size_t)info->n_values);
        OPF_OOM_IF(error, data == NULL);
        for (int32_t i = 0; i < info->n_values; i++)
            if (opf_types_have(OPF_TYPES_FLOAT, info->type))
                opf_store_f64(info->type, data, (size_t)i, (double)info->values[i].n);
            else
                opf_store_i64(info->type, data, (size_t)i, info->values[i].n);
        OPF_TRY(opf_plan_constant(planner, data, size * (size_t)info->n_values, &fresh.buffer, error));
    } else {
        return opf_fail(error, OPF_INTERNAL, "value %s is read before it is placed", opf_graph_value(planner->graph, value)->name);
    }
    planner->places[value] = fresh;
    *place                 = fresh;
    return OPF_OK;
}

opf_status opf_plan_alloc_temporary(opf_planner *planner, opf_type type, int32_t rank, const int64_t *dims, const int32_t *order,
                                    opf_place *place, opf_error *error)
{
    opf_place fresh = {.type = type, .rank = rank};
    if (rank != 0)
        memcpy(fresh.dims, dims, (size_t)rank * sizeof *dims);
    opf_place_set_dense(&fresh, order);
    size_t bytes;
    OPF_FAIL_IF(error, !opf_type_bytes(type, opf_place_elements(&fresh), &bytes), OPF_LIMIT, "a tensor of type %s is too large",
                opf_type_name(type));
    OPF_FAIL_IF(error, bytes > (uint64_t)planner->options->limits->tensor_bytes, OPF_LIMIT,
                "a tensor needs %zu bytes, more than the limit tensor-bytes", bytes);
    OPF_TRY(add_buffer(planner, (opf_buffer){.kind = OPF_BUFFER_ARENA, .bytes = bytes}, &fresh.buffer, error));
    *place = fresh;
    return OPF_OK;
}

/* The graph output that only a Transpose makes of the value, whose layout is what the caller wants: 1 + its number; else 0. */
static uint32_t transposed_output(const opf_planner *planner, opf_value_id value, const opf_place *place)
{
    const opf_use  *use       = opf_graph_single_use(planner->graph, value);
    const opf_node *transpose = use == NULL || use->node == 0 ? NULL : opf_graph_node(planner->graph, use->node);
    const opf_attr *perm      = transpose != NULL && transpose->op == &opf_op_Transpose ? opf_node_attr(transpose, "perm") : NULL;
    if (transpose == NULL || transpose->op != &opf_op_Transpose || transpose->epilogue.n != 0 || planner->options->reference)
        return 0;
    opf_place view = *place;
    for (int32_t i = 0; i < place->rank; i++) {
        const int64_t axis = perm != NULL ? perm->ints[i] : place->rank - 1 - i;
        view.dims[i]       = place->dims[axis];
        view.strides[i]    = place->strides[axis];
    }
    const uint32_t output = planner->output_of[transpose->outputs[0]];
    return output != OPF_CROSSING && opf_place_is_row_major(&view) ? output : 0;
}

opf_status opf_plan_alloc(opf_planner *planner, opf_value_id value, const int32_t *order, opf_place *place, opf_error *error)
{
    opf_place fresh = {0};
    OPF_TRY(place_dims(&planner->infos[value], &fresh, error));
    OPF_TRY(opf_plan_alloc_temporary(planner, fresh.type, fresh.rank, fresh.dims, order, &fresh, error));
    /* A graph output is written where the caller wants it, when the layout is the caller's. */
    uint32_t output = planner->output_of[value];
    if (output == 0)
        output = transposed_output(planner, value, &fresh);
    else if (!opf_place_is_row_major(&fresh))
        output = 0;
    if (output != 0) {
        opf_buffer *buffer        = &planner->plan->buffers[fresh.buffer];
        buffer->kind              = output == OPF_CROSSING ? OPF_BUFFER_VALUE : OPF_BUFFER_OUTPUT;
        buffer->index             = output == OPF_CROSSING ? value : output - 1;
        planner->output_of[value] = 0;
    }
    planner->places[value] = fresh;
    *place                 = fresh;
    return OPF_OK;
}

bool opf_plan_wants_row_major(const opf_planner *planner, opf_value_id value, const int32_t *order)
{
    const opf_graph *graph = planner->graph;
    opf_place        slice;
    if (opf_plan_slice(planner, value, &slice))
        return !opf_plan_slice_has_order(&slice, order);
    for (; planner->slices[value].whole != 0; value = planner->slices[value].whole)
        if (planner->slices[value].dropped != 0)
            return true;
    if (planner->output_of[value] != 0)
        return true;
    const opf_use  *use  = opf_graph_single_use(graph, value);
    const opf_node *node = use == NULL || use->node == 0 ? NULL : opf_graph_node(graph, use->node);
    if (node == NULL || node->epilogue.n != 0 || (node->op != &opf_op_Reshape && node->op != &opf_op_Flatten))
        return false;
    opf_place       place = {0}, view;
    const opf_info *info = &planner->infos[value], *out = &planner->infos[node->outputs[0]];
    int64_t         dims[OPF_MAX_RANK];
    place.rank = info->rank;
    for (int32_t i = 0; i < info->rank; i++)
        place.dims[i] = info->dims[i].n;
    for (int32_t i = 0; i < out->rank; i++)
        dims[i] = out->dims[i].n;
    opf_place_set_dense(&place, order);
    return !opf_place_reshape(&place, out->rank, dims, &view);
}

const opf_node *opf_plan_split_of(const opf_planner *planner, opf_value_id value, int32_t axis)
{
    const opf_use *use = opf_graph_single_use(planner->graph, value);
    if (use == NULL || use->node == 0 || use->input != 0 || planner->output_of[value] != 0)
        return NULL;
    const opf_node *split = opf_graph_node(planner->graph, use->node);
    if (split->op != &opf_op_Split || split->prologue.n != 0 || split->epilogue.n != 0)
        return NULL;
    for (uint32_t o = 0; o < split->n_outputs; o++)
        if (split->outputs[o] == 0)
            return NULL;
    const int64_t own = opf_node_int(split, "axis", 0);
    return axis == (own < 0 ? own + planner->infos[value].rank : own) ? split : NULL;
}
