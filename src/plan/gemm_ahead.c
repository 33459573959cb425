/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/gemm_ahead.h"

#include "base/least.h"
#include "base/round.h"
#include "cpu/cpu.h"
#include "plan/winograd.h"

static size_t units_of(const opf_gemm_args *g)
{
    return g->winograd.u != NULL ? opf_winograd_units(g) : g->images * g->groups * g->blocks * g->panels;
}

opf_ahead opf_ahead_of(const opf_run_env *env, const opf_gemm_args *g, size_t begin)
{
    const opf_gemm_args *next = g->ahead;
    if (next == NULL || units_of(g) == 0)
        return (opf_ahead){NULL, 0};
    const size_t most = opf_cpu_l2_bytes() / 2 / sizeof(float), unit = begin * units_of(next) / units_of(g);
    const opf_winograd *w = &next->winograd;
    const bool   by_points = w->u != NULL;
    const size_t panel     = unit % next->panels, left = next->panels - panel;
    const size_t floats    = (by_points ? 1 : next->taps) * next->kc * env->kern->nr;
    const size_t panels    = by_points ? opf_least_size(w->most, left) : next->tiles == 1 ? left : 1; /* of a point; of a single tile, which reads all once */
    return (opf_ahead){(by_points ? w->u : next->b) + panel * floats, opf_least_size(panels * floats, most)};
}

size_t opf_ahead_panels(const opf_ahead *ahead, size_t nr, size_t floats, size_t most)
{
    return nr <= OPF_LINE || floats == 0 || most == 0 ? 0 : opf_least_size(ahead->floats / floats, most - 1); /* a line a step has no room beside */
}

size_t opf_ahead_beside(const opf_ahead *ahead, size_t i, opf_gemm_tile *tile, size_t nr, size_t floats, size_t n)
{
    const float *at   = ahead->at + i * floats;
    tile->next_b_rate = (uint32_t)opf_divide_up(nr, n);
    tile->next_b_gap  = ((intptr_t)at - (intptr_t)tile->next_b) / (ptrdiff_t)sizeof(float);
    return floats / n;
}

size_t opf_ahead_rest(const opf_ahead *ahead, size_t done, opf_gemm_tile *tile, size_t nr, size_t k, size_t n)
{
    const size_t halves = nr > OPF_LINE ? 2 : 1, all = n * k, rate = all == 0 ? 0 : opf_divide_up(ahead->floats - done, halves * all);
    tile->next_b      = rate == 0 ? NULL : ahead->at + done;
    tile->next_b_rate = (uint32_t)opf_least_size(rate, OPF_LINE);
    tile->next_b_gap  = halves == 1 ? 0 : (ptrdiff_t)(all * tile->next_b_rate);
    return k * tile->next_b_rate;
}
