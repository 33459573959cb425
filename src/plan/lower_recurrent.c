/* SPDX-License-Identifier: Apache-2.0 */
/* RNN, GRU and LSTM on constant weights and whole sequences, with activations that have kernels. */
#include "plan/recurrent_run.h"
#include "base/round.h"

#include <string.h>
#include <strings.h>

enum { X = 0, W, R, B, LENGTHS, INITIAL_H, INITIAL_C, P };
enum { Y = 0, Y_H, Y_C };

/* In the order of opf_recurrent_cell. */
static const struct {
    const opf_op *op;
    const char *kernel;
    int64_t gates;
    uint32_t n_functions; /* of a direction */
    opf_ew functions[OPF_RECURRENT_FUNCTIONS];
} cells[] = {{&opf_op_RNN, "rnn_f32", 1, 1, {OPF_EW_TANH}},
             {&opf_op_GRU, "gru_f32", 3, 2, {OPF_EW_SIGMOID, OPF_EW_TANH}},
             {&opf_op_LSTM, "lstm_f32", 4, 3, {OPF_EW_SIGMOID, OPF_EW_TANH, OPF_EW_TANH}}};

/* ---- weights ---- */

/* numbers: first, n, nr */
static void build_gates(const opf_kern *kern, const opf_const *c, const int64_t *numbers, int64_t unit, void *dst, void *scratch)
{
    const int64_t n = numbers[1], nr = numbers[2], k = c->dims[2], panels = opf_round_up(n, nr) / nr,
                  n0 = unit % panels * nr;
    const int64_t cols = n - n0 < nr ? n - n0 : nr;
    float *panel = (float *)dst + unit * k * nr, *rows = scratch;
    opf_const_read_f32(c, (int64_t[]){unit / panels, numbers[0] + n0, 0}, (int64_t[]){1, cols, k}, rows);
    opf_pack_rows(kern, rows, cols, k, 1, nr, panel);
}

/* Rows [first, first + n) of each of the matrices [directions, rows, k] to panels [directions][n/nr][k][nr]. */
static opf_weight_format format_gates(const opf_const *c, int64_t first, int64_t n, int64_t nr)
{
    return (opf_weight_format){.name = "gates",
                               .numbers = {first, n, nr},
                               .bytes = (size_t)(c->dims[0] * opf_round_up(n, nr) * c->dims[2]) * sizeof(float),
                               .units = c->dims[0] * (opf_round_up(n, nr) / nr),
                               .build = build_gates,
                               .scratch_bytes = (size_t)(c->dims[2] * nr) * sizeof(float)};
}

/* numbers: first, n, summed, nr */
static void build_gate_bias(const opf_kern *kern, const opf_const *c, const int64_t *numbers, int64_t unit, void *dst, void *scratch)
{
    (void)kern;
    const int64_t first = numbers[0], n = numbers[1], summed = numbers[2], padded = opf_round_up(n, numbers[3]);
    float *to = (float *)dst + unit * padded, *more = scratch;
    memset(to, 0, (size_t)padded * sizeof *to);
    opf_const_read_f32(c, (int64_t[]){unit, first}, (int64_t[]){1, n}, to);
    if (summed != 0)
        opf_const_read_f32(c, (int64_t[]){unit, first + c->dims[1] / 2}, (int64_t[]){1, summed}, more);
    for (int64_t i = 0; i < summed; i++)
        to[i] += more[i];
}

/* Columns [first, first + n) of the biases [directions, those of W, those of R]; the leading `summed` of them, which
   belong to W, have those of R added. */
static opf_weight_format format_gate_bias(const opf_const *c, int64_t first, int64_t n, int64_t summed, int64_t nr)
{
    return (opf_weight_format){.name = "gate_bias",
                               .numbers = {first, n, summed, nr},
                               .bytes = (size_t)(c->dims[0] * opf_round_up(n, nr)) * sizeof(float),
                               .units = c->dims[0],
                               .build = build_gate_bias,
                               .scratch_bytes = (size_t)summed * sizeof(float)};
}

static opf_status take_matrix(opf_planner *planner, const opf_const *c, int64_t first, int64_t n,
                              opf_recurrent_matrix *m, opf_error *error)
{
    const opf_weight_format format = format_gates(c, first, n, (int64_t)planner->options->kern->nr);
    m->k = (size_t)c->dims[2];
    m->n = (size_t)n;
    m->panels = opf_weights_get(planner->options->weights, c, &format);
    OPF_OOM_IF(error, m->panels == NULL);
    return OPF_OK;
}

static opf_status take_bias(opf_planner *planner, const opf_const *c, int64_t first, int64_t summed,
                            opf_recurrent_matrix *m, opf_error *error)
{
    if (c == NULL)
        return OPF_OK;
    const opf_weight_format format =
        format_gate_bias(c, first, (int64_t)m->n, summed, (int64_t)planner->options->kern->nr);
    m->bias = opf_weights_get(planner->options->weights, c, &format);
    OPF_OOM_IF(error, m->bias == NULL);
    return OPF_OK;
}

/* Biases of R go with those of W, but for the one that a reset gate multiplies together with R h. */
static opf_status take_weights(opf_planner *planner, const opf_const *const *constants, opf_recurrent_args *a,
                               opf_error *error)
{
    const int64_t hidden = constants[R]->dims[2], sums = cells[a->cell].gates * hidden;
    const int64_t together = a->cell == OPF_CELL_GRU ? 2 * hidden : sums;
    OPF_TRY(take_matrix(planner, constants[W], 0, sums, &a->input, error));
    OPF_TRY(take_bias(planner, constants[B], 0, a->resets_product ? together : sums, &a->input, error));
    OPF_TRY(take_matrix(planner, constants[R], 0, together, &a->state, error));
    if (a->cell != OPF_CELL_GRU)
        return OPF_OK;
    OPF_TRY(take_matrix(planner, constants[R], together, hidden, &a->reset, error));
    return a->resets_product ? take_bias(planner, constants[B], sums + together, 0, &a->reset, error) : OPF_OK;
}

/* ---- what it takes ---- */

static opf_value_id input_of(const opf_node *node, uint32_t i)
{
    return i < node->n_own_inputs ? node->inputs[i] : 0;
}

static opf_value_id output_of(const opf_node *node, uint32_t o)
{
    return o < node->n_own_outputs ? node->outputs[o] : 0;
}

static bool find_cell(const opf_node *node, opf_recurrent_args *a)
{
    for (size_t i = 0; i < sizeof cells / sizeof *cells; i++)
        if (node->op == cells[i].op) {
            a->cell = (opf_recurrent_cell)i;
            return true;
        }
    return false;
}

/* Directions, and the functions of each. False: one has no kernel without parameters. */
static bool read_functions(const opf_node *node, opf_recurrent_args *a)
{
    static const struct {
        const char *name;
        opf_ew ew;
    } known[] = {{"Relu", OPF_EW_RELU},
                 {"Sigmoid", OPF_EW_SIGMOID},
                 {"Softplus", OPF_EW_SOFTPLUS},
                 {"Softsign", OPF_EW_SOFTSIGN},
                 {"Tanh", OPF_EW_TANH}};
    const size_t n_known = sizeof known / sizeof *known;
    const opf_attr *names = opf_node_attr(node, "activations");
    const char *direction = opf_node_string(node, "direction", "forward");
    const uint32_t n = cells[a->cell].n_functions;
    a->ways = strcmp(direction, "bidirectional") == 0 ? 2 : 1;
    for (size_t way = 0; way < a->ways; way++) {
        a->backwards[way] = way == 1 || strcmp(direction, "reverse") == 0;
        memcpy(a->f[way], cells[a->cell].functions, sizeof a->f[way]);
        for (uint32_t i = 0; names != NULL && names->n != 0 && i < n; i++) {
            size_t k = 0;
            while (k < n_known && strcasecmp(names->strings[way * n + i], known[k].name) != 0)
                k++;
            if (k == n_known)
                return false;
            a->f[way][i] = known[k].ew;
        }
    }
    return true;
}

static bool is_whole_sequence(const opf_planner *planner, opf_value_id lengths, int64_t steps)
{
    if (lengths == 0)
        return true;
    const opf_const *c = opf_graph_value(planner->graph, lengths)->constant;
    const opf_info *info = &planner->infos[lengths];
    if (c == NULL && !opf_info_is_known(info))
        return false;
    const size_t n = c != NULL ? c->count : (size_t)info->n_values;
    for (size_t i = 0; i < n; i++)
        if ((c != NULL ? opf_const_i64_at(c, i) : info->values[i].n) != steps)
            return false;
    return true;
}

/* Constants W, R and B, or NULL for a B that is not there. */
static bool find_constants(const opf_planner *planner, const opf_node *node, const opf_const **constants)
{
    for (uint32_t i = W; i <= B; i++) {
        const opf_value_id value = input_of(node, i);
        constants[i] = value == 0 ? NULL : opf_graph_value(planner->graph, value)->constant;
        if (constants[i] == NULL ? i != B || value != 0 : constants[i]->type != OPF_FLOAT)
            return false;
    }
    return true;
}

/* ---- lowering ---- */

/* Axes of X, Y and the states, by layout. */
static void set_rows(opf_recurrent_rows *rows, const opf_place *place, bool batch_first)
{
    const int64_t *s = place->strides;
    const bool is_y = place->rank == 4;
    rows->ref = opf_place_ref(place);
    rows->batch = (ptrdiff_t)s[batch_first ? 0 : is_y ? 2 : 1];
    rows->way = (ptrdiff_t)s[is_y ? (batch_first ? 2 : 1) : (batch_first ? 1 : 0)];
    rows->time = is_y ? (ptrdiff_t)s[batch_first ? 1 : 0] : 0;
    rows->col = (ptrdiff_t)s[place->rank - 1];
}

static opf_status place_inputs(opf_planner *planner, const opf_node *node, opf_recurrent_args *a, opf_place *places,
                               opf_error *error)
{
    OPF_TRY(opf_plan_place(planner, node->inputs[X], &places[X], error));
    if (places[X].strides[2] != 1 && places[X].dims[2] > 1)
        OPF_TRY(opf_plan_dense(planner, &places[X], NULL, error));
    a->x = (opf_recurrent_rows){.ref = opf_place_ref(&places[X]),
                                .time = (ptrdiff_t)places[X].strides[a->batch_first ? 1 : 0],
                                .batch = (ptrdiff_t)places[X].strides[a->batch_first ? 0 : 1]};
    for (uint32_t i = INITIAL_H; i <= INITIAL_C; i++) {
        if (input_of(node, i) == 0)
            continue;
        OPF_TRY(opf_plan_place(planner, node->inputs[i], &places[i], error));
        set_rows(i == INITIAL_H ? &a->initial_h : &a->initial_c, &places[i], a->batch_first);
    }
    return OPF_OK;
}

/* Y in the order that its reader wants, where its rows stay whole. */
static opf_status place_outputs(opf_planner *planner, const opf_node *node, const opf_lowered *lowered,
                                opf_recurrent_args *a, opf_place *places, opf_error *error)
{
    opf_recurrent_rows *const rows[] = {&a->y, &a->last_h, &a->last_c};
    for (uint32_t o = Y; o <= Y_C; o++) {
        const opf_value_id value = output_of(node, o);
        if (value == 0)
            continue;
        const int32_t *order = o == Y && lowered->program.n_stores == 0 ? planner->order_of[value] : NULL;
        OPF_TRY(opf_plan_alloc(planner, value, order != NULL && order[3] == 3 ? order : NULL, &places[o], error));
        set_rows(rows[o], &places[o], a->batch_first);
    }
    return OPF_OK;
}

/* Rows of the batch share the panels of R that they read: few, so that there is work for several threads, but where R
   does not stay in cache. Inputs of several time steps share those of W. */
static void choose_sizes(opf_recurrent_args *a, const opf_kern *kern)
{
    enum { ROWS = 48, LARGE = 1 << 16 };
    const size_t most = a->hidden * a->input.n > LARGE ? 4 * kern->mr : kern->mr;
    a->blocks = (a->batch + most - 1) / most;
    a->rows = a->blocks == 0 ? 0 : (a->batch + a->blocks - 1) / a->blocks;
    a->chunk = a->rows == 0 || a->rows > ROWS ? 1 : ROWS / a->rows;
    if (a->chunk > a->steps)
        a->chunk = a->steps;
}

static opf_status add_step(opf_planner *planner, const opf_node *node, const opf_lowered *lowered,
                           opf_recurrent_args *a, opf_error *error)
{
    const opf_split split = {.outer_first = 0, .outer_last = 1, .row_first = 2, .row_last = 2, .col = 3};
    opf_place in[INITIAL_C + 1] = {0}, out[Y_C + 1] = {0}, operands[OPF_PROGRAM_OPERANDS], stores[OPF_PROGRAM_OPERANDS];
    OPF_TRY(place_inputs(planner, node, a, in, error));
    OPF_TRY(place_outputs(planner, node, lowered, a, out, error));
    if (lowered->program.n != 0)
        OPF_TRY(opf_bind(planner, lowered, &out[Y], split, &a->epilogue, operands, stores, error));
    const double rows = (double)a->ways * (double)a->steps * (double)a->batch;
    const opf_plan_step step = {.kernel = cells[a->cell].kernel,
                                .run = opf_recurrent_run_blocks,
                                .args = a,
                                .units = a->ways * a->blocks,
                                .scratch_bytes = opf_recurrent_scratch(a, planner->options->kern),
                                .flops = 2 * rows * (double)a->input.n * (double)(a->input.k + a->hidden)};
    OPF_TRY(opf_plan_add_step(planner, &step, error));
    for (uint32_t i = X; i <= INITIAL_C; i++)
        opf_plan_reads(planner, &in[i]);
    for (uint32_t o = Y; o <= Y_C; o++)
        opf_plan_writes(planner, &out[o]);
    if (lowered->program.n != 0)
        opf_bound_touch(planner, &a->epilogue, operands, stores);
    return OPF_OK;
}

opf_status opf_lower_recurrent(opf_planner *planner, opf_node_id id, bool *done, opf_error *error)
{
    const opf_node *node = opf_graph_node(planner->graph, id);
    opf_recurrent_args args = {0};
    const opf_const *constants[B + 1];
    opf_lowered lowered;
    if (!find_cell(node, &args) || !read_functions(node, &args) || !find_constants(planner, node, constants))
        return OPF_OK;
    const opf_info *x = &planner->infos[node->inputs[X]];
    args.batch_first = opf_node_int(node, "layout", 0) != 0;
    args.resets_product = opf_node_int(node, "linear_before_reset", 0) != 0;
    args.steps = (size_t)x->dims[args.batch_first ? 1 : 0].n;
    args.batch = (size_t)x->dims[args.batch_first ? 0 : 1].n;
    args.hidden = (size_t)constants[R]->dims[2];
    if (x->type != OPF_FLOAT || opf_node_attr(node, "clip") != NULL || opf_node_int(node, "input_forget", 0) != 0 ||
        input_of(node, P) != 0 || !is_whole_sequence(planner, input_of(node, LENGTHS), (int64_t)args.steps) ||
        node->prologue.n != 0 || !opf_lower_steps(planner, node, &node->epilogue, &lowered))
        return OPF_OK;
    *done = true;
    OPF_TRY(take_weights(planner, constants, &args, error));
    choose_sizes(&args, planner->options->kern);
    opf_recurrent_args *kept = opf_arena_copy(planner->arena, &args, sizeof args);
    OPF_OOM_IF(error, kept == NULL);
    return add_step(planner, node, &lowered, kept, error);
}
