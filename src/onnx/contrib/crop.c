/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CropAndResize: boxes of images, given by their corners in parts of the image, are sampled on a grid whose outermost
 * points are those corners. The standard GridSample does it; what lies outside of the image becomes a value of its own.
 */
#include "onnx/contrib/contrib.h"

/* One of the two axes of the boxes. */
typedef struct axis {
    opf_value_id count; /* points of the grid: int64[1] */
    opf_value_id place; /* of each point, in parts of the image: [boxes, count] */
    opf_value_id outside;
} axis;

static opf_value_id column(opf_contrib *c, opf_value_id x, int64_t i)
{
    return OPF_APPLY(c, Slice, x, opf_contrib_ints(c, OPF_INTS(i)), opf_contrib_ints(c, OPF_INTS(i + 1)),
                     opf_contrib_ints(c, OPF_INTS(-1)));
}

/* i: 0 for rows, 1 for columns. A single point is in the middle. */
static axis find_axis(opf_contrib *c, int64_t i, bool is_nearest)
{
    axis a = {0};
    const opf_value_id boxes = opf_contrib_in(c, 1), one = opf_contrib_ints(c, OPF_INTS(1));
    const opf_value_id zero = opf_contrib_number(c, OPF_FLOAT, 0);
    a.count = opf_contrib_cast(c, column(c, opf_contrib_in(c, 3), i), OPF_INT64);
    const opf_value_id steps = OPF_APPLY(c, Max, OPF_APPLY(c, Sub, a.count, one), one);
    const opf_value_id even = OPF_APPLY(c, Div, opf_contrib_cast(c, opf_contrib_range(c, a.count), OPF_FLOAT),
                                        opf_contrib_cast(c, steps, OPF_FLOAT));
    const opf_value_id part =
        OPF_APPLY(c, Where, OPF_APPLY(c, Equal, a.count, one), opf_contrib_number(c, OPF_FLOAT, 0.5), even);
    const opf_value_id first = column(c, boxes, i), last = column(c, boxes, i + 2);
    a.place = OPF_APPLY(c, Add, first, OPF_APPLY(c, Mul, part, OPF_APPLY(c, Sub, last, first)));
    const opf_value_id size = OPF_APPLY(c, Sub, opf_contrib_size(c, opf_contrib_in(c, 0), i + 2), one);
    const opf_value_id end = opf_contrib_cast(c, size, OPF_FLOAT), at = OPF_APPLY(c, Mul, a.place, end);
    a.outside = OPF_APPLY(c, Or, OPF_APPLY(c, Less, at, zero), OPF_APPLY(c, Greater, at, end));
    if (is_nearest) { /* half way goes up, unlike in GridSample */
        const opf_value_id nearest = OPF_APPLY(c, Floor, OPF_APPLY(c, Add, at, opf_contrib_number(c, OPF_FLOAT, 0.5)));
        a.place = OPF_APPLY(c, Div, nearest, OPF_APPLY(c, Max, end, opf_contrib_number(c, OPF_FLOAT, 1)));
    }
    return a;
}

void opf_decompose_CropAndResize(opf_contrib *c)
{
    const char *mode = opf_contrib_string(c, "mode", "bilinear");
    const bool is_nearest = strcmp(mode, "nearest") == 0;
    const opf_value_id one = opf_contrib_number(c, OPF_FLOAT, 1), two = opf_contrib_number(c, OPF_FLOAT, 2);
    const opf_attr along = opf_contrib_int_attr("axis", -1);
    if (!is_nearest && strcmp(mode, "bilinear") != 0)
        opf_contrib_fail(c, OPF_UNSUPPORTED, "mode %s is not supported", mode);
    const axis y = find_axis(c, 0, is_nearest), x = find_axis(c, 1, is_nearest);
    const opf_value_id as_rows = opf_contrib_ints(c, OPF_INTS(2, 3)), as_columns = opf_contrib_ints(c, OPF_INTS(1, 3));
    const opf_value_id shape = opf_contrib_add(
        c, &opf_op_Concat,
        OPF_INPUTS(opf_contrib_size(c, opf_contrib_in(c, 1), 0), y.count, x.count, opf_contrib_ints(c, OPF_INTS(1))),
        OPF_ATTRS(opf_contrib_int_attr("axis", 0)));
    const opf_value_id places =
        opf_contrib_add(c, &opf_op_Concat,
                        OPF_INPUTS(OPF_APPLY(c, Expand, OPF_APPLY(c, Unsqueeze, x.place, as_columns), shape),
                                   OPF_APPLY(c, Expand, OPF_APPLY(c, Unsqueeze, y.place, as_rows), shape)),
                        OPF_ATTRS(along));
    const opf_value_id grid = OPF_APPLY(c, Sub, OPF_APPLY(c, Mul, places, two), one);
    const opf_value_id images = OPF_APPLY(c, Gather, opf_contrib_in(c, 0), opf_contrib_in(c, 2));
    const opf_value_id sampled = opf_contrib_add(
        c, &opf_op_GridSample, OPF_INPUTS(images, grid),
        OPF_ATTRS(opf_contrib_int_attr("align_corners", 1), opf_contrib_string_attr("padding_mode", "border"),
                  opf_contrib_string_attr("mode", is_nearest ? "nearest" : "linear")));
    const opf_value_id outside =
        OPF_APPLY(c, Or, OPF_APPLY(c, Unsqueeze, y.outside, opf_contrib_ints(c, OPF_INTS(1, 3))),
                  OPF_APPLY(c, Unsqueeze, x.outside, opf_contrib_ints(c, OPF_INTS(1, 2))));
    const opf_value_id value = opf_contrib_number(c, OPF_FLOAT, (double)opf_contrib_float(c, "extrapolation_value", 0));
    opf_contrib_bind(c, 0, OPF_APPLY(c, Where, outside, value, sampled));
}
