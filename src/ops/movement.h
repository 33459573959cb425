/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What operators share that move elements and compute nothing: they work on the size of an element, not on its type.
 * Known values (opf_info.values) are elements of 16 bytes, moved by the very same reference kernels.
 */
#ifndef OPF_OPS_MOVEMENT_H
#define OPF_OPS_MOVEMENT_H

#include "ops/import.h"
#include "ops/infer.h"
#include "ops/reference.h"

/* complex128 and strings are refused. MOVED is the older signatures, ANY those that follow every new type. */
#define OPF_TYPES_MOVED (OPF_TYPES_ALL | OPF_TYPE_BIT(OPF_COMPLEX64))
#define OPF_TYPES_ANY   (OPF_TYPES_MOVED | OPF_TYPES_FLOAT8 | OPF_TYPES_SUBBYTE)
#define OPF_TYPES_INDEX (OPF_TYPE_BIT(OPF_INT32) | OPF_TYPE_BIT(OPF_INT64))

/* One side of a move: element [0, 0, …] is number `start` at data; strides in elements. */
typedef struct opf_grid {
    void          *data;
    int64_t        start;
    const int64_t *strides;
} opf_grid;

/* dst[i…] = src[i…] over dims, for elements of `bits` (sub-byte elements packed, low bits first). */
void opf_move_grid(size_t bits, opf_grid dst, opf_grid src, int32_t rank, const int64_t *dims);
/* Row-major element i of src becomes row-major element i of dst, whatever the shapes. */
void opf_move_in_order(opf_view *dst, const opf_view *src);

/* Carries known values through the operator by running its reference kernel on them; nothing happens when an input of
   the moved type (variable 'T') has no known values, another input is not known in numbers, or an output is large. */
opf_status opf_infer_moved(opf_infer *infer, opf_error *error);

/* A list of ints in attribute or input: numbers of a view. */
void opf_view_ints(const opf_view *view, int64_t *numbers);

/* Fresh unknown dimensions for output o. */
opf_status opf_infer_unknown_dims(opf_infer *infer, uint32_t o, int32_t rank, opf_error *error);

/* The first opset whose operators move the type. */
int32_t opf_first_opset_of(opf_type type);
/* Inverse for every movement operator: refuses the type of input 0 (or output 0) when `opset` did not have it yet. */
opf_status opf_lower_moved_type(opf_graph *graph, opf_node_id node, int32_t opset, opf_error *error);
/* Negative axes came with opset 11: an INT or INTS attribute is made positive; rank is that of the tensor it counts. */
opf_status opf_lower_negative_axes(opf_graph *graph, opf_node_id node, const char *name, int32_t rank, opf_error *error);
/* The same for attribute "axis" over input 0. */
opf_status opf_lower_negative_axis(opf_graph *graph, opf_node_id node, int32_t opset, opf_error *error);

#endif
