/* SPDX-License-Identifier: Apache-2.0 */
/* Softmax, LogSoftmax and Hardmax along one axis; before opset 13 they worked on the input seen as a matrix. */
#include "ops/infer.h"
#include "ops/lift.h"
#include "ops/reference.h"

#include <math.h>

static opf_status infer_softmax(opf_infer *infer, opf_error *error)
{
    int32_t axis;
    if (infer->in[0]->rank >= 0)
        OPF_TRY(opf_normalize_axis(opf_node_int(infer->node, "axis", -1), infer->in[0]->rank, &axis, error));
    return opf_infer_same(infer, 0, 0, error);
}

/* ---- reference ---- */

typedef void (*line_function)(const opf_view *x, int64_t from, int64_t x_step, opf_view *y, int64_t to,
                              int64_t y_step, int64_t n);

/* 1 at the first maximum, or the first NaN, and 0 elsewhere. */
static void hardmax_line(const opf_view *x, int64_t from, int64_t x_step, opf_view *y, int64_t to, int64_t y_step,
                         int64_t n)
{
    int64_t best = 0;
    double  max  = n > 0 ? opf_view_f64(x, from) : 0;
    for (int64_t i = 1; i < n && !isnan(max); i++) {
        double value = opf_view_f64(x, from + i * x_step);
        if (value > max || isnan(value)) {
            max  = value;
            best = i;
        }
    }
    for (int64_t i = 0; i < n; i++)
        opf_view_put_f64(y, to + i * y_step, i == best ? 1 : 0);
}

/* One line of n elements of both tensors, their own steps apart. The maximum skips NaN: the sum does not. */
static void run_line(const opf_view *x, int64_t from, int64_t x_step, opf_view *y, int64_t to, int64_t y_step,
                     int64_t n, bool is_log)
{
    double max = -(double)INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++) {
        double value = opf_view_f64(x, from + i * x_step);
        max          = value > max ? value : max;
    }
    for (int64_t i = 0; i < n; i++)
        sum += exp(opf_view_f64(x, from + i * x_step) - max);
    const double log_sum = log(sum);
    for (int64_t i = 0; i < n; i++) {
        double value = opf_view_f64(x, from + i * x_step) - max;
        opf_view_put_f64(y, to + i * y_step, is_log ? value - log_sum : exp(value) / sum);
    }
}

static void softmax_line(const opf_view *x, int64_t from, int64_t x_step, opf_view *y, int64_t to, int64_t y_step,
                         int64_t n)
{
    run_line(x, from, x_step, y, to, y_step, n, false);
}

static void log_softmax_line(const opf_view *x, int64_t from, int64_t x_step, opf_view *y, int64_t to, int64_t y_step,
                             int64_t n)
{
    run_line(x, from, x_step, y, to, y_step, n, true);
}

static opf_status run_lines(const opf_call *call, line_function run, opf_error *error)
{
    const opf_view *x       = &call->in[0];
    opf_view       *y       = &call->out[0];
    const opf_view *views[] = {x, y};
    int64_t         dims[OPF_MAX_RANK];
    int32_t         axis;
    opf_walk        walk;
    OPF_TRY(opf_normalize_axis(opf_call_int(call, "axis", -1), x->rank, &axis, error));
    for (int32_t i = 0; i < x->rank; i++)
        dims[i] = i == axis ? 1 : x->dims[i];
    for (opf_walk_init(&walk, x->rank, dims, 2, views); walk.left > 0; opf_walk_next(&walk))
        run(x, walk.offset[0], x->strides[axis], y, walk.offset[1], y->strides[axis], x->dims[axis]);
    return OPF_OK;
}

static opf_status run_softmax(const opf_call *call, opf_error *error)
{
    return run_lines(call, softmax_line, error);
}

static opf_status run_log_softmax(const opf_call *call, opf_error *error)
{
    return run_lines(call, log_softmax_line, error);
}

static opf_status run_hardmax(const opf_call *call, opf_error *error)
{
    return run_lines(call, hardmax_line, error);
}

/* ---- before opset 13 ---- */

/* The input was flattened to [dims before axis, dims from axis on], with axis 1 by default: the same along the last
   axis alone. */
static opf_status lift_13(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    const opf_node *node = opf_graph_node(graph, id);
    const int64_t   axis = opf_node_int(node, "axis", 1);
    const int32_t   rank = node->n_inputs > 0 ? opf_graph_value(graph, node->inputs[0])->info.rank : -1;
    (void)opset;
    OPF_FAIL_IF(error, node->n_inputs < 1 || node->n_outputs < 1 || node->outputs[0] == 0, OPF_INVALID_MODEL,
                "%s (%s): must have an input and an output", node->name, node->op_type);
    OPF_FAIL_IF(error, rank >= 0 && (axis < -rank || axis >= rank), OPF_INVALID_MODEL,
                "%s (%s): axis %lld is out of range for rank %d", node->name, node->op_type, (long long)axis,
                (int)rank);
    OPF_OOM_IF(error, !opf_node_set_int(graph, id, "axis", -1));
    return axis == -1 || (rank >= 0 && axis == rank - 1) ? OPF_OK : opf_lift_flatten(graph, id, axis, error);
}

/* The producer of a value if it is a plain node of this operator; 0 otherwise. */
static opf_node_id producer_of(const opf_graph *graph, opf_value_id value, const opf_op *op)
{
    const opf_node_id id   = opf_graph_value(graph, value)->producer;
    const opf_node   *node = opf_graph_node(graph, id);
    return id != 0 && node->op == op && node->prologue.n == 0 && node->epilogue.n == 0 ? id : 0;
}

/* Undoes opf_lift_flatten: true if its nodes were found around the node and are gone. */
static bool unflatten(opf_graph *graph, opf_node_id id, bool *failed)
{
    const opf_value_id flat = opf_graph_node(graph, id)->inputs[0], inner = opf_graph_node(graph, id)->outputs[0];
    const opf_node_id  flatten = producer_of(graph, flat, &opf_op_Flatten);
    const opf_use     *use     = opf_graph_single_use(graph, inner);
    if (flatten == 0 || use == NULL || use->input != 0 || opf_graph_node(graph, use->node)->op != &opf_op_Reshape)
        return false;
    const opf_node_id  reshape = use->node;
    const opf_value_id x       = opf_graph_node(graph, flatten)->inputs[0];
    const opf_node_id  shape   = producer_of(graph, opf_graph_node(graph, reshape)->inputs[1], &opf_op_Shape);
    if (shape == 0 || opf_graph_node(graph, shape)->inputs[0] != x || opf_graph_node(graph, shape)->n_attrs != 0)
        return false;
    const int64_t      axis  = opf_node_int(opf_graph_node(graph, flatten), "axis", 1);
    const opf_value_id outer = opf_graph_node(graph, reshape)->outputs[0];
    opf_graph_remove_node(graph, reshape);
    *failed = !opf_graph_set_output(graph, id, 0, outer) || !opf_graph_set_input(graph, id, 0, x) ||
              !opf_node_set_int(graph, id, "axis", axis);
    if (opf_graph_value(graph, flat)->n_uses == 0)
        opf_graph_remove_node(graph, flatten);
    if (opf_graph_value(graph, opf_graph_node(graph, shape)->outputs[0])->n_uses == 0)
        opf_graph_remove_node(graph, shape);
    return true;
}

/* Another axis than the last one: transposed to be the last one, and back. */
static opf_status lower_by_transposing(opf_graph *graph, opf_node_id id, int32_t axis, int32_t rank, opf_error *error)
{
    const opf_value_id x = opf_graph_node(graph, id)->inputs[0];
    int64_t            perm[OPF_MAX_RANK];
    opf_value_id       turned;
    opf_node_id        before, after;
    for (int32_t i = 0; i < rank; i++)
        perm[i] = i == axis ? rank - 1 : i == rank - 1 ? axis : i;
    OPF_TRY(opf_lift_add_node(graph, id, &opf_op_Transpose, &x, 1, &before, &turned, error));
    OPF_TRY(opf_lift_wrap(graph, id, turned, &opf_op_Transpose, 0, &after, error));
    OPF_OOM_IF(error, !opf_node_set_ints(graph, before, "perm", perm, (uint32_t)rank) ||
                          !opf_node_set_ints(graph, after, "perm", perm, (uint32_t)rank) ||
                          !opf_node_set_int(graph, id, "axis", rank - 1));
    return OPF_OK;
}

static opf_status lower_13(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    OPF_TRY(opf_lower_no_bfloat16(graph, id, opset, error));
    const opf_node *node = opf_graph_node(graph, id);
    const int32_t   rank = opf_graph_value(graph, node->inputs[0])->info.rank;
    int64_t         axis = opf_node_int(node, "axis", -1);
    if (rank >= 0 && axis < 0)
        axis += rank;
    if (axis == -1 || axis == rank - 1) {
        bool failed = false;
        if (unflatten(graph, id, &failed)) {
            OPF_OOM_IF(error, failed);
            return OPF_OK;
        }
    }
    OPF_FAIL_IF(error, rank < 0 && (axis != -1 || opset < 11), OPF_UNSUPPORTED,
                "%s (%s): needs a known rank for opset %d", node->name, node->op_type, (int)opset);
    if (rank >= 0 && axis != rank - 1)
        return lower_by_transposing(graph, id, (int32_t)axis, rank, error);
    OPF_OOM_IF(error, !opf_node_set_int(graph, id, "axis", axis));
    return OPF_OK;
}

/* ---- signatures ---- */

static const opf_param      inputs[]  = {{"input", 'T', OPF_TYPES_FLOAT, 0}};
static const opf_param      outputs[] = {{"output", 'T', OPF_TYPES_FLOAT, 0}};
static const opf_attr_def   attrs[]   = {{.name = "axis", .type = OPF_ATTR_INT, .i = -1}};
static const opf_import_row rows[]    = {{13, lift_13, lower_13}};

#define DEFINE_SOFTMAX(op_name, run)                                                                                   \
    const opf_op opf_op_##op_name = {.name      = #op_name,                                                            \
                                     .domain    = "",                                                                  \
                                     .since     = 1,                                                                   \
                                     .traits    = OPF_NORMALIZATION,                                                   \
                                     .inputs    = inputs,                                                              \
                                     .n_inputs  = OPF_COUNT(inputs),                                                   \
                                     .outputs   = outputs,                                                             \
                                     .n_outputs = OPF_COUNT(outputs),                                                  \
                                     .attrs     = attrs,                                                               \
                                     .n_attrs   = OPF_COUNT(attrs),                                                    \
                                     .rows      = rows,                                                                \
                                     .n_rows    = OPF_COUNT(rows),                                                     \
                                     .infer     = infer_softmax,                                                       \
                                     .reference = run}
DEFINE_SOFTMAX(Softmax, run_softmax);
DEFINE_SOFTMAX(LogSoftmax, run_log_softmax);
DEFINE_SOFTMAX(Hardmax, run_hardmax);
