/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An Einsum of two operands is a MatMul between data movements, or without a sum a Mul. Labels of both operands and the
 * result are batches, of one and the result rows or columns, of both but not the result the depth that is summed. So
 * what reads and makes it fuses as it does with any product. Exact where each operand has a label once and the sizes of
 * a label are proven equal, since 1 would broadcast.
 */
#include "simplify/einsum.h"
#include "simplify/passes.h"

#include <string.h>

typedef struct label_list {
    int32_t n;
    int32_t labels[OPF_MAX_RANK];
} label_list;

typedef struct contraction {
    opf_value_id operands[2];
    opf_einsum_term in[2], out;
    label_list batch, rows, columns, depth;
    opf_dim dims[OPF_EINSUM_LABELS];
} contraction;

/* What an operand or the result goes through: a Transpose, then a Reshape for an operand, in reverse for the result. */
typedef struct movement {
    int32_t rank, merged_rank;
    int64_t perm[OPF_MAX_RANK], target[OPF_MAX_RANK];
    opf_dim dims[OPF_MAX_RANK], merged[OPF_MAX_RANK]; /* behind the Transpose; on the product's side of the Reshape */
    bool turns, reshapes;
} movement;

/* ---- labels ---- */

static bool add_label(label_list *list, int32_t label)
{
    if (list->n >= OPF_MAX_RANK)
        return false;
    list->labels[list->n++] = label;
    return true;
}

static bool join(label_list *list, const label_list *more)
{
    for (int32_t i = 0; i < more->n; i++)
        if (!add_label(list, more->labels[i]))
            return false;
    return true;
}

/* Labels have sizes that agree with those of the other operand. */
static bool read_operand(const opf_graph *graph, contraction *c, uint32_t operand)
{
    const opf_einsum_term *term = &c->in[operand];
    const opf_info *info = &opf_graph_value(graph, c->operands[operand])->info;
    for (int32_t i = 0; i < term->n; i++) {
        const int32_t label = term->labels[i];
        if (operand == 1 && opf_einsum_has(&c->in[0], label) && !opf_dim_equal(c->dims[label], info->dims[i]))
            return false;
        c->dims[label] = info->dims[i];
    }
    return true;
}

/* Labels that are summed in one operand alone are no part of a product. */
static bool sort_labels(contraction *c)
{
    for (int32_t i = 0; i < c->out.n; i++) {
        const int32_t label = c->out.labels[i];
        const bool a = opf_einsum_has(&c->in[0], label), b = opf_einsum_has(&c->in[1], label);
        if (!add_label(a && b ? &c->batch : a ? &c->rows : &c->columns, label))
            return false;
    }
    for (int32_t i = 0; i < c->in[0].n; i++)
        if (!opf_einsum_has(&c->out, c->in[0].labels[i]) &&
            (!opf_einsum_has(&c->in[1], c->in[0].labels[i]) || !add_label(&c->depth, c->in[0].labels[i])))
            return false;
    for (int32_t i = 0; i < c->in[1].n; i++)
        if (!opf_einsum_has(&c->out, c->in[1].labels[i]) && !opf_einsum_has(&c->in[0], c->in[1].labels[i]))
            return false;
    return true;
}

/* A label of the result that this operand alone has. */
static bool is_free(const opf_einsum_equation *e, uint32_t operand, int32_t label)
{
    return opf_einsum_has(&e->in[operand], label) && !opf_einsum_has(&e->in[1 - operand], label);
}

/* The operand whose label is the last of the result goes right, where columns are; a vector stays there. */
static bool is_swapped(const opf_einsum_equation *e)
{
    if (e->out.n == 0 || !is_free(e, 0, e->out.labels[e->out.n - 1]))
        return false;
    for (int32_t i = 0; i < e->out.n; i++)
        if (is_free(e, 1, e->out.labels[i]))
            return true;
    return false;
}

static bool refuse(opf_einsum_task *task, opf_einsum_obstacle obstacle)
{
    task->obstacle = obstacle;
    return false;
}

static bool find(opf_einsum_task *task, contraction *c)
{
    const opf_einsum_equation *e = &task->equation;
    const opf_node *node = opf_graph_node(task->graph, task->id);
    const uint32_t left = is_swapped(e) ? 1 : 0;
    memset(c, 0, sizeof *c);
    c->out = e->out;
    if (!opf_types_have(opf_op_MatMul.inputs[0].types, task->type))
        return refuse(task, OPF_EINSUM_TYPE);
    for (uint32_t i = 0; i < 2; i++) {
        c->operands[i] = node->inputs[i ^ left];
        c->in[i] = e->in[i ^ left];
        if (opf_einsum_is_diagonal(&c->in[i]))
            return refuse(task, OPF_EINSUM_DIAGONAL);
        if (!read_operand(task->graph, c, i))
            return refuse(task, OPF_EINSUM_SHAPE_UNKNOWN);
    }
    if (!sort_labels(c))
        return refuse(task, OPF_EINSUM_SUM_FIRST);
    return c->batch.n + 2 <= OPF_MAX_RANK || refuse(task, OPF_EINSUM_LIMIT); /* rows and columns besides */
}

/* ---- movements ---- */

/* The term's axes in the order of the labels. */
static void turn(const contraction *c, const opf_einsum_term *term, const label_list *order, movement *m)
{
    m->rank = order->n;
    m->turns = false;
    for (int32_t i = 0; i < order->n; i++) {
        m->perm[i] = opf_einsum_place(term, order->labels[i]);
        m->dims[i] = c->dims[order->labels[i]];
        m->turns = m->turns || m->perm[i] != i;
    }
}

static void keep_axes(const contraction *c, const label_list *list, movement *m)
{
    for (int32_t i = 0; i < list->n; i++)
        m->merged[m->merged_rank++] = c->dims[list->labels[i]];
}

static void merge_axes(const opf_graph *graph, const contraction *c, const label_list *list, movement *m)
{
    opf_dim product = opf_dim_number(1);
    for (int32_t i = 0; i < list->n; i++)
        product = opf_dim_mul(graph->dims, product, c->dims[list->labels[i]]);
    m->merged[m->merged_rank++] = product;
}

/* The target between dims and merged. */
static bool set_target(movement *m, bool merges)
{
    const opf_info dims = {.rank = m->rank, .dims = m->dims}, merged = {.rank = m->merged_rank, .dims = m->merged};
    m->reshapes = !opf_simplify_same_shape(&dims, &merged);
    return !m->reshapes ||
           (merges ? opf_simplify_target(&dims, &merged, m->target) : opf_simplify_target(&merged, &dims, m->target));
}

/* Without batches, rows stay the axes that they are and a vector stays one. */
static bool plan_operand(const opf_graph *graph, const contraction *c, uint32_t operand, movement *m)
{
    const label_list *const middle = operand == 0 ? &c->rows : &c->depth, *const last =
                                                                              operand == 0 ? &c->depth : &c->columns;
    label_list order = c->batch;
    *m = (movement){0};
    if (!join(&order, middle) || !join(&order, last))
        return false;
    turn(c, &c->in[operand], &order, m);
    keep_axes(c, &c->batch, m);
    if (operand == 0 && c->batch.n == 0)
        keep_axes(c, middle, m);
    else
        merge_axes(graph, c, middle, m);
    if (operand == 0 || c->batch.n != 0 || c->columns.n != 0)
        merge_axes(graph, c, last, m);
    return set_target(m, true);
}

static bool plan_result(const opf_graph *graph, const contraction *c, movement *m)
{
    label_list order = c->batch;
    *m = (movement){0};
    if (!join(&order, &c->rows) || !join(&order, &c->columns))
        return false;
    m->rank = order.n;
    for (int32_t i = 0; i < order.n; i++) {
        m->dims[i] = c->dims[order.labels[i]];
        for (int32_t k = 0; k < order.n; k++)
            if (c->out.labels[i] == order.labels[k])
                m->perm[i] = k;
        m->turns = m->turns || m->perm[i] != i;
    }
    keep_axes(c, &c->batch, m);
    if (c->batch.n == 0)
        keep_axes(c, &c->rows, m);
    else
        merge_axes(graph, c, &c->rows, m);
    if (c->batch.n != 0 || c->columns.n != 0)
        merge_axes(graph, c, &c->columns, m);
    return set_target(m, false);
}

/* An operand of a Mul: axes in the order of the result, 1 where it has none. */
static bool plan_factor(const contraction *c, uint32_t operand, movement *m)
{
    label_list order = {0};
    *m = (movement){0};
    for (int32_t i = 0; i < c->out.n; i++) {
        const bool has = opf_einsum_has(&c->in[operand], c->out.labels[i]);
        if (has && !add_label(&order, c->out.labels[i]))
            return false;
        m->merged[m->merged_rank++] = has ? c->dims[c->out.labels[i]] : opf_dim_number(1);
    }
    turn(c, &c->in[operand], &order, m);
    return set_target(m, true);
}

/* ---- nodes ---- */

/* A value of these dimensions and the type of `like`. */
static opf_value_id add_value(opf_graph *graph, opf_value_id like, int32_t rank, const opf_dim *dims)
{
    const opf_value_id value = opf_graph_add_value(graph, NULL);
    opf_dim *own = OPF_NEW(graph->arena, opf_dim, rank + 1);
    if (value == 0 || own == NULL)
        return 0;
    memcpy(own, dims, (size_t)rank * sizeof *own);
    opf_info *info = &opf_graph_value(graph, value)->info;
    *info = opf_graph_value(graph, like)->info;
    info->rank = rank;
    info->dims = own;
    info->n_values = -1;
    return value;
}

static bool add_transpose(opf_graph *graph, opf_node_id id, const movement *m, opf_value_id from, opf_value_id to)
{
    const opf_node_id node =
        opf_graph_add_node(graph, &opf_op_Transpose, opf_op_Transpose.name, NULL, &from, 1, &to, 1);
    return node != 0 && opf_node_set_ints(graph, node, "perm", m->perm, (uint32_t)m->rank) &&
           opf_node_join_origin(graph, node, id);
}

static bool add_reshape(opf_graph *graph, opf_node_id id, const int64_t *target, int32_t rank, opf_value_id from,
                        opf_value_id to)
{
    const opf_const *shape = opf_const_ints(graph->consts, target, rank);
    const opf_value_id inputs[] = {from, shape != NULL ? opf_graph_add_constant(graph, NULL, shape) : 0};
    const opf_node_id node =
        inputs[1] != 0 ? opf_graph_add_node(graph, &opf_op_Reshape, opf_op_Reshape.name, NULL, inputs, 2, &to, 1) : 0;
    return node != 0 && opf_node_join_origin(graph, node, id);
}

/* The operand as the product reads it; 0: memory is out. */
static opf_value_id move_operand(opf_graph *graph, opf_node_id id, opf_value_id value, const movement *m)
{
    const opf_value_id turned = m->turns ? add_value(graph, value, m->rank, m->dims) : value;
    if (turned == 0 || (m->turns && !add_transpose(graph, id, m, value, turned)))
        return 0;
    const opf_value_id merged = m->reshapes ? add_value(graph, value, m->merged_rank, m->merged) : turned;
    if (merged == 0 || (m->reshapes && !add_reshape(graph, id, m->target, m->merged_rank, turned, merged)))
        return 0;
    return merged;
}

/* The node makes the product; what follows makes its old result of that. */
static bool move_result(opf_graph *graph, opf_node_id id, const movement *m)
{
    const opf_value_id result = opf_graph_node(graph, id)->outputs[0];
    if (!m->turns && !m->reshapes)
        return true;
    const opf_value_id product = add_value(graph, result, m->merged_rank, m->merged);
    if (product == 0 || !opf_graph_set_output(graph, id, 0, product))
        return false;
    if (!m->turns)
        return add_reshape(graph, id, m->target, m->rank, product, result);
    const opf_value_id split = m->reshapes ? add_value(graph, result, m->rank, m->dims) : product;
    return split != 0 && (!m->reshapes || add_reshape(graph, id, m->target, m->rank, product, split)) &&
           add_transpose(graph, id, m, split, result);
}

static bool apply(opf_graph *graph, opf_node_id id, const opf_op *op, const contraction *c, const movement *moves)
{
    opf_value_id operands[2];
    for (uint32_t i = 0; i < 2; i++) {
        operands[i] = move_operand(graph, id, c->operands[i], &moves[i]);
        if (operands[i] == 0)
            return false;
    }
    opf_node *node = opf_graph_node(graph, id);
    node->op = op;
    node->op_type = op->name;
    node->n_attrs = 0;
    return opf_graph_set_own_inputs(graph, id, operands, 2) && move_result(graph, id, &moves[2]);
}

opf_status opf_einsum_to_product(opf_einsum_task *task, bool asks, bool *done, opf_error *error)
{
    const opf_graph *graph = task->graph;
    contraction c;
    movement moves[3] = {0};
    *done = false;
    if (!find(task, &c))
        return OPF_OK;
    const bool sums = c.depth.n != 0;
    *done = sums ? plan_operand(graph, &c, 0, &moves[0]) && plan_operand(graph, &c, 1, &moves[1]) &&
                       plan_result(graph, &c, &moves[2])
                 : plan_factor(&c, 0, &moves[0]) && plan_factor(&c, 1, &moves[1]);
    if (!*done)
        task->obstacle = OPF_EINSUM_TARGET;
    else if (!asks)
        OPF_OOM_IF(error, !apply(task->graph, task->id, sums ? &opf_op_MatMul : &opf_op_Mul, &c, moves));
    return OPF_OK;
}
