/* SPDX-License-Identifier: Apache-2.0 */
/* Activations out of arithmetic and older activations. */
#include "onnx/save/spell.h"

static opf_value_id number(opf_contrib *c, double x)
{
    return opf_contrib_number(c, opf_contrib_type(c, opf_contrib_in(c, 0), "X"), x);
}

/* x^3 by products: Pow of half precision is not everywhere. */
static opf_value_id tanh_argument(opf_contrib *c, opf_value_id x)
{
    const opf_value_id cube = OPF_APPLY(c, Mul, x, OPF_APPLY(c, Mul, x, x));
    const opf_value_id inner = OPF_APPLY(c, Add, x, OPF_APPLY(c, Mul, cube, number(c, 0.044715)));
    return OPF_APPLY(c, Mul, inner, number(c, 0.7978845608028654));
}

void opf_spell_Gelu(opf_contrib *c)
{
    const opf_value_id x = opf_contrib_in(c, 0);
    const bool is_tanh = strcmp(opf_contrib_string(c, "approximate", "none"), "tanh") == 0;
    const opf_value_id curve = is_tanh ? OPF_APPLY(c, Tanh, tanh_argument(c, x))
                                       : OPF_APPLY(c, Erf, OPF_APPLY(c, Div, x, number(c, 1.4142135623730951)));
    const opf_value_id product = OPF_APPLY(c, Mul, x, OPF_APPLY(c, Add, curve, number(c, 1)));
    opf_contrib_bind(c, 0, OPF_APPLY(c, Mul, product, number(c, 0.5)));
}

void opf_spell_Swish(opf_contrib *c)
{
    const opf_value_id x = opf_contrib_in(c, 0);
    const float alpha = opf_contrib_float(c, "alpha", 1);
    const opf_value_id scaled = alpha == 1 ? x : OPF_APPLY(c, Mul, x, number(c, (double)alpha));
    const opf_value_id sigmoid = OPF_APPLY(c, Sigmoid, scaled);
    opf_contrib_bind(c, 0, OPF_APPLY(c, Mul, x, sigmoid));
}

void opf_spell_HardSwish(opf_contrib *c)
{
    const opf_value_id x = opf_contrib_in(c, 0);
    const opf_value_id gate =
        opf_contrib_add(c, &opf_op_HardSigmoid, OPF_INPUTS(x),
                        OPF_ATTRS(opf_contrib_float_attr("alpha", 1.0F / 6), opf_contrib_float_attr("beta", 0.5F)));
    opf_contrib_bind(c, 0, OPF_APPLY(c, Mul, x, gate));
}

void opf_spell_Mish(opf_contrib *c)
{
    const opf_value_id x = opf_contrib_in(c, 0);
    opf_contrib_bind(c, 0, OPF_APPLY(c, Mul, x, OPF_APPLY(c, Tanh, OPF_APPLY(c, Softplus, x))));
}
