/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of a node, lowered to a kernel program whose operands are bound to the rows and columns of an anchor's result. */
#ifndef OPF_PLAN_STEPS_H
#define OPF_PLAN_STEPS_H

#include "plan/gathered.h"

/* Instructions with operands and stores still as values. */
typedef struct opf_lowered {
    opf_program  program;
    opf_value_id operands[OPF_PROGRAM_OPERANDS]; /* 0: placed by the lowering itself */
    opf_value_id stores[OPF_PROGRAM_OPERANDS];
} opf_lowered;

/* Whether every step has a kernel on floats, and if so the program; arg 0 is the anchor's result. False: it has none. */
bool opf_lower_steps(const opf_planner *planner, const opf_node *node, const opf_steps *steps, opf_lowered *lowered);
/* Appends the steps to a program whose last instruction is the anchor's result. */
bool opf_lower_more_steps(const opf_planner *planner, const opf_node *node, const opf_steps *steps, opf_lowered *lowered);
/* The steps are one Relu or Clip of the anchor's result, which the kernel does by itself: the program is empty then, else
   the bounds are infinite. */
void opf_lower_clamp(opf_lowered *lowered, float *lo, float *hi);
/* The program is one SiLU or HardSwish of the anchor's result, which some kernels do by themselves: it is empty then, else *then
   stays as it is. param: of SiLU. */
void opf_take_then(opf_program *program, opf_ew *then, float *param);
/* Sums and products with one constant number become operators that know it, two of them one where that rounds alike; what is
   no longer read is no longer an operand. */
void opf_lower_scalars(const opf_planner *planner, opf_lowered *lowered);
/* A whole elementwise node: its operator on its own inputs (all are operands), then its epilogue. */
bool opf_lower_elementwise_node(const opf_planner *planner, const opf_node *node, opf_lowered *lowered);

/* The step of an elementwise program over the whole result of node: places[i] is operand i; buffer 0: its rows are gathered. */
opf_status opf_plan_elementwise(opf_planner *planner, const opf_node *node, const opf_lowered *lowered, const opf_place *places,
                                const char *kernel, opf_error *error);

/* A program bound to a result seen as outer x rows x cols. Strides in floats. */
typedef struct opf_bound {
    opf_program program;
    opf_ref     operands[OPF_PROGRAM_OPERANDS];
    ptrdiff_t   operand_outer[OPF_PROGRAM_OPERANDS], operand_row[OPF_PROGRAM_OPERANDS], operand_col[OPF_PROGRAM_OPERANDS];
    const int64_t *operand_images[OPF_PROGRAM_OPERANDS]; /* offset by outer index, where no one stride tells it; else NULL */
    bool      by_lines; /* set before it is bound: tiles are single rows across all columns, so operands may be gathered rows */
    opf_lines operand_lines[OPF_PROGRAM_OPERANDS]; /* their rows are NULL where an operand is none */
    opf_value_id given_value; /* set before it is bound: this operand has no place, who runs the program gives each tile of it */
    uint32_t     given;       /* 1 + which operand that is; 0: none */
    opf_ref     stores[OPF_PROGRAM_OPERANDS];
    ptrdiff_t   store_outer[OPF_PROGRAM_OPERANDS], store_row[OPF_PROGRAM_OPERANDS], store_col[OPF_PROGRAM_OPERANDS];
} opf_bound;

/* How a result's axes are split: outer [0, first_row), rows [first_row, last_row], cols the axis `col` and `more_cols` axes
   behind it; outer axes need not be linear. rank 0 results have one row and one column. */
typedef struct opf_split {
    int32_t outer_first, outer_last; /* first > last: none */
    int32_t row_first, row_last;
    int32_t col; /* -1: none */
    int32_t more_cols;
} opf_split;

/* Binds operands by broadcasting them to result; what does not split is copied to a layout that does. Stores get dense
   buffers in the result's order. Reads and writes are named by opf_bound_touch after the step was added. */
opf_status opf_bind(opf_planner *planner, const opf_lowered *lowered, const opf_place *result, opf_split split, opf_bound *bound,
                    opf_place *touched_operands, opf_place *touched_stores, opf_error *error);
void opf_bound_touch(opf_planner *planner, const opf_bound *bound, const opf_place *operands, const opf_place *stores);

/* Pointers for the tile that starts at (outer, row, col). */
void opf_bound_at(const opf_run_env *env, const opf_bound *bound, size_t outer, size_t row, size_t col, opf_operand *operands,
                  opf_store *stores);

#endif
