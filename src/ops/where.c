/* SPDX-License-Identifier: Apache-2.0 */
/* Where: one of two elements, told by a third; all three broadcast. */
#include "ops/elementwise.h"

#include <string.h>

static opf_status reference(const opf_call *call, opf_error *error)
{
    (void)error;
    opf_view *out = &call->out[0];
    opf_view  in[3];
    for (uint32_t i = 0; i < 3; i++)
        in[i] = opf_view_broadcast(&call->in[i], out->rank, out->dims);
    int64_t  size = (int64_t)opf_type_size(out->type);
    opf_walk walk;
    opf_walk_init(&walk, out->rank, out->dims, 4, (const opf_view *const[]){&in[0], &in[1], &in[2], out});
    for (; walk.left != 0; opf_walk_next(&walk)) {
        int         taken = opf_view_i64(&in[0], walk.offset[0]) != 0 ? 1 : 2;
        const char *src   = (const char *)in[taken].data + walk.offset[taken] * size;
        memcpy((char *)out->data + walk.offset[3] * size, src, (size_t)size);
    }
    return OPF_OK;
}

/* Input i seen from the elements of the output. n 0: its elements are not known. */
typedef struct {
    const opf_dim *values;
    opf_view       index;
} operand;

static operand get_operand(const opf_infer *where, uint32_t i, const opf_view *out)
{
    operand  o = {0};
    int32_t  n;
    opf_view view = {.rank = where->in[i]->rank};
    if (!opf_infer_values(where, i, &o.values, &n))
        return (operand){0};
    for (int32_t k = 0; k < view.rank; k++) {
        if (!opf_dim_is_number(where->in[i]->dims[k]))
            return (operand){0};
        view.dims[k] = where->in[i]->dims[k].n;
    }
    if (opf_view_count(&view) != (size_t)n)
        return (operand){0};
    opf_view_set_dense(&view);
    o.index = opf_view_broadcast(&view, out->rank, out->dims);
    return o;
}

static bool get_value(const operand *o, size_t k, opf_dim *value)
{
    if (o->values == NULL)
        return false;
    *value = o->values[opf_view_offset(&o->index, k)];
    return true;
}

/* Element k: the side that is taken if the condition is known, or either one if they are equal. */
static bool select_value(const operand operands[3], size_t k, opf_dim *value)
{
    opf_dim condition, x, y;
    if (get_value(&operands[0], k, &condition) && opf_dim_is_number(condition))
        return get_value(&operands[condition.n != 0 ? 1 : 2], k, value);
    if (!get_value(&operands[1], k, &x) || !get_value(&operands[2], k, &y) || !opf_dim_equal(x, y))
        return false;
    *value = x;
    return true;
}

static opf_status infer(opf_infer *where, opf_error *error)
{
    OPF_TRY(opf_infer_broadcast(where, 3, error));
    size_t count;
    if (!opf_info_count(&where->out[0], &count) || count > OPF_MAX_KNOWN_VALUES)
        return OPF_OK;
    opf_view out = {.rank = where->out[0].rank};
    for (int32_t k = 0; k < out.rank; k++)
        out.dims[k] = where->out[0].dims[k].n;
    operand operands[3];
    bool    any = false;
    for (uint32_t i = 0; i < 3; i++) {
        operands[i] = get_operand(where, i, &out);
        any         = any || (i != 0 && operands[i].values != NULL);
    }
    if (!any)
        return OPF_OK;
    opf_dim values[OPF_MAX_KNOWN_VALUES];
    bool    is_known = false;
    for (size_t k = 0; k < count; k++) {
        if (select_value(operands, k, &values[k]))
            is_known = true;
        else
            values[k] = opf_dim_unknown(where->dims);
    }
    return is_known ? opf_infer_set_values(where, 0, (int32_t)count, values, error) : OPF_OK;
}

const opf_op opf_op_Where = {.name      = "Where",
                             .domain    = "",
                             .since     = 9,
                             .traits    = OPF_ELEMENTWISE,
                             .inputs    = OPF_PARAMS({"condition", 0, OPF_TYPES_BOOL, 0}, {"X", 'T', OPF_TYPES_ALL, 0},
                                                     {"Y", 'T', OPF_TYPES_ALL, 0}),
                             .n_inputs  = 3,
                             .outputs   = OPF_PARAMS({"output", 'T', OPF_TYPES_ALL, 0}),
                             .n_outputs = 1,
                             .infer     = infer,
                             .reference = reference};
