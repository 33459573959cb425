/* SPDX-License-Identifier: Apache-2.0 */
/* Older opsets of Resize: its own rows, and Upsample, which became Resize in opset 10. */
#include "ops/lift.h"
#include "ops/movement.h"
#include "ops/resize.h"

#include <string.h>

enum { ROI = 1, SCALES = 2, SIZES = 3 };

static opf_status set_string(opf_graph *graph, opf_node_id id, const char *name, const char *text, opf_error *error)
{
    opf_attr attr = {.name = name, .type = OPF_ATTR_STRING, .s = text, .n = (uint32_t)strlen(text)};
    OPF_OOM_IF(error, !opf_node_set_attr(graph, id, attr));
    return OPF_OK;
}

static opf_status add_floats(opf_graph *graph, opf_node_id id, const char *what, const float *numbers, int64_t n,
                             opf_value_id *value, opf_error *error)
{
    const char *name = opf_arena_printf(graph->arena, "%s/%s", opf_graph_node(graph, id)->name, what);
    float      *kept = opf_arena_copy(graph->arena, numbers, (size_t)n * sizeof *numbers);
    OPF_OOM_IF(error, name == NULL || kept == NULL);
    const opf_const *constant =
        opf_const_bytes(graph->consts, OPF_FLOAT, 1, &n, kept, (size_t)n * sizeof *numbers);
    *value = constant == NULL ? 0 : opf_graph_add_constant(graph, name, constant);
    OPF_OOM_IF(error, *value == 0);
    return OPF_OK;
}

/* Input 1 was scales, and there was one way to place pixels. */
static opf_status become_resize(opf_graph *graph, opf_node_id id, opf_value_id scales, opf_error *error)
{
    while (opf_graph_node(graph, id)->n_inputs <= SCALES)
        OPF_OOM_IF(error, !opf_graph_append_input(graph, id, 0));
    OPF_OOM_IF(error, !opf_graph_set_input(graph, id, ROI, 0) || !opf_graph_set_input(graph, id, SCALES, scales));
    OPF_TRY(set_string(graph, id, "coordinate_transformation_mode", "asymmetric", error));
    OPF_TRY(set_string(graph, id, "nearest_mode", "floor", error));
    opf_node *node = opf_graph_node(graph, id);
    node->op       = &opf_op_Resize;
    node->op_type  = opf_op_Resize.name;
    return OPF_OK;
}

static bool has(const opf_node *node, uint32_t input)
{
    return input < node->n_own_inputs && node->inputs[input] != 0;
}

static opf_status get_input(const opf_node *node, opf_value_id *scales, opf_error *error)
{
    OPF_FAIL_IF(error, !has(node, 1), OPF_INVALID_MODEL, "input 1 (scales) is missing");
    for (uint32_t i = 2; i < node->n_own_inputs; i++)
        OPF_FAIL_IF(error, has(node, i), OPF_INVALID_MODEL, "%u inputs, must be 2", node->n_own_inputs);
    *scales = node->inputs[1];
    return OPF_OK;
}

opf_status opf_resize_lift_11(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    (void)opset;
    opf_value_id scales;
    OPF_TRY(get_input(opf_graph_node(graph, id), &scales, error));
    return become_resize(graph, id, scales, error);
}

/* ---- Upsample ---- */

/* Opset 1 had attributes height_scale and width_scale, 7 attribute scales, 9 input scales. */
static opf_status find_scales(opf_graph *graph, opf_node_id id, int32_t opset, opf_value_id *scales, opf_error *error)
{
    const opf_node *node = opf_graph_node(graph, id);
    if (opset >= 9)
        return get_input(node, scales, error);
    const opf_attr *list = opf_node_attr(node, "scales");
    if (opset >= 7) {
        OPF_FAIL_IF(error, list == NULL || list->type != OPF_ATTR_FLOATS, OPF_INVALID_MODEL,
                    "attribute scales is missing");
        OPF_TRY(add_floats(graph, id, "scales", list->floats, list->n, scales, error));
        return opf_drop_attr(graph, id, "scales");
    }
    const opf_attr *height = opf_node_attr(node, "height_scale"), *width = opf_node_attr(node, "width_scale");
    OPF_FAIL_IF(error, height == NULL || width == NULL, OPF_INVALID_MODEL,
                "attribute height_scale or width_scale is missing");
    const float numbers[4] = {1, 1, height->f, width->f};
    OPF_TRY(add_floats(graph, id, "scales", numbers, 4, scales, error));
    OPF_TRY(opf_drop_attr(graph, id, "height_scale"));
    return opf_drop_attr(graph, id, "width_scale");
}

static opf_status lift_upsample(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    opf_value_id scales;
    OPF_TRY(find_scales(graph, id, opset, &scales, error));
    if (strcmp(opf_node_string(opf_graph_node(graph, id), "mode", "nearest"), "bilinear") == 0)
        OPF_TRY(set_string(graph, id, "mode", "linear", error));
    return become_resize(graph, id, scales, error);
}

/* ---- inverses ---- */

static opf_status refuse(const opf_node *node, const char *what, int32_t opset, opf_error *error)
{
    return opf_fail(error, OPF_UNSUPPORTED, "%s (%s): %s came with opset %d", node->name, node->op_type, what,
                    (int)opset);
}

/* What later opsets added to the attributes goes; each must have its default. */
static void drop_new_attrs(opf_node *node)
{
    static const char *const names[] = {"antialias",           "axes",           "exclude_outside", "cubic_coeff_a",
                                        "extrapolation_value", "nearest_mode",   "keep_aspect_ratio_policy",
                                        "coordinate_transformation_mode"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        opf_node_remove_attr(node, names[i]);
}

/* To opset 10, and to Upsample below it. */
opf_status opf_resize_lower_11(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    opf_node  *node = opf_graph_node(graph, id);
    opf_resize r;
    OPF_TRY(opf_resize_read(node->attrs, node->n_attrs, &r, error));
    bool same = r.coordinates == OPF_RESIZE_ASYMMETRIC && r.mode != OPF_RESIZE_CUBIC &&
                (r.mode != OPF_RESIZE_NEAREST || r.rounding == OPF_RESIZE_FLOOR) && !r.exclude_outside;
    if (!same)
        return refuse(node, "this way to place pixels", 11, error);
    const opf_const *sizes = has(node, SIZES) ? opf_graph_value(graph, node->inputs[SIZES])->constant : NULL;
    if (!has(node, SCALES) || (has(node, SIZES) && (sizes == NULL || sizes->count != 0)))
        return refuse(node, "input sizes", 11, error);
    opf_value_id scales = node->inputs[SCALES];
    OPF_OOM_IF(error, !opf_graph_set_input(graph, id, 1, scales) || !opf_graph_set_input(graph, id, SCALES, 0));
    if (has(opf_graph_node(graph, id), SIZES))
        OPF_OOM_IF(error, !opf_graph_set_input(graph, id, SIZES, 0));
    drop_new_attrs(opf_graph_node(graph, id));
    if (opset >= 10)
        return OPF_OK;
    node          = opf_graph_node(graph, id);
    node->op      = &opf_op_Upsample;
    node->op_type = opf_op_Upsample.name;
    if (opset >= 9)
        return OPF_OK;
    const opf_const *constant = opf_graph_value(graph, scales)->constant;
    OPF_FAIL_IF(error, constant == NULL, OPF_UNSUPPORTED,
                "%s (%s): scales are not constant, but an attribute in opset %d", node->name, node->op_type,
                (int)opset);
    float *numbers = OPF_NEW(graph->arena, float, constant->count);
    OPF_OOM_IF(error, numbers == NULL);
    for (size_t i = 0; i < constant->count; i++)
        numbers[i] = (float)opf_const_f64_at(constant, i);
    opf_attr attr = {.name = "scales", .type = OPF_ATTR_FLOATS, .floats = numbers, .n = (uint32_t)constant->count};
    OPF_OOM_IF(error, !opf_node_set_attr(graph, id, attr) || !opf_graph_set_input(graph, id, 1, 0));
    return OPF_OK;
}

/* Before opset 13 roi and scales had to be there, though they could be empty. */
opf_status opf_resize_lower_13(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    OPF_TRY(opf_lower_moved_type(graph, id, opset, error));
    for (uint32_t input = ROI; input <= SCALES && opset >= 11; input++) {
        opf_value_id empty;
        const float  none = 0;
        if (has(opf_graph_node(graph, id), input))
            continue;
        OPF_TRY(add_floats(graph, id, input == ROI ? "roi" : "scales", &none, 0, &empty, error));
        while (opf_graph_node(graph, id)->n_inputs <= input)
            OPF_OOM_IF(error, !opf_graph_append_input(graph, id, 0));
        OPF_OOM_IF(error, !opf_graph_set_input(graph, id, input, empty));
    }
    return OPF_OK;
}

/* Element k of an input is that of axis axes[k]; other axes get `rest`, or their size. Several lists may follow each
   other. */
static opf_status spread(opf_graph *graph, opf_node_id id, uint32_t input, const int32_t *axes, int32_t n_axes,
                         const float *rest, int32_t lists, opf_error *error)
{
    const opf_node  *node     = opf_graph_node(graph, id);
    const opf_info  *x        = &opf_graph_value(graph, node->inputs[0])->info;
    const int32_t    rank     = x->rank;
    const opf_const *constant = opf_graph_value(graph, node->inputs[input])->constant;
    float            floats[2 * OPF_MAX_RANK];
    int64_t          ints[2 * OPF_MAX_RANK];
    opf_value_id     value;
    OPF_FAIL_IF(error, constant == NULL || (constant->count != 0 && constant->count != (size_t)(n_axes * lists)),
                OPF_UNSUPPORTED, "%s (%s): attribute axes came with opset 18, and input %u is not constant", node->name,
                node->op_type, input);
    if (constant->count == 0)
        return OPF_OK;
    for (int32_t list = 0; list < lists; list++) {
        for (int32_t i = 0; i < rank; i++) {
            floats[list * rank + i] = rest[list * rank + i];
            ints[list * rank + i]   = x->dims[i].n;
        }
        for (int32_t k = 0; k < n_axes; k++)
            if (input == SIZES)
                ints[axes[k]] = opf_const_i64_at(constant, (size_t)k);
            else
                floats[list * rank + axes[k]] = (float)opf_const_f64_at(constant, (size_t)(list * n_axes + k));
    }
    if (input != SIZES) {
        OPF_TRY(add_floats(graph, id, input == ROI ? "roi" : "scales", floats, lists * rank, &value, error));
    } else {
        const char *name = opf_arena_printf(graph->arena, "%s/sizes", node->name);
        value = name == NULL ? 0 : opf_graph_add_constant(graph, name, opf_const_ints(graph->consts, ints, rank));
    }
    OPF_OOM_IF(error, value == 0 || !opf_graph_set_input(graph, id, input, value));
    return OPF_OK;
}

/* Before opset 18 all axes are resized: those that were not keep their size. */
static opf_status name_all_axes(opf_graph *graph, opf_node_id id, const opf_resize *r, opf_error *error)
{
    const opf_info *x = &opf_graph_value(graph, opf_graph_node(graph, id)->inputs[0])->info;
    int32_t         axes[OPF_MAX_RANK], n;
    float           scales[OPF_MAX_RANK], roi[2 * OPF_MAX_RANK];
    bool            numbers = true;
    if (x->rank < 0)
        return refuse(opf_graph_node(graph, id), "attribute axes", 18, error);
    OPF_TRY(opf_resize_axes(r, x->rank, axes, &n, error));
    for (int32_t i = 0; i < x->rank; i++) {
        bool resized     = false;
        roi[i]           = 0;
        roi[x->rank + i] = 1;
        scales[i]        = 1;
        for (int32_t k = 0; k < n; k++)
            resized = resized || axes[k] == i;
        numbers = numbers && (resized || opf_dim_is_number(x->dims[i]));
    }
    if (has(opf_graph_node(graph, id), ROI))
        OPF_TRY(spread(graph, id, ROI, axes, n, roi, 2, error));
    if (has(opf_graph_node(graph, id), SCALES))
        OPF_TRY(spread(graph, id, SCALES, axes, n, scales, 1, error));
    if (!has(opf_graph_node(graph, id), SIZES))
        return OPF_OK;
    if (!numbers)
        return refuse(opf_graph_node(graph, id), "attribute axes beside symbolic sizes", 18, error);
    return spread(graph, id, SIZES, axes, n, scales, 1, error);
}

opf_status opf_resize_lower_18(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    (void)opset;
    opf_node  *node = opf_graph_node(graph, id);
    opf_resize r;
    OPF_TRY(opf_resize_read(node->attrs, node->n_attrs, &r, error));
    if (r.antialias)
        return refuse(node, "antialias", 18, error);
    if (r.policy != OPF_RESIZE_STRETCH)
        return refuse(node, "keep_aspect_ratio_policy", 18, error);
    if (r.axes != NULL)
        OPF_TRY(name_all_axes(graph, id, &r, error));
    node = opf_graph_node(graph, id);
    opf_node_remove_attr(node, "antialias");
    opf_node_remove_attr(node, "keep_aspect_ratio_policy");
    opf_node_remove_attr(node, "axes");
    return OPF_OK;
}

opf_status opf_resize_lower_19(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    (void)opset;
    const opf_node *node = opf_graph_node(graph, id);
    opf_resize      r;
    OPF_TRY(opf_resize_read(node->attrs, node->n_attrs, &r, error));
    return r.coordinates == OPF_RESIZE_HALF_PIXEL_SYMMETRIC ? refuse(node, "half_pixel_symmetric", 19, error) : OPF_OK;
}

/* Deprecated since opset 10, but in files of any opset the meaning is plain. */
const opf_op opf_op_Upsample = {
    .name      = "Upsample",
    .domain    = "",
    .since     = 1,
    .inputs    = (const opf_param[]){{"X", 'T', OPF_TYPES_MOVED, 0},
                                     {"scales", 0, OPF_TYPE_BIT(OPF_FLOAT), OPF_OPTIONAL}},
    .n_inputs  = 2,
    .outputs   = (const opf_param[]){{"Y", 'T', OPF_TYPES_MOVED, 0}},
    .n_outputs = 1,
    .attrs     = (const opf_attr_def[]){{.name = "mode", .type = OPF_ATTR_STRING, .s = "nearest"}},
    .n_attrs   = 1,
    .rows      = (const opf_import_row[]){{INT32_MAX, lift_upsample, opf_import_same}},
    .n_rows    = 1,
    .notes     = "becomes Resize",
};
