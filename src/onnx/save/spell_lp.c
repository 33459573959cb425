/* SPDX-License-Identifier: Apache-2.0 */
/* Normalisation by a guarded norm, which no opset has as one operator. */
#include "onnx/save/spell.h"

#include "ops/lp_normalization.h"

void opf_spell_LpNormalization(opf_contrib *c)
{
    float epsilon;
    const opf_lp_guard guard = opf_lp_guard_of(c->attrs, c->n_attrs, &epsilon);
    const bool squared = opf_contrib_int(c, "p", 2) == 2;
    const opf_value_id x = opf_contrib_in(c, 0);
    const opf_type type = opf_contrib_type(c, x, "X");
    const opf_value_id axes = opf_contrib_ints(c, OPF_INTS(opf_contrib_int(c, "axis", -1)));
    const opf_value_id bound = epsilon != 0 ? opf_contrib_number(c, type, (double)epsilon) : 0;
    opf_value_id norm;
    if (squared && guard == OPF_LP_INSIDE && bound != 0)
        norm = OPF_APPLY(c, Sqrt, OPF_APPLY(c, Add, OPF_APPLY(c, ReduceSumSquare, x, axes), bound));
    else if (squared)
        norm = OPF_APPLY(c, ReduceL2, x, axes);
    else
        norm = OPF_APPLY(c, ReduceL1, x, axes);
    if (bound != 0 && guard == OPF_LP_MAX)
        norm = OPF_APPLY(c, Max, norm, bound);
    else if (bound != 0 && (guard == OPF_LP_ADD || !squared) /* a sum has no inside */)
        norm = OPF_APPLY(c, Add, norm, bound);
    opf_contrib_bind(c, 0, OPF_APPLY(c, Div, x, norm));
}
