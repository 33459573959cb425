/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RNN, GRU and LSTM on the product kernel: what the input adds to the gates of several time steps is one product, what
 * the state adds is a product a step, on top of it; gates are elementwise kernels on rows.
 */
#ifndef OPF_PLAN_RECURRENT_RUN_H
#define OPF_PLAN_RECURRENT_RUN_H

#include "plan/steps.h"

enum { OPF_RECURRENT_WAYS = 2, OPF_RECURRENT_FUNCTIONS = 3 };

typedef enum opf_recurrent_cell { OPF_CELL_RNN, OPF_CELL_GRU, OPF_CELL_LSTM } opf_recurrent_cell;

/* Packed, for each direction: rows of k elements to n sums. */
typedef struct opf_recurrent_matrix {
    size_t k, n;
    const float *panels; /* [directions][n/nr][k][nr] */
    const float *bias;   /* [directions][n/nr*nr], or NULL */
} opf_recurrent_matrix;

/* X, Y or a state: rows of contiguous elements (of a state that is read: col apart). Strides in floats. */
typedef struct opf_recurrent_rows {
    opf_ref ref; /* buffer 0: absent */
    ptrdiff_t time, way, batch, col;
} opf_recurrent_rows;

typedef struct opf_recurrent_args {
    opf_recurrent_cell cell;
    bool resets_product; /* GRU's linear_before_reset: the reset gate multiplies R h and not h */
    bool batch_first;    /* Y is [batch, time, way], else [time, way, batch] */
    bool backwards[OPF_RECURRENT_WAYS];
    opf_ew f[OPF_RECURRENT_WAYS][OPF_RECURRENT_FUNCTIONS];
    size_t ways, steps, batch, hidden;
    size_t rows, blocks; /* rows of the batch that go together, at most, and how many such blocks there are */
    size_t chunk;        /* time steps whose inputs are multiplied at once */
    opf_recurrent_matrix input, state; /* W; R of all gates, but for GRU's last */
    opf_recurrent_matrix reset;        /* that one */
    opf_recurrent_rows x, y, initial_h, initial_c, last_h, last_c;
    opf_bound epilogue; /* of Y; program.n 0: none */
} opf_recurrent_args;

/* The step's run function, whose units are blocks of rows of each direction, and the bytes of scratch that it needs. */
void opf_recurrent_run_blocks(const opf_run_env *env, const void *args, size_t begin, size_t end, void *scratch);
size_t opf_recurrent_scratch(const opf_recurrent_args *args, const opf_kern *kern);

#endif
