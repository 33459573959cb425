/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPF_EXEC_COMPARE_H
#define OPF_EXEC_COMPARE_H

#include "ops/op.h"

/* The bounds of a type: 1e-3 and 1e-4 for float and double, more for half types, exact for the rest. */
double opf_default_rtol(opf_type type);
double opf_default_atol(opf_type type);

/* Whether quantisation makes the value: its elements may then be one level apart from those of another implementation.
 */
bool opf_value_is_quantized(const opf_graph *graph, opf_value_id value);

#endif
