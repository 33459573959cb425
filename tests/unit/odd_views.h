/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors on odd strides, for operators that must take any. */
#ifndef ODD_VIEWS_H
#define ODD_VIEWS_H

#include "ops/movement.h"
#include "ops/reference.h"

#include <string.h>

enum { DENSE, COLUMNS, BACKWARDS, LAYOUTS };

/* A tensor in a buffer of its own: row-major, column-major, or with every axis backwards and gaps. */
static opf_view make_view(opf_arena *arena, opf_type type, int32_t rank, const int64_t *dims, int layout)
{
    opf_view view   = {.type = type, .rank = rank};
    int64_t  stride = 1, start = 0;
    if (rank != 0)
        memcpy(view.dims, dims, (size_t)rank * sizeof *dims);
    if (opf_types_have(OPF_TYPES_SUBBYTE, type))
        layout = DENSE;
    for (int32_t k = 0; k < rank; k++) {
        int32_t i       = layout == COLUMNS ? k : rank - 1 - k;
        view.strides[i] = layout == BACKWARDS ? -stride : stride;
        start += layout == BACKWARDS && dims[i] > 0 ? stride * (dims[i] - 1) : 0;
        stride *= layout == BACKWARDS ? dims[i] + 1 : dims[i];
    }
    size_t size  = opf_type_size(type) == 0 ? 1 : opf_type_size(type);
    char  *bytes = opf_arena_alloc(arena, ((size_t)stride + 1) * size);
    memset(bytes, 0xa5, ((size_t)stride + 1) * size);
    view.data = bytes + (size_t)start * size;
    return view;
}

static opf_view view_of_constant(opf_arena *arena, const opf_const *constant, int layout)
{
    opf_view dense = make_view(arena, constant->type, constant->rank, constant->dims, DENSE), view;
    opf_const_write(constant, dense.data);
    view = make_view(arena, constant->type, constant->rank, constant->dims, layout);
    opf_move_grid(opf_type_bits(view.type), (opf_grid){view.data, 0, view.strides},
                  (opf_grid){dense.data, 0, dense.strides}, view.rank, view.dims);
    return view;
}

#endif
