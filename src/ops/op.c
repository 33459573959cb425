/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/op.h"

#include <string.h>

static const opf_op *const operators[] = {
#define OPF_OP(name) &opf_op_##name,
#include "ops/ops.def"
#undef OPF_OP
};

/* ops.def is sorted by name, so the first operator of a name is found by bisection; domains are told apart after it. */
const opf_op *opf_find_operator(const char *domain, const char *op_type)
{
    uint32_t low = 0, high = OPF_COUNT(operators);
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (strcmp(operators[middle]->name, op_type) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (domain == NULL || strcmp(domain, "ai.onnx") == 0)
        domain = "";
    for (uint32_t i = low; i < OPF_COUNT(operators) && strcmp(operators[i]->name, op_type) == 0; i++)
        if (strcmp(operators[i]->domain, domain) == 0)
            return operators[i];
    return NULL;
}

const opf_op *const *opf_all_operators(uint32_t *n)
{
    *n = OPF_COUNT(operators);
    return operators;
}

const opf_attr *opf_call_attr(const opf_call *call, const char *name)
{
    return opf_attrs_find(call->attrs, call->n_attrs, name);
}

int64_t opf_call_int(const opf_call *call, const char *name, int64_t otherwise)
{
    const opf_attr *attr = opf_call_attr(call, name);
    return attr != NULL && attr->type == OPF_ATTR_INT ? attr->i : otherwise;
}

float opf_call_float(const opf_call *call, const char *name, float otherwise)
{
    const opf_attr *attr = opf_call_attr(call, name);
    return attr != NULL && attr->type == OPF_ATTR_FLOAT ? attr->f : otherwise;
}

const char *opf_call_string(const opf_call *call, const char *name, const char *otherwise)
{
    const opf_attr *attr = opf_call_attr(call, name);
    return attr != NULL && attr->type == OPF_ATTR_STRING ? attr->s : otherwise;
}
