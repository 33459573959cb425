/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/recurrent_run.h"
#include "base/round.h"

#include <math.h>
#include <string.h>

/* A block of rows of one direction at work. */
typedef struct {
    const opf_run_env *env;
    const opf_recurrent_args *args;
    size_t way, first, rows;
    const float **x_rows, **h_rows, **part_rows; /* where rows lie, of tiles: the last one repeated */
    float *sums;                                 /* [chunk][rows][gates*hidden] */
    float *h, *c, *part;                         /* [rows][hidden]; part: what the reset gate multiplies */
    float *program;                              /* scratch of the epilogue */
} worker;

static float *row_at(const opf_run_env *env, const opf_recurrent_rows *rows, size_t time, size_t way, size_t batch)
{
    return (float *)opf_ref_data(env, rows->ref) + (ptrdiff_t)time * rows->time + (ptrdiff_t)way * rows->way +
           (ptrdiff_t)batch * rows->batch;
}

/* ---- products ---- */

static void repeat_last(const float **rows, size_t n, size_t mr)
{
    for (size_t r = n; r % mr != 0; r++)
        rows[r] = rows[n - 1];
}

static void point_at(const float **pointers, const float *rows, size_t n, size_t stride, size_t mr)
{
    for (size_t r = 0; r < n; r++)
        pointers[r] = rows + r * stride;
    repeat_last(pointers, n, mr);
}

/* dst = rows * matrix + bias, added to what dst holds where `adds`. A panel goes by all rows while it is in cache. */
static void multiply(const worker *w, const opf_recurrent_matrix *m, const float *const *rows, size_t n_rows,
                     float *dst, size_t stride, bool adds)
{
    const opf_kern *kern = w->env->kern;
    const size_t mr = kern->mr, nr = kern->nr, panels = opf_divide_up(m->n, nr);
    for (size_t p = 0; p < panels; p++)
        for (size_t r = 0; r < n_rows; r += mr) {
            const size_t panel = w->way * panels + p;
            opf_gemm_tile tile = {.a = rows + r,
                                  .taps = 1,
                                  .kc = m->k,
                                  .b = m->panels + panel * m->k * nr,
                                  .bias = m->bias == NULL ? NULL : m->bias + panel * nr,
                                  .c = dst + r * stride + p * nr,
                                  .c_stride = (ptrdiff_t)stride,
                                  .lo = -INFINITY,
                                  .hi = INFINITY};
            tile.residual = adds ? tile.c : NULL;
            tile.residual_stride = tile.c_stride;
            kern->gemm(&tile, n_rows - r < mr ? n_rows - r : mr, m->n - p * nr < nr ? m->n - p * nr : nr);
        }
}

/* ---- steps ---- */

/* sums: of the step, [rows][gates*hidden]. They become gates in place. */

static void step_rnn(const worker *w, float *sums)
{
    const size_t n = w->args->hidden;
    multiply(w, &w->args->state, w->h_rows, w->rows, sums, n, true);
    w->env->kern->ew[w->args->f[w->way][0]](w->h, sums, NULL, w->rows * n, NULL);
}

/* Gates z, r, h. */
static void step_gru(const worker *w, float *sums)
{
    static const float complement[] = {-1, 1};
    const opf_recurrent_args *a = w->args;
    const opf_ew *f = a->f[w->way];
    const opf_ew_fn *ew = w->env->kern->ew;
    const size_t n = a->hidden, row = 3 * n;
    multiply(w, &a->state, w->h_rows, w->rows, sums, row, true);
    if (a->resets_product)
        multiply(w, &a->reset, w->h_rows, w->rows, w->part, n, false);
    for (size_t i = 0; i < w->rows; i++) {
        float *z = sums + i * row, *r = z + n, *part = w->part + i * n;
        ew[f[0]](z, z, NULL, 2 * n, NULL);
        ew[OPF_EW_MUL](part, r, a->resets_product ? part : w->h + i * n, n, NULL);
    }
    if (!a->resets_product)
        multiply(w, &a->reset, w->part_rows, w->rows, sums + 2 * n, row, true);
    for (size_t i = 0; i < w->rows; i++) {
        float *z = sums + i * row, *r = z + n, *fresh = r + n, *h = w->h + i * n;
        if (a->resets_product)
            ew[OPF_EW_ADD](fresh, fresh, w->part + i * n, n, NULL);
        ew[f[1]](fresh, fresh, NULL, n, NULL);
        ew[OPF_EW_AFFINE](r, z, NULL, n, complement);
        ew[OPF_EW_MUL](fresh, r, fresh, n, NULL);
        ew[OPF_EW_MUL](h, z, h, n, NULL);
        ew[OPF_EW_ADD](h, fresh, h, n, NULL);
    }
}

/* Gates i, o, f, c. */
static void step_lstm(const worker *w, float *sums)
{
    const opf_ew *functions = w->args->f[w->way];
    const opf_ew_fn *ew = w->env->kern->ew;
    const size_t n = w->args->hidden, row = 4 * n;
    multiply(w, &w->args->state, w->h_rows, w->rows, sums, row, true);
    for (size_t r = 0; r < w->rows; r++) {
        float *i = sums + r * row, *o = i + n, *f = o + n, *fresh = f + n, *c = w->c + r * n;
        ew[functions[0]](i, i, NULL, 3 * n, NULL);
        ew[functions[1]](fresh, fresh, NULL, n, NULL);
        ew[OPF_EW_MUL](fresh, i, fresh, n, NULL);
        ew[OPF_EW_MUL](c, f, c, n, NULL);
        ew[OPF_EW_ADD](c, c, fresh, n, NULL);
        ew[functions[2]](fresh, c, NULL, n, NULL);
        ew[OPF_EW_MUL](w->h + r * n, o, fresh, n, NULL);
    }
}

static void (*const steps[])(const worker *w, float *sums) = {
    [OPF_CELL_RNN] = step_rnn, [OPF_CELL_GRU] = step_gru, [OPF_CELL_LSTM] = step_lstm};

/* ---- states and results ---- */

static void load_state(const worker *w, const opf_recurrent_rows *state, float *dst)
{
    const size_t n = w->args->hidden;
    if (state->ref.buffer == 0) {
        memset(dst, 0, w->rows * n * sizeof *dst);
        return;
    }
    w->env->kern->copy_2d(row_at(w->env, state, 0, w->way, w->first), state->batch, state->col, dst, (ptrdiff_t)n,
                          w->rows, n);
}

static void store_state(const worker *w, const opf_recurrent_rows *state, const float *src)
{
    const size_t n = w->args->hidden;
    if (state->ref.buffer != 0)
        w->env->kern->copy_2d(src, (ptrdiff_t)n, 1, row_at(w->env, state, 0, w->way, w->first), state->batch, w->rows,
                              n);
}

static void store_step(const worker *w, size_t time)
{
    const opf_recurrent_args *a = w->args;
    const size_t n = a->hidden;
    opf_operand operands[OPF_PROGRAM_OPERANDS];
    opf_store stores[OPF_PROGRAM_OPERANDS];
    if (a->y.ref.buffer == 0)
        return;
    for (size_t r = 0; r < w->rows; r++) {
        const size_t batch = w->first + r;
        const float *h = w->h + r * n;
        float *y = row_at(w->env, &a->y, time, w->way, batch);
        if (a->epilogue.program.n == 0) {
            memcpy(y, h, n * sizeof *y);
            continue;
        }
        opf_bound_at(w->env, &a->epilogue, a->batch_first ? batch * a->steps + time : time * a->ways + w->way,
                     a->batch_first ? w->way : batch, 0, operands, stores);
        opf_program_run(w->env->kern, &a->epilogue.program, operands, stores, h, (ptrdiff_t)n, y, (ptrdiff_t)n, 1, n,
                        w->program);
    }
}

/* ---- running ---- */

static void run_block(const worker *w)
{
    const opf_recurrent_args *a = w->args;
    const size_t mr = w->env->kern->mr, row = a->input.n;
    point_at(w->h_rows, w->h, w->rows, a->hidden, mr);
    point_at(w->part_rows, w->part, w->rows, a->hidden, mr);
    load_state(w, &a->initial_h, w->h);
    if (a->cell == OPF_CELL_LSTM)
        load_state(w, &a->initial_c, w->c);
    for (size_t i = 0; i < a->steps; i += a->chunk) {
        const size_t n = a->steps - i < a->chunk ? a->steps - i : a->chunk;
        for (size_t k = 0; k < n * w->rows; k++) {
            const size_t time = i + k / w->rows;
            w->x_rows[k] =
                row_at(w->env, &a->x, a->backwards[w->way] ? a->steps - 1 - time : time, 0, w->first + k % w->rows);
        }
        repeat_last(w->x_rows, n * w->rows, mr);
        multiply(w, &a->input, w->x_rows, n * w->rows, w->sums, row, false);
        for (size_t k = 0; k < n; k++) {
            steps[a->cell](w, w->sums + k * w->rows * row);
            store_step(w, a->backwards[w->way] ? a->steps - 1 - (i + k) : i + k);
        }
    }
    store_state(w, &a->last_h, w->h);
    if (a->cell == OPF_CELL_LSTM)
        store_state(w, &a->last_c, w->c);
}

static size_t scratch_layout(const opf_recurrent_args *a, const opf_kern *kern, worker *w, char *scratch)
{
    const size_t padded = opf_divide_up(a->rows, kern->mr) * kern->mr,
                 state = opf_round_64(a->rows * a->hidden * sizeof(float));
    size_t at = 0;
    w->h_rows = (const float **)(void *)(scratch + at);
    at += opf_round_64(padded * sizeof(float *));
    w->part_rows = (const float **)(void *)(scratch + at);
    at += opf_round_64(padded * sizeof(float *));
    w->x_rows = (const float **)(void *)(scratch + at);
    at += opf_round_64((a->chunk * a->rows + kern->mr) * sizeof(float *));
    w->h = (float *)(void *)(scratch + at);
    at += state;
    w->c = (float *)(void *)(scratch + at);
    at += a->cell == OPF_CELL_LSTM ? state : 0;
    w->part = (float *)(void *)(scratch + at);
    at += a->cell == OPF_CELL_GRU ? state : 0;
    w->sums = (float *)(void *)(scratch + at);
    at += opf_round_64(a->chunk * a->rows * a->input.n * sizeof(float));
    w->program = (float *)(void *)(scratch + at);
    return at + opf_program_scratch(&a->epilogue.program) * sizeof(float);
}

void opf_recurrent_run_blocks(const opf_run_env *env, const void *args, size_t begin, size_t end, void *scratch)
{
    const opf_recurrent_args *a = args;
    worker w = {.env = env, .args = a};
    (void)scratch_layout(a, env->kern, &w, scratch);
    for (size_t unit = begin; unit < end; unit++) {
        const size_t block = unit % a->blocks;
        w.way = unit / a->blocks;
        w.first = a->batch * block / a->blocks;
        w.rows = a->batch * (block + 1) / a->blocks - w.first;
        run_block(&w);
    }
}

size_t opf_recurrent_scratch(const opf_recurrent_args *args, const opf_kern *kern)
{
    worker w;
    return scratch_layout(args, kern, &w, NULL);
}
