/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps that hand an image on run together, band by band of lines, where the image would not stay in cache: what one writes
 * the next reads at once, from a ring of lines that each thread has in scratch, and the image as a whole never exists. The
 * numbers are the same: each element is computed as it would be otherwise.
 */
#ifndef OPF_PLAN_BANDS_H
#define OPF_PLAN_BANDS_H

#include "base/least.h"
#include "plan/planner.h"

typedef struct opf_span {
    int64_t from, to;
} opf_span;

/* Those of `in` lines (or pixels of one) that lie below the windows of some of the result. */
static inline opf_span opf_below_windows(int64_t in, int64_t window, int64_t stride, int64_t pad, opf_span result)
{
    const int64_t from = opf_most(0, result.from * stride - pad), to = opf_least(in, (result.to - 1) * stride - pad + window);
    return (opf_span){from, opf_most(from, to)};
}

/* How a step computes its result line by line. Line o of the result needs lines [o*stride - pad, o*stride - pad + window) of the
   image that it reads, those of them that the image has; all else that it reads is not the image. */
typedef struct opf_image_lines {
    /* Lines [first, end) of an image; the rest as for a step. */
    void (*run)(const opf_run_env *env, const void *args, size_t image, size_t first, size_t end, void *scratch);
    opf_ref x, y;              /* the image that it reads, and the result */
    size_t  images, in, out;   /* images; lines of an image that is read, and of a result */
    size_t  in_line, out_line; /* floats of a line, where lines and images follow one another in that memory; else 0 */
    int64_t window, stride, pad;
    int64_t step;              /* first is a multiple of it, and so is end where it is not that of the image */
    size_t  weights;           /* bytes that each band reads again */
    size_t  kept;              /* bytes of scratch that are its own from band to band of an image, and begin with a bool that is false where
                                  nothing is there yet; 0: it has scratch as a step has */
    bool    stores;            /* more than the result: lines that two bands need would be written by two threads */
} opf_image_lines;

/* Says of the latest step how it goes by lines. */
opf_status opf_plan_goes_by_lines(opf_planner *planner, const opf_image_lines *lines, opf_error *error);

/* Steps first to last run as the last of them from now on: what they read lives until its end, nothing that they write may take over
   what an earlier one reads, since they do not come one after the other any more, and the n buffers between them are not needed. */
void opf_plan_join_lives(opf_plan *plan, uint32_t first, uint32_t last, const uint32_t *between, size_t n);
/* The step has nothing left to do. */
void opf_plan_leave_step(opf_plan_step *step);

/* After all steps, before memory is planned: the last step of each chain runs all of it, the others have nothing left to do. */
opf_status opf_plan_bands(opf_planner *planner, opf_error *error);

#endif
