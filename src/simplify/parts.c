/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is cut up and joined again. A part of a value is a range along one axis, from a Split or a Slice of step 1;
 * ranges are symbolic. Neighbours that a Concat joins are one part, and all of them are the value; a part of a Concat
 * that lies in one operand is a part of that operand. A Concat of a Concat on the same axis is one.
 */
#include "simplify/slices.h"

#include "ops/infer.h"

#include <string.h>

static opf_dim size_of(const opf_graph *graph, opf_value_id value, int32_t axis)
{
    return opf_graph_value(graph, value)->info.dims[axis];
}

static bool has_axis(const opf_graph *graph, opf_value_id value, int32_t axis)
{
    return value != 0 && opf_graph_value(graph, value)->info.rank > axis;
}

/* The part that the value is along the axis, of neighbours. */
static bool find_part(const opf_graph *graph, opf_value_id value, int32_t axis, opf_part *p)
{
    return opf_find_part(graph, value, axis, p) && p->step == 1;
}

/* ---- Concat ---- */

typedef struct operands {
    opf_value_id *list;
    uint32_t n, capacity;
} operands;

/* The operands of the node, and of Concats among them that nobody else reads. */
static bool flatten(opf_graph *graph, opf_arena *scratch, opf_node_id id, int32_t axis, operands *flat)
{
    for (uint32_t i = 0; i < opf_graph_node(graph, id)->n_own_inputs; i++) {
        const opf_value_id value = opf_graph_node(graph, id)->inputs[i];
        const opf_node_id producer = opf_graph_value(graph, value)->producer;
        const opf_node *inner = opf_graph_node(graph, producer);
        const bool joins = producer != 0 && opf_simplify_is_plain(inner) && inner->op == &opf_op_Concat &&
                           opf_joined_axis(graph, inner) == axis && opf_graph_single_use(graph, value) != NULL;
        if (joins && !opf_node_join_origin(graph, id, producer))
            return false;
        for (uint32_t k = 0; k < (joins ? inner->n_own_inputs : 1); k++)
            if (!OPF_PUSH(scratch, flat->list, flat->n, flat->capacity, joins ? inner->inputs[k] : value))
                return false;
    }
    return true;
}

/* A bound of a Slice: numbers as they are, others counted from the end. */
static bool to_bound(const opf_graph *graph, opf_dim d, opf_dim at, int64_t *bound)
{
    const opf_dim before_end = opf_dim_sub(graph->dims, at, d);
    *bound = opf_dim_is_number(at) ? at.n : before_end.n != 0 ? before_end.n : OPF_SLICE_LAST;
    return opf_dim_is_number(at) || opf_dim_is_number(before_end);
}

/* The value that is this part of its base; 0: no bounds can tell, or *failed. */
static opf_value_id make_part(opf_graph *graph, opf_part p, int32_t axis, opf_node_id origin, bool *failed,
                              opf_error *error)
{
    const opf_dim d = size_of(graph, p.base, axis);
    opf_slice s = {.n = 1, .axes = {axis}, .bounds = {{.step = 1}}};
    if (opf_dim_is(p.from, 0) && opf_dim_equal(p.to, d))
        return p.base;
    if (!to_bound(graph, d, p.from, &s.bounds[0].start) || !to_bound(graph, d, p.to, &s.bounds[0].end) ||
        (s.bounds[0].start == OPF_SLICE_LAST))
        return 0;
    const opf_value_id result = opf_graph_add_value(graph, NULL);
    const opf_node_id node =
        result != 0 ? opf_graph_add_node(graph, &opf_op_Slice, opf_op_Slice.name, NULL, &p.base, 1, &result, 1) : 0;
    *failed = node == 0 || !opf_node_join_origin(graph, node, origin) || !opf_slice_write(graph, node, &s) ||
              opf_infer_update(graph, node, error) != OPF_OK;
    return *failed ? 0 : result;
}

/* Joins neighbours among the operands: as many as go from [i, end) are one. */
static uint32_t run_of(const opf_graph *graph, const operands *flat, uint32_t i, int32_t axis, opf_part *whole)
{
    opf_part next;
    uint32_t end = i;
    if (!find_part(graph, flat->list[i], axis, whole))
        return i + 1;
    for (end = i + 1; end < flat->n && find_part(graph, flat->list[end], axis, &next) && next.base == whole->base &&
                      opf_dim_equal(next.from, whole->to);
         end++)
        whole->to = next.to;
    return end;
}

static opf_status join(opf_graph *graph, opf_arena *scratch, opf_node_id id, bool *changed, opf_error *error)
{
    const int32_t axis = opf_joined_axis(graph, opf_graph_node(graph, id));
    operands flat = {0};
    uint32_t n = 0;
    if (axis < 0)
        return OPF_OK;
    OPF_OOM_IF(error, !flatten(graph, scratch, id, axis, &flat));
    for (uint32_t i = 0, end; i < flat.n; i = end) {
        opf_part whole;
        bool failed = false;
        end = run_of(graph, &flat, i, axis, &whole);
        const opf_value_id joined = end > i + 1 ? make_part(graph, whole, axis, id, &failed, error) : 0;
        if (failed)
            return OPF_OUT_OF_MEMORY;
        for (uint32_t k = i; joined != 0 && joined != whole.base && k < end; k++)
            OPF_OOM_IF(error, !opf_node_join_origin(graph, opf_graph_value(graph, joined)->producer,
                                                    opf_graph_value(graph, flat.list[k])->producer));
        if (joined != 0)
            flat.list[n++] = joined;
        for (uint32_t k = i; joined == 0 && k < end; k++)
            flat.list[n++] = flat.list[k];
    }
    const opf_node *node = opf_graph_node(graph, id);
    if (n == node->n_own_inputs && memcmp(flat.list, node->inputs, n * sizeof *flat.list) == 0)
        return OPF_OK;
    *changed = true;
    OPF_OOM_IF(error, !opf_graph_set_own_inputs(graph, id, flat.list, n));
    return OPF_OK;
}

static opf_status merge_concat(opf_graph *graph, opf_node_id id, bool *changed, opf_error *error)
{
    opf_arena scratch;
    opf_arena_init(&scratch, graph->arena->heap);
    const opf_status status = join(graph, &scratch, id, changed, error);
    opf_arena_fini(&scratch);
    return status;
}

/* ---- parts of a Concat ---- */

/* The operand of the Concat that holds the part, which is then counted from its beginning; 0: there is none. */
static opf_value_id operand_with(const opf_graph *graph, const opf_node *concat, int32_t axis, opf_part *p)
{
    opf_dim at = {0};
    for (uint32_t i = 0; i < concat->n_own_inputs && has_axis(graph, concat->inputs[i], axis); i++) {
        const opf_dim from = opf_dim_sub(graph->dims, p->from, at), to = opf_dim_sub(graph->dims, p->to, at);
        const opf_dim size = size_of(graph, concat->inputs[i], axis);
        if (opf_dim_at_least(graph->dims, from, 0) &&
            opf_dim_at_least(graph->dims, opf_dim_sub(graph->dims, size, to), 0)) {
            *p = (opf_part){concat->inputs[i], from, to, 1};
            return concat->inputs[i];
        }
        at = opf_dim_add(graph->dims, at, size);
    }
    return 0;
}

static opf_status take_from_operand(opf_graph *graph, opf_node_id id, uint32_t output, bool *changed, opf_error *error)
{
    const opf_node *node = opf_graph_node(graph, id);
    const opf_node_id producer = opf_graph_value(graph, node->inputs[0])->producer;
    const opf_node *concat = opf_graph_node(graph, producer);
    const opf_value_id value = node->outputs[output];
    opf_part p;
    bool failed = false;
    if (producer == 0 || !opf_simplify_is_plain(concat) || concat->op != &opf_op_Concat || value == 0 ||
        opf_graph_value(graph, value)->n_uses == 0)
        return OPF_OK;
    const int32_t axis = opf_joined_axis(graph, concat);
    if (axis < 0 || !find_part(graph, value, axis, &p) || operand_with(graph, concat, axis, &p) == 0)
        return OPF_OK;
    const opf_value_id taken = make_part(graph, p, axis, id, &failed, error);
    if (failed)
        return OPF_OUT_OF_MEMORY;
    *changed |= taken != 0 && opf_graph_replace_uses(graph, value, taken);
    return OPF_OK;
}

/* ---- the pass ---- */

static opf_status merge(opf_graph *graph, opf_node_id id, bool *changed, opf_error *error)
{
    const opf_node *node = opf_graph_node(graph, id);
    if (node->op == &opf_op_Concat && node->outputs[0] != 0)
        return merge_concat(graph, id, changed, error);
    if (node->op == &opf_op_Slice || node->op == &opf_op_Split)
        for (uint32_t i = 0; i < opf_graph_node(graph, id)->n_outputs; i++)
            OPF_TRY(take_from_operand(graph, id, i, changed, error));
    return OPF_OK;
}

opf_status opf_merge_parts(opf_graph *graph, bool *changed, opf_error *error)
{
    return opf_simplify_each(graph, merge, changed, error);
}
