/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/phases.h"
#include "base/round.h"

#include <math.h>
#include <string.h>

enum { OUTPUTS = 16 }; /* that are read at once */

static int64_t gcd(int64_t a, int64_t b)
{
    while (b != 0) {
        const int64_t rest = a % b;
        a                  = b;
        b                  = rest;
    }
    return a;
}

bool opf_phases_count(int32_t rank, const int64_t *stride, size_t *n)
{
    int64_t sum = 3 - rank, product = 1;
    for (int32_t i = 0; i < rank; i++) {
        if (stride[i] > OPF_PHASES_AXIS || (product *= stride[i]) > OPF_PHASES_MOST)
            return false;
        sum += stride[i];
    }
    *n = (size_t)sum;
    return true;
}

static bool is_same_class(const opf_phase *a, const opf_phase *b)
{
    return a->taps == b->taps && a->shift == b->shift;
}

static bool is_before(const opf_phase *a, const opf_phase *b)
{
    if (a->taps != b->taps)
        return a->taps > b->taps;
    return a->shift != b->shift ? a->shift < b->shift : a->residue < b->residue;
}

static void find_axis(opf_phase_axis *axis, int64_t dilation)
{
    const int64_t common = gcd(axis->stride, dilation);
    axis->step           = axis->stride / common;
    axis->dilation       = dilation / common;
    for (int64_t r = 0; r < axis->stride; r++)
        axis->phases[r] = (opf_phase){.residue = r};
    /* The first taps have residues of their own, later ones repeat them. */
    for (int64_t t = 0; t < axis->step && t < axis->kernel; t++) {
        opf_phase *phase = &axis->phases[t * dilation % axis->stride];
        phase->first     = t;
        phase->taps      = (axis->kernel - t + axis->step - 1) / axis->step;
        phase->shift     = t * dilation / axis->stride;
    }
    for (int64_t i = 1; i < axis->stride; i++) {
        const opf_phase phase = axis->phases[i];
        int64_t         at    = i;
        for (; at > 0 && is_before(&phase, &axis->phases[at - 1]); at--)
            axis->phases[at] = axis->phases[at - 1];
        axis->phases[at] = phase;
    }
    for (int64_t i = 1; i < axis->stride; i++)
        axis->phases[i].before = axis->phases[i - 1].before + axis->phases[i - 1].taps;
}

void opf_phases_find(int32_t rank, const int64_t *kernel, const int64_t *stride, const int64_t *dilation, opf_phase *room,
                     opf_phases *phases)
{
    for (int32_t i = 0; i < 3; i++) {
        const int32_t own = i - (3 - rank);
        phases->axes[i]   = (opf_phase_axis){.kernel = own < 0 ? 1 : kernel[own], .stride = own < 0 ? 1 : stride[own], .phases = room};
        find_axis(&phases->axes[i], own < 0 ? 1 : dilation[own]);
        room += phases->axes[i].stride;
    }
}

bool opf_phases_next(const opf_phases *phases, opf_phase_class *c)
{
    const bool begins = c->n[0] == 0;
    int32_t    turn   = 2; /* the axis that goes on, those behind it begin anew */
    while (!begins && turn >= 0 && c->first[turn] + c->n[turn] == phases->axes[turn].stride)
        turn--;
    if (turn < 0)
        return false;
    c->is_reached = true;
    for (int32_t i = 0; i < 3; i++) {
        const opf_phase_axis *axis = &phases->axes[i];
        if (begins || i > turn)
            c->first[i] = 0;
        else if (i == turn)
            c->first[i] += c->n[i];
        const opf_phase *phase = &axis->phases[c->first[i]];
        for (c->n[i] = 1; c->first[i] + c->n[i] < axis->stride && is_same_class(phase, phase + c->n[i]);)
            c->n[i]++;
        c->taps[i]    = phase->taps > 0 ? phase->taps : 1;
        c->is_reached = c->is_reached && phase->taps > 0;
    }
    return true;
}

int64_t opf_phase_floats(const opf_phase_class *class, int64_t c, int64_t o, int64_t groups, int64_t nr)
{
    if (!class->is_reached)
        return 0;
    return groups * opf_round_up(opf_phase_cells(class) * o, nr) * class->taps[0] * class->taps[1] * class->taps[2] * c;
}

/* ---- formats ---- */

/* The kernel's tap that is tap t, counted along the inputs, of a phase. */
static int64_t kernel_tap(const opf_phase_axis *axis, const opf_phase *phase, int64_t t)
{
    return phase->first + (phase->taps - 1 - t) * axis->step;
}

/* Some outputs of one group, w: [c][n][kernel], into the panels of a class and group. */
static void pack_class(const opf_phases *phases, const opf_phase_class *class, const float *w, int64_t c, int64_t o, int64_t first, int64_t n,
                       int64_t nr, float *panels)
{
    const opf_phase_axis *axes = phases->axes;
    const int64_t        *taps = class->taps, k = taps[0] * taps[1] * taps[2] * c;
    const int64_t         kernel = axes[0].kernel * axes[1].kernel * axes[2].kernel;
    for (int64_t cell = 0; cell < opf_phase_cells(class); cell++) {
        const opf_phase *p0 = &axes[0].phases[class->first[0] + cell / (class->n[1] * class->n[2])];
        const opf_phase *p1 = &axes[1].phases[class->first[1] + cell / class->n[2] % class->n[1]];
        const opf_phase *p2 = &axes[2].phases[class->first[2] + cell % class->n[2]];
        for (int64_t t = 0; t < taps[0] * taps[1] * taps[2]; t++) {
            const int64_t t0 = kernel_tap(&axes[0], p0, t / (taps[1] * taps[2])), t1 = kernel_tap(&axes[1], p1, t / taps[2] % taps[1]);
            const int64_t at = (t0 * axes[1].kernel + t1) * axes[2].kernel + kernel_tap(&axes[2], p2, t % taps[2]);
            for (int64_t j = 0; j < n; j++) {
                const int64_t column = cell * o + first + j;
                float        *to     = panels + (column / nr * k + t * c) * nr + column % nr;
                for (int64_t i = 0; i < c; i++)
                    to[i * nr] = w[(i * n + j) * kernel + at];
            }
        }
    }
}

/* Scratch: the phases, then `floats` of weights. */
static void set_format(opf_weight_format *format, const opf_const *w, const int64_t *stride, const int64_t *dilation, int64_t floats)
{
    size_t room = 0;
    (void)opf_phases_count(w->rank - 2, stride, &room);
    for (int32_t i = 0; i < w->rank - 2; i++)
        format->numbers[i] = stride[i] << 32 | dilation[i];
    format->scratch_bytes = room * sizeof(opf_phase) + (size_t)floats * sizeof(float);
}

static float *read_format(const opf_const *w, const int64_t *numbers, void *scratch, opf_phases *phases)
{
    int64_t stride[3], dilation[3];
    size_t  room = 0;
    for (int32_t i = 0; i < w->rank - 2; i++) {
        stride[i]   = numbers[i] >> 32;
        dilation[i] = numbers[i] & UINT32_MAX;
    }
    (void)opf_phases_count(w->rank - 2, stride, &room);
    opf_phases_find(w->rank - 2, w->dims + 2, stride, dilation, scratch, phases);
    return (float *)((opf_phase *)scratch + room);
}

static int64_t kernel_size(const opf_const *w)
{
    int64_t size = 1;
    for (int32_t i = 2; i < w->rank; i++)
        size *= w->dims[i];
    return size;
}

static bool are_finite(const float *x, int64_t n)
{
    bool finite = true;
    for (int64_t i = 0; i < n; i++)
        finite = finite && isfinite(x[i]);
    return finite;
}

/* numbers: stride << 32 | dilation of three axes, groups * 1000 + nr */
static void build_phases(const opf_kern *kern, const opf_const *w, const int64_t *numbers, int64_t unit, void *dst, void *scratch)
{
    (void)kern;
    (void)unit;
    const int64_t groups = numbers[3] / 1000, nr = numbers[3] % 1000, c = w->dims[0] / groups, o = w->dims[1], kernel = kernel_size(w);
    int64_t       count[OPF_MAX_RANK], all = 0;
    opf_phases    phases;
    float        *head = dst, *weights = read_format(w, numbers, scratch, &phases);
    for (int32_t i = 0; i < w->rank; i++)
        count[i] = w->dims[i];
    for (opf_phase_class class = {0}; opf_phases_next(&phases, &class);)
        all += opf_phase_floats(&class, c, o, groups, nr);
    memset(dst, 0, (size_t)(OPF_PHASES_HEAD + all) * sizeof *head);
    head[0] = 1;
    for (int64_t g = 0; g < groups; g++)
        for (int64_t first = 0; first < o; first += OUTPUTS) {
            const int64_t start[OPF_MAX_RANK] = {g * c, first};
            float        *panels              = head + OPF_PHASES_HEAD;
            count[0]                          = c;
            count[1]                          = o - first < OUTPUTS ? o - first : OUTPUTS;
            opf_const_read_f32(w, start, count, weights);
            head[0] = head[0] != 0 && are_finite(weights, c * count[1] * kernel);
            for (opf_phase_class class = {0}; opf_phases_next(&phases, &class);) {
                const int64_t floats = opf_phase_floats(&class, c, o, groups, nr);
                if (class.is_reached)
                    pack_class(&phases, &class, weights, c, o, first, count[1], nr, panels + floats / groups * g);
                panels += floats;
            }
        }
}

opf_weight_format opf_format_phases(const opf_const *w, const int64_t *stride, const int64_t *dilation, int64_t groups, int64_t nr)
{
    const int64_t     c = w->dims[0] / groups, o = w->dims[1];
    int64_t           floats = OPF_PHASES_HEAD;
    opf_phase         list[3 * OPF_PHASES_AXIS];
    opf_phases        phases;
    opf_weight_format format = {.name = "phases", .numbers = {0, 0, 0, groups * 1000 + nr}, .units = 1, .build = build_phases};
    opf_phases_find(w->rank - 2, w->dims + 2, stride, dilation, list, &phases);
    for (opf_phase_class class = {0}; opf_phases_next(&phases, &class);)
        floats += opf_phase_floats(&class, c, o, groups, nr);
    set_format(&format, w, stride, dilation, c * (o < OUTPUTS ? o : OUTPUTS) * kernel_size(w));
    format.bytes = (size_t)floats * sizeof(float);
    return format;
}

/* numbers: stride << 32 | dilation of three axes */
static void build_depthwise(const opf_kern *kern, const opf_const *w, const int64_t *numbers, int64_t unit, void *dst, void *scratch)
{
    (void)kern;
    (void)unit;
    const int64_t         start[OPF_MAX_RANK] = {0}, c = w->dims[0];
    opf_phases            phases;
    float                *out = dst, *in = read_format(w, numbers, scratch, &phases);
    const opf_phase_axis *axes = phases.axes;
    opf_const_read_f32(w, start, w->dims, in);
    for (const opf_phase *p0 = axes[0].phases; p0 < axes[0].phases + axes[0].stride; p0++)
        for (const opf_phase *p1 = axes[1].phases; p1 < axes[1].phases + axes[1].stride; p1++)
            for (const opf_phase *p2 = axes[2].phases; p2 < axes[2].phases + axes[2].stride; p2++)
                for (int64_t t = 0; t < p0->taps * p1->taps * p2->taps; t++, out += c) {
                    const int64_t t0 = kernel_tap(&axes[0], p0, t / (p1->taps * p2->taps)), t1 = kernel_tap(&axes[1], p1, t / p2->taps % p1->taps);
                    const int64_t at = (t0 * axes[1].kernel + t1) * axes[2].kernel + kernel_tap(&axes[2], p2, t % p2->taps);
                    for (int64_t i = 0; i < c; i++)
                        out[i] = in[i * kernel_size(w) + at];
                }
}

opf_weight_format opf_format_depthwise_phases(const opf_const *w, const int64_t *stride, const int64_t *dilation)
{
    opf_weight_format format = {.name = "depthwise_phases", .bytes = w->count * sizeof(float), .units = 1, .build = build_depthwise};
    set_format(&format, w, stride, dilation, (int64_t)w->count);
    return format;
}

/* numbers: n per group, groups, times, nr */
static void build_repeated(const opf_kern *kern, const opf_const *c, const int64_t *numbers, int64_t unit, void *dst, void *scratch)
{
    (void)kern;
    (void)unit;
    (void)scratch;
    const int64_t n = numbers[0], groups = numbers[1], times = numbers[2], padded = opf_round_up(n * times, numbers[3]);
    float        *out = dst;
    memset(out, 0, (size_t)(groups * padded) * sizeof *out);
    for (int64_t g = 0; g < groups; g++)
        for (int64_t i = 0; i < n * times; i++)
            out[g * padded + i] = (float)opf_const_f64_at(c, (size_t)(g * n + i % n));
}

opf_weight_format opf_format_repeated(int64_t n, int64_t groups, int64_t times, int64_t nr)
{
    return (opf_weight_format){.name    = "repeated",
                               .numbers = {n / groups, groups, times, nr},
                               .bytes   = (size_t)(groups * opf_round_up(n / groups * times, nr)) * sizeof(float),
                               .units   = 1,
                               .build   = build_repeated};
}
