/* SPDX-License-Identifier: Apache-2.0 */
/* What reference kernels share: walking strided tensors, broadcasting, elementwise loops. Plain and obviously right. */
#ifndef OPF_OPS_REFERENCE_H
#define OPF_OPS_REFERENCE_H

#include "ops/op.h"

size_t opf_view_count(const opf_view *view);
bool opf_view_is_dense(const opf_view *view);
void opf_view_set_dense(opf_view *view); /* row-major strides for its dims */
/* Offset, in elements, of row-major element i. */
int64_t opf_view_offset(const opf_view *view, size_t i);
/* The view seen as broadcast to rank and dims (numpy); it must fit. */
opf_view opf_view_broadcast(const opf_view *view, int32_t rank, const int64_t *dims);

/* Walks an index over dims in row-major order, with the offsets of up to 4 views kept in step. */
typedef struct opf_walk {
    int32_t         rank;
    int64_t         dims[OPF_MAX_RANK];
    int64_t         index[OPF_MAX_RANK];
    int32_t         n;
    const opf_view *views[4];
    int64_t         offset[4];
    size_t          left; /* elements still to visit; 0: done */
} opf_walk;
void opf_walk_init(opf_walk *walk, int32_t rank, const int64_t *dims, int32_t n, const opf_view *const *views);
void opf_walk_next(opf_walk *walk);

/* result[i] = f(a[i]); floats of every type in double, rounded once. */
opf_status opf_reference_unary(const opf_call *call, double (*f)(const opf_call *call, double x));
/* result = f(a, b) with broadcasting; floats through ff, signed integers through fi, unsigned through fu (any may be NULL
   when the signature lacks those types). */
opf_status opf_reference_binary(const opf_call *call, double (*ff)(double, double), int64_t (*fi)(int64_t, int64_t),
                                uint64_t (*fu)(uint64_t, uint64_t));
/* Copies elements of equal type between views of equal dims. */
void opf_reference_copy(const opf_view *src, opf_view *dst);

/* An element, as array and index for the functions of base/types.h. Sub-byte types are dense, so their offset is an index. */
static inline void *opf_view_element(const opf_view *view, int64_t offset, size_t *i)
{
    const int64_t size = (int64_t)opf_type_size(view->type);
    *i                 = size == 0 ? (size_t)offset : 0;
    return (char *)view->data + offset * size;
}
static inline double opf_view_f64(const opf_view *view, int64_t offset)
{
    size_t      i;
    const void *data = opf_view_element(view, offset, &i);
    return opf_load_f64(view->type, data, i);
}
static inline void opf_view_put_f64(opf_view *view, int64_t offset, double x)
{
    size_t i;
    void  *data = opf_view_element(view, offset, &i);
    opf_store_f64(view->type, data, i, x);
}
static inline int64_t opf_view_i64(const opf_view *view, int64_t offset)
{
    size_t      i;
    const void *data = opf_view_element(view, offset, &i);
    return opf_load_i64(view->type, data, i);
}
static inline void opf_view_put_i64(opf_view *view, int64_t offset, int64_t x)
{
    size_t i;
    void  *data = opf_view_element(view, offset, &i);
    opf_store_i64(view->type, data, i, x);
}

#endif
