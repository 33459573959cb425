/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of a table that a Gather selects by index. Where the Gather is read in place (ops/stored.h) they are not stored:
 * the kernel that reads them finds each in the table when it comes to it.
 */
#ifndef OPF_PLAN_GATHERED_H
#define OPF_PLAN_GATHERED_H

#include "plan/planner.h"

typedef struct opf_gathered {
    opf_node_id node; /* the Gather, which is named when an index is wrong */
    const char *data; /* the table where it lies in the file, at any byte address; NULL: a buffer has it */
    opf_place table, indices;
    int64_t n, stride;    /* rows; bytes from one to the next */
    size_t bytes;         /* of a row, dense */
    size_t outer;         /* axes of the table before that of the rows: all indices for each; 1 where read in place */
    int64_t outer_stride; /* bytes */
    opf_place row,
        index; /* where read in place, under the result's dims: where an element is in its row, without strides
                  along the axes of the indices; which index it has, without strides along those of a row */
} opf_gathered;

/* The rows of a value that has no place; NULL: it has one, or gets one by opf_plan_place. */
const opf_gathered *opf_plan_gathered(const opf_planner *planner, opf_value_id value);
/* The same, stored now. */
opf_status opf_plan_store_gathered(opf_planner *planner, opf_value_id value, opf_error *error);
/* The latest step reads the rows: their indices are checked before it. */
opf_status opf_plan_reads_rows(opf_planner *planner, const opf_gathered *rows, opf_error *error);

/* All indices are in range. */
opf_status opf_gathered_check(const opf_run_env *env, const opf_gathered *rows, opf_error *error);

static inline const char *opf_gathered_base(const opf_run_env *env, const opf_gathered *rows)
{
    return rows->data != NULL ? rows->data : opf_ref_data(env, opf_place_ref(&rows->table));
}
/* The row of index number `index` of a list. */
static inline int64_t opf_gathered_row(const opf_gathered *rows, const void *indices, int64_t index)
{
    const int64_t row = opf_load_i64(rows->indices.type, indices, (size_t)index);
    return (row < 0 ? row + rows->n : row) * rows->stride;
}

/* ---- lines: what the rows of a result read ---- */

/* A line goes through axes [first, last] of the result; lines are counted along its other axes, in order. */
typedef struct opf_lines {
    const opf_gathered *rows;
    const int64_t *index, *offset; /* by line: in the indices; in a row, in elements */
    ptrdiff_t col;                 /* elements from one of a line to the next */
} opf_lines;

/* Of rows broadcast to the result. lines->rows stays NULL where a line has several rows, or no one stride. */
opf_status opf_plan_lines(opf_planner *planner, const opf_gathered *rows, const opf_place *result, int32_t first,
                          int32_t last, opf_lines *lines, opf_error *error);
/* Where a line begins, at any byte address. */
const void *opf_line_at(const opf_run_env *env, const opf_lines *lines, size_t line);

/* The offset of every line of a place. NULL when memory is out. */
const int64_t *opf_place_lines(opf_arena *arena, const opf_place *place, int32_t first, int32_t last);

#endif
