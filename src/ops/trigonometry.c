/* SPDX-License-Identifier: Apache-2.0 */
/* Circular and hyperbolic functions of one number, and their inverses: in double, rounded once. Outside the domain of an
   inverse the result is NaN. */
#include "ops/elementwise.h"
#include "ops/lift.h"

#include <math.h>

static const opf_import_row rows[] = {{22, opf_import_same, opf_lower_no_bfloat16}};

#define DEFINE(op, version, function)                                                                                  \
    static double function##_f(const opf_call *call, double x)                                                         \
    {                                                                                                                  \
        (void)call;                                                                                                    \
        return function(x);                                                                                            \
    }                                                                                                                  \
    static opf_status reference_##function(const opf_call *call, opf_error *error)                                     \
    {                                                                                                                  \
        (void)error;                                                                                                   \
        return opf_reference_unary(call, function##_f);                                                                \
    }                                                                                                                  \
    const opf_op opf_op_##op = {.name      = #op,                                                                      \
                                .domain    = "",                                                                       \
                                .since     = (version),                                                                \
                                .traits    = OPF_ELEMENTWISE,                                                          \
                                .inputs    = OPF_PARAMS({"input", 'T', OPF_TYPES_FLOAT, 0}),                           \
                                .n_inputs  = 1,                                                                        \
                                .outputs   = OPF_PARAMS({"output", 'T', OPF_TYPES_FLOAT, 0}),                          \
                                .n_outputs = 1,                                                                        \
                                .rows      = rows,                                                                     \
                                .n_rows    = OPF_COUNT(rows),                                                          \
                                .infer     = opf_infer_shape_only,                                                     \
                                .reference = reference_##function}

DEFINE(Acos, 7, acos);
DEFINE(Acosh, 9, acosh);
DEFINE(Asin, 7, asin);
DEFINE(Asinh, 9, asinh);
DEFINE(Atan, 7, atan);
DEFINE(Atanh, 9, atanh);
DEFINE(Cosh, 9, cosh);
DEFINE(Sinh, 9, sinh);
DEFINE(Tan, 7, tan);
