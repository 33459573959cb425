/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RotaryEmbedding of ONNX in the form that fusion has (ops/rotary.h): angles of the positions are looked up once for
 * all layers, and broadcast over heads that have an axis of their own. So one kernel turns, and attention can take it
 * in. Exact where batches and lengths of the angles are proven to be those of what is turned, since 1 would broadcast.
 */
#include "ops/infer.h"
#include "simplify/passes.h"

enum { X, COS, SIN, POSITIONS };

typedef struct rotary {
    opf_value_id inputs[4]; /* positions 0: absent */
    bool is_joined;         /* [batch, length, heads * size], else [batch, heads, length, size] */
    int64_t heads, size;    /* heads: where they are joined */
    int64_t half;           /* pairs of a head */
} rotary;

static const opf_info *info_of(const opf_graph *graph, opf_value_id value)
{
    return &opf_graph_value(graph, value)->info;
}

/* Its first dimensions are batch and length of what is turned. */
static bool has_lines(const opf_info *info, const opf_info *x, bool is_joined)
{
    return opf_dim_equal(info->dims[0], x->dims[0]) && opf_dim_equal(info->dims[1], x->dims[is_joined ? 1 : 2]);
}

static bool has_angles(const opf_graph *graph, const rotary *r, uint32_t i)
{
    const opf_info *x = info_of(graph, r->inputs[X]), *table = info_of(graph, r->inputs[i]);
    const int32_t rank = r->inputs[POSITIONS] != 0 ? 2 : 3;
    return table->rank == rank && opf_dim_is(table->dims[rank - 1], r->half) &&
           (rank == 2 || has_lines(table, x, r->is_joined));
}

static bool find(const opf_graph *graph, const opf_node *node, rotary *r)
{
    if (node->op != &opf_op_RotaryEmbedding || opf_node_int(node, "broadcast", 0) != 0)
        return false;
    for (uint32_t i = X; i <= POSITIONS; i++)
        r->inputs[i] = opf_simplify_input(node, i);
    const opf_info *x = info_of(graph, r->inputs[X]);
    const int64_t rotated = opf_node_int(node, "rotary_embedding_dim", 0);
    if (x->type != OPF_FLOAT || x->rank < 3 || x->rank > 4 || !opf_dim_is_number(x->dims[x->rank - 1]))
        return false;
    r->is_joined = x->rank == 3;
    r->heads = r->is_joined ? opf_node_int(node, "num_heads", 0) : 1;
    r->size = r->heads > 0 ? x->dims[x->rank - 1].n / r->heads : 0;
    r->half = (rotated != 0 ? rotated : r->size) / 2;
    if (r->half < 1 || !has_angles(graph, r, COS) || !has_angles(graph, r, SIN))
        return false;
    const opf_info *positions = r->inputs[POSITIONS] != 0 ? info_of(graph, r->inputs[POSITIONS]) : NULL;
    return positions == NULL || (positions->rank == 2 && has_lines(positions, x, r->is_joined));
}

/* A new node of the origin's, on *x and numbers or another value; *x becomes its result. */
static opf_status add(opf_graph *graph, opf_node_id origin, const opf_op *op, opf_value_id *x, opf_value_id with,
                      opf_error *error)
{
    const opf_value_id inputs[] = {*x, with}, result = opf_graph_add_value(graph, NULL);
    const opf_node_id node =
        with != 0 && result != 0 ? opf_graph_add_node(graph, op, op->name, NULL, inputs, 2, &result, 1) : 0;
    OPF_OOM_IF(error, node == 0 || !opf_node_join_origin(graph, node, origin));
    *x = result;
    return opf_infer_update(graph, node, error);
}

static opf_value_id ints(opf_graph *graph, const int64_t *list, int32_t n)
{
    const opf_const *c = opf_const_ints(graph->consts, list, n);
    return c != NULL ? opf_graph_add_constant(graph, NULL, c) : 0;
}

/* Rows of the positions, then an axis for heads. */
static opf_status spread_angles(opf_graph *graph, opf_node_id id, rotary *r, uint32_t i, opf_error *error)
{
    if (r->inputs[POSITIONS] != 0)
        OPF_TRY(add(graph, id, &opf_op_Gather, &r->inputs[i], r->inputs[POSITIONS], error));
    const int64_t axis = r->is_joined ? 2 : 1;
    return add(graph, id, &opf_op_Unsqueeze, &r->inputs[i], ints(graph, &axis, 1), error);
}

static opf_status apply(opf_graph *graph, opf_node_id id, rotary *r, opf_error *error)
{
    const int64_t apart[] = {0, 0, r->heads, r->size}, together[] = {0, 0, r->heads * r->size};
    const opf_value_id result = opf_graph_node(graph, id)->outputs[0];
    OPF_TRY(spread_angles(graph, id, r, COS, error));
    OPF_TRY(spread_angles(graph, id, r, SIN, error));
    if (r->is_joined)
        OPF_TRY(add(graph, id, &opf_op_Reshape, &r->inputs[X], ints(graph, apart, 4), error));
    OPF_OOM_IF(error,
               !opf_graph_set_own_inputs(graph, id, r->inputs, 3) || !opf_node_set_int(graph, id, "broadcast", 1));
    opf_node_remove_attr(opf_graph_node(graph, id), "num_heads");
    if (!r->is_joined)
        return OPF_OK;
    const opf_value_id turned = opf_graph_add_value(graph, NULL), target = ints(graph, together, 3);
    OPF_OOM_IF(error, turned == 0 || target == 0 || !opf_graph_set_output(graph, id, 0, turned));
    OPF_TRY(opf_infer_update(graph, id, error));
    const opf_node_id join = opf_graph_add_node(graph, &opf_op_Reshape, opf_op_Reshape.name, NULL,
                                                (const opf_value_id[]){turned, target}, 2, &result, 1);
    OPF_OOM_IF(error, join == 0 || !opf_node_join_origin(graph, join, id));
    return OPF_OK;
}

opf_status opf_simplify_rotary(opf_graph *graph, bool *changed, opf_error *error)
{
    const opf_node_id n = graph->n_nodes;
    for (opf_node_id id = 1; id < n; id++) {
        rotary r;
        if (!opf_simplify_is_plain(opf_graph_node(graph, id)) || !find(graph, opf_graph_node(graph, id), &r))
            continue;
        OPF_TRY(apply(graph, id, &r, error));
        *changed = true;
    }
    return OPF_OK;
}
