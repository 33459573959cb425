/* SPDX-License-Identifier: Apache-2.0 */
#include "simplify/simplify.h"

#include "ops/infer.h"
#include "simplify/passes.h"

/* Every pass only removes work, so rounds end by themselves; the bound keeps a bad model from being slow. */
enum { MAX_ROUNDS = 12 };

bool opf_simplify_same_shape(const opf_info *a, const opf_info *b)
{
    if (a->rank < 0 || a->rank != b->rank)
        return false;
    for (int32_t i = 0; i < a->rank; i++)
        if (!opf_dim_equal(a->dims[i], b->dims[i]))
            return false;
    return true;
}

static opf_status one_round(opf_graph *graph, const opf_limits *limits, opf_heap *heap, bool *changed, opf_error *error)
{
    OPF_TRY(opf_fold_constants(graph, limits, heap, changed, error));
    OPF_TRY(opf_inline_branches(graph, changed, error));
    OPF_TRY(opf_remove_no_ops(graph, changed, error));
    OPF_TRY(opf_simplify_broadcasts(graph, changed, error));
    OPF_TRY(opf_merge_reductions(graph, changed, error));
    OPF_TRY(opf_simplify_pools(graph, changed, error));
    OPF_TRY(opf_slice_gathers(graph, changed, error));
    OPF_TRY(opf_slice_tables(graph, changed, error));
    OPF_TRY(opf_simplify_einsums(graph, changed, error));
    OPF_TRY(opf_simplify_rotary(graph, changed, error));
    OPF_TRY(opf_merge_slices(graph, changed, error));
    OPF_TRY(opf_merge_parts(graph, changed, error));
    OPF_TRY(opf_merge_movement(graph, changed, error));
    OPF_TRY(opf_cancel_transposes(graph, changed, error));
    OPF_TRY(opf_sink_transposes(graph, changed, error));
    OPF_TRY(opf_read_shapes_early(graph, changed, error));
    OPF_TRY(opf_merge_common(graph, changed, error));
    return opf_remove_dead(graph, changed, error);
}

static opf_status simplify_graph(opf_graph *graph, const opf_limits *limits, opf_heap *heap, opf_error *error);

/* All bodies the first time; later those that got constants. */
static opf_status simplify_bodies(opf_graph *graph, bool all, const opf_limits *limits, opf_heap *heap, bool *changed,
                                  opf_error *error)
{
    for (opf_node_id id = 1; id < graph->n_nodes; id++) {
        bool pushed = false;
        if (!opf_node_is_alive(opf_graph_node(graph, id)))
            continue;
        OPF_TRY(opf_push_constants(graph, id, &pushed, error));
        for (uint32_t b = 0; (all || pushed) && b < opf_graph_node(graph, id)->n_bodies; b++) {
            opf_graph *body = opf_graph_node(graph, id)->bodies[b];
            if (pushed)
                OPF_TRY(opf_infer_graph(body, error));
            OPF_TRY(simplify_graph(body, limits, heap, error));
        }
        *changed = *changed || pushed;
        OPF_OOM_IF(error, !opf_drop_captures(graph, id, changed));
    }
    return OPF_OK;
}

static opf_status simplify_graph(opf_graph *graph, const opf_limits *limits, opf_heap *heap, opf_error *error)
{
    bool changed = true;
    for (int round = 0; changed && round < MAX_ROUNDS; round++) {
        changed = false;
        OPF_TRY(simplify_bodies(graph, round == 0, limits, heap, &changed, error));
        OPF_TRY(one_round(graph, limits, heap, &changed, error));
        if (changed)
            OPF_TRY(opf_infer_graph(graph, error));
    }
    return OPF_OK;
}

opf_status opf_simplify(opf_graph *graph, const opf_limits *limits, opf_heap *heap, opf_error *error)
{
    OPF_TRY(opf_infer_graph(graph, error));
    return simplify_graph(graph, limits, heap, error);
}
