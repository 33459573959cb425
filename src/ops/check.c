/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/check.h"

#include <stdarg.h>
#include <stdio.h>

opf_status opf_refuse_shapes(const opf_infer *infer, uint32_t i, uint32_t j, opf_error *error, const char *why, ...)
{
    const opf_param *params = infer->node->op->inputs;
    const char      *a      = opf_info_string(infer->in[i], infer->dims, infer->arena);
    const char      *b      = opf_info_string(infer->in[j], infer->dims, infer->arena);
    char    reason[256];
    va_list arguments;
    va_start(arguments, why);
    (void)vsnprintf(reason, sizeof reason, why, arguments);
    va_end(arguments);
    OPF_OOM_IF(error, a == NULL || b == NULL);
    if (i == j)
        return opf_fail(error, OPF_INVALID_INPUT, "%s %s: %s", params[i].name, a, reason);
    return opf_fail(error, OPF_INVALID_INPUT, "%s %s and %s %s: %s", params[i].name, a, params[j].name, b, reason);
}

opf_status opf_check_vector(const opf_infer *infer, uint32_t i, opf_dim wanted, uint32_t of, opf_error *error)
{
    if (!opf_infer_has(infer, i) || infer->in[i]->rank < 0)
        return OPF_OK;
    if (infer->in[i]->rank == 1 && !opf_dims_clash(infer->in[i]->dims[0], wanted))
        return OPF_OK;
    if (!opf_dim_is_number(wanted))
        return opf_refuse_shapes(infer, of, i, error, "the latter must have rank 1");
    return opf_refuse_shapes(infer, of, i, error, "the latter must have shape [%lld]", (long long)wanted.n);
}

opf_status opf_check_broadcast_to(const opf_infer *infer, uint32_t i, uint32_t to, opf_error *error)
{
    const opf_info *x = infer->in[to];
    if (!opf_infer_has(infer, i) || infer->in[i]->rank < 0 || x->rank < 0)
        return OPF_OK;
    const opf_info *b    = infer->in[i];
    bool            fits = b->rank <= x->rank;
    for (int32_t k = 0; k < b->rank && fits; k++)
        fits = opf_dim_is(b->dims[k], 1) || !opf_dims_clash(b->dims[k], x->dims[x->rank - b->rank + k]);
    return fits ? OPF_OK : opf_refuse_shapes(infer, to, i, error, "the latter does not broadcast to the former");
}
