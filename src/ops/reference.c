/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/reference.h"

#include <string.h>

/* ---- views ---- */

size_t opf_view_count(const opf_view *view)
{
    size_t count = 1;
    for (int32_t i = 0; i < view->rank; i++)
        count *= (size_t)view->dims[i];
    return count;
}

bool opf_view_is_dense(const opf_view *view)
{
    int64_t expected = 1;
    if (opf_view_count(view) == 0)
        return true;
    for (int32_t i = view->rank - 1; i >= 0; i--) {
        if (view->dims[i] != 1 && view->strides[i] != expected)
            return false;
        expected *= view->dims[i];
    }
    return true;
}

void opf_view_set_dense(opf_view *view)
{
    uint64_t stride = 1; /* may wrap beside a dimension of 0 */
    for (int32_t i = view->rank - 1; i >= 0; i--) {
        view->strides[i] = (int64_t)stride;
        stride *= (uint64_t)view->dims[i];
    }
}

int64_t opf_view_offset(const opf_view *view, size_t i)
{
    int64_t offset = 0;
    for (int32_t k = view->rank - 1; k >= 0; k--) {
        size_t dim = (size_t)view->dims[k];
        offset += (int64_t)(i % dim) * view->strides[k];
        i /= dim;
    }
    return offset;
}

opf_view opf_view_broadcast(const opf_view *view, int32_t rank, const int64_t *dims)
{
    opf_view wide = {.type = view->type, .rank = rank, .data = view->data};
    for (int32_t i = 0; i < rank; i++) {
        int32_t own     = i - (rank - view->rank);
        wide.dims[i]    = dims[i];
        wide.strides[i] = own < 0 || view->dims[own] == 1 ? 0 : view->strides[own];
    }
    return wide;
}

/* ---- walking ---- */

void opf_walk_init(opf_walk *walk, int32_t rank, const int64_t *dims, int32_t n, const opf_view *const *views)
{
    *walk = (opf_walk){.rank = rank, .n = n, .left = 1};
    for (int32_t i = 0; i < rank; i++) {
        walk->dims[i] = dims[i];
        walk->left *= (size_t)dims[i];
    }
    for (int32_t v = 0; v < n; v++)
        walk->views[v] = views[v];
}

void opf_walk_next(opf_walk *walk)
{
    walk->left--;
    for (int32_t i = walk->rank - 1; i >= 0; i--) {
        bool wraps = walk->index[i] + 1 == walk->dims[i];
        for (int32_t v = 0; v < walk->n; v++)
            walk->offset[v] += walk->views[v]->strides[i] * (wraps ? -walk->index[i] : 1);
        if (!wraps) {
            walk->index[i]++;
            return;
        }
        walk->index[i] = 0;
    }
}

/* ---- elementwise ---- */

opf_status opf_reference_unary(const opf_call *call, double (*f)(const opf_call *call, double x))
{
    const opf_view *x = &call->in[0];
    opf_view       *y = &call->out[0];
    opf_walk        walk;
    for (opf_walk_init(&walk, y->rank, y->dims, 2, (const opf_view *const[]){x, y}); walk.left != 0; opf_walk_next(&walk))
        opf_view_put_f64(y, walk.offset[1], f(call, opf_view_f64(x, walk.offset[0])));
    return OPF_OK;
}

opf_status opf_reference_binary(const opf_call *call, double (*ff)(double, double), int64_t (*fi)(int64_t, int64_t),
                                uint64_t (*fu)(uint64_t, uint64_t))
{
    opf_view *y = &call->out[0];
    opf_view  a = opf_view_broadcast(&call->in[0], y->rank, y->dims);
    opf_view  b = opf_view_broadcast(&call->in[1], y->rank, y->dims);
    opf_walk  walk;
    /* The result may be of another type than the operands: comparisons give booleans. */
    bool gives_float = opf_types_have(OPF_TYPES_FLOAT, y->type);
    for (opf_walk_init(&walk, y->rank, y->dims, 3, (const opf_view *const[]){&a, &b, y}); walk.left != 0; opf_walk_next(&walk)) {
        if (opf_types_have(OPF_TYPES_FLOAT, a.type)) {
            double result = ff(opf_view_f64(&a, walk.offset[0]), opf_view_f64(&b, walk.offset[1]));
            if (gives_float)
                opf_view_put_f64(y, walk.offset[2], result);
            else
                opf_view_put_i64(y, walk.offset[2], result != 0);
            continue;
        }
        int64_t i = opf_view_i64(&a, walk.offset[0]), j = opf_view_i64(&b, walk.offset[1]);
        bool    is_signed = opf_types_have(OPF_TYPES_SINT, a.type);
        opf_view_put_i64(y, walk.offset[2], is_signed ? fi(i, j) : (int64_t)fu((uint64_t)i, (uint64_t)j));
    }
    return OPF_OK;
}

void opf_reference_copy(const opf_view *src, opf_view *dst)
{
    size_t count = opf_view_count(src), size = opf_type_size(src->type), bytes;
    if (count == 0)
        return;
    if (opf_view_is_dense(src) && opf_view_is_dense(dst)) {
        if (opf_type_bytes(src->type, count, &bytes))
            memmove(dst->data, src->data, bytes);
        return;
    }
    opf_walk walk;
    for (opf_walk_init(&walk, src->rank, src->dims, 2, (const opf_view *const[]){src, dst}); walk.left != 0; opf_walk_next(&walk))
        memcpy((char *)dst->data + walk.offset[1] * (int64_t)size, (const char *)src->data + walk.offset[0] * (int64_t)size, size);
}
