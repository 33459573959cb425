/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/attention_cache.h"

enum { PAST = 4, PRESENT = 1, ROW = 2 }; /* of keys; that of values follows */

static bool has_past(const opf_node *node)
{
    return node->n_own_inputs > PAST && node->inputs[PAST] != 0;
}

int64_t opf_attention_past(const opf_planner *planner, const opf_node *node)
{
    return has_past(node) ? planner->infos[node->inputs[PAST]].dims[ROW].n : 0;
}

static opf_value_id present_of(const opf_node *node, uint32_t i)
{
    return PRESENT + i < node->n_own_outputs ? node->outputs[PRESENT + i] : 0;
}

/* Where all rows of x and its past lie. */
static opf_status place_whole(opf_planner *planner, opf_value_id present, const opf_place *x, int64_t past, opf_place *whole, opf_error *error)
{
    static const int32_t in_order[] = {0, 1, 2, 3};
    if (present != 0)
        return opf_plan_alloc_strided(planner, present, in_order, whole, error);
    *whole = *x;
    whole->dims[ROW] += past;
    return opf_plan_alloc_temporary(planner, x->type, x->rank, whole->dims, NULL, whole, error);
}

opf_status opf_plan_attention_cache(opf_planner *planner, const opf_node *node, opf_place kv[2], opf_error *error)
{
    const int64_t past = opf_attention_past(planner, node);
    opf_place     src[4], dst[4];
    uint32_t      n = 0;
    for (uint32_t i = 0; i < 2; i++) {
        opf_place whole;
        if (!has_past(node) && present_of(node, i) == 0)
            continue;
        OPF_TRY(place_whole(planner, present_of(node, i), &kv[i], past, &whole, error));
        if (has_past(node)) {
            OPF_TRY(opf_plan_place(planner, node->inputs[PAST + i], &src[n], error));
            dst[n]           = whole;
            dst[n].dims[ROW] = past;
            n += opf_place_elements(&dst[n]) != 0;
        }
        src[n] = kv[i];
        dst[n] = whole;
        dst[n].offset += past * whole.strides[ROW];
        dst[n].dims[ROW] = kv[i].dims[ROW];
        n += opf_place_elements(&dst[n]) != 0;
        kv[i] = whole;
    }
    return n != 0 ? opf_plan_copies(planner, "attention_cache", src, dst, n, error) : OPF_OK;
}
