/* SPDX-License-Identifier: Apache-2.0 */
/* What reference and resolve functions share about calls. */
#ifndef OPF_OPS_CALL_H
#define OPF_OPS_CALL_H

#include "ops/movement.h"

static inline bool opf_call_has(const opf_call *call, uint32_t i)
{
    return i < call->n_in && call->in[i].data != NULL;
}

/* An output that somebody wants. */
static inline bool opf_call_wants(const opf_call *call, uint32_t o)
{
    return o < call->n_out && call->out[o].data != NULL;
}

/* One element, offsets in elements. */
static inline void opf_move_element(const opf_view *dst, int64_t to, const opf_view *src, int64_t from)
{
    opf_move_grid(opf_type_bits(dst->type), (opf_grid){dst->data, to, NULL}, (opf_grid){src->data, from, NULL}, 0,
                  NULL);
}
/* Every element becomes zero. */
void opf_view_clear(const opf_view *view);
/* The first element of a scalar or one-element input as an integer: floats are truncated. */
int64_t opf_view_first_int(const opf_view *view);
/* Any numeric element, complex64 too: -0 is zero, NaN is not. */
bool opf_view_is_nonzero(const opf_view *view, int64_t offset);

/* A number whose unsigned order is that of the elements of real types: NaN is above all else and equals itself, -0
   equals 0. */
uint64_t opf_view_order(const opf_view *view, int64_t offset);

/* The dims of an output that resolve found. */
opf_status opf_resolve_set(opf_info *out, int32_t rank, const int64_t *dims, opf_arena *arena, opf_error *error);

#endif
