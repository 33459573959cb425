/* SPDX-License-Identifier: Apache-2.0 */
/* Shrink: towards zero by `bias` outside [-lambd, lambd], zero inside. Integers are compared and moved exactly; a
   result that is no whole number is truncated. */
#include "ops/elementwise.h"

#include <math.h>

static double shrink_f(const opf_call *call, double x)
{
    const double bias = (double)opf_call_float(call, "bias", 0), lambd = (double)opf_call_float(call, "lambd", 0.5f);
    return x < -lambd ? x + bias : x > lambd ? x - bias : isnan(x) ? x : 0;
}

/* x > bound, for an integer of 64 bits. */
static bool is_above(int64_t x, bool is_unsigned, double bound)
{
    if (isnan(bound))
        return false;
    if (is_unsigned)
        return bound < 0 || (bound < 0x1p64 && (uint64_t)x > (uint64_t)bound);
    return bound < -0x1p63 || (bound < 0x1p63 && x > (int64_t)floor(bound));
}

static bool is_below(int64_t x, bool is_unsigned, double bound)
{
    if (isnan(bound))
        return false;
    if (is_unsigned)
        return bound >= 0x1p64 || (bound > 0 && (uint64_t)x < (uint64_t)ceil(bound));
    return bound >= 0x1p63 || (bound >= -0x1p63 && x < (int64_t)ceil(bound));
}

/* x + shift, truncated towards zero, wrapped. */
static int64_t shifted(int64_t x, bool is_unsigned, double shift)
{
    const double  whole  = floor(shift);
    const int64_t result = (int64_t)((uint64_t)x + (uint64_t)opf_double_to_int(whole));
    return shift != whole && !is_unsigned && result < 0 ? result + 1 : result;
}

static opf_status run_shrink(const opf_call *call, opf_error *error)
{
    const opf_view *x           = &call->in[0];
    opf_view       *y           = &call->out[0];
    const double    bias        = (double)opf_call_float(call, "bias", 0);
    const double    lambd       = (double)opf_call_float(call, "lambd", 0.5f);
    const bool      is_unsigned = opf_types_have(OPF_TYPES_UINT, x->type);
    const opf_view *views[]     = {x, y};
    opf_walk        walk;
    (void)error;
    if (opf_types_have(OPF_TYPES_FLOAT, x->type))
        return opf_reference_unary(call, shrink_f);
    for (opf_walk_init(&walk, y->rank, y->dims, 2, views); walk.left > 0; opf_walk_next(&walk)) {
        const int64_t n      = opf_view_i64(x, walk.offset[0]);
        int64_t       result = 0;
        if (is_below(n, is_unsigned, -lambd))
            result = shifted(n, is_unsigned, bias);
        else if (is_above(n, is_unsigned, lambd))
            result = shifted(n, is_unsigned, -bias);
        opf_view_put_i64(y, walk.offset[1], result);
    }
    return OPF_OK;
}

static const opf_attr_def attrs[] = {{.name = "bias", .type = OPF_ATTR_FLOAT},
                                     {.name = "lambd", .type = OPF_ATTR_FLOAT, .f = 0.5f}};

#define SHRINK_TYPES (OPF_TYPES_NUMERIC & ~OPF_TYPE_BIT(OPF_BFLOAT16))
OPF_DEFINE_UNARY_ATTRS(Shrink, 9, SHRINK_TYPES, opf_infer_shape_only, run_shrink, attrs, OPF_COUNT(attrs));
