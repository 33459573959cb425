/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An Einsum of several operands is a tree of Einsums of two, the cheapest one: all subsets of the operands are costed,
 * smaller ones first. A label that nothing else needs is summed as soon as it can be. In floats that is only when what
 * is still to be multiplied is finite for certain: where the sum crosses zero, infinity times the sum is not the sum of
 * infinities. So a sum over one operand comes before the product if it may, and behind it if it must.
 */
#include "ops/infer.h"
#include "simplify/einsum.h"

#include <math.h>
#include <string.h>

enum { MAX_OPERANDS = 8, MAX_LABELS = 64 };

/* Numbered as they come, so that a set of labels is a mask. Sets of operands are masks too. */
typedef struct chain {
    opf_einsum_task *task;
    uint32_t n_labels, full; /* all operands */
    int8_t number[OPF_EINSUM_LABELS];
    double size[MAX_LABELS];
    uint64_t own[MAX_OPERANDS], out;
    uint32_t finite;                 /* operands without infinities and NaN */
    double cost[1 << MAX_OPERANDS];  /* of making the product of a set; infinite: it cannot be made */
    uint8_t left[1 << MAX_OPERANDS]; /* the part of it that is multiplied by the rest */
} chain;

/* ---- reading ---- */

/* What stands for sizes that are not known: all the same, so that orders which differ in known ones are told apart. */
static const double some_size = 64;

static uint64_t read_term(chain *c, const opf_einsum_term *term, const opf_info *info)
{
    uint64_t set = 0;
    for (int32_t i = 0; i < term->n; i++) {
        int8_t *number = &c->number[term->labels[i]];
        if (*number < 0) {
            if (c->n_labels == MAX_LABELS)
                return 0;
            *number = (int8_t)c->n_labels++;
        }
        if (info != NULL) {
            const double size = opf_dim_is_number(info->dims[i]) ? (double)info->dims[i].n : some_size;
            c->size[*number] = fmax(c->size[*number], size);
        }
        set |= (uint64_t)1 << *number;
    }
    return set;
}

/* Seen without arithmetic: what a recipe computes may overflow. */
static bool is_finite(const opf_const *c)
{
    if (c->kind == OPF_CONST_SCALE || c->kind == OPF_CONST_ADD || c->kind == OPF_CONST_CAST)
        return false;
    for (uint32_t i = 0; i < c->n_args; i++)
        if (!is_finite(c->args[i]))
            return false;
    const size_t n = c->n_args != 0 ? 0 : c->kind == OPF_CONST_SPLAT ? 1 : c->count;
    for (size_t i = 0; i < n; i++)
        if (!isfinite(opf_load_f64(c->type, c->data, i)))
            return false;
    return true;
}

static bool read(chain *c, opf_einsum_task *task)
{
    const opf_node *node = opf_graph_node(task->graph, task->id);
    const opf_einsum_equation *e = &task->equation;
    const bool is_float = opf_types_have(OPF_TYPES_FLOAT, task->type);
    memset(c, 0, sizeof *c);
    memset(c->number, -1, sizeof c->number);
    c->task = task;
    c->full = (1u << e->n_in) - 1;
    for (uint32_t i = 0; i < e->n_in; i++) {
        const opf_value *value = opf_graph_value(task->graph, node->inputs[i]);
        c->own[i] = read_term(c, &e->in[i], &value->info);
        if (c->own[i] == 0 && e->in[i].n != 0)
            return false;
        if (!is_float || (value->constant != NULL && is_finite(value->constant)))
            c->finite |= 1u << i;
    }
    c->out = read_term(c, &e->out, NULL);
    return true;
}

/* ---- costing ---- */

static uint64_t labels_of(const chain *c, uint32_t set)
{
    uint64_t labels = 0;
    for (uint32_t i = 0; i < c->task->equation.n_in; i++)
        if ((set >> i & 1) != 0)
            labels |= c->own[i];
    return labels;
}

static uint64_t labels_needed(const chain *c, uint32_t set)
{
    return labels_of(c, set) & (labels_of(c, c->full & ~set) | c->out);
}

/* The labels of the product of a set: what others do not need is summed, if what others multiply it by is finite. */
static uint64_t labels_left(const chain *c, uint32_t set)
{
    return (c->full & ~set & ~c->finite) == 0 ? labels_needed(c, set) : labels_of(c, set);
}

/* As large as one operand or the result at most. */
static bool is_small(const chain *c, uint64_t labels)
{
    for (uint32_t i = 0; i < c->task->equation.n_in; i++)
        if ((labels & ~c->own[i]) == 0)
            return true;
    return (labels & ~c->out) == 0;
}

static int count(uint64_t labels)
{
    int n = 0;
    for (; labels != 0; labels &= labels - 1)
        n++;
    return n;
}

/* The multiplications of the product of two sets; infinite: one of them alone has a label that is summed, or what waits
   for its sum, or has no label in common, would fill the memory. */
static double cost_of(const chain *c, uint32_t left, uint32_t right)
{
    const uint64_t a = labels_left(c, left), b = labels_left(c, right), y = labels_left(c, left | right);
    double cost = c->cost[left] + c->cost[right], product = 1;
    if (((a | b) & ~y & ~(a & b)) != 0 || count(y) > OPF_MAX_RANK ||
        (((a & b) == 0 || y != labels_needed(c, left | right)) && !is_small(c, y)))
        return (double)INFINITY;
    for (uint32_t i = 0; i < c->n_labels; i++)
        if (((a | b) >> i & 1) != 0)
            product *= c->size[i];
    return cost + product;
}

static uint32_t last_of(uint32_t set)
{
    uint32_t last = 1;
    while ((set & ~(2 * last - 1)) != 0)
        last *= 2;
    return last;
}

/* Of two ways that cost the same, it is the one from left to right. */
static void cost_set(chain *c, uint32_t set)
{
    const uint32_t first = set & ~(set - 1), last = last_of(set);
    if (set == first)
        return;
    c->left[set] = (uint8_t)(set & ~last);
    c->cost[set] = cost_of(c, set & ~last, last);
    for (uint32_t left = (set - 1) & set; left != 0; left = (left - 1) & set) {
        const double cost = (left & first) != 0 ? cost_of(c, left, set & ~left) : (double)INFINITY;
        if (cost < c->cost[set]) {
            c->cost[set] = cost;
            c->left[set] = (uint8_t)left;
        }
    }
}

/* ---- building ---- */

typedef struct product {
    opf_value_id value;
    opf_einsum_term term;
} product;

static uint64_t mask_of(const chain *c, const opf_einsum_term *term)
{
    uint64_t set = 0;
    for (int32_t i = 0; i < term->n; i++)
        set |= (uint64_t)1 << c->number[term->labels[i]];
    return set;
}

static void add_labels(const chain *c, opf_einsum_term *term, const opf_einsum_term *from, uint64_t wanted)
{
    for (int32_t i = 0; i < from->n; i++)
        if ((wanted >> c->number[from->labels[i]] & 1) != 0 && !opf_einsum_has(term, from->labels[i]))
            term->labels[term->n++] = from->labels[i];
}

/* A new Einsum, whose result has the labels of `made->term`. */
static opf_status add_einsum(const chain *c, const product *operands, uint32_t n, product *made, opf_error *error)
{
    opf_graph *graph = c->task->graph;
    const opf_value_id values[] = {operands[0].value, n > 1 ? operands[1].value : 0};
    const opf_einsum_term terms[] = {operands[0].term, operands[n - 1].term};
    made->value = opf_graph_add_value(graph, NULL);
    OPF_OOM_IF(error, made->value == 0);
    const opf_node_id id =
        opf_graph_add_node(graph, &opf_op_Einsum, opf_op_Einsum.name, NULL, values, n, &made->value, 1);
    OPF_OOM_IF(error, id == 0 || !opf_node_join_origin(graph, id, c->task->id) ||
                          !opf_einsum_set(graph, id, values, terms, n, &made->term));
    return opf_infer_update(graph, id, error);
}

/* The first label of the result that the two do not share is of `term`: rows it is, then. */
static bool has_rows(const opf_einsum_term *term, const opf_einsum_term *other, const opf_einsum_term *out)
{
    for (int32_t i = 0; i < out->n; i++) {
        const bool shared = opf_einsum_has(term, out->labels[i]) && opf_einsum_has(other, out->labels[i]);
        if (!shared)
            return opf_einsum_has(term, out->labels[i]);
    }
    return false;
}

/* Labels in the order of a MatMul: batches, rows, columns; of a Mul as the larger operand lies. */
static void order_labels(const chain *c, const product *parts, uint64_t left, opf_einsum_term *term)
{
    const opf_einsum_term *a = &parts[0].term, *b = &parts[1].term;
    const uint64_t in_a = mask_of(c, a), in_b = mask_of(c, b);
    const bool sums = ((in_a | in_b) & ~left) != 0;
    const bool swaps = sums ? has_rows(b, a, &c->task->equation.out) : count(in_b) > count(in_a);
    if (sums)
        add_labels(c, term, a, in_a & in_b & left);
    add_labels(c, term, swaps ? b : a, left);
    add_labels(c, term, swaps ? a : b, left);
}

static opf_status build(const chain *c, uint32_t set, product *made, opf_error *error)
{
    const uint32_t left = c->left[set];
    product parts[2];
    if (left != 0) {
        OPF_TRY(build(c, left, &parts[0], error));
        OPF_TRY(build(c, set & ~left, &parts[1], error));
        made->term = (opf_einsum_term){.ellipsis = -1};
        order_labels(c, parts, labels_left(c, set), &made->term);
        return add_einsum(c, parts, 2, made, error);
    }
    uint32_t i = 0;
    while (set >> i != 1)
        i++;
    *made = (product){opf_graph_node(c->task->graph, c->task->id)->inputs[i], c->task->equation.in[i]};
    if (labels_left(c, set) == c->own[i])
        return OPF_OK;
    parts[0] = *made;
    made->term = (opf_einsum_term){.ellipsis = -1};
    add_labels(c, &made->term, &parts[0].term, labels_left(c, set));
    return add_einsum(c, parts, 1, made, error);
}

/* The node itself becomes the last product. */
static opf_status apply(const chain *c, opf_error *error)
{
    product parts[2];
    OPF_TRY(build(c, c->left[c->full], &parts[0], error));
    OPF_TRY(build(c, c->full & ~(uint32_t)c->left[c->full], &parts[1], error));
    const opf_value_id values[] = {parts[0].value, parts[1].value};
    const opf_einsum_term terms[] = {parts[0].term, parts[1].term};
    OPF_OOM_IF(error, !opf_einsum_set(c->task->graph, c->task->id, values, terms, 2, &c->task->equation.out));
    return OPF_OK;
}

/* ---- a sum behind the product ---- */

/* The labels that one of two operands alone has and the result has not, if the product sums others besides: then it is
   a matrix product all the same, of which rows or columns are summed. Empty: nothing to do. */
static opf_einsum_term labels_behind(const opf_einsum_equation *e)
{
    opf_einsum_term labels = {.ellipsis = -1};
    bool has_depth = false;
    for (uint32_t i = 0; i < 2; i++)
        for (int32_t k = 0; k < e->in[i].n; k++) {
            const int8_t label = e->in[i].labels[k];
            if (opf_einsum_has(&e->out, label))
                continue;
            if (opf_einsum_has(&e->in[1 - i], label))
                has_depth = true;
            else if (e->out.n + labels.n < OPF_MAX_RANK)
                labels.labels[labels.n++] = label;
            else
                return (opf_einsum_term){.ellipsis = -1};
        }
    return has_depth ? labels : (opf_einsum_term){.ellipsis = -1};
}

static opf_status sum_behind(opf_einsum_task *task, const opf_einsum_term *labels, opf_error *error)
{
    opf_graph *graph = task->graph;
    const opf_einsum_equation *e = &task->equation;
    opf_einsum_term longer = e->out;
    memcpy(longer.labels + longer.n, labels->labels, (size_t)labels->n);
    longer.n += labels->n;
    const opf_node *node = opf_graph_node(graph, task->id);
    const opf_value_id result = node->outputs[0], operands[] = {node->inputs[0], node->inputs[1]},
                       between = opf_graph_add_value(graph, NULL);
    OPF_OOM_IF(error, between == 0 || !opf_graph_set_output(graph, task->id, 0, between) ||
                          !opf_einsum_set(graph, task->id, operands, e->in, 2, &longer));
    const opf_node_id sum =
        opf_graph_add_node(graph, &opf_op_Einsum, opf_op_Einsum.name, NULL, &between, 1, &result, 1);
    OPF_OOM_IF(error, sum == 0 || !opf_node_join_origin(graph, sum, task->id) ||
                          !opf_einsum_set(graph, sum, &between, &longer, 1, &e->out));
    return opf_infer_update(graph, task->id, error);
}

/* ---- the pass ---- */

opf_status opf_einsum_to_chain(opf_einsum_task *task, bool asks, bool *done, opf_error *error)
{
    const opf_types narrow = OPF_TYPE_BIT(OPF_FLOAT16) | OPF_TYPE_BIT(OPF_BFLOAT16);
    chain c;
    *done = false;
    task->obstacle = OPF_EINSUM_ROUNDING;
    if (opf_types_have(narrow, task->type))
        return OPF_OK;
    task->obstacle = OPF_EINSUM_LIMIT;
    if (task->equation.n_in > MAX_OPERANDS || !read(&c, task))
        return OPF_OK;
    for (uint32_t set = 1; set <= c.full; set++)
        cost_set(&c, set);
    task->obstacle = OPF_EINSUM_SUM_FIRST;
    if (isfinite(c.cost[c.full])) {
        *done = true;
        return asks ? OPF_OK : apply(&c, error);
    }
    const opf_einsum_term behind = task->equation.n_in == 2 ? labels_behind(&task->equation) : (opf_einsum_term){0};
    *done = behind.n != 0;
    return asks || !*done ? OPF_OK : sum_behind(task, &behind, error);
}
