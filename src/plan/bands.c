/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/bands.h"

#include "base/round.h"
#include "cpu/cpu.h"

#include <string.h>

enum { MOST = 6 }; /* steps of a chain */

/* The lines of an image between two steps that are there now, [from, to), follow one another in memory. */
typedef struct {
    uint32_t buffer;         /* that the two would use */
    size_t   lines, bytes;   /* of the ring; of a line */
    size_t   offset;         /* in scratch */
} ring;

typedef struct {
    size_t  n;
    struct {
        opf_image_lines lines;
        const void     *args;
        size_t          scratch; /* where it begins */
    } steps[MOST];
    ring   rings[MOST - 1]; /* behind step i */
    size_t n_buffers;
    size_t bands;       /* parts of about as many lines of the last result, for an image */
} chain;

/* ---- run ---- */

/* Where band i begins: multiples of the step as even as can be, so that threads get as many lines as well as as many bands. */
static size_t begin_of(const chain *c, size_t i)
{
    const opf_image_lines *lines = &c->steps[c->n - 1].lines;
    const size_t           step = (size_t)lines->step, at = (lines->out * i / c->bands + step / 2) / step * step;
    return i == c->bands || at > lines->out ? lines->out : at;
}

static opf_span needed(const opf_image_lines *lines, opf_span result)
{
    return opf_below_windows((int64_t)lines->in, lines->window, lines->stride, lines->pad, result);
}

/* Keeps what is still needed of a ring, at its begin, and tells what is missing behind it, as `from` can make it. */
static opf_span make_room(const ring *r, const opf_image_lines *from, char *memory, opf_span *held, opf_span need)
{
    if (need.from < held->from || need.from >= held->to)
        *held = (opf_span){need.from / from->step * from->step, need.from / from->step * from->step};
    need.to = opf_least(opf_round_up(need.to, from->step), (int64_t)from->out);
    if (need.to <= held->to)
        return (opf_span){held->to, held->to};
    if (need.to - held->from > (int64_t)r->lines) {
        const int64_t kept = opf_most(0, held->to - need.from);
        memmove(memory, memory + (size_t)(need.from - held->from) * r->bytes, (size_t)kept * r->bytes);
        held->from = need.from;
    }
    return (opf_span){held->to, need.to};
}

/* A unit is a band of an image. Bands that follow one another find the lines that they share. */
static void run_chain(const opf_run_env *env, const void *args, size_t begin, size_t end, void *scratch)
{
    const chain *c     = args;
    char       **bases = scratch;
    opf_run_env  own   = {.bases = bases, .kern = env->kern, .heap = env->heap};
    opf_span     held[MOST - 1], todo[MOST];
    memcpy(bases, env->bases, c->n_buffers * sizeof *bases);
    for (size_t unit = begin; unit < end; unit++) {
        const size_t image = unit / c->bands, first = begin_of(c, unit % c->bands), last = begin_of(c, unit % c->bands + 1);
        todo[c->n - 1] = (opf_span){(int64_t)first, (int64_t)last};
        for (size_t i = c->n - 1; i-- > 0;) {
            const ring *r = &c->rings[i];
            if (unit == begin || first == 0)
                held[i] = (opf_span){0, 0};
            todo[i] = (opf_span){0, 0};
            if (todo[i + 1].from < todo[i + 1].to)
                todo[i] = make_room(r, &c->steps[i].lines, (char *)scratch + r->offset, &held[i], needed(&c->steps[i + 1].lines, todo[i + 1]));
            /* The base that puts line held.from at the begin of the ring. */
            bases[r->buffer] = (char *)((uintptr_t)scratch + r->offset - (image * c->steps[i].lines.out + (size_t)held[i].from) * r->bytes);
        }
        for (size_t i = 0; i < c->n; i++) {
            char *own_scratch = (char *)scratch + c->steps[i].scratch;
            if (c->steps[i].lines.kept != 0 && (unit == begin || first == 0))
                *(bool *)own_scratch = false;
            if (todo[i].from < todo[i].to)
                c->steps[i].lines.run(&own, c->steps[i].args, image, (size_t)todo[i].from, (size_t)todo[i].to, own_scratch);
            if (i + 1 < c->n)
                held[i].to = opf_most(held[i].to, todo[i].to);
        }
    }
}

/* ---- which steps ---- */

opf_status opf_plan_goes_by_lines(opf_planner *planner, const opf_image_lines *lines, opf_error *error)
{
    opf_plan_step *step = &planner->plan->steps[planner->plan->n_steps - 1];
    step->lines         = opf_arena_copy(planner->arena, lines, sizeof *lines);
    OPF_OOM_IF(error, step->lines == NULL);
    return OPF_OK;
}

static bool may_be_in_chain(const opf_plan_step *step)
{
    return step->lines != NULL && step->check == NULL && step->n_gathered == 0;
}

/* The step behind step i, but those that run with another one. */
static uint32_t step_behind(const opf_plan *plan, uint32_t i)
{
    do
        i++;
    while (i < plan->n_steps && plan->steps[i].joined);
    return i;
}

/* Step i writes images that step j alone reads, once, whole, and too large to stay in cache; their weights stay there. */
static bool hands_on(const opf_plan *plan, uint32_t i, uint32_t j)
{
    if (j >= plan->n_steps || !may_be_in_chain(&plan->steps[i]) || !may_be_in_chain(&plan->steps[j]))
        return false;
    const opf_plan_step *step = &plan->steps[i], *next = &plan->steps[j];
    const opf_image_lines *from = step->lines, *to = next->lines;
    const opf_buffer      *buffer = &plan->buffers[from->y.buffer];
    const size_t           bytes  = from->images * from->out * from->out_line * sizeof(float), l2 = opf_cpu_l2_bytes();
    return from->y.buffer == to->x.buffer && from->y.bytes == 0 && to->x.bytes == 0 && from->out_line != 0 && from->out_line == to->in_line &&
           from->out == to->in && from->images == to->images && !from->stores && buffer->kind == OPF_BUFFER_ARENA && buffer->first == i &&
           buffer->last == j && buffer->touched == 2 && buffer->bytes == bytes && bytes >= l2 / 2 && from->weights <= l2 / 4 &&
           to->weights <= l2 / 4;
}

/* Lines of the rings for so many bands, and bytes of all rings. */
static size_t size_rings(chain *c, size_t bands)
{
    size_t bytes = 0, lines = 0;
    c->bands = bands;
    for (size_t i = 0; i < bands; i++)
        lines = begin_of(c, i + 1) - begin_of(c, i) > lines ? begin_of(c, i + 1) - begin_of(c, i) : lines;
    for (size_t i = c->n - 1; i-- > 0;) {
        const opf_image_lines *next = &c->steps[i + 1].lines;
        ring                  *r    = &c->rings[i];
        const int64_t slack = 2 * (c->steps[i].lines.step - 1);
        lines    = (size_t)opf_least((int64_t)next->in, ((int64_t)lines - 1) * next->stride + next->window + slack);
        r->lines = lines;
        bytes += lines * r->bytes;
    }
    return bytes;
}

/* Few enough for rings in half of L2, but enough for all threads: mostly multiples of a few, which come out even. */
static void choose_bands(chain *c)
{
    enum { BANDS = 8, FEW = 4 };
    const opf_image_lines *lines = &c->steps[c->n - 1].lines;
    const size_t           most = opf_divide_up(lines->out, (size_t)lines->step);
    size_t                 bands = opf_least_size(opf_divide_up(BANDS, lines->images), most);
    while (bands < most && size_rings(c, bands) > opf_cpu_l2_bytes() / 2)
        bands = opf_least_size(bands + (bands < FEW ? 1 : FEW), most);
    (void)size_rings(c, bands);
}

void opf_plan_join_lives(opf_plan *plan, uint32_t first, uint32_t last, const uint32_t *between, size_t n)
{
    for (uint32_t b = 1; b < plan->n_buffers; b++) {
        opf_buffer *buffer = &plan->buffers[b];
        if (buffer->first >= first && buffer->first <= last)
            memset(buffer->shares, 0, sizeof buffer->shares);
        if (buffer->last >= first && buffer->last < last)
            buffer->last = last;
    }
    for (size_t i = 0; i < n; i++) {
        plan->buffers[between[i]].first = UINT32_MAX;
        plan->buffers[between[i]].last  = 0;
    }
}

void opf_plan_leave_step(opf_plan_step *step)
{
    step->run           = NULL;
    step->units         = 0;
    step->scratch_bytes = 0;
    step->lines         = NULL;
    step->joined        = true;
}

static opf_status make_chain(opf_planner *planner, const uint32_t *at, uint32_t n, opf_error *error)
{
    opf_plan *plan    = planner->plan;
    chain    *c       = OPF_NEW(planner->arena, chain, 1);
    size_t    scratch = 0;
    uint32_t  between[MOST];
    OPF_OOM_IF(error, c == NULL);
    *c = (chain){.n = n, .n_buffers = plan->n_buffers};
    for (uint32_t i = 0; i < n; i++) {
        const opf_plan_step *step = &plan->steps[at[i]];
        c->steps[i].lines = *step->lines;
        c->steps[i].args  = step->args;
        scratch           = step->lines->kept == 0 && step->scratch_bytes > scratch ? step->scratch_bytes : scratch;
        between[i]        = step->lines->y.buffer;
        if (i + 1 < n)
            c->rings[i] = (ring){.buffer = between[i], .bytes = step->lines->out_line * sizeof(float)};
    }
    choose_bands(c);
    size_t offset = opf_round_64(c->n_buffers * sizeof(char *));
    for (uint32_t i = 0; i + 1 < n; i++) {
        c->rings[i].offset = offset;
        offset += opf_round_64(c->rings[i].lines * c->rings[i].bytes);
    }
    for (uint32_t i = 0; i < n; i++)
        if (c->steps[i].lines.kept != 0) {
            c->steps[i].scratch = offset;
            offset += opf_round_64(c->steps[i].lines.kept);
        }
    for (uint32_t i = 0; i < n; i++)
        if (c->steps[i].lines.kept == 0)
            c->steps[i].scratch = offset;
    opf_plan_join_lives(plan, at[0], at[n - 1], between, n - 1);
    for (uint32_t i = 0; i < n; i++) {
        opf_plan_step *step = &plan->steps[at[i]];
        step->kernel        = opf_arena_printf(planner->arena, "bands: %s", step->kernel);
        OPF_OOM_IF(error, step->kernel == NULL);
        if (i + 1 < n)
            opf_plan_leave_step(step);
    }
    opf_plan_step *end = &plan->steps[at[n - 1]];
    end->run           = run_chain;
    end->args          = c;
    end->units         = c->steps[0].lines.images * c->bands;
    end->scratch_bytes = offset + scratch;
    if (end->scratch_bytes > plan->scratch_bytes)
        plan->scratch_bytes = end->scratch_bytes;
    return OPF_OK;
}

opf_status opf_plan_bands(opf_planner *planner, opf_error *error)
{
    const opf_plan *plan = planner->plan;
    for (uint32_t i = 0, at[MOST], n; i < plan->n_steps; i = at[n - 1] + 1) {
        for (at[0] = i, n = 1; n < MOST && hands_on(plan, at[n - 1], step_behind(plan, at[n - 1])); n++)
            at[n] = step_behind(plan, at[n - 1]);
        if (n > 1)
            OPF_TRY(make_chain(planner, at, n, error));
    }
    return OPF_OK;
}
