/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/instruction.h"

#include <string.h>

/* Up to two attributes are parameters; their defaults. */
static const struct {
    const opf_op *op;
    opf_ew ew;
    struct {
        const char *attr;
        float value;
    } params[2];
} known[] = {
    {&opf_op_Add, OPF_EW_ADD, {{0}}},
    {&opf_op_Sub, OPF_EW_SUB, {{0}}},
    {&opf_op_Mul, OPF_EW_MUL, {{0}}},
    {&opf_op_Div, OPF_EW_DIV, {{0}}},
    {&opf_op_Min, OPF_EW_MIN, {{0}}},
    {&opf_op_Max, OPF_EW_MAX, {{0}}},
    {&opf_op_Sum, OPF_EW_ADD, {{0}}},
    {&opf_op_Pow, OPF_EW_POW, {{0}}},
    {&opf_op_Relu, OPF_EW_RELU, {{0}}},
    {&opf_op_LeakyRelu, OPF_EW_LEAKY, {{"alpha", 0.01f}}},
    {&opf_op_PRelu, OPF_EW_PRELU, {{0}}},
    {&opf_op_Sigmoid, OPF_EW_SIGMOID, {{0}}},
    {&opf_op_Tanh, OPF_EW_TANH, {{0}}},
    {&opf_op_Erf, OPF_EW_ERF, {{0}}},
    {&opf_op_Exp, OPF_EW_EXP, {{0}}},
    {&opf_op_Log, OPF_EW_LOG, {{0}}},
    {&opf_op_Sqrt, OPF_EW_SQRT, {{0}}},
    {&opf_op_Abs, OPF_EW_ABS, {{0}}},
    {&opf_op_Neg, OPF_EW_NEG, {{0}}},
    {&opf_op_Reciprocal, OPF_EW_RECIPROCAL, {{0}}},
    {&opf_op_Floor, OPF_EW_FLOOR, {{0}}},
    {&opf_op_Ceil, OPF_EW_CEIL, {{0}}},
    {&opf_op_Round, OPF_EW_ROUND, {{0}}},
    {&opf_op_Sign, OPF_EW_SIGN, {{0}}},
    {&opf_op_Swish, OPF_EW_SWISH, {{"alpha", 1.0f}}},
    {&opf_op_HardSigmoid, OPF_EW_HARD_SIGMOID, {{"alpha", 0.2f}, {"beta", 0.5f}}},
    {&opf_op_HardSwish, OPF_EW_HARD_SWISH, {{0}}},
    {&opf_op_Softplus, OPF_EW_SOFTPLUS, {{0}}},
    {&opf_op_Softsign, OPF_EW_SOFTSIGN, {{0}}},
    {&opf_op_Mish, OPF_EW_MISH, {{0}}},
    {&opf_op_Elu, OPF_EW_ELU, {{"alpha", 1.0f}}},
    {&opf_op_Selu, OPF_EW_SELU, {{"alpha", 1.67326319217681884765625f}, {"gamma", 1.05070102214813232421875f}}},
    {&opf_op_ThresholdedRelu, OPF_EW_THRESHOLDED_RELU, {{"alpha", 1.0f}}},
    {&opf_op_Sin, OPF_EW_SIN, {{0}}},
    {&opf_op_Cos, OPF_EW_COS, {{0}}},
    {&opf_op_Identity, OPF_EW_COPY, {{0}}},
    {&opf_op_Dropout, OPF_EW_COPY, {{0}}},
    {&opf_op_Clip, OPF_EW_CLIP, {{0}}},
    {&opf_op_Gelu, OPF_EW_GELU, {{0}}},
    {&opf_op_Mean, OPF_EW_ADD, {{0}}},
    {&opf_op_Tan, OPF_EW_TAN, {{0}}},
    {&opf_op_Asin, OPF_EW_ASIN, {{0}}},
    {&opf_op_Acos, OPF_EW_ACOS, {{0}}},
    {&opf_op_Atan, OPF_EW_ATAN, {{0}}},
    {&opf_op_Sinh, OPF_EW_SINH, {{0}}},
    {&opf_op_Cosh, OPF_EW_COSH, {{0}}},
    {&opf_op_Asinh, OPF_EW_ASINH, {{0}}},
    {&opf_op_Acosh, OPF_EW_ACOSH, {{0}}},
    {&opf_op_Atanh, OPF_EW_ATANH, {{0}}},
    {&opf_op_Mod, OPF_EW_MOD, {{"fmod", 0.0f}}},
    {&opf_op_Celu, OPF_EW_CELU, {{"alpha", 1.0f}}},
    {&opf_op_Shrink, OPF_EW_SHRINK, {{"bias", 0.0f}, {"lambd", 0.5f}}},
    {&opf_op_SwiGLU, OPF_EW_SWISH, {{"alpha", 1.0f}}},
};

static float parameter(const opf_attr *attr, float otherwise)
{
    if (attr == NULL)
        return otherwise;
    return attr->type == OPF_ATTR_INT ? (float)attr->i : attr->f;
}

static bool is_by_tanh(const opf_attr *attrs, uint32_t n_attrs)
{
    const opf_attr *attr = opf_attrs_find(attrs, n_attrs, "approximate");
    return attr != NULL && attr->s != NULL && strcmp(attr->s, "tanh") == 0;
}

bool opf_op_instruction(const opf_op *op, const opf_attr *attrs, uint32_t n_attrs, opf_instruction *instruction)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (known[i].op != op)
            continue;
        *instruction = (opf_instruction){.ew = known[i].ew};
        for (int k = 0; k < 2; k++)
            if (known[i].params[k].attr != NULL)
                instruction->params[k] =
                    parameter(opf_attrs_find(attrs, n_attrs, known[i].params[k].attr), known[i].params[k].value);
        if (op == &opf_op_Gelu && is_by_tanh(attrs, n_attrs))
            instruction->ew = OPF_EW_GELU_TANH;
        return op != &opf_op_Celu || instruction->params[0] > 0; /* its kernels know powers below 1 only */
    }
    return false;
}
