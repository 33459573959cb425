/* SPDX-License-Identifier: Apache-2.0 */
/* The discrete Fourier transform of one line, shared by DFT and STFT: in double, for any length. */
#ifndef OPF_OPS_DFT_H
#define OPF_OPS_DFT_H

#include "ops/infer.h"
#include "ops/reference.h"

#define OPF_DFT_SIZES (OPF_TYPE_BIT(OPF_INT32) | OPF_TYPE_BIT(OPF_INT64))

typedef struct opf_complex {
    double re, im;
} opf_complex;

typedef struct opf_dft {
    int64_t      length;
    opf_complex *roots;
    opf_complex *src, *dst; /* `length` each: fill src, run, read dst */
    opf_heap    *heap;
    size_t       bytes;
} opf_dft;

opf_status opf_dft_start(opf_dft *dft, int64_t length, opf_heap *heap, opf_error *error); /* length at least 1 */
void opf_dft_run(opf_dft *dft, bool inverse); /* the inverse divides by the length */
void opf_dft_end(opf_dft *dft);

/* n numbers of x, `step` apart, then zeros, `length` in all; real ones when the last dimension of x is not 2. */
void opf_dft_load(const opf_view *x, int64_t offset, int64_t step, int64_t n, opf_complex *dst, int64_t length);
/* Only the real parts when the last dimension of y is 1. */
void opf_dft_store(const opf_complex *src, int64_t n, opf_view *y, int64_t offset, int64_t step);

/* Fails unless the last dimension of input 0, whose rank is known, is 1 or 2, or what is demanded. */
opf_status opf_dft_check_parts(opf_infer *infer, bool must_be_real, bool must_be_complex, opf_error *error);
/* The one element of input i, an unknown if it is not known; fails when there are more or none. */
opf_status opf_dft_scalar(const opf_infer *infer, uint32_t i, opf_dim *value, opf_error *error);
/* Values of a one-sided spectrum: floor(length/2) + 1. */
opf_dim opf_dft_bins(opf_dims *dims, opf_dim length);

#endif
