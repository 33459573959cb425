/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that the standard has too, or had later, in another spelling. */
#include "onnx/contrib/contrib.h"

static opf_value_id flat_ints(opf_contrib *c, opf_value_id x)
{
    return OPF_APPLY(c, Reshape, opf_contrib_cast(c, x, OPF_INT64), opf_contrib_ints(c, OPF_INTS(-1)));
}

void opf_decompose_ExpandDims(opf_contrib *c)
{
    opf_contrib_bind(c, 0, OPF_APPLY(c, Unsqueeze, opf_contrib_in(c, 0), flat_ints(c, opf_contrib_in(c, 1))));
}

void opf_decompose_GatherND(opf_contrib *c)
{
    opf_contrib_bind(
        c, 0, OPF_APPLY(c, GatherND, opf_contrib_in(c, 0), opf_contrib_cast(c, opf_contrib_in(c, 1), OPF_INT64)));
}

/* pads may be one row of a matrix, the value a vector of one number. */
void opf_decompose_Pad(opf_contrib *c)
{
    const opf_value_id given = opf_contrib_in(c, 2);
    const opf_value_id value = given != 0 ? OPF_APPLY(c, Reshape, given, opf_contrib_ints(c, 0, NULL)) : 0;
    opf_contrib_bind(c, 0,
                     opf_contrib_add(c, &opf_op_Pad,
                                     OPF_INPUTS(opf_contrib_in(c, 0), flat_ints(c, opf_contrib_in(c, 1)), value),
                                     OPF_ATTRS(opf_contrib_attr(c, "mode"))));
}

void opf_decompose_Range(opf_contrib *c)
{
    const opf_value_id start = opf_contrib_in(c, 0), given = opf_contrib_in(c, 2);
    const opf_type type = opf_contrib_type(c, start, "start");
    const opf_value_id empty = opf_contrib_ints(c, 0, NULL);
    const opf_value_id delta = given != 0 ? given : opf_contrib_cast(c, opf_contrib_integer(c, OPF_INT64, 1), type);
    opf_contrib_bind(c, 0,
                     OPF_APPLY(c, Range, OPF_APPLY(c, Reshape, start, empty),
                               OPF_APPLY(c, Reshape, opf_contrib_in(c, 1), empty),
                               OPF_APPLY(c, Reshape, delta, empty)));
}

/* In the order in which they first come. */
void opf_decompose_Unique(opf_contrib *c)
{
    opf_value_id out[4];
    opf_contrib_add_many(c, &opf_op_Unique, OPF_INPUTS(opf_contrib_in(c, 0)),
                         OPF_ATTRS(opf_contrib_int_attr("sorted", 0)), 4, out);
    opf_contrib_bind(c, 0, out[0]);
    opf_contrib_bind(c, 1, out[2]);
    opf_contrib_bind(c, 2, out[3]);
}

void opf_decompose_GridSample(opf_contrib *c)
{
    static const char *const names[][2] = {{"bilinear", "linear"}, {"nearest", "nearest"}, {"bicubic", "cubic"}};
    const char *mode = opf_contrib_string(c, "mode", "bilinear");
    uint32_t i = 0;
    while (i < OPF_COUNT(names) && strcmp(names[i][0], mode) != 0)
        i++;
    if (i == OPF_COUNT(names))
        opf_contrib_fail(c, OPF_UNSUPPORTED, "mode %s is not supported", mode);
    if (opf_contrib_failed(c))
        return;
    opf_contrib_bind(
        c, 0,
        opf_contrib_add(c, &opf_op_GridSample, OPF_INPUTS(opf_contrib_in(c, 0), opf_contrib_in(c, 1)),
                        OPF_ATTRS(opf_contrib_string_attr("mode", names[i][1]), opf_contrib_attr(c, "align_corners"),
                                  opf_contrib_attr(c, "padding_mode"))));
}

/* Windows along an axis: those of `size` elements, each `step` after the last; places inside them become the last axis.
 */
void opf_decompose_UnfoldTensor(opf_contrib *c)
{
    const opf_value_id x = opf_contrib_in(c, 0);
    const int32_t rank = opf_contrib_rank(c, x, "input");
    const int64_t size = opf_contrib_int(c, "size", 0), step = opf_contrib_int(c, "step", 1);
    int64_t axis = opf_contrib_int(c, "dim", -1), perm[OPF_MAX_RANK];
    axis += axis < 0 ? rank : 0;
    if (axis < 0 || axis >= rank || rank + 1 > OPF_MAX_RANK || size < 1 || step < 1)
        opf_contrib_fail(c, OPF_INVALID_MODEL, "dim, size and step do not fit rank %d", (int)rank);
    if (opf_contrib_failed(c))
        return;
    const opf_value_id room = OPF_APPLY(c, Sub, opf_contrib_size(c, x, axis), opf_contrib_ints(c, OPF_INTS(size)));
    const opf_value_id windows = OPF_APPLY(c, Add, OPF_APPLY(c, Div, room, opf_contrib_ints(c, OPF_INTS(step))),
                                           opf_contrib_ints(c, OPF_INTS(1)));
    const opf_value_id starts = OPF_APPLY(c, Mul, opf_contrib_range(c, windows), opf_contrib_ints(c, OPF_INTS(step)));
    const opf_value_id places = OPF_APPLY(c, Add, OPF_APPLY(c, Unsqueeze, starts, opf_contrib_ints(c, OPF_INTS(1))),
                                          opf_contrib_range(c, opf_contrib_ints(c, OPF_INTS(size))));
    const opf_value_id y =
        opf_contrib_add(c, &opf_op_Gather, OPF_INPUTS(x, places), OPF_ATTRS(opf_contrib_int_attr("axis", axis)));
    for (int32_t i = 0; i <= rank; i++)
        perm[i] = i <= axis ? i : i < rank ? i + 1 : axis + 1;
    opf_contrib_bind(c, 0, opf_contrib_transpose(c, y, (uint32_t)rank + 1, perm));
}

/* Distances between all rows of one matrix and all rows of another. */
void opf_decompose_CDist(opf_contrib *c)
{
    const char *metric = opf_contrib_string(c, "metric", "sqeuclidean");
    const opf_value_id a = OPF_APPLY(c, Unsqueeze, opf_contrib_in(c, 0), opf_contrib_ints(c, OPF_INTS(1)));
    const opf_value_id b = OPF_APPLY(c, Unsqueeze, opf_contrib_in(c, 1), opf_contrib_ints(c, OPF_INTS(0)));
    const opf_value_id squares = opf_contrib_add(c, &opf_op_ReduceSumSquare,
                                                 OPF_INPUTS(OPF_APPLY(c, Sub, a, b), opf_contrib_ints(c, OPF_INTS(2))),
                                                 OPF_ATTRS(opf_contrib_int_attr("keepdims", 0)));
    if (strcmp(metric, "euclidean") != 0 && strcmp(metric, "sqeuclidean") != 0)
        opf_contrib_fail(c, OPF_UNSUPPORTED, "metric %s is not supported", metric);
    opf_contrib_bind(c, 0, strcmp(metric, "euclidean") == 0 ? OPF_APPLY(c, Sqrt, squares) : squares);
}

/* Sums wrap at 32 bits. */
void opf_decompose_MatMulInteger16(opf_contrib *c)
{
    opf_value_id wide[2];
    for (uint32_t i = 0; i < 2; i++)
        wide[i] = opf_contrib_cast(c, opf_contrib_in(c, i), OPF_INT32);
    opf_contrib_bind(c, 0, OPF_APPLY(c, MatMul, wide[0], wide[1]));
}
