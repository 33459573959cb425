/* SPDX-License-Identifier: Apache-2.0 */
/* PRelu: the slope broadcasts to X, never the other way round. */
#include "ops/elementwise.h"
#include "ops/import.h"

static double prelu_f(double x, double slope)
{
    return x < 0 ? slope * x : x;
}
static int64_t prelu_i(int64_t x, int64_t slope)
{
    return x < 0 ? (int64_t)((uint64_t)slope * (uint64_t)x) : x;
}
static uint64_t prelu_u(uint64_t x, uint64_t slope)
{
    (void)slope;
    return x;
}

static opf_status reference(const opf_call *call, opf_error *error)
{
    (void)error;
    return opf_reference_binary(call, prelu_f, prelu_i, prelu_u);
}

static opf_status infer(opf_infer *prelu, opf_error *error)
{
    OPF_TRY(opf_infer_shape_only(prelu, error)); /* finds shapes that cannot match */
    int32_t x = prelu->in[0]->rank, slope = prelu->in[1]->rank;
    OPF_FAIL_IF(error, x >= 0 && slope > x, OPF_INVALID_INPUT, "slope has rank %d, more than X with rank %d", slope, x);
    return opf_infer_same(prelu, 0, 0, error);
}

/* A slope per channel of opset 6 has one dimension; one of opset 7 and up is [C, 1, …, 1]. */
static opf_status lower_slope(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    (void)opset;
    const opf_node *node  = opf_graph_node(graph, id);
    const opf_info *slope = &opf_graph_value(graph, node->inputs[1])->info;
    bool            fits  = slope->rank == 0 || (slope->rank == 1 && opf_dim_is(slope->dims[0], 1));
    OPF_FAIL_IF(error, !fits, OPF_UNSUPPORTED, "%s (PRelu): a slope that broadcasts came with opset 7", node->name);
    return OPF_OK;
}

static const opf_import_row rows[] = {{7, opf_lift_channel_slope_6, lower_slope}};

#define TYPES                                                                                                          \
    (OPF_TYPES_FLOAT | OPF_TYPE_BIT(OPF_INT32) | OPF_TYPE_BIT(OPF_INT64) | OPF_TYPE_BIT(OPF_UINT32) | OPF_TYPE_BIT(OPF_UINT64))

const opf_op opf_op_PRelu = {.name      = "PRelu",
                             .domain    = "",
                             .since     = 1,
                             .traits    = OPF_ELEMENTWISE,
                             .inputs    = OPF_PARAMS({"X", 'T', TYPES, 0}, {"slope", 'T', TYPES, 0}),
                             .n_inputs  = 2,
                             .outputs   = OPF_PARAMS({"Y", 'T', TYPES, 0}),
                             .n_outputs = 1,
                             .rows      = rows,
                             .n_rows    = OPF_COUNT(rows),
                             .infer     = infer,
                             .reference = reference};
