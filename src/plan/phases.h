/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A transposed convolution taken apart. Along an axis, position o of the result with o + pad = q*stride + residue gains tap t
 * of input position i where i*stride + t*dilation = q*stride + residue: which taps those are depends on the residue alone, its
 * phase, and the inputs lie at fixed distances before q. So a phase is a convolution of stride 1 over q. Phases whose taps are
 * as many and read the same inputs form a class: one product with the columns of all of them.
 */
#ifndef OPF_PLAN_PHASES_H
#define OPF_PLAN_PHASES_H

#include "plan/weights.h"

enum { OPF_PHASES_AXIS = 512, OPF_PHASES_MOST = 4096 }; /* of an axis; of all three together */

typedef struct opf_phase {
    int64_t residue;
    int64_t first, taps; /* tap `first` and every `step` of the axis on */
    int64_t shift;       /* tap `first` reads input q - shift, each next one `dilation` of the axis before that */
    int64_t before;      /* taps of the phases before this one */
} opf_phase;

typedef struct opf_phase_axis {
    int64_t    kernel, stride, step, dilation;
    opf_phase *phases; /* `stride` of them, those of a class side by side, by residue */
} opf_phase_axis;

/* Three axes, missing ones first and of size 1. Up to 3 axes in kernel, stride and dilation. */
typedef struct opf_phases {
    opf_phase_axis axes[3];
} opf_phases;

/* A class: n[i] phases from first[i] on of each axis, any with any. */
typedef struct opf_phase_class {
    int64_t first[3], n[3];
    int64_t taps[3]; /* at least 1, also of what no tap reaches */
    bool    is_reached;
} opf_phase_class;

/* Whether there are few enough; then their number. */
bool opf_phases_count(int32_t rank, const int64_t *stride, size_t *n);
/* room: as many. */
void opf_phases_find(int32_t rank, const int64_t *kernel, const int64_t *stride, const int64_t *dilation, opf_phase *room,
                     opf_phases *phases);
/* The class behind c, which is zeroed at first; false: there is none. */
bool opf_phases_next(const opf_phases *phases, opf_phase_class *c);

static inline int64_t opf_phase_cells(const opf_phase_class *c)
{
    return c->n[0] * c->n[1] * c->n[2];
}

/* Floats of a class in the format below, of o columns a phase and c elements a tap. */
int64_t opf_phase_floats(const opf_phase_class *class, int64_t c, int64_t o, int64_t groups, int64_t nr);

enum { OPF_PHASES_HEAD = 16 };
/* Weights [c, o, taps…] of `groups` groups, o of each: OPF_PHASES_HEAD floats, the first of which is 1 if all weights are finite,
   then class after class panels [groups][phases*o/nr][taps*c][nr], the taps of a class in the order of the inputs. */
opf_weight_format opf_format_phases(const opf_const *w, const int64_t *stride, const int64_t *dilation, int64_t groups, int64_t nr);
/* Weights [c, 1, taps…] of one filter a channel to [taps][c]: phase after phase of the first axis, in it of the second, in it of
   the third; the taps of three phases in the order of the inputs. */
opf_weight_format opf_format_depthwise_phases(const opf_const *w, const int64_t *stride, const int64_t *dilation);
/* A vector of n floats, those of each of `groups` groups repeated for the phases of a class and padded with zeros to a multiple
   of nr. */
opf_weight_format opf_format_repeated(int64_t n, int64_t groups, int64_t times, int64_t nr);

#endif
