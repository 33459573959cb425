/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPF_EXEC_COMPARE_H
#define OPF_EXEC_COMPARE_H

#include "opfuse/opfuse.h"

/* The bounds of a type: 1e-3 and 1e-4 for float and double, more for half types, exact for the rest. */
double opf_default_rtol(opf_type type);
double opf_default_atol(opf_type type);

#endif
