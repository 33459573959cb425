/* SPDX-License-Identifier: Apache-2.0 */
/* Operators of ONNX that are refused by decision, not for lack of time: what they do that tensors of numbers do not. */
#ifndef OPF_OPS_REFUSED_H
#define OPF_OPS_REFUSED_H

#include <stdint.h>

typedef struct opf_refused {
    const char *domain, *op_type; /* op_type NULL: the whole domain */
    const char *why;              /* "works on strings", … */
} opf_refused;

const opf_refused *opf_all_refused(uint32_t *n);
const char *opf_refusal(const char *domain, const char *op_type); /* NULL: an operator that is not among them */

#endif
