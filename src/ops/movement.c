/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/movement.h"

#include <string.h>

/* ---- moving ---- */

/* One row; constant sizes let the compiler turn memcpy into a load and a store. */
static void move_row(size_t bits, opf_grid dst, opf_grid src, int64_t n, int64_t dst_stride, int64_t src_stride)
{
    size_t size = bits / 8;
    if (size == 0) {
        for (int64_t i = 0; i < n; i++)
            opf_store_bits(bits, dst.data, (size_t)(dst.start + i * dst_stride),
                           opf_load_bits(bits, src.data, (size_t)(src.start + i * src_stride)));
        return;
    }
    char       *d = (char *)dst.data + dst.start * (int64_t)size;
    const char *s = (const char *)src.data + src.start * (int64_t)size;
    if (dst_stride == 1 && src_stride == 1) {
        memcpy(d, s, (size_t)n * size);
        return;
    }
    const int64_t d_step = dst_stride * (int64_t)size, s_step = src_stride * (int64_t)size;
    switch (size) {
#define ROW(bytes)                                                                                                     \
    case bytes:                                                                                                        \
        for (int64_t i = 0; i < n; i++)                                                                                \
            memcpy(d + i * d_step, s + i * s_step, bytes);                                                             \
        return;
        ROW(1)
        ROW(2)
        ROW(4)
        ROW(8)
        ROW(16)
#undef ROW
    default:
        return;
    }
}

void opf_move_grid(size_t bits, opf_grid dst, opf_grid src, int32_t rank, const int64_t *dims)
{
    int64_t index[OPF_MAX_RANK] = {0};
    for (int32_t i = 0; i < rank; i++)
        if (dims[i] == 0)
            return;
    const int32_t last = rank - 1;
    for (;;) {
        move_row(bits, dst, src, rank == 0 ? 1 : dims[last], rank == 0 ? 1 : dst.strides[last],
                 rank == 0 ? 1 : src.strides[last]);
        int32_t i = last - 1;
        for (; i >= 0; i--) {
            dst.start += dst.strides[i];
            src.start += src.strides[i];
            if (++index[i] < dims[i])
                break;
            dst.start -= dst.strides[i] * dims[i];
            src.start -= src.strides[i] * dims[i];
            index[i] = 0;
        }
        if (i < 0)
            return;
    }
}

void opf_move_in_order(opf_view *dst, const opf_view *src)
{
    size_t        bits = opf_type_bits(src->type), bytes = 0;
    size_t        n    = opf_view_count(dst);
    const int64_t one  = 1, count = (int64_t)n;
    opf_walk      walk;
    if (n == 0)
        return;
    if (opf_view_is_dense(src) && opf_view_is_dense(dst) && opf_type_bytes(src->type, n, &bytes)) {
        memcpy(dst->data, src->data, bytes);
        return;
    }
    if (opf_view_is_dense(src)) {
        opf_view in_order = *dst;
        opf_view_set_dense(&in_order);
        opf_move_grid(bits, (opf_grid){dst->data, 0, dst->strides}, (opf_grid){src->data, 0, in_order.strides},
                      dst->rank, dst->dims);
        return;
    }
    if (opf_view_is_dense(dst)) {
        opf_view in_order = *src;
        opf_view_set_dense(&in_order);
        opf_move_grid(bits, (opf_grid){dst->data, 0, in_order.strides}, (opf_grid){src->data, 0, src->strides},
                      src->rank, src->dims);
        return;
    }
    opf_walk_init(&walk, src->rank, src->dims, 1, &src);
    for (int64_t i = 0; i < count; i++, opf_walk_next(&walk))
        opf_move_grid(bits, (opf_grid){dst->data, opf_view_offset(dst, (size_t)i), &one},
                      (opf_grid){src->data, walk.offset[0], &one}, 0, NULL);
}

void opf_view_ints(const opf_view *view, int64_t *numbers)
{
    size_t n = opf_view_count(view);
    for (size_t i = 0; i < n; i++)
        numbers[i] = opf_view_i64(view, opf_view_offset(view, i));
}

/* ---- known values ---- */

_Static_assert(sizeof(opf_dim) == 16, "known values move as elements of 16 bytes");
#define TYPE_OF_VALUES OPF_COMPLEX128

static bool view_of_values(const opf_info *info, const opf_dim *values, opf_view *view)
{
    size_t count;
    if (info->rank < 0 || !opf_info_count(info, &count) || values == NULL || count > OPF_MAX_KNOWN_VALUES)
        return false;
    *view = (opf_view){.type = TYPE_OF_VALUES, .rank = info->rank, .data = (void *)(uintptr_t)values};
    for (int32_t i = 0; i < info->rank; i++)
        view->dims[i] = info->dims[i].n;
    opf_view_set_dense(view);
    return true;
}

/* Input i as its operator's kernel reads it: known values where they are moved, numbers where they steer. */
static bool view_of_input(const opf_infer *infer, uint32_t i, opf_view *view)
{
    const opf_op    *op    = infer->node->op;
    const opf_param *param = &op->inputs[i < op->n_inputs ? i : op->n_inputs - 1];
    const opf_dim   *values;
    int32_t          n;
    *view = (opf_view){.rank = 0};
    if (!opf_infer_has(infer, i))
        return true;
    if (!opf_infer_values(infer, i, &values, &n) || !view_of_values(infer->in[i], values, view) ||
        opf_view_count(view) != (size_t)n)
        return false;
    if (param->var == 'T')
        return true;
    int64_t *numbers = OPF_NEW(infer->arena, int64_t, n);
    view->type       = OPF_INT64;
    view->data       = numbers;
    return numbers != NULL && opf_infer_numbers(infer, i, numbers, n, &n);
}

opf_status opf_infer_moved(opf_infer *infer, opf_error *error)
{
    opf_types carried = (OPF_TYPES_INT | OPF_TYPES_BOOL) & ~OPF_TYPE_BIT(OPF_UINT64);
    if (infer->n_out == 0 || !opf_types_have(carried, infer->out[0].type))
        return OPF_OK;
    opf_view *in  = OPF_NEW(infer->arena, opf_view, infer->n_in);
    opf_view *out = OPF_NEW(infer->arena, opf_view, infer->n_out);
    OPF_OOM_IF(error, in == NULL || out == NULL);
    for (uint32_t i = 0; i < infer->n_in; i++)
        if (!view_of_input(infer, i, &in[i]))
            return OPF_OK;
    for (uint32_t o = 0; o < infer->n_out; o++) {
        opf_dim *values = OPF_NEW(infer->arena, opf_dim, OPF_MAX_KNOWN_VALUES);
        OPF_OOM_IF(error, values == NULL);
        if (!view_of_values(&infer->out[o], values, &out[o]))
            return OPF_OK;
    }
    const opf_node *node = infer->node;
    const opf_call call = {.node = node,
                           .attrs = node->attrs,
                           .n_attrs = node->n_attrs,
                           .in = in,
                           .n_in = infer->n_in,
                           .out = out,
                           .n_out = infer->n_out};
    if (node->op->reference(&call, NULL) != OPF_OK) /* a data error: found again, and told, when the node runs */
        return OPF_OK;
    for (uint32_t o = 0; o < infer->n_out; o++)
        OPF_TRY(opf_infer_set_values(infer, o, (int32_t)opf_view_count(&out[o]), out[o].data, error));
    return OPF_OK;
}

opf_status opf_infer_unknown_dims(opf_infer *infer, uint32_t o, int32_t rank, opf_error *error)
{
    opf_dim dims[OPF_MAX_RANK];
    for (int32_t i = 0; i < rank && i < OPF_MAX_RANK; i++)
        dims[i] = opf_dim_unknown(infer->dims);
    return opf_infer_set(infer, o, rank, dims, error);
}

/* ---- older opsets ---- */

int32_t opf_first_opset_of(opf_type type)
{
    if (opf_types_have(OPF_TYPES_FLOAT6, type))
        return 28;
    if (opf_types_have(OPF_TYPE_BIT(OPF_UINT2) | OPF_TYPE_BIT(OPF_INT2), type))
        return 25;
    if (type == OPF_FLOAT8E8M0)
        return 24;
    if (type == OPF_FLOAT4E2M1)
        return 23;
    if (type == OPF_INT4 || type == OPF_UINT4)
        return 21;
    if (opf_types_have(OPF_TYPES_FLOAT8, type))
        return 19;
    return type == OPF_BFLOAT16 ? 13 : 1;
}

opf_status opf_lower_moved_type(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    const opf_node *node  = opf_graph_node(graph, id);
    opf_value_id    value = node->n_inputs != 0 ? node->inputs[0] : node->outputs[0];
    opf_type        type  = opf_graph_value(graph, value)->info.type;
    OPF_FAIL_IF(error, opset < opf_first_opset_of(type), OPF_UNSUPPORTED, "%s (%s): type %s came with opset %d", node->name,
                node->op_type, opf_type_name(type), opf_first_opset_of(type));
    return OPF_OK;
}

opf_status opf_lower_negative_axes(opf_graph *graph, opf_node_id id, const char *name, int32_t rank, opf_error *error)
{
    const opf_attr *attr = opf_node_attr(opf_graph_node(graph, id), name);
    if (attr == NULL)
        return OPF_OK;
    bool     is_list = attr->type == OPF_ATTR_INTS;
    uint32_t n       = is_list ? attr->n : 1;
    int64_t *axes    = opf_arena_copy(graph->arena, is_list ? attr->ints : &attr->i, n * sizeof *axes);
    OPF_OOM_IF(error, axes == NULL);
    for (uint32_t i = 0; i < n; i++) {
        OPF_FAIL_IF(error, axes[i] < 0 && rank < 0, OPF_UNSUPPORTED,
                    "%s (%s): negative axes came with opset 11, and the rank is not known",
                    opf_graph_node(graph, id)->name, opf_graph_node(graph, id)->op_type);
        axes[i] += axes[i] < 0 ? rank : 0;
    }
    OPF_OOM_IF(error,
               !(is_list ? opf_node_set_ints(graph, id, name, axes, n) : opf_node_set_int(graph, id, name, axes[0])));
    return OPF_OK;
}

opf_status opf_lower_negative_axis(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    (void)opset;
    return opf_lower_negative_axes(graph, id, "axis",
                                   opf_graph_value(graph, opf_graph_node(graph, id)->inputs[0])->info.rank, error);
}
