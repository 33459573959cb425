/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/recurrent.h"

#include "ops/check.h"
#include "ops/lift.h"
#include "ops/recurrent_activations.h"

#include <math.h>
#include <string.h>

enum { X = 0, W, R, B, LENGTHS, INITIAL_H, INITIAL_C, P };
enum { Y = 0, Y_H, Y_C };
enum { MAX_FUNCTIONS = 2 * OPF_CELL_FUNCTIONS };

/* ---- attributes ---- */

typedef enum direction { FORWARD, REVERSE, BIDIRECTIONAL } direction;

static opf_status read_direction(const opf_attr *attrs, uint32_t n_attrs, direction *way, opf_error *error)
{
    /* In the order of direction. */
    static const char *const names[] = {"forward", "reverse", "bidirectional"};
    const opf_attr          *attr    = opf_attrs_find(attrs, n_attrs, "direction");
    const char              *name    = attr != NULL && attr->type == OPF_ATTR_STRING ? attr->s : names[FORWARD];
    for (unsigned i = 0; i < OPF_COUNT(names); i++)
        if (strcmp(name, names[i]) == 0) {
            *way = (direction)i;
            return OPF_OK;
        }
    return opf_fail(error, OPF_INVALID_MODEL, "direction is \"%s\", must be forward, reverse or bidirectional", name);
}

/* ---- inference ---- */

static opf_status check_shape(const opf_infer *infer, uint32_t i, const opf_dim *wanted, int32_t rank, opf_error *error)
{
    if (!opf_infer_has(infer, i) || infer->in[i]->rank < 0)
        return OPF_OK;
    bool fits = infer->in[i]->rank == rank;
    for (int32_t k = 0; k < rank && fits; k++)
        fits = !opf_dims_clash(infer->in[i]->dims[k], wanted[k]);
    if (fits)
        return OPF_OK;
    opf_info    info = {.type = infer->in[i]->type,
                        .rank = rank,
                        .dims = opf_arena_copy(infer->arena, wanted, (size_t)rank * sizeof *wanted)};
    const char *text = info.dims != NULL ? opf_info_string(&info, infer->dims, infer->arena) : NULL;
    OPF_OOM_IF(error, text == NULL);
    return opf_refuse_shapes(infer, i, i, error, "must be %s", text);
}

static opf_dim dim_of(const opf_infer *infer, uint32_t i, int32_t axis)
{
    return infer->in[i]->rank == 3 ? infer->in[i]->dims[axis] : opf_dim_unknown(infer->dims);
}

static opf_dim times(const opf_infer *infer, opf_dim a, int64_t b)
{
    return opf_dim_mul(infer->dims, a, opf_dim_number(b));
}

opf_status opf_recurrent_infer(opf_infer *infer, const opf_recurrence *recurrence, opf_error *error)
{
    const opf_node *node   = infer->node;
    const bool      layout = opf_node_int(node, "layout", 0) != 0;
    const opf_attr *given  = opf_node_attr(node, "hidden_size");
    const opf_attr *clip   = opf_node_attr(node, "clip");
    direction       way;
    opf_activation  functions[MAX_FUNCTIONS];
    OPF_TRY(read_direction(node->attrs, node->n_attrs, &way, error));
    OPF_FAIL_IF(error, clip != NULL && !(clip->f >= 0), OPF_INVALID_MODEL, "clip is %g, must be at least 0",
                clip != NULL ? (double)clip->f : 0);
    const uint32_t directions = way == BIDIRECTIONAL ? 2 : 1;
    OPF_TRY(opf_activations_read(node->attrs, node->n_attrs, recurrence, directions, functions, error));
    for (uint32_t i = X; i <= R; i++)
        if (infer->in[i]->rank >= 0 && infer->in[i]->rank != 3)
            return opf_refuse_shapes(infer, i, i, error, "must have rank 3");
    const opf_dim ways = opf_dim_number(directions), steps = dim_of(infer, X, layout ? 1 : 0),
                  batch  = dim_of(infer, X, layout ? 0 : 1);
    const opf_dim inputs = dim_of(infer, X, 2), hidden = given != NULL ? opf_dim_number(given->i) : dim_of(infer, R, 2);
    const opf_dim sums = times(infer, hidden, recurrence->gates);
    OPF_FAIL_IF(error, opf_dim_is_number(hidden) && hidden.n < 1, OPF_INVALID_MODEL,
                "hidden_size is %lld, must be at least 1", (long long)hidden.n);
    OPF_TRY(check_shape(infer, W, (const opf_dim[]){ways, sums, inputs}, 3, error));
    OPF_TRY(check_shape(infer, R, (const opf_dim[]){ways, sums, hidden}, 3, error));
    OPF_TRY(check_shape(infer, B, (const opf_dim[]){ways, times(infer, sums, 2)}, 2, error));
    OPF_TRY(check_shape(infer, LENGTHS, &batch, 1, error));
    OPF_TRY(check_shape(infer, P, (const opf_dim[]){ways, times(infer, hidden, 3)}, 2, error));
    const opf_dim state[3]    = {layout ? batch : ways, layout ? ways : batch, hidden};
    const opf_dim sequence[4] = {layout ? batch : steps, layout ? steps : ways, layout ? ways : batch, hidden};
    OPF_TRY(check_shape(infer, INITIAL_H, state, 3, error));
    OPF_TRY(check_shape(infer, INITIAL_C, state, 3, error));
    for (uint32_t o = 0; o < infer->n_out; o++)
        OPF_TRY(opf_infer_set(infer, o, o == Y ? 4 : 3, o == Y ? sequence : state, error));
    return OPF_OK;
}

/* ---- weights ---- */

static bool has_input(const opf_call *call, uint32_t i)
{
    return i < call->n_in && call->in[i].data != NULL;
}

static void load_vector(const opf_view *view, int64_t offset, int64_t step, int64_t n, double *dst)
{
    for (int64_t i = 0; i < n; i++)
        dst[i] = opf_view_f64(view, offset + i * step);
}

/* dst[c][r] = view[way][r][c] */
static void load_transposed(const opf_view *view, int64_t way, double *dst)
{
    const int64_t rows = view->dims[1], cols = view->dims[2];
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++)
            dst[c * rows + r] =
                opf_view_f64(view, way * view->strides[0] + r * view->strides[1] + c * view->strides[2]);
}

/* n elements of row `way` from `first` on; zeros when the input is absent. */
static void load_row(const opf_call *call, uint32_t input, int64_t way, int64_t first, int64_t n, double *dst)
{
    if (!has_input(call, input)) {
        memset(dst, 0, (size_t)n * sizeof *dst);
        return;
    }
    const opf_view *view = &call->in[input];
    load_vector(view, way * view->strides[0] + first * view->strides[1], view->strides[1], n, dst);
}

static void load_weights(const opf_call *call, int64_t way, opf_cell *cell)
{
    const int64_t sums = cell->gates * cell->hidden;
    load_transposed(&call->in[W], way, cell->w);
    load_transposed(&call->in[R], way, cell->r);
    load_row(call, B, way, 0, sums, cell->w_bias);
    load_row(call, B, way, sums, sums, cell->r_bias);
    load_row(call, P, way, 0, 3 * cell->hidden, cell->peephole);
}

void opf_cell_add(const opf_cell *cell, const double *matrix, const double *vector, int64_t n_vector, int64_t first,
                  int64_t n, double *sum)
{
    const int64_t row = cell->gates * cell->hidden;
    for (int64_t k = 0; k < n_vector; k++) {
        const double *from = &matrix[k * row + first];
        for (int64_t j = 0; j < n; j++)
            sum[j] += from[j] * vector[k];
    }
}

/* ---- running ---- */

typedef struct sequence_job {
    const opf_call       *call;
    const opf_recurrence *recurrence;
    opf_cell              cell;
    bool                  layout;
    int64_t               steps, batch;
} sequence_job;

/* The offset of element 0 of a state [way, b] or of a step of Y [t, way, b]. */
static int64_t state_offset(const sequence_job *job, const opf_view *view, int64_t way, int64_t b)
{
    return (job->layout ? b : way) * view->strides[0] + (job->layout ? way : b) * view->strides[1];
}
static int64_t step_offset(const sequence_job *job, const opf_view *view, int64_t t, int64_t way, int64_t b)
{
    if (job->layout)
        return b * view->strides[0] + t * view->strides[1] + way * view->strides[2];
    return t * view->strides[0] + way * view->strides[1] + b * view->strides[2];
}

static void store_vector(opf_view *view, int64_t offset, int64_t step, int64_t n, const double *src)
{
    for (int64_t i = 0; i < n; i++)
        opf_view_put_f64(view, offset + i * step, src != NULL ? src[i] : 0);
}

static void load_state(const sequence_job *job, uint32_t input, int64_t way, int64_t b, double *dst)
{
    if (!has_input(job->call, input)) {
        memset(dst, 0, (size_t)job->cell.hidden * sizeof *dst);
        return;
    }
    const opf_view *view = &job->call->in[input];
    load_vector(view, state_offset(job, view, way, b), view->strides[2], job->cell.hidden, dst);
}

static bool wants(const opf_call *call, uint32_t output)
{
    return output < call->n_out && call->out[output].data != NULL;
}

static void run_sequence(sequence_job *job, int64_t way, bool backwards, int64_t b)
{
    const opf_call *call   = job->call;
    const opf_view *x      = &call->in[X];
    opf_cell       *cell   = &job->cell;
    const int64_t   sums   = cell->gates * cell->hidden;
    int64_t         length = job->steps;
    if (has_input(call, LENGTHS))
        length = opf_view_i64(&call->in[LENGTHS], b * call->in[LENGTHS].strides[0]);
    load_state(job, INITIAL_H, way, b, cell->h);
    load_state(job, INITIAL_C, way, b, cell->c);
    for (int64_t i = 0; i < job->steps; i++) {
        const int64_t t    = backwards && i < length ? length - 1 - i : i;
        const int64_t from = b * x->strides[job->layout ? 0 : 1] + t * x->strides[job->layout ? 1 : 0];
        if (i < length) {
            load_vector(x, from, x->strides[2], cell->inputs, cell->x);
            memcpy(cell->sum, cell->w_bias, (size_t)sums * sizeof *cell->sum);
            opf_cell_add(cell, cell->w, cell->x, cell->inputs, 0, sums, cell->sum);
            job->recurrence->step(cell);
        }
        if (wants(call, Y)) /* zeros behind the end */
            store_vector(&call->out[Y], step_offset(job, &call->out[Y], t, way, b), call->out[Y].strides[3],
                         cell->hidden, i < length ? cell->h : NULL);
    }
    for (uint32_t o = Y_H; o <= Y_C; o++)
        if (wants(call, o))
            store_vector(&call->out[o], state_offset(job, &call->out[o], way, b), call->out[o].strides[2], cell->hidden,
                         o == Y_H ? cell->h : cell->c);
}

/* Parts of one block of doubles: counts[i] of them go to *parts[i]. */
static opf_status open_cell(const opf_call *call, opf_cell *cell, double **block, size_t *bytes, opf_error *error)
{
    const size_t hidden = (size_t)cell->hidden, inputs = (size_t)cell->inputs;
    size_t       sums = 0, w = 0, r = 0, total = 0;
    bool         fits = opf_mul_size((size_t)cell->gates, hidden, &sums) && opf_mul_size(sums, inputs, &w) &&
                opf_mul_size(sums, hidden, &r);
    double     **parts[]  = {&cell->w,        &cell->r, &cell->w_bias, &cell->r_bias, &cell->sum,
                             &cell->peephole, &cell->x, &cell->h,      &cell->c,      &cell->scratch};
    const size_t counts[] = {w, r, sums, sums, sums, 3 * hidden, inputs, hidden, hidden, 2 * hidden};
    for (unsigned i = 0; i < OPF_COUNT(parts); i++)
        fits = fits && opf_add_size(total, counts[i], &total);
    OPF_FAIL_IF(error, !fits || !opf_mul_size(total, sizeof(double), bytes), OPF_LIMIT, "the weights are too large");
    *block = opf_heap_alloc(call->heap, *bytes);
    OPF_OOM_IF(error, *block == NULL);
    double *at = *block;
    for (unsigned i = 0; i < OPF_COUNT(parts); i++) {
        *parts[i] = at;
        at += counts[i];
    }
    return OPF_OK;
}

static opf_status check_lengths(const sequence_job *job, opf_error *error)
{
    const opf_view *lengths = &job->call->in[LENGTHS];
    for (int64_t b = 0; b < job->batch && has_input(job->call, LENGTHS); b++) {
        const int64_t length = opf_view_i64(lengths, b * lengths->strides[0]);
        OPF_FAIL_IF(error, length < 0 || length > job->steps, OPF_INVALID_INPUT,
                    "sequence_lens[%lld] is %lld, must be between 0 and %lld", (long long)b, (long long)length,
                    (long long)job->steps);
    }
    return OPF_OK;
}

opf_status opf_recurrent_run(const opf_call *call, const opf_recurrence *recurrence, opf_error *error)
{
    const opf_view *x   = &call->in[X];
    sequence_job    job = {.call = call, .recurrence = recurrence, .layout = opf_call_int(call, "layout", 0) != 0};
    opf_activation  functions[MAX_FUNCTIONS];
    direction       way;
    double         *block = NULL;
    size_t          bytes = 0;
    OPF_TRY(read_direction(call->attrs, call->n_attrs, &way, error));
    const uint32_t directions = way == BIDIRECTIONAL ? 2 : 1;
    OPF_TRY(opf_activations_read(call->attrs, call->n_attrs, recurrence, directions, functions, error));
    job.steps = x->dims[job.layout ? 1 : 0];
    job.batch = x->dims[job.layout ? 0 : 1];
    job.cell  = (opf_cell){.inputs              = x->dims[2],
                           .hidden              = call->in[R].dims[2],
                           .gates               = recurrence->gates,
                           .clip                = (double)opf_call_float(call, "clip", INFINITY),
                           .linear_before_reset = opf_call_int(call, "linear_before_reset", 0) != 0,
                           .input_forget        = opf_call_int(call, "input_forget", 0) != 0};
    OPF_TRY(check_lengths(&job, error));
    OPF_TRY(open_cell(call, &job.cell, &block, &bytes, error));
    for (uint32_t d = 0; d < directions; d++) {
        load_weights(call, d, &job.cell);
        memcpy(job.cell.f, &functions[d * recurrence->functions], recurrence->functions * sizeof *functions);
        for (int64_t b = 0; b < job.batch; b++)
            run_sequence(&job, d, way == REVERSE || d == 1, b);
    }
    opf_heap_free(call->heap, block, bytes);
    return OPF_OK;
}

/* ---- older opsets ---- */

/* The default of GRU in opset 1 was spelt so, and there was no linear_before_reset. */
static opf_status lift_3(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    (void)opset;
    (void)error;
    if (strcmp(opf_node_string(opf_graph_node(graph, id), "direction", ""), "foward") != 0)
        return OPF_OK;
    return opf_drop_attr(graph, id, "direction"); /* forward is the default */
}

static opf_status lower_3(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    const opf_node *node = opf_graph_node(graph, id);
    (void)opset;
    if (node->op != &opf_op_GRU)
        return OPF_OK;
    OPF_FAIL_IF(error, node->n_own_outputs <= Y_H || node->outputs[Y_H] == 0, OPF_UNSUPPORTED,
                "%s (GRU): an output that is left out needs opset 3", node->name);
    if (opf_node_attr(node, "direction") == NULL)
        OPF_OOM_IF(error, !opf_node_set_attr(graph, id, (opf_attr){.name = "direction", .type = OPF_ATTR_STRING, .s = "forward", .n = 7}));
    return opf_lower_attr(graph, id, "linear_before_reset", 0, error);
}

/* Told whether Y was wanted: now an output that is there is. */
static opf_status lift_output_sequence(opf_graph *graph, opf_node_id node, int32_t opset, opf_error *error)
{
    (void)opset;
    (void)error;
    return opf_drop_attr(graph, node, "output_sequence");
}

static opf_status lower_output_sequence(opf_graph *graph, opf_node_id id, int32_t opset, opf_error *error)
{
    (void)opset;
    OPF_OOM_IF(error, !opf_node_set_int(graph, id, "output_sequence", opf_graph_node(graph, id)->outputs[Y] != 0));
    return OPF_OK;
}

static opf_status lower_layout(opf_graph *graph, opf_node_id node, int32_t opset, opf_error *error)
{
    (void)opset;
    return opf_lower_attr(graph, node, "layout", 0, error);
}

const opf_import_row opf_recurrent_rows[OPF_RECURRENT_ROWS] = {{3, lift_3, lower_3},
                                                               {7, lift_output_sequence, lower_output_sequence},
                                                               {14, opf_import_same, lower_layout},
                                                               {22, opf_import_same, opf_lower_no_bfloat16}};
