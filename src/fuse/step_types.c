/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Types of steps. Kernels compute steps in float; a value that is quantised and at once dequantised again stays float,
 * and so does one whose NaN are replaced, so those pairs are steps of any of them. What no fast kernel computes anyway,
 * since its type is another, runs operator by operator: there a step may convert as it likes.
 */
#include "fuse/absorb_steps.h"
#include "ops/instruction.h"

enum { SCALE = 1, ZERO = 2 };

static bool is_conversion(const opf_node *node)
{
    return node->op == &opf_op_Cast || node->op == &opf_op_QuantizeLinear || node->op == &opf_op_DequantizeLinear;
}

static opf_type type_of(const opf_graph *graph, opf_value_id value)
{
    return opf_graph_value(graph, value)->info.type;
}

/* ---- quantised and dequantised again ---- */

/* By one number each: a float scale, and a zero point, 0 if there is none. */
static bool get_numbers(const opf_graph *graph, const opf_node *node, double *scale, double *zero)
{
    *zero = 0;
    return node->n_inputs > SCALE && node->inputs[SCALE] != 0 && opf_graph_scalar(graph, node->inputs[SCALE], scale) &&
           type_of(graph, node->inputs[SCALE]) == OPF_FLOAT &&
           (node->n_inputs <= ZERO || node->inputs[ZERO] == 0 || opf_graph_scalar(graph, node->inputs[ZERO], zero)) &&
           opf_node_int(node, "block_size", 0) == 0 && opf_node_int(node, "precision", 0) == 0;
}

static bool is_pair(const opf_graph *graph, const opf_node *quantize, const opf_node *dequantize)
{
    const opf_types levels =
        OPF_TYPE_BIT(OPF_UINT8) | OPF_TYPE_BIT(OPF_INT8) | OPF_TYPE_BIT(OPF_UINT16) | OPF_TYPE_BIT(OPF_INT16);
    double scale[2], zero[2];
    return quantize->op == &opf_op_QuantizeLinear && dequantize->op == &opf_op_DequantizeLinear &&
           type_of(graph, quantize->inputs[0]) == OPF_FLOAT && type_of(graph, dequantize->outputs[0]) == OPF_FLOAT &&
           opf_types_have(levels, type_of(graph, quantize->outputs[0])) &&
           get_numbers(graph, quantize, &scale[0], &zero[0]) && get_numbers(graph, dequantize, &scale[1], &zero[1]) &&
           scale[0] == scale[1] && zero[0] == zero[1];
}

/* ---- NaN that become a number ---- */

/* The Where that alone reads the IsNaN, and puts a number in the place of what is NaN. */
static opf_node_id replacing_where(const opf_graph *graph, const opf_node *is_nan)
{
    const opf_use *use = opf_graph_single_use(graph, is_nan->outputs[0]);
    const opf_node *where = use != NULL ? opf_graph_node(graph, use->node) : NULL;
    double number;
    if (where == NULL || where->op != &opf_op_Where || where->prologue.n != 0 || where->epilogue.n != 0 ||
        use->input != 0 || where->inputs[2] != is_nan->inputs[0] || where->outputs[0] == 0 ||
        !opf_graph_scalar(graph, where->inputs[1], &number))
        return 0;
    const int32_t rank = opf_graph_value(graph, where->inputs[1])->info.rank;
    return rank <= opf_graph_value(graph, where->inputs[2])->info.rank ? use->node : 0;
}

static opf_node_id other_of_nan(const opf_graph *graph, opf_node_id id)
{
    const opf_node *node = opf_graph_node(graph, id);
    if (node->op == &opf_op_IsNaN)
        return replacing_where(graph, node);
    const opf_node_id producer = opf_graph_value(graph, node->inputs[0])->producer;
    const opf_node *is_nan = opf_graph_node(graph, producer);
    const bool is_plain = producer != 0 && is_nan->op == &opf_op_IsNaN && is_nan->prologue.n == 0;
    return is_plain && replacing_where(graph, is_nan) == id ? producer : 0;
}

opf_node_id opf_steps_other_half(const opf_graph *graph, opf_node_id id)
{
    const opf_node *node = opf_graph_node(graph, id);
    if (!opf_node_is_alive(node) || node->n_outputs == 0 || node->outputs[0] == 0)
        return 0;
    if (node->op == &opf_op_IsNaN || node->op == &opf_op_Where)
        return other_of_nan(graph, id);
    if (node->op == &opf_op_QuantizeLinear) {
        const opf_use *use = opf_graph_single_use(graph, node->outputs[0]);
        return use != NULL && use->node != 0 && use->input == 0 &&
                       is_pair(graph, node, opf_graph_node(graph, use->node))
                   ? use->node
                   : 0;
    }
    const opf_node_id producer =
        node->op == &opf_op_DequantizeLinear ? opf_graph_value(graph, node->inputs[0])->producer : 0;
    return producer != 0 && opf_steps_other_half(graph, producer) == id ? producer : 0;
}

bool opf_steps_is_second(const opf_graph *graph, opf_node_id id)
{
    const opf_node *node = opf_graph_node(graph, id);
    return (node->op == &opf_op_DequantizeLinear || node->op == &opf_op_Where) && opf_steps_other_half(graph, id) != 0;
}

/* ---- levels ---- */

static bool is_one_number(const opf_graph *graph, opf_value_id value)
{
    const opf_info *info = &opf_graph_value(graph, value)->info;
    return info->rank == 0 || (info->rank == 1 && opf_dim_is(info->dims[0], 1));
}

/* Between floats and levels of 8 bits by one number each: elementwise kernels read and store such levels. */
static bool is_level(const opf_graph *graph, opf_node_id id)
{
    const opf_types levels = OPF_TYPE_BIT(OPF_UINT8) | OPF_TYPE_BIT(OPF_INT8);
    const opf_node *node = opf_graph_node(graph, id);
    if (!opf_node_is_alive(node) || node->n_outputs == 0 || node->outputs[0] == 0 ||
        (node->op != &opf_op_QuantizeLinear && node->op != &opf_op_DequantizeLinear))
        return false;
    const bool up = node->op == &opf_op_DequantizeLinear;
    return type_of(graph, up ? node->outputs[0] : node->inputs[0]) == OPF_FLOAT &&
           opf_types_have(levels, type_of(graph, up ? node->inputs[0] : node->outputs[0])) &&
           type_of(graph, node->inputs[SCALE]) == OPF_FLOAT && is_one_number(graph, node->inputs[SCALE]) &&
           (node->n_inputs <= ZERO || node->inputs[ZERO] == 0 || is_one_number(graph, node->inputs[ZERO])) &&
           opf_node_int(node, "block_size", 0) == 0 && opf_node_int(node, "precision", 0) == 0;
}

bool opf_steps_is_conversion(const opf_graph *graph, opf_node_id id)
{
    return opf_steps_other_half(graph, id) != 0 || is_level(graph, id);
}

bool opf_steps_is_last(const opf_graph *graph, opf_node_id id)
{
    return opf_graph_node(graph, id)->op == &opf_op_QuantizeLinear && opf_steps_other_half(graph, id) == 0;
}

/* ---- what may join ---- */

void opf_steps_begin(opf_step_plan *plan)
{
    const opf_graph *graph = plan->context->graph;
    const opf_node *anchor = opf_graph_node(graph, plan->anchor);
    opf_type own = plan->anchor != 0 ? opf_infer_own_type(graph, plan->anchor) : plan->result.type;
    plan->is_free = own != OPF_FLOAT;
    plan->is_any = plan->anchor != 0 && plan->is_free && (anchor->op->traits & OPF_CONTRACTION) != 0;
}

bool opf_steps_may_host(const opf_step_plan *plan)
{
    const opf_graph *graph = plan->context->graph;
    const opf_type type = plan->result.type;
    if (plan->result.rank < 0)
        return false;
    if (plan->is_any)
        return opf_types_have(OPF_TYPES_FLOAT | OPF_TYPE_BIT(OPF_INT32), type);
    return opf_types_have(OPF_TYPES_FLOAT, type) &&
           (plan->anchor == 0 || opf_infer_own_type(graph, plan->anchor) == type);
}

opf_type opf_steps_region_type(const opf_graph *graph, opf_node_id id)
{
    const opf_node *node = opf_graph_node(graph, id);
    const opf_type in = type_of(graph, node->inputs[0]), out = type_of(graph, node->outputs[0]);
    if (node->op == &opf_op_DequantizeLinear)
        return out;
    if (node->op == &opf_op_IsNaN)
        return in;
    const bool leaves = !opf_types_have(OPF_TYPES_FLOAT, out) || (out == OPF_FLOAT && in != OPF_FLOAT);
    return is_conversion(node) && leaves ? in : out;
}

static bool check_conversion(opf_step_plan *plan, opf_node_id id)
{
    const opf_graph *graph = plan->context->graph;
    const opf_node *node = opf_graph_node(graph, id);
    const opf_type in = type_of(graph, node->inputs[0]), out = type_of(graph, node->outputs[0]),
                   own = plan->result.type;
    const opf_node *anchor = opf_graph_node(graph, plan->anchor);
    const bool is_region = (plan->anchor == 0 || anchor->op == &opf_op_Identity) && !plan->is_free;
    if (opf_steps_other_half(graph, id) != 0 || (in == own && out == own) || (is_region && is_level(graph, id)))
        return true;
    if (node->op == &opf_op_Cast && plan->is_any)
        return true;
    if (node->op == &opf_op_Cast && plan->is_free && (in == own || out == own))
        return true;
    return opf_refuse(plan->context, &plan->why, OPF_MISS_DTYPE, id,
                      "%s makes %s of %s: steps of this kernel compute %s only", opf_graph_node(graph, id)->op_type,
                      opf_type_name(out), opf_type_name(in), opf_type_name(own));
}

bool opf_steps_has_kernel(const opf_graph *graph, opf_node_id id)
{
    const opf_node *node = opf_graph_node(graph, id);
    opf_instruction instruction;
    return opf_op_instruction(node->op, node->attrs, node->n_attrs, &instruction);
}

/* Without a kernel of its own, a step would take its host's away. */
static bool check_kernel(opf_step_plan *plan, opf_node_id id)
{
    const opf_node *node = opf_graph_node(plan->context->graph, id);
    return plan->is_free || opf_steps_has_kernel(plan->context->graph, id) ||
           opf_refuse(plan->context, &plan->why, OPF_MISS_NO_KERNEL, id,
                      "no kernel computes %s (%s): with such a step all would run by reference", node->name,
                      node->op_type);
}

bool opf_steps_check_types(opf_step_plan *plan, opf_node_id id)
{
    const opf_graph *graph = plan->context->graph;
    const opf_node *node = opf_graph_node(graph, id);
    if (is_conversion(node))
        return check_conversion(plan, id);
    if (opf_steps_other_half(graph, id) != 0)
        return true;
    if (node->op == &opf_op_IsNaN)
        return opf_refuse(plan->context, &plan->why, OPF_MISS_OP, id,
                          "steps compute Where(IsNaN(x), a number, x) as one, and IsNaN for no other reader");
    const opf_type wanted = plan->is_any && opf_types_have(OPF_TYPES_FLOAT, type_of(graph, node->outputs[0]))
                                ? type_of(graph, node->outputs[0])
                                : plan->result.type;
    for (uint32_t i = 0; i <= node->n_inputs; i++) {
        const opf_value_id value = i < node->n_inputs ? node->inputs[i] : node->outputs[0];
        const opf_type type = value == 0 ? wanted : type_of(graph, value);
        if (type != wanted || !opf_types_have(OPF_TYPES_FLOAT, type))
            return opf_refuse(plan->context, &plan->why, OPF_MISS_DTYPE, id, "%s has elements of type %s, must be %s",
                              opf_graph_value(graph, value)->name, opf_type_name(type), opf_type_name(wanted));
    }
    return check_kernel(plan, id);
}
