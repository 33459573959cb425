/* SPDX-License-Identifier: Apache-2.0 */
/* Heads of attention packed in the last dimension. */
#ifndef OPF_OPS_HEADS_H
#define OPF_OPS_HEADS_H

#include "ops/op.h"

/* [batch, length, heads * size] seen as [batch, heads, length, size]; a view of another rank as it is. */
static inline opf_view opf_view_heads(const opf_view *x, int64_t heads)
{
    if (x->rank != 3)
        return *x;
    const int64_t size = heads > 0 ? x->dims[2] / heads : 0;
    return (opf_view){.type    = x->type,
                      .rank    = 4,
                      .dims    = {x->dims[0], heads, x->dims[1], size},
                      .strides = {x->strides[0], size * x->strides[2], x->strides[1], x->strides[2]},
                      .data    = x->data};
}

#endif
