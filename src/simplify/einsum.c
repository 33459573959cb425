/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Einsums become what kernels and rules know: one operand data movement and a sum, two a product, more a chain of twos.
 */
#include "simplify/einsum.h"

#include "simplify/passes.h"

int32_t opf_einsum_place(const opf_einsum_term *term, int32_t label)
{
    for (int32_t i = 0; i < term->n; i++)
        if (term->labels[i] == label)
            return i;
    return -1;
}

bool opf_einsum_is_diagonal(const opf_einsum_term *term)
{
    for (int32_t i = 0; i < term->n; i++)
        if (opf_einsum_place(term, term->labels[i]) != i)
            return true;
    return false;
}

/* ---- writing an equation ---- */

/* A letter for each label, in the order in which they come: an ellipsis has been taken apart. */
static size_t put_term(char *text, const opf_einsum_term *term, int8_t letters[OPF_EINSUM_LABELS], int8_t *n_letters)
{
    static const char alphabet[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    for (int32_t i = 0; i < term->n; i++) {
        int8_t *letter = &letters[term->labels[i]];
        if (*letter == 0)
            *letter = ++*n_letters;
        text[i] = alphabet[*letter - 1];
    }
    return (size_t)term->n;
}

bool opf_einsum_set(opf_graph *graph, opf_node_id id, const opf_value_id *operands, const opf_einsum_term *terms,
                    uint32_t n, const opf_einsum_term *out)
{
    const size_t room = (n + 1) * (size_t)(OPF_MAX_RANK + 2);
    int8_t letters[OPF_EINSUM_LABELS] = {0}, n_letters = 0;
    char *text = OPF_NEW(graph->arena, char, room);
    size_t at = 0;
    if (text == NULL)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        at += put_term(text + at, &terms[i], letters, &n_letters);
        text[at++] = ',';
    }
    text[at - 1] = '-';
    text[at++] = '>';
    at += put_term(text + at, out, letters, &n_letters);
    text[at] = '\0';
    const opf_attr equation = {.name = "equation", .type = OPF_ATTR_STRING, .s = text, .n = (uint32_t)at};
    return opf_node_set_attr(graph, id, equation) && opf_graph_set_own_inputs(graph, id, operands, n);
}

/* ---- the pass ---- */

/* False: a rank is not known. */
static bool begin(opf_graph *graph, opf_node_id id, opf_einsum_task *task)
{
    const opf_node *node = opf_graph_node(graph, id);
    int32_t ranks[OPF_EINSUM_OPERANDS];
    opf_error error;
    *task = (opf_einsum_task){.graph = graph, .id = id, .obstacle = OPF_EINSUM_SHAPE_UNKNOWN};
    if (node->n_own_inputs == 0 || node->n_own_inputs > OPF_EINSUM_OPERANDS)
        return false;
    task->type = opf_graph_value(graph, node->inputs[0])->info.type;
    for (uint32_t i = 0; i < node->n_own_inputs; i++) {
        ranks[i] = opf_graph_value(graph, node->inputs[i])->info.rank;
        if (ranks[i] < 0)
            return false;
    }
    return opf_einsum_parse(opf_node_string(node, "equation", ""), ranks, node->n_own_inputs, &task->equation,
                            &error) == OPF_OK;
}

static opf_status rewrite(opf_einsum_task *task, bool asks, bool *done, opf_error *error)
{
    *done = false;
    if (task->equation.n_in == 1)
        return opf_einsum_to_sum(task, asks, done, error);
    if (task->equation.n_in == 2)
        OPF_TRY(opf_einsum_to_product(task, asks, done, error));
    /* Two operands whose sums must come apart from the product are a chain, too. */
    if (task->equation.n_in > 2 || task->obstacle == OPF_EINSUM_SUM_FIRST)
        OPF_TRY(opf_einsum_to_chain(task, asks, done, error));
    return OPF_OK;
}

opf_status opf_simplify_einsums(opf_graph *graph, bool *changed, opf_error *error)
{
    const opf_node_id n = graph->n_nodes;
    for (opf_node_id id = 1; id < n; id++) {
        const opf_node *node = opf_graph_node(graph, id);
        opf_einsum_task task;
        bool done;
        if (!opf_simplify_is_plain(node) || node->op != &opf_op_Einsum || node->n_outputs != 1 ||
            node->outputs[0] == 0 || !begin(graph, id, &task))
            continue;
        OPF_TRY(rewrite(&task, false, &done, error));
        *changed = *changed || done;
    }
    return OPF_OK;
}

opf_einsum_obstacle opf_simplify_einsum_obstacle(const opf_graph *graph, opf_node_id id)
{
    opf_einsum_task task;
    bool done;
    if (begin((opf_graph *)(uintptr_t)graph, id, &task)) /* only asked, not changed */
        (void)rewrite(&task, true, &done, NULL);
    return task.obstacle;
}
