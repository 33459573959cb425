/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unique elements, or unique slices along an axis, which are compared element by element in row-major order. NaNs are
 * one element, the greatest.
 */
#include "ops/call.h"
#include "ops/lift.h"

#include <string.h>

/* rank 0 and no axis: one item an element. */
static opf_status get_axis(const opf_attr *attr, int32_t rank, int32_t *axis, opf_error *error)
{
    *axis = -1;
    return attr == NULL ? OPF_OK : opf_normalize_axis(attr->i, rank, axis, error);
}

static opf_status infer_unique(opf_infer *infer, opf_error *error)
{
    const opf_info *x    = infer->in[0];
    const opf_attr *attr = opf_node_attr(infer->node, "axis");
    opf_dim         found = opf_dim_unknown(infer->dims), items = opf_dim_number(1), dims[OPF_MAX_RANK];
    int32_t         axis;
    if (x->rank < 0)
        return OPF_OK;
    OPF_TRY(get_axis(attr, x->rank, &axis, error));
    for (int32_t i = 0; i < x->rank; i++) {
        items   = axis < 0 || i == axis ? opf_dim_mul(infer->dims, items, x->dims[i]) : items;
        dims[i] = i == axis ? found : x->dims[i];
    }
    OPF_TRY(axis < 0 ? opf_infer_set(infer, 0, 1, &found, error) : opf_infer_set(infer, 0, x->rank, dims, error));
    for (uint32_t o = 1; o < infer->n_out; o++)
        OPF_TRY(opf_infer_set(infer, o, 1, o == 2 ? &items : &found, error));
    return OPF_OK;
}

/* ---- grouping ---- */

typedef struct items {
    const opf_view *x;
    opf_view        slice; /* of one item */
    int32_t         axis;  /* -1: items are elements */
    int64_t         n;
    int64_t        *order, *scratch; /* items, least first, equal ones in their order */
    int64_t        *group;           /* of each item, in the order of results */
    int64_t        *first;           /* of each group, the first item */
    int64_t         n_groups;
    size_t          bytes; /* of the four lists together */
} items;

static int64_t item_offset(const items *it, int64_t item)
{
    return it->axis < 0 ? opf_view_offset(it->x, (size_t)item) : item * it->x->strides[it->axis];
}

static int compare_elements(const opf_view *x, int64_t a, int64_t b)
{
    if (x->type == OPF_COMPLEX64) { /* by real parts, then by imaginary ones */
        const opf_view part = {.type = OPF_FLOAT, .data = x->data};
        int            real = compare_elements(&part, 2 * a, 2 * b);
        return real != 0 ? real : compare_elements(&part, 2 * a + 1, 2 * b + 1);
    }
    uint64_t i = opf_view_order(x, a), j = opf_view_order(x, b);
    return i < j ? -1 : i > j;
}

static int compare_items(const items *it, int64_t a, int64_t b)
{
    const opf_view *slice = &it->slice;
    int64_t         i = item_offset(it, a), j = item_offset(it, b);
    opf_walk        walk;
    int             result = 0;
    for (opf_walk_init(&walk, slice->rank, slice->dims, 1, &slice); walk.left != 0 && result == 0; opf_walk_next(&walk))
        result = compare_elements(it->x, i + walk.offset[0], j + walk.offset[0]);
    return result;
}

/* Bottom-up merge sort: stable. */
static void sort_items(const items *it, int64_t *list, int64_t *scratch, int64_t n)
{
    for (int64_t width = 1; width < n; width *= 2) {
        for (int64_t low = 0; low < n; low += 2 * width) {
            int64_t middle = low + width < n ? low + width : n, high = low + 2 * width < n ? low + 2 * width : n;
            for (int64_t i = low, j = middle, k = low; k < high; k++) {
                bool left  = i < middle && (j >= high || compare_items(it, list[i], list[j]) <= 0);
                scratch[k] = left ? list[i++] : list[j++];
            }
        }
        memcpy(list, scratch, (size_t)n * sizeof *list);
    }
}

/* Groups of equal items, in ascending order. */
static void group_items(items *it)
{
    for (int64_t i = 0; i < it->n; i++)
        it->order[i] = i;
    sort_items(it, it->order, it->scratch, it->n);
    it->n_groups = 0;
    for (int64_t i = 0; i < it->n; i++) {
        if (i == 0 || compare_items(it, it->order[i - 1], it->order[i]) != 0)
            it->first[it->n_groups++] = it->order[i];
        it->group[it->order[i]] = it->n_groups - 1;
    }
}

/* Groups in the order in which they are met. */
static void reorder_groups(items *it)
{
    int64_t met = 0;
    for (int64_t g = 0; g < it->n_groups; g++)
        it->scratch[g] = -1;
    for (int64_t i = 0; i < it->n; i++) {
        if (it->scratch[it->group[i]] < 0) {
            it->scratch[it->group[i]] = met;
            it->order[met++]          = i;
        }
        it->group[i] = it->scratch[it->group[i]];
    }
    memcpy(it->first, it->order, (size_t)it->n_groups * sizeof *it->first);
}

static opf_status find_groups(const opf_call *call, items *it, opf_error *error)
{
    const opf_view *x = &call->in[0];
    *it               = (items){.x = x, .slice = {.rank = 0}};
    OPF_TRY(get_axis(opf_call_attr(call, "axis"), x->rank, &it->axis, error));
    it->n = it->axis < 0 ? (int64_t)opf_view_count(x) : x->dims[it->axis];
    if (it->axis >= 0) {
        it->slice          = *x;
        it->slice.dims[it->axis] = 1;
    }
    OPF_OOM_IF(error, !opf_mul_size((size_t)it->n, 4 * sizeof *it->order, &it->bytes));
    it->order = opf_heap_alloc(call->heap, it->bytes);
    OPF_OOM_IF(error, it->order == NULL);
    it->scratch = it->order + it->n;
    it->group   = it->scratch + it->n;
    it->first   = it->group + it->n;
    group_items(it);
    if (opf_call_int(call, "sorted", 1) == 0)
        reorder_groups(it);
    return OPF_OK;
}

static opf_status resolve_unique(const opf_call *call, opf_info *out, opf_arena *arena, opf_error *error)
{
    int64_t    dims[OPF_MAX_RANK] = {0};
    items      it;
    opf_status status = OPF_OK;
    OPF_TRY(find_groups(call, &it, error));
    memcpy(dims, call->in[0].dims, sizeof dims);
    dims[it.axis < 0 ? 0 : it.axis] = it.n_groups;
    if (call->n_out > 0)
        status = opf_resolve_set(&out[0], it.axis < 0 ? 1 : call->in[0].rank, dims, arena, error);
    for (uint32_t o = 1; o < call->n_out && status == OPF_OK; o++)
        status = opf_resolve_set(&out[o], 1, o == 2 ? &it.n : &it.n_groups, arena, error);
    opf_heap_free(call->heap, it.order, it.bytes);
    return status;
}

static void write_numbers(const opf_call *call, const items *it)
{
    for (int64_t g = 0; g < it->n_groups; g++) {
        if (opf_call_wants(call, 1))
            opf_view_put_i64(&call->out[1], g * call->out[1].strides[0], it->first[g]);
        it->scratch[g] = 0;
    }
    for (int64_t i = 0; i < it->n; i++) {
        if (opf_call_wants(call, 2))
            opf_view_put_i64(&call->out[2], i * call->out[2].strides[0], it->group[i]);
        it->scratch[it->group[i]]++;
    }
    for (int64_t g = 0; g < it->n_groups && opf_call_wants(call, 3); g++)
        opf_view_put_i64(&call->out[3], g * call->out[3].strides[0], it->scratch[g]);
}

static opf_status reference_unique(const opf_call *call, opf_error *error)
{
    const opf_view *y = &call->out[0];
    items           it;
    OPF_TRY(find_groups(call, &it, error));
    for (int64_t g = 0; g < it.n_groups && opf_call_wants(call, 0); g++)
        opf_move_grid(opf_type_bits(y->type),
                      (opf_grid){y->data, g * y->strides[it.axis < 0 ? 0 : it.axis], y->strides},
                      (opf_grid){it.x->data, item_offset(&it, it.first[g]), it.slice.strides}, it.slice.rank,
                      it.slice.dims);
    write_numbers(call, &it);
    opf_heap_free(call->heap, it.order, it.bytes);
    return OPF_OK;
}

const opf_op opf_op_Unique = {
    .name      = "Unique",
    .domain    = "",
    .since     = 11,
    .inputs    = (const opf_param[]){{"X", 'T', OPF_TYPES_MOVED, 0}},
    .n_inputs  = 1,
    .outputs   = (const opf_param[]){{"Y", 'T', OPF_TYPES_MOVED, 0},
                                     {"indices", 0, OPF_TYPE_BIT(OPF_INT64), OPF_OPTIONAL},
                                     {"inverse_indices", 0, OPF_TYPE_BIT(OPF_INT64), OPF_OPTIONAL},
                                     {"counts", 0, OPF_TYPE_BIT(OPF_INT64), OPF_OPTIONAL}},
    .n_outputs = 4,
    .attrs     = (const opf_attr_def[]){{.name = "axis", .type = OPF_ATTR_INT},
                                        {.name = "sorted", .type = OPF_ATTR_INT, .i = 1}},
    .n_attrs   = 2,
    .rows      = (const opf_import_row[]){{28, opf_import_same, opf_lower_no_bfloat16}},
    .n_rows    = 1,
    .infer     = infer_unique,
    .reference = reference_unique,
    .resolve   = resolve_unique,
};
