/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An Einsum of one operand is a ReduceSum of the labels that the result lacks, then a Transpose. A diagonal is neither.
 */
#include "simplify/einsum.h"

#include "ops/infer.h"

typedef struct reduction {
    int64_t axes[OPF_MAX_RANK], perm[OPF_MAX_RANK];
    int32_t n_axes, n_kept;
    bool turns;
} reduction;

static void find(const opf_einsum_equation *e, reduction *r)
{
    *r = (reduction){0};
    for (int32_t i = 0; i < e->in[0].n; i++) {
        const int32_t to = opf_einsum_place(&e->out, e->in[0].labels[i]);
        if (to < 0) {
            r->axes[r->n_axes++] = i;
            continue;
        }
        r->turns = r->turns || to != r->n_kept;
        r->perm[to] = r->n_kept++;
    }
}

static void become(opf_graph *graph, opf_node_id id, const opf_op *op)
{
    opf_node *node = opf_graph_node(graph, id);
    node->op = op;
    node->op_type = op->name;
    node->n_attrs = 0;
}

static bool add_axes(opf_graph *graph, opf_node_id id, const reduction *r)
{
    const opf_const *c = opf_const_ints(graph->consts, r->axes, r->n_axes);
    const opf_value_id axes = c != NULL ? opf_graph_add_constant(graph, NULL, c) : 0;
    return axes != 0 && opf_graph_append_input(graph, id, axes) && opf_node_set_int(graph, id, "keepdims", 0);
}

/* A Transpose of its own makes what the node made; the node gives a value to it; 0: memory is out. */
static opf_node_id add_transpose(opf_graph *graph, opf_node_id id)
{
    const opf_value_id result = opf_graph_node(graph, id)->outputs[0], between = opf_graph_add_value(graph, NULL);
    if (between == 0 || !opf_graph_set_output(graph, id, 0, between))
        return 0;
    const opf_node_id turn =
        opf_graph_add_node(graph, &opf_op_Transpose, opf_op_Transpose.name, NULL, &between, 1, &result, 1);
    return turn != 0 && opf_node_join_origin(graph, turn, id) ? turn : 0;
}

static opf_status apply(opf_graph *graph, opf_node_id id, const reduction *r, opf_error *error)
{
    opf_node_id turn = r->turns ? id : 0;
    if (r->n_axes != 0) {
        become(graph, id, &opf_op_ReduceSum);
        OPF_OOM_IF(error, !add_axes(graph, id, r));
        if (r->turns) {
            turn = add_transpose(graph, id);
            OPF_OOM_IF(error, turn == 0);
            OPF_TRY(opf_infer_update(graph, id, error));
        }
    } else {
        become(graph, id, r->turns ? &opf_op_Transpose : &opf_op_Identity);
    }
    OPF_OOM_IF(error, turn != 0 && !opf_node_set_ints(graph, turn, "perm", r->perm, (uint32_t)r->n_kept));
    return OPF_OK;
}

opf_status opf_einsum_to_sum(opf_einsum_task *task, bool asks, bool *done, opf_error *error)
{
    reduction r;
    *done = false;
    task->obstacle = OPF_EINSUM_DIAGONAL;
    if (opf_einsum_is_diagonal(&task->equation.in[0]))
        return OPF_OK;
    find(&task->equation, &r);
    task->obstacle = OPF_EINSUM_TYPE;
    if (r.n_axes != 0 && !opf_types_have(opf_op_ReduceSum.inputs[0].types, task->type))
        return OPF_OK;
    *done = true;
    return asks ? OPF_OK : apply(task->graph, task->id, &r, error);
}
