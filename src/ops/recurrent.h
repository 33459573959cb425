/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What RNN, GRU and LSTM share: shapes, directions, lengths, activations. An operator adds what one step does with the
 * sums of its gates. Everything is in dense doubles, one sequence at a time.
 */
#ifndef OPF_OPS_RECURRENT_H
#define OPF_OPS_RECURRENT_H

#include "ops/infer.h"
#include "ops/reference.h"

enum { OPF_CELL_GATES = 4, OPF_CELL_FUNCTIONS = 3 };

/* f(x) = an activation of ONNX with its alpha and beta. */
typedef struct opf_activation {
    double (*function)(double x, double alpha, double beta);
    double alpha, beta;
} opf_activation;

static inline double opf_activate(const opf_activation *f, double x)
{
    return f->function(x, f->alpha, f->beta);
}

/* One direction of one sequence at work. Weights are transposed: a row holds what one input adds to all gates. */
typedef struct opf_cell {
    int64_t        inputs, hidden, gates;
    double         clip; /* infinity: none */
    opf_activation f[OPF_CELL_FUNCTIONS];
    bool           linear_before_reset, input_forget;
    double        *w, *r;           /* [inputs][gates*hidden], [hidden][gates*hidden] */
    double        *w_bias, *r_bias; /* [gates*hidden] */
    double        *peephole;        /* [3*hidden], LSTM's */
    double        *x, *h, *c;       /* the step's input, the states */
    double        *sum;             /* [gates*hidden]: w x + w_bias */
    double        *scratch;         /* [2*hidden] */
} opf_cell;

/* sum[j] += scale * matrix[k][first + j] * vector[k], j < n: some gates of w or r. */
void opf_cell_add(const opf_cell *cell, const double *matrix, const double *vector, int64_t n_vector, int64_t first,
                  int64_t n, double *sum);
static inline double opf_cell_clip(const opf_cell *cell, double x)
{
    return x > cell->clip ? cell->clip : x < -cell->clip ? -cell->clip : x;
}

/* What tells the operators apart. Inputs are X, W, R, B, sequence_lens, initial_h, and LSTM's initial_c, P. */
typedef struct opf_recurrence {
    int64_t     gates;
    uint32_t    functions;                    /* activations of one direction */
    const char *defaults[OPF_CELL_FUNCTIONS]; /* their names */
    void (*step)(opf_cell *cell);             /* sums to new states; r h is still to be added */
} opf_recurrence;

opf_status opf_recurrent_infer(opf_infer *infer, const opf_recurrence *recurrence, opf_error *error);
opf_status opf_recurrent_run(const opf_call *call, const opf_recurrence *recurrence, opf_error *error);

/* Importer rows of all three. */
extern const opf_import_row opf_recurrent_rows[];
enum { OPF_RECURRENT_ROWS = 4 };

#endif
