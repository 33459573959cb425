/* SPDX-License-Identifier: Apache-2.0 */
/* RNN, GRU and LSTM: what one step does. */
#include "ops/elementwise.h"
#include "ops/recurrent.h"

/* Gate g's sums, clipped, through an activation. */
static void activate(const opf_cell *cell, int64_t g, const opf_activation *f)
{
    double *sum = &cell->sum[g * cell->hidden];
    for (int64_t j = 0; j < cell->hidden; j++)
        sum[j] = opf_activate(f, opf_cell_clip(cell, sum[j]));
}

/* Adds r h and its bias to gates [first, first + n). */
static void add_recurrent(const opf_cell *cell, int64_t first, int64_t n)
{
    const int64_t begin = first * cell->hidden, count = n * cell->hidden;
    for (int64_t j = 0; j < count; j++)
        cell->sum[begin + j] += cell->r_bias[begin + j];
    opf_cell_add(cell, cell->r, cell->h, cell->hidden, begin, count, &cell->sum[begin]);
}

static void step_rnn(opf_cell *cell)
{
    add_recurrent(cell, 0, 1);
    activate(cell, 0, &cell->f[0]);
    for (int64_t j = 0; j < cell->hidden; j++)
        cell->h[j] = cell->sum[j];
}

/* Gates z, r, h. */
static void step_gru(opf_cell *cell)
{
    const int64_t n = cell->hidden;
    double       *z = cell->sum, *r = z + n, *h = r + n, *part = cell->scratch, *reset = part + n;
    add_recurrent(cell, 0, 2);
    activate(cell, 0, &cell->f[0]);
    activate(cell, 1, &cell->f[0]);
    for (int64_t j = 0; j < n; j++) {
        part[j]  = cell->r_bias[2 * n + j];
        reset[j] = r[j] * cell->h[j];
    }
    opf_cell_add(cell, cell->r, cell->linear_before_reset ? cell->h : reset, n, 2 * n, n, part);
    for (int64_t j = 0; j < n; j++)
        h[j] += cell->linear_before_reset ? r[j] * part[j] : part[j];
    activate(cell, 2, &cell->f[1]);
    for (int64_t j = 0; j < n; j++)
        cell->h[j] = (1 - z[j]) * h[j] + z[j] * cell->h[j];
}

/* Gates i, o, f, c; peepholes i, o, f. */
static void step_lstm(opf_cell *cell)
{
    const int64_t n = cell->hidden;
    double       *i = cell->sum, *o = i + n, *f = o + n, *c = f + n;
    const double *p = cell->peephole;
    add_recurrent(cell, 0, 4);
    for (int64_t j = 0; j < n; j++) {
        i[j] += p[j] * cell->c[j];
        f[j] += p[2 * n + j] * cell->c[j];
    }
    activate(cell, 0, &cell->f[0]);
    activate(cell, 2, &cell->f[0]);
    activate(cell, 3, &cell->f[1]);
    for (int64_t j = 0; j < n; j++) {
        const double forget = cell->input_forget ? 1 - i[j] : f[j];
        cell->c[j]          = forget * cell->c[j] + i[j] * c[j];
        o[j] += p[n + j] * cell->c[j];
    }
    activate(cell, 1, &cell->f[0]);
    for (int64_t j = 0; j < n; j++)
        cell->h[j] = o[j] * opf_activate(&cell->f[2], cell->c[j]);
}

static const opf_recurrence rnn  = {.gates = 1, .functions = 1, .defaults = {"Tanh"}, .step = step_rnn};
static const opf_recurrence gru  = {.gates = 3, .functions = 2, .defaults = {"Sigmoid", "Tanh"}, .step = step_gru};
static const opf_recurrence lstm = {
    .gates = 4, .functions = 3, .defaults = {"Sigmoid", "Tanh", "Tanh"}, .step = step_lstm};

#define LENGTHS OPF_TYPE_BIT(OPF_INT32)
static const opf_param inputs[]  = {{"X", 'T', OPF_TYPES_FLOAT, 0},
                                    {"W", 'T', OPF_TYPES_FLOAT, 0},
                                    {"R", 'T', OPF_TYPES_FLOAT, 0},
                                    {"B", 'T', OPF_TYPES_FLOAT, OPF_OPTIONAL},
                                    {"sequence_lens", 0, LENGTHS, OPF_OPTIONAL},
                                    {"initial_h", 'T', OPF_TYPES_FLOAT, OPF_OPTIONAL},
                                    {"initial_c", 'T', OPF_TYPES_FLOAT, OPF_OPTIONAL},
                                    {"P", 'T', OPF_TYPES_FLOAT, OPF_OPTIONAL}};
static const opf_param outputs[] = {{"Y", 'T', OPF_TYPES_FLOAT, OPF_OPTIONAL},
                                    {"Y_h", 'T', OPF_TYPES_FLOAT, OPF_OPTIONAL},
                                    {"Y_c", 'T', OPF_TYPES_FLOAT, OPF_OPTIONAL}};

/* clang-format off */
#define COMMON_ATTRS                                                                                                   \
    {.name = "activation_alpha", .type = OPF_ATTR_FLOATS},                                                             \
    {.name = "activation_beta", .type = OPF_ATTR_FLOATS},                                                              \
    {.name = "activations", .type = OPF_ATTR_STRINGS},                                                                 \
    {.name = "clip", .type = OPF_ATTR_FLOAT},                                                                          \
    {.name = "direction", .type = OPF_ATTR_STRING, .s = "forward"},                                                    \
    {.name = "hidden_size", .type = OPF_ATTR_INT},                                                                     \
    {.name = "layout", .type = OPF_ATTR_INT}
/* clang-format on */
static const opf_attr_def rnn_attrs[]  = {COMMON_ATTRS};
static const opf_attr_def gru_attrs[]  = {COMMON_ATTRS, {.name = "linear_before_reset", .type = OPF_ATTR_INT}};
static const opf_attr_def lstm_attrs[] = {COMMON_ATTRS, {.name = "input_forget", .type = OPF_ATTR_INT}};

#define DEFINE_RECURRENT(op_name, recurrence, in_count, out_count)                                                     \
    static opf_status infer_##recurrence(opf_infer *infer, opf_error *error)                                           \
    {                                                                                                                  \
        return opf_recurrent_infer(infer, &recurrence, error);                                                         \
    }                                                                                                                  \
    static opf_status run_##recurrence(const opf_call *call, opf_error *error)                                         \
    {                                                                                                                  \
        return opf_recurrent_run(call, &recurrence, error);                                                            \
    }                                                                                                                  \
    const opf_op opf_op_##op_name = {.name      = #op_name,                                                            \
                                     .domain    = "",                                                                  \
                                     .since     = 1,                                                                   \
                                     .traits    = OPF_CONTRACTION,                                                     \
                                     .inputs    = inputs,                                                              \
                                     .n_inputs  = (in_count),                                                          \
                                     .outputs   = outputs,                                                             \
                                     .n_outputs = (out_count),                                                         \
                                     .attrs     = recurrence##_attrs,                                                  \
                                     .n_attrs   = OPF_COUNT(recurrence##_attrs),                                       \
                                     .rows      = opf_recurrent_rows,                                                  \
                                     .n_rows    = OPF_RECURRENT_ROWS,                                                  \
                                     .infer     = infer_##recurrence,                                                  \
                                     .reference = run_##recurrence}
DEFINE_RECURRENT(RNN, rnn, 6, 2);
DEFINE_RECURRENT(GRU, gru, 6, 2);
DEFINE_RECURRENT(LSTM, lstm, 8, 3);
