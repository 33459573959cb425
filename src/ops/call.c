/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/call.h"

#include "ops/elementwise.h"

#include <math.h>
#include <string.h>

void opf_view_clear(const opf_view *view)
{
    static const unsigned char zero[16]              = {0};
    static const int64_t       strides[OPF_MAX_RANK] = {0};
    opf_move_grid(opf_type_bits(view->type), (opf_grid){view->data, 0, view->strides},
                  (opf_grid){(void *)(uintptr_t)zero, 0, strides}, view->rank, view->dims);
}

int64_t opf_view_first_int(const opf_view *view)
{
    if (opf_types_have(OPF_TYPES_FLOAT, view->type))
        return opf_double_to_int(opf_view_f64(view, 0));
    int64_t x = opf_view_i64(view, 0);
    return view->type == OPF_UINT64 && x < 0 ? INT64_MAX : x;
}

bool opf_view_is_nonzero(const opf_view *view, int64_t offset)
{
    if (view->type == OPF_COMPLEX64) {
        float parts[2];
        memcpy(parts, (const char *)view->data + offset * (int64_t)sizeof parts, sizeof parts);
        return parts[0] != 0.0f || parts[1] != 0.0f;
    }
    if (opf_types_have(OPF_TYPES_FLOAT, view->type))
        return opf_view_f64(view, offset) != 0;
    return opf_view_i64(view, offset) != 0;
}

uint64_t opf_view_order(const opf_view *view, int64_t offset)
{
    const uint64_t sign = (uint64_t)1 << 63;
    uint64_t       bits;
    if (!opf_types_have(OPF_TYPES_FLOAT, view->type)) {
        bits = (uint64_t)opf_view_i64(view, offset);
        return opf_types_have(OPF_TYPES_SINT, view->type) ? bits ^ sign : bits;
    }
    double x = opf_view_f64(view, offset);
    if (isnan(x))
        return UINT64_MAX;
    x = x == 0 ? 0 : x;
    memcpy(&bits, &x, sizeof bits);
    return (bits & sign) != 0 ? ~bits : bits | sign;
}

opf_status opf_resolve_set(opf_info *out, int32_t rank, const int64_t *dims, opf_arena *arena, opf_error *error)
{
    out->rank = rank;
    out->dims = OPF_NEW(arena, opf_dim, rank);
    OPF_OOM_IF(error, out->dims == NULL);
    for (int32_t i = 0; i < rank; i++)
        out->dims[i] = opf_dim_number(dims[i]);
    return OPF_OK;
}
