/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Normalisation of images whose pixels of one channel lie in one line: a unit takes the lines of one group of channels.
 * Mean and variance are those of pieces that stay in L1, each taken in two passes, joined in order: memory is read once
 * for them.
 */
#include "plan/norm.h"

enum { PIECE = 4096 }; /* floats that are taken at once */

typedef struct lines_args {
    opf_norm norm;
    size_t images, groups, channels, pixels; /* images of a unit, groups of an image, channels of a group */
    opf_ref x, y;
    ptrdiff_t x_image, x_channel;
    opf_norm_vector gamma, beta;
    float lo, hi;
    opf_bound epilogue;
} lines_args;

typedef struct moments {
    double mean, sum; /* sum: of squares about the mean */
    size_t n;
} moments;

static void add_line(const opf_kern *kern, const float *x, size_t n, moments *m)
{
    for (size_t i = 0; i < n; i += PIECE) {
        const size_t piece = n - i < PIECE ? n - i : PIECE;
        const double mean = (double)kern->reduce_sum(x + i, piece) / (double)piece, d = mean - m->mean;
        const double sum = (double)kern->square_sum(x + i, piece, (float)mean),
                     share = (double)piece / (double)(m->n + piece);
        m->sum += sum + d * d * (double)m->n * share;
        m->mean += d * share;
        m->n += piece;
    }
}

/* One line of one channel, which is outer index `outer` of the steps. */
static void write_line(const opf_run_env *env, const lines_args *a, const float *x, float *y, size_t outer,
                       const opf_affine *affine, float *scratch)
{
    opf_operand operands[OPF_PROGRAM_OPERANDS];
    opf_store stores[OPF_PROGRAM_OPERANDS];
    const size_t piece = a->epilogue.program.n == 0 ? a->pixels : PIECE;
    for (size_t i = 0; i < a->pixels; i += piece) {
        const size_t n = a->pixels - i < piece ? a->pixels - i : piece;
        env->kern->normalise(x + i, affine, y + i, n);
        if (a->epilogue.program.n == 0)
            continue;
        opf_bound_at(env, &a->epilogue, outer, 0, i, operands, stores);
        opf_program_run(env->kern, &a->epilogue.program, operands, stores, y + i, (ptrdiff_t)n, y + i, (ptrdiff_t)n, 1,
                        n, scratch);
    }
}

static void run_lines(const opf_run_env *env, const void *args, size_t begin, size_t end, void *scratch)
{
    const lines_args *a = args;
    const float *gamma = opf_norm_data(env, &a->gamma), *beta = opf_norm_data(env, &a->beta);
    const size_t all = a->groups * a->channels;
    for (size_t unit = begin; unit < end; unit++) {
        const size_t image = unit / a->groups, first = unit % a->groups * a->channels;
        const float *x = (const float *)opf_ref_data(env, a->x) + (ptrdiff_t)image * a->x_image;
        float *y = (float *)opf_ref_data(env, a->y) + image * all * a->pixels;
        moments m = {0};
        for (size_t i = 0; i < a->images && a->norm.kind != OPF_NORM_NONE; i++)
            for (size_t c = first; c < first + a->channels; c++)
                add_line(env->kern, x + (ptrdiff_t)i * a->x_image + (ptrdiff_t)c * a->x_channel, a->pixels, &m);
        const float scale = opf_norm_scale(&a->norm, m.sum, (double)m.n);
        for (size_t i = 0; i < a->images; i++)
            for (size_t c = first; c < first + a->channels; c++) {
                const opf_affine affine = {.mean = (float)m.mean,
                                           .scale = gamma != NULL ? scale * gamma[c] : scale,
                                           .shift = beta != NULL ? beta[c] : 0,
                                           .lo = a->lo,
                                           .hi = a->hi};
                write_line(env, a, x + (ptrdiff_t)i * a->x_image + (ptrdiff_t)c * a->x_channel,
                           y + (i * all + c) * a->pixels, (image + i) * all + c, &affine, scratch);
            }
    }
}

opf_status opf_plan_norm_lines(opf_planner *planner, const opf_node *node, const opf_norm_lines *lines,
                               const opf_place *input, opf_lowered *epilogue, const char *kernel, opf_error *error)
{
    lines_args a = {.norm = lines->norm, .pixels = 1, .gamma = lines->gamma, .beta = lines->beta};
    opf_place x = *input, y, e_in[OPF_PROGRAM_OPERANDS], e_out[OPF_PROGRAM_OPERANDS];
    int64_t pixel;
    opf_lower_clamp(epilogue, &a.lo, &a.hi);
    for (int32_t i = 2; i < x.rank; i++)
        a.pixels *= (size_t)x.dims[i];
    if (!opf_place_linear(&x, 2, x.rank - 1, &pixel) || (pixel != 1 && a.pixels > 1))
        OPF_TRY(opf_plan_dense(planner, &x, NULL, error));
    OPF_TRY(opf_plan_alloc(planner, node->outputs[0], NULL, &y, error));
    const opf_split split = {
        .outer_first = 0, .outer_last = 1, .row_first = 0, .row_last = -1, .col = 2, .more_cols = x.rank - 3};
    if (epilogue->program.n != 0)
        OPF_TRY(opf_bind(planner, epilogue, &y, split, &a.epilogue, e_in, e_out, error));
    a.images = lines->all_images ? (size_t)x.dims[0] : 1;
    a.groups = (size_t)lines->groups;
    a.channels = (size_t)(x.dims[1] / lines->groups);
    a.x = opf_place_ref(&x);
    a.y = opf_place_ref(&y);
    a.x_image = (ptrdiff_t)x.strides[0];
    a.x_channel = (ptrdiff_t)x.strides[1];
    lines_args *kept = opf_arena_copy(planner->arena, &a, sizeof a);
    OPF_OOM_IF(error, kept == NULL);
    const opf_plan_step step = {.kernel = kernel,
                                .run = run_lines,
                                .args = kept,
                                .units = (size_t)x.dims[0] / a.images * a.groups,
                                .scratch_bytes = opf_program_scratch(&epilogue->program) * sizeof(float),
                                .flops = 8.0 * (double)opf_place_elements(&x)};
    OPF_TRY(opf_plan_add_step(planner, &step, error));
    opf_plan_reads(planner, &x);
    opf_plan_writes(planner, &y);
    opf_norm_touch(planner, &a.gamma);
    opf_norm_touch(planner, &a.beta);
    opf_bound_touch(planner, &a.epilogue, e_in, e_out);
    opf_norm_may_share(planner, &y, &x, &a.gamma, &a.beta, &a.epilogue, e_in);
    return OPF_OK;
}
