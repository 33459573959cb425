/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The equation of Einsum. Every letter is a label, and so is each dimension that an ellipsis stands for, counted from
 * the last one.
 */
#ifndef OPF_OPS_EINSUM_H
#define OPF_OPS_EINSUM_H

#include "ops/op.h"

enum { OPF_EINSUM_LETTERS = 52, OPF_EINSUM_LABELS = OPF_EINSUM_LETTERS + OPF_MAX_RANK, OPF_EINSUM_OPERANDS = 64 };

/* The labels of a tensor's axes. */
typedef struct opf_einsum_term {
    int32_t n;
    int8_t  labels[OPF_MAX_RANK + 1];
    int32_t ellipsis; /* how many dimensions stand for it; -1: it is not there */
} opf_einsum_term;

typedef struct opf_einsum_equation {
    opf_einsum_term in[OPF_EINSUM_OPERANDS], out;
    uint32_t        n_in;
} opf_einsum_equation;

opf_status opf_einsum_parse(const char *text, const int32_t *ranks, uint32_t n_in, opf_einsum_equation *equation,
                            opf_error *error);
bool opf_einsum_has(const opf_einsum_term *term, int32_t label);

#endif
