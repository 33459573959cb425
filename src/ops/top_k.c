/* SPDX-License-Identifier: Apache-2.0 */
/* TopK. Equal elements keep their order; a NaN counts as the greatest. Unsorted results are sorted too. */
#include "ops/call.h"
#include "ops/lift.h"

#include <stdlib.h>

static opf_status infer_top_k(opf_infer *infer, opf_error *error)
{
    const opf_info *x = infer->in[0], *count = infer->in[1];
    const opf_dim  *k = NULL;
    opf_dim         dims[OPF_MAX_RANK];
    int32_t         axis, n;
    bool            fits = count->rank <= 0 ||
                (count->rank == 1 && (!opf_dim_is_number(count->dims[0]) || count->dims[0].n == 1));
    OPF_FAIL_IF(error, !fits, OPF_INVALID_MODEL, "K must have 1 element");
    if (x->rank < 0)
        return OPF_OK;
    OPF_TRY(opf_normalize_axis(opf_node_int(infer->node, "axis", -1), x->rank, &axis, error));
    for (int32_t i = 0; i < x->rank; i++)
        dims[i] = x->dims[i];
    dims[axis] = opf_infer_values(infer, 1, &k, &n) && n == 1 ? k[0] : opf_dim_unknown(infer->dims);
    if (opf_dim_is_number(dims[axis])) {
        OPF_FAIL_IF(error, dims[axis].n < 0, OPF_INVALID_INPUT, "K is %lld, must be 0 at least",
                    (long long)dims[axis].n);
        OPF_FAIL_IF(error, opf_dim_is_number(x->dims[axis]) && dims[axis].n > x->dims[axis].n, OPF_INVALID_INPUT,
                    "K is %lld, axis %d has %lld elements", (long long)dims[axis].n, axis, (long long)x->dims[axis].n);
    }
    for (uint32_t o = 0; o < infer->n_out; o++)
        OPF_TRY(opf_infer_set(infer, o, x->rank, dims, error));
    return OPF_OK;
}

/* ---- reference ---- */

typedef struct candidate {
    uint64_t key; /* the least comes first */
    int64_t  index;
} candidate;

static int compare(const void *a, const void *b)
{
    const candidate *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

/* Moves candidate i of a heap of n, whose top is the last in order, down to its place. */
static void sift(candidate *heap, int64_t i, int64_t n)
{
    for (;;) {
        int64_t child = 2 * i + 1;
        if (child >= n)
            return;
        if (child + 1 < n && compare(&heap[child], &heap[child + 1]) < 0)
            child++;
        if (compare(&heap[i], &heap[child]) >= 0)
            return;
        candidate swapped = heap[i];
        heap[i]           = heap[child];
        heap[child]       = swapped;
        i                 = child;
    }
}

/* The first k of n, sorted, by a heap of k. */
static void select_first(const opf_view *x, int64_t start, int64_t stride, int64_t n, bool largest, int64_t k,
                         candidate *heap)
{
    for (int64_t i = 0; i < n; i++) {
        uint64_t  key = opf_view_order(x, start + i * stride);
        candidate c   = {largest ? ~key : key, i};
        if (i < k) {
            heap[i] = c;
            for (int64_t parent = i == k - 1 ? k / 2 - 1 : -1; parent >= 0; parent--)
                sift(heap, parent, k);
        } else if (compare(&c, &heap[0]) < 0) {
            heap[0] = c;
            sift(heap, 0, k);
        }
    }
    qsort(heap, (size_t)k, sizeof *heap, compare);
}

static void write_slice(const opf_call *call, const candidate *first, int64_t k, int64_t from, int32_t axis,
                        const int64_t to[2])
{
    const opf_view *x = &call->in[0];
    for (int64_t i = 0; i < k; i++) {
        if (opf_call_wants(call, 0))
            opf_move_element(&call->out[0], to[0] + i * call->out[0].strides[axis], x,
                             from + first[i].index * x->strides[axis]);
        if (opf_call_wants(call, 1))
            opf_view_put_i64(&call->out[1], to[1] + i * call->out[1].strides[axis], first[i].index);
    }
}

static opf_status reference_top_k(const opf_call *call, opf_error *error)
{
    const opf_view *x       = &call->in[0];
    const opf_view  none    = {.rank = x->rank};
    const opf_view *views[] = {x, opf_call_wants(call, 0) ? &call->out[0] : &none,
                               opf_call_wants(call, 1) ? &call->out[1] : &none};
    const bool      largest = opf_call_int(call, "largest", 1) != 0;
    const int64_t   k       = opf_view_i64(&call->in[1], 0);
    int64_t         dims[OPF_MAX_RANK];
    int32_t         axis;
    size_t          bytes;
    opf_walk        walk;
    OPF_TRY(opf_normalize_axis(opf_call_int(call, "axis", -1), x->rank, &axis, error));
    OPF_FAIL_IF(error, k < 0 || k > x->dims[axis], OPF_INVALID_INPUT, "K is %lld, axis %d has %lld elements",
                (long long)k, axis, (long long)x->dims[axis]);
    if (k == 0)
        return OPF_OK;
    OPF_OOM_IF(error, !opf_mul_size((size_t)k, sizeof(candidate), &bytes));
    candidate *first = opf_heap_alloc(call->heap, bytes);
    OPF_OOM_IF(error, first == NULL);
    for (int32_t i = 0; i < x->rank; i++)
        dims[i] = i == axis ? 1 : x->dims[i];
    for (opf_walk_init(&walk, x->rank, dims, 3, views); walk.left != 0; opf_walk_next(&walk)) {
        select_first(x, walk.offset[0], x->strides[axis], x->dims[axis], largest, k, first);
        write_slice(call, first, k, walk.offset[0], axis, walk.offset + 1);
    }
    opf_heap_free(call->heap, first, bytes);
    return OPF_OK;
}

/* ---- older opsets ---- */

static opf_status lift_k(opf_graph *graph, opf_node_id node, int32_t opset, opf_error *error)
{
    (void)opset;
    return opf_lift_ints(graph, node, "k", 1, error);
}

static opf_status lower_k(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    (void)opset;
    const opf_node  *node = opf_graph_node(graph, id);
    const opf_const *k    = opf_graph_value(graph, node->inputs[1])->constant;
    OPF_FAIL_IF(error, k == NULL || k->count != 1, OPF_UNSUPPORTED,
                "%s (%s): K is not constant, but is attribute k in this opset", node->name, node->op_type);
    OPF_OOM_IF(error, !opf_node_set_int(graph, id, "k", opf_const_i64_at(k, 0)) ||
                          !opf_graph_set_input(graph, id, 1, 0));
    return OPF_OK;
}

static opf_status lower_top_k_11(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    const opf_node *node = opf_graph_node(graph, id);
    const int32_t   rank = opf_graph_value(graph, node->inputs[0])->info.rank;
    const opf_type  type = opf_graph_value(graph, node->inputs[0])->info.type;
    OPF_FAIL_IF(error, opf_types_have(OPF_TYPES_INT, type), OPF_UNSUPPORTED, "%s (%s): %s needs an opset above %d",
                node->name, node->op_type, opf_type_name(type), (int)opset);
    OPF_TRY(opf_lower_attr(graph, id, "largest", 1, error));
    OPF_TRY(opf_drop_attr(graph, id, "sorted"));
    return opf_lower_negative_axes(graph, id, "axis", rank, error);
}

const opf_op opf_op_TopK = {
    .name      = "TopK",
    .domain    = "",
    .since     = 1,
    .inputs    = (const opf_param[]){{"X", 'T', OPF_TYPES_NUMERIC, 0}, {"K", 0, OPF_TYPE_BIT(OPF_INT64), 0}},
    .n_inputs  = 2,
    .outputs   = (const opf_param[]){{"Values", 'T', OPF_TYPES_NUMERIC, 0},
                                     {"Indices", 0, OPF_TYPE_BIT(OPF_INT64), 0}},
    .n_outputs = 2,
    .attrs     = (const opf_attr_def[]){{.name = "axis", .type = OPF_ATTR_INT, .i = -1},
                                        {.name = "largest", .type = OPF_ATTR_INT, .i = 1},
                                        {.name = "sorted", .type = OPF_ATTR_INT, .i = 1}},
    .n_attrs   = 3,
    .rows      = (const opf_import_row[]){{10, lift_k, lower_k},
                                          {11, opf_import_same, lower_top_k_11},
                                          {24, opf_import_same, opf_lower_no_bfloat16}},
    .n_rows    = 3,
    .infer     = infer_top_k,
    .reference = reference_top_k,
};
