/* SPDX-License-Identifier: Apache-2.0 */
/* Operators of ONNX that are refused by decision, not for lack of time: what they do that tensors of numbers do not. */
#ifndef OPF_OPS_REFUSED_H
#define OPF_OPS_REFUSED_H

/* "works on strings", …; NULL: an operator that is not among them. */
const char *opf_refusal(const char *domain, const char *op_type);

#endif
