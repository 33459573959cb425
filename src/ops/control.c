/* SPDX-License-Identifier: Apache-2.0 */
/*
 * If, Loop and Scan. Their bodies are inferred before them (control_bodies.c); here the results of the bodies become the
 * shapes of the outputs. What runs the bodies is the executor, so there is no reference kernel.
 */
#include "ops/control.h"

#include "ops/check.h"
#include "ops/movement.h"
#include "ops/scan_batches.h"

#include <string.h>

/* ---- bodies ---- */

static const opf_graph *body_of(const opf_node *node, const char *name)
{
    const opf_attr *attr = opf_node_attr(node, name);
    const bool      fits = attr != NULL && attr->type == OPF_ATTR_GRAPH && attr->i >= 0 && attr->i < (int64_t)node->n_bodies;
    return fits ? node->bodies[attr->i] : NULL;
}

static const opf_info *formal_of(const opf_graph *body, uint32_t i)
{
    return &opf_graph_value(body, body->inputs[i])->info;
}

static const opf_info *result_of(const opf_graph *body, uint32_t o)
{
    return &opf_graph_value(body, body->outputs[o])->info;
}

static opf_status check_body(const opf_infer *infer, const char *name, uint32_t n_in, uint32_t n_out, const opf_graph **body,
                             opf_error *error)
{
    const opf_node *node = infer->node;
    *body                = body_of(node, name);
    OPF_FAIL_IF(error, *body == NULL, OPF_INVALID_MODEL, "attribute %s holds no graph", name);
    const uint32_t formals = (*body)->n_inputs - node->n_captures;
    OPF_FAIL_IF(error, formals != n_in, OPF_INVALID_MODEL, "%s has %u inputs, must have %u", name, formals, n_in);
    OPF_FAIL_IF(error, (*body)->n_outputs < n_out, OPF_INVALID_MODEL, "%s has %u outputs, must have %u", name, (*body)->n_outputs,
                n_out);
    return OPF_OK;
}

static opf_status set_type(opf_infer *infer, uint32_t o, opf_type type, opf_error *error)
{
    OPF_FAIL_IF(error, type != OPF_TYPE_NONE && !opf_types_have(OPF_TYPES_ANY, type), OPF_UNSUPPORTED, "output %u has type %s", o,
                opf_type_name(type));
    infer->out[o].type = type;
    return OPF_OK;
}

/* ---- If ---- */

/* What is true of both: dimensions that differ are unknown. */
static opf_status join(opf_infer *infer, uint32_t o, const opf_info *a, const opf_info *b, opf_error *error)
{
    opf_dim dims[OPF_MAX_RANK];
    OPF_FAIL_IF(error, a->type != OPF_TYPE_NONE && b->type != OPF_TYPE_NONE && a->type != b->type, OPF_INVALID_MODEL,
                "output %u has type %s in then_branch and %s in else_branch", o, opf_type_name(a->type), opf_type_name(b->type));
    OPF_TRY(set_type(infer, o, a->type != OPF_TYPE_NONE ? a->type : b->type, error));
    if (a->rank < 0 || a->rank != b->rank)
        return OPF_OK;
    for (int32_t i = 0; i < a->rank; i++)
        dims[i] = opf_dim_equal(a->dims[i], b->dims[i]) ? a->dims[i] : opf_dim_unknown(infer->dims);
    OPF_TRY(opf_infer_set(infer, o, a->rank, dims, error));
    bool same = a->n_values >= 0 && a->n_values == b->n_values;
    for (int32_t i = 0; i < a->n_values && same; i++)
        same = opf_dim_equal(a->values[i], b->values[i]);
    return same ? opf_infer_set_values(infer, o, a->n_values, a->values, error) : OPF_OK;
}

static opf_status check_one_element(const opf_infer *infer, uint32_t i, opf_error *error)
{
    size_t count;
    if (opf_infer_has(infer, i) && opf_info_count(infer->in[i], &count) && count != 1)
        return opf_refuse_shapes(infer, i, i, error, "must have one element");
    return OPF_OK;
}

static opf_status infer_if(opf_infer *infer, opf_error *error)
{
    const opf_graph *then_body, *else_body;
    int64_t          condition;
    int32_t          n;
    OPF_TRY(check_one_element(infer, 0, error));
    OPF_TRY(check_body(infer, "then_branch", 0, infer->n_out, &then_body, error));
    OPF_TRY(check_body(infer, "else_branch", 0, infer->n_out, &else_body, error));
    const bool known = opf_infer_numbers(infer, 0, &condition, 1, &n) && n == 1;
    for (uint32_t o = 0; o < infer->n_out; o++) {
        const opf_info *a = result_of(then_body, o), *b = result_of(else_body, o);
        OPF_TRY(join(infer, o, known && condition == 0 ? b : a, known && condition != 0 ? a : b, error));
    }
    return OPF_OK;
}

/* ---- what Loop and Scan share ---- */

/* Output o is what a value that is carried through the rounds is in the end: after no round, what it was at first. */
static opf_status infer_carried(opf_infer *infer, uint32_t o, uint32_t input, const opf_info *formal, const opf_info *result,
                                opf_error *error)
{
    const opf_info *first = infer->in[input];
    opf_dim         dims[OPF_MAX_RANK];
    OPF_FAIL_IF(error, !opf_infer_has(infer, input), OPF_INVALID_MODEL, "input %u is missing", input);
    OPF_FAIL_IF(error, first->type != OPF_TYPE_NONE && result->type != OPF_TYPE_NONE && first->type != result->type,
                OPF_INVALID_MODEL, "input %u has type %s, but the body gives it type %s", input, opf_type_name(first->type),
                opf_type_name(result->type));
    if (o >= infer->n_out)
        return OPF_OK;
    OPF_TRY(set_type(infer, o, first->type != OPF_TYPE_NONE ? first->type : result->type, error));
    if (first->rank < 0 || formal->rank != first->rank || result->rank != first->rank)
        return OPF_OK;
    for (int32_t i = 0; i < first->rank; i++)
        dims[i] = opf_dim_equal(formal->dims[i], result->dims[i]) ? first->dims[i] : opf_dim_unknown(infer->dims);
    return opf_infer_set(infer, o, first->rank, dims, error);
}

/* Output o collects a result of all rounds along a new axis. Numbers and symbols mean the same outside of the body; what
   else the body says of a dimension holds inside only. */
static opf_status infer_collected(opf_infer *infer, uint32_t o, const opf_info *result, int64_t axis, opf_dim rounds, opf_error *error)
{
    opf_dim dims[OPF_MAX_RANK];
    int32_t at;
    OPF_TRY(set_type(infer, o, result->type, error));
    if (result->rank < 0)
        return OPF_OK;
    OPF_FAIL_IF(error, result->rank + 1 > OPF_MAX_RANK, OPF_LIMIT, "output %u has rank %d, at most %d is supported", o,
                (int)result->rank + 1, OPF_MAX_RANK);
    OPF_TRY(opf_normalize_axis(axis, result->rank + 1, &at, error));
    for (int32_t i = 0, k = 0; i < result->rank + 1; i++) {
        if (i == at) {
            dims[i] = rounds;
            continue;
        }
        const opf_dim inner   = result->dims[k++];
        const bool    is_same = opf_dim_is_number(inner) || opf_dim_symbol_name(infer->dims, inner) != NULL;
        dims[i]               = is_same ? inner : opf_dim_unknown(infer->dims);
    }
    return opf_infer_set(infer, o, result->rank + 1, dims, error);
}

/* ---- Loop ---- */

enum { TRIPS, CONDITION, CARRIED };

static bool is_true(const opf_info *info)
{
    return info->n_values == 1 && opf_dim_is_number(info->values[0]) && info->values[0].n != 0;
}

/* The number of rounds, where no condition can end them early. */
static opf_dim count_rounds(const opf_infer *infer, const opf_graph *body)
{
    const bool     has_condition = opf_infer_has(infer, CONDITION), keeps = body->outputs[0] == body->inputs[1];
    const opf_dim *trips;
    int32_t        n;
    if (has_condition && !(is_true(infer->in[CONDITION]) && (keeps || is_true(result_of(body, 0)))))
        return opf_dim_unknown(infer->dims);
    if (!opf_infer_values(infer, TRIPS, &trips, &n) || n != 1)
        return opf_dim_unknown(infer->dims);
    if (opf_dim_is_number(trips[0]))
        return opf_dim_number(trips[0].n > 0 ? trips[0].n : 0);
    return opf_dim_at_least(infer->dims, trips[0], 0) ? trips[0] : opf_dim_unknown(infer->dims);
}

static opf_status infer_loop(opf_infer *infer, opf_error *error)
{
    const uint32_t   carried = infer->n_in > CARRIED ? infer->n_in - CARRIED : 0;
    const uint32_t   wanted  = infer->n_out > carried ? infer->n_out : carried;
    const opf_graph *body;
    OPF_TRY(check_one_element(infer, TRIPS, error));
    OPF_TRY(check_one_element(infer, CONDITION, error));
    OPF_TRY(check_body(infer, "body", CARRIED + carried, 1 + wanted, &body, error));
    const opf_type condition = result_of(body, 0)->type;
    OPF_FAIL_IF(error, condition != OPF_TYPE_NONE && condition != OPF_BOOL, OPF_INVALID_MODEL,
                "the condition that body gives has type %s, must be bool", opf_type_name(condition));
    for (uint32_t k = 0; k < carried; k++)
        OPF_TRY(infer_carried(infer, k, CARRIED + k, formal_of(body, CARRIED + k), result_of(body, 1 + k), error));
    const opf_dim rounds = count_rounds(infer, body);
    for (uint32_t o = carried; o < infer->n_out; o++)
        OPF_TRY(infer_collected(infer, o, result_of(body, 1 + o), 0, rounds, error));
    return OPF_OK;
}

/* ---- Scan ---- */

static opf_status check_list(const opf_infer *infer, const char *name, uint32_t n, bool is_direction, opf_error *error)
{
    const opf_attr *attr = opf_node_attr(infer->node, name);
    if (attr == NULL)
        return OPF_OK;
    OPF_FAIL_IF(error, attr->n != n, OPF_INVALID_MODEL, "%s has %u elements, must have %u", name, attr->n, n);
    for (uint32_t i = 0; i < attr->n && is_direction; i++)
        OPF_FAIL_IF(error, attr->ints[i] != 0 && attr->ints[i] != 1, OPF_INVALID_MODEL, "element %u of %s is %lld, must be 0 or 1",
                    i, name, (long long)attr->ints[i]);
    return OPF_OK;
}

static int64_t axis_of(const opf_infer *infer, const char *name, uint32_t i)
{
    const opf_attr *attr = opf_node_attr(infer->node, name);
    return attr != NULL && i < attr->n ? attr->ints[i] : 0;
}

/* The length that all scan inputs share. */
static opf_status infer_scan_length(opf_infer *infer, uint32_t states, opf_dim *length, opf_error *error)
{
    int32_t axis;
    *length = opf_dim_unknown(infer->dims);
    for (uint32_t i = states; i < infer->n_in; i++) {
        const opf_info *x = infer->in[i];
        OPF_FAIL_IF(error, !opf_infer_has(infer, i), OPF_INVALID_MODEL, "input %u is missing", i);
        if (x->rank < 0)
            continue;
        OPF_TRY(opf_normalize_axis(axis_of(infer, "scan_input_axes", i - states), x->rank, &axis, error));
        OPF_FAIL_IF(error, opf_dims_clash(*length, x->dims[axis]), OPF_INVALID_INPUT,
                    "scan inputs have lengths %lld and %lld, must be equal", (long long)length->n, (long long)x->dims[axis].n);
        if (i == states || opf_dim_is_number(x->dims[axis]))
            *length = x->dims[axis];
    }
    return OPF_OK;
}

static opf_status infer_scan(opf_infer *infer, opf_error *error)
{
    const int64_t    scans = opf_node_int(infer->node, "num_scan_inputs", 0);
    const opf_graph *body;
    opf_dim          length;
    OPF_FAIL_IF(error, scans < 1 || scans > (int64_t)infer->n_in, OPF_INVALID_MODEL, "num_scan_inputs is %lld, there are %u inputs",
                (long long)scans, infer->n_in);
    const uint32_t states = infer->n_in - (uint32_t)scans;
    OPF_TRY(check_body(infer, "body", infer->n_in, infer->n_out > states ? infer->n_out : states, &body, error));
    const uint32_t collected = body->n_outputs - states;
    OPF_TRY(check_list(infer, "scan_input_axes", (uint32_t)scans, false, error));
    OPF_TRY(check_list(infer, "scan_input_directions", (uint32_t)scans, true, error));
    OPF_TRY(check_list(infer, "scan_output_axes", collected, false, error));
    OPF_TRY(check_list(infer, "scan_output_directions", collected, true, error));
    OPF_TRY(infer_scan_length(infer, states, &length, error));
    for (uint32_t k = 0; k < states; k++)
        OPF_TRY(infer_carried(infer, k, k, formal_of(body, k), result_of(body, k), error));
    for (uint32_t o = states; o < infer->n_out; o++)
        OPF_TRY(infer_collected(infer, o, result_of(body, o), axis_of(infer, "scan_output_axes", o - states), length, error));
    return OPF_OK;
}

/* Axes counted from the end came with opset 11. */
static opf_status lower_scan_11(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    static const char *const names[] = {"scan_input_axes", "scan_output_axes"};
    const opf_node          *node    = opf_graph_node(graph, id);
    for (int k = 0; k < 2; k++) {
        const opf_attr *axes = opf_node_attr(node, names[k]);
        for (uint32_t i = 0; axes != NULL && i < axes->n; i++)
            OPF_FAIL_IF(error, axes->ints[i] < 0, OPF_UNSUPPORTED, "%s (%s): %s counted from the end need an opset above %d",
                        node->name, node->op_type, names[k], (int)opset);
    }
    return OPF_OK;
}

/* ---- signatures ---- */

static const opf_param if_inputs[]    = {{"cond", 0, OPF_TYPES_BOOL, 0}};
static const opf_param if_outputs[]   = {{"outputs", 0, OPF_TYPES_ANY, OPF_VARIADIC}};
static const opf_param loop_inputs[]  = {{"M", 0, OPF_TYPE_BIT(OPF_INT64), OPF_OPTIONAL},
                                         {"cond", 0, OPF_TYPES_BOOL, OPF_OPTIONAL},
                                         {"v_initial", 0, OPF_TYPES_ANY, OPF_OPTIONAL | OPF_VARIADIC}};
static const opf_param loop_outputs[] = {{"v_final_and_scan_outputs", 0, OPF_TYPES_ANY, OPF_VARIADIC}};
static const opf_param scan_inputs[]  = {{"initial_state_and_scan_inputs", 0, OPF_TYPES_ANY, OPF_OPTIONAL | OPF_VARIADIC}};
static const opf_param scan_outputs[] = {{"final_state_and_scan_outputs", 0, OPF_TYPES_ANY, OPF_VARIADIC}};

static const opf_attr_def if_attrs[]   = {{.name = "else_branch", .type = OPF_ATTR_GRAPH, .required = true},
                                          {.name = "then_branch", .type = OPF_ATTR_GRAPH, .required = true}};
static const opf_attr_def loop_attrs[] = {{.name = "body", .type = OPF_ATTR_GRAPH, .required = true}};
static const opf_attr_def scan_attrs[] = {{.name = "body", .type = OPF_ATTR_GRAPH, .required = true},
                                          {.name = "num_scan_inputs", .type = OPF_ATTR_INT, .required = true},
                                          {.name = "scan_input_axes", .type = OPF_ATTR_INTS},
                                          {.name = "scan_input_directions", .type = OPF_ATTR_INTS},
                                          {.name = "scan_output_axes", .type = OPF_ATTR_INTS},
                                          {.name = "scan_output_directions", .type = OPF_ATTR_INTS}};

static opf_status lower_scan_9(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    const opf_node *node = opf_graph_node(graph, id);
    return opf_fail(error, OPF_UNSUPPORTED, "%s (%s): a Scan without a batch dimension needs an opset above %d", node->name,
                    node->op_type, (int)opset);
}

static const opf_import_row scan_rows[] = {{9, opf_lift_scan_batches, lower_scan_9}, {11, opf_import_same, lower_scan_11}};

const opf_op opf_op_If = {.name      = "If",
                          .domain    = "",
                          .since     = 1,
                          .inputs    = if_inputs,
                          .n_inputs  = OPF_COUNT(if_inputs),
                          .outputs   = if_outputs,
                          .n_outputs = OPF_COUNT(if_outputs),
                          .attrs     = if_attrs,
                          .n_attrs   = OPF_COUNT(if_attrs),
                          .infer     = infer_if};

const opf_op opf_op_Loop = {.name      = "Loop",
                            .domain    = "",
                            .since     = 1,
                            .inputs    = loop_inputs,
                            .n_inputs  = OPF_COUNT(loop_inputs),
                            .outputs   = loop_outputs,
                            .n_outputs = OPF_COUNT(loop_outputs),
                            .attrs     = loop_attrs,
                            .n_attrs   = OPF_COUNT(loop_attrs),
                            .infer     = infer_loop};

const opf_op opf_op_Scan = {.name      = "Scan",
                            .domain    = "",
                            .since     = 8,
                            .inputs    = scan_inputs,
                            .n_inputs  = OPF_COUNT(scan_inputs),
                            .outputs   = scan_outputs,
                            .n_outputs = OPF_COUNT(scan_outputs),
                            .attrs     = scan_attrs,
                            .n_attrs   = OPF_COUNT(scan_attrs),
                            .rows      = scan_rows,
                            .n_rows    = OPF_COUNT(scan_rows),
                            .infer     = infer_scan};
