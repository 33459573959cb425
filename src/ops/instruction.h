/* SPDX-License-Identifier: Apache-2.0 */
/* What kernels compute an elementwise operator by: an instruction of a program. Whatever has none runs by its
 * reference. */
#ifndef OPF_OPS_INSTRUCTION_H
#define OPF_OPS_INSTRUCTION_H

#include "kernels/kern.h"
#include "ops/op.h"

typedef struct opf_instruction {
    opf_ew ew; /* the main one, where the operator becomes several */
    float params[2];
} opf_instruction;

/* Of the operator on floats, with these attributes. False: there is none. */
bool opf_op_instruction(const opf_op *op, const opf_attr *attrs, uint32_t n_attrs, opf_instruction *instruction);

#endif
