/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arena offsets by liveness: the largest buffer first, each at the lowest gap that is free while it lives (Pisarchyk and
 * Lee, arXiv 2001.03288, greedy by size). A buffer that takes over another one in place lives and lies with it.
 */
#include "plan/planner.h"

static size_t round_up(size_t bytes)
{
    return (bytes + OPF_ALIGNMENT - 1) & ~(size_t)(OPF_ALIGNMENT - 1);
}

/* A buffer takes over the first of its candidates that dies in the very step that writes it. The memory of a chain is
   that of its root, which lives as long as the last member; holder[root] is the member whose data lies there. */
static void join_in_place(opf_plan *plan, uint32_t *root, uint32_t *holder)
{
    for (uint32_t b = 1; b < plan->n_buffers; b++) {
        opf_buffer *buffer = &plan->buffers[b];
        root[b] = holder[b] = b;
        for (int32_t i = 0; i < OPF_SHARES && root[b] == b; i++) {
            uint32_t source = buffer->shares[i];
            if (source == 0 || source >= b) /* made later: its root is not known yet */
                continue;
            opf_buffer *base = &plan->buffers[root[source]];
            if (holder[root[source]] != source || plan->buffers[source].first >= buffer->first || base->last != buffer->first ||
                base->bytes < buffer->bytes)
                continue;
            root[b]         = root[source];
            holder[root[b]] = b;
            base->last      = buffer->last;
        }
    }
}

static bool collide(const opf_buffer *a, const opf_buffer *b)
{
    return a->first <= b->last && b->first <= a->last;
}

opf_status opf_plan_memory(opf_planner *planner, opf_error *error)
{
    opf_plan *plan   = planner->plan;
    uint32_t *root   = OPF_NEW(planner->arena, uint32_t, plan->n_buffers);
    uint32_t *holder = OPF_NEW(planner->arena, uint32_t, plan->n_buffers);
    uint32_t *sorted = OPF_NEW(planner->arena, uint32_t, plan->n_buffers);
    uint32_t *placed = OPF_NEW(planner->arena, uint32_t, plan->n_buffers);
    OPF_OOM_IF(error, root == NULL || holder == NULL || sorted == NULL || placed == NULL);
    join_in_place(plan, root, holder);
    uint32_t n = 0, n_placed = 0;
    for (uint32_t b = 1; b < plan->n_buffers; b++) {
        const opf_buffer *buffer = &plan->buffers[b];
        if (buffer->kind != OPF_BUFFER_ARENA || root[b] != b || buffer->first > buffer->last)
            continue;
        uint32_t at = n++;
        for (; at > 0 && plan->buffers[sorted[at - 1]].bytes < buffer->bytes; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = b;
    }
    size_t end = 0;
    for (uint32_t i = 0; i < n; i++) {
        opf_buffer *buffer = &plan->buffers[sorted[i]];
        size_t      need = round_up(buffer->bytes), offset = 0;
        /* placed[] is sorted by offset: the first gap wins. */
        uint32_t at = n_placed;
        bool     found = false;
        for (uint32_t k = 0; k < n_placed && !found; k++) {
            const opf_buffer *other = &plan->buffers[placed[k]];
            if (!collide(buffer, other))
                continue;
            if (other->offset >= offset && other->offset - offset >= need) {
                found = true;
                break;
            }
            if (other->offset + round_up(other->bytes) > offset)
                offset = other->offset + round_up(other->bytes);
        }
        buffer->offset = offset;
        for (at = n_placed++; at > 0 && plan->buffers[placed[at - 1]].offset > offset; at--)
            placed[at] = placed[at - 1];
        placed[at] = sorted[i];
        if (offset + need > end)
            end = offset + need;
    }
    for (uint32_t b = 1; b < plan->n_buffers; b++)
        if (plan->buffers[b].kind == OPF_BUFFER_ARENA)
            plan->buffers[b].offset = plan->buffers[root[b]].offset;
    plan->arena_bytes = end;
    return OPF_OK;
}
