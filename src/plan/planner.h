/* SPDX-License-Identifier: Apache-2.0 */
/* What the lowerings share while a plan is made: places of values, buffers, and the step list. */
#ifndef OPF_PLAN_PLANNER_H
#define OPF_PLAN_PLANNER_H

#include "plan/plan.h"

/* Where a value is written: a slice of the result of a Concat. */
typedef struct opf_slice {
    opf_value_id whole; /* in whose buffer; 0: in one of its own */
    int32_t      axis;
    int64_t      at;
    int32_t      dropped; /* 0, or 1 + the axis of one element that the whole has and the value has not */
    const char  *why; /* a Concat asked, and it needs memory of its own: why, said of the value */
} opf_slice;

typedef struct opf_planner {
    opf_plan               *plan;
    const opf_graph        *graph;
    const opf_plan_options *options;
    opf_arena              *arena; /* the plan's */
    opf_info               *infos; /* by value, numeric */
    opf_place              *places; /* by value; buffer 0: not placed yet */
    uint32_t               *output_of; /* by value: 1 + number of the graph output whose buffer it may be written to; OPF_CROSSING:
                                          read by later segments, so it needs a buffer of its own */
    const int32_t         **order_of; /* by value: the order of axes in which its only reader, a Transpose, wants it; or NULL */
    opf_slice              *slices;   /* by value */
    const struct opf_gathered **gathered; /* by value: rows of a table that have no place of their own yet (plan/gathered.h); or NULL */
    opf_node_id            *beside; /* by value: the product that makes it, if the step behind it is to compute it (plan/gemm.h); or 0 */
    struct opf_gemm_args   *product; /* of the latest step that is one, or NULL */
    opf_node_id             node; /* being lowered */
} opf_planner;

enum { OPF_CROSSING = INT32_MAX };

/* Lowers one node to steps or views. *done false (and nothing changed): this lowering does not apply. */
typedef opf_status (*opf_lower_fn)(opf_planner *planner, opf_node_id node, bool *done, opf_error *error);

/* ---- places ---- */

/* The place of an input of the node being lowered: constants, known values and gathered rows are placed on demand. Never for
   value 0. */
opf_status opf_plan_place(opf_planner *planner, opf_value_id value, opf_place *place, opf_error *error);
/* The product that makes the value as a step of its own, since its reader could not take it along. */
opf_status opf_plan_store_beside(opf_planner *planner, opf_value_id value, opf_error *error);
/* A new dense buffer for value; order lists its axes from the slowest to the fastest, NULL is row-major. */
opf_status opf_plan_alloc(opf_planner *planner, opf_value_id value, const int32_t *order, opf_place *place, opf_error *error);
/* Whether who wants the value wants it row-major, so that writing it in another order costs a copy: the caller, a later
   segment, or its only reader, which cannot reshape it as it would lie with its axes in `order`. */
bool opf_plan_wants_row_major(const opf_planner *planner, opf_value_id value, const int32_t *order);
/* The Split that alone reads the value and takes its columns, along axis, apart: a product writes each part to a place of its
   own, so that who wants it dense, or elsewhere, need not copy it. NULL: there is none. */
const opf_node *opf_plan_split_of(const opf_planner *planner, opf_value_id value, int32_t axis);
/* The same, but where the value is part of a Concat, its slice has that order and neighbours along the last axis, the place is
   there. For an image, order is channels-last or NULL, for planes; it has one stride from pixel to pixel. */
opf_status opf_plan_alloc_slice(opf_planner *planner, opf_value_id value, const int32_t *order, opf_place *place, opf_error *error);
opf_status opf_plan_alloc_image(opf_planner *planner, opf_value_id value, const int32_t *order, opf_place *place, opf_error *error);
/* For what writes on any strides: the slice whatever its order, else memory in that order, or row-major where that is wanted. */
opf_status opf_plan_alloc_strided(opf_planner *planner, opf_value_id value, const int32_t *order, opf_place *place, opf_error *error);
/* The slice of the value, whatever its order; false: it has none, or the whole is not placed yet. */
bool opf_plan_slice(const opf_planner *planner, opf_value_id value, opf_place *place);
bool opf_plan_slice_has_order(const opf_place *slice, const int32_t *order);
/* Says only where its input is found, under the dims of its results: lower_view.c lowers it, perhaps to a copy. */
bool opf_plan_is_view(const opf_planner *planner, const opf_node *node);
/* A Concat whose result may hold what its parts' kernels write. */
bool opf_plan_is_joined(const opf_planner *planner, const opf_node *node);
int32_t opf_plan_joined_axis(const opf_planner *planner, const opf_node *concat);
/* The result of the Reshape behind a Concat whose parts are shuffled: [k*n] becomes [k, n], then [n, k] by a Transpose and
   [n*k] by a Reshape. 0: they are not. */
opf_value_id opf_plan_shuffled(const opf_planner *planner, const opf_node *concat);
/* Before the lowerings: which values lie in slices. work: by node, whether it is lowered. */
opf_status opf_plan_mark_slices(opf_planner *planner, const bool *work, opf_error *error);
/* The same for a temporary that is no value. */
opf_status opf_plan_alloc_temporary(opf_planner *planner, opf_type type, int32_t rank, const int64_t *dims, const int32_t *order,
                                    opf_place *place, opf_error *error);
/* Floats that plans hold themselves: zero rows, known values. */
opf_status opf_plan_constant(opf_planner *planner, const void *data, size_t bytes, uint32_t *buffer, opf_error *error);

void opf_place_set_dense(opf_place *place, const int32_t *order);
bool opf_place_is_row_major(const opf_place *place);
/* Axes from the slowest to the fastest by stride. */
void opf_place_order(const opf_place *place, int32_t *order);
/* Seen as broadcast to rank and dims: it must fit. */
opf_place opf_place_broadcast(const opf_place *place, int32_t rank, const int64_t *dims);
/* Axes [first, last] walked row-major have one stride (0 when they broadcast); false if not. Axes of size 1 do not count. */
bool opf_place_linear(const opf_place *place, int32_t first, int32_t last, int64_t *stride);
/* The offset of every index of axes [first, last], row-major, where no one stride tells it: a mask of each batch that all
   heads share. NULL when memory is out. */
const int64_t *opf_place_offsets(opf_arena *arena, const opf_place *place, int32_t first, int32_t last);
/* The same elements under other dims, when strides allow that without a copy. */
bool opf_place_reshape(const opf_place *place, int32_t rank, const int64_t *dims, opf_place *reshaped);
/* Where it takes a copy: the order of the result's axes that keeps the layout of place (channels-last stays so). place has elements. */
void opf_place_reshape_order(const opf_place *place, int32_t rank, const int64_t *dims, int32_t *order);

static inline opf_ref opf_place_ref(const opf_place *place)
{
    return (opf_ref){place->buffer, place->offset * (int64_t)opf_type_size(place->type)};
}

/* ---- steps ---- */

/* Appends a step for the node being lowered; then name what it reads and writes. */
opf_status opf_plan_add_step(opf_planner *planner, const opf_plan_step *step, opf_error *error);
void opf_plan_reads(opf_planner *planner, const opf_place *place);
void opf_plan_writes(opf_planner *planner, const opf_place *place);
/* The latest step may write `dst` over `src`: both have the same strides and are walked in the same order. */
void opf_plan_may_share(opf_planner *planner, const opf_place *dst, const opf_place *src);

/* Copies src to dst (equal dims, any strides, equal type): a step. */
opf_status opf_plan_copy(opf_planner *planner, const char *kernel, const opf_place *src, const opf_place *dst, opf_error *error);
/* Several at once, as one step. */
opf_status opf_plan_copies(opf_planner *planner, const char *kernel, const opf_place *src, const opf_place *dst, uint32_t n, opf_error *error);
/* The same for parts of equal dims whose elements go between one another's. */
opf_status opf_plan_interleave(opf_planner *planner, const char *kernel, const opf_place *src, const opf_place *dst, uint32_t n,
                               opf_error *error);
/* place itself when it is dense in that order, else a copy that is. */
opf_status opf_plan_dense(opf_planner *planner, opf_place *place, const int32_t *order, opf_error *error);

bool opf_info_is_known(const opf_info *info); /* all its elements are numbers */

/* ---- the lowerings ---- */

extern opf_status opf_lower_view(opf_planner *planner, opf_node_id node, bool *done, opf_error *error);
extern opf_status opf_lower_conv(opf_planner *planner, opf_node_id node, bool *done, opf_error *error);
extern opf_status opf_lower_conv_transpose(opf_planner *planner, opf_node_id node, bool *done, opf_error *error);
extern opf_status opf_lower_matmul(opf_planner *planner, opf_node_id node, bool *done, opf_error *error);
extern opf_status opf_lower_attention(opf_planner *planner, opf_node_id node, bool *done, opf_error *error);
extern opf_status opf_lower_rotary(opf_planner *planner, opf_node_id node, bool *done, opf_error *error);
extern opf_status opf_lower_recurrent(opf_planner *planner, opf_node_id node, bool *done, opf_error *error);
extern opf_status opf_lower_norm(opf_planner *planner, opf_node_id node, bool *done, opf_error *error);
extern opf_status opf_lower_group_norm(opf_planner *planner, opf_node_id node, bool *done, opf_error *error);
extern opf_status opf_lower_rows(opf_planner *planner, opf_node_id node, bool *done, opf_error *error);
extern opf_status opf_lower_pool(opf_planner *planner, opf_node_id node, bool *done, opf_error *error);
extern opf_status opf_lower_resize(opf_planner *planner, opf_node_id node, bool *done, opf_error *error);
extern opf_status opf_lower_reduce(opf_planner *planner, opf_node_id node, bool *done, opf_error *error);
extern opf_status opf_lower_batch_norm(opf_planner *planner, opf_node_id node, bool *done, opf_error *error);
extern opf_status opf_lower_concat(opf_planner *planner, opf_node_id node, bool *done, opf_error *error);
extern opf_status opf_lower_pad(opf_planner *planner, opf_node_id node, bool *done, opf_error *error);
extern opf_status opf_lower_scatter(opf_planner *planner, opf_node_id node, bool *done, opf_error *error);
extern opf_status opf_lower_gather(opf_planner *planner, opf_node_id node, bool *done, opf_error *error);
extern opf_status opf_lower_elementwise(opf_planner *planner, opf_node_id node, bool *done, opf_error *error);
extern opf_status opf_lower_reference(opf_planner *planner, opf_node_id node, bool *done, opf_error *error);

/* After all steps: arena offsets by liveness. */
opf_status opf_plan_memory(opf_planner *planner, opf_error *error);

#endif
