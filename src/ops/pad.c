/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/pad.h"

#include "ops/lift.h"
#include "ops/movement.h"

#include <string.h>

opf_status opf_pad_read(const char *name, opf_pad *mode, opf_error *error)
{
    static const char *const names[OPF_PAD_COUNT] = {"constant", "reflect", "edge", "wrap"};
    for (int m = 0; m < OPF_PAD_COUNT; m++)
        if (strcmp(names[m], name) == 0) {
            *mode = (opf_pad)m;
            return OPF_OK;
        }
    return opf_fail(error, OPF_INVALID_MODEL, "mode \"%s\" does not exist", name);
}

/* What is taken from the tensor must be there: it is cut by negative pads first. */
static opf_status check_source(opf_pad mode, int32_t axis, int64_t d, int64_t before, int64_t after, opf_error *error)
{
    int64_t left = before < 0 ? d + before : d; /* d is at least 0: no overflow */
    OPF_FAIL_IF(error, left < 0 || (after < 0 && left + after < 0), OPF_INVALID_INPUT,
                "axis %d of %lld elements is padded by %lld and %lld", axis, (long long)d, (long long)before,
                (long long)after);
    left += after < 0 ? after : 0;
    bool needs = mode != OPF_PAD_CONSTANT && (before > 0 || after > 0);
    OPF_FAIL_IF(error, needs && left == 0, OPF_INVALID_INPUT, "axis %d is empty and cannot be padded out of itself",
                axis);
    return OPF_OK;
}

/* ---- inference ---- */

/* Fills before and after of every axis; an axis that is not padded has 0. False in *known when the axes are not known.
 */
static opf_status get_pads(opf_infer *infer, int32_t rank, opf_dim *before, opf_dim *after, bool *known,
                           opf_error *error)
{
    const opf_dim *pads;
    int64_t        told[OPF_MAX_RANK];
    bool           seen[OPF_MAX_RANK] = {false};
    int32_t        n_pads, n = rank;
    bool           has_axes = opf_infer_has(infer, 3);
    *known = opf_infer_values(infer, 1, &pads, &n_pads) &&
             (!has_axes || opf_infer_numbers(infer, 3, told, OPF_MAX_RANK, &n));
    if (!*known)
        return OPF_OK;
    OPF_FAIL_IF(error, n_pads != 2 * n, OPF_INVALID_MODEL, "pads has %d elements, %d axes need %d", n_pads, n, 2 * n);
    for (int32_t i = 0; i < rank; i++)
        before[i] = after[i] = opf_dim_number(0);
    for (int32_t k = 0; k < n; k++) {
        int32_t axis;
        OPF_TRY(opf_normalize_axis(has_axes ? told[k] : k, rank, &axis, error));
        OPF_FAIL_IF(error, seen[axis], OPF_INVALID_MODEL, "axis %d is there twice", axis);
        seen[axis]   = true;
        before[axis] = pads[k];
        after[axis]  = pads[n + k];
    }
    return OPF_OK;
}

static opf_status infer_pad(opf_infer *infer, opf_error *error)
{
    const opf_info *in = infer->in[0];
    opf_dim         before[OPF_MAX_RANK], after[OPF_MAX_RANK], dims[OPF_MAX_RANK];
    bool            known;
    opf_pad        mode;
    OPF_TRY(opf_pad_read(opf_node_string(infer->node, "mode", "constant"), &mode, error));
    if (in->rank < 0)
        return OPF_OK;
    OPF_TRY(get_pads(infer, in->rank, before, after, &known, error));
    if (!known)
        return opf_infer_unknown_dims(infer, 0, in->rank, error);
    for (int32_t i = 0; i < in->rank; i++) {
        if (opf_dim_is_number(in->dims[i]) && opf_dim_is_number(before[i]) && opf_dim_is_number(after[i]))
            OPF_TRY(check_source(mode, i, in->dims[i].n, before[i].n, after[i].n, error));
        dims[i] = opf_dim_add(infer->dims, opf_dim_add(infer->dims, before[i], in->dims[i]), after[i]);
    }
    OPF_TRY(opf_infer_set(infer, 0, in->rank, dims, error));
    return opf_infer_moved(infer, error);
}

/* ---- reference ---- */

/* Which element of [0, d) stands at position i of the padded axis, -1 for the constant. [low, high) is what is left. */
static int64_t source_index(opf_pad mode, int64_t i, int64_t low, int64_t high)
{
    int64_t n = high - low, k = i - low;
    if (k >= 0 && k < n)
        return i;
    switch (mode) {
    case OPF_PAD_EDGE:
        return k < 0 ? low : high - 1;
    case OPF_PAD_WRAP:
        k %= n;
        return low + (k < 0 ? k + n : k);
    case OPF_PAD_REFLECT:
        if (n == 1)
            return low;
        k %= 2 * (n - 1);
        k += k < 0 ? 2 * (n - 1) : 0;
        return low + (k < n ? k : 2 * (n - 1) - k);
    default:
        return -1;
    }
}

typedef struct padding {
    opf_pad mode;
    int64_t  before[OPF_MAX_RANK], low[OPF_MAX_RANK], high[OPF_MAX_RANK];
} padding;

static opf_status get_padding(const opf_call *call, padding *p, opf_error *error)
{
    const opf_view *in       = &call->in[0];
    bool            has_axes = call->n_in > 3 && call->in[3].data != NULL;
    int64_t         pads[2 * OPF_MAX_RANK], axes[OPF_MAX_RANK];
    size_t n_axes = has_axes ? opf_view_count(&call->in[3]) : (size_t)in->rank, n_pads = opf_view_count(&call->in[1]);
    memset(p, 0, sizeof *p);
    OPF_TRY(opf_pad_read(opf_call_string(call, "mode", "constant"), &p->mode, error));
    OPF_FAIL_IF(error, n_axes > (size_t)in->rank || n_pads != 2 * n_axes, OPF_INVALID_INPUT,
                "pads has %zu elements, %zu axes are padded", n_pads, n_axes);
    const int32_t n = (int32_t)n_axes;
    opf_view_ints(&call->in[1], pads);
    if (has_axes)
        opf_view_ints(&call->in[3], axes);
    for (int32_t i = 0; i < in->rank; i++)
        p->high[i] = in->dims[i];
    for (int32_t k = 0; k < n; k++) {
        int32_t axis;
        int64_t before = pads[k], after = pads[n + k];
        OPF_TRY(opf_normalize_axis(has_axes ? axes[k] : k, in->rank, &axis, error));
        OPF_TRY(check_source(p->mode, axis, in->dims[axis], before, after, error));
        p->before[axis] = before;
        p->low[axis]    = before < 0 ? -before : 0;
        p->high[axis] -= after < 0 ? -after : 0;
    }
    return OPF_OK;
}

static opf_status reference_pad(const opf_call *call, opf_error *error)
{
    static const unsigned char zero[16] = {0};
    const opf_view            *in = &call->in[0], *out = &call->out[0];
    const opf_view            *value = call->n_in > 2 && call->in[2].data != NULL ? &call->in[2] : NULL;
    const opf_grid             fill  = {value != NULL ? value->data : (void *)(uintptr_t)zero, 0, NULL};
    padding                    p;
    opf_walk                   walk;
    OPF_TRY(get_padding(call, &p, error));
    for (opf_walk_init(&walk, out->rank, out->dims, 1, &out); walk.left != 0; opf_walk_next(&walk)) {
        opf_grid src = {in->data, 0, NULL};
        for (int32_t i = 0; i < out->rank; i++) {
            int64_t from = source_index(p.mode, walk.index[i] - p.before[i], p.low[i], p.high[i]);
            if (from < 0) {
                src = fill;
                break;
            }
            src.start += from * in->strides[i];
        }
        opf_move_grid(opf_type_bits(in->type), (opf_grid){out->data, walk.offset[0], NULL}, src, 0, NULL);
    }
    return OPF_OK;
}

/* ---- older opsets ---- */

static opf_status lift_pad_2(opf_graph *graph, opf_node_id node, int32_t opset, opf_error *error)
{
    (void)opset;
    return opf_rename_attr(graph, node, "paddings", "pads", error);
}

static opf_status lower_pad_2(opf_graph *graph, opf_node_id node, int32_t opset, opf_error *error)
{
    (void)opset;
    return opf_rename_attr(graph, node, "pads", "paddings", error);
}

static opf_status lift_pad_11(opf_graph *graph, opf_node_id node, int32_t opset, opf_error *error)
{
    (void)opset;
    OPF_TRY(opf_lift_ints(graph, node, "pads", 1, error));
    return opf_lift_float(graph, node, "value", 2, error);
}

static opf_status lower_pad_11(opf_graph *graph, opf_node_id node, int32_t opset, opf_error *error)
{
    (void)opset;
    OPF_TRY(opf_lower_ints(graph, node, "pads", 1, error));
    return opf_lower_float(graph, node, "value", 2, error);
}

/* Before opset 18 every axis has its pads. */
static opf_status lower_pad_18(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    (void)opset;
    const opf_node *node = opf_graph_node(graph, id);
    if (node->n_own_inputs < 4 || node->inputs[3] == 0)
        return OPF_OK;
    const opf_const *pads = opf_graph_value(graph, node->inputs[1])->constant,
                    *axes = opf_graph_value(graph, node->inputs[3])->constant;
    int32_t          rank = opf_graph_value(graph, node->inputs[0])->info.rank;
    int64_t          all[2 * OPF_MAX_RANK] = {0};
    OPF_FAIL_IF(error, rank < 0 || pads == NULL || axes == NULL || pads->count != 2 * axes->count, OPF_UNSUPPORTED,
                "%s (%s): before opset 18 all axes are padded, and pads or axes are not constant", node->name,
                node->op_type);
    for (size_t k = 0; k < axes->count; k++) {
        int32_t axis;
        OPF_TRY(opf_normalize_axis(opf_const_i64_at(axes, k), rank, &axis, error));
        all[axis]        = opf_const_i64_at(pads, k);
        all[rank + axis] = opf_const_i64_at(pads, axes->count + k);
    }
    const char  *name  = opf_arena_printf(graph->arena, "%s/pads", node->name);
    opf_value_id value =
        name == NULL ? 0 : opf_graph_add_constant(graph, name, opf_const_ints(graph->consts, all, 2 * rank));
    OPF_OOM_IF(error, value == 0 || !opf_graph_set_input(graph, id, 1, value) || !opf_graph_set_input(graph, id, 3, 0));
    return OPF_OK;
}

static opf_status lower_pad_19(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    (void)opset;
    const opf_node *node = opf_graph_node(graph, id);
    OPF_FAIL_IF(error, strcmp(opf_node_string(node, "mode", "constant"), "wrap") == 0, OPF_UNSUPPORTED,
                "%s (%s): mode wrap came with opset 19", node->name, node->op_type);
    return OPF_OK;
}

const opf_op opf_op_Pad = {
    .name      = "Pad",
    .domain    = "",
    .since     = 1,
    .traits    = OPF_MOVEMENT,
    .inputs    = (const opf_param[]){{"data", 'T', OPF_TYPES_ANY, 0},
                                     {"pads", 0, OPF_TYPE_BIT(OPF_INT64), 0},
                                     {"constant_value", 'T', OPF_TYPES_ANY, OPF_OPTIONAL},
                                     {"axes", 'I', OPF_TYPES_INDEX, OPF_OPTIONAL}},
    .n_inputs  = 4,
    .outputs   = (const opf_param[]){{"output", 'T', OPF_TYPES_ANY, 0}},
    .n_outputs = 1,
    .attrs     = (const opf_attr_def[]){{.name = "mode", .type = OPF_ATTR_STRING, .s = "constant"}},
    .n_attrs   = 1,
    .rows      = (const opf_import_row[]){{2, lift_pad_2, lower_pad_2},
                                          {11, lift_pad_11, lower_pad_11},
                                          {18, opf_import_same, lower_pad_18},
                                          {19, opf_import_same, lower_pad_19},
                                          {25, opf_import_same, opf_lower_moved_type}},
    .n_rows    = 5,
    .infer     = infer_pad,
    .reference = reference_pad,
};
