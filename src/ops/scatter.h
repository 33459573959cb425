/* SPDX-License-Identifier: Apache-2.0 */
/* What ScatterND and ScatterElements share: how an update meets the element that is there. */
#ifndef OPF_OPS_SCATTER_H
#define OPF_OPS_SCATTER_H

#include "ops/reference.h"

typedef enum opf_scatter {
    OPF_SCATTER_NONE,
    OPF_SCATTER_ADD,
    OPF_SCATTER_MUL,
    OPF_SCATTER_MIN,
    OPF_SCATTER_MAX,
    OPF_SCATTER_COUNT
} opf_scatter;

/* Attribute "reduction", checked against the type. */
opf_status opf_scatter_read(const char *name, opf_type type, opf_scatter *reduction, opf_error *error);
/* dst[to] = dst[to] reduced with src[from]; floats in double, a NaN wins; integers wrap. Not for OPF_SCATTER_NONE. */
void opf_scatter_reduce(opf_scatter reduction, const opf_view *dst, int64_t to, const opf_view *src, int64_t from);
/* Row's inverse: add and mul came with opset 16, min and max with 18. */
opf_status opf_scatter_lower(opf_graph *graph, opf_node_id node, int32_t opset, opf_error *error);

#endif
